// SPDX-License-Identifier: Apache-2.0
/* Random calls on ranges, steps that read and write meanwhile, and compaction. */
#include "tests/pool/mix_model.h"

/* ---- ranges ---- */

void do_range(void)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + mix_any(mix_any(3) ? 8 : 48),
					.max_runs = 1 + mix_any(KVMM_MAX_RUNS), .prio = mix_any(3),
					.tenant = mix_any(NR_TENANTS), .flags = some_flags(),
					.seq = mix_any(NR_SEQS + 1) };
	struct held_range *held = &m.range[m.nr_ranges];
	struct want want;
	struct bounds b;
	int err;

	m.what = "range";
	/* A full pool has nothing to keep aside. */
	if (m.has_arenas && nr_held(NR_TENANTS) > m.nr_usable / 2 && mix_any(64))
		return;
	attr.nr = attr.nr < m.nr_usable ? attr.nr : m.nr_usable;
	attr.flags |= mix_any(3) ? 0 : KVMM_ALLOC_GROWS;
	if (m.has_arenas && mix_any(4))	/* they serve plain ones only */
		attr = (struct kvmm_range_attr){ .size = sizeof(attr), .nr = attr.nr, .max_runs = attr.max_runs };
	else if (!mix_any(3))
		attr = (struct kvmm_range_attr){ .size = sizeof(attr), .nr = attr.nr,
						 .tenant = attr.tenant, .prio = attr.prio };
	if (!m.has_arenas && !mix_any(4)) {
		attr.owner = 1 + mix_any(NR_OWNERS);
		attr.lease_ns = mix_any(2) ? SECOND : 0;
		attr.own_flags = mix_any(2) ? KVMM_LEASE_RECLAIM : 0;
	}
	if (attr.flags & KVMM_ALLOC_CONTIG)
		attr.max_runs = 1;
	want = (struct want){ .nr = attr.nr, .prio = attr.prio, .tenant = attr.tenant, .flags = attr.flags,
			      .promised = promised_to(&attr.promise, attr.nr) };
	want.is_exact = !(attr.flags & (KVMM_ALLOC_NOWAIT | KVMM_ALLOC_CONTIG)) &&
			attr.nr <= attr.max_runs;
	b = bounds_of(&want);
	err = kvmm_range_alloc_attr(m.pool, &attr, &held->range);
	expect_answer(&want, &b, err);
	if (err)
		return;
	was_promised(want.promised);
	m.nr_ranges++;
	held->nr = attr.nr;
	held->refs = 1;
	held->pins = held->sealed = 0;
	held->tenant = attr.tenant;
	held->flags = attr.flags & KVMM_ALLOC_KEPT;
	held->owner = attr.owner;
	held->seq = attr.seq;
	held->leased = attr.lease_ns && attr.own_flags;
	fill_range(held, 0, attr.flags);
}

static struct held_range *some_range(void)
{
	return m.nr_ranges ? &m.range[mix_any(m.nr_ranges)] : NULL;
}

void do_range_free(void)
{
	struct held_range *held = some_range();
	int err;

	m.what = "range_free";
	if (!held)
		return;
	if (!mix_any(12) && held->refs < 3) {
		must(!kvmm_range_get(m.pool, held->range));
		held->refs++;
		return;
	}
	expect_range(held);
	err = kvmm_range_free(m.pool, held->range);
	if (held->refs == 1 && held->pins) {
		must(err == -EBUSY, "%d", err);
		return;
	}
	must(!err, "%d", err);
	if (--held->refs)
		return;
	must(kvmm_range_free(m.pool, held->range) == -ESTALE);
	forget_range(held);
}

/* All or none: a range that goes with its last reference must not be pinned. */
void do_free_seq(void)
{
	u64 seq = 1 + mix_any(NR_SEQS);
	bool is_barred = false;
	u32 nr = 0;
	int ret;

	m.what = "free_seq";
	for (u32 i = 0; i < m.nr_ranges; i++) {
		nr += m.range[i].seq == seq;
		is_barred |= m.range[i].seq == seq && m.range[i].refs == 1 && m.range[i].pins;
	}
	ret = kvmm_range_find_seq(m.pool, seq, NULL, 0);
	must(ret == (int)nr, "%d, not %u", ret, nr);
	if (mix_any(4))
		return;
	ret = kvmm_range_free_seq(m.pool, seq);
	must(ret == (is_barred ? -EBUSY : (int)nr), "%d of %u", ret, nr);
	for (u32 i = m.nr_ranges; i-- > 0 && !is_barred;)
		if (m.range[i].seq == seq && !--m.range[i].refs)
			forget_range(&m.range[i]);
}

