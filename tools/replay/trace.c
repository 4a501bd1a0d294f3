// SPDX-License-Identifier: Apache-2.0
/*
 * Reading traces: bytes become lines, the first line tells the format, each further one becomes a
 * request. Input is never trusted: a line has a maximal length, every number a limit, and memory
 * grows only with bytes that were really read.
 */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "../plain.h"
#include "maps.h"
#include "trace.h"

/* What is left of a line. */
struct cursor {
	const char *at;
	const char *end;
};

struct trace_parser;

/* What a CSV column means to us. */
enum csv_column { CSV_ARRIVAL, CSV_INPUT, CSV_OUTPUT, CSV_NR_COLUMNS };

/**
 * struct trace_format - one format
 * @detect: does the first line look like it?
 * @header: the first line is not a request: read this from it; may be NULL
 * @line: read one request
 * @columns: CSV: what they are called, or NULL
 */
struct trace_format {
	bool (*detect)(const struct trace_format *format, struct cursor line);
	int (*header)(struct trace_parser *parser, struct cursor line);
	int (*line)(struct trace_parser *parser, struct cursor line);
	const char *columns[CSV_NR_COLUMNS];
};

/**
 * struct trace_parser - the state between two lines
 * @last_arrival_us: to see time going back
 * @id_tokens: a bit for each size that block numbers may have, by all lines so far
 * @has_chats: Bailian's
 * @known: Bailian: which number an id has; and which one that has behind the number before it
 * @column: CSV: where each of ours is, or U32_NONE
 * @nr_columns: CSV: fields of the header
 * @first_tick: Azure: the first arrival in 100 ns since 1970
 */
struct trace_parser {
	struct trace *trace;
	struct trace_error *error;
	const struct trace_format *format;
	u64 last_arrival_us;
	u32 id_tokens;
	bool has_chats;
	struct idmap known[2];
	u32 column[CSV_NR_COLUMNS];
	u32 nr_columns;
	u64 first_tick;
	bool has_first_tick;
	u32 nr_empty;		/* lines in a row, by now */
};

static inline bool cursor_done(const struct cursor *c)
{
	return c->at == c->end;
}

/* The next character, or NUL at the end (lines hold no NUL). */
static inline char cursor_peek(const struct cursor *c)
{
	return cursor_done(c) ? '\0' : *c->at;
}

