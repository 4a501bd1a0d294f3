// SPDX-License-Identifier: Apache-2.0
/*
 * Keys of "vllm-sha256-cbor" are the hashes that vLLM itself computes: vllm_golden.h, which
 * vllm_golden.py makes and compares. wire_test.c has their numbers in events.
 */
#include "tests/registry/vllm_cases.h"
#include "tests/support/cleanup.h"

#define BYTES(text)	{ text, sizeof(text) - 1 }

static const struct kvmm_key_attr plain = { .size = sizeof(plain), .algo = "vllm-sha256-cbor" };

static struct kvmm_key_attr with_lora(void)
{
	struct kvmm_key_attr attr = plain;

	attr.lora = (struct kvmm_key_bytes)BYTES("adapter");
	attr.lora_path = (struct kvmm_key_bytes)BYTES("/adapters/a");
	return attr;
}

static struct kvmm_key_attr with_salt(const char *salt)
{
	struct kvmm_key_attr attr = plain;

	attr.salt = (struct kvmm_key_bytes){ salt, strlen(salt) };
	return attr;
}

/* All tokens, and @nr of extras from @first on. */
static struct kvmm_key_seq seq_with(u32 first, u32 nr)
{
	struct kvmm_key_seq seq = { .size = sizeof(seq), .tokens = vllm_tokens, .nr_tokens = 48 };

	seq.extras = vllm_extras + first;
	seq.nr_extras = nr;
	return seq;
}

static struct kvmm_key_ctx *create(const struct kvmm_key_attr *attr)
{
	struct kvmm_key_ctx *ctx = NULL;

	cr_assert_eq(kvmm_key_ctx_create(attr, &ctx), 0);
	return ctx;
}

static void expect_golden(const char *name, const struct kvmm_key_attr *attr,
			  const struct kvmm_key_seq *seq)
{
	struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = create(attr);
	kvmm_digest_t digests[3];
	kvmm_key_t keys[3], key;
	char text[65];

	cr_assert_eq(kvmm_key_hash(ctx, seq, keys, digests, 3), 3);
	for (u32 i = 0; i < 3; i++) {
		for (u32 j = 0; j < 32; j++)
			snprintf(text + 2 * j, 3, "%02x", digests[i].byte[j]);
		cr_expect_str_eq(text, vllm_case(name)->hash[i], "%s, block %u", name, i);
		key = kvmm_key_of_digest(&digests[i]);
		cr_expect(!memcmp(&key, &keys[i], sizeof(key)), "%s, block %u", name, i);
	}
}

/* With the name or the salt of another thing, and with other offsets, they would be others. */
Test(vllm, blocks_have_the_hashes_of_the_engine)
{
	struct kvmm_key_attr all = with_lora(), lora = with_lora();
	struct kvmm_key_attr pepper = with_salt("pepper"), adapter = with_salt("adapter");
	struct kvmm_key_seq bare = seq_with(0, 0), images = seq_with(0, 2), embeds = seq_with(2, 3);
	struct kvmm_key_seq both = seq_with(0, 5);

	all.salt = pepper.salt;
	expect_golden("plain", &plain, &bare);
	expect_golden("lora", &lora, &bare);
	expect_golden("salt", &pepper, &bare);
	expect_golden("lora_as_salt", &adapter, &bare);
	expect_golden("images", &plain, &images);
	expect_golden("embeds", &plain, &embeds);
	expect_golden("everything", &all, &both);
}

static const kvmm_digest_t none_hash_of_0 = { {
	0x4e, 0x11, 0x95, 0xdf, 0x02, 0x0d, 0xe5, 0x9e, 0x0d, 0x65, 0xa3, 0x3a, 0x42, 0x79, 0xf1, 0x18,
	0x3e, 0x7a, 0xe4, 0xe5, 0xd9, 0x80, 0xe3, 0x09, 0xf8, 0xb5, 0x5a, 0xdf, 0xf2, 0xe6, 0x1c, 0x3e,
} };

