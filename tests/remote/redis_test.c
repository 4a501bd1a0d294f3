// SPDX-License-Identifier: Apache-2.0
/*
 * The redis-server that this machine has: blocks outlive the process that stored them, and the
 * server; one that is killed or stopped at any moment costs misses, and no wrong byte.
 *
 * KVMM_REDIS_KILLS says how often it is killed.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kv/env.h>

#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/tier/util.h"

#define BYTES		65536u
#define NR_BLOCKS	16u
#define NR_UNITS	8u
#define MS		1000000ull
#define ROUNDS		2000u	/* of a millisecond and more each: longer than any deadline here */

static char folder[64];
static u16 port;
static char port_text[8], address[32], model[32];
static struct kvmm_tier_remote_attr attr;
static struct kvmm_pool *pool;
static struct kvmm_tier *tier;
static pid_t server;
static u64 seed = 1;

static void nap(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* A port that is free, for the moment at least. */
static u16 free_port(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t bytes = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&addr, bytes), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&addr, &bytes), 0);
	close(fd);
	return ntohs(addr.sin_port);
}

/* It has read its file, and answers. */
static bool is_there(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(port),
				    .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct timeval second = { .tv_sec = 1 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char line[8] = "";

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	if (!connect(fd, (struct sockaddr *)&addr, sizeof(addr)) &&
	    write(fd, "PING\r\n", 6) == 6 && read(fd, line, sizeof(line) - 1) < 0)
		line[0] = '\0';
	close(fd);
	return line[0] == '+';
}

static void take_port(void)
{
	port = free_port();
	snprintf(port_text, sizeof(port_text), "%u", port);
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
}

/* It goes with the test, however that ends. */
static void fork_server(void)
{
	pid_t parent = getpid();

	server = fork();
	if (server)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	execlp("redis-server", "redis-server", "--port", port_text, "--bind", "127.0.0.1",
	       "--dir", folder, "--save", "", "--appendonly", "yes", "--appendfsync",
	       "always", "--logfile", "/dev/null", "--daemonize", "no", NULL);
	_exit(127);
}

static bool has_ended(void)
{
	return waitpid(server, NULL, WNOHANG) == server;
}

/* It ends if its port was taken meanwhile, and whatever answers there is another one: once more. */
static void start_server(void)
{
	u64 begin_ns = kv_clock_ns();
	bool is_up;

	fork_server();
	do {
		nap(10);
		is_up = is_there();
		if (has_ended()) {
			take_port();
			fork_server();
			is_up = false;
		}
		cr_assert_lt(kv_ns_since(begin_ns), 30000 * MS);
	} while (!is_up);
}

static void stop_server(int signal)
{
	if (!server)
		return;
	kill(server, signal);
	waitpid(server, NULL, 0);
	server = 0;
}

static void begin(void)
{
	if (system("command -v redis-server >/dev/null")) {
		puts("SKIPPED: no redis-server here (Debian: redis-server)");
		cr_skip_test("no redis-server here");
	}
	strcpy(folder, "/tmp/kvmm-redis-XXXXXX");
	cr_assert(mkdtemp(folder));
	attr = (struct kvmm_tier_remote_attr)KVMM_TIER_REMOTE_ATTR_INIT;
	attr.address = address;
	attr.model = model;
	attr.deadline_ns = 500 * MS;
	snprintf(model, sizeof(model), "toy-%d", (int)getpid());
	take_port();
	start_server();
}

static void end(void)
{
	char command[96];

	stop_server(SIGKILL);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(redis, .init = begin, .fini = end, .timeout = 240);

static void make_chain(void)
{
	struct both both = both_of(NR_BLOCKS, NR_UNITS);

	both.attr.block_bytes = both.host.block_bytes = BYTES;
	both.client.layout_id = 1;
	both.host.remote = &attr;
	both_make(&both);
	pool = both.pool;
	tier = both.tier;
}

static void settle(u32 ms)
{
	for (u32 i = 0; i < ms; i++) {
		kvmm_tier_poll(pool);
		kvmm_tier_tick(tier);
		nap(1);
	}
}

static struct kvmm_tier_stat stat_now(void)
{
	return tier_of(tier);
}

static u64 nr_tried(void)
{
	return stat_now().remote_stored + stat_now().remote_dropped;
}

static void store(u32 nr)
{
	for (u32 key = 1; key <= nr; key += 4) {
		cache_blocks(pool, key, 4);
		send_down(pool, key, 4);
		for (u32 i = 0; i < ROUNDS && nr_tried() < key + 3; i++)
			settle(1);
		kvmm_reset_inactive(pool);
	}
}

/* The answers once the server was asked. */
static const char *find(u32 first, u32 nr)
{
	const char *line = answers(pool, first, nr);

	for (u32 i = 0; i < ROUNDS && strchr(line, 't'); i++) {
		settle(1);
		line = answers(pool, first, nr);
	}
	return line;
}

/* How many of them were to be had; their content is compared. */
static u32 load(u32 nr)
{
	u32 nr_loaded = 0;

	for (u32 key = 1; key <= nr; key++) {
		find(key, 1);
		nr_loaded += !load_keys(pool, key, 1);
		kvmm_reset_inactive(pool);
	}
	return nr_loaded;
}

static void begin_again(void)
{
	end_both(pool, tier);
	make_chain();
}

Test(redis, blocks_outlive_the_process_and_the_server_and_deletions_do_too)
{
	make_chain();
	store(16);
	cr_expect_eq(stat_now().remote_stored, 16);
	begin_again();
	cr_expect_eq(load(16), 16);
	cr_expect_eq(stat_now().remote_got, 16);
	cr_expect_geq(kvmm_tier_forget(pool, prefix_of(1, 4)), 0);
	stop_server(SIGKILL);
	start_server();
	begin_again();
	cr_expect_eq(load(16), 12);
	cr_expect_eq(stat_now().remote_missed, 0, "the others are not even loaded");
	end_both(pool, tier);
}

/* Else each would go after a minute. */
static void expect_keys_to_stay(void)
{
	char command[160];

	snprintf(command, sizeof(command), "for k in $(redis-cli -p %s --scan); do "
		 "[ $(redis-cli -p %s ttl $k) = -1 ] || exit 1; done", port_text, port_text);
	cr_expect_eq(system(command), 0);
}

Test(redis, a_server_that_is_full_is_read_and_deleted_from_and_fenced)
{
	char command[128];

	make_chain();
	store(8);
	expect_keys_to_stay();
	snprintf(command, sizeof(command), "redis-cli -p %s config set maxmemory 1 >/dev/null",
		 port_text);
	cr_assert_eq(system(command), 0);
	begin_again();
	cr_expect_eq(load(8), 8);
	cr_expect_eq(kvmm_tier_forget(pool, prefix_of(1, 4)), 4);
	begin_again();
	cr_expect_eq(load(8), 4);
	cr_expect_eq(kvmm_reset_cache(pool), 0);
	cr_expect_eq(load(8), 0);
	cr_expect_eq(stat_now().remote_fences, 1);
	store(4);
	cr_expect_eq(stat_now().remote_stored, 0);
	end_both(pool, tier);
}

/* The server does it when it goes on, before or after it has deleted the name. */
Test(redis, a_store_left_at_a_stopped_server_is_void_once_its_name_is_deleted)
{
	make_chain();
	find(1, 4);
	kill(server, SIGSTOP);
	cache_blocks(pool, 1, 4);
	send_down(pool, 1, 4);
	settle(2);
	begin_again();
	cr_expect_eq(kvmm_tier_forget(pool, prefix_of(1, 4)), -EIO);
	kill(server, SIGCONT);
	for (u32 i = 0; i < ROUNDS && kvmm_tier_forget(pool, prefix_of(1, 4)); i++)
		settle(1);
	begin_again();
	cr_expect_eq(load(4), 0);
	end_both(pool, tier);
}

Test(redis, blocks_go_after_their_time_to_live)
{
	attr.ttl_s = 5;
	make_chain();
	store(4);
	begin_again();
	cr_expect_eq(load(4), 4);
	for (u32 i = 0; i < 10; i++)
		nap(600);
	begin_again();
	cr_expect_eq(load(4), 0);
	end_both(pool, tier);
}

Test(redis, a_server_that_is_stopped_costs_no_more_than_the_deadline)
{
	kvmm_ref_t refs[4];
	kvmm_tier_op_t op;
	u64 begin_ns;

	make_chain();
	store(8);
	begin_again();
	cr_assert_str_eq(find(1, 4), "2222");
	kill(server, SIGSTOP);
	begin_ns = kv_clock_ns();
	op = begin_load(pool, 1, 4);
	while (kvmm_tier_poll(pool) > 0)
		nap(1);
	cr_expect_lt(kv_ns_since(begin_ns), 5000 * MS);
	cr_expect_geq(kv_ns_since(begin_ns), 450 * MS);
	cr_expect_lt(result_of(pool, op, 4, refs), 0);
	begin_ns = kv_clock_ns();
	cr_expect_eq(kvmm_tier_forget(pool, prefix_of(1, 1)), -EIO);
	cr_expect_lt(kv_ns_since(begin_ns), 5000 * MS);
	kill(server, SIGCONT);
	for (u32 i = 0; i < ROUNDS && kvmm_tier_forget(pool, prefix_of(1, 1)); i++)
		settle(1);
	cr_expect_eq(kvmm_tier_forget(pool, prefix_of(1, 1)), 0);
	end_both(pool, tier);
}

Test(redis, a_server_that_is_killed_during_loads_gives_no_wrong_byte)
{
	u32 nr_kills = (u32)test_length("KVMM_REDIS_KILLS", 80), nr_loaded = 0, nr_failed = 0;

	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	make_chain();
	store(16);
	for (u32 i = 0; i < nr_kills; i++) {
		kvmm_ref_t refs[8];
		kvmm_tier_op_t op;
		u32 first = 1 + lcg_of(&seed, 9);
		u64 until_ns;

		begin_again();
		cr_assert_str_eq(find(first, 8), "22222222");
		op = begin_load(pool, first, 8);
		kvmm_tier_poll(pool);
		until_ns = kv_clock_ns() + lcg_of(&seed, 4000) * 1000;
		while (kv_clock_ns() < until_ns)
			kvmm_tier_poll(pool);
		stop_server(SIGKILL);
		while (kvmm_tier_poll(pool) > 0)
			nap(1);
		if (result_of(pool, op, 8, refs)) {
			nr_failed++;
		} else {
			nr_loaded++;
			for (u32 k = 0; k < 8; k++)
				cr_expect(has_content(pool, refs[k], first + k));
			cr_expect_eq(kvmm_put_many(pool, refs, 8), 0);
		}
		cr_expect_eq(stat_now().remote_wrong, 0);
		cr_expect_eq(tier_of(tier).writing, 0);
		start_server();
	}
	fprintf(stderr, "%u loads were complete, %u were not\n", nr_loaded, nr_failed);
	begin_again();
	cr_expect_eq(load(16), 16);
	end_both(pool, tier);
}
