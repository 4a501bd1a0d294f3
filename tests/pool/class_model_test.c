// SPDX-License-Identifier: Apache-2.0
/*
 * Random operations on a pool with classes, quotas and owners against a model that shares no code
 * with it: blocks with a class and a time of becoming idle, and a search through all of them for
 * the next victim. Who is evicted, and in which order, must be the same each time. KVMM_SEED and
 * KVMM_MODEL_OPS choose the run.
 */
#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	48u
#define NR_KEYS		80u
#define NR_CLASSES	4u
#define NR_OWNERS	6u
#define SHARED		99u

/* One key, cached or not. Each is filled by one holder; others find it. */
struct block {
	kvmm_ref_t ref;
	u64 idle;		/* when it was put back; 0: it is held */
	u32 refs;
	u32 cls;
	u32 owner;
	bool live;
	bool set;
	bool reset;		/* goes with its last reference */
};

static const u32 quota[NR_CLASSES] = { 0, 9, 0, 20 };	/* 0: none */
static const u32 default_class = 3;

static struct model {
	struct kvmm_pool *pool;
	u64 clock;
	bool aggressive;
	struct block block[NR_KEYS];
	u64 nr_evicted;
} m;

/* ---- the model ---- */

static u32 nr_live(void)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_KEYS; i++)
		nr += m.block[i].live;
	return nr;
}

static bool is_over(u32 cls)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_KEYS; i++)
		nr += m.block[i].live && m.block[i].cls == cls;
	return quota[cls] && nr > quota[cls];
}

static bool is_idle(u32 i)
{
	return m.block[i].live && !m.block[i].refs;
}

/* Longest idle of that class, or NR_KEYS. */
static u32 oldest_of(u32 cls)
{
	u32 best = NR_KEYS;

	for (u32 i = 0; i < NR_KEYS; i++)
		if (is_idle(i) && m.block[i].cls == cls &&
		    (best == NR_KEYS || m.block[i].idle < m.block[best].idle))
			best = i;
	return best;
}

static u32 next_victim(bool over_only)
{
	for (u32 cls = 0; cls < NR_CLASSES; cls++)
		if (is_over(cls) && oldest_of(cls) < NR_KEYS)
			return oldest_of(cls);
	for (u32 cls = 0; cls < NR_CLASSES && !over_only; cls++)
		if (oldest_of(cls) < NR_KEYS)
			return oldest_of(cls);
	return NR_KEYS;
}

static void evict(u32 i)
{
	m.block[i] = (struct block){ 0 };
	m.nr_evicted++;
}

static void trim(void)
{
	u32 i;

	while ((i = next_victim(true)) < NR_KEYS)
		evict(i);
}

static void lower(u32 i, u32 cls)
{
	m.block[i].set = true;
	if (m.block[i].cls == cls)
		return;
	m.block[i].cls = cls;
	if (!m.block[i].refs)
		m.block[i].idle = ++m.clock;
}

/* ---- the same on both ---- */

static void expect_victims(const kvmm_key_t *keys, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		u32 victim = next_victim(false);

		cr_assert_lt(victim, NR_KEYS);
		cr_assert_eq(number_of(&keys[i]), victim);
		evict(victim);
	}
}

static void op_use(void)
{
	u32 i = any(NR_KEYS);
	kvmm_key_t key = key_of(i), lost;
	struct block *block = &m.block[i];
	kvmm_ref_t ref;
	kvmm_mut_t mut;
	struct kvmm_acquire_args req = { .keys = &key, .nr_keys = 1, .max_hits = 1, .nr_blocks = 1,
					 .hits = &ref, .fresh = &mut, .evicted = &lost };
	bool fits = block->live || nr_live() < NR_BLOCKS || next_victim(false) < NR_KEYS;

	cr_assert_eq(kvmm_acquire(m.pool, &req), fits ? 0 : -ENOSPC);
	if (!fits)
		return;
	cr_assert_eq(req.nr_hits, block->live);
	if (!req.nr_hits) {
		expect_victims(&lost, req.nr_evicted);
		cr_assert_eq(kvmm_register(m.pool, &mut, &key, 1, &ref), 0);
		*block = (struct block){ .ref = ref, .cls = default_class, .live = true };
		block->refs = 1;
		trim();
	} else {
		block->refs++;
	}
}

/* The next one that is held, from anywhere on. */
static void op_drop(void)
{
	u32 i = any(NR_KEYS), tries;
	struct block *block;

	for (tries = NR_KEYS; tries && !m.block[i].refs; tries--)
		i = (i + 1) % NR_KEYS;
	block = &m.block[i];
	if (!block->refs)
		return;
	cr_assert_eq(kvmm_put_many(m.pool, &block->ref, 1), 0);
	if (--block->refs)
		return;
	if (block->reset)
		*block = (struct block){ 0 };
	else
		block->idle = ++m.clock;
}

