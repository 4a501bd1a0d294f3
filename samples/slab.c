// SPDX-License-Identifier: Apache-2.0
/* States of a hybrid model, which are no whole blocks, in slabs of the blocks of one memory. */
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_STATES	20

static int use(struct kvmm_slab_cache *cache)
{
	kvmm_slab_obj_t state[NR_STATES];
	struct kvmm_slab_place place;
	struct kvmm_slab_stat stat;
	int err = kvmm_slab_alloc(cache, NR_STATES, state);

	if (!err)
		err = kvmm_slab_places(cache, 1, &state[0], &place);
	if (err)
		return err;
	printf("the first state: %llu bytes at %llu\n", (unsigned long long)place.bytes,
	       (unsigned long long)place.offset);
	kvmm_slab_get_stat(cache, &stat);
	printf("%llu states in %llu blocks, %u per mille wasted\n", (unsigned long long)stat.nr_objects,
	       (unsigned long long)stat.nr_blocks, stat.waste_pm);
	return kvmm_slab_free(cache, NR_STATES, state);
}

int main(void)
{
	struct kvmm_slab_attr attr = KVMM_SLAB_ATTR_INIT;
	struct kvmm_slab_cache *cache = NULL;
	int err;

	attr.nr_blocks = 64;
	attr.name = "state";
	attr.object_bytes = 11000;
	attr.base_block_bytes = 16384;
	attr.max_waste_pm = 50;
	attr.keep_empty = 1;
	err = kvmm_slab_cache_create(&attr, &cache);
	if (!err)
		err = use(cache);
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_slab_cache_destroy(cache);
	return err != 0;
}
