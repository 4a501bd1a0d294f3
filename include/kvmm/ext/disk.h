/* SPDX-License-Identifier: Apache-2.0 */
/* The disk tier, and tiers that a file of settings describes. */
#ifndef KVMM_EXT_DISK_H
#define KVMM_EXT_DISK_H

#include <kvmm/metrics.h>
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
 * Callers submit reads and writes, and poll for their completions. Any thread may make any call at
 * any time, except for closing. No call waits for the disk unless it says so, apart from the 4 KiB
 * written to open the next segment.
 *
 * The format of the file is in Documentation/disk.rst, to the byte.
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
 * Completions not polled for are lost; the buffers are free on return. Records that were put are
 * there after the next opening.
 *
 * Context: waits for the disk; no kvmm lock held.
 */
KVMM_API void kvmm_disk_close(struct kvmm_disk *disk);

/**
 * struct kvmm_disk_put_args - something to write
 * @name: its name
 * @data: borrowed until its completion; written without a copy if it is aligned to KVMM_DISK_PAGE,
 *	and @bytes are whole pages
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

/** For kvmm_disk_submit_put(). */
enum {
	KVMM_DISK_REPLACE = 1u << 0,	/**< write again what is there already */
};

KVMM_API int kvmm_disk_submit_put_sized(struct kvmm_disk *disk,
					const struct kvmm_disk_put_args *puts,
					uint32_t nr, uint32_t flags, uint64_t tag, size_t size);

/**
 * kvmm_disk_submit_put() - write records
 * @disk: the store
 * @puts: records, borrowed during the call; records that follow each other go into one write
 * @nr: 1 to KVMM_DISK_MAX_BATCH
 * @flags: KVMM_DISK_REPLACE
 * @tag: comes back in the completions
 *
 * Each record gets a completion, with status 0 when it was written and can be read; -EEXIST a
 * record of that name is there or being written; -EAGAIN the last segments are not finished yet,
 * put it again later; -EROFS too many writes failed; -ECANCELED it was aborted, or forgotten
 * meanwhile; -EIO, -ENOSPC, ... of the system; -E2BIG too many different lengths and layouts (1024)
 * at a time.
 *
 * Context: any thread.
 * Return: 0; -EINVAL bad @puts, nothing was done; -ENOMEM likewise.
 */
static inline int kvmm_disk_submit_put(struct kvmm_disk *disk,
				       const struct kvmm_disk_put_args *puts,
				       uint32_t nr, uint32_t flags, uint64_t tag)
{
	return kvmm_disk_submit_put_sized(disk, puts, nr, flags, tag, sizeof(*puts));
}

/**
 * struct kvmm_disk_get_args - something to read
 * @name: its name
 * @data: where to; borrowed until its completion. Read without a copy if it is aligned to
 *	KVMM_DISK_PAGE, and @room is enough for whole pages. Undefined after a failure
 * @room: bytes at @data, all of which may be written to
 */
struct kvmm_disk_get_args {
	struct kvmm_disk_name name;
	void *data;
	uint32_t room;
};

KVMM_API int kvmm_disk_submit_get_sized(struct kvmm_disk *disk,
					const struct kvmm_disk_get_args *gets,
					uint32_t nr, uint64_t tag, size_t size);

/**
 * kvmm_disk_submit_get() - read records
 * @disk: the store
 * @gets: borrowed during the call; those that lie one after the other are read at one go
 * @nr: 1 to KVMM_DISK_MAX_BATCH
 * @tag: comes back in the completions
 *
 * Each record gets a completion, with status 0 when all of it was read and verified; -ENOENT it is
 * not there, or not any more; -EAGAIN it is being written; -ENOBUFS @room is too small; -EBADMSG
 * what was read is not what was written (the record is dropped); -ECANCELED it was aborted; -EIO,
 * ... of the system (the record is dropped).
 *
 * Context: any thread; does not wait for the disk.
 * Return: 0; -EINVAL bad @gets, nothing was done; -ENOMEM likewise.
 */
static inline int kvmm_disk_submit_get(struct kvmm_disk *disk,
				       const struct kvmm_disk_get_args *gets,
				       uint32_t nr, uint64_t tag)
{
	return kvmm_disk_submit_get_sized(disk, gets, nr, tag, sizeof(*gets));
}

