// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that wait: they are served, time out, are cancelled, and one pool is destroyed under them.
 *
 * Some wait for many blocks, some for few, some put references without any lock of the pool, one
 * cancels whom it finds. If a wake-up were lost somebody would wait until a deadline that is far away
 * although all blocks are free: deadlines of the patient are 20 s, and none may pass. Exit code 0:
 * nobody starved, nothing was lost, and the pool is valid.
 */
#include "tests/support/threads.h"
#include "tests/support/random.h"

#define NR_BLOCKS	64u
#define NR_WAITERS	6u
#define NR_ROUNDS	1500u
#define PATIENT_NS	20000000000ull
#define HASTY_NS	200000ull

static struct kvmm_pool *pool;
static u32 stop;			/* atomic */
static u32 nr_got, nr_late, nr_cancelled;	/* atomic */

#define any	lcg_of

static void count(int err, bool hasty)
{
	if (!err)
		kv_fetch_add(&nr_got, 1);
	else if (err == -ETIMEDOUT)
		kv_fetch_add(&nr_late, 1);
	else if (err == -ECANCELED)
		kv_fetch_add(&nr_cancelled, 1);
	else
		expect(!"another error");
	expect(err != -ETIMEDOUT || hasty);
}

/* Cached in between: the last reference is put without the pool's lock. */
static void use_blocks(const kvmm_mut_t *mut, u32 nr, u64 name)
{
	kvmm_key_t key[NR_BLOCKS];
	kvmm_ref_t ref[NR_BLOCKS];

	memset(key, 0, sizeof(key));
	for (u32 i = 0; i < nr; i++) {
		u64 word = name + i;

		memcpy(key[i].byte, &word, sizeof(word));
	}
	expect(!kvmm_register(pool, mut, key, nr, ref));
	expect(!kvmm_put_many(pool, ref, nr));
}

static void *wait_for_blocks(void *arg)
{
	u64 state = (uintptr_t)arg;
	kvmm_mut_t mut[NR_BLOCKS];

	for (u32 i = 0; i < NR_ROUNDS; i++) {
		struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
		bool hasty = any(&state, 4) == 0;
		int err;

		ctl.nr = 1 + any(&state, any(&state, 8) ? 20 : NR_BLOCKS);
		ctl.flags = KVMM_ALLOC_RELATIVE | (any(&state, 5) ? 0 : KVMM_ALLOC_HIGH);
		ctl.seq = 1 + any(&state, 64);
		ctl.deadline_ns = hasty ? HASTY_NS : PATIENT_NS;
		err = kvmm_alloc_as(pool, &ctl, mut);
		count(err, hasty);
		if (err)
			continue;
		if (any(&state, 2))
			expect(!kvmm_free(pool, mut, ctl.nr));
		else
			use_blocks(mut, ctl.nr, ((u64)(uintptr_t)arg << 40) + (u64)i * NR_BLOCKS);
	}
	return NULL;
}

static void *wait_for_ranges(void *arg)
{
	u64 state = (uintptr_t)arg;

	for (u32 i = 0; i < NR_ROUNDS; i++) {
		struct kvmm_range_attr attr = { .size = sizeof(attr) };
		kvmm_range_t range;
		int err;

		attr.nr = 1 + any(&state, 24);
		attr.flags = KVMM_ALLOC_RELATIVE;
		attr.seq = 1 + any(&state, 64);
		attr.deadline_ns = PATIENT_NS;
		err = kvmm_range_alloc_attr(pool, &attr, &range);
		count(err, false);
		if (!err)
			expect(!kvmm_range_free(pool, range));
	}
	return NULL;
}

static void *cancel(void *arg)
{
	u64 state = 99;

	while (!READ_ONCE(stop)) {
		struct kvmm_pressure pressure;

		expect(kvmm_alloc_cancel(pool, 1 + any(&state, 64)) >= 0);
		expect(!kvmm_pool_get_pressure(pool, &pressure));
		sched_yield();
	}
	return NULL;
}

static void *poll_tickets(void *arg)
{
	u64 state = 5;

	while (!READ_ONCE(stop)) {
		struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
		kvmm_mut_t mut[8];
		kvmm_ticket_t ticket;
		int err;

		ctl.nr = 1 + any(&state, 8);
		ctl.flags = KVMM_ALLOC_RELATIVE;
		ctl.deadline_ns = HASTY_NS;
		err = kvmm_alloc_submit(pool, &ctl, mut, &ticket);
		while (err == -EINPROGRESS) {
			sched_yield();
			err = kvmm_alloc_poll(pool, ticket);
		}
		expect(!err || err == -ETIMEDOUT);
		if (!err)
			expect(!kvmm_free(pool, mut, ctl.nr));
	}
	return NULL;
}

static struct kvmm_pool *make_pool(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };

	expect(!kvmm_pool_create(&attr, &pool));
	return pool;
}

static void *wait_until_told(void *arg)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = NR_BLOCKS,
				      .flags = KVMM_ALLOC_RELATIVE, .deadline_ns = PATIENT_NS };
	kvmm_mut_t mut[NR_BLOCKS];

	expect(kvmm_alloc_as(pool, &ctl, mut) == -ESHUTDOWN);
	return NULL;
}

static void destroy_under_waiters(void)
{
	struct kvmm_alloc_stat stat;
	pthread_t thread[4];
	kvmm_mut_t mut;

	make_pool();
	expect(!kvmm_alloc(pool, 1, &mut));
	for (u32 i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, wait_until_told, NULL);
	do {
		sched_yield();
		expect(!kvmm_alloc_get_stat(pool, &stat));
	} while (stat.nr_waiting < 4);
	kvmm_pool_destroy(pool);
	threads_join(thread, 4);
}

int main(void)
{
	pthread_t thread[NR_WAITERS], canceller, poller;
	struct kvmm_alloc_stat door;
	struct kvmm_pool_stat stat;

	make_pool();
	for (uintptr_t i = 0; i < NR_WAITERS; i++)
		pthread_create(&thread[i], NULL, i % 3 ? wait_for_blocks : wait_for_ranges,
			       (void *)(i + 1));
	pthread_create(&canceller, NULL, cancel, NULL);
	pthread_create(&poller, NULL, poll_tickets, NULL);
	threads_join(thread, NR_WAITERS);
	WRITE_ONCE(stop, 1);
	pthread_join(canceller, NULL);
	pthread_join(poller, NULL);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat) && stat.nr_available == NR_BLOCKS);
	expect(!kvmm_alloc_get_stat(pool, &door) && !door.nr_waiting);
	kvmm_pool_destroy(pool);
	expect(nr_got > 100);
	printf("%u served, %u too late, %u cancelled\n", nr_got, nr_late, nr_cancelled);
	for (u32 i = 0; i < 20; i++)
		destroy_under_waiters();
	return nr_bad ? 1 : 0;
}
