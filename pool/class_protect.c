// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that a priority protects: one ring, longest first. There is a ring only where there is a
 * limit; priorities are remembered in any case, for a change of class.
 */
#include <kv/err.h>
#include <kv/mem.h>

#include "class.h"

int protect_init(struct classes *classes)
{
	u32 head = classes->nr_blocks;

	classes->priority = kv_alloc_array(classes->nr_blocks, sizeof(*classes->priority));
	classes->guarded = kv_alloc_array((size_t)head + 1, sizeof(*classes->guarded));
	if (!classes->priority || !classes->guarded)
		return -ENOMEM;
	classes->guarded[head] = (struct class_link){ head, head };
	return 0;
}

void protect_exit(struct classes *classes)
{
	kv_free(classes->priority);
	kv_free(classes->guarded);
}

static bool is_guarded(const struct classes *classes, u32 index)
{
	kv_assert(index < classes->nr_blocks);
	return classes->max_protected != UINT32_MAX && classes->priority[index] &&
	       classes->priority[index] - 1u > classes->protect_above;
}

void protect_forget(struct classes *classes, u32 index)
{
	kv_assert(index < classes->nr_blocks);
	if (is_guarded(classes, index)) {
		class_ring_del(classes->guarded, index);
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
	if (!is_guarded(classes, index))
		return;
	class_ring_add(classes->guarded, index, classes->guarded[classes->nr_blocks].prev);
	classes->nr_protected++;
}

u32 protect_oldest(const struct classes *classes)
{
	u32 oldest = classes->guarded[classes->nr_blocks].next;

	return oldest < classes->nr_blocks ? oldest : KV_NONE;
}

int protect_check(const struct classes *classes)
{
	u32 head = classes->nr_blocks, prev = head, at = classes->guarded[head].next;
	u32 nr = 0, nr_guarded = 0;

	for (; at < head; prev = at, at = classes->guarded[at].next)
		if (classes->guarded[at].prev != prev || !is_guarded(classes, at) || nr++ >= head)
			return -EUCLEAN;
	for (u32 i = 0; i < head; i++) {
		nr_guarded += is_guarded(classes, i);
		if (classes->priority[i] && !(classes->mark[i] & CLASS_COUNTED))
			return -EUCLEAN;
	}
	return at == head && classes->guarded[head].prev == prev && nr == nr_guarded &&
	       nr == classes->nr_protected ? 0 : -EUCLEAN;
}
