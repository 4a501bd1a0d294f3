// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a hostile user of what moves blocks: goals and plans, memory that is given back and had
 * again, pins by type, pace, checksums and their background, steps meanwhile. Each byte string is a pool
 * in memory of the caller, and then calls with handles, ranges of memory, sizes and flags that are good,
 * stale or invented, some of them with the host out of memory.
 *
 * What is held is known, with its content and its pins: whatever else goes, that stays as it is, and it is
 * counted. Memory that was given back belongs to the caller: he writes there, and nobody else may. In the
 * end everything comes back, and nothing may be left.
 */
#include "tests/fuzz/fuzz.h"

#define MAX_BLOCKS	96u
#define WORDS		8u		/* of a block */
#define BLOCK_BYTES	(WORDS * 8u)
#define MAX_HELD	64u
#define NR_KEYS		48u
#define MAX_TOLD	256u
#define MOST		16u		/* blocks of a range */
#define MS		1000000ull

struct held {
	struct { u32 index, gen; } handle;	/* a reference, or a range */
	u32 nr;					/* blocks of the range; 0: a reference */
	u32 sealed;
	u64 content;				/* the first word of its first block */
	u8 pins[KVMM_NR_PIN_TYPES];
};

static u64 memory[MAX_BLOCKS * WORDS] __attribute__((aligned(4096)));

static struct fuzz_move {
	struct kvmm_pool *pool;
	u32 nr_usable;
	struct held held[MAX_HELD];
	u32 nr_held;
	u64 next_content;
	kvmm_stream_t stream;
	uint64_t epoch;
	bool has_stream, is_open;
	struct kvmm_mem_range told[MAX_TOLD];	/* the caller's now */
	u32 nr_told;
} f;

static size_t some_size(size_t bytes)
{
	return any(16) ? bytes : any(2) ? any(bytes) : SIZE_MAX;
}

/* ---- content ---- */

static void write_block(u32 block, u64 content)
{
	for (u32 i = 0; i < WORDS; i++)
		memory[block * WORDS + i] = content + i;
}

static bool is_written(u32 block, u64 content)
{
	for (u32 i = 0; i < WORDS; i++)
		if (memory[block * WORDS + i] != content + i)
			return false;
	return true;
}

static kvmm_ref_t ref_of(const struct held *held)
{
	return (kvmm_ref_t){ held->handle.index, held->handle.gen };
}

static kvmm_range_t range_of(const struct held *held)
{
	return (kvmm_range_t){ held->handle.index, held->handle.gen };
}

static void places_of(const struct held *held, u32 *block)
{
	struct kvmm_extent ext[MOST];
	kvmm_ref_t ref = ref_of(held);
	u32 n = 0;
	int nr;

	if (!held->nr) {
		require(!kvmm_blocks_of_refs(f.pool, &ref, 1, block));
		return;
	}
	nr = kvmm_range_extents(f.pool, range_of(held), ext, MOST);
	require(nr > 0);
	for (int e = 0; e < nr; e++)
		for (u32 i = 0; i < ext[e].nr; i++)
			block[n++] = ext[e].start + i;
	require(n == held->nr);
}

static void expect_content(const struct held *held)
{
	u32 block[MOST], nr = held->nr ? held->nr : 1;

	places_of(held, block);
	for (u32 i = 0; i < nr; i++)
		require(is_written(block[i], held->content + i * WORDS));
}

static struct held *keep(u32 index, u32 gen, u32 nr, u64 content)
{
	struct held *held = &f.held[f.nr_held++];

	*held = (struct held){ { index, gen }, nr, 0, content, { 0 } };
	return held;
}

/* One of them, as often as there is one; or one whose handle is wrong. */
static struct held some_held(bool *good)
{
	struct held held = { { any(128), any(256) << 8 }, any(3), 0, 0, { 0 } };

	*good = f.nr_held && any(8);
	if (f.nr_held && (*good || any(2)))
		held = f.held[any(f.nr_held)];
	if (!*good)
		held.handle.gen ^= 1u << 20;
	return held;
}

/* ---- blocks, so that there is something to move ---- */

