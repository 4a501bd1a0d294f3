// SPDX-License-Identifier: Apache-2.0
/* Owners: named, listed, renewed, released; leases; what is suspicious. Pictures as in lease_util.h. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/sys.h>

#include "lease/lease.h"
#include "tests/pool/lease_util.h"
#include "tests/support/between.h"
#include "tests/support/fault.h"
#include "tests/support/random.h"

/* When a range was allocated is known to that. */
#define TICK_NS	(1ull << 20)

static struct kvmm_pool *pool;
static u64 begin_ns;

static void set_up(void)
{
	fault_begin();
	fake_env_advance(&fake, 1000);
	begin_ns = fake.now_ns;
	pool = make_cache(12, "lru");
}

static void tear_down(void)
{
	end_pool(pool);
	fault_end();
}

TestSuite(owner, .init = set_up, .fini = tear_down);

#define expect_owned(text)	cr_expect_str_eq(owned(pool), text)
#define expect_picture(text)	cr_expect_str_eq(picture(pool), text)
#define expect_leaked(text, older, lone)	\
	cr_expect_str_eq(leaked(pool, older, lone), text)
#define expect_valid()		cr_assert_eq(kvmm_validate(pool), 0)

static struct kvmm_lease_info first_row(void)
{
	struct kvmm_lease_info row;
	u64 cursor = 0;

	cr_assert_eq(next_leased(pool, NULL, &cursor, &row), 0);
	return row;
}

/* ---- naming ---- */

Test(owner, a_range_says_whose_it_is)
{
	kvmm_range_t range = take_owned(pool, 3, 'a', 7, 50, RECLAIM);
	struct kvmm_lease_info row;

	fake_env_advance(&fake, 20);
	row = first_row();
	cr_expect_eq(row.kind, KVMM_LEASED_RANGE);
	cr_expect_eq(row.owner, 7);
	cr_expect_eq(row.since_ns, begin_ns);
	cr_expect_eq(row.age_ns, 20);
	cr_expect_eq(row.deadline_ns, begin_ns + 50);
	cr_expect_eq(row.flags, RECLAIM);
	cr_expect_eq(row.nr, 3);
	cr_expect_eq(row.bytes, 3 * TEST_BLOCK_BYTES);
	cr_expect_eq(row.refs, 1);
	cr_expect(row.index == range.index && row.gen == range.gen);
	expect_valid();
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	expect_owned("");
}

/* The record of what was freed is not the next one's of that slot. */
Test(owner, a_record_does_not_outlive_its_range)
{
	kvmm_range_t old = take_owned(pool, 3, 'a', 7, 50, 0), new;

	cr_expect_eq(kvmm_range_free(pool, old), 0);
	new = take(pool, 3, 0);
	cr_assert_eq(new.index, old.index);
	expect_owned("r0");
	cr_expect_eq(kvmm_lease_release(pool, 7, NULL), 0);
	expect_picture("###.........");
	fake_env_advance(&fake, 100);
	expect_leaked("", 0, 0);
}

Test(owner, blocks_keep_their_owner_until_they_are_registered)
{
	kvmm_key_t keys[2] = { key_of(1), key_of(2) };
	kvmm_mut_t muts[3];
	kvmm_staged_t staged[2];
	kvmm_ref_t refs[2];

	alloc_owned(pool, muts, 3, 5, 0, 0);
	expect_owned("p5 p5 p5");
	stage_keys(pool, muts, 2, 1, staged);
	expect_owned("s5 s5 p5");
	cr_assert_eq(kvmm_unstage(pool, staged, 2, muts), 0);
	expect_owned("p5 p5 p5");
	cr_assert_eq(kvmm_register(pool, muts, keys, 2, refs), 0);
	expect_owned("p5");
	cr_expect_eq(kvmm_lease_release(pool, 5, NULL), 1);
	expect_picture("AA..........");
}

Test(owner, staged_blocks_can_be_named_and_disowned)
{
	struct kvmm_lease_attr own = { .size = sizeof(own), .owner = 9 };
	kvmm_mut_t muts[2];
	kvmm_staged_t staged[2];

	cr_assert_eq(kvmm_alloc(pool, 2, muts), 0);
	stage_keys(pool, muts, 2, 1, staged);
	expect_owned("s0 s0");
	cr_assert_eq(kvmm_lease_own_staged(pool, &own, staged, 2), 0);
	expect_owned("s9 s9");
	cr_expect_eq(kvmm_lease_own_muts(pool, &own, muts, 2), -ESTALE, "they are staged");
	own.owner = 0;
	cr_assert_eq(kvmm_lease_own_staged(pool, &own, staged, 1), 0);
	expect_owned("s0 s9");
	expect_valid();
	cr_expect_eq(kvmm_lease_release(pool, 9, NULL), 1);
	expect_picture("S...........");
}

Test(owner, naming_is_all_or_nothing)
{
	struct kvmm_lease_attr own = { .size = sizeof(own), .owner = 3 };
	kvmm_range_t ranges[3] = { take(pool, 2, 0), take(pool, 2, 0), take(pool, 2, 0) };
	kvmm_mut_t muts[3];

	cr_assert_eq(kvmm_range_free(pool, ranges[2]), 0);
	cr_expect_eq(kvmm_lease_own_ranges(pool, &own, ranges, 3), -ESTALE);
	expect_owned("r0 r0");
	cr_assert_eq(kvmm_alloc(pool, 3, muts), 0);
	muts[2].gen++;
	cr_expect_eq(kvmm_lease_own_muts(pool, &own, muts, 3), -EINVAL);
	expect_owned("r0 r0 p0 p0 p0");
	muts[2].gen--;
	cr_expect_eq(kvmm_lease_own_muts(pool, &own, muts, 3), 0);
	cr_expect_eq(kvmm_lease_own_ranges(pool, &own, ranges, 2), 0);
	expect_owned("r3 r3 p3 p3 p3");
}

