// SPDX-License-Identifier: Apache-2.0
/*
 * Random operations on pools, counted by who does them, and what the library's metrics say then;
 * metrics.py compares the two. Nothing is expected because the library has counted it: numbers come from
 * what calls return, from where things lie before and after, from events, and from what devices, files and
 * sockets below the library were made to do. A seed does the same in each run, time included.
 *
 * usage: metrics_run SEED STEPS FOLDER [openmetrics|prometheus|table|FILE OF THE KERNEL]
 *
 * Lines "expect NAME{LABELS} NUMBER" come first, then a line "---", then the text.
 */
#include <stdlib.h>

#include "metrics_run.h"
#include "pool/internal.h"

#define NR_BLOCKS	160u
#define NR_PROMPTS	24u
#define MAX_NR		12u
#define NR_HELD		24u
#define CACHE		"we\"ird\\name"
#define CACHE_SHOWN	"we\\\"ird\\\\name"

static struct kvmm_pool *cache, *ranges, *tenants, *closed;
static struct kvmm_tier *tier;
u64 run_seed, run_random;
static u64 now_ns;

static struct {
	u64 allocs, alloc_blocks, frees, nospc, evicted, hits, misses, registered, dups;
	u64 offloads;
	u64 range_allocs, range_blocks, range_frees;
	u64 tenant_blocks[3], tenant_refused[3], tenant_peak[3];
} count;

static kvmm_mut_t held[NR_HELD];
static kvmm_range_t range[NR_HELD];
static u32 range_nr[NR_HELD], nr_held, nr_ranges;

void must(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "metrics_run: %s: %d\n", what, ret);
	exit(1);
}

void name_keys(u32 prompt, u32 from, u32 nr, kvmm_key_t *keys)
{
	memset(keys, 0, nr * sizeof(*keys));
	for (u32 i = 0; i < nr; i++) {
		keys[i].byte[0] = 1 + prompt;
		keys[i].byte[1] = from + i;
		keys[i].byte[9] = 7;
	}
}

/* ---- the cache, and the tier below it ---- */

static void use_cache(void)
{
	struct prompt prompt = { .nr = 1 + any(MAX_NR) };
	u32 nr_hits;

	prompt.number = any(NR_PROMPTS);
	if (use_prompt(cache, &prompt, NULL)) {
		count.nospc++;
		return;
	}
	nr_hits = prompt.nr - prompt.nr_fresh;
	count.hits += nr_hits;
	count.misses += prompt.nr_fresh;
	count.evicted += prompt.nr_evicted;
	count.allocs += !!prompt.nr_fresh;
	count.alloc_blocks += prompt.nr_fresh;
	count.registered += prompt.nr_fresh;
	put_prompt(cache, &prompt);
}

/* Nothing but the pool itself says what that evicts. */
static bool alloc_one(kvmm_mut_t *mut)
{
	struct kvmm_pool_stat before, after;

	must(kvmm_pool_get_stat(cache, &before), "stat");
	if (kvmm_alloc(cache, 1, mut)) {
		count.nospc++;
		return false;
	}
	must(kvmm_pool_get_stat(cache, &after), "stat");
	count.evicted += after.evictions - before.evictions;
	count.allocs++;
	count.alloc_blocks++;
	return true;
}

/* A second block under a name that is there, or the first one. */
static void register_twice(void)
{
	kvmm_key_t key[MAX_NR];
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	name_keys(any(NR_PROMPTS), 0, 1, key);
	if (!alloc_one(&mut))
		return;
	count.dups += kvmm_match_len(cache, key, 1) == 1;
	must(kvmm_register(cache, &mut, key, 1, &ref), "register");
	count.registered++;
	must(kvmm_put(cache, ref), "put");
}

/* References on what is there of @nr blocks of a prompt. */
static int match(u32 prompt, u32 nr, kvmm_ref_t *ref)
{
	kvmm_key_t key[MAX_NR];
	int nr_hits;

	name_keys(prompt, 0, nr, key);
	nr_hits = kvmm_match(cache, key, nr, ref);
	must(nr_hits, "match");
	count.hits += nr_hits;
	count.misses += nr - nr_hits;
	return nr_hits;
}

