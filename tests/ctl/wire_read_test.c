// SPDX-License-Identifier: Apache-2.0
/* Batches that others have written, field by field: what is taken, what is passed over, what is refused. */
#include "ctl/wire.h"
#include "tests/support/test.h"
#include "tools/events/wire_read.h"

#define MAX	8u

static u8 buf[1024];
static struct pack pack;
static struct wire_event event[MAX];
static u64 hash[MAX];
static u32 token[MAX];
static struct wire_batch batch;

static void begin(void)
{
	pack = (struct pack){ .buf = buf, .room = sizeof(buf) };
	memset(event, 0xee, sizeof(event));
	memset(hash, 0xee, sizeof(hash));
	memset(token, 0xee, sizeof(token));
	batch = (struct wire_batch){ .event = event, .max_events = MAX,
					  .hash = hash, .max_hashes = MAX, .token = token,
					  .max_tokens = MAX };
}

TestSuite(wire_read, .init = begin);

/* Of so many values, the last of which are still to be written; with so many events. */
static void head(u32 nr_values, u32 nr_events)
{
	pack_array(&pack, nr_values);
	pack_f64(&pack, 1.5);
	pack_array(&pack, nr_events);
}

static void numbers(u32 nr, const u64 *number)
{
	pack_array(&pack, nr);
	for (u32 i = 0; i < nr; i++)
		pack_uint(&pack, number[i]);
}

/* An array up to its hash, of which there is one. */
static void removed(u32 nr_fields, u64 number)
{
	pack_array(&pack, 1 + nr_fields);
	pack_str(&pack, "BlockRemoved");
	numbers(1, &number);
}

static void stored(u64 number, u32 nr_tokens, u64 first_token)
{
	pack_array(&pack, 4);
	pack_str(&pack, "BlockStored");
	numbers(1, &number);
	pack_uint(&pack, number - 1);
	pack_array(&pack, nr_tokens);
	for (u32 i = 0; i < nr_tokens; i++)
		pack_uint(&pack, first_token + i);
}

static s64 decode(void)
{
	s64 used;

	cr_assert(!pack.full);
	used = wire_read(buf, pack.len, &batch);
	pack.len = 0;
	return used;
}

/* ---- what is taken ---- */

Test(wire_read, a_hash_is_a_number_or_the_end_of_bytes)
{
	static const u8 bytes[] = { 9, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8 };

	head(3, 1);
	pack_array(&pack, 3);
	pack_str(&pack, "BlockRemoved");
	pack_array(&pack, 4);
	pack_uint(&pack, 7);
	pack_int(&pack, -2);
	pack_bin(&pack, bytes, sizeof(bytes));
	pack_bin(&pack, bytes + 8, 3);
	pack_str(&pack, "CPU_PINNED");
	pack_uint(&pack, 5);
	cr_assert_gt(decode(), 0);
	cr_expect_eq(event[0].nr_hashes, 4);
	cr_expect_eq(hash[0], 7);
	cr_expect_eq(hash[1], (u64)-2);
	cr_expect_eq(hash[2], 0x0102030405060708ull);
	cr_expect_eq(hash[3], 0x010203u);
	cr_expect_eq(event[0].medium, KVMM_MEDIUM_HOST);
	cr_expect_eq(batch.rank, 5);
	cr_expect_eq(batch.seconds, 1.5);
}

Test(wire_read, each_event_has_its_own_part_of_hashes_and_tokens)
{
	head(2, 3);
	removed(1, 3);
	stored(5, 2, 100);
	stored(7, 3, 200);
	cr_assert_gt(decode(), 0);
	cr_expect_eq(batch.nr_events, 3);
	cr_expect_eq(batch.nr_hashes, 3);
	cr_expect_eq(batch.nr_tokens, 5);
	cr_expect_eq(batch.rank, WIRE_NONE);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(hash[event[i].first_hash], 3 + 2 * i);
	cr_expect_eq(token[event[1].first_token], 100);
	cr_expect_eq(token[event[2].first_token + 2], 202);
	cr_expect_eq(event[0].has_parent, false);
	cr_expect_eq(event[1].has_parent, true);
	cr_expect_eq(event[2].parent, 6);
	cr_expect_eq(event[0].medium, KVMM_NR_MEDIA, "not said");
}

/* ---- what is passed over ---- */

Test(wire_read, what_is_not_known_is_left_out)
{
	head(4, 2);
	pack_array(&pack, 3);
	pack_str(&pack, "BlockAdmired");
	pack_array(&pack, 1);
	pack_map(&pack, 0);
	pack_nil(&pack);
	removed(5, 3);
	pack_str(&pack, "TAPE");
	pack_nil(&pack);
	pack_bin(&pack, "x", 1);
	pack_uint(&pack, 1);
	pack_nil(&pack);	/* rank */
	pack_map(&pack, 0);
	cr_assert_gt(decode(), 0);
	cr_expect_eq(batch.nr_events, 1);
	cr_expect_eq(event[0].kind, KVMM_EVENT_REMOVED);
	cr_expect_eq(event[0].medium, KVMM_NR_MEDIA);
	cr_expect_eq(event[0].group, 0);
	cr_expect_eq(batch.rank, WIRE_NONE);
}

