// SPDX-License-Identifier: Apache-2.0

#include "lease_util.h"

#define MAX_KEYS	64u
#define MAX_ROWS	512u

struct kvmm_lease_attr hold_attr_of(u64 owner, u64 lease_ns, u32 flags)
{
	return (struct kvmm_lease_attr){ .size = sizeof(struct kvmm_lease_attr), .owner = owner,
					 .lease_ns = lease_ns, .flags = flags };
}

static int hold_attr(struct kvmm_pool *pool, u32 first, u32 nr, struct kvmm_lease_attr attr,
		     kvmm_lease_t *hold)
{
	kvmm_key_t keys[MAX_KEYS];
	struct kvmm_prefix prefix = { .keys = keys, .nr = nr };

	cr_assert_leq(nr, MAX_KEYS);
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
	attr.prefix = &prefix;
	return kvmm_lease_take(pool, &attr, hold);
}

int try_hold(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags, kvmm_lease_t *hold)
{
	return hold_attr(pool, first, nr, hold_attr_of(first, 0, flags), hold);
}

kvmm_lease_t hold_keys(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags)
{
	kvmm_lease_t hold;

	cr_assert_eq(try_hold(pool, first, nr, flags, &hold), nr);
	return hold;
}

kvmm_lease_t lease_keys(struct kvmm_pool *pool, u32 first, u32 nr, u64 lease_ns, u32 flags)
{
	kvmm_lease_t hold;

	cr_assert_eq(hold_attr(pool, first, nr, hold_attr_of(first, lease_ns, flags | RECLAIM),
			       &hold), nr);
	return hold;
}

struct kvmm_lease_info info_of(struct kvmm_pool *pool, kvmm_lease_t hold)
{
	struct kvmm_lease_info info;

	cr_assert_eq(kvmm_lease_get_info(pool, hold, &info), 0);
	return info;
}

u32 nr_holds(struct kvmm_pool *pool)
{
	struct kvmm_lease_info info;
	u64 cursor = 0;
	u32 nr = 0;

	while (!next_hold(pool, &cursor, &info))
		nr++;
	return nr;
}

kvmm_range_t take_owned(struct kvmm_pool *pool, u32 nr, char seq, u64 owner, u64 lease_ns,
			u32 flags)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .seq = seq, .owner = owner,
					.lease_ns = lease_ns, .own_flags = flags };
	kvmm_range_t range;

	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	return range;
}

void alloc_owned(struct kvmm_pool *pool, kvmm_mut_t *muts, u32 nr, u64 owner, u64 lease_ns,
		 u32 flags)
{
	struct kvmm_lease_attr own = hold_attr_of(owner, lease_ns, flags);

	cr_assert_eq(kvmm_alloc(pool, nr, muts), 0);
	cr_assert_eq(kvmm_lease_own_muts(pool, &own, muts, nr), 0);
}

void stage_keys(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr, u32 first,
		kvmm_staged_t *staged)
{
	kvmm_key_t keys[MAX_ROWS];
	struct kvmm_prefix prefix = { .keys = keys, .nr = nr };

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
	cr_assert_eq(kvmm_stage(pool, &prefix, muts, staged), 0);
}

static char *write_row(char *at, const struct kvmm_lease_info *row)
{
	return at + sprintf(at, &" %c%llu"[at[-1] == '\0'], "rpshP"[row->kind],
			    (unsigned long long)row->owner);
}

static char *write_suspect(char *at, const struct kvmm_lease_info *row)
{
	static const char letters[] = "EOLD";

	for (u32 i = 0; letters[i]; i++)
		if (row->leak & 1u << i)
			*at++ = letters[i];
	*at = '\0';
	return at;
}

const char *owned(struct kvmm_pool *pool)
{
	static char line[MAX_ROWS * 24];
	char *at = line + 1;
	struct kvmm_lease_info row;
	u64 cursor = 0;

	line[0] = line[1] = '\0';
	while (!next_leased(pool, NULL, &cursor, &row))
		at = write_row(at, &row);
	return line + 1;
}

const char *leaked(struct kvmm_pool *pool, u64 older_ns, u64 lone_ns)
{
	static char line[MAX_ROWS * 24];
	struct kvmm_lease_filter filter = { .size = sizeof(filter), .older_ns = older_ns,
					    .lone_ns = lone_ns };
	struct kvmm_lease_info rows[MAX_ROWS];
	char *at = line + 1;
	int nr = list_leaks(pool, &filter, rows, MAX_ROWS);

	cr_assert(nr >= 0 && nr <= MAX_ROWS, "%d", nr);
	line[0] = line[1] = '\0';
	for (int i = 0; i < nr; i++)
		at = write_suspect(write_row(at, &rows[i]), &rows[i]);
	return line + 1;
}
