// SPDX-License-Identifier: Apache-2.0
/*
 * Everything at once: random pools, random calls over all that a pool can do, and a small model.
 *
 * The model shares no code with the pool. It knows what is held: by whom, of which tenant, and what
 * has to lie in each block, and so how much room there is. Where things lie, and who is evicted, it
 * does not know. Blocks are plain memory, which the test reads and writes as a device would: whatever
 * moves, and whoever else gets which block, what is held must be there again.
 *
 * KVMM_SEED chooses the first run, KVMM_OPS the calls of each, KVMM_RUNS how many. KVMM_STRICT: all is
 * looked at after each call.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/env.h>
#include <kv/mem.h>

#include <kvmm/testing.h>

#include "pool/arena.h"
#include "tests/pool/util.h"

#define MAX_BLOCKS	256u
#define NR_TENANTS	4u
#define NR_OWNERS	4u
#define NR_KEYS		96u
#define BATCH		12u
#define NR_SEEN		24u
#define SECOND		1000000000ull
#define TEXT		160u

/* What a range or a block holds: word[0] is one of a kind, and names the tenant; word[1] its complement. */
struct content {
	u64 word[2];
};

struct held_range {
	kvmm_range_t range;
	u32 nr, refs, pins, sealed, tenant, flags;
	u64 owner;
	u64 serial;			/* another one whenever the engine changes it */
	bool leased;
	u64 word[MAX_BLOCKS];
};

struct held_block {
	kvmm_mut_t mut;
	u64 word, owner;
	u32 tenant, key;
	bool leased;
};

struct held_ref {
	kvmm_ref_t ref;
	u32 pins;
};

struct held_hold {
	kvmm_hold_t hold;
	u32 nr;
	kvmm_ref_t ref[BATCH];
	u64 owner;
	bool leased;
};

/* A cached block that somebody references, by index. */
struct active {
	u32 gen, refs, tenant;
	u64 word, serial;
};

/* What a step was told. */
struct seen {
	u32 block, at;
	u64 serial, word;
	kvmm_range_t range;		/* or of a cached block: */
	kvmm_ref_t ref;
	bool is_ref, may_move;
};

static struct mix {
	struct kvmm_pool *pool, *other;
	struct kvmm_gangs *gangs;
	struct kvmm_pool_attr attr;
	u64 seed, random, next_word, nr_calls, step, now;
	const char *what;
	char config[TEXT];
	bool has_quotas, owns_blocks, has_stream, is_open;
	u32 nr_usable;
	struct kvmm_watermarks marks;
	kvmm_stream_t stream;
	struct kvmm_tenant_attr limit[NR_TENANTS];
	u32 nr_ranges, nr_muts, nr_staged, nr_refs, nr_holds, nr_active, nr_gangs, nr_seen;
	struct held_range range[MAX_BLOCKS];
	struct held_block mut[MAX_BLOCKS], staged[MAX_BLOCKS];
	struct held_ref ref[4 * MAX_BLOCKS];
	struct held_hold hold[32];
	struct active active[2 * MAX_BLOCKS];
	struct seen seen[NR_SEEN];
	kvmm_promise_t promise;
	u32 nr_promised;
	kvmm_gang_t gang;
	u32 gang_blocks, gang_range, gang_other, gang_more, gang_tenant;
	kvmm_weak_t weak[32];
	u64 nr_done, nr_failed;
} m;

static struct content memory[MAX_BLOCKS];
static char logged[512];		/* the first lines */

static u32 any(u32 below)
{
	m.random ^= m.random << 13;
	m.random ^= m.random >> 7;
	m.random ^= m.random << 17;
	return (m.random >> 20) % below;
}

static void wrong(int line, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	cr_assert_fail("seed %lu, call %lu (%s), line %d: %s\n  pool: %s\n  log: %s", (unsigned long)m.seed,
		       (unsigned long)m.nr_calls, m.what, line, text, m.config, logged);
}

static void keep_line(void *ctx, int level, const char *line)
{
	size_t used = strlen(logged);

	(void)ctx;
	(void)level;
	snprintf(logged + used, sizeof(logged) - used, "%s; ", line);
}

static const struct kvmm_testing_host host = { .size = sizeof(host), .log = keep_line };

#define must(cond, ...) do { if (!(cond)) wrong(__LINE__, #cond ": " __VA_ARGS__); } while (0)

/* ---- content ---- */

static u64 new_word(u32 tenant)
{
	return (u64)(tenant + 1) << 56 | ++m.next_word;
}

static u64 key_word(u32 key, u32 tenant)
{
	return (u64)(tenant + 1) << 56 | 1ull << 48 | key;
}

static void fill(u32 block, u64 word)
{
	memory[block].word[0] = word;
	memory[block].word[1] = ~word;
}

static void expect_content(u32 block, u64 word)
{
	must(memory[block].word[0] == word && memory[block].word[1] == ~word,
	     "block %u has %lx, not %lx", block, (unsigned long)memory[block].word[0],
	     (unsigned long)word);
}

/* Nobody sees what another tenant has left, where the pool says so. */
static void expect_fresh(u32 block, u32 tenant, u32 flags)
{
	const u64 *word = memory[block].word;

	must(block >= (m.attr.flags & KVMM_POOL_NULL_BLOCK ? 1 : 0), "the null block");
	if (flags & KVMM_ALLOC_ZERO || m.attr.zero == KVMM_ZERO_ALWAYS)
		must(!word[0] && !word[1], "block %u is not zero: %lx", block, (unsigned long)word[0]);
	if (m.attr.zero == KVMM_ZERO_TENANT)
		must(!word[0] || word[0] >> 56 == tenant + 1, "block %u of tenant %u has %lx", block,
		     tenant, (unsigned long)word[0]);
}

static u32 place_of_mut(kvmm_mut_t mut)
{
	int block = kvmm_block_of_mut(m.pool, mut);

	must(block >= 0, "%d", block);
	return block;
}

static u32 place_of_ref(kvmm_ref_t ref)
{
	int block = kvmm_block_of_ref(m.pool, ref);

	must(block >= 0, "%d", block);
	return block;
}

static void places_of(const struct held_range *held, u32 *place)
{
	struct kvmm_extent ext[MAX_BLOCKS];
	int nr = kvmm_range_extents(m.pool, held->range, ext, MAX_BLOCKS);
	u32 i = 0;

	must(nr > 0, "%d", nr);
	for (int e = 0; e < nr; e++)
		for (u32 b = 0; b < ext[e].nr; b++, i++) {
			must(i < held->nr, "longer than %u", held->nr);
			place[i] = ext[e].start + b;
		}
	must(i == held->nr, "%u blocks, not %u", i, held->nr);
}

static void expect_range(const struct held_range *held)
{
	u32 place[MAX_BLOCKS];

	places_of(held, place);
	for (u32 i = 0; i < held->nr; i++)
		expect_content(place[i], held->word[i]);
}

static void fill_range(struct held_range *held, u32 from, u32 flags)
{
	u32 place[MAX_BLOCKS];

	places_of(held, place);
	for (u32 i = from; i < held->nr; i++) {
		expect_fresh(place[i], held->tenant, flags);
		held->word[i] = new_word(held->tenant);
		fill(place[i], held->word[i]);
	}
	held->serial = ++m.next_word;
}

