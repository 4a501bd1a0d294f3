// SPDX-License-Identifier: Apache-2.0
/* Making pools, finding them, and what they say about blocks. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <kv/rcu.h>

#include "pool/internal.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"
#include "tools/map.h"

static const struct kvmm_plane good_plane = { 1 << 20, 4096, 4096 };

static struct kvmm_pool_attr good_attr(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16 };

	return attr;
}

static int create(const struct kvmm_pool_attr *attr)
{
	struct kvmm_pool *pool __cleanup(kvmm_pool_destroy) = NULL;
	int err = kvmm_pool_create(attr, &pool);

	return err;
}

#define expect_create(want, ...)					\
	do {								\
		struct kvmm_pool_attr attr = good_attr();		\
		__VA_ARGS__;						\
		cr_expect_eq(create(&attr), want, "%s", #__VA_ARGS__);	\
	} while (0)

/* Ends of lines, controls, marks of direction, and bytes that are no UTF-8. */
static const char *const bad_names[] = {
	"a\nb", "a\tb", "\x1b[2J", "a\x7f", "\xc2\x9b" "2J", "a\xe2\x80\xae" "b", "a\xe2\x81\xa6",
	"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
};

Test(pool, a_name_that_is_refused_is_told_why)
{
	struct kvmm_pool_attr attr = good_attr();
	struct fake_env fake;

	fake_env_install(&fake);
	attr.name = "ab\ncd";
	cr_expect_eq(create(&attr), -EINVAL);
	cr_expect_str_eq(fake.line, "kvmm: name of a pool: byte 2, 0x0a, is of no printable character of UTF-8");
	attr.name = "";
	cr_expect_eq(create(&attr), -EINVAL);
	cr_expect_str_eq(fake.line, "kvmm: name of a pool: it is empty");
	fake_env_remove(&fake);
}

Test(pool, bad_attributes_are_refused)
{
	char long_name[100] = { 0 };
	u64 before;

	memset(long_name, 'x', 99);
	expect_create(0, attr.block_tokens = 1);	/* the table of pools may stay */
	before = kv_mem_bytes();
	expect_create(-EINVAL, attr.nr_blocks = 0);
	expect_create(-EINVAL, attr.nr_blocks = KVMM_MAX_BLOCKS + 1);
	expect_create(-EINVAL, attr.nr_blocks = UINT32_MAX);
	expect_create(-EINVAL, attr.block_tokens = 65537);
	expect_create(-EINVAL, attr.flags = 1u << 31);
	expect_create(-EINVAL, attr.dup_policy = KVMM_NR_DUPS);
	expect_create(-EINVAL, attr.zero = KVMM_NR_ZEROS);
	expect_create(-EINVAL, attr.name = "");
	expect_create(-EINVAL, attr.name = long_name);
	for (u32 i = 0; i < ARRAY_SIZE(bad_names); i++)
		expect_create(-EINVAL, attr.name = bad_names[i]);
	expect_create(0, attr.name = "\xe6\xa8\xa1\xe5\x9e\x8b n\xc3\xba\xc2\xb0 1");
	expect_create(-EINVAL, attr.size = 0);
	expect_create(-EINVAL, attr.block_bytes = UINT64_MAX);
	expect_create(-EINVAL, attr.block_bytes = UINT64_MAX / 16 + 1);
	expect_create(-ENOENT, attr.device = "abacus");
	expect_create(-ENOENT, attr.device = "host:x");
	expect_create(-ENOENT, attr.device = "host:");
	expect_create(-ENODEV, attr.device = "host:1"; attr.block_bytes = 64);
	expect_create(0, attr.device = "host:0"; attr.block_bytes = 64);
	expect_create(-ENOENT, attr.allocator = "abacus");
	expect_create(-ENOENT, attr.policy = "abacus");
	expect_create(-ENOENT, attr.compactor = "abacus");
	cr_expect_eq(kvmm_pool_create(NULL, NULL), -EINVAL);
	cr_expect_eq(kv_mem_bytes(), before);
}

#define expect_plane(want, ...)						\
	do {								\
		struct kvmm_plane plane = good_plane;			\
		__VA_ARGS__;						\
		expect_create(want, attr.planes = &plane; attr.nr_planes = 1);	\
	} while (0)