void do_stale(void)
{
	kvmm_range_t range = m.stale[mix_any(NR_STALE)];
	int err;

	m.what = "stale";
	err = kvmm_range_free(m.pool, range);
	must(err == (range.gen ? -ESTALE : -EINVAL), "%d", err);
}

void do_grow(void)
{
	struct held_range *held = some_range();
	struct want want = { .nr = 1 + mix_any(6), .is_exact = true };
	struct bounds b;
	int err;

	m.what = "grow";
	if (!held || held->nr > 120)
		return;
	want.tenant = held->tenant;
	want.flags = held->flags;
	b = bounds_of(&want);
	b.most = m.nr_usable - nr_held(NR_TENANTS) - m.nr_promised;	/* of a priority of its own */
	if (m.marks.low)
		b.sure = 0;
	err = kvmm_range_grow(m.pool, held->range, want.nr);
	expect_answer(&want, &b, err);
	if (err)
		return;
	held->nr += want.nr;
	fill_range(held, held->nr - want.nr, 0);
}

/* A range may be there twice. */
void do_grow_many(void)
{
	kvmm_range_t range[6];
	u32 at[6], old[6], nr = 1 + mix_any(6), by = 1 + mix_any(2), room, flags = 0;
	u64 evictions;
	int err;

	m.what = "grow_many";
	if (m.nr_ranges < nr)
		return;
	for (u32 i = 0; i < nr; i++) {
		at[i] = mix_any(m.nr_ranges);
		old[i] = m.range[at[i]].nr;
		range[i] = m.range[at[i]].range;
		flags |= m.range[at[i]].flags;
		if (m.range[at[i]].nr > 120)
			return;
	}
	room = minus(m.nr_usable - nr_held(NR_TENANTS), m.nr_promised);
	evictions = stat_of(m.pool).evictions;
	err = kvmm_range_grow_many(m.pool, range, nr, by);
	must(!err || stat_of(m.pool).evictions == evictions);
	must(!err || err == -ENOSPC || (m.has_quotas && err == -EDQUOT), "%d", err);
	if (!err) {
		must(nr * by <= room, "%u of %u", nr * by, room);
		for (u32 i = 0; i < nr; i++) {
			if (m.range[at[i]].nr != old[i])
				old[i] = UINT32_MAX;	/* once more: filled with the first */
			m.range[at[i]].nr += by;
		}
		for (u32 i = 0; i < nr; i++)
			fill_range(&m.range[at[i]], old[i], 0);
	} else if (!m.has_quotas && !m.marks.low &&
		   !(flags & KVMM_ALLOC_NO_EVICT)) {
		must(nr * by > minus(room, nr_flying() + nr_cached_flying() + nr_leaving()), "%u of %u", nr * by, room);
	}
}

void do_shrink(void)
{
	struct held_range *held = some_range();
	u32 nr = 1 + mix_any(6);
	bool front = mix_any(2);
	int err;

	m.what = front ? "shrink_front" : "shrink";
	if (!held)
		return;
	err = front ? kvmm_range_shrink_front(m.pool, held->range, nr) :
		      kvmm_range_shrink(m.pool, held->range, nr);
	if (nr >= held->nr) {
		must(err == -EINVAL, "%d", err);
		return;
	}
	must(err == (held->pins || held->refs > 1 ? -EBUSY : 0), "%d", err);
	if (err)
		return;
	held->nr -= nr;
	held->serial = ++m.next_word;
	if (front) {
		memmove(held->word, held->word + nr, held->nr * sizeof(held->word[0]));
		held->sealed = minus(held->sealed, nr);
	}
	held->sealed = held->sealed < held->nr ? held->sealed : held->nr;
	expect_range(held);
}

