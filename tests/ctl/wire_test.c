// SPDX-License-Identifier: Apache-2.0
/*
 * Batches as bytes: golden ones, which others' decoders were fed with (tests/ctl/vectors/), what is
 * merged into one event, and that what is written is read.
 */
#include <kvmm/key.h>

#include "ctl/wire.h"
#include "tests/registry/vllm_golden.h"
#include "tests/support/test.h"
#include "tools/events/wire_read.h"

#define VECTORS	"/tests/ctl/vectors/"

/* Big-endian at both ends, so that each format finds one: first the low one, as vLLM has it. */
static kvmm_key_t key_of(u64 last, u64 first)
{
	kvmm_key_t key;

	for (u32 i = 0; i < 8; i++) {
		key.byte[i] = first >> 8 * (7 - i);
		key.byte[8 + i] = last >> 8 * (7 - i);
	}
	return key;
}

static struct kvmm_event stored(u64 number, u32 position)
{
	return (struct kvmm_event){ .key = key_of(number, number), .position = position,
				    .tokens = 4, .kind = KVMM_EVENT_STORED };
}

static struct kvmm_event after(const struct kvmm_event *event, u64 number)
{
	struct kvmm_event next = stored(number, event->position + 1);

	next.parent = event->key;
	next.flags = KVMM_EVENT_HAS_PARENT;
	return next;
}

static u32 read_vector(const char *name, u8 *buf, u32 max)
{
	const char *tree = getenv("KVMM_SRCTREE");
	char path[512], digits[3] = "";
	u32 nr = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s%s%s.hex", tree ? tree : "..", VECTORS, name);
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
	while (nr < max && fscanf(file, "%2s", digits) == 1)
		buf[nr++] = strtoul(digits, NULL, 16);
	fclose(file);
	return nr;
}

static void expect_vector(const char *name, const struct kvmm_wire *wire,
			  const struct kvmm_event *events, u32 nr,
			  const struct kvmm_wire_block *blocks)
{
	u8 want[1024], got[1024];
	struct pack pack = { .buf = got, .room = sizeof(got) };
	u32 bytes = read_vector(name, want, sizeof(want));

	wire_write(wire, 1.5, events, nr, blocks, &pack);
	cr_assert(!pack.full);
	for (u32 i = 0; getenv("KVMM_PRINT_VECTORS") && i < pack.len; i++)
		fprintf(stderr, "%02x%s", got[i], i + 1 < pack.len ? "" : "\n");
	cr_expect_eq(pack.len, bytes, "%s: %zu, not %u bytes", name, pack.len, bytes);
	cr_expect(!memcmp(got, want, min((u32)pack.len, bytes)), "%s", name);
}

static s64 encode(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
		  const struct kvmm_wire_block *blocks, void *buf, size_t bytes)
{
	struct kvmm_wire_args args = { sizeof(args), 1.5, events, blocks, nr, 0 };

	return kvmm_wire_encode_blocks(wire, &args, buf, bytes);
}

/* ---- golden bytes ---- */

static const u32 four[] = { 1, 2, 3, 300 };
static const struct kvmm_wire_block four_of[4] = { { .tokens = four } };

Test(wire, one_block_in_each_format)
{
	struct kvmm_wire wire = { .size = sizeof(wire), .spec_kind = "full_attention" };
	struct kvmm_event event = stored(0xdab89e0b1c2d3e4full, 0);

	expect_vector("map-stored", &wire, &event, 1, four_of);
	wire.format = KVMM_WIRE_ARRAY;
	expect_vector("array-stored", &wire, &event, 1, four_of);
	wire.format = KVMM_WIRE_SGLANG;
	expect_vector("sglang-stored", &wire, &event, 1, four_of);
}

/* A chain of three, one of another group and tenant, two removed from the host, and the end of all. */
static u32 fill_mixed(struct kvmm_event *events)
{
	events[0] = stored(0x11, 0);
	events[1] = after(&events[0], 0x1122334455667788ull);
	events[2] = after(&events[1], 0xffull);
	events[3] = stored(7, 9);
	events[3].domain = (kvmm_domain_t){ .tenant = 5, .group = 1 };
	events[4] = (struct kvmm_event){ .key = key_of(0x11, 0x11), .kind = KVMM_EVENT_REMOVED,
					 .medium = KVMM_MEDIUM_HOST };
	events[5] = events[4];
	events[5].key = key_of(1ull << 63, 1ull << 63);
	events[6] = (struct kvmm_event){ .kind = KVMM_EVENT_CLEARED };
	return 7;
}

