// SPDX-License-Identifier: Apache-2.0

#include "owner_util.h"

#define MAX_ROWS	512u

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
	struct kvmm_own own = { sizeof(own), owner, lease_ns, flags, 0 };

	cr_assert_eq(kvmm_alloc(pool, nr, muts), 0);
	cr_assert_eq(kvmm_own_muts(pool, &own, muts, nr), 0);
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

void register_keys(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *refs)
{
	kvmm_key_t keys[MAX_ROWS];
	kvmm_mut_t muts[MAX_ROWS];

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
	cr_assert_eq(kvmm_alloc(pool, nr, muts), 0);
	cr_assert_eq(kvmm_register(pool, muts, keys, nr, refs), 0);
}

struct kvmm_hold_attr hold_attr_of(u64 owner, u64 lease_ns, u32 flags)
{
	struct kvmm_hold_attr attr = { .size = sizeof(attr), .owner = owner, .lease_ns = lease_ns,
				       .flags = flags };

	return attr;
}

static char *write_row(char *at, const struct kvmm_owned *row)
{
	return at + sprintf(at, &" %c%llu"[at[-1] == '\0'], "rpshP"[row->kind],
			    (unsigned long long)row->owner);
}

static char *write_suspect(char *at, const struct kvmm_owned *row)
{
	static const char letters[] = "EOLD";

	for (u32 i = 0; letters[i]; i++)
		if (row->suspect & 1u << i)
			*at++ = letters[i];
	*at = '\0';
	return at;
}

const char *owned(struct kvmm_pool *pool)
{
	static char line[MAX_ROWS * 24];
	char *at = line + 1;
	struct kvmm_owned row;
	u64 cursor = 0;

	line[0] = line[1] = '\0';
	while (!kvmm_owned_next(pool, &cursor, &row))
		at = write_row(at, &row);
	return line + 1;
}

const char *leaked(struct kvmm_pool *pool, u64 older_ns, u64 lone_ns)
{
	static char line[MAX_ROWS * 24];
	struct kvmm_leak_attr attr = { .size = sizeof(attr), .older_ns = older_ns,
				       .lone_ns = lone_ns };
	struct kvmm_owned rows[MAX_ROWS];
	char *at = line + 1;
	int nr = kvmm_leaks(pool, &attr, rows, MAX_ROWS);

	cr_assert(nr >= 0 && nr <= MAX_ROWS, "%d", nr);
	line[0] = line[1] = '\0';
	for (int i = 0; i < nr; i++)
		at = write_suspect(write_row(at, &rows[i]), &rows[i]);
	return line + 1;
}
