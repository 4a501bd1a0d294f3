// SPDX-License-Identifier: Apache-2.0
/*
 * A pool above a host tier, on a device whose copies fail, or take a time that the test lets pass; contents
 * in the tier are spoilt. Nothing is cached in the device when an operation begins, so each block that it
 * fills or loads is told by how many blocks were filled since its name was.
 *
 * And a pool that drops blocks which come back at once: what it makes of that is a guess.
 */
#include "metrics_dev.h"
#include "metrics_run.h"
#include "tier/internal.h"

#define NAME		"ebb"
#define BYTES		256u
#define NR_BLOCKS	12u
#define NR_UNITS	40u
#define NR_NAMES	36u		/* none has to go for another one */
#define MAX_NR		6u
#define SECOND		1000000000ull
#define RELOAD_NS	(10 * SECOND)

static struct metrics_dev *const dev = &metrics_dev;

static struct kvmm_pool *pool;
static struct kvmm_tier *tier;

static struct {
	bool is_below;
	u64 since_ns;		/* when the copy was made */
	u64 filled;		/* number of the last fill of the name, from 1 on */
} name[NR_NAMES];

static u64 clock_ns, fills;

static struct {
	u64 copies_down, copies_up, offloads, loads, failed, corrupt, retries, reloads, down_ns, up_ns, refaults[3];
} count;

static struct kvmm_prefix names(u32 first, u32 nr, kvmm_key_t *keys)
{
	name_keys(50, first, nr, keys);
	return (struct kvmm_prefix){ keys, nr, first, NULL, { 0, 0, 0 } };
}

static void let_pass(u64 ns)
{
	clock_ns += ns;
	pass(ns);
}

static void fill(u32 i)
{
	u64 distance = ++fills - name[i].filled;

	if (name[i].filled)
		count.refaults[distance < NR_BLOCKS ? 0 : distance < NR_UNITS ? 1 : 2]++;
	name[i].filled = fills;
}

/* Whatever is under way takes so long, and then ends so. */
static void settle(u64 ns, bool fails)
{
	dev->is_slow = true;
	must(kvmm_tier_poll(pool), "poll");
	let_pass(ns);
	dev->is_slow = false;
	dev->fails = fails;
	for (u32 i = 0; i < 16; i++)
		must(kvmm_tier_poll(pool), "poll");
	dev->fails = false;
}

static void compute(u32 first, u32 nr, kvmm_ref_t *refs)
{
	kvmm_key_t keys[MAX_NR];
	kvmm_mut_t mut[MAX_NR];
	struct kvmm_prefix prefix = names(first, nr, keys);

	must(kvmm_alloc(pool, nr, mut), "alloc");
	must(kvmm_prefix_register(pool, &prefix, mut, refs), "register");
	for (u32 i = first; i < first + nr; i++)
		fill(i);
}

/* Asked for while it goes down, and the device has lost the name already: it is neither here nor there. */
static void ask_meanwhile(u32 first, const kvmm_ref_t *ref)
{
	kvmm_key_t key;
	struct kvmm_prefix prefix = names(first, 1, &key);
	u32 block = kvmm_block_of_ref(pool, *ref);
	u8 answer;
	kvmm_ref_t got;
	struct kvmm_tier_match_args req = { .size = sizeof(req), .prefix = &prefix, .refs = &got,
					    .answers = &answer };

	must(kvmm_evict_blocks(pool, &block, 1), "evict");
	must(kvmm_tier_match(pool, &req), "match");
	if (req.nr_device)
		must(-1, "a name that is gone");
	count.retries += answer == KVMM_TIER_RETRY;
}

