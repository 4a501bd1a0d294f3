// SPDX-License-Identifier: Apache-2.0
/*
 * Private blocks with several holders: each gives them back once, the last one frees them, and none
 * is written to, staged or named while others hold it.
 */
#include <pthread.h>

#include <kvmm/ext/lease.h>
#include <kvmm/ext/seq.h>

#include "tests/pool/life_util.h"
#include "tests/support/random.h"

static u32 holders_of(struct kvmm_pool *pool, kvmm_mut_t mut)
{
	struct kvmm_block_info info;
	u32 id;

	cr_assert_eq(kvmm_blocks_of_muts(pool, &mut, 1, &id), 0);
	cr_assert_eq(kvmm_block_get_info(pool, id, &info), 0);
	cr_expect_eq(info.state, KVMM_BLOCK_PRIVATE);
	return info.refs;
}

POOL_TEST(holder, the_last_one_frees_the_block, make_cache(8, "lru"))
{
	kvmm_mut_t mut[3];

	make_private(pool, 3, mut);
	cr_expect_eq(kvmm_get_muts(pool, mut, 2), 0);
	cr_expect_eq(kvmm_get_muts(pool, mut, 1), 0);
	cr_expect_eq(holders_of(pool, mut[0]), 3);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
	cr_expect_str_eq(picture(pool), "PP......");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
	cr_expect_str_eq(picture(pool), "P.......");
	cr_expect_eq(stat_of(pool).nr_free, 7);
	cr_expect_eq(kvmm_free(pool, mut, 1), 0);
	cr_expect_eq(stat_of(pool).nr_free, 8);
	cr_expect_eq(kvmm_free(pool, mut, 1), -ESTALE);
	cr_expect_eq(kvmm_get_muts(pool, mut, 1), -ESTALE);
}

