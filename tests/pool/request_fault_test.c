// SPDX-License-Identifier: Apache-2.0
/*
 * Sequences when something runs out: host memory, at the first allocation of a call, at the second,
 * and so on until the call succeeds; and blocks, one less than needed, two less, and so on. Each
 * time the call says so and nothing has changed.
 */
#include "request_util.h"
#include "tests/support/fault.h"

#define NR_BLOCKS	32u

static struct kvmm_pool *pool;
static struct kvmm_key_ctx *ctx;

static void set_up(void)
{
	fault_begin();
	pool = make_token_pool(NR_BLOCKS);
	ctx = make_ctx("vllm-sha256-cbor");	/* the one that keeps digests, too */
}

static void tear_down(void)
{
	cr_expect(pool_is_idle(pool));
	end_pool(pool);
	kvmm_key_ctx_destroy(ctx);
	fault_end();
}

TestSuite(request_fault, .init = set_up, .fini = tear_down);

/* Registering needs memory so rarely that it is made to fail here (linked with --wrap). */
static bool register_fails;

int __wrap_kvmm_prefix_register(struct kvmm_pool *p, const struct kvmm_prefix *prefix,
				const kvmm_mut_t *blocks, kvmm_ref_t *refs);
int __real_kvmm_prefix_register(struct kvmm_pool *p, const struct kvmm_prefix *prefix,
				const kvmm_mut_t *blocks, kvmm_ref_t *refs);

int __wrap_kvmm_prefix_register(struct kvmm_pool *p, const struct kvmm_prefix *prefix,
				const kvmm_mut_t *blocks, kvmm_ref_t *refs)
{
	return register_fails ? -ENOMEM : __real_kvmm_prefix_register(p, prefix, blocks, refs);
}

/* Everything that a failed call might have changed. */
struct trace {
	char table[128];
	char blocks[NR_BLOCKS + 1];
	u32 ids[NR_BLOCKS];
	u32 tokens[128];
	kvmm_key_t keys[NR_BLOCKS];
	struct kvmm_seq_info info;
	u64 nr_live;
	u64 live_bytes;
};

static void take_trace(struct kvmm_seq *seq, struct trace *t)
{
	memset(t, 0, sizeof(*t));
	cr_assert_eq(kvmm_validate(pool), 0);
	strcpy(t->blocks, picture(pool));
	t->nr_live = fake.nr_live;
	t->live_bytes = fake.live_bytes;
	if (!seq)
		return;
	strcpy(t->table, table_picture(seq));
	cr_assert_geq(kvmm_seq_block_table(seq, t->ids, NR_BLOCKS), 0);
	cr_assert_geq(kvmm_seq_tokens(seq, 0, t->tokens, 128), 0);
	cr_assert_geq(kvmm_seq_refs(seq, NULL, t->keys, NR_BLOCKS), 0);
	t->info = info_of(seq);
	t->info.why = KVMM_SEQ_OK;	/* these two are allowed to say what happened */
	t->info.nr_missing = 0;
}

/* Host memory may have been taken for a step that then found no blocks: the next try needs it. */
static void forget_bytes(struct trace *t)
{
	t->live_bytes = 0;
}

typedef int (*call_fn)(struct kvmm_seq **seq);

static void expect_no_trace(struct kvmm_seq *seq, const struct trace *before, const char *what, u32 n)
{
	static struct trace after;

	take_trace(seq, &after);
	if (!before->live_bytes)
		forget_bytes(&after);
	cr_assert_arr_eq(&after, before, sizeof(after), "%s, %u: left a trace", what, n);
}

/* Returns how many allocations there were to fail. */
static u32 until_there_is_memory(struct kvmm_seq **seq, call_fn call, const char *what)
{
	static struct trace before;

	take_trace(*seq, &before);
	for (u32 n = 1;; n++) {
		bool failed;
		int err;

		err = fault_at(n, call(seq), &failed);
		if (!failed) {
			cr_assert_geq(err, 0, "%s: %d", what, err);
			return n - 1;
		}
		cr_assert_eq(err, -ENOMEM, "%s, allocation %u: %d", what, n, err);
		expect_no_trace(*seq, &before, what, n);
	}
}

