// SPDX-License-Identifier: Apache-2.0
/*
 * A disk store when the system fails it: the first call, the second, and so on until a whole run passes
 * without; once, or from then on; with each kind of failure; with the system's queue and without. Then
 * the same for host memory.
 *
 * Whatever happens, no read has wrong bytes, the store is consistent after each call, the file within
 * its limit, and no memory is left. When the failures are over the store opens and works.
 */
#include <pthread.h>
#include <sched.h>

#include <kv/env.h>

#include "disk/internal.h"
#include "tests/support/fault.h"
#include "tests/support/length.h"
#include "tests/support/sim_store.h"
#include "util.h"

#define NR_NAMES	24u
#define NO_MEMORY	SIM_NR_FAULTS	/* a failure like those of the system */

static bool is_gone[NR_NAMES];	/* a call has said so, and it was not put since */

static void check(void)
{
	int err = kv_disk_check(disk);

	cr_assert(!err || err == -ENOMEM, "inconsistent");
	cr_assert_leq(sim.most_bytes, store_max_bytes);
}

static void read_some(u32 first, u32 nr)
{
	for (u32 i = first; i < first + nr; i++) {
		int err = disk_test_read(disk, i % NR_NAMES);

		cr_assert_leq(err, 0, "wrong bytes");
		cr_assert(err || !is_gone[i % NR_NAMES], "record %u is back", i % NR_NAMES);
		check();
	}
}

/* One put of several records, so that they share transfers and cross segments. */
static void put_some(u32 first, u32 nr)
{
	char *data = disk_test_buffers(nr);
	struct kvmm_disk_put_args put[8];

	for (u32 i = 0; i < nr; i++) {
		disk_test_fill((first + i) % NR_NAMES, data + i * DISK_TEST_MAX_BYTES);
		put[i] = disk_test_put((first + i) % NR_NAMES, data + i * DISK_TEST_MAX_BYTES);
		is_gone[(first + i) % NR_NAMES] = false;
	}
	kvmm_disk_put(disk, put, nr, 0, NULL);
	check();
	free(data);
}

static void look_at_all(void)
{
	struct kvmm_disk_view_info info = { .size = sizeof(info) };
	struct kvmm_disk_segment segment;
	struct kvmm_disk_entry entry;
	struct kvmm_disk_view *view;

	if (kvmm_disk_view_open("/store", &info, &view))
		return;
	for (u32 i = 0; i < info.nr_segments; i++)
		if (!kvmm_disk_view_segment(view, i, &segment))
			while (kvmm_disk_view_next(view, 1, &entry) == 1)
				;
	kvmm_disk_view_close(view);
}

static void use(void)
{
	check();
	put_some(0, 6);
	for (u32 i = 0; i < 3; i++)
		read_some(0, 2);
	put_some(6, 8);
	is_gone[3] = disk_test_forget(disk, 3, KV_DISK_WIPE) >= 0;
	check();
	put_some(14, 6);
	kvmm_disk_sync(disk);
	read_some(0, 16);
	look_at_all();
}

static void close_store(void)
{
	kvmm_disk_close(disk);
	disk = NULL;
}

static void run(void)
{
	for (u32 i = 0; i < 2; i++) {
		if (kvmm_disk_open(&store_attr, &disk))
			continue;
		use();
		if (i && kv_disk_reset(disk) >= 0)
			memset(is_gone, true, sizeof(is_gone));
		check();
		close_store();
		sim.nr_locks = 0;
	}
}

/* Whatever was done to it. */
static void works(void)
{
	open_store();
	read_some(0, NR_NAMES);
	for (u32 i = 100; i < 112; i++)
		cr_assert_eq(disk_test_write(disk, i, 0), 0);
	cr_assert_eq(disk_test_read(disk, 111), 0);
	check();
	close_store();
	cr_assert_eq(kv_mem_bytes(), 0, "memory is left");
}

static void begin(bool queue)
{
	memset(is_gone, 0, sizeof(is_gone));
	fake_env_install(&fake);
	begin_store(3, 64 << 10);
	sim.no_queue = !queue;
}

