// SPDX-License-Identifier: Apache-2.0
/*
 * Units of memory behind pageblocks; see leave.h.
 *
 * Strides need not be powers of two, so units and pageblocks need not end together: a unit goes
 * when the last of the pageblocks in it is away and read by no step, and has to be there again
 * before any of them comes back.
 */
#include <kv/mem.h>

#include "leave.h"

/* ---- spans ---- */

/* Do planes from this one on fill a stride without a gap? Interleaved planes do. */
static bool begins_span(const struct kvmm_pool *pool, const struct kvmm_plane *lead)
{
	u64 sum = 0;

	for (u32 i = 0; i < pool->nr_planes; i++) {
		const struct kvmm_plane *plane = &pool->plane[i];

		if (plane->stride == lead->stride && plane->base - lead->base < lead->stride)
			sum += plane->bytes;
	}
	return sum == lead->stride;
}

/* Of memory of the caller only whole units that are all ours. */
static void span_fill(const struct kvmm_pool *pool, const struct elastic *el,
		      const struct kvmm_plane *plane, struct span *span)
{
	u64 end = plane->base + plane->stride * pool->nr_blocks;

	*span = (struct span){ .base = plane->base, .stride = plane->stride, .first = plane->base };
	if (pool->area)
		end = kv_align_up(end - plane->base, el->unit_bytes) + plane->base;
	else
		span->first = kv_align_up(plane->base, el->unit_bytes);
	if (end > span->first)
		span->nr_units = (end - span->first) / el->unit_bytes;
}

int units_init(struct kvmm_pool *pool, struct elastic *el)
{
	if (!el->unit_bytes)
		return 0;
	el->span = kv_alloc_array(pool->nr_planes, sizeof(*el->span));
	for (u32 i = 0; el->span && i < pool->nr_planes; i++) {
		struct span *span = &el->span[el->nr_spans];

		if (!begins_span(pool, &pool->plane[i]))
			continue;
		span_fill(pool, el, &pool->plane[i], span);
		if (!span->nr_units)
			continue;
		el->nr_spans++;
		span->unit = kv_alloc(span->nr_units);
		if (!span->unit)
			return -ENOMEM;
		el->nr_units[UNIT_OURS] += span->nr_units;
	}
	return el->span ? 0 : -ENOMEM;
}

void units_exit(struct elastic *el)
{
	for (u32 i = 0; i < el->nr_spans; i++)
		kv_free(el->span[i].unit);
	kv_free(el->span);
}

/* ---- units and pageblocks ---- */

/* Units that have a byte of the pageblock: [*@from, returned). */
static u32 units_of(const struct kvmm_pool *pool, const struct elastic *el, const struct span *span,
		    u32 pb, u32 *from)
{
	u64 lo = span->base + pb_start(pool, pb) * span->stride;
	u64 hi = span->base + pb_end(pool, pb) * span->stride;

	kv_assert(pb < pool->pb.nr);
	*from = lo > span->first ? (lo - span->first) / el->unit_bytes : 0;
	if (hi <= span->first)
		return 0;
	return min((hi - 1 - span->first) / el->unit_bytes + 1, (u64)span->nr_units);
}

/* Pageblocks that have a byte of the unit: the first, and the last one in *@last. */
static u32 pageblocks_of(const struct kvmm_pool *pool, const struct elastic *el,
			 const struct span *span, u32 unit, u32 *last)
{
	u64 lo = span->first + unit * el->unit_bytes - span->base;
	u64 end = (lo + el->unit_bytes - 1) / span->stride;

	kv_assert(unit < span->nr_units);
	*last = min(end, pool->nr_blocks - 1ull) >> pool->pb.shift;
	return lo / span->stride >> pool->pb.shift;
}

/* No thread can touch it any more, nor is about to. */
static bool is_idle(const struct kvmm_pool *pool, const struct elastic *el, const struct span *span,
		    u32 unit)
{
	u32 last, pb = pageblocks_of(pool, el, span, unit, &last);

	for (; pb <= last; pb++)
		if (pool->pb.state[pb] != PB_AWAY || el->waiting[pb] || el->mark[pb] == MARK_BACK)
			return false;
	return true;
}

