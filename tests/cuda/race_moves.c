// SPDX-License-Identifier: Apache-2.0
/* All that moves blocks, takes memory away, or looks at content. */
#include "pool/internal.h"
#include "offline/leave.h"
#include "race.h"

#define UNIT	(4 * BYTES)

/* ---- goals ---- */

static bool matter_of_course(int err)
{
	return !err || err == -ENOSPC || err == -EBUSY || err == -EAGAIN;
}

static void choose_goal(struct kvmm_compact_goal *goal)
{
	const struct thing *thing = &w.thing[below(NR_THINGS)];

	*goal = (struct kvmm_compact_goal)KVMM_COMPACT_GOAL_INIT;
	goal->goal = below(KVMM_NR_GOALS);
	goal->mode = below(KVMM_NR_MOVE_MODES);
	goal->flags = below(4);
	goal->want = goal->goal == KVMM_GOAL_RUN ? 2 + below(14) : below(4);
	goal->max_blocks = below(3) ? 0 : 1 + below(8);
	if (goal->goal == KVMM_GOAL_PAGEBLOCKS) {
		goal->pageblock_blocks = 4 << below(2);
		goal->want++;
	}
	if (goal->goal == KVMM_GOAL_GATHER) {
		goal->goal = thing->kind == RANGE ? KVMM_GOAL_GATHER : KVMM_GOAL_SHORTEN;
		goal->range = thing->range;
	}
}

static void start_goal(void)
{
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;
	struct kvmm_compact_goal goal;
	int err;

	choose_goal(&goal);
	err = kvmm_compact_goal_start(w.pool, &goal, &plan);
	expect(matter_of_course(err), "moves for a goal", err);
	if (err)
		return;
	w.nr_started[goal.goal] += plan.nr_moves > 0;
	w.nr_dropped += plan.nr_drops;
}

static void start_run(void)
{
	struct kvmm_compact run = { .size = sizeof(run), .want_run = 2 + below(12) };
	int err = kvmm_compact_start(w.pool, &run, below(KVMM_NR_MOVE_MODES));

	expect(matter_of_course(err), "moves for a run", err);
}

void do_move(void)
{
	if (below(2))
		start_goal();
	else
		start_run();
}

/* Between steps, on the spot; while one is open it is refused. */
void do_direct(void)
{
	struct kvmm_compact run = { .size = sizeof(run), .want_run = below(2) ? 2 + below(10) : 0 };
	int err = kvmm_pool_compact(w.pool, &run);

	expect(matter_of_course(err), "compaction on the spot", err);
}

/* ---- memory that goes and comes ---- */

/* It is somebody else's from now on, and he was told of nothing that is under way. */
static void use_elsewhere(const struct kvmm_mem_range *ranges, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		MUST(cu.memset_d8_async(ranges[i].addr, 0xee, ranges[i].bytes, w.stranger));
		for (u64 at = 0; at < ranges[i].bytes; at += UNIT)
			w.has_unit[(ranges[i].addr - w.base + at) / UNIT] = true;
	}
}

static void take_told(void)
{
	struct kvmm_mem_range told[NR_BLOCKS];
	int nr = kvmm_pool_freed(w.pool, told, NR_BLOCKS);

	expect(nr >= 0, "memory that is told of", nr);
	if (nr > 0)
		use_elsewhere(told, nr);
}

/* Up to @max units of it. */
static void hand_back(u32 max)
{
	struct kvmm_mem_range back[NR_BLOCKS];
	struct kvmm_regain req = { .size = sizeof(req), .ranges = back };
	int err;

	MUST(cu.stream_synchronize(w.stranger));
	for (u32 i = 0; i < NR_BLOCKS && req.nr_ranges < max; i++)
		if (w.has_unit[i])
			back[req.nr_ranges++] = (struct kvmm_mem_range){ w.base + i * UNIT, UNIT };
	if (!req.nr_ranges)
		return;
	err = kvmm_pool_grow(w.pool, &req);
	expect(!err || err == -EBUSY, "memory is handed back", err);
	for (u32 i = 0; i < req.nr_ranges && !err; i++)
		w.has_unit[(back[i].addr - w.base) / UNIT] = false;
}

