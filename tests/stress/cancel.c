// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that are cancelled at any moment. Exit code 0: no call ended in the middle, so that no lock
 * stayed behind and no block was lost.
 *
 * Cancellation is deferred, as it is by default: it comes where the thread passes a point of
 * cancellation. There are some in what the calls use (a grace period sleeps), and there must be none
 * in the calls. Each thread says when it is inside one.
 */
#include <unistd.h>

#include "tests/support/threads.h"

#define NR_BLOCKS	64u
#define NR_THREADS	3u
#define BLOCK_BYTES	64u

static struct kvmm_pool *pool;
static u32 nr_cancelled;	/* the main thread's */

struct worker {
	pthread_t thread;
	u32 inside;		/* owner thread, read once it has been joined */
	u32 nr_calls;		/* the same */
	kvmm_range_t range;	/* the same; it has one while has_range */
	bool has_range;
};

#define call(worker, what)			\
	({					\
		int __ret;			\
						\
		(worker)->inside = 1;		\
		__ret = (what);			\
		(worker)->inside = 0;		\
		(worker)->nr_calls++;		\
		__ret;				\
	})

static void use_range(struct worker *me)
{
	if (call(me, kvmm_range_alloc(pool, 9, KVMM_RUNS(1), &me->range)))
		return;
	me->has_range = true;
	pthread_testcancel();
	me->has_range = false;
	expect(!call(me, kvmm_range_free(pool, me->range)));
}

static void use_world(struct worker *me)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	u8 buf[BLOCK_BYTES] = { 0 };

	call(me, kvmm_pool_compact(pool, &goal));
	expect(!call(me, kvmm_validate(pool)));
	expect(!call(me, kvmm_block_write(pool, 0, 0, buf, sizeof(buf))));
	call(me, kvmm_reset_cache(pool));
}

static void use_cache(struct worker *me, u32 number)
{
	kvmm_key_t key = { { number, number >> 8 } };
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (!call(me, kvmm_alloc(pool, 1, &mut))) {
		expect(!call(me, kvmm_register(pool, &mut, &key, 1, &ref)));
		expect(!call(me, kvmm_put_many(pool, &ref, 1)));
	}
	pthread_setcancelstate(cancel, NULL);
}

static void use_another(struct worker *me)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "lru" };
	struct kvmm_pool *another;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	expect(!call(me, kvmm_pool_create(&attr, &another)));
	pthread_setcancelstate(cancel, NULL);
	call(me, (kvmm_pool_destroy(another), 0));
}

static void *work(void *arg)
{
	struct worker *me = arg;

	for (u32 step = 0;; step++) {
		use_range(me);
		use_cache(me, step);
		use_world(me);
		if (step % 4 == 0)
			use_another(me);
	}
	return NULL;
}

static void start(struct worker *worker)
{
	*worker = (struct worker){ 0 };
	expect(!pthread_create(&worker->thread, NULL, work, worker));
}

static void cancel(struct worker *worker)
{
	void *ret;

	pthread_cancel(worker->thread);
	pthread_join(worker->thread, &ret);
	expect(ret == PTHREAD_CANCELED);
	expect(!worker->inside);
	if (worker->has_range)
		expect(!kvmm_range_free(pool, worker->range));
	nr_cancelled++;
}

static void make_pool(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .policy = "lru",
				       .nr_blocks = NR_BLOCKS, .block_bytes = BLOCK_BYTES };

	expect(!kvmm_pool_create(&attr, &pool));
}

int main(int argc, char **argv)
{
	u32 nr_rounds = argc > 1 ? atoi(argv[1]) : 150;
	struct worker workers[NR_THREADS];
	struct kvmm_pool_stat stat;

	make_pool();
	for (u32 i = 0; i < NR_THREADS; i++)
		start(&workers[i]);
	for (u32 i = 0; i < nr_rounds && !nr_bad; i++) {
		usleep(i % 7 * 300);
		cancel(&workers[i % NR_THREADS]);
		start(&workers[i % NR_THREADS]);
	}
	for (u32 i = 0; i < NR_THREADS; i++)
		cancel(&workers[i]);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(!stat.nr_ranges && stat.nr_available == NR_BLOCKS);
	kvmm_pool_destroy(pool);
	return !!nr_bad;
}