Test(owner, arguments_that_are_none)
{
	struct kvmm_lease_attr own = hold_attr_of(0, 5, 0), odd = hold_attr_of(1, 0, KVMM_LEASE_PIN);
	struct kvmm_lease_attr named = hold_attr_of(1, 0, 0);
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1, .lease_ns = 5 };
	struct kvmm_lease_filter kinds = { .size = sizeof(kinds),
					   .kinds = 1u << KVMM_NR_LEASE_KINDS };
	kvmm_range_t range = take(pool, 1, 0);
	struct kvmm_lease_info row;
	u64 cursor = 7ull << 32;

	cr_expect_eq(kvmm_lease_own_ranges(pool, &own, &range, 1), -EINVAL, "a lease of nobody's");
	cr_expect_eq(kvmm_lease_own_ranges(pool, &odd, &range, 1), -EINVAL, "no such flag");
	named.text = "x";
	cr_expect_eq(kvmm_lease_own_ranges(pool, &named, &range, 1), -EINVAL, "of a lease to take");
	cr_expect_eq(kvmm_lease_own_ranges(pool, NULL, &range, 1), -EINVAL);
	cr_expect_eq(kvmm_lease_own_ranges(NULL, &own, &range, 1), -EINVAL);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), -EINVAL);
	cr_expect_eq(kvmm_lease_release(pool, 0, NULL), -EINVAL);
	cr_expect_eq(kvmm_lease_renew(pool, 0, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_lease_release(NULL, 1, NULL), -EINVAL);
	cr_expect_eq(kvmm_lease_release(pool, 1, &(kvmm_lease_t){ 0, 1 }), -EINVAL, "one of two");
	cr_expect_eq(kvmm_lease_renew(pool, 1, &(kvmm_lease_t){ 0, 1 }, 1), -EINVAL);
	cr_expect_eq(next_leased(pool, NULL, &cursor, &row), -EINVAL);
	cr_expect_eq(list_leaks(pool, &kinds, &row, 1), -EINVAL);
	cr_expect_eq(kvmm_lease_list(pool, NULL, &cursor, &row, 0), -EINVAL);
	kinds = (struct kvmm_lease_filter){ .size = sizeof(kinds), .leaks = KVMM_LEAK_ANY + 1 };
	cr_expect_eq(list_all(pool, &kinds, &row, 1), -EINVAL);
	cr_expect_eq(kvmm_lease_watch(pool, 1, 0, 1), -EINVAL);
	cr_expect_eq(kvmm_lease_watch(pool, 1, 0, 0), 0, "it was not watched");
	cr_expect_null(pool->leases, "nothing was made for these");
}

Test(owner, pools_without_cache_have_ranges_only)
{
	struct kvmm_pool *plain __cleanup(end_pool) = make_pool(4);
	struct kvmm_lease_attr own = { .size = sizeof(own), .owner = 3 };
	kvmm_mut_t mut = { 0, 1 };

	take_owned(plain, 2, 'a', 1, 0, 0);
	cr_expect_eq(kvmm_lease_own_muts(plain, &own, &mut, 1), -EOPNOTSUPP);
	cr_expect_str_eq(owned(plain), "r1");
	cr_expect_eq(kvmm_lease_release(plain, 1, NULL), 1);
	cr_expect_str_eq(owned(plain), "");
}

/* ---- release ---- */

static kvmm_lease_t hold_range(kvmm_range_t range, u64 owner, u32 flags)
{
	struct kvmm_lease_attr attr = hold_attr_of(owner, 0, flags);
	kvmm_lease_t hold;

	cr_assert_eq(lease_range(pool, &attr, range, &hold), 0);
	return hold;
}

static kvmm_lease_t hold_refs(const kvmm_ref_t *refs, u32 nr, u64 owner, u32 flags)
{
	struct kvmm_lease_attr attr = hold_attr_of(owner, 0, flags);
	kvmm_lease_t hold;

	cr_assert_eq(lease_refs(pool, &attr, refs, nr, &hold), 0);
	return hold;
}

/* Everything of owner 1, and nothing of owner 2. */
Test(owner, release_gives_back_everything_at_once)
{
	kvmm_range_t range = take_owned(pool, 2, 'a', 1, 0, 0);
	kvmm_mut_t muts[2], other[1];
	kvmm_staged_t staged[1];
	kvmm_ref_t refs[2];

	take_owned(pool, 1, 'b', 2, 0, 0);
	alloc_owned(pool, muts, 2, 1, 0, 0);
	stage_keys(pool, muts, 1, 1, staged);
	alloc_owned(pool, other, 1, 2, 0, 0);
	register_keys(pool, 10, 2, refs);
	hold_refs(refs, 2, 1, KVMM_LEASE_PIN);
	hold_range(range, 1, KVMM_LEASE_PIN);
	expect_picture("aabSPPAA....");
	expect_owned("r1 r2 s1 p1 p2 P1 P1");
	expect_valid();
	cr_expect_eq(kvmm_lease_release(pool, 1, NULL), 5);
	expect_picture("..b..PII....");
	expect_owned("r2 p2");
	expect_valid();
	cr_expect_eq(kvmm_lease_release(pool, 1, NULL), 0, "there is nothing left");

	cr_expect_eq(kvmm_range_free(pool, range), -ESTALE, "the owner comes late");
	cr_expect_eq(kvmm_free(pool, &muts[1], 1), -ESTALE);
	cr_expect_eq(kv_free_staged(pool, staged, 1), -ESTALE);
	cr_expect_eq(kvmm_put_many(pool, refs, 1), -ESTALE);
}

