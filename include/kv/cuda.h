/* SPDX-License-Identifier: Apache-2.0 */
/* The devices there are. */
#ifndef KV_CUDA_H
#define KV_CUDA_H

#include <kv/dev.h>

extern const struct kv_dev_ops kv_dev_host;	/* plain memory; every call is synchronous */
extern const struct kv_dev_ops kv_dev_cuda;	/* libcuda.so.1, or KVMM_CUDA_DRIVER's */
extern const struct kv_dev_ops kv_dev_soft;	/* libkvmm-swcuda.so, or KVMM_SOFT_DRIVER's */

#endif /* KV_CUDA_H */
