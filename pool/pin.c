// SPDX-License-Identifier: Apache-2.0
/*
 * Pins by type: see pin.h. Calls about references are in ref.c, which counts types where there are
 * any; here are the counters, and pins on ranges.
 */
#include <kv/mem.h>

#include "lease.h"

static u64 one_of(u32 type)
{
	return BIT64(PIN_GEN_BITS + type * PIN_TYPE_BITS);
}

static u32 count_of(u64 word, u32 type)
{
	return word >> (PIN_GEN_BITS + type * PIN_TYPE_BITS) & (BIT(PIN_TYPE_BITS) - 1);
}

static u64 gen_of(struct kv_handle handle)
{
	return handle.gen & (BIT(PIN_GEN_BITS) - 1);
}

/* All pins in a word; @nr[] grows by those of each type, unless it is NULL. */
static u32 sum_of(u64 word, u64 *nr)
{
	u32 sum = 0;

	for (u32 type = 0; type < KVMM_NR_PIN_TYPES; type++) {
		sum += count_of(word, type);
		if (nr)
			nr[type] += count_of(word, type);
	}
	return sum;
}

/* ---- entries ---- */

static void add_one(struct pin_types *types, struct kv_handle handle, u32 type)
{
	u64 *word = &types->of[handle.index], old = READ_ONCE(*word), new;

	/* The count of another generation is 0. */
	do {
		new = (old & ~(BIT64(PIN_GEN_BITS) - 1)) | gen_of(handle);
		new += one_of(type);
	} while (!kv_cas(word, &old, new));
}

void pin_types_add(struct pin_types *types, const struct kv_handle *handles, u32 nr, u32 type)
{
	for (u32 i = 0; i < nr; i++)
		add_one(types, handles[i], type);
	kv_fetch_add(&types->nr[type], nr);
}

bool pin_types_del(struct pin_types *types, const struct kv_handle *handles, u32 nr, u32 type)
{
	for (u32 i = 0; i < nr; i++) {
		u64 *word = &types->of[handles[i].index], old = READ_ONCE(*word);
		bool has;

		do {
			has = (old & (BIT64(PIN_GEN_BITS) - 1)) == gen_of(handles[i]) &&
			      count_of(old, type);
		} while (has && !kv_cas(word, &old, old - one_of(type)));
		if (has)
			continue;
		while (i-- > 0)
			add_one(types, handles[i], type);
		return false;
	}
	kv_fetch_sub(&types->nr[type], nr);
	return true;
}

/* ---- making it ---- */

static u64 types_bytes(const struct kvmm_pool *pool)
{
	return sizeof(struct pin_types) + (pool->caches ? pool->nr_blocks * sizeof(u64) : 0);
}

/* The world has stopped: pins so far are of KVMM_PIN_USER. */
static void adopt_pins(struct kvmm_pool *pool, struct pin_types *types)
{
	for (u32 i = 0; pool->caches && i < pool->nr_blocks; i++) {
		struct kv_handle handle = entry_handle(pool, i);
		u64 word = READ_ONCE(entry_at(pool, i)->word);
		u32 nr = kv_word_is(word, KV_ENTRY_REGISTERED) ? kv_word_pins(word) : 0;

		while (nr-- > 0)
			pin_types_add(types, &handle, 1, KVMM_PIN_USER);
	}
}

/* compact_lock held, so no other thread makes it. */
static int publish_types(struct kvmm_pool *pool)
{
	struct pin_types *types = kv_alloc(types_bytes(pool));
	int err = types ? pool_enter(pool) : -ENOMEM;

	kv_assert_held(&pool->compact_lock);
	if (err) {
		kv_free(types);
		return err;
	}
	pool_stop(pool);
	kv_lock(&pool->lock);
	adopt_pins(pool, types);
	/* Pairs with pin_types_of(). */
	smp_store_release(&pool->pin_types, types);
	pool_resume(pool);
	pool_leave(pool);
	return 0;
}

int pin_types_need(struct kvmm_pool *pool, u32 type)
{
	int err;

	if (likely(type == KVMM_PIN_USER) || pin_types_of(pool))
		return 0;
	kv_lock(&pool->compact_lock);
	err = pool->pin_types ? 0 : publish_types(pool);
	kv_unlock(&pool->compact_lock);
	return err;
}

static void pin_types_exit(struct kvmm_pool *pool)
{
	kv_free(pool->pin_types);
}

static u64 pin_types_bytes(struct kvmm_pool *pool)
{
	return pin_types_of(pool) ? types_bytes(pool) : 0;
}

/* ---- ranges ---- */

static kvmm_range_t range_of(const struct slot *slot)
{
	return slot_handle(slot, slot_index(slot));
}

/* Its lease counts the types of its pins. */
static u64 word_of_slot(struct kvmm_pool *pool, const struct slot *slot)
{
	return range_kept(pool, range_of(slot)) & ~KEPT_HOLDS;
}

u32 __slot_typed_pins(struct kvmm_pool *pool, const struct slot *slot)
{
	return sum_of(word_of_slot(pool, slot), NULL);
}

