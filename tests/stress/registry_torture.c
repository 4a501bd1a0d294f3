// SPDX-License-Identifier: Apache-2.0
/*
 * Readers and writers of a map, after each other's blood: own main(), exit code 0 if all is well.
 *
 * usage: registry_torture [flat|lfht] [SECONDS]
 *
 * Each block has content that says what it should be: name and the birth that it got when it was
 * registered. Writers register, evict, resurrect and recycle blocks, and one resizes the table all
 * the time. Readers match prompts and upgrade weak handles, and while they hold a reference they
 * compare the content with the name they asked for, and find it unchanged later on: a block that
 * was recycled under a reader, or found under a former name, is caught by both. Content is not
 * atomic on purpose: ThreadSanitizer has to find that a block changes hands only with an order.
 *
 * Some blocks are never evicted: whoever looks for one must find it, whatever else goes on in its
 * bucket and wherever its bucket is just being moved.
 *
 * The table is small and its entries few, so that everything is reused at once, and entries run
 * out of generations and are retired: tables are made anew then.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/atomic.h>
#include <kv/env.h>
#include <kv/mem.h>
#include <kv/rcu.h>
#include <kv/registry_map.h>
#include <kv/stat.h>

#include "research/research.h"

#define NR_READERS	2u
#define NR_WRITERS	2u
#define NR_THREADS	(NR_READERS + NR_WRITERS + 1)
#define NR_BLOCKS	192u
#define NR_NAMES	120u
#define NR_FIXED	16u		/* further names, of blocks that nobody evicts */
#define NR_WEAK		64u
#define NR_GENS		24u
#define PROMPT		24u
#define NR_STEPS	4000u		/* of one thread's life */
#define NS_PER_SEC	1000000000ull

/* What is in a block. Written by its owner before it is registered, then read under references. */
struct content {
	u32 name;
	u32 tenant;
	u64 birth;
	u64 birth_copy;
};

struct worker {
	pthread_t thread;
	void (*live)(struct worker *worker);
	u64 seed;
	struct kv_handle weak[NR_WEAK];
	u64 nr_hits;
	u64 nr_upgrades;
	u64 nr_registered;
	u64 nr_evicted;
	u64 nr_resized;
	u64 nr_wrong;
};

static const struct kv_map_ops *ops;
static struct kv_entries entries;
static struct kv_map *map;
static struct content content[NR_BLOCKS];
static u64 next_birth;			/* atomic */

/* Handles that writers pass on: hints for others to upgrade, or to evict. Halves may not match. */
static u64 hint[NR_WEAK];		/* atomic */

static u32 dice(struct worker *worker, u32 limit)
{
	worker->seed = worker->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)((worker->seed >> 33) % limit);
}

static kvmm_key_t key_of(u32 name)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte + 4, &name, sizeof(name));
	return key;
}

static void wrong(struct worker *worker, const char *what)
{
	if (!worker->nr_wrong++)
		fprintf(stderr, "registry_torture: %s\n", what);
}

/* ---- readers ---- */

/* The reference orders this: what the owner wrote before it published the block is visible. */
static void check_content(struct worker *worker, struct kv_handle ref, u32 name, u32 tenant)
{
	const struct content *block = &content[ref.index];
	u64 birth = block->birth;

	if (block->name != name || block->tenant != tenant)
		wrong(worker, "a block under another's name");
	if (block->birth_copy != birth)
		wrong(worker, "a block in the middle of a change");
	for (u32 i = dice(worker, 50); i; i--)
		__asm__ volatile("");
	if (block->birth != birth)
		wrong(worker, "a block that changed while it was referenced");
}

static void drop(struct worker *worker, struct kv_handle ref)
{
	if (kv_entry_put(&entries, ref) < 0)
		wrong(worker, "a reference that could not be dropped");
}

