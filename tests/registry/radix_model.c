// SPDX-License-Identifier: Apache-2.0
/*
 * Random operations on a registry of prefixes against a model that is an array of all names.
 *
 * The names are few, so that they go and come again all the time; parents are drawn as well, so
 * that there are orphans, names that were given two parents, and parents that come after their children.
 * After each operation everything that can be asked is asked of both. KVMM_SEED and KVMM_RADIX_OPS
 * choose the run.
 */
#include <kv/env.h>
#include <kv/registry_radix.h>

#include "radix_util.h"
#include "registry/radix.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_KEYS		6u
#define NR_POSITIONS	5u
#define NR_DOMAINS	2u
#define NR_TIERS	3u
#define NR_NAMES	(NR_KEYS * NR_POSITIONS * NR_DOMAINS)
#define NO_KEY		NR_KEYS
#define NR_BULK		400u

/* A name as the model sees it; which one is said by its place. */
struct plain {
	bool there;
	u32 parent;		/* key, or NO_KEY */
	u32 count[NR_TIERS];
	u32 holds;
	kvmm_node_t node;
};

static struct model {
	struct kvmm_registry *reg;
	struct plain name[NR_NAMES];
	kvmm_node_t gone[16];		/* handles of nodes that have gone */
	s32 news[NR_TIERS][NR_NAMES];	/* told: present less absent */
	u32 nr_wrong_news;
	u32 nr_bulk;			/* nodes that the model knows nothing of */
} m;

static u32 name_nr(u32 domain, u32 position, u32 key)
{
	return (domain * NR_POSITIONS + position) * NR_KEYS + key;
}

static u32 key_nr(u32 nr)
{
	return nr % NR_KEYS;
}

static u32 position_nr(u32 nr)
{
	return nr / NR_KEYS % NR_POSITIONS;
}

static u32 domain_nr(u32 nr)
{
	return nr / NR_KEYS / NR_POSITIONS;
}

static kvmm_domain_t domain_at(u32 domain)
{
	return (kvmm_domain_t){ .tenant = domain };
}

static u32 nr_of(const struct kvmm_name *name)
{
	u64 key;

	memcpy(&key, name->key.byte, sizeof(key));
	return name_nr(name->domain.tenant, name->position, key);
}

static u32 nr_of_node(kvmm_node_t node)
{
	struct kvmm_node_info info;

	cr_assert_eq(kvmm_node_get_info(m.reg, node, &info), 0);
	return nr_of(&info.name);
}

/* ---- a random prefix ---- */

struct prompt {
	struct kvmm_prefix prefix;
	kvmm_key_t key[NR_POSITIONS];
	kvmm_key_t parent;
	u32 parent_nr;
	u32 nr[NR_POSITIONS];		/* names */
};

static void draw(struct prompt *prompt)
{
	u32 domain = any(NR_DOMAINS), position = any(NR_POSITIONS);
	u32 nr = 1 + any(NR_POSITIONS - position);

	prompt->parent_nr = any(2) ? any(NR_KEYS) : NO_KEY;
	prompt->parent = number_key(prompt->parent_nr);
	for (u32 i = 0; i < nr; i++) {
		u32 key = any(NR_KEYS);

		prompt->key[i] = number_key(key);
		prompt->nr[i] = name_nr(domain, position + i, key);
	}
	prompt->prefix = (struct kvmm_prefix){
		prompt->key, nr, position, prompt->parent_nr == NO_KEY ? NULL : &prompt->parent,
		domain_at(domain),
	};
}

static u32 parent_in(const struct prompt *prompt, u32 i)
{
	if (i)
		return key_nr(prompt->nr[i - 1]);
	return prompt->prefix.position ? prompt->parent_nr : NO_KEY;
}

/* ---- the model's own steps ---- */

static u32 tiers_of(const struct plain *name)
{
	u32 tiers = 0;

	for (u32 tier = 0; tier < NR_TIERS; tier++)
		tiers |= name->count[tier] ? 1u << tier : 0;
	return tiers;
}

