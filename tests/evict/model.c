// SPDX-License-Identifier: Apache-2.0
/* The policies by their definitions. */
#include <string.h>

#include "tests/evict/model.h"

static bool is(const struct model *model, const char *name)
{
	return !strcmp(model->name, name);
}

void model_init(struct model *model, const char *name, u32 nr_blocks)
{
	memset(model, 0, sizeof(*model));
	model->name = name;
	model->nr_blocks = nr_blocks;
	for (u32 i = 0; i < nr_blocks; i++)
		model->block[i].when = UINT64_MAX;
}

void model_fill(struct model *model, u32 block, u32 key)
{
	model->block[block].key = key;
	model->block[block].named = true;
	model->block[block].uses = 1;
	model->block[block].when = UINT64_MAX;
}

void model_hit(struct model *model, u32 block)
{
	model->block[block].uses++;
}

void model_hint(struct model *model, u32 block, u64 when)
{
	model->block[block].when = when;
	if (is(model, "hint"))
		model->block[block].rank = UINT64_MAX - when;
}

void model_seen(struct model *model, const u32 *keys, u32 nr)
{
	bool named[MODEL_KEYS] = { false };

	for (u32 i = 0; i < nr; i++)
		named[keys[i]] = true;
	for (u32 key = 0; key < MODEL_KEYS; key++)
		model->requests[key] += named[key];
}

void model_leave(struct model *model, u32 block)
{
	model->block[block].in = false;
	model->block[block].protected = false;
}

static void protect(struct model *model, struct model_block *block)
{
	struct model_block *oldest = block;
	u32 nr = 0;

	block->protected = true;
	for (u32 i = 0; i < model->nr_blocks; i++) {
		struct model_block *other = &model->block[i];

		if (!other->in || !other->protected)
			continue;
		nr++;
		if (other->place < oldest->place)
			oldest = other;
	}
	if (5 * nr > 4 * model->nr_blocks) {
		oldest->protected = false;
		oldest->place = ++model->tail;
	}
}

static void put_back(struct model *model, struct model_block *block)
{
	block->in = true;
	block->place = ++model->tail;
	block->rank = 0;
	if (is(model, "lfu"))
		block->rank = block->uses;
	if (is(model, "glfu"))
		block->rank = model->requests[block->key];
	if (is(model, "hint"))
		block->rank = UINT64_MAX - block->when;
	if (is(model, "slru") && block->named && block->uses > 1)
		protect(model, block);
}

/* lru and slru put a batch of blocks without key in front, its own order kept. */
void model_free(struct model *model, const u32 *blocks, u32 nr)
{
	bool front = is(model, "lru") || is(model, "slru");

	for (u32 i = 0; i < nr; i++)
		put_back(model, &model->block[blocks[i]]);
	for (u32 i = nr; front && i--; )
		if (!model->block[blocks[i]].named)
			model->block[blocks[i]].place = --model->head;
}

static bool goes_before(const struct model *model, const struct model_block *a,
			const struct model_block *b)
{
	if (a->named != b->named && !is(model, "lru-classic"))
		return b->named;
	if (a->protected != b->protected)
		return b->protected;
	if (a->named && a->rank != b->rank)
		return a->rank < b->rank;
	return a->place < b->place;
}

u32 model_read(const struct model *model, u32 *victims)
{
	u32 nr = 0;

	for (u32 i = 0; i < model->nr_blocks; i++) {
		u32 at = nr;

		if (!model->block[i].in)
			continue;
		for (; at && goes_before(model, &model->block[i], &model->block[victims[at - 1]]);
		     at--)
			victims[at] = victims[at - 1];
		victims[at] = i;
		nr++;
	}
	return nr;
}