static void look_up(void)
{
	kvmm_ref_t ref[MAX_NR];
	u32 nr = 1 + any(MAX_NR);
	int nr_hits = match(any(NR_PROMPTS + 4), nr, ref);

	must(kvmm_put_many(cache, ref, nr_hits), "put");
}

static void hold_and_free(void)
{
	if (any(2) && nr_held < NR_HELD) {
		nr_held += alloc_one(&held[nr_held]);
	} else if (nr_held) {
		must(kvmm_free(cache, &held[--nr_held], 1), "free");
		count.frees++;
	}
}

static void offload(void)
{
	u32 nr = 1 + any(4);
	kvmm_ref_t ref[MAX_NR];
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .refs = ref };
	struct kvmm_tier_result result = { .size = sizeof(result) };
	kvmm_tier_op_t op;
	s32 errors[MAX_NR];
	int nr_hits, err;
	struct kvmm_tier_client_stat before, after;

	nr_hits = match(any(NR_PROMPTS), nr, ref);
	if (!nr_hits)
		return;
	req.nr = nr_hits;
	must(kvmm_tier_client_get_stat(cache, &before, sizeof(before)), "tier");
	err = kvmm_tier_offload(cache, &req, &op);
	if (!err) {
		for (u32 i = 0; i < 64; i++) {
			now_ns += 1000000;
			kvmm_tier_clock(tier, now_ns);
			kvmm_tier_poll(cache);
		}
		result.errors = errors;
		result.nr = nr_hits;
		err = kvmm_tier_get_result(cache, op, &result);
		must(kvmm_tier_client_get_stat(cache, &after, sizeof(after)), "tier");
		for (int i = 0; !err && i < nr_hits; i++)
			count.offloads += !errors[i];
		count.offloads -= after.present - before.present;
	}
	must(kvmm_put_many(cache, ref, nr_hits), "put");
}

/* ---- ranges, and tenants ---- */

static void use_ranges(void)
{
	u32 nr = 1 + any(20), i;

	if (any(2) && nr_ranges < NR_HELD) {
		if (kvmm_range_alloc(ranges, nr, KVMM_ALLOC_NO_COMPACT | KVMM_RUNS(1),
				     &range[nr_ranges]))
			return;
		range_nr[nr_ranges++] = nr;
		count.range_allocs++;
		count.range_blocks += nr;
	} else if (nr_ranges) {
		i = any(nr_ranges);
		must(kvmm_range_free(ranges, range[i]), "range_free");
		range[i] = range[--nr_ranges];
		range_nr[i] = range_nr[nr_ranges];
		count.range_frees++;
	}
}

static kvmm_mut_t tenant_mut[3][NR_BLOCKS];

static void use_tenants(void)
{
	u32 who = 1 + any(2);

	if (any(3)) {
		if (kvmm_alloc_for(tenants, 1, who, &tenant_mut[who][count.tenant_blocks[who]])) {
			count.tenant_refused[who]++;
			return;
		}
		count.tenant_blocks[who]++;
		count.tenant_peak[who] = max(count.tenant_peak[who], count.tenant_blocks[who]);
	} else if (count.tenant_blocks[who]) {
		must(kvmm_free(tenants, &tenant_mut[who][--count.tenant_blocks[who]], 1), "free");
	}
}

/* ---- what is expected ---- */

void expect(const char *name, const char *pool, const char *more, u64 number)
{
	printf("expect %s{" LABELS "%s} %llu\n", name, pool, more, (llu)number);
}

void expect_labels(const char *name, const char *labels, u64 number)
{
	printf("expect %s{%s} %llu\n", name, labels, (llu)number);
}

void expect_tier(const char *name, const char *tier_name, u64 number)
{
	printf("expect %s{tier=\"%s\"} %llu\n", name, tier_name, (llu)number);
}

