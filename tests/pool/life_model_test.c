// SPDX-License-Identifier: Apache-2.0
/*
 * Random lives of cached blocks against a model that shares no code with the pool: staged blocks,
 * domains, duplicates by each rule, weak references, pins, blocks that do not stay, eviction by id,
 * resets, ranges that evict, compaction.
 *
 * The model knows all blocks that there are, who holds them, and, for "lru", in which order they
 * were put. It does not know where a block lies: who is meant by a block id it learns from the
 * content, which is the block's number and must survive every move. KVMM_SEED and KVMM_MODEL_OPS
 * choose the run.
 */
#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	64u
#define NR_KEYS		24u
#define NR_TENANTS	2u
#define MAX_BATCH	10u
#define NR_WEAK		32u
#define NONE		NR_BLOCKS

enum state { GONE, PRIVATE, STAGED, NAMED, NR_STATES };

struct block {
	enum state state;
	u32 handle[2];		/* index, generation: the same for all types */
	u32 stamp;		/* the content; never used twice */
	u32 key;
	u32 tenant;
	u32 refs;		/* ours, pins included */
	u32 pins;
	u32 holders;		/* duplicates that hold it */
	u32 holds;		/* elder, or NONE */
	bool reset;
	bool hidden;
	u64 age;		/* order of registration */
	u64 idle;		/* order of becoming inactive */
};

struct weak {
	u32 handle[2];
	u32 stamp;
};

static struct model {
	struct kvmm_pool *pool;
	u64 clock;
	u32 next_stamp;
	u32 dup;
	bool resets;
	struct block block[NR_BLOCKS];
	struct weak weak[NR_WEAK];
	kvmm_range_t range;
	u32 nr_range;
	u64 hits, misses, registered, duplicates, evictions;
} m;

/* ---- the model ---- */

static u32 total_refs(const struct block *block)
{
	return block->refs + block->holders;
}

static bool is_inactive(const struct block *block)
{
	return block->state == NAMED && !total_refs(block);
}

static u32 nr_in(enum state state)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		nr += m.block[i].state == state;
	return nr;
}

static u32 nr_inactive(void)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		nr += is_inactive(&m.block[i]);
	return nr;
}

static u32 nr_free(void)
{
	return nr_in(GONE) - m.nr_range;
}

/* The oldest that can be found, or NONE. */
static u32 find(u32 key, u32 tenant)
{
	u32 found = NONE;

	for (u32 i = 0; i < NR_BLOCKS; i++) {
		const struct block *block = &m.block[i];

		if (block->state == NAMED && !block->hidden && block->key == key &&
		    block->tenant == tenant && (found == NONE || block->age < m.block[found].age))
			found = i;
	}
	return found;
}

static void forget(u32 i);

/* A reference less, ours or a duplicate's; what goes, goes now. */
static void dropped(u32 i)
{
	struct block *block = &m.block[i];

	if (total_refs(block))
		return;
	if (block->reset)
		forget(i);
	else
		block->idle = ++m.clock;
}

static void forget(u32 i)
{
	u32 elder = m.block[i].holds;

	m.block[i].state = GONE;
	if (elder == NONE)
		return;
	m.block[elder].holders--;
	dropped(elder);
}

static u32 next_victim(void)
{
	u32 victim = NONE;

	for (u32 i = 0; i < NR_BLOCKS; i++)
		if (is_inactive(&m.block[i]) &&
		    (victim == NONE || m.block[i].idle < m.block[victim].idle))
			victim = i;
	return victim;
}

/* Chosen from the oldest on, forgotten from the newest on. */
static void evict(u32 nr, const kvmm_key_t *keys)
{
	u32 victim[NR_BLOCKS];

	for (u32 i = 0; i < nr; i++) {
		victim[i] = next_victim();
		cr_assert_neq(victim[i], NONE);
		if (keys)
			cr_assert_eq(number_of(&keys[i]), m.block[victim[i]].key);
		m.block[victim[i]].state = PRIVATE;	/* nobody's second choice */
	}
	while (nr--)
		forget(victim[nr]);
}

static u32 take_place(void)
{
	for (u32 i = 0; i < NR_BLOCKS; i++)
		if (m.block[i].state == GONE)
			return i;
	cr_assert_fail("more blocks than there are");
	return 0;
}

/* ---- content ---- */

static u32 stamp_at(u32 id)
{
	u32 stamp;

	cr_assert_eq(kvmm_block_read(m.pool, id, 8, &stamp, sizeof(stamp)), 0);
	return stamp;
}

