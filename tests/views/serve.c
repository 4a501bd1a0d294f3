// SPDX-License-Identifier: Apache-2.0
/*
 * An engine to look at: pool "kv", of which all is known, and two slab caches.
 *
 *	serve DIR [busy|closed]	engine.sock in DIR; says "ready"; ends when its input does
 *
 * 4096 blocks of 4 KiB. Sequences 1 to 8 have ranges, of owners 100 and 200; sequence 3 is pinned. A prompt
 * of 64 blocks is cached, of which two others of 80 share the first 48; the first is held by owner 300. Four
 * private blocks, two staged ones. With "busy" a thread allocates and frees all the time. With "closed"
 * the pool has found that it contradicts itself, and there is a second one, "other".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kvmm/ext/control.h>
#include <kvmm/kvmm.h>

#include "pool/internal.h"

#define NR_BLOCKS	4096u
#define MAX_PROMPT	80u

static struct kvmm_pool *pool;
static int stop;	/* atomic */

static void check(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "serve: %s: %s\n", what, kvmm_strerror(err));
	exit(1);
}

static kvmm_key_t key_of(unsigned int prompt, unsigned int position)
{
	kvmm_key_t key = { { 0 } };

	if (position < 48)
		prompt = 0;
	key.byte[0] = 0x10 + prompt;
	key.byte[1] = position;
	key.byte[15] = 0xee;
	return key;
}

/* Registered as far as it is not there, and put back. */
static void cache_prompt(unsigned int prompt, unsigned int nr)
{
	struct kvmm_prefix prefix = { .nr = nr };
	kvmm_key_t keys[MAX_PROMPT];
	kvmm_ref_t refs[MAX_PROMPT];
	kvmm_mut_t muts[MAX_PROMPT];
	int hits;

	for (unsigned int i = 0; i < nr; i++)
		keys[i] = key_of(prompt, i);
	prefix.keys = keys;
	hits = kvmm_prefix_match(pool, &prefix, refs);
	check(hits, "match");
	check(kvmm_alloc(pool, nr - hits, muts), "alloc");
	prefix = (struct kvmm_prefix){ keys + hits, nr - hits, hits, hits ? &keys[hits - 1] : NULL,
				       { 0, 0, 0 } };
	check(kvmm_prefix_register(pool, &prefix, muts, refs + hits), "register");
	check(kvmm_put_many(pool, refs, nr), "put");
}

static void hold_prompt(unsigned int nr)
{
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	kvmm_key_t keys[MAX_PROMPT];
	struct kvmm_prefix prefix = { keys, nr, 0, NULL, { 0, 0, 0 } };
	kvmm_lease_t hold;

	for (unsigned int i = 0; i < nr; i++)
		keys[i] = key_of(1, i);
	attr.prefix = &prefix;
	attr.reason = KVMM_LEASE_TRANSFER;
	attr.owner = 300;
	attr.text = "decode-7";
	check(kvmm_lease_take(pool, &attr, &hold), "hold");
}

static void fill(void)
{
	kvmm_key_t keys[2] = { key_of(7, 70), key_of(7, 71) };
	struct kvmm_prefix prefix = { keys, 2, 70, NULL, { 0, 0, 0 } };
	kvmm_staged_t staged[2];
	kvmm_mut_t muts[6];

	for (unsigned int seq = 1; seq <= 8; seq++) {
		struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 40 * seq, .seq = seq,
						.owner = seq % 2 ? 100 : 200 };
		kvmm_range_t range;

		check(kvmm_range_alloc_attr(pool, &attr, &range), "range");
		if (seq == 3)
			check(kvmm_range_pin(pool, range), "pin");
	}
	cache_prompt(1, 64);
	cache_prompt(2, 80);
	cache_prompt(3, 80);
	hold_prompt(64);
	check(kvmm_alloc(pool, 6, muts), "alloc");
	check(kvmm_stage(pool, &prefix, muts + 4, staged), "stage");
}

static void make_slabs(void)
{
	static const struct { const char *name; unsigned int bytes, nr; } sizes[] = {
		{ "window", 3000, 500 }, { "state", 20000, 33 },
	};
	struct kvmm_slab_cache *cache = NULL;

	for (unsigned int i = 0; i < 2; i++) {
		struct kvmm_slab_attr attr = { .size = sizeof(attr), .name = sizes[i].name,
					       .object_bytes = sizes[i].bytes,
					       .base_block_bytes = 4096, .max_waste_pm = 300,
					       .nr_blocks = i ? 0 : 2048, .beside = cache };
		kvmm_slab_obj_t objs[500];

		check(kvmm_slab_cache_create(&attr, &cache), "cache");
		check(kvmm_slab_alloc(cache, sizes[i].nr, objs), "objects");
	}
}

static void *be_busy(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		kvmm_range_t range[16];
		unsigned int nr = 0;

		for (; nr < 16; nr++)
			if (kvmm_range_alloc(pool, 1 + rand() % 60, 0, &range[nr]))
				break;
		usleep(1000);
		while (nr--)
			kvmm_range_free(pool, range[nr]);
	}
	return NULL;
}

static struct kvmm_pool *close_pool(struct kvmm_control *control)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = "other", .nr_blocks = 8 };
	struct kvmm_pool *other;

	check(kvmm_pool_create(&attr, &other), "other pool");
	check(kvmm_control_add_pool(control, NULL, other), "add pool");
	kv_lock(&pool->lock);
	pool_poison(pool);
	kv_unlock(&pool->lock);
	return other;
}

int main(int argc, char **argv)
{
	struct kvmm_control_attr control_attr = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_registry_attr reg_attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	bool is_busy = argc > 2 && !strcmp(argv[2], "busy");
	bool is_closed = argc > 2 && !strcmp(argv[2], "closed");
	struct kvmm_pool *other = NULL;
	struct kvmm_control *control;
	pthread_t thread;

	if (argc < 2)
		return 2;
	reg_attr.nr_tiers = 2;
	check(kvmm_registry_create(&reg_attr, &attr.registry), "registry");
	attr.name = "kv";
	attr.nr_blocks = NR_BLOCKS;
	attr.block_bytes = 4096;
	attr.policy = "lru";
	check(kvmm_pool_create(&attr, &pool), "pool");
	fill();
	make_slabs();
	control_attr.name = "engine";
	control_attr.dir = argv[1];
	control_attr.flags = KVMM_CONTROL_THREAD;
	check(kvmm_control_open(&control_attr, &control), "control");
	check(kvmm_control_add_pool(control, NULL, pool), "add pool");
	if (is_closed)
		other = close_pool(control);
	if (is_busy && pthread_create(&thread, NULL, be_busy, NULL))
		return 1;
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	if (is_busy)
		pthread_join(thread, NULL);
	kvmm_control_close(control);
	kvmm_pool_destroy(pool);
	kvmm_pool_destroy(other);
	kvmm_registry_destroy(attr.registry);
	return 0;
}
