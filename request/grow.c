// SPDX-License-Identifier: Apache-2.0
/*
 * Ranges that grow, a few blocks at a time.
 *
 * The ordinary case is a reservation with room: the last extent becomes longer, and the zone is not
 * asked. When it is used up, the free blocks behind it are reserved, twice as many as the last
 * time; where there are none, the range goes on elsewhere, with a run to grow into, if need be the
 * far half of another range's reservation. The hard part is that this may never fail, or cost
 * another owner anything, as long as enough blocks are free: so a range may have more extents than
 * an allocation gives, and a request that needs reserved blocks gets them.
 */
#include <pool/internal.h>

#define MIN_CHUNK	8u
#define FIRST_CHUNK	16u	/* of ranges that say that they will grow */
#define MAX_CHUNK	64u
#define MAX_EXPECTED	256u	/* most that is reserved on a caller's word */
#define MAX_PIECES	4u	/* extents that one call adds rather than have blocks moved */

/* ---- how much to reserve ---- */

/* For a range of @nr blocks, that is to have @expect. */
static u32 chunk_for(u32 nr, u32 expect, u32 last)
{
	if (expect > nr)
		return min(expect - nr, MAX_EXPECTED);
	return min(max(2 * last, MIN_CHUNK), MAX_CHUNK);
}

static void set_grew(struct kvmm_pool *pool, struct slot *slot, bool grew)
{
	kv_assert_held(&pool->lock);
	pool->count.range_attrs -= slot_attrs(slot);
	slot->flags = grew ? slot->flags | SLOT_GREW : slot->flags & ~SLOT_GREW;
	pool->count.range_attrs += slot_attrs(slot);
}

static void grow_clear(struct grow *grow, u32 expect)
{
	grow->chunk = grow->calls = grow->in_place = grow->elsewhere = 0;
	grow->expect = expect;
}

/* It has grown, or says that it will: its next reservation depends on that. */
static void grow_count(struct kvmm_pool *pool, struct slot *slot)
{
	kv_assert_held(&pool->lock);
	slot_grow(slot)->calls++;
	if (unlikely(!(slot->flags & SLOT_GREW)))
		set_grew(pool, slot, true);
}

/* Blocks to reserve for a range that grows by @nr; 0: it has not been seen to do so before. */
static u32 next_chunk(const struct kvmm_pool *pool, const struct slot *slot, u32 nr)
{
	kv_assert_held(&pool->lock);
	if (pool->rounds || !(slot->flags & SLOT_GREW))
		return 0;
	return chunk_for(slot->nr + nr, slot_grow(slot)->expect, slot_grow(slot)->chunk);
}

static void reserved_chunk(struct kvmm_pool *pool, struct slot *slot, u32 chunk, u32 start, u32 nr)
{
	struct grow *grow = slot_grow(slot);

	kv_assert_held(&pool->lock);
	if (!chunk)
		return;
	grow->chunk = min(chunk, MAX_CHUNK);
	grow->used = pool->grow.clock;
	reserve_extend(pool, grow, start, nr);
}

/* ---- pieces ---- */

/* A piece that lies behind the end is joined to it, unless the engine wants each back whole. */
static void append(struct kvmm_pool *pool, struct slot *slot, u32 index, u32 start, u32 nr)
{
	u32 last = slot->nr_ext - 1;
	struct kvmm_extent *ext = slot_ext(slot, last);

	kv_assert_held(&pool->lock);
	owner_fill(pool, start, nr, make_owner(OWNER_SLOT, index));
	slot_write_begin(slot);
	if (!pool->rounds && ext->start + ext->nr == start) {
		WRITE_ONCE(ext->nr, ext->nr + nr);
	} else {
		slot_set_ext(slot, last + 1, start, nr);
		WRITE_ONCE(slot->nr_ext, last + 2);
	}
	slot_write_end(slot);
	slot_resize(pool, slot, slot->nr + nr);
}

