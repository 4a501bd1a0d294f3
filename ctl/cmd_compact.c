// SPDX-License-Identifier: Apache-2.0
/*
 * Compaction from outside: planned, begun, watched, called off.
 *
 * A command that begins it does not wait for it. Moves are published by the engine's steps, and
 * here, whenever the socket is polled; when none is left, the run is over, and its result stays.
 */
#include <string.h>

#include <kv/env.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/zone.h>
#include <kvmm/compact.h>

#include "command.h"
#include "control.h"

#define TICK_MS	2u

enum run_state { RUN_NONE, RUN_MOVES, RUN_DONE, RUN_CANCELLED };

static const char *const state_names[] = {
	[RUN_NONE] = "none", [RUN_MOVES] = "moves", [RUN_DONE] = "done",
	[RUN_CANCELLED] = "cancelled",
};

/* The last run that was asked for here. control->lock. */
struct run {
	enum run_state			state;
	struct kvmm_compact_goal	goal;
	struct kvmm_compact_plan	plan;
	u64				began_ns;
	u64				ended_ns;
	u32				length;		/* that unusable is about */
	u32				unusable_after;
	u32				nr_left;	/* moves with old places not free yet */
};

/* ---- the request ---- */

static bool take_flag(const char *word, struct kvmm_compact_goal *goal)
{
	if (!strcmp(word, "drop"))
		goal->flags |= KVMM_GOAL_DROP;
	else if (!strcmp(word, "calm"))
		goal->flags |= KVMM_GOAL_CALM;
	else if (!strcmp(word, "best"))
		goal->flags |= KVMM_GOAL_BEST;
	else if (!strcmp(word, "between"))
		goal->mode = KVMM_MOVE_BETWEEN;
	else
		return false;
	return true;
}

/* Words with a number behind their '='. */
#define GOAL(name, field) KV_COLUMN(name, NUMBER, struct kvmm_compact_goal, field)

static const struct {
	struct kv_column column;
	u64 max;
} numbers[] = {
	{ GOAL("want=", want), KVMM_MAX_BLOCKS },
	{ GOAL("pageblock=", pageblock_blocks), 1u << 20 },
	{ GOAL("max_blocks=", max_blocks), KVMM_MAX_BLOCKS },
	{ GOAL("max_us=", max_us), UINT32_MAX }, { GOAL("max_bytes=", max_bytes), UINT64_MAX },
	{ GOAL("seq=", seq), UINT64_MAX },
};

static int take_number(struct kv_control_call *call, u32 i, struct kvmm_compact_goal *goal)
{
	for (u32 n = 0; n < ARRAY_SIZE(numbers); n++) {
		const struct kv_column *column = &numbers[n].column;
		u64 value;
		int err;

		if (strncmp(call->arg[i], column->head, strlen(column->head)))
			continue;
		call->arg[i] += strlen(column->head);
		err = kv_call_number(call, i, 0, numbers[n].max, &value);
		if (!err)
			kv_column_set(column, goal, value);
		return err;
	}
	return kv_call_error(call, -EINVAL, "unknown word '%.64s'; try help compact-plan",
			     call->arg[i]);
}

static int read_goal(struct kv_control_call *call, struct kvmm_compact_goal *goal)
{
	const struct kvmm_compact_goal preset = KVMM_COMPACT_GOAL_INIT;
	int err = 0;

	*goal = preset;
	goal->pageblock_blocks = 64;
	for (u32 i = 0; i < call->nr_args && !err; i++) {
		const char *word = call->arg[i];

		if (strncmp(word, "goal=", 5)) {
			err = take_flag(word, goal) ? 0 : take_number(call, i, goal);
			continue;
		}
		goal->goal = 0;
		while (goal->goal < KVMM_NR_GOALS && strcmp(word + 5, kvmm_goal_name(goal->goal)))
			goal->goal++;
		if (goal->goal == KVMM_NR_GOALS)
			err = kv_call_error(call, -EINVAL, "there is no goal '%.64s', only run, "
					    "pageblocks, shorten, gather", word + 5);
	}
	return err;
}

