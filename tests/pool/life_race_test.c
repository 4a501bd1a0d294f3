// SPDX-License-Identifier: Apache-2.0
/*
 * Two threads in one: what another thread could do in between is done from inside of the policy,
 * that is under the locks of the first one. Looking up and dropping references takes none of those, so
 * these orders of events can be had one by one, each time the same.
 */
#include <kv/cuda.h>
#include <kv/rcu.h>

#include "research/research.h"
#include "tests/pool/life_util.h"

/* "slru", with somebody else coming in before an operation. */
static struct kv_evict_ops hooked;
static void (*before_pick)(void);
static void (*before_nr)(void);
static void (*before_hit)(void);
static struct kvmm_pool *pool;

/* Once. */
static void call(void (**hook)(void))
{
	void (*now)(void) = *hook;

	*hook = NULL;
	if (now)
		now();
}

static u32 pick(void *policy)
{
	call(&before_pick);
	return kv_evict_slru.pick(policy);
}

static u32 nr(const void *policy)
{
	call(&before_nr);
	return kv_evict_slru.nr(policy);
}

static void hit(void *policy, u32 block)
{
	call(&before_hit);
	kv_evict_slru.hit(policy, block);
}

static void set_up(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4 };
	struct kv_pool_parts parts = { .all = kv_pool_parts_all, .dev = &kv_dev_host, .map = &kv_map_flat,
				       .evict = &hooked };

	hooked = kv_evict_slru;
	hooked.pick = pick;
	hooked.nr = nr;
	hooked.hit = hit;
	cr_assert_eq(kv_pool_create(&attr, &parts, &pool), 0);
}

/* Whatever happened, all that is cached can be evicted. */
static void end(void)
{
	kvmm_mut_t mut[4];

	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_alloc(pool, 4, mut), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	kv_pool_destroy(pool);
	kv_rcu_barrier();
}

TestSuite(life_race, .init = set_up, .fini = end);

static void match_and_put_5(void)
{
	kvmm_key_t key = key_of(5);
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_match(pool, &key, 1, &ref), 1);
	cr_assert_eq(kvmm_put_many(pool, &ref, 1), 0);
}

/* The hit is noted, but not applied, when the elder of a duplicate that went is evicted. */
Test(life_race, an_elder_is_hit_when_its_duplicate_has_gone)
{
	kvmm_ref_t ref[2];
	kvmm_mut_t mut[3];

	make_active(pool, 5, 1, &ref[0]);
	publish_as(pool, KVMM_DUP_HOLD, 5, 1, &ref[1]);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	before_pick = match_and_put_5;
	make_private(pool, 3, mut);
	cr_expect_str_eq(picture(pool), "IPPP");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}

static kvmm_ref_t held;

static void match_5(void)
{
	kvmm_key_t key = key_of(5);

	cr_assert_eq(kvmm_match(pool, &key, 1, &held), 1);
}

static void put_held(void)
{
	cr_assert_eq(kvmm_put_many(pool, &held, 1), 0);
}

/* A hit of key 5 at the most, and as many blocks as it takes to make @nr. */
static int acquire_5(u32 nr, kvmm_ref_t *hit, kvmm_mut_t *fresh)
{
	kvmm_key_t key = key_of(5);
	struct kvmm_acquire_args req = { .keys = &key, .nr_keys = 1, .max_hits = 1, .nr_blocks = nr,
					 .hits = hit, .fresh = fresh };
	int err = kvmm_acquire(pool, &req);

	return err ? err : req.nr_hits;
}

/* The other's hit is noted, and it was not the last to put: that is who cannot have his blocks. */
Test(life_race, a_hit_comes_in_while_an_acquire_fails)
{
	kvmm_ref_t ref;
	kvmm_mut_t fresh[4];

	cache_keys(pool, 5, 1);
	before_nr = match_and_put_5;
	cr_expect_eq(acquire_5(5, &ref, fresh), -ENOSPC);
	cr_expect_str_eq(picture(pool), "I...");
}

/* The hit comes first, and is put when the acquire has failed. */
Test(life_race, the_hits_of_a_failed_acquire_are_held_by_another)
{
	kvmm_ref_t ref;
	kvmm_mut_t fresh[4];

	cache_keys(pool, 5, 1);
	before_nr = match_5;
	cr_expect_eq(acquire_5(5, &ref, fresh), -ENOSPC);
	cr_expect_str_eq(refs_picture(pool), "1...");
	cr_expect_eq(kvmm_validate(pool), 0);
	put_held();
	cr_expect_str_eq(refs_picture(pool), "0...");
}

