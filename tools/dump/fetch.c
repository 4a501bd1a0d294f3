// SPDX-License-Identifier: Apache-2.0
/* Snapshots from an engine. */
#include <string.h>
#include <time.h>

#include "../client/table.h"
#include "fetch.h"

#define ROWS	8192u	/* in an answer */

static int fail(struct snap *snap, const char *why)
{
	snprintf(snap->why, sizeof(snap->why), "%.*s", (int)sizeof(snap->why) - 1, why);
	return -1;
}

/* An answer as a table, whose text is @answer's. */
static int call(struct snap *snap, struct client *client, const char *line, struct answer *answer,
		struct table *table)
{
	if (client_call(client, answer, "%s", line))
		return fail(snap, client->why);
	if (!table_parse(table, answer->text))
		return 0;
	answer_free(answer);
	return fail(snap, "the engine's answer is no table");
}

static void copy_name(char *to, const char *from)
{
	snprintf(to, SNAP_NAME, "%.*s", (int)SNAP_NAME - 1, from);
}

static int fetch_head(struct snap *snap, struct client *client, const char *pool)
{
	struct answer answer;
	struct table table;
	char line[128];
	int err;

	snprintf(line, sizeof(line), "stat%s%.64s", pool ? " " : "", pool ? pool : "");
	err = call(snap, client, line, &answer, &table);
	if (err)
		return err;
	if (table.nr_rows != 1) {
		err = fail(snap, table.nr_rows ? "there are several pools; name one by --pool" :
						 "the engine shows no pool");
	} else {
		copy_name(snap->pool, table_cell(&table, 0, "pool"));
		snap->nr_blocks = table_number(&table, 0, "blocks") + table_number(&table, 0, "null");
		snap->block_bytes = table_number(&table, 0, "block_bytes");
		snap->block_tokens = table_number(&table, 0, "block_tokens");
	}
	table_free(&table);
	answer_free(&answer);
	return err;
}

static int add_rows(struct snap *snap, const struct table *table)
{
	for (size_t i = 0; i < table->nr_rows; i++)
		if (snap_add_row(snap, table->name, table->cell + i * table->nr_columns,
				 table->nr_columns))
			return -1;
	return 0;
}

/* From block @first on; *@first moves on. */
static int fetch_rows(struct snap *snap, struct client *client, uint32_t *first)
{
	struct answer answer;
	struct table table;
	char line[128];
	int err;

	snprintf(line, sizeof(line), "snapshot %.64s %u %u", snap->pool, *first, ROWS);
	err = call(snap, client, line, &answer, &table);
	if (err)
		return err;
	err = table.nr_rows ? add_rows(snap, &table) : fail(snap, "the engine shows no more of it");
	if (!err)
		*first = snap->row[snap->nr - 1].first + snap->row[snap->nr - 1].nr;
	table_free(&table);
	answer_free(&answer);
	return err;
}

int snap_fetch(struct snap *snap, struct client *client, const char *pool)
{
	struct timespec now;
	uint32_t first = 0;
	int err;

	*snap = (struct snap){ 0 };
	clock_gettime(CLOCK_REALTIME, &now);
	snap->time_ns = now.tv_sec * 1000000000ull + now.tv_nsec;
	copy_name(snap->engine, *client->name ? client->name : "-");
	err = fetch_head(snap, client, pool);
	while (!err && first < snap->nr_blocks)
		err = fetch_rows(snap, client, &first);
	return err ? err : snap_end(snap);
}