/* ---- the answer ---- */

/* Why a plan could not be made, in the words of the request. */
static int explain(struct kv_control_call *call, const struct kvmm_compact_goal *goal, int err)
{
	static const char *const needs[] = {
		[KVMM_GOAL_RUN]		= "want=N, at most the blocks of the pool",
		[KVMM_GOAL_PAGEBLOCKS]	= ("want=N, at most the pageblocks of the pool, and "
					   "pageblock=N, a power of two"),
		[KVMM_GOAL_SHORTEN]	= "nothing else",
		[KVMM_GOAL_GATHER]	= "seq=N, a sequence that has ranges",
	};

	if (err == -ENOSPC)
		return kv_call_error(call, err, "no allowed moves get any nearer to that goal");
	if (err == -EBUSY)
		return kv_call_error(call, err, "a step is open, too much moves already, or "
				     "nothing may move at present");
	if (err == -EINVAL)
		return kv_call_error(call, err, "goal %s needs %s", kvmm_goal_name(goal->goal),
				     needs[goal->goal]);
	if (err == -EOPNOTSUPP)
		return kv_call_error(call, err, "the blocks of this pool do not move");
	return err;
}

struct run_row {
	struct run run;
	const char *state;
	const char *goal;
	u64 ns;
};

#define RUN(head, field) KV_COLUMN(head, NUMBER, struct run_row, run.field)

static int cmd_plan(struct kv_control_call *call)
{
	static const struct kv_column columns[] = {
		KV_COLUMN("goal:s", NAME, struct run_row, goal), RUN("want", goal.want),
		RUN("partial", plan.is_partial), RUN("moves", plan.nr_moves),
		RUN("blocks", plan.moved_blocks), RUN("bytes", plan.moved_bytes),
		RUN("drops", plan.nr_drops), RUN("empty", plan.nr_empty),
		RUN("saved_extents", plan.saved_extents), RUN("run_start", plan.run.start),
		RUN("run_blocks", plan.run.nr), RUN("copy_ns", plan.copy_ns),
		RUN("plan_ns", plan.plan_ns), RUN("largest_before", plan.before.largest),
		RUN("largest_after", plan.after.largest),
		RUN("unusable_ppm_before", plan.before.unusable_ppm),
		RUN("unusable_ppm_after", plan.after.unusable_ppm),
		RUN("extents_before", plan.before.extents),
		RUN("extents_after", plan.after.extents),
	};
	struct run_row row = { .run.plan = KVMM_COMPACT_PLAN_INIT };
	int err = read_goal(call, &row.run.goal);

	if (err)
		return err;
	err = kvmm_compact_get_plan(call->pool, &row.run.goal, &row.run.plan);
	if (err)
		return explain(call, &row.run.goal, err);
	row.goal = kvmm_goal_name(row.run.goal.goal);
	kv_text_head(call->text, columns, ARRAY_SIZE(columns));
	kv_text_row(call->text, columns, ARRAY_SIZE(columns), &row, 0);
	return 0;
}

/* ---- a run ---- */

static void look(struct kv_control_pool *entry, struct run *run)
{
	int nr = kvmm_compact_poll(entry->pool);

	run->nr_left = max(nr, 0);
	if (run->nr_left)
		return;
	run->state = RUN_DONE;
	run->ended_ns = kv_clock_ns();
	run->unusable_after = max(kv_zone_unusable(kv_pool_zone(entry->pool), run->length), 0);
}

static u32 tick(struct kv_control_pool *entry, void **state)
{
	struct run *run = *state;

	if (run->state == RUN_MOVES)
		look(entry, run);
	return run->state == RUN_MOVES ? TICK_MS : UINT32_MAX;
}

static void begin(struct kv_control_call *call, struct run *run, const struct run *new)
{
	*run = *new;
	run->state = RUN_MOVES;
	run->began_ns = kv_clock_ns();
	run->length = run->goal.goal == KVMM_GOAL_PAGEBLOCKS ? run->goal.pageblock_blocks :
		      max(run->goal.want, 1u);
	look(call->entry, run);
}

