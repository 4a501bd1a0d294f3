/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: what a pool has cached, and what it has lost, in order, for programs that mirror it.
 *
 *	kvmm_events_open(pool, &attr, &events);
 *	...
 *	n = kvmm_events_read(events, buf, 256, &nr_lost);	// now and then, by one thread
 *	if (nr_lost)
 *		...						// forget all; take a snapshot
 *
 * The pool writes events into a ring, without locks or waits, and overwrites the oldest. Each
 * consumer has a cursor of its own and misses nothing that others have read. A consumer that was
 * too slow learns how many events it has missed, at the place where they are missing.
 *
 * A *name* (key, domain) is stored in a medium when the first block of that name can be found
 * there, and removed when none can be found any more. Events of one name and medium come in the
 * order in which they happened, on any threads. An event may store a name that is stored already:
 * apply events to a set.
 *
 * While no consumer is open, a pool pays one untaken branch where names come and go.
 */
#ifndef KVMM_EVENT_H
#define KVMM_EVENT_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_events;

/**
 * enum kvmm_event_kind - what has happened
 * @KVMM_EVENT_STORED: the name can be found in the medium
 * @KVMM_EVENT_REMOVED: it cannot any more
 * @KVMM_EVENT_CLEARED: no name is there any more, in any medium; nothing but the kind has a meaning
 */
enum kvmm_event_kind {
	KVMM_EVENT_STORED,
	KVMM_EVENT_REMOVED,
	KVMM_EVENT_CLEARED,
	KVMM_NR_EVENT_KINDS,
};

/**
 * enum kvmm_request_kind - further kinds, for traces: only to consumers that ask by
 * KVMM_EVENTS_REQUESTS or KVMM_EVENTS_LOOKUPS
 * @KVMM_EVENT_REQUEST: a request has come; kvmm_note_request() said so
 * @KVMM_EVENT_REQUEST_KEYS: one or two of its keys; all of them follow, in their order, but other
 *	events may stand in between
 * @KVMM_EVENT_REQUEST_END: it is over; kvmm_note_request() said so
 * @KVMM_EVENT_LOOKUP: kvmm_prefix_match() or kvmm_acquire() has looked keys up
 * @KVMM_EVENT_LOOKUP_KEYS: one or two of them, as above
 * @KVMM_EVENT_REUSED: the content of @block, which was parked (<kvmm/ext/ids.h>), goes; only
 *	to consumers that ask by KVMM_EVENTS_REUSED; says nothing but the block
 *
 * What is in them kvmm_event_get_request() tells.
 */
enum kvmm_request_kind {
	KVMM_EVENT_REQUEST = 8,
	KVMM_EVENT_REQUEST_KEYS,
	KVMM_EVENT_REQUEST_END,
	KVMM_EVENT_LOOKUP,
	KVMM_EVENT_LOOKUP_KEYS,
	KVMM_EVENT_REUSED,
};

/** enum kvmm_medium - where: the pool's device, the memory of the host, a disk, or elsewhere */
enum kvmm_medium {
	KVMM_MEDIUM_DEVICE,
	KVMM_MEDIUM_HOST,
	KVMM_MEDIUM_DISK,
	KVMM_MEDIUM_EXTERNAL,
	KVMM_NR_MEDIA,
};

/** @parent of an event is known. */
#define KVMM_EVENT_HAS_PARENT	(1u << 0)

/** @block of events that are not about a block of the device. */
#define KVMM_EVENT_NO_BLOCK	UINT32_MAX

/**
 * struct kvmm_event - one event
 * @seq: its place in the ring: 0, 1, ...; of events from a snapshot: its watermark
 * @key, @domain: the name
 * @parent: key of the block before, with KVMM_EVENT_HAS_PARENT: stored in the device only, and only
 *	if the caller that named the block gave it while a consumer was open
 * @position: in blocks from the start of the prompt
 * @tokens: in the block
 * @block: where it lay in the device at that moment, or KVMM_EVENT_NO_BLOCK
 * @kind: enum kvmm_event_kind; or enum kvmm_request_kind, and then all but @seq is what
 *	kvmm_event_get_request() reads
 * @medium: enum kvmm_medium
 * @flags: KVMM_EVENT_HAS_PARENT
 *
 * Fixed: a cache line of the ring; kvmm_event_get_request() reads further kinds.
 */
struct kvmm_event {
	uint64_t seq;
	kvmm_key_t key;
	kvmm_key_t parent;
	kvmm_domain_t domain;
	uint32_t position;
	uint32_t tokens;
	uint32_t block;
	uint8_t kind;
	uint8_t medium;
	uint16_t flags;
};

