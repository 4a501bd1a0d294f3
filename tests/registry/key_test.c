// SPDX-License-Identifier: Apache-2.0
/*
 * Keys: what must change them does, what must not does not, and callers' mistakes change nothing.
 * That they are the keys which Documentation/keys.rst defines is for keys.py to say.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/env.h>
#include <kvmm/key.h>

#include "tests/support/cleanup.h"
#include "tests/support/fake_env.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_TOKENS	200u
#define MAX_BLOCKS	NR_TOKENS
#define NR_ATTRS	22u
#define MAX_RUN		12u
#define BYTES(text)	{ text, sizeof(text) - 1 }

static const char *const own_algos[] = { "sha256", "siphash", "local" };

static struct kvmm_key_attr attr_of(const char *algo)
{
	struct kvmm_key_attr attr = { .size = sizeof(attr), .algo = algo };

	if (!strcmp(algo, "siphash"))
		attr.secret[0] = 1;
	return attr;
}

static struct kvmm_key_ctx *create(const struct kvmm_key_attr *attr)
{
	struct kvmm_key_ctx *ctx = NULL;

	cr_assert_eq(kvmm_key_ctx_create(attr, &ctx), 0);
	return ctx;
}

static struct kvmm_key_seq seq_of(const u32 *tokens, size_t nr)
{
	struct kvmm_key_seq seq = { .size = sizeof(seq), .tokens = tokens, .nr_tokens = nr };

	return seq;
}

static struct kvmm_key_extra extra_of(enum kvmm_key_kind kind, const char *text, s64 start, s64 nr)
{
	return (struct kvmm_key_extra){ kind, strlen(text), text, start, nr };
}

static const u32 *count_up(void)
{
	static u32 tokens[NR_TOKENS];

	for (u32 i = 0; i < NR_TOKENS; i++)
		tokens[i] = i;
	return tokens;
}

static bool same_key(const kvmm_key_t *a, const kvmm_key_t *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static int chain(const struct kvmm_key_attr *attr, const struct kvmm_key_seq *seq,
		 kvmm_key_t *keys)
{
	struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = create(attr);
	int nr = kvmm_key_chain(ctx, seq, keys, MAX_BLOCKS);

	return nr;
}

/* ---- sequences ---- */

static void expect_same_in_two_calls(const struct kvmm_key_ctx *ctx, u32 cut)
{
	struct kvmm_key_seq all = seq_of(count_up(), 160), head = seq_of(count_up(), 16 * cut);
	struct kvmm_key_seq tail = seq_of(count_up() + 16 * cut, 160 - 16 * cut);
	kvmm_key_t expected[10], keys[10];

	cr_assert_eq(kvmm_key_chain(ctx, &all, expected, 10), 10);
	cr_assert_eq(kvmm_key_chain(ctx, &head, keys, cut), cut);
	tail.parent = cut ? &keys[cut - 1] : NULL;
	cr_assert_eq(kvmm_key_chain(ctx, &tail, keys + cut, 10 - cut), 10 - cut);
	cr_expect(!memcmp(keys, expected, sizeof(keys)), "cut at %u", cut);
}

Test(key, sequence_may_be_cut_at_any_block)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_algos); i++) {
		struct kvmm_key_attr attr = attr_of(own_algos[i]);
		struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = create(&attr);

		for (u32 cut = 0; cut <= 10; cut++)
			expect_same_in_two_calls(ctx, cut);
	}
}

Test(key, only_full_blocks_have_keys)
{
	struct kvmm_key_attr attr = attr_of("sha256");
	kvmm_key_t keys[MAX_BLOCKS], more[MAX_BLOCKS];
	struct kvmm_key_seq seq;

	for (u32 nr = 0; nr <= NR_TOKENS; nr++) {
		seq = seq_of(count_up(), nr);
		cr_assert_eq(chain(&attr, &seq, keys), nr / 16);
	}
	seq = seq_of(count_up(), 192 + 7);
	cr_assert_eq(chain(&attr, &seq, more), 12);
	cr_expect(!memcmp(keys, more, 12 * sizeof(*keys)));
}

Test(key, single_block_has_the_key_that_it_has_in_a_chain)
{
	struct kvmm_key_attr attr = attr_of("siphash");
	struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = create(&attr);
	struct kvmm_key_seq seq = seq_of(count_up(), 32);
	kvmm_key_t keys[2], key = { { 0 } };

	cr_assert_eq(kvmm_key_chain(ctx, &seq, keys, 2), 2);
	cr_assert_eq(kvmm_key_block(ctx, NULL, count_up(), 16, &key), 0);
	cr_expect(same_key(&key, &keys[0]));
	cr_assert_eq(kvmm_key_block(ctx, &key, count_up() + 16, 16, &key), 0);
	cr_expect(same_key(&key, &keys[1]));
	cr_expect_eq(kvmm_key_block(ctx, NULL, count_up(), 15, &key), -EINVAL);
	cr_expect_eq(kvmm_key_block(ctx, NULL, count_up(), 32, &key), -EINVAL);
	cr_expect(same_key(&key, &keys[1]));
}

