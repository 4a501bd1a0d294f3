// SPDX-License-Identifier: Apache-2.0
/* Lines for the operator, bugs of ours, and errors in words. */
#include <criterion/criterion.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <kv/err.h>
#include <kv/log.h>
#include <kv/stat.h>
#include <kvmm/types.h>

#include "tests/support/fake_env.h"

#define LONGEST	255

Test(log, reaches_the_listener_as_it_was_formatted)
{
	struct fake_env fake;

	fake_env_install(&fake);
	kv_log(KV_LOG_WARN, "zone %u: %s", 7, "tight");
	cr_expect_str_eq(fake.line, "zone 7: tight");
	cr_expect_eq(fake.level, KV_LOG_WARN);
	cr_expect_eq(fake.nr_lines, 1);
	fake_env_remove(&fake);
}

Test(log, without_a_listener_is_silent)
{
	cr_assert_null(kv_env()->log);
	kv_log(KV_LOG_ERR, "%s", "nobody hears this");
}

static void *log_elsewhere(void *unused)
{
	kv_log(KV_LOG_ERR, "another thread's");
	return NULL;
}

Test(log, keeps_the_last_line_of_a_thread_for_it)
{
	char line[10] = "";
	pthread_t thread;

	cr_assert_null(kv_env()->log);
	kv_log_keep(line, sizeof(line));
	kv_log(KV_LOG_INFO, "one");
	kv_log(KV_LOG_INFO, "%s", "two, which is cut");
	cr_assert_eq(pthread_create(&thread, NULL, log_elsewhere, NULL), 0);
	pthread_join(thread, NULL);
	kv_log_keep(NULL, 0);
	kv_log(KV_LOG_INFO, "three");
	cr_expect_str_eq(line, "two, whic");
}

/* One character each side of the limit. */
Test(log, lines_that_are_too_long_end_in_dots)
{
	char text[LONGEST + 2];
	struct fake_env fake;

	fake_env_install(&fake);
	memset(text, 'x', sizeof(text));
	text[LONGEST] = '\0';
	kv_log(KV_LOG_INFO, "%s", text);
	cr_expect_str_eq(fake.line, text);

	text[LONGEST] = 'x';
	text[LONGEST + 1] = '\0';
	kv_log(KV_LOG_INFO, "%s", text);
	cr_expect_eq(strlen(fake.line), LONGEST);
	cr_expect_eq(memcmp(fake.line, text, LONGEST - 3), 0);
	cr_expect_str_eq(fake.line + LONGEST - 3, "...");
	fake_env_remove(&fake);
}

Test(log, invariant_that_holds_is_no_bug)
{
	struct fake_env fake;

	fake_env_install(&fake);
	cr_expect_eq(KV_BUG_ON(fake.nr_lines != 0), false);
	cr_expect_eq(kv_stat_sum(KV_EV_BUG), 0);
	cr_expect_eq(fake.nr_lines, 0);
	fake_env_remove(&fake);
}

#ifdef KVMM_DEBUG

Test(log, debug_builds_stop_at_a_bug, .signal = SIGILL)
{
	KV_BUG_ON(kvmm_version() != NULL);
}

#else

/* Fifty times at one place and once at another. */
Test(log, each_bug_is_counted_and_each_place_speaks_once)
{
	struct fake_env fake;

	fake_env_install(&fake);
	for (int i = 0; i < 50; i++)
		cr_expect_eq(KV_BUG_ON(i >= 0), true);
	cr_expect_eq(kv_stat_sum(KV_EV_BUG), 50);
	cr_expect_eq(fake.nr_lines, 1);
	cr_expect_eq(fake.level, KV_LOG_ERR);
	cr_expect_not_null(strstr(fake.line, "i >= 0"), "%s", fake.line);
	cr_expect_not_null(strstr(fake.line, "log.c"), "%s", fake.line);

	KV_BUG_ON(fake.nr_lines == 1);
	cr_expect_eq(kv_stat_sum(KV_EV_BUG), 51);
	cr_expect_eq(fake.nr_lines, 2);
	fake_env_remove(&fake);
}

#endif /* KVMM_DEBUG */

static const int errors[] = {
	-EINVAL, -ENOSPC, -ENOMEM, -ESTALE, -EBUSY, -ENOENT, -EUCLEAN, -EIO, -EAGAIN,
	-EOPNOTSUPP, -EEXIST, -EOVERFLOW, -EOWNERDEAD, -ENODEV, -ENXIO, -EALREADY,
	-EBADMSG, -ENOBUFS, -ECANCELED, -EROFS, -EPERM, -EPROTONOSUPPORT, -ETIMEDOUT, -EADDRINUSE,
	-ECONNREFUSED, -ECONNRESET, -EPIPE, -EACCES, -EMFILE, -ENAMETOOLONG, -E2BIG, -ELOOP, -ENOTDIR,
	0, -EXFULL,
};

Test(strerror, each_error_has_words_of_its_own)
{
	for (int i = 0; i < ARRAY_SIZE(errors); i++) {
		const char *text = kvmm_strerror(errors[i]);

		cr_assert_not_null(text);
		cr_expect_gt(strlen(text), 5);
		for (int j = 0; j < i; j++)
			cr_expect_str_neq(text, kvmm_strerror(errors[j]));
	}
}

Test(strerror, knows_what_it_does_not_know)
{
	cr_expect_str_eq(kvmm_strerror(-4711), kvmm_strerror(-EXFULL));
	cr_expect_str_eq(kvmm_strerror(INT_MIN), kvmm_strerror(-EXFULL));
	cr_expect_str_eq(kvmm_strerror(INT_MAX), kvmm_strerror(0), "a count is no error");
}

Test(version, has_three_numbers)
{
	int major, minor, patch, end = 0;

	cr_assert_eq(sscanf(kvmm_version(), "%d.%d.%d%n", &major, &minor, &patch, &end), 3);
	cr_expect_eq(end, strlen(kvmm_version()));
}
