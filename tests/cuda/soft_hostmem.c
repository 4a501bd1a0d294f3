// SPDX-License-Identifier: Apache-2.0
/* Pinned host memory, and what happens when it cannot be pinned. */
#include <sys/mman.h>

#include <kv/sys.h>

#include "soft.h"

static const struct kv_dev_ops *const ops = &kv_dev_soft;

static struct {
	struct kv_sys_ops ops;
	u64 bytes;
	int node;
	u32 nr_live;
	bool is_out;
} pages;

static void *count_map(void *ctx, u64 bytes, int node)
{
	pages.bytes = bytes;
	pages.node = node;
	if (pages.is_out)
		return NULL;
	pages.nr_live++;
	return kv_sys_system.map_pages(NULL, bytes, node);
}

static void count_unmap(void *ctx, void *ptr, u64 bytes)
{
	cr_expect_eq(bytes, pages.bytes);
	pages.nr_live--;
	kv_sys_system.unmap_pages(NULL, ptr, bytes);
}

/* ---- who touches it ---- */

#define PAGE		4096ull
#define SPAN		(40 * MIB + 3 * PAGE)	/* several parts, the last one short */

/* Written by the thread that allocates. */
static struct {
	void *ptr;
	u64 before, at_register;	/* pages that are there, of SPAN */
	u32 nr_registered, nr_parts;
	KCU_FN(cuMemHostRegister, 6050) host_register;
} seen;

static u64 nr_resident(void *ptr, u64 bytes)
{
	static unsigned char there[SPAN / PAGE];
	u64 nr = 0;

	cr_assert_eq(mincore(ptr, bytes, there), 0);
	for (u64 i = 0; i < bytes / PAGE; i++)
		nr += there[i] & 1;
	return nr;
}

/* Small pages: a huge one would be there as a whole if but one of its pages were touched. */
static void *look_and_map(void *ctx, u64 bytes, int node)
{
	seen.ptr = kv_sys_system.map_pages(NULL, bytes, node);
	cr_assert_not_null(seen.ptr);
	madvise(seen.ptr, bytes, MADV_NOHUGEPAGE);
	seen.before = nr_resident(seen.ptr, bytes);
	return seen.ptr;
}

static kcu_result look_and_register(void *ptr, size_t bytes, unsigned int flags)
{
	if (ptr == seen.ptr) {
		seen.at_register = nr_resident(ptr, bytes);
		seen.nr_registered++;
	}
	return seen.host_register(ptr, bytes, flags);
}

static void *find_looking(void *ctx, void *library, const char *name)
{
	void *found = kv_sys_system.find_symbol(ctx, library, name);

	if (strcmp(name, "cuMemHostRegister_v2"))
		return found;
	memcpy(&seen.host_register, &found, sizeof(found));
	return (void *)look_and_register;
}

/* No thread can be had. Backwards: nobody may count on an order. */
static void one_by_one(void *ctx, kv_part_fn *fn, void *arg, u32 nr_parts)
{
	seen.nr_parts = nr_parts;
	for (u32 i = nr_parts; i--; )
		fn(arg, i, nr_parts);
}

static void all_touched_before_pinned(void (*parallel)(void *, kv_part_fn *, void *, u32))
{
	static struct kv_sys_ops sys;
	struct kv_host_mem mem;
	struct kv_dev *dev;

	sys = kv_sys_system;
	sys.find_symbol = find_looking;
	sys.parallel = parallel;
	kv_sys_set(&sys);
	dev = soft_open("");
	sys.map_pages = look_and_map;
	cr_assert_eq(ops->host_alloc(dev, SPAN, -1, &mem), 0);
	cr_expect(mem.is_pinned);
	cr_expect_eq(seen.before, 0);
	cr_expect_eq(seen.nr_registered, 1);
	cr_expect_eq(seen.at_register, SPAN / PAGE);
	cr_expect(all_bytes(mem.ptr, 0, SPAN));
	ops->host_free(dev, &mem);
	soft_close(dev);
	kv_sys_set(NULL);
}

TEST_CALL(hostmem, is_touched_as_a_whole_before_it_is_pinned,
	  all_touched_before_pinned(kv_sys_system.parallel))

Test(hostmem, is_touched_by_the_caller_where_there_are_no_threads)
{
	all_touched_before_pinned(one_by_one);
	cr_expect_eq(seen.nr_parts, 3);
	memset(&seen, 0, sizeof(seen));
	all_touched_before_pinned(NULL);
}

/* ---- pinning ---- */

static struct kv_dev *open_counted(const char *options)
{
	struct kv_dev *dev = soft_open(options);

