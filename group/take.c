// SPDX-License-Identifier: Apache-2.0
/*
 * Room for tokens: how many blocks that takes, and taking them in all groups or in none.
 *
 * The pools are asked for room before anything is taken, while the references on the hits are not
 * yet known to the order of eviction: hits without other references count as needed. So a request
 * that does not fit fails without a trace. Between asking and taking another thread may be faster;
 * then the blocks taken go back, and the victims evicted for them are gone.
 */
#include <pool/internal.h>

#include "internal.h"

/* New blocks of a group, so that it has room for @nr_tokens: from *@from to the result. */
static u32 new_blocks(const struct kvmm_tables *tables, u32 group, u32 nr_tokens, u32 *from)
{
	const struct group_rule *rule = &tables->groups->group[group].rule;
	u32 end = rule_end(rule, nr_tokens);

	kv_assert(group < tables->groups->nr);
	*from = tables->table[group].nr;
	/* States in between are never written. */
	if (rule->kind == KVMM_GROUP_LAST)
		*from = max(*from, rule_first(rule, nr_tokens));
	return max(end, *from);
}

/* ---- does it fit? ---- */

/**
 * struct need - demand on the pools, by group
 * @tenant: pays for the new blocks
 * @reserve: to stay available beside it, in each pool
 * @held: has references on the hits, which alone are no request; NULL: they have been put
 * @nr_new: blocks
 * @nr_idle: hits without other references
 */
struct need {
	u32 tenant;
	u32 reserve;
	const struct kvmm_tables *held;
	u32 nr_new[KVMM_MAX_GROUPS];
	u32 nr_idle[KVMM_MAX_GROUPS];
};

/* The demand on one pool: of the groups from @first on in groups->order. */
struct fit {
	struct alloc_ctx ctx;
	const struct kvmm_tables *tables;
	u32 first;
};

/* Other threads that look for victims drop some of the hits from the order: each is asked about. */
static u32 hit_at(const struct alloc_ctx *ctx, u32 i)
{
	const struct fit *fit = container_of(ctx, const struct fit, ctx);

	kv_assert(i < ctx->nr_hits);
	for (u32 k = fit->first;; k++) {
		u32 group = fit->tables->groups->order[k];
		const struct table *table = &fit->tables->table[group];

		if (i < table->nr - table->low)
			return ref_of_slot(*table_slot(fit->tables, group, table->low + i)).index;
		i -= table->nr - table->low;
	}
}

/* 0, -ENOSPC, -EDQUOT, or what a pool says. Most steps of a decode want nothing. */
static int check_fit(const struct kvmm_groups *groups, const struct need *need)
{
	int err = 0;
	u32 end;

	for (u32 i = 0; i < groups->nr && !err; i = end) {
		struct fit fit = { .ctx = { .tenant = need->tenant, .reserve = need->reserve,
					    .hit_at = hit_at },
				   .tables = need->held, .first = i };
		struct alloc_ctx *ctx = &fit.ctx;
		u32 nr_hits = 0;

		end = groups_end_of_pool(groups, i);
		for (u32 k = i; k < end; k++) {
			u32 group = groups->order[k];
			const struct table *table = need->held ? &need->held->table[group] : NULL;

			ctx->nr += need->nr_new[group];
			ctx->nr_idle += need->nr_idle[group];
			nr_hits += table ? table->nr - table->low : 0;
		}
		ctx->nr_hits = ctx->nr_idle ? nr_hits : 0;
		if (ctx->nr || (ctx->nr_idle && !need->held))
			err = pool_fits(group_in_order(groups, i)->pool, ctx);
	}
	return err;
}

/* ---- reserve ---- */

static int take_new(struct kvmm_tables *tables, u32 group, u32 nr_tokens, u32 reserve)
{
	const struct group *g = &tables->groups->group[group];
	struct table *table = &tables->table[group];
	u32 from, end = new_blocks(tables, group, nr_tokens, &from);
	struct kvmm_acquire_args req = { .nr_blocks = end - from, .reserve = reserve,
					 .fresh = table_slot(tables, group, from),
					 .domain = group_domain(g, tables->domain) };
	int err = end > from ? acquire_uncounted(g->pool, &req, false) : 0;

	kv_assert(group < tables->groups->nr);
	if (!err)
		table->nr = max(table->nr, end);
	return err;
}

/* Room for @nr_tokens, for which there is memory. */
static int reserve_blocks(struct kvmm_tables *tables, u32 nr_tokens, u32 reserve)
{
	u32 nr[KVMM_MAX_GROUPS];
	int err = 0;

	kv_assert(nr_tokens <= tables->max_tokens);
	for (u32 i = 0; i < tables->groups->nr; i++)
		nr[i] = tables->table[i].nr;
	for (u32 i = 0; i < tables->groups->nr && !err; i++)
		err = take_new(tables, i, nr_tokens, reserve);
	for (u32 i = 0; i < tables->groups->nr && err; i++) {
		table_drop(tables, i, nr[i], tables->table[i].nr);
		tables->table[i].nr = nr[i];
	}
	return err;
}

