// SPDX-License-Identifier: Apache-2.0
/*
 * Links to other machines: what is heard before both sides have proved that they know the key is
 * nothing, and what is changed on the way afterwards breaks the link.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/mem.h>
#include <kv/sock.h>
#include <kv/sys.h>
#include <kvmm/kvmm.h>

#include "net/conn.h"
#include "tests/support/test.h"

static const struct tls_key key = { "one key that both sides know..." };
static const struct tls_key other_key = { "another one" };

static bool have_ssl(void)
{
	struct tls *tls = NULL;
	int err = tls_make(&key, true, &tls);

	tls_free(tls);
	if (err == -EOPNOTSUPP)
		fprintf(stderr, "SKIPPED: %s\n", kvmm_why());
	return !err;
}

/* ---- two sides, and a wire between them that a test holds in its hands ---- */

#define WIRE_ROOM	(1u << 18)
#define GIVER		100
#define TAKER		101

struct way {
	u8 byte[WIRE_ROOM];
	u32 nr;			/* that were ever sent */
	u32 at;			/* of these, that were received */
	bool is_closed;
};

static struct way to[2];		/* to the giver, to the taker */
static u32 most;			/* bytes a call; 0: any */
static bool is_stuck;			/* nothing can be sent */
static struct kv_sock_ops held;

static s64 held_send(void *ctx, int fd, const void *buf, size_t bytes, const int *fds, u32 nr_fds)
{
	struct way *way = &to[fd == GIVER];
	u32 nr = min(bytes, (size_t)(WIRE_ROOM - way->nr));

	nr = most ? min(nr, most) : nr;
	if (!nr || is_stuck)
		return -EAGAIN;
	memcpy(way->byte + way->nr, buf, nr);
	way->nr += nr;
	return nr;
}

static s64 held_recv(void *ctx, int fd, void *buf, size_t bytes, int *fds, u32 *nr_fds)
{
	struct way *way = &to[fd == TAKER];
	u32 nr = min((u32)bytes, way->nr - way->at);

	*nr_fds = 0;
	nr = most ? min(nr, most) : nr;
	if (!nr)
		return way->is_closed ? 0 : -EAGAIN;
	memcpy(buf, way->byte + way->at, nr);
	way->at += nr;
	return nr;
}

static void held_close(void *ctx, int fd)
{
	to[fd == GIVER].is_closed = true;
}

static struct conn giver, taker;

static void meet(const struct tls_key *of_giver, const struct tls_key *of_taker)
{
	struct tls *tls;

	memset(to, 0, sizeof(to));
	most = 0;
	is_stuck = false;
	held = kv_sock_system;
	held.send = held_send;
	held.recv = held_recv;
	held.close = held_close;
	kv_sock_set(&held);
	cr_assert_eq(tls_make(of_giver, false, &tls), 0);
	cr_assert_eq(conn_init(&giver, GIVER, tls), 0);
	cr_assert_eq(tls_make(of_taker, true, &tls), 0);
	cr_assert_eq(conn_init(&taker, TAKER, tls), 0);
}

static void part(void)
{
	conn_exit(&giver);
	conn_exit(&taker);
	kv_sock_set(NULL);
}

/* Both get on, until a message comes to @conn: as conn_next(). */
static int next(struct conn *conn, struct wire_msg *msg)
{
	int ret = 0;

	for (u32 i = 0; i < 5000 && !ret; i++) {
		conn_pump(&giver);
		conn_pump(&taker);
		ret = conn_next(conn, msg);
		if (!ret)
			conn_next(conn == &giver ? &taker : &giver, &(struct wire_msg){ });
	}
	return ret;
}

static void fill(u8 *bytes, u32 nr, u32 seed)
{
	for (u32 i = 0; i < nr; i++)
		bytes[i] = (i * 2654435761u + seed) >> 11;
}

static void expect_passage(struct conn *from, struct conn *there, u32 bytes)
{
	static u8 sent[WIRE_MAX_BYTES];
	struct wire_msg msg;

	fill(sent, bytes, bytes);
	conn_say(from, WIRE_NAMES, NULL, 3, sent, bytes);
	cr_assert_eq(next(there, &msg), 1);
	cr_expect_eq(msg.head.type, WIRE_NAMES);
	cr_assert_eq(msg.head.bytes, bytes);
	cr_expect_arr_eq(msg.payload, sent, bytes);
}

/* ---- with the key ---- */

Test(tls, messages_of_any_length_pass_both_ways_and_none_of_them_in_clear)
{
	static const u32 bytes[] = { 1, 56, 16384, 16385, WIRE_MAX_BYTES };
	const u32 magic = WIRE_MAGIC;

	if (!have_ssl())
		return;
	meet(&key, &key);
	for (u32 i = 0; i < ARRAY_SIZE(bytes); i++) {
		expect_passage(&giver, &taker, bytes[i]);
		expect_passage(&taker, &giver, bytes[i]);
	}
	for (u32 i = 0; i < 2; i++)
		cr_expect_null(memmem(to[i].byte, to[i].nr, &magic, sizeof(magic)));
	part();
}

