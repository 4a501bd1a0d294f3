// SPDX-License-Identifier: Apache-2.0
/*
 * Classes: their counts, and the events of owners.
 *
 * The order of eviction calls in here at each of its own steps; nothing here calls back. Counts are
 * of events the order has heard of: a caller that registers or drops does not come here.
 */
#include <string.h>

#include <kv/err.h>
#include <kv/mem.h>

#include "class.h"

/* ---- set-up ---- */

static u32 part_of(u32 nr_blocks, u32 permille)
{
	return (u64)nr_blocks * permille / 1000;
}

static bool attr_is_bad(const struct kvmm_evict_attr *attr)
{
	const u32 flags = KVMM_CLASS_TELL | KVMM_CLASS_JOINED | KVMM_CLASS_REFUSE;

	if (!attr->classes != !attr->nr_classes || attr->nr_classes > KVMM_MAX_CLASSES)
		return true;
	if (attr->default_class && attr->default_class >= attr->nr_classes)
		return true;
	for (u32 i = 0; i < attr->nr_classes; i++) {
		const struct kvmm_class *class = &attr->classes[i];
		bool is_joined = class->flags & KVMM_CLASS_JOINED;

		if (!class->name || class->quota_permille > 1000 || class->flags & ~flags ||
		    (is_joined && (!i || class->quota_blocks + class->quota_permille)) ||
		    class->reserved)
			return true;
	}
	return attr->flags & ~KVMM_EVICT_AGGRESSIVE || attr->protect_permille > 1000;
}

static void init_class(struct classes *classes, const struct kvmm_class *from)
{
	u32 i = classes->nr++;
	struct class *class = &classes->class[i];

	class->first = from->flags & KVMM_CLASS_JOINED ? class[-1].first : i;
	for (u32 k = class->first; k <= i; k++)
		classes->class[k].last = i;
	class->name = from->name;
	class->flags = from->flags;
	class->quota = UINT32_MAX;
	if (from->quota_blocks)
		class->quota = from->quota_blocks;
	else if (from->quota_permille)
		class->quota = part_of(classes->nr_blocks, from->quota_permille);
	else if (class->first < i)
		class->quota = classes->class[class->first].quota;
	classes->has_quotas |= class->quota != UINT32_MAX;
}

static void init_fields(struct classes *classes, const struct kvmm_evict_attr *attr,
			u32 nr_blocks)
{
	static const struct kvmm_class only = { .name = "all" };

	classes->nr_blocks = nr_blocks;
	classes->by_default = attr->default_class;
	classes->aggressive = attr->flags & KVMM_EVICT_AGGRESSIVE;
	classes->protect_above = attr->protect_above;
	classes->max_protected = attr->protect_permille ?
				 part_of(nr_blocks, attr->protect_permille) : UINT32_MAX;
	for (u32 i = 0; i < attr->nr_classes; i++)
		init_class(classes, &attr->classes[i]);
	if (!classes->nr)
		init_class(classes, &only);
}

int classes_create(const struct kvmm_evict_attr *attr, u32 nr_blocks, struct classes **result)
{
	struct classes *classes;
	int err;

	*result = NULL;
	if (attr_is_bad(attr))
		return -EINVAL;
	if (!attr->nr_classes && !attr->protect_permille)
		return 0;
	classes = kv_alloc_lines(1, sizeof(*classes));
	if (!classes)
		return -ENOMEM;
	init_fields(classes, attr, nr_blocks);
	classes->mark = kv_alloc_array(nr_blocks, sizeof(*classes->mark));
	err = classes->mark ? rings_init(classes) : -ENOMEM;
	if (err) {
		classes_destroy(classes);
		return err;
	}
	*result = classes;
	return 0;
}

void classes_destroy(struct classes *classes)
{
	if (!classes)
		return;
	rings_exit(classes);
	kv_free(classes->mark);
	kv_free(classes);
}

u64 classes_bytes(const struct classes *classes)
{
	u64 a_block = sizeof(*classes->mark) + sizeof(*classes->priority) +
		      sizeof(*classes->owner) + 2 * sizeof(struct class_link);

	if (!classes)
		return 0;
	return sizeof(*classes) + classes->nr_blocks * a_block +
	       (classes->owner_mask + 2ull) * sizeof(struct class_link);
}

/* ---- steps of the order ---- */

static struct class *class_at(struct classes *classes, u32 index)
{
	kv_assert(index < classes->nr_blocks);
	return &classes->class[classes->mark[index] & CLASS_MASK];
}

static bool is(const struct classes *classes, u32 index, u32 mark)
{
	kv_assert(index < classes->nr_blocks);
	return classes->mark[index] & mark;
}

