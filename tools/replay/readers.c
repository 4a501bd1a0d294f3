// SPDX-License-Identifier: Apache-2.0
/*
 * The engine of mode frag that makes steps: see readers.h.
 *
 * Nothing is believed of what the library promises. Which blocks each open step was told is kept,
 * and a request that is given one of them is an error; where a step read what has moved meanwhile,
 * its old places are compared at its end. A step that cannot begin is tried again, and the time
 * until it does is a pause.
 */
#include <kvmm/ext/testing.h>

#include "live.h"
#include "readers.h"

/* ---- when blocks may move, and what is counted ---- */

/*
 * Towards a run of @want, as far as it goes. One compaction at a time, and none where nothing has
 * changed of what -ENOSPC depends on since the last one was refused: what requests hold, and what is
 * on its way.
 */
static enum exit_code start(struct frag *frag, u32 want, u32 max_blocks, u32 mode)
{
	struct kvmm_compact_goal goal = { .size = sizeof(goal), .mode = mode,
					  .flags = KVMM_GOAL_BEST, .want = want,
					  .max_blocks = max_blocks };
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;
	struct readers *readers = &frag->readers;
	struct kvmm_step_stat stat;
	u64 picture;
	int err;

	if (kvmm_compact_poll(frag->pool) > 0)
		return EXIT_GOOD;
	kvmm_step_get_stat(frag->pool, &stat);
	picture = fold(fold(frag->count.admitted, frag->nr_running), stat.published_blocks) +
		  stat.copying_blocks + stat.limbo_blocks;
	picture = fold(fold(picture, want), max_blocks);
	if (picture == readers->in_vain)
		return EXIT_GOOD;
	err = kvmm_compact_goal_start(frag->pool, &goal, &plan);
	if (err == -ENOSPC)
		readers->in_vain = picture;
	readers->starts += !err && plan.nr_moves;
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
	return want > frag->limit || frag_free_now(frag).largest >= want ? 0 : want;
}

/* Make room for the head, if that is due. */
static enum exit_code readers_move(struct frag *frag)
{
	const struct options *opt = frag->run->opt;
	u32 want = missing_run(frag);
	/*
	 * Ahead of its request a run may cost so much of the request, and no more than the blocks that
	 * no request can have, twice: a block on its way takes two.
	 */
	u64 ahead = min_u64((u64)want * opt->ahead / 100, (opt->nr_blocks - frag->limit) / 2);
	int ret = opt->compact == COMPACT_BACKGROUND ? kvmm_background_tick(frag->pool) : 0;

	if (ret < 0)
		return complain_of(ret, "compact in the background");
	frag->readers.starts += (u64)ret;
	if (!want || opt->compact == COMPACT_OFF)
		return EXIT_GOOD;
	if (opt->compact == COMPACT_BETWEEN || opt->compact == COMPACT_DIRECT)
		frag->readers.hold = frag->stuck;
	else if (frag->stuck || ahead)
		return start(frag, want, frag->stuck ? 0 : (u32)ahead, KVMM_MOVE_BESIDE);
	return EXIT_GOOD;
}

/* The same, now that no step is open, as was asked for with @hold. */
static enum exit_code readers_move_held(struct frag *frag)
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

/* Have moves begun, or landed? */
static void readers_watch(struct frag *frag)
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

/* So much time goes by. */
static void readers_let_go_by(struct frag *frag, u64 us)
{
	struct readers *readers = &frag->readers;
	struct kvmm_step_stat stat;

	kvmm_step_get_stat(frag->pool, &stat);
	readers->max_limbo = (u32)max_u64(readers->max_limbo, stat.limbo_blocks);
	if (!frag->window.inside)
		return;
	readers->limbo_us += (u128)stat.limbo_blocks * us;
	for (u32 i = 0; i < frag->nr_running; i++)
		readers->run_us += (u128)frag->live[frag->running[i]]->nr_ext * us;
	readers->request_us += (u128)frag->nr_running * us;
}

/* ---- output ---- */