static void expect_everything(void)
{
	for (u32 i = 0; i < m.nr_ranges; i++)
		expect_range(&m.range[i]);
	for (u32 i = 0; i < m.nr_muts; i++)
		expect_content(place_of_mut(m.mut[i].mut), m.mut[i].word);
	for (u32 i = 0; i < m.nr_refs; i++)
		expect_content(place_of_ref(m.ref[i].ref), m.active[m.ref[i].ref.index].word);
	for (u32 i = 0; i < m.nr_holds; i++)
		for (u32 r = 0; r < m.hold[i].nr; r++)
			expect_content(place_of_ref(m.hold[i].ref[r]),
				       m.active[m.hold[i].ref[r].index].word);
}

/* ---- how much room there is ---- */

/* Blocks that are in use, of one tenant or (NR_TENANTS) of all. */
static u32 nr_held(u32 tenant)
{
	bool all = tenant == NR_TENANTS;
	u32 nr = all ? m.gang_more : 0;

	nr += all || tenant == m.gang_tenant ? m.gang_blocks + m.gang_range : 0;

	for (u32 i = 0; i < m.nr_ranges; i++)
		nr += all || m.range[i].tenant == tenant ? m.range[i].nr : 0;
	for (u32 i = 0; i < m.nr_muts; i++)
		nr += all || m.mut[i].tenant == tenant;
	for (u32 i = 0; i < m.nr_staged; i++)
		nr += all || m.staged[i].tenant == tenant;
	for (u32 i = 0; i < 2 * MAX_BLOCKS; i++)
		nr += m.active[i].refs && (all || m.active[i].tenant == tenant);
	return nr;
}

static u32 nr_flying(void)
{
	struct kvmm_step_stat stat;

	must(!kvmm_step_stat(m.pool, &stat));
	return stat.copying_blocks + stat.limbo_blocks;
}

/* Evictable blocks that this tenant cannot have. */
static u32 nr_protected(u32 tenant)
{
	u32 nr = 0;

	if (!m.has_quotas)
		return 0;
	for (u32 i = 0; i < NR_TENANTS; i++) {
		struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
		u32 may;

		if (i == tenant)
			continue;
		must(!kvmm_tenant_stat(m.pool, i ? i : KVMM_TENANT_REST, &stat));
		may = stat.usage > stat.min ? stat.usage - stat.min : 0;
		nr += stat.nr_inactive > may ? stat.nr_inactive - may : 0;
	}
	return nr;
}

struct want {
	u32 nr, prio, tenant, flags, promised, reserve;
	bool is_exact;			/* where it lies does not matter */
};

static u32 minus(u32 a, u32 b)
{
	return a > b ? a - b : 0;
}

struct bounds {
	u32 sure, most, quota;
};

static struct bounds bounds_of(const struct want *want)
{
	u32 keep = m.nr_promised - want->promised;
	struct bounds b = { .quota = UINT32_MAX };

	if (!want->promised)
		keep += want->prio == 0 ? m.marks.low : want->prio == 1 ? m.marks.min : 0;
	b.most = minus(m.nr_usable - nr_held(NR_TENANTS), keep + want->reserve);
	b.sure = minus(b.most, nr_flying() + nr_protected(want->tenant));
	if (want->flags & KVMM_ALLOC_NO_EVICT) {
		b.most = minus(b.most, stat_of(m.pool).nr_inactive);
		b.sure = minus(b.most, nr_flying());
	}
	if (m.has_quotas && want->flags & KVMM_ALLOC_NO_EVICT)
		b.sure = 0;
	if (m.has_quotas)
		b.quota = minus(m.limit[want->tenant].max, nr_held(want->tenant));
	return b;
}

/* What a request for room may answer. */
static void expect_answer(const struct want *want, const struct bounds *b, int err)
{
	if (!err) {
		must(want->nr <= b->most, "%u of %u", want->nr, b->most);
		must(want->nr <= b->quota, "%u of %u", want->nr, b->quota);
		m.nr_done++;
		return;
	}
	m.nr_failed++;
	if (err == -EAGAIN && want->flags & KVMM_ALLOC_NOWAIT)
		return;
	if (err == -EDQUOT) {
		must(want->nr > b->quota, "-EDQUOT: %u of %u", want->nr, b->quota);
		return;
	}
	must(err == -ENOSPC, "%d", err);
	must(!want->is_exact || want->nr > b->sure, "-ENOSPC: %u of %u, flags %x, priority %u, promised %u, reserve %u", want->nr,
	     b->sure, want->flags, want->prio, want->promised, want->reserve);
}

/* ---- cached blocks that are held ---- */

static void ref_get(kvmm_ref_t ref, u64 word, u32 tenant)
{
	struct active *active = &m.active[ref.index];

	must(ref.index < 2 * MAX_BLOCKS, "%u", ref.index);
	if (active->refs++) {
		must(active->gen == ref.gen, "two of one index");
		must(active->word == word, "%lx", (unsigned long)word);
		return;
	}
	*active = (struct active){ ref.gen, 1, tenant, word, ++m.next_word };
	expect_content(place_of_ref(ref), word);
}

static void ref_put(kvmm_ref_t ref)
{
	must(m.active[ref.index].refs > 0 && m.active[ref.index].gen == ref.gen);
	m.active[ref.index].refs--;
}

static void add_ref(kvmm_ref_t ref, u64 word, u32 tenant)
{
	ref_get(ref, word, tenant);
	if (m.nr_refs == 4 * MAX_BLOCKS) {
		must(!kvmm_put(m.pool, ref));
		ref_put(ref);
		return;
	}
	m.ref[m.nr_refs++] = (struct held_ref){ .ref = ref };
	m.weak[any(32)] = kvmm_weak_of(ref);
}

/* Prompts of one tenant that begin alike. */
static u32 some_keys(u32 *number, kvmm_key_t *key)
{
	u32 nr = 1 + any(BATCH), first = any(NR_KEYS / BATCH) * BATCH;

	for (u32 i = 0; i < nr; i++) {
		number[i] = first + i;
		key[i] = key_of(first + i);
	}
	return nr;
}

/* ---- private blocks ---- */

static void keep_muts(const kvmm_mut_t *mut, u32 nr, u32 tenant, u32 flags)
{
	for (u32 i = 0; i < nr; i++) {
		u32 block = place_of_mut(mut[i]);
		struct held_block held = { mut[i], new_word(tenant), 0, tenant, 0, false };

		expect_fresh(block, tenant, flags);
		fill(block, held.word);
		must(m.nr_muts < MAX_BLOCKS);
		m.mut[m.nr_muts++] = held;
	}
}

static struct held_block pull_mut(void)
{
	u32 at = any(m.nr_muts);
	struct held_block held = m.mut[at];

	m.mut[at] = m.mut[--m.nr_muts];
	expect_content(place_of_mut(held.mut), held.word);
	return held;
}

