// SPDX-License-Identifier: Apache-2.0
/*
 * What an engine tells of its blocks: extra keys as vLLM publishes them (vllm_golden.h), and their
 * way through a publisher.
 */
#define _GNU_SOURCE

#include "ctl/stash.h"
#include "tests/ctl/fake_zmq.h"
#include "tests/pool/util.h"
#include "tests/registry/vllm_cases.h"
#include "tests/support/random.h"
#include "tools/events/wire_read.h"

static struct kvmm_pool *pool;

static void set_up(void)
{
	fake_zmq_install();
	pool = make_cache(8, "lru");
}

static void tear_down(void)
{
	end_pool(pool);
	fake_zmq_remove();
	cr_expect_eq(fake_zmq.nr_open, 0);
	cr_expect_eq(kv_mem_bytes(), 0);
}

TestSuite(note, .init = set_up, .fini = tear_down);

/* ---- as bytes ---- */

static struct kvmm_publisher_note note_with(const char *lora, const char *salt, u32 first, u32 nr)
{
	struct kvmm_publisher_note note = KVMM_PUBLISHER_NOTE_INIT;

	note.nr = 3;
	note.lora_name = lora;
	note.salt = salt;
	note.extras = vllm_extras + first;
	note.nr_extras = nr;
	return note;
}

static void expect_extra_keys(const char *name, struct kvmm_publisher_note note)
{
	struct kvmm_wire_block block;
	u8 buf[KVMM_NOTE_MAX_BYTES];
	char text[2 * sizeof(buf) + 1];
	int bytes;

	cr_assert_eq(stash_note_check(&note), 0);
	for (u32 i = 0; i < 3; i++) {
		block = (struct kvmm_wire_block){ 0 };
		bytes = stash_note_pack(&note, i, 16, buf, sizeof(buf));
		cr_assert_geq(bytes, 0);
		stash_note_read(buf, bytes, &block);
		strcpy(text, "c0");
		for (u32 j = 0; j < block.extra_bytes; j++)
			sprintf(text + 2 * j, "%02x", ((const u8 *)block.extra_keys)[j]);
		cr_expect_str_eq(text, vllm_case(name)->extra_keys[i], "%s %u", name, i);
	}
}

Test(note, extra_keys_are_those_that_the_engine_publishes)
{
	expect_extra_keys("plain", note_with(NULL, NULL, 0, 0));
	expect_extra_keys("lora", note_with("adapter", NULL, 0, 0));
	expect_extra_keys("salt", note_with(NULL, "pepper", 0, 0));
	expect_extra_keys("salt", note_with(NULL, "pepper", 2, 0));
	expect_extra_keys("images", note_with(NULL, NULL, 0, 2));
	expect_extra_keys("embeds", note_with(NULL, NULL, 2, 3));
	expect_extra_keys("everything", note_with("adapter", "pepper", 0, 5));
}

Test(note, all_of_it_is_kept_or_nothing)
{
	struct kvmm_publisher_note note = note_with("adapter", "pepper", 0, 5);
	struct kvmm_wire_block block = { 0 };
	u8 buf[KVMM_NOTE_MAX_BYTES];
	int bytes;

	note.lora_id = 7;
	note.session_id = "s-1";
	bytes = stash_note_pack(&note, 0, 16, buf, sizeof(buf));
	cr_assert_gt(bytes, 0);
	for (int room = 0; room < bytes; room++)
		cr_expect_eq(stash_note_pack(&note, 0, 16, buf, room), -ENOSPC, "%d", room);
	cr_expect_eq(stash_note_pack(&note, 0, 16, buf, bytes), bytes);
	stash_note_read(buf, bytes, &block);
	cr_expect_eq(block.lora_id, 7);
	cr_expect_str_eq(block.lora_name, "adapter");
	cr_expect_str_eq(block.session_id, "s-1");
}

