/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every map must do. Whoever includes this defines MAP, the map's ops, and SUITE, the name of
 * the Criterion suite; with KV_MAP_4_BIT_HASH the map's code comes from that file, too.
 */

#include <kv/rcu.h>
#include <kv/stat.h>

#include "tests/support/fake_env.h"
#include "tests/support/test.h"

#include "map_util.h"

#define MANY	600u		/* entries; enough for chains of 50 with 16 hashes */

#define __TEST(suite, name)	Test(suite, name)
#define MAP_TEST(name)		__TEST(SUITE, name)

/* ---- names ---- */

MAP_TEST(finds_what_was_registered_and_nothing_else)
{
	struct fixture fix = fixture_make(&MAP, MANY);

	for (u64 i = 0; i < MANY; i++)
		drop(&fix, put_in(&fix, i));
	for (u64 i = 0; i < MANY; i++) {
		struct kv_handle handle = find(&fix, i);

		cr_assert(handle.gen, "%u", (u32)i);
		cr_assert_eq(fix.entries.entry[handle.index].position, i);
		drop(&fix, handle);
		cr_assert(!find(&fix, i + MANY).gen);
	}
	expect_sound(&fix, MANY);
	fixture_end(&fix);
}

MAP_TEST(never_answers_with_a_block_of_another_tenant_layout_or_group)
{
	struct fixture fix = fixture_make(&MAP, 8);
	kvmm_domain_t other = TEST_DOMAIN;

	drop(&fix, put_in(&fix, 5));
	other.tenant++;
	cr_expect(!find_in(&fix, 5, other).gen);
	other = TEST_DOMAIN;
	other.layout++;
	cr_expect(!find_in(&fix, 5, other).gen);
	other = TEST_DOMAIN;
	other.group++;
	cr_expect(!find_in(&fix, 5, other).gen);
	cr_expect(find_in(&fix, 5, TEST_DOMAIN).gen);
	fixture_end(&fix);
}

MAP_TEST(tells_keys_apart_by_every_bit)
{
	struct fixture fix = fixture_make(&MAP, 130);
	struct kv_name name = name_of(0);
	struct kv_query query = { &name.key, 1, TEST_DOMAIN };
	struct kv_handle handle = put_in(&fix, 0), found;
	struct kv_lookup out = { .refs = &found };

	for (u32 bit = 0; bit < KVMM_KEY_BYTES * 8; bit++) {
		name.key.byte[bit / 8] ^= BIT(bit % 8);
		cr_expect_eq(MAP.lookup(fix.map, &query, &out), 0);
		handle = stage_as(&fix, &name);
		register_all(&fix, &handle, 1);
		cr_expect_eq(MAP.lookup(fix.map, &query, &out), 1);
		cr_expect(same_handle(found, handle));
		name.key.byte[bit / 8] ^= BIT(bit % 8);
	}
	expect_sound(&fix, KVMM_KEY_BYTES * 8 + 1);
	fixture_end(&fix);
}

/* ---- life ---- */

MAP_TEST(does_not_find_private_staged_or_evicting_blocks)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle handle = stage(&fix, 1);
	u32 nr = 1;

	cr_expect(!find(&fix, 1).gen);
	register_all(&fix, &handle, 1);
	cr_expect(find(&fix, 1).gen);
	drop(&fix, handle);
	drop(&fix, handle);
	cr_expect_eq(kv_handle_step(&fix.entries, handle, kv_edge_claim), 0);
	cr_expect(!find(&fix, 1).gen);
	expect_sound(&fix, 1);
	cr_expect_eq(MAP.remove(fix.map, &handle, &nr), 0);
	cr_expect(!find(&fix, 1).gen);
	expect_sound(&fix, 0);
	fixture_end(&fix);
}

