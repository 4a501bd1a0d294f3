// SPDX-License-Identifier: Apache-2.0

#include "gang_util.h"

void make_pools(struct kvmm_pool **pools, u32 nr, u32 nr_blocks, const char *policy)
{
	for (u32 i = 0; i < nr; i++) {
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
					       .policy = policy, .block_bytes = TEST_BLOCK_BYTES,
					       .flags = KVMM_POOL_DETERMINISTIC, .seed = 1 + i };

		pools[i] = make_pool_of(&attr);
	}
}

void end_pools(struct kvmm_pool **pools, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		if (pools[i])
			end_pool(pools[i]);
		pools[i] = NULL;
	}
}

struct digests digests_of(struct kvmm_pool **pools, u32 nr)
{
	struct digests d = { .nr = nr };

	for (u32 i = 0; i < nr; i++) {
		d.info[i].size = sizeof(d.info[i]);
		cr_assert_eq(kvmm_pool_digest(pools[i], &d.info[i]), 0);
	}
	return d;
}

const char *differ(const struct digests *a, const struct digests *b)
{
	static struct kvmm_digest_diff diff;
	int ret = kvmm_digest_compare(a->info, b->info, a->nr, &diff);

	cr_assert_geq(ret, 0);
	return ret ? diff.text : "";
}

int reserve(struct kvmm_pool **pools, const struct kvmm_gang_want *wants, u32 nr,
	    struct kvmm_gang **gang)
{
	struct kvmm_gang_attr attr = { .size = sizeof(attr), .pools = pools, .wants = wants,
				       .nr = nr };

	for (u32 i = 0; i < nr; i++)
		attr.nr_pools = max(attr.nr_pools, wants[i].pool + 1);
	return kvmm_gang_reserve(&attr, gang, NULL);
}
