// SPDX-License-Identifier: Apache-2.0
/*
 * Views of memory: the map of a pool, parts of it by owner, prefixes, slab caches.
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

typedef unsigned long long llu;

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

/* Numbers that a block like that does not have are "-". */
static void write_number(struct kv_text *text, bool has, u64 number)
{
	if (has)
		kv_text_printf(text, "\t%llu", (llu)number);
	else
		kv_text_puts(text, "\t-");
}

static bool is_used(const struct kvmm_map_run *run)
{
	u32 state = kvmm_map_block_state(run->state);

	return state != KVMM_BLOCK_FREE && state != KVMM_BLOCK_NULL && state != KVMM_BLOCK_AWAY;
}

static void write_run(struct kv_text *text, const struct kvmm_map_run *run)
{
	bool used = is_used(run);
	char flags[8] = "-";
	u32 nr = 0;

	for (u32 i = 0; i < ARRAY_SIZE(letters); i++)
		if (run->flags & letters[i].flag)
			flags[nr++] = letters[i].letter;
	kv_text_printf(text, "%u\t%u\t%s\t%s", run->first, run->nr, kvmm_map_state_name(run->state),
		       flags);
	write_number(text, run->owner, run->owner);
	write_number(text, run->flags & KVMM_MAP_HAS_CLASS, run->cls);
	write_number(text, used, run->pins);
	write_number(text, used, run->refs);
	write_number(text, used, run->age_ns);
	write_number(text, run->seq, run->seq);
	write_number(text, used, run->domain.tenant);
}

static void write_key(struct kv_text *text, bool has, const kvmm_key_t *key)
{
	kv_text_puts(text, has ? "\t" : "\t-");
	for (u32 i = 0; has && i < sizeof(key->byte); i++)
		kv_text_printf(text, "%02x", key->byte[i]);
}

static const char map_head[] =
	"#first\tcount\tstate\tflags:s\towner\tclass\tpins\trefs\tage_ns\tseq\ttenant";

static void write_map_row(struct kv_text *text, const struct kvmm_map_run *run,
			  struct kvmm_registry *reg)
{
	write_run(text, run);
	kv_text_puts(text, "\n");
}

static const char snapshot_head[] =
	"\tgroup\tlayout\tposition\tprio\tdeadline_ns\tkey:s\tparent:s\tindex\tgen\ttiers";

/* Which tiers have that name; -1 if not known. */
static s64 tiers_of(struct kvmm_registry *reg, const struct kvmm_map_run *run)
{
	struct kvmm_prefix prefix = { &run->key, 1, run->position, NULL, run->domain };
	struct kvmm_node_info info;
	kvmm_node_t node;

	if (!reg || !(run->flags & KVMM_MAP_HAS_KEY) ||
	    kvmm_registry_find(reg, &prefix, &node) != 1 || kvmm_node_get_info(reg, node, &info))
		return -1;
	return info.tiers;
}

static void write_snapshot_row(struct kv_text *text, const struct kvmm_map_run *run,
			       struct kvmm_registry *reg)
{
	s64 tiers = tiers_of(reg, run);
	bool named = run->flags & KVMM_MAP_HAS_KEY;

	write_run(text, run);
	write_number(text, named, run->domain.group);
	write_number(text, named, run->domain.layout);
	write_number(text, named, run->position);
	write_number(text, run->state == KVMM_MAP_RANGE, run->prio);
	write_number(text, run->deadline_ns, run->deadline_ns);
	write_key(text, named, &run->key);
	write_key(text, run->flags & KVMM_MAP_HAS_PARENT, &run->parent);
	write_number(text, run->gen, run->index);
	write_number(text, run->gen, run->gen);
	write_number(text, tiers >= 0, tiers);
	kv_text_puts(text, "\n");
}

typedef void (*write_fn)(struct kv_text *text, const struct kvmm_map_run *run,
			 struct kvmm_registry *reg);

