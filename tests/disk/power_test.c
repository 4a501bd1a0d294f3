// SPDX-License-Identifier: Apache-2.0
/*
 * Losses of power that crash.c meets once in a million: what was wiped does not come back, whichever of
 * the writes that were not flushed is missing. Nor does it where the segment that says so is cut off, or
 * cannot be read.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include <kv/mem.h>

#include "util.h"
#include "tests/support/sim_disk.h"
#include "tier/disk/internal.h"

#define SEGMENT		(64u << 10)
#define NR_SEGMENTS	4u
#define MAX_BYTES	(NR_SEGMENTS * SEGMENT + KV_DISK_SUPER_BYTES)
#define WIPED		1u

static struct sim_disk sim, after;
static struct kvmm_disk *disk;
static struct kvmm_disk_attr attr;
static u32 next;		/* record that was not put so far */

static void begin(void)
{
	sim_disk_init(&sim, 2 * MAX_BYTES);
	sim_disk_init(&after, 2 * MAX_BYTES);
	sim.keeps_log = true;
	sim_disk_install(&sim);
	attr = (struct kvmm_disk_attr)KVMM_DISK_ATTR_INIT;
	attr.path = "/store";
	attr.max_bytes = MAX_BYTES;
	attr.segment_bytes = SEGMENT;
	next = 8;
	cr_assert_eq(kvmm_disk_open(&attr, &disk), 0);
}

static void end(void)
{
	sim_disk_install(&sim);
	cr_expect_eq(kvmm_disk_check(disk), 0);
	kvmm_disk_close(disk);
	cr_expect_eq(kv_mem_bytes(), 0);
	sim_disk_remove();
	sim_disk_exit(&sim);
	sim_disk_exit(&after);
}

TestSuite(disk_power, .init = begin, .fini = end);

/* Until records go to that segment. */
static void fill_up_to(u32 segment)
{
	while (disk->open != segment)
		cr_assert_eq(disk_test_write(disk, next++, 0), 0);
}

/* All of them get their places at one go, before any of them is written. */
static int put_at_once(u32 nr)
{
	char *data = disk_test_buffers(nr);
	struct kvmm_disk_put put[16];
	int nr_good;

	for (u32 i = 0; i < nr; i++, next++) {
		disk_test_fill(next, data + i * DISK_TEST_MAX_BYTES);
		put[i] = disk_test_put(next, data + i * DISK_TEST_MAX_BYTES);
	}
	nr_good = kvmm_disk_put(disk, put, nr, 0, NULL);
	free(data);
	return nr_good;
}

static bool is_head(const struct sim_step *step, u32 segment)
{
	return step->kind == SIM_WRITE && step->bytes == KV_DISK_PAGE &&
	       step->offset == disk_offset(&disk->shape, segment, 0);
}

/* Power goes after @nr_steps, and no head of @segment that was not flushed got to the disk. */
static void crash_without_head(u32 nr_steps, u32 segment)
{
	u32 flush = sim_disk_last_flush(&sim, nr_steps);

	for (u32 i = flush; i < nr_steps; i++)
		if (is_head(&sim.step[i], segment))
			sim.step[i].bytes = 0;
	sim_disk_crash(&after, &sim, &(struct sim_crash){ .nr_steps = nr_steps });
	for (u32 i = flush; i < nr_steps; i++)
		if (sim.step[i].kind == SIM_WRITE && !sim.step[i].bytes)
			sim.step[i].bytes = KV_DISK_PAGE;
}

static int read_after_crash(u32 n)
{
	struct kvmm_disk *other;
	int err;

	after.nr_locks = 0;
	sim_disk_install(&after);
	cr_assert_eq(kvmm_disk_open(&attr, &other), 0);
	err = disk_test_read(other, n);
	kvmm_disk_close(other);
	sim_disk_install(&sim);
	return err;
}

/*
 *	segment  0      1             2    3
 *	         W ...  W dead, ...   ...  ...
 *	head     lost   5 + 1
 */
Test(disk_power, a_dead_record_is_there_until_the_older_ones_of_its_name_are_gone_for_good)
{
	u32 from;

	cr_assert_eq(disk_test_write(disk, WIPED, 0), 0);
	fill_up_to(1);
	cr_assert_eq(disk_test_write(disk, WIPED, KVMM_DISK_REPLACE), 0);
	cr_assert_eq(disk_test_forget(disk, WIPED, KVMM_DISK_WIPE), 1);
	fill_up_to(3);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
	from = sim.nr_steps;
	cr_assert_eq(put_at_once(16), 16);
	cr_assert_geq(disk->seg[1].seq, NR_SEGMENTS + 2, "both were used again");
	for (u32 i = from; i <= sim.nr_steps; i++) {
		crash_without_head(i, 0);
		cr_expect_eq(read_after_crash(WIPED), -ENOENT, "after step %u", i);
	}
}

