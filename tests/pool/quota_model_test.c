// SPDX-License-Identifier: Apache-2.0
/*
 * Random operations in a pool with tenants, with classes and owners, or with both, against a model that
 * shares no code with the pool: blocks with a tenant, a class and a time of becoming idle, and a search
 * through all of them for each victim, by the rules of Documentation/tenants.rst and classes.rst. What
 * is refused, which blocks are evicted, in which order, what is charged and every event must be the
 * same each time. KVMM_SEED and KVMM_MODEL_OPS choose the run.
 */
#include "tests/pool/quota_util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	40u
#define NR_KEYS		90u
#define NR_TENANTS	4u	/* the last one has no account: it is the rest */
#define NR_CLASSES	4u
#define NR_OWNERS	6u
#define SHARED		99u	/* owner of a block that two have named */
#define NR_HELD		12u	/* private batches, and ranges */
#define NOBODY		99u

/* One key, cached or not; it is of tenant key % NR_TENANTS. */
struct block {
	kvmm_ref_t ref;
	u64 idle;		/* when it was put back */
	u32 refs;
	u32 cls;
	u32 owner;
	bool live;
	bool set;		/* its class was: from here on only down */
	bool reset;		/* goes with its last reference */
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

static const u32 quota[NR_CLASSES] = { 0, 8, 0, 16 };	/* 0: none */

/* What the pool has; without limits all blocks are of one account, whatever their tenant. */
struct kind {
	bool has_tenants;
	bool has_classes;
	bool is_aggressive;
};

static struct model {
	struct kvmm_pool *pool;
	u64 clock;
	struct kind kind;
	struct block block[NR_KEYS];
	struct tenant tenant[NR_TENANTS];
	struct held priv[NR_HELD];
	struct held range[NR_HELD];
	u64 nr_evicted, nr_refused, nr_full;
	u32 lost[NR_KEYS];	/* keys evicted by the operation under way, first to last */
	u32 nr_lost;
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
	return m.kind.has_classes && quota[cls] && nr > quota[cls];
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
	m.lost[m.nr_lost++] = i;
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
	trim();
}

static void put(u32 i)
{
	cr_assert_eq(kvmm_put_many(m.pool, &m.block[i].ref, 1), 0);
	if (--m.block[i].refs)
		return;
	m.block[i].idle = ++m.clock;
	if (!m.block[i].reset)
		return;
	m.block[i] = (struct block){ 0 };
	m.tenant[i % NR_TENANTS].usage--;
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

/* ---- classes ---- */

static void lower(u32 i, u32 cls)
{
	m.block[i].set = true;
	if (m.block[i].cls == cls)
		return;
	m.block[i].cls = cls;
	if (!m.block[i].refs)
		m.block[i].idle = ++m.clock;
}

static void op_class(void)
{
	struct block *block = &m.block[any(NR_KEYS)];
	u32 cls = any(NR_CLASSES);
	int want = block->refs ? block->set && cls > block->cls ? -EPERM : 0 : -ESTALE;

	if (!m.kind.has_classes || !block->live)
		return;
	cr_assert_eq(kvmm_class_set(m.pool, &block->ref, 1, cls), want);
	if (want)
		return;
	lower(block - m.block, cls);
	trim();
}

static void demote(u32 i, u32 cls, u32 *nr)
{
	m.block[i].set = true;
	if (m.block[i].cls > cls) {
		lower(i, cls);
		++*nr;
	}
}

static void take_at_once(u32 i)
{
	if (is_idle(i))
		evict(i, NOBODY, false);
	m.block[i].reset = m.block[i].live;
}

static void op_demote(void)
{
	u32 cls = any(NR_CLASSES), nr = 0, nr_demoted = 0, of[8];
	kvmm_ref_t ref[8];

	if (!m.kind.has_classes)
		return;
	for (u32 tries = any(8); tries--;) {
		u32 i = any(NR_KEYS);

		if (m.block[i].live) {
			of[nr] = i;
			ref[nr++] = m.block[i].ref;
		}
	}
	for (u32 i = nr; i-- > 0;)
		demote(of[i], cls, &nr_demoted);
	cr_assert_eq(kvmm_demote(m.pool, ref, nr, cls), (int)nr_demoted);
	for (u32 i = nr; i-- > 0 && m.kind.is_aggressive;)
		take_at_once(of[i]);
	trim();
}

static void op_own(void)
{
	struct block *block = &m.block[any(NR_KEYS)];
	u32 owner = 1 + any(NR_OWNERS);

	if (!m.kind.has_classes || !block->refs)
		return;
	cr_assert_eq(kvmm_set_owner(m.pool, &block->ref, 1, owner), 0);
	if (block->owner != owner)
		block->owner = block->owner ? SHARED : owner;
}

/* In which order an owner's blocks go down is not said: only how many do, and that they do. */
static void op_demote_owner(void)
{
	u32 owner = 1 + any(NR_OWNERS), cls = any(NR_CLASSES), nr_demoted = 0, of = 0, nr = 0;

	for (u32 i = 0; i < NR_KEYS; i++) {
		if (!m.block[i].live || m.block[i].owner != owner)
			continue;
		of = i;
		nr++;
	}
	if (nr != 1)
		return;
	demote(of, cls, &nr_demoted);
	cr_assert_eq(kvmm_demote_owner(m.pool, owner, cls), (int)nr_demoted);
	if (m.kind.is_aggressive)
		take_at_once(of);
	trim();
}

/* ---- blocks and ranges ---- */

/* Those of the model are those of the pool, and went in that order. */
static int acquire(struct kvmm_acquire_args *req, u32 tenant, u32 nr, u32 hit)
{
	static kvmm_key_t lost[NR_BLOCKS];
	int want = model_take(tenant, nr, hit);

	req->evicted = lost;
	req->nr_blocks = nr + (hit < NR_KEYS);
	req->domain = domain_of(10 + tenant);
	cr_assert_eq(kvmm_acquire(m.pool, req), want);
	if (want)
		return want;
	cr_assert_eq(req->nr_fresh, nr);
	cr_assert_eq(req->nr_evicted + req->nr_untold, m.nr_lost);
	for (u32 i = 0; i < req->nr_evicted; i++)
		cr_assert_eq(number_of(&lost[i]), m.lost[i]);
	return 0;
}

/* A hit, perhaps, and some private blocks behind it. */
static void op_acquire(void)
{
	u32 i = any(NR_KEYS), nr = any(4), tenant = i % NR_TENANTS;
	struct held *held = &m.priv[any(NR_HELD)];
	kvmm_key_t key = key_of(i);
	kvmm_ref_t ref;
	struct kvmm_acquire_args req = { .keys = &key, .nr_keys = 1, .max_hits = 1, .hits = &ref,
					 .fresh = held->mut };

	if (held->nr || acquire(&req, tenant, nr, m.block[i].live ? i : NR_KEYS))
		return;
	m.block[i].refs += m.block[i].live;
	held->nr = nr;
	held->tenant = tenant;
}

/* First more than there is, so that all have to be put back; then much of it. */
static void op_fill_up(void)
{
	static kvmm_mut_t mut[NR_BLOCKS];
	struct kvmm_acquire_args req = { .fresh = mut };
	u32 tenant = any(NR_TENANTS), nr_avail = nr_available(tenant, 0);

	cr_assert(acquire(&req, tenant, nr_avail + 1, NR_KEYS));
	if (acquire(&req, tenant, nr_avail - any(nr_avail / 2 + 1), NR_KEYS))
		return;
	cr_assert_eq(kvmm_free(m.pool, mut, req.nr_fresh), 0);
	m.tenant[tenant].usage -= req.nr_fresh;
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

	if (!m.kind.has_tenants)
		return;
	t->min = any_limit(0);
	t->low = any_limit(0);
	t->high = any_limit(NO_LIMIT);
	t->max = any_limit(NO_LIMIT);
	limit(m.pool, id_of(who), t->min, t->low, t->high, t->max);
	excess = min(beyond(t->usage, min(t->high, t->max)), nr_idle(who));
	while (excess--)
		evict(next_victim(who, true, false), who, true);
}

static void op_evict_for(void)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = nr_free() + any(5) };
	int want = req.nr_blocks > nr_available(NOBODY, 0) ? -ENOSPC : 0;