static void end(void)
{
	end_store();
	cr_assert_eq(fake.nr_live, 0);
	cr_assert_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

/* @nth 0: nothing fails any more. */
static void fail(u32 fault, u32 nth, bool on)
{
	if (fault == NO_MEMORY)
		fake_env_fail(&fake, nth, on);
	else
		sim_disk_fail(&sim, nth, fault, on);
}

static u32 fail_each(u32 fault, bool on, bool queue)
{
	for (u32 nth = 1;; nth += test_stride()) {
		bool failed;

		begin(queue);
		fail(fault, nth, on);
		run();
		failed = fault == NO_MEMORY ? fake_env_failed(&fake) : sim.nr_failed;
		fail(fault, 0, false);
		works();
		end();
		if (!failed)
			return nth - 1;
	}
}

static void fail_all(u32 fault)
{
	u32 nr = 0;

	for (u32 on = 0; on < 2; on++)
		for (u32 queue = 0; queue < 2; queue++)
			nr += fail_each(fault, on, queue);
	cr_log_info("%u points", nr);
	cr_expect_gt(nr, 200);
}

TEST_CALL(disk_fault, any_call_may_fail_with_an_error_of_the_disk, fail_all(SIM_EIO))
TEST_CALL(disk_fault, any_call_may_find_no_room, fail_all(SIM_ENOSPC))
TEST_CALL(disk_fault, any_transfer_may_stop_half_way, fail_all(SIM_SHORT))
TEST_CALL(disk_fault, any_call_may_be_interrupted, fail_all(SIM_EINTR))
TEST_CALL(disk_fault, any_read_may_be_wrong, fail_all(SIM_LIE))
TEST_CALL(disk_fault, any_host_allocation_may_fail, fail_all(NO_MEMORY))

/* One interruption or one short transfer is nothing that anybody notices. */
Test(disk_fault, transfers_are_carried_on_with)
{
	static const u32 faults[] = { SIM_SHORT, SIM_EINTR };

	for (u32 k = 0; k < 4; k++) {
		begin(k % 2);
		open_store();
		for (u32 i = 0; i < 8; i++) {
			sim_disk_fail(&sim, 1 + i % 2, faults[k / 2], false);
			cr_assert_eq(disk_test_write(disk, i, 0), 0);
			sim_disk_fail(&sim, 1, faults[k / 2], false);
			cr_assert_eq(disk_test_read(disk, i), 0);
		}
		cr_expect_eq(disk_test_stat(disk).nr_write_errors, 0);
		cr_expect_eq(disk_test_stat(disk).nr_read_errors, 0);
		sim_disk_fail(&sim, 0, 0, false);
		end();
	}
}

/* The first segment has no footer, and another one behind it: opening seals it, if there is memory. */
Test(disk_fault, a_segment_without_footer_may_find_no_memory_to_be_sealed)
{
	bool failed = true;

	for (u32 nth = 1; failed; nth++) {
		begin(false);
		open_store();
		cr_assert_eq(disk_test_write(disk, 0, 0), 0);
		sim_disk_fail(&sim, 1, SIM_EIO, true);
		disk_close_segment(disk);
		disk_io_progress(disk, true);
		cr_assert_eq(disk_test_stat(disk).nr_write_errors, 1);
		sim_disk_fail(&sim, 0, 0, false);
		cr_assert_eq(disk_test_write(disk, 1, 0), 0);
		close_store();
		fake_env_fail(&fake, nth, false);
		if (!kvmm_disk_open(&store_attr, &disk))
			cr_expect_leq(disk_test_read(disk, 1), 0, "wrong bytes");
		close_store();
		failed = fake_env_failed(&fake);
		fake_env_fail(&fake, 0, false);
		sim.nr_locks = 0;
		works();
		end();
	}
}

/* What says that there is no memory has done nothing. */
Test(disk_fault, calls_without_memory_change_nothing)
{
	struct kvmm_disk_stat before, after;
	int err;

	begin(false);
	open_store();
	for (u32 i = 0; i < 8; i++)
		cr_assert_eq(disk_test_write(disk, i, 0), 0);
	before = disk_test_stat(disk);
	for (u32 nth = 1;; nth++) {
		fake_env_fail(&fake, nth, false);
		err = disk_test_read(disk, nth % 8);
		if (!fake_env_failed(&fake))
			break;
		cr_assert_eq(err, -ENOMEM);
		after = disk_test_stat(disk);
		cr_expect_eq(after.nr_records, before.nr_records);
		cr_expect_eq(after.nr_got, before.nr_got);
	}
	cr_expect_eq(err, 0);
	fake_env_fail(&fake, 0, false);
	end();
}

/* Names are kept beside the index: both grow, or neither, and so the record is put or is not. */
Test(disk_fault, an_index_that_keeps_names_is_made_and_grows_as_a_whole)
{
	u32 nr_refused = 0, nr = 120;
	bool failed;
	int err;

	fake_env_install(&fake);
	begin_store(32, 64 << 10);
	store_attr.flags |= KVMM_DISK_NAMES;
	for (u32 nth = 1;; nth++) {
		err = fault_at(nth, kvmm_disk_open(&store_attr, &disk), &failed);
		if (!err)
			break;
		cr_assert_eq(err, -ENOMEM, "allocation %u", nth);
		cr_assert(failed);
		cr_assert_eq(fake.nr_live, 0, "allocation %u", nth);
	}
	close_store();
	open_store();
	for (u32 i = 0, nth = 1; i < nr; i += !err, nth = err ? nth + 1 : 1) {
		err = fault_at(nth, disk_test_write(disk, i, 0), &failed);
		cr_assert(!err || (failed && err == -ENOMEM), "record %u, allocation %u", i, nth);
		cr_assert_eq(kv_disk_check(disk), 0);
		nr_refused += err != 0;
	}
	cr_expect_gt(disk->index.nr_slots, 64);
	cr_expect_gt(nr_refused, nr);
	for (u32 i = 0; i < nr; i++)
		cr_expect_eq(disk_test_read(disk, i), 0, "record %u", i);
	end();
}

/* ---- a medium that hangs, or fails, while a segment is begun ---- */

static s64 (*write_well)(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset);
static int (*allocate_well)(void *ctx, int file, u64 offset, u64 bytes);
static u32 is_hung, is_well;

static bool is_head(u32 nr, u64 offset)
{
	return nr == 1 && (offset - KV_DISK_FRONT_BYTES) % store_attr.segment_bytes == 0;
}

/* Not for ever. */
static void hang(void)
{
	u64 until = kv_clock_ns() + 5000000000ull;

	smp_store_release(&is_hung, 1);
	while (!smp_load_acquire(&is_well) && kv_clock_ns() < until)
		sched_yield();
	cr_expect(smp_load_acquire(&is_well), "no other thread got on");
}

static s64 write_hung(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset)
{
	if (is_head(nr, offset))
		hang();
	return write_well(ctx, file, iov, nr, offset);
}

static int allocate_hung(void *ctx, int file, u64 offset, u64 bytes)
{
	hang();
	return allocate_well(ctx, file, offset, bytes);
}

static void *write_segments(void *arg)
{
	const u32 *first = arg;

	for (u32 i = *first; i < *first + NR_NAMES; i++)
		cr_expect_eq(disk_test_write(disk, i, 0), 0);
	return NULL;
}

static void begin_hanging(void)
{
	begin_store(16, 64 << 10);
	store_attr.io = KVMM_DISK_IO_POLL;
	open_store();
	cr_assert_eq(disk_test_write(disk, 0, 0), 0);
	write_well = sim.ops.pwritev;
	allocate_well = sim.ops.allocate;
}

/* @nr threads write, one of which hangs, while this one reads. */
static void read_beside(u32 nr)
{
	u32 first[2] = { 1, 1 + NR_NAMES };
	pthread_t thread[2];

	for (u32 i = 0; i < nr; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, write_segments, &first[i]), 0);
	while (!smp_load_acquire(&is_hung))
		sched_yield();
	cr_expect_eq(disk_test_read(disk, 0), 0);
	smp_store_release(&is_well, 1);
	for (u32 i = 0; i < nr; i++)
		cr_assert_eq(pthread_join(thread[i], NULL), 0);
	for (u32 i = 0; i < 1 + nr * NR_NAMES; i++)
		cr_expect_eq(disk_test_read(disk, i), 0);
	cr_expect_eq(disk_test_stat(disk).nr_reclaimed, 0);
	end_store();
}

