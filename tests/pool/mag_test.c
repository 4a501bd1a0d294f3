// SPDX-License-Identifier: Apache-2.0
/*
 * Magazines: what threads keep aside is free for everybody, and wrong calls are refused as without.
 *
 * That no lock is taken shows in that a call returns while the test holds the pool's.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/rcu.h>
#include <kv/registry_free.h>
#include <kv/sys.h>
#include <kvmm/ext/evict.h>

#include "tests/pool/mag_util.h"
#include "tests/support/fake_env.h"
#include "tools/map.h"

#define MAG_TEST(name)		MAG_TEST_OF(mag, name)

/* ---- the fast path ---- */

MAG_TEST(single_blocks_come_and_go_without_the_lock)
{
	kvmm_mut_t mut[MAG_ROUNDS];

	load_one(pool);
	kv_lock(&pool->lock);
	for (u32 i = 0; i < MAG_ROUNDS; i++)
		cr_assert_eq(kvmm_alloc(pool, 1, &mut[i]), 0);
	for (u32 i = 0; i < MAG_ROUNDS; i++)
		cr_assert_eq(kvmm_free(pool, &mut[i], 1), 0);
	kv_unlock(&pool->lock);
	cr_expect_eq(stat_of(pool).nr_free, NR_BLOCKS);
	cr_expect_eq(own(pool)->nr, MAG_ROUNDS + 1);
}

MAG_TEST(batches_come_and_go_without_the_lock)
{
	kvmm_mut_t mut[MAG_ROUNDS];

	load_one(pool);
	kv_lock(&pool->lock);
	cr_expect_eq(kvmm_alloc(pool, MAG_ROUNDS, mut), 0);
	cr_expect_eq(kvmm_free(pool, mut, MAG_ROUNDS), 0);
	kv_unlock(&pool->lock);
	for (u32 i = 0; i < MAG_ROUNDS; i++)
		for (u32 j = 0; j < i; j++)
			cr_expect_neq(mut[i].index, mut[j].index);
}

MAG_TEST(requests_with_flags_do_without_the_lock_too)
{
	static const u32 flags[] = { 0, KVMM_ALLOC_NOWAIT, KVMM_ALLOC_HIGH, KVMM_ALLOC_NO_EVICT };
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	struct kvmm_alloc_report report;
	kvmm_mut_t mut[8];

	for (u32 i = 0; i < ARRAY_SIZE(flags); i++) {
		ctl.flags = flags[i];
		ctl.nr = 1;
		cr_assert_eq(kvmm_alloc_as(pool, &ctl, mut), 0);	/* loads */
		cr_assert_eq(kvmm_free(pool, mut, 1), 0);
		cr_expect_gt(own(pool)->nr, 0);
		ctl.nr = 8;
		ctl.report = &report;
		kv_lock(&pool->lock);
		cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), 0);
		cr_expect_eq(kvmm_free(pool, mut, 8), 0);
		kv_unlock(&pool->lock);
		cr_expect_eq(report.evicted, 0);
		cr_expect_eq(kvmm_validate(pool), 0);
		ctl.report = NULL;
	}
}

/* A place in the zone is not to be had from a magazine. */
MAG_TEST(a_run_comes_from_the_zone)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 4, .flags = KVMM_ALLOC_CONTIG };
	kvmm_mut_t mut[4];

	load_one(pool);
	cr_assert_eq(kvmm_alloc_as(pool, &ctl, mut), 0);
	cr_expect_eq(own(pool)->nr, MAG_ROUNDS + 1);
	for (u32 i = 1; i < 4; i++)
		cr_expect_eq(kvmm_block_of_mut(pool, mut[i]), kvmm_block_of_mut(pool, mut[0]) + i);
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
}

MAG_TEST(what_comes_last_goes_first)
{
	kvmm_mut_t mut, again;

	load_one(pool);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	cr_assert_eq(kvmm_alloc(pool, 1, &again), 0);
	cr_expect_eq(again.index, mut.index);
	cr_expect_eq(again.gen, mut.gen + 1);
	cr_expect_eq(kvmm_free(pool, &again, 1), 0);
}

