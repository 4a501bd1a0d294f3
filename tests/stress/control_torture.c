// SPDX-License-Identifier: Apache-2.0
/*
 * Threads allocate, cache and free; clients ask a control socket for everything there is, steer, send
 * rubbish, and go in the middle of answers; pools come and go at the socket. Own main(), exit code 0 if
 * all is well.
 *
 * usage: control_torture [SECONDS [SEED]]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <kv/mem.h>
#include <kv/rcu.h>

#include "ctl/control.h"

#define NR_BLOCKS	256u
#define NR_WRITERS	2u
#define NR_CLIENTS	3u
#define NS_PER_SEC	1000000000ull

struct worker {
	pthread_t thread;
	u64 random;
	u64 nr;			/* of what it has done */
	u64 nr_wrong;
};

static struct kvmm_pool *pool[2];
static struct kvmm_control *control;
static u32 stop;		/* atomic */

static u32 any(struct worker *worker, u32 below)
{
	worker->random = worker->random * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)((worker->random >> 33) % below);
}

#define expect(holds)								\
	do {									\
		if (!(holds) && !worker->nr_wrong++)				\
			fprintf(stderr, "control_torture: line %d: %s\n", __LINE__, #holds); \
	} while (0)

/* ---- who allocates ---- */

static void cache_some(struct worker *worker, struct kvmm_pool *one)
{
	kvmm_key_t key[4] = { 0 };
	struct kvmm_prefix prefix = { .keys = key, .nr = 4 };
	kvmm_mut_t mut[4];
	kvmm_ref_t ref[4];
	u32 name = any(worker, 64);

	for (u32 i = 0; i < 4; i++)
		memcpy(key[i].byte, &(u32[]){ name, i + 1 }, 8);
	if (kvmm_alloc(one, 4, mut))
		return;
	if (kvmm_prefix_register(one, &prefix, mut, ref))
		kvmm_free(one, mut, 4);
	else
		kvmm_put_many(one, ref, 4);
}

static void *write_pools(void *arg)
{
	struct worker *worker = arg;

	for (; !READ_ONCE(stop); worker->nr++) {
		struct kvmm_pool *one = pool[any(worker, 2)];
		kvmm_range_t range;
		kvmm_mut_t mut;

		if (any(worker, 2))
			cache_some(worker, one);
		if (!kvmm_alloc(one, 1, &mut))
			expect(!kvmm_free(one, &mut, 1));
		if (!kvmm_range_alloc(one, 1 + any(worker, 16), 0, &range))
			expect(!kvmm_range_free(one, range));
	}
	return NULL;
}

/* ---- clients ---- */

static int come(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = 300 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, kvmm_control_path(control));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* A line of an answer, byte by byte; -1: that was all. */
static int read_line(int fd, char *line, u32 room)
{
	u32 nr = 0;

	while (nr < room - 1 && recv(fd, line + nr, 1, 0) == 1)
		if (line[nr++] == '\n') {
			line[nr] = '\0';
			return nr;
		}
	return -1;
}

static void skip(struct worker *worker, int fd, u32 nr)
{
	char buf[4096];

	while (nr) {
		ssize_t got = recv(fd, buf, min(nr, (u32)sizeof(buf)), 0);

		expect(got > 0);
		if (got <= 0)
			return;
		nr -= got;
	}
}

static const char *const args[] = {
	"", "alpha", "beta", "alpha want=32 best", "alpha watermark_high 0", "beta 1",
	"alpha background_interval_ms 7", "beta want=8 drop between", "alpha 0 16",
};

static void ask(struct worker *worker, int fd)
{
	const struct kv_command_set *set = kv_command_sets[any(worker, kv_nr_command_sets)];
	unsigned int err, bytes = 0;
	char line[256];
	u32 nr = 0;

	while (set->commands[nr].name)
		nr++;
	nr = snprintf(line, sizeof(line), "%s %s\n", set->commands[any(worker, nr)].name,
		      args[any(worker, ARRAY_SIZE(args))]);
	if (send(fd, line, nr, MSG_NOSIGNAL) != nr || read_line(fd, line, sizeof(line)) < 0) {
		expect(!"an answer");
		return;
	}
	expect(sscanf(line, "ok %u", &bytes) == 1 || sscanf(line, "err %u %u", &err, &bytes) == 2);
	skip(worker, fd, bytes);
}

static void *visit(void *arg)
{
	struct worker *worker = arg;
	char line[128];

	for (; !READ_ONCE(stop); worker->nr++) {
		int fd = come();

		if (fd < 0)
			continue;
		expect(read_line(fd, line, sizeof(line)) > 0);
		for (u32 nr = any(worker, 40); nr && !READ_ONCE(stop); nr--)
			ask(worker, fd);
		if (any(worker, 2))
			send(fd, "help\nstat\nsta", 13, MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

/* ---- the engine ---- */

static void come_and_go(struct worker *worker)
{
	struct kvmm_control_stat stat = { .size = sizeof(stat) };

	while (!READ_ONCE(stop)) {
		nanosleep(&(struct timespec){ 0, 1000000 + any(worker, 3000000) }, NULL);
		expect(!kvmm_control_remove_pool(control, pool[1]));
		nanosleep(&(struct timespec){ 0, 100000 }, NULL);
		expect(!kvmm_control_add_pool(control, "beta", pool[1]));
		expect(!kvmm_control_get_stat(control, &stat));
		worker->nr++;
	}
}

static void *run_down(void *seconds)
{
	nanosleep(&(struct timespec){ *(u64 *)seconds, 0 }, NULL);
	WRITE_ONCE(stop, 1);
	return NULL;
}

static int open_all(const char *dir)
{
	struct kvmm_control_attr attr = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_pool_attr how = { .size = sizeof(how), .policy = "lru",
				      .nr_blocks = NR_BLOCKS };
	int err = 0;

	for (u32 i = 0; i < 2 && !err; i++)
		err = kvmm_pool_create(&how, &pool[i]);
	attr.name = "torture";
	attr.dir = dir;
	attr.flags = KVMM_CONTROL_THREAD;
	attr.max_rate = 1000000;
	attr.idle_ms = attr.output_ms = 600000;	/* of a machine that has other things to do */
	if (!err)
		err = kvmm_control_open(&attr, &control);
	if (!err)
		err = kvmm_control_add_pool(control, "alpha", pool[0]);
	return err ? err : kvmm_control_add_pool(control, "beta", pool[1]);
}

static u64 run_all(u64 seconds, u64 seed)
{
	struct worker worker[NR_WRITERS + NR_CLIENTS + 1] = { 0 };
	u32 nr = ARRAY_SIZE(worker) - 1;
	u64 nr_wrong = 0;
	pthread_t clock;

	for (u32 i = 0; i <= nr; i++)
		worker[i].random = seed + i;
	pthread_create(&clock, NULL, run_down, &seconds);
	for (u32 i = 0; i < nr; i++)
		pthread_create(&worker[i].thread, NULL, i < NR_WRITERS ? write_pools : visit,
			       &worker[i]);
	come_and_go(&worker[nr]);
	pthread_join(clock, NULL);
	for (u32 i = 0; i < nr; i++)
		pthread_join(worker[i].thread, NULL);
	for (u32 i = 0; i <= nr; i++)
		nr_wrong += worker[i].nr_wrong;
	printf("control_torture: %llu turns of writers, %llu visits, %llu times gone\n",
	       (unsigned long long)worker[0].nr, (unsigned long long)worker[NR_WRITERS].nr,
	       (unsigned long long)worker[nr].nr);
	return nr_wrong;
}

int main(int argc, char **argv)
{
	u64 seconds = argc > 1 ? strtoull(argv[1], NULL, 0) : 2;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (u64)time(NULL), nr_wrong;
	char dir[] = "/tmp/kvmm-torture-XXXXXX";

	printf("control_torture: seed %llu\n", (unsigned long long)seed);
	if (!mkdtemp(dir) || open_all(dir))
		return 1;
	nr_wrong = run_all(seconds, seed);
	nr_wrong += !!kvmm_validate(pool[0]) + !!kvmm_validate(pool[1]);
	kvmm_control_close(control);
	kvmm_pool_destroy(pool[0]);
	kvmm_pool_destroy(pool[1]);
	rmdir(dir);
	kv_rcu_barrier();
	return nr_wrong || kv_mem_bytes();
}
