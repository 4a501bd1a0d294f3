// SPDX-License-Identifier: Apache-2.0
/*
 * Two ranks at random: each call of a pool, its tier, its steps and moves is made on both, alike, while
 * their devices work a piece at a time in an order of the driver's dice. After each call the answers
 * and the histories are the same, now and then all that the pools are. In the second test there are
 * disks below, which are now slow, now fast, and fail, each for itself; and all are started again.
 */
#include "tests/pool/drive.h"
#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/tier/ranks.h"

#define NR_OPS		4u	/* loads under way */
#define NR_KEYS		6u

static u64 dice;		/* of all choices that both ranks share */

static u32 below(u32 nr)
{
	return any_of(&dice, nr);
}

/* What both ranks are asked to do next, drawn once. */
struct order {
	u32 what;
	u32 a, b, c;
};

struct run {
	struct ranks ranks;
	struct drive drive[NR_RANKS];
	uint64_t epoch[NR_RANKS];
	kvmm_tier_op_t op[NR_RANKS][NR_OPS];
	u32 nr_loading[NR_OPS];		/* 0: none under way */
	kvmm_ticket_t ticket[NR_RANKS];
	kvmm_mut_t mut[NR_RANKS][RANK_BLOCKS];
	u32 nr_waiting;			/* blocks of the ticket; 0: there is none */
	bool is_open;
	u64 now_ns, nr_timed_out;
	u64 nr_told, nr_failed, nr_joined, nr_from_disk;
	kcu_deviceptr scratch[NR_RANKS];
};

/* ---- each call, on one rank: what it was answered ---- */

static u64 do_step(struct run *run, u32 i)
{
	struct rank *rank = &run->ranks.of[i];

	if (run->is_open)
		return kvmm_step_end(rank->pool, rank->id, run->epoch[i]);
	fill(run->scratch[i], 1, 256, rank->stream);
	return kvmm_step_begin(rank->pool, rank->id, &run->epoch[i]);
}

/* Keys of a prompt of the drive's. */
static struct kvmm_prefix keys_of(u32 prompt)
{
	static kvmm_key_t keys[NR_KEYS];

	memset(keys, 0, sizeof(keys));
	for (u32 i = 0; i < NR_KEYS; i++) {
		keys[i].byte[0] = 1 + prompt % 5;
		keys[i].byte[1] = i;
		keys[i].byte[7] = keys[i].byte[0] * 37 + i;
	}
	return (struct kvmm_prefix){ .keys = keys, .nr = NR_KEYS };
}

static u64 do_load(struct run *run, u32 i, const struct order *order)
{
	struct kvmm_pool *pool = run->ranks.of[i].pool;
	struct kvmm_prefix prefix = keys_of(order->a);
	struct kvmm_tier_load_args load = { .size = sizeof(load), .prefix = &prefix };
	int err;

	if (order->b % 4 == 0)
		return kvmm_tier_prefetch(pool, &prefix, 2);
	err = kvmm_tier_load(pool, &load, &run->op[i][order->c]);
	if (i == NR_RANKS - 1)
		run->nr_loading[order->c] = err ? 0 : NR_KEYS;
	return err;
}

static u64 do_result(struct run *run, u32 i, u32 at)
{
	kvmm_ref_t refs[NR_KEYS];
	s32 errors[NR_KEYS];
	struct kvmm_tier_result result = { .size = sizeof(result), .refs = refs, .errors = errors,
					   .nr = NR_KEYS };
	struct kvmm_pool *pool = run->ranks.of[i].pool;
	int err = kvmm_tier_get_result(pool, run->op[i][at], &result);
	u64 sum = err;

	for (u32 k = 0; !err && k < NR_KEYS; k++)
		sum = sum * 31 + refs[k].index + ((u64)refs[k].gen << 20);
	if (!err)
		cr_assert_eq(kvmm_put_many(pool, refs, NR_KEYS), 0);
	if (err != -EAGAIN && i == NR_RANKS - 1) {
		run->nr_loading[at] = 0;
		run->nr_failed += err == -EBADMSG;
	}
	return sum;
}

