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

#define CREDIT_SHIFT		20
#define CREDIT_MASK		(BIT(6) - 1)
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
	ghosts->step_shift = kv_order(max(ghosts->nr_sets * GHOST_WAYS / (GHOST_STEPS / 4), 1u));
	ghosts->turn_shift = kv_order(max(ghosts->nr_sets * GHOST_WAYS / (NR_UNITS / 4), 1u));
	ghosts->ghost = (u64 *)(uintptr_t)kv_align_up((uintptr_t)(ghosts + 1), KV_CACHELINE);
}

static u32 tag_of(u64 hash)
{
	u32 tag = hash & GHOST_TAG_MASK;

	return tag + !tag;
}

/* Where a new one goes: on its former self, where nothing is, or on the oldest. */
static u64 *place_for(u64 *set, u32 tag, u32 step)
{
	u32 ways = ghost_ways_with(set, tag);

	ways = likely(!ways) ? ghost_ways_with(set, 0) : ways;
	ways = ways ? ways : ghost_oldest(set, step);
	return &set[kv_lowest64(ways)];
}

void ghost_put(struct ghosts *ghosts, u64 hash, const struct ghost_past *past, u64 now)
{
	u64 step = past->last >> ghosts->step_shift, unit = past->turn >> ghosts->turn_shift;
	u32 tag = tag_of(hash);

	*place_for(ghost_set(ghosts, hash), tag, now >> ghosts->step_shift) =
		tag | (u64)(past->credit / CREDIT_STEP + 1) << CREDIT_SHIFT |
		(step & (GHOST_STEPS - 1)) << GHOST_LAST_SHIFT | unit << TURN_SHIFT;
}

bool ghost_take(struct ghosts *ghosts, u64 hash, struct ghost_past *past)
{
	u64 *set = ghost_set(ghosts, hash), *ghost;
	u32 ways = ghost_ways_with(set, tag_of(hash)), steps, units;

	if (!ways)
		return false;
	ghost = &set[kv_lowest64(ways)];
	past->credit = ((*ghost >> CREDIT_SHIFT & CREDIT_MASK) - 1) * CREDIT_STEP;
	steps = ((past->last >> ghosts->step_shift) - (*ghost >> GHOST_LAST_SHIFT)) & (GHOST_STEPS - 1);
	past->last -= min((u64)steps << ghosts->step_shift, past->last);
	units = ((past->turn >> ghosts->turn_shift) - (*ghost >> TURN_SHIFT)) & (NR_UNITS - 1);
	past->turn -= min((u64)units << ghosts->turn_shift, past->turn);
	*ghost = 0;
	return true;
}