static void match_prompt(struct worker *worker)
{
	u32 first = dice(worker, NR_NAMES - PROMPT), tenant = dice(worker, 2), nr, nr_first;
	struct kv_handle refs[PROMPT];
	kvmm_key_t keys[PROMPT];
	struct kv_query query = { keys, PROMPT, { .tenant = tenant } };

	for (u32 i = 0; i < PROMPT; i++)
		keys[i] = key_of(first + i);
	nr = ops->scan(map, &query, refs, &nr_first);
	worker->nr_hits += nr;
	for (u32 i = 0; i < PROMPT; i++) {
		if (!refs[i].gen)
			continue;
		check_content(worker, refs[i], first + i, tenant);
		worker->weak[dice(worker, NR_WEAK)] = refs[i];
		drop(worker, refs[i]);
	}
}

static void match_prefix(struct worker *worker)
{
	u32 first = dice(worker, NR_NAMES - PROMPT), nr, nr_first;
	struct kv_handle refs[PROMPT];
	kvmm_key_t keys[PROMPT];
	struct kv_query query = { keys, PROMPT, { .tenant = 0 } };

	for (u32 i = 0; i < PROMPT; i++)
		keys[i] = key_of(first + i);
	ops->length(map, &query);
	nr = ops->match(map, &query, refs, &nr_first);
	for (u32 i = 0; i < nr; i++)
		check_content(worker, refs[i], first + i, 0);
	while (nr--)
		drop(worker, refs[nr]);
}

/* What a handle names never changes: the birth that was seen first is the birth for ever. */
static void upgrade_weak(struct worker *worker)
{
	struct kv_handle weak = worker->weak[dice(worker, NR_WEAK)];
	u64 birth;

	if (!weak.gen || kv_entry_try_get(&entries, weak) < 0)
		return;
	worker->nr_upgrades++;
	birth = content[weak.index].birth;
	check_content(worker, weak, content[weak.index].name, content[weak.index].tenant);
	if (kv_entry_get(&entries, weak) < 0)
		wrong(worker, "no second reference beside the first");
	drop(worker, weak);
	if (content[weak.index].birth != birth)
		wrong(worker, "another block behind the same handle");
	drop(worker, weak);
}

static void upgrade_hint(struct worker *worker)
{
	u64 both = READ_ONCE(hint[dice(worker, NR_WEAK)]);
	struct kv_handle handle = { (u32)both, (u32)(both >> 32) };

	if (both && kv_entry_pin(&entries, handle) >= 0) {
		check_content(worker, handle, content[handle.index].name,
			      content[handle.index].tenant);
		if (kv_entry_unpin(&entries, handle) < 0)
			wrong(worker, "a pin that could not be undone");
	}
}

static void match_fixed(struct worker *worker)
{
	u32 nr_first, nr;
	struct kv_handle refs[NR_FIXED];
	kvmm_key_t keys[NR_FIXED];
	struct kv_query query = { keys, NR_FIXED, { .tenant = 1 } };

	for (u32 i = 0; i < NR_FIXED; i++)
		keys[i] = key_of(NR_NAMES + i);
	if (ops->length(map, &query) != NR_FIXED)
		wrong(worker, "the length of a prompt that is there");
	nr = ops->match(map, &query, refs, &nr_first);
	if (nr != NR_FIXED)
		wrong(worker, "a block that is there and was not found");
	while (nr--)
		drop(worker, refs[nr]);
}

static void read_all(struct worker *worker)
{
	static void (*const deed[])(struct worker *) = {
		match_prompt, match_prefix, match_fixed, upgrade_weak, upgrade_hint,
	};

	deed[dice(worker, ARRAY_SIZE(deed))](worker);
}

/* ---- writers ---- */

static void fill(struct kv_handle handle, u32 name, u32 tenant)
{
	u64 birth = kv_fetch_add(&next_birth, 1) + 1;

	content[handle.index] = (struct content){ name, tenant, birth, birth };
}

