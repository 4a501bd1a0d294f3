// SPDX-License-Identifier: Apache-2.0
/* Slab caches: shapes, order, handles, text, failures. Base blocks are of 64 bytes. */
#include <kv/alloc.h>
#include <kv/stat.h>
#include <kv/zone.h>

#include "alloc/slab.h"
#include "tests/alloc/slab_util.h"
#include "tests/support/cleanup.h"
#include "tests/support/fake_env.h"

#define expect_picture(picture, ...)							\
	do {										\
		struct kvmm_slab_cache *__all[] = { __VA_ARGS__ };			\
		const char *__is = slab_str(__all, ARRAY_SIZE(__all));			\
		cr_expect_str_eq(__is, picture, "%s, not %s", __is, picture);		\
	} while (0)

/* The last cache of a zone takes it with it, which has to be all free by then. */
static void end(struct kvmm_slab_cache *cache)
{
	kvmm_slab_cache_destroy(cache);
	cr_expect_eq(kv_mem_bytes(), 0);
}

/* A test with a cache @x that @make makes in a zone of its own. */
#define CACHE_TEST(name, make) \
	TEST_WITH(struct kvmm_slab_cache *x, make, end, slab, name)

/* ---- shapes ---- */

static struct kv_slab_shape shape_of(u64 object_bytes, u32 max_waste_pm, int err)
{
	struct kvmm_slab_attr attr = slab_attr("x", object_bytes);
	struct kv_slab_shape shape = { 0 };

	attr.max_waste_pm = max_waste_pm;
	cr_expect_eq(slab_shape(KVMM_MAX_BLOCKS, &attr, &shape), err, "%lu bytes, %u", object_bytes,
		     max_waste_pm);
	return shape;
}

/* By trying: 0 if there is none. */
static u32 shortest(u64 object_bytes, u32 max_waste_pm, u32 *nr_objects)
{
	for (u32 nr = 1; nr <= KVMM_SLAB_MAX_BLOCKS; nr++) {
		u64 bytes = nr * 64, used = 0;

		for (*nr_objects = 0; used + object_bytes <= bytes; ++*nr_objects)
			used += object_bytes;
		if (*nr_objects && 1000 * (bytes - used) <= max_waste_pm * bytes)
			return nr;
	}
	return 0;
}

Test(slab, the_shortest_slab_within_the_bound_is_taken)
{
	static const u32 bounds[] = { 0, 1, 10, 20, 125, 249, 250, 1000 };

	for (u32 bytes = 1; bytes <= 64 * 64 + 1; bytes += 1 + bytes / 64) {
		for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
			u32 nr_objects, nr = shortest(bytes, bounds[i], &nr_objects);
			struct kv_slab_shape shape = shape_of(bytes, bounds[i], nr ? 0 : -ERANGE);

			if (!nr)
				continue;
			cr_expect_eq(shape.nr_blocks, nr, "%u bytes, %u", bytes, bounds[i]);
			cr_expect_eq(shape.nr_objects, nr_objects);
			cr_expect_eq(shape.waste_bytes, nr * 64 - nr_objects * bytes);
		}
	}
	cr_expect_eq(shape_of(48, 250, 0).nr_blocks, 1);	/* 16 of 64 are over */
	cr_expect_eq(shape_of(48, 249, 0).nr_blocks, 3);
}

Test(slab, a_bound_that_cannot_be_met_is_refused_with_the_best_there_is)
{
	struct kv_slab_shape shape = shape_of(67, 0, -ERANGE);	/* 67 blocks would do */

	cr_expect_eq(shape.nr_blocks, 22);
	cr_expect_eq(shape.waste_bytes, 1);
	cr_expect_eq(shape_of(64 * 64 + 1, 1000, -ERANGE).nr_objects, 0);
}

Test(slab, alignment_and_colour_are_part_of_the_shape)
{
	struct kvmm_slab_attr attr = slab_attr("x", 20);
	struct kv_slab_shape shape;

	attr.align = 16;	/* 0, 32, and 12 bytes are over */
	cr_assert_eq(slab_shape(KVMM_MAX_BLOCKS, &attr, &shape), 0);
	cr_expect_eq(shape.stride, 32);
	cr_expect_eq(shape.nr_objects, 2);
	cr_expect_eq(shape.waste_bytes, 24);
	cr_expect_eq(shape.block_align, 1);
	attr.align = 256;	/* of 4 blocks of 64 bytes */
	cr_assert_eq(slab_shape(KVMM_MAX_BLOCKS, &attr, &shape), 0);
	cr_expect_eq(shape.block_align, 4);
	attr.align = 4;
	attr.colour_bytes = 4;	/* 3 objects, 4 bytes over */
	cr_assert_eq(slab_shape(KVMM_MAX_BLOCKS, &attr, &shape), 0);
	cr_expect_eq(shape.nr_colours, 2);
}

