// SPDX-License-Identifier: Apache-2.0
/*
 * Random operations against a small model that shares no code with the pool.
 *
 * The model knows who holds what: ranges with their references, pins and a pattern in each block;
 * private blocks; references on keys; and the keys that nobody references, in the order of "lru".
 * It does not know where anything lies: that is checked for overlaps, and by the patterns, which
 * must survive every move. With arenas each call is made on another processor. KVMM_SEED and
 * KVMM_MODEL_OPS choose the run.
 */
#include <kv/env.h>

#include "pool/arena.h"
#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	192u
#define MAX_HELD	96u
#define MAX_PROMPT	12u
#define NR_KEYS		160u
#define MAX_CHAIN	(2 * NR_BLOCKS)

struct held_range {
	kvmm_range_t range;
	u32 nr;
	u32 refs;
	u32 pins;
	u64 seq;
	u32 flags;
	u32 stamp[NR_BLOCKS];	/* by block of the range: its pattern */
};

struct held_prompt {
	kvmm_ref_t ref[MAX_PROMPT];
	u32 key[MAX_PROMPT];
	u32 nr;
};

/* A cached block as the model sees it. */
struct block {
	u32 key;
	u32 refs;
	u64 age;		/* order of arrival: the older one of two is hit */
	u64 idle;		/* order of becoming idle; while refs is 0 */
	bool live;
};

static struct model {
	struct kvmm_pool *pool;
	u64 clock;
	u32 next_stamp;
	struct held_range range[MAX_HELD];
	u32 nr_ranges;
	struct held_prompt prompt[MAX_HELD];
	u32 nr_prompts;
	kvmm_mut_t mut[NR_BLOCKS];
	u32 nr_muts;
	struct block block[NR_BLOCKS];
	kvmm_range_t stale[16];
	u64 nr_done[16];
	bool has_arenas;
	u32 cpu;
} m;

/* ---- the model's own counts ---- */

static u32 nr_cached(bool idle)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		nr += m.block[i].live && (m.block[i].refs == 0) == idle;
	return nr;
}

static u32 nr_in_ranges(void)
{
	u32 nr = 0;

	for (u32 i = 0; i < m.nr_ranges; i++)
		nr += m.range[i].nr;
	return nr;
}

static u32 nr_free(void)
{
	return NR_BLOCKS - 1 - nr_in_ranges() - m.nr_muts - nr_cached(true) - nr_cached(false);
}

static struct block *oldest_of(u32 key)
{
	struct block *found = NULL;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		if (m.block[i].live && m.block[i].key == key &&
		    (!found || m.block[i].age < found->age))
			found = &m.block[i];
	return found;
}

static struct block *next_victim(void)
{
	struct block *found = NULL;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		if (m.block[i].live && !m.block[i].refs &&
		    (!found || m.block[i].idle < found->idle))
			found = &m.block[i];
	return found;
}

static struct block *new_block(u32 key)
{
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		if (m.block[i].live)
			continue;
		m.block[i] = (struct block){ key, 1, ++m.clock, 0, true };
		return &m.block[i];
	}
	cr_assert_fail("the model has more cached blocks than there are");
	return NULL;
}

/* ---- patterns ---- */

static void block_pattern(u8 *buf, u32 stamp)
{
	for (u32 i = 0; i < TEST_BLOCK_BYTES; i++)
		buf[i] = stamp * 167 + i * (stamp >> 8 | 1);
	memcpy(buf, &stamp, sizeof(stamp));
}

static void write_stamp(u32 block, u32 stamp)
{
	u8 buf[TEST_BLOCK_BYTES];

	block_pattern(buf, stamp);
	cr_assert_eq(kvmm_block_write(m.pool, block, 0, buf, sizeof(buf)), 0);
}

static void expect_stamp(u32 block, u32 stamp)
{
	u8 want[TEST_BLOCK_BYTES], buf[TEST_BLOCK_BYTES];

	block_pattern(want, stamp);
	cr_assert_eq(kvmm_block_read(m.pool, block, 0, buf, sizeof(buf)), 0);
	cr_assert_arr_eq(buf, want, sizeof(buf), "block %u lost its content", block);
}

/* Keys stand for content, too. */
static u32 stamp_of_key(u32 key)
{
	return 0x40000000u + key;
}

