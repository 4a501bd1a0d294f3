// SPDX-License-Identifier: Apache-2.0
/* Counters of 4 bits, 16 to a word; see sketch.h. */
#include <kv/bits.h>
#include <kv/hash.h>

#include "sketch.h"

#define NR_HASHES	4u
#define COUNTER_BITS	4u
#define COUNTERS	16u		/* to a word */
#define COUNTERS_A_KEY	4u
#define WINDOW		10u		/* in keys of the capacity */
#define HALF_MASK	0x7777777777777777ull

struct place {
	u32 word;
	u32 shift;
};

/* The lowest bits choose the counter, those above the word: no bit does both. */
static struct place place_of(const struct sketch *sketch, u64 bits)
{
	return (struct place){
		.word	= bits / COUNTERS & (sketch->nr_words - 1),
		.shift	= bits % COUNTERS * COUNTER_BITS,
	};
}

static void places_of(const struct sketch *sketch, u64 hash, struct place *places)
{
	u64 other = kv_mul_fold(hash ^ 0x9e3779b97f4a7c15ull, 0xd6e8feb86659fd93ull);

	places[0] = place_of(sketch, hash & ~0u);
	places[1] = place_of(sketch, hash >> 32);
	places[2] = place_of(sketch, other & ~0u);
	places[3] = place_of(sketch, other >> 32);
}

size_t sketch_bytes(u32 capacity)
{
	u64 nr_words = 1ull << kv_order(max(capacity, 1u) * (u64)COUNTERS_A_KEY / COUNTERS + 1);

	return sizeof(struct sketch) + nr_words * sizeof(u64);
}

void sketch_init(struct sketch *sketch, u32 capacity)
{
	sketch->nr_words = (sketch_bytes(capacity) - sizeof(*sketch)) / sizeof(u64);
	sketch->window = (u64)sketch->nr_words * COUNTERS / COUNTERS_A_KEY * WINDOW;
}

static u32 lowest_of(const struct sketch *sketch, const struct place *places)
{
	u32 lowest = SKETCH_MAX;

	for (u32 i = 0; i < NR_HASHES; i++)
		lowest = min(lowest, (u32)(sketch->word[places[i].word] >> places[i].shift &
					   SKETCH_MAX));
	return lowest;
}

u32 sketch_estimate(const struct sketch *sketch, u64 hash)
{
	struct place places[NR_HASHES];

	places_of(sketch, hash, places);
	return lowest_of(sketch, places);
}

/* One word of the rounds that have begun. */
static void halve_one(struct sketch *sketch)
{
	u64 *word = &sketch->word[sketch->nr_halved & (sketch->nr_words - 1)];

	if (likely(sketch->nr_halved >= sketch->nr_added / sketch->window * sketch->nr_words))
		return;
	*word = *word >> 1 & HALF_MASK;
	sketch->nr_halved++;
}

void sketch_add(struct sketch *sketch, u64 hash)
{
	struct place places[NR_HASHES];
	u32 lowest;

	places_of(sketch, hash, places);
	lowest = lowest_of(sketch, places);
	for (u32 i = 0; lowest < SKETCH_MAX && i < NR_HASHES; i++) {
		u64 *word = &sketch->word[places[i].word];

		if ((*word >> places[i].shift & SKETCH_MAX) == lowest)
			*word += 1ull << places[i].shift;
	}
	sketch->nr_added++;
	halve_one(sketch);
}
