// SPDX-License-Identifier: Apache-2.0
/*
 * One part of a gang: taken, and then committed or undone.
 *
 * Victims stay claimed until the commit, with their names; see claims.h. Those of single blocks
 * keep their blocks as well, those of a range lend them to it. All that the pool notes of them
 * elsewhere (which are picked, for which account) is taken back meanwhile, since it is to be 0
 * between calls, and noted again before they go, or go back.
 *
 * A part that is reserved and undone leaves no trace in the history either: only a commit enters
 * it.
 */
#include <order/digest.h>
#include <pool/local.h>

#include "gang.h"

/* ---- victims that wait ---- */

static void count_claims(struct kvmm_pool *pool, const struct victims *victims, int sign)
{
	kv_assert_held(&pool->lock);
	for_each_victim(pool, victims, at, i) {
		bool named = !(READ_ONCE(entry_at(pool, at)->word) & KV_ENTRY_MARK);

		kv_assert(at < pool->entries.nr);
		pool->claims.nr += sign;
		pool->claims.nr_named += named ? sign : 0;
	}
}

/* The order's lock held, as for the next. */
static void victims_wait(struct kvmm_pool *pool, const struct victims *victims)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	for_each_victim(pool, victims, at, i)
		quota_lend(pool->order.quotas, at);
	count_claims(pool, victims, 1);
}

static void victims_wake(struct kvmm_pool *pool, const struct victims *victims)
{
	kv_assert_held(&pool->lock);
	for_each_victim(pool, victims, at, i)
		quota_unlend(&pool->order, at);
	count_claims(pool, victims, -1);
}

/* Of those that are free now some were promised, and this one is not to spare. */
static bool all_are_promised(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	return pool_nr_free(pool) <= pool->door.nr_promised;
}

/*
 * The block is in the range from now on, or, where the engine cannot take it back, or it has made
 * up for promised ones that the range has, without an owner.
 */
static void lend(struct kvmm_pool *pool, u32 index)
{
	u32 block = entry_block(entry_at(pool, index));
	u32 owner = pool->owner[block];
	bool aside = owner_is_free(owner) || owner_is_away(owner);

	kv_assert_held(&pool->lock);
	kv_assert(index < pool->entries.nr);
	if (!all_are_promised(pool) && victim_return(pool, index))
		return;
	claimed_step(pool, index, aside ? kv_edge_lose : kv_edge_lend);
	pool->count.nr_held--;
	pool->claims.nr_lent++;
}

/* The lender counts as if it had the block; it is about to go, or to get it back. */
static bool unlend(struct kvmm_pool *pool, u32 index)
{
	kv_assert_held(&pool->lock);
	kv_assert(index < pool->entries.nr);
	if (!kv_word_is_lent(READ_ONCE(entry_at(pool, index)->word)))
		return false;
	claimed_step(pool, index, kv_edge_unlend);
	pool->count.nr_held++;
	pool->claims.nr_lent--;
	return true;
}

/* To a part of its gang, or, @aside, to none: free for others. */
static bool is_lent(const struct kvmm_pool *pool, u32 index, bool aside)
{
	u64 word = READ_ONCE(entry_at(pool, index)->word);

	kv_assert(index < pool->entries.nr);
	return kv_word_is_lent(word) && !!(word & KV_ENTRY_RESET) == aside;
}

#define for_each_lender(gang, part, lender)						\
	for (const struct part *lender = (gang)->part; lender <= (part); lender++)	\
		if (lender->pool == (part)->pool)

/*
 * Blocks that others can take are aside only where they made up for promised ones. The part just
 * taken has got some: others cannot write there any more, and have not before.
 */
static void lend_on_all(const struct kvmm_gang *gang, const struct part *part)
{
	struct kvmm_pool *pool = part->pool;

	kv_assert_held(&pool->lock);
	if (likely(!pool->door.nr_promised))
		return;
	for_each_lender(gang, part, lender)
		for_each_victim(pool, &lender->req.ctx.victims, at, i) {
			u32 kind = owner_kind(pool->owner[entry_block(entry_at(pool, at))]);

			if (!is_lent(pool, at, true) ||
			    (kind != OWNER_SLOT && kind != OWNER_ENTRY))
				continue;
			claimed_step(pool, at, kv_edge_unlend);
			claimed_step(pool, at, kv_edge_lend);
		}
}

/* The part's blocks are free, and not written to: parts before it may have lent them. */
static void blocks_left(const struct kvmm_gang *gang, const struct part *part)
{
	kv_assert_held(&part->pool->lock);
	for_each_lender(gang, part, lender)
		for_each_victim(part->pool, &lender->req.ctx.victims, at, i)
			if (is_lent(part->pool, at, false))
				victim_left(part->pool, at);
}

/* For good. @has_block: else the range has the block, or no owner. */
static u32 evict_one(struct kvmm_pool *pool, u32 index, bool has_block)
{
	u32 block = entry_block(entry_at(pool, index));
	u32 nr = entry_forget(pool, index);

	kv_assert_held(&pool->lock);
	kv_assert(index < pool->entries.nr);
	entry_free(pool, entry_handle(pool, index));
	if (has_block)
		block_free(pool, block);
	return nr;
}