static void go_down(u32 first, u32 nr)
{
	kvmm_ref_t refs[MAX_NR];
	struct kvmm_tier_offload_args req = { .size = sizeof(req), .refs = refs };
	s32 errors[MAX_NR];
	struct kvmm_tier_result result = { .size = sizeof(result), .errors = errors };
	u64 ns = any(1000) * 1000;
	kvmm_tier_op_t op;
	bool fails = !any(5);

	while (req.nr < nr && !name[first + req.nr].is_below)
		req.nr++;
	if (!req.nr)
		return;
	compute(first, req.nr, refs);
	must(kvmm_tier_offload(pool, &req, &op), "offload");
	dev->is_slow = true;
	must(kvmm_tier_poll(pool), "poll");
	if (!any(4))
		ask_meanwhile(first, refs);
	settle(ns, fails);
	count.down_ns += ns;
	count.copies_down++;
	result.nr = req.nr;
	kvmm_tier_get_result(pool, op, &result);
	for (u32 i = 0; i < req.nr; i++) {
		count.failed += fails;
		count.offloads += !fails;
		name[first + i].is_below = !fails;
		name[first + i].since_ns = clock_ns;
	}
	must(kvmm_put_many(pool, refs, req.nr), "put");
}

/* All that the tier has; twice is as before. */
static void spoil(void)
{
	for (u32 i = 0; i < tier->nr_chunks; i++) {
		u8 *memory = tier->chunk[i].mem.ptr;

		for (u64 at = 0; at < chunk_nr(tier, i) * tier->unit_bytes; at += tier->unit_bytes)
			memory[at] ^= 1;
	}
}

static void go_up(u32 first, u32 nr)
{
	kvmm_key_t keys[MAX_NR];
	kvmm_ref_t refs[MAX_NR];
	struct kvmm_prefix prefix = names(first, nr, keys);
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = &prefix };
	struct kvmm_tier_result result = { .size = sizeof(result), .refs = refs };
	bool fails = !any(6), is_spoilt = !fails && !any(6);
	u64 ns = any(1000) * 1000;
	kvmm_tier_op_t op;
	u32 nr_there = 0;
	int err;

	while (nr_there < nr && name[first + nr_there].is_below)
		nr_there++;
	result.nr = prefix.nr = nr_there;
	if (!nr_there)
		return;
	if (is_spoilt)
		spoil();
	must(kvmm_tier_load(pool, &req, &op), "load");
	settle(ns, fails);
	if (is_spoilt)
		spoil();
	count.up_ns += ns;
	count.copies_up++;
	err = kvmm_tier_get_result(pool, op, &result);
	if (err != (fails ? -EIO : is_spoilt ? -EBADMSG : 0))
		must(err < 0 ? err : -1, "result of a load");
	for (u32 i = first; i < first + nr_there; i++) {
		count.failed += fails || is_spoilt;
		count.corrupt += is_spoilt;
		if (is_spoilt)
			name[i].is_below = false;
		if (err)
			continue;
		count.loads++;
		count.reloads += clock_ns - name[i].since_ns < RELOAD_NS;
		fill(i);
	}
	if (!err)
		must(kvmm_put_many(pool, refs, nr_there), "put");
}

static void ebb_use(void)
{
	u32 nr = 1 + any(MAX_NR), first = any(NR_NAMES - nr);

	must(kvmm_reset_inactive(pool), "reset");
	if (any(2))
		go_down(first, nr);
	else
		go_up(first, nr);
	let_pass(any(3) * 4 * SECOND);
}

/* ---- what is expected ---- */

/* On their way down, on their way up, or waiting for their turn. */
static void leave_something(u32 *nr_writing, u32 *nr_loading, u32 *nr_queued)
{
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	kvmm_key_t key;
	kvmm_ref_t refs[MAX_NR];
	struct kvmm_tier_offload_args down = { .size = sizeof(down), .refs = refs, .nr = 2 };
	struct kvmm_prefix prefix;
	struct kvmm_tier_load_args up = { .size = sizeof(up), .prefix = &prefix };
	kvmm_tier_op_t op;
	u32 i = 0;

	must(kvmm_reset_inactive(pool), "reset");
	if (run_seed % 3 == 0) {
		config.write = KVMM_TIER_THROUGH;
		must(kvmm_tier_configure(pool, &config), "configure");
	}
	dev->is_slow = true;
	if (run_seed % 3 == 1) {
		while (i < NR_NAMES && !name[i].is_below)
			i++;
		if (i == NR_NAMES)
			return;
		prefix = names(i, 1, &key);
		must(kvmm_tier_load(pool, &up, &op), "load");
		*nr_loading = 1;
	} else {
		while (i < NR_NAMES - 2 && (name[i].is_below || name[i + 1].is_below))
			i++;
		if (i == NR_NAMES - 2)
			return;
		compute(i, 2, refs);
		if (run_seed % 3 == 0) {
			*nr_queued = 2;
			return;
		}
		must(kvmm_tier_offload(pool, &down, &op), "offload");
		*nr_writing = 2;
	}
	must(kvmm_tier_poll(pool), "poll");
}

