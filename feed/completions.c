// SPDX-License-Identifier: Apache-2.0
/*
 * What devices have done, told to deterministic pools: see <kv/pool_completion.h>.
 *
 * Moves, ends of steps and copies of tiers are met in one walk, twice when they are told: first as
 * for a reader, so that nothing is told that this rank's device has not done, then to tell them.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <move/goal.h>
#include <move/step.h>
#include <pool/determ.h>
#include <tier/pool/tier.h>

#include "internal.h"

static void meet_all(struct kvmm_pool *pool, struct kvmm_completions *told, bool tells)
{
	struct completion_walk walk = { .told = told, .tells = tells };
	struct lower *lower = lower_of(pool);

	kv_lock(&pool->compact_lock);
	flights_walk(pool, &walk);
	kv_unlock(&pool->compact_lock);
	if (lower)
		batches_walk(pool, lower, &walk);
}

/* Those beyond the first that is not complete have not been told, failed or not. */
static void look(struct kvmm_pool *pool, struct kvmm_completions *now)
{
	const struct completions *all = &pool->completions;
	struct kvmm_completions found = { .base = all->upto };

	found.upto = min(all->nr_begun, all->upto + COMPLETIONS_MAX);
	device_look(pool);
	meet_all(pool, &found, false);
	/* While the device is blind no failed copy is known to have ended. */
	if (READ_ONCE(pool->blind) && !device_is_lost(pool))
		found.upto = all->upto;
	kvmm_completions_join(&found, &found);
	found.size = now->size;
	*now = found;
}

int completions_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_completions *now = out;

	if (!pool->deterministic)
		return -EOPNOTSUPP;
	look(pool, now);
	now->now_ns = kv_clock_ns();
	now->block_ns = goal_measured_ns(pool);
	return 0;
}

static bool are_good(const struct completions *all, const struct kvmm_completions *told)
{
	struct kvmm_completions cut = *told;

	if (told->upto < told->base || told->upto > all->nr_begun ||
	    told->upto - told->base > COMPLETIONS_MAX)
		return false;
	kvmm_completions_join(&cut, &cut);
	return !memcmp(cut.failed, told->failed, sizeof(cut.failed));
}

/* 0: here they are complete, and none failed but those that are known to. */
static int compare(const struct kvmm_completions *mine, const struct kvmm_completions *told)
{
	if (mine->upto < told->upto)
		return -EAGAIN;
	for (u64 number = told->base + 1; number <= told->upto; number++)
		if (completion_failed(mine, number) && !completion_failed(told, number))
			return -EIO;
	return 0;
}

int completions_set(struct kvmm_pool *pool, const void *value)
{
	struct kvmm_completions told, mine = { 0 };
	int err = value ? kv_copy_attr(&told, sizeof(told), value) : -EINVAL;

	if (err)
		return err;
	if (!pool->deterministic)
		return -EOPNOTSUPP;
	if (told.base != pool->completions.upto)
		return -ESTALE;
	if (!are_good(&pool->completions, &told))
		return -EINVAL;
	look(pool, &mine);
	err = compare(&mine, &told);
	if (err)
		return err;
	meet_all(pool, &told, true);
	pool->completions.upto = told.upto;
	if (told.block_ns)
		pool->completions.block_ns = told.block_ns;
	if (told.now_ns)
		pool_told_ns(pool, told.now_ns);
	kv_lock(&pool->lock);
	sum_add(&pool->history, history_word(HISTORY_TOLD, 0, 0));
	sum_add_bytes(&pool->history, &told.base, sizeof(told) - sizeof(told.size));
	pool_leave(pool);
	return 0;
}