Test(slab, create_refuses_bad_attributes)
{
	struct kvmm_slab_attr good = slab_attr("x", 16), bad[17];
	struct kvmm_slab_cache *cache = NULL;

	good.nr_blocks = 16;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].size = 0;
	bad[1].name = NULL;
	bad[2].name = "";
	bad[3].name = "a b";
	bad[4].name = "a-name-that-is-longer-than-31-bytes";
	bad[5].object_bytes = 0;
	bad[6].object_bytes = UINT64_MAX;
	bad[7].align = 3;
	bad[8].align = 1ull << 63;
	bad[9].base_block_bytes = 0;
	bad[10].base_block_bytes = KVMM_SLAB_MAX_BYTES + 1;
	bad[11].max_waste_pm = 1001;
	bad[12].align = 16, bad[12].colour_bytes = 8;
	bad[13].name = "tab\t";
	bad[14].nr_blocks = 0;
	bad[15].nr_blocks = KVMM_MAX_BLOCKS + 1;
	bad[16].reserved = 1;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(kvmm_slab_cache_create(&bad[i], &cache), -EINVAL, "%zu", i);
	cr_expect_eq(kvmm_slab_cache_create(NULL, &cache), -EINVAL);
	cr_expect_eq(kvmm_slab_cache_create(&good, NULL), -EINVAL);
	good.object_bytes = 17 * 64;
	cr_expect_eq(kvmm_slab_cache_create(&good, &cache), -ERANGE);
	cr_expect_str_eq(kvmm_why(), "the best slabs waste 1000 per mille of 0 blocks");
	good.object_bytes = 67, good.nr_blocks = 64, good.max_waste_pm = 0;
	cr_expect_eq(kvmm_slab_cache_create(&good, &cache), -ERANGE);
	cr_expect_str_eq(kvmm_why(), "the best slabs waste 1 per mille of 22 blocks");
	cr_expect_null(cache);
	end(NULL);
}

Test(slab, caches_of_the_same_blocks_agree_on_their_size_and_differ_in_name)
{
	struct kvmm_slab_attr attr = slab_attr("x", 16);
	struct kvmm_slab_cache *x, *y = NULL;

	attr.nr_blocks = 8;
	cr_assert_eq(kvmm_slab_cache_create(&attr, &x), 0);
	attr.beside = x;
	cr_expect_eq(kvmm_slab_cache_create(&attr, &y), -EINVAL);	/* blocks of its own as well */
	attr.nr_blocks = 0;
	cr_expect_eq(kvmm_slab_cache_create(&attr, &y), -EEXIST);
	attr.name = "y";
	attr.base_block_bytes = 128;
	cr_expect_eq(kvmm_slab_cache_create(&attr, &y), -EINVAL);
	cr_expect_null(y);
	attr.name = "x";
	attr.nr_blocks = 8;
	attr.beside = NULL;
	cr_expect_eq(kvmm_slab_cache_create(&attr, &y), 0);
	kvmm_slab_cache_destroy(y);
	end(x);
}

Test(slab, blocks_last_as_long_as_a_cache_has_them)
{
	struct kvmm_slab_attr attr = slab_attr("x", 64);
	struct kvmm_slab_cache *x, *y;

	attr.nr_blocks = 2;
	cr_assert_eq(kvmm_slab_cache_create(&attr, &x), 0);
	attr.name = "y";
	attr.nr_blocks = 0;
	attr.beside = x;
	cr_assert_eq(kvmm_slab_cache_create(&attr, &y), 0);
	slab_take(x);
	slab_take(y);
	expect_picture("[x][y]", x, y);
	kvmm_slab_cache_destroy(x);
	slab_take(y);
	expect_picture("[y][y]", y);
	end(y);
}

/* ---- order ---- */

