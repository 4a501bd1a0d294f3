// SPDX-License-Identifier: Apache-2.0
/* Times of sampled blocks, against a model that keeps its own. */
#include "feed/internal.h"
#include "tests/pool/util.h"
#include "tests/support/fault.h"

TestSuite(residency, .init = fault_begin, .fini = fault_end);

#define NR_BLOCKS	64u
#define NR_KEYS		160u
#define NR_STEPS	6000u
#define MS		1000000ull

struct model {
	u64 born[NR_KEYS];		/* 0: not cached */
	u64 used[NR_KEYS];
	bool followed[NR_KEYS];
	struct kvmm_residency_stat want[KVMM_NR_RESIDENCY_KINDS];
};

static void want(struct model *m, enum kvmm_residency_kind kind, u64 ns)
{
	u32 i = 0;

	while (ns > kvmm_residency_bound_ns(i))
		i++;
	m->want[kind].bucket[i]++;
	m->want[kind].sum_ns += ns;
}

static void expect_model(struct kvmm_pool *pool, const struct model *m)
{
	struct kvmm_residency_stat stat;

	for (u32 kind = 0; kind < KVMM_NR_RESIDENCY_KINDS; kind++) {
		cr_assert_eq(kvmm_residency_get_stat(pool, kind, &stat), 0);
		cr_assert_eq(memcmp(&stat, &m->want[kind], sizeof(stat)), 0, "kind %u", kind);
	}
}

static void model_gone(struct model *m, u32 number, u64 now)
{
	if (m->followed[number]) {
		want(m, KVMM_RESIDENCY_LIFETIME, now - m->born[number]);
		want(m, KVMM_RESIDENCY_IDLE, now - m->used[number]);
	}
	m->born[number] = 0;
	m->followed[number] = false;
}

/* Hit, or take a block, which may evict one, and register it. */
static void use(struct kvmm_pool *pool, struct model *m, u32 number, u32 ppm, u64 now)
{
	kvmm_key_t key = key_of(number), evicted;
	struct kvmm_acquire_args req = { .keys = &key, .nr_keys = 1, .max_hits = 1, .nr_blocks = 1,
					 .evicted = &evicted };
	kvmm_ref_t ref;
	kvmm_mut_t mut;

	req.hits = &ref;
	req.fresh = &mut;
	cr_assert_eq(kvmm_acquire(pool, &req), 0);
	cr_assert_eq(req.nr_hits, !!m->born[number]);
	if (req.nr_hits && m->followed[number]) {
		want(m, KVMM_RESIDENCY_REUSE, now - m->used[number]);
		want(m, KVMM_RESIDENCY_HIT_AGE, now - m->born[number]);
		m->used[number] = now;
	}
	if (req.nr_evicted)
		model_gone(m, number_of(&evicted), now);
	if (!req.nr_hits) {
		cr_assert_eq(kvmm_register(pool, &mut, &key, 1, &ref), 0);
		m->born[number] = m->used[number] = now;
		m->followed[number] = kv_residency_sampled(&key, ppm) == 1;
	}
	cr_assert_eq(kvmm_put(pool, ref), 0);
}

static void forget(struct kvmm_pool *pool, struct model *m, u64 now)
{
	cr_assert_geq(kvmm_reset_inactive(pool), 0);
	for (u32 i = 0; i < NR_KEYS; i++)
		if (m->born[i])
			model_gone(m, i, now);
}

static void run(u32 seed)
{
	static struct model m;
	struct kvmm_pool *pool __cleanup(end_pool) = make_cache(NR_BLOCKS, "lru");
	u32 ppm = 300000;

	memset(&m, 0, sizeof(m));
	cr_assert_eq(kvmm_residency_set(pool, ppm), 0);
	srand(seed);
	for (u32 i = 0; i < NR_STEPS; i++) {
		fake_env_advance(&fake, (u64)(rand() % 4000) * MS / (1 + rand() % 1000));
		use(pool, &m, rand() % NR_KEYS, ppm, fake.now_ns);
		if (i % 1500 == 1499) {
			forget(pool, &m, fake.now_ns);
			ppm = (u32)rand() % 1000001u;
			cr_assert_eq(kvmm_residency_set(pool, ppm), 0);
		}
		if (i % 100 == 0) {
			expect_model(pool, &m);
			cr_assert_eq(kvmm_validate(pool), 0);
		}
	}
	expect_model(pool, &m);
}

Test(residency, equals_a_model)
{
	u32 seed = 20261121;

	fprintf(stderr, "residency: seed %u\n", seed);
	for (u32 i = 0; i < 4; i++)
		run(seed + i);
}

/* So many of a million keys in a row, and of a million keys that are hashes. */
Test(residency, samples_what_it_says)
{
	u32 nr = 0, nr_odd = 0;
	u64 word = 1;

	for (u32 i = 0; i < 1000000; i++) {
		kvmm_key_t key = { { 0 } };

		memcpy(&key.byte[0], &i, sizeof(i));
		nr += kv_residency_sampled(&key, 10000);
		word = word * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(&key.byte[8], &word, sizeof(word));
		nr_odd += kv_residency_sampled(&key, 10000);
	}
	cr_expect(nr > 9500 && nr < 10500, "%u of a row", nr);
	cr_expect(nr_odd > 9500 && nr_odd < 10500, "%u of hashes", nr_odd);
}

