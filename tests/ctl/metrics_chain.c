// SPDX-License-Identifier: Apache-2.0
/*
 * A pool with a host tier, and a disk below that, counted from outside.
 *
 * After each operation all cached blocks are forgotten, and then each name is asked for, one by one:
 * what is found, and where, is the census. What was stored or read and is not there any more has
 * been evicted; what the disk has in its index has been written there.
 */
#include <stdlib.h>
#include <unistd.h>

#include "metrics_files.h"
#include "metrics_run.h"
#include "tests/support/disk_index.h"
#include "tier/pool/tier.h"

#define NAME		"chain"
#define TIER		"below"
#define BYTES		4096u
#define MAX_BYTES	(4u << 20)
#define MAX_UP		5u
#define NR_BLOCKS	16u
#define NR_UNITS	24u
#define NR_NAMES	64u
#define MAX_NR		6u

static struct kvmm_pool *pool;
static struct kvmm_tier *tier;
static struct kvmm_disk *disk;
static char folder[512];

/* KVMM_TIER_HOST, KVMM_TIER_DISK, or KVMM_TIER_DEVICE: nowhere. */
static u8 place[NR_NAMES];

static struct {
	u64 offloads, present, loads, host_loads, hits, misses, pendings, shared, aborted, refused;
	u64 promoted, forgotten, lost, wiped, failed;
} count;

/* All that is under way, to its end. */
static void settle(void)
{
	u32 quiet = 0;

	for (u32 i = 0; i < 10000 && quiet < 3; i++) {
		int under_way = kvmm_tier_poll(pool), more = kvmm_tier_tick(tier);

		must(under_way, "poll");
		must(more, "tick");
		quiet = under_way || more ? 0 : quiet + 1;
	}
	if (quiet < 3)
		must(-1, "settle");
}

static struct kvmm_prefix names(u32 first, u32 nr, kvmm_key_t *keys)
{
	name_keys(100, first, nr, keys);
	return (struct kvmm_prefix){ keys, nr, first, NULL, { 0, 0, 0 } };
}

/* As the answers say; what the device has is given back. */
static u32 match(u32 first, u32 nr, u8 *answers, u8 *levels)
{
	kvmm_key_t keys[MAX_NR];
	kvmm_ref_t refs[MAX_NR];
	struct kvmm_prefix prefix = names(first, nr, keys);
	struct kvmm_tier_match_args req = { .size = sizeof(req), .prefix = &prefix, .refs = refs,
					    .answers = answers, .levels = levels };

	must(kvmm_tier_match(pool, &req), "match");
	must(kvmm_put_many(pool, refs, req.nr_device), "put");
	for (u32 i = req.nr_device; i < nr && i <= req.nr_device + req.nr_lower; i++) {
		count.misses += answers[i] == KVMM_TIER_MISS;
		count.pendings += answers[i] == KVMM_TIER_PENDING;
	}
	return req.nr_device + req.nr_lower;
}

static void census(void)
{
	u8 answer, level, was;

	settle();
	must(kvmm_reset_inactive(pool), "reset");
	for (u32 i = 0; i < NR_NAMES; i++) {
		was = place[i];
		match(i, 1, &answer, &level);
		place[i] = answer == KVMM_TIER_HIT ? level : KVMM_TIER_DEVICE;
		count.lost += was == KVMM_TIER_HOST && place[i] == KVMM_TIER_DEVICE;
	}
}

/* In the device, those that are not there computed; references on them. */
static void compute(u32 first, u32 nr, kvmm_ref_t *refs)
{
	kvmm_key_t keys[MAX_NR];
	kvmm_mut_t mut[MAX_NR];
	struct kvmm_prefix prefix = names(first, nr, keys);
	u8 content[BYTES];

	must(kvmm_alloc(pool, nr, mut), "alloc");
	for (u32 i = 0; i < nr; i++) {
		memset(content, first + i, BYTES);
		must(kvmm_block_write(pool, kvmm_block_of_mut(pool, mut[i]), 0, content, BYTES), "write");
	}
	must(kvmm_prefix_register(pool, &prefix, mut, refs), "register");
}

