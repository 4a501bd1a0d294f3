// SPDX-License-Identifier: Apache-2.0
/*
 * An engine of talks: each turn's prompt is all that was said, with the answers, and something more. Its
 * requests go one after the other, as sequences that decode token by token.
 *
 * usage: talk_run BLOCKS EVENTS
 *
 * Writes the events, and prints what it counted: events_tools.py makes a trace of them and replays it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/types.h>
#include <kvmm/ext/seq.h>
#include <kvmm/kvmm.h>

#include "tests/support/random.h"

#define BLOCK_TOKENS	16u
#define NR_TALKS	60u
#define NR_TURNS	900u
#define MAX_TOKENS	1500u	/* a talk that is so long begins anew */
#define NR_SYSTEM	100u	/* tokens that all begin with */
#define MAX_MORE	150u
#define BATCH		256u

struct talk {
	u32 token[2 * MAX_TOKENS];
	u32 nr;
};

static struct talk talks[NR_TALKS];
static struct kvmm_pool *pool;
static struct kvmm_events *events;
static struct kvmm_key_ctx *keys;
static FILE *out;
static u64 random_state = 42, hits;

#define any(below)	lcg_of(&random_state, below)

static int must(int ret, const char *what)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "talk_run: %s: %s\n", what, kvmm_strerror(ret));
	exit(1);
}

static void pump(void)
{
	struct kvmm_event event[BATCH];
	char line[KVMM_EVENT_TEXT_BYTES];
	u64 nr_lost;
	int nr;

	while ((nr = must(kvmm_events_read(events, event, BATCH, &nr_lost), "read"))) {
		must(nr_lost ? -EOVERFLOW : 0, "events");
		for (int i = 0; i < nr; i++) {
			must(kvmm_event_text(&event[i], line, sizeof(line)), "text");
			fprintf(out, "%s\n", line);
		}
	}
}

static void say(struct talk *talk, u32 nr)
{
	while (nr--)
		talk->token[talk->nr++] = any(1u << 16);
}

/* The newest token has no K/V in the end. */
static void answer(struct kvmm_seq *seq, struct talk *talk, u32 nr)
{
	must(kvmm_seq_schedule_prefill(seq, talk->nr - must(kvmm_seq_acquire(seq), "acquire") *
				       BLOCK_TOKENS), "prefill");
	for (u32 i = 0; i < nr; i++) {
		if (i)
			must(kvmm_seq_schedule_decode(seq), "decode");
		say(talk, 1);
		must(kvmm_seq_apply(seq, &talk->token[talk->nr - 1], 1), "apply");
	}
}

static void turn(u32 number)
{
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	struct talk *talk = &talks[any(NR_TALKS)];
	struct kvmm_seq_info info;
	struct kvmm_seq *seq;

	/* More than a block: a trace does not tell talks apart that have said less than that. */
	if (talk->nr > MAX_TOKENS)
		talk->nr = 0;
	for (; talk->nr < NR_SYSTEM; talk->nr++)
		talk->token[talk->nr] = 7 * talk->nr;
	say(talk, 2 * BLOCK_TOKENS + any(MAX_MORE));
	attr.keys = keys;
	attr.prompt = talk->token;
	attr.nr_prompt = talk->nr;
	attr.max_output = 1 + any(MAX_MORE);
	attr.request = number;
	must(kvmm_seq_create(pool, &attr, &seq), "sequence");
	answer(seq, talk, attr.max_output);
	must(kvmm_seq_get_info(seq, &info), "info");
	hits += info.nr_hits;
	kvmm_seq_destroy(seq);
	pump();
}

static void start(char **argv)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_events_attr wants = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_key_attr names = { .size = sizeof(names), .block_tokens = BLOCK_TOKENS };

	attr.nr_blocks = atoi(argv[1]);
	attr.policy = "lru";
	attr.block_tokens = BLOCK_TOKENS;
	must(kvmm_pool_create(&attr, &pool), "pool");
	must(kvmm_key_ctx_create(&names, &keys), "keys");
	wants.flags = KVMM_EVENTS_REQUESTS;
	must(kvmm_events_open(pool, &wants, &events), "events");
	out = fopen(argv[2], "w");
	must(out && fputs(KVMM_EVENT_COLUMNS "\n", out) >= 0 ? 0 : -EIO, argv[2]);
}

int main(int argc, char **argv)
{
	struct kvmm_pool_stat stat;

	if (argc != 3)
		return 2;
	start(argv);
	for (u32 i = 1; i <= NR_TURNS; i++)
		turn(i);
	must(kvmm_pool_get_stat(pool, &stat), "stat");
	printf("{\"hits\": %lu, \"evictions\": %lu}\n", hits, stat.evictions);
	kvmm_events_close(events);
	kvmm_key_ctx_destroy(keys);
	kvmm_pool_destroy(pool);
	return fclose(out) != 0;
}
