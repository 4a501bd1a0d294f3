// SPDX-License-Identifier: Apache-2.0
/*
 * A disk store when the system fails it: the first call, the second, and so on until a whole run passes
 * without; once, or from then on; with each kind of failure; with the system's queue and without. Then
 * the same for host memory.
 *
 * Whatever happens, no read has wrong bytes, the store is consistent after each call, the file within
 * its limit, and no memory is left. When the failures are over the store opens and works.
 */
#include "tests/support/test.h"
#include "util.h"
#include "disk/internal.h"
#include "tests/support/fake_env.h"
#include "tests/support/length.h"
#include "tests/support/sim_disk.h"

#define SEGMENT		(64u << 10)
#define MAX_BYTES	(3 * SEGMENT + KV_DISK_FRONT_BYTES)
#define NR_NAMES	24u

static struct sim_disk sim;
static struct fake_env fake;
static bool is_gone[NR_NAMES];	/* a call has said so, and it was not put since */

static int open_store(struct kvmm_disk **disk)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = "/store", .max_bytes = MAX_BYTES,
				       .segment_bytes = SEGMENT };

	return kvmm_disk_open(&attr, disk);
}

static void check(struct kvmm_disk *disk)
{
	int err = kv_disk_check(disk);

	cr_assert(!err || err == -ENOMEM, "inconsistent");
	cr_assert_leq(sim.most_bytes, MAX_BYTES);
}

static void read_some(struct kvmm_disk *disk, u32 first, u32 nr)
{
	for (u32 i = first; i < first + nr; i++) {
		int err = disk_test_read(disk, i % NR_NAMES);

		cr_assert_leq(err, 0, "wrong bytes");
		cr_assert(err || !is_gone[i % NR_NAMES], "record %u is back", i % NR_NAMES);
		check(disk);
	}
}

/* One put of several records, so that they share transfers and cross segments. */
static void put_some(struct kvmm_disk *disk, u32 first, u32 nr)
{
	char *data = disk_test_buffers(nr);
	struct kvmm_disk_put_args put[8];

	for (u32 i = 0; i < nr; i++) {
		disk_test_fill((first + i) % NR_NAMES, data + i * DISK_TEST_MAX_BYTES);
		put[i] = disk_test_put((first + i) % NR_NAMES, data + i * DISK_TEST_MAX_BYTES);
		is_gone[(first + i) % NR_NAMES] = false;
	}
	kvmm_disk_put(disk, put, nr, 0, NULL);
	check(disk);
	free(data);
}

static void list_all(struct kvmm_disk *disk)
{
	struct kv_disk_cursor cursor = { 0 };
	struct kvmm_disk_entry entry[4];

	while (kv_disk_list(disk, &cursor, entry, 4) > 0)
		;
}

static void use(struct kvmm_disk *disk)
{
	check(disk);
	put_some(disk, 0, 6);
	for (u32 i = 0; i < 3; i++)
		read_some(disk, 0, 2);
	put_some(disk, 6, 8);
	is_gone[3] = disk_test_forget(disk, 3, KV_DISK_WIPE) >= 0;
	check(disk);
	put_some(disk, 14, 6);
	kvmm_disk_sync(disk);
	read_some(disk, 0, 16);
	list_all(disk);
}

static void run(void)
{
	struct kvmm_disk *disk;

	for (u32 i = 0; i < 2; i++) {
		if (open_store(&disk))
			continue;
		use(disk);
		if (i && kv_disk_reset(disk) >= 0)
			memset(is_gone, true, sizeof(is_gone));
		check(disk);
		kvmm_disk_close(disk);
		sim.nr_locks = 0;
	}
}

/* Whatever was done to it. */
static void works(void)
{
	struct kvmm_disk *disk;

	cr_assert_eq(open_store(&disk), 0);
	read_some(disk, 0, NR_NAMES);
	for (u32 i = 100; i < 112; i++)
		cr_assert_eq(disk_test_write(disk, i, 0), 0);
	cr_assert_eq(disk_test_read(disk, 111), 0);
	check(disk);
	kvmm_disk_close(disk);
	cr_assert_eq(kv_mem_bytes(), 0, "memory is left");
}

