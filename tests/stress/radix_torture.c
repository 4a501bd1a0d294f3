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
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/atomic.h>
#include <kv/env.h>
#include <kv/mem.h>
#include <kv/rcu.h>
#include <kv/registry_radix.h>
#include <kv/stat.h>

#define NR_READERS	2u
#define NR_WRITERS	2u
#define NR_THREADS	(NR_READERS + NR_WRITERS + 1)
#define NR_STEPS	1500u		/* of one thread's life */
#define DEPTH		8u
#define NR_KEYS		5u		/* at each position, for names that come and go */
#define NR_BULK		900u		/* names that are registered at once */
#define NR_STEADY	6u
#define NR_TIERS	4u
#define NS_PER_SEC	1000000000ull

enum { FIXED_TIER, FERRY_A, FERRY_B, CHURN_TIER };

/* First numbers of keys. Below NR_KEYS: names that come and go. */
enum { FIXED = 100, FERRIED = 200, ROOT = 300, STEADY = 400, FLAPPING = 500, LEAVES = 600,
       BULK = 1000 };

struct value {
	u64 magic;
	u64 copy;
	u32 position;		/* of its node */
};

struct worker {
	pthread_t thread;
	void (*live)(struct worker *worker, u32 step);
	u64 random;
	u32 number;
	u64 nr_looks;
	u64 nr_walks;
	u64 nr_changes;
	u64 nr_values;
	u64 nr_wrong;
};

static struct kvmm_registry *reg;
static kvmm_node_t fixed_node[DEPTH];
static kvmm_node_t root;
static int value_type;
static u64 nr_destroyed;			/* atomic */
static s32 told[NR_TIERS][DEPTH][NR_KEYS];	/* atomic */

static u32 dice(struct worker *worker, u32 limit)
{
	worker->random = worker->random * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)((worker->random >> 33) % limit);
}

static void wrong(struct worker *worker, const char *what)
{
	if (!worker->nr_wrong++)
		fprintf(stderr, "radix_torture: %s\n", what);
}

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
	must(kvmm_registry_find(reg, &prefix, &root) == 1);
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
	must(kvmm_registry_find(reg, &prefix, fixed_node) == (int)DEPTH);
	fill(keys, FERRIED, DEPTH);
	must(!kvmm_registry_present(reg, FERRY_A, &prefix));
}

/* ---- readers ---- */

static void look_at_fixed(struct worker *worker)
{
	kvmm_node_t nodes[DEPTH];
	kvmm_key_t keys[DEPTH];
	struct kvmm_prefix prefix = prefix_of(keys, DEPTH, 0, NULL);

	fill(keys, FIXED, DEPTH);
	if (kvmm_registry_len(reg, &prefix, 1u << FIXED_TIER) != (int)DEPTH)
		wrong(worker, "the length of a prompt that is there");
	if (kvmm_registry_find(reg, &prefix, nodes) != (int)DEPTH ||
	    memcmp(nodes, fixed_node, sizeof(nodes)))
		wrong(worker, "another node of a name that stayed");
	if (kvmm_node_lineage(reg, fixed_node[DEPTH - 1], nodes, DEPTH) != (int)DEPTH ||
	    nodes[DEPTH - 1].index != fixed_node[0].index)
		wrong(worker, "the lineage of a prompt that is there");
}

static void look_at_ferried(struct worker *worker)
{
	kvmm_key_t keys[DEPTH];
	struct kvmm_prefix prefix = prefix_of(keys, DEPTH, 0, NULL);
	uint16_t tiers[DEPTH];

	fill(keys, FERRIED, DEPTH);
	if (kvmm_registry_len(reg, &prefix, 1u << FERRY_A | 1u << FERRY_B) != (int)DEPTH)
		wrong(worker, "a block in neither tier");
	for (u32 tries = 0; tries < 50; tries++) {
		kvmm_registry_presence(reg, &prefix, tiers);
		for (u32 i = 0; i < DEPTH; i++)
			if (!(tiers[i] & (1u << FERRY_A | 1u << FERRY_B)))
				wrong(worker, "a block in no tier");
	}
}

/* Its name, if it is still there: one that can be at this position. */
static bool look_at_node(struct worker *worker, kvmm_node_t node, u32 position)
{
	struct kvmm_node_info info;
	int err = kvmm_node_get_info(reg, node, &info);

	if (err && err != -ESTALE)
		wrong(worker, "a handle that was never one");
	if (err)
		return false;
	if (info.name.position != position || number_of(&info.name.key) == ~0ull ||
	    info.name.domain.tenant != 1)
		wrong(worker, "a node that does not belong there");
	return true;
}

