// SPDX-License-Identifier: Apache-2.0
/* What is tested: a program's, not the library's. */
#include "tools/json.c"
#include "tools/plain.c"
#include "tools/replay/results.c"
#include "tools/report/recorder.c"