static struct plain *enter(const struct prompt *prompt, u32 i)
{
	struct plain *name = &m.name[prompt->nr[i]];

	if (!name->there)
		*name = (struct plain){ .there = true, .parent = NO_KEY };
	if (name->parent == NO_KEY)
		name->parent = parent_in(prompt, i);
	return name;
}

static void leave_if_empty(struct plain *name)
{
	if (tiers_of(name) || name->holds)
		return;
	name->there = false;
	if (name->node.gen)
		m.gone[any(ARRAY_SIZE(m.gone))] = name->node;
}

static u32 parent_nr(u32 nr)
{
	const struct plain *name = &m.name[nr];
	u32 parent;

	if (name->parent == NO_KEY)
		return NR_NAMES;
	parent = name_nr(domain_nr(nr), position_nr(nr) - 1, name->parent);
	return m.name[parent].there ? parent : NR_NAMES;
}

/* ---- what delegates are told ---- */

static void hear(u32 tier, const struct kvmm_name *names, u32 nr, s32 change)
{
	if (!nr || nr > KVMM_REGISTRY_BATCH)
		m.nr_wrong_news++;
	for (u32 i = 0; i < nr && names[i].domain.tenant < NR_DOMAINS; i++) {
		s32 *news = &m.news[tier][nr_of(&names[i])];

		*news += change;
		m.nr_wrong_news += *news != (change > 0);
	}
}

static void hear_present(void *ctx, u32 tier, const struct kvmm_name *names, u32 nr)
{
	hear(tier, names, nr, 1);
}

static void hear_absent(void *ctx, u32 tier, const struct kvmm_name *names, u32 nr)
{
	hear(tier, names, nr, -1);
}

/* ---- operations, on both ---- */

static void do_present(void)
{
	struct prompt prompt;
	u32 tier = any(NR_TIERS);

	draw(&prompt);
	cr_assert_eq(kvmm_registry_present(m.reg, tier, &prompt.prefix), 0);
	for (u32 i = 0; i < prompt.prefix.nr; i++)
		enter(&prompt, i)->count[tier]++;
}

static u32 lose(const struct prompt *prompt, u32 tier, u32 to)
{
	u32 nr = 0;

	for (u32 i = 0; i < prompt->prefix.nr; i++) {
		struct plain *name = &m.name[prompt->nr[i]];

		if (!name->there || !name->count[tier])
			continue;
		name->count[tier]--;
		if (to < NR_TIERS)
			name->count[to]++;
		leave_if_empty(name);
		nr++;
	}
	return nr;
}

static void do_absent(void)
{
	struct prompt prompt;
	u32 tier = any(NR_TIERS);
	int nr;

	draw(&prompt);
	nr = kvmm_registry_absent(m.reg, tier, &prompt.prefix);
	cr_assert_eq(nr, lose(&prompt, tier, NR_TIERS));
}

static void do_transfer(void)
{
	u32 from = any(NR_TIERS), to = (from + 1) % NR_TIERS;
	struct prompt prompt;
	int nr;

	draw(&prompt);
	nr = kvmm_registry_transfer(m.reg, from, to, &prompt.prefix);
	cr_assert_eq(nr, lose(&prompt, from, to));
}

static void do_hold(void)
{
	kvmm_node_t nodes[NR_POSITIONS];
	struct prompt prompt;

	draw(&prompt);
	cr_assert_eq(kvmm_registry_hold(m.reg, &prompt.prefix, nodes), 0);
	for (u32 i = 0; i < prompt.prefix.nr; i++) {
		enter(&prompt, i)->holds++;
		cr_assert_eq(nr_of_node(nodes[i]), prompt.nr[i]);
	}
}

static void do_put(void)
{
	u32 nr = any(NR_NAMES);
	struct plain *name = &m.name[nr];

	if (!name->there)
		return;
	cr_assert_eq(kvmm_node_put(m.reg, &name->node, 1), name->holds ? 0 : -EINVAL);
	if (name->holds) {
		name->holds--;
		leave_if_empty(name);
	}
}

