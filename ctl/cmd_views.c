// SPDX-License-Identifier: Apache-2.0
/*
 * Views of memory: the map of a pool, parts of it by owner, prefixes.
 *
 * The map is read without a lock (<kvmm/ext/inspect.h>), a portion a call: a client that wants all
 * of a large pool asks again, from where the last row ended. Sums by owner and by sequence are
 * taken over one walk of the map: some ten milliseconds for a million blocks, in the thread that
 * polls, and in the way of no other.
 */
#include <stdlib.h>
#include <string.h>

#include <kv/alloc.h>
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/registry_radix.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/lease.h>
#include <kvmm/ext/registry.h>
#include <kvmm/pool.h>

#include "command.h"

#define RUNS		64u	/* of the map, at a time */
#define MAX_ROWS	16384u	/* of an answer */
#define MAX_GROUPS	4096u	/* owners, or sequences, that are told apart */

/* ---- the map ---- */

static const struct {
	u32 flag;
	char letter;
} letters[] = {
	{ KVMM_MAP_PINNED, 'p' }, { KVMM_MAP_IN_FLIGHT, 'f' }, { KVMM_MAP_HIDDEN, 'h' },
	{ KVMM_MAP_DUP, 'd' }, { KVMM_MAP_LOST, 'l' },
};

static bool is_used(const struct kvmm_map_run *run)
{
	u32 state = kvmm_map_block_state(run->state);

	return state != KVMM_BLOCK_FREE && state != KVMM_BLOCK_NULL && state != KVMM_BLOCK_AWAY;
}

struct map_row {
	struct kvmm_map_run run;
	const char *state;
	char flags[8];
	u32 tiers;		/* a bit each that has that name */
};

/* Numbers that a block like that does not have are "-". */
enum { USED = 1, CLASSED = 2, NAMED = 4, CHAINED = 8, RANGED = 16, HANDLED = 32, FILED = 64 };

#define RUN(needs, head, kind, field) \
	KV_COLUMN_IF(needs, head, kind, struct map_row, run.field)

static const struct kv_column map_columns[] = {
	RUN(0, "first", NUMBER, first), RUN(0, "count", NUMBER, nr),
	KV_COLUMN("state", NAME, struct map_row, state),
	KV_COLUMN("flags:s", CHARS, struct map_row, flags),
	RUN(0, "owner", NONZERO, owner), RUN(CLASSED, "class", NUMBER, cls),
	RUN(USED, "pins", NUMBER, pins), RUN(USED, "refs", NUMBER, refs),
	RUN(USED, "age_ns", NUMBER, age_ns), RUN(0, "seq", NONZERO, seq),
	RUN(USED, "tenant", NUMBER, domain.tenant),
	/* Of a snapshot. */
	RUN(NAMED, "group", NUMBER, domain.group), RUN(NAMED, "layout", NUMBER, domain.layout),
	RUN(NAMED, "position", NUMBER, position), RUN(RANGED, "prio", NUMBER, prio),
	RUN(0, "deadline_ns", NONZERO, deadline_ns), RUN(NAMED, "key:s", KEY, key),
	RUN(CHAINED, "parent:s", KEY, parent), RUN(HANDLED, "index", NUMBER, index),
	RUN(HANDLED, "gen", NUMBER, gen),
	KV_COLUMN_IF(FILED, "tiers", NUMBER, struct map_row, tiers),
};

#define NR_MAP_COLUMNS	11u

/* Which tiers have that name; false: not known. */
static bool find_tiers(struct kvmm_registry *reg, struct map_row *row)
{
	const struct kvmm_map_run *run = &row->run;
	struct kvmm_prefix prefix = { &run->key, 1, run->position, NULL, run->domain };
	struct kvmm_node_info info;
	kvmm_node_t node;

	if (!reg || !(run->flags & KVMM_MAP_HAS_KEY) ||
	    kvmm_registry_find(reg, &prefix, &node, NULL) != 1 ||
	    kvmm_node_get_info(reg, node, &info))
		return false;
	row->tiers = info.tiers;
	return true;
}

static void write_map_row(struct kv_text *text, u32 nr_columns, const struct kvmm_map_run *run,
			  struct kvmm_registry *reg)
{
	struct map_row row = { *run, kvmm_map_state_name(run->state), "", 0 };
	u32 nr = 0, has = (is_used(run) ? USED : 0) |
			  (run->flags & KVMM_MAP_HAS_CLASS ? CLASSED : 0) |
			  (run->flags & KVMM_MAP_HAS_KEY ? NAMED : 0) |
			  (run->flags & KVMM_MAP_HAS_PARENT ? CHAINED : 0) |
			  (run->state == KVMM_MAP_RANGE ? RANGED : 0) | (run->gen ? HANDLED : 0);

