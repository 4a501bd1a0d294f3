// SPDX-License-Identifier: Apache-2.0
/*
 * Moves on a device that fails when it is told to: copies are refused, fail later, or take their time, and
 * the device goes blind. What is copied, and what of it fails, is counted below the pool; what becomes of
 * it, from the relocations that an engine with block tables is told of.
 */
#include "metrics_dev.h"
#include "metrics_run.h"

#define NAME		"flights"
#define NR_BLOCKS	96u
#define NR_RANGES	16u
#define BYTES		256u
#define STEP_BLOCKS	2u

static struct metrics_dev *const dev = &metrics_dev;

static struct kvmm_pool *pool;
static kvmm_stream_t stream;
static u64 epoch;
static bool is_open;

static struct {
	kvmm_range_t range;
	u32 nr;
} held[NR_RANGES];
static u32 nr_ranges;

/* The one under way: what was begun, and what of it has a new place. */
static struct {
	bool is_there;
	u32 mode, nr_moves, nr_blocks, published_moves, published_blocks;
	u64 copied_before;
} flight;

static struct {
	u64 steps, moves, moved, compactions, voids, failed, cancelled, lost, copied, denied, unseen;
} count;

/* ---- ranges; none of these calls looks at moves ---- */

static void take_range(void)
{
	u32 nr = 1 + any(6);

	if (nr_ranges == NR_RANGES ||
	    kvmm_range_alloc(pool, nr, KVMM_ALLOC_NOWAIT | KVMM_RUNS(4), &held[nr_ranges].range))
		return;
	must(kvmm_range_seal(pool, held[nr_ranges].range, nr), "seal");
	held[nr_ranges++].nr = nr;
}

static void give_range(void)
{
	u32 i = nr_ranges ? any(nr_ranges) : 0;

	if (nr_ranges < NR_RANGES / 2)
		return;
	must(kvmm_range_free(pool, held[i].range), "range_free");
	count.unseen += dev->is_blind ? held[i].nr : 0;
	held[i] = held[--nr_ranges];
}

/* ---- calls that look at moves ---- */

/*
 * One was made when @before copies had been. It was to go on with a copy, and has not: the step bears no
 * more of it.
 */
static void see_denial(u64 before, u32 nr_blocks)
{
	if (nr_blocks && dev->nr_copies == before)
		count.denied++;
}

/* Of a copy beside steps, what is still to be begun, and would be now. */
static u32 nr_to_copy(void)
{
	if (!flight.is_there || flight.mode != KVMM_MOVE_BESIDE || dev->is_slow || dev->fails)
		return 0;
	return flight.nr_blocks - (u32)(dev->copied_blocks - flight.copied_before);
}

static void see_relocations(void)
{
	struct kvmm_relocation moves[NR_BLOCKS];
	int nr = kvmm_relocations(pool, stream, moves, NR_BLOCKS);
	u64 before = dev->nr_copies;
	u32 nr_left = nr_to_copy();

	must(nr, "relocations");
	if (!nr || is_open)
		return;
	flight.published_moves += nr;
	for (int i = 0; i < nr; i++)
		flight.published_blocks += moves[i].nr;
	must(kvmm_relocations_ack(pool, stream, nr), "ack");
	see_denial(before, nr_left);
}

static int poll(void)
{
	u64 before = dev->nr_copies;
	u32 nr_left = nr_to_copy();
	int nr = kvmm_compact_poll(pool);

	must(nr, "poll");
	see_denial(before, nr_left);
	return nr;
}

static void end_step(void)
{
	u64 before = dev->nr_copies;
	u32 nr_left = nr_to_copy();

	if (!is_open)
		return;
	must(kvmm_step_end(pool, stream, epoch), "step_end");
	is_open = false;
	see_denial(before, nr_left);
	see_relocations();
}

static void use_step(void)
{
	u64 before = dev->nr_copies;
	u32 nr_left = nr_to_copy();

	if (is_open)
		return end_step();
	must(kvmm_step_begin(pool, stream, &epoch), "step_begin");
	is_open = true;
	count.steps++;
	see_denial(before, nr_left);
}

/* ---- moves ---- */

static void take_off(u32 mode)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 6 + any(70) };
	u64 before = dev->nr_copies, refused = dev->refused_moves;
	int err;

	flight.copied_before = dev->copied_blocks;
	err = kvmm_compact_start(pool, &goal, mode);
	if (err == -EIO)
		count.failed += dev->refused_moves - refused;
	else if (err && err != -ENOSPC)
		must(err, "compact_start");
	if (err || !goal.moved)
		return;
	flight.is_there = true;
	flight.mode = mode;
	flight.nr_moves = goal.nr_moves;
	flight.nr_blocks = goal.moved;
	flight.published_moves = flight.published_blocks = 0;
	see_denial(before, mode == KVMM_MOVE_BESIDE ? goal.moved : 0);
	see_relocations();
}

/* Beside steps nothing was published before it failed, between them all that was not void. */
static void count_flight(bool is_good)
{
	count.moves += flight.published_moves;
	count.moved += flight.published_blocks;
	count.compactions += flight.published_moves > 0;
	if (is_good || flight.mode == KVMM_MOVE_BETWEEN)
		count.voids += flight.nr_moves - flight.published_moves;
	if (!is_good) {
		count.failed += flight.nr_moves;
		count.lost += flight.published_blocks;
	}
	flight.is_there = false;
}

static void land(void)
{
	dev->is_slow = false;
	end_step();
	for (u32 i = 0; i < 64 && poll(); i++)
		see_relocations();
	if (poll())
		must(-1, "moves do not end");
	see_relocations();
	count_flight(true);
}

