// SPDX-License-Identifier: Apache-2.0
/*
 * The engine of mode frag that makes steps: see readers.h.
 *
 * Nothing is believed of what the library promises. Which blocks each open step was told is kept,
 * and a request that is given one of them is an error; where a step read what has moved meanwhile,
 * its old places are compared at its end. A step that cannot begin is tried again, and the time
 * until it does is a pause.
 */
#include <stdlib.h>
#include <string.h>

#include <kvmm/testing.h>

#include "progress.h"
#include "readers.h"

#define NS_PER_US	1000u
#define FIRST_NS	1000000000u	/* no clock begins with 0 */
#define RETRY_US	100u		/* of a step that cannot begin */

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
	struct readers *readers = &frag->readers;
	int err = 0;

	if (!readers->nr)
		return EXIT_GOOD;
	readers->rng.state = frag->run->opt->seed;
	readers->reader = calloc(readers->nr, sizeof(*readers->reader));
	readers->reading = calloc(frag->run->opt->nr_blocks, sizeof(*readers->reading));
	if (!readers->reader || !readers->reading)
		return complain_of(-ENOMEM, "start");
	for (u32 i = 0; !err && i < readers->nr; i++)
		err = kvmm_stream_add(frag->pool, NULL, 0, &readers->reader[i].id);
	return err ? complain_of(err, "add a stream") : readers_begin(frag);
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

static void park(struct frag *frag, struct reader *reader)
{
	if (reader->parked)
		return;
	reader->parked = true;
	reader->until = frag->now;
	frag->readers.pauses++;
}

static enum exit_code begin_step(struct frag *frag, u32 r)
{
	struct readers *readers = &frag->readers;
	struct reader *reader = &readers->reader[r];
	int err = readers->hold ? -EBUSY : kvmm_step_begin(frag->pool, reader->id, &reader->epoch);

	if (err == -EBUSY || err == -EAGAIN) {
		park(frag, reader);
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

static enum exit_code join(struct frag *frag, u32 q)
{
	struct live *live = frag->live[q];
	int err = kvmm_range_seal(frag->pool, live->range, live->nr);

	if (err)
		return complain_of(err, "seal request %u", q);
	live->stream = least_busy(&frag->readers);
	frag->readers.reader[live->stream].blocks += live->nr;
	return check_unread(frag, live, q);
}

static enum exit_code try_head(struct frag *frag, u32 nr, kvmm_range_t *range, int *err)
{
	struct kvmm_zone_stat stat = frag_zone_stat(frag);
	bool first = !frag->head_tried;

	frag_count_try(frag, nr, &stat);
	frag->head_tried = true;
	*err = frag_allocate(frag, nr, KVMM_ALLOC_NO_COMPACT, range);
	if (*err && *err != -ENOSPC)
		return complain_of(*err, "allocate %u blocks", nr);
	if (!*err || !first)
		return EXIT_GOOD;
	frag->head_failed = frag->now;
	return frag_count_failure(frag, nr, frag_nr_free(frag));
}

static enum exit_code take_head(struct frag *frag, u32 nr)
{
	enum exit_code code;
	kvmm_range_t range;
	u32 q = frag->head;
	int err;

	code = try_head(frag, nr, &range, &err);
	frag->stuck = err != 0;
	if (code || err)
		return code;
	if (frag->head_failed != UINT64_MAX)
		frag->count.stall_us += frag->now - frag->head_failed;
	frag->head_failed = UINT64_MAX;
	code = frag_start(frag, range, nr, nr);
	frag_next_head(frag);
	return code ? code : join(frag, q);
}

static enum exit_code admit(struct frag *frag)
{
	enum exit_code code = EXIT_GOOD;

	frag->stuck = false;
	while (!code && !frag->stuck && frag->head < frag->arrived) {
		u32 nr = frag_blocks_wanted(frag, frag->head);

		if (nr > frag->limit) {
			frag->count.rejected++;
			frag_next_head(frag);
		} else if (frag->asked + nr > frag->limit) {
			break;
		} else {
			code = take_head(frag, nr);
		}
	}
	return code;
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
	if (!code)
		code = admit(frag);
	if (!code)
		code = readers_move(frag);
	if (!code && frag->readers.hold && !frag->readers.nr_open)
		code = readers_move_held(frag);
	readers_watch(frag);
	if (!code && frag->stuck)
		code = admit(frag);
	return code ? code : begin_steps(frag);
}

enum exit_code readers_run(struct frag *frag)
{
	enum exit_code code;
	u64 next;

	frag->head_failed = UINT64_MAX;
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
	readers_end(frag);
	return code;
}