static void do_alloc(void)
{
	struct want want = { .nr = any(3) ? 1 : any(20), .tenant = any(NR_TENANTS), .is_exact = true };
	struct bounds b = bounds_of(&want);
	kvmm_mut_t mut[20];
	int err;

	m.what = "alloc";
	err = kvmm_alloc_for(m.pool, want.nr, want.tenant, mut);
	expect_answer(&want, &b, err);
	if (!err)
		keep_muts(mut, want.nr, want.tenant, 0);
}

static u32 some_flags(void)
{
	static const u32 place[] = { 0, 0, KVMM_ALLOC_PINNED, KVMM_ALLOC_TOPDOWN, KVMM_ALLOC_MOVABLE };
	static const u32 rest[] = { KVMM_ALLOC_NO_COMPACT, KVMM_ALLOC_NO_EVICT, KVMM_ALLOC_NOWAIT,
				    KVMM_ALLOC_CONTIG, KVMM_ALLOC_ZERO };
	u32 flags = place[any(5)];

	for (u32 i = 0; i < 5; i++)
		flags |= any(5) ? 0 : rest[i];
	return flags & KVMM_ALLOC_NOWAIT ? flags & ~KVMM_ALLOC_ZERO : flags;
}

static u32 promised_to(kvmm_promise_t *promise, u32 nr)
{
	if (!m.promise.gen || nr > m.nr_promised || any(2))
		return 0;
	*promise = m.promise;
	return nr;
}

static void was_promised(u32 nr)
{
	m.nr_promised -= nr;
}

static void do_alloc_ctl(void)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	struct want want = { .nr = 1 + any(16), .tenant = any(NR_TENANTS), .prio = any(3),
			     .flags = some_flags() };
	kvmm_mut_t mut[16];
	struct bounds b;
	int err;

	m.what = "alloc_ctl";
	ctl.nr = want.nr;
	ctl.prio = want.prio;
	ctl.tenant = want.tenant;
	ctl.flags = want.flags;
	want.is_exact = !(want.flags & (KVMM_ALLOC_CONTIG | KVMM_ALLOC_NOWAIT)) || want.nr == 1;
	want.promised = promised_to(&ctl.promise, want.nr);
	b = bounds_of(&want);
	err = kvmm_alloc_ctl(m.pool, &ctl, mut);
	expect_answer(&want, &b, err);
	if (err)
		return;
	was_promised(want.promised);
	keep_muts(mut, want.nr, want.tenant, want.flags);
}

static void do_free(void)
{
	kvmm_mut_t mut[BATCH];
	u32 nr = any(BATCH);

	m.what = "free";
	nr = nr < m.nr_muts ? nr : m.nr_muts;
	if (!nr)
		return;
	for (u32 i = 0; i < nr; i++)
		mut[i] = pull_mut().mut;
	must(!kvmm_free(m.pool, mut, nr));
	must(kvmm_free(m.pool, mut, 1) == -ESTALE);
}

/* ---- names ---- */

static void do_register(void)
{
	kvmm_key_t key = { { 0 } };
	u32 number = any(NR_KEYS);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .position = number % BATCH };
	struct held_block held;
	kvmm_ref_t ref;

	m.what = "register";
	if (!m.nr_muts)
		return;
	held = pull_mut();
	key = key_of(number);
	prefix.domain.tenant = held.tenant;
	fill(place_of_mut(held.mut), key_word(number, held.tenant));
	must(!kvmm_prefix_register(m.pool, &prefix, &held.mut, &ref));
	add_ref(ref, key_word(number, held.tenant), held.tenant);
}

static void do_stage(void)
{
	kvmm_key_t key = { { 0 } };
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct held_block held;
	kvmm_staged_t staged;

	m.what = "stage";
	if (!m.nr_muts || m.nr_staged > 24)
		return;
	held = pull_mut();
	held.key = any(NR_KEYS);
	held.word = key_word(held.key, held.tenant);
	key = key_of(held.key);
	prefix.domain.tenant = held.tenant;
	fill(place_of_mut(held.mut), held.word);
	must(!kvmm_stage(m.pool, &prefix, &held.mut, &staged));
	held.mut = (kvmm_mut_t){ staged.index, staged.gen };
	m.staged[m.nr_staged++] = held;
}

static void do_staged(void)
{
	kvmm_staged_t staged;
	struct held_block held;
	kvmm_ref_t ref;
	struct kvmm_publish req = { .staged = &staged, .nr = 1, .refs = &ref, .dup = any(2) };

	m.what = "publish";
	if (!m.nr_staged)
		return;
	held = m.staged[--m.nr_staged];
	staged = (kvmm_staged_t){ held.mut.index, held.mut.gen };
	switch (any(4)) {
	case 0:
		must(!kvmm_free_staged(m.pool, &staged, 1));
		break;
	case 1:
		must(!kvmm_unstage(m.pool, &staged, 1, &held.mut));
		must(m.nr_muts < MAX_BLOCKS);
		expect_content(place_of_mut(held.mut), held.word);
		m.mut[m.nr_muts++] = held;
		break;
	default:
		must(!kvmm_publish(m.pool, &req));
		add_ref(ref, held.word, held.tenant);
	}
}

static void do_acquire(void)
{
	struct want want = { .tenant = any(NR_TENANTS), .is_exact = true, .reserve = any(4) ? 0 : any(8) };
	u32 number[BATCH], nr, nr_hits;
	kvmm_key_t key[BATCH];
	kvmm_ref_t ref[BATCH];
	kvmm_mut_t mut[BATCH + 4];
	struct kvmm_acquire req = { .keys = key, .hits = ref, .fresh = mut, .reserve = want.reserve };
	struct kvmm_prefix prefix = { .keys = key };
	struct bounds b;
	int err;

	m.what = "acquire";
	nr = some_keys(number, key);
	prefix.nr = req.nr_keys = req.max_hits = nr;
	req.nr_blocks = nr + any(4);
	req.domain.tenant = prefix.domain.tenant = want.tenant;
	nr_hits = kvmm_prefix_len(m.pool, &prefix);
	must(nr_hits <= nr);
	want.nr = req.nr_blocks - nr_hits;
	b = bounds_of(&want);
	b.sure = minus(b.sure, nr_hits);
	err = kvmm_acquire(m.pool, &req);
	if (err == -EDQUOT)	/* hits that nobody had are in use then */
		must(want.nr + nr_hits > b.quota, "-EDQUOT");
	else
		expect_answer(&want, &b, err);
	if (err)
		return;
	must(req.nr_hits == nr_hits && req.nr_fresh == want.nr);
	for (u32 i = 0; i < nr_hits; i++)
		add_ref(ref[i], key_word(number[i], want.tenant), want.tenant);
	keep_muts(mut, req.nr_fresh, want.tenant, 0);
}

static void do_match(void)
{
	struct kvmm_prefix prefix = { .domain.tenant = any(NR_TENANTS) };
	u32 number[BATCH];
	kvmm_key_t key[BATCH];
	kvmm_ref_t ref[BATCH];
	int len, nr;

	m.what = "match";
	prefix.nr = some_keys(number, key);
	prefix.keys = key;
	len = kvmm_prefix_len(m.pool, &prefix);
	nr = kvmm_prefix_match(m.pool, &prefix, ref);
	must(nr == len, "%d, not %d", nr, len);
	for (int i = 0; i < nr; i++)
		add_ref(ref[i], key_word(number[i], prefix.domain.tenant), prefix.domain.tenant);
}

