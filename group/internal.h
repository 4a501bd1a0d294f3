/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups inside pool/: rules, which know neither pools nor keys, and how they apply to pools.
 *
 * A rule is an interval: to go on at token n, a group needs blocks [rule_first(n), n / block). It
 * never moves left as n grows. All else follows from that: the longest hit, the blocks that a
 * request keeps and may give back, those worth registering, and how many it holds at a time.
 *
 * Invariants of tables:
 *
 *  1. Slots of a table below ->low and from ->nr on hold nothing: they are 0.
 *  2. Any other slot holds one reference (SLOT_REF), one private block, or nothing.
 *  3. Private blocks below ->done, which commits do not look at again, are those that no hit can
 *     need, and states that a step went past. ->done is at most the blocks that ->committed tokens
 *     fill.
 *  4. No group has less than rule_end(->committed) slots.
 */
#ifndef GROUP_INTERNAL_H
#define GROUP_INTERNAL_H

#include <kv/bits.h>
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/types.h>
#include <kvmm/ext/group.h>
#include <kvmm/pool.h>

/* ---- rule.c ---- */

struct group_rule {
	u32 kind;		/* enum kvmm_group_kind */
	u32 block_tokens;
	u32 span;		/* window or chunk in tokens, or number of states */
	u32 nr_ahead;		/* blocks behind a hit that must be cached: 0 or 1 */
};

/* First block that is needed, to go on at token number @tokens. */
u32 rule_first(const struct group_rule *rule, u32 tokens);

/* Blocks that @tokens tokens begin. */
static inline u32 rule_end(const struct group_rule *rule, u32 tokens)
{
	return (tokens + rule->block_tokens - 1) / rule->block_tokens;
}

/* May a hit, which is a multiple of @align tokens, ever need this block? */
bool rule_is_useful(const struct group_rule *rule, u32 align, u32 block);

/* Most blocks that a request holds: it computes @step tokens a step, and trims after each. */
u32 rule_cap(const struct group_rule *rule, u32 step);

/**
 * struct presence - which blocks are cached
 * @run: how many of [@first, @first + @nr) are cached, up to the first one that is not
 */
struct presence {
	u32 (*run)(const struct presence *presence, u32 group, u32 first, u32 nr);
};

/**
 * struct look - one group's part in the search for the longest hit
 *
 * Asks for each block once at most, and for few: where a window misses its first block, the others
 * are not asked for.
 *
 * @rule, @presence, @group: of the group; set by the caller, and so is
 * @nr: blocks that have a key
 * @low: blocks asked for so far lie at or behind this one, and those still of interest among them
 *	are cached
 */
struct look {
	const struct group_rule *rule;
	const struct presence *presence;
	u32 group;
	u32 nr;
	u32 low;
};

/* Longest prefix of at most @tokens, a multiple of @align, that hits in all groups. Sets @low. */
u32 looks_longest(struct look *look, u32 nr, u32 align, u32 tokens);

/* ---- group.c ---- */

/**
 * struct group - one group; all fixed at creation
 * @stride: keys a block
 * @pad: entry of a block table where there is no block
 */
struct group {
	struct group_rule rule;
	struct kvmm_pool *pool;		/* borrowed */
	u32 stride;
	u32 pad;
	u32 id;				/* in domains */
	bool as_put;			/* not leaf first */
};

/**
 * struct kvmm_groups - all fixed at creation
 * @order: groups of one pool one after the other
 */
struct kvmm_groups {
	u32 nr;
	u32 granule;
	u32 align;
	u32 order[KVMM_MAX_GROUPS];
	struct group group[];
};

/* The i-th in ->order. */
static inline const struct group *group_in_order(const struct kvmm_groups *groups, u32 i)
{
	return &groups->group[groups->order[i]];
}

/* First group in ->order that is of another pool than the @i-th. */
u32 groups_end_of_pool(const struct kvmm_groups *groups, u32 i);

kvmm_domain_t group_domain(const struct group *group, kvmm_domain_t domain);

/* 0 or -EINVAL. */
int prompt_check(const struct kvmm_groups *groups, const struct kvmm_prefix *prompt);

/* Name of block @block; its last granule's. */
static inline const kvmm_key_t *group_key(const struct group *group,
					  const struct kvmm_prefix *prompt, u32 block)
{
	return &prompt->keys[(block + 1) * group->stride - 1];
}

