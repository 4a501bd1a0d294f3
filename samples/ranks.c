// SPDX-License-Identifier: Apache-2.0
/*
 * Two ranks of a tensor-parallel engine, as two pools in one process: they are called alike, decide
 * alike, and see at once when one of them does not.
 */
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_RANKS	2

static struct kvmm_pool *pool[NR_RANKS];
static struct kvmm_gangs *set[NR_RANKS];

static int make_rank(int rank)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_gangs_attr set_attr = KVMM_GANGS_ATTR_INIT;
	int err;

	attr.nr_blocks = 4096;
	attr.flags = KVMM_POOL_DETERMINISTIC;
	attr.seed = 1;			/* the same on all ranks */
	err = kvmm_pool_create(&attr, &pool[rank]);
	if (err)
		return err;
	set_attr.pools = &pool[rank];
	set_attr.nr_pools = 1;
	return kvmm_gangs_create(&set_attr, &set[rank]);
}

/* Reserve, compare, and then all commit or all abort. */
static int one_request(uint64_t id, uint32_t nr, kvmm_range_t range[NR_RANKS])
{
	struct kvmm_gang_want want = { .kind = KVMM_GANG_RANGE, .nr = nr, .max_runs = 4, .seq = id };
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	kvmm_gang_t gang[NR_RANKS];
	kvmm_sum_t sum[NR_RANKS];
	int err[NR_RANKS], rank, agree;

	attr.wants = &want;
	attr.nr = 1;
	attr.id = id;
	for (rank = 0; rank < NR_RANKS; rank++)
		err[rank] = kvmm_gang_reserve(set[rank], &attr, &gang[rank], &sum[rank]);
	agree = kvmm_sum_equal(&sum[0], &sum[1]);	/* in an engine: one all-gather of 16 bytes */
	for (rank = 0; rank < NR_RANKS; rank++) {
		if (!err[rank] && agree)
			err[rank] = kvmm_gang_commit(set[rank], gang[rank], NULL, &range[rank]);
		else if (!err[rank])
			kvmm_gang_abort(set[rank], gang[rank]);
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

/* A gang that is neither committed nor aborted: its lease runs out on all ranks at one told time. */
static int forget_a_gang(uint64_t id)
{
	struct kvmm_gang_want want = { .kind = KVMM_GANG_RANGE, .nr = 1, .max_runs = 1 };
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	kvmm_gang_t gang;
	int rank, nr = 0;

	attr.wants = &want;
	attr.nr = 1;
	attr.id = id;
	attr.lease_ns = 1000;
	attr.now_ns = 1;
	for (rank = 0; rank < NR_RANKS; rank++) {
		kvmm_gang_reserve(set[rank], &attr, &gang, NULL);
		nr += kvmm_gang_expire(set[rank], 2000);
	}
	return nr;
}

static void say_difference(void)
{
	struct kvmm_digest_info info[NR_RANKS];
	struct kvmm_digest_diff diff;
	char text[128] = "nothing";
	int rank;

	for (rank = 0; rank < NR_RANKS; rank++) {
		info[rank].size = sizeof(info[rank]);
		kvmm_pool_digest(pool[rank], &info[rank]);
	}
	if (kvmm_digest_compare(&info[0], &info[1], 1, &diff) == 1)
		kvmm_digest_text(&diff, text, sizeof(text));
	printf("the ranks differ in: %s\n", text);
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
	printf("%d forgotten gangs, histories %s\n", forget_a_gang(id), same_history() ? "agree" : "differ");

	kvmm_range_free(pool[1], range[1]);	/* one rank does something alone */
	if (one_request(id, 10, range) == -1)
		say_difference();
	for (rank = 0; rank < NR_RANKS; rank++) {
		kvmm_gangs_destroy(set[rank]);
		kvmm_pool_destroy(pool[rank]);
	}
	return 0;
}
