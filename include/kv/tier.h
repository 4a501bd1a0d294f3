/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers inside the tree: the host tier as pools see it, copies between it and devices, and the ops
 * table of the store below it (a disk).
 *
 * A *slot* is a block of the host tier, named by its first unit and a generation. Its states:
 *
 *	FREE -> WRITING -> READY -> FREE
 *	           |         |
 *	           |         +-> DOOMED -> FREE	  no look-up finds it; a reader reads it still
 *	           +-> FREE			  the copy failed
 *
 * Invariants, recomputed by kv_tier_check():
 *
 *  1. A slot is WRITING for exactly one writer, and not found; READY: found by name, with so
 *     many readers; in its client's order of eviction if and only if it is READY without readers.
 *  2. Of one name there is at most one slot that is WRITING or READY.
 *  3. The units of slots that are not FREE are taken in the zones of their portions, and no others.
 *  4. A generation of a slot is used once: it changes when the slot becomes FREE.
 *  5. Every count equals a recount.
 *
 * One lock a tier guards all of it; no device, no clock and no other lock but that of zones is
 * called under it, except where memory grows. Names are compared in full: key, domain, layout.
 *
 * A store below implements struct kv_tier_ops.
 */
#ifndef KV_TIER_H
#define KV_TIER_H

#include <kv/dev.h>
#include <kv/evict.h>
#include <kv/types.h>
#include <kvmm/ext/disk.h>
#include <kvmm/tier.h>

struct completion_walk;
struct completions;
struct kv_feed;
struct kv_tier_client;
/* The name of a block below the device, made on any device. */
/* The name of a block below the device, in all of them. */
struct kv_tier_name {
	kvmm_key_t key;
	kvmm_key_t parent;		/* of the block before, if ->has_parent */
	kvmm_domain_t domain;
	u64 layout;		/* fingerprint of all that makes bytes mean something else */
	u32 position;			/* in blocks from the start of the prompt */
	bool has_parent;
};

struct kv_tier_slot {
	u32 index;
	u32 gen;			/* 0: no slot */
};

/* ---- the store below the host tier ---- */

/**
 * struct kv_tier_io - one block on its way between host memory and a lower tier
 * @name: its name; get: all of it must stand in the record
 * @buf: host memory, aligned to pages where the unit is; the store's until ->poll() has returned it
 * @bytes: exactly so many
 * @sum: checksum of the block as kv_dev_ops.sum_blocks has it; put: kept; get: out
 * @has_sum: there is one
 * @error: out: 0; -ENOENT it is not there (any more); -EIO; -ECANCELED; -EBADMSG something else
 *	stood there
 * @ended_ns: out: when it ended, by the tier's clock, if @has_ended; else when poll returned it
 * @was_there: put, out: the store had it already, and has written nothing
 */
struct kv_tier_io {
	struct kv_tier_name name;
	void *buf;
	u64 bytes;
	u64 sum;
	bool has_sum;
	int error;
	u64 ended_ns;
	bool has_ended;
	bool was_there;
};

/**
 * struct kv_tier_ops - a store of named blocks below the host tier
 *
 * Calls may come from any thread. None waits for the medium but close, forget for good, and reset.
 *
 * A codec (quantised or compressed copies) is such a store with another one below it: put encodes
 * into memory of its own and hands that on under the same name, poll decodes into @buf of what was
 * asked for. Its format belongs into the layout of the name that it hands on.
 * tests/tier/proof_test.c has one.
 *
 * @close: everything under way has ended, or never will; NULL: the store stays its maker's
 * @lookup: HIT, MISS, or RETRY if it cannot tell yet. Never PENDING
 * @put: begin to write; 0, or -EAGAIN too much is under way, -ENOSPC, -EIO: nothing happened
 * @get: begin to read; 0, or -EAGAIN, -ENOENT, -EIO: nothing happened
 * @forget: look-ups miss these names from now on, and puts that are not through are void;
 *	@for_good: nor after a restart; @had[i] is set where it was there; may be NULL. 0 or -errno:
 *	it may be found again then
 * @reset: the same of every name there is, for good
 * @poll: up to @max that have ended
 * @check: 0 or -EUCLEAN; may wait
 * @glance: its numbers in passing, without a lock; NULL: it has none to tell
 * @remote_glance: the same of a server: its part of @stat
 * @due: when the next transfer ends: 0, or -ENOENT there is none. NULL: not known
 * @count: blocks that are there, and that had to go for others. NULL: not counted
 * @tell: client @number, with blocks of @layout, is told there of blocks that come and go, as
 *	soon as it is decided; @feed NULL: no longer. NULL: the store tells nothing
 * @next_name: one of @layout that is there, from *@cursor on, which begins with 0; false: no more.
 *	NULL: not known
 */
