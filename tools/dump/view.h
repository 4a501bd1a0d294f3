/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_DUMP_VIEW_H
#define TOOLS_DUMP_VIEW_H

#include <stdbool.h>

/* snapshot, show, pickle, graphviz: is that what @word asks for? */
bool is_view(const char *word);
/* The rest of the command line; what the process says at its end. */
int dump_view(int argc, char **argv);

#endif /* TOOLS_DUMP_VIEW_H */
