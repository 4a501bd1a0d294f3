// SPDX-License-Identifier: Apache-2.0
/*
 * Two ranks of a tensor-parallel engine, as two pools in one process: they are called alike, decide
 * alike, and see at once when one of them does not.
 */
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_RANKS	2

static struct kvmm_pool *pool[NR_RANKS];

static int make_rank(int rank)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.nr_blocks = 4096;
	attr.flags = KVMM_POOL_DETERMINISTIC;
	attr.seed = 1;			/* the same on all ranks */
	return kvmm_pool_create(&attr, &pool[rank]);
}

/* Reserve, compare, and then all commit or all abort. */
static int one_request(uint64_t id, uint32_t nr, kvmm_range_t range[NR_RANKS])
{
	struct kvmm_gang_want want = { .kind = KVMM_GANG_RANGE, .nr = nr, .max_runs = 4, .seq = id };
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	struct kvmm_gang *gang[NR_RANKS];
	kvmm_sum_t sum[NR_RANKS];
	int err[NR_RANKS], rank, agree;

	attr.nr_pools = 1;
	attr.wants = &want;
	attr.nr = 1;
	attr.id = id;
	for (rank = 0; rank < NR_RANKS; rank++) {
		attr.pools = &pool[rank];
		err[rank] = kvmm_gang_reserve(&attr, &gang[rank], &sum[rank]);
	}
	agree = kvmm_sum_equal(&sum[0], &sum[1]);	/* in an engine: one all-gather of 16 bytes */
	for (rank = 0; rank < NR_RANKS; rank++) {
		if (!err[rank] && agree)
			err[rank] = kvmm_gang_commit(gang[rank], NULL, &range[rank]);
		else if (!err[rank])
			kvmm_gang_abort(gang[rank]);
	}
	return agree ? err[0] : -1;
}

/* Cheaper than a digest of all that a pool is: of all that was decided. For each step, 16 bytes a rank. */
static int same_history(void)
{
	kvmm_sum_t sum[NR_RANKS];
	int rank, err = 0;

	for (rank = 0; rank < NR_RANKS; rank++)
		err |= kvmm_pool_history(pool[rank], &sum[rank]);
	return !err && kvmm_sum_equal(&sum[0], &sum[1]);
}

static void say_difference(void)
{
	struct kvmm_digest_info info[NR_RANKS];
	struct kvmm_digest_diff diff = { .text = "nothing" };
	int rank;

	for (rank = 0; rank < NR_RANKS; rank++) {
		info[rank].size = sizeof(info[rank]);
		kvmm_pool_digest(pool[rank], &info[rank]);
	}
	kvmm_digest_compare(&info[0], &info[1], 1, &diff);
	printf("the ranks differ in: %s\n", diff.text);
}

int main(void)
{
	kvmm_range_t range[NR_RANKS];
	uint64_t id;
	int rank;

	for (rank = 0; rank < NR_RANKS; rank++)
		if (make_rank(rank))
			return 1;
	for (id = 1; !one_request(id, 100 + id, range); id++)
		;
	printf("%d requests, then no room on any rank\n", (int)id - 1);
	say_difference();
	printf("histories %s\n", same_history() ? "agree" : "differ");

	kvmm_range_free(pool[1], range[1]);	/* one rank does something alone */
	if (one_request(id, 10, range) == -1)
		say_difference();
	for (rank = 0; rank < NR_RANKS; rank++)
		kvmm_pool_destroy(pool[rank]);
	return 0;
}
