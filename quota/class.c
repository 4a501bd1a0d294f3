// SPDX-License-Identifier: Apache-2.0
/*
 * Calls about classes: the class and the owner of a block, and the events that owners are told. And
 * advice: hints of owners about their blocks go to the policy, and priorities are remembered, so
 * that no more than a part of the pool is protected by them. Pins count, too: pinned blocks are
 * protected better than any. The more are pinned, the fewer a priority may protect.
 *
 * All of them hold both locks: blocks may be evicted in the end, and notes of the order made before
 * are applied first, so a block that is registered is counted.
 */
#include <limits.h>

#include <pool/internal.h>

/* ---- entering ---- */

/* Both locks, or an error. */
static int class_enter(struct kvmm_pool *pool, bool needs_classes)
{
	int err = cache_enter(pool);

	if (err)
		return err;
	if (needs_classes && !pool->order.classes) {
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

/* class_enter(), and all of @refs are registered, and heard of by the classes. */
static int enter_with(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr, bool held,
		      bool needs_classes)
{
	int err;

	if ((nr && !refs) || nr > INT_MAX)
		return -EINVAL;
	err = class_enter(pool, needs_classes);
	if (err)
		return err;
	for (u32 i = 0; i < nr && !err; i++) {
		err = entry_check(pool, as_handles(refs)[i], KV_ENTRY_REGISTERED, held);
		if (!err && pool->order.classes)	/* else it would be filled anew */
			order_apply(&pool->order, NOTE_FILL, as_handles(refs)[i]);
	}
	if (err) {
		kv_count(KV_EV_BAD_HANDLE);
		class_leave(pool);
	}
	return err;
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
	if (!class_refuses(class))
		return 0;
	for (u32 i = 0; i < nr; i++) {
		u32 from = mark[refs[i].index] & CLASS_MASK;

		if (!(mark[refs[i].index] & CLASS_SEEN))
			nr_new += from < class->first || from > class->last;
		mark[refs[i].index] |= CLASS_SEEN;
	}
	for (u32 i = 0; i < nr; i++)
		mark[refs[i].index] &= ~CLASS_SEEN;
	return nr_new ? order_admit(&pool->order, class, nr_new) : 0;
}

static int set_class(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr, u32 cls)
{
	struct classes *classes = pool->order.classes;
	int err = cls < classes->nr ? 0 : -EINVAL;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < nr && !err; i++)
		if (classes->mark[refs[i].index] & CLASS_SET &&
		    cls > class_of(classes, refs[i].index))
			err = -EPERM;
	if (!err)
		err = admit_refs(pool, refs, nr, &classes->class[cls]);
	for (u32 i = nr; i-- > 0 && !err;)
		change(pool, refs[i].index, cls);
	return err;
}

int kvmm_class_tag(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr, uint32_t in_class,
		   uint64_t owner)
{
	int err;

	if ((!in_class && !owner) || owner == OWNER_SHARED)
		return -EINVAL;
	err = enter_with(pool, refs, nr, true, true);
	if (err)
		return err;
	if (in_class)
		err = set_class(pool, refs, nr, in_class - 1);
	/* First to last, so that the ring has the end of a chain first. */
	for (u32 i = 0; i < nr && owner && !err; i++)
		owner_set(pool->order.classes, refs[i].index, owner);
	if (in_class && !err)
		class_trim_held(pool);
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
	quota_begin(&pool->order, QUOTA_NONE, QUOTA_ANY);
	if (order_take(&pool->order, index))
		victims_add(pool, victims, index);
	else
		kv_handle_step(&pool->entries, entry_handle(pool, index), kv_edge_set_reset);
	quota_end(&pool->order);
}

static int demote_refs(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr, u32 cls,
		       struct victims *victims)
{
	int nr_demoted = 0;

	kv_assert_held(&pool->order.lock);
	for (u32 i = nr; i-- > 0;)
		nr_demoted += demote(pool, refs[i].index, cls);
	for (u32 i = nr; i-- > 0;)
		take_at_once(pool, refs[i].index, victims);
	return nr_demoted;
}

static int demote_owned(struct kvmm_pool *pool, u64 owner, u32 cls, struct victims *victims)
{
	const struct classes *classes = pool->order.classes;
	int nr_demoted = 0;
	u32 at;

	kv_assert_held(&pool->order.lock);
	for (at = owner_first(classes, owner); at != KV_NONE; at = owner_next(classes, owner, at))
		nr_demoted += demote(pool, at, cls);
	for (at = owner_first(classes, owner); at != KV_NONE; at = owner_next(classes, owner, at))
		take_at_once(pool, at, victims);
	return nr_demoted;
}

int kvmm_demote_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr, uint64_t owner,
		     uint32_t cls)
{
	struct victims victims = NO_VICTIMS;
	int ret;

	if (!refs && owner == OWNER_SHARED)
		return -EINVAL;
	ret = enter_with(pool, refs, nr, false, true);
	if (ret)
		return ret;
	if (cls >= pool->order.classes->nr)
		ret = -EINVAL;
	else if (refs)
		ret = demote_refs(pool, refs, nr, cls, &victims);
	else
		ret = demote_owned(pool, owner, cls, &victims);
	victims_evict(pool, &victims);
	if (ret >= 0)
		class_trim_held(pool);
	class_leave(pool);
	return ret;
}

