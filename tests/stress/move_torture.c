// SPDX-License-Identifier: Apache-2.0
/*
 * Threads pin by type, read, publish and steer while a background moves what it can beside them.
 *
 * The blocks are plain memory of this program, written before they are published and read with plain
 * loads: within steps wherever they were said to be, and beyond steps where they are pinned. So
 * ThreadSanitizer sees a place that is given away too soon, and a copy into one that is read; and
 * whatever is read must be what was written. Exit code 0: nothing contradicted that, each kind of thing
 * was done, and the pool is valid in the end.
 */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "tests/support/key.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	192u
#define NR_WORDS	8u		/* of a block */
#define BLOCK_BYTES	(NR_WORDS * sizeof(u64))
#define NR_KEYS		128u
#define MOST		4u		/* blocks of a call */
#define NR_USERS	3u
#define RUN_NS		2500000000ll

enum deed { PUBLISH, READ, PIN, PIN_RANGE, STEER, NR_DEEDS };

static struct kvmm_pool *pool;
static u64 *mem;
static u32 stop;		/* atomic */
static u64 nr_done[NR_DEEDS];	/* atomic */

struct user {
	u64 random;
	kvmm_stream_t stream;
};

/* ---- content ---- */

static void write_block(u32 block, u64 number)
{
	for (u32 i = 0; i < NR_WORDS; i++)
		mem[block * NR_WORDS + i] = number * 1000 + i;
}

static bool is_written(u32 block, u64 number)
{
	for (u32 i = 0; i < NR_WORDS; i++)
		if (mem[block * NR_WORDS + i] != number * 1000 + i)
			return false;
	return true;
}

/* What nobody has published, or somebody has and it was evicted. Private blocks do not move beside. */
static void publish(struct user *user)
{
	u64 number = any_of(&user->random, NR_KEYS);
	kvmm_key_t key = key_of(number);
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	u32 block;
	int err = kvmm_alloc(pool, 1, &mut);

	expect(!err || err == -ENOSPC);
	if (err)
		return;
	expect(!kvmm_blocks_of_muts(pool, &mut, 1, &block));
	write_block(block, number);
	err = kvmm_register(pool, &mut, &key, 1, &ref);
	expect(!err);
	expect(err || !kvmm_put(pool, ref));
	kv_fetch_add(&nr_done[PUBLISH], 1);
}

/* Up to MOST of what is cached; the caller has a reference on each of them. */
static u32 find(struct user *user, kvmm_ref_t *ref, u64 *number)
{
	u32 nr = 0;

	for (u32 i = 0; i < MOST; i++) {
		kvmm_key_t key;

		number[nr] = any_of(&user->random, NR_KEYS);
		key = key_of(number[nr]);
		nr += kvmm_match(pool, &key, 1, &ref[nr]) == 1;
	}
	return nr;
}

static void read_in_step(struct user *user)
{
	kvmm_ref_t ref[MOST];
	u64 number[MOST];
	u32 block[MOST], nr = find(user, ref, number);
	uint64_t epoch;

	expect(!kvmm_step_begin(pool, user->stream, &epoch));
	for (u32 k = 0; k < 6; k++, sched_yield()) {
		/* They may be published while the step is open: then it is told the new places. */
		if (k != 5)
			expect(!kvmm_blocks_of_refs(pool, ref, nr, block));
		for (u32 i = 0; i < nr; i++)
			expect(is_written(block[i], number[i]));
	}
	expect(!kvmm_step_end(pool, user->stream, epoch));
	expect(!kvmm_put_many(pool, ref, nr));
	kv_fetch_add(&nr_done[READ], nr);
}

/* ---- pins ---- */

static void read_pinned(struct user *user)
{
	u32 type = any_of(&user->random, KVMM_NR_PIN_TYPES), block[MOST], again[MOST];
	kvmm_ref_t ref[MOST];
	u64 number[MOST];
	u32 nr = find(user, ref, number);
	int err = kvmm_pin_many_as(pool, ref, nr, type);

	expect(!err || err == -EBUSY);
	if (!err) {
		expect(!kvmm_blocks_of_refs(pool, ref, nr, block));
		for (u32 k = 0; k < 3; k++, sched_yield())
			for (u32 i = 0; i < nr; i++)
				expect(is_written(block[i], number[i]));
		expect(!kvmm_blocks_of_refs(pool, ref, nr, again));
		expect(!nr || !memcmp(block, again, nr * sizeof(*block)));
		expect(!kvmm_unpin_many_as(pool, ref, nr, type));
		kv_fetch_add(&nr_done[PIN], nr);
	}
	expect(!kvmm_put_many(pool, ref, nr));
}

