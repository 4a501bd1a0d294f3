/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of the disk, to the byte. Little endian; the rules are in Documentation/disk.rst.
 *
 *	file	 super A | B | C | marks A | B | C | segment 0 | segment 1 | ...
 *	segment	 head | record | record | ... | (unused) | headers again | footer
 *	record	 header | payload | zeros up to a whole page
 *
 * Everything begins at a page. A reader trusts nothing: unless magic, version, store, place and
 * checksum are right, it is as if there were nothing.
 */
#ifndef KV_DISK_H
#define KV_DISK_H

#include <kv/types.h>
#include <kvmm/ext/disk.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "written as it is in memory");

#define KV_DISK_PAGE		KVMM_DISK_PAGE
#define KV_DISK_VERSION		3u
#define KV_DISK_FILE		"store"
#define KV_DISK_NR_COPIES	3u	/* of superblock and marks: any two may be bad or old */
#define KV_DISK_SUPER_BYTES	(KV_DISK_NR_COPIES * KV_DISK_PAGE)
#define KV_DISK_MAX_MARK_PAGES	4096u		/* in each copy */
/* Up to segment 0, of the smallest stores: with one page of marks in each copy. */
#define KV_DISK_FRONT_BYTES	(KV_DISK_SUPER_BYTES + KV_DISK_NR_COPIES * KV_DISK_PAGE)

#define KV_DISK_SUPER_MAGIC	0x727075736d6d766bull	/* "kvmmsupr" */
#define KV_DISK_HEAD_MAGIC	0x6d6765736d6d766bull	/* "kvmmsegm" */
#define KV_DISK_RECORD_MAGIC	0x6372766bu		/* "kvrc" */
#define KV_DISK_FOOTER_MAGIC	0x746f6f666d6d766bull	/* "kvmmfoot" */
#define KV_DISK_MARKS_MAGIC	0x6b72616d6d6d766bull	/* "kvmmmark" */

/* The copy with the highest epoch counts. Versions differ behind ->version only. */
struct kv_disk_super {
	u64	magic;
	u32	version;
	u32	page_bytes;
	u64	uuid[2];
	u64	epoch;		/* superblocks written so far; KVMM_DISK_RESET goes on from there */
	u32	segment_bytes;
	u32	nr_segments;
	u64	oldest;		/* segments' uses before that one are void */
	u32	mark_pages;	/* in each copy of the marks */
	u32	crc;		/* of all before it */
};

struct kv_disk_head {
	u64	magic;
	u32	version;
	u32	segment;	/* its own number */
	u64	uuid[2];
	u64	seq;		/* of this use: higher is younger */
	u32	segment_bytes;
	u8	zero[16];
	u32	crc;
};

enum {
	KV_DISK_DEAD	= 1 << 0,	/* wiped: not to be found again */
};

struct kv_disk_record {
	u32	magic;
	u16	version;
	u16	flags;		/* KV_DISK_DEAD */
	u64	uuid[2];
	u64	seq;		/* of its segment */
	u32	page;		/* where it is in the segment */
	u32	bytes;		/* payload */
	u64	sum;		/* XXH64 of the payload, seed 0 */
	u64	position;
	u8	value;
	u8	zero;
	u16	parent_bytes;
	u32	zero2;
	struct kvmm_disk_name name;
	u8	parent[KVMM_DISK_MAX_KEY];
	u8	zero3[28];
	u32	crc;
};

/* In the last page of a segment; the headers stand in the pages before it. */
struct kv_disk_footer {
	u64	magic;
	u32	version;
	u32	nr_records;
	u64	uuid[2];
	u64	seq;
	/*
	 * XXH64 of nr_records headers, one after the other. No CRC: each of them ends in its own,
	 * so that the CRC of all of them would be the same number for any headers.
	 */
	u64	headers_sum;
	u8	zero[12];
	u32	crc;
};

/* Records of that name in places before that one are void. */
struct kv_disk_mark {
	u64	name;		/* XXH64 of the store's number and the name */
	u64	before;		/* number of the segment's use * 65536 + page */
};

#define KV_DISK_NR_MARKS	252u

/*
 * A page of each copy of the marks; the one with the highest count counts. All 0: it was never
 * written. Name n stands in page (n >> 32) * mark_pages >> 32.
 */
struct kv_disk_marks {
	u64	magic;
	u32	version;
	u32	number;		/* of the page in its copy */
	u64	uuid[2];
	u64	count;		/* epoch it was made in << 32, and how often it was written */
	u64	before;		/* of all names that stand, or would stand, in this page */
	struct kv_disk_mark mark[KV_DISK_NR_MARKS];
	u32	nr;		/* used ones */
	u8	zero[8];
	u32	crc;
};

static_assert(sizeof(struct kv_disk_marks) == KV_DISK_PAGE, "part of the format");
static_assert(sizeof(struct kvmm_disk_name) == 96, "part of the format");
static_assert(sizeof(struct kv_disk_super) == 64, "part of the format");
static_assert(sizeof(struct kv_disk_head) == 64, "part of the format");
static_assert(sizeof(struct kv_disk_record) == 256, "part of the format");
static_assert(sizeof(struct kv_disk_footer) == 64, "part of the format");
static_assert(offsetof(struct kv_disk_record, page) == 32 &&
	      offsetof(struct kv_disk_record, sum) == 40 &&
	      offsetof(struct kv_disk_record, name) == 64 &&
	      offsetof(struct kv_disk_record, crc) == 252, "part of the format");