/* Subscribers would refuse the whole batch, with the events of others. */
Test(note, texts_that_are_none_are_refused)
{
	const struct kvmm_publisher_note good = note_with("adapter", "pepper", 0, 2);
	struct kvmm_key_extra extra = { KVMM_KEY_MM, 2, "\xc3\xa4", 0, 16 };
	struct kvmm_publisher_note note = good;
	static char large[KVMM_NOTE_MAX_BYTES + 2];

	note.session_id = "a\xff";
	cr_expect_eq(stash_note_check(&note), -EINVAL);
	note.session_id = "two\nlines";
	cr_expect_eq(stash_note_check(&note), -EINVAL);
	memset(large, 'x', sizeof(large) - 1);
	note.session_id = large;
	cr_expect_eq(stash_note_check(&note), -ENOSPC);
	note = good;
	note.extras = &extra;
	note.nr_extras = 1;
	cr_expect_eq(stash_note_check(&note), 0);
	extra.bytes = 1;			/* half of a character */
	cr_expect_eq(stash_note_check(&note), -EINVAL);
	extra.kind = KVMM_KEY_EMBEDS;
	cr_expect_eq(stash_note_check(&note), 0);
	note = good;
	note.extras = vllm_extras + 1;
	note.nr_extras = 2;
	cr_expect_eq(stash_note_check(&note), 0);
	note.extras = (const struct kvmm_key_extra[]){ vllm_extras[1], vllm_extras[0] };
	cr_expect_eq(stash_note_check(&note), -EINVAL, "out of order");
	note.extras = NULL;
	cr_expect_eq(stash_note_check(&note), -EINVAL);
}

static const char *any_text(u64 *state, char *buf)
{
	u32 nr = any_of(state, 60);

	memset(buf, 'x', nr);
	buf[nr] = '\0';
	return any_of(state, 3) ? buf : NULL;
}

static void any_wire(u64 *state, struct kvmm_wire *wire, struct kvmm_wire_group *groups)
{
	wire->format = any_of(state, KVMM_NR_WIRE_FORMATS);
	for (u32 i = 0; i < 2; i++)
		groups[i] = (struct kvmm_wire_group){ any_of(state, 2) ? "full_attention" : NULL,
						      any_of(state, 2) * 4096, 0 };
	wire->groups = groups;
	wire->nr_groups = any_of(state, 3);
	for (u32 i = 0; i < KVMM_NR_MEDIA; i++) {
		wire->locality[i] = any_of(state, KVMM_NR_LOCALITIES);
		wire->ownership[i] = any_of(state, 2) ? "store" : NULL;
	}
}

/* A map or an array that does not have as many fields as it says would be read as something else. */
Test(note, whatever_is_told_makes_a_batch_that_is_read)
{
	u64 seed = 20261128, state = seed;
	char lora[64], session[64], salt[64];
	u8 bytes[1024], packed[KVMM_NOTE_MAX_BYTES];

	for (u32 round = 0; round < 20000; round++) {
		struct wire_batch batch = { .max_events = 4, .max_hashes = 4, .max_tokens = 64 };
		struct kvmm_publisher_note note = note_with(any_text(&state, lora),
							    any_text(&state, salt), 0, 0);
		struct kvmm_wire_args args = { .size = sizeof(args), .nr = 1 };
		struct kvmm_event event = { .key = key_of(round), .tokens = 16 };
		struct kvmm_wire wire = KVMM_WIRE_INIT;
		struct kvmm_wire_group groups[2];
		struct kvmm_wire_block block = { 0 };
		struct wire_event read[4];
		u64 hash[4];
		u32 token[64];
		s64 nr;

		note.nr_extras = any_of(&state, 6);
		note.session_id = any_text(&state, session);
		note.lora_id = any_of(&state, 2);
		block.tokens = any_of(&state, 2) ? vllm_tokens : NULL;
		nr = stash_note_pack(&note, any_of(&state, 3), 16, packed, sizeof(packed));
		cr_assert_geq(nr, 0);
		stash_note_read(packed, nr, &block);
		any_wire(&state, &wire, groups);
		event.kind = any_of(&state, 2);
		event.medium = any_of(&state, KVMM_NR_MEDIA);
		event.domain.group = any_of(&state, 3);
		args.events = &event;
		args.blocks = &block;
		batch.event = read;
		batch.hash = hash;
		batch.token = token;
		nr = kvmm_wire_encode_blocks(&wire, &args, bytes, sizeof(bytes));
		cr_assert_gt(nr, 0);
		cr_assert_eq(wire_read(bytes, nr, &batch), nr, "seed %lu, round %u", seed, round);
		cr_assert_eq(batch.nr_events, 1);
		cr_assert_eq(read[0].kind, event.kind);
		cr_assert_eq(batch.nr_tokens, event.kind == KVMM_EVENT_STORED && block.tokens ? 16 : 0);
		cr_assert_eq(batch.rank, 0);
	}
}

