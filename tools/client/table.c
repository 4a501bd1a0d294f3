// SPDX-License-Identifier: Apache-2.0
/* Tables: out of a text, and onto paper. */
#include <stdlib.h>
#include <string.h>

#include "../json.h"
#include "table.h"

/* ---- parsing ---- */

/* Cut off the line at @text: what is behind it, or NULL: nothing is. */
static char *cut_line(char *text)
{
	char *end = strchr(text, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	return end[1] ? end + 1 : NULL;
}

/* Cut @line at its tabs: how many fields, which may be more than @max. */
static unsigned int cut_fields(char *line, const char **field, unsigned int max)
{
	unsigned int nr = 0;

	for (char *end; line; line = end) {
		end = strchr(line, '\t');
		if (end)
			*end++ = '\0';
		if (nr < max)
			field[nr] = line;
		nr++;
	}
	return nr;
}

static int parse_head(struct table *table, char *line)
{
	unsigned int nr;

	if (*line != '#')
		return -1;
	nr = cut_fields(line + 1, table->name, TABLE_COLUMNS);
	if (nr > TABLE_COLUMNS)
		return -1;
	table->nr_columns = nr;
	for (unsigned int i = 0; i < nr; i++) {
		char *name = line + (table->name[i] - line);
		size_t len = strlen(name);

		table->is_text[i] = len > 2 && !strcmp(name + len - 2, ":s");
		if (table->is_text[i])
			name[len - 2] = '\0';
		if (!*name)
			return -1;
	}
	return 0;
}

static size_t count_lines(const char *text)
{
	size_t nr = 0;

	for (const char *end; text && *text; text = end ? end + 1 : NULL) {
		end = strchr(text, '\n');
		nr++;
	}
	return nr;
}

int table_parse(struct table *table, char *text)
{
	char *rest = cut_line(text);
	size_t nr = count_lines(rest);

	*table = (struct table){ 0 };
	if (parse_head(table, text))
		return -1;
	table->cell = calloc(nr * table->nr_columns + 1, sizeof(*table->cell));
	if (!table->cell)
		return -1;
	while (rest) {
		char *line = rest;

		rest = cut_line(line);
		if (cut_fields(line, table->cell + table->nr_rows * table->nr_columns,
			       table->nr_columns) != table->nr_columns) {
			table_free(table);
			return -1;
		}
		table->nr_rows++;
	}
	return 0;
}

void table_free(struct table *table)
{
	free(table->cell);
	free(table->text);
	*table = (struct table){ 0 };
}

const char *table_cell(const struct table *table, size_t row, const char *name)
{
	for (unsigned int i = 0; i < table->nr_columns && row < table->nr_rows; i++)
		if (!strcmp(table->name[i], name))
			return table->cell[row * table->nr_columns + i];
	return NULL;
}

uint64_t table_number(const struct table *table, size_t row, const char *name)
{
	const char *cell = table_cell(table, row, name);

	return cell && *cell != '-' ? strtoull(cell, NULL, 10) : 0;
}

/* ---- printing ---- */

/* A number as JSON has them: -12, 3.25; no leading zeros. */
static bool is_number(const char *cell)
{
	size_t whole;

	cell += *cell == '-';
	whole = strspn(cell, "0123456789");
	if (!whole || (whole > 1 && *cell == '0'))
		return false;
	cell += whole;
	if (*cell == '.') {
		size_t part = strspn(cell + 1, "0123456789");

		if (!part)
			return false;
		cell += 1 + part;
	}
	return !*cell;
}

static void print_value(const char *cell, bool is_text, FILE *out)
{
	if (!strcmp(cell, "-"))
		fputs("null", out);
	else if (!is_text && is_number(cell))
		fputs(cell, out);
	else
		json_string(cell, out);
}

void table_print_json(const struct table *table, FILE *out)
{
	putc('[', out);
	for (size_t row = 0; row < table->nr_rows; row++) {
		fputs(row ? ",\n{" : "\n{", out);
		for (unsigned int i = 0; i < table->nr_columns; i++) {
			fputs(i ? ", " : "", out);
			json_string(table->name[i], out);
			fputs(": ", out);
			print_value(table->cell[row * table->nr_columns + i], table->is_text[i], out);
		}
		putc('}', out);
	}
	fputs("\n]\n", out);
}

static int width_of(const struct table *table, unsigned int column)
{
	size_t width = strlen(table->name[column]);

	for (size_t row = 0; row < table->nr_rows; row++) {
		size_t len = strlen(table->cell[row * table->nr_columns + column]);

		width = len > width ? len : width;
	}
	return (int)width;
}

static void print_line(const struct table *table, const char *const *cell, const int *width,
		       FILE *out)
{
	for (unsigned int i = 0; i < table->nr_columns; i++) {
		bool left = table->is_text[i] || i + 1 == table->nr_columns;

		fputs(i ? "  " : "", out);
		if (left && i + 1 == table->nr_columns)
			fputs(cell[i], out);
		else
			fprintf(out, "%*s", left ? -width[i] : width[i], cell[i]);
	}
	putc('\n', out);
}

void table_print(const struct table *table, FILE *out)
{
	int width[TABLE_COLUMNS];

	for (unsigned int i = 0; i < table->nr_columns; i++)
		width[i] = width_of(table, i);
	print_line(table, table->name, width, out);
	for (size_t row = 0; row < table->nr_rows; row++)
		print_line(table, table->cell + row * table->nr_columns, width, out);
}

unsigned int table_width(const struct table *table)
{
	unsigned int width = 0;

	for (unsigned int i = 0; i < table->nr_columns; i++)
		width += (i ? 2 : 0) + (unsigned int)width_of(table, i);
	return width;
}

void table_print_fields(const struct table *table, FILE *out)
{
	int width = 0;

	for (unsigned int i = 0; i < table->nr_columns; i++)
		width = (int)strlen(table->name[i]) > width ? (int)strlen(table->name[i]) : width;
	for (size_t row = 0; row < table->nr_rows; row++) {
		fputs(row ? "\n" : "", out);
		for (unsigned int i = 0; i < table->nr_columns; i++)
			fprintf(out, "%-*s  %s\n", width, table->name[i],
				table->cell[row * table->nr_columns + i]);
	}
}
