/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text into a buffer of the caller's. When it is full the length goes on counting, so that whoever
 * asked knows how much room the whole text takes. Always terminated, if there is room for that.
 */
#ifndef KV_BUF_H
#define KV_BUF_H

#include <stddef.h>

#include <kv/types.h>

struct kv_buf {
	char	*at;		/* borrowed; NULL: nothing but the length is wanted */
	size_t	bytes;		/* of it */
	size_t	len;		/* of the whole text so far, without its NUL */
};

void kv_buf_printf(struct kv_buf *buf, const char *fmt, ...) __printf(2, 3);

#endif /* KV_BUF_H */
