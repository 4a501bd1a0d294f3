// SPDX-License-Identifier: Apache-2.0
/*
 * A worker that takes memory and dies: what it had is listed, found to be a leak, and taken back.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define WORKER	7u
#define OTHER	8u
#define SECOND	1000000000ull

static struct kvmm_pool *pool;

/* A range, a private block and a staged one, with a lease that the worker renews at each step. */
static int work(void)
{
	struct kvmm_lease_attr own = KVMM_LEASE_ATTR_INIT;
	kvmm_key_t key = { { 1 } };
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_staged_t staged;
	kvmm_range_t range;
	kvmm_mut_t muts[2];
	int err = kvmm_range_alloc(pool, 4, KVMM_RUNS(1), &range);

	own.owner = WORKER;
	own.lease_ns = SECOND;
	own.flags = KVMM_LEASE_RECLAIM;
	if (!err)
		err = kvmm_lease_own_ranges(pool, &own, &range, 1);
	if (!err)
		err = kvmm_alloc(pool, 2, muts);
	if (!err)
		err = kvmm_lease_own_muts(pool, &own, muts, 1);
	if (!err)
		err = kvmm_stage(pool, &prefix, &muts[1], &staged);
	if (!err)
		err = kvmm_lease_own_staged(pool, &own, &staged, 1);
	if (!err)
		err = kvmm_lease_renew(pool, WORKER, NULL, SECOND) == 3 ? 0 : -EPROTO;
	return err;
}

static void list(void)
{
	struct kvmm_lease_info row;
	uint64_t cursor = 0;

	while (kvmm_lease_list(pool, NULL, &cursor, &row, 1) == 1)
		printf("  %s of %llu: %u blocks\n", kvmm_lease_kind_name(row.kind),
		       (unsigned long long)row.owner, row.nr);
}

/* kvmm's clock. */
static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* A second later nothing was heard of it. */
static int look_after(void)
{
	uint64_t late = now_ns() + 2 * SECOND;
	struct kvmm_lease_filter filter = KVMM_LEASE_FILTER_INIT;
	struct kvmm_lease_expired expired;
	struct kvmm_lease_info rows[4];
	uint64_t cursor = 0;

	filter.leaks = KVMM_LEAK_ANY;
	filter.now_ns = late;
	printf("%d leaks\n", kvmm_lease_list(pool, &filter, &cursor, rows, 4));
	return kvmm_lease_expire(pool, late, &expired) == 3 ? 0 : -EPROTO;
}

/* A request that is aborted gives all back at once, without knowing what it had. */
static int abort_other(void)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 2, .owner = OTHER };
	kvmm_range_t range;
	int err = kvmm_lease_watch(pool, OTHER, getpid(), 0);	/* what it leaves is a leak */

	if (err && err != -EOPNOTSUPP)
		return err;
	err = kvmm_range_alloc_attr(pool, &attr, &range);
	printf("%d thing released\n", kvmm_lease_release(pool, OTHER, NULL));
	kvmm_lease_watch(pool, OTHER, 0, 0);
	return err ? err : kvmm_range_free(pool, range) == -ESTALE ? 0 : -EPROTO;
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = 32;
	err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = work();
	list();
	if (!err)
		err = look_after();
	if (!err)
		err = abort_other();
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	return err != 0;
}
