// SPDX-License-Identifier: Apache-2.0
/*
 * Ranges of a pool for two threads, against one; and what an engine would write around an allocator
 * that knows no threads: the zone behind one mutex.
 */
#include <kvmm/kvmm.h>
#include <pthread.h>

#include "churn.h"

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
	struct kvmm_zone_attr attr = KVMM_ZONE_ATTR_INIT;

	attr.nr_blocks = nr_blocks;
	return kvmm_zone_create(&attr, &peer.zone) ? NULL : &peer;
}

static void peer_close(void *heap)
{
	struct peer *peer = heap;

	kvmm_zone_destroy(peer->zone);
}

static int run(struct bench *bench)
{
	const struct contender all[] = {
		bench_pool,
		{ .name = "zone+mutex", CONTENDER_CALLS(peer) },
	};

	return bench_two_threads(bench, all, ARRAY_SIZE(all));
}

const struct bench_kind bench_range_mt = {
	.name = "range-mt",
	.what = "kvmm_range_alloc() and kvmm_range_free() for two threads, against one",
	.run = run,
};
