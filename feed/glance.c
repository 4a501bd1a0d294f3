// SPDX-License-Identifier: Apache-2.0
/*
 * A pool, seen in passing.
 *
 * Statistics that others write under their locks are copied word by word, without: see kv_peek().
 * The structs around them stay where they are as long as the pool lives, but for accounts of
 * tenants, which go after a grace period.
 */
#include <move/background.h>
#include <move/step.h>
#include <move/verify.h>
#include <offline/leave.h>
#include <tier/pool/tier.h>

#include "internal.h"

static void glance_classes(struct kvmm_pool *pool, struct kv_pool_glance *glance)
{
	const struct classes *classes = pool->order.classes;

	kv_assert(!classes || classes->nr <= ARRAY_SIZE(glance->class));
	glance->nr_classes = classes ? classes->nr : 0;
	for (u32 i = 0; i < glance->nr_classes; i++) {
		struct class class;

		kv_peek_copy(&class, &classes->class[i], sizeof(class));
		glance->class[i] = class_stat_of(&class, pool->block_bytes);
	}
}

static void glance_rest(struct kvmm_pool *pool, struct kv_pool_glance *glance)
{
	/* Pairs with kvmm_background_set(): the struct behind the pointer is complete. */
	const struct background *back = smp_load_acquire(&pool->background);
	const struct verify *verify = verify_of(pool);
	struct pool_grow grow;

	alloc_stat_peek(pool, &glance->alloc);
	kv_peek_copy(&grow, &pool->grow, sizeof(grow));
	glance->growth = (struct kvmm_growth_stat){
		.size = sizeof(glance->growth), .nr_reserved = grow.nr_reserved,
		.nr_reservations = grow.nr_lists, .in_place = grow.in_place,
		.elsewhere = grow.elsewhere, .steals = grow.steals,
		.stolen_blocks = grow.stolen_blocks,
	};
	step_stat_peek(pool, &glance->step);
	pace_stat_peek(pool, &glance->pace);
	elastic_stat_peek(pool, &glance->elastic);
	if (verify) {
		kv_peek_copy(&glance->verify, &verify->stat, sizeof(glance->verify));
		glance->verify.sample_pm = kv_peek(&verify->sample_pm);
		glance->verify.pending = READ_ONCE(verify->nr_todo);
	}
	pin_stat_peek(pool, kv_peek(&pool->count.range_pins), &glance->pins);
	glance_classes(pool, glance);
	if (back)
		kv_peek_copy(&glance->background, &back->stat, sizeof(back->stat));
	glance->tier = lower_glance(pool, &glance->below);
	glance_residency(pool, glance);
	pressure_read(&pool->door.pressure, &glance->pressure);
}

int kv_pool_glance(struct kvmm_pool *pool, struct kv_pool_glance *glance)
{
	int err = pool_refusal(pool);

	if (err == -ECHILD)
		return err;
	*glance = (struct kv_pool_glance){
		.name = pool->name, .device = pool->parts.dev->name,
		.device_number = pool->parts.dev_number, .engine = pool->zone->ops->name,
		.policy = pool->parts.evict ? pool->parts.evict->name : NULL,
	};
	glance->stat.nr_blocks = pool->nr_usable;
	glance->stat.block_bytes = pool->block_bytes;
	glance->stat.block_tokens = pool->block_tokens;
	if (err)
		return err;
	kv_zone_glance(pool->zone, &glance->zone);
	err = pool_peek(pool, &glance->zone, &glance->stat);
	if (!err)
		glance_rest(pool, glance);
	return err;
}

/* ---- tenants ---- */

u32 kv_pool_glance_tenants(struct kvmm_pool *pool, struct kvmm_tenant_stat *tenants, u32 max)
{
	const struct quotas *quotas;
	struct account account;
	u32 nr = 0;

	kv_rcu_read_lock();	/* an account that goes stays for that long */
	quotas = pool_refusal(pool) ? NULL : smp_load_acquire(&pool->order.quotas);
	for (u32 i = 0; quotas && i < MAX_ACCOUNTS; i++) {
		/* Pairs with account_add(): the account behind the pointer is complete. */
		const struct account *now = smp_load_acquire(&quotas->account[i]);

		if (!now || nr++ >= max)
			continue;
		kv_peek_copy(&account, now, sizeof(account));
		tenants[nr - 1] = account_stat_of(&account);
		tenants[nr - 1].size = sizeof(*tenants);
	}
	kv_rcu_read_unlock();
	return nr;
}

