// SPDX-License-Identifier: Apache-2.0
/* When the engine of readers.h lets blocks move, and what it counts. */
#include "readers.h"

enum exit_code readers_begin(struct frag *frag)
{
	const struct options *opt = frag->run->opt;
	struct kvmm_background how = KVMM_BACKGROUND_INIT;
	int err = 0;

	if (opt->compact == COMPACT_BACKGROUND) {
		how.threshold_pm = opt->threshold_pm;
		how.interval_ms = opt->interval_ms;
		err = kvmm_background_set(frag->pool, &how);
	}
	return err ? complain_of(err, "compaction in the background") : EXIT_GOOD;
}

/* What -ENOSPC depends on: who holds what, and what is on its way. */
static u64 picture_of(const struct frag *frag)
{
	struct kvmm_step_stat stat;

	kvmm_step_stat(frag->pool, &stat);
	return fold(fold(frag->count.admitted, frag->nr_running), stat.published_blocks) +
	       stat.copying_blocks + stat.limbo_blocks;
}

/* Towards a run of @want, as far as it goes. */
static int start_towards(struct frag *frag, u32 want, u32 max_blocks, u32 mode)
{
	struct kvmm_compact_goal goal = KVMM_COMPACT_GOAL_INIT;
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;
	int err;

	goal.mode = mode;
	goal.flags = KVMM_GOAL_BEST;
	goal.want = want;
	goal.max_blocks = max_blocks;
	err = kvmm_compact_goal_start(frag->pool, &goal, &plan);
	frag->readers.starts += !err && plan.nr_moves;
	return err;
}

/*
 * Ahead of its request a run may cost so much of the request, and no more than the blocks that no
 * request can have, twice: a block on its way takes two.
 */
static u32 budget_ahead(const struct frag *frag, u32 want)
{
	u64 spare = frag->run->opt->nr_blocks - frag->limit;

	return (u32)min_u64((u64)want * frag->run->opt->ahead / 100, spare / 2);
}

/* One compaction at a time, and none where nothing has changed since the last one was refused. */
static enum exit_code start(struct frag *frag, u32 want, u32 max_blocks, u32 mode)
{
	struct readers *readers = &frag->readers;
	u64 picture;
	int err;

	if (kvmm_compact_poll(frag->pool) > 0)
		return EXIT_GOOD;
	picture = fold(fold(picture_of(frag), want), max_blocks);
	if (picture == readers->in_vain)
		return EXIT_GOOD;
	err = start_towards(frag, want, max_blocks, mode);
	if (err == -ENOSPC)
		readers->in_vain = picture;
	readers->refused += err == -ENOSPC;
	readers->busy += err == -EBUSY || err == -EAGAIN;
	return err && err != -ENOSPC && err != -EBUSY && err != -EAGAIN ?
	       complain_of(err, "start a compaction") : EXIT_GOOD;
}

/* How long a run the next request needs; 0: it cannot be known, or there is one. */
static u32 missing_run(const struct frag *frag)
{
	u32 want;

	if (frag->head >= frag->arrived)
		return 0;
	want = frag_blocks_wanted(frag, frag->head);
	return want > frag->limit || frag_zone_stat(frag).largest >= want ? 0 : want;
}

static enum exit_code tick(struct frag *frag)
{
	int ret = kvmm_background_tick(frag->pool);

	if (ret < 0)
		return complain_of(ret, "compact in the background");
	frag->readers.starts += (u64)ret;
	return EXIT_GOOD;
}

enum exit_code readers_move(struct frag *frag)
{
	const struct options *opt = frag->run->opt;
	u32 want = missing_run(frag), ahead = budget_ahead(frag, want);
	enum exit_code code = EXIT_GOOD;

	if (opt->compact == COMPACT_BACKGROUND)
		code = tick(frag);
	if (code || !want || opt->compact == COMPACT_OFF)
		return code;
	if (opt->compact == COMPACT_BETWEEN || opt->compact == COMPACT_DIRECT)
		frag->readers.hold = frag->stuck;
	else if (frag->stuck)
		code = start(frag, want, 0, KVMM_MOVE_BESIDE);
	else if (ahead)
		code = start(frag, want, ahead, KVMM_MOVE_BESIDE);
	return code;
}

