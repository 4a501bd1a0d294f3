// SPDX-License-Identifier: Apache-2.0
/*
 * How long a slab should be: the shortest one that wastes no more than allowed.
 *
 * All in integers of 64 bits: 64 blocks of at most 2^36 bytes, times 1000, are below 2^52.
 */
#include "slab.h"

static bool attr_is_good(const struct kvmm_slab_attr *attr)
{
	u64 align = attr->align ? attr->align : 1;

	if (!attr->base_block_bytes || attr->base_block_bytes > KVMM_SLAB_MAX_BYTES)
		return false;
	if (!attr->object_bytes || attr->object_bytes > KVMM_SLAB_MAX_BYTES * KVMM_SLAB_MAX_BLOCKS)
		return false;
	if (!kv_is_pow2(align) || align > KVMM_SLAB_MAX_BYTES || attr->max_waste_pm > 1000)
		return false;
	return attr->colour_bytes <= KVMM_SLAB_MAX_BYTES && !(attr->colour_bytes & (align - 1));
}

/* nr_objects is 0 if a slab of @nr blocks will not do at all. */
static struct kv_slab_shape shape_of(const struct kvmm_slab_attr *attr, u32 nr)
{
	struct kv_slab_shape shape = { .nr_blocks = nr };
	u64 align = attr->align ? attr->align : 1, nr_objects = 0, over;
	u64 by_itself = attr->base_block_bytes & -attr->base_block_bytes;	/* is aligned */

	kv_assert(nr && nr <= KVMM_SLAB_MAX_BLOCKS);
	shape.slab_bytes = nr * attr->base_block_bytes;
	shape.stride = kv_align_up(attr->object_bytes, align);
	if (shape.slab_bytes >= attr->object_bytes)	/* the last object needs no gap behind it */
		nr_objects = (shape.slab_bytes - attr->object_bytes) / shape.stride + 1;
	if (!nr_objects || nr_objects > KVMM_SLAB_MAX_OBJECTS)
		return (struct kv_slab_shape){ 0 };
	shape.nr_objects = nr_objects;
	shape.block_align = align > by_itself ? align / by_itself : 1;
	over = shape.slab_bytes - (nr_objects - 1) * shape.stride - attr->object_bytes;
	shape.nr_colours = attr->colour_bytes ?
			   min(over / attr->colour_bytes, (u64)KV_NONE - 1) + 1 : 1;
	shape.waste_bytes = shape.slab_bytes - nr_objects * attr->object_bytes;
	shape.waste_pm = (shape.waste_bytes * 1000 + shape.slab_bytes - 1) / shape.slab_bytes;
	return shape;
}

int slab_shape(u32 nr_blocks, const struct kvmm_slab_attr *attr, struct kv_slab_shape *shape)
{
	struct kv_slab_shape least = { 0 };

	if (!attr_is_good(attr))
		return -EINVAL;
	for (u32 nr = 1; nr <= min(nr_blocks, KVMM_SLAB_MAX_BLOCKS); nr++) {
		struct kv_slab_shape this = shape_of(attr, nr);

		if (!this.nr_objects || this.block_align > nr_blocks)
			continue;
		if (!least.nr_objects ||
		    this.waste_bytes * least.nr_blocks < least.waste_bytes * nr)
			least = this;
		if (this.waste_bytes * 1000 <= attr->max_waste_pm * this.slab_bytes) {
			*shape = this;
			return 0;
		}
	}
	*shape = least;
	return -ERANGE;
}
