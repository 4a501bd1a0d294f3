// SPDX-License-Identifier: Apache-2.0
/* The policies by their definitions. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "tests/evict/model.h"

static bool is(const struct model *model, const char *name)
{
	return !strcmp(model->name, name);
}

static bool is_lineage(const struct model *model)
{
	return is(model, "lineage") || is(model, "lineage-fifo");
}

static bool has_two_lists(const struct model *model)
{
	return is(model, "arc") || is(model, "s3fifo");
}

void model_init(struct model *model, const char *name, u32 nr_blocks)
{
	memset(model, 0, sizeof(*model));
	model->name = name;
	model->nr_blocks = nr_blocks;
	model->target = is(model, "s3fifo") ? nr_blocks / 10 : 0;
	for (u32 i = 0; i < nr_blocks; i++) {
		model->block[i].when = UINT64_MAX;
		model->block[i].parent = KV_NONE;
	}
}

/* ---- virtual time: a window of 4096 buckets of one tick, what is outside counts as nearest ---- */

static u64 in_window(const struct model *model, s64 tick)
{
	u64 past = is(model, "fifo") || is_lineage(model) ? 4094 : 1024;
	s64 base = model->now > past ? (s64)(model->now - past) : 0;

	return (u64)(tick < base ? base : tick > base + 4095 ? base + 4095 : tick);
}

/* ---- ghosts: ages come in steps, credit in even numbers ---- */

static unsigned int step_shift(const struct model *model)
{
	unsigned int shift = 0, sets = 1;

	while (sets * 8 < 64 * model->nr_blocks)
		sets *= 2;
	while (4096u << shift < sets * 8)
		shift++;
	return shift;
}

static void bury(struct model *model, const struct model_block *block)
{
	struct model_ghost *ghost = &model->ghost[block->key];
	u64 last = is(model, "lrfu") ? block->used : model->now - 1;

	if (!block->life)
		return;
	*ghost = (struct model_ghost){ true, block->credit / 2 * 2, block->level,
				       last >> step_shift(model) };
	if (is(model, "lrfu") || !has_two_lists(model))
		return;
	model->gone[block->level]++;
	if (model->gone[0] + model->gone[1] > model->nr_blocks) {
		model->gone[0] /= 2;
		model->gone[1] /= 2;
	}
}

static u64 ghost_age(const struct model *model, const struct model_ghost *ghost)
{
	unsigned int shift = step_shift(model);

	return ((model->now >> shift) - ghost->step) % 16384 << shift;
}

/* ---- lrfu ---- */

/* Sixteenths of log2(1 + 2^(credit - age / half-life)). */
static u32 credit_after(const struct model *model, u32 credit, u64 age)
{
	u64 per_tick = model->half_life ? (16ull << 32) / model->half_life : 0;
	s64 left = (s64)credit - (s64)(age * per_tick >> 32);
	double gain = round(16 * log2(1 + exp2(-(double)(left < 0 ? -left : left) / 16)));
	s64 sum = (left < 0 ? 0 : left) + (s64)gain;

	return !model->half_life ? 0 : sum > 64 ? 64 : (u32)sum;
}

static void use_again(struct model *model, struct model_block *block)
{
	block->credit = credit_after(model, block->credit, model->now - block->used);
	block->used = model->now;
}

static u64 lrfu_rank(const struct model *model, const struct model_block *block)
{
	return model->now + (u64)model->half_life * block->credit / 16;
}

static void come_back(struct model *model, struct model_block *block)
{
	struct model_ghost *ghost = &model->ghost[block->key];

	if (ghost->known)
		block->credit = credit_after(model, ghost->credit, ghost_age(model, ghost));
	ghost->known = false;
}

/* ---- arc and s3fifo: list 0 of new blocks, list 1 of proven ones ---- */

static void learn(struct model *model, u32 list)
{
	u32 own = model->gone[list] ? model->gone[list] : 1, step = model->gone[!list] / own;

	if (!step)
		step = 1;
	if (!list)
		model->target = model->target + step < model->nr_blocks ? model->target + step :
									  model->nr_blocks;
	else
		model->target = model->target > step ? model->target - step : 0;
}

