// SPDX-License-Identifier: Apache-2.0
/* A disk store on the file system that there is: who may open it, what it makes, and the system's queue. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/bits.h>
#include <kv/rcu.h>
#include <kv/sys.h>

#include "tests/support/test.h"
#include "util.h"

#define SEGMENT		(1u << 20)
#define MAX_BYTES	(4 * SEGMENT + KV_DISK_FRONT_BYTES)
#define NR_SUBMITTED	48u

static char root[64], path[80], file[96];
static struct kvmm_disk_attr attr;
static struct kvmm_disk *disk;

static void begin(void)
{
	snprintf(root, sizeof(root), "%s/kvmm-disk-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	cr_assert_not_null(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/store", root);
	snprintf(file, sizeof(file), "%s/" KV_DISK_FILE, path);
	attr = (struct kvmm_disk_attr)KVMM_DISK_ATTR_INIT;
	attr.path = path;
	attr.max_bytes = MAX_BYTES;
	attr.segment_bytes = SEGMENT;
	disk = NULL;
}

static void end(void)
{
	kvmm_disk_close(disk);
	unlink(file);
	unlink(path);
	rmdir(path);
	rmdir(root);
	cr_expect_eq(kv_mem_bytes(), 0);
}

TestSuite(disk_files, .init = begin, .fini = end);

static int open_it(void)
{
	return kvmm_disk_open(&attr, &disk);
}

static void reopen(void)
{
	kvmm_disk_close(disk);
	disk = NULL;
	cr_assert_eq(open_it(), 0);
}

static void use_it(void)
{
	for (u32 i = 0; i < 400; i++) {
		cr_assert_eq(disk_test_write(disk, i, 0), 0);
		cr_assert_eq(disk_test_read(disk, i), 0);
	}
	for (u32 again = 0; again < 2; again++) {
		for (u32 i = 300; i < 400; i++)
			cr_expect_eq(disk_test_read(disk, i), 0);
		cr_expect_eq(kv_disk_check(disk), 0);
		reopen();
	}
}

static u32 mode_of(const char *name)
{
	struct stat st;

	return stat(name, &st) ? 0 : st.st_mode & 0777;
}

Test(disk_files, only_their_owner_can_get_at_them)
{
	umask(0);
	cr_assert_eq(open_it(), 0);
	cr_expect_eq(mode_of(path), 0700);
	cr_expect_eq(mode_of(file), 0600);
}

Test(disk_files, their_folder_has_a_name_that_can_be_shown)
{
	struct stat seen;

	strcat(path, "\xff\n");
	cr_expect_eq(open_it(), -EINVAL);
	cr_expect_neq(stat(path, &seen), 0, "it was made");
}

Test(disk_files, what_others_can_get_at_is_refused)
{
	cr_assert_eq(open_it(), 0);
	kvmm_disk_close(disk);
	disk = NULL;
	chmod(path, 0750);
	cr_expect_eq(open_it(), -EPERM);
	chmod(path, 0700);
	chmod(file, 0644);
	cr_expect_eq(open_it(), -EPERM);
	chmod(file, 0600);
	cr_expect_eq(open_it(), 0);
}

Test(disk_files, links_are_not_followed)
{
	char other[96];

	snprintf(other, sizeof(other), "%s/other", root);
	cr_assert_eq(mkdir(other, 0700), 0);
	cr_assert_eq(symlink(other, path), 0);
	cr_expect_lt(open_it(), 0, "a folder that is a link");
	unlink(path);
	cr_assert_eq(mkdir(path, 0700), 0);
	snprintf(other + strlen(other), 16, "/file");
	close(open(other, O_CREAT | O_WRONLY, 0600));
	cr_assert_eq(symlink(other, file), 0);
	cr_expect_eq(open_it(), -ELOOP, "a file that is a link");
	unlink(file);
	cr_assert_eq(link(other, file), 0);
	cr_expect_eq(open_it(), -EPERM, "a file with another name elsewhere");
	unlink(other);
	cr_expect_eq(open_it(), 0);
	*strrchr(other, '/') = '\0';
	rmdir(other);
}

Test(disk_files, what_is_no_file_is_refused)
{
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(mkfifo(file, 0600), 0);
	cr_expect_lt(open_it(), 0);
	unlink(file);
	attr.flags = 0;
	cr_expect_eq(open_it(), -ENOENT);
	attr.path = "/no/such/folder";
	cr_expect_eq(open_it(), -ENOENT);
}

Test(disk_files, another_process_that_has_it_open_keeps_us_out)
{
	int pipes[2], status;
	char byte = 0;
	pid_t pid;

	cr_assert_eq(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		int err = open_it();

		if (write(pipes[1], &byte, 1) == 1)
			pause();
		_exit(err);
	}
	cr_assert_eq(read(pipes[0], &byte, 1), 1);
	cr_expect_eq(open_it(), -EBUSY);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	cr_expect_eq(open_it(), 0, "a process that is dead does not");
}

Test(disk_files, with_the_systems_queue)
{
	cr_assert_eq(open_it(), 0);
	cr_log_info("io_uring: %u, O_DIRECT: %u", disk_test_stat(disk).has_ring,
		    disk_test_stat(disk).is_direct);
	use_it();
}

Test(disk_files, by_whoever_polls)
{
	attr.io = KVMM_DISK_IO_POLL;
	cr_assert_eq(open_it(), 0);
	cr_expect_eq(disk_test_stat(disk).has_ring, 0);
	use_it();
}

Test(disk_files, through_the_page_cache)
{
	attr.flags |= KVMM_DISK_BUFFERED;
	cr_assert_eq(open_it(), 0);
	cr_expect_eq(disk_test_stat(disk).is_direct, 0);
	use_it();
}

static void *no_library(void *ctx, const char *name, const char **why)
{
	*why = "not here";
	return NULL;
}

Test(disk_files, without_liburing)
{
	struct kv_sys_ops sys = kv_sys_system;

	sys.open_library = no_library;
	kv_sys_set(&sys);
	cr_assert_eq(open_it(), 0);
	cr_expect_eq(disk_test_stat(disk).has_ring, 0);
	use_it();
	kv_sys_set(NULL);
}

static int refuse(unsigned int entries, void *ring, unsigned int flags)
{
	return -EPERM;
}

static void *refusing_symbol(void *ctx, void *library, const char *name)
{
	return strcmp(name, "io_uring_queue_init") ? (void *)1 : (void *)refuse;
}

static void *any_library(void *ctx, const char *name, const char **why)
{
	return (void *)1;
}

Test(disk_files, where_io_uring_is_forbidden)
{
	struct kv_sys_ops sys = kv_sys_system;

	sys.open_library = any_library;
	sys.find_symbol = refusing_symbol;
	kv_sys_set(&sys);
	cr_assert_eq(open_it(), 0);
	cr_expect_eq(disk_test_stat(disk).has_ring, 0);
	use_it();
	kv_sys_set(NULL);
}

Test(disk_files, a_forked_child_cannot_use_it)
{
	int status;
	pid_t pid;

	cr_assert_eq(open_it(), 0);
	cr_assert_eq(disk_test_write(disk, 1, 0), 0);
	pid = fork();
	if (!pid) {
		bool refused = disk_test_write(disk, 2, 0) == -ECHILD &&
			       disk_test_read(disk, 1) == -ECHILD &&
			       kvmm_disk_sync(disk) == -ECHILD && !disk_test_has(disk, 1);

		kvmm_disk_close(disk);
		_exit(refused);
	}
	waitpid(pid, &status, 0);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status));
	cr_expect_eq(disk_test_write(disk, 3, 0), 0);
	cr_expect_eq(disk_test_read(disk, 1), 0);
}

Test(disk_files, it_can_be_looked_at_while_somebody_writes)
{
	struct kvmm_disk_view_info info = { .size = sizeof(info) };
	struct kvmm_disk_segment segment;
	struct kvmm_disk_entry entry;
	struct kvmm_disk_view *view;
	u32 nr = 0;

	cr_expect_eq(kvmm_disk_view_open(path, &info, &view), -ENOENT);
	cr_assert_eq(open_it(), 0);
	for (u32 i = 0; i < 200; i++)
		cr_assert_eq(disk_test_write(disk, i, 0), 0);
	info.size = sizeof(info.size) + 1;
	cr_expect_eq(kvmm_disk_view_open(path, &info, &view), -EINVAL, "no version ends there");
	info.size = sizeof(info);
	cr_assert_eq(kvmm_disk_view_open(path, &info, &view), 0);
	cr_expect_eq(info.nr_segments, 4);
	cr_expect_eq(info.nr_good_supers, 3);
	for (u32 i = 0; i < info.nr_segments; i++) {
		cr_assert_eq(kvmm_disk_view_segment(view, i, &segment), 0);
		while (kvmm_disk_view_next(view, 1, &entry) == 1) {
			cr_expect_eq(entry.status, 0);
			nr++;
		}
	}
	cr_expect_eq(nr, 200);
	cr_expect_eq(disk_test_write(disk, 200, 0), 0, "nobody was locked out");
	kvmm_disk_view_close(view);
}

/* It never polls, so what the queue does not take from it at once waits for another thread. */
static void *submit_only(void *arg)
{
	for (u32 i = 0; i < NR_SUBMITTED; i++) {
		struct kvmm_disk_put_args put = disk_test_put(i, arg + i * DISK_TEST_MAX_BYTES);

		disk_test_fill(i, arg + i * DISK_TEST_MAX_BYTES);
		cr_expect_eq(kv_disk_submit_put(disk, &put, 1, 0, i), 0);
	}
	return NULL;
}

