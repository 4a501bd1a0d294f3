// SPDX-License-Identifier: Apache-2.0
/*
 * What was deleted does not come back. A pool above a host tier above a disk in memory: blocks are filled,
 * loaded, forgotten by name, by tenant, or all of them (a reset, or an opening that begins anew), while their
 * process ends, power goes between any two writes, pages of the file are overwritten, are old ones or
 * cannot be read (two faults at a time), there is less room, the index does not know of records, or calls
 * of the system fail. Each deletion changes what a block's content has to be from then on, so a copy from
 * before it is seen even where the name was filled again.
 *
 * Every other life of a store has a second thread, that copies down meanwhile, and no loss of power.
 * KVMM_ATTACK_SECONDS: how long (2); KVMM_SEED: where to begin (random). Exit code 0: clean.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <kv/atomic.h>
#include <kv/disk.h>
#include <kvmm/kvmm.h>

#include "tests/support/sim_disk.h"

#define NR_TENANTS	4u
#define NR_KEYS		48u		/* of each */
#define MAX_RUN		6u
#define NR_BLOCKS	24u
#define NR_UNITS	16u
#define BYTES		4096u
#define SEGMENT		(64u << 10)
#define NR_SEGMENTS	8u
#define FRONT		24576u
#define MAX_BYTES	(NR_SEGMENTS * SEGMENT + FRONT)
#define NR_OPS		250u		/* of a life */

static struct sim_disk sims[2], *sim = &sims[0];
static u8 old[2 * MAX_BYTES];			/* the file at some restart of this life */
static struct kvmm_disk *disk;
static struct kvmm_tier *tier;
static struct kvmm_pool *pool;

static u32 version[NR_TENANTS][NR_KEYS];	/* of the content */
static bool gone[NR_TENANTS][NR_KEYS];		/* deleted, and not filled since */

/* The last deletion, which power may have gone in the middle of. */
static struct {
	u32 first_step;		/* of the disk */
	u32 tenant, first, nr;
	bool is_reset;
} last;

static u32 open_step;		/* of the disk: a page that was bad before is whole again */

static pthread_t worker;
static u32 works;		/* atomic */
static bool has_worker;
static u64 seed, state, nr_bad, nr_hits, nr_deleted, nr_restarts, nr_lives, nr_op;

#define expect(cond)									\
	do {										\
		if (!(cond) && nr_bad++ < 5)						\
			fprintf(stderr, "line %d: %s (seed %llu, life %llu, call %llu)\n", __LINE__, \
				#cond, (unsigned long long)seed, (unsigned long long)nr_lives,	\
				(unsigned long long)nr_op);				\
	} while (0)

static u32 any(u32 limit)
{
	u64 x = state += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	return ((x ^ (x >> 32)) >> 32) * limit >> 32;
}

static u64 number_from(const char *name, u64 otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static u64 now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (u64)time.tv_sec * 1000000000u + time.tv_nsec;
}

/* ---- names, and what is in them ---- */

struct run {
	u32 tenant, first;
	kvmm_key_t key[NR_KEYS];
	struct kvmm_prefix prefix;
};

static void make_run(struct run *run, u32 tenant, u32 first, u32 nr)
{
	*run = (struct run){ .tenant = tenant, .first = first };
	for (u32 i = 0; i < nr; i++)
		run->key[i] = (kvmm_key_t){ { first + i, 'w' } };
	run->prefix = (struct kvmm_prefix){ run->key, nr, 0, NULL, { .tenant = tenant } };
}

static void any_run(struct run *run)
{
	u32 nr = 1 + any(MAX_RUN);

	make_run(run, any(NR_TENANTS), any(NR_KEYS - nr + 1), nr);
}

static void fill_content(u32 tenant, u32 n, u8 *content)
{
	u32 x = (version[tenant][n] * NR_TENANTS + tenant) * NR_KEYS + n + 1;

	for (u32 i = 0; i < BYTES; i++) {
		x = x * 1664525u + 1013904223u;
		content[i] = x >> 24;
	}
}

/* ---- a process ---- */

static void *work(void *unused)
{
	while (READ_ONCE(works)) {
		kvmm_tier_poll(pool);
		kvmm_tier_tick(tier);
	}
	return unused;
}

