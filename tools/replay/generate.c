// SPDX-License-Identifier: Apache-2.0
/*
 * A made-up trace in the shape of a chat service's hour: conversations begin at random moments,
 * each turn repeats the whole conversation so far and adds to it, all of them begin with one of a
 * few system prompts. Lengths are log-normal. The constants give what public traces of this kind
 * show: prompts of 12,000 tokens and answers of 340 in the mean, and about 36 % of all blocks
 * seen before.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

#define HOUR_S			3600
#define NR_APPS			4	/* system prompts */
#define MAX_PROMPT		126000u
#define MIN_PROMPT		891u
#define MAX_ANSWER		2000u
#define THINK_S			75.0	/* from an arrival to the next turn, in the mean */
#define FOLLOW_UP		0.33	/* chance that a turn is not the last one */

struct rng {
	u64 state;
};

/* A turn of a conversation; becomes a request. */
struct turn {
	u64 arrival_ms;
	u32 conversation;
	u32 turn;
	u32 input;
	u32 output;
};

/* The blocks that a conversation has filled so far. */
struct talk {
	u64 *id;
	u32 nr_full;
	u32 app;
};

struct generator {
	struct rng rng;
	struct turn *turn;
	struct talk *talk;
	u64 app_id[NR_APPS];
	u64 next_id;
	u32 nr_turns;
	u32 nr_wanted;
	u32 nr_talks;
};

static const u32 app_blocks[NR_APPS] = { 1, 2, 4, 7 };

static u64 rng_next(struct rng *rng)
{
	rng->state += 0x9e3779b97f4a7c15u;
	return mix64(rng->state);
}

/* In (0, 1). */
static double rng_unit(struct rng *rng)
{
	return ((double)(rng_next(rng) >> 11) + 0.5) * 0x1p-53;
}

static double rng_exponential(struct rng *rng, double mean)
{
	return -mean * log(rng_unit(rng));
}

static double rng_normal(struct rng *rng)
{
	double radius = sqrt(-2 * log(rng_unit(rng)));

	return radius * cos(2 * 3.14159265358979323846 * rng_unit(rng));
}

static u32 rng_lognormal(struct rng *rng, double median, double sigma, u32 min, u32 max)
{
	double x = median * exp(sigma * rng_normal(rng));

	return x < min ? min : x > max ? max : (u32)x;
}

/* App 0 has half of the conversations, app 1 a quarter, and so on. */
static u32 choose_app(struct rng *rng)
{
	u32 app = 0;

	while (app < NR_APPS - 1 && rng_next(rng) & 1)
		app++;
	return app;
}

static void add_conversation(struct generator *gen)
{
	struct rng *rng = &gen->rng;
	u32 id = gen->nr_talks++, app = choose_app(rng);
	u64 at = (u64)(rng_unit(rng) * HOUR_S * 1000);
	u32 floor = max_u64(MIN_PROMPT, (app_blocks[app] + 1) * TRACE_ID_TOKENS);
	u32 input = rng_lognormal(rng, 5700, 1.15, floor, MAX_PROMPT), output;

	gen->talk[id].app = app;
	for (u32 n = 0; gen->nr_turns < gen->nr_wanted; n++) {
		output = rng_lognormal(rng, 250, 0.8, 1, MAX_ANSWER);
		gen->turn[gen->nr_turns++] = (struct turn){ at, id, n, input, output };

		input += output + rng_lognormal(rng, 900, 1.3, 4, MAX_PROMPT);
		at += 1000 + (u64)rng_exponential(rng, THINK_S * 1000);
		if (input > MAX_PROMPT || rng_unit(rng) > FOLLOW_UP)
			break;
	}
}

static int compare_turns(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->arrival_ms != y->arrival_ms)
		return x->arrival_ms < y->arrival_ms ? -1 : 1;
	if (x->conversation != y->conversation)
		return x->conversation < y->conversation ? -1 : 1;
	return x->turn < y->turn ? -1 : 1;
}

/* The number of block @i of a prompt: the system prompt's, one said before, or a new one. */
static u64 block_id(struct generator *gen, const struct talk *talk, u32 i)
{
	if (i < app_blocks[talk->app])
		return gen->app_id[talk->app] + i;
	return i < talk->nr_full ? talk->id[i] : gen->next_id++;
}

static int add_request(struct generator *gen, struct trace *trace, const struct turn *turn)
{
	struct talk *talk = &gen->talk[turn->conversation];
	struct trace_request req = {
		.arrival_us	= turn->arrival_ms * 1000,
		.first_id	= trace->nr_ids,
		.input		= turn->input,
		.output		= turn->output,
		.nr_ids		= DIV_ROUND_UP(turn->input, TRACE_ID_TOKENS),
	};
	u64 *id = realloc(talk->id, req.nr_ids * sizeof(*id));
	int err = id ? 0 : -ENOMEM;

	if (!err)
		talk->id = id;
	for (u32 i = 0; !err && i < req.nr_ids; i++) {
		talk->id[i] = block_id(gen, talk, i);
		err = trace_add_id(trace, talk->id[i]);
	}
	/* A block that is not full yet has other content in the next turn. */
	talk->nr_full = turn->input / TRACE_ID_TOKENS;
	return err ? err : trace_add(trace, &req);
}

static void number_apps(struct generator *gen)
{
	for (u32 i = 0; i < NR_APPS; i++) {
		gen->app_id[i] = gen->next_id;
		gen->next_id += app_blocks[i];
	}
}

static int generate(struct generator *gen, struct trace *trace)
{
	int err = 0;

	while (gen->nr_turns < gen->nr_wanted)
		add_conversation(gen);
	qsort(gen->turn, gen->nr_turns, sizeof(*gen->turn), compare_turns);
	number_apps(gen);
	for (u32 i = 0; !err && i < gen->nr_turns; i++)
		err = add_request(gen, trace, &gen->turn[i]);
	return err;
}

int trace_generate(struct trace *trace, u32 nr_requests, u64 seed)
{
	struct generator gen = { .rng.state = mix64(seed), .nr_wanted = nr_requests };
	int err = -ENOMEM;

	memset(trace, 0, sizeof(*trace));
	gen.turn = calloc(nr_requests, sizeof(*gen.turn));
	gen.talk = calloc(nr_requests, sizeof(*gen.talk));
	if (gen.turn && gen.talk)
		err = generate(&gen, trace);
	for (u32 i = 0; gen.talk && i < gen.nr_talks; i++)
		free(gen.talk[i].id);
	free(gen.talk);
	free(gen.turn);
	if (err)
		trace_close(trace);
	trace->has_arrivals = true;
	strcpy(trace->name, "generated");
	return err;
}
