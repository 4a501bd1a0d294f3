// SPDX-License-Identifier: Apache-2.0
/* See drive.h. Needs no Criterion: programs use it, too. */
#include <string.h>

#include "drive.h"
#include "tests/support/lease.h"

#define NR_PROMPTS	40u

/* ---- chance, and what was answered ---- */

static u32 chance(struct drive *d, u32 below)
{
	d->random ^= d->random << 13;
	d->random ^= d->random >> 7;
	d->random ^= d->random << 17;
	return (d->random >> 11) % below;
}

static void note(struct drive *d, u64 word)
{
	d->sum = (d->sum ^ word) * 0x100000001b3ull;
	d->sum ^= d->sum >> 29;
}

static void note_handle(struct drive *d, u32 index, u32 gen)
{
	note(d, (u64)gen << 32 | index);
}

/* Blocks of one prompt begin alike, up to where it branches. */
static void fill_keys(struct drive *d, kvmm_key_t *keys, u32 nr)
{
	u32 prompt = chance(d, NR_PROMPTS), branch = 1 + chance(d, DRIVE_BATCH);

	memset(keys, 0, nr * sizeof(*keys));
	for (u32 i = 0; i < nr; i++) {
		keys[i].byte[0] = 1 + prompt % (i < branch ? 5 : NR_PROMPTS);
		keys[i].byte[1] = i;
		keys[i].byte[7] = keys[i].byte[0] * 37 + i;
		keys[i].byte[12] = i < branch ? 0 : branch;
	}
}

static void note_blocks(struct drive *d, const kvmm_mut_t *muts, u32 nr)
{
	u32 ids[DRIVE_BATCH];

	note(d, kvmm_blocks_of_muts(d->pool, muts, nr, ids));
	for (u32 i = 0; i < nr; i++) {
		note_handle(d, muts[i].index, muts[i].gen);
		note(d, ids[i]);
	}
}

/* ---- cached blocks ---- */

static void keep_refs(struct drive *d, const kvmm_ref_t *refs, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		note_handle(d, refs[i].index, refs[i].gen);
		note(d, kvmm_block_of_ref(d->pool, refs[i]));
	}
	if (d->nr_refs + nr > DRIVE_HELD) {
		note(d, kvmm_put_many(d->pool, refs, nr));
		return;
	}
	memcpy(d->ref + d->nr_refs, refs, nr * sizeof(*refs));
	d->nr_refs += nr;
}

static const char *do_acquire(struct drive *d)
{
	kvmm_key_t keys[DRIVE_BATCH], evicted[DRIVE_BATCH];
	kvmm_mut_t fresh[DRIVE_BATCH];
	kvmm_ref_t hits[DRIVE_BATCH];
	u32 nr = 1 + chance(d, DRIVE_BATCH);
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = nr, .max_hits = nr,
					 .nr_blocks = nr,
					 .hits = hits, .fresh = fresh, .evicted = evicted,
					 .reserve = chance(d, 4) };
	struct kvmm_prefix rest;
	int err;

	fill_keys(d, keys, nr);
	err = kvmm_acquire(d->pool, &req);
	note(d, err);
	if (err)
		return "acquire";
	note_blocks(d, fresh, req.nr_fresh);
	for (u32 i = 0; i < req.nr_evicted; i++)
		note(d, evicted[i].byte[0] << 16 | evicted[i].byte[1] << 8 | evicted[i].byte[12]);
	rest = (struct kvmm_prefix){ .keys = keys + req.nr_hits, .nr = req.nr_fresh,
				     .position = req.nr_hits };
	keep_refs(d, hits, req.nr_hits);
	if (!req.nr_fresh)
		return "acquire";
	err = kvmm_prefix_register(d->pool, &rest, fresh, hits);
	note(d, err);
	if (!err)
		keep_refs(d, hits, req.nr_fresh);
	return "acquire";
}

