/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only memory-ordering words of the tree. Plain C11 orders underneath, so ThreadSanitizer
 * understands every one of them.
 */
#ifndef KV_ATOMIC_H
#define KV_ATOMIC_H

#include <kv/types.h>

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define smp_load_acquire(p)	__atomic_load_n((p), __ATOMIC_ACQUIRE)
#define smp_store_release(p, v)	__atomic_store_n((p), (v), __ATOMIC_RELEASE)

/* Read-modify-write; each says its order. All return the value before. */
#define kv_xchg_acquire(p, v)	__atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define kv_fetch_add(p, v)	__atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define kv_fetch_add_release(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELEASE)
#define kv_fetch_sub(p, v)	__atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)

#define kv_fetch_sub_release(p, v)	__atomic_fetch_sub((p), (v), __ATOMIC_RELEASE)

/* *@p from *@old to @new: true, or false and *@old is what it was. Acquire and release. */
#define kv_cas(p, old, new) \
	__atomic_compare_exchange_n((p), (old), (new), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* Nothing passes it in either direction. */
#define kv_fence_full()		__atomic_thread_fence(__ATOMIC_SEQ_CST)

/* As much for a thread that calls kv_fence_all(), nothing for others: only holds the compiler. */
#define kv_fence_light()	__atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Writer of a sequence counter: the caller holds the lock that serialises writers. */
static inline void kv_seq_write_begin(u32 *seq)
{
	WRITE_ONCE(*seq, *seq + 1);
	/* Pairs with the acquire fence of kv_seq_read_retry(): odd is seen before new data. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void kv_seq_write_end(u32 *seq)
{
	/* Pairs with kv_seq_read_begin(): a reader that sees even sees the data whole. */
	smp_store_release(seq, READ_ONCE(*seq) + 1);
}

/* Reader: begin, copy with READ_ONCE(), retry if it says so. Odd = a writer is inside. */
static inline u32 kv_seq_read_begin(const u32 *seq)
{
	/* Pairs with kv_seq_write_end(). */
	return smp_load_acquire(seq);
}

static inline bool kv_seq_read_retry(const u32 *seq, u32 begin)
{
	/* Pairs with the release fence of kv_seq_write_begin(): the copies stay above. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return (begin & 1) || READ_ONCE(*seq) != begin;
}

/* One more look: is what was read since the acquire load of @p that gave @old still of it? */
static inline bool kv_is_still(const u64 *p, u64 old, u64 mask)
{
	/* Pairs with the swaps of kv_cas(): reads before stay above the second look. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return !((READ_ONCE(*p) ^ old) & mask);
}

/* The lock of a sequence counter, in its lowest bit: odd = held. */
static inline bool kv_seq_trylock(u32 *seq)
{
	u32 old = READ_ONCE(*seq);

	if ((old & 1) || !kv_cas(seq, &old, old + 1))
		return false;
	/* Pairs with the acquire fence of kv_seq_read_retry(): odd is seen before new data. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return true;
}

#define kv_seq_unlock(seq)	kv_seq_write_end(seq)

/*
 * Reads a word that others write under a lock which the reader does not hold: whole, for it is one
 * aligned word, but of any time. To be looked at, never to decide by. Writers keep plain stores,
 * which compilers make vectors of; so ThreadSanitizer must be told that this race is meant.
 */
#define kv_peek(p)								\
	((__typeof__(*(p)))(sizeof(*(p)) == 8 ? __kv_peek64(p) :		\
			    sizeof(*(p)) == 4 ? __kv_peek32(p) :		\
			    sizeof(*(p)) == 2 ? __kv_peek16(p) : __kv_peek8(p)))

#define __KV_PEEK(bits)								\
	__attribute__((no_sanitize("thread"))) static inline			\
	u##bits __kv_peek##bits(const volatile void *p)				\
	{									\
		return *(const volatile u##bits *)p;				\
	}

__KV_PEEK(8)
__KV_PEEK(16)
__KV_PEEK(32)
__KV_PEEK(64)

/* kv_peek() of a structure of numbers, each of its own moment. Words of 4 or 8 bytes, or bools. */
__attribute__((no_sanitize("thread")))
static inline void kv_peek_copy(void *copy, const void *from, size_t bytes)
{
	size_t at = 0;

	for (; at + sizeof(u64) <= bytes && !((uintptr_t)from % sizeof(u64)); at += sizeof(u64))
		*(u64 *)((char *)copy + at) = *(const volatile u64 *)((const char *)from + at);
	for (; at + sizeof(u32) <= bytes && !((uintptr_t)from % sizeof(u32)); at += sizeof(u32))
		*(u32 *)((char *)copy + at) = *(const volatile u32 *)((const char *)from + at);
	for (; at < bytes; at++)
		((char *)copy)[at] = ((const volatile char *)from)[at];
}

/* Once around a loop that waits for another core. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* The line of @p is needed soon, to be read, or written. */
#define kv_prefetch(p)		__builtin_prefetch((p), 0, 3)
#define kv_prefetch_write(p)	__builtin_prefetch((p), 1, 3)

#endif /* KV_ATOMIC_H */