static void begin(bool queue)
{
	memset(is_gone, 0, sizeof(is_gone));
	sim_disk_init(&sim, 2 * MAX_BYTES);
	sim.no_queue = !queue;
	sim_disk_install(&sim);
}

static void end(void)
{
	sim_disk_remove();
	sim_disk_exit(&sim);
}

static u32 fail_each(u32 fault, bool on, bool queue)
{
	for (u32 nth = 1;; nth += test_stride()) {
		bool failed;

		begin(queue);
		sim_disk_fail(&sim, nth, fault, on);
		run();
		failed = sim.nr_failed;
		sim_disk_fail(&sim, 0, 0, false);
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

/* One interruption or one short transfer is nothing that anybody notices. */
Test(disk_fault, transfers_are_carried_on_with)
{
	static const u32 faults[] = { SIM_SHORT, SIM_EINTR };
	struct kvmm_disk *disk;

	for (u32 k = 0; k < 4; k++) {
		begin(k % 2);
		cr_assert_eq(open_store(&disk), 0);
		for (u32 i = 0; i < 8; i++) {
			sim_disk_fail(&sim, 1 + i % 2, faults[k / 2], false);
			cr_assert_eq(disk_test_write(disk, i, 0), 0);
			sim_disk_fail(&sim, 1, faults[k / 2], false);
			cr_assert_eq(disk_test_read(disk, i), 0);
		}
		cr_expect_eq(disk_test_stat(disk).nr_write_errors, 0);
		cr_expect_eq(disk_test_stat(disk).nr_read_errors, 0);
		sim_disk_fail(&sim, 0, 0, false);
		kvmm_disk_close(disk);
		end();
	}
}

static u32 starve(bool on, bool queue)
{
	for (u32 nth = 1;; nth += test_stride()) {
		bool failed;

		fake_env_install(&fake);
		begin(queue);
		fake_env_fail(&fake, nth, on);
		run();
		failed = fake_env_failed(&fake);
		fake_env_fail(&fake, 0, false);
		works();
		end();
		cr_assert_eq(fake.nr_live, 0);
		cr_assert_eq(fake.nr_bad_frees, 0);
		fake_env_remove(&fake);
		if (!failed)
			return nth - 1;
	}
}

Test(disk_fault, any_host_allocation_may_fail)
{
	u32 nr = 0;

	for (u32 on = 0; on < 2; on++)
		for (u32 queue = 0; queue < 2; queue++)
			nr += starve(on, queue);
	cr_log_info("%u points", nr);
	cr_expect_gt(nr, 200);
}

/* The first segment has no footer, and another one behind it: opening seals it, if there is memory. */
Test(disk_fault, a_segment_without_footer_may_find_no_memory_to_be_sealed)
{
	struct kvmm_disk *disk;
	bool failed = true;

	for (u32 nth = 1; failed; nth++) {
		fake_env_install(&fake);
		begin(false);
		cr_assert_eq(open_store(&disk), 0);
		cr_assert_eq(disk_test_write(disk, 0, 0), 0);
		sim_disk_fail(&sim, 1, SIM_EIO, true);
		disk_close_segment(disk);
		disk_io_progress(disk, true);
		cr_assert_eq(disk_test_stat(disk).nr_write_errors, 1);
		sim_disk_fail(&sim, 0, 0, false);
		cr_assert_eq(disk_test_write(disk, 1, 0), 0);
		kvmm_disk_close(disk);
		fake_env_fail(&fake, nth, false);
		if (!open_store(&disk)) {
			cr_expect_leq(disk_test_read(disk, 1), 0, "wrong bytes");
			kvmm_disk_close(disk);
		}
		failed = fake_env_failed(&fake);
		fake_env_fail(&fake, 0, false);
		sim.nr_locks = 0;
		works();
		end();
		cr_assert_eq(fake.nr_live, 0);
		fake_env_remove(&fake);
	}
}

/* What says that there is no memory has done nothing. */
Test(disk_fault, calls_without_memory_change_nothing)
{
	struct kvmm_disk_stat before, after;
	struct kvmm_disk *disk;
	int err;

	fake_env_install(&fake);
	begin(false);
	cr_assert_eq(open_store(&disk), 0);
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
	kvmm_disk_close(disk);
	end();
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}
