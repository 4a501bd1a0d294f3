// SPDX-License-Identifier: Apache-2.0
/* Holds: what they keep, for how long, who is told of them. Time is the fake host's. */
#include "lease/lease.h"
#include "tests/pool/lease_util.h"
#include "tests/support/fault.h"

extern const struct pool_part leases_part;

static struct kvmm_pool *pool;

/* Keys 0 to 3 are cached in blocks 0 to 3; of six. */
static void set_up(void)
{
	fault_begin();
	fake.now_ns = 1000;
	pool = make_cache(6, "lru");
	cache_keys(pool, 0, 4);
}

static void tear_down(void)
{
	end_pool(pool);
	fault_end();
}

TestSuite(hold, .init = set_up, .fini = tear_down);

#define expect_picture(want)	cr_expect_str_eq(picture(pool), want)
#define expect_valid()		cr_expect(!kvmm_validate(pool) && !leases_part.check(pool, NULL))

static struct kvmm_block_info info_of_block(u32 block)
{
	struct kvmm_block_info info;

	cr_assert_eq(kvmm_block_get_info(pool, block, &info), 0);
	return info;
}

/* ---- what a hold keeps ---- */

Test(hold, held_blocks_are_not_evicted)
{
	kvmm_lease_t hold = hold_keys(pool, 1, 2, 0);
	kvmm_mut_t mut[5];

	expect_picture("IAAI..");
	cr_expect_eq(kvmm_alloc(pool, 5, mut), -ENOSPC);
	cr_assert_eq(kvmm_alloc(pool, 4, mut), 0);
	expect_picture("PAAPPP");
	cr_expect_eq(drop_lease(pool, hold), 0);
	expect_picture("PIIPPP");
	expect_valid();
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
}

Test(hold, a_hold_counts_as_a_use)
{
	drop_lease(pool, hold_keys(pool, 0, 4, 0));
	expect_order(pool, "3 2 1 0 ");
	for (u32 i = 0; i < 4; i++)		/* four prompts: in a chain the end goes first anyway */
		cache_keys(pool, i, 1);
	drop_lease(pool, hold_keys(pool, 0, 1, 0));
	expect_order(pool, "1 2 3 0 ");
}

Test(hold, all_blocks_or_none)
{
	kvmm_lease_t hold = { 77, 78 };

	cr_expect_eq(try_hold(pool, 2, 3, 0, &hold), -ENOENT);
	cr_expect_eq(hold.index, 77);
	cr_expect_eq(nr_holds(pool), 0);
	expect_picture("IIII..");
	expect_valid();
	expect_order(pool, "3 2 1 0 ");		/* those that are there were not used */
}

Test(hold, or_those_that_are_there)
{
	kvmm_key_t keys[5] = { key_of(9), key_of(3), key_of(8), key_of(1), key_of(7) };
	struct kvmm_prefix prefix = { .keys = keys, .nr = 5 };
	struct kvmm_lease_attr attr = { .size = sizeof(attr), .prefix = &prefix,
				       .flags = KVMM_LEASE_PARTIAL };
	struct kvmm_lease_addr addr[5];
	kvmm_lease_t hold;

	cr_expect_eq(kvmm_lease_take(pool, &attr, &hold), 2);
	expect_picture("IAIA..");
	cr_expect_eq(kvmm_lease_addrs(pool, hold, addr, 5), 2);
	for (u32 i = 0; i < 2; i++) {
		kvmm_ref_t ref = { addr[i].index, addr[i].gen };

		cr_expect_eq(number_of(&addr[i].key), 3 - 2 * i);
		cr_expect_eq(kvmm_block_of_ref(pool, ref), 3 - 2 * i);
		cr_expect_eq(addr[i].pool_id, 0, "it is not pinned");
	}
	expect_valid();
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_expect_eq(try_hold(pool, 10, 5, KVMM_LEASE_PARTIAL, &hold), -ENOENT, "none is there");
	expect_picture("IIII..");
}

