/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A feed: news of a pool's names, as records in a ring. Their meanings: <kvmm/event.h>.
 *
 * The thread that makes a name appear or disappear writes the record, under the lock by which that
 * is decided (a bucket's, a tier's), and after it has been done:
 *
 *  - so records of one name in one medium are in the order in which they happened;
 *  - so a reader that reads the head of the ring first, and then looks whether a name is there, has
 *    seen all that records below the head tell of. Together with the records from there on it
 *    knows the name's state: that is how snapshots are made while all threads go on.
 */
#ifndef KV_REGISTRY_FEED_H
#define KV_REGISTRY_FEED_H

#include <kv/entry.h>
#include <kv/ring.h>

/*
 * Records besides those of <kvmm/event.h>. KEPT: a block has lost a name that another one still
 * has. Only a maker of a snapshot needs it: it may have passed the other one before it came.
 */
#define KV_FEED_KEPT		15u

/* The block before, by entry. */
struct kv_feed_parent {
	u64 key[2];		/* atomic; owner, while PRIVATE */
	u64 known;		/* atomic; 0 or 1; the same */
};

struct kv_feed {
	/* Fixed at creation. */
	struct kv_ring		ring;
	struct kv_feed_parent	*parent;	/* ours; by entry */

	u32			kinds;		/* atomic; bits: a consumer reads these */
};

/* The sixth word: position, and kind, medium and flags of <kvmm/event.h>. */
#define KV_FEED_KIND_SHIFT	32
#define KV_FEED_MEDIUM_SHIFT	40
#define KV_FEED_FLAGS_SHIFT	48

static inline u64 kv_feed_info(u32 position, u32 kind, u32 medium, u32 flags)
{
	return position | (u64)kind << KV_FEED_KIND_SHIFT | (u64)medium << KV_FEED_MEDIUM_SHIFT |
	       (u64)flags << KV_FEED_FLAGS_SHIFT;
}

/* If there is a consumer; else NULL. @at is written once. */
static __always_inline struct kv_feed *kv_feed_of(struct kv_feed *const *at)
{
	/* Pairs with publish_feed() and kv_tier_tell(): its target is made. */
	struct kv_feed *feed = smp_load_acquire(at);

	return likely(!feed) || !READ_ONCE(feed->kinds) ? NULL : feed;
}

/*
 * Name @index. @kind: KVMM_EVENT_STORED, KVMM_EVENT_REMOVED, or as above. Of added ones the block
 * before is not known.
 */
void kv_feed_entry(struct kv_feed *feed, u32 kind, const struct kv_entries *entries, u32 index);

/* @key of @medium, without a parent. */
struct kv_feed_name {
	u64 key[2];
	u64 domain;
	u32 position;
};

void kv_feed_name(struct kv_feed *feed, u32 kind, u32 medium, const struct kv_feed_name *name);

/* The owner of entry @index, PRIVATE or STAGED, says which comes before; NULL: not known. */
void kv_feed_set_parent(struct kv_feed *feed, u32 index, const kvmm_key_t *parent);

#endif /* KV_REGISTRY_FEED_H */
