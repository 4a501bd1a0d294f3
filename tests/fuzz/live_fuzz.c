// SPDX-License-Identifier: Apache-2.0
/*
 * An engine that says anything to who records it, or takes a snapshot of it. Each answer is a portion of the
 * input: its first byte says whether it comes, and which head is put before it, since random bytes hardly
 * ever are one; it ends at the next 0xff. What is recorded then can be read, and a snapshot tells each
 * block once.
 */
#include <stdarg.h>

#include <kvmm/ext/control.h>

#include "tests/fuzz/require.h"
#include "tools/client/table.c"
#include "tools/dump/depth.h"
#include "tools/dump/fetch.c"
#include "tools/report/recording.h"

static const uint8_t *at;
static size_t left;

/* ---- the engine ---- */

static const char *const heads[] = {
	"", "#pool:s\ttier:s\tblocks\tstored\tloaded\tfrom_disk\n", "#pool:s\twhat:s\tup_to_ns\tcount\n",
	"#pool:s\twhat:s\tup_to_ns\tcount\nk\tload\t1000\t3\nk\tload\t2000\t0\n",
	"#pool:s\tkind:s\ttotal_us\n", "#pool:s\tblocks\tblock_bytes\nk\t64\t4096\n",
	"#first\tcount\tstate\tkey:s\n", "#first\tcount\tstate\n0\t64\tfree\n",
	KVMM_EVENT_COLUMNS "\n",
};

int client_fail(struct client *client, const char *why)
{
	snprintf(client->why, sizeof(client->why), "%s", why);
	return -1;
}

int client_ask(struct client *client, struct answer *answer, const char *line)
{
	const uint8_t *end = left > 1 ? memchr(at + 1, 0xff, left - 1) : NULL;
	size_t nr = end ? (size_t)(end - at) - 1 : left ? left - 1 : 0, head;
	uint8_t kind = left ? *at : 255;

	if (kind == 255)
		return client_fail(client, "gone");
	*answer = (struct answer){ .err = kind == 254 ? 22 : 0 };
	head = strlen(heads[kind % ARRAY_SIZE(heads)]);
	answer->bytes = head + nr;
	answer->text = malloc(answer->bytes + 1);
	require(answer->text);
	memcpy(answer->text, heads[kind % ARRAY_SIZE(heads)], head);
	memcpy(answer->text + head, at + 1, nr);
	answer->text[answer->bytes] = '\0';
	at += nr + 1 + (end != NULL);
	left -= nr + 1 + (end != NULL);
	return 0;
}

void answer_free(struct answer *answer)
{
	free(answer->text);
	answer->text = NULL;
}

int client_call(struct client *client, struct answer *answer, const char *format, ...)
{
	int err = client_ask(client, answer, format);

	if (!err && answer->err) {
		answer_free(answer);
		return client_fail(client, "refused");
	}
	return err;
}

int client_table(struct client *client, struct table *table, const char *format, ...)
{
	struct answer answer;

	if (client_call(client, &answer, "%s", format))
		return -1;
	if (table_parse(table, answer.text)) {
		answer_free(&answer);
		return client_fail(client, "no table");
	}
	table->text = answer.text;
	return 0;
}

int client_pool(struct client *client, struct table *table, const char *what, const char *pool)
{
	int err = client_table(client, table, "stat");

	if (err || (table->nr_rows == 1 && table_cell(table, 0, "pool")))
		return err;
	table_free(table);
	return client_fail(client, "no pool");
}

/* ---- who looks ---- */

static int good_line(void *arg, const struct recording *rec, const char *text, size_t bytes)
{
	return 0;
}

static void record(struct client *client)
{
	struct recorder_attr attr = {
		.source = "fuzz", .x_unit = "us", .columns = depth_columns,
		.nr_columns = NR_DEPTH_COLUMNS, .every = 1,
	};
	static struct depth depth;
	struct recording reading;
	struct recorder rec;
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	memset(&depth, 0, sizeof(depth));
	attr.out = file;
	require(file && !recorder_begin(&rec, &attr));
	for (u64 x = 0; x < 20 && !depth_ask(&depth, client, "k"); x++)
		recorder_add(&rec, x, depth.value);
	depth_finish(&depth, &rec);
	require(!recorder_end(&rec));
	fclose(file);
	file = fmemopen(text, bytes, "r");
	require(file && !recording_read(&reading, file, good_line, NULL) && reading.ended);
	fclose(file);
	free(text);
}

static void take_snapshot(struct client *client)
{
	struct snap snap;
	uint32_t next = 0;

	if (snap_fetch(&snap, client, "k")) {
		require(snap.why[0]);
	} else {
		for (size_t i = 0; i < snap.nr; i++) {
			require(snap.row[i].first == next && snap.row[i].nr);
			next += snap.row[i].nr;
		}
		require(next == snap.nr_blocks);
		for (size_t i = 0; i < snap.nr_below; i++)
			require(snap.below[i].medium < SNAP_NR_MEDIA);
	}
	snap_free(&snap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct client client = { .name = "fuzz" };

	at = data + 1;
	left = bytes ? bytes - 1 : 0;
	if (bytes && *data & 1)
		record(&client);
	else
		take_snapshot(&client);
	return 0;
}
