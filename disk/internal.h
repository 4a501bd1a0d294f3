/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of disk/.
 *
 *	index.c		names in memory: fingerprint -> place
 *	format.c	structures on disk, made and checked
 *	scan.c		the records of one segment, from its footer or one by one
 *	segment.c	where the next record goes; sealing, and using segments again
 *	reinsert.c	records that go along when their segment is used again
 *	io.c		requests to the system: waiting, under way, done
 *	request.c	submissions, and the completions of their records
 *	put.c, get.c	the two kinds of them
 *	recover.c	opening
 *	marks.c		names that were wiped
 *	store.c		the calls that are no transfers
 *	view.c		looking without opening
 *
 * One lock guards all that is in memory; no transfer and no checksum is under it, but for the 4 KiB
 * at the head of a segment. A second one serialises calls of the system's queue. Neither is taken
 * inside the other. A third one, outside of both, serialises the threads that wipe or reset: it is
 * held while they write marks and superblocks.
 */
#ifndef DISK_INTERNAL_H
#define DISK_INTERNAL_H

#include <kv/disk.h>
#include <kv/file.h>
#include <kv/latency.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/types.h>
#include <kvmm/tier.h>

#define DISK_MAX_CLASSES	1024u
#define DISK_NR_VALUES		256u
#define DISK_MAX_SEGMENTS	65535u
#define DISK_MAX_SEQ		(1ull << 47)
#define DISK_MAX_IO_BYTES	(1u << 20)	/* transfers are joined up to this */

/* ---- sums in pieces ---- */

struct disk_sum {
	u64	part[4];
	u64	bytes;
};

/* Pieces are multiples of 32 bytes, except for the last one. */
void disk_sum_begin(struct disk_sum *sum);
void disk_sum_add(struct disk_sum *sum, const void *data, size_t bytes);
u64 disk_sum_end(const struct disk_sum *sum, const void *tail);

/* ---- index ---- */

struct disk_fp {
	u64	word[2];
};

