// SPDX-License-Identifier: Apache-2.0
/* Snapshots from an engine. */
#include <string.h>
#include <time.h>

#include <kvmm/event.h>
#include <kvmm/ext/control.h>

#include "fetch.h"

#define ROWS	8192u	/* in an answer */
#define MAX_PORTIONS	4096u	/* of names below */

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

	if (client_pool(client, &table, "devices", pool))
		return fail(snap, client->why);
	copy_name(snap->pool, table_cell(&table, 0, "pool"));
	snap->is_closed = table_number(&table, 0, "closed");
	snap->nr_blocks = table_number(&table, 0, "blocks");
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

/* ---- tiers below ---- */

static int add_name(struct snap *snap, const struct kvmm_event *event)
{
	struct snap_name name = {
		.medium = event->medium == KVMM_MEDIUM_DISK ? SNAP_DISK : SNAP_HOST,
		.tenant = event->domain.tenant, .group = event->domain.group,
		.layout = event->domain.layout, .position = event->position,
	};

	if (event->kind != KVMM_EVENT_STORED ||
	    (event->medium != KVMM_MEDIUM_HOST && event->medium != KVMM_MEDIUM_DISK))
		return 0;
	memcpy(name.key, event->key.byte, sizeof(name.key));
	return snap_add_below(snap, &name);
}

/* Of an answer; its last row says where to go on: 1, or 0 that was all. -1: ->why. */
static int add_names(struct snap *snap, char *text, char *place, size_t bytes)
{
	unsigned long long watermark, cursor;
	unsigned int at, medium;
	struct kvmm_event event;
	char kind[8];

	for (char *line = text, *end; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		if (*line == '#')
			continue;
		if (!kvmm_event_parse(line, strlen(line), &event)) {
			if (add_name(snap, &event))
				return -1;
			continue;
		}
		if (sscanf(line, "%llu\t%7s\t-\t-\t-\t-\t-\t-\t%u\t-\t%u\t%llu", &watermark, kind, &at,
			   &medium, &cursor) != 5)
			break;
		snprintf(place, bytes, "%llu %u %u %llu", watermark, medium, at, cursor);
		return !strcmp(kind, "more");
	}
	return fail(snap, "the engine's names make no sense");
}

static bool has_tier(struct client *client, const char *pool)
{
	struct answer answer;
	struct table table;
	char line[128];
	bool has = false;

	snprintf(line, sizeof(line), "tiers %.64s", pool);
	if (client_ask(client, &answer, line))
		return false;
	if (!answer.err && !table_parse(&table, answer.text)) {
		has = table.nr_rows > 0;
		table_free(&table);
	}
	answer_free(&answer);
	return has;
}

/* From the host on: what the device has is known. Medium 1 is the host's. */
static int fetch_below(struct snap *snap, struct client *client)
{
	char place[80] = "0 1 0 0";
	struct answer answer;
	int more = has_tier(client, snap->pool);

	for (uint32_t i = 0; more > 0; i++) {
		if (i == MAX_PORTIONS)
			return fail(snap, "the engine's names have no end");
		if (client_call(client, &answer, "names %s %u %s", snap->pool, ROWS, place))
			return fail(snap, client->why);
		more = add_names(snap, answer.text, place, sizeof(place));
		answer_free(&answer);
	}
	return more;
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
	if (!err)
		err = fetch_below(snap, client);
	return err ? err : snap_end(snap);
}
