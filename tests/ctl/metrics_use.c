// SPDX-License-Identifier: Apache-2.0
/* What several parts of metrics_run do alike. */
#include "metrics_run.h"

int use_prompt(struct kvmm_pool *pool, struct prompt *prompt,
	       void (*acquired)(const struct prompt *prompt))
{
	kvmm_key_t key[PROMPT_BLOCKS], evicted[PROMPT_BLOCKS];
	kvmm_mut_t mut[PROMPT_BLOCKS];
	u32 nr = prompt->nr;
	struct kvmm_acquire_args req = { .keys = key, .nr_keys = nr, .max_hits = nr,
					 .nr_blocks = nr, .hits = prompt->ref, .fresh = mut,
					 .evicted = evicted, .domain = { .tenant = prompt->tenant } };
	struct kvmm_prefix rest;
	int err;

	name_keys(prompt->number, 0, nr, key);
	err = kvmm_acquire(pool, &req);
	if (err)
		return err;
	prompt->nr_fresh = req.nr_fresh;
	prompt->nr_evicted = req.nr_evicted;
	if (acquired)
		acquired(prompt);
	rest = (struct kvmm_prefix){ key + req.nr_hits, req.nr_fresh, req.nr_hits, NULL, req.domain };
	if (req.nr_fresh)
		must(kvmm_prefix_register(pool, &rest, mut, prompt->ref + req.nr_hits), "register");
	return 0;
}

void put_prompt(struct kvmm_pool *pool, const struct prompt *prompt)
{
	must(kvmm_put_many(pool, prompt->ref, prompt->nr), "put");
}

u32 read_removed(struct kvmm_events *events, struct kvmm_event *removed, u32 max)
{
	u64 nr_lost;
	int nr = kvmm_events_read(events, removed, max, &nr_lost);
	u32 nr_removed = 0;

	must(nr_lost ? -1 : nr, "events");
	for (int i = 0; i < nr; i++)
		if (removed[i].kind == KVMM_EVENT_REMOVED)
			removed[nr_removed++] = removed[i];
	return nr_removed;
}

struct kvmm_pool *make_pool(const char *name, u32 nr_blocks, u64 block_bytes, const char *policy)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = name, .nr_blocks = nr_blocks,
				       .block_bytes = block_bytes, .policy = policy };
	struct kvmm_pool *pool;

	must(kvmm_pool_create(&attr, &pool), "pool");
	return pool;
}

struct kvmm_tier *make_tier(const char *name, u32 nr_units, u64 block_bytes, u32 flags)
{
	struct kvmm_tier_attr attr = { .size = sizeof(attr), .numa_node = -1, .name = name,
				       .capacity_blocks = nr_units, .block_bytes = block_bytes,
				       .flags = flags };
	struct kvmm_tier *tier;

	must(kvmm_tier_host_create(&attr, &tier), "tier");
	return tier;
}

void expect_pins(const char *name, const char *pool, const u64 *pins)
{
	static const char *const type[] = { "user", "rdma", "gds", "ipc", "copy", "graph" };
	char more[32];

	for (u32 i = 0; i < KVMM_NR_PIN_TYPES; i++) {
		snprintf(more, sizeof(more), ",type=\"%s\"", type[i]);
		expect(name, pool, more, pins[i]);
	}
}
