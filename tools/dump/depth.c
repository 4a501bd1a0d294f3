// SPDX-License-Identifier: Apache-2.0
/* What is below a pool, and how long things take; see depth.h. */
#include <stdlib.h>
#include <string.h>

#include "../client/table.h"
#include "depth.h"

const char *const depth_columns[NR_DEPTH_COLUMNS] = {
	"hits_host", "hits_disk", "offloaded", "loaded", "offloaded_bytes", "loaded_bytes",
	"host_blocks", "disk_blocks", "stalled_us", "queue_p99", "room_p99", "offload_p99", "load_p99",
	"disk_p99",
};

/* What the engine calls a histogram, and what people do. */
static const struct {
	const char *name;
	const char *words;
} kinds[NR_TIMES] = {
	[TIME_QUEUE]	= { "queue", "requests waited in the queue" },
	[TIME_ROOM]	= { "room", "it took to make room for a request" },
	[TIME_OFFLOAD]	= { "offload", "copies to the host tier took" },
	[TIME_LOAD]	= { "load", "copies back to the device took" },
	[TIME_DISK]	= { "disk", "reads of a block from the disk took" },
	[TIME_LIFETIME]	= { "lifetime", "sampled blocks stayed cached" },
	[TIME_IDLE]	= { "idle", "sampled blocks were idle before they went" },
	[TIME_REUSE]	= { "reuse", "it was between two uses of a sampled block" },
	[TIME_HIT_AGE]	= { "hit_age", "sampled blocks had been there when they were hit" },
};

/* An answer as a table; false: there is none. *@err is set if there will be no other either. */
static bool ask(struct client *client, const char *what, const char *pool, struct table *table, int *err)
{
	struct answer answer;
	char line[128];

	snprintf(line, sizeof(line), "%s %.64s", what, pool);
	*err = client_ask(client, &answer, line);
	if (*err)
		return false;
	if (answer.err || table_parse(table, answer.text)) {
		answer_free(&answer);
		return false;
	}
	table->text = answer.text;
	return true;
}

/* ---- tiers ---- */

static bool is_cell(const struct table *table, size_t row, const char *column, const char *text)
{
	const char *cell = table_cell(table, row, column);

	return cell && !strcmp(cell, text);
}

/* What was loaded has been a hit; what came by the disk has been read from there before it counts. */
static void read_host(struct depth *depth, const struct table *table, size_t row)
{
	u64 loaded = table_number(table, row, "loaded");
	u64 from_disk = min_u64(table_number(table, row, "from_disk"), loaded);

	depth->value[DEPTH_HITS_HOST] = max_u64(depth->value[DEPTH_HITS_HOST], loaded - from_disk);
	depth->value[DEPTH_HITS_DISK] = max_u64(depth->value[DEPTH_HITS_DISK], from_disk);
	depth->value[DEPTH_OFFLOADED] = table_number(table, row, "stored");
	depth->value[DEPTH_LOADED] = loaded;
	depth->value[DEPTH_OFFLOADED_BYTES] = table_number(table, row, "stored_bytes");
	depth->value[DEPTH_LOADED_BYTES] = table_number(table, row, "loaded_bytes");
	depth->value[DEPTH_HOST_BLOCKS] = table_number(table, row, "blocks");
}

static int ask_tiers(struct depth *depth, struct client *client, const char *pool)
{
	struct table table;
	int err;

	if (!ask(client, "tiers", pool, &table, &err))
		return err;
	for (size_t i = 0; i < table.nr_rows; i++) {
		if (is_cell(&table, i, "tier", "host"))
			read_host(depth, &table, i);
		else if (is_cell(&table, i, "tier", "disk"))
			depth->value[DEPTH_DISK_BLOCKS] = table_number(&table, i, "blocks");
	}
	table_free(&table);
	return 0;
}

static int ask_pressure(struct depth *depth, struct client *client, const char *pool)
{
	struct table table;
	int err;

	if (!ask(client, "pressure", pool, &table, &err))
		return err;
	for (size_t i = 0; i < table.nr_rows; i++)
		if (is_cell(&table, i, "kind", "some"))
			depth->value[DEPTH_STALLED_US] = table_number(&table, i, "total_us");
	table_free(&table);
	return 0;
}

