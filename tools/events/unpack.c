// SPDX-License-Identifier: Apache-2.0
/* Values of MessagePack, one after the other; see unpack.h. */
#include <errno.h>

#include "unpack.h"

#define MAX_NESTING	16u

static int get_number(struct unpack *unpack, u32 nr, u64 *value)
{
	*value = 0;
	if (nr > unpack->nr - unpack->at)
		return -EBADMSG;
	for (u32 i = 0; i < nr; i++)
		*value = *value << 8 | unpack->buf[unpack->at++];
	return 0;
}

static int get_bytes(struct unpack *unpack, enum unpack_type type, u64 nr, struct unpacked *value)
{
	if (nr > unpack->nr - unpack->at)
		return -EBADMSG;
	value->type = type;
	value->bytes = unpack->buf + unpack->at;
	value->nr = nr;
	unpack->at += nr;
	return 0;
}

/* A length of @width bytes, and with @more, bytes of it and so many besides. */
static int get_sized(struct unpack *unpack, enum unpack_type type, u32 width, u64 more,
		     struct unpacked *value)
{
	u64 nr;
	int err = get_number(unpack, width, &nr);

	return err ? err : get_bytes(unpack, type, nr + more, value);
}

static int get_head(struct unpack *unpack, enum unpack_type type, u32 width,
		    struct unpacked *value)
{
	u64 nr;
	int err = get_number(unpack, width, &nr);

	value->type = type;
	value->nr = nr;
	return err;
}

static int get_signed(struct unpack *unpack, u32 width, struct unpacked *value)
{
	int err = get_number(unpack, width, &value->number);
	u32 shift = 64 - 8 * width;

	value->number = (u64)((s64)(value->number << shift) >> shift);
	value->type = (s64)value->number < 0 ? UNPACK_INT : UNPACK_UINT;
	return err;
}

static int get_float(struct unpack *unpack, u32 width, struct unpacked *value)
{
	u64 bits;
	int err = get_number(unpack, width, &bits);
	u32 low = bits;
	float small;

	value->type = UNPACK_F64;
	memcpy(&value->real, &bits, sizeof(value->real));
	if (width == 4) {
		memcpy(&small, &low, sizeof(small));
		value->real = small;
	}
	return err;
}

/* Tags from 0xc0 to 0xdf. */
static int get_tagged(struct unpack *unpack, u8 tag, struct unpacked *value)
{
	switch (tag) {
	case 0xc0:
		value->type = UNPACK_NIL;
		return 0;
	case 0xc2: case 0xc3:
		value->type = UNPACK_BOOL;
		value->number = tag & 1;
		return 0;
	case 0xc4: case 0xc5: case 0xc6:
		return get_sized(unpack, UNPACK_BIN, 1u << (tag - 0xc4), 0, value);
	case 0xc7: case 0xc8: case 0xc9:
		return get_sized(unpack, UNPACK_EXT, 1u << (tag - 0xc7), 1, value);
	case 0xca: case 0xcb:
		return get_float(unpack, 4u << (tag - 0xca), value);
	case 0xcc: case 0xcd: case 0xce: case 0xcf:
		value->type = UNPACK_UINT;
		return get_number(unpack, 1u << (tag - 0xcc), &value->number);
	case 0xd0: case 0xd1: case 0xd2: case 0xd3:
		return get_signed(unpack, 1u << (tag - 0xd0), value);
	case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8:
		return get_bytes(unpack, UNPACK_EXT, 1 + (1u << (tag - 0xd4)), value);
	case 0xd9: case 0xda: case 0xdb:
		return get_sized(unpack, UNPACK_STR, 1u << (tag - 0xd9), 0, value);
	case 0xdc: case 0xdd:
		return get_head(unpack, UNPACK_ARRAY, 2u << (tag - 0xdc), value);
	case 0xde: case 0xdf:
		return get_head(unpack, UNPACK_MAP, 2u << (tag - 0xde), value);
	default:
		return -EBADMSG;
	}
}

int unpack_next(struct unpack *unpack, struct unpacked *value)
{
	u8 tag;

	*value = (struct unpacked){ 0 };
	if (unpack->at >= unpack->nr)
		return -EBADMSG;
	tag = unpack->buf[unpack->at++];
	if (tag >= 0xc0 && tag < 0xe0)
		return get_tagged(unpack, tag, value);
	if (tag >= 0xa0 && tag < 0xc0)
		return get_bytes(unpack, UNPACK_STR, tag & 31, value);
	value->type = tag < 0x80 ? UNPACK_UINT : tag < 0x90 ? UNPACK_MAP :
		      tag < 0xa0 ? UNPACK_ARRAY : UNPACK_INT;
	value->number = tag < 0x80 ? tag : (u64)(int8_t)tag;
	value->nr = tag & 15;
	return 0;
}

/* Each value takes a byte at least, so no count can make this long. */
int unpack_skip(struct unpack *unpack)
{
	u64 left[MAX_NESTING] = { 1 };
	struct unpacked value;
	u32 depth = 0;

	for (;;) {
		int err;

		while (!left[depth]) {
			if (!depth)
				return 0;
			depth--;
		}
		left[depth]--;
		err = unpack_next(unpack, &value);
		if (err)
			return err;
		if (value.type != UNPACK_ARRAY && value.type != UNPACK_MAP)
			continue;
		if (++depth == MAX_NESTING)
			return -EBADMSG;
		left[depth] = value.type == UNPACK_MAP ? 2ull * value.nr : value.nr;
	}
}
