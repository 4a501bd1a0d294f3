// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a hostile user of cached blocks: each byte string is a pool of some policy, index and
 * rules, and then calls of <kvmm/cache.h> with handles that are good, spoilt, stale, doubled, of
 * another type or another pool, some of them with the host out of memory.
 *
 * A small model knows which handles are whose, so that each batch is known to be good or bad. After
 * each call the pool must be valid and have as many blocks in each hand as the model; what was
 * refused must have changed nothing. In the end everything is given back, and nothing may be left.
 */
#include "tests/fuzz/fuzz.h"

#define MAX_BLOCKS	150u
#define MAX_HELD	400u
#define MAX_BATCH	160u	/* longer than what a put takes at once */
#define NR_KEYS		40u
#define NR_OLD		16u

/* The types differ by name only. */
struct handle {
	u32 index;
	u32 gen;
};

enum kind { MUT, STAGED, REF, PIN, NR_KINDS };

struct list {
	struct handle handle[MAX_HELD];
	u32 nr;
};

static struct fuzz {
	struct kvmm_pool *pool, *other;
	u32 nr_blocks;
	bool holds;		/* duplicates may hold references: a put too many is not noticed */
	struct list held[NR_KINDS];
	struct handle old[NR_OLD];
	struct handle foreign;
	kvmm_range_t range;
	u32 nr_range;
} f;

/* ---- what must not change ---- */

static u64 digest(void)
{
	struct kvmm_block_info info;
	struct kvmm_pool_stat stat;
	u64 hash = 0;

	require(!kvmm_pool_get_stat(f.pool, &stat));
	/* Failures are counted, and so is why the match of an acquire ended that did not fit. */
	stat.fail_nospc = stat.fail_frag = 0;
	memset(stat.nr_missed, 0, sizeof(stat.nr_missed));
	for (size_t i = 0; i < sizeof(stat) / sizeof(u32); i++)
		hash = mix(hash, ((const u32 *)&stat)[i]);
	for (u32 i = 0; i < f.nr_blocks; i++) {
		require(!kvmm_block_get_info(f.pool, i, &info));
		hash = mix(mix(mix(hash, info.state), info.refs), info.pins);
	}
	return hash;
}

/* ---- batches ---- */

struct batch {
	struct handle handle[MAX_BATCH];
	u32 nr;
	u32 from;		/* in the list of its kind */
	bool good;
	bool doubled;		/* the last of the list stands there once more */
};

static struct handle bad_handle(enum kind kind)
{
	enum kind another = (kind + 1 + any(3)) % NR_KINDS;

	switch (any(4)) {
	case 0:
		return f.old[any(NR_OLD)];
	case 1:
		return f.foreign;
	case 2:
		return (struct handle){ any(2) ? any(200) : KV_NONE, any(256) << 12 | any(256) };
	default:
		return f.held[another].nr ? f.held[another].handle[any(f.held[another].nr)] :
					    (struct handle){ 0, 0 };
	}
}

static bool is_held(enum kind kind, struct handle handle)
{
	const struct list *list = &f.held[kind];

	for (u32 i = 0; i < list->nr; i++)
		if (!memcmp(&list->handle[i], &handle, sizeof(handle)))
			return true;
	return false;
}

/* The end of the list, now and then with something wrong in it. */
static struct batch any_batch(enum kind kind)
{
	const struct list *list = &f.held[kind];
	struct batch batch = { .nr = any(8) ? any(10) : any(MAX_BATCH), .good = true };
	struct handle bad;

	batch.nr = min(batch.nr, list->nr);
	batch.from = list->nr - batch.nr;
	memcpy(batch.handle, list->handle + batch.from, batch.nr * sizeof(*batch.handle));
	if (!batch.nr || any(4))
		return batch;
	bad = bad_handle(kind);
	if (any(3) == 0 && batch.nr < MAX_BATCH) {
		batch.handle[batch.nr] = batch.handle[any(batch.nr)];
		batch.nr++;
		batch.doubled = true;
	} else if (!is_held(REF, bad) && !is_held(PIN, bad) && !is_held(kind, bad)) {
		batch.handle[any(batch.nr)] = bad;
		batch.good = false;
	}
	return batch;
}

