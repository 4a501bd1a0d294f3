// SPDX-License-Identifier: Apache-2.0
/* The registry of prefixes: made, counted, ended. Its structure: radix.h. */
#include <kv/env.h>
#include <kv/err.h>

#include "radix.h"

#define MAX_CAPACITY	BIT(30)

/* ---- making ---- */

/* Memory for @capacity nodes; a family and, in the end, a position may come with each. */
static int init_memory(struct kvmm_registry *reg, u32 capacity)
{
	u32 nr_counts = max(reg->nr_tiers, MIN_COUNTS);
	u32 stride = kv_align_up(offsetof(struct node, count) + nr_counts * sizeof(u32),
				 KV_CACHELINE);
	int err = radix_slab_init(&reg->slab[NODE], capacity, stride, NODE);

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

	if (!reg || !attr || attr->size != sizeof(*attr) || attr->capacity > MAX_CAPACITY ||
	    !attr->nr_tiers || attr->nr_tiers > KVMM_MAX_TIERS ||
	    attr->flags & ~KVMM_REGISTRY_PREFIX_CLOSED)
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

void kvmm_registry_destroy(struct kvmm_registry *reg)
{
	if (!reg || kv_inherited(reg))
		return;
	/* Graves belong to us until they are opened. */
	kv_rcu_barrier();
	for (u32 index = 1; reg->attach_bytes && index <= reg->slab[NODE].top; index++) {
		const struct node *node = node_at(reg, index);

		if (node->gen & 1 && node->attached)
			radix_attach_destroy(reg, index);
	}
	kv_assert(!reg->attach_bytes && !reg->in_graves);
	radix_table_exit(reg);
	radix_slab_exit(&reg->slab[RECORD]);
	radix_slab_exit(&reg->slab[NODE]);
	kv_free(reg);
}

/* ---- numbers ---- */

int kvmm_registry_get_stat_sized(struct kvmm_registry *reg, struct kvmm_registry_stat *stat,
				 size_t size)
{
	struct kvmm_registry_stat now = { 0 };

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || kv_size_is_bad(stat, size))
		return -EINVAL;
	for (u32 i = 0; i < NR_STRIPES; i++) {
		struct stripe *stripe = &reg->stripe[i];

		kv_lock(&stripe->lock);
		now.nodes += stripe->nr_nodes;
		now.positions += stripe->nr_positions;
		for (u32 tier = 0; tier < reg->nr_tiers; tier++)
			now.names[tier] += stripe->nr_names[tier];
		kv_unlock(&stripe->lock);
	}
	now.capacity = READ_ONCE(reg->slab[NODE].capacity);
	now.bytes = sizeof(*reg) + radix_table_bytes(reg) + READ_ONCE(reg->attach_bytes);
	for (u32 kind = 0; kind < NR_SLOT_KINDS; kind++)
		now.bytes += radix_slab_bytes(&reg->slab[kind]);
	kv_give(stat, size, &now, sizeof(now));
	return 0;
}
