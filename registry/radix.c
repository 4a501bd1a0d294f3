// SPDX-License-Identifier: Apache-2.0
/* The registry of prefixes: made, counted, ended. Its structure: radix.h. */
#include <kv/env.h>
#include <kv/err.h>

#include "radix.h"

#define MAX_CAPACITY	BIT(30)

/* ---- making ---- */

static bool attr_is_good(const struct kvmm_registry_attr *attr)
{
	return attr && attr->size == sizeof(*attr) && attr->capacity <= MAX_CAPACITY &&
	       attr->nr_tiers && attr->nr_tiers <= KVMM_MAX_TIERS &&
	       !(attr->flags & ~KVMM_REGISTRY_PREFIX_CLOSED);
}

static u32 node_stride(u32 nr_tiers)
{
	return kv_align_up(offsetof(struct node, count) + max(nr_tiers, MIN_COUNTS) * sizeof(u32),
			   KV_CACHELINE);
}

/* Memory for @capacity nodes; a family and, in the end, a position may come with each. */
static int init_memory(struct kvmm_registry *reg, u32 capacity)
{
	int err = radix_slab_init(&reg->slab[NODE], capacity, node_stride(reg->nr_tiers), NODE);

	if (err)
		return err;
	err = radix_slab_init(&reg->slab[RECORD], capacity, sizeof(struct record), RECORD);
	if (err)
		goto out_exit_nodes;
	err = radix_table_init(reg, capacity);
	if (err)
		goto out_exit_records;
	return 0;

out_exit_records:
	radix_slab_exit(&reg->slab[RECORD]);
out_exit_nodes:
	radix_slab_exit(&reg->slab[NODE]);
	return err;
}

int kvmm_registry_create(const struct kvmm_registry_attr *attr, struct kvmm_registry **reg)
{
	struct kvmm_registry *fresh;

	if (!reg || !attr_is_good(attr))
		return -EINVAL;
	fresh = kv_alloc_lines(1, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	fresh->seed = kv_random();
	fresh->gen_base = ((u32)kv_random() & 0x3ffffffe) | 2;
	fresh->nr_tiers = attr->nr_tiers;
	fresh->prefix_closed = attr->flags & KVMM_REGISTRY_PREFIX_CLOSED;
	radix_attach_init(fresh);
	if (init_memory(fresh, attr->capacity)) {
		kv_free(fresh);
		return -ENOMEM;
	}
	*reg = fresh;
	return 0;
}

/* ---- ending ---- */

static void destroy_attachments(struct kvmm_registry *reg)
{
	for (u32 index = 1; reg->attach_bytes && index <= reg->slab[NODE].top; index++) {
		struct node *node = node_at(reg, index);

		if (node->gen & 1 && node->attached)
			radix_attach_destroy(reg, index);
	}
}

void kvmm_registry_destroy(struct kvmm_registry *reg)
{
	if (!reg || kv_inherited(reg))
		return;
	/* Graves belong to us until they are opened. */
	kv_rcu_barrier();
	destroy_attachments(reg);
	radix_table_exit(reg);
	radix_slab_exit(&reg->slab[RECORD]);
	radix_slab_exit(&reg->slab[NODE]);
	kv_free(reg);
}

/* ---- numbers ---- */

static u64 bytes_of(struct kvmm_registry *reg)
{
	u64 bytes = sizeof(*reg) + radix_table_bytes(reg) + READ_ONCE(reg->attach_bytes);

	for (u32 kind = 0; kind < NR_SLOT_KINDS; kind++)
		bytes += radix_slab_bytes(&reg->slab[kind]);
	return bytes;
}

void kvmm_registry_stat(struct kvmm_registry *reg, struct kvmm_registry_stat *stat)
{
	*stat = (struct kvmm_registry_stat){ 0 };
	for (u32 i = 0; i < NR_STRIPES; i++) {
		struct stripe *stripe = &reg->stripe[i];

		kv_lock(&stripe->lock);
		stat->nodes += stripe->nr_nodes;
		stat->positions += stripe->nr_positions;
		for (u32 tier = 0; tier < reg->nr_tiers; tier++)
			stat->names[tier] += stripe->nr_names[tier];
		kv_unlock(&stripe->lock);
	}
	stat->capacity = READ_ONCE(reg->slab[NODE].capacity);
	stat->bytes = bytes_of(reg);
}
