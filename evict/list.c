// SPDX-License-Identifier: Apache-2.0
/*
 * Policies that are lists: lru, lru-classic and slru. Every call takes constant time.
 *
 * A block is in at most one of three lists; the next victim is the head of the first list that is
 * not empty. The policies differ only in the list, and the end of it, that a block enters by:
 *
 *	lru-classic	all blocks at the tail of one list, with key or not
 *	lru		with key: tail of FIRST; without: front of UNNAMED
 *	slru		with key: FIRST, or SECOND if hit since it was filled; without: as lru
 *
 * "Front of UNNAMED" keeps the order inside a batch: of the blocks that one request gives back,
 * the first one entered becomes the head. Blocks without key that enter with no other call in
 * between count as one batch.
 *
 * Links are indexes in one array, which ends in the heads of the lists, so no link is ever "none"
 * and no end of a list is a special case. A picked block keeps its links and its place's name
 * (->list): that is all that unpick needs, be it that the block was not the first of its list.
 *
 * Everything below is guarded by the order's lock.
 */
#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>
#include <kvmm/types.h>

enum { UNNAMED, FIRST, SECOND, NR_LISTS };

/*
 * One block: 16 bytes, so all that a call needs of it is on one cache line. ->ahead names the block
 * that came AHEAD blocks later, so that a row of picks need not wait for each link; see vtime.h.
 */
struct link {
	u32 next;
	u32 prev	: 28;
	u32 list	: 2;	/* in which list it is, or was last */
	u32 in		: 1;	/* it is in ->list */
	u32 reused	: 1;	/* hit since it was filled */
	u32 ahead;		/* may be wrong */
	u32 reserved;		/* 0 */
};

#define AHEAD	16u

static_assert(sizeof(struct link) == 16, "side memory is 16 bytes a block");
static_assert(KVMM_MAX_BLOCKS + NR_LISTS <= BIT(28), "a block id fits the links");

struct lists {
	u32 nr_blocks;		/* fixed at creation */
	u32 max_second;		/* fixed at creation: slru's limit on SECOND */
	u32 nr_picked;		/* victims that can be put back where they were */
	u32 batch;		/* where the batch of blocks without key goes on: behind this one */
	u32 nr[NR_LISTS];	/* blocks in each list */
	u64 ahead_sum;		/* of ->ahead of all links */
	u32 nr_entered;		/* blocks with key; wraps */
	u32 last[AHEAD];	/* those that did last, modulo AHEAD */
	/* By block; then the heads of the lists. No link lies on two cache lines. */
	struct link link[] __attribute__((__aligned__(16)));
};

static u32 head_of(const struct lists *lists, u32 list)
{
	return lists->nr_blocks + list;
}

static void link_add(struct lists *lists, u32 list, u32 prev, u32 block)
{
	u32 next = lists->link[prev].next;

	kv_assert(block < lists->nr_blocks);
	lists->link[block].prev = prev;
	lists->link[block].next = next;
	lists->link[block].list = list;
	lists->link[block].in = 1;
	lists->link[prev].next = block;
	lists->link[next].prev = block;
	lists->nr[list]++;
}

static void link_add_tail(struct lists *lists, u32 list, u32 block)
{
	link_add(lists, list, lists->link[head_of(lists, list)].prev, block);
}

static void link_del(struct lists *lists, u32 block)
{
	struct link *link = &lists->link[block];

	kv_assert(block < lists->nr_blocks);
	lists->link[link->prev].next = link->next;
	lists->link[link->next].prev = link->prev;
	link->in = 0;
	kv_assert(lists->nr[link->list]);
	lists->nr[link->list]--;
}

static void end_batch(struct lists *lists)
{
	lists->batch = head_of(lists, UNNAMED);
}

/* Something changes for good. */
static void begin_change(struct lists *lists)
{
	lists->nr_picked = 0;
}

static bool block_is_bad(const struct lists *lists, u32 block, bool in)
{
	return KV_BUG_ON(block >= lists->nr_blocks) || KV_BUG_ON(lists->link[block].in != in);
}

static size_t lists_bytes(u32 nr_blocks)
{
	return sizeof(struct lists) + ((size_t)nr_blocks + NR_LISTS) * sizeof(struct link);
}

static void lists_init(void *policy, u32 nr_blocks)
{
	struct lists *lists = policy;

	lists->nr_blocks = nr_blocks;
	lists->max_second = (u64)nr_blocks * 4 / 5;
	for (u32 list = 0; list < NR_LISTS; list++) {
		u32 head = head_of(lists, list);

		lists->link[head].next = head;
		lists->link[head].prev = head;
	}
	end_batch(lists);
}

static void lists_leave(void *policy, u32 block)
{
	struct lists *lists = policy;

	if (block_is_bad(lists, block, true))
		return;
	end_batch(lists);
	begin_change(lists);
	link_del(lists, block);
}

static void lists_take(void *policy, u32 block)
{
	struct lists *lists = policy;

	if (block_is_bad(lists, block, true))
		return;
	end_batch(lists);
	lists->nr_picked++;
	link_del(lists, block);
}

static u32 lists_pick(void *policy)
{
	struct lists *lists = policy;

	for (u32 list = 0; list < NR_LISTS; list++) {
		u32 victim = lists->link[head_of(lists, list)].next;

		if (victim >= lists->nr_blocks)
			continue;
		lists_take(lists, victim);
		return victim;
	}
	return KV_NONE;
}

static void lists_unpick(void *policy, u32 block)
{
	struct lists *lists = policy;
	u32 list, prev;

	if (block_is_bad(lists, block, false))
		return;
	end_batch(lists);
	list = lists->link[block].list;
	prev = head_of(lists, list);
	if (likely(lists->nr_picked)) {
		prev = lists->link[block].prev;
		lists->nr_picked--;
	}
	link_add(lists, list, prev, block);
}

