// SPDX-License-Identifier: Apache-2.0
/*
 * The source of a migration: found, held, given back.
 *
 * A cached block is held by a pin, which is a reference as well: it stays where it is and keeps its
 * name, and is a hit for all requests meanwhile. A range is held by a reference and a pin; only one
 * that no other request shares may leave, since the others could not be told. When the source is
 * given back, blocks lose their names first and the pins are dropped then, so that there is no
 * moment at which a block could be found that is about to go.
 */
#include <string.h>

#include <kv/err.h>
#include <kv/mem.h>
#include <kvmm/ext/inspect.h>

#include "goods.h"
#include "store.h"

/* ---- cached blocks ---- */

static int alloc_refs(struct goods *goods, u32 nr)
{
	goods->ref = kv_alloc_array(max(nr, 1u), sizeof(*goods->ref));
	goods->name = kv_alloc_array(max(nr, 1u), sizeof(*goods->name));
	return goods->ref && goods->name ? 0 : -ENOMEM;
}

/* References on all of them, or on none. */
static int upgrade_refs(struct goods *goods, kvmm_ref_t *refs)
{
	u32 nr_good = 0;
	int nr = kvmm_upgrade_many(goods->pool, (const kvmm_weak_t *)goods->ref, goods->nr_refs,
				   refs);

	if (nr < 0 || nr == goods->nr_refs)
		return min(nr, 0);
	for (u32 i = 0; i < goods->nr_refs; i++)
		if (refs[i].gen)
			refs[nr_good++] = refs[i];
	kvmm_put_many(goods->pool, refs, nr_good);
	return -ESTALE;
}

static_assert(sizeof(kvmm_weak_t) == sizeof(kvmm_ref_t) &&
	      offsetof(kvmm_weak_t, gen) == offsetof(kvmm_ref_t, gen), "one layout");

static int hold_refs(struct goods *goods)
{
	kvmm_ref_t *refs;
	int err;

	if (!goods->nr_refs)
		return 0;
	refs = kv_alloc_array(goods->nr_refs, sizeof(*refs));
	if (!refs)
		return -ENOMEM;
	err = upgrade_refs(goods, refs);
	if (!err) {
		err = kvmm_pin_many(goods->pool, refs, goods->nr_refs);
		kvmm_put_many(goods->pool, refs, goods->nr_refs);
	}
	kv_free(refs);
	if (err)
		return err;
	err = kvmm_blocks_of_refs(goods->pool, goods->ref, goods->nr_refs, goods->list.block);
	if (err)
		kvmm_unpin_many(goods->pool, goods->ref, goods->nr_refs);
	else
		kv_pool_names(goods->pool, goods->ref, goods->nr_refs, goods->name);
	return err;
}

static void forget_idle(struct goods *goods)
{
	for (u32 i = 0; i < goods->nr_refs; i++) {
		struct kvmm_block_info info;

		if (!kvmm_block_get_info(goods->pool, goods->list.block[i], &info) &&
		    info.refs == 1)
			kvmm_evict_blocks(goods->pool, &goods->list.block[i], 1);
	}
}

static void end_refs(struct goods *goods)
{
	if (!goods->nr_refs)
		return;
	if (goods->flags & KVMM_MIGRATE_IDLE_ONLY)
		forget_idle(goods);
	else
		kvmm_evict_blocks(goods->pool, goods->list.block, goods->nr_refs);
	kvmm_unpin_many(goods->pool, goods->ref, goods->nr_refs);
}

/* ---- ranges ---- */

static void drop_ranges(struct goods *goods, u32 nr)
{
	while (nr)
		kv_pool_drop_range(goods->pool, goods->range[--nr]);
}

/* Each must be the same as when it was first held: the other side knows of that. */
static int hold_ranges(struct goods *goods)
{
	bool precopy = goods->flags & KVMM_MIGRATE_PRECOPY;

	for (u32 i = 0; i < goods->nr_ranges; i++) {
		struct kv_range_kind kind;
		int err = kv_pool_hold_range(goods->pool, goods->range[i], &kind);
		bool held = !err;

		if (held && goods->kind[i].nr && goods->kind[i].nr != kind.nr && !precopy)
			err = -ESTALE;
		if (err) {
			drop_ranges(goods, i + held);
			return err;
		}
		goods->kind[i] = kind;
		goods->kind[i].listed = precopy ? 0 : kind.nr;
	}
	return 0;
}

/* What is too much in the end is too much at once. */
static int list(struct goods *goods)
{
	const struct range_set set = { goods->pool, goods->range, goods->kind, goods->nr_ranges };
	u64 nr = goods->nr_refs;

	for (u32 i = 0; i < goods->nr_ranges; i++)
		nr += goods->kind[i].nr;
	return nr > KVMM_MIGRATE_MAX_BLOCKS ? -E2BIG : list_ranges(&goods->list, &set);
}

/* Only what is listed counts as long as more may come. */
int goods_list(struct goods *goods, bool is_last)
{
	if (is_last && goods->seq &&
	    kvmm_range_find_seq(goods->pool, goods->seq, NULL, 0) != goods->nr_ranges)
		return -ESTALE;
	for (u32 i = 0; i < goods->nr_ranges; i++) {
		struct kv_range_kind now, *kind = &goods->kind[i];
		int err = kv_pool_range_kind(goods->pool, goods->range[i], &now);

		if (err)
			return err;
		now.nr = is_last ? now.nr : max(kind->nr, now.sealed);
		now.listed = is_last ? now.nr : now.sealed;
		*kind = now;
	}
	return list(goods);
}

