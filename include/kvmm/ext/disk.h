/* SPDX-License-Identifier: Apache-2.0 */
/* The disk tier, and tiers that a file of settings describes. */
#ifndef KVMM_EXT_DISK_H
#define KVMM_EXT_DISK_H

#include <kvmm/ext/inspect.h>
#include <kvmm/tier.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A cache of blocks on a disk, that survives the process and the loss of power.
 *
 * A store is a folder with one file of bounded size. The store appends records (a name and its
 * bytes) to segments. When all segments are full it uses the oldest one again, and copies on those
 * of its records that were read more than most. A lookup may miss at any time. A read with status 0
 * returns what was put under that very name: the record has the whole name, and both have
 * checksums. After a crash the store opens in bounded time with all records of segments that were
 * full, and with those of the last ones as far as they got onto the disk.
 *
 * Equal names mean equal bytes: names are of content, not of places. All that tells contents apart
 * has to be in the name.
 *
 * A tier (&kvmm_tier_attr.disk) reads and writes beside its caller. Calls here wait for the disk
 * where they say so. Any thread may make any call at any time, except for closing.
 *
 * The format of the file is in include/kv/disk.h, to the byte; Documentation/disk.rst draws it.
 */

/** Bytes of a key on disk; those of kvmm_key_t fit. */
#define KVMM_DISK_MIN_KEY	8u
#define KVMM_DISK_MAX_KEY	64u

/** What records and buffers are aligned to. */
#define KVMM_DISK_PAGE		4096u

/** Bytes of a segment: a power of two between these. */
#define KVMM_DISK_MIN_SEGMENT	(64u << 10)
#define KVMM_DISK_MAX_SEGMENT	(256u << 20)

/** Most records in one call. */
#define KVMM_DISK_MAX_BATCH	4096u

/**
 * struct kvmm_disk_name - name of a record; all fields are compared
 * @layout: fingerprint of how the bytes are laid out: model, data type, order of dimensions, rank
 * @generation: of the content, where a key may come to mean something else; else 0
 * @tenant: isolation domain
 * @group: KV cache group
 * @key_bytes: KVMM_DISK_MIN_KEY to KVMM_DISK_MAX_KEY
 * @key: its bytes, then zeros
 */
struct kvmm_disk_name {
	uint8_t layout[16];
	uint64_t generation;
	uint32_t tenant;
	uint16_t group;
	uint16_t key_bytes;
	uint8_t key[KVMM_DISK_MAX_KEY];
};

/**
 * enum kvmm_disk_io - how the disk is reached
 * @KVMM_DISK_IO_AUTO: io_uring where it is possible, else as KVMM_DISK_IO_POLL
 * @KVMM_DISK_IO_POLL: plain reads and writes, done by the polling thread
 */
enum kvmm_disk_io {
	KVMM_DISK_IO_AUTO,
	KVMM_DISK_IO_POLL,
	KVMM_DISK_NR_IOS,
};

/** For &kvmm_disk_attr.flags. */
enum {
	KVMM_DISK_CREATE = 1u << 0,	/**< make the folder and the store if they are not there */
	KVMM_DISK_RESET = 1u << 1,	/**< forget all that the store holds, for good */
	KVMM_DISK_BUFFERED = 1u << 2,	/**< never by O_DIRECT: through the page cache */
	KVMM_DISK_NAMES = 1u << 3,	/**< remember names, for events: 32 bytes more for each
					 *   slot of the index; see <kvmm/event.h> */
};

/**
 * struct kvmm_disk_attr - how to open a store
 * @size: sizeof(struct kvmm_disk_attr); set by KVMM_DISK_ATTR_INIT
 * @path: its folder: of this user, and of mode 0700; printable UTF-8
 * @flags: KVMM_DISK_CREATE, ...
 * @io: enum kvmm_disk_io
 * @max_bytes: most bytes of the file, at least two segments and 24 KiB. 0: as it was, with
 *	KVMM_DISK_RESET too: -EINVAL if that is unknown (no store, or one of another version). A
 *	store opened with fewer than before loses its last segments
 * @segment_bytes: of a new store; 0: 128 MiB, or less, to have 8 of them. An existing store keeps
 *	its own
 * @depth: requests at a time; 0: 64
 * @layouts: if @nr_layouts: opening leaves out records of other layouts. Borrowed during the call
 * @nr_layouts: number of @layouts
 */