struct kv_tier_ops {
	void (*close)(void *store);
	enum kvmm_tier_answer (*lookup)(void *store, const struct kv_tier_name *name);
	int (*put)(void *store, struct kv_tier_io *io);
	int (*get)(void *store, struct kv_tier_io *io);
	int (*forget)(void *store, const struct kv_tier_name *names, u32 nr, bool for_good,
		      u8 *had);
	int (*reset)(void *store);
	u32 (*poll)(void *store, struct kv_tier_io **done, u32 max);
	int (*check)(void *store);
	void (*glance)(void *store, struct kvmm_disk_stat *stat);
	void (*remote_glance)(void *store, struct kvmm_tier_stat *stat);
	int (*due)(void *store, u64 *due_ns);
	void (*count)(void *store, u64 *nr_blocks, u64 *nr_dropped);
	void (*tell)(void *store, u32 number, u64 layout, struct kv_feed *feed);
	bool (*next_name)(void *store, u64 layout, u64 *cursor, struct kv_tier_name *name);
};

/* ---- the host tier ---- */

/**
 * struct kv_tier_parts - the parts of a tier; borrowed for ever
 * @dev, @dev_number: the driver that pins the memory
 * @host: the host as a device: for checksums of host memory
 * @evict, @evict_args: the order of eviction when it is full
 */
struct kv_tier_parts {
	const struct kv_dev_ops *host;
	const struct kv_dev_ops *dev;
	unsigned int dev_number;
	const struct kv_evict_ops *evict;
	const char *evict_args;
};

/* @attr is complete, by kv_copy_attr(). 0; -EINVAL, -ENODEV, -ENOMEM, -EIO. */
int kv_tier_create(const struct kvmm_tier_attr *attr, const struct kv_tier_parts *parts,
		   struct kvmm_tier **tier);

/* Time of its links, and of all that is counted: told, or the system's. */
u64 kv_tier_now(struct kvmm_tier *tier);
bool kv_tier_is_told(const struct kvmm_tier *tier);

/* ---- clients ---- */

/**
 * struct kv_tier_client_attr - a pool that comes to a tier
 * @plane, @nr_planes: where its blocks lie; borrowed until it goes; 0: ids only
 * @block_bytes: of a block
 * @layout: as in struct kv_tier_name: of all its blocks
 * @min_units, @max_units: as in struct kvmm_tier_client_attr
 * @is_told: it wants the names that are evicted: kv_tier_take_gone(), before it commits more
 * @nr_late: most that it commits nevertheless between two of these, in other threads
 * @completions: it decides as other ranks do, and hears from them what the store below has done,
 *	by these numbers; NULL: by its own
 * @seed: the same on those ranks
 */
struct kv_tier_client_attr {
	const struct kvmm_plane *plane;
	u32 nr_planes;
	u64 block_bytes;
	u64 layout;
	u32 min_units;
	u32 max_units;
	bool is_told;
	u32 nr_late;
	struct completions *completions;
	u64 seed;
};

/* Of a record of a block below: whole units, where the tier has memory. */
u64 kv_tier_record_bytes(const struct kvmm_tier *tier, u64 block_bytes);

/* 0; -EINVAL, -EOPNOTSUPP, -EUSERS, -ENOMEM, -ECHILD. With ->completions and a store: alone. */
int kv_tier_join(struct kvmm_tier *tier, const struct kv_tier_client_attr *attr,
		 struct kv_tier_client **client);
/* None of its slots is WRITING, and it reads none. Its blocks stay, without a client. */
void kv_tier_leave(struct kv_tier_client *client);

/* ---- slots ---- */

/* How a name is spoken of: in the layout of that client. */
enum kv_tier_find {
	KV_TIER_PEEK,		/* is it there? */
	KV_TIER_READ,		/* the same, and a reader more where it is */
};

