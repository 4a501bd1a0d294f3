// SPDX-License-Identifier: Apache-2.0
/* The tables that tools read from a control socket, good ones and others. */
#include "tests/support/test.h"
#include "tools/client/table.h"
#include "tools/plain.h"

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

static const char *plain(const char *from, size_t bytes)
{
	memcpy(text, from, bytes);
	text[bytes] = '\0';
	make_plain(text, bytes);
	return text;
}

#define PLAIN(from)	plain(from, sizeof(from) - 1)

Test(plain, characters_stay_as_they_are)
{
	cr_expect_str_eq(PLAIN("a\tb\n"), "a\tb\n");
	cr_expect_str_eq(PLAIN("\xc3\xa9 \xe2\x96\x80 \xf0\x9f\x98\x80"),
			 "\xc3\xa9 \xe2\x96\x80 \xf0\x9f\x98\x80");
}

Test(plain, what_a_terminal_acts_on_does_not)
{
	cr_expect_str_eq(PLAIN("\x1b[2J\r\x07\x7f"), "?[2J???");
	cr_expect_str_eq(PLAIN("\x9b" "2J \xc2\x9b" "2J"), "?2J ??2J");
	cr_expect_str_eq(PLAIN("\xe2\x80\xae" "gnp"), "???gnp");
}

Test(plain, a_word_is_part_of_a_line)
{
	char word[] = "a\tb\n\x1b[2J \xc3\xa9";

	make_plain_word(word);
	cr_expect_str_eq(word, "a?b??[2J \xc3\xa9");
}

Test(plain, bytes_that_are_no_characters_do_not)
{
	cr_expect_str_eq(PLAIN("a\0b"), "a?b");
	cr_expect_str_eq(PLAIN("\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80"), "?? ??? ????");
	cr_expect_str_eq(PLAIN("\xe2\x96"), "??");
	cr_expect_str_eq(PLAIN("\xff\xfe"), "??");
}
