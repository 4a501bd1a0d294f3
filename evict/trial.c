// SPDX-License-Identifier: Apache-2.0
/* Which half-life would have hit most often? See trial.h. */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/types.h>

#include "trial.h"

/* More sampled keys tell two candidates apart earlier, and cost more. */
#define MAX_FIT		1024u
/* Keys remembered for each that fits: as the ghosts of a small pool. */
#define KEYS_A_FIT	8u
/* Epochs of this part of the pool... */
#define EPOCHS_A_FIT	4u
/* ...but not so short that chance decides; and each melts a quarter of the score away. */
#define MIN_EPOCH	1250u
/* The lead that another candidate must have: 1/256 and a few hits. */
#define LEAD_SHIFT	8u
#define LEAD_MIN	(4 * TRIAL_HIT)

/* LRU hits next to nothing: less than one of so many uses; and what is followed then. */
#define POOR_PARTS	16u
#define POOR_BEST	5u

/* Half-lives in sixteenths of the pool's size; time passes as blocks are filled. */
static const u16 half_lives[NR_TRIALS] = { 0, 4, 8, 16, 32, 64, 256 };

static u32 sample_shift(u32 nr_blocks)
{
	return nr_blocks > MAX_FIT ? kv_order((nr_blocks + MAX_FIT - 1) / MAX_FIT) : 0;
}

static u32 nr_sets_for(u32 nr_blocks)
{
	u32 nr_fit = max(nr_blocks >> sample_shift(nr_blocks), 1u);

	return 1u << kv_order((nr_fit * KEYS_A_FIT + TRIAL_WAYS - 1) / TRIAL_WAYS);
}

size_t trial_bytes(u32 nr_blocks)
{
	return sizeof(struct trial) + KV_CACHELINE +
	       (size_t)nr_sets_for(nr_blocks) * TRIAL_WAYS * sizeof(struct trial_key);
}

void trial_init(struct trial *trial, u32 nr_blocks)
{
	u32 shift = sample_shift(nr_blocks);

	trial->nr_fit = max(nr_blocks >> shift, 1u);
	trial->nr_sets = nr_sets_for(nr_blocks);
	trial->sample_mask = BIT(shift) - 1;
	trial->shift = kv_log2(max(nr_blocks / 32, 1u));
	trial->epoch = max(trial->nr_fit / EPOCHS_A_FIT, MIN_EPOCH >> shift);
	trial->key = (struct trial_key *)(uintptr_t)kv_align_up((uintptr_t)(trial + 1),
							       KV_CACHELINE);
	for (u32 i = 0; i < NR_TRIALS; i++)
		trial->candidate[i].half = half_life_of((u64)nr_blocks * half_lives[i] / 16);
}

/* ---- keys ---- */

static u32 tag_of(u64 hash)
{
	return (u32)(hash >> 8) | 1;
}

/* The key, or an empty place; NULL: its set is full of others. */
static struct trial_key *find(struct trial_key *set, u32 tag)
{
	struct trial_key *empty = NULL;

	for (u32 i = 0; i < TRIAL_WAYS; i++) {
		if (set[i].tag == tag)
			return &set[i];
		if (!set[i].tag)
			empty = &set[i];
	}
	return empty;
}

/* ---- one candidate ---- */

static u64 bucket_of(const struct trial *trial, const struct candidate *candidate, u32 credit,
		     u64 last)
{
	return (last + credit_ticks(credit, &candidate->half)) >> trial->shift;
}

static u16 *count_at(struct candidate *candidate, u64 bucket)
{
	return &candidate->count[min(bucket, candidate->floor + TRIAL_BUCKETS - 1) %
				 TRIAL_BUCKETS];
}

/* Was it above the floor? It is not counted any more. */
static bool uncount(struct candidate *candidate, u64 bucket)
{
	u16 *count;

	if (bucket < candidate->floor)
		return false;
	/* A hit beyond the window when it came was counted as nearer: that one is lost. */
	count = count_at(candidate, bucket);
	if (unlikely(!*count))
		return false;
	--*count;
	candidate->nr_above--;
	return true;
}

