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
#include <kv/env.h>
#include <kv/registry_map.h>

#include "research/research.h"
#include "tests/support/key.h"
#include "tests/support/torture.h"

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

/* What is in a block. Written by its owner before it is registered, then read under references. */
struct content {
	u32 name;
	u32 tenant;
	u64 birth;
	u64 birth_copy;
};

enum { HITS, UPGRADES, REGISTERED, EVICTED, RESIZED, NR_COUNTS };

static const struct kv_map_ops *ops;
static struct kv_entries entries;
static struct kv_map *map;
static struct content content[NR_BLOCKS];
static u64 next_birth;			/* atomic */
static __thread struct kv_handle weaks[NR_WEAK];

/* Handles that writers pass on: hints for others to upgrade, or to evict. Halves may not match. */
static u64 hint[NR_WEAK];		/* atomic */

/* ---- readers ---- */

/* The reference orders this: what the owner wrote before it published the block is visible. */
static void check_content(struct kv_handle ref, u32 name, u32 tenant)
{
	const struct content *block = &content[ref.index];
	u64 birth = block->birth;

	if (block->name != name || block->tenant != tenant)
		wrong("a block under another's name");
	if (block->birth_copy != birth)
		wrong("a block in the middle of a change");
	for (u32 i = any(50); i; i--)
		__asm__ volatile("");
	if (block->birth != birth)
		wrong("a block that changed while it was referenced");
}

static void drop(struct kv_handle ref)
{
	if (kv_handle_step(&entries, ref, kv_edge_put) < 0)
		wrong("a reference that could not be dropped");
}

static void match_prompt(void)
{
	u32 first = any(NR_NAMES - PROMPT), tenant = any(2), nr;
	struct kv_handle refs[PROMPT];
	struct kv_lookup lookup = { .refs = refs, .through = true };
	kvmm_key_t keys[PROMPT];
	struct kv_query query = { keys, PROMPT, { .tenant = tenant } };

	for (u32 i = 0; i < PROMPT; i++)
		keys[i] = key_of(first + i);
	nr = ops->lookup(map, &query, &lookup);
	done[HITS] += nr;
	for (u32 i = 0; i < PROMPT; i++) {
		if (!refs[i].gen)
			continue;
		check_content(refs[i], first + i, tenant);
		weaks[any(NR_WEAK)] = refs[i];
		drop(refs[i]);
	}
}

static void match_prefix(void)
{
	u32 first = any(NR_NAMES - PROMPT), nr;
	struct kv_handle refs[PROMPT];
	struct kv_lookup lookup = { .refs = refs };
	kvmm_key_t keys[PROMPT];
	struct kv_query query = { keys, PROMPT, { .tenant = 0 } };

	for (u32 i = 0; i < PROMPT; i++)
		keys[i] = key_of(first + i);
	kv_map_length(map, &query);
	nr = ops->lookup(map, &query, &lookup);
	for (u32 i = 0; i < nr; i++)
		check_content(refs[i], first + i, 0);
	while (nr--)
		drop(refs[nr]);
}

/* What a handle names never changes: the birth that was seen first is the birth for ever. */
static void upgrade_weak(void)
{
	struct kv_handle weak = weaks[any(NR_WEAK)];
	u64 birth;

	if (!weak.gen || kv_handle_step(&entries, weak, kv_edge_try_get) < 0)
		return;
	done[UPGRADES]++;
	birth = content[weak.index].birth;
	check_content(weak, content[weak.index].name, content[weak.index].tenant);
	if (kv_handle_step(&entries, weak, kv_edge_get) < 0)
		wrong("no second reference beside the first");
	drop(weak);
	if (content[weak.index].birth != birth)
		wrong("another block behind the same handle");
	drop(weak);
}

static void upgrade_hint(void)
{
	u64 both = READ_ONCE(hint[any(NR_WEAK)]);
	struct kv_handle handle = { (u32)both, (u32)(both >> 32) };

	if (both && kv_handle_step(&entries, handle, kv_edge_pin) >= 0) {
		check_content(handle, content[handle.index].name,
			      content[handle.index].tenant);
		if (kv_handle_step(&entries, handle, kv_edge_unpin) < 0)
			wrong("a pin that could not be undone");
	}
}

static void match_fixed(void)
{
	struct kv_handle refs[NR_FIXED];
	struct kv_lookup lookup = { .refs = refs };
	kvmm_key_t keys[NR_FIXED];
	struct kv_query query = { keys, NR_FIXED, { .tenant = 1 } };
	u32 nr;

	for (u32 i = 0; i < NR_FIXED; i++)
		keys[i] = key_of(NR_NAMES + i);
	if (kv_map_length(map, &query) != NR_FIXED)
		wrong("the length of a prompt that is there");
	nr = ops->lookup(map, &query, &lookup);
	if (nr != NR_FIXED)
		wrong("a block that is there and was not found");
	while (nr--)
		drop(refs[nr]);
}