Test(tls, a_wire_that_passes_a_few_bytes_at_a_time_is_slow_and_nothing_else)
{
	if (!have_ssl())
		return;
	for (u32 i = 1; i < 40; i += 6) {
		meet(&key, &key);
		most = i;
		expect_passage(&giver, &taker, 100);
		expect_passage(&taker, &giver, 100);
		part();
	}
}

Test(tls, what_a_full_socket_does_not_take_waits_and_is_bounded)
{
	struct wire_msg msg;
	static u8 big[WIRE_MAX_BYTES];
	u32 nr = 0;

	if (!have_ssl())
		return;
	meet(&key, &key);
	expect_passage(&giver, &taker, 8);
	is_stuck = true;
	while (conn_has_room(&giver) && nr < 10) {
		conn_say(&giver, WIRE_SUMS, NULL, nr, big, sizeof(big));
		nr++;
	}
	cr_expect_leq(nr, 3);
	is_stuck = false;
	for (u32 i = 0; i < nr; i++) {
		cr_assert_eq(next(&taker, &msg), 1);
		cr_expect_eq(msg.head.gen, i);
	}
	part();
}

Test(tls, the_end_of_the_socket_is_a_broken_link)
{
	struct wire_msg msg;

	if (!have_ssl())
		return;
	meet(&key, &key);
	expect_passage(&giver, &taker, 8);
	conn_break(&giver, -ECANCELED);
	cr_expect_eq(next(&taker, &msg), -ECONNRESET);
	part();
}

/* ---- without ---- */

Test(tls, neither_side_believes_one_with_another_key)
{
	struct wire_msg msg;

	if (!have_ssl())
		return;
	meet(&other_key, &key);
	conn_say(&giver, WIRE_HELLO, NULL, 0, "hello", 5);
	cr_expect_eq(next(&taker, &msg), -EACCES);
	cr_expect_eq(conn_next(&giver, &msg), -EACCES);
	part();
}

Test(tls, a_message_in_clear_is_not_heard)
{
	struct wire_msg msg;
	struct conn bare;

	if (!have_ssl())
		return;
	meet(&key, &key);
	cr_assert_eq(conn_init(&bare, GIVER, NULL), 0);
	conn_say(&bare, WIRE_HELLO, NULL, 0, "hello", 5);
	cr_expect_eq(conn_next(&taker, &msg), -EACCES);
	conn_exit(&bare);
	part();
}

Test(tls, what_was_recorded_does_not_open_another_link)
{
	static struct way recorded;
	struct wire_msg msg;

	if (!have_ssl())
		return;
	meet(&key, &key);
	expect_passage(&giver, &taker, 56);
	recorded = to[1];
	part();
	meet(&key, &key);
	to[1] = recorded;
	to[1].at = 0;
	cr_expect_eq(conn_next(&taker, &msg), -EACCES);
	part();
}

Test(tls, half_a_handshake_is_heard_as_nothing)
{
	struct wire_msg msg;
	u32 whole;

	if (!have_ssl())
		return;
	meet(&key, &key);
	conn_pump(&giver);
	conn_next(&giver, &msg);
	whole = to[1].nr;
	cr_assert_gt(whole, 100);
	for (u32 nr = 0; nr < whole; nr += 7) {
		to[1].nr = nr;
		cr_expect_eq(conn_next(&taker, &msg), 0);
	}
	to[1].nr = whole - 1;
	cr_expect_eq(conn_next(&taker, &msg), 0);
	to[1].is_closed = true;
	cr_expect_eq(conn_next(&taker, &msg), -ECONNRESET);
	part();
}

/* Any byte of what a giver says, changed: it is not believed, and nothing is heard of it. */
Test(tls, a_bit_that_is_changed_on_the_way_breaks_the_link)
{
	struct wire_msg msg;
	int ret;

	if (!have_ssl())
		return;
	for (u32 at = 0; at < 2048; at += 3) {
		meet(&key, &key);
		conn_say(&giver, WIRE_NAMES, NULL, 3, "something", 9);
		for (u32 i = 0; i < 4 && to[1].nr <= at; i++) {
			conn_next(&giver, &msg);
			conn_next(&taker, &msg);
		}
		if (to[1].nr <= at) {
			part();
			break;
		}
		/* Only what the taker has not read can be changed. */
		if (to[1].at <= at) {
			to[1].byte[at] ^= 1u << at % 8;
			ret = conn_next(&taker, &msg);
			cr_expect_leq(ret, 0, "byte %u", at);
		}
		part();
	}
}

