// SPDX-License-Identifier: Apache-2.0
/*
 * Callers of other versions: what a call fills in ends where the caller's struct does, and is 0
 * behind the library's; arguments that the library does not know are refused. Fixed structs are as
 * long as ever.
 */
#include <criterion/criterion.h>
#include <kvmm/cache.h>
#include <kvmm/event.h>
#include <kvmm/ext/admission.h>
#include <kvmm/ext/disk.h>
#include <kvmm/ext/evict.h>
#include <kvmm/ext/group.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/lease.h>
#include <kvmm/ext/moves.h>
#include <kvmm/ext/registry.h>
#include <kvmm/ext/seq.h>
#include <kvmm/ext/slab.h>
#include <kvmm/step.h>
#include <kvmm/tier.h>
#include <string.h>

#include <kv/env.h>
#include <kv/mem.h>

#include "tests/pool/util.h"

static_assert(sizeof(struct kvmm_extent) == 8, "fixed");
static_assert(sizeof(struct kvmm_prefix) == 32, "fixed");
static_assert(sizeof(struct kvmm_name) == 28, "fixed");
static_assert(sizeof(struct kvmm_mem_range) == 16, "fixed");
static_assert(sizeof(struct kvmm_plane) == 24, "fixed");
static_assert(sizeof(struct kvmm_relocation) == 16, "fixed");
static_assert(sizeof(struct kvmm_watermarks) == 12, "fixed");
static_assert(sizeof(struct kvmm_latency_stat) == 184, "fixed");
static_assert(sizeof(struct kvmm_residency_stat) == 184, "fixed");
static_assert(sizeof(struct kvmm_lease_addr) == 40, "fixed");
static_assert(sizeof(struct kvmm_content) == 24, "fixed");
static_assert(sizeof(struct kvmm_event) == 64, "fixed");
static_assert(sizeof(struct kvmm_snapshot) == 24, "fixed");
static_assert(sizeof(struct kvmm_class_event) == 16, "fixed");
static_assert(sizeof(struct kvmm_slab_place) == 24, "fixed");
static_assert(sizeof(struct kvmm_digest_diff) == 200, "fixed");

#define NR_BLOCKS	16u
#define LARGEST		4096u
#define UNTOUCHED	0xa5

static struct kvmm_pool *pool;
static struct kvmm_registry *registry;
static struct kvmm_slab_cache *cache;
static struct kvmm_slab_attr slab = KVMM_SLAB_ATTR_INIT;
static struct kvmm_seq *seq;
static kvmm_range_t range;
static kvmm_lease_t hold;
static kvmm_node_t node;
static kvmm_key_t key;
static struct kvmm_prefix prefix = { &key, 1, 0, NULL, { 0, 0, 0 } };

static void set_up_seq(void)
{
	struct kvmm_key_attr key_attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	static struct kvmm_key_ctx *ctx;
	static const u32 tokens[4];

	cr_assert_eq(kvmm_key_ctx_create(&key_attr, &ctx), 0);
	attr.keys = ctx;
	attr.prompt = tokens;
	attr.nr_prompt = ARRAY_SIZE(tokens);
	attr.max_output = 1;
	cr_assert_eq(kvmm_seq_create(pool, &attr, &seq), 0);
}

static void set_up(void)
{
	static const struct kvmm_class classes[] = { { "low", 0, 0, 0, 0 }, { "high", 0, 0, 0, 0 } };
	const struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes,
					       .nr_classes = 2 };
	const struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
					     .policy = "lru", .evict = &evict };
	struct kvmm_registry_attr registry_attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_lease_attr hold_attr = KVMM_LEASE_ATTR_INIT;

	pool = make_pool_of(&attr);
	key = key_of(1);
	cache_keys(pool, 1, 1);
	range = take(pool, 4, 0);
	hold_attr.prefix = &prefix;
	cr_assert_eq(kvmm_lease_take(pool, &hold_attr, &hold), 1);
	cr_assert_eq(kvmm_registry_create(&registry_attr, &registry), 0);
	cr_assert_eq(kvmm_registry_hold(registry, &prefix, &node), 0);
	slab.name = "s";
	slab.object_bytes = 64;
	slab.base_block_bytes = 4096;
	slab.max_waste_pm = 100;
	slab.nr_blocks = 64;
	cr_assert_eq(kvmm_slab_cache_create(&slab, &cache), 0);
	set_up_seq();
}

TestSuite(sized, .init = set_up);

/* ---- what is filled in: each into @to, of @size bytes ---- */

static int read_slab(void *to, size_t size)
{
	return kvmm_slab_get_stat_sized(cache, to, size);
}

static int read_seq(void *to, size_t size)
{
	return kvmm_seq_get_info_sized(seq, to, size);
}

static int read_registry(void *to, size_t size)
{
	return kvmm_registry_get_stat_sized(registry, to, size);
}

static int read_node(void *to, size_t size)
{
	return kvmm_node_get_info_sized(registry, node, to, size);
}