static u64 do_match(struct run *run, u32 i, const struct order *order)
{
	struct kvmm_pool *pool = run->ranks.of[i].pool;
	struct kvmm_prefix prefix = keys_of(order->a);
	kvmm_ref_t refs[NR_KEYS];
	u8 answers[NR_KEYS], levels[NR_KEYS];
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = &prefix,
					      .refs = refs, .answers = answers, .levels = levels };
	int nr = kvmm_tier_match(pool, &match);
	u64 sum = nr;

	for (u32 k = 0; k < NR_KEYS; k++)
		sum = sum * 31 + answers[k] * 4 + levels[k];
	if (match.nr_device)
		cr_assert_eq(kvmm_put_many(pool, refs, match.nr_device), 0);
	return sum * 31 + match.nr_load;
}

static u64 do_moves(struct run *run, u32 i, const struct order *order)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 1 + order->a % 24,
				     .max_blocks = order->b % 3 ? 0 : order->b % 16,
				     .max_us = order->c % 3 ? 0 : 1 + order->c % 100 };
	int err = kvmm_compact_start(run->ranks.of[i].pool, &goal, order->b % KVMM_NR_MOVE_MODES);

	return (u64)err << 32 | goal.moved;
}

static u64 do_compact(struct run *run, u32 i, const struct order *order)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = order->a % 24,
				     .max_us = 1 + order->c % 50 };
	int err = kvmm_pool_compact(run->ranks.of[i].pool, &goal);

	return (u64)err << 32 | goal.moved;
}

static u64 do_shrink(struct run *run, u32 i, const struct order *order)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 8 + 8 * (order->a % 2),
				   .min_blocks = 1 };
	struct kvmm_regain back = { .size = sizeof(back), .nr_blocks = 64, .min_blocks = 1 };
	struct kvmm_pool *pool = run->ranks.of[i].pool;

	switch (order->b % 4) {
	case 0:
		return kvmm_pool_shrink_start(pool, &req, order->c % KVMM_NR_MOVE_MODES);
	case 1:
		return kvmm_pool_grow(pool, &back);
	default:
		return kvmm_pool_shrink_poll(pool, NULL);
	}
}

static u64 do_reclaim(struct run *run, u32 i, const struct order *order)
{
	struct kvmm_watermarks marks = { .min = 0, .low = 0, .high = 8 };
	struct kvmm_watermarks none = { 0 };
	struct kvmm_reclaim_args reclaim = { .size = sizeof(reclaim), .max_us = 1 + order->a % 4 };
	struct kvmm_pool *pool = run->ranks.of[i].pool;
	int err = kvmm_watermarks_set(pool, &marks);

	if (!err)
		err = kvmm_reclaim(pool, &reclaim);
	kvmm_watermarks_set(pool, &none);
	return (u64)err << 32 | reclaim.nr_evicted;
}

static u64 do_forget(struct run *run, u32 i, const struct order *order)
{
	struct kvmm_prefix prefix = keys_of(order->a);

	prefix.keys += order->b % NR_KEYS;
	prefix.nr = 1 + order->c % 2;
	prefix.nr = min(prefix.nr, NR_KEYS - order->b % NR_KEYS);
	/* Whether it is gone for good is up to each disk. */
	if (order->b % 5 == 0)
		kvmm_tier_forget(run->ranks.of[i].pool, &prefix);
	return 0;
}

/* Blocks in a queue, for so long; given back at once. */
static u64 do_ticket(struct run *run, u32 i, const struct order *order)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	struct kvmm_pool *pool = run->ranks.of[i].pool;
	u32 nr = run->nr_waiting;
	u64 sum = 0;
	int err;

	ctl.nr = nr ? nr : 1 + order->a % RANK_BLOCKS;
	ctl.flags = KVMM_ALLOC_RELATIVE;
	ctl.deadline_ns = 1 + order->b * 3000ull;
	err = nr ? kvmm_alloc_poll(pool, run->ticket[i]) :
		   kvmm_alloc_submit(pool, &ctl, run->mut[i], &run->ticket[i]);
	for (u32 k = 0; !err && k < ctl.nr; k++)
		sum = sum * 31 + run->mut[i][k].index + ((u64)run->mut[i][k].gen << 20);
	if (!err)
		cr_assert_eq(kvmm_free(pool, run->mut[i], ctl.nr), 0);
	if (i == NR_RANKS - 1) {
		run->nr_waiting = err == -EINPROGRESS ? ctl.nr : 0;
		run->nr_timed_out += err == -ETIMEDOUT;
	}
	return sum * 31 + err;
}

