// SPDX-License-Identifier: Apache-2.0
/* The flat map's check: what it notices of a flipped bit; and who floods it gains nothing. */
#include "registry/flat.h"

#include "map_util.h"

#define NR_BLOCKS	64u

/* Every third block shares its name with three others; few homes, so that chains overflow. */
static void fill(struct fixture *fix)
{
	put_in(fix, 0);
	cr_assert_eq(kv_map_flat.resize(fix->map, 20, 3), 0);
	for (u64 i = 1; i < NR_BLOCKS; i++)
		drop(fix, put_in(fix, i % 3 ? i : 100 + i / 12));
}

static u32 nr_noticed(struct fixture *fix, void *field, u32 bits)
{
	u8 *byte = field;
	u32 nr_found, nr = 0;

	for (u32 bit = 0; bit < bits; bit++) {
		byte[bit / 8] ^= BIT(bit % 8);
		nr += kv_map_flat.check(fix->map, &nr_found) == -EUCLEAN;
		byte[bit / 8] ^= BIT(bit % 8);
	}
	return nr;
}

static void expect_slot(const struct bucket *bucket, u8 tag, u32 nr)
{
	u8 first = flat_slot_tag((struct slot){ (struct bucket *)bucket, nr });

	cr_expect_eq(first, tag, "slot %u has %#x, not %#x", nr, first, tag);
}

/* The tag in each slot, others that differ in one bit beside it; both ways to compare. */
Test(flat, slot_with_tag_is_found_wherever_it_is)
{
	for (u32 nr = 0; nr < NR_SLOTS; nr++) {
		for (u32 tag = 1; tag < 256; tag++) {
			u8 tags[12], other = tag ^ 1 ? tag ^ 1 : 0xff;
			struct bucket bucket = { 0 };

			memset(tags, other, sizeof(tags));
			tags[nr] = tag;
			tags[NR_SLOTS] = 0;
			memcpy(&bucket.tags, tags, 8);
			memcpy(&bucket.tags_hi, tags + 8, 4);
			expect_slot(&bucket, tag, slot_like_tag(&bucket, tag * EACH_BYTE));
			expect_slot(&bucket, tag, slot_like_tag_words(&bucket, tag * EACH_BYTE));
			cr_expect_eq(slots_with_tag(&bucket, tag), BIT(nr));
			cr_expect_eq(slots_with_tag_words(&bucket, tag), BIT(nr));
			cr_expect_eq(slots_with_tag(&bucket, other), (BIT(NR_SLOTS) - 1) ^ BIT(nr));
			cr_expect_eq(slots_with_tag_words(&bucket, other),
				     (BIT(NR_SLOTS) - 1) ^ BIT(nr));
		}
	}
}

Test(flat, slot_without_tag_is_some_slot)
{
	struct bucket bucket = { 0 };

	for (u32 tag = 1; tag < 256; tag++) {
		cr_expect_lt(slot_like_tag(&bucket, tag * EACH_BYTE), NR_SLOTS);
		cr_expect_lt(slot_like_tag_words(&bucket, tag * EACH_BYTE), NR_SLOTS);
	}
}

Test(flat, check_notices_any_flipped_bit_of_a_bucket)
{
	struct fixture fix = fixture_make(&kv_map_flat, NR_BLOCKS);
	struct table *table;

	fill(&fix);
	table = flat_of(fix.map)->table;
	cr_assert_gt(table->top_over, table->nr_homes);
	for (u32 i = 0; i < table->top_over; i++) {
		struct bucket *bucket = &table->bucket[i];

		cr_expect_eq(nr_noticed(&fix, &bucket->tags, 64), 64, "tags of %u", i);
		cr_expect_eq(nr_noticed(&fix, &bucket->tags_hi, 32), 32, "tags of %u", i);
		cr_expect_eq(nr_noticed(&fix, &bucket->next, 32), 32, "next of %u", i);
		cr_expect_eq(nr_noticed(&fix, bucket->index, 32 * NR_SLOTS), 32 * NR_SLOTS,
			     "indexes of %u", i);
		/* Versions are any number, but none is locked; overflow buckets have none. */
		cr_expect_eq(nr_noticed(&fix, &bucket->seq, 32), i < table->nr_homes ? 1 : 32);
	}
	cr_expect_eq(nr_noticed(&fix, &table->top_over, 32), 32);
	cr_expect_eq(nr_noticed(&fix, &table->free_over, 32), 32);
	cr_expect_eq(nr_noticed(&fix, &table->seed, 64), 64);
	expect_sound(&fix, NR_BLOCKS);
	fixture_end(&fix);
}

/* A flip of the name goes unnoticed if it leads to the same tag and home. */
Test(flat, check_notices_flipped_bits_of_names_and_lists)
{
	struct fixture fix = fixture_make(&kv_map_flat, NR_BLOCKS);
	u32 nr = 0;

	fill(&fix);
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		struct kv_entry *entry = &fix.entries.entry[i];

		nr += nr_noticed(&fix, entry->key, 128) + nr_noticed(&fix, &entry->domain, 64);
		cr_expect_eq(nr_noticed(&fix, &entry->dup_next, 32), 32, "%u", i);
		cr_expect_eq(nr_noticed(&fix, &entry->dup_prev, 32), 32, "%u", i);
	}
	cr_expect_geq(nr, NR_BLOCKS * 192 * 995 / 1000, "%u of %u", nr, NR_BLOCKS * 192);
	fixture_end(&fix);
}

static u32 longest_chain(const struct table *table)
{
	u32 longest = 0;

	for (u32 home = 0; home < table->nr_homes; home++) {
		const struct bucket *bucket = &table->bucket[home];
		u32 len = 0;

		for (; bucket; bucket = next_of(table, bucket))
			len++;
		longest = max(longest, len);
	}
	return longest;
}

/* Keys that all lie in one home of one table are spread by the seed of the next. */
Test(flat, another_seed_ends_a_flood)
{
	struct fixture fix = fixture_make(&kv_map_flat, 4096);
	struct table *table;
	u32 nr = 1;

	put_in(&fix, 0);
	table = flat_of(fix.map)->table;
	for (u64 i = 1; nr < 100; i++) {
		u64 seed = domain_seed(table->seed, kv_domain_word(TEST_DOMAIN)), key[2];
		kvmm_key_t name = key_of(i);

		kv_key_words(&name, key);
		if (!home_nr(mix_hash(kv_mix_key(key, table->key_seed), seed), table->nr_homes)) {
			put_in(&fix, i);
			nr++;
		}
	}
	cr_expect_geq(longest_chain(table), 9);
	cr_assert_eq(kv_map_flat.resize(fix.map, 4096, 99), 0);
	cr_expect_leq(longest_chain(flat_of(fix.map)->table), 2);
	expect_sound(&fix, 100);
	fixture_end(&fix);
}
