// SPDX-License-Identifier: Apache-2.0
/*
 * Giving memory back against models: the choice of pageblocks against all choices there are, the
 * copies of a large pool against the fewest that can be, and everything else against a list of what
 * is held and what must be in it.
 *
 * KVMM_SEED, KVMM_MODEL_OPS: other runs of the last one.
 */
#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

static struct kvmm_pool *of_ids(u32 nr_blocks, u32 pageblock)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .pageblock_blocks = pageblock };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = "lru" };
	struct kvmm_pool *pool = make_pool_of(&attr);

	cr_assert_eq(kvmm_pool_elastic_setup(pool, &elastic), 0);
	return pool;
}

/* All blocks cached, then all but @nr of them, chosen by chance, gone. */
static void scatter(struct kvmm_pool *pool, u32 nr_blocks, u32 nr)
{
	uint32_t *ids = malloc(nr_blocks * sizeof(*ids));

	cr_assert_not_null(ids);
	for (u32 i = 0; i < nr_blocks; i += 64)
		cache_keys(pool, i, nr_blocks - i < 64 ? nr_blocks - i : 64);
	for (u32 i = 0; i < nr_blocks; i++)
		ids[i] = i;
	for (u32 i = 0; i < nr_blocks - nr; i++) {
		u32 k = i + any(nr_blocks - i), id = ids[k];

		ids[k] = ids[i];
		ids[i] = id;
	}
	cr_assert_eq(kvmm_evict_blocks(pool, ids, nr_blocks - nr), (int)(nr_blocks - nr));
	free(ids);
}

static u32 nr_held_in(struct kvmm_pool *pool, u32 pb, u32 size)
{
	struct kvmm_block_info info;
	u32 nr = 0;

	for (u32 i = 0; i < size; i++) {
		cr_assert_eq(kvmm_block_get_info(pool, pb * size + i, &info), 0);
		nr += info.state == KVMM_BLOCK_INACTIVE;
	}
	return nr;
}

/* ---- the best choice ---- */

#define FEW	6u	/* pageblocks, of four blocks */

static u32 fewest_copies(const u32 *held, u32 nr_wanted)
{
	u32 best = UINT32_MAX;

	for (u32 set = 0; set < 1u << FEW; set++) {
		u32 nr = 0, sum = 0;

		for (u32 i = 0; i < FEW; i++)
			if (set >> i & 1) {
				nr++;
				sum += held[i];
			}
		if (nr == nr_wanted && sum < best)
			best = sum;
	}
	return best;
}

Test(shrink_model, no_choice_takes_fewer_copies)
{
	for (any_state = 1; any_state < 400; any_state++) {
		u64 round = any_state;
		struct kvmm_pool *pool = of_ids(4 * FEW, 4);
		struct kvmm_shrink req = { .size = sizeof(req), .flags = KVMM_SHRINK_NO_EVICT };
		u32 nr = any(4 * FEW), k = 1 + any(FEW), held[FEW], err;

		scatter(pool, 4 * FEW, nr);
		for (u32 i = 0; i < FEW; i++)
			held[i] = nr_held_in(pool, i, 4);
		req.nr_blocks = 4 * k;
		err = kvmm_pool_shrink(pool, &req);
		if (4 * k > 4 * FEW - nr) {
			cr_expect_eq(err, -ENOSPC);
		} else {
			cr_expect_eq(err, 0);
			cr_expect_eq(req.moved, fewest_copies(held, k), "round %llu",
				     (unsigned long long)round);
			cr_expect_eq(stat_of(pool).nr_inactive, nr);
		}
		end_pool(pool);
		any_state = round;
	}
}

/* ---- a large pool, half full ---- */

#define MANY	16384u
#define GROUP	64u	/* blocks of a pageblock */

static int by_number(const void *a, const void *b)
{
	return (int)*(const u32 *)a - (int)*(const u32 *)b;
}

/* Whoever empties so many pageblocks copies what is in them at least. */
static u32 lower_bound(struct kvmm_pool *pool, u32 nr_wanted)
{
	u32 held[MANY / GROUP], sum = 0;

	for (u32 i = 0; i < MANY / GROUP; i++)
		held[i] = nr_held_in(pool, i, GROUP);
	qsort(held, MANY / GROUP, sizeof(*held), by_number);
	for (u32 i = 0; i < nr_wanted; i++)
		sum += held[i];
	return sum;
}

