// SPDX-License-Identifier: Apache-2.0
/* Handles: stale ones, made-up ones, and those of another pool. */
#include "pool/internal.h"
#include "tests/pool/util.h"

static void expect_refused(struct kvmm_pool *pool, kvmm_range_t range, int want)
{
	struct kvmm_range_info info;
	struct kvmm_extent ext[1];
	kvmm_range_t tail;

	cr_expect_eq(kvmm_range_get(pool, range), want);
	cr_expect_eq(kvmm_range_free(pool, range), want);
	cr_expect_eq(kvmm_range_extents(pool, range, ext, 1), want);
	cr_expect_eq(kvmm_range_grow(pool, range, 1), want);
	cr_expect_eq(kvmm_range_shrink(pool, range, 1), want);
	cr_expect_eq(kvmm_range_shrink_front(pool, range, 1), want);
	cr_expect_eq(kvmm_range_split(pool, range, 1, &tail), want);
	cr_expect_eq(kvmm_range_pin(pool, range), want);
	cr_expect_eq(kvmm_range_unpin(pool, range), want);
	cr_expect_eq(kvmm_range_get_info(pool, range, &info), want);
}

POOL_TEST(handle, of_a_freed_range_is_stale, make_pool(16))
{
	kvmm_range_t range = take(pool, 2, 0), again;

	kvmm_range_free(pool, range);
	expect_refused(pool, range, -ESTALE);
	again = take(pool, 2, 0);
	cr_expect_eq(again.index, range.index);
	expect_refused(pool, range, -ESTALE);
	cr_expect_eq(kvmm_range_free(pool, again), 0);
}

POOL_TEST(handle, that_was_never_given_out_is_invalid, make_pool(16))
{
	kvmm_range_t range;

	expect_refused(pool, (kvmm_range_t){ 0, 0 }, -EINVAL);
	range = take(pool, 2, 0);
	expect_refused(pool, (kvmm_range_t){ 0, 0 }, -EINVAL);
	expect_refused(pool, (kvmm_range_t){ range.index, range.gen + 1 }, -EINVAL);
	expect_refused(pool, (kvmm_range_t){ range.index + 1, range.gen }, -EINVAL);
	expect_refused(pool, (kvmm_range_t){ UINT32_MAX, range.gen }, -EINVAL);
	expect_refused(pool, (kvmm_range_t){ CHUNK_SLOTS, range.gen }, -EINVAL);
}

Test(handle, of_another_pool_is_invalid)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool(16), *other = make_pool(16);
	kvmm_range_t range = take(pool, 2, 0);

	take(other, 2, 0);
	expect_refused(other, range, -EINVAL);
	end_pool(other);
}

POOL_TEST(handle, generations_are_never_zero_and_never_used_twice, make_pool(16))
{
	kvmm_range_t range = take(pool, 1, 0);
	struct slot *slot = slot_at(pool, range.index);
	u32 last = pool->gen_base == 1 ? UINT32_MAX : pool->gen_base - 1;

	pool->count.range_gens += UINT32_MAX - slot->gen;
	slot->gen = range.gen = UINT32_MAX;
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	range = take(pool, 1, 0);
	cr_expect_eq(range.gen, 1);
	cr_expect_eq(kvmm_validate(pool), 0);

	pool->count.range_gens += last - slot->gen;
	slot->gen = range.gen = last;
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(pool->nr_retired, 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	range = take(pool, 1, 0);
	cr_expect_neq(slot_at(pool, range.index), slot);
}

POOL_TEST(handle, references_cannot_overflow, make_pool(16))
{
	kvmm_range_t range = take(pool, 1, 0);
	struct slot *slot = slot_at(pool, range.index);

	slot->refs = slot->pins = UINT32_MAX;
	cr_expect_eq(kvmm_range_get(pool, range), -EOVERFLOW);
	cr_expect_eq(kvmm_range_pin(pool, range), -EOVERFLOW);
	cr_expect_eq(slot->refs, UINT32_MAX);
	slot->refs = 1;
	slot->pins = 0;
}

POOL_TEST(handle, of_a_private_block_ends_with_it, make_cache(16, "lru"))
{
	kvmm_key_t key = key_of(1);
	kvmm_mut_t mut, forged;
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_eq(kvmm_block_of_mut(pool, mut), 0);
	cr_expect_eq(kvmm_block_of_ref(pool, (kvmm_ref_t){ mut.index, mut.gen }), -EINVAL);
	cr_expect_eq(kvmm_register(pool, &mut, &key, 1, &ref), 0);
	cr_expect_eq(kvmm_register(pool, &mut, &key, 1, &ref), -ESTALE);
	cr_expect_eq(kvmm_free(pool, &mut, 1), -ESTALE);
	cr_expect_eq(kvmm_block_of_mut(pool, mut), -ESTALE);
	forged = (kvmm_mut_t){ 16, mut.gen };
	cr_expect_eq(kvmm_free(pool, &forged, 1), -EINVAL);
	forged = (kvmm_mut_t){ 5, mut.gen };
	cr_expect_eq(kvmm_free(pool, &forged, 1), -EINVAL);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), -ESTALE);
	cr_expect_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_eq(kvmm_block_of_ref(pool, ref), -ESTALE);
}