/* Newest first, to where they were. An entry that was to be forgotten meanwhile is. */
static void victims_return(struct part *part)
{
	struct kvmm_pool *pool = part->pool;
	struct victims *victims = &part->req.ctx.victims;
	struct quotas *quotas = pool->order.quotas;
	bool forget = part->forgets != pool->claims.forgets;
	bool exact = victims->nr && victims->stamp == pool->order.stamp;
	u32 nr_evicted = 0;

	kv_assert_held(&pool->lock);
	while (victims->nr) {
		u32 index = victims_pop(pool, victims);
		bool has_block = !unlend(pool, index) ||
				 (!all_are_promised(pool) && victim_return(pool, index));

		exact &= has_block && !forget;
		if (!has_block || forget) {
			nr_evicted += evict_one(pool, index, has_block);
			continue;
		}
		if (exact)
			order_unpick(&pool->order, index);
		else
			order_unpick_late(&pool->order, index);
		/* Its tenant may have got other blocks for it, and has more now than ever. */
		if (unlikely(quotas != NULL))
			quota_peak(quotas, quota_of(quotas, index));
	}
	if (exact)
		pool->order.mark = victims->before;
	if (nr_evicted)
		count_evictions(pool, nr_evicted);
}

/* ---- blocks ---- */

/*
 * Its blocks are charged from the reservation on, to the account that its tenant had then: nothing
 * can be too much when it is committed.
 */
static void charge_due(struct part *part, int sign)
{
	s64 nr = sign * (s64)(part->want.nr - part->req.ctx.nr_free);

	kv_assert_held(&part->pool->order.lock);
	part->pool->claims.nr_due += nr;
	quota_due(part->pool->order.quotas, part->req.ctx.account, nr);
}

static int take_blocks(struct part *part)
{
	struct kvmm_pool *pool = part->pool;
	struct alloc_ctx *ctx = &part->req.ctx;
	int err;

	kv_assert_held(&pool->lock);
	order_enter(&pool->order);
	err = alloc_fits(pool, ctx);
	if (!err) {
		err = cache_take_begin(pool, ctx);
		quota_end(&pool->order);
	}
	if (!err) {
		victims_wait(pool, &ctx->victims);
		charge_due(part, 1);
		quota_took(pool->order.quotas, ctx->account);
	}
	order_leave(&pool->order);
	return err;
}

static void undo_blocks(const struct kvmm_gang *gang, struct part *part)
{
	struct kvmm_pool *pool = part->pool;

	kv_assert_held(&pool->lock);
	order_enter(&pool->order);
	cache_untake_free(pool, &part->req.ctx);
	blocks_left(gang, part);
	charge_due(part, -1);
	victims_wake(pool, &part->req.ctx.victims);
	victims_return(part);
	order_leave(&pool->order);
}

static void begin_charge(struct part *part)
{
	quota_begin(&part->pool->order, part->req.ctx.account, QUOTA_FOR_ONE);
}

static void enter_history(struct kvmm_pool *pool, u32 start, u32 nr, u32 owner)
{
	kv_assert_held(&pool->lock);
	if (!pool->deterministic)
		return;
	sum_add(&pool->history, history_word(HISTORY_TAKEN, start, nr));
	sum_add(&pool->history, owner);
}

static int commit_blocks(struct part *part)
{
	struct kvmm_pool *pool = part->pool;
	int err;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < part->req.ctx.nr_free; i++) {
		u32 index = part->req.ctx.blocks[i].index;

		enter_history(pool, entry_block(entry_at(pool, index)), 1,
			      make_owner(OWNER_ENTRY, index));
	}
	order_enter(&pool->order);
	begin_charge(part);
	charge_due(part, -1);
	victims_wake(pool, &part->req.ctx.victims);
	err = cache_take_end(pool, &part->req.ctx);
	quota_end(&pool->order);
	order_leave(&pool->order);
	return err;
}

/* ---- ranges ---- */

/* Under pool->lock all the while, so the order keeps its picks. */
static void lend_all(struct part *part)
{
	struct kvmm_pool *pool = part->pool;
	struct victims *victims = &part->req.ctx.victims;

	kv_assert_held(&pool->lock);
	if (!victims->nr)
		return;
	for_each_victim(pool, victims, at, i)
		lend(pool, at);
	order_enter(&pool->order);
	victims_wait(pool, victims);
	order_leave(&pool->order);
}

