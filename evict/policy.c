// SPDX-License-Identifier: Apache-2.0
/* The policies there are, in the order in which they are listed to users. */
#include <kv/evict.h>

const struct kv_evict_ops *const kv_evict_policies[] = {
	&kv_evict_lru,
	&kv_evict_lru_classic,
	&kv_evict_slru,
	&kv_evict_lfu,
	&kv_evict_glfu,
	&kv_evict_hint,
	NULL,
};