static void do_put(void)
{
	u32 nr = any(BATCH);

	m.what = "put";
	for (; nr && m.nr_refs; nr--) {
		u32 at = any(m.nr_refs);
		struct held_ref held = m.ref[at];

		m.ref[at] = m.ref[--m.nr_refs];
		for (; held.pins; held.pins--) {
			must(!kvmm_unpin(m.pool, held.ref));
			ref_put(held.ref);
		}
		expect_content(place_of_ref(held.ref), m.active[held.ref.index].word);
		ref_put(held.ref);
		must(!kvmm_put(m.pool, held.ref));
	}
}

static void do_pin(void)
{
	struct held_ref *held;
	int err;

	m.what = "pin";
	if (!m.nr_refs)
		return;
	held = &m.ref[any(m.nr_refs)];
	if (held->pins) {
		must(!kvmm_unpin(m.pool, held->ref));
		held->pins--;
		ref_put(held->ref);
		return;
	}
	err = kvmm_pin(m.pool, held->ref);
	must(!err || (err == -EBUSY && nr_flying()), "%d", err);
	if (err)
		return;
	held->pins++;
	ref_get(held->ref, m.active[held->ref.index].word, m.active[held->ref.index].tenant);
}

static void do_touch(void)
{
	u64 value = 1 + any(90);
	struct held_ref *held;
	int err;

	m.what = "touch";
	if (!m.nr_refs)
		return;
	held = &m.ref[any(m.nr_refs)];
	must(!kvmm_touch(m.pool, held->ref));
	err = kvmm_advise_many(m.pool, &held->ref, any(KVMM_NR_ADVICES), &value, 1);
	must(!err || err == -EOPNOTSUPP, "%d", err);
	must(!kvmm_set_reset(m.pool, &held->ref, 1, !any(8)));
	if (m.attr.evict && m.attr.evict->nr_classes) {
		err = kvmm_class_set(m.pool, &held->ref, 1, any(KVMM_NR_PHASES));
		must(!err || err == -EPERM, "%d", err);
	}
}

/* A weak reference finds its very block, or nothing. */
static void do_upgrade(void)
{
	kvmm_weak_t weak = m.weak[any(32)];
	struct active *active = &m.active[weak.index];
	kvmm_ref_t ref;
	int nr;

	m.what = "upgrade";
	if (!weak.gen)
		return;
	nr = kvmm_upgrade(m.pool, weak, &ref);
	must(nr == 0 || nr == 1, "%d", nr);
	if (!nr)
		return;
	must(active->gen == weak.gen);
	add_ref(ref, active->word, active->tenant);
}

/* ---- ranges ---- */

static void do_range(void)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any(any(3) ? 8 : 48),
					.max_runs = 1 + any(KVMM_MAX_RUNS), .prio = any(3),
					.tenant = any(NR_TENANTS), .flags = some_flags() };
	struct want want = { .nr = attr.nr, .prio = attr.prio, .tenant = attr.tenant };
	struct held_range *held = &m.range[m.nr_ranges];
	struct bounds b;
	int err;

	m.what = "range";
	attr.flags |= any(3) ? 0 : KVMM_ALLOC_GROWS;
	if (!any(3))	/* a plain one, as arenas have them */
		attr = (struct kvmm_range_attr){ .size = sizeof(attr), .nr = attr.nr,
						 .tenant = attr.tenant, .prio = attr.prio };
	if (!any(4)) {
		attr.owner = 1 + any(NR_OWNERS);
		attr.lease_ns = any(2) ? SECOND : 0;
		attr.own_flags = any(2) ? KVMM_OWN_RECLAIM : 0;
	}
	if (attr.flags & KVMM_ALLOC_CONTIG)
		attr.max_runs = 1;
	want.flags = attr.flags;
	want.is_exact = !(attr.flags & (KVMM_ALLOC_NOWAIT | KVMM_ALLOC_CONTIG)) &&
			attr.nr <= attr.max_runs;
	want.promised = promised_to(&attr.promise, attr.nr);
	b = bounds_of(&want);
	err = kvmm_range_alloc_attr(m.pool, &attr, &held->range);
	expect_answer(&want, &b, err);
	if (err)
		return;
	was_promised(want.promised);
	m.nr_ranges++;
	held->nr = attr.nr;
	held->refs = 1;
	held->pins = held->sealed = 0;
	held->tenant = attr.tenant;
	held->flags = attr.flags & KVMM_ALLOC_KEPT;
	held->owner = attr.owner;
	held->leased = attr.lease_ns && attr.own_flags;
	fill_range(held, 0, attr.flags);
}

static struct held_range *some_range(void)
{
	return m.nr_ranges ? &m.range[any(m.nr_ranges)] : NULL;
}

static void do_range_free(void)
{
	struct held_range *held = some_range();
	int err;

	m.what = "range_free";
	if (!held)
		return;
	if (!any(12) && held->refs < 3) {
		must(!kvmm_range_get(m.pool, held->range));
		held->refs++;
		return;
	}
	expect_range(held);
	err = kvmm_range_free(m.pool, held->range);
	if (held->refs == 1 && held->pins) {
		must(err == -EBUSY, "%d", err);
		return;
	}
	must(!err, "%d", err);
	if (--held->refs)
		return;
	must(kvmm_range_free(m.pool, held->range) == -ESTALE);
	*held = m.range[--m.nr_ranges];
}

static void range_grew(struct held_range *held, u32 nr)
{
	held->nr += nr;
	fill_range(held, held->nr - nr, 0);
}

static void do_grow(void)
{
	struct held_range *held = some_range();
	struct want want = { .nr = 1 + any(6), .is_exact = true };
	struct bounds b;
	int err;

	m.what = "grow";
	if (!held || held->nr > 120)
		return;
	want.tenant = held->tenant;
	want.flags = held->flags;
	b = bounds_of(&want);
	b.most = m.nr_usable - nr_held(NR_TENANTS) - m.nr_promised;	/* of a priority of its own */
	if (m.marks.low)
		b.sure = 0;
	err = kvmm_range_grow(m.pool, held->range, want.nr);
	expect_answer(&want, &b, err);
	if (!err)
		range_grew(held, want.nr);
}

static void do_grow_many(void)
{
	kvmm_range_t range[6];
	u32 at[6], nr = 1 + any(6), by = 1 + any(2), room, flags = 0;
	int err;

	m.what = "grow_many";
	if (m.nr_ranges < nr)
		return;
	for (u32 i = 0, first = any(m.nr_ranges); i < nr; i++) {
		at[i] = (first + i) % m.nr_ranges;
		range[i] = m.range[at[i]].range;
		flags |= m.range[at[i]].flags;
		if (m.range[at[i]].nr > 120)
			return;
	}
	room = minus(m.nr_usable - nr_held(NR_TENANTS), m.nr_promised);
	err = kvmm_range_grow_many(m.pool, range, nr, by);
	must(!err || err == -ENOSPC || (m.has_quotas && err == -EDQUOT), "%d", err);
	if (!err) {
		must(nr * by <= room, "%u of %u", nr * by, room);
		for (u32 i = 0; i < nr; i++)
			range_grew(&m.range[at[i]], by);
	} else if (!m.has_quotas && !m.marks.low &&
		   !(flags & KVMM_ALLOC_NO_EVICT)) {
		must(nr * by > minus(room, nr_flying()), "%u of %u", nr * by, room);
	}
}

