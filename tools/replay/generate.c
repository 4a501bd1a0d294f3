// SPDX-License-Identifier: Apache-2.0
/* Workloads by name: questions about documents, talks, and mixes of them. */
#include <stdarg.h>
#include <stdio.h>

#include "rng.h"
#include "workload.h"

/* Add @nr new block numbers from *@next on. */
static int generate_ids(struct trace *trace, u64 *next, u32 nr)
{
	int err = 0;

	for (u32 i = 0; !err && i < nr; i++)
		err = trace_add_id(trace, (*next)++);
	return err;
}

/*
 * ---- questions about documents ----
 *
 * A prompt is a document and then a question that was
 * never asked before. Which document, tells the kind: popular ones (zipf); or the next one of a
 * loop that does not fit into the cache (scan); or popular ones until the fashion changes (phase).
 */

#define MAX_DOC		240u	/* blocks */
#define MAX_FRESH	64u

/**
 * struct library - the documents
 * @first_id: by document: its first block; one more at the end
 * @cdf: by rank: share of the questions that go to this rank or a more popular one
 * @by_rank: documents, most popular first
 * @in_loop: questions of the loop so far
 */
struct library {
	const struct workload *work;
	u64 rng;
	u64 *first_id;
	double *cdf;
	u32 *by_rank;
	u64 next_id;
	u64 in_loop;
	u32 nr_ranked;
	u32 nr;
};

