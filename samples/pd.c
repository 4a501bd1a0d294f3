// SPDX-License-Identifier: Apache-2.0
/*
 * Prefill here, decode there: one process computes prompts and says the first tokens, another one says
 * all others. A request in runs goes over as its range, and goes on where it was. One in pages goes
 * as the full blocks of its prompt, which the other process finds in its cache like any it had.
 *
 * usage: pd [ucx]	over a socket of this machine, or as between two machines
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toy/engine.h"

#define NR_GIVEN	8u			/* requests: all of one lane */
#define SECOND_NS	1000000000ull

static const struct options options = {
	.device = "host", .mode = STILL, .nr_requests = NR_GIVEN * NR_LANES, .nr_prompts = MAX_REQUESTS,
};

static char dir[] = "/tmp/kvmm-pd-XXXXXX";
static char address[64];	/* where decode serves its pool */
static char key_file[64];	/* "": none is asked for on one machine */

/* From prefill to decode, beside the blocks; the other way once: the port. */
struct message {
	uint32_t number;
	uint32_t said;
};

struct worker {
	struct engine engine;
	struct lane lane;
};

static int open_worker(struct worker *worker)
{
	const char *why;
	int err;

	worker->engine.opt = &options;
	err = device_open(options.device, &worker->engine.device, &why);
	if (!err)
		err = engine_open(&worker->engine);
	return err ? err : lane_open(&worker->engine, 0, &worker->lane);
}

static void close_worker(struct worker *worker)
{
	if (worker->lane.engine)
		lane_close(&worker->lane);
	if (!worker->engine.device)
		return;
	engine_close(&worker->engine);
	worker->engine.device->close(worker->engine.device);
}

/* ---- prefill ---- */

static int give(struct engine *engine, uint32_t number)
{
	struct request *request = &engine->request[number];
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;
	kvmm_key_t keys[MAX_BLOCKS];
	struct kvmm_prefix prefix = { .keys = keys };
	struct kvmm_migrate *job;
	int nr, err;

	attr.src = engine->pool;
	attr.target = address;
	attr.key_file = *key_file ? key_file : NULL;
	attr.what = KVMM_MIGRATE_SEQ;
	attr.seq = number + 1;
	if (request->is_paged) {
		seq.tokens = request->tokens;
		seq.nr_tokens = request->nr_prompt;
		nr = kvmm_key_chain(engine->keys, &seq, keys, MAX_BLOCKS);
		if (nr < 0)
			return nr;
		prefix.nr = nr;
		attr.what = KVMM_MIGRATE_KEYS;
		attr.prefix = &prefix;
		attr.flags = KVMM_MIGRATE_COPY;	/* others begin with the same */
	}
	err = kvmm_migrate_start(&attr, &job);
	if (err)
		return err;
	err = kvmm_migrate_wait(job, 10 * SECOND_NS);
	kvmm_migrate_free(job);
	return err;
}

/* Each leaves as soon as its first token is said. */
static int give_all(struct engine *engine, int fd)
{
	int err = 0;

	for (uint32_t i = 0; i < options.nr_requests && !err; i += NR_LANES) {
		struct request *request = &engine->request[i];
		struct message message = { i, request->tokens[request->nr_prompt] };

		if (!request->is_live || request->nr_tokens == request->nr_prompt)
			continue;
		err = give(engine, i);
		if (!err && send(fd, &message, sizeof(message), MSG_NOSIGNAL) != sizeof(message))
			err = -EPIPE;
		if (!err && request->is_paged)
			request_finish(engine, request);
		request->is_live = 0;
		request->nr_tokens = request->nr_wanted;
	}
	return err;
}

static int prefill(struct worker *worker, int fd)
{
	int left;

	do {
		left = lane_turn(&worker->lane);
		if (left > 0 && lane_collect(&worker->lane))
			left = -EIO;
		if (left > 0) {
			int err = give_all(&worker->engine, fd);

			left = err ? err : left;
		}
	} while (left > 0);
	return left;
}

/* ---- decode ---- */

static int take(struct engine *engine, const struct message *message)
{
	struct request *request = &engine->request[message->number];
	struct request asked;

	request_make(&asked, message->number);
	request->nr_wanted = asked.nr_wanted;
	if (request->is_paged)
		return 0;		/* it is admitted like any other */
	if (kvmm_range_find_seq(engine->pool, message->number + 1, &request->range, 1) != 1)
		return -ENOENT;
	request->nr_range = nr_blocks_of(request->nr_prompt);
	request->nr_written = request->nr_prompt;
	request->tokens[request->nr_tokens++] = message->said;
	request->is_live = 1;
	return 0;
}

/* Until all are there; an engine decodes meanwhile. */
static int take_all(struct engine *engine, struct kvmm_migrate_server *server, int fd)
{
	struct pollfd wait[2] = { { .fd = kvmm_migrate_serve_fd(server), .events = POLLIN },
				  { .fd = fd, .events = POLLIN } };
	int err = 0;

	for (uint32_t nr = 0; nr < NR_GIVEN && !err;) {
		struct message message;
		ssize_t bytes;

		poll(wait, 2, 1);
		kvmm_migrate_serve_tick(server);
		bytes = recv(fd, &message, sizeof(message), MSG_DONTWAIT);
		if (!bytes)
			return -EPIPE;		/* prefill has failed */
		if (bytes == sizeof(message)) {
			err = take(engine, &message);
			nr++;
		}
	}
	return err;
}

