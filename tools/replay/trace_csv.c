// SPDX-License-Identifier: Apache-2.0
/*
 * The two CSV formats. Columns are found by the names in the header, so that others may stand
 * between them; nothing is quoted in these files.
 */
#include "trace_parse.h"

#define TICKS_PER_S	10000000u	/* Azure writes 100 ns */

static const char *const azure_names[CSV_NR_COLUMNS] = {
	[CSV_ARRIVAL]	= "TIMESTAMP",
	[CSV_INPUT]	= "ContextTokens",
	[CSV_OUTPUT]	= "GeneratedTokens",
};

static const char *const lengths_names[CSV_NR_COLUMNS] = {
	[CSV_INPUT]	= "num_prefill_tokens",
	[CSV_OUTPUT]	= "num_decode_tokens",
};

/* Cut the next field off, without the spaces around it. False: there was none. */
static bool next_field(struct cursor *line, bool *more, struct cursor *field)
{
	const char *comma;

	if (!*more)
		return false;
	comma = memchr(line->at, ',', cursor_left(line));
	field->at = line->at;
	field->end = comma ? comma : line->end;
	line->at = comma ? comma + 1 : line->end;
	*more = comma;

	cursor_skip_space(field);
	while (!cursor_done(field) && (field->end[-1] == ' ' || field->end[-1] == '\t'))
		field->end--;
	return true;
}

static u32 find_column(struct cursor line, const char *name)
{
	struct cursor field;
	bool more = true;

	for (u32 i = 0; next_field(&line, &more, &field); i++)
		if (cursor_is(&field, name))
			return i;
	return U32_NONE;
}

static bool detect_by(struct cursor line, const char *const *names)
{
	return find_column(line, names[CSV_INPUT]) != U32_NONE;
}

static int parse_header(struct trace_parser *parser, struct cursor line,
			const char *const *names)
{
	struct cursor field;
	bool more = true;

	for (size_t i = 0; i < CSV_NR_COLUMNS; i++) {
		parser->column[i] = names[i] ? find_column(line, names[i]) : U32_NONE;
		if (names[i] && parser->column[i] == U32_NONE)
			return trace_fail(parser, "there is no column %s", names[i]);
	}
	while (next_field(&line, &more, &field))
		parser->nr_columns++;
	return 0;
}

static int parse_count(struct trace_parser *parser, struct cursor field, const char *name,
		       u32 *count)
{
	u64 value = 0;
	int err = cursor_number(&field, TRACE_MAX_TOKENS, &value);

	if (err == -ERANGE)
		return trace_fail(parser, "%s is larger than %u", name, TRACE_MAX_TOKENS);
	if (err || !cursor_done(&field))
		return trace_fail(parser, "%s is not a whole number of 0 or more", name);
	*count = (u32)value;
	return 0;
}

/* ---- time ---- */

/* Exactly @digits digits and then @after (NUL: nothing is taken). */
static bool take_part(struct cursor *c, unsigned int digits, char after, u32 *value)
{
	for (*value = 0; digits; digits--, c->at++) {
		if (cursor_peek(c) < '0' || cursor_peek(c) > '9')
			return false;
		*value = *value * 10 + (u32)(*c->at - '0');
	}
	return !after || cursor_take(c, after);
}

static bool is_leap(u32 year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static u32 days_of_month(u32 year, u32 month)
{
	static const u8 days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	return days[month - 1] + (month == 2 && is_leap(year));
}

static u64 days_since_1970(u32 year, u32 month, u32 day)
{
	u64 y = year - 1;
	u64 days = y * 365 + y / 4 - y / 100 + y / 400 - 719162;

	for (u32 m = 1; m < month; m++)
		days += days_of_month(year, m);
	return days + day - 1;
}

static bool take_date(struct cursor *c, u64 *days)
{
	u32 year, month, day;

	if (!take_part(c, 4, '-', &year) || !take_part(c, 2, '-', &month) ||
	    !take_part(c, 2, '\0', &day))
		return false;
	if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_of_month(year, month))
		return false;
	*days = days_since_1970(year, month, day);
	return true;
}