/* Places that a copy was to go to, and what is given back, are nobody's until the end of it is seen. */
static void crash(bool is_blind)
{
	u32 nr_left;

	end_step();
	dev->is_slow = false;
	dev->fails = true;
	dev->is_blind = is_blind;
	if (dev->is_blind && flight.mode == KVMM_MOVE_BESIDE)
		count.unseen += flight.nr_blocks;
	nr_left = poll();
	count_flight(false);
	dev->fails = false;
	if (!dev->is_blind)
		nr_left = poll();
	if (!nr_left != !dev->is_blind)
		must(-1, "old places, as far as the device sees");
	for (u32 i = 0; i < 3 && dev->is_blind; i++)
		give_range();
}

static void see_again(void)
{
	if (!dev->is_blind)
		return;
	dev->is_blind = false;
	if (poll())
		must(-1, "moves do not end");
	count.unseen = 0;
}

static void cancel(void)
{
	int nr;

	if (flight.mode == KVMM_MOVE_BETWEEN)
		return land();
	nr = kvmm_compact_cancel(pool);
	if (nr != (int)flight.nr_blocks)
		must(-1, "what is cancelled");
	dev->is_slow = false;
	count.cancelled += flight.nr_moves;
	flight.is_there = false;
}

/* Given back while it is copied, a range makes its moves void. Blind, nobody could say what of it. */
static void use_ranges(bool gives)
{
	for (u32 i = any(6); i; i--) {
		if (gives && any(2))
			give_range();
		else
			take_range();
	}
}

static void move(u32 mode)
{
	bool gives = any(2);

	end_step();
	if (mode == KVMM_MOVE_BESIDE && any(2))
		use_step();
	dev->is_slow = any(2);
	dev->refuses = !is_open && !any(4);	/* all of it: no step says how much it bears */
	take_off(mode);
	dev->refuses = false;
	if (!flight.is_there)
		return;
	use_ranges(gives);
	for (u32 i = any(4); i; i--)
		any(2) ? use_step() : (void)poll();
	if (dev->is_slow && any(2))
		cancel();
	else if (dev->is_slow && !gives)
		crash(any(2));
	else
		land();
}

static void flights_use(void)
{
	u64 before = dev->copied_blocks;

	see_again();
	use_ranges(true);
	if (any(3))
		move(any(2) ? KVMM_MOVE_BESIDE : KVMM_MOVE_BETWEEN);
	dev->is_slow = false;
	if (any(2))
		use_step();
	count.copied += dev->copied_blocks - before;
}

/* ---- what is expected ---- */

/* Moves under way: blocks that are copied, old places that may be read, or what nobody may have. */
static void leave_something(u32 *nr_copying, u32 *nr_limbo)
{
	see_again();
	end_step();
	dev->is_slow = true;
	for (u32 i = 0; i < 50 && !flight.is_there; i++) {
		use_ranges(true);
		take_off(run_seed % 3 ? KVMM_MOVE_BESIDE : KVMM_MOVE_BETWEEN);
	}
	if (!flight.is_there)
		return;
	if (flight.mode == KVMM_MOVE_BETWEEN) {
		*nr_limbo = flight.published_blocks;
		count_flight(true);
	} else if (run_seed % 3 == 1) {
		*nr_copying = flight.nr_blocks;
		use_step();
	} else {
		crash(true);
	}
}

static void flights_expect(void)
{
	u32 nr_copying = 0, nr_limbo = 0;
	u64 before = dev->copied_blocks;

	leave_something(&nr_copying, &nr_limbo);
	count.copied += dev->copied_blocks - before;
	expect("kvmm_ranges", NAME, "", nr_ranges);
	expect("kvmm_steps_total", NAME, "", count.steps);
	expect("kvmm_moves_total", NAME, "", count.moves);
	expect("kvmm_moved_blocks_total", NAME, "", count.moved);
	expect("kvmm_published_blocks_total", NAME, "", count.moved);
	expect("kvmm_compactions_total", NAME, "", count.compactions);
	expect("kvmm_void_moves_total", NAME, "", count.voids);
	expect("kvmm_failed_moves_total", NAME, "", count.failed);
	expect("kvmm_cancelled_moves_total", NAME, "", count.cancelled);
	expect("kvmm_lost_blocks_total", NAME, "", count.lost);
	expect("kvmm_paced_bytes_total", NAME, "", count.copied * BYTES);
	expect("kvmm_paced_denials_total", NAME, "", count.denied);
	expect("kvmm_open_steps", NAME, "", is_open);
	expect("kvmm_copying_blocks", NAME, "", nr_copying);
	expect("kvmm_limbo_blocks", NAME, "", nr_limbo);
	expect("kvmm_unseen_blocks", NAME, "", count.unseen);
}

static struct kvmm_pool *flights_make(const char *dir)
{
	struct kvmm_pace pace = { .size = sizeof(pace), .bytes_per_step = STEP_BLOCKS * BYTES };

	pool = make_pool(NAME, NR_BLOCKS, BYTES, NULL);
	metrics_dev_of(pool);
	must(kvmm_stream_add(pool, NULL, KVMM_STREAM_TABLES, &stream), "stream");
	must(kvmm_pace_set(pool, &pace), "pace");
	return pool;
}

static void flights_end(void)
{
	*dev = (struct metrics_dev){ 0 };
	kvmm_pool_destroy(pool);
}

const struct part metrics_flights = { flights_make, flights_use, flights_expect, flights_end };
