// SPDX-License-Identifier: Apache-2.0
/*
 * Memory that goes, is written by the caller, and comes again: at once, or beside all other calls, by a
 * shrink or by the balloon. There is less room meanwhile; nothing else may be noticed.
 */
#include "tests/pool/mix_model.h"

/* The caller's until he hands it back: nobody else writes there. */
static void hear(void)
{
	int nr = kvmm_pool_freed(m.pool, m.told + m.nr_told, ARRAY_SIZE(m.told) - m.nr_told);

	must(nr >= 0, "%d", nr);
	for (int i = 0; i < nr; i++, m.nr_told++)
		memset((void *)(uintptr_t)m.told[m.nr_told].addr, 0xee, m.told[m.nr_told].bytes);
}

static void expect_untouched(void)
{
	for (u32 i = 0; i < m.nr_told; i++)
		for (u64 b = 0; b < m.told[i].bytes; b++)
			must(((u8 *)(uintptr_t)m.told[i].addr)[b] == 0xee, "somebody has written there");
}

/* All that he was told of; what he was not told of comes as well. */
static void hand_back(void)
{
	struct kvmm_regain back = { .size = sizeof(back), .ranges = m.told, .nr_ranges = m.nr_told };

	expect_untouched();
	must(!kvmm_validate(m.pool));
	must(!kvmm_pool_grow(m.pool, &back) || !m.nr_told);
	m.nr_told = 0;
}

static struct kvmm_elastic_stat elastic_of(void)
{
	struct kvmm_elastic_stat stat;

	must(!kvmm_elastic_get_stat(m.pool, &stat));
	return stat;
}

u32 nr_leaving(void)
{
	struct kvmm_elastic_stat stat;

	if (!m.is_leaving)
		return 0;
	stat = elastic_of();
	return stat.away_blocks + stat.leaving_blocks;
}

/* ---- beside everything else ---- */

/* For as many calls as there are until do_elastic() is met again, or longer. */
static void begin_leaving(void)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 1 + mix_any(m.nr_usable / 2),
				   .min_blocks = 1, .flags = mix_any(3) ? 0 : KVMM_SHRINK_NO_EVICT,
				   .max_moved = mix_any(3) ? 0 : mix_any(40) };
	int err;

	if (mix_any(2))
		err = kvmm_pool_shrink_start(m.pool, &req, mix_any(2));
	else
		err = kvmm_balloon_set(m.pool, mix_any(m.nr_usable) * sizeof(struct content));
	must(!err || err == -ENOSPC || err == -EBUSY || err == -EAGAIN, "%d", err);
	m.is_leaving = !err;
}

static void go_on_leaving(void)
{
	int err = mix_any(2) ? kvmm_pool_shrink_poll(m.pool, NULL) : kv_balloon_tick(m.pool);

	must(err == 0 || err == 1 || err == -ENOSPC, "%d", err);
	hear();
	expect_untouched();
}

void end_leaving(void)
{
	int err;

	if (!m.is_leaving)
		return;
	must(!kvmm_balloon_set(m.pool, 0));
	err = kvmm_pool_shrink_cancel(m.pool);
	must(!err || err == -EINVAL, "%d", err);
	hear();
	hand_back();
	must(!stat_of(m.pool).nr_away, "%u", stat_of(m.pool).nr_away);
	must(!elastic_of().leaving_blocks && !elastic_of().is_active);
	m.is_leaving = false;
}

/* ---- all at once ---- */

static void stop_and_shrink(void)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 1 + mix_any(m.nr_usable),
				   .flags = mix_any(3) ? 0 : KVMM_SHRINK_NO_EVICT,
				   .max_moved = mix_any(3) ? 0 : mix_any(40) };
	u64 evictions;
	int err;

	req.min_blocks = mix_any(3) ? 1 : 0;
	evictions = stat_of(m.pool).evictions;
	err = kvmm_pool_shrink(m.pool, &req);
	must(!err || stat_of(m.pool).evictions == evictions, "%d, and %u were evicted", err, req.evicted);
	must(!err || err == -ENOSPC || err == -EBUSY || err == -EAGAIN, "%d", err);
	must(err || !m.is_open, "moved under a step");
	must(!err || !stat_of(m.pool).nr_away);
	must(err || stat_of(m.pool).nr_away == req.given_blocks);
	if (!err) {
		hear();
		hand_back();
	}
	must(!stat_of(m.pool).nr_away);
}

void do_elastic(void)
{
	m.what = "elastic";
	if (m.is_leaving && mix_any(3))
		go_on_leaving();
	else if (m.is_leaving)
		end_leaving();
	else if (mix_any(2))
		begin_leaving();
	else
		stop_and_shrink();
}

void make_elastic(void)
{
	struct kvmm_elastic_attr attr = { .size = sizeof(attr), .unit_bytes = 64ull << mix_any(3),
					  .pageblock_blocks = mix_any(2) ? 0 : 1u << mix_any(5) };

	must(!kvmm_pool_elastic_setup(m.pool, &attr));
}
