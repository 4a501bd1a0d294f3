// SPDX-License-Identifier: Apache-2.0
/* Areas: memory that comes and goes behind fixed addresses. */
#include <fcntl.h>
#include <unistd.h>

#include <kv/sys.h>

#include "soft.h"
#include "tests/support/fake_env.h"

#define UNIT	(2 * MIB)

static const struct kv_dev_ops *const ops = &kv_dev_soft;

static struct kv_area *area_of(struct kv_dev *dev, const struct kv_area_attr *attr)
{
	struct kv_area *area = NULL;

	cr_assert_eq(ops->area_create(dev, attr, &area), 0);
	return area;
}

static struct kv_area_info info_of(struct kv_area *area)
{
	struct kv_area_info info;

	ops->area_info(area, &info);
	return info;
}

static u64 device_bytes(void)
{
	struct sw_live live;

	ctl->live(&live);
	return live.device_bytes;
}

static void expect_word(struct kv_dev *dev, u64 addr, u32 word)
{
	u32 back = 0;

	cr_expect_eq(ops->read(dev, addr, &back, sizeof(back)), 0);
	cr_expect_eq(back, word);
}

DEV_TEST(vmm, grows_and_shrinks_in_place, soft_open(""))
{
	struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 16 * MIB,
								    .handle_bytes = UNIT });
	u64 before = device_bytes(), addr = info_of(area).addr;
	u32 word = 0x1234;

	cr_expect_eq(ops->area_grow(area, 4 * MIB, 8 * MIB), 0);
	cr_expect_eq(device_bytes() - before, 8 * MIB);
	cr_expect_eq(ops->write(dev, addr + 6 * MIB, &word, 4), 0);
	cr_expect_eq(ops->area_grow(area, 0, 16 * MIB), 0, "around what is there");
	expect_word(dev, addr + 6 * MIB, word);
	cr_expect_eq(ops->area_shrink(area, 0, 4 * MIB), 0);
	cr_expect_eq(ops->area_shrink(area, 0, 6 * MIB), 0, "part of it is gone already");
	cr_expect_eq(device_bytes() - before, 10 * MIB);
	cr_expect_eq(info_of(area).present_bytes, 10 * MIB);
	expect_word(dev, addr + 6 * MIB, word);
	ops->area_destroy(area);
	cr_expect_eq(device_bytes(), before);
}

DEV_TEST(vmm, sets_access_once_for_a_run, soft_open(""))
{
	struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 16 * MIB,
								    .handle_bytes = UNIT });

	cr_expect_eq(ops->area_grow(area, 4 * MIB, 2 * MIB), 0);
	cr_expect_eq(ctl->calls("cuMemSetAccess"), 1);
	cr_expect_eq(ops->area_grow(area, 0, 16 * MIB), 0);
	cr_expect_eq(ctl->calls("cuMemSetAccess"), 3, "one on either side");
	cr_expect_eq(ctl->calls("cuMemMap"), 8);
	ops->area_destroy(area);
}

DEV_TEST(vmm, chooses_units_by_size, soft_open("mem=1G"))
{
	struct kv_area *small = area_of(dev, &(struct kv_area_attr){ .max_bytes = 3 * MIB });
	struct kv_area *large = area_of(dev, &(struct kv_area_attr){ .max_bytes = 9000 * MIB });
	struct kv_area *area;

	cr_expect_eq(info_of(small).unit_bytes, 2 * MIB);
	cr_expect_eq(info_of(small).max_bytes, 4 * MIB);
	cr_expect_eq(info_of(large).unit_bytes, 64 * MIB);
	cr_expect_eq(ops->area_create(dev, &(struct kv_area_attr){ 0 }, &area), -EINVAL);
	cr_expect_eq(ops->area_create(dev, &(struct kv_area_attr){ .max_bytes = UINT64_MAX },
				      &area), -EINVAL);
	cr_expect_eq(ops->area_create(dev, &(struct kv_area_attr){ .max_bytes = MIB,
					.handle_bytes = 3 * MIB }, &area), -EINVAL);
	cr_expect_eq(ops->area_create(dev, &(struct kv_area_attr){ .max_bytes = MIB,
					.handle_bytes = MIB }, &area), -EINVAL);
	ops->area_destroy(large);
	ops->area_destroy(small);
}

DEV_TEST(vmm, a_grow_that_fails_leaves_nothing, soft_open("mem=32M"))
{
	struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 64 * MIB,
								    .handle_bytes = UNIT });
	u64 before = device_bytes();

	cr_expect_eq(ops->area_grow(area, 0, 64 * MIB), -ENOMEM);
	cr_expect_eq(device_bytes(), before);
	cr_expect_eq(info_of(area).present_bytes, 0);
	cr_expect_eq(ops->area_grow(area, 0, 4 * MIB), 0);
	cr_expect_eq(ops->area_grow(area, 0, 64 * MIB), -ENOMEM);
	cr_expect_eq(info_of(area).present_bytes, 4 * MIB, "what was there stays");
	ops->area_destroy(area);
}

