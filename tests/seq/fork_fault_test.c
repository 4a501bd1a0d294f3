// SPDX-License-Identifier: Apache-2.0
/*
 * Forks without host memory, and copies that fail: all is as it was, or the copy has the right
 * bytes. The device is the software driver's, which sees races: the engine's work on the shared
 * block is still on its way when it is copied.
 */
#include "tests/cuda/soft.h"
#include "tests/pool/request_util.h"
#include "tests/support/fault.h"
#include "tests/swcuda/calls.h"

#define NR_BLOCKS	8u
#define BYTES		256u

static struct kvmm_key_ctx *ctx;

static void set_up(void)
{
	fault_begin();
	ctx = make_ctx(NULL);
}

static void tear_down(void)
{
	kvmm_key_ctx_destroy(ctx);
	fault_end();
}

TestSuite(fork_fault, .init = set_up, .fini = tear_down);

/* ---- host memory ---- */

Test(fork_fault, without_memory_a_fork_leaves_no_trace)
{
	struct kvmm_pool *pool = make_token_pool(NR_BLOCKS);
	struct kvmm_seq *seq = make_seq(pool, ctx, 0, 6, 8), *child[2] = { NULL };
	bool failed = true;
	u32 n;

	prefill(seq, 90);
	for (n = 1; failed; n++) {
		int err = fault_at(n, kvmm_seq_fork(seq, 2, child), &failed);

		cr_assert_eq(err, failed ? -ENOMEM : 0, "allocation %u: %d", n, err);
		cr_assert_eq(kvmm_validate(pool), 0);
		cr_assert(!failed || !child[0]);
		cr_expect_str_eq(table_picture(seq), "Pp 6/7");
	}
	cr_expect_gt(n, 4);
	kvmm_seq_destroy(child[0]);
	kvmm_seq_destroy(child[1]);
	kvmm_seq_destroy(seq);
	cr_expect(pool_is_idle(pool));
	end_pool(pool);
}

Test(fork_fault, without_memory_a_step_that_copies_is_not_scheduled)
{
	struct kvmm_pool *pool = make_token_pool(NR_BLOCKS);
	struct kvmm_seq *seq = make_seq(pool, ctx, 0, 7, 40), *child;
	bool failed = true;

	prefill(seq, 90);
	cr_assert_eq(kvmm_seq_fork(seq, 1, &child), 0);
	for (u32 n = 1; failed; n++) {
		int got = fault_at(n, kvmm_seq_schedule_speculative(child, NULL, 9), &failed);

		cr_assert_eq(got, failed ? -ENOMEM : 9, "allocation %u: %d", n, got);
		if (failed)
			cr_expect_str_eq(picture(pool), "AP......");
	}
	kvmm_seq_destroy(child);
	kvmm_seq_destroy(seq);
	cr_expect(pool_is_idle(pool));
	end_pool(pool);
}

/* ---- the device ---- */

struct scene {
	struct kvmm_pool *pool;
	struct kvmm_plane plane;
	kvmm_stream_t id;
	kcu_stream stream;
	struct kvmm_seq *seq[2];
	u32 shared;
};

/* Two sequences with a partial block, whose last bytes the engine is about to write. */
static void begin(struct scene *s)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0", .policy = "lru",
				       .nr_blocks = NR_BLOCKS, .block_tokens = BLOCK_TOKENS,
				       .nr_planes = 1, .planes = &s->plane };
	u32 ids[4];

	start("");
	s->stream = stream_new();
	s->plane = (struct kvmm_plane){ .base = dev_alloc(NR_BLOCKS * BYTES), .stride = BYTES,
					.bytes = BYTES };
	s->pool = make_pool_of(&attr);
	cr_assert_eq(kvmm_stream_add(s->pool, s->stream, 0, &s->id), 0);
	s->seq[0] = make_seq(s->pool, ctx, 0, 6, 8);
	prefill(s->seq[0], 90);
	cr_assert_eq(kvmm_seq_fork(s->seq[0], 1, &s->seq[1]), 0);
	cr_assert_eq(kvmm_seq_block_table(s->seq[0], ids, 4), 2);
	s->shared = ids[1];
	fill(s->plane.base + s->shared * BYTES, 77, BYTES, s->stream);
}

static void end(struct scene *s)
{
	kvmm_seq_destroy(s->seq[0]);
	kvmm_seq_destroy(s->seq[1]);
	cr_expect_eq(kvmm_validate(s->pool), 0);
	kvmm_pool_destroy(s->pool);
	ctl->reset("");
}