static u32 choose_popular(struct library *library)
{
	double at = rng_unit(&library->rng);
	u32 lo = 0, hi = library->nr_ranked - 1;

	while (lo < hi) {
		u32 mid = (lo + hi) / 2;

		if (library->cdf[mid] < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return library->by_rank[lo];
}

static u32 choose(struct library *library, u32 q)
{
	const struct workload *work = library->work;

	/* Another fashion: every document may become as popular as any other. */
	for (u32 i = library->nr_ranked - 1; i && work->kind == WORKLOAD_PHASE && q &&
	     q % (u32)work->every == 0; i--) {
		u32 j = rng_below(&library->rng, i + 1), doc = library->by_rank[i];

		library->by_rank[i] = library->by_rank[j];
		library->by_rank[j] = doc;
	}
	if (work->kind == WORKLOAD_SCAN && rng_unit(&library->rng) < work->share)
		return library->nr_ranked + (u32)(library->in_loop++ % (u32)work->loop);
	return choose_popular(library);
}

static int add_question(struct library *library, struct trace *trace, u32 doc, u64 at_ms)
{
	const struct workload *work = library->work;
	u64 first_id = library->first_id[doc];
	u32 length = (u32)(library->first_id[doc + 1] - first_id);
	u32 fresh = rng_lognormal(&library->rng, work->fresh * TRACE_ID_TOKENS, 0.6, 1,
				  MAX_FRESH * TRACE_ID_TOKENS);
	struct trace_request req = {
		.arrival_us	= at_ms * 1000,
		.first_id	= trace->nr_ids,
		.input		= length * TRACE_ID_TOKENS + fresh,
		.output		= rng_lognormal(&library->rng, 250, 0.8, 1, 2000),
		.nr_ids		= length + DIV_ROUND_UP(fresh, TRACE_ID_TOKENS),
	};
	int err = generate_ids(trace, &first_id, length);

	if (!err)
		err = generate_ids(trace, &library->next_id, req.nr_ids - length);
	return err ? err : trace_add(trace, &req);
}

static int generate_docs(struct trace *trace, const struct workload *work)
{
	double gap_ms = work->span * 1000 / work->requests, at_ms = 0, sum = 0;
	struct library library = { 0 };
	int err = 0;

	library.work = work;
	library.rng = mix64(work->seed);
	library.nr_ranked = (u32)work->docs;
	library.nr = library.nr_ranked + (work->kind == WORKLOAD_SCAN ? (u32)work->loop : 0);
	library.first_id = must_alloc((library.nr + 1) * sizeof(library.first_id));
	library.cdf = must_alloc(library.nr_ranked * sizeof(library.cdf));
	library.by_rank = must_alloc(library.nr_ranked * sizeof(library.by_rank));
	for (u32 i = 0; i < library.nr; i++) {
		library.first_id[i] = library.next_id;
		library.next_id += rng_lognormal(&library.rng, work->length, 0.8, 1, MAX_DOC);
	}
	library.first_id[library.nr] = library.next_id;
	for (u32 i = 0; i < library.nr_ranked; i++) {
		library.cdf[i] = sum += pow(i + 1, -work->alpha);
		library.by_rank[i] = i;
	}
	for (u32 i = 0; i < library.nr_ranked; i++)
		library.cdf[i] /= sum;
	for (u32 q = 0; !err && q < (u32)work->requests; q++) {
		u32 doc = choose(&library, q);

		err = add_question(&library, trace, doc, (u64)at_ms);
		at_ms += rng_exponential(&library.rng, gap_ms);
	}
	free(library.first_id);
	free(library.cdf);
	free(library.by_rank);
	return err;
}

/*
 * ---- talks ----
 *
 * Turns that repeat what was said before and add to it: chats of people (the
 * constants give what public traces of a chat service's hour show: prompts of 12,000 tokens and
 * answers of 340 in the mean, about 36 % of all blocks seen before), and loops of agents that
 * call tools.
 *
 * Conversations begin at random moments, all of them with one of a few system prompts. Lengths are
 * log-normal.
 */

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
	u64 rng;
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

static u32 draw(u64 *rng, struct spread spread, u32 min, u32 max)
{
	return rng_lognormal(rng, spread.median, spread.sigma, min, max);
}

static void add_fork(struct generator *gen, const struct turn *turn, u32 depth);

/* The turns of one conversation, whose first prompt has @input tokens. */
static void add_turns(struct generator *gen, u32 id, u64 at, u32 input, u32 depth)
{
	const struct style *style = &gen->style;
	u64 *rng = &gen->rng;

	for (u32 n = 0; gen->nr_turns < gen->nr_wanted; n++) {
		u32 output = draw(rng, style->answer, 1, MAX_ANSWER);
		struct turn turn = { at, id, n, input, output };
		double think_ms = style->think_ms;

		gen->turn[gen->nr_turns++] = turn;
		if (style->fork > 0 && rng_unit(rng) < style->fork)
			add_fork(gen, &turn, depth);
		input += output + draw(rng, style->more, 4, style->max_prompt);
		if (style->rest > 0 && rng_unit(rng) < style->rest)
			think_ms *= 30;
		at += 1000 + (u64)rng_exponential(rng, think_ms);
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
	u64 *rng = &gen->rng;
	u32 id = gen->nr_talks++, app = 0, floor;
	u64 at;

	/* App 0 has half of the conversations, app 1 a quarter, and so on. */
	while (app < NR_APPS - 1 && rng_next(rng) & 1)
		app++;
	at = (u64)(rng_unit(rng) * gen->span_s * 1000);
	floor = max_u64(MIN_PROMPT, (style->app_blocks[app] + 1) * TRACE_ID_TOKENS);
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
	bool is_first = !talk->id;
	int err = 0;

	talk->id = must_resize(talk->id, req.nr_ids * sizeof(*talk->id));
	if (is_first && talk->nr_shared) {	/* a fork gets its past: its parent has spoken */
		memcpy(talk->id, gen->talk[talk->parent].id, talk->nr_shared * sizeof(*talk->id));
		talk->nr_full = talk->nr_shared;
	}
	for (u32 i = 0; !err && i < req.nr_ids; i++) {
		if (i < gen->style.app_blocks[talk->app])
			talk->id[i] = gen->app_id[talk->app] + i;
		else if (i >= talk->nr_full)
			talk->id[i] = gen->next_id++;
		err = trace_add_id(trace, talk->id[i]);
	}
	/* A block that is not full yet has other content in the next turn. */
	talk->nr_full = turn->input / TRACE_ID_TOKENS;
	return err ? err : trace_add(trace, &req);
}

static int generate_talks(struct trace *trace, const struct workload *work)
{
	bool is_agent = work->kind == WORKLOAD_AGENT;
	struct generator gen = {
		.style		= is_agent ? agent : chat,
		.rng		= mix64(work->seed),
		.nr_wanted	= (u32)work->requests,
		.span_s		= work->span,
	};
	int err = 0;

	gen.style.follow = is_agent ? 1 - 1 / work->steps : work->follow;
	gen.style.think_ms = 1000 * (is_agent ? work->pause : work->think);
	gen.style.fork = is_agent ? work->fork : 0;
	gen.turn = must_alloc(gen.nr_wanted * sizeof(*gen.turn));
	gen.talk = must_alloc(gen.nr_wanted * sizeof(*gen.talk));
	while (gen.nr_turns < gen.nr_wanted)
		add_conversation(&gen);
	qsort(gen.turn, gen.nr_turns, sizeof(*gen.turn), compare_turns);
	for (u32 i = 0; i < NR_APPS; i++) {
		gen.app_id[i] = gen.next_id;
		gen.next_id += gen.style.app_blocks[i];
	}
	for (u32 i = 0; !err && i < gen.nr_turns; i++)
		err = add_request(&gen, trace, &gen.turn[i]);
	for (u32 i = 0; i < gen.nr_talks; i++)
		free(gen.talk[i].id);
	free(gen.talk);
	free(gen.turn);
	return err;
}

/* ---- all kinds ---- */

#define NR_PARTS	3	/* of a mix */

#define ALL		(~0u)
#define KIND(k)		(1u << WORKLOAD_##k)
#define DOCS		(KIND(ZIPF) | KIND(SCAN) | KIND(PHASE))

static const struct {
	const char *name;
	const char *purpose;
} kinds[WORKLOAD_NR_KINDS] = {
	[WORKLOAD_CHAT]	 = { "chat",  "conversations: each turn repeats what was said" },
	[WORKLOAD_AGENT] = { "agent", "tool loops: many short steps, forks, then never again" },
	[WORKLOAD_ZIPF]	 = { "zipf",  "questions about documents, few of them popular" },
	[WORKLOAD_SCAN]	 = { "scan",  "zipf beside a loop over more documents than fit" },
	[WORKLOAD_PHASE] = { "phase", "zipf, but now and then others become popular" },
	[WORKLOAD_MIX]	 = { "mix",   "chat, agent and scan at the same time" },
};

/* A word that a kind takes; the first value is what it is without. */
static const struct word {
	const char *name;
	size_t offset;
	double value;
	double min;
	double max;
	unsigned int kinds;
	bool whole;
} settings[] = {
	{ "requests", offsetof(struct workload, requests), 12000, 1, 1 << 20, ALL, true },
	{ "span",     offsetof(struct workload, span),	   3600, 1, 1e6, ALL, false },
	{ "follow",   offsetof(struct workload, follow),   .33, 0, .99, KIND(CHAT), false },
	{ "think",    offsetof(struct workload, think),	   75, 0, 1e5, KIND(CHAT), false },
	{ "steps",    offsetof(struct workload, steps),	   12, 1, 1000, KIND(AGENT), false },
	{ "pause",    offsetof(struct workload, pause),	   4, 0, 1e5, KIND(AGENT), false },
	{ "fork",     offsetof(struct workload, fork),	   .05, 0, .5, KIND(AGENT), false },
	{ "docs",     offsetof(struct workload, docs),	   2000, 1, 1 << 20, DOCS, true },
	{ "alpha",    offsetof(struct workload, alpha),	   .9, 0, 4, DOCS, false },
	{ "length",   offsetof(struct workload, length),   12, 1, 200, DOCS, false },
	{ "fresh",    offsetof(struct workload, fresh),	   2, .01, 60, DOCS, false },
	{ "loop",     offsetof(struct workload, loop),	   1500, 1, 1 << 20, KIND(SCAN), true },
	{ "share",    offsetof(struct workload, share),	   .5, 0, 1, KIND(SCAN), false },
	{ "every",    offsetof(struct workload, every),	   2000, 1, 1 << 20, KIND(PHASE), true },
};

static double *place_of(struct workload *work, const struct word *word)
{
	return (double *)((char *)work + word->offset);
}

void workload_init(struct workload *work, enum workload_kind kind)
{
	memset(work, 0, sizeof(*work));
	work->kind = kind;
	work->seed = 1;
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		*place_of(work, &settings[i]) = settings[i].value;
}

/* ---- reading ---- */

__attribute__((format(printf, 2, 3)))
static int refuse(char why[160], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, 160, format, args);
	va_end(args);
	return -EINVAL;
}

static const struct word *find_word(const struct workload *work, const char *name, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].kinds & 1u << work->kind && strlen(settings[i].name) == length &&
		    !memcmp(settings[i].name, name, length))
			return &settings[i];
	return NULL;
}