static void do_shrink(void)
{
	struct held_range *held = some_range();
	u32 nr = 1 + any(6);
	bool front = any(2);
	int err;

	m.what = front ? "shrink_front" : "shrink";
	if (!held)
		return;
	err = front ? kvmm_range_shrink_front(m.pool, held->range, nr) :
		      kvmm_range_shrink(m.pool, held->range, nr);
	if (nr >= held->nr) {
		must(err == -EINVAL, "%d", err);
		return;
	}
	must(err == (held->pins ? -EBUSY : 0), "%d", err);
	if (err)
		return;
	held->nr -= nr;
	held->serial = ++m.next_word;
	if (front) {
		memmove(held->word, held->word + nr, held->nr * sizeof(held->word[0]));
		held->sealed = minus(held->sealed, nr);
	}
	held->sealed = held->sealed < held->nr ? held->sealed : held->nr;
	expect_range(held);
}

static void do_split(void)
{
	struct held_range *held = some_range(), *tail = &m.range[m.nr_ranges];
	u32 at;
	int err;

	m.what = "split";
	if (!held || held->owner || held->nr < 2)
		return;
	at = 1 + any(held->nr - 1);
	err = kvmm_range_split(m.pool, held->range, at, &tail->range);
	must(err == (held->pins || held->refs > 1 ? -EBUSY : 0), "%d", err);
	if (err)
		return;
	tail->nr = held->nr - at;
	tail->refs = 1;
	tail->pins = tail->sealed = 0;
	tail->tenant = held->tenant;
	tail->flags = held->flags;
	tail->owner = 0;
	tail->leased = false;
	memcpy(tail->word, held->word + at, tail->nr * sizeof(tail->word[0]));
	tail->serial = ++m.next_word;
	held->nr = at;
	held->sealed = held->sealed < at ? held->sealed : at;
	held->serial = ++m.next_word;
	m.nr_ranges++;
	expect_range(held);
	expect_range(tail);
}

static void do_seal_or_pin(void)
{
	struct held_range *held = some_range();

	m.what = "range_pin";
	if (!held)
		return;
	if (any(2)) {
		held->sealed = 1 + any(held->nr);
		held->serial = ++m.next_word;
		must(!kvmm_range_seal(m.pool, held->range, held->sealed));
	} else if (held->pins) {
		must(!kvmm_range_unpin(m.pool, held->range));
		held->pins--;
	} else if (!any(3)) {
		must(!kvmm_range_pin(m.pool, held->range));
		held->pins++;
	}
}

/* ---- steps ---- */

static void see_range(struct seen *seen)
{
	struct held_range *held = some_range();
	u32 place[MAX_BLOCKS], at = any(held->nr);

	places_of(held, place);
	*seen = (struct seen){ .block = place[at], .at = at, .serial = held->serial,
			       .word = held->word[at], .range = held->range,
			       .may_move = at < held->sealed };
}

static void see_ref(struct seen *seen)
{
	struct held_ref *held = &m.ref[any(m.nr_refs)];
	struct active *active = &m.active[held->ref.index];

	*seen = (struct seen){ .block = place_of_ref(held->ref), .serial = active->serial,
			       .word = active->word, .ref = held->ref, .is_ref = true, .may_move = true };
}

static void begin_step(void)
{
	struct kvmm_relocation moves[64];
	int err, nr;

	m.what = "step_begin";
	err = kvmm_step_begin(m.pool, m.stream, &m.step);
	while (err == -EAGAIN) {
		nr = kvmm_relocations(m.pool, m.stream, moves, 64);
		must(nr > 0, "%d", nr);
		must(!kvmm_relocations_ack(m.pool, m.stream, nr));
		err = kvmm_step_begin(m.pool, m.stream, &m.step);
	}
	must(!err, "%d", err);
	m.is_open = true;
	for (m.nr_seen = 0; m.nr_seen < NR_SEEN; m.nr_seen++) {
		if (m.nr_ranges && (m.nr_seen % 2 || !m.nr_refs))
			see_range(&m.seen[m.nr_seen]);
		else if (m.nr_refs)
			see_ref(&m.seen[m.nr_seen]);
		else
			break;
	}
}

static struct held_range *range_of(const struct seen *seen)
{
	for (u32 i = 0; i < m.nr_ranges; i++)
		if (m.range[i].range.index == seen->range.index &&
		    m.range[i].range.gen == seen->range.gen)
			return m.range[i].serial == seen->serial ? &m.range[i] : NULL;
	return NULL;
}

/* The step writes where it was told that the block is. */
static void write_in_step(struct seen *seen)
{
	struct held_range *held = seen->is_ref ? NULL : range_of(seen);

	if (!held || seen->at < held->sealed)
		return;
	for (u32 i = 0; i < m.nr_seen; i++)
		if (&m.seen[i] != seen && m.seen[i].block == seen->block)
			return;
	seen->word = held->word[seen->at] = new_word(held->tenant);
	fill(seen->block, seen->word);
}

/* What is still held is still where the step was told, and stayed there if it may be written. */
static void expect_seen(const struct seen *seen)
{
	struct held_range *held;
	u32 place[MAX_BLOCKS];

	if (seen->is_ref) {
		if (m.active[seen->ref.index].serial == seen->serial && m.active[seen->ref.index].refs)
			expect_content(seen->block, seen->word);
		return;
	}
	held = range_of(seen);
	if (!held)
		return;
	expect_content(seen->block, seen->word);
	places_of(held, place);
	must(seen->may_move || place[seen->at] == seen->block, "moved under a step");
}

static void do_step(void)
{
	m.what = "step";
	if (!m.has_stream)
		return;
	if (!m.is_open) {
		begin_step();
		return;
	}
	for (u32 i = 0; i < m.nr_seen; i++)
		expect_seen(&m.seen[i]);
	if (m.nr_seen && any(3)) {
		write_in_step(&m.seen[any(m.nr_seen)]);
		return;
	}
	must(!kvmm_step_end(m.pool, m.stream, m.step));
	m.is_open = false;
}

static void do_compact(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 1 + any(40),
				     .max_blocks = any(3) ? 0 : any(40) };
	int err;

	m.what = "compact";
	switch (any(8)) {
	case 0:
		err = kvmm_compact_cancel(m.pool);
		must(err >= 0, "%d", err);
		return;
	case 1:
		goal.want_run = any(40);
		err = kvmm_pool_compact(m.pool, &goal);
		must(!err || err == -EAGAIN || err == -ENOSPC || err == -EBUSY, "%d", err);
		must(err || !m.is_open || !goal.moved, "moved under a step");
		return;
	case 2:
	case 3:
		must(kvmm_compact_poll(m.pool) >= 0);
		return;
	case 4:
		err = kvmm_background_tick(m.pool);
		must(err == 0 || err == 1, "%d", err);
		return;
	default:
		err = kvmm_compact_start(m.pool, &goal, any(2));
		if (m.attr.flags & KVMM_POOL_DETERMINISTIC)
			must(err == -EOPNOTSUPP || err == -EINVAL, "%d", err);
		else
			must(!err || err == -ENOSPC || err == -EBUSY, "%d", err);
	}
}

