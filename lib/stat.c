// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of event counters, one a thread.
 *
 * Rows are static, so counting never allocates, and their counts outlive the thread: the next
 * owner of a row goes on adding to it. The owner writes plainly; when a row changes hands,
 * row->claimed carries the counts over. Threads that find no row add to the overflow row.
 */
#include <pthread.h>

#include <kv/fork.h>
#include <kv/rcu.h>
#include <kv/stat.h>
#include <kv/thread.h>

#include "internal.h"

/* How many counts a thread without a row makes before it looks for one again. */
#define ROW_PATIENCE	4096

static struct kv_stat_row rows[KV_STAT_ROWS];
static struct kv_stat_row overflow_row;		/* atomic */
static u32 nr_rows;				/* atomic; one more than the highest ever claimed */

__thread struct kv_stat_row *kv_stat_row;	/* owner thread */
static __thread u32 nr_until_retry;		/* owner thread */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t row_key;			/* fixed after key_once */
static bool have_row_key;			/* fixed after key_once */

static void (*exit_hook)(u32 slot);		/* kv_thread_at_exit() */

static void release_row(struct kv_stat_row *row)
{
	kv_stat_row = NULL;
	/* Pairs with claim_row(): the next owner adds to our counts and not to older ones. */
	smp_store_release(&row->claimed, 0);
}

/* Runs in the thread that ends. A count after this claims a row anew, and this runs again. */
static void give_row_back(void *arg)
{
	struct kv_stat_row *row = arg;
	/* Pairs with kv_thread_at_exit(). */
	void (*hook)(u32 slot) = smp_load_acquire(&exit_hook);

	if (hook)
		hook(row->slot);
	release_row(row);
}

static void make_key(void)
{
	have_row_key = !pthread_key_create(&row_key, give_row_back);
}

/* The fence of a section's beginning that kv_fence_all() may come too late for: see rcu.c. */
static void count_row(u32 i)
{
	u32 nr = READ_ONCE(nr_rows);

	while (nr <= i && !kv_cas(&nr_rows, &nr, i + 1))
		;
	kv_fence_full();
}

static struct kv_stat_row *claim_row(void)
{
	for (unsigned int i = 0; i < KV_STAT_ROWS; i++) {
		/* Acquire pairs with the release in give_row_back(). */
		if (READ_ONCE(rows[i].claimed) || kv_xchg_acquire(&rows[i].claimed, 1))
			continue;
		rows[i].slot = i;
		rows[i].why[0] = '\0';
		count_row(i);
		return &rows[i];
	}
	return NULL;
}

/* A row that nothing would give back is not taken. */
static struct kv_stat_row *claim_row_until_exit(void)
{
	struct kv_stat_row *row;

	kv_fork_look();
	pthread_once(&key_once, make_key);
	if (!have_row_key)
		return NULL;
	row = claim_row();
	if (row && pthread_setspecific(row_key, row)) {
		release_row(row);
		return NULL;
	}
	return row;
}

noinline u32 __kv_thread_slot_slow(void)
{
	if (!nr_until_retry--) {
		nr_until_retry = ROW_PATIENCE;
		kv_stat_row = claim_row_until_exit();
	}
	return kv_stat_row ? kv_stat_row->slot : KV_NONE;
}

noinline void __kv_count_slow(enum kv_event ev, u64 nr)
{
	if (__kv_thread_slot_slow() != KV_NONE)
		kv_count_add(ev, nr);
	else
		kv_fetch_add(&overflow_row.n[ev], nr);
}

u64 kv_stat_sum(enum kv_event ev)
{
	u64 sum = READ_ONCE(overflow_row.n[ev]);

	for (unsigned int i = 0; i < KV_STAT_ROWS; i++)
		sum += READ_ONCE(rows[i].n[ev]);
	return sum;
}

u32 stat_nr_rows(void)
{
	return READ_ONCE(nr_rows);
}

struct kv_stat_row *stat_row(u32 slot)
{
	return &rows[slot];
}

/* A row inside a section stays: a thread that forks in a callback has to end that section. */
void stat_set_aside(void)
{
	pthread_once(&key_once, make_key);
	if (kv_stat_row && kv_stat_row->section & KV_RCU_NESTING)
		return;
	kv_stat_row = NULL;
	nr_until_retry = UINT32_MAX;
}

void stat_take_back(void)
{
	if (nr_until_retry <= ROW_PATIENCE)
		return;
	nr_until_retry = 0;
	kv_stat_row = have_row_key ? pthread_getspecific(row_key) : NULL;
}

/* The row is free in the child, or another thread's by now. */
void stat_drop_aside(void)
{
	if (nr_until_retry <= ROW_PATIENCE)
		return;
	nr_until_retry = 0;
	if (have_row_key)
		pthread_setspecific(row_key, NULL);
}

void stat_forked(void)
{
	for (u32 i = 0; i < nr_rows; i++) {
		if (&rows[i] == kv_stat_row)
			continue;
		rows[i].section = 0;
		rows[i].claimed = 0;
	}
}

void kv_thread_at_exit(void (*hook)(u32 slot))
{
	/* Pairs with give_row_back(): the caller sees all that it looks at. */
	smp_store_release(&exit_hook, hook);
}
