// SPDX-License-Identifier: Apache-2.0
/* What live_fuzz tests: a program's, not the library's. */
#include "tools/dump/depth.c"
#include "tools/dump/snap.c"
