// SPDX-License-Identifier: Apache-2.0
/* What is seen in passing: the same as under the locks, and without them. */
#include <kv/feed.h>

#include "pool/internal.h"
#include "offline/leave.h"
#include "move/verify.h"
#include "percpu/mag.h"
#include "tests/pool/class_util.h"
#include "tests/pool/drive.h"
#include "tests/pool/util.h"

#define NR_STEPS	600u
#define NR_BLOCKS	700u	/* enough for magazines */

static struct kv_pool_glance last, *const glance = &last;

/* A buddy's pieces are not runs. */
static void forget_pieces(struct kvmm_pool_stat *stat)
{
	stat->nr_runs = stat->largest = 0;
}

static void expect_same(struct kvmm_pool *pool, const char *engine, u32 step)
{
	struct kvmm_pool_stat stat, seen;

	cr_assert_eq(kvmm_pool_get_stat(pool, &stat), 0);
	memset(&seen, 0xa5, sizeof(seen));
	cr_assert_eq(kvmm_pool_peek(pool, &seen), 0);
	if (engine && strstr(engine, "buddy")) {
		forget_pieces(&stat);
		forget_pieces(&seen);
	}
	cr_assert_eq(memcmp(&stat, &seen, sizeof(stat)), 0, "%s: step %u: free %u, seen %u; runs %u, "
		     "seen %u; held %u, seen %u; bytes %llu, seen %llu", engine, step, stat.nr_free,
		     seen.nr_free, stat.nr_runs, seen.nr_runs, stat.nr_state[KVMM_BLOCK_PRIVATE],
		     seen.nr_state[KVMM_BLOCK_PRIVATE], (unsigned long long)stat.metadata_bytes,
		     (unsigned long long)seen.metadata_bytes);
}

/* The counts of a step, and the one number asked for each request. */
static void expect_counts(struct kvmm_pool *pool, const char *engine, u32 step)
{
	struct kvmm_pool_stat stat = stat_of(pool);
	struct kvmm_counts counts;
	u32 total;

	memset(&counts, 0xa5, sizeof(counts));
	cr_assert_eq(kvmm_pool_get_counts(pool, &counts), 0);
	cr_assert_eq(kvmm_pool_available(pool, &total), (int)stat.nr_available, "%s: step %u: %d, %u",
		     engine, step, kvmm_pool_available(pool, NULL), stat.nr_available);
	cr_assert_eq(total, stat.nr_blocks - stat.nr_away);
	cr_assert_eq(counts.nr_blocks, total);
	cr_assert_eq(counts.nr_available, stat.nr_available);
	cr_assert_eq(counts.nr_available + counts.nr_used, total);
	cr_assert_eq(counts.nr_free, stat.nr_free);
	cr_assert_eq(counts.nr_inactive, stat.nr_inactive);
	cr_assert_eq(counts.nr_active, stat.nr_state[KVMM_BLOCK_ACTIVE]);
	cr_assert_eq(counts.nr_private, stat.nr_state[KVMM_BLOCK_PRIVATE]);
	cr_assert_eq(counts.nr_staged, stat.nr_state[KVMM_BLOCK_STAGED]);
	cr_assert_eq(counts.range_blocks, stat.nr_state[KVMM_BLOCK_RANGE]);
	cr_assert_eq(counts.nr_ranges, stat.nr_ranges);
	cr_assert_eq(memcmp(&counts.allocs, &stat.allocs, 3 * sizeof(u64)), 0);
	cr_assert_eq(memcmp(&counts.fail_nospc, &stat.fail_nospc, 7 * sizeof(u64)), 0);
}

static void drive_and_compare(const char *engine, u32 flags, u64 seed)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .allocator = engine, .flags = flags };
	struct drive drive;

	drive_init(&drive, make_pool_of(&attr), seed);
	for (u32 i = 0; i < NR_STEPS; i++) {
		drive_step(&drive);
		expect_same(drive.pool, engine, i);
		expect_counts(drive.pool, engine, i);
	}
	drive_end(&drive);
	expect_same(drive.pool, engine, NR_STEPS);
	expect_counts(drive.pool, engine, NR_STEPS);
	end_pool(drive.pool);
}