static void give_back(u32 percent)
{
	struct kvmm_pool *pool __cleanup(end_pool) = of_ids(MANY, GROUP);
	u32 nr_wanted = (MANY / GROUP * percent + 99) / 100, bound;
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = MANY / 100.0 * percent };

	any_state = 7;
	scatter(pool, MANY, MANY / 2);
	bound = lower_bound(pool, nr_wanted);
	cr_assert_eq(kvmm_pool_shrink(pool, &req), 0);
	cr_log_info("half full, %u %% wanted: %.2f %% given back, %u copies, lower bound %u, %u evicted",
		    percent, 100.0 * req.given_blocks / MANY, req.moved, bound, req.evicted);
	cr_expect_geq(100 * req.given_blocks, percent * MANY);
	cr_expect_eq(req.moved, bound);
	cr_expect_eq(req.evicted, 0);
	cr_expect_eq(stat_of(pool).nr_inactive, MANY / 2);
}

TEST_CALL(shrink_model, a_half_full_pool_gives_45_percent_back_with_the_fewest_copies,
	  give_back(45))
TEST_CALL(shrink_model, a_half_full_pool_gives_all_back_that_it_does_not_need, give_back(50))

/* ---- anything ---- */

#define NR	64u
#define PB	4u
#define UNIT	((u64)PB * TEST_BLOCK_BYTES)
#define MOST	24u

struct held {
	kvmm_range_t range;
	u32 nr;
	u32 seed;
	bool pinned;
};

static struct {
	struct kvmm_pool *pool;
	u8 *mem;
	struct held held[MOST];
	u32 nr_held;
	kvmm_ref_t ref[MOST];
	u32 key[MOST];
	u32 nr_refs;
	u32 next_key;
	struct kvmm_mem_range told[NR];		/* the caller's at the moment */
	u32 nr_told;
	kvmm_stream_t stream;
	uint64_t epoch;
	bool open;
	u64 nr_failed;			/* requests, while something was leaving */
} m;

/* Whatever is leaving: a request that fails evicts nothing. */
static bool is_served(int err, u32 nr_inactive)
{
	struct kvmm_elastic_stat stat;

	cr_assert(!err || err == -ENOSPC, "%d", err);
	cr_assert_eq(kvmm_elastic_get_stat(m.pool, &stat), 0);
	m.nr_failed += err && stat.leaving_blocks;
	cr_assert(!err || stat_of(m.pool).nr_inactive == nr_inactive, "%u, not %u",
		  stat_of(m.pool).nr_inactive, nr_inactive);
	return !err;
}

static void take_range(void)
{
	u32 flags = KVMM_RUNS(4) | (any(4) ? 0 : KVMM_ALLOC_HIGH);
	u32 nr_inactive = stat_of(m.pool).nr_inactive;
	struct held *held = &m.held[m.nr_held];

	if (m.nr_held == MOST)
		return;
	held->nr = 1 + any(6);
	if (!is_served(kvmm_range_alloc(m.pool, held->nr, flags, &held->range), nr_inactive))
		return;
	held->seed = any(250);
	held->pinned = false;
	write_pattern(m.pool, held->range, held->seed);
	if (any(2))
		cr_assert_eq(kvmm_range_seal(m.pool, held->range, held->nr), 0);
	m.nr_held++;
}

static void drop_range(void)
{
	u32 i = any(MOST);

	if (i >= m.nr_held)
		return;
	if (m.held[i].pinned)
		cr_assert_eq(kvmm_range_unpin(m.pool, m.held[i].range), 0);
	cr_assert_eq(kvmm_range_free(m.pool, m.held[i].range), 0);
	m.held[i] = m.held[--m.nr_held];
}

static void pin_range(void)
{
	u32 i = any(MOST);

	if (i >= m.nr_held)
		return;
	if (m.held[i].pinned)
		cr_assert_eq(kvmm_range_unpin(m.pool, m.held[i].range), 0);
	else
		cr_assert_eq(kvmm_range_pin(m.pool, m.held[i].range), 0);
	m.held[i].pinned ^= true;
}

static void fill_ref(u32 key, u8 *buf)
{
	memset(buf, 17 * key + 3, TEST_BLOCK_BYTES);
}

static void take_ref(void)
{
	u32 nr_inactive = stat_of(m.pool).nr_inactive;
	u8 buf[TEST_BLOCK_BYTES];
	kvmm_mut_t mut;
	kvmm_key_t key = key_of(m.next_key);
	int block;

	if (m.nr_refs == MOST || !is_served(kvmm_alloc(m.pool, 1, &mut), nr_inactive))
		return;
	cr_assert_eq(kvmm_register(m.pool, &mut, &key, 1, &m.ref[m.nr_refs]), 0);
	block = kvmm_block_of_ref(m.pool, m.ref[m.nr_refs]);
	fill_ref(m.next_key, buf);
	cr_assert_eq(kvmm_block_write(m.pool, block, 0, buf, sizeof(buf)), 0);
	m.key[m.nr_refs++] = m.next_key++;
}

