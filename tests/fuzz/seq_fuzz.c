// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a hostile engine: sequences and tables of groups in one small pool, with calls in any
 * order, tokens that were never drafted, numbers that cannot be, and the host out of memory. A call that
 * is refused has changed nothing; the pool is valid after each; in the end all of it is free.
 */
#include "tests/fuzz/fuzz.h"

#define NR_SEQS		3u
#define NR_TABLES	2u
#define MAX_TOKENS	40u
#define NR_KEYS		24u

static struct fuzz {
	struct kvmm_pool *pool;
	struct kvmm_key_ctx *ctx;
	struct kvmm_groups *groups;
	struct kvmm_seq *seq[NR_SEQS];
	struct kvmm_tables *tables[NR_TABLES];
	u32 nr_groups;
} f;

static u32 some_nr(void)
{
	return any(16) ? any(MAX_TOKENS) : UINT32_MAX - any(3);
}

static u32 some_tokens(u32 *tokens)
{
	u32 nr = any(8);

	for (u32 i = 0; i < nr; i++)
		tokens[i] = any(3);
	return nr;
}

/* ---- sequences ---- */

static struct kvmm_seq *make_seq(void)
{
	u32 prompt[MAX_TOKENS];
	struct kvmm_seq_attr attr = { .size = sizeof(attr), .keys = f.ctx, .prompt = prompt };
	struct kvmm_seq *seq = NULL;
	int err;

	attr.nr_prompt = any(MAX_TOKENS);
	attr.max_output = any(8) ? any(20) : (u32)any(256) << 24;
	attr.domain.tenant = any(2);
	for (u32 i = 0; i < MAX_TOKENS; i++)
		prompt[i] = i / 8;
	err = kvmm_seq_create(f.pool, &attr, &seq);
	expect(err, 0, -EINVAL, -ENOMEM);
	return seq;
}

static int call_seq(struct kvmm_seq *seq)
{
	u32 tokens[8], nr;

	switch (any(14)) {
	case 0:
		return kvmm_seq_match(seq);
	case 1:
		return kvmm_seq_acquire(seq);
	case 2:
		return kvmm_seq_release(seq);
	case 3:
		return kvmm_seq_schedule(seq, any(8), NULL, some_nr());
	case 4:
		return kvmm_seq_schedule_prefill(seq, some_nr());
	case 5:
		return kvmm_seq_schedule_decode(seq);
	case 6:
		nr = some_tokens(tokens);
		return kvmm_seq_schedule_speculative(seq, any(3) ? tokens : NULL, nr);
	case 7:
	case 8:
		nr = some_tokens(tokens);
		return kvmm_seq_apply(seq, tokens, nr);
	case 9:
		return kvmm_seq_accept(seq, any(8), any(3));
	case 10:
		return kvmm_seq_revert(seq);
	case 11:
		nr = some_tokens(tokens);
		return kvmm_seq_append(seq, tokens, nr);
	case 12:
		return kvmm_seq_truncate(seq, some_nr());
	default:	/* one whole step, so that something is published */
		(void)kvmm_seq_schedule_prefill(seq, any(MAX_TOKENS));
		return kvmm_seq_apply(seq, tokens, 0);
	}
}

static u64 look_at_seq(struct kvmm_seq *seq)
{
	struct kvmm_seq_info info;
	u32 ids[4], tokens[MAX_TOKENS * 2];
	kvmm_key_t keys[4];
	kvmm_ref_t refs[4];
	u64 hash = 0;
	int nr;

	require(!kvmm_seq_get_info(seq, &info));
	require(info.nr_computed <= info.nr_tokens && info.nr_published <= info.nr_blocks);
	require(info.nr_hits <= info.nr_published && info.state < KVMM_NR_SEQ_STATES);
	require(kvmm_seq_block_table(seq, ids, 4) == (int)info.nr_blocks);
	require(kvmm_seq_refs(seq, NULL, keys, 4) == (int)info.nr_published);
	require(kvmm_seq_refs(seq, refs, NULL, 4) == (int)info.nr_published);
	nr = kvmm_seq_tokens(seq, 0, tokens, ARRAY_SIZE(tokens));
	require(nr == (int)info.nr_tokens);
	for (u32 i = 0; i < (u32)nr && i < ARRAY_SIZE(tokens); i++)
		hash = mix(hash, tokens[i]);
	hash = mix(mix(hash, info.state), info.nr_computed);
	return mix(mix(hash, info.nr_blocks), info.nr_published);
}

/* In the place of another, or that one goes on as it. */
static void branch_seq(void)
{
	u32 i = any(NR_SEQS), j = any(NR_SEQS);
	struct kvmm_seq *child;
	int err;

	if (i == j || !f.seq[i] || !f.seq[j])
		return;
	if (any(3)) {
		err = kvmm_seq_fork(f.seq[i], 1, &child);
		expect(err, 0, -EBUSY, -ENOMEM);
		if (err)
			return;
		kvmm_seq_destroy(f.seq[j]);
		f.seq[j] = child;
	} else {
		err = kvmm_seq_adopt(f.seq[i], f.seq[j]);
		expect(err, 0, -EBUSY);
		f.seq[j] = err ? f.seq[j] : NULL;
	}
}