static void op_set(void)
{
	struct block *block = &m.block[any(NR_KEYS)];
	u32 cls = any(NR_CLASSES);
	int want = block->refs ? block->set && cls > block->cls ? -EPERM : 0 : -ESTALE;

	if (!block->live)
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
		evict(i);
	m.block[i].reset = m.block[i].live;
}

static void op_demote(void)
{
	u32 cls = any(NR_CLASSES), nr = 0, nr_demoted = 0, of[8];
	kvmm_ref_t ref[8];

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
	for (u32 i = nr; i-- > 0 && m.aggressive;)
		take_at_once(of[i]);
	trim();
}

static void op_own(void)
{
	struct block *block = &m.block[any(NR_KEYS)];
	u32 owner = 1 + any(NR_OWNERS);

	if (!block->refs)
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
	if (m.aggressive)
		take_at_once(of);
	trim();
}

static void op_evict_for(void)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req) };
	u32 nr_free = NR_BLOCKS - nr_live(), nr_idle = 0;
	int want;

	for (u32 i = 0; i < NR_KEYS; i++)
		nr_idle += is_idle(i);
	req.nr_blocks = nr_free + any(6);
	want = req.nr_blocks > nr_free + nr_idle ? -ENOSPC : 0;
	cr_assert_eq(kvmm_evict_for(m.pool, &req), want);
	if (want)
		return;
	cr_assert_eq(req.nr_evicted, req.nr_blocks - nr_free);
	for (u32 i = 0; i < req.nr_evicted; i++) {
		u32 victim = next_victim(false);

		cr_assert(req.evicted_of[m.block[victim].cls]--);
		evict(victim);
	}
}

/* First more than there is, so that all have to be put back; then much of it. */
static void op_fill_up(void)
{
	static kvmm_mut_t mut[NR_BLOCKS];
	static kvmm_key_t lost[NR_BLOCKS];
	u32 nr_avail = stat_of(m.pool).nr_available;
	struct kvmm_acquire_args req = { .fresh = mut, .evicted = lost };

	req.nr_blocks = nr_avail + 1;
	cr_assert_eq(kvmm_acquire(m.pool, &req), -ENOSPC);
	req.nr_blocks = nr_avail - any(nr_avail / 2 + 1);
	cr_assert_eq(kvmm_acquire(m.pool, &req), 0);
	expect_victims(lost, req.nr_evicted);
	cr_assert_eq(kvmm_free(m.pool, mut, req.nr_fresh), 0);
}

static void expect_same(void)
{
	cr_assert_eq(kvmm_validate(m.pool), 0);
	for (u32 cls = 0; cls < NR_CLASSES; cls++) {
		struct kvmm_class_stat stat;
		u32 nr = 0, nr_idle = 0;

		for (u32 i = 0; i < NR_KEYS; i++) {
			nr += m.block[i].live && m.block[i].cls == cls;
			nr_idle += is_idle(i) && m.block[i].cls == cls;
		}
		cr_assert_eq(kvmm_class_get_stat(m.pool, cls, &stat), 0);
		cr_assert_eq(stat.nr, nr);
		cr_assert_eq(stat.nr_inactive, nr_idle);
	}
	cr_assert_eq(stat_of(m.pool).nr_free, NR_BLOCKS - nr_live());
}

static void make(bool aggressive)
{
	struct kvmm_class classes[NR_CLASSES] = { { .name = "a" }, { .name = "b" },
						  { .name = "c" }, { .name = "d" } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes,
					 .nr_classes = NR_CLASSES,
					 .default_class = default_class,
					 .flags = aggressive ? KVMM_EVICT_AGGRESSIVE : 0 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };

	for (u32 i = 0; i < NR_CLASSES; i++)
		classes[i].quota_blocks = quota[i];
	attr.evict = &evict;
	m.pool = make_pool_of(&attr);
	m.aggressive = aggressive;
}

static void run(bool aggressive)
{
	static void (*const ops[])(void) = {
		op_use, op_use, op_use, op_drop, op_drop, op_drop, op_set, op_set, op_demote,
		op_own, op_demote_owner, op_evict_for,
	};
	u64 seed = test_number("KVMM_SEED", 20250311), nr = test_length("KVMM_MODEL_OPS", 20000);

	any_state = seed | 1;
	m = (struct model){ 0 };
	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	make(aggressive);
	for (u64 i = 0; i < nr; i++) {
		ops[any(ARRAY_SIZE(ops))]();
		if (i % 64 == 0)
			op_fill_up();
		if (i % 16 == 0)
			expect_same();
	}
	cr_expect_gt(m.nr_evicted, nr / 20);
	kvmm_pool_destroy(m.pool);
}

TEST_CALL(class_model, random_operations_agree_with_a_model, run(false))
TEST_CALL(class_model, aggressive_demotion_agrees_with_a_model, run(true))
