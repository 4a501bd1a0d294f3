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
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kv/atomic.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/rcu.h>
#include <kv/stat.h>
#include <kvmm/kvmm.h>

#define NR_BLOCKS	96u
#define NR_NAMES	128u
#define NR_FIXED	6u		/* further names, of blocks that are always held */
#define PROMPT		12u
#define NS_PER_SEC	1000000000ull
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

struct worker {
	pthread_t thread;
	void (*live)(struct worker *worker);
	u64 random;
	kvmm_weak_t weak[NR_WEAK];
	u64 nr_hits, nr_upgrades, nr_registered, nr_forgotten, nr_moved, nr_checks;
	u64 nr_wrong;
};

static struct content memory[NR_BLOCKS];
static struct kvmm_pool *pool;
static kvmm_ref_t fixed[NR_FIXED];
static u32 fixed_block[NR_FIXED];
static u64 hint[NR_WEAK];		/* atomic; weak references that writers pass on */
static u64 next_birth;			/* atomic */
static u32 stop;			/* atomic */

static u32 any(struct worker *worker, u32 below)
{
	worker->random = worker->random * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)((worker->random >> 33) % below);
}

#define expect(holds)								\
	do {									\
		if (!(holds) && !worker->nr_wrong++)				\
			fprintf(stderr, "cache_torture: line %d: %s\n", __LINE__, #holds);	\
	} while (0)

static kvmm_key_t key_of(u32 name)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte + 3, &name, sizeof(name));
	return key;
}

/* Consecutive names of one tenant. */
struct prompt {
	u32 first;
	u32 tenant;
	u32 nr;
	kvmm_key_t key[PROMPT];
	struct kvmm_prefix prefix;
};

static void fill_prompt(struct worker *worker, struct prompt *prompt)
{
	prompt->nr = 1 + any(worker, PROMPT);
	prompt->first = any(worker, NR_NAMES / PROMPT) * PROMPT;
	prompt->tenant = any(worker, 2);
	for (u32 i = 0; i < prompt->nr; i++)
		prompt->key[i] = key_of(prompt->first + i);
	prompt->prefix = (struct kvmm_prefix){ prompt->key, prompt->nr, 0, NULL,
					       { .tenant = prompt->tenant } };
}

/* ---- content ---- */

static void fill_block(struct worker *worker, u32 block, u32 name, u32 tenant)
{
	u64 birth = kv_fetch_add(&next_birth, 1) + 1;
	struct content content = { name, tenant, birth, birth };

	if (any(worker, 8))
		memory[block] = content;
	else
		expect(!kvmm_block_write(pool, block, 0, &content, sizeof(content)));
}

/* The caller holds a reference on it. */
static struct content read_block(struct worker *worker, kvmm_ref_t ref)
{
	struct content content = { 0 };
	int block = kvmm_block_of_ref(pool, ref);

	expect(block >= 0 && block < (int)NR_BLOCKS);
	if (block < 0)
		return content;
	if (any(worker, 8))
		return memory[block];
	expect(!kvmm_block_read(pool, block, 0, &content, sizeof(content)));
	return content;
}

static void check_block(struct worker *worker, kvmm_ref_t ref, u32 name, u32 tenant)
{
	struct content content = read_block(worker, ref), again;

	expect(content.name == name && content.tenant == tenant);
	expect(content.birth && content.birth == content.birth_copy);
	for (u32 i = any(worker, 40); i; i--)
		__asm__ volatile("");
	again = read_block(worker, ref);
	expect(!memcmp(&content, &again, sizeof(content)));
}

static void put(struct worker *worker, const kvmm_ref_t *refs, u32 nr)
{
	expect(!kvmm_put_many(pool, refs, nr));
}

/* ---- readers ---- */

static void match(struct worker *worker)
{
	struct prompt prompt;
	kvmm_ref_t refs[PROMPT];
	int nr;

	fill_prompt(worker, &prompt);
	nr = kvmm_prefix_match(pool, &prompt.prefix, refs);
	expect(nr >= 0 && nr <= (int)prompt.nr);
	if (nr < 0)
		return;
	worker->nr_hits += nr;
	for (int i = 0; i < nr; i++) {
		check_block(worker, refs[i], prompt.first + i, prompt.tenant);
		worker->weak[any(worker, NR_WEAK)] = kvmm_weak_of(refs[i]);
	}
	put(worker, refs, nr);
}

