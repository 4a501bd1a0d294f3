/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam for large host memory: whole pages, on a node of choice, that a device may pin.
 *
 * Apart from kv_env_ops because content of that size is no metadata: it is neither accounted nor
 * taken from an arena, and it has to lie on the right side of the machine.
 */
#ifndef KV_PAGES_H
#define KV_PAGES_H

#include <kv/types.h>

/**
 * struct kv_pages_ops - where large memory comes from
 * @map: @bytes of zeroed memory, aligned to pages, preferably of @node (-1: any) and in huge pages;
 *	nothing is behind it until it is touched. NULL: no memory
 * @unmap: give it back, as a whole
 */
struct kv_pages_ops {
	void *(*map)(void *ctx, u64 bytes, int node);
	void (*unmap)(void *ctx, void *ptr, u64 bytes);
	void *ctx;
};

extern const struct kv_pages_ops kv_pages_system;

/* The table in force; never NULL. Set it before the first use, or between tests. */
const struct kv_pages_ops *kv_pages(void);
void kv_pages_set(const struct kv_pages_ops *ops);	/* NULL: back to kv_pages_system */

#endif /* KV_PAGES_H */
