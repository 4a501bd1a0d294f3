// SPDX-License-Identifier: Apache-2.0
/*
 * The random model on the software device: copies take their time, end in any order, and the driver
 * sees each access that is not ordered behind the one before it.
 */
#include "tests/cuda/soft.h"
#include "tests/tier/model.h"
#include "tests/tier/util.h"

static kcu_stream stream[2];
static u32 nr_streams;

static void begin(struct kvmm_pool *pool)
{
	kvmm_stream_t id;

	stream[nr_streams % 2] = stream_new();
	cr_assert_eq(kvmm_stream_add(pool, stream[nr_streams++ % 2], 0, &id), 0);
}

static void work(u32 dice)
{
	if (dice == UINT32_MAX || dice == 15)
		ctl->run();
	for (u32 i = 0; i < dice % 4; i++)
		ctl->step();
}

Test(tier_soft_model, contents_are_right_and_nothing_races)
{
	const struct model_mode mode = { .device = "soft:0", .begin = begin, .work = work };

	start("");
	model_run(&mode, 4000);
	for (u32 i = 0; i < SW_NR_REPORT_KINDS; i++)
		if (i == SW_REPORT_RACE || i == SW_REPORT_IN_USE || i == SW_REPORT_DEADLOCK)
			cr_expect_eq(ctl->nr_reports(i), 0, "%s", ctl->report(0));
}
