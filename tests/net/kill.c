// SPDX-License-Identifier: Apache-2.0
/*
 * Two processes, one of which dies: at each call of the socket, and at each phase, on either side.
 *
 * Each process makes its own pools after it was forked. The one that is to die kills itself inside the
 * call (SIGKILL: nothing is cleaned up), so that the moment is known. The survivor then validates its
 * pool, looks whether the bytes that it has are right, and either gives the rest to a new taker, or
 * serves a new giver. In the end every byte is in exactly one place, or has died with its process.
 * One sequence has left the batch, another one decodes while it goes; and cached blocks go.
 *
 * Usage: kill [DEVICE [KEYFILE STEP]]; exit code 0: all went well; 77: there is no such way. With a key
 * they meet as if on two machines, by TLS and UCX (or KVMM_TEST_TRANSPORT), and die at each STEPth
 * call. KVMM_KILLS=N: a timer kills them instead, each N times, at random moments; KVMM_SEED.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kv/env.h>
#include <kv/sock.h>

#include "tests/net/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	80u
#define NR_KEYS		12u
#define RANGE_BLOCKS	14u
#define NR_SEQS		2u		/* SEQ, and SEQ + 1, which decodes */
#define SEQ		7u
#define DECODED_BLOCKS	3u
#define WINDOW_BYTES	(8 * NET_BLOCK_BYTES)
#define LIMIT_S		20		/* of one process */

/* What the processes tell the one that started them. */
struct board {
	u32 nr_calls;			/* of the socket's, by the one that may die */
	u32 giver_done;
	u32 taker_bad;
	u32 giver_bad;
	pid_t got_range[NR_SEQS];	/* the taker that the giver met last with the range, */
	pid_t got_keys;			/* and with the keys */
	u32 nr_at_taker[NR_SEQS];	/* ranges */
	u32 nr_at_giver;		/* of all */
	u32 keys_at_taker;
	u32 keys_at_giver;
	u32 stop;
	pid_t taker;			/* that serves, or is about to */
};

static struct board *board;
static const char *device = "host";
static char folder[64], path[80];
static const char *key_file;		/* or NULL */
static u32 die_at, die_count, step = 1;
static u32 nr_kills;			/* at random moments: die_at is in microseconds; or 0 */

#define CHECK(who, cond)									\
	({											\
		if (!(cond)) {									\
			fprintf(stderr, "%s, death at %u: %s (%d)\n", #who, die_at, #cond, __LINE__); \
			__atomic_store_n(&board->who##_bad, 1, __ATOMIC_SEQ_CST);		\
		}										\
	})

/* ---- dying ---- */

static struct kv_sock_ops deadly;

static void may_die(void)
{
	die_count++;
	__atomic_store_n(&board->nr_calls, die_count, __ATOMIC_SEQ_CST);
	if (!nr_kills && die_at && die_count == die_at)
		kill(getpid(), SIGKILL);
}

/* Before what is sent has left, and after. */
static s64 deadly_send(void *ctx, int fd, const void *buf, size_t bytes, const int *fds, u32 nr_fds)
{
	s64 ret;

	may_die();
	ret = kv_sock_system.send(NULL, fd, buf, bytes, fds, nr_fds);
	may_die();
	return ret;
}

/* Only those calls that bring something are moments of their own. */
static s64 deadly_recv(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr_fds)
{
	s64 ret = kv_sock_system.recv(NULL, fd, buf, bytes, fds, nr_fds);

	if (ret > 0)
		may_die();
	return ret;
}

static void set_timer(u32 us)
{
	struct sigevent how = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	const struct itimerspec when = { .it_value = { us / 1000000, us % 1000000 * 1000 } };
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &how, &timer) || timer_settime(timer, 0, &when, NULL))
		_exit(2);
}

static void be_mortal(u32 at)
{
	die_at = at;
	if (nr_kills)
		set_timer(at);
	deadly = kv_sock_system;
	deadly.send = deadly_send;
	deadly.recv = deadly_recv;
	kv_sock_set(&deadly);
}

/* ---- the taker ---- */

static void nap(void)
{
	nanosleep(&(struct timespec){ 0, 200000 }, NULL);
}

