// SPDX-License-Identifier: Apache-2.0
/* Workloads by name: reading what is wanted, and mixing kinds. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workload.h"

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

static void list_names(char *list, size_t bytes, unsigned int kind)
{
	*list = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].kinds & 1u << kind) {
			strncat(list, settings[i].name, bytes - strlen(list) - 1);
			strncat(list, ", ", bytes - strlen(list) - 1);
		}
	strncat(list, "seed", bytes - strlen(list) - 1);
}

static const struct word *find_word(const struct workload *work, const char *name, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].kinds & 1u << work->kind && strlen(settings[i].name) == length &&
		    !memcmp(settings[i].name, name, length))
			return &settings[i];
	return NULL;
}

static int parse_seed(struct workload *work, const char *value, char why[160])
{
	char *end;

	errno = 0;
	work->seed = strtoull(value, &end, 10);
	if (errno || *value < '0' || *value > '9' || (*end && *end != ','))
		return refuse(why, "'seed' is not a number below 2^64");
	return 0;
}

static int parse_value(struct workload *work, const struct word *word, const char *value,
		       char why[160])
{
	char *end;
	double v = strtod(value, &end);

	/* Digits and a point: what else strtod() reads is no number to most people. */
	if (end == value || (*end && *end != ',') ||
	    strspn(value, "0123456789.") != (size_t)(end - value) ||
	    !(v >= word->min && v <= word->max) || (word->whole && v != (u32)v))
		return refuse(why, "'%s' is not a %snumber from %g to %g", word->name,
			      word->whole ? "whole " : "", word->min, word->max);
	*place_of(work, word) = v;
	return 0;
}

/* One "name=value" up to a comma or the end. */
static int parse_word(struct workload *work, const char *text, char why[160])
{
	size_t length = strcspn(text, "=,");
	const struct word *word = find_word(work, text, length);
	char list[100];

	if (text[length] == '=' && length == 4 && !memcmp(text, "seed", 4))
		return parse_seed(work, text + 5, why);
	if (text[length] == '=' && word)
		return parse_value(work, word, text + length + 1, why);
	list_names(list, sizeof(list), work->kind);
	return refuse(why, "'%.*s': %s takes name=value of %s", (int)min_u64(length, 20), text,
		      kinds[work->kind].name, list);
}

static int parse_kind(struct workload *work, const char *text, size_t length, char why[160])
{
	for (unsigned int i = 0; i < WORKLOAD_NR_KINDS; i++)
		if (strlen(kinds[i].name) == length && !memcmp(kinds[i].name, text, length)) {
			work->kind = i;
			return 0;
		}
	return refuse(why, "there is no '%.*s', only chat, agent, zipf, scan, phase, mix",
		      (int)min_u64(length, 40), text);
}

int workload_parse(struct workload *work, const char *text, char why[160])
{
	size_t length = strcspn(text, ":");
	int err = parse_kind(work, text, length, why);

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

int generate_ids(struct trace *trace, u64 *next, u32 nr)
{
	int err = 0;

	for (u32 i = 0; !err && i < nr; i++)
		err = trace_add_id(trace, (*next)++);
	return err;
}

/* The next request of @part goes to the end of @trace, its numbers counted from @base on. */
static int move_request(struct trace *trace, const struct trace *part, u32 q, u64 base)
{
	struct trace_request req = part->req[q];
	int err = 0;

	req.first_id = trace->nr_ids;
	for (u32 i = 0; !err && i < req.nr_ids; i++)
		err = trace_add_id(trace, base + trace_id(part, &part->req[q], i));
	return err ? err : trace_add(trace, &req);
}

/* Merge by arrival. Each part numbers at most as many blocks as it has. */
static int merge(struct trace *trace, const struct trace part[NR_PARTS])
{
	u32 at[NR_PARTS] = { 0 }, first;
	u64 base[NR_PARTS] = { 0 };
	int err = 0;

	for (u32 i = 1; i < NR_PARTS; i++)
		base[i] = (u64)i << 40;
	do {
		first = NR_PARTS;
		for (u32 i = 0; i < NR_PARTS; i++)
			if (at[i] < part[i].nr && (first == NR_PARTS ||
			    part[i].req[at[i]].arrival_us <
			    part[first].req[at[first]].arrival_us))
				first = i;
		if (first < NR_PARTS)
			err = move_request(trace, &part[first], at[first]++, base[first]);
	} while (!err && first < NR_PARTS);
	return err;
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
