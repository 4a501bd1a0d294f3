// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls on caches that share a zone, against a model that only knows bytes and counts.
 *
 *	KVMM_SEED=n		repeat a run (it is printed)
 *	KVMM_MODEL_OPS=n	calls, 60000 if not set
 *
 * The model has an owner for each byte of the zone and, for each run that a place has named, the
 * number of objects that live there. From the definitions it says whether a batch must succeed,
 * that each object comes from a slab than which none with room is fuller, that no byte has two
 * owners, and which runs must be free again.
 */
#include <kv/env.h>
#include <kv/zone.h>

#include "alloc/slab.h"
#include "tests/alloc/slab_util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	96u
#define BLOCK_BYTES	64u
#define NR_CACHES	3u
#define MAX_LIVE	1024u
#define MAX_BATCH	24u
#define NOBODY		0xff

struct live {
	kvmm_slab_obj_t obj;
	struct kvmm_slab_place place;
};

struct model_cache {
	struct kvmm_slab_cache *cache;
	struct kv_slab_shape shape;
	u64 align;
	u32 keep_empty;
	struct live live[MAX_LIVE];
	u32 nr_live;
	kvmm_slab_obj_t stale[64];	/* the latest ones freed */
	u32 nr_stale;
	bool has[NR_BLOCKS];		/* a slab begins there */
	u32 used[NR_BLOCKS];		/* objects in it */
};

static struct model_cache model[NR_CACHES];
static u8 byte_owner[NR_BLOCKS * BLOCK_BYTES];
static u8 block_owner[NR_BLOCKS];
static struct kv_zone *zone;
/* Slabs of @nr blocks, aligned so, that fit between what is taken. */
static u32 count_fits(u32 nr, u32 align)
{
	u32 fits = 0;

	for (u32 at = 0; at + nr <= NR_BLOCKS;) {
		u32 len = 0;

		while (len < nr && block_owner[at + len] == NOBODY)
			len++;
		if (len == nr)
			fits++, at += nr;
		else
			at += len + 1;
		at = (at + align - 1) & ~(align - 1);
	}
	return fits;
}

static u32 room_of(const struct model_cache *m)
{
	u32 room = 0;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		room += m->has[i] ? m->shape.nr_objects - m->used[i] : 0;
	return room;
}

/* What the fullest slab with room has; -1: there is none. */
static int fullest(const struct model_cache *m)
{
	int used = -1;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		if (m->has[i] && m->used[i] < m->shape.nr_objects)
			used = max(used, (int)m->used[i]);
	return used;
}

static void own_bytes(const struct kvmm_slab_place *place, u8 from, u8 to)
{
	for (u64 i = place->offset; i < place->offset + place->bytes; i++) {
		cr_assert_eq(byte_owner[i], from, "byte %lu", i);
		byte_owner[i] = to;
	}
}

static void own_run(struct model_cache *m, struct kvmm_extent run, u8 from, u8 to)
{
	for (u32 i = run.start; i < run.start + run.nr; i++) {
		cr_assert_eq(block_owner[i], from, "block %u", i);
		block_owner[i] = to;
	}
	m->has[run.start] = to != NOBODY;
	m->used[run.start] = 0;
}

static u8 owner_of(const struct model_cache *m)
{
	return m - model;
}

static void took(struct model_cache *m, kvmm_slab_obj_t obj, int fullest_now)
{
	struct kvmm_slab_place p = slab_place(m->cache, obj);

	cr_assert_eq(p.run.nr, m->shape.nr_blocks);
	cr_assert_eq(p.offset & (m->align - 1), 0);
	cr_assert_geq(p.offset, (u64)p.run.start * BLOCK_BYTES);
	cr_assert_leq(p.offset + p.bytes, (u64)(p.run.start + p.run.nr) * BLOCK_BYTES);
	if (!m->has[p.run.start]) {
		cr_assert_leq(fullest_now, 0, "a new slab, though one had %d", fullest_now);
		own_run(m, p.run, NOBODY, owner_of(m));
	}
	/* New slabs of a batch are as empty as those that are kept. */
	cr_assert_eq(m->used[p.run.start], max(fullest_now, 0));
	cr_assert_lt(m->used[p.run.start], m->shape.nr_objects);
	m->used[p.run.start]++;
	own_bytes(&p, NOBODY, owner_of(m));
	m->live[m->nr_live++] = (struct live){ obj, p };
}

static bool fits(const struct model_cache *m, u32 nr)
{
	u32 room = room_of(m), k = m->shape.nr_objects;
	u32 missing = nr > room ? (nr - room + k - 1) / k : 0;

	return missing <= count_fits(m->shape.nr_blocks, m->shape.block_align);
}

/* What all caches keep empty goes back. */
static void reclaim(void)
{
	for (u32 c = 0; c < NR_CACHES; c++)
		for (u32 i = 0; i < NR_BLOCKS; i++)
			if (model[c].has[i] && !model[c].used[i])
				own_run(&model[c],
					(struct kvmm_extent){ i, model[c].shape.nr_blocks },
					owner_of(&model[c]), NOBODY);
}

static void do_alloc(struct model_cache *m)
{
	kvmm_slab_obj_t objs[MAX_BATCH];
	u32 nr = any(2) ? 1 : 1 + any(MAX_BATCH);
	int err = kvmm_slab_alloc(m->cache, nr, objs);

	if (!fits(m, nr))
		reclaim();
	cr_assert_eq(err, fits(m, nr) ? 0 : -ENOSPC, "%u more: %d", nr, err);
	for (u32 i = 0; !err && i < nr; i++)
		took(m, objs[i], fullest(m));
}

