// SPDX-License-Identifier: Apache-2.0
/*
 * Checksums of cached blocks whose content the test spoils: where they lie, and on their way elsewhere.
 * Each block has a name of its own. What is looked at when is said by <kvmm/ext/inspect.h>: what is new or has
 * moved first, else all that have a checksum.
 */
#include "metrics_dev.h"
#include "metrics_run.h"

#define NAME		"sums"
#define NR_BLOCKS	40u
#define NR_NAMES	64u
#define BYTES		64u

static struct metrics_dev *const dev = &metrics_dev;

static struct kvmm_pool *pool;
static struct kvmm_events *events;
static kvmm_stream_t stream;
static u8 memory[NR_BLOCKS * BYTES];
static kvmm_range_t range[4];
static u32 nr_ranges;

static struct {
	bool is_there;
	bool has_sum;
	bool is_due;		/* to be summed, or compared */
	bool is_bad;		/* not what was summed */
} name[NR_NAMES];

static struct {
	u64 sums, checks, bad_blocks, bad_copies;
} count;

static kvmm_key_t key_of(u32 i)
{
	kvmm_key_t key;

	name_keys(i, 0, 1, &key);
	return key;
}

static kvmm_ref_t get(u32 i)
{
	kvmm_key_t key = key_of(i);
	kvmm_ref_t ref;

	if (kvmm_match(pool, &key, 1, &ref) != 1)
		must(-1, "a name that is there");
	return ref;
}

static u32 block_of(u32 i)
{
	kvmm_ref_t ref = get(i);
	u32 block = kvmm_block_of_ref(pool, ref);

	must(kvmm_put(pool, ref), "put");
	return block;
}

/* Evicted, or found to be wrong. */
static void see_removed(void)
{
	struct kvmm_event removed[2 * NR_BLOCKS];
	u32 nr = read_removed(events, removed, ARRAY_SIZE(removed));

	for (u32 i = 0; i < nr; i++)
		memset(&name[removed[i].key.byte[0] - 1], 0, sizeof(name[0]));
}

static void add(u32 i)
{
	kvmm_key_t key = key_of(i);
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	if (name[i].is_there || kvmm_alloc(pool, 1, &mut))
		return;
	see_removed();
	memset(memory + kvmm_block_of_mut(pool, mut) * BYTES, (int)any(256), BYTES);
	must(kvmm_register(pool, &mut, &key, 1, &ref), "register");
	must(kvmm_put(pool, ref), "put");
	see_removed();
	name[i].is_there = name[i].is_due = true;
}

static void add_some(void)
{
	for (u32 i = 1 + any(6); i; i--)
		add(any(NR_NAMES));
}

/* Of all names, or of those that are due. */
static u32 look_at(bool due_only)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_NAMES; i++) {
		if (!name[i].is_there || (due_only ? !name[i].is_due : !name[i].has_sum))
			continue;
		nr++;
		name[i].is_due = false;
		count.sums += !name[i].has_sum;
		count.checks += name[i].has_sum;
		count.bad_blocks += name[i].is_bad;
		name[i].has_sum = true;
	}
	return nr;
}

static void tick(void)
{
	int nr = kvmm_verify_tick(pool);
	u32 nr_due = look_at(true);

	must(nr, "verify_tick");
	if (nr != (int)(nr_due ? nr_due : look_at(false)))
		must(-1, "blocks that are looked at");
	see_removed();
}

static void spoil_one(void)
{
	u32 i = any(NR_NAMES);

	if (!name[i].has_sum || name[i].is_bad)
		return;
	memory[block_of(i) * BYTES + any(BYTES)] ^= 4;
	name[i].is_bad = true;
}

static void compare_one(void)
{
	u32 i = any(NR_NAMES);
	kvmm_ref_t ref;
	int ret;

	if (!name[i].has_sum)
		return;
	ref = get(i);
	ret = kvmm_verify_blocks(pool, &ref, 1);
	if (ret != (name[i].is_bad ? -EIO : 1))
		must(-1, "verify_blocks");
	count.checks++;
	count.bad_blocks += name[i].is_bad;
	must(kvmm_put(pool, ref), "put");
	see_removed();
}

