/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was told of blocks, the last ones, by key: routers that hash tokens themselves want them in
 * events, and a pool knows keys only.
 *
 * Bounded: the newest take the places of the oldest. Threads that register put, the publisher's
 * gets; one lock, which no thread holds for more than the copy of a block.
 */
#ifndef CTL_STASH_H
#define CTL_STASH_H

#include <kv/lock.h>
#include <kvmm/ext/control.h>

struct stash {
	/* Fixed at creation. */
	u32		nr_places;	/* 0: none are kept */
	u32		block_tokens;
	u32		note_bytes;	/* room a place */
	u32		nr_buckets;	/* a power of two */
	u64		secret;

	struct kv_lock	lock;
	struct stash_place *place;	/* ->lock */
	u32		*token;		/* ->lock; block_tokens a place */
	u8		*note;		/* ->lock; note_bytes a place */
	u32		*bucket;	/* ->lock */
	u32		oldest;		/* ->lock; in a ring by age: before it is the newest */
};

/* Of one block. */
struct stash_copy {
	u32	*token;			/* room for block_tokens; NULL once it is read: not told */
	u8	*note;			/* room for note_bytes */
	u32	note_bytes;
};

/* @nr_places 0: none are kept, and none of these calls does anything. 0; -EINVAL, -ENOMEM. */
int stash_init(struct stash *stash, u32 nr_places, u32 block_tokens, u32 note_bytes);
void stash_exit(struct stash *stash);
/* Instead of what was told of @key before. @from->token: NULL: not told. */
void stash_put(struct stash *stash, const kvmm_key_t *key, const struct stash_copy *from);
/* false: not known, or not any more. */
bool stash_get(struct stash *stash, const kvmm_key_t *key, struct stash_copy *to);

/* What is told besides tokens, as bytes of a place. */

/* All but the length of keys and tokens. 0; -EINVAL; -ENOSPC it is more than any block can have. */
int stash_note_check(const struct kvmm_publisher_note *note);
/* Of block @i: how many bytes; 0: nothing is told; -ENOSPC. */
int stash_note_pack(const struct kvmm_publisher_note *note, u32 i, u32 block_tokens, u8 *buf,
		    u32 room);
/* Of what stash_note_pack() has written; @block borrows it. */
void stash_note_read(const u8 *buf, u32 bytes, struct kvmm_wire_block *block);

#endif /* CTL_STASH_H */
