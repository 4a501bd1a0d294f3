// SPDX-License-Identifier: Apache-2.0
/* Snapshots from an engine. */
#include <string.h>
#include <time.h>

#include "fetch.h"

#define ROWS	8192u	/* in an answer */

static int fail(struct snap *snap, const char *why)
{
	snprintf(snap->why, sizeof(snap->why), "%.*s", (int)sizeof(snap->why) - 1, why);
	return -1;
}

static void copy_name(char *to, const char *from)
{
	snprintf(to, SNAP_NAME, "%.*s", (int)SNAP_NAME - 1, from);
}

static int fetch_head(struct snap *snap, struct client *client, const char *pool)
{
	struct table table;

	if (client_stat(client, &table, pool))
		return fail(snap, client->why);
	copy_name(snap->pool, table_cell(&table, 0, "pool"));
	snap->nr_blocks = table_number(&table, 0, "blocks") + table_number(&table, 0, "null");
	snap->block_bytes = table_number(&table, 0, "block_bytes");
	snap->block_tokens = table_number(&table, 0, "block_tokens");
	table_free(&table);
	return 0;
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
	struct table table;
	int err;

	if (client_table(client, &table, "snapshot %s %u %u", snap->pool, *first, ROWS))
		return fail(snap, client->why);
	err = table.nr_rows ? add_rows(snap, &table) : fail(snap, "the engine shows no more of it");
	if (!err)
		*first = snap->row[snap->nr - 1].first + snap->row[snap->nr - 1].nr;
	table_free(&table);
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