CACHE_TEST(objects_come_from_the_fullest_slab_that_has_room, slab_cache(slab_zone(4), "x", 16))
{
	kvmm_slab_obj_t obj[12];

	cr_assert_eq(kvmm_slab_alloc(x, 12, obj), 0);
	expect_picture("[xxxx][xxxx][xxxx]_", x);
	slab_give(x, obj[1]);
	slab_give(x, obj[2]);
	slab_give(x, obj[4]);
	slab_give(x, obj[8]);
	slab_give(x, obj[9]);
	slab_give(x, obj[10]);
	expect_picture("[x..x][.xxx][...x]_", x);
	obj[4] = slab_take(x);
	expect_picture("[x..x][xxxx][...x]_", x);
	obj[1] = slab_take(x);
	obj[2] = slab_take(x);
	expect_picture("[xxxx][xxxx][...x]_", x);
	slab_give(x, obj[11]);
	expect_picture("[xxxx][xxxx]__", x);
}

Test(slab, empty_slabs_are_returned_at_once_or_kept)
{
	struct kv_zone *zone = slab_zone(4);
	struct kvmm_slab_attr attr = slab_attr("x", 32);
	struct kvmm_slab_cache *x;
	kvmm_slab_obj_t obj[6];

	attr.keep_empty = 1;
	x = slab_cache_of(zone, &attr);
	cr_assert_eq(kvmm_slab_alloc(x, 6, obj), 0);
	expect_picture("[xx][xx][xx]_", x);
	cr_expect_eq(kvmm_slab_free(x, 4, obj), 0);
	expect_picture("[..]_[xx]_", x);
	cr_expect_eq(slab_shrink(x), 1);
	expect_picture("__[xx]_", x);
	cr_expect_eq(kvmm_slab_free(x, 2, obj + 4), 0);
	expect_picture("__[..]_", x);
	cr_expect_eq(slab_shrink(x), 1);
	cr_expect_eq(slab_shrink(x), 0);
	expect_picture("____", x);
	end(x);
}

/* What x keeps empty is w's when the zone has nothing else; and what is still too much fails. */
Test(slab, kept_slabs_go_back_when_another_cache_would_fail)
{
	struct kv_zone *zone = slab_zone(4);
	struct kvmm_slab_attr attr = slab_attr("x", 32);
	struct kvmm_slab_cache *x, *w;
	kvmm_slab_obj_t obj[6], wide[5];
	struct kvmm_slab_stat stat;

	attr.keep_empty = 3;
	x = slab_cache_of(zone, &attr);
	w = slab_cache(zone, "w", 64);
	cr_assert_eq(kvmm_slab_alloc(x, 6, obj), 0);
	cr_assert_eq(kvmm_slab_free(x, 6, obj), 0);
	cr_assert_eq(kvmm_slab_alloc(w, 1, wide), 0);
	cr_assert_eq(kvmm_slab_get_stat(x, &stat), 0);
	cr_expect_eq(stat.nr_empty, 3, "there was a free block");
	cr_expect_eq(kvmm_slab_alloc(w, 3, wide + 1), 0);
	cr_assert_eq(kvmm_slab_get_stat(x, &stat), 0);
	cr_expect_eq(stat.nr_slabs, 0);
	cr_assert_eq(kvmm_slab_get_stat(w, &stat), 0);
	cr_expect_eq(stat.fail_nospc, 0);
	cr_expect_eq(kvmm_slab_alloc(w, 1, wide + 4), -ENOSPC);
	cr_assert_eq(kvmm_slab_get_stat(w, &stat), 0);
	cr_expect_eq(stat.fail_nospc, 1);
	cr_expect_eq(kv_slab_cache_check(x), 0);
	cr_expect_eq(kv_slab_cache_check(w), 0);
	kvmm_slab_cache_destroy(w);
	end(x);
}

CACHE_TEST(memory_goes_from_one_cache_to_another, slab_cache(slab_zone(6), "x", 16))
{
	struct kvmm_slab_attr attr = slab_attr("w", 96);
	struct kvmm_slab_cache *w;
	kvmm_slab_obj_t obj[24], wide[4];

	attr.max_waste_pm = 0;
	w = slab_cache_of(x->zone, &attr);
	cr_assert_eq(kvmm_slab_alloc(x, 24, obj), 0);
	cr_expect_eq(kvmm_slab_alloc(w, 1, wide), -ENOSPC);
	expect_picture("[xxxx][xxxx][xxxx][xxxx][xxxx][xxxx]", x, w);
	cr_assert_eq(kvmm_slab_free(x, 12, obj + 4), 0);
	cr_expect_eq(kvmm_slab_alloc(w, 2, wide), 0);
	expect_picture("[xxxx][ww][xxxx][xxxx]", x, w);
	kvmm_slab_cache_destroy(w);
}

