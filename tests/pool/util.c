// SPDX-License-Identifier: Apache-2.0

#include "util.h"

struct kvmm_pool *make_pool_of(const struct kvmm_pool_attr *attr)
{
	struct kvmm_pool *pool = NULL;
	int err = kvmm_pool_create(attr, &pool);

	cr_assert_eq(err, 0, "kvmm_pool_create: %d", err);
	return pool;
}

struct kvmm_pool *make_pool(u32 nr_blocks)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .block_bytes = TEST_BLOCK_BYTES };

	return make_pool_of(&attr);
}

struct kvmm_pool *make_cache(u32 nr_blocks, const char *policy)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = policy, .block_bytes = TEST_BLOCK_BYTES };

	return make_pool_of(&attr);
}

void end_pool(struct kvmm_pool *pool)
{
	cr_expect_eq(kvmm_validate(pool), 0);
	kvmm_pool_destroy(pool);
}

kvmm_range_t take_seq(struct kvmm_pool *pool, u32 nr, u32 flags, u64 seq)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .max_runs = flags >> 16,
					.seq = seq, .flags = flags & 0xffff };
	kvmm_range_t range = { 0, 0 };
	int err = kvmm_range_alloc_attr(pool, &attr, &range);

	cr_assert_eq(err, 0, "kvmm_range_alloc_attr(%u): %d", nr, err);
	return range;
}

kvmm_range_t take(struct kvmm_pool *pool, u32 nr, u32 flags)
{
	return take_seq(pool, nr, flags, 0);
}

static char letter_of(struct kvmm_pool *pool, u32 block)
{
	static const char letters[KVMM_BLOCK_AWAY + 1] = {
		[KVMM_BLOCK_FREE] = '.', [KVMM_BLOCK_NULL] = 'N', [KVMM_BLOCK_PRIVATE] = 'P',
		[KVMM_BLOCK_STAGED] = 'S', [KVMM_BLOCK_ACTIVE] = 'A', [KVMM_BLOCK_INACTIVE] = 'I',
		[KVMM_BLOCK_AWAY] = '-',
	};
	struct kvmm_block_info info;

	cr_assert_eq(kvmm_block_get_info(pool, block, &info), 0);
	if (info.state != KVMM_BLOCK_RANGE)
		return letters[info.state];
	return info.seq >= 'a' && info.seq <= 'z' ? info.seq : '#';
}

const char *picture(struct kvmm_pool *pool)
{
	static char line[4097];
	struct kvmm_block_info info;
	u32 i;

	for (i = 0; i < 4096 && !kvmm_block_get_info(pool, i, &info); i++)
		line[i] = letter_of(pool, i);
	line[i] = '\0';
	return line;
}

/*
 * A filler holds everything at first and gives up its front, run by run: that is then the only
 * hole there is, so the next run can only lie there. Holes are ranges that go in the end.
 */
void paint(struct kvmm_pool *pool, const char *want, kvmm_range_t *range)
{
	u32 nr = strlen(want), nr_holes = 0;
	kvmm_range_t filler = take(pool, nr, 0), hole[64];
	bool started[26] = { false };

	for (u32 at = 0; at < nr;) {
		u32 run = strspn(want + at, (char[]){ want[at], '\0' });
		u32 letter = want[at] - 'a';

		if (at + run < nr)
			cr_assert_eq(kvmm_range_shrink_front(pool, filler, run), 0);
		else
			cr_assert_eq(kvmm_range_free(pool, filler), 0);
		if (want[at] == '.')
			hole[nr_holes++] = take(pool, run, KVMM_RUNS(1));
		else if (started[letter])
			cr_assert_eq(kvmm_range_grow(pool, range[letter], run), 0);
		else
			range[letter] = take_seq(pool, run, KVMM_RUNS(1), want[at]);
		if (want[at] != '.')
			started[letter] = true;
		at += run;
	}
	while (nr_holes)
		cr_assert_eq(kvmm_range_free(pool, hole[--nr_holes]), 0);
	cr_assert_str_eq(picture(pool), want);
}

