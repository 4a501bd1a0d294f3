// SPDX-License-Identifier: Apache-2.0
/*
 * Prompts that lie on a server below the host tier (Redis) are loaded into the device: bytes a
 * second, against hiredis, which gets as many values of that length from the same server, all of
 * them asked for before the first is read. Either way the bytes are in memory of the process then;
 * kvmm's have been checked against their checksums and copied to their blocks, too.
 *
 * A redis-server is started for it, unless KVMM_BENCH_SERVER says where one is (ADDRESS:PORT).
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pools.h"

#define PROMPT		64u		/* blocks */
#define NR_PROMPTS	8u
#define NR_BLOCKS	(PROMPT * NR_PROMPTS)
#define HEAD		128u		/* bytes in front of a value */
#define PATIENCE_NS	20000000000ull

/* hiredis, from its documentation: a context and replies are its own, and are passed on. */
static struct hiredis {
	void *(*connect)(const char *ip, int port);
	void (*free)(void *context);
	int (*append)(void *context, const char *format, ...);
	int (*get_reply)(void *context, void **reply);
	void (*free_reply)(void *reply);
} hiredis;

struct job {
	char address[64];
	u32 block_bytes;
	u64 model;
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;
	kvmm_key_t *keys;
	kvmm_ref_t *refs;
};

enum { CLIENT, LOAD };

static const struct metric metrics[] = {
	[CLIENT] = { "hiredis", "GB/s", ALONE }, [LOAD] = { "load", "GB/s", "hiredis", CLIENT },
};

/* ---- hiredis ---- */

static bool find_hiredis(void)
{
	void *lib = dlopen("libhiredis.so.0.14", RTLD_NOW | RTLD_LOCAL);

	lib = lib ? lib : dlopen("libhiredis.so", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return false;
	hiredis.connect = dlsym(lib, "redisConnect");
	hiredis.free = dlsym(lib, "redisFree");
	hiredis.append = dlsym(lib, "redisAppendCommand");
	hiredis.get_reply = dlsym(lib, "redisGetReply");
	hiredis.free_reply = dlsym(lib, "freeReplyObject");
	return hiredis.connect && hiredis.free && hiredis.append && hiredis.get_reply &&
	       hiredis.free_reply;
}

static int read_replies(void *context, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		void *reply;

		if (hiredis.get_reply(context, &reply))
			return -EIO;
		hiredis.free_reply(reply);
	}
	return 0;
}

static int get_plainly(struct job *job, void *context, struct series *series)
{
	size_t bytes = job->block_bytes + HEAD;
	char *value = must_alloc(bytes);
	double sum = 0;
	int err = 0;

	for (u32 prompt = 0; !err && prompt < NR_PROMPTS; prompt++) {
		u64 begin;

		for (u32 i = 0; i < PROMPT; i++) {
			memset(value, (int)(prompt + i), bytes);
			hiredis.append(context, "SET plain:%u %b", i, value, bytes);
		}
		err = read_replies(context, PROMPT);
		begin = now_ns();
		for (u32 i = 0; i < PROMPT; i++)
			hiredis.append(context, "GET plain:%u", i);
		err = err ? err : read_replies(context, PROMPT);
		sum += (double)PROMPT * job->block_bytes / (now_ns() - begin);
	}
	series_add(&series[CLIENT], sum / NR_PROMPTS);
	free(value);
	return err;
}

/* ---- kvmm ---- */

static int open_both(struct job *job)
{
	struct kvmm_tier_remote_attr remote = KVMM_TIER_REMOTE_ATTR_INIT;
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	char model[32];
	int err;

	snprintf(model, sizeof(model), "bench-%llx", (unsigned long long)job->model);
	remote.address = job->address;
	remote.model = model;
	remote.deadline_ns = 5000000000ull;
	host.remote = &remote;
	attr.nr_blocks = host.capacity_blocks = NR_BLOCKS;
	attr.block_bytes = host.block_bytes = job->block_bytes;
	err = kvmm_tier_host_create(&host, &job->tier);
	while (!err && kvmm_tier_tick(job->tier) == 1)
		;
	if (err)
		return err;
	config.write = KVMM_TIER_EXPLICIT;
	config.step_blocks = 0;
	client.config = &config;
	client.layout_id = 1;
	client.flags = KVMM_TIER_COMPLETE;
	client.max_up = client.max_down = NR_BLOCKS;
	attr.policy = "lru";
	attr.host = job->tier;
	attr.host_attr = &client;
	return kvmm_pool_create(&attr, &job->pool);
}

static void close_both(struct job *job)
{
	kvmm_pool_destroy(job->pool);
	kvmm_tier_destroy(job->tier);
	job->pool = NULL;
	job->tier = NULL;
}

static struct kvmm_prefix prompt_of(const struct job *job, u32 prompt)
{
	return (struct kvmm_prefix){ job->keys + prompt * PROMPT, PROMPT, 0, NULL, { 0, 0, 0 } };
}