/* Of these, those that the host tier has, or the others: then none of them makes another one go. */
static void offload(const kvmm_ref_t *refs, u32 first, u32 nr, bool is_there)
{
	kvmm_ref_t some[MAX_NR];
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .refs = some };
	s32 errors[MAX_NR];
	struct kvmm_tier_result result = { .size = sizeof(result), .errors = errors };
	kvmm_tier_op_t op;

	for (u32 i = 0; i < nr; i++)
		if ((place[first + i] == KVMM_TIER_HOST) == is_there)
			some[req.nr++] = refs[i];
	must(kvmm_tier_offload(pool, &req, &op), "offload");
	settle();
	result.nr = req.nr;
	kvmm_tier_get_result(pool, op, &result);
	for (u32 i = 0; i < req.nr; i++)
		*(is_there ? &count.present : &count.offloads) += !errors[i];
}

/* Now and then once more: what has just gone down is there. */
static void go_down(u32 first, u32 nr)
{
	kvmm_ref_t refs[MAX_NR];

	compute(first, nr, refs);
	offload(refs, first, nr, true);
	offload(refs, first, nr, false);
	for (u32 i = 0; i < nr; i++)
		place[first + i] = place[first + i] == KVMM_TIER_HOST ? KVMM_TIER_DEVICE : KVMM_TIER_HOST;
	if (any(3) == 0)
		offload(refs, first, nr, true);
	must(kvmm_put_many(pool, refs, nr), "put");
}

static int begin_load(u32 first, u32 nr, kvmm_tier_op_t *op)
{
	kvmm_key_t keys[MAX_NR];
	struct kvmm_prefix prefix = names(first, nr, keys);
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = &prefix };
	int err = kvmm_tier_load(pool, &req, op);

	count.refused += err == -ENOSPC || err == -EAGAIN || err == -EDQUOT || err == -E2BIG;
	count.hits += err ? 0 : nr;
	return err;
}

static void end_load(kvmm_tier_op_t op, u32 nr)
{
	kvmm_ref_t refs[MAX_NR];
	struct kvmm_tier_result result = { .size = sizeof(result), .refs = refs, .nr = nr };

	must(kvmm_tier_get_result(pool, op, &result), "result of a load");
	must(kvmm_put_many(pool, refs, nr), "put");
}

/* Of a load that was refused: reads that had begun by then may go on. */
static void see_reads(u32 first, u32 nr, const u8 *levels)
{
	census();
	for (u32 i = 0; i < nr; i++)
		count.promoted += levels[i] == KVMM_TIER_DISK && place[first + i] == KVMM_TIER_HOST;
}

/* What comes up, from where it was when it was asked for; maybe for two. */
static void go_up(u32 first, u32 nr)
{
	u8 answers[MAX_NR], levels[MAX_NR], later[MAX_NR];
	kvmm_tier_op_t op, other;
	bool two = any(2);

	nr = match(first, nr, answers, levels);
	if (!nr)
		return;
	if (begin_load(first, nr, &op))
		return see_reads(first, nr, levels);
	for (u32 i = 0; i < nr; i++) {
		count.promoted += levels[i] == KVMM_TIER_DISK;
		count.host_loads += levels[i] == KVMM_TIER_HOST;
	}
	count.loads += nr;
	if (two) {
		match(first, nr, answers, later);
		must(begin_load(first, nr, &other), "load");
		for (u32 i = 0; i < nr; i++)
			count.shared += answers[i] == KVMM_TIER_PENDING;
	}
	settle();
	end_load(op, nr);
	if (two)
		end_load(other, nr);
}

/* Of a record that cannot be read nothing is left, and it is not there at all. */
static void go_wrong(u32 first, u32 nr)
{
	const struct metrics_fault before = fault;	/* what fails here is of this disk */
	u8 answer, level;
	kvmm_ref_t ref;
	struct kvmm_tier_result result = { .size = sizeof(result), .refs = &ref, .nr = 1 };
	kvmm_tier_op_t op;

	if (!match(first, 1, &answer, &level) || level != KVMM_TIER_DISK)
		return;
	fault.fails_reads = true;
	if (!begin_load(first, 1, &op)) {
		settle();
		if (!kvmm_tier_get_result(pool, op, &result))
			must(-1, "a load that fails");
		count.failed++;
		count.wiped++;
	}
	fault = before;
}