static inline bool cursor_take(struct cursor *c, char wanted)
{
	if (cursor_done(c) || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

static inline void cursor_skip_space(struct cursor *c)
{
	while (!cursor_done(c) && (*c->at == ' ' || *c->at == '\t'))
		c->at++;
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->at);
}

static inline bool cursor_is(const struct cursor *c, const char *text)
{
	return cursor_left(c) == strlen(text) && !memcmp(c->at, text, strlen(text));
}

/* Note what is wrong with the line. Return: -EINVAL. */
static int trace_fail(struct trace_parser *parser, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(parser->error->what, sizeof(parser->error->what), format, args);
	va_end(args);
	return -EINVAL;
}

/* Decimal digits up to @max, nothing else consumed: 0, -EINVAL none, -ERANGE too large. */
static int cursor_number(struct cursor *c, u64 max, u64 *value)
{
	const char *start = c->at;
	bool too_large = false;
	u64 v = 0;

	for (; !cursor_done(c) && *c->at >= '0' && *c->at <= '9'; c->at++) {
		u64 digit = (u64)(*c->at - '0');

		if (digit > max || v > (max - digit) / 10)
			too_large = true;
		else
			v = v * 10 + digit;
	}
	if (c->at == start)
		return -EINVAL;
	*value = v;
	return too_large ? -ERANGE : 0;
}

/* ---- the trace as a container ---- */

int trace_add(struct trace *trace, const struct trace_request *req)
{
	if (trace->nr == TRACE_MAX_REQUESTS)
		return -E2BIG;
	if (trace->nr == trace->cap) {
		trace->cap = trace->cap ? trace->cap * 2 : 1024;
		trace->req = must_resize(trace->req, trace->cap * sizeof(*req));
	}
	trace->req[trace->nr++] = *req;
	return 0;
}

int trace_add_id(struct trace *trace, u64 id)
{
	if (trace->nr_ids == TRACE_MAX_IDS)
		return -E2BIG;
	if (trace->nr_ids == trace->cap_ids) {
		trace->cap_ids = trace->cap_ids ? trace->cap_ids * 2 : 1024;
		trace->ids = must_resize(trace->ids, trace->cap_ids * sizeof(id));
	}
	trace->ids[trace->nr_ids++] = id;
	return 0;
}

void trace_close(struct trace *trace)
{
	free(trace->req);
	free(trace->ids);
	memset(trace, 0, sizeof(*trace));
}

/* Without block numbers every prompt is new: each request gets numbers of its own. */
static void number_prompts(struct trace *trace)
{
	u64 next = 0;

	for (u32 q = 0; q < trace->nr; q++) {
		trace->req[q].first_id = next;
		trace->req[q].nr_ids = DIV_ROUND_UP(trace->req[q].input, trace->id_tokens);
		next += trace->req[q].nr_ids;
	}
}

/*
 * Traces do not say how many tokens a number stands for, but how many numbers a prompt has. Two powers of
 * two agree on that only where the prompt has one number.
 */
static u32 fitting_sizes(const struct trace_request *req)
{
	u32 sizes = 0;

	for (u32 tokens = 1; tokens <= TRACE_MAX_ID_TOKENS; tokens *= 2)
		if (DIV_ROUND_UP(req->input, tokens) == req->nr_ids)
			sizes |= tokens;
	return sizes;
}

static u32 choose_size(u32 sizes)
{
	while (!(sizes & TRACE_ID_TOKENS) && sizes & (sizes - 1))
		sizes &= sizes - 1;
	return sizes & TRACE_ID_TOKENS ? TRACE_ID_TOKENS : sizes;
}

/* Check the numbers of a request and add it; its ids are in the trace already. */
static int trace_accept(struct trace_parser *parser, struct trace_request *req)
{
	int err;

	if (!req->input)
		return trace_fail(parser, "the prompt has no tokens");
	if (parser->trace->ids && !(parser->id_tokens &= fitting_sizes(req)))
		return trace_fail(parser, "%u hash_ids for %u tokens: not a power of two of tokens each, "
				  "or another one than above", req->nr_ids, req->input);
	if (req->arrival_us < parser->last_arrival_us)
		return trace_fail(parser, "arrives before the request above");
	parser->last_arrival_us = req->arrival_us;

	err = trace_add(parser->trace, req);
	if (err == -E2BIG)
		return trace_fail(parser, "more than %u requests", TRACE_MAX_REQUESTS);
	return err;
}

/*
 * ---- Mooncake's format ----
 *
 * One JSON object a line, of which four members matter. Others are checked for
 * being JSON and skipped.
 *
 * Bailian's is the same with "chat_id", times in seconds, and numbers that stand for their own tokens,
 * whatever is before them: they become numbers of whole prefixes here.
 */

#define MAX_DEPTH	32	/* of values that are skipped */

enum member { TIMESTAMP, INPUT, OUTPUT, IDS, NR_NEEDED, CHAT = NR_NEEDED, NR_MEMBERS };

/* The second names are those of other tools that write this format. */
static const struct {
	const char *name;
	enum member member;
	u64 max;
} members[] = {
	{ "timestamp",		TIMESTAMP,	TRACE_MAX_MS },
	{ "created_time",	TIMESTAMP,	TRACE_MAX_MS },
	{ "input_length",	INPUT,		TRACE_MAX_TOKENS },
	{ "input_tokens",	INPUT,		TRACE_MAX_TOKENS },
	{ "output_length",	OUTPUT,		TRACE_MAX_TOKENS },
	{ "output_tokens",	OUTPUT,		TRACE_MAX_TOKENS },
	{ "hash_ids",		IDS,		0 },
	{ "chat_id",		CHAT,		0 },
};

/* The request that a line is becoming. */
struct object {
	struct trace_request req;
	u64 time;		/* the whole part */
	u32 micro;		/* and millionths */
	bool is_whole;
	bool has[NR_MEMBERS];
};

static bool json_detect(const struct trace_format *format, struct cursor line)
{
	return cursor_peek(&line) == '{';
}

/* @text gets what is between the quotes, escapes as they are. */
static int parse_string(struct trace_parser *parser, struct cursor *c, struct cursor *text)
{
	if (!cursor_take(c, '"'))
		return trace_fail(parser, "a string is missing");
	text->at = c->at;
	for (; !cursor_done(c) && *c->at != '"'; c->at++) {
		if ((u8)*c->at < 0x20)
			return trace_fail(parser, "a control character in a string");
		if (*c->at == '\\' && ++c->at == c->end)
			break;
	}
	text->end = c->at;
	if (!cursor_take(c, '"'))
		return trace_fail(parser, "a string does not end");
	return 0;
}

/* ---- values that nobody asked for ---- */

static bool skip_digits(struct cursor *c)
{
	const char *start = c->at;

	while (cursor_peek(c) >= '0' && cursor_peek(c) <= '9')
		c->at++;
	return c->at != start;
}

static bool skip_number(struct cursor *c)
{
	cursor_take(c, '-');
	if (!skip_digits(c))
		return false;
	if (cursor_take(c, '.') && !skip_digits(c))
		return false;
	if (cursor_take(c, 'e') || cursor_take(c, 'E')) {
		if (!cursor_take(c, '-'))
			cursor_take(c, '+');
		return skip_digits(c);
	}
	return true;
}

static bool skip_word(struct cursor *c)
{
	static const char *const words[] = { "true", "false", "null" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if (cursor_left(c) >= n && !memcmp(c->at, words[i], n)) {
			c->at += n;
			return true;
		}
	}
	return false;
}

static int skip_value(struct trace_parser *parser, struct cursor *c, int depth);

/* The inside of an array or an object, up to and with @close. */
static int skip_items(struct trace_parser *parser, struct cursor *c, char close, int depth)
{
	struct cursor name;
	int err = 0;

	cursor_skip_space(c);
	if (cursor_take(c, close))
		return 0;
	do {
		cursor_skip_space(c);
		if (close == '}') {
			err = parse_string(parser, c, &name);
			cursor_skip_space(c);
			if (!err && !cursor_take(c, ':'))
				err = trace_fail(parser, "a colon is missing");
		}
		if (!err)
			err = skip_value(parser, c, depth);
		cursor_skip_space(c);
	} while (!err && cursor_take(c, ','));
	if (err)
		return err;
	return cursor_take(c, close) ? 0 : trace_fail(parser, "'%c' is missing", close);
}

static int skip_value(struct trace_parser *parser, struct cursor *c, int depth)
{
	struct cursor text;

	if (depth == MAX_DEPTH)
		return trace_fail(parser, "more than %d levels of nesting", MAX_DEPTH);
	cursor_skip_space(c);
	if (cursor_peek(c) == '"')
		return parse_string(parser, c, &text);
	if (cursor_take(c, '['))
		return skip_items(parser, c, ']', depth + 1);
	if (cursor_take(c, '{'))
		return skip_items(parser, c, '}', depth + 1);
	if (skip_word(c) || skip_number(c))
		return 0;
	return trace_fail(parser, "a value is missing or is not JSON");
}

/* ---- the four members ---- */

static int parse_number(struct trace_parser *parser, struct cursor *c, const char *name, u64 max,
			u64 *value)
{
	int err = cursor_number(c, max, value);
	char next = cursor_peek(c);

	if (err == -ERANGE)
		return trace_fail(parser, "%s is larger than %llu", name, (unsigned long long)max);
	if (err || next == '.' || next == 'e' || next == 'E')
		return trace_fail(parser, "%s is not a whole number of 0 or more", name);
	return 0;
}

static int parse_ids(struct trace_parser *parser, struct cursor *c, struct trace_request *req)
{
	struct trace *trace = parser->trace;
	int err = 0;
	u64 id;

	if (!cursor_take(c, '['))
		return trace_fail(parser, "hash_ids is not an array");
	req->first_id = trace->nr_ids;
	cursor_skip_space(c);
	if (cursor_take(c, ']'))
		return 0;
	do {
		cursor_skip_space(c);
		err = parse_number(parser, c, "a number in hash_ids", TRACE_MAX_ID, &id);
		if (!err)
			err = trace_add_id(trace, id);
		cursor_skip_space(c);
	} while (!err && cursor_take(c, ','));
	if (err == -E2BIG)
		return trace_fail(parser, "more than %u hash_ids in all", TRACE_MAX_IDS);
	if (err)
		return err;
	req->nr_ids = (u32)(trace->nr_ids - req->first_id);
	return cursor_take(c, ']') ? 0 : trace_fail(parser, "hash_ids does not end");
}

static void object_set(struct object *object, enum member member, u64 value)
{
	if (member == INPUT)
		object->req.input = (u32)value;
	else
		object->req.output = (u32)value;
}

/* Six digits behind the point count. */
static int parse_time(struct trace_parser *parser, struct cursor *c, struct object *object)
{
	u32 unit = 100000;
	int err = cursor_number(c, TRACE_MAX_MS, &object->time);

	if (err == -ERANGE)
		return trace_fail(parser, "timestamp is larger than %llu", TRACE_MAX_MS);
	object->is_whole = !err && !cursor_take(c, '.');
	for (; !err && !object->is_whole && cursor_peek(c) >= '0' && cursor_peek(c) <= '9'; c->at++) {
		object->micro += (u32)(*c->at - '0') * unit;
		unit /= 10;
	}
	if (err || cursor_peek(c) == 'e' || cursor_peek(c) == 'E')
		return trace_fail(parser, "timestamp is not a number of 0 or more");
	return 0;
}

/* In milliseconds, or in seconds of a Bailian trace. */
static int settle_time(struct trace_parser *parser, struct object *object)
{
	bool has_chats = object->has[CHAT];

	if (parser->trace->nr && parser->has_chats != has_chats)
		return trace_fail(parser, "chat_id is in some lines only");
	parser->has_chats = has_chats;
	if (!has_chats && !object->is_whole)
		return trace_fail(parser, "timestamp is not a whole number of milliseconds");
	if (has_chats && object->time > TRACE_MAX_MS / 1000 - 1)
		return trace_fail(parser, "timestamp is larger than %llu s", TRACE_MAX_MS / 1000 - 1);
	object->req.arrival_us = has_chats ? object->time * 1000000 + object->micro : object->time * 1000;
	return 0;
}

/* The number of @name: those before it, for a new one. */
static u32 dense_number(struct idmap *map, u64 name)
{
	bool found;
	u32 *value = idmap_get(map, name, &found);

	if (!found)
		*value = (u32)map->nr - 1;
	return *value;
}

/* Equal numbers become equal prefixes. */
static void chain_ids(struct trace_parser *parser, const struct trace_request *req)
{
	u64 *id = parser->trace->ids + req->first_id;
	u32 chained = U32_NONE;

	for (u32 i = 0; i < req->nr_ids; i++) {
		u32 own = dense_number(&parser->known[0], id[i]);

		chained = dense_number(&parser->known[1], (u64)chained << 32 | own);
		id[i] = chained;
	}
}

static size_t find_member(const struct cursor *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(members); i++)
		if (cursor_is(name, members[i].name))
			break;
	return i;
}

