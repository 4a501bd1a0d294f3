// SPDX-License-Identifier: Apache-2.0
/* JSON, read from left to right. */
#include <string.h>

#include "scan.h"

bool scan_fail(struct scan *scan, const char *why)
{
	if (!scan->why)
		scan->why = why;
	return false;
}

static char byte_at(const struct scan *scan)
{
	return scan->at < scan->end ? *scan->at : '\0';
}

char scan_peek(struct scan *scan)
{
	while (byte_at(scan) == ' ' || byte_at(scan) == '\t')
		scan->at++;
	return byte_at(scan);
}

bool scan_if(struct scan *scan, char wanted)
{
	if (scan_peek(scan) != wanted || scan->at == scan->end)
		return false;
	scan->at++;
	return true;
}

bool scan_take(struct scan *scan, char wanted)
{
	if (scan_if(scan, wanted))
		return true;
	switch (wanted) {
	case '{':	return scan_fail(scan, "not an object");
	case '[':	return scan_fail(scan, "not an array");
	case ']':	return scan_fail(scan, "an array without an end");
	case '}':	return scan_fail(scan, "an object without an end");
	case ':':	return scan_fail(scan, "a name without a colon");
	default:	return scan_fail(scan, "a comma is missing");
	}
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Behind a backslash. */
static bool take_escape(struct scan *scan)
{
	char c = byte_at(scan);

	if (!c || !strchr("\"\\/bfnrtu", c))
		return scan_fail(scan, "an escape that JSON does not know");
	scan->at++;
	for (int i = 0; c == 'u' && i < 4; i++, scan->at++)
		if (!is_hex(byte_at(scan)))
			return scan_fail(scan, "an escape that JSON does not know");
	return true;
}

/* Bytes that are not ASCII are refused in what our writers make: they escape them. */
bool scan_string(struct scan *scan, struct scan_text *text)
{
	if (!scan_if(scan, '"'))
		return scan_fail(scan, "not a string");
	text->at = scan->at;
	for (;;) {
		unsigned char c = (unsigned char)byte_at(scan);

		if (scan->at == scan->end)
			return scan_fail(scan, "a string without an end");
		if (c < 0x20 || (c >= 0x7f && !scan->any_bytes))
			return scan_fail(scan, "a byte that JSON strings must escape");
		scan->at++;
		if (c == '"')
			break;
		if (c == '\\' && !take_escape(scan))
			return false;
	}
	text->bytes = (size_t)(scan->at - 1 - text->at);
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool scan_number(struct scan *scan, u64 max, u64 *value)
{
	bool zero = scan_peek(scan) == '0';
	u64 v = 0;

	if (!is_digit(byte_at(scan)))
		return scan_fail(scan, "not a whole number");
	for (; is_digit(byte_at(scan)); scan->at++) {
		u64 digit = (u64)(*scan->at - '0');

		if (v > (max - min_u64(digit, max)) / 10 || v * 10 + digit > max)
			return scan_fail(scan, "a number that is too large");
		v = v * 10 + digit;
	}
	if (byte_at(scan) == '.' || byte_at(scan) == 'e' || byte_at(scan) == 'E')
		return scan_fail(scan, "not a whole number");
	if (zero && v)
		return scan_fail(scan, "a number that begins with 0");
	*value = v;
	return true;
}

static bool take_digits(struct scan *scan)
{
	if (!is_digit(byte_at(scan)))
		return scan_fail(scan, "a number without digits");
	while (is_digit(byte_at(scan)))
		scan->at++;
	return true;
}

/* Any number of JSON's. */
static bool take_number(struct scan *scan)
{
	if (byte_at(scan) == '-')
		scan->at++;
	if (byte_at(scan) == '0')
		scan->at++;
	else if (!take_digits(scan))
		return false;
	if (byte_at(scan) == '.') {
		scan->at++;
		if (!take_digits(scan))
			return false;
	}
	if (byte_at(scan) == 'e' || byte_at(scan) == 'E') {
		scan->at++;
		if (byte_at(scan) == '+' || byte_at(scan) == '-')
			scan->at++;
		return take_digits(scan);
	}
	return true;
}

static bool take_word(struct scan *scan, const char *word)
{
	size_t bytes = strlen(word);

	if ((size_t)(scan->end - scan->at) < bytes || memcmp(scan->at, word, bytes))
		return scan_fail(scan, "not a value");
	scan->at += bytes;
	return true;
}

bool scan_name(struct scan *scan, struct scan_text *name)
{
	return scan_string(scan, name) && scan_take(scan, ':');
}

/* A value that holds no others. */
static bool take_scalar(struct scan *scan)
{
	struct scan_text text;

	switch (scan_peek(scan)) {
	case '"':	return scan_string(scan, &text);
	case 't':	return take_word(scan, "true");
	case 'f':	return take_word(scan, "false");
	case 'n':	return take_word(scan, "null");
	default:	return take_number(scan);
	}
}

/*
 * What is open is remembered as one character a level, so what is nested deeply costs neither stack
 * nor memory.
 */
bool scan_value(struct scan *scan)
{
	char open[SCAN_DEPTH];
	struct scan_text name;
	int depth = 0;

	for (;;) {
		char c = scan_peek(scan);
		bool empty = false;

		if (c == '[' || c == '{') {
			if (depth == SCAN_DEPTH)
				return scan_fail(scan, "too many arrays and objects within each other");
			scan->at++;
			open[depth++] = c == '[' ? ']' : '}';
			empty = scan_peek(scan) == open[depth - 1];
			if (!empty && c == '{' && !scan_name(scan, &name))
				return false;
			if (!empty)
				continue;
		} else if (!take_scalar(scan)) {
			return false;
		}
		while (depth && scan_if(scan, open[depth - 1]))
			depth--;
		if (!depth)
			return true;
		if (!scan_take(scan, ','))
			return false;
		if (open[depth - 1] == '}' && !scan_name(scan, &name))
			return false;
	}
}

bool scan_done(struct scan *scan)
{
	scan_peek(scan);
	return scan->at == scan->end || scan_fail(scan, "more than one value");
}

bool scan_is(const struct scan_text *text, const char *word)
{
	return text->bytes == strlen(word) && !memcmp(text->at, word, text->bytes);
}
