// SPDX-License-Identifier: Apache-2.0
/*
 * What a storm at the control socket does to who allocates: a thousand clients in another process, of
 * which some ask without end, some never read what they are told, some send half a line or bytes that are
 * nothing, and some come and go. The bar: the 99th percentile of an allocation changes by less than 10 %.
 *
 * Quiet and storm by turns, in the same run, on the same pool; the ratio counts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kvmm/kvmm.h>

#include "harness.h"

#define NR_BLOCKS	16384u
#define NR_CLIENTS	1000u
#define NR_SAMPLES	400000u
#define NR_ROUNDS	3u		/* quiet and storm, by turns, in a run */
#define NR_LIVE		256u
#define MAX_NS		(1u << 16)	/* longer ones count as that */

/* ---- who allocates ---- */

static u32 histogram[2][2][MAX_NS];	/* call, storm */

static void note(u32 *counts, u64 ns)
{
	counts[ns < MAX_NS ? ns : MAX_NS - 1]++;
}

/* Single blocks, which a thread keeps aside, and ranges, which go through the pool's lock. */
static void sample(struct kvmm_pool *pool, u32 storm, u32 nr)
{
	static kvmm_range_t live[NR_LIVE];
	u32 random = 12345;

	for (u32 i = 0; i < nr; i++) {
		u32 at = (random = random * 1664525 + 1013904223) >> 24;
		kvmm_mut_t mut;
		u64 t0, t1, t2;

		if (live[at].index | live[at].gen)
			kvmm_range_free(pool, live[at]);
		t0 = now_ns();
		kvmm_range_alloc(pool, 1 + (random >> 8) % 32, 0, &live[at]);
		t1 = now_ns();
		if (!kvmm_alloc(pool, 1, &mut))
			kvmm_free(pool, &mut, 1);
		t2 = now_ns();
		note(histogram[0][storm], t1 - t0);
		note(histogram[1][storm], t2 - t1);
	}
	for (u32 i = 0; i < NR_LIVE; i++)
		if (live[i].index | live[i].gen)
			kvmm_range_free(pool, live[i]);
	memset(live, 0, sizeof(live));
}

static double percentile(const u32 *counts, double share)
{
	u64 sum = 0, seen = 0;
	u32 ns = 0;

	for (u32 i = 0; i < MAX_NS; i++)
		sum += counts[i];
	while (ns < MAX_NS - 1 && (double)(seen += counts[ns]) < share * (double)sum)
		ns++;
	return ns;
}

/* ---- the storm: a process of its own ---- */

static int come(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void send_some(int fd, const char *text)
{
	ssize_t nr = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)nr;
}

static void read_all(int fd)
{
	char buf[65536];

	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
}

/* What client @i does in its turn; it may have become another one. */
static int act(const char *path, u32 i, int fd)
{
	switch (i % 8) {
	case 0: case 1: case 2: case 3:
		read_all(fd);
		send_some(fd, i % 8 ? "stat\n" : "pressure\n");
		return fd;
	case 4:
		send_some(fd, "help\nstat\nhelp\n");	/* and never reads */
		return fd;
	case 5:
		send_some(fd, "sta");
		return fd;
	case 6:
		send_some(fd, "\x01\xff\x7f garbage \x02\n\n\n");
		read_all(fd);
		return fd;
	default:
		close(fd);
		return come(path);
	}
}

static void storm(const char *path)
{
	static int fd[NR_CLIENTS];
	struct rlimit files = { 4096, 4096 };

	setrlimit(RLIMIT_NOFILE, &files);
	for (u32 i = 0; i < NR_CLIENTS; i++)
		fd[i] = -1;
	for (;;) {
		for (u32 i = 0; i < NR_CLIENTS; i++)
			fd[i] = fd[i] < 0 ? come(path) : act(path, i, fd[i]);
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
}

static pid_t begin_storm(const char *path)
{
	pid_t pid = fork();

	if (!pid) {
		bench_pin(bench_other_cpu());
		storm(path);
		_exit(1);
	}
	nanosleep(&(struct timespec){ 0, 200000000 }, NULL);	/* until all are there */
	return pid;
}

static void end_storm(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
}

/* ---- the benchmark ---- */

struct place {
	char dir[64];
	struct kvmm_pool *pool;
	struct kvmm_control *control;
};

static int open_place(struct place *place)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_control_attr how = KVMM_CONTROL_ATTR_INIT;
	struct rlimit files = { 4096, 4096 };
	int err, home = bench_cpu();

	strcpy(place->dir, "/tmp/kvmm-bench-XXXXXX");
	if (!mkdtemp(place->dir))
		return -errno;
	setrlimit(RLIMIT_NOFILE, &files);
	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	err = kvmm_pool_create(&attr, &place->pool);
	how.name = "bench";
	how.dir = place->dir;
	how.flags = KVMM_CONTROL_THREAD;
	how.max_clients = 1024;
	/* Its thread is where this one is not. */
	bench_pin(bench_other_cpu());
	if (!err)
		err = kvmm_control_open(&how, &place->control);
	bench_pin(home);
	return err ? err : kvmm_control_add_pool(place->control, "kv", place->pool);
}

static void close_place(struct place *place)
{
	kvmm_control_close(place->control);
	kvmm_pool_destroy(place->pool);
	rmdir(place->dir);
}

static void measure(struct place *place)
{
	memset(histogram, 0, sizeof(histogram));
	for (u32 i = 0; i < NR_ROUNDS; i++) {
		pid_t pid;

		sample(place->pool, 0, NR_SAMPLES / NR_ROUNDS);
		pid = begin_storm(kvmm_control_path(place->control));
		sample(place->pool, 1, NR_SAMPLES / NR_ROUNDS);
		end_storm(pid);
	}
}

static const char *const calls[2] = { "range", "single" };

static void add_run(struct series *(*p99)[2], struct series *requests, struct place *place)
{
	struct kvmm_control_stat stat = { .size = sizeof(stat) };
	u64 before;

	kvmm_control_stat(place->control, &stat);
	before = stat.requests;
	measure(place);
	kvmm_control_stat(place->control, &stat);
	series_add(requests, (double)(stat.requests - before));
	for (u32 call = 0; call < 2; call++) {
		for (u32 when = 0; when < 2; when++)
			series_add(p99[call][when], percentile(histogram[call][when], 0.99));
		series_against(p99[call][1], "quiet", p99[call][0]);
	}
}

static int run(struct bench *bench)
{
	struct series *p99[2][2], *requests;
	struct place place = { .pool = NULL };
	int err;

	if (bench_other_cpu() < 0) {
		bench_skip(bench, "a storm at the control socket", "there is one core only");
		return 0;
	}
	err = open_place(&place);
	requests = bench_series(bench, "requests", "n", "clients=%u", NR_CLIENTS);
	for (u32 call = 0; call < 2; call++)
		for (u32 when = 0; when < 2; when++)
			p99[call][when] = bench_series(bench, "p99_ns", "ns", "call=%s when=%s",
						       calls[call], when ? "storm" : "quiet");
	for (unsigned int n = 0; !err && n < bench->nr_runs; n++)
		add_run(p99, requests, &place);
	close_place(&place);
	if (!err)
		bench_report(bench);
	return err;
}

const struct bench_kind bench_control = {
	.name = "control",
	.what = "allocation during a storm of 1,000 clients at the control socket",
	.run = run,
};
