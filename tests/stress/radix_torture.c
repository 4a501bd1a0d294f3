// SPDX-License-Identifier: Apache-2.0
/*
 * Readers and writers of a registry of prefixes: own main(), exit code 0 if all is well.
 *
 * usage: radix_torture [SECONDS]
 *
 * What readers can rely on, whatever else goes on, is asked all the time:
 *
 *  - a *fixed* prompt stays: its length, its lineage and its handles are always the same;
 *  - a *ferried* prompt goes to and fro between two tiers: one of the two has it at any time;
 *  - under one root hang a node that comes and goes and has children that stay, and *steady*
 *    siblings of it: each walk from the root visits each of those once, and nothing twice;
 *  - what lists, lineages and walks lead to has a name that belongs there.
 *
 * Writers register and forget other names, each only what it has registered itself, so that each
 * return value is known; hold and put nodes; attach values, which are freed when their nodes go;
 * and register many names once in each round, so that slabs and table grow under all this. Hooks
 * come and go, too. What delegates were told adds up to what is there in the end.
 */
#include <kv/env.h>
#include <kv/registry_radix.h>

#include "tests/support/registry_tree.h"
#include "tests/support/torture.h"

#define NR_READERS	2u
#define NR_WRITERS	2u
#define NR_THREADS	(NR_READERS + NR_WRITERS + 1)
#define NR_STEPS	1500u		/* of one thread's life */
#define DEPTH		8u
#define NR_KEYS		5u		/* at each position, for names that come and go */
#define NR_BULK		900u		/* names that are registered at once */
#define NR_STEADY	6u
#define NR_TIERS	4u

enum { FIXED_TIER, FERRY_A, FERRY_B, CHURN_TIER };

/* First numbers of keys. Below NR_KEYS: names that come and go. */
enum { FIXED = 100, FERRIED = 200, ROOT = 300, STEADY = 400, FLAPPING = 500, LEAVES = 600,
       BULK = 1000 };

struct value {
	u64 magic;
	u64 copy;
	u32 position;		/* of its node */
};

enum { LOOKS, WALKS, CHANGES, VALUES, NR_COUNTS };

static struct kvmm_registry *reg;
static kvmm_node_t fixed_node[DEPTH];
static kvmm_node_t root;
static int value_type;
static u64 nr_destroyed;			/* atomic */
static s32 told[NR_TIERS][DEPTH][NR_KEYS];	/* atomic */

static kvmm_key_t key_of(u64 number)
{
	u64 word[2] = { number, ~number };
	kvmm_key_t key;

	memcpy(&key, word, sizeof(key));
	return key;
}

/* The number of a key, or one that is none. */
static u64 number_of(const kvmm_key_t *key)
{
	u64 word[2];

	memcpy(word, key, sizeof(word));
	return word[1] == ~word[0] ? word[0] : ~0ull;
}

static struct kvmm_prefix prefix_of(const kvmm_key_t *keys, u32 nr, u32 position,
				    const kvmm_key_t *parent)
{
	return (struct kvmm_prefix){ keys, nr, position, parent, { 1, 2, 3 } };
}

/* ---- what stays ---- */

static void fill(kvmm_key_t *keys, u64 first, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
}

static void must(bool ok)
{
	if (!ok) {
		fprintf(stderr, "radix_torture: a registry that could not be set up\n");
		exit(EXIT_FAILURE);
	}
}

static void set_up_tree(void)
{
	kvmm_key_t top = key_of(ROOT), keys[NR_STEADY], flapping = key_of(FLAPPING);
	struct kvmm_prefix prefix = prefix_of(&top, 1, 0, NULL);

	must(!kvmm_registry_present(reg, FIXED_TIER, &prefix));
	must(kvmm_registry_find(reg, &prefix, &root, NULL) == 1);
	fill(keys, STEADY, NR_STEADY);
	for (u32 i = 0; i < NR_STEADY; i++) {
		prefix = prefix_of(&keys[i], 1, 1, &top);
		must(!kvmm_registry_present(reg, FIXED_TIER, &prefix));
	}
	fill(keys, LEAVES, NR_STEADY);
	for (u32 i = 0; i < NR_STEADY; i++) {
		prefix = prefix_of(&keys[i], 1, 2, &flapping);
		must(!kvmm_registry_present(reg, FIXED_TIER, &prefix));
	}
}