static void use_seq(void)
{
	struct kvmm_seq **seq = &f.seq[any(NR_SEQS)];
	u64 before;
	int ret;

	if (!any(8))
		branch_seq();
	if (!*seq || !any(24)) {
		kvmm_seq_destroy(*seq);
		*seq = make_seq();
		return;
	}
	before = look_at_seq(*seq);
	ret = call_seq(*seq);
	require(ret != -EUCLEAN);
	(void)look_at_seq(*seq);
	if (ret == -EBUSY || ret == -EEXIST || ret == -ERANGE || ret == -EALREADY || ret == -EINVAL)
		require(look_at_seq(*seq) == before || ret == -EINVAL || ret == -EBUSY);
}

/* ---- groups ---- */

static kvmm_key_t keys[NR_KEYS];

static struct kvmm_prefix some_prompt(void)
{
	u32 which = any(3);

	for (u32 i = 0; i < NR_KEYS; i++)
		keys[i] = (kvmm_key_t){ { 100 + i + (i > 6 ? which * 40 : 0) } };
	return (struct kvmm_prefix){ .keys = keys, .nr = any(NR_KEYS), .domain.tenant = any(2) };
}

static void begin_tables(struct kvmm_tables **tables)
{
	struct kvmm_groups_acquire_args req = {
		.prompt = some_prompt(), .max_hit_tokens = some_nr(), .nr_tokens = some_nr(),
		.step_tokens = any(MAX_TOKENS), .reserve = any(4) ? 0 : any(32),
	};
	struct kvmm_groups_acquire_args need = req;
	int err;

	need.reserve = 0;
	expect(kvmm_groups_blocks_needed(f.groups, &need), 0, -ENOSPC, -EINVAL, -ENOMEM);
	if (any(4)) {
		err = kvmm_groups_acquire(f.groups, &req, tables);
		expect(err, 0, -ENOSPC, -EINVAL, -ENOMEM);
	} else {
		err = kvmm_groups_match(f.groups, &req.prompt, req.max_hit_tokens, tables);
		require(err >= 0 || err == -EINVAL || err == -ENOMEM);
	}
	if (err < 0)
		*tables = NULL;
}

static void use_tables(void)
{
	struct kvmm_tables **tables = &f.tables[any(NR_TABLES)];
	struct kvmm_prefix prompt = some_prompt();
	u32 ids[8];
	int err;

	if (!*tables) {
		begin_tables(tables);
		return;
	}
	switch (any(7)) {
	case 0:
		err = kvmm_groups_reserve(*tables, some_nr(), any(4) ? 0 : any(16));
		break;
	case 1:
	case 2:
		err = kvmm_groups_commit(*tables, any(6) ? &prompt : NULL, some_nr());
		break;
	case 3:
		err = kvmm_groups_abort(*tables);
		break;
	case 4:
		err = kvmm_groups_trim(*tables, some_nr());
		break;
	case 5:
		err = kvmm_groups_cut(*tables, some_nr(), some_nr());
		break;
	default:
		kvmm_groups_release(*tables);
		*tables = NULL;
		return;
	}
	expect(err, 0, -EINVAL, -ENOSPC, -ENOMEM);
	for (u32 g = 0; g < f.nr_groups + 1; g++)
		require((kvmm_groups_block_table(*tables, g, ids, 8) >= 0) == (g < f.nr_groups));
}

/* ---- a run ---- */

static int make_groups(void)
{
	struct kvmm_group_attr group[4];
	struct kvmm_groups_attr attr = { .size = sizeof(attr), .group = group };

	attr.nr = 1 + any(4);
	f.nr_groups = attr.nr;
	for (u32 i = 0; i < 4; i++) {
		group[i] = (struct kvmm_group_attr){ .pool = f.pool, .kind = any(KVMM_NR_GROUP_KINDS),
						     .block_tokens = any(5), .flags = any(2) };
		group[i].span = group[i].kind == KVMM_GROUP_FULL ? 0 : 1 + any(12);
	}
	return kvmm_groups_create(&attr, &f.groups);
}

static int make_pool(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_key_attr keys_of = KVMM_KEY_ATTR_INIT;

	attr.nr_blocks = 8 + any(40);
	attr.block_tokens = 1u << any(3);
	attr.policy = any(2) ? "lru" : "default";
	attr.dup_policy = any(2) ? KVMM_DUP_ALLOW : KVMM_DUP_REJECT;
	attr.flags = any(2) * KVMM_POOL_NULL_BLOCK;
	require(!kvmm_pool_create(&attr, &f.pool));
	keys_of.block_tokens = attr.block_tokens;
	require(!kvmm_key_ctx_create(&keys_of, &f.ctx));
	expect(make_groups(), 0, -EINVAL);
	return 0;
}

static void call_any(void)
{
	if (!any(24))
		fail_soon();
	else if (f.groups && any(2))
		use_tables();
	else
		use_seq();
	require(!kvmm_validate(f.pool));
}

static void give_all_back(void)
{
	struct kvmm_pool_stat stat;

	for (u32 i = 0; i < NR_SEQS; i++)
		kvmm_seq_destroy(f.seq[i]);
	for (u32 i = 0; i < NR_TABLES; i++)
		kvmm_groups_release(f.tables[i]);
	kvmm_groups_destroy(f.groups);
	kvmm_key_ctx_destroy(f.ctx);
	require(kvmm_reset_cache(f.pool) >= 0);
	require(!kvmm_pool_get_stat(f.pool, &stat) && stat.nr_free == stat.nr_blocks);
	require(!kvmm_validate(f.pool));
	kvmm_pool_destroy(f.pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	memset(&f, 0, sizeof(f));
	return fuzz_run(data, bytes, make_pool, call_any, give_all_back);
}
