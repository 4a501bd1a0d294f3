// SPDX-License-Identifier: Apache-2.0
/* Hints through the socket: what a tier below has is loaded before it is asked for. */
#include <string.h>

#include "tests/ctl/control_util.h"
#include "tests/support/fake_env.h"
#include "tests/tier/util.h"

#define MS	1000000ull

static struct both both;
static struct kvmm_control *control;
static struct fake_env fake;
static int fd;

static void set_up(void)
{
	fake_env_install(&fake);
	folder_make();
	both = both_of(8, 16);
	both_make(&both);
	control = control_in_folder(NULL);
	cr_assert_eq(kvmm_control_add_pool(control, "alpha", both.pool), 0);
	fd = visitor(control);
}

static void tear_down(void)
{
	close(fd);
	kvmm_control_close(control);
	end_both(both.pool, both.tier);
	folder_remove();
	cr_expect_eq(kv_mem_bytes(), 0);
	fake_env_remove(&fake);
}

TestSuite(prefetch, .init = set_up, .fini = tear_down);

/* "prefetch @pool @ms" and keys in hexadecimal, then @rest. */
static const char *hint_to(const char *pool, u32 ms, u32 first, u32 nr, const char *rest)
{
	static char line[KVMM_CONTROL_REQUEST_BYTES];
	const struct kvmm_prefix *prefix = prefix_of(first, nr);
	int at = snprintf(line, sizeof(line), "prefetch %s %u ", pool, ms);

	for (u32 i = 0; i < nr; i++)
		for (u32 b = 0; b < KVMM_KEY_BYTES; b++)
			at += snprintf(line + at, sizeof(line) - at, "%02x",
				       prefix->keys[i].byte[b]);
	snprintf(line + at, sizeof(line) - at, "%s", rest);
	return ask(control, fd, line);
}

static const char *hint(u32 ms, u32 first, u32 nr, const char *rest)
{
	return hint_to("alpha", ms, first, nr, rest);
}

static void go_on(u64 ms)
{
	fake.now_ns += ms * MS;
	poll_all(both.pool);
	kvmm_control_poll(control);
}

/* In the host tier, and nowhere else. */
static void keep_below(u32 first, u32 nr)
{
	cache_blocks(both.pool, first, nr);
	offload_keys(both.pool, first, nr, KVMM_TIER_DROP);
	cr_assert_eq(kvmm_prefix_len(both.pool, prefix_of(first, nr)), 0);
}

Test(prefetch, what_lies_below_is_there_before_anyone_asks)
{
	keep_below(1, 4);
	has(hint(1000, 1, 4, ""), "\n1\t-\t4\t0\t4\t0\n");
	go_on(1);
	has(ask(control, fd, "prefetch-status alpha"), "\n1\tdone\t4\t4\t4\t0\n");
	cr_expect_eq(kvmm_prefix_len(both.pool, prefix_of(1, 4)), 4);
	has(hint(1000, 1, 4, ""), "\n2\tdone\t4\t4\t0\t0\n");
}

Test(prefetch, what_comes_to_the_tier_before_the_end_is_loaded_too)
{
	has(hint(10, 1, 2, ""), "\n1\t-\t2\t0\t0\t0\n");
	go_on(5);
	keep_below(1, 2);
	go_on(1);
	go_on(1);
	has(ask(control, fd, "prefetch-status alpha"), "\n1\tdone\t2\t2\t2\t0\n");
}

Test(prefetch, a_pool_without_a_tier_refuses_whether_the_keys_are_there_or_not)
{
	struct kvmm_pool *bare = make_cache(8, "lru");

	cr_assert_eq(kvmm_control_add_pool(control, "bare", bare), 0);
	cache_blocks(bare, 0, 2);
	for (u32 first = 0; first < 4; first += 2)
		has(hint_to("bare", 50, first, 2, ""), "this pool has no tier below");
	cr_expect_null(strstr(ask(control, fd, "prefetch-status bare"), "\n1\t"));
	cr_assert_eq(kvmm_control_remove_pool(control, bare), 0);
	kvmm_pool_destroy(bare);
}

