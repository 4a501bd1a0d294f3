// SPDX-License-Identifier: Apache-2.0
/*
 * A request that finds no memory waits for it, as long as it is worth waiting; one that has no thread to
 * spare queues up and asks now and then.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define NR_BLOCKS	8
#define MS		1000000ull

struct other {
	struct kvmm_pool *pool;
	kvmm_mut_t blocks[NR_BLOCKS];
};

/* Another request, which ends in a while. */
static void *end_soon(void *arg)
{
	struct other *other = arg;

	nanosleep(&(struct timespec){ 0, 20 * MS }, NULL);
	kvmm_free(other->pool, other->blocks, NR_BLOCKS);
	return NULL;
}

static int take(struct kvmm_pool *pool, uint64_t within_ns, kvmm_mut_t *blocks)
{
	struct kvmm_alloc_report report = { 0 };
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	int err;

	ctl.nr = NR_BLOCKS / 2;
	ctl.flags = KVMM_ALLOC_RELATIVE;	/* the deadline counts from now */
	ctl.deadline_ns = within_ns;
	ctl.report = &report;
	err = kvmm_alloc_as(pool, &ctl, blocks);
	printf("within %3llu ms: %s\n", (unsigned long long)(within_ns / MS),
	       err ? kvmm_strerror(err) : "got it");
	return err;
}

/* The same from an event loop: its place in the queue is as good, and nothing sleeps. */
static int queue_up(struct kvmm_pool *pool, kvmm_mut_t *blocks)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	kvmm_ticket_t ticket;
	int err;

	ctl.nr = NR_BLOCKS;
	ctl.flags = KVMM_ALLOC_RELATIVE;
	ctl.deadline_ns = 1000 * MS;
	err = kvmm_alloc_submit(pool, &ctl, blocks, &ticket);
	while (err == -EINPROGRESS) {
		nanosleep(&(struct timespec){ 0, MS }, NULL);	/* ... run the others ... */
		err = kvmm_alloc_poll(pool, ticket);
	}
	printf("by ticket: %s\n", err ? kvmm_strerror(err) : "got it");
	return err;
}

static int run(struct other *other)
{
	struct kvmm_pool *pool = other->pool;
	kvmm_mut_t mine[NR_BLOCKS];
	pthread_t thread;
	int err;

	err = kvmm_alloc(pool, NR_BLOCKS, other->blocks);
	if (err)
		return err;
	if (take(pool, 5 * MS, mine) != -ETIMEDOUT)	/* nothing was taken, nothing evicted */
		return -EPROTO;
	if (pthread_create(&thread, NULL, end_soon, other))
		return -EAGAIN;
	err = take(pool, 1000 * MS, mine);
	pthread_join(thread, NULL);
	if (err)
		return err;
	err = kvmm_free(pool, mine, NR_BLOCKS / 2);
	return err ? err : queue_up(pool, mine);
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct other other = { 0 };
	int err;

	attr.nr_blocks = NR_BLOCKS;
	err = kvmm_pool_create(&attr, &other.pool);
	if (!err)
		err = run(&other);
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(other.pool);
	return err ? 1 : 0;
}