Test(key, key_is_both_ends_of_the_digest)
{
	struct kvmm_key_attr attr = attr_of("sha256");
	struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = create(&attr);
	struct kvmm_key_seq seq = seq_of(count_up(), 48);
	kvmm_digest_t digests[3];
	kvmm_key_t keys[3], key;

	cr_assert_eq(kvmm_key_chain(ctx, &seq, keys, 3), 3);
	cr_assert_eq(kvmm_key_digests(ctx, &seq, digests, 3), 3);
	for (u32 i = 0; i < 3; i++) {
		key = kvmm_key_of_digest(&digests[i]);
		cr_expect(same_key(&key, &keys[i]));
		cr_expect(!memcmp(key.byte, digests[i].byte, 8));
		cr_expect(!memcmp(key.byte + 8, digests[i].byte + 24, 8));
	}
}

/* ---- the format ---- */

static void expect_key(const kvmm_key_t *key, const char *expected)
{
	char text[33];

	for (u32 i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", key->byte[i]);
	cr_expect_str_eq(text, expected);
}

static void expect_keys_with_everything(const char *algo, const char *first, const char *second)
{
	struct kvmm_key_extra extra = extra_of(KVMM_KEY_MM, "img", 2, 4);
	struct kvmm_key_attr attr = attr_of(algo);
	struct kvmm_key_seq seq = seq_of(count_up() + 1, 8);
	kvmm_key_t keys[2];

	for (u32 i = 0; i < sizeof(attr.secret); i++)
		attr.secret[i] = i;
	attr.block_tokens = 4;
	attr.group = 1;
	attr.layout_id = (struct kvmm_key_bytes)BYTES("layout");
	attr.tenant = (struct kvmm_key_bytes)BYTES("tenant");
	attr.lora = (struct kvmm_key_bytes)BYTES("lora");
	attr.salt = (struct kvmm_key_bytes)BYTES("salt");
	attr.lora_path = (struct kvmm_key_bytes)BYTES("path");
	seq.extras = &extra;
	seq.nr_extras = 1;
	cr_assert_eq(chain(&attr, &seq, keys), 2);
	expect_key(&keys[0], first);
	expect_key(&keys[1], second);
}

/* Stored keys outlive the library: if this fails, the format's name must change. */
Test(key, keys_are_those_of_kvmm_key_3)
{
	struct kvmm_key_attr attr = attr_of("sha256");
	struct kvmm_key_seq seq = seq_of(count_up() + 1, 8);
	kvmm_key_t keys[3];

	attr.block_tokens = 4;
	cr_assert_eq(chain(&attr, &seq, keys), 2);
	expect_key(&keys[0], "55f17c3a3457c2c86dd6447e7a7ebdfa");
	expect_key(&keys[1], "97b3587c307a646a223ad9ad3d165b48");
	expect_keys_with_everything("sha256", "4ea5755c10f918dc1acb609b6ab0bbee",
				    "97dd079478f7cbc33c0b583bb8bbc94e");
	expect_keys_with_everything("siphash", "9a11be5e08fdb9f0f9d42208c45ab674",
				    "68496256a88776c3cf6a69afebef36ab");
	attr.block_tokens = 16;
	seq.nr_tokens = 48;
	cr_assert_eq(chain(&attr, &seq, keys), 3);
	expect_key(&keys[0], "3326221523456c9708896231681ac6d5");
	expect_key(&keys[1], "28ba73f5c74ee59e7873d5e179dd4fba");
	expect_key(&keys[2], "861657eae889c0c9da7d0cb2381d08b0");
}

/* An extra that touches none of them has them hashed one by one. */
static void expect_same_one_by_one(const struct kvmm_key_ctx *ctx, struct kvmm_key_seq seq)
{
	struct kvmm_key_extra extra = extra_of(KVMM_KEY_MM, "img", 1 << 20, 1);
	kvmm_digest_t *digests = calloc(2 * MAX_RUN, sizeof(*digests));
	kvmm_key_t keys[3][MAX_RUN] = { { { { 0 } } } };
	int nr = kvmm_key_chain(ctx, &seq, keys[0], MAX_RUN);
	int with_digests = kvmm_key_hash(ctx, &seq, keys[1], digests, MAX_RUN);

	cr_assert(nr >= 0);
	seq.extras = &extra;
	seq.nr_extras = 1;
	cr_expect_eq(kvmm_key_chain(ctx, &seq, keys[2], MAX_RUN), nr);
	cr_expect(!memcmp(keys[0], keys[2], sizeof(keys[0])), "%d keys", nr);
	if (with_digests != -EOPNOTSUPP) {
		cr_expect_eq(with_digests, nr);
		cr_expect_eq(kvmm_key_digests(ctx, &seq, digests + MAX_RUN, MAX_RUN), nr);
		cr_expect(!memcmp(keys[1], keys[2], sizeof(keys[1])), "%d keys", nr);
		cr_expect(!memcmp(digests, digests + MAX_RUN, MAX_RUN * sizeof(*digests)));
	}
	free(digests);
}

Test(key, blocks_in_a_row_have_the_keys_that_they_have_one_by_one)
{
	static const u32 lengths[] = { 1, 2, 15, 16, 17, 32, 48, 64, 528 };
	u64 state = test_number("KVMM_SEED", 1);
	kvmm_key_t parent;

	cr_log_info("KVMM_SEED=%llu", (unsigned long long)state);
	for (u32 round = 0; round < 50 * ARRAY_SIZE(own_algos); round++) {
		struct kvmm_key_attr attr = attr_of(own_algos[round % ARRAY_SIZE(own_algos)]);
		struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = NULL;
		u32 nr, *tokens;

		attr.block_tokens = lengths[any_of(&state, ARRAY_SIZE(lengths))];
		nr = any_of(&state, MAX_RUN * attr.block_tokens);
		tokens = calloc(nr + 1, sizeof(*tokens));	/* no more: readers beyond are seen */
		for (u32 i = 0; i < nr; i++)
			tokens[i] = any_of(&state, UINT32_MAX);
		for (u32 i = 0; i < sizeof(parent); i++)
			parent.byte[i] = any_of(&state, 256);
		ctx = create(&attr);
		expect_same_one_by_one(ctx, (struct kvmm_key_seq){
			.size = sizeof(struct kvmm_key_seq), .tokens = tokens, .nr_tokens = nr,
			.parent = any_of(&state, 2) ? &parent : NULL });
		free(tokens);
	}
}

/* ---- what must change a key ---- */

static void expect_others(const kvmm_key_t *keys, const kvmm_key_t *others, int nr,
			  const char *what)
{
	for (int i = 0; i < nr; i++)
		cr_expect(!same_key(&keys[i], &others[i]), "%s, block %d", what, i);
}

Test(key, every_bit_of_every_token_changes_its_block_and_all_later_ones)
{
	for (size_t a = 0; a < ARRAY_SIZE(own_algos); a++) {
		struct kvmm_key_attr attr = attr_of(own_algos[a]);
		kvmm_key_t keys[3], others[3];
		u32 tokens[48];
		struct kvmm_key_seq seq = seq_of(tokens, 48);

		memcpy(tokens, count_up(), sizeof(tokens));
		cr_assert_eq(chain(&attr, &seq, keys), 3);
		for (u32 bit = 0; bit < 32 * 48; bit++) {
			u32 block = bit / 32 / 16;

			tokens[bit / 32] ^= 1u << bit % 32;
			cr_assert_eq(chain(&attr, &seq, others), 3);
			tokens[bit / 32] ^= 1u << bit % 32;
			cr_expect(!memcmp(keys, others, block * sizeof(*keys)));
			expect_others(keys + block, others + block, 3 - block, attr.algo);
		}
	}
}

/* Attributes that differ in one thing, or that look alike when written in a row. */
static void make_attrs(const char *algo, struct kvmm_key_attr attr[NR_ATTRS])
{
	const struct kvmm_key_bytes x = BYTES("x"), ab = BYTES("ab"), a = BYTES("a");
	const struct kvmm_key_bytes b = BYTES("b"), none = BYTES("");
	u32 nr = 1;

	for (u32 i = 0; i < NR_ATTRS; i++)
		attr[i] = attr_of(algo);
	attr[nr++].group = 1;
	attr[nr++].group = 256;
	attr[nr].group = 2;
	attr[nr++].secret[15] = strcmp(algo, "local") ? 1 : 0;	/* which has one of its own */
	attr[nr].group = 3;
	attr[nr++].secret[14] = strcmp(algo, "local") ? 1 : 0;
	attr[nr++].layout_id = x;
	attr[nr++].tenant = x;
	attr[nr++].lora = x;
	attr[nr++].salt = x;
	attr[nr++].layout_id = none;
	attr[nr++].tenant = none;
	attr[nr++].lora = none;
	attr[nr++].salt = none;
	attr[nr++].tenant = ab;
	attr[nr].tenant = a;
	attr[nr++].lora = b;
	attr[nr].tenant = b;
	attr[nr++].lora = a;
	attr[nr].lora = a;
	attr[nr++].salt = b;
	attr[nr].lora = b;
	attr[nr++].salt = a;
	attr[nr++].salt = ab;
	for (u32 i = 0; i < 3; i++)
		attr[nr + i].lora = x;
	attr[nr++].lora_path = none;
	attr[nr++].lora_path = x;
	attr[nr].salt = x;
	attr[nr++].lora_path = b;
	cr_assert_eq(nr, NR_ATTRS);
}

static void expect_all_different(const char *algo)
{
	struct kvmm_key_seq seq = seq_of(count_up(), 32);
	struct kvmm_key_attr attr[NR_ATTRS];
	kvmm_key_t keys[NR_ATTRS][2];

	make_attrs(algo, attr);
	for (u32 i = 0; i < NR_ATTRS; i++) {
		cr_assert_eq(chain(&attr[i], &seq, keys[i]), 2);
		for (u32 j = 0; j < i; j++)
			expect_others(keys[i], keys[j], 2, algo);
	}
}

Test(key, every_attribute_changes_all_keys_and_none_passes_for_another)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_algos); i++)
		expect_all_different(own_algos[i]);
}

