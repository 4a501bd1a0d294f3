// SPDX-License-Identifier: Apache-2.0
/*
 * Host memory for metadata.
 *
 * Each object has a header right before it, so that kv_free() knows its size, and can tell an
 * object from a stray pointer. In front of the header is the padding that alignment asks for:
 *
 *	base         ptr - 16   ptr
 *	 | (padding) | header   | bytes as asked for |
 */
#include <string.h>

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/env.h>
#include <kv/err.h>
#include <kv/mem.h>

#define MEM_LIVE	0x6b766d6du
#define MEM_DEAD	0x64656164u

static_assert(sizeof(struct kv_mem_header) == 16, "objects must keep malloc's alignment");

/* Sum of kv_mem_header.bytes over all live objects; atomic. */
static u64 bytes_held;

/* @align: a power of two, at least the header's size, which it keeps in front of the object. */
static void *alloc_aligned(size_t nr, size_t size, u32 align)
{
	const struct kv_env_ops *env = kv_env();
	struct kv_mem_header *header;
	size_t bytes, total;
	char *base;

	kv_fork_look();
	if (kv_mul_overflows(nr, size, &bytes) || kv_add_overflows(bytes, align, &total))
		return NULL;
	base = env->alloc(env->ctx, total, align);
	if (!base)
		return NULL;

	header = (struct kv_mem_header *)(void *)(base + align) - 1;
	*header = (struct kv_mem_header){
		.bytes = bytes, .offset = align, .epoch = READ_ONCE(kv_epoch), .state = MEM_LIVE,
	};
	kv_fetch_add(&bytes_held, bytes);
	return base + align;
}

void *kv_alloc_array(size_t nr, size_t size)
{
	return alloc_aligned(nr, size, sizeof(struct kv_mem_header));
}

void *kv_alloc_lines(size_t nr, size_t size)
{
	return alloc_aligned(nr, size, KV_CACHELINE);
}

/* A pointer that is none of ours is reported and left alone: a leak is better than a crash. */
void kv_free(void *ptr)
{
	const struct kv_env_ops *env = kv_env();
	struct kv_mem_header *header;

	if (!ptr)
		return;
	header = (struct kv_mem_header *)ptr - 1;
	if (KV_BUG_ON(header->state != MEM_LIVE))
		return;
	header->state = MEM_DEAD;
	kv_fetch_sub(&bytes_held, header->bytes);
	env->free(env->ctx, (char *)ptr - header->offset, header->offset + header->bytes);
}

u64 kv_mem_bytes(void)
{
	return READ_ONCE(bytes_held);
}

void kv_give(void *to, size_t size, const void *from, size_t bytes)
{
	memcpy(to, from, min(size, bytes));
	if (size > bytes)
		memset((u8 *)to + bytes, 0, size - bytes);
}

void kv_give_sized(void *to, const void *from, size_t bytes)
{
	size_t size = *(size_t *)to;

	kv_give(to, size, from, bytes);
	*(size_t *)to = size;
}

int kv_copy_attr(void *dst, size_t bytes, const void *src)
{
	size_t size;

	memcpy(&size, src, sizeof(size));
	/* No version ends in the middle of a word: half a pointer is a wild one. */
	if (size < sizeof(size) || size > KV_MAX_STRUCT || size % sizeof(size))
		return -EINVAL;
	if (size > bytes && !kv_is_zero((const u8 *)src + bytes, size - bytes))
		return -EINVAL;
	kv_give(dst, bytes, src, size);
	return 0;
}

bool kv_is_zero(const void *ptr, size_t bytes)
{
	for (const u8 *byte = ptr; bytes; bytes--)
		if (*byte++)
			return false;
	return true;
}
