// SPDX-License-Identifier: Apache-2.0
/* What a run tells of itself; see cache.h. */
#include "cache.h"
#include "live.h"

#define BATCH	256

struct tell {
	struct kvmm_events *events;
	FILE *out;
	struct kvmm_event buf[BATCH];
};

static enum exit_code cannot_write(const struct cache *cache)
{
	return complain(EXIT_INPUT, "%s: %s", cache->run->opt->events_path, strerror(errno));
}

enum exit_code tell_begin(struct cache *cache)
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	const char *path = cache->run->opt->events_path;
	int err;

	if (!path)
		return EXIT_GOOD;
	cache->tell = must_alloc(sizeof(*cache->tell));
	attr.flags = KVMM_EVENTS_REQUESTS;
	attr.ring = 1u << 20;
	err = kvmm_events_open(cache->pool, &attr, &cache->tell->events);
	if (err)
		return complain_of(err, "consume events");
	cache->tell->out = fopen(path, "w");
	if (!cache->tell->out || fputs(KVMM_EVENT_COLUMNS "\n", cache->tell->out) < 0)
		return cannot_write(cache);
	return EXIT_GOOD;
}

static enum exit_code write_events(struct cache *cache, u32 nr)
{
	const struct tell *tell = cache->tell;
	char line[KVMM_EVENT_TEXT_BYTES];

	for (u32 i = 0; i < nr; i++)
		if (kvmm_event_text(&tell->buf[i], line, sizeof(line)) < 0 ||
		    fprintf(tell->out, "%s\n", line) < 0)
			return cannot_write(cache);
	return EXIT_GOOD;
}

/* All that has happened so far. */
static enum exit_code pump(struct cache *cache)
{
	struct tell *tell = cache->tell;
	enum exit_code code = EXIT_GOOD;
	u64 nr_lost;
	int nr = 1;

	while (tell && !code && nr > 0) {
		nr = kvmm_events_read(tell->events, tell->buf, BATCH, &nr_lost);
		if (nr < 0 || nr_lost)
			return complain_of(nr < 0 ? nr : -EOVERFLOW, "read events");
		code = write_events(cache, nr);
	}
	return code;
}

static enum exit_code note(struct cache *cache, struct kvmm_request_note *note)
{
	int err = kvmm_note_request(cache->pool, note);

	return err ? complain_of(err, "note a request") : pump(cache);
}

static struct kvmm_request_note note_of(const struct cache *cache, u32 q)
{
	const struct trace_request *req = &cache->run->trace->req[q];

	return (struct kvmm_request_note){
		.size = sizeof(struct kvmm_request_note), .request = q,
		.time_us = req->arrival_us, .input = req->input, .output = req->output,
	};
}

/* Who looks through a control socket may ask for requests, too. */
static bool is_told(const struct cache *cache)
{
	return cache->tell || live_is_on();
}

enum exit_code tell_request(struct cache *cache, u32 q)
{
	struct kvmm_request_note req = note_of(cache, q);

	if (!is_told(cache))
		return EXIT_GOOD;
	req.keys = cache_keys(cache, q, &req.nr_keys);
	return note(cache, &req);
}

enum exit_code tell_over(struct cache *cache, u32 q, u32 nr_hits)
{
	struct kvmm_request_note req = note_of(cache, q);

	if (!is_told(cache))
		return EXIT_GOOD;
	req.is_end = 1;
	req.hits = nr_hits;
	return note(cache, &req);
}

enum exit_code tell_end(struct cache *cache)
{
	struct tell *tell = cache->tell;
	enum exit_code code = EXIT_GOOD;

	if (!tell)
		return code;
	if (tell->events)
		code = pump(cache);
	kvmm_events_close(tell->events);
	if (tell->out && fclose(tell->out) && !code)
		code = cannot_write(cache);
	free(tell);
	cache->tell = NULL;
	return code;
}
