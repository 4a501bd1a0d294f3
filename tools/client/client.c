// SPDX-License-Identifier: Apache-2.0
/*
 * The client's half of the protocol:
 *
 *	server	kvmm-control 1 NAME\n
 *	client	COMMAND [ARGS...]\n
 *	server	ok BYTES\n  and so many bytes; or  err ERRNO BYTES\n  and a message
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "../plain.h"
#include "find.h"

#define MAX_LINE	4096u

const volatile sig_atomic_t *client_stop;

/* One line, whatever the engine has said. */
int client_fail(struct client *client, const char *why)
{
	unsigned int nr = 0;

	while ((unsigned char)why[nr] >= ' ' && why[nr] != 0x7f && nr < sizeof(client->why))
		nr++;
	snprintf(client->why, sizeof(client->why), "%s: %.*s", client->path, (int)nr, why);
	return -1;
}

#define TEXT(number)	TEXT_OF(number)
#define TEXT_OF(number)	#number

/* In words that say what to do, where the system's do not. */
static int fail_by(struct client *client, int err)
{
	switch (err) {
	case ENOENT:
		return client_fail(client, "there is no such socket; is the engine running?");
	case ECONNREFUSED:
		return client_fail(client, "nobody listens; the engine has ended");
	case EACCES:
	case EPERM:
		return client_fail(client, "not permitted; only the engine's user and root may look");
	case EAGAIN:
		return client_fail(client, "it says nothing for " TEXT(CLIENT_SECONDS) " s; does it hang?");
	case EPIPE:
	case ECONNRESET:
		return client_fail(client, "the engine has gone, or has no time for us");
	case EPROTO:
		return client_fail(client, "does not keep to the protocol; is that an engine's socket?");
	default:
		return client_fail(client, strerror(err));
	}
}

void client_close(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
}

/* ---- coming in ---- */

/* Who listens there is us, or whose the socket is, if we are root. */
static int check_server(struct client *client)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	struct stat stat;

	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) ||
	    lstat(client->path, &stat))
		return fail_by(client, errno);
	client->pid = cred.pid;
	if (cred.uid == geteuid() || (!geteuid() && cred.uid == stat.st_uid))
		return 0;
	return client_fail(client, "another user serves it");
}

static int connect_to(struct client *client)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = CLIENT_SECONDS };

	memcpy(addr.sun_path, client->path, strlen(client->path) + 1);
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client->fd < 0)
		return fail_by(client, errno);
	setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(client->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fail_by(client, errno);
	return check_server(client);
}

/* More of what comes: 0, or -1 and errno; 0 is the end of it. */
static int receive(struct client *client)
{
	ssize_t nr;

	do
		nr = recv(client->fd, client->in + client->nr_in,
			  sizeof(client->in) - client->nr_in, 0);
	while (nr < 0 && errno == EINTR && !(client_stop && *client_stop));
	if (!nr)
		errno = ECONNRESET;
	if (nr <= 0)
		return -1;
	client->nr_in += nr;
	return 0;
}

/* A line without its end, in @line: 0, or -1 and errno. */
static int take_line(struct client *client, char *line, size_t bytes)
{
	const char *end;
	size_t len;

	while (!(end = memchr(client->in, '\n', client->nr_in))) {
		if (client->nr_in == sizeof(client->in)) {
			errno = EPROTO;
			return -1;
		}
		if (receive(client))
			return -1;
	}
	len = end - client->in;
	if (len >= bytes) {
		errno = EPROTO;
		return -1;
	}
	memcpy(line, client->in, len);
	line[len] = '\0';
	client->nr_in -= len + 1;
	memmove(client->in, end + 1, client->nr_in);
	return 0;
}

static int take_rest(struct client *client, char *to, size_t bytes)
{
	while (bytes) {
		size_t nr = client->nr_in < bytes ? client->nr_in : bytes;

		memcpy(to, client->in, nr);
		client->nr_in -= nr;
		memmove(client->in, client->in + nr, client->nr_in);
		to += nr;
		bytes -= nr;
		if (bytes && receive(client))
			return -1;
	}
	return 0;
}

/* Decimal digits only, up to @max: behind them, or NULL. */
static const char *read_count(const char *at, size_t max, size_t *count)
{
	const char *start = at;

	for (*count = 0; *at >= '0' && *at <= '9'; at++) {
		*count = *count * 10 + (*at - '0');
		if (*count > max)
			return NULL;
	}
	return at > start ? at : NULL;
}

/* "ok 12" or "err 22 5": how many bytes follow, or -1. */
static int read_head(const char *line, struct answer *answer)
{
	size_t err = 0;

	answer->err = 0;
	if (!strncmp(line, "err ", 4)) {
		line = read_count(line + 4, 4095, &err);
		if (!line || !err || *line++ != ' ')
			return -1;
		answer->err = (int)err;
	} else if (!strncmp(line, "ok ", 3)) {
		line += 3;
	} else {
		return -1;
	}
	line = read_count(line, CLIENT_MAX_ANSWER, &answer->bytes);
	return line && !*line ? 0 : -1;
}