/* One "name=value" up to a comma or the end. */
static int parse_word(struct workload *work, const char *text, char why[160])
{
	size_t length = strcspn(text, "=,");
	const struct word *word = find_word(work, text, length);
	const char *value = text + length + 1;
	char list[100] = "", *end;
	double v;

	errno = 0;
	if (text[length] == '=' && length == 4 && !memcmp(text, "seed", 4)) {
		work->seed = strtoull(value, &end, 10);
		return errno || *value < '0' || *value > '9' || (*end && *end != ',') ?
		       refuse(why, "'seed' is not a number below 2^64") : 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(settings) && !(text[length] == '=' && word); i++)
		if (settings[i].kinds & 1u << work->kind) {
			strncat(list, settings[i].name, sizeof(list) - strlen(list) - 1);
			strncat(list, ", ", sizeof(list) - strlen(list) - 1);
		}
	if (text[length] != '=' || !word)
		return refuse(why, "'%.*s': %s takes name=value of %sseed", (int)min_u64(length, 20),
			      text, kinds[work->kind].name, list);
	/* Digits and a point: what else strtod() reads is no number to most people. */
	v = strtod(value, &end);
	if (end == value || (*end && *end != ',') ||
	    strspn(value, "0123456789.") != (size_t)(end - value) ||
	    !(v >= word->min && v <= word->max) || (word->whole && v != (u32)v))
		return refuse(why, "'%s' is not a %snumber from %g to %g", word->name,
			      word->whole ? "whole " : "", word->min, word->max);
	*place_of(work, word) = v;
	return 0;
}

