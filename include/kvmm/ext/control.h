/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control socket: other processes can watch pools, and steer them.
 *
 *	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
 *
 *	attr.name  = "engine";
 *	attr.flags = KVMM_CONTROL_THREAD;
 *	err = kvmm_control_open(&attr, &control);	// engine.sock, in the user's own folder
 *	err = kvmm_control_add_pool(control, NULL, pool);
 *	...						// kvmm-stat, kvmm-top, kvmm-defrag, ...
 *	kvmm_control_remove_pool(control, pool);	// before the pool is destroyed
 *	kvmm_control_close(control);
 *
 * There is none unless the engine opens one. Either a thread of kvmm's serves it, or the engine's
 * own loop does, by kvmm_control_fd() and kvmm_control_poll(). Only processes of the same user, and
 * root, get in. struct kvmm_control_attr bounds what clients may cost. Protocol and commands:
 * Documentation/control.rst.
 */
#ifndef KVMM_EXT_CONTROL_H
#define KVMM_EXT_CONTROL_H

#include <errno.h>

#include <kvmm/event.h>
#include <kvmm/key.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_control;
struct kvmm_pool;

/** Longest request of a client, in bytes, its end of line included. */
#define KVMM_CONTROL_REQUEST_BYTES	4096u

/** Longest name of a socket, and of a pool at one. */
#define KVMM_CONTROL_NAME		64u

/** A thread of kvmm's serves the socket. Without it, callers of kvmm_control_poll() do. */
#define KVMM_CONTROL_THREAD		(1u << 0)

/** Commands that change something are refused. */
#define KVMM_CONTROL_READ_ONLY		(1u << 1)

/**
 * struct kvmm_control_attr - a control socket
 * @size: sizeof(struct kvmm_control_attr); set by KVMM_CONTROL_ATTR_INIT
 * @name: of the socket, to which ".sock" is added: letters, digits, '.', '_' and '-', at most
 *	KVMM_CONTROL_NAME - 1; NULL: "kvmm-" and the number of the process
 * @dir: folder that it is in, made if it is not there; NULL: KVMM_SOCKET_DIR of the environment,
 *	else kvmm in XDG_RUNTIME_DIR, else /run/kvmm; printable UTF-8
 * @flags: KVMM_CONTROL_*
 * @max_clients: at a time, 1 to 1024; more are told so, and closed
 * @max_rate: requests a second of each client, 1 to 1,000,000; a client that asks for more waits
 * @idle_ms: a client that says nothing, or not all of a request, for so long is closed
 * @output_ms: so is one that takes nothing of its answer for so long
 * @max_answer_bytes: longest answer; a longer one is an error
 * @reserved: 0
 */
struct kvmm_control_attr {
	size_t size;
	const char *name;
	const char *dir;
	uint32_t flags;
	uint32_t max_clients;
	uint32_t max_rate;
	uint32_t idle_ms;
	uint32_t output_ms;
	uint32_t max_answer_bytes;
	uint64_t reserved;
};

#define KVMM_CONTROL_ATTR_INIT { sizeof(struct kvmm_control_attr), NULL, NULL, 0, 64, 1000, 60000, \
				 5000, 4u << 20, 0 }

/**
 * kvmm_control_open() - make a control socket, and listen
 * @attr: borrowed during the call; NULL = KVMM_CONTROL_ATTR_INIT
 * @control: set on success only
 *
 * Replaces a socket of that name on which no process listens any more.
 *
 * Context: starts a thread if asked to.
 * Return: 0; -EINVAL; -EADDRINUSE a process listens there; -EPERM the folder is a link, not the
 * user's, or open to others; -ENOENT, -EACCES, -errno the folder cannot be made; -ENAMETOOLONG;
 * -ENOMEM; -EMFILE; -EAGAIN no thread to be had, or the folder stayed locked (flock) for a second.
 */
KVMM_API int kvmm_control_open(const struct kvmm_control_attr *attr, struct kvmm_control **control);

/**
 * kvmm_control_add_pool() - show a pool to clients from now on
 * @name: by which name: UTF-8, printable, no blanks; NULL: the pool's own
 *
 * Context: any thread; waits for a command that is being carried out.
 * Return: 0; -EEXIST that name, or that pool, is there; -EINVAL also a name that is none; -ENOMEM;
 * -ECHILD this is a forked child.
 */
