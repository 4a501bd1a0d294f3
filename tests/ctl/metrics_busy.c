// SPDX-License-Identifier: Apache-2.0
/*
 * A pool of ranges that grow, are pinned and moved, beside steps and between them; promises, and requests
 * that wait. Counted from what the calls return, from where ranges lie, and from the relocations that
 * an engine with block tables is told of.
 */
#include <stdlib.h>

#include "metrics_run.h"
#include "tests/support/growth.h"

#define NAME		"busy"
#define NR_BLOCKS	128u
#define NR_WANTED	(NR_BLOCKS - 8)	/* by those who wait */
#define NR_RANGES	12u
#define NR_WAITING	4u
#define NR_PROMISES	4u
#define FAR_NS		(3600ull * 1000000000)

static struct kvmm_pool *pool;
static kvmm_stream_t stream;

static struct {
	kvmm_range_t range;
	u32 pins[KVMM_NR_PIN_TYPES];
} held[NR_RANGES];
static u32 nr_ranges;

static kvmm_ticket_t waiting[NR_WAITING];
static kvmm_mut_t waiting_mut[NR_WAITING][NR_WANTED];
static u32 nr_waiting;

static kvmm_promise_t promise[NR_PROMISES];
static u32 nr_promised[NR_PROMISES], nr_promises;

static u64 epoch;
static bool is_open, moves_fly;	/* moves beside steps are under way */

static struct {
	u64 pins[KVMM_NR_PIN_TYPES];
	u64 steps, published, compactions, moved, moves, timed_out, cancelled;
	u64 in_place, elsewhere;
	u64 left_queue, waited_ns, stalled_ns;
} count;

static u64 since_ns;		/* the queue is as it is */
static u64 queued_ns[NR_WAITING];

/* ---- ranges ---- */

static u32 nr_pins(u32 i)
{
	u32 nr = 0;

	for (u32 type = 0; type < KVMM_NR_PIN_TYPES; type++)
		nr += held[i].pins[type];
	return nr;
}

static void take_range(void)
{
	if (nr_ranges < NR_RANGES &&
	    !kvmm_range_alloc(pool, 1 + any(8), KVMM_ALLOC_NO_COMPACT | KVMM_RUNS(4),
			      &held[nr_ranges].range)) {
		memset(held[nr_ranges].pins, 0, sizeof(held[0].pins));
		nr_ranges++;
	}
}

static void give_range(void)
{
	u32 i = nr_ranges ? any(nr_ranges) : 0;

	if (nr_ranges < NR_RANGES / 2 || nr_pins(i))
		return;
	must(kvmm_range_free(pool, held[i].range), "range_free");
	held[i] = held[--nr_ranges];
}

static void pin_range(void)
{
	u32 i = nr_ranges ? any(nr_ranges) : 0, type = any(KVMM_NR_PIN_TYPES);

	if (!nr_ranges)
		return;
	if (held[i].pins[type]) {
		must(kvmm_range_unpin_as(pool, held[i].range, type), "unpin");
		held[i].pins[type]--;
		count.pins[type]--;
	} else if (any(8) == 0) {
		must(kvmm_range_pin_as(pool, held[i].range, type), "pin");
		held[i].pins[type]++;
		count.pins[type]++;
	}
}

/* Where it ends: further extents are pieces elsewhere, a longer last one is a piece in place. */
static void grow_range(void)
{
	struct kvmm_extent before[NR_BLOCKS], after[NR_BLOCKS];
	u32 i = nr_ranges ? any(nr_ranges) : 0;
	int nr_before, nr_after;

	if (!nr_ranges || any(3))
		return;
	nr_before = kvmm_range_extents(pool, held[i].range, before, NR_BLOCKS);
	must(nr_before, "extents");
	if (kvmm_range_grow(pool, held[i].range, 1 + any(3)))
		return;
	nr_after = kvmm_range_extents(pool, held[i].range, after, NR_BLOCKS);
	must(nr_after, "extents");
	count.in_place += after[nr_before - 1].nr > before[nr_before - 1].nr;
	count.elsewhere += nr_after - nr_before;
}

/* ---- steps, and moves ---- */

static void use_step(void)
{
	if (is_open) {
		must(kvmm_step_end(pool, stream, epoch), "step_end");
		is_open = false;
	} else if (!kvmm_step_begin(pool, stream, &epoch)) {
		is_open = true;
		count.steps++;
	}
}

