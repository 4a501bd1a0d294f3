// SPDX-License-Identifier: Apache-2.0
/* What is tested: a program's, not the library's. */
#include "tools/report/recording.c"
#include "tools/report/scan.c"
