// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that migrate in both directions, one that is a taker and ticks a watch, and one that looks up
 * and evicts. Exit code 0: a look-up that found a name found its bytes, no range was lost, the
 * pools are valid.
 */
#include <unistd.h>

#include "tests/net/util.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	256u
#define NR_KEYS		64u
#define NR_ROUNDS	150u
#define RANGE_BLOCKS	5u

static struct kvmm_pool *pool[2];
static struct kvmm_migrate_server *server;
static struct kvmm_migrate_auto *watch;
static char path[80];
static u32 stop;			/* atomic */

static int finish(struct kvmm_migrate *job)
{
	int err = kvmm_migrate_wait(job, 20000000000ull);

	kvmm_migrate_free(job);
	return err;
}

/* A range of one's own goes there and back. */
static void *commute(void *arg)
{
	u64 seq = (uintptr_t)arg;
	u32 from = seq & 1;
	kvmm_range_t range = net_range(pool[from], seq, RANGE_BLOCKS, 1);

	for (u32 i = 0; i < NR_ROUNDS; i++, from = !from) {
		struct kvmm_migrate_attr attr = { .size = sizeof(attr), .src = pool[from],
						  .dst = pool[!from], .range = range };
		struct kvmm_migrate *job;

		expect(!kvmm_migrate_start(&attr, &job));
		expect(!kvmm_migrate_wait(job, 20000000000ull));
		expect(kvmm_migrate_ranges(job, &range, 1) == 1);
		kvmm_migrate_free(job);
		expect(net_range_is(pool[!from], range, seq, RANGE_BLOCKS));
	}
	expect(!kvmm_range_free(pool[from], range));
	return NULL;
}

/* Prompts go to and fro; others may have evicted them, also since they were found. */
static void *carry(void *arg)
{
	u32 first = (uintptr_t)arg;

	for (u32 i = 0; i < NR_ROUNDS; i++) {
		struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
		struct kvmm_migrate *job;
		kvmm_key_t keys[8];
		struct kvmm_prefix prefix = { keys, 8, 0, NULL, { 0, 0, 0 } };
		int err;

		for (u32 k = 0; k < 8; k++)
			keys[k] = net_key(first + k);
		attr.src = pool[i & 1];
		attr.dst = pool[!(i & 1)];
		attr.what = KVMM_MIGRATE_KEYS;
		attr.prefix = &prefix;
		err = kvmm_migrate_start(&attr, &job);
		expect(!err || err == -ENOENT || err == -ESTALE);
		if (!err)
			expect(!finish(job));
		if (!net_cached(pool[0], first, 8) && !net_cached(pool[1], first, 8))
			net_cache(pool[i & 1], first, 8);
	}
	return NULL;
}

/* The same by a link. */
static void *send(void *arg)
{
	u64 seq = (uintptr_t)arg;

	for (u32 i = 0; i < NR_ROUNDS / 4; i++) {
		struct kvmm_migrate_attr attr = { .size = sizeof(attr), .src = pool[0],
						  .target = path };
		struct kvmm_migrate *job;
		kvmm_range_t range;

		attr.range = net_range(pool[0], seq, RANGE_BLOCKS, 1);
		expect(!kvmm_migrate_start(&attr, &job));
		expect(!finish(job));
		expect(kvmm_range_find_seq(pool[1], seq, &range, 1) == 1);
		expect(net_range_is(pool[1], range, seq, RANGE_BLOCKS));
		expect(!kvmm_range_free(pool[1], range));
	}
	return NULL;
}

static void *serve(void *arg)
{
	while (!smp_load_acquire(&stop)) {
		kvmm_migrate_serve_tick(server);
		kvmm_migrate_auto_tick(watch, NULL);
	}
	return NULL;
}

static void *look(void *arg)
{
	u64 state = 88172645463325252ull;

	while (!smp_load_acquire(&stop)) {
		u32 block;

		state = state * 6364136223846793005ull + 1442695040888963407ull;
		block = (state >> 33) % NR_BLOCKS;
		expect(net_cached(pool[state >> 63], 0, NR_KEYS) >= 0);
		kvmm_evict_blocks(pool[state >> 62 & 1], &block, 1);
		expect(!kvmm_validate(pool[state >> 61 & 1]));
	}
	return NULL;
}

static void open_all(char *folder)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_auto_attr low = KVMM_MIGRATE_AUTO_INIT;

	for (u32 i = 0; i < 2; i++)
		pool[i] = net_pool("host", NR_BLOCKS);
	expect(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/s", folder);
	attr.pool = pool[1];
	attr.path = path;
	attr.window_bytes = 4 * NET_BLOCK_BYTES;
	expect(!kvmm_migrate_serve(&attr, &server));
	low.src = pool[0];
	low.dst = pool[1];
	low.low = NR_BLOCKS - 20;
	low.high = NR_BLOCKS - 10;
	low.max_blocks = 8;
	low.interval_ms = 1;
	expect(!kvmm_migrate_auto_start(&low, &watch));
}

int main(void)
{
	static void *(*const work[])(void *) = { commute, commute, carry, carry, send };
	static const uintptr_t args[] = { 1000, 1001, 0, 24, 1002 };
	char folder[] = "/tmp/kvmm-threads-XXXXXX";
	pthread_t worker[5], server_thread, looker;

	open_all(folder);
	pthread_create(&server_thread, NULL, serve, NULL);
	pthread_create(&looker, NULL, look, NULL);
	for (u32 i = 0; i < 5; i++)
		pthread_create(&worker[i], NULL, work[i], (void *)args[i]);
	threads_join(worker, 5);
	smp_store_release(&stop, 1);
	pthread_join(server_thread, NULL);
	pthread_join(looker, NULL);
	kvmm_migrate_auto_stop(watch);
	kvmm_migrate_serve_end(server);
	for (u32 i = 0; i < 2; i++) {
		struct kvmm_pool_stat stat;

		expect(!kvmm_validate(pool[i]));
		kvmm_reset_inactive(pool[i]);
		expect(!kvmm_pool_get_stat(pool[i], &stat) && stat.nr_free == NR_BLOCKS);
		kvmm_pool_destroy(pool[i]);
	}
	rmdir(folder);
	return nr_bad != 0;
}
