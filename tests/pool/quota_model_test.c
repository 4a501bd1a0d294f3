// SPDX-License-Identifier: Apache-2.0
/*
 * Random operations of several tenants, with and without classes, against a model that shares no code
 * with the pool: blocks with a tenant, a class and a time of becoming idle, and a search through all of
 * them for each victim, by the rules of Documentation/tenants.rst. What is refused, who is evicted,
 * what is charged and every event must be the same each time. KVMM_SEED and KVMM_MODEL_OPS choose
 * the run.
 */
#include "tests/pool/quota_util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	40u
#define NR_KEYS		90u
#define NR_TENANTS	4u	/* the last one has no account: it is the rest */
#define NR_CLASSES	3u
#define NR_HELD		12u	/* private batches, and ranges */
#define NOBODY		99u

/* One key, cached or not; it is of tenant key % NR_TENANTS. */
struct block {
	kvmm_ref_t ref;
	u64 idle;		/* when it was put back */
	u32 refs;
	u32 cls;
	bool live;
};

struct tenant {
	u32 min, low, high, max;
	u32 usage, peak;
	u64 nr_low, nr_high, nr_max, nr_oom, nr_reclaimed, nr_evicted;
};

struct held {
	kvmm_mut_t mut[4];
	kvmm_range_t range;
	u32 tenant;
	u32 nr;			/* 0: none */
};

static const u32 quota[NR_CLASSES] = { 0, 8, 0 };	/* 0: none */

static struct model {
	struct kvmm_pool *pool;
	u64 clock;
	bool classed;
	struct block block[NR_KEYS];
	struct tenant tenant[NR_TENANTS];
	struct held priv[NR_HELD];
	struct held range[NR_HELD];
	u64 nr_evicted, nr_refused, nr_full;
} m;

static u32 id_of(u32 tenant)
{
	return tenant == NR_TENANTS - 1 ? KVMM_TENANT_REST : 10 + tenant;
}

/* ---- the model ---- */

static bool is_idle(u32 i)
{
	return m.block[i].live && !m.block[i].refs;
}

static u32 nr_idle(u32 tenant)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_KEYS; i++)
		nr += is_idle(i) && (tenant == NOBODY || i % NR_TENANTS == tenant);
	return nr;
}

static u32 nr_free(void)
{
	u32 nr = NR_BLOCKS;

	for (u32 t = 0; t < NR_TENANTS; t++)
		nr -= m.tenant[t].usage;
	return nr;
}

static bool is_over(u32 cls)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_KEYS; i++)
		nr += m.block[i].live && m.block[i].cls == cls;
	return m.classed && quota[cls] && nr > quota[cls];
}

/* 0: over high, 1: as any, 2: protected by low, 3: by min, but it is for itself, 4: by min. */
static u32 level_of(u32 tenant, u32 who)
{
	const struct tenant *t = &m.tenant[tenant];

	if (t->usage <= t->min)
		return tenant == who ? 3 : 4;
	if (t->usage > t->high)
		return 0;
	return t->usage > t->low ? 1 : 2;
}

/* Smallest of @rank, then the longest idle; of one class, or of all. */
static u32 best_of(u32 cls, u32 who, bool own, bool protects)
{
	u32 best = NR_KEYS, best_rank = 0;

	for (u32 i = 0; i < NR_KEYS; i++) {
		u32 tenant = i % NR_TENANTS, level = level_of(tenant, who), rank;

		if (!is_idle(i) || (own && tenant != who) || (cls < NR_CLASSES && m.block[i].cls != cls))
			continue;
		if (!own && protects && level == 4)
			continue;
		rank = own ? m.block[i].cls : cls < NR_CLASSES ? level : level * 10 + m.block[i].cls;
		if (best < NR_KEYS && (rank > best_rank ||
				       (rank == best_rank && m.block[i].idle > m.block[best].idle)))
			continue;
		best = i;
		best_rank = rank;
	}
	return best;
}

static u32 next_victim(u32 who, bool own, bool over_only)
{
	for (u32 cls = 0; cls < NR_CLASSES; cls++)
		if (is_over(cls) && best_of(cls, who, own, false) < NR_KEYS)
			return best_of(cls, who, own, false);
	return over_only ? NR_KEYS : best_of(NR_CLASSES, who, own, true);
}

