// SPDX-License-Identifier: Apache-2.0
#include <kv/err.h>

#include "resp.h"

/* All of @text, of @len bytes, is a number without signs but one in front, or leading zeros. */
static bool read_number(const char *text, u32 len, s64 *number)
{
	bool is_minus = len && text[0] == '-';
	u32 nr = len - is_minus;
	u64 value = 0;

	text += is_minus;
	if (!nr || nr > 18 || (text[0] == '0' && (nr > 1 || is_minus)))
		return false;
	for (u32 i = 0; i < nr; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (u64)(text[i] - '0');
	}
	*number = is_minus ? -(s64)value : (s64)value;
	return true;
}

static enum resp_kind bad(struct resp *resp)
{
	resp->state = RESP_IS_BAD;
	return RESP_BAD;
}

static enum resp_kind begin_bulk(struct resp *resp, s64 bytes)
{
	if (bytes == -1)
		return RESP_NIL;
	if (bytes < 0 || bytes > RESP_BULK_MAX)
		return bad(resp);
	resp->left = (u64)bytes;
	resp->state = bytes ? RESP_IN_BODY : RESP_IN_TAIL;
	return RESP_BULK;
}

/* A whole line is there, without its end. */
static enum resp_kind read_line(struct resp *resp, u32 len, s64 *number)
{
	char kind = resp->line[0];

	resp->len = 0;
	if (kind == '+')
		return RESP_STATUS;
	if (kind == '-')
		return RESP_ERROR;
	if ((kind != ':' && kind != '$') || !read_number(resp->line + 1, len - 1, number))
		return bad(resp);
	return kind == ':' ? RESP_NUMBER : begin_bulk(resp, *number);
}

static enum resp_kind next_line(struct resp *resp, const u8 **at, const u8 *end, s64 *number)
{
	while (*at < end) {
		char c = (char)*(*at)++;
		bool is_behind_cr = resp->len && resp->line[resp->len - 1] == '\r';

		if ((c == '\n') != is_behind_cr || (c != '\n' && resp->len == RESP_LINE))
			return bad(resp);
		if (c == '\n')
			return resp->len < 2 ? bad(resp) : read_line(resp, resp->len - 1, number);
		resp->line[resp->len++] = c;
	}
	return RESP_MORE;
}

static enum resp_kind next_tail(struct resp *resp, const u8 **at, const u8 *end)
{
	while (*at < end) {
		if (*(*at)++ != "\r\n"[resp->len])
			return bad(resp);
		if (resp->len++)
			break;
	}
	if (resp->len < 2)
		return RESP_MORE;
	resp->len = 0;
	resp->state = RESP_IN_LINE;
	return RESP_END;
}

enum resp_kind resp_next(struct resp *resp, const u8 **at, const u8 *end, s64 *number)
{
	switch (resp->state) {
	case RESP_IN_LINE:
		return next_line(resp, at, end, number);
	case RESP_IN_BODY:
		return *at < end ? RESP_BODY : RESP_MORE;
	case RESP_IN_TAIL:
		return next_tail(resp, at, end);
	default:
		return RESP_BAD;
	}
}

void resp_take(struct resp *resp, u64 bytes)
{
	kv_assert(resp->state == RESP_IN_BODY && bytes <= resp->left);
	resp->left -= bytes;
	if (!resp->left)
		resp->state = RESP_IN_TAIL;
}
