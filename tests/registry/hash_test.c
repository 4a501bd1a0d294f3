// SPDX-License-Identifier: Apache-2.0
/*
 * The hashes under keys, against the examples of those who defined them: FIPS 180-4 for SHA-256,
 * the 64 vectors that come with SipHash, RFC 8949 for CBOR.
 */
#include "key/cbor.h"
#include "key/digest.h"
#include "tests/support/test.h"

struct hex {
	char text[2 * DIGEST_BUF + 1];
};

static struct hex hex_of(const u8 *byte, size_t nr)
{
	struct hex hex = { "" };

	for (size_t i = 0; i < nr; i++)
		snprintf(hex.text + 2 * i, 3, "%02x", byte[i]);
	return hex;
}

/* Fed in pieces of @piece bytes. */
static void sha256(const struct digest_ops *ops, const void *data, size_t bytes, size_t piece,
		   u8 result[DIGEST_BYTES])
{
	const u8 *byte = data;
	struct digest digest;

	kv_digest_begin(&digest, ops, &kv_sha256_start, 0);
	for (size_t n; bytes; bytes -= n, byte += n) {
		n = min(bytes, piece);
		kv_digest_put(&digest, byte, n);
	}
	kv_digest_finish(&digest, result);
}

static void expect_sha256(const char *text, const char *expected)
{
	const struct digest_ops *ops[] = { &kv_sha256_portable, kv_sha256_native() };
	u8 result[DIGEST_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(ops) && ops[i]; i++) {
		for (size_t piece = 1; piece < 70; piece += 7) {
			sha256(ops[i], text, strlen(text), piece, result);
			cr_expect_str_eq(hex_of(result, 32).text, expected, "way %zu", i);
		}
	}
}