static void count_at_taker(struct kvmm_pool *pool)
{
	int keys = net_cached(pool, 0, NR_KEYS);

	CHECK(taker, !kvmm_validate(pool));
	CHECK(taker, keys >= 0);
	for (u32 s = 0; s < NR_SEQS; s++) {
		kvmm_range_t range[4];
		int nr = kvmm_range_find_seq(pool, SEQ + s, range, 4);

		CHECK(taker, nr >= 0);
		for (int i = 0; i < nr && i < 4; i++)
			CHECK(taker, net_range_is(pool, range[i], SEQ + s,
						  s ? DECODED_BLOCKS : RANGE_BLOCKS));
		board->nr_at_taker[s] = nr;
	}
	board->keys_at_taker = keys;
}

static void run_taker(u32 die)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_server *server;
	struct kvmm_pool *pool;

	alarm(LIMIT_S);
	if (die)
		be_mortal(die);
	pool = net_pool(device, NR_BLOCKS);
	attr.pool = pool;
	attr.path = path;
	attr.key_file = key_file;
	attr.window_bytes = WINDOW_BYTES;
	attr.lease_ns = 1000000000;
	__atomic_store_n(&board->taker, getpid(), __ATOMIC_SEQ_CST);
	if (kvmm_migrate_serve(&attr, &server))
		_exit(2);
	while (!__atomic_load_n(&board->stop, __ATOMIC_SEQ_CST)) {
		if (!kvmm_migrate_serve_tick(server))
			nap();
	}
	for (u32 i = 0; i < 20; i++)
		kvmm_migrate_serve_tick(server);
	kvmm_migrate_serve_end(server);
	count_at_taker(pool);
	kvmm_pool_destroy(pool);
	_exit(0);
}

/* ---- the giver ---- */

static bool waits_for_taker(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED || err == -EAGAIN;
}

/* That listens at the other end; 0: the link is broken, as the job says when it is waited for. */
static pid_t taker_of(const struct kvmm_migrate *job)
{
	struct kvmm_migrate_status status;
	struct ucred taker = { 0 };
	socklen_t bytes = sizeof(taker);

	CHECK(giver, !kvmm_migrate_get_status(job, &status));
	if (key_file)			/* at an address there is one at a time */
		return __atomic_load_n(&board->taker, __ATOMIC_SEQ_CST);
	CHECK(giver, status.fd < 0 || !getsockopt(status.fd, SOL_SOCKET, SO_PEERCRED, &taker, &bytes));
	return taker.pid;
}

static u32 nr_decoded = 1;

/* A turn for each block, which is not sealed before it has all its bytes. */
static void decode(const struct kvmm_migrate_attr *attr, struct kvmm_migrate *job)
{
	if (nr_decoded == DECODED_BLOCKS) {
		net_decoded(attr->src, attr->range, SEQ + 1, nr_decoded);
		CHECK(giver, !kvmm_migrate_finish(job));
	} else {
		net_decode(attr->src, attr->range, SEQ + 1, ++nr_decoded);
	}
}

/* A link that was taken over may be made again as long as nothing can have been committed. */
static int carry_on(const struct kvmm_migrate_attr *attr, struct kvmm_migrate *job, pid_t *taker)
{
	struct kvmm_migrate_status status;
	int err = -EINPROGRESS;

	for (u32 i = 0; i < 20000 && (err = kvmm_migrate_poll(job)) == -EINPROGRESS; i++) {
		CHECK(giver, !kvmm_migrate_get_status(job, &status));
		if (status.phase < KVMM_MIGRATE_COMMIT)
			*taker = taker_of(job);
		if (attr->flags & KVMM_MIGRATE_PRECOPY && status.phase == KVMM_MIGRATE_WAIT)
			decode(attr, job);
		nap();
	}
	return err;
}

static void stood_still_for_a_while(const struct kvmm_migrate_status *status)
{
	u64 whole = 0;

	for (u32 i = 0; i < KVMM_NR_MIGRATE_PHASES; i++)
		whole += status->phase_ns[i];
	CHECK(giver, status->stop_ns && status->stop_ns < whole);
}

/* With the taker that serves there, as often as it takes: the last one. By the link of @last, which
 * becomes this one. */
static pid_t give(struct kvmm_pool *pool, const struct kvmm_migrate_attr *what,
		  struct kvmm_migrate **last)
{
	struct kvmm_migrate_attr attr = *what;
	struct kvmm_migrate_status status;
	struct kvmm_migrate *job = NULL;
	pid_t taker;
	int err;

