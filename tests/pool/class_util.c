// SPDX-License-Identifier: Apache-2.0

#include "pool/internal.h"
#include "tests/pool/class_util.h"

struct kvmm_pool *make_classed(u32 nr_blocks, const char *policy, const u32 *quota, u32 flags)
{
	struct kvmm_class classes[] = { { .name = "low" }, { .name = "mid" },
					{ .name = "high", .flags = KVMM_CLASS_TELL } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes,
					 .nr_classes = 3, .default_class = HIGH, .flags = flags };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	for (u32 i = 0; quota && i < 3; i++)
		classes[i].quota_blocks = quota[i];
	attr.nr_blocks = nr_blocks;
	attr.block_bytes = TEST_BLOCK_BYTES;
	attr.policy = policy;
	attr.evict = &evict;
	return make_pool_of(&attr);
}

kvmm_ref_t fill(struct kvmm_pool *pool, char letter, u32 cls)
{
	kvmm_ref_t ref;

	register_keys(pool, letter, 1, &ref);
	if (cls != HIGH)
		cr_assert_eq(kvmm_class_set(pool, &ref, 1, cls), 0);
	return ref;
}

void drop(struct kvmm_pool *pool, kvmm_ref_t ref)
{
	cr_assert_eq(kvmm_put_many(pool, &ref, 1), 0);
}

void fill_all(struct kvmm_pool *pool, const char *letters, u32 cls)
{
	for (; *letters; letters++)
		drop(pool, fill(pool, *letters, cls));
}

const char *lost_for(struct kvmm_pool *pool, u32 tenant, u32 nr)
{
	static char line[272];
	kvmm_mut_t mut[256];
	kvmm_key_t key[256];
	struct kvmm_acquire_args req = { .nr_blocks = nr, .fresh = mut, .evicted = key,
					 .domain.tenant = tenant };

	cr_assert_leq(nr, 256);
	cr_assert_eq(kvmm_acquire(pool, &req), 0);
	for (u32 i = 0; i < req.nr_evicted; i++)
		line[i] = number_of(&key[i]);
	line[req.nr_evicted] = '\0';
	if (req.nr_untold)
		snprintf(line + req.nr_evicted, sizeof(line) - req.nr_evicted, "+%u", req.nr_untold);
	cr_assert_eq(kvmm_free(pool, mut, req.nr_fresh), 0);
	return line;
}

const char *evicted_for(struct kvmm_pool *pool, u32 nr)
{
	return lost_for(pool, 0, nr);
}

const char *evicted(struct kvmm_pool *pool)
{
	return evicted_for(pool, stat_of(pool).nr_available);
}

struct kvmm_class_stat class_stat(struct kvmm_pool *pool, u32 cls)
{
	struct kvmm_class_stat stat;

	cr_assert_eq(kvmm_class_get_stat(pool, cls, &stat), 0);
	return stat;
}

u32 nr_protected(struct kvmm_pool *pool)
{
	return pool->order.classes->nr_protected;
}
