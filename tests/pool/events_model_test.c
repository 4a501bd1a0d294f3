// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls to a cache, and two mirrors of it that know nothing but events: one that reads all of
 * them, and one with a ring so short that it often has to start again from a snapshot, which it takes
 * in pieces while calls go on. Now and then each must have exactly the names that the pool finds.
 */
#include "tests/pool/util.h"
#include "tests/support/random.h"

#define NR_BLOCKS	24u
#define NR_NAMES	40u
#define NR_TENANTS	2u
#define NR_HELD		10u
#define PROMPT		6u

struct mirror {
	struct kvmm_events *events;
	bool has[NR_TENANTS][NR_NAMES];
	bool strict;			/* it has never lost anything */
	bool walks;
	struct kvmm_snapshot snap;
	u32 nr_lost;
};

static struct model {
	struct kvmm_pool *pool;
	struct mirror mirror[2];
	kvmm_ref_t held[NR_HELD];
	u32 nr_held;
	u64 random;
} m;

#define any(below)	lcg_of(&m.random, below)

/* ---- mirrors ---- */

static void apply(struct mirror *mirror, const struct kvmm_event *event)
{
	bool stored = event->kind == KVMM_EVENT_STORED;
	bool *has;

	if (event->kind == KVMM_EVENT_CLEARED) {
		memset(mirror->has, 0, sizeof(mirror->has));
		return;
	}
	has = &mirror->has[event->domain.tenant][number_of(&event->key)];
	if (mirror->strict)
		cr_assert_neq(*has, stored, "told twice: %u", number_of(&event->key));
	*has = stored;
}

/* Some of the walk; at its end events are read from the watermark on. */
static void walk(struct mirror *mirror, u32 max)
{
	struct kvmm_event buf[4];
	int nr = kvmm_snapshot_read(mirror->events, &mirror->snap, buf, max);

	cr_assert_geq(nr, 0);
	for (int i = 0; i < nr; i++)
		mirror->has[buf[i].domain.tenant][number_of(&buf[i].key)] = true;
	if (nr)
		return;
	mirror->walks = false;
	cr_assert_eq(kvmm_events_seek(mirror->events, mirror->snap.watermark), 0);
}

static bool read_some(struct mirror *mirror)
{
	struct kvmm_event buf[5];
	u64 nr_lost;
	int nr = kvmm_events_read(mirror->events, buf, ARRAY_SIZE(buf), &nr_lost);

	cr_assert_geq(nr, 0);
	if (nr_lost) {
		cr_assert(!mirror->strict);
		mirror->nr_lost++;
		memset(mirror->has, 0, sizeof(mirror->has));
		cr_assert_eq(kvmm_snapshot_begin(mirror->events, &mirror->snap), 0);
		mirror->walks = true;
		return true;
	}
	for (int i = 0; i < nr; i++)
		apply(mirror, &buf[i]);
	return nr;
}

static void go_on(struct mirror *mirror)
{
	if (mirror->walks)
		walk(mirror, 1 + any(4));
	else
		read_some(mirror);
}

static bool pool_has(u32 tenant, u32 name)
{
	kvmm_key_t key = key_of(name);
	struct kvmm_prefix prefix = { &key, 1, 0, NULL, { .tenant = tenant } };

	return kvmm_prefix_len(m.pool, &prefix) == 1;
}

static void compare(struct mirror *mirror)
{
	while (mirror->walks || read_some(mirror))
		if (mirror->walks)
			walk(mirror, 4);
	for (u32 tenant = 0; tenant < NR_TENANTS; tenant++)
		for (u32 name = 0; name < NR_NAMES; name++)
			cr_assert_eq(mirror->has[tenant][name], pool_has(tenant, name),
				     "%s mirror, tenant %u, name %u",
				     mirror->strict ? "strict" : "late", tenant, name);
}

/* ---- calls ---- */

static void fill_keys(kvmm_key_t *keys, struct kvmm_prefix *prefix)
{
	u32 first = any(NR_NAMES - PROMPT);

	*prefix = (struct kvmm_prefix){ keys, 1 + any(PROMPT), any(20), NULL,
					{ .tenant = any(NR_TENANTS) } };
	for (u32 i = 0; i < prefix->nr; i++)
		keys[i] = key_of(first + i);
}

static void keep_or_put(kvmm_ref_t *refs, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		if (m.nr_held < NR_HELD && !any(4))
			m.held[m.nr_held++] = refs[i];
		else
			cr_assert_eq(kvmm_put(m.pool, refs[i]), 0);
	}
}