Test(glance, equals_the_statistics_whatever_happened)
{
	const char *engines[8];
	unsigned int nr = kv_zone_engines(engines, 8);

	for (unsigned int i = 0; i < nr; i++)
		drive_and_compare(engines[i], i % 2 ? KVMM_POOL_NULL_BLOCK : 0, 77 + i);
}

Test(glance, equals_them_without_magazines_too)
{
	drive_and_compare("zone", KVMM_POOL_NO_MAGAZINES, 4711);
	drive_and_compare("zone", KVMM_POOL_DETERMINISTIC, 4712);
}

/* Free blocks wait in the order of eviction there. */
Test(glance, counts_free_blocks_of_a_policy_that_keeps_them)
{
	struct drive drive;

	drive_init(&drive, make_cache(NR_BLOCKS, "lru-classic"), 4713);
	for (u32 i = 0; i < NR_STEPS; i++) {
		drive_step(&drive);
		expect_counts(drive.pool, "lru-classic", i);
	}
	drive_end(&drive);
	cr_expect_gt(drive.pool->count.nr_parked, 0);
	expect_counts(drive.pool, "lru-classic", NR_STEPS);
	end_pool(drive.pool);
}

/* Words of the map that end in the middle, and runs across words. */
Test(glance, map_of_any_length)
{
	for (u32 nr = 1; nr < 200; nr += 3) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_pool(nr);

		expect_same(pool, NULL, nr);
		if (nr > 2) {
			kvmm_range_t first = take(pool, nr / 2, 0), second = take(pool, 1, 0);

			cr_assert_eq(kvmm_range_free(pool, first), 0);
			expect_same(pool, NULL, nr);
			cr_assert_eq(kvmm_range_free(pool, second), 0);
		}
	}
}

/* Taking a lock that this thread has would hang it, or stop a debug build. */
POOL_TEST(glance, takes_no_lock_of_the_hot_ones, make_cache(NR_BLOCKS, "lru"), .timeout = 20)
{
	struct kvmm_tenant_stat tenant[4];
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	struct kvmm_pool_stat stat;
	struct kvmm_counts counts;

	cr_assert_eq(kvmm_tenant_set(pool, 7, &attr), 0);
	cache_keys(pool, 1, 20);
	kv_lock(&pool->compact_lock);
	kv_lock(&pool->lock);
	kv_lock(&pool->order.lock);
	kv_lock(&pool->zone->lock);
	cr_expect_eq(kvmm_pool_peek(pool, &stat), 0);
	cr_expect_eq(stat.nr_inactive, 20);
	cr_expect_eq(kvmm_pool_available(pool, NULL), NR_BLOCKS);
	cr_expect_eq(kvmm_pool_get_counts(pool, &counts), 0);
	cr_expect_eq(counts.nr_inactive, 20);
	cr_expect_eq(kv_pool_glance(pool, glance), 0);
	cr_expect_eq(kv_pool_glance_tenants(pool, tenant, 4), 2);
	kv_unlock(&pool->zone->lock);
	kv_unlock(&pool->order.lock);
	kv_unlock(&pool->lock);
	kv_unlock(&pool->compact_lock);
	cr_expect_eq(glance->stat.nr_inactive, 20);
	cr_expect_str_eq(glance->engine, "zone");
	cr_expect_str_eq(glance->policy, "lru");
	cr_expect_eq(tenant[0].tenant, KVMM_TENANT_REST);
	cr_expect_eq(tenant[0].usage, 20);
	cr_expect_eq(tenant[1].tenant, 7);
}

/* ---- work, by what is read of the zone ---- */

static const struct kv_zone_ops *real;
static u32 nr_looks, nr_sums;

static u64 counted_peek(const void *engine, u32 word)
{
	nr_looks++;
	return real->peek(engine, word);
}

static u32 counted_nr_free(const void *engine)
{
	nr_sums++;
	return real->nr_free(engine);
}