static int publish(void)
{
	u32 number = any(NR_KEYS), block;
	kvmm_key_t key = { { number + 1 } };
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	int err = kvmm_alloc(f.pool, 1, &mut);

	expect(err, 0, -ENOSPC, -ENOMEM);
	if (err)
		return err;
	require(!kvmm_blocks_of_muts(f.pool, &mut, 1, &block));
	write_block(block, number << 8);
	err = kvmm_register(f.pool, &mut, &key, 1, &ref);
	expect(err, 0, -ENOMEM);
	if (err)
		require(!kvmm_free(f.pool, &mut, 1));
	else if (f.nr_held < MAX_HELD && any(2))
		keep(ref.index, ref.gen, 0, number << 8);
	else
		require(!kvmm_put(f.pool, ref));
	return 0;
}

static int take_range(void)
{
	u32 nr = 1 + any(MOST), block[MOST];
	kvmm_range_t range;
	struct held *held;
	int err;

	if (f.nr_held == MAX_HELD)
		return 0;
	err = kvmm_range_alloc(f.pool, nr, KVMM_RUNS(1 + any(4)) | (any(4) ? 0 : KVMM_ALLOC_HIGH),
			       &range);
	expect(err, 0, -ENOSPC, -ENOMEM, -EINVAL);
	require((err == -EINVAL) == (nr > f.nr_usable));
	if (err)
		return err;
	held = keep(range.index, range.gen, nr, f.next_content += 1u << 16);
	places_of(held, block);
	for (u32 i = 0; i < nr; i++)
		write_block(block[i], held->content + i * WORDS);
	if (any(2))
		require(!kvmm_range_seal(f.pool, range, any(nr + 1)));
	return 0;
}

static bool is_pinned(const struct held *held)
{
	for (u32 type = 0; type < KVMM_NR_PIN_TYPES; type++)
		if (held->pins[type])
			return true;
	return false;
}

static int give_back(void)
{
	struct held *held = &f.held[f.nr_held ? any(f.nr_held) : 0];
	int err;

	if (!f.nr_held || is_pinned(held))
		return 0;
	err = held->nr ? kvmm_range_free(f.pool, range_of(held)) : kvmm_put(f.pool, ref_of(held));
	require(!err);
	*held = f.held[--f.nr_held];
	return 0;
}

static int evict(void)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = any(24) };

	expect(kvmm_evict_for(f.pool, &req), 0, -ENOSPC);
	return 0;
}

/* ---- pins ---- */

static struct held *original(const struct held *copy)
{
	for (u32 i = 0; i < f.nr_held; i++)
		if (f.held[i].handle.index == copy->handle.index &&
		    f.held[i].handle.gen == copy->handle.gen && !f.held[i].nr == !copy->nr &&
		    !memcmp(f.held[i].pins, copy->pins, sizeof(copy->pins)))
			return &f.held[i];
	require(false);
	return NULL;
}

static u32 pins_of_entry(const struct held *held, u32 type)
{
	u32 nr = 0;

	for (u32 i = 0; i < f.nr_held; i++)
		if (!f.held[i].nr == !held->nr && f.held[i].handle.index == held->handle.index)
			nr += f.held[i].pins[type];
	return nr;
}

static int pin(void)
{
	u32 type = any(KVMM_NR_PIN_TYPES + 1);
	bool good;
	struct held held = some_held(&good);
	kvmm_ref_t ref = ref_of(&held);
	int err = held.nr ? kvmm_range_pin_as(f.pool, range_of(&held), type) :
			    kvmm_pin_many_as(f.pool, &ref, 1, type);

	expect(err, 0, -EINVAL, -ESTALE, -EBUSY, -ENOMEM, -EOVERFLOW);
	require(err || (good && type < KVMM_NR_PIN_TYPES));
	require(!good || type == KVMM_NR_PIN_TYPES || (err != -EINVAL && err != -ESTALE));
	if (!err)
		original(&held)->pins[type]++;
	return err;
}