u64 units_of_leaving(const struct kvmm_pool *pool, const struct elastic *el, u32 pb)
{
	u64 nr = 0;

	kv_assert_held(&pool->compact_lock);
	for (u32 i = 0; i < el->nr_spans; i++) {
		u32 unit, end = units_of(pool, el, &el->span[i], pb, &unit);

		for (; unit < end; unit++) {
			u32 last, at = pageblocks_of(pool, el, &el->span[i], unit, &last);

			while (at <= last && (at == pb || pool->pb.state[at] != PB_HERE))
				at++;
			nr += at > last;
		}
	}
	return nr;
}

/* ---- giving back ---- */

static void set_unit(struct elastic *el, struct span *span, u32 unit, enum unit_state state)
{
	kv_assert(unit < span->nr_units);
	el->nr_units[span->unit[unit]]--;
	el->nr_units[state]++;
	span->unit[unit] = state;
}

static int area_shrink(struct kvmm_pool *pool, const struct elastic *el, u32 unit, u32 nr)
{
	kv_assert_held(&pool->compact_lock);
	return pool->parts.dev->area_shrink(pool->area, unit * el->unit_bytes,
					    nr * el->unit_bytes);
}

/* A second time says whether the driver is stuck with it, or was not reached. */
static int release_one(struct kvmm_pool *pool, struct elastic *el, struct span *span, u32 unit)
{
	int err = area_shrink(pool, el, unit, 1);

	kv_assert_held(&pool->compact_lock);
	if (err == -EIO)
		err = area_shrink(pool, el, unit, 1);
	if (err == -EUCLEAN)
		set_unit(el, span, unit, UNIT_STUCK);
	else if (!err)
		set_unit(el, span, unit, UNIT_GONE);
	el->nr_failed += err != 0;
	return err ? -EIO : 0;
}

/* As many of them as can be. */
static u32 release_run(struct kvmm_pool *pool, struct elastic *el, struct span *span, u32 unit,
		       u32 nr, int *err)
{
	bool all = !area_shrink(pool, el, unit, nr);
	u32 nr_gone = 0;

	kv_assert_held(&pool->compact_lock);
	for (u32 i = unit; i < unit + nr; i++) {
		int failed = 0;

		if (all)
			set_unit(el, span, i, UNIT_GONE);
		else
			failed = release_one(pool, el, span, i);
		nr_gone += !failed;
		*err = failed ? failed : *err;
	}
	return nr_gone;
}

u64 units_release(struct kvmm_pool *pool, struct elastic *el, u32 pb, int *err)
{
	u64 sum = 0;

	kv_assert_held(&pool->compact_lock);
	for (u32 i = 0; i < el->nr_spans; i++) {
		struct span *span = &el->span[i];
		u32 unit, end = units_of(pool, el, span, pb, &unit);

		for (u32 nr; unit < end; unit += max(nr, 1u)) {
			u32 at = unit;

			while (at < end && span->unit[at] == UNIT_OURS &&
			       is_idle(pool, el, span, at))
				at++;
			nr = at - unit;
			if (pool->area && nr)
				sum += release_run(pool, el, span, unit, nr, err);
			for (u32 k = 0; !pool->area && k < nr; k++, sum++)
				set_unit(el, span, unit + k, UNIT_UNTOLD);
		}
	}
	return sum;
}

/* ---- having again ---- */

static int regain_one(struct kvmm_pool *pool, struct elastic *el, struct span *span, u32 unit)
{
	int err;

	kv_assert_held(&pool->compact_lock);
	switch (span->unit[unit]) {
	case UNIT_OURS:
		return 0;
	case UNIT_UNTOLD:
		set_unit(el, span, unit, UNIT_OURS);
		return 1;
	case UNIT_STUCK:
		return -ENOSPC;
	default:
		break;
	}
	if (!pool->area)
		return -ENOSPC;		/* it is the caller's */
	err = pool->parts.dev->area_grow(pool->area, unit * el->unit_bytes, el->unit_bytes);
	el->nr_failed += err != 0;
	if (!err)
		set_unit(el, span, unit, UNIT_OURS);
	else if (err == -EUCLEAN)
		set_unit(el, span, unit, UNIT_STUCK);
	if (err)
		return err == -EUCLEAN ? -ENOSPC : err;
	return 1;
}

