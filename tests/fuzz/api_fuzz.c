// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a hostile caller of a pool: each byte string is a pool of some engine, policy,
 * compactor and memory, and then calls with good, stale, foreign and invented arguments, some of
 * them with the host out of memory.
 *
 * A small model knows which handles are alive, how long each range is, and a stamp for the content
 * of each of its blocks. After each call the pool must be valid, ranges must have their length and
 * content, and a call that failed must have left every block and count as it was.
 */
#include <kv/zone.h>

#include "tests/fuzz/fuzz.h"

#define MAX_BLOCKS	80u
#define MAX_RANGES	24u
#define MAX_CACHED	64u
#define MAX_STALE	8u
#define MAX_BATCH	10u
#define NR_KEYS		24u
#define PLANE_BYTES	16u

struct model_range {
	kvmm_range_t range;
	u32 nr;
	u32 refs;
	u32 pins;
	u64 seq;
	u32 stamp[MAX_BLOCKS];
};

static struct fuzz {
	struct kvmm_pool *pool, *other;
	u32 nr_blocks;
	bool has_memory, has_cache;
	u32 next_stamp;
	u8 memory[2 * PLANE_BYTES * MAX_BLOCKS];

	struct model_range range[MAX_RANGES];
	u32 nr_ranges;
	kvmm_ref_t ref[MAX_CACHED];
	u32 nr_refs;
	kvmm_range_t stale[MAX_STALE];
	kvmm_range_t foreign;
	u32 next_stale;
} f;

/* ---- input ---- */

/* Mostly small, sometimes absurd. */
static u32 any_nr(void)
{
	static const u32 absurd[] = { 0, KVMM_MAX_BLOCKS, KVMM_MAX_BLOCKS + 1, 0x7fffffff,
				      0x80000000, 0xffffffff };
	u32 nr = any(256);

	if (nr < 250)
		return nr % (MAX_BLOCKS / 2);
	return absurd[nr - 250];
}

/* Of a structure of which there are @bytes: less, or more than could be true. */
static size_t any_size(u32 bytes)
{
	u32 size = any(bytes + 2);

	return size <= bytes ? size : SIZE_MAX;
}

/* ---- what must not change ---- */

static u64 digest(bool with_places)
{
	struct kvmm_block_info info;
	struct kvmm_pool_stat stat;
	u64 hash = 0;

	require(!kvmm_pool_get_stat(f.pool, &stat));
	hash = mix(mix(mix(hash, stat.nr_free), stat.nr_available), stat.nr_ranges);
	for (u32 i = 0; i < KVMM_NR_BLOCK_STATES; i++)
		hash = mix(hash, stat.nr_state[i]);
	hash = mix(mix(mix(hash, stat.allocs), stat.frees), stat.evictions);
	hash = mix(mix(hash, stat.registered), stat.hit_blocks);
	for (u32 i = 0; with_places && i < f.nr_blocks; i++) {
		require(!kvmm_block_get_info(f.pool, i, &info));
		hash = mix(mix(mix(hash, info.state), info.refs), info.pins);
		hash = mix(mix(mix(hash, info.seq), info.range.index), info.range.gen);
	}
	return hash;
}

/* ---- content ---- */

static u32 block_at(const struct model_range *r, u32 i)
{
	struct kvmm_extent ext[MAX_BLOCKS];
	int nr = kvmm_range_extents(f.pool, r->range, ext, MAX_BLOCKS);

	require(nr > 0 && nr <= (int)MAX_BLOCKS);
	for (int e = 0; e < nr; e++) {
		if (i < ext[e].nr)
			return ext[e].start + i;
		i -= ext[e].nr;
	}
	return KV_NONE;
}

static void stamp_blocks(struct model_range *r, u32 from)
{
	for (u32 i = from; i < r->nr; i++) {
		r->stamp[i] = ++f.next_stamp;
		if (f.has_memory)
			require(!kvmm_block_write(f.pool, block_at(r, i), PLANE_BYTES - 2,
						  &r->stamp[i], sizeof(u32)));
	}
}