/* A PRIVATE block becomes a cached one; its place in the hints is what can be evicted. */
static void register_block(struct worker *worker, struct kv_handle handle)
{
	u32 number = dice(worker, NR_NAMES), tenant = dice(worker, 2);
	struct kv_name name = { key_of(number), { .tenant = tenant }, KV_NONE, number };
	struct kv_handle found;
	struct kv_insert insert = {
		.handles = &handle, .nr = 1, .found = &found,
		.policy = dice(worker, 4) ? KV_DUP_ALLOW : KV_DUP_REJECT,
	};

	fill(handle, number, tenant);
	if (kv_entry_stage(&entries, handle, &name, false) || ops->insert(map, &insert)) {
		wrong(worker, "a private block that could not be registered");
		return;
	}
	check_content(worker, found, number, tenant);
	drop(worker, found);
	if (found.index != handle.index) {
		kv_entry_free(&entries, handle);
		return;
	}
	worker->nr_registered++;
	WRITE_ONCE(hint[dice(worker, NR_WEAK)], handle.index | (u64)handle.gen << 32);
}

/* Nobody may hold it, and whoever claims it is alone with it. */
static bool evict(struct worker *worker, u32 index)
{
	struct kv_handle handle = kv_handle_of(index, READ_ONCE(entries.entry[index].word)), fresh;
	u32 nr = 1;

	if (index < NR_FIXED || kv_entry_claim(&entries, handle))
		return false;
	if (!dice(worker, 8))
		return !kv_entry_unclaim(&entries, handle);
	content[index].birth_copy = 0;
	content[index].birth = ~0ull;
	if (ops->remove(map, &handle, &nr)) {
		wrong(worker, "an evicted block that was not in the map");
		return false;
	}
	worker->nr_evicted++;
	if (dice(worker, 2) && !kv_entry_recycle(&entries, handle, &fresh))
		register_block(worker, fresh);
	else
		kv_entry_free(&entries, handle);
	return true;
}

static void write_all(struct worker *worker)
{
	struct kv_handle handle;

	if (dice(worker, 2) && !kv_entries_take(&entries, 1, &handle))
		register_block(worker, handle);
	else
		evict(worker, dice(worker, NR_BLOCKS));
}

/* ---- movers, resizing ---- */

static void resize_and_move(struct worker *worker)
{
	u32 index = dice(worker, NR_BLOCKS);
	struct kv_handle handle = kv_handle_of(index, READ_ONCE(entries.entry[index].word));

	if (!kv_entry_move(&entries, handle)) {
		WRITE_ONCE(entries.entry[index].place, dice(worker, NR_BLOCKS));
		if (kv_entry_moved(&entries, handle) < 0)
			wrong(worker, "a move that could not be ended");
	}
	if (dice(worker, 20))
		return;
	if (ops->resize(map, 1 + dice(worker, 2 * NR_BLOCKS), worker->seed))
		wrong(worker, "no memory");
	worker->nr_resized++;
}

/* ---- all together ---- */

static void *run(void *arg)
{
	struct worker *worker = arg;

	for (u32 i = 0; i < NR_STEPS; i++)
		worker->live(worker);
	return NULL;
}

/* The first entries that are taken are the first ones of the table. */
static void register_fixed(void)
{
	struct kv_handle handles[NR_FIXED], found[NR_FIXED];
	struct kv_insert insert = { .handles = handles, .nr = NR_FIXED, .found = found };

	if (kv_entries_take(&entries, NR_FIXED, handles))
		exit(EXIT_FAILURE);
	for (u32 i = 0; i < NR_FIXED; i++) {
		struct kv_name name = { key_of(NR_NAMES + i), { .tenant = 1 }, KV_NONE, i };

		fill(handles[i], NR_NAMES + i, 1);
		kv_entry_stage(&entries, handles[i], &name, false);
	}
	if (handles[NR_FIXED - 1].index != NR_FIXED - 1 || ops->insert(map, &insert))
		exit(EXIT_FAILURE);
}

