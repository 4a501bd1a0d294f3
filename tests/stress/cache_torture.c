// SPDX-License-Identifier: Apache-2.0
/*
 * Cached blocks of a pool that is far too small, by many threads: own main(), exit code 0 if all is
 * well.
 *
 * usage: cache_torture [SECONDS [SEED]]
 *
 * Writers run prompts: match, allocate, fill, register, put. Each block says in its content which
 * name it was filled for and when, so whoever holds a reference can tell whether he got what he asked
 * for, and whether it stays what it was. Content is read and written in plain memory on purpose:
 * ThreadSanitizer has to find that it changes hands only with an order, moves included. Meanwhile
 * one thread each compacts, evicts by block id, validates, resets.
 *
 * Some names are held all the time, and must always be found. In the end nothing may be held, lost
 * or miscounted. Policies, indexes, rules for duplicates and resetting on release go in turn.
 */
#include <kv/pool.h>

#include "tests/support/key.h"
#include "tests/support/torture.h"

#define NR_BLOCKS	96u
#define NR_NAMES	128u
#define NR_FIXED	6u		/* further names, of blocks that are always held */
#define PROMPT		12u
#define NR_WEAK		32u
#define NR_READERS	2u
#define NR_WRITERS	2u
#define NR_THREADS	(NR_READERS + NR_WRITERS + 4)
#define MAX_POLICIES	64u

/* What is in a block. */
struct content {
	u32 name;
	u32 tenant;
	u64 birth;
	u64 birth_copy;
};

enum { HITS, UPGRADES, REGISTERED, FORGOTTEN, MOVED, CHECKS, NR_COUNTS };

static struct content memory[NR_BLOCKS];
static struct kvmm_pool *pool;
static kvmm_ref_t fixed[NR_FIXED];
static u32 fixed_block[NR_FIXED];
static u64 hint[NR_WEAK];		/* atomic; weak references that writers pass on */
static u64 next_birth;			/* atomic */
static __thread kvmm_weak_t seen[NR_WEAK];	/* what it has had */

/* Consecutive names of one tenant. */
struct prompt {
	u32 first;
	u32 tenant;
	u32 nr;
	kvmm_key_t key[PROMPT];
	struct kvmm_prefix prefix;
};

static void fill_prompt(struct prompt *prompt)
{
	prompt->nr = 1 + any(PROMPT);
	prompt->first = any(NR_NAMES / PROMPT) * PROMPT;
	prompt->tenant = any(2);
	for (u32 i = 0; i < prompt->nr; i++)
		prompt->key[i] = key_of(prompt->first + i);
	prompt->prefix = (struct kvmm_prefix){ prompt->key, prompt->nr, 0, NULL,
					       { .tenant = prompt->tenant } };
}

/* ---- content ---- */

static void fill_block(u32 block, u32 name, u32 tenant)
{
	u64 birth = kv_fetch_add(&next_birth, 1) + 1;
	struct content content = { name, tenant, birth, birth };

	if (any(8))
		memory[block] = content;
	else
		expect(!kvmm_block_write(pool, block, 0, &content, sizeof(content)));
}

/* The caller holds a reference on it. */
static struct content read_block(kvmm_ref_t ref)
{
	struct content content = { 0 };
	int block = kvmm_block_of_ref(pool, ref);

	expect(block >= 0 && block < (int)NR_BLOCKS);
	if (block < 0)
		return content;
	if (any(8))
		return memory[block];
	expect(!kvmm_block_read(pool, block, 0, &content, sizeof(content)));
	return content;
}

static void check_block(kvmm_ref_t ref, u32 name, u32 tenant)
{
	struct content content = read_block(ref), again;

	expect(content.name == name && content.tenant == tenant);
	expect(content.birth && content.birth == content.birth_copy);
	for (u32 i = any(40); i; i--)
		__asm__ volatile("");
	again = read_block(ref);
	expect(!memcmp(&content, &again, sizeof(content)));
}

static void put(const kvmm_ref_t *refs, u32 nr)
{
	expect(!kvmm_put_many(pool, refs, nr));
}

/* ---- readers ---- */

static void match(void)
{
	struct prompt prompt;
	kvmm_ref_t refs[PROMPT];
	int nr;

	fill_prompt(&prompt);
	nr = kvmm_prefix_match(pool, &prompt.prefix, refs);
	expect(nr >= 0 && nr <= (int)prompt.nr);
	if (nr < 0)
		return;
	done[HITS] += nr;
	for (int i = 0; i < nr; i++) {
		check_block(refs[i], prompt.first + i, prompt.tenant);
		seen[any(NR_WEAK)] = kvmm_weak_of(refs[i]);
	}
	put(refs, nr);
}