/* ---- advice ---- */

static bool value_is_bad(u32 what, u64 value)
{
	return (what == KVMM_ADVISE_PRIORITY && value > KV_MAX_PRIORITY) ||
	       (what == KVMM_ADVISE_COST && !value);
}

static const enum kv_evict_advice advice_of[] = {
	[KVMM_ADVISE_PRIORITY]	= KV_ADVISE_PRIORITY,
	[KVMM_ADVISE_TTL]	= KV_ADVISE_TTL,
	[KVMM_ADVISE_COST]	= KV_ADVISE_COST,
};

static int advise(struct kvmm_pool *pool, u32 index, u32 what, u64 value)
{
	const struct kv_evict_ops *ops = pool->order.ops;
	void *policy = order_policy(&pool->order, index);

	kv_assert_held(&pool->order.lock);
	order_history(&pool->order, HISTORY_ADVISED + what, index, value);
	order_changed(&pool->order);
	if (what != KVMM_ADVISE_NEXT_USE)
		return ops->advise(policy, index, advice_of[what], value);
	ops->hint(policy, index, value);
	return 0;
}

/* The oldest are as any other: they wait where they would if they had been put back now. */
static void limit_protected(struct kvmm_pool *pool)
{
	struct order *order = &pool->order;
	struct classes *classes = order->classes;
	u64 nr_pins = tally_sum(pool, TALLY_PINS);
	u32 max = classes->max_protected - min(nr_pins, (u64)classes->max_protected);

	kv_assert_held(&pool->order.lock);
	if (classes->max_protected == UINT32_MAX)
		return;
	while (classes->nr_protected > max) {
		u32 index = protect_oldest(classes);
		kvmm_key_t key = kv_entry_key(entry_at(pool, index));
		void *policy = order_policy(order, index);
		bool has = order_has(order, index);

		if (has)
			order->ops->leave(policy, index);
		advise(pool, index, KVMM_ADVISE_PRIORITY, KV_NO_PRIORITY);
		if (has) {
			order->ops->enter(policy, index, &key);
			quota_entered(order->quotas, index);
		}
		protect_forget(classes, index);
	}
}

/* A policy knows a kind of advice for all blocks or for none: only the first can be refused. */
static int advise_all(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 what, const u64 *values,
		      u32 nr)
{
	const struct kv_evict_ops *ops = pool->order.ops;
	struct classes *classes = pool->order.classes;
	int err = (what == KVMM_ADVISE_NEXT_USE ? !ops->hint : !ops->advise) ? -EOPNOTSUPP : 0;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < nr && !err; i++) {
		err = advise(pool, refs[i].index, what, values[i]);
		if (!err && what == KVMM_ADVISE_PRIORITY && classes)
			protect_set(classes, refs[i].index, values[i]);
	}
	if (!err && classes)
		limit_protected(pool);
	return err;
}

int kvmm_advise_many(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t what,
		     const uint64_t *values, uint32_t nr)
{
	int err;

	if ((nr && !values) || what >= KVMM_NR_ADVICES)
		return -EINVAL;
	for (u32 i = 0; i < nr; i++)
		if (value_is_bad(what, values[i]))
			return -EINVAL;
	err = enter_with(pool, refs, nr, true, false);
	if (err)
		return err;
	err = advise_all(pool, refs, what, values, nr);
	class_leave(pool);
	return err;
}

/* ---- events ---- */

int kvmm_class_events(struct kvmm_pool *pool, struct kvmm_class_event *events, uint32_t max,
		      uint64_t *nr_lost)
{
	struct classes *classes;
	int ret;

	if (!events && max)
		return -EINVAL;
	ret = class_enter(pool, true);
	if (ret)
		return ret;
	classes = pool->order.classes;
	ret = min(classes->nr_events, max);
	if (ret) {
		memcpy(events, classes->event, ret * sizeof(*events));
		classes->nr_events -= ret;
		memmove(classes->event, classes->event + ret,
			classes->nr_events * sizeof(*events));
	}
	if (nr_lost)
		*nr_lost = classes->nr_lost;
	class_leave(pool);
	return ret;
}

/* ---- statistics ---- */

int kvmm_class_get_stat_sized(struct kvmm_pool *pool, uint32_t cls, struct kvmm_class_stat *stat,
			      size_t size)
{
	struct kvmm_class_stat now;
	int err;

	if (kv_size_is_bad(stat, size))
		return -EINVAL;
	err = class_enter(pool, true);
	if (err)
		return err;
	if (cls < pool->order.classes->nr) {
		now = class_stat_of(&pool->order.classes->class[cls], pool->block_bytes);
		now.nr_inactive = order_nr_in(&pool->order, cls);
		kv_give(stat, size, &now, sizeof(now));
	} else {
		err = -EINVAL;
	}
	class_leave(pool);
	return err;
}