Test(hold, a_key_that_stands_there_twice_is_held_twice)
{
	kvmm_key_t keys[3] = { key_of(1), key_of(2), key_of(1) };
	struct kvmm_prefix prefix = { .keys = keys, .nr = 3 };
	struct kvmm_lease_attr attr = { .size = sizeof(attr), .prefix = &prefix };
	struct kvmm_lease_info infos[3];
	kvmm_lease_t hold;

	cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), 3);
	cr_expect_eq(info_of_block(1).refs, 2);
	cr_expect_eq(info_of_block(2).refs, 1);
	cr_expect_eq(leases_of_key(pool, &keys[0], NULL, infos, 3), 2);
	expect_valid();
	cr_expect_eq(drop_lease(pool, hold), 0);
	expect_picture("IIII..");
}

/* ---- what is dropped once too often ---- */

static int unpin_rdma(struct kvmm_pool *of, kvmm_ref_t ref)
{
	return kvmm_unpin_many_as(of, &ref, 1, KVMM_PIN_RDMA);
}

/* How the first of two blocks of a hold loses what the hold had of it. */
static const struct loss {
	const char *name;
	u32 flags, reason;
	int (*lose)(struct kvmm_pool *pool, kvmm_ref_t ref);
} losses[] = {
	{ "a put", 0, 0, kvmm_put },
	{ "an unpin", KVMM_LEASE_PIN, 0, kvmm_unpin },
	{ "a typed unpin", KVMM_LEASE_PIN, KVMM_LEASE_RDMA, unpin_rdma },
};

Test(hold, an_unpin_too_many_costs_the_hold_and_not_the_pool)
{
	for (u32 i = 0; i < ARRAY_SIZE(losses); i++) {
		kvmm_key_t keys[2] = { key_of(0), key_of(1) };
		struct kvmm_prefix prefix = { .keys = keys, .nr = 2 };
		struct kvmm_lease_attr attr = { .size = sizeof(attr), .prefix = &prefix,
						.flags = losses[i].flags,
						.reason = losses[i].reason };
		kvmm_lease_t hold;
		kvmm_ref_t ref;

		cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), 2);
		cr_assert_eq(refs_of_lease(pool, hold, &ref, 1), 2);
		if (attr.reason)
			cr_expect_eq(kvmm_unpin(pool, ref), -EINVAL);
		cr_expect_eq(losses[i].lose(pool, ref), 0, "%s", losses[i].name);
		expect_picture("IAII..");
		expect_valid();
		cr_expect_lt(drop_lease(pool, hold), 0, "%s", losses[i].name);
		cr_expect_eq(drop_lease(pool, hold), -ESTALE);
		expect_picture("IIII..");
		expect_valid();
	}
}

Test(hold, a_reference_of_the_caller_survives_the_hold_that_lost_its_pin)
{
	kvmm_lease_t hold = hold_keys(pool, 0, 2, KVMM_LEASE_PIN);
	kvmm_ref_t ref;

	cr_assert_eq(refs_of_lease(pool, hold, &ref, 1), 2);
	cr_assert_eq(kvmm_get(pool, ref), 0);
	cr_assert_eq(kvmm_unpin(pool, ref), 0, "the pin of the hold");
	cr_expect_lt(drop_lease(pool, hold), 0);
	expect_picture("AIII..");
	cr_expect_eq(kvmm_put(pool, ref), 0);
}

/* The block is gone altogether by the time of the release. */
Test(hold, a_put_too_many_costs_the_hold_and_not_the_pool)
{
	kvmm_lease_t hold = hold_keys(pool, 0, 2, 0);
	kvmm_ref_t ref;

	cr_assert_eq(refs_of_lease(pool, hold, &ref, 1), 2);
	cr_assert_eq(kvmm_put(pool, ref), 0, "the reference of the hold");
	cr_expect_eq(kvmm_reset_inactive(pool), 3);
	expect_picture(".A....");
	expect_valid();
	cr_expect_lt(drop_lease(pool, hold), 0);
	expect_picture(".I....");
}

