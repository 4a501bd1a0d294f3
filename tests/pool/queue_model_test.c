// SPDX-License-Identifier: Apache-2.0
/*
 * Random requests, tickets, promises and watermarks against a model that counts: who is first in the
 * queue, and whether what it wants is there. The model knows nothing of wake-ups; if one were lost the
 * ticket that it says is served would not be.
 */
#include "tests/pool/door_util.h"
#include "tests/pool/life_util.h"
#include "tests/support/random.h"

TestSuite(queue_model, .init = door_set_up, .fini = door_tear_down);

#define NR_BLOCKS	48u
#define NR_TICKETS	6u
#define NR_HOLDERS	24u
#define NR_PROMISES	3u
#define NR_STEPS	60000u

static const u32 flag_of[3] = { 0, KVMM_ALLOC_HIGH, KVMM_ALLOC_URGENT };

/* What one request has, or waits for. */
struct batch {
	kvmm_mut_t mut[NR_BLOCKS];
	u32 nr;
};

struct waiting {
	bool used;
	bool queued;		/* and not refused yet */
	int result;
	u32 prio;
	u64 arrival;
	u64 deadline;
	kvmm_ticket_t ticket;
	struct batch batch;
};

static struct {
	struct kvmm_pool *pool;
	u32 nr_free;
	struct kvmm_watermarks marks;
	struct waiting wait[NR_TICKETS];
	struct batch held[NR_HOLDERS];
	kvmm_promise_t promise[NR_PROMISES];
	u32 promised[NR_PROMISES];
	u64 arrivals;
	u32 nr_served, nr_timed_out, nr_refused;
} m;

static u64 seed;

#define any(below)	lcg_of(&seed, below)

/* ---- the model ---- */

static struct waiting *head(void)
{
	struct waiting *first = NULL;

	for (u32 i = 0; i < NR_TICKETS; i++) {
		struct waiting *w = &m.wait[i];

		if (w->used && w->queued &&
		    (!first || w->prio > first->prio ||
		     (w->prio == first->prio && w->arrival < first->arrival)))
			first = w;
	}
	return first;
}

static void expire(void)
{
	while (head() && head()->deadline <= fake.now_ns) {
		head()->result = -ETIMEDOUT;
		head()->queued = false;
	}
}

static u32 nr_promised(void)
{
	return m.promised[0] + m.promised[1] + m.promised[2];
}

static bool fits(u32 nr, u32 prio)
{
	u32 keep = prio == 0 ? m.marks.low : prio == 1 ? m.marks.min : 0;

	return nr + keep + nr_promised() <= m.nr_free;
}

static bool is_let(u32 nr, u32 prio)
{
	expire();
	return (!head() || head()->prio < prio) && fits(nr, prio);
}

static bool can_ever(u32 nr, u32 prio)
{
	return nr + (prio == 0 ? m.marks.low : prio == 1 ? m.marks.min : 0) <= NR_BLOCKS;
}

/* ---- steps ---- */

static struct batch *free_holder(void)
{
	for (u32 i = 0; i < NR_HOLDERS; i++)
		if (!m.held[i].nr)
			return &m.held[i];
	return NULL;
}

static void keep(const struct batch *batch)
{
	*free_holder() = *batch;
	m.nr_free -= batch->nr;
}

static void step_alloc(void)
{
	u32 nr = 1 + any(10), prio = any(3), nowait = any(2) ? KVMM_ALLOC_NOWAIT : 0;
	struct batch batch = { .nr = nr };
	bool ok = is_let(nr, prio);
	int err;

	if (!free_holder())
		return;
	err = ask_for(m.pool, nr, flag_of[prio] | nowait, 0, batch.mut);
	cr_assert_eq(err, ok ? 0 : -ENOSPC, "alloc %u of %u, prio %u: %d", nr, m.nr_free, prio, err);
	if (ok)
		keep(&batch);
	m.nr_refused += !ok;
}

static void step_free(void)
{
	struct batch *batch = &m.held[any(NR_HOLDERS)];
	u32 nr;

	if (!batch->nr)
		return;
	nr = 1 + any(batch->nr);
	batch->nr -= nr;
	cr_assert_eq(kvmm_free(m.pool, batch->mut + batch->nr, nr), 0);
	m.nr_free += nr;
}

