// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls on several sequences against a model that knows lists of tokens and no blocks.
 *
 * The model says what each call returns, how long each table is, how much of it is computed and
 * published, and what it is called: keys are computed anew, from all tokens, each time. It also plays
 * the device: the K/V of a token is a hash of all tokens up to it, written to the block that the
 * table names, by each step, drafts included. What is computed must be found there ever after, in
 * whichever block: so a draft that was published, a block that is shared but still written to, or a
 * hit on a wrong block are all seen. Sequences fork, and go on as others: which private block is
 * held by which of them is known by a number that the model gave it. With a tier below, sequences
 * wait for loads and for blocks as long as it takes: what they have by then must be right, too.
 * KVMM_SEED and KVMM_MODEL_OPS choose the run.
 */
#include <kv/tier.h>

#include "request_util.h"
#include "seq/internal.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_SEQS		6u
#define MAX_TOKENS	96u
#define MAX_DRAFTS	9u
#define MAX_TABLE	(MAX_TOKENS / BLOCK_TOKENS + 4)
#define MAX_BLOCKS	4096u
#define SLOT_BYTES	(TEST_BLOCK_BYTES / BLOCK_TOKENS)
#define NR_SEEN		65536u

struct plain {
	struct kvmm_seq *seq;
	u32 token[MAX_TOKENS + MAX_DRAFTS];	/* drafts behind nr */
	u32 nr;
	u32 nr_prompt;
	u32 max_output;
	u32 computed;
	u32 hits;
	u32 blocks;
	u32 root;
	bool prefilled;

	enum kvmm_seq_state state;
	u32 scheduled;
	u32 blocks_before;
	bool drafts_told;

	u32 part;		/* number of the private block that holds tokens; 0: none */
	u32 copied;		/* of the one that the step has copied; 0: none */
};

static struct model {
	struct kvmm_pool *pool;
	struct kvmm_key_ctx *ctx;
	struct plain plain[NR_SEQS];
	u64 seen[NR_SEEN];		/* hashes of all prefixes that were ever published */
	bool holds_elders;		/* duplicates reference blocks that are in no table */
	struct kvmm_tier *tier;		/* NULL: none, and no sequence waits for blocks */
	u64 nr_taking;
	u32 nr_parts;		/* numbers given out */
	u64 nr_copies;
	u64 nr_refused[KVMM_NR_SEQ_ERRORS];
} m;

static u32 full(u32 tokens)
{
	return tokens / BLOCK_TOKENS;
}

