// SPDX-License-Identifier: Apache-2.0
/* Engines, policies and maps from outside of the library are chosen by name, as its own are. */
#include <kv/evict.h>
#include <kv/registry_map.h>
#include <kv/zone.h>

#include "tests/support/test.h"

#define MAX_NAMES	64u

static struct kv_zone_ops engine;
static struct kv_evict_ops policy;
static struct kv_map_ops map;

static void add_all(void)
{
	engine = kv_zone_runs;
	engine.name = "added-engine";
	kv_zone_add_engine(&engine);
	policy = kv_evict_lru;
	policy.name = "added-policy";
	kv_evict_add(&policy);
	map = kv_map_flat;
	map.name = "added-map";
	kv_map_add(&map);
}

TestSuite(research_add, .init = add_all);

Test(research_add, names_are_listed_behind_the_librarys)
{
	const char *names[MAX_NAMES];
	u32 nr = kv_zone_engines(names, MAX_NAMES);

	cr_assert(nr > 1 && nr <= MAX_NAMES);
	cr_expect_str_eq(names[0], "zone");
	cr_expect_str_eq(names[nr - 1], "added-engine");

	nr = kvmm_policies(names, MAX_NAMES);
	cr_assert(nr > 1 && nr <= MAX_NAMES);
	cr_expect_str_eq(names[0], "lrfu");
	cr_expect_str_eq(names[nr - 1], "added-policy");
}

Test(research_add, a_pool_is_made_of_what_was_added)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8,
				       .allocator = "added-engine", .policy = "added-policy",
				       .index = "added-map" };
	struct kvmm_pool *pool;

	cr_assert_eq(kvmm_pool_create(&attr, &pool), 0);
	kvmm_pool_destroy(pool);
	cr_expect_eq(kv_map_find("added-map"), &map);
}

Test(research_add, what_was_not_added_is_not_there)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "lru",
				       .index = "added-maps" };
	struct kvmm_pool *pool;

	cr_expect_eq(kvmm_pool_create(&attr, &pool), -ENOENT);
	attr.index = NULL;
	attr.policy = "added-polic";
	cr_expect_eq(kvmm_pool_create(&attr, &pool), -ENOENT);
	attr.policy = "lru";
	attr.allocator = "added";
	cr_expect_eq(kvmm_pool_create(&attr, &pool), -ENOENT);
}