Test(hold, a_range_freed_or_unpinned_too_often_costs_the_hold_and_not_the_pool)
{
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	kvmm_range_t range;
	kvmm_lease_t hold;

	for (u32 pin = 0; pin < 2; pin++) {
		attr.flags = pin ? KVMM_LEASE_PIN : 0;
		cr_assert_eq(kvmm_range_alloc(pool, 2, 0, &range), 0);
		cr_assert_eq(lease_range(pool, &attr, range, &hold), 0);
		cr_expect_eq(kvmm_range_unpin(pool, range), pin ? 0 : -EINVAL);
		expect_valid();
		cr_expect_eq(kvmm_range_free(pool, range), 0);
		cr_expect_eq(kvmm_range_free(pool, range), 0, "the reference of the hold");
		expect_valid();
		cr_expect_eq(drop_lease(pool, hold), -ESTALE, "it lost its blocks");
		cr_expect_eq(nr_holds(pool), 0);
		expect_picture("IIII..");
		expect_valid();
	}
	cr_assert_eq(kvmm_range_alloc(pool, 2, 0, &range), 0);
	cr_assert_eq(lease_range(pool, &attr, range, &hold), 0);
	cr_expect_eq(kvmm_range_unpin(pool, range), 0);
	cr_expect_eq(drop_lease(pool, hold), -EINVAL, "it lost a pin");
	cr_expect_eq(drop_lease(pool, hold), -ESTALE);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	attr.lease_ns = 1;
	attr.flags |= KVMM_LEASE_RECLAIM;
	cr_assert_eq(kvmm_range_alloc(pool, 2, 0, &range), 0);
	cr_assert_eq(lease_range(pool, &attr, range, &hold), 0);
	cr_expect_eq(kvmm_range_unpin(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_lease_expire(pool, UINT64_MAX, NULL), 1, "no caller is told");
}

Test(hold, references_are_lent)
{
	kvmm_lease_t hold = hold_keys(pool, 0, 3, 0);
	kvmm_ref_t ref[3] = { { 0 } };

	cr_expect_eq(refs_of_lease(pool, hold, ref, 2), 3, "more than there is room for");
	cr_expect_eq(ref[2].gen, 0);
	cr_expect_eq(refs_of_lease(pool, hold, NULL, 0), 3);
	cr_assert_eq(kvmm_get_many(pool, ref, 2), 0);
	cr_expect_eq(drop_lease(pool, hold), 0);
	expect_picture("AAII..");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(refs_of_lease(pool, hold, ref, 2), -ESTALE);
}

/* ---- pins ---- */

static void pack(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };

	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
}

Test(hold, pinned_blocks_stay_where_they_are)
{
	kvmm_lease_t pinned = hold_keys(pool, 3, 1, KVMM_LEASE_PIN);
	u32 first[2] = { 0, 1 };

	cr_expect_eq(info_of_block(3).refs, 1);
	cr_expect_eq(info_of_block(3).pins, 1);
	cr_expect_eq(kvmm_evict_blocks(pool, first, 2), 2);
	expect_picture("..IA..");
	pack();
	expect_picture("...AI.");
	expect_valid();
	cr_expect_eq(drop_lease(pool, pinned), 0);
	cr_expect_eq(info_of_block(3).pins, 0);
	expect_picture("...II.");
	pack();
	expect_picture("II....");
}

Test(hold, addresses_are_good_while_a_pin_is_held)
{
	kvmm_lease_t hold = hold_keys(pool, 1, 3, KVMM_LEASE_PIN), other;
	struct kvmm_lease_addr addr[3];

	cr_assert_eq(kvmm_lease_addrs(pool, hold, addr, 3), 3);
	for (u32 i = 0; i < 3; i++) {
		cr_expect_eq(addr[i].block, 1 + i);
		cr_expect_eq(number_of(&addr[i].key), 1 + i);
		cr_expect_neq(addr[i].pool_id, 0);
		cr_expect_eq(kvmm_lease_check(pool, &addr[i]), 0);
	}
	other = hold_keys(pool, 2, 1, KVMM_LEASE_PIN);
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_expect_eq(kvmm_lease_check(pool, &addr[0]), -ESTALE);
	cr_expect_eq(kvmm_lease_check(pool, &addr[1]), 0, "pinned by somebody else");
	cr_expect_eq(drop_lease(pool, other), 0);
	cr_expect_eq(kvmm_lease_check(pool, &addr[1]), -ESTALE, "cached, but no longer pinned");
	cr_assert_eq(kvmm_lease_addrs(pool, hold, addr, 3), -ESTALE);
}