enum what {
	DRIVE,
	STEP = DRIVE + 8,
	POLL = STEP + 3,
	LOAD = POLL + 2,
	RESULT,
	MATCH,
	MOVES,
	LOOK = MOVES + 2,
	TICK,
	VERIFY,
	COMPACT,
	SHRINK,
	RECLAIM,
	TICKET,
	NR_WHATS,
	FORGET = NR_WHATS,	/* with disks */
	RESET,
	TIER_TICK,
	LOAD_MORE,
	NR_DISK_WHATS = LOAD_MORE + 6,
};

static u64 call(struct run *run, u32 i, const struct order *order)
{
	struct kvmm_pool *pool = run->ranks.of[i].pool;

	switch (order->what) {
	case STEP ... POLL - 1:
		return do_step(run, i);
	case POLL ... LOAD - 1:
		return kvmm_tier_poll(pool);
	case LOAD:
	case LOAD_MORE ... NR_DISK_WHATS - 1:
		return run->nr_loading[order->c] ? 0 : do_load(run, i, order);
	case RESULT:
		return run->nr_loading[order->c] ? do_result(run, i, order->c) : 0;
	case MATCH:
		return do_match(run, i, order);
	case MOVES ... LOOK - 1:
		return do_moves(run, i, order);
	case LOOK:
		return kvmm_compact_poll(pool);
	case TICK:
		return kvmm_background_tick(pool);
	case VERIFY:
		return kvmm_verify_tick(pool);
	case COMPACT:
		return do_compact(run, i, order);
	case SHRINK:
		return do_shrink(run, i, order);
	case RECLAIM:
		return do_reclaim(run, i, order);
	case TICKET:
		return do_ticket(run, i, order);
	case FORGET:
		return do_forget(run, i, order);
	case RESET:
		return order->a % 64 ? 0 : kvmm_reset_cache(pool) == -EBUSY;
	case TIER_TICK:
		kvmm_tier_tick(run->ranks.of[i].tier);
		return 0;
	default:
		drive_step(&run->drive[i]);
		return run->drive[i].sum;
	}
}

/* That names cannot be wiped is the error of one rank alone: not in calls that may wipe some. */
static u64 carry_out(struct run *run, u32 i, const struct order *order)
{
	bool wipes = order->what < STEP || order->what == FORGET || order->what == RESET;
	struct sim_disk *sim = &run->ranks.of[i].sim;
	u64 answer, fail_at = sim->fail_at;

	if (wipes)
		sim->fail_at = 0;
	answer = call(run, i, order);
	if (wipes)
		sim->fail_at = fail_at;
	return answer;
}

/* ---- completions ---- */

static int set_at_last(struct rank *rank, const struct kvmm_completions *told)
{
	int err;

	while ((err = kvmm_completions_set(rank->pool, told)) == -EAGAIN)
		ctl->step();
	return err;
}

/*
 * All say and hear the same; or rank 0 leads, and the other is told first, until its device is as
 * far. If something has failed there that did not fail on the leader, all say what they know.
 */
static void tell(struct run *run, bool leads)
{
	struct kvmm_completions told = leads ? rank_found(run->ranks.of) : ranks_found(&run->ranks);
	u64 block_ns = 1 + below(4000);

	run->now_ns += 1 + below(1000000);
	for (u32 i = NR_RANKS; i-- > 0;) {
		struct rank *rank = &run->ranks.of[i];
		int err;

		told.now_ns = run->now_ns;
		told.block_ns = block_ns;
		err = set_at_last(rank, &told);
		if (err == -EIO && leads && i) {
			told = ranks_found(&run->ranks);
			run->nr_joined++;
			leads = false;
			i++;
			continue;
		}
		cr_assert_eq(err, 0, "rank %u: %d", i, err);
		cr_assert_eq(kvmm_tier_clock(rank->tier, run->now_ns), 0);
		run->drive[i].now_ns = run->now_ns;
	}
	run->nr_told += told.upto - told.base;
}

