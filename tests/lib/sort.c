// SPDX-License-Identifier: Apache-2.0
/* Sorting in place: the order, which is no matter of luck, and what it takes. */
#include <kv/sort.h>

#include "tests/support/random.h"
#include "tests/support/test.h"

#define MAX	65536u

static u32 at[MAX];
static u64 nr_asked;

static bool is_later(const u32 *one, const u32 *behind, u64 *asked)
{
	++*asked;
	return *one > *behind;
}

Test(sort, of_any_number_is_in_order)
{
	for (u32 nr = 0; nr < 300; nr++) {
		u32 seen[300] = { 0 };

		for (u32 i = 0; i < nr; i++)
			seen[at[i] = any(nr)]++;
		kv_sort(&at[0], nr, is_later, &nr_asked);
		for (u32 i = 0; i < nr; i++) {
			cr_assert(!i || at[i - 1] <= at[i], "%u of %u", i, nr);
			cr_assert_gt(seen[at[i]], 0, "%u of %u", i, nr);
			seen[at[i]]--;
		}
	}
}

/* As positions of several requests that run side by side are: each ascends, but they alternate. */
Test(sort, of_sequences_that_alternate_takes_little_more_than_their_length)
{
	for (u32 nr_seqs = 1; nr_seqs <= 64; nr_seqs *= 2) {
		nr_asked = 0;
		for (u32 i = 0; i < MAX; i++)
			at[i] = (nr_seqs - i % nr_seqs) * MAX + i / nr_seqs;
		kv_sort(&at[0], MAX, is_later, &nr_asked);
		for (u32 i = 1; i < MAX; i++)
			cr_assert_leq(at[i - 1], at[i]);
		cr_expect_leq(nr_asked, 64 * MAX, "%u sequences: %llu", nr_seqs,
			      (unsigned long long)nr_asked);
	}
}
