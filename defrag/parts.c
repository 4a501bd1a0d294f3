// SPDX-License-Identifier: Apache-2.0
/* Pieces of owners; see parts.h. */
#include "parts.h"

void parts_lay_out(struct parts *parts, const struct kv_plan_req *req, char *base, size_t *bytes)
{
	size_t nr = req->nr_items;

	parts->req = req;
	parts->part = scratch_take(base, bytes, nr, sizeof(*parts->part));
	parts->spare = scratch_take(base, bytes, nr, sizeof(*parts->spare));
	parts->place = scratch_take(base, bytes, nr, sizeof(*parts->place));
	parts->piece = scratch_take(base, bytes, nr, sizeof(*parts->piece));
}

void parts_sort(struct parts *parts, u32 owner)
{
	const struct kv_plan_req *req = parts->req;
	struct piece *piece = NULL;

	parts->nr = 0;
	for (u32 i = 0; i < req->nr_items; i++)
		if (req->items[i].owner && (!owner || req->items[i].owner == owner))
			parts->part[parts->nr++] = (u64)req->items[i].part << 32 | i;
	plan_sort(parts->part, parts->spare, parts->nr);
	for (u32 k = 0; k < parts->nr && !owner; k++)
		parts->part[k] = (u64)part_item(parts, k)->owner << 32 | (u32)parts->part[k];
	if (!owner)
		plan_sort(parts->part, parts->spare, parts->nr);
	parts->nr_pieces = 0;
	for (u32 k = 0; k < parts->nr; k++) {
		const struct kv_item *item = part_item(parts, k);

		parts->place[k] = item->start;
		if (piece && piece->owner == item->owner &&
		    piece->start + piece->nr == item->start) {
			piece->end = k + 1;
			piece->nr += item->nr;
			piece->movable &= item->movable;
			continue;
		}
		piece = &parts->piece[parts->nr_pieces++];
		*piece = (struct piece){ item->owner, k, k + 1, item->start, item->nr,
					 item->movable, false };
	}
}

void piece_move(const struct parts *parts, struct kv_plan *plan, const struct piece *piece, u32 dst)
{
	kv_assert(piece->movable && dst + piece->nr <= parts->req->nr_blocks);
	for (u32 k = piece->first; k < piece->end; k++) {
		plan_move(parts->req, plan, part_item(parts, k), dst);
		parts->place[k] = dst;
		dst += part_item(parts, k)->nr;
	}
}

u32 parts_nr_pieces(const struct parts *parts)
{
	u32 nr = 0;

	kv_assert(parts->nr_pieces <= parts->nr);
	for (u32 k = 0; k < parts->nr; k++) {
		const struct kv_item *item = part_item(parts, k);

		nr += k + 1 == parts->nr || part_item(parts, k + 1)->owner != item->owner ||
		      parts->place[k] + item->nr != parts->place[k + 1];
	}
	return nr;
}