DEV_TEST(vmm, access_that_is_refused_undoes_the_mapping, soft_open(""))
{
	struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 8 * MIB,
								    .handle_bytes = UNIT });

	ctl->fail("cuMemSetAccess", 1, KCU_E_INVALID_VALUE, false, false);
	cr_expect_eq(ops->area_grow(area, 0, 8 * MIB), -EIO);
	cr_expect_eq(info_of(area).present_bytes, 0);
	cr_expect_eq(ops->area_grow(area, 0, 8 * MIB), 0);
	ops->area_destroy(area);
}

/* Without aim at this unit everything goes on; the reservation cannot be given back. */
Test(vmm, what_cannot_be_unmapped_is_stuck_and_alone)
{
	struct kv_dev *dev = soft_open("");
	struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 8 * MIB,
								    .handle_bytes = UNIT });
	struct sw_live live;

	cr_expect_eq(ops->area_grow(area, 0, 8 * MIB), 0);
	ctl->fail("cuMemUnmap", 2, KCU_E_UNMAP_FAILED, false, false);
	cr_expect_eq(ops->area_shrink(area, 0, 6 * MIB), -EIO);
	cr_expect_eq(info_of(area).stuck_bytes, 2 * MIB);
	cr_expect_eq(info_of(area).present_bytes, 2 * MIB);
	cr_expect_eq(ops->area_grow(area, 0, 8 * MIB), -EUCLEAN);
	cr_expect_eq(info_of(area).present_bytes, 2 * MIB);
	cr_expect_eq(ops->area_grow(area, 0, 2 * MIB), 0);
	cr_expect_eq(ops->area_shrink(area, 2 * MIB, 2 * MIB), -EUCLEAN);
	ops->area_destroy(area);
	ctl->live(&live);
	cr_expect_eq(live.nr_mappings, 1);
	cr_expect_eq(live.nr_handles, 1);
	cr_expect_eq(live.nr_reservations, 1);
	ops->close(dev);
}

DEV_TEST(vmm, what_was_exported_stays, soft_open(""))
{
	struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 8 * MIB,
				.handle_bytes = UNIT, .is_shared = true });
	int fd = -1;

	cr_expect(info_of(area).is_shared);
	cr_expect_eq(ops->area_export(area, 0, &fd), -ENXIO);
	cr_expect_eq(ops->area_grow(area, 0, 8 * MIB), 0);
	cr_expect_eq(ops->area_export(area, MIB, &fd), -EINVAL);
	cr_expect_eq(ops->area_export(area, 2 * MIB, &fd), 0);
	cr_expect_geq(fd, 0);
	cr_expect_eq(ops->area_shrink(area, 0, 8 * MIB), -EBUSY);
	cr_expect_eq(info_of(area).present_bytes, 8 * MIB, "none of it is gone");
	cr_expect_eq(ops->area_shrink(area, 0, 2 * MIB), 0);
	close(fd);
	ops->area_destroy(area);
}

/* What the one writes the other reads, at another address; both may go first. */
Test(vmm, what_was_exported_can_be_imported)
{
	for (u32 first = 0; first < 2; first++) {
		struct kv_dev *dev = soft_open("");
		struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 4 * MIB,
					.handle_bytes = UNIT, .is_shared = true });
		struct kv_area *other = NULL;
		u8 buf[64];
		int fd = -1;

		cr_assert_eq(ops->area_grow(area, 0, 4 * MIB), 0);
		cr_assert_eq(ops->area_export(area, 2 * MIB, &fd), 0);
		cr_assert_eq(ops->area_import(dev, fd, UNIT, &other), 0);
		close(fd);
		cr_expect_eq(info_of(other).max_bytes, UNIT);
		cr_expect_eq(info_of(other).present_bytes, UNIT);
		cr_expect_eq(ops->fill(dev, info_of(area).addr + 2 * MIB + 64, 0x5a, 64), 0);
		cr_expect_eq(ops->read(dev, info_of(other).addr + 64, buf, sizeof(buf)), 0);
		cr_expect(all_bytes(buf, 0x5a, sizeof(buf)));
		ops->area_destroy(first ? area : other);
		ops->area_destroy(first ? other : area);
		soft_close(dev);
	}
}

DEV_TEST(vmm, what_is_no_such_memory_is_not_imported, soft_open(""))
{
	struct kv_area *area = NULL;
	int fd = open("/dev/null", O_RDONLY);

	cr_expect_eq(ops->area_import(dev, -1, UNIT, &area), -EINVAL);
	cr_expect_eq(ops->area_import(dev, fd, 3 * MIB, &area), -EINVAL);
	cr_expect_eq(ops->area_import(dev, fd, 4096, &area), -EINVAL);
	cr_expect_lt(ops->area_import(dev, fd, UNIT, &area), 0);
	close(fd);
}