/** Only names at positions that are powers of two from 16 to 65536: enough to find how long a
 * prefix is, to a factor of two, for a hundredth of the events. */
#define KVMM_EVENTS_POW2	(1u << 0)

/** Each batch is of one kind and medium: what was stored by position from the start of prompts,
 * what was removed from their ends. */
#define KVMM_EVENTS_SORTED	(1u << 1)

/** Requests as well, as kvmm_note_request() tells of them. Not with KVMM_EVENTS_SORTED. */
#define KVMM_EVENTS_REQUESTS	(1u << 2)

/** Lookups as well: of engines that say nothing of their requests. Not with KVMM_EVENTS_SORTED. */
#define KVMM_EVENTS_LOOKUPS	(1u << 3)

/** Parked blocks that are used again as well. Not with KVMM_EVENTS_SORTED. */
#define KVMM_EVENTS_REUSED	(1u << 4)

/**
 * struct kvmm_events_attr - what a consumer wants
 * @size: sizeof(struct kvmm_events_attr); set by KVMM_EVENTS_ATTR_INIT
 * @ring: events that the ring holds, a power of two from 16 to 2^24; counts for the first consumer
 *	that a pool ever has
 * @flags: KVMM_EVENTS_*
 * @kinds: mask of 1 << enum kvmm_event_kind; may be 0 with KVMM_EVENTS_REQUESTS, _LOOKUPS or
 *	_REUSED
 * @media: mask of 1 << enum kvmm_medium
 * @batch_max: most events of a batch, that is of one kvmm_events_read(); so many end @batch_us
 *	early
 * @batch_us: kvmm_events_read() gives nothing until so many microseconds after it first saw that
 *	there is something; 0 = at once
 */
struct kvmm_events_attr {
	size_t size;
	uint32_t ring;
	uint32_t flags;
	uint32_t kinds;
	uint32_t media;
	uint32_t batch_max;
	uint32_t batch_us;
};

#define KVMM_EVENTS_ATTR_INIT \
	{ sizeof(struct kvmm_events_attr), 1u << 16, 0, UINT32_MAX, UINT32_MAX, 1024, 0 }

/**
 * kvmm_events_open() - consume the events of a pool, from now on
 * @attr: NULL = KVMM_EVENTS_ATTR_INIT
 *
 * Events do not tell what is cached already; see kvmm_snapshot_begin(). The first consumer makes
 * the ring: 64 bytes an event, and 24 bytes a block; they stay until the pool is destroyed. Close
 * all consumers before that.
 *
 * Context: may wait for blocks that are being moved, and for a grace period; no kvmm lock held.
 * Return: 0; -EINVAL; -EOPNOTSUPP the pool caches nothing; -ENOMEM; -ECHILD; -EUCLEAN.
 */
KVMM_API int kvmm_events_open(struct kvmm_pool *pool, const struct kvmm_events_attr *attr,
			      struct kvmm_events **events);

/** kvmm_events_close() - end a consumer; takes NULL. No other thread uses it. May wait, as
 * opening. */
KVMM_API void kvmm_events_close(struct kvmm_events *events);

/**
 * kvmm_events_read() - the next events
 * @buf: room for @max
 * @nr_lost: out: events that are missing right before the first of these, or, if there are none, at
 *	the end. May count events that the consumer did not ask for
 *
 * A gap ends a batch, and the next one begins with it.
 *
 * Context: lock-free; one thread at a time for one consumer.
 * Return: how many; 0 nothing yet, or the batch is not due; -EINVAL; -ECHILD.
 */
KVMM_API int kvmm_events_read(struct kvmm_events *events, struct kvmm_event *buf, uint32_t max,
			      uint64_t *nr_lost);

/* ---- as text ---- */

/**
 * struct kvmm_events_stat - numbers of a consumer
 * @size: sizeof(struct kvmm_events_stat); set it before the call
 * @happened: events of the pool since its first consumer: the sequence number of the next to happen
 * @read: given to this one
 * @skipped: that this one did not want
 * @lost: reported lost to it
 * @bytes: host memory of ring and parents
 * @cursor: sequence number of the next event to be read
 */
struct kvmm_events_stat {
	size_t size;
	uint64_t happened;
	uint64_t read;
	uint64_t skipped;
	uint64_t lost;
	uint64_t bytes;
	uint64_t cursor;
};

/** kvmm_events_get_stat() - Context: the thread that reads. Return: 0; -EINVAL. */
KVMM_API int kvmm_events_get_stat(const struct kvmm_events *events, struct kvmm_events_stat *stat);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EVENT_H */