Test(hold, an_address_is_of_one_block_among_those_of_its_key)
{
	kvmm_lease_t hold = hold_keys(pool, 1, 1, KVMM_LEASE_PIN);
	struct kvmm_lease_addr addr;
	kvmm_lease_t again;

	cr_assert_eq(kvmm_lease_addrs(pool, hold, &addr, 1), 1);
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 4);
	cache_keys(pool, 0, 4);
	again = hold_keys(pool, 1, 1, KVMM_LEASE_PIN);
	cr_expect_eq(info_of_block(1).pins, 1, "same key, same place");
	cr_expect_eq(kvmm_lease_check(pool, &addr), -ESTALE, "but another block");
	cr_expect_eq(drop_lease(pool, again), 0);
}

Test(hold, an_address_is_not_good_when_the_pin_was_taken_from_the_hold)
{
	kvmm_lease_t hold = hold_keys(pool, 1, 2, KVMM_LEASE_PIN);
	struct kvmm_lease_addr addr[2];
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_lease_addrs(pool, hold, addr, 2), 2);
	cr_assert_eq(refs_of_lease(pool, hold, &ref, 1), 2);
	cr_assert_eq(kvmm_get(pool, ref), 0);
	cr_assert_eq(kvmm_unpin(pool, ref), 0);
	cr_expect_eq(kvmm_lease_check(pool, &addr[0]), -ESTALE);
	cr_expect_eq(kvmm_lease_check(pool, &addr[1]), 0);
	cr_expect_eq(kvmm_lease_addrs(pool, hold, addr, 2), -ESTALE);
	cr_assert_eq(kvmm_pin(pool, ref), 0);
	cr_expect_eq(kvmm_lease_check(pool, &addr[0]), 0, "pinned again, where it was");
	cr_assert_eq(kvmm_put(pool, ref), 0);
	cr_expect_eq(drop_lease(pool, hold), 0);
}

Test(hold, a_hold_without_pin_keeps_no_address_good)
{
	kvmm_lease_t pinned = hold_keys(pool, 0, 1, KVMM_LEASE_PIN), held = hold_keys(pool, 0, 1, 0);
	struct kvmm_lease_addr addr;

	cr_assert_eq(kvmm_lease_addrs(pool, pinned, &addr, 1), 1);
	cr_expect_eq(drop_lease(pool, pinned), 0);
	cr_expect_eq(kvmm_lease_check(pool, &addr), -ESTALE);
	cr_expect_eq(drop_lease(pool, held), 0);
}

Test(hold, addresses_that_are_none)
{
	kvmm_lease_t hold = hold_keys(pool, 1, 1, KVMM_LEASE_PIN);
	kvmm_lease_t unpinned = hold_keys(pool, 2, 1, 0);
	struct kvmm_pool *other = make_cache(6, "lru");
	struct kvmm_lease_addr good, bad;

	cr_expect_eq(kvmm_lease_addrs(pool, unpinned, &bad, 1), 1);
	cr_expect_eq(kvmm_lease_check(pool, &bad), -EINVAL);
	cr_assert_eq(kvmm_lease_addrs(pool, hold, &good, 1), 1);
	for (u32 bit = 0; bit < 8 * sizeof(good); bit++) {
		bad = good;
		((u8 *)&bad)[bit / 8] ^= 1u << bit % 8;
		cr_expect_lt(kvmm_lease_check(pool, &bad), 0, "bit %u", bit);
	}
	cr_expect_eq(kvmm_lease_check(pool, &good), 0);
	cr_expect_eq(kvmm_lease_check(other, &good), -EXDEV, "no hold was ever there");
	cache_keys(other, 0, 2);
	drop_lease(other, hold_keys(other, 1, 1, KVMM_LEASE_PIN));
	cr_expect_eq(kvmm_lease_check(other, &good), -EXDEV);
	memset(&bad, 0, sizeof(bad));
	cr_expect_eq(kvmm_lease_check(pool, &bad), -EINVAL);
	cr_expect_eq(kvmm_lease_check(pool, NULL), -EINVAL);
	cr_expect_eq(kvmm_lease_check(NULL, &good), -EINVAL);
	end_pool(other);
	drop_lease(pool, hold);
	drop_lease(pool, unpinned);
}

/* ---- leases ---- */

