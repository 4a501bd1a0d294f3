// SPDX-License-Identifier: Apache-2.0
/*
 * Forks at random on the software driver: sequences, and what each of their tokens has to have left in
 * memory. The engine writes, for each position that a step computes, bytes that depend on all tokens up
 * to there; after each call every sequence finds them at every computed position, whichever blocks it
 * shares. In the second test calls of the driver fail at a rate while steps are scheduled: a step is
 * there, or its sequence has what it had before. KVMM_SEED and KVMM_MODEL_OPS choose the run.
 */
#include "tests/pool/request_util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/swcuda/calls.h"

#define NR_BLOCKS	40u
#define PLACE_BYTES	16u	/* of a token */
#define BYTES		(BLOCK_TOKENS * PLACE_BYTES)
#define NR_SEQS		8u
#define NR_PROMPT	14u
#define MAX_OUTPUT	18u
#define MAX_TOKENS	(NR_PROMPT + MAX_OUTPUT)
#define MAX_TABLE	(MAX_TOKENS / BLOCK_TOKENS + 2)
#define NR_OPS		60000u

struct track {
	struct kvmm_seq *seq;		/* NULL: none */
	u32 token[MAX_TOKENS];		/* drafts of the step behind the verified ones */
	u32 nr_drafts;
};

static struct model {
	struct kvmm_pool *pool;
	struct kvmm_key_ctx *ctx;
	struct kvmm_plane plane;
	kvmm_stream_t id;
	kcu_stream stream;
	u32 fail_pm;
	struct track track[NR_SEQS];
	u32 nr_forks, nr_copies, nr_failed;
} m;

/* ---- the engine ---- */

static u8 byte_of(const struct track *track, u32 position)
{
	u64 hash = 1;

	for (u32 i = 0; i <= position; i++)
		hash = (hash ^ (track->token[i] + 1)) * 0x9e3779b97f4a7c15ull;
	return hash >> 56;
}

static u64 place_of(const u32 *table, u32 position)
{
	return m.plane.base + table[position / BLOCK_TOKENS] * BYTES +
	       position % BLOCK_TOKENS * PLACE_BYTES;
}

static u32 table_of(const struct track *track, u32 *table)
{
	int nr = kvmm_seq_block_table(track->seq, table, MAX_TABLE);

	cr_assert(nr >= 0 && nr <= (int)MAX_TABLE, "%d", nr);
	return nr;
}

/* The scheduled step's work, on its way. */
static void compute(struct track *track)
{
	struct kvmm_seq_info info = info_of(track->seq);
	u32 table[MAX_TABLE];

	table_of(track, table);
	for (u32 i = 0; i < info.nr_scheduled; i++)
		fill(place_of(table, info.nr_computed + i), byte_of(track, info.nr_computed + i),
		     PLACE_BYTES, m.stream);
}

static void expect_content(const struct track *track, u32 op)
{
	struct kvmm_seq_info info = info_of(track->seq);
	u32 table[MAX_TABLE], token[MAX_TOKENS];

	cr_assert_leq(info.nr_computed, table_of(track, table) * BLOCK_TOKENS);
	cr_assert_eq(kvmm_seq_tokens(track->seq, 0, token, MAX_TOKENS), (int)info.nr_tokens);
	cr_assert_arr_eq(token, track->token, info.nr_tokens * sizeof(*token));
	for (u32 i = 0; i < info.nr_computed; i++)
		cr_assert(all_bytes((void *)(uintptr_t)place_of(table, i), byte_of(track, i),
				    PLACE_BYTES), "call %u: sequence %u, token %u, block %u", op,
			  (u32)(track - m.track), i, table[i / BLOCK_TOKENS]);
}

/* ---- calls ---- */

static u32 any_token(void)
{
	return any(3);
}

