/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_CLIENT_FIND_H
#define TOOLS_CLIENT_FIND_H

#include "client.h"

/* Into ->path: @path, else $KVMM_SOCKET, else the only socket in the folder. 0, or -1 and ->why. */
int find_socket(struct client *client, const char *path);

#endif /* TOOLS_CLIENT_FIND_H */