/* The first segment's head, then the flush before the second one. */
Test(disk_power, nothing_is_used_again_where_the_flush_before_it_fails)
{
	fill_up_to(3);
	disk_io_drain(disk);
	sim_disk_fail(&sim, 2, SIM_EIO, false);
	cr_expect_eq(put_at_once(16), 15, "the next one flushes again");
	cr_expect_eq(disk_test_stat(disk).nr_sync_errors, 1);
	cr_expect_eq(disk_test_stat(disk).nr_write_errors, 0);
	cr_expect_geq(disk->seg[1].seq, NR_SEGMENTS + 2);
}

static bool copies(void)
{
	for (const struct disk_req *req = disk->reqs; req; req = req->next)
		if (req->kind == DISK_COPY_PUT)
			return true;
	return false;
}

/* Its segment is the next to be used again; a copy of it has a place in the last one, and waits. */
static void begin_to_copy(u32 n)
{
	kvmm_disk_close(disk);
	sim.no_queue = true;
	cr_assert_eq(kvmm_disk_open(&attr, &disk), 0);
	cr_assert_eq(disk_test_write(disk, n, 0), 0);
	for (u32 i = 0; i < 3; i++)
		cr_assert_eq(disk_test_read(disk, n), 0);
	fill_up_to(3);
	for (u32 i = 0; i < 9 && !copies(); i++)
		disk_io_progress(disk, false);
	cr_assert(copies());
}

Test(disk_power, what_is_wiped_while_it_goes_along_does_not_come_back_from_its_new_place)
{
	u32 from;

	begin_to_copy(WIPED);
	cr_assert_eq(disk_test_forget(disk, WIPED, KVMM_DISK_WIPE), 1);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
	from = sim.nr_steps;
	disk_io_drain(disk);
	for (u32 i = from; i <= sim.nr_steps; i++) {
		sim_disk_crash(&after, &sim, &(struct sim_crash){ .nr_steps = i });
		cr_expect_eq(read_after_crash(WIPED), -ENOENT, "after step %u of %u", i, sim.nr_steps);
	}
}

/* ---- the segment that says so is lost ---- */

/* From use 1, in segment 0; it was replaced in @segment, and wiped there. */
static void wipe_in(u32 segment)
{
	cr_assert_eq(disk_test_write(disk, WIPED, 0), 0);
	fill_up_to(segment);
	cr_assert_eq(disk_test_write(disk, WIPED, KVMM_DISK_REPLACE), 0);
	cr_assert_eq(disk_test_forget(disk, WIPED, KVMM_DISK_WIPE), 1);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
}

static void open_again(void)
{
	kvmm_disk_close(disk);
	cr_assert_eq(kvmm_disk_open(&attr, &disk), 0);
	cr_expect_eq(kvmm_disk_check(disk), 0);
}

/* Now, and when everything can be read again; and what is put from now on stays. */
static void expect_gone_for_good(void)
{
	open_again();
	cr_expect_eq(disk_test_read(disk, WIPED), -ENOENT);
	cr_assert_eq(disk_test_write(disk, next, 0), 0);
	attr.max_bytes = MAX_BYTES;
	sim.bad_from = sim.bad_to = 0;
	for (u32 i = 0; i < 2; i++) {
		open_again();
		cr_expect_eq(disk_test_read(disk, WIPED), -ENOENT, "opening %u", i);
		cr_expect_eq(disk_test_read(disk, next), 0);
	}
}

Test(disk_power, what_was_wiped_does_not_come_back_where_its_mark_is_cut_off)
{
	wipe_in(3);
	attr.max_bytes -= SEGMENT;
	expect_gone_for_good();
}

/* Of no use to anybody younger: all the others stay. */
Test(disk_power, who_is_younger_than_what_is_cut_off_stays)
{
	u32 nr;

	fill_up_to(3);
	fill_up_to(2);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
	nr = disk->index.nr_live - disk->seg[3].nr_entries;
	cr_assert_gt(nr, 0);
	attr.max_bytes -= SEGMENT;
	open_again();
	cr_expect_eq(disk->index.nr_live, nr);
}

static void cannot_read(u32 segment, u32 page)
{
	sim.bad_from = disk_offset(&disk->shape, segment, page);
	sim.bad_to = sim.bad_from + 1;
}

Test(disk_power, what_was_wiped_does_not_come_back_where_the_head_behind_it_cannot_be_read)
{
	wipe_in(2);
	cannot_read(2, 0);
	expect_gone_for_good();
}

Test(disk_power, what_was_wiped_does_not_come_back_where_its_mark_cannot_be_read)
{
	u32 page;

	fill_up_to(1);
	wipe_in(3);
	page = disk->seg[3].table[disk->seg[3].nr_records - 1].page;
	cannot_read(3, page);
	expect_gone_for_good();
}

/* The bad page is payload: it is that record's own affair. */
Test(disk_power, a_page_of_payload_that_cannot_be_read_costs_one_record)
{
	const struct disk_seg *seg = &disk->seg[2];
	u32 nr, page;

	fill_up_to(2);
	cr_assert_eq(put_at_once(2), 2);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
	cr_assert_eq(disk->open, 2);
	nr = disk->index.nr_live;
	page = seg->table[seg->nr_records - 1].page + 1;
	cannot_read(2, page);
	open_again();
	cr_expect_eq(disk->index.nr_live, nr - 1);
}
