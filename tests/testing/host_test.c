// SPDX-License-Identifier: Apache-2.0
/* The seam in libkvmm: who answers instead of the system, and what happens to what is older. */
#include <kv/env.h>
#include <kv/lock.h>
#include <kv/log.h>
#include <kv/rcu.h>
#include <kvmm/ext/testing.h>

#include "tests/support/fake_env.h"
#include "tests/support/test.h"

struct answers {
	u64 now_ns;
	u64 waited_ns;
	u64 nr_random;
	size_t refuse_bytes;		/* allocations of at least so many */
	char line[64];
};

static struct answers answers;

static int refuse(void *ctx, size_t bytes)
{
	struct answers *a = ctx;

	return a->refuse_bytes && bytes >= a->refuse_bytes;
}

static u64 now_ns(void *ctx)
{
	return ((struct answers *)ctx)->now_ns;
}

static void waited(void *ctx, u64 ns)
{
	((struct answers *)ctx)->waited_ns += ns;
}

static u64 count_random(void *ctx)
{
	return ++((struct answers *)ctx)->nr_random;
}

static void keep(void *ctx, int level, const char *line)
{
	snprintf(((struct answers *)ctx)->line, 64, "%d %s", level, line);
}

static struct kvmm_testing_host full_host(void)
{
	return (struct kvmm_testing_host){
		.size = sizeof(struct kvmm_testing_host), .ctx = &answers, .refuse_alloc = refuse,
		.clock_ns = now_ns, .waited = waited, .random = count_random, .log = keep,
	};
}

static void put_back(void)
{
	kvmm_testing_set_host(NULL);
	cr_expect_eq(kv_env(), &kv_env_system);
}

TestSuite(host, .fini = put_back);

Test(host, answers_instead_of_the_system)
{
	struct kvmm_testing_host host = full_host();

	cr_assert_eq(kvmm_testing_set_host(&host), 0);
	answers.now_ns = 42;
	cr_expect_eq(kv_clock_ns(), 42);
	cr_expect_eq(kv_random(), 1);
	cr_expect_eq(kv_random(), 2);
	kv_log(KV_LOG_WARN, "line %d", 7);
	cr_expect_str_eq(answers.line, "4 line 7");
	answers.refuse_bytes = 1000;
	cr_expect_null(kv_alloc(2000));
	answers.refuse_bytes = 0;
	put_back();
	cr_expect_gt(kv_clock_ns(), 1000, "the system's clock");
}

Test(host, what_it_does_not_answer_stays_the_systems)
{
	struct kvmm_testing_host host = { .size = sizeof(host) };
	void *ptr;

	cr_assert_eq(kvmm_testing_set_host(&host), 0);
	cr_expect_gt(kv_clock_ns(), 1000);
	cr_expect_neq(kv_random(), kv_random());
	ptr = kv_alloc(10);
	cr_expect_not_null(ptr);
	kv_free(ptr);
	kv_log(KV_LOG_WARN, "to nobody");
}

Test(host, memory_outlives_it_in_both_directions)
{
	struct kvmm_testing_host host = full_host();
	void *before = kv_alloc(100), *under;

	cr_assert_eq(kvmm_testing_set_host(&host), 0);
	under = kv_alloc_lines(3, 64);
	kv_free(before);
	put_back();
	kv_free(under);
	cr_expect_eq(kv_mem_bytes(), 0);
}

Test(host, only_one_at_a_time)
{
	struct kvmm_testing_host host = full_host(), other = full_host();
	struct fake_env fake;

	cr_assert_eq(kvmm_testing_set_host(&host), 0);
	cr_expect_eq(kvmm_testing_set_host(&other), -EBUSY);
	cr_expect_eq(kvmm_testing_set_host(NULL), 0);
	cr_expect_eq(kvmm_testing_set_host(NULL), 0, "once more is no error");
	fake_env_install(&fake);
	cr_expect_eq(kvmm_testing_set_host(&host), -EBUSY, "and none over a table of others");
	cr_expect_eq(kvmm_testing_set_host(NULL), 0);
	cr_expect_eq(kv_env(), &fake.ops, "which stays");
	fake_env_remove(&fake);
}

Test(host, sizes_that_are_none_are_refused)
{
	static const size_t sizes[] = { 0, 7, 9, sizeof(struct kvmm_testing_host) + 4, SIZE_MAX };

	for (u32 i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct kvmm_testing_host host = full_host();
		struct kvmm_testing_state state = { .size = sizes[i] };

		host.size = sizes[i];
		cr_expect_eq(kvmm_testing_set_host(&host), -EINVAL, "%zu", sizes[i]);
		cr_expect_eq(kv_env(), &kv_env_system);
		cr_expect_eq(kvmm_testing_get_state(&state), -EINVAL, "%zu", sizes[i]);
	}
	cr_expect_eq(kvmm_testing_get_state(NULL), -EINVAL);
}

Test(host, older_caller_answers_what_it_knows)
{
	struct kvmm_testing_host host = full_host();

	host.size = offsetof(struct kvmm_testing_host, waited);
	cr_assert_eq(kvmm_testing_set_host(&host), 0);
	answers.now_ns = 5;
	cr_expect_eq(kv_clock_ns(), 5);
	kv_random();
	cr_expect_eq(answers.nr_random, 0, "behind its end");
}

/* Woken, or nothing to wait for: no time has gone by. At the time-out: all of it. */
Test(host, waits_take_time_only_at_their_end)
{
	struct kvmm_testing_host host = full_host();
	u32 word = 1;

	cr_assert_eq(kvmm_testing_set_host(&host), 0);
	kv_env()->wait(kv_env()->ctx, &word, 0, 1000000);
	cr_expect_eq(answers.waited_ns, 0);
	kv_env()->wait(kv_env()->ctx, &word, 1, 1000000);
	cr_expect_eq(answers.waited_ns, 1000000);
}

Test(host, state_is_what_the_library_has)
{
	struct kvmm_testing_state state = { .size = sizeof(state) };
	void *ptr;

	cr_assert_eq(kvmm_testing_get_state(&state), 0);
	cr_expect_eq(state.host_bytes, 0);
	ptr = kv_alloc(123);
	cr_assert_eq(kvmm_testing_get_state(&state), 0);
	cr_expect_eq(state.host_bytes, 123);
	kv_free(ptr);
	cr_expect_eq(state.nr_bugs, 0);
}

struct late {
	struct kv_rcu_head rcu;
};

static void free_late(struct kv_rcu_head *head)
{
	kv_free(container_of(head, struct late, rcu));
}

Test(host, what_is_being_freed_is_not_held)
{
	struct kvmm_testing_state state = { .size = sizeof(state) };
	struct late *late = kv_alloc(sizeof(*late));

	kv_rcu_defer(&late->rcu, free_late);
	cr_assert_eq(kvmm_testing_get_state(&state), 0);
	cr_expect_eq(state.host_bytes, 0);
}

Test(host, state_is_cut_to_the_callers_size)
{
	struct kvmm_testing_state state;

	memset(&state, 0xee, sizeof(state));
	state.size = offsetof(struct kvmm_testing_state, nr_bugs);
	cr_assert_eq(kvmm_testing_get_state(&state), 0);
	cr_expect_eq(state.host_bytes, 0);
	cr_expect_eq(state.nr_bugs, 0xeeeeeeeeeeeeeeeeull);
}