/* Empty: 64 more. Full: the older 64 go, and 64 remain. */
MAG_TEST(sixty_four_at_a_time)
{
	static kvmm_mut_t mut[NR_BLOCKS];
	u32 before;

	for (u32 i = 0; i < 4 * MAG_ROUNDS; i++) {
		before = zone_free(pool);
		cr_assert_eq(kvmm_alloc(pool, 1, &mut[i]), 0);
		cr_expect_eq(before - zone_free(pool), i % (MAG_ROUNDS + 1) ? 0 : MAG_ROUNDS + 1);
	}
	for (u32 i = 0; i < 4 * MAG_ROUNDS; i++) {
		u32 gain;

		before = zone_free(pool);
		cr_assert_eq(kvmm_free(pool, &mut[i], 1), 0);
		gain = zone_free(pool) - before;
		cr_expect(!gain || gain == MAG_ROUNDS + 1);
	}
	cr_expect_eq(stat_of(pool).nr_free, NR_BLOCKS);
}

MAG_TEST(counts_are_those_of_a_pool_without)
{
	struct kvmm_pool *plain = pool_with(KVMM_POOL_NO_MAGAZINES);
	kvmm_mut_t mut[200];
	struct kvmm_pool_stat a, b;

	for (u32 i = 0; i < 2; i++) {
		struct kvmm_pool *of = i ? plain : pool;

		for (u32 nr = 1; nr < 200; nr += nr < 10 ? 1 : 37) {
			cr_assert_eq(kvmm_alloc(of, nr, mut), 0);
			cr_assert_eq(kvmm_free(of, mut + nr / 2, nr - nr / 2), 0);
			cr_assert_eq(kvmm_free(of, mut, nr / 2), 0);
		}
		cr_assert_eq(kvmm_alloc(of, 5, mut), 0);
	}
	a = stat_of(pool);
	b = stat_of(plain);
	cr_expect_gt(nr_aside(pool), 0);
	cr_expect_eq(a.allocs, b.allocs);
	cr_expect_eq(a.alloc_blocks, b.alloc_blocks);
	cr_expect_eq(a.frees, b.frees);
	cr_expect_eq(a.nr_free, b.nr_free);
	cr_expect_eq(a.nr_available, b.nr_available);
	cr_expect_arr_eq(a.nr_state, b.nr_state, sizeof(a.nr_state));
	end_pool(plain);
}

MAG_TEST(blocks_that_are_kept_aside_look_free)
{
	struct kvmm_block_info info;
	char map[NR_BLOCKS / 64 + 1];

	load_one(pool);
	for (u32 block = 0; block < NR_BLOCKS; block++) {
		cr_assert_eq(kvmm_block_get_info(pool, block, &info), 0);
		cr_expect_eq(info.state, KVMM_BLOCK_FREE);
	}
	cr_assert_eq(pool_map(pool, map, sizeof(map) - 1), 0);
	for (u32 i = 0; map[i]; i++)
		cr_expect_eq(map[i], ' ');
}

/* ---- what is refused ---- */

