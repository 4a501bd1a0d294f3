/* SPDX-License-Identifier: Apache-2.0 */
/* Between the reader of traces and the readers of their formats. */
#ifndef REPLAY_TRACE_PARSE_H
#define REPLAY_TRACE_PARSE_H

#include <string.h>

#include "idmap.h"
#include "trace.h"

/* What is left of a line. */
struct cursor {
	const char *at;
	const char *end;
};

struct trace_parser;

/**
 * struct trace_format - one format
 * @detect: does the first line look like it?
 * @header: the first line is not a request: read this from it; may be NULL
 * @line: read one request
 */
struct trace_format {
	bool (*detect)(struct cursor line);
	int (*header)(struct trace_parser *parser, struct cursor line);
	int (*line)(struct trace_parser *parser, struct cursor line);
};

/* What a CSV column means to us. */
enum csv_column { CSV_ARRIVAL, CSV_INPUT, CSV_OUTPUT, CSV_NR_COLUMNS };

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

extern const struct trace_format trace_format_mooncake;
extern const struct trace_format trace_format_azure;
extern const struct trace_format trace_format_lengths;

/* Note what is wrong with the line. Return: -EINVAL. */
int trace_fail(struct trace_parser *parser, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Check the numbers of a request and add it; its ids are in the trace already. */
int trace_accept(struct trace_parser *parser, struct trace_request *req);

/* Decimal digits up to @max, nothing else consumed: 0, -EINVAL none, -ERANGE too large. */
int cursor_number(struct cursor *c, u64 max, u64 *value);

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

#endif /* REPLAY_TRACE_PARSE_H */
