// SPDX-License-Identifier: Apache-2.0
/* The board as tables for people and as lines of JSON. */
#include <stdio.h>
#include <string.h>

#include "compare.h"

/**
 * struct table - one table of a trace
 * @title: what the numbers are
 * @cell: text of a field
 * @nr_rows: how many of the rows it is about
 */
struct table {
	const char *title;
	void (*cell)(const struct board *board, u32 trace, u32 row, u32 column, char text[16]);
	u32 nr_rows;
};

static void rate_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	snprintf(text, 16, "%.2f%c", rate_at(board, trace, row, column),
		 is_best(board, trace, row, column) ? '*' : ' ');
}

static void gap_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	s64 ppm;

	/* Where lru leaves next to nothing to be gained, to fall back is to fall far. */
	if (gap_closed(board, trace, row, column, &ppm))
		snprintf(text, 16, "%s%.1f ", ppm < -9990000 ? "< " : "",
			 (double)(ppm < -9990000 ? -9990000 : ppm) / 10000);
	else
		strcpy(text, "- ");
}

static void hit_age_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	const struct ages *ages = ages_at(board, trace, row, column);

	snprintf(text, 16, "%llu ",
		 (unsigned long long)histogram_within(&ages->idle_at_hit, 50));
}

static void eviction_age_cell(const struct board *board, u32 trace, u32 row, u32 column,
			      char text[16])
{
	const struct ages *ages = ages_at(board, trace, row, column);

	snprintf(text, 16, "%llu ",
		 (unsigned long long)histogram_within(&ages->idle_at_eviction, 50));
}

static void near_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	const struct ages *ages = ages_at(board, trace, row, column);

	snprintf(text, 16, "%.2f ", 100 * share(ages->nr_near, board->nr_blocks[trace]));
}

static void unused_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	const struct ages *ages = ages_at(board, trace, row, column);

	snprintf(text, 16, "%.1f ", 100 * share(ages->nr_unused, ages->nr_evictions));
}

static const struct tally *tally_at(const struct board *board, u32 trace, u32 row, u32 column)
{
	return &job_at(board, trace, row, column)->tally;
}

static void share_cell(const struct board *board, u32 trace, u64 hits, char text[16])
{
	snprintf(text, 16, "%.2f ", 100 * share(hits, board->nr_blocks[trace]));
}

static void device_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	share_cell(board, trace, tally_at(board, trace, row, column)->device_hits, text);
}

static void host_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	share_cell(board, trace, tally_at(board, trace, row, column)->host_hits, text);
}

static void disk_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	share_cell(board, trace, tally_at(board, trace, row, column)->disk_hits, text);
}

static void down_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	snprintf(text, 16, "%.1f ", (double)tally_at(board, trace, row, column)->down_bytes / 1e9);
}

static void up_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	snprintf(text, 16, "%.1f ", (double)tally_at(board, trace, row, column)->up_bytes / 1e9);
}

static void write_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	snprintf(text, 16, "%.1f ", (double)tally_at(board, trace, row, column)->write_bytes / 1e9);
}

static void read_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	snprintf(text, 16, "%.1f ", (double)tally_at(board, trace, row, column)->read_bytes / 1e9);
}

static void stall_cell(const struct board *board, u32 trace, u32 row, u32 column, char text[16])
{
	snprintf(text, 16, "%.3f ", (double)tally_at(board, trace, row, column)->stall_us / 1e6);
}

static int name_width(const struct board *board)
{
	size_t width = 8;

	for (u32 row = 0; row < board->row.nr; row++)
		width = max_u64(width, strlen(board->row.name[row]));
	return (int)width;
}

static void print_table(const struct board *board, u32 trace, const struct table *table, FILE *out)
{
	int width = name_width(board);
	char text[32];

	fprintf(out, "\n%s\n%-*s", table->title, width, "blocks");
	for (u32 column = 0; column < board->nr_sizes; column++)
		fprintf(out, " %8s ", format_grouped(board->size[column], text));
	putc('\n', out);
	for (u32 row = 0; row < table->nr_rows; row++) {
		fprintf(out, "%-*s", width, board->row.name[row]);
		for (u32 column = 0; column < board->nr_sizes; column++) {
			table->cell(board, trace, row, column, text);
			fprintf(out, " %9s", text);
		}
		putc('\n', out);
	}
}

static void print_rejected(const struct board *board, u32 trace, FILE *out)
{
	char a[32], b[32];

	for (u32 column = 0; column < board->nr_sizes; column++) {
		u64 nr = job_at(board, trace, board->lru, column)->tally.rejected;

		if (nr)
			fprintf(out, "%s requests are larger than %s blocks\n",
				format_grouped(nr, a), format_grouped(board->size[column], b));
	}
}

