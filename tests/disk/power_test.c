// SPDX-License-Identifier: Apache-2.0
/*
 * Losses of power that crash.c meets once in a million: what was wiped does not come back, whichever of
 * the writes that were not flushed is missing. Nor does it where the segment that says so is cut off, or
 * cannot be read.
 */
#include "tests/support/sim_store.h"
#include "util.h"
#include "disk/internal.h"

#define NR_SEGMENTS	4u
#define WIPED		1u

static struct sim_disk after;
static u32 next;		/* record that was not put so far */

static void begin(void)
{
	begin_store(NR_SEGMENTS, 64 << 10);
	sim_disk_init(&after, sim.max_bytes);
	sim.keeps_log = true;
	next = 8;
	open_store();
}

static void end(void)
{
	sim_disk_install(&sim);
	end_store();
	cr_expect_eq(kv_mem_bytes(), 0);
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
	struct kvmm_disk_put_args put[16];
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
	cr_assert_eq(kvmm_disk_open(&store_attr, &other), 0);
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
	cr_assert_eq(disk_test_forget(disk, WIPED, KV_DISK_WIPE), 1);
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

static bool copies(void)
{
	for (const struct disk_io *io = disk->waiting; io; io = io->next)
		if (io->req->kind == DISK_COPY_PUT)
			return true;
	return false;
}

/* Its segment is the next to be used again; a copy of it has a place in the last one, and waits. */
static void begin_to_copy(u32 n)
{
	kvmm_disk_close(disk);
	sim.no_queue = true;
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
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
	cr_assert_eq(disk_test_forget(disk, WIPED, KV_DISK_WIPE), 1);
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
	cr_assert_eq(disk_test_forget(disk, WIPED, KV_DISK_WIPE), 1);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
}

static void open_again(void)
{
	open_store();
	cr_expect_eq(kv_disk_check(disk), 0);
}

/* Now, and when everything can be read again; and what is put from now on stays. */
static void expect_gone_for_good(void)
{
	open_again();
	cr_expect_eq(disk_test_read(disk, WIPED), -ENOENT);
	cr_assert_eq(disk_test_write(disk, next, 0), 0);
	store_attr.max_bytes = store_max_bytes;
	sim.bad_from = sim.bad_to = 0;
	for (u32 i = 0; i < 2; i++) {
		open_again();
		cr_expect_eq(disk_test_read(disk, WIPED), -ENOENT, "opening %u", i);
		cr_expect_eq(disk_test_read(disk, next), 0);
	}
}

/* Nor does a name that was wiped come back where its mark is cut off. */
Test(disk_power, less_room_costs_what_is_cut_off_and_no_more)
{
	u32 nr;

	wipe_in(3);
	nr = disk->index.nr_live - disk->seg[3].nr_entries;
	cr_assert_gt(nr, 0);
	store_attr.max_bytes -= store_attr.segment_bytes;
	open_again();
	cr_expect_eq(disk->index.nr_live, nr);
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
	store_attr.max_bytes -= store_attr.segment_bytes;
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

/* ---- one page is lost ---- */

static u32 nr_right(u32 nr)
{
	u32 nr_seen = 0;

	for (u32 n = 0; n < nr; n++) {
		int err = disk_test_read(disk, n);

		cr_expect_neq(err, 1, "record %u has wrong bytes", n);
		nr_seen += !err;
	}
	return nr_seen;
}

/* Overwrites each page in its turn; those below @nr are gone. */
static void expect_gone_with_any_page_bad(u32 first, u32 nr)
{
	u8 *good = malloc(sim.max_bytes);
	u64 bytes;

	kvmm_disk_close(disk);
	bytes = sim.bytes;
	memcpy(good, sim.content, bytes);
	for (u64 at = 0; at < bytes; at += KV_DISK_PAGE) {
		memcpy(sim.content, good, bytes);
		sim.bytes = bytes;
		memset(sim.content + at, 0xa5, KV_DISK_PAGE);
		cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
		for (u32 n = first; n < first + nr; n++)
			cr_expect_neq(disk_test_read(disk, n), 0, "record %u, page %llu", n,
				      (unsigned long long)at / KV_DISK_PAGE);
		nr_right(next);
		kvmm_disk_close(disk);
	}
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
	free(good);
}

/* Any page: of a superblock, a head, a record, a footer, or the marks of wiped names. */
Test(disk_power, what_was_wiped_does_not_come_back_whichever_page_is_overwritten)
{
	wipe_in(2);
	expect_gone_with_any_page_bad(WIPED, 1);
}

/* Where all copies of the marks are bad nothing is known of any name. */
Test(disk_power, where_no_copy_of_the_marks_is_good_nothing_is_found)
{
	wipe_in(2);
	kvmm_disk_close(disk);
	memset(sim.content + KV_DISK_SUPER_BYTES, 0xa5, KV_DISK_NR_COPIES * KV_DISK_PAGE);
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
	cr_expect_eq(nr_right(next), 0);
	for (u32 i = 0; i < 2; i++, next++) {
		disk_close_segment(disk);
		cr_assert_eq(disk_test_write(disk, next, 0), 0);
		open_again();
		cr_expect_eq(disk_test_read(disk, next), 0, "what is put now is there");
	}
	cr_expect_eq(disk_test_read(disk, WIPED), -ENOENT);
}

/* ---- one page is an old one ---- */

#define FRONT_PAGES	(KV_DISK_FRONT_BYTES / KV_DISK_PAGE)

static u8 *page_of_file(u8 *file, u32 page)
{
	return file + page * KV_DISK_PAGE;
}

/* As it was with that page of @old. The store is closed before and after. */
static void expect_with_old_page(u32 page, u8 *old)
{
	u8 now[KV_DISK_FRONT_BYTES];

	memcpy(now, sim.content, sizeof(now));
	memcpy(page_of_file(sim.content, page), page_of_file(old, page), KV_DISK_PAGE);
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
	cr_expect_eq(disk_test_read(disk, WIPED), -ENOENT, "page %u", page);
	cr_expect_eq(disk_test_read(disk, 0), 0, "page %u", page);
	kvmm_disk_close(disk);
	memcpy(sim.content, now, sizeof(now));
}

/* The old superblocks and marks were written more often than the new ones. */
static void wipe_often(u8 *old)
{
	for (u32 i = 0; i < 6; i++) {
		cr_assert_eq(disk_test_write(disk, WIPED, 0), 0);
		cr_assert_eq(disk_test_forget(disk, WIPED, KV_DISK_WIPE), 1);
		open_again();
	}
	kvmm_disk_close(disk);
	memcpy(old, sim.content, KV_DISK_FRONT_BYTES);
}

static void put_and_wipe(void)
{
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
	cr_assert_eq(disk_test_write(disk, 0, KVMM_DISK_REPLACE), 0);
	cr_assert_eq(disk_test_write(disk, WIPED, KVMM_DISK_REPLACE), 0);
	cr_assert_eq(disk_test_forget(disk, WIPED, KV_DISK_WIPE), 1);
	kvmm_disk_close(disk);
}

Test(disk_power, a_store_that_began_anew_is_not_undone_by_an_old_page)
{
	u8 old[KV_DISK_FRONT_BYTES];

	wipe_often(old);
	store_attr.flags |= KVMM_DISK_RESET;
	put_and_wipe();
	store_attr.flags &= ~KVMM_DISK_RESET;
	for (u32 i = 0; i < FRONT_PAGES; i++)
		expect_with_old_page(i, old);
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
}

/* @byte: what all copies of the marks were lost to. */
static void expect_marks_younger_than_old_ones(u8 byte)
{
	u8 old[KV_DISK_FRONT_BYTES];

	wipe_often(old);
	memset(sim.content + KV_DISK_SUPER_BYTES, byte, KV_DISK_NR_COPIES * KV_DISK_PAGE);
	put_and_wipe();
	for (u32 i = KV_DISK_NR_COPIES; i < FRONT_PAGES; i++)
		expect_with_old_page(i, old);
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
}

Test(disk_power, marks_that_begin_anew_are_younger_than_any_before)
{
	expect_marks_younger_than_old_ones(0xa5);
	expect_marks_younger_than_old_ones(0);
}

/* Marks and superblock: power is lost in the write of one copy, and another is an old one. */
static void expect_gone_with_two_pages_wrong(u8 *old)
{
	u8 now[KV_DISK_FRONT_BYTES];

	memcpy(now, sim.content, sizeof(now));
	for (u32 i = 0; i < FRONT_PAGES * FRONT_PAGES; i++) {
		memset(page_of_file(sim.content, i / FRONT_PAGES) + 512, 0xa5, KV_DISK_PAGE - 512);
		memset(page_of_file(sim.content, i / FRONT_PAGES), 0xa5, 16);
		memcpy(page_of_file(sim.content, i % FRONT_PAGES),
		       page_of_file(old, i % FRONT_PAGES), KV_DISK_PAGE);
		cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
		cr_expect_eq(disk_test_read(disk, WIPED), -ENOENT, "pages %u, %u",
			     i / FRONT_PAGES, i % FRONT_PAGES);
		cr_expect_eq(disk_test_read(disk, 0), 0, "pages %u, %u", i / FRONT_PAGES,
			     i % FRONT_PAGES);
		kvmm_disk_close(disk);
		memcpy(sim.content, now, sizeof(now));
	}
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
}

Test(disk_power, what_was_wiped_does_not_come_back_with_one_page_torn_and_one_old)
{
	u8 old[KV_DISK_FRONT_BYTES];

	cr_assert_eq(disk_test_write(disk, 2, 0), 0);
	cr_assert_eq(disk_test_forget(disk, 2, KV_DISK_WIPE), 1);
	kvmm_disk_close(disk);
	memcpy(old, sim.content, sizeof(old));
	put_and_wipe();
	expect_gone_with_two_pages_wrong(old);
}

Test(disk_power, what_was_reset_does_not_come_back_with_one_page_torn_and_one_old)
{
	u8 old[KV_DISK_FRONT_BYTES];

	cr_assert_eq(disk_test_write(disk, WIPED, 0), 0);
	kvmm_disk_close(disk);
	memcpy(old, sim.content, sizeof(old));
	cr_assert_eq(kvmm_disk_open(&store_attr, &disk), 0);
	cr_assert_eq(kv_disk_reset(disk), 1);
	cr_assert_eq(disk_test_write(disk, 0, 0), 0);
	kvmm_disk_close(disk);
	expect_gone_with_two_pages_wrong(old);
}

/* A page has room for 252. What is older than a mark that had to go is missed, and nothing else. */
Test(disk_power, more_names_are_wiped_than_there_are_marks)
{
	u32 nr_names = 3 * KV_DISK_NR_MARKS, first = 1000;

	cr_assert_eq(disk->shape.mark_pages, 1);
	for (u32 n = first; n < first + nr_names; n++) {
		cr_assert_eq(disk_test_write(disk, n, 0), 0);
		cr_assert_eq(disk_test_forget(disk, n, KV_DISK_WIPE), 1);
	}
	cr_assert_eq(disk_test_write(disk, 0, 0), 0);
	open_again();
	for (u32 n = first; n < first + nr_names; n++)
		cr_expect_eq(disk_test_read(disk, n), -ENOENT, "record %u", n);
	cr_expect_eq(disk_test_read(disk, 0), 0);
}

/* A store may have records that its index does not know of. */
Test(disk_power, what_was_forgotten_before_can_be_wiped)
{
	cr_assert_eq(disk_test_write(disk, WIPED, 0), 0);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
	cr_assert_eq(disk_test_forget(disk, WIPED, 0), 1);
	cr_expect_eq(disk_test_forget(disk, WIPED, KV_DISK_WIPE), 0, "it was not there");
	open_again();
	cr_expect_eq(disk_test_read(disk, WIPED), -ENOENT);
}

/* No call to sync it: when the call is over it is gone for good. */
Test(disk_power, what_was_wiped_is_gone_when_the_call_says_so)
{
	cr_assert_eq(disk_test_write(disk, WIPED, 0), 0);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
	cr_assert_eq(disk_test_forget(disk, WIPED, KV_DISK_WIPE), 1);
	for (u64 seed = 1; seed < 65; seed++) {
		sim_disk_crash(&after, &sim, &(struct sim_crash){ sim.nr_steps, 512, seed });
		cr_expect_eq(read_after_crash(WIPED), -ENOENT, "seed %llu", (unsigned long long)seed);
	}
}

/* ---- all of it at one go ---- */

Test(disk_power, what_was_reset_is_gone_when_the_call_says_so)
{
	u32 from, nr;

	fill_up_to(2);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
	nr = disk->index.nr_live;
	cr_expect_eq(kv_disk_reset(disk), nr);
	cr_expect_eq(disk->index.nr, 0);
	from = sim.nr_steps;
	cr_assert_eq(disk_test_write(disk, 0, 0), 0);
	cr_assert_eq(kvmm_disk_sync(disk), 0);
	for (u32 i = from; i <= sim.nr_steps; i++) {
		sim_disk_crash(&after, &sim, &(struct sim_crash){ i, 512, i + 1 });
		for (u32 n = 8; n < next; n++)
			cr_expect_eq(read_after_crash(n), -ENOENT, "record %u after step %u", n, i);
	}
	cr_expect_eq(read_after_crash(0), 0, "it was put afterwards");
	expect_gone_with_any_page_bad(8, next - 8);
	cr_expect_eq(disk_test_read(disk, 0), 0);
}

/* Two superblocks, each with a flush. */
Test(disk_power, a_reset_that_fails_says_so_and_can_be_had_again)
{
	for (u32 i = 1; i <= 4; i++) {
		cr_assert_eq(disk_test_write(disk, i, 0), 0);
		disk_io_drain(disk);
		sim_disk_fail(&sim, i, SIM_EIO, false);
		cr_expect_eq(kv_disk_reset(disk), -EIO, "call %u", i);
		cr_expect_eq(disk_test_read(disk, i), -ENOENT);
		cr_expect_eq(kv_disk_reset(disk), 0);
		open_again();
		cr_expect_eq(disk_test_read(disk, i), -ENOENT);
	}
}

/* They are void, and what is put from then on is not. */
Test(disk_power, puts_under_way_are_reset_too)
{
	char *data = disk_test_buffers(2);
	struct kvmm_disk_put_args put;
	struct kv_disk_done done;

	sim.no_queue = true;
	open_again();
	disk_test_fill(3, data);
	put = disk_test_put(3, data);
	cr_assert_eq(kv_disk_submit_put(disk, &put, 1, 0, 7), 0);
	cr_expect_eq(kv_disk_reset(disk), 1);
	while (!kv_disk_poll(disk, &done, 1))
		;
	cr_expect_eq(done.status, -ECANCELED);
	cr_assert_eq(disk_test_write(disk, 4, 0), 0);
	open_again();
	cr_expect_eq(disk_test_read(disk, 3), -ENOENT);
	cr_expect_eq(disk_test_read(disk, 4), 0);
	free(data);
}