/* A reference more than once in the list: any of them may be unpinned by any. */
static int unpin(void)
{
	u32 type = any(KVMM_NR_PIN_TYPES + 1);
	bool good;
	struct held held = some_held(&good);
	kvmm_ref_t ref = ref_of(&held);
	int err;

	if (good && type < KVMM_NR_PIN_TYPES && !held.pins[type] && pins_of_entry(&held, type))
		return 0;
	err = held.nr ? kvmm_range_unpin_as(f.pool, range_of(&held), type) :
			kvmm_unpin_many_as(f.pool, &ref, 1, type);
	expect(err, 0, -EINVAL, -ESTALE);
	require(!err == (good && type < KVMM_NR_PIN_TYPES && held.pins[type]));
	if (err)
		return err;
	original(&held)->pins[type]--;
	return 0;
}

static void expect_pins(void)
{
	struct kvmm_pin_stat stat, want = { { 0 }, { 0 } };

	for (u32 i = 0; i < f.nr_held; i++)
		for (u32 type = 0; type < KVMM_NR_PIN_TYPES; type++)
			*(f.held[i].nr ? &want.ranges[type] : &want.blocks[type]) += f.held[i].pins[type];
	require(!kvmm_pin_get_stat(f.pool, &stat));
	require(!memcmp(&stat, &want, sizeof(stat)));
}

/* ---- goals ---- */

static struct kvmm_compact_goal some_goal(void)
{
	struct kvmm_compact_goal goal = KVMM_COMPACT_GOAL_INIT;
	bool good;
	struct held held = some_held(&good);

	goal.size = some_size(sizeof(goal));
	goal.goal = any(KVMM_NR_GOALS + 1);
	goal.mode = any(KVMM_NR_MOVE_MODES + 1);
	goal.flags = any(16) ? any(8) : any(256);
	goal.want = any(64);
	goal.pageblock_blocks = any(8) ? 1u << any(6) : any(256);
	goal.max_blocks = any(2) * any(32);
	goal.max_us = any(2) * any(256);
	goal.max_bytes = any(2) * (u64)any(256) << any(56);
	goal.reserved = !any(32);
	if (any(2))
		goal.range = range_of(&held);
	goal.seq = any(2);
	return goal;
}

static int move(void)
{
	struct kvmm_compact_goal goal = some_goal();
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;
	struct kvmm_relocation moves[8];
	struct kvmm_extent empty[4];
	u32 drops[8];
	int err;

	plan.size = some_size(sizeof(plan));
	plan.moves = any(2) ? moves : NULL;
	plan.max_moves = any(9);
	plan.drops = any(2) ? drops : NULL;
	plan.max_drops = any(9);
	plan.empty = any(2) ? empty : NULL;
	plan.max_empty = any(5);
	err = any(3) ? kvmm_compact_goal_start(f.pool, &goal, &plan) :
		       kvmm_compact_get_plan(f.pool, &goal, &plan);
	expect(err, 0, -EINVAL, -ENOSPC, -EBUSY, -EAGAIN, -ENOMEM, -ESTALE, -EOPNOTSUPP);
	return err;
}

static int end_moves(void)
{
	if (any(4))
		require(kvmm_compact_poll(f.pool) >= 0);
	else
		require(kvmm_compact_cancel(f.pool) >= 0);
	return 0;
}

/* ---- steps ---- */

static int step(void)
{
	struct kvmm_relocation moves[8];
	int err, nr;

	if (!f.has_stream) {
		err = kvmm_stream_add(f.pool, NULL, any(2) ? KVMM_STREAM_TABLES : 0, &f.stream);
		expect(err, 0, -ENOMEM);
		f.has_stream = !err;
		return err;
	}
	if (f.is_open) {
		f.is_open = false;
		return kvmm_step_end(f.pool, f.stream, f.epoch);
	}
	while ((nr = kvmm_relocations(f.pool, f.stream, moves, 8)) > 0)
		require(!kvmm_relocations_ack(f.pool, f.stream, nr));
	err = kvmm_step_begin(f.pool, f.stream, &f.epoch);
	require(!err);
	f.is_open = true;
	return 0;
}

/* ---- memory that goes and comes ---- */