static int serve(struct engine *engine, int fd, struct kvmm_migrate_server **server)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_serve_stat stat;
	struct message port = { 0 };
	int err;

	attr.pool = engine->pool;
	attr.path = address;
	attr.key_file = *key_file ? key_file : NULL;
	err = kvmm_migrate_serve(&attr, server);
	if (!err)
		err = kvmm_migrate_serve_get_stat(*server, &stat);
	if (err)
		return err;
	port.number = stat.port;
	return send(fd, &port, sizeof(port), MSG_NOSIGNAL) == sizeof(port) ? 0 : -EPIPE;
}

/* One process says the same without kvmm. */
static int compare(const struct engine *engine)
{
	struct request *right = calloc(options.nr_requests, sizeof(*right));
	uint32_t nr_said = 0;
	int err = right ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < options.nr_requests && !err; i++)
		request_make(&right[i], i);
	if (!err)
		err = model_reference(right, options.nr_requests);
	for (uint32_t i = 0; i < options.nr_requests && !err; i += NR_LANES) {
		const struct request *request = &engine->request[i];

		if (memcmp(request->tokens, right[i].tokens, sizeof(right[i].tokens)))
			err = -EBADMSG;
		nr_said += request->nr_tokens - request->nr_prompt;
	}
	free(right);
	if (!err)
		printf("%u tokens, the same as of one process\n", nr_said);
	return err;
}

static int decode(struct worker *worker, int fd)
{
	struct kvmm_migrate_server *server = NULL;
	struct kvmm_migrate_serve_stat served;
	struct kvmm_pool_stat stat;
	int err, left = 1;

	/* None is wanted before it has come. */
	for (uint32_t i = 0; i < options.nr_requests; i++)
		worker->engine.request[i].nr_wanted = 0;
	err = serve(&worker->engine, fd, &server);
	if (!err)
		err = take_all(&worker->engine, server, fd);
	if (!err)
		err = kvmm_migrate_serve_get_stat(server, &served);
	while (!err && left > 0)
		left = lane_turn(&worker->lane);
	kvmm_migrate_serve_end(server);
	if (!err)
		err = left < 0 ? left : kvmm_pool_get_stat(worker->engine.pool, &stat);
	if (!err)
		printf("%u requests have come, with %u KiB; %u blocks of prompts were found\n",
		       (uint32_t)served.commits, (uint32_t)(served.bytes / 1024),
		       (uint32_t)stat.hit_blocks);
	return err ? err : compare(&worker->engine);
}

/* ---- two processes ---- */

static int work(const char *what, int (*run)(struct worker *worker, int fd), int fd)
{
	static struct worker worker;
	int err = open_worker(&worker);

	if (!err)
		err = run(&worker, fd);
	if (err)
		fprintf(stderr, "%s: %s%s%s\n", what, kvmm_strerror(err), *kvmm_why() ? ": " : "",
			kvmm_why());
	close_worker(&worker);
	fflush(stdout);
	return err != 0;
}

/* Before either of them: other machines get it from their operator. */
static int make_key(void)
{
	unsigned char key[32];
	FILE *file;

	snprintf(key_file, sizeof(key_file), "%s/key", dir);
	file = getentropy(key, sizeof(key)) ? NULL : fopen(key_file, "w");
	if (!file)
		return -errno;
	fchmod(fileno(file), 0600);
	for (size_t i = 0; i < sizeof(key); i++)
		fprintf(file, "%02x", key[i]);
	fputc('\n', file);
	return fclose(file) ? -errno : 0;
}

static int run_both(int is_ucx)
{
	int fd[2], status = 1, failed;
	struct message port;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd))
		return 1;
	child = fork();
	if (!child) {
		close(fd[0]);
		_exit(work("decode", decode, fd[1]));
	}
	close(fd[1]);
	failed = child < 0 || recv(fd[0], &port, sizeof(port), 0) != sizeof(port);
	if (!failed && is_ucx)
		snprintf(address, sizeof(address), "ucx://127.0.0.1:%u", port.number);
	if (!failed)
		failed = work("prefill", prefill, fd[0]);
	close(fd[0]);
	if (child > 0)
		waitpid(child, &status, 0);
	return failed || status;
}

int main(int argc, char **argv)
{
	int is_ucx = argc > 1 && !strcmp(argv[1], "ucx"), failed;

	if (argc > 1 + is_ucx) {
		fputs("usage: pd [ucx]\n", stderr);
		return 2;
	}
	if (!mkdtemp(dir))
		return 1;
	if (is_ucx)
		snprintf(address, sizeof(address), "ucx://127.0.0.1:0");
	else
		snprintf(address, sizeof(address), "%s/sock", dir);
	failed = (is_ucx && make_key()) || run_both(is_ucx);
	unlink(key_file);
	rmdir(dir);
	return failed;
}
