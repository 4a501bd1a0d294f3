// SPDX-License-Identifier: Apache-2.0
/* The life of a few blocks without words, swaps or tables; see explore.h. */
#include <string.h>

#include "explore.h"

/* Too late for @wanted, or too early. */
static int late(const struct block *block, u8 wanted)
{
	return block->state > wanted ? -ESTALE : -EINVAL;
}

static bool registered(const struct block *block)
{
	return block->state == KV_ENTRY_REGISTERED;
}

bool model_is_dup(const struct model *model, u8 block)
{
	for (u8 i = 0; i < model->nr_order && model->order[i] != block; i++)
		if (model->block[model->order[i]].name == model->block[block].name)
			return true;
	return false;
}

int model_find(const struct model *model, u8 name)
{
	for (u8 i = 0; i < model->nr_order; i++) {
		const struct block *block = &model->block[model->order[i]];

		if (block->name == name && registered(block) && !block->hidden)
			return model->order[i];
	}
	return -ENOENT;
}

static void drop_from(u8 *list, u8 *nr, u8 block)
{
	u8 at = 0;

	while (list[at] != block)
		at++;
	memmove(&list[at], &list[at + 1], --*nr - at);
	list[*nr] = 0;
}

static int do_take(struct model *model)
{
	u8 block;

	if (!model->nr_free)
		return -ENOSPC;
	block = model->free[--model->nr_free];
	model->free[model->nr_free] = 0;
	model->block[block] = (struct block){ .state = KV_ENTRY_PRIVATE, .refs = 1 };
	return block;
}

/* EVICTING blocks are freed only after they have left the map: the caller's duty. */
static int do_free(struct model *model, u8 block)
{
	u8 state = model->block[block].state;

	if (state != KV_ENTRY_PRIVATE && state != KV_ENTRY_STAGED && state != KV_ENTRY_EVICTING)
		return -EINVAL;
	model->block[block] = (struct block){ .state = KV_ENTRY_FREE };
	model->free[model->nr_free++] = block;
	return 0;
}

static int do_insert(struct model *model, u8 index, u8 policy)
{
	struct block *block = &model->block[index];
	int elder;

	if (block->state != KV_ENTRY_STAGED)
		return late(block, KV_ENTRY_STAGED);
	elder = policy == KV_DUP_ALLOW ? -ENOENT : model_find(model, block->name);
	if (elder >= 0)
		model->block[elder].refs++;
	if (elder >= 0 && policy == KV_DUP_REJECT)
		return 0;
	block->state = KV_ENTRY_REGISTERED;
	block->in_map = true;
	model->order[model->nr_order++] = index;
	return 0;
}

static int do_find(struct model *model, u8 name)
{
	int found = model_find(model, name);

	if (found >= 0)
		model->block[found].refs++;
	return found;
}

/* After a reference less: 1 if the caller has to do something about it. */
static int dropped(struct block *block)
{
	if (block->refs)
		return 0;
	if (block->reset && !block->moving) {
		block->state = KV_ENTRY_EVICTING;
		return 2;
	}
	return 1;
}

static int do_put(struct block *block)
{
	if (!block->refs)
		return -ESTALE;
	if (block->refs == block->pins)
		return -EINVAL;
	block->refs--;
	return dropped(block);
}

static int do_unpin(struct block *block)
{
	if (!block->pins)
		return -EINVAL;
	block->pins--;
	block->refs--;
	return dropped(block);
}

static int do_pin(struct block *block)
{
	if (block->moving)
		return -EBUSY;
	block->pins++;
	return !block->refs++;
}

static int do_moved(struct block *block)
{
	if (!block->moving)
		return -EINVAL;
	block->moving = false;
	return block->reset && !block->refs ? dropped(block) : 0;
}

static int do_claim(struct block *block)
{
	if (block->refs || block->moving)
		return -EBUSY;
	block->state = KV_ENTRY_EVICTING;
	return 0;
}