static void drop_ref(void)
{
	u32 i = any(MOST);

	if (i >= m.nr_refs)
		return;
	cr_assert_eq(kvmm_put(m.pool, m.ref[i]), 0);
	m.ref[i] = m.ref[--m.nr_refs];
	m.key[i] = m.key[m.nr_refs];
}

/* What the caller was told of is his: he writes there. */
static void hear(void)
{
	int nr = kvmm_pool_freed(m.pool, m.told + m.nr_told, NR - m.nr_told);

	cr_assert_geq(nr, 0);
	for (int i = 0; i < nr; i++) {
		const struct kvmm_mem_range *told = &m.told[m.nr_told++];

		cr_assert(!(told->addr % UNIT) && told->addr >= (uintptr_t)m.mem &&
			  told->addr + told->bytes <= (uintptr_t)m.mem + NR * TEST_BLOCK_BYTES);
		memset((void *)(uintptr_t)told->addr, 0xee, told->bytes);
	}
}

static void shrink(void)
{
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = 1 + any(8 * UNIT) };
	struct kvmm_pool_stat before = stat_of(m.pool), after;
	int err;

	if (any(2))
		req.min_bytes = 1;
	err = kvmm_pool_shrink(m.pool, &req);
	after = stat_of(m.pool);
	cr_assert(!err || err == -ENOSPC || err == -EBUSY, "%d", err);
	if (err) {
		cr_assert_eq(after.nr_away, before.nr_away);
		cr_assert_eq(after.nr_inactive, before.nr_inactive);
	} else {
		cr_assert_eq(after.nr_away, before.nr_away + req.given_blocks);
		cr_assert_eq(before.nr_inactive - after.nr_inactive, req.evicted);
	}
}

static void start_one(void)
{
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = 1 + any(8 * UNIT), .min_bytes = 1 };

	kvmm_pool_shrink_start(m.pool, &req, any(KVMM_NR_MOVE_MODES));
}

static void hand_back(void)
{
	struct kvmm_regain req = { .size = sizeof(req), .ranges = m.told };
	int err;

	req.nr_ranges = any(2) ? m.nr_told : 0;
	err = kvmm_pool_grow(m.pool, &req);
	cr_assert(!err || err == -EBUSY || err == -ENOSPC, "%d", err);
	if (!err && req.nr_ranges)
		m.nr_told = 0;
}

static void step(void)
{
	if (m.open)
		cr_assert_eq(kvmm_step_end(m.pool, m.stream, m.epoch), 0);
	else
		cr_assert_eq(kvmm_step_begin(m.pool, m.stream, &m.epoch), 0);
	m.open ^= true;
}

static void balloon(void)
{
	if (any(4))
		kv_balloon_tick(m.pool);
	else
		cr_assert_eq(kvmm_balloon_set(m.pool, any(8 * UNIT)), 0);
}

static void act(void)
{
	switch (any(24)) {
	case 0 ... 5:
		take_range();
		break;
	case 6 ... 8:
		drop_range();
		break;
	case 9:
		pin_range();
		break;
	case 10 ... 13:
		take_ref();
		break;
	case 14 ... 15:
		drop_ref();
		break;
	case 16:
		shrink();
		break;
	case 17:
		start_one();
		break;
	case 18:
		kvmm_pool_shrink_poll(m.pool, NULL);
		break;
	case 19:
		hand_back();
		break;
	case 20:
		balloon();
		break;
	case 21:
		if (!any(4))
			kvmm_pool_shrink_cancel(m.pool);
		break;
	case 22:
		hear();
		break;
	default:
		step();
	}
}

static void check_content(void)
{
	u8 want[TEST_BLOCK_BYTES], buf[TEST_BLOCK_BYTES];

	for (u32 i = 0; i < m.nr_held; i++)
		cr_assert(has_pattern(m.pool, m.held[i].range, m.held[i].seed));
	for (u32 i = 0; i < m.nr_refs; i++) {
		int block = kvmm_block_of_ref(m.pool, m.ref[i]);

		fill_ref(m.key[i], want);
		cr_assert_geq(block, 0, "%d", block);
		cr_assert_eq(kvmm_block_read(m.pool, block, 0, buf, sizeof(buf)), 0);
		cr_assert_arr_eq(buf, want, sizeof(buf));
	}
}

