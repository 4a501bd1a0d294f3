// SPDX-License-Identifier: Apache-2.0
/* What a disk store does: on a disk in memory, by calls that wait, and by submitting and polling. */
#include <pthread.h>

#include <kv/env.h>

#include "tests/support/sim_store.h"
#include "util.h"
#include "disk/internal.h"

#define SEGMENT		(64u << 10)
#define NR_SEGMENTS	8u
#define MAX_BYTES	(NR_SEGMENTS * SEGMENT + KV_DISK_FRONT_BYTES)

static int open_again(void)
{
	return kvmm_disk_open(&store_attr, &disk);
}

static void begin(void)
{
	begin_store(NR_SEGMENTS, SEGMENT);
	open_store();
}

/* Nothing happens before it is polled for. */
static void begin_polled(void)
{
	begin();
	store_attr.io = KVMM_DISK_IO_POLL;
	open_store();
}

static void end(void)
{
	end_store();
	cr_expect_eq(kv_mem_bytes(), 0, "%llu bytes left", (unsigned long long)kv_mem_bytes());
}

static void write_all(u32 first, u32 nr)
{
	for (u32 i = first; i < first + nr; i++)
		cr_assert_eq(disk_test_write(disk, i, 0), 0, "record %u", i);
}

static u32 nr_readable(u32 first, u32 nr)
{
	u32 nr_good = 0;

	for (u32 i = first; i < first + nr; i++) {
		int err = disk_test_read(disk, i);

		cr_expect(err <= 0, "record %u has wrong bytes", i);
		nr_good += !err;
	}
	return nr_good;
}

TestSuite(disk, .init = begin, .fini = end);
TestSuite(disk_poll, .init = begin_polled, .fini = end);

Test(disk, what_was_put_is_read_and_found_again_after_a_restart)
{
	write_all(0, 16);
	cr_expect_eq(nr_readable(0, 16), 16);
	cr_expect_eq(disk_test_write(disk, 3, 0), -EEXIST);
	cr_expect_eq(disk_test_read(disk, 17), -ENOENT);
	open_store();
	cr_expect_eq(nr_readable(0, 16), 16);
	cr_expect_eq(disk_test_stat(disk).nr_found, 16);
	cr_expect_eq(disk_test_stat(disk).nr_damaged, 0);
}

Test(disk, a_name_that_differs_in_anything_is_another_one)
{
	struct kvmm_disk_name name = disk_test_name(5), other;

	write_all(5, 1);
	for (u32 bit = 0; bit < 8 * sizeof(name); bit++) {
		memcpy(&other, &name, sizeof(name));
		((u8 *)&other)[bit / 8] ^= 1 << bit % 8;
		cr_expect_eq(kv_disk_lookup(disk, &other), KV_DISK_MISS, "bit %u", bit);
	}
	cr_expect_eq(kv_disk_lookup(disk, &name), KV_DISK_HIT);
}

/* The index is told lies: the record itself has another name. */
Test(disk, what_the_index_says_is_not_believed)
{
	struct kvmm_disk_name liar = disk_test_name(8);
	struct kvmm_disk_get_args get = { .name = liar, .data = disk_test_buffers(1),
					  .room = DISK_TEST_MAX_BYTES };
	struct disk_entry *entry;
	s32 status;

	write_all(0, 1);
	entry = disk_index_find(&disk->index, disk_fp_of(&disk->index, &(struct kvmm_disk_name){ 0 }));
	cr_assert_null(entry);
	for (u32 i = 0; i < disk->index.nr_slots; i++)
		if (disk->index.entry[i].state) {
			struct disk_entry moved = disk->index.entry[i];

			disk_entry_drop(disk, &disk->index.entry[i]);
			moved.fp = disk_fp_of(&disk->index, &liar);
			disk_entry_add(disk, &moved);
			break;
		}
	cr_expect(disk_test_has(disk, 8));
	cr_expect_eq(kvmm_disk_get(disk, &get, 1, &status), 0);
	cr_expect_eq(status, -EBADMSG);
	cr_expect_not(disk_test_has(disk, 8), "a record that is no good is dropped");
	free(get.data);
}

Test(disk, a_second_writer_is_refused)
{
	struct kvmm_disk *second;

	cr_expect_eq(kvmm_disk_open(&store_attr, &second), -EBUSY);
	write_all(0, 2);
	kvmm_disk_close(disk);
	cr_expect_eq(open_again(), 0);
}

Test(disk, the_oldest_records_make_way_and_the_file_does_not_grow)
{
	struct kvmm_disk_stat stat;

	write_all(0, 100);
	stat = disk_test_stat(disk);
	cr_expect_gt(stat.nr_reclaimed, 3);
	cr_expect_eq(stat.nr_records + stat.nr_dropped, 100);
	cr_expect_eq(nr_readable(0, 100), stat.nr_records);
	cr_expect_eq(nr_readable(90, 10), 10, "the youngest are there");
	cr_expect_eq(nr_readable(0, 20), 0, "the oldest are not");
	cr_expect_eq(sim.bytes, MAX_BYTES);
}