/* Writes to the disks that are under way then are over on all ranks, as failed. */
static void attach_again(struct run *run)
{
	int err[NR_RANKS];

	run->nr_from_disk += client_of(run->ranks.of[0].pool).disk_loads;
	for (u32 i = 0; i < NR_RANKS; i++)
		cr_assert_geq(kvmm_tier_abort_all(run->ranks.of[i].pool), 0);
	memset(run->nr_loading, 0, sizeof(run->nr_loading));
	for (;;) {
		for (u32 i = 0; i < NR_RANKS; i++)
			err[i] = kvmm_tier_detach(run->ranks.of[i].pool);
		cr_assert_eq(err[0], err[1]);
		if (err[0] != -EBUSY)
			break;
		ctl->run();
		tell(run, false);
		for (u32 i = 0; i < NR_RANKS; i++)
			cr_assert_geq(kvmm_tier_poll(run->ranks.of[i].pool), 0);
	}
	cr_assert_eq(err[0], 0);
	for (u32 i = 0; i < NR_RANKS; i++)
		rank_attach(&run->ranks.of[i], KVMM_TIER_THROUGH);
}

/* ---- all of it ---- */

static void compare(struct run *run, u64 step, const struct order *order, const u64 *answer)
{
	struct ranks *ranks = &run->ranks;
	kvmm_sum_t sum[NR_RANKS];

	cr_assert_eq(answer[0], answer[1], "step %lu, call %u: %lx, not %lx", (unsigned long)step,
		     order->what, (unsigned long)answer[1], (unsigned long)answer[0]);
	for (u32 i = 0; i < NR_RANKS; i++)
		cr_assert_eq(kvmm_pool_history(ranks->of[i].pool, &sum[i]), 0);
	if (!kvmm_sum_equal(&sum[0], &sum[1]))
		ranks_expect_alike(ranks);
	cr_assert(kvmm_sum_equal(&sum[0], &sum[1]), "step %lu, call %u", (unsigned long)step,
		  order->what);
	if (step % 256 == 0)
		ranks_expect_alike(ranks);
	if (step % 2048 == 0)
		for each_rank(rank)
			cr_assert_eq(kvmm_validate(rank->pool), 0);
}

static void begin_run(struct run *run, u64 seed)
{
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 500 };
	struct kvmm_background how = KVMM_BACKGROUND_INIT;
	char options[32];

	run->now_ns = 1;
	snprintf(options, sizeof(options), "seed=%lu", (unsigned long)seed);
	ranks_begin(&run->ranks, options, KVMM_TIER_THROUGH);
	dice = seed | 1;
	how.interval_ms = 3;
	how.max_blocks = 32;
	how.flags = KVMM_BACKGROUND_VERIFY;
	for (u32 i = 0; i < NR_RANKS; i++) {
		drive_init(&run->drive[i], run->ranks.of[i].pool, seed);
		cr_assert_eq(kvmm_background_set(run->ranks.of[i].pool, &how), 0);
		cr_assert_eq(kvmm_verify_set(run->ranks.of[i].pool, &verify), 0);
		run->scratch[i] = dev_alloc(256);
	}
}

/* Each disk for itself: how fast it is, and that one of its next transfers fails. */
static void disturb_disks(struct run *run)
{
	struct rank *rank = &run->ranks.of[below(NR_RANKS)];
	u32 fault = below(100) ? below(2) ? SIM_LIE : SIM_SHORT : below(2) ? SIM_EIO : SIM_ENOSPC;

	if (!below(50))
		rank->slowness = below(2) ? 0 : 1 + below(40);
	if (!below(40))
		sim_disk_fail(&rank->sim, 1 + below(20), fault, false);
}

static void one_call(struct run *run, u64 step)
{
	struct order order = { below(run->ranks.nr_segments ? NR_DISK_WHATS : NR_WHATS),
			       below(1024), below(1024), below(NR_OPS) };
	u64 answer[NR_RANKS];

	for (u32 i = 0; i < NR_RANKS; i++) {
		answer[i] = carry_out(run, i, &order);
		for (u32 k = below(4); k; k--)
			ctl->step();
	}
	if (order.what >= STEP && order.what < POLL && !answer[0])
		run->is_open = !run->is_open;
	compare(run, step, &order, answer);
	if (!below(6))
		tell(run, below(2));
	if (!below(60))
		tier_flip(run->ranks.of[0].tier,
			  below(run->ranks.nr_segments ? RANK_UNITS : RANK_BLOCKS));
	if (!below(200))
		rank_flip(run->ranks.of, below(RANK_BLOCKS));
	if (run->ranks.nr_segments)
		disturb_disks(run);
	if (run->ranks.nr_segments && !below(700))
		attach_again(run);
}

