// SPDX-License-Identifier: Apache-2.0
/*
 * The board as one HTML page: charts as inline SVG, made here so that the page says what it says
 * without a script; colours and theme from the page of the other modes.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"
#include "report.h"

__asm__(
	"	.section .rodata\n"
	"	.global compare_page\n"
	"	.hidden compare_page\n"
	"compare_page:\n"
	"	.incbin \"compare.html\"\n"
	"	.byte 0\n"
	"	.previous\n");

extern const char compare_page[];

#define WIDTH		900
#define HEIGHT		380
#define LEFT		48
#define RIGHT		14
#define TOP		10
#define BOTTOM		30

static void print_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '"')
			fputs("&quot;", out);
		else
			putc(*text, out);
	}
}

/* ---- the chart ---- */

/* Sizes differ by factors: a logarithmic axis. */
static double x_of(const struct board *board, u32 size)
{
	double first = log(board->size[0]), last = log(board->size[board->nr_sizes - 1]);
	double f = last > first ? (log(size) - first) / (last - first) : .5;

	return LEFT + f * (WIDTH - LEFT - RIGHT);
}

static double y_of(double rate, double top)
{
	return TOP + (1 - rate / top) * (HEIGHT - TOP - BOTTOM);
}

/* A round step, of which four to ten make the axis. */
static double step_of(double max)
{
	static const double step[] = { .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20 };
	size_t i = 0;

	while (i < ARRAY_SIZE(step) - 1 && step[i] * 10 < max)
		i++;
	return step[i];
}

static double highest(const struct board *board, u32 trace)
{
	double max = .05;

	for (u32 row = 0; row < board->row.nr; row++)
		for (u32 column = 0; column < board->nr_sizes; column++)
			max = fmax(max, rate_at(board, trace, row, column));
	return max;
}

static void print_axes(const struct board *board, double top, double step, FILE *out)
{
	char text[32];
	double last = -1000;

	for (double v = 0; v <= top * 1.0001; v += step)
		fprintf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g %%</text>\n",
			LEFT, WIDTH - RIGHT, y_of(v, top), y_of(v, top), LEFT - 6,
			y_of(v, top) + 4, round(v * 100) / 100);
	for (u32 column = 0; column < board->nr_sizes; column++) {
		double x = x_of(board, board->size[column]);

		fprintf(out, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n",
			x, x, TOP, HEIGHT - BOTTOM);
		if (x - last < 46)
			continue;
		fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x,
			HEIGHT - BOTTOM + 16, format_grouped(board->size[column], text));
		last = x;
	}
}

/* Neighbours in the legend get hues far apart. */
static void print_colour(u32 row, FILE *out)
{
	fprintf(out, "hsl(%.0f 62%% 52%%)", fmod(215 + row * 137.508, 360));
}

static const char *class_of(const struct board *board, u32 row)
{
	return row < first_reference(board) ? "curve" : "curve reference";
}

static const char *dashes_of(const struct board *board, u32 row)
{
	static const char *const dashes[NR_REFS] = { "7 4", "2 4", "1 6" };

	return row < first_reference(board) ? "none" : dashes[row - first_reference(board)];
}

static void print_curve(const struct board *board, u32 trace, u32 row, double top, FILE *out)
{
	char text[32];

	fprintf(out, "<g class=\"%s\" data-row=\"%u\" style=\"--c: ", class_of(board, row), row);
	print_colour(row, out);
	fprintf(out, "\"><polyline stroke-dasharray=\"%s\" points=\"", dashes_of(board, row));
	for (u32 column = 0; column < board->nr_sizes; column++)
		fprintf(out, "%s%.1f,%.1f", column ? " " : "", x_of(board, board->size[column]),
			y_of(rate_at(board, trace, row, column), top));
	fputs("\"/>", out);
	for (u32 column = 0; column < board->nr_sizes; column++) {
		fprintf(out, "<circle r=\"3.2\" cx=\"%.1f\" cy=\"%.1f\"><title>",
			x_of(board, board->size[column]),
			y_of(rate_at(board, trace, row, column), top));
		print_escaped(out, board->row.name[row]);
		fprintf(out, ", %s blocks: %.2f %%</title></circle>",
			format_grouped(board->size[column], text),
			rate_at(board, trace, row, column));
	}
	fputs("</g>\n", out);
}