/* What does not stay goes with its last reference, and if that is the failed acquire's. */
Test(life_race, the_hit_of_a_failed_acquire_was_not_to_stay)
{
	kvmm_ref_t ref;
	kvmm_mut_t fresh[4];

	make_active(pool, 5, 1, &held);
	cr_assert_eq(kvmm_set_reset(pool, &held, 1, 1), 0);
	before_nr = put_held;
	cr_expect_eq(acquire_5(5, &ref, fresh), -ENOSPC);
	cr_expect_str_eq(picture(pool), "....");
}

/* Put, but not noted yet: such a block was not counted as room, and need not be kept free now. */
Test(life_race, a_hit_was_put_a_moment_ago)
{
	kvmm_ref_t ref;
	kvmm_mut_t fresh[4];

	make_active(pool, 5, 1, &held);
	cr_assert_eq(kv_handle_step(&pool->entries, *as_handles(&held), kv_edge_put), 1);
	tally_add(pool, TALLY_REFS, -1);
	tally_add(pool, TALLY_ACTIVE, -1);
	cr_expect_eq(acquire_5(4, &ref, fresh), 1);
	order_note(&pool->order, NOTE_PUT, as_handles(&held), 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_str_eq(refs_picture(pool), "1...");
	cr_expect_eq(kvmm_free(pool, fresh, 3), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
}

/* Picked, then referenced: it is no victim, and out of the order until its put. */
Test(life_race, a_victim_is_hit_before_it_is_claimed)
{
	kvmm_mut_t mut[4];

	cache_keys(pool, 5, 2);
	before_pick = match_5;
	cr_expect_eq(kvmm_alloc(pool, 4, mut), -ENOSPC);
	cr_expect_str_eq(picture(pool), "AI..");
	cr_expect_eq(kvmm_validate(pool), 0);
	put_held();
	cr_expect_str_eq(picture(pool), "II..");
}

/* Picked, referenced, put, and all that before it is claimed: the note comes too late. */
Test(life_race, a_victim_is_put_before_it_is_claimed)
{
	kvmm_mut_t mut[4];

	cache_keys(pool, 5, 2);
	before_pick = match_and_put_5;
	make_private(pool, 3, mut);
	cr_expect_str_eq(picture(pool), "IPPP");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}

/* Nobody should drop the last reference while another thread touches by it. */
Test(life_race, a_touch_loses_against_the_last_put)
{
	kvmm_ref_t other, many[ORDER_LOG];

	make_active(pool, 5, 1, &held);
	make_active(pool, 6, 1, &other);
	cr_expect_eq(kvmm_validate(pool), 0);
	for (u32 i = 0; i < ORDER_LOG; i++)
		many[i] = other;
	/* The log is full, so the touch applies it first; then the other one puts. */
	cr_expect_eq(kvmm_touch_many(pool, many, ORDER_LOG), 0);
	cr_expect_eq(pool->order.nr_log, ORDER_LOG);
	before_hit = put_held;
	cr_expect_eq(kvmm_touch_many(pool, &held, 1), 0);
	cr_expect_str_eq(refs_picture(pool), "01..");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put_many(pool, &other, 1), 0);
}

/* The log is full, and its lock busy: a hit is lost, and made up for when the block is met. */
Test(life_race, a_hit_that_is_lost_costs_no_block)
{
	kvmm_ref_t other, many[ORDER_LOG];
	kvmm_mut_t mut[3];

	cache_keys(pool, 5, 1);
	make_active(pool, 6, 1, &other);
	cr_expect_eq(kvmm_validate(pool), 0);
	for (u32 i = 0; i < ORDER_LOG; i++)
		many[i] = other;
	cr_expect_eq(kvmm_touch_many(pool, many, ORDER_LOG), 0);
	kv_lock(&pool->order.lock);
	match_5();
	kv_unlock(&pool->order.lock);
	cr_expect(order_has(&pool->order, held.index));
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 0);
	cr_expect_eq(stat_of(pool).nr_available, 2);
	cr_expect_eq(kvmm_alloc(pool, 3, mut), -ENOSPC);
	cr_expect_not(order_has(&pool->order, held.index));
	put_held();
	cr_expect_eq(kvmm_put_many(pool, &other, 1), 0);
}

/* References are put by a thread that does not own them before the owner has noted that blocks are full. */
Test(life_race, blocks_are_put_before_they_are_known_to_be_full)
{
	for_each_policy(policy) {
		struct kvmm_pool *other __cleanup(end_pool) = make_cache(4, policy);
		kvmm_ref_t ref[3];
		kvmm_weak_t weak[3];

		make_active(other, 5, 3, ref);
		for (u32 i = 0; i < 3; i++)
			weak[i] = kvmm_weak_of(ref[i]);
		for (u32 uses = 0; uses < 3; uses++) {
			cr_assert_eq(kvmm_put_many(other, ref, 3), 0);
			cr_assert_eq(kvmm_upgrade_many(other, weak, 3, ref), 3);
		}
		cr_assert_eq(kvmm_put_many(other, ref, 3), 0);
		for (u32 i = 0; i < 3; i++) {
			order_note(&other->order, NOTE_FILL, &as_handles(ref)[i], 1);
			cr_expect_eq(kvmm_validate(other), 0, "%s", policy);
		}
		cr_expect_eq(kvmm_reset_cache(other), 3);
	}
}

