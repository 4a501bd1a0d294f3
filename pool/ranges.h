/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the other files, from those about ranges: table, growth, reservations, sequences.
 *
 * Part of internal.h, and included by that alone.
 */
#ifndef POOL_RANGES_H
#define POOL_RANGES_H

/* ---- slot.c ---- */

static inline struct slot *slot_at(const struct kvmm_pool *pool, u32 index)
{
	return dir_slot(pool->slots, index);
}

/* Make sure that there is a free slot: 0 or -ENOMEM. Drops no lock. */
int slots_reserve(struct kvmm_pool *pool);
/* Take a free slot; slots_reserve() has said that there is one. */
u32 slot_take(struct kvmm_pool *pool);
/* The range is gone: its handles are stale from here on. */
void slot_put(struct kvmm_pool *pool, u32 index);
/* It has never been: no caller has seen a handle. */
void slot_unput(struct kvmm_pool *pool, u32 index);
/* Its handles are stale from here on; it has no owner yet. */
void slot_close(struct kvmm_pool *pool, struct slot *slot, struct pool_count *count);
/* NULL, or the slot of that number; no lock held, so it may change at any moment. */
struct slot *slot_peek(const struct kvmm_pool *pool, u32 index);
/* 0 and *@slot, -ESTALE or -EINVAL. A range of an arena is the pool's from here on. */
int slot_find(struct kvmm_pool *pool, kvmm_range_t range, struct slot **slot);

static inline kvmm_range_t slot_handle(const struct slot *slot, u32 index)
{
	return (kvmm_range_t){ index, slot->gen };
}

/* It has a side record from here on: 0 or -ENOMEM. ->lock held. */
int __slot_reserve_side(struct kvmm_pool *pool, struct slot *slot);

static inline int slot_reserve_side(struct kvmm_pool *pool, struct slot *slot)
{
	return likely(slot_side(slot) != NULL) ? 0 : __slot_reserve_side(pool, slot);
}

/* Room for @nr extents: 0 or -ENOMEM. The caller reaps. */
int slot_reserve_ext(struct kvmm_pool *pool, struct slot *slot, u32 nr);
/* All blocks of the slot have no owner from here on. */
void slot_free_blocks(struct kvmm_pool *pool, struct slot *slot);

/* Extents of a slot change between these two only. */
static inline void slot_write_begin(struct slot *slot)
{
	kv_seq_write_begin(&slot->version);
}

static inline void slot_write_end(struct slot *slot)
{
	kv_seq_write_end(&slot->version);
}

static inline void slot_set_ext(struct slot *slot, u32 i, u32 start, u32 nr)
{
	struct kvmm_extent *ext = slot_ext(slot, i);

	WRITE_ONCE(ext->start, start);
	WRITE_ONCE(ext->nr, nr);
}

/* The first ones, KVMM_MAX_RUNS at most, to @ext: how many. ->lock held. */
static inline u32 slot_copy_ext(struct slot *slot, struct kvmm_extent *ext)
{
	u32 nr = min(slot->nr_ext, (u16)KVMM_MAX_RUNS);

	for (u32 i = 0; i < nr; i++)
		ext[i] = *slot_ext(slot, i);
	return nr;
}

/* Attributes that a recount can only check by a sum. */
static inline u64 slot_attrs(const struct slot *slot)
{
	return slot->prio | (u64)slot->flags << 8 | (u64)slot->lost << 40 |
	       (u64)slot->cls << 44;
}

/* The content is gone; the range says so from here on. */
static inline void slot_lose(struct kvmm_pool *pool, struct slot *slot)
{
	kv_assert_held(&pool->lock);
	pool->count.range_attrs -= slot_attrs(slot);
	slot_write_begin(slot);
	WRITE_ONCE(slot->lost, 1);
	slot_write_end(slot);
	pool->count.range_attrs += slot_attrs(slot);
}

/* ---- pin.c; ->lock held ---- */

