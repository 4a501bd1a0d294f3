// SPDX-License-Identifier: Apache-2.0
/*
 * Threads register, evict and forget the same few names of a small pool; consumers mirror it. Own
 * main(), exit code 0 if all is well.
 *
 * usage: event_torture [SECONDS [SEED]]
 *
 * A consumer that has never lost anything must be told of each name by turns: stored, removed, stored.
 * One whose ring is short loses often, takes snapshots while everything goes on, and must be as right
 * as the other when all have stopped. Indexes and lengths of rings go in turn.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kv/atomic.h>
#include <kv/mem.h>
#include <kv/rcu.h>
#include <kvmm/kvmm.h>

#define NR_BLOCKS	32u
#define NR_NAMES	48u
#define PROMPT		5u
#define NR_WRITERS	3u
#define NR_READERS	2u
#define NS_PER_SEC	1000000000ull

struct worker {
	pthread_t thread;
	u64 random;
	u64 nr_events, nr_gaps, nr_stored, nr_wrong;
	struct kvmm_events *events;
	bool has[NR_NAMES];
	bool strict;
	bool watches_pool;
};

static struct kvmm_pool *pool;
static u32 stop;			/* atomic; 1: writers, 2: readers, too */

static u32 any(struct worker *worker, u32 below)
{
	worker->random = worker->random * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)((worker->random >> 33) % below);
}

#define expect(holds)								\
	do {									\
		if (!(holds) && !worker->nr_wrong++)				\
			fprintf(stderr, "event_torture: line %d: %s\n", __LINE__, #holds);	\
	} while (0)

static kvmm_key_t key_of(u32 name)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte + 3, &name, sizeof(name));
	return key;
}

static u32 name_of(const kvmm_key_t *key)
{
	u32 name;

	memcpy(&name, key->byte + 3, sizeof(name));
	return name;
}

/* ---- writers ---- */

static void run_prompt(struct worker *worker)
{
	u32 first = any(worker, NR_NAMES - PROMPT), nr = 1 + any(worker, PROMPT);
	kvmm_key_t keys[PROMPT];
	kvmm_mut_t muts[PROMPT];
	kvmm_ref_t refs[PROMPT];
	int hits;

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
	hits = kvmm_match(pool, keys, nr, refs);
	expect(hits >= 0);
	if ((u32)hits < nr && !kvmm_alloc(pool, nr - hits, muts)) {
		expect(!kvmm_register(pool, muts, keys + hits, nr - hits, refs + hits));
		worker->nr_stored += nr - hits;
		hits = nr;
	}
	expect(!kvmm_put_many(pool, refs, hits));
}

static void *write_names(void *arg)
{
	struct worker *worker = arg;

	while (!READ_ONCE(stop)) {
		u32 what = any(worker, 200), block = any(worker, NR_BLOCKS);

		if (what < 180)
			run_prompt(worker);
		else if (what < 198)
			expect(kvmm_evict_blocks(pool, &block, 1) >= 0);
		else if (what < 199)
			expect(kvmm_reset_inactive(pool) >= 0);
		else
			kvmm_reset_cache(pool);
	}
	return NULL;
}

/* ---- readers ---- */

static void apply(struct worker *worker, const struct kvmm_event *event)
{
	bool stored = event->kind == KVMM_EVENT_STORED;
	u32 name = name_of(&event->key);

	if (event->kind == KVMM_EVENT_CLEARED) {
		memset(worker->has, 0, sizeof(worker->has));
		return;
	}
	expect(name < NR_NAMES);
	expect(!worker->strict || worker->has[name] != stored);
	worker->has[name % NR_NAMES] = stored;
}

static void start_again(struct worker *worker)
{
	struct kvmm_snapshot snap;
	struct kvmm_event buf[7];
	int nr;

	worker->nr_gaps++;
	worker->strict = false;
	memset(worker->has, 0, sizeof(worker->has));
	expect(!kvmm_snapshot_begin(worker->events, &snap));
	while ((nr = kvmm_snapshot_read(worker->events, &snap, buf, 7)) > 0)
		for (int i = 0; i < nr; i++)
			worker->has[name_of(&buf[i].key) % NR_NAMES] = true;
	expect(!nr);
	expect(!kvmm_events_seek(worker->events, snap.watermark));
}