Test(wire, several_events_in_each_format)
{
	struct kvmm_wire wire = { .size = sizeof(wire), .flags = KVMM_WIRE_LORA, .rank = -1 };
	struct kvmm_event events[8];
	u32 nr = fill_mixed(events);

	expect_vector("map-mixed", &wire, events, nr, NULL);
	wire.format = KVMM_WIRE_ARRAY;
	expect_vector("array-mixed", &wire, events, nr, NULL);
	wire.format = KVMM_WIRE_SGLANG;
	expect_vector("sglang-mixed", &wire, events, nr, NULL);
	wire.format = KVMM_WIRE_MAP;
	wire.flags = KVMM_WIRE_BYTES;
	wire.rank = 300;
	expect_vector("map-bytes", &wire, events, nr, NULL);
}

/* Numbers of each length; of the last block of the chain nothing is known. */
Test(wire, tokens_of_a_chain_in_each_format)
{
	static const u32 low[] = { 0, 127, 128, 255 }, high[] = { 256, 65535, 65536, ~0u };
	static const struct kvmm_wire_block of[3] = { { .tokens = low }, { .tokens = high } };
	struct kvmm_wire wire = KVMM_WIRE_INIT;
	struct kvmm_event events[3];
	u8 buf[KVMM_WIRE_BYTES_FOR_TOKENS(3, 4)];

	events[0] = stored(0x11, 0);
	events[1] = after(&events[0], 0xdab89e0b1c2d3e4full);
	events[2] = after(&events[1], 0xff);
	expect_vector("map-tokens", &wire, events, 3, of);
	cr_expect_gt(encode(&wire, events, 3, of, buf, sizeof(buf)), 0);
	wire.format = KVMM_WIRE_ARRAY;
	expect_vector("array-tokens", &wire, events, 3, of);
	wire.format = KVMM_WIRE_SGLANG;
	expect_vector("sglang-tokens", &wire, events, 3, of);
}

/* What vLLM has had since 0.32, in maps only. MessagePack of ["adapter", ["img", -3], "pepper"]. */
static const u8 keys_of_first[] = "\x93\xa7""adapter\x92\xa3img\xfd\xa6pepper";

static const struct kvmm_wire_block told[3] = {
	{ .tokens = four, .lora_name = "adapter", .session_id = "s-1", .lora_id = 9,
	  .extra_keys = keys_of_first, .extra_bytes = sizeof(keys_of_first) - 1 },
	{ .tokens = four, .lora_name = "adapter", .session_id = "s-1", .lora_id = 9 },
	{ .tokens = four, .session_id = "s-2" },
};

static struct kvmm_wire wire_of_tiers(void)
{
	static const struct kvmm_wire_group groups[] = {
		{ .kind = "full_attention" }, { "sliding_window", 128, 0 },
	};
	struct kvmm_wire wire = KVMM_WIRE_INIT;

	wire.groups = groups;
	wire.nr_groups = 2;
	wire.locality[KVMM_MEDIUM_HOST] = KVMM_LOCALITY_LOCAL;
	wire.locality[KVMM_MEDIUM_EXTERNAL] = KVMM_LOCALITY_REMOTE;
	wire.ownership[KVMM_MEDIUM_EXTERNAL] = "store";
	return wire;
}

Test(wire, place_owner_session_and_group_in_each_format)
{
	struct kvmm_wire wire = wire_of_tiers();
	struct kvmm_wire_block of[6] = { told[0], told[1], told[2] };
	struct kvmm_event events[6];

	events[0] = stored(0x11, 0);
	events[1] = after(&events[0], 0x1122334455667788ull);
	events[2] = after(&events[1], 0xff);	/* of another session */
	events[3] = stored(7, 9);
	events[3].medium = KVMM_MEDIUM_HOST;
	events[3].domain.group = 1;
	events[4] = stored(8, 9);
	events[4].medium = KVMM_MEDIUM_EXTERNAL;
	events[4].domain.group = 2;
	events[5] = events[4];
	events[5].kind = KVMM_EVENT_REMOVED;
	expect_vector("map-told", &wire, events, 6, of);
	wire.format = KVMM_WIRE_ARRAY;
	expect_vector("array-told", &wire, events, 6, of);
	wire.format = KVMM_WIRE_SGLANG;
	expect_vector("sglang-told", &wire, events, 6, of);
}