static void evict(u32 i, u32 who, bool own)
{
	struct tenant *t = &m.tenant[i % NR_TENANTS];

	t->nr_reclaimed += own;
	t->nr_low += !own && i % NR_TENANTS != who && level_of(i % NR_TENANTS, who) == 2;
	t->nr_evicted++;
	t->usage--;
	m.block[i] = (struct block){ 0 };
	m.nr_evicted++;
}

static void trim(void)
{
	u32 i;

	while ((i = next_victim(NOBODY, false, true)) < NR_KEYS)
		evict(i, NOBODY, false);
}

static u32 beyond(u32 nr, u32 limit)
{
	return nr > limit ? nr - limit : 0;
}

/* What others than @who leave for it; hits of @who are idle no more. */
static u32 nr_available(u32 who, u32 nr_hits)
{
	u32 nr = nr_free();

	for (u32 t = 0; t < NR_TENANTS; t++) {
		u32 idle = nr_idle(t) - (t == who ? nr_hits : 0);

		nr += t == who ? idle : min(idle, beyond(m.tenant[t].usage, m.tenant[t].min));
	}
	return nr;
}

/* The errno, and if it is 0 all is done but handing out; @hit: key that is hit, or NR_KEYS. */
static int model_take(u32 who, u32 nr, u32 hit)
{
	struct tenant *t = &m.tenant[who];
	u32 over_max = beyond(t->usage + nr, t->max), over_high = beyond(t->usage + nr, t->high);
	u32 nr_hits = hit < NR_KEYS && is_idle(hit), own = nr_idle(who) - nr_hits;

	if (!nr)
		return 0;
	if (over_max > own) {
		t->nr_high += over_high > 0;
		t->nr_max++;
		t->nr_oom++;
		m.nr_refused++;
		return -EDQUOT;
	}
	if (nr > nr_available(who, nr_hits)) {
		m.nr_full++;
		return -ENOSPC;
	}
	t->nr_high += over_high > 0;
	t->nr_max += over_max > 0;
	if (hit < NR_KEYS)
		m.block[hit].refs++;
	for (u32 i = 0; i < max(over_max, min(over_high, own)); i++)
		evict(next_victim(who, true, false), who, true);
	while (nr_free() < nr)
		evict(next_victim(who, false, false), who, false);
	if (hit < NR_KEYS)
		m.block[hit].refs--;
	t->usage += nr;
	t->peak = max(t->peak, t->usage);
	return 0;
}

/* ---- operations ---- */

static struct kvmm_prefix prefix_of(kvmm_key_t *key, u32 i)
{
	*key = key_of(i);
	return (struct kvmm_prefix){ .keys = key, .nr = 1,
				     .domain = domain_of(10 + i % NR_TENANTS) };
}

static void op_fill(void)
{
	u32 i = any(NR_KEYS);
	kvmm_key_t key;
	struct kvmm_prefix prefix = prefix_of(&key, i);
	kvmm_mut_t mut;
	int want;

	if (m.block[i].live)
		return;
	want = model_take(i % NR_TENANTS, 1, NR_KEYS);
	cr_assert_eq(kvmm_alloc_for(m.pool, 1, prefix.domain.tenant, &mut), want);
	if (want)
		return;
	m.block[i] = (struct block){ .refs = 1, .live = true, .cls = NR_CLASSES - 1 };
	cr_assert_eq(kvmm_prefix_register(m.pool, &prefix, &mut, &m.block[i].ref), 0);
}

static void put(u32 i)
{
	cr_assert_eq(kvmm_put_many(m.pool, &m.block[i].ref, 1), 0);
	if (!--m.block[i].refs)
		m.block[i].idle = ++m.clock;
}

static void op_put(void)
{
	u32 i = any(NR_KEYS);

	if (m.block[i].refs)
		put(i);
}

static void op_put_all(void)
{
	for (u32 i = 0; i < NR_KEYS; i++)
		while (m.block[i].refs)
			put(i);
}

static void op_use(void)
{
	u32 i = any(NR_KEYS);
	kvmm_key_t key;
	struct kvmm_prefix prefix = prefix_of(&key, i);
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_prefix_match(m.pool, &prefix, &ref), m.block[i].live);
	m.block[i].refs += m.block[i].live;
}

static void op_class(void)
{
	u32 i = any(NR_KEYS), cls = any(NR_CLASSES);

	if (!m.classed || !m.block[i].refs || cls > m.block[i].cls)
		return;
	cr_assert_eq(kvmm_class_set(m.pool, &m.block[i].ref, 1, cls), 0);
	m.block[i].cls = cls;
	trim();
}

