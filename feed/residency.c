// SPDX-License-Identifier: Apache-2.0
/*
 * Times of sampled blocks; see <kvmm/ext/inspect.h>.
 *
 * A record belongs to an entry, for one generation. Registering the block writes it, hits read and
 * write it, and forgetting the name ends it, under the locks for that: hits have references, so
 * none of them is under way then. Two hits at a time may both measure from the same use.
 *
 * Invariant, recomputed by residency_check(): no more records are of an entry that is registered
 * now than have begun, less those that have ended. There may be fewer: a name that another thread
 * forgets while it is being registered never ends, and its record is dead with the generation.
 */
#include <kv/env.h>
#include <kv/latency.h>
#include <kv/mem.h>

#include "internal.h"

#define PPM		1000000u

/* Atomic, all of them; ->gen is written last. */
struct residency_rec {
	u64	born_ns;
	u64	used_ns;
	u32	gen;
	u32	reserved;
};

struct residency {
	u32			ppm;		/* atomic; of names registered from now on */
	u32			ppm_max;	/* atomic; the most there ever was */
	u64			nr_begun;	/* atomic, as those below */
	u64			nr_ended;
	struct kvmm_residency_stat hist[KVMM_NR_RESIDENCY_KINDS];
	struct residency_rec	rec[];		/* by entry */
};

static struct residency *residency_of(const struct kvmm_pool *pool)
{
	/* Pairs with kvmm_residency_set(): the struct behind the pointer is complete. */
	return smp_load_acquire(&pool->residency);
}

/* Keys are hashes, or successive numbers: the upper half of the product is spread in both. */
static bool is_sampled(u64 key0, u64 key1, u32 ppm)
{
	u64 mixed = (key0 ^ (key1 << 32 | key1 >> 32)) * 0x9e3779b97f4a7c15ull;

	kv_assert(ppm <= PPM);
	return (mixed >> 32) * PPM >> 32 < ppm;
}

int kv_residency_sampled(const kvmm_key_t *key, uint32_t ppm)
{
	u64 word[2];

	if (!key || ppm > PPM)
		return -EINVAL;
	kv_key_words(key, word);
	return is_sampled(word[0], word[1], ppm);
}

static bool entry_is_sampled(const struct kvmm_pool *pool, u32 index, u32 ppm)
{
	const struct kv_entry *entry = entry_at(pool, index);

	kv_assert(index < pool->entries.nr);
	return is_sampled(READ_ONCE(entry->key[0]), READ_ONCE(entry->key[1]), ppm);
}

static void add(struct residency *res, enum kvmm_residency_kind kind, u64 since_ns, u64 now_ns)
{
	struct kvmm_residency_stat *hist = &res->hist[kind];
	u64 ns = now_ns > since_ns ? now_ns - since_ns : 0;

	kv_assert(kind < KVMM_NR_RESIDENCY_KINDS);
	kv_fetch_add(&hist->bucket[kv_age_bucket(ns)], 1);
	kv_fetch_add(&hist->sum_ns, ns);
}

static void residency_registered(struct kvmm_pool *pool, const struct kv_handle *handles,
				 const struct kv_handle *found, u32 nr)
{
	struct residency *res = residency_of(pool);
	u32 ppm = READ_ONCE(res->ppm);

	kv_assert_reading();
	for (u32 i = 0; i < nr && ppm; i++) {
		struct residency_rec *rec = &res->rec[handles[i].index];
		u64 now;

		if (handles[i].index != found[i].index || handles[i].gen != found[i].gen)
			continue;
		if (!entry_is_sampled(pool, handles[i].index, ppm))
			continue;
		now = kv_clock_ns();
		WRITE_ONCE(rec->born_ns, now);
		WRITE_ONCE(rec->used_ns, now);
		kv_fetch_add(&res->nr_begun, 1);
		/* Pairs with is_of(): a thread that sees that it is the entry's sees the times. */
		smp_store_release(&rec->gen, handles[i].gen);
	}
}

static bool is_of(const struct residency_rec *rec, u32 gen)
{
	return smp_load_acquire(&rec->gen) == gen;	/* pairs with residency_registered() */
}

static void residency_hit(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr)
{
	struct residency *res = residency_of(pool);
	u32 ppm = READ_ONCE(res->ppm_max);

	for (u32 i = 0; i < nr; i++) {
		struct residency_rec *rec = &res->rec[refs[i].index];
		u64 now;

		if (!refs[i].gen || !entry_is_sampled(pool, refs[i].index, ppm) ||
		    !is_of(rec, refs[i].gen))
			continue;
		now = kv_clock_ns();
		add(res, KVMM_RESIDENCY_REUSE, READ_ONCE(rec->used_ns), now);
		add(res, KVMM_RESIDENCY_HIT_AGE, READ_ONCE(rec->born_ns), now);
		WRITE_ONCE(rec->used_ns, now);
	}
}

