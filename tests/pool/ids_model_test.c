// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls by block id against a table of blocks that shares no code with the pool: what each
 * block is, its holders, which name it has, and in which order blocks without references were put.
 * The pool may choose among free blocks; all else is predicted, victims and refusals included.
 * KVMM_SEED and KVMM_MODEL_OPS choose the run.
 */
#include <kvmm/ext/ids.h>

#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	48u
#define NR_KEYS		20u
#define MAX_BATCH	12u
#define NR_OPS		60000u
#define NONE		NR_BLOCKS

enum state { FREE, PRIVATE, NAMED };

struct block {
	enum state state;
	u32 key;
	u32 refs;
	bool hidden;
	u64 age;	/* of its registration */
	u64 idle;	/* when it was put, or touched, last */
};

static struct model {
	struct kvmm_pool *pool;
	u64 clock;
	struct block block[NR_BLOCKS];
} m;

static bool is_idle(const struct block *block)
{
	return block->state == NAMED && !block->refs;
}

static u32 nr_of(bool (*is)(const struct block *block))
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		nr += is(&m.block[i]);
	return nr;
}

static bool is_free(const struct block *block)
{
	return block->state == FREE;
}

/* The oldest of that name, or NONE. */
static u32 find(u32 key)
{
	u32 found = NONE;

	for (u32 i = 0; i < NR_BLOCKS; i++) {
		const struct block *block = &m.block[i];

		if (block->state == NAMED && !block->hidden && block->key == key &&
		    (found == NONE || block->age < m.block[found].age))
			found = i;
	}
	return found;
}

static void evict(u32 nr)
{
	while (nr--) {
		u32 victim = NONE;

		for (u32 i = 0; i < NR_BLOCKS; i++)
			if (is_idle(&m.block[i]) &&
			    (victim == NONE || m.block[i].idle < m.block[victim].idle))
				victim = i;
		cr_assert_neq(victim, NONE);
		m.block[victim].state = FREE;
	}
}

static void drop(u32 i)
{
	struct block *block = &m.block[i];

	cr_assert(block->refs);
	if (--block->refs)
		return;
	block->idle = ++m.clock;
	if (block->hidden)
		block->state = FREE;
}

static void do_alloc(void)
{
	u32 nr = any(MAX_BATCH), nr_free = nr_of(is_free), nr_idle = nr_of(is_idle);
	int32_t ids[MAX_BATCH];
	int err = kvmm_ids_alloc(m.pool, nr, 0, ids);

	cr_assert_eq(err, nr > nr_free + nr_idle ? -ENOSPC : 0, "%d", err);
	if (err)
		return;
	evict(nr - min(nr, nr_free));
	for (u32 i = 0; i < nr; i++) {
		cr_assert_eq(m.block[ids[i]].state, FREE, "block %d", ids[i]);
		m.block[ids[i]].state = PRIVATE;
	}
}

/* Any blocks, most of them of that kind: so that lists are refused for one of them. */
static u32 some_ids(bool (*is)(const struct block *block), int32_t *ids)
{
	u32 nr = 1 + any(MAX_BATCH - 1), n = 0;

	for (u32 try = 0; try < 4 * NR_BLOCKS && n < nr; try++) {
		u32 id = any(NR_BLOCKS);

		if (is(&m.block[id]) || !any(400))
			ids[n++] = id;
	}
	return n;
}

static bool is_private(const struct block *block)
{
	return block->state == PRIVATE;
}

static bool is_held(const struct block *block)
{
	return block->state == PRIVATE || (block->state == NAMED && block->refs);
}

static bool is_active(const struct block *block)
{
	return block->state == NAMED && block->refs;
}

static bool is_named(const struct block *block)
{
	return block->state == NAMED;
}

static bool can_be_had(const struct block *block)
{
	return block->state == FREE || is_idle(block);
}

static u32 count_in(const int32_t *ids, u32 nr, int32_t id)
{
	u32 n = 0;

	for (u32 i = 0; i < nr; i++)
		n += ids[i] == id;
	return n;
}

/* Is each as @is says, and stands there once, or, named, as often as it may? */
static bool are_good(const int32_t *ids, u32 nr, bool (*is)(const struct block *block),
		     bool counts)
{
	for (u32 i = 0; i < nr; i++) {
		const struct block *block = &m.block[ids[i]];
		u32 n = count_in(ids, nr, ids[i]);

		if (!is(block) || (n > 1 && (!counts || block->state != NAMED)))
			return false;
	}
	return true;
}

static void do_register(void)
{
	kvmm_key_t keys[MAX_BATCH];
	struct kvmm_prefix prefix = { .keys = keys };
	int32_t ids[MAX_BATCH], was[MAX_BATCH];
	u32 number[MAX_BATCH], nr = some_ids(is_private, ids);
	int err;

	/* One by one: blocks that follow each other have an order of their own. */
	nr = min(nr, 1u);
	memcpy(was, ids, sizeof(was));
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(number[i] = any(NR_KEYS));
	prefix.nr = nr;
	err = kvmm_ids_register(m.pool, &prefix, ids, 0);
	cr_assert_eq(!err, are_good(ids, nr, is_private, false), "%d", err);
	for (u32 i = 0; i < nr && !err; i++) {
		cr_assert_eq(ids[i], was[i]);
		m.block[ids[i]] = (struct block){ .state = NAMED, .key = number[i], .refs = 1,
						  .age = ++m.clock };
	}
}

