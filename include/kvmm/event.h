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
 *
 * What is in them kvmm_event_get_request() tells.
 */
enum kvmm_request_kind {
	KVMM_EVENT_REQUEST = 8,
	KVMM_EVENT_REQUEST_KEYS,
	KVMM_EVENT_REQUEST_END,
	KVMM_EVENT_LOOKUP,
	KVMM_EVENT_LOOKUP_KEYS,
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

/**
 * struct kvmm_events_attr - what a consumer wants
 * @size: sizeof(struct kvmm_events_attr); set by KVMM_EVENTS_ATTR_INIT
 * @ring: events that the ring holds, a power of two from 16 to 2^24; counts for the first consumer
 *	that a pool ever has
 * @flags: KVMM_EVENTS_*
 * @kinds: mask of 1 << enum kvmm_event_kind; may be 0 with KVMM_EVENTS_REQUESTS or _LOOKUPS
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

/** kvmm_events_flush() - events that are there are due: reads up to here wait for no window.
 * Later events do, and nothing stays armed when there are none. Context: the thread that reads. */
KVMM_API void kvmm_events_flush(struct kvmm_events *events);

/** kvmm_events_seek() - read on from @seq, which has happened, or is the next one to. What is no
 * longer in the ring is reported lost. Return: 0; -EINVAL. */
KVMM_API int kvmm_events_seek(struct kvmm_events *events, uint64_t seq);

/* ---- requests ---- */

/** @time_us of a note: that of the library's clock. */
#define KVMM_NOTE_NOW		UINT64_MAX

/**
 * struct kvmm_request_note - what an engine knows of a request and the pool does not
 * @size: sizeof(struct kvmm_request_note)
 * @request: its number; no other one has it at the same time
 * @time_us: when it came, or ended, by the engine's clock; or KVMM_NOTE_NOW
 * @keys, @nr_keys: of the full blocks of its prompt; not of an end
 * @domain: theirs
 * @input: tokens of the prompt
 * @output: tokens of the answer; of a beginning: the most it may have, or 0
 * @hits: blocks of the prompt that need not be computed; of an end
 * @is_end: it is over
 */
struct kvmm_request_note {
	size_t size;
	uint64_t request;
	uint64_t time_us;
	const kvmm_key_t *keys;
	uint32_t nr_keys;
	uint32_t input;
	uint32_t output;
	uint32_t hits;
	kvmm_domain_t domain;
	uint32_t is_end;
	uint32_t reserved;
};

/**
 * kvmm_note_request() - a request has come, or is over: an event for traces
 *
 * Nothing else depends on it. Costs two branches while no consumer asks; else one event, and one
 * for each two keys.
 *
 * Context: lock-free; any thread.
 * Return: 0; -EINVAL; -ECHILD.
 */
KVMM_API int kvmm_note_request(struct kvmm_pool *pool, const struct kvmm_request_note *note);

/**
 * struct kvmm_event_request - what an event says of a request or a lookup
 * @size: sizeof(struct kvmm_event_request); set it before the call
 * @request: number of the request; lookups have numbers of their own
 * @time_us: as noted; lookups: the library's clock
 * @domain: of the keys; not of an end
 * @input, @output: tokens, as noted
 * @nr_keys: of the request; of KEYS: in this event, 1 or 2
 * @first: KEYS: number of the first of these among all
 * @hits: END, LOOKUP: blocks
 * @blocks: LOOKUP: that were asked for, by kvmm_acquire(); else 0
 * @key: KEYS: the keys
 */
struct kvmm_event_request {
	size_t size;
	uint64_t request;
	uint64_t time_us;
	kvmm_domain_t domain;
	uint32_t input;
	uint32_t output;
	uint32_t nr_keys;
	uint32_t first;
	uint32_t hits;
	uint32_t blocks;
	uint32_t reserved;
	kvmm_key_t key[2];
};

/** kvmm_event_get_request() - read a request event. Return: 0; -EINVAL it is none. */
KVMM_API int kvmm_event_get_request(const struct kvmm_event *event,
				    struct kvmm_event_request *request);

/* ---- as text ---- */

/** The columns of kvmm_event_text(), as the first line of a table. */
#define KVMM_EVENT_COLUMNS \
	"#seq\tkind\tmedium\tkey:s\tparent:s\ttenant\tlayout\tgroup\tposition\ttokens\tblock\t" \
	"request\ttime_us\tinput\toutput\tkeys\thits\tblocks"

/** Bytes that any line has room in. */
#define KVMM_EVENT_TEXT_BYTES	352

/**
 * kvmm_event_text() - an event as a line, without its end
 * @buf: room for @bytes; ends with a NUL
 *
 * What a kind does not have is "-". @parent of the kinds with keys is their second key.
 *
 * Return: characters written; -EINVAL a kind or medium that is none; -ENOSPC.
 */
KVMM_API int kvmm_event_text(const struct kvmm_event *event, char *buf, size_t bytes);

/** kvmm_event_parse() - read such a line of @bytes. Return: 0; -EINVAL; -EBADMSG it is none. */
KVMM_API int kvmm_event_parse(const char *text, size_t bytes, struct kvmm_event *event);

/**
 * struct kvmm_snapshot - a walk over all that is cached; the caller's memory
 * @watermark: apply the events from this sequence number on to what the walk has given
 * @medium, @at, @cursor: how far it has come
 *
 * Fixed: that is all of a walk.
 */
struct kvmm_snapshot {
	uint64_t watermark;
	uint32_t medium;
	uint32_t at;
	uint64_t cursor;
};

/**
 * kvmm_snapshot_begin() - start a snapshot of all names that the consumer would be told of
 *
 * The walk takes no lock of the pool, and other calls go on beside it. Its names are of no single
 * moment. But with the events from @snap->watermark up to &kvmm_events_stat.happened as of its end
 * applied, they are exactly what was cached as of the last of these. A consumer that has lost
 * events begins a snapshot, forgets what it knew, reads it to its end, and goes on from the
 * watermark by kvmm_events_seek(). It may read events in between.
 *
 * Context: the thread that reads. Return: 0; -EINVAL; -ECHILD.
 */
KVMM_API int kvmm_snapshot_begin(struct kvmm_events *events, struct kvmm_snapshot *snap);

/** kvmm_snapshot_read() - the next names, as KVMM_EVENT_STORED. Context: as above. Return: how
 * many; 0 that was all; -EINVAL; -ECHILD. */
KVMM_API int kvmm_snapshot_read(struct kvmm_events *events, struct kvmm_snapshot *snap,
				struct kvmm_event *buf, uint32_t max);

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