POOL_TEST(handle, twice_in_a_batch_is_refused_and_nothing_done, make_cache(16, "lru"))
{
	kvmm_mut_t mut[3];
	kvmm_ref_t ref[3];
	kvmm_key_t key[3] = { key_of(1), key_of(2), key_of(3) };
	struct kvmm_pool_stat before, after;

	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	mut[2] = mut[0];
	before = stat_of(pool);
	cr_expect_eq(kvmm_free(pool, mut, 3), -EINVAL);
	cr_expect_eq(kvmm_register(pool, mut, key, 3, ref), -EINVAL);
	after = stat_of(pool);
	cr_expect_arr_eq(&before, &after, sizeof(before));

	cr_assert_eq(kvmm_register(pool, mut, key, 2, ref), 0);
	ref[2] = ref[0];
	before = stat_of(pool);
	cr_expect_eq(kvmm_put_many(pool, ref, 3), -EINVAL);
	after = stat_of(pool);
	cr_expect_arr_eq(&before, &after, sizeof(before));
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

POOL_TEST(handle, two_references_may_be_dropped_in_one_batch, make_cache(16, "lru"))
{
	kvmm_key_t key = key_of(9);
	kvmm_ref_t ref[3];

	cache_keys(pool, 9, 1);
	cr_expect_eq(kvmm_match(pool, &key, 1, &ref[0]), 1);
	cr_expect_eq(kvmm_match(pool, &key, 1, &ref[1]), 1);
	ref[2] = ref[0];
	cr_expect_eq(kvmm_put_many(pool, ref, 3), -EINVAL);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 1);
}

POOL_TEST(handle, in_the_middle_of_a_bad_batch_stays_valid, make_cache(16, "lru"))
{
	kvmm_mut_t mut[3];

	cr_assert_eq(kvmm_alloc(pool, 3, mut), 0);
	mut[1].gen++;
	cr_expect_eq(kvmm_free(pool, mut, 3), -EINVAL);
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_PRIVATE], 3);
	mut[1].gen--;
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
	cr_expect_eq(kvmm_free(pool, mut, 3), -ESTALE);
}

/* ---- each call, with a handle of each state ---- */

enum life { PRIVATE, STAGED, ACTIVE, INACTIVE, FREED, EVICTED, MADE_UP, NR_LIVES };

static const char *const life_names[NR_LIVES] = {
	"private", "staged", "active", "inactive", "freed", "evicted", "made up",
};

/* A block in that state; the number of its handle, of whatever type. */
static kvmm_mut_t block_in(struct kvmm_pool *pool, enum life life)
{
	struct kvmm_publish_args publish = { .nr = 1 };
	kvmm_key_t key = key_of(1);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_staged_t staged;
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	if (life == MADE_UP)
		return (kvmm_mut_t){ mut.index, mut.gen + 1 };
	if (life == FREED)
		cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	if (life == FREED || life == PRIVATE)
		return mut;
	cr_assert_eq(kvmm_stage(pool, &prefix, &mut, &staged), 0);
	if (life == STAGED)
		return mut;
	publish.staged = &staged;
	publish.refs = &ref;
	cr_assert_eq(kvmm_publish(pool, &publish), 0);
	cr_assert_eq(ref.index == mut.index && ref.gen == mut.gen, 1);
	if (life != ACTIVE)
		cr_assert_eq(kvmm_put(pool, ref), 0);
	if (life == EVICTED)
		cr_assert_eq(kvmm_reset_inactive(pool), 1);
	return mut;
}

static int use_free(struct kvmm_pool *pool, kvmm_mut_t it)
{
	return kvmm_free(pool, &it, 1);
}

static int use_stage(struct kvmm_pool *pool, kvmm_mut_t it)
{
	kvmm_key_t key = key_of(2);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_staged_t staged;

	return kvmm_stage(pool, &prefix, &it, &staged);
}

static int use_unstage(struct kvmm_pool *pool, kvmm_mut_t it)
{
	kvmm_staged_t staged = { it.index, it.gen };

	return kvmm_unstage(pool, &staged, 1, &it);
}

