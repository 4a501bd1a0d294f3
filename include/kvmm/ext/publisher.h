/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher: the events of a pool on the network, in the formats that routers already read.
 *
 *	attr.endpoint = "tcp://127.0.0.1:5557";
 *	attr.replay_endpoint = "tcp://127.0.0.1:5558";
 *	err = kvmm_publisher_start(pool, &attr, &publisher);
 *
 * It has one thread, which the caller starts and stops by these calls. It speaks ZeroMQ by libzmq,
 * opened at the start only: the library does not depend on it. An engine with a transport of its
 * own encodes by kvmm_wire_encode() instead. Formats: Documentation/events.rst.
 */
#ifndef KVMM_EXT_PUBLISHER_H
#define KVMM_EXT_PUBLISHER_H

#include <kvmm/event.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_publisher;

/**
 * enum kvmm_wire_format - how events are written, all in MessagePack
 * @KVMM_WIRE_MAP: each event a map: vLLM since June 2026
 * @KVMM_WIRE_ARRAY: each event an array: vLLM before
 * @KVMM_WIRE_SGLANG: arrays as SGLang has them: fewer fields, one block an event, signed hashes
 */
enum kvmm_wire_format { KVMM_WIRE_MAP, KVMM_WIRE_ARRAY, KVMM_WIRE_SGLANG, KVMM_NR_WIRE_FORMATS };

/** Hashes are the 16 bytes of the key, not 64-bit numbers. Not with KVMM_WIRE_SGLANG. */
#define KVMM_WIRE_BYTES		(1u << 0)

/** The tenant of a name is its lora_id, unless it is 0. */
#define KVMM_WIRE_LORA		(1u << 1)

/**
 * struct kvmm_wire - how to encode
 * @size: sizeof(struct kvmm_wire); set by KVMM_WIRE_INIT
 * @format: enum kvmm_wire_format
 * @flags: KVMM_WIRE_*
 * @rank: data-parallel rank, or -1: nil
 * @spec_kind: what group 0 is, as "full_attention"; borrowed; NULL: not said
 */
struct kvmm_wire {
	size_t size;
	uint32_t format;
	uint32_t flags;
	int32_t rank;
	uint32_t reserved;
	const char *spec_kind;
};

#define KVMM_WIRE_INIT { sizeof(struct kvmm_wire), KVMM_WIRE_MAP, 0, 0, 0, NULL }

/** Bytes that are enough for a batch of @nr events. */
#define KVMM_WIRE_BYTES_FOR(nr)	(64 + (size_t)(nr) * 320)

/** The same for kvmm_wire_encode_tokens(): @tokens in each block. */
#define KVMM_WIRE_BYTES_FOR_TOKENS(nr, tokens) \
	(KVMM_WIRE_BYTES_FOR(nr) + (size_t)(nr) * (tokens) * 5)

/**
 * kvmm_wire_encode_tokens() - events as one batch
 * @seconds: time stamp of the batch
 * @tokens: by event: as many as its ->tokens says, or NULL: not known, and its token_ids are empty.
 *	NULL: so are all
 * @buf: room for @bytes
 *
 * Consecutive blocks of a prompt become one event; one with tokens and one without do not.
 *
 * Return: bytes written; -EINVAL; -ENOSPC.
 */
KVMM_API int64_t kvmm_wire_encode_tokens(const struct kvmm_wire *wire, double seconds,
					 const struct kvmm_event *events, uint32_t nr,
					 const uint32_t *const *tokens, void *buf, size_t bytes);

/** kvmm_wire_encode() - the same without tokens. */
static inline int64_t kvmm_wire_encode(const struct kvmm_wire *wire, double seconds,
				       const struct kvmm_event *events, uint32_t nr, void *buf,
				       size_t bytes)
{
	return kvmm_wire_encode_tokens(wire, seconds, events, nr, NULL, buf, bytes);
}

/* ---- reading ---- */