static void poll_beside_a_thread_that_submits(u32 io)
{
	void *data = disk_test_buffers(NR_SUBMITTED);
	struct kv_disk_done done;
	pthread_t thread;
	u64 seen = 0;

	attr.io = io;
	cr_assert_eq(open_it(), 0);
	cr_assert_eq(pthread_create(&thread, NULL, submit_only, data), 0);
	while (seen != BIT64(NR_SUBMITTED) - 1) {
		if (!kv_disk_poll(disk, &done, 1))
			continue;
		cr_expect_eq(done.status, 0, "record %u", (u32)done.tag);
		cr_expect_not(seen & BIT64(done.tag), "record %u is done twice", (u32)done.tag);
		seen |= BIT64(done.tag);
	}
	cr_assert_eq(pthread_join(thread, NULL), 0);
	for (u32 i = 0; i < NR_SUBMITTED; i++)
		cr_expect_eq(disk_test_read(disk, i), 0);
	free(data);
}

Test(disk_files, what_a_thread_only_submits_is_done_by_one_that_polls, .timeout = 60)
{
	poll_beside_a_thread_that_submits(KVMM_DISK_IO_AUTO);
}

Test(disk_files, or_without_a_queue_by_one_that_polls_alone, .timeout = 60)
{
	poll_beside_a_thread_that_submits(KVMM_DISK_IO_POLL);
}

/* Unwinding a cancelled thread leaves AddressSanitizer's marks on its stack. */
#ifndef __SANITIZE_ADDRESS__
static void *read_for_ever(void *arg)
{
	for (u32 i = 0;; i++) {
		disk_test_read(disk, i % 8);
		disk_test_write(disk, 100 + i, 0);
		pthread_testcancel();
	}
	return NULL;
}

/* Nothing is left half done: closing would wait for it. */
Test(disk_files, a_thread_that_is_cancelled_leaves_nothing_behind, .timeout = 60)
{
	pthread_t thread;

	attr.io = KVMM_DISK_IO_POLL;
	cr_assert_eq(open_it(), 0);
	for (u32 i = 0; i < 8; i++)
		disk_test_write(disk, i, 0);
	for (u32 i = 0; i < 50; i++) {
		cr_assert_eq(pthread_create(&thread, NULL, read_for_ever, NULL), 0);
		usleep(i * 37 % 1500);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		cr_assert_eq(kv_disk_check(disk), 0);
	}
	cr_expect_eq(disk_test_write(disk, 50, 0), 0);
	cr_expect_eq(disk_test_read(disk, 50), 0);
}
#endif
