// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>

#include "tests/pool/mix_model.h"
#include "tests/support/random.h"

struct mix m;

static struct content memory[MAX_BLOCKS];
static char logged[512];		/* the first lines */

u32 mix_any(u32 below)
{
	return any_of(&m.random, below);
}

void wrong(const char *file, int line, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	cr_assert_fail("seed %lu, call %lu (%s), %s:%d: %s\n  pool: %s\n  log: %s", (unsigned long)m.seed,
		       (unsigned long)m.nr_calls, m.what, file, line, text, m.config, logged);
}

static void keep_line(void *ctx, int level, const char *line)
{
	size_t used = strlen(logged);

	(void)ctx;
	(void)level;
	snprintf(logged + used, sizeof(logged) - used, "%s; ", line);
}

const struct kvmm_testing_host mix_host = { .size = sizeof(mix_host), .log = keep_line };

void mix_reset(u64 seed)
{
	memset(&m, 0, sizeof(m));
	memset(memory, 0, sizeof(memory));
	m.seed = seed;
	m.random = seed * 0x9e3779b97f4a7c15ull | 1;
}

uintptr_t mix_memory(void)
{
	return (uintptr_t)memory;
}

/* ---- content ---- */

u64 new_word(u32 tenant)
{
	return (u64)(tenant + 1) << 56 | ++m.next_word;
}

u64 key_word(u32 key, u32 tenant)
{
	return (u64)(tenant + 1) << 56 | 1ull << 48 | key;
}

void fill(u32 block, u64 word)
{
	memory[block].word[0] = word;
	memory[block].word[1] = ~word;
}

void expect_content(u32 block, u64 word)
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

u32 place_of_mut(kvmm_mut_t mut)
{
	int block = kvmm_block_of_mut(m.pool, mut);

	must(block >= 0, "%d", block);
	return block;
}

u32 place_of_ref(kvmm_ref_t ref)
{
	int block = kvmm_block_of_ref(m.pool, ref);

	must(block >= 0, "%d", block);
	return block;
}

void places_of(const struct held_range *held, u32 *place)
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

void expect_range(const struct held_range *held)
{
	u32 place[MAX_BLOCKS];

	places_of(held, place);
	for (u32 i = 0; i < held->nr; i++)
		expect_content(place[i], held->word[i]);
}

void fill_range(struct held_range *held, u32 from, u32 flags)
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

void expect_everything(void)
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
u32 nr_held(u32 tenant)
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

/* Who gives back what is copied leaves both places behind. */
u32 nr_flying(void)
{
	struct kvmm_step_stat stat;

	must(!kvmm_step_get_stat(m.pool, &stat));
	return 2 * stat.copying_blocks + stat.limbo_blocks;
}

/* A cached block is not evictable while it is copied: nobody has it then, nor where it goes. */
u32 nr_cached_flying(void)
{
	u32 nr_inactive = stat_of(m.pool).nr_inactive;
	struct kvmm_step_stat stat;

	must(!kvmm_step_get_stat(m.pool, &stat));
	return stat.copying_blocks < nr_inactive ? stat.copying_blocks : nr_inactive;
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
		must(!kvmm_tenant_get_stat(m.pool, i ? i : KVMM_TENANT_REST, &stat));
		may = stat.usage > stat.min ? stat.usage - stat.min : 0;
		nr += stat.nr_inactive > may ? stat.nr_inactive - may : 0;
	}
	return nr;
}

/* What it uses, or has in the cache. */
static u32 nr_charged(u32 tenant)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };

	must(!kvmm_tenant_get_stat(m.pool, tenant ? tenant : KVMM_TENANT_REST, &stat));
	return stat.usage;
}

struct bounds bounds_of(const struct want *want)
{
	u32 keep = m.nr_promised - want->promised;
	struct bounds b = { .sure_quota = UINT32_MAX, .quota = UINT32_MAX,
			    .evictions = stat_of(m.pool).evictions,
			    .nr_inactive = stat_of(m.pool).nr_inactive,
			    .nr_copied = nr_cached_flying() };

