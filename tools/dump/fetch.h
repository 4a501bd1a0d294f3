/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_DUMP_FETCH_H
#define TOOLS_DUMP_FETCH_H

#include "../client/client.h"
#include "snap.h"

/*
 * Of a pool of the engine at the socket; NULL: of the only one. It is asked for in portions, while the
 * engine works: each block is told once, blocks of different portions at different times. 0, or -1 and
 * ->why of @snap.
 */
int snap_fetch(struct snap *snap, struct client *client, const char *pool);

#endif /* TOOLS_DUMP_FETCH_H */