static void set_up_prompts(void)
{
	kvmm_key_t keys[DEPTH];
	struct kvmm_prefix prefix = prefix_of(keys, DEPTH, 0, NULL);

	fill(keys, FIXED, DEPTH);
	must(!kvmm_registry_present(reg, FIXED_TIER, &prefix));
	must(kvmm_registry_find(reg, &prefix, fixed_node, NULL) == (int)DEPTH);
	fill(keys, FERRIED, DEPTH);
	must(!kvmm_registry_present(reg, FERRY_A, &prefix));
}

/* ---- readers ---- */

static void look_at_fixed(void)
{
	kvmm_node_t nodes[DEPTH];
	kvmm_key_t keys[DEPTH];
	struct kvmm_prefix prefix = prefix_of(keys, DEPTH, 0, NULL);

	fill(keys, FIXED, DEPTH);
	if (kvmm_registry_len(reg, &prefix, 1u << FIXED_TIER) != (int)DEPTH)
		wrong("the length of a prompt that is there");
	if (kvmm_registry_find(reg, &prefix, nodes, NULL) != (int)DEPTH ||
	    memcmp(nodes, fixed_node, sizeof(nodes)))
		wrong("another node of a name that stayed");
	if (lineage_of(reg, fixed_node[DEPTH - 1], nodes, DEPTH) != (int)DEPTH ||
	    nodes[DEPTH - 1].index != fixed_node[0].index)
		wrong("the lineage of a prompt that is there");
}

static void look_at_ferried(void)
{
	kvmm_key_t keys[DEPTH];
	struct kvmm_prefix prefix = prefix_of(keys, DEPTH, 0, NULL);
	uint16_t tiers[DEPTH];

	fill(keys, FERRIED, DEPTH);
	if (kvmm_registry_len(reg, &prefix, 1u << FERRY_A | 1u << FERRY_B) != (int)DEPTH)
		wrong("a block in neither tier");
	for (u32 tries = 0; tries < 50; tries++) {
		kvmm_registry_presence(reg, &prefix, tiers);
		for (u32 i = 0; i < DEPTH; i++)
			if (!(tiers[i] & (1u << FERRY_A | 1u << FERRY_B)))
				wrong("a block in no tier");
	}
}

/* Its name, if it is still there: one that can be at this position. */
static bool look_at_node(kvmm_node_t node, u32 position)
{
	struct kvmm_node_info info;
	int err = kvmm_node_get_info(reg, node, &info);

	if (err && err != -ESTALE)
		wrong("a handle that was never one");
	if (err)
		return false;
	if (info.name.position != position || number_of(&info.name.key) == ~0ull ||
	    info.name.domain.tenant != 1)
		wrong("a node that does not belong there");
	return true;
}

static void look_at_position(void)
{
	u32 position = any(DEPTH), max = 1 + any(64);
	kvmm_node_t nodes[64];
	int nr = kv_radix_at(reg, position, nodes, max);

	for (int i = 0; i < nr; i++)
		look_at_node(nodes[i], position);
}

static void look_at_churn(void)
{
	u32 position = any(DEPTH);
	kvmm_key_t key = key_of(any(NR_KEYS));
	struct kvmm_prefix prefix = prefix_of(&key, 1, position, NULL);
	kvmm_node_t node, nodes[DEPTH + 1];
	int nr;

	if (kvmm_registry_find(reg, &prefix, &node, NULL) != 1)
		return;
	nr = children_of(reg, node, nodes, DEPTH);
	for (int i = 0; i < nr; i++)
		look_at_node(nodes[i], position + 1);
	nr = lineage_of(reg, node, nodes, DEPTH + 1);
	if (nr > (int)position + 1)
		wrong("more ancestors than there are positions");
	for (int i = 0; i < nr; i++)
		look_at_node(nodes[i], position - i);
}

