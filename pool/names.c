// SPDX-License-Identifier: Apache-2.0
/* Words for numbers that the pool gives out: what its enums are called in tools and logs. */
#include <kvmm/alloc.h>
#include <kvmm/compact.h>
#include <kvmm/map.h>
#include <kvmm/owner.h>

#include "internal.h"

static const char *const steps[KVMM_NR_STEPS] = {
	[KVMM_STEP_DRAIN]   = "drain",	 [KVMM_STEP_STEAL]   = "steal",
	[KVMM_STEP_EVICT]   = "evict",	 [KVMM_STEP_DROP]    = "drop",
	[KVMM_STEP_COMPACT] = "compact", [KVMM_STEP_OFFLOAD] = "offload",
	[KVMM_STEP_WAIT]    = "wait",
};

static const char *const goals[KVMM_NR_GOALS] = {
	[KVMM_GOAL_RUN] = "run", [KVMM_GOAL_PAGEBLOCKS] = "pageblocks",
	[KVMM_GOAL_SHORTEN] = "shorten", [KVMM_GOAL_GATHER] = "gather",
};

static const char *const map_states[KVMM_NR_MAP_STATES] = {
	[KVMM_MAP_FREE] = "free", [KVMM_MAP_NULL] = "null", [KVMM_MAP_RANGE] = "range",
	[KVMM_MAP_PRIVATE] = "private", [KVMM_MAP_STAGED] = "staged",
	[KVMM_MAP_ACTIVE] = "active", [KVMM_MAP_CACHED] = "cached",
	[KVMM_MAP_AWAY] = "away", [KVMM_MAP_RESERVED] = "reserved",
	[KVMM_MAP_ASIDE] = "aside", [KVMM_MAP_CLAIMED] = "claimed",
	[KVMM_MAP_MOVING] = "moving", [KVMM_MAP_LIMBO] = "limbo",
};

static const char *const hold_reasons[KVMM_NR_HOLD_REASONS] = {
	[KVMM_HOLD_USER] = "user", [KVMM_HOLD_REQUEST] = "request",
	[KVMM_HOLD_TRANSFER] = "transfer", [KVMM_HOLD_RDMA] = "rdma",
	[KVMM_HOLD_GDS] = "gds", [KVMM_HOLD_IPC] = "ipc", [KVMM_HOLD_COPY] = "copy",
	[KVMM_HOLD_GRAPH] = "graph",
};

static const char *const owned_kinds[KVMM_NR_OWNED_KINDS] = {
	[KVMM_OWNED_RANGE] = "range", [KVMM_OWNED_PRIVATE] = "private",
	[KVMM_OWNED_STAGED] = "staged", [KVMM_OWNED_HOLD] = "hold",
	[KVMM_OWNED_PIN] = "pin",
};

static const struct {
	const char *const *name;
	u32 nr;
} names[KVMM_NR_NAMES] = {
	[KVMM_NAME_STEP] = { steps, KVMM_NR_STEPS },
	[KVMM_NAME_GOAL] = { goals, KVMM_NR_GOALS },
	[KVMM_NAME_MAP_STATE] = { map_states, KVMM_NR_MAP_STATES },
	[KVMM_NAME_HOLD_REASON] = { hold_reasons, KVMM_NR_HOLD_REASONS },
	[KVMM_NAME_OWNED_KIND] = { owned_kinds, KVMM_NR_OWNED_KINDS },
};

const char *kvmm_name(enum kvmm_name_of what, uint32_t number)
{
	if ((u32)what >= KVMM_NR_NAMES || number >= names[what].nr)
		return "?";
	return names[what].name[number];
}