static void keep(enum kind kind, const void *handles, u32 nr)
{
	struct list *list = &f.held[kind];

	require(list->nr + nr <= MAX_HELD);
	memcpy(list->handle + list->nr, handles, nr * sizeof(*list->handle));
	list->nr += nr;
	if (nr)
		f.old[any(NR_OLD)] = *(const struct handle *)handles;
}

static void drop(enum kind kind, u32 nr)
{
	f.held[kind].nr -= nr;
}

static bool has_room(enum kind kind, u32 nr)
{
	return f.held[kind].nr + nr <= MAX_HELD;
}

static int refused(int err)
{
	require(err == -ESTALE || err == -EINVAL);
	return err;
}

/* ---- names ---- */

static kvmm_key_t keys[MAX_BATCH];

static struct kvmm_prefix any_prefix(u32 nr)
{
	u32 first = any(NR_KEYS), step = any(3);

	for (u32 i = 0; i < nr; i++)
		keys[i] = (kvmm_key_t){ { (first + i * step) % NR_KEYS } };
	return (struct kvmm_prefix){ keys, nr, any(100), any(2) ? keys : NULL,
				     { .tenant = any(2), .layout = any(2), .group = any(2) } };
}

static int stage(void)
{
	struct batch batch = any_batch(MUT);
	struct kvmm_prefix prefix = any_prefix(batch.nr);
	kvmm_staged_t staged[MAX_BATCH];
	int err = kvmm_stage(f.pool, &prefix, (kvmm_mut_t *)batch.handle, staged);

	if (!batch.good || batch.doubled)
		return refused(err);
	require(!err);
	drop(MUT, batch.nr);
	keep(STAGED, staged, batch.nr);
	return err;
}

static int unstage(void)
{
	struct batch batch = any_batch(STAGED);
	kvmm_mut_t mut[MAX_BATCH];
	int err = kvmm_unstage(f.pool, (kvmm_staged_t *)batch.handle, batch.nr, mut);

	if (!batch.good || batch.doubled)
		return refused(err);
	require(!err);
	drop(STAGED, batch.nr);
	keep(MUT, mut, batch.nr);
	return err;
}

static int give_back(void)
{
	enum kind kind = any(2) ? MUT : STAGED;
	struct batch batch = any_batch(kind);
	int err = kind == MUT ? kvmm_free(f.pool, (kvmm_mut_t *)batch.handle, batch.nr) :
		  kv_free_staged(f.pool, (kvmm_staged_t *)batch.handle, batch.nr);

	if (!batch.good || batch.doubled)
		return refused(err);
	require(!err);
	drop(kind, batch.nr);
	return err;
}

static u32 any_dup(void)
{
	static const u32 dups[] = { KVMM_DUP_POOL, KVMM_DUP_ALLOW, KVMM_DUP_REJECT };

	return f.holds ? any(KVMM_NR_DUPS) : dups[any(3)];
}

static int publish(void)
{
	struct batch batch = any_batch(STAGED);
	kvmm_ref_t ref[MAX_BATCH];
	bool alias = any(2);
	struct kvmm_publish_args req = { (kvmm_staged_t *)batch.handle, batch.nr, any_dup(),
					 alias ? (kvmm_ref_t *)batch.handle : ref, 0 };
	int err;

	if (!has_room(REF, batch.nr))
		return 0;
	err = kvmm_publish(f.pool, &req);
	if (err == -ENOMEM)
		return err;
	if (!batch.good || batch.doubled)
		return refused(err);
	require(!err && req.nr_dups <= batch.nr);
	drop(STAGED, batch.nr);
	keep(REF, req.refs, batch.nr);
	return err;
}