/* Also for a block whose parent is given: the domain is not only in the first block. */
Test(key, context_changes_the_keys_of_continued_sequences)
{
	struct kvmm_key_attr attr = attr_of("sha256"), other = attr;
	struct kvmm_key_seq seq = seq_of(count_up(), 16);
	kvmm_key_t parent = { { 1, 2, 3 } }, keys[2];

	seq.parent = &parent;
	other.tenant = (struct kvmm_key_bytes)BYTES("someone else");
	cr_assert_eq(chain(&attr, &seq, &keys[0]), 1);
	cr_assert_eq(chain(&other, &seq, &keys[1]), 1);
	cr_expect(!same_key(&keys[0], &keys[1]));
}

Test(key, algorithms_and_block_sizes_do_not_share_keys)
{
	struct kvmm_key_attr attr[3] = { attr_of("sha256"), attr_of("siphash"), attr_of("sha256") };
	struct kvmm_key_seq seq = seq_of(count_up(), 32);
	kvmm_key_t keys[3][2];

	attr[0].secret[0] = attr[2].secret[0] = 1;
	attr[2].block_tokens = 17;
	cr_assert_eq(chain(&attr[0], &seq, keys[0]), 2);
	cr_assert_eq(chain(&attr[1], &seq, keys[1]), 2);
	cr_assert_eq(chain(&attr[2], &seq, keys[2]), 1);
	expect_others(keys[0], keys[1], 2, "algorithm");
	expect_others(keys[0], keys[2], 1, "block_tokens");
}

