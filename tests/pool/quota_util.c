// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>

#include "tests/pool/quota_util.h"

u32 tenant_of(char letter)
{
	return islower(letter) ? 1 : isupper(letter) ? 2 : 3;
}

kvmm_domain_t domain_of(u32 tenant)
{
	return (kvmm_domain_t){ .tenant = tenant };
}

int try_limit(struct kvmm_pool *pool, u32 tenant, u32 min, u32 low, u32 high, u32 max)
{
	struct kvmm_tenant_attr attr = { sizeof(attr), min, low, high, max };

	return kvmm_tenant_set(pool, tenant, &attr);
}

void limit(struct kvmm_pool *pool, u32 tenant, u32 min, u32 low, u32 high, u32 max)
{
	cr_assert_eq(try_limit(pool, tenant, min, low, high, max), 0);
}

static struct kvmm_prefix prefix_of(kvmm_key_t *key, char letter)
{
	*key = key_of(letter);
	return (struct kvmm_prefix){ .keys = key, .nr = 1,
				     .domain = domain_of(tenant_of(letter)) };
}

kvmm_ref_t hold(struct kvmm_pool *pool, char letter)
{
	kvmm_key_t key;
	struct kvmm_prefix prefix = prefix_of(&key, letter);
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_alloc_for(pool, 1, tenant_of(letter), &mut), 0, "%c", letter);
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, &mut, &ref), 0);
	return ref;
}

void cache(struct kvmm_pool *pool, const char *letters)
{
	for (; *letters; letters++)
		drop(pool, hold(pool, *letters));
}

kvmm_ref_t use(struct kvmm_pool *pool, char letter)
{
	kvmm_key_t key;
	struct kvmm_prefix prefix = prefix_of(&key, letter);
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_prefix_match(pool, &prefix, &ref), 1, "%c", letter);
	return ref;
}

const char *cached(struct kvmm_pool *pool)
{
	static char line[64];
	u32 nr = 0;

	for (char letter = '0'; letter <= 'z'; letter++) {
		kvmm_key_t key;
		struct kvmm_prefix prefix = prefix_of(&key, letter);

		if (isalnum(letter) && kvmm_prefix_len(pool, &prefix))
			line[nr++] = letter;
	}
	line[nr] = '\0';
	return line;
}

struct kvmm_tenant_stat tenant_stat(struct kvmm_pool *pool, u32 tenant)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_tenant_get_stat(pool, tenant, &stat), 0);
	return stat;
}

u32 usage(struct kvmm_pool *pool, u32 tenant)
{
	return tenant_stat(pool, tenant).usage;
}

u32 squeeze(struct kvmm_pool *pool, u32 tenant, u32 nr)
{
	struct kvmm_tenant_stat was = tenant_stat(pool, tenant);

	limit(pool, tenant, was.min, was.low, was.usage - min(nr, was.usage), NO_LIMIT);
	limit(pool, tenant, was.min, was.low, was.high, was.max);
	return tenant_stat(pool, tenant).nr_reclaimed - was.nr_reclaimed;
}
