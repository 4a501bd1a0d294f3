/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Migration: content goes from one pool to another; at least one has it at any time.
 *
 * Between pools of one process, on the same device or on different ones:
 *
 *	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
 *
 *	attr.src   = pool0;
 *	attr.dst   = pool1;
 *	attr.what  = KVMM_MIGRATE_RANGE;
 *	attr.range = range;
 *	err = kvmm_migrate_start(&attr, &job);
 *	while ((err = kvmm_migrate_poll(job)) == -EINPROGRESS)
 *		...					// steps of the engine go on
 *	if (!err)
 *		kvmm_migrate_ranges(job, &range, 1);	// of pool1
 *	kvmm_migrate_free(job);
 *
 * Between two processes of one machine the one serves its pool, and the other one says where, by
 * &kvmm_migrate_attr.target in the place of @dst; see the second half of this file.
 *
 *	PREPARE  the source is pinned, the destination reserved: all of it or nothing
 *	WAIT     what the engine's streams have been given before is through
 *	COPY     in extents, a bounded number of bytes on their way at a time
 *	VERIFY   checksums of both sides, block by block
 *	COMMIT   the destination gets its names, and is found from here on
 *	GRACE    steps that may read the source end; then it is given back
 *	DONE     ... or FAILED, CANCELLED: the destination is free again, the source is as it was
 *
 * A job copies registered blocks and sealed parts of ranges while steps of either pool are open. It
 * copies the rest of a range when the steps that were open at the start have ended; later steps
 * must not write there, since the sequence is on its way; or they may, until kvmm_migrate_finish(),
 * with KVMM_MIGRATE_PRECOPY. Relocations that are not read hold no job up.
 *
 * A job belongs to one thread at a time. It has no callbacks and no thread of its own: only polls
 * carry it on. Pools outlive their jobs and servers. In a forked child, -ECHILD.
 */
#ifndef KVMM_EXT_MIGRATE_H
#define KVMM_EXT_MIGRATE_H

#include <errno.h>

#include <kvmm/pool.h>
#include <kvmm/step.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_migrate;
struct kvmm_migrate_server;
struct kvmm_migrate_auto;

/** Most blocks of one migration. */
#define KVMM_MIGRATE_MAX_BLOCKS		(1u << 16)

/** Most ranges of one migration. */
#define KVMM_MIGRATE_MAX_RANGES		64u

/**
 * enum kvmm_migrate_what - what goes
 * @KVMM_MIGRATE_RANGE: one range, without references or pins of others
 * @KVMM_MIGRATE_SEQ: all ranges of a sequence, likewise
 * @KVMM_MIGRATE_REFS: registered blocks that the caller has references on, and keeps them
 * @KVMM_MIGRATE_KEYS: registered blocks by name: those of a prefix that are cached, at least one
 */
enum kvmm_migrate_what {
	KVMM_MIGRATE_RANGE,
	KVMM_MIGRATE_SEQ,
	KVMM_MIGRATE_REFS,
	KVMM_MIGRATE_KEYS,
	KVMM_NR_MIGRATE_WHATS,
};

/** The source stays as it is: a copy. */
#define KVMM_MIGRATE_COPY		(1u << 0)
/** Copies take little of the devices' bandwidth. */
#define KVMM_MIGRATE_BACKGROUND		(1u << 1)
/** Nothing is evicted at the destination. */
#define KVMM_MIGRATE_NO_EVICT		(1u << 2)
/** Cached blocks that came into use meanwhile stay at the source as well. */
#define KVMM_MIGRATE_IDLE_ONLY		(1u << 3)
/** Its link stays until it is freed, for &kvmm_migrate_attr.after: free it before its source. */
#define KVMM_MIGRATE_KEEP_LINK		(1u << 4)
/**
 * The sequence goes on meanwhile: its ranges are written, sealed (kvmm_range_seal()) and grow, and
 * what is sealed is copied, in turns, until kvmm_migrate_finish(). Not for cached blocks, which are
 * sealed anyway. At the destination, too, ranges that grow may have more than @max_runs extents.
 * Shrinking is refused meanwhile (-EBUSY). A sequence that gets another range fails (-ESTALE).
 */