Test(key, parent_of_zeros_is_not_the_beginning)
{
	struct kvmm_key_attr attr = attr_of("siphash");
	struct kvmm_key_seq seq = seq_of(count_up(), 16);
	kvmm_key_t zeros = { { 0 } }, keys[2];

	cr_assert_eq(chain(&attr, &seq, &keys[0]), 1);
	seq.parent = &zeros;
	cr_assert_eq(chain(&attr, &seq, &keys[1]), 1);
	cr_expect(!same_key(&keys[0], &keys[1]));
}

/* ---- keys that stay in the process ---- */

static kvmm_key_t local_key(void)
{
	struct kvmm_key_attr attr = attr_of("local");
	struct kvmm_key_seq seq = seq_of(count_up(), 16);
	kvmm_key_t key;

	cr_assert_eq(chain(&attr, &seq, &key), 1);
	return key;
}

/* Both are copies of this process, which has drawn no secret yet. */
static kvmm_key_t local_key_of_a_child(void)
{
	kvmm_key_t key = { { 0 } };
	int ends[2], status;
	pid_t child;

	cr_assert_eq(pipe(ends), 0);
	child = fork();
	if (!child) {
		key = local_key();
		_exit(write(ends[1], &key, sizeof(key)) != sizeof(key));
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_assert_eq(read(ends[0], &key, sizeof(key)), sizeof(key));
	close(ends[0]);
	close(ends[1]);
	return key;
}

Test(key, local_keys_are_of_no_use_to_another_process)
{
	kvmm_key_t keys[3] = { local_key_of_a_child(), local_key_of_a_child() };

	keys[2] = local_key();
	for (u32 i = 0; i < 3; i++)
		cr_expect(!same_key(&keys[i], &keys[(i + 1) % 3]), "%u", i);
	keys[0] = local_key_of_a_child();
	cr_expect(same_key(&keys[0], &keys[2]), "a copy with the secret goes on with it");
}

static void *make_key(void *key)
{
	*(kvmm_key_t *)key = local_key();
	return NULL;
}

Test(key, local_keys_are_the_same_in_all_threads)
{
	pthread_t thread[8];
	kvmm_key_t keys[8];

	for (u32 i = 0; i < ARRAY_SIZE(thread); i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, make_key, &keys[i]), 0);
	for (u32 i = 0; i < ARRAY_SIZE(thread); i++)
		pthread_join(thread[i], NULL);
	for (u32 i = 1; i < ARRAY_SIZE(thread); i++)
		cr_expect(same_key(&keys[0], &keys[i]), "thread %u", i);
}

/* ---- extras ---- */

/* Letter: a block whose key differs from that without the extra. */
static void expect_touched(struct kvmm_key_extra extra, const char *picture)
{
	struct kvmm_key_attr attr = attr_of("sha256");
	struct kvmm_key_seq seq = seq_of(count_up(), 80);
	kvmm_key_t keys[5], others[5];
	char seen[6] = "";

	cr_assert_eq(chain(&attr, &seq, keys), 5);
	seq.extras = &extra;
	seq.nr_extras = 1;
	cr_assert_eq(chain(&attr, &seq, others), 5);
	for (u32 i = 0; i < 5; i++)
		seen[i] = same_key(&keys[i], &others[i]) ? '.' : 'X';
	cr_expect_str_eq(seen, picture);
}

