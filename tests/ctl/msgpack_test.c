// SPDX-License-Identifier: Apache-2.0
/* MessagePack: each value in the fewest bytes, read back, and refused when it is cut short. */
#include "ctl/msgpack.h"
#include "tests/support/test.h"
#include "tools/events/unpack.h"

static u8 buf[70000];
static struct pack pack;

static void set_up(void)
{
	pack = (struct pack){ .buf = buf, .room = sizeof(buf) };
}

TestSuite(msgpack, .init = set_up);

static struct unpacked read_back(size_t bytes)
{
	struct unpack unpack = { buf, pack.len, 0 };
	struct unpacked value;

	cr_assert(!pack.full);
	cr_assert_eq(pack.len, bytes, "%zu, not %zu bytes", pack.len, bytes);
	for (size_t cut = 0; cut < bytes; cut++) {
		struct unpack part = { buf, cut, 0 };

		cr_assert_eq(unpack_next(&part, &value), -EBADMSG);
	}
	cr_assert_eq(unpack_next(&unpack, &value), 0);
	cr_assert_eq(unpack.at, bytes);
	pack.len = 0;
	return value;
}

Test(msgpack, unsigned_numbers_take_what_they_need)
{
	static const struct { u64 value; u32 bytes; } row[] = {
		{ 0, 1 }, { 127, 1 }, { 128, 2 }, { 255, 2 }, { 256, 3 }, { 65535, 3 },
		{ 65536, 5 }, { UINT32_MAX, 5 }, { 1ull << 32, 9 }, { UINT64_MAX, 9 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(row); i++) {
		struct unpacked value;

		pack_uint(&pack, row[i].value);
		value = read_back(row[i].bytes);
		cr_expect_eq(value.type, UNPACK_UINT);
		cr_expect_eq(value.number, row[i].value);
	}
}

Test(msgpack, signed_numbers_take_what_they_need)
{
	static const struct { s64 value; u32 bytes; } row[] = {
		{ -1, 1 }, { -32, 1 }, { -33, 2 }, { -128, 2 }, { -129, 3 }, { -32768, 3 },
		{ -32769, 5 }, { INT32_MIN, 5 }, { INT32_MIN - 1ll, 9 }, { INT64_MIN, 9 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(row); i++) {
		struct unpacked value;

		pack_int(&pack, row[i].value);
		value = read_back(row[i].bytes);
		cr_expect_eq(value.type, UNPACK_INT);
		cr_expect_eq((s64)value.number, row[i].value);
	}
}

Test(msgpack, text_and_bytes_of_all_lengths)
{
	static const struct { u32 nr, text, bin; } row[] = {
		{ 0, 1, 2 }, { 31, 1, 2 }, { 32, 2, 2 }, { 255, 2, 2 }, { 256, 3, 3 },
		{ 65535, 3, 3 }, { 65536, 5, 5 },
	};
	static char text[65537];

	memset(text, 'x', sizeof(text));
	for (u32 i = 0; i < ARRAY_SIZE(row); i++) {
		u32 nr = row[i].nr;
		struct unpacked value;

		text[nr] = '\0';
		pack_str(&pack, text);
		value = read_back(row[i].text + nr);
		cr_expect(unpacked_is(&value, text));
		pack_bin(&pack, text, nr);
		value = read_back(row[i].bin + nr);
		cr_expect(value.type == UNPACK_BIN && value.nr == nr);
		text[nr] = 'x';
	}
}

Test(msgpack, heads_of_arrays_and_maps)
{
	static const struct { u32 nr, bytes; } row[] = {
		{ 0, 1 }, { 15, 1 }, { 16, 3 }, { 65535, 3 }, { 65536, 5 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(row); i++) {
		struct unpacked value;

		pack_array(&pack, row[i].nr);
		value = read_back(row[i].bytes);
		cr_expect(value.type == UNPACK_ARRAY && value.nr == row[i].nr);
		pack_map(&pack, row[i].nr);
		value = read_back(row[i].bytes);
		cr_expect(value.type == UNPACK_MAP && value.nr == row[i].nr);
	}
}

Test(msgpack, nothing_and_fractions)
{
	pack_nil(&pack);
	cr_expect_eq(read_back(1).type, UNPACK_NIL);
	pack_f64(&pack, -2.5);
	cr_expect_eq(read_back(9).real, -2.5);
}

/* What others write, and we do not. */
Test(msgpack, foreign_values_are_read)
{
	static const u8 foreign[] = { 0xc3, 0xca, 0x3f, 0xc0, 0, 0, 0xd4, 1, 2, 0xc7, 1, 5, 9, 0xd3,
				      0, 0, 0, 0, 0, 0, 0, 7 };
	static const u8 types[] = { UNPACK_BOOL, UNPACK_F64, UNPACK_EXT, UNPACK_EXT, UNPACK_UINT };
	struct unpack unpack = { foreign, sizeof(foreign), 0 };
	struct unpacked value;

	for (u32 i = 0; i < ARRAY_SIZE(types); i++) {
		cr_assert_eq(unpack_next(&unpack, &value), 0);
		cr_expect_eq(value.type, types[i], "%u", i);
	}
	cr_expect_eq(value.number, 7);
	cr_expect_eq(unpack.at, sizeof(foreign));
	unpack = (struct unpack){ (const u8 *)"\xc2", 1, 0 };
	cr_assert_eq(unpack_next(&unpack, &value), 0);
	cr_expect(value.type == UNPACK_BOOL && !value.number);
}

Test(msgpack, skipping_is_bounded)
{
	static const u8 huge[] = { 0xdd, 0xff, 0xff, 0xff, 0xff, 1 }, never[] = { 0xc1 };
	struct unpack unpack = { huge, sizeof(huge), 0 };
	u8 deep[32];

	cr_expect_eq(unpack_skip(&unpack), -EBADMSG);
	unpack = (struct unpack){ never, 1, 0 };
	cr_expect_eq(unpack_skip(&unpack), -EBADMSG);
	memset(deep, 0x91, sizeof(deep));
	unpack = (struct unpack){ deep, sizeof(deep), 0 };
	cr_expect_eq(unpack_skip(&unpack), -EBADMSG);
	deep[15] = 0xc0;	/* 15 in one another, and something in the last */
	unpack = (struct unpack){ deep, sizeof(deep), 0 };
	cr_expect_eq(unpack_skip(&unpack), 0);
	cr_expect_eq(unpack.at, 16);
	pack_map(&pack, 2);
	pack_nil(&pack);
	pack_array(&pack, 2);
	pack_nil(&pack);
	pack_array(&pack, 0);
	pack_uint(&pack, 3);
	pack_nil(&pack);
	unpack = (struct unpack){ buf, pack.len, 0 };
	cr_expect_eq(unpack_skip(&unpack), 0);
	cr_expect_eq(unpack.at, pack.len);
}

Test(msgpack, full_memory_is_not_overrun)
{
	pack = (struct pack){ .buf = buf, .room = 4 };
	memset(buf, 0xee, 16);
	pack_uint(&pack, UINT64_MAX);
	pack_nil(&pack);
	cr_expect(pack.full);
	cr_expect_eq(pack.len, 0);
	cr_expect_eq(buf[0], 0xee);
	pack = (struct pack){ .buf = buf, .room = 9 };
	pack_uint(&pack, UINT64_MAX);
	cr_expect(!pack.full, "to the last byte");
}
