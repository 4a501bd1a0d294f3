// SPDX-License-Identifier: Apache-2.0
/*
 * Commands that show memory: what they say of a small pool, and what when there is no memory for it. Whole
 * answers of a larger one: tests/views.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <kv/mem.h>
#include <kv/rcu.h>
#include <kvmm/hold.h>
#include <kvmm/registry.h>

#include "ctl/control.h"
#include "tests/ctl/control_util.h"
#include "tests/pool/life_util.h"
#include "tests/pool/owner_util.h"
#include "tests/support/fake_env.h"

static struct fake_env fake;
static struct kvmm_registry *reg;
static struct kvmm_control *control;
static struct kvmm_pool *pool;
static int fd;

static void set_up(void)
{
	struct kvmm_registry_attr reg_attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	fake_env_install(&fake);
	fake_env_advance(&fake, 1000ull << 20);
	folder_make();
	cr_assert_eq(kvmm_registry_create(&reg_attr, &reg), 0);
	attr.nr_blocks = 12;
	attr.policy = "lru";
	attr.registry = reg;
	pool = make_pool_of(&attr);
	control = control_in_folder(NULL);
	cr_assert_eq(kvmm_control_add_pool(control, "a", pool), 0);
	fd = visitor(control);
}

static void tear_down(void)
{
	close(fd);
	kvmm_control_close(control);
	end_pool(pool);
	kvmm_registry_destroy(reg);
	folder_remove();
	kv_rcu_barrier();
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}

TestSuite(views, .init = set_up, .fini = tear_down);

/* The answer's body. */
static const char *body_of(const char *line)
{
	const char *answer = ask(control, fd, line), *end = strchr(answer, '\n');

	cr_assert_not_null(end, "'%s'", answer);
	cr_assert(!strncmp(answer, "ok ", 3), "%s: %s", line, answer);
	return end + 1;
}

/* Its row @i, the head being 0. */
static const char *row_of(const char *line, unsigned int i)
{
	static char row[512];
	const char *at = body_of(line);

	for (; i && at; i--) {
		at = strchr(at, '\n');
		at += !!at;
	}
	cr_assert(at && strchr(at, '\n'), "%s", line);
	snprintf(row, sizeof(row), "%.*s", (int)strcspn(at, "\n"), at);
	return row;
}

#define expect_row(line, i, text)	cr_expect_str_eq(row_of(line, i), text)

Test(views, a_map_is_rows_of_runs)
{
	take_owned(pool, 3, 'a', 7, 0, 0);
	cache_keys(pool, 1, 2);
	fake_env_advance(&fake, 5);
	expect_row("map a", 0, "#first\tcount\tstate\tflags:s\towner\tclass\tpins\trefs\tage_ns\tseq\ttenant");
	expect_row("map a", 1, "0\t3\trange\t-\t7\t-\t0\t1\t5\t97\t0");
	expect_row("map a", 2, "3\t2\tcached\t-\t-\t-\t0\t0\t5\t-\t0");
	expect_row("map a", 3, "5\t7\tfree\t-\t-\t-\t-\t-\t-\t-\t-");
	expect_row("map a 4", 1, "4\t1\tcached\t-\t-\t-\t0\t0\t5\t-\t0");
	expect_row("map a 12", 0, "#first\tcount\tstate\tflags:s\towner\tclass\tpins\trefs\tage_ns\tseq\ttenant");
}

Test(views, a_snapshot_has_names_and_tiers)
{
	cache_keys(pool, 1, 2);
	cr_expect_not_null(strstr(row_of("snapshot a", 2), "\t0\t0\t1\t-\t-\t"));
	cr_expect_str_eq(strrchr(row_of("snapshot a", 2), '\t'), "\t1");
	cr_expect_str_eq(strrchr(row_of("snapshot a", 3), '\t'), "\t-");
	cr_expect(!strncmp(row_of("prefixes a", 2), "1\t", 2));
}

Test(views, owners_sequences_and_holds_are_summed_up)
{
	struct kvmm_hold_attr attr = hold_attr_of(9, 0, 0);
	kvmm_key_t keys[2] = { key_of(1), key_of(2) };
	struct kvmm_prefix prefix = { keys, 2, 0, NULL, { 0, 0, 0 } };
	kvmm_hold_t hold;

	take_owned(pool, 3, 'a', 7, 50, 0);
	take_owned(pool, 2, 'b', 7, 40, 0);
	cache_keys(pool, 1, 2);
	attr.prefix = &prefix;
	cr_assert_eq(kvmm_hold(pool, &attr, &hold), 2);
	expect_row("owners a", 1, "7\t5\t2\t5\t0\t0\t0\t0\t1048576040");
	expect_row("owners a", 2, "0\t2\t1\t0\t0\t0\t0\t0\t-");
	expect_row("owners a", 3, "9\t0\t0\t0\t0\t1\t2\t0\t-");
	expect_row("sequences a", 1, "97\t3\t1\t0\t0\t0\t7");
	expect_row("sequences a 1", 1, "97\t3\t1\t0\t0\t0\t7");
	cr_expect(!strncmp(row_of("holds a", 1), "9\t", 2));
	cr_assert_eq(kvmm_hold_release(pool, hold), 0);
}

/* Whatever is missing, the answer says so, and the next one is good. */
Test(views, without_memory_a_command_says_so)
{
	static const char *const lines[] = { "map a", "snapshot a", "owners a", "sequences a",
					     "prefixes a", "holds a", "slabs" };

	cache_keys(pool, 1, 2);
	take_owned(pool, 3, 'a', 7, 50, 0);
	for (u32 i = 0; i < ARRAY_SIZE(lines); i++)
		for (u32 n = 1; ; n++) {
			const char *answer;

			fake_env_fail(&fake, n, false);
			answer = ask(control, fd, lines[i]);
			if (!fake_env_failed(&fake)) {
				fake_env_fail(&fake, 0, false);
				cr_expect(!strncmp(answer, "ok ", 3), "%s: %s", lines[i], answer);
				break;
			}
			fake_env_fail(&fake, 0, false);
			cr_expect(!strncmp(answer, "err 12 ", 7), "%s, failure %u: %s", lines[i], n, answer);
			cr_assert_eq(kvmm_validate(pool), 0);
			cr_assert_lt(n, 50);
		}
}
