// SPDX-License-Identifier: Apache-2.0
/*
 * Events through the socket: a client says how far it has read, and gets the events since.
 *
 * All clients of a pool share one consumer, which is moved to where the client stands that asks; it
 * is made by the first, and goes when no client has asked for a while. So a client that dies leaves
 * nothing behind, and a slow one holds none up: it is told of the events that it lost.
 */
#include <errno.h>
#include <string.h>

#include <kv/env.h>
#include <kv/mem.h>
#include <kvmm/event.h>

#include "command.h"

#define BATCH		64u
#define MAX_ROWS	8192u
#define KEEP_MS		30000u
#define RING		(1u << 17)

typedef unsigned long long llu;

/* control->lock. */
struct feed {
	struct kvmm_events	*events;	/* ours */
	u32			flags;		/* of events */
	u64			used_ns;	/* when a client asked last */
};

static const struct { const char *name; u32 flags; } wishes[] = {
	{ "names", 0 }, { "requests", KVMM_EVENTS_REQUESTS }, { "lookups", KVMM_EVENTS_LOOKUPS },
	{ "all", KVMM_EVENTS_REQUESTS | KVMM_EVENTS_LOOKUPS },
};

/* The pool's, for a caller that wants these as well. */
static int get_feed(struct kv_control_call *call, u32 flags, struct feed **result)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct feed *feed = *call->state;
	struct kvmm_events *events;
	int err;

	if (!feed) {
		feed = kv_alloc(sizeof(*feed));
		if (!feed)
			return -ENOMEM;
		*call->state = feed;
	}
	feed->used_ns = kv_clock_ns();
	*result = feed;
	if (feed->events && !(flags & ~feed->flags))
		return 0;
	attr.ring = RING;
	attr.flags = feed->flags | flags;
	err = kvmm_events_open(call->pool, &attr, &events);
	if (err)
		return err;
	kvmm_events_close(feed->events);
	feed->events = events;
	feed->flags = attr.flags;
	return 0;
}

static void close_feed(struct kv_control_pool *entry, void **state)
{
	struct feed *feed = *state;

	kvmm_events_close(feed->events);
	kv_free(feed);
	*state = NULL;
}

static u32 tick(struct kv_control_pool *entry, void **state)
{
	const struct feed *feed = *state;

	if (kv_clock_ns() - feed->used_ns >= KEEP_MS * 1000000ull)
		close_feed(entry, state);
	return 1000;
}

/* ---- rows ---- */

/* One that is no event: how far this goes, or how many are missing. */
static void write_mark(struct kv_text *text, u64 seq, const char *kind, u64 nr)
{
	kv_text_printf(text, "%llu\t%s\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t%llu\n",
		       (llu)seq, kind, (llu)nr);
}

static void write_events(struct kv_text *text, const struct kvmm_event *events, u32 nr, u32 flags)
{
	char line[KVMM_EVENT_TEXT_BYTES];

	for (u32 i = 0; i < nr; i++) {
		u32 wanted = events[i].kind >= KVMM_EVENT_LOOKUP ? KVMM_EVENTS_LOOKUPS :
			     events[i].kind >= KVMM_EVENT_REQUEST ? KVMM_EVENTS_REQUESTS : 0;

		if ((!wanted || flags & wanted) &&
		    kvmm_event_text(&events[i], line, sizeof(line)) > 0)
			kv_text_printf(text, "%s\n", line);
	}
}

/* ---- events ---- */

static int read_wish(struct kv_control_call *call, u32 i, u32 *flags)
{
	*flags = 0;
	if (call->nr_args <= i)
		return 0;
	for (u32 w = 0; w < ARRAY_SIZE(wishes); w++) {
		*flags = wishes[w].flags;
		if (!strcmp(call->arg[i], wishes[w].name))
			return 0;
	}
	return kv_call_error(call, -EINVAL, "'%.64s' is none of names, requests, lookups, all",
			     call->arg[i]);
}

