/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of a pool: what each block is, run by run, while all goes on beside.
 *
 *	struct kvmm_map_run runs[64];
 *	uint32_t at = 0;
 *	int nr;
 *
 *	while ((nr = kvmm_map_read(pool, &at, 0, runs, 64)) > 0)
 *		...
 *
 * How much of that is true at one moment:
 *
 * - each block is told as it was at one moment of the call, all facts together, except that counts
 *   of references and pins of ranges may lag. Of blocks of one range side by side the reader looks
 *   at the first;
 * - each block is in exactly one run, and runs come by address: the sum of their lengths is the
 *   number of blocks, also during changes. A moving block may be met at both places, or at neither;
 * - the map of a pool that stands still is exact: for each block it agrees with
 * kvmm_block_get_info().
 *
 * A reader takes no lock of the pool, waits for nothing and allocates no host memory, so it delays
 * no other thread. Tools look through this.
 */
#ifndef KVMM_MAP_H
#define KVMM_MAP_H

#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvmm_registry;

/**
 * enum kvmm_map_state - what a block is
 * @KVMM_MAP_FREE: in the zone, or in an arena
 * @KVMM_MAP_NULL: reserved block 0
 * @KVMM_MAP_RANGE: in a range
 * @KVMM_MAP_PRIVATE, @KVMM_MAP_STAGED: of its owner alone, without and with a name
 * @KVMM_MAP_ACTIVE: registered, with references
 * @KVMM_MAP_CACHED: registered, without: a hit, or the next victim; or going with its last one
 * @KVMM_MAP_AWAY: given back to the device, see <kvmm/elastic.h>
 * @KVMM_MAP_RESERVED: free, kept behind the end of a range that grows
 * @KVMM_MAP_ASIDE: free, kept by a thread, or with the entry that it had last
 * @KVMM_MAP_CLAIMED: cached, but promised to a gang, or about to be evicted: no lookup finds it,
 *	and it counts as private
 * @KVMM_MAP_MOVING: destination of a copy, or an old place that a step may still read
 * @KVMM_MAP_LIMBO: given back, and the device may still be writing there
 *
 * Up to @KVMM_MAP_AWAY the same numbers as in enum kvmm_block_state.
 */
enum kvmm_map_state {
	KVMM_MAP_FREE,
	KVMM_MAP_NULL,
	KVMM_MAP_RANGE,
	KVMM_MAP_PRIVATE,
	KVMM_MAP_STAGED,
	KVMM_MAP_ACTIVE,
	KVMM_MAP_CACHED,
	KVMM_MAP_AWAY,
	KVMM_MAP_RESERVED,
	KVMM_MAP_ASIDE,
	KVMM_MAP_CLAIMED,
	KVMM_MAP_MOVING,
	KVMM_MAP_LIMBO,
	KVMM_NR_MAP_STATES,
};

/** kvmm_map_state_name() - "free", "range", "cached", ...; "?" if there is no such state. */
static inline const char *kvmm_map_state_name(uint32_t state)
{
	return kvmm_enum_name(KVMM_NAME_MAP_STATE, state);
}

/** kvmm_map_block_state() - what kvmm_block_get_info() calls that state: enum kvmm_block_state. */
static inline uint32_t kvmm_map_block_state(uint32_t state)
{
	if (state <= KVMM_MAP_AWAY)
		return state;
	return state == KVMM_MAP_CLAIMED ? KVMM_BLOCK_PRIVATE : KVMM_BLOCK_FREE;
}

#define KVMM_MAP_PINNED		(1u << 0)	/* stays where it is */
#define KVMM_MAP_IN_FLIGHT	(1u << 1)	/* is being copied to elsewhere */
#define KVMM_MAP_HIDDEN		(1u << 2)	/* its name is forgotten while it is still held */
#define KVMM_MAP_DUP		(1u << 3)	/* an older block has the same name */
#define KVMM_MAP_LOST		(1u << 4)	/* a failed copy destroyed the range's content */
#define KVMM_MAP_HAS_KEY	(1u << 5)	/* ->key, ->domain, ->position say something */
#define KVMM_MAP_HAS_PARENT	(1u << 6)	/* ->parent does */
#define KVMM_MAP_HAS_CLASS	(1u << 7)	/* ->cls does: the pool has classes */

/**
 * struct kvmm_map_run - blocks side by side that are of one kind
 * @owner: the owner named (<kvmm/owner.h>, kvmm_set_owner()); 0: none
 * @seq: of ranges: their sequence
 * @age_ns: since the last touch of the block untouched for longest; 0 for what is not in use
 * @deadline_ns: end of the owner's lease, on kvmm's clock; 0: no lease
 * @key, @parent: names of the first block, and of the one before it in its prompt
 * @domain: of the first block
 * @first, @nr: where
 * @state: enum kvmm_map_state
 * @flags: KVMM_MAP_*, of the first block
 * @refs, @pins: of each block, or of the range that they are in
 * @position: of the first block in its prompt, in blocks
 * @cls: eviction class
 * @prio: of ranges: enum kvmm_priority
 * @index, @gen: handle of the range at the first block, or of the block, typed by the state; 0, 0:
 *	none
 */
struct kvmm_map_run {
	uint64_t owner;
	uint64_t seq;
	uint64_t age_ns;
	uint64_t deadline_ns;
	kvmm_key_t key;
	kvmm_key_t parent;
	kvmm_domain_t domain;
	uint32_t first;
	uint32_t nr;
	uint32_t state;
	uint32_t flags;
	uint32_t refs;
	uint32_t pins;
	uint32_t position;
	uint32_t cls;
	uint32_t prio;
	uint32_t index;
	uint32_t gen;
};

/* How blocks become runs. */
#define KVMM_MAP_EACH	(1u << 0)	/* each named or private block is a run by itself */
#define KVMM_MAP_COARSE	(1u << 1)	/* only state and KVMM_MAP_PINNED tell runs apart */

/** Most blocks that one call looks at: some ten milliseconds. */
#define KVMM_MAP_PORTION	(1u << 20)

KVMM_API int kvmm_map_read_sized(struct kvmm_pool *pool, uint32_t *at, uint32_t how,
				 struct kvmm_map_run *runs, uint32_t max, size_t size);

/**
 * kvmm_map_read() - the next runs, by address
 * @at: 0, or the block to start with; moved on to the first one that was not told of
 * @how: KVMM_MAP_EACH or KVMM_MAP_COARSE, or 0: runs have one owner, sequence, domain and class,
 *	and the same references and pins
 * @runs: room for @max, at least 1
 *
 * A run ends at the last block that a call looks at, though the next call may find more of it.
 *
 * Context: any thread; lock-free.
 * Return: how many, 0 = that was all; -EINVAL; -ECHILD. A pool that is closed (-EUCLEAN elsewhere)
 * can be read, to see what became of it; blocks with senseless words are "free".
 */
static inline int kvmm_map_read(struct kvmm_pool *pool, uint32_t *at, uint32_t how,
				struct kvmm_map_run *runs, uint32_t max)
{
	return kvmm_map_read_sized(pool, at, how, runs, max, sizeof(*runs));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_MAP_H */
