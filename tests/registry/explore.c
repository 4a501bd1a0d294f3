// SPDX-License-Identifier: Apache-2.0
/*
 * Every life that a few blocks can have, breadth first, against a plain model.
 *
 * A state is a picture of all memory that the entries and a flat map have. From each state that has
 * not been seen, everything is done that could be done with any block, legal or not; the result, the
 * words of all entries, and what is found under each name must be what the model says, and a
 * refusal must leave every byte as it was.
 *
 * Two blocks with everything; three without pins and resets, and at most one reference: both to
 * the end.
 */
#include <kv/hash.h>
#include <kv/rcu.h>

#include "registry/flat.h"
#include "tests/support/test.h"

#include "explore.h"

#define MAX_STATES	(1u << 20)
#define MAX_BUCKETS	4u

struct limits {
	u32 nr_blocks;
	u32 max_refs;
	bool extras;		/* pins, resets */
};

struct picture {
	struct model model;
	struct kv_entry entry[MAX_BLOCKS];
	struct kv_entries entries;
	struct bucket bucket[MAX_BUCKETS];
	struct table table;
};

static struct limits limits;
static struct kv_entries entries;
static struct kv_map *map;

static struct picture *states;		/* in the order of discovery */
static u32 nr_states;
static u32 *seen;			/* hash table: state + 1 */
static u64 nr_deeds, nr_refused;

/* ---- pictures ---- */

static struct table *the_table(void)
{
	return flat_of(map)->table;
}

static void save(struct picture *picture, const struct model *model)
{
	memset(picture, 0, sizeof(*picture));
	picture->model = *model;
	memcpy(picture->entry, entries.entry, limits.nr_blocks * sizeof(struct kv_entry));
	picture->entries = entries;
	picture->table = *the_table();
	memcpy(picture->bucket, the_table()->bucket, flat_table_bytes(the_table()));
}

static void restore(const struct picture *picture)
{
	memcpy(entries.entry, picture->entry, limits.nr_blocks * sizeof(struct kv_entry));
	entries = picture->entries;
	*the_table() = picture->table;
	memcpy(the_table()->bucket, picture->bucket, flat_table_bytes(the_table()));
}

/* Generations and versions grow for ever: models tell states apart. */
static bool add_state(const struct model *model)
{
	u64 hash = 0;
	u32 at;

	for (size_t i = 0; i < sizeof(*model); i++)
		hash = kv_mul_fold(hash ^ ((const u8 *)model)[i] ^ 0x9e37, 0xa0761d6478bd642full);
	for (at = hash % (4 * MAX_STATES); seen[at]; at = (at + 1) % (4 * MAX_STATES))
		if (!memcmp(&states[seen[at] - 1].model, model, sizeof(*model)))
			return false;
	cr_assert_lt(nr_states, MAX_STATES);
	save(&states[nr_states], model);
	seen[at] = ++nr_states;
	return true;
}

/* ---- the code under test ---- */

static struct kv_handle handle_of(u8 block)
{
	return kv_handle_of(block, entries.entry[block].word);
}

static struct kv_name name_of(u8 name)
{
	struct kv_name made = { .domain.tenant = name / 2, .parent = KV_NONE };

	made.key.byte[0] = name % 2;
	return made;
}

static int code_find(u8 number)
{
	struct kv_name name = name_of(number);
	struct kv_query query = { &name.key, 1, name.domain };
	struct kv_handle ref;
	struct kv_lookup lookup = { .refs = &ref };

	return map->ops->lookup(map, &query, &lookup) ? (int)ref.index : -ENOENT;
}

static int code_length(u8 number)
{
	struct kv_name name = name_of(number);
	struct kv_query query = { &name.key, 1, name.domain };

	return kv_map_length(map, &query);
}

static int code_take(void)
{
	struct kv_handle handle;
	int err = kv_entries_take(&entries, 1, &handle);

	return err ? err : (int)handle.index;
}