/* Its links, and then those of its neighbours. */
static void lists_expect(const void *policy, u32 block, bool soon)
{
	const struct lists *lists = policy;
	const struct link *link = &lists->link[block];

	kv_assert(block < lists->nr_blocks);
	if (!soon) {
		kv_prefetch_write(link);
		return;
	}
	kv_prefetch_write(&lists->link[link->prev]);
	kv_prefetch_write(&lists->link[link->next]);
}

static u32 lists_ahead(const void *policy, u32 block)
{
	const struct lists *lists = policy;

	kv_assert(block < lists->nr_blocks);
	return lists->link[block].ahead;
}

static bool lists_has(const void *policy, u32 block)
{
	const struct lists *lists = policy;

	return block < lists->nr_blocks && lists->link[block].in;
}

static u32 lists_nr(const void *policy)
{
	const struct lists *lists = policy;

	return lists->nr[UNNAMED] + lists->nr[FIRST] + lists->nr[SECOND];
}

/* Walks one list: each link has its counterpart, and there are as many as were counted. */
static bool list_is_sound(const struct lists *lists, u32 list)
{
	u32 head = head_of(lists, list);
	u32 prev = head, nr = 0, at;

	for (at = lists->link[head].next; at < lists->nr_blocks; at = lists->link[at].next) {
		const struct link *link = &lists->link[at];

		if (nr++ == lists->nr[list] || !link->in || link->list != list ||
		    link->prev != prev || (list == SECOND && !link->reused))
			return false;
		prev = at;
	}
	return at == head && lists->link[head].prev == prev && nr == lists->nr[list];
}

static bool aheads_are_sound(const struct lists *lists)
{
	u64 sum = 0;

	for (u32 i = 0; i < lists->nr_blocks + NR_LISTS; i++) {
		const struct link *link = &lists->link[i];

		if (link->reserved || link->ahead >= lists->nr_blocks)
			return false;
		sum += link->ahead;
	}
	return sum == lists->ahead_sum;
}

static int lists_check(const void *policy)
{
	const struct lists *lists = policy;
	const struct link *last = &lists->link[lists->batch];
	u32 nr_in = 0;

	if (lists->batch < lists->nr_blocks ? !last->in || last->list != UNNAMED :
					      lists->batch != head_of(lists, UNNAMED))
		return -EUCLEAN;
	for (u32 list = 0; list < NR_LISTS; list++)
		if (!list_is_sound(lists, list))
			return -EUCLEAN;
	for (u32 block = 0; block < lists->nr_blocks; block++)
		nr_in += lists->link[block].in;
	if (!aheads_are_sound(lists))
		return -EUCLEAN;
	return nr_in == lists_nr(lists) && lists->nr[SECOND] <= lists->max_second ? 0 : -EUCLEAN;
}

/* Into the list, at its tail, where a block with key goes. */
static void enter_named(struct lists *lists, u32 list, u32 block)
{
	u32 *before = &lists->last[lists->nr_entered++ % AHEAD];

	end_batch(lists);
	begin_change(lists);
	link_add_tail(lists, list, block);
	lists->ahead_sum += (u64)block - lists->link[*before].ahead;
	lists->link[*before].ahead = block;
	*before = block;
}

static void enter_unnamed(struct lists *lists, u32 block)
{
	begin_change(lists);
	link_add(lists, UNNAMED, lists->batch, block);
	lists->batch = block;
}

static void classic_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct lists *lists = policy;

	if (!block_is_bad(lists, block, false))
		enter_named(lists, FIRST, block);
}

static void lru_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct lists *lists = policy;

	if (block_is_bad(lists, block, false))
		return;
	if (key)
		enter_named(lists, FIRST, block);
	else
		enter_unnamed(lists, block);
}

static void slru_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	struct lists *lists = policy;

	if (!KV_BUG_ON(block >= lists->nr_blocks))
		lists->link[block].reused = 0;
}

static void slru_hit(void *policy, u32 block)
{
	struct lists *lists = policy;

	if (!KV_BUG_ON(block >= lists->nr_blocks))
		lists->link[block].reused = 1;
}

static void slru_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct lists *lists = policy;

	if (block_is_bad(lists, block, false))
		return;
	if (key)
		enter_named(lists, lists->link[block].reused ? SECOND : FIRST, block);
	else
		enter_unnamed(lists, block);
	if (lists->nr[SECOND] <= lists->max_second)
		return;
	/* A block that falls out of SECOND gets a last chance behind all of FIRST. */
	block = lists->link[head_of(lists, SECOND)].next;
	link_del(lists, block);
	link_add_tail(lists, FIRST, block);
}

#define LISTS_OPS									\
	.bytes = lists_bytes, .init = lists_init, .leave = lists_leave,			\
	.pick = lists_pick, .take = lists_take, .unpick = lists_unpick,			\
	.expect = lists_expect, .ahead = lists_ahead, .has = lists_has,			\
	.nr = lists_nr, .check = lists_check

const struct kv_evict_ops kv_evict_lru = {
	.name		= "lru",
	.enter		= lru_enter,
	LISTS_OPS,
};

const struct kv_evict_ops kv_evict_lru_classic = {
	.name		= "lru-classic",
	.keeps_unnamed	= true,
	.enter		= classic_enter,
	LISTS_OPS,
};

const struct kv_evict_ops kv_evict_slru = {
	.name		= "slru",
	.fill		= slru_fill,
	.hit		= slru_hit,
	.enter		= slru_enter,
	LISTS_OPS,
};