void readers_report(const struct frag *frag)
{
	const struct readers *readers = &frag->readers;
	struct results *results = frag->run->results;
	struct kvmm_step_stat stat;

	if (!readers->nr)
		return;
	results_num(results, "streams", readers->nr);
	results_num(results, "step_us", frag->run->opt->step_us);
	results_num(results, "ahead", frag->run->opt->ahead);
	results_num(results, "steps", readers->steps);
	results_num(results, "pauses", readers->pauses);
	results_num(results, "pause_us", readers->pause_us);
	results_num(results, "stall_us", frag->count.stall_us);
	results_num(results, "starts", readers->starts);
	results_num(results, "refused", readers->refused);
	results_num(results, "busy", readers->busy);
	results_num(results, "win_limbo", readers->limbo_us);
	results_num(results, "max_limbo", readers->max_limbo);
	results_num(results, "landings", readers->landings);
	results_num(results, "landing_us", readers->landing_us);
	results_num(results, "longest_landing_us", readers->longest_landing_us);
	results_num(results, "win_run_us", readers->run_us);
	results_num(results, "win_request_us", readers->request_us);
	kvmm_step_get_stat(frag->pool, &stat);
	results_num(results, "published_moves", stat.published_moves);
	results_num(results, "published_blocks", stat.published_blocks);
	results_num(results, "void_moves", stat.void_moves);
	results_say(results, "steps", "%s on %u stream%s, each reading %.3f runs a request",
		    grouped(readers->steps), readers->nr, readers->nr > 1 ? "s" : "",
		    share(readers->run_us, readers->request_us));
	results_say(results, "reader pauses", "%s, %.3f s together",
		    grouped(readers->pauses), (double)readers->pause_us / 1e6);
	results_say(results, "head waited", "%.3f s for a run, of %.1f s",
		    share(frag->count.stall_us, 1000000), (double)frag->now / 1e6);
	results_say(results, "limbo", "%.1f blocks in the mean, %s at most",
		    share(readers->limbo_us, frag->window.us), grouped(readers->max_limbo));
	results_say(results, "time to free", "%.1f ms in the mean, %.1f ms at most, %s times",
		    share(readers->landing_us, readers->landings) / 1e3,
		    (double)readers->longest_landing_us / 1e3, grouped(readers->landings));
}

#define FIRST_NS	1000000000u	/* no clock begins with 0 */
#define RETRY_US	100u		/* of a step that cannot begin */

/* ---- the engine ---- */

static u64 clock_ns(void *ctx)
{
	const struct frag *frag = ctx;

	return FIRST_NS + frag->now * NS_PER_US;
}

int readers_clock(struct frag *frag)
{
	struct kvmm_testing_host host = { .size = sizeof(host), .ctx = frag,
					  .clock_ns = clock_ns };

	frag->host = host;
	frag->readers.nr = frag->run->opt->streams;
	return frag->readers.nr ? kvmm_testing_set_host(&frag->host) : 0;
}

enum exit_code readers_init(struct frag *frag)
{
	struct kvmm_background how = KVMM_BACKGROUND_INIT;
	const struct options *opt = frag->run->opt;
	struct readers *readers = &frag->readers;
	int err = 0;

	if (!readers->nr)
		return EXIT_GOOD;
	readers->rng = frag->run->opt->seed;
	readers->reader = must_alloc(readers->nr * sizeof(*readers->reader));
	readers->reading = must_alloc(frag->run->opt->nr_blocks * sizeof(*readers->reading));
	for (u32 i = 0; !err && i < readers->nr; i++)
		err = kvmm_stream_add(frag->pool, NULL, 0, &readers->reader[i].id);
	if (err)
		return complain_of(err, "add a stream");
	if (opt->compact != COMPACT_BACKGROUND)
		return EXIT_GOOD;
	how.threshold_pm = opt->threshold_pm;
	how.interval_ms = opt->interval_ms;
	err = kvmm_background_set(frag->pool, &how);
	return err ? complain_of(err, "compaction in the background") : EXIT_GOOD;
}

void readers_exit(struct frag *frag)
{
	if (frag->readers.nr)
		kvmm_testing_set_host(NULL);
	free(frag->readers.reader);
	free(frag->readers.reading);
}