Test(key, extra_changes_keys_from_its_first_block_on)
{
	expect_touched(extra_of(KVMM_KEY_MM, "img", 0, 80), "XXXXX");
	expect_touched(extra_of(KVMM_KEY_MM, "img", 15, 1), "XXXXX");
	expect_touched(extra_of(KVMM_KEY_MM, "img", 16, 1), ".XXXX");
	expect_touched(extra_of(KVMM_KEY_MM, "img", 79, 100), "....X");
	expect_touched(extra_of(KVMM_KEY_MM, "img", 80, 1), ".....");
	expect_touched(extra_of(KVMM_KEY_MM, "img", -5, 5), ".....");
	expect_touched(extra_of(KVMM_KEY_MM, "img", -5, 6), "XXXXX");
}

static kvmm_key_t key_with(struct kvmm_key_extra *extras, size_t nr)
{
	struct kvmm_key_attr attr = attr_of("sha256");
	struct kvmm_key_seq seq = seq_of(count_up(), 16);
	kvmm_key_t key;

	seq.extras = extras;
	seq.nr_extras = nr;
	cr_assert_eq(chain(&attr, &seq, &key), 1);
	return key;
}

/* The first of them is a LoRA named like a salt. */
Test(key, no_extra_passes_for_another)
{
	struct kvmm_key_extra one[] = {
		extra_of(KVMM_KEY_LORA, "x", 0, 16), extra_of(KVMM_KEY_SALT, "x", 0, 16),
		extra_of(KVMM_KEY_MM, "x", 0, 16), extra_of(KVMM_KEY_EMBEDS, "x", 0, 16),
		extra_of(KVMM_KEY_OTHER, "x", 0, 16), extra_of(KVMM_KEY_MM, "x", 1, 15),
		extra_of(KVMM_KEY_MM, "x", -1, 17), extra_of(KVMM_KEY_MM, "", 0, 16),
		extra_of(KVMM_KEY_MM, "xy", 0, 16),
	};
	struct kvmm_key_extra two[] = {
		extra_of(KVMM_KEY_MM, "x", 0, 1), extra_of(KVMM_KEY_MM, "y", 1, 1),
	};
	kvmm_key_t keys[ARRAY_SIZE(one) + 2];

	for (u32 i = 0; i < ARRAY_SIZE(one); i++)
		keys[i] = key_with(&one[i], 1);
	keys[ARRAY_SIZE(one)] = key_with(two, 2);
	keys[ARRAY_SIZE(one) + 1] = key_with(NULL, 0);
	for (u32 i = 0; i < ARRAY_SIZE(keys); i++) {
		for (u32 j = 0; j < i; j++)
			cr_expect(!same_key(&keys[i], &keys[j]), "%u and %u", i, j);
	}
}

/* The length of what an item covers does not matter, the blocks that it covers do. */
Test(key, sequence_with_extras_may_be_cut_at_any_block)
{
	const struct kvmm_key_extra extras[] = {
		extra_of(KVMM_KEY_LORA, "adapter", 40, 60), extra_of(KVMM_KEY_MM, "img-1", 3, 70),
		extra_of(KVMM_KEY_MM, "img-2", 73, 1), extra_of(KVMM_KEY_MM, "img-3", 74, 86),
		extra_of(KVMM_KEY_EMBEDS, "hash", 16, 16),
	};
	struct kvmm_key_extra moved[ARRAY_SIZE(extras)];
	struct kvmm_key_attr attr = attr_of("siphash");
	struct kvmm_key_seq all = seq_of(count_up(), 160), tail;
	kvmm_key_t expected[10], keys[10];

	all.extras = extras;
	all.nr_extras = ARRAY_SIZE(extras);
	cr_assert_eq(chain(&attr, &all, expected), 10);
	for (u32 cut = 1; cut < 10; cut++) {
		tail = seq_of(count_up() + 16 * cut, 160 - 16 * cut);
		tail.parent = &expected[cut - 1];
		tail.extras = memcpy(moved, extras, sizeof(moved));
		tail.nr_extras = ARRAY_SIZE(moved);
		for (u32 i = 0; i < ARRAY_SIZE(moved); i++)
			moved[i].start -= 16 * cut;
		cr_assert_eq(chain(&attr, &tail, keys), 10 - cut);
		cr_expect(!memcmp(keys, expected + cut, (10 - cut) * sizeof(*keys)));
	}
}

/* ---- callers' mistakes ---- */

static void expect_no_ctx(const struct kvmm_key_attr *attr, int expected)
{
	struct kvmm_key_ctx *const untouched = (void *)&expected, *ctx = untouched;

	cr_expect_eq(kvmm_key_ctx_create(attr, &ctx), expected);
	cr_expect_eq(ctx, untouched);
}

