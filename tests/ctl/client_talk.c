// SPDX-License-Identifier: Apache-2.0
/* The tools' half of the protocol, as the tests have it. */
#include "tools/client/client.c"
