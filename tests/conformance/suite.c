// SPDX-License-Identifier: Apache-2.0
/* Last of all: what the suite itself owes. The software driver counts and says. */
#include <dlfcn.h>

#include <swcuda/control.h>

#include "check.h"

static const struct kvmm_swcuda_control *control(void)
{
	const struct kvmm_swcuda_control *soft = dlsym(driver_library, "kvmm_swcuda_control");

	if (!soft)
		check_skip("only the software driver counts");
	return soft;
}

#define CALL_NAME(field, name, type, version)	#name,
static const char *const calls[] = { KCU_ALL(CALL_NAME) };

static bool is_exported(const char *name)
{
	return dlsym(driver_library, name);
}

static void every_call_was_made(void)
{
	const struct kvmm_swcuda_control *soft = control();

	for (u32 i = 0; i < ARRAY_SIZE(calls); i++)
		if (is_exported(calls[i]) && !soft->calls(calls[i]))
			check_fail(__FILE__, __LINE__, "%s was never called", calls[i]);
}

/* Each check has given back what it made; the context is the suite's. */
static void nothing_is_left_behind(void)
{
	const struct kvmm_swcuda_control *soft = control();
	struct sw_live live;

	soft->live(&live);
	that(live.nr_contexts == 1 && !live.nr_modules);
	that(!live.nr_streams && !live.nr_events);
	that(!live.nr_allocs && !live.nr_host && !live.device_bytes);
	that(!live.nr_reservations && !live.nr_handles && !live.nr_mappings);
}

#define CHECK(name)	{ "suite." #name, name, 0, 0 }
const struct check checks_suite[] = {
	CHECK(every_call_was_made),
	CHECK(nothing_is_left_behind),
	{ NULL, NULL, 0, 0 },
};
