// SPDX-License-Identifier: Apache-2.0
/*
 * Room that is asked for before it is needed: a promise, a reclaim between steps, and requests that queue up
 * and are told that they need not wait any more.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_BLOCKS	16
#define SECOND		1000000000ull

static struct kvmm_pool *pool;

static int fill_cache(void)
{
	kvmm_key_t keys[NR_BLOCKS] = { { { 0 } } };
	kvmm_mut_t muts[NR_BLOCKS];
	kvmm_ref_t refs[NR_BLOCKS];
	int err = kvmm_alloc(pool, NR_BLOCKS, muts);

	for (int i = 0; i < NR_BLOCKS; i++)
		keys[i].byte[0] = i + 1;
	if (!err)
		err = kvmm_register(pool, muts, keys, NR_BLOCKS, refs);
	return err ? err : kvmm_put_many(pool, refs, NR_BLOCKS);
}

/* Between two steps there is time for what a request would otherwise wait for. */
static int reclaim(void)
{
	struct kvmm_watermarks marks = { 1, 2, 8 };
	struct kvmm_reclaim_args work = { .size = sizeof(work), .max_us = 100 };
	int err = kvmm_watermarks_set(pool, &marks);

	while (!err && (err = kvmm_reclaim(pool, &work)) == -EAGAIN)
		err = 0;
	printf("%u blocks are free now\n", work.nr_free);
	marks = (struct kvmm_watermarks){ 0, 0, 0 };
	return err ? err : kvmm_watermarks_set(pool, &marks);
}

/* A request that has been admitted gets its blocks, also if other requests take some in between. */
static int keep_promise(void)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	kvmm_promise_t promise;
	kvmm_mut_t mine[6], theirs[NR_BLOCKS];
	int err;

	ctl.nr = 6;
	err = kvmm_promise_make(pool, &ctl, &promise);
	if (err)
		return err;
	printf("another one that wants all: %s\n", kvmm_strerror(kvmm_alloc(pool, NR_BLOCKS, theirs)));
	ctl.nr = 4;
	ctl.promise = promise;
	err = kvmm_alloc_as(pool, &ctl, mine);
	printf("4 of 6 were needed; %d are anybody's again\n", kvmm_promise_end(pool, promise));
	return err ? err : kvmm_free(pool, mine, 4);
}

/* Its client has hung up while it waited. */
static int give_up(uint64_t seq)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	kvmm_mut_t all[NR_BLOCKS], more[1];
	kvmm_ticket_t ticket;
	int err = kvmm_alloc(pool, NR_BLOCKS, all);

	if (err)
		return err;
	ctl.nr = 1;
	ctl.seq = seq;
	ctl.flags = KVMM_ALLOC_RELATIVE;
	ctl.deadline_ns = SECOND;
	err = kvmm_alloc_submit(pool, &ctl, more, &ticket);
	if (err == -EINPROGRESS)
		err = kvmm_alloc_cancel(pool, seq) == 1 ? kvmm_alloc_poll(pool, ticket) : -EPROTO;
	printf("given up: %s\n", kvmm_strerror(err));
	kvmm_free(pool, all, NR_BLOCKS);
	return err == -ECANCELED ? 0 : -EPROTO;
}

static void show(void)
{
	struct kvmm_alloc_stat stat;

	if (kvmm_alloc_get_stat(pool, &stat))
		return;
	for (uint32_t step = 0; step < KVMM_NR_STEPS; step++)
		if (stat.taken[step])
			printf("room was made %d times by: %s\n", (int)stat.taken[step],
			       kvmm_step_name(step));
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = NR_BLOCKS;
	err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = fill_cache();
	if (!err)
		err = reclaim();
	if (!err)
		err = keep_promise();
	if (!err)
		err = give_up(42);
	show();
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	return err != 0;
}