static int open_disk(u64 max_bytes, u32 flags)
{
	static const u8 foreign[1][16] = { { 0xff } };
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = "/store", .max_bytes = max_bytes,
				       .segment_bytes = SEGMENT };

	attr.io = any(2) ? KVMM_DISK_IO_AUTO : KVMM_DISK_IO_POLL;
	attr.flags |= flags | (any(2) ? KVMM_DISK_NAMES : 0);
	/* Then the index does not know of what is there. */
	attr.layouts = foreign;
	attr.nr_layouts = !any(6);
	return kvmm_disk_open(&attr, &disk);
}

static void start_process(u64 max_bytes, u32 flags)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_disk_attr below = { .size = sizeof(below), .high_pm = 0 };
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_attr host = KVMM_TIER_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	sim_disk_install(sim);
	if (open_disk(max_bytes, flags)) {
		sim_disk_fail(sim, 0, SIM_EIO, false);
		expect(!open_disk(max_bytes, flags));
	}
	open_step = sim->nr_steps;
	if (has_worker)
		sim_disk_fail(sim, 0, SIM_EIO, false);
	host.block_bytes = attr.block_bytes = BYTES;
	host.capacity_blocks = NR_UNITS;
	host.disk = disk;
	host.disk_attr = &below;
	expect(!kvmm_tier_host_create(&host, &tier));
	config.write = KVMM_TIER_THROUGH;
	client.config = &config;
	client.layout_id = 1;
	client.flags = KVMM_TIER_COMPLETE;
	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	attr.host = tier;
	attr.host_attr = &client;
	expect(!kvmm_pool_create(&attr, &pool));
	if (nr_bad)
		exit(1);
	WRITE_ONCE(works, has_worker);
	if (has_worker && pthread_create(&worker, NULL, work, NULL))
		exit(2);
}

static void end_process(void)
{
	WRITE_ONCE(works, 0);
	if (has_worker)
		pthread_join(worker, NULL);
	sim_disk_fail(sim, 0, SIM_EIO, false);
	expect(!kvmm_validate(pool));
	kvmm_pool_destroy(pool);
	kvmm_tier_destroy(tier);
	expect(!kv_disk_check(disk));
	kvmm_disk_close(disk);
}

static void turn(u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		kvmm_tier_poll(pool);
		kvmm_tier_tick(tier);
	}
}

/* ---- what is done ---- */

static void fill(const struct run *run, u32 i)
{
	static u8 content[BYTES];
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	if (kvmm_alloc(pool, 1, &mut))
		return;
	fill_content(run->tenant, run->first + i, content);
	expect(!kvmm_block_write(pool, kvmm_block_of_mut(pool, mut), 0, content, BYTES));
	gone[run->tenant][run->first + i] = false;
	expect(!kvmm_prefix_register(pool, &(struct kvmm_prefix){ &run->key[i], 1, 0, NULL,
								  run->prefix.domain }, &mut, &ref));
	expect(!kvmm_put(pool, ref));
}

static void check_content(const struct run *run, const kvmm_ref_t *refs, u32 nr)
{
	static u8 content[BYTES], want[BYTES];

	for (u32 i = 0; i < nr; i++) {
		u32 n = run->first + i;

		fill_content(run->tenant, n, want);
		expect(!kvmm_block_read(pool, kvmm_block_of_ref(pool, refs[i]), 0, content, BYTES));
		expect(!gone[run->tenant][n]);
		expect(!memcmp(content, want, BYTES));
		nr_hits++;
	}
}

static int load(const struct run *run, u32 i)
{
	struct kvmm_prefix one = { &run->key[i], 1, 0, NULL, run->prefix.domain };
	struct kvmm_tier_load_args how = { .size = sizeof(how), .prefix = &one };
	struct run part;
	kvmm_ref_t ref;
	struct kvmm_tier_result result = { .size = sizeof(result), .refs = &ref, .nr = 1 };
	kvmm_tier_op_t op;
	int err = kvmm_tier_load(pool, &how, &op);

	if (err)
		return err;
	while ((err = kvmm_tier_get_result(pool, op, &result)) == -EAGAIN)
		turn(1);
	if (err)
		return err;
	make_run(&part, run->tenant, run->first + i, 1);
	check_content(&part, &ref, 1);
	return kvmm_put(pool, ref);
}

static void load_run(void)
{
	struct run run;

	any_run(&run);
	for (u32 i = 0; i < run.prefix.nr; i++)
		load(&run, i);
}

