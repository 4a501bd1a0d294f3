// SPDX-License-Identifier: Apache-2.0
/* What a tenant left behind is not seen by the next one: canaries in every block. */
#include <kv/cuda.h>
#include <kv/rcu.h>

#include "tests/pool/util.h"

#define NR	8u

static struct kvmm_pool *make_zeroing(const char *policy, u32 zero)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = policy,
				       .zero = zero };

	return make_pool_of(&attr);
}

static void plant(struct kvmm_pool *pool, u32 block, u8 canary)
{
	u8 buf[TEST_BLOCK_BYTES];

	memset(buf, canary, sizeof(buf));
	cr_assert_eq(kvmm_block_write(pool, block, 0, buf, sizeof(buf)), 0);
}

/* The one byte value that the block is full of, or '?'. */
static u8 content(struct kvmm_pool *pool, u32 block)
{
	u8 buf[TEST_BLOCK_BYTES];

	cr_assert_eq(kvmm_block_read(pool, block, 0, buf, sizeof(buf)), 0);
	for (u32 i = 1; i < sizeof(buf); i++)
		if (buf[i] != buf[0])
			return '?';
	return buf[0] ? buf[0] : '0';
}

/* Content of all blocks that @mut name, and then theirs is @canary. */
static const char *take_blocks(struct kvmm_pool *pool, u32 nr, u32 tenant, kvmm_mut_t *mut,
			       u8 canary)
{
	static char seen[NR + 1];

	cr_assert_eq(kvmm_alloc_for(pool, nr, tenant, mut), 0);
	for (u32 i = 0; i < nr; i++) {
		int block = kvmm_block_of_mut(pool, mut[i]);

		seen[i] = content(pool, block);
		plant(pool, block, canary);
	}
	seen[nr] = '\0';
	return seen;
}

static void expect_seen(u32 zero, const char *again, const char *other)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_zeroing("lru", zero);
	kvmm_mut_t mut[NR];

	for (u32 i = 0; i < NR; i++)
		plant(pool, i, 'x');
	take_blocks(pool, 4, 1, mut, 'a');
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
	cr_expect_str_eq(take_blocks(pool, 4, 1, mut, 'a'), again);
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
	cr_expect_str_eq(take_blocks(pool, 4, 2, mut, 'b'), other);
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
}

Test(tenant, blocks_are_zeroed_when_the_pool_says_so)
{
	expect_seen(KVMM_ZERO_NEVER, "aaaa", "aaaa");
	expect_seen(KVMM_ZERO_TENANT, "aaaa", "0000");
	expect_seen(KVMM_ZERO_ALWAYS, "0000", "0000");
}

POOL_TEST(tenant, what_nobody_is_known_to_have_written_is_zeroed_for_everybody,
	  make_zeroing("lru", KVMM_ZERO_TENANT))
{
	kvmm_mut_t mut[NR];

	for (u32 i = 0; i < NR; i++)
		plant(pool, i, 'x');
	cr_expect_str_eq(take_blocks(pool, NR, 0, mut, 'a'), "00000000");
	cr_expect_eq(kvmm_free(pool, mut, NR), 0);
}

POOL_TEST(tenant, evicted_blocks_are_zeroed_for_another_tenant,
	  make_zeroing("lru", KVMM_ZERO_TENANT))
{
	kvmm_key_t key[NR];
	kvmm_mut_t mut[NR];
	kvmm_ref_t ref[NR];
	struct kvmm_prefix prefix = { .keys = key, .nr = NR, .domain = { .tenant = 7 } };
	struct kvmm_acquire_args req = { .nr_blocks = 3, .fresh = mut, .domain = { .tenant = 8 } };

	for (u32 i = 0; i < NR; i++)
		key[i] = key_of(i);
	take_blocks(pool, NR, 7, mut, 'a');
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, mut, ref), 0);
	cr_assert_eq(kvmm_put_many(pool, ref, NR), 0);
	cr_assert_eq(kvmm_acquire(pool, &req), 0);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(content(pool, kvmm_block_of_mut(pool, mut[i])), '0');
	/* What is cached still is what it was. */
	cr_assert_eq(kvmm_prefix_match(pool, &prefix, ref), 5);
	for (u32 i = 0; i < 5; i++)
		cr_expect_eq(content(pool, kvmm_block_of_ref(pool, ref[i])), 'a');
	cr_expect_eq(kvmm_put_many(pool, ref, 5), 0);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}