static void scan(struct worker *worker)
{
	struct prompt prompt;
	kvmm_ref_t refs[PROMPT];
	u32 nr_found = 0;
	int nr;

	fill_prompt(worker, &prompt);
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
		check_block(worker, refs[i], name, prompt.tenant);
		nr_found++;
		put(worker, &refs[i], 1);
	}
	expect(nr == (int)nr_found);
}

static void look(struct worker *worker)
{
	struct prompt prompt;
	u64 present;
	int nr;

	fill_prompt(worker, &prompt);
	nr = kvmm_prefix_len(pool, &prompt.prefix);
	expect(nr >= 0 && nr <= (int)prompt.nr);
	nr = kvmm_prefix_probe(pool, &prompt.prefix, &present);
	expect(nr == __builtin_popcountll(present) && present < 1ull << prompt.nr);
}

/* Everything that a holder may do. */
static void use(struct worker *worker, kvmm_ref_t ref)
{
	int err;

	switch (any(worker, 5)) {
	case 0:
		expect(!kvmm_touch_many(pool, &ref, 1));
		break;
	case 1:
		expect(!kvmm_get_many(pool, &ref, 1));
		put(worker, &ref, 1);
		break;
	case 2:
		err = kvmm_pin_many(pool, &ref, 1);
		expect(!err || err == -EBUSY);
		if (!err)
			expect(!kvmm_unpin_many(pool, &ref, 1));
		break;
	case 3:
		expect(!kvmm_set_reset(pool, &ref, 1, any(worker, 2)));
		break;
	default:
		err = kvmm_hint(pool, &ref, &worker->random, 1);
		expect(!err || err == -EOPNOTSUPP);
	}
}

/* What a handle names never changes: the content that was seen first is the content for ever. */
static void upgrade(struct worker *worker)
{
	u64 both = READ_ONCE(hint[any(worker, NR_WEAK)]);
	kvmm_weak_t weak[3] = { worker->weak[any(worker, NR_WEAK)],
				{ (u32)both, both >> 32 }, { NR_BLOCKS, 1 } };
	kvmm_ref_t refs[3];
	int nr = kvmm_upgrade_many(pool, weak, 3, refs);

	expect(nr >= 0 && nr <= 2 && !refs[2].gen);
	for (u32 i = 0; i < 2 && nr >= 0; i++) {
		struct content before, after;

		if (!refs[i].gen)
			continue;
		worker->nr_upgrades++;
		before = read_block(worker, refs[i]);
		use(worker, refs[i]);
		after = read_block(worker, refs[i]);
		expect(!memcmp(&before, &after, sizeof(before)));
		expect(before.birth == before.birth_copy);
		put(worker, &refs[i], 1);
	}
}

static void find_fixed(struct worker *worker)
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
	put(worker, refs, NR_FIXED);
}

static void read_all(struct worker *worker)
{
	static void (*const deed[])(struct worker *) = {
		match, match, scan, look, upgrade, upgrade, find_fixed,
	};

	deed[any(worker, ARRAY_SIZE(deed))](worker);
}

/* ---- writers ---- */

static void fill_fresh(struct worker *worker, const kvmm_mut_t *fresh, u32 nr, u32 name, u32 tenant)
{
	for (u32 i = 0; i < nr; i++)
		fill_block(worker, kvmm_block_of_mut(pool, fresh[i]), name + i, tenant);
}

/* Named, but never published. True: @fresh is private again. */
static bool stage_and_regret(struct worker *worker, const struct kvmm_prefix *prefix,
			     kvmm_mut_t *fresh)
{
	kvmm_staged_t staged[PROMPT];

	expect(!kvmm_stage(pool, prefix, fresh, staged));
	if (any(worker, 2)) {
		expect(!kvmm_unstage(pool, staged, prefix->nr, fresh));
		return true;
	}
	expect(!kv_free_staged(pool, staged, prefix->nr));
	return false;
}

static void publish(struct worker *worker, const struct kvmm_prefix *prefix,
		    const kvmm_mut_t *fresh, kvmm_ref_t *refs)
{
	union { kvmm_staged_t staged[PROMPT]; kvmm_ref_t refs[PROMPT]; } u;
	struct kvmm_publish_args req = { .staged = u.staged, .nr = prefix->nr, .refs = u.refs,
					 .dup = any(worker, KVMM_NR_DUPS) };

	expect(!kvmm_stage(pool, prefix, fresh, u.staged));
	expect(!kvmm_publish(pool, &req));
	expect(req.nr_dups <= req.nr);
	memcpy(refs, u.refs, prefix->nr * sizeof(*refs));
}