static void print_legend(const struct board *board, FILE *out)
{
	fputs("<div class=\"legend\">", out);
	for (u32 row = 0; row < board->row.nr; row++) {
		fprintf(out, "<span data-row=\"%u\"><i class=\"%s\" style=\"background: ", row,
			class_of(board, row));
		if (row < first_reference(board))
			print_colour(row, out);
		else
			fputs("var(--dim)", out);
		fputs("\"></i>", out);
		print_escaped(out, board->row.name[row]);
		fputs("</span>\n", out);
	}
	fputs("</div>", out);
}

static void print_chart(const struct board *board, u32 trace, FILE *out)
{
	double step = step_of(highest(board, trace));
	double top = ceil(highest(board, trace) * 1.02 / step) * step;

	fputs("<section class=\"charts2\" data-chart><div class=\"head\"><h2>Hit rate of prompt "
	      "blocks, by blocks in the pool</h2></div>", out);
	print_legend(board, out);
	fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"hit rate over size\">\n",
		WIDTH, HEIGHT);
	print_axes(board, top, step, out);
	for (u32 row = board->row.nr; row--; )	/* policies over references, lru on top */
		print_curve(board, trace, row, top, out);
	fputs("</svg></section>\n", out);
}

/* ---- tables ---- */

static void print_heads(const struct board *board, const char *first, FILE *out)
{
	char text[32];

	fprintf(out, "<thead><tr><th>%s</th>", first);
	for (u32 column = 0; column < board->nr_sizes; column++)
		fprintf(out, "<th>%s</th>", format_grouped(board->size[column], text));
	fputs("</tr></thead>\n", out);
}

static void print_cell(const struct board *board, u32 trace, u32 row, u32 column, FILE *out)
{
	s64 ppm;

	fprintf(out, "<td class=\"n%s\">%.2f",
		is_best(board, trace, row, column) ? " best" : "",
		rate_at(board, trace, row, column));
	if (row < first_reference(board) && row != board->lru &&
	    gap_closed(board, trace, row, column, &ppm))
		fprintf(out, " <small>%s%+.1f</small></td>", ppm < -9990000 ? "&lt; " : "",
			fmax((double)ppm / 10000, -999));
	else
		fputs(" <small></small></td>", out);
}

static void print_row_head(const struct board *board, u32 row, FILE *out)
{
	fprintf(out, "<tr%s><th>", row < first_reference(board) ? "" : " class=\"reference\"");
	print_escaped(out, board->row.name[row]);
	fputs("</th>", out);
}

static void print_table(const struct board *board, u32 trace, FILE *out)
{
	fputs("<section><div class=\"head\"><h2>Hits, % of the prompt blocks</h2><p class=\"dim\">"
	      "bold: the best policy; small: % closed of the gap from lru to min</p></div>"
	      "<div class=\"scroll\"><table>", out);
	print_heads(board, "blocks", out);
	fputs("<tbody>", out);
	for (u32 row = 0; row < board->row.nr; row++) {
		print_row_head(board, row, out);
		for (u32 column = 0; column < board->nr_sizes; column++)
			print_cell(board, trace, row, column, out);
		fputs("</tr>\n", out);
	}
	fputs("</tbody></table></div></section>\n", out);
}

/* ---- ages ---- */

/* A histogram as small bars, one for each doubling; all of a column end at the same power. */
static void print_bars(const struct histogram *histogram, unsigned int nr, const char *class,
		       FILE *out)
{
	u64 max = 1;

	for (unsigned int k = 0; k < nr; k++)
		max = max_u64(max, histogram->bucket[k]);
	fprintf(out, "<td class=\"spark %s\"><svg viewBox=\"0 0 %u 26\" "
		"preserveAspectRatio=\"none\">", class, nr * 10);
	for (unsigned int k = 0; k < nr; k++) {
		double h = 26.0 * (double)histogram->bucket[k] / (double)max;

		fprintf(out, "<rect x=\"%u\" y=\"%.1f\" width=\"9\" height=\"%.1f\"><title>"
			"%s%llu: %llu</title></rect>", k * 10, 26 - h, h, k ? "below " : "",
			k ? 1ull << min_u64(k, 63) : 0ull,
			(unsigned long long)histogram->bucket[k]);
	}
	fputs("</svg></td>", out);
}