Test(disk_hang, the_head_of_a_segment_holds_up_no_thread_that_reads)
{
	begin_hanging();
	sim.ops.pwritev = write_hung;
	read_beside(1);
}

/* No segment is used again for the thread that waits until another one has made it longer. */
Test(disk_hang, a_file_that_is_made_longer_holds_up_no_thread_that_reads)
{
	begin_hanging();
	sim.ops.allocate = allocate_hung;
	read_beside(2);
}

/* ---- a file that may not become longer ---- */

static u32 nr_too_long;

/* As with a limit on the size of files. Not for ever: one that asks again is seen by the number. */
static int allocate_too_long(void *ctx, int file, u64 offset, u64 bytes)
{
	return nr_too_long++ < 8 ? -EFBIG : allocate_well(ctx, file, offset, bytes);
}

Test(disk_fault, a_limit_on_the_size_of_files_is_no_room_and_asked_for_once)
{
	begin_store(16, 64 << 10);
	open_store();
	allocate_well = sim.ops.allocate;
	sim.ops.allocate = allocate_too_long;
	cr_expect_eq(disk_test_write(disk, 0, 0), -ENOSPC);
	cr_expect_eq(nr_too_long, 1);
	cr_expect_eq(disk_test_stat(disk).nr_no_room, 1);
	sim.ops.allocate = allocate_well;
	cr_expect_eq(disk_test_write(disk, 0, 0), 0);
	end_store();
}

