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

static_assert(CREDIT_MAX / GHOST_CREDIT_STEP + 1 <= GHOST_CREDIT_MASK, "credit fits a ghost");

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
	ghosts->turn_shift = kv_order(max(ghosts->nr_sets * GHOST_WAYS / (GHOST_NR_UNITS / 4), 1u));
	ghosts->ghost = (u64 *)(uintptr_t)kv_align_up((uintptr_t)(ghosts + 1), KV_CACHELINE);
}
