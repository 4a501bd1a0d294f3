/* SPDX-License-Identifier: Apache-2.0 */
/* The words behind the colon of a policy's name. */
#ifndef EVICT_ARGS_H
#define EVICT_ARGS_H

#include <kv/types.h>

/* Exactly @nr numbers up to @limit with commas between them: 0, or -EINVAL. */
int args_numbers(const char *args, u32 *numbers, u32 nr, u32 limit);

#endif /* EVICT_ARGS_H */
