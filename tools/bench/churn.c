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
#include <sys/mman.h>

#include "churn.h"

#define SLICE_REQUESTS	4096u
#define WARM_TURNOVERS	20u	/* of all that is live, before anything is counted */

void churn_need_live(const struct churn *churn)
{
	if (churn->nr_live)
		return;
	fprintf(stderr, "kvmm-bench: an empty allocator of %u blocks refuses a request\n",
		churn->nr_blocks);
	exit(1);
}

/* On large pages where there are any: the user's table must not cost the zone its TLB entries. */
static struct live *make_live(u32 nr_blocks)
{
	const size_t page = 2u << 20;
	size_t bytes = ((nr_blocks + 1) * sizeof(struct live) + page - 1) & ~(page - 1);
	struct live *live;

	if (bytes == page)
		return must_alloc(bytes);
	live = aligned_alloc(page, bytes);
	if (!live)
		return must_alloc(bytes);
	madvise(live, bytes, MADV_HUGEPAGE);
	memset(live, 0, bytes);
	return live;
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
		.live = make_live(load->nr_blocks),
	};
	contender->step(churn, WARM_TURNOVERS * (nr_live + 1));
	churn_forget(churn);
}

void churn_end(struct churn *churn)
{
	churn->contender->empty(churn);
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

void churn_forget(struct churn *churn)
{
	churn->requests = 0;
	churn->failures = 0;
	churn->held = 0;
}

void churn_step(void *arg, u32 nr)
{
	struct churn *churn = arg;

	churn->contender->step(churn, nr);
}

double churn_pair_ns(struct churn *churn)
{
	return step_ns(churn_step, churn, SLICE_REQUESTS);
}

/* ---- kvmm's zone ---- */

static __always_inline int zone_alloc(void *heap, u32 nr, u32 *word)
{
	return kvmm_zone_alloc(heap, nr, word);
}

static __always_inline void zone_free(void *heap, const u32 *word, u32 nr)
{
	kvmm_zone_free(heap, word[0], nr);
}

CHURN_CONTENDER(zone)

static void *zone_open(const char *name, u32 nr_blocks)
{
	struct kvmm_zone *zone;

	return open_zone(&zone, nr_blocks, name) ? NULL : zone;
}

static void zone_close(void *heap)
{
	kvmm_zone_destroy(heap);
}

/* ---- jemalloc, which the tools are linked with ---- */

#define OBJECT_BYTES	64u

static char no_heap;

static void nothing_close(void *heap)
{
}

/* Absent where a sanitizer's malloc has taken its place. */
extern int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len)
	__attribute__((weak));

static __always_inline void keep_pointer(u32 *word, void *mem)
{
	memcpy(word, &mem, sizeof(mem));
}

static __always_inline void *kept_pointer(const u32 *word)
{
	void *mem;

	memcpy(&mem, word, sizeof(mem));
	return mem;
}

static __always_inline int jemalloc_alloc(void *heap, u32 nr, u32 *word)
{
	void *mem = malloc((size_t)nr * OBJECT_BYTES);

	keep_pointer(word, mem);
	return mem ? 0 : -1;
}

static __always_inline void jemalloc_free(void *heap, const u32 *word, u32 nr)
{
	free(kept_pointer(word));
}

CHURN_CONTENDER(jemalloc)

static void *jemalloc_open(const char *name, u32 nr_blocks)
{
	return &mallctl ? &no_heap : NULL;
}

/* ---- mimalloc, where it can be found ---- */

struct mimalloc {
	void *(*alloc)(size_t bytes);
	void (*free)(void *mem);
};

static __always_inline int mimalloc_alloc(void *heap, u32 nr, u32 *word)
{
	struct mimalloc *mimalloc = heap;
	void *mem = mimalloc->alloc((size_t)nr * OBJECT_BYTES);

	keep_pointer(word, mem);
	return mem ? 0 : -1;
}

static __always_inline void mimalloc_free(void *heap, const u32 *word, u32 nr)
{
	struct mimalloc *mimalloc = heap;

	mimalloc->free(kept_pointer(word));
}