static u64 told_ns;

static u64 told_clock(void *ctx)
{
	(void)ctx;
	return told_ns;
}

/* Record 0 is read at 40 s; at 70 s its segment is used again. */
Test(disk, how_old_records_are_when_they_are_read_and_lost_is_known)
{
	struct kv_env_ops env = kv_env_system;
	struct kvmm_disk_stat stat;
	u32 next = 1;

	env.clock_ns = told_clock;
	kv_env_set(&env);
	open_store();
	write_all(0, 1);
	told_ns = 40000000000ull;
	cr_expect_eq(disk_test_read(disk, 0), 0);
	stat = disk_test_stat(disk);
	cr_expect_eq(stat.hit_age.sum_ns, told_ns);
	cr_expect_eq(stat.hit_age.bucket[15], 1, "above 30 s, up to 60 s");
	told_ns = 70000000000ull;
	while (!stat.nr_dropped) {
		write_all(next++, 1);
		stat = disk_test_stat(disk);
	}
	cr_expect_eq(stat.evict_age.sum_ns, stat.nr_dropped * told_ns);
	cr_expect_eq(stat.evict_age.bucket[16], stat.nr_dropped, "above 60 s, up to 120 s");
	kv_env_set(NULL);
}

Test(disk, what_is_read_often_goes_along)
{
	u32 nr = 0;

	for (u32 i = 0; i < 120; i++) {
		write_all(i, 1);
		for (u32 k = 0; k < 3; k++)
			disk_test_read(disk, 1);
		nr += !disk_test_read(disk, 1);
	}
	cr_expect_eq(nr, 119, "it was written second, and was there at any time after: %u", nr);
	cr_expect_eq(disk_test_read(disk, 0), -ENOENT, "nobody read its neighbour");
	cr_expect_gt(disk_test_stat(disk).nr_reinserted, 1);
	open_store();
	cr_expect_eq(disk_test_read(disk, 1), 0);
}

Test(disk, no_more_than_a_quarter_of_a_segment_goes_along)
{
	for (u32 i = 0; i < 60; i++) {
		write_all(i, 1);
		for (u32 k = 0; i < 20 && k < 2; k++)
			disk_test_read(disk, i);
	}
	cr_expect_gt(disk_test_stat(disk).nr_reinserted, 0);
	cr_expect_leq(disk_test_stat(disk).nr_reinserted, 2 * disk_test_stat(disk).nr_reclaimed,
		      "four pages of sixteen");
}

Test(disk, what_is_forgotten_comes_back_unless_it_was_wiped)
{
	write_all(0, 4);
	cr_expect_eq(disk_test_forget(disk, 0, 0), 1);
	cr_expect_eq(disk_test_forget(disk, 1, KV_DISK_WIPE), 1);
	cr_expect_eq(disk_test_forget(disk, 9, KV_DISK_WIPE), 0);
	cr_expect_eq(disk_test_read(disk, 0), -ENOENT);
	cr_expect_eq(disk_test_read(disk, 1), -ENOENT);
	open_store();
	cr_expect_eq(disk_test_read(disk, 0), 0);
	cr_expect_eq(disk_test_read(disk, 1), -ENOENT);
	cr_expect_eq(disk_test_read(disk, 2), 0);
}

Test(disk, what_was_wiped_in_a_sealed_segment_does_not_come_back)
{
	write_all(0, 24);
	cr_expect_eq(disk_test_forget(disk, 1, KV_DISK_WIPE), 1);
	open_store();
	cr_expect_eq(disk_test_read(disk, 1), -ENOENT);
	cr_expect_eq(nr_readable(2, 22), 22);
}

