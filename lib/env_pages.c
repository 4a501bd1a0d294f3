// SPDX-License-Identifier: Apache-2.0
/* The system behind the seam for large host memory. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/pages.h>

#include "internal.h"

#define MPOL_PREFERRED	1	/* of <linux/mempolicy.h>: that node, or another if it is full */
#define MAX_NODES	1024

/*
 * Advice only: a kernel without NUMA, a container that forbids the call, or a node that is not
 * there leave the memory where it would have been.
 */
static void prefer_node(void *ptr, u64 bytes, int node)
{
	unsigned long mask[MAX_NODES / (8 * sizeof(long))] = { 0 };

	if (node < 0 || node >= MAX_NODES)
		return;
	mask[node / KV_WORD_BITS] = BIT64(node % KV_WORD_BITS);
	syscall(SYS_mbind, ptr, bytes, MPOL_PREFERRED, mask, MAX_NODES, 0);
}

static void *system_map(void *ctx, u64 bytes, int node)
{
	int saved = errno;
	void *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ptr != MAP_FAILED) {
		prefer_node(ptr, bytes, node);
		madvise(ptr, bytes, MADV_HUGEPAGE);
	}
	errno = saved;
	return ptr == MAP_FAILED ? NULL : ptr;
}

static void system_unmap(void *ctx, void *ptr, u64 bytes)
{
	int saved = errno;

	munmap(ptr, bytes);
	errno = saved;
}

const struct kv_pages_ops kv_pages_system = {
	.map	= system_map,
	.unmap	= system_unmap,
};

DEFINE_SEAM(pages)