Test(vllm, root_may_be_given_as_seed_or_as_hash)
{
	struct kvmm_key_attr by_seed = plain, by_root = plain;
	struct kvmm_key_seq seq = seq_with(0, 0);

	by_seed.vllm_seed = (struct kvmm_key_bytes)BYTES("0");
	by_root.vllm_root = &none_hash_of_0;
	expect_golden("seed", &by_seed, &seq);
	expect_golden("seed", &by_root, &seq);
	by_seed.vllm_seed = (struct kvmm_key_bytes)BYTES(KVMM_KEY_VLLM_SEED);
	expect_golden("plain", &by_seed, &seq);
}

/* The salt is for the first block of the sequence, not of the call. */
Test(vllm, sequence_is_continued_from_a_whole_digest)
{
	struct kvmm_key_attr attr = with_salt("pepper");
	struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = create(&attr);
	struct kvmm_key_seq all = seq_with(0, 0), tail = all;
	kvmm_digest_t digests[3], again[2];
	kvmm_key_t key;

	cr_assert_eq(kvmm_key_digests(ctx, &all, digests, 3), 3);
	tail.tokens += 16;
	tail.nr_tokens -= 16;
	tail.parent_digest = &digests[0];
	cr_assert_eq(kvmm_key_digests(ctx, &tail, again, 2), 2);
	cr_expect(!memcmp(again, &digests[1], sizeof(again)));

	key = kvmm_key_of_digest(&digests[0]);
	tail.parent = &key;
	cr_expect_eq(kvmm_key_digests(ctx, &tail, again, 2), -EINVAL);
	tail.parent_digest = NULL;
	cr_expect_eq(kvmm_key_digests(ctx, &tail, again, 2), -EINVAL);
}

/* ---- callers' mistakes ---- */

static void expect_no_ctx(const struct kvmm_key_attr *attr)
{
	struct kvmm_key_ctx *const untouched = (void *)&plain, *ctx = untouched;

	cr_expect_eq(kvmm_key_ctx_create(attr, &ctx), -EINVAL);
	cr_expect_eq(ctx, untouched);
}

Test(vllm, attributes_without_room_in_the_format_are_refused)
{
	struct kvmm_key_attr attr, good = with_lora();

#define expect_refused(change)	(attr = good, change, expect_no_ctx(&attr))
	expect_refused(attr.secret[7] = 1);
	expect_refused(attr.group = 1);
	expect_refused(attr.tenant.data = "");
	expect_refused(attr.layout_id.data = "");
	expect_refused(attr.lora_path = attr.salt);		/* vLLM always has one */
	expect_refused(attr.lora = attr.salt);
	expect_refused(attr.vllm_seed.bytes = 1);		/* of nothing */
	good.vllm_seed.data = "";
	expect_refused(attr.vllm_root = &none_hash_of_0);
}

static void expect_no_keys(struct kvmm_key_extra first, struct kvmm_key_extra second)
{
	struct kvmm_key_ctx *ctx __cleanup(kvmm_key_ctx_destroy) = create(&plain);
	struct kvmm_key_extra bad[] = { first, second };
	kvmm_digest_t digests[3] = { { { 0x5a } } }, untouched[3] = { { { 0x5a } } };
	struct kvmm_key_seq seq = seq_with(0, 2);

	seq.extras = bad;
	cr_expect_eq(kvmm_key_digests(ctx, &seq, digests, 3), -EINVAL);
	cr_expect(!memcmp(digests, untouched, sizeof(digests)));
}

static struct kvmm_key_extra extra_of(enum kvmm_key_kind kind, s64 start, s64 nr)
{
	return (struct kvmm_key_extra){ kind, 1, "x", start, nr };
}

Test(vllm, extras_without_room_in_the_format_are_refused)
{
	const struct kvmm_key_extra mm = extra_of(KVMM_KEY_MM, 0, 10);

	expect_no_keys(mm, extra_of(KVMM_KEY_OTHER, 0, 16));
	expect_no_keys(mm, extra_of(KVMM_KEY_SALT, 0, 16));
	expect_no_keys(extra_of(KVMM_KEY_LORA, 0, 16), mm);
	expect_no_keys(mm, extra_of(KVMM_KEY_EMBEDS, 0, 32));
	expect_no_keys(mm, extra_of(KVMM_KEY_EMBEDS, 8, 16));
}