void goods_unlist(struct goods *goods)
{
	goods->list.nr = goods->nr_refs;
	memset(goods->list.listed, 0, sizeof(goods->list.listed));
}

/* Their lengths are known now that they are held. */
static int list_all(struct goods *goods)
{
	u32 nr = goods->nr_refs;

	kv_free(goods->list.block);
	goods_unlist(goods);
	goods->list.block = kv_alloc_array(max(nr, 1u), sizeof(*goods->list.block));
	return goods->list.block ? list(goods) : -ENOMEM;
}

/* ---- all of it ---- */

int goods_hold(struct goods *goods)
{
	int err;

	if (goods->held)
		return 0;
	err = hold_ranges(goods);
	if (err)
		return err;
	err = list_all(goods);
	if (!err)
		err = hold_refs(goods);
	if (err)
		drop_ranges(goods, goods->nr_ranges);
	goods->held = !err;
	return err;
}

void goods_drop(struct goods *goods)
{
	if (!goods->held)
		return;
	goods->held = false;
	if (goods->nr_refs)
		kvmm_unpin_many(goods->pool, goods->ref, goods->nr_refs);
	drop_ranges(goods, goods->nr_ranges);
}

int goods_end(struct goods *goods)
{
	int ret = 0;

	if (goods->flags & KVMM_MIGRATE_COPY)
		goods_drop(goods);
	if (!goods->held)
		return 0;
	goods->held = false;
	end_refs(goods);
	for (u32 i = 0; i < goods->nr_ranges; i++) {
		int err = kv_pool_end_range(goods->pool, goods->range[i]);

		if (err)
			kv_pool_drop_range(goods->pool, goods->range[i]);
		ret = err ? err : ret;
	}
	return ret;
}

bool goods_are_sealed(const struct goods *goods)
{
	for (u32 i = 0; i < goods->nr_ranges; i++)
		if (goods->kind[i].sealed < goods->kind[i].nr)
			return false;
	return !(goods->flags & KVMM_MIGRATE_PRECOPY);	/* they may have become longer */
}

void goods_exit(struct goods *goods)
{
	goods_drop(goods);
	kv_free(goods->ref);
	kv_free(goods->name);
	kv_free(goods->list.block);
	*goods = (struct goods){ 0 };
}

/* ---- finding it ---- */

static int find_seq(struct goods *goods, u64 seq)
{
	int nr = kvmm_range_find_seq(goods->pool, seq, goods->range, KVMM_MIGRATE_MAX_RANGES);

	if (nr <= 0)
		return nr ? nr : -ENOENT;
	if (nr > KVMM_MIGRATE_MAX_RANGES)
		return -E2BIG;
	goods->seq = seq;
	goods->nr_ranges = nr;
	return 0;
}

static int find_refs(struct goods *goods, const kvmm_ref_t *refs, u32 nr)
{
	int err;

	if (!refs || !nr)
		return -EINVAL;
	if (nr > KVMM_MIGRATE_MAX_BLOCKS)
		return -E2BIG;
	err = alloc_refs(goods, nr);
	if (err)
		return err;
	memcpy(goods->ref, refs, nr * sizeof(*refs));
	goods->nr_refs = nr;
	return 0;
}

/* The references of the search are kept until they are held otherwise; *@nr of them. */
static int find_keys(struct goods *goods, const struct kvmm_prefix *prefix, u32 *nr)
{
	int found, err;

	if (!prefix || !prefix->nr)
		return -EINVAL;
	if (prefix->nr > KVMM_MIGRATE_MAX_BLOCKS)
		return -E2BIG;
	err = alloc_refs(goods, prefix->nr);
	if (err)
		return err;
	found = kvmm_prefix_scan(goods->pool, prefix, goods->ref);
	if (found <= 0)
		return found ? found : -ENOENT;
	for (u32 i = 0; i < prefix->nr; i++)
		if (goods->ref[i].gen)
			goods->ref[(*nr)++] = goods->ref[i];
	goods->nr_refs = *nr;
	return 0;
}

static int find_goods(struct goods *goods, const struct kvmm_migrate_attr *attr, u32 *nr_found)
{
	switch (attr->what) {
	case KVMM_MIGRATE_RANGE:
		goods->range[0] = attr->range;
		goods->nr_ranges = 1;
		return 0;
	case KVMM_MIGRATE_SEQ:
		return find_seq(goods, attr->seq);
	case KVMM_MIGRATE_REFS:
		return find_refs(goods, attr->refs, attr->nr_refs);
	case KVMM_MIGRATE_KEYS:
		return find_keys(goods, attr->prefix, nr_found);
	}
	return -EINVAL;
}

int goods_init(struct goods *goods, const struct kvmm_migrate_attr *attr)
{
	u32 nr_found = 0;
	int err;

	*goods = (struct goods){ .pool = attr->src, .flags = attr->flags };
	kv_pool_view(attr->src, &goods->view);
	err = find_goods(goods, attr, &nr_found);
	if (!err)
		err = goods_hold(goods);
	if (nr_found)
		kvmm_put_many(goods->pool, goods->ref, nr_found);
	/* Blocks being moved are out of reach for a moment; a range that is busy stays so. */
	if (!err || (err == -EBUSY && !goods->nr_ranges))
		return 0;
	goods_exit(goods);
	return err;
}
