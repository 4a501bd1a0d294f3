// SPDX-License-Identifier: Apache-2.0
/* The parts of kvmm-replay that are tested here; what they would say goes into a buffer. */
#include <stdarg.h>
#include <stdio.h>

#include "tests/replay/units.h"
#include "tools/json.c"
#include "tools/plain.c"
#include "tools/replay/ages.c"
#include "tools/replay/generate.c"
#include "tools/replay/maps.c"
#include "tools/replay/layout.c"
#include "tools/replay/pattern.c"
#include "tools/replay/policies.c"
#include "tools/replay/results.c"
#include "tools/replay/trace.c"

char complaint[256];

enum exit_code complain(enum exit_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(complaint, sizeof(complaint), format, args);
	va_end(args);
	return code;
}

enum exit_code complain_of(int err, const char *format, ...)
{
	return complain(EXIT_WRONG, "%s: %d", format, err);
}
