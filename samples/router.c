// SPDX-License-Identifier: Apache-2.0
/*
 * A router that knows which prompts its two workers have cached: one registry of names, a tier a worker,
 * and beside each name what the router itself wants to remember of it.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_BLOCKS	6
#define NR_WORKERS	2

static struct kvmm_registry *reg;
static kvmm_key_t keys[NR_BLOCKS];
static int load[NR_WORKERS] = { 3, 1 };	/* requests that each worker has */

static void came(void *ctx, uint32_t worker, const struct kvmm_name *names, uint32_t nr)
{
	printf("worker %u has got %u blocks, from block %u on\n", worker, nr, names->position);
}

static void went(void *ctx, uint32_t worker, const struct kvmm_name *names, uint32_t nr)
{
	printf("worker %u has lost %u blocks\n", worker, nr);
}

static int one_more(void *ctx, int type, void **value)
{
	++*(int *)*value;
	return 0;
}

static int show(void *ctx, kvmm_node_t node, uint32_t depth)
{
	struct kvmm_node_info info;

	if (kvmm_node_get_info(reg, node, &info))
		return 0;	/* it has gone meanwhile */
	printf("  %*sblock %u: workers %x\n", (int)depth, "", info.name.position, info.tiers);
	return 0;
}

/* The worker with the longest cached prefix; of two that have as much, the idle one. */
static uint32_t route(const struct kvmm_prefix *prompt)
{
	uint32_t worker, best = 0;
	int len[NR_WORKERS];

	for (worker = 0; worker < NR_WORKERS; worker++) {
		len[worker] = kvmm_registry_len(reg, prompt, 1u << worker);
		if (len[worker] > len[best] ||
		    (len[worker] == len[best] && load[worker] < load[best]))
			best = worker;
	}
	printf("to worker %u, which has %d of %u blocks\n", best, len[best], prompt->nr);
	return best;
}

/* How often was the system prompt asked for? A value at its last block says it. */
static int count_uses(kvmm_node_t node)
{
	static int nr_uses;
	int type = kvmm_attach_type_create(reg, "uses", KVMM_ATTACH_UNIQUE, NULL);
	int err = kvmm_node_attach(reg, node, type, KVMM_ATTACH_UNIQUE, &nr_uses);

	if (!err && kvmm_node_attach(reg, node, type, KVMM_ATTACH_MULTIPLE, &nr_uses) == -EINVAL)
		printf("refused: %s\n", kvmm_why());
	kvmm_node_with(reg, node, type, one_more, NULL);
	kvmm_node_with(reg, node, type, one_more, NULL);
	printf("asked for %d times\n", nr_uses);
	return err ? err : kvmm_node_detach(reg, node, type) != 1;
}

static int look_around(const struct kvmm_prefix *prompt)
{
	kvmm_node_t node[NR_BLOCKS];
	struct kvmm_node_info info;
	struct kvmm_registry_stat stat;
	uint16_t tiers[NR_BLOCKS];
	int err = kvmm_registry_hold(reg, prompt, node);	/* they stay, whichever tier has them */

	if (err)
		return err;
	err = count_uses(node[3]);
	if (!err && !kvmm_node_get_info(reg, node[3], &info) && info.parent.index == node[2].index)
		printf("block 3: behind block 2, %u behind it\n", info.children);
	kvmm_node_walk(reg, node[0], show, NULL);
	kvmm_node_put(reg, node, prompt->nr);
	kvmm_registry_get_stat(reg, &stat);
	printf("%u names; %d of them cached somewhere\n", stat.nodes,
	       kvmm_registry_presence(reg, prompt, tiers));
	return err;
}

int main(void)
{
	struct kvmm_registry_attr attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_delegate told = { .on_present = came, .on_absent = went }, none = { 0 };
	struct kvmm_prefix prompt = { .keys = keys, .nr = NR_BLOCKS }, head = { .keys = keys, .nr = 4 };
	int err;

	for (int i = 0; i < NR_BLOCKS; i++)
		keys[i].byte[0] = i + 1;	/* a router hashes tokens as its engines do: kvmm_key_hash() */
	err = kvmm_registry_create(&attr, &reg);
	if (err)
		return 1;
	err = kvmm_registry_delegate(reg, &told);
	/* As the events of the workers say; see <kvmm/event.h>. */
	if (!err)
		err = kvmm_registry_present(reg, 0, &head);
	if (err || route(&prompt) != 0 || look_around(&prompt))
		return 1;
	printf("%d blocks moved\n", kvmm_registry_transfer(reg, 0, 1, &head));
	if (route(&prompt) != 1 || kvmm_registry_absent(reg, 1, &head) != 4 ||
	    kvmm_registry_delegate(reg, &none))
		return 1;
	kvmm_registry_destroy(reg);
	return 0;
}
