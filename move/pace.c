// SPDX-License-Identifier: Apache-2.0
/* How fast copies beside steps go; see pace.h. */
#include <kv/env.h>

#include "step.h"

#define NS_PER_MS	1000000ull

/* Above that nothing is limited, and no product overflows. */
#define MAX_RATE	(1ull << 40)

static void earn(struct kvmm_pool *pool, struct pace *pace)
{
	s64 most = max(pace->how.bytes_per_ms, pool->block_bytes);
	u64 now = kv_clock_ns(), ns = min(now - pace->since_ns, NS_PER_MS);

	pace->since_ns = now;
	pace->credit = min(pace->credit + (s64)(pace->how.bytes_per_ms * ns / NS_PER_MS), most);
}

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
		earn(pool, pace);
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

	pace->stat.portions++;
	pace->stat.bytes += bytes;
	if (pace->how.bytes_per_ms)
		pace->credit -= bytes;
	if (pace->how.bytes_per_step)
		pace->step_credit -= bytes;
}

void pace_step(struct steps *steps)
{
	steps->pace.step_credit = steps->pace.how.bytes_per_step;
}

/* Below zero by one block at most; above, by nothing. */
static int check_credit(const struct kvmm_pool *pool, const struct pace *pace)
{
	s64 least = -(s64)pool->block_bytes, most = max(pace->how.bytes_per_ms, pool->block_bytes);

	if (pace->how.bytes_per_ms && (pace->credit < least || pace->credit > most))
		return -EUCLEAN;
	/* Copies made while no step is open are paid as well, and not asked for. */
	return pace->how.bytes_per_step && pace->step_credit > (s64)pace->how.bytes_per_step ?
	       -EUCLEAN : 0;
}

static int pace_check(struct kvmm_pool *pool)
{
	struct steps *steps = steps_of(pool);
	int err;

	if (!steps)
		return 0;
	kv_lock(&steps->lock);
	err = check_credit(pool, &steps->pace);
	kv_unlock(&steps->lock);
	return err;
}

/* ---- calls ---- */

static void change_pace(struct pace *pace, const struct kvmm_pace *how)
{
	pace->how = *how;
	pace->credit = pace->step_credit = 0;
	pace->since_ns = kv_clock_ns();
	if (how->bytes_per_step)
		pace->step_credit = how->bytes_per_step;
}

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
		change_pace(&steps->pace, &known);
		kv_unlock(&steps->lock);
	}
	kv_unlock(&pool->compact_lock);
	return err;
}

int pace_stat_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_pace_stat *stat = out;
	struct steps *steps;

	steps = steps_of(pool);
	if (!steps)
		return 0;
	kv_lock(&steps->lock);
	*stat = steps->pace.stat;
	stat->bytes_per_ms = steps->pace.how.bytes_per_ms;
	stat->bytes_per_step = steps->pace.how.bytes_per_step;
	kv_unlock(&steps->lock);
	return 0;
}

POOL_PART(pace) = {
	.name		= "credit for copies",
	.check_apart	= pace_check,
};
