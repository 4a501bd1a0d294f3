/* SPDX-License-Identifier: Apache-2.0 */
/* Caches as pictures, for their tests. */
#ifndef SLAB_UTIL_H
#define SLAB_UTIL_H

#include <kv/alloc.h>

#include "tests/alloc/slab_check.h"
#include "tests/support/test.h"

/* It is its caches' from then on: the last one takes it with it. */
struct kv_zone *slab_zone(u32 nr_blocks);

/* Objects of so many bytes from base blocks of 64 bytes; anything may be wasted. */
struct kvmm_slab_attr slab_attr(const char *name, u64 object_bytes);
struct kvmm_slab_cache *slab_cache(struct kv_zone *zone, const char *name, u64 object_bytes);
struct kvmm_slab_cache *slab_cache_of(struct kv_zone *zone, const struct kvmm_slab_attr *attr);

/* One object, which must be had. */
kvmm_slab_obj_t slab_take(struct kvmm_slab_cache *cache);
void slab_give(struct kvmm_slab_cache *cache, kvmm_slab_obj_t obj);
struct kvmm_slab_place slab_place(struct kvmm_slab_cache *cache, kvmm_slab_obj_t obj);

/*
 * The zone of @nr caches, block by block: '_' is a block that is in no slab; a slab is what is
 * between brackets, a character for each object: the first letter of its cache's name if it
 * lives, a dot if not. All caches are checked. Valid until the next call.
 */
const char *slab_str(struct kvmm_slab_cache *const *caches, u32 nr);

#endif /* SLAB_UTIL_H */