static void scan(void)
{
	struct prompt prompt;
	kvmm_ref_t refs[PROMPT];
	u32 nr_found = 0;
	int nr;

	fill_prompt(&prompt);
	prompt.key[prompt.nr - 1] = prompt.key[0];
	nr = kvmm_prefix_scan(pool, &prompt.prefix, refs);
	if (nr < 0) {
		expect(!nr);
		return;
	}
	for (u32 i = 0; i < prompt.nr; i++) {
		u32 name = i == prompt.nr - 1 ? prompt.first : prompt.first + i;

		if (!refs[i].gen)
			continue;
		check_block(refs[i], name, prompt.tenant);
		nr_found++;
		put(&refs[i], 1);
	}
	expect(nr == (int)nr_found);
}

static void look(void)
{
	struct prompt prompt;
	u64 present;
	int nr;

	fill_prompt(&prompt);
	nr = kvmm_prefix_len(pool, &prompt.prefix);
	expect(nr >= 0 && nr <= (int)prompt.nr);
	nr = kvmm_prefix_probe(pool, &prompt.prefix, &present);
	expect(nr == __builtin_popcountll(present) && present < 1ull << prompt.nr);
}

/* Blocks that were found without a reference are those of these names, or gone. */
static void peek(void)
{
	struct kvmm_victim next[8];
	kvmm_weak_t weak[PROMPT];
	kvmm_ref_t refs[PROMPT];
	u32 block[PROMPT];
	struct prompt prompt;
	int nr;

	fill_prompt(&prompt);
	nr = kvmm_prefix_peek(pool, &prompt.prefix, weak, block, 0);
	expect(nr >= 0 && nr <= (int)prompt.nr);
	expect(kvmm_touch_weak(pool, weak, nr) <= nr);
	expect(kvmm_upgrade_many(pool, weak, nr, refs) >= 0);
	for (int i = 0; i < nr; i++) {
		expect(block[i] < NR_BLOCKS);
		if (!refs[i].gen)
			continue;
		check_block(refs[i], prompt.first + i, prompt.tenant);
		put(&refs[i], 1);
	}
	nr = kvmm_evict_next(pool, next, 8);
	expect(nr >= 0 && nr <= 8);
}

/* Everything that a holder may do. */
static void use(kvmm_ref_t ref)
{
	int err;

	switch (any(5)) {
	case 0:
		expect(!kvmm_touch_many(pool, &ref, 1));
		break;
	case 1:
		expect(!kvmm_get_many(pool, &ref, 1));
		put(&ref, 1);
		break;
	case 2:
		err = kvmm_pin_many(pool, &ref, 1);
		expect(!err || err == -EBUSY);
		if (!err)
			expect(!kvmm_unpin_many(pool, &ref, 1));
		break;
	case 3:
		expect(!kvmm_set_reset(pool, &ref, 1, any(2)));
		break;
	default:
		err = kvmm_advise_many(pool, &ref, KVMM_ADVISE_NEXT_USE, &any_state, 1);
		expect(!err || err == -EOPNOTSUPP);
	}
}

/* What a handle names never changes: the content that was seen first is the content for ever. */
static void upgrade(void)
{
	u64 both = READ_ONCE(hint[any(NR_WEAK)]);
	kvmm_weak_t weak[3] = { seen[any(NR_WEAK)],
				{ (u32)both, both >> 32 }, { NR_BLOCKS, 1 } };
	kvmm_ref_t refs[3];
	int nr = kvmm_upgrade_many(pool, weak, 3, refs);

	expect(nr >= 0 && nr <= 2 && !refs[2].gen);
	for (u32 i = 0; i < 2 && nr >= 0; i++) {
		struct content before, after;

		if (!refs[i].gen)
			continue;
		done[UPGRADES]++;
		before = read_block(refs[i]);
		use(refs[i]);
		after = read_block(refs[i]);
		expect(!memcmp(&before, &after, sizeof(before)));
		expect(before.birth == before.birth_copy);
		put(&refs[i], 1);
	}
}

static void find_fixed(void)
{
	kvmm_key_t key[NR_FIXED];
	kvmm_ref_t refs[NR_FIXED];

	for (u32 i = 0; i < NR_FIXED; i++)
		key[i] = key_of(NR_NAMES + i);
	expect(kvmm_match_len(pool, key, NR_FIXED) == NR_FIXED);
	expect(kvmm_match(pool, key, NR_FIXED, refs) == NR_FIXED);
	for (u32 i = 0; i < NR_FIXED; i++) {
		expect(refs[i].index == fixed[i].index && refs[i].gen == fixed[i].gen);
		expect(kvmm_block_of_ref(pool, refs[i]) == (int)fixed_block[i]);
	}
	put(refs, NR_FIXED);
}

