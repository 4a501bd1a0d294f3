// SPDX-License-Identifier: Apache-2.0
/*
 * Everything at once: random pools, random calls over all that a pool can do, and a small model.
 *
 * Blocks are plain memory, which the test reads and writes as a device would: whatever moves, and
 * whoever else gets which block, what is held must be there again.
 *
 * KVMM_SEED chooses the first run, KVMM_OPS the calls of each, KVMM_RUNS how many (too few of them for
 * arenas to be among the pools: what has happened in all is not looked at). KVMM_STRICT: all is
 * looked at after each call, and not in every fourth run only.
 */
#include <kv/env.h>

#include "percpu/arena.h"
#include "tests/pool/mix_model.h"
#include "tests/support/lease.h"
#include "tests/support/length.h"

/* ---- limits ---- */

static void do_limit(void)
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	u32 tenant = mix_any(NR_TENANTS);

	m.what = "limit";
	if (!m.has_quotas)
		return;
	attr.min = mix_any(2) ? 0 : mix_any(m.nr_usable / 4);
	attr.low = mix_any(2) ? 0 : mix_any(m.nr_usable / 3);
	attr.high = mix_any(2) ? KVMM_TENANT_NO_LIMIT : mix_any(m.nr_usable);
	attr.max = mix_any(2) ? KVMM_TENANT_NO_LIMIT : m.nr_usable / 4 + mix_any(m.nr_usable);
	must(!kvmm_tenant_set(m.pool, tenant ? tenant : KVMM_TENANT_REST, &attr));
	m.limit[tenant] = attr;
}

static void do_marks(void)
{
	u32 mark = mix_any(3) ? 0 : mix_any(m.nr_usable / 6);
	struct kvmm_watermarks marks = { mark / 2, mark, mark * 2 };
	struct kvmm_reclaim_args reclaim = { .size = sizeof(reclaim), .max_blocks = mix_any(20) };
	int err;

	m.what = "watermarks";
	if (mix_any(3)) {
		err = kvmm_reclaim(m.pool, &reclaim);
		must(!err || err == -EAGAIN || err == -ENOSPC, "%d", err);
		return;
	}
	must(!kvmm_watermarks_set(m.pool, &marks));
	m.marks = marks;
}

static void do_promise(void)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	struct want want = { .nr = 1 + mix_any(16), .prio = mix_any(3), .is_exact = true };
	struct bounds b;
	int nr;

	m.what = "promise";
	if (m.promise.gen) {
		if (mix_any(3)) {
			u32 left = m.pool->door.promise[m.promise.index].left;

			must(left == m.nr_promised, "%u, not %u", left, m.nr_promised);
			return;
		}
		nr = kvmm_promise_end(m.pool, m.promise);
		must(nr == (int)m.nr_promised, "%d, not %u", nr, m.nr_promised);
		m.promise = (kvmm_promise_t){ 0, 0 };
		m.nr_promised = 0;
		return;
	}
	ctl.nr = want.nr;
	ctl.prio = want.prio;
	b = bounds_of(&want);
	if (m.has_quotas)
		b.sure = 0;
	b.quota = UINT32_MAX;	/* its tenant has to pay when it takes them */
	nr = kvmm_promise_make(m.pool, &ctl, &m.promise);
	nr = nr == -EDQUOT && m.has_quotas ? -ENOSPC : nr;
	if (nr)
		m.promise.gen = 0;
	else
		m.nr_promised = want.nr;
	expect_answer(&want, &b, nr);
}

/* ---- gangs ---- */

