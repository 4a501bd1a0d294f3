// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a recording. A whole stream and line by line must agree; what is accepted keeps what the
 * page relies on, and what is refused is explained.
 */
#define _GNU_SOURCE	/* fmemopen() */
#include "tests/fuzz/require.h"
#include "tests/report/decode.h"
#include "tools/report/recording.h"

/**
 * struct seen - what the second look found
 * @row: picture so far
 */
struct seen {
	struct recording again;
	struct cell *row;
	u32 nr_samples;
};

static void check_map(struct seen *seen, const struct recording *rec, const char *text, size_t bytes)
{
	char *line = strndup(text, bytes), *map = strstr(line, "\"map\"");

	require(map != NULL);
	map = strchr(map + strlen("\"map\""), '"') + 1;
	if (!seen->row)
		seen->row = calloc(rec->nr_cells, sizeof(*seen->row));
	require(decode_map(map, seen->row, rec->nr_cells));
	free(line);
}

static int look_again(void *arg, const struct recording *rec, const char *text, size_t bytes)
{
	struct seen *seen = arg;

	require(!recording_line(&seen->again, text, bytes));
	require(seen->again.line == rec->line && seen->again.nr_samples == rec->nr_samples);
	for (size_t i = 0; i < bytes; i++)
		require((text[i] >= 0x20 && text[i] < 0x7f) || text[i] == '\t');
	if (rec->nr_samples > seen->nr_samples && rec->nr_cells)
		check_map(seen, rec, text, bytes);
	seen->nr_samples = rec->nr_samples;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	FILE *in = bytes ? fmemopen((void *)(uintptr_t)data, bytes, "r") : NULL;
	struct seen seen = { .nr_samples = 0 };
	struct recording rec;
	int err;

	if (!in)
		return 0;
	err = recording_read(&rec, in, look_again, &seen);
	require(!err || (err == -EINVAL && rec.line > 0 && rec.why[0]));
	require(rec.nr_cells <= rec.nr_blocks || err);
	require(rec.nr_columns <= RECORDER_COLUMNS);
	free(seen.row);
	fclose(in);
	return 0;
}