/* ---- what becomes one event ---- */

/* Room of each test's. */
static struct wire_batch batch_of(void)
{
	static struct wire_event event[8];
	static u64 hash[16];
	static u32 token[64];

	return (struct wire_batch){ .event = event, .max_events = 8, .hash = hash, .max_hashes = 16,
				    .token = token, .max_tokens = 64 };
}

static int64_t nr_written(struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
			  const struct kvmm_wire_block *blocks)
{
	struct wire_batch batch = batch_of();
	u8 buf[1024];
	s64 bytes = encode(wire, events, nr, blocks, buf, sizeof(buf));

	cr_assert_gt(bytes, 0);
	cr_assert_eq(wire_read(buf, bytes, &batch), bytes);
	return batch.nr_events;
}

Test(wire, only_what_has_all_but_its_name_in_common_becomes_one_event)
{
	struct kvmm_wire wire = KVMM_WIRE_INIT;
	const struct kvmm_event first = stored(1, 0), second = after(&first, 2);
	struct kvmm_event pair[6][2];

	for (u32 i = 0; i < 6; i++)
		memcpy(pair[i], (struct kvmm_event[]){ first, second }, sizeof(pair[i]));
	cr_expect_eq(nr_written(&wire, pair[0], 2, NULL), 1);
	pair[0][1].domain.tenant = 1;
	pair[1][1].domain.layout = 1;
	pair[2][1].domain.group = 1;
	pair[3][1].medium = KVMM_MEDIUM_HOST;
	pair[4][1].parent = second.key;
	pair[5][1].kind = KVMM_EVENT_REMOVED;
	for (u32 i = 0; i < 6; i++)
		cr_expect_eq(nr_written(&wire, pair[i], 2, NULL), 2, "%u", i);
	/* No parent, and no bytes of one: not the child of the name that is all zeros. */
	pair[0][0] = pair[0][1] = stored(0, 0);
	cr_expect_eq(nr_written(&wire, pair[0], 2, NULL), 2);
}

Test(wire, blocks_without_tokens_become_one_event_of_their_own)
{
	struct kvmm_wire wire = KVMM_WIRE_INIT;
	struct kvmm_event chain[4] = { stored(1, 0) };

	for (u32 i = 1; i < 4; i++)
		chain[i] = after(&chain[i - 1], 1 + i);
	cr_expect_eq(nr_written(&wire, chain, 4, NULL), 1);
	cr_expect_eq(nr_written(&wire, chain, 4, four_of), 2);
}

/* An event has one session and one adapter, which are what it says, not where it is written. */
Test(wire, only_blocks_of_one_session_and_adapter_become_one_event)
{
	struct kvmm_wire wire = KVMM_WIRE_INIT;
	struct kvmm_event chain[2] = { stored(1, 0) };
	struct kvmm_wire_block both[2] = { told[0], told[0] };
	char same[] = "s-1";

	chain[1] = after(&chain[0], 2);
	both[1].session_id = same;
	both[1].extra_keys = NULL;
	cr_expect_eq(nr_written(&wire, chain, 2, both), 1);
	both[1].session_id = NULL;
	cr_expect_eq(nr_written(&wire, chain, 2, both), 2);
	both[1] = told[0];
	both[1].lora_name = "other";
	cr_expect_eq(nr_written(&wire, chain, 2, both), 2);
	both[1] = told[0];
	both[1].lora_id = 0;
	cr_expect_eq(nr_written(&wire, chain, 2, both), 2);
	chain[0].kind = chain[1].kind = KVMM_EVENT_REMOVED;
	cr_expect_eq(nr_written(&wire, chain, 2, both), 1);
}

