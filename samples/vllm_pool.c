// SPDX-License-Identifier: Apache-2.0
/*
 * The BlockPool of vLLM on block ids alone: each of its calls is one function here, under its name
 * there, and keeps no table beside the pool. Ends with 1 at the first call that answers wrong.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NR_BLOCKS	17	/* block 0 is vLLM's null block */
#define NR_USABLE	16
#define MAX		16

static struct kvmm_pool *pool;
static struct kvmm_events *events;
static unsigned int nr_calls;

static void check(const char *call, int is_right)
{
	nr_calls++;
	if (is_right)
		return;
	printf("%s answered wrong\n", call);
	exit(1);
}

/* Hashes are the engine's: here the prompt, the block of it, and how many tokens are in that. */
static kvmm_key_t hash_of(uint32_t prompt, uint32_t position, uint32_t tokens)
{
	return (kvmm_key_t){ { prompt, position, tokens } };
}

static struct kvmm_name name_of(uint32_t prompt, uint32_t position, uint32_t tokens)
{
	return (struct kvmm_name){ hash_of(prompt, position, tokens), { 0, 0, 0 }, position };
}

/* Calls by handle take the handle of today: it has the same bytes in each state of a block. */
static struct kvmm_id_info info_of(int32_t id)
{
	struct kvmm_id_info info = { .state = KVMM_BLOCK_FREE };

	if (kvmm_ids_info(pool, &id, 1, &info))
		check("info of a block", 0);
	return info;
}

static kvmm_ref_t ref_of(int32_t id)
{
	struct kvmm_id_info info = info_of(id);

	return (kvmm_ref_t){ info.handle.index, info.handle.gen };
}

/* ---- the calls of vLLM ---- */

/* The block, without a reference; -1: it is not cached. */
static int32_t get_cached_block(kvmm_key_t key)
{
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_weak_t weak;
	uint32_t block;

	return kvmm_prefix_peek(pool, &prefix, &weak, &block, 0) == 1 ? (int32_t)block : -1;
}

static int get_new_blocks(uint32_t nr, int32_t *ids, struct kvmm_victim *went)
{
	struct kvmm_evict_for_args room = { .size = sizeof(room), .nr_blocks = nr, .victims = went,
					    .max_victims = MAX };
	int err = kvmm_evict_for(pool, &room);

	if (!err)
		err = kvmm_ids_alloc(pool, nr, 0, ids);
	return err ? err : (int)room.nr_victims;
}

static int cache_full_blocks(uint32_t prompt, int32_t *ids, uint32_t first, uint32_t nr)
{
	kvmm_key_t keys[MAX], parent = hash_of(prompt, first - 1, 16);
	struct kvmm_prefix prefix = { keys, nr, first, first ? &parent : NULL, { 0, 0, 0 } };

	for (uint32_t i = 0; i < nr; i++)
		keys[i] = hash_of(prompt, first + i, 16);
	return kvmm_ids_register(pool, &prefix, ids, 0);
}

/* With a mask: only blocks at these places of the prompt are worth it. */
static int cache_masked_blocks(uint32_t prompt, const int32_t *ids, const uint32_t *position,
			       uint32_t nr)
{
	kvmm_key_t keys[MAX];
	kvmm_mut_t muts[MAX];
	kvmm_ref_t refs[MAX];
	struct kvmm_register_args req = {
		.prefix = { .keys = keys, .nr = nr }, .positions = position,
		.blocks = muts, .refs = refs, .flags = KVMM_REGISTER_AS_PUT,
	};

	for (uint32_t i = 0; i < nr; i++) {
		struct kvmm_id_info info = info_of(ids[i]);

		keys[i] = hash_of(prompt, position[i], 16);
		muts[i] = (kvmm_mut_t){ info.handle.index, info.handle.gen };
	}
	return kvmm_register_as(pool, &req);
}

/* As many tokens as there are now: the block gets its first name, or another one as it grows. */
static int cache_partial_block(uint32_t prompt, uint32_t position, int32_t id, uint32_t tokens)
{
	struct kvmm_name name = name_of(prompt, position, tokens);
	struct kvmm_prefix prefix = { .keys = &name.key, .nr = 1, .position = position };
	kvmm_ref_t ref = ref_of(id);

	if (info_of(id).state == KVMM_BLOCK_PRIVATE)
		return kvmm_ids_register(pool, &prefix, &id, 0);
	return kvmm_names_rename(pool, &name, &ref, 1);
}