	attr.src = pool;
	attr.target = path;
	attr.key_file = key_file;
	attr.after = *last;
	attr.flags |= KVMM_MIGRATE_KEEP_LINK;
	for (u32 i = 0; i < 20000 && waits_for_taker(err = kvmm_migrate_start(&attr, &job)); i++)
		nap();
	CHECK(giver, !err);
	if (!job)
		return 0;
	taker = taker_of(job);
	while ((err = carry_on(&attr, job, &taker)) == -ECONNRESET) {
		CHECK(giver, !kvmm_validate(pool));
		for (u32 i = 0; i < 20000 && waits_for_taker(err = kvmm_migrate_resume(job)); i++)
			nap();
		if (err)
			break;
		taker = taker_of(job);
	}
	kvmm_migrate_get_status(job, &status);
	if (err)
		fprintf(stderr, "the giver's job: %s, %s\n", strerror(-err),
			kvmm_migrate_phase_name(status.phase));
	CHECK(giver, !err);
	if (!err && attr.flags & KVMM_MIGRATE_PRECOPY)
		stood_still_for_a_while(&status);
	kvmm_migrate_free(*last);
	*last = job;
	return taker;
}

static void run_giver(u32 die)
{
	struct kvmm_migrate_attr range = KVMM_MIGRATE_ATTR_INIT, keys = KVMM_MIGRATE_ATTR_INIT;
	kvmm_ref_t refs[NR_KEYS];
	struct kvmm_migrate *job = NULL;
	struct kvmm_pool *pool;

	alarm(LIMIT_S);
	if (die)
		be_mortal(die);
	pool = net_pool(device, NR_BLOCKS);
	net_cache(pool, 0, NR_KEYS);
	range.range = net_range(pool, SEQ, RANGE_BLOCKS, 1);
	board->got_range[0] = give(pool, &range, &job);
	range.range = net_range(pool, SEQ + 1, nr_decoded, 1);
	range.flags = KVMM_MIGRATE_PRECOPY;
	board->got_range[1] = give(pool, &range, &job);
	net_match(pool, 0, NR_KEYS, refs);
	keys.what = KVMM_MIGRATE_REFS;
	keys.refs = refs;
	keys.nr_refs = NR_KEYS;
	board->got_keys = give(pool, &keys, &job);
	kvmm_migrate_free(job);
	kvmm_put_many(pool, refs, NR_KEYS);
	CHECK(giver, !kvmm_validate(pool));
	for (u32 s = 0; s < NR_SEQS; s++)
		board->nr_at_giver += kvmm_range_find_seq(pool, SEQ + s, NULL, 0);
	board->keys_at_giver = net_cached(pool, 0, NR_KEYS);
	kvmm_pool_destroy(pool);
	board->giver_done = 1;
	_exit(0);
}

/* ---- who starts them ---- */

static pid_t start(void (*run)(u32), u32 die)
{
	pid_t pid = fork();

	if (!pid)
		run(die);
	return pid;
}

/* Whether it was killed. */
static bool await(pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		board->giver_bad = 1;
	return WIFSIGNALED(status);
}

/* Whether it was killed before it could look at what it has. */
static bool stop_taker(pid_t taker)
{
	__atomic_store_n(&board->stop, 1, __ATOMIC_SEQ_CST);
	return await(taker);
}

static bool is_bad(u32 at, const char *who)
{
	bool bad = board->giver_bad || board->taker_bad || !board->giver_done || board->nr_at_giver ||
		   board->keys_at_giver;

	if (bad)
		fprintf(stderr, "death of the %s at %u: %u and %u are left\n", who, at,
			board->nr_at_giver, board->keys_at_giver);
	return bad;
}

static int misplaced(u32 at, const char *who)
{
	fprintf(stderr, "death of the %s at %u: %u, %u and %u\n", who, at, board->nr_at_taker[0],
		board->nr_at_taker[1], board->keys_at_taker);
	return -1;
}

/* The giver dies; another one with the same content comes. Whether it came to that. */
static int giver_dies(u32 at)
{
	pid_t taker, giver;
	bool died;

	memset(board, 0, sizeof(*board));
	taker = start(run_taker, 0);
	giver = start(run_giver, at);
	died = await(giver);
	if (died)
		await(start(run_giver, 0));
	stop_taker(taker);
	if (is_bad(at, "giver"))
		return -1;
	/* What had been committed before the death is there twice at most. */
	for (u32 s = 0; s < NR_SEQS; s++)
		if (board->nr_at_taker[s] < 1 || board->nr_at_taker[s] > 1 + died)
			return misplaced(at, "giver");
	return board->keys_at_taker == NR_KEYS ? died : misplaced(at, "giver");
}