static u32 last_block(struct kvmm_seq *seq)
{
	u32 ids[4];

	cr_assert_eq(kvmm_seq_block_table(seq, ids, 4), 2);
	return ids[1];
}

Test(fork_fault, a_copy_comes_behind_what_the_streams_were_given)
{
	struct scene s;

	begin(&s);
	cr_expect_eq(kvmm_seq_schedule_decode(s.seq[1]), 0);
	cr_expect_neq(last_block(s.seq[1]), s.shared);
	cr_expect(dev_bytes(s.plane.base + last_block(s.seq[1]) * BYTES, 77, BYTES));
	/* The step's own work comes behind the copy. */
	fill(s.plane.base + last_block(s.seq[1]) * BYTES + 128, 78, 64, s.stream);
	finish(s.stream);
	cr_expect(dev_bytes(s.plane.base + last_block(s.seq[1]) * BYTES, 77, 128));
	cr_expect(dev_bytes(s.plane.base + s.shared * BYTES, 77, BYTES));
	expect_no_races(0, 0);
	end(&s);
}

/* Right, or on a device that was lost, where nothing is read any more. */
static bool block_is_right_or_lost(struct scene *s, u32 block, u8 byte)
{
	u8 buf[BYTES];
	int err = kvmm_block_read(s->pool, block, 0, buf, BYTES);

	return err ? err == -EIO : all_bytes(buf, byte, BYTES);
}

/* False: there are not so many calls. */
static bool copy_fails_at(u32 nth, int code, bool is_async)
{
	struct scene s;
	u64 before;
	bool fired;
	int ret;

	begin(&s);
	before = nr_calls();
	cr_assert_eq(ctl->fail("*", nth, code, false, is_async), 0);
	ret = kvmm_seq_schedule_decode(s.seq[1]);
	fired = nr_calls() - before >= nth;
	ctl->fail_none();
	if (ret) {
		cr_expect(fired, "call %u: %d", nth, ret);
		cr_expect(ret == -EIO || ret == -ENOMEM, "call %u: %d", nth, ret);
		cr_expect_eq(info_of(s.seq[1]).state, KVMM_SEQ_IDLE);
		cr_expect_eq(last_block(s.seq[1]), s.shared);
		cr_expect_eq(stat_of(s.pool).nr_state[KVMM_BLOCK_PRIVATE], 1);
	} else {
		cr_expect_neq(last_block(s.seq[1]), s.shared);
		cr_expect(block_is_right_or_lost(&s, last_block(s.seq[1]), 77), "call %u", nth);
	}
	expect_no_races(nth, code);
	end(&s);
	return fired;
}

Test(fork_fault, a_copy_that_fails_gives_the_step_up)
{
	u32 nth[3] = { 0 };

	while (copy_fails_at(++nth[0], KCU_E_NOT_PERMITTED, false))
		;
	while (copy_fails_at(++nth[1], KCU_E_OUT_OF_MEMORY, false))
		;
	while (copy_fails_at(++nth[2], KCU_E_UNKNOWN, true))
		;
	for (u32 i = 0; i < 3; i++)
		cr_expect_gt(nth[i], 10, "%u", nth[i]);
}

/* One call in so many fails, time after time: a step is given up, or its copy has the right bytes. */
Test(fork_fault, copies_that_fail_at_a_rate_leave_the_shared_block_alone)
{
	u32 nr_failed = 0, nr_copied = 0;

	for (u32 round = 0; round < 60; round++) {
		struct scene s;
		int ret;

		begin(&s);
		ctl->set_seed(round + 1);
		cr_assert_eq(ctl->fail_rate("*", 20 + round, KCU_E_OUT_OF_MEMORY, round % 2), 0);
		ret = kvmm_seq_schedule_decode(s.seq[1]);
		ctl->fail_none();
		ctl->run();
		if (ret) {
			nr_failed++;
			cr_expect(ret == -EIO || ret == -ENOMEM, "round %u: %d", round, ret);
			cr_expect_eq(last_block(s.seq[1]), s.shared);
			cr_expect_eq(stat_of(s.pool).nr_state[KVMM_BLOCK_PRIVATE], 1);
		} else {
			nr_copied++;
			cr_expect(block_is_right_or_lost(&s, last_block(s.seq[1]), 77));
		}
		cr_expect(block_is_right_or_lost(&s, s.shared, 77));
		end(&s);
	}
	cr_expect_gt(nr_failed, 10);
	cr_expect_gt(nr_copied, 10);
}
