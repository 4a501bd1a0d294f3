// SPDX-License-Identifier: Apache-2.0
/*
 * lineage: only blocks that have no child in the order are evicted.
 *
 *	lineage		the one that was put back longest ago; a block that lost its last child has
 *			its old place, so a chain is peeled from its end before younger ones
 *	lineage-fifo	the one that has been without children longest: chains are peeled in turns
 *
 * A block's parent is what the engine says it is (->place). Blocks with children wait beside the
 * order. Moments are told apart by 1,024 in the time in which all blocks are put back once.
 *
 * Everything is guarded by the order's lock.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>

#include "vtime.h"

#define BUCKETS_A_SIZE	1024u
#define PAST_BUCKETS	(VTIME_BUCKETS - 2)

/* Where a block waits. */
enum place { OUT, INSIDE, LEAF };

struct node {
	u32 parent_plus_1;	/* or 0 */
	u32 parent_life;	/* of the parent: it is another block by now if that has changed */
	u32 life;		/* fills so far */
	u32 nr_kids;		/* in the order */
	u32 stamp;		/* of the put-back */
	u8 place;
};

struct lineage {
	struct vtime order;	/* the leaves */

	/* Fixed at creation. */
	u32 shift;		/* puts a bucket, as a power of two */
	bool by_stamp;		/* "lineage" */
	struct node *node;	/* behind this, and then the links */

	u32 nr;			/* in the order, leaves or not */
	u64 now;		/* puts so far */
};

static size_t lineage_bytes(u32 nr_blocks)
{
	return line_up(sizeof(struct lineage)) + line_up(nr_blocks * sizeof(struct node)) +
	       vtime_bytes(nr_blocks);
}

static void fifo_init(void *policy, u32 nr_blocks)
{
	struct lineage *lineage = policy;

	lineage->shift = kv_log2(max(nr_blocks / BUCKETS_A_SIZE, 1u));
	lineage->node = (struct node *)((char *)policy + line_up(sizeof(*lineage)));
	vtime_init(&lineage->order, nr_blocks,
		   (char *)lineage->node + line_up(nr_blocks * sizeof(struct node)));
}

static void tick_init(void *policy, u32 nr_blocks)
{
	struct lineage *lineage = policy;

	fifo_init(policy, nr_blocks);
	lineage->by_stamp = true;
}

/* ---- parents ---- */

static void lineage_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	struct lineage *lineage = policy;
	struct node *node = &lineage->node[block];

	if (KV_BUG_ON(block >= lineage->order.nr_blocks))
		return;
	node->parent_plus_1 = 0;
	node->life++;
	node->nr_kids = 0;
}

static void lineage_place(void *policy, u32 block, u32 position, u32 parent)
{
	struct lineage *lineage = policy;
	struct node *node = &lineage->node[block];

	if (KV_BUG_ON(block >= lineage->order.nr_blocks) || parent == KV_NONE || parent == block ||
	    KV_BUG_ON(parent >= lineage->order.nr_blocks))
		return;
	node->parent_plus_1 = parent + 1;
	node->parent_life = lineage->node[parent].life;
}

/* The parent's node, if it still is that block; or NULL. */
static struct node *parent_of(struct lineage *lineage, const struct node *node)
{
	struct node *parent;

	if (!node->parent_plus_1)
		return NULL;
	parent = &lineage->node[node->parent_plus_1 - 1];
	return parent->life == node->parent_life ? parent : NULL;
}

/* ---- leaves ---- */

static u64 bucket_of(const struct lineage *lineage, const struct node *node)
{
	u64 age = (u32)((u32)lineage->now - node->stamp);

	return (lineage->by_stamp ? lineage->now - age : lineage->now) >> lineage->shift;
}

static void become_leaf(struct lineage *lineage, struct node *node)
{
	u32 block = node - lineage->node;

	node->place = LEAF;
	vtime_enter(&lineage->order, block, bucket_of(lineage, node));
}

/* Out of the leaves, to where @place says. */
static void cease_to_be_leaf(struct lineage *lineage, struct node *node, enum place place)
{
	if (node->place == LEAF)
		vtime_leave(lineage, node - lineage->node);
	node->place = place;
}

static void gain_kid(struct lineage *lineage, struct node *parent)
{
	if (!parent)
		return;
	parent->nr_kids++;
	if (parent->place == LEAF)
		cease_to_be_leaf(lineage, parent, INSIDE);
}

static void lose_kid(struct lineage *lineage, struct node *parent)
{
	if (parent && !--parent->nr_kids && parent->place == INSIDE)
		become_leaf(lineage, parent);
}

/* ---- calls ---- */