static void create(struct track *track)
{
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	u32 which = any(3);

	for (u32 i = 0; i < NR_PROMPT; i++)
		track->token[i] = 10 + which * (i > 5);
	attr.keys = m.ctx;
	attr.prompt = track->token;
	attr.nr_prompt = 3 + any(NR_PROMPT - 2);
	attr.max_output = MAX_OUTPUT;
	cr_assert_eq(kvmm_seq_create(m.pool, &attr, &track->seq), 0);
	if (any(2))
		cr_assert_geq(kvmm_seq_match(track->seq), 0);
}

static void destroy(struct track *track)
{
	kvmm_seq_destroy(track->seq);
	track->seq = NULL;
}

static int try_schedule(struct track *track, const struct kvmm_seq_info *info)
{
	u32 *drafts = track->token + info->nr_tokens;

	track->nr_drafts = 0;
	if (info->nr_waiting)
		return kvmm_seq_schedule_prefill(track->seq, 1 + any(info->nr_waiting));
	if (any(2) || info->nr_remaining < 2)
		return kvmm_seq_schedule_decode(track->seq);
	track->nr_drafts = 1 + any(min(info->nr_remaining - 1, 6u));
	for (u32 i = 0; i < track->nr_drafts; i++)
		drafts[i] = any_token();
	return kvmm_seq_schedule_speculative(track->seq, drafts, track->nr_drafts);
}

static void schedule(struct track *track)
{
	struct kvmm_seq_info before = info_of(track->seq), after;
	u32 old[MAX_TABLE], new[MAX_TABLE], nr = table_of(track, old);
	int ret;

	if (m.fail_pm)
		cr_assert_eq(ctl->fail_rate("*", m.fail_pm, KCU_E_OUT_OF_MEMORY, false), 0);
	ret = try_schedule(track, &before);
	ctl->fail_none();
	after = info_of(track->seq);
	if (ret >= 0) {
		table_of(track, new);
		m.nr_copies += nr && before.nr_computed % BLOCK_TOKENS &&
			       old[before.nr_published] != new[before.nr_published];
		compute(track);
		return;
	}
	cr_assert(ret == -ENOSPC || (m.fail_pm && (ret == -EIO || ret == -ENOMEM)), "%d", ret);
	m.nr_failed += ret != -ENOSPC;
	/* A copy with an end that could not be seen still reads the shared block: it is seen now. */
	ctl->run();
	cr_assert_eq(kvmm_compact_poll(m.pool), 0);
	cr_assert_eq(after.state, KVMM_SEQ_IDLE);
	cr_assert_eq(after.nr_computed, before.nr_computed);
	cr_assert_eq(table_of(track, new), nr);
	cr_assert_arr_eq(old, new, nr * sizeof(*old));
}

/* As many drafts are right as the dice say; or the step was not run. */
static void end_step(struct track *track, const struct kvmm_seq_info *info)
{
	bool is_chunk = info->state == KVMM_SEQ_PREFILL_SCHEDULED;
	u32 nr_right = any(track->nr_drafts + 1), token = any_token();
	u32 nr_new = !is_chunk ||
		     (info->nr_scheduled == info->nr_waiting && info->nr_remaining);

	if (!any(5)) {
		cr_assert_eq(kvmm_seq_revert(track->seq), 0);
		return;
	}
	cr_assert_geq(kvmm_seq_apply_drafts(track->seq, is_chunk ? 0 : nr_right, &token, nr_new), 0);
	if (nr_new)
		track->token[info->nr_tokens + (is_chunk ? 0 : nr_right)] = token;
}

static void fork_some(struct track *track)
{
	struct kvmm_seq *child[NR_SEQS];
	struct track *to[NR_SEQS];
	u32 nr = 0, max = 1 + any(3);

	for (u32 i = 0; i < NR_SEQS && nr < max; i++)
		if (!m.track[i].seq)
			to[nr++] = &m.track[i];
	if (!nr)
		return;
	cr_assert_eq(kvmm_seq_fork(track->seq, nr, child), 0);
	m.nr_forks += nr;
	for (u32 i = 0; i < nr; i++) {
		*to[i] = *track;
		to[i]->seq = child[i];
	}
}

