/* SPDX-License-Identifier: Apache-2.0 */
/* The page of --report: one HTML file that needs nothing else. */
#ifndef REPLAY_REPORT_H
#define REPLAY_REPORT_H

#include "record.h"
#include "replay.h"

/** report_write() - Return: 0; -errno: the page could not be written. */
int report_write(const struct run *run, const char *path);

/* The head of a page up to where its style ends, for other pages to go on with. */
void report_print_style(FILE *out);

#endif /* REPLAY_REPORT_H */
