// SPDX-License-Identifier: Apache-2.0

#include <kv/bits.h>

#include "tests/support/test.h"
#include "tests/support/zone_model.h"

enum zone_kind zone_kind(const char *engine)
{
	if (!strcmp(engine, "first"))
		return ZONE_FIRST;
	if (!strcmp(engine, "lists"))
		return ZONE_ANY_FIT;
	if (!strcmp(engine, "buddy-trim"))
		return ZONE_TRIM;
	return strcmp(engine, "buddy") ? ZONE_BEST : ZONE_BUDDY;
}

static bool is_buddy(const struct zone_model *model)
{
	return model->kind == ZONE_TRIM || model->kind == ZONE_BUDDY;
}

/* Two words more than needed: shifts may look past the end. */
void zone_model_init(struct zone_model *model, enum zone_kind kind, u32 nr)
{
	*model = (struct zone_model){ .kind = kind, .nr = nr };
	model->held = calloc(nr, 1);
	model->free = calloc(KV_WORDS(nr) + 2, sizeof(u64));
	cr_assert(model->held && model->free);
	for (u32 i = 0; i < nr; i++)
		model->free[i / 64] |= BIT64(i % 64);
}

void zone_model_exit(struct zone_model *model)
{
	free(model->held);
	free(model->free);
}

bool zone_model_is_free(const struct zone_model *model, u32 block)
{
	return model->free[block / 64] >> block % 64 & 1;
}

/* 64 blocks from @block on, as bits. */
static u64 window_at(const struct zone_model *model, u32 block)
{
	u64 low = model->free[block / 64] >> block % 64;

	return block % 64 ? low | model->free[block / 64 + 1] << (64 - block % 64) : low;
}

bool zone_model_all_free(const struct zone_model *model, u32 start, u32 nr)
{
	for (; nr > 64; nr -= 64, start += 64)
		if (~window_at(model, start))
			return false;
	return !(~window_at(model, start) & kv_mask64(0, nr));
}

bool zone_model_none_free(const struct zone_model *model, u32 start, u32 nr)
{
	for (; nr > 64; nr -= 64, start += 64)
		if (window_at(model, start))
			return false;
	return !(window_at(model, start) & kv_mask64(0, nr));
}

/* First block from @at on that is free, or not; nr if there is none. */
static u32 skip(const struct zone_model *model, u32 at, bool is_free)
{
	while (at < model->nr) {
		u64 hits = window_at(model, at);

		if (!is_free)
			hits = ~hits;
		if (hits)
			return min(at + kv_lowest64(hits), model->nr);
		at += 64;
	}
	return model->nr;
}

/* Free runs in order of address, the first of which begins at or after @from. */
static struct kvmm_extent run_from(const struct zone_model *model, u32 from)
{
	u32 start = skip(model, from, true);

	return (struct kvmm_extent){ start, skip(model, start, false) - start };
}

struct kvmm_extent zone_model_next(const struct zone_model *model, u32 from)
{
	while (from && from < model->nr && zone_model_is_free(model, from) &&
	       zone_model_is_free(model, from - 1))
		from--;
	return run_from(model, from);
}

/* The free buddy block at @at, which must be the first of one. */
static u32 buddy_size(const struct zone_model *model, u32 at)
{
	u32 size = 1;

	while (!(at & (2 * size - 1)) && at + 2 * size <= model->nr &&
	       zone_model_all_free(model, at, 2 * size))
		size *= 2;
	return size;
}

/* Pieces in order of address; a run's first buddy block is at its start, the others follow. */
static struct kvmm_extent piece_from(const struct zone_model *model, u32 from)
{
	struct kvmm_extent piece = run_from(model, from);

	if (piece.nr && is_buddy(model))
		piece.nr = buddy_size(model, piece.start);
	return piece;
}

#define for_each_piece(piece, model)							\
	for (piece = piece_from(model, 0); piece.nr;					\
	     piece = piece_from(model, piece.start + piece.nr))

/* The request as the engine's kind sees it. */
static struct kv_zone_req effective(const struct zone_model *model,
				      const struct kv_zone_req *req)
{
	struct kv_zone_req eff = *req;

	if (model->kind == ZONE_FIRST)
		eff.fit = KV_FIT_FIRST;
	if (is_buddy(model))
		eff.align = max(eff.align, BIT(kv_order(eff.nr)));
	if (model->kind == ZONE_BUDDY)
		eff.nr = BIT(kv_order(eff.nr));
	return eff;
}

/* First, or with topdown last, place inside the piece. */
static u32 place_in(struct kvmm_extent piece, const struct kv_zone_req *req)
{
	s64 lo = max(piece.start, req->lo), hi = min(piece.start + piece.nr, req->hi);
	s64 start, align = req->align;

	if (req->topdown)
		start = (hi - (s64)req->nr) / align * align;
	else
		start = (lo + align - 1) / align * align;
	return hi - (s64)req->nr >= lo && start >= lo && start + req->nr <= hi ? start : KV_NONE;
}

