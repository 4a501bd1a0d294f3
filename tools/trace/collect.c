// SPDX-License-Identifier: Apache-2.0
/*
 * Events become requests. The records of different requests stand between one another, so each is found
 * by its number, from its beginning to its end; numbers may be used again then.
 */
#include <stdlib.h>
#include <string.h>

#include <kvmm/ext/control.h>

#include "trace.h"

#define NR_BUCKETS	(1u << 16)
#define MAX_KEYS	TRACE_MAX_TOKENS

void collect_init(struct collect *collect, bool from_lookups, u32 block_tokens)
{
	memset(collect, 0, sizeof(*collect));
	collect->from_lookups = from_lookups;
	collect->block_tokens = block_tokens;
}

void collect_exit(struct collect *collect)
{
	for (u32 i = 0; i < collect->nr; i++)
		free(collect->seen[i].key);
	free(collect->seen);
	free(collect->bucket);
	memset(collect, 0, sizeof(*collect));
}

static u32 *bucket_of(struct collect *collect, u64 number)
{
	return &collect->bucket[number * 0x9e3779b97f4a7c15ull >> 48];
}

/* Where the link to the open request of that number is, or to nothing. */
static u32 *find(struct collect *collect, u64 number)
{
	u32 *at = bucket_of(collect, number);

	while (*at != U32_NONE && collect->seen[*at].number != number)
		at = &collect->seen[*at].next;
	return at;
}

static void leave(struct collect *collect, u32 *at)
{
	struct seen *seen = &collect->seen[*at];

	seen->is_open = false;
	seen->is_broken |= seen->nr_known < seen->nr_keys;
	*at = seen->next;
}

static int make_buckets(struct collect *collect)
{
	if (collect->bucket)
		return 0;
	collect->bucket = malloc(NR_BUCKETS * sizeof(*collect->bucket));
	if (!collect->bucket)
		return -ENOMEM;
	memset(collect->bucket, 0xff, NR_BUCKETS * sizeof(*collect->bucket));
	return 0;
}

static int make_room(struct collect *collect)
{
	u32 cap = collect->cap ? collect->cap * 2 : 256;
	struct seen *seen;

	if (collect->nr < collect->cap)
		return 0;
	if (cap > TRACE_MAX_REQUESTS)
		return -EBADMSG;
	seen = realloc(collect->seen, cap * sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	collect->seen = seen;
	collect->cap = cap;
	return 0;
}

/* Who has the number already has never been told to end. */
static int begin(struct collect *collect, const struct seen *new)
{
	int err = make_buckets(collect);
	u32 *at;

	if (!err)
		err = make_room(collect);
	if (err)
		return err;
	at = find(collect, new->number);
	if (*at != U32_NONE)
		leave(collect, at);
	at = bucket_of(collect, new->number);
	collect->seen[collect->nr] = *new;
	collect->seen[collect->nr].next = *at;
	*at = collect->nr++;
	return 0;
}

/* Memory comes with the keys, not with what the head has said. */
static int reserve_keys(struct seen *seen, u32 nr)
{
	u32 room = seen->room ? seen->room * 2 : 16;
	kvmm_key_t *key;

	if (seen->nr_known + nr <= seen->room)
		return 0;
	key = realloc(seen->key, room * sizeof(*key));
	if (!key)
		return -ENOMEM;
	seen->key = key;
	seen->room = room;
	return 0;
}

static int add_keys(struct collect *collect, const struct kvmm_event_request *request)
{
	u32 *at = collect->bucket ? find(collect, request->request) : NULL;
	struct seen *seen;

	/* Began before we listened, or in a gap. */
	if (!at || *at == U32_NONE)
		return 0;
	seen = &collect->seen[*at];
	if (request->first != seen->nr_known || seen->nr_keys - seen->nr_known < request->nr_keys) {
		seen->is_broken = true;
		return 0;
	}
	if (collect->nr_keys + request->nr_keys > TRACE_MAX_IDS)
		return -E2BIG;
	if (reserve_keys(seen, request->nr_keys))
		return -ENOMEM;
	collect->nr_keys += request->nr_keys;
	memcpy(&seen->key[seen->nr_known], request->key, request->nr_keys * sizeof(*seen->key));
	seen->nr_known += request->nr_keys;
	return 0;
}

static void finish(struct collect *collect, const struct kvmm_event_request *request)
{
	u32 *at = collect->bucket ? find(collect, request->request) : NULL;

	if (!at || *at == U32_NONE)
		return;
	collect->seen[*at].output = request->output;
	leave(collect, at);
	collect->nr_over++;
}

static int begin_request(struct collect *collect, const struct kvmm_event_request *request)
{
	struct seen seen = {
		.number = request->request, .time_us = request->time_us, .input = request->input,
		.nr_keys = request->nr_keys, .output = request->output, .is_open = true,
	};

	return begin(collect, &seen);
}

static int begin_lookup(struct collect *collect, const struct kvmm_event_request *lookup)
{
	struct seen seen = {
		.number = lookup->request, .time_us = lookup->time_us, .nr_keys = lookup->nr_keys,
		.input = lookup->nr_keys, .output = lookup->blocks, .is_open = true,
	};

	collect->nr_over++;
	return begin(collect, &seen);
}

int collect_event(struct collect *collect, const struct kvmm_event *event)
{
	struct kvmm_event_request request = { .size = sizeof(request) };
	bool is_lookup = event->kind >= KVMM_EVENT_LOOKUP;

	if (event->kind == KVMM_EVENT_STORED && !collect->block_tokens)
		collect->block_tokens = event->tokens;
	if (event->kind < KVMM_EVENT_REQUEST || is_lookup != collect->from_lookups)
		return 0;
	if (kvmm_event_get_request(event, &request) || request.nr_keys > MAX_KEYS)
		return -EBADMSG;
	switch (event->kind) {
	case KVMM_EVENT_REQUEST:
		return begin_request(collect, &request);
	case KVMM_EVENT_LOOKUP:
		return begin_lookup(collect, &request);
	case KVMM_EVENT_REQUEST_END:
		finish(collect, &request);
		return 0;
	default:
		return add_keys(collect, &request);
	}
}

void collect_gap(struct collect *collect, u64 nr_lost)
{
	collect->nr_lost += nr_lost;
	for (u32 i = 0; i < collect->nr; i++)
		if (collect->seen[i].nr_known < collect->seen[i].nr_keys)
			collect->seen[i].is_broken = true;
}