/* MISS, HIT and its slot, or RETRY: it is being written. */
enum kvmm_tier_answer kv_tier_find(struct kv_tier_client *client, const kvmm_key_t *key,
				   kvmm_domain_t domain, enum kv_tier_find how,
				   struct kv_tier_slot *slot);

/*
 * A slot that @client writes from now on, which may take others' places: 0; -EEXIST there is one,
 * in *@slot; -EALREADY it is being written; -ENOSPC everything is being read or written, or
 * reserved for others; -EDQUOT as much of its own.
 */
int kv_tier_reserve(struct kv_tier_client *client, const struct kv_tier_name *name,
		    struct kv_tier_slot *slot);
/* The content is there: found from now on. */
void kv_tier_commit(struct kv_tier_client *client, struct kv_tier_slot slot, const u64 *sum);
/* The same for a block from the store below, which the caller reads. */
void kv_tier_commit_read(struct kv_tier_client *client, struct kv_tier_slot slot, const u64 *sum);
/* It is not. */
void kv_tier_cancel(struct kv_tier_client *client, struct kv_tier_slot slot);

/* A reader less. */
void kv_tier_put(struct kv_tier_client *client, struct kv_tier_slot slot);
/* The same, and its content is not to be trusted: no look-up finds it any more. */
void kv_tier_put_bad(struct kv_tier_client *client, struct kv_tier_slot slot,
		     const struct kv_tier_name *name);
/*
 * Look-ups miss these from now on, here and below, after a restart too; a block being written is
 * not found afterwards. How many were in either; -ENOMEM, -EIO, ...: not all of them are gone for
 * good. No lock held.
 */
int kv_tier_forget(struct kv_tier_client *client, const struct kvmm_prefix *prefix);
/* The same of all names of the client's layout, and of all in the store below. 0 or -errno. */
int kv_tier_reset(struct kv_tier_client *client);

/* How a client has a slot. */
enum kv_tier_holds { KV_TIER_READS, KV_TIER_WRITES };

/* May a client have it so, for what that name says? */
bool kv_tier_may_hold(struct kv_tier_client *client, struct kv_tier_slot slot,
		      const struct kv_tier_name *name, enum kv_tier_holds how);
/* Is the slot of that generation READY? */
bool kv_tier_has(struct kv_tier_client *client, struct kv_tier_slot slot);
/* Checksum of a slot that the caller reads: false if it has none. */
bool kv_tier_sum(struct kv_tier_client *client, struct kv_tier_slot slot, u64 *sum);
/* A load has been served from it: for how long it has been READY, which is counted. */
u64 kv_tier_hit(struct kv_tier_client *client, struct kv_tier_slot slot);

/* Up to @max names of the client that have gone from the tier; how many. */
u32 kv_tier_take_gone(struct kv_tier_client *client, struct kv_tier_name *names, u32 max);
/* The fate of its names is told there from now on, until it leaves. */
void kv_tier_tell(struct kv_tier_client *client, struct kv_feed *feed);
/* One that is there, from slot *@at on, which moves on; false: no more. For clients that leave. */
bool kv_tier_next_name(struct kv_tier_client *client, u32 *at, struct kv_tier_name *name);

/* The same of the store below; *@cursor begins with 0. No lock held. */
bool kv_tier_next_below(struct kv_tier_client *client, u64 *cursor, struct kv_tier_name *name);

/* blocks, units, bytes, writing and evicted of @stat, without a lock: each of its own moment. */
void kv_tier_client_glance(const struct kv_tier_client *client, struct kvmm_tier_client_stat *stat);

/**
 * struct kv_tier_glance - a tier as seen in passing, without a lock
 * @name: fixed
 * @stat: as kvmm_tier_get_stat()
 * @has_disk: there is a disk store below; then
 * @disk: as kvmm_disk_get_stat()
 */
struct kv_tier_glance {
	const char *name;
	struct kvmm_tier_stat stat;
	bool has_disk;
	struct kvmm_disk_stat disk;
};

/* 0 or -ECHILD. */
int kv_tier_glance(const struct kvmm_tier *tier, struct kv_tier_glance *glance);

/* 0 or -EUCLEAN. */
int kv_tier_check(struct kvmm_tier *tier);

/* ---- the store below; no lock of the tier held ---- */

struct below_io;