static_assert(offsetof(struct kv_disk_footer, headers_sum) == 40, "part of the format");

/* CRC-32C (Castagnoli) as in iSCSI, and XXH64. */
u32 kv_disk_crc(const void *data, size_t bytes);
u64 kv_disk_sum(const void *data, size_t bytes);

/* Seals a structure that ends in its crc. */
#define kv_disk_seal(thing) \
	((thing)->crc = kv_disk_crc((thing), sizeof(*(thing)) - sizeof(u32)))
#define kv_disk_is_sealed(thing) \
	((thing)->crc == kv_disk_crc((thing), sizeof(*(thing)) - sizeof(u32)))

/* kvmm_disk_get_stat() in passing, without the lock: each number of its own moment. */
struct kvmm_disk;
struct kvmm_disk_stat;
void kv_disk_glance(const struct kvmm_disk *disk, struct kvmm_disk_stat *stat);

/* kv_tier_ops.tell and .next_name, of stores with KVMM_DISK_NAMES. Take the store's lock. */
struct kv_feed;
struct kv_tier_name;
void kv_disk_listen(void *store, u32 number, u64 layout, struct kv_feed *feed);
bool kv_disk_next_name(void *store, u64 layout, u64 *cursor, struct kv_tier_name *name);

/** What kv_disk_lookup() says. */
enum kv_disk_answer {
	KV_DISK_MISS,
	KV_DISK_HIT,		/**< a read will most likely succeed */
	KV_DISK_PENDING,	/**< is being written: ask again later */
};

/** For kv_disk_forget(). */
enum {
	KV_DISK_WIPE = 1u << 0,	/**< for good: it is not there after an opening, either */
};

/* Recount everything that is in memory: 0; -EUCLEAN, and the log says what is wrong. */
int kv_disk_check(struct kvmm_disk *disk);

/**
 * struct kv_disk_done - what became of one record
 * @tag: of its submission
 * @index: in it
 * @status: 0 or -errno, as kvmm_disk_put() and kvmm_disk_get() have it; of a put -ECANCELED it was
 *	forgotten meanwhile, -EAGAIN the last segments are not finished yet: put it again later
 * @bytes: length of the record, if @status is 0 or -ENOBUFS
 * @is_put: what it was
 */
struct kv_disk_done {
	u64 tag;
	u32 index;
	s32 status;
	u32 bytes;
	bool is_put;
};

/*
 * Write or read records as kvmm_disk_put() and kvmm_disk_get() do, but do not wait for the disk,
 * unless the file is made longer by a segment. Each record gets a completion, until which
 * its data is borrowed. 0; -EINVAL, -ENOMEM nothing was done.
 */
int kv_disk_submit_put(struct kvmm_disk *disk, const struct kvmm_disk_put_args *puts, u32 nr,
		       u32 flags, u64 tag);
int kv_disk_submit_get(struct kvmm_disk *disk, const struct kvmm_disk_get_args *gets, u32 nr,
		       u64 tag);

/*
 * Carry submissions on, and fetch completions, in no order: how many. Without io_uring the call
 * itself reads and writes, waiting for the disk, until there is a completion to return; with it, it
 * computes checksums. Any thread, no lock held. Closing a store loses completions that were not
 * fetched.
 */
u32 kv_disk_poll(struct kvmm_disk *disk, struct kv_disk_done *done, u32 max);

/* By fingerprint, from memory. */
enum kv_disk_answer kv_disk_lookup(struct kvmm_disk *disk, const struct kvmm_disk_name *name);

/*
 * Drop records: how many were there; -EINVAL; -ENOMEM nothing was done; -EIO, ...: none of them is
 * there, but any may be after the next opening. KV_DISK_WIPE: no record put before the call is a
 * hit again, even if the process, the power or any page of the file fails; three flushes for all
 * names of a call. The store remembers 252 names for each 4 MiB (a million at most); beyond that
 * the next opening may miss records, the oldest. Without it, what is still on disk at the next
 * opening is a hit.
 */
int kv_disk_forget(struct kvmm_disk *disk, const struct kvmm_disk_name *names, u32 nr, u32 flags);

/*
 * Drop all records for good, by one number in the superblock: how many there were; -EIO, ...:
 * nothing is there, but what was may be after the next opening. Writes under way end with
 * -ECANCELED.
 */
int64_t kv_disk_reset(struct kvmm_disk *disk);

struct kvmm_tier;
struct kvmm_tier_disk_attr;

/** kv_tier_set_disk() - once, and before there are clients; see &struct kvmm_tier_attr.disk */
int kv_tier_set_disk(struct kvmm_tier *tier, struct kvmm_disk *disk,
		     const struct kvmm_tier_disk_attr *attr);

#endif /* KV_DISK_H */