/* Called off at once. Whether it goes down all the same is seen afterwards. */
static void call_off(u32 first, u32 nr)
{
	kvmm_ref_t ref;
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .refs = &ref, .nr = 1 };
	kvmm_tier_op_t op;

	if (place[first] == KVMM_TIER_HOST)
		return;
	compute(first, 1, &ref);
	must(kvmm_tier_offload(pool, &req, &op), "offload");
	must(kvmm_tier_abort(pool, op), "abort");
	count.aborted++;
	settle();
	must(kvmm_put(pool, ref), "put");
	census();
	count.offloads += place[first] == KVMM_TIER_HOST;
}

/* More than the device has is not loaded. */
static void hold_all(u32 first, u32 nr)
{
	u8 answers[MAX_NR], levels[MAX_NR];
	kvmm_mut_t mut[NR_BLOCKS];
	kvmm_tier_op_t op;

	must(kvmm_alloc(pool, NR_BLOCKS, mut), "alloc");
	nr = match(first, nr, answers, levels);
	if (nr && !begin_load(first, nr, &op))
		must(-1, "loaded into nothing");
	see_reads(first, nr, levels);
	must(kvmm_free(pool, mut, NR_BLOCKS), "free");
}

static bool has_below(const kvmm_key_t *key)
{
	const kvmm_domain_t domain = { 0, 0, 0 };

	return kv_tier_find_below(lower_of(pool)->client, key, domain) == KVMM_TIER_HIT;
}

/* From the disk as well. */
static void forget(u32 first, u32 nr)
{
	kvmm_key_t keys[MAX_NR];
	struct kvmm_prefix prefix = names(first, nr, keys);
	u64 before, after, bytes;
	u32 nr_host = 0, nr_below = 0;

	for (u32 i = 0; i < nr; i++) {
		nr_host += place[first + i] == KVMM_TIER_HOST;
		nr_below += place[first + i] == KVMM_TIER_HOST || has_below(&keys[i]);
	}
	before = disk_index_count(disk, &bytes);
	if (kvmm_tier_forget(pool, &prefix) != (int)nr_below)
		must(-1, "forget");
	after = disk_index_count(disk, &bytes);
	count.forgotten += nr_host;
	count.wiped += before - after;
	for (u32 i = 0; i < nr; i++)
		place[first + i] = KVMM_TIER_DEVICE;
}

static void chain_use(void)
{
	static void (*const ops[])(u32 first, u32 nr) = { go_down, go_down, go_up, go_up, go_up,
							  call_off, hold_all, forget, go_wrong };
	u32 nr = 1 + any(MAX_NR), first = any(NR_NAMES - nr);

	ops[any(ARRAY_SIZE(ops))](first, nr);
	census();
}

/* ---- what is expected ---- */

static void expect_disk(void)
{
	u64 bytes, nr = disk_index_count(disk, &bytes), written = nr + count.wiped;

	expect_tier("kvmm_disk_records", TIER, nr);
	expect_tier("kvmm_disk_record_bytes", TIER, bytes);
	expect_tier("kvmm_disk_written_records_total", TIER, written);
	expect_tier("kvmm_disk_written_bytes_total", TIER, written * BYTES);
	expect_tier("kvmm_tier_demoted_blocks_total", TIER, written);
	expect_tier("kvmm_disk_read_records_total", TIER, count.promoted);
	expect_tier("kvmm_disk_hit_age_seconds_count", TIER, count.promoted);
	expect_tier("kvmm_disk_read_bytes_total", TIER, count.promoted * BYTES);
	expect_tier("kvmm_disk_pending_records", TIER, 0);
	expect_tier("kvmm_disk_max_bytes", TIER, MAX_BYTES);
}

