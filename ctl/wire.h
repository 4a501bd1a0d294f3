/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of events as bytes; their format is in Documentation/events.rst. */
#ifndef CTL_WIRE_H
#define CTL_WIRE_H

#include <kvmm/ext/publisher.h>

#include "msgpack.h"

int wire_copy(struct kvmm_wire *to, const struct kvmm_wire *from);
/* @tokens: of blocks, by event; NULL: none are known of any, NULL in it: of that one. */
void wire_write(const struct kvmm_wire *wire, double seconds, const struct kvmm_event *events,
		u32 nr, const u32 *const *tokens, struct pack *pack);
u64 wire_big_endian(const u8 byte[8]);

/* ---- reading, for tests and tools ---- */

#define WIRE_NONE	UINT64_MAX

/* One event. Numbers that were not there are 0 or WIRE_NONE. */
struct wire_event {
	u8 kind;		/* enum kvmm_event_kind */
	u8 medium;		/* enum kvmm_medium; KVMM_NR_MEDIA: not said, or not known */
	bool has_parent;
	u32 nr_hashes;
	u64 first_hash;		/* signed ones in two's complement; bytes: the last 8 */
	u64 last_hash;
	u64 parent;
	u32 nr_tokens;
	u32 hash_at;		/* where its own begin, among those of the batch */
	u32 token_at;
	u64 block_size;
	u64 group;
};

struct wire_batch {
	double seconds;
	u64 rank;		/* or WIRE_NONE */
	u32 nr;			/* events, @max of which are in @event at most */
	struct wire_event *event;
	struct kvmm_wire_event *into;	/* instead; NULL: ->event */
	u32 max;

	/* All of them, in the order of the events; those that have room. NULL: not wanted. */
	u64 *hash;
	u32 *token;
	u32 max_hashes;
	u32 max_tokens;
	u32 nr_hashes;		/* there are, room or not */
	u32 nr_tokens;
};

/*
 * Maps and arrays, of any age; events of unknown kinds are left out. 0; -EBADMSG: it is none.
 * Fields that are too many are passed over.
 */
int wire_read(const void *bytes, size_t nr, struct wire_batch *batch);

#endif /* CTL_WIRE_H */