static void read_all(void)
{
	static void (*const deed[])(void) = {
		match_prompt, match_prefix, match_fixed, upgrade_weak, upgrade_hint,
	};

	deed[any(ARRAY_SIZE(deed))]();
}

/* ---- writers ---- */

static void fill(struct kv_handle handle, u32 name, u32 tenant)
{
	u64 birth = kv_fetch_add(&next_birth, 1) + 1;

	content[handle.index] = (struct content){ name, tenant, birth, birth };
}

/* A PRIVATE block becomes a cached one; its place in the hints is what can be evicted. */
static void register_block(struct kv_handle handle)
{
	u32 number = any(NR_NAMES), tenant = any(2);
	struct kv_name name = { key_of(number), { .tenant = tenant }, KV_NONE, number };
	struct kv_handle found;
	struct kv_insert insert = {
		.handles = &handle, .nr = 1, .found = &found,
		.policy = any(4) ? KV_DUP_ALLOW : KV_DUP_REJECT,
	};

	fill(handle, number, tenant);
	if (kv_entry_stage(&entries, handle, &name, false) || ops->insert(map, &insert)) {
		wrong("a private block that could not be registered");
		return;
	}
	check_content(found, number, tenant);
	drop(found);
	if (found.index != handle.index) {
		kv_entry_free(&entries, handle);
		return;
	}
	done[REGISTERED]++;
	WRITE_ONCE(hint[any(NR_WEAK)], handle.index | (u64)handle.gen << 32);
}

/* Nobody may hold it, and whoever claims it is alone with it. */
static bool evict(u32 index)
{
	struct kv_handle handle = kv_handle_of(index, READ_ONCE(entries.entry[index].word)), fresh;
	u32 nr = 1;

	if (index < NR_FIXED || kv_handle_step(&entries, handle, kv_edge_claim))
		return false;
	if (!any(8))
		return !kv_handle_step(&entries, handle, kv_edge_unclaim);
	content[index].birth_copy = 0;
	content[index].birth = ~0ull;
	if (ops->remove(map, &handle, &nr)) {
		wrong("an evicted block that was not in the map");
		return false;
	}
	done[EVICTED]++;
	if (any(2) && !kv_entry_recycle(&entries, handle, &fresh))
		register_block(fresh);
	else
		kv_entry_free(&entries, handle);
	return true;
}

static void write_all(void)
{
	struct kv_handle handle;

	if (any(2) && !kv_entries_take(&entries, 1, &handle))
		register_block(handle);
	else
		evict(any(NR_BLOCKS));
}

/* ---- movers, resizing ---- */

static void resize_and_move(void)
{
	u32 index = any(NR_BLOCKS);
	struct kv_handle handle = kv_handle_of(index, READ_ONCE(entries.entry[index].word));

	if (!kv_handle_step(&entries, handle, kv_edge_move)) {
		WRITE_ONCE(entries.entry[index].place, any(NR_BLOCKS));
		if (kv_handle_step(&entries, handle, kv_edge_moved) < 0)
			wrong("a move that could not be ended");
	}
	if (any(20))
		return;
	if (ops->resize(map, 1 + any(2 * NR_BLOCKS), any_state))
		wrong("no memory");
	done[RESIZED]++;
}

/* ---- all together ---- */

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

static void check_and_end(void)
{
	u32 nr, count[KV_NR_ENTRY_STATES];

	kv_entries_count(&entries, count);
	if (kv_entries_check(&entries) || ops->check(map, &nr) || nr != count[KV_ENTRY_REGISTERED] ||
	    count[KV_ENTRY_PRIVATE] || count[KV_ENTRY_STAGED] || count[KV_ENTRY_EVICTING])
		wrong("checks failed");
	ops->destroy(map);
	kv_entries_exit(&entries);
}

static int torture(const struct kv_map_ops *which, u64 ns)
{
	static const char *const what[NR_COUNTS] = {
		"hits", "upgrades", "registered", "evicted", "resized",
	};
	u64 end = kv_clock_ns() + ns, nr_rounds = 0;

	ops = which;
	memset(all_done, 0, sizeof(all_done));
	do {
		make_map(++nr_rounds);
		for (u32 i = 0; i < NR_THREADS; i++)
			torture_start(i < NR_READERS ? read_all :
				      i < NR_READERS + NR_WRITERS ? write_all : resize_and_move,
				      NR_STEPS, nr_rounds * NR_THREADS + i);
		torture_end(0);
		check_and_end();
	} while (kv_clock_ns() < end);
	printf("%s, %llu rounds; ", ops->name, (unsigned long long)nr_rounds);
	return torture_report("registry_torture", 1, NR_COUNTS, what);
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
