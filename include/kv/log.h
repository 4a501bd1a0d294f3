/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line for the operator, through the env seam: see kvmm_log_set(). Of each thread the last line
 * that is a reason is kept: calls that can be refused for more than one clear it first.
 */
#ifndef KV_LOG_H
#define KV_LOG_H

#include <kv/types.h>

enum { KV_LOG_ERR = 3, KV_LOG_WARN = 4, KV_LOG_INFO = 6, KV_LOG_DEBUG = 7 };

void kv_log(int level, const char *fmt, ...) __printf(2, 3);

/* kvmm_why() is "" until this thread's next kv_log_why(). */
void kv_why_clear(void);

/* The same line, and it says why the call that is under way is refused. */
void kv_log_why(int level, const char *fmt, ...) __printf(2, 3);

/* Say why a call returns @err, which is the value. */
#define kv_refuse(err, ...)	(kv_log_why(KV_LOG_INFO, __VA_ARGS__), (err))

#endif /* KV_LOG_H */
