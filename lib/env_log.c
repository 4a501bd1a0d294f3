// SPDX-License-Identifier: Apache-2.0
/*
 * Where lines for the operator go: to the function that the program has set, else to standard error
 * if KVMM_LOG of the environment names their level, or one that says more.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/log.h>
#include <kv/sys.h>
#include <kvmm/types.h>

#include "internal.h"

#define UNKNOWN	(-2)	/* KVMM_LOG was not looked at yet */

static struct {
	kvmm_log_fn *fn;	/* set while no other call runs, as @arg */
	void *arg;
} listener;

static int most = UNKNOWN;	/* atomic: the last level that is written; -1: none is */

static int level_named(const char *name)
{
	static const struct { const char *name; int level; } levels[] = {
		{ "error", KV_LOG_ERR }, { "warning", KV_LOG_WARN }, { "info", KV_LOG_INFO },
		{ "debug", KV_LOG_DEBUG },
	};

	for (u32 i = 0; name && i < ARRAY_SIZE(levels); i++)
		if (!strcmp(name, levels[i].name))
			return levels[i].level;
	return -1;
}

void kv_system_log(void *ctx, int level, const char *line)
{
	if (listener.fn) {
		listener.fn(listener.arg, level, line);
		return;
	}
	if (READ_ONCE(most) == UNKNOWN)
		WRITE_ONCE(most, level_named(kv_sys()->getenv(kv_sys()->ctx, "KVMM_LOG")));
	if (level <= READ_ONCE(most))
		dprintf(STDERR_FILENO, "%s\n", line);
}

void kvmm_log_set(kvmm_log_fn *fn, void *arg)
{
	listener.fn = fn;
	listener.arg = arg;
}