Test(key, bad_attributes_are_refused)
{
	const struct kvmm_key_bytes nowhere = { NULL, 1 };
	const struct kvmm_key_bytes long_one = { "", KVMM_KEY_MAX_BYTES + 1 };
	struct kvmm_key_attr attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_key_attr good = attr_of("sha256");
	const kvmm_digest_t root = { { 0 } };

#define expect_refused(change, expected)	\
	(attr = good, change, expect_no_ctx(&attr, expected))
	expect_refused(attr.size--, -EINVAL);
	expect_refused(attr.size = 0, -EINVAL);
	expect_refused(attr.algo = "xxh3", -ENOENT);
	expect_refused(attr.algo = "", -ENOENT);
	expect_refused(attr.block_tokens = KVMM_KEY_MAX_BLOCK_TOKENS + 1, -EINVAL);
	expect_refused(attr.layout_id = nowhere, -EINVAL);
	expect_refused(attr.tenant = long_one, -EINVAL);
	expect_refused(attr.lora = nowhere, -EINVAL);
	expect_refused(attr.salt = long_one, -EINVAL);
	expect_refused(attr.vllm_seed = nowhere, -EINVAL);
	expect_refused(attr.vllm_seed.data = "", -EINVAL);
	expect_refused(attr.vllm_root = &root, -EINVAL);
	expect_refused(attr.lora_path = nowhere, -EINVAL);
	expect_refused(attr.lora_path.data = "", -EINVAL);	/* of which adapter? */
	expect_refused(attr.algo = "siphash", -EINVAL);		/* no secret */
	good.secret[0] = 1;
	expect_refused(attr.algo = "local", -EINVAL);		/* which draws its own */
	cr_expect_eq(kvmm_key_ctx_create(NULL, &(struct kvmm_key_ctx *){ NULL }), -EINVAL);
	cr_expect_eq(kvmm_key_ctx_create(&good, NULL), -EINVAL);
	kvmm_key_ctx_destroy(NULL);
}

static void expect_no_keys(const char *algo, const struct kvmm_key_seq *seq, u32 max)
{
	struct kvmm_key_attr attr = attr_of(algo);
	struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = create(&attr);
	kvmm_digest_t untouched[4], digests[4];

	memset(untouched, 0x5a, sizeof(untouched));
	memset(digests, 0x5a, sizeof(digests));
	cr_expect_eq(kvmm_key_chain(ctx, seq, (void *)digests, max), -EINVAL);
	cr_expect_eq(kvmm_key_digests(ctx, seq, digests, max), -EINVAL);
	cr_expect(!memcmp(digests, untouched, sizeof(digests)));
}

Test(key, bad_sequences_are_refused)
{
	struct kvmm_key_seq seq = seq_of(count_up(), 64);
	kvmm_digest_t parent = { { 0 } };

	expect_no_keys("sha256", NULL, 4);
	expect_no_keys("sha256", &seq, 3);
	expect_no_keys("sha256", &seq, 0);
	seq.parent_digest = &parent;
	expect_no_keys("siphash", &seq, 4);
	seq = seq_of(NULL, 64);
	expect_no_keys("sha256", &seq, 4);
	seq = seq_of(count_up(), SIZE_MAX);
	expect_no_keys("siphash", &seq, UINT32_MAX);
	seq = seq_of(count_up(), 16 * ((size_t)INT32_MAX + 1));
	expect_no_keys("siphash", &seq, UINT32_MAX);
	seq = seq_of(count_up(), 64);
	seq.size--;
	expect_no_keys("sha256", &seq, 4);
	seq = seq_of(count_up(), 64);
	seq.nr_extras = 1;
	expect_no_keys("sha256", &seq, 4);
}

Test(key, missing_results_and_short_hashes_are_refused)
{
	struct kvmm_key_attr attr = attr_of("siphash");
	struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = create(&attr);
	struct kvmm_key_seq seq = seq_of(count_up(), 64);
	kvmm_digest_t digests[4];

	cr_expect_eq(kvmm_key_chain(NULL, &seq, (void *)digests, 4), -EINVAL);
	cr_expect_eq(kvmm_key_chain(ctx, &seq, NULL, 4), -EINVAL);
	cr_expect_eq(kvmm_key_digests(ctx, &seq, NULL, 4), -EINVAL);
	cr_expect_eq(kvmm_key_digests(ctx, &seq, digests, 4), -EOPNOTSUPP);
	seq.nr_tokens = 15;
	cr_expect_eq(kvmm_key_chain(ctx, &seq, NULL, 0), 0);
}

static void expect_bad_extras(const char *algo, struct kvmm_key_extra first,
			      struct kvmm_key_extra second)
{
	struct kvmm_key_extra extras[] = { first, second };
	struct kvmm_key_seq seq = seq_of(count_up(), 64);

	seq.extras = extras;
	seq.nr_extras = 2;
	expect_no_keys(algo, &seq, 4);
}

Test(key, extras_that_could_be_ordered_another_way_are_refused)
{
	const struct kvmm_key_extra mm = extra_of(KVMM_KEY_MM, "x", 10, 10);

	expect_bad_extras("sha256", mm, extra_of(KVMM_KEY_MM, "y", 19, 1));
	expect_bad_extras("sha256", mm, extra_of(KVMM_KEY_MM, "y", 0, 5));
	expect_bad_extras("sha256", mm, extra_of(KVMM_KEY_LORA, "y", 30, 1));
	expect_bad_extras("sha256", mm, mm);
}