POOL_TEST(residency, is_off_unless_asked_for, make_cache(16, "lru"))
{
	struct kvmm_residency_stat stat, none = { 0 };
	kvmm_ref_t ref;
	kvmm_key_t key = key_of(1);

	cache_keys(pool, 1, 4);
	cr_assert_eq(kvmm_match(pool, &key, 1, &ref), 1);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	cr_assert_eq(kvmm_reset_inactive(pool), 4);
	cr_assert_eq(kvmm_residency_get_stat(pool, KVMM_RESIDENCY_LIFETIME, &stat), 0);
	cr_expect_eq(memcmp(&stat, &none, sizeof(stat)), 0);
}

/* What was sampled is followed to its end when nothing new is. */
POOL_TEST(residency, ends_what_it_began, make_cache(16, "lru"))
{
	struct kvmm_residency_stat stat;
	u64 nr = 0;

	cr_assert_eq(kvmm_residency_set(pool, 1000000), 0);
	cache_keys(pool, 1, 4);
	cr_assert_eq(kvmm_residency_set(pool, 0), 0);
	cache_keys(pool, 10, 4);
	cr_assert_eq(kvmm_reset_inactive(pool), 8);
	cr_assert_eq(kvmm_residency_get_stat(pool, KVMM_RESIDENCY_LIFETIME, &stat), 0);
	for (u32 i = 0; i <= KVMM_RESIDENCY_BOUNDS; i++)
		nr += stat.bucket[i];
	cr_expect_eq(nr, 4);
}

/* A limit is the last of its bucket. */
POOL_TEST(residency, limits_belong_to_what_is_below_them, make_cache(16, "lru"))
{
	struct kvmm_residency_stat stat;

	cr_assert_eq(kvmm_residency_set(pool, 1000000), 0);
	cache_keys(pool, 1, 1);
	fake_env_advance(&fake, MS);
	cr_assert_eq(kvmm_reset_inactive(pool), 1);
	cache_keys(pool, 2, 1);
	fake_env_advance(&fake, MS + 1);
	cr_assert_eq(kvmm_reset_inactive(pool), 1);
	cr_assert_eq(kvmm_residency_get_stat(pool, KVMM_RESIDENCY_LIFETIME, &stat), 0);
	cr_expect_eq(stat.bucket[0], 1);
	cr_expect_eq(stat.bucket[1], 1);
}

/* References that are none stand where a window has nothing. */
POOL_TEST(residency, what_was_not_hit_is_no_hit, make_cache(16, "lru"))
{
	const struct kv_handle none[2] = { { 0, 0 }, { 0, 0 } };
	struct kvmm_residency_stat stat;

	cr_assert_eq(kvmm_residency_set(pool, 1000000), 0);
	pool_tell(pool, hit, none, 2);
	cr_assert_eq(kvmm_residency_get_stat(pool, KVMM_RESIDENCY_REUSE, &stat), 0);
	cr_expect_eq(stat.sum_ns, 0);
	for (u32 i = 0; i <= KVMM_RESIDENCY_BOUNDS; i++)
		cr_expect_eq(stat.bucket[i], 0);
}

Test(residency, refuses_nonsense)
{
	struct kvmm_pool *pool = make_cache(16, "lru"), *plain __cleanup(end_pool) = make_pool(16);
	struct kvmm_residency_stat stat;
	kvmm_key_t key = key_of(1);

	cr_expect_eq(kvmm_residency_set(NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_residency_set(pool, 1000001), -EINVAL);
	cr_expect_eq(kvmm_residency_set(plain, 1), -EOPNOTSUPP);
	cr_expect_eq(kvmm_residency_get_stat(pool, KVMM_NR_RESIDENCY_KINDS, &stat), -EINVAL);
	cr_expect_eq(kvmm_residency_get_stat(pool, 0, NULL), -EINVAL);
	cr_expect_eq(kv_residency_sampled(NULL, 1), -EINVAL);
	cr_expect_eq(kv_residency_sampled(&key, 1000001), -EINVAL);
	cr_expect_eq(kv_residency_sampled(&key, 0), 0);
	cr_expect_eq(kv_residency_sampled(&key, 1000000), 1);
	memset(&key, 0, sizeof(key));		/* whose hash is the lowest that there is */
	cr_expect_eq(kv_residency_sampled(&key, 0), 0);
	cr_expect_eq(kv_residency_sampled(&key, 1), 1);
	cr_expect_eq(kvmm_residency_bound_ns(0), MS);
	cr_expect_eq(kvmm_residency_bound_ns(KVMM_RESIDENCY_BOUNDS), UINT64_MAX);
	end_pool(pool);
}

POOL_TEST(residency, no_memory_changes_nothing, make_cache(16, "lru"))
{
	expect_no_memory(kvmm_residency_set(pool, 1000000));
	cache_keys(pool, 1, 4);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_residency_set(pool, 1000000), 0);
}