static void do_register(void)
{
	kvmm_key_t keys[PROMPT];
	kvmm_mut_t muts[PROMPT];
	kvmm_staged_t staged[PROMPT];
	kvmm_ref_t refs[PROMPT];
	struct kvmm_prefix prefix;
	struct kvmm_publish_args publish = { .staged = staged, .refs = refs,
					     .dup = any(KVMM_NR_DUPS) };

	fill_keys(keys, &prefix);
	publish.nr = prefix.nr;
	if (kvmm_alloc(m.pool, prefix.nr, muts))
		return;
	cr_assert_eq(kvmm_stage(m.pool, &prefix, muts, staged), 0);
	if (!any(8)) {
		cr_assert_eq(kv_free_staged(m.pool, staged, prefix.nr), 0);
		return;
	}
	cr_assert_eq(kvmm_publish(m.pool, &publish), 0);
	keep_or_put(refs, prefix.nr);
}

static void do_match(void)
{
	kvmm_key_t keys[PROMPT];
	kvmm_ref_t refs[PROMPT];
	struct kvmm_prefix prefix;
	int nr;

	fill_keys(keys, &prefix);
	nr = kvmm_prefix_match(m.pool, &prefix, refs);
	cr_assert_geq(nr, 0);
	keep_or_put(refs, nr);
}

static void do_put(void)
{
	u32 i;

	if (!m.nr_held)
		return;
	i = any(m.nr_held);
	if (!any(4))
		cr_assert_eq(kvmm_set_reset(m.pool, &m.held[i], 1, any(2)), 0);
	cr_assert_eq(kvmm_put(m.pool, m.held[i]), 0);
	m.held[i] = m.held[--m.nr_held];
}

static void do_evict(void)
{
	u32 blocks[2] = { any(NR_BLOCKS), any(NR_BLOCKS) };

	cr_assert_geq(kvmm_evict_blocks(m.pool, blocks, 1 + any(2)), 0);
}

/* Ranges take blocks from the cache, too. */
static void do_range(void)
{
	kvmm_range_t range;

	if (!kvmm_range_alloc(m.pool, 1 + any(NR_BLOCKS / 2), KVMM_RUNS(8), &range))
		kvmm_range_free(m.pool, range);
}

static void do_reset(void)
{
	if (any(2))
		cr_assert_geq(kvmm_reset_inactive(m.pool), 0);
	else
		kvmm_reset_cache(m.pool);
}

static void do_any(void)
{
	u32 what = any(100);

	if (what < 45)
		do_register();
	else if (what < 60)
		do_match();
	else if (what < 85)
		do_put();
	else if (what < 91)
		do_evict();
	else if (what < 98)
		do_range();
	else
		do_reset();
}

/* ---- the test ---- */

static void begin(const char *policy, const char *index, u32 ring)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS };
	struct kvmm_events_attr wants = KVMM_EVENTS_ATTR_INIT;

	memset(m.mirror, 0, sizeof(m.mirror));
	m.nr_held = 0;
	attr.policy = policy;
	attr.index = index;
	m.pool = make_pool_of(&attr);
	wants.ring = ring;
	for (u32 i = 0; i < 2; i++)
		cr_assert_eq(kvmm_events_open(m.pool, &wants, &m.mirror[i].events), 0);
	m.mirror[0].strict = ring > 64;
}

static void end(void)
{
	for (u32 i = 0; i < 2; i++)
		kvmm_events_close(m.mirror[i].events);
	cr_assert_eq(kvmm_put_many(m.pool, m.held, m.nr_held), 0);
	end_pool(m.pool);
}

static void run(u64 seed, const char *policy, const char *index)
{
	bool long_ring = seed & 1;

	m.random = seed;
	begin(policy, index, long_ring ? 4096 : 32);
	for (u32 i = 0; i < 3000; i++) {
		do_any();
		if (long_ring || !any(6))
			go_on(&m.mirror[0]);
		if (!any(12))
			go_on(&m.mirror[1]);
		if (long_ring && !any(20)) {
			while (read_some(&m.mirror[0]))
				;
		}
		if (!any(100))
			compare(&m.mirror[any(2)]);
	}
	compare(&m.mirror[0]);
	compare(&m.mirror[1]);
	cr_assert(long_ring || m.mirror[1].nr_lost > 3, "the short ring was too long");
	end();
}

Test(events_model, mirrors_have_what_the_pool_finds)
{
	static const char *const policy[] = { "lru", "lrfu", "slru" };
	const char *given = getenv("KVMM_SEED");
	u64 seed = given ? strtoull(given, NULL, 0) : 20260611;

	for (u32 i = 0; i < 16; i++, seed++) {
		fprintf(stderr, "seed %lu\n", (unsigned long)seed);
		run(seed, policy[i % 3], i & 4 ? "lfht" : "flat");
	}
	cr_expect_eq(kv_mem_bytes(), 0);
}
