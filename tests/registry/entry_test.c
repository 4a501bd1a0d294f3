// SPDX-License-Identifier: Apache-2.0
/* Entries: handles that come too late, generations that run out, what the check notices. */
#include "tests/support/test.h"

#include <kv/entry.h>
#include <kv/sys.h>

static struct kv_entries entries_of(u32 nr, u32 gen_first, u32 nr_gens)
{
	struct kv_entries_attr attr = { nr, gen_first, nr_gens };
	struct kv_entries entries;

	cr_assert_eq(kv_entries_init(&entries, &attr), 0);
	return entries;
}

static struct kv_handle take(struct kv_entries *entries)
{
	struct kv_handle handle;

	cr_assert_eq(kv_entries_take(entries, 1, &handle), 0);
	return handle;
}

/* As a registry would. */
static struct kv_handle registered(struct kv_entries *entries)
{
	struct kv_handle handle = take(entries);
	struct kv_name name = { .parent = KV_NONE };

	cr_assert_eq(kv_entry_stage(entries, handle, &name, false), 0);
	cr_assert_eq(kv_handle_step(entries, handle, kv_edge_publish), 0);
	return handle;
}

static void end(struct kv_entries *entries)
{
	cr_expect_eq(kv_entries_check(entries), 0);
	kv_entries_exit(entries);
	cr_expect_eq(kv_mem_bytes(), 0);
}

Test(entry, takes_all_or_none)
{
	struct kv_entries entries = entries_of(4, 1, 0);
	struct kv_handle handles[5];

	cr_expect_eq(kv_entries_take(&entries, 5, handles), -ENOSPC);
	cr_expect_eq(kv_entries_take(&entries, 3, handles), 0);
	cr_expect_eq(kv_entries_take(&entries, 2, handles), -ENOSPC);
	cr_expect_eq(kv_entries_take(&entries, 1, handles), 0);
	cr_expect_eq(kv_entries_take(&entries, 1, handles), -ENOSPC);
	cr_expect_eq(kv_entries_take(&entries, 0, handles), 0);
	end(&entries);
}

Test(entry, refuses_handles_that_are_stale_made_up_or_of_another_table)
{
	struct kv_entries entries = entries_of(4, 1000, 0), other = entries_of(4, 90000, 0);
	struct kv_handle handle = registered(&entries), stale = handle;

	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_put), 1);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_claim), 0);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_try_get), -ESTALE);
	cr_expect_eq(kv_entry_free(&entries, handle), 0);
	cr_expect_eq(kv_handle_step(&entries, stale, kv_edge_try_get), -ESTALE);
	cr_expect_eq(kv_entry_free(&entries, stale), -ESTALE);
	stale.gen += 2;		/* one that is still to come */
	cr_expect_eq(kv_handle_step(&entries, stale, kv_edge_try_get), -EINVAL);
	cr_expect_eq(kv_handle_step(&entries, (struct kv_handle){ 0 }, kv_edge_try_get), -EINVAL);
	cr_expect_eq(kv_handle_step(&entries, (struct kv_handle){ 4, 1000 }, kv_edge_try_get),
		     -EINVAL);
	cr_expect_eq(kv_handle_step(&entries, (struct kv_handle){ 1, 0xffffffff }, kv_edge_try_get),
		     -EINVAL);
	cr_expect_eq(kv_handle_step(&entries, registered(&other), kv_edge_try_get), -EINVAL);
	kv_entries_exit(&other);
	end(&entries);
}

Test(entry, a_weak_reference_is_upgraded_until_the_block_is_evicted)
{
	struct kv_entries entries = entries_of(2, 1, 0);
	struct kv_handle weak = registered(&entries), fresh;

	cr_expect_eq(kv_handle_step(&entries, weak, kv_edge_try_get), 0);
	kv_handle_step(&entries, weak, kv_edge_put);
	kv_handle_step(&entries, weak, kv_edge_put);
	cr_expect_eq(kv_handle_step(&entries, weak, kv_edge_try_get), 1);
	kv_handle_step(&entries, weak, kv_edge_put);
	cr_expect_eq(kv_handle_step(&entries, weak, kv_edge_claim), 0);
	cr_expect_eq(kv_handle_step(&entries, weak, kv_edge_try_get), -ESTALE);
	cr_expect_eq(kv_entry_recycle(&entries, weak, &fresh), 0);
	cr_expect_eq(fresh.index, weak.index);
	cr_expect_eq(kv_handle_step(&entries, weak, kv_edge_try_get), -ESTALE);
	cr_expect_eq(kv_handle_step(&entries, fresh, kv_edge_try_get), -EINVAL);
	end(&entries);
}