/* A hit, perhaps, and some private blocks behind it. */
static void op_acquire(void)
{
	u32 i = any(NR_KEYS), nr = any(4);
	struct held *held = &m.priv[any(NR_HELD)];
	kvmm_key_t key;
	struct kvmm_prefix prefix = prefix_of(&key, i);
	kvmm_ref_t ref;
	struct kvmm_acquire_args req = { .keys = &key, .nr_keys = 1, .max_hits = 1, .hits = &ref,
					 .nr_blocks = nr + m.block[i].live, .fresh = held->mut,
					 .domain = prefix.domain };
	int want;

	if (held->nr)
		return;
	want = model_take(i % NR_TENANTS, nr, m.block[i].live ? i : NR_KEYS);
	cr_assert_eq(kvmm_acquire(m.pool, &req), want);
	if (want)
		return;
	cr_assert_eq(req.nr_fresh, nr);
	m.block[i].refs += m.block[i].live;
	held->nr = nr;
	held->tenant = i % NR_TENANTS;
}

static void op_free(void)
{
	struct held *held = &m.priv[any(NR_HELD)];

	cr_assert_eq(kvmm_free(m.pool, held->mut, held->nr), 0);
	m.tenant[held->tenant].usage -= held->nr;
	held->nr = 0;
}

static void op_range(void)
{
	struct held *held = &m.range[any(NR_HELD)];
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any(5),
					.max_runs = KVMM_MAX_RUNS };
	u32 tenant = any(NR_TENANTS);
	int want;

	if (held->nr)
		return;
	attr.tenant = 10 + tenant;
	want = model_take(tenant, attr.nr, NR_KEYS);
	cr_assert_eq(kvmm_range_alloc_attr(m.pool, &attr, &held->range), want);
	if (want)
		return;
	held->nr = attr.nr;
	held->tenant = tenant;
}

static void op_range_free(void)
{
	struct held *held = &m.range[any(NR_HELD)];

	if (!held->nr)
		return;
	if (held->nr > 1 && any(2)) {
		cr_assert_eq(kvmm_range_shrink(m.pool, held->range, 1), 0);
		held->nr--;
		m.tenant[held->tenant].usage--;
		return;
	}
	cr_assert_eq(kvmm_range_free(m.pool, held->range), 0);
	m.tenant[held->tenant].usage -= held->nr;
	held->nr = 0;
}

static void op_range_grow(void)
{
	struct held *held = &m.range[any(NR_HELD)];
	u32 nr = 1 + any(4);
	int want;

	if (!held->nr || held->nr > 8)
		return;
	want = model_take(held->tenant, nr, NR_KEYS);
	cr_assert_eq(kvmm_range_grow(m.pool, held->range, nr), want);
	held->nr += want ? 0 : nr;
}

/* By the front door: from the zone, or as any other. */
static void op_door(void)
{
	struct held *held = &m.priv[any(NR_HELD)];
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	u32 tenant = any(NR_TENANTS);
	int want;

	if (held->nr)
		return;
	ctl.nr = 1 + any(4);
	ctl.tenant = 10 + tenant;
	ctl.flags = any(2) ? KVMM_ALLOC_TOPDOWN : 0;
	want = model_take(tenant, ctl.nr, NR_KEYS);
	cr_assert_eq(kvmm_alloc_as(m.pool, &ctl, held->mut), want);
	if (want)
		return;
	held->nr = ctl.nr;
	held->tenant = tenant;
}

static void op_range_split(void)
{
	struct held *held = &m.range[any(NR_HELD)], *tail = &m.range[any(NR_HELD)];

	if (held->nr < 2 || tail->nr)
		return;
	cr_assert_eq(kvmm_range_split(m.pool, held->range, 1, &tail->range), 0);
	tail->nr = held->nr - 1;
	tail->tenant = held->tenant;
	held->nr = 1;
}

static u32 any_limit(u32 otherwise)
{
	return any(3) ? otherwise : any(24);
}

static void op_limit(void)
{
	u32 who = any(NR_TENANTS), excess;
	struct tenant *t = &m.tenant[who];

	t->min = any_limit(0);
	t->low = any_limit(0);
	t->high = any_limit(NO_LIMIT);
	t->max = any_limit(NO_LIMIT);
	limit(m.pool, id_of(who), t->min, t->low, t->high, t->max);
	excess = min(beyond(t->usage, min(t->high, t->max)), nr_idle(who));
	while (excess--)
		evict(next_victim(who, true, false), who, true);
}