/* Its sequence finds it from the commit on. */
static int take_range(struct part *part)
{
	const struct kvmm_gang_want *want = &part->want;
	struct kvmm_pool *pool = part->pool;
	struct alloc_ctx *ctx = &part->req.ctx;
	int err;

	kv_assert_held(&pool->lock);
	part->req.attr = (struct kvmm_range_attr){
		.size = sizeof(part->req.attr), .nr = want->nr, .max_runs = want->max_runs,
		.prio = want->prio, .flags = want->flags, .tenant = want->tenant,
	};
	err = range_check_attr(pool, &part->req.attr);
	if (err)
		return err;
	ctx->take = range_take;
	ctx->flags = want->flags | KVMM_ALLOC_NO_COMPACT;
	ctx->max_runs = part->req.attr.max_runs;
	ctx->prio = part->req.attr.prio;
	err = range_take(pool, ctx);
	if (err == -ENOSPC)
		err = alloc_reclaim(pool, ctx);
	if (err) {
		victims_end(pool, &ctx->victims, true);
		return err;
	}
	range_hide(pool, part->req.range);
	lend_all(part);
	return 0;
}

static void undo_range(const struct kvmm_gang *gang, struct part *part)
{
	struct kvmm_pool *pool = part->pool;

	kv_assert_held(&pool->lock);
	range_untake(pool, part->req.range);
	blocks_left(gang, part);
	if (!part->req.ctx.victims.nr)
		return;
	order_enter(&pool->order);
	victims_wake(pool, &part->req.ctx.victims);
	victims_return(part);
	order_leave(&pool->order);
}

static void evict_all(struct part *part)
{
	struct kvmm_pool *pool = part->pool;
	struct victims *victims = &part->req.ctx.victims;
	u32 nr = 0;

	kv_assert_held(&pool->lock);
	if (!victims->nr)
		return;
	order_enter(&pool->order);
	begin_charge(part);
	victims_wake(pool, victims);
	while (victims->nr) {
		u32 index = victims_pop(pool, victims);

		nr += evict_one(pool, index, !unlend(pool, index));
	}
	count_evictions(pool, nr);
	quota_end(&pool->order);
	order_leave(&pool->order);
}

static int commit_range(struct part *part)
{
	struct kvmm_pool *pool = part->pool;
	struct slot *slot = slot_at(pool, part->req.range.index);

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < slot->nr_ext; i++)
		enter_history(pool, slot_ext(slot, i)->start, slot_ext(slot, i)->nr,
			      make_owner(OWNER_SLOT, part->req.range.index));
	evict_all(part);
	range_show(pool, part->req.range, part->want.seq,
		   pool->zero || part->want.flags & KVMM_ALLOC_ZERO);
	return 0;
}

/* ---- either ---- */

/* A part taken and undone is not in the history, and no news for waiters. */
int part_take(const struct kvmm_gang *gang, struct part *part)
{
	const struct kvmm_gang_want *want = &part->want;
	struct sum history = part->pool->history;
	u32 posted = part->pool->posted;
	int err;

	kv_assert_held(&part->pool->lock);
	part->forgets = part->pool->claims.forgets;
	part->req.ctx = (struct alloc_ctx){
		.nr = want->nr, .tenant = want->tenant, .reserve = want->reserve,
		.blocks = part->req.ctx.blocks, .victims = NO_VICTIMS,
		.account = quota_account(part->pool, want->tenant),
	};
	err = want->kind == KVMM_GANG_RANGE ? take_range(part) : take_blocks(part);
	if (!err)
		lend_on_all(gang, part);
	part->pool->history = history;
	part->pool->posted = posted;
	return err;
}

void part_undo(const struct kvmm_gang *gang, struct part *part)
{
	struct sum history = part->pool->history;

	kv_assert_held(&part->pool->lock);
	if (part->want.kind == KVMM_GANG_RANGE)
		undo_range(gang, part);
	else
		undo_blocks(gang, part);
	part->pool->history = history;
}

int part_commit(struct part *part)
{
	kv_assert_held(&part->pool->lock);
	return part->want.kind == KVMM_GANG_RANGE ? commit_range(part) : commit_blocks(part);
}

bool part_is_scattered(const struct part *part)
{
	kv_assert_held(&part->pool->lock);
	return part->want.kind == KVMM_GANG_RANGE &&
	       !(part->want.flags & KVMM_ALLOC_NO_COMPACT) &&
	       kv_zone_takes_any_run(part->pool->zone) &&
	       part->want.nr <= pool_nr_free(part->pool);
}

static void sum_mut(const struct kvmm_pool *pool, u32 index, struct sum *sum)
{
	sum_add_two(sum, index, entry_block(entry_at(pool, index)));
}

void part_sum(const struct part *part, struct sum *sum)
{
	const struct kvmm_pool *pool = part->pool;
	struct slot *slot;

	kv_assert_held(&part->pool->lock);
	for (u32 i = 0; i < part->req.ctx.nr_free; i++)
		sum_mut(pool, part->req.ctx.blocks[i].index, sum);
	for_each_victim(pool, &part->req.ctx.victims, at, i)
		sum_mut(pool, at, sum);
	if (part->want.kind != KVMM_GANG_RANGE)
		return;
	slot = slot_at(pool, part->req.range.index);
	sum_add(sum, part->req.range.index);
	for (u32 i = 0; i < slot->nr_ext; i++)
		sum_add_two(sum, slot_ext(slot, i)->start, slot_ext(slot, i)->nr);
}