static void expect_content(u32 i, kvmm_ref_t ref)
{
	int id = kvmm_block_of_ref(m.pool, ref);

	cr_assert_geq(id, 0);
	cr_assert_eq(stamp_at(id), m.block[i].stamp, "another's content");
}

static void remember(const struct block *block)
{
	struct weak *weak = &m.weak[any(NR_WEAK)];

	memcpy(weak->handle, block->handle, sizeof(weak->handle));
	weak->stamp = block->stamp;
}

static void add_private(kvmm_mut_t mut)
{
	int id = kvmm_block_of_mut(m.pool, mut);
	u32 i = take_place();

	cr_assert_geq(id, 0);
	m.block[i] = (struct block){ .state = PRIVATE, .handle = { mut.index, mut.gen },
				     .stamp = ++m.next_stamp, .holds = NONE };
	cr_assert_eq(kvmm_block_write(m.pool, id, 8, &m.next_stamp, 4), 0);
}

/* ---- choosing ---- */

/* Up to MAX_BATCH different blocks in that state; their handles go to @handles. */
static u32 choose(enum state state, u32 *chosen, void *handles)
{
	u32 nr = 0, from = any(NR_BLOCKS), max = 1 + any(MAX_BATCH);

	for (u32 i = 0; i < NR_BLOCKS && nr < max; i++) {
		u32 at = (from + i * 7) % NR_BLOCKS;

		if (m.block[at].state != state || !any(3))
			continue;
		memcpy((u32 *)handles + 2 * nr, m.block[at].handle, 8);
		chosen[nr++] = at;
	}
	return nr;
}

/* References that are ours and may be dropped, some blocks more than once. */
static u32 choose_refs(u32 *chosen, kvmm_ref_t *refs, bool pinned)
{
	u32 taken[NR_BLOCKS] = { 0 }, nr = 0;

	for (u32 tries = 0; tries < 40 && nr < MAX_BATCH; tries++) {
		u32 i = any(NR_BLOCKS);
		const struct block *block = &m.block[i];
		u32 most = pinned ? block->pins : block->refs - block->pins;

		if (block->state != NAMED || taken[i] == most)
			continue;
		taken[i]++;
		memcpy(&refs[nr], block->handle, sizeof(*refs));
		chosen[nr++] = i;
	}
	return nr;
}

static u32 any_prompt(kvmm_key_t *keys, u32 *number, kvmm_domain_t *domain)
{
	u32 nr = any(MAX_BATCH + 1), first = any(3) * 8;

	*domain = (kvmm_domain_t){ .tenant = any(NR_TENANTS), .layout = 3 };
	for (u32 i = 0; i < nr; i++) {
		number[i] = any(5) ? (first + i) % NR_KEYS : any(NR_KEYS);
		keys[i] = key_of(number[i]);
	}
	return nr;
}

/* ---- private and staged blocks ---- */

static void op_alloc(void)
{
	u32 nr = any(MAX_BATCH), room = nr_free() + nr_inactive();
	kvmm_mut_t mut[MAX_BATCH];
	int err = kvmm_alloc_for(m.pool, nr, any(2), mut);

	cr_assert_eq(err, nr <= room ? 0 : -ENOSPC);
	if (err)
		return;
	if (nr > nr_free()) {
		m.evictions += nr - nr_free();
		evict(nr - nr_free(), NULL);
	}
	for (u32 i = 0; i < nr; i++)
		add_private(mut[i]);
}

static void op_free(void)
{
	kvmm_mut_t mut[MAX_BATCH];
	u32 chosen[MAX_BATCH], nr = choose(PRIVATE, chosen, mut);

	if (nr > 1 && !any(4)) {
		mut[0] = mut[nr - 1];
		cr_assert_eq(kvmm_free(m.pool, mut, nr), -EINVAL);
		return;
	}
	cr_assert_eq(kvmm_free(m.pool, mut, nr), 0);
	for (u32 i = 0; i < nr; i++)
		m.block[chosen[i]].state = GONE;
}