/* Behind the end: all @nr, or if @part as many as there are. Returns how many. */
static u32 grow_in_place(struct kvmm_pool *pool, struct slot *slot, u32 index, u32 nr, bool part)
{
	u32 have = slot_grow(slot)->res.nr, start = slot_end(slot);
	u32 chunk = 0, got = 0;

	kv_assert_held(&pool->lock);
	if (unlikely(have < nr)) {
		chunk = next_chunk(pool, slot, nr);
		got = kv_reserve_behind(pool->zone, start + have, part ? 1 : nr - have,
					nr - have + chunk);
		if (have + got < (part ? 1 : nr))
			return 0;
		nr = min(nr, have + got);
		reserved_chunk(pool, slot, chunk, start + have, got);
	}
	if (likely(have || chunk))
		reserve_use(pool, slot_grow(slot), nr);
	else
		kv_reserved_used(nr);
	append(pool, slot, index, start, nr);
	return nr;
}

/*
 * As a further extent: of a run to grow into, or of a short one, or if @part of the longest there
 * is. Returns how many blocks, 0, or -ENOMEM.
 */
static int grow_elsewhere(struct kvmm_pool *pool, struct slot *slot, u32 index, u32 nr, bool part)
{
	enum kv_placement place = range_placement(slot->flags);
	u32 chunk = next_chunk(pool, slot, nr), start, got = 0;

	kv_assert_held(&pool->lock);
	if (slot_reserve_ext(pool, slot, slot->nr_ext + 1))
		return -ENOMEM;
	if (chunk)
		got = kv_reserve_run(pool->zone, place, nr + MIN_CHUNK, nr + chunk, &start);
	if (!got && chunk && pool->grow.nr_reserved)
		got = reserve_steal_run(pool, slot_grow(slot), nr + MIN_CHUNK, nr + chunk, &start);
	if (!got)
		got = kv_reserve_run(pool->zone, place, part ? 1 : nr, nr + chunk, &start);
	if (!got)
		return 0;
	nr = min(nr, got);
	reserve_drop(pool, slot);
	kv_reserved_used(nr);
	append(pool, slot, index, start, nr);
	reserved_chunk(pool, slot, chunk, start + nr, got - nr);
	return nr;
}

/* Extents say how the blocks from number @from on came, so undoing finds the counted pieces. */
static void count_pieces(struct kvmm_pool *pool, struct slot *slot, u32 from, int sign)
{
	kv_assert_held(&pool->lock);
	for (u32 i = slot->nr_ext, at = slot->nr; i-- > 0 && at > from;) {
		const struct kvmm_extent *ext = slot_ext(slot, i);
		const struct kvmm_extent *elder = i ? slot_ext(slot, i - 1) : ext;
		bool in_place;

		at -= ext->nr;
		in_place = at < from || elder->start + elder->nr == ext->start;
		*(in_place ? &slot_grow(slot)->in_place : &slot_grow(slot)->elsewhere) += sign;
		*(in_place ? &pool->grow.in_place : &pool->grow.elsewhere) += sign;
	}
}

/* Enough blocks are free, but not in one run. Returns how many, or -ENOMEM. */
static int grow_scattered(struct kvmm_pool *pool, struct slot *slot, u32 index, u32 nr,
			  bool scatter)
{
	u32 most = nr, done = grow_in_place(pool, slot, index, nr, true);

	kv_assert_held(&pool->lock);
	if (!scatter)
		most = slot->nr_ext < KVMM_MAX_RUNS ?
		       min(MAX_PIECES, KVMM_MAX_RUNS - slot->nr_ext) : 1;
	while (done < nr && most--) {
		int got = grow_elsewhere(pool, slot, index, nr - done, true);

		if (got <= 0)
			return got ? got : (int)done;
		done += got;
	}
	return done;
}

static int __grow_slot_slow(struct kvmm_pool *pool, struct slot *slot, u32 index, u32 nr,
			    bool scatter)
{
	u32 before = slot->nr;
	int got;

	kv_assert_held(&pool->lock);
	got = grow_elsewhere(pool, slot, index, nr, false);
	if (got)
		return min(got, 0);
	pool_steal_shortfall(pool, nr);
	if (kv_zone_nr_free(pool->zone) < nr)
		return -ENOSPC;
	got = grow_scattered(pool, slot, index, nr, scatter);
	if (got == (int)nr)
		return 0;
	if (slot->nr > before)
		slot_cut_back(pool, slot, slot->nr - before);
	slot_grow(slot)->chunk = slot_grow(slot)->chunk_before;
	return got < 0 ? got : -ENOSPC;
}