static u32 begun(u32 tokens)
{
	return (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
}

static u32 left(const struct plain *p)
{
	return p->nr_prompt + p->max_output - p->nr;
}

/* ---- private blocks that hold tokens ---- */

static bool is_partial(const struct plain *p)
{
	return p->computed % BLOCK_TOKENS;
}

static u32 nr_holders(u32 part)
{
	u32 nr = 0;

	for (u32 s = 0; s < NR_SEQS; s++)
		nr += (m.plain[s].part == part) + (m.plain[s].copied == part);
	return nr;
}

/* The next step writes to a block that others hold. */
static bool copies(const struct plain *p)
{
	return is_partial(p) && nr_holders(p->part) > 1;
}

/* ->computed was @before: is it still the same block? */
static void note_part(struct plain *p, u32 before)
{
	p->copied = 0;
	if (!is_partial(p))
		p->part = 0;
	else if (!p->part || full(before) != full(p->computed))
		p->part = ++m.nr_parts;
}

/* ---- the device ---- */

/* Of tokens 0 to @i. */
static u64 kv_of(const u32 *token, u32 i)
{
	u64 hash = 0x9e3779b97f4a7c15ull;

	for (u32 t = 0; t <= i; t++)
		hash = (hash ^ token[t]) * 0xff51afd7ed558ccdull + (hash >> 29);
	return hash;
}

static u32 table_of(const struct plain *p, u32 *ids)
{
	int nr = kvmm_seq_block_table(p->seq, ids, MAX_TABLE);

	cr_assert(nr >= 0 && nr <= MAX_TABLE, "table: %d", nr);
	return nr;
}

static void run_step(const struct plain *p)
{
	u32 ids[MAX_TABLE], nr = table_of(p, ids);

	for (u32 i = p->computed; i < p->computed + p->scheduled; i++) {
		u64 kv = kv_of(p->token, i);

		cr_assert_lt(i / BLOCK_TOKENS, nr, "no block for token %u", i);
		cr_assert_eq(kvmm_block_write(m.pool, ids[i / BLOCK_TOKENS],
					      i % BLOCK_TOKENS * SLOT_BYTES, &kv, sizeof(kv)), 0);
	}
}

static void expect_content(const struct plain *p, const u32 *ids)
{
	for (u32 i = 0; i < p->computed; i++) {
		u64 kv;

		cr_assert_eq(kvmm_block_read(m.pool, ids[i / BLOCK_TOKENS],
					     i % BLOCK_TOKENS * SLOT_BYTES, &kv, sizeof(kv)), 0);
		cr_assert_eq(kv, kv_of(p->token, i), "token %u of %u has other K/V", i, p->nr);
	}
}

/* ---- what was published ---- */

static u64 *seen_slot(u64 hash)
{
	u32 i = hash % NR_SEEN;

	while (m.seen[i] && m.seen[i] != hash)
		i = (i + 1) % NR_SEEN;
	return &m.seen[i];
}

static void note_published(const struct plain *p)
{
	for (u32 b = p->hits; b < full(p->computed); b++) {
		u64 hash = kv_of(p->token, (b + 1) * BLOCK_TOKENS - 1);

		*seen_slot(hash) = hash;
	}
}

static u32 nr_seen(const struct plain *p, u32 max)
{
	u32 b;

	for (b = 0; b < max; b++)
		if (!*seen_slot(kv_of(p->token, (b + 1) * BLOCK_TOKENS - 1)))
			break;
	return b;
}

/* ---- comparing ---- */

static void compare_info(const struct plain *p)
{
	struct kvmm_seq_info info = info_of(p->seq);
	u32 tokens[MAX_TOKENS];

	cr_assert_eq(info.state, p->state);
	cr_assert_eq(info.nr_tokens, p->nr);
	cr_assert_eq(info.nr_prompt, p->nr_prompt);
	cr_assert_eq(info.nr_computed, p->computed);
	cr_assert_eq(info.nr_remaining, left(p));
	cr_assert_eq(info.nr_waiting, p->prefilled ? 0 : p->nr - p->computed);
	cr_assert_eq(info.nr_scheduled, p->scheduled);
	cr_assert_eq(info.nr_blocks, p->blocks, "%u blocks, not %u", info.nr_blocks, p->blocks);
	cr_assert_eq(info.nr_published, full(p->computed));
	cr_assert_eq(info.nr_hits, p->hits);
	cr_assert_eq(kvmm_seq_tokens(p->seq, 0, tokens, MAX_TOKENS), p->nr);
	cr_assert_arr_eq(tokens, p->token, p->nr * sizeof(u32));
}

static void compare_keys(const struct plain *p)
{
	struct kvmm_key_seq what = { .size = sizeof(what), .tokens = p->token,
				     .nr_tokens = p->computed };
	kvmm_key_t want[MAX_TABLE], got[MAX_TABLE];
	u32 nr = full(p->computed);

	cr_assert_eq(kvmm_key_chain(m.ctx, &what, want, MAX_TABLE), nr);
	cr_assert_eq(kvmm_seq_refs(p->seq, NULL, got, MAX_TABLE), nr);
	cr_assert_arr_eq(got, want, nr * sizeof(*want));
}

/* Blocks that are in no table any more, but copied by steps that may be given up. */
static u32 nr_copied(void)
{
	u32 nr = 0;

	for (u32 s = 0; s < NR_SEQS; s++) {
		u32 copied = m.plain[s].copied, before = 0;

		for (u32 t = 0; t < NR_SEQS; t++)
			before += m.plain[t].part == copied ||
				  (t < s && m.plain[t].copied == copied);
		nr += copied && !before;
	}
	return nr;
}

/* Every block of every table: its state, its content, and who else has it. */
static void compare_blocks(void)
{
	static u8 use[MAX_BLOCKS];	/* 1: private, 2: published */
	static u32 part_of[MAX_BLOCKS];
	struct kvmm_pool_stat stat = stat_of(m.pool);
	u32 nr_private = nr_copied(), nr_active = 0;

	memset(use, 0, sizeof(use));
	memset(part_of, 0, sizeof(part_of));
	for (u32 s = 0; s < NR_SEQS; s++) {
		const struct plain *p = &m.plain[s];
		u32 ids[MAX_TABLE], nr = table_of(p, ids);

		expect_content(p, ids);
		for (u32 b = 0; b < nr; b++) {
			bool published = b < full(p->computed);
			u32 part = b == full(p->computed) && is_partial(p) ? p->part : 0;

			cr_assert_lt(ids[b], MAX_BLOCKS);
			cr_assert(!use[ids[b]] || (published && use[ids[b]] == 2) ||
				  (part && part_of[ids[b]] == part),
				  "block %u is in two tables", ids[b]);
			nr_private += !published && !use[ids[b]];
			part_of[ids[b]] = part;
			nr_active += published && !use[ids[b]];
			use[ids[b]] = published ? 2 : 1;
		}
	}
	cr_assert_geq(stat.nr_state[KVMM_BLOCK_PRIVATE], nr_private);
	cr_assert_geq(stat.nr_state[KVMM_BLOCK_ACTIVE], nr_active);
	if (!m.tier)	/* else copies hold blocks, too */
		cr_assert_eq(stat.nr_state[KVMM_BLOCK_PRIVATE], nr_private);
	if (!m.holds_elders && !m.tier)
		cr_assert_eq(stat.nr_state[KVMM_BLOCK_ACTIVE], nr_active);
}

/* ---- tokens ---- */

/* Sequences of one root go the same way, most of the time. */
static u32 next_token(const struct plain *p, u32 i)
{
	return any(24) ? (p->root * 7 + i * i) % 5 : any(5);
}

static void new_seq(struct plain *p)
{
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;

	memset(p, 0, sizeof(*p));
	p->root = any(3);
	p->nr = p->nr_prompt = 1 + any(MAX_TOKENS / 2);
	p->max_output = any(MAX_TOKENS / 2);
	for (u32 i = 0; i < p->nr; i++)
		p->token[i] = next_token(p, i);
	attr.keys = m.ctx;
	attr.prompt = p->token;
	attr.nr_prompt = p->nr;
	attr.max_output = p->max_output;
	attr.wait_ns = m.tier ? UINT64_MAX : 0;
	cr_assert_eq(kvmm_seq_create(m.pool, &attr, &p->seq), 0);
}

/* ---- calls ---- */

/* True if the call went as the model says and was not refused. */
static bool went_well(struct plain *p, int got, enum kvmm_seq_error want)
{
	if (want) {
		cr_assert_eq(got, kv_seq_errno(want), "%d instead of %u", got, want);
		cr_assert_eq(info_of(p->seq).why, want);
		m.nr_refused[want]++;
		return false;
	}
	/* One that waits for blocks is before all that come later. */
	if (m.tier && got == -ENOSPC)
		return false;
	cr_assert_geq(got, 0, "%d (%s)", got, kvmm_strerror(got));
	return true;
}

/* So many positions: blocks that are missing, and whether the pool has them. */
static enum kvmm_seq_error fits(const struct plain *p, u32 nr, u32 *missing)
{
	u32 want = begun(p->computed + nr);

	*missing = (want > p->blocks ? want - p->blocks : 0) + copies(p);
	return *missing > stat_of(m.pool).nr_available ? KVMM_SEQ_NO_BLOCKS : KVMM_SEQ_OK;
}

static void note_schedule(struct plain *p, enum kvmm_seq_state state, u32 nr, u32 missing)
{
	p->state = state;
	p->scheduled = nr;
	p->blocks_before = p->blocks;
	p->blocks += missing - copies(p);
	if (!copies(p))
		return;
	m.nr_copies++;
	p->copied = p->part;
	p->part = ++m.nr_parts;
}

static void op_prefill(struct plain *p)
{
	u32 waiting = p->nr - p->computed, missing = 0, nr = 1 + any(waiting + 1);
	enum kvmm_seq_error want = KVMM_SEQ_OK;

	if (any(2))
		nr = waiting ? waiting : 1;
	if (p->state)
		want = KVMM_SEQ_NOT_IDLE;
	else if (p->prefilled)
		want = KVMM_SEQ_PREFILL_COMPLETE;
	else if (nr > waiting)
		want = KVMM_SEQ_PREFILL_OVERRUN;
	else
		want = fits(p, nr, &missing);
	if (!went_well(p, kvmm_seq_schedule_prefill(p->seq, nr), want)) {
		if (want == KVMM_SEQ_NO_BLOCKS)
			cr_assert_eq(info_of(p->seq).nr_missing, missing);
		return;
	}
	note_schedule(p, KVMM_SEQ_PREFILL_SCHEDULED, nr, missing);
}

static enum kvmm_seq_error may_decode(const struct plain *p)
{
	if (p->state)
		return KVMM_SEQ_NOT_IDLE;
	if (!p->prefilled)
		return KVMM_SEQ_PREFILL_INCOMPLETE;
	return left(p) ? KVMM_SEQ_OK : KVMM_SEQ_COMPLETE;
}

static void op_decode(struct plain *p)
{
	enum kvmm_seq_error want = may_decode(p);
	u32 missing = 0;

	if (!want)
		want = fits(p, 1, &missing);
	if (went_well(p, kvmm_seq_schedule_decode(p->seq), want))
		note_schedule(p, KVMM_SEQ_DECODE_SCHEDULED, 1, missing);
}

static void op_speculate(struct plain *p)
{
	enum kvmm_seq_error want = may_decode(p);
	u32 draft[MAX_DRAFTS], nr = any(MAX_DRAFTS), missing = 0;
	bool tell = any(3);
	int got;

	for (u32 i = 0; i < MAX_DRAFTS; i++)
		draft[i] = next_token(p, p->nr + i);
	if (!want) {
		nr = min(nr, left(p) - 1);
		want = fits(p, nr + 1, &missing);
	}
	got = kvmm_seq_schedule_speculative(p->seq, tell ? draft : NULL, nr);
	if (!went_well(p, got, want))
		return;
	cr_assert_eq(got, nr);
	memcpy(p->token + p->nr, draft, nr * sizeof(*draft));
	p->drafts_told = tell;
	note_schedule(p, KVMM_SEQ_SPECULATIVE_SCHEDULED, nr + 1, missing);
}

static void note_end(struct plain *p)
{
	p->state = KVMM_SEQ_IDLE;
	p->scheduled = 0;
	p->drafts_told = false;
}

/* @nr tokens came out: drafts that stand there already, and @last. */
static void note_apply(struct plain *p, u32 nr, u32 last)
{
	bool is_chunk = p->state == KVMM_SEQ_PREFILL_SCHEDULED;
	u32 before = p->computed;

	p->computed += is_chunk ? p->scheduled : nr;
	p->prefilled = !is_chunk || p->computed == p->nr;
	if (nr)
		p->token[p->nr + nr - 1] = last;
	p->nr += nr;
	p->blocks = min(p->blocks, begun(p->nr));
	note_end(p);
	note_part(p, before);
	note_published(p);
}

static enum kvmm_seq_error may_apply(const struct plain *p, u32 nr, bool is_other)
{
	bool last = p->computed + p->scheduled == p->nr;

	switch (p->state) {
	case KVMM_SEQ_IDLE:
	case KVMM_SEQ_TAKING:
		return KVMM_SEQ_NOT_SCHEDULED;
	case KVMM_SEQ_PREFILL_SCHEDULED:
		if (nr && !last)
			return KVMM_SEQ_EARLY_TOKEN;
		if (nr && !left(p))
			return KVMM_SEQ_COMPLETE;
		if (!nr && last && left(p))
			return KVMM_SEQ_MISSING_TOKEN;
		return nr > 1 ? KVMM_SEQ_TOO_MANY_TOKENS : KVMM_SEQ_OK;
	default:
		if (!nr)
			return KVMM_SEQ_MISSING_TOKEN;
		if (nr > p->scheduled)
			return KVMM_SEQ_TOO_MANY_TOKENS;
		return is_other && nr > 1 && p->drafts_told ? KVMM_SEQ_OTHER_DRAFT : KVMM_SEQ_OK;
	}
}

/* Mostly as many tokens as there should be. */
static u32 nr_to_apply(const struct plain *p)
{
	if (!any(8))
		return any(MAX_DRAFTS + 1);
	if (p->state == KVMM_SEQ_PREFILL_SCHEDULED)
		return p->computed + p->scheduled == p->nr && left(p);
	return 1 + any(max(p->scheduled, 1));
}

static void op_apply(struct plain *p)
{
	u32 tokens[MAX_DRAFTS + 1], nr = nr_to_apply(p);
	bool is_other = nr > 1 && p->drafts_told && !any(6);
	enum kvmm_seq_error want = may_apply(p, nr, is_other);
	u32 published = full(p->computed);
	int got;

	run_step(p);
	memcpy(tokens, p->token + p->nr, MAX_DRAFTS * sizeof(*tokens));
	if (nr)
		tokens[nr - 1] = next_token(p, p->nr + nr - 1);
	if (is_other)
		tokens[any(nr - 1)] += 10;
	got = kvmm_seq_apply(p->seq, tokens, nr);
	if (!went_well(p, got, want))
		return;
	note_apply(p, nr, nr ? tokens[nr - 1] : 0);
	cr_assert_eq(got, full(p->computed) - published);
}

static void op_accept(struct plain *p)
{
	enum kvmm_seq_error want = KVMM_SEQ_OK;
	u32 nr = any(3) && p->scheduled ? any(p->scheduled) : any(MAX_DRAFTS);
	u32 token = next_token(p, p->nr + nr);

	if (!p->scheduled || (nr && p->state == KVMM_SEQ_PREFILL_SCHEDULED))
		want = KVMM_SEQ_NOT_SCHEDULED;
	else if (p->state == KVMM_SEQ_PREFILL_SCHEDULED)
		want = may_apply(p, 1, false);
	else if (nr >= p->scheduled)
		want = KVMM_SEQ_TOO_MANY_TOKENS;
	else if (nr && !p->drafts_told)
		want = KVMM_SEQ_NO_DRAFT;
	run_step(p);
	if (went_well(p, kvmm_seq_accept(p->seq, nr, token), want))
		note_apply(p, nr + 1, token);
}

static void op_revert(struct plain *p)
{
	if (any(3))	/* a step that went wrong half-way */
		run_step(p);
	if (!went_well(p, kvmm_seq_revert(p->seq),
		       p->scheduled ? KVMM_SEQ_OK : KVMM_SEQ_NOT_SCHEDULED))
		return;
	p->blocks = p->blocks_before;
	p->part = p->copied ? p->copied : p->part;
	p->copied = 0;
	note_end(p);
}

static enum kvmm_seq_error may_match(const struct plain *p)
{
	if (p->state == KVMM_SEQ_TAKING)
		return KVMM_SEQ_OK;
	if (p->state)
		return KVMM_SEQ_NOT_IDLE;
	return p->blocks ? KVMM_SEQ_HOLDS_BLOCKS : KVMM_SEQ_OK;
}

/* All that was published is found, as long as nothing was evicted. */
static void note_hits(struct plain *p, u32 got)
{
	u32 most = nr_seen(p, full(p->nr - 1));

	cr_assert_leq(got, most);
	if (!stat_of(m.pool).evictions && !m.tier)
		cr_assert_eq(got, most);
	p->hits = p->blocks = got;
	p->computed = got * BLOCK_TOKENS;
	note_end(p);
}

/* Blocks are on their way; those that it has are known prefixes, and more than before, or none. */
static bool is_taking(struct plain *p, int got)
{
	u32 blocks = p->blocks;

	if (got != -EINPROGRESS)
		return false;
	cr_assert(m.tier && (p->state == KVMM_SEQ_TAKING || !p->blocks));
	note_hits(p, info_of(p->seq).nr_blocks);
	cr_assert(!p->blocks || p->blocks >= blocks);
	p->state = KVMM_SEQ_TAKING;
	m.nr_taking++;
	return true;
}

static void op_match(struct plain *p)
{
	int got = kvmm_seq_match(p->seq);

	if (!is_taking(p, got) && went_well(p, got, may_match(p)))
		note_hits(p, got);
}

static void op_acquire(struct plain *p)
{
	u32 available = stat_of(m.pool).nr_available;
	enum kvmm_seq_error want = may_match(p);
	int got = kvmm_seq_acquire(p->seq);

	if (is_taking(p, got))
		return;
	/* Hits that nobody referenced count, too: the pool knows how many. */
	if (!want && got == -ENOSPC) {
		cr_assert(!m.tier);
		cr_assert_gt(begun(p->nr), available);
		m.nr_refused[KVMM_SEQ_NO_BLOCKS]++;
		return;
	}
	if (!went_well(p, got, want))
		return;
	note_hits(p, got);
	p->blocks = begun(p->nr);
	if (!m.tier)	/* else copies have ended meanwhile */
		cr_assert_leq(p->blocks - p->hits, available);
}

static void op_release(struct plain *p)
{
	if (!went_well(p, kvmm_seq_release(p->seq), p->scheduled ? KVMM_SEQ_NOT_IDLE : KVMM_SEQ_OK))
		return;
	note_end(p);
	p->blocks = p->computed = p->hits = p->part = 0;
	p->prefilled = false;
}

static void op_append(struct plain *p)
{
	enum kvmm_seq_error want = KVMM_SEQ_OK;
	u32 nr = any(7), tokens[8] = { 0 };

	for (u32 i = 0; i < nr; i++)
		tokens[i] = next_token(p, p->nr + i);
	if (p->state)
		want = KVMM_SEQ_NOT_IDLE;
	else if (nr > left(p))
		want = KVMM_SEQ_COMPLETE;
	if (!went_well(p, kvmm_seq_append(p->seq, tokens, nr), want) || !nr)
		return;
	memcpy(p->token + p->nr, tokens, nr * sizeof(*tokens));
	p->nr += nr;
	p->prefilled = false;
}

static void op_truncate(struct plain *p)
{
	u32 nr = p->nr - any(any(2) ? min(p->nr, 6u) : p->nr), keep = min(p->computed, nr - 1);

	if (!went_well(p, kvmm_seq_truncate(p->seq, nr), p->state ? KVMM_SEQ_NOT_IDLE : KVMM_SEQ_OK))
		return;
	if (nr == p->nr) {
		p->blocks = begun(p->computed);
		return;
	}
	if (full(keep) < full(p->computed))
		keep = full(keep) * BLOCK_TOKENS;
	p->part = keep % BLOCK_TOKENS ? p->part : 0;
	p->nr = nr;
	p->nr_prompt = min(p->nr_prompt, nr);
	p->computed = keep;
	p->blocks = begun(keep);
	p->hits = min(p->hits, full(keep));
	p->prefilled = false;
}

static void op_restart(struct plain *p)
{
	if (any(3))
		return;
	kvmm_seq_destroy(p->seq);
	new_seq(p);
}

static struct plain *any_other(const struct plain *p)
{
	return &m.plain[(p - m.plain + 1 + any(NR_SEQS - 1)) % NR_SEQS];
}

/* In the place of another one. */
static void op_fork(struct plain *p)
{
	struct plain *other = any_other(p);
	struct kvmm_seq *child;

	if (!went_well(p, kvmm_seq_fork(p->seq, 1, &child),
		       p->state ? KVMM_SEQ_NOT_IDLE : KVMM_SEQ_OK))
		return;
	kvmm_seq_destroy(other->seq);
	*other = *p;
	other->seq = child;
	other->blocks = begun(p->computed);
}

static void op_adopt(struct plain *p)
{
	struct plain *other = any_other(p);
	struct kvmm_seq *seq = p->seq;

	if (!went_well(p, kvmm_seq_adopt(seq, other->seq),
		       p->state || other->state ? KVMM_SEQ_NOT_IDLE : KVMM_SEQ_OK))
		return;
	*p = *other;
	p->seq = seq;
	new_seq(other);
}

/* Blocks move between steps. */
static void op_compact(struct plain *p)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	int err = kvmm_pool_compact(m.pool, &goal);

	cr_assert(!err || err == -ENOSPC, "%d", err);
}

