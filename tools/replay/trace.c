// SPDX-License-Identifier: Apache-2.0
/*
 * Reading traces: bytes become lines, the first line tells the format, each further one becomes a
 * request. Input is never trusted: a line has a maximal length, every number a limit, and memory
 * grows only with bytes that were really read.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../plain.h"
#include "trace_parse.h"

static const struct trace_format *const formats[] = {
	&trace_format_mooncake, &trace_format_azure, &trace_format_lengths,
};

int trace_fail(struct trace_parser *parser, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(parser->error->what, sizeof(parser->error->what), format, args);
	va_end(args);
	return -EINVAL;
}

int cursor_number(struct cursor *c, u64 max, u64 *value)
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

static int grow(void **array, size_t *cap, size_t item, size_t max)
{
	size_t more = min_u64(max, *cap ? *cap * 2 : 1024);
	void *p;

	if (*cap >= max)
		return -E2BIG;
	p = realloc(*array, more * item);
	if (!p)
		return -ENOMEM;
	*array = p;
	*cap = more;
	return 0;
}

int trace_add(struct trace *trace, const struct trace_request *req)
{
	size_t cap = trace->cap;
	int err = 0;

	if (trace->nr == cap)
		err = grow((void **)&trace->req, &cap, sizeof(*req), TRACE_MAX_REQUESTS);
	if (err)
		return err;
	trace->cap = (u32)cap;
	trace->req[trace->nr++] = *req;
	return 0;
}

int trace_add_id(struct trace *trace, u64 id)
{
	int err = 0;

	if (trace->nr_ids == trace->cap_ids)
		err = grow((void **)&trace->ids, &trace->cap_ids, sizeof(id), TRACE_MAX_IDS);
	if (err)
		return err;
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

int trace_accept(struct trace_parser *parser, struct trace_request *req)
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

/* ---- lines ---- */

static int parse_first_line(struct trace_parser *parser, struct cursor line)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (!formats[i]->detect(line))
			continue;
		parser->format = formats[i];
		return formats[i]->header ? formats[i]->header(parser, line) :
					    formats[i]->line(parser, line);
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
	if (err == -ENOMEM)
		trace_fail(parser, "out of memory");
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
	char *buf = malloc(cap);
	int err;

	parser_init(&parser, trace, error);
	err = buf ? read_lines(&parser, fd, buf, cap) : -ENOMEM;
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
