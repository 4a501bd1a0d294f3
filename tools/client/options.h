/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of the tools that look at an engine: the same names, letters and words everywhere.
 * Rows of a tool's table whose struct begins with a struct client_options.
 */
#ifndef TOOLS_CLIENT_OPTIONS_H
#define TOOLS_CLIENT_OPTIONS_H

#include <argp.h>
#include <limits.h>
#include <stdbool.h>

#include "../tool.h"
#include "client.h"

#define CLIENT_SOCKET \
	ROW_TEXT("socket", 'S', "PATH", struct client_options, socket, "Control socket of the engine " \
		"[$KVMM_SOCKET, or the only one in $KVMM_SOCKET_DIR, $XDG_RUNTIME_DIR/kvmm or /run/kvmm]")
#define CLIENT_POOL(otherwise) \
	ROW_TAKE("pool", 'p', "NAME", client_take_pool, "Which pool of the engine [" otherwise "]")
#define CLIENT_JSON \
	ROW_FLAG("json", 'j', struct client_options, json, "JSON on standard output")
#define CLIENT_INTERVAL(otherwise) \
	ROW_TAKE("interval", 'i', "S", client_take_interval, \
		"Seconds between two looks, 0.01 to 86400 [" otherwise "]")
#define CLIENT_COUNT(otherwise) \
	ROW_SCALED("count", 'n', "N", struct client_options, count, 1, 1, LONG_MAX, \
		"Stop after so many [" otherwise "]")
/* Names that tools had before. */
#define CLIENT_DELAY	ROW_TAKE("delay", 'd', NULL, client_take_interval, NULL)

/**
 * struct client_options - what they were given
 * @socket, @pool: NULL: not said
 * @interval: in seconds
 * @count: 0: no end
 */
struct client_options {
	const char *socket;
	const char *pool;
	double interval;
	uint64_t count;
	bool json;
};

/* For the rows above. */
void client_take_pool(struct argp_state *state, void *base, const char *arg);
void client_take_interval(struct argp_state *state, void *base, const char *arg);

/* For people or programs; on a terminal that is too narrow, a line a field. */
void table_show(const struct table *table, bool json, FILE *out);

/* Ask, and print the table that comes; what is wrong is said. Returns an exit code. */
int client_show(struct client *client, bool json, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* EXIT_WRONG; client->why has been said. */
int client_wrong(const struct client *client);

#endif /* TOOLS_CLIENT_OPTIONS_H */
