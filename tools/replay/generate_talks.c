// SPDX-License-Identifier: Apache-2.0
/*
 * Workloads of turns that repeat what was said before and add to it: chats of people (the
 * constants give what public traces of a chat service's hour show: prompts of 12,000 tokens and
 * answers of 340 in the mean, about 36 % of all blocks seen before), and loops of agents that
 * call tools.
 *
 * Conversations begin at random moments, all of them with one of a few system prompts. Lengths are
 * log-normal.
 */
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "workload.h"

#define NR_APPS			4	/* system prompts */
#define MIN_PROMPT		891u
#define MAX_ANSWER		2000u
#define MAX_FORKS		3	/* forks of forks */

/* Numbers of tokens: median and sigma of a log-normal distribution. */
struct spread {
	double median;
	double sigma;
};

/**
 * struct style - what tells chats from agents
 * @app_blocks: length of the system prompts, with the tools' descriptions
 * @prompt, @answer, @more: tokens of the first prompt, of an answer, of what follows it
 * @max_prompt: a conversation that outgrows it ends
 * @think_ms: mean from one turn to the next
 * @rest: chance that it takes thirty times as long: somebody is asked
 * @follow: chance that another turn follows
 * @fork: chance that a turn starts another conversation with the same past
 */
struct style {
	u32 app_blocks[NR_APPS];
	struct spread prompt;
	struct spread answer;
	struct spread more;
	u32 max_prompt;
	double think_ms;
	double rest;
	double follow;
	double fork;
};

/* A turn of a conversation; becomes a request. */
struct turn {
	u64 arrival_ms;
	u32 conversation;
	u32 turn;
	u32 input;
	u32 output;
};

/* The blocks that a conversation has filled so far; the first @nr_shared are its parent's. */
struct talk {
	u64 *id;
	u32 nr_full;
	u32 app;
	u32 parent;
	u32 nr_shared;
};

struct generator {
	struct style style;
	struct rng rng;
	struct turn *turn;
	struct talk *talk;
	u64 app_id[NR_APPS];
	u64 next_id;
	double span_s;
	u32 nr_turns;
	u32 nr_wanted;
	u32 nr_talks;
};

static const struct style chat = {
	.app_blocks	= { 1, 2, 4, 7 },
	.prompt		= { 5700, 1.15 },
	.answer		= { 250, 0.8 },
	.more		= { 900, 1.3 },
	.max_prompt	= 126000,
};

static const struct style agent = {
	.app_blocks	= { 12, 16, 20, 24 },
	.prompt		= { 9000, 0.5 },
	.answer		= { 90, 0.7 },
	.more		= { 500, 1.4 },
	.max_prompt	= 126000,
	.rest		= 0.03,
};

static u32 draw(struct rng *rng, struct spread spread, u32 min, u32 max)
{
	return rng_lognormal(rng, spread.median, spread.sigma, min, max);
}

/* App 0 has half of the conversations, app 1 a quarter, and so on. */
static u32 choose_app(struct rng *rng)
{
	u32 app = 0;

	while (app < NR_APPS - 1 && rng_next(rng) & 1)
		app++;
	return app;
}

static u64 pause_ms(struct generator *gen)
{
	double mean = gen->style.think_ms;

	if (gen->style.rest > 0 && rng_unit(&gen->rng) < gen->style.rest)
		mean *= 30;
	return 1000 + (u64)rng_exponential(&gen->rng, mean);
}

static void add_fork(struct generator *gen, const struct turn *turn, u32 depth);

/* The turns of one conversation, whose first prompt has @input tokens. */
static void add_turns(struct generator *gen, u32 id, u64 at, u32 input, u32 depth)
{
	const struct style *style = &gen->style;
	struct rng *rng = &gen->rng;

	for (u32 n = 0; gen->nr_turns < gen->nr_wanted; n++) {
		u32 output = draw(rng, style->answer, 1, MAX_ANSWER);
		struct turn turn = { at, id, n, input, output };

		gen->turn[gen->nr_turns++] = turn;
		if (style->fork > 0 && rng_unit(rng) < style->fork)
			add_fork(gen, &turn, depth);
		input += output + draw(rng, style->more, 4, style->max_prompt);
		at += pause_ms(gen);
		if (input > style->max_prompt || rng_unit(rng) > style->follow)
			break;
	}
}

/* Another conversation goes on from where @turn is. */
static void add_fork(struct generator *gen, const struct turn *turn, u32 depth)
{
	const struct style *style = &gen->style;
	u32 id = gen->nr_talks, more = draw(&gen->rng, style->more, 4, style->max_prompt);

	if (depth == MAX_FORKS || gen->nr_turns == gen->nr_wanted ||
	    turn->input + more > style->max_prompt)
		return;
	gen->nr_talks++;
	gen->talk[id].app = gen->talk[turn->conversation].app;
	gen->talk[id].parent = turn->conversation;
	gen->talk[id].nr_shared = turn->input / TRACE_ID_TOKENS;
	add_turns(gen, id, turn->arrival_ms + 1, turn->input + more, depth + 1);
}

static void add_conversation(struct generator *gen)
{
	const struct style *style = &gen->style;
	struct rng *rng = &gen->rng;
	u32 id = gen->nr_talks++, app = choose_app(rng);
	u64 at = (u64)(rng_unit(rng) * gen->span_s * 1000);
	u32 floor = max_u64(MIN_PROMPT, (style->app_blocks[app] + 1) * TRACE_ID_TOKENS);

	gen->talk[id].app = app;
	add_turns(gen, id, at, draw(rng, style->prompt, floor, style->max_prompt), 0);
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
	if (i < gen->style.app_blocks[talk->app])
		return gen->app_id[talk->app] + i;
	return i < talk->nr_full ? talk->id[i] : gen->next_id++;
}

/* Room for @nr_ids blocks; a fork gets its past when it first speaks: its parent has spoken. */
static int talk_grow(struct generator *gen, struct talk *talk, u32 nr_ids)
{
	u64 *id = realloc(talk->id, nr_ids * sizeof(*id));

	if (!id)
		return -ENOMEM;
	if (!talk->id && talk->nr_shared) {
		memcpy(id, gen->talk[talk->parent].id, talk->nr_shared * sizeof(*id));
		talk->nr_full = talk->nr_shared;
	}
	talk->id = id;
	return 0;
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
	int err = talk_grow(gen, talk, req.nr_ids);

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
		gen->next_id += gen->style.app_blocks[i];
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

static struct style style_of(const struct workload *work)
{
	struct style style = work->kind == WORKLOAD_AGENT ? agent : chat;

	if (work->kind == WORKLOAD_AGENT) {
		style.follow = 1 - 1 / work->steps;
		style.think_ms = work->pause * 1000;
		style.fork = work->fork;
	} else {
		style.follow = work->follow;
		style.think_ms = work->think * 1000;
	}
	return style;
}

int generate_talks(struct trace *trace, const struct workload *work)
{
	struct generator gen = {
		.style		= style_of(work),
		.rng.state	= mix64(work->seed),
		.nr_wanted	= (u32)work->requests,
		.span_s		= work->span,
	};
	int err = -ENOMEM;

	gen.turn = calloc(gen.nr_wanted, sizeof(*gen.turn));
	gen.talk = calloc(gen.nr_wanted, sizeof(*gen.talk));
	if (gen.turn && gen.talk)
		err = generate(&gen, trace);
	for (u32 i = 0; gen.talk && i < gen.nr_talks; i++)
		free(gen.talk[i].id);
	free(gen.talk);
	free(gen.turn);
	return err;
}