struct kvmm_disk_attr {
	size_t size;
	const char *path;
	uint32_t flags;
	uint32_t io;
	uint64_t max_bytes;
	uint32_t segment_bytes;
	uint32_t depth;
	const uint8_t (*layouts)[16];
	uint32_t nr_layouts;
};

#define KVMM_DISK_ATTR_INIT \
	{ sizeof(struct kvmm_disk_attr), NULL, KVMM_DISK_CREATE, 0, 0, 0, 0, NULL, 0 }

struct kvmm_disk;

/**
 * kvmm_disk_open() - open a store, or make one
 * @attr: borrowed during the call
 * @disk: filled in on success; for kvmm_disk_close()
 *
 * Reads the footers of all full segments, and all of the other segments (one or two). A store with
 * an unreadable superblock is empty: none of its records could be trusted.
 *
 * Context: waits for the disk; no kvmm lock held.
 * Return: 0; -EINVAL bad @attr; -EBUSY another store object, maybe of another process, has it open,
 * and still has after half a second; -EPERM folder or file belong to another user, or others can
 * get at them, or the file has more names; -ELOOP, -ENOTDIR: a symbolic link, or no folder; -ENOENT
 * it is not there and may not be made; -EPROTONOSUPPORT made by another version, earlier ones
 * included, and left alone: KVMM_DISK_RESET begins anew; -ENOMEM; -ENOSPC, -EIO, ... of the system.
 */
KVMM_API int kvmm_disk_open(const struct kvmm_disk_attr *attr, struct kvmm_disk **disk);

/**
 * kvmm_disk_close() - wait for what is under way, and close
 * @disk: no thread uses it any more; NULL is fine
 *
 * Records that were put are there after the next opening.
 *
 * Context: waits for the disk; no kvmm lock held.
 */
KVMM_API void kvmm_disk_close(struct kvmm_disk *disk);

/**
 * struct kvmm_disk_put_args - something to write
 * @name: its name
 * @data: borrowed during the call; written without a copy if it is aligned to KVMM_DISK_PAGE, and
 *	@bytes are whole pages
 * @bytes: length of @data: 1 to kvmm_disk_stat.max_record_bytes
 * @parent_bytes: of @parent; 0: none
 * @value: how often it was of use before: reads add to it
 * @parent: name of the block before, for listings of the store
 * @position: of the block in its sequence, likewise
 */
struct kvmm_disk_put_args {
	struct kvmm_disk_name name;
	const void *data;
	uint32_t bytes;
	uint16_t parent_bytes;
	uint8_t value;
	uint8_t parent[KVMM_DISK_MAX_KEY];
	uint64_t position;
};

/** For kvmm_disk_put(). */
enum {
	KVMM_DISK_REPLACE = 1u << 0,	/**< write again what is there already */
};

/**
 * struct kvmm_disk_get_args - something to read
 * @name: its name
 * @data: where to. Read without a copy if it is aligned to
 *	KVMM_DISK_PAGE, and @room is enough for whole pages. Undefined after a failure
 * @room: bytes at @data, all of which may be written to
 */
struct kvmm_disk_get_args {
	struct kvmm_disk_name name;
	void *data;
	uint32_t room;
};

KVMM_API int kvmm_disk_put_sized(struct kvmm_disk *disk, const struct kvmm_disk_put_args *puts,
				 uint32_t nr, uint32_t flags, int32_t *status, size_t size);

/**
 * kvmm_disk_put() - write records, and wait for it
 * @disk: the store
 * @puts: records, borrowed during the call; records that follow each other go into one write
 * @nr: 1 to KVMM_DISK_MAX_BATCH
 * @flags: KVMM_DISK_REPLACE
 * @status: filled in, one for each; may be NULL. 0 it was written and can be read; -EEXIST a record
 *	of that name is there or being written; -EROFS too many writes failed; -ECANCELED it was
 *	forgotten meanwhile; -EIO, -ENOSPC, ... of the system; -E2BIG too many different lengths and
 *	layouts (1024) at a time
 *
 * Context: waits for the disk; no kvmm lock held.
 * Return: the number of records written or there already; -EINVAL bad @puts, -ENOMEM: nothing was
 * done.
 */
static inline int kvmm_disk_put(struct kvmm_disk *disk, const struct kvmm_disk_put_args *puts,
				uint32_t nr, uint32_t flags, int32_t *status)
{
	return kvmm_disk_put_sized(disk, puts, nr, flags, status, sizeof(*puts));
}

