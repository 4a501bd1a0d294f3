// SPDX-License-Identifier: Apache-2.0
/* Options of the tools that look at an engine. */
#include <stdarg.h>
#include <string.h>

#include "options.h"

/* As a word of the protocol it has to be one word. */
void client_take_pool(struct argp_state *state, void *base, const char *arg)
{
	if (!*arg || strlen(arg) >= CLIENT_POOL_BYTES || strpbrk(arg, " \t\n"))
		bad_option(state, "--pool: '%s' is no name of a pool", arg);
	((struct client_options *)base)->pool = arg;
}

void client_take_interval(struct argp_state *state, void *base, const char *arg)
{
	((struct client_options *)base)->interval = option_seconds(state, "interval", arg, 0.01, 86400);
}

int client_wrong(const struct client *client)
{
	return complain(EXIT_WRONG, "%s", client->why);
}

/* A table without rows has a head all the same. */
static void print_head(const struct table *table, FILE *out, unsigned int columns)
{
	unsigned int at = 0;

	for (unsigned int i = 0; i < table->nr_columns; i++) {
		char word[64];

		snprintf(word, sizeof(word), "%s%s", i ? " " : "", table->name[i]);
		at = print_words(out, word, at, 2, columns);
	}
	putc('\n', out);
}

void table_show(const struct table *table, bool json, FILE *out)
{
	unsigned int lines, columns;

	terminal_size(&lines, &columns);
	if (json)
		table_print_json(table, out);
	else if (!columns || table_width(table) <= columns)
		table_print(table, out);
	else if (table->nr_rows)
		table_print_fields(table, out);
	else
		print_head(table, out, columns);
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
