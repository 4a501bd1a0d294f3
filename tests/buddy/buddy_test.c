// SPDX-License-Identifier: Apache-2.0
/* The two binary buddies, seen in pictures. [..] is one free buddy block. */
#include <kv/bits.h>
#include <kv/zone.h>

#include "tests/support/cleanup.h"
#include "tests/support/zone_picture.h"

#define expect_picture(zone, picture)					\
	do {								\
		cr_expect_str_eq(zone_str(zone), picture);		\
		zone_check(zone);					\
	} while (0)

static u32 alloc(struct kv_zone *zone, u32 nr)
{
	u32 start = KV_NONE;

	cr_expect_eq(kv_zone_alloc(zone, nr, &start), 0);
	return start;
}

static void expect_refused(struct kv_zone *zone, u32 start, u32 nr)
{
	struct zone_image before = zone_image(zone);

	cr_expect_eq(kv_zone_free(zone, start, nr), -EINVAL, "free of %u+%u", start, nr);
	cr_expect(zone_is_unchanged(zone, before), "free of %u+%u left a trace", start, nr);
	zone_check(zone);
}

ZONE_TEST(buddy, starts_as_maximal_aligned_blocks,
	  zone_from("buddy", "......................."))	/* 23 */
{
	expect_picture(zone, "[................][....][..].");
}

ZONE_TEST(buddy, split_keeps_the_low_half, zone_from("buddy", "........"))
{
	cr_expect_eq(alloc(zone, 1), 0);
	expect_picture(zone, "#.[..][....]");
}

ZONE_TEST(buddy, takes_the_smallest_order_before_the_lowest_address,
	  zone_from("buddy", "[....]AAB."))
{
	cr_expect_eq(alloc(zone, 1), 7);
	expect_picture(zone, "[....]AAB#");
}

ZONE_TEST(buddy, takes_the_lowest_address_of_an_order, zone_from("buddy", "A.B.C.DD"))
{
	/* Freed last, but it does not lie lowest. */
	cr_expect_eq(kv_zone_free(zone, 4, 1), 0);
	cr_expect_eq(kv_zone_alloc_at(zone, 4, 1), 0);
	cr_expect_eq(alloc(zone, 1), 1);
	cr_expect_eq(alloc(zone, 1), 3);
	cr_expect_eq(alloc(zone, 1), 5);
}

ZONE_TEST(buddy, free_merges_only_with_own_buddy, zone_from("buddy", "A.B."))
{
	cr_expect_eq(kv_zone_free(zone, 0, 1), 0);
	expect_picture(zone, "[..]B.");
	cr_expect_eq(kv_zone_free(zone, 2, 1), 0);
	expect_picture(zone, "[....]");
}

ZONE_TEST(buddy, neighbours_that_are_no_buddies_stay_apart, zone_from("buddy", "ABCD"))
{
	cr_expect_eq(kv_zone_free(zone, 1, 1), 0);
	cr_expect_eq(kv_zone_free(zone, 2, 1), 0);
	expect_picture(zone, "A..D");
}

ZONE_TEST(buddy, merging_stops_at_the_zones_end, zone_from("buddy", "AAAABB"))
{
	cr_expect_eq(kv_zone_free(zone, 4, 2), 0);
	expect_picture(zone, "AAAA[..]");
	cr_expect_eq(kv_zone_free(zone, 0, 4), 0);
	expect_picture(zone, "[....][..]");
}

ZONE_TEST(buddy, holds_the_whole_rounded_block, zone_from("buddy", "................"))
{
	cr_expect_eq(alloc(zone, 5), 0);
	expect_picture(zone, "########[........]");
	cr_expect_eq(kv_zone_free(zone, 0, 5), 0);
	expect_picture(zone, "[................]");
}

ZONE_TEST(buddy, takes_back_whole_allocations_only, zone_from("buddy", "AAAABBC."))
{
	expect_refused(zone, 0, 2);		/* a half */
	expect_refused(zone, 2, 2);		/* the other half */
	expect_refused(zone, 0, 8);		/* a double */
	expect_refused(zone, 4, 4);		/* two at once */
	expect_refused(zone, 1, 1);		/* no head */
	expect_refused(zone, 5, 2);		/* unaligned */
	expect_refused(zone, 7, 1);		/* free */
}

ZONE_TEST(buddy, double_free_is_refused, zone_from("buddy", "AABB"))
{
	cr_expect_eq(kv_zone_free(zone, 0, 2), 0);
	expect_refused(zone, 0, 2);
	cr_expect_eq(kv_zone_free(zone, 2, 2), 0);
	expect_refused(zone, 0, 2);
	expect_refused(zone, 0, 4);
}