/* Does it fit beside the hits? No request can have those, though the order has them. */
static int check_room(const struct kvmm_tables *tables, u32 nr_tokens, u32 reserve)
{
	struct need need = { .tenant = tables->domain.tenant, .reserve = reserve,
			     .held = tables };

	for (u32 i = 0; i < tables->groups->nr; i++) {
		u32 from, end = new_blocks(tables, i, nr_tokens, &from);

		need.nr_new[i] = end - from;
		need.nr_idle[i] = tables->table[i].nr_idle;
	}
	return check_fit(tables->groups, &need);
}

int kvmm_groups_reserve(struct kvmm_tables *tables, uint32_t nr_tokens, uint32_t reserve)
{
	int err;

	if (kv_inherited(tables))
		return -ECHILD;
	if (!tables || nr_tokens > KVMM_GROUPS_MAX_TOKENS)
		return -EINVAL;
	err = check_room(tables, nr_tokens, reserve);
	if (!err)
		err = tables_grow(tables, nr_tokens);
	return err ? : reserve_blocks(tables, nr_tokens, reserve);
}

/* ---- acquire ---- */

static int acquire(struct kvmm_tables *tables, const struct kvmm_groups_acquire_args *req)
{
	u32 max_tokens = min(req->max_hit_tokens, req->nr_tokens), end = req->nr_tokens;
	int err = hit_get(tables, &req->prompt, max_tokens);

	if (err)
		return err;
	if (req->step_tokens)	/* where the first step ends, behind a hit */
		end = tables->hit_tokens + min(req->step_tokens, end - tables->hit_tokens);
	err = check_room(tables, end, req->reserve);
	if (err) {
		hit_put(tables);
		return err;
	}
	quiet_seen(tables->groups, &req->prompt, max_tokens);
	hit_keep(tables);
	err = reserve_blocks(tables, end, req->reserve);
	if (err)
		return err;
	hit_count(tables, &req->prompt, max_tokens, req->nr_tokens);
	for (u32 i = 0; i < tables->groups->nr; i++) {
		const struct group *g = &tables->groups->group[i];

		tally_add(g->pool, TALLY_SHORT, req->prompt.nr < g->stride && req->nr_tokens);
	}
	return 0;
}

/* ---- admission ---- */

/* Blocks that each group would take of the available ones. Hits are given back in the end. */
static int count_needed(struct kvmm_tables *tables, struct kvmm_groups_acquire_args *need)
{
	const struct kvmm_groups *groups = tables->groups;
	struct need of_pools = { .tenant = tables->domain.tenant, .reserve = need->reserve };

	kv_assert(tables->committed == tables->hit_tokens);
	need->hit_tokens = tables->hit_tokens;
	need->total = 0;
	for (u32 i = 0; i < groups->nr; i++) {
		u32 idle = tables->table[i].nr_idle, from;
		u32 end = new_blocks(tables, i, need->nr_tokens, &from), nr = idle + end - from;

		if (need->step_tokens)
			nr = min(idle + end - tables->table[i].nr,
				 rule_cap(&groups->group[i].rule,
					  min(need->step_tokens, need->nr_tokens)));
		need->blocks[i] = nr;
		need->total += nr;
		of_pools.nr_idle[i] = min(idle, nr);
		of_pools.nr_new[i] = nr - of_pools.nr_idle[i];
	}
	hit_put(tables);
	return check_fit(groups, &of_pools);
}

int kvmm_groups_acquire_sized(const struct kvmm_groups *groups,
			      struct kvmm_groups_acquire_args *req,
			      struct kvmm_tables **tables, size_t size)
{
	struct kvmm_tables *made;
	int err;

	if (kv_inherited(groups))
		return -ECHILD;
	if (!kv_args_are_known(req, size, sizeof(*req)) ||
	    req->nr_tokens > KVMM_GROUPS_MAX_TOKENS)
		return -EINVAL;
	err = prompt_check(groups, &req->prompt);
	if (err)
		return err;
	made = tables_create(groups, &req->prompt, req->nr_tokens);
	if (!made)
		return -ENOMEM;
	if (tables) {
		err = acquire(made, req);
	} else {
		err = hit_get(made, &req->prompt, min(req->max_hit_tokens, req->nr_tokens));
		if (!err)
			err = count_needed(made, req);
	}
	if (!err && tables) {
		req->hit_tokens = made->hit_tokens;
		*tables = made;
		return 0;
	}
	kvmm_groups_release(made);
	return err;
}
