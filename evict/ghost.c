// SPDX-License-Identifier: Apache-2.0
/* A table of fingerprints; see ghost.h. */
#include <kv/bits.h>
#include <kv/types.h>

#include "credit.h"
#include "ghost.h"

/*
 * Enough for four times the pool; for small pools more, since keys worth keeping there come back
 * after many times the pool's size.
 */
#define GHOSTS_A_BLOCK		4u
#define SMALL_GHOSTS_A_BLOCK	64u
#define SMALL_GHOSTS		BIT(16)

#define TAG_MASK		(BIT(20) - 1)
#define CREDIT_SHIFT		20
#define CREDIT_MASK		(BIT(6) - 1)
#define LAST_SHIFT		26
#define NR_STEPS		BIT(14)
#define TURN_SHIFT		40
#define NR_UNITS		BIT(24)
#define CREDIT_STEP		2u

static_assert(CREDIT_MAX / CREDIT_STEP + 1 <= CREDIT_MASK, "credit fits a ghost");

static u32 nr_sets_for(u32 nr_blocks)
{
	u64 nr = min((u64)nr_blocks * SMALL_GHOSTS_A_BLOCK, (u64)SMALL_GHOSTS);

	nr = max(nr, (u64)nr_blocks * GHOSTS_A_BLOCK);
	return 1u << kv_order((nr + GHOST_WAYS - 1) / GHOST_WAYS);
}

size_t ghosts_bytes(u32 nr_blocks)
{
	return sizeof(struct ghosts) + KV_CACHELINE +
	       (size_t)nr_sets_for(nr_blocks) * GHOST_WAYS * sizeof(u64);
}

void ghosts_init(struct ghosts *ghosts, u32 nr_blocks)
{
	ghosts->nr_sets = nr_sets_for(nr_blocks);
	ghosts->step_shift = kv_order(max(ghosts->nr_sets * GHOST_WAYS / (NR_STEPS / 4), 1u));
	ghosts->turn_shift = kv_order(max(ghosts->nr_sets * GHOST_WAYS / (NR_UNITS / 4), 1u));
	ghosts->ghost = (u64 *)(uintptr_t)kv_align_up((uintptr_t)(ghosts + 1), KV_CACHELINE);
}

static u64 *find(u64 *set, u32 tag)
{
	for (u32 i = 0; i < GHOST_WAYS; i++)
		if (set[i] && (set[i] & TAG_MASK) == tag)
			return &set[i];
	return NULL;
}

/* Where a new one goes: on its former self, where nothing is, or on the oldest. */
static u64 *place_for(u64 *set, u32 tag, u32 step)
{
	u32 most = 0, way = 0;

	for (u32 i = 0; i < GHOST_WAYS; i++) {
		u32 steps = (step - (u32)(set[i] >> LAST_SHIFT)) & (NR_STEPS - 1);

		if (unlikely(!set[i]))
			steps = NR_STEPS;
		else if (unlikely((set[i] & TAG_MASK) == tag))
			return &set[i];
		way = steps > most ? i : way;
		most = max(most, steps);
	}
	return &set[way];
}

void ghost_put(struct ghosts *ghosts, u64 hash, const struct ghost_past *past, u64 now)
{
	u64 step = past->last >> ghosts->step_shift, unit = past->turn >> ghosts->turn_shift;
	u32 tag = hash & TAG_MASK;

	*place_for(ghost_set(ghosts, hash), tag, now >> ghosts->step_shift) =
		tag | (u64)(past->credit / CREDIT_STEP + 1) << CREDIT_SHIFT |
		(step & (NR_STEPS - 1)) << LAST_SHIFT | unit << TURN_SHIFT;
}

bool ghost_take(struct ghosts *ghosts, u64 hash, struct ghost_past *past)
{
	u64 *ghost = find(ghost_set(ghosts, hash), hash & TAG_MASK);
	u32 steps, units;

	if (!ghost)
		return false;
	past->credit = ((*ghost >> CREDIT_SHIFT & CREDIT_MASK) - 1) * CREDIT_STEP;
	steps = ((past->last >> ghosts->step_shift) - (*ghost >> LAST_SHIFT)) & (NR_STEPS - 1);
	past->last -= min((u64)steps << ghosts->step_shift, past->last);
	units = ((past->turn >> ghosts->turn_shift) - (*ghost >> TURN_SHIFT)) & (NR_UNITS - 1);
	past->turn -= min((u64)units << ghosts->turn_shift, past->turn);
	*ghost = 0;
	return true;
}
