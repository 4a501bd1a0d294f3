// SPDX-License-Identifier: Apache-2.0
/* The taker's record of one migration. */
#include <string.h>

#include <kv/mem.h>

#include "intake.h"
#include "job.h"

static int alloc_tables(struct intake *intake)
{
	u32 nr = intake->offer.nr, nr_refs = max(intake->offer.nr_refs, 1u);

	kv_free(intake->to);
	kv_free(intake->want);
	kv_free(intake->have);
	if (!intake->name)
		intake->name = kv_alloc_array(nr_refs, sizeof(*intake->name));
	intake->sum = longer_array(intake->sum, intake->nr_sums, nr, sizeof(*intake->sum));
	intake->to = kv_alloc_array(nr, sizeof(*intake->to));
	intake->want = kv_alloc_array(nr, sizeof(*intake->want));
	intake->have = kv_alloc_array(min(sum_portion(intake->store.view.block_bytes), nr),
				      sizeof(*intake->have));
	if (!intake->name || !intake->sum || !intake->to || !intake->want || !intake->have)
		return -ENOMEM;
	return intake->store.list.block ? 0 :
	       store_init(&intake->store, intake->offer.nr_refs, intake->name,
			  intake->offer.nr_ranges, intake->kind);
}

int intake_make(struct kvmm_pool *pool, const struct wire_msg *msg, struct intake **result)
{
	struct intake *intake = kv_alloc(sizeof(*intake));
	int err;

	if (!intake)
		return -ENOMEM;
	intake->id = msg->head.id;
	intake->gen = msg->head.gen;
	err = wire_get_offer(msg, &intake->offer, intake->kind);
	intake->store.pool = pool;
	kv_pool_view(pool, &intake->store.view);
	if (!err && intake->offer.nr_refs && !intake->store.view.caches)
		err = -EOPNOTSUPP;
	intake->store.flags = intake->offer.flags;
	intake->store.max_runs = intake->offer.max_runs;
	if (!err)
		err = alloc_tables(intake);
	if (err)
		intake_free(intake);
	else
		*result = intake;
	return err;
}

int intake_more(struct intake *intake, const struct wire_msg *msg)
{
	struct kv_range_kind kind[KVMM_MIGRATE_MAX_RANGES];
	struct wire_offer offer;
	const struct wire_offer *before = &intake->offer;

	if (intake->state != INTAKE_CHECKED || wire_get_offer(msg, &offer, kind) ||
	    !(offer.flags & KVMM_MIGRATE_PRECOPY) || offer.flags != before->flags ||
	    offer.nr_ranges != before->nr_ranges || offer.nr <= before->nr)
		return -EPROTO;
	for (u32 i = 0; i < offer.nr_ranges; i++)
		if (kind[i].nr < intake->kind[i].nr || kind[i].listed < intake->kind[i].listed)
			return -EPROTO;
	memcpy(intake->kind, kind, offer.nr_ranges * sizeof(*kind));
	intake->offer = offer;
	intake->has_fence = false;
	intake->state = INTAKE_GATHER;
	return alloc_tables(intake);
}

bool intake_is_last(const struct intake *intake)
{
	for (u32 i = 0; i < intake->offer.nr_ranges; i++)
		if (intake->kind[i].listed < intake->kind[i].nr)
			return false;
	return true;
}

void intake_free(struct intake *intake)
{
	if (!intake)
		return;
	store_exit(&intake->store);
	kv_free(intake->name);
	kv_free(intake->sum);
	kv_free(intake->to);
	kv_free(intake->want);
	kv_free(intake->have);
	kv_free(intake);
}

/* ---- gathering ---- */

/* The next items of the table that the message is about. */
int intake_part(struct intake *intake, const struct wire_msg *msg)
{
	bool is_names = msg->head.type == WIRE_NAMES;
	u32 size = is_names ? sizeof(*intake->name) : sizeof(*intake->sum);
	u32 total = is_names ? intake->offer.nr_refs : intake->offer.nr;
	u32 *nr = is_names ? &intake->nr_names : &intake->nr_sums;
	u8 *table = is_names ? (u8 *)intake->name : (u8 *)intake->sum;
	struct wire_part part;
	const u8 *items;

	if (wire_get_part(msg, size, &part, &items) || part.first != *nr || part.nr > total - *nr)
		return -EPROTO;
	memcpy(table + (u64)*nr * size, items, (u64)part.nr * size);
	*nr += part.nr;
	return 0;
}

bool intake_is_whole(const struct intake *intake)
{
	return intake->nr_names == intake->offer.nr_refs && intake->nr_sums == intake->offer.nr;
}

bool intake_is_same(const struct intake *a, const struct intake *b)
{
	const struct wire_offer *offer = &a->offer;

	return wire_id_equal(&a->id, &b->id) && !memcmp(offer, &b->offer, sizeof(*offer)) &&
	       !memcmp(a->kind, b->kind, offer->nr_ranges * sizeof(*a->kind)) &&
	       !memcmp(a->name, b->name, offer->nr_refs * sizeof(*a->name)) &&
	       !memcmp(a->sum, b->sum, offer->nr * sizeof(*a->sum));
}

/* ---- reserving ---- */

/* The work that streams were given before the blocks became ours has ended. */
int intake_settle(struct intake *intake)
{
	struct store *store = &intake->store;
	int err;

	if (store->state == STORE_EMPTY || store->list.nr < intake->offer.nr) {
		err = store->state == STORE_EMPTY ? store_reserve(store) : store_list(store);
		intake->nr = 0;
		if (err)
			return err;
		for_each_absent(store, i) {
			intake->want[intake->nr] = intake->sum[i];
			intake->to[intake->nr++] = store->list.block[i];
		}
	}
	err = quiet_poll(store->pool, &store->view, &intake->fence, &intake->has_fence);
	if (!err)
		intake->state = INTAKE_POUR;
	return err;
}

/* ---- checking ---- */

int intake_check(struct intake *intake)
{
	const struct kv_pool_view *view = &intake->store.view;
	struct end end = end_of(view, intake->to);
	u32 at = intake->nr_checked;
	u32 nr = min(intake->nr - at, min(sum_portion(view->block_bytes), intake->offer.nr));
	int err = sum_list(&end, at, nr, intake->have);

	if (err)
		return err;
	if (memcmp(intake->have, intake->want + at, nr * sizeof(*intake->have)))
		return -EBADMSG;
	intake->nr_checked += nr;
	if (intake->nr_checked < intake->nr)
		return -EINPROGRESS;
	intake->state = INTAKE_CHECKED;
	return 0;
}
