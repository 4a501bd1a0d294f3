// SPDX-License-Identifier: Apache-2.0
/*
 * Run index: searching under conditions (window, alignment, direction, first
 * fit), walks over runs, and statistics. Nothing in here writes, but for
 * kv_runs_alloc_req(), which claims the run that it found.
 *
 * A window cuts at most two runs. Those are looked at by hand, after which the
 * window is shrunk to the runs that lie inside it whole, and the classes, which
 * know whole runs only, answer for the rest.
 */
#include "runs_internal.h"

/* ---- requests with conditions ---- */

/* State of a search: the request with its defaults filled in, best so far. */
struct search {
	struct kv_runs_req req;
	u32 best_len;		/* of the whole run that is best so far; 0: none yet */
	u32 place;
};

/* Where in the run the blocks would go; KV_RUNS_NONE if they do not fit. */
static u32 place_in(const struct kv_runs_req *req, struct kv_run run)
{
	u32 mask = req->align - 1, place;

	kv_assert(kv_is_pow2(req->align));
	if (run.len < req->n)
		return KV_RUNS_NONE;
	if (req->flags & KV_RUNS_TOPDOWN) {
		place = (run.start + run.len - req->n) & ~mask;
		return place >= run.start ? place : KV_RUNS_NONE;
	}
	place = (run.start + mask) & ~mask;
	return place + req->n <= run.start + run.len ? place : KV_RUNS_NONE;
}

/* @inside: the part of a run of @len blocks in the window. */
static bool consider(struct search *s, struct kv_run inside, u32 len)
{
	u32 place = place_in(&s->req, inside);
	bool is_better;

	kv_assert(inside.len <= len);
	if (place == KV_RUNS_NONE)
		return false;
	if (!s->best_len)
		is_better = true;
	else if (!(s->req.flags & KV_RUNS_FIRST) && len != s->best_len)
		is_better = len < s->best_len;
	else
		is_better = (place < s->place) ^ !!(s->req.flags & KV_RUNS_TOPDOWN);
	if (is_better) {
		s->best_len = len;
		s->place = place;
	}
	return true;
}

/* Runs cut by an edge of the window: the part inside must do; shrink to the rest. */
static void consider_edges(const struct kv_runs *runs, struct search *s, u32 *lo, u32 *hi)
{
	u32 outside = free_before(runs, *lo), after;
	struct kv_run run;

	kv_assert(*lo < *hi && *hi <= runs->nr_blocks);
	if (outside) {
		after = free_after(runs, *lo);
		run.start = *lo;
		run.len = min(after, *hi - *lo);
		consider(s, run, outside + after);
		*lo += run.len;
	}
	outside = free_after(runs, *hi);
	if (*lo < *hi && outside) {
		run.len = free_before(runs, *hi);
		run.start = *hi - run.len;
		consider(s, run, run.len + outside);
		*hi -= run.len;
	}
}

/* The last run of class c that starts in [lo, hi). */
static bool prev_of_class(const struct kv_runs *runs, u32 c, u32 lo, u32 hi, struct kv_run *run)
{
	const struct kv_runs_class *class = &runs->class[c];
	u32 g = hi - 1;

	kv_assert(c < runs->nr_classes);
	for (g >>= geo_shift(class); ; g--) {
		g = prev_group(runs, class, g);
		if (g == KV_RUNS_NONE)
			return false;
		run->start = group_start(runs, class, g);
		run->len = run_len(runs, c, run->start);
		if (run->start < hi)
			return run->start >= lo;
		if (!g)
			return false;
	}
}

/* Consider the runs of one class in [lo, hi), the preferred end first. */
static bool consider_class(const struct kv_runs *runs, struct search *s, u32 c, u32 lo, u32 hi)
{
	bool topdown = s->req.flags & KV_RUNS_TOPDOWN, found = false;
	bool one_will_do = c < KV_RUNS_EXACT || s->req.flags & KV_RUNS_FIRST;
	struct kv_run run;

	kv_assert(c < runs->nr_classes);
	while (lo < hi) {
		if (topdown ? !prev_of_class(runs, c, lo, hi, &run)
			    : !kv_runs_next_of_class(runs, c, lo, &run) || run.start >= hi)
			break;
		if (consider(s, run, run.len)) {
			found = true;
			if (one_will_do)
				break;
		}
		if (topdown)
			hi = run.start;
		else
			lo = run.start + run.len;
	}
	return found;
}

static void consider_classes(const struct kv_runs *runs, struct search *s, u32 lo, u32 hi)
{
	bool first = s->req.flags & KV_RUNS_FIRST;
	u32 c = next_class(runs, class_of(s->req.n));

	for (; c != KV_RUNS_NONE; c = next_class(runs, c + 1)) {
		if (!first && s->best_len && s->best_len < class_min_len(c))
			return;
		if (consider_class(runs, s, c, lo, hi) && !first)
			return;
	}
}

/**
 * kv_runs_alloc_req() - find a place and take it
 * @runs:  the index
 * @req:   the request
 * @start: out: first block
 *
 * Best fit by the length of the whole run, however much the window shows of it;
 * first fit by address; equals by address. Costs
 * one search in each class that may hold the answer; with an alignment, also
 * the runs shorter than n + align - 1 that fail it.
 * Context: the lock of the zone is held.
 * Return: 0; -ENOSPC if there is no such place; -EINVAL for a bad request.
 */