/* Up to nine decimals; what is finer than a tick is cut off. */
static bool take_fraction(struct cursor *c, u64 *ticks)
{
	u64 unit = TICKS_PER_S;
	unsigned int digits = 0;

	for (; cursor_peek(c) >= '0' && cursor_peek(c) <= '9' && digits < 9; digits++) {
		unit /= 10;
		*ticks += unit * (u64)(*c->at++ - '0');
	}
	return digits > 0;
}

static bool take_ticks(struct cursor *c, u64 *ticks)
{
	u32 hour, minute, second;
	u64 days;

	if (!take_date(c, &days) || !(cursor_take(c, ' ') || cursor_take(c, 'T')))
		return false;
	if (!take_part(c, 2, ':', &hour) || !take_part(c, 2, ':', &minute) ||
	    !take_part(c, 2, '\0', &second) || hour > 23 || minute > 59 || second > 60)
		return false;
	*ticks = (((days * 24 + hour) * 60 + minute) * 60 + second) * TICKS_PER_S;
	return !cursor_take(c, '.') || take_fraction(c, ticks);
}

static int parse_arrival(struct trace_parser *parser, struct cursor field, u64 *arrival_us)
{
	u64 ticks;

	if (!take_ticks(&field, &ticks))
		return trace_fail(parser, "TIMESTAMP is not YYYY-MM-DD HH:MM:SS.fffffff");
	if (!cursor_done(&field) && !cursor_is(&field, "Z") && !cursor_is(&field, "+00:00"))
		return trace_fail(parser, "something follows the TIMESTAMP");
	if (!parser->has_first_tick)
		parser->first_tick = ticks;
	parser->has_first_tick = true;
	if (ticks < parser->first_tick)
		return trace_fail(parser, "arrives before the first request");
	*arrival_us = (ticks - parser->first_tick) / 10;
	if (*arrival_us > TRACE_MAX_MS * 1000)
		return trace_fail(parser, "arrives more than 34 years after the first request");
	return 0;
}

/* ---- rows ---- */

static int parse_field(struct trace_parser *parser, struct cursor field, u32 column,
		       const char *const *names, struct trace_request *req)
{
	if (column == parser->column[CSV_ARRIVAL])
		return parse_arrival(parser, field, &req->arrival_us);
	if (column == parser->column[CSV_INPUT])
		return parse_count(parser, field, names[CSV_INPUT], &req->input);
	if (column == parser->column[CSV_OUTPUT])
		return parse_count(parser, field, names[CSV_OUTPUT], &req->output);
	return 0;
}

static int parse_row(struct trace_parser *parser, struct cursor line, const char *const *names)
{
	struct trace_request req = { 0 };
	struct cursor field;
	bool more = true;
	u32 n = 0;
	int err;

	for (; next_field(&line, &more, &field); n++) {
		err = parse_field(parser, field, n, names, &req);
		if (err)
			return err;
	}
	if (n != parser->nr_columns)
		return trace_fail(parser, "%u fields, but the header has %u", n,
				  parser->nr_columns);
	return trace_accept(parser, &req);
}

static bool azure_detect(struct cursor line)
{
	return detect_by(line, azure_names);
}

static int azure_header(struct trace_parser *parser, struct cursor line)
{
	parser->trace->has_arrivals = true;
	return parse_header(parser, line, azure_names);
}

static int azure_line(struct trace_parser *parser, struct cursor line)
{
	return parse_row(parser, line, azure_names);
}

const struct trace_format trace_format_azure = {
	.detect	= azure_detect,
	.header	= azure_header,
	.line	= azure_line,
};

static bool lengths_detect(struct cursor line)
{
	return detect_by(line, lengths_names);
}

static int lengths_header(struct trace_parser *parser, struct cursor line)
{
	return parse_header(parser, line, lengths_names);
}

static int lengths_line(struct trace_parser *parser, struct cursor line)
{
	return parse_row(parser, line, lengths_names);
}

const struct trace_format trace_format_lengths = {
	.detect	= lengths_detect,
	.header	= lengths_header,
	.line	= lengths_line,
};