/* All names go from a held block to a private one, without a moment in which a request misses. */
static int move_block_hashes(int32_t from, int32_t to)
{
	kvmm_ref_t ref_from = ref_of(from), ref_to;
	struct kvmm_name names[MAX];
	int nr = kvmm_names_get(pool, ref_from, names, MAX);
	struct kvmm_prefix prefix = { &names[0].key, 1, names[0].position, NULL, { 0, 0, 0 } };
	int err = nr > 0 ? kvmm_ids_register(pool, &prefix, &to, 0) : -ENOENT;

	ref_to = ref_of(to);
	for (int i = 1; i < nr && !err; i++)
		err = kvmm_names_add(pool, &names[i], &ref_to, 1);
	for (int i = nr - 1; i >= 0 && !err; i--)	/* the last name first: none takes its place */
		err = kvmm_names_remove(pool, &names[i], &ref_from, 1);
	return err;
}

/* Of blocks that get_cached_block() found, whether requests hold them or not. */
static int touch(const int32_t *ids, uint32_t nr)
{
	return kvmm_ids_get(pool, ids, nr, KVMM_IDS_INACTIVE);
}

/* The first of @ids is the first to be evicted. */
static int free_blocks(const int32_t *ids, uint32_t nr)
{
	return kvmm_ids_put(pool, ids, nr, KVMM_IDS_FIRST_OUT);
}

static int evict_block(uint32_t block)
{
	return kvmm_evict_blocks(pool, &block, 1);
}

/* Free from here on, but readable until their memory is used again: then take_back() is refused. */
static int unpin_blocks(const int32_t *ids, uint32_t nr)
{
	return kvmm_ids_put(pool, ids, nr, KVMM_IDS_PARK);
}

static int take_back(const int32_t *ids, uint32_t nr)
{
	return kvmm_ids_take(pool, ids, nr, 0, KVMM_IDS_PARKED);
}

/* False while a request holds a block. */
static int reset_prefix_cache(void)
{
	return kvmm_reset_cache(pool) >= 0;
}

static int get_num_free_blocks(void)
{
	return kvmm_pool_available(pool, NULL);
}

static double get_usage(void)
{
	uint32_t total = 0;
	int nr = kvmm_pool_available(pool, &total);

	return nr < 0 ? -1 : 1.0 - (double)nr / total;
}

static int take_events(uint32_t kind)
{
	struct kvmm_event buf[256];
	uint64_t nr_lost;
	int nr = kvmm_events_read(events, buf, 256, &nr_lost), nr_of_kind = 0;

	for (int i = 0; i < nr; i++)
		nr_of_kind += buf[i].kind == kind;
	return nr < 0 || nr_lost ? -1 : nr_of_kind;
}

/* ---- a day of it ---- */

static void serve_prompt(void)
{
	struct kvmm_victim went[MAX];
	int32_t ids[4], again[2];

	check("get_num_free_blocks", get_num_free_blocks() == NR_USABLE);
	check("get_new_blocks", get_new_blocks(4, ids, went) == 0 && ids[0] > 0);
	check("cache_full_blocks", cache_full_blocks(1, ids, 0, 4) == 0);
	check("take_events", take_events(KVMM_EVENT_STORED) == 4);
	check("get_usage", get_usage() == 0.25);
	again[0] = get_cached_block(hash_of(1, 0, 16));
	again[1] = get_cached_block(hash_of(1, 1, 16));
	check("get_cached_block", again[0] == ids[0] && again[1] == ids[1]);
	check("get_cached_block of no block", get_cached_block(hash_of(9, 0, 16)) == -1);
	check("free_blocks", free_blocks((int32_t[]){ ids[3], ids[2], ids[1], ids[0] }, 4) == 0);
	check("get_usage of cached blocks", get_usage() == 0);
	check("touch", touch(again, 2) == 0 && info_of(ids[0]).refs == 1);
	check("get_num_free_blocks", get_num_free_blocks() == NR_USABLE - 2);
	check("reset_prefix_cache while blocks are held", !reset_prefix_cache());
	check("free_blocks", free_blocks((int32_t[]){ again[1], again[0] }, 2) == 0);
}

