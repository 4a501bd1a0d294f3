/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that have nothing to do until an operation of a tier is over. */
#ifndef TESTS_SUPPORT_TIER_WAIT_H
#define TESTS_SUPPORT_TIER_WAIT_H

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include <kvmm/tier.h>

/* Poll until @op is over, or for @timeout_ns: 0 its result can be fetched; -ETIMEDOUT; or an error. */
static inline int tier_wait(struct kvmm_pool *pool, kvmm_tier_op_t op, uint64_t timeout_ns)
{
	const struct timespec look = { .tv_nsec = 50000 };
	uint64_t nr_looks = timeout_ns / (uint64_t)look.tv_nsec;
	int err, cancel;

	while ((err = kvmm_tier_get_result(pool, op, NULL)) == -EAGAIN) {
		err = kvmm_tier_poll(pool);
		if (err < 0)
			return err;
		if (!nr_looks--)
			return kvmm_tier_get_result(pool, op, NULL) ? -ETIMEDOUT : 0;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		nanosleep(&look, NULL);
		pthread_setcancelstate(cancel, NULL);
	}
	return err;
}

#endif /* TESTS_SUPPORT_TIER_WAIT_H */