KVMM_API int kvmm_control_add_pool(struct kvmm_control *control, const char *name,
				   struct kvmm_pool *pool);

/**
 * kvmm_control_remove_pool() - hide a pool; what clients have begun with it ends
 *
 * Cancels migrations that a client has begun, and waits for their copies. Call it also before the
 * pool's tier is detached.
 *
 * Context: as kvmm_control_add_pool().
 * Return: 0; -ENOENT; -EINVAL; -ECHILD.
 */
KVMM_API int kvmm_control_remove_pool(struct kvmm_control *control, struct kvmm_pool *pool);

/** kvmm_control_close() - take the socket away, with all clients; takes NULL. Waits for the thread.
 * If another engine has put its own there meanwhile, that stays. Does nothing in a forked child. */
KVMM_API void kvmm_control_close(struct kvmm_control *control);

/**
 * kvmm_control_poll() - accept new clients, and answer requests
 *
 * Never waits for a client. Of each client one request is answered at most.
 *
 * Context: one thread at a time; commands that steer do what the call of that name does.
 * Return: milliseconds after which to call it again at the latest, 0 to 1000; -EBUSY it has a
 * thread, or another thread is in it; -ECHILD; -EINVAL.
 */
KVMM_API int kvmm_control_poll(struct kvmm_control *control);

/**
 * struct kvmm_control_stat - counts since it was opened, but for the first; each of its own moment
 * @size: sizeof(struct kvmm_control_stat); set it before the call
 * @clients: there are now
 * @accepted: clients that were let in
 * @refused: that were not: too many, or another user
 * @dropped: that were closed: too slow, too long a line, silent for too long
 * @requests: answered
 * @errors: of these, with an error
 * @bytes: sent
 * @shut: descriptors or memory were short: clients had to wait for a moment
 * @path: where it listens; valid until the control is closed
 * @fd: a descriptor of the control's that can be read when there is a reason to poll; -EBUSY it has
 *	a thread
 */
struct kvmm_control_stat {
	size_t size;
	uint64_t clients;
	uint64_t accepted;
	uint64_t refused;
	uint64_t dropped;
	uint64_t requests;
	uint64_t errors;
	uint64_t bytes;
	uint64_t shut;
	const char *path;
	int32_t fd;
	uint32_t reserved;
};

/** kvmm_control_get_stat() - Context: any thread. Return: 0; -EINVAL. */
KVMM_API int kvmm_control_get_stat(const struct kvmm_control *control,
				   struct kvmm_control_stat *stat);

#define KVMM_CONTROL_STAT_INIT \
	{ sizeof(struct kvmm_control_stat), 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0 }

/** kvmm_control_path() - its @path alone; or NULL. */
static inline const char *kvmm_control_path(const struct kvmm_control *control)
{
	struct kvmm_control_stat stat = KVMM_CONTROL_STAT_INIT;

	return kvmm_control_get_stat(control, &stat) ? NULL : stat.path;
}

/** kvmm_control_fd() - its @fd alone; or -EINVAL. */
static inline int kvmm_control_fd(const struct kvmm_control *control)
{
	struct kvmm_control_stat stat = KVMM_CONTROL_STAT_INIT;
	int err = kvmm_control_get_stat(control, &stat);

	return err ? err : stat.fd;
}

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

/** enum kvmm_locality - where a medium is, seen from the publisher; NONE: not said */
enum kvmm_locality {
	KVMM_LOCALITY_NONE,
	KVMM_LOCALITY_LOCAL,
	KVMM_LOCALITY_REMOTE,
	KVMM_NR_LOCALITIES,
};

/** Most groups that &kvmm_wire.groups describes. */
#define KVMM_WIRE_MAX_GROUPS	16u

/**
 * struct kvmm_wire_group - what a KV group is
 * @kind: as "sliding_window", up to 64 bytes; NULL: not said
 * @sliding_window: its tokens; 0: not said
 * @reserved: 0
 */
struct kvmm_wire_group {
	const char *kind;
	uint32_t sliding_window;
	uint32_t reserved;
};

