// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of event counters, one a thread.
 *
 * Rows are static, so counting never allocates, and their counts outlive the thread: the next
 * owner of a row goes on adding to it. The owner writes plainly; when a row changes hands,
 * row->claimed carries the counts over. Threads that find no row add to the overflow row.
 */
#include <pthread.h>

#include <kv/stat.h>

#define NR_ROWS		256

/* How many counts a thread without a row makes before it looks for one again. */
#define ROW_PATIENCE	4096

static struct kv_stat_row rows[NR_ROWS];
static struct kv_stat_row overflow_row;		/* atomic */

__thread struct kv_stat_row *kv_stat_row;	/* owner thread */
static __thread u32 nr_until_retry;		/* owner thread */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t row_key;			/* fixed after key_once */
static bool have_row_key;			/* fixed after key_once */

/* Runs in the thread that ends. A count after this claims a row anew, and this runs again. */
static void give_row_back(void *arg)
{
	struct kv_stat_row *row = arg;

	kv_stat_row = NULL;
	/* Pairs with claim_row(): the next owner adds to our counts and not to older ones. */
	smp_store_release(&row->claimed, 0);
}

static void make_key(void)
{
	have_row_key = !pthread_key_create(&row_key, give_row_back);
}

static struct kv_stat_row *claim_row(void)
{
	for (unsigned int i = 0; i < NR_ROWS; i++) {
		/* Acquire pairs with the release in give_row_back(). */
		if (!READ_ONCE(rows[i].claimed) && !kv_xchg_acquire(&rows[i].claimed, 1))
			return &rows[i];
	}
	return NULL;
}

/* A row that nothing would give back is not taken. */
static struct kv_stat_row *claim_row_until_exit(void)
{
	struct kv_stat_row *row;

	pthread_once(&key_once, make_key);
	if (!have_row_key)
		return NULL;
	row = claim_row();
	if (row && pthread_setspecific(row_key, row)) {
		give_row_back(row);
		return NULL;
	}
	return row;
}

noinline void __kv_count_slow(enum kv_event ev, u64 nr)
{
	if (!nr_until_retry--) {
		nr_until_retry = ROW_PATIENCE;
		kv_stat_row = claim_row_until_exit();
	}
	if (kv_stat_row)
		kv_count_add(ev, nr);
	else
		kv_fetch_add(&overflow_row.n[ev], nr);
}

u64 kv_stat_sum(enum kv_event ev)
{
	u64 sum = READ_ONCE(overflow_row.n[ev]);

	for (unsigned int i = 0; i < NR_ROWS; i++)
		sum += READ_ONCE(rows[i].n[ev]);
	return sum;
}