	pages.ops = *kv_sys();
	pages.ops.map_pages = count_map;
	pages.ops.unmap_pages = count_unmap;
	kv_sys_set(&pages.ops);
	return dev;
}

static void close_counted(struct kv_dev *dev)
{
	cr_expect_eq(pages.nr_live, 0);
	soft_close(dev);
	kv_sys_set(NULL);
}

Test(hostmem, is_pinned_and_addressed_alike)
{
	struct kv_dev *dev = open_counted("");
	struct kv_host_mem mem;

	cr_assert_eq(ops->host_alloc(dev, 10000, 3, &mem), 0);
	cr_expect(mem.is_pinned);
	cr_expect(mem.is_mapped);
	cr_expect_eq(mem.bytes, 12288);
	cr_expect_eq(pages.node, 3);
	ops->host_free(dev, &mem);
	close_counted(dev);
}

/* Two chunks: a gigabyte of which little is touched by anything but us. */
Test(hostmem, is_registered_in_chunks)
{
	struct kv_dev *dev = open_counted("");
	struct kv_host_mem mem;
	u64 before = ctl->calls("cuMemHostRegister_v2");

	cr_assert_eq(ops->host_alloc(dev, 513 * MIB, -1, &mem), 0);
	cr_expect(mem.is_pinned);
	cr_expect_eq(ctl->calls("cuMemHostRegister_v2"), before + 2);
	ops->host_free(dev, &mem);
	close_counted(dev);
}

static void refused(kcu_result code, u32 nth)
{
	struct kv_dev *dev = open_counted("");
	struct kv_host_mem mem;
	u64 before = ctl->calls("cuMemHostUnregister");

	ctl->fail("cuMemHostRegister_v2", nth, code, false, false);
	cr_assert_eq(ops->host_alloc(dev, 513 * MIB, -1, &mem), 0);
	cr_expect(!mem.is_pinned);
	cr_expect(!mem.is_mapped);
	cr_expect_eq(ctl->calls("cuMemHostUnregister"), before + nth - 1);
	memset(mem.ptr, 1, 4096);
	ops->host_free(dev, &mem);
	close_counted(dev);
}

TEST_CALL(hostmem, stays_pageable_where_pinning_is_not_supported, refused(KCU_E_NOT_SUPPORTED, 1))
TEST_CALL(hostmem, stays_pageable_where_the_system_forbids_it, refused(KCU_E_OPERATING_SYSTEM, 2))
TEST_CALL(hostmem, stays_pageable_where_too_much_is_locked, refused(KCU_E_OUT_OF_MEMORY, 2))

Test(hostmem, is_not_mapped_if_the_device_calls_it_otherwise)
{
	struct kv_dev *dev = open_counted("");
	struct kv_host_mem mem;

	ctl->fail("cuMemHostGetDevicePointer_v2", 1, KCU_E_NOT_SUPPORTED, false, false);
	cr_assert_eq(ops->host_alloc(dev, 4096, -1, &mem), 0);
	cr_expect(mem.is_pinned);
	cr_expect(!mem.is_mapped);
	ops->host_free(dev, &mem);
	close_counted(dev);
}

Test(hostmem, can_run_out)
{
	struct kv_dev *dev = open_counted("");
	struct kv_host_mem mem = { .bytes = 1 };

	pages.is_out = true;
	cr_expect_eq(ops->host_alloc(dev, 4096, -1, &mem), -ENOMEM);
	cr_expect_eq(mem.bytes, 1);
	pages.is_out = false;
	close_counted(dev);
}

Test(hostmem, is_nobodys_on_a_lost_device)
{
	struct kv_dev *dev = open_counted("");
	struct kv_host_mem mem;

	ctl->fail("cuMemHostRegister_v2", 1, KCU_E_ILLEGAL_ADDRESS, false, false);
	cr_expect_eq(ops->host_alloc(dev, 4096, -1, &mem), -EIO);
	cr_expect_eq(pages.nr_live, 0);
	cr_expect_eq(ops->host_alloc(dev, 4096, -1, &mem), -EIO);
	ops->close(dev);
}

Test(pages, system_memory_is_zero_and_any_node_will_do)
{
	const int nodes[] = { -1, 0, 7, 5000 };

	for (u32 i = 0; i < ARRAY_SIZE(nodes); i++) {
		u8 *ptr = kv_sys_system.map_pages(NULL, 1 << 20, nodes[i]);

		cr_assert_not_null(ptr);
		cr_expect_eq(ptr[0] | ptr[(1 << 20) - 1], 0);
		kv_sys_system.unmap_pages(NULL, ptr, 1 << 20);
	}
	cr_expect_null(kv_sys_system.map_pages(NULL, UINT64_MAX / 2, -1));
}