static int register_blocks(void)
{
	struct batch batch = any_batch(MUT);
	struct kvmm_prefix prefix = any_prefix(batch.nr);
	kvmm_ref_t ref[MAX_BATCH];
	int err;

	if (!has_room(REF, batch.nr))
		return 0;
	err = kvmm_prefix_register(f.pool, &prefix, (kvmm_mut_t *)batch.handle, ref);
	if (err == -ENOMEM)
		return err;
	if (!batch.good || batch.doubled)
		return refused(err);
	require(!err);
	drop(MUT, batch.nr);
	keep(REF, ref, batch.nr);
	return err;
}

/* ---- lookups ---- */

static int match(void)
{
	struct kvmm_prefix prefix = any_prefix(any(MAX_BATCH));
	kvmm_ref_t ref[MAX_BATCH];
	int len;

	if (!has_room(REF, prefix.nr))
		return 0;
	len = kvmm_prefix_len(f.pool, &prefix);
	require(kvmm_prefix_match(f.pool, &prefix, ref) == len && len <= (int)prefix.nr);
	keep(REF, ref, len);
	return 0;
}

static int scan(void)
{
	struct kvmm_prefix prefix = any_prefix(any(MAX_BATCH));
	kvmm_ref_t ref[MAX_BATCH];
	u64 present[3];
	int nr;

	if (!has_room(REF, prefix.nr))
		return 0;
	nr = kvmm_prefix_probe(f.pool, &prefix, present);
	require(kvmm_prefix_scan(f.pool, &prefix, ref) == nr && nr <= (int)prefix.nr);
	for (u32 i = 0; i < prefix.nr; i++) {
		require(!ref[i].gen == !(present[i / 64] >> i % 64 & 1));
		if (ref[i].gen)
			keep(REF, &ref[i], 1);
	}
	return 0;
}

static int acquire(void)
{
	struct kvmm_prefix prefix = any_prefix(any(MAX_BATCH));
	static kvmm_ref_t hit[MAX_BATCH];
	static kvmm_mut_t fresh[256];
	static kvmm_key_t evicted[256];
	struct kvmm_acquire_args req = {
		.keys = keys, .nr_keys = prefix.nr, .max_hits = any(MAX_BATCH),
		.nr_blocks = any(2) ? any(256) : any(20), .hits = hit, .fresh = fresh,
		.evicted = any(2) ? evicted : NULL, .domain = prefix.domain,
		.reserve = any(3) ? 0 : any(256),
	};
	int err;

	if (!has_room(REF, prefix.nr) || !has_room(MUT, req.nr_blocks))
		return 0;
	err = kvmm_acquire(f.pool, &req);
	require(!err || err == -ENOSPC || err == -EINVAL);
	if (err)
		return err;
	require(req.nr_hits + req.nr_fresh == req.nr_blocks && req.nr_evicted <= req.nr_fresh &&
		!req.nr_untold);
	keep(REF, hit, req.nr_hits);
	keep(MUT, fresh, req.nr_fresh);
	return err;
}

static int alloc(void)
{
	kvmm_mut_t mut[64];
	u32 nr = any(64);
	int err;

	if (!has_room(MUT, nr))
		return 0;
	err = kvmm_alloc_for(f.pool, nr, any(3), mut);
	require(!err || err == -ENOSPC);
	if (!err)
		keep(MUT, mut, nr);
	return err;
}

/* ---- references ---- */

static int get_or_pin(void)
{
	struct batch batch = any_batch(REF);
	bool pin = any(2);
	int err;

	if (!has_room(pin ? PIN : REF, batch.nr))
		return 0;
	err = pin ? kvmm_pin_many(f.pool, (kvmm_ref_t *)batch.handle, batch.nr) :
		    kvmm_get_many(f.pool, (kvmm_ref_t *)batch.handle, batch.nr);
	if (!batch.good)
		return refused(err);
	if (pin && err == -EOVERFLOW)
		return err;
	require(!err);
	keep(pin ? PIN : REF, batch.handle, batch.nr);
	return err;
}

static u32 nr_of(const struct handle *handles, u32 nr, struct handle handle)
{
	u32 count = 0;

	for (u32 i = 0; i < nr; i++)
		count += !memcmp(&handles[i], &handle, sizeof(handle));
	return count;
}