Test(wire, a_hash_is_the_end_of_a_key_or_its_beginning)
{
	struct kvmm_event event = { .key = key_of(7, 5), .tokens = 4, .domain.group = 1 };
	struct wire_batch batch = batch_of();
	struct kvmm_wire wire = KVMM_WIRE_INIT;
	u8 buf[512], other[512];
	s64 bytes = kvmm_wire_encode(&wire, 1.5, &event, 1, buf, sizeof(buf));

	cr_assert_eq(wire_read(buf, bytes, &batch), bytes);
	cr_expect_eq(batch.hash[0], 7);
	/* What is said of group 0 is not said of others. */
	wire.spec_kind = "full_attention";
	cr_expect_eq(kvmm_wire_encode(&wire, 1.5, &event, 1, other, sizeof(other)), bytes);
	cr_expect_eq(memcmp(buf, other, bytes), 0);
	wire.format = KVMM_WIRE_SGLANG;
	bytes = kvmm_wire_encode(&wire, 1.5, &event, 1, buf, sizeof(buf));
	cr_assert_eq(wire_read(buf, bytes, &batch), bytes);
	cr_expect_eq(batch.hash[0], 5);
}

/* The digests and the numbers are vLLM's own; SGLang's would be the other end. */
Test(wire, a_digest_has_the_number_that_the_engine_sends)
{
	for (size_t i = 0; i < 3 * ARRAY_SIZE(vllm_golden); i++) {
		const struct vllm_golden *golden = &vllm_golden[i / 3];
		struct kvmm_event event = { .tokens = 4 };
		struct wire_batch batch = batch_of();
		struct kvmm_wire wire = KVMM_WIRE_INIT;
		kvmm_digest_t digest = { { 0 } };
		u8 buf[512];
		s64 bytes;

		for (u32 j = 0; j < 32; j++)
			sscanf(golden->hash[i % 3] + 2 * j, "%2hhx", &digest.byte[j]);
		event.key = kvmm_key_of_digest(&digest);
		for (wire.format = 0; wire.format < KVMM_NR_WIRE_FORMATS; wire.format++) {
			u64 want = wire.format == KVMM_WIRE_SGLANG ? wire_big_endian(digest.byte) :
								     golden->number[i % 3];

			bytes = kvmm_wire_encode(&wire, 1.5, &event, 1, buf, sizeof(buf));
			cr_assert_eq(wire_read(buf, bytes, &batch), bytes);
			cr_expect_eq(batch.hash[0], want, "%s %zu", golden->name, i % 3);
		}
	}
}

/* ---- reading ---- */

static void expect_mixed(const struct wire_batch *batch, bool merged)
{
	const struct wire_event *event = batch->event;
	const u64 *hash = batch->hash;

	cr_expect_eq(batch->nr_events, merged ? 4 : 6);
	cr_expect_eq(batch->seconds, 1.5);
	cr_expect_eq(event[0].nr_hashes, merged ? 3 : 1);
	cr_expect_eq(hash[event[0].first_hash], 0x11);
	cr_expect(!event[0].has_parent);
	cr_expect_eq(event[0].block_size, 4);
	cr_expect_eq(event[0].medium, KVMM_MEDIUM_DEVICE);
	event += merged ? 1 : 3;
	cr_expect_eq(event[0].medium, KVMM_MEDIUM_DISK);
	cr_expect_eq(hash[event[0].first_hash], 7);
	cr_expect_eq(event[0].group, merged);
	cr_expect_eq(event[1].kind, KVMM_EVENT_REMOVED);
	cr_expect_eq(event[1].medium, KVMM_MEDIUM_HOST);
	cr_expect_eq(event[1].nr_hashes, 2);
	cr_expect_eq(hash[event[1].first_hash + 1], 1ull << 63);
	cr_expect_eq(event[2].kind, KVMM_EVENT_CLEARED);
}