static bool has_ended(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == pid;
}

/*
 * The taker dies, with what it has; another one comes, and gets what the giver still has: all that
 * it was giving when the link broke, and what came after that.
 */
static int taker_dies(u32 at)
{
	pid_t taker, giver;
	bool died, late;

	memset(board, 0, sizeof(*board));
	taker = start(run_taker, at);
	giver = start(run_giver, 0);
	do {
		nap();
		died = has_ended(taker);
	} while (!died && !board->giver_done);
	if (died)
		taker = start(run_taker, 0);
	await(giver);
	late = stop_taker(taker);	/* the giver had ended */
	if (is_bad(at, "taker"))
		return -1;
	for (u32 s = 0; s < NR_SEQS && !late; s++)
		if (board->nr_at_taker[s] != (board->got_range[s] == taker))
			return misplaced(at, "taker");
	if (!late && board->keys_at_taker != (board->got_keys == taker ? NR_KEYS : 0))
		return misplaced(at, "taker");
	return died || late;
}

/* The transport between two machines. */
static const char *way(void)
{
	const char *named = getenv("KVMM_TEST_TRANSPORT");

	return named ? named : "ucx";
}

static int each(int (*dies)(u32), const char *who)
{
	u32 at = 1;
	int ret;

	while ((ret = dies(at)) > 0)
		at += step;
	printf("%s%s%s: %u deaths of the %s\n", device, key_file ? ", " : "", key_file ? way() : "",
	       (at - 1) / step, who);
	fflush(stdout);
	return ret < 0 || at < 20;
}

/* Among the moments of a run in which none dies, which lasts as long as it does now. */
static int at_random(int (*dies)(u32), const char *who)
{
	u64 begin, seed = test_number("KVMM_SEED", getpid()), state = seed;
	u32 nr = 0, us = 0;
	int ret = 0;

	while (nr < nr_kills && ret >= 0) {
		if (nr % 20 == 0) {
			begin = kv_clock_ns();
			ret = dies(0);
			us = (kv_clock_ns() - begin) / 1000;
		}
		for (u32 i = 0; i < 20 && nr < nr_kills && ret >= 0; i++) {
			ret = dies(1 + any_of(&state, us));
			nr += ret > 0;
		}
	}
	printf("%s%s: %u deaths of the %s at random moments, KVMM_SEED=%llu\n", device,
	       key_file ? ", ucx" : "", nr, who, (unsigned long long)seed);
	fflush(stdout);
	return ret < 0;
}

/* Whether there is a way between two machines here. */
static bool can_serve(void)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_server *server = NULL;
	struct kvmm_pool *pool = net_pool(device, NR_BLOCKS);
	int err;

	attr.pool = pool;
	attr.path = path;
	attr.key_file = key_file;
	err = kvmm_migrate_serve(&attr, &server);
	kvmm_migrate_serve_end(server);
	kvmm_pool_destroy(pool);
	return err != -EOPNOTSUPP;
}

/* None that the system gives to clients: one that calls itself would get an answer. */
static void choose_port(void)
{
	u16 port = 20000 + getpid() % 10000, got;
	int fd;

	do
		snprintf(path, sizeof(path), "%s://127.0.0.1:%u", way(), ++port);
	while ((fd = kv_sock_system.tcp_listen(NULL, strstr(path, "127."), &got)) < 0);
	kv_sock_system.close(NULL, fd);
}

int main(int argc, char **argv)
{
	int bad;

	if (argc > 1)
		device = argv[1];
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(folder, sizeof(folder), "/tmp/kvmm-kill-%d-XXXXXX", getpid());
	if (board == MAP_FAILED || !mkdtemp(folder))
		return 2;
	snprintf(path, sizeof(path), "%s/s", folder);
	if (argc > 3) {
		key_file = argv[2];
		step = atoi(argv[3]);
		choose_port();
		if (!can_serve())
			return 77;
	}
	nr_kills = test_number("KVMM_KILLS", 0);
	bad = nr_kills ? at_random(giver_dies, "giver") || at_random(taker_dies, "taker") :
			 each(giver_dies, "giver") || each(taker_dies, "taker");
	unlink(path);
	rmdir(folder);
	return bad;
}
