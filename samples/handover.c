// SPDX-License-Identifier: Apache-2.0
/*
 * A request leaves for the process that serves another pool; here both ends are in one process, one after
 * the other. The link breaks half-way, and the migration goes on over a new one.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEQ	42

static struct kvmm_pool *from, *to;
static struct kvmm_migrate_server *server;

static int make(const char *name, struct kvmm_pool **pool)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.name = name;
	attr.nr_blocks = 256;
	attr.block_bytes = 4096;
	return kvmm_pool_create(&attr, pool);
}

/* What an event loop of either process waits for. */
static void doze(int job)
{
	struct pollfd fd[2] = { { .fd = kvmm_migrate_serve_fd(server), .events = POLLIN },
				{ .fd = job, .events = POLLIN } };

	poll(fd, 2, 1);
}

static int descriptor(const struct kvmm_migrate *job)
{
	struct kvmm_migrate_status status;

	return kvmm_migrate_get_status(job, &status) ? -1 : status.fd;
}

static int go_on(struct kvmm_migrate *job, int nr_turns)
{
	int fd = descriptor(job);
	int err = -EINPROGRESS;

	while (err == -EINPROGRESS && nr_turns--) {
		doze(fd);
		kvmm_migrate_serve_tick(server);	/* the taker */
		err = kvmm_migrate_poll(job);		/* the giver */
	}
	return err;
}

static int send_away(const char *path)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_range_attr range = { .size = sizeof(range), .nr = 75, .seq = SEQ };
	struct kvmm_migrate *job = NULL;
	int err = kvmm_range_alloc_attr(from, &range, &attr.range);

	attr.src = from;
	attr.target = path;
	if (!err)
		err = kvmm_migrate_start(&attr, &job);
	if (!err)
		err = go_on(job, 4);
	if (err == -EINPROGRESS) {
		shutdown(descriptor(job), SHUT_RDWR);	/* the other machine's switch */
		printf("on the way: %s\n", kvmm_strerror(kvmm_migrate_poll(job)));
		err = kvmm_migrate_resume(job);
		if (!err)
			err = go_on(job, 10000);
	}
	kvmm_migrate_free(job);
	return err;
}

/* The taker's engine goes on with what has come. */
static int take_over(void)
{
	struct kvmm_migrate_serve_stat stat;
	struct kvmm_migrate_arrival come;
	int nr = 0;

	while (!kvmm_migrate_arrived(server, &come)) {
		printf("sequence %d has come: %u blocks\n", (int)come.seq, come.nr_blocks);
		nr += !kvmm_range_free(to, come.range);
	}
	if (!kvmm_migrate_serve_get_stat(server, &stat))
		printf("%d offered, %d committed\n", (int)stat.offers, (int)stat.commits);
	return nr == 1 ? 0 : -EPROTO;
}

int main(void)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	char dir[] = "/tmp/kvmm-handover-XXXXXX", path[64];
	int err = make("decode", &from);

	if (!err)
		err = make("spare", &to);
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/sock", dir);
	attr.pool = to;
	attr.path = path;
	if (!err)
		err = kvmm_migrate_serve(&attr, &server);
	if (!err)
		err = send_away(path);
	if (!err)
		err = take_over();
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_migrate_serve_end(server);
	kvmm_pool_destroy(from);
	kvmm_pool_destroy(to);
	rmdir(dir);
	return err != 0;
}