Test(pool, planes_must_fit_the_address_space)
{
	struct kvmm_plane two[2] = { good_plane, { 2 << 20, 4096, 4096 } };

	expect_plane(0, plane.stride = 8192);
	expect_plane(-EINVAL, plane.base = 0);
	expect_plane(-EINVAL, plane.bytes = 0);
	expect_plane(-EINVAL, plane.bytes = 4097);
	expect_plane(-EINVAL, plane.stride = UINT64_MAX / 2);
	expect_plane(-EINVAL, plane.base = UINT64_MAX - 16 * 4096 + 1);
	expect_plane(0, plane.base = UINT64_MAX - 16 * 4096);
	expect_create(-EINVAL, attr.planes = two);
	expect_create(-EINVAL, attr.nr_planes = 1);
	expect_create(-EINVAL, attr.planes = two; attr.nr_planes = KVMM_MAX_PLANES + 1);
	expect_create(-EINVAL, attr.planes = two; attr.nr_planes = UINT32_MAX);
	expect_create(0, attr.planes = two; attr.nr_planes = 2; attr.block_bytes = 8192);
	expect_create(-EINVAL, attr.planes = two; attr.nr_planes = 2; attr.block_bytes = 4096);
}

#define expect_planes(want, offset, first, second)				\
	do {									\
		const struct kvmm_plane plane[2] = {				\
			{ 1 << 20, 4096, first }, { (1 << 20) + (offset), 4096, second },	\
		}, other[2] = { plane[1], plane[0] };				\
		expect_create(want, attr.planes = plane; attr.nr_planes = 2);	\
		expect_create(want, attr.planes = other; attr.nr_planes = 2);	\
	} while (0)

/* 16 blocks of 4096 bytes a plane; pieces may lie side by side in one stride. */
Test(pool, planes_must_not_share_memory)
{
	expect_planes(-EINVAL, 0, 4096, 4096);
	expect_planes(-EINVAL, 0, 1, 1);
	expect_planes(0, 1024, 1024, 3072);
	expect_planes(-EINVAL, 1023, 1024, 3072);
	expect_planes(-EINVAL, 1024, 1024, 3073);
	expect_planes(-EINVAL, 15 * 4096, 4096, 4096);
	expect_planes(-EINVAL, 15 * 4096 + 2048, 2049, 1);
	expect_planes(0, 15 * 4096 + 2048, 2048, 4096);
	expect_planes(0, 16 * 4096, 4096, 4096);
}

Test(pool, is_found_by_its_name_while_it_lives)
{
	struct kvmm_pool_attr attr = good_attr();
	struct kvmm_pool *pool, *other __cleanup(kvmm_pool_destroy) = NULL;

	attr.name = "layer0";
	pool = make_pool_of(&attr);
	cr_expect_str_eq(kv_pool_name(pool), "layer0");
	cr_expect_eq(kvmm_pool_create(&attr, &other), -EEXIST);
	kvmm_pool_destroy(pool);
	cr_assert_eq(kvmm_pool_create(&attr, &other), 0);
}

Test(pool, unnamed_ones_are_numbered)
{
	struct kvmm_pool_attr attr = good_attr();
	struct kvmm_pool *pool[20];

	for (u32 i = 0; i < 20; i++)
		pool[i] = make_pool_of(&attr);
	cr_expect_str_eq(kv_pool_name(pool[0]), "pool");
	cr_expect_str_eq(kv_pool_name(pool[1]), "pool1");
	cr_expect_str_eq(kv_pool_name(pool[19]), "pool19");
	kvmm_pool_destroy(pool[1]);
	pool[1] = make_pool_of(&attr);
	cr_expect_str_eq(kv_pool_name(pool[1]), "pool1");
	for (u32 i = 0; i < 20; i++)
		kvmm_pool_destroy(pool[i]);
	cr_expect_eq(kv_mem_bytes(), 0);
}

Test(pool, an_older_caller_knows_fewer_fields)
{
	struct { struct kvmm_pool_attr known; u64 unknown; } newer = { .known = good_attr() };

	expect_create(0, attr.size = offsetof(struct kvmm_pool_attr, flags); attr.flags = 99);
	expect_create(-EINVAL, attr.size = offsetof(struct kvmm_pool_attr, flags) - 4);
	expect_create(-EINVAL, attr.size = offsetof(struct kvmm_pool_attr, nr_blocks));
	newer.known.size = sizeof(newer);
	cr_expect_eq(create(&newer.known), 0);
	newer.unknown = 1;
	cr_expect_eq(create(&newer.known), -EINVAL);
}

/* What lies behind such a "newer" structure is not looked at: it may be no memory at all. */
Test(pool, a_size_out_of_all_proportion_is_refused)
{
	long page = sysconf(_SC_PAGESIZE);
	u8 *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kvmm_pool_attr *last = (void *)(two + page - sizeof(*last));

	cr_assert_eq(mprotect(two + page, page, PROT_NONE), 0);
	*last = good_attr();
	cr_expect_eq(create(last), 0);
	last->size = SIZE_MAX;
	cr_expect_eq(create(last), -EINVAL);
	last->size = 1 << 20;
	cr_expect_eq(create(last), -EINVAL);
	munmap(two, 2 * page);
}