MAP_TEST(a_match_resurrects_an_inactive_block_and_says_so)
{
	struct fixture fix = fixture_make(&MAP, 8);
	kvmm_key_t keys[2] = { key_of(1), key_of(2) };
	struct kv_query query = { keys, 2, TEST_DOMAIN };
	struct kv_handle idle = put_in(&fix, 1), held = put_in(&fix, 2), refs[2];
	struct kv_lookup out = { .refs = refs };

	drop(&fix, idle);
	cr_expect_eq(MAP.lookup(fix.map, &query, &out), 2);
	cr_expect_eq(out.nr_first, 1);
	cr_expect_eq(kv_handle_step(&fix.entries, idle, kv_edge_claim), -EBUSY);
	cr_expect_eq(kv_word_refs(fix.entries.entry[held.index].word), 2);
	fixture_end(&fix);
}

/* It is cached, so lengths and probes of both maps count it; but no caller can hold it. */
MAP_TEST(a_block_with_all_references_is_there_and_cannot_be_had)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle full = put_in(&fix, 1), found;
	struct kv_entry *entry = &fix.entries.entry[full.index];
	kvmm_key_t key = key_of(1);
	struct kv_query query = { &key, 1, TEST_DOMAIN };
	u64 word = entry->word, present;
	struct kv_lookup match = { .refs = &found }, scan = { .refs = &found, .through = true };
	struct kv_lookup probe = { .present = &present, .through = true };

	entry->word |= KV_ENTRY_REFS;
	cr_expect_eq(kv_map_length(fix.map, &query), 1);
	cr_expect_eq(MAP.lookup(fix.map, &query, &probe), 1);
	cr_expect_eq(MAP.lookup(fix.map, &query, &match), 0);
	cr_expect_eq(fix.entries.nr_full, 1);
	cr_expect_eq(MAP.lookup(fix.map, &query, &scan), 0);
	cr_expect_eq(fix.entries.nr_full, 2);
	drop(&fix, put_in(&fix, 1));
	cr_expect_eq(MAP.lookup(fix.map, &query, &match), 1, "the younger one");
	cr_expect_neq(found.index, full.index);
	entry->word = (entry->word & ~KV_ENTRY_REFS) | (word & KV_ENTRY_REFS);
	fixture_end(&fix);
}

MAP_TEST(a_batch_is_registered_as_a_whole_or_not_at_all)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle twice[3] = { stage(&fix, 1), stage(&fix, 2) }, found[3];
	struct kv_insert insert = { .handles = twice, .nr = 3, .found = found };

	put_in(&fix, 9);
	twice[2] = twice[0];
	cr_expect_eq(MAP.insert(fix.map, &insert), -EINVAL);
	twice[2] = (struct kv_handle){ 77, 1 };
	cr_expect_eq(MAP.insert(fix.map, &insert), -EINVAL);
	twice[2] = take(&fix);
	cr_expect_eq(MAP.insert(fix.map, &insert), -EINVAL);
	kv_entry_free(&fix.entries, twice[2]);
	cr_expect_eq(MAP.insert(fix.map, &insert), -ESTALE);
	expect_sound(&fix, 1);
	insert.nr = 2;
	cr_expect_eq(MAP.insert(fix.map, &insert), 0);
	expect_sound(&fix, 3);
	fixture_end(&fix);
}

MAP_TEST(removes_only_what_is_being_evicted)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle handle = put_in(&fix, 1), stale;
	u32 nr = 1;

	cr_expect_eq(MAP.remove(fix.map, &handle, &nr), -EINVAL);
	cr_expect_eq(nr, 0);
	drop(&fix, handle);
	evict(&fix, handle);
	stale = handle;
	nr = 1;
	cr_expect_eq(MAP.remove(fix.map, &stale, &nr), -ESTALE);
	handle.index = 8;
	nr = 1;
	cr_expect_eq(MAP.remove(fix.map, &handle, &nr), -EINVAL);
	expect_sound(&fix, 0);
	fixture_end(&fix);
}

MAP_TEST(a_claim_can_be_taken_back)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle handle = put_in(&fix, 1);

	drop(&fix, handle);
	cr_expect_eq(kv_handle_step(&fix.entries, handle, kv_edge_claim), 0);
	cr_expect_eq(kv_handle_step(&fix.entries, handle, kv_edge_unclaim), 0);
	cr_expect(same_handle(find(&fix, 1), handle));
	expect_sound(&fix, 1);
	fixture_end(&fix);
}

