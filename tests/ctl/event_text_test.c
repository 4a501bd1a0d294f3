// SPDX-License-Identifier: Apache-2.0
/* Events as lines: what each kind looks like, that it is read as it was, and what is refused. */
#include <kv/entry.h>
#include <kvmm/event.h>

#include "tests/support/test.h"

#define REST	"00102030405060708090a0b0c0d0e0f"
#define A	"0" REST
#define B	"101112131415161718191a1b1c1d1e1f"

static kvmm_key_t key_from(u8 first)
{
	kvmm_key_t key;

	for (u32 i = 0; i < KVMM_KEY_BYTES; i++)
		key.byte[i] = first + i;
	return key;
}

/* Written and read, and written again. */
static void expect_line(const struct kvmm_event *event, const char *want)
{
	char line[KVMM_EVENT_TEXT_BYTES], again[KVMM_EVENT_TEXT_BYTES];
	struct kvmm_event back;
	int nr = kvmm_event_text(event, line, sizeof(line));

	cr_assert_eq(nr, (int)strlen(want), "%d: %s", nr, line);
	cr_expect_str_eq(line, want);
	cr_assert_eq(kvmm_event_parse(line, nr, &back), 0);
	cr_expect_eq(kvmm_event_text(&back, again, sizeof(again)), nr);
	cr_expect_str_eq(again, want);
	for (int room = 0; room <= nr; room++)
		cr_expect_eq(kvmm_event_text(event, line, room), -ENOSPC);
}

static void expect_refused(const char *line)
{
	struct kvmm_event event;

	cr_expect_eq(kvmm_event_parse(line, strlen(line), &event), -EBADMSG, "%s", line);
}

Test(event_text, names)
{
	struct kvmm_event event = {
		.seq = 7, .key = key_from(0), .parent = key_from(16), .domain = { 1, 2, 3 },
		.position = 4, .tokens = 16, .block = 5, .flags = KVMM_EVENT_HAS_PARENT,
	};

	expect_line(&event, "7\tstored\tdevice\t" A "\t" B "\t1\t2\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	event.flags = 0;
	event.kind = KVMM_EVENT_REMOVED;
	event.medium = KVMM_MEDIUM_DISK;
	event.block = KVMM_EVENT_NO_BLOCK;
	event.seq = UINT64_MAX;
	expect_line(&event, "18446744073709551615\tremoved\tdisk\t" A
		    "\t-\t1\t2\t3\t4\t16\t-\t-\t-\t-\t-\t-\t-\t-");
	event = (struct kvmm_event){ .kind = KVMM_EVENT_CLEARED };
	expect_line(&event, "0\tcleared\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-");
}

/* As they come from the ring: words in the places of keys and domain. */
static struct kvmm_event head(u32 kind, u64 a, u64 b)
{
	u64 word[4] = { 1ull << 63, 1000, a, b };
	struct kvmm_event event = { .kind = kind, .block = KVMM_EVENT_NO_BLOCK };

	memcpy(&event.key, &word[0], sizeof(event.key));
	memcpy(&event.parent, &word[2], sizeof(event.parent));
	return event;
}

Test(event_text, requests)
{
	struct kvmm_event event = head(KVMM_EVENT_REQUEST, 9ull << 32 | 40, 2);

	event.domain.tenant = 6;
	expect_line(&event, "0\trequest\t-\t-\t-\t6\t0\t0\t-\t-\t-\t9223372036854775808\t1000\t40\t9\t2"
		    "\t-\t-");
	event = head(KVMM_EVENT_REQUEST_END, 9ull << 32 | 40, 1);
	expect_line(&event, "0\trequest_end\t-\t-\t-\t-\t-\t-\t-\t-\t-\t9223372036854775808\t1000\t40\t9"
		    "\t-\t1\t-");
	event = head(KVMM_EVENT_LOOKUP, 5ull << 32 | 1, 2);
	expect_line(&event, "0\tlookup\t-\t-\t-\t0\t0\t0\t-\t-\t-\t9223372036854775808\t1000\t-\t-\t2"
		    "\t1\t5");
}

Test(event_text, keys)
{
	u64 number = 0x123456789abcdef0ull;
	struct kvmm_event event = {
		.kind = KVMM_EVENT_REQUEST_KEYS, .key = key_from(0), .parent = key_from(16),
		.position = 2, .flags = KVMM_EVENT_HAS_PARENT, .block = KVMM_EVENT_NO_BLOCK,
		.domain = { (u32)number, number >> 32 & 0xffff, number >> 48 },
	};

	expect_line(&event, "0\trequest_keys\t-\t" A "\t" B "\t-\t-\t-\t2\t-\t-\t1311768467463790320"
		    "\t-\t-\t-\t-\t-\t-");
	event.kind = KVMM_EVENT_LOOKUP_KEYS;
	event.flags = 0;
	expect_line(&event, "0\tlookup_keys\t-\t" A "\t-\t-\t-\t-\t2\t-\t-\t1311768467463790320"
		    "\t-\t-\t-\t-\t-\t-");
}

Test(event_text, header_has_a_name_for_each_column)
{
	u32 nr = 1;

	for (const char *at = KVMM_EVENT_COLUMNS; *at; at++)
		nr += *at == '\t';
	cr_expect_eq(nr, 18);
}

Test(event_text, what_is_no_event_is_refused)
{
	static const char good[] = "0\tcleared\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-";
	struct kvmm_event event = { .kind = KVMM_NR_EVENT_KINDS };
	char line[KVMM_EVENT_TEXT_BYTES];

	for (u32 nr = 0; nr < strlen(good); nr++)
		cr_expect_eq(kvmm_event_parse(good, nr, &event), -EBADMSG);
	expect_refused("0\tcleared\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tclear\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("-\tcleared\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("18446744073709551616\tcleared\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tcleared\tdevice\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tmoon\t" A "\t-\t1\t2\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tdevice\t-\t-\t1\t2\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tdevice\tA" A "\t-\t1\t2\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tdevice\t" A "\t-\t1\t65536\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tdevice\t" A "\t-\t1\t2\t3\t4\t16\t4294967295\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tdevice\t" A "00\t-\t1\t2\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tdevice\t:" REST "\t-\t1\t2\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tdevice\tg" REST "\t-\t1\t2\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tdevice\t" A "\t-\t4294967296\t2\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\tstored\tdevice\t" A "\t-\t\t2\t3\t4\t16\t5\t-\t-\t-\t-\t-\t-\t-");
	expect_refused("0\trequest_end\t-\t-\t-\t-\t-\t-\t-\t-\t-\t1\t1000\t40\t9\t-\t4294967296\t-");
	cr_expect_eq(kvmm_event_parse(NULL, 0, &event), -EINVAL);
	cr_expect_eq(kvmm_event_text(&event, line, sizeof(line)), -EINVAL);
	event = (struct kvmm_event){ .kind = KVMM_EVENT_STORED, .medium = KVMM_NR_MEDIA };
	cr_expect_eq(kvmm_event_text(&event, line, sizeof(line)), -EINVAL);
	event.kind = 200;
	cr_expect_eq(kvmm_event_text(&event, line, sizeof(line)), -EINVAL);
}