/* ---- steps ---- */

static u64 time_of_step(struct readers *readers, const struct frag *frag, u32 blocks, u32 runs)
{
	double half = frag->run->opt->step_us / 2.0, jitter = 0.9 + 0.2 * rng_unit(&readers->rng);
	double full = (double)blocks * readers->nr / frag->run->opt->nr_blocks;

	return max_u64(1, (u64)((half + half * full + runs) * jitter));
}

static void note_reading(struct frag *frag, const struct live *live, int change)
{
	for (u32 e = 0; e < live->nr_told; e++)
		for (u32 i = 0; i < live->told[e].nr; i++)
			frag->readers.reading[live->told[e].start + i] += change;
}

/* The request is part of the step that begins. */
static enum exit_code tell(struct frag *frag, u32 q)
{
	struct live *live = frag->live[q];
	bool moved = false;
	int err = frag_look_up(frag, q, &moved);

	if (err)
		return complain_of(err, "find request %u at a step", q);
	if (moved && frag_is_pinned(frag, q))
		return complain(EXIT_WRONG, "request %u is pinned, but was moved", q);
	live->nr_told = live->nr_ext;
	memcpy(live->told, live->ext, live->nr_ext * sizeof(*live->ext));
	note_reading(frag, live, 1);
	return moved ? frag_check(frag, q, live->ext, live->nr_ext, "after a move") : EXIT_GOOD;
}

/* Its old places, too, have their content to the end of the step. */
static enum exit_code forget(struct frag *frag, u32 q)
{
	struct live *live = frag->live[q];
	enum exit_code code = EXIT_GOOD;
	bool moved = false;
	int err = frag_look_up(frag, q, &moved);

	if (err)
		return complain_of(err, "find request %u at the end of a step", q);
	if (moved)
		code = frag_check(frag, q, live->told, live->nr_told, "at the end of a step");
	if (moved && !code)
		code = frag_check(frag, q, live->ext, live->nr_ext, "after a move");
	note_reading(frag, live, -1);
	live->nr_told = 0;
	return code;
}

static enum exit_code tell_all(struct frag *frag, u32 r)
{
	struct reader *reader = &frag->readers.reader[r];
	enum exit_code code = EXIT_GOOD;
	u32 runs = 0;

	for (u32 i = 0; !code && i < frag->nr_running; i++) {
		u32 q = frag->running[i];

		if (frag->live[q]->stream != r)
			continue;
		code = tell(frag, q);
		runs += frag->live[q]->nr_told;
	}
	reader->until = frag->now + time_of_step(&frag->readers, frag, reader->blocks, runs);
	return code;
}

static enum exit_code begin_step(struct frag *frag, u32 r)
{
	struct readers *readers = &frag->readers;
	struct reader *reader = &readers->reader[r];
	int err = readers->hold ? -EBUSY : kvmm_step_begin(frag->pool, reader->id, &reader->epoch);

	if (err == -EBUSY || err == -EAGAIN) {
		reader->until = reader->parked ? reader->until : frag->now;
		readers->pauses += !reader->parked;
		reader->parked = true;
		return EXIT_GOOD;
	}
	if (err)
		return complain_of(err, "begin a step");
	if (reader->parked)
		readers->pause_us += frag->now - reader->until;
	reader->parked = false;
	reader->open = true;
	readers->nr_open++;
	readers->steps++;
	return tell_all(frag, r);
}

/* Who has become through with this step is done. */
static enum exit_code finish_requests(struct frag *frag, u32 r)
{
	struct reader *reader = &frag->readers.reader[r];
	enum exit_code code = EXIT_GOOD;

	for (u32 i = 0; !code && i < frag->nr_running;) {
		u32 q = frag->running[i];
		struct live *live = frag->live[q];

		if (live->stream == r && live->nr_told)
			code = forget(frag, q);
		if (code || live->stream != r || live->ends > frag->now) {
			i++;
			continue;
		}
		reader->blocks -= live->nr;
		code = frag_finish(frag, q);
	}
	return code;
}

