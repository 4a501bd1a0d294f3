/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for metadata: zeroed, accounted, aligned. Sizes are checked for overflow here, so
 * that callers can multiply counts that came from outside.
 */
#ifndef KV_MEM_H
#define KV_MEM_H

#include <kv/types.h>

/* @nr objects of @size bytes, zeroed, or NULL (out of memory or the product overflows). */
void *kv_alloc_array(size_t nr, size_t size) __must_check;

/* The same, each aligned to a cache line. */
void *kv_alloc_lines(size_t nr, size_t size) __must_check;

static inline void *kv_alloc(size_t bytes)
{
	return kv_alloc_array(1, bytes);
}

/* Takes NULL. Objects remember their size. */
void kv_free(void *ptr);

/* Bytes held by all of the library at present, as asked for; equals a recount. */
u64 kv_mem_bytes(void);

#endif /* KV_MEM_H */
