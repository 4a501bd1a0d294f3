/* SPDX-License-Identifier: Apache-2.0 */
/* --report: the recording of the run as a page; see ../report/page.h. */
#ifndef REPLAY_REPORT_H
#define REPLAY_REPORT_H

#include <stdio.h>

/** report_write() - of the recording in @in, from its beginning. Return: 0; -errno. */
int report_write(FILE *in, const char *name, const char *path);

#endif /* REPLAY_REPORT_H */