int kv_runs_alloc_req(struct kv_runs *runs, const struct kv_runs_req *req, u32 *start)
{
	struct search s = { .req = *req };
	u32 lo, hi;

	if (!s.req.hi)
		s.req.hi = runs->nr_blocks;
	if (!s.req.align)
		s.req.align = 1;
	if (!s.req.n || s.req.lo >= s.req.hi || s.req.hi > runs->nr_blocks ||
	    !kv_is_pow2(s.req.align) || s.req.flags & ~(KV_RUNS_TOPDOWN | KV_RUNS_FIRST))
		return -EINVAL;
	if (s.req.n > s.req.hi - s.req.lo)
		return -ENOSPC;
	lo = s.req.lo;
	hi = s.req.hi;
	consider_edges(runs, &s, &lo, &hi);
	consider_classes(runs, &s, lo, hi);
	if (!s.best_len)
		return -ENOSPC;
	*start = s.place;
	return kv_runs_alloc_at(runs, s.place, s.req.n);
}

/* ---- reading ---- */

bool kv_runs_range_is_free(const struct kv_runs *runs, u32 start, u32 n)
{
	return n && start < runs->nr_blocks && n <= runs->nr_blocks - start &&
	       free_after(runs, start) >= n;
}

/**
 * kv_runs_next() - walk the free runs by address
 * @runs: the index
 * @pos:  where to start
 * @run:  out: the first run that ends after pos, whole
 *
 * Continue with run->start + run->len. Reads one word of the map per 64 used
 * blocks in between.
 * Context: the lock of the zone is held.
 * Return: false if there is none.
 */
bool kv_runs_next(const struct kv_runs *runs, u32 pos, struct kv_run *run)
{
	u32 w = pos >> 6, end = (runs->nr_blocks - 1) >> 6;
	u64 x;

	if (pos >= runs->nr_blocks)
		return false;
	x = runs->map[w] & mask_from(pos);
	while (!x) {
		if (w++ == end)
			return false;
		x = runs->map[w];
	}
	pos = w * 64 + kv_lowest64(x);
	run->start = pos - free_before(runs, pos);
	run->len = pos - run->start + free_after(runs, pos);
	return true;
}

/* The first run of a class that starts at or after pos. */
bool kv_runs_next_of_class(const struct kv_runs *runs, u32 c, u32 pos, struct kv_run *run)
{
	const struct kv_runs_class *class = &runs->class[c];
	u32 g;

	if (!c || c >= runs->nr_classes)
		return false;
	g = pos >> geo_shift(class);
	do {
		g = next_group(runs, class, g);
		if (g == KV_RUNS_NONE)
			return false;
		run->start = group_start(runs, class, g++);
	} while (run->start < pos);
	run->len = run_len(runs, c, run->start);
	return true;
}

/* The longest run, the lowest among equals; length 0 if nothing is free. */
struct kv_run kv_runs_largest(const struct kv_runs *runs)
{
	struct kv_run run = { 0, 0 };

	kv_runs_top(runs, &run, 1);
	return run;
}

/* Insert into an array sorted by falling length; the one that falls out at the end is lost. */
static u32 top_insert(struct kv_run *out, u32 nr, u32 max, struct kv_run run)
{
	u32 i = nr < max ? nr++ : max;

	kv_assert(nr <= max);
	for (; i && out[i - 1].len < run.len; i--)
		if (i < max)
			out[i] = out[i - 1];
	if (i < max)
		out[i] = run;
	return nr;
}

/**
 * kv_runs_top() - the longest runs
 * @runs: the index
 * @out:  out: runs by falling length, equals by address
 * @max:  room in out
 *
 * Context: the lock of the zone is held.
 * Return: number of runs written.
 */
u32 kv_runs_top(const struct kv_runs *runs, struct kv_run *out, u32 max)
{
	u32 c = prev_class(runs, runs->nr_classes - 1), nr = 0;

	for (; c && nr < max; c = prev_class(runs, c - 1)) {
		struct kv_run run;
		u32 pos = 0;

		while (kv_runs_next_of_class(runs, c, pos, &run)) {
			if (c < KV_RUNS_EXACT && nr == max)
				break;
			nr = top_insert(out, nr, max, run);
			pos = run.start + run.len;
		}
	}
	return nr;
}

/* Sum over the runs of at least len blocks, of their number or of their blocks. */
static u32 sum_at_least(const struct kv_runs *runs, u32 len, bool blocks)
{
	u32 c = len ? class_of(len) : 1, sum = 0, pos = 0;
	struct kv_run run;

	kv_assert(len <= KV_RUNS_MAX_BLOCKS);
	if (len > runs->nr_blocks)
		return 0;
	/* The bin that len itself falls in is the one that may hold shorter runs. */
	if (c >= KV_RUNS_EXACT) {
		for (; kv_runs_next_of_class(runs, c, pos, &run); pos = run.start + run.len)
			if (run.len >= len)
				sum += blocks ? run.len : 1;
		c++;
	}
	for (c = next_class(runs, c); c != KV_RUNS_NONE; c = next_class(runs, c + 1)) {
		if (!blocks)
			sum += runs->class[c].nr;
		else if (c < KV_RUNS_EXACT)
			sum += runs->class[c].nr * c;
		else
			sum += runs->bin_blocks[c - KV_RUNS_EXACT];
	}
	return sum;
}

/* Free blocks in runs of at least len; the rest of nr_free is unusable for len. */
u32 kv_runs_blocks_at_least(const struct kv_runs *runs, u32 len)
{
	return sum_at_least(runs, len, true);
}

u32 kv_runs_count_at_least(const struct kv_runs *runs, u32 len)
{
	return sum_at_least(runs, len, false);
}