Test(hold, a_hold_expires_at_its_deadline_and_when_asked_to)
{
	kvmm_lease_t brief[] = { lease_keys(pool, 0, 1, 50, 0),
				 lease_keys(pool, 3, 1, 50, KVMM_LEASE_PIN) };
	kvmm_lease_t longer = lease_keys(pool, 1, 1, 90, 0), forever = hold_keys(pool, 2, 1, 0);

	fake_env_advance(&fake, 49);
	cr_expect_eq(kvmm_lease_expire(pool, 0, NULL), 0);
	fake_env_advance(&fake, 1);
	expect_picture("AAAA..");			/* nothing happens by itself */
	cr_expect_eq(kvmm_lease_expire(pool, 0, NULL), 2);
	expect_picture("IAAI..");
	cr_expect_eq(info_of_block(3).pins, 0);
	cr_expect_eq(drop_lease(pool, brief[0]), -ESTALE);
	cr_expect_eq(kvmm_lease_expire(pool, 1089, NULL), 0, "by a time of the caller's");
	cr_expect_eq(kvmm_lease_expire(pool, UINT64_MAX, NULL), 1);
	cr_expect_eq(renew_lease(pool, longer, 1), -ESTALE);
	expect_picture("IIAI..");
	expect_valid();
	cr_expect_eq(drop_lease(pool, forever), 0);
}

Test(hold, a_lease_is_renewed_from_now_on)
{
	kvmm_lease_t hold = lease_keys(pool, 0, 1, 50, 0);

	cr_expect_eq(info_of(pool, hold).deadline_ns, 1050);
	fake_env_advance(&fake, 60);
	cr_expect_eq(renew_lease(pool, hold, 50), 0, "late, but nobody has dropped it");
	cr_expect_eq(info_of(pool, hold).deadline_ns, 1110);
	cr_expect_eq(kvmm_lease_expire(pool, 0, NULL), 0);
	expect_valid();
	cr_expect_eq(renew_lease(pool, hold, 0), 0);
	cr_expect_eq(info_of(pool, hold).deadline_ns, 0);
	cr_expect_eq(kvmm_lease_expire(pool, UINT64_MAX, NULL), 0, "no lease any more");
	cr_expect_eq(renew_lease(pool, hold, UINT64_MAX), 0);
	cr_expect_eq(info_of(pool, hold).deadline_ns, UINT64_MAX, "the end of time, not its start");
	cr_expect_eq(drop_lease(pool, hold), 0);
}

/* ---- who is told what ---- */

Test(hold, info_is_what_was_asked_for)
{
	kvmm_key_t keys[2] = { key_of(0), key_of(1) };
	struct kvmm_prefix prefix = { .keys = keys, .nr = 2 };
	struct kvmm_lease_attr attr = { .size = sizeof(attr), .prefix = &prefix,
				       .owner = 0x123456789abcdefull,
				       .text = "31 bytes, as many as there can ",
				       .reason = KVMM_LEASE_RDMA, .lease_ns = 500,
				       .flags = KVMM_LEASE_PIN };
	struct kvmm_lease_info info;
	kvmm_lease_t hold;

	cr_assert_eq(strlen(attr.text), KVMM_LEASE_TEXT);
	cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), 2);
	fake_env_advance(&fake, 7);
	info = info_of(pool, hold);
	cr_expect_eq(info.owner, attr.owner);
	cr_expect_str_eq(info.text, attr.text);
	cr_expect_eq(info.reason, KVMM_LEASE_RDMA);
	cr_expect_eq(info.flags, KVMM_LEASE_PIN);
	cr_expect_eq(info.since_ns, 1000);
	cr_expect_eq(info.age_ns, 7);
	cr_expect_eq(info.deadline_ns, 1500);
	cr_expect_eq(info.nr, 2);
	cr_expect_eq(info.reserved, 0);
	cr_expect(info.index == hold.index && info.gen == hold.gen);
	cr_expect_eq(info.kind, KVMM_LEASED_PINS);
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_expect_eq(kvmm_lease_get_info(pool, hold, &info), -ESTALE);
	cr_expect_eq(kvmm_lease_get_info(pool, hold, NULL), -EINVAL);
}