static inline bool disk_same_fp(struct disk_fp a, struct disk_fp b)
{
	return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

enum disk_state {
	DISK_EMPTY,
	DISK_WRITING,		/* has a place, cannot be read yet */
	DISK_LIVE,
};

/* A name. Small, since it is this that the number of records costs. */
struct disk_entry {
	struct disk_fp	fp;
	u16		segment;
	u16		page;
	u16		class;		/* layout, group, length */
	u8		value;
	u8		state;		/* enum disk_state */
};

static_assert(sizeof(struct disk_entry) == 24, "24 / 0.75 = 32 bytes a record");

/* The part that many records have in common. */
struct disk_class {
	u8	layout[16];
	u32	bytes;
	u32	nr;		/* entries of it; 0: unused */
	u16	group;
};

/* All under the store's lock. */
struct disk_index {
	struct disk_entry	*entry;		/* linear probing */
	u32			nr_slots;
	u32			nr;		/* not empty */
	u32			nr_live;
	u64			live_bytes;
	u64			secret[4];	/* fixed at creation */
	struct disk_class	*class;		/* DISK_MAX_CLASSES of them */
	u32			nr_classes;	/* ever used */
	u32			nr_of_value[DISK_NR_VALUES];	/* live ones */
	struct disk_known	*known;		/* by slot; NULL: names are not kept; see names.c */
};

int disk_index_init(struct disk_index *index);
void disk_index_exit(struct disk_index *index);
struct disk_fp disk_fp_of(const struct disk_index *index, const struct kvmm_disk_name *name);
struct disk_entry *disk_index_find(const struct disk_index *index, struct disk_fp fp);
/* Room for @nr more: 0 or -ENOMEM. */
int disk_index_reserve(struct disk_index *index, u32 nr);
/* A number for disk_entry.class, without a use: or -E2BIG. */
int disk_index_class(struct disk_index *index, const struct kvmm_disk_name *name, u32 bytes);
/* There is room, and none of this name. */
struct disk_entry *disk_index_add(struct disk_index *index, const struct disk_entry *entry);
/* Another entry may take its slot: pointers to entries are void. */
void disk_index_del(struct disk_index *index, struct disk_entry *entry);
void disk_index_set_state(struct disk_index *index, struct disk_entry *entry, u32 state);
void disk_index_set_value(struct disk_index *index, struct disk_entry *entry, u32 value);
/* The value that half of the live ones do not exceed. */
u32 disk_index_median(const struct disk_index *index);
int disk_index_check(const struct disk_index *index);

/* ---- names.c; as it says there ---- */

int disk_names_init(struct disk_index *index);
/* Room for so many slots, if names are kept; else NULL. */
struct disk_known *disk_names_resized(const struct disk_index *index, u32 nr_slots);
/* @to NULL: they are not. */
void disk_name_move(struct disk_known *to, u32 to_slot, const struct disk_known *from,
		    u32 from_slot);
u64 disk_names_bytes(const struct disk_index *index);
/* Is each the name of its fingerprint? */
bool disk_names_are_sound(const struct disk_index *index);

static inline u32 disk_entry_bytes(const struct disk_index *index, const struct disk_entry *entry)
{
	return index->class[entry->class].bytes;
}

/* ---- segments ---- */

enum disk_seg_state {
	SEG_ABSENT,		/* beyond the end of the file */
	SEG_FREE,		/* nothing in it */
	SEG_OPEN,		/* is being filled */
	SEG_SEALING,		/* full; writes are under way */
	SEG_FOOTER,		/* then the footer is, then the flush */
	SEG_SEALED,
};

/* All under the store's lock. */
struct disk_seg {
	u64			seq;
	u64			since_ns;	/* when this use of it, or of the store, began */
	u32			state;		/* enum disk_seg_state */
	u32			used_pages;	/* the head included; while open */
	u32			nr_entries;	/* in the index */
	u32			nr_writes;	/* of head and records: not sealed meanwhile */
	u32			nr_records;	/* in table; holes included */
	u32			table_room;
	struct kv_disk_record	*table;		/* until it is sealed; a hole: bytes = 0 */
	bool			failed;		/* a write to it did */
	bool			awaits_head;	/* its head is being written */
	s32			head_error;	/* what became of that */
	struct disk_io		*behind;	/* while it is: records that are written */
};

static inline u32 disk_pages(u32 bytes)
{
	return (bytes + KV_DISK_PAGE - 1) / KV_DISK_PAGE;
}

/* ---- requests ---- */

struct disk_req;

enum disk_kind {
	DISK_PUT,
	DISK_GET,
	DISK_COPY_GET,		/* of a record that goes along: read, then ... */
	DISK_COPY_PUT,		/* ... written elsewhere */
	DISK_HEAD,
	DISK_FOOTER,
	DISK_FLUSH,
};

/* One record of a request. */
struct disk_rec {
	struct disk_rec		*next;		/* ->lock, in the list of those that are done */
	struct disk_req		*req;
	struct kvmm_disk_name	name;		/* get: the one that has to be found there */
	struct disk_fp		fp;
	u64			seq;		/* of the segment when the place was looked up */
	u64			since_ns;	/* get: the same */
	char			*data;		/* caller's */
	char			*bounce;	/* ours, page aligned; NULL: data serves */
	struct kv_disk_record	*header;	/* its page */
	u32			bytes;
	u32			room;		/* of data */
	u32			slot;		/* put: in the segment's table */
	s32			status;
	u16			segment;
	u16			page;
	bool			is_placed;
	bool			is_orphan;	/* put: its entry went away meanwhile */
	bool			wants_bounce;
};

/* One transfer of consecutive records. */
struct disk_io {
	struct kv_file_io	io;
	struct disk_io		*next;		/* ->lock, in a list of those that wait */
	struct disk_req		*req;
	struct kv_iov		*iov;		/* all of it */
	u32			first;		/* record */
	u32			nr;
	u32			nr_retries;
	u64			bytes;		/* to go */
	int			err;
};

struct disk_req {
	struct disk_req		*next;		/* in a list of those that are freed */
	u64			tag;
	u32			kind;		/* enum disk_kind */
	u32			flags;
	u32			nr;
	u32			nr_left;	/* ->lock; records with completions not delivered */
	u32			nr_ios;
	u32			segment;	/* of a head, a footer or a flush */
	u32			old_segment;	/* of a copy: where it was read */
	u32			old_page;
	u64			old_seq;
	bool			waited_for;	/* a thread waits: no completions */
	struct disk_rec		*rec;
	struct disk_io		*io;		/* as many as records, at least 1 */
	struct kv_iov		*iov;
	char			*pages;		/* headers, page aligned */
	char			*bounce;
	void			*pages_base;
	void			*bounce_base;
};

/* The records of a segment that go along. */
struct disk_drain {
	u64			seq;		/* 0: none */
	u64			last_seq;	/* of the last one that was chosen from */
	u32			segment;
	u32			nr, next;
	struct disk_entry	*entry;		/* as they were */
	bool			busy;		/* one is under way */
};

/* A pool that is told of names. */
struct disk_listener {
	struct kv_feed		*feed;		/* borrowed; NULL: none */
	u64			layout;		/* of records that it can find */
};

/* Where things are; fixed at opening. */
struct disk_shape {
	u64	uuid[2];
	u64	front_bytes;		/* up to segment 0 */
	u32	segment_bytes;
	u32	pages;			/* of a segment */
	u32	nr_segments;
	u32	mark_pages;
	u64	epoch;			/* at opening: pages of marks count from there on */
};

/* Names that were wiped. */
struct disk_marks {
	struct kv_disk_marks **page;	/* by number; NULL: an empty one */
	u8	*dirty;			/* by number: to be written */
	char	*io;			/* a page for transfers, aligned */
	void	*io_base;
	u64	last_seq;		/* the youngest use that was found in any */
};

struct kvmm_disk {
	/* Fixed at opening. */
	const struct kv_file_ops *ops;
	int			file;
	int			dir;
	bool			is_direct;
	bool			is_locked;
	void			*queue;		/* NULL: pollers do its work */
	u32			depth;
	u64			max_bytes;
	struct disk_shape	shape;

	struct kv_lock		wipe_lock;	/* before ->lock */
	struct disk_marks	marks;		/* ->wipe_lock */
	struct kv_disk_super	super;		/* ->wipe_lock; as it was written last */

	struct kv_lock		lock;
	struct disk_index	index;		/* ->lock */
	struct disk_seg		*seg;		/* ->lock */
	u64			file_bytes;	/* ->lock */
	u64			seq;		/* ->lock; the last one given out */
	u32			open;		/* ->lock; KV_NONE: none */
	u32			nr_failed;	/* ->lock; in a row: segments with failed writes */
	bool			read_only;	/* ->lock */
	bool			extends;	/* ->lock; a thread makes the file longer */
	struct disk_drain	drain;		/* ->lock */
	struct disk_io		*waiting;	/* ->lock */
	struct disk_io		**waiting_end;	/* ->lock */
	struct disk_rec		*done;		/* ->lock */
	struct disk_rec		**done_end;	/* ->lock */
	u32			nr_active;	/* ->lock; transfers not finished, or waiting */
	struct kvmm_disk_stat	count;		/* ->lock; events only: see kv_disk_glance() */
	struct disk_listener	listener[KVMM_TIER_CLIENTS];	/* ->lock */

	u32			tick;		/* atomic; another transfer is finished */
	struct kv_lock		queue_lock;	/* before ->lock */
	u32			nr_queued;	/* ->queue_lock */
};

/* ---- format.c ---- */

static inline bool disk_is_segment_size(u32 bytes)
{
	return bytes >= KVMM_DISK_MIN_SEGMENT && bytes <= KVMM_DISK_MAX_SEGMENT &&
	       !(bytes & (bytes - 1));
}

u64 disk_offset(const struct disk_shape *shape, u32 segment, u32 page);
bool disk_super_is_good(const struct kv_disk_super *super);
u64 disk_front_bytes(u32 mark_pages);
struct disk_shape disk_shape_of(const struct kv_disk_super *super);
void disk_head_fill(const struct disk_shape *shape, u32 segment, u64 seq,
		    struct kv_disk_head *head);
bool disk_head_is_good(const struct disk_shape *shape, u32 segment,
		       const struct kv_disk_head *head);
void disk_footer_fill(const struct disk_shape *shape, u64 seq, const struct kv_disk_record *records,
		      u32 nr, struct kv_disk_footer *footer);
bool disk_footer_is_good(const struct disk_shape *shape, u64 seq,
			 const struct kv_disk_footer *footer);
/* Is it one of this store, use and place, and all inside its segment? */
bool disk_record_is_good(const struct disk_shape *shape, u64 seq,
			 const struct kv_disk_record *record);
bool disk_name_is_good(const struct kvmm_disk_name *name);
void disk_entry_of_record(const struct kv_disk_record *record, u32 segment,
			  struct kvmm_disk_entry *entry);
/* Pages that a footer of @nr headers takes. */
u32 disk_footer_pages(u32 nr);
/* Most payload of one record. */
u32 disk_max_record(const struct disk_shape *shape);

/* ---- scan.c ---- */

#define DISK_CHUNK_PAGES	64u

/* The records of one segment; a page or a footer is read ahead. */
struct disk_scan {
	const struct kv_file_ops *ops;
	int			file;
	const struct disk_shape	*shape;
	u32			segment;
	u64			seq;
	bool			is_sealed;
	u32			nr;		/* of a footer */
	u32			next;		/* of them, or the next page */
	u32			end;		/* without a footer: page behind the last record */
	u32			ahead_first, ahead_nr;
	u32			ahead_max;	/* one, where not all can be read */
	struct kv_disk_record	*headers;	/* of a footer */
	void			*headers_base;
	char			*page;		/* one, aligned */
	char			*chunk;		/* DISK_CHUNK_PAGES, for payload */
	char			*ahead;		/* as many: pages ahead_first ... */
	void			*base;
};

int disk_scan_init(struct disk_scan *scan, const struct kv_file_ops *ops, int file,
		   const struct disk_shape *shape);
void disk_scan_exit(struct disk_scan *scan);
/* Only the number of its use. 0; -ENOENT: nothing of this store; or -errno. */
int disk_scan_head(struct disk_scan *scan, u32 segment);
/* The same, and the footer. */
int disk_scan_begin(struct disk_scan *scan, u32 segment);
/* 1, or 0 at the end. */
int disk_scan_next(struct disk_scan *scan, struct kv_disk_record *record);
/* Is the payload the header's? 0, -EBADMSG, or -errno. */
int disk_scan_verify(struct disk_scan *scan, const struct kv_disk_record *record);

/* @bytes, zeroed, from a page border on; *@base is for kv_free(). */
void *disk_alloc_pages(size_t bytes, void **base);

/* ---- segment.c: under the store's lock, except where it says otherwise ---- */

/*
 * A place for a record of @rec->bytes: fills in segment, page, slot and seq, and counts the room as
 * used, and the write as under way. 0; -EAGAIN, -EROFS, -ENOMEM; -EFBIG: disk_extend() comes first;
 * or, if that has failed with @no_room, and no segment can be used again, that. May open the next
 * segment.
 */
int disk_place(struct kvmm_disk *disk, struct disk_rec *rec, int no_room);
/*
 * Drops the lock and takes it again. The file is longer by a segment, or another thread was at it:
 * 0; else why there is no room.
 */
int disk_extend(struct kvmm_disk *disk);
/* That many writes to it are over, as one: it may be sealed now. */
void disk_write_over(struct kvmm_disk *disk, u32 segment, u32 nr, bool failed);
/* No more goes into the open segment. */
void disk_close_segment(struct kvmm_disk *disk);
/* Room for one more header in the table of @seg: 0 or -ENOMEM. */
int disk_table_reserve(struct disk_seg *seg);
void disk_table_free(struct disk_seg *seg);
/* Add and drop entries here, so that segments know how many they have. */
void disk_entry_add(struct kvmm_disk *disk, const struct disk_entry *entry);
void disk_entry_drop(struct kvmm_disk *disk, struct disk_entry *entry);
/* The entry of @rec, if it is the one with that very place. */
struct disk_entry *disk_entry_of(struct kvmm_disk *disk, const struct disk_rec *rec);
/*
 * Records are written, or not. True: the head of their segment is not yet, and they are over when
 * that is. A head that could not be written is their error, too. Takes the lock.
 */
bool disk_awaits_head(struct kvmm_disk *disk, struct disk_io *io);
/* The head is done. Takes the lock. */
void disk_head_over(struct kvmm_disk *disk, struct disk_io *io);
/* The footer, or the flush behind it, is done. Takes the lock. */
void disk_footer_over(struct kvmm_disk *disk, struct disk_io *io);
int disk_segments_check(struct kvmm_disk *disk);

/* ---- reinsert.c ---- */

/* Under the lock: choose the records that go along of a segment that will be used again. */
void disk_drain_begin(struct kvmm_disk *disk, u32 segment);
void disk_drain_end(struct kvmm_disk *disk);
/* Start the next record, unless one is under way. Takes the lock. */
void disk_drain_step(struct kvmm_disk *disk);
/* It was read, or written. */
void disk_copy_read(struct kvmm_disk *disk, struct disk_req *req, int err);
void disk_copy_written(struct kvmm_disk *disk, struct disk_io *io);

/* ---- io.c ---- */

/* To the end of those that wait. Under the lock. */
void disk_io_queue(struct kvmm_disk *disk, struct disk_io *io);
/* Hand on transfers that wait; or a thread that is at the queue does, when it leaves it. */
void disk_io_pump(struct kvmm_disk *disk);
/* Finish some transfers, waiting for one if @wait: were there any? */
bool disk_io_progress(struct kvmm_disk *disk, bool wait);
/* A moment, or until a transfer is finished. */
void disk_io_nap(struct kvmm_disk *disk);
/* Until nothing is under way. */
void disk_io_drain(struct kvmm_disk *disk);

/* ---- request.c ---- */

/* With a page for each record's header. */
struct disk_req *disk_req_alloc(u32 kind, u32 nr);
void disk_req_free(struct disk_req *req);
/* Whole pages for each record that wants_bounce: 0 or -ENOMEM. */
int disk_req_bounce(struct disk_req *req);
/* Transfer of records [first, first + nr) of one segment, one behind the other. */
struct disk_io *disk_req_io(struct kvmm_disk *disk, struct disk_req *req, u32 first, u32 nr);
/* How many records from @first on go into one transfer. */
u32 disk_req_joined(const struct disk_req *req, u32 first);
/* Until all of @req is done. */
void disk_req_wait(struct kvmm_disk *disk, struct disk_req *req);
/* @rec has its status. Under the lock; the request may be gone afterwards. */
void disk_rec_done(struct kvmm_disk *disk, struct disk_rec *rec, s32 status);
/* A transfer is over, @io->err says how. No lock held; @io may be gone afterwards. */
void disk_io_over(struct kvmm_disk *disk, struct disk_io *io);
/* The same of one that writes records, which waits for no head any more. */
void disk_records_over(struct kvmm_disk *disk, struct disk_io *io);

/* ---- put.c, get.c ---- */

void disk_put_over(struct kvmm_disk *disk, struct disk_io *io);
void disk_get_over(struct kvmm_disk *disk, struct disk_io *io);
/* The result of the read for @rec: 0, -EBADMSG, or -ENOENT if it is dead. */
int disk_rec_verify(const struct kvmm_disk *disk, const struct disk_rec *rec);

/* ---- recover.c ---- */

/*
 * The good superblock with the highest epoch, and how many are good. 0; -EBADMSG: there is none; or
 * -errno: one that cannot be read might have been.
 */
int disk_read_supers(const struct kv_file_ops *ops, int file, void *page,
		     struct kv_disk_super *super, u32 *nr_good);
int disk_recover(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr);
/* ->super in all its places: 0, or why it is not on disk. ->wipe_lock held. */
int disk_write_supers(struct kvmm_disk *disk);

/* ---- store.c ---- */

/* From memory: how many there were. */
u32 disk_drop_names(struct kvmm_disk *disk, const struct kvmm_disk_name *names, u32 nr);

/* ---- marks.c; ->wipe_lock held, but for views ---- */

int disk_marks_init(struct disk_marks *marks, const struct disk_shape *shape);
void disk_marks_exit(struct disk_marks *marks, const struct disk_shape *shape);
/* From the disk; copies that differ are dirty. A page in no copy is void up to the last use. */
int disk_marks_load(struct disk_marks *marks, struct disk_scan *scan, u64 file_bytes);
/* Is the record of that name there void? */
bool disk_marks_has(const struct disk_marks *marks, const struct disk_shape *shape,
		    const struct kv_disk_record *record);
/* Dirty pages, in all copies: 0, or why they are not on disk. */
int disk_marks_write(struct kvmm_disk *disk);
/* kv_disk_forget() with KV_DISK_WIPE. */
int disk_wipe(struct kvmm_disk *disk, const struct kvmm_disk_name *names, u32 nr);

/* ---- names.c, under the lock where not said otherwise ---- */

void __disk_entry_name(struct kvmm_disk *disk, struct disk_fp fp, const struct kvmm_disk_name *name,
		 u64 position);
void __disk_tell(struct kvmm_disk *disk, const struct disk_entry *entry, u32 kind);

/* The entry of @fp, which was added just now, is called so. */
static inline void disk_entry_name(struct kvmm_disk *disk, struct disk_fp fp,
			     const struct kvmm_disk_name *name, u64 position)
{
	if (disk->index.known)
		__disk_entry_name(disk, fp, name, position);
}

/* A LIVE one can be found from now on, or is about to go. */
static inline void disk_tell(struct kvmm_disk *disk, const struct disk_entry *entry, u32 kind)
{
	if (disk->index.known)
		__disk_tell(disk, entry, kind);
}

#endif /* DISK_INTERNAL_H */