/* ---- through a publisher ---- */

static u8 heard[4096];
static size_t nr_heard;

static void hear(int type, const void *bytes, size_t nr, bool more)
{
	if (more || nr_heard + nr > sizeof(heard))
		return;
	memcpy(heard + nr_heard, bytes, nr);
	nr_heard += nr;
}

static bool has_heard(const char *text)
{
	return memmem(heard, nr_heard, text, strlen(text));
}

static int start(struct kvmm_publisher **publisher, u32 note_bytes)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;

	fake_zmq.hears = hear;
	attr.token_blocks = 4;
	attr.note_bytes = note_bytes;
	return kvmm_publisher_start(pool, &attr, publisher);
}

Test(note, what_is_told_of_a_block_is_in_its_event)
{
	struct kvmm_publisher_note note = note_with("adapter", "pepper", 0, 1);
	kvmm_key_t keys[] = { key_of(1), key_of(2), key_of(3) };
	struct kvmm_publisher *publisher;

	cr_assert_eq(start(&publisher, 256), 0);
	note.keys = keys;
	note.session_id = "session of one";
	cr_assert_eq(kvmm_publisher_tell(publisher, &note), 0);
	cache_keys(pool, 1, 3);
	kvmm_publisher_stop(publisher);
	cr_expect(has_heard("\xaasession_id\xaesession of one"));
	cr_expect(has_heard("\xa9lora_name\xa7""adapter"));
	cr_expect(has_heard("\x93\xa7""adapter\x92\xa5img-1\x05\xa6pepper"), "the first block's");
	cr_expect(has_heard("\x92\xa7""adapter\x92\xa5img-1\xf5"), "the second block's");
	cr_expect(has_heard("\x91\xa7""adapter"), "the third block's");
}

Test(note, a_call_without_room_for_one_block_keeps_nothing_of_any)
{
	struct kvmm_publisher_note note = note_with(NULL, NULL, 4, 1);
	kvmm_key_t keys[] = { key_of(1), key_of(2), key_of(3) };
	struct kvmm_publisher *publisher;

	cr_assert_eq(start(&publisher, 40), 0);
	note.keys = keys;
	note.session_id = "brief";
	cr_expect_eq(kvmm_publisher_tell(publisher, &note), -ENOSPC, "the third one's embeddings");
	cache_keys(pool, 1, 3);
	kvmm_publisher_stop(publisher);
	cr_expect(!has_heard("brief"));
	cr_expect(has_heard("BlockStored"));
}

Test(note, bad_calls_are_refused)
{
	struct kvmm_publisher_note note = note_with(NULL, NULL, 0, 0);
	struct kvmm_publisher_note bad = KVMM_PUBLISHER_NOTE_INIT;
	kvmm_key_t keys[] = { key_of(1), key_of(2), key_of(3) };
	struct kvmm_publisher *publisher;

	cr_assert_eq(start(&publisher, 0), 0);
	cr_expect_eq(kvmm_publisher_tell(publisher, &note), -EINVAL, "no keys");
	note.keys = keys;
	cr_expect_eq(kvmm_publisher_tell(publisher, &note), 0, "nothing is told");
	note.session_id = "s";
	cr_expect_eq(kvmm_publisher_tell(publisher, &note), -ENOSPC);
	bad.size = 3;
	cr_expect_eq(kvmm_publisher_tell(publisher, &bad), -EINVAL);
	cr_expect_eq(kvmm_publisher_tell(publisher, NULL), -EINVAL);
	cr_expect_eq(kvmm_publisher_tell(NULL, &note), -EINVAL);
	kvmm_publisher_stop(publisher);
}
