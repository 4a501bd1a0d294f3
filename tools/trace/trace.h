/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From events to a trace that kvmm-replay reads.
 *
 *	collect		events		-> requests: when, how long, their chain of keys
 *	fold		keys of blocks	-> the numbers that traces have
 *	output		a trace		-> Mooncake JSONL, Bailian JSONL, Azure CSV, CSV of lengths
 */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <stdio.h>

#include <kvmm/event.h>

#include "../replay/trace.h"

/* ---- collect.c ---- */

/* One request, as far as it was told. */
struct seen {
	u64 number;
	u64 time_us;
	kvmm_key_t *key;	/* ours */
	u32 nr_keys;		/* it has */
	u32 nr_known;		/* of these */
	u32 room;
	u32 input;		/* tokens; of a lookup: keys, */
	u32 output;		/* and blocks that were asked for */
	u32 next;		/* in the chain of its number */
	bool is_open;		/* its end may still come */
	bool is_broken;		/* something of it is missing */
};

struct collect {
	bool from_lookups;
	u32 block_tokens;	/* 0: nobody has said it yet */
	struct seen *seen;	/* ours; in the order in which they came */
	u32 nr;
	u32 cap;
	u32 *bucket;		/* ours; of numbers that are open */
	u32 nr_over;		/* that have ended */
	u64 nr_lost;		/* events */
	u64 nr_keys;		/* kept, of all requests; at most TRACE_MAX_IDS */
};

void collect_init(struct collect *collect, bool from_lookups, u32 block_tokens);
void collect_exit(struct collect *collect);
/* 0; -ENOMEM; -EBADMSG: it makes no sense; -E2BIG. */
int collect_event(struct collect *collect, const struct kvmm_event *event);
/* Events are missing here: whose keys were still to come is broken. */
void collect_gap(struct collect *collect, u64 nr_lost);

/* ---- fold.c ---- */

/**
 * struct folded - what became of the requests
 * @nr_broken: left out, since events of them were missing
 * @nr_odd: left out, since their keys do not fit their length, or their numbers a line
 * @nr_rounded: arrivals between two milliseconds
 */
struct folded {
	u32 nr_broken;
	u32 nr_odd;
	u32 nr_rounded;
};

/* 0; -ENOMEM; -EINVAL: blocks of 0 tokens, or more than a trace can have; -E2BIG. */
int fold_requests(struct collect *collect, struct trace *trace, struct folded *folded);

/* ---- output.c ---- */

enum trace_kind { TRACE_MOONCAKE, TRACE_AZURE, TRACE_LENGTHS, TRACE_BAILIAN, NR_TRACE_KINDS };

extern const char *const trace_kinds[NR_TRACE_KINDS + 1];

/* 0 or -EIO. */
int trace_write(const struct trace *trace, enum trace_kind kind, FILE *out);

#endif /* TOOLS_TRACE_H */
