// SPDX-License-Identifier: Apache-2.0
/* The mover: what is published, what is given back, and when it stops. */
#include "tests/defrag/picture.h"
#include "tests/support/fake_env.h"
#include "tests/support/test.h"

static int compact(struct picture *pic, struct kvmm_compact *goal)
{
	goal->size = sizeof(*goal);
	return kv_compact(&kv_planner_slide, &picture_ops, pic,
			  (struct kvmm_extent){ 0, pic->nr }, 0, goal);
}

/*
 * Wherever the owner says a letter lies, the memory holds that letter; but that of @lost, whose
 * content the failed copy has destroyed.
 */
static void __expect_content_follows(const struct picture *pic, char lost)
{
	u32 b;

	for (b = 0; b < pic->nr; b++)
		if (pic->cell[b] != '.' && pic->cell[b] != lost)
			cr_expect_eq(pic->content[b], pic->cell[b], "block %u of %s holds %c", b,
				     pic->cell, pic->content[b]);
	cr_expect_not(pic->moving);
}

static void expect_content_follows(const struct picture *pic)
{
	__expect_content_follows(pic, '.');
}

Test(compact, joins_the_holes_around_the_shortest_run)
{
	struct kvmm_compact goal = { .want_run = 4 };
	struct picture pic;

	picture_init(&pic, "AAAA..BBB..CC..D");
	cr_expect_eq(compact(&pic, &goal), 0);
	cr_expect_str_eq(pic.cell, "AAAA..BBBCC....D");
	expect_content_follows(&pic);
	cr_expect_eq(goal.moved, 2);
	cr_expect_eq(goal.nr_moves, 1);
}

Test(compact, does_nothing_if_such_a_run_exists)
{
	struct kvmm_compact goal = { .want_run = 3 };
	struct picture pic;

	picture_init(&pic, "AA..BB...C");
	cr_expect_eq(compact(&pic, &goal), 0);
	cr_expect_str_eq(pic.cell, "AA..BB...C");
	cr_expect_eq(pic.nr_copies, 0);
}

static void expect_packed(const char *before, const char *after)
{
	struct kvmm_compact goal = { .want_run = 0 };
	struct picture pic;

	picture_init(&pic, before);
	cr_expect_eq(compact(&pic, &goal), 0);
	cr_expect_str_eq(pic.cell, after);
	expect_content_follows(&pic);
	cr_expect_eq(compact(&pic, &goal), 0);
	cr_expect_str_eq(pic.cell, after, "a second time");
}

Test(compact, packs_over_what_cannot_move)
{
	expect_packed(".A.BB.CC.D", "ABBCCD....");
	expect_packed(".A.BB.pp..C.D.", "DACBB.pp......");
	/* The short stretch fills up, wherever it lies. */
	expect_packed(".A..B.C..p..D", "A........pCBD");
	/* Nothing fits: each slides for itself. */
	expect_packed(".AA.p.BBB..", "AA..pBBB...");
	/* Two runs of three instead of one of six. */
	expect_packed("......pAAAAABBB", "......pAAAAABBB");
}

Test(compact, never_slides_across_what_cannot_move)
{
	struct kvmm_compact goal = { .want_run = 3 };
	struct picture pic;

	picture_init(&pic, "..p..A.");
	cr_expect_eq(compact(&pic, &goal), 0);
	cr_expect_str_eq(pic.cell, "..pA...");

	goal.want_run = 4;
	cr_expect_eq(compact(&pic, &goal), -ENOSPC);
	cr_expect_str_eq(pic.cell, "..pA...");
}

Test(compact, refuses_a_plan_over_the_block_budget)
{
	struct kvmm_compact goal = { .want_run = 4, .max_blocks = 2 };
	struct picture pic;

	picture_init(&pic, "..AAA..");
	cr_expect_eq(compact(&pic, &goal), -ENOSPC);
	cr_expect_str_eq(pic.cell, "..AAA..");
	goal.max_blocks = 3;
	cr_expect_eq(compact(&pic, &goal), 0);
	cr_expect_str_eq(pic.cell, "AAA....");
}

/* The k-th copy fails: what came before is published, the rest is where it was. */
Test(compact, a_failed_copy_leaves_every_owner_valid_blocks)
{
	static const char *const after[] = {
		".A.BBBB.CC..", "A..BBBB.CC..", "ABBBB...CC..",
	};
	u32 fail;

	for (fail = 1; fail <= 3; fail++) {
		struct kvmm_compact goal = { .want_run = 5 };
		struct picture pic;

		picture_init(&pic, ".A.BBBB.CC..");
		pic.fail_copy = fail;
		cr_expect_eq(compact(&pic, &goal), -EIO);
		cr_expect_str_eq(pic.cell, after[fail - 1]);
		cr_expect_eq(goal.nr_moves, fail - 1);
		__expect_content_follows(&pic, fail == 2 ? 'B' : '.');
		/* B would have overlapped itself, A and C not. */
		cr_expect_eq(pic.lost, fail == 2, "copy %u", fail);
	}
}