/* Blocks for what is missing get content and names. Returns how many of @refs are held then. */
static u32 name_rest(struct worker *worker, const struct prompt *prompt,
		     struct kvmm_acquire_args *req, kvmm_ref_t *refs)
{
	struct kvmm_prefix rest = prompt->prefix;

	rest.keys += req->nr_hits;
	rest.nr -= req->nr_hits;
	rest.position = req->nr_hits;
	rest.parent = req->nr_hits ? &prompt->key[req->nr_hits - 1] : NULL;
	fill_fresh(worker, req->fresh, req->nr_fresh, prompt->first + req->nr_hits,
		   prompt->tenant);
	if (rest.nr && !any(worker, 4) && !stage_and_regret(worker, &rest, req->fresh))
		return req->nr_hits;
	if (any(worker, 2))
		publish(worker, &rest, req->fresh, refs + req->nr_hits);
	else
		expect(!kvmm_prefix_register(pool, &rest, req->fresh, refs + req->nr_hits));
	worker->nr_registered += rest.nr;
	return prompt->nr;
}

static void run_prompt(struct worker *worker)
{
	struct prompt prompt;
	kvmm_ref_t refs[PROMPT];
	kvmm_mut_t fresh[PROMPT];
	struct kvmm_acquire_args req = { .max_hits = any(worker, 2) ? PROMPT : 2, .hits = refs,
					 .fresh = fresh, .reserve = any(worker, 3) };
	u32 nr;
	int err;

	fill_prompt(worker, &prompt);
	req.keys = prompt.key;
	req.nr_keys = req.nr_blocks = prompt.nr;
	req.domain = prompt.prefix.domain;
	err = kvmm_acquire(pool, &req);
	expect(!err || err == -ENOSPC);
	if (err)
		return;
	nr = name_rest(worker, &prompt, &req, refs);
	for (u32 i = 0; i < nr; i++)
		check_block(worker, refs[i], prompt.first + i, prompt.tenant);
	if (nr)
		WRITE_ONCE(hint[any(worker, NR_WEAK)], refs[0].index | (u64)refs[nr - 1].gen << 32);
	put(worker, refs, nr);
}

static void take_and_free(struct worker *worker)
{
	kvmm_mut_t mut[PROMPT];
	u32 nr = any(worker, PROMPT);
	int err = kvmm_alloc_for(pool, nr, any(worker, 2), mut);

	expect(!err || err == -ENOSPC);
	if (err)
		return;
	fill_fresh(worker, mut, nr, NR_NAMES * 2, 9);
	expect(!kvmm_free(pool, mut, nr));
}

/* Ranges evict, too, and move what is cached. */
static void take_range(struct worker *worker)
{
	kvmm_range_t range;
	int err = kvmm_range_alloc(pool, 1 + any(worker, 24), KVMM_RUNS(1 + any(worker, 2)),
				   &range);

	expect(!err || err == -ENOSPC);
	if (!err)
		expect(!kvmm_range_free(pool, range));
}

static void write_all(struct worker *worker)
{
	u32 i = any(worker, 16);

	if (i < 13)
		run_prompt(worker);
	else if (i < 15)
		take_and_free(worker);
	else
		take_range(worker);
}

/* ---- one each ---- */

static void compact(struct worker *worker)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = any(worker, 32),
				     .max_blocks = any(worker, 2) * 8 };
	int err = kvmm_pool_compact(pool, &goal);

	expect(!err || err == -ENOSPC || err == -EAGAIN);
	worker->nr_moved += goal.moved;
}

static bool is_fixed(u32 block)
{
	for (u32 i = 0; i < NR_FIXED; i++)
		if (fixed_block[i] == block)
			return true;
	return false;
}

static void evict_by_id(struct worker *worker)
{
	u32 blocks[4], nr = 0;
	int ret;

	for (u32 i = 0; i < 4; i++) {
		u32 block = any(worker, NR_BLOCKS);

		if (!is_fixed(block))
			blocks[nr++] = block;
	}
	ret = kvmm_evict_blocks(pool, blocks, nr);
	expect(ret >= 0 && ret <= (int)nr);
	worker->nr_forgotten += ret;
}

static void validate(struct worker *worker)
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
	worker->nr_checks++;
}

