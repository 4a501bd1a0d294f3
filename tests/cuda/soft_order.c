// SPDX-License-Identifier: Apache-2.0
/*
 * The protocol between an engine and the mover, and that it needs every one of its edges: with any
 * single one left out the race checker must complain, or this test could not see it either.
 *
 * Rules, as for pages of a file that are migrated under their readers:
 *	R2 the destination has no reader or writer of its former life left
 *	R3 the mover starts after the last writer of the source
 *	R4 whoever uses the new place starts after the move
 *	R5 the old place is written again after its last reader, which may be the mover
 */
#include <kv/sys.h>

#include "soft.h"

#define NR	8
#define BYTES	4096u

static const struct kv_dev_ops *const ops = &kv_dev_soft;
static const struct kv_fence none;

/* ---- leaving out calls ---- */

static struct {
	KCU_FN(cuStreamWaitEvent, 3020) stream_wait;
	KCU_FN(cuEventSynchronize, 2000) event_sync;
	KCU_FN(cuEventQuery, 2000) event_query;
	u32 nr_waits, drop_wait;	/* 1: the first; 0: none */
	bool drop_syncs;
} hook;

static kcu_result stream_wait(kcu_stream stream, kcu_event event, unsigned int flags)
{
	if (++hook.nr_waits == hook.drop_wait)
		return KCU_E_SUCCESS;
	return hook.stream_wait(stream, event, flags);
}

static kcu_result event_sync(kcu_event event)
{
	return hook.drop_syncs ? KCU_E_SUCCESS : hook.event_sync(event);
}

static kcu_result event_query(kcu_event event)
{
	return hook.drop_syncs ? KCU_E_SUCCESS : hook.event_query(event);
}

#define HOOK(export, own, field)				\
	if (!strcmp(name, export)) {				\
		memcpy(&hook.field, &found, sizeof(found));	\
		return (void *)own;				\
	}

static void *find_hooked(void *ctx, void *library, const char *name)
{
	void *found = kv_sys_system.find_symbol(ctx, library, name);

	HOOK("cuStreamWaitEvent", stream_wait, stream_wait)
	HOOK("cuEventSynchronize", event_sync, event_sync)
	HOOK("cuEventQuery", event_query, event_query)
	return found;
}

static struct kv_dev *open_hooked(const char *options)
{
	static struct kv_sys_ops sys;

	sys = kv_sys_system;
	sys.find_symbol = find_hooked;
	kv_sys_set(&sys);
	return soft_open(options);
}

/* ---- an engine ---- */

struct engine {
	struct kv_dev *dev;
	struct kvmm_plane plane;
	struct kv_planes planes;
	kcu_stream writer, reader, other;
	u64 addr;
	u8 *out;			/* pinned: one block for each reader */
};

static void engine_init(struct engine *engine, struct kv_dev *dev)
{
	*engine = (struct engine){ .dev = dev };
	cr_assert_eq(ops->alloc(dev, NR * BYTES, &engine->addr), 0);
	engine->plane = (struct kvmm_plane){ engine->addr, BYTES, BYTES };
	engine->planes = (struct kv_planes){ &engine->plane, 1 };
	engine->writer = stream_new();
	engine->reader = stream_new();
	engine->other = stream_new();
	engine->out = host_alloc(3 * BYTES);
}

static void write_block(struct engine *engine, u32 block, u8 byte)
{
	fill(engine->addr + block * BYTES, byte, BYTES, engine->writer);
}

static void read_block(struct engine *engine, kcu_stream stream, u32 block, u32 out)
{
	ok(cu.memcpy_dtoh_async(engine->out + out * BYTES, engine->addr + block * BYTES, BYTES,
				stream));
}

static struct kv_fence signal(struct engine *engine, kcu_stream stream)
{
	struct kv_fence fence;

	cr_assert_eq(ops->signal(engine->dev, stream, &fence), 0);
	return fence;
}

static void stall(struct engine *engine, kcu_stream stream, struct kv_fence fence)
{
	cr_assert_eq(ops->stall(engine->dev, stream, fence), 0);
}

/*
 * Block 5 moves to 1, which somebody still reads under its former name; then 5 gets a new owner,
 * while somebody still reads it under its old one.
 */
static void protocol(struct engine *engine)
{
	const struct kv_move move = { 5, 1, 1 };
	struct kv_fence before[2], ready, moved;

	write_block(engine, 1, 0x11);
	stall(engine, engine->reader, signal(engine, engine->writer));
	read_block(engine, engine->reader, 1, 0);
	write_block(engine, 5, 0x55);
	before[0] = signal(engine, engine->writer);			/* R3 */
	before[1] = signal(engine, engine->reader);			/* R2 */
	cr_assert_eq(ops->join(engine->dev, before, 2, &ready), 0);
	cr_assert_eq(ops->move_blocks(engine->dev, &engine->planes, &move, 1, ready, &moved), 0);
	stall(engine, engine->other, before[0]);
	read_block(engine, engine->other, 5, 1);			/* by the old table */
	stall(engine, engine->reader, moved);				/* R4 */
	read_block(engine, engine->reader, 1, 2);
	stall(engine, engine->writer, moved);				/* R5: the mover ... */
	stall(engine, engine->writer, signal(engine, engine->other));	/* ... and the reader */
	write_block(engine, 5, 0xaa);
	finish(engine->writer);
	finish(engine->reader);
	finish(engine->other);
}

