// SPDX-License-Identifier: Apache-2.0
/* Text that grows by doubling. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <kv/buf.h>
#include <kv/err.h>
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

/* ---- tables ---- */

/* Little-endian machines only, as everywhere: a short number is the start of a long one. */
u64 kv_column_number(const struct kv_column *column, const void *row, u32 i)
{
	u64 number = 0;

	kv_assert(column->bytes <= sizeof(number));
	memcpy(&number, (const char *)row + column->offset + i * column->bytes, column->bytes);
	return number;
}

void kv_column_set(const struct kv_column *column, void *row, u64 number)
{
	kv_assert(column->bytes <= sizeof(number));
	memcpy((char *)row + column->offset, &number, column->bytes);
}

void kv_text_cell(struct kv_text *text, const struct kv_column *column, const void *row)
{
	const char *at = (const char *)row + column->offset, *string;
	u64 number;

	switch (column->kind) {
	case KV_CELL_NAME:
	case KV_CELL_WORD:
		memcpy(&string, at, sizeof(string));
		if (column->kind == KV_CELL_WORD)
			return kv_text_word(text, string);
		return kv_text_puts(text, string ? string : "-");
	case KV_CELL_CHARS:
		return kv_text_word(text, at);
	case KV_CELL_KEY:
		for (u32 i = 0; i < column->bytes; i++)
			kv_text_printf(text, "%02x", (u8)at[i]);
		return;
	}
	number = kv_column_number(column, row, 0);
	if ((column->kind == KV_CELL_LIMIT && number == UINT32_MAX) ||
	    (column->kind == KV_CELL_NONZERO && !number))
		kv_text_puts(text, "-");
	else if (column->kind == KV_CELL_SIGNED)
		kv_text_printf(text, "%d", (s32)number);
	else
		kv_text_printf(text, "%llu", (unsigned long long)number);
}

void kv_text_row(struct kv_text *text, const struct kv_column *columns, u32 nr, const void *row,
		 u32 has)
{
	for (u32 i = 0; i < nr; i++) {
		kv_text_puts(text, i ? "\t" : "");
		if (columns[i].needs && !(columns[i].needs & has))
			kv_text_puts(text, "-");
		else
			kv_text_cell(text, &columns[i], row);
	}
	kv_text_puts(text, "\n");
}

void kv_text_head(struct kv_text *text, const struct kv_column *columns, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		kv_text_printf(text, "%s%s", i ? "\t" : "#", columns[i].head);
	kv_text_puts(text, "\n");
}
