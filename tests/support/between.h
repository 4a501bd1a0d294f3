/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step of another thread between two steps of this one, where the library lets go of a lock.
 *
 *	between_arm(&fake, &pool->lock, step, arg);
 *
 * From then on step() runs whenever this thread has let go of the lock, until step() says true. Any
 * thread could take the lock there; the test is the one that does.
 */
#ifndef TESTS_SUPPORT_BETWEEN_H
#define TESTS_SUPPORT_BETWEEN_H

#include <kv/lock.h>

#include "tests/support/fake_env.h"

static struct between {
	struct kv_lock *lock;		/* NULL: the step is done */
	bool (*step)(void *arg);
	void *arg;
} between;

/* A lock that has waiters wakes one when it is let go of. */
static void between_wake(void *ctx, u32 *word)
{
	struct between now = between;

	(void)ctx;
	if (!now.lock || word != &now.lock->waiters)
		return;
	between.lock = NULL;	/* the step takes the lock, too */
	if (now.step(now.arg))
		return;
	between = now;
	WRITE_ONCE(now.lock->waiters, 1);
}

static inline void between_arm(struct fake_env *fake, struct kv_lock *lock,
			       bool (*step)(void *arg), void *arg)
{
	between = (struct between){ lock, step, arg };
	fake->ops.wake = between_wake;
	WRITE_ONCE(lock->waiters, 1);
}

static inline bool between_is_done(void)
{
	return !between.lock;
}

#endif /* TESTS_SUPPORT_BETWEEN_H */