static int parse_member(struct trace_parser *parser, struct cursor *c, struct object *object)
{
	struct cursor name;
	enum member member;
	u64 value = 0;
	size_t i;
	int err = parse_string(parser, c, &name);

	if (err)
		return err;
	cursor_skip_space(c);
	if (!cursor_take(c, ':'))
		return trace_fail(parser, "a colon is missing");
	cursor_skip_space(c);

	i = find_member(&name);
	if (i == ARRAY_SIZE(members))
		return skip_value(parser, c, 0);
	member = members[i].member;
	if (object->has[member])
		return trace_fail(parser, "%s is there twice", members[i].name);
	object->has[member] = true;
	if (member == IDS)
		return parse_ids(parser, c, &object->req);
	if (member == CHAT)
		return skip_value(parser, c, 0);
	if (member == TIMESTAMP)
		return parse_time(parser, c, object);
	err = parse_number(parser, c, members[i].name, members[i].max, &value);
	if (!err)
		object_set(object, member, value);
	return err;
}

static int parse_object(struct trace_parser *parser, struct cursor *c, struct object *object)
{
	int err;

	if (!cursor_take(c, '{'))
		return trace_fail(parser, "a line that is not a JSON object");
	do {
		cursor_skip_space(c);
		err = parse_member(parser, c, object);
		cursor_skip_space(c);
	} while (!err && cursor_take(c, ','));
	if (err)
		return err;
	if (!cursor_take(c, '}'))
		return trace_fail(parser, "the object does not end");
	cursor_skip_space(c);
	return cursor_done(c) ? 0 : trace_fail(parser, "something follows the object");
}

