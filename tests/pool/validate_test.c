// SPDX-License-Identifier: Apache-2.0
/*
 * A bit that flips anywhere in the metadata must be noticed.
 *
 * Each test takes one field and flips its bits one after the other. A poisoned pool refuses every
 * call, so the gate is opened again after each flip, which only a test may do.
 */
#include "pool/internal.h"
#include "move/step.h"
#include "tests/pool/util.h"
#include "tests/support/flip.h"

static struct kvmm_pool *pool;
static kvmm_range_t range[26];
static kvmm_mut_t mut[2];
static kvmm_ref_t ref[2];

/* Something of everything: shared, pinned, of several extents, of sequences, freed, cached. */
static void set_up(void)
{
	kvmm_key_t key[2] = { key_of(50), key_of(51) };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 64,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = "lru",
				       .flags = KVMM_POOL_NULL_BLOCK };

	pool = make_pool_of(&attr);
	for (u32 i = 0; i < 6; i++)
		range[i] = take_seq(pool, 2 + i, 0, i < 5 ? 'a' + i / 2 : 0);
	kvmm_range_free(pool, range[1]);
	kvmm_range_free(pool, range[3]);
	kvmm_range_grow(pool, range[0], 2);
	kvmm_range_pin(pool, range[2]);
	kvmm_range_get(pool, range[4]);
	cache_keys(pool, 10, 6);
	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_assert_eq(kvmm_register(pool, mut, key, 2, ref), 0);
	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_assert_eq(kvmm_validate(pool), 0);
}

static void tear_down(void)
{
	cr_expect_eq(kvmm_validate(pool), 0);
	kvmm_pool_destroy(pool);
}

TestSuite(validate, .init = set_up, .fini = tear_down);

static int validate_open(void)
{
	struct kvmm_pool_stat stat;
	int err = kvmm_validate(pool);

	if (err)
		cr_expect_eq(kvmm_pool_get_stat(pool, &stat), -EUCLEAN);
	pool->gate = 0;
	return err;
}

#define FLIP_CHECK	validate_open()

static void expect_noticed(const char *what, u32 bit)
{
	cr_expect_eq(validate_open(), -EUCLEAN, "%s, bit %u", what, bit);
}

Test(validate, owners)
{
	for (u32 i = 0; i < pool->nr_blocks; i++)
		flip_each_bit("owner", &pool->owner[i], sizeof(pool->owner[i]));
}

Test(validate, ranges)
{
	for (u32 i = 0; i < 8; i++) {
		struct slot *slot = slot_at(pool, i);

		flip(slot, gen);
		flip(slot, refs);
		flip(slot, pins);
		flip(slot, nr);
		flip(slot, nr_ext);
		flip(slot, lost);
		flip(slot, number);
		for (u32 e = 0; e < slot->nr_ext; e++)
			flip_each_bit("ext", slot_ext(slot, e), sizeof(struct kvmm_extent));
		if (!slot->nr_ext)
			continue;
		flip(slot, seq);
		flip(slot, prio);
		flip(slot, flags);
	}
}

Test(validate, what_is_reserved)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 2, .flags = KVMM_ALLOC_GROWS,
					.expect = 6 };
	struct grow *grow;

	for (u32 i = 0; i < 3; i++)
		cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range[20 + i]), 0);
	for (u32 i = 0; i < 3; i++) {
		grow = slot_grow(slot_at(pool, range[20 + i].index));
		cr_assert_eq(grow->res.nr, 4);
		flip(grow, res);
		flip(grow, index);
		flip_each_bit("owner", &pool->owner[grow->res.start], sizeof(pool->owner[0]));
	}
	flip(&pool->grow, nr_reserved);
	flip(&pool->grow, nr_lists);
	grow = pool->grow.oldest;
	pool->grow.oldest = grow->newer;
	expect_noticed("oldest", 0);
	pool->grow.oldest = grow;
	grow->newer->older = NULL;
	expect_noticed("older", 0);
	grow->newer->older = grow;
	grow->used = pool->grow.clock + 1;
	expect_noticed("used", 0);
	grow->used = pool->grow.clock;
}

Test(validate, a_slot_in_the_middle_of_a_change)
{
	struct slot *slot = slot_at(pool, 0);

	slot->version ^= 1;
	expect_noticed("version", 0);
	slot->version ^= 1;
}

Test(validate, chains_of_sequences)
{
	for (u32 i = 0; i < 8; i++) {
		struct slot *slot = slot_at(pool, i);

		if (!slot->nr_ext || !slot->seq)
			continue;
		flip(slot, next);
		flip(slot, prev);
	}
	for (u32 i = 0; i < pool->seqs.nr; i++)
		flip_each_bit("bucket", &pool->seqs.bucket[i], sizeof(pool->seqs.bucket[i]));
}