static void look_at_position(struct worker *worker)
{
	u32 position = dice(worker, DEPTH), max = 1 + dice(worker, 64);
	kvmm_node_t nodes[64];
	int nr = kv_radix_at(reg, position, nodes, max);

	for (int i = 0; i < nr; i++)
		look_at_node(worker, nodes[i], position);
}

static void look_at_churn(struct worker *worker)
{
	u32 position = dice(worker, DEPTH);
	kvmm_key_t key = key_of(dice(worker, NR_KEYS));
	struct kvmm_prefix prefix = prefix_of(&key, 1, position, NULL);
	kvmm_node_t node, nodes[DEPTH + 1];
	int nr;

	if (kvmm_registry_find(reg, &prefix, &node) != 1)
		return;
	nr = kvmm_node_children(reg, node, nodes, DEPTH);
	for (int i = 0; i < nr; i++)
		look_at_node(worker, nodes[i], position + 1);
	nr = kvmm_node_lineage(reg, node, nodes, DEPTH + 1);
	if (nr > (int)position + 1)
		wrong(worker, "more ancestors than there are positions");
	for (int i = 0; i < nr; i++)
		look_at_node(worker, nodes[i], position - i);
}

struct walk {
	struct worker *worker;
	u32 seen[NR_STEADY];
	u32 leaf[NR_STEADY];
	u32 flapping;
};

static void count_one(struct walk *walk, u32 *seen, const char *what)
{
	if (++*seen > 1)
		wrong(walk->worker, what);
}

static int visit(void *ctx, kvmm_node_t node, u32 depth)
{
	struct walk *walk = ctx;
	struct kvmm_node_info info;
	u64 number;

	if (kvmm_node_get_info(reg, node, &info))
		return 0;
	if (info.name.position != depth)
		wrong(walk->worker, "a walk that lost count of its depth");
	number = number_of(&info.name.key);
	if (number - STEADY < NR_STEADY)
		count_one(walk, &walk->seen[number - STEADY], "a sibling visited twice");
	else if (number - LEAVES < NR_STEADY)
		count_one(walk, &walk->leaf[number - LEAVES], "a leaf visited twice");
	else if (number == FLAPPING)
		count_one(walk, &walk->flapping, "a node visited in two of its lives");
	return 0;
}

static void walk_tree(struct worker *worker)
{
	struct walk walk = { .worker = worker };

	if (kvmm_node_walk(reg, root, visit, &walk))
		wrong(worker, "a walk that could not begin");
	for (u32 i = 0; i < NR_STEADY; i++)
		if (!walk.seen[i])
			wrong(worker, "a sibling that was not visited");
	worker->nr_walks++;
}

struct sight {
	struct worker *worker;
	u32 position;
};

static int look_at_value(void *ctx, int type, void **value)
{
	const struct value *seen = *value;
	const struct sight *sight = ctx;

	if (type != value_type || seen->copy != ~seen->magic)
		wrong(sight->worker, "a value in the middle of a change");
	if (seen->position != sight->position)
		wrong(sight->worker, "a value of another node");
	return 0;
}

static int change_value(void *ctx, int type, void **value)
{
	struct value *seen = *value;

	seen->magic++;
	seen->copy--;
	return 0;
}

static void look_at_values(struct worker *worker)
{
	struct sight sight = { worker, dice(worker, DEPTH) };
	kvmm_node_t nodes[32];
	int nr = kv_radix_at(reg, sight.position, nodes, 32);

	for (int i = 0; i < nr; i++) {
		if (dice(worker, 4))
			kvmm_node_with(reg, nodes[i], value_type, look_at_value, &sight);
		else
			kvmm_node_with(reg, nodes[i], -1, change_value, worker);
	}
}

static void read_all(struct worker *worker, u32 step)
{
	static void (*const deed[])(struct worker *) = {
		look_at_fixed, look_at_ferried, look_at_position, look_at_churn, walk_tree,
		walk_tree, look_at_values,
	};

	deed[dice(worker, ARRAY_SIZE(deed))](worker);
	worker->nr_looks++;
}

/* ---- writers ---- */

/* A prefix of names that come and go, and its way back. */
static void churn_prefix(struct worker *worker)
{
	u32 position = dice(worker, DEPTH), nr = 1 + dice(worker, DEPTH - position);
	kvmm_key_t keys[DEPTH], parent = key_of(dice(worker, NR_KEYS));
	struct kvmm_prefix prefix = prefix_of(keys, nr, position, dice(worker, 2) ? &parent : NULL);

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(dice(worker, NR_KEYS));
	if (kvmm_registry_present(reg, CHURN_TIER, &prefix))
		wrong(worker, "no memory");
	if (kvmm_registry_len(reg, &prefix, 1u << CHURN_TIER) != (int)nr)
		wrong(worker, "own names that are not there");
	if (kvmm_registry_absent(reg, CHURN_TIER, &prefix) != (int)nr)
		wrong(worker, "own names that were gone");
	worker->nr_changes += nr;
}