/* Call for each block of a range, by where it lies now. */
static void each_block(const struct held_range *held, u32 from,
		       void (*fn)(u32 block, u32 stamp))
{
	struct kvmm_extent ext[NR_BLOCKS];
	int nr = kvmm_range_extents(m.pool, held->range, ext, NR_BLOCKS);
	u32 i = 0;

	cr_assert_gt(nr, 0);
	for (int e = 0; e < nr; e++)
		for (u32 b = 0; b < ext[e].nr; b++, i++)
			if (i >= from)
				fn(ext[e].start + b, held->stamp[i]);
	cr_assert_eq(i, held->nr);
}

static void stamp_range(struct held_range *held, u32 from)
{
	for (u32 i = from; i < held->nr; i++)
		held->stamp[i] = ++m.next_stamp;
	each_block(held, from, write_stamp);
}

/* ---- ranges ---- */

static struct held_range *any_range(void)
{
	return m.nr_ranges ? &m.range[any(m.nr_ranges)] : NULL;
}

static void forget_range(struct held_range *held)
{
	m.stale[any(16)] = held->range;
	*held = m.range[--m.nr_ranges];
}

static void evict_in_model(u32 nr_wanted)
{
	while (nr_free() < nr_wanted)
		next_victim()->live = false;
}

static void op_alloc_range(void)
{
	static const u32 flags[] = { 0, 0, KVMM_ALLOC_GROWS, KVMM_ALLOC_TOPDOWN, KVMM_ALLOC_PINNED,
				     KVMM_ALLOC_NO_COMPACT, KVMM_ALLOC_NO_EVICT };
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any(24),
					.max_runs = 1 + any(8), .seq = any(12),
					.flags = flags[any(7)] };
	struct held_range *held = &m.range[m.nr_ranges];
	u32 room = nr_free() + nr_cached(true);
	int err;

	if (m.nr_ranges == MAX_HELD || (m.has_arenas && nr_free() < NR_BLOCKS / 3 && any(64)))
		return;
	if (m.has_arenas && any(4))	/* they serve plain requests only */
		attr.seq = attr.flags = 0;
	if (attr.flags & KVMM_ALLOC_NO_EVICT)
		room = nr_free();
	err = kvmm_range_alloc_attr(m.pool, &attr, &held->range);
	cr_assert(!err || err == -ENOSPC, "%d", err);
	cr_assert(err || attr.nr <= room, "blocks out of nothing");
	if (err)
		return;
	evict_in_model(attr.nr);
	held->nr = attr.nr;
	held->refs = 1;
	held->pins = 0;
	held->seq = attr.seq;
	held->flags = attr.flags;
	m.nr_ranges++;
	stamp_range(held, 0);
}

static void op_free_range(void)
{
	struct held_range *held = any_range();
	int err;

	if (!held)
		return;
	each_block(held, 0, expect_stamp);
	err = kvmm_range_free(m.pool, held->range);
	if (held->refs == 1 && held->pins) {
		cr_assert_eq(err, -EBUSY);
		return;
	}
	cr_assert_eq(err, 0);
	if (!--held->refs)
		forget_range(held);
}

static void op_grow(void)
{
	struct held_range *held = any_range();
	u32 nr = 1 + any(6), old, room;
	int err;

	if (!held)
		return;
	room = nr_free() + (held->flags & KVMM_ALLOC_NO_EVICT ? 0 : nr_cached(true));
	err = kvmm_range_grow(m.pool, held->range, nr);
	cr_assert_eq(err, nr <= room ? 0 : -ENOSPC);
	if (err)
		return;
	old = held->nr;
	evict_in_model(nr);
	held->nr += nr;
	stamp_range(held, old);
}

/* A range may be there twice. */
static void op_grow_many(void)
{
	u32 nr = 1 + any(4), by = 1 + any(3), room = nr_free() + nr_cached(true), old[4];
	struct held_range *held[4];
	kvmm_range_t ranges[4];
	int err;

	for (u32 i = 0; i < nr; i++) {
		held[i] = any_range();
		if (!held[i])
			return;
		ranges[i] = held[i]->range;
		old[i] = held[i]->nr;
		if (held[i]->flags & KVMM_ALLOC_NO_EVICT)
			room = min(room, nr_free());
	}
	err = kvmm_range_grow_many(m.pool, ranges, nr, by);
	cr_assert_eq(err, nr * by <= room ? 0 : -ENOSPC);
	if (err)
		return;
	evict_in_model(nr * by);
	for (u32 i = 0; i < nr; i++)
		held[i]->nr += by;
	for (u32 i = 0; i < nr; i++)
		stamp_range(held[i], old[i]);
}