static u32 run_protocol(const char *options, u32 drop)
{
	struct kv_dev *dev = open_hooked(options);
	struct engine engine;
	u32 nr;

	engine_init(&engine, dev);
	hook.nr_waits = 0;
	hook.drop_wait = drop;
	protocol(&engine);
	nr = ctl->nr_reports(SW_REPORT_RACE);
	hook.drop_wait = 0;
	if (!drop) {
		cr_expect(all_bytes(engine.out, 0x11, BYTES));
		cr_expect(all_bytes(engine.out + BYTES, 0x55, BYTES));
		cr_expect(all_bytes(engine.out + 2 * BYTES, 0x55, BYTES));
	}
	ctl->clear_reports();
	finish(engine.writer);
	finish(engine.reader);
	finish(engine.other);
	ok(cu.stream_destroy(engine.writer));
	ok(cu.stream_destroy(engine.reader));
	ok(cu.stream_destroy(engine.other));
	ok(cu.mem_free_host(engine.out));
	ops->free(engine.dev, engine.addr, NR * BYTES);
	ctl->clear_reports();
	ops->close(dev);
	return nr;
}

Test(order, the_protocol_has_no_race)
{
	cr_expect_eq(run_protocol("", 0), 0);
	cr_expect_eq(hook.nr_waits, 7);
}

Test(order, no_schedule_makes_it_race)
{
	run_protocol("", 0);
	for (u32 seed = 1; seed < 40; seed++) {
		ctl->set_seed(seed);
		cr_expect_eq(run_protocol("", 0), 0, "seed %u", seed);
	}
}

/* The driver is not loaded anew in between, so its options stay. */
Test(order, each_edge_is_needed)
{
	u32 nr;

	run_protocol("", 0);
	nr = hook.nr_waits;
	for (u32 drop = 1; drop <= nr; drop++)
		cr_expect_gt(run_protocol("", drop), 0, "edge %u", drop);
}

/* ---- the host's own edges ---- */

static u32 read_result(bool drop)
{
	struct kv_dev *dev = open_hooked("");
	const struct kv_move out = { 0, 0, 2 };
	struct blocks device, host;
	struct kv_copy copy = { .moves = &out, .nr = 1, .dir = KV_COPY_TO_HOST };
	struct kv_fence fence;
	u32 nr;

	blocks_init(&device, ops, dev, &layouts[0], NR);
	blocks_init_host(&host, ops, dev, &layouts[0], NR, true);
	copy.src = device.planes;
	copy.dst = host.planes;
	cr_assert_eq(ops->copy_blocks(dev, &copy, &fence), 0);
	hook.drop_syncs = drop;
	cr_expect_eq(ops->wait(dev, fence), 0);
	hook.drop_syncs = false;
	ctl->host_access(host.host.ptr, 2 * layouts[0].bytes, false);
	ctl->run();
	nr = ctl->nr_reports(SW_REPORT_RACE);
	ctl->clear_reports();
	blocks_exit(&host, dev);
	blocks_exit(&device, dev);
	ops->close(dev);
	return nr;
}

Test(order, the_host_reads_after_it_has_waited)
{
	cr_expect_eq(read_result(false), 0);
	cr_expect_gt(read_result(true), 0);
}

/* The lists of moves are written by the host while the device may still read them. */
static bool lists_hold(bool drop)
{
	enum { LONG = 700, ROUNDS = 3 * KV_NR_LISTS };
	static const struct layout layout = { "small", 2, 16, 0, 0, false, 0 };
	static struct kv_move moves[LONG];
	struct kv_dev *dev = open_hooked("");
	struct kv_fence fence;
	struct blocks pool;
	bool right;

	ops->tune(dev, KV_KNOB_PATH, KV_PATH_KERNEL);
	blocks_init(&pool, ops, dev, &layout, 2 * LONG);
	hook.drop_syncs = drop;
	for (u32 i = 0; i < ROUNDS; i++) {
		u32 nr = random_moves(moves, LONG, 1, 2 * LONG, 2 * LONG, true);

		cr_assert_gt(nr, 330, "too few for a list");
		cr_assert_eq(ops->move_blocks(dev, &pool.planes, moves, nr, none, &fence), 0);
		blocks_expect_moves(&pool, &pool, moves, nr);
	}
	hook.drop_syncs = false;
	ctl->run();
	right = blocks_are_right(&pool);
	blocks_exit(&pool, dev);
	ops->close(dev);
	return right;
}

Test(order, lists_are_reused_only_when_they_were_read)
{
	cr_expect(lists_hold(false));
	cr_expect(!lists_hold(true));
}