Test(key, extras_out_of_range_are_refused)
{
	const struct kvmm_key_extra mm = extra_of(KVMM_KEY_MM, "x", 0, 10);
	struct kvmm_key_extra bad;

	expect_bad_extras("sha256", mm, extra_of(KVMM_KEY_NR_KINDS, "y", 20, 1));
	expect_bad_extras("sha256", mm, extra_of(KVMM_KEY_OTHER, "y", 20, 0));
	expect_bad_extras("sha256", mm, extra_of(KVMM_KEY_OTHER, "y", 20, -1));
	expect_bad_extras("sha256", mm, extra_of(KVMM_KEY_OTHER, "y", 20, INT64_MAX));
	expect_bad_extras("sha256", mm, extra_of(KVMM_KEY_OTHER, "y", INT64_MAX, 1));
	expect_bad_extras("sha256", mm, extra_of(KVMM_KEY_OTHER, "y", INT64_MIN, 1));
	bad = extra_of(KVMM_KEY_OTHER, "y", 20, 1);
	bad.bytes = KVMM_KEY_MAX_BYTES + 1;
	expect_bad_extras("sha256", mm, bad);
	bad.bytes = 1;
	bad.data = NULL;
	expect_bad_extras("sha256", mm, bad);
}

/* ---- memory ---- */

Test(key, context_owns_what_it_was_made_of)
{
	char lora[] = "adapter", salt[] = "pepper", path[] = "/adapters/a";
	struct kvmm_key_attr attr = attr_of("vllm-sha256-cbor");
	struct kvmm_key_seq seq = seq_of(count_up(), 16);
	struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = NULL;
	kvmm_key_t before, after;

	attr.lora = (struct kvmm_key_bytes){ lora, sizeof(lora) };
	attr.salt = (struct kvmm_key_bytes){ salt, sizeof(salt) };
	attr.lora_path = (struct kvmm_key_bytes){ path, sizeof(path) };
	ctx = create(&attr);
	cr_assert_eq(kvmm_key_chain(ctx, &seq, &before, 1), 1);
	memset(lora, 'x', sizeof(lora));
	memset(salt, 'x', sizeof(salt));
	memset(path, 'x', sizeof(path));
	memset(&attr, 0xff, sizeof(attr));
	cr_assert_eq(kvmm_key_chain(ctx, &seq, &after, 1), 1);
	cr_expect(same_key(&before, &after));
}

