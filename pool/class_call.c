// SPDX-License-Identifier: Apache-2.0
/*
 * Calls about classes: the class and the owner of a block, and the events that owners are told.
 *
 * All of them hold both locks: blocks may be evicted in the end, and notes of the order made before
 * are applied first, so a block that is registered is counted.
 */
#include <limits.h>

#include "internal.h"

#define TELL_BATCH	32u

/* ---- entering ---- */

/* Both locks, or an error. */
static int class_enter(struct kvmm_pool *pool)
{
	int err = cache_enter(pool);

	if (err)
		return err;
	if (!pool->order.classes) {
		pool_leave(pool);
		return -EOPNOTSUPP;
	}
	order_enter(&pool->order);
	return 0;
}

static void class_leave(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->order.lock);
	order_leave(&pool->order);
	cache_leave(pool);
}

/* class_enter(), and all of @refs are registered, and heard of. */
static int enter_with(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr, bool held)
{
	int err;

	if ((nr && !refs) || nr > INT_MAX)
		return -EINVAL;
	err = class_enter(pool);
	if (err)
		return err;
	for (u32 i = 0; i < nr && !err; i++) {
		err = entry_check(pool, as_handles(refs)[i], KV_ENTRY_REGISTERED, held);
		if (!err)
			order_apply(&pool->order, NOTE_FILL, as_handles(refs)[i]);
	}
	if (err) {
		kv_count(KV_EV_BAD_HANDLE);
		class_leave(pool);
	}
	return err;
}

/* ---- evicting ---- */

/* Over its quota, as long as it has a block without references. */
static bool any_is_over(struct kvmm_pool *pool)
{
	const struct classes *classes = pool->order.classes;

	kv_assert_held(&pool->order.lock);
	for (u32 class = 0; classes->has_quotas && class < classes->nr; class++)
		if (class_is_over(classes, class) && order_nr_in(&pool->order, class))
			return true;
	return false;
}

/* The order picks from those first. How many went. */
static u32 trim(struct kvmm_pool *pool)
{
	struct victims victims = NO_VICTIMS;

	kv_assert_held(&pool->lock);
	while (any_is_over(pool)) {
		u32 index;

		if (order_pick(&pool->order, 1, &index))
			victims_add(pool, &victims, index);
		else if (order_is_spent(&pool->order))
			break;
	}
	return victims_evict(pool, &victims);
}

void __class_trim(struct kvmm_pool *pool)
{
	if (class_enter(pool))
		return;
	trim(pool);
	class_leave(pool);
}

/* ---- allocating in a class ---- */

bool class_is_none(const struct kvmm_pool *pool, u32 cls)
{
	return !pool->order.classes || cls > pool->order.classes->nr;
}

static bool refuses(const struct class *class)
{
	return class->flags & KVMM_CLASS_REFUSE && class->quota != UINT32_MAX;
}

/* May @nr more be in use? */
static int admit(struct kvmm_pool *pool, const struct class *class, u32 nr)
{
	u64 total = class_total(pool->order.classes, class->first) + nr;

	kv_assert_held(&pool->order.lock);
	for (u32 i = class->first; i <= class->last; i++)
		total -= order_nr_in(&pool->order, i);
	return total > class->quota ? -EDQUOT : 0;
}

int __class_admit(struct kvmm_pool *pool, u32 cls, u32 nr)
{
	const struct class *class = &pool->order.classes->class[cls - 1];
	int err;

	kv_assert_held(&pool->lock);
	if (!refuses(class))
		return 0;
	order_enter(&pool->order);
	err = admit(pool, class, nr);
	order_leave(&pool->order);
	return err;
}

u32 __class_take(struct kvmm_pool *pool, u32 cls, const kvmm_mut_t *blocks, u32 nr)
{
	struct classes *classes = pool->order.classes;
	u32 nr_evicted;

	kv_assert_held(&pool->lock);
	order_enter(&pool->order);
	for (u32 i = 0; i < nr; i++)
		classes->mark[blocks[i].index] = (cls - 1) | CLASS_GIVEN;
	class_charge(classes, cls, nr);
	nr_evicted = trim(pool);
	order_leave(&pool->order);
	return nr_evicted;
}