/* ---- limits ---- */

static void do_limit(void)
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	u32 tenant = any(NR_TENANTS);

	m.what = "limit";
	if (!m.has_quotas)
		return;
	attr.min = any(2) ? 0 : any(m.nr_usable / 4);
	attr.low = any(2) ? 0 : any(m.nr_usable / 3);
	attr.high = any(2) ? KVMM_TENANT_NO_LIMIT : any(m.nr_usable);
	attr.max = any(2) ? KVMM_TENANT_NO_LIMIT : m.nr_usable / 4 + any(m.nr_usable);
	must(!kvmm_tenant_set(m.pool, tenant ? tenant : KVMM_TENANT_REST, &attr));
	m.limit[tenant] = attr;
}

static void do_marks(void)
{
	u32 mark = any(3) ? 0 : any(m.nr_usable / 6);
	struct kvmm_watermarks marks = { mark / 2, mark, mark * 2 };
	struct kvmm_reclaim reclaim = { .size = sizeof(reclaim), .max_blocks = any(20) };
	int err;

	m.what = "watermarks";
	if (any(3)) {
		err = kvmm_reclaim(m.pool, &reclaim);
		must(!err || err == -EAGAIN || err == -ENOSPC, "%d", err);
		return;
	}
	must(!kvmm_watermarks_set(m.pool, &marks));
	m.marks = marks;
}

static void do_promise(void)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	struct want want = { .nr = 1 + any(16), .prio = any(3), .is_exact = true };
	struct bounds b;
	int nr;

	m.what = "promise";
	if (m.promise.gen) {
		nr = any(3) ? kvmm_promise_left(m.pool, m.promise) : -1;
		must(nr < 0 || nr == (int)m.nr_promised, "%d, not %u", nr, m.nr_promised);
		if (nr >= 0)
			return;
		nr = kvmm_promise_end(m.pool, m.promise);
		must(nr == (int)m.nr_promised, "%d, not %u", nr, m.nr_promised);
		m.promise = (kvmm_promise_t){ 0, 0 };
		m.nr_promised = 0;
		return;
	}
	ctl.nr = want.nr;
	ctl.prio = want.prio;
	b = bounds_of(&want);
	if (m.has_quotas)
		b.sure = 0;
	b.quota = UINT32_MAX;	/* its tenant has to pay when it takes them */
	nr = kvmm_promise_make(m.pool, &ctl, &m.promise);
	nr = nr == -EDQUOT && m.has_quotas ? -ENOSPC : nr;
	if (nr)
		m.promise.gen = 0;
	else
		m.nr_promised = want.nr;
	expect_answer(&want, &b, nr);
}

/* ---- gangs ---- */

static void reserve_gang(void)
{
	struct kvmm_gang_want want[3] = { { .kind = KVMM_GANG_BLOCKS, .nr = 1 + any(8) },
					  { .kind = KVMM_GANG_RANGE, .nr = 1 + any(12) },
					  { .pool = 1, .kind = KVMM_GANG_BLOCKS, .nr = 1 + any(12) } };
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	u32 tenant = any(NR_TENANTS);	/* of all of it */
	struct want all = { .nr = want[0].nr + want[1].nr, .tenant = tenant };
	struct bounds b;
	int err;

	m.what = "gang_reserve";
	want[0].tenant = want[1].tenant = tenant;
	want[1].prio = want[1].flags = 0;
	attr.wants = want;
	attr.nr = 3;
	b = bounds_of(&all);
	b.most = m.nr_usable - nr_held(NR_TENANTS) - m.nr_promised;
	err = kvmm_gang_reserve(m.gangs, &attr, &m.gang, NULL);
	expect_answer(&all, &b, err);
	if (err)
		return;
	m.nr_gangs = 1;
	m.gang_blocks = want[0].nr;
	m.gang_range = want[1].nr;
	m.gang_other = want[2].nr;
	m.gang_tenant = tenant;
	/* Victims that have turned out not to be needed are kept until the commit. */
	m.gang_more = stat_of(m.pool).nr_state[KVMM_BLOCK_PRIVATE] - m.nr_muts - m.gang_blocks;
}

static void do_gang(void)
{
	struct held_range *held = &m.range[m.nr_ranges];
	kvmm_mut_t mut[20];
	u32 nr = m.gang_blocks, nr_range = m.gang_range;

	m.what = "gang";
	if (!m.nr_gangs) {
		reserve_gang();
		return;
	}
	m.nr_gangs = m.gang_blocks = m.gang_range = m.gang_more = 0;
	m.what = "gang_commit";
	if (any(2)) {
		m.what = "gang_abort";
		must(!kvmm_gang_abort(m.gangs, m.gang));
		return;
	}
	must(!kvmm_gang_commit(m.gangs, m.gang, mut, &held->range));
	must(!kvmm_free(m.other, mut + nr, m.gang_other));
	keep_muts(mut, nr, m.gang_tenant, 0);
	m.nr_ranges++;
	held->nr = nr_range;
	held->refs = 1;
	held->pins = held->sealed = 0;
	held->tenant = m.gang_tenant;
	held->flags = 0;
	held->owner = 0;
	held->leased = false;
	fill_range(held, 0, 0);
}

/* ---- owners and holds ---- */

static void drop_hold(u32 at)
{
	for (u32 i = 0; i < m.hold[at].nr; i++)
		ref_put(m.hold[at].ref[i]);
	m.hold[at] = m.hold[--m.nr_holds];
}

static void do_hold(void)
{
	struct kvmm_hold_attr attr = KVMM_HOLD_ATTR_INIT;
	struct kvmm_prefix prefix = { .domain.tenant = any(NR_TENANTS) };
	struct held_hold *held = &m.hold[m.nr_holds];
	kvmm_key_t key[BATCH];
	u32 number[BATCH];
	int nr;

	m.what = "hold";
	if (m.nr_holds == 32 || (m.nr_holds && any(2))) {
		u32 at = any(m.nr_holds);

		must(!kvmm_hold_release(m.pool, m.hold[at].hold));
		drop_hold(at);
		return;
	}
	prefix.nr = some_keys(number, key);
	prefix.keys = key;
	attr.prefix = &prefix;
	attr.owner = 1 + any(NR_OWNERS);
	attr.lease_ns = any(2) ? SECOND : 0;
	attr.flags = KVMM_HOLD_PARTIAL | (any(2) ? KVMM_HOLD_PIN : 0) |
		     (any(2) ? KVMM_HOLD_RECLAIM : 0);
	nr = kvmm_hold(m.pool, &attr, &held->hold);
	must(nr > 0 || nr == -ENOENT || (nr == -EBUSY && nr_flying()), "%d", nr);
	if (nr <= 0)
		return;
	must(kvmm_hold_refs(m.pool, held->hold, held->ref, key, BATCH) == nr);
	held->nr = nr;
	held->owner = attr.owner;
	held->leased = attr.lease_ns && attr.flags & KVMM_HOLD_RECLAIM;
	for (int i = 0; i < nr; i++)
		ref_get(held->ref[i], key_word(number_of(&key[i]), prefix.domain.tenant),
			prefix.domain.tenant);
	m.nr_holds++;
}

