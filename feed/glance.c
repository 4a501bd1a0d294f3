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

static void glance_door(struct kvmm_pool *pool, struct kvmm_alloc_stat *stat)
{
	const struct door *door = &pool->door;

	*stat = (struct kvmm_alloc_stat){
		.nr_waiting = kv_peek(&door->nr_waiting),
		.nr_promised = kv_peek(&door->nr_promised),
		.nr_timed_out = kv_peek(&door->nr_timed_out),
		.nr_cancelled = kv_peek(&door->nr_cancelled),
	};
	kv_peek_copy(&stat->marks, &door->marks, sizeof(stat->marks));
	kv_peek_copy(&stat->costs, &door->costs, sizeof(stat->costs));
	kv_peek_copy(stat->taken, door->taken, sizeof(stat->taken));
	kv_peek_copy(stat->skipped, door->skipped, sizeof(stat->skipped));
	kv_peek_copy(stat->saved, door->saved, sizeof(stat->saved));
}

static void glance_steps(struct kvmm_pool *pool, struct kvmm_step_stat *stat,
			 struct kvmm_pace_stat *pace)
{
	const struct steps *steps = steps_of(pool);
	bool used, open;

	if (steps) {
		kv_peek_copy(stat, &steps->stat, sizeof(*stat));
		kv_peek_copy(pace, &steps->pace.stat, sizeof(*pace));
		pace->bytes_per_ms = kv_peek(&steps->pace.how.bytes_per_ms);
		pace->bytes_per_step = kv_peek(&steps->pace.how.bytes_per_step);
		stat->nr_streams = kv_peek(&steps->nr_streams);
		stat->steps = kv_peek(&steps->nr_steps);
	}
	for (u32 i = 0; steps && i < KVMM_MAX_STREAMS; i++) {
		kv_peek_copy(&used, &steps->stream[i].used, sizeof(used));
		kv_peek_copy(&open, &steps->stream[i].open, sizeof(open));
		stat->nr_open += used && open;
	}
	stat->unseen_blocks = kv_peek(&pool->nr_unseen);
	stat->is_blind = READ_ONCE(pool->blind) != 0;
}

static void glance_elastic(struct kvmm_pool *pool, struct kvmm_elastic_stat *stat)
{
	const struct elastic *now = elastic_of(pool);
	struct elastic el;

	if (!now)
		return;
	kv_peek_copy(&el, now, sizeof(el));
	*stat = (struct kvmm_elastic_stat){
		.unit_bytes = el.unit_bytes, .given_bytes = el.nr_gone * el.unit_bytes,
		.untold_bytes = el.nr_untold * el.unit_bytes,
		.stuck_bytes = el.nr_stuck * el.unit_bytes, .target_bytes = el.target,
		.pageblock_blocks = pool->pb.size,
		.away_blocks = kv_peek(&pool->pb.nr_away),
		.is_active = el.job.active, .nr_relents = el.nr_relents,
		.shrunk_bytes = el.shrunk_bytes, .grown_bytes = el.grown_bytes,
		.moved_blocks = el.moved, .evicted_blocks = el.evicted, .nr_failed = el.nr_failed,
	};
	for (u32 i = 0; i < el.nr_spans; i++)
		stat->total_bytes += el.span[i].nr_units * el.unit_bytes;
}

static void glance_classes(struct kvmm_pool *pool, struct kv_pool_glance *glance)
{
	const struct classes *classes = pool->order.classes;

	kv_assert(!classes || classes->nr <= ARRAY_SIZE(glance->class));
	glance->nr_classes = classes ? classes->nr : 0;
	for (u32 i = 0; i < glance->nr_classes; i++) {
		struct class class;

		kv_peek_copy(&class, &classes->class[i], sizeof(class));
		glance->class[i] = (struct kvmm_class_stat){
			.name = class.name, .nr = class.nr, .quota = class.quota,
			.evicted = class.evicted, .demoted = class.demoted,
			.reached = class.reached, .nr_outside = class.nr_outside,
			.bytes = ((u64)class.nr + class.nr_outside) * pool->block_bytes,
		};
	}
}

static void glance_rest(struct kvmm_pool *pool, struct kv_pool_glance *glance)
{
	/* Pairs with kvmm_background_set(): the struct behind the pointer is complete. */
	const struct background *back = smp_load_acquire(&pool->background);
	const struct verify *verify = verify_of(pool);
	struct pool_grow grow;

	glance_door(pool, &glance->alloc);
	kv_peek_copy(&grow, &pool->grow, sizeof(grow));
	glance->growth = (struct kvmm_growth_stat){
		.size = sizeof(glance->growth), .nr_reserved = grow.nr_reserved,
		.nr_reservations = grow.nr_lists, .in_place = grow.in_place,
		.elsewhere = grow.elsewhere, .steals = grow.steals,
		.stolen_blocks = grow.stolen_blocks,
	};
	glance_steps(pool, &glance->step, &glance->pace);
	glance_elastic(pool, &glance->elastic);
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

u32 kv_pool_glance_tenants(struct kvmm_pool *pool, struct kvmm_tenant_stat *tenants, u32 max,
			   struct kvmm_tenant_stat *rest)
{
	const struct quotas *quotas;
	struct account account;
	u32 nr = 0;

	*rest = (struct kvmm_tenant_stat){ .size = sizeof(*rest) };
	kv_rcu_read_lock();	/* an account that goes stays for that long */
	quotas = pool_refusal(pool) ? NULL : smp_load_acquire(&pool->order.quotas);
	for (u32 i = 0; quotas && i < MAX_ACCOUNTS; i++) {
		/* Pairs with account_add(): the account behind the pointer is complete. */
		const struct account *now = smp_load_acquire(&quotas->account[i]);

		if (!now)
			continue;
		kv_peek_copy(&account, now, sizeof(account));
		if (nr++ < max) {
			tenants[nr - 1] = (struct kvmm_tenant_stat){
				.size = sizeof(*tenants), .tenant = account.tenant,
				.min = account.limit.min, .low = account.limit.low,
				.high = account.limit.high, .max = account.limit.max,
				.usage = account.usage, .peak = account.peak,
				.nr_low = account.nr_low, .nr_high = account.nr_high,
				.nr_max = account.nr_max, .nr_oom = account.nr_oom,
				.nr_reclaimed = account.nr_reclaimed,
				.nr_evicted = account.nr_evicted,
			};
			continue;
		}
		rest->usage += account.usage;
		rest->peak += account.peak;
		rest->nr_low += account.nr_low;
		rest->nr_high += account.nr_high;
		rest->nr_max += account.nr_max;
		rest->nr_oom += account.nr_oom;
		rest->nr_reclaimed += account.nr_reclaimed;
		rest->nr_evicted += account.nr_evicted;
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
	[KVMM_STAT_TIER_CONFIG]	= { sizeof(struct kvmm_tier_config), true, tier_config_read },
	[KVMM_STAT_RESIDENCY]	= { sizeof(struct kvmm_residency_stat) * KVMM_NR_RESIDENCY_KINDS,
				    false, residency_stat_read },
	[KVMM_STAT_POOL]	= { sizeof(struct kvmm_pool_stat), false, pool_stat_read },
	[KVMM_STAT_HISTORY]	= { sizeof(kvmm_sum_t), false, history_read },
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
		[KVMM_SET_QUIESCENT] = quiescent_set,
	};

	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || (u32)what >= KVMM_NR_SETTINGS)
		return -EINVAL;
	err = pool_refusal(pool);
	return err ? err : set[what](pool, value);
}
