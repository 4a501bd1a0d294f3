// SPDX-License-Identifier: Apache-2.0
/* The tools' picture of a pool, as the tests have it. */
#include "tools/map.c"