static void write_run(struct kv_text *text, const struct run *run)
{
	enum { ENDED = 1 };
	static const struct kv_column columns[] = {
		KV_COLUMN("state:s", NAME, struct run_row, state),
		KV_COLUMN("goal:s", NAME, struct run_row, goal), RUN("want", goal.want),
		RUN("partial", plan.is_partial), RUN("moves", plan.nr_moves),
		RUN("left", nr_left), RUN("blocks", plan.moved_blocks),
		RUN("bytes", plan.moved_bytes), RUN("drops", plan.nr_drops),
		KV_COLUMN("ns", NUMBER, struct run_row, ns), RUN("plan_ns", plan.plan_ns),
		RUN("largest_before", plan.before.largest),
		RUN("largest_after", plan.after.largest),
		RUN("unusable_ppm_before", plan.before.unusable_ppm),
		KV_COLUMN_IF(ENDED, "unusable_ppm_after", NUMBER, struct run_row,
			     run.unusable_after),
	};
	u64 end = max(run->state == RUN_MOVES ? kv_clock_ns() : run->ended_ns, run->began_ns);
	struct run_row row = { *run, state_names[run->state], kvmm_goal_name(run->goal.goal),
			       end - run->began_ns };

	kv_text_head(text, columns, ARRAY_SIZE(columns));
	kv_text_row(text, columns, ARRAY_SIZE(columns), &row,
		    run->state == RUN_MOVES ? 0 : ENDED);
}

static int cmd_run(struct kv_control_call *call)
{
	const struct kvmm_compact_plan preset = KVMM_COMPACT_PLAN_INIT;
	struct run *run, new = { .plan = preset };
	int err;

	if (!*call->state)
		*call->state = kv_alloc(sizeof(struct run));
	run = *call->state;
	if (!run)
		return -ENOMEM;
	if (run->state == RUN_MOVES)
		return kv_call_error(call, -EALREADY,
				     "the last one has not ended; see compact-status");
	err = read_goal(call, &new.goal);
	if (err)
		return err;
	err = kvmm_compact_goal_start(call->pool, &new.goal, &new.plan);
	if (err)
		return explain(call, &new.goal, err);
	begin(call, run, &new);
	write_run(call->text, run);
	return 0;
}

static int cmd_status(struct kv_control_call *call)
{
	struct run none = { .state = RUN_NONE };

	write_run(call->text, *call->state ? *call->state : &none);
	return 0;
}

static int cmd_cancel(struct kv_control_call *call)
{
	struct run *run = *call->state;
	int nr = kvmm_compact_cancel(call->pool);

	if (nr < 0)
		return nr;
	if (run && run->state == RUN_MOVES) {
		look(call->entry, run);
		run->state = run->nr_left ? RUN_MOVES : RUN_CANCELLED;
	}
	kv_text_printf(call->text, "#stay\n%u\n", nr);
	return 0;
}

static void pool_exit(struct kv_control_pool *entry, void **state)
{
	kv_free(*state);
	*state = NULL;
}

static const struct kv_command commands[] = {
	{ "compact-plan", "POOL [goal=run|pageblocks|shorten|gather] [want=N] [pageblock=N] "
	  "[max_blocks=N] [max_us=N] [max_bytes=N] [seq=N] [drop] [calm] [best] [between]",
	  "what would be moved; planning waits for moves under way",
	  KV_COMMAND_POOL, 0, 16, cmd_plan },
	{ "compact-run", "POOL, and as compact-plan", "begin to move it",
	  KV_COMMAND_POOL | KV_COMMAND_STEERS, 0, 16, cmd_run },
	{ "compact-status", "POOL", "how far the last one has come",
	  KV_COMMAND_POOL, 0, 0, cmd_status },
	{ "compact-cancel", "POOL", "what is not published stays where it is",
	  KV_COMMAND_POOL | KV_COMMAND_STEERS, 0, 0, cmd_cancel },
	{ 0 },
};

const struct kv_command_set kv_commands_compact = {
	.commands = commands, .pool_exit = pool_exit, .tick = tick,
};