/* Each call of the driver in turn refuses: nothing of it stays. */
DEV_TEST(vmm, an_import_that_fails_leaves_nothing, soft_open(""))
{
	static const char *const calls[] = { "cuMemImportFromShareableHandle", "cuMemAddressReserve",
					     "cuMemMap", "cuMemSetAccess" };
	struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = UNIT,
				.handle_bytes = UNIT, .is_shared = true }), *other = NULL;
	int fd = -1;

	cr_assert_eq(ops->area_grow(area, 0, UNIT), 0);
	cr_assert_eq(ops->area_export(area, 0, &fd), 0);
	for (u32 i = 0; i < ARRAY_SIZE(calls); i++) {
		cr_assert_eq(ctl->fail(calls[i], 1, KCU_E_OUT_OF_MEMORY, false, false), 0);
		cr_expect_eq(ops->area_import(dev, fd, UNIT, &other), -ENOMEM, "%s",
			     calls[i]);
		ctl->fail_none();
	}
	close(fd);
	ops->area_destroy(area);
}

DEV_TEST(vmm, says_whether_exports_will_work, soft_open(""))
{
	struct fake_env fake;
	struct kv_area *area;

	fake_env_install(&fake);
	area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 8 * MIB,
						    .is_shared = true });
	cr_expect(strstr(fake.line, "MiB, shared"), "%s", fake.line);
	ops->area_destroy(area);
	fake_env_remove(&fake);
}

/* Whether handles of a kind can be made shows only when one is. */
DEV_TEST(vmm, goes_without_exports_that_are_refused, soft_open(""))
{
	struct kv_area *area;

	ctl->fail("cuMemCreate", 1, KCU_E_NOT_PERMITTED, false, false);
	area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 8 * MIB,
						    .is_shared = true });
	cr_expect(!info_of(area).is_shared);
	cr_expect_eq(ops->area_export(area, 0, &(int){ 0 }), -EOPNOTSUPP);
	ops->area_destroy(area);
}

DEV_TEST(vmm, an_area_is_whole_units_within_its_bounds, soft_open(""))
{
	struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 10 * MIB });
	u64 unit = info_of(area).unit_bytes, max_bytes = info_of(area).max_bytes;

	cr_expect_eq(info_of(area).present_bytes, 0);
	cr_expect_eq(ops->area_grow(area, 0, max_bytes), 0);
	cr_expect_eq(ops->area_grow(area, 0, max_bytes), 0, "there already");
	cr_expect_eq(ops->area_grow(area, 1, unit), -EINVAL);
	cr_expect_eq(ops->area_grow(area, 0, 0), -EINVAL);
	cr_expect_eq(ops->area_grow(area, max_bytes, unit), -EINVAL);
	cr_expect_eq(ops->area_shrink(area, 0, unit + 1), -EINVAL);
	cr_expect_eq(ops->area_shrink(area, 0, unit), 0);
	ops->area_destroy(area);
	ops->area_destroy(NULL);
}

/* A pool that asks for one has plain memory then, which stays. */
static void none(const char *options)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0", .nr_blocks = 64,
				       .block_bytes = 256 << 10, .flags = KVMM_POOL_ELASTIC };
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = UNIT };
	struct kv_dev *dev = soft_open(options);
	u64 before = device_bytes();
	struct kvmm_pool *pool;
	struct kv_area *area;
	u32 word = 77, back = 0;

	cr_expect_eq(ops->area_create(dev, &(struct kv_area_attr){ .max_bytes = 8 * MIB }, &area),
		     -EOPNOTSUPP);
	cr_expect_eq(device_bytes(), before);
	cr_assert_eq(kvmm_pool_create(&attr, &pool), 0);
	cr_expect_geq(device_bytes(), before + 16 * MIB);
	cr_expect_eq(kvmm_pool_shrink(pool, &req), -EOPNOTSUPP);
	cr_expect_eq(kvmm_block_write(pool, 63, 100, &word, sizeof(word)), 0);
	cr_expect_eq(kvmm_block_read(pool, 63, 100, &back, sizeof(back)), 0);
	cr_expect_eq(back, word);
	kvmm_pool_destroy(pool);
	soft_close(dev);
}

TEST_CALL(vmm, a_device_without_it_has_no_areas, none("vmm=0"))
TEST_CALL(vmm, a_driver_without_it_has_no_areas, none("missing=cuMemMap"))
TEST_CALL(vmm, a_driver_that_refuses_it_has_no_areas,
	  none("fail=cuMemAddressReserve:1+:NOT_SUPPORTED"))

DEV_TEST(vmm, every_failing_call_leaves_a_whole_area, soft_open(""))
{
	struct kv_area *area = area_of(dev, &(struct kv_area_attr){ .max_bytes = 8 * MIB,
					.handle_bytes = UNIT });
	u64 before = device_bytes();
	int err = -1;

	for (u32 nth = 1; err; nth++) {
		ctl->fail("*", nth, KCU_E_INVALID_VALUE, false, false);
		err = ops->area_grow(area, 0, 8 * MIB);
		ctl->fail_none();
		cr_expect_eq(info_of(area).present_bytes, err ? 0 : 8 * MIB, "call %u", nth);
		cr_expect_eq(info_of(area).stuck_bytes, 0);
		cr_expect_eq(device_bytes() - before, info_of(area).present_bytes);
		cr_assert_lt(nth, 100);
	}
	ops->area_destroy(area);
}