/* Nothing was taken, given or counted, and the magazine is as it was. */
#define expect_refused(call, err)						\
	do {									\
		struct kvmm_pool_stat before = stat_of(pool), after;		\
		struct mag mag = *own(pool);					\
										\
		cr_expect_eq((call), err, "%s", #call);				\
		after = stat_of(pool);						\
		cr_expect_arr_eq(&after, &before, sizeof(after), "%s", #call);	\
		cr_expect_arr_eq(own(pool)->entry, mag.entry, mag.nr * sizeof(u32));	\
		cr_expect_eq(own(pool)->nr, mag.nr);				\
	} while (0)

MAG_TEST(wrong_frees_are_refused_as_ever)
{
	kvmm_mut_t mut[4], bad[4];
	kvmm_staged_t staged;
	kvmm_key_t key = key_of(1);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };

	cr_assert_eq(kvmm_alloc(pool, 4, mut), 0);
	cr_assert_eq(kvmm_free(pool, &mut[3], 1), 0);
	expect_refused(kvmm_free(pool, &mut[3], 1), -ESTALE);
	bad[0] = (kvmm_mut_t){ mut[0].index, mut[0].gen + 1 };
	expect_refused(kvmm_free(pool, bad, 1), -EINVAL);
	bad[0] = (kvmm_mut_t){ mut[0].index, mut[0].gen + BIT(KV_ENTRY_GEN_BITS) };
	expect_refused(kvmm_free(pool, bad, 1), -EINVAL);
	bad[0] = (kvmm_mut_t){ NR_BLOCKS, mut[0].gen };
	expect_refused(kvmm_free(pool, bad, 1), -EINVAL);
	bad[0] = (kvmm_mut_t){ mut[3].index, mut[3].gen + 1 };	/* of a block in the magazine */
	expect_refused(kvmm_free(pool, bad, 1), -EINVAL);
	memcpy(bad, mut, sizeof(bad));
	bad[3] = bad[1];
	expect_refused(kvmm_free(pool, bad, 4), -EINVAL);	/* one of them twice */
	bad[3] = mut[3];
	expect_refused(kvmm_free(pool, bad, 4), -ESTALE);
	cr_assert_eq(kvmm_stage(pool, &prefix, mut, &staged), 0);
	expect_refused(kvmm_free(pool, mut, 1), -ESTALE);
	cr_expect_eq(kv_free_staged(pool, &staged, 1), 0);
	cr_expect_eq(kvmm_free(pool, mut + 1, 2), 0);
	expect_refused(kvmm_free(pool, NULL, 1), -EINVAL);
	expect_refused(kvmm_alloc(pool, 1, NULL), -EINVAL);
	cr_expect_eq(kvmm_alloc(pool, NR_BLOCKS + 1, bad), -ENOSPC);
	cr_expect_eq(kvmm_free(NULL, mut, 1), -EINVAL);
	cr_expect_eq(kvmm_alloc(NULL, 1, mut), -EINVAL);
}

/* What another thread holds may be given back by this one. */
MAG_TEST(a_handle_may_be_freed_where_it_was_not_allocated)
{
	kvmm_mut_t mut[2];

	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	start_other();
	cr_expect_eq(nr_aside(pool), 2 * MAG_ROUNDS + 1);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
	cr_expect_eq(stat_of(pool).nr_free, NR_BLOCKS);
	end_other();
}

/* ---- one handle, two threads ---- */

#define NR_RACES	20000u

static pthread_barrier_t together;
static kvmm_mut_t raced;

static void *free_raced(void *errs)
{
	for (u32 i = 0; i < NR_RACES; i++) {
		pthread_barrier_wait(&together);
		((int *)errs)[i] = kvmm_free(pool, &raced, 1);
		pthread_barrier_wait(&together);
	}
	return NULL;
}

/* A free without a lock takes the handle's generation by a swap. */
Test(mag, of_two_frees_at_one_moment_one_is_refused, .timeout = 120)
{
	static int theirs[NR_RACES];
	pthread_t other;

	pool = pool_with(0);
	pthread_barrier_init(&together, NULL, 2);
	cr_assert_eq(pthread_create(&other, NULL, free_raced, theirs), 0);
	for (u32 i = 0; i < NR_RACES; i++) {
		int mine;

		cr_assert_eq(kvmm_alloc(pool, 1, &raced), 0);
		pthread_barrier_wait(&together);
		mine = kvmm_free(pool, &raced, 1);
		pthread_barrier_wait(&together);
		cr_assert_eq(mine + theirs[i], -ESTALE, "round %u: %d, %d", i, mine, theirs[i]);
	}
	pthread_join(other, NULL);
	end_pool(pool);
}

/* The last life of an entry ends under the lock, which retires it. */
Test(mag, an_entry_out_of_generations_is_retired)
{
	kvmm_mut_t mut, next;

	pool = pool_with(0);
	load_one(pool);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	pool->entries.gen_last = mut.gen;
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect(kv_word_is(entry_at(pool, mut.index)->word, KV_ENTRY_RETIRED));
	cr_expect_eq(stat_of(pool).nr_retired, 1);
	cr_expect_eq(kvmm_free(pool, &mut, 1), -ESTALE);
	cr_expect_eq(kvmm_alloc(pool, 1, &next), 0);
	cr_expect_neq(next.index, mut.index);
	kvmm_pool_destroy(pool);
}

static u32 most_lives(u32 flags)
{
	u32 most = 0;
	kvmm_mut_t mut;

	pool = pool_with(flags);
	for (u32 i = 0; i < 200 * KV_ENTRY_STINT; i++) {
		cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
		cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	}
	for (u32 i = 0; i < pool->nr_blocks; i++) {
		u32 gen = kv_entries_gen(&pool->entries, entry_at(pool, i)->word);

		most = max(most, (gen - pool->entries.gen_first) & KV_ENTRY_GEN_MASK);
	}
	end_pool(pool);
	return most;
}

/* At 80 ns a life one entry would have used up its generations after 22 s. */
Test(mag, a_loop_of_one_block_wears_all_entries)
{
	cr_expect_leq(most_lives(0), 2 * KV_ENTRY_STINT);
	cr_expect_leq(most_lives(KVMM_POOL_NO_MAGAZINES), 2 * KV_ENTRY_STINT);
}

/* ---- others need what is kept aside ---- */

#define expect_none_evicted()	cr_expect_eq(stat_of(pool).evictions, 0)

MAG_TEST(private_blocks_of_another_thread_come_before_enospc)
{
	static kvmm_mut_t mut[NR_BLOCKS];

	start_other();
	cr_assert_eq(nr_aside(pool), MAG_ROUNDS + 1);
	cr_expect_eq(kvmm_alloc(pool, NR_BLOCKS, mut), 0);
	cr_expect_eq(kvmm_alloc(pool, 1, mut), -ENOSPC);
	cr_expect_eq(kvmm_free(pool, mut, NR_BLOCKS), 0);
	end_other();
}

MAG_TEST(ranges_get_what_another_thread_keeps_aside)
{
	kvmm_range_t range;

	start_other();
	range = take(pool, NR_BLOCKS, 0);
	end_other();
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

MAG_TEST(nothing_is_evicted_while_somebody_keeps_blocks_aside)
{
	static kvmm_mut_t mut[NR_BLOCKS];
	struct kvmm_evict_for_args room = { .size = sizeof(room) };
	u32 nr = NR_BLOCKS - 10;

	cache_keys(pool, 0, 10);
	start_other();
	room.nr_blocks = nr;
	cr_expect_eq(kvmm_evict_for(pool, &room), 0);
	expect_none_evicted();
	end_other();
	start_other();
	cr_expect_eq(kvmm_alloc(pool, nr, mut), 0);
	expect_none_evicted();
	cr_expect_eq(kvmm_free(pool, mut, nr), 0);
	end_other();
}

MAG_TEST(acquire_takes_what_is_kept_aside_first)
{
	static kvmm_mut_t mut[NR_BLOCKS];
	struct kvmm_acquire_args req = { .nr_blocks = NR_BLOCKS - 10, .fresh = mut };

	cache_keys(pool, 0, 10);
	start_other();
	req.reserve = 11;
	cr_expect_eq(kvmm_acquire(pool, &req), -ENOSPC);
	req.reserve = 10;
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	expect_none_evicted();
	cr_expect_eq(kvmm_free(pool, mut, req.nr_fresh), 0);
	end_other();
}

/* Few are free: single blocks go through the lock, and none is kept aside. */
MAG_TEST(nobody_keeps_blocks_aside_under_pressure)
{
	static kvmm_mut_t mut[NR_BLOCKS];
	kvmm_mut_t one;

	cr_assert_eq(kvmm_alloc(pool, NR_BLOCKS - pool->mags->floor + 1, mut), 0);
	for (u32 i = 0; i < 200; i++) {
		cr_assert_eq(kvmm_alloc(pool, 1, &one), 0);
		cr_assert_eq(kvmm_free(pool, &one, 1), 0);
		cr_assert_eq(nr_aside(pool), 0);
	}
	cr_assert_eq(kvmm_free(pool, mut, NR_BLOCKS - pool->mags->floor + 1), 0);
	for (u32 i = 0; i < 200; i++) {
		cr_assert_eq(kvmm_alloc(pool, 1, &one), 0);
		cr_assert_eq(kvmm_free(pool, &one, 1), 0);
	}
	cr_expect_gt(nr_aside(pool), 0);
}

/* ---- who is inside is waited for ---- */

struct drainer {
	pthread_t thread;
	u32 done;		/* atomic */
};

static void *drain(void *arg)
{
	struct drainer *drainer = arg;

	kv_lock(&pool->lock);
	pool_drain_local(pool);
	kv_unlock(&pool->lock);
	smp_store_release(&drainer->done, 1);
	return NULL;
}

MAG_TEST(a_drain_waits_for_an_owner_who_is_inside)
{
	struct drainer drainer = { 0 };
	struct mag *mag;

	load_one(pool);
	mag = own(pool);
	cr_assert(mag_enter(mag));
	cr_assert_eq(pthread_create(&drainer.thread, NULL, drain, &drainer), 0);
	while (smp_load_acquire(&mag->armed))
		usleep(100);
	usleep(20000);
	cr_expect_eq(smp_load_acquire(&drainer.done), 0);
	cr_expect_eq(mag->nr, MAG_ROUNDS + 1);
	mag_leave(mag);
	pthread_join(drainer.thread, NULL);
	cr_expect_eq(mag->nr, 0);
	cr_expect_not(mag_enter(mag));
	cr_expect_eq(zone_free(pool), NR_BLOCKS);
}

static int fence_err;
static u32 nr_fences;

static int fake_fence(void *ctx)
{
	nr_fences++;
	return fence_err;
}

static void install_fence(int err)
{
	static struct kv_sys_ops ops;

	fence_err = err;
	nr_fences = 0;
	ops = kv_sys_system;
	ops.fence_all = fake_fence;
	kv_sys_set(&ops);
}

static u32 fences_of_drain(void)
{
	u32 before = nr_fences;

	kv_lock(&pool->lock);
	mags_drain(pool);
	kv_unlock(&pool->lock);
	return nr_fences - before;
}

/* The system has no asymmetric fence: owners have a full one, the drain asks for none. */
Test(mag, owners_fence_themselves_where_the_system_does_not)
{
	kvmm_mut_t mut;

	install_fence(-ENOSYS);
	pool = pool_with(0);
	load_one(pool);
	cr_expect_eq(own(pool)->armed, MAG_ARMED_CALL);
	kv_lock(&pool->lock);
	cr_expect_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	kv_unlock(&pool->lock);
	start_other();
	cr_expect_eq(fences_of_drain(), 0);
	cr_expect_eq(zone_free(pool), NR_BLOCKS);
	end_other();
	end_pool(pool);
	kv_sys_set(NULL);
}

Test(mag, a_fence_that_is_taken_away_is_not_missed)
{
	install_fence(0);
	pool = pool_with(0);
	load_one(pool);
	cr_expect_eq(own(pool)->armed, MAG_ARMED);
	start_other();
	fence_err = -EPERM;
	cr_expect_eq(fences_of_drain(), 1);
	load_one(pool);
	cr_expect_eq(own(pool)->armed, MAG_ARMED_CALL);
	cr_expect_eq(fences_of_drain(), 0);
	end_other();
	end_pool(pool);
	kv_sys_set(NULL);
}

/* Only its own blocks are aside: there is nobody to ask. */
Test(mag, a_thread_alone_drains_without_a_fence)
{
	install_fence(0);
	pool = pool_with(0);
	load_one(pool);
	cr_expect_eq(fences_of_drain(), 0);
	end_pool(pool);
	kv_sys_set(NULL);
}

/* ---- content ---- */

Test(mag, another_tenant_finds_zeroes)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .block_bytes = TEST_BLOCK_BYTES,
				       .zero = KVMM_ZERO_TENANT };
	u8 secret[TEST_BLOCK_BYTES], seen[TEST_BLOCK_BYTES];
	kvmm_mut_t mut, again;

	pool = make_pool_of(&attr);
	memset(secret, 0xa5, sizeof(secret));
	load_one(pool);
	for (u32 tenant = 1; tenant <= 3; tenant++) {
		int block;

		/* Zeroing takes compact_lock, so pool->lock cannot be held here as elsewhere. */
		cr_assert_eq(kvmm_alloc_for(pool, 1, tenant, &mut), 0);
		block = kvmm_block_of_mut(pool, mut);
		cr_assert_eq(kvmm_block_read(pool, block, 0, seen, sizeof(seen)), 0);
		for (u32 i = 0; i < sizeof(seen); i++)
			cr_assert_eq(seen[i], 0);
		cr_assert_eq(kvmm_block_write(pool, block, 0, secret, sizeof(secret)), 0);
		cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
		cr_assert_eq(kvmm_alloc_for(pool, 1, tenant, &again), 0);
		cr_expect_eq(kvmm_block_of_mut(pool, again), block);
		cr_assert_eq(kvmm_block_read(pool, block, 0, seen, sizeof(seen)), 0);
		cr_expect_arr_eq(seen, secret, sizeof(seen));	/* still its own */
		cr_assert_eq(kvmm_free(pool, &again, 1), 0);
	}
	end_pool(pool);
}

