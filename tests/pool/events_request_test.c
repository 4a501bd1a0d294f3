// SPDX-License-Identifier: Apache-2.0
/* Requests and lookups as events: told to who asks, whole, and to nobody else. */
#include "feed/events/events.h"
#include "tests/pool/request_util.h"
#include "tests/pool/util.h"
#include "tests/support/fault.h"

#define NR	8u

static struct kvmm_pool *pool;
static char text[512];

static void set_up(void)
{
	fault_begin();
	pool = make_cache(NR, "lru");
}

static void tear_down(void)
{
	end_pool(pool);
	fault_end();
}

TestSuite(events_request, .init = set_up, .fini = tear_down);

static struct kvmm_events *open_for(u32 kinds, u32 flags)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *events;

	attr.kinds = kinds;
	attr.flags = flags;
	attr.ring = 1024;
	cr_assert_eq(kvmm_events_open(pool, &attr, &events), 0);
	return events;
}

static void say(const char *format, ...)
{
	size_t len = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + len, sizeof(text) - len, format, args);
	va_end(args);
}

static void say_keys(const struct kvmm_event_request *request)
{
	for (u32 i = 0; i < request->nr_keys; i++)
		say("[%u]=%u ", request->first + i, number_of(&request->key[i]));
}

/* "9:begin@50,40+7/3 [0]=1 [1]=2": request 9 came at 50 with 40 tokens, 7 in the answer, 3 keys. */
static void say_event(const struct kvmm_event *event)
{
	struct kvmm_event_request request = { .size = sizeof(request) };

	if (kvmm_event_get_request(event, &request)) {
		say("%c%u ", event->kind == KVMM_EVENT_STORED ? '+' : '-', number_of(&event->key));
		return;
	}
	if (event->kind == KVMM_EVENT_REQUEST)
		say("%lu:begin@%lu,%u+%u/%u,%u ", request.request, request.time_us, request.input,
		    request.output, request.nr_keys, request.domain.tenant);
	else if (event->kind == KVMM_EVENT_REQUEST_END)
		say("%lu:end@%lu,%u+%u,%u ", request.request, request.time_us, request.input,
		    request.output, request.hits);
	else if (event->kind == KVMM_EVENT_LOOKUP)
		say("%lu:lookup/%u,%u,%u ", request.request, request.nr_keys, request.hits,
		    request.blocks);
	else
		say_keys(&request);
}

static const char *told(struct kvmm_events *events)
{
	struct kvmm_event buf[3];
	u64 nr_lost;
	int nr;

	text[0] = '\0';
	while ((nr = kvmm_events_read(events, buf, ARRAY_SIZE(buf), &nr_lost)) > 0)
		for (int i = 0; i < nr; i++)
			say_event(&buf[i]);
	cr_assert_eq(nr, 0);
	cr_assert_eq(nr_lost, 0);
	return text;
}

static struct kvmm_request_note note_of(kvmm_key_t *keys, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(i + 1);
	return (struct kvmm_request_note){
		.size = sizeof(struct kvmm_request_note), .request = 9, .time_us = 50, .keys = keys,
		.nr_keys = nr, .input = 40, .output = 7, .domain = { .tenant = 4 },
	};
}

Test(events_request, request_is_told_with_its_keys_and_its_end)
{
	struct kvmm_events *events __cleanup(kvmm_events_close) = open_for(0, KVMM_EVENTS_REQUESTS);
	kvmm_key_t keys[3];
	struct kvmm_request_note note = note_of(keys, 3);

	cr_assert_eq(kvmm_note_request(pool, &note), 0);
	cr_expect_str_eq(told(events), "9:begin@50,40+7/3,4 [0]=1 [1]=2 [2]=3 ");
	note.is_end = 1;
	note.hits = 2;
	note.time_us = 70;
	cr_assert_eq(kvmm_note_request(pool, &note), 0);
	cr_expect_str_eq(told(events), "9:end@70,40+7,2 ");
	note = note_of(keys, 0);
	cr_assert_eq(kvmm_note_request(pool, &note), 0);
	cr_expect_str_eq(told(events), "9:begin@50,40+7/0,4 ");
}

Test(events_request, time_may_be_the_librarys)
{
	struct kvmm_events *events __cleanup(kvmm_events_close) = open_for(0, KVMM_EVENTS_REQUESTS);
	struct kvmm_event_request request = { .size = sizeof(request) };
	struct kvmm_request_note note = note_of(NULL, 0);
	struct kvmm_event event;
	u64 nr_lost;

	fake.now_ns = 123456789;
	note.time_us = KVMM_NOTE_NOW;
	cr_assert_eq(kvmm_note_request(pool, &note), 0);
	cr_assert_eq(kvmm_events_read(events, &event, 1, &nr_lost), 1);
	cr_assert_eq(kvmm_event_get_request(&event, &request), 0);
	cr_expect_eq(request.time_us, 123456);
}