typedef void (*op_fn)(struct plain *p);

/* No room: somebody has to go, most of the time. */
static void preempt(void)
{
	struct plain *p = &m.plain[any(NR_SEQS)];

	if (any(3))
		op_release(p);
}

/* One call in six is any call at all; the others are what an engine would do. */
static op_fn any_op(const struct plain *p)
{
	static const op_fn ops[] = {
		op_prefill, op_decode, op_speculate, op_apply, op_accept, op_revert, op_match,
		op_acquire, op_release, op_append, op_truncate, op_restart, op_compact,
		op_fork, op_adopt,
	};
	static const op_fn fresh[] = { op_prefill, op_match, op_acquire };
	static const op_fn running[] = { op_decode, op_speculate, op_speculate, op_fork };
	static const op_fn scheduled[] = { op_apply, op_apply, op_accept, op_revert };
	static const op_fn taking[] = { op_acquire, op_acquire, op_match, op_release };

	if (!any(100))
		return op_compact;
	if (!any(6))
		return ops[any(ARRAY_SIZE(ops))];
	if (p->state == KVMM_SEQ_TAKING)
		return taking[any(ARRAY_SIZE(taking))];
	if (p->state)
		return scheduled[any(ARRAY_SIZE(scheduled))];
	if (!p->prefilled)
		return p->blocks ? op_prefill : fresh[any(ARRAY_SIZE(fresh))];
	return left(p) ? running[any(ARRAY_SIZE(running))] : op_restart;
}

