// SPDX-License-Identifier: Apache-2.0
/*
 * Where lines for the operator go: to the function that the program has set, else to standard error
 * if KVMM_LOG of the environment names their level, or one that says more.
 */
#include <errno.h>
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

/* Two, in turns: a line on its way goes to the one before. */
static struct listener {
	kvmm_log_fn *fn;	/* fixed while it is the one, as @arg */
	void *arg;
} listeners[2];

static const struct listener *listener;	/* atomic; NULL: none is set */

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
	/* Pairs with kvmm_log_set(). */
	const struct listener *to = smp_load_acquire(&listener);
	int saved = errno;

	if (to) {
		to->fn(to->arg, level, line);
	} else {
		if (READ_ONCE(most) == UNKNOWN)
			WRITE_ONCE(most, level_named(kv_sys()->getenv(kv_sys()->ctx, "KVMM_LOG")));
		if (level <= READ_ONCE(most))
			dprintf(STDERR_FILENO, "%s\n", line);
	}
	errno = saved;
}

void kvmm_log_set(kvmm_log_fn *fn, void *arg)
{
	struct listener *next = &listeners[listener == &listeners[0]];

	if (fn)
		*next = (struct listener){ fn, arg };
	/* Pairs with kv_system_log(). */
	smp_store_release(&listener, fn ? next : NULL);
}
