// SPDX-License-Identifier: Apache-2.0
/*
 * Operations: how callers wait for them, how they end, and how they are given up.
 *
 * Giving up takes the operation's wants from wherever they hang; loads and copies that they waited
 * for go on until they are over, and find no waiter.
 */
#include <kv/file.h>
#include <kv/mem.h>

#include "tier.h"

/* ---- memory ---- */

void op_free(struct tier_op *op)
{
	if (!op)
		return;
	kv_free(op->block_error);
	kv_free(op->ref);
	kv_free(op->want);
	kv_free(op);
}

struct tier_op *op_make(u32 nr, bool is_load)
{
	struct tier_op *op = kv_alloc(sizeof(*op));
	u32 room = max(nr, 1u);

	if (!op)
		return NULL;
	op->nr = nr;
	op->is_load = is_load;
	op->want = kv_alloc_array(room, sizeof(*op->want));
	op->ref = is_load ? kv_alloc_array(room, sizeof(*op->ref)) : NULL;
	op->block_error = kv_alloc_array(room, sizeof(*op->block_error));
	if (op->want && (op->ref || !is_load) && op->block_error)
		return op;
	op_free(op);
	return NULL;
}

/* ---- the table ---- */

int op_publish(struct lower *lower, struct tier_op *op, kvmm_tier_op_t *handle)
{
	kv_assert_held(&lower->lock);
	for (u32 i = 0; i < KVMM_TIER_OPS; i++) {
		if (lower->op[i].op || lower->op[i].gen == UINT32_MAX)
			continue;
		lower->op[i].op = op;
		lower->nr_ops++;
		op->index = i;
		op->is_busy = true;
		*handle = (kvmm_tier_op_t){ i, lower->op[i].gen };
		return 0;
	}
	return -EAGAIN;
}

void op_unpublish(struct lower *lower, struct tier_op *op)
{
	struct op_place *place = &lower->op[op->index];

	kv_assert_held(&lower->lock);
	kv_assert(lower->nr_ops);
	lower->nr_over -= !op->nr_left && !op->is_busy;
	lower->nr_ops--;
	place->op = NULL;
	place->gen++;
}

static int op_find(struct lower *lower, kvmm_tier_op_t handle, struct tier_op **op)
{
	const struct op_place *place;

	kv_assert_held(&lower->lock);
	if (handle.index >= KVMM_TIER_OPS || !handle.gen ||
	    handle.gen > lower->op[handle.index].gen)
		return -EINVAL;
	place = &lower->op[handle.index];
	if (!place->op || place->gen != handle.gen || place->op->is_busy)
		return handle.gen < place->gen ? -ESTALE : -EINVAL;
	*op = place->op;
	return 0;
}

/* ---- wants ---- */

void op_hang(struct tier_op *op, u32 i, struct want **list)
{
	struct want *want = &op->want[i];

	kv_assert(i < op->nr);
	want->op = op;
	want->next = *list;
	want->at = list;
	if (want->next)
		want->next->at = &want->next;
	*list = want;
	op->nr_left++;
}

static void unhang(struct want *want)
{
	kv_assert(*want->at == want);
	*want->at = want->next;
	if (want->next)
		want->next->at = want->at;
	want->at = NULL;
	kv_assert(want->op->nr_left);
	want->op->nr_left--;
}

void op_unhang(struct tier_op *op)
{
	for (u32 i = 0; i < op->nr; i++)
		if (op->want[i].at)
			unhang(&op->want[i]);
}

static void signal_over(struct lower *lower)
{
	kv_assert_held(&lower->lock);
	if (lower->event >= 0)
		kv_file()->event_set(kv_file()->ctx, lower->event);
}

static void settle(struct lower *lower, struct tier_op *op)
{
	kv_assert_held(&lower->lock);
	if (op->nr_left || op->is_busy)
		return;
	lower->nr_over++;
	signal_over(lower);
}

void op_open(struct lower *lower, struct tier_op *op)
{
	kv_assert_held(&lower->lock);
	op->is_busy = false;
	settle(lower, op);
}

void want_end(struct lower *lower, struct want *want, int error)
{
	struct tier_op *op = want->op;

	kv_assert_held(&lower->lock);
	unhang(want);
	op->block_error[want - op->want] = error;
	op->nr_failed += error != 0;
	if (error && !op->error)
		op->error = error;
	settle(lower, op);
}

void wants_end(struct lower *lower, struct want **list, int error)
{
	kv_assert_held(&lower->lock);
	while (*list)
		want_end(lower, *list, error);
}