static void return_proven(struct model *model, struct model_block *block)
{
	struct model_ghost *ghost = &model->ghost[block->key];

	if (!ghost->known)
		return;
	ghost->known = false;
	if (ghost_age(model, ghost) > model->nr_blocks)
		return;
	block->uses = 3;
	if (is(model, "arc"))
		learn(model, ghost->list);
}

static u32 list_of(const struct model *model, const struct model_block *block)
{
	return block->uses >= (is(model, "arc") ? 2 : 3);
}

/* ---- multilru ---- */

static u32 level_of(const struct model *model, u32 key)
{
	u32 nr = model->counts[key] > 15 ? 15 : model->counts[key];

	return (nr >= 3) + (nr >= 8) + (nr >= 15);
}

static void look_again(struct model *model)
{
	struct model_block *block = &model->block[model->hand];

	model->hand = (model->hand + 1) % model->nr_blocks;
	if (!block->in || block->rank == level_of(model, block->key))
		return;
	block->rank = level_of(model, block->key);
	block->place = ++model->tail;
}

/* ---- calls ---- */

void model_fill(struct model *model, u32 nr, u32 key)
{
	struct model_block *block = &model->block[nr];

	model->now += !is_lineage(model);
	bury(model, block);
	*block = (struct model_block){ .key = key, .named = true, .uses = 1, .when = UINT64_MAX,
				       .life = block->life + 1, .parent = KV_NONE,
				       .filled = model->now, .used = model->now };
	model->counts[key]++;
	if (is(model, "lrfu"))
		come_back(model, block);
	if (has_two_lists(model))
		return_proven(model, block);
	if (is(model, "multilru"))
		look_again(model);
}

void model_place(struct model *model, u32 block, u32 position, u32 parent)
{
	model->block[block].position = position;
	if (parent == block)
		return;
	model->block[block].parent = parent;
	model->block[block].parent_life = model->block[parent].life;
}

void model_hit(struct model *model, u32 nr)
{
	struct model_block *block = &model->block[nr];

	block->uses++;
	model->counts[block->key] += block->life != 0;
	if (is(model, "lrfu"))
		use_again(model, block);
}

/* 16 * log2, by the four bits below the highest. */
static u64 log_of(u64 cost)
{
	u64 log = 0;

	for (cost = (cost ? cost : 1) * 16; cost >= 32; cost /= 2)
		log += 16;
	return log + cost - 16;
}

static s64 ticks_left(const struct model *model, const struct model_block *block)
{
	return block->advised ? (s64)(block->advice - model->now) : 0;
}

static u64 rank_of(struct model *model, struct model_block *block)
{
	s64 now = (s64)model->now, size = model->nr_blocks;

	if (is(model, "fifo"))
		return in_window(model, (s64)block->filled);
	if (is(model, "lrfu"))
		return in_window(model, (s64)lrfu_rank(model, block));
	if (is(model, "priority"))
		return in_window(model, now + size * 8 *
				 (block->advised ? (s64)block->advice : 50) / 100);
	if (is(model, "ttl"))
		return in_window(model, now + ticks_left(model, block));
	if (is(model, "cost"))
		return in_window(model, now + size * (s64)block->advice / 16);
	if (is(model, "multilru"))
		return level_of(model, block->key);
	return has_two_lists(model) ? list_of(model, block) : 0;
}

static void move(struct model *model, struct model_block *block)
{
	if (!block->in)
		return;
	block->rank = rank_of(model, block);
	block->place = ++model->tail;
}

int model_advise(struct model *model, u32 nr, enum kv_evict_advice what, u64 value)
{
	static const char *const who[] = { "priority", "ttl", "cost" };
	struct model_block *block = &model->block[nr];

	if (!is(model, who[what]))
		return -EOPNOTSUPP;
	if (what == KV_ADVISE_PRIORITY && value > 100)
		return -EINVAL;
	block->advised = true;
	block->advice = what == KV_ADVISE_PRIORITY ? value :
			what == KV_ADVISE_TTL ? model->now + value : log_of(value);
	move(model, block);
	return 0;
}

void model_hint(struct model *model, u32 block, u64 when)
{
	model->block[block].when = when;
	if (is(model, "hint"))
		model->block[block].rank = UINT64_MAX - when;
	if (is(model, "ttl"))
		model_advise(model, block, KV_ADVISE_TTL, when > model->now ? when - model->now : 0);
}