struct walk {
	u32 seen[NR_STEADY];
	u32 leaf[NR_STEADY];
	u32 flapping;
};

static void count_one(u32 *seen, const char *what)
{
	if (++*seen > 1)
		wrong(what);
}

static int visit(void *ctx, kvmm_node_t node, u32 depth)
{
	struct walk *walk = ctx;
	struct kvmm_node_info info;
	u64 number;

	if (kvmm_node_get_info(reg, node, &info))
		return 0;
	if (info.name.position != depth)
		wrong("a walk that lost count of its depth");
	number = number_of(&info.name.key);
	if (number - STEADY < NR_STEADY)
		count_one(&walk->seen[number - STEADY], "a sibling visited twice");
	else if (number - LEAVES < NR_STEADY)
		count_one(&walk->leaf[number - LEAVES], "a leaf visited twice");
	else if (number == FLAPPING)
		count_one(&walk->flapping, "a node visited in two of its lives");
	return 0;
}

static void walk_tree(void)
{
	struct walk walk = { 0 };

	if (kvmm_node_walk(reg, root, visit, &walk))
		wrong("a walk that could not begin");
	for (u32 i = 0; i < NR_STEADY; i++)
		if (!walk.seen[i])
			wrong("a sibling that was not visited");
	done[WALKS]++;
}

static int look_at_value(void *ctx, int type, void **value)
{
	const struct value *seen = *value;
	const u32 *position = ctx;

	if (type != value_type || seen->copy != ~seen->magic)
		wrong("a value in the middle of a change");
	if (seen->position != *position)
		wrong("a value of another node");
	return 0;
}

static int change_value(void *ctx, int type, void **value)
{
	struct value *seen = *value;

	seen->magic++;
	seen->copy--;
	return 0;
}

static void look_at_values(void)
{
	u32 position = any(DEPTH);
	kvmm_node_t nodes[32];
	int nr = kv_radix_at(reg, position, nodes, 32);

	for (int i = 0; i < nr; i++) {
		if (any(4))
			kvmm_node_with(reg, nodes[i], value_type, look_at_value, &position);
		else
			kvmm_node_with(reg, nodes[i], -1, change_value, NULL);
	}
}

static void read_all(void)
{
	static void (*const deed[])(void) = {
		look_at_fixed, look_at_ferried, look_at_position, look_at_churn, walk_tree,
		walk_tree, look_at_values,
	};

	deed[any(ARRAY_SIZE(deed))]();
	done[LOOKS]++;
}

/* ---- writers ---- */

/* A prefix of names that come and go, and its way back. */
static void churn_prefix(void)
{
	u32 position = any(DEPTH), nr = 1 + any(DEPTH - position);
	kvmm_key_t keys[DEPTH], parent = key_of(any(NR_KEYS));
	struct kvmm_prefix prefix = prefix_of(keys, nr, position, any(2) ? &parent : NULL);

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(any(NR_KEYS));
	if (kvmm_registry_present(reg, CHURN_TIER, &prefix))
		wrong("no memory");
	if (kvmm_registry_len(reg, &prefix, 1u << CHURN_TIER) != (int)nr)
		wrong("own names that are not there");
	if (kvmm_registry_absent(reg, CHURN_TIER, &prefix) != (int)nr)
		wrong("own names that were gone");
	done[CHANGES] += nr;
}