KVMM_API int kvmm_disk_get_sized(struct kvmm_disk *disk, const struct kvmm_disk_get_args *gets,
				 uint32_t nr, int32_t *status, size_t size);

/**
 * kvmm_disk_get() - read records, and wait for it
 * @disk: the store
 * @gets: borrowed during the call; those that lie one after the other are read at one go
 * @nr: 1 to KVMM_DISK_MAX_BATCH
 * @status: filled in, one for each; may be NULL. The length: all of it was read and verified;
 *	-ENOENT it is not there, or not any more; -EAGAIN it is being written; -ENOBUFS @room is too
 *	small; -EBADMSG what was read is not what was written (the record is dropped); -EIO, ... of
 *	the system (the record is dropped)
 *
 * Context: waits for the disk; no kvmm lock held.
 * Return: the number of records read; -EINVAL bad @gets, -ENOMEM: nothing was done.
 */
static inline int kvmm_disk_get(struct kvmm_disk *disk, const struct kvmm_disk_get_args *gets,
				uint32_t nr, int32_t *status)
{
	return kvmm_disk_get_sized(disk, gets, nr, status, sizeof(*gets));
}

/** struct kvmm_disk_delete_args - something to forget: its @name */
struct kvmm_disk_delete_args {
	struct kvmm_disk_name name;
};

KVMM_API int kvmm_disk_delete_sized(struct kvmm_disk *disk,
				    const struct kvmm_disk_delete_args *deletes, uint32_t nr,
				    size_t size);

/**
 * kvmm_disk_delete() - forget records for good
 * @disk: the store
 * @deletes: borrowed during the call
 * @nr: 1 to KVMM_DISK_MAX_BATCH
 *
 * No record of these names put before the call is a hit again, even if the process, the power or
 * any page of the file fails; three flushes for all names of a call. The store remembers 252 names
 * for each 4 MiB (a million at most); beyond that the next opening may miss records, the oldest.
 *
 * Context: waits for the disk; no kvmm lock held.
 * Return: how many were there; -EINVAL bad @deletes, -ENOMEM: nothing was done; -ECHILD in a forked
 * child; -EIO, ...: none of them is there, but any may be after the next opening.
 */
static inline int kvmm_disk_delete(struct kvmm_disk *disk,
				   const struct kvmm_disk_delete_args *deletes, uint32_t nr)
{
	return kvmm_disk_delete_sized(disk, deletes, nr, sizeof(*deletes));
}

/**
 * kvmm_disk_sync() - make records written so far survive a loss of power
 * @disk: the store
 *
 * Records that were put later than the call may or may not survive.
 *
 * Context: waits for the disk; no kvmm lock held.
 * Return: 0; -EIO, ....
 */
KVMM_API int kvmm_disk_sync(struct kvmm_disk *disk);

/**
 * struct kvmm_disk_entry - a record, as it is listed
 * @name: its name
 * @position: as it was put
 * @parent: likewise
 * @parent_bytes: likewise
 * @value: likewise
 * @bytes: its length
 * @segment: where it is
 * @offset: bytes into the segment
 * @seq: number of the segment's use
 * @status: 0; -EBADMSG, -EIO: it is damaged, if that was asked for
 */
struct kvmm_disk_entry {
	struct kvmm_disk_name name;
	uint64_t position;
	uint8_t parent[KVMM_DISK_MAX_KEY];
	uint16_t parent_bytes;
	uint8_t value;
	uint32_t bytes;
	uint32_t segment;
	uint32_t offset;
	uint64_t seq;
	int32_t status;
};

