// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of scrapers, and the heads of answers. A request is read anew with each piece that comes: it is
 * short, and so nothing has to be remembered in between.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "http.h"

#define OPEN_METRICS	"application/openmetrics-text"

/* A part of a request: of its bytes, or of one of its lines. */
struct span {
	const char *at;
	size_t nr;
};

static bool span_is(struct span span, const char *text)
{
	return span.nr == strlen(text) && !memcmp(span.at, text, span.nr);
}

static bool span_begins(struct span span, const char *text)
{
	return span.nr >= strlen(text) && !memcmp(span.at, text, strlen(text));
}

/* What is before the next @end, which is dropped; all, if there is none. */
static struct span take_until(struct span *rest, char end)
{
	const char *stop = memchr(rest->at, end, rest->nr);
	struct span taken = { rest->at, stop ? (size_t)(stop - rest->at) : rest->nr };
	size_t nr = taken.nr + (stop != NULL);

	rest->at += nr;
	rest->nr -= nr;
	return taken;
}

/* Without its end; a line may end with \n alone. */
static struct span take_line(struct span *rest)
{
	struct span line = take_until(rest, '\n');

	if (line.nr && line.at[line.nr - 1] == '\r')
		line.nr--;
	return line;
}

/* Control characters and blanks are in no method and in no address. */
static bool is_word(struct span span)
{
	for (size_t i = 0; i < span.nr; i++)
		if (span.at[i] <= ' ' || span.at[i] > '~')
			return false;
	return span.nr;
}

/* What stands behind a '?' is for servers with more than one page. */
static bool is_our_page(struct span target)
{
	return span_is(take_until(&target, '?'), HTTP_PAGE);
}

static enum http_status read_first_line(struct span line, struct http_request *request)
{
	struct span method = take_until(&line, ' '), target = take_until(&line, ' ');

	if (!is_word(method) || !is_word(target) || !span_begins(line, "HTTP/1.") || line.nr != 8)
		return HTTP_BAD_REQUEST;
	request->head_only = span_is(method, "HEAD");
	if (!is_our_page(target))
		return HTTP_NOT_FOUND;
	return request->head_only || span_is(method, "GET") ? HTTP_GOOD : HTTP_NOT_ALLOWED;
}

/* Who accepts OpenMetrics at all gets it, whatever he would like better: it says more. */
static void read_accept(struct span value, struct http_request *request)
{
	while (value.nr) {
		struct span one = take_until(&value, ',');
		struct span type = take_until(&one, ';');

		while (type.nr && *type.at == ' ') {
			type.at++;
			type.nr--;
		}
		if (type.nr == strlen(OPEN_METRICS) && !strncasecmp(type.at, OPEN_METRICS, type.nr))
			request->open_metrics = true;
	}
}

static enum http_status read_field(struct span line, struct http_request *request)
{
	struct span name = take_until(&line, ':');

	if (!is_word(name) || name.at + name.nr == line.at)
		return HTTP_BAD_REQUEST;
	if (name.nr == strlen("Accept") && !strncasecmp(name.at, "Accept", name.nr))
		read_accept(line, request);
	return HTTP_GOOD;
}

/* All lines are there when an empty one is; what comes behind it, nobody has asked for. */
static bool is_complete(struct span rest)
{
	while (rest.nr && memchr(rest.at, '\n', rest.nr))
		if (!take_line(&rest).nr)
			return true;
	return false;
}

enum http_status http_read(const char *bytes, size_t nr, struct http_request *request)
{
	struct span rest = { bytes, nr }, line;
	enum http_status status, field;

	*request = (struct http_request){ false, false };
	if (!is_complete(rest))
		return nr >= HTTP_MAX_REQUEST ? HTTP_TOO_LARGE : HTTP_INCOMPLETE;
	status = read_first_line(take_line(&rest), request);
	if (status == HTTP_BAD_REQUEST)
		return status;
	for (line = take_line(&rest); line.nr; line = take_line(&rest)) {
		field = read_field(line, request);
		if (field != HTTP_GOOD)
			return field;
	}
	return status;
}

static const char *status_text(enum http_status status)
{
	switch (status) {
	case HTTP_GOOD:
		return "OK";
	case HTTP_NOT_FOUND:
		return "Not Found";
	case HTTP_NOT_ALLOWED:
		return "Method Not Allowed";
	case HTTP_TOO_LARGE:
		return "Request Header Fields Too Large";
	case HTTP_UNAVAILABLE:
		return "Service Unavailable";
	default:
		return "Bad Request";
	}
}

static const char *type_of(enum http_status status, const struct http_request *request)
{
	if (status != HTTP_GOOD)
		return "text/plain; charset=utf-8";
	return request->open_metrics ? OPEN_METRICS "; version=1.0.0; charset=utf-8" :
				       "text/plain; version=0.0.4; charset=utf-8";
}

size_t http_head(enum http_status status, const struct http_request *request, size_t nr,
		 char head[HTTP_MAX_HEAD])
{
	int len = snprintf(head, HTTP_MAX_HEAD,
			   "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
			   "Connection: close\r\n\r\n", (int)status, status_text(status),
			   type_of(status, request), nr,
			   status == HTTP_NOT_ALLOWED ? "Allow: GET, HEAD\r\n" : "");

	return (size_t)len;
}