static void sleep_ns(u64 ns)
{
	struct timespec time = { .tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC };

	nanosleep(&time, NULL);
}

static void reset(struct worker *worker)
{
	/* Somebody holds the fixed ones. */
	expect(kvmm_reset_cache(pool) == -EBUSY);
	if (!any(worker, 4))
		expect(kvmm_reset_inactive(pool) >= 0);
	sleep_ns(NS_PER_SEC / 3000);
}

/* ---- all together ---- */

static void *run(void *arg)
{
	struct worker *worker = arg;

	while (!READ_ONCE(stop))
		worker->live(worker);
	return NULL;
}

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
static void end_round(struct worker *worker)
{
	struct kvmm_pool_stat stat;

	for (u32 i = 0; i < NR_FIXED; i++)
		check_block(worker, fixed[i], NR_NAMES + i, 0);
	put(worker, fixed, NR_FIXED);
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

static void run_round(struct worker *workers, u32 round, u64 ns)
{
	static void (*const others[])(struct worker *) = { compact, evict_by_id, validate, reset };
	struct worker *worker = &workers[0];
	kvmm_mut_t mut[NR_FIXED];
	kvmm_key_t key[NR_FIXED];

	if (make_pool(round))
		exit(EXIT_FAILURE);
	expect(!kvmm_alloc(pool, NR_FIXED, mut));
	for (u32 i = 0; i < NR_FIXED; i++)
		key[i] = key_of(NR_NAMES + i);
	fill_fresh(worker, mut, NR_FIXED, NR_NAMES, 0);
	expect(!kvmm_register(pool, mut, key, NR_FIXED, fixed));
	expect(!kvmm_blocks_of_refs(pool, fixed, NR_FIXED, fixed_block));
	memset(hint, 0, sizeof(hint));
	WRITE_ONCE(stop, 0);
	for (u32 i = 0; i < NR_THREADS; i++) {
		memset(workers[i].weak, 0, sizeof(workers[i].weak));
		workers[i].live = i < NR_WRITERS ? write_all :
				  i < NR_WRITERS + NR_READERS ? read_all :
				  others[i - NR_WRITERS - NR_READERS];
		if (pthread_create(&workers[i].thread, NULL, run, &workers[i]))
			exit(EXIT_FAILURE);
	}
	sleep_ns(ns);
	WRITE_ONCE(stop, 1);
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	end_round(worker);
}

static int report(const struct worker *workers, u64 seed)
{
	struct worker sum = { 0 };

	for (u32 i = 0; i < NR_THREADS; i++) {
		sum.nr_hits += workers[i].nr_hits;
		sum.nr_upgrades += workers[i].nr_upgrades;
		sum.nr_registered += workers[i].nr_registered;
		sum.nr_forgotten += workers[i].nr_forgotten;
		sum.nr_moved += workers[i].nr_moved;
		sum.nr_checks += workers[i].nr_checks;
		sum.nr_wrong += workers[i].nr_wrong;
	}
	printf("cache_torture: seed %llu, %llu hits, %llu upgrades, %llu registered, "
	       "%llu evicted by id, %llu moved, %llu checks, %llu wrong\n",
	       (unsigned long long)seed, (unsigned long long)sum.nr_hits,
	       (unsigned long long)sum.nr_upgrades, (unsigned long long)sum.nr_registered,
	       (unsigned long long)sum.nr_forgotten, (unsigned long long)sum.nr_moved,
	       (unsigned long long)sum.nr_checks, (unsigned long long)sum.nr_wrong);
	kv_rcu_barrier();
	/* A run in which nothing happens proves nothing. */
	return sum.nr_wrong || kv_mem_bytes() || kv_stat_sum(KV_EV_BUG) || !sum.nr_hits ||
	       !sum.nr_upgrades || !sum.nr_registered || !sum.nr_forgotten || !sum.nr_moved ||
	       !sum.nr_checks;
}

int main(int argc, char **argv)
{
	u64 ns = (argc > 1 ? atoi(argv[1]) : 5) * NS_PER_SEC;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	struct worker workers[NR_THREADS] = { 0 };
	const char *policy[MAX_POLICIES];
	u32 nr = nr_rounds(policy);

	for (u32 i = 0; i < NR_THREADS; i++)
		workers[i].random = seed * 1000003 + i;
	for (u32 round = 0; round < nr; round++)
		run_round(workers, round, ns / nr);
	return report(workers, seed);
}