Test(key, out_of_memory_leaves_nothing_behind)
{
	struct kvmm_key_attr attr = attr_of("siphash");
	struct kvmm_key_ctx *ctx = NULL;
	struct fake_env fake;

	fake_env_install(&fake);
	fake_env_fail(&fake, 1, false);
	cr_expect_eq(kvmm_key_ctx_create(&attr, &ctx), -ENOMEM);
	cr_expect_null(ctx);
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(kvmm_key_ctx_create(&attr, &ctx), 0);
	kvmm_key_ctx_destroy(ctx);
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

/* Bytes that are not zero in what is given back, behind the allocator's own header. */
static size_t nr_left;

static void look_and_free(void *ctx, void *ptr, size_t bytes)
{
	for (size_t i = 16; i < bytes; i++)
		nr_left += ((u8 *)ptr)[i] != 0;
	kv_env_system.free(kv_env_system.ctx, ptr, bytes);
}

Test(key, secrets_do_not_stay_in_freed_memory)
{
	struct kvmm_key_attr attr = attr_of("siphash");
	struct kv_env_ops env = kv_env_system;
	struct kvmm_key_ctx *ctx;

	attr.salt = (struct kvmm_key_bytes)BYTES("pepper");
	env.free = look_and_free;
	kv_env_set(&env);
	ctx = create(&attr);
	kvmm_key_ctx_destroy(ctx);
	kv_env_set(NULL);
	cr_expect_eq(nr_left, 0);
}

Test(key, algorithms_are_listed_with_the_default_first)
{
	const char *names[5] = { NULL };

	cr_expect_eq(kvmm_key_algos(NULL, 0), 4);
	cr_expect_eq(kvmm_key_algos(names, 1), 4);
	cr_expect_str_eq(names[0], "sha256");
	cr_expect_null(names[1]);
	cr_expect_eq(kvmm_key_algos(names, 5), 4);
	cr_expect_str_eq(names[2], "vllm-sha256-cbor");
	cr_expect_str_eq(names[3], "local");
	cr_expect_null(names[4]);
}

/* ---- names of the engine's own ---- */

static bool name_has_key(u32 bytes, const u8 *secret, const char *want)
{
	u8 name[KVMM_KEY_MAX_NAME];
	char hex[2 * KVMM_KEY_BYTES + 1];
	kvmm_key_t key;

	for (u32 i = 0; i < bytes; i++)
		name[i] = i;
	cr_assert_eq(kvmm_key_of_bytes(name, bytes, secret, &key), 0);
	for (u32 i = 0; i < KVMM_KEY_BYTES; i++)
		sprintf(hex + 2 * i, "%02x", key.byte[i]);
	return !strcmp(hex, want);
}

/* Computed by Python's hashlib from Documentation/keys.rst. */
Test(key, names_have_the_keys_that_are_written_down)
{
	u8 secret[KVMM_KEY_SECRET_BYTES];

	for (u32 i = 0; i < sizeof(secret); i++)
		secret[i] = 100 + i;
	cr_expect(name_has_key(8, NULL, "9dd743fb93bce26cf3990fe0c7d0fc0d"));
	cr_expect(name_has_key(16, NULL, "966c5515c4cd90cad3986d546b0466a6"));
	cr_expect(name_has_key(17, NULL, "28693c21c480a7a3344d72273d3e8d2e"));
	cr_expect(name_has_key(64, NULL, "892d7477a0303a63f495a010803cb7c9"));
	cr_expect(name_has_key(8, secret, "dcfa16567002f78113f6c08dcf118efe"));
	cr_expect(name_has_key(17, secret, "54634233f0818db710b8be061a414833"));
	cr_expect(name_has_key(64, secret, "e41f24292eeb2c99f93901f9399f9354"));
}

/* Of vLLM: a digest of 32 bytes, and the number of a group behind it. */
Test(key, hashes_in_a_row_have_the_keys_of_digests)
{
	struct kvmm_key_names names = KVMM_KEY_NAMES_INIT;
	u8 row[3][36];
	kvmm_key_t keys[3], key;
	kvmm_digest_t digest;

	for (u32 i = 0; i < sizeof(row); i++)
		row[i / 36][i % 36] = i * 7;
	names.data = row;
	names.bytes = 32;
	names.stride = 36;
	names.nr = 3;
	names.flags = KVMM_NAMES_ARE_HASHES;
	cr_assert_eq(kvmm_keys_of_names(&names, keys), 0);
	for (u32 i = 0; i < 3; i++) {
		memcpy(digest.byte, row[i], sizeof(digest.byte));
		key = kvmm_key_of_digest(&digest);
		cr_expect(same_key(&key, &keys[i]), "%u", i);
	}
	names.bytes = 16;
	cr_assert_eq(kvmm_keys_of_names(&names, keys), 0);
	cr_expect(!memcmp(&keys[2], row[2], 16), "16 bytes are a key as they are");
	names.flags = 0;
	names.bytes = 36;
	names.stride = 0;
	cr_assert_eq(kvmm_keys_of_names(&names, keys), 0);
	for (u32 i = 0; i < 3; i++) {
		cr_assert_eq(kvmm_key_of_bytes(row[i], 36, NULL, &key), 0);
		cr_expect(same_key(&key, &keys[i]), "%u", i);
	}
}

Test(key, bad_rows_of_names_are_refused)
{
	struct kvmm_key_names names = KVMM_KEY_NAMES_INIT, good = names;
	kvmm_key_t key = { { 0x5a } }, before = key;
	u8 bytes[64] = { 0 };

	good.data = bytes;
	good.bytes = 32;
	good.nr = 1;
#define expect_no_name(change) do { \
		names = good; \
		change; \
		cr_expect_eq(kvmm_keys_of_names(&names, &key), -EINVAL); \
	} while (0)
	expect_no_name(names.size--);
	expect_no_name(names.data = NULL);
	expect_no_name(names.stride = 31);
	expect_no_name(names.flags = 2);
	expect_no_name(names.bytes = SIZE_MAX);
	good.flags = KVMM_NAMES_ARE_HASHES;
	expect_no_name(names.bytes = 15);
	expect_no_name(names.bytes = 65);
	expect_no_name(names.secret = bytes);
	cr_expect_eq(kvmm_keys_of_names(NULL, &key), -EINVAL);
	cr_expect_eq(kvmm_keys_of_names(&good, NULL), -EINVAL);
	cr_expect(same_key(&key, &before));
	good.nr = 0;
	cr_expect_eq(kvmm_keys_of_names(&good, NULL), 0);
}

Test(key, names_are_never_cut)
{
	u8 name[KVMM_KEY_MAX_NAME + 1] = { 0 };
	kvmm_key_t key, other;

	cr_assert_eq(kvmm_key_of_bytes(name, 64, NULL, &key), 0);
	name[63] = 1;
	cr_assert_eq(kvmm_key_of_bytes(name, 64, NULL, &other), 0);
	cr_expect(memcmp(&key, &other, sizeof(key)), "the last byte counts");
	cr_assert_eq(kvmm_key_of_bytes(name, 63, NULL, &other), 0);
	cr_expect(memcmp(&key, &other, sizeof(key)), "and so does the length");
	other = key;
	cr_expect_eq(kvmm_key_of_bytes(name, 65, NULL, &key), -EINVAL);
	cr_expect_eq(kvmm_key_of_bytes(name, 7, NULL, &key), -EINVAL);
	cr_expect_eq(kvmm_key_of_bytes(NULL, 8, NULL, &key), -EINVAL);
	cr_expect_eq(kvmm_key_of_bytes(name, 8, NULL, NULL), -EINVAL);
	cr_expect(!memcmp(&key, &other, sizeof(key)), "untouched");
}
