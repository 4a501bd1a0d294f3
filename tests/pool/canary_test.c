// SPDX-License-Identifier: Apache-2.0
/*
 * Canaries: each tenant fills whatever it is given with its own byte, by whatever way it got there, one
 * block or many, from the zone, a magazine, an eviction, a range that grows. Nobody may ever be handed
 * another one's, and what is cached stays what it was. Random operations; KVMM_SEED chooses the
 * run.
 */
#include "percpu/mag.h"
#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	640u	/* enough for magazines */
#define NR_TENANTS	3u
#define NR_MUTS		96u	/* private blocks at a time, by tenant */
#define NR_RANGES	12u
#define NR_KEYS		400u
#define NR_OPS		6000u

static struct run {
	struct kvmm_pool *pool;
	u32 zero;
	kvmm_mut_t mut[NR_TENANTS][NR_MUTS];
	u32 nr_muts[NR_TENANTS];
	kvmm_range_t range[NR_RANGES];
	u32 range_tenant[NR_RANGES];	/* 1 more; 0: none */
	u64 nr_given, nr_zero, nr_hits;
} r;

static u8 content(u32 block)
{
	u8 buf[TEST_BLOCK_BYTES];

	cr_assert_eq(kvmm_block_read(r.pool, block, 0, buf, sizeof(buf)), 0);
	for (u32 i = 1; i < sizeof(buf); i++)
		cr_assert_eq(buf[i], buf[0]);
	return buf[0];
}

static u8 canary_of(u32 tenant)
{
	return 'a' + tenant;
}

/* It was just handed out. */
static void receive(u32 block, u32 tenant)
{
	u8 buf[TEST_BLOCK_BYTES], seen = content(block);

	cr_assert(!seen || (r.zero != KVMM_ZERO_ALWAYS && seen == canary_of(tenant)),
		  "tenant %u was given '%c' in block %u", tenant, seen, block);
	r.nr_given++;
	r.nr_zero += !seen;
	memset(buf, canary_of(tenant), sizeof(buf));
	cr_assert_eq(kvmm_block_write(r.pool, block, 0, buf, sizeof(buf)), 0);
}

/* ---- private and cached blocks ---- */

static void take_muts(u32 nr)
{
	u32 tenant = any(NR_TENANTS), *at = &r.nr_muts[tenant];
	kvmm_mut_t *mut = &r.mut[tenant][*at];

	if (*at + nr > NR_MUTS || kvmm_alloc_for(r.pool, nr, tenant, mut))
		return;
	for (u32 i = 0; i < nr; i++)
		receive(kvmm_block_of_mut(r.pool, mut[i]), tenant);
	*at += nr;
}

static void op_single(void)
{
	take_muts(1);
}

static void op_batch(void)
{
	take_muts(2 + any(30));
}

static void op_free(void)
{
	u32 tenant = any(NR_TENANTS), nr = any(2) ? 1 : any(r.nr_muts[tenant] + 1);

	for (; nr && r.nr_muts[tenant]; nr--)
		cr_assert_eq(kvmm_free(r.pool, &r.mut[tenant][--r.nr_muts[tenant]], 1), 0);
}

static struct kvmm_prefix prefix_of(kvmm_key_t *key, u32 i, u32 tenant)
{
	*key = key_of(i);
	return (struct kvmm_prefix){ .keys = key, .nr = 1, .domain = { .tenant = tenant } };
}

static void op_cache(void)
{
	u32 tenant = any(NR_TENANTS);
	kvmm_key_t key;
	struct kvmm_prefix prefix = prefix_of(&key, any(NR_KEYS), tenant);
	kvmm_ref_t ref;

	if (!r.nr_muts[tenant])
		return;
	cr_assert_eq(kvmm_prefix_register(r.pool, &prefix,
					  &r.mut[tenant][--r.nr_muts[tenant]], &ref), 0);
	cr_assert_eq(kvmm_put_many(r.pool, &ref, 1), 0);
}

static void op_hit(void)
{
	u32 tenant = any(NR_TENANTS);
	kvmm_key_t key;
	struct kvmm_prefix prefix = prefix_of(&key, any(NR_KEYS), tenant);
	kvmm_ref_t ref;

	if (kvmm_prefix_match(r.pool, &prefix, &ref) < 1)
		return;
	cr_assert_eq(content(kvmm_block_of_ref(r.pool, ref)), canary_of(tenant));
	cr_assert_eq(kvmm_put_many(r.pool, &ref, 1), 0);
	r.nr_hits++;
}

