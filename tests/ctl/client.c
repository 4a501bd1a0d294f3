// SPDX-License-Identifier: Apache-2.0
/* The tools' client, as the tests have it. */
#include "tools/client/table.c"
#include "tools/json.c"
#include "tools/plain.c"
