/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences of move.c for its two compilers: entry points, memory, thread numbers.
 *
 * On the device, memory is read and written once: "cs" asks the caches not to keep it, so that the
 * engine's own data stays there. The statements are volatile, which keeps them in the order of the
 * source (all loads of a round before its stores); they claim to touch no memory, since what the
 * kernels read otherwise, planes and moves, is not what they copy.
 */
#ifndef KV_KERNEL_PORT_H
#define KV_KERNEL_PORT_H

struct vec {
	u64 lo;
	u64 hi;
};

#ifdef __OPENCL_C_VERSION__

kv_kernel_inline struct kv_thread this_thread(void)
{
	struct kv_thread self = {
		.nr		= __nvvm_read_ptx_sreg_tid_x(),
		.nr_threads	= __nvvm_read_ptx_sreg_ntid_x(),
		.group		= __nvvm_read_ptx_sreg_ctaid_x(),
		.nr_groups	= __nvvm_read_ptx_sreg_nctaid_x(),
	};

	return self;
}

#define KERNEL(name, type, body)						\
	__kernel void name(const struct type args)				\
	{									\
		struct kv_thread self = this_thread();				\
										\
		body(&self, &args);						\
	}

kv_kernel_inline struct vec load16(u64 addr)
{
	struct vec v;

	__asm__ volatile("ld.global.cs.v2.u64 {%0, %1}, [%2];"
			 : "=l"(v.lo), "=l"(v.hi) : "l"(addr));
	return v;
}

kv_kernel_inline void store16(u64 addr, struct vec v)
{
	__asm__ volatile("st.global.cs.v2.u64 [%0], {%1, %2};"
			 : : "l"(addr), "l"(v.lo), "l"(v.hi));
}

kv_kernel_inline u32 load1(u64 addr)
{
	u32 byte;

	__asm__ volatile("ld.global.cs.u8 %0, [%1];" : "=r"(byte) : "l"(addr));
	return byte;
}

kv_kernel_inline void store1(u64 addr, u32 byte)
{
	__asm__ volatile("st.global.cs.u8 [%0], %1;" : : "l"(addr), "r"(byte));
}

kv_kernel_inline void add8(u64 addr, u64 value)
{
	__asm__ volatile("red.global.add.u64 [%0], %1;" : : "l"(addr), "l"(value));
}

/* A thread among others, always: what the host has below is not for it. */
kv_kernel_inline bool is_alone(const struct kv_thread *self)
{
	return false;
}

kv_kernel_inline void copy_alone(u64 dst, u64 src, u32 bytes)
{
}

kv_kernel_inline u64 sum_alone(u64 piece, u32 bytes, u64 pos)
{
	return 0;
}

kv_kernel_inline u64 copy_sum_alone(u64 dst, u64 src, u32 bytes, u64 pos)
{
	return 0;
}

#else

#include <kv/atomic.h>

/* The cast is sound: body() takes exactly what its entry in kv_kernels[] says. */
#define KERNEL(name, type, body)						\
	static void name(const struct kv_thread *self, const void *args)	\
	{									\
		body(self, (const struct type *)args);				\
	}

static inline struct vec load16(u64 addr)
{
	return *(const struct vec *)(uintptr_t)addr;
}

static inline void store16(u64 addr, struct vec v)
{
	*(struct vec *)(uintptr_t)addr = v;
}

static inline u32 load1(u64 addr)
{
	return *(const u8 *)(uintptr_t)addr;
}

static inline void store1(u64 addr, u32 byte)
{
	*(u8 *)(uintptr_t)addr = byte;
}

static inline void add8(u64 addr, u64 value)
{
	kv_fetch_add((u64 *)(uintptr_t)addr, value);
}

/* A group of one thread, as on the software device, copies and sums all of a piece in vectors. */
static inline bool is_alone(const struct kv_thread *self)
{
	return self->nr_threads == 1;
}

static inline u64 sum_alone(u64 piece, u32 bytes, u64 pos)
{
	return kv_sum_piece((const void *)(uintptr_t)piece, bytes, pos);
}

static inline void copy_alone(u64 dst, u64 src, u32 bytes)
{
	kv_copy_piece((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
}

static inline u64 copy_sum_alone(u64 dst, u64 src, u32 bytes, u64 pos)
{
	return kv_copy_sum_piece((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes, pos);
}

#endif

#endif /* KV_KERNEL_PORT_H */