#define KVMM_MIGRATE_PRECOPY		(1u << 5)
/**
 * @target is several, at most 8, with ',' between them: all are asked, and of those that answer
 * within a second it goes to one with enough free blocks, rather of @label, rather with more of
 * them. Not with &kvmm_migrate_attr.after.
 */
#define KVMM_MIGRATE_ANY		(1u << 6)

/**
 * struct kvmm_migrate_attr - one migration; all that it points to is borrowed during the call
 * @size: sizeof(struct kvmm_migrate_attr); set by KVMM_MIGRATE_ATTR_INIT
 * @src: where from
 * @dst: where to, another pool; or NULL and @target
 * @target: path of the socket at which a process serves the other pool; or "ucx://host:port" of
 *	another machine, in numbers: "ucx://10.0.0.2:9500", "ucx://[fd00::2]:9500"; or "nixl://..."
 * @what: enum kvmm_migrate_what
 * @flags: KVMM_MIGRATE_*
 * @range: KVMM_MIGRATE_RANGE
 * @seq: KVMM_MIGRATE_SEQ; of ranges of both kinds it is kept
 * @refs: KVMM_MIGRATE_REFS
 * @nr_refs: length of @refs
 * @max_runs: most extents of a range at the destination, 1 to KVMM_MAX_RUNS; 0 = KVMM_MAX_RUNS
 * @prefix: KVMM_MIGRATE_KEYS
 * @chunk_bytes: on their way at a time, at most twice that; 0 = 16 MiB; at least one block
 * @key_file: NULL; of another machine: see &kvmm_migrate_serve_attr.key_file
 * @after: NULL; or a job of KVMM_MIGRATE_KEEP_LINK from @src to the same @target with the same
 *	@key_file: this one takes over its link if it is committed. Where there is none, or it is
 *	broken by now, a link is made as without
 * @label: NULL; or with KVMM_MIGRATE_ANY, where this is: &kvmm_migrate_serve_attr.label
 */
struct kvmm_migrate_attr {
	size_t size;
	struct kvmm_pool *src;
	struct kvmm_pool *dst;
	const char *target;
	uint32_t what;
	uint32_t flags;
	kvmm_range_t range;
	uint64_t seq;
	const kvmm_ref_t *refs;
	uint32_t nr_refs;
	uint32_t max_runs;
	const struct kvmm_prefix *prefix;
	uint64_t chunk_bytes;
	const char *key_file;
	struct kvmm_migrate *after;
	const char *label;
};

#define KVMM_MIGRATE_ATTR_INIT { sizeof(struct kvmm_migrate_attr), NULL, NULL, NULL, 0, 0, \
				 { 0, 0 }, 0, NULL, 0, 0, NULL, 0, NULL, NULL, NULL }

/**
 * kvmm_migrate_start() - begin a job: takes a reference and a pin on the source
 * @job: set on success only
 *
 * Return: 0; -EINVAL; -EMEDIUMTYPE blocks of the two pools are not made alike: number or lengths of
 * planes, or tokens a block; -EBUSY a range that others hold, or pin; -ENOENT nothing of that name;
 * -ESTALE; -EIO a range without content; -ENOMEM; -EOPNOTSUPP cached blocks, and one of the pools
 * has no policy, or a target for a pool of ids only; -E2BIG more blocks or ranges than a migration
 * may have; of @target: -ENOENT, -ECONNREFUSED no process serves there, -EPERM another user does,
 * or others may write the folder or read the key, -EAGAIN try again, -errno; -EOPNOTSUPP another
 * machine, and UCX, NIXL or OpenSSL is not there (kvmm_why()); -ECHILD, -EUCLEAN.
 *
 * Never waits: only polls find out whether a target's pool is made alike.
 */
KVMM_API int kvmm_migrate_start(const struct kvmm_migrate_attr *attr, struct kvmm_migrate **job);

