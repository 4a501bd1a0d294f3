/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line for the operator, through the env seam: see kvmm_log_set(). The last one of each thread
 * is kept: calls that can be refused for more than one reason clear it first, and say the reason.
 */
#ifndef KV_LOG_H
#define KV_LOG_H

#include <kv/types.h>

enum { KV_LOG_ERR = 3, KV_LOG_WARN = 4, KV_LOG_INFO = 6, KV_LOG_DEBUG = 7 };

void kv_log(int level, const char *fmt, ...) __printf(2, 3);

/* kvmm_why() is "" until the next line of this thread. */
void kv_why_clear(void);

/* A line of KV_LOG_INFO: why a call returns @err. Return: @err. */
int kv_refuse(int err, const char *fmt, ...) __printf(2, 3);

#endif /* KV_LOG_H */