static bool read_some(struct worker *worker)
{
	struct kvmm_event buf[64];
	u64 nr_lost;
	int nr = kvmm_events_read(worker->events, buf, 64, &nr_lost);

	expect(nr >= 0);
	if (nr_lost) {
		start_again(worker);
		return true;
	}
	for (int i = 0; i < nr; i++)
		apply(worker, &buf[i]);
	worker->nr_events += nr;
	return nr > 0;
}

static void *read_names(void *arg)
{
	struct worker *worker = arg;

	while (READ_ONCE(stop) < 2) {
		if (!read_some(worker) && worker->watches_pool && !any(worker, 64))
			expect(!kvmm_validate(pool));
		else if (worker->watches_pool && !any(worker, 3000))
			start_again(worker);
	}
	return NULL;
}

/* Nobody does anything any more. */
static void compare(struct worker *worker)
{
	while (read_some(worker))
		;
	for (u32 name = 0; name < NR_NAMES; name++) {
		kvmm_key_t key = key_of(name);

		expect(worker->has[name] == (kvmm_match_len(pool, &key, 1) == 1));
	}
}

/* ---- rounds ---- */

static void make_pool(u32 round)
{
	static const char *const index[] = { "flat", "lfht" };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .index = index[round % 2] };
	int err = kvmm_pool_create(&attr, &pool);

	if (err) {
		fprintf(stderr, "event_torture: no pool: %d\n", err);
		exit(1);
	}
}

static void start(struct worker *worker, u32 i, u32 round, u64 seed)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;

	*worker = (struct worker){ .random = seed + 77 * i + round };
	if (i < NR_READERS) {
		attr.ring = round & 2 ? 64 : 1u << 20;
		worker->strict = !(round & 2);
		worker->watches_pool = i;
		expect(!kvmm_events_open(pool, &attr, &worker->events));
	}
	expect(!pthread_create(&worker->thread, NULL, i < NR_READERS ? read_names : write_names,
			       worker));
}

static u64 run(u32 round, u64 seed, double seconds)
{
	struct worker workers[NR_READERS + NR_WRITERS];
	u64 nr_wrong = 0, nr_events = 0, nr_gaps = 0;

	WRITE_ONCE(stop, 0);
	make_pool(round);
	for (u32 i = 0; i < NR_READERS + NR_WRITERS; i++)
		start(&workers[i], i, round, seed);
	nanosleep(&(struct timespec){ .tv_sec = seconds,
				      .tv_nsec = (seconds - (u64)seconds) * NS_PER_SEC }, NULL);
	for (u32 phase = 1; phase <= 2; phase++) {
		WRITE_ONCE(stop, phase);
		for (u32 i = 0; i < NR_READERS + NR_WRITERS; i++)
			if ((i < NR_READERS) == (phase == 2))
				pthread_join(workers[i].thread, NULL);
	}
	for (u32 i = 0; i < NR_READERS + NR_WRITERS; i++) {
		if (workers[i].events)
			compare(&workers[i]);
		nr_wrong += workers[i].nr_wrong;
		nr_events += workers[i].nr_events;
		nr_gaps += workers[i].nr_gaps;
		kvmm_events_close(workers[i].events);
	}
	nr_wrong += kvmm_validate(pool) != 0;
	kvmm_pool_destroy(pool);
	printf("event_torture: round %u: %lu events, %lu gaps and snapshots\n", round,
	       (unsigned long)nr_events, (unsigned long)nr_gaps);
	return nr_wrong + !nr_events;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 4;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (u64)time(NULL), nr_wrong = 0;

	printf("event_torture: seed %lu\n", (unsigned long)seed);
	for (u32 round = 0; round < 4; round++)
		nr_wrong += run(round, seed, seconds / 4);
	kv_rcu_barrier();
	nr_wrong += kv_mem_bytes() != 0;
	return nr_wrong != 0;
}