/* Does one stand there more often than it is held? */
static bool is_too_much(enum kind kind, const struct batch *batch)
{
	for (u32 i = 0; i < batch->nr; i++)
		if (nr_of(batch->handle, batch->nr, batch->handle[i]) >
		    nr_of(f.held[kind].handle, f.held[kind].nr, batch->handle[i]))
			return true;
	return false;
}

/* Take each of them out of the list, wherever it is. */
static void drop_each(enum kind kind, const struct batch *batch)
{
	struct list *list = &f.held[kind];

	for (u32 i = 0; i < batch->nr; i++) {
		u32 at = 0;

		while (memcmp(&list->handle[at], &batch->handle[i], sizeof(batch->handle[i])))
			at++;
		list->handle[at] = list->handle[--list->nr];
	}
}

static int put_or_unpin(void)
{
	enum kind kind = any(3) ? REF : PIN;
	struct batch batch = any_batch(kind);
	bool too_much = batch.good && is_too_much(kind, &batch);
	int err;

	if (too_much && f.holds)
		return 0;
	err = kind == REF ? kvmm_put_many(f.pool, (kvmm_ref_t *)batch.handle, batch.nr) :
			    kvmm_unpin_many(f.pool, (kvmm_ref_t *)batch.handle, batch.nr);
	if (!batch.good || too_much)
		return refused(err);
	require(!err);
	drop_each(kind, &batch);
	return err;
}

static int tell(void)
{
	static u64 when[MAX_BATCH];
	struct batch batch = any_batch(REF);
	const kvmm_ref_t *ref = (kvmm_ref_t *)batch.handle;
	u32 blocks[MAX_BATCH], what = any(4);
	int err = what == 0 ? kvmm_touch_many(f.pool, ref, batch.nr) :
		  what == 1 ? kvmm_set_reset(f.pool, ref, batch.nr, any(2)) :
		  what == 2 ? kvmm_advise_many(f.pool, ref, KVMM_ADVISE_NEXT_USE, when, batch.nr) :
			      kvmm_blocks_of_refs(f.pool, ref, batch.nr, blocks);

	if (!batch.good)
		return refused(err);
	require(!err || (what == 2 && err == -EOPNOTSUPP));
	return err;
}

static int upgrade(void)
{
	kvmm_weak_t weak[NR_OLD];
	kvmm_ref_t ref[NR_OLD];
	int nr = 0;

	if (!has_room(REF, NR_OLD))
		return 0;
	memcpy(weak, f.old, sizeof(weak));
	weak[any(NR_OLD)] = (kvmm_weak_t){ any(256), any(256) };
	require(kvmm_touch_weak(f.pool, weak, NR_OLD) >= 0);
	require(kvmm_upgrade_many(f.pool, weak, NR_OLD, ref) >= 0);
	for (u32 i = 0; i < NR_OLD; i++)
		if (ref[i].gen) {
			keep(REF, &ref[i], 1);
			nr++;
		}
	return 0;
}

/* ---- the rest ---- */

static int evict(void)
{
	u32 ids[16], nr = any(16);
	bool good = true;
	int ret;

	for (u32 i = 0; i < nr; i++) {
		ids[i] = any(256) < 250 ? any(f.nr_blocks) : any(256) << 24;
		good &= ids[i] < f.nr_blocks;
	}
	ret = kvmm_evict_blocks(f.pool, ids, nr);
	require(good ? ret >= 0 && ret <= (int)nr : ret == -EINVAL);
	return min(ret, 0);
}

static int reset(void)
{
	bool held = f.nr_range;
	int ret;

	for (u32 kind = 0; kind < NR_KINDS; kind++)
		held |= f.held[kind].nr;
	ret = any(2) ? kvmm_reset_inactive(f.pool) : kvmm_reset_cache(f.pool);
	require(ret >= 0 || (held && ret == -EBUSY));
	return min(ret, 0);
}

