// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that use one pool by block id, while all of them evict: names found, registered and put,
 * ids that may be anything's by now, blocks taken by id, and blocks parked and wanted back.
 *
 * Each block has the number of its name, or of its owner, in its content: a block that is found, or
 * comes back, must have that. Exit code 0: nothing contradicted it, and nothing is left behind.
 */
#include <kvmm/ext/ids.h>

#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	64u
#define NR_THREADS	4u
#define NR_KEYS		40u
#define NR_ROUNDS	20000u
#define MAX_BATCH	6u

static struct kvmm_pool *pool;

static kvmm_key_t key_of(u32 number)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte, &number, sizeof(number));
	return key;
}

static void write_number(int32_t id, u32 number)
{
	expect(!kvmm_block_write(pool, id, 0, &number, sizeof(number)));
}

static u32 number_in(int32_t id)
{
	u32 number = 0;

	expect(!kvmm_block_read(pool, id, 0, &number, sizeof(number)));
	return number;
}

/* Some names; those that are not cached are made. One by one, so that none waits for another. */
static void serve(u64 *r)
{
	int32_t ids[MAX_BATCH];
	u32 nr = 0, want = 1 + any_of(r, MAX_BATCH);

	for (; nr < want; nr++) {
		u32 number = 1 + any_of(r, NR_KEYS);
		kvmm_key_t key = key_of(number);
		struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };

		if (kvmm_ids_find(pool, &prefix, &ids[nr], 0) == 1) {
			expect(number_in(ids[nr]) == number);
			continue;
		}
		if (kvmm_ids_alloc(pool, 1, 0, &ids[nr]))
			break;
		write_number(ids[nr], number);
		if (any_of(r, 8))
			expect(!kvmm_ids_register(pool, &prefix, &ids[nr], 0));
	}
	expect(!kvmm_ids_put(pool, ids, nr, any_of(r, 2) ? KVMM_IDS_FIRST_OUT : 0));
}

/* Of one moment: no name without a state that has one, no holder without a block to be held. */
static bool is_of_one_moment(const struct kvmm_id_info *info)
{
	static const kvmm_key_t none;
	bool has_name = memcmp(&info->key, &none, sizeof(none)), has_handle = info->handle.gen;

	switch (info->state) {
	case KVMM_BLOCK_FREE:
		return !has_name && !info->refs;
	case KVMM_BLOCK_PRIVATE:
		return !has_name && info->refs == 1 && has_handle;
	case KVMM_BLOCK_STAGED:
		return has_name && info->refs == 1 && has_handle;
	case KVMM_BLOCK_ACTIVE:
		return has_name && info->refs && has_handle;
	case KVMM_BLOCK_INACTIVE:
		return has_name && !info->refs && has_handle;
	default:
		return false;
	}
}

/* A block that may be any thread's: held, it is one of its name. */
static void guess(u64 *r)
{
	int32_t id = any_of(r, NR_BLOCKS);
	struct kvmm_id_info info;
	u32 number;

	expect(!kvmm_ids_info(pool, &id, 1, &info));
	expect(is_of_one_moment(&info));
	kvmm_ids_touch(pool, &id, 1);
	if (kvmm_ids_get(pool, &id, 1, KVMM_IDS_INACTIVE))
		return;
	expect(!kvmm_ids_info(pool, &id, 1, &info));
	memcpy(&number, info.key.byte, sizeof(number));
	expect(info.state == KVMM_BLOCK_ACTIVE && number_in(id) == number);
	expect(!kvmm_ids_put(pool, &id, 1, 0));
}

static void take(u64 *r, u32 mine)
{
	int32_t ids[2] = { any_of(r, NR_BLOCKS), any_of(r, NR_BLOCKS) };
	u32 nr = ids[0] == ids[1] ? 1 : 2;
	int err = kvmm_ids_take(pool, ids, nr, 0, 0);

	expect(!err || err == -EBUSY);
	if (err)
		return;
	for (u32 i = 0; i < nr; i++)
		write_number(ids[i], mine);
	for (u32 i = 0; i < nr; i++)
		expect(number_in(ids[i]) == mine);
	expect(!kvmm_ids_put(pool, ids, nr, 0));
}

/* Wanted back at once, or after a while: it is as it was, or gone. */
static void park(u64 *r, u32 mine)
{
	struct kvmm_id_info info;
	kvmm_mut_t mut;
	int32_t id;

	if (kvmm_ids_alloc(pool, 1, 0, &id))
		return;
	expect(!kvmm_ids_info(pool, &id, 1, &info));
	mut = (kvmm_mut_t){ info.handle.index, info.handle.gen };
	write_number(id, mine);
	expect(!kvmm_ids_put(pool, &id, 1, KVMM_IDS_PARK));
	if (any_of(r, 2))
		serve(r);
	if (kvmm_unpark(pool, &mut, 1))
		return;
	expect(kvmm_block_of_mut(pool, mut) == id && number_in(id) == mine);
	expect(!kvmm_free(pool, &mut, 1));
}

static void *work(void *arg)
{
	u64 r = (uintptr_t)arg * 7654321 + 1;

	for (u32 round = 0; round < NR_ROUNDS; round++) {
		switch (any_of(&r, 8)) {
		case 0:
			guess(&r);
			break;
		case 1:
			take(&r, 1000 + (uintptr_t)arg);
			break;
		case 2:
			park(&r, 1000 + (uintptr_t)arg);
			break;
		default:
			serve(&r);
			break;
		}
		if (round % 1024 == 0)
			expect(!kvmm_validate(pool));
	}
	return NULL;
}

int main(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .compactor = "off", .block_bytes = 64 };
	pthread_t thread[NR_THREADS];
	struct kvmm_pool_stat stat;

	if (kvmm_pool_create(&attr, &pool))
		return 1;
	threads_start(thread, NR_THREADS, work);
	threads_join(thread, NR_THREADS);
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(!stat.nr_state[KVMM_BLOCK_PRIVATE] && !stat.nr_state[KVMM_BLOCK_ACTIVE]);
	expect(stat.nr_available == NR_BLOCKS);
	expect(stat.evictions && stat.hit_blocks);
	expect(!kvmm_validate(pool));
	kvmm_pool_destroy(pool);
	return nr_bad != 0;
}