/* ---- setting ---- */

/* The order keeps its priority for it. */
static void change(struct kvmm_pool *pool, u32 index, u32 class)
{
	struct classes *classes = pool->order.classes;
	u32 priority = classes->priority[index];

	kv_assert_held(&pool->order.lock);
	classes->mark[index] |= CLASS_SET;
	if (class == class_of(classes, index))
		return;
	order_reclass(&pool->order, index, class);
	if (priority && pool->order.ops->advise)
		pool->order.ops->advise(order_policy(&pool->order, index), index,
					KV_ADVISE_PRIORITY, priority - 1);
}

/* May these held blocks be of @class? Those of a class with a shared quota are counted already. */
static int admit_refs(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr,
		      const struct class *class)
{
	u8 *mark = pool->order.classes->mark;
	u32 nr_new = 0;

	kv_assert_held(&pool->order.lock);
	if (!refuses(class))
		return 0;
	for (u32 i = 0; i < nr; i++) {
		u32 from = mark[refs[i].index] & CLASS_MASK;

		if (!(mark[refs[i].index] & CLASS_SEEN))
			nr_new += from < class->first || from > class->last;
		mark[refs[i].index] |= CLASS_SEEN;
	}
	for (u32 i = 0; i < nr; i++)
		mark[refs[i].index] &= ~CLASS_SEEN;
	return nr_new ? admit(pool, class, nr_new) : 0;
}

int kvmm_class_set(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr, uint32_t cls)
{
	struct classes *classes;
	int err;

	err = enter_with(pool, refs, nr, true);
	if (err)
		return err;
	classes = pool->order.classes;
	if (cls >= classes->nr)
		err = -EINVAL;
	for (u32 i = 0; i < nr && !err; i++)
		if (classes->mark[refs[i].index] & CLASS_SET &&
		    cls > class_of(classes, refs[i].index))
			err = -EPERM;
	if (!err)
		err = admit_refs(pool, refs, nr, &classes->class[cls]);
	for (u32 i = nr; i-- > 0 && !err;)
		change(pool, refs[i].index, cls);
	if (!err)
		trim(pool);
	class_leave(pool);
	return err;
}

/* ---- demoting ---- */

/* Was it above? */
static bool demote(struct kvmm_pool *pool, u32 index, u32 class)
{
	struct classes *classes = pool->order.classes;
	u32 from = class_of(classes, index);

	kv_assert_held(&pool->order.lock);
	if (from <= class) {
		classes->mark[index] |= CLASS_SET;
		return false;
	}
	change(pool, index, class);
	classes->class[from].demoted++;
	return true;
}

/* Blocks without references go, children first; others go with their last reference. */
static void take_at_once(struct kvmm_pool *pool, u32 index, struct victims *victims)
{
	kv_assert_held(&pool->order.lock);
	if (!pool->order.classes->aggressive)
		return;
	quota_begin(pool->order.quotas, QUOTA_NOBODY, QUOTA_ANY);
	if (order_take(&pool->order, index))
		victims_add(pool, victims, index);
	else
		kv_entry_set_reset(&pool->entries, entry_handle(pool, index));
	quota_end(pool->order.quotas);
}

int kvmm_demote(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr, uint32_t cls)
{
	struct victims victims = NO_VICTIMS;
	int nr_demoted = 0, err;

	err = enter_with(pool, refs, nr, false);
	if (err)
		return err;
	if (cls >= pool->order.classes->nr) {
		class_leave(pool);
		return -EINVAL;
	}
	for (u32 i = nr; i-- > 0;)
		nr_demoted += demote(pool, refs[i].index, cls);
	for (u32 i = nr; i-- > 0;)
		take_at_once(pool, refs[i].index, &victims);
	victims_evict(pool, &victims);
	trim(pool);
	class_leave(pool);
	return nr_demoted;
}