static void count(struct candidate *candidate, u64 bucket, u32 nr_fit)
{
	if (bucket < candidate->floor)
		return;
	++*count_at(candidate, bucket);
	candidate->nr_above++;
	while (candidate->nr_above > nr_fit) {
		u16 *lowest = count_at(candidate, candidate->floor);

		candidate->nr_above -= *lowest;
		*lowest = 0;
		candidate->floor++;
	}
}

static void use(const struct trial *trial, struct candidate *candidate, u8 *credit, u64 now,
		u64 last, bool is_new)
{
	if (is_new) {
		*credit = 0;
	} else {
		u64 bucket = bucket_of(trial, candidate, *credit, last);

		candidate->score += uncount(candidate, bucket) ? TRIAL_HIT : 0;
		*credit = credit_after(*credit, min(now - last, (u64)~0u), &candidate->half);
	}
	count(candidate, bucket_of(trial, candidate, *credit, now), trial->nr_fit);
}

/* ---- all of them ---- */

static u64 last_use(const struct trial_key *key, u64 now)
{
	return now - (u32)((u32)now - key->last);
}

/* It is new there if its tag is 0. */
static struct trial_key *place_of(struct trial *trial, u64 hash, u64 now)
{
	struct trial_key *set = &trial->key[(hash >> 32 & (trial->nr_sets - 1)) * TRIAL_WAYS];
	struct trial_key *key = find(set, tag_of(hash));

	if (key)
		return key;
	key = set;	/* the oldest of it is forgotten */
	for (u32 i = 1; i < TRIAL_WAYS; i++)
		if ((u32)now - set[i].last > (u32)now - key->last)
			key = &set[i];
	for (u32 i = 0; i < NR_TRIALS; i++) {
		struct candidate *candidate = &trial->candidate[i];

		uncount(candidate, bucket_of(trial, candidate, key->credit[i],
					     last_use(key, now)));
	}
	key->tag = 0;
	return key;
}

/* Is there next to nothing that LRU could lose, and nothing that it leads by? */
static bool lru_is_poor(const struct trial *trial)
{
	u32 score = trial->candidate[0].score;

	return score && score / TRIAL_HIT * POOR_PARTS < trial->nr_recent &&
	       score <= trial->candidate[POOR_BEST].score;
}

static bool end_epoch(struct trial *trial)
{
	u32 best = trial->best, score = trial->candidate[best].score;
	bool changed;

	score += (score >> LEAD_SHIFT) + LEAD_MIN;
	for (u32 i = 0; i < NR_TRIALS; i++) {
		if (trial->candidate[i].score <= score)
			continue;
		best = i;
		score = trial->candidate[i].score;
	}
	trial->nr_recent += trial->nr_uses;
	if (!best && lru_is_poor(trial))
		best = POOR_BEST;
	trial->nr_recent -= trial->nr_recent >> TRIAL_MELT_SHIFT;
	changed = best != trial->best;
	trial->nr_uses = 0;
	trial->best = best;
	for (u32 i = 0; i < NR_TRIALS; i++)
		trial->candidate[i].score -= trial->candidate[i].score >> TRIAL_MELT_SHIFT;
	return changed;
}

bool trial_use(struct trial *trial, u64 hash, u64 now)
{
	struct trial_key *key;
	bool is_new;

	kv_assert(trial_samples(trial, hash));
	key = place_of(trial, hash, now);
	is_new = !key->tag;
	for (u32 i = 0; i < NR_TRIALS; i++)
		use(trial, &trial->candidate[i], &key->credit[i], now, last_use(key, now), is_new);
	key->tag = tag_of(hash);
	key->last = now;
	return ++trial->nr_uses >= trial->epoch && end_epoch(trial);
}

int trial_check(const struct trial *trial)
{
	for (u32 i = 0; i < NR_TRIALS; i++) {
		const struct candidate *candidate = &trial->candidate[i];
		u32 nr = 0;

		for (u32 b = 0; b < TRIAL_BUCKETS; b++)
			nr += candidate->count[b];
		if (nr != candidate->nr_above || nr > trial->nr_fit)
			return -EUCLEAN;
	}
	return trial->best < NR_TRIALS ? 0 : -EUCLEAN;
}