static void note_deleted(u32 tenant, u32 first, u32 nr)
{
	for (u32 i = first; i < first + nr; i++) {
		version[tenant][i]++;
		gone[tenant][i] = true;
		nr_deleted++;
	}
}

/* One by one, since a match ends where something is missing; there may be duplicates. */
static void evict(const struct run *run)
{
	for (u32 i = 0; i < run->prefix.nr; i++) {
		struct kvmm_prefix one = { &run->key[i], 1, 0, NULL, run->prefix.domain };
		kvmm_ref_t ref;
		u32 block;

		while (kvmm_prefix_match(pool, &one, &ref) == 1) {
			block = kvmm_block_of_ref(pool, ref);
			expect(kvmm_evict_blocks(pool, &block, 1) == 1);
			expect(!kvmm_put(pool, ref));
		}
	}
}

/* A load that is under way meanwhile brings nothing. */
static bool begin_load(const struct run *run, kvmm_tier_op_t *op)
{
	u32 nr = 1 + any(min(run->prefix.nr, MAX_RUN));
	struct kvmm_prefix some = { run->key, nr, 0, NULL, run->prefix.domain };
	struct kvmm_tier_load_args how = { .size = sizeof(how), .prefix = &some };

	return run->prefix.nr && any(2) && !kvmm_tier_load(pool, &how, op);
}

/* A call that fails is made again, as its documentation says. */
static void delete(u32 tenant, u32 first, u32 nr)
{
	kvmm_tier_op_t op;
	struct run run;
	bool loads;

	make_run(&run, tenant, first, nr);
	loads = begin_load(&run, &op);
	last.first_step = sim->nr_steps;
	last.is_reset = false;
	last.tenant = tenant;
	last.first = first;
	last.nr = nr;
	evict(&run);
	if (kvmm_tier_forget(pool, &run.prefix) < 0) {
		sim_disk_fail(sim, 0, SIM_EIO, false);
		expect(kvmm_tier_forget(pool, &run.prefix) >= 0);
	}
	expect(!loads || !kvmm_tier_abort(pool, op));
	if (loads)
		evict(&run);
	note_deleted(tenant, first, nr);
}

static void fill_run(void)
{
	struct run run;
	kvmm_ref_t refs[NR_KEYS];
	int nr;

	any_run(&run);
	nr = kvmm_prefix_match(pool, &run.prefix, refs);
	expect(nr >= 0 && !kvmm_put_many(pool, refs, nr));
	for (u32 i = nr; i < run.prefix.nr; i++)
		fill(&run, i);
	turn(any(4));
	/* While copies of them are on their way. */
	if (!any(5))
		delete(run.tenant, run.first, run.prefix.nr);
}

static void delete_some(void)
{
	u32 nr = 1 + any(MAX_RUN);

	delete(any(NR_TENANTS), any(NR_KEYS - nr + 1), nr);
}

static void note_all_deleted(void)
{
	for (u32 t = 0; t < NR_TENANTS; t++)
		note_deleted(t, 0, NR_KEYS);
}

static void reset(void)
{
	int ret;

	last.first_step = sim->nr_steps;
	last.is_reset = true;
	kvmm_tier_abort_all(pool);
	while ((ret = kvmm_reset_cache(pool)) < 0) {
		expect(ret == -EBUSY || sim->nr_failed);
		if (ret != -EBUSY)
			sim_disk_fail(sim, 0, SIM_EIO, false);
		turn(1);
	}
	note_all_deleted();
}

/* ---- restarts ---- */

static void damage_a_page(void)
{
	u64 at = (u64)any(sim->bytes / KVMM_DISK_PAGE) * KVMM_DISK_PAGE;

	/* Two times of three in what is not records: there is less of it. */
	if (any(3))
		at = any(2) ? any(FRONT / KVMM_DISK_PAGE) * KVMM_DISK_PAGE :
			      FRONT + at / SEGMENT * SEGMENT;
	if (at + KVMM_DISK_PAGE > sim->bytes)
		return;
	switch (any(5)) {
	case 0:
		memset(sim->content + at, 0, KVMM_DISK_PAGE);
		break;
	case 1:
		memset(sim->content + at, any(256), KVMM_DISK_PAGE);
		break;
	case 2:
		sim->content[at + any(KVMM_DISK_PAGE)] ^= 1 << any(8);
		break;
	case 3:
		memcpy(sim->content + at, old + at, KVMM_DISK_PAGE);
		break;
	default:
		sim->bad_from = at;
		sim->bad_to = at + KVMM_DISK_PAGE;
	}
}

