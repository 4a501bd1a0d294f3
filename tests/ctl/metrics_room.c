// SPDX-License-Identifier: Apache-2.0
/*
 * How room is made for ranges of one run. What a request does is told from what was free, reserved, kept
 * aside and cached before it, and from what has moved, or lost its name or its reservation, after it. Two
 * pools: in one, moving a block is cheaper than dropping it, in the other it is the other way round.
 */
#include <kv/zone.h>

#include "metrics_run.h"
#include "tests/support/growth.h"

#define NR_BLOCKS	640u		/* a pool that has magazines */
#define NR_RANGES	48u
#define NR_NAMES	250u
#define MOST		(NR_BLOCKS / 5)

struct room {
	const char *name;
	bool drops;
	struct kvmm_pool *pool;
	struct kvmm_events *events;
	kvmm_stream_t stream;
	kvmm_range_t range[NR_RANGES];
	u32 reserved[NR_RANGES];	/* behind each, when it was looked at last */
	bool is_pinned[NR_RANGES];
	u32 nr_ranges;
	u64 taken[KVMM_NR_STEPS], skipped[KVMM_NR_STEPS], saved[KVMM_NR_STEPS];
	u64 slow, fragmented, nospc, stolen;
};

static struct room rooms[2] = { { .name = "moves" }, { .name = "drops", .drops = true } };
static struct room *room;

/* ---- what there is ---- */

struct sight {
	u32 nr_free;		/* reserved ones and those kept aside, too */
	u32 nr_inactive;
	u32 nr_reserved;
	u32 nr_aside;
	u32 nr_zone;		/* free in the zone */
	u32 longest;		/* run there */
};

static u32 reserved_behind(u32 i)
{
	return growth_of_range(room->pool, room->range[i]).reserved.nr;
}

static struct sight look(void)
{
	struct kv_zone_stat zone;
	struct kvmm_block_info info;
	struct sight sight = { 0 };

	for (u32 i = 0; i < NR_BLOCKS; i++) {
		must(kvmm_block_get_info(room->pool, i, &info), "block_info");
		sight.nr_free += info.state == KVMM_BLOCK_FREE;
		sight.nr_inactive += info.state == KVMM_BLOCK_INACTIVE;
	}
	for (u32 i = 0; i < room->nr_ranges; i++) {
		room->reserved[i] = reserved_behind(i);
		sight.nr_reserved += room->reserved[i];
	}
	kv_zone_get_stat(kv_pool_zone(room->pool), &zone);
	sight.nr_zone = zone.nr_free;
	sight.longest = zone.largest;
	sight.nr_aside = sight.nr_free - sight.nr_reserved - zone.nr_free;
	return sight;
}

/* What others than @own had behind them, and have no more. */
static u32 see_stolen(u32 own)
{
	u32 nr = 0;

	for (u32 i = 0; i < room->nr_ranges; i++) {
		u32 now = i == own ? 0 : reserved_behind(i);

		nr += i != own && now < room->reserved[i] ? room->reserved[i] - now : 0;
	}
	room->stolen += nr;
	return nr;
}

static u32 nr_evicted(void)
{
	struct kvmm_event removed[2 * NR_BLOCKS];

	return read_removed(room->events, removed, ARRAY_SIZE(removed));
}

static bool has_moved(void)
{
	struct kvmm_relocation moves[NR_BLOCKS];
	int nr = kvmm_relocations(room->pool, room->stream, moves, NR_BLOCKS);

	must(nr, "relocations");
	if (nr)
		must(kvmm_relocations_ack(room->pool, room->stream, nr), "ack");
	return nr > 0;
}

/* ---- what is done ---- */

static void did(u32 step, bool saved)
{
	room->taken[step]++;
	room->saved[step] += saved;
}

/* The second time in a row nothing has changed, and nobody tries. Then something does. */
static void ask_in_vain(u32 nr)
{
	kvmm_range_t range;

	if (any(2)) {
		if (kvmm_range_alloc(room->pool, nr, KVMM_RUNS(1), &range) != -ENOSPC)
			must(-1, "what was useless");
		room->slow++;
		room->fragmented++;
		room->skipped[KVMM_STEP_COMPACT]++;
	}
	if (!kvmm_range_alloc(room->pool, 1, KVMM_ALLOC_NOWAIT | KVMM_RUNS(1), &range))
		must(kvmm_range_free(room->pool, range), "range_free");
}

/* It was not there at once. */
static void see_how(const struct sight *before, u32 nr, bool compacts, int err)
{
	u32 shortfall = nr > before->nr_free ? nr - before->nr_free : 0;
	u32 stolen = see_stolen(KV_NONE), evicted = nr_evicted();
	bool moved = has_moved(), at_once = !err && !evicted && !moved;
	struct sight after = look();

	/* Reservations are taken when the request fits then, at once or after room was made. */
	if (stolen)
		did(KVMM_STEP_STEAL, true);
	must(err && stolen ? -1 : 0, "taken in vain");
	if (stolen && at_once && after.nr_aside == before->nr_aside)
		return;
	room->slow++;
	if (before->nr_aside)
		did(KVMM_STEP_DRAIN, at_once);
	if (at_once)
		return;
	if (shortfall > before->nr_inactive) {
		room->nospc++;
		must(err == -ENOSPC ? 0 : -1, "more than there is");
		return;
	}
	if (shortfall)
		did(KVMM_STEP_EVICT, !err && !moved && evicted == shortfall);
	if (!err && !moved && evicted == shortfall)
		return;
	room->fragmented++;
	if (!err && !moved)
		did(KVMM_STEP_DROP, true);
	else if (!err)
		did(KVMM_STEP_COMPACT, true);
	else if (compacts)
		ask_in_vain(nr);
}