/* ---- the calls ---- */

static int create(struct kvmm_seq **seq)
{
	const struct kvmm_key_extra extra = { KVMM_KEY_MM, 3, "cat", 2, 3 };
	u32 prompt[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
	struct kvmm_seq_attr attr = { .size = sizeof(attr), .keys = ctx, .prompt = prompt,
				      .nr_prompt = 10, .max_output = 60, .extras = &extra,
				      .nr_extras = 1 };

	return kvmm_seq_create(pool, &attr, seq);
}

static int match(struct kvmm_seq **seq)
{
	return kvmm_seq_match(*seq);
}

static int acquire(struct kvmm_seq **seq)
{
	return kvmm_seq_acquire(*seq);
}

static int schedule_prefill(struct kvmm_seq **seq)
{
	return kvmm_seq_schedule_prefill(*seq, info_of(*seq).nr_waiting);
}

static int apply_one(struct kvmm_seq **seq)
{
	u32 token = 77;

	return kvmm_seq_apply(*seq, &token, 1);
}

static int schedule_decode(struct kvmm_seq **seq)
{
	return kvmm_seq_schedule_decode(*seq);
}

static int schedule_drafts(struct kvmm_seq **seq)
{
	u32 draft[17] = { 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47 };

	return kvmm_seq_schedule_speculative(*seq, draft, 17);
}

static int accept_nine(struct kvmm_seq **seq)
{
	return kvmm_seq_accept(*seq, 9, 99);
}

static int append_many(struct kvmm_seq **seq)
{
	u32 tokens[30] = { 5 };

	return kvmm_seq_append(*seq, tokens, 30);
}

static int revert(struct kvmm_seq **seq)
{
	return kvmm_seq_revert(*seq);
}

static int truncate_to_nine(struct kvmm_seq **seq)
{
	return kvmm_seq_truncate(*seq, 9);
}

static int release(struct kvmm_seq **seq)
{
	return kvmm_seq_release(*seq);
}

#define needs(call)		until_there_is_memory(&seq, call, #call)

Test(request_fault, every_call_without_memory_leaves_no_trace)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = NULL;

	cr_expect_eq(needs(create), 3);
	needs(match);
	needs(schedule_prefill);
	needs(apply_one);
	cr_expect_str_eq(table_picture(seq), "PPp 10/11");
	needs(schedule_decode);
	needs(revert);
	needs(schedule_decode);
	needs(apply_one);
	cr_expect_str_eq(table_picture(seq), "PPp 11/12");
	cr_expect_geq(needs(schedule_drafts), 1);
	needs(revert);
	needs(schedule_drafts);
	needs(accept_nine);
	cr_expect_str_eq(table_picture(seq), "PPPPPp 21/22");
	cr_expect_geq(needs(append_many), 1);
	needs(schedule_prefill);
	needs(apply_one);
	cr_expect_str_eq(table_picture(seq), "PPPPPPPPPPPPP 52/53");
	needs(truncate_to_nine);
	needs(release);
	needs(acquire);
	cr_expect_str_eq(table_picture(seq), "HH. 8/9");
	needs(truncate_to_nine);
	cr_expect_str_eq(table_picture(seq), "HH 8/9");
}

/* A decode allocates now and then, twice as much each time, and never more than all of it. */
Test(request_fault, decoding_allocates_rarely)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = NULL;
	u64 before;

	cr_assert_eq(create(&seq), 0);
	prefill(seq, 77);
	before = fake.nr_allocs;
	for (u32 i = 0; i < 59; i++)
		decode(seq, 200 + i);
	cr_expect_leq(fake.nr_allocs - before, 3 + stat_of(pool).registered);
	cr_expect_eq(info_of(seq).nr_remaining, 0);
}