static const char *do_match(struct drive *d)
{
	kvmm_key_t keys[DRIVE_BATCH];
	kvmm_ref_t hits[DRIVE_BATCH];
	int nr;

	fill_keys(d, keys, DRIVE_BATCH);
	nr = kvmm_match(d->pool, keys, DRIVE_BATCH, hits);
	note(d, nr);
	if (nr > 0)
		keep_refs(d, hits, nr);
	return "match";
}

/* The last ones, in the order in which they came. */
static u32 some_refs(struct drive *d, u32 *first)
{
	u32 nr = d->nr_refs ? 1 + chance(d, d->nr_refs < DRIVE_BATCH ? d->nr_refs : DRIVE_BATCH) :
			      0;

	*first = d->nr_refs - nr;
	return nr;
}

static const char *do_put(struct drive *d)
{
	u32 first, nr = some_refs(d, &first);

	note(d, kvmm_put_many(d->pool, d->ref + first, nr));
	d->nr_refs -= nr;
	return "put";
}

static const char *do_touch(struct drive *d)
{
	u32 first, nr = some_refs(d, &first);

	note(d, kvmm_touch_many(d->pool, d->ref + first, nr));
	return "touch";
}

static const char *do_advise(struct drive *d)
{
	u64 values[DRIVE_BATCH];
	u32 first, nr = some_refs(d, &first), what = chance(d, KVMM_NR_ADVICES);

	for (u32 i = 0; i < nr; i++)
		values[i] = 1 + chance(d, 100);
	note(d, kvmm_advise_many(d->pool, d->ref + first, what, values, nr));
	return "advise";
}

static const char *do_alloc(struct drive *d)
{
	u32 nr = 1 + chance(d, 8);
	int err;

	if (d->nr_muts + nr > DRIVE_HELD)
		return "none";
	err = kvmm_alloc_for(d->pool, nr, chance(d, 3), d->mut + d->nr_muts);
	note(d, err);
	if (err)
		return "alloc";
	note_blocks(d, d->mut + d->nr_muts, nr);
	d->nr_muts += nr;
	return "alloc";
}

static const char *do_free(struct drive *d)
{
	u32 nr = d->nr_muts ? 1 + chance(d, d->nr_muts) : 0;

	note(d, kvmm_free(d->pool, d->mut + d->nr_muts - nr, nr));
	d->nr_muts -= nr;
	return "free";
}

static const char *do_evict(struct drive *d)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = chance(d, 16) };
	u32 ids[4];

	if (chance(d, 2)) {
		note(d, kvmm_evict_for(d->pool, &req));
		note(d, req.nr_evicted);
		return "evict_for";
	}
	for (u32 i = 0; i < 4; i++)
		ids[i] = chance(d, 64);
	note(d, kvmm_evict_blocks(d->pool, ids, 4));
	return "evict_blocks";
}

static const char *do_reset(struct drive *d)
{
	if (!chance(d, 20))
		note(d, kvmm_reset_inactive(d->pool));
	return "reset";
}

/* ---- ranges ---- */

static void note_range(struct drive *d, kvmm_range_t range)
{
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	int nr = kvmm_range_extents(d->pool, range, ext, KVMM_MAX_RUNS);

	note(d, nr);
	for (int i = 0; i < nr && i < (int)KVMM_MAX_RUNS; i++)
		note(d, (u64)ext[i].start << 32 | ext[i].nr);
}

static const char *do_range(struct drive *d)
{
	static const u32 flags[] = { 0, 0, KVMM_ALLOC_TOPDOWN, KVMM_ALLOC_PINNED,
				     KVMM_ALLOC_NO_EVICT, KVMM_ALLOC_NO_COMPACT };
	kvmm_range_t *range = &d->range[d->nr_ranges];
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + chance(d, 24),
					.max_runs = 1 + chance(d, 6), .seq = chance(d, 9),
					.flags = flags[chance(d, 6)] };
	int err;

	if (d->nr_ranges == DRIVE_HELD)
		return "none";
	err = kvmm_range_alloc_attr(d->pool, &attr, range);
	note(d, err);
	if (err)
		return "range";
	note_handle(d, range->index, range->gen);
	note_range(d, *range);
	d->nr_ranges++;
	return "range";
}