/* ---- places ---- */

Test(slab, places_are_aligned_and_coloured)
{
	struct kv_zone *zone = slab_zone(8);
	struct kvmm_slab_attr attr = slab_attr("x", 24);
	struct kvmm_slab_cache *x;
	kvmm_slab_obj_t obj[8];
	static const u64 offset[] = { 0, 24, 64 + 8, 64 + 32, 128 + 16, 128 + 40, 192, 192 + 24 };

	attr.align = 8;
	attr.colour_bytes = 8;
	x = slab_cache_of(zone, &attr);
	cr_assert_eq(kvmm_slab_alloc(x, 8, obj), 0);
	for (u32 i = 0; i < 8; i++) {
		struct kvmm_slab_place place = slab_place(x, obj[i]);

		cr_expect_eq(place.offset, offset[i], "%u: %lu", i, place.offset);
		cr_expect_eq(place.bytes, 24);
		cr_expect_eq(place.run.start, i / 2);
		cr_expect_eq(place.run.nr, 1);
	}
	end(x);
}

CACHE_TEST(an_alignment_beyond_the_base_block_aligns_the_run, slab_cache(slab_zone(16), "x", 64))
{
	struct kvmm_slab_attr attr = slab_attr("a", 256);
	struct kvmm_slab_cache *a;

	attr.align = 256;
	a = slab_cache_of(x->zone, &attr);
	slab_take(x);
	slab_take(a);
	slab_take(a);
	expect_picture("[x]___[a][a]____", x, a);
	kvmm_slab_cache_destroy(a);
}

/* ---- handles ---- */

static void expect_refused(struct kvmm_slab_cache *x, kvmm_slab_obj_t obj, int err)
{
	struct kvmm_slab_place place = { .bytes = 77 };
	kvmm_slab_obj_t good = slab_take(x), batch[] = { good, obj };

	cr_expect_eq(kvmm_slab_free(x, 1, &obj), err);
	cr_expect_eq(kvmm_slab_free(x, 2, batch), err);
	cr_expect_eq(kvmm_slab_places(x, 1, &obj, &place), err);
	cr_expect_eq(place.bytes, 77);
	slab_give(x, good);
}

CACHE_TEST(stale_and_made_up_handles_are_refused, slab_cache(slab_zone(4), "x", 20))
{
	kvmm_slab_obj_t first = slab_take(x), old = slab_take(x), twice[2];
	u64 before = kv_stat_sum(KV_EV_BAD_HANDLE);

	slab_give(x, old);
	expect_refused(x, old, -ESTALE);
	expect_refused(x, (kvmm_slab_obj_t){ 0, 0 }, -EINVAL);
	expect_refused(x, (kvmm_slab_obj_t){ 3, 1 }, -EINVAL);	/* 3 a slab, so index 3 is none */
	expect_refused(x, (kvmm_slab_obj_t){ 4, 1 }, -EINVAL);
	expect_refused(x, (kvmm_slab_obj_t){ UINT32_MAX, 1 }, -EINVAL);
	expect_refused(x, (kvmm_slab_obj_t){ first.index, first.gen + 2 }, -EINVAL);
	expect_refused(x, (kvmm_slab_obj_t){ first.index, first.gen + 1 }, -EINVAL);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE) - before, 21);
	twice[0] = twice[1] = first;
	cr_expect_eq(kvmm_slab_free(x, 2, twice), -ESTALE);
	expect_picture("[x..]___", x);
	slab_give(x, first);
	slab_take(x);		/* the slab is another one, its record is not */
	expect_refused(x, first, -ESTALE);
	expect_picture("[x..]___", x);
}