static void op_stage(void)
{
	kvmm_mut_t mut[MAX_BATCH];
	kvmm_staged_t staged[MAX_BATCH];
	kvmm_key_t keys[MAX_BATCH];
	u32 chosen[MAX_BATCH], number[MAX_BATCH], nr = choose(PRIVATE, chosen, mut);
	struct kvmm_prefix prefix = { .nr = 1 };

	any_prompt(keys, number, &prefix.domain);
	for (u32 i = 0; i < nr; i++) {
		struct block *block = &m.block[chosen[i]];

		/* One by one: blocks behind one another have an order of their own. */
		number[i] = any(NR_KEYS);
		keys[i] = key_of(number[i]);
		prefix.keys = &keys[i];
		cr_assert_eq(kvmm_stage(m.pool, &prefix, &mut[i], &staged[i]), 0);

		block->state = STAGED;
		block->key = number[i];
		block->tenant = prefix.domain.tenant;
	}
}

static void op_unstage(void)
{
	kvmm_staged_t staged[MAX_BATCH];
	kvmm_mut_t mut[MAX_BATCH];
	u32 chosen[MAX_BATCH], nr = choose(STAGED, chosen, staged);
	bool free = any(2);

	cr_assert_eq(free ? kv_free_staged(m.pool, staged, nr) :
			    kvmm_unstage(m.pool, staged, nr, mut), 0);
	for (u32 i = 0; i < nr; i++)
		m.block[chosen[i]].state = free ? GONE : PRIVATE;
}

/* ---- publishing ---- */

/* Returns who serves the name now. */
static u32 publish_one(u32 i, u32 dup, u32 *nr_dups)
{
	struct block *block = &m.block[i];
	u32 elder = find(block->key, block->tenant);

	*nr_dups += elder != NONE;
	if (elder != NONE && dup == KVMM_DUP_REJECT) {
		m.block[elder].refs++;
		block->state = GONE;
		return elder;
	}
	block->holds = elder != NONE && dup == KVMM_DUP_HOLD ? elder : NONE;
	if (block->holds != NONE)
		m.block[elder].holders++;
	block->state = NAMED;
	block->refs = 1;
	block->pins = block->holders = 0;
	block->reset = m.resets || block->holds != NONE;
	block->hidden = false;
	block->age = ++m.clock;
	return i;
}

static void op_publish(void)
{
	union { kvmm_staged_t staged[MAX_BATCH]; kvmm_ref_t ref[MAX_BATCH]; } batch;
	u32 chosen[MAX_BATCH], nr = choose(STAGED, chosen, batch.staged), nr_dups = 0;
	struct kvmm_publish_args req = { batch.staged, nr, any(KVMM_NR_DUPS), batch.ref, 0 };
	u32 dup = req.dup == KVMM_DUP_POOL ? m.dup : req.dup;

	cr_assert_eq(kvmm_publish(m.pool, &req), 0);
	for (u32 i = 0; i < nr; i++) {
		u32 served = publish_one(chosen[i], dup, &nr_dups);

		cr_assert_eq(memcmp(&batch.ref[i], m.block[served].handle, 8), 0);
		remember(&m.block[served]);
	}
	cr_assert_eq(req.nr_dups, nr_dups);
	m.registered += nr;
	m.duplicates += nr_dups;
}

/* ---- looking up ---- */

static void hit(u32 i, kvmm_ref_t ref)
{
	cr_assert_eq(memcmp(&ref, m.block[i].handle, 8), 0);
	m.block[i].refs++;
	m.hits++;
	expect_content(i, ref);
	remember(&m.block[i]);
}

static void op_match(void)
{
	kvmm_key_t keys[MAX_BATCH];
	kvmm_ref_t ref[MAX_BATCH];
	struct kvmm_prefix prefix = { .keys = keys };
	u32 number[MAX_BATCH], len;

	prefix.nr = any_prompt(keys, number, &prefix.domain);
	for (len = 0; len < prefix.nr; len++)
		if (find(number[len], prefix.domain.tenant) == NONE)
			break;
	cr_assert_eq(kvmm_prefix_len(m.pool, &prefix), len);
	cr_assert_eq(kvmm_prefix_match(m.pool, &prefix, ref), len);
	m.misses += prefix.nr - len;
	for (u32 i = 0; i < len; i++)
		hit(find(number[i], prefix.domain.tenant), ref[i]);
}

static void op_scan(void)
{
	kvmm_key_t keys[MAX_BATCH];
	kvmm_ref_t ref[MAX_BATCH];
	struct kvmm_prefix prefix = { .keys = keys };
	u32 number[MAX_BATCH], nr = 0;
	u64 present = 0;

	prefix.nr = any_prompt(keys, number, &prefix.domain);
	for (u32 i = 0; i < prefix.nr; i++)
		nr += find(number[i], prefix.domain.tenant) != NONE;
	cr_assert_eq(kvmm_prefix_probe(m.pool, &prefix, &present), nr);
	cr_assert_eq(kvmm_prefix_scan(m.pool, &prefix, ref), nr);
	for (u32 i = 0; i < prefix.nr; i++) {
		u32 found = find(number[i], prefix.domain.tenant);

		cr_assert_eq(present >> i & 1, found != NONE);
		cr_assert_eq(ref[i].gen != 0, found != NONE);
		if (found != NONE)
			hit(found, ref[i]);
		else
			m.misses++;
	}
}