int kvmm_demote_owner(struct kvmm_pool *pool, uint64_t owner, uint32_t cls)
{
	struct victims victims = NO_VICTIMS;
	const struct classes *classes;
	int nr_demoted = 0, err;
	u32 at;

	if (!owner || owner == OWNER_SHARED)
		return -EINVAL;
	err = class_enter(pool);
	if (err)
		return err;
	classes = pool->order.classes;
	if (cls >= classes->nr) {
		class_leave(pool);
		return -EINVAL;
	}
	for (at = owner_first(classes, owner); at != KV_NONE; at = owner_next(classes, owner, at))
		nr_demoted += demote(pool, at, cls);
	for (at = owner_first(classes, owner); at != KV_NONE; at = owner_next(classes, owner, at))
		take_at_once(pool, at, &victims);
	victims_evict(pool, &victims);
	trim(pool);
	class_leave(pool);
	return nr_demoted;
}

/* ---- owners ---- */

/* First to last, so that the ring has the end of a chain first. */
int kvmm_set_owner(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr, uint64_t owner)
{
	int err;

	if (!owner || owner == OWNER_SHARED)
		return -EINVAL;
	err = enter_with(pool, refs, nr, true);
	if (err)
		return err;
	for (u32 i = 0; i < nr; i++)
		owner_set(pool->order.classes, refs[i].index, owner);
	class_leave(pool);
	return 0;
}

/* ---- events ---- */

static u32 take_events(struct classes *classes, struct kvmm_class_event *events, u32 max)
{
	u32 nr = min(classes->nr_events, max), nr_left = classes->nr_events - nr;

	memcpy(events, classes->event, nr * sizeof(*events));
	memmove(classes->event, classes->event + nr, nr_left * sizeof(*events));
	WRITE_ONCE(classes->nr_events, nr_left);
	return nr;
}

int kvmm_class_events(struct kvmm_pool *pool, struct kvmm_class_event *events, uint32_t max,
		      uint64_t *nr_lost)
{
	struct classes *classes;
	int ret;

	if (!events && max)
		return -EINVAL;
	ret = class_enter(pool);
	if (ret)
		return ret;
	classes = pool->order.classes;
	ret = max ? (int)take_events(classes, events, max) : 0;
	if (nr_lost)
		*nr_lost = classes->nr_lost;
	class_leave(pool);
	return ret;
}

void __class_tell(struct kvmm_pool *pool)
{
	struct classes *classes = pool->order.classes;
	struct kvmm_class_event batch[TELL_BATCH];
	u32 nr;

	do {
		kv_lock(&pool->order.lock);
		nr = take_events(classes, batch, TELL_BATCH);
		kv_unlock(&pool->order.lock);
		if (nr)
			classes->hook(classes->hook_arg, batch, nr);
	} while (nr);
}

/* ---- statistics ---- */

int kvmm_class_get_stat_sized(struct kvmm_pool *pool, uint32_t cls, struct kvmm_class_stat *stat,
			      size_t size)
{
	const struct class *class;
	struct kvmm_class_stat now;
	int err;

	if (kv_size_is_bad(stat, size))
		return -EINVAL;
	err = class_enter(pool);
	if (err)
		return err;
	if (cls < pool->order.classes->nr) {
		class = &pool->order.classes->class[cls];
		now = (struct kvmm_class_stat){
			.name = class->name, .nr = class->nr, .quota = class->quota,
			.nr_inactive = order_nr_in(&pool->order, cls), .evicted = class->evicted,
			.demoted = class->demoted, .reached = class->reached,
			.nr_outside = READ_ONCE(class->nr_outside),
			.bytes = ((u64)class->nr + READ_ONCE(class->nr_outside)) *
				 pool->block_bytes,
		};
		kv_give(stat, size, &now, sizeof(now));
	} else {
		err = -EINVAL;
	}
	class_leave(pool);
	return err;
}
