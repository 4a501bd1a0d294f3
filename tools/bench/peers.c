// SPDX-License-Identifier: Apache-2.0
/*
 * What a program would have without this library, for peers that are not in a package: a stack of
 * free ids, and an allocator of offsets after Sebastian Aaltonen's, each behind one mutex.
 *
 * The latter keeps free regions in lists by size, of which there are eight for each power of two (a
 * float with three bits behind the point), and finds one by two words of bits: each call takes the
 * same few steps. A region is taken from the first list of which all are long enough.
 */
#include <pthread.h>

#include <kv/bits.h>

#include "churn.h"

/* ---- single blocks: of a pool, with magazines as pools have them; and of a stack ---- */

static int blocks_alloc(void *heap, u32 nr, u32 *word)
{
	kvmm_mut_t mut;
	int err = kvmm_alloc(heap, 1, &mut);

	memcpy(word, &mut, sizeof(mut));
	return err;
}

static void blocks_free(void *heap, const u32 *word, u32 nr)
{
	kvmm_mut_t mut;

	memcpy(&mut, word, sizeof(mut));
	kvmm_free(heap, &mut, 1);
}

static void *blocks_open(const char *name, u32 nr_blocks)
{
	struct kvmm_pool *pool;

	return open_pool(&pool, nr_blocks, "default", 0) ? NULL : pool;
}

static void blocks_close(void *heap)
{
	kvmm_pool_destroy(heap);
}

const struct contender contender_blocks = { "kvmm_alloc", false, blocks_open, blocks_close,
					    blocks_alloc, blocks_free };

struct stack {
	pthread_mutex_t mutex;
	u32 nr;
	u32 id[];
};

static void *stack_open(const char *name, u32 nr_blocks)
{
	struct stack *stack = must_alloc(sizeof(*stack) + nr_blocks * sizeof(stack->id[0]));

	pthread_mutex_init(&stack->mutex, NULL);
	stack->nr = nr_blocks;
	for (u32 i = 0; i < nr_blocks; i++)
		stack->id[i] = i;
	return stack;
}

static int stack_alloc(void *heap, u32 nr, u32 *word)
{
	struct stack *stack = heap;
	int err = -ENOSPC;

	pthread_mutex_lock(&stack->mutex);
	if (stack->nr) {
		*word = stack->id[--stack->nr];
		err = 0;
	}
	pthread_mutex_unlock(&stack->mutex);
	return err;
}

static void stack_free(void *heap, const u32 *word, u32 nr)
{
	struct stack *stack = heap;

	pthread_mutex_lock(&stack->mutex);
	stack->id[stack->nr++] = *word;
	pthread_mutex_unlock(&stack->mutex);
}

const struct contender contender_stack = { "stack+mutex", false, stack_open, free,
					   stack_alloc, stack_free };

/* ---- offsets ---- */

#define NONE		UINT32_MAX
#define POINT		3u		/* bits behind it */
#define NR_LEAVES	(1u << POINT)

struct region {
	u32 at, nr;
	u32 before, after;	/* in the list of its size; @after: of unused records, too */
	u32 left, right;	/* neighbours */
	bool taken;
};

struct offsets {
	pthread_mutex_t mutex;
	u32 tops;			/* of which powers of two there is a region */
	u32 leaves[32];			/* and of which eighths */
	u32 head[32 * NR_LEAVES];
	u32 unused;			/* records */
	struct region region[];
};

/* Which list holds regions of @nr; @up: from which on are all of them as long? */
static u32 list_of(u32 nr, bool up)
{
	u32 shift;

	if (nr < NR_LEAVES)
		return nr;
	shift = 31 - __builtin_clz(nr) - POINT;
	return ((shift + 1) << POINT) + ((nr >> shift) & (NR_LEAVES - 1)) +
	       (up && nr & ((1u << shift) - 1));
}

static void list_add(struct offsets *o, u32 i)
{
	u32 list = list_of(o->region[i].nr, false);

	o->region[i].before = NONE;
	o->region[i].after = o->head[list];
	if (o->head[list] != NONE)
		o->region[o->head[list]].before = i;
	o->head[list] = i;
	o->leaves[list >> POINT] |= 1u << (list & (NR_LEAVES - 1));
	o->tops |= 1u << (list >> POINT);
}