/**
 * struct kvmm_disk_stat - a store in numbers
 * @size: sizeof(struct kvmm_disk_stat), set by the caller
 * @max_bytes: the file never has more
 * @file_bytes: what it has
 * @max_record_bytes: longest record
 * @segment_bytes: of a segment
 * @nr_segments: as many as there may be
 * @nr_used: that have records
 * @nr_records: that can be hit
 * @nr_pending: that are being written
 * @record_bytes: payload of the former
 * @index_bytes: host memory of the index
 * @nr_put: records written
 * @put_bytes: their payload
 * @nr_got: records read and verified
 * @got_bytes: their payload
 * @nr_missed: reads of what is not there
 * @nr_overtaken: of which it went away during the read
 * @nr_damaged: reads and openings: records that did not verify
 * @nr_foreign: opening: records of layouts that were not named
 * @nr_found: opening: records found again
 * @nr_scanned: opening: segments without a footer
 * @nr_reclaimed: segments used again
 * @nr_dropped: records lost by that
 * @nr_reinserted: records that went along
 * @nr_copied: transfers through a buffer of the store's, as memory or length were not aligned
 * @nr_buffered: files opened without O_DIRECT
 * @nr_read_errors: reads that failed
 * @nr_write_errors: writes that failed, superblocks, headers and footers included
 * @nr_sync_errors: flushes that failed
 * @nr_no_room: segments that the file system had no room for
 * @nr_unsealed: segments that have no footer although they are full
 * @open_ns: time that opening took
 * @read_only: too many writes failed: nothing is written any more
 * @has_ring: io_uring is in use
 * @is_direct: O_DIRECT is in use
 * @hit_age: of each record that was read: how long ago its segment was begun, or the store was
 *	opened if the segment is older than that
 * @evict_age: the same of each record that was lost when its segment was used again
 */
struct kvmm_disk_stat {
	size_t size;
	uint64_t max_bytes;
	uint64_t file_bytes;
	uint64_t max_record_bytes;
	uint64_t segment_bytes;
	uint64_t nr_segments;
	uint64_t nr_used;
	uint64_t nr_records;
	uint64_t nr_pending;
	uint64_t record_bytes;
	uint64_t index_bytes;
	uint64_t nr_put;
	uint64_t put_bytes;
	uint64_t nr_got;
	uint64_t got_bytes;
	uint64_t nr_missed;
	uint64_t nr_overtaken;
	uint64_t nr_damaged;
	uint64_t nr_foreign;
	uint64_t nr_found;
	uint64_t nr_scanned;
	uint64_t nr_reclaimed;
	uint64_t nr_dropped;
	uint64_t nr_reinserted;
	uint64_t nr_copied;
	uint64_t nr_buffered;
	uint64_t nr_read_errors;
	uint64_t nr_write_errors;
	uint64_t nr_sync_errors;
	uint64_t nr_no_room;
	uint64_t nr_unsealed;
	uint64_t open_ns;
	uint32_t read_only;
	uint32_t has_ring;
	uint32_t is_direct;
	uint32_t reserved;
	struct kvmm_residency_stat hit_age;
	struct kvmm_residency_stat evict_age;
};

/** kvmm_disk_get_stat() - numbers of a store. Context: any thread. Return: 0; -EINVAL. */
KVMM_API int kvmm_disk_get_stat(struct kvmm_disk *disk, struct kvmm_disk_stat *stat);

/* ---- looking at a store without opening it ---- */

struct kvmm_disk_view;

/**
 * struct kvmm_disk_view_info - what the superblock says
 * @size: sizeof(struct kvmm_disk_view_info), set by the caller
 * @uuid: of the store
 * @epoch: how often a superblock was written
 * @version: of the format
 * @segment_bytes: of a segment
 * @nr_segments: as many as there may be
 * @file_bytes: length of the file
 * @nr_good_supers: of 3
 * @max_bytes: the file never has more
 */
struct kvmm_disk_view_info {
	size_t size;
	uint8_t uuid[16];
	uint64_t epoch;
	uint64_t file_bytes;
	uint32_t version;
	uint32_t segment_bytes;
	uint32_t nr_segments;
	uint32_t nr_good_supers;
	uint64_t max_bytes;
};

/** What a segment is. */
enum kvmm_disk_segment_kind {
	KVMM_DISK_SEGMENT_EMPTY,	/**< nothing of this store */
	KVMM_DISK_SEGMENT_OPEN,		/**< no footer: read record by record */
	KVMM_DISK_SEGMENT_SEALED,	/**< has a footer */
};

/**
 * struct kvmm_disk_segment - a segment, as it is listed
 * @kind: enum kvmm_disk_segment_kind
 * @seq: number of its use: the lowest is the oldest
 * @nr_records: in it; 0 as long as they are not read if it has no footer
 */
struct kvmm_disk_segment {
	uint32_t kind;
	uint32_t nr_records;
	uint64_t seq;
};