static void make_map(u64 seed)
{
	struct kv_entries_attr attr = {
		.nr = NR_BLOCKS, .gen_first = KV_ENTRY_GEN_MASK - NR_GENS / 2, .nr_gens = NR_GENS,
	};
	struct kv_map_attr map_attr = { &entries, NR_BLOCKS / 2, seed, false };

	if (kv_entries_init(&entries, &attr) || ops->create(&map_attr, &map))
		exit(EXIT_FAILURE);
	memset(hint, 0, sizeof(hint));
	register_fixed();
}

static u64 check_and_end(void)
{
	u32 nr, count[KV_NR_ENTRY_STATES];
	u64 bad;

	kv_entries_count(&entries, count);
	bad = (kv_entries_check(&entries) != 0) + (ops->check(map, &nr) != 0) +
	      (nr != count[KV_ENTRY_REGISTERED]) + (count[KV_ENTRY_PRIVATE] != 0) +
	      (count[KV_ENTRY_STAGED] != 0) + (count[KV_ENTRY_EVICTING] != 0);
	if (bad)
		fprintf(stderr, "registry_torture: checks failed\n");
	ops->destroy(map);
	kv_entries_exit(&entries);
	return bad;
}

static u64 run_round(struct worker *workers)
{
	for (u32 i = 0; i < NR_THREADS; i++) {
		struct worker *worker = &workers[i];

		memset(worker->weak, 0, sizeof(worker->weak));
		worker->live = i < NR_READERS ? read_all :
			       i < NR_READERS + NR_WRITERS ? write_all : resize_and_move;
		if (pthread_create(&worker->thread, NULL, run, worker))
			exit(EXIT_FAILURE);
	}
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	return check_and_end();
}

static int report(const struct worker *workers, u64 nr_rounds, u64 bad)
{
	struct worker sum = { 0 };

	for (u32 i = 0; i < NR_THREADS; i++) {
		sum.nr_hits += workers[i].nr_hits;
		sum.nr_upgrades += workers[i].nr_upgrades;
		sum.nr_registered += workers[i].nr_registered;
		sum.nr_evicted += workers[i].nr_evicted;
		sum.nr_resized += workers[i].nr_resized;
		sum.nr_wrong += workers[i].nr_wrong;
	}
	printf("registry_torture %s: %llu rounds, %llu hits, %llu upgrades, %llu registered, "
	       "%llu evicted, %llu resized, %llu wrong\n", ops->name,
	       (unsigned long long)nr_rounds, (unsigned long long)sum.nr_hits,
	       (unsigned long long)sum.nr_upgrades, (unsigned long long)sum.nr_registered,
	       (unsigned long long)sum.nr_evicted, (unsigned long long)sum.nr_resized,
	       (unsigned long long)sum.nr_wrong);
	kv_rcu_barrier();
	/* A round in which nothing happens proves nothing. */
	return bad || sum.nr_wrong || kv_mem_bytes() || kv_stat_sum(KV_EV_BUG) ||
	       !sum.nr_hits || !sum.nr_upgrades || !sum.nr_evicted || !sum.nr_resized;
}

static int torture(const struct kv_map_ops *which, u64 ns)
{
	u64 end = kv_clock_ns() + ns, nr_rounds = 0, bad = 0;
	struct worker workers[NR_THREADS] = { 0 };

	ops = which;
	for (u32 i = 0; i < NR_THREADS; i++)
		workers[i].seed = i + 1;
	do {
		make_map(++nr_rounds);
		bad += run_round(workers);
	} while (kv_clock_ns() < end);
	return report(workers, nr_rounds, bad);
}

int main(int argc, char **argv)
{
	u64 ns = (argc > 2 ? atoi(argv[2]) : 2) * NS_PER_SEC;
	int bad = 0;

	if (argc < 2 || !strcmp(argv[1], "flat"))
		bad |= torture(&kv_map_flat, ns);
	if (argc < 2 || !strcmp(argv[1], "lfht"))
		bad |= torture(&kv_map_lfht, ns);
	return bad;
}
