/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for metadata: zeroed, accounted, aligned. Sizes are checked for overflow here, so
 * that callers can multiply counts that came from outside.
 */
#ifndef KV_MEM_H
#define KV_MEM_H

#include <string.h>

#include <kv/fork.h>
#include <kv/types.h>

#define KV_MAX_STRUCT	4096u	/* bytes of a struct of the API; a larger size is garbage */

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

/*
 * Structs of callers, of @size bytes as the caller knows them. A caller of another version may know
 * fewer fields than the library, or more.
 */

/* A size that no version has: none ends in the middle of a field, and none is that large. */
static inline bool kv_size_is_bad(const void *ptr, size_t size)
{
	return !ptr || !size || size % sizeof(u32) || size > KV_MAX_STRUCT;
}

/*
 * Copy @src, with its size in the first field, to @dst of @bytes. Fields that an older caller does
 * not know yet are 0; -EINVAL if a newer one asks for fields that we do not know.
 */
int kv_copy_attr(void *dst, size_t bytes, const void *src);

/* Copy @from, of @bytes, to a caller's: a shorter one is cut, of a longer one the rest is 0. */
void kv_give(void *to, size_t size, const void *from, size_t bytes);

/* The same of structs that begin with their size: that of @to stays; it is no kv_sized_is_bad(). */
void kv_give_sized(void *to, const void *from, size_t bytes);

static inline bool kv_sized_is_bad(const void *ptr)
{
	return !ptr || *(const size_t *)ptr < sizeof(size_t) ||
	       kv_size_is_bad(ptr, *(const size_t *)ptr);
}

bool kv_is_zero(const void *ptr, size_t bytes) __attribute__((pure));

/* Are all fields of @args known that say anything? @bytes are, and no version had fewer. */
static inline bool kv_args_are_known(const void *args, size_t size, size_t bytes)
{
	if (likely(size == bytes))
		return args;
	return size > bytes && !kv_size_is_bad(args, size) &&
	       kv_is_zero((const u8 *)args + bytes, size - bytes);
}

/* Also memory that the compiler believes to be dead: secrets do not stay behind. */
static inline void kv_wipe(void *data, size_t bytes)
{
	memset(data, 0, bytes);
	__asm__ volatile("" : : "r"(data) : "memory");
}

/* Bytes held by all of the library at present, as asked for; equals a recount. */
u64 kv_mem_bytes(void);

#endif /* KV_MEM_H */