void do_split(void)
{
	struct held_range *held = some_range(), *tail = &m.range[m.nr_ranges];
	u32 at;
	int err;

	m.what = "split";
	if (!held || held->owner || held->nr < 2)
		return;
	at = 1 + mix_any(held->nr - 1);
	err = kvmm_range_split(m.pool, held->range, at, &tail->range);
	must(err == (held->pins || held->refs > 1 ? -EBUSY : 0), "%d", err);
	if (err)
		return;
	tail->nr = held->nr - at;
	tail->refs = 1;
	tail->pins = 0;
	tail->sealed = minus(held->sealed, at);		/* seals follow their blocks */
	tail->tenant = held->tenant;
	tail->flags = held->flags;
	tail->owner = 0;
	tail->seq = held->seq;
	tail->leased = false;
	memcpy(tail->word, held->word + at, tail->nr * sizeof(tail->word[0]));
	tail->serial = ++m.next_word;
	held->nr = at;
	held->sealed = held->sealed < at ? held->sealed : at;
	held->serial = ++m.next_word;
	m.nr_ranges++;
	expect_range(held);
	expect_range(tail);
}

void do_seal_or_pin(void)
{
	struct held_range *held = some_range();
	u32 other, nr;

	m.what = "range_pin";
	if (!held)
		return;
	if (mix_any(2)) {
		nr = 1 + mix_any(held->nr);
		held->sealed = held->sealed > nr ? held->sealed : nr;	/* never taken back */
		held->serial = ++m.next_word;
		must(!kvmm_range_seal(m.pool, held->range, nr));
	} else if (held->pins) {
		other = (held->pin_type + 1) % KVMM_NR_PIN_TYPES;
		must(kvmm_range_unpin_as(m.pool, held->range, other) == -EINVAL);
		must(!kvmm_range_unpin_as(m.pool, held->range, held->pin_type));
		held->pins--;
	} else if (!mix_any(3)) {
		held->pin_type = mix_any(KVMM_NR_PIN_TYPES);
		must(!kvmm_range_pin_as(m.pool, held->range, held->pin_type));
		held->pins++;
	}
}

/* ---- steps ---- */

static void see_range(struct seen *seen)
{
	struct held_range *held = some_range();
	u32 place[MAX_BLOCKS], at = mix_any(held->nr);

	places_of(held, place);
	*seen = (struct seen){ .block = place[at], .at = at, .serial = held->serial,
			       .word = held->word[at], .range = held->range,
			       .may_move = at < held->sealed };
}

static void see_ref(struct seen *seen)
{
	struct held_ref *held = &m.ref[mix_any(m.nr_refs)];
	struct active *active = &m.active[held->ref.index];

	*seen = (struct seen){ .block = place_of_ref(held->ref), .serial = active->serial,
			       .word = active->word, .ref = held->ref, .is_ref = true, .may_move = true };
}

static void begin_step(void)
{
	struct kvmm_relocation moves[64];
	int err, nr;

	m.what = "step_begin";
	err = kvmm_step_begin(m.pool, m.stream, &m.step);
	while (err == -EAGAIN) {
		nr = kvmm_relocations(m.pool, m.stream, moves, 64);
		must(nr > 0, "%d", nr);
		must(!kvmm_relocations_ack(m.pool, m.stream, nr));
		err = kvmm_step_begin(m.pool, m.stream, &m.step);
	}
	must(!err, "%d", err);
	m.is_open = true;
	for (m.nr_seen = 0; m.nr_seen < NR_SEEN; m.nr_seen++) {
		if (m.nr_ranges && (m.nr_seen % 2 || !m.nr_refs))
			see_range(&m.seen[m.nr_seen]);
		else if (m.nr_refs)
			see_ref(&m.seen[m.nr_seen]);
		else
			break;
	}
}

static struct held_range *range_of(const struct seen *seen)
{
	for (u32 i = 0; i < m.nr_ranges; i++)
		if (m.range[i].range.index == seen->range.index &&
		    m.range[i].range.gen == seen->range.gen)
			return m.range[i].serial == seen->serial ? &m.range[i] : NULL;
	return NULL;
}

/* The step writes where it was told that the block is. */
static void write_in_step(struct seen *seen)
{
	struct held_range *held = seen->is_ref ? NULL : range_of(seen);

	if (!held || seen->at < held->sealed)
		return;
	for (u32 i = 0; i < m.nr_seen; i++)
		if (&m.seen[i] != seen && m.seen[i].block == seen->block)
			return;
	seen->word = held->word[seen->at] = new_word(held->tenant);
	fill(seen->block, seen->word);
}

