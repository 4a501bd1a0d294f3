// SPDX-License-Identifier: Apache-2.0
/* Replies, whole and in pieces, and what is none. */
#include <stdio.h>
#include <string.h>

#include "remote/resp.h"
#include "tests/support/test.h"

/* As what @text, in pieces of @piece bytes, is read: "+", "-", ":1", "$3abc.", "_"; "!": bad. */
static const char *read_as(const char *text, size_t piece)
{
	static char line[256];
	struct resp resp = { 0 };
	size_t len = strlen(text), nr = 0;
	s64 number = 0;

	for (size_t from = 0; from < len; from += piece) {
		const u8 *at = (const u8 *)text + from, *end = at + min(piece, len - from);
		enum resp_kind kind;

		while ((kind = resp_next(&resp, &at, end, &number)) != RESP_MORE) {
			if (kind == RESP_BODY) {
				line[nr++] = (char)*at++;
				resp_take(&resp, 1);
				continue;
			}
			line[nr++] = "?+-:_$?.!"[kind];
			if (kind == RESP_NUMBER || kind == RESP_BULK)
				nr += (size_t)sprintf(line + nr, "%lld", (long long)number);
			if (kind == RESP_BAD)
				goto out;
		}
		cr_expect_eq(at, end, "all is taken");
	}
out:
	line[nr] = '\0';
	return line;
}

static void expect_read(const char *text, const char *as)
{
	for (size_t piece = 1; piece <= strlen(text); piece++)
		cr_expect_str_eq(read_as(text, piece), as, "%.40s in pieces of %zu", text, piece);
}

Test(resp, replies_of_each_kind_are_read_however_they_are_cut)
{
	expect_read("+OK\r\n", "+");
	expect_read("+\r\n:0\r\n", "+:0");
	expect_read("-ERR no such\r\n", "-");
	expect_read(":123\r\n:-7\r\n", ":123:-7");
	expect_read("$3\r\nabc\r\n", "$3abc.");
	expect_read("$0\r\n\r\n+\r\n", "$0.+");
	expect_read("$-1\r\n$4\r\n\r\n\r\n\r\n:1\r\n", "_$4\r\n\r\n.:1");
}

Test(resp, what_is_no_reply_is_bad_and_so_is_all_behind_it)
{
	static const char *const bad[] = {
		"*1\r\n", "OK\r\n", "\r\n", "\n", ":\r\n", ":-\r\n", ":+1\r\n", ":1 \r\n",
		":01\r\n", ":-0\r\n", ":1234567890123456789\r\n", "$-2\r\n", "$536870913\r\n",
		"$\r\n", "$1x\r\n", "+a\rb\r\n", "+a\n", "+a\r\r\n", "_\r\n", "%1\r\n", "#t\r\n",
	};

	for (u32 i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (size_t piece = 1; piece < 4; piece++)
			cr_expect_str_eq(read_as(bad[i], piece), "!", "%s", bad[i]);
	expect_read("$1\r\nab\r\n", "$1a!");
	expect_read("$1\r\na\r+OK\r\n", "$1a!");
}

Test(resp, a_line_may_be_long_but_not_too_long)
{
	char text[RESP_LINE + 3] = "-";

	memset(text + 1, 'x', RESP_LINE - 2);
	strcpy(text + RESP_LINE - 1, "\r\n");
	expect_read(text, "-");
	memset(text + 1, 'x', RESP_LINE - 1);
	strcpy(text + RESP_LINE, "\r\n");
	expect_read(text, "!");
}

Test(resp, a_reader_that_met_something_bad_stays_bad)
{
	struct resp resp = { 0 };
	const u8 *at = (const u8 *)"?\r\n+OK\r\n", *end = at + 8;
	s64 number;

	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(resp_next(&resp, &at, end, &number), RESP_BAD);
}