/**
 * kvmm_disk_view_open() - look at a store that may be open elsewhere
 * @path: its folder
 * @info: what the store is: filled in on success; the caller sets its size
 * @view: filled in on success
 *
 * Nothing is written, locked or kept: listings show what is on disk at that moment, forgotten and
 * replaced records included, wiped ones not. A segment may be used again meanwhile.
 *
 * Context: waits for the disk.
 * Return: 0; -EINVAL; -ENOENT, -ELOOP, -ENOTDIR, -EACCES; -EBADMSG no superblock can be read;
 * -EPROTONOSUPPORT another version; -ENOMEM; -EIO.
 */
KVMM_API int kvmm_disk_view_open(const char *path, struct kvmm_disk_view_info *info,
				 struct kvmm_disk_view **view);

/** kvmm_disk_view_close() - or NULL. */
KVMM_API void kvmm_disk_view_close(struct kvmm_disk_view *view);

KVMM_API int kvmm_disk_view_segment_sized(struct kvmm_disk_view *view, uint32_t number,
					  struct kvmm_disk_segment *segment, size_t size);

/**
 * kvmm_disk_view_segment() - begin to list a segment
 * @view: the view
 * @number: of the segment, below kvmm_disk_view_info.nr_segments
 * @segment: filled in
 *
 * Return: 0; -EINVAL, -ENOMEM, -EIO.
 */
static inline int kvmm_disk_view_segment(struct kvmm_disk_view *view, uint32_t number,
					 struct kvmm_disk_segment *segment)
{
	return kvmm_disk_view_segment_sized(view, number, segment, sizeof(*segment));
}

KVMM_API int kvmm_disk_view_next_sized(struct kvmm_disk_view *view, int verify,
				       struct kvmm_disk_entry *entry, size_t size);

/**
 * kvmm_disk_view_next() - list the next record of the segment
 * @view: the view
 * @verify: not 0: read the record itself, and compare its checksums
 * @entry: filled in
 *
 * Return: 1; 0 at the end; -ESTALE the segment is being used again.
 */
static inline int kvmm_disk_view_next(struct kvmm_disk_view *view, int verify,
				      struct kvmm_disk_entry *entry)
{
	return kvmm_disk_view_next_sized(view, verify, entry, sizeof(*entry));
}

/*
 * Settings of tiers from a file and from the environment.
 *
 *	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
 *	struct kvmm_tier_config knobs = KVMM_TIER_CONFIG_INIT;
 *	struct kvmm_config config = KVMM_CONFIG_INIT;
 *
 *	config.host  = &host;
 *	config.knobs = &knobs;
 *	err = kvmm_config_load(&config, "/etc/engine/kv.conf");
 *	if (err)
 *		say("%s", config.error);	// /etc/engine/kv.conf:3: no key 'host_byte'
 *
 * A line is "key = value", empty, or a comment, which begins with # at the start of the line or
 * behind a blank. What is not named keeps the value that it had. Keys, units and ranges:
 * Documentation/tiers.rst.
 */

/** Room for a message, and for the strings that attributes point to. */
#define KVMM_CONFIG_ERROR_BYTES	256u
#define KVMM_CONFIG_NAMES_BYTES	2048u

/** A file of this length is refused. */
#define KVMM_CONFIG_MAX_BYTES	65536u

/**
 * struct kvmm_config - what is to be set
 * @size: sizeof(struct kvmm_config); set by KVMM_CONFIG_INIT
 * @host, @client, @knobs, @disk, @disk_use, @remote: filled in before, each with its size set;
 *	changed on success only. NULL: keys for it are checked all the same
 * @nr_set: out: values that were set
 * @line: out: of the error, from 1 on; 0: no line is to blame
 * @error: out: a sentence, empty on success
 * @names: strings that @host, @disk and @remote point to from then on; 0 at first, each call adds
 *	its own
 * @names_bytes: of them, in use
 * @set: out: a bit for each key that was set
 */
struct kvmm_config {
	size_t size;
	struct kvmm_tier_attr *host;
	struct kvmm_tier_client_attr *client;
	struct kvmm_tier_config *knobs;
	struct kvmm_disk_attr *disk;
	struct kvmm_tier_disk_attr *disk_use;
	uint32_t nr_set;
	uint32_t line;
	char error[KVMM_CONFIG_ERROR_BYTES];
	char names[KVMM_CONFIG_NAMES_BYTES];
	uint32_t names_bytes;
	uint32_t reserved;
	uint64_t set;
	struct kvmm_tier_remote_attr *remote;
};

