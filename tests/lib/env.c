// SPDX-License-Identifier: Apache-2.0
/* The system's table, and changing to another one. */
#include <pthread.h>

#include <kv/atomic.h>
#include <kv/env.h>

#include "tests/support/fake_env.h"
#include "tests/support/test.h"

#define MS	1000000ull

static const struct kv_env_ops *const sys = &kv_env_system;

/* This program does not bring jemalloc along; the other one runs the same memory tests on it. */
extern void *mallocx(size_t bytes, int flags) __attribute__((weak));

Test(env, malloc_serves_where_jemalloc_is_absent)
{
	cr_assert_null(mallocx);
	for (size_t align = 1; align <= 1u << 16; align *= 2) {
		char *ptr = sys->alloc(NULL, 100, align);

		cr_assert_not_null(ptr);
		cr_expect_eq((uintptr_t)ptr % align, 0);
		for (int i = 0; i < 100; i++)
			cr_assert_eq(ptr[i], 0);
		memset(ptr, 0xff, 100);
		sys->free(NULL, ptr, 100);
	}
}

Test(env, refuses_absurd_requests)
{
	cr_expect_null(sys->alloc(NULL, 0, 16));
	cr_expect_null(sys->alloc(NULL, SIZE_MAX, 64));
	cr_expect_null(sys->alloc(NULL, 100, 24), "not a power of two");
	cr_expect_null(sys->alloc(NULL, 100, 0));
	sys->free(NULL, NULL, 0);
}

Test(env, clock_goes_forward)
{
	u64 before = kv_clock_ns(), after = before;

	for (int i = 0; i < 1000; i++) {
		u64 now = kv_clock_ns();

		cr_assert_geq(now, after);
		after = now;
	}
	cr_expect_gt(after, before);
}

Test(env, wait_ends_at_its_time_out)
{
	u32 word = 7;
	u64 begin = kv_clock_ns();

	/* A signal may end one wait early, but not ten of them. */
	for (int i = 0; i < 10; i++)
		sys->wait(NULL, &word, 7, 2 * MS);
	cr_expect_geq(kv_clock_ns() - begin, 10 * MS);
}

Test(env, wait_does_not_sleep_if_the_word_has_changed)
{
	u32 word = 8;
	u64 begin = kv_clock_ns();

	sys->wait(NULL, &word, 7, 60000 * MS);
	cr_expect_lt(kv_clock_ns() - begin, 30000 * MS);
}

static void *wait_for_change(void *word)
{
	while (READ_ONCE(*(u32 *)word) == 7)
		sys->wait(NULL, word, 7, 60000 * MS);
	return NULL;
}

Test(env, wake_ends_all_waits)
{
	pthread_t thread[3];
	u64 begin = kv_clock_ns();
	u32 word = 7;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, wait_for_change, &word);
	for (int i = 0; i < 10; i++)
		sys->wait(NULL, &word, 7, 2 * MS);	/* let them fall asleep */
	WRITE_ONCE(word, 8);
	sys->wake(NULL, &word);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	cr_expect_lt(kv_clock_ns() - begin, 30000 * MS);
}

Test(env, wait_and_wake_leave_errno_alone)
{
	u32 word = 7;

	errno = 4711;
	sys->wait(NULL, &word, 7, 1);
	sys->wait(NULL, &word, 8, 1);
	sys->wake(NULL, &word);
	kv_random();
	cr_expect_eq(errno, 4711);
}

Test(env, random_bits_differ_in_every_position)
{
	u64 ones = 0, zeros = 0;

	for (int i = 0; i < 200; i++) {
		u64 bits = kv_random();

		ones |= bits;
		zeros |= ~bits;
	}
	cr_expect_eq(ones, UINT64_MAX);
	cr_expect_eq(zeros, UINT64_MAX);
}

Test(env, another_table_takes_over_and_gives_back)
{
	struct fake_env fake;
	u64 begin_ns;

	cr_expect_eq(kv_env(), &kv_env_system);
	fake_env_install(&fake);
	cr_expect_eq(kv_env(), &fake.ops);
	begin_ns = fake.now_ns;
	cr_expect_eq(kv_clock_ns(), begin_ns);
	fake_env_advance(&fake, 123);
	cr_expect_eq(kv_clock_ns(), begin_ns + 123);
	fake_env_remove(&fake);
	cr_expect_eq(kv_env(), &kv_env_system);
}

Test(env, fake_is_the_same_in_each_run)
{
	struct fake_env fake;
	u64 first[4];

	fake_env_install(&fake);
	for (int i = 0; i < 4; i++)
		first[i] = kv_random();
	cr_expect_neq(first[0], first[1]);
	fake_env_install(&fake);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(kv_random(), first[i]);
	fake_env_remove(&fake);
}

/* X: refused. Four allocations each. */
static void expect_failures(u64 nth, bool on, const char *picture)
{
	struct fake_env fake;

	fake_env_install(&fake);
	fake_env_fail(&fake, nth, on);
	for (int i = 0; picture[i]; i++) {
		void *ptr = fake.ops.alloc(&fake, 8, 8);

		cr_expect_eq(!ptr, picture[i] == 'X', "%s at %d", picture, i);
		if (ptr)
			fake.ops.free(&fake, ptr, 8);
	}
	cr_expect_eq(fake_env_failed(&fake), strchr(picture, 'X') != NULL);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}

Test(env, fake_fails_the_nth_allocation_once_or_from_then_on)
{
	expect_failures(0, false, "....");
	expect_failures(1, false, "X...");
	expect_failures(3, false, "..X.");
	expect_failures(3, true, "..XX");
	expect_failures(5, true, "....");
}

Test(env, fake_notices_frees_that_do_not_match)
{
	struct fake_env fake;
	void *ptr;

	fake_env_install(&fake);
	ptr = fake.ops.alloc(&fake, 8, 8);
	fake.ops.free(&fake, ptr, 9);
	cr_expect_eq(fake.nr_bad_frees, 1);
	cr_expect_eq(fake.nr_live, 1);
	fake.ops.free(&fake, ptr, 8);
	cr_expect_eq(fake.nr_bad_frees, 1);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}