void __slot_forget_pins(struct kvmm_pool *pool, struct slot *slot)
{
	u64 word = word_of_slot(pool, slot);

	if (!word)
		return;
	for (u32 type = 0; type < KVMM_NR_PIN_TYPES; type++)
		pool->pin_types->nr_range[type] -= count_of(word, type);
	range_keep(pool, range_of(slot), -word);
}

static int add_type(struct kvmm_pool *pool, struct slot *slot, u32 type)
{
	int err;

	if (type == KVMM_PIN_USER)
		return 0;
	err = range_reserve(pool, slot_index(slot));
	if (err)
		return err;
	if (count_of(word_of_slot(pool, slot), type) == BIT(PIN_TYPE_BITS) - 1)
		return -EOVERFLOW;
	range_keep(pool, range_of(slot), one_of(type));
	pool->pin_types->nr_range[type]++;
	return 0;
}

int slot_pin(struct kvmm_pool *pool, struct slot *slot, u32 type)
{
	int err;

	kv_assert_held(&pool->lock);
	if (slot->pins == UINT32_MAX)
		return -EOVERFLOW;
	err = add_type(pool, slot, type);
	if (err)
		return err;
	slot->pins++;
	pool->count.range_pins++;
	return 0;
}

int slot_unpin(struct kvmm_pool *pool, struct slot *slot, u32 type)
{
	kv_assert_held(&pool->lock);
	if (type == KVMM_PIN_USER) {
		if (slot->pins == slot_typed_pins(pool, slot))
			return -EINVAL;
	} else {
		if (!count_of(word_of_slot(pool, slot), type))
			return -EINVAL;
		range_keep(pool, range_of(slot), -one_of(type));
		pool->pin_types->nr_range[type]--;
	}
	slot->pins--;
	pool->count.range_pins--;
	return 0;
}

int kvmm_range_set_pin(struct kvmm_pool *pool, kvmm_range_t range, uint32_t type, int on)
{
	struct slot *slot;
	int err;

	if (!pool || type >= KVMM_NR_PIN_TYPES)
		return -EINVAL;
	err = on ? pin_types_need(pool, type) : 0;
	if (!err)
		err = range_enter(pool, range, &slot);
	if (err)
		return err;
	err = on ? slot_pin(pool, slot, type) : slot_unpin(pool, slot, type);
	if (!err && !on)
		release_post(pool, 1);	/* it may be moved out of another request's way */
	pool_leave(pool);
	return err;
}

/* ---- what is said of them ---- */

static u32 highest_of(u64 word)
{
	u32 type = KVMM_NR_PIN_TYPES - 1;

	while (type && !count_of(word, type))
		type--;
	return type;
}

u32 pin_type_of_entry(struct kvmm_pool *pool, u32 index)
{
	struct pin_types *types = pin_types_of(pool);

	return types ? highest_of(READ_ONCE(types->of[index])) : KVMM_PIN_USER;
}

u32 pin_type_of_slot(struct kvmm_pool *pool, const struct slot *slot)
{
	return highest_of(word_of_slot(pool, slot));
}

void pin_stat_peek(struct kvmm_pool *pool, u64 range_pins, struct kvmm_pin_stat *stat)
{
	const struct pin_types *types = pin_types_of(pool);

	*stat = (struct kvmm_pin_stat){ .ranges[KVMM_PIN_USER] = range_pins };
	for (u32 type = 0; types && type < KVMM_NR_PIN_TYPES; type++) {
		u64 nr = kv_peek(&types->nr_range[type]);

		stat->blocks[type] = READ_ONCE(types->nr[type]);
		stat->ranges[type] += nr;
		/* Without ->lock the two may be of two moments. */
		stat->ranges[KVMM_PIN_USER] -= min(nr, stat->ranges[KVMM_PIN_USER]);
	}
	if (!types && pool->caches)
		stat->blocks[KVMM_PIN_USER] = tally_sum(pool, TALLY_PINS);
}

int pin_stat_read(struct kvmm_pool *pool, void *out)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	pin_stat_peek(pool, pool->count.range_pins, out);
	pool_leave(pool);
	return 0;
}

/* ---- checking ---- */

static int pin_types_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	u64 nr[KVMM_NR_PIN_TYPES] = { 0 }, nr_range[KVMM_NR_PIN_TYPES] = { 0 };
	const struct pin_types *types = pool->pin_types;
	u32 nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0;

	if (!types)
		return 0;
	for (u32 i = 0; pool->caches && i < pool->nr_blocks; i++) {
		u64 word = entry_at(pool, i)->word;

		if (sum_of(types->of[i], nr) !=
		    (kv_word_is(word, KV_ENTRY_REGISTERED) ? kv_word_pins(word) : 0))
			return -EUCLEAN;
	}
	for (u32 i = 0; i < nr_slots; i++) {
		const struct slot *slot = slot_at(pool, i);

		if (slot->nr_ext && sum_of(word_of_slot(pool, slot), nr_range) > slot->pins)
			return -EUCLEAN;
	}
	return memcmp(nr, types->nr, sizeof(nr)) ||
	       memcmp(nr_range, types->nr_range, sizeof(nr_range)) ? -EUCLEAN : 0;
}

POOL_PART(pin_types) = {
	.name	= "pins by type",
	.exit	= pin_types_exit,
	.bytes	= pin_types_bytes,
	.check	= pin_types_check,
};
