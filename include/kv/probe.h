/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static probes for bpftrace, perf and SystemTap: a nop each, and a note in the library that says
 * where it is and where its arguments are. They take numbers that are at hand anyhow: nothing is
 * computed for the sake of a probe. Documentation/tools.rst lists them.
 *
 * Off where CONFIG_USDT is, or <sys/sdt.h> is not there; KV_USDT is the Makefile's.
 */
#ifndef KV_PROBE_H
#define KV_PROBE_H

#if defined(KV_USDT) && !defined(__CHECKER__)
#include <sys/sdt.h>

/*
 * perf leaves out an argument that is a constant; then the kernel refuses the place, since all that
 * go by one name must have the same arguments, and of the same types. So constants go by a
 * register, but for the hot ones: a single block by a magazine would pay 2 % for that.
 */
#define kv_probe_arg(x) ({						\
	__auto_type __arg = (x);					\
	if (__builtin_constant_p(__arg))				\
		asm("" : "+r" (__arg));					\
	__arg; })

#define kv_probe2(name, a, b)						\
	DTRACE_PROBE2(kvmm, name, a, kv_probe_arg(b))
#define kv_probe3(name, a, b, c)					\
	DTRACE_PROBE3(kvmm, name, a, kv_probe_arg(b), kv_probe_arg(c))
#define kv_probe2_hot(name, a, b)	DTRACE_PROBE2(kvmm, name, a, b)
#define kv_probe3_hot(name, a, b, c)	DTRACE_PROBE3(kvmm, name, a, b, c)
#else
#define kv_probe2(name, a, b)		((void)(a), (void)(b))
#define kv_probe3(name, a, b, c)	((void)(a), (void)(b), (void)(c))
#define kv_probe2_hot			kv_probe2
#define kv_probe3_hot			kv_probe3
#endif

#endif /* KV_PROBE_H */
