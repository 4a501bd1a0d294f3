// SPDX-License-Identifier: Apache-2.0
/* The kinds of maps that there are. */
#include <string.h>

#include <kv/err.h>
#include <kv/registry_map.h>

#define MAX_MAPS	4u

/* The first one is the default; NULL at the end. Changes before the first pool only. */
static const struct kv_map_ops *maps[MAX_MAPS + 1] = {
	&kv_map_flat,
};

void kv_map_add(const struct kv_map_ops *ops)
{
	u32 nr = 0;

	while (maps[nr])
		nr++;
	if (!KV_BUG_ON(nr == MAX_MAPS))
		maps[nr] = ops;
}

const struct kv_map_ops *kv_map_find(const char *name)
{
	if (!name)
		return maps[0];
	for (u32 i = 0; maps[i]; i++)
		if (!strcmp(maps[i]->name, name))
			return maps[i];
	return NULL;
}