static struct kvmm_pool *make_dup_pool(u32 nr_blocks, enum kvmm_dup dup)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = "lru", .block_tokens = BLOCK_TOKENS,
				       .block_bytes = TEST_BLOCK_BYTES, .dup_policy = dup };

	return make_pool_of(&attr);
}

/* Host memory below the pool, for some of what was ever published; all of it goes down. */
static void make_tier(void)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;
	struct kvmm_tier_attr attr = KVMM_TIER_ATTR_INIT;

	attr.capacity_blocks = 200;
	attr.block_bytes = TEST_BLOCK_BYTES;
	cr_assert_eq(kvmm_tier_host_create(&attr, &m.tier), 0);
	config.write = KVMM_TIER_THROUGH;
	client.config = &config;
	client.max_up = 5;
	cr_assert_eq(kvmm_tier_attach(m.pool, m.tier, &client), 0);
}

static void end_tier(void)
{
	struct kvmm_tier_client_stat stat;

	while (kvmm_tier_poll(m.pool))
		;
	cr_assert_eq(kvmm_tier_client_get_stat(m.pool, &stat, sizeof(stat)), 0);
	cr_expect_eq(stat.nr_ops, 0);
	cr_expect_gt(stat.loads, 0);
	cr_expect_gt(m.nr_taking, stat.loads / 8);
	cr_assert_eq(kvmm_tier_detach(m.pool), 0);
	cr_expect_eq(kv_tier_check(m.tier), 0);
	kvmm_tier_destroy(m.tier);
}

