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
#include "tests/support/key.h"
#include "tests/support/torture.h"

#define NR_BLOCKS	32u
#define NR_NAMES	48u
#define PROMPT		5u
#define NR_WRITERS	3u
#define NR_READERS	2u
#define NR_LATE		100u

struct reader {
	pthread_t thread;
	u64 nr_events, nr_gaps;
	struct kvmm_events *events;
	bool has[NR_NAMES];
	bool strict;
	bool watches_pool;
};

static struct kvmm_pool *pool;
static u32 writers_ended;		/* atomic */

static u32 name_of(const kvmm_key_t *key)
{
	u32 name;

	memcpy(&name, key->byte, sizeof(name));
	return name;
}

/* ---- writers ---- */

static void run_prompt(void)
{
	u32 first = any(NR_NAMES - PROMPT), nr = 1 + any(PROMPT);
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
		hits = nr;
	}
	expect(!kvmm_put_many(pool, refs, hits));
}

static void write_names(void)
{
	u32 what = any(200), block = any(NR_BLOCKS);

	if (what < 180)
		run_prompt();
	else if (what < 198)
		expect(kvmm_evict_blocks(pool, &block, 1) >= 0);
	else if (what < 199)
		expect(kvmm_reset_inactive(pool) >= 0);
	else
		kvmm_reset_cache(pool);
}

/* ---- readers ---- */

static void apply(struct reader *reader, const struct kvmm_event *event)
{
	bool stored = event->kind == KVMM_EVENT_STORED;
	u32 name = name_of(&event->key);

	if (event->kind == KVMM_EVENT_CLEARED) {
		memset(reader->has, 0, sizeof(reader->has));
		return;
	}
	expect(name < NR_NAMES);
	expect(!reader->strict || reader->has[name] != stored);
	reader->has[name % NR_NAMES] = stored;
}

static void start_again(struct reader *reader)
{
	struct kvmm_snapshot snap;
	struct kvmm_event buf[7];
	int nr;

	reader->nr_gaps++;
	reader->strict = false;
	memset(reader->has, 0, sizeof(reader->has));
	expect(!kvmm_snapshot_begin(reader->events, &snap));
	while ((nr = kvmm_snapshot_read(reader->events, &snap, buf, 7)) > 0)
		for (int i = 0; i < nr; i++)
			reader->has[name_of(&buf[i].key) % NR_NAMES] = true;
	expect(!nr);
	expect(!kvmm_events_seek(reader->events, snap.watermark));
}

static bool read_some(struct reader *reader)
{
	struct kvmm_event buf[64];
	u64 nr_lost;
	int nr = kvmm_events_read(reader->events, buf, 64, &nr_lost);

	expect(nr >= 0);
	if (nr_lost) {
		start_again(reader);
		return true;
	}
	for (int i = 0; i < nr; i++)
		apply(reader, &buf[i]);
	reader->nr_events += nr;
	return nr > 0;
}

static void *read_names(void *arg)
{
	struct reader *reader = arg;

	any_state = (uintptr_t)arg | 1;
	while (!READ_ONCE(writers_ended)) {
		if (!read_some(reader) && reader->watches_pool && !any(64))
			expect(!kvmm_validate(pool));
		else if (reader->watches_pool && !any(3000))
			start_again(reader);
	}
	return NULL;
}

/* Nobody does anything any more. */
static void compare(struct reader *reader)
{
	while (read_some(reader))
		;
	for (u32 name = 0; name < NR_NAMES; name++) {
		kvmm_key_t key = key_of(name);

		expect(reader->has[name] == (kvmm_match_len(pool, &key, 1) == 1));
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

static void start(struct reader *reader, u32 i, u32 round)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;

	*reader = (struct reader){ .strict = !(round & 2), .watches_pool = i };
	attr.ring = round & 2 ? 64 : 1u << 20;
	expect(!kvmm_events_open(pool, &attr, &reader->events));
	expect(!pthread_create(&reader->thread, NULL, read_names, reader));
}

static void run(u32 round, u64 seed, u64 ns)
{
	struct reader readers[NR_READERS];
	u64 nr_events = 0, nr_gaps = 0;

	WRITE_ONCE(writers_ended, 0);
	make_pool(round);
	for (u32 i = 0; i < NR_READERS; i++)
		start(&readers[i], i, round);
	for (u32 i = 0; i < NR_WRITERS; i++)
		torture_start(write_names, 0, seed + 77 * i + round);
	torture_end(ns);
	WRITE_ONCE(writers_ended, 1);
	for (u32 i = 0; i < NR_READERS; i++) {
		pthread_join(readers[i].thread, NULL);
		compare(&readers[i]);
		nr_events += readers[i].nr_events;
		nr_gaps += readers[i].nr_gaps;
		kvmm_events_close(readers[i].events);
	}
	expect(!kvmm_validate(pool));
	kvmm_pool_destroy(pool);
	printf("event_torture: round %u: %lu events, %lu gaps and snapshots\n", round,
	       (unsigned long)nr_events, (unsigned long)nr_gaps);
	expect(nr_events);
}

/* The first consumer of a pool comes while threads register: each sees the feed whole, or none. */
static void open_late(u32 turn, u64 seed)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *events;

	make_pool(turn);
	for (u32 i = 0; i < NR_WRITERS; i++)
		torture_start(write_names, 0, seed + 77 * i + turn);
	sleep_ns(100000 + any(400000));
	expect(!kvmm_events_open(pool, &attr, &events));
	torture_end(100000);
	kvmm_events_close(events);
	expect(!kvmm_validate(pool));
	kvmm_pool_destroy(pool);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 4;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (u64)time(NULL);

	printf("event_torture: seed %lu\n", (unsigned long)seed);
	any_state = seed | 1;
	for (u32 turn = 0; turn < NR_LATE; turn++)
		open_late(turn, seed);
	for (u32 round = 0; round < 4; round++)
		run(round, seed, seconds / 4 * NS_PER_SEC);
	return torture_report("event_torture", seed, 0, NULL);
}
