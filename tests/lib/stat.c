// SPDX-License-Identifier: Apache-2.0
/* Event counters: no count is lost, whatever becomes of the threads. */
#include <criterion/criterion.h>
#include <pthread.h>

#include <kv/stat.h>

#define NR_CROWD	300		/* more than there are rows */
#define NR_COUNTS	1000
#define NR_CROSS_COUNTS	1000000		/* many time slices: two threads run at a time */

Test(stat, events_do_not_mix)
{
	for (int ev = 0; ev < KV_NR_EVENTS; ev++)
		kv_count_add(ev, ev + 1);
	for (int ev = 0; ev < KV_NR_EVENTS; ev++)
		cr_expect_eq(kv_stat_sum(ev), ev + 1);
	kv_count(KV_EV_ALLOC);
	cr_expect_eq(kv_stat_sum(KV_EV_ALLOC), KV_EV_ALLOC + 2);
}

static void *count_ten(void *row)
{
	for (int i = 0; i < 10; i++)
		kv_count(KV_EV_FREE);
	*(struct kv_stat_row **)row = kv_stat_row;
	return NULL;
}

Test(stat, counts_outlive_their_thread_and_rows_are_used_again)
{
	struct kv_stat_row *row, *first = NULL;
	pthread_t thread;

	for (int i = 0; i < 2 * NR_CROWD; i++) {
		pthread_create(&thread, NULL, count_ten, &row);
		pthread_join(thread, NULL);
		if (!i)
			first = row;
		cr_assert_eq(row, first);
	}
	cr_assert_not_null(first);
	cr_expect_eq(kv_stat_sum(KV_EV_FREE), 2 * NR_CROWD * 10);
}

static pthread_barrier_t all_have_counted;
static u64 tally[KV_TALLY_ROWS];

/* Threads without a row look for one again now and then, and meet each other in the shared one. */
static void *count_in_a_crowd(void *row)
{
	int nr;

	kv_count(KV_EV_ALLOC);
	*(struct kv_stat_row **)row = kv_stat_row;
	pthread_barrier_wait(&all_have_counted);
	nr = kv_stat_row ? NR_COUNTS : NR_CROSS_COUNTS;
	for (int i = 0; i < nr; i++)
		kv_count_add(KV_EV_ALLOC_BLOCKS, 3);
	for (int i = 0; i < NR_COUNTS; i++)
		kv_tally_add(&tally[kv_tally_row()], kv_tally_row(), 5);
	pthread_barrier_wait(&all_have_counted);
	return NULL;
}

Test(stat, more_threads_than_rows_lose_no_count)
{
	struct kv_stat_row *row[NR_CROWD];
	pthread_t thread[NR_CROWD];
	pthread_attr_t attr;
	int nr_without = 0;
	u64 sum = 0;

	pthread_barrier_init(&all_have_counted, NULL, NR_CROWD);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	for (int i = 0; i < NR_CROWD; i++)
		cr_assert_eq(pthread_create(&thread[i], &attr, count_in_a_crowd, &row[i]), 0);
	for (int i = 0; i < NR_CROWD; i++)
		pthread_join(thread[i], NULL);

	for (int i = 0; i < NR_CROWD; i++)
		nr_without += !row[i];
	cr_expect_gt(nr_without, 0, "the shared row was not needed");
	cr_expect_lt(nr_without, NR_CROWD);
	for (int i = 0; i < NR_CROWD; i++)
		for (int j = 0; j < i; j++)
			cr_assert(!row[i] || row[i] != row[j], "a row with two owners");
	cr_expect_eq(kv_stat_sum(KV_EV_ALLOC), NR_CROWD);
	cr_expect_eq(kv_stat_sum(KV_EV_ALLOC_BLOCKS), 3ull * nr_without * NR_CROSS_COUNTS +
		     3ull * (NR_CROWD - nr_without) * NR_COUNTS);
	for (u32 i = 0; i < KV_TALLY_ROWS; i++) {
		cr_expect(i >= KV_TALLY_OWN || tally[i] == 5 * NR_COUNTS, "row %u: of one", i);
		sum += tally[i];
	}
	cr_expect_eq(sum, 5ull * NR_CROWD * NR_COUNTS);
}

/* A destructor of somebody else may count after ours has given the row back. */
static pthread_key_t late_key;
static u32 nr_foreign_rows;

static void count_late(void *again)
{
	kv_count(KV_EV_EVICT);
	if (kv_stat_row && !READ_ONCE(kv_stat_row->claimed))
		kv_fetch_add(&nr_foreign_rows, 1);
	if (again)
		pthread_setspecific(late_key, NULL);
}

static void *count_and_die(void *arg)
{
	kv_count(KV_EV_EVICT);
	pthread_setspecific(late_key, arg);
	return NULL;
}

Test(stat, counts_made_while_the_thread_ends_are_kept)
{
	pthread_t thread;

	kv_count(KV_EV_EVICT);		/* so that our key is made before the other one */
	pthread_key_create(&late_key, count_late);
	for (int i = 0; i < NR_CROWD; i++) {
		pthread_create(&thread, NULL, count_and_die, &late_key);
		pthread_join(thread, NULL);
	}
	cr_expect_eq(kv_stat_sum(KV_EV_EVICT), 1 + 2 * NR_CROWD);
	cr_expect_eq(nr_foreign_rows, 0);
}
