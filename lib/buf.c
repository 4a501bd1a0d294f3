// SPDX-License-Identifier: Apache-2.0
/* Text into a buffer that may be too small for it, and the characters allowed in one. */
#include <stdarg.h>
#include <stdio.h>

#include <kv/buf.h>
#include <kv/log.h>

void kv_buf_printf(struct kv_buf *buf, const char *fmt, ...)
{
	size_t left = buf->len < buf->bytes ? buf->bytes - buf->len : 0;
	va_list args;

	va_start(args, fmt);
	buf->len += vsnprintf(left ? buf->at + buf->len : NULL, left, fmt, args);
	va_end(args);
}

/* Of a character that begins with @first: its bytes, and the smallest number in so many. */
static u32 length_of(u8 first, u32 *least)
{
	u32 nr = first >= 0xf8 ? 0 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;

	*least = nr == 4 ? 0x10000 : nr == 3 ? 0x800 : 0xa0;
	return nr;
}

/* Letters behind one would be shown in another place than they have. */
static bool turns_direction(u32 c)
{
	return c == 0x61c || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

u32 kv_char(const char *at)
{
	const u8 *byte = (const u8 *)at;
	u32 least, nr = length_of(*byte, &least), c = *byte & (0x7fu >> nr);

	if (*byte < 0x80)
		return *byte >= ' ' && *byte != 0x7f;
	for (u32 i = 1; i < nr; i++) {
		if ((byte[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (byte[i] & 0x3f);
	}
	return nr && c >= least && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) &&
	       !turns_direction(c) ? nr : 0;
}

bool kv_name_is_good(const char *what, const char *name, size_t room)
{
	const char *at = name;
	u32 nr;

	while ((nr = kv_char(at)))
		at += nr;
	if (*at)
		kv_log_why(KV_LOG_WARN,
			   "kvmm: name of a %s: byte %zu, 0x%02x, is of no printable character of "
			   "UTF-8",
			   what, at - name, (u8)*at);
	else if (at == name)
		kv_log_why(KV_LOG_WARN, "kvmm: name of a %s: it is empty", what);
	else if ((size_t)(at - name) >= room)
		kv_log_why(KV_LOG_WARN, "kvmm: name of a %s: %zu bytes, more than %zu", what,
			   at - name, room - 1);
	else
		return true;
	return false;
}