/**
 * kvmm_migrate_wait() - carry a job on until it ends, or @timeout_ns have passed
 * @timeout_ns: 0: does what can be done now
 *
 * Waits besides for the device's answer about the checksums of at most 16 MiB. A failed migration
 * inside one process does not end while the device cannot tell whether it still copies: only then
 * it gives the places at the destination back.
 *
 * Return: -EINPROGRESS; 0 done; -ECANCELED; else why it has failed: -ENOSPC, -EDQUOT no room at the
 * destination, where nothing was evicted (nor is it for blocks of tenants that take turns more than
 * 63 times), but for what ranges grew by since they have had room there; -EIO a copy failed, or a
 * device is lost; -EBADMSG checksums differ; -EBUSY others have come to hold the range (it is there
 * twice then: the destination's is good); -ECONNRESET the link is broken; -EACCES the other machine
 * has another key; -EPROTO the other side does not keep to the protocol; -ESTALE the sequence has
 * another range by now (KVMM_MIGRATE_PRECOPY); -ETIMEDOUT none of several takers answers; -ENOMEM;
 * -EUCLEAN, -ECHILD.
 */
KVMM_API int kvmm_migrate_wait(struct kvmm_migrate *job, uint64_t timeout_ns);

/** kvmm_migrate_poll() - kvmm_migrate_wait() without waiting. */
static inline int kvmm_migrate_poll(struct kvmm_migrate *job)
{
	return kvmm_migrate_wait(job, 0);
}

/** enum kvmm_migrate_order - see the inline calls */
enum kvmm_migrate_order {
	KVMM_MIGRATE_ORDER_CANCEL,
	KVMM_MIGRATE_ORDER_RESUME,
	KVMM_MIGRATE_ORDER_FINISH,
};

/** kvmm_migrate_steer() - what the three calls below are made of, and return */
KVMM_API int kvmm_migrate_steer(struct kvmm_migrate *job, enum kvmm_migrate_order order);

/**
 * kvmm_migrate_cancel() - cancel a job before COMMIT; it ends when its copies have
 *
 * Return: 0 (poll says -ECANCELED in the end); -EALREADY it is committed, or has ended;
 * -EINPROGRESS the other process has been told to commit, and has not answered; -EINVAL.
 */
static inline int kvmm_migrate_cancel(struct kvmm_migrate *job)
{
	return kvmm_migrate_steer(job, KVMM_MIGRATE_ORDER_CANCEL);
}

/**
 * kvmm_migrate_resume() - start a failed job anew, with what is still there
 *
 * Connects to its target again if the link broke. Copies only what the other side has not got yet;
 * with KVMM_MIGRATE_PRECOPY all, and until kvmm_migrate_finish() is called again, which the caller
 * need not if the job was in doubt.
 *
 * Return: 0; -ESTALE the source is gone; -EINVAL it has not failed; as kvmm_migrate_start() (and it
 * may be tried again).
 */
static inline int kvmm_migrate_resume(struct kvmm_migrate *job)
{
	return kvmm_migrate_steer(job, KVMM_MIGRATE_ORDER_RESUME);
}

/**
 * kvmm_migrate_finish() - the sequence of a job of KVMM_MIGRATE_PRECOPY is written no more
 *
 * The engine has taken it out of its batch. The rest goes when the steps that are open have ended.
 * If the job fails, or is cancelled, the sequence may be written again, unless it is in doubt.
 *
 * Return: 0, also if it was called before; -EALREADY the job has ended; -EINVAL.
 */
static inline int kvmm_migrate_finish(struct kvmm_migrate *job)
{
	return kvmm_migrate_steer(job, KVMM_MIGRATE_ORDER_FINISH);
}

/**
 * kvmm_migrate_free() - free a job, or NULL, in any phase
 *
 * Cancels what is not committed, and waits for running copies. In phase GRACE it gives the source
 * back at once: then no step that reads it may be open. If the other process was told to commit and
 * has not answered, the source stays. Drops references not taken; ranges stay in their pool.
 */
KVMM_API void kvmm_migrate_free(struct kvmm_migrate *job);

enum kvmm_migrate_phase {
	KVMM_MIGRATE_PREPARE,
	KVMM_MIGRATE_WAIT,
	KVMM_MIGRATE_COPYING,
	KVMM_MIGRATE_VERIFY,
	KVMM_MIGRATE_COMMIT,
	KVMM_MIGRATE_GRACE,
	KVMM_MIGRATE_DONE,
	KVMM_MIGRATE_CANCELLING,
	KVMM_MIGRATE_CANCELLED,
	KVMM_MIGRATE_FAILED,
	KVMM_NR_MIGRATE_PHASES,
};

/** kvmm_migrate_phase_name() - "prepare" and so on; "?" if there is no such phase. */
static inline const char *kvmm_migrate_phase_name(uint32_t phase)
{
	return kvmm_enum_name(KVMM_NAME_MIGRATE_PHASE, phase);
}

