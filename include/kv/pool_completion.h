/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions of device work as an input of deterministic pools: see struct kvmm_completions.
 *
 * An operation that a device ends on its own has a number. While ->are_told is set, it counts as
 * over when its number was told, not when the device is through; ranks are told the same. What
 * the device says meanwhile goes to kvmm_completions_get() alone.
 *
 * The folder that owns an operation walks its own ones, and has completion_meet() told of each.
 */
#ifndef KV_POOL_COMPLETION_H
#define KV_POOL_COMPLETION_H

#include <errno.h>

#include <kv/bits.h>
#include <kv/types.h>
#include <kvmm/ext/group.h>

/* Of one operation. Guard: that of the operation. */
struct completion {
	u64 number;		/* from 1 on; 0: of a pool where none is told */
	bool is_over;		/* told, or given up */
	bool has_failed;	/* on any rank */
};

/* One thread at a time changes a deterministic pool, so no lock guards the counts. */
struct completions {
	bool are_told;		/* fixed at creation */
	u64 nr_begun;
	u64 upto;		/* told */
	u64 block_ns;		/* told: what a block takes to be copied; 0: not yet */
};

#define COMPLETIONS_MAX		(KV_WORD_BITS * KVMM_COMPLETIONS_WORDS)

/* A walk of all operations: what is complete here, or, if @tells, what is over from now on. */
struct completion_walk {
	struct kvmm_completions *told;
	bool tells;
};

static inline void completion_begin(struct completions *all, struct completion *one)
{
	*one = (struct completion){ 0 };
	if (unlikely(all->are_told))
		one->number = ++all->nr_begun;
}

/* How it went: @err, or where that is told, what was: -EAGAIN it is not over. */
static inline int completion_result(const struct completions *all, const struct completion *one,
				    int err)
{
	if (likely(!all->are_told))
		return err;
	if (!one->is_over)
		return -EAGAIN;
	return one->has_failed ? -EIO : 0;
}

/* For kvmm_validate(): what was told is over, and nothing else is known by number. */
static inline bool completion_is_sound(const struct completions *all, const struct completion *one)
{
	if (!all->are_told || one->is_over)
		return all->are_told ? one->number <= all->nr_begun : !one->number;
	return one->number > all->upto && one->number <= all->nr_begun;
}

static inline bool completion_failed(const struct kvmm_completions *told, u64 number)
{
	u64 at = number - told->base - 1;

	return at < COMPLETIONS_MAX &&
	       told->failed[at / KV_WORD_BITS] & BIT64(at % KV_WORD_BITS);
}

/* The device says @err of it: -EAGAIN it is at it. */
static inline void completion_meet(struct completion_walk *walk, struct completion *one, int err)
{
	struct kvmm_completions *told = walk->told;
	u64 at = one->number - told->base - 1;

	if (one->is_over || one->number <= told->base || one->number > told->upto)
		return;
	if (walk->tells) {
		one->is_over = true;
		one->has_failed = completion_failed(told, one->number);
	} else if (err == -EAGAIN) {
		told->upto = one->number - 1;
	} else if (err) {
		told->failed[at / KV_WORD_BITS] |= BIT64(at % KV_WORD_BITS);
	}
}

#endif /* KV_POOL_COMPLETION_H */
