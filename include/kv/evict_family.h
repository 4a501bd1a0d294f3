/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parents and children in an order of eviction: lists of children, 12 bytes a block.
 *
 * Only blocks in the order are in them. A list is of an entry, and the parent may be another block
 * by now: a walk down compares links and positions, and the latter end every walk.
 *
 * Guarded by the order's lock.
 */
#ifndef KV_EVICT_FAMILY_H
#define KV_EVICT_FAMILY_H

#include <kv/atomic.h>
#include <kv/types.h>

#define KIN_PARENT	0x80000000u

/* Complements of all of them: zeroed memory says that there is none. */
struct kin {
	u32 first;	/* child, or KV_NONE */
	u32 next;	/* sibling, or KV_NONE; in no list: ->prev when it was in one */
	u32 prev;	/* sibling; KIN_PARENT and the parent; KV_NONE: in no list */
};

struct family {
	struct kin *kin;	/* ours; by block */
};

static inline u64 family_bytes(u32 nr)
{
	return (u64)nr * sizeof(struct kin);
}

/* 0 or -ENOMEM. */
int family_init(struct family *family, u32 nr);
void family_exit(struct family *family);

/* Nothing is done if @parent is KV_NONE. */
void family_add(struct family *family, u32 index, u32 parent);
/*
 * As if family_del() had not been: exactly, if calls are undone newest first. @parent: the one that
 * family_add() was given, as far as it was in a list. @elder_stays: the child before it is still a
 * child of that.
 */
void family_undel(struct family *family, u32 index, u32 parent, bool elder_stays);
/* It need not be in a list. Its children stay. */
void family_del(struct family *family, u32 index);

static inline u32 family_first(const struct family *family, u32 index)
{
	return ~family->kin[index].first;
}

static inline bool family_has(const struct family *family, u32 index)
{
	return ~family->kin[index].prev != KV_NONE;
}

/* It is in a list. */
static inline bool family_is_first(const struct family *family, u32 index)
{
	return ~family->kin[index].prev & KIN_PARENT;
}

/* Was it in a list when it was deleted? */
static inline bool family_was_in(const struct family *family, u32 index)
{
	return !family_has(family, index) && ~family->kin[index].next != KV_NONE;
}

/* Then: the child before it, or KV_NONE if it was the first. */
static inline u32 family_elder(const struct family *family, u32 index)
{
	u32 prev = ~family->kin[index].next;

	return prev & KIN_PARENT ? KV_NONE : prev;
}

/* One in five lies on two lines. */
static inline void family_prefetch(const struct family *family, u32 index)
{
	kv_prefetch_write(&family->kin[index].first);
	kv_prefetch_write(&family->kin[index].prev);
}

static inline u32 family_next(const struct family *family, u32 index)
{
	return ~family->kin[index].next;
}

#endif /* KV_EVICT_FAMILY_H */