static bool range_is_written(const struct kvmm_extent *ext, int nr_ext, u64 number)
{
	for (int e = 0; e < nr_ext; e++)
		for (u32 i = 0; i < ext[e].nr; i++)
			if (!is_written(ext[e].start + i, number))
				return false;
	return true;
}

static void write_range(kvmm_range_t range, u64 number)
{
	struct kvmm_extent ext[MOST];
	int nr = kvmm_range_extents(pool, range, ext, MOST);

	for (int e = 0; e < nr; e++)
		for (u32 i = 0; i < ext[e].nr; i++)
			write_block(ext[e].start + i, number);
}

/* Sealed it may move, until it is pinned. */
static void pin_range(struct user *user)
{
	u32 type = any_of(&user->random, KVMM_NR_PIN_TYPES), nr = 1 + any_of(&user->random, 2 * MOST);
	struct kvmm_extent ext[NR_BLOCKS];
	u64 number = user->random;
	kvmm_range_t range;
	int nr_ext, err;

	if (kvmm_range_alloc(pool, nr, KVMM_RUNS(MOST) | KVMM_ALLOC_NO_COMPACT, &range))
		return;
	write_range(range, number);
	expect(!kvmm_range_seal(pool, range, nr));
	for (u32 k = 0; k < 4; k++)
		sched_yield();
	err = kvmm_range_pin_as(pool, range, type);
	expect(!err);
	nr_ext = kvmm_range_extents(pool, range, ext, NR_BLOCKS);
	for (u32 k = 0; k < 3; k++, sched_yield())
		expect(range_is_written(ext, nr_ext, number));
	expect(err || !kvmm_range_unpin_as(pool, range, type));
	expect(!kvmm_range_free(pool, range));
	kv_fetch_add(&nr_done[PIN_RANGE], 1);
}

static void *use(void *arg)
{
	static void (*const deeds[])(struct user *user) = {
		publish, publish, read_in_step, read_in_step, read_pinned, pin_range,
	};
	struct user user = { .random = (uintptr_t)arg * 77 + 1 };

	expect(!kvmm_stream_add(pool, NULL, 0, &user.stream));
	while (!READ_ONCE(stop))
		deeds[any_of(&user.random, 6)](&user);
	expect(!kvmm_stream_del(pool, user.stream));
	return NULL;
}

/* ---- who steers ---- */

static void set_background(u64 *random)
{
	struct kvmm_background how = KVMM_BACKGROUND_INIT;

	how.threshold_pm = 1 + any_of(random, 100);
	how.interval_ms = 1;
	how.request_blocks = 2 + any_of(random, 64);
	how.max_blocks = 1 + any_of(random, 64);
	how.flags = KVMM_BACKGROUND_SHORTEN | KVMM_BACKGROUND_VERIFY |
		    (any_of(random, 4) ? KVMM_BACKGROUND_THREAD : 0);
	expect(!kvmm_background_set(pool, any_of(random, 8) ? &how : NULL));
}

static void set_pace(u64 *random)
{
	const struct kvmm_pace how = {
		.size = sizeof(how), .bytes_per_ms = any_of(random, 2) * any_of(random, 64 * BLOCK_BYTES),
		.bytes_per_step = any_of(random, 2) * any_of(random, 16 * BLOCK_BYTES),
	};

	expect(!kvmm_pace_set(pool, &how));
}

static void set_verify(u64 *random)
{
	const struct kvmm_verify_attr attr = { .size = sizeof(attr), .sample_pm = any_of(random, 1001) };
	struct user user = { .random = *random };
	kvmm_ref_t ref[MOST];
	u64 number[MOST];
	u32 nr = find(&user, ref, number);

	expect(!kvmm_verify_set(pool, &attr));
	expect(kvmm_verify_blocks(pool, ref, nr) >= 0);
	expect(kvmm_verify_tick(pool) >= 0);
	expect(!kvmm_put_many(pool, ref, nr));
}