Test(hold, a_walk_sees_each_hold_once)
{
	kvmm_lease_t hold[3];
	struct kvmm_lease_info info;
	u64 cursor = 0;
	u32 seen = 0;

	cr_expect_eq(nr_holds(pool), 0);
	for (u32 i = 0; i < 3; i++)
		hold[i] = hold_keys(pool, i, 1, 0);
	while (!next_hold(pool, &cursor, &info)) {
		cr_expect(!(seen & 1u << info.owner));
		seen |= 1u << info.owner;
	}
	cr_expect_eq(seen, 7);
	cr_expect_eq(next_hold(pool, &cursor, &info), -ENOENT);
	drop_lease(pool, hold[1]);
	cr_expect_eq(nr_holds(pool), 2);
	drop_lease(pool, hold[0]);
	drop_lease(pool, hold[2]);
	cr_expect_eq(next_hold(pool, NULL, &info), -EINVAL);
	cr_expect_eq(next_hold(pool, &cursor, NULL), -EINVAL);
	cr_expect_eq(next_hold(NULL, &cursor, &info), -EINVAL);
}

Test(hold, who_holds_the_block_of_a_key)
{
	kvmm_lease_t hold[3] = { hold_keys(pool, 0, 3, 0), hold_keys(pool, 1, 1, 0),
				hold_keys(pool, 2, 2, KVMM_LEASE_PIN) };
	kvmm_key_t key = key_of(1), nobodys = key_of(99);
	kvmm_domain_t other = { .tenant = 1 };
	struct kvmm_lease_info infos[4];

	cr_assert_eq(leases_of_key(pool, &key, NULL, infos, 4), 2);
	cr_expect_eq(infos[0].owner + infos[1].owner, 1);
	cr_expect_eq(leases_of_key(pool, &key, NULL, NULL, 0), 2);
	cr_expect_eq(leases_of_key(pool, &nobodys, NULL, infos, 4), 0);
	cr_expect_eq(leases_of_key(pool, &key, &other, infos, 4), 0, "another tenant's");
	for (u32 i = 0; i < 3; i++)
		drop_lease(pool, hold[i]);
	cr_expect_eq(leases_of_key(pool, &key, NULL, infos, 4), 0);
}

Test(hold, domains_are_kept_apart)
{
	kvmm_key_t key = key_of(50);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .domain = { 7, 8, 9 } };
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	struct kvmm_lease_info info;
	kvmm_lease_t hold;
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_alloc_for(pool, 1, 7, &mut), 0);
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, &mut, &ref), 0);
	attr.prefix = &prefix;
	cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), 1);
	cr_expect_eq(leases_of_key(pool, &key, &prefix.domain, &info, 1), 1);
	cr_expect_eq(leases_of_key(pool, &key, NULL, &info, 1), 0);
	cr_expect_eq(try_hold(pool, 50, 1, 0, &hold), -ENOENT, "of domain 0");
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
}

/* Forgotten by id, the block is found by nobody; who holds it is still known. */
Test(hold, holds_outlive_the_key)
{
	kvmm_lease_t hold = hold_keys(pool, 1, 1, 0);
	kvmm_key_t key = key_of(1);
	struct kvmm_lease_info info;
	u32 block = 1;

	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_eq(kvmm_match_len(pool, &key, 1), 0);
	cr_expect_eq(leases_of_key(pool, &key, NULL, &info, 1), 1);
	expect_valid();
	cr_expect_eq(drop_lease(pool, hold), 0);
	expect_picture("I.II..");
}

/* ---- handles ---- */

Test(hold, stale_handles_are_refused_for_ever)
{
	kvmm_lease_t first = hold_keys(pool, 0, 1, 0), second, made_up;

	cr_expect_eq(drop_lease(pool, first), 0);
	cr_expect_eq(drop_lease(pool, first), -ESTALE);
	made_up = first;
	made_up.gen++;
	cr_expect_eq(drop_lease(pool, made_up), -EINVAL, "the next one's, which is none yet");
	second = hold_keys(pool, 1, 1, 0);
	cr_expect_eq(second.index, first.index, "the slot is used again");
	cr_expect_neq(second.gen, first.gen);
	cr_expect_eq(drop_lease(pool, first), -ESTALE);
	cr_expect_eq(renew_lease(pool, first, 1), -ESTALE);
	expect_picture("IAII..");
	cr_expect_eq(drop_lease(pool, second), 0);
}

