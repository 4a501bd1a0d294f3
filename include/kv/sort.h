/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting in place and without memory, of which libc's may want some. */
#ifndef KV_SORT_H
#define KV_SORT_H

#include <kv/types.h>

/*
 * Shell's sort of the @nr objects at @first: is_later(one, one behind it, @arg) is false then. With
 * gaps that are halved, sequences that alternate would meet at the last one only, and take @nr^2.
 */
#define kv_sort(first, nr, is_later, arg)						\
	do {										\
		__typeof__(first) __at = (first);					\
		u32 __nr = (nr);							\
											\
		for (u32 __gap = __nr / 2; __gap;					\
		     __gap = __gap == 2 ? 1 : (u32)((u64)__gap * 5 / 11)) {		\
			for (u32 __i = __gap, __k; __i < __nr; __i++) {			\
				__typeof__(*__at) __moved = __at[__i];			\
											\
				for (__k = __i; __k >= __gap; __k -= __gap) {		\
					if (!is_later(&__at[__k - __gap], &__moved, arg))	\
						break;					\
					__at[__k] = __at[__k - __gap];			\
				}							\
				__at[__k] = __moved;					\
			}								\
		}									\
	} while (0)

#endif /* KV_SORT_H */