static void do_find(void)
{
	kvmm_key_t keys[MAX_BATCH];
	struct kvmm_prefix prefix = { .keys = keys };
	u32 number[MAX_BATCH], nr = any(MAX_BATCH), flags = any(2) ? KVMM_FIND_ALL : 0, n = 0;
	int32_t ids[MAX_BATCH];
	bool missed = false;
	int ret;

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(number[i] = any(NR_KEYS));
	prefix.nr = nr;
	ret = kvmm_ids_find(m.pool, &prefix, ids, flags);
	for (u32 i = 0; i < nr && !(missed && !flags); i++) {
		u32 want = find(number[i]);

		missed = want == NONE;
		if (!missed) {
			cr_assert_eq(ids[i], (int32_t)want);
			m.block[want].refs++;
			n++;
		} else if (flags) {
			cr_assert_eq(ids[i], KVMM_NO_ID);
		}
	}
	cr_assert_eq(ret, (int)n);
}

static void do_get(void)
{
	u32 flags = any(2) ? KVMM_IDS_INACTIVE : 0;
	int32_t ids[MAX_BATCH];
	u32 nr = some_ids(is_active, ids);
	bool good = true;
	int err;

	for (u32 i = 0; i < nr; i++) {
		const struct block *block = &m.block[ids[i]];

		good &= is_named(block) && (block->refs || flags) && !(flags && block->hidden);
	}
	/* Those used in vain have another place in the order: only good ones of these. */
	if (flags && !good)
		return;
	err = kvmm_ids_get(m.pool, ids, nr, flags);
	cr_assert_eq(!err, good, "%d", err);
	for (u32 i = 0; i < nr && !err; i++)
		m.block[ids[i]].refs++;
}

static void do_touch(void)
{
	int32_t ids[MAX_BATCH];
	u32 nr = some_ids(is_idle, ids);
	bool good = are_good(ids, nr, is_named, true);
	int err = kvmm_ids_touch(m.pool, ids, nr);

	cr_assert_eq(!err, good, "%d", err);
	for (u32 i = nr; i-- > 0 && !err;)
		m.block[ids[i]].idle = ++m.clock;
}

static void do_put(void)
{
	u32 flags = any(2) ? KVMM_IDS_FIRST_OUT : 0;
	int32_t ids[MAX_BATCH];
	u32 nr = some_ids(any(2) ? is_held : is_active, ids);
	bool good = are_good(ids, nr, is_held, true);
	int err;

	for (u32 i = 0; i < nr; i++)
		good &= m.block[ids[i]].state != NAMED ||
			count_in(ids, nr, ids[i]) <= m.block[ids[i]].refs;
	err = kvmm_ids_put(m.pool, ids, nr, flags);
	cr_assert_eq(!err, good, "%d", err);
	for (u32 i = 0; i < nr && !err; i++) {
		u32 id = ids[flags ? i : nr - 1 - i];

		if (m.block[id].state == PRIVATE)
			m.block[id].state = FREE;
		else
			drop(id);
	}
}

static void do_take(void)
{
	int32_t ids[MAX_BATCH];
	u32 nr = some_ids(can_be_had, ids);
	int err = kvmm_ids_take(m.pool, ids, nr, 0, 0);

	cr_assert_eq(!err, are_good(ids, nr, can_be_had, false), "%d", err);
	for (u32 i = 0; i < nr && !err; i++)
		m.block[ids[i]] = (struct block){ .state = PRIVATE };
}

static void do_forget(void)
{
	u32 id = any(NR_BLOCKS);
	struct block *block = &m.block[id];
	bool named = block->state == NAMED && !block->hidden;

	cr_assert_eq(kvmm_evict_blocks(m.pool, &id, 1), named);
	if (named && block->refs)
		block->hidden = true;
	else if (named)
		block->state = FREE;
}

static void check(void)
{
	struct kvmm_id_info info[NR_BLOCKS];
	int32_t ids[NR_BLOCKS];

	for (u32 i = 0; i < NR_BLOCKS; i++)
		ids[i] = i;
	cr_assert_eq(kvmm_ids_info(m.pool, ids, NR_BLOCKS, info), 0);
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		const struct block *block = &m.block[i];

		cr_assert_eq(info[i].state,
			     block->state == FREE ? KVMM_BLOCK_FREE :
			     block->state == PRIVATE ? KVMM_BLOCK_PRIVATE :
			     block->refs ? KVMM_BLOCK_ACTIVE : KVMM_BLOCK_INACTIVE, "block %u", i);
		if (block->state != NAMED)
			continue;
		cr_assert_eq(info[i].refs, block->refs);
		cr_assert_eq(number_of(&info[i].key), block->key);
	}
	cr_assert_eq(kvmm_validate(m.pool), 0);
}

static void (*const ops[])(void) = {
	do_alloc, do_register, do_register, do_register, do_find, do_get, do_touch, do_put, do_put,
	do_put, do_take, do_forget,
};

Test(ids_model, all_calls_do_as_the_table_says)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .compactor = "off" };
	u64 nr_ops = test_length("KVMM_MODEL_OPS", NR_OPS), seed = test_number("KVMM_SEED", 1);

	m = (struct model){ .pool = make_pool_of(&attr) };
	any_state = seed * 0x9e3779b97f4a7c15ull | 1;
	cr_log_info("KVMM_SEED=%llu KVMM_MODEL_OPS=%llu", (unsigned long long)seed,
		    (unsigned long long)nr_ops);
	for (u64 i = 0; i < nr_ops; i++) {
		ops[any(ARRAY_SIZE(ops))]();
		if (i % 64 == 0)
			check();
	}
	check();
	kvmm_pool_destroy(m.pool);
}