/* A block that is read from there into a slot. Guarded by the item it is for. */
struct kv_tier_fetch {
	struct below_io *io;
	struct kv_tier_slot slot;	/* WRITING */
	u64 took_ns;			/* when it is over: how long it took */
	u64 sum;			/* of the content, if has_sum; when it is there */
	bool has_sum;
};

/* Once, and before there are clients. The tier has @store from then on. 0 or -ENOMEM. */
int kv_tier_set_below(struct kvmm_tier *tier, const struct kv_tier_ops *ops, void *store,
		      const struct kvmm_tier_disk_attr *attr);
/* MISS, HIT or RETRY. */
enum kvmm_tier_answer kv_tier_find_below(struct kv_tier_client *client, const kvmm_key_t *key,
					 kvmm_domain_t domain);
/* Begin: 0; as kv_tier_reserve(); -EAGAIN too much is under way; -EIO, -ENOMEM. */
int kv_tier_fetch(struct kv_tier_client *client, const struct kv_tier_name *name,
		  struct kv_tier_fetch *fetch);
/* -EAGAIN; 0: it is there, to be committed; or it failed, and the slot is gone. */
int kv_tier_fetch_poll(struct kv_tier_client *client, struct kv_tier_fetch *fetch);
/* Its end is not waited for, and may be never; false: it has to be, as memory is written. */
bool kv_tier_fetch_leave(struct kv_tier_client *client, struct kv_tier_fetch *fetch);
bool kv_tier_has_below(const struct kvmm_tier *tier);
/* Below it is a server, which is asked by look-ups, and answers later ones. */
bool kv_tier_has_server(const struct kvmm_tier *tier);
/* These names are taken to be there, as if ranks had been told. 0 or -EOPNOTSUPP: they are not. */
int kv_tier_recall(struct kv_tier_client *client, const struct kvmm_prefix *prefix);
/* Transfers under way meet the walk, where ranks are told of them. */
void kv_tier_walk_below(struct kvmm_tier *tier, struct completion_walk *walk);
/* Ranks are not told any more: what is under way has failed. Waits for what is being written. */
void kv_tier_untell(struct kvmm_tier *tier);
/* When the next transfer there or back ends: 0; -ENOENT there is none, or it is not known. */
int kv_tier_due_below(struct kvmm_tier *tier, u64 *due_ns);
/* End transfers that are done: were there many? */
bool kv_tier_end_below(struct kvmm_tier *tier);
/* Begin to write blocks that are due: were there any? */
bool kv_tier_begin_below(struct kvmm_tier *tier);
/* Both, in this order. */
bool kv_tier_work(struct kvmm_tier *tier);

/* ---- copies between a device and slots ---- */

/* Guard of all of it: the submitter. */
struct kv_xfer {
	/* in */
	struct kv_tier_client *client;
	const struct kv_dev_ops *ops;
	struct kv_dev *dev;		/* the client's; NULL = simulated */
	const u32 *block;
	const struct kv_tier_slot *slot;	/* written by us, or read */
	u32 nr;
	bool is_up;			/* to the device */
	struct kv_fence after;
	u64 *sums;		/* NULL, or kv_copy.sums for all blocks; NULL again: none */

	/* inside */
	struct kv_move *move;		/* room for ->nr; the caller's */
	struct kvmm_plane *plane;	/* room for those of a block; the caller's */
	struct kv_fence fence;
	u64 begin_ns;
	u64 end_ns;			/* simulated: due; else when it was seen to be over */
	u64 bytes;
	int error;			/* part of it could not be submitted */
};

/*
 * Begin. 0: poll it, it may have failed already; or -EIO, -ENOMEM, -EINVAL: nothing was begun. No
 * lock of the tier held.
 */
int kv_xfer_submit(struct kv_xfer *xfer);
/* -EAGAIN it is not over; 0; -EIO. */
int kv_xfer_poll(struct kv_xfer *xfer);
/* Until it is over. */
int kv_xfer_wait(struct kv_xfer *xfer);

/* The name of the key for bit @number of kvmm_config.set, or NULL behind the last one. */
const char *kv_config_key(u32 number);

/* kvmm_tier_load(); @is_first: for the first of the queue, others that wait do not hold it up. */
int kv_tier_load(struct kvmm_pool *pool, const struct kvmm_tier_load_args *load, bool is_first,
		 kvmm_tier_op_t *handle);

#endif /* KV_TIER_H */