/* At most @max rows from block @at on. */
static int write_runs(struct kv_control_call *call, u32 at, u32 max, u32 how, write_fn write)
{
	struct kvmm_registry *reg = kv_pool_registry(call->pool);
	u32 end = kv_pool_nr_blocks(call->pool);
	struct kvmm_map_run runs[RUNS];

	while (max && at < end) {
		int nr = kvmm_map_read(call->pool, &at, how, runs, min(max, RUNS));

		if (nr <= 0)
			return nr;
		for (int i = 0; i < nr; i++)
			write(call->text, &runs[i], reg);
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
	kv_text_printf(call->text, "%s\n", map_head);
	return write_runs(call, first, max, how, write_map_row);
}

static int cmd_snapshot(struct kv_control_call *call)
{
	u64 first, max = 1000;
	int err = read_place(call, &first, &max);

	if (err)
		return err;
	kv_text_printf(call->text, "%s%s\n", map_head, snapshot_head);
	return write_runs(call, first, max, KVMM_MAP_EACH, write_snapshot_row);
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

static int sum_holds(struct kvmm_pool *pool, struct groups *groups)
{
	struct kvmm_hold_info hold;
	u32 at = 0;
	int err;

	while (!(err = kvmm_hold_next(pool, &at, &hold))) {
		struct group *group = group_of(groups, hold.owner);

		group->nr_holds++;
		group->nr_held += hold.nr;
		group->age_ns = max(group->age_ns, hold.age_ns);
		if (hold.deadline_ns &&
		    (!group->deadline_ns || hold.deadline_ns < group->deadline_ns))
			group->deadline_ns = hold.deadline_ns;
	}
	return err == -ENOENT ? 0 : err;
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

static void write_owner(struct kv_text *text, const struct group *group)
{
	kv_text_printf(text, "\t%u\t%u\t%u\t%u\t%u\t%u\t%llu", group->nr_blocks, group->nr_runs,
		       group->nr_ranges, group->nr_pinned, group->nr_holds, group->nr_held,
		       (llu)group->age_ns);
	write_number(text, group->deadline_ns, group->deadline_ns);
	kv_text_puts(text, "\n");
}

static void write_sequence(struct kv_text *text, const struct group *group)
{
	kv_text_printf(text, "\t%u\t%u\t%u\t%u\t%llu", group->nr_blocks, group->nr_runs,
		       group->nr_pinned, group->tenant, (llu)group->age_ns);
	write_number(text, group->owner, group->owner);
	kv_text_puts(text, "\n");
}

/* How the groups are told. */
struct grouping {
	const char *head;
	bool by_seq;		/* else by owner, with the holdings of each */
	void (*write)(struct kv_text *text, const struct group *group);
};

static int write_all(struct kv_control_call *call, const struct grouping *by)
{
	struct groups *groups;
	u64 max = 20;
	int err = call->nr_args ? kv_call_number(call, 0, 1, MAX_GROUPS, &max) : 0;

	if (err)
		return err;
	groups = kv_alloc(sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	err = sum_map(call->pool, groups, by->by_seq);
	if (!err && !by->by_seq)
		err = sum_holds(call->pool, groups);
	if (err)
		goto out_free;
	kv_text_puts(call->text, by->head);
	for (u32 i = 0; i < min(max, (u64)groups->nr); i++) {
		pick_largest(groups, i);
		kv_text_printf(call->text, "%llu", (llu)groups->group[i].id);
		by->write(call->text, &groups->group[i]);
	}
	if (groups->is_full) {
		kv_text_puts(call->text, "others");
		by->write(call->text, &groups->others);
	}
out_free:
	kv_free(groups);
	return err;
}

static int cmd_owners(struct kv_control_call *call)
{
	static const struct grouping by = {
		"#owner\tblocks\truns\trange_blocks\tpinned\tholds\theld\tage_ns\tdeadline_ns\n",
		false, write_owner };

	return write_all(call, &by);
}

static int cmd_sequences(struct kv_control_call *call)
{
	static const struct grouping by = {
		"#seq\tblocks\truns\tpinned\ttenant\tage_ns\towner\n", true, write_sequence };

	return write_all(call, &by);
}

static int cmd_holds(struct kv_control_call *call)
{
	struct kvmm_hold_info hold;
	u64 max = 20;
	u32 at = 0;
	int err = call->nr_args ? kv_call_number(call, 0, 1, MAX_GROUPS, &max) : 0;

	if (err)
		return err;
	kv_text_puts(call->text, "#owner\treason\tblocks\tpinned\tage_ns\tdeadline_ns\ttext:s\n");
	while (max-- && !(err = kvmm_hold_next(call->pool, &at, &hold))) {
		kv_text_printf(call->text, "%llu\t%s\t%u\t%u\t%llu", (llu)hold.owner,
			       kvmm_hold_reason_name(hold.reason), hold.nr,
			       !!(hold.flags & KVMM_HOLD_PIN), (llu)hold.age_ns);
		write_number(call->text, hold.deadline_ns, hold.deadline_ns);
		kv_text_puts(call->text, "\t");
		kv_text_word(call->text, hold.text);
		kv_text_puts(call->text, "\n");
	}
	return err == -ENOENT ? 0 : err;
}

/* ---- prefixes ---- */

/* Nodes of one position after the other, until there are @max of them. */
static int write_nodes(struct kv_text *text, struct kvmm_registry *reg, u32 position, u32 max)
{
	kvmm_node_t *nodes = kv_alloc_array(max, sizeof(*nodes));
	int nr = 0;

	if (!nodes)
		return -ENOMEM;
	for (; max && kv_radix_nr_at(reg, position); position++) {
		nr = kv_radix_at(reg, position, nodes, max);
		if (nr < 0)
			break;
		for (int i = 0; i < nr; i++) {
			struct kvmm_node_info info, above;
			kvmm_node_t parent;
			bool has_parent;

			if (kvmm_node_get_info(reg, nodes[i], &info))
				continue;		/* it has gone meanwhile */
			has_parent = !kvmm_node_parent(reg, nodes[i], &parent) &&
				     !kvmm_node_get_info(reg, parent, &above);
			kv_text_printf(text, "%u", info.name.position);
			write_key(text, true, &info.name.key);
			write_key(text, has_parent, &above.name.key);
			kv_text_printf(text, "\t%u\t%u\t%u\t%u\t%u\n", info.tiers, info.children,
				       info.name.domain.tenant, info.name.domain.group,
				       info.name.domain.layout);
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
	kv_text_puts(call->text,
		     "#position\tkey:s\tparent:s\ttiers\tchildren\ttenant\tgroup\tlayout\n");
	return write_nodes(call->text, reg, position, max);
}

/* ---- slab caches ---- */

/* Of the whole process: caches belong to zones, not to pools. */
static int cmd_slabs(struct kv_control_call *call)
{
	struct kv_text *text = call->text;
	struct kv_slab_row row;
	const struct kvmm_slab_stat *stat = &row.stat;
	const struct kvmm_slab_shape *shape = &row.shape;
	u32 at = 0;
	int err;

	kv_text_puts(text,
		     "#name:s\tobjects\tslots\tobject_bytes\tobjects_per_slab\tblocks_per_slab\t"
		     "slabs\tfull\tpartial\tempty\tblocks\theld_bytes\tlive_bytes\twaste_pm\t"
		     "allocs\tfrees\tfail_nospc\n");
	while (!(err = kv_slab_next(NULL, &at, &row))) {
		kv_text_word(text, row.name);
		kv_text_printf(text, "\t%llu\t%llu\t%llu\t%u\t%u\t%llu\t%llu\t%llu\t%llu",
			       (llu)stat->nr_objects, (llu)stat->nr_slots, (llu)shape->stride,
			       shape->nr_objects, shape->nr_blocks, (llu)stat->nr_slabs,
			       (llu)stat->nr_full, (llu)stat->nr_partial, (llu)stat->nr_empty);
		kv_text_printf(text, "\t%llu\t%llu\t%llu\t%u\t%llu\t%llu\t%llu\n",
			       (llu)stat->nr_blocks, (llu)stat->held_bytes, (llu)stat->live_bytes,
			       stat->waste_pm, (llu)stat->allocs, (llu)stat->frees,
			       (llu)stat->fail_nospc);
	}
	return err == -ENOENT ? 0 : err;
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
	{ "slabs", "", "slab caches of the process", 0, 0, 0, cmd_slabs },
	{ 0 },
};

const struct kv_command_set kv_commands_views = { .commands = commands };
