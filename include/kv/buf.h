/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text into a buffer of the caller's. When it is full the length goes on counting, so that the
 * caller learns how much room the whole text takes. Always terminated, if there is room for that.
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

/*
 * Bytes of the character of UTF-8 at @at, 1 to 4; 0: it is none, or one that terminals act on (also
 * of the second 32 controls, from 0x80 on, and marks of direction). The NUL at the end is none.
 */
u32 kv_char(const char *at);

/*
 * Is the name of a @what, which will be seen in logs and on terminals, made of such characters, and
 * of 1 to @room - 1 bytes? If not, a line of the log says why.
 */
bool kv_name_is_good(const char *what, const char *name, size_t room);

#endif /* KV_BUF_H */
