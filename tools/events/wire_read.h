/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of events, as publishers of this library and of vLLM and SGLang write them, are read. */
#ifndef EVENTS_WIRE_READ_H
#define EVENTS_WIRE_READ_H

#include <kv/types.h>
#include <kvmm/event.h>

/* Numbers that a batch does not have. */
#define WIRE_NONE	UINT64_MAX

/**
 * struct wire_event - one event of a batch
 * @kind: enum kvmm_event_kind
 * @medium: enum kvmm_medium; KVMM_NR_MEDIA: not said, or not known
 * @has_parent: @parent says something
 * @nr_hashes, @first_hash: its blocks: from there on in @hash of the batch
 * @nr_tokens, @first_token: the same in @token
 * @parent: the block before
 * @block_size: tokens a block; 0: not said, as of a removed one
 * @group: 0 if it was not said
 */
struct wire_event {
	u8 kind;
	u8 medium;
	bool has_parent;
	u32 nr_hashes;
	u32 first_hash;
	u32 nr_tokens;
	u32 first_token;
	u64 parent;
	u64 block_size;
	u64 group;
};

/**
 * struct wire_batch - a batch that is read
 * @event, @max_events: room of the caller's; so for @hash and @token
 * @hash: signed numbers in two's complement; of bytes the last 8
 * @seconds: out: time stamp
 * @rank: out: or WIRE_NONE
 * @nr_events, @nr_hashes, @nr_tokens: out: there are, room or not
 */
struct wire_batch {
	struct wire_event *event;
	u64 *hash;
	u32 *token;
	u32 max_events;
	u32 max_hashes;
	u32 max_tokens;
	u32 nr_events;
	u32 nr_hashes;
	u32 nr_tokens;
	double seconds;
	u64 rank;
};

/*
 * Reads a batch in any of the formats, of any age; what stands behind it is not looked at. Leaves
 * out events of unknown kinds, and passes over surplus fields. Bytes of the batch; -EBADMSG it is
 * none; -ENOSPC it has more than there is room for.
 */
s64 wire_read(const void *bytes, size_t nr, struct wire_batch *batch);

#endif /* EVENTS_WIRE_READ_H */