/* Blocks that have come to lie elsewhere since the last time. No step is open. */
static u32 read_relocations(void)
{
	struct kvmm_relocation moves[NR_BLOCKS];
	int nr = kvmm_relocations(pool, stream, moves, NR_BLOCKS);
	u32 nr_blocks = 0;

	must(nr, "relocations");
	for (int i = 0; i < nr; i++)
		nr_blocks += moves[i].nr;
	count.moves += nr;
	count.moved += nr_blocks;
	if (nr)
		must(kvmm_relocations_ack(pool, stream, nr), "ack");
	return nr_blocks;
}

/* One compaction at a time, so what is read belongs to it; none if its owners had gone meanwhile. */
static void see_published(void)
{
	u32 nr = is_open ? 0 : read_relocations();

	count.published += nr;
	count.compactions += nr > 0;
	if (moves_fly && !kvmm_compact_poll(pool)) {
		moves_fly = false;
		nr = is_open ? 0 : read_relocations();
		count.published += nr;
		count.compactions += nr > 0;
	}
}

static void close_step(void)
{
	if (is_open)
		use_step();
	see_published();
	for (u32 i = 0; i < 64 && kvmm_compact_poll(pool) > 0; i++)
		;
	see_published();
}

static void compact(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 8 + any(100) };
	int err;

	close_step();
	err = kvmm_pool_compact(pool, &goal);
	if (err && err != -ENOSPC)
		must(err, "compact");
	count.compactions += goal.moved > 0;
	if (read_relocations() != goal.moved)
		must(-1, "relocations of a compaction");
}

static void move_beside(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 8 + any(100) };
	u32 mode = any(2) || is_open ? KVMM_MOVE_BESIDE : KVMM_MOVE_BETWEEN;

	if (moves_fly)
		return;
	for (u32 i = 0; i < nr_ranges; i++)
		kvmm_range_seal(pool, held[i].range, 1);
	moves_fly = !kvmm_compact_start(pool, &goal, mode) && goal.moved;
}

/* ---- the front door ---- */

/* Time in which somebody waited. */
static void see_stall(u32 nr)
{
	count.stalled_ns += nr ? now() - since_ns : 0;
	since_ns = now();
}

static void wait_for_room(void)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	bool is_late = any(3) > 0;
	int err;

	if (nr_waiting == NR_WAITING)
		return;
	see_stall(nr_waiting);
	ctl.nr = NR_WANTED;
	ctl.seq = 1;
	ctl.flags = KVMM_ALLOC_RELATIVE;
	ctl.deadline_ns = is_late ? 1 : FAR_NS;
	err = kvmm_alloc_submit(pool, &ctl, waiting_mut[nr_waiting], &waiting[nr_waiting]);
	if (!err)
		must(kvmm_free(pool, waiting_mut[nr_waiting], NR_WANTED), "free");
	if (err != -EINPROGRESS)
		return;
	queued_ns[nr_waiting] = now();
	pass(1000);
	see_stall(1);
	while (is_late && err == -EINPROGRESS)
		err = kvmm_alloc_poll(pool, waiting[nr_waiting]);
	count.timed_out += err == -ETIMEDOUT;
	count.left_queue += err != -EINPROGRESS;
	count.waited_ns += err != -EINPROGRESS ? 1000 : 0;
	nr_waiting += err == -EINPROGRESS;
}

static void wait_for_hours(void)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = NR_WANTED, .seq = 1,
				      .flags = KVMM_ALLOC_RELATIVE, .deadline_ns = 100 * FAR_NS };

	see_stall(nr_waiting);
	queued_ns[nr_waiting] = now();
	if (kvmm_alloc_submit(pool, &ctl, waiting_mut[nr_waiting], &waiting[nr_waiting]) == -EINPROGRESS)
		nr_waiting++;
}

static void stop_waiting(void)
{
	int nr;

	if (!nr_waiting)
		return;
	see_stall(nr_waiting);
	for (u32 i = 0; i < nr_waiting; i++)
		count.waited_ns += now() - queued_ns[i];
	count.left_queue += nr_waiting;
	nr = kvmm_alloc_cancel(pool, 1);
	must(nr, "cancel");
	for (u32 i = 0; i < nr_waiting; i++) {
		int err = kvmm_alloc_poll(pool, waiting[i]);

		if (!err)
			must(kvmm_free(pool, waiting_mut[i], NR_WANTED), "free");
		count.cancelled += err == -ECANCELED;
	}
	nr_waiting = 0;
}

