/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors in pointers, and what happens when an invariant of our own is broken.
 *
 * Callers' mistakes are errnos. KV_BUG_ON() is for contradictions in our own state: debug builds
 * stop there, release builds count it, tell the log callback once and go on to the caller's error
 * path; nothing aborts an engine's process.
 */
#ifndef KV_ERR_H
#define KV_ERR_H

#include <kv/types.h>

#define KV_MAX_ERRNO	4095ul

static inline void *ERR_PTR(long err)
{
	return (void *)err;
}

static inline long PTR_ERR(const void *ptr)
{
	return (long)ptr;
}

static inline bool IS_ERR(const void *ptr)
{
	return unlikely((unsigned long)ptr >= (unsigned long)-KV_MAX_ERRNO);
}

/* Counts, logs, and in debug builds stops. Defined in lib/log.c. */
void kv_bug(const char *file, int line, const char *what);

/* True if the invariant is broken, so that callers can leave by their error path. */
#define KV_BUG_ON(cond)								\
	({									\
		bool __bug = unlikely(cond);					\
		if (__bug)							\
			kv_bug(__FILE__, __LINE__, #cond);			\
		__bug;								\
	})

/*
 * What a function relies on at its entry: debug builds stop where it does not hold, others do not
 * look. Without a value, because release builds have none.
 */
#ifdef KVMM_DEBUG
#define kv_assert(cond)	((void)KV_BUG_ON(!(cond)))
#else
#define kv_assert(cond)	do { if (0) (void)(cond); } while (0)
#endif

#endif /* KV_ERR_H */