static void check_range(const struct model_range *r)
{
	struct kvmm_range_info info;
	u32 stamp;

	require(!kvmm_range_get_info(f.pool, r->range, &info));
	require(info.nr == r->nr && info.seq == r->seq);
	require(info.refs == r->refs && info.pins == r->pins);
	require(block_at(r, r->nr) == KV_NONE);
	for (u32 i = 0; f.has_memory && i < r->nr; i++) {
		require(!kvmm_block_read(f.pool, block_at(r, i), PLANE_BYTES - 2, &stamp,
					 sizeof(stamp)));
		require(stamp == r->stamp[i]);
	}
}

static void check_all(void)
{
	struct kvmm_pool_stat stat;
	u32 sum = 0;

	require(!kvmm_validate(f.pool));
	for (u32 i = 0; i < f.nr_ranges; i++) {
		check_range(&f.range[i]);
		sum += f.range[i].nr;
	}
	require(!kvmm_pool_get_stat(f.pool, &stat));
	require(stat.nr_ranges == f.nr_ranges && stat.nr_state[KVMM_BLOCK_RANGE] == sum);
	require(!stat.nr_state[KVMM_BLOCK_PRIVATE]);
}

/* ---- handles ---- */

/* A live range (then its place in the model), or a handle that must be refused. */
static struct model_range *any_range(kvmm_range_t *range)
{
	u32 i = any(64);

	if (i < 48 && f.nr_ranges) {
		*range = f.range[i % f.nr_ranges].range;
		return &f.range[i % f.nr_ranges];
	}
	if (i < 56)
		*range = f.stale[i % MAX_STALE];
	else if (i < 60)
		*range = f.foreign;
	else
		*range = (kvmm_range_t){ any(4) ? any(256) : KV_NONE, any(256) << 8 };
	return NULL;
}

static int refused(int err)
{
	expect(err, -ESTALE, -EINVAL);
	return err;
}

static void forget_range(struct model_range *r)
{
	f.stale[f.next_stale++ % MAX_STALE] = r->range;
	*r = f.range[--f.nr_ranges];
}

static void put_range(struct model_range *r)
{
	if (--r->refs == 0)
		forget_range(r);
}

/* ---- ranges ---- */

static int alloc_range(void)
{
	struct kvmm_alloc_report report;
	/* A newer caller's, too: what it has set that nobody knows must be refused. */
	struct { struct kvmm_range_attr known; u64 unknown; } attr = { .known = {
		.size = any(40) ? sizeof(attr.known) : any_size(sizeof(attr)),
		.nr = any_nr(), .max_runs = any(10), .seq = any(5),
		.prio = any(4), .flags = any(33),
		.report = any(4) ? NULL : &report,
	}, .unknown = !any(3) };
	struct model_range *r = &f.range[f.nr_ranges];
	int err;

	if (f.nr_ranges == MAX_RANGES)
		return 0;
	err = kvmm_range_alloc_attr(f.pool, &attr.known, &r->range);
	expect(err, 0, -EINVAL, -ENOSPC, -ENOMEM);
	if (err)
		return err;
	*r = (struct model_range){ .range = r->range, .nr = attr.known.nr, .refs = 1 };
	if (attr.known.size >= offsetof(struct kvmm_range_attr, prio))
		r->seq = attr.known.seq;
	f.nr_ranges++;
	stamp_blocks(r, 0);
	return err;
}

static int free_range(void)
{
	kvmm_range_t range;
	struct model_range *r = any_range(&range);
	int err = kvmm_range_free(f.pool, range);

	if (!r)
		return refused(err);
	require(err == (r->refs == 1 && r->pins ? -EBUSY : 0));
	if (!err)
		put_range(r);
	return err;
}