static void reserve_gang(void)
{
	struct kvmm_gang_want want[3] = { { .kind = KVMM_GANG_BLOCKS, .nr = 1 + mix_any(8) },
					  { .kind = KVMM_GANG_RANGE, .nr = 1 + mix_any(12) },
					  { .pool = 1, .kind = KVMM_GANG_BLOCKS, .nr = 1 + mix_any(12) } };
	struct kvmm_pool *pools[2] = { m.pool, m.other };
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	u32 tenant = mix_any(NR_TENANTS);	/* of all of it */
	struct want all = { .nr = want[0].nr + want[1].nr, .tenant = tenant };
	struct bounds b;
	int err;

	m.what = "gang_reserve";
	want[0].tenant = want[1].tenant = tenant;
	want[1].prio = want[1].flags = 0;
	attr.pools = pools;
	attr.nr_pools = 2;
	attr.wants = want;
	attr.nr = 3;
	b = bounds_of(&all);
	b.most = m.nr_usable - nr_held(NR_TENANTS) - m.nr_promised;
	err = kvmm_gang_reserve(&attr, &m.gang, NULL);
	expect_answer(&all, &b, err);
	if (err)
		return;
	m.nr_gangs = 1;
	m.gang_blocks = want[0].nr;
	m.gang_range = want[1].nr;
	m.gang_other = want[2].nr;
	m.gang_tenant = tenant;
	/* Victims that have turned out not to be needed are kept until the commit. */
	m.gang_more = stat_of(m.pool).nr_state[KVMM_BLOCK_PRIVATE] - m.nr_muts - m.gang_blocks;
}

static void do_gang(void)
{
	struct held_range *held = &m.range[m.nr_ranges];
	kvmm_mut_t mut[20];
	u32 nr = m.gang_blocks, nr_range = m.gang_range;

	m.what = "gang";
	if (!m.nr_gangs) {
		reserve_gang();
		return;
	}
	m.nr_gangs = m.gang_blocks = m.gang_range = m.gang_more = 0;
	m.what = "gang_commit";
	if (mix_any(2)) {
		m.what = "gang_abort";
		must(!kvmm_gang_abort(m.gang));
		return;
	}
	must(!kvmm_gang_commit(m.gang, mut, &held->range));
	must(!kvmm_free(m.other, mut + nr, m.gang_other));
	keep_muts(mut, nr, m.gang_tenant, 0);
	m.nr_ranges++;
	held->nr = nr_range;
	held->refs = 1;
	held->pins = held->sealed = 0;
	held->tenant = m.gang_tenant;
	held->flags = 0;
	held->owner = held->seq = 0;
	held->leased = false;
	fill_range(held, 0, 0);
}

/* ---- owners and holds ---- */

static void drop_hold(u32 at)
{
	for (u32 i = 0; i < m.hold[at].nr; i++)
		ref_put(m.hold[at].ref[i]);
	m.hold[at] = m.hold[--m.nr_holds];
}

static void do_hold(void)
{
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	struct kvmm_prefix prefix = { .domain.tenant = mix_any(NR_TENANTS) };
	struct held_hold *held = &m.hold[m.nr_holds];
	struct kvmm_lease_addr addr[BATCH];
	kvmm_key_t key[BATCH];
	u32 number[BATCH];
	int nr;

	m.what = "hold";
	if (m.nr_holds == 32 || (m.nr_holds && mix_any(2))) {
		u32 at = mix_any(m.nr_holds);

		must(!drop_lease(m.pool, m.hold[at].hold));
		drop_hold(at);
		return;
	}
	prefix.nr = some_keys(number, key);
	prefix.keys = key;
	attr.prefix = &prefix;
	attr.owner = 1 + mix_any(NR_OWNERS);
	attr.lease_ns = mix_any(2) ? SECOND : 0;
	attr.flags = KVMM_LEASE_PARTIAL | (mix_any(2) ? KVMM_LEASE_PIN : 0) |
		     (mix_any(2) ? KVMM_LEASE_RECLAIM : 0);
	nr = kvmm_lease_take(m.pool, &attr, &held->hold);
	must(nr > 0 || nr == -ENOENT || (nr == -EBUSY && nr_flying()), "%d", nr);
	if (nr <= 0)
		return;
	must(kvmm_lease_addrs(m.pool, held->hold, addr, BATCH) == nr);
	held->nr = nr;
	held->owner = attr.owner;
	held->leased = attr.lease_ns && attr.flags & KVMM_LEASE_RECLAIM;
	for (int i = 0; i < nr; i++) {
		held->ref[i] = (kvmm_ref_t){ addr[i].index, addr[i].gen };
		ref_get(held->ref[i], key_word(number_of(&addr[i].key), prefix.domain.tenant),
			prefix.domain.tenant);
	}
	m.nr_holds++;
}