static void read_all(void)
{
	static void (*const deed[])(void) = {
		match, match, scan, look, peek, upgrade, upgrade, find_fixed,
	};

	deed[any(ARRAY_SIZE(deed))]();
}

/* ---- writers ---- */

static void fill_fresh(const kvmm_mut_t *fresh, u32 nr, u32 name, u32 tenant)
{
	for (u32 i = 0; i < nr; i++)
		fill_block(kvmm_block_of_mut(pool, fresh[i]), name + i, tenant);
}

/* Named, but never published. True: @fresh is private again. */
static bool stage_and_regret(const struct kvmm_prefix *prefix,
			     kvmm_mut_t *fresh)
{
	kvmm_staged_t staged[PROMPT];

	expect(!kvmm_stage(pool, prefix, fresh, staged));
	if (any(2)) {
		expect(!kvmm_unstage(pool, staged, prefix->nr, fresh));
		return true;
	}
	expect(!kv_free_staged(pool, staged, prefix->nr));
	return false;
}

static void publish(const struct kvmm_prefix *prefix,
		    const kvmm_mut_t *fresh, kvmm_ref_t *refs)
{
	union { kvmm_staged_t staged[PROMPT]; kvmm_ref_t refs[PROMPT]; } u;
	struct kvmm_publish_args req = { .staged = u.staged, .nr = prefix->nr, .refs = u.refs,
					 .dup = any(KVMM_NR_DUPS) };

	expect(!kvmm_stage(pool, prefix, fresh, u.staged));
	expect(!kvmm_publish(pool, &req));
	expect(req.nr_dups <= req.nr);
	memcpy(refs, u.refs, prefix->nr * sizeof(*refs));
}

/* Blocks for what is missing get content and names. Returns how many of @refs are held then. */
static u32 name_rest(const struct prompt *prompt,
		     struct kvmm_acquire_args *req, kvmm_ref_t *refs)
{
	struct kvmm_prefix rest = prompt->prefix;

	rest.keys += req->nr_hits;
	rest.nr -= req->nr_hits;
	rest.position = req->nr_hits;
	rest.parent = req->nr_hits ? &prompt->key[req->nr_hits - 1] : NULL;
	fill_fresh(req->fresh, req->nr_fresh, prompt->first + req->nr_hits,
		   prompt->tenant);
	if (rest.nr && !any(4) && !stage_and_regret(&rest, req->fresh))
		return req->nr_hits;
	if (any(2))
		publish(&rest, req->fresh, refs + req->nr_hits);
	else
		expect(!kvmm_prefix_register(pool, &rest, req->fresh, refs + req->nr_hits));
	done[REGISTERED] += rest.nr;
	return prompt->nr;
}

static void run_prompt(void)
{
	struct prompt prompt;
	kvmm_ref_t refs[PROMPT];
	kvmm_mut_t fresh[PROMPT];
	struct kvmm_acquire_args req = { .max_hits = any(2) ? PROMPT : 2, .hits = refs,
					 .fresh = fresh, .reserve = any(3) };
	u32 nr;
	int err;

	fill_prompt(&prompt);
	req.keys = prompt.key;
	req.nr_keys = req.nr_blocks = prompt.nr;
	req.domain = prompt.prefix.domain;
	err = kvmm_acquire(pool, &req);
	expect(!err || err == -ENOSPC);
	if (err)
		return;
	nr = name_rest(&prompt, &req, refs);
	for (u32 i = 0; i < nr; i++)
		check_block(refs[i], prompt.first + i, prompt.tenant);
	if (nr)
		WRITE_ONCE(hint[any(NR_WEAK)], refs[0].index | (u64)refs[nr - 1].gen << 32);
	put(refs, nr);
}

static void take_and_free(void)
{
	kvmm_mut_t mut[PROMPT];
	u32 nr = any(PROMPT);
	int err = kvmm_alloc_for(pool, nr, any(2), mut);

	expect(!err || err == -ENOSPC);
	if (err)
		return;
	fill_fresh(mut, nr, NR_NAMES * 2, 9);
	expect(!kvmm_free(pool, mut, nr));
}

/* Ranges evict, too, and move what is cached. */
static void take_range(void)
{
	kvmm_range_t range;
	int err = kvmm_range_alloc(pool, 1 + any(24), KVMM_RUNS(1 + any(2)),
				   &range);

	expect(!err || err == -ENOSPC);
	if (!err)
		expect(!kvmm_range_free(pool, range));
}

static void write_all(void)
{
	u32 i = any(16);

	if (i < 13)
		run_prompt();
	else if (i < 15)
		take_and_free();
	else
		take_range();
}

/* ---- one each ---- */

static void compact(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = any(32),
				     .max_blocks = any(2) * 8 };
	int err = kvmm_pool_compact(pool, &goal);

	expect(!err || err == -ENOSPC || err == -EAGAIN);
	done[MOVED] += goal.moved;
}