static void expect_work(u32 nr_blocks)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_cache(nr_blocks, "lru");
	struct kv_zone_ops ops = *pool->zone->ops;
	struct kvmm_pool_stat stat;
	struct kvmm_counts counts;

	cache_keys(pool, 1, 20);
	real = pool->zone->ops;
	ops.peek = counted_peek;
	ops.nr_free = counted_nr_free;
	pool->zone->ops = &ops;
	nr_looks = nr_sums = 0;
	cr_expect_eq(kvmm_pool_available(pool, NULL), (int)nr_blocks);
	cr_expect_eq(nr_sums, 1);
	cr_expect_eq(kvmm_pool_get_counts(pool, &counts), 0);
	cr_expect_eq(nr_sums, 2);
	cr_expect_eq(nr_looks, 0, "no word of the map");
	cr_expect_eq(kvmm_pool_peek(pool, &stat), 0);
	cr_expect_eq(nr_looks, (nr_blocks + 63) / 64, "what a walk takes");
	pool->zone->ops = real;
}

Test(glance, counts_of_a_step_walk_no_blocks)
{
	expect_work(NR_BLOCKS);
	expect_work(64 * NR_BLOCKS);
}

/* Of 256 threads that there may be, those are looked at that have a magazine. */
POOL_TEST(glance, looks_at_magazines_of_threads_that_have_one, make_cache(NR_BLOCKS, "lru"))
{
	kvmm_mut_t mut;

	cr_assert(pool->mags != NULL);
	cr_expect_eq(pool->mags->nr_slots, 0);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_eq(pool->mags->nr_slots, kv_thread_slot() + 1);
	cr_expect_gt(mags_peek_nr(pool), 0);
	cr_expect_eq(kvmm_pool_available(pool, NULL), NR_BLOCKS);
}

/* A thread fills its magazine between the two numbers that are added. */
static struct kvmm_pool *disturbed;
static kvmm_mut_t disturbing;

static u32 disturbed_nr_free(const void *engine)
{
	struct kvmm_pool *pool = disturbed;
	u32 nr = real->nr_free(engine);

	disturbed = NULL;
	if (pool)
		cr_assert_eq(kvmm_alloc(pool, 1, &disturbing), 0);
	return nr;
}