static int json_line(struct trace_parser *parser, struct cursor line)
{
	static const char *const names[] = { "timestamp", "input_length", "output_length",
					     "hash_ids" };
	struct object object = { 0 };
	int err = parse_object(parser, &line, &object);

	if (err)
		return err;
	for (size_t i = 0; i < NR_NEEDED; i++)
		if (!object.has[i])
			return trace_fail(parser, "%s is missing", names[i]);
	if (!object.req.nr_ids)
		return trace_fail(parser, "hash_ids is empty");
	err = settle_time(parser, &object);
	if (err)
		return err;
	if (object.has[CHAT])
		chain_ids(parser, &object.req);
	parser->trace->has_arrivals = true;
	return trace_accept(parser, &object.req);
}

/*
 * ---- the two CSV formats ----
 *
 * Columns are found by the names in the header, so that others may stand
 * between them; nothing is quoted in these files.
 */

#define TICKS_PER_S	10000000u	/* Azure writes 100 ns */

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

static bool csv_detect(const struct trace_format *format, struct cursor line)
{
	return find_column(line, format->columns[CSV_INPUT]) != U32_NONE;
}

static int csv_header(struct trace_parser *parser, struct cursor line)
{
	const char *const *names = parser->format->columns;
	struct cursor field;
	bool more = true;

	for (size_t i = 0; i < CSV_NR_COLUMNS; i++) {
		parser->column[i] = names[i] ? find_column(line, names[i]) : U32_NONE;
		if (names[i] && parser->column[i] == U32_NONE)
			return trace_fail(parser, "there is no column %s", names[i]);
	}
	while (next_field(&line, &more, &field))
		parser->nr_columns++;
	parser->trace->has_arrivals = names[CSV_ARRIVAL];
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
		       struct trace_request *req)
{
	const char *const *names = parser->format->columns;

