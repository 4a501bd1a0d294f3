/* SPDX-License-Identifier: Apache-2.0 */
/* One line for the operator, through the env seam; nothing is printed unless a logger is set. */
#ifndef KV_LOG_H
#define KV_LOG_H

#include <kv/types.h>

enum { KV_LOG_ERR = 3, KV_LOG_WARN = 4, KV_LOG_INFO = 6, KV_LOG_DEBUG = 7 };

void kv_log(int level, const char *fmt, ...) __printf(2, 3);

/*
 * From here to kv_log_keep(NULL, 0), what this thread logs is also written to @line, one over the
 * other: for callees that tell their caller in words why something failed. Does not nest.
 */
void kv_log_keep(char *line, size_t bytes);

#endif /* KV_LOG_H */
