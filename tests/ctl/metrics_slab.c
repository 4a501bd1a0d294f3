// SPDX-License-Identifier: Apache-2.0
/*
 * Two slab caches of one name, each with blocks of its own. Slabs are counted from those that its zone
 * misses, and how full they are from where objects lie.
 */
#include <kv/mem.h>
#include <kv/zone.h>

#include "alloc/slab.h"
#include "metrics_run.h"

#define NR_CACHES	2u
#define NR_BLOCKS	96u
#define BLOCK_BYTES	4096u
#define NR_OBJECTS	600u

static struct {
	struct kvmm_slab_cache *cache;
	struct kv_slab_shape shape;
	kvmm_slab_obj_t obj[NR_OBJECTS];
	u32 nr, nr_slabs;
	u64 object_bytes, taken, freed, made, returned, nospc, metadata_bytes;
} of[NR_CACHES];

static u32 nr_slabs_of(u32 i)
{
	struct kv_zone_stat stat;

	kv_zone_get_stat(of[i].cache->zone, &stat);
	return (NR_BLOCKS - stat.nr_free) / of[i].shape.nr_blocks;
}

/* No call makes slabs and gives others back. */
static void see_slabs(u32 i)
{
	u32 nr = nr_slabs_of(i);

	if (nr > of[i].nr_slabs)
		of[i].made += nr - of[i].nr_slabs;
	else
		of[i].returned += of[i].nr_slabs - nr;
	of[i].nr_slabs = nr;
}

static void take(u32 i)
{
	u32 nr = 1 + any(any(8) ? 12 : 200);
	int err;

	if (of[i].nr + nr > NR_OBJECTS)
		return;
	err = kvmm_slab_alloc(of[i].cache, nr, of[i].obj + of[i].nr);
	if (err && err != -ENOSPC)
		must(err, "slab_alloc");
	of[i].nospc += err == -ENOSPC;
	of[i].taken += err ? 0 : nr;
	of[i].nr += err ? 0 : nr;
}

static void give(u32 i)
{
	for (u32 k = 1 + any(any(8) ? 12 : 200); k && of[i].nr; k--) {
		u32 at = any(of[i].nr);

		must(kvmm_slab_free(of[i].cache, 1, &of[i].obj[at]), "slab_free");
		of[i].obj[at] = of[i].obj[--of[i].nr];
		of[i].freed++;
		see_slabs(i);
	}
}

static void shrink(u32 i)
{
	slab_shrink(of[i].cache);
}

static void slab_use(void)
{
	static void (*const ops[])(u32 i) = { take, take, take, take, give, give, give, give, shrink };
	u32 i = any(NR_CACHES);
	u64 before = kv_mem_bytes();

	ops[any(ARRAY_SIZE(ops))](i);
	of[i].metadata_bytes += kv_mem_bytes() - before;
	see_slabs(i);
}

static void expect_slab(const char *name, u32 i, const char *more, u64 number)
{
	char labels[64];

	snprintf(labels, sizeof(labels), "cache=\"%s\"%s", i ? "state" : "state#1", more);
	expect_labels(name, labels, number);
}

/* Objects live in slabs by the first block of those. */
static void count_slabs(u32 i, u32 *nr_full, u32 *nr_partial)
{
	struct kvmm_slab_place place;
	u32 nr_in[NR_BLOCKS] = { 0 };

	for (u32 k = 0; k < of[i].nr; k++) {
		must(kvmm_slab_places(of[i].cache, 1, &of[i].obj[k], &place), "slab_places");
		nr_in[place.run.start]++;
	}
	*nr_full = *nr_partial = 0;
	for (u32 b = 0; b < NR_BLOCKS; b++) {
		*nr_full += nr_in[b] == of[i].shape.nr_objects;
		*nr_partial += nr_in[b] && nr_in[b] < of[i].shape.nr_objects;
	}
}

static void expect_cache(u32 i)
{
	u64 nr_slots = (u64)of[i].nr_slabs * of[i].shape.nr_objects;
	u64 held = (u64)of[i].nr_slabs * of[i].shape.nr_blocks * BLOCK_BYTES;
	u32 nr_full, nr_partial;

	count_slabs(i, &nr_full, &nr_partial);
	expect_slab("kvmm_slab_metadata_bytes", i, "", of[i].metadata_bytes);
	expect_slab("kvmm_slab_objects", i, "", of[i].nr);
	expect_slab("kvmm_slab_slots", i, "", nr_slots);
	expect_slab("kvmm_slabs", i, ",state=\"full\"", nr_full);
	expect_slab("kvmm_slabs", i, ",state=\"partial\"", nr_partial);
	expect_slab("kvmm_slabs", i, ",state=\"empty\"", of[i].nr_slabs - nr_full - nr_partial);
	expect_slab("kvmm_slab_blocks", i, "", of[i].nr_slabs * of[i].shape.nr_blocks);
	expect_slab("kvmm_slab_held_bytes", i, "", held);
	expect_slab("kvmm_slab_live_bytes", i, "", of[i].nr * of[i].object_bytes);
	expect_slab("kvmm_slab_slack_bytes", i, "", held - nr_slots * of[i].object_bytes);
	expect_slab("kvmm_slab_unused_bytes", i, "", (nr_slots - of[i].nr) * of[i].object_bytes);
	expect_slab("kvmm_slab_allocated_objects_total", i, "", of[i].taken);
	expect_slab("kvmm_slab_freed_objects_total", i, "", of[i].freed);
	expect_slab("kvmm_slab_made_slabs_total", i, "", of[i].made);
	expect_slab("kvmm_slab_returned_slabs_total", i, "", of[i].returned);
	expect_slab("kvmm_slab_no_space_total", i, "", of[i].nospc);
}

static void slab_expect(void)
{
	for (u32 i = 0; i < NR_CACHES; i++)
		expect_cache(i);
}

static void make_cache(u32 i)
{
	struct kvmm_slab_attr attr = { .size = sizeof(attr), .name = "state",
				       .nr_blocks = NR_BLOCKS };

	attr.object_bytes = of[i].object_bytes = i ? 1500 : 700;
	attr.base_block_bytes = BLOCK_BYTES;
	attr.max_waste_pm = 300;
	attr.keep_empty = i;
	of[i].metadata_bytes = -kv_mem_bytes();
	must(kvmm_slab_cache_create(&attr, &of[i].cache), "slab cache");
	of[i].metadata_bytes += kv_mem_bytes() - of[i].cache->zone->metadata_bytes;
	of[i].shape = of[i].cache->shape;
}

static struct kvmm_pool *caches_make(const char *dir)
{
	for (u32 i = 0; i < NR_CACHES; i++)
		make_cache(i);
	return NULL;
}

static void slab_end(void)
{
	for (u32 i = 0; i < NR_CACHES; i++)
		kvmm_slab_cache_destroy(of[i].cache);
}

const struct part metrics_slab = { caches_make, slab_use, slab_expect, slab_end };