static int get_or_pin(void)
{
	kvmm_range_t range;
	struct model_range *r = any_range(&range);
	u32 what = any(3);
	int err = what == 0 ? kvmm_range_get(f.pool, range) :
		  what == 1 ? kvmm_range_pin(f.pool, range) : kvmm_range_unpin(f.pool, range);

	if (!r)
		return refused(err);
	require(err == (what == 2 && !r->pins ? -EINVAL : 0));
	if (what == 0)
		r->refs++;
	else if (what == 1)
		r->pins++;
	else if (!err)
		r->pins--;
	return err;
}

static int grow_range(void)
{
	kvmm_range_t range;
	struct model_range *r = any_range(&range);
	u32 nr = any_nr();
	int err = kvmm_range_grow(f.pool, range, nr);

	if (!r)
		return refused(err);
	expect(err, 0, -EINVAL, -ENOSPC, -ENOMEM);
	if (err)
		return err;
	r->nr += nr;
	stamp_blocks(r, r->nr - nr);
	return err;
}

static int shrink_range(void)
{
	kvmm_range_t range;
	struct model_range *r = any_range(&range);
	u32 nr = any_nr();
	bool front = any(2);
	int err = front ? kvmm_range_shrink_front(f.pool, range, nr) :
			  kvmm_range_shrink(f.pool, range, nr);

	if (!r)
		return refused(err);
	expect(err, 0, -EINVAL, -EBUSY, -EOPNOTSUPP);
	if (err)
		return err;
	require(nr < r->nr && !r->pins && r->refs == 1);
	r->nr -= nr;
	if (front)
		memmove(r->stamp, r->stamp + nr, r->nr * sizeof(u32));
	return err;
}

static int split_range(void)
{
	kvmm_range_t range, tail;
	struct model_range *r = any_range(&range), *new = &f.range[f.nr_ranges];
	u32 at = any_nr();
	int err;

	if (f.nr_ranges == MAX_RANGES)
		return 0;
	err = kvmm_range_split(f.pool, range, at, &tail);
	if (!r)
		return refused(err);
	expect(err, 0, -EINVAL, -EBUSY, -EOPNOTSUPP, -ENOMEM);
	if (err)
		return err;
	*new = (struct model_range){ .range = tail, .nr = r->nr - at, .refs = 1, .seq = r->seq };
	memcpy(new->stamp, r->stamp + at, new->nr * sizeof(u32));
	r->nr = at;
	f.nr_ranges++;
	return err;
}

static int free_sequence(void)
{
	u64 seq = any(6);
	u32 want = 0;
	bool barred = false;
	int err;

	for (u32 i = 0; i < f.nr_ranges; i++) {
		want += f.range[i].seq == seq;
		barred |= f.range[i].seq == seq && f.range[i].refs == 1 && f.range[i].pins;
	}
	require(kvmm_range_find_seq(f.pool, seq, NULL, 0) == (seq ? (int)want : -EINVAL));
	err = kvmm_range_free_seq(f.pool, seq);
	require(err == (!seq ? -EINVAL : barred ? -EBUSY : (int)want));
	for (u32 i = f.nr_ranges; err > 0 && i-- > 0;)
		if (f.range[i].seq == seq)
			put_range(&f.range[i]);
	return min(err, 0);
}

static int walk_ranges(void)
{
	struct kvmm_range_info info;
	u32 cursor = any(8) ? 0 : any_nr(), nr = 0;
	bool whole = !cursor;

	while (!kvmm_range_next(f.pool, &cursor, &info))
		nr++;
	require(whole ? nr == f.nr_ranges : nr <= f.nr_ranges);
	return 0;
}

/* ---- cached blocks ---- */

