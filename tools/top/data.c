// SPDX-License-Identifier: Apache-2.0
/* One look at a pool, by what its control socket tells. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../json.h"
#include "data.h"

#define MAP_ROWS	16384u	/* in an answer */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void copy_word(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%.*s", (int)room - 1, from ? from : "-");
}

/* ---- pools ---- */

/* The first one from row @from on, and then from the top, that is not closed; else that of the row. */
static size_t open_row(const struct table *table, size_t from)
{
	for (size_t i = 0; i < table->nr_rows; i++)
		if (!table_number(table, (from + i) % table->nr_rows, "closed"))
			return (from + i) % table->nr_rows;
	return from;
}

static size_t row_of(const struct table *table, const char *pool)
{
	size_t at = 0;

	while (at < table->nr_rows && strcmp(table_cell(table, at, "pool"), pool))
		at++;
	return at;
}

static void note_closed(struct top_data *data, const struct table *table)
{
	data->nr_closed = 0;
	for (size_t i = 0; i < table->nr_rows; i++)
		if (table_number(table, i, "closed") && !data->nr_closed++)
			copy_word(data->closed, sizeof(data->closed), table_cell(table, i, "pool"));
}

static int find_pool(struct top_data *data, struct client *client, const char *pool)
{
	struct table table;
	size_t at = 0;
	int err = client_table(client, &table, "devices");

	if (err)
		return err;
	data->nr_pools = table.nr_rows;
	note_closed(data, &table);
	if (pool && !data->is_named)
		at = row_of(&table, pool);
	if (pool && (data->is_named || at == table.nr_rows))
		copy_word(data->pool, sizeof(data->pool), pool);
	else if (table.nr_rows)
		copy_word(data->pool, sizeof(data->pool),
			  table_cell(&table, open_row(&table, at), "pool"));
	else
		err = client_fail(client, "the engine shows no pool");
	table_free(&table);
	return err;
}

int top_next_pool(const struct top_data *data, struct client *client, char name[TOP_NAME])
{
	struct table table;
	size_t at;

	if (client_table(client, &table, "devices"))
		return -1;
	at = row_of(&table, data->pool) + 1;
	if (table.nr_rows)
		copy_word(name, TOP_NAME, table_cell(&table, open_row(&table, at < table.nr_rows ? at : 0),
						     "pool"));
	table_free(&table);
	return 0;
}

/* ---- numbers ---- */

uint64_t top_number(const struct top_data *data, const char *column)
{
	return table_number(&data->stat, 0, column);
}

double top_rate(const struct top_data *data, const char *column)
{
	uint64_t ns = data->now_ns - data->before_ns, now = top_number(data, column);
	uint64_t before = table_number(&data->before, 0, column);

	return data->before_ns && ns && now >= before ? 1e9 * (now - before) / ns : 0;
}

/* Rates are of the time since the look before; what is used is so since then, as far as is known. */
static void remember(struct top_data *data)
{
	double hits = top_rate(data, "hit_blocks"), all = hits + top_rate(data, "miss_blocks");
	uint64_t blocks = top_number(data, "blocks"), from = data->before_ns ? data->before_ns : data->now_ns;
	uint64_t idle = top_number(data, "free") + top_number(data, "inactive") + top_number(data, "away");
	const double value[NR_HISTORY_ROWS] = {
		[HISTORY_USED] = blocks > idle ? 100.0 * (blocks - idle) / blocks : 0,
		[HISTORY_HITS] = all > 0 ? 100 * hits / all : -1,
		[HISTORY_MOVES] = top_rate(data, "moved_blocks"),
		[HISTORY_FAILURES] = top_rate(data, "fail_nospc"),
	};

	for (unsigned int row = 0; row < NR_HISTORY_ROWS; row++)
		if (value[row] >= 0 && (row == HISTORY_USED || data->before_ns))
			history_add(&data->history, row, from, data->now_ns, value[row]);
}

void top_forget(struct top_data *data)
{
	table_free(&data->before);
	table_free(&data->stat);
	data->before_ns = data->now_ns = 0;
}

static int fetch_stat(struct top_data *data, struct client *client)
{
	struct table table;
	int err = client_table(client, &table, "stat %s", data->pool);

	if (err)
		return err;
	if (data->pid != client->pid)
		top_forget(data);
	data->pid = client->pid;
	table_free(&data->before);
	data->before = data->stat;
	data->before_ns = data->now_ns;
	data->stat = table;
	data->now_ns = now_ns();
	remember(data);
	return 0;
}

/* ---- the map ---- */

static const struct {
	const char *state;
	enum top_class cls;
} classes[] = {
	{ "free", TOP_FREE }, { "aside", TOP_FREE }, { "reserved", TOP_FREE }, { "null", TOP_PINNED },
	{ "range", TOP_RANGE }, { "private", TOP_PRIVATE }, { "staged", TOP_PRIVATE },
	{ "active", TOP_ACTIVE }, { "cached", TOP_CACHED }, { "claimed", TOP_CACHED },
	{ "away", TOP_AWAY },
};

static enum top_class class_of(const char *state, const char *flags)
{
	if (strchr(flags, 'p'))
		return TOP_PINNED;
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (!strcmp(state, classes[i].state))
			return classes[i].cls;
	return TOP_MOVING;
}