static void do_own(void)
{
	struct kvmm_own own = KVMM_OWN_INIT;
	u32 at;

	m.what = "own";
	if (!m.owns_blocks || !m.nr_muts)
		return;
	at = any(m.nr_muts);
	own.owner = any(NR_OWNERS + 1);
	own.lease_ns = own.owner && any(2) ? SECOND : 0;
	own.flags = own.lease_ns ? KVMM_OWN_RECLAIM : 0;
	must(!kvmm_own_muts(m.pool, &own, &m.mut[at].mut, 1));
	m.mut[at].owner = own.owner;
	m.mut[at].leased = own.lease_ns;
}

/* Things that go: of @owner, or, if that is 0, with a lease. */
static bool goes(u64 of, bool leased, u64 owner)
{
	return owner ? of == owner : leased;
}

static u32 drop_owned(u64 owner)
{
	u32 nr = 0;

	for (u32 i = m.nr_holds; i--;)
		if (goes(m.hold[i].owner, m.hold[i].leased, owner)) {
			drop_hold(i);
			nr++;
		}
	for (u32 i = m.nr_muts; i--;)
		if (goes(m.mut[i].owner, m.mut[i].leased, owner)) {
			m.mut[i] = m.mut[--m.nr_muts];
			nr++;
		}
	for (u32 i = m.nr_staged; i--;)
		if (goes(m.staged[i].owner, m.staged[i].leased, owner)) {
			m.staged[i] = m.staged[--m.nr_staged];
			nr++;
		}
	for (u32 i = m.nr_ranges; i--;) {
		struct held_range *held = &m.range[i];

		if (!goes(held->owner, held->leased, owner) || (held->refs == 1 && held->pins))
			continue;
		held->owner = 0;
		held->leased = false;
		nr++;
		if (!--held->refs)
			*held = m.range[--m.nr_ranges];
	}
	return nr;
}

static bool owner_is_pinned(u64 owner)
{
	for (u32 i = 0; i < m.nr_ranges; i++)
		if (m.range[i].owner == owner && m.range[i].refs == 1 && m.range[i].pins)
			return true;
	return false;
}

static void do_release(void)
{
	u64 owner = 1 + any(NR_OWNERS);
	int nr, want;

	m.what = "release";
	if (any(2)) {
		m.what = "lease_expire";
		nr = kvmm_lease_expire(m.pool, m.now += 1000 * SECOND, NULL);
		want = drop_owned(0);
	} else {
		nr = kvmm_owner_release(m.pool, owner);
		want = owner_is_pinned(owner) ? -EBUSY : (int)drop_owned(owner);
	}
	must(nr == want, "%d, not %d", nr, want);
}

/* ---- forgetting ---- */

static void do_forget(void)
{
	struct kvmm_evict_for req = { .size = sizeof(req), .nr_blocks = any(24) };
	u32 block[4];
	int nr;

	m.what = "forget";
	switch (any(24)) {
	case 0:
		must(kvmm_reset_inactive(m.pool) >= 0);
		break;
	case 1:
		nr = kvmm_reset_cache(m.pool);
		must(nr >= 0 ? !nr_held(NR_TENANTS) : nr == -EBUSY, "%d", nr);
		break;
	case 2 ... 9:
		nr = kvmm_evict_for(m.pool, &req);
		must(!nr || nr == -ENOSPC, "%d", nr);
		break;
	case 10 ... 13:
		nr = kvmm_tenant_reclaim(m.pool, 1 + any(NR_TENANTS - 1), any(8));
		must(nr >= 0 || !m.has_quotas, "%d", nr);
		break;
	default:
		for (u32 i = 0; i < 4; i++)
			block[i] = any(m.attr.nr_blocks);
		must(kvmm_evict_blocks(m.pool, block, 4) >= 0);
	}
}

/* ---- all of them ---- */

static void expect_counts(void)
{
	struct kvmm_pool_stat stat = stat_of(m.pool);
	u32 nr_active = 0, nr = m.gang_range, flying = nr_flying();

	for (u32 i = 0; i < m.nr_ranges; i++)
		nr += m.range[i].nr;
	for (u32 i = 0; i < 2 * MAX_BLOCKS; i++)
		nr_active += m.active[i].refs > 0;
	must(stat.nr_state[KVMM_BLOCK_RANGE] == nr, "%u, not %u",
	     stat.nr_state[KVMM_BLOCK_RANGE], nr);
	must(stat.nr_state[KVMM_BLOCK_PRIVATE] == m.nr_muts + m.gang_blocks + m.gang_more, "%u, not %u",
	     stat.nr_state[KVMM_BLOCK_PRIVATE], m.nr_muts + m.gang_blocks);
	must(stat.nr_state[KVMM_BLOCK_STAGED] == m.nr_staged);
	must(stat.nr_state[KVMM_BLOCK_ACTIVE] == nr_active, "%u, not %u",
	     stat.nr_state[KVMM_BLOCK_ACTIVE], nr_active);
	must(stat.nr_available + flying >= m.nr_usable - nr_held(NR_TENANTS) &&
	     stat.nr_available <= m.nr_usable - nr_held(NR_TENANTS), "%u available, %u held, %u flying",
	     stat.nr_available, nr_held(NR_TENANTS), flying);
}

static void one_call(void)
{
	static void (*const calls[])(void) = {
		do_alloc, do_alloc, do_alloc, do_alloc_ctl, do_free, do_free, do_register, do_register,
		do_register, do_stage, do_staged, do_acquire, do_acquire, do_match, do_put, do_put,
		do_put, do_pin, do_touch, do_upgrade, do_range, do_range, do_range, do_range_free,
		do_range_free, do_range_free, do_grow, do_grow, do_grow_many, do_shrink, do_split,
		do_seal_or_pin, do_step, do_step, do_step, do_compact, do_limit, do_marks, do_promise,
		do_gang, do_hold, do_own, do_release, do_forget,
	};
	u32 call = any(ARRAY_SIZE(calls));

	m.nr_calls++;
	if ((calls[call] == do_marks || calls[call] == do_release || calls[call] == do_limit) && any(4))
		return;
	calls[call]();
}

/* ---- pools ---- */