CACHE_TEST(bad_arguments_are_refused, slab_cache(slab_zone(4), "x", 16))
{
	kvmm_slab_obj_t obj = { 0, 0 };

	cr_expect_eq(kvmm_slab_alloc(NULL, 1, &obj), -EINVAL);
	cr_expect_eq(kvmm_slab_alloc(x, 0, &obj), -EINVAL);
	cr_expect_eq(kvmm_slab_alloc(x, 1, NULL), -EINVAL);
	cr_expect_eq(kvmm_slab_alloc(x, UINT32_MAX, &obj), -ENOSPC);
	cr_expect_eq(kvmm_slab_free(NULL, 1, &obj), -EINVAL);
	cr_expect_eq(kvmm_slab_places(x, 1, &obj, NULL), -EINVAL);
	cr_expect_eq(kvmm_slab_get_stat(x, NULL), -EINVAL);
	expect_picture("____", x);
}

/* ---- numbers ---- */

CACHE_TEST(numbers_add_up, slab_cache(slab_zone(8), "x", 20))
{
	struct kvmm_slab_cache *y = slab_cache(x->zone, "y", 64);
	struct kvmm_slab_stat stat, other;
	kvmm_slab_obj_t obj[7];

	cr_assert_eq(kvmm_slab_alloc(x, 7, obj), 0);
	slab_give(x, obj[0]);
	slab_take(y);
	cr_assert_eq(kvmm_slab_get_stat(x, &stat), 0);
	cr_expect_eq(stat.nr_objects, 6);
	cr_expect_eq(stat.nr_slots, 9);
	cr_expect_eq(stat.nr_slabs, 3);
	cr_expect_eq(stat.nr_full, 1);
	cr_expect_eq(stat.nr_partial, 2);
	cr_expect_eq(stat.held_bytes, 192);
	cr_expect_eq(stat.live_bytes, 120);
	cr_expect_eq(stat.slack_bytes, 12);
	cr_expect_eq(stat.unused_bytes, 60);
	cr_expect_eq(stat.waste_pm, 375);
	cr_expect_eq(stat.allocs, 7);
	cr_expect_eq(stat.frees, 1);
	cr_expect_eq(stat.slab_objects, 3);
	cr_assert_eq(kvmm_slab_get_stat(y, &other), 0);
	cr_expect_eq(stat.metadata_bytes + other.metadata_bytes + x->zone->metadata_bytes,
		     kv_mem_bytes());
	cr_expect_eq(kv_slab_nr(), 2);
	kvmm_slab_cache_destroy(y);
}

CACHE_TEST(slabinfo_looks_as_linux_writes_it, slab_cache(slab_zone(8), "latent", 16))
{
	static const char want[] =
		"slabinfo - version: 2.1\n"
		"# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>"
		" : tunables <limit> <batchcount> <sharedfactor>"
		" : slabdata <active_slabs> <num_slabs> <sharedavail>\n"
		"latent                 1      4     16    4    1"
		" : tunables    0    0    0 : slabdata      1      1      0\n";
	char buf[512], cut[12];

	slab_take(x);
	cr_expect_eq(kv_slab_info(buf, sizeof(buf)), sizeof(want) - 1);
	cr_expect_str_eq(buf, want);
	cr_expect_eq(kv_slab_info(cut, sizeof(cut)), sizeof(want) - 1);
	cr_expect_str_eq(cut, "slabinfo - ");
	cr_expect_eq(kv_slab_info(NULL, 0), sizeof(want) - 1);
}

Test(slab, caches_of_one_name_in_two_zones_are_told_apart_in_slabinfo)
{
	struct kv_zone *a = slab_zone(8), *b = slab_zone(8);
	struct kvmm_slab_cache *x = slab_cache(a, "latent", 16), *y = slab_cache(b, "latent", 16);
	char buf[1024];

	cr_assert(kv_slab_info(buf, sizeof(buf)) > 0);
	cr_expect(strstr(buf, "\nlatent  ") && strstr(buf, "\nlatent#1  "), "%s", buf);
	kvmm_slab_cache_destroy(x);
	end(y);
}

/* ---- failures ---- */

