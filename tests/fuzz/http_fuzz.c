// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a request for metrics. However they are cut into pieces the answer is the same; what is
 * accepted begins as a request must; and a request that is too long does not wait for its end.
 */
#include "tests/fuzz/require.h"
#include "tools/stat/http.c"

/* In memory of just that size, so that nothing behind it is read. */
static enum http_status read_first(const uint8_t *data, size_t bytes, struct http_request *request)
{
	char *copy = malloc(bytes + !bytes);
	enum http_status status;

	require(copy);
	memcpy(copy, data, bytes);
	status = http_read(copy, bytes, request);
	free(copy);
	return status;
}

static void check_head(enum http_status status, const struct http_request *request)
{
	char head[HTTP_MAX_HEAD];
	size_t nr = http_head(status, request, SIZE_MAX, head);

	require(nr < sizeof(head) && nr == strlen(head));
	require(!memcmp(head + nr - 4, "\r\n\r\n", 4) && strstr(head, "\r\n\r\n") == head + nr - 4);
}

static bool begins(const uint8_t *data, size_t bytes, const char *text)
{
	return bytes >= strlen(text) && !memcmp(data, text, strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct http_request whole, part;
	enum http_status status = read_first(data, bytes, &whole);
	size_t nr = 0;

	check_head(status, &whole);
	require(status != HTTP_INCOMPLETE || bytes < HTTP_MAX_REQUEST);
	if (status == HTTP_GOOD)
		require(begins(data, bytes, whole.head_only ? "HEAD /metrics" : "GET /metrics"));
	if (status == HTTP_INCOMPLETE || bytes > HTTP_MAX_REQUEST)
		return 0;
	while (read_first(data, nr, &part) == HTTP_INCOMPLETE)
		nr++;
	require(nr <= bytes && read_first(data, nr, &part) == status);
	require(part.head_only == whole.head_only && part.open_metrics == whole.open_metrics);
	return 0;
}
