/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of a server that speaks RESP2, as they come, in pieces. Strict: what is none of the kinds
 * that our commands are answered with, arrays included, is BAD, and so is all that follows.
 */
#ifndef REMOTE_RESP_H
#define REMOTE_RESP_H

#include <kv/types.h>

#define RESP_LINE	512u		/* most bytes of one; messages of errors are the longest */
#define RESP_BULK_MAX	(512u << 20)	/* as the server has it */

enum resp_kind {
	RESP_MORE,		/* all was taken, and it is not over */
	RESP_STATUS,		/* +... */
	RESP_ERROR,		/* -... */
	RESP_NUMBER,		/* :... */
	RESP_NIL,		/* $-1 */
	RESP_BULK,		/* $...: so many bytes follow */
	RESP_BODY,		/* the next ->left of these, at most, are there: resp_take() them */
	RESP_END,		/* of them */
	RESP_BAD,
};

enum resp_state { RESP_IN_LINE, RESP_IN_BODY, RESP_IN_TAIL, RESP_IS_BAD };

/* All zero: before the first reply. Guard: the caller. */
struct resp {
	enum resp_state	state;
	u32		len;			/* of ->line, or of the tail */
	u64		left;			/* RESP_IN_BODY; at least 1 */
	char		line[RESP_LINE];
};

/* The next of it, from *@at on; *@number of RESP_NUMBER and RESP_BULK. */
enum resp_kind resp_next(struct resp *resp, const u8 **at, const u8 *end, s64 *number);
/* @bytes of the body were taken, up to ->left. */
void resp_take(struct resp *resp, u64 bytes);

#endif /* REMOTE_RESP_H */
