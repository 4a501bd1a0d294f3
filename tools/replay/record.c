// SPDX-License-Identifier: Apache-2.0
/* Moments of a run, thinned out as it goes on. */
#include <stdlib.h>
#include <string.h>

#include "record.h"
#include "results.h"

static const char alphabet[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

int record_init(struct record *record)
{
	memset(record, 0, sizeof(*record));
	record->sample = calloc(RECORD_ROWS, sizeof(*record->sample));
	return record->sample ? 0 : -ENOMEM;
}

int record_begin(struct record *record, u32 nr_blocks, const char *x_unit, bool by_age)
{
	if (!record)
		return 0;
	record->nr_blocks = nr_blocks;
	record->nr_cells = (u32)min_u64(nr_blocks, RECORD_MAX_CELLS);
	record->x_unit = x_unit;
	record->by_age = by_age;
	record->cells = malloc((size_t)RECORD_ROWS * record->nr_cells);
	return record->cells ? 0 : -ENOMEM;
}

void record_exit(struct record *record)
{
	free(record->sample);
	free(record->cells);
	memset(record, 0, sizeof(*record));
}

static char *row_of(const struct record *record, u32 row)
{
	return record->cells + (size_t)row * record->nr_cells;
}

/* Keep every other row; as many again will then last for the time that passed so far. */
static void thin_out(struct record *record)
{
	u64 span = record->sample[record->nr - 1].x - record->sample[0].x;

	for (u32 i = 1; i * 2 < record->nr; i++) {
		record->sample[i] = record->sample[i * 2];
		memcpy(row_of(record, i), row_of(record, i * 2), record->nr_cells);
	}
	record->nr = DIV_ROUND_UP(record->nr, 2);
	record->step = max_u64(1, span / record->nr);
}

char *record_add(struct record *record, const struct sample *sample)
{
	char *cells;

	if (record->nr == RECORD_ROWS)
		thin_out(record);
	record->sample[record->nr] = *sample;
	record->next_x = sample->x + max_u64(1, record->step);
	cells = row_of(record, record->nr++);
	memset(cells, CELL_FREE, record->nr_cells);
	return cells;
}

void record_paint(const struct record *record, char *cells, u32 start, u32 nr, char colour)
{
	u64 n = record->nr_cells, blocks = record->nr_blocks;
	u64 cell = (u64)start * n / blocks;

	for (; cell < n && record_block(record, (u32)cell) < (u64)start + nr; cell++)
		if (record_block(record, (u32)cell) >= start)
			cells[cell] = colour;
}

/* Neighbours in time get letters far apart, so that they also get colours far apart. */
char record_owner(u32 q)
{
	return alphabet[q * 29u % 64];
}

/* Eight letters for each factor of 4, so that both minutes and hours can be told apart. */
char record_age(u64 age)
{
	u32 level = 0;

	for (age++; age >= 4 && level < 56; age /= 4)
		level += 6;
	return alphabet[min_u64(63, level + (age - 1) * 2)];
}

static void print_column(const struct record *record, FILE *out, const char *name, size_t offset)
{
	fprintf(out, ",\n\"%s\":[", name);
	for (u32 i = 0; i < record->nr; i++) {
		u64 v;

		memcpy(&v, (const char *)&record->sample[i] + offset, sizeof(v));
		fprintf(out, "%s%llu", i ? "," : "", (unsigned long long)v);
	}
	putc(']', out);
}

void record_print(const struct record *record, FILE *out)
{
	static const struct {
		const char *name;
		size_t offset;
	} columns[] = {
		{ "x", offsetof(struct sample, x) },
		{ "held", offsetof(struct sample, held) },
		{ "cached", offsetof(struct sample, cached) },
		{ "largest", offsetof(struct sample, largest) },
		{ "runs", offsetof(struct sample, runs) },
		{ "fails", offsetof(struct sample, nr_fails) },
		{ "moved", offsetof(struct sample, nr_moved) },
		{ "hits", offsetof(struct sample, nr_hits) },
		{ "accesses", offsetof(struct sample, nr_accesses) },
		{ "evicted", offsetof(struct sample, nr_evicted) },
	};

	fprintf(out, "\"blocks\":%u,\n\"cells\":%u,\n\"byAge\":%s,\n\"unit\":", record->nr_blocks,
		record->nr_cells, record->by_age ? "true" : "false");
	print_json_string(out, record->x_unit ? record->x_unit : "");
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		print_column(record, out, columns[i].name, columns[i].offset);
	fputs(",\n\"map\":[", out);
	for (u32 i = 0; i < record->nr; i++)
		fprintf(out, "%s\n\"%.*s\"", i ? "," : "", (int)record->nr_cells,
			row_of(record, i));
	putc(']', out);
}