Test(hold, made_up_handles_are_refused)
{
	static const kvmm_lease_t bad[] = { { 0, 0 }, { 0, 1 }, { 63, 12345 }, { 64, 1 },
					   { KV_NONE, KV_NONE } };
	struct kvmm_pool *other = make_cache(4, "lru");
	kvmm_lease_t hold = hold_keys(pool, 0, 1, 0);

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_lt(drop_lease(pool, bad[i]), 0, "%u", i);
	cr_expect_eq(drop_lease(other, hold), -EINVAL);
	cache_keys(other, 0, 1);
	drop_lease(other, hold_keys(other, 0, 1, 0));
	cr_expect_lt(drop_lease(other, hold), 0, "generations of pools differ");
	cr_expect_eq(drop_lease(NULL, hold), -EINVAL);
	end_pool(other);
	cr_expect_eq(nr_holds(pool), 1);
	cr_expect_eq(drop_lease(pool, hold), 0);
}

Test(hold, a_slot_out_of_generations_is_not_used_again)
{
	kvmm_lease_t hold = hold_keys(pool, 0, 1, 0), last, next;
	struct lease_table *table = pool->leases;
	u32 last_gen = table->gen_base - 2;

	cr_expect_eq(drop_lease(pool, hold), 0);
	kv_lock(&table->lock);
	lease_replace(table, lease_id(LEASE_HOLD, hold.index), (struct lease){ .gen = last_gen });
	kv_unlock(&table->lock);
	last = hold_keys(pool, 0, 1, 0);
	cr_assert_eq(last.gen, last_gen);
	cr_expect_eq(drop_lease(pool, last), 0);
	cr_expect_eq(table->nr_retired, 1);
	expect_valid();
	cr_expect_eq(drop_lease(pool, last), -ESTALE);
	cr_expect_eq(drop_lease(pool, hold), -ESTALE);
	next = hold_keys(pool, 0, 1, 0);
	cr_expect_neq(next.index, last.index);
	cr_expect_eq(drop_lease(pool, next), 0);
}

/* More in a row than a walk, or expiry, looks at in one go; and more free places. */
Test(hold, there_can_be_many)
{
	static kvmm_lease_t hold[1500];

	for (u32 i = 0; i < 1500; i++)
		hold[i] = lease_keys(pool, 0, 4, i % 3 ? 10 : 1000, i % 8 ? 0 : KVMM_LEASE_PIN);
	cr_expect_eq(info_of_block(0).refs, 1500);
	cr_expect_eq(nr_holds(pool), 1500);
	cr_expect_geq(leases_part.bytes(pool), 1500 * sizeof(struct hold));
	expect_valid();
	for (u32 i = 0; i < 1490; i += 2)
		cr_expect_eq(drop_lease(pool, hold[i]), 0);
	cr_expect_eq(nr_holds(pool), 755);
	expect_valid();
	fake_env_advance(&fake, 10);
	cr_expect_eq(list_leaks(pool, NULL, NULL, 0), 504);
	cr_expect_eq(kvmm_lease_expire(pool, 0, NULL), 504);
	cr_expect_eq(nr_holds(pool), 251);
	cr_expect_eq(info_of_block(0).refs, 251);
	expect_valid();
	for (u32 i = 1; i < 1490; i += 2)
		cr_expect_eq(drop_lease(pool, hold[i]), i % 3 ? -ESTALE : 0);
	cr_expect_eq(nr_holds(pool), 3);
	cr_expect_eq(kvmm_lease_expire(pool, 2000, NULL), 3);
	expect_picture("IIII..");
}

/* ---- what is refused ---- */

/* All references and pins that a block can have, and then one more. */
static void expect_refused_when_full(u32 flags, u32 max)
{
	static kvmm_ref_t many[1u << 20];
	struct lease_table *table;
	kvmm_lease_t hold = hold_keys(pool, 2, 1, 0);

	cr_assert_eq(refs_of_lease(pool, hold, many, 1), 1);
	for (u32 i = 1; i < max; i++)
		many[i] = many[0];
	cr_assert_eq(flags ? kvmm_pin_many(pool, many, max) : kvmm_get_many(pool, many, max - 1), 0);
	cr_expect_lt(try_hold(pool, 0, 4, flags, &hold), 0);
	expect_picture("IIAI..");
	expect_valid();
	table = pool->leases;
	cr_expect_eq(table->nr_reserved, 0);
	cr_expect_eq(table->nr_holds, 1);
	cr_assert_eq(flags ? kvmm_unpin_many(pool, many, max) : kvmm_put_many(pool, many, max - 1), 0);
	cr_expect_eq(kvmm_lease_expire(pool, UINT64_MAX, NULL), 0);
	cr_expect_eq(drop_lease(pool, hold), 0);
}