/* Inactive blocks among the hits, each once. */
static u32 nr_idle_hits(const u32 *number, u32 nr, u32 tenant)
{
	bool seen[NR_BLOCKS] = { false };
	u32 nr_idle = 0;

	for (u32 i = 0; i < nr; i++) {
		u32 found = find(number[i], tenant);

		nr_idle += !seen[found] && is_inactive(&m.block[found]);
		seen[found] = true;
	}
	return nr_idle;
}

static void op_acquire(void)
{
	kvmm_key_t keys[MAX_BATCH], evicted[MAX_BATCH * 2];
	kvmm_ref_t ref[MAX_BATCH];
	kvmm_mut_t fresh[MAX_BATCH * 2];
	u32 number[MAX_BATCH], hits, nr_fresh, shortfall;
	struct kvmm_acquire_args req = { .keys = keys, .hits = ref, .fresh = fresh,
					 .evicted = evicted,
					 .reserve = any(3) ? 0 : any(NR_BLOCKS) };
	int err;

	req.nr_keys = any_prompt(keys, number, &req.domain);
	req.max_hits = any(2) ? req.nr_keys : any(MAX_BATCH);
	req.nr_blocks = req.nr_keys + any(4);
	for (hits = 0; hits < min(req.nr_keys, req.max_hits); hits++)
		if (find(number[hits], req.domain.tenant) == NONE)
			break;
	nr_fresh = req.nr_blocks - hits;
	err = kvmm_acquire(m.pool, &req);
	cr_assert_eq(err, nr_fresh && nr_fresh + req.reserve +
			  nr_idle_hits(number, hits, req.domain.tenant) >
			  nr_free() + nr_inactive() ? -ENOSPC : 0);
	if (err)
		return;
	cr_assert_eq(req.nr_hits, hits);
	cr_assert_eq(req.nr_fresh, nr_fresh);
	for (u32 i = 0; i < hits; i++)
		hit(find(number[i], req.domain.tenant), ref[i]);
	m.misses += req.nr_keys - hits;
	shortfall = nr_fresh > nr_free() ? nr_fresh - nr_free() : 0;
	cr_assert_eq(req.nr_evicted, shortfall);
	evict(shortfall, evicted);
	m.evictions += shortfall;
	for (u32 i = 0; i < nr_fresh; i++)
		add_private(fresh[i]);
}

/* ---- references ---- */

/* All are dropped, last first; then what does not stay is evicted. */
static void drop(const u32 *chosen, u32 nr, bool pins)
{
	u32 gone[MAX_BATCH], nr_gone = 0;

	while (nr--) {
		struct block *block = &m.block[chosen[nr]];

		block->refs--;
		block->pins -= pins;
		if (total_refs(block))
			continue;
		if (block->reset)
			gone[nr_gone++] = chosen[nr];
		else
			block->idle = ++m.clock;
	}
	for (u32 i = 0; i < nr_gone; i++)
		forget(gone[i]);
}

static void op_put(void)
{
	kvmm_ref_t ref[MAX_BATCH + 1];
	u32 chosen[MAX_BATCH], nr = choose_refs(chosen, ref, false);

	if (nr && !any(4)) {
		struct weak *weak = &m.weak[any(NR_WEAK)];
		bool live = false;

		for (u32 i = 0; i < NR_BLOCKS; i++)
			live |= m.block[i].state != GONE && m.block[i].stamp == weak->stamp;
		memcpy(&ref[nr], weak->handle, sizeof(*ref));
		if (!live && weak->stamp)
			cr_assert_eq(kvmm_put_many(m.pool, ref, nr + 1), -ESTALE);
	}
	cr_assert_eq(kvmm_put_many(m.pool, ref, nr), 0);
	drop(chosen, nr, false);
}

static void op_get(void)
{
	kvmm_ref_t ref[MAX_BATCH];
	u32 chosen[MAX_BATCH], nr = choose_refs(chosen, ref, false);

	cr_assert_eq(kvmm_get_many(m.pool, ref, nr), 0);
	for (u32 i = 0; i < nr; i++)
		m.block[chosen[i]].refs++;
	cr_assert_eq(kvmm_touch_many(m.pool, ref, nr), 0);
}