	cr_assert_eq(kvmm_evict_for(m.pool, &req), want);
	if (want)
		return;
	cr_assert_eq(req.nr_evicted, req.nr_blocks - nr_free());
	while (nr_free() < req.nr_blocks) {
		u32 victim = next_victim(NOBODY, false, false);

		cr_assert(!m.kind.has_classes || req.evicted_of[m.block[victim].cls]--);
		evict(victim, NOBODY, false);
	}
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

static void expect_class(u32 cls)
{
	struct kvmm_class_stat stat;
	u32 nr = 0, nr_of_idle = 0;

	for (u32 i = 0; i < NR_KEYS; i++) {
		nr += m.block[i].live && m.block[i].cls == cls;
		nr_of_idle += is_idle(i) && m.block[i].cls == cls;
	}
	cr_assert_eq(kvmm_class_get_stat(m.pool, cls, &stat), 0);
	cr_assert_eq(stat.nr, nr);
	cr_assert_eq(stat.nr_inactive, nr_of_idle);
}

static void expect_same(void)
{
	for (u32 i = 0; i < NR_KEYS; i++) {
		kvmm_key_t key;
		struct kvmm_prefix prefix = prefix_of(&key, i);

		cr_assert_eq(kvmm_prefix_len(m.pool, &prefix), m.block[i].live, "key %u", i);
	}
	for (u32 who = 0; who < NR_TENANTS && m.kind.has_tenants; who++)
		expect_tenant(who);
	for (u32 cls = 0; cls < NR_CLASSES && m.kind.has_classes; cls++)
		expect_class(cls);
	cr_assert_eq(kvmm_validate(m.pool), 0);
	cr_assert_eq(stat_of(m.pool).nr_free, nr_free());
}

static void make(void)
{
	struct kvmm_class classes[NR_CLASSES] = { { .name = "a" }, { .name = "b" },
						  { .name = "c" }, { .name = "d" } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes,
					 .nr_classes = NR_CLASSES,
					 .default_class = NR_CLASSES - 1 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };

	for (u32 i = 0; i < NR_CLASSES; i++)
		classes[i].quota_blocks = quota[i];
	evict.flags = m.kind.is_aggressive ? KVMM_EVICT_AGGRESSIVE : 0;
	attr.evict = m.kind.has_classes ? &evict : NULL;
	m.pool = make_pool_of(&attr);
	for (u32 who = 0; who < NR_TENANTS; who++) {
		m.tenant[who] = (struct tenant){ .high = NO_LIMIT, .max = NO_LIMIT };
		if (m.kind.has_tenants)
			limit(m.pool, id_of(who), 0, 0, NO_LIMIT, NO_LIMIT);
	}
}

static void run(struct kind kind)
{
	static void (*const ops[])(void) = {
		op_fill, op_fill, op_fill, op_fill, op_fill, op_put, op_put, op_put, op_use,
		op_use, op_class, op_acquire, op_acquire, op_free, op_free, op_range, op_range_free,
		op_range_split, op_range_grow, op_range_grow, op_door, op_door, op_limit,
		op_evict_for, op_limit, op_put_all, op_class, op_demote, op_own, op_demote_owner,
	};
	u64 seed = test_number("KVMM_SEED", 20251121), nr = test_length("KVMM_MODEL_OPS", 30000);

	any_state = seed | 1;
	m = (struct model){ .kind = kind };
	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	make();
	for (u64 i = 0; i < nr; i++) {
		m.nr_lost = 0;
		(i % 64 ? ops[any(ARRAY_SIZE(ops))] : op_fill_up)();
		if (i % 4 == 0)
			expect_same();
	}
	cr_expect_gt(m.nr_evicted, nr / 20);
	cr_expect(!kind.has_tenants || m.nr_refused > nr / 100);
	cr_expect_gt(m.nr_full, nr / 500);
	kvmm_pool_destroy(m.pool);
}

TEST_CALL(quota_model, operations_of_tenants_agree_with_a_model,
	  run((struct kind){ .has_tenants = true }))
TEST_CALL(quota_model, operations_with_classes_agree_with_a_model,
	  run((struct kind){ .has_classes = true }))
TEST_CALL(quota_model, operations_of_tenants_with_classes_agree_with_a_model,
	  run((struct kind){ .has_tenants = true, .has_classes = true }))
TEST_CALL(quota_model, aggressive_demotion_agrees_with_a_model,
	  run((struct kind){ .has_classes = true, .is_aggressive = true }))