/* ---- duplicates ---- */

MAP_TEST(finds_the_oldest_of_equal_names)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle dup[4];

	for (u32 i = 0; i < 4; i++) {
		dup[i] = put_in(&fix, 77);
		drop(&fix, dup[i]);
	}
	expect_sound(&fix, 4);
	evict(&fix, dup[1]);
	drop(&fix, find(&fix, 77));
	cr_expect(same_handle(find(&fix, 77), dup[0]));
	drop(&fix, dup[0]);
	evict(&fix, dup[0]);
	expect_sound(&fix, 2);
	cr_expect(same_handle(find(&fix, 77), dup[2]));
	drop(&fix, dup[2]);
	evict(&fix, dup[3]);
	cr_expect(same_handle(find(&fix, 77), dup[2]));
	drop(&fix, dup[2]);
	evict(&fix, dup[2]);
	cr_expect(!find(&fix, 77).gen);
	expect_sound(&fix, 0);
	fixture_end(&fix);
}

MAP_TEST(finds_a_younger_block_while_the_oldest_is_on_its_way_out)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle old = put_in(&fix, 1), young = put_in(&fix, 1);
	u32 nr = 1;

	drop(&fix, old);
	cr_expect_eq(kv_handle_step(&fix.entries, old, kv_edge_claim), 0);
	cr_expect(same_handle(find(&fix, 1), young));
	cr_expect_eq(MAP.remove(fix.map, &old, &nr), 0);
	cr_expect(same_handle(find(&fix, 1), young));
	expect_sound(&fix, 1);
	fixture_end(&fix);
}

static struct kv_insert register_under(struct fixture *fix, struct kv_handle *handle,
				   struct kv_handle *found, enum kv_dup_policy policy)
{
	struct kv_insert insert = { .handles = handle, .nr = 1, .policy = policy, .found = found };

	cr_assert_eq(fix->ops->insert(fix->map, &insert), 0);
	return insert;
}

MAP_TEST(rejects_a_newcomer_and_references_the_elder_instead)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle old = put_in(&fix, 1), new = stage(&fix, 1), found;
	struct kv_insert insert;

	drop(&fix, old);
	insert = register_under(&fix, &new, &found, KV_DUP_REJECT);
	cr_expect(same_handle(found, old));
	cr_expect_eq(insert.nr_dups, 1);
	cr_expect_eq(insert.nr_first, 1);
	cr_expect_eq(kv_handle_step(&fix.entries, old, kv_edge_claim), -EBUSY);
	cr_expect_eq(kv_handle_step(&fix.entries, new, kv_edge_unstage), 0);
	expect_sound(&fix, 1);
	fixture_end(&fix);
}

MAP_TEST(a_duplicate_can_hold_its_elder)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle old = put_in(&fix, 1), new = stage(&fix, 1), found;

	register_under(&fix, &new, &found, KV_DUP_HOLD);
	cr_expect(same_handle(found, new));
	cr_expect_eq(fix.entries.entry[new.index].link, old.index);
	drop(&fix, old);
	cr_expect_eq(kv_handle_step(&fix.entries, old, kv_edge_claim), -EBUSY);
	expect_sound(&fix, 2);
	fixture_end(&fix);
}

MAP_TEST(a_dying_elder_is_no_reason_to_reject)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle old = put_in(&fix, 1), new = stage(&fix, 1), found;
	u32 nr = 1;

	drop(&fix, old);
	cr_expect_eq(kv_handle_step(&fix.entries, old, kv_edge_claim), 0);
	register_under(&fix, &new, &found, KV_DUP_REJECT);
	cr_expect(same_handle(found, new));
	cr_expect_eq(MAP.remove(fix.map, &old, &nr), 0);
	cr_expect(same_handle(find(&fix, 1), new));
	expect_sound(&fix, 1);
	fixture_end(&fix);
}

