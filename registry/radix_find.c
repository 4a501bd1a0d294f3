// SPDX-License-Identifier: Apache-2.0
/*
 * The registry of prefixes: which names are there, in which tiers. No lock, nothing written.
 *
 * A look-up takes two lines a name, the head of its chain and its node, and the time goes into
 * waiting for them. So names are worked on in groups, in three steps: hash them all and ask for the
 * heads, ask for the first node of each chain, compare names. Groups follow each other at a
 * distance of one step. Nodes after the first of a chain are rarely needed: see the table.
 */
#include <kv/err.h>

#include "radix.h"

/* About as many lines as a core can wait for. Two rounds of it bisect 1024. */
#define GROUP		32u

/* The names that are looked for, and where. */
struct look {
	const struct kvmm_registry *reg;
	const struct table *table;
	const struct kvmm_prefix *prefix;
	u64 domain;
	u64 seed;		/* of the domain */
};

/* Some names of a prefix: @first and every @step-th after it. */
struct group {
	u32 nr;
	u32 first;
	u32 step;
	const struct chains *chains[GROUP];
	u32 index[GROUP];	/* first of the chain, then the node, or 0 */
};

static struct look look_at(const struct kvmm_registry *reg, const struct kvmm_prefix *prefix)
{
	u64 domain = kv_domain_word(prefix->domain);

	return (struct look){ reg, kv_rcu_dereference(reg->table), prefix, domain,
			      domain_seed(reg->seed, domain) };
}

static __always_inline u32 name_nr(const struct group *group, u32 j)
{
	return group->first + j * group->step;
}

static __always_inline void key_at(const struct look *look, u32 i, u64 key[2])
{
	kv_key_words(&look->prefix->keys[i], key);
}

static void ask_for_chains(const struct look *look, struct group *group)
{
	kv_assert_reading();
	kv_assert(group->nr <= GROUP);
	for (u32 j = 0; j < group->nr; j++) {
		u32 i = name_nr(group, j);
		u64 key[2], hash;

		key_at(look, i, key);
		hash = hash_words(key, look->prefix->position + i, look->seed);
		group->chains[j] = chains_of(look->table, hash);
		kv_prefetch(group->chains[j]);
	}
}

static void ask_for_nodes(const struct look *look, struct group *group)
{
	kv_assert_reading();
	for (u32 j = 0; j < group->nr; j++) {
		/* Pairs with radix_chain_add(): the node has its name. */
		u32 index = smp_load_acquire(&group->chains[j]->first[NODE]);

		group->index[j] = index;
		if (index)
			kv_prefetch(named_at(look->reg, NODE, index));
	}
}

static __always_inline u32 find_in_chain(const struct look *look, const struct group *group, u32 j)
{
	u32 i = name_nr(group, j);
	u64 key[2];

	kv_assert_reading();
	kv_assert(j < group->nr && i < look->prefix->nr);
	key_at(look, i, key);
	return chain_find(look->reg, look->table->parity, group->index[j], key, look->domain,
			  look->prefix->position + i);
}

static u32 tiers_of(const struct look *look, u32 index)
{
	return index ? READ_ONCE(node_at(look->reg, index)->name.mask) : 0;
}

/* How many of the group, from the first on, are in one of @tiers. */
static u32 group_len(const struct look *look, const struct group *group, u32 tiers)
{
	u32 j = 0;

	while (j < group->nr && tiers_of(look, find_in_chain(look, group, j)) & tiers)
		j++;
	return j;
}

/* ---- lines of groups: g is compared while g + 1 waits for nodes and g + 2 for chains ---- */

#define NR_GROUPS	3u

struct line {
	struct group group[NR_GROUPS];
};

static struct group *line_at(struct line *line, u32 g)
{
	return &line->group[g % NR_GROUPS];
}

static void line_enter(const struct look *look, struct line *line, u32 g)
{
	struct group *group = line_at(line, g);

	group->first = min((u64)g * GROUP, (u64)look->prefix->nr);
	group->step = 1;
	group->nr = min(look->prefix->nr - group->first, GROUP);
	ask_for_chains(look, group);
}

static void line_start(const struct look *look, struct line *line)
{
	line_enter(look, line, 0);
	line_enter(look, line, 1);
	ask_for_nodes(look, line_at(line, 0));
}

/* Group @g is ready. */
static struct group *line_step(const struct look *look, struct line *line, u32 g)
{
	line_enter(look, line, g + 2);
	ask_for_nodes(look, line_at(line, g + 1));
	return line_at(line, g);
}

/* ---- length ---- */

static u32 len_linear(const struct look *look, u32 tiers)
{
	struct line line;
	u32 len = 0;

	line_start(look, &line);
	for (u32 g = 0; len == g * GROUP && len < look->prefix->nr; g++)
		len += group_len(look, line_step(look, &line, g), tiers);
	return len;
}

/* Names before @lo are there, the one at @hi is not; one that is there vouches for those before. */
static u32 len_bisect(const struct look *look, u32 tiers)
{
	u32 lo = 0, hi = look->prefix->nr;
	struct group group;

	kv_assert(look->reg->prefix_closed);
	while (lo < hi) {
		u32 hits;

		/* At most GROUP names at even distances in [lo, hi), the last one among them. */
		group.step = (hi - lo + GROUP - 1) / GROUP;
		group.nr = (hi - lo + group.step - 1) / group.step;
		group.first = hi - 1 - (group.nr - 1) * group.step;
		ask_for_chains(look, &group);
		ask_for_nodes(look, &group);
		hits = group_len(look, &group, tiers);
		if (hits < group.nr)
			hi = name_nr(&group, hits);
		if (hits)
			lo = name_nr(&group, hits - 1) + 1;
	}
	return lo;
}

static bool is_prefix(const struct kvmm_prefix *prefix)
{
	struct batch batch;

	return !radix_batch_of(prefix, &batch);
}

int kvmm_registry_len(struct kvmm_registry *reg, const struct kvmm_prefix *prefix, uint32_t tiers)
{
	struct look look;
	u32 len;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || !is_prefix(prefix))
		return -EINVAL;
	kv_rcu_read_lock();
	look = look_at(reg, prefix);
	len = reg->prefix_closed ? len_bisect(&look, tiers) : len_linear(&look, tiers);
	kv_rcu_read_unlock();
	return len;
}

/* ---- all names ---- */

int kvmm_registry_find(struct kvmm_registry *reg, const struct kvmm_prefix *prefix,
		       kvmm_node_t *nodes, uint16_t *tiers)
{
	struct look look;
	struct line line;
	u32 sum = 0;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || !is_prefix(prefix) || (!nodes && !tiers && prefix->nr))
		return -EINVAL;
	kv_rcu_read_lock();
	look = look_at(reg, prefix);
	line_start(&look, &line);
	for (u32 g = 0; (u64)g * GROUP < prefix->nr; g++) {
		const struct group *group = line_step(&look, &line, g);

		for (u32 j = 0; j < group->nr; j++) {
			u32 i = group->first + j, index = find_in_chain(&look, group, j);
			kvmm_node_t node = index && nodes ? handle_of(reg, index) :
							    (kvmm_node_t){ 0, 0 };
			u32 mask = tiers_of(&look, index);

			if (nodes)
				nodes[i] = node;
			if (tiers)
				tiers[i] = mask;
			sum += nodes ? node.gen != 0 : mask != 0;
		}
	}
	kv_rcu_read_unlock();
	return sum;
}