static void expect_host(void)
{
	u64 here = 0, stored = count.offloads + count.promoted;

	for (u32 i = 0; i < NR_NAMES; i++)
		here += place[i] == KVMM_TIER_HOST;
	expect_tier("kvmm_tier_blocks", TIER, here);
	expect_tier("kvmm_tier_used_units", TIER, here);
	expect_tier("kvmm_tier_read_blocks", TIER, 0);
	expect_tier("kvmm_tier_unit_bytes", TIER, BYTES);
	expect_tier("kvmm_tier_capacity_units", TIER, NR_UNITS);
	expect_tier("kvmm_tier_stored_blocks_total", TIER, stored);
	expect_tier("kvmm_tier_evicted_blocks_total", TIER, stored - here - count.forgotten);
	expect_tier("kvmm_tier_evict_age_seconds_count", TIER, stored - here - count.forgotten);
	expect_tier("kvmm_tier_hit_age_seconds_count", TIER, count.host_loads);
	expect_tier("kvmm_tier_lost_blocks_total", TIER, count.lost);
	expect_tier("kvmm_tier_promoted_blocks_total", TIER, count.promoted);
	expect_tier("kvmm_tier_failed_blocks_total", TIER, count.failed);
	expect("kvmm_below_blocks", NAME, ",tier=\"" TIER "\"", here);
	expect("kvmm_below_bytes", NAME, ",tier=\"" TIER "\"", here * BYTES);
	expect("kvmm_below_evicted_blocks_total", NAME, ",tier=\"" TIER "\"",
	       stored - here - count.forgotten);
}

static void chain_expect(void)
{
	const struct {
		const char *name;
		u64 number;
	} below[] = {
		{ "kvmm_offloaded_blocks_total", count.offloads },
		{ "kvmm_offloaded_bytes_total", count.offloads * BYTES },
		{ "kvmm_loaded_blocks_total", count.loads },
		{ "kvmm_loaded_bytes_total", count.loads * BYTES },
		{ "kvmm_below_hit_blocks_total", count.hits },
		{ "kvmm_below_missed_blocks_total", count.misses },
		{ "kvmm_below_pending_total", count.pendings },
		{ "kvmm_below_shared_blocks_total", count.shared },
		{ "kvmm_below_present_blocks_total", count.present },
		{ "kvmm_below_aborted_total", count.aborted },
		{ "kvmm_below_failed_blocks_total", count.failed },
		{ "kvmm_below_refused_total", count.refused },
		{ "kvmm_disk_read_seconds_count", count.promoted },
		{ "kvmm_below_writing_blocks", 0 },
		{ "kvmm_below_queued_blocks", 0 },
		{ "kvmm_below_loading_blocks", 0 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(below); i++)
		expect(below[i].name, NAME, ",tier=\"" TIER "\"", below[i].number);
	expect_host();
	expect_disk();
}

/* ---- set-up ---- */

static void make_chain(void)
{
	struct kvmm_tier_disk_attr how = { .size = sizeof(how), .high_pm = 600 };
	struct kvmm_disk_attr store = { .size = sizeof(store), .flags = KVMM_DISK_CREATE,
					.path = folder, .io = KVMM_DISK_IO_POLL,
					.max_bytes = MAX_BYTES,
					.segment_bytes = KVMM_DISK_MIN_SEGMENT };
	struct kvmm_tier_attr host = { .size = sizeof(host), .numa_node = -1, .name = TIER,
				       .block_bytes = BYTES, .capacity_blocks = NR_UNITS };

	files_install();
	must(kvmm_disk_open(&store, &disk), "disk");
	files_remove();
	host.disk = disk;
	host.disk_attr = &how;
	must(kvmm_tier_host_create(&host, &tier), "tier");
}

static struct kvmm_pool *chain_make(const char *dir)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config knobs = KVMM_TIER_CONFIG_INIT;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = NAME, .block_bytes = BYTES,
				       .nr_blocks = NR_BLOCKS, .policy = "lru" };

	snprintf(folder, sizeof(folder), "%s", dir);
	make_chain();
	knobs.write = KVMM_TIER_EXPLICIT;
	client.config = &knobs;
	client.flags = KVMM_TIER_COMPLETE;
	client.max_up = MAX_UP;
	attr.host = tier;
	attr.host_attr = &client;
	must(kvmm_pool_create(&attr, &pool), "pool");
	census();
	return pool;
}

static void chain_end(void)
{
	kvmm_pool_destroy(pool);
	kvmm_tier_destroy(tier);
	kvmm_disk_close(disk);
}

const struct part metrics_chain = { chain_make, chain_use, chain_expect, chain_end };
