/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MessagePack, as much of it as events need: a writer into memory of the caller's, and a reader
 * that believes nothing. Both are bounded by the memory given; numbers take the fewest bytes.
 */
#ifndef CTL_MSGPACK_H
#define CTL_MSGPACK_H

#include <string.h>

#include <kv/types.h>

struct pack {
	u8 *buf;
	size_t room;
	size_t len;
	bool full;		/* something had no room: all of it is void */
};

void pack_nil(struct pack *pack);
void pack_uint(struct pack *pack, u64 value);
void pack_int(struct pack *pack, s64 value);
void pack_f64(struct pack *pack, double value);
void pack_str(struct pack *pack, const char *text);
void pack_bin(struct pack *pack, const void *bytes, u32 nr);
/* So many values follow; of a map, pairs. */
void pack_array(struct pack *pack, u32 nr);
void pack_map(struct pack *pack, u32 nr);

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

#endif /* CTL_MSGPACK_H */