CHURN_CONTENDER(mimalloc)

static void *mimalloc_open(const char *name, u32 nr_blocks)
{
	static struct mimalloc mimalloc;
	void *lib;

	if (mimalloc.free)
		return &mimalloc;
	lib = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return NULL;
	*(void **)&mimalloc.alloc = dlsym(lib, "mi_malloc");
	*(void **)&mimalloc.free = dlsym(lib, "mi_free");
	return mimalloc.alloc && mimalloc.free ? &mimalloc : NULL;
}

/* ---- nothing: what the loop costs ---- */

static __always_inline int driver_alloc(void *heap, u32 nr, u32 *word)
{
	word[0] = nr;
	return 0;
}

static __always_inline void driver_free(void *heap, const u32 *word, u32 nr)
{
	/* The words must have been read, as any allocator would. */
	__asm__ volatile("" : : "r"(word[0]));
}

CHURN_CONTENDER(driver)

static void *driver_open(const char *name, u32 nr_blocks)
{
	return &no_heap;
}

/* ---- ranges of a pool ---- */

/* A range handle is the two words that churn keeps. */
static __always_inline int pool_alloc(void *heap, u32 nr, u32 *word)
{
	kvmm_range_t range;
	int err = kvmm_range_alloc(heap, nr, KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT, &range);

	word[0] = range.index;
	word[1] = range.gen;
	return err;
}

static __always_inline void pool_free(void *heap, const u32 *word, u32 nr)
{
	kvmm_range_free(heap, (kvmm_range_t){ word[0], word[1] });
}

CHURN_CONTENDER(pool)

static void *pool_open(const char *name, u32 nr_blocks)
{
	struct kvmm_pool *pool;

	return open_pool(&pool, nr_blocks, NULL, 0) ? NULL : pool;
}

static void pool_close(void *heap)
{
	kvmm_pool_destroy(heap);
}

const struct contender contender_pool = { .name = "pool", CONTENDER_CALLS(pool, pool_close) };

/* ---- what an engine would write around an allocator that knows no threads: one mutex ---- */

struct peer {
	struct kvmm_zone *zone;
	pthread_mutex_t mutex;
};

static __always_inline int peer_alloc(void *heap, u32 nr, u32 *word)
{
	struct peer *peer = heap;
	int err;

	pthread_mutex_lock(&peer->mutex);
	err = kvmm_zone_alloc(peer->zone, nr, word);
	pthread_mutex_unlock(&peer->mutex);
	return err;
}

static __always_inline void peer_free(void *heap, const u32 *word, u32 nr)
{
	struct peer *peer = heap;

	pthread_mutex_lock(&peer->mutex);
	kvmm_zone_free(peer->zone, word[0], nr);
	pthread_mutex_unlock(&peer->mutex);
}

CHURN_CONTENDER(peer)

static void *peer_open(const char *name, u32 nr_blocks)
{
	static struct peer peer = { .mutex = PTHREAD_MUTEX_INITIALIZER };

	return open_zone(&peer.zone, nr_blocks, NULL) ? NULL : &peer;
}

static void peer_close(void *heap)
{
	struct peer *peer = heap;

	kvmm_zone_destroy(peer->zone);
}

const struct contender contender_mutex = { .name = "zone+mutex",
					   CONTENDER_CALLS(peer, peer_close) };

/* ---- all of them, the driver last ---- */

static const struct contender all_contenders[] = {
	{ .name = "zone", .is_zone = true, CONTENDER_CALLS(zone, zone_close) },
	{ .name = "lists", .is_zone = true, CONTENDER_CALLS(zone, zone_close) },
	{ .name = "buddy", .is_zone = true, CONTENDER_CALLS(zone, zone_close) },
	{ .name = "jemalloc", CONTENDER_CALLS(jemalloc, nothing_close) },
	{ .name = "mimalloc", CONTENDER_CALLS(mimalloc, nothing_close) },
	{ .name = "driver", CONTENDER_CALLS(driver, nothing_close) },
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