static void run_model(u32 nr_blocks, enum kvmm_dup dup, u64 seed, u64 nr_ops, bool has_tier)
{
	memset(&m, 0, sizeof(m));
	any_state = seed * 0x9e3779b97f4a7c15ull + 1;
	m.pool = make_dup_pool(nr_blocks, dup);
	m.holds_elders = dup == KVMM_DUP_HOLD;
	m.ctx = make_ctx(NULL);
	if (has_tier)
		make_tier();
	for (u32 i = 0; i < NR_SEQS; i++)
		new_seq(&m.plain[i]);
	for (u64 i = 0; i < nr_ops; i++) {
		struct plain *p = &m.plain[any(NR_SEQS)];

		any_op(p)(p);
		if (m.tier)
			cr_assert_geq(kvmm_tier_poll(m.pool), 0);
		if (info_of(p->seq).why == KVMM_SEQ_NO_BLOCKS)
			preempt();
		for (u32 s = 0; s < NR_SEQS; s++) {
			compare_info(&m.plain[s]);
			compare_keys(&m.plain[s]);
		}
		compare_blocks();
		cr_assert_eq(kvmm_validate(m.pool), 0);
	}
	for (u32 i = 0; i < NR_SEQS; i++)
		kvmm_seq_destroy(m.plain[i].seq);
	if (m.tier)
		end_tier();
	cr_expect(pool_is_idle(m.pool));
	cr_expect(m.nr_copies > nr_ops / 100);
	for (u32 i = 1; i < KVMM_NR_SEQ_ERRORS; i++)
		cr_expect(m.nr_refused[i] || nr_ops < 5000 ||
			  i == KVMM_SEQ_NO_QUOTA ||
			  (i == KVMM_SEQ_NO_BLOCKS && nr_blocks == MAX_BLOCKS),
			  "never refused: %u", i);
	kvmm_key_ctx_destroy(m.ctx);
}