#define KVMM_CONFIG_INIT { sizeof(struct kvmm_config), NULL, NULL, NULL, NULL, NULL, 0, 0, \
			   "", "", 0, 0, 0, NULL }

/**
 * kvmm_config_load() - the settings of a file, and of the environment, which goes first
 * @config: what to set; lives as long as what it has filled in is used, as do its strings
 * @path: the file; NULL: the environment only
 *
 * Of the environment: the key in capitals behind KVMM_TIER_, as in KVMM_TIER_HOST_BYTES=64GiB.
 * Programs that run with more rights than their user have no environment here.
 *
 * Context: reads a file; any thread.
 * Return: 0; -EINVAL an unknown key, a value that is none, a key twice, or too much text:
 * @config->error says where; -ENOENT, -EACCES, ... the file cannot be read; -EILSEQ it has a zero
 * byte; -EFBIG it has KVMM_CONFIG_MAX_BYTES or more; -ENOMEM. A failed call sets nothing.
 */
KVMM_API int kvmm_config_load(struct kvmm_config *config, const char *path);

/* ---- operations, time and numbers of tiers ---- */

/** kvmm_tier_clock() - set the time of KVMM_TIER_TOLD_CLOCK to @now_ns; it never goes back.
 * Return: 0; -EINVAL; -EOPNOTSUPP the tier has a clock of its own. */
KVMM_API int kvmm_tier_clock(struct kvmm_tier *tier, uint64_t now_ns);

/**
 * struct kvmm_tier_time - time of copies, for simulated engines
 * @due_ns: pools of ids only: when the next copy ends, by kvmm_tier_clock()'s time or the system's;
 *	UINT64_MAX: none is under way. It may be over. No copy ends before: set the clock to it, and
 *	poll
 * @load_ns: how long copies up were under way that have ended, added up; and blocks that were read
 *	from a disk below first. A simulated engine adds what it grew by to its step: for each copy
 *	its latency, and its bytes by the link's bandwidth, rounded up, behind those before it. Real
 *	copies are measured alike
 */
struct kvmm_tier_time {
	uint64_t due_ns;
	uint64_t load_ns;
};

/** kvmm_tier_get_time() - kvmm_pool_stat_of() of KVMM_STAT_TIER_TIME. */
static inline int kvmm_tier_get_time(struct kvmm_pool *pool, struct kvmm_tier_time *time)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_TIER_TIME, time, sizeof(*time));
}

/** kvmm_tier_due() - @due_ns of struct kvmm_tier_time. Return: 0; -ENOENT no copy under way. */
static inline int kvmm_tier_due(struct kvmm_pool *pool, uint64_t *due_ns)
{
	struct kvmm_tier_time time;
	int err = due_ns ? kvmm_tier_get_time(pool, &time) : -22 /* EINVAL */;

	if (!err && time.due_ns == UINT64_MAX)
		err = -2 /* ENOENT */;
	if (!err)
		*due_ns = time.due_ns;
	return err;
}

/** kvmm_tier_take_latency() - what @load_ns of struct kvmm_tier_time grew by since the last call.
 * @taken_ns: the caller's, 0 at first. */
static inline int kvmm_tier_take_latency(struct kvmm_pool *pool, uint64_t *taken_ns,
					 uint64_t *load_ns)
{
	struct kvmm_tier_time time;
	int err = kvmm_tier_get_time(pool, &time);

	if (err)
		return err;
	*load_ns = time.load_ns - *taken_ns;
	*taken_ns = time.load_ns;
	return 0;
}

/**
 * kvmm_tier_abort() - give an operation up, in any state
 * @op: index and generation UINT32_MAX: see kvmm_tier_abort_all()
 *
 * At any time; never waits. Blocks that no other caller waits for are not registered; blocks and
 * copies that a device may still write are given back when it is through.
 *
 * Return: 0; -ESTALE, -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_tier_abort(struct kvmm_pool *pool, kvmm_tier_op_t op);

/** kvmm_tier_abort_all() - kvmm_tier_abort() for all, and nothing is queued any more. Return: how
 * many operations; -EINVAL; -EOPNOTSUPP. */
static inline int kvmm_tier_abort_all(struct kvmm_pool *pool)
{
	kvmm_tier_op_t all = { UINT32_MAX, UINT32_MAX };

	return kvmm_tier_abort(pool, all);
}

