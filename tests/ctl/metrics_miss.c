// SPDX-License-Identifier: Apache-2.0
/* Why lookups end. Fewer names go than the library remembers, so the model forgets none. */
#include <kv/mem.h>

#include "pool/internal.h"

#include "metrics_run.h"

#define NAME		"misses"
#define NR_BLOCKS	4096u
#define NR_KEYS		24u
#define NR_TENANTS	2u
#define NR_GROUPS	2u
#define NR_DOMAINS	(NR_TENANTS * NR_GROUPS)
#define MAX_NR		4u
#define FULL_KEY	NR_KEYS	/* has as many references as there can be */
#define MANY		1025u

static struct kvmm_pool *pool;

/* Of each key: where it is, and where it was. */
static struct {
	bool is_there[NR_DOMAINS];
	bool was_there[NR_DOMAINS];
} model[NR_KEYS];

static struct {
	kvmm_staged_t block;
	u32 key, domain;
} staged;
static bool has_staged;

static u64 missed[KVMM_NR_MISSES], metadata_bytes, nr_full;
static u32 nr_retired;

static kvmm_domain_t domain_of(u32 domain)
{
	return (kvmm_domain_t){ .tenant = domain / NR_GROUPS, .group = domain % NR_GROUPS };
}

static struct kvmm_prefix names(u32 first, u32 nr, u32 domain, kvmm_key_t *keys)
{
	name_keys(200, first, nr, keys);
	return (struct kvmm_prefix){ keys, nr, first, NULL, domain_of(domain) };
}

static void store(void)
{
	u32 key = any(NR_KEYS / 2), domain = any(NR_DOMAINS);
	kvmm_key_t name;
	struct kvmm_prefix prefix = names(key, 1, domain, &name);
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	if (model[key].is_there[domain])
		return;
	must(kvmm_alloc(pool, 1, &mut), "alloc");
	must(kvmm_prefix_register(pool, &prefix, &mut, &ref), "register");
	must(kvmm_put(pool, ref), "put");
	model[key].is_there[domain] = model[key].was_there[domain] = true;
}

/* One at a time; it is never published. */
static void stage(void)
{
	u32 key = any(NR_KEYS / 2), domain = any(NR_DOMAINS);
	kvmm_key_t name;
	struct kvmm_prefix prefix = names(key, 1, domain, &name);
	kvmm_mut_t mut;

	if (has_staged) {
		must(kvmm_unstage(pool, &staged.block, 1, &mut), "unstage");
		must(kvmm_free(pool, &mut, 1), "free");
		has_staged = false;
		return;
	}
	must(kvmm_alloc(pool, 1, &mut), "alloc");
	must(kvmm_stage(pool, &prefix, &mut, &staged.block), "stage");
	staged.key = key;
	staged.domain = domain;
	has_staged = true;
}

static void forget_all(void)
{
	if (any(8))
		return;
	must(kvmm_reset_inactive(pool), "reset");
	for (u32 i = 0; i < NR_KEYS; i++)
		memset(model[i].is_there, 0, sizeof(model[i].is_there));
}

static bool is_in_tenant(u32 key, u32 tenant)
{
	for (u32 group = 0; group < NR_GROUPS; group++)
		if (model[key].is_there[tenant * NR_GROUPS + group])
			return true;
	return false;
}

static enum kvmm_miss reason(u32 key, u32 domain)
{
	if (has_staged && staged.key == key && staged.domain == domain)
		return KVMM_MISS_STAGED;
	if (is_in_tenant(key, domain / NR_GROUPS))
		return KVMM_MISS_GROUP;
	for (u32 tenant = 0; tenant < NR_TENANTS; tenant++)
		if (is_in_tenant(key, tenant))
			return KVMM_MISS_TENANT;
	return model[key].was_there[domain] ? KVMM_MISS_EVICTED : KVMM_MISS_NEVER;
}