void op_drop(struct kvmm_pool *pool, struct tier_op *op)
{
	kv_assert_not_held(&pool->lock);
	for (u32 i = op->nr; op->is_load && i-- > 0;)
		if (op->ref[i].gen)
			kvmm_put_many(pool, (const kvmm_ref_t *)&op->ref[i], 1);
	op_free(op);
}

/* ---- results ---- */

/* A caller that waits for the descriptor looks again while there is an operation to fetch. */
static void unsignal(struct lower *lower)
{
	kv_assert_held(&lower->lock);
	if (lower->event >= 0 && !lower->nr_over)
		kv_file()->event_clear(kv_file()->ctx, lower->event);
}

/* It is over: out of the table, if there is room for the result. Else -EAGAIN. */
static int take_result(struct lower *lower, kvmm_tier_op_t handle,
		       const struct kvmm_tier_result *result, struct tier_op **result_op)
{
	struct tier_op *op;
	bool gives_refs;
	int err;

	kv_lock(&lower->lock);
	err = op_find(lower, handle, &op);
	if (err)
		goto out;
	gives_refs = op->is_load && !op->error && op->nr;
	if (!result)
		err = op->nr_left ? -EAGAIN : 0;
	else if (op->nr != result->nr || (!op->nr_left && gives_refs && !result->refs))
		err = -EINVAL;
	else if (op->nr_left)
		err = -EAGAIN;
	if (err || !result)
		goto out;
	op_unpublish(lower, op);
	unsignal(lower);
	*result_op = op;
out:
	kv_unlock(&lower->lock);
	return err;
}

int kvmm_tier_get_result(struct kvmm_pool *pool, kvmm_tier_op_t handle,
			 struct kvmm_tier_result *result)
{
	struct kvmm_tier_result known;
	struct lower *lower;
	struct tier_op *op;
	int err = lower_enter(pool, &lower);

	if (err)
		return err;
	if (!result)
		return take_result(lower, handle, NULL, &op);
	if (kv_copy_attr(&known, sizeof(known), result))
		return -EINVAL;
	err = take_result(lower, handle, &known, &op);
	if (err)
		return err;
	err = op->error;
	if (known.errors)
		memcpy(known.errors, op->block_error, op->nr * sizeof(*known.errors));
	known.nr_failed = op->nr_failed;
	if (op->is_load && !err) {
		memcpy(known.refs, op->ref, op->nr * sizeof(*known.refs));
		memset(op->ref, 0, op->nr * sizeof(*op->ref));
	}
	kv_give_sized(result, &known, sizeof(known));
	op_drop(pool, op);
	return err;
}

/* ---- giving up ---- */

static struct tier_op *take_any(struct lower *lower)
{
	struct tier_op *op = NULL;

	kv_lock(&lower->lock);
	for (u32 i = 0; i < KVMM_TIER_OPS && lower->nr_ops && !op; i++)
		if (lower->op[i].op && !lower->op[i].op->is_busy)
			op = lower->op[i].op;
	if (op) {
		op_unpublish(lower, op);
		op_unhang(op);
		unsignal(lower);
		lower->stat.aborted++;
	}
	kv_unlock(&lower->lock);
	return op;
}

int kvmm_tier_abort(struct kvmm_pool *pool, kvmm_tier_op_t handle)
{
	bool all = handle.index == UINT32_MAX && handle.gen == UINT32_MAX;
	struct lower *lower;
	struct tier_op *op;
	int err = lower_enter(pool, &lower), nr = 0;

	if (err)
		return err;
	kv_lock(&lower->lock);
	if (all) {
		below_clear(lower, -ECANCELED);
		for (u32 i = 0; i < lower->nr_items; i++)
			lower->item[i].is_kept = false;
		kv_unlock(&lower->lock);
		for (op = take_any(lower); op; op = take_any(lower), nr++)
			op_drop(pool, op);
		return nr;
	}
	err = op_find(lower, handle, &op);
	if (!err) {
		op_unpublish(lower, op);
		op_unhang(op);
		unsignal(lower);
		lower->stat.aborted++;
	}
	kv_unlock(&lower->lock);
	if (!err)
		op_drop(pool, op);
	return err;
}

/* ---- the descriptor ---- */

int kvmm_tier_eventfd(struct kvmm_pool *pool)
{
	struct lower *lower;
	int err = lower_enter(pool, &lower), event;

	if (err)
		return err;
	kv_lock(&lower->lock);
	if (lower->event < 0) {
		event = kv_file()->event_open ? kv_file()->event_open(kv_file()->ctx) : -EOPNOTSUPP;
		lower->event = event < 0 ? -1 : event;
		if (event >= 0 && lower->nr_over)
			signal_over(lower);
	} else {
		event = lower->event;
	}
	kv_unlock(&lower->lock);
	return event;
}
