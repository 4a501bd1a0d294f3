// SPDX-License-Identifier: Apache-2.0
/* A table of fingerprints; see ghost.h. */
#include <kv/atomic.h>
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
#define NR_STEPS		BIT(14)
#define NR_UNITS		BIT(24)
#define CREDIT_STEP		2u

static_assert(sizeof(struct ghost) == 8, "a ghost is 8 bytes");
static_assert(CREDIT_MAX / CREDIT_STEP + 1 < BIT(6), "credit fits a ghost");

static u32 nr_sets_for(u32 nr_blocks)
{
	u64 nr = min((u64)nr_blocks * SMALL_GHOSTS_A_BLOCK, (u64)SMALL_GHOSTS);

	nr = max(nr, (u64)nr_blocks * GHOSTS_A_BLOCK);
	return 1u << kv_order((nr + GHOST_WAYS - 1) / GHOST_WAYS);
}

size_t ghosts_bytes(u32 nr_blocks)
{
	return sizeof(struct ghosts) + KV_CACHELINE +
	       (size_t)nr_sets_for(nr_blocks) * GHOST_WAYS * sizeof(struct ghost);
}

void ghosts_init(struct ghosts *ghosts, u32 nr_blocks)
{
	ghosts->nr_sets = nr_sets_for(nr_blocks);
	ghosts->step_shift = kv_order(max(ghosts->nr_sets * GHOST_WAYS / (NR_STEPS / 4), 1u));
	ghosts->turn_shift = kv_order(max(ghosts->nr_sets * GHOST_WAYS / (NR_UNITS / 4), 1u));
	ghosts->ghost = (struct ghost *)(uintptr_t)kv_align_up((uintptr_t)(ghosts + 1),
							      KV_CACHELINE);
}

static struct ghost *set_of(const struct ghosts *ghosts, u64 hash)
{
	return &ghosts->ghost[(hash >> 24 & (ghosts->nr_sets - 1)) * GHOST_WAYS];
}

static u32 steps_since(const struct ghosts *ghosts, const struct ghost *ghost, u64 now)
{
	return ((now >> ghosts->step_shift) - ghost->last) & (NR_STEPS - 1);
}

static struct ghost *find(struct ghost *set, u32 tag)
{
	for (u32 i = 0; i < GHOST_WAYS; i++)
		if (set[i].tag == tag && set[i].credit)
			return &set[i];
	return NULL;
}

/* Where a new one goes: on its former self, where nothing is, or on the oldest. */
static struct ghost *place_for(const struct ghosts *ghosts, struct ghost *set, u32 tag, u64 now)
{
	struct ghost *place = set;
	u32 most = 0;

	for (u32 i = 0; i < GHOST_WAYS; i++) {
		u32 steps = set[i].credit ? steps_since(ghosts, &set[i], now) : NR_STEPS;

		if (unlikely(set[i].tag == tag && set[i].credit))
			return &set[i];
		place = steps > most ? &set[i] : place;
		most = max(most, steps);
	}
	return place;
}

void ghost_expect(const struct ghosts *ghosts, u64 hash)
{
	kv_prefetch_write(set_of(ghosts, hash));
}

void ghost_put(struct ghosts *ghosts, u64 hash, const struct ghost_past *past, u64 now)
{
	struct ghost *place = place_for(ghosts, set_of(ghosts, hash), hash & TAG_MASK, now);

	place->tag = hash;
	place->credit = past->credit / CREDIT_STEP + 1;
	place->last = past->last >> ghosts->step_shift;
	place->turn = past->turn >> ghosts->turn_shift;
}

bool ghost_take(struct ghosts *ghosts, u64 hash, struct ghost_past *past)
{
	struct ghost *ghost = find(set_of(ghosts, hash), hash & TAG_MASK);
	u32 units;

	if (!ghost)
		return false;
	past->credit = (ghost->credit - 1u) * CREDIT_STEP;
	past->last -= min((u64)steps_since(ghosts, ghost, past->last) << ghosts->step_shift,
			  past->last);
	units = ((past->turn >> ghosts->turn_shift) - ghost->turn) & (NR_UNITS - 1);
	past->turn -= min((u64)units << ghosts->turn_shift, past->turn);
	ghost->credit = 0;
	return true;
}