static void serve_masked(void)
{
	static const uint32_t position[] = { 3, 7, 9 };
	struct kvmm_victim went[MAX];
	int32_t ids[12], kept[3];

	/* 12 are free; of the prompt before its last two blocks go, the last one first. */
	check("get_new_blocks", get_new_blocks(12, ids, went) == 0);
	for (uint32_t i = 0; i < 3; i++)
		kept[i] = ids[position[i]];
	check("cache_full_blocks with a mask", cache_masked_blocks(2, kept, position, 3) == 0);
	check("free_blocks", free_blocks(ids, 12) == 0);
	check("get_cached_block", get_cached_block(hash_of(2, 7, 16)) == kept[1]);
	check("get_num_free_blocks", get_num_free_blocks() == NR_USABLE);
	check("get_new_blocks", get_new_blocks(11, ids, went) == 2);
	check("which went", went[0].key.byte[1] == 3 && went[1].key.byte[1] == 2);
	check("take_events", take_events(KVMM_EVENT_REMOVED) == 2);
	check("get_cached_block", get_cached_block(hash_of(1, 3, 16)) == -1);
	check("free_blocks", free_blocks(ids, 11) == 0);
}

static void serve_partial(void)
{
	struct kvmm_name name = name_of(4, 0, 12);
	struct kvmm_victim went[MAX];
	kvmm_ref_t ref;
	int32_t ids[2];

	check("get_new_blocks", get_new_blocks(2, ids, went) == 0);
	check("cache_partial_block", cache_partial_block(3, 0, ids[0], 5) == 0);
	check("cache_partial_block, grown", cache_partial_block(3, 0, ids[0], 12) == 0);
	check("get_cached_block of before", get_cached_block(hash_of(3, 0, 5)) == -1);
	check("get_cached_block of now", get_cached_block(hash_of(3, 0, 12)) == ids[0]);
	ref = ref_of(ids[0]);
	check("a second hash", kvmm_names_add(pool, &name, &ref, 1) == 0);
	check("take_events", take_events(KVMM_EVENT_STORED) == 3);
	check("move_block_hashes", move_block_hashes(ids[0], ids[1]) == 0);
	check("get_cached_block, moved", get_cached_block(hash_of(3, 0, 12)) == ids[1]);
	check("get_cached_block by the second", get_cached_block(name.key) == ids[1]);
	check("free_blocks", free_blocks(ids, 2) == 0);
	check("evict_blocks", evict_block(ids[1]) == 1 && evict_block(ids[0]) == 0);
	check("get_cached_block, evicted", get_cached_block(name.key) == -1);
}

static void serve_states(void)
{
	struct kvmm_victim went[MAX];
	int32_t ids[2], all[MAX];

	check("get_new_blocks", get_new_blocks(2, ids, went) == 0);
	check("unpin_blocks", unpin_blocks(ids, 2) == 0);
	check("get_num_free_blocks", get_num_free_blocks() == NR_USABLE);
	check("a block taken back", take_back(&ids[1], 1) == 0);
	check("get_new_blocks", get_new_blocks(NR_USABLE - 1, all, went) >= 0);
	check("a block that was reused", take_back(ids, 1) < 0);
	check("free_blocks", free_blocks(all, NR_USABLE - 1) == 0);
	check("free_blocks", free_blocks(&ids[1], 1) == 0);
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	attr.compactor = "off";
	attr.flags = KVMM_POOL_NULL_BLOCK | KVMM_POOL_ORDER_AS_PUT;
	if (kvmm_pool_create(&attr, &pool) || kvmm_events_open(pool, NULL, &events))
		return 1;
	serve_prompt();
	serve_masked();
	serve_partial();
	serve_states();
	check("reset_prefix_cache", reset_prefix_cache());
	check("take_events", take_events(KVMM_EVENT_CLEARED) == 1);
	check("get_num_free_blocks", get_num_free_blocks() == NR_USABLE && get_usage() == 0);
	printf("%u calls of a block pool as vLLM has them\n", nr_calls);
	kvmm_events_close(events);
	kvmm_pool_destroy(pool);
	return 0;
}
