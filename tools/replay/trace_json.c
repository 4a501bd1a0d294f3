// SPDX-License-Identifier: Apache-2.0
/*
 * Mooncake's format: one JSON object a line, of which four members matter. Others are checked for
 * being JSON and skipped.
 *
 * Bailian's is the same with "chat_id", times in seconds, and numbers that stand for their own tokens,
 * whatever is before them: they become numbers of whole prefixes here.
 */
#include "trace_parse.h"

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

static bool json_detect(struct cursor line)
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
	int err;

	err = cursor_number(c, TRACE_MAX_MS, &object->time);
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
static int dense_number(struct idmap *map, u64 name, u32 *number)
{
	bool found;
	u32 *value = idmap_get(map, name, &found);

	if (!value)
		return -ENOMEM;
	if (!found)
		*value = (u32)map->nr - 1;
	*number = *value;
	return 0;
}

/* Equal numbers become equal prefixes. */
static int chain_ids(struct trace_parser *parser, const struct trace_request *req)
{
	u64 *id = parser->trace->ids + req->first_id;
	u32 own, chained = U32_NONE;
	int err = 0;

	for (u32 i = 0; !err && i < req->nr_ids; i++) {
		err = dense_number(&parser->known[0], id[i], &own);
		if (!err)
			err = dense_number(&parser->known[1], (u64)chained << 32 | own, &chained);
		id[i] = chained;
	}
	return err;
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
	int err;

	err = parse_string(parser, c, &name);
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
	int err;

	err = parse_object(parser, &line, &object);
	if (err)
		return err;
	for (size_t i = 0; i < NR_NEEDED; i++)
		if (!object.has[i])
			return trace_fail(parser, "%s is missing", names[i]);
	if (!object.req.nr_ids)
		return trace_fail(parser, "hash_ids is empty");
	err = settle_time(parser, &object);
	if (!err && object.has[CHAT])
		err = chain_ids(parser, &object.req);
	if (err)
		return err;
	parser->trace->has_arrivals = true;
	return trace_accept(parser, &object.req);
}

const struct trace_format trace_format_mooncake = {
	.detect	= json_detect,
	.line	= json_line,
};