/* An unstaging that fails makes it staged again, while a copy that has begun meanwhile reads it. */
Test(life_race, a_block_is_published_once_no_copy_reads_it)
{
	kvmm_staged_t staged;
	struct kv_handle handle;
	struct kvmm_publish_args req = { .staged = &staged, .nr = 1, .refs = &held };

	make_staged(pool, 5, 1, &staged);
	handle = *as_handles(&staged);
	cr_assert_eq(kv_handle_step(&pool->entries, handle, kv_edge_unstage), 0);
	cr_assert_eq(kv_handle_step(&pool->entries, handle, kv_edge_read), 0);
	cr_assert_eq(kv_handle_step(&pool->entries, handle, kv_edge_restage), 0);
	cr_expect_eq(kvmm_publish(pool, &req), -EBUSY);
	cr_assert_eq(kv_handle_step(&pool->entries, handle, kv_edge_written), 0);
	cr_assert_eq(kvmm_publish(pool, &req), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	put_held();
}

/* The last reference is dropped, and the thread that has done that does not have the lock yet. */
Test(life_race, what_goes_with_its_last_reference_is_counted_until_it_has_gone)
{
	struct kv_handle last[1], handle;
	struct kv_put put = { .refs = &handle, .nr = 1, .last = last };
	struct kvmm_block_info info;
	struct kvmm_map_run run;
	kvmm_ref_t ref;
	u32 at = 0;

	make_active(pool, 5, 1, &ref);
	cr_assert_eq(kvmm_set_reset(pool, &ref, 1, true), 0);
	handle = as_handles(&ref)[0];
	cr_assert_eq(kv_entries_put(&pool->entries, &put), 0);
	cr_assert_eq(put.nr_gone, 1);
	tally_add(pool, TALLY_REFS, -1);
	tally_add(pool, TALLY_ACTIVE, -1);
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_INACTIVE], 1);
	cr_expect_eq(kvmm_block_get_info(pool, 0, &info), 0);
	cr_expect_eq(info.state, KVMM_BLOCK_INACTIVE);
	cr_expect_eq(kvmm_map_read(pool, &at, 0, &run, 1), 1);
	cr_expect_eq(kvmm_map_block_state(run.state), KVMM_BLOCK_INACTIVE);
	WRITE_ONCE(entry_at(pool, handle.index)->chain, KV_NONE);
	cr_expect_eq(evict_gone(pool, handle.index), 0);
	cr_expect_str_eq(picture(pool), "....");
}

/* ---- a put of what somebody else has put already ---- */

static u32 forgotten;

/* The first half of a double put has gone through, and its block been evicted: counts must hold. */
Test(life_race, what_is_lost_by_a_double_put_is_counted)
{
	struct kv_handle last[2], refs[2];
	struct kv_put put = { .refs = refs, .nr = 2, .last = last };
	kvmm_ref_t ref[2];
	struct kvmm_block_info info;

	make_active(pool, 5, 2, ref);
	refs[0] = as_handles(ref)[0];
	refs[1] = as_handles(ref)[1];
	/* Between two batches of one call, as kvmm_put_many() makes them. */
	cr_assert_eq(kv_entries_put(&pool->entries, &put), 0);
	tally_add(pool, TALLY_REFS, -2);
	tally_add(pool, TALLY_ACTIVE, -2);
	order_note(&pool->order, NOTE_PUT, put.last, put.nr_last);
	for (u32 i = 0; i < 4; i++)
		if (!kvmm_block_get_info(pool, i, &info) && info.state == KVMM_BLOCK_INACTIVE)
			forgotten += kvmm_evict_blocks(pool, &i, 1);
	cr_expect_eq(forgotten, 2);
	put.nr_first = 0;
	cr_expect_eq(kv_entries_take_again(&pool->entries, refs, 2, false, &put.nr_first), 0);
	cr_expect_eq(put.nr_first, 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), -ESTALE);
}

/* ---- a policy that is broken ---- */

#define NR_BROKEN	64u

static struct {
	u64 random;
	u32 nr_blocks;
	bool has[NR_BROKEN];
} *broken;

static u32 any_of(u32 below)
{
	broken->random = broken->random * 6364136223846793005ull + 1442695040888963407ull;
	return (broken->random >> 33) % below;
}