/* ---- two threads at the system's queue ---- */

static char *buffer;
static int (*submit_well)(void *ctx, void *queue, struct kv_file_io *const *ios, u32 nr);

static void *submit_get(void *data)
{
	struct kvmm_disk_get_args get = { .name = disk_test_name(0), .data = data,
					  .room = DISK_TEST_MAX_BYTES };

	cr_expect_eq(kv_disk_submit_get(disk, &get, 1, 0), 0);
	return NULL;
}

/* Another thread submits, and goes, while this one is at the queue. */
static int submit_busy(void *ctx, void *queue, struct kv_file_io *const *ios, u32 nr)
{
	pthread_t thread;

	sim.ops.queue_submit = submit_well;
	cr_assert_eq(pthread_create(&thread, NULL, submit_get, buffer + DISK_TEST_MAX_BYTES), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	return submit_well(ctx, queue, ios, nr);
}

Test(disk_queue, what_another_thread_submits_meanwhile_is_handed_on_before_any_poll)
{
	buffer = disk_test_buffers(2);
	begin(true);
	open_store();
	cr_assert_eq(disk_test_write(disk, 0, 0), 0);
	submit_well = sim.ops.queue_submit;
	sim.ops.queue_submit = submit_busy;
	submit_get(buffer);
	cr_expect_eq(disk->nr_queued, 2);
	cr_expect_null(disk->waiting);
	end();
	free(buffer);
}

static u32 nr_failed_heads;

static s64 write_no_head(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset)
{
	if (!is_head(nr, offset))
		return write_well(ctx, file, iov, nr, offset);
	nr_failed_heads++;
	return -EIO;
}

/* The one that was emptied for it is taken again, and no other one goes. */
Test(disk_fault, a_segment_whose_head_fails_is_as_free_as_before)
{
	struct kvmm_disk_stat before, after;
	u32 n = 0;
	int err;

	begin(false);
	open_store();
	write_well = sim.ops.pwritev;
	while (!disk_test_stat(disk).nr_reclaimed)
		cr_assert_eq(disk_test_write(disk, n++, 0), 0);
	before = disk_test_stat(disk);
	sim.ops.pwritev = write_no_head;
	do
		err = disk_test_write(disk, n++, 0);
	while (!err);
	after = disk_test_stat(disk);
	cr_expect_eq(err, -EIO);
	cr_expect_eq(nr_failed_heads, 1);
	cr_expect_eq(after.nr_write_errors, before.nr_write_errors + 1, "its record was written");
	cr_expect_eq(after.nr_reclaimed, before.nr_reclaimed + 1);
	check();
	sim.ops.pwritev = write_well;
	cr_expect_eq(disk_test_write(disk, n, 0), 0);
	cr_expect_eq(disk_test_stat(disk).nr_reclaimed, after.nr_reclaimed);
	cr_expect_eq(disk_test_stat(disk).nr_unsealed, after.nr_unsealed);
	check();
	open_store();
	cr_expect_eq(disk_test_read(disk, n), 0);
	end();
}

/* Four in a row. */
Test(disk_fault, heads_that_fail_in_a_row_end_writing)
{
	u32 n = 0;

	begin(false);
	open_store();
	cr_assert_eq(disk_test_write(disk, n++, 0), 0);
	disk_close_segment(disk);
	disk_io_drain(disk);
	write_well = sim.ops.pwritev;
	sim.ops.pwritev = write_no_head;
	while (disk_test_write(disk, n++, 0) != -EROFS)
		check();
	cr_expect_eq(nr_failed_heads, 4);
	cr_expect_eq(disk_test_read(disk, 0), 0);
	end();
}
