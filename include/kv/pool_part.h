/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts: all that hangs at a pool, and that the pool knows by this table only.
 *
 * A part keeps its state in struct kvmm_pool or in memory that a field there points to. Parts are
 * made in the order of the table and end in reverse. Most are made when they are first wanted, so
 * init is often NULL; a part not made yet is 0, and each function copes with that.
 */
#ifndef KV_POOL_PART_H
#define KV_POOL_PART_H

#include <kv/types.h>

struct kvmm_pool;
struct kvmm_pool_attr;
struct pool_observer;
struct pool_recount;

/**
 * struct pool_part - a part of each pool
 * @name: as it is called where kvmm_validate() found it unsound
 * @init: with the pool; its block map, memory and zone are there: 0 or an errno
 * @exit: with the pool, while its memory and zone are still there
 * @forked: in a child, which has no other threads; takes no lock
 * @bytes: host memory that pool->metadata_bytes does not count; takes no lock
 * @observer: its news from pool_observe() on; see pool/observer.h
 * @check_open: 0 or -EUCLEAN; pool->lock held, while blocks are handed out without it
 * @check_base: the world has stopped, and the recount will rely on this part; both locks held
 * @check: the world has stopped; @re is what pool->owner[], slots and entries say; both locks held
 * @check_apart: of a part with locks that come before pool->lock; compact_lock held alone
 */
struct pool_part {
	const char *name;
	int (*init)(struct kvmm_pool *pool, const struct kvmm_pool_attr *attr);
	void (*exit)(struct kvmm_pool *pool);
	void (*forked)(struct kvmm_pool *pool);
	u64 (*bytes)(struct kvmm_pool *pool);
	const struct pool_observer *observer;
	int (*check_open)(struct kvmm_pool *pool);
	int (*check_base)(struct kvmm_pool *pool);
	int (*check)(struct kvmm_pool *pool, const struct pool_recount *re);
	int (*check_apart)(struct kvmm_pool *pool);
};

/* "POOL_PART(name) = { ... };" in the file of the part. */
#define POOL_PART(part)					\
	extern const struct pool_part part##_part;	\
	const struct pool_part part##_part

/* All of them, 64 at most, up to a NULL; see init/parts.c. */
extern const struct pool_part *const kv_pool_parts_all[];

#endif /* KV_POOL_PART_H */