static void flap(struct worker *worker)
{
	kvmm_key_t key = key_of(FLAPPING), top = key_of(ROOT);
	struct kvmm_prefix prefix = prefix_of(&key, 1, 1, &top);

	for (u32 i = 0; i < 4; i++) {
		if (kvmm_registry_present(reg, CHURN_TIER, &prefix))
			wrong(worker, "no memory");
		if (kvmm_registry_absent(reg, CHURN_TIER, &prefix) != 1)
			wrong(worker, "an own name that was gone");
	}
}

/* One writer only: two would meet half-way. */
static void ferry(struct worker *worker)
{
	kvmm_key_t keys[DEPTH];
	struct kvmm_prefix prefix = prefix_of(keys, DEPTH, 0, NULL);

	if (worker->number != NR_READERS)
		return;
	fill(keys, FERRIED, DEPTH);
	for (u32 i = 0; i < 20; i++)
		if (kvmm_registry_transfer(reg, FERRY_A, FERRY_B, &prefix) != (int)DEPTH ||
		    kvmm_registry_transfer(reg, FERRY_B, FERRY_A, &prefix) != (int)DEPTH)
			wrong(worker, "a prompt that was not where it had been left");
}

/* Counted twice and once again: others are told of neither. */
static void double_fixed(struct worker *worker)
{
	kvmm_key_t keys[DEPTH];
	struct kvmm_prefix prefix = prefix_of(keys, DEPTH, 0, NULL);

	fill(keys, FIXED, DEPTH);
	if (kvmm_registry_present(reg, FIXED_TIER, &prefix) ||
	    kvmm_registry_absent(reg, FIXED_TIER, &prefix) != (int)DEPTH)
		wrong(worker, "a second block of a name");
}

static struct value *value_create(struct worker *worker, u32 position)
{
	struct value *value = malloc(sizeof(*value));

	must(value);
	*value = (struct value){ worker->random, ~worker->random, position };
	return value;
}

static void hold_and_attach(struct worker *worker)
{
	u32 position = dice(worker, DEPTH - 1), nr = 2;
	kvmm_key_t keys[2] = { key_of(dice(worker, NR_KEYS)), key_of(dice(worker, NR_KEYS)) };
	struct kvmm_prefix prefix = prefix_of(keys, nr, position, NULL);
	kvmm_node_t nodes[2];

	if (kvmm_registry_hold(reg, &prefix, nodes)) {
		wrong(worker, "nodes that could not be held");
		return;
	}
	for (u32 i = 0; i < nr; i++) {
		if (kvmm_node_attach(reg, nodes[i], value_type, KVMM_ATTACH_MULTIPLE,
				     value_create(worker, position + i)))
			wrong(worker, "a value that could not be attached");
		worker->nr_values++;
	}
	if (!dice(worker, 4) && kvmm_node_detach(reg, nodes[0], value_type) < 0)
		wrong(worker, "values that could not be detached");
	if (kvmm_node_get(reg, nodes, nr) || kvmm_node_put(reg, nodes, nr) ||
	    kvmm_node_put(reg, nodes, nr))
		wrong(worker, "own holds that were gone");
}

/* Slabs and table grow; the names go again. */
static void bulk(struct worker *worker)
{
	static kvmm_key_t keys[NR_WRITERS][NR_BULK];
	kvmm_key_t *own = keys[worker->number - NR_READERS];
	struct kvmm_prefix prefix = prefix_of(own, NR_BULK, 0, NULL);

	fill(own, BULK * (1 + worker->number), NR_BULK);
	if (kvmm_registry_present(reg, CHURN_TIER, &prefix) ||
	    kvmm_registry_absent(reg, CHURN_TIER, &prefix) != (int)NR_BULK)
		wrong(worker, "many names at once");
}