/* Who is somebody's is known; the rest is free, cached, given back, or on its way. */
static void check_counts(void)
{
	struct kvmm_pool_stat stat = stat_of(m.pool);
	struct kvmm_step_stat steps;
	struct kvmm_elastic_stat elastic;
	u32 nr = 0;

	for (u32 i = 0; i < m.nr_held; i++)
		nr += m.held[i].nr;
	cr_assert_eq(kvmm_step_get_stat(m.pool, &steps), 0);
	cr_assert_eq(kvmm_elastic_get_stat(m.pool, &elastic), 0);
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_RANGE], nr);
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_ACTIVE], m.nr_refs);
	cr_assert_eq(stat.nr_away, elastic.away_blocks);
	cr_assert_leq(stat.nr_free + stat.nr_inactive + nr + m.nr_refs + stat.nr_away, NR);
	if (!steps.copying_blocks && !steps.limbo_blocks)
		cr_assert_eq(stat.nr_free + stat.nr_inactive + nr + m.nr_refs + stat.nr_away, NR);
	for (u32 i = 0; i < m.nr_told; i++)
		for (u64 b = 0; b < m.told[i].bytes; b++)
			cr_assert_eq(((u8 *)(uintptr_t)m.told[i].addr)[b], 0xee, "it is the caller's");
	cr_assert_eq(kvmm_validate(m.pool), 0);
}

static void begin(void)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = UNIT };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR, .policy = "lru" };
	struct kvmm_plane plane = { .stride = TEST_BLOCK_BYTES, .bytes = TEST_BLOCK_BYTES };

	m.mem = aligned_alloc(UNIT, NR * TEST_BLOCK_BYTES);
	cr_assert_not_null(m.mem);
	plane.base = (uintptr_t)m.mem;
	attr.planes = &plane;
	attr.nr_planes = 1;
	m.pool = make_pool_of(&attr);
	cr_assert_eq(kvmm_pool_elastic_setup(m.pool, &elastic), 0);
	cr_assert_eq(kvmm_stream_add(m.pool, NULL, 0, &m.stream), 0);
}

/* All that was given back can be had again. */
static void end(void)
{
	if (m.open)
		step();
	cr_assert_eq(kvmm_balloon_set(m.pool, 0), 0);
	kvmm_pool_shrink_cancel(m.pool);
	for (u32 i = 0; i < 8; i++)
		kvmm_compact_poll(m.pool);
	hear();
	for (u32 i = 0; i < 2; i++) {
		struct kvmm_regain req = { .size = sizeof(req), .ranges = m.told,
					   .nr_ranges = m.nr_told };

		cr_assert_eq(kvmm_pool_grow(m.pool, &req), 0);
		m.nr_told = 0;
		hear();
	}
	cr_assert_eq(stat_of(m.pool).nr_away, 0);
	check_counts();
	check_content();
	for (u32 i = 0; i < m.nr_held; i++)
		if (m.held[i].pinned)
			cr_assert_eq(kvmm_range_unpin(m.pool, m.held[i].range), 0);
	kvmm_pool_destroy(m.pool);
	free(m.mem);
}

Test(shrink_model, random_operations_agree_with_a_model)
{
	struct kvmm_elastic_stat stat;
	u64 seed = test_number("KVMM_SEED", 1), nr_ops = test_length("KVMM_MODEL_OPS", 20000);

	cr_log_info("KVMM_SEED=%llu KVMM_MODEL_OPS=%llu", (unsigned long long)seed,
		    (unsigned long long)nr_ops);
	any_state = seed * 0x9e3779b97f4a7c15ull | 1;
	begin();
	for (u64 i = 0; i < nr_ops; i++) {
		act();
		check_counts();
		if (!(i % 8))
			check_content();
	}
	cr_assert_eq(kvmm_elastic_get_stat(m.pool, &stat), 0);
	cr_log_info("%llu KiB given back, %llu had again, %llu blocks moved, %llu evicted, %llu relents",
		    (unsigned long long)stat.shrunk_bytes >> 10,
		    (unsigned long long)stat.grown_bytes >> 10, (unsigned long long)stat.moved_blocks,
		    (unsigned long long)stat.evicted_blocks, (unsigned long long)stat.nr_relents);
	cr_expect_gt(stat.shrunk_bytes / UNIT, nr_ops / 400);
	cr_expect_gt(stat.moved_blocks, nr_ops / 500);
	cr_expect_gt(m.nr_failed, nr_ops / 10000);
	end();
}
