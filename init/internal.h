/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the composition root. */
#ifndef KV_INIT_INTERNAL_H
#define KV_INIT_INTERNAL_H

#include <kv/dev.h>

/* "host", "cuda" or "soft", and ":0" to ":9" behind it: 0 or -ENOENT. */
int kv_find_device(const char *name, const struct kv_dev_ops **ops, u32 *number);

#endif /* KV_INIT_INTERNAL_H */