POOL_TEST(glance, counts_a_magazine_that_is_filled_meanwhile_once, make_cache(NR_BLOCKS, "lru"))
{
	struct kv_zone_ops ops = *pool->zone->ops;
	kvmm_range_t range = take(pool, 200, 0);

	real = pool->zone->ops;
	ops.nr_free = disturbed_nr_free;
	pool->zone->ops = &ops;
	disturbed = pool;
	cr_expect_eq(kvmm_pool_available(pool, NULL), NR_BLOCKS - 201);
	pool->zone->ops = real;
	cr_expect_gt(mags_peek_nr(pool), 0);
	cr_assert_eq(kvmm_free(pool, &disturbing, 1), 0);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(glance, counts_know_watermarks, make_cache(NR_BLOCKS, "lru"))
{
	const struct kvmm_watermarks marks = { 3, 5, 8 };
	struct kvmm_counts counts;

	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	cr_assert_eq(kvmm_pool_get_counts(pool, &counts), 0);
	cr_expect_eq(counts.mark_min, 3);
	cr_expect_eq(counts.mark_low, 5);
	cr_expect_eq(counts.mark_high, 8);
	cr_expect_eq(kvmm_pool_available(NULL, NULL), -EINVAL);
}

/* Each number is another, so that none can stand for its neighbour. */
POOL_TEST(glance, each_number_is_that_of_the_call_for_it, make_cache(64, "lru"))
{
	struct kvmm_growth_stat growth = { .size = sizeof(growth) };
	struct kvmm_step_stat step;
	struct kvmm_pin_stat pins;
	struct kvmm_alloc_stat alloc;
	kvmm_stream_t stream;
	kvmm_range_t range;
	u64 epoch;

	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &stream), 0);
	cr_assert_eq(kvmm_step_begin(pool, stream, &epoch), 0);
	cr_assert_eq(kvmm_step_end(pool, stream, epoch), 0);
	range = take(pool, 3, 0);
	cr_assert_eq(kvmm_range_pin(pool, range), 0);
	cr_assert_eq(kvmm_range_pin_as(pool, range, KVMM_PIN_RDMA), 0);
	for (u32 i = 0; i < KVMM_NR_STEPS; i++) {
		pool->door.taken[i] = 100 + i;
		pool->door.skipped[i] = 200 + i;
		pool->door.saved[i] = 300 + i;
	}
	pool->door.nr_timed_out = 5;
	pool->door.nr_cancelled = 6;
	pool->grow.in_place = 11;
	pool->grow.elsewhere = 12;
	pool->grow.steals = 13;
	pool->grow.stolen_blocks = 14;
	pool->door.nr_promised = 7;
	pool->nr_unseen = 8;
	pool->blind = 1;
	cr_expect_eq(kv_pool_glance(pool, glance), 0);
	cr_assert_eq(kvmm_alloc_get_stat(pool, &alloc), 0);
	cr_expect_eq(memcmp(&alloc, &glance->alloc, sizeof(alloc)), 0);
	cr_expect_eq(glance->alloc.nr_promised, 7);
	pool->door.nr_promised = 0;
	cr_assert_eq(kvmm_growth_get_stat(pool, &growth), 0);
	cr_expect_eq(glance->growth.in_place, growth.in_place);
	cr_expect_eq(glance->growth.elsewhere, growth.elsewhere);
	cr_expect_eq(glance->growth.steals, growth.steals);
	cr_expect_eq(glance->growth.stolen_blocks, growth.stolen_blocks);
	cr_assert_eq(kvmm_step_get_stat(pool, &step), 0);
	cr_expect_eq(memcmp(&step, &glance->step, sizeof(step)), 0);
	cr_expect_eq(glance->step.unseen_blocks, 8);
	pool->nr_unseen = 0;
	pool->blind = 0;
	cr_expect_eq(glance->step.nr_streams, step.nr_streams);
	cr_expect_eq(glance->step.nr_open, 0);
	cr_expect_eq(glance->step.steps, 1);
	cr_assert_eq(kvmm_pin_get_stat(pool, &pins), 0);
	cr_expect_eq(memcmp(&pins.ranges, &glance->pins.ranges, sizeof(pins.ranges)), 0);
	cr_expect_eq(glance->pins.ranges[KVMM_PIN_USER], 1);
	cr_expect_eq(glance->pins.ranges[KVMM_PIN_RDMA], 1);
	cr_assert_eq(kvmm_range_unpin_as(pool, range, KVMM_PIN_RDMA), 0);
	cr_assert_eq(kvmm_range_unpin(pool, range), 0);
	cr_assert_eq(kvmm_stream_del(pool, stream), 0);
}

static void set_elastic(struct kvmm_pool *pool)
{
	static struct span span = { .nr_units = 50 };
	struct elastic *el = pool->elastic;

	el->unit_bytes = 1000;
	el->nr_spans = 1;
	el->span = &span;
	pool->pb.nr_away = 11;
	for (u32 state = 0; state < NR_UNIT_STATES; state++)
		el->nr_units[state] = 11 + state;
	el->target = 15;
	el->nr_relents = 16;
	el->shrunk_bytes = 17;
	el->grown_bytes = 18;
	el->moved = 19;
	el->evicted = 20;
	el->nr_failed = 21;
}

Test(glance, each_number_of_memory_that_is_lent_is_that_of_the_call_for_it)
{
	struct kvmm_elastic_attr attr = { .size = sizeof(attr), .pageblock_blocks = 4 };
	struct kvmm_pool_attr of_ids = { .size = sizeof(of_ids), .nr_blocks = 16 };
	struct kvmm_elastic_stat want;
	struct elastic before;
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&of_ids);

	cr_assert_eq(kv_pool_glance(pool, glance), 0);
	cr_expect_eq(glance->elastic.pageblock_blocks, 0, "nothing goes");
	cr_assert_eq(kvmm_pool_elastic_setup(pool, &attr), 0);
	before = *pool->elastic;
	set_elastic(pool);
	cr_assert_eq(kvmm_elastic_get_stat(pool, &want), 0);
	cr_expect_eq(want.total_bytes, 50000);
	cr_assert_eq(kv_pool_glance(pool, glance), 0);
	cr_expect_eq(memcmp(&want, &glance->elastic, sizeof(want)), 0);
	cr_expect_eq(glance->elastic.is_active, 0);
	pool->elastic->job.active = true;
	cr_assert_eq(kv_pool_glance(pool, glance), 0);
	cr_expect_eq(glance->elastic.is_active, 1);
	*pool->elastic = before;
	pool->pb.nr_away = 0;
}