void class_picked(struct classes *classes, u32 index)
{
	kv_assert(index < classes->nr_blocks);
	if (KV_BUG_ON(!is(classes, index, CLASS_COUNTED)))
		return;
	classes->mark[index] |= CLASS_PICKED;
	class_at(classes, index)->nr_picked++;
}

void class_unpicked(struct classes *classes, u32 index)
{
	kv_assert(index < classes->nr_blocks);
	if (KV_BUG_ON(!is(classes, index, CLASS_PICKED)))
		return;
	classes->mark[index] &= ~CLASS_PICKED;
	class_at(classes, index)->nr_picked--;
}

bool class_filled(struct classes *classes, u32 index)
{
	kv_assert(index < classes->nr_blocks);
	if (is(classes, index, CLASS_COUNTED))
		return false;
	if (is(classes, index, CLASS_GIVEN)) {
		kv_fetch_add(&class_at(classes, index)->nr_outside, (u32)-1);
		classes->mark[index] = class_of(classes, index) | CLASS_SET | CLASS_COUNTED;
	} else {
		classes->mark[index] = classes->by_default | CLASS_COUNTED;
	}
	class_at(classes, index)->nr++;
	return true;
}

void __class_ungiven(struct classes *classes, u32 index)
{
	kv_assert(index < classes->nr_blocks);
	if (!is(classes, index, CLASS_GIVEN))
		return;
	kv_fetch_add(&class_at(classes, index)->nr_outside, (u32)-1);
	classes->mark[index] = 0;
}

void class_change(struct classes *classes, u32 index, u32 class)
{
	kv_assert(index < classes->nr_blocks);
	KV_BUG_ON(is(classes, index, CLASS_PICKED));
	class_at(classes, index)->nr--;
	classes->mark[index] = (classes->mark[index] & ~CLASS_MASK) | class;
	class_at(classes, index)->nr++;
}

/* ---- events of owners ---- */

/* Blocks of one request mostly go one after the other. */
static void tell(struct classes *classes, u64 owner, u32 class)
{
	struct kvmm_class_event *last = classes->nr_events ?
					&classes->event[classes->nr_events - 1] : NULL;

	if (last && last->owner == owner && last->cls == class) {
		last->nr++;
		return;
	}
	if (classes->nr_events == CLASS_EVENTS) {
		classes->nr_lost++;
		return;
	}
	classes->event[classes->nr_events] = (struct kvmm_class_event){ owner, class, 1 };
	classes->nr_events++;
}

void class_gone(struct classes *classes, u32 index)
{
	kv_assert(index < classes->nr_blocks);
	if (is(classes, index, CLASS_PICKED)) {
		u64 owner = classes->owner[index];
		u32 id = class_of(classes, index);
		struct class *class = &classes->class[id];

		kv_assert(class->nr_picked);
		class->nr_picked--;
		class->evicted++;
		classes->reached |= BIT(id);
		if (class->flags & KVMM_CLASS_TELL)
			tell(classes, owner == OWNER_SHARED ? 0 : owner, id);
	}
	if (is(classes, index, CLASS_COUNTED))
		class_at(classes, index)->nr--;
	owner_forget(classes, index);
	protect_forget(classes, index);
	classes->mark[index] = 0;
}

void class_end(struct classes *classes)
{
	for (u32 i = 0; i < classes->nr; i++)
		classes->class[i].reached += !!(classes->reached & BIT(i));
	classes->reached = 0;
}

/* ---- check ---- */

int classes_check(const struct classes *classes, const u32 *nr_ranged)
{
	u32 nr[KVMM_MAX_CLASSES] = { 0 }, nr_picked[KVMM_MAX_CLASSES] = { 0 };
	u32 nr_given[KVMM_MAX_CLASSES] = { 0 };

	for (u32 i = 0; i < classes->nr_blocks; i++) {
		nr[classes->mark[i] & CLASS_MASK] += is(classes, i, CLASS_COUNTED);
		nr_picked[classes->mark[i] & CLASS_MASK] += is(classes, i, CLASS_PICKED);
		nr_given[classes->mark[i] & CLASS_MASK] += is(classes, i, CLASS_GIVEN);
		if ((!is(classes, i, CLASS_COUNTED | CLASS_GIVEN) && classes->mark[i]) ||
		    class_of(classes, i) >= classes->nr || classes->mark[i] & ~CLASS_MARKS)
			return -EUCLEAN;
	}
	for (u32 i = 0; i < KVMM_MAX_CLASSES; i++)
		if (nr[i] != classes->class[i].nr ||
		    nr_given[i] + nr_ranged[i] != READ_ONCE(classes->class[i].nr_outside) ||
		    nr_picked[i] != classes->class[i].nr_picked)
			return -EUCLEAN;
	return rings_check(classes);
}
