// SPDX-License-Identifier: Apache-2.0
/* The policies there are, in the order in which they are listed to users. */
#include <string.h>

#include <kv/err.h>
#include <kv/evict.h>

const struct kv_evict_ops *kv_evict_policies[KV_MAX_POLICIES + 1] = {
	&kv_evict_lrfu,
	&kv_evict_lru,
	&kv_evict_lru_classic,
	&kv_evict_fifo,
	&kv_evict_multilru,
	&kv_evict_lineage,
	&kv_evict_lineage_fifo,
	&kv_evict_priority,
	&kv_evict_ttl,
};

void kv_evict_add(const struct kv_evict_ops *ops)
{
	u32 nr = 0;

	while (kv_evict_policies[nr])
		nr++;
	if (!KV_BUG_ON(nr == KV_MAX_POLICIES))
		kv_evict_policies[nr] = ops;
}

const struct kv_evict_ops *kv_evict_find(const char *name, const char **args)
{
	const char *colon = strchr(name, ':');
	size_t length = colon ? (size_t)(colon - name) : strlen(name);

	*args = colon ? colon + 1 : NULL;
	if (!colon && !strcmp(name, "default"))
		return kv_evict_policies[0];
	for (u32 i = 0; kv_evict_policies[i]; i++) {
		const char *other = kv_evict_policies[i]->name;

		if (!strncmp(name, other, length) && !other[length])
			return kv_evict_policies[i];
	}
	return NULL;
}