MAP_TEST(a_name_that_only_hidden_blocks_have_is_not_taken)
{
	for (u32 policy = KV_DUP_ALLOW; policy <= KV_DUP_REJECT; policy++) {
		struct fixture fix = fixture_make(&MAP, 8);
		struct kv_handle old = put_in(&fix, 1), new = stage(&fix, 1), found;

		cr_assert_eq(MAP.hide(fix.map, old), 0);
		cr_expect_eq(register_under(&fix, &new, &found, policy).nr_dups, 0, "%u", policy);
		cr_expect(same_handle(found, new));
		cr_expect_eq(fix.entries.entry[new.index].link, KV_NONE);
		new = stage(&fix, 1);
		cr_expect_eq(register_under(&fix, &new, &found, policy).nr_dups, 1, "%u", policy);
		fixture_end(&fix);
	}
}

/* ---- many keys ---- */

static void fill_prompt(struct fixture *fix, kvmm_key_t *keys, u32 nr, u32 nr_cached)
{
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(1000 + i);
	for (u32 i = 0; i < nr_cached; i++)
		drop(fix, put_in(fix, 1000 + i));
}

MAP_TEST(matches_exactly_the_cached_prefix_of_any_length)
{
	static const u32 lengths[] = { 0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 255 };
	kvmm_key_t keys[256];
	struct kv_handle refs[256];
	struct kv_lookup out = { .refs = refs };

	for (u32 l = 0; l < ARRAY_SIZE(lengths); l++) {
		struct fixture fix = fixture_make(&MAP, 256);
		struct kv_query query = { keys, 256, TEST_DOMAIN };

		drop(&fix, put_in(&fix, 1));
		fill_prompt(&fix, keys, 256, lengths[l]);
		for (u32 nr = 0; nr <= 256; nr++) {
			query.nr = nr;
			cr_assert_eq(kv_map_length(fix.map, &query), min(nr, lengths[l]));
		}
		cr_expect_eq(MAP.lookup(fix.map, &query, &out), lengths[l]);
		cr_expect_eq(out.nr_first, lengths[l]);
		for (u32 i = 0; i < lengths[l]; i++)
			cr_assert_eq(fix.entries.entry[refs[i].index].position, 1000 + i);
		fixture_end(&fix);
	}
}

MAP_TEST(scans_past_what_is_missing)
{
	struct fixture fix = fixture_make(&MAP, 128);
	kvmm_key_t keys[100];
	struct kv_query query = { keys, 100, TEST_DOMAIN };
	struct kv_handle refs[100];
	struct kv_lookup out = { .refs = refs, .through = true };

	for (u32 i = 0; i < 100; i++) {
		keys[i] = key_of(i);
		if (i % 3)
			drop(&fix, put_in(&fix, i));
	}
	cr_expect_eq(MAP.lookup(fix.map, &query, &out), 66);
	cr_expect_eq(out.nr_first, 66);
	for (u32 i = 0; i < 100; i++)
		cr_expect_eq(!!refs[i].gen, i % 3 != 0);
	fixture_end(&fix);
}

/* 150 keys: every third one is there, the first included. */
MAP_TEST(probing_says_which_are_there_and_takes_nothing)
{
	struct fixture fix = fixture_make(&MAP, 256);
	u64 present[4] = { 0, 0, 0, 99 };
	kvmm_key_t keys[150];
	struct kv_query query = { keys, 150, TEST_DOMAIN };
	struct kv_lookup out = { .present = present, .through = true };
	struct kv_handle handle, weak[150];
	struct kv_lookup weakly = { .weak = weak, .through = true }, upto = { .weak = weak };

	for (u64 i = 0; i < 150; i++) {
		keys[i] = key_of(i);
		if (i % 3 == 0)
			drop(&fix, put_in(&fix, i));
	}
	cr_expect_eq(MAP.lookup(fix.map, &query, &out), 50);
	for (u32 i = 0; i < 192; i++)
		cr_expect_eq(present[i / 64] >> i % 64 & 1, i < 150 && i % 3 == 0, "%u", i);
	cr_expect_eq(present[3], 99);
	cr_expect_eq(MAP.lookup(fix.map, &query, &weakly), 50);
	for (u32 i = 0; i < 150; i++)
		cr_expect_eq(weak[i].gen != 0, i % 3 == 0, "%u", i);
	cr_expect_eq(MAP.lookup(fix.map, &query, &upto), 1);
	handle = find(&fix, 0);
	cr_expect_arr_eq(&handle, &weak[0], sizeof(handle));
	cr_expect_eq(kv_word_refs(fix.entries.entry[handle.index].word), 1);
	drop(&fix, handle);
	expect_sound(&fix, 50);
	fixture_end(&fix);
}