static void look_up(void)
{
	u32 nr = 1 + any(MAX_NR), first = any(NR_KEYS - nr), domain = any(NR_DOMAINS), i = 0;
	kvmm_key_t keys[MAX_NR];
	kvmm_ref_t refs[MAX_NR];
	struct kvmm_prefix prefix = names(first, nr, domain, keys);
	int nr_hits = kvmm_prefix_match(pool, &prefix, refs);

	must(nr_hits, "match");
	must(kvmm_put_many(pool, refs, nr_hits), "put");
	while (i < nr && model[first + i].is_there[domain])
		i++;
	if (i != (u32)nr_hits)
		must(-1, "as many hits as there are");
	if (i < nr)
		missed[reason(first + i, domain)]++;
}

static void ask_for_less_than_a_block(void)
{
	kvmm_mut_t mut;
	struct kvmm_acquire_args req = { .nr_blocks = 1, .fresh = &mut };

	must(kvmm_acquire(pool, &req), "acquire");
	must(kvmm_free(pool, &mut, 1), "free");
	missed[KVMM_MISS_SHORT]++;
}

static void look_up_what_is_full(void)
{
	kvmm_key_t key;
	struct kvmm_prefix prefix = names(FULL_KEY, 1, 0, &key);
	kvmm_ref_t ref;

	must(-kvmm_prefix_match(pool, &prefix, &ref), "no hit");
	missed[KVMM_MISS_EVICTED]++;
	nr_full++;
}

static void fill(void)
{
	kvmm_ref_t ref, many[MANY];
	kvmm_key_t key;
	struct kvmm_prefix prefix = names(FULL_KEY, 1, 0, &key);
	kvmm_mut_t mut;

	must(kvmm_alloc(pool, 1, &mut), "alloc");
	must(kvmm_prefix_register(pool, &prefix, &mut, &ref), "register");
	for (u32 i = 0; i < MANY; i++)
		many[i] = ref;
	for (u32 i = 0; i < 1022; i++)
		must(kvmm_get_many(pool, many, MANY), "get");
	must(kvmm_get_many(pool, many, MANY - 1), "get");
}

/* As if it were its handle's last life. */
static void retire(void)
{
	u32 last = pool->entries.gen_last;
	kvmm_mut_t mut;

	must(kvmm_alloc(pool, 1, &mut), "alloc");
	pool->entries.gen_last = mut.gen;
	must(kvmm_free(pool, &mut, 1), "free");
	pool->entries.gen_last = last;
	nr_retired++;
}

static void miss_use(void)
{
	static void (*const ops[])(void) = { store, store, stage, forget_all, look_up, look_up, look_up,
					     ask_for_less_than_a_block, look_up_what_is_full, retire };

	ops[any(ARRAY_SIZE(ops))]();
}

static void miss_expect(void)
{
	static const char *const name[] = { "never", "evicted", "staged", "tenant", "group", "short" };
	char more[32];

	/* What it has of other folders' lists is not its own. */
	expect_between("kvmm_metadata_bytes", NAME, "", metadata_bytes - 512, metadata_bytes);
	expect("kvmm_full_blocks_passed_total", NAME, "", nr_full);
	expect("kvmm_retired_blocks", NAME, "", nr_retired);
	for (u32 i = 0; i < KVMM_NR_MISSES; i++) {
		snprintf(more, sizeof(more), ",reason=\"%s\"", name[i]);
		expect("kvmm_misses_total", NAME, more, missed[i]);
	}
}

static struct kvmm_pool *miss_make(const char *dir)
{
	u64 before;

	random_from(1);
	before = kv_mem_bytes();
	pool = make_pool(NAME, NR_BLOCKS, 0, "lru");
	/* Entries have pages of their own. */
	metadata_bytes = kv_mem_bytes() - before + NR_BLOCKS * sizeof(struct kv_entry);
	fill();
	return pool;
}

static void miss_end(void)
{
	kvmm_pool_destroy(pool);
}

const struct part metrics_miss = { miss_make, miss_use, miss_expect, miss_end };