static kvmm_range_t take_range(struct kvmm_pool *pool, u32 nr, u32 tenant)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .max_runs = 1,
					.tenant = tenant };
	kvmm_range_t range;

	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	return range;
}

static const char *range_content(struct kvmm_pool *pool, kvmm_range_t range)
{
	static char seen[NR + 1];
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	int nr_ext = kvmm_range_extents(pool, range, ext, KVMM_MAX_RUNS);
	u32 nr = 0;

	for (int i = 0; i < nr_ext; i++)
		for (u32 b = 0; b < ext[i].nr; b++)
			seen[nr++] = content(pool, ext[i].start + b);
	seen[nr] = '\0';
	return seen;
}

POOL_TEST(tenant, ranges_are_zeroed_when_they_are_made_and_when_they_grow,
	  make_zeroing(NULL, KVMM_ZERO_TENANT))
{
	kvmm_range_t range = take_range(pool, NR, 1);

	for (u32 i = 0; i < NR; i++)
		plant(pool, i, 'a');
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	range = take_range(pool, 2, 2);
	cr_expect_str_eq(range_content(pool, range), "00");
	cr_assert_eq(kvmm_range_grow(pool, range, 2), 0);
	cr_expect_str_eq(range_content(pool, range), "0000");
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	range = take_range(pool, NR, 1);
	cr_expect_str_eq(range_content(pool, range), "0000aaaa");
	cr_assert_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(tenant, what_compaction_moves_keeps_its_tenant, make_zeroing(NULL, KVMM_ZERO_TENANT))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t low = take_range(pool, 4, 1), high = take_range(pool, 4, 2);

	for (u32 i = 0; i < NR; i++)
		plant(pool, i, i < 4 ? 'a' : 'b');
	cr_assert_eq(kvmm_range_free(pool, low), 0);
	cr_assert_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_str_eq(range_content(pool, high), "bbbb");
	cr_assert_eq(kvmm_range_free(pool, high), 0);
	/* Copies of its content lie in all eight blocks. */
	low = take_range(pool, NR, 2);
	cr_expect_str_eq(range_content(pool, low), "bbbbbbbb");
	cr_assert_eq(kvmm_range_free(pool, low), 0);
	low = take_range(pool, NR, 1);
	cr_expect_str_eq(range_content(pool, low), "00000000");
	cr_assert_eq(kvmm_range_free(pool, low), 0);
}

/* ---- fills that fail ---- */

static u32 fills_left;

/* Another owner of a range, which lets it grow while the first one's new blocks are zeroed. */
static struct {
	struct kvmm_pool *pool;
	kvmm_range_t range;
	u32 by;
} other;

static int failing_fill(struct kv_dev *dev, u64 addr, u8 byte, u64 bytes)
{
	u32 by = other.by;

	if (by) {
		other.by = 0;
		fills_left += by;
		cr_assert_eq(kvmm_range_grow(other.pool, other.range, by), 0);
	}
	if (!fills_left)
		return -EIO;
	fills_left--;
	return kv_dev_host.fill(dev, addr, byte, bytes);
}

/* Half of what was asked for. */
static int failing_move(struct kv_dev *dev, const struct kv_copy *copy, struct kv_fence *fence)
{
	struct kv_move half = { copy->moves[0].src, copy->moves[0].dst, copy->moves[0].nr / 2 };
	struct kv_copy some = *copy;

	some.moves = &half;
	some.nr = 1;
	kv_dev_host.copy_blocks(dev, &some, fence);
	return -EIO;
}

static struct kvmm_pool *make_failing(void)
{
	static struct kv_dev_ops dev;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR,
				       .block_bytes = TEST_BLOCK_BYTES, .zero = KVMM_ZERO_TENANT };
	struct kv_pool_parts parts = { .all = kv_pool_parts_all, .dev = &dev, .map = &kv_map_flat,
				       .evict = &kv_evict_lru, .planner = &kv_planner_slide };
	struct kvmm_pool *pool;

	dev = kv_dev_host;
	dev.fill = failing_fill;
	dev.copy_blocks = failing_move;
	cr_assert_eq(kv_pool_create(&attr, &parts, &pool), 0);
	return pool;
}

