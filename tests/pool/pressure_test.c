// SPDX-License-Identifier: Apache-2.0
/*
 * Pressure against a model of its own: whole percents of 2 s, decayed by exp(), in floating point. Fixed
 * point rounds up to a unit at each sample, which adds up to 1 / (1 - decay) units; see the bounds.
 */
#include <math.h>

#include <kv/pressure.h>
#include "tests/pool/door_util.h"
#include "tests/pool/util.h"
#include "tests/support/random.h"

#define SECOND	1000000000ull
#define PERIOD	(2 * SECOND)

TestSuite(pressure, .init = door_set_up, .fini = door_tear_down);

static const double seconds[KVMM_NR_AVGS] = { 10, 60, 300 };

/* Percent: decay in 11 bits is off by up to a thousandth, and rounding adds up. */
static const double bound[KVMM_NR_AVGS] = { 0.2, 0.8, 4.0 };

struct model {
	u64 now;
	u64 next;
	u32 queued;
	u32 working;
	double lost[NR_STALLS];
	double total[NR_STALLS];
	double avg[NR_STALLS][KVMM_NR_AVGS];
};

static void model_lose(struct model *m, u64 ns)
{
	bool is[NR_STALLS] = { m->queued + m->working > 0, m->queued > 0 && m->working == 0 };

	for (u32 s = 0; s < NR_STALLS; s++) {
		m->lost[s] += is[s] ? ns : 0;
		m->total[s] += is[s] ? ns : 0;
	}
	m->now += ns;
}

static void model_advance(struct model *m, u64 ns)
{
	while (m->now + ns >= m->next) {
		u64 part = m->next - m->now;

		model_lose(m, part);
		ns -= part;
		m->next += PERIOD;
		for (u32 s = 0; s < NR_STALLS; s++) {
			for (u32 i = 0; i < KVMM_NR_AVGS; i++) {
				double decay = exp(-2.0 / seconds[i]);

				m->avg[s][i] = m->avg[s][i] * decay +
					       floor(100.0 * m->lost[s] / PERIOD) * (1 - decay);
			}
			m->lost[s] = 0;
		}
	}
	model_lose(m, ns);
}

static void expect_line(const struct kvmm_pressure_line *line, const struct model *m, u32 s)
{
	cr_expect_float_eq(line->total_us, m->total[s] / 1000, 1.0);
	for (u32 i = 0; i < KVMM_NR_AVGS; i++)
		cr_assert_float_eq(line->avg[i] / 2048.0, m->avg[s][i], bound[i], "%u: %f, not %f", i,
				   line->avg[i] / 2048.0, m->avg[s][i]);
}

static void expect_same(struct pressure *p, const struct model *m)
{
	struct kvmm_pressure out;

	pressure_read(p, &out);
	expect_line(&out.some, m, STALL_SOME);
	expect_line(&out.full, m, STALL_FULL);
}

static u64 seed = 7;

#define any(below)	lcg_of(&seed, below)

static void step(struct pressure *p, struct model *m, bool look)
{
	u64 ns = any(8) ? any(3000000) * 1000ull : any(400) * SECOND;
	int queued = m->queued ? (int)any(3) - 1 : any(2);
	int working = m->working ? (int)any(3) - 1 : any(2);

	fake.now_ns += ns;
	model_advance(m, ns);
	pressure_change(p, queued, working);
	m->queued += queued;
	m->working += working;
	if (look)
		expect_same(p, m);
}

Test(pressure, averages_are_those_of_a_model)
{
	struct model m = { .now = fake.now_ns, .next = fake.now_ns + PERIOD };
	struct pressure p;

	printf("seed %lu\n", seed);
	pressure_init(&p, 1);
	for (u32 i = 0; i < 3000; i++)
		step(&p, &m, any(3) == 0);
	expect_same(&p, &m);
}