/** How content goes: in one copy, or in two, by host memory or by memory of the other process. */
enum kvmm_migrate_path {
	KVMM_MIGRATE_PATH_NONE,		/* not known yet, or there is no content */
	KVMM_MIGRATE_PATH_LOCAL,	/* inside a device */
	KVMM_MIGRATE_PATH_PEER,		/* from device to device */
	KVMM_MIGRATE_PATH_HOST,		/* one of them is the host */
	KVMM_MIGRATE_PATH_STAGED,	/* by pinned host memory */
	KVMM_MIGRATE_PATH_SHARED,	/* by host memory that both processes have */
	KVMM_MIGRATE_PATH_DEVICE,	/* by device memory that both processes have */
	KVMM_MIGRATE_PATH_REMOTE,	/* by host memory of both machines, and what is between */
	KVMM_NR_MIGRATE_PATHS,
};

/** kvmm_migrate_path_name() - "none", "local" and so on; "?" if there is no such path. */
static inline const char *kvmm_migrate_path_name(uint32_t path)
{
	return kvmm_enum_name(KVMM_NAME_MIGRATE_PATH, path);
}

/**
 * struct kvmm_migrate_status - a job, as of now
 * @phase: enum kvmm_migrate_phase
 * @error: why it failed, negative; else 0
 * @path: enum kvmm_migrate_path
 * @attempts: how often it was started: resumed, or for want of a block that was being moved
 * @nr_blocks: of the source; with KVMM_MIGRATE_PRECOPY those of it that go so far
 * @nr_present: of these, blocks that were at the destination already, under their names
 * @nr_copied: blocks that were copied
 * @nr_verified: blocks with equal checksums at both ends
 * @nr_src_runs, @nr_dst_runs: runs that the copied blocks lie in
 * @nr_descriptors: runs that copies were given to the device in
 * @in_doubt: not 0: the other process was told to commit, and has not answered
 * @bytes: that were copied, counted once
 * @phase_ns: time spent in each phase
 * @fd: can be read when there is a reason to poll the job, besides copies of its own; -1: none, as
 *	while a link to another machine is made: poll it
 * @nr_stop: of @nr_blocks, those that were left at kvmm_migrate_finish(); without PRECOPY, all
 * @stop_ns: from kvmm_migrate_finish(), or without PRECOPY from the start, to the commit, or till
 *	now: for so long the sequence stood still. 0: it does not
 */
struct kvmm_migrate_status {
	uint32_t phase;
	int32_t error;
	uint32_t path;
	uint32_t attempts;
	uint32_t nr_blocks;
	uint32_t nr_present;
	uint32_t nr_copied;
	uint32_t nr_verified;
	uint32_t nr_src_runs;
	uint32_t nr_dst_runs;
	uint32_t nr_descriptors;
	uint32_t in_doubt;
	uint64_t bytes;
	uint64_t phase_ns[KVMM_NR_MIGRATE_PHASES];
	int32_t fd;
	uint32_t nr_stop;
	uint64_t stop_ns;
};

KVMM_API int kvmm_migrate_get_status_sized(const struct kvmm_migrate *job,
					   struct kvmm_migrate_status *status, size_t size);

/** kvmm_migrate_get_status() - Return: 0; -EINVAL. */
static inline int kvmm_migrate_get_status(const struct kvmm_migrate *job,
					  struct kvmm_migrate_status *status)
{
	return kvmm_migrate_get_status_sized(job, status, sizeof(*status));
}

/** enum kvmm_migrate_got - kinds of results at the destination: see the inline calls */
enum kvmm_migrate_got {
	KVMM_MIGRATE_GOT_RANGES,	/* kvmm_range_t */
	KVMM_MIGRATE_GOT_REFS,		/* kvmm_ref_t */
	KVMM_MIGRATE_GOT_MOVES,		/* struct kvmm_relocation */
	KVMM_MIGRATE_GOT_TARGET,	/* char: the one that was chosen; how many, without the 0 */
};

/**
 * kvmm_migrate_result() - read the result of a job
 * @what: enum kvmm_migrate_got
 * @out: room for @max of that type, in the order of the source's
 *
 * Return: how many there are; -EINVAL; -EAGAIN it is not committed; -EREMOTE the other process has
 * them; -EALREADY references that were taken.
 */
