// SPDX-License-Identifier: Apache-2.0
/* Host memory for metadata, over whichever allocator the process has. */
#include <kv/stat.h>

#include "tests/support/fake_env.h"
#include "tests/support/test.h"

static bool is_all(const unsigned char *byte, size_t nr, unsigned char value)
{
	while (nr && *byte == value) {
		byte++;
		nr--;
	}
	return !nr;
}

/* Small and large, so that the allocator hands out both used memory and fresh pages. */
Test(mem, is_zeroed_even_when_it_was_used_before)
{
	for (size_t bytes = 1; bytes <= 1u << 20; bytes = bytes * 2 + 1) {
		for (int again = 0; again < 3; again++) {
			unsigned char *any = kv_alloc(bytes);
			unsigned char *lines = kv_alloc_lines(1, bytes);

			cr_assert(any && lines);
			cr_expect(is_all(any, bytes, 0), "%zu bytes", bytes);
			cr_expect(is_all(lines, bytes, 0), "%zu bytes", bytes);
			memset(any, 0xff, bytes);
			memset(lines, 0xff, bytes);
			kv_free(any);
			kv_free(lines);
		}
	}
}

Test(mem, keeps_its_alignment_at_every_size)
{
	for (size_t bytes = 0; bytes < 300; bytes++) {
		void *any = kv_alloc(bytes);
		void *lines = kv_alloc_lines(3, bytes);

		cr_assert(any && lines);
		cr_expect_eq((uintptr_t)any % _Alignof(max_align_t), 0);
		cr_expect_eq((uintptr_t)lines % KV_CACHELINE, 0);
		kv_free(any);
		kv_free(lines);
	}
}

/* What a naive product would wrap around to is small enough to succeed. */
Test(mem, refuses_products_that_overflow)
{
	const size_t half = (size_t)1 << (8 * sizeof(size_t) - 1);

	cr_expect_null(kv_alloc_array(half, 2));
	cr_expect_null(kv_alloc_lines(2, half + 8));
	cr_expect_null(kv_alloc_array(SIZE_MAX, SIZE_MAX));
	cr_expect_null(kv_alloc_array(1, SIZE_MAX), "room for the header overflows");
	cr_expect_null(kv_alloc_lines(1, SIZE_MAX - KV_CACHELINE));
	cr_expect_null(kv_alloc_array(1, PTRDIFF_MAX), "no object can be that large");
	cr_expect_eq(kv_mem_bytes(), 0);
}

Test(mem, free_takes_null)
{
	kv_free(NULL);
	cr_expect_eq(kv_mem_bytes(), 0);
}

/* Random allocations and frees; the recount is the sum over what the test itself remembers. */
Test(mem, accounting_equals_a_recount)
{
	enum { SLOTS = 64, STEPS = 20000 };
	struct { void *ptr; u64 bytes; } slot[SLOTS] = { 0 };
	u64 held = 0;
	struct fake_env fake;

	fake_env_install(&fake);
	for (unsigned int step = 0; step < STEPS; step++) {
		u64 dice = kv_random();
		unsigned int i = dice % SLOTS;

		kv_free(slot[i].ptr);
		held -= slot[i].bytes;
		slot[i].bytes = (dice >> 8) % 500 * ((dice >> 20) % 3);
		slot[i].ptr = dice & 1 << 30 ? kv_alloc_lines(1, slot[i].bytes) :
					       kv_alloc(slot[i].bytes);
		held += slot[i].bytes;
		cr_assert_eq(kv_mem_bytes(), held, "step %u", step);
	}
	cr_expect_gt(held, 0);
	for (unsigned int i = 0; i < SLOTS; i++)
		kv_free(slot[i].ptr);
	cr_expect_eq(kv_mem_bytes(), 0);
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(fake.live_bytes, 0);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

#ifndef KVMM_DEBUG

struct kept {
	unsigned int nr;
	void *last;
};

/* Looking at the memory once more is allowed. */
static void keep_it(void *ctx, void *ptr, size_t bytes)
{
	struct kept *kept = ctx;

	kept->nr++;
	kept->last = ptr;
}

Test(mem, second_free_is_counted_and_ignored)
{
	struct kv_env_ops env = kv_env_system;
	struct kept kept = { 0 };
	char *other, *ptr;

	env.free = keep_it;
	env.ctx = &kept;
	kv_env_set(&env);
	other = kv_alloc(1000);
	ptr = kv_alloc(100);
	kv_free(ptr);
	kv_free(ptr);
	cr_expect_eq(kept.nr, 1);
	cr_expect_eq(kv_mem_bytes(), 1000);
	cr_expect_eq(kv_stat_sum(KV_EV_BUG), 1);

	kv_free(other + 512);		/* the middle of an object is none */
	cr_expect_eq(kept.nr, 1);
	cr_expect_eq(kv_mem_bytes(), 1000);
	cr_expect_eq(kv_stat_sum(KV_EV_BUG), 2);

	kv_env_set(NULL);
	kv_free(other);
	kv_env_system.free(NULL, kept.last, 0);
	cr_expect_eq(kv_mem_bytes(), 0);
}

#endif /* !KVMM_DEBUG */

/* Four objects or none, with the unwinding that callers write. */
static int build_four(void *part[4])
{
	int i;

	for (i = 0; i < 4; i++) {
		part[i] = kv_alloc_lines(i + 1, 100);
		if (!part[i])
			goto out_free_parts;
	}
	return 0;

out_free_parts:
	while (i--)
		kv_free(part[i]);
	return -ENOMEM;
}

Test(mem, every_failed_allocation_is_null_and_accounted_as_nothing)
{
	struct fake_env fake;
	void *part[4];
	int nth, err;

	fake_env_install(&fake);
	for (int on = 0; on < 2; on++) {
		for (nth = 1; ; nth++) {
			fake_env_fail(&fake, nth, on);
			err = build_four(part);
			if (!fake_env_failed(&fake))
				break;
			cr_assert_eq(err, -ENOMEM);
			cr_assert_eq(kv_mem_bytes(), 0);
			cr_assert_eq(fake.nr_live, 0);
		}
		cr_expect_eq(nth, 5, "failed at each of four allocations");
		cr_assert_eq(err, 0);
		cr_expect_eq(kv_mem_bytes(), (1 + 2 + 3 + 4) * 100);
		for (int i = 0; i < 4; i++)
			kv_free(part[i]);
	}
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}
