// SPDX-License-Identifier: Apache-2.0
/* See map_util.h. */
#include <kv/rcu.h>

#include "map_util.h"

struct fixture fixture_make(const struct kv_map_ops *ops, u32 nr_entries)
{
	struct kv_entries_attr attr = { .nr = nr_entries };
	struct fixture fix = { .ops = ops };

	cr_assert_eq(kv_entries_init(&fix.entries, &attr), 0);
	return fix;
}

/* The map borrows the entries, so it is made where they stay. */
static void need_map(struct fixture *fix)
{
	struct kv_map_attr attr = { &fix->entries, fix->entries.nr, 0x5eed, true };

	if (!fix->map)
		cr_assert_eq(fix->ops->create(&attr, &fix->map), 0);
}

void fixture_end(struct fixture *fix)
{
	cr_expect_eq(kv_entries_check(&fix->entries), 0);
	if (fix->map)
		fix->ops->destroy(fix->map);
	kv_entries_exit(&fix->entries);
	kv_rcu_barrier();
	cr_expect_eq(kv_mem_bytes(), 0);
}

kvmm_key_t key_of(u64 number)
{
	u64 word[2] = { number, ~number };
	kvmm_key_t key;

	memcpy(&key, word, sizeof(key));
	return key;
}

struct kv_name name_of(u64 number)
{
	return (struct kv_name){
		.key = key_of(number), .domain = TEST_DOMAIN, .parent = KV_NONE,
		.position = (u32)number,
	};
}

struct kv_handle take(struct fixture *fix)
{
	struct kv_handle handle;

	cr_assert_eq(kv_entries_take(&fix->entries, 1, &handle), 0);
	return handle;
}

struct kv_handle stage_as(struct fixture *fix, const struct kv_name *name)
{
	struct kv_handle handle = take(fix);

	cr_assert_eq(kv_entry_stage(&fix->entries, handle, name, false), 0);
	return handle;
}

struct kv_handle stage(struct fixture *fix, u64 number)
{
	struct kv_name name = name_of(number);

	return stage_as(fix, &name);
}

void register_all(struct fixture *fix, const struct kv_handle *handles, u32 nr)
{
	struct kv_handle found[nr + 1];
	struct kv_insert insert = { .handles = handles, .nr = nr, .found = found };

	need_map(fix);
	cr_assert_eq(fix->ops->insert(fix->map, &insert), 0);
	for (u32 i = 0; i < nr; i++)
		cr_assert(same_handle(found[i], handles[i]));
}

struct kv_handle put_in(struct fixture *fix, u64 number)
{
	struct kv_handle handle = stage(fix, number);

	register_all(fix, &handle, 1);
	return handle;
}

void drop(struct fixture *fix, struct kv_handle handle)
{
	cr_assert_geq(kv_handle_step(&fix->entries, handle, kv_edge_put), 0);
}

void evict(struct fixture *fix, struct kv_handle handle)
{
	u32 nr = 1;

	cr_assert_eq(kv_handle_step(&fix->entries, handle, kv_edge_claim), 0);
	cr_assert_eq(fix->ops->remove(fix->map, &handle, &nr), 0);
	cr_assert_eq(nr, 1);
	cr_assert_eq(kv_entry_free(&fix->entries, handle), 0);
}

struct kv_handle find_in(struct fixture *fix, u64 number, kvmm_domain_t domain)
{
	kvmm_key_t key = key_of(number);
	struct kv_query query = { &key, 1, domain };
	struct kv_handle handle = { 0 };
	struct kv_lookup lookup = { .refs = &handle };

	need_map(fix);
	fix->ops->lookup(fix->map, &query, &lookup);
	return handle;
}

struct kv_handle find(struct fixture *fix, u64 number)
{
	return find_in(fix, number, TEST_DOMAIN);
}

void expect_sound(struct fixture *fix, u32 nr_in_map)
{
	u32 nr = ~nr_in_map;

	need_map(fix);
	cr_expect_eq(kv_entries_check(&fix->entries), 0);
	cr_expect_eq(fix->ops->check(fix->map, &nr), 0);
	cr_expect_eq(nr, nr_in_map);
}
