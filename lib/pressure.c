// SPDX-License-Identifier: Apache-2.0
/* Pressure stall information; see kv/pressure.h. Constants and rounding are those of Linux. */
#include <string.h>

#include <kv/env.h>
#include <kv/latency.h>
#include <kv/pressure.h>

#define FIXED_SHIFT	KVMM_AVG_SHIFT
#define FIXED_1		(1ull << FIXED_SHIFT)
#define PERIOD_NS	2000000000ull
#define NS_PER_US	1000u

/* 1 / exp(2 s / 10 s), and so on, in fixed point. */
static const u64 decay[KVMM_NR_AVGS] = { 1677, 1981, 2034 };

/* After so many periods of one state no average changes any more: 300 s have decayed by e^-27. */
#define LAST_PERIODS	4096u

void pressure_init(struct pressure *p, u32 id)
{
	memset(p, 0, sizeof(*p));
	kv_lock_init(&p->lock, KV_RANK_LEAF, id);
	p->since_ns = kv_clock_ns();
	p->next_ns = p->since_ns + PERIOD_NS;
}

static bool is_stalled(const struct pressure *p, enum stall stall)
{
	kv_assert_held(&p->lock);
	if (stall == STALL_SOME)
		return p->nr_queued || p->nr_working;
	return p->nr_queued && !p->nr_working;
}

/* Time goes by, in one state, up to @now within this period. */
static void account(struct pressure *p, u64 now)
{
	kv_assert_held(&p->lock);
	for (u32 s = 0; s < NR_STALLS; s++) {
		if (!is_stalled(p, s))
			continue;
		p->total_ns[s] += now - p->since_ns;
		p->period_ns[s] += now - p->since_ns;
	}
	p->since_ns = now;
}

static void end_period(struct pressure *p)
{
	kv_assert_held(&p->lock);
	account(p, p->next_ns);
	for (u32 s = 0; s < NR_STALLS; s++) {
		u64 active = p->period_ns[s] * 100 / PERIOD_NS * FIXED_1;

		/* It decays towards @active; rounded up while it rises, so it can reach 100 %. */
		for (u32 i = 0; i < KVMM_NR_AVGS; i++) {
			u64 *load = &p->avg[s][i];
			u64 sum = *load * decay[i] + active * (FIXED_1 - decay[i]);

			*load = (sum + (active >= *load ? FIXED_1 - 1 : 0)) / FIXED_1;
		}
		p->period_ns[s] = 0;
	}
	p->next_ns += PERIOD_NS;
}

/*
 * Whole periods in one state that need no sample of their own: the averages settle in those that
 * are left. Now is the beginning of a period.
 */
static void skip_periods(struct pressure *p, u64 now)
{
	u64 nr = (now - p->next_ns) / PERIOD_NS;

	kv_assert_held(&p->lock);
	if (nr <= LAST_PERIODS)
		return;
	nr -= LAST_PERIODS;
	account(p, p->since_ns + nr * PERIOD_NS);
	p->next_ns += nr * PERIOD_NS;
	memset(p->period_ns, 0, sizeof(p->period_ns));
}

/* A clock that goes back stands still here. */
static void catch_up(struct pressure *p)
{
	u64 now = max(kv_clock_ns(), p->since_ns);

	kv_assert_held(&p->lock);
	if (now >= p->next_ns) {
		end_period(p);
		if (now >= p->next_ns)
			skip_periods(p, now);
		while (now >= p->next_ns)
			end_period(p);
	}
	account(p, now);
}

void pressure_change(struct pressure *p, int queued, int working)
{
	kv_lock(&p->lock);
	catch_up(p);
	p->nr_queued += queued;
	p->nr_working += working;
	kv_unlock(&p->lock);
}

void pressure_over(struct pressure *p, enum delay delay, u64 since_ns)
{
	kv_lock(&p->lock);
	catch_up(p);
	if (delay == DELAY_QUEUE)
		p->nr_queued--;
	else
		p->nr_working--;
	kv_latency_add(&p->took[delay], p->since_ns - min(since_ns, p->since_ns));
	kv_unlock(&p->lock);
}

static void fill_line(const struct pressure *p, enum stall stall, struct kvmm_pressure_line *line)
{
	kv_assert_held(&p->lock);
	*line = (struct kvmm_pressure_line){ .total_us = p->total_ns[stall] / NS_PER_US };
	for (u32 i = 0; i < KVMM_NR_AVGS; i++)
		line->avg[i] = p->avg[stall][i];
}

void pressure_read(struct pressure *p, struct kvmm_pressure *out)
{
	kv_lock(&p->lock);
	catch_up(p);
	fill_line(p, STALL_SOME, &out->some);
	fill_line(p, STALL_FULL, &out->full);
	out->queue = p->took[DELAY_QUEUE];
	out->room = p->took[DELAY_ROOM];
	kv_unlock(&p->lock);
}