/**
 * kvmm_tier_eventfd() - a descriptor that is readable while an operation is over and not fetched
 *
 * The pool's; it is closed when the pool is detached. Operations end only if some thread calls
 * kvmm_tier_poll().
 *
 * Return: the descriptor; -EMFILE, -ENOMEM; -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_tier_eventfd(struct kvmm_pool *pool);

/**
 * struct kvmm_tier_client_stat - one pool and its tier
 * @blocks, @units, @bytes: readable copies that it has made, and what they take
 * @writing: copies on their way down
 * @queued: blocks that wait for their turn to be copied down
 * @loading: blocks on their way up
 * @clean: device blocks with a readable copy below
 * @nr_ops: operations not over, or not fetched
 * @offloads, @loads: copies that ended well, in blocks
 * @offload_bytes, @load_bytes: what they moved
 * @offload_ns, @load_ns: the time that each of those copies was under way, added up
 * @hits: keys that kvmm_tier_load() was asked for with success, each once a request
 * @misses, @retries, @pendings: answers of kvmm_tier_match() below the device
 * @shared: blocks of loads that waited for another caller's copy
 * @present: offloads that found a copy
 * @reloads: loads of what had gone down less than @reload_ns before
 * @evicted: copies that had to go for others, or for its limits
 * @aborted: operations
 * @failed: copies that did not end well, in blocks ...
 * @corrupt: ... of which the content was not what had been copied down
 * @refused: loads that did not fit, or were over a quota
 * @touches: uses that make a block worth a copy now: those of the configuration, or one more while
 *	too few of the names that get there are ever used again
 * @thrashing: 1: blocks that KVMM_TIER_THRESHOLD dropped have come back too soon; it only copies
 * @episodes: how often that was so
 * @raised: how often @touches went up
 * @spared: times that nothing was dropped because of it
 * @refaults: blocks that were filled or loaded while their names were remembered, by how many
 *	blocks had been since: fewer than the device has, fewer than the host tier has, more
 * @disk_loads, @disk_load_bytes: of the loads, those that were read from the disk below first
 * @disk_load_ns: the time that each of these reads took, added up
 * @offload_took, @load_took, @disk_took: how long each copy down, copy up, and read from the disk
 *	took: what @offload_ns, @load_ns and @disk_load_ns sum. A copy is of up to @batch_blocks
 */
struct kvmm_tier_client_stat {
	uint32_t blocks;
	uint32_t units;
	uint64_t bytes;
	uint32_t writing;
	uint32_t queued;
	uint32_t loading;
	uint32_t clean;
	uint32_t nr_ops;
	uint32_t reserved;
	uint64_t offloads;
	uint64_t loads;
	uint64_t offload_bytes;
	uint64_t load_bytes;
	uint64_t offload_ns;
	uint64_t load_ns;
	uint64_t hits;
	uint64_t misses;
	uint64_t retries;
	uint64_t pendings;
	uint64_t shared;
	uint64_t present;
	uint64_t reloads;
	uint64_t evicted;
	uint64_t aborted;
	uint64_t failed;
	uint64_t corrupt;
	uint64_t refused;
	uint32_t touches;
	uint32_t thrashing;
	uint64_t episodes;
	uint64_t raised;
	uint64_t spared;
	uint64_t refaults[KVMM_NR_TIER_LEVELS];
	uint64_t disk_loads;
	uint64_t disk_load_bytes;
	uint64_t disk_load_ns;
	struct kvmm_latency_stat offload_took;
	struct kvmm_latency_stat load_took;
	struct kvmm_latency_stat disk_took;
};

/** kvmm_tier_client_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_TIER. */
static inline int kvmm_tier_client_get_stat(struct kvmm_pool *pool,
					    struct kvmm_tier_client_stat *stat,
					    size_t size)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_TIER, stat, size);
}

