/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON, read from left to right and never copied. A scan looks at the bytes of one line; each function
 * takes what it names, with the space before it, or says no and what is wrong.
 */
#ifndef REPORT_SCAN_H
#define REPORT_SCAN_H

#include "../replay/common.h"

#define SCAN_DEPTH	32	/* of arrays and objects within each other */

struct scan {
	const char *at;
	const char *end;
	const char *why;	/* a constant; the first thing that was wrong */
	bool any_bytes;		/* strings may hold what is not ASCII */
};

/* A string as it stands between its quotes, with its escapes. */
struct scan_text {
	const char *at;
	size_t bytes;
};

/* Note what is wrong, once. Returns false. */
bool scan_fail(struct scan *scan, const char *why);

/* The next character that is not space, NUL at the end; nothing is taken. */
char scan_peek(struct scan *scan);

/* Is it @wanted? Then it is taken; if not that is no mistake. */
bool scan_if(struct scan *scan, char wanted);

/* It must be. */
bool scan_take(struct scan *scan, char wanted);

bool scan_string(struct scan *scan, struct scan_text *text);

/* A whole number that is not negative, up to @max. */
bool scan_number(struct scan *scan, u64 max, u64 *value);

/* Any value. */
bool scan_value(struct scan *scan);

/* A member's name and its colon. */
bool scan_name(struct scan *scan, struct scan_text *name);

/* Nothing but space is left. */
bool scan_done(struct scan *scan);

bool scan_is(const struct scan_text *text, const char *word);

#endif /* REPORT_SCAN_H */