/* An allocation that needs host memory may have evicted and moved before it fails. */
static int move_or_take(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = any(64),
				     .max_blocks = any(32) };
	int err;

	if (any(2)) {
		err = kvmm_pool_compact(f.pool, &goal);
		require(!err || err == -EAGAIN || err == -ENOSPC || err == -ENOMEM ||
			err == -EINVAL);
		return 0;
	}
	if (f.nr_range) {
		require(!kvmm_range_free(f.pool, f.range));
		f.nr_range = 0;
		return 0;
	}
	goal.want_run = 1 + any(64);
	err = kvmm_range_alloc(f.pool, goal.want_run, KVMM_RUNS(any(8)), &f.range);
	require(!err || err == -ENOSPC || err == -ENOMEM || err == -EINVAL);
	f.nr_range = err ? 0 : goal.want_run;
	return 0;
}

static int (*const calls[])(void) = {
	alloc, stage, stage, unstage, give_back, publish, publish, publish, register_blocks,
	register_blocks, match, match, scan, acquire, acquire, acquire, get_or_pin, get_or_pin,
	put_or_unpin, put_or_unpin, put_or_unpin, put_or_unpin, tell, tell, upgrade, evict, reset,
	move_or_take, fail_soon,
};

static void call_and_check(void)
{
	u64 before = digest();
	struct kvmm_pool_stat stat;

	if (calls[any(ARRAY_SIZE(calls))]())
		require(digest() == before);
	require(!kvmm_validate(f.pool));
	require(!kvmm_pool_get_stat(f.pool, &stat));
	require(stat.nr_state[KVMM_BLOCK_PRIVATE] == f.held[MUT].nr);
	require(stat.nr_state[KVMM_BLOCK_STAGED] == f.held[STAGED].nr);
	require(stat.nr_state[KVMM_BLOCK_RANGE] == f.nr_range);
}

static int make_pool(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	const char *policies[64];
	u32 nr = kvmm_policies(policies, ARRAY_SIZE(policies));

	attr.policy = policies[any(min(nr, (u32)ARRAY_SIZE(policies)))];
	attr.index = any(4) ? "flat" : "lfht";
	attr.nr_blocks = 1 + any(MAX_BLOCKS);
	attr.flags = any(2) * KVMM_POOL_RESET_ON_RELEASE | any(2) * KVMM_POOL_NULL_BLOCK;
	f.holds = any(2);
	attr.dup_policy = any_dup();
	f.nr_blocks = attr.nr_blocks;
	return kvmm_pool_create(&attr, &f.pool);
}

static int make_pools(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 2, .policy = "lru",
				       .name = "other" };
	kvmm_mut_t mut;
	int err = make_pool();

	if (err)
		return err;
	require(!kvmm_pool_create(&attr, &f.other));
	require(!kvmm_alloc(f.other, 1, &mut));
	f.foreign = (struct handle){ mut.index, mut.gen };
	return 0;
}

static void end_pools(void)
{
	struct kvmm_pool_stat stat;

	require(!kvmm_free(f.pool, (kvmm_mut_t *)f.held[MUT].handle, f.held[MUT].nr));
	require(!kv_free_staged(f.pool, (kvmm_staged_t *)f.held[STAGED].handle,
				  f.held[STAGED].nr));
	require(!kvmm_unpin_many(f.pool, (kvmm_ref_t *)f.held[PIN].handle, f.held[PIN].nr));
	require(!kvmm_put_many(f.pool, (kvmm_ref_t *)f.held[REF].handle, f.held[REF].nr));
	if (f.nr_range)
		require(!kvmm_range_free(f.pool, f.range));
	require(!kvmm_validate(f.pool));
	require(kvmm_reset_cache(f.pool) >= 0);
	require(!kvmm_validate(f.pool));
	require(!kvmm_pool_get_stat(f.pool, &stat) && stat.nr_free == stat.nr_blocks);
	kvmm_pool_destroy(f.pool);
	kvmm_pool_destroy(f.other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	memset(&f, 0, sizeof(f));
	return fuzz_run(data, bytes, make_pools, call_and_check, end_pools);
}