static int read_range(void *to, size_t size)
{
	return kvmm_range_get_info_of(pool, range, NULL, to, size);
}

static int read_next_range(void *to, size_t size)
{
	u32 cursor = 0;

	return kvmm_range_get_info_of(pool, range, &cursor, to, size);
}

static int read_block(void *to, size_t size)
{
	return kvmm_block_get_info_sized(pool, 1, to, size);
}

static int read_hold(void *to, size_t size)
{
	return kvmm_lease_get_info_sized(pool, hold, to, size);
}

static int read_class(void *to, size_t size)
{
	return kvmm_class_get_stat_sized(pool, 0, to, size);
}

static int read_leased(void *to, size_t size)
{
	u64 cursor = 0;
	int nr = kvmm_lease_list_sized(pool, NULL, &cursor, to, 1, size);

	return nr == 1 ? 0 : nr;
}

static int read_expired(void *to, size_t size)
{
	return kvmm_lease_expire_sized(pool, 0, to, size);
}

static int read_map(void *to, size_t size)
{
	u32 at = 0;
	int nr = kvmm_map_read_sized(pool, &at, 0, to, 1, size);

	return nr == 1 ? 0 : nr;
}

static const struct {
	const char *name;
	int (*read)(void *to, size_t size);
	size_t bytes;
} reads[] = {
	{ "slab", read_slab, sizeof(struct kvmm_slab_stat) },
	{ "seq", read_seq, sizeof(struct kvmm_seq_info) },
	{ "registry", read_registry, sizeof(struct kvmm_registry_stat) },
	{ "node", read_node, sizeof(struct kvmm_node_info) },
	{ "range", read_range, sizeof(struct kvmm_range_info) },
	{ "next range", read_next_range, sizeof(struct kvmm_range_info) },
	{ "block", read_block, sizeof(struct kvmm_block_info) },
	{ "hold", read_hold, sizeof(struct kvmm_lease_info) },
	{ "class", read_class, sizeof(struct kvmm_class_stat) },
	{ "leased", read_leased, sizeof(struct kvmm_lease_info) },
	{ "expired", read_expired, sizeof(struct kvmm_lease_expired) },
	{ "map", read_map, sizeof(struct kvmm_map_run) },
};

static bool is_all(const u8 *byte, u8 value, size_t nr)
{
	while (nr && *byte == value)
		byte++, nr--;
	return !nr;
}

Test(sized, a_shorter_struct_is_cut_and_the_rest_of_a_longer_one_is_zero)
{
	u8 got[LARGEST + 8];

	for (u32 i = 0; i < ARRAY_SIZE(reads); i++)
		for (size_t size = 4; size <= LARGEST; size += size < 256 ? 4 : 640) {
			size_t known = min(size, reads[i].bytes);

			memset(got, UNTOUCHED, sizeof(got));
			cr_expect_eq(reads[i].read(got, size), 0, "%s, %zu", reads[i].name, size);
			cr_expect(!is_all(got, UNTOUCHED, known), "%s, %zu", reads[i].name, size);
			cr_expect(is_all(got + known, 0, size - known), "%s, %zu", reads[i].name, size);
			cr_expect(is_all(got + size, UNTOUCHED, sizeof(got) - size), "%s, %zu",
				  reads[i].name, size);
		}
}

Test(sized, a_size_that_no_version_has_is_refused_and_nothing_is_written)
{
	static const size_t bad[] = { 0, 1, 7, LARGEST + 4, SIZE_MAX };
	u8 got[LARGEST];

	memset(got, UNTOUCHED, sizeof(got));
	for (u32 i = 0; i < ARRAY_SIZE(reads); i++) {
		for (u32 j = 0; j < ARRAY_SIZE(bad); j++)
			cr_expect_eq(reads[i].read(got, bad[j]), -EINVAL, "%s, %zu", reads[i].name, bad[j]);
		if (reads[i].read != read_expired)	/* there it is: not wanted */
			cr_expect_eq(reads[i].read(NULL, reads[i].bytes), -EINVAL, "%s", reads[i].name);
	}
	cr_expect(is_all(got, UNTOUCHED, sizeof(got)));
}

Test(sized, elements_of_an_array_are_as_far_apart_as_the_caller_knows_them)
{
	struct kvmm_map_run runs[8];
	struct { struct kvmm_map_run run; u64 more; } longer[8];
	u32 at = 0;
	int nr = kvmm_map_read(pool, &at, 0, runs, 8);

	cr_assert_gt(nr, 1);
	at = 0;
	memset(longer, UNTOUCHED, sizeof(longer));
	cr_assert_eq(kvmm_map_read_sized(pool, &at, 0, &longer[0].run, 8, sizeof(longer[0])), nr);
	for (int i = 0; i < nr; i++) {
		cr_expect_eq(longer[i].run.first, runs[i].first);
		cr_expect_eq(longer[i].run.nr, runs[i].nr);
		cr_expect_eq(longer[i].more, 0);
	}
	cr_expect(is_all((u8 *)&longer[nr], UNTOUCHED, sizeof(longer[nr])));
}