	for (u32 i = 0; i < ARRAY_SIZE(letters); i++)
		if (run->flags & letters[i].flag)
			row.flags[nr++] = letters[i].letter;
	if (nr_columns > NR_MAP_COLUMNS && find_tiers(reg, &row))
		has |= FILED;
	kv_text_row(text, map_columns, nr_columns, &row, has);
}

/* At most @max rows from block @at on. */
static int write_runs(struct kv_control_call *call, u32 nr_columns, u32 at, u32 max, u32 how)
{
	struct kvmm_registry *reg = kv_pool_registry(call->pool);
	u32 end = kv_pool_nr_blocks(call->pool);
	struct kvmm_map_run runs[RUNS];

	kv_text_head(call->text, map_columns, nr_columns);
	while (max && at < end) {
		int nr = kvmm_map_read(call->pool, &at, how, runs, min(max, RUNS));

		if (nr <= 0)
			return nr;
		for (int i = 0; i < nr; i++)
			write_map_row(call->text, nr_columns, &runs[i], reg);
		max -= nr;
	}
	return 0;
}

static int read_place(struct kv_control_call *call, u64 *first, u64 *max)
{
	int err = 0;

	*first = 0;
	if (call->nr_args > 0)
		err = kv_call_number(call, 0, 0, KVMM_MAX_BLOCKS, first);
	if (!err && call->nr_args > 1)
		err = kv_call_number(call, 1, 1, MAX_ROWS, max);
	return err;
}

static int cmd_map(struct kv_control_call *call)
{
	u64 first, max = 1000;
	u32 how = 0;
	int err = read_place(call, &first, &max);

	if (err)
		return err;
	if (call->nr_args > 2 && !strcmp(call->arg[2], "coarse"))
		how = KVMM_MAP_COARSE;
	else if (call->nr_args > 2 && strcmp(call->arg[2], "fine"))
		return kv_call_error(call, -EINVAL, "'%.32s' is neither coarse nor fine",
				     call->arg[2]);
	return write_runs(call, NR_MAP_COLUMNS, first, max, how);
}

static int cmd_snapshot(struct kv_control_call *call)
{
	u64 first, max = 1000;
	int err = read_place(call, &first, &max);

	return err ? err : write_runs(call, ARRAY_SIZE(map_columns), first, max, KVMM_MAP_EACH);
}

/* ---- sums over the map ---- */

/* The share of one owner, or of one sequence. */
struct group {
	u64 id;
	u64 age_ns;		/* of the oldest */
	u64 deadline_ns;	/* the first; 0: none */
	u64 owner;		/* of a sequence: of its first run */
	u32 tenant;		/* the same */
	u32 nr_runs;
	u32 nr_blocks;
	u32 nr_pinned;		/* blocks */
	u32 nr_ranges;		/* blocks in ranges */
	u32 nr_holds;
	u32 nr_held;		/* blocks of those */
};

struct groups {
	u32 nr;
	bool is_full;
	struct group others;			/* all that came when there was no room */
	struct group group[MAX_GROUPS];
	u32 bucket[2 * MAX_GROUPS];		/* number + 1 of a group, or 0 */
};

static struct group *group_of(struct groups *groups, u64 id)
{
	u32 mask = ARRAY_SIZE(groups->bucket) - 1, at = (id * 0x9e3779b97f4a7c15ull) >> 40;

	for (at &= mask; groups->bucket[at]; at = (at + 1) & mask)
		if (groups->group[groups->bucket[at] - 1].id == id)
			return &groups->group[groups->bucket[at] - 1];
	if (groups->nr == MAX_GROUPS) {
		groups->is_full = true;
		return &groups->others;
	}
	groups->bucket[at] = ++groups->nr;
	groups->group[groups->nr - 1].id = id;
	return &groups->group[groups->nr - 1];
}

static void add_run(struct group *group, const struct kvmm_map_run *run)
{
	if (!group->nr_runs++) {
		group->owner = run->owner;
		group->tenant = run->domain.tenant;
	}
	group->nr_blocks += run->nr;
	group->age_ns = max(group->age_ns, run->age_ns);
	if (run->flags & KVMM_MAP_PINNED)
		group->nr_pinned += run->nr;
	if (run->state == KVMM_MAP_RANGE)
		group->nr_ranges += run->nr;
	if (run->deadline_ns && (!group->deadline_ns || run->deadline_ns < group->deadline_ns))
		group->deadline_ns = run->deadline_ns;
}