Test(validate, a_sequence_that_lost_its_chain)
{
	u32 *bucket = &pool->seqs.bucket[seq_bucket(pool, &pool->seqs, 'c')];
	u32 first = *bucket;

	*bucket = KV_NONE;
	expect_noticed("bucket", 0);
	*bucket = first;
}

Test(validate, free_lists)
{
	u32 index = pool->free_slot;

	flip(pool, free_slot);
	for (u32 i = 0; i < 20; i++) {
		flip(slot_at(pool, index), next);
		index = slot_at(pool, index)->next;
	}
	flip(pool, nr_retired);
}

static void flip_bits(const char *what, u64 *word, u64 bits)
{
	for (u32 bit = 0; bit < 64; bit++) {
		if (!(bits & BIT64(bit)))
			continue;
		*word ^= BIT64(bit);
		expect_noticed(what, bit);
		*word ^= BIT64(bit);
	}
}

/* Whether a block that is held stays cached has no second copy. */
static u64 unseen_bits(u64 word)
{
	return kv_word_refs(word) && kv_word_is(word, KV_ENTRY_REGISTERED) ?
	       KV_ENTRY_RESET : 0;
}

Test(validate, entries)
{
	for (u32 i = 0; i < pool->nr_blocks; i++) {
		struct kv_entry *entry = entry_at(pool, i);

		flip_bits("word", &entry->word, ~unseen_bits(entry->word));
		if (kv_word_is(entry->word, KV_ENTRY_FREE))
			continue;
		flip(entry, place);
		if (!kv_word_is(entry->word, KV_ENTRY_REGISTERED))
			continue;
		flip(entry, key);
		flip(entry, domain);
	}
}

Test(validate, counts)
{
	struct pool_count *count = &pool->count;

	flip(count, nr_ranges);
	flip(count, range_blocks);
	flip(count, range_refs);
	flip(count, range_pins);
	flip(count, range_gens);
	flip(count, range_seqs);
	flip(count, range_attrs);
	flip(count, nr_held);
	flip(count, nr_parked);
	flip(count, entry_gens);
	flip(count, nr_forgotten);
	flip(count, names_forgotten);
	for (u32 i = 0; i <= TALLY_NAMES; i++)
		flip_each_bit("tally", &pool->tally[3].nr[i], sizeof(pool->tally[3].nr[i]));
}

Test(validate, a_block_that_the_zone_lost_or_found)
{
	u32 start;

	cr_assert_eq(kv_zone_alloc(pool->zone, 1, &start), 0);
	expect_noticed("zone", start);
	cr_assert_eq(kv_zone_free(pool->zone, start, 1), 0);
	cr_assert_eq(kv_zone_free(pool->zone, 1, 1), 0);
	expect_noticed("zone", 1);
	cr_assert_eq(kv_zone_alloc_at(pool->zone, 1, 1), 0);
}

Test(validate, a_key_that_the_registry_lost)
{
	struct kv_entry *entry = entry_at(pool, ref[0].index);
	struct kv_handle handle = entry_handle(pool, ref[0].index), found;
	struct kv_insert insert = { .handles = &handle, .nr = 1, .found = &found };
	u64 word = entry->word;
	u32 nr = 1;

	entry->word = kv_word_make(handle.gen, KV_ENTRY_EVICTING, 0);
	cr_assert_eq(pool->map->ops->remove(pool->map, &handle, &nr), 0);
	entry->word = word;
	expect_noticed("map", handle.index);
	entry->word = kv_word_make(handle.gen, KV_ENTRY_STAGED, 1);
	cr_assert_eq(pool->map->ops->insert(pool->map, &insert), 0);
}

Test(validate, a_block_that_the_order_of_eviction_lost)
{
	u32 victim = pool->order.ops->pick(pool->order.rest.policy[0]);

	expect_noticed("order", victim);
	pool->order.ops->unpick(pool->order.rest.policy[0], victim);
}

Test(validate, a_child_with_a_link_to_another_parent)
{
	kvmm_key_t key = key_of(15);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct kv_entry *entry;
	kvmm_weak_t weak;

	cr_assert_eq(kvmm_prefix_peek(pool, &prefix, &weak, NULL, 0), 1);
	entry = &pool->entries.entry[weak.index];
	entry->parent ^= 1;
	expect_noticed("link", weak.index);
	entry->parent ^= 1;
}

Test(validate, a_block_that_is_marked_as_hit_while_no_log_is_applied)
{
	flip_each_bit("stays", pool->order.stays, (pool->nr_blocks / 64 + 1) * sizeof(u64));
}

#define expect_closed(call)	cr_expect_eq(call, -EUCLEAN, "%s", #call)