/* The first generation is chosen so that they pass through the end of the 28 bits. */
Test(entry, is_retired_when_its_generations_are_used_up)
{
	struct kv_entries entries = entries_of(1, KV_ENTRY_GEN_MASK - 2, 6);
	struct kv_handle old[6], handle;
	u32 nr[KV_NR_ENTRY_STATES];

	for (u32 life = 0; life < 6; life++) {
		old[life] = take(&entries);
		cr_expect(old[life].gen);
		cr_expect_eq(kv_entry_free(&entries, old[life]), 0);
		for (u32 i = 0; i <= life; i++)
			cr_expect_eq(kv_entry_free(&entries, old[i]),
				     i == 5 ? -EINVAL : -ESTALE, "%u of %u", i, life);
	}
	cr_expect_eq(kv_entries_take(&entries, 1, &handle), -ENOSPC);
	kv_entries_count(&entries, nr);
	cr_expect_eq(nr[KV_ENTRY_RETIRED], 1);
	end(&entries);
}

/* One that is taken and freed over and over does not use up its generations before the others. */
Test(entry, free_entries_wear_evenly)
{
	struct kv_entries entries = entries_of(8, KV_ENTRY_GEN_MASK - 9999, 0);
	struct kv_handle held = take(&entries);
	u32 most = 0, least = KV_NONE;

	for (u32 i = 0; i < 7 * 20000; i++)
		cr_assert_eq(kv_entry_free(&entries, take(&entries)), 0);
	for (u32 i = 0; i < 8; i++) {
		u32 gen = kv_word_gen(entries.entry[i].word);
		u32 age = (gen - entries.gen_first) & KV_ENTRY_GEN_MASK;

		if (i == held.index)
			continue;
		most = max(most, age);
		least = min(least, age);
	}
	cr_expect_leq(most - least, KV_ENTRY_STINT, "%u to %u lives", least, most);
	cr_expect_eq(kv_entry_free(&entries, held), 0);
	end(&entries);
}

Test(entry, a_block_loses_its_entry_if_that_cannot_be_recycled)
{
	struct kv_entries entries = entries_of(1, 7, 1);
	struct kv_handle handle = registered(&entries), fresh;

	kv_handle_step(&entries, handle, kv_edge_put);
	cr_expect_eq(kv_entry_recycle(&entries, handle, &fresh), -EINVAL);
	kv_handle_step(&entries, handle, kv_edge_claim);
	cr_expect_eq(kv_entry_recycle(&entries, handle, &fresh), -ENOSPC);
	end(&entries);
}

Test(entry, references_and_pins_do_not_overflow)
{
	struct kv_entries entries = entries_of(1, 1, 0);
	struct kv_handle handle = registered(&entries);

	for (u32 i = 0; i < 255; i++)
		cr_assert_eq(kv_handle_step(&entries, handle, kv_edge_pin), 0);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_pin), -EOVERFLOW);
	for (u32 i = 256; i < KV_ENTRY_REFS; i++)
		cr_assert_eq(kv_handle_step(&entries, handle, kv_edge_get), 0);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_get), -EOVERFLOW);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_try_get), -EOVERFLOW);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_pin), -EOVERFLOW);
	for (u32 i = 255; i < KV_ENTRY_REFS; i++)
		cr_assert_eq(kv_handle_step(&entries, handle, kv_edge_put), 0);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_put), -EINVAL);
	end(&entries);
}

static int pin_held(struct kv_entries *entries, struct kv_handle handle)
{
	return kv_handle_step(entries, handle, kv_edge_pin_held);
}

static int undrop(struct kv_entries *entries, struct kv_handle handle)
{
	return kv_handle_step(entries, handle, kv_edge_undrop);
}

Test(entry, a_holder_pins_only_what_he_holds)
{
	struct kv_entries entries = entries_of(2, 1, 0);
	struct kv_handle handle = registered(&entries);

	cr_expect_eq(pin_held(&entries, handle), 0);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_unpin), 0);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_put), 1);
	cr_expect_eq(pin_held(&entries, handle), -ESTALE);
	cr_expect_eq(kv_word_refs(entries.entry[handle.index].word), 0);
	end(&entries);
}

static void expect_each_step_says(struct kv_entries *entries, struct kv_handle handle, int err)
{
	static const kv_edge step[] = {
		kv_edge_mark_private, kv_edge_mark, kv_edge_write, kv_edge_unstage, kv_edge_take,
	};
	bool is_staged = kv_word_is(entries->entry[handle.index].word, KV_ENTRY_STAGED);

	for (u32 i = 0; i < ARRAY_SIZE(step); i++)
		if (is_staged == (step[i] == kv_edge_mark || step[i] == kv_edge_unstage))
			cr_expect_eq(kv_handle_step(entries, handle, step[i]), err, "step %u", i);
}

/* Its owner is told neither that the handle was made up, nor that the block is gone if it stays. */
Test(entry, a_block_that_is_taken_from_its_owner_is_busy_until_it_goes_and_stale_then)
{
	for (u32 is_staged = 0; is_staged < 2; is_staged++) {
		struct kv_entries entries = entries_of(2, 1, 0);
		struct kv_handle handle = take(&entries);
		struct kv_name name = { .parent = KV_NONE };

		if (is_staged)
			cr_assert_eq(kv_entry_stage(&entries, handle, &name, false), 0);
		cr_assert_eq(kv_handle_step(&entries, handle, kv_edge_take), 0);
		expect_each_step_says(&entries, handle, -EBUSY);
		cr_assert_eq(kv_handle_step(&entries, handle, kv_edge_unmark), 0);
		cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_taken), -EINVAL);
		cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_take), 0);
		cr_assert_eq(kv_handle_step(&entries, handle, kv_edge_taken), 0);
		expect_each_step_says(&entries, handle, -ESTALE);
		/* The release has seen its state. */
		cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_restage), -EINVAL);
		cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_unstage), -ESTALE);
		cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_mark), -ESTALE);
		cr_expect_eq(kv_entry_free(&entries, handle), 0);
		cr_expect_eq(kv_entries_check(&entries), 0);
		end(&entries);
	}
}