/** Numbers that a batch does not have. */
#define KVMM_WIRE_NONE		UINT64_MAX

/**
 * struct kvmm_wire_event - one event of a batch
 * @kind: enum kvmm_event_kind
 * @medium: enum kvmm_medium; KVMM_NR_MEDIA: not said, or not known
 * @flags: KVMM_EVENT_HAS_PARENT
 * @nr_hashes, @first_hash: its blocks: from there on in @hash of the batch
 * @nr_tokens, @first_token: the same in @token
 * @parent: with KVMM_EVENT_HAS_PARENT
 * @block_size: tokens a block; 0: not said, as of a removed one
 * @group: 0 if it was not said
 */
struct kvmm_wire_event {
	uint8_t kind;
	uint8_t medium;
	uint16_t flags;
	uint32_t nr_hashes;
	uint32_t first_hash;
	uint32_t nr_tokens;
	uint32_t first_token;
	uint32_t reserved;
	uint64_t parent;
	uint64_t block_size;
	uint64_t group;
};

/**
 * struct kvmm_wire_batch - a batch that is read
 * @size: sizeof(struct kvmm_wire_batch)
 * @event, @max_events: room of the caller's; so for @hash and @token
 * @hash: signed numbers in two's complement; of bytes the last 8
 * @seconds: out: time stamp
 * @rank: out: or KVMM_WIRE_NONE
 * @nr_events, @nr_hashes, @nr_tokens: out: there are
 */
struct kvmm_wire_batch {
	size_t size;
	struct kvmm_wire_event *event;
	uint64_t *hash;
	uint32_t *token;
	uint32_t max_events;
	uint32_t max_hashes;
	uint32_t max_tokens;
	uint32_t nr_events;
	uint32_t nr_hashes;
	uint32_t nr_tokens;
	double seconds;
	uint64_t rank;
};

/**
 * kvmm_wire_decode() - read a batch in any of the formats
 * @bytes: the batch, which may be anything; what stands behind it is not looked at
 *
 * Leaves out events of unknown kinds, and passes over surplus fields.
 *
 * Return: bytes of the batch; -EBADMSG it is none; -ENOSPC it has more than there is room for, and
 * @nr_events, @nr_hashes and @nr_tokens say how much; -EINVAL.
 */
KVMM_API int64_t kvmm_wire_decode(const void *bytes, size_t nr, struct kvmm_wire_batch *batch);

/**
 * struct kvmm_publisher_attr - a publisher
 * @size: sizeof(struct kvmm_publisher_attr); set by KVMM_PUBLISHER_ATTR_INIT
 * @endpoint: of the PUB socket. Bound if it has a '*' or "::" in it or starts with ipc:// or
 *	inproc:// or tcp://127., else connected to. Printable UTF-8. Borrowed for the call, as the
 *	next
 * @replay_endpoint: of the ROUTER socket, bound; as @endpoint; NULL: no replay, no snapshots. All
 *	that can connect may ask; a client that asks and does not read costs memory for an answer,
 *	up to @high_water messages
 * @topic: first frame of each message: up to 255 bytes of printable UTF-8
 * @wire: how to encode; NULL = KVMM_WIRE_INIT
 * @events: what to publish; NULL = all, with a ring of 2^17, in batches of 512 or 1 ms
 * @replay_batches: batches kept for replay
 * @replay_bytes: bytes kept for replay, at most
 * @high_water: messages that libzmq keeps for a subscriber that does not read; more are dropped
 * @token_blocks: number of blocks with tokens kept for events, those told of last; 0: events have
 *	none. A block takes 4 bytes a token and 36 more. See kvmm_publisher_tokens()
 * @reserved: 0
 */
struct kvmm_publisher_attr {
	size_t size;
	const char *endpoint;
	const char *replay_endpoint;
	const char *topic;
	const struct kvmm_wire *wire;
	const struct kvmm_events_attr *events;
	uint32_t replay_batches;
	uint32_t high_water;
	uint64_t replay_bytes;
	uint32_t token_blocks;
	uint32_t reserved;
};

