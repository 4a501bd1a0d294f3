/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As much of HTTP as a scraper needs: one GET or HEAD of one page, one answer, and the connection ends.
 */
#ifndef STAT_HTTP_H
#define STAT_HTTP_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a request, at most. */
#define HTTP_MAX_REQUEST	8192u

/* Room for the head of an answer. */
#define HTTP_MAX_HEAD		512u

/* What is there. */
#define HTTP_PAGE		"/metrics"

enum http_status {
	HTTP_INCOMPLETE		= 0,	/* more bytes are needed */
	HTTP_GOOD		= 200,
	HTTP_BAD_REQUEST	= 400,
	HTTP_NOT_FOUND		= 404,
	HTTP_NOT_ALLOWED	= 405,	/* another method */
	HTTP_TOO_LARGE		= 431,
	HTTP_UNAVAILABLE	= 503,	/* the engine does not answer */
};

/**
 * struct http_request - what was asked for
 * @head_only: HEAD
 * @open_metrics: the scraper takes OpenMetrics; else text format 0.0.4
 */
struct http_request {
	bool head_only;
	bool open_metrics;
};

/* The status of a request of which @nr bytes have come, whatever they are; @request with HTTP_GOOD. */
enum http_status http_read(const char *bytes, size_t nr, struct http_request *request);

/* The head of an answer with @nr bytes of content; how long it is. */
size_t http_head(enum http_status status, const struct http_request *request, size_t nr,
		 char head[HTTP_MAX_HEAD]);

#endif /* STAT_HTTP_H */
