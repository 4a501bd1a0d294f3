// SPDX-License-Identifier: Apache-2.0
/* The seam for start-up code: the system's own table, and forks. */
#include <sys/wait.h>
#include <unistd.h>

#include <kv/sys.h>

#include "tests/support/test.h"

static const struct kv_sys_ops *const sys = &kv_sys_system;

Test(sys, reads_the_environment)
{
	setenv("KVMM_TEST_VARIABLE", "value", 1);
	cr_expect_str_eq(sys->getenv(NULL, "KVMM_TEST_VARIABLE"), "value");
	unsetenv("KVMM_TEST_VARIABLE");
	cr_expect_null(sys->getenv(NULL, "KVMM_TEST_VARIABLE"));
}

Test(sys, opens_libraries_and_says_why_not)
{
	const char *why = NULL;
	double (*sine)(double);
	void *library = sys->open_library(NULL, "libm.so.6", &why), *fn;

	cr_assert_not_null(library, "%s", why);
	fn = sys->find_symbol(NULL, library, "sin");
	cr_assert_not_null(fn);
	memcpy(&sine, &fn, sizeof(fn));
	cr_expect_eq(sine(0), 0);
	cr_expect_null(sys->find_symbol(NULL, library, "no_such_symbol"));
	cr_expect_null(sys->open_library(NULL, "/no/such/library.so", &why));
	cr_expect_not_null(strstr(why, "/no/such/library.so"));
}

Test(sys, reads_small_files_as_strings)
{
	char text[8];

	memset(text, 'x', sizeof(text));
	cr_expect_eq(sys->read_file(NULL, "/proc/self/comm", text, sizeof(text)), 0);
	cr_expect_lt(strnlen(text, sizeof(text)), sizeof(text), "cut, and still a string");
	errno = 7;
	cr_expect_eq(sys->read_file(NULL, "/no/such/file", text, sizeof(text)), -ENOENT);
	cr_expect_eq(sys->read_file(NULL, "/proc", text, sizeof(text)), -EISDIR);
	cr_expect_eq(errno, 7);
}

Test(sys, another_table_can_take_its_place)
{
	static const struct kv_sys_ops other;

	cr_expect_eq(kv_sys(), &kv_sys_system);
	kv_sys_set(&other);
	cr_expect_eq(kv_sys(), &other);
	kv_sys_set(NULL);
	cr_expect_eq(kv_sys(), &kv_sys_system);
}

static bool child_knows(void)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid)
		_exit(kv_forked());
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

Test(sys, children_know_of_a_fork_while_somebody_watches)
{
	cr_expect_not(child_knows());
	kv_fork_watch(true);
	kv_fork_watch(true);
	cr_expect(child_knows());
	kv_fork_watch(false);
	cr_expect(child_knows());
	kv_fork_watch(false);
	cr_expect_not(child_knows());
	cr_expect_not(kv_forked(), "the parent never forked");
}