static void hear_of(const struct kvmm_mem_range *ranges, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		require(f.nr_told < MAX_TOLD);
		require(ranges[i].addr - (uintptr_t)memory < sizeof(memory));
		require(ranges[i].bytes <= (uintptr_t)memory + sizeof(memory) - ranges[i].addr);
		memset((void *)(uintptr_t)ranges[i].addr, 0xee, ranges[i].bytes);
		f.told[f.nr_told++] = ranges[i];
	}
}

static void expect_untouched(void)
{
	for (u32 i = 0; i < f.nr_told; i++)
		for (u64 b = 0; b < f.told[i].bytes; b++)
			require(((const u8 *)(uintptr_t)f.told[i].addr)[b] == 0xee);
}

static int setup(void)
{
	struct kvmm_elastic_attr attr = { .size = some_size(sizeof(attr)),
					  .unit_bytes = any(8) ? 64ull << any(4) : any(256),
					  .pageblock_blocks = any(2) ? 0 : any(4) ? 1u << any(6) : any(256) };
	int err = kvmm_pool_elastic_setup(f.pool, &attr);

	expect(err, 0, -EINVAL, -EBUSY, -ENOMEM, -EOPNOTSUPP);
	return err;
}

static int shrink(void)
{
	struct kvmm_mem_range ranges[MAX_BLOCKS];
	struct kvmm_shrink req = { .size = some_size(sizeof(req)),
				   .ranges = any(2) ? ranges : NULL, .flags = any(3),
				   .max_moved = any(2) * any(32) };
	int err;

	if (any(2)) {
		req.bytes = (u64)any(256) * (any(16) ? BLOCK_BYTES : 1ull << 56);
		req.min_bytes = any(2) * any(256);
	} else {
		req.nr_blocks = any(MAX_BLOCKS);
		req.min_blocks = any(2) * any(8);
	}
	req.max_ranges = req.ranges ? any(MAX_BLOCKS) : any(16) == 1;
	switch (any(4)) {
	case 0:
		err = kvmm_pool_shrink(f.pool, &req);
		break;
	case 1:
		err = kvmm_pool_shrink_start(f.pool, &req, any(3));
		req.nr_ranges = 0;
		break;
	default:
		err = kvmm_pool_shrink_poll(f.pool, &req);
		expect(err, 0, 1, -ENOSPC, -EINVAL);
		if (err != -EINVAL)	/* also with less than was asked for */
			hear_of(ranges, req.nr_ranges);
		return err < 0 ? err : 0;
	}
	expect(err, 0, -ENOSPC, -EAGAIN, -EBUSY, -EINVAL, -ENOMEM, -EOPNOTSUPP);
	if (!err)
		hear_of(ranges, req.nr_ranges);
	return err;
}

static int hear(void)
{
	struct kvmm_mem_range ranges[8];
	int nr = kvmm_pool_freed(f.pool, ranges, any(9));

	require((nr >= 0 && nr <= 8) || nr == -EOPNOTSUPP || nr == -ENOMEM);
	if (nr > 0)
		hear_of(ranges, nr);
	return nr < 0 ? nr : 0;
}

static int hand_back(struct kvmm_mem_range *ranges, u32 nr)
{
	struct kvmm_regain req = { .size = sizeof(req), .ranges = ranges, .nr_ranges = nr };

	return kvmm_pool_grow(f.pool, &req);
}

/* One that the caller never had, or not any more. */
static int hand_back_invented(void)
{
	struct kvmm_mem_range range = { (uintptr_t)memory + any(256) * 64, any(256) * 64 };

	if (!any(4))
		range.addr = (u64)any(256) << 56;
	for (u32 i = 0; i < f.nr_told; i++)
		if (range.addr < f.told[i].addr + f.told[i].bytes &&
		    range.addr + range.bytes > f.told[i].addr)
			return 0;
	if (!range.bytes)
		return 0;
	expect(hand_back(&range, 1), -EINVAL, -EBUSY, -EOPNOTSUPP, -ENOMEM);
	return -EINVAL;
}

