// SPDX-License-Identifier: Apache-2.0
/* Moments of a run, thinned out as it goes on. */
#include <stdlib.h>
#include <string.h>

#include "record.h"
#include "results.h"

static const char alphabet[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

static int film_init(struct film *film, u32 nr_cells)
{
	film->sample = calloc(RECORD_ROWS, sizeof(*film->sample));
	film->cells = calloc(RECORD_ROWS, nr_cells);
	return film->sample && film->cells ? 0 : -ENOMEM;
}

int record_begin(struct record *record, u32 nr_blocks, u32 nr_requests, const char *x_unit,
		 bool by_age)
{
	if (!record)
		return 0;
	memset(record, 0, sizeof(*record));
	record->nr_blocks = nr_blocks;
	record->nr_requests = nr_requests;
	record->nr_cells = (u32)min_u64(nr_blocks, RECORD_MAX_CELLS);
	record->x_unit = x_unit;
	record->by_age = by_age;
	record->row = malloc(record->nr_cells);
	if (!record->row || film_init(&record->whole, record->nr_cells) ||
	    film_init(&record->closeup, record->nr_cells))
		return -ENOMEM;		/* record_exit() takes what is there */
	return 0;
}

void record_exit(struct record *record)
{
	free(record->whole.sample);
	free(record->whole.cells);
	free(record->closeup.sample);
	free(record->closeup.cells);
	free(record->row);
	memset(record, 0, sizeof(*record));
}

bool record_due(struct record *record, u64 x, u32 q)
{
	if (!record)
		return false;
	record->whole.due = x >= record->whole.next_x;
	record->closeup.due = q >= record->nr_requests / 2 && x >= record->closeup.next_x &&
			      record->closeup.nr < RECORD_ROWS;
	return record->whole.due || record->closeup.due;
}

char *record_row(struct record *record)
{
	return memset(record->row, CELL_FREE, record->nr_cells);
}

static char *row_of(const struct record *record, const struct film *film, u32 row)
{
	return film->cells + (size_t)row * record->nr_cells;
}

/* Keep every other row; as many again will then last for the time that passed so far. */
static void thin_out(const struct record *record, struct film *film)
{
	u64 span = film->sample[film->nr - 1].x - film->sample[0].x;

	for (u32 i = 1; i * 2 < film->nr; i++) {
		film->sample[i] = film->sample[i * 2];
		memcpy(row_of(record, film, i), row_of(record, film, i * 2), record->nr_cells);
	}
	film->nr = DIV_ROUND_UP(film->nr, 2);
	film->step = span / film->nr;
}

static void film_add(const struct record *record, struct film *film, const struct sample *sample)
{
	if (!film->due)
		return;
	if (film->nr == RECORD_ROWS)
		thin_out(record, film);
	memcpy(row_of(record, film, film->nr), record->row, record->nr_cells);
	film->sample[film->nr++] = *sample;
	film->next_x = sample->x + max_u64(1, film->step);
}

void record_add(struct record *record, const struct sample *sample)
{
	film_add(record, &record->whole, sample);
	film_add(record, &record->closeup, sample);
}

void record_paint(struct record *record, u32 start, u32 nr, char colour)
{
	u64 n = record->nr_cells, blocks = record->nr_blocks;
	u64 cell = (u64)start * n / blocks;

	for (; cell < n && record_block(record, (u32)cell) < (u64)start + nr; cell++)
		if (record_block(record, (u32)cell) >= start)
			record->row[cell] = colour;
}

/* Neighbours in time get letters far apart, so that they also get colours far apart. */
char record_owner(u32 q)
{
	return alphabet[q * 29u % 64];
}

/* Six letters for each factor of 4, so that both minutes and hours can be told apart. */
char record_age(u64 age)
{
	u32 level = 0;

	for (age++; age >= 4 && level < 56; age /= 4)
		level += 6;
	return alphabet[min_u64(63, level + (age - 1) * 2)];
}

static void print_column(const struct film *film, FILE *out, const char *name, size_t offset)
{
	fprintf(out, "\"%s\":[", name);
	for (u32 i = 0; i < film->nr; i++) {
		u64 v;

		memcpy(&v, (const char *)&film->sample[i] + offset, sizeof(v));
		fprintf(out, "%s%llu", i ? "," : "", (unsigned long long)v);
	}
	fputs("],\n", out);
}

static void print_film(const struct record *record, const struct film *film, FILE *out)
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

	putc('{', out);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		print_column(film, out, columns[i].name, columns[i].offset);
	fputs("\"map\":[", out);
	for (u32 i = 0; i < film->nr; i++)
		fprintf(out, "%s\n\"%.*s\"", i ? "," : "", (int)record->nr_cells,
			row_of(record, film, i));
	fputs("]}", out);
}

void record_print(const struct record *record, FILE *out)
{
	fprintf(out, "\"blocks\":%u,\n\"cells\":%u,\n\"byAge\":%s,\n\"unit\":", record->nr_blocks,
		record->nr_cells, record->by_age ? "true" : "false");
	print_json_string(out, record->x_unit);
	fputs(",\n\"whole\":", out);
	print_film(record, &record->whole, out);
	fputs(",\n\"closeup\":", out);
	print_film(record, &record->closeup, out);
}