static void write_all(struct worker *worker, u32 step)
{
	static void (*const deed[])(struct worker *) = {
		churn_prefix, churn_prefix, churn_prefix, flap, flap, ferry, double_fixed,
		hold_and_attach,
	};

	if (step == NR_STEPS / 4)
		bulk(worker);
	deed[dice(worker, ARRAY_SIZE(deed))](worker);
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
static void hooks_come_and_go(struct worker *worker, u32 step)
{
	struct kvmm_delegate delegate = { NULL, count_absent, calloc(1, sizeof(u64)), NULL };
	u64 *touches = calloc(1, sizeof(u64));
	int touch_hook, hook;

	must(touches && delegate.ctx);
	touch_hook = kvmm_registry_on_touch(reg, count_touches, touches);
	hook = kvmm_registry_delegate(reg, &delegate);
	if (touch_hook < 0 || hook < 0)
		wrong(worker, "a hook that could not be had");
	if (kv_radix_touch_nodes(reg, fixed_node, DEPTH))
		wrong(worker, "nodes that could not be touched");
	while (kvmm_registry_unhook(reg, touch_hook) == -EBUSY)
		;
	while (kvmm_registry_unhook(reg, hook) == -EBUSY)
		;
	if (*touches != DEPTH)
		wrong(worker, "touches that were not told");
	free(touches);
	free(delegate.ctx);
}

/* ---- all together ---- */

static void destroy_value(void *value)
{
	struct value *seen = value;

	seen->magic = 0;
	free(seen);
	kv_fetch_add(&nr_destroyed, 1);
}

static void *run(void *arg)
{
	struct worker *worker = arg;

	for (u32 i = 0; i < NR_STEPS; i++)
		worker->live(worker, i);
	return NULL;
}

static void make_registry(void)
{
	struct kvmm_registry_attr attr = { .size = sizeof(attr), .capacity = 16,
					   .nr_tiers = NR_TIERS };
	struct kvmm_delegate delegate = { hear_present, hear_absent, NULL, NULL };

	must(!kvmm_registry_create(&attr, &reg));
	must(kvmm_registry_delegate(reg, &delegate) >= 0);
	value_type = kvmm_attach_type_create(reg, "value", KVMM_ATTACH_MULTIPLE, destroy_value);
	must(value_type >= 0);
	memset(told, 0, sizeof(told));
	set_up_prompts();
	set_up_tree();
}

static u64 check_and_end(void)
{
	u32 expected = 2 * DEPTH + 1 + 2 * NR_STEADY;
	struct kvmm_registry_stat stat;
	u64 bad = kv_radix_check(reg) != 0;

	kvmm_registry_get_stat(reg, &stat);
	bad += stat.nodes != expected;
	for (u32 i = 0; i < NR_TIERS * DEPTH * NR_KEYS; i++)
		bad += (&told[0][0][0])[i] != 0;
	if (bad)
		fprintf(stderr, "radix_torture: checks failed, %u nodes\n", stat.nodes);
	kvmm_registry_destroy(reg);
	return bad;
}

static u64 run_round(struct worker *workers)
{
	for (u32 i = 0; i < NR_THREADS; i++) {
		workers[i].number = i;
		workers[i].live = i < NR_READERS ? read_all :
				  i < NR_READERS + NR_WRITERS ? write_all : hooks_come_and_go;
		must(!pthread_create(&workers[i].thread, NULL, run, &workers[i]));
	}
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	return check_and_end();
}

static int report(const struct worker *workers, u64 nr_rounds, u64 bad)
{
	struct worker sum = { 0 };

	for (u32 i = 0; i < NR_THREADS; i++) {
		sum.nr_looks += workers[i].nr_looks;
		sum.nr_walks += workers[i].nr_walks;
		sum.nr_changes += workers[i].nr_changes;
		sum.nr_values += workers[i].nr_values;
		sum.nr_wrong += workers[i].nr_wrong;
	}
	printf("radix_torture: %llu rounds, %llu looks, %llu walks, %llu changes, %llu values, "
	       "%llu wrong\n", (unsigned long long)nr_rounds, (unsigned long long)sum.nr_looks,
	       (unsigned long long)sum.nr_walks, (unsigned long long)sum.nr_changes,
	       (unsigned long long)sum.nr_values, (unsigned long long)sum.nr_wrong);
	kv_rcu_barrier();
	return bad || sum.nr_wrong || kv_mem_bytes() || kv_stat_sum(KV_EV_BUG) ||
	       nr_destroyed != sum.nr_values || !sum.nr_walks || !sum.nr_changes;
}

int main(int argc, char **argv)
{
	u64 end = kv_clock_ns() + (argc > 1 ? atoi(argv[1]) : 2) * NS_PER_SEC;
	struct worker workers[NR_THREADS] = { 0 };
	u64 nr_rounds = 0, bad = 0;

	for (u32 i = 0; i < NR_THREADS; i++)
		workers[i].random = i + 1;
	do {
		make_registry();
		bad += run_round(workers);
		nr_rounds++;
	} while (kv_clock_ns() < end);
	return report(workers, nr_rounds, bad);
}