/* Only a driver pins memory; the test says that one has. */
static u64 pinned_bytes(void)
{
	u64 bytes = 0;

	for (u32 i = 0; i < tier->nr_chunks; i++) {
		tier->chunk[i].mem.is_pinned = true;
		bytes += kv_align_up(chunk_nr(tier, i) * BYTES, 4096);
	}
	return bytes;
}

static void ebb_expect(void)
{
	static const char *const level[] = { "device", "host", "beyond" };
	const char *more = ",tier=\"" NAME "\"";
	u32 nr_writing = 0, nr_loading = 0, nr_queued = 0;
	char label[64];

	leave_something(&nr_writing, &nr_loading, &nr_queued);
	expect("kvmm_below_writing_blocks", NAME, more, nr_writing);
	expect("kvmm_below_queued_blocks", NAME, more, nr_queued);
	expect("kvmm_below_loading_blocks", NAME, more, nr_loading);
	expect_tier("kvmm_tier_read_blocks", NAME, nr_loading);
	expect_tier("kvmm_tier_pinned_bytes", NAME, pinned_bytes());
	expect("kvmm_offloaded_blocks_total", NAME, more, count.offloads);
	expect("kvmm_loaded_blocks_total", NAME, more, count.loads);
	expect("kvmm_below_failed_blocks_total", NAME, more, count.failed);
	expect("kvmm_below_corrupt_blocks_total", NAME, more, count.corrupt);
	expect("kvmm_below_retries_total", NAME, more, count.retries);
	expect("kvmm_below_reloaded_blocks_total", NAME, more, count.reloads);
	expect("kvmm_below_touches", NAME, more, 2);
	expect_between("kvmm_offload_seconds_total", NAME, more, count.down_ns / 1e9, count.down_ns / 1e9);
	expect_between("kvmm_load_seconds_total", NAME, more, count.up_ns / 1e9, count.up_ns / 1e9);
	expect("kvmm_offload_copy_seconds_count", NAME, more, count.copies_down);
	expect("kvmm_load_copy_seconds_count", NAME, more, count.copies_up);
	expect_between("kvmm_offload_copy_seconds_sum", NAME, more, count.down_ns / 1e9, count.down_ns / 1e9);
	expect_between("kvmm_load_copy_seconds_sum", NAME, more, count.up_ns / 1e9, count.up_ns / 1e9);
	for (u32 i = 0; i < 3; i++) {
		snprintf(label, sizeof(label), "%s,distance=\"%s\"", more, level[i]);
		expect("kvmm_refaulted_blocks_total", NAME, label, count.refaults[i]);
	}
}

static struct kvmm_pool *ebb_make(const char *dir)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config knobs = KVMM_TIER_CONFIG_INIT;

	tier = make_tier(NAME, NR_UNITS, BYTES, 0);
	pool = make_pool(NAME, NR_BLOCKS, BYTES, "lru");
	metrics_dev_of(pool);
	knobs.write = KVMM_TIER_EXPLICIT;
	knobs.reload_ns = RELOAD_NS;
	client.config = &knobs;
	client.flags = KVMM_TIER_COMPLETE;
	must(kvmm_tier_attach(pool, tier, &client), "attach");
	return pool;
}

static void ebb_end(void)
{
	*dev = (struct metrics_dev){ 0 };
	kvmm_pool_destroy(pool);
	kvmm_tier_destroy(tier);
}

const struct part metrics_ebb = { ebb_make, ebb_use, ebb_expect, ebb_end };
