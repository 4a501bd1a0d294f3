// SPDX-License-Identifier: Apache-2.0
/* Descriptors of what requests would send: see transfer.h. */
#include <stdlib.h>
#include <string.h>

#include "transfer.h"

static u32 longest_request(const struct run *run)
{
	u64 nr = 1;

	for (u32 q = 0; q < run->trace->nr; q++) {
		const struct trace_request *req = &run->trace->req[q];

		nr = max_u64(nr, blocks_of(run->opt, (u64)req->input + req->output));
		nr = max_u64(nr, shape_of(run->opt, req).prompt);
	}
	return (u32)nr;
}

enum exit_code transfer_begin(struct cache *cache)
{
	struct transfer *transfer;
	u32 nr;

	if (!cache->run->opt->transfers)
		return EXIT_GOOD;
	nr = longest_request(cache->run);
	cache->transfer = transfer = calloc(1, sizeof(*transfer));
	if (!transfer)
		return complain_of(-ENOMEM, "start");
	transfer->names = malloc(nr * sizeof(*transfer->names));
	transfer->blocks = malloc(nr * sizeof(*transfer->blocks));
	transfer->sorted = malloc(nr * sizeof(*transfer->sorted));
	if (!transfer->names || !transfer->blocks || !transfer->sorted ||
	    plain_init(&transfer->plain, cache->run->opt->nr_blocks))
		return complain_of(-ENOMEM, "start");
	return EXIT_GOOD;
}

void transfer_end(struct cache *cache)
{
	struct transfer *transfer = cache->transfer;

	if (!transfer)
		return;
	plain_exit(&transfer->plain);
	free(transfer->names);
	free(transfer->blocks);
	free(transfer->sorted);
	free(transfer);
}

/* ---- counting ---- */

static int compare_u32(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

static u32 nr_runs(const u32 *blocks, u32 nr)
{
	u32 runs = nr != 0;

	for (u32 i = 1; i < nr; i++)
		runs += blocks[i] != blocks[i - 1] + 1;
	return runs;
}

static void count(struct transfer *transfer, const u32 *blocks, u32 nr, struct descriptors *what)
{
	u32 runs = nr_runs(blocks, nr);

	what->in_order += runs;
	what->most = (u32)max_u64(what->most, runs);
	memcpy(transfer->sorted, blocks, nr * sizeof(*blocks));
	qsort(transfer->sorted, nr, sizeof(*blocks), compare_u32);
	what->sorted += nr_runs(transfer->sorted, nr);
}

/* ---- requests ---- */

static enum exit_code note_ours(struct cache *cache, const struct held *held, u32 nr)
{
	struct transfer *transfer = cache->transfer;
	u32 nr_refs = (u32)min_u64(nr, held->nr_refs);
	int err;

	err = kvmm_blocks_of_refs(cache->pool, held->refs, nr_refs, transfer->blocks);
	if (!err)
		err = kvmm_blocks_of_muts(cache->pool, held->muts, nr - nr_refs,
					  transfer->blocks + nr_refs);
	if (err)
		return complain_of(err, "find the blocks of request %u", held->q);
	count(transfer, transfer->blocks, nr, &transfer->ours);
	transfer->nr_blocks += nr;
	return EXIT_GOOD;
}

static enum exit_code note_theirs(struct cache *cache, struct held *held,
				  const struct shape *shape, u32 nr_blocks)
{
	struct transfer *transfer = cache->transfer;
	const struct run *run = cache->run;
	struct plain_ask ask = { .names = transfer->names, .nr_names = shape->nr_keys,
				 .max_hits = shape->max_hits, .nr = nr_blocks };

	ask.blocks = malloc(nr_blocks * sizeof(*ask.blocks));
	if (!ask.blocks)
		return complain_of(-ENOMEM, "admit request %u", held->q);
	held->plain = ask.blocks;
	held->nr_plain = nr_blocks;
	for (u32 i = 0; i < shape->nr_keys; i++)
		transfer->names[i] = key_name(run->opt, run->trace, &run->trace->req[held->q], i);
	if (plain_admit(&transfer->plain, &ask)) {
		held->nr_plain = 0;
		return complain(EXIT_WRONG, "request %u fits here, but not into a plain pool",
				held->q);
	}
	transfer->plain_hits += ask.nr_hits;
	count(transfer, ask.blocks, shape->prompt, &transfer->theirs);
	return EXIT_GOOD;
}

enum exit_code transfer_note(struct cache *cache, struct held *held, const struct shape *shape,
			     u32 nr_blocks)
{
	enum exit_code code;

	if (!cache->transfer)
		return EXIT_GOOD;
	code = note_ours(cache, held, shape->prompt);
	return code ? code : note_theirs(cache, held, shape, nr_blocks);
}

void transfer_forget(struct cache *cache, struct held *held)
{
	if (!cache->transfer)
		return;
	plain_release(&cache->transfer->plain, held->plain, held->nr_plain);
	free(held->plain);
}

/* ---- output ---- */

void transfer_describe(const struct cache *cache)
{
	const struct transfer *transfer = cache->transfer;
	struct results *results = cache->run->results;

	if (!transfer)
		return;
	results_num(results, "transfer_blocks", transfer->nr_blocks);
	results_num(results, "descriptors", transfer->ours.in_order);
	results_num(results, "descriptors_sorted", transfer->ours.sorted);
	results_num(results, "descriptors_most", transfer->ours.most);
	results_num(results, "plain_hits", transfer->plain_hits);
	results_num(results, "plain_descriptors", transfer->theirs.in_order);
	results_num(results, "plain_descriptors_sorted", transfer->theirs.sorted);
	results_num(results, "plain_descriptors_most", transfer->theirs.most);
}

static void say_descriptors(const struct cache *cache, const char *label,
			    const struct descriptors *what)
{
	char a[32];

	results_say(cache->run->results, label,
		    "%.1f a request, %s at most; %.1f if blocks may go in any order",
		    share(what->in_order, cache->admitted), format_grouped(what->most, a),
		    share(what->sorted, cache->admitted));
}

void transfer_say(const struct cache *cache)
{
	const struct transfer *transfer = cache->transfer;
	char a[32];

	if (!transfer)
		return;
	say_descriptors(cache, "descriptors", &transfer->ours);
	say_descriptors(cache, "of a plain pool", &transfer->theirs);
	results_say(cache->run->results, "its hits", "%s, descriptors %.1f times as many",
		    format_grouped(transfer->plain_hits, a),
		    share(transfer->theirs.in_order, transfer->ours.in_order));
	results_tile(cache->run->results, "descriptors a request", "%.1f",
		     share(transfer->ours.in_order, cache->admitted));
}