static int code_insert(u8 block, u8 policy)
{
	struct kv_handle handle = handle_of(block), found;
	struct kv_insert insert = { .handles = &handle, .nr = 1, .policy = policy, .found = &found };

	return map->ops->insert(map, &insert);
}

static int code_remove(u8 block)
{
	struct kv_handle handle = handle_of(block);
	u32 nr = 1;

	return map->ops->remove(map, &handle, &nr);
}

static int code_step(struct op op)
{
	static const kv_edge edge[NR_DEEDS] = {
		[DEED_UNSTAGE]	= kv_edge_unstage,	[DEED_TRY_GET]	= kv_edge_try_get,
		[DEED_GET]	= kv_edge_get,		[DEED_PUT]	= kv_edge_put,
		[DEED_PIN]	= kv_edge_pin,		[DEED_UNPIN]	= kv_edge_unpin,
		[DEED_MOVE]	= kv_edge_move,	[DEED_MOVED]	= kv_edge_moved,
		[DEED_CLAIM]	= kv_edge_claim,	[DEED_UNCLAIM]	= kv_edge_unclaim,
		[DEED_HIDE]	= kv_edge_hide,	[DEED_PARK]	= kv_edge_park,
		[DEED_SET_RESET] = kv_edge_set_reset,
		[DEED_CLEAR_RESET] = kv_edge_clear_reset,
	};

	return kv_handle_step(&entries, handle_of(op.block), edge[op.deed]);
}

static int code_do(struct op op)
{
	struct kv_name name = name_of(op.arg);

	switch (op.deed) {
	case DEED_TAKE:
		return code_take();
	case DEED_FREE:
		return kv_entry_free(&entries, handle_of(op.block));
	case DEED_STAGE:
		return kv_entry_stage(&entries, handle_of(op.block), &name, false);
	case DEED_INSERT:
		return code_insert(op.block, op.arg);
	case DEED_FIND:
		return code_find(op.arg);
	case DEED_REMOVE:
		return code_remove(op.block);
	default:
		return code_step(op);
	}
}

/* ---- comparing ---- */

static u64 word_of(const struct model *model, u8 index)
{
	const struct block *block = &model->block[index];
	u64 flags = (block->moving ? KV_ENTRY_MOVING : 0) | (block->hidden ? KV_ENTRY_HIDDEN : 0) |
		    (block->reset ? KV_ENTRY_RESET : 0) | (block->parked ? KV_ENTRY_MARK : 0) |
		    (block->in_map && model_is_dup(model, index) ? KV_ENTRY_DUP : 0);

	return kv_word_make(kv_word_gen(entries.entry[index].word), block->state,
			    flags | block->pins * KV_ENTRY_PIN | block->refs);
}

/* Refused steps show no more than that: comparing all bytes is the caller's. */
static void expect_same(const struct model *model, struct op op)
{
	u32 nr;

	for (u8 i = 0; i < limits.nr_blocks; i++) {
		u64 word = entries.entry[i].word, mask = ~0ull;

		/* A duplicate that has left the map keeps the flag until it is freed. */
		if (model->block[i].state == KV_ENTRY_EVICTING && !model->block[i].in_map)
			mask = ~KV_ENTRY_DUP;
		cr_assert_eq(word & mask, word_of(model, i) & mask, "deed %u, block %u: %llx",
			     op.deed, i, (unsigned long long)word);
	}
	for (u8 name = 0; name < NR_NAMES; name++)
		cr_assert_eq(code_length(name), model_find(model, name) >= 0, "deed %u, name %u",
			     op.deed, name);
	cr_assert_eq(kv_entries_check(&entries), 0);
	cr_assert_eq(map->ops->check(map, &nr), 0);
	cr_assert_eq(nr, model->nr_order);
}

/* ---- exploring ---- */

static bool within_limits(const struct model *model)
{
	for (u8 i = 0; i < limits.nr_blocks; i++)
		if (model->block[i].refs > limits.max_refs)
			return false;
	return true;
}

