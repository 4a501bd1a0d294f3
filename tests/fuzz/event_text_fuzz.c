// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as lines of events, and as batches for tools. What is a line is written as it was read; all
 * lines of an input, one after the other, become a trace within the limits of traces, or none.
 */
#include <kvmm/ext/control.h>

#include "tests/fuzz/require.h"
#include "tools/replay/maps.c"
#include "tools/replay/trace.c"
#include "tools/report/scan.c"
#include "tools/plain.c"
#include "tools/tool.c"
#include "tools/events/unpack.c"
#include "tools/events/wire_read.c"

#include "tools/trace/collect.c"
#define bucket_of group_bucket_of
#define make_room group_make_room
#include "tools/trace/fold.c"

/* Leading zeros are read, and not written. */
static void check_text(const struct kvmm_event *event)
{
	char line[KVMM_EVENT_TEXT_BYTES], again[KVMM_EVENT_TEXT_BYTES];
	struct kvmm_event back;
	int nr = kvmm_event_text(event, line, sizeof(line));

	require(nr > 0 && !kvmm_event_parse(line, (size_t)nr, &back));
	require(kvmm_event_text(&back, again, sizeof(again)) == nr && !memcmp(line, again, (size_t)nr));
}

static void check_trace(const struct trace *trace)
{
	u64 next_id = 0;

	for (u32 q = 0; q < trace->nr; q++) {
		const struct trace_request *req = &trace->req[q];

		require(req->input > 0 && req->input <= TRACE_MAX_TOKENS);
		require(req->output <= TRACE_MAX_TOKENS && req->first_id == next_id);
		require(req->nr_ids == DIV_ROUND_UP(req->input, trace->id_tokens));
		next_id += req->nr_ids;
	}
	require(next_id == trace->nr_ids);
}

static void read_lines_as(const uint8_t *data, size_t bytes, bool from_lookups)
{
	const char *at = (const char *)data, *end = at + bytes;
	struct collect collect;
	struct trace trace = { 0 };
	struct folded folded;

	collect_init(&collect, from_lookups, bytes % 3 ? 16 : 512);
	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t nr = (size_t)((stop ? stop : end) - at);
		struct kvmm_event event;

		if (!kvmm_event_parse(at, nr, &event)) {
			check_text(&event);
			if (collect_event(&collect, &event))
				break;
		} else if (nr == 1) {
			collect_gap(&collect, 1);
		}
		at = stop ? stop + 1 : end;
	}
	/* A prompt of many millions of tokens is long, not wrong. */
	for (u32 i = 0; i < collect.nr; i++)
		collect.seen[i].input &= 0x3ffff;
	if (collect.nr && !fold_requests(&collect, &trace, &folded))
		check_trace(&trace);
	trace_close(&trace);
	collect_exit(&collect);
}

/* A copy of just the size, and room of just the size. */
static void decode(const uint8_t *data, size_t bytes)
{
	struct wire_batch batch = { 0 };
	u8 *copy = malloc(bytes ? bytes : 1);
	int64_t used, again;

	require(copy);
	memcpy(copy, data, bytes);
	used = wire_read(copy, bytes, &batch);
	require(used <= (int64_t)bytes);
	if (used == -ENOSPC) {
		require(batch.nr_events <= bytes && batch.nr_hashes <= bytes && batch.nr_tokens <= bytes);
		batch.event = malloc(batch.nr_events * sizeof(*batch.event) + 1);
		batch.hash = malloc(batch.nr_hashes * sizeof(*batch.hash) + 1);
		batch.token = malloc(batch.nr_tokens * sizeof(*batch.token) + 1);
		require(batch.event && batch.hash && batch.token);
		batch.max_events = batch.nr_events;
		batch.max_hashes = batch.nr_hashes;
		batch.max_tokens = batch.nr_tokens;
		again = wire_read(copy, bytes, &batch);
		require(again > 0 && again <= (int64_t)bytes);
		for (u32 i = 0; i < batch.nr_events; i++) {
			const struct wire_event *event = &batch.event[i];

			require((u64)event->first_hash + event->nr_hashes <= batch.nr_hashes);
			require((u64)event->first_token + event->nr_tokens <= batch.nr_tokens);
		}
		free(batch.event);
		free(batch.hash);
		free(batch.token);
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	read_lines_as(data, bytes, false);
	read_lines_as(data, bytes, true);
	decode(data, bytes);
	return 0;
}
