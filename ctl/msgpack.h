/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MessagePack, as much of it as events need, written into memory of the caller's and bounded by
 * that; numbers take the fewest bytes.
 */
#ifndef CTL_MSGPACK_H
#define CTL_MSGPACK_H

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
void pack_text(struct pack *pack, const void *text, u32 nr);	/* UTF-8 */
void pack_bin(struct pack *pack, const void *bytes, u32 nr);
/* What is MessagePack already. */
void pack_raw(struct pack *pack, const void *bytes, size_t nr);
/* So many values follow; of a map, pairs. */
void pack_array(struct pack *pack, u32 nr);
void pack_map(struct pack *pack, u32 nr);

#endif /* CTL_MSGPACK_H */