enum exit_code readers_move_held(struct frag *frag)
{
	u32 want = missing_run(frag);
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = want };
	int err;

	frag->readers.hold = false;
	if (!want)
		return EXIT_GOOD;
	if (frag->run->opt->compact == COMPACT_BETWEEN)
		return start(frag, want, 0, KVMM_MOVE_BETWEEN);
	err = kvmm_pool_compact(frag->pool, &goal);
	frag->count.compactions += goal.moved > 0;
	frag->count.moved_blocks += goal.moved;
	frag->count.fail_compacted += err == -ENOSPC;
	return err && err != -ENOSPC ? complain_of(err, "compact") : EXIT_GOOD;
}

/* ---- what is under way ---- */

void readers_watch(struct frag *frag)
{
	struct readers *readers = &frag->readers;
	bool none = kvmm_compact_poll(frag->pool) == 0;
	u64 us;

	if (!none && !readers->under_way)
		readers->since = frag->now;
	if (none && readers->under_way) {
		us = frag->now - readers->since;
		readers->landings++;
		readers->landing_us += us;
		readers->longest_landing_us = max_u64(readers->longest_landing_us, us);
	}
	readers->under_way = !none;
}

void readers_let_go_by(struct frag *frag, u64 us)
{
	struct readers *readers = &frag->readers;
	struct kvmm_step_stat stat;

	kvmm_step_stat(frag->pool, &stat);
	readers->max_limbo = (u32)max_u64(readers->max_limbo, stat.limbo_blocks);
	if (!frag->window.inside)
		return;
	readers->limbo_us += (u128)stat.limbo_blocks * us;
	for (u32 i = 0; i < frag->nr_running; i++)
		readers->run_us += (u128)frag->live[frag->running[i]]->nr_ext * us;
	readers->request_us += (u128)frag->nr_running * us;
}

void readers_end(struct frag *frag)
{
	struct kvmm_step_stat stat;

	readers_watch(frag);
	kvmm_step_stat(frag->pool, &stat);
	frag->count.moved_blocks += stat.published_blocks;
	frag->count.compactions += frag->readers.starts;
}

/* ---- output ---- */

static void describe_moves(const struct frag *frag)
{
	struct results *results = frag->run->results;
	struct kvmm_step_stat stat;

	kvmm_step_stat(frag->pool, &stat);
	results_num(results, "published_moves", stat.published_moves);
	results_num(results, "published_blocks", stat.published_blocks);
	results_num(results, "void_moves", stat.void_moves);
}

void readers_describe(const struct frag *frag)
{
	const struct readers *readers = &frag->readers;
	const struct {
		const char *key;
		u128 value;
	} fields[] = {
		{ "streams", readers->nr },
		{ "step_us", frag->run->opt->step_us },
		{ "ahead", frag->run->opt->ahead },
		{ "steps", readers->steps },
		{ "pauses", readers->pauses },
		{ "pause_us", readers->pause_us },
		{ "stall_us", frag->count.stall_us },
		{ "starts", readers->starts },
		{ "refused", readers->refused },
		{ "busy", readers->busy },
		{ "win_limbo", readers->limbo_us },
		{ "max_limbo", readers->max_limbo },
		{ "landings", readers->landings },
		{ "landing_us", readers->landing_us },
		{ "longest_landing_us", readers->longest_landing_us },
		{ "win_run_us", readers->run_us },
		{ "win_request_us", readers->request_us },
	};

	if (!readers->nr)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		results_num(frag->run->results, fields[i].key, fields[i].value);
	describe_moves(frag);
}

void readers_say(const struct frag *frag)
{
	const struct readers *readers = &frag->readers;
	struct results *results = frag->run->results;
	char a[32], b[32];

	if (!readers->nr)
		return;
	results_say(results, "steps", "%s on %u stream%s, each reading %.3f runs a request",
		    format_grouped(readers->steps, a), readers->nr, readers->nr > 1 ? "s" : "",
		    share(readers->run_us, readers->request_us));
	results_say(results, "reader pauses", "%s, %.3f s together",
		    format_grouped(readers->pauses, a), (double)readers->pause_us / 1e6);
	results_say(results, "head waited", "%.3f s for a run, of %.1f s",
		    share(frag->count.stall_us, 1000000), (double)frag->now / 1e6);
	results_say(results, "limbo", "%.1f blocks in the mean, %s at most",
		    share(readers->limbo_us, frag->window.us), format_grouped(readers->max_limbo, a));
	results_say(results, "time to free", "%.1f ms in the mean, %.1f ms at most, %s times",
		    share(readers->landing_us, readers->landings) / 1e3,
		    (double)readers->longest_landing_us / 1e3, format_grouped(readers->landings, b));
}
