// SPDX-License-Identifier: Apache-2.0
/*
 * Threads on two caches of one zone. Each object has one owner at a time: who takes it writes its
 * name into the bytes of the place, finds it there later, and takes it off before giving the
 * object back. ThreadSanitizer sees two owners of a byte as a race. One more thread reads numbers
 * and text, shrinks and checks, another makes a third cache and destroys it. Exit code 0: all is
 * well.
 */
#include <kv/alloc.h>

#include "alloc/slab.h"
#include "tests/alloc/slab_check.h"
#include "tests/support/threads.h"

#define NR_WORKERS	2u
#define NR_BLOCKS	64u
#define BLOCK_BYTES	64u
#define NR_HELD		40u
#define NR_ROUNDS	200000u

static const u64 object_bytes[2] = { 24, 96 };
static struct kvmm_slab_cache *caches[2];
static u8 memory[NR_BLOCKS * BLOCK_BYTES];	/* not atomic on purpose */
static u32 stop;				/* atomic */

struct worker {
	u8 name;
	u64 state;
	struct {
		kvmm_slab_obj_t obj;
		u32 cache;
		bool live;
	} held[NR_HELD];
};

static u32 below(struct worker *w, u32 nr)
{
	w->state ^= w->state << 13;
	w->state ^= w->state >> 7;
	w->state ^= w->state << 17;
	return (w->state >> 32) * nr >> 32;
}

/* Bytes of the object go from one value to another. */
static void write_name(u32 cache, kvmm_slab_obj_t obj, u8 from, u8 to)
{
	struct kvmm_slab_place place;

	expect(!kvmm_slab_places(caches[cache], 1, &obj, &place));
	for (u64 i = place.offset; i < place.offset + place.bytes; i++) {
		expect(memory[i] == from);
		memory[i] = to;
	}
}

static void step(struct worker *w)
{
	u32 at = below(w, NR_HELD), cache = below(w, 2);
	kvmm_slab_obj_t obj;
	int err;

	if (w->held[at].live) {
		obj = w->held[at].obj;
		write_name(w->held[at].cache, obj, w->name, 0);
		expect(!kvmm_slab_free(caches[w->held[at].cache], 1, &obj));
		expect(kvmm_slab_free(caches[w->held[at].cache], 1, &obj) == -ESTALE);
		w->held[at].live = false;
		return;
	}
	err = kvmm_slab_alloc(caches[cache], 1, &obj);
	expect(!err || err == -ENOSPC);
	if (err)
		return;
	write_name(cache, obj, 0, w->name);
	w->held[at].obj = obj;
	w->held[at].cache = cache;
	w->held[at].live = true;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (u32 i = 0; i < NR_ROUNDS; i++)
		step(w);
	for (u32 i = 0; i < NR_HELD; i++) {
		if (!w->held[i].live)
			continue;
		write_name(w->held[i].cache, w->held[i].obj, w->name, 0);
		expect(!kvmm_slab_free(caches[w->held[i].cache], 1, &w->held[i].obj));
	}
	return NULL;
}

static void *look(void *arg)
{
	struct kvmm_slab_stat stat;
	char text[1024];

	while (!READ_ONCE(stop)) {
		expect(!kvmm_slab_get_stat(caches[0], &stat));
		expect(stat.held_bytes == stat.live_bytes + stat.slack_bytes + stat.unused_bytes);
		expect(kv_slab_info(text, sizeof(text)) > 0);
		expect(!kv_slab_cache_check(caches[stat.nr_objects & 1]));
		slab_shrink(caches[0]);
	}
	return NULL;
}

/* A cache of the same blocks comes, keeps what it had, and goes: others may reclaim that
 * meanwhile. */
static void *come_and_go(void *arg)
{
	struct kvmm_slab_attr attr = { .size = sizeof(attr), .name = "guest", .object_bytes = 64,
				       .base_block_bytes = BLOCK_BYTES, .keep_empty = 8,
				       .beside = caches[0] };

	while (!READ_ONCE(stop)) {
		kvmm_slab_obj_t objs[4];
		struct kvmm_slab_cache *guest;

		expect(!kvmm_slab_cache_create(&attr, &guest));
		if (!kvmm_slab_alloc(guest, 4, objs))
			expect(!kvmm_slab_free(guest, 4, objs));
		kvmm_slab_cache_destroy(guest);
	}
	return NULL;
}

static void open_caches(void)
{
	struct kvmm_slab_attr attr = { .size = sizeof(attr), .base_block_bytes = BLOCK_BYTES,
				       .max_waste_pm = 250 };

	for (u32 i = 0; i < 2; i++) {
		attr.name = i ? "wide" : "narrow";
		attr.object_bytes = object_bytes[i];
		attr.keep_empty = i;
		attr.nr_blocks = i ? 0 : NR_BLOCKS;
		attr.beside = i ? caches[0] : NULL;
		expect(!kvmm_slab_cache_create(&attr, &caches[i]));
	}
}

int main(void)
{
	struct worker workers[NR_WORKERS] = { 0 };
	pthread_t thread[NR_WORKERS], looker, guest;

	open_caches();
	pthread_create(&looker, NULL, look, NULL);
	pthread_create(&guest, NULL, come_and_go, NULL);
	for (u32 i = 0; i < NR_WORKERS; i++) {
		workers[i].name = i + 1;
		workers[i].state = 77 * (i + 1);
		pthread_create(&thread[i], NULL, work, &workers[i]);
	}
	threads_join(thread, NR_WORKERS);
	WRITE_ONCE(stop, 1);
	pthread_join(looker, NULL);
	pthread_join(guest, NULL);
	for (u32 i = 0; i < 2; i++) {
		expect(!kv_slab_cache_check(caches[i]));
		kvmm_slab_cache_destroy(caches[i]);
	}
	return !!nr_bad;
}