static void step_submit(void)
{
	struct waiting *w = &m.wait[any(NR_TICKETS)];
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	u32 nr = 1 + any(any(4) ? 8 : NR_BLOCKS + 1);
	bool ok;
	int err;

	if (w->used || !free_holder() || nr > NR_BLOCKS)
		return;
	*w = (struct waiting){ .prio = any(3), .arrival = ++m.arrivals, .batch = { .nr = nr },
			       .deadline = fake.now_ns + 1 + any(3000) };
	ctl.nr = nr;
	ctl.flags = flag_of[w->prio];
	ctl.deadline_ns = w->deadline;
	ctl.seq = 1 + any(4);
	ok = is_let(nr, w->prio);
	err = kvmm_alloc_submit(m.pool, &ctl, w->batch.mut, &w->ticket);
	if (!can_ever(nr, w->prio)) {
		cr_assert_eq(err, -ENOSPC);
		return;
	}
	cr_assert_eq(err, ok ? 0 : -EINPROGRESS, "submit %u: %d", nr, err);
	if (ok)
		keep(&w->batch);
	else
		w->used = w->queued = true;
}

static int want_of_poll(struct waiting *w)
{
	expire();
	if (!w->queued)
		return w->result;
	if (w->deadline <= fake.now_ns)
		return -ETIMEDOUT;
	return head() == w && fits(w->batch.nr, w->prio) ? 0 : -EINPROGRESS;
}

static void step_poll(void)
{
	struct waiting *w = &m.wait[any(NR_TICKETS)];
	int want, err;

	if (!w->used || !free_holder())
		return;
	want = want_of_poll(w);
	err = kvmm_alloc_poll(m.pool, w->ticket);
	cr_assert_eq(err, want, "poll of %u, prio %u, %u free: %d, not %d", w->batch.nr, w->prio,
		     m.nr_free, err, want);
	if (err == -EINPROGRESS)
		return;
	w->used = false;
	m.nr_served += !err;
	m.nr_timed_out += err == -ETIMEDOUT;
	if (!err)
		keep(&w->batch);
}

static void step_withdraw(void)
{
	struct waiting *w = &m.wait[any(NR_TICKETS)];

	if (!w->used)
		return;
	cr_assert_eq(kv_alloc_withdraw(m.pool, w->ticket), 0);
	w->used = false;
}

static void step_promise(void)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	u32 i = any(NR_PROMISES);
	struct batch batch = { 0 };
	bool ok;

	if (m.promised[i] && free_holder()) {	/* take from it, past all others */
		ctl.nr = batch.nr = 1 + any(m.promised[i]);
		ctl.promise = m.promise[i];
		cr_assert_eq(kvmm_alloc_as(m.pool, &ctl, batch.mut), 0);
		keep(&batch);
		m.promised[i] -= batch.nr;
		return;
	}
	if (m.promise[i].gen) {
		cr_assert_eq(kvmm_promise_end(m.pool, m.promise[i]), (int)m.promised[i]);
		m.promise[i].gen = m.promised[i] = 0;
		return;
	}
	ctl.nr = 1 + any(5);
	ok = is_let(ctl.nr, 0);
	cr_assert_eq(kvmm_promise_make(m.pool, &ctl, &m.promise[i]), ok ? 0 : -ENOSPC);
	m.promised[i] = ok ? ctl.nr : 0;
}

static void step_marks(void)
{
	struct kvmm_watermarks marks = { 0, 0, 0 };

	if (any(2)) {
		marks.min = any(4);
		marks.low = marks.min + any(4);
		marks.high = marks.low + any(4);
	}
	cr_assert_eq(kvmm_watermarks_set(m.pool, &marks), 0);
	m.marks = marks;
	expire();	/* it may have been looked at */
}

static void step(void)
{
	static void (*const steps[])(void) = {
		step_alloc, step_alloc, step_free, step_free, step_free, step_submit, step_submit,
		step_poll, step_poll, step_poll, step_poll, step_promise,
	};
	u32 what = any(200);

	fake.now_ns += any(40);
	if (what < 4)
		step_withdraw();
	else if (what < 6)
		step_marks();
	else
		steps[any(ARRAY_SIZE(steps))]();
}

static void check(void)
{
	struct kvmm_alloc_stat stat = door_stat(m.pool);

	cr_assert_eq(kvmm_validate(m.pool), 0);
	cr_assert_eq(stat.nr_promised, nr_promised());
	cr_assert_eq(stat_of(m.pool).nr_free, m.nr_free);
}

Test(queue_model, whoever_is_first_is_served_as_soon_as_it_fits)
{
	seed = fake.now_ns * 20251;
	printf("seed %lu\n", seed);
	memset(&m, 0, sizeof(m));
	m.pool = make_door(NR_BLOCKS, NULL);
	m.nr_free = NR_BLOCKS;
	for (u32 i = 0; i < NR_STEPS; i++) {
		step();
		if (i % 16 == 0)
			check();
	}
	cr_expect_gt(m.nr_served, 300);
	cr_expect_gt(m.nr_timed_out, 300);
	cr_expect_gt(m.nr_refused, 300);
	end_pool(m.pool);
}
