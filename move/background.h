/* SPDX-License-Identifier: Apache-2.0 */
/* Compaction without a request: when, and on which thread. */
#ifndef POOL_BACKGROUND_H
#define POOL_BACKGROUND_H

#include <kvmm/compact.h>
#include <pool/internal.h>

/* Then all counts of lengths are halved: the requests of late count. */
#define ASKED_MOST	4096u

struct background {
	struct kv_lock lock;
	struct kvmm_background how;	/* ->lock */
	struct kvmm_background_stat stat;	/* ->lock */
	u64 next_ns;			/* ->lock; the next look; READ_ONCE() as a hint */
	u32 defer_shift;		/* ->lock */
	bool on;			/* ->lock; READ_ONCE() as a hint */

	bool verifies;			/* ->lock; READ_ONCE() as a hint: on, and asked for */
	bool awaits;			/* ->lock; READ_ONCE() hint: the device is at a batch */
	u64 scrub_ns;			/* ->lock; READ_ONCE() as a hint: next optional batch */
	u64 retry_ns;			/* ->lock; READ_ONCE() as a hint: no vain retry before */
	u32 retry_shift;		/* ->lock */

	struct kv_lock thread_lock;	/* to start and stop it */
	void *thread;			/* ->thread_lock */
	u32 stop;			/* atomic; slept on */
};

void asked_age(struct asked *asked);
/* The median length; 0: no caller has asked for any. pool->lock held. */
u32 asked_median(const struct asked *asked);

static inline u32 asked_slot(u32 nr)
{
	return nr <= ASKED_EXACT ? nr : ASKED_EXACT + kv_log2(nr) - kv_log2(ASKED_EXACT) + 1;
}

/* A range of @nr blocks was allocated. pool->lock held. */
static inline void asked_for(struct asked *asked, u32 nr)
{
	asked->nr[asked_slot(nr)]++;
	if (unlikely(++asked->sum == ASKED_MOST))
		asked_age(asked);
}

#endif /* POOL_BACKGROUND_H */