static const char *do_range_free(struct drive *d)
{
	u32 at;

	if (!d->nr_ranges)
		return "none";
	at = chance(d, d->nr_ranges);
	note(d, kvmm_range_free(d->pool, d->range[at]));
	d->range[at] = d->range[--d->nr_ranges];
	return "range_free";
}

static const char *do_range_change(struct drive *d)
{
	kvmm_range_t range, tail;
	u32 nr = 1 + chance(d, 4);
	int err;

	if (!d->nr_ranges)
		return "none";
	range = d->range[chance(d, d->nr_ranges)];
	switch (chance(d, 4)) {
	case 0:
		note(d, kvmm_range_grow(d->pool, range, nr));
		break;
	case 1:
		note(d, kvmm_range_shrink(d->pool, range, nr));
		break;
	case 2:
		note(d, kvmm_range_shrink_front(d->pool, range, nr));
		break;
	default:
		if (d->nr_ranges == DRIVE_HELD)
			break;
		err = kvmm_range_split(d->pool, range, nr, &tail);
		note(d, err);
		if (!err)
			d->range[d->nr_ranges++] = tail;
	}
	note_range(d, range);
	return "range_change";
}

static const char *do_compact(struct drive *d)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = chance(d, 24),
				     .max_blocks = chance(d, 40) };

	if (chance(d, 8))
		return "none";
	note(d, kvmm_pool_compact(d->pool, &goal));
	note(d, (u64)goal.moved << 32 | goal.largest_after);
	return "compact";
}

/* ---- holds ---- */

static const char *do_hold(struct drive *d)
{
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	struct kvmm_prefix prefix = { .nr = 1 + chance(d, 6) };
	kvmm_key_t keys[DRIVE_BATCH];
	int nr;

	if (d->nr_holds == DRIVE_HELD)
		return "none";
	fill_keys(d, keys, prefix.nr);
	prefix.keys = keys;
	attr.prefix = &prefix;
	attr.owner = chance(d, 5);
	attr.lease_ns = chance(d, 1000);
	attr.flags = KVMM_LEASE_PARTIAL | KVMM_LEASE_RECLAIM |
		     (chance(d, 2) ? KVMM_LEASE_PIN : 0);
	nr = kvmm_lease_take(d->pool, &attr, &d->hold[d->nr_holds]);
	note(d, nr);
	if (nr <= 0)
		return "hold";
	note_handle(d, d->hold[d->nr_holds].index, d->hold[d->nr_holds].gen);
	d->nr_holds++;
	return "hold";
}

static const char *do_hold_end(struct drive *d)
{
	if (!d->nr_holds)
		return "none";
	if (chance(d, 2)) {
		note(d, drop_lease(d->pool, d->hold[--d->nr_holds]));
		return "hold_release";
	}
	d->now_ns += chance(d, 400);
	note(d, kvmm_lease_expire(d->pool, d->now_ns, NULL));
	return "hold_expire";
}

/* ---- all of them ---- */

void drive_init(struct drive *d, struct kvmm_pool *pool, u64 seed)
{
	*d = (struct drive){ .pool = pool, .random = seed * 0x9e3779b97f4a7c15ull | 1,
			     .now_ns = 1 };
}

const char *drive_step(struct drive *d)
{
	static const char *(*const calls[])(struct drive *d) = {
		do_acquire, do_acquire, do_acquire, do_match, do_put, do_put, do_put, do_touch,
		do_advise, do_alloc, do_free, do_evict, do_reset, do_range, do_range,
		do_range_free, do_range_free, do_range_change, do_range_change, do_compact,
		do_hold, do_hold_end,
	};

	d->nr_calls++;
	return calls[chance(d, sizeof(calls) / sizeof(calls[0]))](d);
}

void drive_end(struct drive *d)
{
	kvmm_put_many(d->pool, d->ref, d->nr_refs);
	kvmm_free(d->pool, d->mut, d->nr_muts);
	while (d->nr_ranges)
		kvmm_range_free(d->pool, d->range[--d->nr_ranges]);
	while (d->nr_holds)
		drop_lease(d->pool, d->hold[--d->nr_holds]);
}