static void adopt(struct track *track)
{
	struct track *other = &m.track[any(NR_SEQS)];
	struct kvmm_seq *seq = track->seq;

	if (!other->seq || other == track || info_of(other->seq).state != KVMM_SEQ_IDLE)
		return;
	cr_assert_eq(kvmm_seq_adopt(seq, other->seq), 0);
	*track = *other;
	track->seq = seq;
	other->seq = NULL;
}

static void call(struct track *track)
{
	struct kvmm_seq_info info = track->seq ? info_of(track->seq) : (struct kvmm_seq_info){ 0 };
	u32 what = any(16);

	if (!track->seq) {
		if (what < 4)
			create(track);
	} else if (what == 0) {
		destroy(track);		/* in any state */
	} else if (info.state != KVMM_SEQ_IDLE) {
		end_step(track, &info);
	} else if (what < 4) {
		fork_some(track);
	} else if (what == 4) {
		adopt(track);
	} else if (what == 5) {
		cr_assert_eq(kvmm_seq_truncate(track->seq, 1 + any(info.nr_tokens)), 0);
	} else if (what == 6 && !any(4)) {
		cr_assert_eq(kvmm_seq_release(track->seq), 0);
	} else if (info.nr_waiting || info.nr_remaining) {
		schedule(track);
	} else {
		destroy(track);
	}
}

/* ---- all of it ---- */

static void begin(u64 seed)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0", .policy = "lru",
				       .nr_blocks = NR_BLOCKS, .block_tokens = BLOCK_TOKENS,
				       .nr_planes = 1, .planes = &m.plane };

	start("");
	ctl->set_seed(seed);
	any_state = 2 * seed + 1;
	m.ctx = make_ctx(NULL);
	m.stream = stream_new();
	m.plane = (struct kvmm_plane){ .base = dev_alloc(NR_BLOCKS * BYTES), .stride = BYTES,
				       .bytes = BYTES };
	m.pool = make_pool_of(&attr);
	cr_assert_eq(kvmm_stream_add(m.pool, m.stream, 0, &m.id), 0);
}

static void end(void)
{
	kvmm_mut_t all[NR_BLOCKS];

	for (u32 i = 0; i < NR_SEQS; i++)
		destroy(&m.track[i]);
	/* Also those that a failed copy may still have written to, now that the device is through. */
	cr_expect_eq(kvmm_alloc(m.pool, NR_BLOCKS, all), 0);
	cr_expect_eq(kvmm_free(m.pool, all, NR_BLOCKS), 0);
	cr_expect_eq(kvmm_validate(m.pool), 0);
	kvmm_pool_destroy(m.pool);
	kvmm_key_ctx_destroy(m.ctx);
	expect_no_races(0, 0);
	ctl->reset("");
}

static void run(u32 fail_pm)
{
	u64 seed = test_number("KVMM_SEED", 20261128);
	u32 nr = test_length("KVMM_MODEL_OPS", NR_OPS);

	m = (struct model){ .fail_pm = fail_pm };
	printf("seed %lu, %u calls\n", (unsigned long)seed, nr);
	begin(seed);
	for (u32 op = 0; op < nr; op++) {
		call(&m.track[any(NR_SEQS)]);
		if (any(4))
			continue;	/* the engine's work is on its way meanwhile */
		ctl->run();
		for (u32 i = 0; i < NR_SEQS; i++)
			if (m.track[i].seq)
				expect_content(&m.track[i], op);
		if (op % 64 == 0)
			cr_assert_eq(kvmm_validate(m.pool), 0);
	}
	printf("%u forks, %u copies, %u steps that failed\n", m.nr_forks, m.nr_copies, m.nr_failed);
	cr_expect_gt(m.nr_forks, nr / 50);
	cr_expect_gt(m.nr_copies, nr / 250);	/* the device's threads have a say in it */
	cr_expect_eq(!m.nr_failed, !fail_pm);
	ctl->run();
	end();
}

Test(fork_model, every_sequence_finds_what_its_tokens_left)
{
	run(0);
}

Test(fork_model, copies_that_fail_lose_nothing)
{
	run(40);
}