Test(sha256, gives_the_results_of_the_standard)
{
	expect_sha256("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	expect_sha256("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	expect_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	expect_sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
		      "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

Test(sha256, gives_the_result_of_the_standard_for_a_million_a)
{
	static char text[1000001];

	memset(text, 'a', sizeof(text) - 1);
	expect_sha256(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Around each length at which padding takes another chunk or the buffer drains. */
Test(sha256, is_the_same_with_the_processors_instructions)
{
	const struct digest_ops *native = kv_sha256_native();
	u8 data[600], expected[DIGEST_BYTES], result[DIGEST_BYTES];

	if (!native)
		cr_skip_test("this processor has none");
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = i * i + 31 * i;
	for (size_t bytes = 0; bytes <= sizeof(data); bytes++) {
		sha256(&kv_sha256_portable, data, bytes, 64, expected);
		sha256(native, data, bytes, 1 + bytes % 97, result);
		cr_assert(!memcmp(result, expected, sizeof(result)), "%zu bytes", bytes);
	}
}

Test(sha256, two_messages_at_a_time_are_as_one_after_the_other)
{
	const struct digest_ops *ops[] = { &kv_sha256_portable, kv_sha256_native() };
	union digest_state one[2] = { kv_sha256_start, kv_sha256_start }, two[2];
	u8 chunk[2][DIGEST_CHUNK];

	for (size_t i = 0; i < ARRAY_SIZE(ops) && ops[i]; i++) {
		for (u32 round = 0; round < 100; round++) {
			memset(chunk[0], round, DIGEST_CHUNK);
			memcpy(chunk[1], &one[0], sizeof(one[0]));
			memcpy(chunk[1] + sizeof(one[0]), &one[1], sizeof(one[1]));
			memcpy(two, one, sizeof(two));
			ops[i]->absorb_two(two, (const u8 *[]){ chunk[0], chunk[1] });
			kv_sha256_portable.absorb(&one[0], chunk[0], 1);
			kv_sha256_portable.absorb(&one[1], chunk[1], 1);
			cr_assert(!memcmp(one, two, sizeof(two)), "way %zu, round %u", i, round);
		}
	}
}

Test(sha256, takes_the_fastest_way_that_there_is)
{
	const struct digest_ops *native = kv_sha256_native();

	cr_expect_eq(kv_sha256(), native ? native : &kv_sha256_portable);
}

/* Key and message are 0, 1, 2, ... */
static void siphash(const struct digest_ops *ops, size_t bytes, size_t piece, u8 result[16])
{
	u8 count[DIGEST_BUF];
	union digest_state state;
	struct digest digest;

	for (size_t i = 0; i < sizeof(count); i++)
		count[i] = i;
	kv_siphash_key(&state, count);
	kv_digest_begin(&digest, ops, &state, 0);
	for (size_t at = 0; at < bytes; at += piece)
		kv_digest_put(&digest, count + at, min(piece, bytes - at));
	kv_digest_finish(&digest, result);
}

/* The results of all 64 lengths in a row, of which @sum is the SHA-256. */
static void expect_siphash(const struct digest_ops *ops, const char *sum)
{
	u8 all[64][16], result[DIGEST_BYTES];

	for (size_t piece = 1; piece < 70; piece += 7) {
		for (size_t bytes = 0; bytes < 64; bytes++)
			siphash(ops, bytes, piece, all[bytes]);
		sha256(&kv_sha256_portable, all, sizeof(all), 64, result);
		cr_expect_str_eq(hex_of(result, 32).text, sum, "pieces of %zu", piece);
	}
}

/* The second sum is that of the computation in keys.py with other numbers of rounds. */
Test(siphash, gives_all_results_of_the_reference_in_pieces_of_any_length)
{
	expect_siphash(&kv_siphash24,
		       "ecfaa9fe47ff788fa834a9863ea2715a2880cd37d2b8c3c194402838428119b9");
	expect_siphash(&kv_siphash13,
		       "58cbba5178d829c27ef56e1b54bdf3db60957320e97f2fd6c8b270a7eecc0cca");
}

static void begin(struct digest *digest)
{
	kv_digest_begin(digest, &kv_sha256_portable, &kv_sha256_start, 0);
}

static void expect_written(const struct digest *digest, const char *expected)
{
	cr_expect_str_eq(hex_of(digest->buf, digest->fill).text, expected);
}

static void expect_int(s64 value, const char *expected)
{
	struct digest digest;

	begin(&digest);
	kv_cbor_int(&digest, value);
	expect_written(&digest, expected);
}

/* The examples of RFC 8949, appendix A, and the numbers on either side of each border. */
Test(cbor, writes_numbers_in_the_fewest_bytes)
{
	expect_int(0, "00");
	expect_int(23, "17");
	expect_int(24, "1818");
	expect_int(255, "18ff");
	expect_int(256, "190100");
	expect_int(65535, "19ffff");
	expect_int(65536, "1a00010000");
	expect_int(1000000, "1a000f4240");
	expect_int(4294967295, "1affffffff");
	expect_int(4294967296, "1b0000000100000000");
	expect_int(1000000000000, "1b000000e8d4a51000");
	expect_int(-1, "20");
	expect_int(-10, "29");
	expect_int(-24, "37");
	expect_int(-25, "3818");
	expect_int(-1000, "3903e7");
	expect_int(INT64_MIN, "3b7fffffffffffffff");
}

Test(cbor, writes_arrays_as_it_writes_their_numbers)
{
	const u32 value[] = { 0, 23, 24, 255, 256, 65535, 65536, 4294967295 };
	struct digest digest;

	begin(&digest);
	kv_cbor_u32_array(&digest, value, ARRAY_SIZE(value));
	expect_written(&digest, "88" "00" "17" "1818" "18ff" "190100" "19ffff" "1a00010000"
		       "1affffffff");
}

Test(cbor, writes_strings_and_null)
{
	struct digest digest;

	begin(&digest);
	kv_cbor_string(&digest, CBOR_BYTES, "\1\2\3\4", 4);
	kv_cbor_string(&digest, CBOR_TEXT, "IETF", 4);
	kv_cbor_string(&digest, CBOR_TEXT, "", 0);
	kv_cbor_head(&digest, CBOR_ARRAY, 25);
	kv_cbor_null(&digest);
	expect_written(&digest, "4401020304" "6449455446" "60" "9819" "f6");
}

/* Five bytes a number: some head falls on each place of the buffer's end. */
Test(cbor, loses_nothing_where_the_buffer_ends)
{
	u8 plain[1 + 5 * 23], result[DIGEST_BYTES], expected[DIGEST_BYTES];
	u8 all[64 * sizeof(plain)];
	struct digest digest;
	u32 value[23];

	plain[0] = 0x97;
	for (u32 i = 0; i < ARRAY_SIZE(value); i++) {
		value[i] = 0x01020300 + i;
		memcpy(plain + 1 + 5 * i, (u8[]){ 0x1a, 1, 2, 3, i }, 5);
	}
	begin(&digest);
	for (u32 i = 0; i < 64; i++) {
		kv_cbor_u32_array(&digest, value, ARRAY_SIZE(value));
		memcpy(all + i * sizeof(plain), plain, sizeof(plain));
	}
	kv_digest_finish(&digest, result);
	sha256(&kv_sha256_portable, all, sizeof(all), 64, expected);
	cr_expect(!memcmp(result, expected, sizeof(result)));
}