/* Compaction drops reservations, and is weighed against evictions: neither is to be told apart then. */
static void take_range(void)
{
	struct sight before = look();
	u32 nr = 1 + any(any(4) ? MOST / 4 : MOST);
	bool compacts = !room->drops && !before.nr_reserved && nr <= before.nr_free && any(4);
	u32 flags = compacts ? 0 : KVMM_ALLOC_NO_COMPACT;
	int err;

	if (room->nr_ranges == NR_RANGES)
		return;
	err = kvmm_range_alloc(room->pool, nr, flags | KVMM_RUNS(1), &room->range[room->nr_ranges]);
	if (err && err != -ENOSPC)
		must(err, "range_alloc");
	if (before.longest < nr)
		see_how(&before, nr, compacts, err);
	else
		must(err, "a run that is there");
	room->nr_ranges += !err;
	if (!err)
		room->reserved[room->nr_ranges - 1] = room->is_pinned[room->nr_ranges - 1] = 0;
}

static void give_range(void)
{
	u32 i = room->nr_ranges ? any(room->nr_ranges) : 0;

	if (room->nr_ranges < NR_RANGES / 4 || room->is_pinned[i])
		return;
	must(kvmm_range_free(room->pool, room->range[i]), "range_free");
	room->range[i] = room->range[--room->nr_ranges];
	room->is_pinned[i] = room->is_pinned[room->nr_ranges];
}

/* What is pinned does not move, so there are runs that cannot be made. */
static void pin_range(void)
{
	u32 i = room->nr_ranges ? any(room->nr_ranges) : 0;

	if (!room->nr_ranges)
		return;
	if (room->is_pinned[i])
		must(kvmm_range_unpin(room->pool, room->range[i]), "unpin");
	else
		must(kvmm_range_pin(room->pool, room->range[i]), "pin");
	room->is_pinned[i] = !room->is_pinned[i];
}

/* As long as there is room enough in the zone. */
static void grow_range(void)
{
	struct sight before = look();
	u32 i = room->nr_ranges ? any(room->nr_ranges) : 0, nr = 1 + any(4);

	if (!room->nr_ranges || room->drops || before.nr_zone < 64)
		return;
	must(kvmm_range_grow(room->pool, room->range[i], nr), "grow");
	see_stolen(i);
}

static void use_names(void)
{
	struct sight before = look();

	if (before.nr_zone < 2 * 64)
		return;
	for (u32 i = any(12); i; i--) {
		struct prompt prompt = { .number = any(NR_NAMES), .nr = 1 };

		must(use_prompt(room->pool, &prompt, NULL), "acquire");
		put_prompt(room->pool, &prompt);
	}
	nr_evicted();
}

/* This thread keeps some for its next request. */
static void keep_aside(void)
{
	struct sight before = look();
	kvmm_mut_t mut[8];

	if (before.nr_zone < 2 * 64)
		return;
	must(kvmm_alloc(room->pool, ARRAY_SIZE(mut), mut), "alloc");
	must(kvmm_free(room->pool, mut, ARRAY_SIZE(mut)), "free");
}

static void room_use(void)
{
	static void (*const ops[])(void) = { take_range, take_range, take_range, give_range, give_range,
					     pin_range, grow_range, use_names, keep_aside };

	room = &rooms[any(2)];
	ops[any(ARRAY_SIZE(ops))]();
}

/* ---- what is expected ---- */

static void expect_room(void)
{
	struct sight sight = look();
	char more[32];

	for (u32 i = 0; i < KVMM_NR_STEPS; i++) {
		snprintf(more, sizeof(more), ",step=\"%s\"", kvmm_step_name(i));
		expect("kvmm_reclaim_steps_total", room->name, more, room->taken[i]);
		expect("kvmm_reclaim_skips_total", room->name, more, room->skipped[i]);
		expect("kvmm_reclaim_saves_total", room->name, more, room->saved[i]);
	}
	expect("kvmm_reserved_blocks", room->name, "", sight.nr_reserved);
	expect("kvmm_stolen_blocks_total", room->name, "", room->stolen);
	expect("kvmm_fragmented_total", room->name, "", room->fragmented);
	expect("kvmm_no_space_total", room->name, "", room->nospc);
	expect("kvmm_make_room_seconds_count", room->name, "", room->slow);
}

static void make_room(void)
{
	struct kvmm_alloc_attr door = { .size = sizeof(door) };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	if (room->drops)
		door.costs = (struct kvmm_alloc_costs){ 1000, 1, 0 };
	attr.name = room->name;
	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	attr.alloc = &door;
	must(kvmm_pool_create(&attr, &room->pool), "pool");
	must(kvmm_stream_add(room->pool, NULL, KVMM_STREAM_TABLES, &room->stream), "stream");
	must(kvmm_events_open(room->pool, NULL, &room->events), "events");
}

static struct kvmm_pool *moves_make(const char *dir)
{
	room = &rooms[0];
	make_room();
	return room->pool;
}

static struct kvmm_pool *drops_make(const char *dir)
{
	room = &rooms[1];
	make_room();
	return room->pool;
}

static void moves_expect(void)
{
	room = &rooms[0];
	expect_room();
}

static void drops_expect(void)
{
	room = &rooms[1];
	expect_room();
}

static void end_room(const struct room *end)
{
	kvmm_events_close(end->events);
	kvmm_pool_destroy(end->pool);
}

static void moves_end(void)
{
	end_room(&rooms[0]);
}

static void drops_end(void)
{
	end_room(&rooms[1]);
}

const struct part metrics_room = { moves_make, room_use, moves_expect, moves_end };
const struct part metrics_drop = { drops_make, room_use, drops_expect, drops_end };
