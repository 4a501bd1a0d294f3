/* SPDX-License-Identifier: Apache-2.0 */
/* The random model of pools above a tier, on any device; see model.c. */
#ifndef TIER_TEST_MODEL_H
#define TIER_TEST_MODEL_H

#include <kv/types.h>

struct kvmm_pool;
struct kvmm_tier;

struct model_mode {
	const char *device;
	bool is_ids_only;
	void (*begin)(struct kvmm_pool *pool);	/* may be NULL */
	void (*made)(struct kvmm_tier *tier);	/* may be NULL */
	void (*work)(u32 dice);			/* of the device; UINT32_MAX: all of it; may be NULL */
	void (*harm)(struct kvmm_tier *tier, u32 dice);	/* flips a bit somewhere below; may be NULL */
};

/*
 * @nr operations, or KVMM_TIER_MODEL_OPS of the environment, from seed 1 or KVMM_TIER_MODEL_SEED on.
 */
void model_run(const struct model_mode *mode, u32 nr);

#endif /* TIER_TEST_MODEL_H */