static void op_pin(void)
{
	kvmm_ref_t ref[MAX_BATCH];
	u32 chosen[MAX_BATCH], nr;

	if (any(2)) {
		nr = choose_refs(chosen, ref, true);
		cr_assert_eq(kvmm_unpin_many(m.pool, ref, nr), 0);
		drop(chosen, nr, true);
		return;
	}
	nr = choose_refs(chosen, ref, false);
	cr_assert_eq(kvmm_pin_many(m.pool, ref, nr), 0);
	for (u32 i = 0; i < nr; i++) {
		m.block[chosen[i]].refs++;
		m.block[chosen[i]].pins++;
	}
}

static void op_set_reset(void)
{
	kvmm_ref_t ref[MAX_BATCH];
	u32 chosen[MAX_BATCH], nr = choose_refs(chosen, ref, false), on = any(2);

	cr_assert_eq(kvmm_set_reset(m.pool, ref, nr, on), 0);
	for (u32 i = 0; i < nr; i++)
		m.block[chosen[i]].reset = on || m.block[chosen[i]].hidden ||
					   m.block[chosen[i]].holds != NONE;
}

static void op_upgrade(void)
{
	u32 from = any(NR_WEAK - 4), nr = 0, found[4];
	kvmm_weak_t weak[4];
	kvmm_ref_t ref[4];

	for (u32 i = 0; i < 4; i++) {
		memcpy(&weak[i], m.weak[from + i].handle, sizeof(*weak));
		found[i] = NONE;
		for (u32 k = 0; k < NR_BLOCKS; k++)
			if (m.block[k].state == NAMED && !m.block[k].hidden &&
			    m.block[k].stamp == m.weak[from + i].stamp)
				found[i] = k;
		nr += found[i] != NONE;
	}
	cr_assert_eq(kvmm_upgrade_many(m.pool, weak, 4, ref), nr);
	for (u32 i = 0; i < 4; i++) {
		cr_assert_eq(ref[i].gen != 0, found[i] != NONE);
		if (found[i] == NONE)
			continue;
		m.block[found[i]].refs++;
		expect_content(found[i], ref[i]);
	}
}

/* ---- forgetting, moving ---- */

/* Who is in that block, or NONE: the content says so. */
static u32 named_at(u32 id)
{
	struct kvmm_block_info info;
	u32 stamp;

	cr_assert_eq(kvmm_block_get_info(m.pool, id, &info), 0);
	if (info.state != KVMM_BLOCK_ACTIVE && info.state != KVMM_BLOCK_INACTIVE)
		return NONE;
	stamp = stamp_at(id);
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		if (m.block[i].state != NAMED || m.block[i].stamp != stamp)
			continue;
		cr_assert_eq(info.refs, total_refs(&m.block[i]));
		cr_assert_eq(info.pins, m.block[i].pins);
		return i;
	}
	cr_assert_fail("a block that nobody knows");
	return NONE;
}

/* One after the other, as the call does it. */
static void op_evict_by_id(void)
{
	u32 ids[4], who[4], nr = 1 + any(4), want = 0;

	for (u32 i = 0; i < nr; i++) {
		ids[i] = any(NR_BLOCKS);
		who[i] = named_at(ids[i]);
	}
	for (u32 i = 0; i < nr; i++) {
		struct block *block = &m.block[who[i]];

		if (who[i] == NONE || block->state != NAMED || block->hidden)
			continue;
		want++;
		if (total_refs(block))
			block->hidden = block->reset = true;
		else
			forget(who[i]);
	}
	cr_assert_eq(kvmm_evict_blocks(m.pool, ids, nr), want);
}

static u32 forget_inactive(void)
{
	u32 nr = 0, victim;

	for (; (victim = next_victim()) != NONE; nr++)
		forget(victim);
	return nr;
}

static void op_reset(void)
{
	bool held = m.nr_range || nr_in(PRIVATE) || nr_in(STAGED);

	if (any(20))
		return;
	for (u32 i = 0; i < NR_BLOCKS; i++)
		held |= m.block[i].state == NAMED && m.block[i].refs;
	if (any(2) || held)
		cr_assert_eq(kvmm_reset_cache(m.pool), held ? -EBUSY : (int)forget_inactive());
	if (!held || any(2))
		cr_assert_eq(kvmm_reset_inactive(m.pool), forget_inactive());
}