MAP_TEST(a_key_that_stands_twice_in_a_query_is_referenced_twice)
{
	struct fixture fix = fixture_make(&MAP, 8);
	kvmm_key_t keys[3] = { key_of(1), key_of(1), key_of(1) };
	struct kv_query query = { keys, 3, TEST_DOMAIN };
	struct kv_handle handle = put_in(&fix, 1), refs[3];
	struct kv_lookup out = { .refs = refs };

	drop(&fix, handle);
	cr_expect_eq(MAP.lookup(fix.map, &query, &out), 3);
	cr_expect_eq(out.nr_first, 1);
	cr_expect_eq(kv_word_refs(fix.entries.entry[handle.index].word), 3);
	fixture_end(&fix);
}

MAP_TEST(unknown_names_cost_no_memory)
{
	struct fixture fix = fixture_make(&MAP, 64);
	u64 before, bytes;

	drop(&fix, put_in(&fix, 1));
	before = kv_mem_bytes();
	bytes = MAP.bytes(fix.map);
	for (u64 i = 2; i < 20000; i++)
		cr_assert(!find(&fix, i).gen);
	cr_expect_eq(kv_mem_bytes(), before);
	cr_expect_eq(MAP.bytes(fix.map), bytes);
	fixture_end(&fix);
}

/* ---- misses ---- */

static enum kv_event last_reason(struct fixture *fix, u64 number, kvmm_domain_t domain)
{
	kvmm_key_t key = key_of(number);
	struct kv_query query = { &key, 1, domain };
	u64 before[KV_NR_EVENTS];

	for (int ev = KV_EV_MISS_NEVER; ev <= KV_EV_MISS_GROUP; ev++)
		before[ev] = kv_stat_sum(ev);
	cr_assert(!find_in(fix, number, domain).gen);
	MAP.missed(fix->map, &query, 0);
	for (int ev = KV_EV_MISS_NEVER; ev <= KV_EV_MISS_GROUP; ev++)
		if (kv_stat_sum(ev) != before[ev])
			return ev;
	return KV_NR_EVENTS;
}

MAP_TEST(counts_why_a_match_ended)
{
	struct fixture fix = fixture_make(&MAP, 64);
	kvmm_domain_t other = TEST_DOMAIN;
	struct kv_handle handle = put_in(&fix, 1), staged;

	cr_expect_eq(last_reason(&fix, 2, TEST_DOMAIN), KV_EV_MISS_NEVER);
	other.tenant = 99;
	cr_expect_eq(last_reason(&fix, 1, other), KV_EV_MISS_TENANT);
	other = TEST_DOMAIN;
	other.group = 7;
	cr_expect_eq(last_reason(&fix, 1, other), KV_EV_MISS_GROUP);
	drop(&fix, handle);
	evict(&fix, handle);
	cr_expect_eq(last_reason(&fix, 1, TEST_DOMAIN), KV_EV_MISS_EVICTED);
	staged = stage(&fix, 4);
	MAP.staged(fix.map, &staged, 1);
	cr_expect_eq(last_reason(&fix, 4, TEST_DOMAIN), KV_EV_MISS_STAGED);
	fixture_end(&fix);
}