static u32 count_empty(const struct model_cache *m)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		nr += m->has[i] && !m->used[i];
	return nr;
}

static void gave(struct model_cache *m, u32 i)
{
	struct live *live = &m->live[i];
	struct kvmm_extent run = live->place.run;

	own_bytes(&live->place, owner_of(m), NOBODY);
	m->stale[m->nr_stale++ % 64] = live->obj;
	*live = m->live[--m->nr_live];
	if (!--m->used[run.start] && count_empty(m) > m->keep_empty)
		own_run(m, run, owner_of(m), NOBODY);
}

/* In the order of the batch, from the last on, so that nothing moves under it. */
static void do_free(struct model_cache *m)
{
	kvmm_slab_obj_t objs[MAX_BATCH];
	u32 nr = min(m->nr_live, any(2) ? 1 : 1 + any(MAX_BATCH)), first, i;

	if (!nr)
		return;
	first = any(m->nr_live - nr + 1);
	for (i = 0; i < nr; i++)
		objs[i] = m->live[first + nr - 1 - i].obj;
	cr_assert_eq(kvmm_slab_free(m->cache, nr, objs), 0);
	for (i = nr; i-- > 0;)
		gave(m, first + i);
}

/* A batch with one bad handle in it, somewhere: nothing happens. */
static void do_bad_free(struct model_cache *m)
{
	kvmm_slab_obj_t objs[MAX_BATCH];
	u32 nr = min(m->nr_live, 1 + any(MAX_BATCH)), bad;
	int err;

	if (!nr)
		return;
	for (u32 i = 0; i < nr; i++)
		objs[i] = m->live[i].obj;
	bad = any(nr);
	if (m->nr_stale && any(2))
		objs[bad] = m->stale[any(min(m->nr_stale, 64u))];
	else
		objs[bad] = (kvmm_slab_obj_t){ any(4096), 2 * any(1000) };
	err = kvmm_slab_free(m->cache, nr, objs);
	cr_assert(err == -ESTALE || err == -EINVAL, "%d", err);
}

static void do_shrink(struct model_cache *m)
{
	u32 nr = count_empty(m);

	cr_assert_eq(slab_shrink(m->cache), nr);
	for (u32 i = 0; i < NR_BLOCKS; i++)
		if (m->has[i] && !m->used[i])
			own_run(m, (struct kvmm_extent){ i, m->shape.nr_blocks }, owner_of(m),
				NOBODY);
}

static void compare(void)
{
	for (u32 i = 0; i < NR_BLOCKS; i++)
		cr_assert_eq(kv_zone_is_free(zone, i), block_owner[i] == NOBODY, "block %u", i);
	for (u32 c = 0; c < NR_CACHES; c++) {
		struct kvmm_slab_stat stat;

		cr_assert_eq(kv_slab_cache_check(model[c].cache), 0);
		cr_assert_eq(kvmm_slab_get_stat(model[c].cache, &stat), 0);
		cr_assert_eq(stat.nr_objects, model[c].nr_live);
		cr_assert_eq(stat.nr_slots - stat.nr_objects, room_of(&model[c]));
		cr_assert_eq(stat.nr_empty, count_empty(&model[c]));
		cr_assert_eq(stat.held_bytes,
			     stat.live_bytes + stat.slack_bytes + stat.unused_bytes);
	}
}

static void open_caches(void)
{
	static const struct {
		const char *name;
		u64 bytes, align, colour;
		u32 waste, keep;
	} shapes[NR_CACHES] = {
		{ "small", 12, 4, 4, 100, 0 },
		{ "odd", 48, 16, 0, 0, 2 },
		{ "long", 150, 2, 2, 150, 1 },
	};

	zone = slab_zone(NR_BLOCKS);
	memset(byte_owner, NOBODY, sizeof(byte_owner));
	memset(block_owner, NOBODY, sizeof(block_owner));
	for (u32 c = 0; c < NR_CACHES; c++) {
		struct kvmm_slab_attr attr = slab_attr(shapes[c].name, shapes[c].bytes);

		attr.align = shapes[c].align;
		attr.colour_bytes = shapes[c].colour;
		attr.max_waste_pm = shapes[c].waste;
		attr.keep_empty = shapes[c].keep;
		model[c] = (struct model_cache){ .cache = slab_cache_of(zone, &attr),
						 .align = attr.align,
						 .keep_empty = attr.keep_empty };
		cr_assert_eq(slab_shape(NR_BLOCKS, &attr, &model[c].shape), 0);
	}
}

Test(slab_model, caches_do_what_bytes_and_counts_say, .timeout = 3600)
{
	u64 seed = test_number("KVMM_SEED", kv_random() | 1), nr = test_length("KVMM_MODEL_OPS", 60000);

	printf("KVMM_SEED=%lu\n", seed);
	fflush(stdout);
	any_state = seed;
	open_caches();
	for (u64 i = 0; i < nr; i++) {
		struct model_cache *m = &model[any(NR_CACHES)];
		u32 dice = any(100), grow = i / 500 % 2 ? 60 : 35;	/* fill up, run dry */

		if (dice < grow)
			do_alloc(m);
		else if (dice < 92)
			do_free(m);
		else if (dice < 99)
			do_bad_free(m);
		else
			do_shrink(m);
		if (i % 64 == 0)
			compare();
	}
	compare();
	for (u32 c = 0; c < NR_CACHES; c++)
		kvmm_slab_cache_destroy(model[c].cache);
}
