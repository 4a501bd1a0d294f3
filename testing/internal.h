/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the bench share. Nothing of kvmm is seen from here but what is installed. */
#ifndef TESTING_INTERNAL_H
#define TESTING_INTERNAL_H

#include <kvmm/ext/testing.h>
#include <kvmm/kvmm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define LOG_LINE	256

/* A pool that the bench has made; ours. */
struct made_pool {
	struct made_pool *next;
	struct kvmm_pool *pool;
	bool may_be_held;
};

/* Memory that the bench gives back in the end. */
struct scrap {
	struct scrap *next;
	_Alignas(max_align_t) char byte[];
};

struct kvmm_swcuda_control;

struct kvmm_testing {
	/* Any thread. */
	_Atomic uint64_t now_ns;
	_Atomic uint64_t dice;
	_Atomic uint64_t nr_allocs;	/* asked for so far, refused ones included */
	_Atomic uint64_t nr_refused;
	_Atomic uint64_t fail_at;	/* value of nr_allocs that fails; 0 = none */
	_Atomic bool fail_all_later;
	pthread_mutex_t log_lock;
	char log_line[LOG_LINE];	/* ->log_lock */

	/* The test's thread. */
	struct kvmm_testing_host host;	/* fixed; borrowed by the library */
	struct kvmm_testing_state before;	/* fixed */
	struct made_pool *pools;
	struct scrap *scraps;
	char *picture;			/* ours; of the last call */
	char why[KVMM_TESTING_WHY];	/* all failures, a line each */
	size_t why_len;
	size_t last_why;		/* where the last one begins */
	char last_line[KVMM_TESTING_WHY];	/* for kvmm_testing_why() */
	unsigned int nr_failures;
	const struct kvmm_swcuda_control *soft;	/* NULL: kvmm_testing_soft() was not called */
	char soft_line[LOG_LINE];	/* the driver's last message */
};

/* Write a failure down: -EBADMSG, or @err if that is not 0, which is then added in words. */
int bench_fail(struct kvmm_testing *t, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Zeroed; until the end of the bench. NULL: no memory. */
void *bench_alloc(struct kvmm_testing *t, size_t nr, size_t size);

struct made_pool *bench_find_pool(const struct kvmm_testing *t, const struct kvmm_pool *pool);

/* Every pool: checked, destroyed. */
void bench_end_pools(struct kvmm_testing *t);

/* What the software driver has reported is written down. */
void bench_end_soft(struct kvmm_testing *t);

#endif /* TESTING_INTERNAL_H */