KVMM_API int kvmm_migrate_result(struct kvmm_migrate *job, enum kvmm_migrate_got what, void *out,
				 uint32_t max);

/** kvmm_migrate_ranges() - the ranges of the destination, which are the caller's. */
static inline int kvmm_migrate_ranges(struct kvmm_migrate *job, kvmm_range_t *ranges, uint32_t max)
{
	return kvmm_migrate_result(job, KVMM_MIGRATE_GOT_RANGES, ranges, max);
}

/** kvmm_migrate_refs() - references on the cached blocks there; the caller's from then on.
 * @refs: room for all, or NULL: how many are there? */
static inline int kvmm_migrate_refs(struct kvmm_migrate *job, kvmm_ref_t *refs, uint32_t max)
{
	return kvmm_migrate_result(job, KVMM_MIGRATE_GOT_REFS, refs, max);
}

/** kvmm_migrate_relocations() - which block of the source is which of the destination. */
static inline int kvmm_migrate_relocations(struct kvmm_migrate *job, struct kvmm_relocation *moves,
					   uint32_t max)
{
	return kvmm_migrate_result(job, KVMM_MIGRATE_GOT_MOVES, moves, max);
}

/* ---- between two processes ---- */

/** Host memory is used even where the device's could be. */
#define KVMM_MIGRATE_SERVE_SHARED	(1u << 0)

/**
 * struct kvmm_migrate_serve_attr - a pool that takes what others give
 * @size: sizeof(struct kvmm_migrate_serve_attr); set by KVMM_MIGRATE_SERVE_INIT
 * @pool: the destination
 * @path: of the socket, in a folder of the user's alone; or "ucx://host:port", "nixl://host:port",
 *	in numbers: an address of this machine that givers of others come to by the same transport,
 *	port 0: any that is free. Printable UTF-8; copied
 * @window_bytes: memory for what is on its way, for each link; 0 = 8 MiB
 * @lease_ns: how long blocks stay reserved for a link that broke; 0 = 10 s
 * @max_links: at a time, 1 to 64; 0 = 8
 * @flags: KVMM_MIGRATE_SERVE_*
 * @key_file: NULL; of other machines: the path of a file with 64 hexadecimal digits, which is the
 *	user's alone (mode 0600), and the same at both ends. It is all that a giver is asked for
 * @label: NULL; or any word for what is near: of the machine, its rack, or the node of its memory
 */
struct kvmm_migrate_serve_attr {
	size_t size;
	struct kvmm_pool *pool;
	const char *path;
	uint64_t window_bytes;
	uint64_t lease_ns;
	uint32_t max_links;
	uint32_t flags;
	const char *key_file;
	const char *label;
};

#define KVMM_MIGRATE_SERVE_INIT { sizeof(struct kvmm_migrate_serve_attr), NULL, NULL, 0, 0, 0, 0, \
				  NULL, NULL }

/**
 * kvmm_migrate_serve() - serve a pool on a socket
 *
 * Only processes of the same user get in; or, of other machines, those that have the key. They
 * prove it within 10 s, by TLS 1.3. What UCX listens on is its own matter: see
 * Documentation/migrate.rst.
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP a pool of ids only, or other machines, and UCX, NIXL or OpenSSL
 * is not there (kvmm_why()); -EPERM others may write to that folder, or read the key; -EADDRINUSE
 * a process serves there; -ENAMETOOLONG; -ENOMEM; -errno.
 */
KVMM_API int kvmm_migrate_serve(const struct kvmm_migrate_serve_attr *attr,
				struct kvmm_migrate_server **server);

/** kvmm_migrate_serve_end() - stop serving; takes NULL. Gives up what is not committed; waits for
 * running copies. */
KVMM_API void kvmm_migrate_serve_end(struct kvmm_migrate_server *server);

/**
 * struct kvmm_migrate_arrival - something that has come, and is committed
 * @id: of the migration, unlike all others
 * @seq: of the range; 0
 * @range: a range, which is the caller's; all 0: cached blocks, which are found by their names
 * @nr_blocks: blocks; 0: nothing has come
 * @reserved: 0
 */