static void promise_some(void)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	int left;

	if (any(2) && nr_promises < NR_PROMISES) {
		ctl.nr = 1 + any(6);
		if (!kvmm_promise_make(pool, &ctl, &promise[nr_promises]))
			nr_promised[nr_promises++] = ctl.nr;
	} else if (nr_promises) {
		left = kvmm_promise_end(pool, promise[--nr_promises]);
		if (left != (int)nr_promised[nr_promises])
			must(-1, "promise_end");
	}
}

static void busy_use(void)
{
	static void (*const ops[])(void) = { take_range, take_range, give_range, give_range, pin_range, grow_range,
					     grow_range, use_step, use_step, compact, move_beside,
					     wait_for_room, stop_waiting, stop_waiting, stop_waiting,
					     promise_some };

	ops[any(ARRAY_SIZE(ops))]();
	see_published();
}

/* ---- what is expected ---- */

/* For an hour somebody waits, or nobody does: then averages are what the last periods were. */
static void expect_stalls(void)
{
	static const char *const window[] = { "10s", "60s", "300s" };
	bool is_stalled = run_seed % 2;
	char more[32];

	if (is_stalled && !nr_waiting)
		wait_for_hours();
	if (!is_stalled)
		stop_waiting();
	see_stall(nr_waiting);
	pass(FAR_NS);
	see_stall(nr_waiting);
	for (u32 i = 0; i < KVMM_NR_AVGS; i++) {
		snprintf(more, sizeof(more), ",window=\"%s\"", window[i]);
		expect_between("kvmm_pressure_some_ratio", NAME, more, is_stalled, is_stalled);
		expect_between("kvmm_pressure_full_ratio", NAME, more, is_stalled, is_stalled);
	}
	expect_between("kvmm_pressure_some_seconds_total", NAME, "", count.stalled_ns / 1000 / 1e6,
		       count.stalled_ns / 1000 / 1e6);
	expect_between("kvmm_pressure_full_seconds_total", NAME, "", count.stalled_ns / 1000 / 1e6,
		       count.stalled_ns / 1000 / 1e6);
	expect("kvmm_queue_wait_seconds_count", NAME, "", count.left_queue);
	expect_between("kvmm_queue_wait_seconds_sum", NAME, "", count.waited_ns / 1e9, count.waited_ns / 1e9);
}

static u64 nr_reserved(void)
{
	u64 nr = 0;

	for (u32 i = 0; i < nr_ranges; i++)
		nr += growth_of_range(pool, held[i].range).reserved.nr;
	return nr;
}

static void busy_expect(void)
{
	u64 promised = 0;

	close_step();
	for (u32 i = 0; i < nr_promises; i++)
		promised += nr_promised[i];
	expect_pins("kvmm_pinned_ranges", NAME, count.pins);
	expect_stalls();
	expect("kvmm_ranges", NAME, "", nr_ranges);
	expect("kvmm_open_steps", NAME, "", is_open);
	expect("kvmm_steps_total", NAME, "", count.steps);
	expect("kvmm_published_blocks_total", NAME, "", count.published);
	expect("kvmm_copying_blocks", NAME, "", 0);
	expect("kvmm_limbo_blocks", NAME, "", 0);
	expect("kvmm_compactions_total", NAME, "", count.compactions);
	expect("kvmm_moved_blocks_total", NAME, "", count.moved);
	expect("kvmm_moves_total", NAME, "", count.moves);
	expect("kvmm_reserved_blocks", NAME, "", nr_reserved());
	expect("kvmm_grown_in_place_total", NAME, "", count.in_place);
	expect("kvmm_grown_elsewhere_total", NAME, "", count.elsewhere);
	expect("kvmm_waiting_requests", NAME, "", nr_waiting);
	expect("kvmm_timed_out_requests_total", NAME, "", count.timed_out);
	expect("kvmm_cancelled_requests_total", NAME, "", count.cancelled);
	expect("kvmm_promised_blocks", NAME, "", promised);
	expect("kvmm_min_watermark_blocks", NAME, "", 2);
	expect("kvmm_low_watermark_blocks", NAME, "", 4);
	expect("kvmm_high_watermark_blocks", NAME, "", 8);
}

static struct kvmm_pool *busy_make(const char *dir)
{
	const struct kvmm_watermarks marks = { 2, 4, 8 };

	pool = make_pool(NAME, NR_BLOCKS, 0, "lru");
	must(kvmm_watermarks_set(pool, &marks), "watermarks");
	must(kvmm_stream_add(pool, NULL, KVMM_STREAM_TABLES, &stream), "stream");
	return pool;
}

static void busy_end(void)
{
	kvmm_pool_destroy(pool);
}

const struct part metrics_busy = { busy_make, busy_use, busy_expect, busy_end };