	if (column == parser->column[CSV_ARRIVAL])
		return parse_arrival(parser, field, &req->arrival_us);
	if (column == parser->column[CSV_INPUT])
		return parse_count(parser, field, names[CSV_INPUT], &req->input);
	if (column == parser->column[CSV_OUTPUT])
		return parse_count(parser, field, names[CSV_OUTPUT], &req->output);
	return 0;
}

static int csv_line(struct trace_parser *parser, struct cursor line)
{
	struct trace_request req = { 0 };
	struct cursor field;
	bool more = true;
	u32 n = 0;
	int err;

	for (; next_field(&line, &more, &field); n++) {
		err = parse_field(parser, field, n, &req);
		if (err)
			return err;
	}
	if (n != parser->nr_columns)
		return trace_fail(parser, "%u fields, but the header has %u", n,
				  parser->nr_columns);
	return trace_accept(parser, &req);
}

/* ---- lines ---- */

static const struct trace_format formats[] = {
	{ .detect = json_detect, .line = json_line },	/* Mooncake, Bailian */
	{ csv_detect, csv_header, csv_line, {		/* Azure */
	  [CSV_ARRIVAL] = "TIMESTAMP", [CSV_INPUT] = "ContextTokens",
	  [CSV_OUTPUT] = "GeneratedTokens" } },
	{ csv_detect, csv_header, csv_line, {
	  [CSV_INPUT] = "num_prefill_tokens", [CSV_OUTPUT] = "num_decode_tokens" } },
};

static int parse_first_line(struct trace_parser *parser, struct cursor line)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (!formats[i].detect(&formats[i], line))
			continue;
		parser->format = &formats[i];
		return (formats[i].header ? formats[i].header : formats[i].line)(parser, line);
	}
	return trace_fail(parser, "no known format: expected Mooncake JSONL, Azure CSV, or CSV "
			  "with num_prefill_tokens,num_decode_tokens");
}

static int parse_line(struct trace_parser *parser, struct cursor line)
{
	static const char bom[] = "\xef\xbb\xbf";
	struct cursor rest;

	parser->error->line++;
	if (cursor_left(&line) && line.end[-1] == '\r')
		line.end--;
	if (memchr(line.at, '\0', cursor_left(&line)))
		return trace_fail(parser, "a NUL byte");
	if (parser->error->line == 1 && cursor_left(&line) >= 3 && !memcmp(line.at, bom, 3))
		line.at += 3;

	rest = line;
	cursor_skip_space(&rest);
	if (cursor_done(&rest))
		return ++parser->nr_empty <= TRACE_MAX_EMPTY ? 0 :
		       trace_fail(parser, "more than %u empty lines in a row", TRACE_MAX_EMPTY);
	parser->nr_empty = 0;
	return parser->format ? parser->format->line(parser, rest) :
				parse_first_line(parser, rest);
}