static void do_get(void)
{
	struct plain *name = &m.name[any(NR_NAMES)];

	if (!name->there)
		return;
	cr_assert_eq(radix_node_get(m.reg, name->node), 0);
	name->holds++;
}

/* A batch with a handle that is stale changes nothing. */
static void do_put_stale(void)
{
	kvmm_node_t pair[2] = { m.name[any(NR_NAMES)].node, m.gone[any(ARRAY_SIZE(m.gone))] };
	int err;

	if (!pair[1].gen)
		return;
	err = radix_node_get(m.reg, pair[1]);
	cr_assert(err == -ESTALE || err == -EINVAL);
	err = kvmm_node_put(m.reg, pair, 2);
	cr_assert(err == -ESTALE || err == -EINVAL);
}

/* So many names that slabs and table grow; nothing else may change by that. */
static void do_bulk(void)
{
	static kvmm_key_t keys[NR_BULK];
	struct kvmm_prefix prefix = { keys, NR_BULK, NR_POSITIONS + m.nr_bulk, NULL,
				      domain_at(NR_DOMAINS) };

	for (u32 i = 0; i < NR_BULK; i++)
		keys[i] = number_key(i);
	cr_assert_eq(kvmm_registry_present(m.reg, 0, &prefix), 0);
	cr_assert_eq(kvmm_registry_len(m.reg, &prefix, 1), NR_BULK);
	m.nr_bulk += NR_BULK;
}

static void do_something(void)
{
	static void (*const deed[])(void) = {
		do_present, do_present, do_present, do_absent, do_absent, do_absent, do_absent,
		do_transfer, do_hold, do_put, do_put, do_get, do_put_stale,
	};

	deed[any(ARRAY_SIZE(deed))]();
}

/* ---- comparing ---- */

static void expect_names(void)
{
	for (u32 nr = 0; nr < NR_NAMES; nr++) {
		struct plain *name = &m.name[nr];
		kvmm_key_t key = number_key(key_nr(nr));
		struct kvmm_prefix prefix = { &key, 1, position_nr(nr), NULL,
					      domain_at(domain_nr(nr)) };
		uint16_t tiers;

		cr_assert_eq(kvmm_registry_find(m.reg, &prefix, &name->node, NULL), name->there);
		kvmm_registry_presence(m.reg, &prefix, &tiers);
		cr_assert_eq(tiers, name->there ? tiers_of(name) : 0);
		for (u32 tier = 0; tier < NR_TIERS; tier++) {
			u32 count = name->there ? name->count[tier] : 0;

			cr_assert_eq(m.news[tier][nr], count != 0, "news of name %u", nr);
			if (name->there)
				cr_assert_eq(count_of(m.reg, name->node, tier), count);
		}
	}
	cr_assert_eq(m.nr_wrong_news, 0);
}

/* Each of @nodes is a name that @is_member says yes to, no two are the same, none is missing. */
static void expect_set(const kvmm_node_t *nodes, int nr, bool (*is_member)(u32 nr, u32 of), u32 of)
{
	bool seen[NR_NAMES] = { false };

	cr_assert_geq(nr, 0);
	for (int i = 0; i < nr; i++) {
		u32 name = nr_of_node(nodes[i]);

		cr_assert(!seen[name] && is_member(name, of));
		seen[name] = true;
	}
	for (u32 name = 0; name < NR_NAMES; name++)
		cr_assert_eq(seen[name], is_member(name, of), "name %u", name);
}

static bool is_child(u32 nr, u32 of)
{
	return m.name[nr].there && parent_nr(nr) == of;
}

static bool is_below(u32 nr, u32 of)
{
	if (!m.name[nr].there)
		return false;
	while (nr != of && nr < NR_NAMES)
		nr = parent_nr(nr);
	return nr == of;
}

static bool is_at(u32 nr, u32 position)
{
	return m.name[nr].there && position_nr(nr) == position;
}

struct visit {
	kvmm_node_t node[NR_NAMES];
	u32 nr;
};

