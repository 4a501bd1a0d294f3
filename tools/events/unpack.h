/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of MessagePack that believes nothing, and is bounded by the memory given. */
#ifndef EVENTS_UNPACK_H
#define EVENTS_UNPACK_H

#include <string.h>

#include <kv/types.h>

enum unpack_type {
	UNPACK_NIL, UNPACK_BOOL, UNPACK_UINT, UNPACK_INT, UNPACK_F64, UNPACK_STR, UNPACK_BIN,
	UNPACK_ARRAY, UNPACK_MAP, UNPACK_EXT,
};

/* One value; of arrays and maps, its head. */
struct unpacked {
	enum unpack_type type;
	u64 number;		/* BOOL, UINT; INT below 0, as s64 */
	double real;		/* F64 */
	const u8 *bytes;	/* STR, BIN, EXT: in the memory that is read */
	u32 nr;			/* bytes, values or pairs */
};

struct unpack {
	const u8 *buf;
	size_t nr;
	size_t at;
};

/* 0; -EBADMSG: it ends too early, or is no MessagePack. */
int unpack_next(struct unpack *unpack, struct unpacked *value);
/* A whole value, with all that is in it: the same; -EBADMSG, too, deeper than 16. */
int unpack_skip(struct unpack *unpack);

static inline bool unpacked_is(const struct unpacked *value, const char *text)
{
	return value->type == UNPACK_STR && value->nr == strlen(text) &&
	       !memcmp(value->bytes, text, value->nr);
}

#endif /* EVENTS_UNPACK_H */