/*
 * Parse the complete lines of @text; *@used gets what they and their ends take. At the end of the
 * input (@last) what follows the last line end is a line as well.
 */
static int parse_lines(struct trace_parser *parser, const char *text, size_t bytes, bool last,
		       size_t *used)
{
	const char *at = text, *end = text + bytes;
	int err = 0;

	while (!err && at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		if (!stop && !last)
			break;
		if ((stop ? stop : end) - at > TRACE_MAX_LINE) {
			parser->error->line++;
			return trace_fail(parser, "the line is longer than %u bytes",
					  TRACE_MAX_LINE);
		}
		err = parse_line(parser, (struct cursor){ at, stop ? stop : end });
		at = stop ? stop + 1 : end;
	}
	*used = (size_t)(at - text);
	return err;
}

static int parser_finish(struct trace_parser *parser, int err)
{
	parser->error->line = max_u64(parser->error->line, 1);
	parser->trace->id_tokens = choose_size(parser->id_tokens);
	if (!err && !parser->trace->nr)
		err = trace_fail(parser, "no request in it");
	if (err)
		trace_close(parser->trace);
	else if (!parser->trace->ids)
		number_prompts(parser->trace);
	idmap_exit(&parser->known[0]);
	idmap_exit(&parser->known[1]);
	return err;
}

static void parser_init(struct trace_parser *parser, struct trace *trace,
			struct trace_error *error)
{
	memset(parser, 0, sizeof(*parser));
	memset(trace, 0, sizeof(*trace));
	memset(error, 0, sizeof(*error));
	parser->trace = trace;
	parser->error = error;
	parser->id_tokens = 2 * TRACE_MAX_ID_TOKENS - 1;
}

int trace_parse(struct trace *trace, const void *text, size_t bytes, struct trace_error *error)
{
	struct trace_parser parser;
	size_t used;

	parser_init(&parser, trace, error);
	return parser_finish(&parser, parse_lines(&parser, text, bytes, true, &used));
}

/* Fill @buf up to @cap. Return: bytes there; less than @cap at the end of the file; -errno. */
static ssize_t read_full(int fd, char *buf, size_t have, size_t cap)
{
	while (have < cap) {
		ssize_t n = read(fd, buf + have, cap - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* The buffer holds more than the longest line, so each round consumes one at least, or fails. */
static int read_lines(struct trace_parser *parser, int fd, char *buf, size_t cap)
{
	size_t have = 0, used;
	bool last = false;
	int err = 0;

	while (!err && !last) {
		ssize_t n = read_full(fd, buf, have, cap);

		if (n < 0) {
			trace_fail(parser, "cannot read: %s", strerror((int)-n));
			return -EIO;
		}
		last = (size_t)n < cap;
		err = parse_lines(parser, buf, (size_t)n, last, &used);
		if (!err && !last && !used) {
			parser->error->line++;
			return trace_fail(parser, "the line is longer than %u bytes",
					  TRACE_MAX_LINE);
		}
		have = (size_t)n - used;
		memmove(buf, buf + used, have);
	}
	return err;
}

int trace_read(struct trace *trace, int fd, struct trace_error *error)
{
	size_t cap = TRACE_MAX_LINE + 2;	/* CR and LF */
	struct trace_parser parser;
	char *buf = must_alloc(cap);
	int err;

	parser_init(&parser, trace, error);
	err = read_lines(&parser, fd, buf, cap);
	free(buf);
	return parser_finish(&parser, err);
}

/* ---- names ---- */

void trace_set_name(struct trace *trace, const char *path)
{
	static const char azure[] = "AzureLLMInferenceTrace_";
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	bool is_azure = !strncmp(base, azure, strlen(azure));
	char *cut;

	snprintf(trace->name, sizeof(trace->name), "%s%s", is_azure ? "azure-" : "",
		 is_azure ? base + strlen(azure) : base);
	cut = strrchr(trace->name, '.');
	if (cut && cut != trace->name)
		*cut = '\0';
	cut = strstr(trace->name, "_trace");
	if (cut && cut != trace->name && !cut[strlen("_trace")])
		*cut = '\0';
	make_plain_word(trace->name);
}

