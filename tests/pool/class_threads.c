// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that use, demote, own and evict side by side, in a pool with classes, quotas, a hook and
 * a window. Exit code 0: nothing was refused that may not be, and the pool is valid.
 */
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	128u
#define NR_PROMPTS	24u
#define LENGTH		8u
#define NR_ROUNDS	6000u

static struct kvmm_pool *pool;
static u32 nr_told, nr_demoted, nr_made;	/* atomic */

static void hook(void *arg, const struct kvmm_class_event *events, u32 nr)
{
	struct kvmm_class_stat stat;

	for (u32 i = 0; i < nr; i++)
		kv_fetch_add(&nr_told, events[i].nr);
	expect(!kvmm_class_get_stat(pool, 0, &stat));
}

/* A prompt, thought about by @owner and then demoted. */
static void live(u64 *random, u64 owner)
{
	u32 prompt = any_of(random, NR_PROMPTS), cls = any_of(random, 3), nr;
	kvmm_key_t keys[LENGTH];
	kvmm_mut_t fresh[LENGTH];
	kvmm_ref_t refs[LENGTH];
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = LENGTH, .max_hits = LENGTH,
					 .nr_blocks = LENGTH, .hits = refs, .fresh = fresh };
	int err;

	memset(keys, 0, LENGTH * sizeof(*keys));
	for (u32 i = 0; i < LENGTH; i++) {
		keys[i].byte[0] = prompt;
		keys[i].byte[1] = i + 1;
	}
	if (kvmm_acquire(pool, &req))
		return;
	nr = req.nr_hits;
	expect(!kvmm_register(pool, fresh, keys + nr, req.nr_fresh, refs + nr));
	err = kvmm_class_set(pool, refs + nr, LENGTH - nr, 1 + any_of(random, 2));
	expect(!err || err == -EPERM);	/* another one has met and demoted them already */
	expect(!kvmm_set_owner(pool, refs, LENGTH, owner));
	kv_fetch_add(&nr_made, 1);
	if (any_of(random, 2))
		expect(kvmm_demote(pool, refs, LENGTH, cls) >= 0);
	expect(!kvmm_put_many(pool, refs, LENGTH));
}

static void *user(void *arg)
{
	u64 random = (uintptr_t)arg * 0x9e3779b97f4a7c15ull | 1;

	for (u32 i = 0; i < NR_ROUNDS; i++)
		live(&random, 1 + any_of(&random, 20));
	return NULL;
}

static void *evictor(void *arg)
{
	u64 random = 77;

	for (u32 i = 0; i < NR_ROUNDS; i++) {
		struct kvmm_evict_for_args req = { .size = sizeof(req),
						   .nr_blocks = any_of(&random, NR_BLOCKS / 2) };
		int nr = kvmm_demote_owner(pool, 1 + any_of(&random, 20), any_of(&random, 2));
		int err = kvmm_evict_for(pool, &req);

		expect(nr >= 0);
		expect(!err || err == -ENOSPC);
		kv_fetch_add(&nr_demoted, nr);
		if (i % 256 == 0)
			expect(!kvmm_validate(pool));
	}
	return NULL;
}

static int make(void)
{
	struct kvmm_class classes[] = { { .name = "low" }, { .name = "mid", .quota_blocks = 40 },
					{ .name = "high", .flags = KVMM_CLASS_TELL } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes,
					 .nr_classes = 3, .default_class = 2, .run_window = 16,
					 .hook = hook };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .dup_policy = KVMM_DUP_ALLOW,
				       .evict = &evict };

	return kvmm_pool_create(&attr, &pool);
}

int main(void)
{
	pthread_t thread[3];

	if (make())
		return 1;
	threads_start(thread, 2, user);
	pthread_create(&thread[2], NULL, evictor, NULL);
	threads_join(thread, 3);
	expect(!kvmm_validate(pool));
	expect(nr_made && nr_demoted && nr_told);
	kvmm_pool_destroy(pool);
	printf("%u prompts, %u demoted by owner, %u told\n", nr_made, nr_demoted, nr_told);
	return nr_bad != 0;
}
