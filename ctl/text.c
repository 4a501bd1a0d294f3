// SPDX-License-Identifier: Apache-2.0
/* Text that grows by doubling. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <kv/buf.h>
#include <kv/mem.h>

#include "text.h"

#define FIRST_ROOM	512u

void kv_text_exit(struct kv_text *text)
{
	kv_free(text->buf);
	kv_text_init(text, text->max);
}

static int grow(struct kv_text *text, u64 wanted)
{
	u64 room = max(text->room, FIRST_ROOM);
	char *buf;

	if (wanted > text->max)
		return -EFBIG;
	while (room < wanted)
		room *= 2;
	buf = kv_alloc_array(room, 1);
	if (!buf)
		return -ENOMEM;
	if (text->len)
		memcpy(buf, text->buf, text->len);
	kv_free(text->buf);
	text->buf = buf;
	text->room = room;
	return 0;
}

/* Room for @nr more? */
static bool has_room(struct kv_text *text, size_t nr)
{
	u64 wanted = (u64)text->len + nr;

	if (!text->err && wanted > text->room)
		text->err = grow(text, wanted);
	return !text->err;
}

void kv_text_bytes(struct kv_text *text, const void *bytes, size_t nr)
{
	if (!nr || !has_room(text, nr))
		return;
	memcpy(text->buf + text->len, bytes, nr);
	text->len += nr;
}

void kv_text_puts(struct kv_text *text, const char *string)
{
	kv_text_bytes(text, string, strlen(string));
}

/* One byte more than it takes: vsnprintf() ends it with a NUL, which is not counted. */
void kv_text_printf(struct kv_text *text, const char *format, ...)
{
	va_list args;
	int nr;

	va_start(args, format);
	nr = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (nr < 0 || !has_room(text, (size_t)nr + 1))
		return;
	va_start(args, format);
	vsnprintf(text->buf + text->len, (size_t)nr + 1, format, args);
	va_end(args);
	text->len += nr;
}

void kv_text_word(struct kv_text *text, const char *string)
{
	if (!*string)
		kv_text_puts(text, "-");
	while (*string) {
		u32 nr = kv_char(string);

		if (nr && *string != ' ' && *string != '\\')
			kv_text_bytes(text, string, nr);
		else
			kv_text_printf(text, "\\x%02x", (u8)*string);
		string += max(nr, 1u);
	}
}
