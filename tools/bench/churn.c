// SPDX-License-Identifier: Apache-2.0
/*
 * Setting churn up, timing it in slices, and the allocators that are compared: kvmm's zone with
 * each of its engines, jemalloc, mimalloc, and one that does nothing, which shows how much of a
 * figure is the loop around the calls.
 *
 * The two malloc()s hand out 64 bytes a block. They have no bound, take no lock as long as a
 * thread's cache lasts and promise nothing about adjacency: they show what an allocator can cost,
 * not what one for device memory does.
 */
#include <dlfcn.h>
#include <pthread.h>

#include <kvmm/ext/admission.h>

#include "churn.h"

/* Of all that is live, before anything is counted. Single blocks only have to be out of order. */
#define WARM_TURNOVERS	20u
#define WARM_SINGLES	4u

/*
 * The next victim, chosen some turns ago: what is known of it has come into the cache meanwhile,
 * or a large zone would be charged for the table of its user. The
 * random numbers are of the cheapest kind that will do.
 */
static __always_inline u32 pick(struct churn *churn)
{
	u32 *ahead = &churn->ahead[churn->turn++ & (CHURN_AHEAD - 1)];
	u32 pick = *ahead;
	u64 x = churn->seed;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	churn->seed = x;
	*ahead = (u32)(((x >> 32) * churn->nr_live) >> 32);
	__builtin_prefetch(&churn->live[*ahead], 1);
	return pick < churn->nr_live ? pick : *ahead;
}

static __always_inline void drop(struct churn *churn)
{
	struct live *live = &churn->live[pick(churn)];
	struct live gone = *live;

	*live = churn->live[--churn->nr_live];
	churn->used -= gone.nr;
	churn->contender->free(churn->heap, gone.word, gone.nr);
}

static __always_inline int take(struct churn *churn, u32 nr)
{
	return churn->contender->alloc(churn->heap, nr, churn->live[churn->nr_live].word);
}

/* An allocator that refuses although it is empty ends the benchmark. */
static void make_room(struct churn *churn, u32 nr)
{
	churn->failures++;
	do {
		if (!churn->nr_live) {
			fprintf(stderr, "kvmm-bench: %s: empty, and refuses %u of %u blocks\n",
				churn->contender->name, nr, churn->nr_blocks);
			exit(1);
		}
		drop(churn);
	} while (take(churn, nr));
}

void churn_step(void *arg, u32 nr_requests)
{
	struct churn *churn = arg;

	for (u32 i = 0; i < nr_requests; i++) {
		u32 nr = churn->sizes->at[churn->at++ & (churn->sizes->nr - 1)];

		if (churn->nr_live >= churn->target)
			drop(churn);
		while (churn->used + nr > churn->limit)
			drop(churn);
		if (take(churn, nr))
			make_room(churn, nr);
		churn->live[churn->nr_live++].nr = nr;
		churn->used += nr;
		churn->held += churn->used;
	}
	churn->requests += nr_requests;
}

void churn_start(struct churn *churn, const struct contender *contender, void *heap,
		 const struct load *load)
{
	u32 held = (u64)load->nr_blocks * load->percent / 100;
	u32 nr_live = held / load->sizes->mean;

	*churn = (struct churn){
		.contender = contender,
		.heap = heap,
		.sizes = load->sizes,
		.nr_blocks = load->nr_blocks,
		.target = load->brimful ? load->nr_blocks : nr_live,
		.limit = load->brimful ? held : load->nr_blocks,
		.at = load->seed * 7919,
		.seed = load->seed ? load->seed : 1,
		/* Its user's table must not cost the zone its TLB entries. */
		.live = large_alloc((load->nr_blocks + 1) * sizeof(struct live)),
	};
	churn_step(churn, (load->sizes->mean > 1 ? WARM_TURNOVERS : WARM_SINGLES) * (nr_live + 1));
	/* Failures and occupancy count from now on. */
	churn->requests = churn->failures = churn->held = 0;
}

void churn_end(struct churn *churn)
{
	while (churn->nr_live)
		drop(churn);
	free(churn->live);
}