/**
 * struct kvmm_tier_remote_attr - a server for keys and values (Redis, Valkey, ...) below a tier
 * @size: sizeof(struct kvmm_tier_remote_attr); set by KVMM_TIER_REMOTE_ATTR_INIT
 * @address: of the server, "10.0.0.7:6379" or "[fd00::7]:6379": numbers, as nothing is resolved
 * @model: a part of every key, and what fences count for: up to 63 printable characters without
 *	blanks and colons
 * @user, @password: for AUTH; NULL: none
 * @deadline_ns: most time of a look-up, a load and a store, and how long a call that deletes waits
 *	for the server; up to a minute; 0: 50 ms. Time passes between polls as well
 * @ttl_s: seconds after which the server forgets a block; 0: never by itself
 *
 * Any number of processes may share a server: those with the same @model and layout id find each
 * other's blocks, and trust each other and the server. It is spoken with in plain text.
 *
 * It is asked by kvmm_tier_poll() and kvmm_tier_tick(), and nothing waits for it, but for
 * kvmm_tier_forget() and kvmm_reset_cache(). The first look-up of a name is answered
 * KVMM_TIER_RETRY. Without the server, blocks that only it has are misses, and blocks that go there
 * are dropped. See Documentation/remote.rst.
 */
struct kvmm_tier_remote_attr {
	size_t size;
	const char *address;
	const char *model;
	const char *user;
	const char *password;
	uint64_t deadline_ns;
	uint32_t ttl_s;
	uint32_t reserved;
};

#define KVMM_TIER_REMOTE_ATTR_INIT \
	{ sizeof(struct kvmm_tier_remote_attr), NULL, NULL, NULL, NULL, 0, 0, 0 }

/**
 * struct kvmm_tier_stat - one host tier
 * @units: that there will be in the end
 * @units_ready: that are there
 * @units_used: taken by blocks
 * @blocks: readable
 * @writing: being written
 * @pinned: readable, and being read
 * @clients: pools
 * @chunks: portions of memory
 * @unit_bytes: of a unit; 0 = ids only
 * @bytes_pinned: memory that copies need no staging for
 * @metadata_bytes: host memory besides
 * @stored, @evicted: copies since the creation
 * @demoted, @promoted: blocks written to the disk below, and read from there
 * @lost: of those evicted: without a copy below
 * @below_failed: of either that did not end well
 * @demoted_bytes, @promoted_bytes: what they moved
 * @demote_ns, @promote_ns: the time that each of them took, added up
 * @sim_blocks, @sim_dropped: of a simulated disk: blocks that it has, and that had to go for others
 * @hit_age: of each block that was loaded from here: how long its copy had been readable
 * @evict_age: the same of each copy that had to go
 * @remote_stored, @remote_got: blocks that were stored on the server below, and loaded from there
 * @remote_missed: loads of what was not there any more
 * @remote_wrong: loads that found something else: another name, length, epoch or content
 * @remote_failed: loads that the server did not answer, or not in time
 * @remote_dropped: blocks that it did not take, or not in time
 * @remote_late: loads, stores and look-ups that were over before they were answered
 * @remote_deleted: names that it has deleted
 * @remote_fences: epochs that this tier has begun, so that nothing of before is found
 * @remote_given_up: connections that were, or could not be made
 * @remote_deleting: names that it does not know yet to be deleted
 * @remote_away: 1 while it is not asked, as it failed
 */
struct kvmm_tier_stat {
	uint32_t units;
	uint32_t units_ready;
	uint32_t units_used;
	uint32_t blocks;
	uint32_t writing;
	uint32_t pinned;
	uint32_t clients;
	uint32_t chunks;
	uint64_t unit_bytes;
	uint64_t bytes_pinned;
	uint64_t metadata_bytes;
	uint64_t stored;
	uint64_t evicted;
	uint64_t demoted;
	uint64_t promoted;
	uint64_t lost;
	uint64_t below_failed;
	uint64_t demoted_bytes;
	uint64_t promoted_bytes;
	uint64_t demote_ns;
	uint64_t promote_ns;
	uint64_t sim_blocks;
	uint64_t sim_dropped;
	struct kvmm_residency_stat hit_age;
	struct kvmm_residency_stat evict_age;
	uint64_t remote_stored;
	uint64_t remote_got;
	uint64_t remote_missed;
	uint64_t remote_wrong;
	uint64_t remote_failed;
	uint64_t remote_dropped;
	uint64_t remote_late;
	uint64_t remote_deleted;
	uint64_t remote_fences;
	uint64_t remote_given_up;
	uint32_t remote_deleting;
	uint32_t remote_away;
};

/** kvmm_tier_get_stat() - as kvmm_tier_client_get_stat(). Return: 0; -EINVAL, -ECHILD. */
KVMM_API int kvmm_tier_get_stat(struct kvmm_tier *tier, struct kvmm_tier_stat *stat, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_DISK_H */