POOL_TEST(holder, a_block_stands_in_a_batch_as_often_as_it_is_held, make_cache(8, "lru"))
{
	kvmm_mut_t mut[2], batch[4];

	make_private(pool, 2, mut);
	batch[0] = batch[1] = batch[3] = mut[0];
	batch[2] = mut[1];
	cr_expect_eq(kvmm_get_muts(pool, batch, 1), 0);
	expect_refused(pool, kvmm_free(pool, batch, 4), -EINVAL);
	cr_expect_eq(holders_of(pool, mut[0]), 2);
	cr_expect_eq(holders_of(pool, mut[1]), 1);
	cr_expect_eq(kvmm_free(pool, batch, 3), 0);
	cr_expect_eq(stat_of(pool).nr_free, 8);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(holder, some_of_several_leave_in_one_batch, make_cache(8, "lru-classic"))
{
	kvmm_mut_t mut, batch[2];

	make_private(pool, 1, &mut);
	batch[0] = batch[1] = mut;
	cr_expect_eq(kvmm_get_muts(pool, batch, 2), 0);
	cr_expect_eq(kvmm_free(pool, batch, 2), 0);
	cr_expect_eq(holders_of(pool, mut), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_get_muts(pool, &mut, 1), 0);
	cr_expect_eq(kvmm_free(pool, batch, 2), 0);
	cr_expect_str_eq(picture(pool), "........");
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(holder, a_refused_batch_leaves_all_as_it_was, make_cache(16, "lru"))
{
	struct bad_handle bad[NR_BAD_HANDLES];
	kvmm_mut_t batch[4];

	make_private(pool, 3, batch);
	cr_expect_eq(kvmm_get_muts(pool, batch, 2), 0);
	bad_handles(pool, bad);
	for (u32 i = 0; i < NR_BAD_HANDLES; i++) {
		batch[3] = (kvmm_mut_t){ bad[i].handle.index, bad[i].handle.gen };
		expect_refused(pool, kvmm_free(pool, batch, 4), bad[i].err);
		expect_refused(pool, kvmm_get_muts(pool, batch, 4), bad[i].err);
	}
	cr_expect_eq(kvmm_free(pool, batch, 3), 0);
	cr_expect_eq(kvmm_free(pool, batch, 2), 0);
}

/* All but reading is for one that is alone. */
POOL_TEST(holder, one_of_several_does_not_write_or_name, make_cache(8, "lru"))
{
	struct kvmm_prefix prefix = prefix_of(keys_from(5, 1), 1);
	kvmm_staged_t staged;
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	u32 token = 3;

	make_private(pool, 1, &mut);
	cr_expect_eq(kvmm_block_append_tokens(pool, mut, &token, 1), 1);
	cr_expect_eq(kvmm_get_muts(pool, &mut, 1), 0);
	expect_refused(pool, kvmm_block_append_tokens(pool, mut, &token, 1), -EBUSY);
	expect_refused(pool, kvmm_block_pop_tokens(pool, mut, 1), -EBUSY);
	cr_expect_eq(kvmm_block_nr_tokens(pool, mut), 1);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_eq(kvmm_block_pop_tokens(pool, mut, 1), 0);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	make_private(pool, 1, &mut);
	cr_expect_eq(kvmm_get_muts(pool, &mut, 1), 0);
	expect_refused(pool, kvmm_stage(pool, &prefix, &mut, &staged), -EBUSY);
	expect_refused(pool, kvmm_prefix_register(pool, &prefix, &mut, &ref), -EBUSY);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_eq(kvmm_prefix_register(pool, &prefix, &mut, &ref), 0);
	cr_expect_eq(kvmm_get_muts(pool, &mut, 1), -ESTALE);
	cr_expect_eq(kvmm_put(pool, ref), 0);
}

static struct kvmm_pool *make_blocks_of(u32 nr_blocks, u64 block_bytes)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.nr_blocks = nr_blocks;
	attr.policy = "lru";
	attr.block_bytes = block_bytes;
	return make_pool_of(&attr);
}

static struct kvmm_pool *make_content(u32 nr_blocks)
{
	return make_blocks_of(nr_blocks, TEST_BLOCK_BYTES);
}

static struct kvmm_content content_of(kvmm_mut_t mut)
{
	return (struct kvmm_content){ .of = KVMM_CONTENT_MUT, .index = mut.index, .gen = mut.gen };
}

POOL_TEST(holder, content_is_read_by_all_and_written_by_one, make_content(8))
{
	struct kvmm_content where;
	u8 buf[4] = { 1, 2, 3, 4 };
	kvmm_mut_t mut;

	make_private(pool, 1, &mut);
	where = content_of(mut);
	cr_expect_eq(kvmm_content_write(pool, &where, buf, 4), 0);
	cr_expect_eq(kvmm_get_muts(pool, &mut, 1), 0);
	expect_refused(pool, kvmm_content_write(pool, &where, buf, 4), -EBUSY);
	memset(buf, 0, 4);
	cr_expect_eq(kvmm_content_read(pool, &where, buf, 4), 0);
	cr_expect_eq(buf[3], 4);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_eq(kvmm_content_write(pool, &where, buf, 4), 0);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
}

POOL_TEST(holder, an_owner_that_ends_takes_it_from_all, make_cache(8, "lru"))
{
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	kvmm_mut_t mut[2];

	attr.owner = 7;
	make_private(pool, 2, mut);
	cr_expect_eq(kvmm_get_muts(pool, mut, 1), 0);
	cr_expect_eq(kvmm_lease_own_muts(pool, &attr, mut, 1), 0);
	cr_expect_eq(kvmm_lease_release(pool, 7, NULL), 1);
	cr_expect_str_eq(picture(pool), ".P......");
	cr_expect_eq(kvmm_free(pool, mut, 1), -ESTALE);
	cr_expect_eq(kvmm_get_muts(pool, mut, 1), -ESTALE);
	cr_expect_eq(kvmm_free(pool, mut + 1, 1), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* ---- copies ---- */

POOL_TEST(holder, a_copy_has_the_content_of_its_block, make_content(8))
{
	struct kvmm_content from, to;
	u8 buf[TEST_BLOCK_BYTES], got[TEST_BLOCK_BYTES] = { 0 };
	kvmm_mut_t mut[3];

	for (u32 i = 0; i < sizeof(buf); i++)
		buf[i] = i * 7 + 1;
	make_private(pool, 3, mut);
	from = content_of(mut[0]);
	to = content_of(mut[2]);
	cr_expect_eq(kvmm_content_write(pool, &from, buf, sizeof(buf)), 0);
	cr_expect_eq(kvmm_get_muts(pool, mut, 1), 0);
	cr_expect_eq(kvmm_copy_muts(pool, mut, mut + 1, 2), 0);	/* 0 to 1, 1 to 2 */
	cr_expect_eq(kvmm_content_read(pool, &to, got, sizeof(got)), 0);
	cr_expect_arr_eq(got, buf, sizeof(buf));
	cr_expect_eq(kvmm_validate(pool), 0);
	expect_refused(pool, kvmm_copy_muts(pool, mut + 1, mut, 1), -EBUSY);
	expect_refused(pool, kvmm_copy_muts(pool, mut + 1, mut + 1, 1), -EINVAL);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
	expect_refused(pool, kvmm_copy_muts(pool, mut, mut + 1, 1), -ESTALE);
	cr_expect_eq(kvmm_free(pool, mut, 1), 0);
}

POOL_TEST(holder, a_refused_copy_copies_nothing, make_content(8))
{
	struct kvmm_content to;
	kvmm_mut_t from[2], to_mut[2];
	u8 old = 9, got = 0;

	make_private(pool, 2, from);
	make_private(pool, 2, to_mut);
	to = content_of(to_mut[0]);
	cr_expect_eq(kvmm_content_write(pool, &to, &old, 1), 0);
	cr_expect_eq(kvmm_free(pool, to_mut + 1, 1), 0);
	expect_refused(pool, kvmm_copy_muts(pool, from, to_mut, 2), -ESTALE);
	cr_expect_eq(kvmm_content_read(pool, &to, &got, 1), 0);
	cr_expect_eq(got, old);
	cr_expect_eq(kvmm_free(pool, from, 2), 0);
	cr_expect_eq(kvmm_free(pool, to_mut, 1), 0);
}

POOL_TEST(holder, ids_have_no_content_to_copy, make_blocks_of(8, 0))
{
	kvmm_mut_t mut[2];

	make_private(pool, 2, mut);
	cr_expect_eq(kvmm_copy_muts(pool, mut, mut + 1, 1), -EOPNOTSUPP);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
}

/* ---- any order, against counters ---- */

#define NR_MUTS		24u
#define NR_STEPS	4000u

/* A pool with magazines: it has 512 blocks or more. */
POOL_TEST(holder, counts_are_those_of_a_model, make_cache(1024, "lru"))
{
	u32 held[NR_MUTS] = { 0 }, nr_held = 0;
	kvmm_mut_t mut[NR_MUTS];
	u64 seed = 18;

	cr_log_info("seed %llu", (unsigned long long)seed);
	for (u32 step = 0; step < NR_STEPS; step++) {
		u32 i = any_of(&seed, NR_MUTS), j = any_of(&seed, NR_MUTS);
		kvmm_mut_t pair[2];
		bool both = held[i] && held[j] && (i != j || held[i] > 1);

		if (!held[i]) {
			cr_assert_eq(kvmm_alloc(pool, 1, &mut[i]), 0);
			held[i] = 1;
			nr_held++;
		} else if (any_of(&seed, 2)) {
			cr_assert_eq(kvmm_get_muts(pool, &mut[i], 1), 0);
			held[i]++;
		} else if (held[j]) {
			pair[0] = mut[i];
			pair[1] = mut[j];
			cr_assert_eq(kvmm_free(pool, pair, 2), both ? 0 : -EINVAL);
			nr_held -= both && !--held[i];
			nr_held -= both && !--held[j];
		}
		if (held[i])
			cr_assert_eq(holders_of(pool, mut[i]), held[i], "step %u", step);
		cr_assert_eq(stat_of(pool).nr_free, 1024 - nr_held, "step %u", step);
		if (step % 100 == 0)
			cr_assert_eq(kvmm_validate(pool), 0);
	}
	for (u32 i = 0; i < NR_MUTS; i++)
		for (; held[i]; held[i]--)
			cr_assert_eq(kvmm_free(pool, &mut[i], 1), 0);
}

/* ---- threads ---- */

#define NR_THREADS	4u
#define NR_ROUNDS	3000u

struct shared {
	struct kvmm_pool *pool;
	kvmm_mut_t mut;
};

static void *hold_and_leave(void *arg)
{
	struct shared *shared = arg;
	kvmm_mut_t batch[3] = { shared->mut, { 0, 0 }, shared->mut };

	for (u32 i = 0; i < NR_ROUNDS; i++) {
		cr_assert_eq(kvmm_get_muts(shared->pool, &shared->mut, 1), 0);
		cr_assert_eq(kvmm_get_muts(shared->pool, &shared->mut, 1), 0);
		cr_assert_eq(kvmm_alloc(shared->pool, 1, &batch[1]), 0);
		cr_assert_eq(kvmm_free(shared->pool, batch, 3), 0);
	}
	cr_assert_eq(kvmm_free(shared->pool, &shared->mut, 1), 0);
	return NULL;
}

POOL_TEST(holder, threads_share_a_block_to_the_last_one, make_cache(1024, "lru"))
{
	struct shared shared = { .pool = pool };
	pthread_t thread[NR_THREADS];

	make_private(pool, 1, &shared.mut);
	for (u32 i = 1; i < NR_THREADS; i++)
		cr_assert_eq(kvmm_get_muts(pool, &shared.mut, 1), 0);
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_create(&thread[i], NULL, hold_and_leave, &shared);
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
	cr_expect_eq(stat_of(pool).nr_free, 1024);
	cr_expect_eq(kvmm_validate(pool), 0);
}