static int write_since(struct kv_text *text, struct kvmm_events *events, u32 max, u32 flags)
{
	struct kvmm_events_stat stat = { .size = sizeof(stat) };
	struct kvmm_event buf[BATCH];
	u64 nr_lost;
	int nr = 0;

	for (u32 left = max; left; left -= nr) {
		kvmm_events_get_stat(events, &stat);
		nr = kvmm_events_read(events, buf, min(left, BATCH), &nr_lost);
		if (nr < 0)
			return nr;
		if (nr_lost)
			write_mark(text, stat.cursor, "lost", nr_lost);
		write_events(text, buf, nr, flags);
		if (!nr && !nr_lost)
			break;
	}
	kvmm_events_get_stat(events, &stat);
	write_mark(text, stat.cursor, "next", 0);
	return 0;
}

static int cmd_events(struct kv_control_call *call)
{
	struct kvmm_events_stat stat = { .size = sizeof(stat) };
	bool is_new = !strcmp(call->arg[0], "new");
	u64 cursor = 0, max;
	struct feed *feed;
	u32 flags;
	int err = read_wish(call, 2, &flags);

	if (!err && !is_new)
		err = kv_call_number(call, 0, 0, UINT64_MAX, &cursor);
	if (!err)
		err = kv_call_number(call, 1, 0, MAX_ROWS, &max);
	if (!err)
		err = get_feed(call, flags, &feed);
	if (err)
		return err;
	kvmm_events_get_stat(feed->events, &stat);
	if (kvmm_events_seek(feed->events, is_new ? stat.happened : cursor))
		return kv_call_error(call, -EINVAL, "no event has that number yet");
	kv_text_puts(call->text, KVMM_EVENT_COLUMNS "\n");
	return write_since(call->text, feed->events, max, flags);
}

/* ---- names ---- */

static int read_place(struct kv_control_call *call, struct kvmm_events *events,
		      struct kvmm_snapshot *snap)
{
	u64 place[4];
	int err = 0;

	if (call->nr_args == 1)
		return kvmm_snapshot_begin(events, snap);
	if (call->nr_args != 5)
		return kv_call_error(call, -EINVAL, "all that the last row said, or nothing");
	for (u32 i = 0; i < ARRAY_SIZE(place) && !err; i++)
		err = kv_call_number(call, i + 1, 0, i % 3 ? UINT32_MAX : UINT64_MAX, &place[i]);
	if (!err)
		*snap = (struct kvmm_snapshot){ place[0], place[1], place[2], place[3] };
	return err;
}

static int cmd_names(struct kv_control_call *call)
{
	struct kvmm_event buf[BATCH];
	struct kvmm_snapshot snap;
	struct feed *feed;
	u64 max;
	int nr = 1, err = kv_call_number(call, 0, 1, MAX_ROWS, &max);

	if (!err)
		err = get_feed(call, 0, &feed);
	if (!err)
		err = read_place(call, feed->events, &snap);
	if (err)
		return err;
	kv_text_puts(call->text, KVMM_EVENT_COLUMNS "\n");
	for (u64 left = max; left && nr; left -= nr) {
		nr = kvmm_snapshot_read(feed->events, &snap, buf, min(left, (u64)BATCH));
		if (nr < 0)
			return nr;
		write_events(call->text, buf, nr, 0);
	}
	kv_text_printf(call->text,
		       "%llu\t%s\t-\t-\t-\t-\t-\t-\t%u\t-\t%u\t%llu\t-\t-\t-\t-\t-\t-\n",
		       (llu)snap.watermark, nr ? "more" : "end", snap.at, snap.medium,
		       (llu)snap.cursor);
	return 0;
}

static const struct kv_command commands[] = {
	{ "events", "POOL CURSOR MAX [names|requests|lookups|all]",
	  "what came since CURSOR (or new), and the next one", KV_COMMAND_POOL, 2, 3, cmd_events },
	{ "names", "POOL MAX [WATERMARK MEDIUM AT CURSOR]",
	  "all that is cached, in portions: go on with seq, block, position, request of the last "
	  "row",
	  KV_COMMAND_POOL, 1, 5, cmd_names },
	{ 0 },
};

const struct kv_command_set kv_commands_events = {
	.commands = commands, .pool_exit = close_feed, .tick = tick,
};