static void shrink_start(void)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 8 * (1 + below(3)),
				   .min_blocks = 1 };
	int err = kvmm_pool_shrink_start(w.pool, &req, below(KVMM_NR_MOVE_MODES));

	expect(matter_of_course(err), "memory is to be given back", err);
}

static void shrink_now(void)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 8, .min_blocks = 1,
				   .flags = below(2) ? KVMM_SHRINK_NO_EVICT : 0 };
	int err = kvmm_pool_shrink(w.pool, &req);

	expect(matter_of_course(err), "memory is given back", err);
}

/* Rule 11 is the library's: it forgets what it waits for. */
static void shrink_poll(void)
{
	int err;

	if (w.broken == GONE_IS_UNREAD && w.pool->elastic)
		w.pool->elastic->wait.epoch = 0;
	err = kvmm_pool_shrink_poll(w.pool, NULL);
	expect(err == 1 || !err || err == -ENOSPC, "memory is on its way", err);
}

static void set_balloon(void)
{
	int err = kvmm_balloon_set(w.pool, (u64)below(3) * 8 * BYTES);

	expect(!err, "a balloon", err);
}

void have_all_again(void)
{
	struct kvmm_regain req = { .size = sizeof(req) };

	MUST(kvmm_balloon_set(w.pool, 0));
	take_told();
	hand_back(NR_BLOCKS);
	kvmm_pool_grow(w.pool, &req);
}

void do_elastic(void)
{
	switch (below(13)) {
	case 0:
		shrink_start();
		break;
	case 1:
		shrink_now();
		break;
	case 2:
		set_balloon();
		break;
	case 3:
		kvmm_pool_shrink_cancel(w.pool);
		break;
	case 4: case 5:
		shrink_poll();
		break;
	case 6: case 7: case 8:
		hand_back(1 + below(8));
		break;
	case 9:
		/* Something ends, and what it had is for others at once. */
		give_back(below(NR_THINGS));
		shrink_start();
		for (u32 i = 0; i < 3; i++)
			shrink_poll();
		take_told();
		break;
	default:
		take_told();
	}
}

/* ---- how fast, and how right ---- */

void do_pace(void)
{
	struct kvmm_pace pace = { .size = sizeof(pace) };

	pace.bytes_per_step = below(2) ? 0 : (1 + below(3)) * BYTES;
	pace.bytes_per_ms = below(4) ? 0 : (1 + below(8)) * BYTES;
	expect(!kvmm_pace_set(w.pool, &pace), "a pace", 0);
}

void do_sums(void)
{
	struct kvmm_verify_stat stat;
	int ret = kvmm_verify_tick(w.pool);

	expect(ret >= 0, "checksums", ret);
	MUST(kvmm_verify_get_stat(w.pool, &stat));
	expect(!stat.bad_blocks && !stat.bad_copies, "content is as it was summed", 0);
}

/* What nobody asks for: now and then, and sometimes not at all. */
void do_tick(void)
{
	struct kvmm_background how = { .size = sizeof(how), .max_blocks = 1024, .interval_ms = 1,
				       .threshold_pm = 100 };
	int err;

	how.mode = below(KVMM_NR_MOVE_MODES);
	how.flags = below(2) ? KVMM_BACKGROUND_SHORTEN : 0;
	err = one_in(16) ? kvmm_background_set(w.pool, below(2) ? &how : NULL) : 0;
	expect(!err, "background", err);
	err = kvmm_background_tick(w.pool);
	expect(err >= 0, "background", err);
}

void do_cancel(void)
{
	expect(kvmm_compact_cancel(w.pool) >= 0, "moves are cancelled", 0);
}
