// SPDX-License-Identifier: Apache-2.0
/*
 * Names change while they are looked up. Own main(), exit code 0 if all is well.
 *
 * usage: name_threads [SECONDS [SEED]]
 *
 * Each changer has a block of its own, with names of its own, which it renames, adds and removes,
 * or takes back to private: a hit by one of these is that block. One more name goes from block to
 * block, by an added name and by a first one, and is a hit all the time. One block is renamed over
 * and over, and found by its name of now or its next one. Evictors take the memory that is left,
 * and others rename their blocks as soon as they are found. In the end a registry of prefixes knows
 * what the pool has.
 */
#include <kv/registry_radix.h>
#include <kvmm/ext/name.h>
#include <kvmm/kvmm.h>

#include "tests/support/torture.h"

#define NR_CHANGERS	2u
#define NR_BLOCKS	16u
#define NR_NAMES	8u	/* of each changer */
#define WANDERER	255u

#define EVICTED		100u	/* and on: names of what comes and goes */
#define NR_EVICTED	32u
#define HOME		200u	/* and the next: names of its two homes */
#define RUNNER		1000u	/* and on */

enum { LOOKS, HITS, CHANGES, PRIVATE, MOVES, RENAMES, SNATCHED, NR_COUNTS };

static struct kvmm_pool *pool;
static struct kvmm_registry *reg;
static kvmm_ref_t own[NR_CHANGERS];		/* the changer's */
static kvmm_ref_t home[2];			/* the mover's; the first one has the wanderer */
static u32 home_number[2];			/* likewise */
static u32 block_of[NR_CHANGERS];		/* fixed: no block moves */
static u32 homes[2];				/* likewise */
static kvmm_ref_t runner;			/* the one that is renamed */
static u32 runner_block, run = RUNNER;		/* @run: its name, or the one before */

/* Names of a changer differ in both halves. */
static kvmm_key_t key_of(u32 number)
{
	kvmm_key_t key = { { 0 } };

	key.byte[0] = number;
	key.byte[1] = number >> 8;
	key.byte[2] = number >> 16;
	key.byte[8] = number / NR_NAMES;
	key.byte[15] = number % 2;
	return key;
}

static struct kvmm_name name_of(u32 number)
{
	return (struct kvmm_name){ .key = key_of(number) };
}

static void must(int got, int want, const char *what)
{
	if (got != want)
		wrong(what);
}

static kvmm_ref_t new_block(u32 number, u32 *id)
{
	kvmm_key_t key = key_of(number);
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	must(kvmm_alloc(pool, 1, &mut), 0, "no block");
	*id = kvmm_block_of_mut(pool, mut);
	must(kvmm_register(pool, &mut, &key, 1, &ref), 0, "not registered");
	return ref;
}

static void look(void)
{
	u32 number = any(NR_CHANGERS * NR_NAMES);
	kvmm_key_t key = key_of(number);
	kvmm_ref_t ref;
	int block;

	done[LOOKS]++;
	if (kvmm_match(pool, &key, 1, &ref) == 1) {
		block = kvmm_block_of_ref(pool, ref);
		must(block, block_of[number / NR_NAMES], "another block's name");
		must(kvmm_put(pool, ref), 0, "not put");
		done[HITS]++;
	}
	/* Half of one name and half of the next one of that block. */
	key = key_of(number);
	key.byte[15] ^= 1;
	must(kvmm_match_len(pool, &key, 1), 0, "no block ever had that name");
	key = key_of(WANDERER);
	must(kvmm_match_len(pool, &key, 1), 1, "the name that moves was missed");
	if (kvmm_match(pool, &key, 1, &ref) != 1) {
		wrong("the name that moves was not found");
		return;
	}
	block = kvmm_block_of_ref(pool, ref);
	if (block != (int)homes[0] && block != (int)homes[1])
		wrong("the name that moves is elsewhere");
	must(kvmm_put(pool, ref), 0, "not put");
}

/* It has the name that was told last or one that follows, so one of those is found on the way. */
static void chase(void)
{
	u32 number = __atomic_load_n(&run, __ATOMIC_ACQUIRE), last;
	kvmm_ref_t ref;
	int found;

	do {
		kvmm_key_t key = key_of(number++);

		found = kvmm_match(pool, &key, 1, &ref);
		last = __atomic_load_n(&run, __ATOMIC_ACQUIRE) + 1;
	} while (!found && number <= last);
	if (found != 1) {
		wrong("the block was under no name for a moment");
		return;
	}
	must(kvmm_block_of_ref(pool, ref), runner_block, "another block's name");
	must(kvmm_put(pool, ref), 0, "not put");
}

static void rename_it(void)
{
	struct kvmm_name next = name_of(run + 1);

	must(kvmm_names_rename(pool, &next, &runner, 1), 0, "not renamed");
	__atomic_store_n(&run, run + 1, __ATOMIC_RELEASE);
	done[RENAMES]++;
}

/* To private and back, if no look-up has it. */
static void take_back(kvmm_ref_t *ref, u32 number)
{
	kvmm_key_t key = key_of(number);
	kvmm_mut_t mut;
	int err = kvmm_unpublish(pool, ref, 1, &mut);

	if (err == -EBUSY)
		return;
	must(err, 0, "not unpublished");
	must(kvmm_register(pool, &mut, &key, 1, ref), 0, "not registered again");
	done[PRIVATE]++;
}