/**
 * struct kvmm_wire - how to encode
 * @size: sizeof(struct kvmm_wire); set by KVMM_WIRE_INIT
 * @format: enum kvmm_wire_format
 * @flags: KVMM_WIRE_*
 * @rank: data-parallel rank, or -1: nil
 * @spec_kind: what group 0 is, as "full_attention"; borrowed; NULL: not said
 * @groups: instead of @spec_kind: what groups 0 to @nr_groups - 1 are; borrowed
 * @nr_groups: up to KVMM_WIRE_MAX_GROUPS
 * @locality: enum kvmm_locality by enum kvmm_medium; KVMM_WIRE_MAP only, as @ownership
 * @ownership: by medium: which secondary tier it is, up to 64 bytes of printable UTF-8; borrowed;
 *	NULL: not said
 */
struct kvmm_wire {
	size_t size;
	uint32_t format;
	uint32_t flags;
	int32_t rank;
	uint32_t reserved;
	const char *spec_kind;
	const struct kvmm_wire_group *groups;
	uint32_t nr_groups;
	uint8_t locality[KVMM_NR_MEDIA];
	const char *ownership[KVMM_NR_MEDIA];
};

#define KVMM_WIRE_INIT { sizeof(struct kvmm_wire), KVMM_WIRE_MAP, 0, 0, 0, NULL, NULL, 0, { 0 }, \
			 { NULL } }

/** Bytes that are enough for a batch of @nr events. */
#define KVMM_WIRE_BYTES_FOR(nr)	(64 + (size_t)(nr) * 480)

/** The same for kvmm_wire_encode_blocks(): @tokens in each block. Texts come on top. */
#define KVMM_WIRE_BYTES_FOR_TOKENS(nr, tokens) \
	(KVMM_WIRE_BYTES_FOR(nr) + (size_t)(nr) * (tokens) * 5)

/**
 * struct kvmm_wire_block - what the engine knows of a stored block and the pool does not
 * @tokens: as many as the event's ->tokens says; NULL: not known
 * @lora_name, @session_id: UTF-8; NULL: none. SGLang's format has neither
 * @extra_keys: one MessagePack value, taken as it is; NULL: nil. Not in SGLang's format
 * @extra_bytes: of @extra_keys
 * @lora_id: 0: none, but for KVMM_WIRE_LORA
 */
struct kvmm_wire_block {
	const uint32_t *tokens;
	const char *lora_name;
	const char *session_id;
	const void *extra_keys;
	uint32_t extra_bytes;
	uint32_t lora_id;
};

/**
 * struct kvmm_wire_args - a batch
 * @size: sizeof(struct kvmm_wire_args)
 * @seconds: time stamp
 * @events: what has happened
 * @blocks: by event; NULL: nothing is known of any
 * @nr: length of both
 * @reserved: 0
 */
struct kvmm_wire_args {
	size_t size;
	double seconds;
	const struct kvmm_event *events;
	const struct kvmm_wire_block *blocks;
	uint32_t nr;
	uint32_t reserved;
};

/**
 * kvmm_wire_encode_blocks() - events as one batch
 * @wire: NULL = KVMM_WIRE_INIT
 * @buf: room for @bytes
 *
 * Consecutive blocks of a prompt become one event, unless tokens are known of only one of them, or
 * they differ in what an event has once: adapter and session.
 *
 * Return: bytes written; -EINVAL; -ENOSPC.
 */
KVMM_API int64_t kvmm_wire_encode_blocks(const struct kvmm_wire *wire,
					 const struct kvmm_wire_args *args, void *buf,
					 size_t bytes);

/** kvmm_wire_encode() - the same of blocks of which nothing is known. */
static inline int64_t kvmm_wire_encode(const struct kvmm_wire *wire, double seconds,
				       const struct kvmm_event *events, uint32_t nr, void *buf,
				       size_t bytes)
{
	struct kvmm_wire_args args = { sizeof(args), seconds, events, NULL, nr, 0 };

	return kvmm_wire_encode_blocks(wire, &args, buf, bytes);
}

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
 * @token_blocks: number of blocks, the last ones, of which kvmm_publisher_tell() is remembered; 0:
 *	none. A block takes 4 bytes a token, @note_bytes, and 40 more
 * @note_bytes: room a block for what is told besides tokens, up to KVMM_NOTE_MAX_BYTES; 0: none is
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
	uint32_t note_bytes;
};

