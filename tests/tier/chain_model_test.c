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
#include "tests/support/sim_disk.h"
#include "tests/tier/model.h"
#include "tests/tier/util.h"
#include "tier/internal.h"

#define SEGMENT		(64u << 10)
#define MAX_BYTES	(8 * SEGMENT + 24576)
#define FIRST_BYTES	8192u		/* superblocks: nobody reads them again */

static struct sim_disk sim;
static struct kvmm_disk *disk;
static kcu_stream stream[2];
static u32 nr_streams;

static void open_disk(void)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = "/store", .max_bytes = MAX_BYTES,
				       .segment_bytes = SEGMENT };

	sim_disk_init(&sim, 2 * MAX_BYTES);
	sim_disk_install(&sim);
	cr_assert_eq(kvmm_disk_open(&attr, &disk), 0);
}

static void close_disk(void)
{
	struct kvmm_disk_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_disk_get_stat(disk, &stat), 0);
	cr_expect_gt(stat.nr_got, 0, "the disk was of use");
	cr_expect_eq(kv_disk_check(disk), 0);
	kvmm_disk_close(disk);
	sim_disk_remove();
	sim_disk_exit(&sim);
}

static void with_disk(struct kvmm_tier *tier)
{
	struct kvmm_tier_disk_attr below = { .size = sizeof(below), .high_pm = 500 };

	cr_assert_eq(kvmm_tier_set_disk(tier, disk, &below), 0);
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
	open_disk();
	start("");
	model_run(mode, nr);
	close_disk();
	for (u32 i = 0; i < SW_NR_REPORT_KINDS; i++)
		if (i == SW_REPORT_RACE || i == SW_REPORT_IN_USE || i == SW_REPORT_DEADLOCK)
			cr_expect_eq(ctl->nr_reports(i), 0, "%s", ctl->report(0));
}

Test(tier_chain_model, contents_are_right_and_nothing_races)
{
	run_soft(&(struct model_mode){ .device = "soft:0", .begin = begin, .made = with_disk,
				       .work = work }, 4000);
}

Test(tier_chain_model, a_flipped_bit_is_noticed_on_a_device)
{
	run_soft(&(struct model_mode){ .device = "soft:0", .begin = begin, .made = with_disk,
				       .work = work, .harm = flip }, 4000);
}

Test(tier_chain_model, a_flipped_bit_is_noticed_on_plain_memory)
{
	open_disk();
	model_run(&(struct model_mode){ .device = "host", .made = with_disk, .harm = flip }, 12000);
	close_disk();
}