static void change(void)
{
	u32 number = torturer * NR_NAMES + any(NR_NAMES);
	struct kvmm_name name = name_of(number);
	kvmm_ref_t *ref = &own[torturer];
	int err;

	/* What has lost all of its names gets none but by being taken back. */
	if (!any(8) || !kvmm_names_get(pool, *ref, NULL, 0)) {
		take_back(ref, number);
		return;
	}
	err = kvmm_names_change(pool, &name, ref, 1, any(KVMM_NR_NAME_OPS));
	if (err && err != -EEXIST && err != -ENOENT)
		wrong("names are not changed");
	done[CHANGES]++;
}

/*
 * The wanderer is an added name of its next home, or becomes the first one there, before it leaves
 * the one where it is; there the home's own name is the first one then.
 */
static void move(void)
{
	struct kvmm_name wanderer = name_of(WANDERER), name = name_of(home_number[1]);
	kvmm_ref_t from = home[0];
	u32 number = home_number[0];

	must(kvmm_names_add(pool, &wanderer, &home[1], 1), 0, "not added");
	if (any(2)) {
		must(kvmm_names_remove(pool, &name, &home[1], 1), 0, "own name not removed");
		must(kvmm_names_add(pool, &name, &home[1], 1), 0, "own name not added");
	}
	must(kvmm_names_remove(pool, &wanderer, &from, 1), 0, "not removed");
	home[0] = home[1];
	home[1] = from;
	home_number[0] = home_number[1];
	home_number[1] = number;
	done[MOVES]++;
}

static void evict(void)
{
	kvmm_mut_t mut[4];
	kvmm_ref_t ref[4];

	if (kvmm_alloc(pool, 4, mut))
		return;
	/* One by one: all names are those of first blocks, also to the registry. */
	for (u32 i = 0; i < 4; i++) {
		kvmm_key_t key = key_of(EVICTED + any(NR_EVICTED));

		must(kvmm_register(pool, &mut[i], &key, 1, &ref[i]), 0, "not registered");
	}
	must(kvmm_put_many(pool, ref, 4), 0, "not put");
}

/*
 * Another name for what was just published, and may not be known to the registry yet. It may be
 * forgotten by a second thread, while it gets that name.
 */
static void snatch(void)
{
	kvmm_key_t key = key_of(EVICTED + any(NR_EVICTED));
	struct kvmm_name name = name_of(EVICTED + any(NR_EVICTED));
	kvmm_ref_t ref;
	u32 block;
	int err;

	if (kvmm_match(pool, &key, 1, &ref) != 1)
		return;
	err = kvmm_names_change(pool, &name, &ref, 1,
				any(4) ? KVMM_NAME_RENAME : any(KVMM_NR_NAME_OPS));
	if (err && err != -EEXIST && err != -ENOENT && err != -ESTALE)
		wrong("a name is not changed");
	done[SNATCHED] += !err;
	block = kvmm_block_of_ref(pool, ref);
	if (!any(3) && kvmm_evict_blocks(pool, &block, 1) < 0)
		wrong("not forgotten");
	must(kvmm_put(pool, ref), 0, "not put");
}

static void compare(u32 first, u32 nr)
{
	for (u32 number = first; number < first + nr; number++) {
		kvmm_key_t key = key_of(number);
		struct kvmm_prefix one = { .keys = &key, .nr = 1 };
		uint16_t tiers = 0;

		if (kvmm_registry_presence(reg, &one, &tiers) < 0)
			wrong("the registry cannot be asked");
		must(tiers, kvmm_match_len(pool, &key, 1), "the registry is wrong");
	}
}

static void set_up(void)
{
	struct kvmm_registry_attr of = { .size = sizeof(of), .capacity = 256, .nr_tiers = 1 };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_name wanderer = name_of(WANDERER);

	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	must(kvmm_registry_create(&of, &reg), 0, "no registry");
	attr.registry = reg;
	must(kvmm_pool_create(&attr, &pool), 0, "no pool");
	for (u32 i = 0; i < NR_CHANGERS; i++)
		own[i] = new_block(i * NR_NAMES, &block_of[i]);
	for (u32 i = 0; i < 2; i++) {
		home_number[i] = HOME + i;
		home[i] = new_block(home_number[i], &homes[i]);
	}
	must(kvmm_names_add(pool, &wanderer, &home[0], 1), 0, "not added");
	runner = new_block(RUNNER, &runner_block);
}

int main(int argc, char **argv)
{
	static const char *const what[NR_COUNTS] = {
		"looks", "hits", "changes", "taken back", "moves", "renames", "snatched",
	};
	u64 ns = argc > 1 ? strtoull(argv[1], NULL, 0) * NS_PER_SEC : NS_PER_SEC / 4;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	set_up();
	for (u32 i = 0; i < NR_CHANGERS; i++)
		torture_start(change, 0, seed + i);
	torture_start(move, 0, seed + 10);
	torture_start(evict, 0, seed + 11);
	torture_start(look, 0, seed + 12);
	torture_start(look, 0, seed + 13);
	torture_start(rename_it, 0, seed + 14);
	torture_start(snatch, 0, seed + 16);
	torture_start(snatch, 0, seed + 17);
	torture_start(chase, 0, seed + 15);
	torture_end(ns);
	must(kvmm_validate(pool), 0, "the pool contradicts itself");
	must(kvmm_put_many(pool, own, NR_CHANGERS), 0, "not put");
	must(kvmm_put_many(pool, home, 2), 0, "not put");
	must(kvmm_put(pool, runner), 0, "not put");
	compare(0, 256);
	compare(RUNNER, run - RUNNER + 2);
	must(kvmm_reset_cache(pool) < 0, 0, "not emptied");
	compare(0, 256);
	compare(RUNNER, run - RUNNER + 2);
	must(kv_radix_check(reg), 0, "the registry contradicts itself");
	kvmm_pool_destroy(pool);
	kvmm_registry_destroy(reg);
	return torture_report("name_threads", seed, NR_COUNTS, what);
}