/* One pin more of @type: 0, -EOVERFLOW, -ENOMEM; pin_types_need() before. Less: 0, -EINVAL none. */
int slot_pin(struct kvmm_pool *pool, struct slot *slot, u32 type);
int slot_unpin(struct kvmm_pool *pool, struct slot *slot, u32 type);
/* So that there can be types other than KVMM_PIN_USER: 0, -ENOMEM, ... No lock held. */
int pin_types_need(struct kvmm_pool *pool, u32 type);

/* They are there, or NULL. */
static inline struct pin_types *pin_types_of(struct kvmm_pool *pool)
{
	/* Pairs with publish_types(): the counts are those of the pins that there were. */
	return smp_load_acquire(&pool->pin_types);
}

/* Those that are not of KVMM_PIN_USER. */
static inline u32 slot_typed_pins(struct kvmm_pool *pool, const struct slot *slot)
{
	return likely(!pool->pin_types) ? 0 : __slot_typed_pins(pool, slot);
}

/* Our own pin, which a caller that unpins too often may have taken. */
static inline void slot_unpin_own(struct kvmm_pool *pool, struct slot *slot)
{
	kv_assert_held(&pool->lock);
	slot_unpin(pool, slot, KVMM_PIN_USER);
}

/* One reference and one pin more, of our own. */
static inline void slot_hold(struct kvmm_pool *pool, struct slot *slot)
{
	kv_assert_held(&pool->lock);
	slot->refs++;
	slot->pins++;
	pool->count.range_refs++;
	pool->count.range_pins++;
}

static inline bool slot_is_pinned(const struct slot *slot)
{
	return slot->pins || slot->flags & KVMM_ALLOC_PINNED;
}

/* Blocks, from the first on, that are not written any more. */
static inline u32 slot_sealed(const struct slot *slot)
{
	return unlikely(slot->seals) ? slot_side(slot)->sealed : 0;
}

/* With a side record, unless @nr is 0. */
static inline void slot_seal(struct slot *slot, u32 nr)
{
	slot->seals = nr != 0;
	if (unlikely(nr))
		slot_side(slot)->sealed = nr;
}

static inline void slot_resize(struct kvmm_pool *pool, struct slot *slot, u32 nr)
{
	kv_assert_held(&pool->lock);
	pool->count.range_blocks += nr - (u64)slot->nr;
	quota_charge_range(pool->order.quotas, slot->account, nr - (s64)slot->nr);
	class_charge(pool->order.classes, slot->cls, nr - (s64)slot->nr);
	slot->nr = nr;
	slot_seal(slot, min(slot_sealed(slot), nr));
}

static inline u32 slot_end(struct slot *slot)
{
	const struct kvmm_extent *last = slot_ext(slot, slot->nr_ext - 1);

	return last->start + last->nr;
}

/* ---- request/shape.c ---- */

/* Fewer blocks than it has, from the end. */
void slot_cut_back(struct kvmm_pool *pool, struct slot *slot, u32 nr);

/* ---- where a range goes ---- */

static inline enum kv_placement range_placement(u32 flags)
{
	if (flags & KVMM_ALLOC_PINNED)
		return KV_PLACE_PINNED;
	return flags & KVMM_ALLOC_TOPDOWN ? KV_PLACE_TOPDOWN : KV_PLACE_MOVABLE;
}

/* ---- reserve.c ---- */

void __reserve_drop(struct kvmm_pool *pool, struct grow *grow);
/* Blocks are about to be moved. ->lock held. */
void reserve_drop_all(struct kvmm_pool *pool);
/*
 * Give at least @nr reserved blocks back to the zone, or all that there are: those of the range
 * that grew longest ago first. Returns how many. ->lock held.
 */
u32 pool_steal_reserved(struct kvmm_pool *pool, u32 nr);
int __reserve_alloc_runs(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
			 struct kvmm_extent *ext, int nr_ext);
void reserve_extend(struct kvmm_pool *pool, struct grow *grow, u32 start, u32 nr);
void reserve_use(struct kvmm_pool *pool, struct grow *grow, u32 nr);
u32 reserve_steal_run(struct kvmm_pool *pool, const struct grow *for_whom, u32 nr, u32 most,
		      u32 *start);

