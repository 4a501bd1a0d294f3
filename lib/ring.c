// SPDX-License-Identifier: Apache-2.0
/* The reading side of rings, and writers that meet one another; see kv/ring.h. */
#include <errno.h>

#include <kv/bits.h>
#include <kv/mem.h>
#include <kv/ring.h>

int kv_ring_init(struct kv_ring *ring, u64 nr)
{
	*ring = (struct kv_ring){ .mask = nr - 1 };
	if (!kv_is_pow2(nr))
		return -EINVAL;
	ring->slot = kv_alloc_lines(nr, sizeof(*ring->slot));
	return ring->slot ? 0 : -ENOMEM;
}

void kv_ring_exit(struct kv_ring *ring)
{
	kv_free(ring->slot);
	ring->slot = NULL;
}

int kv_ring_check(const struct kv_ring *ring)
{
	u64 broken;

	for (u64 i = 0; i <= ring->mask; i++) {
		/* Pairs with both stores of kv_ring_put(): the head is beyond its reservation. */
		u64 stamp = smp_load_acquire(&ring->slot[i].stamp);
		u64 pos = (stamp - 1) / 2;

		if (stamp && (pos >= kv_ring_head(ring) || (pos & ring->mask) != i))
			return -EUCLEAN;
	}
	/* Pairs with the swap of __kv_ring_break(): the same. */
	broken = smp_load_acquire(&ring->broken);
	return broken <= kv_ring_head(ring) ? 0 : -EUCLEAN;
}

noinline void __kv_ring_break(struct kv_ring *ring, u64 pos)
{
	u64 old = READ_ONCE(ring->broken);

	/* Pairs with kv_ring_check(): @pos was reserved before. */
	while (old <= pos && !kv_cas(&ring->broken, &old, pos + 1))
		;
}

/* Not there: will it be? */
static enum kv_ring_answer not_there(const struct kv_ring *ring, u64 pos, u64 *next)
{
	u64 head = kv_ring_head(ring);

	if (pos >= head)
		return KV_RING_EMPTY;
	/* Half a ring ahead of the writers, or they would be here again at once. */
	if (head - pos > ring->mask + 1) {
		*next = head - (ring->mask + 1) / 2;
		return KV_RING_LOST;
	}
	/* Perhaps it was another that was given up, and this one comes late: that is lost, too. */
	if (READ_ONCE(ring->broken) > pos) {
		*next = pos + 1;
		return KV_RING_LOST;
	}
	return KV_RING_EMPTY;
}

enum kv_ring_answer kv_ring_get(const struct kv_ring *ring, u64 pos, u64 word[KV_RING_WORDS],
				u64 *next)
{
	const struct kv_ring_slot *slot = &ring->slot[pos & ring->mask];
	/* Pairs with the last store of kv_ring_put(). */
	u64 stamp = smp_load_acquire(&slot->stamp);

	if (stamp != 2 * pos + 2)
		return not_there(ring, pos, next);
	for (u32 i = 0; i < KV_RING_WORDS; i++)
		word[i] = READ_ONCE(slot->word[i]);
	/* No writer has begun there since: pairs with the release fence of kv_ring_put(). */
	return likely(kv_is_still(&slot->stamp, stamp, ~0ull)) ? KV_RING_GOT :
	       not_there(ring, pos, next);
}
