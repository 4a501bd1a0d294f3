// SPDX-License-Identifier: Apache-2.0
/*
 * The order as put: without leaf first the policy's order is that of eviction, to the letter. For a
 * pool, for a group, or for the blocks of one call; and which blocks of a call follow each other.
 *
 * The model is lru as a list of names. KVMM_SEED chooses the run.
 */
#include "cache/cache.h"
#include "tests/pool/util.h"
#include "tests/support/fault.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

TestSuite(as_put, .init = fault_begin, .fini = fault_end);

static struct kvmm_pool *make(u32 nr_blocks, const char *policy, u32 flags)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = policy, .flags = flags };

	return make_pool_of(&attr);
}

/* Register keys that are their positions; a reference each. */
static int register_at(struct kvmm_pool *pool, const u32 *positions, u32 nr, u32 flags,
		       kvmm_ref_t *refs)
{
	kvmm_mut_t muts[64];
	kvmm_key_t keys[64], parent = key_of(positions[0] - 1);
	struct kvmm_register_args req = { .positions = positions, .blocks = muts, .refs = refs,
					  .flags = flags };

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(positions[i]);
	req.prefix = (struct kvmm_prefix){ .keys = keys, .nr = nr,
					   .parent = positions[0] ? &parent : NULL };
	cr_assert_eq(kvmm_alloc(pool, nr, muts), 0);
	return kvmm_register_as(pool, &req);
}

/* Registered at @positions, and put back first to last. */
static void cache_at(struct kvmm_pool *pool, const u32 *positions, u32 nr, u32 flags)
{
	kvmm_ref_t refs[64];

	cr_assert_eq(register_at(pool, positions, nr, flags, refs), 0);
	for (u32 i = 0; i < nr; i++)
		cr_assert_eq(kvmm_put(pool, refs[i]), 0);
}

static const u32 chain[] = { 0, 1, 2, 3 };

/* ---- pictures ---- */

Test(as_put, a_pool_in_the_order_as_put_evicts_what_was_put_first)
{
	static const struct { const char *policy, *leaf_first, *as_put; } row[] = {
		{ "lru", "3 2 1 0 ", "0 1 2 3 " },
		{ "fifo", "3 2 1 0 ", "0 1 2 3 " },
		{ "lineage", "3 2 1 0 ", "0 1 2 3 " },
	};

	for (u32 i = 0; i < ARRAY_SIZE(row); i++) {
		struct kvmm_pool *pool = make(8, row[i].policy, 0);

		cache_at(pool, chain, 4, 0);
		expect_order(pool, row[i].leaf_first);
		end_pool(pool);
		pool = make(8, row[i].policy, KVMM_POOL_ORDER_AS_PUT);
		cache_at(pool, chain, 4, 0);
		expect_order(pool, row[i].as_put);
		end_pool(pool);
	}
}

POOL_TEST(as_put, blocks_of_one_call_may_go_as_put_in_any_pool, make_cache(8, "lru"))
{
	cache_at(pool, chain, 4, KVMM_REGISTER_AS_PUT);
	expect_order(pool, "0 1 2 3 ");
	cache_at(pool, chain, 4, 0);
	expect_order(pool, "3 2 1 0 ");
}

POOL_TEST(as_put, blocks_left_out_of_a_batch_end_the_chain, make_cache(8, "lru"))
{
	static const u32 apart[] = { 3, 7, 9 }, pairs[] = { 3, 4, 8, 9 };

	cache_at(pool, apart, 3, 0);
	expect_order(pool, "3 7 9 ");
	cache_at(pool, pairs, 4, 0);
	expect_order(pool, "4 3 9 8 ");
}

/* The parent is found by its key, and is the block before by its position. */
POOL_TEST(as_put, a_block_follows_the_one_that_a_masked_batch_had_there, make_cache(8, "lru"))
{
	static const u32 masked[] = { 3, 7, 9 }, next[] = { 8 }, last[] = { 10, 12 };

	cache_at(pool, masked, 3, 0);
	cache_at(pool, last, 2, 0);
	cache_at(pool, next, 1, 0);
	/* Each parent was looked up, which puts it back once more. */
	expect_order(pool, "3 10 9 12 8 7 ");
}

/* It is put back first, and goes last all the same. */
POOL_TEST(as_put, a_block_follows_one_that_is_held, make_cache(8, "lru"))
{
	kvmm_ref_t before, ref;

	cr_assert_eq(register_at(pool, chain, 1, 0, &before), 0);
	cr_assert_eq(register_at(pool, chain + 1, 1, 0, &ref), 0);
	cr_assert_eq(kvmm_put(pool, before), 0);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	expect_order(pool, "1 0 ");
}