u32 zone_model_place(const struct zone_model *model, const struct kv_zone_req *asked)
{
	struct kv_zone_req req = effective(model, asked);
	u32 need = is_buddy(model) ? BIT(kv_order(req.nr)) : req.nr;
	u32 best = KV_NONE, best_len = KV_NONE;
	struct kvmm_extent piece;

	for_each_piece(piece, model) {
		u32 len = req.fit == KV_FIT_FIRST ? 0 : piece.nr, start;

		/* Pieces ascend: a later one wins only if it is shorter, or as short from the top. */
		if (piece.nr < need || len > best_len || (len == best_len && !req.topdown))
			continue;
		start = place_in(piece, &req);
		if (start == KV_NONE)
			continue;
		best = start;
		best_len = len;
		if (!len && !req.topdown)
			break;
	}
	return best;
}

bool zone_model_serves(const struct zone_model *model, const struct kv_zone_req *asked, u32 start)
{
	struct kv_zone_req req = effective(model, asked);

	return start >= req.lo && (u64)start + req.nr <= req.hi && !(start & (req.align - 1)) &&
	       zone_model_all_free(model, start, req.nr);
}

static void change(struct zone_model *model, u32 start, u32 nr, bool to_free)
{
	for (u32 at = start, end = start + nr; at < end;) {
		u32 word = at / 64, upto = min(end, (word + 1) * 64);
		u64 mask = kv_mask64(at % 64, upto - word * 64);

		model->free[word] = to_free ? model->free[word] | mask : model->free[word] & ~mask;
		at = upto;
	}
}

void zone_model_take(struct zone_model *model, u32 start, u32 nr)
{
	if (model->kind == ZONE_BUDDY) {
		model->held[start] = kv_order(nr) + 1;
		nr = BIT(kv_order(nr));
	}
	change(model, start, nr, false);
}

void zone_model_give(struct zone_model *model, u32 start, u32 nr)
{
	if (model->kind == ZONE_BUDDY) {
		model->held[start] = 0;
		nr = BIT(kv_order(nr));
	}
	change(model, start, nr, true);
}

int zone_model_can_take_at(const struct zone_model *model, u32 start, u32 nr)
{
	if (model->kind == ZONE_BUDDY && (!kv_is_pow2(nr) || start & (nr - 1)))
		return -EOPNOTSUPP;
	return zone_model_all_free(model, start, nr) ? 0 : -EBUSY;
}

int zone_model_can_give(const struct zone_model *model, u32 start, u32 nr)
{
	if (model->kind == ZONE_BUDDY)
		return model->held[start] == kv_order(nr) + 1 ? 0 : -EINVAL;
	return zone_model_none_free(model, start, nr) ? 0 : -EINVAL;
}

struct zone_model_counts zone_model_count(const struct zone_model *model, u32 nr)
{
	u32 need = is_buddy(model) ? BIT(kv_order(nr)) : nr;
	struct zone_model_counts counts = { 0 };
	struct kvmm_extent piece;

	for_each_piece(piece, model) {
		counts.nr_free += piece.nr;
		counts.nr_pieces++;
		counts.largest = max(counts.largest, piece.nr);
		if (piece.nr < need)
			continue;
		counts.usable += piece.nr;
		counts.nr_usable++;
	}
	return counts;
}

unsigned int zone_model_longest(const struct zone_model *model, u32 *len, unsigned int k)
{
	unsigned int have = 0;
	struct kvmm_extent piece;

	for_each_piece(piece, model) {
		unsigned int i = have < k ? have++ : k;

		/* Sinks into place from the end; what falls off is the shortest. */
		for (; i > 0 && len[i - 1] < piece.nr; i--)
			if (i < k)
				len[i] = len[i - 1];
		if (i < k)
			len[i] = piece.nr;
	}
	return have;
}

static bool counts_agree(const struct zone_model *model, struct kv_zone *zone)
{
	struct zone_model_counts counts = zone_model_count(model, 1);
	struct kv_zone_stat stat;

	kv_zone_get_stat(zone, &stat);
	return stat.nr_blocks == model->nr &&
	       stat.nr_free == counts.nr_free && stat.nr_runs == counts.nr_pieces &&
	       stat.largest == counts.largest;
}

bool zone_model_agrees(const struct zone_model *model, struct kv_zone *zone)
{
	struct kvmm_extent want, got;
	u32 at = 0;

	do {
		want = run_from(model, at);
		if (kv_zone_next_free(zone, at, &got))
			got = (struct kvmm_extent){ model->nr, 0 };
		if (got.start != want.start || got.nr != want.nr)
			return false;
		at = want.start + want.nr;
	} while (want.nr);
	return counts_agree(model, zone) && !kv_zone_check(zone);
}
