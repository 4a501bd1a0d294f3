// SPDX-License-Identifier: Apache-2.0
/* How fast copies beside steps go; see pace.h. */
#include <kv/env.h>
#include <kvmm/ext/moves.h>

#include "step.h"

#define NS_PER_MS	1000000ull

/* Above that nothing is limited, and no product overflows. */
#define MAX_RATE	(1ull << 40)

static u32 blocks_of_credit(const struct kvmm_pool *pool, s64 credit)
{
	if (credit <= 0)
		return 0;
	return min(max((u64)credit / max(pool->block_bytes, 1ull), 1ull), (u64)UINT32_MAX);
}

u32 pace_may(struct kvmm_pool *pool, struct steps *steps)
{
	struct pace *pace = &steps->pace;
	u32 nr = UINT32_MAX;

	kv_assert_held(&steps->lock);
	if (pace->how.bytes_per_ms) {
		s64 most = max(pace->how.bytes_per_ms, pool->block_bytes);
		u64 now = kv_clock_ns(), ns = min(now - pace->since_ns, NS_PER_MS);

		pace->since_ns = now;
		pace->credit = min(pace->credit + (s64)(pace->how.bytes_per_ms * ns / NS_PER_MS),
				   most);
		nr = blocks_of_credit(pool, pace->credit);
	}
	if (pace->how.bytes_per_step && steps_are_open(steps))
		nr = min(nr, blocks_of_credit(pool, pace->step_credit));
	pace->stat.denied += !nr;
	return nr;
}

void pace_pay(struct kvmm_pool *pool, struct steps *steps, u32 nr_blocks)
{
	struct pace *pace = &steps->pace;
	u64 bytes = nr_blocks * pool->block_bytes;

	kv_assert_held(&steps->lock);
	pace->stat.portions++;
	pace->stat.bytes += bytes;
	if (pace->how.bytes_per_ms)
		pace->credit -= bytes;
	if (pace->how.bytes_per_step)
		pace->step_credit -= bytes;
}

void pace_step(struct steps *steps)
{
	kv_assert_held(&steps->lock);
	steps->pace.step_credit = steps->pace.how.bytes_per_step;
}

static int pace_check(struct kvmm_pool *pool)
{
	struct steps *steps = steps_of(pool);
	const struct pace *pace;
	s64 least, most;
	bool bad;

	if (!steps)
		return 0;
	kv_lock(&steps->lock);
	pace = &steps->pace;
	least = -(s64)pool->block_bytes;	/* below zero by one block at most ... */
	most = max(pace->how.bytes_per_ms, pool->block_bytes);	/* ... above, by nothing */
	bad = pace->how.bytes_per_ms && (pace->credit < least || pace->credit > most);
	/* Copies made while no step is open are paid as well, and not asked for. */
	bad |= pace->how.bytes_per_step && pace->step_credit > (s64)pace->how.bytes_per_step;
	kv_unlock(&steps->lock);
	return bad ? -EUCLEAN : 0;
}

/* ---- calls ---- */

int pace_set(struct kvmm_pool *pool, const void *value)
{
	const struct kvmm_pace *how = value;
	struct kvmm_pace known;
	struct steps *steps;
	int err;

	if (!how)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), how);
	if (err)
		return err;
	if (known.bytes_per_ms > MAX_RATE || known.bytes_per_step > MAX_RATE || known.reserved)
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	steps = steps_get(pool);
	err = steps ? 0 : -ENOMEM;
	if (!err && pool->dev)
		err = pool->parts.dev->tune(pool->dev, KV_KNOB_BACKGROUND_GROUPS, known.groups);
	if (!err) {
		kv_lock(&steps->lock);
		steps->pace.how = known;
		steps->pace.credit = 0;
		steps->pace.step_credit = known.bytes_per_step;
		steps->pace.since_ns = kv_clock_ns();
		kv_unlock(&steps->lock);
	}
	kv_unlock(&pool->compact_lock);
	return err;
}

void pace_stat_peek(struct kvmm_pool *pool, struct kvmm_pace_stat *stat)
{
	const struct steps *steps = steps_of(pool);

	if (!steps)
		return;
	kv_peek_copy(stat, &steps->pace.stat, sizeof(*stat));
	stat->bytes_per_ms = kv_peek(&steps->pace.how.bytes_per_ms);
	stat->bytes_per_step = kv_peek(&steps->pace.how.bytes_per_step);
}

int pace_stat_read(struct kvmm_pool *pool, void *stat)
{
	struct steps *steps = steps_of(pool);

	if (!steps)
		return 0;
	kv_lock(&steps->lock);
	pace_stat_peek(pool, stat);
	kv_unlock(&steps->lock);
	return 0;
}

POOL_PART(pace) = {
	.name		= "credit for copies",
	.check_apart	= pace_check,
};
