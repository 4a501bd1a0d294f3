// SPDX-License-Identifier: Apache-2.0
/*
 * What events cost the thread that makes them, and those that read them.
 *
 * A pool that is full takes a batch of new names: for each of them one is evicted and one stored,
 * two events. The same pool does it without a consumer and with one that does not read, in turns;
 * the difference is what the events cost. Then one thread reads and encodes them.
 */
#include "pools.h"

#define NR_BLOCKS	4096u
#define BATCH		64u

struct world {
	struct kvmm_pool *pool;
	u64 nr_names;
};

/* New names, a prompt of a batch. */
static int take_batch(struct world *w)
{
	kvmm_key_t keys[BATCH] = { 0 };
	kvmm_mut_t muts[BATCH];
	kvmm_ref_t refs[BATCH];
	int err;

	for (u32 k = 0; k < BATCH; k++) {
		u64 name = ++w->nr_names * 0x9e3779b97f4a7c15ull;

		memcpy(keys[k].byte, &name, sizeof(name));
		memcpy(keys[k].byte + 8, &name, sizeof(name));
	}
	err = kvmm_alloc(w->pool, BATCH, muts);
	if (!err)
		err = kvmm_register(w->pool, muts, keys, BATCH, refs);
	return err ? err : kvmm_put_many(w->pool, refs, BATCH);
}

static int take_batches(struct world *w, u32 rounds)
{
	int err = 0;

	for (u32 i = 0; i < rounds && !err; i++)
		err = take_batch(w);
	return err;
}

#define SLICE_ROUNDS	80u

enum { BLOCK_OFF, BLOCK_ON, EVENT, READ, ENCODE };

/* Nanoseconds a block. */
static int slice_ns(struct world *w, double *ns)
{
	u64 begin = now_ns();
	int err = take_batches(w, SLICE_ROUNDS);

	*ns = (double)(now_ns() - begin) / (SLICE_ROUNDS * BATCH);
	return err;
}

/* Slices without and with a consumer follow one another. */
static int measure_emit(struct world *w, struct series *s)
{
	double ns[2][BENCH_SLICES], off, on;
	struct kvmm_events *events;
	int err = take_batches(w, 500);

	for (u32 i = 0; i < BENCH_SLICES && !err; i++) {
		err = slice_ns(w, &ns[0][i]);
		if (!err)
			err = kvmm_events_open(w->pool, NULL, &events);
		if (!err)
			err = slice_ns(w, &ns[1][i]);
		if (!err)
			kvmm_events_close(events);
	}
	if (err)
		return err;
	off = median_of(ns[0], BENCH_SLICES);
	on = median_of(ns[1], BENCH_SLICES);
	series_add_all(s, (double[]){ [BLOCK_OFF] = off, [BLOCK_ON] = on,
				      [EVENT] = (on - off) / 2 }, 3);
	return 0;
}

/* Nanoseconds an event, to read it, and to encode it. */
static int measure_read(struct world *w, struct series *s)
{
	static struct kvmm_event buf[512];
	static unsigned char bytes[KVMM_WIRE_BYTES_FOR(512)];
	struct kvmm_events *events;
	u64 begin, took[2] = { 0 }, nr_lost, nr_events = 0;
	int err = kvmm_events_open(w->pool, NULL, &events), nr;

	if (err)
		return err;
	err = take_batches(w, 250);
	for (;;) {
		begin = now_ns();
		nr = kvmm_events_read(events, buf, ARRAY_SIZE(buf), &nr_lost);
		took[0] += now_ns() - begin;
		if (nr <= 0 || err)
			break;
		begin = now_ns();
		if (kvmm_wire_encode(NULL, 1, buf, nr, bytes, sizeof(bytes)) < 0)
			err = -EIO;
		took[1] += now_ns() - begin;
		nr_events += nr;
	}
	kvmm_events_close(events);
	if (err || !nr_events)
		return err ? err : -EIO;
	series_add(&s[READ], (double)took[0] / nr_events);
	series_add(&s[ENCODE], (double)took[1] / nr_events);
	return 0;
}

static int events_turn(struct bench *bench, void *arg)
{
	struct world *w = arg;
	int err = open_pool(&w->pool, NR_BLOCKS, "lru", 0);

	err = err ? err : measure_emit(w, bench->series);
	err = err ? err : measure_read(w, bench->series);
	kvmm_pool_destroy(w->pool);
	return err;
}

int bench_events(struct bench *bench)
{
	static const struct metric metrics[] = {
		[BLOCK_OFF] = { "block_off", "ns", ALONE },
		[BLOCK_ON] = { "block_on", "ns", "off", BLOCK_OFF },
		[EVENT] = { "event", "ns", ALONE }, [READ] = { "read", "ns", ALONE },
		[ENCODE] = { "encode", "ns", ALONE },
	};
	static struct world w;

	bench_set(bench, SET(metrics), "blocks=%u batch=%u", NR_BLOCKS, BATCH);
	return bench_turns(bench, events_turn, &w);
}