/* A block that is in the map is not freed: that would be the evictor's own mistake. */
static bool makes_sense(const struct model *model, struct op op)
{
	const struct block *block = &model->block[op.block];

	if (op.deed == DEED_FREE || op.deed == DEED_PARK)
		return block->state != KV_ENTRY_EVICTING || !block->in_map;
	if (op.deed == DEED_UNCLAIM)
		return block->state != KV_ENTRY_EVICTING || block->in_map || block->parked;
	return limits.extras || (op.deed != DEED_PIN && op.deed != DEED_SET_RESET &&
				 op.deed != DEED_HIDE);
}

static void try_deed(u32 state, struct op op)
{
	struct model model = states[state].model;
	static struct picture after;
	int expected, result;

	if (!makes_sense(&model, op))
		return;
	expected = model_do(&model, op);
	if (!within_limits(&model))
		return;
	restore(&states[state]);
	result = code_do(op);
	cr_assert_eq(result, expected, "deed %u, block %u, arg %u: %d instead of %d", op.deed,
		     op.block, op.arg, result, expected);
	nr_deeds++;
	if (result < 0) {
		nr_refused++;
		save(&after, &states[state].model);
		/* Locks that were taken and given back count. */
		for (u32 i = 0; i < MAX_BUCKETS; i++)
			after.bucket[i].seq = states[state].bucket[i].seq;
		cr_assert(!memcmp(&after, &states[state], sizeof(after)), "deed %u", op.deed);
		return;
	}
	expect_same(&model, op);
	add_state(&model);
}

static u8 nr_args(u8 deed)
{
	if (deed == DEED_STAGE || deed == DEED_FIND)
		return NR_NAMES;
	return deed == DEED_INSERT ? KV_NR_DUP_POLICIES : 1;
}

static void try_everything(u32 state)
{
	for (u8 deed = 0; deed < NR_DEEDS; deed++) {
		bool for_all = deed == DEED_TAKE || deed == DEED_FIND;

		for (u8 block = 0; block < (for_all ? 1 : limits.nr_blocks); block++)
			for (u8 arg = 0; arg < nr_args(deed); arg++)
				try_deed(state, (struct op){ deed, block, arg });
	}
}

static void explore(struct limits within)
{
	struct kv_entries_attr attr = { .nr = within.nr_blocks, .gen_first = 1 };
	struct kv_map_attr map_attr = { &entries, within.nr_blocks, 1, false };
	struct model model = { .nr_free = (u8)within.nr_blocks };

	limits = within;
	nr_states = nr_deeds = nr_refused = 0;
	states = malloc((size_t)MAX_STATES * sizeof(*states));
	seen = calloc(4 * MAX_STATES, sizeof(*seen));
	cr_assert(states && seen);
	cr_assert_eq(kv_entries_init(&entries, &attr), 0);
	cr_assert_eq(kv_map_flat.create(&map_attr, &map), 0);
	cr_assert_leq(the_table()->nr_buckets, MAX_BUCKETS);
	for (u8 i = 0; i < within.nr_blocks; i++)
		model.free[i] = within.nr_blocks - 1 - i;
	add_state(&model);
	for (u32 state = 0; state < nr_states; state++)
		try_everything(state);
	printf("explore: %u blocks: %u states, %llu deeds, %llu of them refused\n",
	       within.nr_blocks, nr_states, (unsigned long long)nr_deeds,
	       (unsigned long long)nr_refused);
	restore(&states[0]);
	kv_map_flat.destroy(map);
	kv_entries_exit(&entries);
	free(states);
	free(seen);
}

Test(explore, two_blocks_with_everything)
{
	explore((struct limits){ .nr_blocks = 2, .max_refs = 2, .extras = true });
}

Test(explore, three_blocks_without_pins)
{
	explore((struct limits){ .nr_blocks = 3, .max_refs = 1 });
}
