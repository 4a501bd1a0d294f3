// SPDX-License-Identifier: Apache-2.0
/*
 * The host's own edges: it reads what a copy wrote, and writes lists of moves anew, only after it
 * has asked the driver. With the questions left out that must be seen, or this test could not see
 * it either. The edges between streams are those of race.c.
 */
#include <kv/sys.h>

#include "soft.h"

#define NR	8

static const struct kv_dev_ops *const ops = &kv_dev_soft;
static const struct kv_fence none;

/* ---- leaving out calls ---- */

static struct {
	KCU_FN(cuEventQuery, 2000) event_query;
	bool drop_syncs;
} hook;

static kcu_result event_query(kcu_event event)
{
	return hook.drop_syncs ? KCU_E_SUCCESS : hook.event_query(event);
}

static void *find_hooked(void *ctx, void *library, const char *name)
{
	void *found = kv_sys_system.find_symbol(ctx, library, name);

	if (strcmp(name, "cuEventQuery"))
		return found;
	memcpy(&hook.event_query, &found, sizeof(found));
	return (void *)event_query;
}

static struct kv_dev *open_hooked(const char *options)
{
	static struct kv_sys_ops sys;

	sys = kv_sys_system;
	sys.find_symbol = find_hooked;
	kv_sys_set(&sys);
	return soft_open(options);
}

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
		cr_assert_eq(dev_move(ops, dev, &pool.planes, moves, nr, none, &fence), 0);
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
