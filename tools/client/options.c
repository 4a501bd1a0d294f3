// SPDX-License-Identifier: Apache-2.0
/* Options of the tools that look at an engine. */
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "../tool.h"
#include "options.h"

/* As a word of the protocol it has to be one word. */
static const char *read_pool(struct argp_state *state, const char *arg)
{
	if (!*arg || strlen(arg) >= CLIENT_POOL_BYTES || strpbrk(arg, " \t\n"))
		bad_option(state, "--pool: '%s' is no name of a pool", arg);
	return arg;
}

error_t client_option(struct client_options *options, int key, const char *arg,
		      struct argp_state *state)
{
	switch (key) {
	case 'S':
		options->socket = arg;
		return 0;
	case 'p':
		options->pool = read_pool(state, arg);
		return 0;
	case 'j':
		options->json = true;
		return 0;
	case 'i':
		options->interval = option_seconds(state, "interval", arg, 0.01, 86400);
		return 0;
	case 'n':
		options->count = option_number(state, "count", arg, 1, LONG_MAX);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int client_wrong(const struct client *client)
{
	return complain(EXIT_WRONG, "%s", client->why);
}

void table_show(const struct table *table, bool json, FILE *out)
{
	unsigned int lines, columns;

	terminal_size(&lines, &columns);
	if (json)
		table_print_json(table, out);
	else if (table->nr_rows && columns && table_width(table) > columns)
		table_print_fields(table, out);
	else
		table_print(table, out);
}

int client_show(struct client *client, bool json, const char *format, ...)
{
	struct table table;
	va_list args;
	int err;

	va_start(args, format);
	err = client_vtable(client, &table, format, args);
	va_end(args);
	if (err)
		return client_wrong(client);
	table_show(&table, json, stdout);
	table_free(&table);
	return EXIT_GOOD;
}
