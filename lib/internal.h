/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of lib/ share. */
#ifndef LIB_INTERNAL_H
#define LIB_INTERNAL_H

#include <kv/types.h>

u32 kv_system_cpu(void *ctx);

#endif /* LIB_INTERNAL_H */