static void do_own(void)
{
	struct kvmm_lease_attr own = KVMM_LEASE_ATTR_INIT;
	u32 at;

	m.what = "own";
	if (!m.owns_blocks || !m.nr_muts)
		return;
	at = mix_any(m.nr_muts);
	own.owner = mix_any(NR_OWNERS + 1);
	own.lease_ns = own.owner && mix_any(2) ? SECOND : 0;
	own.flags = own.lease_ns ? KVMM_LEASE_RECLAIM : 0;
	must(!kvmm_lease_own_muts(m.pool, &own, &m.mut[at].mut, 1));
	m.mut[at].owner = own.owner;
	m.mut[at].leased = own.lease_ns;
}

/* Things that go: of @owner, or, if that is 0, with a lease. */
static bool goes(u64 of, bool leased, u64 owner)
{
	return owner ? of == owner : leased;
}

static u32 drop_owned(u64 owner)
{
	u32 nr = 0;

	for (u32 i = m.nr_holds; i--;)
		if (goes(m.hold[i].owner, m.hold[i].leased, owner)) {
			drop_hold(i);
			nr++;
		}
	for (u32 i = m.nr_muts; i--;)
		if (goes(m.mut[i].owner, m.mut[i].leased, owner)) {
			m.mut[i] = m.mut[--m.nr_muts];
			nr++;
		}
	for (u32 i = m.nr_staged; i--;)
		if (goes(m.staged[i].owner, m.staged[i].leased, owner)) {
			m.staged[i] = m.staged[--m.nr_staged];
			nr++;
		}
	for (u32 i = m.nr_ranges; i--;) {
		struct held_range *held = &m.range[i];

		if (!goes(held->owner, held->leased, owner) || (held->refs == 1 && held->pins))
			continue;
		held->owner = 0;
		held->leased = false;
		nr++;
		if (!--held->refs)
			forget_range(held);
	}
	return nr;
}

static bool owner_is_pinned(u64 owner)
{
	for (u32 i = 0; i < m.nr_ranges; i++)
		if (m.range[i].owner == owner && m.range[i].refs == 1 && m.range[i].pins)
			return true;
	return false;
}

static void do_release(void)
{
	u64 owner = 1 + mix_any(NR_OWNERS);
	int nr, want;

	m.what = "release";
	if (mix_any(2)) {
		m.what = "lease_expire";
		nr = kvmm_lease_expire(m.pool, m.now += 1000 * SECOND, NULL);
		want = drop_owned(0);
	} else {
		nr = kvmm_lease_release(m.pool, owner, NULL);
		want = owner_is_pinned(owner) ? -EBUSY : (int)drop_owned(owner);
	}
	must(nr == want, "%d, not %d", nr, want);
}

/* ---- forgetting ---- */

static void do_forget(void)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = mix_any(24) };
	u64 evictions = stat_of(m.pool).evictions;
	u32 block[4];
	int nr;

	m.what = "forget";
	switch (mix_any(24)) {
	case 0:
		must(kvmm_reset_inactive(m.pool) >= 0);
		break;
	case 1:
		nr = kvmm_reset_cache(m.pool);
		must(nr >= 0 ? !nr_held(NR_TENANTS) : nr == -EBUSY, "%d", nr);
		break;
	case 2 ... 13:
		nr = kvmm_evict_for(m.pool, &req);
		must(!nr || nr == -ENOSPC, "%d", nr);
		must(nr ? stat_of(m.pool).evictions == evictions : req.nr_free >= req.nr_blocks,
		     "%d: %u free, not %u", nr, req.nr_free, req.nr_blocks);
		break;
	default:
		for (u32 i = 0; i < 4; i++)
			block[i] = mix_any(m.attr.nr_blocks);
		must(kvmm_evict_blocks(m.pool, block, 4) >= 0);
	}
}

/* ---- all of them ---- */

