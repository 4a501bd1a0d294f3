// SPDX-License-Identifier: Apache-2.0
/*
 * What no cache can beat: "infinite" never evicts, "bound" is Belady's MIN on the flat list of
 * keys with nothing pinned. Neither needs a pool; both need to know more than a pool can.
 */
#include "live.h"
#include "maps.h"
#include "shape.h"

struct limit {
	const struct run *run;
	u64 accesses;
	u64 hits;
	u64 hit_tokens;
	u64 input_tokens;
	u64 fp;
};

bool limit_is(const char *policy)
{
	return !strcmp(policy, "bound") || !strcmp(policy, "infinite");
}

void describe_hits(const struct run *run, const char *kind, u32 nr_blocks, u64 hits, u64 accesses)
{
	struct results *results = run->results;

	results_str(results, "trace", run->trace->name);
	results_str(results, "kind", kind);
	results_str(results, "policy", run->opt->policy);
	results_num(results, "n", nr_blocks);
	results_num(results, "bs", run->opt->block_tokens);
	results_str(results, "mode", run->opt->keys == KEYS_IDS ? "ids" : "vllm");
	results_num(results, "requests", run->trace->nr);
	results_num(results, "accesses", accesses);
	results_num(results, "hits", hits);
	results_num(results, "misses", accesses - hits);
}

static void describe(const struct limit *limit, const char *kind, u32 nr_blocks)
{
	struct results *results = limit->run->results;

	describe_hits(limit->run, kind, nr_blocks, limit->hits, limit->accesses);
	if (limit->run->tally)
		*limit->run->tally = (struct tally){ .hits = limit->hits, .accesses = limit->accesses };
	results_tile(results, "of prompt blocks can hit", "%.2f %%",
		     100 * share(limit->hits, limit->accesses));
	results_say(results, "trace", "%s, %s requests", limit->run->trace->name,
		    grouped(limit->run->trace->nr));
	results_say(results, "prompt blocks", "%s, of which at most %s can hit: %.2f %%",
		    grouped(limit->accesses), grouped(limit->hits),
		    100 * share(limit->hits, limit->accesses));
}

/* ---- infinite ---- */

/* How many leading keys were there already; afterwards all are. */
static void look_up(struct limit *limit, struct idmap *seen, u32 q, const struct shape *shape)
{
	const struct run *run = limit->run;
	const struct trace_request *req = &run->trace->req[q];
	bool found, all = true;
	u32 hits = 0;

	for (u32 i = 0; i < shape->nr_keys; i++) {
		idmap_get(seen, key_name(run->opt, run->trace, req, i), &found);
		all = all && found && i < shape->max_hits;
		hits += all;
	}
	limit->hits += hits;
	limit->hit_tokens += min_u64((u64)hits * run->opt->block_tokens, req->input);
	limit->fp = fold(limit->fp, hits);
}

static void infinite(struct limit *limit)
{
	const struct run *run = limit->run;
	struct idmap seen = { 0 };

	for (u32 q = 0; q < run->trace->nr; q++) {
		struct shape shape = shape_of(run->opt, &run->trace->req[q]);

		limit->accesses += shape.prompt;
		limit->input_tokens += run->trace->req[q].input;
		look_up(limit, &seen, q, &shape);
		progress_step(run, q);
	}
	describe(limit, "inf", 0);
	results_num(run->results, "distinct", seen.nr);
	results_num(run->results, "hit_tokens", limit->hit_tokens);
	results_num(run->results, "input_tokens", limit->input_tokens);
	results_hex(run->results, "fp", limit->fp);
	idmap_exit(&seen);
}

/* ---- bound ---- */

/**
 * struct belady - Belady's MIN
 * @flat: dense numbers of all keys, in order of access
 * @next: position of each access's successor, or "never"
 * @due: by dense number: next access of a resident key, U32_NONE if it is not resident
 * @farthest: heap of (~next, number); entries whose @due has changed are stale
 */
struct belady {
	u32 *flat;
	u32 *next;
	u32 *due;
	u64 nr;
	u32 nr_keys;
	u32 nr_resident;
	struct heap farthest;
};

static void number_keys(struct belady *belady, struct limit *limit)
{
	const struct run *run = limit->run;
	struct idmap numbers = { 0 };
	u64 at = 0;
	bool found;

	for (u32 q = 0; q < run->trace->nr; q++) {
		const struct trace_request *req = &run->trace->req[q];
		u32 nr_keys = shape_of(run->opt, req).nr_keys;

		for (u32 i = 0; i < nr_keys; i++) {
			u32 *n = idmap_get(&numbers, key_name(run->opt, run->trace, req, i),
					   &found);

			if (!found)
				*n = belady->nr_keys++;
			belady->flat[at++] = *n;
		}
	}
	idmap_exit(&numbers);
}

static void evict_farthest(struct belady *belady)
{
	struct event event;

	do {
		event = heap_pop(&belady->farthest);
	} while (belady->due[event.index] != (u32)~event.time);
	belady->due[event.index] = U32_NONE;
	belady->nr_resident--;
}

static void walk(struct belady *belady, struct limit *limit)
{
	for (u64 at = 0; at < belady->nr; at++) {
		u32 key = belady->flat[at];

		if (belady->due[key] != U32_NONE) {
			limit->hits++;
		} else {
			if (belady->nr_resident == limit->run->opt->nr_blocks)
				evict_farthest(belady);
			belady->nr_resident++;
		}
		belady->due[key] = belady->next[at];
		heap_push(&belady->farthest, ~(u64)belady->next[at], key);
	}
}

static enum exit_code bound(struct limit *limit)
{
	const struct run *run = limit->run;
	struct belady belady = { 0 };

	for (u32 q = 0; q < run->trace->nr; q++) {
		struct shape shape = shape_of(run->opt, &run->trace->req[q]);

		limit->accesses += shape.prompt;
		belady.nr += shape.nr_keys;
	}
	if (belady.nr >= U32_NONE)
		return complain(EXIT_WRONG, "policy bound: too many blocks");
	belady.flat = must_alloc(belady.nr * sizeof(u32));
	belady.next = must_alloc(belady.nr * sizeof(u32));
	number_keys(&belady, limit);
	/* @due serves as "last position seen" here and is all U32_NONE again afterwards. */
	belady.due = must_alloc(belady.nr_keys * sizeof(u32));
	memset(belady.due, 0xff, belady.nr_keys * sizeof(u32));
	for (u64 at = belady.nr; at--; ) {
		belady.next[at] = (u32)min_u64(belady.due[belady.flat[at]], belady.nr);
		belady.due[belady.flat[at]] = (u32)at;
	}
	memset(belady.due, 0xff, belady.nr_keys * sizeof(u32));
	walk(&belady, limit);
	describe(limit, "bound", run->opt->nr_blocks);
	heap_exit(&belady.farthest);
	free(belady.flat);
	free(belady.next);
	free(belady.due);
	return EXIT_GOOD;
}

enum exit_code run_limit(const struct run *run)
{
	struct limit limit = { .run = run };
	enum exit_code code = EXIT_GOOD;

	progress_start(run, run->opt->policy, run->trace->nr);
	if (strcmp(run->opt->policy, "bound"))
		infinite(&limit);
	else
		code = bound(&limit);
	progress_stop(run);
	return code;
}