/** Most bytes of @note_bytes. */
#define KVMM_NOTE_MAX_BYTES	1024u

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
 * struct kvmm_publisher_note - what an engine knows of blocks of one request
 * @size: sizeof(struct kvmm_publisher_note); set by KVMM_PUBLISHER_NOTE_INIT
 * @keys: names of the blocks; a key stands for the same tokens in all domains
 * @tokens: as many as the pool's blocks have, of each of @nr blocks; NULL: not told
 * @nr: length of @keys
 * @lora_id: of the adapter; 0: none, but for KVMM_WIRE_LORA
 * @lora_name, @session_id: printable UTF-8; NULL: none
 * @salt: likewise, if the first of the blocks begins a prompt. It is published, as vLLM does
 * @extras: what blocks depend on besides, as for kvmm_key_hash(): sorted, and counted from the
 *	first token of the call. Data of KVMM_KEY_EMBEDS and _OTHER are bytes, others are printable
 *	UTF-8
 * @nr_extras: length of @extras
 */
struct kvmm_publisher_note {
	size_t size;
	const kvmm_key_t *keys;
	const uint32_t *tokens;
	uint32_t nr;
	uint32_t lora_id;
	const char *lora_name;
	const char *session_id;
	const char *salt;
	const struct kvmm_key_extra *extras;
	size_t nr_extras;
};

#define KVMM_PUBLISHER_NOTE_INIT { sizeof(struct kvmm_publisher_note), NULL, NULL, 0, 0, NULL, \
				   NULL, NULL, NULL, 0 }

/**
 * kvmm_publisher_tell() - tell what stands in blocks that are about to be registered
 * @note: borrowed during the call
 *
 * Call it before the blocks are registered, or their events may go without. The publisher keeps
 * what it is told of the last @token_blocks blocks, for events of all media and snapshots. If it
 * falls behind by more, events go without. A block that is told again has what was told last.
 *
 * Context: any thread; takes a lock that no thread holds for longer than the copy of a block.
 * Return: 0; -EINVAL; -ENOSPC of one of the blocks there is more than @note_bytes, and of none
 * anything is kept; -EOPNOTSUPP the publisher keeps none; -ECHILD this is a forked child.
 */
KVMM_API int kvmm_publisher_tell(struct kvmm_publisher *publisher,
				 const struct kvmm_publisher_note *note);

/** kvmm_publisher_tokens() - kvmm_publisher_tell() of tokens alone. */
static inline int kvmm_publisher_tokens(struct kvmm_publisher *publisher, const kvmm_key_t *keys,
					uint32_t nr, const uint32_t *tokens)
{
	struct kvmm_publisher_note note = KVMM_PUBLISHER_NOTE_INIT;

	note.keys = keys;
	note.nr = nr;
	note.tokens = tokens;
	return nr && !tokens ? -EINVAL : kvmm_publisher_tell(publisher, &note);
}

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

/* ---- events as text, of requests, and from the start ---- */

/** kvmm_events_seek() - read on from @seq, which has happened, or is the next one to. What is no
 * longer in the ring is reported lost. Return: 0; -EINVAL. */
KVMM_API int kvmm_events_seek(struct kvmm_events *events, uint64_t seq);

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
 * kvmm_snapshot_read() - names that the consumer would be told of, as KVMM_EVENT_STORED
 * @buf: room for @max; NULL: a new snapshot begins
 *
 * The walk takes no lock of the pool, and other calls go on beside it. Its names are of no single
 * moment. But with the events from @snap->watermark up to &kvmm_events_stat.happened as of its end
 * applied, they are exactly what was cached as of the last of these. A consumer that has lost
 * events begins a snapshot, forgets what it knew, reads it to its end, and goes on from the
 * watermark by kvmm_events_seek(). It may read events in between.
 *
 * Context: the thread that reads. Return: how many; 0 that was all; -EINVAL; -ECHILD.
 */
KVMM_API int kvmm_snapshot_read(struct kvmm_events *events, struct kvmm_snapshot *snap,
				struct kvmm_event *buf, uint32_t max);

/** kvmm_snapshot_begin() - kvmm_snapshot_read() without a buffer. */
static inline int kvmm_snapshot_begin(struct kvmm_events *events, struct kvmm_snapshot *snap)
{
	return kvmm_snapshot_read(events, snap, NULL, 0);
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_CONTROL_H */