Test(request_model, random_calls_agree_with_a_model)
{
	u64 seed = test_number("KVMM_SEED", 1);
	u64 nr_ops = test_length("KVMM_MODEL_OPS", 40000);

	cr_log_info("KVMM_SEED=%llu KVMM_MODEL_OPS=%llu", (unsigned long long)seed,
		    (unsigned long long)nr_ops);
	run_model(36, KVMM_DUP_ALLOW, seed, nr_ops, false);		/* always short of blocks */
	cr_expect_gt(stat_of(m.pool).evictions, 0);
	cr_expect_gt(stat_of(m.pool).hit_blocks, 0);
	cr_expect_gt(stat_of(m.pool).moved_blocks, 0);
	end_pool(m.pool);
	run_model(MAX_BLOCKS, KVMM_DUP_ALLOW, seed + 1, nr_ops / 8, false);	/* never */
	cr_expect_gt(stat_of(m.pool).hit_blocks, 0);
	end_pool(m.pool);
	for (u32 dup = KVMM_DUP_HOLD; dup < KVMM_NR_DUPS; dup++) {
		run_model(36, dup, seed + dup, nr_ops / 4, false);
		cr_expect_gt(stat_of(m.pool).duplicates, 0);
		end_pool(m.pool);
		run_model(36, dup, seed + dup, nr_ops / 4, true);
		end_pool(m.pool);
	}
}