static void op_range(void)
{
	u32 nr = 1 + any(16);
	int err;

	if (m.nr_range) {
		cr_assert_eq(kvmm_range_free(m.pool, m.range), 0);
		m.nr_range = 0;
		return;
	}
	err = kvmm_range_alloc(m.pool, nr, KVMM_RUNS(1 + any(4)), &m.range);
	cr_assert(!err || err == -ENOSPC);
	cr_assert(err || nr <= nr_free() + nr_inactive());
	if (err)
		return;
	if (nr > nr_free()) {
		m.evictions += nr - nr_free();
		evict(nr - nr_free(), NULL);
	}
	m.nr_range = nr;
}

static void op_compact(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = any(24),
				     .max_blocks = any(2) ? 0 : any(20) };
	int err = kvmm_pool_compact(m.pool, &goal);

	cr_assert(!err || err == -ENOSPC || err == -EAGAIN, "%d", err);
}

/* ---- the run ---- */

static void compare(void)
{
	struct kvmm_pool_stat stat = stat_of(m.pool);

	cr_assert_eq(kvmm_validate(m.pool), 0);
	cr_assert_eq(stat.nr_free, nr_free());
	cr_assert_eq(stat.nr_inactive, nr_inactive());
	cr_assert_eq(stat.nr_available, nr_free() + nr_inactive());
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_PRIVATE], nr_in(PRIVATE));
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_STAGED], nr_in(STAGED));
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_ACTIVE], nr_in(NAMED) - nr_inactive());
	cr_assert_eq(stat.nr_state[KVMM_BLOCK_RANGE], m.nr_range);
	cr_assert_eq(stat.hit_blocks, m.hits);
	cr_assert_eq(stat.miss_blocks, m.misses);
	cr_assert_eq(stat.registered, m.registered);
	cr_assert_eq(stat.duplicates, m.duplicates);
	cr_assert_eq(stat.evictions, m.evictions);
	for (u32 id = 0; id < NR_BLOCKS; id++)
		named_at(id);
}

static void (*const operations[])(void) = {
	op_alloc, op_alloc, op_free, op_stage, op_stage, op_stage, op_unstage, op_publish,
	op_publish, op_publish, op_match, op_match, op_scan, op_acquire, op_acquire, op_put, op_put,
	op_put, op_put, op_put, op_put, op_get, op_pin, op_set_reset, op_upgrade, op_evict_by_id,
	op_reset, op_range, op_compact,
};

static void run_model(const char *index, u32 dup, u32 flags, u64 seed, u64 nr_ops)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict),	/* so that ranges need moves */
					 .run_window = KVMM_RUN_WINDOW_NONE };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = "lru",
				       .evict = &evict };

	memset(&m, 0, sizeof(m));
	any_state = seed * 0x9e3779b97f4a7c15ull | 1;
	m.dup = dup;
	m.resets = flags & KVMM_POOL_RESET_ON_RELEASE;
	attr.flags = flags;
	attr.dup_policy = dup;
	attr.index = index;
	m.pool = make_pool_of(&attr);
	for (u64 i = 0; i < nr_ops; i++) {
		operations[any(ARRAY_SIZE(operations))]();
		if (i % 16 == 0)
			compare();
	}
	compare();
	cr_expect(m.hits && m.duplicates && m.registered);
	cr_expect(m.evictions && stat_of(m.pool).moved_blocks);
	kvmm_pool_destroy(m.pool);
}

Test(life_model, random_lives_agree_with_a_model)
{
	u64 seed = test_number("KVMM_SEED", 1);
	u64 nr_ops = test_length("KVMM_MODEL_OPS", 60000) / 6;

	cr_log_info("KVMM_SEED=%llu KVMM_MODEL_OPS=%llu", (unsigned long long)seed,
		    (unsigned long long)nr_ops * 6);
	run_model("flat", KVMM_DUP_ALLOW, 0, seed, nr_ops);
	run_model("flat", KVMM_DUP_HOLD, 0, seed + 1, nr_ops);
	run_model("flat", KVMM_DUP_REJECT, 0, seed + 2, nr_ops);
	run_model("flat", KVMM_DUP_HOLD, KVMM_POOL_RESET_ON_RELEASE, seed + 3, nr_ops);
	run_model("lfht", KVMM_DUP_HOLD, 0, seed + 4, nr_ops);
	run_model("lfht", KVMM_DUP_REJECT, 0, seed + 5, nr_ops);
}