/* Runs of owners, or of sequences; free blocks, and runs of no sequence, are not of interest. */
static int sum_map(struct kvmm_pool *pool, struct groups *groups, bool by_seq)
{
	struct kvmm_map_run runs[RUNS];
	u32 at = 0;
	int nr;

	while ((nr = kvmm_map_read(pool, &at, 0, runs, RUNS)) > 0)
		for (int i = 0; i < nr; i++)
			if (by_seq ? runs[i].seq != 0 : is_used(&runs[i]))
				add_run(group_of(groups, by_seq ? runs[i].seq : runs[i].owner),
					&runs[i]);
	return nr;
}

static const struct kvmm_lease_filter holds = {
	.size = sizeof(holds), .kinds = BIT(KVMM_LEASED_REFS) | BIT(KVMM_LEASED_PINS),
};

static int sum_holds(struct kvmm_pool *pool, struct groups *groups)
{
	struct kvmm_lease_info hold;
	u64 cursor = 0;
	int nr;

	while ((nr = kvmm_lease_list(pool, &holds, &cursor, &hold, 1)) > 0) {
		struct group *group = group_of(groups, hold.owner);

		group->nr_holds++;
		group->nr_held += hold.nr;
		group->age_ns = max(group->age_ns, hold.age_ns);
		if (hold.deadline_ns &&
		    (!group->deadline_ns || hold.deadline_ns < group->deadline_ns))
			group->deadline_ns = hold.deadline_ns;
	}
	return nr;
}

/* The largest goes to place @i. Few are wanted, of few: no need to sort them all. */
static void pick_largest(struct groups *groups, u32 i)
{
	u32 best = i;
	struct group swap;

	for (u32 j = i + 1; j < groups->nr; j++)
		if (groups->group[j].nr_blocks + groups->group[j].nr_held >
		    groups->group[best].nr_blocks + groups->group[best].nr_held)
			best = j;
	swap = groups->group[i];
	groups->group[i] = groups->group[best];
	groups->group[best] = swap;
}

#define GROUP(head, kind, field) KV_COLUMN(head, kind, struct group, field)

/* The first of both is the number of the owner, or of the sequence. */
static const struct kv_column owner_columns[] = {
	GROUP("owner", NUMBER, id), GROUP("blocks", NUMBER, nr_blocks),
	GROUP("runs", NUMBER, nr_runs), GROUP("range_blocks", NUMBER, nr_ranges),
	GROUP("pinned", NUMBER, nr_pinned), GROUP("holds", NUMBER, nr_holds),
	GROUP("held", NUMBER, nr_held), GROUP("age_ns", NUMBER, age_ns),
	GROUP("deadline_ns", NONZERO, deadline_ns),
};

static const struct kv_column seq_columns[] = {
	GROUP("seq", NUMBER, id), GROUP("blocks", NUMBER, nr_blocks),
	GROUP("runs", NUMBER, nr_runs), GROUP("pinned", NUMBER, nr_pinned),
	GROUP("tenant", NUMBER, tenant), GROUP("age_ns", NUMBER, age_ns),
	GROUP("owner", NONZERO, owner),
};

