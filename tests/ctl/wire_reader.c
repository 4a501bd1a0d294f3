// SPDX-License-Identifier: Apache-2.0
/* The tools' reader of batches, as the tests have it. */
#include "tools/events/unpack.c"
#include "tools/events/wire_read.c"