/* Block 7 was registered behind block 3, whose entry is that of a block 6 now. */
POOL_TEST(as_put, a_block_follows_none_that_came_later, make_cache(2, "lru"))
{
	static const u32 masked[] = { 3, 7 };
	kvmm_key_t key = key_of(106), seventh = key_of(7);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .position = 6 };
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	cache_at(pool, masked, 2, 0);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, &mut, &ref), 0);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	cr_assert_eq(kvmm_match(pool, &seventh, 1, &ref), 1);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	expect_order(pool, "106 7 ");
}

/* Looking up the parent would put that back once more. */
POOL_TEST(as_put, a_parent_keeps_its_place_where_no_order_needs_it,
	  make(8, "lru", KVMM_POOL_ORDER_AS_PUT))
{
	static const u32 first[] = { 0, 1 }, next[] = { 2 };

	cache_at(pool, first, 2, 0);
	cache_at(pool, next, 1, 0);
	expect_order(pool, "0 1 2 ");
}

/* ---- what others are told ---- */

static void expect_event(const struct kvmm_event *event, u32 number, u32 parent)
{
	cr_expect_eq(event->kind, KVMM_EVENT_STORED);
	cr_expect_eq(number_of(&event->key), number);
	cr_expect_eq(event->position, number);
	cr_expect_eq(!!(event->flags & KVMM_EVENT_HAS_PARENT), parent != KV_NONE);
	if (event->flags & KVMM_EVENT_HAS_PARENT)
		cr_expect_eq(number_of(&event->parent), parent);
}

POOL_TEST(as_put, events_tell_the_positions_and_only_true_parents, make_cache(8, "lru"))
{
	static const u32 masked[] = { 3, 4, 7, 9 };
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *events;
	struct kvmm_event event[8];
	u64 nr_lost;

	cr_assert_eq(kvmm_events_open(pool, &attr, &events), 0);
	cache_at(pool, masked, 4, KVMM_REGISTER_AS_PUT);
	cr_assert_eq(kvmm_events_read(events, event, 8, &nr_lost), 4);
	expect_event(&event[0], 3, 2);
	expect_event(&event[1], 4, 3);
	expect_event(&event[2], 7, KV_NONE);
	expect_event(&event[3], 9, KV_NONE);
	kvmm_events_close(events);
}

/* ---- refusals ---- */

static void expect_refused(struct kvmm_pool *pool, struct kvmm_register_args *req, u32 line)
{
	cr_expect_eq(kvmm_register_as(pool, req), -EINVAL, "line %u", line);
	cr_expect_str_eq(picture(pool), "PPP.", "line %u", line);
}

POOL_TEST(as_put, a_bad_registration_leaves_the_blocks_private, make(4, "lru", 0))
{
	kvmm_key_t keys[] = { key_of(1), key_of(2), key_of(3) };
	struct { struct kvmm_register_args req; u64 more; } newer = { .more = 1 };
	u32 good[] = { 3, 7, 9 }, same[] = { 3, 3, 4 }, down[] = { 3, 2, 4 };
	u32 beyond[] = { 3, 4, UINT32_MAX };
	kvmm_mut_t muts[3];
	kvmm_ref_t refs[3];
	struct kvmm_register_args req = { .prefix = { .keys = keys, .nr = 3 }, .blocks = muts,
					  .refs = refs, .positions = good }, bad;

	cr_assert_eq(kvmm_alloc(pool, 3, muts), 0);
#define REFUSED(change) (bad = req, change, expect_refused(pool, &bad, __LINE__))
	REFUSED(bad.positions = same);
	REFUSED(bad.positions = down);
	REFUSED(bad.positions = beyond);
	REFUSED(bad.prefix.position = 3);
	REFUSED(bad.flags = ~KVMM_REGISTER_AS_PUT);
	REFUSED(bad.dup = KVMM_NR_DUPS);
	REFUSED(bad.blocks = NULL);
	REFUSED(bad.refs = NULL);
	REFUSED(bad.prefix.keys = NULL);
	REFUSED((bad.positions = NULL, bad.prefix.position = UINT32_MAX - 2));
#undef REFUSED
	newer.req = req;
	cr_expect_eq(kvmm_register_sized(pool, &newer.req, sizeof(newer)), -EINVAL);
	cr_expect_eq(kvmm_register_as(pool, NULL), -EINVAL);
	cr_expect_eq(kvmm_register_as(NULL, &req), -EINVAL);
	cr_expect_eq(kvmm_register_as(pool, &req), 0);
	cr_expect_eq(kvmm_put_many(pool, refs, 3), 0);
}

