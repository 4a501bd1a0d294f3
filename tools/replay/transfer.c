// SPDX-License-Identifier: Apache-2.0
/* Descriptors of what requests would send, and the plain pool of transfer.h. */
#include "common.h"
#include "transfer.h"

/**
 * struct plain_ask - blocks of one request
 * @names, @nr_names: of its blocks that get one
 * @max_hits: at most so many of them may hit
 * @nr: blocks in all
 * @blocks: out: room for @nr
 * @nr_hits: out
 */
struct plain_ask {
	const u64 *names;
	u32 nr_names;
	u32 max_hits;
	u32 nr;
	u32 *blocks;
	u32 nr_hits;
};

/* ---- the free queue: a ring through the block behind the last ---- */

static void queue_put(struct plain *plain, u32 b, u32 before)
{
	struct plain_block *block = plain->block;
	u32 prev = block[before].prev;

	block[b].prev = prev;
	block[b].next = before;
	block[prev].next = b;
	block[before].prev = b;
	plain->nr_free++;
}

static void queue_del(struct plain *plain, u32 b)
{
	struct plain_block *block = plain->block;

	block[block[b].prev].next = block[b].next;
	block[block[b].next].prev = block[b].prev;
	plain->nr_free--;
}

/* ---- names ---- */

static u32 *bucket_of(const struct plain *plain, u64 name)
{
	return &plain->bucket[mix64(name) & plain->mask];
}

/* The oldest block of that name. */
static u32 find(const struct plain *plain, u64 name)
{
	u32 b = *bucket_of(plain, name);

	while (b != U32_NONE && plain->block[b].name != name)
		b = plain->block[b].next_of_name;
	return b;
}

static void name(struct plain *plain, u32 b, u64 name)
{
	u32 *at = bucket_of(plain, name);

	while (*at != U32_NONE)
		at = &plain->block[*at].next_of_name;
	*at = b;
	plain->block[b].name = name;
	plain->block[b].named = true;
	plain->block[b].next_of_name = U32_NONE;
}

static void forget(struct plain *plain, u32 b)
{
	u32 *at = bucket_of(plain, plain->block[b].name);

	while (*at != b)
		at = &plain->block[*at].next_of_name;
	*at = plain->block[b].next_of_name;
	plain->block[b].named = false;
}

/* ---- requests ---- */

/* The longest prefix that is there; those of it that nobody has are counted in *@nr_idle. */
static void match(const struct plain *plain, struct plain_ask *ask, u32 *nr_idle)
{
	u32 b;

	*nr_idle = 0;
	for (ask->nr_hits = 0; ask->nr_hits < ask->max_hits; ask->nr_hits++) {
		b = find(plain, ask->names[ask->nr_hits]);
		if (b == U32_NONE)
			return;
		ask->blocks[ask->nr_hits] = b;
		*nr_idle += !plain->block[b].refs;
	}
}

static u32 pop(struct plain *plain)
{
	u32 b = plain->block[plain->nr].next;

	queue_del(plain, b);
	if (plain->block[b].named)
		forget(plain, b);
	return b;
}

/* Return: 0; -ENOSPC it does not fit now. */
static int plain_admit(struct plain *plain, struct plain_ask *ask)
{
	u32 nr_idle;

	match(plain, ask, &nr_idle);
	if (ask->nr - ask->nr_hits + nr_idle > plain->nr_free)
		return -ENOSPC;
	for (u32 i = 0; i < ask->nr_hits; i++)
		if (!plain->block[ask->blocks[i]].refs++)
			queue_del(plain, ask->blocks[i]);
	for (u32 i = ask->nr_hits; i < ask->nr; i++) {
		u32 b = pop(plain);

		ask->blocks[i] = b;
		plain->block[b].refs = 1;
		if (i < ask->nr_names)
			name(plain, b, ask->names[i]);
	}
	return 0;
}

/*
 * The request that has these blocks is over: the last block first; those without a name go before
 * all others, in that order.
 */
static void plain_release(struct plain *plain, const u32 *blocks, u32 nr)
{
	u32 head = plain->block[plain->nr].next;

	for (u32 i = nr; i-- > 0;) {
		u32 b = blocks[i];

		if (!--plain->block[b].refs)
			queue_put(plain, b, plain->block[b].named ? plain->nr : head);
	}
}

/* ---- beginning and end ---- */

static void plain_init(struct plain *plain, u32 nr)
{
	u32 nr_buckets = 1024;

	while (nr_buckets < nr)
		nr_buckets *= 2;
	*plain = (struct plain){ .nr = nr, .mask = nr_buckets - 1 };
	plain->block = must_alloc(((size_t)nr + 1) * sizeof(*plain->block));
	plain->bucket = must_alloc(nr_buckets * sizeof(*plain->bucket));
	memset(plain->bucket, 0xff, nr_buckets * sizeof(*plain->bucket));
	plain->block[nr].prev = plain->block[nr].next = nr;
	for (u32 b = 0; b < nr; b++)
		queue_put(plain, b, nr);
}

/* ---- descriptors ---- */

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

void transfer_begin(struct cache *cache)
{
	struct transfer *transfer;
	u32 nr;

	if (!cache->run->opt->transfers)
		return;
	nr = longest_request(cache->run);
	cache->transfer = transfer = must_alloc(sizeof(*transfer));
	transfer->names = must_alloc(nr * sizeof(*transfer->names));
	transfer->blocks = must_alloc(nr * sizeof(*transfer->blocks));
	transfer->sorted = must_alloc(nr * sizeof(*transfer->sorted));
	plain_init(&transfer->plain, cache->run->opt->nr_blocks);
}

void transfer_end(struct cache *cache)
{
	struct transfer *transfer = cache->transfer;

	if (!transfer)
		return;
	free(transfer->plain.block);
	free(transfer->plain.bucket);
	free(transfer->names);
	free(transfer->blocks);
	free(transfer->sorted);
	free(transfer);
}

/* ---- counting ---- */

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
	int err = kvmm_blocks_of_refs(cache->pool, held->refs, nr_refs, transfer->blocks);

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

	held->plain = ask.blocks = must_alloc(nr_blocks * sizeof(*ask.blocks));
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
