// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics for scrapers, by HTTP, from this process: the engine has a socket for its own user alone and
 * knows nothing of networks.
 *
 * One thread, one engine, a few places for clients. Each has a request of bounded size, one answer and a
 * deadline; whoever comes when all are taken has the place of who has been there longest. While the
 * engine is asked, nobody else is served: it answers in milliseconds, or the client of its socket gives up.
 */
#define _GNU_SOURCE	/* accept4() */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../client/client.h"
#include "../tool.h"
#include "http.h"
#include "live.h"

#define NR_PLACES	32u
#define SECONDS_ASK	5.0	/* for a request to come */
#define SECONDS_TAKE	10.0	/* for an answer to be taken */
#define SECONDS_END	1.0	/* for a client to close, else he may lose the end of the answer */

enum doing { NOTHING, ASKING, TAKING, ENDING };

struct place {
	enum doing doing;	/* NOTHING: free */
	int fd;			/* ours */
	double since, until;
	char in[HTTP_MAX_REQUEST];
	size_t nr_in;
	char *out;		/* ours; while TAKING */
	size_t nr_out, sent;
};

struct server {
	const struct client_options *opt;
	int fd;				/* ours */
	struct client client;
	bool connected;			/* ->client is open */
	struct place place[NR_PLACES];
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- the engine ---- */

/* 0 and an answer; or -1, and ->client.why. One that has gone is looked for again the next time. */
static int ask(struct server *server, bool open_metrics, struct answer *answer)
{
	const char *pool = server->opt->pool;

	if (!server->connected && client_open(&server->client, server->opt->socket))
		return -1;
	server->connected = !client_call(&server->client, answer, "metrics %s%s%s",
					 open_metrics ? "openmetrics" : "prometheus",
					 pool ? " " : "", pool ? pool : "");
	if (!server->connected)
		client_close(&server->client);
	return server->connected ? 0 : -1;
}

/* ---- clients ---- */

static void leave(struct place *place)
{
	close(place->fd);
	free(place->out);
	place->out = NULL;
	place->doing = NOTHING;
}

static void begin(struct place *place, enum doing doing, double seconds)
{
	place->doing = doing;
	place->until = now() + seconds;
}

/* The head, and @text unless only the head was asked for. */
static void answer_with(struct place *place, enum http_status status,
			const struct http_request *request, const char *text, size_t nr)
{
	char head[HTTP_MAX_HEAD];
	size_t nr_head = http_head(status, request, nr, head);

	if (request->head_only)
		nr = 0;
	place->out = malloc(nr_head + nr);
	if (!place->out) {
		leave(place);
		return;
	}
	memcpy(place->out, head, nr_head);
	memcpy(place->out + nr_head, text, nr);
	place->nr_out = nr_head + nr;
	place->sent = 0;
	begin(place, TAKING, SECONDS_TAKE);
}

static void answer_why(struct place *place, enum http_status status,
		       const struct http_request *request, const char *why)
{
	char text[CLIENT_WHY + 2];

	snprintf(text, sizeof(text), "%s\n", why);
	answer_with(place, status, request, text, strlen(text));
}

static void serve(struct server *server, struct place *place)
{
	struct http_request request;
	struct answer answer;
	enum http_status status = http_read(place->in, place->nr_in, &request);

	switch (status) {
	case HTTP_INCOMPLETE:
		break;
	case HTTP_GOOD:
		if (ask(server, request.open_metrics, &answer)) {
			answer_why(place, HTTP_UNAVAILABLE, &request, server->client.why);
			break;
		}
		answer_with(place, status, &request, answer.text, answer.bytes);
		answer_free(&answer);
		break;
	case HTTP_NOT_FOUND:
		answer_why(place, status, &request, "there is " HTTP_PAGE);
		break;
	default:
		answer_why(place, status, &request, "GET " HTTP_PAGE " is what is understood");
		break;
	}
}

static void receive(struct server *server, struct place *place)
{
	ssize_t nr = recv(place->fd, place->in + place->nr_in, sizeof(place->in) - place->nr_in, 0);

	if (nr < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (nr <= 0) {
		leave(place);
		return;
	}
	place->nr_in += (size_t)nr;
	serve(server, place);
}

static void hand_out(struct place *place)
{
	ssize_t nr = send(place->fd, place->out + place->sent, place->nr_out - place->sent,
			  MSG_NOSIGNAL);

	if (nr < 0) {
		if (errno != EAGAIN && errno != EINTR)
			leave(place);
		return;
	}
	place->sent += (size_t)nr;
	if (place->sent < place->nr_out)
		return;
	free(place->out);
	place->out = NULL;
	shutdown(place->fd, SHUT_WR);
	begin(place, ENDING, SECONDS_END);
}

/* What he still says is not read by anybody: bytes that nobody took would reset the connection. */
static void drain(struct place *place)
{
	ssize_t nr = recv(place->fd, place->in, sizeof(place->in), 0);

	if (!nr || (nr < 0 && errno != EAGAIN && errno != EINTR))
		leave(place);
}

static void turn(struct server *server, struct place *place)
{
	if (place->doing == ASKING)
		receive(server, place);
	else if (place->doing == ENDING)
		drain(place);
	if (place->doing == TAKING)
		hand_out(place);
}

/* A free place, or that of who has been there longest. */
static struct place *make_room(struct server *server)
{
	struct place *oldest = &server->place[0];

	for (unsigned int i = 0; i < NR_PLACES; i++) {
		struct place *place = &server->place[i];

		if (place->doing == NOTHING)
			return place;
		if (place->since < oldest->since)
			oldest = place;
	}
	leave(oldest);
	return oldest;
}

/* One each time: clients that are here have their turns in between. */
static void welcome(struct server *server)
{
	int fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct place *place;

	if (fd < 0) {
		/* Out of descriptors or memory: it stays readable, and we would spin. */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			sleep_for(0.1);
		return;
	}
	place = make_room(server);
	place->fd = fd;
	place->nr_in = 0;
	place->since = now();
	begin(place, ASKING, SECONDS_ASK);
}

/* ---- the loop ---- */

/* Whose time is over, goes. Milliseconds until that of the next one; -1: there is none. */
static int sweep(struct server *server)
{
	double at = now(), next = -1;

	for (unsigned int i = 0; i < NR_PLACES; i++) {
		struct place *place = &server->place[i];

		if (place->doing != NOTHING && place->until <= at)
			leave(place);
		if (place->doing != NOTHING && (next < 0 || place->until < next))
			next = place->until;
	}
	return next < 0 ? -1 : (int)((next - at) * 1000) + 1;
}

static void wait_and_turn(struct server *server)
{
	struct pollfd polls[1 + NR_PLACES] = { { .fd = server->fd, .events = POLLIN } };
	int ms = sweep(server);

	for (unsigned int i = 0; i < NR_PLACES; i++) {
		enum doing doing = server->place[i].doing;

		polls[1 + i].fd = doing == NOTHING ? -1 : server->place[i].fd;
		polls[1 + i].events = doing == TAKING ? POLLOUT : POLLIN;
	}
	if (poll(polls, 1 + NR_PLACES, ms) <= 0)
		return;
	for (unsigned int i = 0; i < NR_PLACES; i++)
		if (polls[1 + i].revents)
			turn(server, &server->place[i]);
	if (polls[0].revents)
		welcome(server);
}

/* ---- the address ---- */

/* getaddrinfo() takes any number, and cuts it. */
static bool is_port(const char *text)
{
	size_t nr = strlen(text);

	return nr && nr <= 5 && strspn(text, "0123456789") == nr && atoi(text) <= 65535;
}

/* "PORT", "ADDR:PORT" or "[ADDR]:PORT" in two; the former is for this machine alone. */
static int split(const char *address, char host[64], const char **port)
{
	const char *colon = strrchr(address, ':');
	size_t nr = colon ? (size_t)(colon - address) : 0;

	*port = colon ? colon + 1 : address;
	if (nr >= 2 && address[0] == '[' && colon[-1] == ']') {
		address++;
		nr -= 2;
	} else if (colon && memchr(address, ':', nr)) {
		return -1;
	}
	if (nr >= 64 || (colon && !nr) || !is_port(*port))
		return -1;
	snprintf(host, 64, "%.*s", (int)nr, address);
	if (!colon)
		strcpy(host, "127.0.0.1");
	return 0;
}

static int bind_to(const struct addrinfo *info)
{
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1, err;

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
	    !bind(fd, info->ai_addr, info->ai_addrlen) && !listen(fd, NR_PLACES))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* Names are not looked up: what is listened to is not to depend on a server of names. */
static int open_server(struct server *server, const char *address)
{
	static const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *info;
	const char *port;
	char host[64];

	if (split(address, host, &port) || getaddrinfo(host, port, &hints, &info))
		return complain_usage("--listen: '%s' is no [ADDR:]PORT", address);
	server->fd = bind_to(info);
	freeaddrinfo(info);
	return server->fd < 0 ? complain(EXIT_WRONG, "%s: %s", address, strerror(-server->fd)) :
				EXIT_GOOD;
}

/* Where it is, which port 0 leaves to the kernel. */
static void say_where(int fd)
{
	struct sockaddr_storage at;
	socklen_t bytes = sizeof(at);
	char host[64], port[8];

	if (getsockname(fd, (struct sockaddr *)&at, &bytes) ||
	    getnameinfo((struct sockaddr *)&at, bytes, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	printf(at.ss_family == AF_INET6 ? "http://[%s]:%s" HTTP_PAGE "\n" : "http://%s:%s" HTTP_PAGE "\n",
	       host, port);
	fflush(stdout);
}

int live_listen(const struct client_options *opt, const char *address)
{
	static struct server server;
	int code;

	server.opt = opt;
	code = open_server(&server, address);
	if (code)
		return code;
	say_where(server.fd);
	for (;;)
		wait_and_turn(&server);
}