/* But for how many have a checksum, which would take a look at each block. */
POOL_TEST(glance, each_number_of_checksums_is_that_of_the_call_for_it, make_cache(16, "lru"))
{
	struct kvmm_verify_attr attr = { .size = sizeof(attr), .sample_pm = 1000 };
	struct kvmm_verify_stat want;

	cr_assert_eq(kvmm_verify_set(pool, &attr), 0);
	cache_keys(pool, 1, 3);
	pool->verify->stat.checks = 11;
	pool->verify->stat.bad_blocks = 12;
	pool->verify->stat.bad_copies = 13;
	cr_assert_eq(kvmm_verify_get_stat(pool, &want), 0);
	cr_expect_eq(want.pending, 3);
	cr_expect_eq(want.sample_pm, 1000);
	want.summed = 0;
	cr_assert_eq(kv_pool_glance(pool, glance), 0);
	cr_expect_eq(memcmp(&want, &glance->verify, sizeof(want)), 0, "%u, not %u",
		     glance->verify.pending, want.pending);
}

/* But for how many of them may go, which takes the lock of their order. */
Test(glance, each_number_of_a_class_is_that_of_the_call_for_it)
{
	static const u32 quota[3] = { 0, 5, 6 };
	struct kvmm_pool *pool __cleanup(end_pool) = make_classed(8, "lru", quota, 0);
	struct kvmm_class_stat want;

	drop(pool, fill(pool, 'a', MID));
	for (u32 i = 0; i < 3; i++) {
		pool->order.classes->class[i].evicted = 11 + i;
		pool->order.classes->class[i].demoted = 21 + i;
		pool->order.classes->class[i].reached = 31 + i;
	}
	cr_assert_eq(kv_pool_glance(pool, glance), 0);
	cr_assert_eq(glance->nr_classes, 3);
	for (u32 i = 0; i < 3; i++) {
		want = class_stat(pool, i);
		want.nr_inactive = 0;
		cr_expect_eq(memcmp(&want, &glance->class[i], sizeof(want)), 0, "%u", i);
	}
	cr_expect_eq(glance->class[MID].nr, 1);
	cr_expect_eq(glance->class[MID].demoted, 22);
}

/* 0: as they were. */
static void set_counts(struct account *account, u32 number)
{
	account->peak = number;
	account->nr_low = number ? 9 + number : 0;
	account->nr_high = number ? 19 + number : 0;
	account->nr_max = number ? 29 + number : 0;
	account->nr_oom = number ? 39 + number : 0;
	account->nr_reclaimed = number ? 49 + number : 0;
	account->nr_evicted = number ? 59 + number : 0;
}

/* What accounts count, in order. */
POOL_TEST(glance, each_number_of_a_tenant_is_that_of_the_call_for_it, make_cache(64, "lru"))
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	struct kvmm_tenant_stat tenant[3], want = { .size = sizeof(want) };
	u32 nr = 0;

	for (u32 i = 1; i <= 2; i++)
		cr_assert_eq(kvmm_tenant_set(pool, i, &attr), 0);
	for (u32 i = 0; i < MAX_ACCOUNTS; i++)
		if (pool->order.quotas->account[i])
			set_counts(pool->order.quotas->account[i], 1 + nr++);
	cr_assert_eq(kv_pool_glance_tenants(pool, tenant, 3), 3);
	for (u32 i = 1; i <= 2; i++) {
		cr_assert_eq(kvmm_tenant_get_stat(pool, i, &want), 0);
		cr_expect_eq(memcmp(&want, &tenant[i], sizeof(want)), 0, "%u", i);
	}
	for (u32 i = 0; i < MAX_ACCOUNTS; i++)
		if (pool->order.quotas->account[i])
			set_counts(pool->order.quotas->account[i], 0);
}

