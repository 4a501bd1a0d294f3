// SPDX-License-Identifier: Apache-2.0
/*
 * A tool's side of a socket, against a server that is the test itself: who it believes, for how long it
 * waits, and how much it takes. Whatever tools make of answers: hostile.py.
 */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "tests/ctl/control_util.h"
#include "tests/support/test.h"
#include "tools/client/client.h"

static struct client client;
static char path[128];
static int door, peer;
static const char *greeting;	/* NULL: none */

/* ---- what the system says ---- */

static struct {
	bool says;		/* else it is as it is */
	uid_t me;
	uid_t server;
	uid_t owner;		/* of the socket */
} users;

static struct timeval patience[2];	/* SO_RCVTIMEO, SO_SNDTIMEO */

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);
int __real_lstat(const char *name, struct stat *stat);
int __wrap_lstat(const char *name, struct stat *stat);
int __real_getsockopt(int fd, int level, int what, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int what, void *value, socklen_t *len);
int __real_setsockopt(int fd, int level, int what, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int what, const void *value, socklen_t len);
int __real_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);

uid_t __wrap_geteuid(void)
{
	return users.says ? users.me : __real_geteuid();
}

int __wrap_lstat(const char *name, struct stat *stat)
{
	int err = __real_lstat(name, stat);

	if (!err && users.says)
		stat->st_uid = users.owner;
	return err;
}

int __wrap_getsockopt(int fd, int level, int what, void *value, socklen_t *len)
{
	int err = __real_getsockopt(fd, level, what, value, len);

	if (!err && users.says && what == SO_PEERCRED)
		((struct ucred *)value)->uid = users.server;
	return err;
}

/* Nobody waits here for as long as a tool does. */
int __wrap_setsockopt(int fd, int level, int what, const void *value, socklen_t len)
{
	const struct timeval soon = { .tv_usec = 20000 };

	if (what != SO_RCVTIMEO && what != SO_SNDTIMEO)
		return __real_setsockopt(fd, level, what, value, len);
	cr_assert_eq(len, sizeof(*patience));
	memcpy(&patience[what == SO_SNDTIMEO], value, len);
	return __real_setsockopt(fd, level, what, &soon, sizeof(soon));
}

/* Who has connected is let in, and greeted. */
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	int err = __real_connect(fd, addr, len);

	if (err)
		return err;
	if (peer >= 0)
		close(peer);
	peer = accept(door, NULL, NULL);
	cr_assert_geq(peer, 0);
	if (greeting)
		say(peer, greeting);
	return 0;
}

/* ---- the scene ---- */

static void set_up(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	folder_make();
	snprintf(path, sizeof(path), "%s/x.sock", folder);
	strcpy(addr.sun_path, path);
	door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(door, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(door, 4), 0);
	peer = -1;
	greeting = "kvmm-control 1 engine\n";
}

static void tear_down(void)
{
	client_close(&client);
	close(peer);
	close(door);
	unlink(path);
	folder_remove();
}

TestSuite(client, .init = set_up, .fini = tear_down, .timeout = 20);

static void expect_refused(const char *why)
{
	cr_expect_eq(client_open(&client, path), -1);
	cr_expect_not_null(strstr(client.why, why), "no '%s' in '%s'", why, client.why);
	cr_expect_eq(client.fd, -1);
}

/* ---- who is believed ---- */

Test(client, who_serves_is_us_or_if_we_are_root_whose_the_socket_is)
{
	static const struct {
		uid_t me, server, owner;
		bool good;
	} cases[] = {
		{ 7, 7, 7, true }, { 7, 7, 8, true },
		{ 7, 0, 0, false }, { 7, 8, 8, false }, { 7, 8, 7, false },
		{ 0, 0, 0, true }, { 0, 0, 7, true }, { 0, 7, 7, true }, { 0, 7, 8, false }, { 0, 7, 0, false },
	};

	users.says = true;
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		users.me = cases[i].me;
		users.server = cases[i].server;
		users.owner = cases[i].owner;
		if (!cases[i].good) {
			expect_refused("another user serves it");
			continue;
		}
		cr_expect_eq(client_open(&client, path), 0, "%u: %s", i, client.why);
		cr_expect_str_eq(client.name, "engine");
		client_close(&client);
	}
	users.says = false;
}

/* ---- for how long it waits ---- */