Test(slab, each_failing_host_allocation_leaves_no_trace)
{
	struct kvmm_slab_attr attr = slab_attr("x", 64);
	struct kvmm_slab_cache *x = NULL;
	kvmm_slab_obj_t obj[100];
	struct fake_env fake;
	u32 nr_create = 0, nr_alloc = 0;
	u64 live = 0;
	int err;

	attr.nr_blocks = 128;
	fake_env_install(&fake);
	do {
		fake_env_fail(&fake, ++nr_create, false);
		err = kvmm_slab_cache_create(&attr, &x);
		cr_assert(!err || (err == -ENOMEM && fake.nr_live == live));
	} while (err);
	live = fake.nr_live;
	do {
		fake_env_fail(&fake, ++nr_alloc, false);
		err = kvmm_slab_alloc(x, 100, obj);
		cr_assert(!err || (err == -ENOMEM && fake.nr_live == live));
		fake_env_fail(&fake, 0, false);
		cr_assert_eq(kv_slab_cache_check(x), 0);
		cr_assert_eq(x->nr_slabs, err ? 0 : 100);
	} while (err);
	cr_expect_eq(nr_create, 6);	/* three of them the blocks */
	cr_expect_eq(nr_alloc, 5);	/* chunks of 8, 16, 32 and 64 records */
	kvmm_slab_cache_destroy(x);
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

Test(slab, a_batch_that_does_not_fit_leaves_no_trace)
{
	struct kv_zone *zone = slab_zone(12);
	struct kvmm_slab_attr attr = slab_attr("x", 24);
	struct kvmm_slab_cache *x;
	kvmm_slab_obj_t obj[40] = { { 9, 9 } };
	u64 bytes;

	attr.colour_bytes = 8;
	x = slab_cache_of(zone, &attr);
	slab_take(x);
	bytes = kv_mem_bytes();
	cr_assert_eq(kvmm_slab_alloc(x, 24, obj), -ENOSPC);
	cr_expect_eq(obj[0].gen, 9);
	cr_expect_eq(kv_mem_bytes(), bytes);
	cr_expect_eq(x->next_colour, 1);
	cr_expect_eq(x->nr_records, 1);
	cr_expect_eq(x->fail_nospc, 1);
	expect_picture("[x.]___________", x);
	cr_assert_eq(kvmm_slab_alloc(x, 23, obj), 0);
	end(x);
}

/* Flips one field, which check() must see, and puts it back. */
#define expect_seen(cache, field, value)					\
	do {									\
		__typeof__(field) __old = (field);				\
		(field) = (value);						\
		cr_expect_eq(kv_slab_cache_check(cache), -EUCLEAN, #field);	\
		(field) = __old;						\
		(cache)->broken = false;					\
		cr_assert_eq(kv_slab_cache_check(cache), 0, #field);		\
	} while (0)

CACHE_TEST(check_sees_what_contradicts_itself, slab_cache(slab_zone(8), "x", 16))
{
	kvmm_slab_obj_t obj[12], one;
	struct slab *slab;

	cr_assert_eq(kvmm_slab_alloc(x, 12, obj), 0);
	slab_give(x, obj[1]);	/* the current slab from here on */
	slab_give(x, obj[5]);
	slab = slab_at(x, 1);
	expect_seen(x, slab->start, slab->start + 1);
	expect_seen(x, slab->start, 7);
	expect_seen(x, slab->used, slab->used + 1);
	expect_seen(x, slab->free, KV_NONE);
	expect_seen(x, slab->fresh, 3);
	expect_seen(x, slab->colour, 1);
	expect_seen(x, slab->prev, 0);
	expect_seen(x, slab->index, 0);
	expect_seen(x, slab->objs[0].gen, 2);
	expect_seen(x, slab->objs[1].gen, 3);
	expect_seen(x, slab->objs[1].next, 1);
	expect_seen(x, x->nr_live, 12);
	expect_seen(x, x->nr_room, 16);
	expect_seen(x, x->nr_slabs, 2);
	expect_seen(x, x->nr_empty, 1);
	expect_seen(x, x->allocs, 13);
	expect_seen(x, x->frees, 0);
	expect_seen(x, x->slabs_made, 4);
	expect_seen(x, x->slabs_returned, 1);
	expect_seen(x, x->nr_records, 2);
	expect_seen(x, x->free_record, 1);
	expect_seen(x, x->next_colour, 1);
	expect_seen(x, x->order.last_empty, 0);
	expect_seen(x, x->order.top, -1);
	expect_seen(x, x->order.summary, 0);
	expect_seen(x, x->order.words[0], 1);
	expect_seen(x, x->order.head[3], KV_NONE);
	expect_seen(x, x->cur, slab);
	x->broken = true;
	cr_expect_eq(kvmm_slab_alloc(x, 1, &one), -EUCLEAN);
	cr_expect_eq(kvmm_slab_free(x, 1, obj), -EUCLEAN);
	cr_expect_eq(slab_shrink(x), 0);
}