static void begin_moves(u64 *random)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 1 + any_of(random, NR_BLOCKS / 2) };
	struct kvmm_evict_for_args room = { .size = sizeof(room),
					    .nr_blocks = 1 + any_of(random, 16) };

	if (!any_of(random, 4))
		expect(kvmm_evict_for(pool, &room) != -EINVAL);
	kvmm_compact_start(pool, &goal, KVMM_MOVE_BESIDE);
	kvmm_compact_poll(pool);
	if (!any_of(random, 8))
		kvmm_compact_cancel(pool);
}

static void look(u64 *random)
{
	struct kvmm_background_stat background;
	struct kvmm_verify_stat verify;
	struct kvmm_pace_stat pace;
	struct kvmm_pin_stat pins;
	struct kvmm_stay stay;

	expect(!kvmm_background_get_stat(pool, &background) &&
	       !kvmm_verify_get_stat(pool, &verify));
	expect(!kvmm_pace_get_stat(pool, &pace) && !kvmm_pin_get_stat(pool, &pins));
	expect(!kvmm_stay_last(pool, &stay));
	expect(!verify.bad_blocks && !verify.bad_copies);
	expect(any_of(random, 8) || !kvmm_validate(pool));
}

static void *steer(void *arg)
{
	static void (*const deeds[])(u64 *random) = {
		set_background, set_pace, set_verify, begin_moves, begin_moves, look,
	};
	u64 random = (uintptr_t)arg * 99;

	while (!READ_ONCE(stop)) {
		deeds[any_of(&random, 6)](&random);
		expect(kvmm_background_tick(pool) >= 0);
		kv_fetch_add(&nr_done[STEER], 1);
	}
	return NULL;
}

/* ---- the beginning and the end ---- */

static void make(void)
{
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };
	struct kvmm_plane plane = { .stride = BLOCK_BYTES, .bytes = BLOCK_BYTES };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .dup_policy = KVMM_DUP_REJECT };

	mem = aligned_alloc(4096, NR_BLOCKS * BLOCK_BYTES);
	memset(mem, 0, NR_BLOCKS * BLOCK_BYTES);
	plane.base = (uintptr_t)mem;
	attr.planes = &plane;
	attr.nr_planes = 1;
	expect(!kvmm_pool_create(&attr, &pool));
	expect(!kvmm_verify_set(pool, &verify));
}

static void wait_for_the_end(void)
{
	struct timespec tick = { .tv_nsec = RUN_NS / 25 };

	for (u32 i = 0; i < 25 && !READ_ONCE(nr_bad); i++)
		nanosleep(&tick, NULL);
	WRITE_ONCE(stop, 1);
}

static void finish(void)
{
	struct kvmm_step_stat steps;
	struct kvmm_pin_stat pins;

	expect(!kvmm_background_set(pool, NULL));
	kvmm_compact_cancel(pool);
	expect(!kvmm_compact_poll(pool));
	expect(!kvmm_validate(pool));
	expect(!kvmm_step_get_stat(pool, &steps) && !kvmm_pin_get_stat(pool, &pins));
	expect(steps.published_moves && !steps.failed_moves && !steps.lost_blocks);
	for (u32 i = 0; i < KVMM_NR_PIN_TYPES; i++)
		expect(!pins.blocks[i] && !pins.ranges[i]);
	for (u32 i = 0; i < NR_DEEDS; i++)
		expect(nr_done[i]);
	printf("%llu published, %llu read, %llu pinned, %llu ranges, %llu moves\n",
	       (unsigned long long)nr_done[PUBLISH], (unsigned long long)nr_done[READ],
	       (unsigned long long)nr_done[PIN], (unsigned long long)nr_done[PIN_RANGE],
	       (unsigned long long)steps.published_moves);
	kvmm_pool_destroy(pool);
	free(mem);
}

int main(void)
{
	pthread_t thread[NR_USERS + 1];

	make();
	threads_start(thread, NR_USERS, use);
	pthread_create(&thread[NR_USERS], NULL, steer, (void *)1);
	wait_for_the_end();
	for (u32 i = 0; i <= NR_USERS; i++)
		pthread_join(thread[i], NULL);
	finish();
	if (nr_bad)
		fprintf(stderr, "%u contradictions\n", nr_bad);
	return nr_bad != 0;
}