MAP_TEST(rejected_newcomers_take_no_room_of_names_that_are_there)
{
	struct fixture fix = fixture_make(&MAP, 64);
	kvmm_domain_t other = TEST_DOMAIN;

	other.tenant = 99;
	for (u64 i = 0; i < 16; i++)
		drop(&fix, put_in(&fix, i));
	for (u64 i = 0; i < 2000; i++) {
		struct kv_handle new = stage(&fix, i % 16), found;

		register_under(&fix, &new, &found, KV_DUP_REJECT);
		drop(&fix, found);
		cr_assert_eq(kv_handle_step(&fix.entries, new, kv_edge_mark), 0);
		cr_assert_eq(kv_entry_free(&fix.entries, new), 0);
	}
	for (u64 i = 100; i < 132; i++) {
		put_in(&fix, i);
		cr_expect_eq(last_reason(&fix, i, other), KV_EV_MISS_TENANT, "%lu", i);
	}
	fixture_end(&fix);
}

static kvmm_domain_t domain_of(u32 tenant)
{
	kvmm_domain_t domain = TEST_DOMAIN;

	domain.tenant = tenant;
	return domain;
}

/* More than the map knows by themselves; and each key is there under several of them. */
MAP_TEST(names_of_many_domains_are_known_to_those_who_miss_them)
{
	struct fixture fix = fixture_make(&MAP, 256);
	struct kv_handle handle[40];
	struct kv_name name;

	for (u32 i = 0; i < ARRAY_SIZE(handle); i++) {
		name = name_of(i % 20);
		name.domain = domain_of(i);
		handle[i] = stage_as(&fix, &name);
		register_all(&fix, &handle[i], 1);
		drop(&fix, handle[i]);
	}
	for (u32 i = ARRAY_SIZE(handle); i-- > 0;) {
		kvmm_domain_t domain = domain_of(i), other = domain_of(1000), group = domain;

		group.group++;
		cr_expect_eq(last_reason(&fix, i % 20, other), KV_EV_MISS_TENANT, "%u", i);
		cr_expect_eq(last_reason(&fix, i % 20, group), KV_EV_MISS_GROUP, "%u", i);
		evict(&fix, handle[i]);
		cr_expect_eq(last_reason(&fix, i % 20, domain),
			     i < 20 ? KV_EV_MISS_EVICTED : KV_EV_MISS_TENANT, "%u", i);
		cr_expect_eq(last_reason(&fix, i % 20, other),
			     i < 20 ? KV_EV_MISS_NEVER : KV_EV_MISS_TENANT, "%u", i);
	}
	fixture_end(&fix);
}

/* Duplicates that went before are no names that are gone: they take no room of those that are. */
MAP_TEST(a_name_is_gone_when_its_last_block_is)
{
	struct fixture fix = fixture_make(&MAP, MANY);
	struct kv_handle dup[4];
	u32 nr = 0;

	for (u64 i = 0; i < 3 * MANY; i++) {
		for (u32 d = 0; d < ARRAY_SIZE(dup); d++)
			dup[d] = put_in(&fix, i);
		for (u32 d = 0; d < ARRAY_SIZE(dup); d++) {
			u32 at = (d + i) % ARRAY_SIZE(dup);	/* old and young ones first */

			drop(&fix, dup[at]);
			evict(&fix, dup[at]);
		}
	}
	for (u64 i = 2 * MANY; i < 3 * MANY; i++)
		nr += last_reason(&fix, i, TEST_DOMAIN) == KV_EV_MISS_EVICTED;
	cr_expect_geq(nr, MANY - 1);
	fixture_end(&fix);
}

/* ---- resize ---- */

MAP_TEST(keeps_everything_when_it_is_resized)
{
	static const u32 sizes[] = { 1, 4, 100, MANY, 7, 50000, 33 };
	struct fixture fix = fixture_make(&MAP, MANY);

	for (u64 i = 0; i < MANY; i++)
		drop(&fix, put_in(&fix, i / 2));
	for (u32 s = 0; s < ARRAY_SIZE(sizes); s++) {
		cr_assert_eq(MAP.resize(fix.map, sizes[s], s), 0);
		expect_sound(&fix, MANY);
		for (u64 i = 0; i < MANY / 2; i++) {
			struct kv_handle handle = find(&fix, i);

			cr_assert(handle.gen);
			cr_assert(!(fix.entries.entry[handle.index].word & KV_ENTRY_DUP));
			drop(&fix, handle);
		}
	}
	fixture_end(&fix);
}

/* ---- out of memory ---- */

