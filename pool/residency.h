/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of sampled blocks; see <kvmm/residency.h>. Included by cached.h alone.
 *
 * A record is an entry's, for one generation. It is written by who registers the block, read and written
 * by who hits it, and ended by who takes its name, under the locks for that: hits have references, so
 * none of them is under way then. Two hits at a time may both measure from the same use.
 *
 * Invariant, recomputed by residency_check(): no more records are of an entry that is registered now than
 * have begun, less those that have ended. There may be fewer: a name that is forgotten by another thread
 * while it is being registered never ends, and its record is dead with the generation.
 */
#ifndef POOL_RESIDENCY_H
#define POOL_RESIDENCY_H

struct residency;

/* Atomic, all of them; ->gen is written last. */
struct residency_rec {
	u64	born_ns;
	u64	used_ns;
	u32	gen;
	u32	reserved;
};

void __residency_begin(struct residency *res, struct kvmm_pool *pool,
		       const struct kv_handle *handles, u32 nr);
void __residency_hits(struct residency *res, struct kvmm_pool *pool,
		      const struct kv_handle *refs, u32 nr);
void __residency_end(struct residency *res, struct kvmm_pool *pool,
		     const struct kv_handle *handles, u32 nr);

static inline struct residency *residency_of(const struct kvmm_pool *pool)
{
	/* Pairs with kvmm_residency_set(): what it points to is made. */
	return smp_load_acquire(&pool->residency);
}

/* They have been registered; in the read section of that. */
static inline void residency_begin(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	struct residency *res = residency_of(pool);

	if (unlikely(res != NULL))
		__residency_begin(res, pool, handles, nr);
}

/* They were hit where @refs have a gen, and are referenced. */
static inline void residency_hits(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr)
{
	struct residency *res = residency_of(pool);

	if (unlikely(res != NULL))
		__residency_hits(res, pool, refs, nr);
}

/* Their names are forgotten. ->lock held. */
static inline void residency_end(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	struct residency *res = residency_of(pool);

	if (unlikely(res != NULL))
		__residency_end(res, pool, handles, nr);
}

#endif /* POOL_RESIDENCY_H */
