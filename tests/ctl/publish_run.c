// SPDX-License-Identifier: Apache-2.0
/*
 * A pool with a publisher, steered by lines on standard input; subscribe.py is at the other ends.
 *
 * usage: publish_run FORMAT ENDPOINT REPLAY_ENDPOINT RING
 *
 *	tick	one name is stored
 *	go	many names are stored and removed
 *	list	prints the names that the pool finds, then "end"
 *	reset	forgets all, by one event
 *	stat	prints batches, events, losses, resyncs, replays, snapshots, refused requests
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/types.h>
#include <kvmm/kvmm.h>

#include "tests/support/random.h"

#define NR_BLOCKS	64u
#define NR_NAMES	300u
#define PROMPT		8u
#define NR_PROMPTS	5000u
#define BLOCK_TOKENS	16u

static struct kvmm_pool *pool;
static struct kvmm_publisher *publisher;
static u64 random_state = 42;

#define any(below)	lcg_of(&random_state, below)

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "publish_run: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* Both ends differ, and half of them are negative to who reads them signed. */
static kvmm_key_t key_of(u32 name)
{
	u64 half[2] = { (name + 1) * 0x9e3779b97f4a7c15ull, (name + 1) * 0xc2b2ae3d27d4eb4full };
	kvmm_key_t key;

	memcpy(&key, half, sizeof(key));
	return key;
}

/* Every fifth name's tokens nobody says. */
static void say_tokens(u32 name, const kvmm_key_t *key)
{
	u32 tokens[BLOCK_TOKENS];

	for (u32 i = 0; i < BLOCK_TOKENS; i++)
		tokens[i] = (name * 1000003u + i * 77u) >> i;
	if (name % 5)
		must(kvmm_publisher_tokens(publisher, key, 1, tokens), "tokens");
}

static void store(u32 first, u32 nr)
{
	kvmm_key_t keys[PROMPT];
	kvmm_mut_t muts[PROMPT];
	kvmm_ref_t refs[PROMPT];
	int hits;

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
	for (u32 i = 0; i < nr; i++)
		say_tokens(first + i, &keys[i]);
	hits = kvmm_match(pool, keys, nr, refs);
	must(hits, "match");
	must(kvmm_alloc(pool, nr - hits, muts), "alloc");
	must(kvmm_register(pool, muts, keys + hits, nr - hits, refs + hits), "register");
	must(kvmm_put_many(pool, refs, nr), "put");
}

static void go(void)
{
	for (u32 i = 0; i < NR_PROMPTS; i++) {
		u32 block = any(NR_BLOCKS);

		store(any(NR_NAMES - PROMPT), 1 + any(PROMPT));
		if (!any(10))
			must(kvmm_evict_blocks(pool, &block, 1), "evict");
	}
}

static void list(void)
{
	for (u32 name = 0; name < NR_NAMES; name++) {
		kvmm_key_t key = key_of(name);

		if (kvmm_match_len(pool, &key, 1) != 1)
			continue;
		for (u32 i = 0; i < KVMM_KEY_BYTES; i++)
			printf("%02x", key.byte[i]);
		printf("\n");
	}
	printf("end\n");
}

static void stat(void)
{
	struct kvmm_publisher_stat stat = { .size = sizeof(stat) };

	must(kvmm_publisher_get_stat(publisher, &stat), "stat");
	printf("%lu %lu %lu %lu %lu %lu %lu\n", stat.batches, stat.events, stat.lost, stat.resyncs,
	       stat.replays, stat.snapshots, stat.refused);
}

static void start(char **argv)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };
	struct kvmm_publisher_attr publish = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_events_attr events = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_wire wire = KVMM_WIRE_INIT;

	must(kvmm_pool_create(&attr, &pool), "pool");
	wire.format = atoi(argv[1]);
	wire.spec_kind = "full_attention";
	wire.rank = 3;
	events.ring = atoi(argv[4]);
	events.batch_max = 64;
	publish.wire = &wire;
	publish.events = &events;
	publish.endpoint = argv[2];
	publish.replay_endpoint = argv[3];
	publish.topic = "kv@test@model";
	publish.token_blocks = NR_NAMES;
	must(kvmm_publisher_start(pool, &publish, &publisher), "publisher");
}

int main(int argc, char **argv)
{
	char line[32];

	if (argc != 5)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	start(argv);
	printf("ready\n");
	for (u32 ticks = 0; fgets(line, sizeof(line), stdin);) {
		if (!strcmp(line, "tick\n"))
			store(ticks++ % NR_NAMES, 1);
		else if (!strcmp(line, "go\n"))
			go();
		else if (!strcmp(line, "list\n"))
			list();
		else if (!strcmp(line, "reset\n"))
			must(kvmm_reset_cache(pool), "reset");
		else if (!strcmp(line, "stat\n"))
			stat();
	}
	kvmm_publisher_stop(publisher);
	kvmm_pool_destroy(pool);
	return 0;
}