Test(as_put, a_closed_prefix_is_a_chain)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4, .policy = "lru",
				       .flags = KVMM_POOL_PREFIX_CLOSED | KVMM_POOL_ORDER_AS_PUT };
	struct kvmm_pool *pool;
	kvmm_ref_t refs[4];
	kvmm_mut_t mut;
	kvmm_key_t key = key_of(0);
	struct kvmm_register_args req = { .prefix = { .keys = &key, .nr = 1 }, .blocks = &mut,
					  .refs = refs, .flags = KVMM_REGISTER_AS_PUT };

	cr_expect_eq(kvmm_pool_create(&attr, &pool), -EINVAL);
	pool = make(4, "lru", KVMM_POOL_PREFIX_CLOSED);
	cr_expect_eq(register_at(pool, chain, 2, 0, refs), -EINVAL);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_eq(kvmm_register_as(pool, &req), -EINVAL);
	req.flags = 0;
	cr_expect_eq(kvmm_register_as(pool, &req), 0);
	cr_expect_eq(kvmm_put(pool, refs[0]), 0);
	end_pool(pool);
}

/* A copy of the batch is made where blocks may be rejected. */
Test(as_put, a_registration_is_all_or_nothing)
{
	struct kvmm_pool *pool = make(200, "lru", 0);
	u32 positions[65];
	kvmm_key_t keys[65];
	kvmm_mut_t muts[65];
	kvmm_ref_t refs[65];
	struct kvmm_register_args req = { .prefix = { .keys = keys, .nr = 65 }, .blocks = muts,
					  .refs = refs, .positions = positions,
					  .dup = KVMM_DUP_REJECT };

	for (u32 i = 0; i < 65; i++) {
		positions[i] = 2 * i;
		keys[i] = key_of(i);
	}
	cache_keys(pool, 0, 5);
	cr_assert_eq(kvmm_alloc(pool, 65, muts), 0);
	expect_no_memory(kvmm_register_as(pool, &req));
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_PRIVATE], 65);
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_STAGED], 0);
	cr_expect_eq(kvmm_register_as(pool, &req), 0);
	cr_expect_eq(req.nr_dups, 5);
	cr_expect_eq(kvmm_put_many(pool, refs, 65), 0);
	end_pool(pool);
}

/* ---- against a model ---- */

#define NR_BLOCKS	48u
#define NR_PROMPTS	8u
#define PROMPT		16u
#define NR_NAMES	(NR_PROMPTS * PROMPT)
#define MAX_HELD	30u

enum way { BY_POOL, BY_GROUP, BY_CALL, NR_WAYS };

struct model {
	struct kvmm_pool *pool;
	enum way way;
	u32 nr_free;
	u32 order[NR_NAMES];	/* names without references, next victim first */
	u32 nr;
	bool cached[NR_NAMES];
	u32 nr_refs[NR_NAMES];
	struct { u32 name; kvmm_ref_t ref; } held[MAX_HELD];
	u32 nr_held;
	u32 nr_evicted;
};

static void forget_place(struct model *m, u32 at)
{
	memmove(&m->order[at], &m->order[at + 1], (--m->nr - at) * sizeof(m->order[0]));
}

static void model_get(struct model *m, u32 name, kvmm_ref_t ref)
{
	for (u32 i = 0; i < m->nr; i++)
		if (m->order[i] == name)
			forget_place(m, i);
	m->nr_refs[name]++;
	m->held[m->nr_held].name = name;
	m->held[m->nr_held++].ref = ref;
}

/* Positions of a prompt, some left out, that are not cached; how many. */
static u32 choose(const struct model *m, u32 prompt, u32 *positions)
{
	u32 nr = 0, dense = any(3);

	for (u32 i = any(PROMPT / 2); i < PROMPT && nr < 8; i++)
		if (!m->cached[prompt * PROMPT + i] && any(4) > dense)
			positions[nr++] = i;
	return nr;
}