bool churn_open(struct churn *churn, const struct contender *contender, const struct load *load)
{
	void *heap = contender->open(contender->name, load->nr_blocks);

	if (heap)
		churn_start(churn, contender, heap, load);
	return heap;
}

void churn_close(struct churn *churn)
{
	if (!churn->heap)
		return;
	churn_end(churn);
	churn->contender->close(churn->heap);
}

/* ---- kvmm's zone ---- */

static int zone_alloc(void *heap, u32 nr, u32 *word)
{
	return kv_zone_alloc(heap, nr, word);
}

static void zone_free(void *heap, const u32 *word, u32 nr)
{
	kv_zone_free(heap, word[0], nr);
}

static void *zone_open(const char *name, u32 nr_blocks)
{
	struct kv_zone *zone;

	return open_zone(&zone, nr_blocks, name) ? NULL : zone;
}

static void zone_close(void *heap)
{
	kv_zone_destroy(heap);
}

/* ---- jemalloc, which the tools are linked with, and mimalloc, where it can be found ---- */

#define OBJECT_BYTES	64u

static char no_heap;

static void nothing_close(void *heap)
{
}

struct malloc_calls {
	void *(*alloc)(size_t bytes);
	void (*free)(void *mem);
};

static int malloc_alloc(void *heap, u32 nr, u32 *word)
{
	const struct malloc_calls *calls = heap;
	void *mem = calls->alloc((size_t)nr * OBJECT_BYTES);

	memcpy(word, &mem, sizeof(mem));
	return mem ? 0 : -1;
}

static void malloc_free(void *heap, const u32 *word, u32 nr)
{
	const struct malloc_calls *calls = heap;
	void *mem;

	memcpy(&mem, word, sizeof(mem));
	calls->free(mem);
}

/* Absent where a sanitizer's malloc has taken its place. */
extern int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len)
	__attribute__((weak));

static void *malloc_open(const char *name, u32 nr_blocks)
{
	static struct malloc_calls jemalloc = { malloc, free }, mimalloc;
	void *lib;

	if (!strcmp(name, "jemalloc"))
		return &mallctl ? &jemalloc : NULL;
	lib = mimalloc.free ? NULL : dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
	if (lib) {
		*(void **)&mimalloc.alloc = dlsym(lib, "mi_malloc");
		*(void **)&mimalloc.free = dlsym(lib, "mi_free");
	}
	return mimalloc.alloc && mimalloc.free ? &mimalloc : NULL;
}

/* ---- nothing: what the loop costs ---- */

static int driver_alloc(void *heap, u32 nr, u32 *word)
{
	word[0] = nr;
	return 0;
}

static void driver_free(void *heap, const u32 *word, u32 nr)
{
	/* The words must have been read, as any allocator would. */
	__asm__ volatile("" : : "r"(word[0]));
}

static void *driver_open(const char *name, u32 nr_blocks)
{
	return &no_heap;
}

/* ---- ranges of a pool ---- */

/* A range handle is the two words that churn keeps. */
static int keep_handle(int err, kvmm_range_t range, u32 *word)
{
	word[0] = range.index;
	word[1] = range.gen;
	return err;
}

static int pool_alloc(void *heap, u32 nr, u32 *word)
{
	kvmm_range_t range;

	return keep_handle(kvmm_range_alloc(heap, nr, KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT,
					    &range), range, word);
}

static int runs_alloc(void *heap, u32 nr, u32 *word)
{
	kvmm_range_t range;

	return keep_handle(kvmm_range_alloc(heap, nr, KVMM_RUNS(4) | KVMM_ALLOC_NO_COMPACT,
					    &range), range, word);
}

/* As an engine asks: each range is of a sequence of its own, and of a tenant. */
static int named_alloc(void *heap, u32 nr, u32 *word)
{
	static __thread uint64_t seq;
	const struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .max_runs = 1,
					      .flags = KVMM_ALLOC_NO_COMPACT, .tenant = 1,
					      .seq = (uintptr_t)&seq + seq++ };
	kvmm_range_t range;

	return keep_handle(kvmm_range_alloc_attr(heap, &attr, &range), range, word);
}

static void pool_free(void *heap, const u32 *word, u32 nr)
{
	kvmm_range_free(heap, (kvmm_range_t){ word[0], word[1] });
}