ZONE_TEST(buddy, claims_aligned_blocks_only, zone_from("buddy", "........"))
{
	struct zone_image before = zone_image(zone);

	cr_expect_eq(kv_zone_alloc_at(zone, 0, 3), -EOPNOTSUPP);
	cr_expect_eq(kv_zone_alloc_at(zone, 1, 2), -EOPNOTSUPP);
	cr_expect(zone_is_unchanged(zone, before));
	cr_expect_eq(kv_zone_alloc_at(zone, 4, 2), 0);
	expect_picture(zone, "[....]##[..]");
	cr_expect_eq(kv_zone_alloc_at(zone, 4, 4), -EBUSY);
	expect_picture(zone, "[....]##[..]");
}

static u32 alloc_req(struct kv_zone *zone, struct kv_zone_req req)
{
	u32 start = KV_NONE;
	int err = kv_zone_alloc_req(zone, &req, &start);

	cr_expect(err == 0 || err == -ENOSPC);
	zone_check(zone);
	return start;
}

ZONE_TEST(buddy, topdown_takes_the_highest_address, zone_from("buddy", "........"))
{
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 1, .topdown = 1 }), 7);
	expect_picture(zone, "[....][..].#");
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 2, .topdown = 1 }), 4);
	expect_picture(zone, "[....]##.#");
}

ZONE_TEST(buddy, windows_are_kept, zone_from("buddy", "................"))
{
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 2, .lo = 5 }), 6);
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 2, .lo = 5, .hi = 9 }), KV_NONE);
	expect_picture(zone, "[....][..]##[........]");
}

ZONE_TEST(buddy, held_blocks_stay_in_the_window, zone_from("buddy", "........"))
{
	/* Five would fit, the eight that would be held do not. */
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 5, .hi = 6 }), KV_NONE);
	expect_picture(zone, "[........]");
}

ZONE_TEST(buddy, first_fit_prefers_address_to_order, zone_from("buddy", "[....]AAB."))
{
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 1, .fit = KV_FIT_FIRST }), 0);
	expect_picture(zone, "#.[..]AAB.");
}

ZONE_TEST(buddy, alignment_beyond_the_order_uses_a_larger_block, zone_from("buddy", "A.B........."))
{
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 1, .align = 4 }), 4);
	expect_picture(zone, "A.B.#.[..][....]");
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 1, .align = 8 }), 8);
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 1, .align = 1u << 31 }), KV_NONE);
}

ZONE_TEST(buddy_trim, gives_the_tail_back_as_aligned_blocks,
	  zone_from("buddy-trim", "................"))
{
	cr_expect_eq(alloc(zone, 5), 0);
	expect_picture(zone, "#####.[..][........]");
	cr_expect_eq(alloc(zone, 2), 6);
	expect_picture(zone, "#####.##[........]");
}

ZONE_TEST(buddy_trim, searches_for_the_rounded_block, zone_from("buddy-trim", "A...AAAA"))
{
	/* Three free blocks in a row are not enough for three: an aligned four is needed. */
	u32 start;

	cr_expect_eq(kv_zone_alloc(zone, 3, &start), -ENOSPC);
	expect_picture(zone, "A.[..]AAAA");
}

ZONE_TEST(buddy_trim, any_part_can_be_given_back, zone_from("buddy-trim", "AAAAAAAA"))
{
	cr_expect_eq(kv_zone_free(zone, 1, 4), 0);
	expect_picture(zone, "A.[..].AAA");
	cr_expect_eq(kv_zone_free(zone, 0, 1), 0);
	expect_picture(zone, "[....].AAA");
	cr_expect_eq(kv_zone_free(zone, 5, 3), 0);
	expect_picture(zone, "[........]");
}

ZONE_TEST(buddy_trim, free_of_a_free_block_is_refused, zone_from("buddy-trim", "AA.AAAAA"))
{
	expect_refused(zone, 2, 1);
	expect_refused(zone, 0, 3);
	expect_refused(zone, 2, 2);
	expect_refused(zone, 0, 8);
}

ZONE_TEST(buddy_trim, claims_any_free_range, zone_from("buddy-trim", "............"))
{
	cr_expect_eq(kv_zone_alloc_at(zone, 3, 6), 0);
	expect_picture(zone, "[..].######.[..]");
	cr_expect_eq(kv_zone_alloc_at(zone, 2, 2), -EBUSY);
	expect_picture(zone, "[..].######.[..]");
}

ZONE_TEST(buddy_trim, topdown_with_alignment, zone_from("buddy-trim", "................"))
{
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 3, .topdown = 1 }), 12);
	expect_picture(zone, "[........][....]###.");
	cr_expect_eq(alloc_req(zone, (struct kv_zone_req){ .nr = 3, .topdown = 1, .align = 8 }), 8);
}