Test(prefetch, too_late_is_too_late)
{
	has(hint(10, 1, 2, ""), "\n1\t-\t2\t0\t0\t0\n");
	go_on(9);
	has(ask(control, fd, "prefetch-status alpha"), "\n1\t-\t2\t0\t0\t0\n");
	go_on(1);
	has(ask(control, fd, "prefetch-status alpha"), "\n1\tlate\t2\t0\t0\t0\n");
	keep_below(1, 2);
	go_on(1);
	cr_expect_eq(kvmm_prefix_len(both.pool, prefix_of(1, 2)), 0);
	has(hint(0, 5, 1, ""), "\n2\tlate\t1\t0\t0\t0\n");
}

Test(prefetch, blocks_that_requests_need_are_left_to_them)
{
	kvmm_mut_t held[5];

	keep_below(1, 4);
	cr_assert_eq(kvmm_alloc(both.pool, 5, held), 0);
	has(hint(1000, 1, 4, " reserve=4"), "\n1\t-\t4\t0\t0\t");
	cr_assert_eq(kvmm_free(both.pool, held, 5), 0);
	go_on(1);
	go_on(1);
	has(ask(control, fd, "prefetch-status alpha"), "\n1\tdone\t4\t4\t4\t0\n");
}

Test(prefetch, domain_is_that_which_was_said)
{
	keep_below(1, 2);
	has(hint(10, 1, 2, " tenant=7"), "\n1\t-\t2\t0\t0\t0\n");
	has(hint(10, 1, 2, " layout=7"), "\n2\t-\t2\t0\t0\t0\n");
	has(hint(10, 1, 2, " group=7"), "\n3\t-\t2\t0\t0\t0\n");
	has(hint(10, 2, 1, " position=1 parent=00000000000000000000000000000001"),
	    "\n4\t-\t1\t0\t1\t0\n");
}

Test(prefetch, hints_beyond_sixteen_wait_for_the_first_to_end)
{
	char line[32];

	for (u32 i = 1; i <= 16; i++) {
		snprintf(line, sizeof(line), "\n%u\t-\t1\t0\t0\t0\n", i);
		has(hint(10 + i, i, 1, ""), line);
	}
	has(hint(10, 1, 1, ""), "16 hints of this pool are under way");
	go_on(11);
	has(hint(10, 1, 1, ""), "\n17\t-\t");
	cr_expect_null(strstr(ask(control, fd, "prefetch-status alpha"), "\n1\t"));
	has(ask(control, fd, "prefetch-status alpha"), "\n2\t-\t");
}

Test(prefetch, hint_that_lasts_is_in_the_way_of_no_other)
{
	has(hint(60000, 1, 1, ""), "\n1\t-\t");
	for (u32 i = 0; i < 40; i++)
		has(hint(0, 2, 1, ""), "\tlate\t");
	has(ask(control, fd, "prefetch-status alpha"), "\n1\t-\t1\t0\t0\t0\n");
}

Test(prefetch, bad_hints_say_what_is_wrong)
{
	has(ask(control, fd, "prefetch alpha 1"), "usage: prefetch POOL WITHIN_MS KEYS");
	has(ask(control, fd, "prefetch alpha 60001 00"), "is no number from 0 to 60000");
	has(ask(control, fd, "prefetch alpha 1 0011"), "is no key: 32 digits of 0-9, a-f");
	has(ask(control, fd, "prefetch alpha 1 0000000000000000000000000000000G"), "is no key: ");
	has(hint(1, 1, 2, "0"), "is no key: ");
	has(hint(1, 1, 1, " tenant=4294967296"), "is no number from 0 to 4294967295");
	has(hint(1, 1, 1, " layout=65536"), "is no number from 0 to 65535");
	has(hint(1, 1, 1, " parent=12"), "is no key: ");
	has(hint(1, 1, 1, " soon"), "unknown word 'soon'; try help prefetch");
	has(hint(1, 1, 2, " position=4294967295"), "err 22 ");
	has(ask(control, fd, "prefetch-status alpha"), "error\n");
	cr_expect_null(strstr(ask(control, fd, "prefetch-status alpha"), "error\n1"));
}

Test(prefetch, without_a_tier_is_refused)
{
	struct kvmm_pool *beta = make_cache(4, "lru");

	cr_assert_eq(kvmm_control_add_pool(control, "beta", beta), 0);
	has(ask(control, fd, "prefetch beta 1 00000000000000000000000000000000"),
	    "this pool has no tier below");
	cr_assert_eq(kvmm_control_remove_pool(control, beta), 0);
	end_pool(beta);
}