struct kvmm_migrate_arrival {
	uint64_t id[2];
	uint64_t seq;
	kvmm_range_t range;
	uint32_t nr_blocks;
	uint32_t reserved;
};

KVMM_API int kvmm_migrate_serve_tick_sized(struct kvmm_migrate_server *server,
					   struct kvmm_migrate_arrival *arrival, size_t size);

/**
 * kvmm_migrate_serve_tick() - do what is to be done; waits for nothing but checksums, as
 * kvmm_migrate_wait()
 *
 * By one thread at a time.
 *
 * Return: migrations that are under way, those of broken links included, and links that other
 * machines are making: not 0, tick again soon; -EINVAL; -ECHILD.
 */
static inline int kvmm_migrate_serve_tick(struct kvmm_migrate_server *server)
{
	return kvmm_migrate_serve_tick_sized(server, NULL, 0);
}

/** kvmm_migrate_arrived() - a tick, and the next arrival, oldest first. Beyond 256 that no call
 * fetched the oldest are forgotten; kvmm_range_find_seq() finds those as well. Return: 0; -ENOENT;
 * -EINVAL; -ECHILD. */
static inline int kvmm_migrate_arrived(struct kvmm_migrate_server *server,
				       struct kvmm_migrate_arrival *arrival)
{
	int ret = arrival ? kvmm_migrate_serve_tick_sized(server, arrival, sizeof(*arrival)) :
			    -EINVAL;

	return ret < 0 ? ret : arrival->nr_blocks ? 0 : -ENOENT;
}

/**
 * struct kvmm_migrate_serve_stat - counts since it began, but for the first two
 * @nr_links: links
 * @nr_waiting: migrations that may be resumed, since their link broke
 * @offers, @commits: migrations that were offered, and committed
 * @resumed: that went on from where their link had broken
 * @repeated: that were offered again after they had been committed
 * @failed: that were given up, for any reason
 * @refused: links of other users, and such that did not keep to the protocol
 * @bytes: that were copied
 * @shut: givers could not be let in for want of descriptors or memory: the server looks again 50 ms
 *	later, and @fd is quiet until then
 * @fd: can be read when there is a reason to tick, besides copies under way: not while a giver
 *	waits for one of max_links to end
 * @port: where givers of other machines come; 0: it is a path
 */
struct kvmm_migrate_serve_stat {
	uint32_t nr_links;
	uint32_t nr_waiting;
	uint64_t offers;
	uint64_t commits;
	uint64_t resumed;
	uint64_t repeated;
	uint64_t failed;
	uint64_t refused;
	uint64_t bytes;
	uint64_t shut;
	int32_t fd;
	uint32_t port;
};

KVMM_API int kvmm_migrate_serve_get_stat_sized(const struct kvmm_migrate_server *server,
					       struct kvmm_migrate_serve_stat *stat, size_t size);

/** kvmm_migrate_serve_get_stat() - Return: 0; -EINVAL. */
static inline int kvmm_migrate_serve_get_stat(const struct kvmm_migrate_server *server,
					      struct kvmm_migrate_serve_stat *stat)
{
	return kvmm_migrate_serve_get_stat_sized(server, stat, sizeof(*stat));
}

/** kvmm_migrate_serve_fd() - @fd of these. Return: a descriptor of the server's; -EINVAL. */
static inline int kvmm_migrate_serve_fd(const struct kvmm_migrate_server *server)
{
	struct kvmm_migrate_serve_stat stat;
	int err = kvmm_migrate_serve_get_stat(server, &stat);

	return err ? err : stat.fd;
}

/* ---- low memory ---- */

/**
 * struct kvmm_migrate_auto_attr - when content leaves a pool by itself
 * @size: sizeof(struct kvmm_migrate_auto_attr); set by KVMM_MIGRATE_AUTO_INIT
 * @src: where from
 * @dst: where to, another pool of this process; or NULL and @target
 * @low: begin when fewer blocks are free
 * @high: stop when so many are; more than @low
 * @max_blocks: most blocks of one portion, 1 to KVMM_MIGRATE_MAX_BLOCKS
 * @interval_ms: how often free blocks are counted while enough are free
 * @flags: KVMM_MIGRATE_BACKGROUND, KVMM_MIGRATE_NO_EVICT; KVMM_MIGRATE_ANY: each portion goes to
 *	the taker that has most room then; its engine is told by kvmm_migrate_arrived()
 * @reserved: 0
 * @target, @key_file: as of struct kvmm_migrate_attr; copied. One link serves all migrations, but
 *	for those of KVMM_MIGRATE_ANY
 */