static void expect_counts(void)
{
	struct kvmm_pool_stat stat = stat_of(m.pool);
	u32 nr_active = 0, nr = m.gang_range, flying = nr_flying() + nr_leaving();

	for (u32 i = 0; i < m.nr_ranges; i++)
		nr += m.range[i].nr;
	for (u32 i = 0; i < 2 * MAX_BLOCKS; i++)
		nr_active += m.active[i].refs > 0;
	must(stat.nr_state[KVMM_BLOCK_RANGE] == nr, "%u, not %u",
	     stat.nr_state[KVMM_BLOCK_RANGE], nr);
	must(stat.nr_ranges == m.nr_ranges + !!m.gang_range, "%u, not %u", stat.nr_ranges, m.nr_ranges);
	must(stat.nr_state[KVMM_BLOCK_PRIVATE] == m.nr_muts + m.gang_blocks + m.gang_more, "%u, not %u",
	     stat.nr_state[KVMM_BLOCK_PRIVATE], m.nr_muts + m.gang_blocks);
	must(stat.nr_state[KVMM_BLOCK_STAGED] == m.nr_staged);
	must(stat.nr_state[KVMM_BLOCK_ACTIVE] == nr_active, "%u, not %u",
	     stat.nr_state[KVMM_BLOCK_ACTIVE], nr_active);
	must(stat.nr_available + flying >= m.nr_usable - nr_held(NR_TENANTS) &&
	     stat.nr_available <= m.nr_usable - nr_held(NR_TENANTS), "%u available, %u held, %u flying",
	     stat.nr_available, nr_held(NR_TENANTS), flying);
}

static void one_call(void)
{
	static void (*const calls[])(void) = {
		do_range, do_range, do_range, do_range_free, do_range_free, do_range_free, do_free_seq,
		do_stale, do_grow, do_grow, do_grow_many, do_shrink, do_split, do_seal_or_pin,
#define NR_RANGE_CALLS	14u	/* the first ones */
		do_alloc, do_alloc, do_alloc, do_alloc_ctl, do_free, do_free, do_register, do_register,
		do_register, do_stage, do_staged, do_acquire, do_acquire, do_match, do_put, do_put,
		do_put, do_pin, do_touch, do_upgrade, do_step, do_step, do_step, do_compact, do_limit,
		do_marks, do_promise, do_gang, do_hold, do_own, do_release, do_forget, do_elastic,
		do_goal, do_goal,
	};
	/* A pool that is full of other blocks has none to keep aside. */
	u32 call = mix_any(m.has_arenas && mix_any(64) ? NR_RANGE_CALLS : ARRAY_SIZE(calls));

	m.nr_calls++;
	m.cpu = mix_any(NR_CPUS);
	if ((calls[call] == do_marks || calls[call] == do_release || calls[call] == do_limit) && mix_any(4))
		return;
	if (m.has_arenas && (calls[call] == do_marks || calls[call] == do_promise))
		return;		/* with these threads keep nothing aside */
	calls[call]();
}

/* ---- pools ---- */

static void choose_pool(struct kvmm_plane *plane, struct kvmm_evict_attr *evict,
			const struct kvmm_class *classes)
{
	static const u32 flags[] = { KVMM_POOL_NULL_BLOCK, KVMM_POOL_RESET_ON_RELEASE,
				     KVMM_POOL_DETERMINISTIC, KVMM_POOL_NO_MAGAZINES,
				     KVMM_POOL_LIFO };
	const char *names[64];
	u32 nr = kvmm_policies(names, 64);
	struct kvmm_pool_attr *attr = &m.attr;

	*attr = (struct kvmm_pool_attr)KVMM_POOL_ATTR_INIT;
	attr->policy = mix_any(2) ? names[mix_any(nr)] : "default";
	attr->nr_blocks = 48 + mix_any(MAX_BLOCKS - 48);
	attr->compactor = mix_any(5) ? "window" : "slide";
	attr->zero = mix_any(KVMM_NR_ZEROS);
	attr->dup_policy = mix_any(2) ? KVMM_DUP_ALLOW : KVMM_DUP_REJECT;
	for (u32 i = 0; i < ARRAY_SIZE(flags); i++)
		attr->flags |= mix_any(4) ? 0 : flags[i];
	attr->seed = m.seed;
	attr->planes = plane;
	attr->nr_planes = 1;
	evict->run_window = mix_any(2) ? 0 : mix_any(attr->nr_blocks / 4);
	evict->classes = mix_any(2) ? classes : NULL;
	evict->nr_classes = evict->classes ? KVMM_NR_PHASES : 0;
	evict->default_class = evict->classes ? 1 : 0;
	attr->evict = mix_any(2) || !strcmp(attr->policy, "lru-classic") ? NULL : evict;
	m.nr_usable = attr->nr_blocks - !!(attr->flags & KVMM_POOL_NULL_BLOCK);
	m.has_arenas = !mix_any(6);
	if (!m.has_arenas)
		return;
	attr->zero = KVMM_ZERO_NEVER;
	attr->flags &= ~KVMM_POOL_DETERMINISTIC;
	attr->evict = NULL;
}

