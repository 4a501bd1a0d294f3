// SPDX-License-Identifier: Apache-2.0
/*
 * Forks while threads are inside the library. Exit code 0: each child was refused by each call on
 * the pools that it inherited, at once; made and used a pool of its own under the same name; could
 * destroy what it inherited without harm; and the parent's threads went on as if nothing had been.
 *
 * Threads hold any of the locks at any moment, so some two hundred forks meet most of them held. A
 * child that waits for one is killed by its alarm.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <kv/pool.h>
#include <kvmm/ext/lease.h>

#include "tests/support/fork_malloc.h"
#include "tests/support/key.h"
#include "tests/support/lease.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	256u
#define NR_THREADS	3u
#define BLOCK_BYTES	64u
#define CHILD_SECONDS	20u

static struct kvmm_pool *pool;
static u32 stop;			/* atomic */
static u64 nr_steps;			/* atomic */

static struct kvmm_pool *make_pool(const char *device)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = "inherited", .device = device,
				       .policy = "lru", .nr_blocks = NR_BLOCKS,
				       .block_bytes = BLOCK_BYTES };
	struct kvmm_pool *made = NULL;

	return kvmm_pool_create(&attr, &made) ? NULL : made;
}

/* ---- what threads do meanwhile ---- */

static void use_ranges(struct kvmm_pool *in)
{
	kvmm_range_t range;

	if (kvmm_range_alloc(in, 5, KVMM_RUNS(4), &range))
		return;
	expect(!kvmm_range_grow(in, range, 1) || true);
	expect(!kvmm_range_free(in, range));
}

static void use_cache(struct kvmm_pool *in, u32 number)
{
	kvmm_key_t keys[4];
	kvmm_mut_t muts[4];
	kvmm_ref_t refs[4];

	for (u32 i = 0; i < 4; i++)
		keys[i] = key_of(number + i);
	if (kvmm_alloc(in, 4, muts))
		return;
	expect(!kvmm_register(in, muts, keys, 4, refs));
	expect(!kvmm_put_many(in, refs, 4));
}

static void use_hold(struct kvmm_pool *in, u32 number)
{
	kvmm_key_t key = key_of(number);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct kvmm_lease_attr attr = { .size = sizeof(attr), .prefix = &prefix };
	kvmm_lease_t hold;

	if (kvmm_lease_take(in, &attr, &hold) == 1)
		expect(!drop_lease(in, hold));
}

static void use_content(struct kvmm_pool *in)
{
	u8 buf[BLOCK_BYTES] = { 1 };

	expect(!kvmm_block_write(in, NR_BLOCKS - 1, 0, buf, sizeof(buf)));
}

static void compact(struct kvmm_pool *in)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .max_blocks = 8 };

	kvmm_pool_compact(in, &goal);
}

static void make_another(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8 };
	struct kvmm_pool *another;

	if (!kvmm_pool_create(&attr, &another))
		kvmm_pool_destroy(another);
}

static void *work(void *arg)
{
	u32 step = (uintptr_t)arg * 7;

	while (!READ_ONCE(stop)) {
		use_ranges(pool);
		use_cache(pool, step * 4);
		use_hold(pool, step * 4);
		if (step % 8 == 0)
			compact(pool);
		if (step % 8 == 1)
			use_content(pool);
		if (step % 16 == 2)
			make_another();
		step++;
		kv_fetch_add(&nr_steps, 1);
	}
	return NULL;
}

/* ---- the child ---- */

#define refused(call)	expect((call) == -ECHILD)

static void try_ranges(void)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 };
	kvmm_range_t range = { 0, 1 };
	struct kvmm_range_info info;
	struct kvmm_extent ext[4];
	u32 cursor = 0;

	refused(kvmm_range_alloc_attr(pool, &attr, &range));
	refused(kvmm_range_get(pool, range));
	refused(kvmm_range_free(pool, range));
	refused(kvmm_range_find_seq(pool, 1, &range, 1));
	refused(kvmm_range_free_seq(pool, 1));
	refused(kvmm_range_extents(pool, range, ext, 4));
	refused(kvmm_range_grow(pool, range, 1));
	refused(kvmm_range_shrink(pool, range, 1));
	refused(kvmm_range_shrink_front(pool, range, 1));
	refused(kvmm_range_split(pool, range, 1, &range));
	refused(kvmm_range_pin(pool, range));
	refused(kvmm_range_unpin(pool, range));
	refused(kvmm_range_get_info(pool, range, &info));
	refused(kvmm_range_next(pool, &cursor, &info));
}