/* What is still held is still where the step was told, and stayed there if it may be written. */
static void expect_seen(const struct seen *seen)
{
	struct held_range *held;
	u32 place[MAX_BLOCKS];

	if (seen->is_ref) {
		if (m.active[seen->ref.index].serial == seen->serial && m.active[seen->ref.index].refs)
			expect_content(seen->block, seen->word);
		return;
	}
	held = range_of(seen);
	if (!held)
		return;
	expect_content(seen->block, seen->word);
	places_of(held, place);
	must(seen->may_move || place[seen->at] == seen->block, "moved under a step");
}

void do_step(void)
{
	m.what = "step";
	if (!m.has_stream)
		return;
	if (!m.is_open) {
		begin_step();
		return;
	}
	for (u32 i = 0; i < m.nr_seen; i++)
		expect_seen(&m.seen[i]);
	if (m.nr_seen && mix_any(3)) {
		write_in_step(&m.seen[mix_any(m.nr_seen)]);
		return;
	}
	must(!kvmm_step_end(m.pool, m.stream, m.step));
	m.is_open = false;
}

static bool is_bad(const struct kvmm_compact_goal *goal, const struct held_range *held)
{
	switch (goal->goal) {
	case KVMM_GOAL_RUN:
		return goal->want > m.nr_usable;
	case KVMM_GOAL_PAGEBLOCKS:
		return goal->want > m.attr.nr_blocks / goal->pageblock_blocks;
	case KVMM_GOAL_GATHER:
		return !held;
	default:
		return false;
	}
}

/* Whatever is wanted: what is held stays as it is, and nothing that may be written moves under a step. */
void do_goal(void)
{
	struct kvmm_compact_goal goal = KVMM_COMPACT_GOAL_INIT;
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT, same = KVMM_COMPACT_PLAN_INIT;
	struct held_range *held = some_range();
	int err, told;

	m.what = "goal";
	goal.goal = mix_any(KVMM_NR_GOALS);
	goal.mode = mix_any(KVMM_NR_MOVE_MODES);
	goal.flags = mix_any(8);
	goal.want = mix_any(goal.goal == KVMM_GOAL_RUN ? 40 : 6) + (goal.goal < KVMM_GOAL_SHORTEN);
	goal.pageblock_blocks = 1u << mix_any(5);
	goal.max_blocks = mix_any(3) ? 0 : mix_any(40);
	goal.max_us = mix_any(4) ? 0 : 1 + mix_any(100);
	goal.max_bytes = mix_any(4) ? 0 : mix_any(1000);
	goal.range = held ? held->range : (kvmm_range_t){ 0, 0 };
	told = kvmm_compact_get_plan(m.pool, &goal, &same);
	err = kvmm_compact_goal_start(m.pool, &goal, &plan);
	must((err == -EINVAL) == is_bad(&goal, held) && (told == -EINVAL) == (err == -EINVAL),
	     "%d, %d", told, err);
	must(!err || err == -EINVAL || err == -ENOSPC || err == -EBUSY || err == -EAGAIN, "%d", err);
	must(err || !goal.max_blocks || plan.moved_blocks <= goal.max_blocks);
	must(err || !goal.max_bytes || plan.moved_bytes <= goal.max_bytes);
	must(err || goal.flags & KVMM_GOAL_DROP || !plan.nr_drops);
	/* Who finds all of them empty lists none. */
	must(err || plan.is_partial || goal.goal != KVMM_GOAL_PAGEBLOCKS || plan.nr_empty >= goal.want ||
	     (!plan.nr_moves && !plan.nr_drops), "%u of %u", plan.nr_empty, goal.want);
}

void do_compact(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 1 + mix_any(40),
				     .max_blocks = mix_any(3) ? 0 : mix_any(40) };
	int err;

	m.what = "compact";
	switch (mix_any(8)) {
	case 0:
		err = kvmm_compact_cancel(m.pool);
		must(err >= 0, "%d", err);
		return;
	case 1:
		goal.want_run = mix_any(40);
		err = kvmm_pool_compact(m.pool, &goal);
		must(!err || err == -EAGAIN || err == -ENOSPC || err == -EBUSY, "%d", err);
		must(err || !m.is_open || !goal.moved, "moved under a step");
		return;
	case 2:
	case 3:
		must(kvmm_compact_poll(m.pool) >= 0);
		return;
	case 4:
		err = kvmm_background_tick(m.pool);
		must(err == 0 || err == 1, "%d", err);
		return;
	default:
		err = kvmm_compact_start(m.pool, &goal, mix_any(2));
		must(!err || err == -ENOSPC || err == -EBUSY || err == -EAGAIN, "%d", err);
	}
}