static void lineage_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct lineage *lineage = policy;
	struct node *node = &lineage->node[block];
	u64 bucket = ++lineage->now >> lineage->shift;

	if (KV_BUG_ON(block >= lineage->order.nr_blocks) || KV_BUG_ON(node->place != OUT))
		return;
	lineage->order.nr_picked = 0;	/* a picked block cannot come back to exactly its place */
	if (bucket > PAST_BUCKETS)
		vtime_advance(&lineage->order, bucket - PAST_BUCKETS);
	node->stamp = lineage->now;
	node->place = INSIDE;
	lineage->nr++;
	if (!node->nr_kids)
		become_leaf(lineage, node);
	gain_kid(lineage, parent_of(lineage, node));
}

static void lineage_leave(void *policy, u32 block)
{
	struct lineage *lineage = policy;
	struct node *node = &lineage->node[block];

	if (KV_BUG_ON(block >= lineage->order.nr_blocks) || KV_BUG_ON(node->place == OUT))
		return;
	lineage->order.nr_picked = 0;
	cease_to_be_leaf(lineage, node, OUT);
	kv_assert(lineage->nr);
	lineage->nr--;
	lose_kid(lineage, parent_of(lineage, node));
}

/* Its parent comes to the leaves with it, and goes with it if it comes back: that is no change. */
static void lineage_take(void *policy, u32 block)
{
	struct lineage *lineage = policy;
	struct node *node = &lineage->node[block];
	u32 nr_picked;

	if (KV_BUG_ON(block >= lineage->order.nr_blocks) || KV_BUG_ON(node->place == OUT))
		return;
	if (node->place == LEAF)
		vtime_take(lineage, block);
	nr_picked = lineage->order.nr_picked;
	node->place = OUT;
	kv_assert(lineage->nr);
	lineage->nr--;
	lose_kid(lineage, parent_of(lineage, node));
	lineage->order.nr_picked = nr_picked;
}

static u32 lineage_pick(void *policy)
{
	struct lineage *lineage = policy;
	u32 victim = vtime_first(&lineage->order);

	if (victim != KV_NONE)
		lineage_take(policy, victim);
	return victim;
}

/* To where it was; or, if others have come or gone since, before the others of its bucket. */
static void return_leaf(struct lineage *lineage, u32 block)
{
	const struct node *node = &lineage->node[block];

	kv_assert(block < lineage->order.nr_blocks);
	if (lineage->order.nr_picked)
		vtime_unpick(lineage, block);
	else
		vtime_enter_front(&lineage->order, block,
				  lineage->by_stamp ? bucket_of(lineage, node) :
						      lineage->order.base);
}

static void lineage_unpick(void *policy, u32 block)
{
	struct lineage *lineage = policy;
	struct node *node = &lineage->node[block];
	u32 nr_picked = lineage->order.nr_picked;

	if (KV_BUG_ON(block >= lineage->order.nr_blocks) || KV_BUG_ON(node->place != OUT))
		return;
	gain_kid(lineage, parent_of(lineage, node));
	lineage->order.nr_picked = nr_picked;
	node->place = node->nr_kids ? INSIDE : LEAF;
	lineage->nr++;
	if (node->place == LEAF)
		return_leaf(lineage, block);
}

static bool lineage_has(const void *policy, u32 block)
{
	const struct lineage *lineage = policy;

	return block < lineage->order.nr_blocks && lineage->node[block].place != OUT;
}

static u32 lineage_nr(const void *policy)
{
	const struct lineage *lineage = policy;

	return lineage->nr;
}

static int lineage_check(const void *policy)
{
	const struct lineage *lineage = policy;
	u32 nr = 0;

	for (u32 block = 0; block < lineage->order.nr_blocks; block++) {
		const struct node *node = &lineage->node[block];

		if (vtime_has(lineage, block) != (node->place == LEAF) ||
		    (node->place == INSIDE && !node->nr_kids) ||
		    (node->place == LEAF && node->nr_kids))
			return -EUCLEAN;
		nr += node->place != OUT;
	}
	return nr == lineage->nr ? vtime_check(lineage) : -EUCLEAN;
}

#define LINEAGE_OPS									\
	.bytes = lineage_bytes, .fill = lineage_fill, .place = lineage_place,		\
	.enter = lineage_enter, .leave = lineage_leave, .pick = lineage_pick,		\
	.take = lineage_take, .unpick = lineage_unpick, .has = lineage_has,		\
	.nr = lineage_nr, .check = lineage_check

const struct kv_evict_ops kv_evict_lineage = {
	.name	= "lineage",
	.init	= tick_init,
	LINEAGE_OPS,
};

const struct kv_evict_ops kv_evict_lineage_fifo = {
	.name	= "lineage-fifo",
	.init	= fifo_init,
	LINEAGE_OPS,
};