static void try_cache(void)
{
	kvmm_key_t key = key_of(1);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_mut_t mut = { 0, 1 };
	kvmm_staged_t staged = { 0, 1 };
	kvmm_ref_t ref = { 0, 1 };
	kvmm_weak_t weak = { 0, 1 };
	u32 block;

	refused(kvmm_alloc(pool, 1, &mut));
	refused(kvmm_free(pool, &mut, 1));
	refused(kvmm_stage(pool, &prefix, &mut, &staged));
	refused(kv_free_staged(pool, &staged, 1));
	refused(kvmm_register(pool, &mut, &key, 1, &ref));
	refused(kvmm_prefix_match(pool, &prefix, &ref));
	refused(kvmm_prefix_scan(pool, &prefix, &ref));
	refused(kvmm_prefix_len(pool, &prefix));
	refused(kvmm_get_many(pool, &ref, 1));
	refused(kvmm_put_many(pool, &ref, 1));
	refused(kvmm_pin_many(pool, &ref, 1));
	refused(kvmm_upgrade_many(pool, &weak, 1, &ref));
	refused(kvmm_touch_many(pool, &ref, 1));
	refused(kvmm_blocks_of_refs(pool, &ref, 1, &block));
	refused(kvmm_reset_inactive(pool));
	refused(kvmm_reset_cache(pool));
}

static void try_rest(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_block_info info;
	struct kvmm_pool_stat stat;
	struct kvmm_lease_info hold;
	u8 buf[BLOCK_BYTES] = { 2 };
	u64 cursor = 0;

	refused(kvmm_block_get_info(pool, 0, &info));
	refused(kvmm_block_write(pool, NR_BLOCKS - 1, 0, buf, sizeof(buf)));
	refused(kvmm_block_read(pool, NR_BLOCKS - 1, 0, buf, sizeof(buf)));
	refused(kvmm_pool_compact(pool, &goal));
	refused(kvmm_pool_get_stat(pool, &stat));
	refused(kvmm_validate(pool));
	refused(next_hold(pool, &cursor, &hold));
	refused(kvmm_lease_expire(pool, 0, NULL));
}

/* Under the name of the parent's, which has none here; a grandchild inherits it in turn. */
static void use_own_pool(bool has_child)
{
	struct kvmm_pool *own = make_pool("host");
	int status;

	expect(own);
	if (!own)
		return;
	use_ranges(own);
	use_cache(own, 1);
	use_hold(own, 1);
	compact(own);
	use_content(own);
	expect(!kvmm_validate(own));
	if (has_child) {
		pid_t pid = fork();

		if (!pid) {
			expect(kvmm_validate(own) == -ECHILD);
			kvmm_pool_destroy(own);
			use_own_pool(false);
			_exit(!!nr_bad);
		}
		expect(waitpid(pid, &status, 0) == pid && !status);
	}
	kvmm_pool_destroy(own);
}

static void be_child(void)
{
	alarm(CHILD_SECONDS);
	nr_bad = 0;
	try_ranges();
	try_cache();
	try_rest();
	use_own_pool(true);
	kvmm_pool_destroy(pool);
	kvmm_pool_destroy(pool);
	refused(kvmm_validate(pool));
	use_own_pool(false);
	_exit(!!nr_bad);
}

/* ---- the parent ---- */

static void fork_once(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		be_child();
	expect(pid > 0);
	expect(waitpid(pid, &status, 0) == pid);
	expect(!status);
}

/* A block that children try to overwrite, and whose memory they destroy as far as they can. */
static void check_canary(const char *device, u32 nr_forks)
{
	u8 canary[BLOCK_BYTES], seen[BLOCK_BYTES];

	pool = make_pool(device);
	if (!pool)
		return;
	memset(canary, 0xc5, sizeof(canary));
	expect(!kvmm_block_write(pool, NR_BLOCKS - 1, 0, canary, sizeof(canary)));
	for (u32 i = 0; i < nr_forks; i++)
		fork_once();
	expect(!kvmm_block_read(pool, NR_BLOCKS - 1, 0, seen, sizeof(seen)));
	expect(!memcmp(canary, seen, sizeof(seen)));
	expect(!kvmm_validate(pool));
	kvmm_pool_destroy(pool);
}

static void fork_among_threads(u32 nr_forks)
{
	pthread_t threads[NR_THREADS];
	u64 before;

	pool = make_pool("host");
	expect(pool);
	for (uintptr_t i = 0; i < NR_THREADS; i++)
		expect(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (u32 i = 0; i < nr_forks && !nr_bad; i++) {
		before = READ_ONCE(nr_steps);
		fork_once();
		expect(i % 16 || READ_ONCE(nr_steps) != before || usleep(100000) ||
		       READ_ONCE(nr_steps) != before);
	}
	WRITE_ONCE(stop, 1);
	threads_join(threads, NR_THREADS);
	expect(!kvmm_validate(pool));
	kvmm_pool_destroy(pool);
}

int main(int argc, char **argv)
{
	setenv("KVMM_SOFT_DRIVER", "./libkvmm-swcuda.so", 0);
	expect(!malloc_keep_off_forks());
	check_canary("host", 2);
	check_canary("soft:0", 2);
	fork_among_threads(argc > 1 ? atoi(argv[1]) : 200);
	return !!nr_bad;
}