static void choose_pool(struct kvmm_plane *plane, struct kvmm_evict_attr *evict,
			const struct kvmm_class *classes)
{
	static const u32 flags[] = { KVMM_POOL_NULL_BLOCK, KVMM_POOL_RESET_ON_RELEASE,
				     KVMM_POOL_DETERMINISTIC, KVMM_POOL_NO_MAGAZINES };
	const char *names[64];
	u32 nr = kvmm_policies(names, 64);
	struct kvmm_pool_attr *attr = &m.attr;

	*attr = (struct kvmm_pool_attr)KVMM_POOL_ATTR_INIT;
	attr->policy = any(2) ? names[any(nr)] : "default";
	attr->nr_blocks = 48 + any(MAX_BLOCKS - 48);
	attr->compactor = any(5) ? "window" : "slide";
	attr->zero = any(KVMM_NR_ZEROS);
	attr->dup_policy = any(2) ? KVMM_DUP_ALLOW : KVMM_DUP_REJECT;
	for (u32 i = 0; i < 4; i++)
		attr->flags |= any(4) ? 0 : flags[i];
	attr->seed = m.seed;
	attr->planes = plane;
	attr->nr_planes = 1;
	evict->run_window = any(2) ? 0 : any(attr->nr_blocks / 4);
	evict->classes = any(2) ? classes : NULL;
	evict->nr_classes = evict->classes ? KVMM_NR_PHASES : 0;
	evict->default_class = evict->classes ? 1 : 0;
	attr->evict = any(2) || !strcmp(attr->policy, "lru-classic") ? NULL : evict;
	m.nr_usable = attr->nr_blocks - !!(attr->flags & KVMM_POOL_NULL_BLOCK);
}

static void make_pools(void)
{
	struct kvmm_plane plane = { (uintptr_t)memory, sizeof(memory[0]), sizeof(memory[0]) };
	struct kvmm_evict_attr evict = { .size = sizeof(evict) };
	struct kvmm_class classes[] = KVMM_PHASES(300);
	struct kvmm_gangs_attr gangs = KVMM_GANGS_ATTR_INIT;
	struct kvmm_pool *pools[2];
	struct kvmm_background how = KVMM_BACKGROUND_INIT;
	u32 arenas = 0;

	choose_pool(&plane, &evict, classes);
	m.pool = pools[0] = make_pool_of(&m.attr);
	m.attr.evict = m.attr.evict && m.attr.evict->nr_classes ? m.attr.evict : NULL;
	m.other = pools[1] = make_cache(24, "lru");
	gangs.pools = pools;
	gangs.nr_pools = 2;
	cr_assert_eq(kvmm_gangs_create(&gangs, &m.gangs), 0);
	m.has_quotas = !any(3) && !kvmm_tenant_set_many(m.pool, (u32[]){ KVMM_TENANT_REST, 1, 2, 3 },
							m.limit, NR_TENANTS);
	if (any(2) && !kvmm_stream_add(m.pool, NULL, any(2) ? KVMM_STREAM_TABLES : 0, &m.stream))
		m.has_stream = true;
	if (any(2) && !kv_pool_force_arenas(m.pool, 1u << any(3)))
		arenas = 1;
	how.interval_ms = 1;
	how.threshold_pm = 50;
	how.mode = any(2);
	if (any(2))
		(void)kvmm_background_set(m.pool, &how);
	m.owns_blocks = !any(3);
	snprintf(m.config, TEXT, "%u blocks, %s, flags %x, zero %u, dup %u, %s%s%s%s, window %u, classes %u",
		 m.attr.nr_blocks, m.attr.policy, m.attr.flags, m.attr.zero, m.attr.dup_policy,
		 m.has_quotas ? "quotas " : "", m.has_stream ? "stream " : "",
		 arenas ? "arenas " : "", m.owns_blocks ? "owners" : "", evict.run_window, evict.nr_classes);
	m.attr.evict = NULL;
}

static void give_all_back(void)
{
	m.what = "the end";
	if (m.nr_gangs)
		must(!kvmm_gang_abort(m.gangs, m.gang));
	if (m.is_open)
		must(!kvmm_step_end(m.pool, m.stream, m.step));
	while (m.nr_holds)
		must(!kvmm_hold_release(m.pool, m.hold[--m.nr_holds].hold));
	while (m.nr_refs) {
		struct held_ref *held = &m.ref[--m.nr_refs];

		for (; held->pins; held->pins--)
			must(!kvmm_unpin(m.pool, held->ref));
		must(!kvmm_put(m.pool, held->ref));
	}
	while (m.nr_muts)
		must(!kvmm_free(m.pool, &m.mut[--m.nr_muts].mut, 1));
	while (m.nr_staged) {
		struct held_block *held = &m.staged[--m.nr_staged];
		kvmm_staged_t staged = { held->mut.index, held->mut.gen };

		must(!kvmm_free_staged(m.pool, &staged, 1));
	}
	for (u32 i = 0; i < m.nr_ranges; i++) {
		for (; m.range[i].pins; m.range[i].pins--)
			must(!kvmm_range_unpin(m.pool, m.range[i].range));
		for (; m.range[i].refs; m.range[i].refs--)
			must(!kvmm_range_free(m.pool, m.range[i].range));
	}
	if (m.promise.gen)
		must(kvmm_promise_end(m.pool, m.promise) >= 0);
}

/* Everything comes back, and nothing of a pool is left. */
static void end_pools(void)
{
	struct kvmm_pool_stat stat;

	give_all_back();
	must(kvmm_compact_cancel(m.pool) >= 0);
	if (m.has_stream)
		must(!kvmm_stream_del(m.pool, m.stream));
	must(kvmm_compact_poll(m.pool) == 0);
	must(!kvmm_validate(m.pool));
	must(kvmm_reset_cache(m.pool) >= 0);
	stat = stat_of(m.pool);
	must(stat.nr_free == m.nr_usable, "%u of %u", stat.nr_free, m.nr_usable);
	must(!kvmm_validate(m.pool));
	kvmm_gangs_destroy(m.gangs);
	end_pool(m.other);
	kvmm_pool_destroy(m.pool);
}

static u64 number_from(const char *name, u64 otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void one_run(u64 seed, u64 nr_ops)
{
	bool strict = getenv("KVMM_STRICT");

	memset(&m, 0, sizeof(m));
	memset(memory, 0, sizeof(memory));
	m.seed = seed;
	m.random = seed * 0x9e3779b97f4a7c15ull | 1;
	m.gang_tenant = NR_TENANTS;
	for (u32 i = 0; i < 8; i++)
		any(2);
	for (u32 i = 0; i < NR_TENANTS; i++)
		m.limit[i] = (struct kvmm_tenant_attr)KVMM_TENANT_ATTR_INIT;
	m.now = kvmm_clock_ns() + 1000000 * SECOND;
	make_pools();
	for (u64 i = 0; i < nr_ops; i++) {
		one_call();
		if (strict || i % 16 == 0)
			expect_counts();
		if (!strict && i % 64)
			continue;
		expect_everything();
		must(!kvmm_validate(m.pool));
	}
	end_pools();
}

Test(mix, whatever_is_called_in_whatever_pool_agrees_with_the_model)
{
	u64 seed = number_from("KVMM_SEED", 1), nr_runs = number_from("KVMM_RUNS", 16);
	u64 nr_ops = number_from("KVMM_OPS", 2000);

	cr_assert_eq(kvmm_testing_set_host(&host), 0);
	for (u64 i = 0; i < nr_runs; i++) {
		one_run(seed + i, nr_ops);
		if (getenv("KVMM_VERBOSE"))
			printf("seed %lu: %lu done, %lu failed: %s\n", (unsigned long)seed + i,
			       (unsigned long)m.nr_done, (unsigned long)m.nr_failed, m.config);
	}
}
