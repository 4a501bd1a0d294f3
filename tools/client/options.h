/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of the tools that look at an engine: the same names, letters and words everywhere.
 *
 *	static const struct argp_option options[] = { CLIENT_SOCKET, CLIENT_JSON, { 0 } };
 *	...
 *	default:
 *		return client_option(&opt->client, key, arg, state);
 */
#ifndef TOOLS_CLIENT_OPTIONS_H
#define TOOLS_CLIENT_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "client.h"

#define CLIENT_SOCKET \
	{ "socket", 'S', "PATH", 0, "Control socket of the engine [$KVMM_SOCKET, or the only one in " \
	  "$KVMM_SOCKET_DIR, $XDG_RUNTIME_DIR/kvmm or /run/kvmm]", 0 }
#define CLIENT_POOL(otherwise) \
	{ "pool", 'p', "NAME", 0, "Which pool of the engine [" otherwise "]", 0 }
#define CLIENT_JSON \
	{ "json", 'j', NULL, 0, "JSON on standard output", 0 }
#define CLIENT_INTERVAL(otherwise) \
	{ "interval", 'i', "S", 0, "Seconds between two looks, 0.01 to 86400 [" otherwise "]", 0 }
#define CLIENT_COUNT(otherwise) \
	{ "count", 'n', "N", 0, "Stop after so many [" otherwise "]", 0 }

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
	unsigned long count;
	bool json;
};

/* For the end of an argp parser: takes these keys, and ARGP_ERR_UNKNOWN for others. */
error_t client_option(struct client_options *options, int key, const char *arg,
		      struct argp_state *state);

/* For people or programs; on a terminal that is too narrow, a line a field. */
void table_show(const struct table *table, bool json, FILE *out);

/* Ask, and print the table that comes; what is wrong is said. Returns an exit code. */
int client_show(struct client *client, bool json, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* EXIT_WRONG; client->why has been said. */
int client_wrong(const struct client *client);

#endif /* TOOLS_CLIENT_OPTIONS_H */
