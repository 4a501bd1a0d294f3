/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control socket in a folder of its own, and clients that are turned by hand.
 *
 *	folder_make();
 *	control = control_in_folder(NULL);
 *	fd = visitor(control);			// has read its greeting
 *	answer = ask(control, fd, "pools");	// "ok 13\n#pool:s\nalpha\n"
 *	control_end(control);
 *	folder_remove();
 */
#ifndef CONTROL_TEST_UTIL_H
#define CONTROL_TEST_UTIL_H

#include <stdbool.h>
#include <unistd.h>

#include <kvmm/ext/control.h>

extern char folder[64];

void folder_make(void);			/* 0700, under /tmp */
void folder_remove(void);		/* must be empty by then */

struct kvmm_control *control_in_folder(const struct kvmm_control_attr *attr);

/* Poll until there is nothing more to do at once. */
void control_settle(struct kvmm_control *control);

/* A connection that does not wait; nothing read yet. */
int connect_to(const struct kvmm_control *control);
/* One that was greeted. */
int visitor(struct kvmm_control *control);

void say(int fd, const char *text);
/* All that has come, as a string; "" if nothing has. Valid until the next call. */
const char *hear(int fd);
/* Has the other side closed it, with nothing left to read? */
int is_closed(int fd);

/* Say a line, poll, hear. */
const char *ask(struct kvmm_control *control, int fd, const char *line);

/* Is @part in @answer? Else the test fails, and says both. */
bool has(const char *answer, const char *part);
/* What stands in the first row of the table in @answer, in the column of that name. Valid until the next call. */
const char *cell(const char *answer, const char *column);

#define expect_cell(answer, column, text) do {					\
	const char *__is = cell(answer, column);				\
										\
	cr_expect_str_eq(__is, text, "%s is '%s'", column, __is);		\
} while (0)

#endif /* CONTROL_TEST_UTIL_H */