static int do_move(struct block *block)
{
	if (block->pins || block->moving)
		return -EBUSY;
	block->moving = true;
	return 0;
}

/*
 * To be kept or not, and under its name or not, is for a holder to say; the name is anybody's while
 * it cannot be evicted because it is being moved.
 */
static int do_flag(struct block *block, u8 deed)
{
	if (!block->refs && !(block->moving && deed == DEED_HIDE))
		return -ESTALE;
	block->hidden |= deed == DEED_HIDE;
	block->reset = deed != DEED_CLEAR_RESET || block->hidden;
	return 0;
}

/* What can be done with registered blocks only. */
static int do_registered(struct block *block, u8 deed)
{
	switch (deed) {
	case DEED_TRY_GET:
		return block->hidden ? -ESTALE : !block->refs++;
	case DEED_GET:
		return block->refs ? !block->refs++ : -ESTALE;
	case DEED_PUT:
		return do_put(block);
	case DEED_PIN:
		return do_pin(block);
	case DEED_UNPIN:
		return do_unpin(block);
	case DEED_MOVE:
		return do_move(block);
	case DEED_CLAIM:
		return do_claim(block);
	default:
		return do_flag(block, deed);
	}
}

static int do_stage(struct block *block, u8 name)
{
	if (block->state != KV_ENTRY_PRIVATE)
		return late(block, KV_ENTRY_PRIVATE);
	block->state = KV_ENTRY_STAGED;
	block->name = name;
	return 0;
}

static int do_unstage(struct block *block)
{
	if (block->state != KV_ENTRY_STAGED)
		return late(block, KV_ENTRY_STAGED);
	block->state = KV_ENTRY_PRIVATE;
	block->name = 0;
	return 0;
}

static int do_unclaim(struct block *block)
{
	if (block->state != KV_ENTRY_EVICTING)
		return -EINVAL;
	block->state = block->parked ? KV_ENTRY_PARKED : KV_ENTRY_REGISTERED;
	block->parked = block->reset = block->hidden = false;
	return 0;
}

static int do_park(struct block *block)
{
	if (block->state != KV_ENTRY_PRIVATE && block->state != KV_ENTRY_STAGED &&
	    block->state != KV_ENTRY_EVICTING)
		return late(block, KV_ENTRY_EVICTING);
	*block = (struct block){ .state = KV_ENTRY_PARKED };
	return 0;
}

static int do_claim_parked(struct block *block)
{
	block->state = KV_ENTRY_EVICTING;
	block->parked = true;
	return 0;
}

static int do_remove(struct model *model, u8 index)
{
	struct block *block = &model->block[index];

	if (block->state != KV_ENTRY_EVICTING)
		return -EINVAL;
	if (!block->in_map)
		return -ENOENT;
	block->in_map = false;
	drop_from(model->order, &model->nr_order, index);
	return 0;
}

int model_do(struct model *model, struct op op)
{
	struct block *block = &model->block[op.block];

	switch (op.deed) {
	case DEED_TAKE:
		return do_take(model);
	case DEED_FREE:
		return do_free(model, op.block);
	case DEED_STAGE:
		return do_stage(block, op.arg);
	case DEED_UNSTAGE:
		return do_unstage(block);
	case DEED_INSERT:
		return do_insert(model, op.block, op.arg);
	case DEED_FIND:
		return do_find(model, op.arg);
	case DEED_MOVED:
		return registered(block) ? do_moved(block) : -EINVAL;
	case DEED_UNCLAIM:
		return do_unclaim(block);
	case DEED_REMOVE:
		return do_remove(model, op.block);
	case DEED_PARK:
		return do_park(block);
	default:
		if (op.deed == DEED_CLAIM && block->state == KV_ENTRY_PARKED)
			return do_claim_parked(block);
		return registered(block) ? do_registered(block, op.deed) :
		       late(block, KV_ENTRY_REGISTERED);
	}
}