static int use_publish(struct kvmm_pool *pool, kvmm_mut_t it)
{
	kvmm_staged_t staged = { it.index, it.gen };
	kvmm_ref_t ref;
	struct kvmm_publish_args req = { .staged = &staged, .nr = 1, .refs = &ref };

	return kvmm_publish(pool, &req);
}

static int use_register(struct kvmm_pool *pool, kvmm_mut_t it)
{
	kvmm_key_t key = key_of(2);
	kvmm_ref_t ref;

	return kvmm_register(pool, &it, &key, 1, &ref);
}

static int use_get(struct kvmm_pool *pool, kvmm_mut_t it)
{
	return kvmm_get(pool, (kvmm_ref_t){ it.index, it.gen });
}

static int use_put(struct kvmm_pool *pool, kvmm_mut_t it)
{
	return kvmm_put(pool, (kvmm_ref_t){ it.index, it.gen });
}

static int use_pin(struct kvmm_pool *pool, kvmm_mut_t it)
{
	return kvmm_pin(pool, (kvmm_ref_t){ it.index, it.gen });
}

static int use_unpin(struct kvmm_pool *pool, kvmm_mut_t it)
{
	return kvmm_unpin(pool, (kvmm_ref_t){ it.index, it.gen });
}

static int use_block_of_ref(struct kvmm_pool *pool, kvmm_mut_t it)
{
	int block = kvmm_block_of_ref(pool, (kvmm_ref_t){ it.index, it.gen });

	return min(block, 0);
}

static int use_block_of_mut(struct kvmm_pool *pool, kvmm_mut_t it)
{
	int block = kvmm_block_of_mut(pool, it);

	return min(block, 0);
}

/* -ENOENT: no reference, and no error: it tells how many it got. */
static int use_upgrade(struct kvmm_pool *pool, kvmm_mut_t it)
{
	kvmm_weak_t weak = { it.index, it.gen };
	kvmm_ref_t ref;
	int ret = kvmm_upgrade(pool, weak, &ref);

	return ret < 0 ? ret : ret ? 0 : -ENOENT;
}

/*
 * A handle is good in its state. One that its block has left behind, or whose block is gone, is
 * stale; one of a state that the block has not reached was made up.
 */
static const struct {
	const char *name;
	int (*use)(struct kvmm_pool *pool, kvmm_mut_t it);
	int want[NR_LIVES];
} uses[] = {
#define STALE	(-ESTALE)
#define WRONG	(-EINVAL)
#define NONE	(-ENOENT)
	/*				private staged active inactive freed evicted made up */
	{ "free", use_free,		{ 0, STALE, STALE, STALE, STALE, STALE, WRONG } },
	{ "stage", use_stage,		{ 0, STALE, STALE, STALE, STALE, STALE, WRONG } },
	{ "register", use_register,	{ 0, STALE, STALE, STALE, STALE, STALE, WRONG } },
	{ "block_of_mut", use_block_of_mut, { 0, STALE, STALE, STALE, STALE, STALE, WRONG } },
	{ "unstage", use_unstage,	{ WRONG, 0, STALE, STALE, STALE, STALE, WRONG } },
	{ "publish", use_publish,	{ WRONG, 0, STALE, STALE, STALE, STALE, WRONG } },
	{ "get", use_get,		{ WRONG, WRONG, 0, STALE, STALE, STALE, WRONG } },
	{ "put", use_put,		{ WRONG, WRONG, 0, STALE, STALE, STALE, WRONG } },
	{ "pin", use_pin,		{ WRONG, WRONG, 0, STALE, STALE, STALE, WRONG } },
	{ "unpin", use_unpin,		{ WRONG, WRONG, WRONG, WRONG, STALE, STALE, WRONG } },
	{ "block_of_ref", use_block_of_ref, { WRONG, WRONG, 0, STALE, STALE, STALE, WRONG } },
	{ "upgrade", use_upgrade,	{ NONE, NONE, 0, 0, NONE, NONE, NONE } },
#undef STALE
#undef WRONG
#undef NONE
};

Test(handle, each_call_answers_to_a_handle_of_each_state_as_the_header_says)
{
	for (u32 i = 0; i < ARRAY_SIZE(uses); i++) {
		for (u32 life = 0; life < NR_LIVES; life++) {
			struct kvmm_pool *pool = make_cache(16, "lru");
			kvmm_mut_t it = block_in(pool, life);
			int ret = uses[i].use(pool, it);

			cr_expect_eq(ret, uses[i].want[life], "%s of a block that is %s: %d, not %d",
				     uses[i].name, life_names[life], ret, uses[i].want[life]);
			cr_expect_eq(kvmm_validate(pool), 0);
			kvmm_pool_destroy(pool);
		}
	}
}
