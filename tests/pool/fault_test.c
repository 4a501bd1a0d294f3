// SPDX-License-Identifier: Apache-2.0
/*
 * Host memory that runs out: at the first allocation, at the second, and so on until the call
 * succeeds. Each time nothing may have changed, nor be left behind.
 */
#include "kv/pool_migrate.h"
#include "pool/internal.h"
#include "tests/pool/util.h"
#include "tests/support/fault.h"

TestSuite(fault, .init = fault_begin, .fini = fault_end);

Test(fault, a_pool_is_made_as_a_whole_or_not_at_all)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 64, .policy = "lru",
				       .block_bytes = 64 };
	struct kvmm_pool *pool;

	cr_expect_geq(fault_create(&attr, &pool), 10);
	end_pool(pool);
}

Test(fault, a_pool_with_magazines_is_made_as_a_whole)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 1024, .policy = "lru" };
	struct kvmm_pool *pool;

	cr_expect_gt(fault_create(&attr, &pool), 4);
	cr_expect_not_null(pool->mags);
	end_pool(pool);
}

Test(fault, a_pool_that_tells_a_registry_is_made_as_a_whole)
{
	struct kvmm_registry_attr reg_attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 64, .policy = "lru",
				       .block_bytes = 64 };
	u32 nr_untold, nr_told;
	struct kvmm_pool *pool;

	nr_untold = fault_create(&attr, &pool);
	end_pool(pool);
	cr_assert_eq(kvmm_registry_create(&reg_attr, &attr.registry), 0);
	nr_told = fault_create(&attr, &pool);
	cr_expect_eq(nr_told, nr_untold + 3, "names that are gone, parents, marks: %u", nr_told);
	cache_keys(pool, 0, 40);
	end_pool(pool);
	kvmm_registry_destroy(attr.registry);
}

Test(fault, every_policy_is_made_as_a_whole)
{
	for_each_policy(policy) {
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 64,
					       .policy = policy };
		struct kvmm_pool *pool;

		fault_create(&attr, &pool);
		cache_keys(pool, 0, 40);
		end_pool(pool);
	}
}

Test(fault, the_table_of_pools_grows_or_stays)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4 };
	struct kvmm_pool *pool[20];

	for (u32 i = 0; i < 20; i++)
		fault_create(&attr, &pool[i]);
	cr_expect_str_eq(kv_pool_name(pool[19]), "pool19");
	for (u32 i = 0; i < 20; i++)
		end_pool(pool[i]);
}

/* Everything that a failed call might have changed. */
struct picture {
	struct kvmm_pool_stat stat;
	char map[4097];
	u64 bytes;
	u64 nr_live;
};

static void take_picture(struct kvmm_pool *pool, struct picture *pic)
{
	memset(pic, 0, sizeof(*pic));
	cr_assert_eq(kvmm_validate(pool), 0);
	pic->stat = stat_of(pool);
	strcpy(pic->map, picture(pool));
	pic->bytes = kv_mem_bytes();
	pic->nr_live = fake.nr_live;
}

static void expect_same(struct kvmm_pool *pool, const struct picture *before, u32 n)
{
	static struct picture after;

	take_picture(pool, &after);
	/* A failure may be counted, and is the only thing that may. */
	after.stat.fail_frag = before->stat.fail_frag;
	cr_assert_arr_eq(&after, before, sizeof(after), "allocation %u left a trace", n);
}

/* @call until it succeeds without a failed allocation. */
static u32 expect_all_or_nothing(struct kvmm_pool *pool, int (*call)(struct kvmm_pool *, void *),
				 void *arg)
{
	static struct picture before;

	take_picture(pool, &before);
	for (u32 n = 1;; n++) {
		bool failed;
		int err = fault_at(n, call(pool, arg), &failed);

		if (!failed) {
			cr_assert_eq(err, 0, "%d", err);
			return n - 1;
		}
		if (!err)	/* it could do without */
			return n;
		cr_assert_eq(err, -ENOMEM, "allocation %u: %d", n, err);
		expect_same(pool, &before, n);
	}
}

static int alloc_two(struct kvmm_pool *pool, void *range)
{
	return kvmm_range_alloc(pool, 2, 0, range);
}

static int split_one(struct kvmm_pool *pool, void *arg)
{
	kvmm_range_t *range = arg;

	return kvmm_range_split(pool, range[0], 1, &range[1]);
}

static int alloc_run(struct kvmm_pool *pool, void *range)
{
	return kvmm_range_alloc(pool, 6, KVMM_RUNS(1), range);
}

static int alloc_in_pieces(struct kvmm_pool *pool, void *range)
{
	return kvmm_range_alloc(pool, 6, KVMM_RUNS(4), range);
}

static int alloc_growing(struct kvmm_pool *pool, void *range)
{
	return kvmm_range_alloc(pool, 1, KVMM_ALLOC_GROWS, range);
}

static int grow_by_one(struct kvmm_pool *pool, void *range)
{
	return kvmm_range_grow(pool, *(kvmm_range_t *)range, 1);
}