static void make_pools(void)
{
	struct kvmm_plane plane = { mix_memory(), sizeof(struct content), sizeof(struct content) };
	struct kvmm_evict_attr evict = { .size = sizeof(evict) };
	struct kvmm_class classes[] = KVMM_PHASES(300);
	struct kvmm_background how = { .size = sizeof(how), .max_blocks = 1024, .interval_ms = 1,
				       .threshold_pm = 50 };
	choose_pool(&plane, &evict, classes);
	m.pool = make_pool_of(&m.attr);
	m.attr.evict = m.attr.evict && m.attr.evict->nr_classes ? m.attr.evict : NULL;
	make_elastic();
	m.other = make_cache(24, "lru");
	if (m.has_arenas)
		must(!kv_pool_force_arenas(m.pool, 2u << mix_any(2)));
	m.has_quotas = !m.has_arenas && !mix_any(3) && !kvmm_tenant_set_many(m.pool, (u32[]){ KVMM_TENANT_REST, 1, 2, 3 },
							m.limit, NR_TENANTS);
	if (mix_any(2) && !kvmm_stream_add(m.pool, NULL, mix_any(2) ? KVMM_STREAM_TABLES : 0, &m.stream))
		m.has_stream = true;
	how.mode = mix_any(2);
	if (mix_any(2))
		(void)kvmm_background_set(m.pool, &how);
	m.owns_blocks = !mix_any(3);
	snprintf(m.config, TEXT, "%u blocks, %s, flags %x, zero %u, dup %u, %s%s%s%s, window %u, classes %u",
		 m.attr.nr_blocks, m.attr.policy, m.attr.flags, m.attr.zero, m.attr.dup_policy,
		 m.has_quotas ? "quotas " : "", m.has_stream ? "stream " : "",
		 m.has_arenas ? "arenas " : "", m.owns_blocks ? "owners" : "", evict.run_window, evict.nr_classes);
	m.attr.evict = NULL;
}

static void give_all_back(void)
{
	m.what = "the end";
	if (m.nr_gangs)
		must(!kvmm_gang_abort(m.gang));
	if (m.is_open)
		must(!kvmm_step_end(m.pool, m.stream, m.step));
	while (m.nr_holds)
		must(!drop_lease(m.pool, m.hold[--m.nr_holds].hold));
	while (m.nr_refs) {
		struct held_ref *held = &m.ref[--m.nr_refs];

		for (; held->pins; held->pins--)
			must(!kvmm_unpin_many_as(m.pool, &held->ref, 1, held->pin_type));
		must(!kvmm_put(m.pool, held->ref));
	}
	while (m.nr_muts)
		must(!kvmm_free(m.pool, &m.mut[--m.nr_muts].mut, 1));
	while (m.nr_staged) {
		struct held_block *held = &m.staged[--m.nr_staged];
		kvmm_staged_t staged = { held->mut.index, held->mut.gen };

		must(!kv_free_staged(m.pool, &staged, 1));
	}
	for (u32 i = 0; i < m.nr_ranges; i++) {
		for (; m.range[i].pins; m.range[i].pins--)
			must(!kvmm_range_unpin_as(m.pool, m.range[i].range, m.range[i].pin_type));
		for (; m.range[i].refs; m.range[i].refs--)
			must(!kvmm_range_free(m.pool, m.range[i].range));
	}
	if (m.promise.gen)
		must(kvmm_promise_end(m.pool, m.promise) >= 0);
}

