/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of records that any number of threads write and any number read, each reader all of it.
 *
 * Writers never wait: they overwrite the oldest. A reader has a cursor, a position that counts from
 * the first record ever; one that was left behind is told how far, and goes on from there.
 *
 *	head: 0 1 2 ... counts reservations		slot of position p: p modulo size
 *	stamp of a slot: 2p + 1 while record p is written, 2p + 2 when it is there
 *
 * Guarantees, each with its test in tests/lib/ring.c or tests/stress/ring_torture.c:
 *
 *  1. Records are read whole, each as it was written, in the order of their positions.
 *  2. Positions are in the order of their reservations: a writer that reserves after something
 *     happened, of which another thread reserves later, comes before that.
 *  3. A reader is told, by number, of the records that it does not get.
 *
 * A writer that sleeps in the middle of a record holds up readers at that position, until it goes
 * on or the ring has come round. If it has, the writer that finds the slot still being written
 * gives its own record up, and says so in ->broken.
 */
#ifndef KV_RING_H
#define KV_RING_H

#include <kv/atomic.h>
#include <kv/types.h>

#define KV_RING_WORDS	7u

struct kv_ring_slot {
	u64 stamp;			/* atomic; see above */
	u64 word[KV_RING_WORDS];	/* atomic; the writer that made ->stamp odd */
} __cacheline_aligned;

static_assert(sizeof(struct kv_ring_slot) == KV_CACHELINE, "a record is one line");

struct kv_ring {
	/* Fixed at creation. */
	struct kv_ring_slot	*slot;		/* ours */
	u64			mask;		/* slots - 1 */

	/* All writers. */
	u64			head __cacheline_aligned;	/* atomic; next position */
	u64			broken;		/* atomic; some below it may never be written */
};

/* @nr: slots, a power of two. 0 or -ENOMEM. */
int kv_ring_init(struct kv_ring *ring, u64 nr);
void kv_ring_exit(struct kv_ring *ring);
/* Each stamp is one that its slot can have: 0 or -EUCLEAN. Others may write. */
int kv_ring_check(const struct kv_ring *ring);

/* The record at @pos cannot be written: readers pass it over. */
void __kv_ring_break(struct kv_ring *ring, u64 pos);

static inline u64 kv_ring_head(const struct kv_ring *ring)
{
	/* Pairs with kv_ring_put(): writes before a reservation below it are visible. */
	return smp_load_acquire(&ring->head);
}

static inline void kv_ring_put(struct kv_ring *ring, const u64 word[KV_RING_WORDS])
{
	/*
	 * Release pairs with kv_ring_head(), see there; acquire with the release of the reservation
	 * before, so that this holds of all reservations below a head.
	 */
	u64 pos = __atomic_fetch_add(&ring->head, 1, __ATOMIC_ACQ_REL);
	struct kv_ring_slot *slot = &ring->slot[pos & ring->mask];
	u64 old = READ_ONCE(slot->stamp);

	if (unlikely(old & 1 || old > 2 * pos || !kv_cas(&slot->stamp, &old, 2 * pos + 1))) {
		__kv_ring_break(ring, pos);
		return;
	}
	/* Pairs with the acquire fence of kv_ring_get(): odd is seen before new words. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (u32 i = 0; i < KV_RING_WORDS; i++)
		WRITE_ONCE(slot->word[i], word[i]);
	/* Pairs with kv_ring_get(): a reader that sees the stamp sees the words. */
	smp_store_release(&slot->stamp, 2 * pos + 2);
}

enum kv_ring_answer {
	KV_RING_GOT,
	KV_RING_EMPTY,		/* nothing there (yet) */
	KV_RING_LOST,		/* that record is gone; *@next is where to go on */
};

/* The record at @pos, or why not. */
enum kv_ring_answer kv_ring_get(const struct kv_ring *ring, u64 pos, u64 word[KV_RING_WORDS],
				u64 *next);

#endif /* KV_RING_H */