static int seal_one(struct kvmm_pool *pool, void *range)
{
	return kvmm_range_seal(pool, *(kvmm_range_t *)range, 1);
}

static int compact_all(struct kvmm_pool *pool, void *goal)
{
	return kvmm_pool_compact(pool, goal);
}

/*
 * Slots grow every CHUNK_SLOTS ranges, the chains of sequences and the directory each time that there
 * are twice as many.
 */
POOL_TEST(fault, the_table_of_ranges_grows_or_stays, make_pool(4096))
{
	kvmm_range_t range;

	for (u32 i = 0; i < 12 * CHUNK_SLOTS + 1; i++) {
		u32 nr = !i ? 3 : i % (6 * CHUNK_SLOTS) ? 1 : 2;

		if (i % CHUNK_SLOTS)
			take_seq(pool, 1, 0, i);
		else
			cr_expect_geq(expect_all_or_nothing(pool, alloc_two, &range), nr);
	}
}

POOL_TEST(fault, a_split_needs_a_slot_or_does_nothing, make_pool(1024))
{
	kvmm_range_t range[2];

	range[0] = take_seq(pool, 4, 0, 'x');
	for (u32 i = 1; i < CHUNK_SLOTS; i++)
		take(pool, 1, 0);
	cr_expect_eq(expect_all_or_nothing(pool, split_one, range), 2);
}

/* Plain ranges have no record beside their line: the first that needs one may be refused. */
POOL_TEST(fault, a_range_that_is_not_plain_needs_a_record_or_is_not_made, make_pool(16))
{
	kvmm_range_t range[26], got;

	paint(pool, "aa..bb.cc..dd.ee", range);
	cr_expect_null(slot_side(slot_at(pool, range[0].index)));
	cr_expect_eq(expect_all_or_nothing(pool, alloc_in_pieces, &got), 1);
	cr_expect_eq(kvmm_range_extents(pool, got, NULL, 0), 4);
	cr_expect_not_null(slot_side(slot_at(pool, range[0].index)));
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(fault, a_range_says_that_it_grows_or_is_not_made, make_pool(16))
{
	kvmm_range_t plain = take(pool, 2, 0), got;

	cr_expect_eq(expect_all_or_nothing(pool, alloc_growing, &got), 1);
	cr_expect_eq(kvmm_range_free(pool, plain), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(fault, a_plain_range_grows_or_stays, make_pool(16))
{
	kvmm_range_t range = take(pool, 2, 0);

	cr_expect_eq(expect_all_or_nothing(pool, grow_by_one, &range), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(fault, a_plain_range_is_sealed_or_stays, make_pool(16))
{
	kvmm_range_t range = take(pool, 2, 0);

	cr_expect_eq(expect_all_or_nothing(pool, seal_one, &range), 1);
	cr_expect_eq(slot_sealed(slot_at(pool, range.index)), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* The caller has published it, and cannot go back. */
POOL_TEST(fault, a_range_that_came_here_has_its_name_even_if_not_its_seal, make_pool(16))
{
	kvmm_range_t range = take(pool, 2, 0);
	bool failed;

	cr_expect_eq(fault_at(1, kv_pool_name_range(pool, range, 'x', 1), &failed), 0);
	cr_expect(failed);
	cr_expect_eq(slot_at(pool, range.index)->seq, 'x');
	cr_expect_eq(slot_sealed(slot_at(pool, range.index)), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kv_pool_name_range(pool, range, 'y', 1), 0);
	cr_expect_eq(slot_at(pool, range.index)->seq, 'y');
	cr_expect_eq(slot_sealed(slot_at(pool, range.index)), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(fault, compaction_without_memory_moves_nothing, make_pool(16))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range[26];

	paint(pool, "a.bb.cc.dd.ee.ff", range);
	cr_expect_geq(expect_all_or_nothing(pool, compact_all, &goal), 1);
	cr_expect_str_eq(picture(pool), "abbccddeeff.....");
}

POOL_TEST(fault, direct_compaction_and_eviction_leave_no_trace, make_cache(16, "lru"))
{
	u32 order[16], nr;
	kvmm_range_t got;

	for (u32 i = 0; i < 4; i++) {
		take_seq(pool, 2, 0, 'a' + i);
		cache_keys(pool, 100 + 2 * i, 2);
	}
	cr_expect_geq(expect_all_or_nothing(pool, alloc_run, &got), 1);
	nr = eviction_order(pool, order, 16);
	cr_expect_eq(nr, 2);
	cr_expect_eq(order[0], 107);
	cr_expect_eq(order[1], 106);
}

Test(fault, the_hot_path_allocates_nothing)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool(64), *cache = make_cache(64, "lru");
	kvmm_range_t range = take(pool, 4, 0);
	u64 before = fake.nr_allocs;

	for (u32 i = 0; i < 1000; i++) {
		cr_assert_eq(kvmm_range_free(pool, range), 0);
		range = take(pool, 1 + i % 64, 0);
		cache_keys(cache, i * 3, 7);
	}
	cr_expect_eq(fake.nr_allocs, before);
	cr_expect_gt(stat_of(cache).evictions, 1000);
	end_pool(cache);
}