static void flap(void)
{
	kvmm_key_t key = key_of(FLAPPING), top = key_of(ROOT);
	struct kvmm_prefix prefix = prefix_of(&key, 1, 1, &top);

	for (u32 i = 0; i < 4; i++) {
		if (kvmm_registry_present(reg, CHURN_TIER, &prefix))
			wrong("no memory");
		if (kvmm_registry_absent(reg, CHURN_TIER, &prefix) != 1)
			wrong("an own name that was gone");
	}
}

/* One writer only: two would meet half-way. */
static void ferry(void)
{
	kvmm_key_t keys[DEPTH];
	struct kvmm_prefix prefix = prefix_of(keys, DEPTH, 0, NULL);

	if (torturer != NR_READERS)
		return;
	fill(keys, FERRIED, DEPTH);
	for (u32 i = 0; i < 20; i++)
		if (kvmm_registry_transfer(reg, FERRY_A, FERRY_B, &prefix) != (int)DEPTH ||
		    kvmm_registry_transfer(reg, FERRY_B, FERRY_A, &prefix) != (int)DEPTH)
			wrong("a prompt that was not where it had been left");
}

/* Counted twice and once again: others are told of neither. */
static void double_fixed(void)
{
	kvmm_key_t keys[DEPTH];
	struct kvmm_prefix prefix = prefix_of(keys, DEPTH, 0, NULL);

	fill(keys, FIXED, DEPTH);
	if (kvmm_registry_present(reg, FIXED_TIER, &prefix) ||
	    kvmm_registry_absent(reg, FIXED_TIER, &prefix) != (int)DEPTH)
		wrong("a second block of a name");
}

static struct value *value_create(u32 position)
{
	struct value *value = malloc(sizeof(*value));

	must(value);
	*value = (struct value){ any_state, ~any_state, position };
	return value;
}

static void hold_and_attach(void)
{
	u32 position = any(DEPTH - 1), nr = 2;
	kvmm_key_t keys[2] = { key_of(any(NR_KEYS)), key_of(any(NR_KEYS)) };
	struct kvmm_prefix prefix = prefix_of(keys, nr, position, NULL);
	kvmm_node_t nodes[2];

	if (kvmm_registry_hold(reg, &prefix, nodes)) {
		wrong("nodes that could not be held");
		return;
	}
	for (u32 i = 0; i < nr; i++) {
		if (kvmm_node_attach(reg, nodes[i], value_type, KVMM_ATTACH_MULTIPLE,
				     value_create(position + i)))
			wrong("a value that could not be attached");
		done[VALUES]++;
	}
	if (!any(4) && kvmm_node_detach(reg, nodes[0], value_type) < 0)
		wrong("values that could not be detached");
	if (kvmm_registry_hold(reg, &prefix, nodes) || kvmm_node_put(reg, nodes, nr) ||
	    kvmm_node_put(reg, nodes, nr))
		wrong("own holds that were gone");
}

/* Slabs and table grow; the names go again. */
static void bulk(void)
{
	static kvmm_key_t keys[NR_WRITERS][NR_BULK];
	kvmm_key_t *own = keys[torturer - NR_READERS];
	struct kvmm_prefix prefix = prefix_of(own, NR_BULK, 0, NULL);

	fill(own, BULK * (1 + torturer), NR_BULK);
	if (kvmm_registry_present(reg, CHURN_TIER, &prefix) ||
	    kvmm_registry_absent(reg, CHURN_TIER, &prefix) != (int)NR_BULK)
		wrong("many names at once");
}

static void write_all(void)
{
	static __thread u32 step;
	static void (*const deed[])(void) = {
		churn_prefix, churn_prefix, churn_prefix, flap, flap, ferry, double_fixed,
		hold_and_attach,
	};

	if (step++ == NR_STEPS / 4)
		bulk();
	deed[any(ARRAY_SIZE(deed))]();
}

/* ---- hooks ---- */

