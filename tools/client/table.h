/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table as the control socket sends it: a line a row, tabs between fields, '#' and the names first.
 *
 * The text is cut up in place. A row with too few fields, or too many, is no table.
 */
#ifndef TOOLS_CLIENT_TABLE_H
#define TOOLS_CLIENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TABLE_COLUMNS	128u

/**
 * struct table - rows of fields
 * @name: of columns, in the text; without ":s"
 * @is_text: of columns: ":s" stood behind the name
 * @cell: ours; @nr_rows times @nr_columns, in the text
 * @text: ours; NULL: the caller has it
 */
struct table {
	unsigned int nr_columns;
	size_t nr_rows;
	const char *name[TABLE_COLUMNS];
	bool is_text[TABLE_COLUMNS];
	const char **cell;
	char *text;
};

/* @text ends with a NUL, and is the caller's, for as long as the table is used. 0, or -1: it is none. */
int table_parse(struct table *table, char *text);
void table_free(struct table *table);

/* A field by the name of its column; NULL: there is none. */
const char *table_cell(const struct table *table, size_t row, const char *name);
/* As a number; 0 where there is none. */
uint64_t table_number(const struct table *table, size_t row, const char *name);

/* For people: columns as wide as they have to be, numbers to the right. */
void table_print(const struct table *table, FILE *out);
/* The same, a line for each field: for rows that are longer than a line. */
void table_print_fields(const struct table *table, FILE *out);
/* How long the lines of table_print() are. */
unsigned int table_width(const struct table *table);
/* For programs: an array of objects, a row each; "-" is null. */
void table_print_json(const struct table *table, FILE *out);

#endif /* TOOLS_CLIENT_TABLE_H */