/* ---- arguments: -EINVAL, or another answer, as they have nothing but zeros to say ---- */

static int give_acquire(void *args, size_t size)
{
	return kvmm_acquire_sized(pool, args, size);
}

static int give_publish(void *args, size_t size)
{
	return kvmm_publish_sized(pool, args, size);
}

static int give_room(void *args, size_t size)
{
	((struct kvmm_evict_for_args *)args)->size = size;
	return kvmm_evict_for(pool, args);
}

static int give_delegate(void *args, size_t size)
{
	return kvmm_registry_delegate_sized(registry, args, size);
}

static const struct {
	const char *name;
	int (*give)(void *args, size_t size);
	size_t bytes;
	size_t first;			/* bytes in the first version */
} gives[] = {
	{ "acquire", give_acquire, sizeof(struct kvmm_acquire_args), sizeof(struct kvmm_acquire_args) },
	{ "publish", give_publish, sizeof(struct kvmm_publish_args), sizeof(struct kvmm_publish_args) },
	{ "room", give_room, sizeof(struct kvmm_evict_for_args), 64 },
	{ "delegate", give_delegate, sizeof(struct kvmm_delegate), sizeof(struct kvmm_delegate) },
};

Test(sized, arguments_may_be_longer_than_the_library_knows_if_the_rest_is_zero)
{
	u64 args[LARGEST / 8 + 1];

	for (u32 i = 0; i < ARRAY_SIZE(gives); i++) {
		memset(args, 0, sizeof(args));
		cr_expect_geq(gives[i].give(args, gives[i].bytes), 0, "%s", gives[i].name);
		cr_expect_geq(gives[i].give(args, gives[i].bytes + 8), 0, "%s", gives[i].name);
		cr_expect_geq(gives[i].give(args, LARGEST), 0, "%s", gives[i].name);
		cr_expect_eq(gives[i].give(args, LARGEST + 8), -EINVAL, "%s", gives[i].name);
		((u8 *)args)[gives[i].bytes + 7] = 1;
		cr_expect_geq(gives[i].give(args, gives[i].bytes), 0, "%s", gives[i].name);
		cr_expect_eq(gives[i].give(args, gives[i].bytes + 8), -EINVAL, "%s", gives[i].name);
	}
}

Test(sized, a_field_that_has_no_meaning_yet_has_to_be_0)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 1, .reserved = 1 };
	struct kvmm_evict_for_args room = { .size = sizeof(room), .reserved = 1 };
	kvmm_promise_t promise;
	kvmm_mut_t mut;

	cr_expect_eq(kvmm_alloc_submit(pool, &ctl, &mut, NULL), -EINVAL);
	cr_expect_eq(kvmm_promise_set(pool, &ctl, &promise), -EINVAL);
	cr_expect_eq(kvmm_evict_for(pool, &room), -EINVAL);
}

Test(sized, arguments_shorter_than_in_the_first_version_are_refused)
{
	u64 args[64] = { 0 };

	for (u32 i = 0; i < ARRAY_SIZE(gives); i++)
		for (size_t size = 0; size < gives[i].first; size += 4)
			cr_expect_eq(gives[i].give(args, size), -EINVAL, "%s, %zu", gives[i].name, size);
}

Test(sized, arguments_of_the_first_version_are_taken_and_nothing_is_written_behind_them)
{
	u64 args[LARGEST / 8];

	for (u32 i = 0; i < ARRAY_SIZE(gives); i++) {
		memset(args, 0, gives[i].first);
		memset((u8 *)args + gives[i].first, UNTOUCHED, sizeof(args) - gives[i].first);
		cr_expect_geq(gives[i].give(args, gives[i].first), 0, "%s", gives[i].name);
		cr_expect(is_all((u8 *)args + gives[i].first, UNTOUCHED, sizeof(args) - gives[i].first),
			  "%s", gives[i].name);
	}
}

Test(sized, bytes_of_a_struct_are_copied_as_far_as_both_sides_know_them)
{
	const u32 from[] = { 1, 2, 3 };
	u32 to[] = { 9, 9, 9, 9, 9 };

	kv_give(to, 8, from, sizeof(from));
	cr_expect_eq(memcmp(to, (u32[]){ 1, 2, 9, 9, 9 }, sizeof(to)), 0);
	kv_give(to, 16, from, sizeof(from));
	cr_expect_eq(memcmp(to, (u32[]){ 1, 2, 3, 0, 9 }, sizeof(to)), 0);
	cr_expect(kv_args_are_known(to, 12, 12));
	cr_expect(kv_args_are_known(to, 16, 12));
	cr_expect_not(kv_args_are_known(to, 20, 12));
	cr_expect_not(kv_args_are_known(to, 8, 12));
	cr_expect_not(kv_args_are_known(NULL, 12, 12));
}