static void op_shrink(void)
{
	struct held_range *held = any_range();
	bool front = any(2);
	u32 nr = 1 + any(6);
	int err;

	if (!held)
		return;
	err = front ? kvmm_range_shrink_front(m.pool, held->range, nr) :
		      kvmm_range_shrink(m.pool, held->range, nr);
	cr_assert_eq(err, nr >= held->nr ? -EINVAL : held->pins || held->refs > 1 ? -EBUSY : 0);
	if (err)
		return;
	held->nr -= nr;
	if (front)
		memmove(held->stamp, held->stamp + nr, held->nr * sizeof(held->stamp[0]));
}

static void op_split(void)
{
	struct held_range *held = any_range(), *tail = &m.range[m.nr_ranges];
	u32 at = 1 + any(8);
	int err;

	if (!held || m.nr_ranges == MAX_HELD)
		return;
	err = kvmm_range_split(m.pool, held->range, at, &tail->range);
	cr_assert_eq(err, at >= held->nr ? -EINVAL : held->pins || held->refs > 1 ? -EBUSY : 0);
	if (err)
		return;
	tail->nr = held->nr - at;
	tail->refs = 1;
	tail->pins = 0;
	tail->seq = held->seq;
	tail->flags = held->flags;
	memcpy(tail->stamp, held->stamp + at, tail->nr * sizeof(tail->stamp[0]));
	held->nr = at;
	m.nr_ranges++;
}

static void op_share(void)
{
	struct held_range *held = any_range();

	if (!held || held->refs > 3)
		return;
	cr_assert_eq(kvmm_range_get(m.pool, held->range), 0);
	held->refs++;
}

static void op_pin(void)
{
	struct held_range *held = any_range();

	if (!held)
		return;
	if (any(3) || held->pins > 1) {
		cr_assert_eq(kvmm_range_unpin(m.pool, held->range), held->pins ? 0 : -EINVAL);
		held->pins -= !!held->pins;
	} else {
		cr_assert_eq(kvmm_range_pin(m.pool, held->range), 0);
		held->pins++;
	}
}

static void op_free_seq(void)
{
	u64 seq = 1 + any(11);
	u32 nr = 0;
	bool barred = false;

	for (u32 i = 0; i < m.nr_ranges; i++) {
		nr += m.range[i].seq == seq;
		barred |= m.range[i].seq == seq && m.range[i].refs == 1 && m.range[i].pins;
	}
	cr_assert_eq(kvmm_range_find_seq(m.pool, seq, NULL, 0), nr);
	if (any(4))
		return;
	cr_assert_eq(kvmm_range_free_seq(m.pool, seq), barred ? -EBUSY : (int)nr);
	for (u32 i = m.nr_ranges; i-- > 0 && !barred;)
		if (m.range[i].seq == seq && !--m.range[i].refs)
			forget_range(&m.range[i]);
}

static void op_stale(void)
{
	kvmm_range_t range = m.stale[any(16)];
	int err = kvmm_range_free(m.pool, range);

	cr_assert(err == -ESTALE || (err == -EINVAL && !range.gen));
}

static void op_compact(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = any(40),
				     .max_blocks = any(2) ? 0 : any(30) };
	int err = kvmm_pool_compact(m.pool, &goal);

	cr_assert(!err || err == -ENOSPC || err == -EAGAIN, "%d", err);
}

/* ---- cached blocks ---- */

/* Prompts share prefixes: eight roots of 20 keys each. */
static u32 fill_keys(kvmm_key_t *keys, u32 *number)
{
	u32 root = any(8) * 20, nr = 1 + any(MAX_PROMPT);

	for (u32 i = 0; i < nr; i++) {
		number[i] = root + i;
		keys[i] = key_of(number[i]);
	}
	return nr;
}

static u32 hits_in_model(const u32 *number, u32 nr, u32 *nr_idle)
{
	u32 hits;

	*nr_idle = 0;
	for (hits = 0; hits < nr; hits++) {
		struct block *block = oldest_of(number[hits]);

		if (!block)
			break;
		*nr_idle += !block->refs;
	}
	return hits;
}