Test(disk, records_are_deleted_for_good_and_a_name_that_is_none_deletes_nothing)
{
	struct kvmm_disk_delete_args gone[2] = { { disk_test_name(1) }, { disk_test_name(2) } };

	write_all(0, 4);
	gone[1].name.key_bytes = KVMM_DISK_MAX_KEY + 1;
	cr_expect_eq(kvmm_disk_delete(disk, gone, 2), -EINVAL);
	cr_expect_eq(kvmm_disk_delete(disk, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_disk_delete(disk, gone, 0), -EINVAL);
	cr_expect_eq(nr_readable(0, 4), 4);
	gone[1].name = disk_test_name(9);
	cr_expect_eq(kvmm_disk_delete(disk, gone, 2), 1);
	open_store();
	cr_expect_eq(disk_test_read(disk, 1), -ENOENT);
	cr_expect_eq(nr_readable(0, 4), 3);
}

/* In an older segment, from before it was replaced. */
static void replace_and_wipe(u32 n)
{
	cr_assert_neq(disk->open, 0);
	cr_assert_eq(disk_test_write(disk, n, KVMM_DISK_REPLACE), 0);
	cr_expect_eq(disk_test_forget(disk, n, KV_DISK_WIPE), 1);
}

Test(disk, an_older_record_of_what_was_wiped_does_not_come_back)
{
	write_all(0, 8);
	replace_and_wipe(1);
	for (u32 i = 0; i < 2; i++) {
		open_store();
		cr_expect_not(disk_test_has(disk, 1));
		cr_expect_eq(disk_test_read(disk, 1), -ENOENT);
		cr_expect_eq(nr_readable(2, 6), 6);
	}
}

Test(disk, nor_does_it_when_the_segment_is_sealed_behind_it)
{
	u32 open;

	write_all(0, 8);
	replace_and_wipe(1);
	open = disk->open;
	write_all(20, 8);
	cr_assert_neq(disk->open, open);
	for (u32 i = 0; i < 2; i++) {
		open_store();
		cr_expect_not(disk_test_has(disk, 1));
		cr_expect_eq(nr_readable(2, 6), 6);
	}
	cr_expect_eq(disk_test_write(disk, 1, 0), 0, "it may be put again");
	open_store();
	cr_expect_eq(disk_test_read(disk, 1), 0);
}

Test(disk, records_of_another_layout_are_not_found_at_opening)
{
	static const u8 even[1][16] = { { 1 } };

	write_all(0, 20);
	store_attr.layouts = even;
	store_attr.nr_layouts = 1;
	open_store();
	cr_expect_eq(nr_readable(0, 20), 10);
	cr_expect_eq(disk_test_read(disk, 1), -ENOENT);
	cr_expect_eq(disk_test_stat(disk).nr_foreign, 10);
	cr_expect_eq(disk_test_write(disk, 1, 0), 0, "it can be put, all the same");
	cr_expect_eq(disk_test_read(disk, 1), 0);
}

Test(disk, a_store_that_begins_anew_has_the_room_that_it_had)
{
	write_all(0, 8);
	store_attr.flags |= KVMM_DISK_RESET;
	store_attr.max_bytes = 2 * SEGMENT + KV_DISK_FRONT_BYTES;
	open_store();
	write_all(0, 40);
	store_attr.max_bytes = 0;
	sim.most_bytes = 0;
	open_store();
	cr_expect_eq(nr_readable(0, 40), 0);
	write_all(0, 40);
	cr_expect_eq(sim.most_bytes, 2 * SEGMENT + KV_DISK_FRONT_BYTES);
	kvmm_disk_close(disk);
	disk = NULL;
	memset(sim.content, 0, KV_DISK_SUPER_BYTES);
	cr_expect_eq(open_again(), -EINVAL, "it cannot be told how much that was");
	cr_expect_str_eq(kvmm_why(), "disk: max_bytes is 0, and no store here says how many bytes "
			 "it may have");
	store_attr.max_bytes = SEGMENT;
	cr_expect_eq(open_again(), -EINVAL);
	cr_expect(strstr(kvmm_why(), "less than two segments"), "%s", kvmm_why());
}

Test(disk, a_store_can_be_opened_with_less_room_and_with_more)
{
	write_all(0, 24);
	store_attr.max_bytes = 2 * SEGMENT + KV_DISK_FRONT_BYTES;
	open_store();
	cr_expect_eq(sim.bytes, store_attr.max_bytes);
	cr_expect_gt(nr_readable(0, 24), 5);
	sim.most_bytes = sim.bytes;
	write_all(100, 40);
	cr_expect_eq(sim.most_bytes, store_attr.max_bytes);
	store_attr.max_bytes = 0;
	open_store();
	cr_expect_eq(disk_test_stat(disk).nr_segments, 2, "as it was");
	store_attr.max_bytes = MAX_BYTES;
	open_store();
	write_all(200, 40);
	cr_expect_eq(sim.bytes, MAX_BYTES);
}

static void spoil_supers(void (*spoil)(struct kv_disk_super *super))
{
	for (u32 i = 0; i < KV_DISK_NR_COPIES; i++)
		spoil((struct kv_disk_super *)(void *)(sim.content + i * KV_DISK_PAGE));
}

static void make_newer(struct kv_disk_super *super)
{
	super->version++;
	kv_disk_seal(super);
}

/* It had zeros where the number of pages of marks is now. */
static void make_first(struct kv_disk_super *super)
{
	super->version = 1;
	super->mark_pages = 0;
	kv_disk_seal(super);
}

static void expect_left_alone(void (*make)(struct kv_disk_super *super))
{
	u8 before[KV_DISK_SUPER_BYTES];

	write_all(0, 4);
	kvmm_disk_close(disk);
	disk = NULL;
	spoil_supers(make);
	memcpy(before, sim.content, sizeof(before));
	cr_expect_eq(open_again(), -EPROTONOSUPPORT);
	cr_expect_arr_eq(before, sim.content, sizeof(before));
	store_attr.flags |= KVMM_DISK_RESET;
	cr_expect_eq(open_again(), 0);
	cr_expect_eq(nr_readable(0, 4), 0);
}

TEST_CALL(disk, a_later_version_is_left_alone, expect_left_alone(make_newer))
TEST_CALL(disk, an_earlier_version_is_left_alone, expect_left_alone(make_first))

static void make_bad(struct kv_disk_super *super)
{
	super->epoch++;
}

Test(disk, one_superblock_is_enough_and_none_is_a_new_store)
{
	write_all(0, 4);
	kvmm_disk_close(disk);
	sim.content[20] ^= 1;
	cr_assert_eq(open_again(), 0);
	cr_expect_eq(nr_readable(0, 4), 4);
	kvmm_disk_close(disk);
	spoil_supers(make_bad);
	cr_assert_eq(open_again(), 0);
	cr_expect_eq(nr_readable(0, 4), 0, "another store's records are not its own");
	write_all(0, 4);
}

Test(disk, superblocks_that_cannot_be_read_are_not_written_over)
{
	write_all(0, 4);
	kvmm_disk_close(disk);
	disk = NULL;
	sim.bad_to = KV_DISK_SUPER_BYTES;
	cr_expect_eq(open_again(), -EIO);
	sim.bad_to = 0;
	cr_expect_eq(open_again(), 0);
	cr_expect_eq(nr_readable(0, 4), 4);
}

Test(disk, any_byte_may_be_wrong_and_none_of_them_is_believed)
{
	u8 *good = malloc(MAX_BYTES);
	u32 nr_right = 0;

	write_all(0, 22);
	kvmm_disk_close(disk);
	memcpy(good, sim.content, MAX_BYTES);
	for (u32 at = 0; at < sim.bytes; at += at % KV_DISK_PAGE < 300 ? 3 : 397) {
		memcpy(sim.content, good, MAX_BYTES);
		sim.content[at] ^= 1 << at % 8;
		cr_assert_eq(open_again(), 0);
		nr_right += nr_readable(0, 22);
		cr_assert_eq(kv_disk_check(disk), 0);
		kvmm_disk_close(disk);
	}
	cr_expect_gt(nr_right, 0);
	memcpy(sim.content, good, MAX_BYTES);
	free(good);
	cr_assert_eq(open_again(), 0);
}

Test(disk, a_bad_sector_takes_one_record_with_it)
{
	struct kvmm_disk_get_args get[8];
	char *data = disk_test_buffers(8);
	s32 status[8];

	write_all(0, 8);
	for (u32 i = 0; i < 8; i++)
		get[i] = (struct kvmm_disk_get_args){ disk_test_name(i),
						      data + i * DISK_TEST_MAX_BYTES,
						      DISK_TEST_MAX_BYTES };
	cr_expect_eq(kvmm_disk_get(disk, get, 8, status), 8, "read at one go");
	/* Page 4 is in the payload of the third. */
	sim.bad_from = KV_DISK_FRONT_BYTES + 6 * KV_DISK_PAGE;
	sim.bad_to = sim.bad_from + 1;
	cr_expect_eq(kvmm_disk_get(disk, get, 8, status), 7);
	cr_expect_eq(status[2], -EIO);
	cr_expect_eq(disk_test_read(disk, 2), -ENOENT, "it is not tried again");
	free(data);
}

Test(disk, too_many_failed_writes_and_it_is_only_read_from)
{
	int err = 0;

	write_all(0, 6);
	sim_disk_fail(&sim, 1, SIM_EIO, true);
	for (u32 i = 0; i < 20 && err != -EROFS; i++) {
		err = disk_test_write(disk, 50 + i, 0);
		cr_expect_lt(err, 0);
	}
	cr_expect_eq(err, -EROFS);
	sim_disk_fail(&sim, 0, 0, false);
	cr_expect_eq(disk_test_write(disk, 90, 0), -EROFS);
	cr_expect_eq(disk_test_stat(disk).read_only, 1);
	/* Nothing is used again without a flush, and that fails, too. */
	cr_expect_gt(disk_test_stat(disk).nr_write_errors + disk_test_stat(disk).nr_sync_errors, 3);
	nr_readable(0, 6);
	open_store();
	cr_expect_eq(disk_test_write(disk, 90, 0), 0, "another opening is another try");
}

Test(disk, one_failed_write_costs_one_record)
{
	write_all(0, 3);
	sim_disk_fail(&sim, 1, SIM_EIO, false);
	cr_expect_eq(disk_test_write(disk, 3, 0), -EIO);
	cr_expect_eq(disk_test_read(disk, 3), -ENOENT);
	write_all(4, 5);
	cr_expect_eq(nr_readable(0, 9), 8);
	open_store();
	cr_expect_eq(nr_readable(0, 9), 8);
}

/* Nothing can be used again while it is flushed; by then there may be room. */
Test(disk, room_that_cannot_be_had_is_had_of_ones_own)
{
	write_all(0, 4);
	sim_disk_fail(&sim, 1, SIM_ENOSPC, false);
	cr_expect_eq(disk_test_write(disk, 4, 0), 0);
	cr_expect_eq(disk_test_stat(disk).nr_no_room, 1);
	cr_expect_eq(nr_readable(0, 5), 5);
}

Test(disk, a_file_system_without_room_makes_a_smaller_store)
{
	sim.max_bytes = 3 * SEGMENT;
	write_all(0, 60);
	cr_expect_gt(disk_test_stat(disk).nr_no_room, 0);
	cr_expect_eq(disk_test_stat(disk).nr_used, 2);
	cr_expect_eq(nr_readable(55, 5), 5);
}

Test(disk, without_direct_access_it_goes_through_the_page_cache)
{
	cr_expect_eq(disk_test_stat(disk).is_direct, 1);
	write_all(0, 8);
	sim.no_direct = true;
	open_store();
	cr_expect_eq(disk_test_stat(disk).is_direct, 0);
	cr_expect_eq(disk_test_stat(disk).nr_buffered, 1);
	write_all(8, 8);
	cr_expect_eq(nr_readable(0, 16), 16);
}

/* Also what was forgotten, but not for good. */
Test(disk, a_view_has_all_that_was_put_and_what_came_before_it)
{
	struct kvmm_disk_view_info info = { .size = sizeof(info) };
	struct kvmm_disk_segment segment;
	struct kvmm_disk_view *view;
	struct kvmm_disk_entry entry;
	u32 seen[22] = { 0 }, n, parent;

	write_all(0, 22);
	disk_test_forget(disk, 7, 0);
	cr_assert_eq(kvmm_disk_view_open("/store", &info, &view), 0);
	for (u32 i = 0; i < info.nr_segments; i++) {
		cr_assert_eq(kvmm_disk_view_segment(view, i, &segment), 0);
		while (kvmm_disk_view_next(view, 1, &entry) == 1) {
			memcpy(&n, entry.name.key, sizeof(n));
			memcpy(&parent, entry.parent, sizeof(parent));
			seen[n]++;
			cr_expect_eq(entry.position, n);
			cr_expect_eq(entry.bytes, disk_test_bytes(n));
			cr_expect_eq(parent, n ? n - 1 : 0);
		}
	}
	kvmm_disk_view_close(view);
	for (n = 0; n < 22; n++)
		cr_expect_eq(seen[n], 1, "record %u", n);
}

Test(disk, bad_calls_are_refused)
{
	struct kvmm_disk_put_args put = disk_test_put(0, "x"), bad = put;
	struct kvmm_disk *other;
	struct kvmm_disk_stat stat = { 0 };

	bad.bytes = 0;
	cr_expect_eq(kvmm_disk_put(disk, &bad, 1, 0, NULL), -EINVAL);
	bad.bytes = disk_test_stat(disk).max_record_bytes + 1;
	cr_expect_eq(kvmm_disk_put(disk, &bad, 1, 0, NULL), -EINVAL);
	bad = put;
	bad.name.key_bytes = 7;
	cr_expect_eq(kvmm_disk_put(disk, &bad, 1, 0, NULL), -EINVAL);
	bad.name.key_bytes = 65;
	cr_expect_eq(kvmm_disk_put(disk, &bad, 1, 0, NULL), -EINVAL);
	bad = put;
	bad.name.key[63] = 1;
	cr_expect_eq(kvmm_disk_put(disk, &bad, 1, 0, NULL), -EINVAL, "zeros behind the key");
	bad = put;
	bad.parent_bytes = 65;
	cr_expect_eq(kvmm_disk_put(disk, &bad, 1, 0, NULL), -EINVAL);
	cr_expect_eq(kvmm_disk_put(disk, &put, 0, 0, NULL), -EINVAL);
	cr_expect_eq(kvmm_disk_put(disk, &put, 1, 2, NULL), -EINVAL);
	cr_expect_eq(kvmm_disk_put(NULL, &put, 1, 0, NULL), -EINVAL);
	cr_expect_eq(kvmm_disk_get_stat(disk, &stat), -EINVAL);
	store_attr.segment_bytes = 100000;
	cr_expect_eq(kvmm_disk_open(&store_attr, &other), -EINVAL);
	store_attr.segment_bytes = SEGMENT;
	store_attr.path = NULL;
	cr_expect_eq(kvmm_disk_open(&store_attr, &other), -EINVAL);
	store_attr.path = "/store";
	store_attr.size = 4;
	cr_expect_eq(kvmm_disk_open(&store_attr, &other), -EINVAL);
	store_attr.size = sizeof(store_attr);
	kvmm_disk_close(NULL);
	kvmm_disk_view_close(NULL);
}

Test(disk, the_longest_record_fits_and_is_found_again)
{
	u32 bytes = disk_test_stat(disk).max_record_bytes;
	struct kvmm_disk_put_args put = { .name = disk_test_name(0), .bytes = bytes };
	struct kvmm_disk_get_args get = { .name = put.name, .room = bytes };
	char *data = malloc(bytes);
	s32 status;

	memset(data, 'x', bytes);
	put.data = data;
	cr_expect_eq(kvmm_disk_put(disk, &put, 1, 0, &status), 1);
	open_store();
	get.data = data;
	memset(data, 0, bytes);
	cr_expect_eq(kvmm_disk_get(disk, &get, 1, &status), 1);
	cr_expect_eq(status, (s32)bytes);
	cr_expect(data[0] == 'x' && data[bytes - 1] == 'x');
	free(data);
}

Test(disk, who_recounts_notices_what_is_wrong)
{
	struct disk_seg *seg;
	u32 slot = 0;

	write_all(0, 20);
	seg = &disk->seg[disk->open];
	while (!disk->index.entry[slot].state)
		slot++;
#define NOTICED(field, change)							\
	do {									\
		__typeof__(field) was = (field);				\
		(field) change;							\
		cr_expect_eq(kv_disk_check(disk), -EUCLEAN, #field);		\
		(field) = was;							\
		cr_expect_eq(kv_disk_check(disk), 0, #field " restored");	\
	} while (0)
	NOTICED(disk->index.nr, ++);
	NOTICED(disk->index.nr_live, --);
	NOTICED(disk->index.live_bytes, ++);
	NOTICED(disk->index.nr_of_value[0], ++);
	NOTICED(disk->index.class[0].nr, ++);
	NOTICED(disk->index.class[0].bytes, ++);
	NOTICED(disk->index.entry[slot].fp.word[0], ^= 1ull << 63);
	NOTICED(disk->index.entry[slot].segment, ^= 1);
	NOTICED(disk->index.entry[slot].class, ^= 1);
	NOTICED(disk->index.entry[slot].value, ++);
	NOTICED(disk->index.entry[slot].state, = DISK_WRITING);
	NOTICED(seg->nr_entries, ++);
	NOTICED(seg->state, = SEG_SEALED);
	NOTICED(seg->used_pages, += 16);
	NOTICED(disk->seq, = 1);
	NOTICED(disk->open, = KV_NONE);
	NOTICED(disk->file_bytes, = 1);
	NOTICED(disk->file_bytes, = 2 * MAX_BYTES);
}

Test(disk, a_record_takes_at_most_32_bytes_of_memory)
{
	struct disk_index index;
	struct kvmm_disk_name name = disk_test_name(0);
	u64 worst = 0;

	cr_assert_eq(disk_index_init(&index), 0);
	for (u32 i = 0; i < 200000; i++) {
		struct disk_entry entry = { .state = DISK_LIVE };

		memcpy(name.key, &i, sizeof(i));
		entry.fp = disk_fp_of(&index, &name);
		entry.class = disk_index_class(&index, &name, 4096);
		cr_assert_eq(disk_index_reserve(&index, 1), 0);
		disk_index_add(&index, &entry);
		if (i >= 1000)
			worst = max(worst, (u64)index.nr_slots * sizeof(entry) * 1000 / index.nr);
	}
	cr_expect_eq(disk_index_check(&index), 0);
	cr_log_info("at most %llu.%03llu bytes a record", (unsigned long long)worst / 1000,
		    (unsigned long long)worst % 1000);
	cr_expect_leq(worst, 32000);
	disk_index_exit(&index);
}

/* ---- submit and poll ---- */

static struct kv_disk_done done[64];

static u32 poll_all(u32 nr)
{
	u32 got = 0;

	for (u32 i = 0; i < 1000 && got < nr; i++)
		got += kv_disk_poll(disk, done + got, nr - got);
	return got;
}

static const struct kv_disk_done *done_of(u64 tag, u32 index)
{
	for (u32 i = 0; i < ARRAY_SIZE(done); i++)
		if (done[i].tag == tag && done[i].index == index)
			return &done[i];
	cr_assert_fail("no completion of %llu.%u", (unsigned long long)tag, index);
	return NULL;
}

static char *submit_puts(u32 first, u32 nr, u64 tag)
{
	char *data = disk_test_buffers(nr);
	struct kvmm_disk_put_args put[16];

	for (u32 i = 0; i < nr; i++) {
		disk_test_fill(first + i, data + i * DISK_TEST_MAX_BYTES);
		put[i] = disk_test_put(first + i, data + i * DISK_TEST_MAX_BYTES);
	}
	cr_assert_eq(kv_disk_submit_put(disk, put, nr, 0, tag), 0);
	return data;
}

Test(disk_poll, each_record_has_its_completion_with_its_status)
{
	char *data = submit_puts(0, 4, 7), *again, small[1];
	struct kvmm_disk_get_args get[3] = {
		{ disk_test_name(0), data, DISK_TEST_MAX_BYTES }, { disk_test_name(2), small, 1 },
		{ disk_test_name(30), small, 1 },
	};

	again = submit_puts(3, 2, 8);
	cr_assert_eq(poll_all(6), 6);
	cr_expect_eq(kv_disk_poll(disk, done + 6, 1), 0);
	for (u32 i = 0; i < 4; i++)
		cr_expect_eq(done_of(7, i)->status, 0);
	cr_expect_eq(done_of(8, 0)->status, -EEXIST);
	cr_expect_eq(done_of(8, 1)->status, 0);
	cr_assert_eq(kv_disk_submit_get(disk, get, 3, 9), 0);
	cr_assert_eq(poll_all(3), 3);
	cr_expect_eq(done_of(9, 0)->status, 0);
	cr_expect_eq(done_of(9, 0)->bytes, disk_test_bytes(0));
	cr_expect_eq(done_of(9, 1)->status, -ENOBUFS);
	cr_expect_eq(done_of(9, 1)->bytes, disk_test_bytes(2), "so much is needed");
	cr_expect_eq(done_of(9, 2)->status, -ENOENT);
	free(data);
	free(again);
}

Test(disk_poll, what_is_being_written_is_pending)
{
	struct kvmm_disk_name name = disk_test_name(1);
	char *data = submit_puts(0, 2, 1);

	cr_expect_eq(kv_disk_lookup(disk, &name), KV_DISK_PENDING);
	cr_expect_eq(disk_test_stat(disk).nr_pending, 2);
	cr_assert_eq(poll_all(2), 2);
	cr_expect_eq(kv_disk_lookup(disk, &name), KV_DISK_HIT);
	free(data);
}

Test(disk_poll, what_is_forgotten_while_it_is_written_does_not_come_back)
{
	char *data = submit_puts(0, 3, 1);

	cr_expect_eq(disk_test_forget(disk, 1, 0), 1);
	cr_assert_eq(poll_all(3), 3);
	cr_expect_eq(done_of(1, 1)->status, -ECANCELED);
	cr_expect_eq(nr_readable(0, 3), 2);
	open_store();
	cr_expect_eq(nr_readable(0, 3), 2);
	free(data);
}

Test(disk_poll, segments_that_are_not_finished_make_who_puts_wait)
{
	char *data[24];
	u32 nr_again = 0;

	for (u32 i = 0; i < 24; i++)
		data[i] = submit_puts(2 * i, 2, i);
	cr_assert_eq(poll_all(48), 48);
	for (u32 i = 0; i < 48; i++) {
		cr_expect(!done[i].status || done[i].status == -EAGAIN, "%d", done[i].status);
		nr_again += done[i].status == -EAGAIN;
	}
	cr_expect_gt(nr_again, 0);
	for (u32 i = 0; i < 24; i++)
		free(data[i]);
	write_all(100, 4);
}

Test(disk_poll, closing_waits_for_what_nobody_polled_for)
{
	char *data = submit_puts(0, 4, 1);

	open_store();
	cr_expect_eq(nr_readable(0, 4), 4);
	free(data);
}

/* Whoever reads while the segment is used again misses. */
Test(disk_poll, a_reader_that_is_overtaken_misses)
{
	char *data = disk_test_buffers(1);
	struct kvmm_disk_get_args get = { disk_test_name(0), data, DISK_TEST_MAX_BYTES };

	write_all(0, 1);
	cr_assert_eq(kv_disk_submit_get(disk, &get, 1, 1), 0);
	for (struct disk_io *io = disk->waiting; io; io = io->next)
		io->io.offset += SEGMENT;	/* it lies elsewhere now, as far as the reader can see */
	disk->seg[0].seq++;
	disk->seq++;
	cr_assert_eq(poll_all(1), 1);
	cr_expect_eq(done[0].status, -ENOENT);
	cr_expect_eq(disk_test_stat(disk).nr_overtaken, 1);
	disk->seg[0].seq--;
	disk->seq--;
	free(data);
}

/* Known answers of both sums, so that the format is what other programs take it for. */
Test(disk, sums_are_those_that_others_compute)
{
	static const char text[] = "Nobody inspects the spammish repetition";

	cr_expect_eq(kv_disk_sum("", 0), 0xef46db3751d8e999ull);
	cr_expect_eq(kv_disk_sum("abc", 3), 0x44bc2cf5ad770999ull);
	cr_expect_eq(kv_disk_sum(text, sizeof(text) - 1), 0xfbcea83c8a378bf1ull);
	cr_expect_eq(kv_disk_crc("123456789", 9), 0xe3069283u);
}

/* Page 2 of a segment has payload of its first record. */
static void spoil_payload(u32 segment)
{
	sim.content[disk_offset(&disk->shape, segment, 2)] ^= 1;
}

Test(disk, payload_that_is_not_the_headers_is_found_at_opening_where_there_is_no_footer)
{
	write_all(0, 6);
	cr_assert_eq(disk->open, 1);
	spoil_payload(0);
	spoil_payload(1);
	open_store();
	cr_expect_eq(disk_test_stat(disk).nr_damaged, 1);
	cr_expect_not(disk_test_has(disk, 4), "the first of the open one");
	cr_expect(disk_test_has(disk, 0), "the first of the sealed one");
	cr_expect_eq(disk_test_read(disk, 0), -EBADMSG);
	cr_expect_eq(disk_test_stat(disk).nr_damaged, 2);
	cr_expect_eq(nr_readable(0, 6), 4);
}

Test(disk, what_was_wiped_before_its_segment_was_sealed_is_dead_in_the_footer)
{
	write_all(0, 3);
	cr_expect_eq(disk_test_forget(disk, 1, KV_DISK_WIPE), 1);
	write_all(10, 6);
	cr_assert_neq(disk->open, 0);
	open_store();
	cr_expect_not(disk_test_has(disk, 1));
	cr_expect(disk_test_has(disk, 2));
}

static u32 oldest_segment(void)
{
	u32 oldest = 0;

	for (u32 i = 1; i < NR_SEGMENTS; i++)
		if (disk->seg[i].seq < disk->seg[oldest].seq)
			oldest = i;
	return oldest;
}

/* Flushes may end out of order. */
Test(disk, while_the_oldest_segment_is_not_sealed_no_younger_one_goes)
{
	u64 nr_reclaimed;
	u32 oldest, nr_again = 0;
	char *data;

	write_all(0, 60);
	oldest = oldest_segment();
	cr_assert_eq(disk->seg[oldest].state, SEG_SEALED);
	disk->seg[oldest].state = SEG_FOOTER;
	nr_reclaimed = disk_test_stat(disk).nr_reclaimed;
	for (u32 k = 0; k < 2; k++) {
		data = submit_puts(100 + 8 * k, 8, k);
		cr_assert_eq(poll_all(8), 8);
		for (u32 i = 0; i < 8; i++)
			nr_again += done_of(k, i)->status == -EAGAIN;
		free(data);
	}
	cr_expect_gt(nr_again, 4);
	cr_expect_eq(disk_test_stat(disk).nr_reclaimed, nr_reclaimed);
	disk->seg[oldest].state = SEG_SEALED;
	write_all(200, 8);
	cr_expect_gt(disk_test_stat(disk).nr_reclaimed, nr_reclaimed);
}

Test(disk, what_goes_along_is_chosen_once)
{
	u32 oldest;

	write_all(0, 60);
	for (u32 i = 0; i < 60; i++)
		disk_test_read(disk, i);
	oldest = oldest_segment();
	cr_assert_eq(disk->drain.seq, 0);
	cr_assert_eq(disk->drain.last_seq, disk->seg[oldest].seq);
	disk_drain_begin(disk, oldest);
	cr_expect_eq(disk->drain.seq, 0);
}

/* Two segments: the first one, of which two records are to go along, is full when the store is closed. */
static void close_while_a_segment_is_sealed(u32 io)
{
	char *data[16];
	u32 nr, open;

	end_store();
	begin_store(2, SEGMENT);
	store_attr.io = io;
	open_store();
	write_all(0, 2);
	for (u32 i = 0; i < 8; i++)
		cr_assert_eq(nr_readable(0, 2), 2);
	open = disk->open;
	for (nr = 0; nr < ARRAY_SIZE(data) && disk->open == open; nr++)
		data[nr] = submit_puts(2 + nr, 1, nr);
	cr_assert_neq(disk->open, open);
	sim.keeps_log = true;
	kvmm_disk_close(disk);
	disk = NULL;
	cr_assert_gt(sim.nr_steps, 0);
	cr_expect_eq(sim.step[sim.nr_steps - 1].kind, SIM_FLUSH, "it is written to behind that");
	while (nr)
		free(data[--nr]);
}

Test(disk, a_store_that_is_closed_is_flushed_last)
{
	close_while_a_segment_is_sealed(KVMM_DISK_IO_AUTO);
}

Test(disk_poll, a_store_that_is_closed_is_flushed_last)
{
	close_while_a_segment_is_sealed(KVMM_DISK_IO_POLL);
}

/* ---- a medium that hangs ---- */

static int (*reap)(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait);
static u32 is_hung, is_well;

/* A thread that waits, waits until the medium is well; but not for ever. */
static int reap_hung(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait)
{
	u64 until = kv_clock_ns() + 5000000000ull;

	if (!wait && !smp_load_acquire(&is_well))
		return 0;
	smp_store_release(&is_hung, wait);
	while (!smp_load_acquire(&is_well) && kv_clock_ns() < until)
		sched_yield();
	cr_expect(smp_load_acquire(&is_well), "no other thread got on");
	return reap(ctx, queue, done, max, wait);
}

static void *read_one(void *arg)
{
	cr_expect_eq(disk_test_read(disk, 0), 0);
	return NULL;
}

Test(disk, one_that_hangs_holds_up_no_thread_that_does_not_wait_for_it)
{
	void *data = disk_test_buffers(1);
	struct kvmm_disk_put_args put = disk_test_put(1, data);
	struct kv_disk_done done;
	pthread_t thread;

	write_all(0, 1);
	disk_test_fill(1, data);
	is_hung = is_well = 0;
	reap = sim.ops.queue_reap;
	sim.ops.queue_reap = reap_hung;
	cr_assert_eq(pthread_create(&thread, NULL, read_one, NULL), 0);
	while (!smp_load_acquire(&is_hung))
		sched_yield();
	cr_expect_eq(kv_disk_submit_put(disk, &put, 1, 0, 7), 0);
	cr_expect_eq(kv_disk_poll(disk, &done, 1), 0);
	smp_store_release(&is_well, 1);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	while (!kv_disk_poll(disk, &done, 1))
		;
	cr_expect_eq(done.tag, 7);
	cr_expect_eq(done.status, 0);
	cr_expect_eq(disk_test_read(disk, 1), 0);
	sim.ops.queue_reap = reap;
	free(data);
}