Test(pool, is_destroyed_once)
{
	struct kvmm_pool_attr attr = good_attr();
	struct kvmm_pool *pool = make_pool_of(&attr), *other = make_pool_of(&attr);

	kvmm_pool_destroy(pool);
	kvmm_pool_destroy(pool);
	attr.name = "pool1";
	cr_expect_eq(kvmm_pool_create(&attr, &pool), -EEXIST);
	kvmm_pool_destroy(other);
	kvmm_pool_destroy(other);
	cr_expect_eq(kv_mem_bytes(), 0);
}

Test(pool, policies_can_be_listed)
{
	const char *name[32];
	u32 nr = kvmm_policies(name, 32);

	cr_expect_eq(kvmm_policies(NULL, 0), nr);
	cr_expect_str_eq(name[0], "lrfu", "the default one comes first");
	for (u32 i = 0; i < nr; i++)
		expect_create(0, attr.policy = name[i]);
}

Test(pool, content_is_counted_through_the_planes)
{
	static u8 memory[2][8 * 32];
	struct kvmm_plane planes[2] = {
		{ (uintptr_t)memory[0], 32, 24 }, { (uintptr_t)memory[1], 32, 32 },
	};
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .planes = planes,
				       .nr_planes = 2 };
	u8 buf[56], back[56];
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	cr_expect_eq(stat_of(pool).block_bytes, 56);
	for (u32 i = 0; i < 56; i++)
		buf[i] = i + 1;
	cr_expect_eq(kvmm_block_write(pool, 3, 0, buf, 56), 0);
	cr_expect_eq(memory[0][3 * 32 + 23], 24);
	cr_expect_eq(memory[0][3 * 32 + 24], 0);
	cr_expect_eq(memory[1][3 * 32], 25);
	cr_expect_eq(kvmm_block_read(pool, 3, 20, back, 10), 0);
	cr_expect_arr_eq(back, buf + 20, 10);
	cr_expect_eq(kvmm_block_read(pool, 3, 30, back, 26), 0);
	cr_expect_arr_eq(back, buf + 30, 26);
	cr_expect_eq(kvmm_block_read(pool, 3, 56, back, 0), 0);
	cr_expect_eq(kvmm_block_read(pool, 3, 50, back, 7), -EINVAL);
	cr_expect_eq(kvmm_block_read(pool, 8, 0, back, 1), -EINVAL);
	cr_expect_eq(kvmm_block_write(pool, 0, UINT64_MAX, buf, 2), -EINVAL);
	cr_expect_eq(kvmm_block_write(pool, 0, 0, NULL, 2), -EINVAL);
}

Test(pool, one_of_ids_only_has_no_content)
{
	struct kvmm_pool_attr attr = good_attr();
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);
	kvmm_range_t range;
	u8 byte = 0;

	cr_expect_eq(kvmm_block_write(pool, 0, 0, &byte, 1), -EINVAL);
	cr_expect_eq(kvmm_block_read(pool, 0, 0, &byte, 1), -EINVAL);
	cr_expect_eq(kvmm_range_alloc(pool, 1, KVMM_ALLOC_ZERO, &range), -EINVAL);
}

POOL_TEST(pool, the_map_shows_what_is_held, make_pool(32))
{
	kvmm_range_t range[26];
	char map[65];

	paint(pool, "aaaabbb.cc..d.......eeee........", range);
	cr_expect_eq(pool_map(pool, map, 8), 0);
	cr_expect_str_eq(map, "@#:. @  ");
	kvmm_range_pin(pool, range[4]);
	cr_expect_eq(pool_map(pool, map, 8), 0);
	cr_expect_str_eq(map, "@#:. P  ");
	cr_expect_eq(pool_map(pool, map, 64), 0);
	cr_expect_eq(strlen(map), 64);
	cr_expect_eq(strncmp(map, "@@@@@@@@@@@@@@  @@@@    @@", 26), 0);
}

/* From a third to two thirds, both included. */
POOL_TEST(pool, the_map_says_half_for_what_is_about_half, make_pool(24))
{
	kvmm_range_t range[26];
	char map[5];

	paint(pool, "aa....bbbb..cccccd.....e", range);
	cr_expect_eq(kvmm_range_free(pool, range['d' - 'a']), 0);
	cr_expect_eq(pool_map(pool, map, 4), 0);
	cr_expect_str_eq(map, "::#.");
}

POOL_TEST(pool, the_map_tells_cached_blocks_apart, make_cache(16, "lru"))
{
	kvmm_mut_t mut[4];
	char map[5];

	cache_keys(pool, 0, 8);
	cr_expect_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_expect_eq(pool_map(pool, map, 4), 0);
	cr_expect_str_eq(map, "cc: ");
}