/* By sequence, or by owner, with the holdings of each. */
static int write_groups(struct kv_control_call *call, const struct kv_column *columns, u32 nr,
			bool by_seq)
{
	struct groups *groups;
	u64 max = 20;
	int err = call->nr_args ? kv_call_number(call, 0, 1, MAX_GROUPS, &max) : 0;

	if (err)
		return err;
	groups = kv_alloc(sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	err = sum_map(call->pool, groups, by_seq);
	if (!err && !by_seq)
		err = sum_holds(call->pool, groups);
	if (err)
		goto out_free;
	kv_text_head(call->text, columns, nr);
	for (u32 i = 0; i < min(max, (u64)groups->nr); i++) {
		pick_largest(groups, i);
		kv_text_row(call->text, columns, nr, &groups->group[i], 0);
	}
	if (groups->is_full) {
		kv_text_puts(call->text, "others\t");
		kv_text_row(call->text, columns + 1, nr - 1, &groups->others, 0);
	}
out_free:
	kv_free(groups);
	return err;
}

static int cmd_owners(struct kv_control_call *call)
{
	return write_groups(call, owner_columns, ARRAY_SIZE(owner_columns), false);
}

static int cmd_sequences(struct kv_control_call *call)
{
	return write_groups(call, seq_columns, ARRAY_SIZE(seq_columns), true);
}

static int cmd_holds(struct kv_control_call *call)
{
	struct hold_row {
		struct kvmm_lease_info hold;
		const char *reason;
		bool is_pin;
	} row;
	static const struct kv_column columns[] = {
		KV_COLUMN("owner", NUMBER, struct hold_row, hold.owner),
		KV_COLUMN("reason", NAME, struct hold_row, reason),
		KV_COLUMN("blocks", NUMBER, struct hold_row, hold.nr),
		KV_COLUMN("pinned", NUMBER, struct hold_row, is_pin),
		KV_COLUMN("age_ns", NUMBER, struct hold_row, hold.age_ns),
		KV_COLUMN("deadline_ns", NONZERO, struct hold_row, hold.deadline_ns),
		KV_COLUMN("text:s", CHARS, struct hold_row, hold.text),
	};
	u64 max = 20, cursor = 0;
	int err = call->nr_args ? kv_call_number(call, 0, 1, MAX_GROUPS, &max) : 0;

	if (err)
		return err;
	kv_text_head(call->text, columns, ARRAY_SIZE(columns));
	while (max-- && (err = kvmm_lease_list(call->pool, &holds, &cursor, &row.hold, 1)) > 0) {
		row.reason = kvmm_lease_reason_name(row.hold.reason);
		row.is_pin = row.hold.flags & KVMM_LEASE_PIN;
		kv_text_row(call->text, columns, ARRAY_SIZE(columns), &row, 0);
	}
	return min(err, 0);
}

/* ---- prefixes ---- */

struct node_row {
	struct kvmm_node_info info;
	struct kvmm_node_info above;
};

#define NODE(needs, head, kind, field) \
	KV_COLUMN_IF(needs, head, kind, struct node_row, field)

static const struct kv_column node_columns[] = {
	NODE(0, "position", NUMBER, info.name.position), NODE(0, "key:s", KEY, info.name.key),
	NODE(CHAINED, "parent:s", KEY, above.name.key), NODE(0, "tiers", NUMBER, info.tiers),
	NODE(0, "children", NUMBER, info.children),
	NODE(0, "tenant", NUMBER, info.name.domain.tenant),
	NODE(0, "group", NUMBER, info.name.domain.group),
	NODE(0, "layout", NUMBER, info.name.domain.layout),
};

/* Nodes of one position after the other, until there are @max of them. */
static int write_nodes(struct kv_text *text, struct kvmm_registry *reg, u32 position, u32 max)
{
	kvmm_node_t *nodes = kv_alloc_array(max, sizeof(*nodes));
	int nr = 0;

	if (!nodes)
		return -ENOMEM;
	for (; max && (nr = kv_radix_at(reg, position, nodes, max)) > 0; position++) {
		for (int i = 0; i < nr; i++) {
			struct node_row row;
			bool has_parent;

			if (kvmm_node_get_info(reg, nodes[i], &row.info))
				continue;		/* it has gone meanwhile */
			has_parent = row.info.parent.gen &&
				     !kvmm_node_get_info(reg, row.info.parent, &row.above);
			kv_text_row(text, node_columns, ARRAY_SIZE(node_columns), &row,
				    has_parent ? CHAINED : 0);
		}
		max -= nr;
	}
	kv_free(nodes);
	return min(nr, 0);
}

static int cmd_prefixes(struct kv_control_call *call)
{
	struct kvmm_registry *reg = kv_pool_registry(call->pool);
	u64 position, max = 1000;
	int err = read_place(call, &position, &max);

	if (err)
		return err;
	if (!reg)
		return kv_call_error(call, -EOPNOTSUPP, "the pool has no registry of prefixes");
	kv_text_head(call->text, node_columns, ARRAY_SIZE(node_columns));
	return write_nodes(call->text, reg, position, max);
}

static const struct kv_command commands[] = {
	{ "map", "POOL [FIRST [MAX [fine|coarse]]]",
	  "runs of blocks from block FIRST on, at most MAX rows: what they are, and whose",
	  KV_COMMAND_POOL, 0, 3, cmd_map },
	{ "snapshot", "POOL [FIRST [MAX]]",
	  "the same with names; each block that has one in a row of its own",
	  KV_COMMAND_POOL, 0, 2, cmd_snapshot },
	{ "owners", "POOL [MAX]", "who has most of it: blocks, pins, holds, age, lease",
	  KV_COMMAND_POOL, 0, 1, cmd_owners },
	{ "sequences", "POOL [MAX]", "which sequences have most of it, in ranges",
	  KV_COMMAND_POOL, 0, 1, cmd_sequences },
	{ "holds", "POOL [MAX]", "who keeps cached blocks, and what for",
	  KV_COMMAND_POOL, 0, 1, cmd_holds },
	{ "prefixes", "POOL [POSITION [MAX]]",
	  "names in the pool's registry of prefixes, from POSITION on; tiers: a bit each",
	  KV_COMMAND_POOL, 0, 2, cmd_prefixes },
	{ 0 },
};

const struct kv_command_set kv_commands_views = { .commands = commands };
