/* SPDX-License-Identifier: Apache-2.0 */
/* Calls for users built on a pool, besides public ones: requests to look up that may be refused. */
#ifndef KV_POOL_REQUEST_H
#define KV_POOL_REQUEST_H

#include <kv/registry_map.h>
#include <kvmm/cache.h>
#include <kvmm/ext/admission.h>

/* Fixed at creation. */
u32 kv_pool_block_tokens(const struct kvmm_pool *pool);

/*
 * Each look-up is counted here: of @query's keys @nr_hits were hits, the others misses. If it was
 * for the first @max_hits and the hits end before, the map notes why. It was for a request of
 * @nr_blocks that is admitted, or for none (0), and observers are told. No lock held, unless they
 * are not.
 */
#define KV_LOOKUP_UNTOLD	UINT32_MAX
void kv_lookup_end(struct kvmm_pool *pool, const struct kv_query *query, u32 max_hits, u32 nr_hits,
		   u32 nr_blocks);

/*
 * kvmm_alloc_poll() of a ticket that is for @nr blocks from now on; KV_NONE: for as many as before.
 * With @nr 0 it takes none yet: 0 or 1 says that it is the first of the queue, 1 that it is worth
 * trying. No lock held.
 */
int kv_alloc_poll(struct kvmm_pool *pool, kvmm_ticket_t ticket, u32 nr);

/* Give up a ticket; it took no blocks. 0; -ESTALE. No lock held. */
int kv_alloc_withdraw(struct kvmm_pool *pool, kvmm_ticket_t ticket);

/* Does a private block of the caller have other holders? If not, it gets none but by the caller. */
bool kv_mut_is_shared(const struct kvmm_pool *pool, kvmm_mut_t mut);

#endif /* KV_POOL_REQUEST_H */