void expect_between(const char *name, const char *pool, const char *more, double least, double most)
{
	printf("between %s{" LABELS "%s} %.9f %.9f\n", name, pool, more, least, most);
}

static void expect_ratio(const char *name, const char *pool, const char *more, u64 ppm)
{
	expect_between(name, pool, more, ppm / 1e6, ppm / 1e6);
}

/* Of the free blocks, those outside aligned free pieces of 2^order or more. */
static void expect_unusable(const char *name, const bool *is_free)
{
	char more[32];

	for (u32 order = 0; order < KVMM_NR_ORDERS; order++) {
		u32 nr = 0, nr_free = 0;

		for (u32 i = 0; i < NR_BLOCKS; i += 1u << order) {
			u32 nr_here = 0, most = min(1u << order, NR_BLOCKS - i);

			for (u32 k = 0; k < most; k++)
				nr_here += is_free[i + k];
			nr_free += nr_here;
			nr += nr_here == 1u << order ? nr_here : 0;
		}
		snprintf(more, sizeof(more), ",order=\"%u\"", order);
		expect_ratio("kvmm_unusable_free_ratio", name, more,
			     nr_free ? (nr_free - nr) * 1000000ull / nr_free : 1000000);
	}
}

/* By looking at each block. */
static void expect_states(struct kvmm_pool *pool, const char *name)
{
	static const char *const state[] = { "free", "null", "range", "private", "staged", "active",
					     "inactive" };
	u32 nr[KVMM_NR_BLOCK_STATES] = { 0 }, run = 0, runs = 0, longest = 0;
	bool is_free[NR_BLOCKS];
	struct kvmm_block_info info;
	char more[64];

	for (u32 i = 0; i < NR_BLOCKS; i++) {
		must(kvmm_block_get_info(pool, i, &info), "block_info");
		nr[info.state]++;
		is_free[i] = info.state == KVMM_BLOCK_FREE;
		run = info.state == KVMM_BLOCK_FREE ? run + 1 : 0;
		runs += run == 1;
		longest = max(longest, run);
	}
	for (u32 i = 0; i < KVMM_NR_BLOCK_STATES; i++) {
		snprintf(more, sizeof(more), ",state=\"%s\"", state[i]);
		expect("kvmm_state_blocks", name, more, nr[i]);
	}
	expect_unusable(name, is_free);
	expect("kvmm_capacity_blocks", name, "", NR_BLOCKS);
	expect("kvmm_free_blocks", name, "", nr[KVMM_BLOCK_FREE]);
	expect("kvmm_available_blocks", name, "", nr[KVMM_BLOCK_FREE] + nr[KVMM_BLOCK_INACTIVE]);
	expect("kvmm_free_runs", name, "", runs);
	expect("kvmm_largest_free_run_blocks", name, "", longest);
}

static void expect_orders(struct kvmm_pool *pool, const char *name)
{
	struct kv_zone_glance glance;
	char more[32];

	kv_zone_glance(kv_pool_zone(pool), &glance);
	for (u32 order = 0; order < KVMM_NR_ORDERS; order++) {
		u64 nr = 0;

		for (u32 class = 0; class < KVMM_NR_MOBILITY; class++)
			nr += glance.free[class * KVMM_NR_ORDERS + order];
		snprintf(more, sizeof(more), ",order=\"%u\"", order);
		expect("kvmm_free_pieces", name, more, nr);
	}
}

