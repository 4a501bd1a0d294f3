// SPDX-License-Identifier: Apache-2.0
/*
 * What makes blocks move, as much as there can be: compaction for ever new goals; memory that is
 * given back, used by somebody else, and comes again; checksums that are compared.
 */
#include <errno.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/moves.h>
#include <string.h>

#include "engine.h"

#define UNIT_BYTES	4096u		/* memory comes and goes in such pieces of a plane */
#define LOAN_TURNS	24u
#define REST_TURNS	48u

int mover_open(struct engine *engine, struct mover *mover)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = UNIT_BYTES };
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };
	int err = 0;

	*mover = (struct mover){ .engine = engine };
	if (engine->opt->is_elastic)
		err = kvmm_pool_elastic_setup(engine->pool, &elastic);
	if (!err && engine->opt->is_verified)
		err = kvmm_verify_set(engine->pool, &verify);
	return err ? err : engine->device->stream(engine->device, &mover->stream);
}

/* A run of ever other length is wanted. Whether one can be had is all the same here. */
void mover_compact(struct engine *engine)
{
	uint32_t mode = engine->mode == BETWEEN ? KVMM_MOVE_BETWEEN : KVMM_MOVE_BESIDE;
	uint32_t nr = __atomic_fetch_add(&engine->nr_compactions, 1, __ATOMIC_RELAXED);
	struct kvmm_compact goal = {
		.size = sizeof(goal), .want_run = 4 + nr % (NR_BLOCKS / 2),
	};

	kvmm_compact_start(engine->pool, &goal, mode);
	kvmm_compact_poll(engine->pool);
}

/* Whoever has the memory now writes into it: nobody else may be using it. */
static int use_lent(struct mover *mover, uint32_t first)
{
	struct device *device = mover->engine->device;
	int err = 0;

	for (uint32_t i = first; i < mover->nr_lent && !err; i++) {
		mover->lent_bytes += mover->lent[i].bytes;
		err = device->fill(device, mover->stream, mover->lent[i].addr, 0xee,
				   mover->lent[i].bytes);
	}
	return err;
}

static int lend(struct mover *mover)
{
	struct kvmm_shrink req = {
		.size = sizeof(req), .ranges = mover->lent + mover->nr_lent,
		.max_ranges = NR_BLOCKS - mover->nr_lent,
	};
	uint32_t first = mover->nr_lent;
	int err = kvmm_pool_shrink_poll(mover->engine->pool, &req);

	mover->is_shrinking = err > 0;
	mover->nr_lent += req.nr_ranges;
	/* With less than was asked for it has ended well, too. */
	return err < 0 && err != -ENOSPC ? err : use_lent(mover, first);
}

/* A sixth of the pool, or less. */
static void start_lending(struct mover *mover)
{
	struct kvmm_shrink req = {
		.size = sizeof(req), .bytes = NR_PLANES * plane_bytes() / 6,
		.min_bytes = UNIT_BYTES,
	};

	mover->is_shrinking = !kvmm_pool_shrink_start(mover->engine->pool, &req, KVMM_MOVE_BESIDE);
	mover->nr_lent = 0;
}

/* What was given back since the last poll, before it was cancelled: nobody else will hand it back. */
static int take_untold(struct mover *mover)
{
	int nr = kvmm_pool_freed(mover->engine->pool, mover->lent + mover->nr_lent,
				 NR_BLOCKS - mover->nr_lent);

	if (nr > 0)
		mover->nr_lent += nr;
	return nr < 0 ? nr : 0;
}

/* The last write of whoever had it has ended by then. */
static int take_back(struct mover *mover)
{
	struct kvmm_regain req = {
		.size = sizeof(req), .ranges = mover->lent,
	};
	struct device *device = mover->engine->device;
	int err = device->wait(device, mover->stream);

	if (mover->is_shrinking)
		kvmm_pool_shrink_cancel(mover->engine->pool);
	mover->is_shrinking = 0;
	if (!err)
		err = take_untold(mover);
	req.nr_ranges = mover->nr_lent;
	if (!err && mover->nr_lent)
		err = kvmm_pool_grow(mover->engine->pool, &req);
	if (err == -EBUSY)
		return 0;		/* somebody else shrinks it meanwhile: it stays lent until then */
	mover->nr_lent = 0;
	return err == -ENOSPC ? 0 : err;	/* parts of a pageblock: later, with the rest */
}

static int lend_and_take_back(struct mover *mover)
{
	uint32_t turn = mover->turns++ % (LOAN_TURNS + REST_TURNS);

	if (turn == 0 && !mover->nr_lent)
		start_lending(mover);
	if (turn < LOAN_TURNS)
		return mover->is_shrinking ? lend(mover) : 0;
	return turn == LOAN_TURNS || mover->nr_lent ? take_back(mover) : 0;
}

void mover_turn(struct mover *mover)
{
	struct engine *engine = mover->engine;

	if (engine->mode != STILL)
		mover_compact(engine);
	if (engine->opt->is_elastic && engine->mode != STILL && !mover->err)
		mover->err = lend_and_take_back(mover);
	if (engine->opt->is_verified)
		kvmm_verify_tick(engine->pool);
}

/* Nothing is under way any more. */
int mover_close(struct mover *mover)
{
	struct engine *engine = mover->engine;
	int err = mover->err;

	if (!err && engine->opt->is_elastic)
		err = take_back(mover);
	kvmm_compact_cancel(engine->pool);
	if (mover->stream) {
		engine->device->wait(engine->device, mover->stream);
		engine->device->end_stream(engine->device, mover->stream);
	}
	return err;
}
