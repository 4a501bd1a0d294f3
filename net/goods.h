/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goods leave a pool: cached blocks and ranges, held so that neither content nor place changes.
 *
 * No lock: goods belong to a job, and that to one thread.
 */
#ifndef NET_GOODS_H
#define NET_GOODS_H

#include <kv/pool_migrate.h>
#include <kv/types.h>
#include <kvmm/ext/migrate.h>

#include "store.h"

struct goods {
	struct kvmm_pool *pool;		/* borrowed */
	struct kv_pool_view view;
	u32 flags;			/* KVMM_MIGRATE_* */
	bool held;			/* references and pins are ours */

	u32 nr_refs;
	kvmm_ref_t *ref;		/* ours */
	struct kv_block_name *name;	/* ours; since they were held for the first time */

	u64 seq;			/* or 0: @range are all ranges of it */
	u32 nr_ranges;
	kvmm_range_t range[KVMM_MIGRATE_MAX_RANGES];
	struct kv_range_kind kind[KVMM_MIGRATE_MAX_RANGES];	/* likewise */

	struct block_list list;		/* while held; with KVMM_MIGRATE_PRECOPY so far */
};

/* As kvmm_migrate_start(); on success they are held, or were -EBUSY being moved and are not. */
int goods_init(struct goods *goods, const struct kvmm_migrate_attr *attr);
void goods_exit(struct goods *goods);

/* Blocks not held any more, or not yet: 0; -EBUSY one is being moved; -ESTALE it is gone; as
 * kvmm_migrate_start(). */
int goods_hold(struct goods *goods);
/* As if it had never been held. */
void goods_drop(struct goods *goods);
/* It is elsewhere: give the source back, or with KVMM_MIGRATE_COPY, drop it. 0; -EBUSY: not all. */
int goods_end(struct goods *goods);

/* With KVMM_MIGRATE_PRECOPY: what of ranges is sealed by now is listed, or if it @is_last, all of
 * them, and nothing is written any more. 0, -E2BIG, -EIO, -ENOMEM; -ESTALE one is gone, or its
 * sequence has another one by now. */
int goods_list(struct goods *goods, bool is_last);
/* ... from their begin. */
void goods_unlist(struct goods *goods);

/* No block of it may be written any more. */
bool goods_are_sealed(const struct goods *goods);

#endif /* NET_GOODS_H */