Test(tenant, blocks_that_cannot_be_zeroed_are_not_handed_out)
{
	struct kvmm_pool *pool = make_failing();
	kvmm_key_t key[2] = { key_of(0), key_of(1) };
	kvmm_mut_t mut[NR];
	kvmm_ref_t ref[2];
	struct kvmm_acquire_args req = { .keys = key, .nr_keys = 2, .max_hits = 2, .nr_blocks = 6,
					 .hits = ref, .fresh = mut };

	fills_left = 2;
	cache_keys(pool, 0, 2);
	/* What has been zeroed stays so: three blocks after the last round. */
	for (u32 i = 0; i < 3; i++) {
		fills_left = i;
		cr_expect_eq(kvmm_acquire(pool, &req), -EIO);
		cr_expect_str_eq(picture(pool), "II......");
		fills_left = 0;
		cr_expect_eq(kvmm_alloc(pool, 6, mut), -EIO);
		cr_expect_eq(kvmm_range_alloc(pool, 6, 0, &(kvmm_range_t){ 0 }), -EIO);
		cr_expect_str_eq(picture(pool), "II......");
		cr_expect_eq(kvmm_validate(pool), 0);
	}
	kv_pool_destroy(pool);
	kv_rcu_barrier();
}

static void expect_length(struct kvmm_pool *pool, kvmm_range_t range, u32 nr)
{
	struct kvmm_range_info info;

	cr_assert_eq(kvmm_range_get_info(pool, range, &info), 0);
	cr_expect_eq(info.nr, nr);
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* Two blocks of two owners. */
static kvmm_range_t take_shared(struct kvmm_pool *pool)
{
	kvmm_range_t range;

	fills_left = 2;
	range = take_range(pool, 2, 1);
	cr_assert_eq(kvmm_range_get(pool, range), 0);
	return range;
}

Test(tenant, a_shared_range_that_cannot_be_zeroed_is_as_long_as_it_was)
{
	struct kvmm_pool *pool = make_failing();
	kvmm_range_t range = take_shared(pool), twice[2] = { range, range };

	cr_expect_eq(kvmm_range_grow(pool, range, 1), -EIO);
	expect_length(pool, range, 2);
	cr_assert_eq(kvmm_range_pin(pool, range), 0);
	cr_expect_eq(kvmm_range_grow(pool, range, 1), -EIO);
	expect_length(pool, range, 2);
	fills_left = 1;
	cr_expect_eq(kvmm_range_grow_many(pool, twice, 2, 1), -EIO);
	expect_length(pool, range, 2);
	cr_expect_eq(kvmm_range_extents(pool, range, NULL, 0), 1);
	kv_pool_destroy(pool);
	kv_rcu_barrier();
}

Test(tenant, what_another_owner_adds_meanwhile_is_not_taken_away)
{
	struct kvmm_pool *pool = make_failing();

	other.pool = pool;
	other.range = take_shared(pool);
	other.by = 1;
	cr_expect_eq(kvmm_range_grow(pool, other.range, 1), -EIO);
	expect_length(pool, other.range, 4);
	cr_expect_eq(kvmm_range_extents(pool, other.range, NULL, 0), -EIO);	/* one is not zero */
	kv_pool_destroy(pool);
	kv_rcu_barrier();
}

Test(tenant, where_a_copy_failed_is_nobodys_content)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_pool *pool = make_failing();
	kvmm_range_t low, high;

	fills_left = 100;
	low = take_range(pool, 4, 1);
	high = take_range(pool, 4, 2);
	for (u32 i = 0; i < NR; i++)
		plant(pool, i, i < 4 ? 'a' : 'b');
	cr_assert_eq(kvmm_range_free(pool, low), 0);
	cr_assert_eq(kvmm_pool_compact(pool, &goal), -EIO);
	low = take_range(pool, 4, 1);
	cr_expect_str_eq(range_content(pool, low), "0000");
	cr_expect_str_eq(range_content(pool, high), "bbbb");
	cr_expect_eq(kvmm_validate(pool), 0);
	kv_pool_destroy(pool);
	kv_rcu_barrier();
}

Test(tenant, a_pool_without_memory_has_nothing_to_zero)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR,
				       .zero = KVMM_ZERO_TENANT };
	struct kvmm_pool *pool;

	cr_expect_eq(kvmm_pool_create(&attr, &pool), -EINVAL);
}
