// SPDX-License-Identifier: Apache-2.0
/*
 * Locks, counters and RCU under fire, for ThreadSanitizer: own main(), exit code 0 if all is well.
 *
 * usage: lock_rcu [SECONDS]
 *
 * Each thread does a bit of everything in random order: it adds to a plain counter under one of
 * a few locks, reads published objects inside read sections, replaces one and defers the old,
 * counts events, and ends now and then, so that a new thread gets its row. A reader that sees an
 * object which is freed already finds poison in it; ThreadSanitizer finds the race as well.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <kv/atomic.h>
#include <kv/env.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/rcu.h>
#include <kv/stat.h>

#define NR_THREADS	4
#define NR_LOCKS	3
#define NR_SLOTS	8
#define NR_STEPS	2000		/* of one thread's life */
#define NS_PER_SEC	1000000000ull
#define WHOLE		0x600dda7au
#define POISON		0xbadbadbau

struct object {
	u32 value;			/* written before it is published and when it is freed */
	u32 copy;
	struct kv_rcu_head rcu;
};

struct counter {
	struct kv_lock lock;
	u64 nr;				/* ->lock; not atomic on purpose */
} __cacheline_aligned;

struct worker {
	pthread_t thread;
	u64 seed;
	u64 nr_added;			/* owner thread, then main */
	u64 nr_replaced;
};

static struct counter counters[NR_LOCKS];
static struct object *slots[NR_SLOTS];	/* RCU; written under slot_lock */
static struct kv_lock slot_lock;
static u32 nr_torn;			/* objects that a reader found broken; atomic */
static u32 nr_freed;			/* atomic */

static u32 dice(struct worker *worker)
{
	worker->seed = worker->seed * 6364136223846793005ull + 1442695040888963407ull;
	return worker->seed >> 33;
}

static void add_to_counter(struct worker *worker)
{
	struct counter *counter = &counters[dice(worker) % NR_LOCKS];

	kv_lock(&counter->lock);
	counter->nr++;
	kv_unlock(&counter->lock);
	worker->nr_added++;
}

/* Two locks of one rank, in the order of their ids. */
static void add_to_two(struct worker *worker)
{
	u32 first = dice(worker) % (NR_LOCKS - 1);

	kv_lock(&counters[first].lock);
	kv_lock(&counters[first + 1].lock);
	counters[first].nr++;
	counters[first + 1].nr++;
	kv_unlock(&counters[first].lock);
	kv_unlock(&counters[first + 1].lock);
	worker->nr_added += 2;
}

/* Plain reads: publication and the grace period have to order them. */
static void read_slots(struct worker *worker)
{
	kv_rcu_read_lock();
	for (u32 i = dice(worker) % NR_SLOTS; i < NR_SLOTS; i++) {
		struct object *object = kv_rcu_dereference(slots[i]);

		if (object && (object->value != WHOLE || object->copy != WHOLE))
			kv_fetch_add(&nr_torn, 1);
	}
	kv_rcu_read_unlock();
}

static void free_object(struct kv_rcu_head *head)
{
	struct object *object = container_of(head, struct object, rcu);

	object->value = POISON;
	object->copy = POISON;
	kv_free(object);
	kv_fetch_add(&nr_freed, 1);
}

static void replace_slot(u32 slot, struct object *fresh)
{
	struct object *old;

	kv_lock(&slot_lock);
	old = slots[slot];
	kv_rcu_assign(slots[slot], fresh);
	if (old)
		kv_rcu_defer(&old->rcu, free_object);
	kv_unlock(&slot_lock);
}

static void publish_new_object(struct worker *worker)
{
	struct object *fresh = kv_alloc(sizeof(*fresh));

	if (!fresh)
		return;
	fresh->value = WHOLE;
	fresh->copy = WHOLE;
	replace_slot(dice(worker) % NR_SLOTS, fresh);
	worker->nr_replaced++;
	kv_count(KV_EV_FREE);
	kv_rcu_reap();
}

static void *live(void *arg)
{
	static void (*const deed[])(struct worker *) = {
		add_to_counter, add_to_two, read_slots, read_slots, publish_new_object,
	};
	struct worker *worker = arg;

	for (int i = 0; i < NR_STEPS; i++) {
		deed[dice(worker) % ARRAY_SIZE(deed)](worker);
		kv_count(KV_EV_ALLOC);
	}
	return NULL;
}

static int run_threads(struct worker *workers)
{
	for (int i = 0; i < NR_THREADS; i++)
		if (pthread_create(&workers[i].thread, NULL, live, &workers[i]))
			return 1;
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	return 0;
}

static int expect(const char *what, u64 is, u64 should_be)
{
	if (is == should_be)
		return 0;
	fprintf(stderr, "lock_rcu: %s: %llu instead of %llu\n", what,
		(unsigned long long)is, (unsigned long long)should_be);
	return 1;
}

static int check_sums(const struct worker *workers, u64 nr_rounds)
{
	u64 added = 0, replaced = 0, counted = 0;

	for (int i = 0; i < NR_THREADS; i++) {
		added += workers[i].nr_added;
		replaced += workers[i].nr_replaced;
	}
	for (int i = 0; i < NR_LOCKS; i++)
		counted += counters[i].nr;
	printf("lock_rcu: %llu threads, %llu additions, %llu objects\n",
	       (unsigned long long)nr_rounds * NR_THREADS, (unsigned long long)added,
	       (unsigned long long)replaced);
	return expect("additions under locks", counted, added) |
	       expect("objects freed", nr_freed, replaced) |
	       expect("frees counted", kv_stat_sum(KV_EV_FREE), replaced) |
	       expect("steps counted", kv_stat_sum(KV_EV_ALLOC),
		      nr_rounds * NR_THREADS * NR_STEPS) |
	       expect("torn objects", nr_torn, 0) |
	       expect("bytes left", kv_mem_bytes(), 0) |
	       expect("broken invariants", kv_stat_sum(KV_EV_BUG), 0);
}

int main(int argc, char **argv)
{
	u64 end = kv_clock_ns() + (argc > 1 ? atoi(argv[1]) : 3) * NS_PER_SEC;
	struct worker workers[NR_THREADS] = { 0 };
	u64 nr_rounds = 0;

	for (int i = 0; i < NR_LOCKS; i++)
		kv_lock_init(&counters[i].lock, KV_RANK_ZONE, i);
	kv_lock_init(&slot_lock, KV_RANK_BUCKET, 0);
	for (int i = 0; i < NR_THREADS; i++)
		workers[i].seed = i + 1;

	do {
		if (run_threads(workers))
			return 1;
		nr_rounds++;
	} while (kv_clock_ns() < end);

	for (u32 i = 0; i < NR_SLOTS; i++)
		replace_slot(i, NULL);
	kv_rcu_barrier();
	return check_sums(workers, nr_rounds);
}