static size_t broken_bytes(u32 nr_blocks)
{
	return sizeof(*broken);
}

static void broken_init(void *policy, u32 nr_blocks)
{
	broken = policy;
	broken->nr_blocks = nr_blocks;
}

static void broken_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	broken->has[block] = any_of(8);
}

static void broken_leave(void *policy, u32 block)
{
	broken->has[block] = !any_of(8);
}

/* What it has; or anything at all, among it what is held, free, or picked already. */
static u32 broken_pick(void *policy)
{
	u32 block = any_of(NR_BROKEN);

	if (!any_of(16))
		return any_of(2) ? KV_NONE : NR_BROKEN + any_of(3);
	for (u32 i = 0; any_of(4) && i < NR_BROKEN && !broken->has[block]; i++)
		block = (block + 1) % NR_BROKEN;
	broken->has[block] = !any_of(8);
	return block;
}

static bool broken_has(const void *policy, u32 block)
{
	return broken->has[block] ^ !any_of(8);
}

/* Never none, with any number of blocks. */
static u32 broken_nr(const void *policy)
{
	return 1 + any_of(2 * NR_BROKEN);
}

static int broken_check(const void *policy)
{
	return 0;
}

static const struct kv_evict_ops broken_ops = {
	.name = "broken", .bytes = broken_bytes, .init = broken_init, .enter = broken_enter,
	.leave = broken_leave, .pick = broken_pick, .take = broken_leave, .unpick = broken_leave,
	.has = broken_has, .nr = broken_nr, .check = broken_check,
};

/* No block has two owners, and what is held stays what it was. */
static void expect_own_blocks(const kvmm_ref_t *refs, const kvmm_key_t *keys, u32 nr)
{
	bool used[NR_BROKEN] = { false };

	for (u32 i = 0; i < nr; i++) {
		int block = kvmm_block_of_ref(pool, refs[i]);
		kvmm_key_t key = kv_entry_key(entry_at(pool, refs[i].index));

		cr_assert(block >= 0 && !used[block], "block %d", block);
		used[block] = true;
		cr_assert_eq(memcmp(&key, &keys[i], sizeof(key)), 0);
	}
}

static void use_broken(u64 seed, u32 run_window)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .run_window = run_window };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BROKEN,
				       .evict = &evict };
	struct kv_pool_parts parts = { .all = kv_pool_parts_all, .dev = &kv_dev_host, .map = &kv_map_flat,
				       .evict = &broken_ops };
	kvmm_ref_t held[NR_BROKEN];
	kvmm_key_t keys[NR_BROKEN];
	u32 nr_held = 0, number = 0;

	cr_assert_eq(kv_pool_create(&attr, &parts, &pool), 0);
	broken->random = seed;
	for (u32 i = 0; i < 2000; i++) {
		kvmm_mut_t mut[4];
		kvmm_ref_t ref;
		u32 nr = 1 + any_of(4);

		if (any_of(3) && nr_held + 4 < NR_BROKEN / 2 && !kvmm_alloc(pool, nr, mut)) {
			for (u32 k = 0; k < nr; k++) {
				keys[nr_held] = key_of(++number);
				cr_assert_eq(kvmm_register(pool, &mut[k], &keys[nr_held], 1,
							   &held[nr_held]), 0);
				nr_held++;
			}
		} else if (nr_held && any_of(2)) {
			u32 k = any_of(nr_held--);

			cr_assert_eq(kvmm_put(pool, held[k]), 0);
			held[k] = held[nr_held];
			keys[k] = keys[nr_held];
		} else if (number && any_of(2)) {
			kvmm_key_t key = key_of(1 + any_of(number));

			if (kvmm_match(pool, &key, 1, &ref) == 1)
				cr_assert_eq(kvmm_put(pool, ref), 0);
		} else if (!any_of(20)) {
			cr_assert_geq(kvmm_reset_inactive(pool), 0);
		}
		expect_own_blocks(held, keys, nr_held);
	}
	cr_assert_eq(kvmm_put_many(pool, held, nr_held), 0);
	if (seed % 3)
		cr_expect_geq(kvmm_reset_cache(pool), 0);
	else
		cr_expect_geq(kvmm_reset_inactive(pool), 0);
	for (u32 i = 1; i <= number; i++) {
		kvmm_key_t key = key_of(i);

		cr_assert_eq(kvmm_match_len(pool, &key, 1), 0, "seed %llu", (unsigned long long)seed);
	}
	kv_pool_destroy(pool);
}

Test(life_race, a_broken_policy_costs_order_not_blocks, .timeout = 60)
{
	kv_pool_destroy(pool);
	for (u64 seed = 1; seed <= 20; seed++)
		use_broken(seed, seed % 2 ? 0 : 16);
	set_up();
}