TEST_CALL(hold, a_block_out_of_references_cannot_be_held,
	  expect_refused_when_full(0, KV_ENTRY_REFS))
TEST_CALL(hold, a_block_out_of_pins_cannot_be_pinned,
	  expect_refused_when_full(KVMM_LEASE_PIN, KV_ENTRY_PINS / KV_ENTRY_PIN))

Test(hold, attributes_that_are_none)
{
	kvmm_key_t key = key_of(0);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 }, none = { .nr = 1 };
	struct kvmm_prefix empty = { .keys = &key };
	const kvmm_ref_t ref = { 0, 1 };
	struct kvmm_lease_attr good = KVMM_LEASE_ATTR_INIT, bad[14];
	kvmm_lease_t hold;

	good.prefix = &prefix;
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].prefix = NULL;
	bad[1].prefix = &none;
	bad[2].prefix = &empty;
	bad[3].reason = KVMM_NR_LEASE_REASONS;
	bad[4].flags = 8;
	bad[5].text = "32 bytes, one more than there can";
	bad[6].size = 7;
	bad[7].size = 0;
	bad[8].reserved = 1;
	bad[9].nr_refs = 1;
	bad[10].refs = &ref;
	bad[11].range.gen = 1;
	bad[12].refs = &ref;
	bad[12].prefix = NULL;
	bad[13].range.gen = 1;
	bad[13].prefix = NULL;
	bad[13].flags = KVMM_LEASE_PARTIAL;
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(kvmm_lease_take(pool, &bad[i], &hold), -EINVAL, "%u", i);
	cr_expect_eq(kvmm_lease_take(pool, NULL, &hold), -EINVAL);
	cr_expect_eq(kvmm_lease_take(pool, &good, NULL), -EINVAL);
	cr_expect_eq(kvmm_lease_take(NULL, &good, &hold), -EINVAL);
	cr_expect_eq(kvmm_lease_expire(NULL, 0, NULL), -EINVAL);
	cr_expect_null(pool->leases, "nothing was made for these");
}

Test(hold, a_pool_without_cached_blocks_has_no_holds)
{
	struct kvmm_pool *plain __cleanup(end_pool) = make_pool(4);
	u64 bytes = kv_mem_bytes();
	kvmm_lease_t hold;

	cr_expect_eq(try_hold(plain, 0, 1, 0, &hold), -EOPNOTSUPP);
	cr_expect_eq(kvmm_lease_expire(plain, 0, NULL), 0);
	cr_expect_eq(nr_holds(plain), 0);
	cr_expect_eq(kv_mem_bytes(), bytes);
}

Test(hold, a_closed_pool_refuses)
{
	kvmm_lease_t hold = hold_keys(pool, 0, 1, 0), other;
	kvmm_key_t key = key_of(0);

	pool->gate |= GATE_POISONED;
	cr_expect_eq(try_hold(pool, 0, 1, 0, &other), -EUCLEAN);
	cr_expect_eq(drop_lease(pool, hold), -EUCLEAN);
	cr_expect_eq(renew_lease(pool, hold, 1), -EUCLEAN);
	cr_expect_eq(kvmm_lease_expire(pool, 0, NULL), -EUCLEAN);
	cr_expect_eq(list_leaks(pool, NULL, NULL, 0), -EUCLEAN);
	cr_expect_eq(leases_of_key(pool, &key, NULL, NULL, 0), -EUCLEAN);
	pool->gate = 0;
	cr_expect_eq(drop_lease(pool, hold), 0, "it is still there");
}

/* tear_down() looks for what is left. */
Test(hold, a_pool_takes_its_holds_along)
{
	for (u32 i = 0; i < 100; i++)
		hold_keys(pool, 0, 4, i % 2 ? KVMM_LEASE_PIN : 0);
}
