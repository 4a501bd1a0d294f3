// SPDX-License-Identifier: Apache-2.0
/*
 * Reading traces: bytes become lines, the first line tells the format, each further one becomes a
 * request. Input is never trusted: a line has a maximal length, every number a limit, and memory
 * grows only with bytes that were really read.
 */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "../plain.h"
#include "../report/scan.h"
#include "../tool.h"
#include "maps.h"
#include "trace.h"

/* What is left of a line, behind which is a NUL. */
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
 * @said_tokens: that the lines say themselves; 0: they do not
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
	u32 said_tokens;
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
	char *end;

	if (cursor_peek(c) < '0' || cursor_peek(c) > '9')
		return -EINVAL;
	*value = strtoull(c->at, &end, 10);	/* the largest number, if it is larger */
	c->at = end;
	return *value > max ? -ERANGE : 0;
}

/* Digits behind a point are added to *@value, of which @unit are 1. Return: how many there were. */
static u32 take_decimals(struct cursor *c, u64 unit, u64 *value)
{
	u32 nr = 0;

	for (; cursor_peek(c) >= '0' && cursor_peek(c) <= '9'; nr++) {
		unit /= 10;
		*value += unit * (u64)(*c->at++ - '0');
	}
	return nr;
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

/*
 * Most traces do not say how many tokens a number stands for, but how many numbers a prompt has. Two
 * powers of two agree on that only where the prompt has one number.
 */
static u32 fitting_sizes(const struct trace_request *req)
{
	u32 sizes = 0;

	for (u32 tokens = 1; tokens <= TRACE_MAX_TOLD_TOKENS; tokens *= 2)
		if (DIV_ROUND_UP(req->input, tokens) == req->nr_ids)
			sizes |= tokens;
	return sizes;
}

/* Check the numbers of a request and add it; its ids are in the trace already. */
static int trace_accept(struct trace_parser *parser, struct trace_request *req)
{
	int err;

	if (!req->input)
		return trace_fail(parser, "the prompt has no tokens");
	if (parser->said_tokens && DIV_ROUND_UP(req->input, parser->said_tokens) != req->nr_ids)
		return trace_fail(parser, "%u hash_ids for %u tokens, not one for %u each",
				  req->nr_ids, req->input, parser->said_tokens);
	if (!parser->said_tokens && parser->trace->ids &&
	    !(parser->id_tokens &= fitting_sizes(req)))
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

enum member { TIMESTAMP, INPUT, OUTPUT, IDS, NR_NEEDED, CHAT = NR_NEEDED, BLOCK_TOKENS, NR_MEMBERS };

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
	{ "block_tokens",	BLOCK_TOKENS,	TRACE_MAX_ID_TOKENS },
};

/* The request that a line is becoming. */
struct object {
	struct trace_request req;
	u32 tokens;		/* that a number stands for */
	u64 time;		/* the whole part */
	u64 micro;		/* and millionths */
	bool is_whole;
	bool has[NR_MEMBERS + 1];	/* the last one: of others */
};

static bool json_detect(const struct trace_format *format, struct cursor line)
{
	return cursor_peek(&line) == '{';
}

/* What @scan found wrong, in the member @name. */
static int scan_wrong(struct trace_parser *parser, const struct scan *scan, const char *name)
{
	return trace_fail(parser, "%s%s%s", name ? name : "", name ? ": " : "", scan->why);
}

static int parse_ids(struct trace_parser *parser, struct scan *scan, struct trace_request *req)
{
	struct trace *trace = parser->trace;
	u64 id;

	req->first_id = trace->nr_ids;
	if (!scan_take(scan, '['))
		return scan_wrong(parser, scan, "hash_ids");
	do {
		if (trace->nr_ids == req->first_id && scan_if(scan, ']'))
			return 0;
		if (!scan_number(scan, TRACE_MAX_ID, &id))
			return scan_wrong(parser, scan, "hash_ids");
		if (trace_add_id(trace, id))
			return trace_fail(parser, "more than %u hash_ids in all", TRACE_MAX_IDS);
	} while (scan_if(scan, ','));
	req->nr_ids = (u32)(trace->nr_ids - req->first_id);
	return scan_take(scan, ']') ? 0 : scan_wrong(parser, scan, "hash_ids");
}

/* Six digits behind the point count. */
static int parse_time(struct trace_parser *parser, struct scan *scan, struct object *object)
{
	struct cursor rest = { scan->at, scan->end }, *c = &rest;
	int err = cursor_number(c, TRACE_MAX_MS, &object->time);

	if (err == -ERANGE)
		return trace_fail(parser, "timestamp is larger than %llu", TRACE_MAX_MS);
	object->is_whole = !err && !cursor_take(c, '.');
	if (!err && !object->is_whole)
		take_decimals(c, 1000000, &object->micro);
	if (err || cursor_peek(c) == 'e' || cursor_peek(c) == 'E')
		return trace_fail(parser, "timestamp is not a number of 0 or more");
	scan->at = c->at;
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

static int parse_member(struct trace_parser *parser, struct scan *scan, struct object *object)
{
	struct scan_text name;
	enum member member;
	u64 value = 0;
	size_t i = 0;

	if (!scan_name(scan, &name))
		return scan_wrong(parser, scan, NULL);
	while (i < ARRAY_SIZE(members) && !scan_is(&name, members[i].name))
		i++;
	member = i < ARRAY_SIZE(members) ? members[i].member : NR_MEMBERS;
	if (member != NR_MEMBERS && object->has[member])
		return trace_fail(parser, "%s is there twice", members[i].name);
	if (member == CHAT || member == NR_MEMBERS) {
		if (!scan_value(scan))
			return scan_wrong(parser, scan, NULL);
	} else if (member == INPUT || member == OUTPUT || member == BLOCK_TOKENS) {
		if (!scan_number(scan, members[i].max, &value))
			return scan_wrong(parser, scan, members[i].name);
		*(member == INPUT ? &object->req.input : member == OUTPUT ? &object->req.output :
		  &object->tokens) = (u32)value;
	}
	object->has[member] = true;
	scan_peek(scan);
	return member == IDS ? parse_ids(parser, scan, &object->req) :
	       member == TIMESTAMP ? parse_time(parser, scan, object) : 0;
}

static int parse_object(struct trace_parser *parser, struct cursor line, struct object *object)
{
	struct scan scan = { .at = line.at, .end = line.end, .any_bytes = true };
	int err;

	if (!scan_take(&scan, '{'))
		return scan_wrong(parser, &scan, NULL);
	do {
		err = parse_member(parser, &scan, object);
	} while (!err && scan_if(&scan, ','));
	if (!err && !(scan_take(&scan, '}') && scan_done(&scan)))
		err = scan_wrong(parser, &scan, NULL);
	return err;
}

static int json_line(struct trace_parser *parser, struct cursor line)
{
	static const char *const names[] = { "timestamp", "input_length", "output_length",
					     "hash_ids" };
	struct object object = { 0 };
	int err = parse_object(parser, line, &object);

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
	if (object.has[BLOCK_TOKENS] && !object.tokens)
		return trace_fail(parser, "block_tokens is 0");
	if (parser->trace->nr && parser->said_tokens != object.tokens)
		return trace_fail(parser, "block_tokens is another one than above");
	parser->said_tokens = object.tokens;
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

/* timegm() makes another date of one that there is not. */
static bool take_ticks(struct cursor *c, u64 *ticks)
{
	static const char form[] = "0000-00-00 00:00:00";	/* or T between them */
	int month, day, hour, minute, second;
	struct tm tm = { 0 };
	u32 nr;

	for (size_t i = 0; form[i]; i++, c->at++) {
		char got = cursor_peek(c);

		if (form[i] == '0' ? got < '0' || got > '9' :
				     got != form[i] && (form[i] != ' ' || got != 'T'))
			return false;
	}
	if (sscanf(c->at - strlen(form), "%4d-%2d-%2d%*c%2d:%2d:%2d", &tm.tm_year, &month, &day,
		   &hour, &minute, &second) != 6)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon = month - 1;
	tm.tm_mday = day;
	*ticks = ((u64)timegm(&tm) + (u64)((hour * 60 + minute) * 60 + second)) * TICKS_PER_S;
	if (tm.tm_year < 70 || tm.tm_mon != month - 1 || tm.tm_mday != day || hour > 23 ||
	    minute > 59 || second > 60)
		return false;
	if (!cursor_take(c, '.'))
		return true;
	nr = take_decimals(c, TICKS_PER_S, ticks);	/* what is finer than a tick is cut off */
	return nr && nr <= 9;
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

static int csv_line(struct trace_parser *parser, struct cursor line)
{
	const char *const *names = parser->format->columns;
	struct trace_request req = { 0 };
	struct cursor field;
	bool more = true;
	u32 n = 0;
	int err = 0;

	for (; next_field(&line, &more, &field); n++) {
		if (n == parser->column[CSV_ARRIVAL])
			err = parse_arrival(parser, field, &req.arrival_us);
		else if (n == parser->column[CSV_INPUT])
			err = parse_count(parser, field, names[CSV_INPUT], &req.input);
		else if (n == parser->column[CSV_OUTPUT])
			err = parse_count(parser, field, names[CSV_OUTPUT], &req.output);
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

static int parse_line(struct trace_parser *parser, const char *text, long bytes)
{
	static const char bom[] = "\xef\xbb\xbf";
	struct cursor line;

	parser->error->line++;
	if (bytes == LINE_LONG)
		return trace_fail(parser, "the line is longer than %u bytes", TRACE_MAX_LINE);
	line = (struct cursor){ text, text + bytes };
	if (cursor_left(&line) && line.end[-1] == '\r')
		line.end--;
	if (memchr(line.at, '\0', cursor_left(&line)))
		return trace_fail(parser, "a NUL byte");
	if (parser->error->line == 1 && cursor_left(&line) >= 3 && !memcmp(line.at, bom, 3))
		line.at += 3;

	cursor_skip_space(&line);
	if (cursor_done(&line))
		return ++parser->nr_empty <= TRACE_MAX_EMPTY ? 0 :
		       trace_fail(parser, "more than %u empty lines in a row", TRACE_MAX_EMPTY);
	parser->nr_empty = 0;
	return parser->format ? parser->format->line(parser, line) :
				parse_first_line(parser, line);
}

/* What a line holds is looked at once it is there as a whole. */
static int read_lines(struct trace_parser *parser, FILE *in, char *text)
{
	long bytes;
	int err = 0;

	while (!err && (bytes = read_line(in, text, TRACE_MAX_LINE + 1)) != LINE_NONE &&
	       !ferror(in))
		err = parse_line(parser, text, bytes);
	if (!ferror(in))
		return err;
	trace_fail(parser, "cannot read: %s", strerror(errno));
	return -EIO;
}

static int parser_finish(struct trace_parser *parser, int err)
{
	struct trace *trace = parser->trace;
	u32 sizes = parser->id_tokens;
	u64 next = 0;

	parser->error->line = max_u64(parser->error->line, 1);
	/* The usual size, where it fits; else the largest. */
	while (!(sizes & TRACE_ID_TOKENS) && sizes & (sizes - 1))
		sizes &= sizes - 1;
	trace->id_tokens = parser->said_tokens ? parser->said_tokens :
			   sizes & TRACE_ID_TOKENS ? TRACE_ID_TOKENS : sizes;
	if (!err && !trace->nr)
		err = trace_fail(parser, "no request in it");
	if (err)
		trace_close(trace);
	/* Without block numbers every prompt is new: each request gets numbers of its own. */
	for (u32 q = 0; !trace->ids && q < trace->nr; q++) {
		trace->req[q].first_id = next;
		trace->req[q].nr_ids = DIV_ROUND_UP(trace->req[q].input, trace->id_tokens);
		next += trace->req[q].nr_ids;
	}
	idmap_exit(&parser->known[0]);
	idmap_exit(&parser->known[1]);
	return err;
}

int trace_read(struct trace *trace, FILE *in, struct trace_error *error)
{
	struct trace_parser parser = { .trace = trace, .error = error,
				       .id_tokens = 2 * TRACE_MAX_TOLD_TOKENS - 1 };
	char *text = must_alloc(TRACE_MAX_LINE + 1);
	int err;

	memset(trace, 0, sizeof(*trace));
	memset(error, 0, sizeof(*error));
	err = read_lines(&parser, in, text);
	free(text);
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

