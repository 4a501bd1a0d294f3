/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of lib/ share. */
#ifndef LIB_INTERNAL_H
#define LIB_INTERNAL_H

#include <kv/types.h>

struct kv_file_io;

u32 kv_system_cpu(void *ctx);

/* A queue as in struct kv_file_ops. */
int kv_uring_open(void *ctx, u32 depth, int event, void **queue);
int kv_uring_submit(void *ctx, void *queue, struct kv_file_io *const *ios, u32 nr);
int kv_uring_reap(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait);
void kv_uring_close(void *ctx, void *queue);

#endif /* LIB_INTERNAL_H */