/* New blocks cost the free ones, and then those that were put first. */
static void take_blocks(struct model *m, u32 nr, kvmm_mut_t *muts)
{
	kvmm_key_t evicted[NR_BLOCKS];
	struct kvmm_acquire_args req = { .nr_blocks = nr, .fresh = muts, .evicted = evicted };
	u32 nr_evicted = nr > m->nr_free ? nr - m->nr_free : 0;

	if (nr_evicted > m->nr) {
		cr_assert_eq(kvmm_acquire(m->pool, &req), -ENOSPC);
		return;
	}
	cr_assert_eq(kvmm_acquire(m->pool, &req), 0);
	cr_assert_eq(req.nr_evicted, nr_evicted);
	for (u32 i = 0; i < nr_evicted; i++) {
		cr_assert_eq(number_of(&evicted[i]), m->order[0], "victim %u", m->nr_evicted);
		m->cached[m->order[0]] = false;
		forget_place(m, 0);
		m->nr_evicted++;
	}
	m->nr_free -= nr - nr_evicted;
}

static void fill(struct model *m)
{
	u32 positions[PROMPT], prompt = any(NR_PROMPTS), nr = choose(m, prompt, positions);
	kvmm_key_t keys[PROMPT], parent;
	kvmm_mut_t muts[PROMPT];
	kvmm_ref_t refs[PROMPT];
	struct kvmm_register_args req = {
		.positions = positions, .blocks = muts, .refs = refs,
		.flags = m->way == BY_CALL ? KVMM_REGISTER_AS_PUT : 0,
	};

	if (!nr || m->nr_held + nr > MAX_HELD)
		return;
	take_blocks(m, nr, muts);
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(prompt * PROMPT + positions[i]);
	if (positions[0])
		parent = key_of(prompt * PROMPT + positions[0] - 1);
	req.prefix = (struct kvmm_prefix){ .keys = keys, .nr = nr,
					   .parent = positions[0] ? &parent : NULL };
	cr_assert_eq(kvmm_register_as(m->pool, &req), 0);
	for (u32 i = 0; i < nr; i++) {
		m->cached[number_of(&keys[i])] = true;
		model_get(m, number_of(&keys[i]), refs[i]);
	}
}

static void hit(struct model *m)
{
	u32 name = any(NR_NAMES);
	kvmm_key_t key = key_of(name);
	kvmm_ref_t ref;

	if (m->nr_held == MAX_HELD)
		return;
	cr_assert_eq(kvmm_match(m->pool, &key, 1, &ref), m->cached[name]);
	if (m->cached[name])
		model_get(m, name, ref);
}

/* Any of those held, in any order; the last one is dropped first. */
static void put(struct model *m)
{
	kvmm_ref_t refs[MAX_HELD];
	u32 names[MAX_HELD], nr = m->nr_held ? any(m->nr_held + 1) : 0;

	for (u32 i = 0; i < nr; i++) {
		u32 at = any(m->nr_held);

		refs[i] = m->held[at].ref;
		names[i] = m->held[at].name;
		m->held[at] = m->held[--m->nr_held];
	}
	cr_assert_eq(kvmm_put_many(m->pool, refs, nr), 0);
	while (nr--)
		if (!--m->nr_refs[names[nr]])
			m->order[m->nr++] = names[nr];
}

/* Nothing fits: the order stays as it is. */
static void ask_too_much(struct model *m)
{
	kvmm_mut_t muts[NR_BLOCKS + 1];

	take_blocks(m, m->nr_free + m->nr + 1, muts);
}

static void expect_the_order(struct model *m)
{
	u32 numbers[NR_NAMES];

	while (m->nr_held)
		put(m);
	cr_assert_eq(eviction_order(m->pool, numbers, NR_NAMES), m->nr);
	for (u32 i = 0; i < m->nr; i++)
		cr_assert_eq(numbers[i], m->order[i], "place %u", i);
}

static void run_model(enum way way, u32 nr_ops)
{
	struct model m = { .way = way, .nr_free = NR_BLOCKS };

	m.pool = make(NR_BLOCKS, "lru", way == BY_POOL ? KVMM_POOL_ORDER_AS_PUT : 0);
	if (way == BY_GROUP)
		group_set_as_put(m.pool, 0, true);
	for (u32 i = 0; i < nr_ops; i++) {
		u32 what = any(16);

		if (what < 7)
			fill(&m);
		else if (what < 10)
			hit(&m);
		else if (what < 15)
			put(&m);
		else
			ask_too_much(&m);
		if (i % 64 == 0)
			cr_assert_eq(kvmm_validate(m.pool), 0);
	}
	cr_expect_gt(m.nr_evicted, nr_ops / 8);
	expect_the_order(&m);
	end_pool(m.pool);
}

Test(as_put, victims_are_those_of_a_list_to_the_letter)
{
	any_state = test_number("KVMM_SEED", 20261128);
	printf("KVMM_SEED=%llu\n", (unsigned long long)any_state);
	for (u32 way = 0; way < NR_WAYS; way++)
		run_model(way, 6000);
}
