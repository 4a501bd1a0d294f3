/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A migration as its taker knows it: from the offer to the publication.
 *
 *	GATHER --all is named--> SETTLE --reserved, quiet--> POUR --all is here--> CHECK --> CHECKED
 *
 * It outlives the link on which it was offered: blocks reserved by then wait, for a while, for
 * the same migration to be offered again, and goes on from there. Any end of it but publication
 * gives the blocks back, once no copy into them is under way.
 */
#ifndef NET_INTAKE_H
#define NET_INTAKE_H

#include "store.h"
#include "window.h"
#include "wire.h"

enum intake_state { INTAKE_GATHER, INTAKE_SETTLE, INTAKE_POUR, INTAKE_CHECK, INTAKE_CHECKED };

struct intake {
	struct intake *next;		/* list of those without a link */
	u64 deadline_ns;		/* the same */
	struct wire_id id;
	u32 gen;
	enum intake_state state;

	struct wire_offer offer;
	struct kv_range_kind kind[KVMM_MIGRATE_MAX_RANGES];
	struct kv_block_name *name;	/* ours */
	u64 *sum;			/* ours; by number of the block */
	u32 nr_names;
	u32 nr_sums;

	struct store store;
	struct kv_fence fence;		/* of the pool's streams */
	bool has_fence;

	u32 nr;				/* blocks that are copied */
	u32 *to;			/* ours */
	u64 *want;			/* ours; their sums */
	u64 *have;			/* ours; room for a portion */
	u32 next_fill;			/* number of the first that was not sent */
	u32 nr_done;
	u32 nr_checked;
};

/* The blocks that were offered, within bounds: 0 or -ENOMEM. */
int intake_make(struct kvmm_pool *pool, const struct wire_msg *msg, struct intake **intake);
/* An offer of the same migration with more blocks, all that came before is CHECKED: the same;
 * -EPROTO. */
int intake_more(struct intake *intake, const struct wire_msg *msg);
/* No copy into it is under way. Takes NULL. */
void intake_free(struct intake *intake);

/* More of it, WIRE_NAMES or WIRE_SUMS: 0 or -EPROTO. */
int intake_part(struct intake *intake, const struct wire_msg *msg);
bool intake_is_whole(const struct intake *intake);
/* There is no block of it that may not be published. */
bool intake_is_last(const struct intake *intake);
/* Is that the same as was offered before? */
bool intake_is_same(const struct intake *a, const struct intake *b);

/* 0 it can be poured into; -EINPROGRESS; or why not. */
int intake_settle(struct intake *intake);
/* 0 all sums agree; -EINPROGRESS; or why not. */
int intake_check(struct intake *intake);

#endif /* NET_INTAKE_H */
