// SPDX-License-Identifier: Apache-2.0

#include "hold_util.h"

#define MAX_KEYS	64u

static int hold_attr(struct kvmm_pool *pool, u32 first, u32 nr, struct kvmm_hold_attr attr,
		     kvmm_hold_t *hold)
{
	kvmm_key_t keys[MAX_KEYS];
	struct kvmm_prefix prefix = { .keys = keys, .nr = nr };

	cr_assert_leq(nr, MAX_KEYS);
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
	attr.size = sizeof(attr);
	attr.prefix = &prefix;
	attr.owner = first;
	return kvmm_hold(pool, &attr, hold);
}

int try_hold(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags, kvmm_hold_t *hold)
{
	return hold_attr(pool, first, nr, (struct kvmm_hold_attr){ .flags = flags }, hold);
}

kvmm_hold_t hold_keys(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags)
{
	kvmm_hold_t hold;

	cr_assert_eq(try_hold(pool, first, nr, flags, &hold), nr);
	return hold;
}

kvmm_hold_t lease_keys(struct kvmm_pool *pool, u32 first, u32 nr, u64 lease_ns)
{
	kvmm_hold_t hold;

	cr_assert_eq(hold_attr(pool, first, nr, (struct kvmm_hold_attr){ .lease_ns = lease_ns },
			       &hold), nr);
	return hold;
}

struct kvmm_hold_info info_of(struct kvmm_pool *pool, kvmm_hold_t hold)
{
	struct kvmm_hold_info info;

	cr_assert_eq(kvmm_hold_get_info(pool, hold, &info), 0);
	return info;
}

u32 nr_holds(struct kvmm_pool *pool)
{
	struct kvmm_hold_info info;
	u32 cursor = 0, nr = 0;

	while (!kvmm_hold_next(pool, &cursor, &info))
		nr++;
	return nr;
}

int leaks(struct kvmm_pool *pool, u64 older_ns, struct kvmm_owned *rows, u32 max)
{
	struct kvmm_leak_attr attr = { .size = sizeof(attr), .older_ns = older_ns };

	return kvmm_leaks(pool, &attr, rows, max);
}
