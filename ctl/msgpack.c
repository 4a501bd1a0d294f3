// SPDX-License-Identifier: Apache-2.0
/* MessagePack; see msgpack.h. */
#include <errno.h>
#include <string.h>

#include "msgpack.h"

/* ---- writing ---- */

/* The one place that writes; all others end here. */
void pack_raw(struct pack *pack, const void *bytes, size_t nr)
{
	if (pack->full || nr > pack->room - pack->len) {
		pack->full = true;
		return;
	}
	if (nr)
		memcpy(pack->buf + pack->len, bytes, nr);
	pack->len += nr;
}

/* A byte of type, and @nr bytes of a number, highest first. */
static void put_number(struct pack *pack, u8 tag, u64 value, u32 nr)
{
	u8 buf[9] = { tag };

	for (u32 i = 0; i < nr; i++)
		buf[1 + i] = value >> 8 * (nr - 1 - i);
	pack_raw(pack, buf, 1 + nr);
}

/* The shortest of lengths of 1, 2 and 4 bytes, with tags that follow one another. */
static void put_length(struct pack *pack, u8 tag, u32 nr)
{
	if (nr <= UINT8_MAX)
		put_number(pack, tag, nr, 1);
	else if (nr <= UINT16_MAX)
		put_number(pack, tag + 1, nr, 2);
	else
		put_number(pack, tag + 2, nr, 4);
}

void pack_nil(struct pack *pack)
{
	put_number(pack, 0xc0, 0, 0);
}

void pack_uint(struct pack *pack, u64 value)
{
	if (value < 128)
		put_number(pack, value, 0, 0);
	else if (value <= UINT32_MAX)
		put_length(pack, 0xcc, value);
	else
		put_number(pack, 0xcf, value, 8);
}

void pack_int(struct pack *pack, s64 value)
{
	if (value >= 0)
		pack_uint(pack, value);
	else if (value >= -32)
		put_number(pack, value, 0, 0);
	else if (value >= INT8_MIN)
		put_number(pack, 0xd0, value, 1);
	else if (value >= INT16_MIN)
		put_number(pack, 0xd1, value, 2);
	else if (value >= INT32_MIN)
		put_number(pack, 0xd2, value, 4);
	else
		put_number(pack, 0xd3, value, 8);
}

void pack_f64(struct pack *pack, double value)
{
	u64 bits;

	memcpy(&bits, &value, sizeof(bits));
	put_number(pack, 0xcb, bits, 8);
}

void pack_text(struct pack *pack, const void *text, u32 nr)
{
	if (nr < 32)
		put_number(pack, 0xa0 | nr, 0, 0);
	else
		put_length(pack, 0xd9, nr);
	pack_raw(pack, text, nr);
}

void pack_str(struct pack *pack, const char *text)
{
	pack_text(pack, text, strlen(text));
}

void pack_bin(struct pack *pack, const void *bytes, u32 nr)
{
	put_length(pack, 0xc4, nr);
	pack_raw(pack, bytes, nr);
}

static void put_head(struct pack *pack, u8 few, u8 many, u32 nr)
{
	if (nr < 16)
		put_number(pack, few | nr, 0, 0);
	else if (nr <= UINT16_MAX)
		put_number(pack, many, nr, 2);
	else
		put_number(pack, many + 1, nr, 4);
}

void pack_array(struct pack *pack, u32 nr)
{
	put_head(pack, 0x90, 0xdc, nr);
}

void pack_map(struct pack *pack, u32 nr)
{
	put_head(pack, 0x80, 0xde, nr);
}
