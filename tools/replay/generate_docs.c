// SPDX-License-Identifier: Apache-2.0
/*
 * Workloads of questions about documents: a prompt is a document and then a question that nobody
 * has asked before. Which document, tells the kind: popular ones (zipf); or the next one of a loop
 * that does not fit into the cache (scan); or popular ones until the fashion changes (phase).
 */
#include <stdlib.h>

#include "rng.h"
#include "workload.h"

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
	struct rng rng;
	u64 *first_id;
	double *cdf;
	u32 *by_rank;
	u64 next_id;
	u64 in_loop;
	u32 nr_ranked;
	u32 nr;
};

static void number_documents(struct library *library)
{
	for (u32 i = 0; i < library->nr; i++) {
		library->first_id[i] = library->next_id;
		library->next_id += rng_lognormal(&library->rng, library->work->length, 0.8, 1,
						  MAX_DOC);
	}
	library->first_id[library->nr] = library->next_id;
}

static void rank_documents(struct library *library)
{
	double sum = 0;

	for (u32 i = 0; i < library->nr_ranked; i++) {
		sum += pow(i + 1, -library->work->alpha);
		library->cdf[i] = sum;
		library->by_rank[i] = i;
	}
	for (u32 i = 0; i < library->nr_ranked; i++)
		library->cdf[i] /= sum;
}

static int library_init(struct library *library, const struct workload *work)
{
	library->work = work;
	library->rng.state = mix64(work->seed);
	library->nr_ranked = (u32)work->docs;
	library->nr = library->nr_ranked + (work->kind == WORKLOAD_SCAN ? (u32)work->loop : 0);
	library->first_id = malloc((library->nr + 1) * sizeof(*library->first_id));
	library->cdf = malloc(library->nr_ranked * sizeof(*library->cdf));
	library->by_rank = malloc(library->nr_ranked * sizeof(*library->by_rank));
	if (!library->first_id || !library->cdf || !library->by_rank)
		return -ENOMEM;
	number_documents(library);
	rank_documents(library);
	return 0;
}

static void library_exit(struct library *library)
{
	free(library->first_id);
	free(library->cdf);
	free(library->by_rank);
}

/* Every document may become as popular as any other. */
static void change_fashion(struct library *library)
{
	for (u32 i = library->nr_ranked - 1; i; i--) {
		u32 j = rng_below(&library->rng, i + 1), doc = library->by_rank[i];

		library->by_rank[i] = library->by_rank[j];
		library->by_rank[j] = doc;
	}
}

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

	if (work->kind == WORKLOAD_PHASE && q && q % (u32)work->every == 0)
		change_fashion(library);
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

int generate_docs(struct trace *trace, const struct workload *work)
{
	double gap_ms = work->span * 1000 / work->requests, at_ms = 0;
	struct library library = { 0 };
	int err = library_init(&library, work);

	for (u32 q = 0; !err && q < (u32)work->requests; q++) {
		u32 doc = choose(&library, q);

		err = add_question(&library, trace, doc, (u64)at_ms);
		at_ms += rng_exponential(&library.rng, gap_ms);
	}
	library_exit(&library);
	return err;
}