static void end_run(struct run *run)
{
	for (u32 i = 0; i < NR_RANKS; i++) {
		if (run->is_open)
			do_step(run, i);
		drive_end(&run->drive[i]);
		cr_assert_geq(kvmm_tier_abort(run->ranks.of[i].pool,
					      (kvmm_tier_op_t){ UINT32_MAX, UINT32_MAX }), 0);
	}
	run->nr_from_disk += client_of(run->ranks.of[0].pool).disk_loads;
	ranks_end(&run->ranks);
}

Test(ranks_model, ranks_decide_alike_whenever_their_devices_are_through)
{
	u64 seed = test_number("KVMM_SEED", 20261128), nr = test_length("KVMM_MODEL_OPS", 400000);
	struct kvmm_verify_stat verified;
	struct kvmm_step_stat steps;
	static struct run run;

	printf("seed %lu, %lu calls\n", (unsigned long)seed, (unsigned long)nr);
	begin_run(&run, seed);
	for (u64 step = 1; step <= nr; step++)
		one_call(&run, step);
	cr_assert_eq(kvmm_step_get_stat(run.ranks.of[0].pool, &steps), 0);
	cr_assert_eq(kvmm_verify_get_stat(run.ranks.of[0].pool, &verified), 0);
	printf("%lu blocks compared, %lu bad; %lu copies bad\n", (unsigned long)verified.checks,
	       (unsigned long)verified.bad_blocks, (unsigned long)verified.bad_copies);
	cr_expect_gt(verified.bad_blocks, nr / 100000);
	printf("%lu completions, %lu moves, %lu loads, %lu bad ones, %lu late\n",
	       (unsigned long)run.nr_told, (unsigned long)steps.published_moves,
	       (unsigned long)client_of(run.ranks.of[0].pool).loads, (unsigned long)run.nr_failed,
	       (unsigned long)run.nr_timed_out);
	cr_expect_gt(run.nr_told, nr / 100);
	cr_expect_gt(steps.published_moves, nr / 1000);
	cr_expect_gt(client_of(run.ranks.of[0].pool).loads, nr / 1000);
	end_run(&run);
}

#define NR_STARTS	4u

/* Started again: with the disks that are there, and nothing else. */
static void start_again(struct run *run, u64 seed)
{
	struct run next = { .nr_told = run->nr_told, .nr_failed = run->nr_failed,
			    .nr_joined = run->nr_joined };

	end_run(run);
	for (u32 i = 0; i < NR_RANKS; i++)
		sim_disk_fail(&run->ranks.of[i].sim, 0, 0, false);
	next.nr_from_disk = run->nr_from_disk;
	next.ranks = run->ranks;
	*run = next;
	begin_run(run, seed);
	for (u32 prompt = 0; prompt < 5; prompt++) {
		struct kvmm_prefix prefix = keys_of(prompt);

		for (u32 i = 0; i < NR_RANKS; i++)
			cr_assert_eq(kvmm_tier_recall(run->ranks.of[i].pool, &prefix), 0);
	}
}

Test(ranks_model, ranks_decide_alike_whatever_their_disks_do)
{
	u64 seed = test_number("KVMM_SEED", 20261128), nr = test_length("KVMM_MODEL_OPS", 400000);
	static struct run run;

	printf("seed %lu, %lu calls\n", (unsigned long)seed, (unsigned long)nr);
	ranks_make_disks(&run.ranks, 8);
	begin_run(&run, seed);
	for (u64 step = 1; step <= nr; step++) {
		one_call(&run, step);
		if (step % (nr / NR_STARTS) == 0 && step < nr)
			start_again(&run, seed + step);
	}
	end_run(&run);
	ranks_remove_disks(&run.ranks);
	printf("%lu completions, %lu loads that failed, %lu leaders without news, %lu from disk\n",
	       (unsigned long)run.nr_told, (unsigned long)run.nr_failed,
	       (unsigned long)run.nr_joined, (unsigned long)run.nr_from_disk);
	cr_expect_gt(run.nr_told, nr / 100);
	cr_expect_gt(run.nr_failed, nr / 10000);
	cr_expect_gt(run.nr_joined, nr / 20000);
	cr_expect_gt(run.nr_from_disk, nr / 1000);
}
