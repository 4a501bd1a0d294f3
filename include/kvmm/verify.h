/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verified content: checksums of registered blocks, kept beside them and compared when they move.
 *
 * Off unless asked for. The name of a block that is registered while it is on decides whether it is
 * sampled: the same ones each time. Registering waits for nothing. The next calls of
 * kvmm_verify_tick() take the checksum on the device, behind all work that the engine's streams had
 * by then (so add them, <kvmm/step.h>): the content counts from that moment. A block that moves
 * before is summed where it comes to lie.
 *
 * It is compared again
 *
 *	- in each copy beside steps, before the new place is published: after a wrong copy the block
 *	  stays where it is, and is checked there as well;
 *	- after other moves, by the next kvmm_verify_tick();
 *	- one block after the other, by kvmm_verify_tick() when there is nothing else to do;
 *	- by kvmm_verify_blocks().
 *
 * A block with wrong content is lost: no look-up finds it any more, and its holders get -EIO.
 */
#ifndef KVMM_VERIFY_H
#define KVMM_VERIFY_H

#include <kvmm/cache.h>
#include <kvmm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct kvmm_verify_attr - what is verified
 * @size: sizeof(struct kvmm_verify_attr)
 * @sample_pm: of a thousand names, so many; 0 = none from now on (what is summed stays so)
 * @reserved: 0
 */
struct kvmm_verify_attr {
	size_t size;
	uint32_t sample_pm;
	uint32_t reserved;
};

/** kvmm_verify_set() - for blocks registered from now on. Return: 0; -EINVAL; -ENOMEM; -EOPNOTSUPP
 * the pool has no memory, or no policy. */
static inline int kvmm_verify_set(struct kvmm_pool *pool, const struct kvmm_verify_attr *attr)
{
	return kvmm_pool_set(pool, KVMM_SET_VERIFY, attr);
}

/**
 * kvmm_verify_tick() - begin and end verifications of some blocks
 *
 * At most 128 blocks a call. Ends what an earlier call has begun, and begins anew, without waiting
 * for the engine's work. A block being verified cannot be pinned, copied to a tier or evicted until
 * then (-EBUSY, -ENOSPC). kvmm_compact_poll() ends finished verifications; where the device sums on
 * its own, so do each call that publishes moves (<kvmm/step.h>), kvmm_alloc(), kvmm_acquire() and
 * kvmm_tier_offload(). kvmm_migrate_poll() ends those that it waits for. kvmm_reset_cache(),
 * kvmm_reset_inactive() and kvmm_pool_quiesce() leave none under way.
 *
 * Return: blocks with a checksum taken or compared; -EINVAL.
 */
KVMM_API int kvmm_verify_tick(struct kvmm_pool *pool);

/**
 * kvmm_verify_blocks() - compare checksums of these blocks now; waits for the device
 * @refs: of the caller; blocks without a checksum are left out
 *
 * Return: how many were compared; -EIO one of them is wrong (all were compared, and those that are
 * wrong are lost), or could not be read; -ESTALE, -EINVAL one of @refs is none (none was compared).
 */
KVMM_API int kvmm_verify_blocks(struct kvmm_pool *pool, const kvmm_ref_t *refs, uint32_t nr);

/**
 * struct kvmm_verify_stat - since the pool's creation, but for the first three
 * @sample_pm: as set
 * @pending: blocks to be summed, or to be checked after a move
 * @summed: blocks that have a checksum
 * @sums, @checks: checksums taken, compared
 * @bad_blocks: blocks that were wrong, and are lost
 * @bad_copies: copies that were wrong, and were not published
 */
struct kvmm_verify_stat {
	uint32_t sample_pm;
	uint32_t pending;
	uint32_t summed;
	uint32_t reserved;
	uint64_t sums;
	uint64_t checks;
	uint64_t bad_blocks;
	uint64_t bad_copies;
};

/** kvmm_verify_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_VERIFY. */
static inline int kvmm_verify_get_stat(struct kvmm_pool *pool, struct kvmm_verify_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_VERIFY, stat, sizeof(*stat));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_VERIFY_H */
