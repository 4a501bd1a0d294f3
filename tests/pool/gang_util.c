// SPDX-License-Identifier: Apache-2.0

#include "gang_util.h"

struct kvmm_gangs *make_gangs(struct kvmm_pool **pools, u32 nr, u32 nr_blocks, const char *policy)
{
	struct kvmm_gangs_attr set = KVMM_GANGS_ATTR_INIT;
	struct kvmm_gangs *gangs;

	for (u32 i = 0; i < nr; i++) {
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
					       .policy = policy, .block_bytes = TEST_BLOCK_BYTES,
					       .flags = KVMM_POOL_DETERMINISTIC, .seed = 1 + i };

		pools[i] = make_pool_of(&attr);
	}
	set.pools = pools;
	set.nr_pools = nr;
	cr_assert_eq(kvmm_gangs_create(&set, &gangs), 0);
	return gangs;
}

void end_gangs(struct kvmm_gangs *gangs, struct kvmm_pool **pools, u32 nr)
{
	kvmm_gangs_destroy(gangs);
	for (u32 i = 0; i < nr; i++)
		end_pool(pools[i]);
}

struct digests digests_of(struct kvmm_gangs *gangs)
{
	struct digests d;
	int nr = kv_gangs_digest(gangs, d.info, GANG_POOLS);

	cr_assert(nr > 0 && nr <= (int)GANG_POOLS, "kv_gangs_digest: %d", nr);
	d.nr = nr;
	return d;
}

const char *differ(const struct digests *a, const struct digests *b)
{
	static char text[128];
	struct kvmm_digest_diff diff;
	int ret = kvmm_digest_compare(a->info, b->info, a->nr, &diff);

	cr_assert_geq(ret, 0);
	if (!ret)
		return "";
	kvmm_digest_text(&diff, text, sizeof(text));
	return text;
}

int reserve(struct kvmm_gangs *gangs, const struct kvmm_gang_want *wants, u32 nr,
	    kvmm_gang_t *gang)
{
	struct kvmm_gang_attr attr = { .size = sizeof(attr), .wants = wants, .nr = nr };

	return kvmm_gang_reserve(gangs, &attr, gang, NULL);
}