static void list_del(struct offsets *o, u32 i)
{
	const struct region *region = &o->region[i];
	u32 list = list_of(region->nr, false);

	if (region->after != NONE)
		o->region[region->after].before = region->before;
	if (region->before != NONE) {
		o->region[region->before].after = region->after;
		return;
	}
	o->head[list] = region->after;
	if (region->after != NONE)
		return;
	o->leaves[list >> POINT] &= ~(1u << (list & (NR_LEAVES - 1)));
	if (!o->leaves[list >> POINT])
		o->tops &= ~(1u << (list >> POINT));
}

/* The first list from @list on that has a region; NONE. */
static u32 list_find(const struct offsets *o, u32 list)
{
	u32 top = list >> POINT, leaves = o->leaves[top] & ~0u << (list & (NR_LEAVES - 1));

	if (!leaves) {
		u32 tops = o->tops & ~1u << top;

		if (!tops)
			return NONE;
		top = __builtin_ctz(tops);
		leaves = o->leaves[top];
	}
	return (top << POINT) + __builtin_ctz(leaves);
}

/* What is behind the first @nr of it is a region by itself. */
static void split(struct offsets *o, u32 i, u32 nr)
{
	struct region *region = &o->region[i];
	u32 rest = o->unused;

	if (region->nr == nr)
		return;
	o->unused = o->region[rest].after;
	o->region[rest] = (struct region){ .at = region->at + nr, .nr = region->nr - nr,
					   .left = i, .right = region->right };
	if (region->right != NONE)
		o->region[region->right].left = rest;
	region->right = rest;
	region->nr = nr;
	list_add(o, rest);
}

/* @right has ended; what it had is @left's. */
static void join(struct offsets *o, u32 left, u32 right)
{
	struct region *gone = &o->region[right];

	o->region[left].nr += gone->nr;
	o->region[left].right = gone->right;
	if (gone->right != NONE)
		o->region[gone->right].left = left;
	gone->after = o->unused;
	o->unused = right;
}

static int offsets_alloc(void *heap, u32 nr, u32 *word)
{
	struct offsets *o = heap;
	u32 list;

	pthread_mutex_lock(&o->mutex);
	list = list_find(o, list_of(nr, true));
	if (list != NONE) {
		word[0] = o->head[list];
		list_del(o, word[0]);
		split(o, word[0], nr);
		o->region[word[0]].taken = true;
		word[1] = o->region[word[0]].at;
	}
	pthread_mutex_unlock(&o->mutex);
	return list == NONE ? -ENOSPC : 0;
}

static void offsets_free(void *heap, const u32 *word, u32 nr)
{
	struct offsets *o = heap;
	u32 i = word[0], left, right;

	pthread_mutex_lock(&o->mutex);
	left = o->region[i].left;
	right = o->region[i].right;
	if (right != NONE && !o->region[right].taken) {
		list_del(o, right);
		join(o, i, right);
	}
	if (left != NONE && !o->region[left].taken) {
		list_del(o, left);
		join(o, left, i);
		i = left;
	}
	o->region[i].taken = false;
	list_add(o, i);
	pthread_mutex_unlock(&o->mutex);
}

static void *offsets_open(const char *name, u32 nr_blocks)
{
	struct offsets *o = must_alloc(sizeof(*o) + (nr_blocks + 1) * sizeof(o->region[0]));

	pthread_mutex_init(&o->mutex, NULL);
	memset(o->head, 0xff, sizeof(o->head));
	for (u32 i = 1; i <= nr_blocks; i++)
		o->region[i].after = i < nr_blocks ? i + 1 : NONE;
	o->unused = 1;
	o->region[0] = (struct region){ .nr = nr_blocks, .left = NONE, .right = NONE };
	list_add(o, 0);
	return o;
}

const struct contender contender_offsets = { "offset+mutex", false, offsets_open, free,
					     offsets_alloc, offsets_free };