static void hear(u32 tier, const struct kvmm_name *names, u32 nr, s32 change)
{
	for (u32 i = 0; i < nr; i++) {
		u64 number = number_of(&names[i].key);

		if (number < NR_KEYS && names[i].position < DEPTH)
			kv_fetch_add(&told[tier][names[i].position][number], change);
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

static void count_touches(void *ctx, const struct kvmm_name *names, u32 nr)
{
	kv_fetch_add((u64 *)ctx, nr);
}

static void count_absent(void *ctx, u32 tier, const struct kvmm_name *names, u32 nr)
{
	kv_fetch_add((u64 *)ctx, nr);
}

/* What a hook was given is freed as soon as nobody is inside. */
static void hooks_come_and_go(void)
{
	struct kv_radix_name names[DEPTH] = { 0 };
	struct kvmm_delegate hook[2] = {
		{ NULL, count_absent, calloc(1, sizeof(u64)), NULL },
		{ NULL, NULL, calloc(1, sizeof(u64)), count_touches },
	};

	for (u32 i = 0; i < 2; i++) {
		must(hook[i].ctx);
		if (kvmm_registry_delegate(reg, &hook[i]))
			wrong("a hook that could not be had");
	}
	kv_radix_touch(reg, names, DEPTH);
	for (u32 i = 0; i < 2; i++) {
		struct kvmm_delegate none = { .ctx = hook[i].ctx };

		while (kvmm_registry_delegate(reg, &none) == -EBUSY)
			;
	}
	if (*(u64 *)hook[1].ctx != DEPTH)
		wrong("touches that were not told");
	free(hook[0].ctx);
	free(hook[1].ctx);
}

/* ---- all together ---- */

static void destroy_value(void *value)
{
	struct value *seen = value;

	seen->magic = 0;
	free(seen);
	kv_fetch_add(&nr_destroyed, 1);
}

static void make_registry(void)
{
	struct kvmm_registry_attr attr = { .size = sizeof(attr), .capacity = 16,
					   .nr_tiers = NR_TIERS };
	struct kvmm_delegate delegate = { hear_present, hear_absent, NULL, NULL };

	must(!kvmm_registry_create(&attr, &reg));
	must(!kvmm_registry_delegate(reg, &delegate));
	value_type = kvmm_attach_type_create(reg, "value", KVMM_ATTACH_MULTIPLE, destroy_value);
	must(value_type >= 0);
	memset(told, 0, sizeof(told));
	set_up_prompts();
	set_up_tree();
}

static void check_and_end(void)
{
	u32 expected = 2 * DEPTH + 1 + 2 * NR_STEADY;
	struct kvmm_registry_stat stat;
	u64 bad = kv_radix_check(reg) != 0;

	kvmm_registry_get_stat(reg, &stat);
	bad += stat.nodes != expected;
	for (u32 i = 0; i < NR_TIERS * DEPTH * NR_KEYS; i++)
		bad += (&told[0][0][0])[i] != 0;
	if (bad) {
		wrong("checks failed");
		fprintf(stderr, "%u nodes\n", stat.nodes);
	}
	kvmm_registry_destroy(reg);
}

int main(int argc, char **argv)
{
	static const char *const what[NR_COUNTS] = { "looks", "walks", "changes", "values" };
	u64 end = kv_clock_ns() + (argc > 1 ? atoi(argv[1]) : 2) * NS_PER_SEC;
	u64 nr_rounds = 0;

	do {
		make_registry();
		for (u32 i = 0; i < NR_THREADS; i++)
			torture_start(i < NR_READERS ? read_all :
				      i < NR_READERS + NR_WRITERS ? write_all : hooks_come_and_go,
				      NR_STEPS, nr_rounds * NR_THREADS + i);
		torture_end(0);
		check_and_end();
		nr_rounds++;
	} while (kv_clock_ns() < end);
	kv_rcu_barrier();
	if (nr_destroyed != all_done[VALUES])
		wrong("values that were not freed, or not once");
	printf("%llu rounds; ", (unsigned long long)nr_rounds);
	return torture_report("radix_torture", 0, NR_COUNTS, what);
}