static const struct kv_move *planned;
static u32 nr_planned;

static int given_plan(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	memcpy(plan->moves, planned, nr_planned * sizeof(*planned));
	plan->nr_moves = nr_planned;
	return 0;
}

static size_t no_scratch(u32 nr_items)
{
	return 0;
}

/* How many copies a plan takes; with @fail, what that copy leaves. */
static u32 nr_copies(const char *before, const struct kv_move *moves, u32 nr, u32 fail,
		     const char *after)
{
	static const struct kv_planner_ops planner = {
		.scratch_bytes = no_scratch, .plan = given_plan,
	};
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct picture pic;

	planned = moves;
	nr_planned = nr;
	picture_init(&pic, before);
	pic.fail_copy = fail;
	cr_expect_eq(kv_compact(&planner, &picture_ops, &pic,
				(struct kvmm_extent){ 0, pic.nr }, 0, &goal), fail ? -EIO : 0);
	cr_expect_str_eq(pic.cell, after);
	expect_content_follows(&pic);
	return pic.nr_copies;
}

/* A, B and C leave their window for holes on both sides: one copy, all or nothing. */
Test(compact, moves_that_cannot_harm_each_other_are_one_copy)
{
	static const struct kv_move moves[] = { { 5, 0, 2 }, { 8, 12, 1 }, { 7, 3, 1 } };

	cr_expect_eq(nr_copies("..D.EAACB.G.....", moves, 3, 0, "AADCE.....G.B..."), 1);
	cr_expect_eq(nr_copies("..D.EAACB.G.....", moves, 3, 1, "..D.EAACB.G....."), 1);
}

/* B goes where A was: if that copy failed with A's, A would be gone. */
Test(compact, what_takes_an_old_place_is_a_copy_of_its_own)
{
	static const struct kv_move moves[] = { { 2, 0, 2 }, { 5, 2, 2 } };
	static const struct kv_move around[] = { { 2, 6, 1 }, { 8, 0, 1 } };

	cr_expect_eq(nr_copies("..AA.BB.", moves, 2, 0, "AABB...."), 2);
	cr_expect_eq(nr_copies("..AA.BB.", moves, 2, 2, "AA...BB."), 2);
	/* The stretch of the sources would grow over A's new place. */
	cr_expect_eq(nr_copies("..A.....B", around, 2, 0, "B.....A.."), 2);
}

Test(compact, takes_a_new_picture_if_the_first_is_out_of_date)
{
	struct kvmm_compact goal = { .want_run = 2 };
	struct picture pic;

	picture_init(&pic, ".A.");
	pic.nr_stale = 3;
	cr_expect_eq(compact(&pic, &goal), 0);
	cr_expect_str_eq(pic.cell, "A..");

	picture_init(&pic, ".A.");
	pic.nr_stale = 1000;
	cr_expect_eq(compact(&pic, &goal), -EAGAIN, "must give up at some point");
	cr_expect_str_eq(pic.cell, ".A.");
}

static struct fake_env clock_env;

static int copy_takes_a_while(void *owner, const struct kv_move *moves, u32 nr)
{
	fake_env_advance(&clock_env, 600000);
	return picture_ops.copy(owner, moves, nr);
}

Test(compact, stops_when_the_time_is_up_and_keeps_what_it_has)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .max_us = 1000 };
	struct kv_movable_ops slow = picture_ops;
	struct picture pic;

	fake_env_install(&clock_env);
	slow.copy = copy_takes_a_while;
	picture_init(&pic, ".A.B.C.D");
	cr_expect_eq(kv_compact(&kv_planner_slide, &slow, &pic,
				(struct kvmm_extent){ 0, pic.nr }, 0, &goal), -EAGAIN);
	/* B and C are one copy; D would go where C was. */
	cr_expect_str_eq(pic.cell, "ABC....D");
	expect_content_follows(&pic);
	cr_expect_eq(clock_env.nr_live, 0);
	fake_env_remove(&clock_env);
}

Test(compact, without_host_memory_nothing_moves)
{
	static struct fake_env fake;
	struct picture pic;
	u32 nth;
	int err = -ENOMEM;

	fake_env_install(&fake);
	for (nth = 1; err; nth++) {
		struct kvmm_compact goal = { .want_run = 2 };

		picture_init(&pic, ".A.");
		fake_env_fail(&fake, nth, false);
		err = compact(&pic, &goal);
		if (!fake_env_failed(&fake))
			break;
		/* The last picture only serves the report: it may be missing. */
		cr_expect(err == -ENOMEM ? !strcmp(pic.cell, ".A.") : !strcmp(pic.cell, "A.."));
		cr_expect_eq(fake.nr_live, 0);
		err = -ENOMEM;
	}
	cr_expect_eq(nth, 4, "three allocations, each made to fail");
	cr_expect_eq(err, 0);
	fake_env_remove(&fake);
}