/* Names of up to GROUP_BATCH blocks one after the other; may need room for copies. */
#define GROUP_BATCH	64u

struct group_keys {
	kvmm_key_t copy[GROUP_BATCH];
};

/* Blocks [@block, @block + @nr) as the pool knows them; valid as long as @keys is. */
struct kvmm_prefix group_prefix(const struct group *group, const struct kvmm_prefix *prompt,
				u32 block, u32 nr, struct group_keys *keys);

/* ---- hit.c ---- */

/*
 * Quiet references on all that the longest hit needs, in empty tables with room for it: 0, or a
 * pool's errno. Then either of the others.
 */
int hit_get(struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 max_tokens);
void hit_keep(struct kvmm_tables *tables);
void hit_put(struct kvmm_tables *tables);
/* As kvmm_prefix_match() counts; @max_tokens: of the hit, @nr_tokens: of the request. */
void hit_count(const struct kvmm_tables *tables, const struct kvmm_prefix *prompt, u32 max_tokens,
	       u32 nr_tokens);

/* ---- table.c ---- */

/* A slot is a handle; this bit of its index says that it is a reference. */
#define SLOT_REF	BIT(31)

static_assert(KVMM_MAX_BLOCKS <= SLOT_REF, "an index leaves room for the bit");

/**
 * struct table - the blocks of one group
 * @base: first slot, in kvmm_tables.slot
 * @nr: slots in use: blocks [0, @nr)
 * @low: nothing is held below
 * @done: full blocks below were considered for registration
 * @nr_idle: hits that had no reference before
 */
struct table {
	u32 base;
	u32 nr;
	u32 low;
	u32 done;
	u32 nr_idle;
};

/* The blocks of one request. All is its caller's: one thread at a time. */
struct kvmm_tables {
	const struct kvmm_groups *groups;	/* borrowed */
	kvmm_domain_t domain;
	u32 hit_tokens;
	u32 committed;				/* tokens */
	u32 max_tokens;				/* that the slots are for */
	kvmm_mut_t *slot;			/* ours; of all groups */
	struct table table[KVMM_MAX_GROUPS];
};

static inline bool slot_is_held(kvmm_mut_t slot)
{
	return slot.gen;
}

static inline bool slot_is_ref(kvmm_mut_t slot)
{
	return slot.index & SLOT_REF;
}

static inline kvmm_mut_t slot_of_ref(kvmm_ref_t ref)
{
	return (kvmm_mut_t){ ref.index | SLOT_REF, ref.gen };
}

static inline kvmm_ref_t ref_of_slot(kvmm_mut_t slot)
{
	return (kvmm_ref_t){ slot.index & ~SLOT_REF, slot.gen };
}

static inline kvmm_mut_t *table_slot(const struct kvmm_tables *tables, u32 group, u32 block)
{
	return &tables->slot[tables->table[group].base + block];
}

/* Empty ones with room for @nr_tokens: NULL if there is no memory. */
struct kvmm_tables *tables_create(const struct kvmm_groups *groups,
				  const struct kvmm_prefix *prompt, u32 nr_tokens);
/* Room for @nr_tokens: 0 or -ENOMEM. */
int tables_grow(struct kvmm_tables *tables, u32 nr_tokens);
/* Give back blocks [@from, @to) of a group, last first: 0 or the pool's errno. */
int table_drop(struct kvmm_tables *tables, u32 group, u32 from, u32 to);
/* Forget all slots without giving back their references and blocks. */
void tables_clear(struct kvmm_tables *tables);
/* The invariants above: 0 or -EUCLEAN. */
int tables_check(const struct kvmm_tables *tables);

/* ---- quiet.c ---- */

/* References unknown to the order of eviction: dropped again, they leave no trace. */

/* All of @prefix: how many had no reference; -EAGAIN one is not cached (then none is taken). */
int quiet_get(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, kvmm_ref_t *refs);
/* They stay: from here on they are as any others. @was_idle: some of them may have been. */
void quiet_keep(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr, bool was_idle);
void quiet_put(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr);

/* A request asks for these names, cached or not. */
void quiet_seen(const struct kvmm_groups *groups, const struct kvmm_prefix *prompt, u32 max_tokens);

#endif /* GROUP_INTERNAL_H */