/* Something that ranges evict, and something that they must not. What is refused here is cache_fuzz's. */
static int use_cache(void)
{
	u64 when[MAX_BATCH] = { any(256) };
	kvmm_key_t key[MAX_BATCH];
	kvmm_ref_t ref[MAX_BATCH];
	kvmm_mut_t fresh[MAX_BATCH];
	u32 nr = any(MAX_BATCH + 1);
	struct kvmm_acquire_args req = { .keys = key, .nr_keys = nr, .max_hits = nr, .nr_blocks = nr,
					 .hits = ref, .fresh = fresh };
	int err, len;

	if (f.nr_refs + nr > MAX_CACHED) {
		require(!kvmm_put_many(f.pool, f.ref, f.nr_refs));
		f.nr_refs = 0;
		return 0;
	}
	for (u32 i = 0; i < nr; i++)
		key[i] = (kvmm_key_t){ { any(NR_KEYS) } };
	len = kvmm_match_len(f.pool, key, nr);
	err = kvmm_acquire(f.pool, &req);
	expect(err, 0, -ENOSPC);
	if (err)
		return err;
	require((int)req.nr_hits == len && req.nr_fresh + req.nr_hits == nr);
	require(!kvmm_register(f.pool, fresh, key + len, nr - len, ref + len));
	for (u32 i = 0; i < nr; i++)
		require(kvmm_block_of_ref(f.pool, ref[i]) < (int)f.nr_blocks);
	expect(kvmm_advise_many(f.pool, ref, KVMM_ADVISE_NEXT_USE, when, nr), 0, -EOPNOTSUPP);
	if (any(3)) {
		require(!kvmm_put_many(f.pool, ref, nr));
		return 0;
	}
	memcpy(f.ref + f.nr_refs, ref, nr * sizeof(*ref));
	f.nr_refs += nr;
	return 0;
}

static int reset_cache(void)
{
	require(kvmm_reset_inactive(f.pool) >= 0);
	return 0;
}

/* ---- the rest ---- */

static int compact(void)
{
	struct kvmm_compact goal = {
		.size = any(20) ? sizeof(goal) : any_size(sizeof(goal)), .want_run = any_nr(),
		.max_blocks = any(32), .max_us = any(2),
	};
	int err = kvmm_pool_compact(f.pool, &goal);

	expect(err, 0, -EAGAIN, -ENOSPC, -EOPNOTSUPP, -EINVAL, -ENOMEM);
	return err;
}

static int look_around(void)
{
	struct kv_zone *zone = kv_pool_zone(f.pool);
	u32 nr = any_nr();

	if (nr && nr <= f.nr_blocks)
		require(kv_zone_unusable(zone, nr) >= 0);
	else
		require(kv_zone_unusable(zone, nr) == -EINVAL);
	return 0;
}

static int access_content(void)
{
	static u8 buf[4 * PLANE_BYTES];
	u64 offset = any(8) ? any(3 * PLANE_BYTES) : ~(u64)0 - any(8);
	size_t bytes = any(8) ? any(3 * PLANE_BYTES) : SIZE_MAX - any(8);
	u32 block = any_nr();
	bool good = f.has_memory && block < f.nr_blocks && offset <= 2 * PLANE_BYTES &&
		    bytes <= 2 * PLANE_BYTES - offset;

	require(kvmm_block_read(f.pool, block, offset, buf, bytes) == (good ? 0 : -EINVAL));
	return 0;
}

static int take_null(void)
{
	require(kvmm_pool_create(NULL, NULL) == -EINVAL);
	require(kvmm_range_alloc_attr(f.pool, NULL, NULL) == -EINVAL);
	require(kvmm_range_extents(f.pool, f.stale[0], NULL, 3) == -EINVAL);
	require(kvmm_range_get_info(f.pool, f.stale[0], NULL) == -EINVAL);
	require(kvmm_acquire(f.pool, NULL) == -EINVAL);
	require(kvmm_match(f.pool, NULL, 1, NULL) == -EINVAL);
	require(kvmm_register(f.pool, NULL, NULL, 1, NULL) == -EINVAL);
	require(kvmm_free(f.pool, NULL, 1) == -EINVAL);
	require(kvmm_put_many(NULL, NULL, 0) == -EINVAL);
	require(kvmm_pool_compact(f.pool, NULL) == -EINVAL);
	require(kvmm_pool_get_stat(NULL, NULL) == -EINVAL);
	kvmm_pool_destroy(NULL);
	return 0;
}

