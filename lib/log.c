// SPDX-License-Identifier: Apache-2.0
/*
 * Lines for the operator, and what happens when an invariant of ours is broken.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <kv/atomic.h>
#include <kv/env.h>
#include <kv/err.h>
#include <kv/log.h>
#include <kv/stat.h>
#include <kv/sys.h>
#include <kv/thread.h>
#include <kvmm/types.h>

#define NR_BUG_SITES	64

#define PREFIX		"kvmm: "

void kv_why_clear(void)
{
	if (kv_thread_claim_slot() != KV_NONE)
		kv_stat_row->why[0] = '\0';
}

const char *kvmm_why(void)
{
	const char *line = kv_stat_row ? kv_stat_row->why : "";

	return strncmp(line, PREFIX, strlen(PREFIX)) ? line : line + strlen(PREFIX);
}

/* Formats on the stack: a line can be logged when memory is out, and from any thread. */
static void log_line(int level, bool is_why, const char *fmt, va_list args)
{
	const struct kv_env_ops *env = kv_env();
	char line[KV_WHY_BYTES];
	int len = vsnprintf(line, sizeof(line), fmt, args), cancel;

	if (len < 0)
		return;
	if (len >= sizeof(line))
		memcpy(line + sizeof(line) - 4, "...", 4);
	if (is_why && kv_thread_claim_slot() != KV_NONE)
		memcpy(kv_stat_row->why, line, sizeof(line));
	if (!env->log)
		return;
	/* It writes to files, as likely as not, and any lock may be held: no cancellation. */
	cancel = kv_cancel_off();
	env->log(env->ctx, level, line);
	kv_cancel_restore(cancel);
}

void kv_log(int level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_line(level, false, fmt, args);
	va_end(args);
}

void kv_log_why(int level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_line(level, true, fmt, args);
	va_end(args);
}

/*
 * A broken invariant in a hot path would flood the log, so each place in the source speaks once.
 * Two places that share a slot here share one line; the counter has them all.
 */
void kv_bug(const char *file, int line, const char *what)
{
	static u32 told[NR_BUG_SITES];		/* atomic */
	u32 site = line;

	kv_count(KV_EV_BUG);
	for (const char *at = file; *at; at++)
		site = site * 31 + (u8)*at;
	if (!kv_xchg_acquire(&told[site % NR_BUG_SITES], 1))
		kv_log(KV_LOG_ERR, "kvmm: bug at %s:%d: %s", file, line, what);
#ifdef KVMM_DEBUG
	__builtin_trap();
#endif
}