static int add_run(struct top_data *data, const struct table *table, size_t row)
{
	const char *state = table_cell(table, row, "state"), *flags = table_cell(table, row, "flags");
	size_t room = data->room ? 2 * data->room : 256;
	struct top_run *more = data->run;

	if (data->nr_runs == data->room) {
		more = realloc(data->run, room * sizeof(*more));
		if (!more)
			return -1;
		data->run = more;
		data->room = room;
	}
	more[data->nr_runs] = (struct top_run){
		.first = table_number(table, row, "first"), .nr = table_number(table, row, "count"),
		.owner = table_number(table, row, "owner"),
		.cls = class_of(state ? state : "", flags ? flags : ""),
	};
	if (!more[data->nr_runs].owner)
		more[data->nr_runs].owner = table_number(table, row, "seq");
	data->nr_runs++;
	return 0;
}

/* From block @first on; *@first moves on. */
static int fetch_part(struct top_data *data, struct client *client, bool fine, uint64_t *first)
{
	const struct top_run *last;
	struct table table;
	int err = client_table(client, &table, "map %s %llu %u %s", data->pool,
			       (unsigned long long)*first, MAP_ROWS, fine ? "fine" : "coarse");

	if (err)
		return err;
	for (size_t i = 0; i < table.nr_rows && !err; i++)
		err = add_run(data, &table, i);
	if (err)
		client_fail(client, "no memory for the map");
	last = data->nr_runs ? &data->run[data->nr_runs - 1] : NULL;
	if (!table.nr_rows)
		*first = UINT64_MAX;	/* that was all */
	else if (!err && (!last->nr || last->first < *first))
		err = client_fail(client, "the engine's map goes nowhere");
	else if (!err)
		*first = (uint64_t)last->first + last->nr;
	table_free(&table);
	return err;
}

static int fetch_map(struct top_data *data, struct client *client, bool fine)
{
	uint64_t first = 0, end = top_number(data, "blocks") + top_number(data, "null");
	int err = 0;

	data->nr_runs = 0;
	while (!err && first < end)
		err = fetch_part(data, client, fine, &first);
	return err;
}

/* ---- who has most ---- */

static int fetch_rows(const struct top_data *data, struct client *client, const char *command,
		      struct top_row *row, unsigned int *nr)
{
	bool by_seq = !strcmp(command, "sequences");
	struct table table;
	int err = client_table(client, &table, "%s %s %u", command, data->pool, TOP_ROWS);

	if (err)
		return err;
	*nr = table.nr_rows < TOP_ROWS ? table.nr_rows : TOP_ROWS;
	for (unsigned int i = 0; i < *nr; i++) {
		copy_word(row[i].id, TOP_WORD, table_cell(&table, i, by_seq ? "seq" : "owner"));
		copy_word(row[i].other, TOP_WORD, table_cell(&table, i, by_seq ? "owner" : "held"));
		row[i].blocks = table_number(&table, i, "blocks");
		row[i].runs = table_number(&table, i, "runs");
		row[i].pinned = table_number(&table, i, "pinned");
		row[i].age_ns = table_number(&table, i, "age_ns");
	}
	table_free(&table);
	return 0;
}

/* ---- whatever else there is ---- */

/* An engine that does not know the command, or has nothing of the kind, is no error. */
static int fetch_more(const struct top_data *data, struct client *client, const char *command,
		      struct table *table)
{
	struct answer answer;
	char line[160];

	table_free(table);
	snprintf(line, sizeof(line), "%s %s", command, data->pool);
	if (client_ask(client, &answer, line))
		return -1;
	if (answer.err || table_parse(table, answer.text))
		answer_free(&answer);
	else
		table->text = answer.text;
	return 0;
}

static int fetch_all(struct top_data *data, struct client *client, const char *pool, bool fine)
{
	int err = find_pool(data, client, pool);

	if (!err)
		err = fetch_stat(data, client);
	if (!err)
		err = fetch_map(data, client, fine);
	if (!err)
		err = fetch_rows(data, client, "owners", data->owner, &data->nr_owners);
	if (!err)
		err = fetch_rows(data, client, "sequences", data->seq, &data->nr_seqs);
	if (!err)
		err = fetch_more(data, client, "tiers", &data->tiers);
	if (!err)
		err = fetch_more(data, client, "pressure", &data->pressure);
	if (!err)
		err = fetch_more(data, client, "holds", &data->holds);
	return err;
}

int top_fetch(struct top_data *data, struct client *client, const char *pool, bool fine)
{
	int err = fetch_all(data, client, pool, fine);

	/* It may have been closed meanwhile. */
	return err && !data->is_named && client->fd >= 0 ? fetch_all(data, client, pool, fine) : err;
}

int top_print_json(struct client *client, const char *pool, FILE *out)
{
	static const char *const commands[] = {
		"stat", "owners", "sequences", "holds", "tiers", "pressure",
	};
	struct table table[sizeof(commands) / sizeof(*commands)] = { 0 };
	struct top_data data = { .nr_pools = 0 };
	int err = find_pool(&data, client, pool);
	size_t i;

	/* All of them first: half an object is none. */
	for (i = 0; !err && i < sizeof(commands) / sizeof(*commands); i++)
		err = client_table(client, &table[i], "%s %s", commands[i], data.pool);
	if (!err) {
		fputs("{\"engine\": ", out);
		json_string(client->name, out);
		fputs(", \"pool\": ", out);
		json_string(data.pool, out);
	}
	for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (!err) {
			fprintf(out, ",\n\"%s\": ", commands[i]);
			table_print_json(&table[i], out);
		}
		table_free(&table[i]);
	}
	fputs(err ? "" : "}\n", out);
	return err;
}

void top_free(struct top_data *data)
{
	free(data->run);
	table_free(&data->tiers);
	table_free(&data->pressure);
	table_free(&data->holds);
	top_forget(data);
	*data = (struct top_data){ 0 };
}