Test(owner, release_waits_for_pins_of_others)
{
	kvmm_range_t range = take_owned(pool, 2, 'a', 1, 0, 0);
	kvmm_lease_t hold;
	kvmm_mut_t mut;

	alloc_owned(pool, &mut, 1, 1, 0, 0);
	cr_assert_eq(kvmm_range_pin(pool, range), 0);
	cr_expect_eq(kvmm_lease_release(pool, 1, NULL), -EBUSY);
	expect_picture("aaP.........");
	cr_assert_eq(kvmm_range_unpin(pool, range), 0);
	hold = hold_range(range, 2, KVMM_LEASE_PIN);
	cr_expect_eq(kvmm_lease_release(pool, 1, NULL), 2, "the other one has a reference as well");
	expect_picture("aa..........");
	expect_owned("r0 P2");
	expect_valid();
	cr_expect_eq(drop_lease(pool, hold), 0);
	expect_picture("............");
}

/* Two claims of the same owner on one range: each of them has a reference. */
Test(owner, shared_ranges_lose_one_reference)
{
	kvmm_range_t range = take_owned(pool, 2, 'a', 1, 0, 0);

	cr_assert_eq(kvmm_range_get(pool, range), 0);
	hold_range(range, 1, 0);
	cr_expect_eq(kvmm_lease_release(pool, 1, NULL), 2);
	expect_picture("aa..........");
	expect_owned("r0");
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

/* Pinned by the owner's hold alone, which has the only other reference. */
Test(owner, a_hold_on_a_range_outlives_its_owner)
{
	kvmm_range_t range = take(pool, 2, 0);
	kvmm_lease_t pin = hold_range(range, 1, KVMM_LEASE_PIN);

	cr_assert_eq(kvmm_range_free(pool, range), 0);
	expect_picture("##..........");
	cr_assert_eq(kvmm_range_pin(pool, range), 0);
	cr_expect_eq(drop_lease(pool, pin), -EBUSY, "somebody else pins it, too");
	cr_expect_eq(kvmm_lease_release(pool, 1, NULL), -EBUSY);
	expect_owned("r0 P1");
	cr_assert_eq(kvmm_range_unpin(pool, range), 0);
	cr_expect_eq(drop_lease(pool, pin), 0);
	cr_expect_eq(drop_lease(pool, pin), -ESTALE);
	expect_picture("............");
}

Test(owner, ranges_and_blocks_of_an_owner_are_met_once)
{
	kvmm_mut_t mut;

	for (u32 owner = 1; owner <= 200; owner++) {	/* more than buckets */
		alloc_owned(pool, &mut, 1, owner, 0, 0);
		take_owned(pool, 1, 'a', owner, 0, 0);
		cr_assert_eq(kvmm_lease_renew(pool, owner, NULL, 1), 2);
		cr_assert_eq(kvmm_lease_release(pool, owner, NULL), 2);
	}
}

/* ---- leases ---- */

/* Each of them may end as long as there is another one: both together may not. */
Test(owner, leases_of_one_range_that_end_together_leave_what_is_pinned)
{
	struct kvmm_lease_attr attr = hold_attr_of(4, 50, KVMM_LEASE_RECLAIM);
	kvmm_range_t range = take_owned(pool, 1, 'a', 1, 50, RECLAIM);
	struct kvmm_lease_expired expired;
	kvmm_lease_t hold[2];

	for (u32 i = 0; i < 2; i++)
		cr_assert_eq(lease_range(pool, &attr, range, &hold[i]), 0);
	cr_assert_eq(kvmm_range_pin(pool, range), 0);
	fake_env_advance(&fake, 50);
	cr_expect_eq(kvmm_lease_expire(pool, 0, &expired), 2);
	cr_expect_eq(expired.nr_busy, 1);
	expect_picture("a...........");
	cr_assert_eq(kvmm_range_unpin(pool, range), 0);
}

/* A caller has dropped what was a hold's: the next range of that slot has an owner, and no holds. */
Test(owner, a_late_hold_is_not_one_on_the_next_range)
{
	struct kvmm_lease_attr attr = hold_attr_of(4, 0, 0);
	kvmm_range_t range = take_owned(pool, 1, 'a', 1, 0, 0), next;
	kvmm_lease_t hold;

	cr_assert_eq(lease_range(pool, &attr, range, &hold), 0);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	next = take_owned(pool, 1, 'b', 2, 0, 0);
	cr_assert_eq(next.index, range.index);
	expect_valid();
	cr_assert_eq(kvmm_range_get(pool, next), 0);
	cr_assert_eq(kvmm_range_free(pool, next), 0);
	expect_owned("r2 h4");
	cr_expect_eq(drop_lease(pool, hold), -ESTALE);
	expect_owned("r2");
}

Test(owner, leases_that_have_run_out_are_reclaimed_if_they_say_so)
{
	struct kvmm_lease_attr attr = hold_attr_of(4, 50, KVMM_LEASE_RECLAIM);
	struct kvmm_lease_expired expired;
	kvmm_range_t range;
	kvmm_lease_t hold;
	kvmm_mut_t muts[2];

	take_owned(pool, 1, 'a', 1, 50, RECLAIM);
	take_owned(pool, 1, 'b', 2, 50, 0);
	range = take_owned(pool, 1, 'c', 3, 500, RECLAIM);
	alloc_owned(pool, &muts[0], 1, 1, 50, RECLAIM);
	alloc_owned(pool, &muts[1], 1, 2, 50, 0);
	cr_assert_eq(lease_range(pool, &attr, range, &hold), 0);
	attr.flags = 0;
	cr_assert_eq(lease_range(pool, &attr, range, &hold), 0);
	fake_env_advance(&fake, 49);
	cr_expect_eq(kvmm_lease_expire(pool, 0, &expired), 0);
	cr_expect_eq(expired.nr_left, 0);
	expect_picture("abcPP.......");
	fake_env_advance(&fake, 1);
	expect_leaked("r1E r2E p1E p2E h4E h4E", 0, 0);
	cr_expect_eq(kvmm_lease_expire(pool, 0, &expired), 3);
	cr_expect_eq(expired.nr_reclaimed, 3);
	cr_expect_eq(expired.nr_left, 3);
	cr_expect_eq(expired.nr_busy, 0);
	expect_picture(".bc.P.......");
	expect_leaked("r2E p2E h4E", 0, 0);
}

Test(owner, a_pinned_range_is_reclaimed_later)
{
	kvmm_range_t range = take_owned(pool, 1, 'a', 1, 50, RECLAIM);
	struct kvmm_lease_expired expired;

	cr_assert_eq(kvmm_range_pin(pool, range), 0);
	cr_expect_eq(kvmm_lease_expire(pool, begin_ns + 1000, &expired), 0);
	cr_expect_eq(expired.nr_busy, 1);
	expect_picture("a...........");
	cr_assert_eq(kvmm_range_unpin(pool, range), 0);
	cr_expect_eq(kvmm_lease_expire(pool, begin_ns + 1000, NULL), 1);
	expect_picture("............");
}

Test(owner, renewal_is_of_all_that_the_owner_has)
{
	kvmm_range_t range = take_owned(pool, 1, 'a', 1, 50, RECLAIM);
	kvmm_mut_t mut;

	alloc_owned(pool, &mut, 1, 1, 50, RECLAIM);
	hold_range(range, 1, KVMM_LEASE_RECLAIM);
	take_owned(pool, 1, 'b', 2, 50, RECLAIM);
	fake_env_advance(&fake, 40);
	cr_expect_eq(kvmm_lease_renew(pool, 1, NULL, 50), 3);
	expect_valid();
	fake_env_advance(&fake, 40);
	cr_expect_eq(kvmm_lease_expire(pool, 0, NULL), 1);
	expect_owned("r1 p1 h1");
	fake_env_advance(&fake, 10);
	cr_expect_eq(kvmm_lease_renew(pool, 1, NULL, 0), 3, "no lease any more");
	cr_expect_eq(kvmm_lease_expire(pool, UINT64_MAX, NULL), 0);
	cr_expect_eq(kvmm_lease_renew(pool, 3, NULL, 1), 0);
}

/* One thing that is freed meanwhile is not given back in the name of the next owner of the index. */
Test(owner, what_was_freed_does_not_expire)
{
	kvmm_range_t range = take_owned(pool, 1, 'a', 1, 50, RECLAIM);
	kvmm_mut_t mut;

	alloc_owned(pool, &mut, 1, 1, 50, RECLAIM);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	range = take(pool, 1, 0);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_eq(kvmm_lease_expire(pool, UINT64_MAX, NULL), 0);
	expect_owned("r0 p0");
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

/* ---- suspicion ---- */

Test(owner, old_things_without_a_lease_are_suspicious_with_or_without_an_owner)
{
	kvmm_mut_t mut;

	take(pool, 1, 0);
	take_owned(pool, 1, 'a', 1, 0, 0);
	take_owned(pool, 1, 'b', 2, 500 * TICK_NS, 0);
	fake_env_advance(&fake, 100 * TICK_NS);
	take_owned(pool, 1, 'c', 3, 0, 0);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	expect_leaked("", 0, 0);
	expect_leaked("r0O r1O", 100 * TICK_NS, 0);
	expect_leaked("", 101 * TICK_NS, 0);
}

Test(owner, the_last_thing_of_an_owner_is_suspicious)
{
	kvmm_range_t range = take_owned(pool, 2, 'a', 1, 0, 0);
	kvmm_mut_t mut;
	kvmm_lease_t pin = hold_range(range, 1, KVMM_LEASE_PIN);

	alloc_owned(pool, &mut, 1, 2, 0, 0);
	fake_env_advance(&fake, 10);
	expect_leaked("p2L", 0, 10);
	expect_leaked("", 0, 11);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	expect_owned("r0 p2 P1");
	expect_leaked("p2L P1L", 0, 10);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_eq(drop_lease(pool, pin), 0);
	expect_leaked("", 0, 1);
}

/* What is left of the range is the other's: its owner has nothing to lose any more. */
Test(owner, a_range_that_was_given_back_is_its_owners_no_longer)
{
	kvmm_range_t range = take_owned(pool, 2, 'a', 1, 10, RECLAIM);
	struct kvmm_lease_attr own = { .size = sizeof(own), .owner = 1 };
	kvmm_lease_t hold = hold_range(range, 2, 0);

	cr_assert_eq(kvmm_range_get(pool, range), 0);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	expect_owned("r1 h2");
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	expect_owned("r0 h2");
	cr_expect_eq(kvmm_lease_own_ranges(pool, &own, &range, 1), -EINVAL, "holds have others");
	cr_expect_eq(kvmm_lease_release(pool, 1, NULL), 0);
	cr_expect_eq(kvmm_lease_expire(pool, UINT64_MAX, NULL), 0);
	expect_picture("aa..........");
	expect_valid();
	cr_expect_eq(drop_lease(pool, hold), 0);
	expect_picture("............");
}

Test(owner, both_halves_of_a_range_have_its_owner)
{
	kvmm_range_t range = take_owned(pool, 4, 'a', 1, 10, RECLAIM), tail;

	cr_assert_eq(kvmm_range_split(pool, range, 1, &tail), 0);
	expect_owned("r1 r1");
	expect_valid();
	cr_expect_eq(kvmm_lease_expire(pool, begin_ns + 10, NULL), 2);
	expect_picture("............");
}

Test(owner, leaks_are_of_whom_and_of_what_was_asked_for)
{
	struct kvmm_lease_filter filter = KVMM_LEASE_FILTER_INIT;
	struct kvmm_lease_info rows[8];
	kvmm_mut_t muts[2];

	take_owned(pool, 1, 'a', 1, 10, 0);
	take_owned(pool, 1, 'b', 2, 10, 0);
	alloc_owned(pool, muts, 2, 2, 10, 0);
	filter.now_ns = begin_ns + 10;
	cr_expect_eq(list_leaks(pool, &filter, rows, 1), 4, "more than there is room for");
	filter.owner = 2;
	cr_expect_eq(list_leaks(pool, &filter, rows, 8), 3);
	filter.kinds = 1u << KVMM_LEASED_PRIVATE;
	cr_expect_eq(list_leaks(pool, &filter, rows, 8), 2);
	cr_expect_eq(rows[0].kind, KVMM_LEASED_PRIVATE);
	filter.now_ns = 0;
	cr_expect_eq(list_leaks(pool, &filter, rows, 8), 0, "not yet");
	cr_expect_eq(list_all(pool, &filter, rows, 8), 2, "suspicious or not");
	cr_expect_eq(rows[1].leak, 0);
	filter.kinds = 1u << KVMM_LEASED_STAGED;
	cr_expect_eq(list_leaks(pool, &filter, NULL, 0), 0);
}

static bool name_first(void *arg)
{
	kvmm_mut_t mut;

	alloc_owned(pool, &mut, 1, 1, 0, 0);
	return true;
}

/* There was no table of leases when the walk began. */
Test(owner, an_owner_may_be_the_first_one_while_a_walk_goes_on)
{
	const struct kvmm_lease_filter lone = { .size = sizeof(lone), .leaks = KVMM_LEAK_ANY,
						.lone_ns = 1, .now_ns = begin_ns + 100 };
	struct kvmm_lease_info row;
	u64 cursor = 0;

	between_arm(&fake, &pool->lock, name_first, NULL);
	cr_assert_eq(kvmm_lease_list(pool, &lone, &cursor, &row, 1), 1);
	cr_expect(between_is_done());
	cr_expect_eq(row.leak, KVMM_LEAK_LONE);
}

/* In parts, with things that come and go in between: none that stays is missed or seen twice. */
Test(owner, a_walk_can_be_interrupted)
{
	struct kvmm_lease_info rows[2];
	struct kvmm_lease_filter late = { .size = sizeof(late), .leaks = KVMM_LEAK_EXPIRED };
	kvmm_range_t range[4];
	kvmm_mut_t muts[3];
	u64 cursor = 0, seen = 0;
	int nr, nr_all = 0;

	for (u32 i = 0; i < 4; i++)
		range[i] = take_owned(pool, 1, 'a' + i, 1 + i, 10, 0);
	for (u32 i = 0; i < 3; i++)
		alloc_owned(pool, &muts[i], 1, 5 + i, 10, 0);
	fake_env_advance(&fake, 10);
	do {
		nr = kvmm_lease_list(pool, &late, &cursor, rows, 2);
		cr_assert(nr >= 0);
		for (int i = 0; i < nr; i++)
			seen |= 1ull << rows[i].owner;
		nr_all += nr;
		if (nr_all == 2) {
			cr_assert_eq(kvmm_range_free(pool, range[0]), 0);
			cr_assert_eq(kvmm_range_free(pool, range[3]), 0);
		}
	} while (nr == 2);
	cr_expect_eq(nr_all, 6, "range 3 was gone before it was its turn");
	cr_expect_eq(seen, 0xfe & ~(1u << 4));
}

/* ---- owners that are processes ---- */

static struct {
	const char *stat;	/* of process 42; NULL: there is none */
	bool has_proc;
	void (*asked)(void);	/* once, when it is asked about process 42 */
} system_says;

static int read_file(void *ctx, const char *path, char *text, size_t bytes)
{
	if (!strcmp(path, "/proc/self/stat") && system_says.has_proc) {
		snprintf(text, bytes, "1 (x) S");
		return 0;
	}
	if (strcmp(path, "/proc/42/stat") && strcmp(path, "/proc/42/task/43/stat"))
		return -ENOENT;
	if (system_says.asked) {
		void (*asked)(void) = system_says.asked;

		system_says.asked = NULL;
		asked();
	}
	if (!system_says.stat)
		return -ENOENT;
	snprintf(text, bytes, "%s", system_says.stat);
	return 0;
}

#define STAT_OF(name, state, start)	\
	"42 (" name ") " state " 1 1 1 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 " start " 9 9"

static void fake_system(const char *stat)
{
	static struct kv_sys_ops ops;

	ops = kv_sys_system;
	ops.read_file = read_file;
	system_says.stat = stat;
	system_says.has_proc = true;
	kv_sys_set(&ops);
}

Test(owner, what_a_dead_process_has_left_is_suspicious)
{
	fake_system(STAT_OF("a) S (b", "R", "777"));
	take_owned(pool, 1, 'a', 1, 0, 0);
	take_owned(pool, 1, 'b', 2, 5000, 0);
	cr_assert_eq(kvmm_lease_watch(pool, 1, 42, 0), 0);
	cr_assert_eq(kvmm_lease_watch(pool, 1, 42, 0), 0, "in place of the former one");
	cr_assert_eq(kvmm_lease_watch(pool, 2, 42, 43), 0);
	expect_leaked("", 0, 0);
	expect_valid();
	system_says.stat = STAT_OF("other", "R", "778");
	expect_leaked("r1D r2D", 0, 0);
	cr_expect_eq(kvmm_lease_watch(pool, 1, 0, 0), 0);
	expect_leaked("r2D", 0, 0);
	cr_expect_eq(kvmm_lease_watch(pool, 2, 0, 0), 0);
	expect_leaked("", 0, 0);
	expect_valid();
	kv_sys_set(NULL);
}

static void start_again(void)
{
	system_says.stat = STAT_OF("again", "R", "778");
	cr_assert_eq(kvmm_lease_watch(pool, 1, 42, 0), 0);
}

Test(owner, a_process_that_is_watched_anew_while_the_system_is_asked_is_not_dead)
{
	fake_system(STAT_OF("a", "R", "777"));
	take_owned(pool, 1, 'a', 1, 0, 0);
	cr_assert_eq(kvmm_lease_watch(pool, 1, 42, 0), 0);
	system_says.asked = start_again;
	expect_leaked("", 0, 0);
	cr_expect(!system_says.asked);
	expect_valid();
	kv_sys_set(NULL);
}

Test(owner, zombies_and_the_missing_are_dead_and_the_unknown_are_not)
{
	fake_system(STAT_OF("a", "S", "777"));
	take_owned(pool, 1, 'a', 1, 0, 0);
	cr_assert_eq(kvmm_lease_watch(pool, 1, 42, 0), 0);
	system_says.stat = "42 (a";
	expect_leaked("", 0, 0);
	system_says.stat = STAT_OF("a", "Z", "777");
	expect_leaked("r1D", 0, 0);
	cr_expect_eq(kvmm_lease_watch(pool, 2, 42, 0), -ESRCH);
	system_says.stat = NULL;
	cr_expect_eq(kvmm_lease_watch(pool, 2, 42, 0), -ESRCH);
	system_says.has_proc = false;
	cr_expect_eq(kvmm_lease_watch(pool, 2, 42, 0), -EOPNOTSUPP);
	kv_sys_set(NULL);
}

Test(owner, a_real_process_dies)
{
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	take_owned(pool, 1, 'a', 1, 0, 0);
	cr_assert_eq(kvmm_lease_watch(pool, 1, pid, 0), 0);
	cr_assert_eq(kvmm_lease_watch(pool, 2, getpid(), getpid()), 0);
	expect_leaked("", 0, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	expect_leaked("r1D", 0, 0);
	cr_expect_eq(kvmm_lease_watch(pool, 3, pid, 0), -ESRCH);
}

/* ---- holds that are made of what there is ---- */

Test(owner, references_become_a_hold)
{
	struct kvmm_lease_attr attr = hold_attr_of(6, 0, 0);
	struct kvmm_lease_info info;
	kvmm_ref_t refs[3], stale[2];
	kvmm_key_t key = key_of(2);
	kvmm_lease_t hold;

	register_keys(pool, 1, 3, refs);
	memcpy(stale, refs, sizeof(stale));
	stale[1].gen++;
	cr_expect_eq(lease_refs(pool, &attr, stale, 2, &hold), -EINVAL);
	expect_owned("");
	cr_assert_eq(lease_refs(pool, &attr, refs, 3, &hold), 0);
	expect_owned("h6");
	expect_picture("AAA.........");
	cr_expect_eq(leases_of_key(pool, &key, NULL, &info, 1), 1);
	cr_expect_eq(info.owner, 6);
	expect_valid();
	cr_expect_eq(drop_lease(pool, hold), 0);
	expect_picture("III.........");
}

Test(owner, a_reference_becomes_one_hold)
{
	for (u32 pin = 0; pin < 2; pin++) {
		struct kvmm_lease_attr attr = hold_attr_of(6, 0, pin ? KVMM_LEASE_PIN : 0);
		kvmm_ref_t refs[2];
		kvmm_lease_t hold, second;

		register_keys(pool, 1 + pin, 1, refs);
		refs[1] = refs[0];
		cr_expect_eq(lease_refs(pool, &attr, refs, 2, &hold), -EINVAL, "there is one");
		expect_owned("");
		cr_assert_eq(lease_refs(pool, &attr, refs, 1, &hold), 0);
		cr_expect_eq(lease_refs(pool, &attr, refs, 1, &second), -EINVAL);
		cr_assert_eq(kvmm_get(pool, refs[0]), 0);
		cr_expect_eq(lease_refs(pool, &attr, refs, 2, &second), -EINVAL);
		cr_assert_eq(lease_refs(pool, &attr, refs, 1, &second), 0);
		expect_valid();
		cr_expect_eq(drop_lease(pool, hold), 0);
		cr_expect_eq(drop_lease(pool, second), 0);
		cr_expect_eq(kvmm_put(pool, refs[0]), -ESTALE, "none is left");
		expect_valid();
	}
}

Test(owner, a_hold_on_a_range_says_so)
{
	struct kvmm_lease_attr attr = hold_attr_of(6, 0, KVMM_LEASE_PIN), bad = attr;
	kvmm_key_t key = key_of(1);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_range_t range = take(pool, 2, 0);
	struct kvmm_range_info range_info;
	struct kvmm_lease_info info;
	kvmm_lease_t hold;

	bad.prefix = &prefix;
	cr_expect_eq(lease_range(pool, &bad, range, &hold), -EINVAL);
	cr_assert_eq(lease_range(pool, &attr, range, &hold), 0);
	cr_assert_eq(kvmm_lease_get_info(pool, hold, &info), 0);
	cr_expect(!memcmp(&info.range, &range, sizeof(range)));
	cr_expect_eq(info.nr, 0);
	cr_assert_eq(kvmm_range_get_info(pool, range, &range_info), 0);
	cr_expect_eq(range_info.refs, 2);
	cr_expect_eq(range_info.pins, 1);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	expect_valid();
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_expect_eq(lease_range(pool, &attr, range, &hold), -ESTALE);
	expect_picture("............");
}

/* ---- writes by handle ---- */

static bool has_byte(u32 block, u8 byte)
{
	u8 seen[TEST_BLOCK_BYTES];

	cr_assert_eq(kvmm_block_read(pool, block, 0, seen, sizeof(seen)), 0);
	for (u32 i = 0; i < sizeof(seen); i++)
		if (seen[i] != byte)
			return false;
	return true;
}

Test(owner, a_late_writer_does_not_hit_the_next_owner)
{
	kvmm_range_t old = take_owned(pool, 2, 'a', 1, 50, RECLAIM), new;
	u8 late[TEST_BLOCK_BYTES], canary[TEST_BLOCK_BYTES];
	struct kvmm_extent ext;

	memset(late, 0xbd, sizeof(late));
	memset(canary, 0xca, sizeof(canary));
	cr_expect_eq(kvmm_range_write(pool, old, 1, 0, late, sizeof(late)), 0);
	cr_assert_eq(kvmm_range_extents(pool, old, &ext, 1), 1);
	cr_expect(has_byte(ext.start + 1, 0xbd));

	cr_expect_eq(kvmm_lease_expire(pool, begin_ns + 1000, NULL), 1);
	new = take_owned(pool, 2, 'b', 2, 0, 0);
	cr_assert_eq(new.index, old.index, "the same slot and the same blocks");
	cr_expect_eq(kvmm_range_write(pool, new, 0, 0, canary, sizeof(canary)), 0);
	cr_expect_eq(kvmm_range_write(pool, new, 1, 0, canary, sizeof(canary)), 0);
	cr_expect_eq(kvmm_range_write(pool, old, 1, 0, late, sizeof(late)), -ESTALE);
	cr_expect_eq(kvmm_range_read(pool, old, 1, 0, late, sizeof(late)), -ESTALE);
	cr_expect(has_byte(ext.start, 0xca) && has_byte(ext.start + 1, 0xca));
}

Test(owner, private_blocks_are_written_by_their_owner_only)
{
	u8 late[TEST_BLOCK_BYTES], canary[TEST_BLOCK_BYTES], seen[4];
	kvmm_key_t key = key_of(1);
	kvmm_mut_t old, new;
	kvmm_ref_t ref;
	u32 block;

	memset(late, 0xbd, sizeof(late));
	memset(canary, 0xca, sizeof(canary));
	cr_assert_eq(kvmm_alloc(pool, 1, &old), 0);
	cr_expect_eq(kvmm_mut_write(pool, old, 0, late, sizeof(late)), 0);
	cr_assert_eq(kvmm_free(pool, &old, 1), 0);
	cr_assert_eq(kvmm_alloc(pool, 1, &new), 0);
	cr_assert_eq(new.index, old.index);
	cr_assert_eq(kvmm_blocks_of_muts(pool, &new, 1, &block), 0);
	cr_expect_eq(kvmm_mut_write(pool, new, 0, canary, sizeof(canary)), 0);
	cr_expect_eq(kvmm_mut_write(pool, old, 0, late, sizeof(late)), -ESTALE);
	cr_expect(has_byte(block, 0xca));
	cr_expect_eq(kvmm_mut_read(pool, new, 60, seen, 4), 0);
	cr_expect_eq(seen[3], 0xca);
	cr_assert_eq(kvmm_register(pool, &new, &key, 1, &ref), 0);
	cr_expect_eq(kvmm_mut_write(pool, new, 0, late, sizeof(late)), -ESTALE, "it is complete");
	cr_expect_eq(kvmm_ref_read(pool, ref, 60, seen, 4), 0);
	cr_expect_eq(seen[0], 0xca);
}

Test(owner, writes_that_do_not_fit)
{
	kvmm_range_t range = take(pool, 2, 0);
	struct kvmm_pool_attr ids = { .size = sizeof(ids), .nr_blocks = 4 };
	struct kvmm_pool *plain;
	u8 byte = 0;

	cr_expect_eq(kvmm_range_write(pool, range, 2, 0, &byte, 1), -EINVAL);
	cr_expect_eq(kvmm_range_write(pool, range, 0, TEST_BLOCK_BYTES, &byte, 1), -EINVAL);
	cr_expect_eq(kvmm_range_write(pool, range, 0, 0, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_range_write(NULL, range, 0, 0, &byte, 1), -EINVAL);
	plain = make_pool_of(&ids);
	range = take(plain, 1, 0);
	cr_expect_eq(kvmm_range_write(plain, range, 0, 0, &byte, 1), -EINVAL);
	end_pool(plain);
}

/* What a writer sees from the inside: a device whose copy calls back. */
static kvmm_range_t written;
static kvmm_mut_t written_mut;
static const struct kv_dev_ops *real_dev;

static int write_and_free(struct kv_dev *dev, u64 addr, const void *buf, u64 bytes)
{
	cr_expect_eq(kvmm_range_free(pool, written), 0, "it goes when the copy is done");
	cr_expect_eq(kvmm_range_free(pool, written), -EBUSY, "and not before");
	expect_picture("aa..........");
	return real_dev->write(dev, addr, buf, bytes);
}

static int write_and_free_mut(struct kv_dev *dev, u64 addr, const void *buf, u64 bytes)
{
	kvmm_key_t key = key_of(1);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_staged_t staged;

	cr_expect_eq(kvmm_free(pool, &written_mut, 1), -EBUSY);
	cr_expect_eq(kvmm_stage(pool, &prefix, &written_mut, &staged), -EBUSY);
	cr_expect_eq(kvmm_lease_release(pool, 1, NULL), -EBUSY);
	return real_dev->write(dev, addr, buf, bytes);
}

static void write_with(int (*write)(struct kv_dev *dev, u64 addr, const void *buf, u64 bytes),
		       int (*call)(void))
{
	struct kv_dev_ops ops = *pool->parts.dev;

	real_dev = pool->parts.dev;
	ops.write = write;
	pool->parts.dev = &ops;
	cr_expect_eq(call(), 0);
	pool->parts.dev = real_dev;
}

static int write_range(void)
{
	return kvmm_range_write(pool, written, 0, 0, "x", 1);
}

static int write_mut(void)
{
	return kvmm_mut_write(pool, written_mut, 0, "x", 1);
}

Test(owner, a_range_that_is_freed_while_it_is_written_goes_afterwards)
{
	written = take_seq(pool, 2, 0, 'a');
	write_with(write_and_free, write_range);
	expect_picture("............");
}

Test(owner, a_block_that_is_written_is_neither_freed_nor_staged)
{
	alloc_owned(pool, &written_mut, 1, 1, 0, 0);
	write_with(write_and_free_mut, write_mut);
	expect_picture("P...........");
	expect_valid();
	cr_expect_eq(kvmm_lease_release(pool, 1, NULL), 1);
}

/* ---- time ---- */

#define HOUR_NS		(3600 * 1000000000ull)
#define STEPS		4000u

static u64 dice;

/* Each look at it may find it an hour off, either way. */
static u64 jumping_clock(void *ctx)
{
	u64 ns = HOUR_NS / 1000 * any_of(&dice, 1000), now = fake.now_ns;
	u32 what = any_of(&dice, 8);

	if (what == 0)
		now -= min(ns, now);
	else if (what == 1)
		now += ns;
	return fake.now_ns = now + any_of(&dice, 1000);
}

static void take_or_wait(kvmm_range_t *range)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any_of(&dice, 3) };
	struct kvmm_alloc_report report = { .waited_ns = 0 };
	int err;

	if (range->gen)
		cr_assert_eq(kvmm_range_free(pool, *range), 0);
	attr.report = &report;
	attr.flags = KVMM_ALLOC_RELATIVE;
	attr.deadline_ns = 1000000;
	attr.owner = 7;
	attr.lease_ns = any_of(&dice, 2) * HOUR_NS;
	err = kvmm_range_alloc_attr(pool, &attr, range);
	if (err)
		*range = (kvmm_range_t){ 0, 0 };
	cr_assert(!err || err == -ETIMEDOUT || err == -ENOSPC, "%d", err);
	cr_assert_lt(report.time_ns, 1000 * HOUR_NS);
	cr_assert_leq(report.waited_ns, 1000 * HOUR_NS);
}

static void expect_sane_ages(void)
{
	struct kvmm_block_info info;
	struct kvmm_pressure pressure;
	struct kvmm_lease_info row;
	u64 cursor = 0, most = fake.now_ns + 1000 * HOUR_NS;

	for (u32 block = 0; block < 12; block++) {
		cr_assert_eq(kvmm_block_get_info(pool, block, &info), 0);
		cr_assert_leq(info.last_access_ns, most, "block %u", block);
	}
	while (!next_leased(pool, NULL, &cursor, &row))
		cr_assert_leq(row.age_ns, most);
	cr_assert_eq(kvmm_pool_get_pressure(pool, &pressure), 0);
	for (u32 i = 0; i < KVMM_NR_AVGS; i++)
		cr_assert_leq(pressure.some.avg[i] >> KVMM_AVG_SHIFT, 100);
	cr_assert_eq(kvmm_validate(pool), 0);
}

Test(owner, a_clock_that_jumps_makes_no_wait_endless_and_no_age_absurd)
{
	struct kvmm_background back = KVMM_BACKGROUND_INIT;
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	kvmm_range_t range[5] = { { 0, 0 } };
	struct kvmm_event event[16];
	struct kvmm_events *events __cleanup(kvmm_events_close) = NULL;
	u64 nr_lost, nr_read = 0;

	dice = 4711;
	printf("seed %llu\n", (unsigned long long)dice);
	attr.batch_us = 1000;
	cr_assert_eq(kvmm_events_open(pool, &attr, &events), 0);
	cr_assert_eq(kvmm_background_set(pool, &back), 0);
	fake.ops.clock_ns = jumping_clock;
	for (u32 step = 0; step < STEPS; step++) {
		take_or_wait(&range[any_of(&dice, ARRAY_SIZE(range))]);
		if (pool_nr_free(pool))
			cache_keys(pool, 1 + any_of(&dice, 20), 1);
		cr_assert_geq(kvmm_lease_expire(pool, 0, NULL), 0);
		cr_assert_geq(kvmm_background_tick(pool), 0);
		nr_read += kvmm_events_read(events, event, ARRAY_SIZE(event), &nr_lost);
		if (step % 16 == 0)
			expect_sane_ages();
	}
	cr_expect_gt(nr_read, 0);
	for (u32 i = 0; i < ARRAY_SIZE(range); i++)
		if (range[i].gen)
			cr_expect_eq(kvmm_range_free(pool, range[i]), 0);
	cr_assert_eq(kvmm_background_set(pool, NULL), 0);
}
