// SPDX-License-Identifier: Apache-2.0
/* The sketch against exact counts of a Zipf stream, and against arithmetic that wastes counters. */
#include <math.h>

#include <kv/bits.h>

#include "evict/sketch.h"
#include "tests/support/test.h"

#define CAPACITY	BIT(16)
#define NR_KEYS		100000u
#define NR_USES		600000u

static u64 mix(u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static struct sketch *make(u32 capacity)
{
	struct sketch *sketch = kv_alloc_lines(1, sketch_bytes(capacity));

	cr_assert(sketch);
	sketch_init(sketch, capacity);
	return sketch;
}

/* Key of rank n is used in proportion to 1 / (n + 1): by the inverse of the sum. */
static u32 zipf(u64 *random)
{
	double unit;

	*random = *random * 6364136223846793005ull + 1442695040888963407ull;
	unit = (double)(*random >> 11) * 0x1p-53;
	return min((u32)exp(unit * log(NR_KEYS)) - 1, NR_KEYS - 1);
}

/*
 * The same memory, but the counter of a word is chosen by the lowest bits of the hash, which choose
 * the word, too: a word uses one of its 16 counters.
 */
struct wasteful {
	u64 *word;
	u32 nr_words;
};

static u8 *counters_of(struct wasteful *wasteful)
{
	return (u8 *)wasteful->word;
}

/* By counters of a byte, of which it also uses only one in 16. */
static u32 wasteful_place(const struct wasteful *wasteful, u64 hash, u32 nth)
{
	u64 bits = mix(hash + nth * 0x9e3779b97f4a7c15ull);

	return (bits & (wasteful->nr_words - 1)) * 16 + (bits & 15);
}

static u32 wasteful_estimate(struct wasteful *wasteful, u64 hash)
{
	u32 lowest = SKETCH_MAX;

	for (u32 i = 0; i < 4; i++)
		lowest = min(lowest, (u32)counters_of(wasteful)[wasteful_place(wasteful, hash, i)]);
	return lowest;
}

static void wasteful_add(struct wasteful *wasteful, u64 hash)
{
	for (u32 i = 0; i < 4; i++) {
		u8 *count = &counters_of(wasteful)[wasteful_place(wasteful, hash, i)];

		*count += *count < SKETCH_MAX;
	}
}

/* Mean error over all keys that were used, and counters that are not 0. */
struct outcome {
	double error;
	double used;
};

static struct outcome outcome_of(const struct sketch *sketch, struct wasteful *wasteful,
				 const u32 *exact)
{
	struct outcome outcome = { 0 };
	u32 nr = 0, nr_counters = 16 * sketch->nr_words;

	for (u32 key = 0; key < NR_KEYS; key++) {
		u32 true_count = min(exact[key], SKETCH_MAX);
		u32 got = wasteful ? wasteful_estimate(wasteful, mix(key)) :
				     sketch_estimate(sketch, mix(key));

		if (!exact[key])
			continue;
		cr_assert_geq(got, true_count, "never too low");
		outcome.error += got - true_count;
		nr++;
	}
	outcome.error /= nr;
	for (u32 i = 0; i < nr_counters; i++)
		outcome.used += wasteful ? counters_of(wasteful)[i] != 0 :
					   (sketch->word[i / 16] >> i % 16 * 4 & 15) != 0;
	outcome.used /= nr_counters;
	return outcome;
}

Test(evict_sketch, uses_all_counters_and_errs_less)
{
	static u32 exact[NR_KEYS];
	struct sketch *sketch = make(CAPACITY);
	struct wasteful wasteful = { calloc(sketch->nr_words, 16), sketch->nr_words };
	struct outcome good, bad;
	u64 random = 1;

	cr_assert_lt(NR_USES, sketch->window, "nothing is halved here");
	for (u32 i = 0; i < NR_USES; i++) {
		u32 key = zipf(&random);

		exact[key]++;
		sketch_add(sketch, mix(key));
		wasteful_add(&wasteful, mix(key));
	}
	good = outcome_of(sketch, NULL, exact);
	bad = outcome_of(sketch, &wasteful, exact);
	fprintf(stderr, "mean error %.4f, %.1f %% of the counters in use; wasteful: %.2f, %.1f %%\n",
		good.error, 100 * good.used, bad.error, 100 * bad.used);
	cr_expect_lt(good.error, 0.1);
	cr_expect_gt(good.used, 0.25);
	cr_expect_leq(bad.used, 1. / 16);
	cr_expect_gt(bad.error, 20 * good.error);
	free(wasteful.word);
	kv_free(sketch);
}

/* A key used 12 times counts half as much once the sketch has seen a window full of others. */
Test(evict_sketch, forgets)
{
	struct sketch *sketch = make(256);
	u64 key = mix(~0ull);

	for (u32 i = 0; i < 12; i++)
		sketch_add(sketch, key);
	cr_expect_eq(sketch_estimate(sketch, key), 12);
	while (sketch->nr_added < sketch->window)
		sketch_add(sketch, mix(sketch->nr_added % 3));
	for (u32 i = 0; i < 2 * sketch->nr_words; i++)
		sketch_add(sketch, mix(7));
	cr_expect_eq(sketch_estimate(sketch, key), 6);
	cr_expect_eq(sketch->nr_halved, sketch->nr_words, "each word once");
	kv_free(sketch);
}

/* Full counters do not run over; a key of former times is told from one that is used now soon after. */
Test(evict_sketch, counters_at_their_ceiling_stay_there_and_come_down)
{
	struct sketch *sketch = make(256);
	u64 random = 5;

	memset(sketch->word, 0xff, sketch->nr_words * sizeof(*sketch->word));
	for (u32 i = 0; i < 64; i++)
		sketch_add(sketch, mix(i));
	for (u32 i = 0; i < sketch->nr_words; i++)
		cr_assert_eq(sketch->word[i], ~0ull, "no counter runs over into the next");
	while (sketch->nr_added < 6 * sketch->window) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		sketch_add(sketch, random >> 61 ? mix(1000 + (random >> 33) % 32) : mix(7));
	}
	cr_expect_geq(sketch_estimate(sketch, mix(7)), SKETCH_MAX / 2, "halved just now, perhaps");
	cr_expect_leq(sketch_estimate(sketch, mix(8)), 1, "%u", sketch_estimate(sketch, mix(8)));
	kv_free(sketch);
}