static void print_ages(const struct board *board, u32 trace, FILE *out)
{
	u32 nr = first_reference(board) + REF_MIN + 1;
	bool conc = board->opt->conc;
	const struct table tables[] = {
		{ conc ? "half of the hits: idle for at most, us" :
			 "half of the hits: idle for at most, requests", hit_age_cell, nr },
		{ conc ? "half of the evictions: idle for at most, us" :
			 "half of the evictions: idle for at most, requests",
		  eviction_age_cell, nr },
		{ "refilled within one pool's worth of evictions, % of the prompt blocks",
		  near_cell, nr },
		{ "evicted without a hit, % of the evictions", unused_cell, nr },
	};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		print_table(board, trace, &tables[i], out);
}

static void print_tiers(const struct board *board, u32 trace, FILE *out)
{
	const struct options *opt = board->opt;
	u32 nr = first_reference(board);
	const struct table tables[] = {
		{ "hits in the device, % of the prompt blocks", device_cell, nr },
		{ "hits on the host, %", host_cell, nr },
		{ "device to host, GB", down_cell, nr },
		{ "host to device, GB", up_cell, nr },
		{ "stalls, s", stall_cell, nr },
		{ "hits on disk, % of the prompt blocks", disk_cell, nr },
		{ "host to disk, GB", write_cell, nr },
		{ "disk to host, GB", read_cell, nr },
	};
	char a[32], b[32];

	fprintf(out, "\nhost of %s blocks, disk of %s; min, bound, infinite: one tier of as many\n",
		format_grouped(opt->host_blocks, a), format_grouped(opt->disk_blocks, b));
	for (size_t i = 0; i < (opt->disk_blocks ? ARRAY_SIZE(tables) : 5); i++)
		print_table(board, trace, &tables[i], out);
}

static void print_trace(const struct board *board, u32 trace, FILE *out)
{
	const struct options *opt = board->opt;
	const struct table rates = {
		"hits, % of the prompt blocks (* best policy)", rate_cell, board->row.nr,
	};
	const struct table gaps = {
		"closed of the gap from lru to min, %", gap_cell, first_reference(board),
	};
	char a[32], b[32];

	fprintf(out, "%s: %s requests, %s prompt blocks of %u tokens, %s\n",
		board->trace[trace].name, format_grouped(board->trace[trace].nr, a),
		format_grouped(board->nr_blocks[trace], b), opt->block_tokens,
		opt->conc ? "side by side in time" : "one after the other");
	if (!board->trace[trace].ids)
		fputs("no block numbers in it: every prompt is new\n", out);
	print_rejected(board, trace, out);
	print_table(board, trace, &rates, out);
	print_table(board, trace, &gaps, out);
	if (opt->host_blocks)
		print_tiers(board, trace, out);
	if (opt->ages)
		print_ages(board, trace, out);
}

void compare_print_text(const struct board *board, FILE *out)
{
	for (u32 t = 0; t < board->nr_traces; t++) {
		fputs(t ? "\n" : "", out);
		print_trace(board, t, out);
	}
}

/* Where the run stands among the others. */
static void describe_run(const struct board *board, u32 trace, u32 row, u32 column)
{
	struct results *results = &job_at(board, trace, row, column)->results;
	char text[32] = "null";
	s64 ppm;

	results_num(results, "prompt_blocks", board->nr_blocks[trace]);
	if (board->opt->host_blocks)
		results_num(results, "device_blocks", board->size[column]);
	results_bool(results, "reference", row >= first_reference(board));
	if (!is_infinite(board, row) && gap_closed(board, trace, row, column, &ppm))
		snprintf(text, sizeof(text), "%lld", (long long)ppm);
	results_raw(results, "gap_closed_ppm", text);
	results_bool(results, "best", is_best(board, trace, row, column));
}

void compare_describe(const struct board *board)
{
	for (u32 t = 0; t < board->nr_traces; t++)
		for (u32 row = 0; row < board->row.nr; row++)
			for (u32 column = 0; column < board->nr_sizes; column++)
				if (!is_infinite(board, row) || !column)
					describe_run(board, t, row, column);
}

void compare_print_json(const struct board *board, FILE *out)
{
	for (u32 t = 0; t < board->nr_traces; t++)
		for (u32 row = 0; row < board->row.nr; row++)
			for (u32 column = 0; column < board->nr_sizes; column++)
				if (!is_infinite(board, row) || !column)
					results_print_json(&job_at(board, t, row, column)->results, out);
}