static void register_rest(struct held_prompt *prompt, const struct kvmm_acquire_args *req)
{
	for (u32 i = 0; i < req->nr_fresh; i++) {
		int block = kvmm_block_of_mut(m.pool, req->fresh[i]);

		cr_assert_geq(block, 1);
		write_stamp(block, stamp_of_key(prompt->key[req->nr_hits + i]));
	}
	cr_assert_eq(kvmm_register(m.pool, req->fresh, req->keys + req->nr_hits, req->nr_fresh,
				   prompt->ref + req->nr_hits), 0);
	for (u32 i = req->nr_hits; i < prompt->nr; i++)
		new_block(prompt->key[i]);
}

/* Evicted keys must be those of the model, in its order. */
static void expect_victims(const struct kvmm_acquire_args *req, u32 nr_free_before)
{
	u32 want = req->nr_fresh > nr_free_before ? req->nr_fresh - nr_free_before : 0;

	cr_assert_eq(req->nr_evicted, want);
	for (u32 i = 0; i < want; i++) {
		struct block *victim = next_victim();

		cr_assert_eq(number_of(&req->evicted[i]), victim->key);
		victim->live = false;
	}
}

static void op_acquire(void)
{
	struct held_prompt *prompt = &m.prompt[m.nr_prompts];
	kvmm_key_t keys[MAX_PROMPT], evicted[MAX_PROMPT];
	kvmm_mut_t fresh[MAX_PROMPT];
	struct kvmm_acquire_args req = { .keys = keys, .hits = prompt->ref, .fresh = fresh,
					 .evicted = evicted };
	u32 hits, idle, nr_free_before = nr_free();
	int err;

	if (m.nr_prompts == MAX_HELD)
		return;
	req.nr_keys = req.max_hits = req.nr_blocks = prompt->nr = fill_keys(keys, prompt->key);
	hits = hits_in_model(prompt->key, prompt->nr, &idle);
	cr_assert_eq(kvmm_match_len(m.pool, keys, prompt->nr), hits);
	err = kvmm_acquire(m.pool, &req);
	cr_assert_eq(err, prompt->nr - hits + idle <= nr_free_before + nr_cached(true) ?
			  0 : -ENOSPC);
	if (err)
		return;
	cr_assert_eq(req.nr_hits, hits);
	for (u32 i = 0; i < hits; i++) {
		oldest_of(prompt->key[i])->refs++;
		expect_stamp(kvmm_block_of_ref(m.pool, prompt->ref[i]),
			     stamp_of_key(prompt->key[i]));
	}
	expect_victims(&req, nr_free_before);
	register_rest(prompt, &req);
	m.nr_prompts++;
}

/*
 * Which of several blocks with one key a reference is on, the model finds by counting: there is
 * only one unless two prompts missed it at once, which a single thread cannot.
 */
static void op_put(void)
{
	struct held_prompt *prompt;

	if (!m.nr_prompts)
		return;
	prompt = &m.prompt[any(m.nr_prompts)];
	cr_assert_eq(kvmm_put_many(m.pool, prompt->ref, prompt->nr), 0);
	for (u32 i = prompt->nr; i-- > 0;) {
		struct block *block = oldest_of(prompt->key[i]);

		if (!--block->refs)
			block->idle = ++m.clock;
	}
	*prompt = m.prompt[--m.nr_prompts];
}

static void op_private(void)
{
	u32 nr = any(6), i;
	int err;

	if (any(2) && m.nr_muts) {
		nr = 1 + any(m.nr_muts);
		m.nr_muts -= nr;
		cr_assert_eq(kvmm_free(m.pool, &m.mut[m.nr_muts], nr), 0);
		cr_assert_eq(kvmm_free(m.pool, &m.mut[m.nr_muts], nr), -ESTALE);
		return;
	}
	i = nr_free() + nr_cached(true);
	if (m.nr_muts + nr > NR_BLOCKS / 8)
		return;
	err = kvmm_alloc(m.pool, nr, &m.mut[m.nr_muts]);
	cr_assert_eq(err, nr <= i ? 0 : -ENOSPC);
	if (err)
		return;
	evict_in_model(nr);
	m.nr_muts += nr;
}

static void op_reset(void)
{
	u32 nr = nr_cached(true);

	if (any(50))
		return;
	cr_assert_eq(kvmm_reset_inactive(m.pool), nr);
	for (u32 i = 0; i < NR_BLOCKS; i++)
		m.block[i].live &= m.block[i].refs != 0;
}

