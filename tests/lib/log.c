// SPDX-License-Identifier: Apache-2.0
/* Lines for the operator, bugs of ours, and errors in words. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>

#include <kv/bits.h>
#include <kv/err.h>
#include <kv/log.h>
#include <kv/stat.h>

#include "tests/support/fake_env.h"
#include "tests/support/test.h"

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

/* What goes to standard error when these are logged, as KVMM_LOG says. */
static const char *said_on_stderr(const char *level)
{
	static char text[256];
	int to[2], old = dup(STDERR_FILENO);
	ssize_t nr;

	cr_assert_eq(pipe(to), 0);
	cr_assert_eq(fcntl(to[0], F_SETFL, O_NONBLOCK), 0);
	dup2(to[1], STDERR_FILENO);
	cr_assert_eq(level ? setenv("KVMM_LOG", level, 1) : unsetenv("KVMM_LOG"), 0);
	kv_log(KV_LOG_ERR, "an error");
	kv_log(KV_LOG_WARN, "a warning");
	kv_log_why(KV_LOG_INFO, "a reason");
	kv_log(KV_LOG_DEBUG, "a detail");
	dup2(old, STDERR_FILENO);
	nr = read(to[0], text, sizeof(text) - 1);
	text[max(nr, (ssize_t)0)] = '\0';
	return text;
}

Test(log, without_a_listener_is_silent)
{
	cr_expect_str_empty(said_on_stderr(NULL));
}

Test(log, of_a_level_that_is_none_is_silent)
{
	cr_expect_str_empty(said_on_stderr("loud"));
}

Test(log, goes_to_standard_error_down_to_the_level_that_the_environment_names)
{
	cr_expect_str_eq(said_on_stderr("info"), "an error\na warning\na reason\n");
}

Test(log, of_errors_only_has_no_warnings)
{
	cr_expect_str_eq(said_on_stderr("error"), "an error\n");
}

static void listen(void *arg, int level, const char *line)
{
	snprintf(arg, 64, "%d %s", level, line);
}

Test(log, goes_to_the_function_that_was_set_and_to_no_other_place)
{
	char heard[64] = "";

	kvmm_log_set(listen, heard);
	cr_expect_str_empty(said_on_stderr("debug"));
	cr_expect_str_eq(heard, "7 a detail");
	cr_expect_eq(kv_refuse(-EBUSY, "kvmm: the %s", "reason"), -EBUSY);
	cr_expect_str_eq(heard, "6 kvmm: the reason");
	kvmm_log_set(NULL, NULL);
	cr_expect_str_eq(said_on_stderr("error"), "an error\n");
	cr_expect_str_eq(heard, "6 kvmm: the reason");
}

static void *log_elsewhere(void *unused)
{
	kv_log(KV_LOG_ERR, "another thread's");
	return NULL;
}

Test(log, keeps_the_last_line_of_a_thread_for_it)
{
	pthread_t thread;

	cr_expect_str_empty(kvmm_why());
	kv_log(KV_LOG_INFO, "one");
	kv_log_why(KV_LOG_INFO, "kvmm: %s", "two");
	cr_assert_eq(pthread_create(&thread, NULL, log_elsewhere, NULL), 0);
	pthread_join(thread, NULL);
	kv_log(KV_LOG_ERR, "kvmm: what is no reason");
	cr_expect_str_eq(kvmm_why(), "two");
	kv_why_clear();
	cr_expect_str_empty(kvmm_why());
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

Test(log, debug_builds_stop_at_an_assert, .signal = SIGILL)
{
	kv_assert(kvmm_version() == NULL);
}

#else

Test(log, release_builds_do_not_look_at_asserts)
{
	u32 nr_looks = 0;

	kv_assert(nr_looks++);
	cr_expect_eq(nr_looks, 0);
	cr_expect_eq(kv_stat_sum(KV_EV_BUG), 0);
}

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

/* The number of an errno by its name. */
static int errno_of(const char *name)
{
	for (int err = 1; err < 4096; err++)
		if (strerrorname_np(err) && !strcmp(strerrorname_np(err), name))
			return err;
	return 0;
}

static void expect_words(int err, const char *texts[4096])
{
	const char *text = kvmm_strerror(-err);

	if (texts[err])
		return;
	cr_expect_gt(strlen(text), 5);
	cr_expect_str_neq(text, kvmm_strerror(-EXFULL), "%s is unknown", strerrorname_np(err));
	for (int other = 0; other < 4096; other++)
		if (texts[other])
			cr_expect_str_neq(text, texts[other]);
	texts[err] = text;
}

/* Each -ENAME in the line. */
static u32 expect_words_in(const char *line, const char *texts[4096])
{
	char name[32];
	u32 nr = 0;

	for (; (line = strstr(line, "-E")); line++)
		if (sscanf(line, "-%31[A-Z0-9]", name) == 1 && errno_of(name)) {
			expect_words(errno_of(name), texts);
			nr++;
		}
	return nr;
}

Test(strerror, each_error_that_a_header_names_has_words_of_its_own)
{
	/* Of the headers of migration, handles, forks, checks, tenants and elastic pools. */
	static const int named[] = { EREMOTE, EINVAL, ESTALE, ECHILD, EUCLEAN, EDQUOT, ENXIO };
	static const char *texts[4096];
	const char *tree = getenv("KVMM_SRCTREE");
	char pattern[512], line[512];
	glob_t headers;
	u32 nr = 0;

	texts[0] = kvmm_strerror(0);
	snprintf(pattern, sizeof(pattern), "%s/include/kvmm/{,ext/}*.h", tree ? tree : ".");
	cr_assert_eq(glob(pattern, GLOB_BRACE, NULL, &headers), 0, "%s", pattern);
	for (size_t i = 0; i < headers.gl_pathc; i++) {
		FILE *file = fopen(headers.gl_pathv[i], "r");

		cr_assert_not_null(file);
		while (fgets(line, sizeof(line), file))
			nr += expect_words_in(line, texts);
		fclose(file);
	}
	cr_expect_gt(nr, 20 * headers.gl_pathc, "the headers were read");
	for (size_t i = 0; i < ARRAY_SIZE(named); i++)
		cr_expect_not_null(texts[named[i]], "%s", strerrorname_np(named[i]));
	globfree(&headers);
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