/* ---- how long things take ---- */

/* Rows that are out of order are not believed. */
static void add_bucket(struct times *times, const struct table *table, size_t row)
{
	u64 limit = is_cell(table, row, "up_to_ns", "-") ? TIME_OPEN :
		    table_number(table, row, "up_to_ns");

	if (times->nr == TIME_BUCKETS || limit > TIME_OPEN ||
	    (times->nr && limit <= times->limit_ns[times->nr - 1]))
		return;
	times->limit_ns[times->nr] = limit;
	times->count[times->nr++] = table_number(table, row, "count");
}

static int ask_times(struct depth *depth, struct client *client, const char *pool)
{
	struct table table;
	int err;

	memcpy(depth->before, depth->now, sizeof(depth->before));
	memset(depth->now, 0, sizeof(depth->now));
	if (!ask(client, "latencies", pool, &table, &err))
		return err;
	for (size_t i = 0; i < table.nr_rows; i++)
		for (u32 kind = 0; kind < NR_TIMES; kind++)
			if (is_cell(&table, i, "what", kinds[kind].name))
				add_bucket(&depth->now[kind], &table, i);
	table_free(&table);
	return 0;
}

/* In one bucket between two looks. A histogram that was empty then had no buckets. */
static u64 count_since(const struct times *then, const struct times *now, u32 i)
{
	return now->count[i] - min_u64(i < then->nr ? then->count[i] : 0, now->count[i]);
}

static u64 total_since(const struct times *then, const struct times *now)
{
	u64 nr = 0;

	for (u32 i = 0; i < now->nr; i++)
		nr += count_since(then, now, i);
	return nr;
}

/* 99 of 100 took no longer; 0 if there was none. */
static u64 p99_since(const struct times *then, const struct times *now)
{
	u64 nr = total_since(then, now), rank = DIV_ROUND_UP(nr * 99, 100), below = 0;
	u32 i = 0;

	if (!nr)
		return 0;
	while ((below += count_since(then, now, i)) < rank)
		i++;
	/* Beyond the last bound nobody knows how far. */
	return i && now->limit_ns[i] == TIME_OPEN ? 2 * now->limit_ns[i - 1] : now->limit_ns[i];
}

int depth_ask(struct depth *depth, struct client *client, const char *pool)
{
	int err = ask_tiers(depth, client, pool);

	if (!err)
		err = ask_pressure(depth, client, pool);
	if (!err)
		err = ask_times(depth, client, pool);
	if (err)
		return err;
	if (!depth->begun) {
		memcpy(depth->first, depth->now, sizeof(depth->first));
		memcpy(depth->before, depth->now, sizeof(depth->before));
		depth->begun = true;
	}
	for (u32 i = 0; i <= TIME_DISK; i++)
		depth->value[DEPTH_QUEUE_P99 + i] = p99_since(&depth->before[i], &depth->now[i]);
	return 0;
}

/* ---- in the end ---- */

static void put_times(struct recorder *rec, const char *words, const struct times *first,
		      const struct times *now)
{
	u64 nr = total_since(first, now);
	char *text = NULL;
	size_t bytes;
	FILE *out = nr ? open_memstream(&text, &bytes) : NULL;

	if (!out)
		return;
	fprintf(out, "{\"latency\":\"%s\",\"how\":\"measured\",\"unit\":\"ns\",\"complete\":true,\"n\":%llu,"
		     "\"buckets\":[", words, (unsigned long long)nr);
	for (u32 i = 0; i < now->nr; i++)
		fprintf(out, "%s[%llu,%llu]", i ? "," : "", (unsigned long long)now->limit_ns[i],
			(unsigned long long)count_since(first, now, i));
	fputs("]}", out);
	if (!fclose(out))
		recorder_line(rec, text);
	free(text);
}

/* Where the engine has gone the last look was before that. */
void depth_finish(const struct depth *depth, struct recorder *rec)
{
	for (u32 i = 0; i < NR_TIMES; i++)
		put_times(rec, kinds[i].words, &depth->first[i],
			  depth->now[i].nr ? &depth->now[i] : &depth->before[i]);
}