#define KVMM_PUBLISHER_ATTR_INIT \
	{ sizeof(struct kvmm_publisher_attr), "tcp://*:5557", NULL, "", NULL, NULL, 10000, 100000, \
	  64ull << 20, 0, 0 }

/**
 * kvmm_publisher_start() - publish from now on
 *
 * Stop it before the pool is destroyed. Snapshots tell what is cached already, events do not.
 *
 * Its threads may run where the caller's may: one that is bound to a core should not start it.
 *
 * libzmq ends the process where it finds no descriptor for its threads, and for the address where
 * it binds, unless that is ipc:// or all addresses (tcp://\*:PORT). So it is started only where 16
 * descriptors could be opened right before. Where fewer than 4 can be, those endpoints do not
 * listen until 16 can: that is tried every 50 ms, every 500 ms meanwhile, and takes as many for
 * microseconds. Other addresses are never bound anew, and listen all the time: if descriptors are
 * short while a subscriber waits there, a thread of libzmq's spins until they are not.
 *
 * Context: as kvmm_events_open(); starts a thread, and libzmq others.
 * Return: 0; -EINVAL; -ENOENT there is no libzmq, or not all of it; -EADDRINUSE, -EACCES and others
 * that libzmq has for an endpoint; -ENOMEM; -EMFILE fewer than 16 descriptors could be opened;
 * -EAGAIN no thread; as kvmm_events_open().
 */
KVMM_API int kvmm_publisher_start(struct kvmm_pool *pool, const struct kvmm_publisher_attr *attr,
				  struct kvmm_publisher **publisher);

/**
 * kvmm_publisher_tokens() - tell the tokens of blocks that are about to be registered
 * @keys: their names; a key stands for the same tokens in all domains
 * @tokens: as many as the pool's blocks have, of each of @nr blocks
 *
 * Call it before the blocks are registered, or their events may go without tokens. The publisher
 * keeps tokens of the last @token_blocks blocks, for events of all media and snapshots. If it falls
 * behind by more, events go without.
 *
 * Context: any thread; takes a lock that no thread holds for longer than the copy of a block.
 * Return: 0; -EINVAL; -EOPNOTSUPP the publisher keeps none; -ECHILD this is a forked child.
 */
KVMM_API int kvmm_publisher_tokens(struct kvmm_publisher *publisher, const kvmm_key_t *keys,
				   uint32_t nr, const uint32_t *tokens);

/** kvmm_publisher_stop() - publish what has happened so far, and end; takes NULL. Waits for the
 * thread. Does nothing in a forked child. */
KVMM_API void kvmm_publisher_stop(struct kvmm_publisher *publisher);

/**
 * struct kvmm_publisher_stat - numbers of a publisher; each of its own moment
 * @size: sizeof(struct kvmm_publisher_stat); set it before the call
 * @batches, @events, @bytes: published
 * @lost: events that it missed itself
 * @resyncs: how often it has published everything anew because of that
 * @replays, @snapshots: asked for and answered
 * @refused: requests that were none
 * @unsent: of @batches, those that libzmq did not take; what it drops for a subscriber that does
 *	not read only that one can know, by the number that is missing
 * @shut: so often descriptors were short: until 16 can be opened it does not listen for new
 *	subscribers, see kvmm_publisher_start()
 */
struct kvmm_publisher_stat {
	size_t size;
	uint64_t batches;
	uint64_t events;
	uint64_t bytes;
	uint64_t lost;
	uint64_t resyncs;
	uint64_t replays;
	uint64_t snapshots;
	uint64_t refused;
	uint64_t unsent;
	uint64_t shut;
};

/** kvmm_publisher_get_stat() - Context: any thread. Return: 0; -EINVAL. */
KVMM_API int kvmm_publisher_get_stat(const struct kvmm_publisher *publisher,
				     struct kvmm_publisher_stat *stat);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_PUBLISHER_H */