Test(wire_read, a_map_may_say_its_type_last_and_more_than_we_know)
{
	static const u64 number = 3;

	head(2, 1);
	pack_map(&pack, 3);
	pack_str(&pack, "colour");
	pack_array(&pack, 0);
	pack_str(&pack, "block_hashes");
	numbers(1, &number);
	pack_str(&pack, "type");
	pack_str(&pack, "BlockRemoved");
	cr_assert_gt(decode(), 0);
	cr_expect_eq(event[0].kind, KVMM_EVENT_REMOVED);
	cr_expect_eq(hash[0], 3);
}

Test(wire_read, what_follows_a_batch_is_not_looked_at)
{
	s64 nr;

	head(2, 0);
	nr = pack.len;
	pack_nil(&pack);
	cr_expect_eq(decode(), nr);
}

/* ---- want of room ---- */

Test(wire_read, what_has_no_room_is_counted_and_not_written)
{
	for (u32 few = 0; few < 3; few++) {
		begin();
		batch.max_events = few == 0 ? 1 : MAX;
		batch.max_hashes = few == 1 ? 1 : MAX;
		batch.max_tokens = few == 2 ? 3 : MAX;
		head(2, 2);
		stored(5, 2, 100);
		stored(7, 2, 200);
		cr_expect_eq(decode(), -ENOSPC);
		cr_expect_eq(batch.nr_events, 2);
		cr_expect_eq(batch.nr_hashes, 2);
		cr_expect_eq(batch.nr_tokens, 4);
		cr_expect_eq(hash[1] == 7, few != 1);
		cr_expect_eq(token[3] == 201, few != 2);
		cr_expect_eq(event[1].nr_hashes == 1, few != 0);
	}
}

Test(wire_read, who_wants_no_hashes_need_not_have_room_for_them)
{
	batch.hash = NULL;
	batch.token = NULL;
	batch.max_hashes = batch.max_tokens = 0;
	head(2, 1);
	pack_array(&pack, 1);
	pack_str(&pack, "AllBlocksCleared");
	cr_expect_gt(decode(), 0);
}

/* ---- what is no batch ---- */

#define STAMP	"\xcb\x3f\xf8\0\0\0\0\0\0"	/* 1.5 */
#define EVENT	"\x92" STAMP "\x91"		/* of two values; one event follows */
#define REMOVED	"\xac" "BlockRemoved"
#define STORED	"\xab" "BlockStored"
#define CLEARED	"\xb0" "AllBlocksCleared"
#define ONE	"\x91\x03"			/* an array of a 3 */
#define BYTES(name, bytes)	{ name, bytes, sizeof(bytes) - 1 }

Test(wire_read, what_is_no_batch_is_refused)
{
	static const struct { const char *name, *bytes; size_t nr; } row[] = {
		BYTES("text as hash", EVENT "\x92" REMOVED "\x91\xa8" "12345678"),
		BYTES("text as hashes", EVENT "\x92" REMOVED "\xa0"),
		BYTES("text as tokens", EVENT "\x94" STORED ONE "\xc0\xa0"),
		BYTES("text as token", EVENT "\x94" STORED ONE "\x02\x91\xa0"),
		BYTES("wide token", EVENT "\x94" STORED ONE "\x02\x91\xcf\0\0\0\x01\0\0\0\0"),
		BYTES("number as medium", EVENT "\x93" REMOVED ONE "\0"),
		BYTES("text as group", EVENT "\x94" REMOVED ONE "\xc0\xa0"),
		BYTES("number as kind", EVENT "\x91\0"),
		BYTES("nothing as event", EVENT "\x90"),
		BYTES("text as event", EVENT CLEARED),
		BYTES("map without type", EVENT "\x81\xa6" "medium" "\xc0"),
		BYTES("number as name", EVENT "\x82\xa4" "type" CLEARED "\0\xc0"),
		BYTES("stamp alone", "\x91" STAMP "\x90"),
		BYTES("number as stamp", "\x92\x01\x90"),
		BYTES("map as events", "\x92" STAMP "\x80"),
		BYTES("text as rank", "\x93" STAMP "\x90\xa0"),
		BYTES("half a rest", "\x94" STAMP "\x90\xc0"),
	};

	for (u32 i = 0; i < ARRAY_SIZE(row); i++)
		cr_expect_eq(wire_read(row[i].bytes, row[i].nr, &batch), -EBADMSG, "%s", row[i].name);
}