int workload_parse(struct workload *work, const char *text, char why[160])
{
	size_t length = strcspn(text, ":");
	unsigned int kind = 0;
	int err = 0;

	while (kind < WORKLOAD_NR_KINDS && (strlen(kinds[kind].name) != length ||
					    memcmp(kinds[kind].name, text, length)))
		kind++;
	if (kind == WORKLOAD_NR_KINDS)
		return refuse(why, "there is no '%.*s', only chat, agent, zipf, scan, phase, mix",
			      (int)min_u64(length, 40), text);
	work->kind = kind;
	for (text += length; !err && *text; text += strcspn(text, ",")) {
		text++;
		err = parse_word(work, text, why);
	}
	return err;
}

void workload_print_help(void)
{
	for (unsigned int i = 0; i < WORKLOAD_NR_KINDS; i++) {
		printf("%-8s%s\n", kinds[i].name, kinds[i].purpose);
		for (size_t w = 0; w < ARRAY_SIZE(settings); w++)
			if (settings[w].kinds & 1u << i)
				printf("        %s=%g", settings[w].name, settings[w].value);
		printf("        seed=1\n");
	}
}

/* ---- making ---- */

/* Merge by arrival. Each part numbers at most as many blocks as it has: from i << 40 on. */
static int merge(struct trace *trace, const struct trace part[NR_PARTS])
{
	u32 at[NR_PARTS] = { 0 }, first;
	int err = 0;

	for (;;) {
		struct trace_request req;

		first = NR_PARTS;
		for (u32 i = 0; i < NR_PARTS; i++)
			if (at[i] < part[i].nr && (first == NR_PARTS ||
			    part[i].req[at[i]].arrival_us <
			    part[first].req[at[first]].arrival_us))
				first = i;
		if (err || first == NR_PARTS)
			return err;
		req = part[first].req[at[first]++];
		for (u32 i = 0; !err && i < req.nr_ids; i++)
			err = trace_add_id(trace, ((u64)first << 40) + trace_id(&part[first], &req, i));
		req.first_id = trace->nr_ids - (err ? 0 : req.nr_ids);
		err = err ? err : trace_add(trace, &req);
	}
}

static int generate_mix(struct trace *trace, const struct workload *work)
{
	static const enum workload_kind kind[NR_PARTS] = {
		WORKLOAD_CHAT, WORKLOAD_AGENT, WORKLOAD_SCAN,
	};
	struct trace part[NR_PARTS] = { 0 };
	double left = work->requests;
	int err = 0;

	for (u32 i = 0; !err && i < NR_PARTS; i++) {
		struct workload one = *work;

		one.kind = kind[i];
		one.seed = mix64(work->seed + i);
		one.requests = i < NR_PARTS - 1 ? (u32)(work->requests * 2 / 5) : left;
		left -= one.requests;
		if (one.requests >= 1)
			err = one.kind == WORKLOAD_SCAN ? generate_docs(&part[i], &one) :
							  generate_talks(&part[i], &one);
	}
	if (!err)
		err = merge(trace, part);
	for (u32 i = 0; i < NR_PARTS; i++)
		trace_close(&part[i]);
	return err;
}

int workload_generate(struct trace *trace, const struct workload *work)
{
	int err;

	memset(trace, 0, sizeof(*trace));
	if (work->kind == WORKLOAD_MIX)
		err = generate_mix(trace, work);
	else if (1u << work->kind & DOCS)
		err = generate_docs(trace, work);
	else
		err = generate_talks(trace, work);
	if (err)
		trace_close(trace);
	trace->has_arrivals = true;
	trace->id_tokens = TRACE_ID_TOKENS;
	strcpy(trace->name, "generated");
	return err;
}