/* Numbers that Linux's arithmetic gives, worked out by hand: 100 % in each of four samples. */
Test(pressure, the_first_samples_are_linux_s)
{
	static const u32 want[4][KVMM_NR_AVGS] = {
		{ 37100, 6700, 1400 },	/* 204800 * (2048 - exp) / 2048, rounded up */
		{ 67480, 13181, 2791 }, { 92356, 19450, 4172 }, { 112726, 25514, 5544 },
	};
	struct kvmm_pressure out;
	struct pressure p;

	pressure_init(&p, 1);
	pressure_change(&p, 1, 0);
	for (u32 i = 0; i < 4; i++) {
		fake.now_ns += PERIOD;
		pressure_read(&p, &out);
		cr_expect_arr_eq(out.full.avg, want[i], sizeof(want[i]), "%u: %u %u %u", i,
				 out.full.avg[0], out.full.avg[1], out.full.avg[2]);
	}
}

Test(pressure, all_of_the_time_is_one_hundred_percent_at_last)
{
	struct kvmm_pressure out;
	struct pressure p;

	pressure_init(&p, 1);
	pressure_change(&p, 1, 1);
	fake.now_ns += 1000000 * PERIOD;
	pressure_read(&p, &out);
	for (u32 i = 0; i < KVMM_NR_AVGS; i++) {
		cr_expect_eq(out.some.avg[i], 100u << KVMM_AVG_SHIFT);
		cr_expect_eq(out.full.avg[i], 0);
	}
	cr_expect_eq(out.some.total_us, 2000000000000ull);
	pressure_change(&p, -1, -1);
	fake.now_ns += 1000000 * PERIOD;
	pressure_read(&p, &out);
	for (u32 i = 0; i < KVMM_NR_AVGS; i++)
		cr_expect_eq(out.some.avg[i], 0);
	cr_expect_eq(out.some.total_us, 2000000000000ull);
}

static void lasts(struct pressure *p, enum delay delay, u64 ns)
{
	u64 since_ns = fake.now_ns;

	pressure_change(p, delay == DELAY_QUEUE, delay == DELAY_ROOM);
	fake.now_ns += ns;
	pressure_over(p, delay, since_ns);
}

Test(pressure, each_bound_belongs_to_the_bucket_below_it)
{
	struct kvmm_pressure out;
	struct pressure p;
	u64 sum = 0;

	pressure_init(&p, 1);
	for (u32 i = 0; i < KVMM_LATENCY_BOUNDS; i++) {
		lasts(&p, DELAY_QUEUE, kvmm_latency_bound_ns(i));
		lasts(&p, DELAY_QUEUE, kvmm_latency_bound_ns(i) + 1);
		sum += 2 * kvmm_latency_bound_ns(i) + 1;
	}
	lasts(&p, DELAY_ROOM, 3 * SECOND);
	pressure_read(&p, &out);
	cr_expect_eq(out.queue.bucket[0], 1);
	for (u32 i = 1; i < KVMM_LATENCY_BOUNDS; i++)
		cr_expect_eq(out.queue.bucket[i], 2, "%u", i);
	cr_expect_eq(out.queue.bucket[KVMM_LATENCY_BOUNDS], 1);
	cr_expect_eq(out.queue.sum_ns, sum);
	cr_expect_eq(out.room.bucket[KVMM_LATENCY_BOUNDS - 1], 1);
	cr_expect_eq(out.room.sum_ns, 3 * SECOND);
	cr_expect_eq(out.some.total_us, (sum + 3 * SECOND) / 1000, "nobody waits any more");
	cr_expect_eq(kvmm_latency_bound_ns(KVMM_LATENCY_BOUNDS), UINT64_MAX);
}

POOL_TEST(pressure, who_waits_in_vain_is_counted_as_well, make_door(8, NULL))
{
	struct kvmm_pressure out;
	kvmm_mut_t mut[8], more[1];

	cr_assert_eq(kvmm_alloc(pool, 8, mut), 0);
	cr_expect_eq(ask_for(pool, 1, KVMM_ALLOC_RELATIVE, 4 * SECOND, more), -ETIMEDOUT);
	cr_assert_eq(kvmm_pool_get_pressure(pool, &out), 0);
	cr_expect_eq(out.queue.bucket[KVMM_LATENCY_BOUNDS - 1], 1);
	cr_expect_eq(out.queue.sum_ns, 4 * SECOND);
	cr_expect_eq(kvmm_free(pool, mut, 8), 0);
}