/* ---- the run ---- */

static void compare(void)
{
	struct kvmm_pool_stat stat = stat_of(m.pool);

	cr_assert_eq(stat.nr_free, nr_free());
	cr_assert_eq(stat.nr_inactive, nr_cached(true));
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_ACTIVE], nr_cached(false));
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_PRIVATE], m.nr_muts);
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_RANGE], nr_in_ranges());
	cr_assert_eq(stat.nr_ranges, m.nr_ranges);
	cr_assert_eq(kvmm_validate(m.pool), 0);
	for (u32 i = 0; i < m.nr_ranges; i++)
		each_block(&m.range[i], 0, expect_stamp);
}

static void (*const operations[])(void) = {
	op_alloc_range, op_alloc_range, op_free_range, op_free_range, op_grow, op_grow_many, op_shrink, op_split,
	op_share, op_pin, op_free_seq, op_stale, op_compact, op_acquire, op_acquire, op_acquire,
	op_put, op_put, op_put, op_private, op_reset,
};

#define NR_RANGE_OPERATIONS	12u	/* the first ones */

/* A full pool has nothing to keep aside. */
static u32 any_operation(void)
{
	return m.has_arenas && any(64) ? any(NR_RANGE_OPERATIONS) : any(ARRAY_SIZE(operations));
}

static u32 model_cpu(void *ctx)
{
	return m.cpu;
}

static void use_arenas(void)
{
	static struct kv_env_ops env;

	m.has_arenas = true;
	env = kv_env_system;
	env.cpu = model_cpu;
	kv_env_set(&env);
	cr_assert_eq(kv_pool_force_arenas(m.pool, 4), 0);
}

static void expect_used_arenas(u64 nr_ops)
{
	u64 allocs = 0, frees = 0;

	for (u32 i = 0; i < m.pool->arenas->nr; i++) {
		allocs += m.pool->arenas->arena[i].count.allocs;
		frees += m.pool->arenas->arena[i].count.frees;
	}
	cr_log_info("arenas: %llu allocations, %llu frees", (unsigned long long)allocs,
		    (unsigned long long)frees);
	cr_expect_gt(allocs, nr_ops / 100);
	cr_expect_gt(frees, nr_ops / 1000);
}

static void run_model(const char *compactor, u64 seed, u64 nr_ops, bool has_arenas)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .block_bytes = TEST_BLOCK_BYTES,
				       .flags = KVMM_POOL_NULL_BLOCK, .policy = "lru" };

	memset(&m, 0, sizeof(m));
	any_state = seed * 0x9e3779b97f4a7c15ull | 1;
	attr.compactor = compactor;
	m.pool = make_pool_of(&attr);
	if (has_arenas)
		use_arenas();
	for (u64 i = 0; i < nr_ops; i++) {
		m.cpu = has_arenas ? any(4) : 0;
		operations[any_operation()]();
		if (i % 64 == 0)
			compare();
	}
	compare();
	cr_expect_gt(stat_of(m.pool).moved_blocks, 0);
	if (has_arenas)
		expect_used_arenas(nr_ops);
	else
		cr_expect_gt(stat_of(m.pool).evictions, 0);
	end_pool(m.pool);
}

Test(model, random_operations_agree_with_a_model)
{
	u64 seed = test_number("KVMM_SEED", 1);
	u64 nr_ops = test_length("KVMM_MODEL_OPS", 100000);

	cr_log_info("KVMM_SEED=%llu KVMM_MODEL_OPS=%llu", (unsigned long long)seed,
		    (unsigned long long)nr_ops);
	run_model(NULL, seed, nr_ops, false);
	run_model("slide", seed + 1, nr_ops / 4, false);
}

Test(model, random_operations_agree_with_a_model_whoever_keeps_blocks_aside)
{
	u64 seed = test_number("KVMM_SEED", 1);
	u64 nr_ops = test_length("KVMM_MODEL_OPS", 100000);

	cr_log_info("KVMM_SEED=%llu KVMM_MODEL_OPS=%llu", (unsigned long long)seed,
		    (unsigned long long)nr_ops);
	run_model(NULL, seed, nr_ops, true);
	run_model("slide", seed + 1, nr_ops / 4, true);
}
