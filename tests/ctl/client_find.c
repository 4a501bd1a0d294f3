// SPDX-License-Identifier: Apache-2.0
/* How the tools find a socket, as the tests have it. */
#include "tools/client/find.c"