kvmm_key_t key_of(u32 number)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte, &number, sizeof(number));
	memcpy(key.byte + 8, "key", 3);
	return key;
}

u32 number_of(const kvmm_key_t *key)
{
	u32 number;

	memcpy(&number, key->byte, sizeof(number));
	return number;
}

static void fill_block(u8 *buf, u32 seed, u32 i)
{
	for (u32 b = 0; b < TEST_BLOCK_BYTES; b++)
		buf[b] = seed * 131 + i * 31 + b;
}

/* Block number @i of a range, by its extents now. */
static u32 block_at(struct kvmm_pool *pool, kvmm_range_t range, u32 i)
{
	struct kvmm_extent ext[256];
	int nr = kvmm_range_extents(pool, range, ext, 256);

	cr_assert_leq(nr, 256);
	for (int e = 0; e < nr; e++) {
		if (i < ext[e].nr)
			return ext[e].start + i;
		i -= ext[e].nr;
	}
	return KV_NONE;
}

void write_pattern(struct kvmm_pool *pool, kvmm_range_t range, u32 seed)
{
	u8 buf[TEST_BLOCK_BYTES];
	u32 block;

	for (u32 i = 0; (block = block_at(pool, range, i)) != KV_NONE; i++) {
		fill_block(buf, seed, i);
		cr_assert_eq(kvmm_block_write(pool, block, 0, buf, sizeof(buf)), 0);
	}
}

bool has_pattern(struct kvmm_pool *pool, kvmm_range_t range, u32 seed)
{
	u8 want[TEST_BLOCK_BYTES], buf[TEST_BLOCK_BYTES];
	u32 block, i;

	for (i = 0; (block = block_at(pool, range, i)) != KV_NONE; i++) {
		fill_block(want, seed, i);
		if (kvmm_block_read(pool, block, 0, buf, sizeof(buf)) ||
		    memcmp(buf, want, sizeof(buf)))
			return false;
	}
	return i > 0;
}

void register_keys(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *ref)
{
	kvmm_mut_t mut[512];
	kvmm_key_t key[512];

	cr_assert_leq(nr, 512);
	for (u32 i = 0; i < nr; i++)
		key[i] = key_of(first + i);
	cr_assert_eq(kvmm_alloc(pool, nr, mut), 0);
	cr_assert_eq(kvmm_register(pool, mut, key, nr, ref), 0);
}

void cache_keys(struct kvmm_pool *pool, u32 first, u32 nr)
{
	kvmm_ref_t ref[512];

	register_keys(pool, first, nr, ref);
	cr_assert_eq(kvmm_put_many(pool, ref, nr), 0);
}

u32 eviction_order(struct kvmm_pool *pool, u32 *numbers, u32 max)
{
	struct kvmm_pool_stat stat = stat_of(pool);
	kvmm_mut_t mut[256];
	kvmm_key_t evicted[256];
	struct kvmm_acquire_args req = { .nr_blocks = stat.nr_available, .fresh = mut,
					 .evicted = evicted };

	cr_assert_leq(stat.nr_available, 256);
	cr_assert_eq(kvmm_acquire(pool, &req), 0);
	for (u32 i = 0; i < req.nr_evicted && i < max; i++)
		numbers[i] = number_of(&evicted[i]);
	cr_assert_eq(kvmm_free(pool, mut, req.nr_fresh), 0);
	return req.nr_evicted;
}

void expect_order(struct kvmm_pool *pool, const char *want)
{
	char got[1024] = "";
	u32 number[256], nr = eviction_order(pool, number, 256);

	for (u32 i = 0; i < nr; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%u ", number[i]);
	cr_expect_str_eq(got, want);
}

struct kvmm_pool_stat stat_of(struct kvmm_pool *pool)
{
	struct kvmm_pool_stat stat;

	cr_assert_eq(kvmm_pool_get_stat(pool, &stat), 0);
	return stat;
}

struct kvmm_verify_stat verified(struct kvmm_pool *pool)
{
	struct kvmm_verify_stat stat;

	cr_assert_eq(kvmm_verify_get_stat(pool, &stat), 0);
	return stat;
}