/* Holes, and what keeps them from being one. */
static void use_ranges(void)
{
	if (nr_ranges == ARRAY_SIZE(range) || (nr_ranges && any(2)))
		must(kvmm_range_free(pool, range[--nr_ranges]), "range_free");
	else if (!kvmm_range_alloc(pool, 1 + any(6), KVMM_ALLOC_NO_COMPACT | KVMM_RUNS(6), &range[nr_ranges]))
		nr_ranges++;
	see_removed();
}

static void compact(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 3 + any(20) };
	u32 before[NR_NAMES];
	int err;

	for (u32 i = 0; i < NR_NAMES; i++)
		before[i] = name[i].is_there ? block_of(i) : 0;
	err = kvmm_pool_compact(pool, &goal);
	if (err && err != -ENOSPC)
		must(err, "compact");
	see_removed();
	for (u32 i = 0; i < NR_NAMES; i++)
		if (name[i].has_sum && block_of(i) != before[i])
			name[i].is_due = true;
}

/* Copies that are wrong stay where they are, and that is looked at as well. */
static void move_beside(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 3 + any(20) };
	u32 before[NR_NAMES];
	int err;

	for (u32 i = 0; i < NR_NAMES; i++)
		before[i] = name[i].is_there ? block_of(i) : 0;
	memset(dev->has_flown, 0, sizeof(dev->has_flown));
	dev->spoils = any(2);
	err = kvmm_compact_start(pool, &goal, KVMM_MOVE_BESIDE);
	if (err && err != -ENOSPC)
		must(err, "compact_start");
	for (u32 i = 0; i < 8 && kvmm_compact_poll(pool); i++)
		;
	for (u32 i = 0; i < NR_NAMES; i++) {
		bool is_wrong = dev->spoils || name[i].is_bad;

		if (!name[i].has_sum || !dev->has_flown[before[i]])
			continue;
		count.checks++;
		count.bad_copies += is_wrong;
		name[i].is_due |= is_wrong;
	}
	dev->spoils = false;
	see_removed();
}

static void sums_use(void)
{
	static void (*const ops[])(void) = { add_some, add_some, tick, tick, spoil_one, spoil_one,
					     compare_one, use_ranges, use_ranges, compact, move_beside };

	ops[any(ARRAY_SIZE(ops))]();
}

static void sums_expect(void)
{
	u32 nr_due = 0;

	while (nr_ranges)
		must(kvmm_range_free(pool, range[--nr_ranges]), "range_free");
	must(kvmm_reset_inactive(pool), "reset");
	see_removed();
	tick();
	add_some();
	for (u32 i = 0; i < NR_NAMES; i++)
		nr_due += name[i].is_due;
	expect("kvmm_unverified_blocks", NAME, "", nr_due);
	expect("kvmm_checksums_total", NAME, "", count.sums);
	expect("kvmm_comparisons_total", NAME, "", count.checks);
	expect("kvmm_bad_blocks_total", NAME, "", count.bad_blocks);
	expect("kvmm_bad_copies_total", NAME, "", count.bad_copies);
}

static struct kvmm_pool *sums_make(const char *dir)
{
	static struct kvmm_plane plane;
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = NAME, .nr_blocks = NR_BLOCKS };

	plane = (struct kvmm_plane){ (u64)(uintptr_t)memory, BYTES, BYTES };
	attr.planes = &plane;
	attr.nr_planes = 1;
	attr.policy = "lru";
	must(kvmm_pool_create(&attr, &pool), "pool");
	metrics_dev_of(pool);
	must(kvmm_verify_set(pool, &verify), "verify");
	must(kvmm_stream_add(pool, NULL, 0, &stream), "stream");
	must(kvmm_events_open(pool, NULL, &events), "events");
	return pool;
}

static void sums_end(void)
{
	kvmm_events_close(events);
	kvmm_pool_destroy(pool);
}

const struct part metrics_sums = { sums_make, sums_use, sums_expect, sums_end };