POOL_TEST(glance, tenants_beyond_the_room_are_counted, make_cache(64, "lru"))
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	struct kvmm_tenant_stat tenant[3];
	kvmm_mut_t mut[6];

	for (u32 i = 1; i <= 5; i++)
		cr_assert_eq(kvmm_tenant_set(pool, i, &attr), 0);
	for (u32 i = 1; i <= 5; i++)
		cr_assert_eq(kvmm_alloc_for(pool, 1, i, &mut[i]), 0);
	cr_expect_eq(kv_pool_glance_tenants(pool, tenant, 3), 6);
	cr_expect_eq(tenant[2].tenant, 2);
	cr_expect_eq(tenant[2].usage, 1);
	cr_assert_eq(kvmm_free(pool, &mut[4], 1), 0);
	cr_assert_eq(kvmm_tenant_del(pool, 4), 0);
	cr_expect_eq(kv_pool_glance_tenants(pool, tenant, 3), 5);
}

Test(glance, refuses_what_is_no_pool)
{
	struct kvmm_pool *pool __cleanup(kvmm_pool_destroy) = make_pool(8);
	struct kvmm_pool_stat stat;

	cr_expect_eq(kvmm_pool_peek(NULL, &stat), -EINVAL);
	cr_expect_eq(kvmm_pool_peek(pool, NULL), -EINVAL);
	kv_lock(&pool->lock);
	pool_poison(pool);
	kv_unlock(&pool->lock);
	cr_expect_eq(kvmm_pool_peek(pool, &stat), -EUCLEAN);
}

/* What a caller of another version asks with: its struct is shorter, or longer, or garbage. */
static void expect_sizes(struct kvmm_pool *pool, u32 kind)
{
	u64 whole[512], part[512];

	memset(whole, 0xa5, sizeof(whole));
	cr_assert_eq(kvmm_pool_stat_of(pool, kind, whole, sizeof(whole)), 0, "kind %u", kind);
	for (size_t size = 0; size <= sizeof(part); size += 4) {
		bool good = size && !(size % 8);

		memset(part, 0xa5, sizeof(part));
		cr_expect_eq(kvmm_pool_stat_of(pool, kind, part, size), good ? 0 : -EINVAL, "kind %u",
			     kind);
		if (size + 8 <= sizeof(part))
			cr_expect_eq(part[(size + 7) / 8], 0xa5a5a5a5a5a5a5a5ull, "kind %u, %zu", kind, size);
		if (!good)
			cr_expect_eq(part[0], 0xa5a5a5a5a5a5a5a5ull, "kind %u", kind);
	}
	cr_expect_eq(whole[511], 0, "kind %u", kind);
	cr_expect_eq(kvmm_pool_stat_of(pool, kind, whole, sizeof(whole) + 8), -EINVAL);
}

POOL_TEST(glance, numbers_of_each_kind_are_as_long_as_the_caller_says, make_cache(16, "lru"))
{
	struct kvmm_growth_stat stat = { .size = 16 };
	u64 byte = 1;

	for (u32 kind = 0; kind < KVMM_NR_STATS; kind++)
		if (kind != KVMM_STAT_TIER && kind != KVMM_STAT_TIER_CONFIG &&
		    kind != KVMM_STAT_TIER_TIME && kind != KVMM_STAT_HISTORY &&
		    kind != KVMM_STAT_COMPLETIONS)
			expect_sizes(pool, kind);
	cr_expect_eq(kvmm_pool_stat_of(pool, KVMM_STAT_TIER, &byte, 8), -EOPNOTSUPP);
	cr_expect_eq(kvmm_pool_stat_of(pool, KVMM_NR_STATS, &byte, 8), -EINVAL);
	cr_expect_eq(byte, 1);
	cr_expect_eq(kvmm_growth_get_stat(pool, &stat), 0);
	cr_expect_eq(stat.size, 16, "what the caller has room for stays what it was");
	cr_expect_eq(kvmm_pool_set(pool, KVMM_NR_SETTINGS, &byte), -EINVAL);
}
