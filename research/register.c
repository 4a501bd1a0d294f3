// SPDX-License-Identifier: Apache-2.0
/* Adds all of this folder to the library's tables when the program starts. */
#include <kv/bits.h>

#include "research.h"

static const struct kv_zone_ops *const engines[] = {
	&kv_zone_best,
	&kv_zone_lists,
	&kv_zone_first,
};

static const struct kv_evict_ops *const policies[] = {
	&kv_evict_lfu,
	&kv_evict_glfu,
	&kv_evict_hint,
	&kv_evict_cost,
	&kv_evict_tlru,
	&kv_evict_slru,
	&kv_evict_arc,
	&kv_evict_s3fifo,
};

static __attribute__((constructor)) void register_all(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(engines); i++)
		kv_zone_add_engine(engines[i]);
	for (u32 i = 0; i < ARRAY_SIZE(policies); i++)
		kv_evict_add(policies[i]);
	kv_map_add(&kv_map_lfht);
}
