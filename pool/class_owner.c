// SPDX-License-Identifier: Apache-2.0
/*
 * Owners of cached blocks: rings of blocks by the hash of their owner. Owners with one hash share a
 * ring, so a walk compares.
 */
#include <kv/err.h>
#include <kv/mem.h>

#include "class.h"

int owners_init(struct classes *classes)
{
	u32 nr_heads = (u32)BIT(kv_order(classes->nr_blocks));

	classes->owner = kv_alloc_array(classes->nr_blocks, sizeof(*classes->owner));
	classes->owned = kv_alloc_array((size_t)classes->nr_blocks + nr_heads,
					sizeof(*classes->owned));
	if (!classes->owner || !classes->owned)
		return -ENOMEM;
	classes->owner_mask = nr_heads - 1;
	for (u32 i = classes->nr_blocks; i < classes->nr_blocks + nr_heads; i++)
		classes->owned[i] = (struct class_link){ i, i };
	return 0;
}

void owners_exit(struct classes *classes)
{
	kv_free(classes->owner);
	kv_free(classes->owned);
}

/* Owners are numbers of the caller's choice, mostly one after the other. */
static u32 head_of(const struct classes *classes, u64 owner)
{
	u64 hash = owner * 0x9e3779b97f4a7c15ull;

	return classes->nr_blocks + ((hash >> 32) & classes->owner_mask);
}

static bool is_listed(const struct classes *classes, u32 index)
{
	return classes->owner[index] && classes->owner[index] != OWNER_SHARED;
}

void owner_set(struct classes *classes, u32 index, u64 owner)
{
	u64 *now = &classes->owner[index];

	if (*now == owner || *now == OWNER_SHARED)
		return;
	if (*now) {
		class_ring_del(classes->owned, index);
		*now = OWNER_SHARED;
		return;
	}
	*now = owner;
	class_ring_add(classes->owned, index, head_of(classes, owner));
}

void owner_forget(struct classes *classes, u32 index)
{
	if (is_listed(classes, index))
		class_ring_del(classes->owned, index);
	classes->owner[index] = 0;
}

/* A claimed block stays in its ring: it comes back with its class if the gang is aborted. */
static bool is_passed_over(const struct classes *classes, u64 owner, u32 index)
{
	return classes->owner[index] != owner || classes->mark[index] & CLASS_PICKED;
}

static u32 skip_others(const struct classes *classes, u64 owner, u32 index)
{
	while (index < classes->nr_blocks && is_passed_over(classes, owner, index))
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

/* Each link has its counterpart, leads to where it should, and no block is missing. */
static int ring_check(const struct classes *classes, u32 head, u32 *nr)
{
	u32 prev = head, at = classes->owned[head].next;

	for (; at < classes->nr_blocks; prev = at, at = classes->owned[at].next)
		if (classes->owned[at].prev != prev || !is_listed(classes, at) ||
		    head_of(classes, classes->owner[at]) != head || (*nr)++ >= classes->nr_blocks)
			return -EUCLEAN;
	return at == head && classes->owned[head].prev == prev ? 0 : -EUCLEAN;
}

int owners_check(const struct classes *classes)
{
	u32 nr = 0, nr_listed = 0;
	int err = 0;

	for (u32 i = 0; i <= classes->owner_mask && !err; i++)
		err = ring_check(classes, classes->nr_blocks + i, &nr);
	for (u32 i = 0; i < classes->nr_blocks && !err; i++) {
		nr_listed += is_listed(classes, i);
		if (classes->owner[i] && !(classes->mark[i] & CLASS_COUNTED))
			err = -EUCLEAN;
	}
	return err || nr != nr_listed ? -EUCLEAN : 0;
}
