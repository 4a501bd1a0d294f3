// SPDX-License-Identifier: Apache-2.0

#include <kv/atomic.h>
#include <kv/rcu.h>

#include "tests/pool/door_util.h"
#include "tests/pool/util.h"

struct fake_env fake;

static struct {
	struct kvmm_pool *pool;
	const struct deed *deed;
	u32 nr;
	u32 done;
} script;

static void wait_for_others(void *ctx, u32 *word, u32 old, u64 ns)
{
	u64 until = fake.now_ns + ns;

	while (READ_ONCE(*word) == old && script.done < script.nr &&
	       script.deed[script.done].at_ns <= until) {
		const struct deed *deed = &script.deed[script.done++];

		fake.now_ns = max(fake.now_ns, deed->at_ns);
		deed->fn(script.pool, deed->arg);
	}
	if (READ_ONCE(*word) != old)	/* else nobody has woken us */
		return;
	fake.now_ns = until;
}

void door_set_up(void)
{
	fake_env_install(&fake);
	fake.ops.wait = wait_for_others;
	fake.now_ns = 1000;
}

void door_tear_down(void)
{
	cr_expect_eq(script.done, script.nr);
	kv_rcu_barrier();
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(fake.nr_bad_frees, 0);
	cr_expect_eq(kv_mem_bytes(), 0);
	fake_env_remove(&fake);
}

void others_do(struct kvmm_pool *pool, const struct deed *deeds, u32 nr)
{
	script.pool = pool;
	script.deed = deeds;
	script.nr = nr;
	script.done = 0;
}

struct kvmm_pool *make_door(u32 nr_blocks, const struct kvmm_alloc_attr *door)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = "lru", .block_bytes = TEST_BLOCK_BYTES,
				       .alloc = door };

	return make_pool_of(&attr);
}

int ask_for(struct kvmm_pool *pool, u32 nr, u32 flags, u64 deadline_ns, kvmm_mut_t *blocks)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = nr, .flags = flags,
				      .deadline_ns = deadline_ns };

	return kvmm_alloc_as(pool, &ctl, blocks);
}

struct kvmm_alloc_stat door_stat(struct kvmm_pool *pool)
{
	struct kvmm_alloc_stat stat;

	cr_assert_eq(kvmm_alloc_get_stat(pool, &stat), 0);
	return stat;
}