static unsigned int used_buckets(const struct histogram *histogram)
{
	unsigned int nr = HISTOGRAM_BUCKETS;

	while (nr > 1 && !histogram->bucket[nr - 1])
		nr--;
	return nr;
}

/* Most buckets that any row needs, for the idle times and for the distances. */
static void count_buckets(const struct board *board, u32 trace, u32 column, unsigned int nr[2])
{
	nr[0] = nr[1] = 1;
	for (u32 row = 0; row < first_reference(board) + REF_MIN + 1; row++) {
		const struct ages *ages = ages_at(board, trace, row, column);

		nr[0] = (unsigned int)max_u64(nr[0], used_buckets(&ages->idle_at_hit));
		nr[0] = (unsigned int)max_u64(nr[0], used_buckets(&ages->idle_at_eviction));
		nr[1] = (unsigned int)max_u64(nr[1], used_buckets(&ages->refault));
	}
}

static void print_ages_row(const struct ages *ages, u64 nr_blocks, const unsigned int nr[2],
			   FILE *out)
{
	print_bars(&ages->idle_at_hit, nr[0], "", out);
	print_bars(&ages->idle_at_eviction, nr[0], "cold", out);
	print_bars(&ages->refault, nr[1], "cold", out);
	fprintf(out, "<td class=\"n\">%.2f</td><td class=\"n\">%.1f</td></tr>\n",
		100 * share(ages->nr_near, nr_blocks),
		100 * share(ages->nr_unused, ages->nr_evictions));
}

static void print_ages(const struct board *board, u32 trace, u32 column, FILE *out)
{
	const char *unit = board->opt->conc ? "us" : "requests";
	unsigned int nr[2];
	char text[32];

	count_buckets(board, trace, column, nr);
	fprintf(out, "<section><details><summary>Ages with %s blocks</summary><div class=\"scroll\">"
		"<table><thead><tr><th></th><th class=\"spark\">idle at a hit, %s</th>"
		"<th class=\"spark\">idle at eviction, %s</th>"
		"<th class=\"spark\">refault distance, evictions</th><th>near refaults, %%</th>"
		"<th>evicted unused, %%</th></tr></thead><tbody>\n",
		format_grouped(board->size[column], text), unit, unit);
	for (u32 row = 0; row < first_reference(board) + REF_MIN + 1; row++) {
		print_row_head(board, row, out);
		print_ages_row(ages_at(board, trace, row, column), board->nr_blocks[trace], nr, out);
	}
	fputs("</tbody></table></div><p class=\"dim\">A bar for each doubling from 0 on. Near "
	      "refaults: blocks filled again within one pool's worth of evictions, of all prompt "
	      "blocks.</p></details></section>\n", out);
}

/* ---- the page ---- */

static void print_trace(const struct board *board, u32 trace, FILE *out)
{
	const struct options *opt = board->opt;
	char a[32], b[32];

	fprintf(out, "<header><div><h1>kvmm-replay <code>compare</code> ");
	print_escaped(out, board->trace[trace].name);
	fprintf(out, "</h1><p class=\"dim\">%s requests, %s; %s prompt blocks of %u tokens</p></div>",
		format_grouped(board->trace[trace].nr, a),
		opt->conc ? "side by side in time" : "one after the other",
		format_grouped(board->nr_blocks[trace], b), opt->block_tokens);
	if (!trace)
		fputs("<button id=\"theme\" type=\"button\">Dark / light</button>", out);
	fputs("</header>\n", out);
	print_chart(board, trace, out);
	print_table(board, trace, out);
	for (u32 column = 0; opt->ages && column < board->nr_sizes; column++)
		print_ages(board, trace, column, out);
}

int compare_write_page(const struct board *board, const char *path)
{
	static const char mark[] = "BODY\n";
	const char *cut = strstr(compare_page, mark);
	FILE *out = fopen(path, "w");
	int err = 0;

	if (!out)
		return -errno;
	report_print_style(out);
	fwrite(compare_page, 1, (size_t)(cut - compare_page), out);
	for (u32 t = 0; t < board->nr_traces; t++)
		print_trace(board, t, out);
	fputs(cut + strlen(mark), out);
	if (ferror(out))
		err = -EIO;
	if (fclose(out) && !err)
		err = -errno;
	return err;
}