Test(tls, garbage_is_cut)
{
	static const u32 seed[] = { 1, 77, 4242 };
	struct wire_msg msg;

	if (!have_ssl())
		return;
	for (u32 i = 0; i < ARRAY_SIZE(seed); i++) {
		meet(&key, &key);
		fill(to[1].byte, 5000, seed[i]);
		to[1].nr = 5000;
		cr_expect_eq(conn_next(&taker, &msg), -EACCES);
		part();
	}
}

/* A server of openssl's, that has a certificate, and no key. */
static pid_t start_server(const char *folder, const char *addr)
{
	char text[300];
	pid_t pid;

	snprintf(text, sizeof(text), "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout k "
		 "-out c -subj /CN=taker -days 1 >/dev/null 2>&1", folder);
	if (system(text))
		return -1;
	pid = fork();
	if (pid)
		return pid;
	if (!chdir(folder) && freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr))
		execlp("openssl", "openssl", "s_server", "-tls1_3", "-accept", addr, "-cert", "c",
		       "-key", "k", NULL);
	_exit(1);
}

/* What a giver thinks of what is there; -ECONNRESET: nothing is yet. */
static int opinion_of(const char *addr)
{
	struct wire_msg msg;
	struct conn conn;
	struct tls *tls;
	int ret = 0;

	cr_assert_eq(tls_make(&key, false, &tls), 0);
	cr_assert_eq(conn_init(&conn, kv_sock_system.tcp_connect(NULL, addr), tls), 0);
	for (u32 i = 0; i < 2000 && !ret; i++) {
		ret = conn_next(&conn, &msg);
		usleep(ret ? 0 : 1000);
	}
	conn_exit(&conn);
	return ret;
}

Test(tls, a_taker_with_a_certificate_instead_of_the_key_is_not_believed)
{
	char folder[] = "/tmp/kvmm-tls-XXXXXX", addr[32], text[64];
	int err = -ECONNRESET;
	pid_t server;

	if (!have_ssl())
		return;
	cr_assert_not_null(mkdtemp(folder));
	snprintf(addr, sizeof(addr), "127.0.0.1:%u", 20000 + getpid() % 10000);
	server = start_server(folder, addr);
	if (server > 0) {
		for (u32 i = 0; i < 1000 && err == -ECONNRESET; i++) {
			err = opinion_of(addr);
			usleep(10000);
		}
		cr_expect_eq(err, -EACCES);
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	} else {
		fprintf(stderr, "SKIPPED: the openssl command is not there\n");
	}
	snprintf(text, sizeof(text), "rm -rf %s", folder);
	cr_expect_eq(system(text), 0);
}

/* ---- the key, and the library ---- */

static const char *key_file(const char *text, mode_t mode)
{
	static char path[32];
	int fd;

	strcpy(path, "/tmp/kvmm-key-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	fchmod(fd, mode);
	close(fd);
	return path;
}

static int read_key(const char *text, mode_t mode, struct tls_key *result)
{
	const char *path = key_file(text, mode);
	int err = tls_read_key(path, result);

	unlink(path);
	return err;
}

#define DIGITS_BUT_ONE "0112233445566778899aabbccddeeff0123456789ABCDEF0123456789abcdeF"
#define DIGITS "0" DIGITS_BUT_ONE

Test(tls, a_key_is_64_digits_in_a_file_of_the_users_alone)
{
	struct tls_key got;

	cr_expect_eq(read_key(DIGITS, 0600, &got), 0);
	cr_expect_eq(read_key(DIGITS "\n", 0400, &got), 0);
	cr_expect_eq(got.byte[1], 0x11);
	cr_expect_eq(got.byte[15], 0xff);
	cr_expect_eq(got.byte[31], 0xef);
	cr_expect_eq(read_key(DIGITS, 0640, &got), -EPERM);
	cr_expect_eq(read_key(DIGITS "0", 0600, &got), -EINVAL);
	cr_expect_eq(read_key(DIGITS "\n\n", 0600, &got), -EINVAL);
	cr_expect_eq(read_key(DIGITS_BUT_ONE, 0600, &got), -EINVAL);
	cr_expect_eq(read_key("", 0600, &got), -EINVAL);
	cr_expect_eq(read_key("x" DIGITS_BUT_ONE, 0600, &got), -EINVAL);
	cr_expect_eq(tls_read_key("/nowhere/key", &got), -ENOENT);
}

static void *no_library(void *ctx, const char *path, const char **why)
{
	*why = "it is gone";
	return NULL;
}

Test(tls, without_libssl_there_is_no_link_to_another_machine)
{
	struct kv_sys_ops poor = kv_sys_system;
	struct tls *tls;

	poor.open_library = no_library;
	kv_sys_set(&poor);
	cr_expect_eq(tls_make(&key, true, &tls), -EOPNOTSUPP);
	cr_expect(strstr(kvmm_why(), "gone") || strstr(kvmm_why(), "without"));
	kv_sys_set(NULL);
}
