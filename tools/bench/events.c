// SPDX-License-Identifier: Apache-2.0
/*
 * What events cost those who make them, and those who read them.
 *
 * A pool that is full takes a batch of new names: for each of them one is evicted and one stored, two
 * events. The same pool does it without a consumer and with one that does not read, in turns; the
 * difference is what the events cost. Then one thread reads and encodes them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvmm/kvmm.h>

#include "harness.h"

#define NR_BLOCKS	4096u
#define BATCH		64u
#define ROUNDS		2000u
#define SLICES		25u

struct world {
	struct kvmm_pool *pool;
	u64 nr_names;
};

static int make_world(struct world *w)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	w->nr_names = 0;
	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	return kvmm_pool_create(&attr, &w->pool);
}

/* Names that nobody has seen, a prompt of a batch each. */
static int churn(struct world *w, u32 rounds)
{
	kvmm_key_t keys[BATCH];
	kvmm_mut_t muts[BATCH];
	kvmm_ref_t refs[BATCH];
	int err = 0;

	memset(keys, 0, sizeof(keys));
	for (u32 i = 0; i < rounds && !err; i++) {
		for (u32 k = 0; k < BATCH; k++) {
			u64 name = ++w->nr_names * 0x9e3779b97f4a7c15ull;

			memcpy(keys[k].byte, &name, sizeof(name));
			memcpy(keys[k].byte + 8, &name, sizeof(name));
		}
		err = kvmm_alloc(w->pool, BATCH, muts);
		if (!err)
			err = kvmm_register(w->pool, muts, keys, BATCH, refs);
		if (!err)
			err = kvmm_put_many(w->pool, refs, BATCH);
	}
	return err;
}

/* Nanoseconds a block. */
static int churn_ns(struct world *w, double *ns)
{
	u64 begin = now_ns();
	int err = churn(w, ROUNDS / SLICES);

	*ns = (double)(now_ns() - begin) / (ROUNDS / SLICES * BATCH);
	return err;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Slices without and with a consumer follow one another. */
static int measure_emit(struct world *w, struct series *off, struct series *on, struct series *event)
{
	double ns[2][SLICES];
	struct kvmm_events *events;
	int err = churn(w, ROUNDS / 4);

	for (u32 i = 0; i < SLICES && !err; i++) {
		err = churn_ns(w, &ns[0][i]);
		if (!err)
			err = kvmm_events_open(w->pool, NULL, &events);
		if (!err)
			err = churn_ns(w, &ns[1][i]);
		if (!err)
			kvmm_events_close(events);
	}
	if (err)
		return err;
	for (u32 i = 0; i < 2; i++)
		qsort(ns[i], SLICES, sizeof(ns[i][0]), by_value);
	series_add(off, ns[0][SLICES / 2]);
	series_add(on, ns[1][SLICES / 2]);
	series_add(event, (ns[1][SLICES / 2] - ns[0][SLICES / 2]) / 2);
	return 0;
}

/* Nanoseconds an event, to read it, and to read and encode it. */
static int measure_read(struct world *w, struct series *read, struct series *encode)
{
	static struct kvmm_event buf[512];
	static unsigned char bytes[KVMM_WIRE_BYTES_FOR(512)];
	struct kvmm_events *events;
	u64 begin, took[2] = { 0 }, nr_lost, nr_events = 0;
	int err = kvmm_events_open(w->pool, NULL, &events), nr;

	if (err)
		return err;
	err = churn(w, ROUNDS / 8);
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
	series_add(read, (double)took[0] / nr_events);
	series_add(encode, (double)took[1] / nr_events);
	return 0;
}

static int run_once(struct world *w, struct series *s[])
{
	int err = make_world(w);

	if (err)
		return err;
	err = measure_emit(w, s[0], s[1], s[2]);
	if (!err)
		err = measure_read(w, s[3], s[4]);
	kvmm_pool_destroy(w->pool);
	return err;
}

static int run(struct bench *bench)
{
	static const struct { const char *metric, *unit; } what[] = {
		{ "block_off", "ns" }, { "block_on", "ns" }, { "event", "ns" }, { "read", "ns" },
		{ "encode", "ns" },
	};
	struct series *s[ARRAY_SIZE(what)];
	struct world w;
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(what); i++)
		s[i] = bench_series(bench, what[i].metric, what[i].unit, "blocks=%u batch=%u",
				    NR_BLOCKS, BATCH);
	series_against(s[1], "off", s[0]);
	for (unsigned int i = 0; !err && i < bench->nr_runs; i++)
		err = run_once(&w, s);
	if (!err)
		bench_report(bench);
	return err;
}

const struct bench_kind bench_events = {
	.name = "events",
	.what = "what an event costs who makes it, and who reads it",
	.run = run,
};
