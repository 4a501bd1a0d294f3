// SPDX-License-Identifier: Apache-2.0
/*
 * The random model on the whole chain, device, host and disk: transfers take their time, end in any
 * order, are shared and aborted; the driver sees each access that is not ordered behind the one before
 * it; and bits flip in the host's memory and on the disk, which has to be noticed before anybody reads
 * them.
 *
 * "make tier-model" is a million operations of each.
 */
#include "tests/cuda/soft.h"
#include "tests/support/sim_store.h"
#include "tests/swcuda/calls.h"
#include "tests/tier/model.h"
#include "tests/tier/util.h"
#include "tier/internal.h"

#define FIRST_BYTES	8192u		/* superblocks: nobody reads them again */

static kcu_stream stream[2];
static u32 nr_streams;

static void begin_disk(void)
{
	begin_store(8, 64 << 10);
	open_store();
}

static void end_disk(void)
{
	struct kvmm_disk_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_disk_get_stat(disk, &stat), 0);
	cr_expect_gt(stat.nr_got, 0, "the disk was of use");
	end_store();
}

static void with_disk(struct kvmm_tier *tier)
{
	struct kvmm_tier_disk_attr below = { .size = sizeof(below), .high_pm = 500 };

	cr_assert_eq(kv_tier_set_disk(tier, disk, &below), 0);
}

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

/* Now here, now there. */
static void flip(struct kvmm_tier *tier, u32 dice)
{
	u32 bit = dice % 8, at = dice / 8;
	struct chunk *chunk = &tier->chunk[at % tier->nr_chunks];

	if (dice % 3)
		((u8 *)chunk->mem.ptr)[at % (chunk_nr(tier, at % tier->nr_chunks) *
					      tier->unit_bytes)] ^= 1u << bit;
	else if (sim.bytes > FIRST_BYTES)
		sim.content[FIRST_BYTES + at % (sim.bytes - FIRST_BYTES)] ^= 1u << bit;
}

static void run_soft(const struct model_mode *mode, u32 nr)
{
	start("");
	model_run(mode, nr);
	expect_no_races(0, 0);
}

/* Without a disk: the device and the host alone. */
Test(tier_soft_model, contents_are_right_and_nothing_races)
{
	run_soft(&(struct model_mode){ .device = "soft:0", .begin = begin, .work = work }, 4000);
}

Test(tier_chain_model, contents_are_right_and_nothing_races)
{
	begin_disk();
	run_soft(&(struct model_mode){ .device = "soft:0", .begin = begin, .made = with_disk,
				       .work = work }, 4000);
	end_disk();
}

Test(tier_chain_model, a_flipped_bit_is_noticed_on_a_device)
{
	begin_disk();
	run_soft(&(struct model_mode){ .device = "soft:0", .begin = begin, .made = with_disk,
				       .work = work, .harm = flip }, 4000);
	end_disk();
}

Test(tier_chain_model, a_flipped_bit_is_noticed_on_plain_memory)
{
	begin_disk();
	model_run(&(struct model_mode){ .device = "host", .made = with_disk, .harm = flip }, 12000);
	end_disk();
}