Test(entry, what_was_dropped_by_mistake_is_what_it_was)
{
	struct kv_entries entries = entries_of(2, 1, 0);
	struct kv_handle handle = registered(&entries);
	struct kv_entry *entry = &entries.entry[handle.index];
	u64 word;

	cr_expect_eq(undrop(&entries, handle), -EINVAL);
	cr_assert_eq(kv_handle_step(&entries, handle, kv_edge_hide), 0);
	word = entry->word;
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_put), 2);
	cr_expect_eq(undrop(&entries, handle), 0);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_add_ref), 1);
	cr_expect_eq(entry->word, word);
	/* Who changes his mind about evicting it does not hide it again. */
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_put), 2);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_unclaim), 0);
	cr_expect_eq(entry->word & (KV_ENTRY_HIDDEN | KV_ENTRY_RESET), 0);
	/* What was claimed was not dropped. */
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_claim), 0);
	cr_expect_eq(undrop(&entries, handle), -EINVAL);
	cr_expect_eq(kv_handle_step(&entries, handle, kv_edge_unclaim), 0);
	end(&entries);
}

Test(entry, a_batch_of_puts_tells_which_were_the_last)
{
	struct kv_entries entries = entries_of(3, 1, 0);
	struct kv_handle a = registered(&entries), b = registered(&entries), last[4];
	struct kv_handle refs[4] = { a, b, a, { 2, 1 } };
	struct kv_put put = { .refs = refs, .nr = 4, .last = last };

	kv_handle_step(&entries, a, kv_edge_get);
	cr_expect_eq(kv_entries_put(&entries, &put), -EINVAL);
	cr_expect_eq(kv_word_refs(entries.entry[a.index].word), 2);
	put.nr = 3;
	cr_expect_eq(kv_entries_put(&entries, &put), 0);
	cr_expect_eq(put.nr_last, 2);
	cr_expect_eq(last[0].index, b.index);
	cr_expect_eq(last[1].index, a.index);
	end(&entries);
}

static u32 nr_flips_noticed(struct kv_entries *entries, void *field, u32 bits)
{
	u8 *byte = field;
	u32 nr = 0;

	for (u32 bit = 0; bit < bits; bit++) {
		byte[bit / 8] ^= BIT(bit % 8);
		nr += kv_entries_check(entries) == -EUCLEAN;
		byte[bit / 8] ^= BIT(bit % 8);
	}
	return nr;
}

/* References may be any number, as may pins, and the flags of who has some: see the pool's check. */
Test(entry, check_notices_flipped_bits)
{
	struct kv_entries entries = entries_of(8, 5, 1);
	struct kv_handle private = take(&entries), held = registered(&entries);

	for (u32 i = 2; i < 8; i++) {
		cr_expect_eq(nr_flips_noticed(&entries, &entries.entry[i].word, 64), 64, "%u", i);
		/* The end of the list may also be another that is no entry. */
		cr_expect_eq(nr_flips_noticed(&entries, &entries.entry[i].link, 32), 32, "%u", i);
	}
	cr_expect_geq(nr_flips_noticed(&entries, &entries.entry[private.index].word, 64), 62);
	cr_expect_geq(nr_flips_noticed(&entries, &entries.entry[held.index].word, 64), 32);
	cr_expect_eq(nr_flips_noticed(&entries, &entries.entry[held.index].parent, 32), 32);
	cr_expect_eq(nr_flips_noticed(&entries, &entries.nr_free, 32), 32);
	cr_expect_eq(nr_flips_noticed(&entries, &entries.nr_retired, 32), 32);
	cr_expect_eq(nr_flips_noticed(&entries, &entries.free[0], 32), 32);
	cr_expect_geq(nr_flips_noticed(&entries, &entries.turn, 32), 31);
	end(&entries);
}

static void *no_pages(void *ctx, u64 bytes, int node)
{
	return NULL;
}

Test(entry, a_table_without_memory_is_none)
{
	struct kv_entries_attr attr = { 8, 0, 0 };
	struct kv_sys_ops ops = kv_sys_system;
	struct kv_entries entries;

	ops.map_pages = no_pages;
	kv_sys_set(&ops);
	cr_expect_eq(kv_entries_init(&entries, &attr), -ENOMEM);
	kv_sys_set(NULL);
	attr.nr = KVMM_MAX_BLOCKS + 1;
	cr_expect_eq(kv_entries_init(&entries, &attr), -EINVAL);
}