/* What is left of the disk when power went at @nr_steps is the disk from now on. */
static void lose_power(u32 nr_steps)
{
	struct sim_disk *next = &sims[sim == &sims[0]];
	struct sim_crash crash = { nr_steps, any(2) ? 512 : 4096, any(UINT32_MAX) };

	sim_disk_init(next, 2 * MAX_BYTES);
	sim_disk_crash(next, sim, &crash);
	next->keeps_log = true;
	next->seed = seed;
	next->no_queue = any(2);
	next->nr_locks = 0;
	sim_disk_exit(sim);
	sim = next;
}

static void restart(void)
{
	bool loses_power = !has_worker && any(2);
	bool in_a_call = loses_power && any(2) && last.first_step < sim->nr_steps;
	u32 nr_steps = sim->nr_steps;
	bool begins_anew = !any(12);

	nr_restarts++;
	/* Not before the last deletion, if there was one: what came back from that time would be right. */
	if (in_a_call)
		nr_steps = last.first_step + any(nr_steps - last.first_step);
	end_process();
	sim->bad_from = sim->bad_to = 0;
	if (loses_power)
		lose_power(nr_steps);
	if (!any(3))
		memcpy(old, sim->content, sizeof(old));
	/* Two faults at a time, of which a loss of power is one. */
	for (u32 n = nr_steps >= open_step ? any(loses_power ? 2 : 3) : 0; n; n--)
		damage_a_page();
	sim_disk_rebase(sim);
	last.first_step = 0;
	if (!any(8))
		sim_disk_fail(sim, 1 + any(40), any(SIM_NR_FAULTS), false);
	start_process(any(4) ? MAX_BYTES : (2 + any(NR_SEGMENTS - 1)) * SEGMENT + FRONT,
		      begins_anew ? KVMM_DISK_RESET : 0);
	if (begins_anew) {
		last.is_reset = true;
		note_all_deleted();
	/* The call did not return, perhaps: it is made again. */
	} else if (in_a_call && last.is_reset) {
		reset();
	} else if (in_a_call) {
		delete(last.tenant, last.first, last.nr);
	}
}

/* Looks for all of them. */
static void look(void)
{
	for (u32 t = 0; t < NR_TENANTS; t++) {
		struct run run;

		make_run(&run, t, 0, NR_KEYS);
		for (u32 i = 0; i < NR_KEYS; i++)
			load(&run, i);
	}
}

static void one_op(void)
{
	u32 what = any(100);

	if (what < 50)
		fill_run();
	else if (what < 70)
		load_run();
	else if (what < 82)
		delete_some();
	else if (what < 84)
		delete(any(NR_TENANTS), 0, NR_KEYS);
	else if (what < 85)
		reset();
	else if (what < 89)
		turn(20);
	else if (what < 91)
		kvmm_disk_sync(disk);
	else if (what < 94 && !has_worker)
		sim_disk_fail(sim, 1 + any(20), any(SIM_NR_FAULTS), any(2));
	else if (what < 95)
		look();
	else if (what < 98)
		restart();
}

static void live(void)
{
	state = seed + nr_lives * 1000003;
	has_worker = nr_lives % 2;
	memset(gone, true, sizeof(gone));
	sim_disk_init(sim, 2 * MAX_BYTES);
	sim->keeps_log = !has_worker;
	sim->seed = seed;
	last.first_step = 0;
	memset(old, 0, sizeof(old));
	start_process(MAX_BYTES, 0);
	for (nr_op = 0; nr_op < NR_OPS && !nr_bad; nr_op++)
		one_op();
	restart();
	look();
	end_process();
	sim_disk_remove();
	sim_disk_exit(sim);
}

int main(void)
{
	u64 end_ns = now_ns() + number_from("KVMM_ATTACK_SECONDS", 2) * 1000000000u;

	seed = number_from("KVMM_SEED", now_ns() ^ (u64)getpid() << 32);
	printf("KVMM_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	do {
		live();
		nr_lives++;
	} while (!nr_bad && now_ns() < end_ns);
	printf("%llu lives, %llu restarts, %llu names deleted, %llu blocks right\n",
	       (unsigned long long)nr_lives, (unsigned long long)nr_restarts,
	       (unsigned long long)nr_deleted, (unsigned long long)nr_hits);
	return nr_bad != 0;
}
