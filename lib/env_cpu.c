// SPDX-License-Identifier: Apache-2.0
/*
 * Which processor is this?
 *
 * The kernel keeps the number up to date in the thread's rseq area: one load where glibc has
 * registered it (2.35 and later). Else the vDSO is asked, and where that knows nothing the thread's
 * own memory tells threads apart just as well.
 */
#define _GNU_SOURCE
#include <sched.h>

#include <kv/atomic.h>

#include "internal.h"

#if defined(__has_include)
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#endif

#define THREAD_SHIFT	12u	/* thread-local memory of two threads is pages apart */

static __thread char here;

static u32 asked_cpu(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? (u32)((uintptr_t)&here >> THREAD_SHIFT) : (u32)cpu;
}

#ifdef RSEQ_SIG
u32 kv_system_cpu(void *ctx)
{
	const struct rseq *area;
	int cpu;

	if (unlikely(!__rseq_size))
		return asked_cpu();
	area = (const void *)((const char *)__builtin_thread_pointer() + __rseq_offset);
	/* Below 0: not registered, or refused. */
	cpu = READ_ONCE(area->cpu_id);
	return likely(cpu >= 0) ? (u32)cpu : asked_cpu();
}
#else
u32 kv_system_cpu(void *ctx)
{
	return asked_cpu();
}
#endif