Test(mag, allocations_are_dated)
{
	struct fake_env fake;
	struct kvmm_block_info info;
	kvmm_mut_t mut;
	u64 begin_ns;

	fake_env_install(&fake);
	pool = pool_with(0);
	load_one(pool);
	fake_env_advance(&fake, 1ull << 40);
	begin_ns = fake.now_ns;
	for (u32 i = 0; i < MAG_TICKS; i++) {
		cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
		cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	}
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_block_get_info(pool, kvmm_block_of_mut(pool, mut), &info), 0);
	cr_expect_geq(info.last_access_ns + (1 << TICK_SHIFT), begin_ns);
	fake_env_advance(&fake, 1ull << 40);
	cache_keys(pool, 1, 1);		/* whoever looks at the clock tells the others */
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_block_get_info(pool, kvmm_block_of_mut(pool, mut), &info), 0);
	cr_expect_geq(info.last_access_ns + (1 << TICK_SHIFT), begin_ns + (1ull << 40));
	end_pool(pool);
	fake_env_remove(&fake);
}

/* ---- threads and processes that end, pools that go ---- */

MAG_TEST(a_thread_that_ends_gives_everything_back)
{
	start_other();
	cr_expect_eq(zone_free(pool), NR_BLOCKS - MAG_ROUNDS - 1);
	end_other();
	cr_expect_eq(zone_free(pool), NR_BLOCKS);
	cr_expect_eq(nr_aside(pool), 0);
}