struct kvmm_migrate_auto_attr {
	size_t size;
	struct kvmm_pool *src;
	struct kvmm_pool *dst;
	uint32_t low;
	uint32_t high;
	uint32_t max_blocks;
	uint32_t interval_ms;
	uint32_t flags;
	uint32_t reserved;
	const char *target;
	const char *key_file;
};

#define KVMM_MIGRATE_AUTO_INIT { sizeof(struct kvmm_migrate_auto_attr), NULL, NULL, 0, 0, 256, \
				 100, KVMM_MIGRATE_NO_EVICT, 0, NULL, NULL }

/**
 * kvmm_migrate_auto_start() - watch a pool, and migrate content when few blocks are free
 *
 * First go unused cached blocks, in the order in which they would be evicted; then the sequences
 * that kvmm_migrate_auto_idle() was told of, the one first that was idle first. Ticks do the work.
 *
 * Nothing goes while no process serves at @target, or its pool is full.
 *
 * Return: 0; -EINVAL; -EMEDIUMTYPE; -EOPNOTSUPP a pool has no policy, or no such transport is here;
 * -ENOMEM.
 */
KVMM_API int kvmm_migrate_auto_start(const struct kvmm_migrate_auto_attr *attr,
				     struct kvmm_migrate_auto **watch);

/** kvmm_migrate_auto_stop() - stop watching, before @src is destroyed; takes NULL. Cancels what is
 * on its way, as kvmm_migrate_free(). */
KVMM_API void kvmm_migrate_auto_stop(struct kvmm_migrate_auto *watch);

/**
 * struct kvmm_migrate_auto_stat - what it has done
 * @is_active: between the marks, on the way up
 * @nr_idle: sequences that are idle here
 * @blocks, @seqs: blocks and sequences that have gone
 * @starts, @failed: migrations
 */
struct kvmm_migrate_auto_stat {
	uint32_t is_active;
	uint32_t nr_idle;
	uint64_t blocks;
	uint64_t seqs;
	uint64_t starts;
	uint64_t failed;
};

KVMM_API int kvmm_migrate_auto_tick_sized(struct kvmm_migrate_auto *watch,
					  struct kvmm_migrate_auto_stat *stat, size_t size);

/**
 * kvmm_migrate_auto_tick() - do what is due; any thread
 * @stat: NULL, or out: not written while another thread is at it
 *
 * Return: 1 a job is on its way, or another thread is at it; 0; -EINVAL; -ECHILD.
 */
static inline int kvmm_migrate_auto_tick(struct kvmm_migrate_auto *watch,
					 struct kvmm_migrate_auto_stat *stat)
{
	return kvmm_migrate_auto_tick_sized(watch, stat, stat ? sizeof(*stat) : 0);
}

/** kvmm_migrate_auto_set_idle() - what the two calls below are made of, and return */
KVMM_API int kvmm_migrate_auto_set_idle(struct kvmm_migrate_auto *watch, uint64_t seq, int is_idle);

/**
 * kvmm_migrate_auto_idle() - the ranges of a sequence are not used, and may go
 *
 * Until kvmm_migrate_auto_busy() the engine does not touch them.
 *
 * Return: 0; -EINVAL; -EEXIST it is idle already; -EUSERS too many are.
 */
static inline int kvmm_migrate_auto_idle(struct kvmm_migrate_auto *watch, uint64_t seq)
{
	return kvmm_migrate_auto_set_idle(watch, seq, 1);
}

/**
 * kvmm_migrate_auto_busy() - take a sequence back into use, and learn where it is
 *
 * Cancels its migration, or waits for it if it is too late.
 *
 * Return: 0 it is in @src; 1 it is in the other pool: kvmm_range_find_seq() there; -EINPROGRESS the
 * other process has been told to commit, and has not answered: ask again; -ENOENT it was not idle;
 * -EINVAL.
 */
static inline int kvmm_migrate_auto_busy(struct kvmm_migrate_auto *watch, uint64_t seq)
{
	return kvmm_migrate_auto_set_idle(watch, seq, 0);
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_MIGRATE_H */