POOL_TEST(pool, says_what_a_block_is, make_pool(8))
{
	u64 begin_ns = kv_clock_ns();
	kvmm_range_t range = take_seq(pool, 2, KVMM_ALLOC_PINNED, 77);
	struct kvmm_block_info info;

	kvmm_range_get(pool, range);
	kvmm_range_pin(pool, range);
	cr_expect_eq(kvmm_block_get_info(pool, 1, &info), 0);
	cr_expect_eq(info.state, KVMM_BLOCK_RANGE);
	cr_expect_eq(info.seq, 77);
	cr_expect_eq(info.refs, 2);
	cr_expect_eq(info.pins, 1);
	cr_expect_eq(info.range.index, range.index);
	cr_expect_eq(info.range.gen, range.gen);
	/* A few milliseconds less, which a machine that has just started may not have. */
	cr_expect_geq(info.last_access_ns + (1 << 24), begin_ns);
	cr_expect_leq(info.last_access_ns, kv_clock_ns());
	cr_expect_eq(kvmm_block_get_info(pool, 2, &info), 0);
	cr_expect_eq(info.state, KVMM_BLOCK_FREE);
	cr_expect_eq(kvmm_block_get_info(pool, 8, &info), -EINVAL);
	cr_expect_eq(kvmm_block_get_info(pool, 0, NULL), -EINVAL);
}

Test(pool, knows_how_much_memory_it_takes)
{
	struct kvmm_pool_attr attr = good_attr();
	struct kvmm_pool *other __cleanup(kvmm_pool_destroy) = make_pool_of(&attr), *pool;
	u64 before = kv_mem_bytes(), entries;

	attr.nr_blocks = 5000;
	attr.policy = "lru";
	pool = make_pool_of(&attr);
	/* Entries have pages of their own. */
	entries = kv_entries_bytes(&pool->entries);
	cr_expect_eq(stat_of(pool).metadata_bytes, kv_mem_bytes() - before + entries);
	for (u32 i = 0; i < 5000; i++)
		take_seq(pool, 1, 0, i);
	kv_rcu_barrier();
	cr_expect_eq(stat_of(pool).metadata_bytes, kv_mem_bytes() - before + entries);
	kvmm_pool_destroy(pool);
	cr_expect_eq(kv_mem_bytes(), before);
}

static u64 resident_bytes(void)
{
	unsigned long all, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "%lu %lu", &all, &resident), 2);
	fclose(file);
	return (u64)resident * sysconf(_SC_PAGESIZE);
}

/* Tables are of zeroes that nothing writes before a block is used: a large pool is made at once. */
Test(pool, host_memory_is_taken_as_blocks_are_used)
{
	for_each_policy(name) {
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 1 << 20,
					       .policy = name };
		u64 before = resident_bytes();
		struct kvmm_pool *pool = make_pool_of(&attr);

		cr_expect_geq(stat_of(pool).metadata_bytes, 64u << 20);
		cr_expect_lt(resident_bytes() - before, 16u << 20, "%s", name);
		kvmm_pool_destroy(pool);
	}
}

/* Each directory of ranges is longer than the last; they are freed 256 at a time. */
Test(pool, old_directories_do_not_pile_up)
{
	struct kvmm_pool_attr attr = good_attr();
	const u32 nr_chunks = 800;
	struct kvmm_pool *pool __cleanup(kvmm_pool_destroy) = NULL;
	u64 before, most;

	attr.nr_blocks = nr_chunks * 256;
	pool = make_pool_of(&attr);
	before = kv_mem_bytes() - stat_of(pool).metadata_bytes;
	for (u32 i = 0; i < attr.nr_blocks; i++)
		take(pool, 1, 0);
	most = 256 * (nr_chunks + 8) * sizeof(void *);
	cr_expect_leq(kv_mem_bytes() - stat_of(pool).metadata_bytes - before, most);
}

Test(pool, takes_null_for_an_error)
{
	struct kvmm_range_info info;
	kvmm_range_t range = { 0, 0 };
	u32 cursor = 0;

	cr_expect_eq(kvmm_pool_get_stat(NULL, NULL), -EINVAL);
	cr_expect_eq(kvmm_validate(NULL), -EINVAL);
	cr_expect_eq(kvmm_pool_compact(NULL, NULL), -EINVAL);
	cr_expect_eq(kvmm_range_free(NULL, range), -EINVAL);
	cr_expect_eq(kvmm_range_extents(NULL, range, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_range_next(NULL, &cursor, &info), -EINVAL);
	cr_expect_eq(kvmm_match_len(NULL, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_acquire(NULL, NULL), -EINVAL);
	cr_expect_eq(kvmm_put_many(NULL, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_reset_inactive(NULL), -EINVAL);
	kvmm_pool_destroy(NULL);
}