Test(mag, a_thread_may_outlive_the_pool)
{
	for (u32 i = 0; i < 3; i++) {
		pool = pool_with(0);
		start_other();
		load_one(pool);
		end_pool(pool);
		pool = pool_with(0);	/* mostly where the other one was */
		load_one(pool);
		end_other();
		cr_expect_eq(stat_of(pool).nr_free, NR_BLOCKS);
		end_pool(pool);
	}
}

MAG_TEST(nobody_gets_round_the_gate_of_a_childs_pool)
{
	kvmm_mut_t mut;
	pid_t child;
	int status;

	load_one(pool);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	child = fork();
	if (!child) {
		kvmm_mut_t more;

		if (kvmm_alloc(pool, 1, &more) != -ECHILD || kvmm_free(pool, &mut, 1) != -ECHILD)
			_exit(1);
		kvmm_pool_destroy(pool);
		pool = pool_with(0);
		load_one(pool);
		_exit(kvmm_validate(pool) ? 2 : 0);
	}
	waitpid(child, &status, 0);
	cr_expect_eq(status, 0);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
}

Test(mag, nobody_gets_round_the_gate_of_a_closed_pool)
{
	kvmm_mut_t mut;

	pool = pool_with(0);
	load_one(pool);
	kv_lock(&pool->lock);
	pool_poison(pool);
	kv_unlock(&pool->lock);
	cr_expect_eq(kvmm_alloc(pool, 1, &mut), -EUCLEAN);
	cr_expect_eq(kvmm_alloc(pool, 2, &mut), -EUCLEAN);
	kvmm_pool_destroy(pool);
}