/* Tokens 1 to 9 in blocks of four: two keys, the same ones for both sequences. */
static struct kvmm_seq *make_noted(const struct kvmm_key_ctx *ctx, u64 number)
{
	static const u32 prompt[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	struct kvmm_seq_attr attr = { .size = sizeof(attr), .keys = ctx, .prompt = prompt,
				      .nr_prompt = ARRAY_SIZE(prompt), .max_output = 5,
				      .request = number };
	struct kvmm_seq *seq;

	cr_assert_eq(kvmm_seq_create(pool, &attr, &seq), 0);
	return seq;
}

/* Two tokens come out of it. */
static void run_and_end(struct kvmm_seq *seq)
{
	u32 token = 77;

	cr_assert_geq(kvmm_seq_match(seq), 0);
	cr_assert_eq(kvmm_seq_schedule_prefill(seq, 9 - info_of(seq).nr_computed), 0);
	cr_assert_geq(kvmm_seq_apply(seq, &token, 1), 0);
	cr_assert_eq(kvmm_seq_schedule_decode(seq), 0);
	cr_assert_geq(kvmm_seq_apply(seq, &token, 1), 0);
	cr_assert_eq(kvmm_seq_release(seq), 0);
	kvmm_seq_destroy(seq);
}

Test(events_request, sequence_with_a_number_is_told_from_birth_to_death)
{
	struct kvmm_events *events;
	struct kvmm_key_ctx *ctx;

	end_pool(pool);
	pool = make_token_pool(NR);
	ctx = make_ctx(NULL);
	fake.now_ns = 5000;
	run_and_end(make_noted(ctx, 30));	/* nobody listens */
	events = open_for(0, KVMM_EVENTS_REQUESTS);
	run_and_end(make_noted(ctx, 0));
	cr_expect_str_eq(told(events), "", "no number, no note");
	fake.now_ns = 9000;
	run_and_end(make_noted(ctx, 31));
	cr_expect_not_null(strstr(told(events), "31:begin@9,9+5/2,0 "), "%s", text);
	cr_expect_not_null(strstr(text, "[1]="), "%s", text);
	cr_expect_not_null(strstr(text, "31:end@9,9+2,2 "), "the hits of its first match: %s", text);
	kvmm_events_close(events);
	kvmm_key_ctx_destroy(ctx);
}

Test(events_request, who_does_not_ask_is_not_told)
{
	struct kvmm_events_stat stat = { .size = sizeof(stat) };
	struct kvmm_events *plain = open_for(UINT32_MAX, 0);
	kvmm_key_t keys[2];
	kvmm_ref_t refs[2];
	struct kvmm_request_note note = note_of(keys, 2);

	cr_assert_eq(kvmm_note_request(pool, &note), 0);
	cr_assert_eq(kvmm_match(pool, keys, 2, refs), 0);
	cr_assert_eq(kvmm_events_get_stat(plain, &stat), 0);
	cr_expect_eq(stat.happened, 0, "records that nobody reads");
	struct kvmm_events *both = open_for(UINT32_MAX, KVMM_EVENTS_REQUESTS | KVMM_EVENTS_LOOKUPS);

	cr_assert_eq(kvmm_note_request(pool, &note), 0);
	cache_keys(pool, 1, 1);
	cr_expect_str_eq(told(plain), "+1 ");
	cr_expect_str_eq(told(both), "9:begin@50,40+7/2,4 [0]=1 [1]=2 +1 ");
	kvmm_events_close(both);
	kvmm_events_close(plain);
	cr_assert_eq(kvmm_note_request(pool, &note), 0);
}

Test(events_request, lookups_are_told_with_what_they_found)
{
	struct kvmm_events *events __cleanup(kvmm_events_close) = open_for(0, KVMM_EVENTS_LOOKUPS);
	kvmm_key_t keys[3] = { key_of(1), key_of(2), key_of(3) };
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = 3, .max_hits = 2,
					 .nr_blocks = 5 };
	kvmm_ref_t refs[3];
	kvmm_mut_t muts[5];

	req.hits = refs;
	req.fresh = muts;
	cache_keys(pool, 1, 2);
	told(events);
	cr_assert_eq(kvmm_match(pool, keys, 3, refs), 2);
	cr_expect_str_eq(told(events), "0:lookup/3,2,0 [0]=1 [1]=2 [2]=3 ");
	cr_assert_eq(kvmm_put_many(pool, refs, 2), 0);
	cr_assert_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_str_eq(told(events), "1:lookup/3,2,5 [0]=1 [1]=2 [2]=3 ");
	cr_assert_eq(kvmm_free(pool, muts, req.nr_fresh), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, 2), 0);
	req.nr_blocks = 100;
	cr_assert_eq(kvmm_acquire(pool, &req), -ENOSPC);
	cr_expect_str_eq(told(events), "", "what was refused is no request");
}

Test(events_request, bad_notes_and_consumers_are_refused)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_event_request request = { .size = sizeof(request) };
	struct kvmm_request_note note = note_of(NULL, 0);
	struct kvmm_event event = { .kind = KVMM_EVENT_STORED };
	struct kvmm_events *events;

	cr_expect_eq(kvmm_note_request(NULL, &note), -EINVAL);
	cr_expect_eq(kvmm_note_request(pool, NULL), -EINVAL);
	note.nr_keys = 1;
	cr_expect_eq(kvmm_note_request(pool, &note), -EINVAL);
	note.nr_keys = 0;
	note.is_end = 2;
	cr_expect_eq(kvmm_note_request(pool, &note), -EINVAL);
	note.is_end = 0;
	note.size = 3;
	cr_expect_eq(kvmm_note_request(pool, &note), -EINVAL);
	cr_expect_eq(kvmm_event_get_request(&event, &request), -EINVAL);
	event.kind = KVMM_EVENT_LOOKUP_KEYS + 1;
	cr_expect_eq(kvmm_event_get_request(&event, &request), -EINVAL);
	attr.flags = KVMM_EVENTS_SORTED | KVMM_EVENTS_REQUESTS;
	cr_expect_eq(kvmm_events_open(pool, &attr, &events), -EINVAL);
	attr.flags = 0;
	attr.kinds = 0;
	cr_expect_eq(kvmm_events_open(pool, &attr, &events), -EINVAL);
}