/* ---- ranges ---- */

/* Blocks from number @from on are new, those before are what they were. */
static void receive_range(u32 i, u32 from)
{
	struct kvmm_extent ext[NR_BLOCKS];
	int nr_ext = kvmm_range_extents(r.pool, r.range[i], ext, NR_BLOCKS);
	u32 tenant = r.range_tenant[i] - 1, nr = 0;

	for (int e = 0; e < nr_ext; e++)
		for (u32 b = 0; b < ext[e].nr; b++, nr++) {
			if (nr >= from)
				receive(ext[e].start + b, tenant);
			else
				cr_assert_eq(content(ext[e].start + b), canary_of(tenant));
		}
}

static void op_range(void)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any(24),
					.tenant = any(NR_TENANTS) };
	u32 i = any(NR_RANGES);

	if (r.range_tenant[i] || kvmm_range_alloc_attr(r.pool, &attr, &r.range[i]))
		return;
	r.range_tenant[i] = 1 + attr.tenant;
	receive_range(i, 0);
}

static void op_range_end(void)
{
	u32 i = any(NR_RANGES);

	if (!r.range_tenant[i])
		return;
	cr_assert_eq(kvmm_range_free(r.pool, r.range[i]), 0);
	r.range_tenant[i] = 0;
}

static void op_range_resize(void)
{
	struct kvmm_range_info info;
	u32 i = any(NR_RANGES);

	if (!r.range_tenant[i])
		return;
	cr_assert_eq(kvmm_range_get_info(r.pool, r.range[i], &info), 0);
	if (any(2) && !kvmm_range_grow(r.pool, r.range[i], 1 + any(8)))
		receive_range(i, info.nr);
	else if (info.nr > 1)
		cr_assert_eq(kvmm_range_shrink_front(r.pool, r.range[i], 1 + any(info.nr - 1)), 0);
}

static void op_compact(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };

	if (any(8))
		return;
	cr_assert_eq(kvmm_pool_compact(r.pool, &goal), 0);
	for (u32 i = 0; i < NR_RANGES; i++)
		if (r.range_tenant[i])
			receive_range(i, UINT32_MAX);
}

static void op_limit(void)
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;

	if (any(4))
		return;
	attr.min = any(100);
	attr.high = any(300);
	attr.max = 100 + any(300);
	cr_assert_eq(kvmm_tenant_set(r.pool, any(NR_TENANTS), &attr), 0);
}

/* ---- the run ---- */

static void plant_everywhere(void)
{
	u8 buf[TEST_BLOCK_BYTES];

	memset(buf, 'x', sizeof(buf));
	for (u32 i = 0; i < NR_BLOCKS; i++)
		cr_assert_eq(kvmm_block_write(r.pool, i, 0, buf, sizeof(buf)), 0);
}

static void run(u32 zero)
{
	static void (*const ops[])(void) = {
		op_single, op_single, op_single, op_single, op_batch, op_free, op_free, op_free,
		op_cache, op_cache, op_cache, op_hit, op_range, op_range_end, op_range_resize,
		op_compact, op_limit,
	};
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = "lru" };
	u64 seed = test_number("KVMM_SEED", 20251122);

	any_state = seed | 1;
	r = (struct run){ .zero = zero };
	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	attr.zero = zero;
	r.pool = make_pool_of(&attr);
	plant_everywhere();
	cr_expect(r.pool->mags && !r.pool->no_mags);
	for (u32 i = 0; i < NR_OPS; i++)	/* limits in the second half only */
		ops[any(ARRAY_SIZE(ops) - (i < NR_OPS / 2))]();
	cr_expect_gt(r.nr_given, NR_OPS / 2);
	cr_expect_gt(r.nr_zero, 500);
	cr_expect_gt(r.nr_hits, 50);
	if (zero == KVMM_ZERO_TENANT)
		cr_expect_gt(r.nr_given - r.nr_zero, 500, "its own is not zeroed");
	end_pool(r.pool);
}

TEST_CALL(canary, on_tenant_change_nobody_is_given_anothers, run(KVMM_ZERO_TENANT))
TEST_CALL(canary, always_means_nobody_is_given_anything, run(KVMM_ZERO_ALWAYS))