Test(wire, what_is_written_is_read)
{
	struct wire_batch batch = batch_of();
	struct kvmm_wire wire = KVMM_WIRE_INIT;
	struct kvmm_event events[8];
	u32 nr = fill_mixed(events);
	u8 buf[2048];

	events[3].medium = KVMM_MEDIUM_DISK;
	for (wire.format = 0; wire.format < KVMM_NR_WIRE_FORMATS; wire.format++) {
		s64 bytes = kvmm_wire_encode(&wire, 1.5, events, nr, buf, sizeof(buf));

		cr_assert_gt(bytes, 0);
		cr_assert_eq(wire_read(buf, bytes, &batch), bytes);
		expect_mixed(&batch, wire.format != KVMM_WIRE_SGLANG);
		for (s64 cut = 0; cut < bytes; cut++)
			cr_assert_eq(wire_read(buf, cut, &batch), -EBADMSG);
		for (s64 room = 0; room < bytes; room++)
			cr_assert_eq(kvmm_wire_encode(&wire, 1.5, events, nr, buf, room), -ENOSPC);
	}
}

Test(wire, largest_batch_has_room)
{
	static struct kvmm_event events[512];
	static u8 buf[KVMM_WIRE_BYTES_FOR(512)];
	struct kvmm_wire wire = KVMM_WIRE_INIT;
	char kind[65];

	memset(kind, 'k', 64);
	kind[64] = '\0';
	wire = wire_of_tiers();
	wire.groups = &(const struct kvmm_wire_group){ kind, ~0u, 0 };
	wire.nr_groups = 1;
	wire.ownership[KVMM_MEDIUM_EXTERNAL] = kind;
	wire.flags = KVMM_WIRE_BYTES | KVMM_WIRE_LORA;
	for (u32 i = 0; i < 512; i++) {
		events[i] = stored(~0ull - 3 * i, ~0u);
		events[i].flags = KVMM_EVENT_HAS_PARENT;
		events[i].tokens = ~0u;
		events[i].domain.tenant = ~0u;
		events[i].medium = KVMM_MEDIUM_EXTERNAL;
	}
	cr_expect_gt(kvmm_wire_encode(&wire, 1e9, events, 512, buf, sizeof(buf)), 0);
	cr_expect_gt(kvmm_wire_encode(&wire, 1e9, events, 1, buf, KVMM_WIRE_BYTES_FOR(1)), 0);
}

Test(wire, bad_ways_to_encode_are_refused)
{
	const struct kvmm_wire good = KVMM_WIRE_INIT;
	struct kvmm_wire wire = good;
	struct kvmm_event event = stored(1, 0);
	char kind[66] = "";
	u8 buf[512];

	wire.format = KVMM_NR_WIRE_FORMATS;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire.format = KVMM_WIRE_SGLANG;
	wire.flags = KVMM_WIRE_BYTES;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire.flags = 0;
	wire.rank = -2;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire = good;
	wire.flags = 4;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire = good;
	wire.reserved = 1;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire = good;
	memset(kind, 'k', 65);
	wire.spec_kind = kind;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire = good;
	wire.ownership[0] = kind;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire.ownership[0] = "a\xff";
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire = good;
	wire.locality[3] = KVMM_NR_LOCALITIES;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire = good;
	wire.nr_groups = 1;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire.groups = &(const struct kvmm_wire_group){ kind, 0, 0 };
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire.groups = &(const struct kvmm_wire_group){ NULL, 0, 1 };
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	wire.groups = &(const struct kvmm_wire_group){ NULL, 0, 0 };
	wire.nr_groups = KVMM_WIRE_MAX_GROUPS + 1;
	cr_expect_eq(kvmm_wire_encode(&wire, 0, &event, 1, buf, 512), -EINVAL);
	event.kind = KVMM_NR_EVENT_KINDS;
	cr_expect_eq(kvmm_wire_encode(NULL, 0, &event, 1, buf, 512), -EINVAL);
	event.kind = KVMM_EVENT_STORED;
	event.medium = KVMM_NR_MEDIA;
	cr_expect_eq(kvmm_wire_encode(NULL, 0, &event, 1, buf, 512), -EINVAL);
	cr_expect_eq(kvmm_wire_encode(NULL, 0, NULL, 1, buf, 512), -EINVAL);
	cr_expect_eq(kvmm_wire_encode(NULL, 0, NULL, 0, NULL, 512), -EINVAL);
	cr_expect_eq(kvmm_wire_encode_blocks(NULL, NULL, buf, 512), -EINVAL);
	cr_expect_eq(kvmm_wire_encode_blocks(NULL, &(struct kvmm_wire_args){ 0 }, buf, 512), -EINVAL);
}
