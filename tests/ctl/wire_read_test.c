// SPDX-License-Identifier: Apache-2.0
/* Batches that others have written, field by field: what is taken, what is passed over, what is refused. */
#include "ctl/wire.h"
#include "tests/support/test.h"

#define MAX	8u

static u8 buf[1024];
static struct pack pack;
static struct kvmm_wire_event event[MAX];
static u64 hash[MAX];
static u32 token[MAX];
static struct kvmm_wire_batch batch;

static void begin(void)
{
	pack = (struct pack){ .buf = buf, .room = sizeof(buf) };
	memset(event, 0xee, sizeof(event));
	memset(hash, 0xee, sizeof(hash));
	memset(token, 0xee, sizeof(token));
	batch = (struct kvmm_wire_batch){ .size = sizeof(batch), .event = event, .max_events = MAX,
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
	used = kvmm_wire_decode(buf, pack.len, &batch);
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
	cr_expect_eq(batch.rank, KVMM_WIRE_NONE);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(hash[event[i].first_hash], 3 + 2 * i);
	cr_expect_eq(token[event[1].first_token], 100);
	cr_expect_eq(token[event[2].first_token + 2], 202);
	cr_expect_eq(event[0].flags, 0);
	cr_expect_eq(event[1].flags, KVMM_EVENT_HAS_PARENT);
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
	cr_expect_eq(batch.rank, KVMM_WIRE_NONE);
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
	struct wire_batch whole = { .max = 0 };
	s64 nr;

	head(2, 0);
	nr = pack.len;
	pack_nil(&pack);
	cr_expect_eq(wire_read(buf, pack.len, &whole), -EBADMSG);
	cr_expect_eq(wire_read(buf, nr, &whole), 0);
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

Test(wire_read, bad_calls_are_refused)
{
	const struct kvmm_wire_batch good = batch;

	head(2, 0);
	cr_expect_eq(kvmm_wire_decode(NULL, 1, &batch), -EINVAL);
	cr_expect_eq(kvmm_wire_decode(buf, 1, NULL), -EINVAL);
	batch.size--;
	cr_expect_eq(kvmm_wire_decode(buf, pack.len, &batch), -EINVAL);
	batch = good;
	batch.event = NULL;
	cr_expect_eq(kvmm_wire_decode(buf, pack.len, &batch), -EINVAL);
	batch = good;
	batch.hash = NULL;
	cr_expect_eq(kvmm_wire_decode(buf, pack.len, &batch), -EINVAL);
	batch = good;
	batch.token = NULL;
	cr_expect_eq(kvmm_wire_decode(buf, pack.len, &batch), -EINVAL);
}

/* ---- what is no batch ---- */

static void text_as_hash(void)
{
	head(2, 1);
	pack_array(&pack, 2);
	pack_str(&pack, "BlockRemoved");
	pack_array(&pack, 1);
	pack_str(&pack, "12345678");
}

static void text_as_hashes(void)
{
	head(2, 1);
	pack_array(&pack, 2);
	pack_str(&pack, "BlockRemoved");
	pack_str(&pack, "");
}

static void text_as_tokens(void)
{
	static const u64 number = 3;

	head(2, 1);
	pack_array(&pack, 4);
	pack_str(&pack, "BlockStored");
	numbers(1, &number);
	pack_nil(&pack);
	pack_str(&pack, "");
}

static void text_as_token(void)
{
	head(2, 1);
	stored(3, 1, 0);
	pack.len--;
	pack_str(&pack, "");
}

static void wide_token(void)
{
	head(2, 1);
	stored(3, 1, 1ull << 32);
}

static void number_as_medium(void)
{
	head(2, 1);
	removed(2, 3);
	pack_uint(&pack, 0);
}

static void text_as_group(void)
{
	head(2, 1);
	removed(3, 3);
	pack_nil(&pack);
	pack_str(&pack, "");
}

static void number_as_kind(void)
{
	head(2, 1);
	pack_array(&pack, 1);
	pack_uint(&pack, 0);
}

static void nothing_as_event(void)
{
	head(2, 1);
	pack_array(&pack, 0);
}

static void text_as_event(void)
{
	head(2, 1);
	pack_str(&pack, "AllBlocksCleared");
}

static void map_without_type(void)
{
	head(2, 1);
	pack_map(&pack, 1);
	pack_str(&pack, "medium");
	pack_nil(&pack);
}

static void number_as_name(void)
{
	head(2, 1);
	pack_map(&pack, 2);
	pack_str(&pack, "type");
	pack_str(&pack, "AllBlocksCleared");
	pack_uint(&pack, 0);
	pack_nil(&pack);
}

static void stamp_alone(void)
{
	pack_array(&pack, 1);
	pack_f64(&pack, 1.5);
	pack_array(&pack, 0);
}

static void number_as_stamp(void)
{
	pack_array(&pack, 2);
	pack_uint(&pack, 1);
	pack_array(&pack, 0);
}

static void map_as_events(void)
{
	pack_array(&pack, 2);
	pack_f64(&pack, 1.5);
	pack_map(&pack, 0);
}

static void text_as_rank(void)
{
	head(3, 0);
	pack_str(&pack, "");
}

static void half_a_rest(void)
{
	head(4, 0);
	pack_nil(&pack);
}

Test(wire_read, what_is_no_batch_is_refused)
{
	static void (*const write[])(void) = {
		text_as_hash, text_as_hashes, text_as_tokens, text_as_token, wide_token,
		number_as_medium, text_as_group, number_as_kind, nothing_as_event, text_as_event,
		map_without_type, number_as_name, stamp_alone, number_as_stamp, map_as_events,
		text_as_rank, half_a_rest,
	};

	for (u32 i = 0; i < ARRAY_SIZE(write); i++) {
		write[i]();
		cr_expect_eq(decode(), -EBADMSG, "number %u", i);
	}
}