/* Everything comes back, and nothing of a pool is left. */
static void end_pools(void)
{
	struct kvmm_pool_stat stat;

	give_all_back();
	end_leaving();
	must(kvmm_compact_cancel(m.pool) >= 0);
	if (m.has_stream)
		must(!kvmm_stream_del(m.pool, m.stream));
	must(kvmm_compact_poll(m.pool) == 0);
	must(!kvmm_validate(m.pool));
	must(kvmm_reset_cache(m.pool) >= 0);
	stat = stat_of(m.pool);
	must(stat.nr_free == m.nr_usable, "%u of %u", stat.nr_free, m.nr_usable);
	must(!kvmm_validate(m.pool));
	end_pool(m.other);
	kvmm_pool_destroy(m.pool);
}

/* What has happened in all runs: runs in which nothing does would prove nothing. */
static struct { u64 allocs, frees, moved, evictions; } seen;

static void count_run(void)
{
	const struct kvmm_pool_stat stat = stat_of(m.pool);

	seen.moved += stat.moved_blocks;
	seen.evictions += stat.evictions;
	for (u32 i = 0; m.pool->arenas && i < m.pool->arenas->nr; i++) {
		seen.allocs += m.pool->arenas->arena[i].count.allocs;
		seen.frees += m.pool->arenas->arena[i].count.frees;
	}
}

static void one_run(u64 seed, u64 nr_ops)
{
	bool strict = getenv("KVMM_STRICT") || seed % 4 == 0;

	mix_reset(seed);
	m.gang_tenant = NR_TENANTS;
	for (u32 i = 0; i < 8; i++)
		mix_any(2);
	for (u32 i = 0; i < NR_TENANTS; i++)
		m.limit[i] = (struct kvmm_tenant_attr)KVMM_TENANT_ATTR_INIT;
	m.now = kv_clock_ns() + 1000000 * SECOND;
	make_pools();
	for (u64 i = 0; i < nr_ops; i++) {
		one_call();
		if (strict || i % 16 == 0)
			expect_counts();
		if (!strict && i % 64)
			continue;
		expect_everything();
		must(!kvmm_validate(m.pool));
	}
	count_run();
	end_pools();
}

static u32 cpu_of_call(void *ctx)
{
	return m.cpu;
}

/* Each call is made on another processor: arenas and magazines keep blocks aside for all of them. */
static void use_processors(void)
{
	static struct kv_env_ops env;

	env = kv_env_system;
	env.cpu = cpu_of_call;
	kv_env_set(&env);
}

Test(mix, whatever_is_called_in_whatever_pool_agrees_with_the_model)
{
	u64 seed = test_number("KVMM_SEED", 1), nr_runs = test_length("KVMM_RUNS", 96);
	u64 nr_ops = test_length("KVMM_OPS", 2000);

	cr_assert_eq(kvmm_testing_set_host(&mix_host), 0);
	use_processors();
	for (u64 i = 0; i < nr_runs; i++) {
		one_run(seed + i, nr_ops);
		if (getenv("KVMM_VERBOSE"))
			printf("seed %lu: %lu done, %lu failed: %s\n", (unsigned long)seed + i,
			       (unsigned long)m.nr_done, (unsigned long)m.nr_failed, m.config);
	}
	cr_log_info("arenas: %llu allocations, %llu frees", (unsigned long long)seen.allocs,
		    (unsigned long long)seen.frees);
	if (nr_runs < 12)
		return;
	cr_expect_gt(seen.allocs, nr_runs * nr_ops / 1000);
	cr_expect_gt(seen.frees, nr_runs * nr_ops / 10000);
	cr_expect(seen.moved && seen.evictions);
}