void model_seen(struct model *model, const u32 *keys, u32 nr)
{
	bool named[MODEL_KEYS] = { false };

	for (u32 i = 0; i < nr; i++)
		named[keys[i]] = true;
	for (u32 key = 0; key < MODEL_KEYS; key++)
		model->requests[key] += named[key];
}

/* ---- lineage: a leaf's rank is of when it became one ---- */

static bool is_child(const struct model *model, const struct model_block *block, u32 parent)
{
	return block->in && block->parent == parent &&
	       block->parent_life == model->block[parent].life;
}

static bool has_children(const struct model *model, u32 parent)
{
	for (u32 i = 0; i < model->nr_blocks; i++)
		if (is_child(model, &model->block[i], parent))
			return true;
	return false;
}

static void become_leaf(struct model *model, u32 nr)
{
	struct model_block *block = &model->block[nr];
	bool by_put = is(model, "lineage");

	block->rank = in_window(model, (s64)(by_put ? block->used : model->now));
	block->place = ++model->tail;
}

void model_leave(struct model *model, u32 nr)
{
	struct model_block *block = &model->block[nr];
	u32 parent = block->parent;
	bool was_child = block->in && parent != KV_NONE && is_child(model, block, parent);

	block->in = false;
	block->protected = false;
	if (is_lineage(model) && was_child && model->block[parent].in &&
	    !has_children(model, parent))
		become_leaf(model, parent);
}

/* ---- put back ---- */

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

static u64 tlru_rank(struct model *model, const struct model_block *block)
{
	bool is_safe;

	if (block->position + 1 != model->last_position)
		model->chain = block->position;
	model->last_position = block->position;
	is_safe = block->position && block->position + 4 > model->chain;
	return in_window(model, is_safe ? 0 : (s64)model->now);
}

static void put_back(struct model *model, struct model_block *block)
{
	block->in = true;
	block->place = ++model->tail;
	block->rank = rank_of(model, block);
	block->level = list_of(model, block);
	model->now += is_lineage(model);
	block->used = model->now;
	if (is(model, "lfu"))
		block->rank = block->uses;
	if (is(model, "glfu"))
		block->rank = model->requests[block->key];
	if (is(model, "hint"))
		block->rank = UINT64_MAX - block->when;
	if (is(model, "t-lru"))
		block->rank = tlru_rank(model, block);
	if (is_lineage(model))
		block->rank = in_window(model, (s64)model->now);
	if (is(model, "slru") && block->uses > 1)
		protect(model, block);
}

void model_free(struct model *model, const u32 *blocks, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		put_back(model, &model->block[blocks[i]]);
}

/* ---- the order ---- */

static bool goes_before(const struct model *model, const struct model_block *a,
			const struct model_block *b)
{
	if (a->protected != b->protected)
		return b->protected;
	if (a->rank != b->rank)
		return a->rank < b->rank;
	return a->place < b->place;
}

/* Of those of one list, or of all: UINT64_MAX. */
static u32 first_of(const struct model *model, u64 list)
{
	u32 first = KV_NONE;

	for (u32 i = 0; i < model->nr_blocks; i++) {
		const struct model_block *block = &model->block[i];

		if (!block->in || (list != UINT64_MAX && block->rank != list) ||
		    (is_lineage(model) && has_children(model, i)))
			continue;
		if (first == KV_NONE || goes_before(model, block, &model->block[first]))
			first = i;
	}
	return first;
}

static u32 nr_in_list(const struct model *model, u64 list)
{
	u32 nr = 0;

	for (u32 i = 0; i < model->nr_blocks; i++)
		nr += model->block[i].in && model->block[i].rank == list;
	return nr;
}

static u32 next_victim(const struct model *model)
{
	u32 victim = first_of(model, UINT64_MAX);

	if (victim != KV_NONE && has_two_lists(model) && !model->block[victim].rank && nr_in_list(model, 0) <= model->target &&
	    nr_in_list(model, 1))
		return first_of(model, 1);
	return victim;
}

u32 model_read(const struct model *model, u32 *victims)
{
	struct model copy = *model;
	u32 nr = 0;

	for (u32 victim = next_victim(&copy); victim != KV_NONE; victim = next_victim(&copy)) {
		victims[nr++] = victim;
		model_leave(&copy, victim);
	}
	return nr;
}