/* ---- by kind: under the locks of what is counted, but for KVMM_STAT_PEEK ---- */

#define MAX_STAT	2048u

static_assert(sizeof(struct kvmm_tier_client_stat) <= MAX_STAT, "the largest");

static const struct {
	size_t size;
	bool is_sized;		/* it begins with the size that the caller knows */
	int (*read)(struct kvmm_pool *pool, void *stat);	/* into one that is zeroed */
} kinds[KVMM_NR_STATS] = {
	[KVMM_STAT_PEEK]	= { sizeof(struct kvmm_pool_stat), false, peek_stat_read },
	[KVMM_STAT_ALLOC]	= { sizeof(struct kvmm_alloc_stat), false, alloc_stat_read },
	[KVMM_STAT_PRESSURE]	= { sizeof(struct kvmm_pressure), false, pressure_stat_read },
	[KVMM_STAT_GROWTH]	= { sizeof(struct kvmm_growth_stat), true, growth_stat_read },
	[KVMM_STAT_PIN]		= { sizeof(struct kvmm_pin_stat), false, pin_stat_read },
	[KVMM_STAT_STAY]	= { sizeof(struct kvmm_stay), false, stay_stat_read },
	[KVMM_STAT_STEP]	= { sizeof(struct kvmm_step_stat), false, step_stat_read },
	[KVMM_STAT_PACE]	= { sizeof(struct kvmm_pace_stat), false, pace_stat_read },
	[KVMM_STAT_VERIFY]	= { sizeof(struct kvmm_verify_stat), false, verify_stat_read },
	[KVMM_STAT_BACKGROUND]	= { sizeof(struct kvmm_background_stat), false,
				    background_stat_read },
	[KVMM_STAT_ELASTIC]	= { sizeof(struct kvmm_elastic_stat), false, elastic_stat_read },
	[KVMM_STAT_TIER]	= { sizeof(struct kvmm_tier_client_stat), false, tier_stat_read },
	[KVMM_STAT_TIER_TIME]	= { sizeof(struct kvmm_tier_time), false, tier_time_read },
	[KVMM_STAT_TIER_CONFIG]	= { sizeof(struct kvmm_tier_config), true, tier_config_read },
	[KVMM_STAT_RESIDENCY]	= { sizeof(struct kvmm_residency_stat) * KVMM_NR_RESIDENCY_KINDS,
				    false, residency_stat_read },
	[KVMM_STAT_COUNTS]	= { sizeof(struct kvmm_counts), false, counts_read },
	[KVMM_STAT_POOL]	= { sizeof(struct kvmm_pool_stat), false, pool_stat_read },
	[KVMM_STAT_HISTORY]	= { sizeof(kvmm_sum_t), false, history_read },
	[KVMM_STAT_COMPLETIONS]	= { sizeof(struct kvmm_completions), true, completions_read },
};

int kvmm_pool_stat_of(struct kvmm_pool *pool, enum kvmm_stat_kind kind, void *stat, size_t size)
{
	u64 now[MAX_STAT / sizeof(u64)] = { 0 };
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || (u32)kind >= KVMM_NR_STATS || kv_size_is_bad(stat, size) ||
	    size % sizeof(u64))
		return -EINVAL;
	err = pool_refusal(pool);
	if (!err)
		err = kinds[kind].read(pool, now);
	if (err)
		return err;
	if (kinds[kind].is_sized)
		now[0] = size;
	kv_give(stat, size, now, kinds[kind].size);
	return 0;
}

/* ---- settings ---- */

int kvmm_pool_set(struct kvmm_pool *pool, enum kvmm_setting what, const void *value)
{
	static int (*const set[KVMM_NR_SETTINGS])(struct kvmm_pool *pool, const void *value) = {
		[KVMM_SET_WATERMARKS] = watermarks_set, [KVMM_SET_PACE] = pace_set,
		[KVMM_SET_BACKGROUND] = background_set, [KVMM_SET_VERIFY] = verify_set,
		[KVMM_SET_RESIDENCY] = residency_set, [KVMM_SET_BALLOON] = balloon_set_bytes,
		[KVMM_SET_TIER] = tier_configure, [KVMM_SET_ELASTIC] = elastic_setup,
		[KVMM_SET_QUIESCENT] = quiescent_set, [KVMM_SET_COMPLETIONS] = completions_set,
		[KVMM_SET_RECALLED] = tier_recall,
	};

	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || (u32)what >= KVMM_NR_SETTINGS)
		return -EINVAL;
	err = pool_refusal(pool);
	return err ? err : set[what](pool, value);
}
