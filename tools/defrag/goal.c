// SPDX-License-Identifier: Apache-2.0
/*
 * plan and run with --goal: what kvmm_compact_get_plan() says would be done, and what is begun by
 * kvmm_compact_goal_start(). The replay makes no steps, so moves are those between steps.
 */
#include <stdlib.h>
#include <time.h>

#include "defrag.h"

#define MAX_LISTED	4096u

struct aim {
	struct kvmm_compact_plan plan;
	struct kvmm_relocation *moves;	/* ours */
	struct look before;
	struct look after;		/* run only */
	u64 run_ns;
	int err;
};

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000 + (u64)ts.tv_nsec;
}

static void wait_a_bit(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

/* All old places are free when this returns. */
static int run_goal(struct frag *frag, const struct kvmm_compact_goal *goal, struct aim *aim)
{
	u64 begin_ns = now_ns();
	int ret = kvmm_compact_goal_start(frag->pool, goal, &aim->plan);

	while (!ret && (ret = kvmm_compact_poll(frag->pool)) > 0) {
		wait_a_bit();
		ret = 0;
	}
	aim->run_ns = now_ns() - begin_ns;
	return ret;
}

static enum exit_code reach(struct frag *frag, const struct ask *ask, struct aim *aim)
{
	struct kvmm_compact_goal goal = KVMM_COMPACT_GOAL_INIT;
	enum exit_code code;

	goal.goal = ask->goal;
	goal.mode = KVMM_MOVE_BETWEEN;
	goal.want = ask->want;
	goal.pageblock_blocks = ask->goal == KVMM_GOAL_PAGEBLOCKS ? ask->pageblock : 0;
	goal.max_blocks = ask->max_blocks;
	aim->plan.moves = aim->moves;
	aim->plan.max_moves = MAX_LISTED;
	if (ask->command == DEFRAG_PLAN)
		aim->err = kvmm_compact_get_plan(frag->pool, &goal, &aim->plan);
	else
		aim->err = run_goal(frag, &goal, aim);
	if (aim->err && aim->err != -ENOSPC && aim->err != -EAGAIN)
		return complain_of(aim->err, "compact for %s", kvmm_goal_name(ask->goal));
	code = frag_follow_moves(frag);
	if (!code && look_at(frag, &aim->after))
		code = complain_of(-EINVAL, "look at the pool");
	return code;
}

/* ---- output ---- */

static void describe_state(struct results *results, const struct kvmm_compact_plan *plan)
{
	results_num(results, "largest_before", plan->before.largest);
	results_num(results, "largest_after", plan->after.largest);
	results_num(results, "unusable_ppm_before", plan->before.unusable_ppm);
	results_num(results, "unusable_ppm_after", plan->after.unusable_ppm);
	results_num(results, "extents_before", plan->before.extents);
	results_num(results, "extents_after", plan->after.extents);
}

static void describe(const struct frag *frag, const struct ask *ask, const struct aim *aim)
{
	struct results *results = frag->run->results;
	const struct kvmm_compact_plan *plan = &aim->plan;

	results_str(results, "command", ask->command == DEFRAG_PLAN ? "plan" : "run");
	results_str(results, "goal", kvmm_goal_name(ask->goal));
	results_num(results, "admitted", frag->count.admitted);
	results_num(results, "want", ask->want);
	results_bool(results, "reached", !aim->err && !plan->is_partial);
	results_num(results, "moved_blocks", plan->moved_blocks);
	results_num(results, "moves", plan->nr_moves);
	results_num(results, "empty_pageblocks", plan->nr_empty);
	results_num(results, "saved_extents", plan->saved_extents);
	results_num(results, "predicted_ns",
		    predicted_ns(frag, ask, plan->moved_blocks));
	if (ask->command == DEFRAG_RUN)
		results_num(results, "run_ns", aim->run_ns);
	describe_state(results, plan);
	results_str(results, "map_before", aim->before.map);
	results_str(results, "map_after", aim->after.map);
}

static void say_moves(const struct frag *frag, const struct ask *ask, const struct aim *aim)
{
	for (u32 i = 0; i < ask->nr_moves && i < aim->plan.nr_moves; i++)
		results_say(frag->run->results, i ? "" : "moves", "%u blocks from %u to %u",
			    aim->moves[i].nr, aim->moves[i].from, aim->moves[i].to);
}

static void say_outcome(struct results *results, const struct ask *ask, const struct aim *aim)
{
	const struct kvmm_compact_plan *plan = &aim->plan;

	if (aim->err) {
		results_say(results, "not reached", "%s", kvmm_strerror(aim->err));
		return;
	}
	results_say(results, "longest run", "%u -> %u blocks", plan->before.largest,
		    plan->after.largest);
	results_say(results, "extents", "%llu -> %llu", (unsigned long long)plan->before.extents,
		    (unsigned long long)plan->after.extents);
	if (ask->goal == KVMM_GOAL_PAGEBLOCKS)
		results_say(results, "empty", "%u pageblocks of %u blocks", plan->nr_empty,
			    ask->pageblock);
	if (plan->is_partial)
		results_say(results, "not reached", "nearer, but not there");
}

static void say(const struct frag *frag, const struct ask *ask, const struct aim *aim)
{
	bool is_plan = ask->command == DEFRAG_PLAN;
	struct results *results = frag->run->results;
	const struct kvmm_compact_plan *plan = &aim->plan;
	u64 ns = is_plan ? predicted_ns(frag, ask, plan->moved_blocks) : aim->run_ns;

	results_say(results, "trace", "%s, %s requests admitted, %.1f s", frag->run->trace->name,
		    grouped(frag->count.admitted), (double)frag->now / 1e6);
	results_say(results, "before", "|%s|", aim->before.map);
	results_say(results, is_plan ? "plan" : "moved", "%s blocks in %u moves, %s%.3f ms, for %s",
		    grouped(plan->moved_blocks), plan->nr_moves, is_plan ? "about " : "",
		    (double)ns / 1e6, kvmm_goal_name(ask->goal));
	say_moves(frag, ask, aim);
	if (!is_plan)
		results_say(results, "after", "|%s|", aim->after.map);
	say_outcome(results, ask, aim);
}

enum exit_code act_for(struct frag *frag, const struct ask *ask)
{
	struct aim aim = { .plan = KVMM_COMPACT_PLAN_INIT };
	enum exit_code code = EXIT_GOOD;

	aim.moves = calloc(MAX_LISTED, sizeof(*aim.moves));
	if (!aim.moves || look_at(frag, &aim.before))
		code = complain_of(-ENOMEM, "look at the pool");
	if (!code)
		code = reach(frag, ask, &aim);
	if (!code) {
		describe(frag, ask, &aim);
		say(frag, ask, &aim);
		print_results(frag, ask);
	}
	if (!code && (aim.err || aim.plan.is_partial))
		code = EXIT_WRONG;
	free(aim.moves);
	return code;
}