static void expect_cache(void)
{
	const char *name = CACHE_SHOWN;
	char more[80];

	expect_states(cache, name);
	expect_orders(cache, name);
	expect("kvmm_allocations_total", name, "", count.allocs);
	expect("kvmm_allocated_blocks_total", name, "", count.alloc_blocks);
	expect("kvmm_frees_total", name, "", count.frees);
	expect("kvmm_no_space_total", name, "", count.nospc);
	expect("kvmm_evicted_blocks_total", name, "", count.evicted);
	expect("kvmm_hit_blocks_total", name, "", count.hits);
	expect("kvmm_missed_blocks_total", name, "", count.misses);
	expect("kvmm_staged_blocks_total", name, "", count.registered);	/* none was given up */
	expect("kvmm_registered_blocks_total", name, "", count.registered);
	expect("kvmm_duplicate_blocks_total", name, "", count.dups);
	expect("kvmm_block_lifetime_seconds_count", name, "", count.evicted);
	expect("kvmm_block_idle_before_evict_seconds_count", name, "", count.evicted);
	expect("kvmm_block_reuse_gap_seconds_count", name, "", count.hits);
	expect("kvmm_block_hit_age_seconds_count", name, "", count.hits);
	expect_ratio("kvmm_residency_sample_ratio", name, "", 1000000);
	snprintf(more, sizeof(more), ",engine=\"zone\",policy=\"lru\",version=\"%s\"", kvmm_version());
	expect("kvmm_pool_info", name, more, 1);
	expect("kvmm_pool_closed", name, "", 0);
	expect("kvmm_pool_closed", "closed", "", 1);
	expect("kvmm_block_tokens", name, "", 16);
	expect("kvmm_block_bytes", name, "", 0);
	expect("kvmm_offloaded_blocks_total", name, ",tier=\"host\"", count.offloads);
	expect("kvmm_offloaded_bytes_total", name, ",tier=\"host\"", count.offloads * 4096);
	expect("kvmm_below_blocks", name, ",tier=\"host\"", count.offloads);
	expect("kvmm_below_bytes", name, ",tier=\"host\"", 0);	/* ids only */
	printf("expect kvmm_tier_blocks{tier=\"host\"} %llu\n", (llu)count.offloads);
	printf("expect kvmm_tier_used_units{tier=\"host\"} %llu\n", (llu)count.offloads);
	printf("expect kvmm_tier_ready_units{tier=\"host\"} 4096\n");
	printf("expect kvmm_tier_stored_blocks_total{tier=\"host\"} %llu\n", (llu)count.offloads);
	printf("expect kvmm_tier_capacity_units{tier=\"host\"} 4096\n");
	printf("expect kvmm_tier_clients{tier=\"host\"} 1\n");
}

static void expect_others(void)
{
	char more[32];

	expect_states(ranges, "ranges");
	expect_orders(ranges, "ranges");
	expect("kvmm_ranges", "ranges", "", nr_ranges);
	expect("kvmm_allocations_total", "ranges", "", count.range_allocs);
	expect("kvmm_allocated_blocks_total", "ranges", "", count.range_blocks);
	expect("kvmm_frees_total", "ranges", "", count.range_frees);
	expect_states(tenants, "tenants");
	for (u32 who = 1; who <= 2; who++) {
		snprintf(more, sizeof(more), ",tenant=\"%u\"", who);
		expect("kvmm_tenant_blocks", "tenants", more, count.tenant_blocks[who]);
		expect("kvmm_tenant_peak_blocks", "tenants", more, count.tenant_peak[who]);
		expect("kvmm_tenant_refused_total", "tenants", more, count.tenant_refused[who]);
		expect("kvmm_tenant_max_blocks", "tenants", more, 20 * who);
		expect("kvmm_tenant_min_blocks", "tenants", more, 0);
	}
}

/* ---- set-up ---- */

static void make_pools(void)
{
	static const struct kvmm_class classes[] = { { "low", 0, 0, 0, 0 }, { "high", 0, 500, 0, 0 } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes, .nr_classes = 2 };
	struct kvmm_tenant_attr limits = KVMM_TENANT_ATTR_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .name = "ranges" };
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config knobs = KVMM_TIER_CONFIG_INIT;

	must(kvmm_pool_create(&attr, &ranges), "pool");
	attr.name = "closed";
	must(kvmm_pool_create(&attr, &closed), "pool");
	kv_lock(&closed->lock);
	pool_poison(closed);
	kv_unlock(&closed->lock);
	attr.policy = "lru";
	attr.name = "tenants";
	attr.evict = &evict;
	must(kvmm_pool_create(&attr, &tenants), "pool");
	attr.evict = NULL;
	attr.name = "cache";
	must(kvmm_pool_create(&attr, &cache), "pool");
	must(kvmm_residency_set(cache, 1000000), "residency");
	for (u32 who = 1; who <= 2; who++) {
		limits.max = 20 * who;
		must(kvmm_tenant_set(tenants, who, &limits), "tenant");
	}
	tier = make_tier(NULL, 4096, 0, KVMM_TIER_TOLD_CLOCK);
	knobs.write = KVMM_TIER_EXPLICIT;
	client.block_bytes = 4096;
	client.config = &knobs;
	must(kvmm_tier_attach(cache, tier, &client), "attach");
}