int units_regain(struct kvmm_pool *pool, struct elastic *el, u32 pb, u64 *sum)
{
	u64 nr = 0;
	int ret = 0;

	kv_assert_held(&pool->compact_lock);
	for (u32 i = 0; i < el->nr_spans && ret >= 0; i++) {
		u32 unit, end = units_of(pool, el, &el->span[i], pb, &unit);

		for (; unit < end && ret >= 0; unit++) {
			ret = regain_one(pool, el, &el->span[i], unit);
			nr += ret > 0;
		}
	}
	*sum += ret < 0 ? 0 : nr;
	if (ret >= 0)
		return 0;
	units_release(pool, el, pb, &(int){ 0 });
	return ret;
}

/* ---- memory of the caller ---- */

u32 units_tell(struct elastic *el, struct kvmm_mem_range *ranges, u32 room)
{
	u32 nr_ranges = 0;

	for (u32 i = 0; i < el->nr_spans && el->nr_units[UNIT_UNTOLD]; i++) {
		struct span *span = &el->span[i];

		for (u32 unit = 0, nr; unit < span->nr_units && nr_ranges < room;
		     unit += max(nr, 1u)) {
			u32 at = unit;

			while (at < span->nr_units && span->unit[at] == UNIT_UNTOLD)
				set_unit(el, span, at++, UNIT_GONE);
			nr = at - unit;
			if (nr)
				ranges[nr_ranges++] = (struct kvmm_mem_range){
					span->first + unit * el->unit_bytes, nr * el->unit_bytes };
		}
	}
	return nr_ranges;
}

static struct span *span_of_range(const struct elastic *el, const struct kvmm_mem_range *range)
{
	for (u32 i = 0; i < el->nr_spans; i++) {
		struct span *span = &el->span[i];
		u64 bytes = span->nr_units * el->unit_bytes, offset = range->addr - span->first;

		if (range->addr >= span->first && offset < bytes && range->bytes <= bytes - offset)
			return span;
	}
	return NULL;
}

static bool range_was_told(const struct elastic *el, const struct kvmm_mem_range *range)
{
	const struct span *span = span_of_range(el, range);
	u32 unit, nr = range->bytes / el->unit_bytes;

	if (!span || !nr || (range->addr | range->bytes) & (el->unit_bytes - 1))
		return false;
	unit = (range->addr - span->first) / el->unit_bytes;
	for (u32 i = 0; i < nr; i++)
		if (span->unit[unit + i] != UNIT_GONE)
			return false;
	return true;
}

int units_take_back(struct elastic *el, const struct kvmm_mem_range *ranges, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (!range_was_told(el, &ranges[i]))
			return -EINVAL;
	for (u32 i = 0; i < nr; i++) {
		struct span *span = span_of_range(el, &ranges[i]);
		u32 unit = (ranges[i].addr - span->first) / el->unit_bytes;

		/* He may be told of them again, if they are not used. */
		for (u32 k = 0; k < ranges[i].bytes / el->unit_bytes; k++)
			set_unit(el, span, unit + k, UNIT_UNTOLD);
	}
	return 0;
}

/* ---- checking ---- */

int units_check(const struct kvmm_pool *pool, const struct elastic *el)
{
	u64 nr[NR_UNIT_STATES] = { 0 };

	for (u32 i = 0; i < el->nr_spans; i++) {
		const struct span *span = &el->span[i];

		for (u32 unit = 0; unit < span->nr_units; unit++) {
			u8 state = span->unit[unit];

			if (state >= NR_UNIT_STATES ||
			    (state != UNIT_OURS && !is_idle(pool, el, span, unit)))
				return -EUCLEAN;
			nr[state]++;
		}
	}
	return memcmp(nr, el->nr_units, sizeof(nr)) ? -EUCLEAN : 0;
}