static int (*const calls[])(void) = {
	alloc_range, alloc_range, alloc_range, free_range, free_range, get_or_pin, grow_range,
	shrink_range, split_range, free_sequence, walk_ranges, compact, look_around,
	access_content, fail_soon, take_null,
	use_cache, use_cache, use_cache, use_cache, reset_cache,
#define NR_CACHE_CALLS	5u	/* the last ones */
};

/*
 * What fails has changed nothing; but a compaction that a budget ended has moved something, and
 * so may an allocation that had the room then, and no host memory for its handle.
 */
static void call_and_check(void)
{
	u64 everything = digest(true), counts = digest(false);
	int err = calls[any(ARRAY_SIZE(calls) - (f.has_cache ? 0 : NR_CACHE_CALLS))]();

	if (err) {
		require(digest(false) == counts);
		require(err == -EAGAIN || err == -ENOMEM || digest(true) == everything);
	}
	check_all();
}

/* ---- set-up ---- */

static const char *any_engine(void)
{
	const char *names[16];
	u32 nr = kv_zone_engines(names, ARRAY_SIZE(names));

	return names[any(nr)];
}

static const char *any_policy(void)
{
	const char *names[32];
	u32 nr = min(kvmm_policies(names, ARRAY_SIZE(names)), (u32)ARRAY_SIZE(names));
	u32 i = any(nr + 1);

	return i < nr ? names[i] : NULL;
}

static int make_pool(void)
{
	static const char *const compactors[] = { NULL, "window", "slide", "off" };
	/* Pieces side by side, or one tensor behind the other. */
	const struct kvmm_plane mixed[2] = {
		{ (uintptr_t)f.memory, 2 * PLANE_BYTES, PLANE_BYTES },
		{ (uintptr_t)f.memory + PLANE_BYTES, 2 * PLANE_BYTES, PLANE_BYTES },
	}, apart[2] = {
		{ (uintptr_t)f.memory, PLANE_BYTES, PLANE_BYTES },
		{ (uintptr_t)f.memory + PLANE_BYTES * MAX_BLOCKS, PLANE_BYTES, PLANE_BYTES },
	};
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	u32 memory = any(4);

	attr.allocator = any_engine();
	attr.policy = any_policy();
	attr.compactor = compactors[any(4)];
	attr.nr_blocks = 1 + any(MAX_BLOCKS);
	attr.flags = any(2);
	attr.compact_max_blocks = any(3) ? 0 : any(MAX_BLOCKS);
	attr.block_bytes = memory == 1 ? 2 * PLANE_BYTES : 0;
	if (memory > 1) {
		attr.planes = memory == 2 ? mixed : apart;
		attr.nr_planes = 2;
	}
	f.nr_blocks = attr.nr_blocks;
	f.has_memory = memory;
	f.has_cache = attr.policy;
	return kvmm_pool_create(&attr, &f.pool);
}

static int make_pools(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 2, .name = "other" };
	int err = make_pool();

	if (err)
		return err;
	require(!kvmm_pool_create(&attr, &f.other));
	require(!kvmm_range_alloc(f.other, 1, 0, &f.foreign));
	return 0;
}

static void poison_and_check(void)
{
	u32 start;

	if (!kv_zone_alloc(kv_pool_zone(f.pool), 1, &start) && !any(4)) {
		int err = kvmm_validate(f.pool);

		expect(err, 0, -EUCLEAN);	/* 0: an engine that rounds up */
		if (!err)
			return;
		for (u32 i = 0; i < f.nr_ranges; i++)
			require(kvmm_range_free(f.pool, f.range[i].range) == -EUCLEAN);
		require(kvmm_pool_get_stat(f.pool, &(struct kvmm_pool_stat){ 0 }) == -EUCLEAN);
	}
}

static void end_pools(void)
{
	poison_and_check();
	kvmm_pool_destroy(f.pool);
	kvmm_pool_destroy(f.other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	memset(&f, 0, sizeof(f));
	return fuzz_run(data, bytes, make_pools, call_and_check, end_pools);
}