	if (!want->promised)
		keep += want->prio == 0 ? m.marks.low : want->prio == 1 ? m.marks.min : 0;
	b.most = minus(m.nr_usable - nr_held(NR_TENANTS), keep + want->reserve);
	b.sure = minus(b.most, nr_flying() + nr_cached_flying() + nr_protected(want->tenant) +
		       nr_leaving());
	if (want->flags & KVMM_ALLOC_NO_EVICT) {
		b.most = minus(b.most, stat_of(m.pool).nr_inactive);
		b.sure = minus(b.most, nr_flying() + nr_leaving());
	}
	if (m.has_quotas && want->flags & KVMM_ALLOC_NO_EVICT)
		b.sure = 0;
	if (m.has_quotas) {
		b.quota = minus(m.limit[want->tenant].max, nr_held(want->tenant));
		b.sure_quota = minus(b.quota, want->flags & KVMM_ALLOC_NO_EVICT ?
				     nr_charged(want->tenant) - nr_held(want->tenant) : nr_cached_flying());
	}
	return b;
}

/* What a request for room may answer. */
void expect_answer(const struct want *want, const struct bounds *b, int err)
{
	if (!err) {
		must(want->nr <= b->most, "%u of %u", want->nr, b->most);
		must(want->nr <= b->quota, "%u of %u", want->nr, b->quota);
		m.nr_done++;
		return;
	}
	m.nr_failed++;
	must(stat_of(m.pool).evictions == b->evictions, "%d, and %lu were evicted", err,
	     (unsigned long)(stat_of(m.pool).evictions - b->evictions));
	/* A copy that has ended takes blocks with it that were to go with their last reference. */
	must(stat_of(m.pool).nr_inactive + b->nr_copied >= b->nr_inactive &&
	     stat_of(m.pool).nr_inactive <= b->nr_inactive, "%d, and %u are cached, not %u", err,
	     stat_of(m.pool).nr_inactive, b->nr_inactive);
	if (err == -EAGAIN && want->flags & KVMM_ALLOC_NOWAIT)
		return;
	if (err == -EDQUOT) {
		must(want->nr > b->sure_quota, "-EDQUOT: %u of %u", want->nr, b->sure_quota);
		return;
	}
	must(err == -ENOSPC, "%d", err);
	must(!want->is_exact || want->nr > b->sure,
	     "-ENOSPC: %u of %u, flags %x, priority %u, promised %u, reserve %u", want->nr, b->sure,
	     want->flags, want->prio, want->promised, want->reserve);
}

/* ---- cached blocks that are held ---- */

void ref_get(kvmm_ref_t ref, u64 word, u32 tenant)
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

void ref_put(kvmm_ref_t ref)
{
	must(m.active[ref.index].refs > 0 && m.active[ref.index].gen == ref.gen);
	m.active[ref.index].refs--;
}

void add_ref(kvmm_ref_t ref, u64 word, u32 tenant)
{
	ref_get(ref, word, tenant);
	if (m.nr_refs == 4 * MAX_BLOCKS) {
		must(!kvmm_put(m.pool, ref));
		ref_put(ref);
		return;
	}
	m.ref[m.nr_refs++] = (struct held_ref){ .ref = ref };
	m.weak[mix_any(32)] = kvmm_weak_of(ref);
}

void keep_muts(const kvmm_mut_t *mut, u32 nr, u32 tenant, u32 flags)
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

void forget_range(struct held_range *held)
{
	m.stale[mix_any(NR_STALE)] = held->range;
	*held = m.range[--m.nr_ranges];
}

/* ---- what a call asks for ---- */

/* Prompts of one tenant that begin alike. */
u32 some_keys(u32 *number, kvmm_key_t *key)
{
	u32 nr = 1 + mix_any(BATCH), first = mix_any(NR_KEYS / BATCH) * BATCH;

	for (u32 i = 0; i < nr; i++) {
		number[i] = first + i;
		key[i] = key_of(first + i);
	}
	return nr;
}

u32 some_flags(void)
{
	static const u32 place[] = { 0, 0, KVMM_ALLOC_PINNED, KVMM_ALLOC_TOPDOWN, KVMM_ALLOC_MOVABLE };
	static const u32 rest[] = { KVMM_ALLOC_NO_COMPACT, KVMM_ALLOC_NO_EVICT, KVMM_ALLOC_NOWAIT,
				    KVMM_ALLOC_CONTIG, KVMM_ALLOC_ZERO };
	u32 flags = place[mix_any(5)];

	for (u32 i = 0; i < 5; i++)
		flags |= mix_any(5) ? 0 : rest[i];
	return flags & KVMM_ALLOC_NOWAIT ? flags & ~KVMM_ALLOC_ZERO : flags;
}

u32 promised_to(kvmm_promise_t *promise, u32 nr)
{
	if (!m.promise.gen || nr > m.nr_promised || mix_any(2))
		return 0;
	*promise = m.promise;
	return nr;
}

void was_promised(u32 nr)
{
	m.nr_promised -= nr;
}
