// SPDX-License-Identifier: Apache-2.0
/* The tables that tools read from a control socket, good ones and others. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/client/table.h"

static struct table table;
static char text[512];

static int parse(const char *from)
{
	strcpy(text, from);
	return table_parse(&table, text);
}

static const char *printed(void (*print)(const struct table *table, FILE *out))
{
	static char out[1024];
	FILE *file = fmemopen(out, sizeof(out), "w");

	print(&table, file);
	fclose(file);
	return out;
}

Test(table, fields_are_found_by_the_names_of_columns)
{
	cr_assert_eq(parse("#pool:s\tfree\nalpha\t12\nbeta\t-\n"), 0);
	cr_expect_eq(table.nr_rows, 2);
	cr_expect_str_eq(table_cell(&table, 0, "pool"), "alpha");
	cr_expect_eq(table_number(&table, 0, "free"), 12);
	cr_expect_eq(table_number(&table, 1, "free"), 0);
	cr_expect_null(table_cell(&table, 2, "pool"));
	cr_expect_null(table_cell(&table, 0, "used"));
	table_free(&table);
}

Test(table, what_is_no_table_is_refused)
{
	cr_expect_eq(parse(""), -1);
	cr_expect_eq(parse("pool\n"), -1);
	cr_expect_eq(parse("#\n"), -1);
	cr_expect_eq(parse("#a\tb\n1\n"), -1);
	cr_expect_eq(parse("#a\tb\n1\t2\t3\n"), -1);
	cr_expect_eq(parse("#a\tb\n1\t2\n\n3\t4\n"), -1);
	cr_expect_eq(parse("#a"), 0);
	cr_expect_eq(table.nr_rows, 0);
	table_free(&table);
}

Test(table, json_has_numbers_where_numbers_are)
{
	cr_assert_eq(parse("#a:s\tb\tc\td\te\n7\t-12\t007\t3.25\t-\n\"\t1.\tx\\\t0\t12\n"), 0);
	cr_expect_str_eq(printed(table_print_json),
			 "[\n{\"a\": \"7\", \"b\": -12, \"c\": \"007\", \"d\": 3.25, \"e\": null},\n"
			 "{\"a\": \"\\\"\", \"b\": \"1.\", \"c\": \"x\\\\\", \"d\": 0, \"e\": 12}\n]\n");
	table_free(&table);
}

Test(table, people_get_columns)
{
	cr_assert_eq(parse("#pool:s\tfree\twhy\nalpha\t12\tx\nb\t1000000\tyyy\n"), 0);
	cr_expect_str_eq(printed(table_print), "pool      free  why\n"
						 "alpha       12  x\n"
						 "b      1000000  yyy\n");
	table_free(&table);
}
