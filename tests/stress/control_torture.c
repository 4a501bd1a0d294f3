// SPDX-License-Identifier: Apache-2.0
/*
 * Threads allocate, cache and free; clients ask a control socket for everything there is, steer, send
 * rubbish, and go in the middle of answers; pools come and go at the socket. Own main(), exit code 0 if
 * all is well.
 *
 * usage: control_torture [SECONDS [SEED]]
 */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/control.h"
#include "tests/support/torture.h"

#define NR_BLOCKS	256u
#define NR_WRITERS	2u
#define NR_CLIENTS	3u

enum { TURNS, VISITS, TIMES_GONE, NR_COUNTS };

static struct kvmm_pool *pool[2];
static struct kvmm_control *control;

/* ---- who allocates ---- */

static void cache_some(struct kvmm_pool *one)
{
	kvmm_key_t key[4] = { 0 };
	struct kvmm_prefix prefix = { .keys = key, .nr = 4 };
	kvmm_mut_t mut[4];
	kvmm_ref_t ref[4];
	u32 name = any(64);

	for (u32 i = 0; i < 4; i++)
		memcpy(key[i].byte, &(u32[]){ name, i + 1 }, 8);
	if (kvmm_alloc(one, 4, mut))
		return;
	if (kvmm_prefix_register(one, &prefix, mut, ref))
		kvmm_free(one, mut, 4);
	else
		kvmm_put_many(one, ref, 4);
}

static void write_pools(void)
{
	struct kvmm_pool *one = pool[any(2)];
	kvmm_range_t range;
	kvmm_mut_t mut;

	if (any(2))
		cache_some(one);
	if (!kvmm_alloc(one, 1, &mut))
		expect(!kvmm_free(one, &mut, 1));
	if (!kvmm_range_alloc(one, 1 + any(16), 0, &range))
		expect(!kvmm_range_free(one, range));
	done[TURNS]++;
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

static void skip(int fd, u32 nr)
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

static void ask(int fd)
{
	const struct kv_command_set *set = kv_command_sets[any(KV_NR_COMMAND_SETS)];
	unsigned int err, bytes = 0;
	char line[256];
	u32 nr = 0;

	while (set->commands[nr].name)
		nr++;
	nr = snprintf(line, sizeof(line), "%s %s\n", set->commands[any(nr)].name,
		      args[any(ARRAY_SIZE(args))]);
	if (send(fd, line, nr, MSG_NOSIGNAL) != nr || read_line(fd, line, sizeof(line)) < 0) {
		expect(!"an answer");
		return;
	}
	expect(sscanf(line, "ok %u", &bytes) == 1 || sscanf(line, "err %u %u", &err, &bytes) == 2);
	skip(fd, bytes);
}

static void visit(void)
{
	int fd = come();
	char line[128];

	if (fd < 0)
		return;
	expect(read_line(fd, line, sizeof(line)) > 0);
	for (u32 nr = any(40); nr && !READ_ONCE(stop); nr--)
		ask(fd);
	if (any(2))
		send(fd, "help\nstat\nsta", 13, MSG_NOSIGNAL);
	close(fd);
	done[VISITS]++;
}

/* ---- the engine ---- */

static void come_and_go(void)
{
	struct kvmm_control_stat stat = { .size = sizeof(stat) };

	sleep_ns(1000000 + any(3000000));
	expect(!kvmm_control_remove_pool(control, pool[1]));
	sleep_ns(100000);
	expect(!kvmm_control_add_pool(control, "beta", pool[1]));
	expect(!kvmm_control_get_stat(control, &stat));
	done[TIMES_GONE]++;
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

int main(int argc, char **argv)
{
	static const char *const what[NR_COUNTS] = { "turns of writers", "visits", "times gone" };
	u64 seconds = argc > 1 ? strtoull(argv[1], NULL, 0) : 2;
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (u64)time(NULL);
	char dir[] = "/tmp/kvmm-torture-XXXXXX";

	printf("control_torture: seed %llu\n", (unsigned long long)seed);
	if (!mkdtemp(dir) || open_all(dir))
		return 1;
	for (u32 i = 0; i < NR_WRITERS + NR_CLIENTS; i++)
		torture_start(i < NR_WRITERS ? write_pools : visit, 0, seed + i);
	torture_start(come_and_go, 0, seed + NR_WRITERS + NR_CLIENTS);
	torture_end(seconds * NS_PER_SEC);
	expect(!kvmm_validate(pool[0]) && !kvmm_validate(pool[1]));
	kvmm_control_close(control);
	kvmm_pool_destroy(pool[0]);
	kvmm_pool_destroy(pool[1]);
	rmdir(dir);
	return torture_report("control_torture", seed, NR_COUNTS, what);
}
