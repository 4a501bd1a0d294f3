// SPDX-License-Identifier: Apache-2.0
/*
 * Two ranks of a tensor-parallel engine, as two pools in one process: they are called alike, decide
 * alike, and see at once when one of them does not. Blocks move beside their steps, and are where
 * they were until all ranks have been told that the copies are over.
 *
 * usage: ranks [DEVICE]	"cuda:0", say; without it the pools are of ids only
 */
#include <kvmm/ext/moves.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_RANKS	2

static struct kvmm_pool *pool[NR_RANKS];

static int make_rank(int rank, const char *device)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.nr_blocks = 4096;
	attr.flags = KVMM_POOL_DETERMINISTIC;
	attr.seed = 1;			/* the same on all ranks */
	attr.device = device;
	attr.block_bytes = device ? 4096 : 0;
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

/* What any device has done is over when all know of it; in an engine an all-gather once more. */
static int agree(void)
{
	struct kvmm_completions all = KVMM_COMPLETIONS_INIT, one = KVMM_COMPLETIONS_INIT;
	int rank, err = kvmm_completions_get(pool[0], &all);

	for (rank = 1; rank < NR_RANKS && !err; rank++) {
		err = kvmm_completions_get(pool[rank], &one);
		kvmm_completions_join(&all, &one);
	}
	for (rank = 0; rank < NR_RANKS && !err; rank++)
		err = kvmm_completions_set(pool[rank], &all);
	return err;
}

/* A hole for @nr blocks is made beside steps: the same moves on all ranks, over at the same time. */
static int make_room(uint32_t nr)
{
	struct kvmm_compact goal[NR_RANKS];
	int rank, left = 1, err = 0;

	for (rank = 0; rank < NR_RANKS && !err; rank++) {
		goal[rank] = (struct kvmm_compact){ .size = sizeof(goal[rank]), .want_run = nr,
						    .max_us = 50000 };
		err = kvmm_compact_start(pool[rank], &goal[rank], KVMM_MOVE_BESIDE);
	}
	while (!err && left) {
		err = agree();
		for (rank = 0; rank < NR_RANKS && !err; rank++)
			left = kvmm_compact_poll(pool[rank]);
	}
	if (!err)
		printf("%u blocks moved on each rank\n", goal[0].moved);
	return err;
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

int main(int argc, char **argv)
{
	kvmm_range_t range[NR_RANKS], early[NR_RANKS][8];
	uint64_t id;
	int rank, i;

	for (rank = 0; rank < NR_RANKS; rank++)
		if (make_rank(rank, argc > 1 ? argv[1] : NULL))
			return 1;
	for (id = 1; !one_request(id, 100 + id, range); id++)
		for (rank = 0; rank < NR_RANKS && id <= 8; rank++)
			early[rank][id - 1] = range[rank];
	printf("%d requests, then no room on any rank\n", (int)id - 1);
	for (rank = 0; rank < NR_RANKS; rank++)
		for (i = 0; i < 8; i++)
			if (i % 2 ? kvmm_range_seal(pool[rank], early[rank][i], 101 + i) :
				    kvmm_range_free(pool[rank], early[rank][i]))
				return 1;
	if (make_room(300))
		return 1;
	say_difference();
	printf("histories %s\n", same_history() ? "agree" : "differ");

	kvmm_range_free(pool[1], range[1]);	/* one rank does something alone */
	if (one_request(id, 10, range) == -1)
		say_difference();
	for (rank = 0; rank < NR_RANKS; rank++)
		kvmm_pool_destroy(pool[rank]);
	return 0;
}