static void *pool_open(const char *name, u32 nr_blocks)
{
	struct kvmm_pool *pool;

	return open_pool(&pool, nr_blocks, NULL, 0) ? NULL : pool;
}

/* Watermarks as engines set them. */
static void *marked_open(const char *name, u32 nr_blocks)
{
	struct kvmm_watermarks marks = { nr_blocks / 200, nr_blocks / 100, nr_blocks / 50 };
	struct kvmm_pool *pool = pool_open(name, nr_blocks);

	if (pool && kvmm_watermarks_set(pool, &marks)) {
		kvmm_pool_destroy(pool);
		return NULL;
	}
	return pool;
}

/* What is evicted lies here and there: the pool may move it. */
static int full_alloc(void *heap, u32 nr, u32 *word)
{
	kvmm_range_t range;

	return keep_handle(kvmm_range_alloc(heap, nr, KVMM_RUNS(4), &range), range, word);
}

/* Full of cached blocks, which ranges evict. */
static void *full_open(const char *name, u32 nr_blocks)
{
	struct kvmm_pool *pool;
	u64 seed = 1;

	if (open_pool(&pool, nr_blocks, "default", 0) || name_blocks(pool, nr_blocks, &seed)) {
		kvmm_pool_destroy(pool);
		return NULL;
	}
	return pool;
}

static void pool_close(void *heap)
{
	kvmm_pool_destroy(heap);
}

const struct contender contender_pool = { "pool", false, pool_open, pool_close,
					  pool_alloc, pool_free };
const struct contender contender_runs = { "pool-4-runs", false, pool_open, pool_close,
					  runs_alloc, pool_free };
const struct contender contender_marked = { "pool-marks", false, marked_open, pool_close,
					    pool_alloc, pool_free };
const struct contender contender_full = { "pool-full", false, full_open, pool_close,
					  full_alloc, pool_free };
const struct contender contender_named = { "pool-seq-tenant", false, pool_open, pool_close,
					   named_alloc, pool_free };

/* ---- what an engine would write around an allocator that knows no threads: one mutex ---- */

struct peer {
	struct kv_zone *zone;
	pthread_mutex_t mutex;
};

static int peer_alloc(void *heap, u32 nr, u32 *word)
{
	struct peer *peer = heap;
	int err;

	pthread_mutex_lock(&peer->mutex);
	err = kv_zone_alloc(peer->zone, nr, word);
	pthread_mutex_unlock(&peer->mutex);
	return err;
}

static void peer_free(void *heap, const u32 *word, u32 nr)
{
	struct peer *peer = heap;

	pthread_mutex_lock(&peer->mutex);
	kv_zone_free(peer->zone, word[0], nr);
	pthread_mutex_unlock(&peer->mutex);
}

static void *peer_open(const char *name, u32 nr_blocks)
{
	static struct peer peer = { .mutex = PTHREAD_MUTEX_INITIALIZER };

	return open_zone(&peer.zone, nr_blocks, NULL) ? NULL : &peer;
}

static void peer_close(void *heap)
{
	struct peer *peer = heap;

	kv_zone_destroy(peer->zone);
}

const struct contender contender_mutex = { "zone+mutex", false,
					   peer_open, peer_close, peer_alloc, peer_free };

/* ---- all of them, the driver last ---- */

static const struct contender all_contenders[] = {
	{ "zone", true, zone_open, zone_close, zone_alloc, zone_free },
	{ "lists", true, zone_open, zone_close, zone_alloc, zone_free },
	{ "buddy", true, zone_open, zone_close, zone_alloc, zone_free },
	{ "jemalloc", false, malloc_open, nothing_close, malloc_alloc, malloc_free },
	{ "mimalloc", false, malloc_open, nothing_close, malloc_alloc, malloc_free },
	{ "driver", false, driver_open, nothing_close, driver_alloc, driver_free },
};

unsigned int contenders(const struct contender **all)
{
	*all = all_contenders;
	return ARRAY_SIZE(all_contenders);
}

const struct contender *contender_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(all_contenders); i++) {
		if (!strcmp(all_contenders[i].name, name))
			return &all_contenders[i];
	}
	return NULL;
}