static void expect_ranges_closed(void)
{
	struct kvmm_range_info info;
	struct kvmm_extent ext[1];
	kvmm_range_t got;
	u32 cursor = 0;

	expect_closed(kvmm_range_alloc(pool, 1, 0, &got));
	expect_closed(kvmm_range_get(pool, range[0]));
	expect_closed(kvmm_range_pin(pool, range[0]));
	expect_closed(kvmm_range_unpin(pool, range[2]));
	expect_closed(kvmm_range_free(pool, range[0]));
	expect_closed(kvmm_range_find_seq(pool, 'a', &got, 1));
	expect_closed(kvmm_range_free_seq(pool, 'a'));
	expect_closed(kvmm_range_extents(pool, range[0], ext, 1));
	expect_closed(kvmm_range_grow(pool, range[0], 1));
	expect_closed(kvmm_range_shrink(pool, range[0], 1));
	expect_closed(kvmm_range_shrink_front(pool, range[0], 1));
	expect_closed(kvmm_range_split(pool, range[0], 1, &got));
	expect_closed(kvmm_range_get_info(pool, range[0], &info));
	expect_closed(kvmm_range_next(pool, &cursor, &info));
}

static void expect_cache_closed(void)
{
	kvmm_key_t key = key_of(10);
	kvmm_ref_t got;
	kvmm_mut_t fresh[4];
	struct kvmm_acquire_args req = { .keys = &key, .nr_keys = 1, .max_hits = 1, .nr_blocks = 2,
					 .hits = &got, .fresh = fresh };
	u64 when = 0;

	expect_closed(kvmm_acquire(pool, &req));
	expect_closed(kvmm_match_len(pool, &key, 1));
	expect_closed(kvmm_match(pool, &key, 1, &got));
	expect_closed(kvmm_alloc(pool, 1, fresh));
	expect_closed(kvmm_register(pool, mut, &key, 1, &got));
	expect_closed(kvmm_free(pool, mut, 1));
	expect_closed(kvmm_put_many(pool, ref, 1));
	expect_closed(kvmm_advise_many(pool, ref, KVMM_ADVISE_NEXT_USE, &when, 1));
	expect_closed(kvmm_block_of_ref(pool, ref[0]));
	expect_closed(kvmm_block_of_mut(pool, mut[0]));
	expect_closed(kvmm_reset_inactive(pool));
}

Test(validate, credit_for_copies_and_notes_of_lost_content)
{
	struct kvmm_pace how = { .size = sizeof(how), .bytes_per_ms = 1000, .bytes_per_step = 100 };

	cr_assert_eq(kvmm_pace_set(pool, &how), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	pool->steps->pace.credit = 1ll << 40;
	expect_noticed("credit", 0);
	pool->steps->pace.credit = 0;
	pool->steps->pace.step_credit = 101;
	expect_noticed("credit of a step", 0);
	pool->steps->pace.step_credit = 0;
	pool->transit.lost[3] = 7;
	expect_noticed("note", 3);
	pool->transit.lost[3] = 0;
	pool->nr_unseen++;
	expect_noticed("unseen blocks", 1);
	pool->nr_unseen--;
}

Test(validate, a_poisoned_pool_refuses_everything)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_block_info info;
	struct kvmm_pool_stat stat;
	u8 byte[8];

	pool->owner[1] ^= 1;
	expect_closed(kvmm_validate(pool));
	pool->owner[1] ^= 1;
	expect_closed(kvmm_validate(pool));
	expect_ranges_closed();
	expect_cache_closed();
	expect_closed(kvmm_block_get_info(pool, 0, &info));
	expect_closed(kvmm_block_read(pool, 0, 0, byte, 1));
	expect_closed(kvmm_block_write(pool, 0, 0, byte, 1));
	expect_closed(kvmm_pool_compact(pool, &goal));
	expect_closed(kvmm_pool_get_stat(pool, &stat));
	pool->gate = 0;
}

Test(validate, a_poisoned_pool_is_neither_set_nor_counted)
{
	u64 value[64] = { 0 };

	pool->owner[1] ^= 1;
	expect_closed(kvmm_validate(pool));
	pool->owner[1] ^= 1;
	for (u32 kind = 0; kind < KVMM_NR_SETTINGS; kind++)
		cr_expect_eq(kvmm_pool_set(pool, kind, value), -EUCLEAN, "setting %u", kind);
	for (u32 kind = 0; kind < KVMM_NR_STATS; kind++)
		cr_expect_eq(kvmm_pool_stat_of(pool, kind, value, 8), -EUCLEAN, "kind %u", kind);
	pool->gate = 0;
}

#ifndef KVMM_DEBUG	/* where it stops there and then */
Test(validate, compaction_comes_to_an_end_whatever_the_extents_say)
{
	struct kvmm_extent *ext = &slot_at(pool, range[0].index)->first;
	const u32 lies[] = { 0, UINT32_MAX, 64, UINT32_MAX - ext->start };
	u32 nr = ext->nr;

	for (u32 i = 0; i < ARRAY_SIZE(lies); i++) {
		struct kvmm_compact goal = { .size = sizeof(goal), .max_blocks = 1 };

		ext->nr = lies[i];
		kvmm_pool_compact(pool, &goal);
		expect_noticed("extent", i);
		ext->nr = nr;
	}
}
#endif