/* Blocks that are free though the zone does not say so. ->lock held. */
static inline u32 pool_nr_reserved(const struct kvmm_pool *pool)
{
	return pool->grow.nr_reserved;
}

/* Free blocks, wherever they are. ->lock held. */
static inline u32 pool_nr_free(struct kvmm_pool *pool)
{
	return kv_zone_nr_free(pool->zone) + pool_nr_reserved(pool);
}

/* So that the zone has @nr free blocks, if stealing can do it: else nothing is. */
static inline void pool_steal_shortfall(struct kvmm_pool *pool, u32 nr)
{
	u32 nr_free;

	kv_assert_held(&pool->lock);
	if (likely(!pool->grow.nr_reserved))
		return;
	nr_free = kv_zone_nr_free(pool->zone);
	if (nr_free < nr && nr <= pool_nr_free(pool))
		pool_steal_reserved(pool, nr - nr_free);
}

/* kv_alloc_runs() for @attr; where it scatters or fails, reserved blocks go. */
static inline int alloc_runs(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
			     struct kvmm_extent *ext)
{
	int nr_ext = kv_alloc_runs(pool->zone, range_placement(attr->flags), attr->nr,
				   attr->max_runs, ext);

	kv_assert_held(&pool->lock);
	if (likely(nr_ext == 1 || !pool->grow.nr_reserved))
		return nr_ext;
	return __reserve_alloc_runs(pool, attr, ext, nr_ext);
}

/* The end of the slot's range is another one, or none, from here on. */
static inline void reserve_drop(struct kvmm_pool *pool, struct slot *slot)
{
	if (unlikely(slot->flags & SLOT_GREW && slot_grow(slot)->res.nr))
		__reserve_drop(pool, slot_grow(slot));
}

/* ---- request/grow.c ---- */

/* kv_alloc_runs() for a range that will grow: @spare blocks behind its end are set aside. */
int grow_alloc(struct kvmm_pool *pool, const struct kvmm_range_attr *attr, struct kvmm_extent *ext,
	       u32 *spare);
/* They are the new range's. */
void grow_adopt(struct kvmm_pool *pool, u32 index, u32 spare, u32 expect);

/* By @nr blocks, in one piece or a few, with @scatter in any number: 0, -ENOSPC or -ENOMEM. */
int grow_slot(struct kvmm_pool *pool, struct slot *slot, u32 index, u32 nr, bool scatter);
/* It stays: limits and classes hear of it. */
void grow_took(struct kvmm_pool *pool, const struct slot *slot);
/* In vain: undo @nr blocks from number @from on. False: another owner has added some behind. */
bool grow_undo(struct kvmm_pool *pool, struct slot *slot, u32 from, u32 nr);

static inline u32 grow_bucket(u32 nr_ext)
{
	return min(kv_order(nr_ext), GROW_HIST - 1);
}

/* A range of so many extents goes. */
static inline void grow_count_end(struct kvmm_pool *pool, const struct slot *slot)
{
	struct pool_grow *grow = &pool->grow;
	u32 nr_ext = slot->nr_ext;

	kv_assert_held(&pool->lock);
	grow->finished_ext += nr_ext;
	grow->finished[grow_bucket(nr_ext)]++;
	if (unlikely(nr_ext > grow->finished_max))
		grow->finished_max = nr_ext;
}

/* ---- seq.c ---- */

/* Of a range with a sequence. The table's guard is held. */
void __seq_add(struct kvmm_pool *pool, struct seq_table *seqs, struct slot *slot, u32 index);
void __seq_del(struct kvmm_pool *pool, struct seq_table *seqs, const struct slot *slot);

/* Slot number @index. Nothing for a range without a sequence. */
static inline void seq_add(struct kvmm_pool *pool, struct seq_table *seqs, struct slot *slot,
			   u32 index)
{
	if (slot->seq)
		__seq_add(pool, seqs, slot, index);
}

