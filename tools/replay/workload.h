/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads that are made up: what a cache may meet beyond the traces that happen to be at hand.
 * Each is a text, "KIND" or "KIND:name=value,...", and a seed: the same two give the same trace.
 */
#ifndef REPLAY_WORKLOAD_H
#define REPLAY_WORKLOAD_H

#include "trace.h"

enum workload_kind {
	WORKLOAD_CHAT,		/* conversations, turn after turn, with time to think between */
	WORKLOAD_AGENT,		/* tool loops: many short steps, forks, and then never again */
	WORKLOAD_ZIPF,		/* questions about documents, of which few are popular */
	WORKLOAD_SCAN,		/* the same beside a loop over more documents than fit */
	WORKLOAD_PHASE,		/* the same, but now and then others become popular */
	WORKLOAD_MIX,		/* chat, agent and scan at the same time */
	WORKLOAD_NR_KINDS,
};

/**
 * struct workload - what to make up; numbers that a kind does not use are ignored
 * @requests: how many
 * @seed: of everything random
 * @span: seconds in which the requests, or the conversations, begin
 * @follow: chat: chance that another turn follows
 * @think: chat: mean seconds from one turn to the next
 * @steps: agent: mean calls of a loop
 * @pause: agent: mean seconds that a tool takes
 * @fork: agent: chance that a step starts a further loop with the same past
 * @docs: documents
 * @alpha: how much the popular ones are preferred: the k-th has weight k^-alpha
 * @length: median blocks of a document
 * @fresh: median blocks of a question
 * @loop: scan: documents in the loop
 * @share: scan: share of the requests that go round the loop
 * @every: phase: requests between two changes
 */
struct workload {
	enum workload_kind kind;
	u64 seed;
	double requests;
	double span;
	double follow;
	double think;
	double steps;
	double pause;
	double fork;
	double docs;
	double alpha;
	double length;
	double fresh;
	double loop;
	double share;
	double every;
};

/** workload_init() - @kind as it is without further words */
void workload_init(struct workload *work, enum workload_kind kind);

/**
 * workload_parse() - read "KIND:name=value,..." on top of @work's seed and number of requests
 * @why: what is wrong, on -EINVAL
 */
int workload_parse(struct workload *work, const char *text, char why[160]);

/** workload_generate() - Return: 0; -E2BIG more blocks than a trace may have. */
int workload_generate(struct trace *trace, const struct workload *work);

/** workload_print_help() - the kinds and what they take */
void workload_print_help(void);

#endif /* REPLAY_WORKLOAD_H */
