// SPDX-License-Identifier: Apache-2.0
/* Text into a buffer that may be too small for it. */
#include <stdarg.h>
#include <stdio.h>

#include <kv/buf.h>

void kv_buf_printf(struct kv_buf *buf, const char *fmt, ...)
{
	size_t left = buf->len < buf->bytes ? buf->bytes - buf->len : 0;
	va_list args;

	va_start(args, fmt);
	buf->len += vsnprintf(left ? buf->at + buf->len : NULL, left, fmt, args);
	va_end(args);
}