static void op_reclaim(void)
{
	u32 who = any(NR_TENANTS), nr = any(5), nr_want = min(nr, nr_idle(who));

	cr_assert_eq(kvmm_tenant_reclaim(m.pool, id_of(who), nr), (int)nr_want);
	while (nr_want--)
		evict(next_victim(who, true, false), who, true);
}

static void op_evict_for(void)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = nr_free() + any(5) };
	int want = req.nr_blocks > nr_available(NOBODY, 0) ? -ENOSPC : 0;

	cr_assert_eq(kvmm_evict_for(m.pool, &req), want);
	while (!want && nr_free() < req.nr_blocks)
		evict(next_victim(NOBODY, false, false), NOBODY, false);
}

/* ---- the run ---- */

static void expect_tenant(u32 who)
{
	struct kvmm_tenant_stat stat = tenant_stat(m.pool, id_of(who));
	const struct tenant *t = &m.tenant[who];

	cr_assert_eq(stat.usage, t->usage, "tenant %u: %u, not %u", who, stat.usage, t->usage);
	cr_assert_eq(stat.peak, t->peak);
	cr_assert_eq(stat.nr_inactive, nr_idle(who));
	cr_assert_eq(stat.nr_evicted, t->nr_evicted);
	cr_assert_eq(stat.nr_reclaimed, t->nr_reclaimed);
	cr_assert_eq(stat.nr_low, t->nr_low);
	cr_assert_eq(stat.nr_high, t->nr_high);
	cr_assert_eq(stat.nr_max, t->nr_max);
	cr_assert_eq(stat.nr_oom, t->nr_oom);
}

static void expect_same(void)
{
	for (u32 i = 0; i < NR_KEYS; i++) {
		kvmm_key_t key;
		struct kvmm_prefix prefix = prefix_of(&key, i);

		cr_assert_eq(kvmm_prefix_len(m.pool, &prefix), m.block[i].live, "key %u", i);
	}
	for (u32 who = 0; who < NR_TENANTS; who++)
		expect_tenant(who);
	cr_assert_eq(kvmm_validate(m.pool), 0);
	cr_assert_eq(stat_of(m.pool).nr_free, nr_free());
}

static void make(bool classed)
{
	struct kvmm_class classes[NR_CLASSES] = { { .name = "a" }, { .name = "b" }, { .name = "c" } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes,
					 .nr_classes = NR_CLASSES,
					 .default_class = NR_CLASSES - 1 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };

	for (u32 i = 0; i < NR_CLASSES; i++)
		classes[i].quota_blocks = quota[i];
	attr.evict = classed ? &evict : NULL;
	m.pool = make_pool_of(&attr);
	m.classed = classed;
	for (u32 who = 0; who < NR_TENANTS; who++) {
		m.tenant[who] = (struct tenant){ .high = NO_LIMIT, .max = NO_LIMIT };
		limit(m.pool, id_of(who), 0, 0, NO_LIMIT, NO_LIMIT);
	}
}

static void run(bool classed)
{
	static void (*const ops[])(void) = {
		op_fill, op_fill, op_fill, op_fill, op_fill, op_put, op_put, op_put, op_use,
		op_use, op_class, op_acquire, op_acquire, op_free, op_free, op_range, op_range_free,
		op_range_split, op_range_grow, op_range_grow, op_door, op_door, op_reclaim,
		op_evict_for, op_limit, op_put_all,
	};
	u64 seed = test_number("KVMM_SEED", 20251121), nr = test_length("KVMM_MODEL_OPS", 30000);

	any_state = seed | 1;
	m = (struct model){ 0 };
	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	make(classed);
	for (u64 i = 0; i < nr; i++) {
		ops[any(ARRAY_SIZE(ops))]();
		if (i % 4 == 0)
			expect_same();
	}
	cr_expect_gt(m.nr_evicted, nr / 20);
	cr_expect_gt(m.nr_refused, nr / 100);
	cr_expect_gt(m.nr_full, nr / 500);
	kvmm_pool_destroy(m.pool);
}

TEST_CALL(quota_model, random_operations_agree_with_a_model, run(false))
TEST_CALL(quota_model, random_operations_with_classes_agree_with_a_model, run(true))