static void residency_removed(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	struct residency *res = residency_of(pool);
	u32 ppm = READ_ONCE(res->ppm_max);

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr; i++) {
		struct residency_rec *rec = &res->rec[handles[i].index];
		u64 now;

		if (!entry_is_sampled(pool, handles[i].index, ppm) || !is_of(rec, handles[i].gen))
			continue;
		now = kv_clock_ns();
		add(res, KVMM_RESIDENCY_LIFETIME, READ_ONCE(rec->born_ns), now);
		add(res, KVMM_RESIDENCY_IDLE, READ_ONCE(rec->used_ns), now);
		WRITE_ONCE(rec->gen, 0);
		kv_fetch_add(&res->nr_ended, 1);
	}
}

/* ---- the call ---- */

extern const struct pool_part residency_part;

/* Made once; compact_lock held. */
static int get(struct kvmm_pool *pool, struct residency **res)
{
	int err = pool_refusal(pool);

	kv_assert_held(&pool->compact_lock);
	*res = residency_of(pool);
	if (err || *res)
		return err;
	*res = kv_alloc(sizeof(**res) + pool->nr_blocks * sizeof(struct residency_rec));
	if (!*res)
		return -ENOMEM;
	/* Pairs with residency_of(). */
	smp_store_release(&pool->residency, *res);
	pool_observe(pool, &residency_part);
	return 0;
}

int residency_set(struct kvmm_pool *pool, const void *value)
{
	u32 ppm = value ? *(const u32 *)value : UINT32_MAX;
	struct residency *res;
	int err;

	if (ppm > PPM)
		return -EINVAL;
	if (!pool->caches)
		return -EOPNOTSUPP;
	kv_lock(&pool->compact_lock);
	err = get(pool, &res);
	if (!err) {
		WRITE_ONCE(res->ppm_max, max(res->ppm_max, ppm));
		WRITE_ONCE(res->ppm, ppm);
	}
	kv_unlock(&pool->compact_lock);
	return err;
}

static void read_hist(const struct kvmm_residency_stat *hist, struct kvmm_residency_stat *stat)
{
	for (u32 i = 0; i <= KVMM_RESIDENCY_BOUNDS; i++)
		stat->bucket[i] = READ_ONCE(hist->bucket[i]);
	stat->sum_ns = READ_ONCE(hist->sum_ns);
}

int residency_stat_read(struct kvmm_pool *pool, void *out)
{
	const struct residency *res = residency_of(pool);
	struct kvmm_residency_stat *stat = out;

	for (u32 kind = 0; res && kind < KVMM_NR_RESIDENCY_KINDS; kind++)
		read_hist(&res->hist[kind], &stat[kind]);
	return 0;
}

void glance_residency(const struct kvmm_pool *pool, struct kv_pool_glance *glance)
{
	const struct residency *res = residency_of(pool);

	if (!res)
		return;
	glance->residency_ppm = READ_ONCE(res->ppm);
	for (u32 kind = 0; kind < KVMM_NR_RESIDENCY_KINDS; kind++)
		read_hist(&res->hist[kind], &glance->residency[kind]);
}

/* ---- for the pool ---- */

static void residency_exit(struct kvmm_pool *pool)
{
	kv_free(pool->residency);
}

static u64 residency_bytes(struct kvmm_pool *pool)
{
	return residency_of(pool) ? sizeof(struct residency) +
				    pool->nr_blocks * sizeof(struct residency_rec) : 0;
}

static int residency_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	const struct residency *res = residency_of(pool);
	u64 nr = 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; res && i < pool->nr_blocks; i++) {
		const struct residency_rec *rec = &res->rec[i];
		u64 word = READ_ONCE(entry_at(pool, i)->word);

		if (!rec->gen || kv_word_gen(word) != rec->gen ||
		    !kv_word_is(word, KV_ENTRY_REGISTERED) || word & KV_ENTRY_HIDDEN)
			continue;
		if (rec->used_ns < rec->born_ns || !entry_is_sampled(pool, i, res->ppm_max))
			return -EUCLEAN;
		nr++;
	}
	return res && (nr > res->nr_begun - res->nr_ended ||
		       res->ppm > res->ppm_max) ? -EUCLEAN : 0;
}

static const struct pool_observer observer = {
	.registered	= residency_registered,
	.hit		= residency_hit,
	.removed	= residency_removed,
};

POOL_PART(residency) = {
	.name	= "times of sampled blocks",
	.exit	= residency_exit,
	.observer = &observer,
	.bytes	= residency_bytes,
	.check	= residency_check,
};