static int visit(void *ctx, kvmm_node_t node, u32 depth)
{
	struct visit *visit = ctx;
	u32 root = nr_of_node(visit->nr ? visit->node[0] : node);

	cr_assert_lt(visit->nr, NR_NAMES);
	cr_assert_eq(depth, position_nr(nr_of_node(node)) - position_nr(root));
	visit->node[visit->nr++] = node;
	return 0;
}

static void expect_tree_below(u32 nr)
{
	kvmm_node_t nodes[NR_NAMES], node = m.name[nr].node;
	struct visit seen = { .nr = 0 };
	u32 above = nr;
	int len;

	expect_set(nodes, children_of(m.reg, node, nodes, NR_NAMES), is_child, nr);
	cr_assert_eq(kvmm_node_walk(m.reg, node, visit, &seen), 0);
	expect_set(seen.node, seen.nr, is_below, nr);
	cr_assert_eq(nr_of_node(seen.node[0]), nr);
	len = lineage_of(m.reg, node, nodes, NR_NAMES);
	for (int i = 0; i < len; i++) {
		cr_assert_eq(nr_of_node(nodes[i]), above);
		above = parent_nr(above);
	}
	cr_assert_eq(above, NR_NAMES);
}

static void expect_length(void)
{
	u32 tiers = any(1u << NR_TIERS), len = 0;
	struct prompt prompt;

	draw(&prompt);
	while (len < prompt.prefix.nr && m.name[prompt.nr[len]].there &&
	       tiers_of(&m.name[prompt.nr[len]]) & tiers)
		len++;
	cr_assert_eq(kvmm_registry_len(m.reg, &prompt.prefix, tiers), len);
}

static void expect_stat(void)
{
	struct kvmm_registry_stat stat;
	u32 nodes = 0, names[NR_TIERS] = { 0 };

	kvmm_registry_get_stat(m.reg, &stat);
	for (u32 nr = 0; nr < NR_NAMES; nr++) {
		nodes += m.name[nr].there;
		for (u32 tier = 0; m.name[nr].there && tier < NR_TIERS; tier++)
			names[tier] += m.name[nr].count[tier] != 0;
	}
	names[0] += m.nr_bulk;
	cr_assert_eq(stat.nodes, nodes + m.nr_bulk);
	for (u32 tier = 0; tier < NR_TIERS; tier++)
		cr_assert_eq(stat.names[tier], names[tier]);
}

static void expect_equal(void)
{
	kvmm_node_t nodes[NR_NAMES];
	struct kvmm_node_info info;

	cr_assert_eq(kv_radix_check(m.reg), 0);
	expect_names();
	for (u32 nr = 0; nr < NR_NAMES; nr++)
		if (m.name[nr].there)
			expect_tree_below(nr);
	for (u32 position = 0; position < NR_POSITIONS; position++) {
		int nr = kv_radix_at(m.reg, position, nodes, NR_NAMES);

		expect_set(nodes, nr, is_at, position);
	}
	expect_length();
	for (u32 i = 0; i < ARRAY_SIZE(m.gone); i++)
		if (m.gone[i].gen)
			cr_assert_eq(kvmm_node_get_info(m.reg, m.gone[i], &info), -ESTALE);
	expect_stat();
}

/* ---- the run ---- */

Test(radix_model, does_what_the_model_does)
{
	struct kvmm_delegate delegate = { hear_present, hear_absent, NULL, NULL };
	u64 seed = test_number("KVMM_SEED", kv_random() | 1), nr_ops;

	nr_ops = test_length("KVMM_RADIX_OPS", 4000);
	printf("radix_model: KVMM_SEED=%#llx\n", (unsigned long long)seed);
	any_state = seed;
	m.reg = make_registry(16, NR_TIERS, 0);
	cr_assert_geq(kvmm_registry_delegate(m.reg, &delegate), 0);
	for (u64 i = 0; i < nr_ops; i++) {
		do_something();
		if (i == nr_ops / 4 || i == nr_ops / 2)
			do_bulk();
		expect_equal();
	}
	end_registry(m.reg);
}