static int grow(void)
{
	struct kvmm_regain req = { .size = some_size(sizeof(req)), .nr_blocks = any(32),
				   .bytes = any(2) * (u64)any(256) * 64 };
	u32 nr = f.nr_told ? 1 + any(f.nr_told) : 0;
	int err;

	if (!any(4))
		return hand_back_invented();
	if (any(2) || !nr) {
		err = kvmm_pool_grow(f.pool, &req);
		expect(err, 0, -ENOSPC, -EBUSY, -EINVAL, -EOPNOTSUPP, -ENOMEM);
		return err;
	}
	expect_untouched();
	err = hand_back(f.told, nr);
	expect(err, 0, -ENOSPC, -EBUSY);
	if (err != -EBUSY) {
		f.nr_told -= nr;
		memmove(f.told, f.told + nr, f.nr_told * sizeof(*f.told));
	}
	return err;
}

static int balloon(void)
{
	int err = 0;

	switch (any(4)) {
	case 0:
		err = kvmm_balloon_set(f.pool, any(16) ? any(256) * 32ull : (u64)any(256) << 56);
		expect(err, 0, -EOPNOTSUPP, -ENOMEM, -EINVAL);
		break;
	case 1:
		expect(kvmm_pool_shrink_cancel(f.pool), 0, -EINVAL);
		break;
	default:
		expect(kv_balloon_tick(f.pool), 0, 1);
	}
	return err;
}

/* ---- pace, checksums, background ---- */

static int set_pace(void)
{
	struct kvmm_pace how = { .size = some_size(sizeof(how)), .bytes_per_ms = any(4) * 32,
				 .bytes_per_step = any(4) * 64, .groups = any(256), .reserved = !any(16) };
	struct kvmm_pace_stat stat;
	int err;

	if (!any(16))
		how.bytes_per_ms = (u64)any(256) << 56;
	err = kvmm_pace_set(f.pool, &how);
	expect(err, 0, -EINVAL, -ENOMEM);
	require(!kvmm_pace_get_stat(f.pool, &stat));
	return err;
}

static int verify(void)
{
	struct kvmm_verify_attr attr = { .size = some_size(sizeof(attr)), .sample_pm = any(6) * 250,
					 .reserved = !any(16) };
	struct kvmm_verify_stat stat;
	bool good;
	struct held held = some_held(&good);
	kvmm_ref_t ref = ref_of(&held);
	int err = kvmm_verify_set(f.pool, &attr);

	expect(err, 0, -EINVAL, -ENOMEM);
	require(kvmm_verify_tick(f.pool) >= 0);
	if (!held.nr)
		expect(kvmm_verify_blocks(f.pool, &ref, 1), 0, 1, -ESTALE, -EINVAL);
	require(!kvmm_verify_get_stat(f.pool, &stat) && !stat.bad_blocks && !stat.bad_copies);
	return err;
}

static int background(void)
{
	struct kvmm_background how = KVMM_BACKGROUND_INIT;
	int err;

	fake_env_advance(&fuzz.env, any(64) * MS);
	how.size = some_size(sizeof(how));
	how.threshold_pm = any(8) ? any(100) * 2 : any(256) << 8;
	how.interval_ms = any(32);
	how.request_blocks = any(MAX_BLOCKS);
	how.max_blocks = any(64);
	how.mode = any(3);
	how.flags = any(32) & ~KVMM_BACKGROUND_THREAD;
	err = any(2) ? kvmm_background_set(f.pool, any(8) ? &how : NULL) : kvmm_background_tick(f.pool);
	expect(err, 0, 1, -EINVAL, -ENOMEM, -EOPNOTSUPP);
	return err < 0 ? err : 0;
}

static int look(void)
{
	struct kvmm_elastic_stat elastic;
	struct kvmm_background_stat back;
	struct kvmm_stay stay;
	u32 sum = 0;

	require(!kvmm_elastic_get_stat(f.pool, &elastic));
	require(!kvmm_background_get_stat(f.pool, &back));
	require(!kvmm_stay_last(f.pool, &stay));
	for (u32 i = 0; i < KVMM_NR_STAY_REASONS; i++)
		sum += stay.blocks[i];
	require(sum == stay.staying);
	return 0;
}

/* ---- a run ---- */

