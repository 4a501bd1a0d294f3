/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of entries with a map on it, and blocks named by numbers, for tests.
 *
 *	struct fixture fix = fixture_make(&kv_map_flat, 64);
 *	struct kv_handle handle = put_in(&fix, 7);	// registered, one reference
 *
 *	drop(&fix, handle);
 *	expect_sound(&fix, 1);
 *	fixture_end(&fix);				// checks, and that nothing is left
 */
#ifndef MAP_UTIL_H
#define MAP_UTIL_H

#include <kv/entry.h>
#include <kv/registry_map.h>

#include "tests/support/test.h"

struct fixture {
	struct kv_entries entries;
	struct kv_map *map;
	const struct kv_map_ops *ops;
};

#define TEST_DOMAIN	((kvmm_domain_t){ .tenant = 1, .layout = 2, .group = 3 })

struct fixture fixture_make(const struct kv_map_ops *ops, u32 nr_entries);
/* Frees all; blocks may still be registered. */
void fixture_end(struct fixture *fix);

kvmm_key_t key_of(u64 number);
struct kv_name name_of(u64 number);

/* PRIVATE, then STAGED under this name. */
struct kv_handle take(struct fixture *fix);
struct kv_handle stage(struct fixture *fix, u64 number);
struct kv_handle stage_as(struct fixture *fix, const struct kv_name *name);

/* Registered, with the reference of its owner. */
struct kv_handle put_in(struct fixture *fix, u64 number);
void register_all(struct fixture *fix, const struct kv_handle *handles, u32 nr);

/* Give one reference back. */
void drop(struct fixture *fix, struct kv_handle handle);
/* Claimed, forgotten, free; nobody references it. */
void evict(struct fixture *fix, struct kv_handle handle);

/* The block that answers to this name, with a reference; .gen is 0 if none does. */
struct kv_handle find(struct fixture *fix, u64 number);
struct kv_handle find_in(struct fixture *fix, u64 number, kvmm_domain_t domain);

void expect_sound(struct fixture *fix, u32 nr_in_map);

static inline bool same_handle(struct kv_handle a, struct kv_handle b)
{
	return a.index == b.index && a.gen == b.gen;
}

#endif /* MAP_UTIL_H */
