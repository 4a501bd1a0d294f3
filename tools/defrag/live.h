/* SPDX-License-Identifier: Apache-2.0 */
/* The other half of kvmm-defrag: an engine instead of a trace. */
#ifndef DEFRAG_LIVE_H
#define DEFRAG_LIVE_H

#include <stdbool.h>

/* Is --socket or --live among the arguments? */
bool live_is_meant(int argc, char **argv);

/* Returns the exit code. */
int live_main(int argc, char **argv);

#endif /* DEFRAG_LIVE_H */
