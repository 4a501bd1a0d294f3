// SPDX-License-Identifier: Apache-2.0
/* Memory that leaves as a file descriptor, and comes back or goes to a NIC. */
#include <fcntl.h>
#include <unistd.h>

#include "vmm.h"

static void close_fd(u64 fd)
{
	close(fd);
}

static void release(u64 mem)
{
	cu->mem_release(mem);
}

static kcu_mem_handle shareable(size_t bytes)
{
	if (device_attribute(KCU_ATTR_HANDLE_POSIX_FD) != 1)
		check_skip("the device exports no file descriptors");
	return handle(bytes, KCU_HANDLE_POSIX_FD);
}

static int exported(kcu_mem_handle mem)
{
	int fd = -1;

	must(cu->mem_export(&fd, mem, KCU_HANDLE_POSIX_FD, 0));
	that(fd >= 0 && fcntl(fd, F_GETFD) >= 0);
	at_end(close_fd, fd);
	return fd;
}

/* The descriptor goes by value, in the place of a pointer. */
static kcu_mem_handle imported(int fd)
{
	kcu_mem_handle mem;

	must(cu->mem_import(&mem, (void *)(intptr_t)fd, KCU_HANDLE_POSIX_FD));
	at_end(release, mem);
	return mem;
}

static kcu_deviceptr usable(kcu_mem_handle mem, size_t bytes)
{
	kcu_deviceptr addr = reserved(bytes);

	mapped(addr, mem, bytes);
	must(allow(addr, bytes, KCU_ACCESS_READWRITE));
	return addr;
}

static void import_is_the_same_memory(void)
{
	size_t bytes = granule();
	kcu_mem_handle mem = shareable(bytes);
	kcu_deviceptr one = usable(mem, bytes), two;

	two = usable(imported(exported(mem)), bytes);
	put_pattern(one, bytes, 1);
	that(has_pattern(two, bytes, 1));
	put_pattern(two, bytes, 2);
	that(has_pattern(one, bytes, 2));
}

static void import_outlives_what_it_came_from(void)
{
	kcu_mem_prop prop = device_prop(KCU_HANDLE_POSIX_FD);
	size_t bytes = granule();
	kcu_deviceptr addr;
	kcu_mem_handle mem;
	int fd = -1;

	shareable(bytes);
	must(cu->mem_create(&mem, bytes, &prop, 0));
	must(cu->mem_export(&fd, mem, KCU_HANDLE_POSIX_FD, 0));
	addr = usable(imported(fd), bytes);
	close(fd);
	must(cu->mem_release(mem));
	put_pattern(addr, bytes, 3);
	that(has_pattern(addr, bytes, 3));
}

static void import_twice_is_one_memory(void)
{
	size_t bytes = granule();
	int fd = exported(shareable(bytes));
	kcu_deviceptr one = usable(imported(fd), bytes), two = usable(imported(fd), bytes);

	put_pattern(one, bytes, 4);
	that(has_pattern(two, bytes, 4));
}

static void export_of_what_was_not_made_for_it(void)
{
	size_t bytes = granule();
	int fd;

	answers(cu->mem_export(&fd, handle(bytes, KCU_HANDLE_NONE), KCU_HANDLE_POSIX_FD, 0),
		INVALID_VALUE);
}

static void import_of_another_file(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	kcu_mem_handle mem;

	granule();
	that(fd >= 0);
	at_end(close_fd, fd);
	answers(cu->mem_import(&mem, (void *)(intptr_t)fd, KCU_HANDLE_POSIX_FD), INVALID_VALUE);
}

/* ---- DMA-BUF ---- */

static void range_becomes_a_dma_buf(void)
{
	kcu_deviceptr addr = device_memory(4u << 20);
	int fd = -1;

	if (device_attribute(KCU_ATTR_DMA_BUF) != 1)
		check_skip("the device exports no DMA-BUF");
	must(cu->mem_get_range_handle(&fd, addr, 4u << 20, KCU_RANGE_DMA_BUF_FD, 0));
	that(fd >= 0 && fcntl(fd, F_GETFD) >= 0);
	close(fd);
}

static void dma_buf_of_a_bit_of_a_page(void)
{
	kcu_deviceptr addr = device_memory(4u << 20);
	int fd;

	if (device_attribute(KCU_ATTR_DMA_BUF) != 1)
		check_skip("the device exports no DMA-BUF");
	answers(cu->mem_get_range_handle(&fd, addr + 1, 4096, KCU_RANGE_DMA_BUF_FD, 0),
		INVALID_VALUE);
}

static void dma_buf_of_a_device_that_has_none(void)
{
	kcu_deviceptr addr = device_memory(4u << 20);
	int fd;

	if (device_attribute(KCU_ATTR_DMA_BUF) == 1)
		check_skip("the device exports DMA-BUF");
	answers(cu->mem_get_range_handle(&fd, addr, 4u << 20, KCU_RANGE_DMA_BUF_FD, 0),
		NOT_SUPPORTED);
}

#define CHECK(name)	{ "share." #name, name, 0, KCU_F_VMM }
const struct check checks_share[] = {
	CHECK(import_is_the_same_memory),
	CHECK(import_outlives_what_it_came_from),
	CHECK(import_twice_is_one_memory),
	CHECK(export_of_what_was_not_made_for_it),
	{ "share.import_of_another_file", import_of_another_file, CHECK_ISOLATED, KCU_F_VMM },
	{ "share.range_becomes_a_dma_buf", range_becomes_a_dma_buf, 0, KCU_F_DMABUF },
	{ "share.dma_buf_of_a_bit_of_a_page", dma_buf_of_a_bit_of_a_page, 0, KCU_F_DMABUF },
	{ "share.dma_buf_of_a_device_that_has_none", dma_buf_of_a_device_that_has_none, 0,
	  KCU_F_DMABUF },
	{ NULL, NULL, 0, 0 },
};
