/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tool's side of a control socket: one request, one answer.
 *
 *	struct client client;
 *	struct table table;
 *
 *	err = client_open(&client, path);		// NULL: $KVMM_SOCKET, or the only one there is
 *	err = client_table(&client, &table, "stat %s", pool);
 *	...
 *	table_free(&table);
 *	client_close(&client);
 *
 * After an error client.why says in a sentence what went wrong. A server is not believed: lengths are
 * bounded, and waiting is.
 */
#ifndef TOOLS_CLIENT_H
#define TOOLS_CLIENT_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "table.h"

/** Longest answer that is taken. */
#define CLIENT_MAX_ANSWER	(64u << 20)

/** Seconds that a server may be silent for. */
#define CLIENT_SECONDS		10

/** Room for a message. */
#define CLIENT_WHY		512u

/** Room for the name of a pool. */
#define CLIENT_POOL_BYTES	64u

/**
 * struct client - a connection
 * @fd: ours; -1: none
 * @pid: of the engine's process
 * @path: of the socket
 * @name: of the engine, as it has said
 * @why: what went wrong last
 * @in: of what came, what was not looked at yet
 */
struct client {
	int fd;
	pid_t pid;
	char path[108];
	char name[128];
	char why[CLIENT_WHY];
	char in[4096];
	size_t nr_in;
};

/**
 * struct answer - of one request
 * @err: 0, or why the request was refused: a positive errno; @text says so in words then
 * @text: ours; ends with a NUL that is not counted
 * @bytes: of it
 */
struct answer {
	int err;
	char *text;
	size_t bytes;
};

/* What a handler of SIGINT sets, if the tool has one: nobody waits for a server any longer. NULL: it has none. */
extern const volatile sig_atomic_t *client_stop;

/* 0, or -1 and ->why. @path NULL: as the environment says. The client is closed after an error. */
int client_open(struct client *client, const char *path);
void client_close(struct client *client);

/*
 * 0 and an answer; or -1 and ->why: the connection is gone, and closed here, too, or the request was
 * refused. Where the server has closed it meanwhile, because nothing was asked, it is opened anew.
 */
int client_call(struct client *client, struct answer *answer, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same, but a refusal is an answer, with ->err set. */
int client_ask(struct client *client, struct answer *answer, const char *line);

void answer_free(struct answer *answer);

/* A request whose answer is a table: 0, and the caller frees it; or -1 and ->why. */
int client_table(struct client *client, struct table *table, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int client_vtable(struct client *client, struct table *table, const char *format, va_list args);

/*
 * The row that the command @what has of @pool; NULL: of the only pool there is. 0, and the table with that
 * one row; or -1 and ->why.
 */
int client_pool(struct client *client, struct table *table, const char *what, const char *pool);

/* -1, and ->why. */
int client_fail(struct client *client, const char *why);

#endif /* TOOLS_CLIENT_H */
