// SPDX-License-Identifier: Apache-2.0
/*
 * What a storm at the control socket does to a thread that allocates: a thousand clients in another
 * process, of which some ask without end, some never read what they are told, some send half a line
 * or bytes that are nothing, and some come and go. The bar: the 99th percentile of an allocation
 * changes by less than 10 %.
 *
 * Quiet and storm by turns, in the same run, on the same pool; the ratio counts.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pools.h"

#define NR_BLOCKS	16384u
#define NR_CLIENTS	1000u
#define NR_SAMPLES	400000u
#define NR_ROUNDS	3u		/* quiet and storm, by turns, in a run */
#define NR_LIVE		256u

/* ---- the thread that allocates ---- */

static struct histogram spent[2][2];	/* call, storm */

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
		t0 = ticks_begin();
		kvmm_range_alloc(pool, 1 + (random >> 8) % 32, 0, &live[at]);
		t1 = ticks_end();
		if (!kvmm_alloc(pool, 1, &mut))
			kvmm_free(pool, &mut, 1);
		t2 = ticks_end();
		histogram_add(&spent[0][storm], t1 - t0);
		histogram_add(&spent[1][storm], t2 - t1);
	}
	for (u32 i = 0; i < NR_LIVE; i++)
		if (live[i].index | live[i].gen)
			kvmm_range_free(pool, live[i]);
	memset(live, 0, sizeof(live));
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

/* ---- the benchmark ---- */

struct place {
	char dir[64];
	struct kvmm_pool *pool;
	struct kvmm_control *control;
};

static int open_place(struct place *place)
{
	struct kvmm_control_attr how = KVMM_CONTROL_ATTR_INIT;
	struct rlimit files = { 4096, 4096 };
	int err = make_folder(place->dir, sizeof(place->dir), "/tmp");

	if (err)
		return err;
	setrlimit(RLIMIT_NOFILE, &files);
	err = open_pool(&place->pool, NR_BLOCKS, "lru", 0);
	how.name = "bench";
	how.dir = place->dir;
	how.flags = KVMM_CONTROL_THREAD;
	how.max_clients = 1024;
	/* Its thread is where this one is not. */
	bench_pin(bench_other_cpu());
	err = err ? err : kvmm_control_open(&how, &place->control);
	bench_pin(bench_cpu());
	return err ? err : kvmm_control_add_pool(place->control, "kv", place->pool);
}

static int control_turn(struct bench *bench, void *arg)
{
	struct kvmm_control_stat stat = { .size = sizeof(stat) };
	struct place *place = arg;
	u64 before;

	kvmm_control_get_stat(place->control, &stat);
	before = stat.requests;
	memset(spent, 0, sizeof(spent));
	for (u32 i = 0; i < NR_ROUNDS; i++) {
		pid_t pid;

		sample(place->pool, 0, NR_SAMPLES / NR_ROUNDS);
		pid = begin_storm(kvmm_control_path(place->control));
		sample(place->pool, 1, NR_SAMPLES / NR_ROUNDS);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
	}
	kvmm_control_get_stat(place->control, &stat);
	series_add(&bench->series[0], (double)(stat.requests - before));
	for (u32 i = 0; i < 4; i++)
		series_add(&bench->series[1 + i], histogram_ns(&spent[i / 2][i % 2], 0.99));
	return 0;
}

int bench_control(struct bench *bench)
{
	static const struct metric requests[] = { { "requests", "n", ALONE } },
		p99[] = { { "p99_ns", "ns", ALONE } };
	static const char *const calls[] = { "range", "single" };
	struct place place = { .pool = NULL };
	int err;

	if (!bench_has_two_cores(bench, "a storm at the control socket"))
		return 0;
	bench_set(bench, SET(requests), "clients=%u", NR_CLIENTS);
	for (u32 i = 0; i < 4; i++)
		bench_set(bench, SET(p99), "call=%s when=%s", calls[i / 2],
			  i % 2 ? "storm" : "quiet");
	series_against(&bench->series[2], "quiet", &bench->series[1]);
	series_against(&bench->series[4], "quiet", &bench->series[3]);
	err = open_place(&place);
	err = err ? err : bench_turns(bench, control_turn, &place);
	kvmm_control_close(place.control);
	kvmm_pool_destroy(place.pool);
	rmdir(place.dir);
	return err;
}