/* ---- pools without ---- */

Test(mag, some_pools_have_none)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = MAG_MIN_BLOCKS,
				       .policy = "lru" };
	struct kvmm_evict_attr evict = { .size = sizeof(evict) };
	struct kvmm_pool_attr no[6];

	for (u32 i = 0; i < ARRAY_SIZE(no); i++)
		no[i] = attr;
	no[0].nr_blocks--;
	no[1].flags = KVMM_POOL_NO_MAGAZINES;
	no[2].flags = KVMM_POOL_DETERMINISTIC;
	no[3].policy = "lru-classic";
	evict.run_window = 64;
	no[4].evict = &evict;
	no[5].policy = NULL;
	for (u32 i = 0; i < ARRAY_SIZE(no); i++) {
		pool = make_pool_of(&no[i]);
		cr_expect_null(pool->mags, "%u", i);
		end_pool(pool);
	}
	pool = make_pool_of(&attr);
	cr_expect_not_null(pool->mags);
	end_pool(pool);
}

#ifndef KVMM_DEBUG	/* where it stops there and then */

/* ---- contradictions ---- */

static void expect_found(void)
{
	cr_expect_eq(kvmm_validate(pool), -EUCLEAN);
	kvmm_pool_destroy(pool);
}

/* Two threads freed one handle at the same moment: both have the entry, one has its tag. */
Test(mag, an_entry_in_two_magazines_is_found)
{
	struct mag *mag;

	pool = pool_with(0);
	start_other();
	load_one(pool);
	mag = pool->armed == own(pool) ? own(pool)->next : pool->armed;
	own(pool)->entry[own(pool)->nr++] = mag->entry[0];
	expect_found();
	end_other();
}

