/* SPDX-License-Identifier: Apache-2.0 */
/* Integer names, attributes and the few macros that every file uses. */
#ifndef KV_TYPES_H
#define KV_TYPES_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t		u8;
typedef uint16_t	u16;
typedef uint32_t	u32;
typedef uint64_t	u64;
typedef int32_t		s32;
typedef int64_t		s64;

#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define noinline		__attribute__((noinline))
#define __must_check		__attribute__((warn_unused_result))
#define __printf(a, b)		__attribute__((format(printf, a, b)))
#define KV_CACHELINE		64
#define __cacheline_aligned	__attribute__((aligned(KV_CACHELINE)))

#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#define min(a, b) \
	({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a < __b ? __a : __b; })
#define max(a, b) \
	({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a > __b ? __a : __b; })

/* "No block", "no slot": one past anything that KVMM_MAX_BLOCKS allows. */
#define KV_NONE			0xffffffffu

#endif /* KV_TYPES_H */