static int take_answer(struct client *client, const char *head, struct answer *answer)
{
	if (read_head(head, answer))
		return fail_by(client, EPROTO);
	answer->text = malloc(answer->bytes + 1);
	if (!answer->text)
		return client_fail(client, strerror(ENOMEM));
	answer->text[answer->bytes] = '\0';
	if (!take_rest(client, answer->text, answer->bytes)) {
		make_plain(answer->text, answer->bytes);
		return 0;
	}
	fail_by(client, errno);
	answer_free(answer);
	return -1;
}

/* Instead of a greeting it may have a reason why not. */
static int refused(struct client *client, const char *line)
{
	struct answer answer = { 0 };

	if (take_answer(client, line, &answer))
		return -1;
	client_fail(client, answer.text);
	answer_free(&answer);
	return -1;
}

static int greet(struct client *client)
{
	static const char start[] = "kvmm-control 1 ";
	char line[sizeof(client->name) + sizeof(start) - 1];

	if (take_line(client, line, sizeof(line)))
		return fail_by(client, errno);
	if (!strncmp(line, "err ", 4))
		return refused(client, line);
	if (!strncmp(line, start, sizeof("kvmm-control ") - 1) && strncmp(line, start, sizeof(start) - 1))
		return client_fail(client, "does not speak version 1 of the protocol; use the tools that "
				   "came with the engine's kvmm");
	if (strncmp(line, start, sizeof(start) - 1))
		return fail_by(client, EPROTO);
	strcpy(client->name, line + sizeof(start) - 1);
	make_plain(client->name, strlen(client->name));
	return 0;
}

static int open_again(struct client *client)
{
	client_close(client);
	client->nr_in = 0;
	if (!connect_to(client) && !greet(client))
		return 0;
	client_close(client);
	return -1;
}

int client_open(struct client *client, const char *path)
{
	*client = (struct client){ .fd = -1 };
	return find_socket(client, path) ? -1 : open_again(client);
}

/* ---- requests ---- */

void answer_free(struct answer *answer)
{
	free(answer->text);
	*answer = (struct answer){ 0 };
}

static int send_line(struct client *client, const char *line)
{
	char all[MAX_LINE];
	size_t len = strlen(line), sent = 0;

	if (len + 1 > sizeof(all) || strchr(line, '\n')) {
		errno = E2BIG;
		return -1;
	}
	memcpy(all, line, len);
	all[len++] = '\n';
	while (sent < len) {
		ssize_t nr = send(client->fd, all + sent, len - sent, MSG_NOSIGNAL);

		if (nr < 0 && errno != EINTR)
			return -1;
		sent += nr > 0 ? nr : 0;
	}
	return 0;
}

/* Closed in between, with nothing of an answer: then it was not heard. */
static bool was_closed(void)
{
	return errno == EPIPE || errno == ECONNRESET;
}

int client_ask(struct client *client, struct answer *answer, const char *line)
{
	char head[64];
	bool heard = !send_line(client, line) && !take_line(client, head, sizeof(head));

	*answer = (struct answer){ 0 };
	if (!heard && was_closed() && !client->nr_in) {
		if (open_again(client))
			return -1;
		heard = !send_line(client, line) && !take_line(client, head, sizeof(head));
	}
	if (heard && !take_answer(client, head, answer))
		return 0;
	if (!heard)
		fail_by(client, errno);
	client_close(client);	/* what comes late would be taken for the next answer */
	return -1;
}

static int call(struct client *client, struct answer *answer, const char *format, va_list args)
{
	char line[MAX_LINE];
	int nr = vsnprintf(line, sizeof(line), format, args);

	if (nr < 0 || (size_t)nr >= sizeof(line))
		return client_fail(client, strerror(E2BIG));
	if (client_ask(client, answer, line))
		return -1;
	if (!answer->err)
		return 0;
	client_fail(client, answer->text);
	answer_free(answer);
	return -1;
}

int client_call(struct client *client, struct answer *answer, const char *format, ...)
{
	va_list args;
	int err;

	va_start(args, format);
	err = call(client, answer, format, args);
	va_end(args);
	return err;
}

int client_vtable(struct client *client, struct table *table, const char *format, va_list args)
{
	struct answer answer;

	if (call(client, &answer, format, args))
		return -1;
	if (table_parse(table, answer.text)) {
		answer_free(&answer);
		return client_fail(client, "the answer is no table");
	}
	table->text = answer.text;
	return 0;
}

int client_table(struct client *client, struct table *table, const char *format, ...)
{
	va_list args;
	int err;

	va_start(args, format);
	err = client_vtable(client, table, format, args);
	va_end(args);
	return err;
}

int client_pool(struct client *client, struct table *table, const char *what, const char *pool)
{
	int err = client_table(client, table, "%s%s%s", what, pool ? " " : "", pool ? pool : "");

	if (err || (table->nr_rows == 1 && table_cell(table, 0, "pool")))
		return err;
	err = client_fail(client, table->nr_rows > 1 ? "there are several pools; name one by --pool" :
						       "the engine shows no pool");
	table_free(table);
	return err;
}
