/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of cached blocks, above the policy: members, quotas, owners, and owners' events.
 *
 * Invariants, recomputed by classes_check():
 *
 *  1. The marks of an entry are 0 unless it is registered, or claimed from there, or GIVEN. COUNTED
 *     is set when the order hears that it was filled, and goes with the name.
 *  2. nr of a class is the number of COUNTED marks of that class, nr_picked that of PICKED ones:
 *     entries that are claimed and not yet forgotten. nr_outside is that of GIVEN ones, and the
 *     blocks of its ranges.
 *  3. An entry is in the list of its owner if that is neither 0 nor OWNER_SHARED, and only while
 *     COUNTED; and in the list of the protected if its priority is above the limit.
 *
 * Everything is guarded by the order's lock unless it says otherwise.
 */
#ifndef ORDER_CLASS_H
#define ORDER_CLASS_H

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/types.h>
#include <kvmm/ext/evict.h>

/* ---- marks, by entry ---- */

#define CLASS_MASK	7u
#define CLASS_COUNTED	BIT(3)
#define CLASS_SET	BIT(4)	/* was set by a call: only downward from here */
#define CLASS_PICKED	BIT(5)
#define CLASS_GIVEN	BIT(6)	/* private or staged, allocated in this class */

#define CLASS_SEEN	BIT(7)	/* by the call under way */

#define CLASS_MARKS	(CLASS_MASK | CLASS_COUNTED | CLASS_SET | CLASS_PICKED | CLASS_GIVEN)

static_assert(KVMM_MAX_CLASSES == CLASS_MASK + 1, "a class fits its mark");

struct class {
	/* Fixed at creation. */
	const char *name;	/* borrowed from the caller */
	u32 quota;		/* UINT32_MAX: none; of a joined one: that of the first */
	u32 flags;
	u32 first;		/* of those that share the quota */
	u32 last;

	u32 nr;
	u32 nr_picked;
	u32 nr_outside;		/* atomic: ranges are counted under ->lock of the pool alone */
	u64 evicted;
	u64 demoted;
	u64 reached;
};

/* Of a ring of blocks; see class_ring.c. */
struct class_link {
	u32 next;
	u32 prev;
};

#define OWNER_SHARED	UINT64_MAX
#define CLASS_EVENTS	256u

struct classes {
	/* Fixed at creation. */
	u32 nr;
	u32 nr_blocks;
	u32 by_default;
	u32 protect_above;
	u32 max_protected;		/* UINT32_MAX: no limit */
	u32 owner_mask;			/* heads of owners' lists, a power of two, less 1 */
	bool aggressive;
	bool has_quotas;

	u32 reached;			/* a bit a class: by the call under way */
	u32 nr_protected;
	struct class class[KVMM_MAX_CLASSES];
	u8 *mark;			/* ours; by entry */
	u8 *priority;			/* ours; by entry; 1 more than was said, 0: nothing was */
	u64 *owner;			/* ours; by entry; 0: no owner */
	struct class_link *owned;	/* ours; by entry, then heads by hash of owner */
	struct class_link *guarded;	/* ours; by entry, then one head; longest first */

	u32 nr_events;
	u64 nr_lost;
	struct kvmm_class_event event[CLASS_EVENTS];
};

/* NULL in *@result: nothing is asked for. 0, -EINVAL or -ENOMEM. */
int classes_create(const struct kvmm_evict_attr *attr, u32 nr_blocks, struct classes **result);
void classes_destroy(struct classes *classes);
u64 classes_bytes(const struct classes *classes);
/* @nr_ranged: blocks of ranges, by class. */
int classes_check(const struct classes *classes, const u32 *nr_ranged);

static inline u32 class_of(const struct classes *classes, u32 index)
{
	return likely(!classes) ? 0 : classes->mark[index] & CLASS_MASK;
}

/* Of all classes that share its quota. */
static inline u64 class_total(const struct classes *classes, u32 class)
{
	u64 nr = 0;

	kv_assert(class < classes->nr);
	for (u32 i = classes->class[class].first; i <= classes->class[class].last; i++)
		nr += classes->class[i].nr - classes->class[i].nr_picked +
		      READ_ONCE(classes->class[i].nr_outside);
	return nr;
}

static inline bool class_is_over(const struct classes *classes, u32 class)
{
	kv_assert(class < classes->nr);
	return classes->class[class].quota != UINT32_MAX &&
	       class_total(classes, class) > classes->class[class].quota;
}

static inline bool class_refuses(const struct class *class)
{
	return class->flags & KVMM_CLASS_REFUSE && class->quota != UINT32_MAX;
}

/* @cls: KVMM_IN_CLASS(). */
static inline void class_charge(struct classes *classes, u32 cls, s64 nr)
{
	if (unlikely(cls))
		kv_fetch_add(&classes->class[cls - 1].nr_outside, (u32)nr);
}

/* All but how many may be evicted, which the order knows. */
static inline struct kvmm_class_stat class_stat_of(const struct class *class, u64 block_bytes)
{
	u32 nr_outside = READ_ONCE(class->nr_outside);

	return (struct kvmm_class_stat){
		.name = class->name, .nr = class->nr, .quota = class->quota,
		.nr_outside = nr_outside, .evicted = class->evicted,
		.demoted = class->demoted, .reached = class->reached,
		.bytes = ((u64)class->nr + nr_outside) * block_bytes,
	};
}

/* A private block is given back. */
void __class_ungiven(struct classes *classes, u32 index);

static inline void class_ungiven(struct classes *classes, u32 index)
{
	if (unlikely(classes != NULL))
		__class_ungiven(classes, index);
}

/* Out of the order, perhaps only to be looked at; and back. */
void class_picked(struct classes *classes, u32 index);
void class_unpicked(struct classes *classes, u32 index);

/* It got content. False: that is known. */
bool class_filled(struct classes *classes, u32 index);
void class_change(struct classes *classes, u32 index, u32 class);
/* Its content is forgotten. */
void class_gone(struct classes *classes, u32 index);
/* A call has evicted all that it wanted. */
void class_end(struct classes *classes);

/* ---- class_ring.c ---- */

/* 0 or -ENOMEM; then rings_exit() all the same. */
int rings_init(struct classes *classes);
void rings_exit(struct classes *classes);
int rings_check(const struct classes *classes);

void owner_set(struct classes *classes, u32 index, u64 owner);
void owner_forget(struct classes *classes, u32 index);
/* Blocks of @owner that are not claimed, newest first, or KV_NONE. */
u32 owner_first(const struct classes *classes, u64 owner);
u32 owner_next(const struct classes *classes, u64 owner, u32 index);

/* The block protected longest, or KV_NONE. */
u32 protect_oldest(const struct classes *classes);
/* It is the youngest now. */
void protect_set(struct classes *classes, u32 index, u32 priority);
void protect_forget(struct classes *classes, u32 index);

#endif /* ORDER_CLASS_H */