static bool is_fixed(u32 block)
{
	for (u32 i = 0; i < NR_FIXED; i++)
		if (fixed_block[i] == block)
			return true;
	return false;
}

static void evict_by_id(void)
{
	u32 blocks[4], nr = 0;
	int ret;

	for (u32 i = 0; i < 4; i++) {
		u32 block = any(NR_BLOCKS);

		if (!is_fixed(block))
			blocks[nr++] = block;
	}
	ret = kvmm_evict_blocks(pool, blocks, nr);
	expect(ret >= 0 && ret <= (int)nr);
	done[FORGOTTEN] += ret;
}

static void validate(void)
{
	struct kvmm_pool_stat stat;
	u32 sum = 0;

	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	for (u32 i = 0; i < KVMM_NR_BLOCK_STATES; i++) {
		expect(stat.nr_state[i] <= NR_BLOCKS);
		sum += stat.nr_state[i];
	}
	expect(sum == NR_BLOCKS);
	expect(stat.nr_available <= NR_BLOCKS);
	done[CHECKS]++;
}

static void reset(void)
{
	/* Somebody holds the fixed ones. */
	expect(kvmm_reset_cache(pool) == -EBUSY);
	if (!any(4))
		expect(kvmm_reset_inactive(pool) >= 0);
	sleep_ns(NS_PER_SEC / 3000);
}

/* ---- all together ---- */

/* Each policy twice; the other rules in all combinations, more or less. */
static u32 nr_rounds(const char **policy)
{
	u32 nr = kvmm_policies(policy, MAX_POLICIES);

	return 2 * min(nr, MAX_POLICIES);
}

static int make_pool(u32 round)
{
	struct kvmm_plane planes[1] = { { (uintptr_t)memory, sizeof(memory[0]), sizeof(memory[0]) } };
	const char *policy[MAX_POLICIES];
	u32 nr = nr_rounds(policy) / 2;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .planes = planes, .nr_planes = 1,
				       .nr_blocks = NR_BLOCKS, .policy = policy[round % nr],
				       .index = round % 4 == 3 ? "lfht" : "flat",
				       .dup_policy = (round + round / 4) % KVMM_NR_DUPS,
				       .flags = round % 5 == 4 ? KVMM_POOL_RESET_ON_RELEASE : 0,
				       .compactor = round % 2 ? "slide" : "window" };

	return kvmm_pool_create(&attr, &pool);
}

/* Nobody holds anything any more; so nothing may be left. */
static void end_round(void)
{
	struct kvmm_pool_stat stat;

	for (u32 i = 0; i < NR_FIXED; i++)
		check_block(fixed[i], NR_NAMES + i, 0);
	put(fixed, NR_FIXED);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(!stat.nr_state[KVMM_BLOCK_PRIVATE] && !stat.nr_state[KVMM_BLOCK_STAGED] &&
	       !stat.nr_ranges);
	expect(kvmm_reset_cache(pool) >= 0);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(stat.nr_free == NR_BLOCKS);
	kvmm_pool_destroy(pool);
}

static void run_round(u32 round, u64 seed, u64 ns)
{
	static void (*const others[])(void) = { compact, evict_by_id, validate, reset };
	kvmm_mut_t mut[NR_FIXED];
	kvmm_key_t key[NR_FIXED];

	if (make_pool(round))
		exit(EXIT_FAILURE);
	expect(!kvmm_alloc(pool, NR_FIXED, mut));
	for (u32 i = 0; i < NR_FIXED; i++)
		key[i] = key_of(NR_NAMES + i);
	fill_fresh(mut, NR_FIXED, NR_NAMES, 0);
	expect(!kvmm_register(pool, mut, key, NR_FIXED, fixed));
	expect(!kvmm_blocks_of_refs(pool, fixed, NR_FIXED, fixed_block));
	memset(hint, 0, sizeof(hint));
	for (u32 i = 0; i < NR_THREADS; i++)
		torture_start(i < NR_WRITERS ? write_all :
			      i < NR_WRITERS + NR_READERS ? read_all :
			      others[i - NR_WRITERS - NR_READERS], 0, seed * 1000003 + round * NR_THREADS + i);
	torture_end(ns);
	end_round();
}

int main(int argc, char **argv)
{
	static const char *const what[NR_COUNTS] = {
		"hits", "upgrades", "registered", "evicted by id", "moved", "checks",
	};
	u64 ns = (argc > 1 ? atoi(argv[1]) : 5) * NS_PER_SEC;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	const char *policy[MAX_POLICIES];
	u32 nr = nr_rounds(policy);

	for (u32 round = 0; round < nr; round++)
		run_round(round, seed, ns / nr);
	return torture_report("cache_torture", seed, NR_COUNTS, what);
}