static enum exit_code end_step(struct frag *frag, u32 r)
{
	struct reader *reader = &frag->readers.reader[r];
	int err = kvmm_step_end(frag->pool, reader->id, reader->epoch);

	if (err)
		return complain_of(err, "end a step");
	reader->open = false;
	frag->readers.nr_open--;
	return finish_requests(frag, r);
}

/* ---- admission ---- */

static u32 least_busy(const struct readers *readers)
{
	u32 best = 0;

	for (u32 r = 1; r < readers->nr; r++)
		if (readers->reader[r].blocks < readers->reader[best].blocks)
			best = r;
	return best;
}

/* Are these blocks really nobody's? */
static enum exit_code check_unread(const struct frag *frag, const struct live *live, u32 q)
{
	for (u32 e = 0; e < live->nr_ext; e++)
		for (u32 i = 0; i < live->ext[e].nr; i++)
			if (frag->readers.reading[live->ext[e].start + i])
				return complain(EXIT_WRONG, "request %u was given block %u, which "
						"an open step reads", q, live->ext[e].start + i);
	return EXIT_GOOD;
}

enum exit_code readers_join(struct frag *frag, u32 q)
{
	struct live *live = frag->live[q];
	int err = kvmm_range_seal(frag->pool, live->range, live->nr);

	if (err)
		return complain_of(err, "seal request %u", q);
	live->stream = least_busy(&frag->readers);
	frag->readers.reader[live->stream].blocks += live->nr;
	return check_unread(frag, live, q);
}

/* ---- time ---- */

static u64 next_time(const struct frag *frag)
{
	const struct readers *readers = &frag->readers;
	const struct trace *trace = frag->run->trace;
	u64 next = UINT64_MAX;

	for (u32 r = 0; r < readers->nr; r++) {
		if (readers->reader[r].open)
			next = min_u64(next, readers->reader[r].until);
		else if (readers->reader[r].parked)
			next = min_u64(next, frag->now + RETRY_US);
	}
	if (frag->arrived < trace->nr)
		next = min_u64(next, max_u64(frag->now, trace->req[frag->arrived].arrival_us));
	return next;
}

static enum exit_code end_steps(struct frag *frag)
{
	enum exit_code code = EXIT_GOOD;

	for (u32 r = 0; !code && r < frag->readers.nr; r++)
		if (frag->readers.reader[r].open && frag->readers.reader[r].until <= frag->now)
			code = end_step(frag, r);
	return code;
}

static enum exit_code begin_steps(struct frag *frag)
{
	enum exit_code code = EXIT_GOOD;

	for (u32 r = 0; !code && r < frag->readers.nr; r++)
		if (!frag->readers.reader[r].open && frag->readers.reader[r].blocks)
			code = begin_step(frag, r);
	return code;
}

static enum exit_code do_moment(struct frag *frag)
{
	enum exit_code code = end_steps(frag);

	frag_arrive(frag);
	frag->stuck = false;
	if (!code)
		code = frag_admit(frag);
	if (!code)
		code = readers_move(frag);
	if (!code && frag->readers.hold && !frag->readers.nr_open)
		code = readers_move_held(frag);
	readers_watch(frag);
	if (!code && frag->stuck) {
		frag->stuck = false;
		code = frag_admit(frag);
	}
	return code ? code : begin_steps(frag);
}

enum exit_code readers_run(struct frag *frag)
{
	enum exit_code code;
	u64 next;
	struct kvmm_step_stat stat;

	do {
		code = do_moment(frag);
		frag_record(frag);
		progress_step(frag->run, frag->head);
		next = next_time(frag);
		if (next == UINT64_MAX)
			break;
		frag_integrate(frag, next - frag->now);
		readers_let_go_by(frag, next - frag->now);
		frag->now = next;
	} while (!code);
	/* All requests are through. */
	readers_watch(frag);
	kvmm_step_get_stat(frag->pool, &stat);
	frag->count.moved_blocks += stat.published_blocks;
	frag->count.compactions += frag->readers.starts;
	return code;
}
