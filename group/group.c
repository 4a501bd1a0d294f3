// SPDX-License-Identifier: Apache-2.0
/*
 * Groups: their rules, their common parts, and the names of their blocks.
 */
#include <cache/cache.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <pool/internal.h>

#include "internal.h"

#define MAX_ALIGN		BIT(20)

/* ---- lengths ---- */

static u32 gcd(u32 a, u32 b)
{
	while (b) {
		u32 rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static int set_lengths(struct kvmm_groups *groups)
{
	u64 align = 1;
	u32 granule = 0;

	kv_assert(groups->nr && groups->nr <= KVMM_MAX_GROUPS);
	for (u32 i = 0; i < groups->nr; i++) {
		u32 tokens = groups->group[i].rule.block_tokens;

		granule = gcd(tokens, granule);
		align = align / gcd(align, tokens) * tokens;
		if (align > MAX_ALIGN)
			return -EINVAL;
	}
	for (u32 i = 0; i < groups->nr; i++)
		groups->group[i].stride = groups->group[i].rule.block_tokens / granule;
	groups->granule = granule;
	groups->align = align;
	return 0;
}

/* ---- one group ---- */

static int group_init(struct group *group, const struct kvmm_group_attr *attr, u32 id)
{
	struct kvmm_pool *pool = attr->pool;
	bool as_put;
	int err;

	kv_assert(id <= UINT16_MAX);
	if (!pool || attr->kind >= KVMM_NR_GROUP_KINDS ||
	    attr->flags & ~(KVMM_GROUP_DROP_LAST | KVMM_GROUP_ORDER_AS_PUT) ||
	    attr->span > KVMM_GROUPS_MAX_TOKENS ||
	    attr->block_tokens > KVMM_MAX_BLOCK_TOKENS)
		return -EINVAL;
	if (attr->kind == KVMM_GROUP_FULL ? attr->span : !attr->span)
		return -EINVAL;
	err = pool_refusal(pool);
	if (err)
		return err;
	if (!pool->caches)
		return -EOPNOTSUPP;
	/* Names need not be registered one after the other in this pool. */
	as_put = attr->kind != KVMM_GROUP_FULL || attr->flags & KVMM_GROUP_ORDER_AS_PUT;
	if (as_put && pool->prefix_closed)
		return -EINVAL;
	*group = (struct group){
		.rule = {
			.kind = attr->kind,
			.block_tokens = attr->block_tokens ? : pool->block_tokens,
			.span = attr->span,
			.nr_ahead = !!(attr->flags & KVMM_GROUP_DROP_LAST),
		},
		.pool = pool,
		.pad = pool->has_null ? 0 : KVMM_BLOCK_NONE,
		.id = id,
		.as_put = as_put,
	};
	return 0;
}

/* ---- all of them ---- */

u32 groups_end_of_pool(const struct kvmm_groups *groups, u32 i)
{
	const struct kvmm_pool *pool = group_in_order(groups, i)->pool;

	kv_assert(i < groups->nr);
	while (i < groups->nr && group_in_order(groups, i)->pool == pool)
		i++;
	return i;
}

static int groups_init(struct kvmm_groups *groups, const struct kvmm_groups_attr *attr)
{
	u32 nr = 0;
	int err;

	groups->nr = attr->nr;
	for (u32 i = 0; i < attr->nr; i++) {
		err = group_init(&groups->group[i], &attr->group[i], attr->first_id + i);
		if (err)
			return err;
	}
	for (u32 i = 0; i < groups->nr; i++) {
		bool is_first = true;

		for (u32 k = 0; k < i; k++)
			is_first &= groups->group[k].pool != groups->group[i].pool;
		for (u32 k = i; k < groups->nr && is_first; k++)
			if (groups->group[k].pool == groups->group[i].pool)
				groups->order[nr++] = k;
	}
	return set_lengths(groups);
}

int kvmm_groups_create(const struct kvmm_groups_attr *given, struct kvmm_groups **groups)
{
	struct kvmm_groups_attr attr;
	struct kvmm_groups *made;
	int err;

	if (!given || !groups)
		return -EINVAL;
	err = kv_copy_attr(&attr, sizeof(attr), given);
	if (err)
		return err;
	if (!attr.group || !attr.nr || attr.nr > KVMM_MAX_GROUPS ||
	    attr.first_id > UINT16_MAX + 1 - attr.nr)
		return -EINVAL;
	made = kv_alloc(sizeof(*made) + attr.nr * sizeof(made->group[0]));
	if (!made)
		return -ENOMEM;
	err = groups_init(made, &attr);
	if (err) {
		kv_free(made);
		return err;
	}
	for (u32 i = 0; i < made->nr; i++)
		group_set_as_put(made->group[i].pool, made->group[i].id, made->group[i].as_put);
	*groups = made;
	return 0;
}

void kvmm_groups_destroy(struct kvmm_groups *groups)
{
	if (!kv_inherited(groups))
		kv_free(groups);
}

uint32_t kvmm_groups_tokens(const struct kvmm_groups *groups, int of_hit)
{
	if (!groups)
		return 0;
	return of_hit ? groups->align : groups->granule;
}

/* ---- names ---- */

int prompt_check(const struct kvmm_groups *groups, const struct kvmm_prefix *prompt)
{
	if (!groups || !prompt || prompt->position || (prompt->nr && !prompt->keys) ||
	    prompt->nr > KVMM_GROUPS_MAX_TOKENS / groups->granule)
		return -EINVAL;
	return 0;
}

kvmm_domain_t group_domain(const struct group *group, kvmm_domain_t domain)
{
	domain.group = group->id;
	return domain;
}

struct kvmm_prefix group_prefix(const struct group *group, const struct kvmm_prefix *prompt,
				u32 block, u32 nr, struct group_keys *keys)
{
	const kvmm_key_t *first = group_key(group, prompt, block);

	kv_assert(group->stride == 1 || nr <= GROUP_BATCH);
	if (group->stride > 1) {
		for (u32 i = 0; i < nr; i++)
			keys->copy[i] = first[i * group->stride];
		first = keys->copy;
	}
	return (struct kvmm_prefix){
		.keys = first,
		.nr = nr,
		.position = block,
		.parent = block ? group_key(group, prompt, block - 1) : prompt->parent,
		.domain = group_domain(group, prompt->domain),
	};
}