static int store(struct job *job)
{
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .refs = job->refs,
					       .nr = PROMPT };
	u64 begin = now_ns();
	kvmm_mut_t muts[PROMPT];
	struct kvmm_tier_stat stat;
	int err = 0;

	for (u32 i = 0; !err && i < NR_PROMPTS; i++) {
		struct kvmm_prefix prefix = prompt_of(job, i);

		err = kvmm_alloc(job->pool, PROMPT, muts);
		err = err ? err : kvmm_prefix_register(job->pool, &prefix, muts, job->refs);
		err = err ? err : kvmm_put_many(job->pool, job->refs, PROMPT);
		err = err ? err : kvmm_tier_offload(job->pool, &down, NULL);
	}
	while (!err) {
		kvmm_tier_poll(job->pool);
		kvmm_tier_tick(job->tier);
		err = kvmm_tier_get_stat(job->tier, &stat, sizeof(stat));
		if (!err && stat.remote_stored == NR_BLOCKS)
			break;
		if (!err && now_ns() - begin > PATIENCE_NS)
			err = -ETIMEDOUT;
	}
	return err;
}

/* A look-up is answered at once, and what it asked the server for is known a poll or two later. */
static int ask(struct job *job, const struct kvmm_prefix *prefix)
{
	u64 begin = now_ns();
	u8 answer[PROMPT];
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = prefix,
					      .refs = job->refs, .answers = answer };

	do {
		int ret = kvmm_tier_match(job->pool, &match);

		if (ret < 0)
			return ret;
		kvmm_tier_poll(job->pool);
	} while (memchr(answer, KVMM_TIER_RETRY, PROMPT) && now_ns() - begin < PATIENCE_NS);
	return 0;
}

static int load(struct job *job, const struct kvmm_prefix *prefix)
{
	struct kvmm_tier_load_args up = { .size = sizeof(up), .prefix = prefix };
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = PROMPT,
					   .refs = job->refs };
	kvmm_tier_op_t op;
	int err = kvmm_tier_load(job->pool, &up, &op);

	if (err)
		return err;
	do {
		kvmm_tier_poll(job->pool);
		err = kvmm_tier_get_result(job->pool, op, &result);
	} while (err == -EAGAIN);
	return err;
}

static int load_all(struct job *job, struct series *series)
{
	double sum = 0;

	for (u32 i = 0; i < NR_PROMPTS; i++) {
		struct kvmm_prefix prefix = prompt_of(job, i);
		int err = ask(job, &prefix);
		u64 begin = now_ns();

		err = err ? err : load(job, &prefix);
		if (err)
			return err;
		sum += (double)PROMPT * job->block_bytes / (now_ns() - begin);
	}
	series_add(&series[LOAD], sum / NR_PROMPTS);
	return 0;
}

static int turn(struct bench *bench, void *arg)
{
	struct job *job = arg;
	char ip[sizeof(job->address)];
	char *colon;
	void *context;
	int err;

	colon = strrchr(strcpy(ip, job->address), ':');
	*colon = '\0';
	context = hiredis.connect(ip, atoi(colon + 1));
	job->model = now_ns();
	job->keys = must_alloc(NR_BLOCKS * sizeof(*job->keys));
	job->refs = must_alloc(PROMPT * sizeof(*job->refs));
	random_keys(job->keys, NR_BLOCKS, &bench->seed);
	err = open_both(job);
	err = err ? err : store(job);
	close_both(job);
	err = err ? err : open_both(job);
	err = err ? err : context ? get_plainly(job, context, bench->series) : -ECONNREFUSED;
	err = err ? err : load_all(job, bench->series);
	close_both(job);
	free(job->keys);
	free(job->refs);
	if (context)
		hiredis.free(context);
	return err;
}

/* ---- the server ---- */

static bool is_there(u16 port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(port),
				    .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct timeval second = { .tv_sec = 1 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char line[8] = "";
	bool is = !connect(fd, (struct sockaddr *)&addr, sizeof(addr));

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	is = is && write(fd, "PING\r\n", 6) == 6 && read(fd, line, sizeof(line) - 1) > 0;
	close(fd);
	return is && line[0] == '+';
}

/* Without a file, on a port of its own, as long as this process; 0: there is none. */
static pid_t start_server(u16 port)
{
	pid_t pid;
	char text[8];

	snprintf(text, sizeof(text), "%u", port);
	pid = fork();
	if (!pid) {
		execlp("redis-server", "redis-server", "--port", text, "--bind", "127.0.0.1",
		       "--save", "", "--appendonly", "no", "--logfile", "/dev/null", NULL);
		_exit(127);
	}
	for (u32 i = 0; pid > 0 && i < 500; i++) {
		usleep(10000);
		if (waitpid(pid, NULL, WNOHANG))
			return 0;
		if (is_there(port))
			return pid;
	}
	return max(pid, 0);
}

int bench_server(struct bench *bench)
{
	static const u32 bytes[] = { 64 << 10, 1 << 20 };
	const char *where = getenv("KVMM_BENCH_SERVER");
	u16 port = (u16)(20000 + getpid() % 20000);
	struct job job = { .block_bytes = 0 };
	pid_t pid = 0;
	int err = 0;

	if (!find_hiredis()) {
		bench_skip(bench, "server", "libhiredis is not there");
		return 0;
	}
	if (where && (strlen(where) >= sizeof(job.address) || !strchr(where, ':')))
		return -EINVAL;
	if (!where) {
		pid = start_server(port);
		if (!pid) {
			bench_skip(bench, "server", "redis-server is not there");
			return 0;
		}
		snprintf(job.address, sizeof(job.address), "127.0.0.1:%u", port);
	} else {
		strcpy(job.address, where);
	}
	for (size_t i = 0; !err && i < ARRAY_SIZE(bytes); i++) {
		job.block_bytes = bytes[i];
		bench_set(bench, SET(metrics), "block=%uKiB blocks=%u", bytes[i] >> 10, PROMPT);
		err = bench_turns(bench, turn, &job);
	}
	if (pid) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return err;
}