static int (*const calls[])(void) = {
	publish, publish, publish, take_range, take_range, take_range, give_back, give_back, evict,
	pin, pin, unpin, move, move, move, move, end_moves, end_moves, step, step, setup, shrink, shrink,
	shrink, hear, grow, grow, balloon, balloon, set_pace, verify, background, look, fail_soon,
};

/* Ranges and references are what they were, whatever was called. */
static void expect_held(void)
{
	struct kvmm_pool_stat stat;
	u32 nr = 0;

	for (u32 i = 0; i < f.nr_held; i++)
		nr += f.held[i].nr;
	require(!kvmm_pool_get_stat(f.pool, &stat));
	require(stat.nr_state[KVMM_BLOCK_RANGE] == nr);
	require(!stat.nr_state[KVMM_BLOCK_PRIVATE]);
	expect_pins();
	if (f.nr_held)
		expect_content(&f.held[any(f.nr_held)]);
}

static void call_and_check(void)
{
	(void)calls[any(ARRAY_SIZE(calls))]();
	require(!kvmm_validate(f.pool));
	expect_held();
}

static int make_pool(void)
{
	struct kvmm_plane plane = { (uintptr_t)memory, BLOCK_BYTES, BLOCK_BYTES };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.policy = any(2) ? "lru" : "default";
	attr.compactor = any(4) ? "window" : "slide";
	attr.nr_blocks = 16 + any(MAX_BLOCKS - 16);
	attr.dup_policy = KVMM_DUP_REJECT;
	attr.flags = (any(4) ? 0 : KVMM_POOL_NULL_BLOCK) | (any(2) ? 0 : KVMM_POOL_NO_MAGAZINES);
	attr.planes = &plane;
	attr.nr_planes = 1;
	f.nr_usable = attr.nr_blocks - !!(attr.flags & KVMM_POOL_NULL_BLOCK);
	return kvmm_pool_create(&attr, &f.pool);
}

static void give_up(const struct held *held)
{
	kvmm_ref_t ref = ref_of(held);

	expect_content(held);
	for (u32 type = 0; type < KVMM_NR_PIN_TYPES; type++)
		for (u32 i = 0; i < held->pins[type]; i++)
			require(!(held->nr ? kvmm_range_unpin_as(f.pool, range_of(held), type) :
					     kvmm_unpin_many_as(f.pool, &ref, 1, type)));
	require(!(held->nr ? kvmm_range_free(f.pool, range_of(held)) : kvmm_put(f.pool, ref)));
}

static void have_all_again(void)
{
	struct kvmm_mem_range ranges[MAX_BLOCKS];
	struct kvmm_elastic_stat stat;
	int nr;

	(void)kvmm_balloon_set(f.pool, 0);
	(void)kvmm_pool_shrink_cancel(f.pool);
	while ((nr = kvmm_pool_freed(f.pool, ranges, MAX_BLOCKS)) > 0)
		hear_of(ranges, nr);
	expect_untouched();
	expect(hand_back(f.told, f.nr_told), 0, -ENOSPC, -EOPNOTSUPP);
	require(!kvmm_elastic_get_stat(f.pool, &stat) && !stat.away_blocks);
}

static void end_run(void)
{
	struct kvmm_pool_stat stat;

	while (f.nr_held)
		give_up(&f.held[--f.nr_held]);
	if (f.is_open)
		require(!kvmm_step_end(f.pool, f.stream, f.epoch));
	if (f.has_stream)
		require(!kvmm_stream_del(f.pool, f.stream));
	require(!kvmm_background_set(f.pool, NULL));
	require(kvmm_compact_cancel(f.pool) >= 0);
	require(!kvmm_compact_poll(f.pool));
	have_all_again();
	require(kvmm_reset_cache(f.pool) >= 0);
	require(!kvmm_pool_get_stat(f.pool, &stat) && stat.nr_free == f.nr_usable);
	require(!kvmm_validate(f.pool));
	kvmm_pool_destroy(f.pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	memset(&f, 0, sizeof(f));
	return fuzz_run(data, bytes, make_pool, call_and_check, end_run);
}
