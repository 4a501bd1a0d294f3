/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does not move, and why: pins by type, and the reasons that a compaction met.
 *
 * A pin says which part of the engine knows an address. It is taken and undone by type, so that a
 * caller cannot undo pins of another type. Pins without a type (kvmm_pin_many(), kvmm_range_pin())
 * are of KVMM_PIN_USER; the calls are in <kvmm/cache.h> and <kvmm/pool.h>. Holds with KVMM_HOLD_PIN
 * pin by their reason (<kvmm/hold.h>).
 *
 * By rule: an engine that keeps a bare block id beyond a step, without asking again and without
 * relocations, pins the block first. kvmm cannot know of it.
 */
#ifndef KVMM_PIN_H
#define KVMM_PIN_H

#include <kvmm/cache.h>
#include <kvmm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct kvmm_pin_stat - pins held at present, by enum kvmm_pin_type
 * @blocks: on cached blocks
 * @ranges: on ranges
 */
struct kvmm_pin_stat {
	uint64_t blocks[KVMM_NR_PIN_TYPES];
	uint64_t ranges[KVMM_NR_PIN_TYPES];
};

/** kvmm_pin_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_PIN. */
static inline int kvmm_pin_get_stat(struct kvmm_pool *pool, struct kvmm_pin_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_PIN, stat, sizeof(*stat));
}

/**
 * enum kvmm_stay_reason - why a block does not move
 * @KVMM_STAY_PIN_USER: pinned; likewise up to @KVMM_STAY_PIN_GRAPH. Of several types, the last of
 *	enum kvmm_pin_type
 * @KVMM_STAY_FIXED: null block; range of KVMM_ALLOC_PINNED
 * @KVMM_STAY_PRIVATE: a private block, which its owner may be writing
 * @KVMM_STAY_STAGED: named, but not published
 * @KVMM_STAY_UNSEALED: part of a range that is not sealed
 * @KVMM_STAY_GROWING: the same, behind what is sealed of a range that grows
 * @KVMM_STAY_WRITTEN: a write by handle is under way, or a call has claimed the block
 * @KVMM_STAY_FLYING: it is being copied, or is an old or a new place of a move under way
 * @KVMM_STAY_HELD: referenced, and the world has stopped: there references keep a block in place
 * @KVMM_STAY_GOING: waits to be used, is being evicted, or its memory is about to be given back
 * @KVMM_STAY_LOST: a failed copy has destroyed the content
 * @KVMM_STAY_QUIESCENT: kvmm_pool_quiesce()
 * @KVMM_STAY_RECENT: it has moved lately
 */
enum kvmm_stay_reason {
	KVMM_STAY_PIN_USER,
	KVMM_STAY_PIN_RDMA,
	KVMM_STAY_PIN_GDS,
	KVMM_STAY_PIN_IPC,
	KVMM_STAY_PIN_COPY,
	KVMM_STAY_PIN_GRAPH,
	KVMM_STAY_FIXED,
	KVMM_STAY_PRIVATE,
	KVMM_STAY_STAGED,
	KVMM_STAY_UNSEALED,
	KVMM_STAY_GROWING,
	KVMM_STAY_WRITTEN,
	KVMM_STAY_FLYING,
	KVMM_STAY_HELD,
	KVMM_STAY_GOING,
	KVMM_STAY_LOST,
	KVMM_STAY_QUIESCENT,
	KVMM_STAY_RECENT,
	KVMM_NR_STAY_REASONS,
};

/**
 * struct kvmm_stay - one look at all blocks that are not free
 * @movable: blocks that might move
 * @staying: blocks that do not: the sum of @blocks
 * @blocks: those, by enum kvmm_stay_reason
 */
struct kvmm_stay {
	uint32_t movable;
	uint32_t staying;
	uint32_t blocks[KVMM_NR_STAY_REASONS];
};

/** kvmm_stay_last() - as the last compaction saw it; zeros before the first. */
static inline int kvmm_stay_last(struct kvmm_pool *pool, struct kvmm_stay *stay)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_STAY, stay, sizeof(*stay));
}

KVMM_API int kvmm_stay_text_sized(const struct kvmm_stay *stay, char *buf, size_t bytes,
				  size_t size);

/**
 * kvmm_stay_text() - a line "name blocks" for movable and for each reason that was met
 * @buf: room for @bytes, NUL included; always terminated if there is any
 *
 * Return: length of the whole text without NUL (it was cut if that is @bytes or more); -EINVAL.
 */
static inline int kvmm_stay_text(const struct kvmm_stay *stay, char *buf, size_t bytes)
{
	return kvmm_stay_text_sized(stay, buf, bytes, sizeof(*stay));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_PIN_H */
