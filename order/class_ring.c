// SPDX-License-Identifier: Apache-2.0
/*
 * Rings of cached blocks: those of one owner, and those that a priority protects.
 *
 * A ring runs through an array by entry and ends in its head behind the entries. Owners with one
 * hash share a ring, so a walk compares. There is one ring of protected blocks, longest first, and
 * blocks are in it only where there is a limit; priorities are remembered in any case, for a change
 * of class.
 */
#include <kv/err.h>
#include <kv/mem.h>

#include "class.h"

static struct class_link *make_rings(const struct classes *classes, u32 nr_heads)
{
	u32 nr = classes->nr_blocks;
	struct class_link *ring = kv_alloc_array((size_t)nr + nr_heads, sizeof(*ring));

	for (u32 head = nr; ring && head < nr + nr_heads; head++)
		ring[head] = (struct class_link){ head, head };
	return ring;
}

int rings_init(struct classes *classes)
{
	u32 nr_heads = (u32)BIT(kv_order(classes->nr_blocks));

	classes->owner_mask = nr_heads - 1;
	classes->owner = kv_alloc_array(classes->nr_blocks, sizeof(*classes->owner));
	classes->priority = kv_alloc_array(classes->nr_blocks, sizeof(*classes->priority));
	classes->owned = make_rings(classes, nr_heads);
	classes->guarded = make_rings(classes, 1);
	return classes->owner && classes->priority && classes->owned && classes->guarded ? 0 :
	       -ENOMEM;
}

void rings_exit(struct classes *classes)
{
	kv_free(classes->owner);
	kv_free(classes->priority);
	kv_free(classes->owned);
	kv_free(classes->guarded);
}

static void ring_add(struct class_link *ring, u32 index, u32 after)
{
	ring[index] = (struct class_link){ ring[after].next, after };
	ring[ring[after].next].prev = index;
	ring[after].next = index;
}

static void ring_del(struct class_link *ring, u32 index)
{
	ring[ring[index].prev].next = ring[index].next;
	ring[ring[index].next].prev = ring[index].prev;
}

/* ---- owners ---- */

/* Owners are numbers of the caller's choice, mostly one after the other. */
static u32 head_of(const struct classes *classes, u64 owner)
{
	u64 hash = owner * 0x9e3779b97f4a7c15ull;

	return classes->nr_blocks + ((hash >> 32) & classes->owner_mask);
}

/* The head of the ring that the block is in, or KV_NONE. */
static u32 head_of_owned(const struct classes *classes, u32 index)
{
	u64 owner = classes->owner[index];

	return owner && owner != OWNER_SHARED ? head_of(classes, owner) : KV_NONE;
}

void owner_set(struct classes *classes, u32 index, u64 owner)
{
	u64 *now = &classes->owner[index];

	if (*now == owner || *now == OWNER_SHARED)
		return;
	if (*now) {
		ring_del(classes->owned, index);
		*now = OWNER_SHARED;
		return;
	}
	*now = owner;
	ring_add(classes->owned, index, head_of(classes, owner));
}

void owner_forget(struct classes *classes, u32 index)
{
	if (head_of_owned(classes, index) != KV_NONE)
		ring_del(classes->owned, index);
	classes->owner[index] = 0;
}

/* A claimed block stays in its ring: it comes back with its class if the gang is aborted. */
static u32 skip_others(const struct classes *classes, u64 owner, u32 index)
{
	while (index < classes->nr_blocks &&
	       (classes->owner[index] != owner || classes->mark[index] & CLASS_PICKED))
		index = classes->owned[index].next;
	return index < classes->nr_blocks ? index : KV_NONE;
}

u32 owner_first(const struct classes *classes, u64 owner)
{
	return skip_others(classes, owner, classes->owned[head_of(classes, owner)].next);
}

u32 owner_next(const struct classes *classes, u64 owner, u32 index)
{
	return skip_others(classes, owner, classes->owned[index].next);
}

/* ---- priorities ---- */

/* The head of the protected blocks, if the block is one, or KV_NONE. */
static u32 head_of_guarded(const struct classes *classes, u32 index)
{
	bool is_guarded = classes->max_protected != UINT32_MAX && classes->priority[index] &&
			  classes->priority[index] - 1u > classes->protect_above;

	kv_assert(index < classes->nr_blocks);
	return is_guarded ? classes->nr_blocks : KV_NONE;
}

void protect_forget(struct classes *classes, u32 index)
{
	kv_assert(index < classes->nr_blocks);
	if (head_of_guarded(classes, index) != KV_NONE) {
		ring_del(classes->guarded, index);
		kv_assert(classes->nr_protected);
		classes->nr_protected--;
	}
	classes->priority[index] = 0;
}

void protect_set(struct classes *classes, u32 index, u32 priority)
{
	kv_assert(index < classes->nr_blocks);
	protect_forget(classes, index);
	classes->priority[index] = priority + 1;
	if (head_of_guarded(classes, index) == KV_NONE)
		return;
	ring_add(classes->guarded, index, classes->guarded[classes->nr_blocks].prev);
	classes->nr_protected++;
}

u32 protect_oldest(const struct classes *classes)
{
	u32 oldest = classes->guarded[classes->nr_blocks].next;

	return oldest < classes->nr_blocks ? oldest : KV_NONE;
}

/* ---- check ---- */

/* Each link has its counterpart, and leads to a block of this ring. */
static int ring_check(const struct classes *classes, const struct class_link *ring, u32 head,
		      u32 (*head_at)(const struct classes *classes, u32 index), u32 *nr)
{
	u32 prev = head, at = ring[head].next;

	for (; at < classes->nr_blocks; prev = at, at = ring[at].next)
		if (ring[at].prev != prev || head_at(classes, at) != head ||
		    (*nr)++ >= classes->nr_blocks)
			return -EUCLEAN;
	return at == head && ring[head].prev == prev ? 0 : -EUCLEAN;
}

/* No block is missing in a ring, and only counted ones have an owner or a priority. */
int rings_check(const struct classes *classes)
{
	u32 head = classes->nr_blocks, nr_owned = 0, nr_guarded = 0;
	int err = ring_check(classes, classes->guarded, head, head_of_guarded, &nr_guarded);

	if (nr_guarded != classes->nr_protected)
		err = -EUCLEAN;
	for (u32 i = 0; i <= classes->owner_mask && !err; i++)
		err = ring_check(classes, classes->owned, head + i, head_of_owned, &nr_owned);
	for (u32 i = 0; i < classes->nr_blocks && !err; i++) {
		nr_owned -= head_of_owned(classes, i) != KV_NONE;
		nr_guarded -= head_of_guarded(classes, i) != KV_NONE;
		if ((classes->owner[i] || classes->priority[i]) &&
		    !(classes->mark[i] & CLASS_COUNTED))
			err = -EUCLEAN;
	}
	return err || nr_owned || nr_guarded ? -EUCLEAN : 0;
}