/*
 * The ordinary growth: the last extent becomes longer, and the reservation shorter, of which a
 * block is left. What else is counted per piece is known: it is one, in place.
 */
static inline void grow_reserved(struct kvmm_pool *pool, struct slot *slot, u32 index, u32 nr)
{
	struct grow *grow = slot_grow(slot);
	u32 *length = &slot_ext(slot, slot->nr_ext - 1)->nr;

	kv_assert_held(&pool->lock);
	kv_assert(grow->res.start == slot_end(slot));
	if (likely(nr == 1))
		owner_fill_one(pool, grow->res.start, make_owner(OWNER_SLOT, index));
	else
		owner_fill(pool, grow->res.start, nr, make_owner(OWNER_SLOT, index));
	slot_write_begin(slot);
	WRITE_ONCE(*length, *length + nr);
	slot_write_end(slot);
	slot_resize(pool, slot, slot->nr + nr);
	reserve_use(pool, grow, nr);
	grow->in_place++;
	grow->calls++;
	pool->grow.in_place++;
}

int grow_slot(struct kvmm_pool *pool, struct slot *slot, u32 index, u32 nr, bool scatter)
{
	int err = 0;

	kv_assert_held(&pool->lock);
	if (likely(slot->flags & SLOT_GREW && slot_grow(slot)->res.nr > nr)) {
		slot_grow(slot)->chunk_before = slot_grow(slot)->chunk;
		grow_reserved(pool, slot, index, nr);
		goto out_count;
	}
	if (unlikely(!(slot->flags & SLOT_GREW))) {
		if (slot_reserve_side(pool, slot))
			return -ENOMEM;
		grow_clear(slot_grow(slot), 0);
	}
	slot_grow(slot)->chunk_before = slot_grow(slot)->chunk;
	if (unlikely(!grow_in_place(pool, slot, index, nr, false)))
		err = __grow_slot_slow(pool, slot, index, nr, scatter);
	if (unlikely(err))
		return err;
	count_pieces(pool, slot, slot->nr - nr, 1);
	grow_count(pool, slot);
out_count:
	pool->count.allocs++;
	pool->count.alloc_blocks += nr;
	return 0;
}

void grow_took(struct kvmm_pool *pool, const struct slot *slot)
{
	kv_assert_held(&pool->lock);
	quota_took(pool->order.quotas, slot->account);
	class_took(pool, slot->cls);
}

bool grow_undo(struct kvmm_pool *pool, struct slot *slot, u32 from, u32 nr)
{
	kv_assert_held(&pool->lock);
	if (slot->nr != from + nr)
		return false;
	count_pieces(pool, slot, from, -1);
	slot_cut_back(pool, slot, nr);
	slot_grow(slot)->chunk = slot_grow(slot)->chunk_before;
	if (!--slot_grow(slot)->calls)
		set_grew(pool, slot, false);
	pool->count.allocs--;
	pool->count.alloc_blocks -= nr;
	return true;
}

/* ---- a new range ---- */

int grow_alloc(struct kvmm_pool *pool, const struct kvmm_range_attr *attr, struct kvmm_extent *ext,
	       u32 *spare)
{
	enum kv_placement place = range_placement(attr->flags);
	u32 chunk = pool->rounds ? 0 : chunk_for(attr->nr, attr->expect, FIRST_CHUNK / 2);
	u32 start, got;
	const struct kvmm_extent *last;
	int nr_ext;

	kv_assert_held(&pool->lock);
	got = kv_reserve_run(pool->zone, place, attr->nr, attr->nr + chunk, &start);
	if (got) {
		kv_reserved_used(attr->nr);
		*spare = got - attr->nr;
		ext[0] = (struct kvmm_extent){ start, attr->nr };
		return 1;
	}
	nr_ext = alloc_runs(pool, attr, ext);
	if (nr_ext < 0)
		return nr_ext;
	last = &ext[nr_ext - 1];
	*spare = chunk ? kv_reserve_behind(pool->zone, last->start + last->nr, 1, chunk) : 0;
	return nr_ext;
}

