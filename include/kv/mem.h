/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for metadata: zeroed, accounted, aligned. Sizes are checked for overflow here, so
 * that callers can multiply counts that came from outside.
 */
#ifndef KV_MEM_H
#define KV_MEM_H

#include <kv/fork.h>
#include <kv/types.h>

/* Right before each object; fixed while the object lives. */
struct kv_mem_header {
	u64	bytes;		/* as asked for */
	u16	offset;		/* of the object from the start of the allocation */
	u16	epoch;		/* kv_epoch when it was made, less its upper bits */
	u32	state;		/* lib/mem.c's */
};

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

/*
 * Was the object, which kv_alloc() and its like returned, made before this process was forked?
 * Other threads may then have left it half changed, and what it holds besides memory is the
 * parent's: public calls refuse it with -ECHILD, and those that end it do nothing. Takes NULL: no.
 */
static inline bool kv_inherited(const void *ptr)
{
	return unlikely(ptr &&
			((const struct kv_mem_header *)ptr)[-1].epoch != (u16)READ_ONCE(kv_epoch));
}

/* Bytes held by all of the library at present, as asked for; equals a recount. */
u64 kv_mem_bytes(void);

#endif /* KV_MEM_H */
