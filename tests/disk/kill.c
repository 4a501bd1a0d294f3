// SPDX-License-Identifier: Apache-2.0
/*
 * A process that writes to a disk store is killed at a random moment, 200 times, with the files that
 * there are. Each time the store is opened and everything in it read: right or a miss, and the last
 * records that the dead process was told to be written are there: the page cache, or the disk, outlives
 * a process. Then the next process carries on with it.
 *
 * KVMM_KILLS says how many. Prints "N passed, N failed".
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kv/atomic.h>

#include "util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define SEGMENT		(256u << 10)
#define MAX_BYTES	(6 * SEGMENT + KV_DISK_FRONT_BYTES)
#define NR_NAMES	512u
#define NR_LAST		24u	/* of 5 pages at most: two segments of six */

/* Shared with the process that will be killed. */
struct shared {
	u32 last[NR_LAST];	/* records written, by turns; KV_NONE: and wiped again */
	u32 nr_written;
	u32 ready;
};

static struct shared *shared;
static char root[64], path[80];
static u64 seed = 1, nr_hits, nr_written;

#define any(below)	lcg_of(&seed, below)

static int open_store(struct kvmm_disk **disk, u32 round)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = path, .max_bytes = MAX_BYTES,
				       .segment_bytes = SEGMENT,
				       .io = round % 2 ? KVMM_DISK_IO_POLL : KVMM_DISK_IO_AUTO };

	return kvmm_disk_open(&attr, disk);
}

static void wipe(struct kvmm_disk *disk, u32 n)
{
	for (u32 i = 0; i < NR_LAST; i++)
		if (shared->last[i] == n)
			WRITE_ONCE(shared->last[i], KV_NONE);
	disk_test_forget(disk, n, KV_DISK_WIPE);
}

static void live(u32 round)
{
	struct kvmm_disk *disk;

	if (open_store(&disk, round))
		_exit(1);
	WRITE_ONCE(shared->ready, 1);
	for (;;) {
		u32 n = any(NR_NAMES), what = any(8), nr = shared->nr_written;

		if (what < 5 && !disk_test_write(disk, n, 0)) {
			WRITE_ONCE(shared->last[nr % NR_LAST], n);
			WRITE_ONCE(shared->nr_written, nr + 1);
		} else if (what == 5 || what == 6) {
			disk_test_read(disk, n);
		} else if (!any(16)) {
			wipe(disk, n);
		}
	}
}

static int fail(u32 round, u32 n, const char *what)
{
	printf("round %u, record %u: %s\n", round, n, what);
	return 1;
}

static bool must_be_there(u32 n)
{
	for (u32 i = 0; i < min(NR_LAST, shared->nr_written); i++)
		if (shared->last[i] == n)
			return true;
	return false;
}

static int verify(u32 round)
{
	struct kvmm_disk *disk;
	int failed = 0, err = open_store(&disk, round);

	if (err)
		return fail(round, 0, kvmm_strerror(err));
	for (u32 n = 0; n < NR_NAMES; n++) {
		int status = disk_test_read(disk, n);

		nr_hits += !status;
		if (status == 1)
			failed += fail(round, n, "wrong bytes");
		else if (status && status != -ENOENT)
			failed += fail(round, n, "a read failed");
		else if (status && must_be_there(n))
			failed += fail(round, n, "it was written, and is gone");
	}
	if (kv_disk_check(disk))
		failed += fail(round, 0, "inconsistent");
	if (disk_test_stat(disk).file_bytes > MAX_BYTES)
		failed += fail(round, 0, "too long");
	kvmm_disk_close(disk);
	return failed;
}

static void nap(u32 us)
{
	struct timespec time = { us / 1000000, us % 1000000 * 1000l };

	nanosleep(&time, NULL);
}

static int one_round(u32 round)
{
	int status;
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	seed++;
	pid = fork();
	if (!pid)
		live(round);
	while (!READ_ONCE(shared->ready) && !waitpid(pid, &status, WNOHANG))
		nap(100);
	nap(any(20000));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	nr_written += shared->nr_written;
	return !WIFSIGNALED(status) || verify(round);
}

int main(void)
{
	u32 nr_rounds = test_length("KVMM_KILLS", 200), failed = 0;
	const char *tmp = getenv("TMPDIR");
	char file[96];

	snprintf(root, sizeof(root), "%s/kvmm-kill-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(root))
		return 1;
	snprintf(path, sizeof(path), "%s/store", root);
	snprintf(file, sizeof(file), "%s/" KV_DISK_FILE, path);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (u32 i = 0; i < nr_rounds; i++)
		failed += one_round(i);
	unlink(file);
	rmdir(path);
	rmdir(root);
	printf("%u kills, %llu records written, %llu right afterwards\n", nr_rounds,
	       (unsigned long long)nr_written, (unsigned long long)nr_hits);
	printf("%u passed, %u failed\n", nr_rounds - failed, failed);
	return failed != 0;
}