/* The step is still scheduled, and what it yielded may be other tokens the next time. */
Test(request_fault, a_step_that_could_not_be_published_is_applied_again)
{
	const u32 first[6] = { 31, 32, 33, 34, 35, 36 }, second[6] = { 41, 42, 43, 44, 45, 46 };
	struct kvmm_key_seq what = KVMM_KEY_SEQ_INIT;
	static struct trace before;
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = NULL;
	kvmm_key_t want[4], got[4];
	u32 tokens[17];

	seq = make_seq(pool, ctx, 0, 10, 60);
	prefill(seq, 10);
	cr_assert_eq(kvmm_seq_schedule_speculative(seq, NULL, 5), 5);
	take_trace(seq, &before);
	register_fails = true;
	cr_expect_eq(kvmm_seq_apply(seq, first, 6), -ENOMEM);
	expect_no_trace(seq, &before, "apply", 0);
	register_fails = false;
	cr_expect_eq(kvmm_seq_apply(seq, second, 6), 2);
	cr_expect_str_eq(table_picture(seq), "PPPP 16/17");
	cr_assert_eq(kvmm_seq_tokens(seq, 0, tokens, 17), 17);
	cr_expect_arr_eq(tokens + 11, second, sizeof(second));
	what.tokens = tokens;
	what.nr_tokens = 16;
	cr_assert_eq(kvmm_key_chain(ctx, &what, want, 4), 4);
	cr_assert_eq(kvmm_seq_refs(seq, NULL, got, 4), 4);
	cr_expect_arr_eq(got, want, sizeof(want));
}

Test(request_fault, drafts_are_still_known_after_a_failure)
{
	const u32 draft[5] = { 31, 32, 33, 34, 35 };
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = make_seq(pool, ctx, 0, 10, 60);
	u32 tokens[20];

	prefill(seq, 10);
	cr_assert_eq(kvmm_seq_schedule_speculative(seq, draft, 5), 5);
	register_fails = true;
	cr_expect_eq(kvmm_seq_accept(seq, 3, 99), -ENOMEM);
	register_fails = false;
	cr_expect_eq(kvmm_seq_accept(seq, 5, 77), 2);
	cr_assert_eq(kvmm_seq_tokens(seq, 11, tokens, 20), 6);
	cr_expect_arr_eq(tokens, draft, sizeof(draft));
	cr_expect_eq(tokens[5], 77);
}

/* ---- blocks ---- */

/* With 0, 1, ... blocks left: refused until @missing are there. */
static void until_there_are_blocks(struct kvmm_seq **seq, call_fn call, u32 missing, const char *what)
{
	u32 nr = stat_of(pool).nr_free;
	static struct trace before;
	kvmm_mut_t mut[NR_BLOCKS];

	cr_assert_eq(kvmm_alloc(pool, nr, mut), 0);
	for (u32 n = 0; n < missing; n++) {
		take_trace(*seq, &before);
		forget_bytes(&before);
		cr_assert_eq(call(seq), -ENOSPC, "%s with %u blocks", what, n);
		cr_assert_eq(info_of(*seq).why, KVMM_SEQ_NO_BLOCKS);
		cr_assert_eq(info_of(*seq).nr_missing, missing);
		expect_no_trace(*seq, &before, what, n);
		cr_assert_eq(kvmm_free(pool, &mut[--nr], 1), 0);
	}
	cr_assert_geq(call(seq), 0, "%s with %u blocks", what, missing);
	cr_assert_eq(kvmm_free(pool, mut, nr), 0);
}

#define wants(missing, call)	until_there_are_blocks(&seq, call, missing, #call)

Test(request_fault, every_call_without_blocks_leaves_no_trace)
{
	struct kvmm_seq *seq __cleanup(kvmm_seq_destroy) = NULL;

	cr_assert_eq(create(&seq), 0);
	wants(3, acquire);
	wants(0, release);
	wants(3, schedule_prefill);
	wants(0, apply_one);
	cr_expect_str_eq(table_picture(seq), "PPp 10/11");
	wants(0, schedule_decode);
	wants(0, apply_one);
	wants(0, schedule_decode);
	wants(0, apply_one);
	cr_expect_str_eq(table_picture(seq), "PPP 12/13");
	wants(1, schedule_decode);
	wants(0, revert);
	wants(5, schedule_drafts);
	wants(0, accept_nine);
	cr_expect_str_eq(table_picture(seq), "PPPPPp 22/23");
	wants(0, append_many);
	wants(8, schedule_prefill);
	wants(0, apply_one);
	wants(0, release);
}