void grow_adopt(struct kvmm_pool *pool, u32 index, u32 spare, u32 expect)
{
	struct slot *slot = slot_at(pool, index);

	kv_assert_held(&pool->lock);
	grow_clear(slot_grow(slot), expect);
	grow_count(pool, slot);
	reserved_chunk(pool, slot, spare, slot_end(slot), spare);
}

/* ---- one range ---- */

/* The range may be gone since the last try: it is looked up anew. */
int growth_take(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct range_growth *growth = container_of(ctx, struct range_growth, ctx);
	struct slot *slot;
	int err;

	kv_assert_held(&pool->lock);
	err = slot_find(pool, growth->range, &slot);
	if (unlikely(err))
		return err;
	ctx->flags = (slot->flags & GROWTH_FLAGS) | growth->in_batch;
	err = quota_admit(pool, slot->account, ctx);
	if (likely(!err))
		err = class_admit(pool, slot->cls, ctx->nr);
	if (unlikely(err))
		return err;
	ctx->prio = slot->prio;
	if (unlikely(!door_lets(pool, ctx, ctx->nr)))
		return -ENOSPC;
	growth->from = slot->nr;
	err = grow_slot(pool, slot, growth->range.index, ctx->nr, ctx->scatter);
	ctx->reaps |= slot->nr_ext > KVMM_MAX_RUNS;
	if (unlikely(err))
		return err;
	if (unlikely(pool->zero)) {	/* until growth_end() */
		slot->pins++;
		pool->count.range_pins++;
	}
	if (!growth->in_batch)
		grow_took(pool, slot);
	return 0;
}

/* The range is pinned, so extents do not go away or move while the lock is dropped. */
int growth_zero(struct kvmm_pool *pool, struct range_growth *growth)
{
	u32 end = growth->from + growth->ctx.nr;
	int err = 0;

	kv_assert_not_held(&pool->lock);
	for (u32 i = 0, at = 0, tenant; at < end && !err; i++) {
		struct kvmm_extent ext;
		struct slot *slot;
		u32 lo, hi;

		err = range_enter(pool, growth->range, &slot);
		if (err)
			return err;
		ext = *slot_ext(slot, i);
		tenant = slot->tenant;
		pool_leave(pool);
		lo = max(at, growth->from);
		hi = min(at + ext.nr, end);
		if (lo < hi)
			err = tenant_take_run(pool, (struct kvmm_extent){
						ext.start + lo - at, hi - lo }, tenant);
		at += ext.nr;
	}
	growth->zeroed = !err;
	return err;
}

int growth_end(struct kvmm_pool *pool, const struct range_growth *growth, bool undo)
{
	struct slot *slot;
	int err;

	kv_assert_not_held(&pool->lock);
	err = range_enter(pool, growth->range, &slot);
	if (err)
		return err;
	slot_unpin_own(pool, slot);
	if (undo && !grow_undo(pool, slot, growth->from, growth->ctx.nr) && !growth->zeroed)
		slot_lose(pool, slot);	/* the engine is not told of blocks that are not zero */
	pool_leave(pool);
	return 0;
}

/* KVMM_ALLOC_ZERO is not for new blocks; the pool's zero policy is. */
int grow_one(struct kvmm_pool *pool, kvmm_range_t range, u32 nr)
{
	struct range_growth growth = {
		.ctx = { .take = growth_take, .nr = nr, .scatters = true, .inside = true,
			 .grows = &range, .nr_grows = 1 },
		.range = range,
	};
	int err = alloc_enter(pool, &growth.ctx), failed;

	if (likely(err || !pool->zero))
		return err;
	failed = growth_zero(pool, &growth);
	err = growth_end(pool, &growth, failed);
	return err ? err : failed;
}