Test(client, a_server_that_says_nothing_is_not_waited_for_for_ever)
{
	struct answer answer;

	greeting = NULL;
	expect_refused("it says nothing for 10 s; does it hang?");
	for (u32 i = 0; i < 2; i++) {
		cr_expect_eq(patience[i].tv_sec, 10);
		cr_expect_eq(patience[i].tv_usec, 0);
	}
	greeting = "kvmm-control 1 half of a gree";
	expect_refused("it says nothing for 10 s");
	greeting = "kvmm-control 1 engine\n";
	cr_assert_eq(client_open(&client, path), 0, "%s", client.why);
	cr_expect_eq(client_call(&client, &answer, "pools"), -1);
	cr_expect_not_null(strstr(client.why, "it says nothing for 10 s"), "%s", client.why);
	cr_expect_null(answer.text);
	client_close(&client);
	greeting = "kvmm-control 1 engine\nok 10\nhalf";
	cr_assert_eq(client_open(&client, path), 0, "%s", client.why);
	cr_expect_eq(client_call(&client, &answer, "pools"), -1);
	cr_expect_not_null(strstr(client.why, "it says nothing for 10 s"), "%s", client.why);
	cr_expect_null(answer.text);
}

Test(client, an_answer_that_comes_late_is_not_taken_for_the_next_one)
{
	struct answer answer;

	cr_assert_eq(client_open(&client, path), 0, "%s", client.why);
	cr_expect_eq(client.pid, getpid());
	cr_expect_eq(client_call(&client, &answer, "pools"), -1);
	send(peer, "ok 4\nlate", 9, MSG_NOSIGNAL);
	cr_expect_eq(client_call(&client, &answer, "devices"), -1);
	cr_expect_null(answer.text);
	greeting = "kvmm-control 1 engine\nok 4\nnext";
	cr_assert_eq(client_open(&client, path), 0, "%s", client.why);
	cr_assert_eq(client_call(&client, &answer, "devices"), 0, "%s", client.why);
	cr_expect_str_eq(answer.text, "next");
	answer_free(&answer);
}

/* ---- how much it takes ---- */

Test(client, a_name_is_as_long_as_there_is_room_for)
{
	char line[256];

	snprintf(line, sizeof(line), "kvmm-control 1 %0127d\n", 0);
	greeting = line;
	cr_expect_eq(client_open(&client, path), 0, "%s", client.why);
	cr_expect_eq(strlen(client.name), 127);
	client_close(&client);
	snprintf(line, sizeof(line), "kvmm-control 1 %0128d\n", 0);
	expect_refused("does not keep to the protocol");
}

/* As much as is kept of what came, and then a byte more. */
Test(client, a_line_without_an_end_is_no_line)
{
	char line[sizeof(client.in) + 8];
	struct answer answer;

	for (u32 more = 0; more < 2; more++) {
		memset(line, 'x', sizeof(line));
		line[sizeof(client.in) + more] = '\0';
		greeting = line;
		expect_refused("does not keep to the protocol");
	}
	greeting = "kvmm-control 1 engine\n";
	cr_assert_eq(client_open(&client, path), 0, "%s", client.why);
	say(peer, line);
	cr_expect_eq(client_call(&client, &answer, "pools"), -1);
	cr_expect_not_null(strstr(client.why, "does not keep to the protocol"), "%s", client.why);
	cr_expect_null(answer.text);
}

/* More than is kept at a time, and its end is where the head has said. */
Test(client, an_answer_is_as_long_as_its_head_says)
{
	char line[2 * sizeof(client.in) + 64];
	struct answer answer;
	int len = snprintf(line, sizeof(line), "ok %zu\n", 2 * sizeof(client.in));

	memset(line + len, 'y', 2 * sizeof(client.in));
	strcpy(line + len + 2 * sizeof(client.in), "ok 3\nend");
	cr_assert_eq(client_open(&client, path), 0, "%s", client.why);
	say(peer, line);
	cr_assert_eq(client_call(&client, &answer, "pools"), 0, "%s", client.why);
	cr_expect_eq(answer.bytes, 2 * sizeof(client.in));
	cr_expect_eq(strspn(answer.text, "y"), answer.bytes);
	answer_free(&answer);
	cr_assert_eq(client_call(&client, &answer, "pools"), 0, "%s", client.why);
	cr_expect_str_eq(answer.text, "end");
	answer_free(&answer);
}

/* With nothing of an answer it was not heard, and is said again. */
Test(client, a_server_that_has_closed_it_meanwhile_is_asked_again)
{
	struct answer answer;
	char heard[64] = "";

	cr_assert_eq(client_open(&client, path), 0, "%s", client.why);
	close(peer);
	peer = -1;
	greeting = "kvmm-control 1 engine\nok 4\nhere";
	cr_assert_eq(client_call(&client, &answer, "stat %s", "alpha"), 0, "%s", client.why);
	cr_expect_str_eq(answer.text, "here");
	cr_expect_eq(recv(peer, heard, sizeof(heard) - 1, 0), 11);
	cr_expect_str_eq(heard, "stat alpha\n");
	answer_free(&answer);
}
