/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins by type.
 *
 * Nothing of this is there until a caller pins by a type other than KVMM_PIN_USER: until then the
 * counts of pins (in the word of an entry, in a slot) say all. It is made with the world stopped,
 * and from then on:
 *
 *  1. The types of an entry's pins are counted in one word, which is changed in the read section
 *     in which the pins are: after they are made, before they are undone. So a type never has
 *     more than there are pins, and a thread that has stopped the world sees exactly as many.
 *  2. Of a range's pins all but those of KVMM_PIN_USER are counted, in its lease. ->lock.
 *  3. Sums by type equal a recount.
 */
#ifndef POOL_PIN_H
#define POOL_PIN_H

#include <kv/atomic.h>
#include <kv/entry.h>
#include <kv/err.h>
#include <kv/types.h>
#include <kvmm/ext/lease.h>

struct kvmm_pool;
struct slot;

/* A type's count in a word of types; the low bits are of the generation. */
#define PIN_GEN_BITS	16u
#define PIN_TYPE_BITS	8u

static_assert(PIN_GEN_BITS + KVMM_NR_PIN_TYPES * PIN_TYPE_BITS <= 64, "a word for all types");

struct pin_types {
	u64	nr[KVMM_NR_PIN_TYPES];		/* atomic; pins on entries */
	u64	nr_range[KVMM_NR_PIN_TYPES];	/* pool->lock; of KVMM_PIN_USER 0 */
	u64	of[];				/* atomic; by entry; none without a policy */
};

/* The statistics, with @range_pins on ranges. ->lock is held, or they are peeked at. */
struct kvmm_pin_stat;
void pin_stat_peek(struct kvmm_pool *pool, u64 range_pins, struct kvmm_pin_stat *stat);

/* ---- entries; in the read section of the pins, and only if there are types ---- */

/* All @handles have one pin of @type more. */
void pin_types_add(struct pin_types *types, const struct kv_handle *handles, u32 nr, u32 type);
/* One less: true; or one of them had none, and nothing has changed. */
bool pin_types_del(struct pin_types *types, const struct kv_handle *handles, u32 nr, u32 type);

/* ---- ranges; ->lock held ---- */

u32 __slot_typed_pins(struct kvmm_pool *pool, const struct slot *slot);
/* It goes, with the pins of all callers. */
void __slot_forget_pins(struct kvmm_pool *pool, struct slot *slot);

/* The highest type that pins it, or KVMM_PIN_USER. For reports: of an entry just a hint. */
u32 pin_type_of_entry(struct kvmm_pool *pool, u32 index);
u32 pin_type_of_slot(struct kvmm_pool *pool, const struct slot *slot);

/* ---- how many there may be ---- */

/*
 * How many pins on cached blocks a pool may have.
 *
 * A pin is counted before it is made, all of a call's at once, and given back after it is gone or
 * if it could not be made: so there are never more than are counted, and two calls cannot get the
 * same part of the limit. Both happen in a read section, so a thread that has stopped the pool sees
 * exactly as many as there are. Pins are limited, not blocks: a block that is pinned twice counts
 * twice, and no more blocks are pinned than the limit says. Only where there is a limit, there is a
 * count.
 */
struct pin_limit {
	u64 max;	/* fixed at creation; 0: none */
	u64 nr;		/* atomic */
};

/* All or none: 0 or -E2BIG. */
static inline int pins_reserve(struct pin_limit *limit, u32 nr)
{
	u64 now = READ_ONCE(limit->nr);	/* relaxed: a number, nothing comes with it */

	if (likely(!limit->max))
		return 0;
	do {
		if (now + nr > limit->max)
			return -E2BIG;
	} while (!kv_cas(&limit->nr, &now, now + nr));
	return 0;
}

/* A call to unpin is refused after all: these pins were there before, so no limit stops them. */
static inline void pins_restore(struct pin_limit *limit, u64 nr)
{
	if (unlikely(limit->max && nr))
		kv_fetch_add(&limit->nr, nr);
}

static inline void pins_give_back(struct pin_limit *limit, u64 nr)
{
	if (unlikely(limit->max && nr))
		kv_fetch_sub(&limit->nr, nr);
}

#endif /* POOL_PIN_H */