static inline void seq_del(struct kvmm_pool *pool, struct seq_table *seqs, const struct slot *slot)
{
	if (slot->seq)
		__seq_del(pool, seqs, slot);
}

/* First, then next slot of sequence @seq, or KV_NONE. */
u32 seq_first(struct kvmm_pool *pool, u64 seq);
u32 seq_next(const struct kvmm_pool *pool, u32 index);
/* Chains by a table of @nr buckets; takes @bucket and returns the old one. */
u32 *seq_rehash(struct kvmm_pool *pool, u32 *bucket, u32 nr);
u32 seq_bucket(const struct kvmm_pool *pool, const struct seq_table *seqs, u64 seq);
int seqs_check(const struct kvmm_pool *pool, const struct seq_table *seqs, u32 nr, u32 arena);

/* ---- range.c ---- */

static inline void count_slot(struct pool_count *count, const struct slot *slot)
{
	count->nr_ranges++;
	count->range_blocks += slot->nr;
	count->range_refs += slot->refs;
	count->range_pins += slot->pins;
	count->range_seqs += slot->seq;
	count->range_attrs += slot_attrs(slot);
}

static inline void uncount_slot(struct pool_count *count, const struct slot *slot)
{
	count->nr_ranges--;
	count->range_blocks -= slot->nr;
	count->range_refs -= slot->refs;
	count->range_pins -= slot->pins;
	count->range_seqs -= slot->seq;
	count->range_attrs -= slot_attrs(slot);
}

/* A new range in a free slot; more extents than one need its side record. */
static inline void slot_fill(struct slot *slot, const struct kvmm_range_attr *attr,
			     const struct kvmm_extent *ext, u32 nr_ext, u32 account)
{
	slot->refs = 1;
	slot->tick = kv_coarse_ns() >> TICK_SHIFT;
	slot->pins = 0;
	slot->seq = attr->seq;
	slot->tenant = attr->tenant;
	slot->account = account;
	slot->prio = attr->prio;
	slot->cls = attr->cls;
	slot->flags = attr->flags;
	slot->nr = attr->nr;
	slot->seals = 0;
	slot_write_begin(slot);
	for (u32 i = 0; i < nr_ext; i++)
		slot_set_ext(slot, i, ext[i].start, ext[i].nr);
	WRITE_ONCE(slot->nr_ext, nr_ext);
	slot_write_end(slot);
}

/* pool_enter() and slot_find(); on error the lock is not held. */
int range_enter(struct kvmm_pool *pool, kvmm_range_t range, struct slot **slot);
/* No caller has that range yet: pinned until range_show(), or as if it had never been. */
void range_hide(struct kvmm_pool *pool, kvmm_range_t range);
void range_show(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, bool keep_pin);
void range_untake(struct kvmm_pool *pool, kvmm_range_t range);
/* One less, which last_put_is_barred() does not bar. ->lock held, for both. */
void put_slot(struct kvmm_pool *pool, struct slot *slot, u32 index);

static inline bool last_put_is_barred(const struct slot *slot)
{
	return slot->refs == 1 && slot->pins;
}

/* The last reference of a range without pins is dropped. ->lock held. */
void range_del(struct kvmm_pool *pool, u32 index);

/* ---- request/range_alloc.c ---- */

/* A new range of @attr's kind over @ext, charged to @account; there is a free slot. Its handle. */
kvmm_range_t range_add(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
		       const struct kvmm_extent *ext, u32 nr_ext, u32 account);
/* 0 and defaults filled in, or -EINVAL. */
int range_check_attr(const struct kvmm_pool *pool, struct kvmm_range_attr *attr);

struct range_request {
	struct alloc_ctx	ctx;
	struct kvmm_range_attr	attr;
	kvmm_range_t		range;	/* out */
};

/* ->take() of it: 0; -ENOSPC, -EDQUOT; -ENOMEM no memory for a slot. ->lock held. */
int range_take(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/* Its content, and then one pin less: 0; or -EIO, and it is freed. No lock held. */
int range_zero(struct kvmm_pool *pool, kvmm_range_t range);

#endif /* POOL_RANGES_H */