MAP_TEST(survives_the_failure_of_any_allocation)
{
	struct kv_entries_attr attr = { .nr = 64 };
	struct fake_env fake;

	fake_env_install(&fake);
	for (u32 nth = 1;; nth++) {
		struct kv_entries entries = { 0 };
		struct kv_map *map = NULL;
		struct kv_map_attr map_attr = { &entries, 64, 1, false };
		int err;

		fake_env_fail(&fake, nth, false);
		err = kv_entries_init(&entries, &attr);
		if (!err)
			err = MAP.create(&map_attr, &map);
		if (!err)
			err = MAP.resize(map, 10, 2);
		cr_assert_eq(err, fake_env_failed(&fake) ? -ENOMEM : 0, "%u: %d", nth, err);
		MAP.destroy(map);
		kv_entries_exit(&entries);
		kv_rcu_barrier();
		cr_assert_eq(fake.nr_live, 0);
		if (!err)
			break;
		cr_assert_lt(nth, 20);
	}
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

MAP_TEST(a_batch_without_memory_leaves_no_trace)
{
	struct fixture fix = fixture_make(&MAP, 8);
	struct kv_handle batch[3], found[3];
	struct kv_insert insert = { .handles = batch, .nr = 3, .found = found };
	struct fake_env fake;
	int err;

	fake_env_install(&fake);
	fix.map = NULL;
	put_in(&fix, 100);
	for (u32 i = 0; i < 3; i++)
		batch[i] = stage(&fix, i);
	for (u32 nth = 1; nth < 10; nth++) {
		fake_env_fail(&fake, nth, false);
		err = MAP.insert(fix.map, &insert);
		if (!err)
			break;
		cr_assert_eq(err, -ENOMEM);
		expect_sound(&fix, 1);
	}
	cr_expect_eq(err, 0);
	fake_env_fail(&fake, 0, false);
	expect_sound(&fix, 4);
	MAP.destroy(fix.map);
	kv_rcu_barrier();
	fake_env_remove(&fake);
	kv_entries_exit(&fix.entries);
}

/* ---- against a model ---- */

#define NR_NAMES	40u
#define NR_STEPS	60000u

/* Blocks of one name, oldest first. */
struct model {
	struct kv_handle block[NR_NAMES][MANY];
	u32 nr[NR_NAMES];
	u32 nr_blocks;
};

static void model_remove(struct model *model, u32 name, u32 at)
{
	struct kv_handle *block = model->block[name];

	memmove(&block[at], &block[at + 1], (--model->nr[name] - at) * sizeof(*block));
	model->nr_blocks--;
}

static void model_step(struct fixture *fix, struct model *model, u32 name)
{
	u32 dice = rand() % 100, nr = model->nr[name];
	struct kv_handle handle;

	if (dice < 35 && model->nr_blocks < MANY / 3) {
		handle = put_in(fix, name);
		drop(fix, handle);
		model->block[name][model->nr[name]++] = handle;
		model->nr_blocks++;
	} else if (dice < 65 && nr) {
		u32 at = rand() % nr;

		evict(fix, model->block[name][at]);
		model_remove(model, name, at);
	} else {
		handle = find(fix, name);
		cr_assert(same_handle(handle, nr ? model->block[name][0] :
				      (struct kv_handle){ 0 }));
		if (nr)
			drop(fix, handle);
	}
}

MAP_TEST(does_what_a_list_per_name_would_do)
{
	struct model *model = calloc(1, sizeof(*model));
	struct fixture fix = fixture_make(&MAP, MANY);

	cr_assert(model);
	srand(20240607);
	for (u32 step = 0; step < NR_STEPS; step++) {
		u32 name = rand() % 3 ? rand() % NR_NAMES : rand() % 3;

		model_step(&fix, model, name);
		if (step % 5000 == 0) {
			expect_sound(&fix, model->nr_blocks);
			cr_assert_eq(MAP.resize(fix.map, 1 + rand() % 200, rand()), 0);
		}
	}
	expect_sound(&fix, model->nr_blocks);
	free(model);
	fixture_end(&fix);
}