/**
 * struct kvmm_disk_done - what became of one record
 * @tag: of its submission
 * @index: in it
 * @status: 0 or -errno: see there
 * @bytes: length of the record, if @status is 0 or -ENOBUFS
 * @is_put: what it was
 *
 * Fixed: what the submission does not say; @tag leads to that.
 */
struct kvmm_disk_done {
	uint64_t tag;
	uint32_t index;
	int32_t status;
	uint32_t bytes;
	uint32_t is_put;
};

/**
 * kvmm_disk_poll() - carry submissions on, and fetch completions
 * @disk: the store
 * @done: filled in, in no order
 * @max: room in @done
 *
 * Without io_uring the call itself reads and writes, waiting for the disk, until there is a
 * completion to return. With io_uring it computes checksums.
 *
 * Context: any thread, no kvmm lock held.
 * Return: the number of @done.
 */
KVMM_API int kvmm_disk_poll(struct kvmm_disk *disk, struct kvmm_disk_done *done, uint32_t max);

KVMM_API int kvmm_disk_put_sized(struct kvmm_disk *disk, const struct kvmm_disk_put_args *puts,
				 uint32_t nr, uint32_t flags, int32_t *status, size_t size);

/**
 * kvmm_disk_put() - write records, and wait for it
 * @disk: the store
 * @puts: as for kvmm_disk_submit_put()
 * @nr: likewise
 * @flags: likewise
 * @status: filled in, one for each; may be NULL. As in completions, but waits -EAGAIN out
 *
 * Context: waits for the disk; no kvmm lock held.
 * Return: the number of records written or there already; -EINVAL, -ENOMEM.
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
 * @gets: as for kvmm_disk_submit_get()
 * @nr: likewise
 * @status: filled in, one for each: the length, or the status of the completion; may be NULL
 *
 * Context: waits for the disk; no kvmm lock held.
 * Return: the number of records read; -EINVAL, -ENOMEM.
 */
static inline int kvmm_disk_get(struct kvmm_disk *disk, const struct kvmm_disk_get_args *gets,
				uint32_t nr, int32_t *status)
{
	return kvmm_disk_get_sized(disk, gets, nr, status, sizeof(*gets));
}

/**
 * kvmm_disk_sync() - make records written so far survive a loss of power
 * @disk: the store
 *
 * Records whose completion came later than the call may or may not survive.
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
 * @view: filled in on success
 *
 * Nothing is written, locked or kept: listings show what is on disk at that moment, forgotten and
 * replaced records included, wiped ones not. A segment may be used again meanwhile.
 *
 * Context: waits for the disk.
 * Return: 0; -ENOENT, -ELOOP, -ENOTDIR, -EACCES; -EBADMSG no superblock can be read;
 * -EPROTONOSUPPORT another version; -ENOMEM; -EIO.
 */
KVMM_API int kvmm_disk_view_open(const char *path, struct kvmm_disk_view **view);

/** kvmm_disk_view_close() - or NULL. */
KVMM_API void kvmm_disk_view_close(struct kvmm_disk_view *view);

/**
 * kvmm_disk_view_get_info() - what the store is; the caller sets @info->size. Return: 0; -EINVAL.
 */
KVMM_API int kvmm_disk_view_get_info(struct kvmm_disk_view *view, struct kvmm_disk_view_info *info);

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
 * @host, @client, @knobs, @disk, @disk_use: filled in before, each with its size set; changed on
 *	success only. NULL: keys for it are checked all the same
 * @nr_set: out: values that were set
 * @line: out: of the error, from 1 on; 0: no line is to blame
 * @error: out: a sentence, empty on success
 * @names: strings that @host and @disk point to from then on; 0 at first, each call adds its own
 * @names_bytes: of them, in use
 * @set: out: bit n: kvmm_config_key(n) was set
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
};

#define KVMM_CONFIG_INIT { sizeof(struct kvmm_config), NULL, NULL, NULL, NULL, NULL, 0, 0, \
			   "", "", 0, 0, 0 }

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

/**
 * kvmm_config_key() - the keys that there are
 * @number: from 0 on
 *
 * Return: its name, or NULL behind the last one.
 */
KVMM_API const char *kvmm_config_key(uint32_t number);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_DISK_H */