static const struct {
	const struct part *part;
	u32 every;			/* of its operations there is one for so many of the others */
} parts[] = {
	{ &metrics_remote, 2 },	/* the first: time passes in what it expects */
	{ &metrics_chain, 4 }, { &metrics_busy, 1 }, { &metrics_slab, 1 }, { &metrics_publish, 12 },
	{ &metrics_classes, 1 }, { &metrics_lodgers, 1 }, { &metrics_miss, 1 }, { &metrics_sums, 1 },
	{ &metrics_ebb, 1 }, { &metrics_flood, 4 }, { &metrics_loop, 60 }, { &metrics_room, 1 }, { &metrics_drop, 1 },
	{ &metrics_flights, 1 }, { &metrics_lend, 1 }, { &metrics_tidy, 1 }, { &metrics_disk, 2 },
};

/* Those of parts stand behind the first ones. */
static struct kvmm_pool *pools[4 + ARRAY_SIZE(parts)];
static u32 nr_pools;

static void add_pool(struct kvmm_pool *pool)
{
	pools[nr_pools] = pool;
	nr_pools += pool != NULL;
}

static void run(u32 steps)
{
	static void (*const ops[])(void) = { use_cache, use_cache, look_up, register_twice,
					     hold_and_free, use_ranges, use_tenants, offload };

	for (u32 i = 0; i < steps; i++)
		ops[any(ARRAY_SIZE(ops))]();
	for (u32 k = 0; k < ARRAY_SIZE(parts); k++) {
		run_random = run_seed + 1000 * k;	/* whatever the others do */
		for (u32 i = 0; i < steps / parts[k].every; i++)
			parts[k].part->use();
	}
}

static int show(const char *what)
{
	static char text[4 << 20];
	const char *names[ARRAY_SIZE(pools)] = { CACHE };
	struct kvmm_metrics_attr attr = { .size = sizeof(attr), .max_tenants = 64, .pools = pools,
					  .names = names, .nr_pools = nr_pools };
	int len;

	attr.format = !strcmp(what, "prometheus");
	attr.what = attr.format || !strcmp(what, "openmetrics") ? NULL : what;
	len = kvmm_metrics_text(&attr, text, sizeof(text));
	must(len, what);
	fputs(text, stdout);
	return len >= (int)sizeof(text);
}

int main(int argc, char **argv)
{
	int ret;

	if (argc < 4)
		return 2;
	run_seed = strtoull(argv[1], NULL, 0);
	run_random = run_seed * 2654435761u + 1;
	env_install();
	make_pools();
	add_pool(cache);
	add_pool(ranges);
	add_pool(tenants);
	for (u32 i = 0; i < ARRAY_SIZE(parts); i++)
		add_pool(parts[i].part->make(argv[3]));
	add_pool(closed);
	run(atoi(argv[2]));
	expect_cache();
	expect_others();
	for (u32 i = 0; i < ARRAY_SIZE(parts); i++) {
		run_random = run_seed + 1000 * i + 500;
		parts[i].part->expect();
	}
	puts("---");
	ret = show(argc > 4 ? argv[4] : "openmetrics");
	kvmm_pool_destroy(cache);
	kvmm_pool_destroy(ranges);
	kvmm_pool_destroy(tenants);
	kvmm_pool_destroy(closed);
	kvmm_tier_destroy(tier);
	for (u32 i = 0; i < ARRAY_SIZE(parts); i++)
		parts[i].part->end();
	return ret;
}