Test(mag, an_entry_in_two_magazines_is_not_handed_out)
{
	struct mag *mag;
	kvmm_mut_t mut;

	pool = pool_with(0);
	start_other();
	load_one(pool);
	mag = pool->armed == own(pool) ? own(pool)->next : pool->armed;
	own(pool)->entry[own(pool)->nr++] = mag->entry[0];
	cr_expect_eq(kvmm_alloc(pool, 1, &mut), 0);	/* another one, from the zone */
	cr_expect_neq(mut.index, mag->entry[0]);
	cr_expect_eq(kvmm_alloc(pool, 1, &mut), -EUCLEAN);
	kvmm_pool_destroy(pool);
	end_other();
}

/* It was in the list when the pool was closed; in there a second time, the list has no end. */
Test(mag, a_magazine_that_closes_its_pool_is_linked_once)
{
	kvmm_mut_t mut[MAG_ENTRIES];
	struct mag *mag;

	for (u32 what = 0; what < 2; what++) {
		pool = pool_with(0);
		load_one(pool);
		mag = own(pool);
		cr_assert_eq(kvmm_alloc(pool, MAG_ROUNDS, mut), 0);
		cr_assert_eq(kvmm_alloc(pool, MAG_ROUNDS, mut + MAG_ROUNDS), 0);
		for (u32 i = 0; !what && i < MAG_ENTRIES; i++)
			cr_assert_eq(kvmm_free(pool, &mut[i], 1), 0);
		kv_lock(&pool->lock);
		entry_at(pool, mag->entry[what ? mag->nr - 1 : 0])->word ^= KV_ENTRY_REF;
		if (what)
			__mag_fill(pool, true);
		else
			__mag_spill(pool);
		kv_unlock(&pool->lock);
		cr_expect_eq(kvmm_alloc(pool, 1, mut), -EUCLEAN);
		cr_expect_neq(mag->next, mag);
		expect_found();
	}
}

Test(mag, what_is_flipped_in_there_is_found)
{
	for (u32 what = 0; what < 6; what++) {
		struct mag *mag;
		struct kv_entry *entry;

		pool = pool_with(0);
		load_one(pool);
		mag = own(pool);
		entry = entry_at(pool, mag->entry[5]);
		if (what == 0)
			entry->word ^= KV_ENTRY_MARK;
		else if (what == 1)
			entry->word ^= KV_WORD_GEN;
		else if (what == 2)
			entry->place ^= 1;
		else if (what == 3)
			mag->nr--;
		else if (what == 4)
			mag->frees ^= 4;
		else
			mag->entry[5] = mag->entry[6];
		expect_found();
	}
}

#endif /* !KVMM_DEBUG */

/* ---- host memory ---- */

/* Without memory for a magazine everything goes through the lock. */
Test(mag, a_thread_without_memory_for_a_magazine_does_without)
{
	struct fake_env fake;
	kvmm_mut_t mut;
	u64 nr_live;

	fake_env_install(&fake);
	pool = pool_with(0);
	kv_thread_claim_slot();
	nr_live = fake.nr_live;
	fake_env_fail(&fake, 1, true);
	cr_expect_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect(fake_env_failed(&fake));
	cr_expect_eq(fake.nr_live, nr_live);
	cr_expect_eq(zone_free(pool), NR_BLOCKS);
	fake_env_fail(&fake, 0, false);
	load_one(pool);
	cr_expect_eq(fake.nr_live, nr_live + 1);
	end_pool(pool);
	kv_rcu_barrier();
	cr_expect_eq(kv_mem_bytes(), 0);
	fake_env_remove(&fake);
}
