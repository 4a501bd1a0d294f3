// SPDX-License-Identifier: Apache-2.0
/*
 * Acquire, fill, register, release: one request after the other or many at a time; requests that
 * grow; and what all of them put into the recording.
 */
#include "ages.h"
#include "cache.h"
#include "live.h"
#include "maps.h"
#include "record.h"
#include "replay.h"
#include "shape.h"
#include "tiers.h"

/* ---- when each key of a trace is wanted again: known here, never in the library ---- */

static void future_init(struct future *future, const struct options *opt, const struct trace *trace)
{
	struct idmap seen = { 0 };
	bool found;
	u64 nr = 0;

	future->first = must_alloc(trace->nr * sizeof(*future->first));
	for (u32 q = 0; q < trace->nr; q++) {
		future->first[q] = nr;
		nr += shape_of(opt, &trace->req[q]).nr_keys;
	}
	future->next = must_alloc(nr * sizeof(*future->next));
	for (u32 q = trace->nr; q--; ) {
		const struct trace_request *req = &trace->req[q];
		u32 nr_keys = shape_of(opt, req).nr_keys;

		for (u32 i = 0; i < nr_keys; i++) {
			u32 *at = idmap_get(&seen, key_name(opt, trace, req, i), &found);

			future->next[future->first[q] + i] = found ? *at : trace->nr;
			*at = found ? *at : trace->nr;
		}
		/* Behind: a key that a request names twice must not become its own successor. */
		for (u32 i = 0; i < nr_keys; i++)
			*idmap_get(&seen, key_name(opt, trace, req, i), &found) = q;
	}
	idmap_exit(&seen);
}

/*
 * ---- which request goes on where another one ended: the next turn of the same talk ----
 *
 * Its prompt has the answer in it, and so the numbers of its blocks, which the trace does not say
 * of answers. Names of blocks stand for all that is before them: so the last full one of a prompt
 * names its end.
 */

/*
 * For each request the one that goes on with it, or U32_NONE; the caller frees it
 *
 * That begins with all of its full blocks, and is at least as long as it and its answer. Of several such
 * ends a prompt goes on with the longest, of equal ones with the latest: each request is
 * followed once, and is no such end any more. Prompts without a full block are not known again.
 */
static u32 *follow_find(const struct options *opt, const struct trace *trace)
{
	/* Keys whose number stands for its full length would be in any prompt that goes on. */
	u32 step = trace->id_tokens % opt->block_tokens ? 1 : trace->id_tokens / opt->block_tokens;
	u32 *next = must_alloc(trace->nr * sizeof(*next));
	struct idmap ends = { 0 };	/* by name: the latest request that ends there, and 1; 0: none */
	bool found;

	memset(next, 0xff, trace->nr * sizeof(*next));
	for (u32 q = 0; q < trace->nr; q++) {
		const struct trace_request *req = &trace->req[q];
		u32 nr = req->input / trace->id_tokens * trace->id_tokens / opt->block_tokens;

		for (u32 i = nr; i; i -= step) {
			u32 from = idmap_find(&ends, key_name(opt, trace, req, i - 1));

			if (!from-- || next[from] != U32_NONE ||
			    (u64)trace->req[from].input + trace->req[from].output > req->input)
				continue;
			next[from] = q;
			break;
		}
		if (nr)
			*idmap_get(&ends, key_name(opt, trace, req, nr - 1), &found) = q + 1;
	}
	idmap_exit(&ends);
	return next;
}

/*
 * ---- requests that grow: their shape at some moment, and the blocks that come one by one ----
 *
 * A block that an answer has filled gets the key that it has in the prompt of the next turn, if that is
 * known; else one that is the request's alone: traces have no numbers for answers, but a request that is
 * preempted and comes back finds its own again.
 */

static struct shape shape_with(const struct cache *cache, u32 q, u32 said)
{
	const struct options *opt = cache->run->opt;
	const struct trace_request *req = &cache->run->trace->req[q];
	struct shape shape = shape_of(opt, req);
	u64 tokens = (u64)req->input + said;

	if (!said)
		return shape;
	shape.prompt = (u32)max_u64(shape.prompt, blocks_of(opt, tokens));
	shape.nr_keys = (u32)max_u64(shape.nr_keys, tokens / opt->block_tokens);
	shape.max_hits = opt->keys == KEYS_IDS ? shape.nr_keys :
						 (u32)((tokens - 1) / opt->block_tokens);
	return shape;
}

struct shape cache_shape(const struct cache *cache, u32 q)
{
	return shape_with(cache, q, cache->done ? cache->done[q] : 0);
}

struct shape cache_last_shape(const struct cache *cache, u32 q)
{
	u32 output = cache->run->trace->req[q].output;

	if (cache->next)
		output -= output != 0;
	return shape_with(cache, q, cache->done ? output : 0);
}

static kvmm_key_t cache_key(const struct cache *cache, u32 q, u32 i)
{
	const struct run *run = cache->run;
	const struct trace_request *req = &run->trace->req[q];

	if (i >= shape_of(run->opt, req).nr_keys && cache->next && cache->next[q] != U32_NONE)
		req = &run->trace->req[cache->next[q]];
	if (i < shape_of(run->opt, req).nr_keys)
		return key_of(key_name(run->opt, run->trace, req, i));
	return key_of(1ull << 63 | (u64)q << 32 | i);
}

enum exit_code cache_grow(struct cache *cache, struct held *held, bool *got)
{
	kvmm_mut_t *mut = &held->muts[held->nr_muts];
	struct kvmm_acquire_args acquire = { .nr_blocks = 1, .fresh = mut };
	int err = kvmm_acquire(cache->pool, &acquire);

	*got = !err;
	if (err)
		return err == -ENOSPC ? EXIT_GOOD : complain_of(err, "grow request %u", held->q);
	held->nr_muts++;
	cache->evictions += acquire.nr_evicted;
	cache->resident -= acquire.nr_evicted;
	tiers_recount(cache, 0);
	if (cache->filled_by)
		cache->filled_by[kvmm_block_of_mut(cache->pool, *mut)] = held->q;
	return EXIT_GOOD;
}

/* The first of the blocks without a key get the next @nr of cache->keys. */
static int publish(struct cache *cache, struct held *held, u32 nr)
{
	u32 from = held->nr_refs;
	struct kvmm_prefix prefix = { .keys = cache->keys + from, .nr = nr, .position = from,
				      .parent = from ? cache->keys + from - 1 : NULL };
	int err = kvmm_prefix_register(cache->pool, &prefix, held->muts, held->refs + from);

	if (err)
		return err;
	held->nr_refs += nr;
	held->nr_muts -= nr;
	held->muts += nr;
	cache->registered += nr;
	return 0;
}

enum exit_code cache_keep(struct cache *cache, struct held *held)
{
	u32 from = held->nr_refs, nr = cache_shape(cache, held->q).nr_keys - from;
	int err;

	if (!nr)
		return EXIT_GOOD;
	for (u32 i = from - (from != 0); i < from + nr; i++)
		cache->keys[i] = cache_key(cache, held->q, i);
	cache->keys_of = U32_NONE;
	err = publish(cache, held, nr);
	if (err)
		return complain_of(err, "register the answer of request %u", held->q);
	cache->resident += nr;
	tiers_recount(cache, 0);
	return EXIT_GOOD;
}

enum exit_code cache_preempt(struct cache *cache, struct held *held)
{
	u32 nr_missing = held->nr_lower && !held->is_loaded ? held->nr_lower : 0;
	enum exit_code code = tiers_preempt(cache, held);
	kvmm_ref_t *missing = held->refs + held->nr_device;

	/* What has not come is behind what the device had. */
	held->nr_refs -= nr_missing;
	memmove(missing, missing + nr_missing,
		(held->nr_refs - held->nr_device) * sizeof(*missing));
	return code ? code : cache_release(cache, held);
}

enum exit_code cache_answer(struct cache *cache, struct held *held)
{
	const struct trace_request *req = &cache->run->trace->req[held->q];
	u32 nr_tokens = cache->run->opt->block_tokens, last = req->output - (req->output != 0);
	u32 nr = held->nr_refs + held->nr_muts, total = cache_last_shape(cache, held->q).prompt;
	enum exit_code code = EXIT_GOOD;
	bool got = true;

	for (; !code && got && nr < total; nr++) {
		cache->done[held->q] = (u32)((u64)nr * nr_tokens - req->input);
		code = cache_keep(cache, held);
		if (!code)
			code = cache_grow(cache, held, &got);
		cache->answer_blocks += !code && got;
	}
	if (!code && !got)
		return complain(EXIT_WRONG, "the answer of request %u does not fit", held->q);
	cache->peak_held = (u32)max_u64(cache->peak_held, total);
	cache->done[held->q] = last;
	return code ? code : cache_keep(cache, held);
}

/* ---- beginning and end ---- */

static int make_pool(struct cache *cache)
{
	const struct options *opt = cache->run->opt;
	struct kvmm_evict_attr evict = { .size = sizeof(evict),
					 .run_window = opt->run_window ? opt->run_window :
							 KVMM_RUN_WINDOW_NONE,
					 .pageblock_blocks = opt->empty_pageblocks ?
							     opt->pageblock : 0 };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.name = cache->run->meter ? NULL : "replay";	/* names are unique */
	attr.device = opt->device;
	attr.policy = cache->hints ? "hint" : opt->policy;
	attr.compactor = live_is_on() ? "window" : "off";
	attr.block_bytes = opt->block_bytes;
	attr.nr_blocks = opt->nr_blocks;
	attr.block_tokens = opt->block_tokens;
	attr.evict = &evict;
	/* The reference evicts when a block is needed, not a batch ahead. */
	attr.flags = opt->digest ? KVMM_POOL_DETERMINISTIC : KVMM_POOL_NO_MAGAZINES;
	err = kvmm_pool_create(&attr, &cache->pool);
	return err ? err : live_add(cache->run, cache->pool);
}

static void make_room(struct cache *cache)
{
	const struct run *run = cache->run;
	const struct options *opt = run->opt;
	size_t nr_keys = 1, longest = 0;

	if (opt->answers)
		cache->next = follow_find(opt, run->trace);
	if (opt->grow || opt->answers)
		cache->done = must_alloc(run->trace->nr * sizeof(*cache->done));
	for (u32 q = 0; q < run->trace->nr; q++) {
		nr_keys = max_u64(nr_keys, cache_last_shape(cache, q).nr_keys);
		longest = max_u64(longest, cache_last_shape(cache, q).prompt);
	}
	cache->nr_keys = nr_keys;
	if (opt->transfers)
		cache->sent = must_alloc(longest * sizeof(*cache->sent));
	cache->keys = must_alloc(nr_keys * sizeof(*cache->keys));
	cache->when = must_alloc(nr_keys * sizeof(*cache->when));
	if (run->record)
		cache->filled_by = must_alloc(opt->nr_blocks * sizeof(*cache->filled_by));
	if (opt->pageblock)
		cache->in_pageblock = must_alloc((opt->nr_blocks / opt->pageblock + 1) *
						 sizeof(*cache->in_pageblock));
	if (run->ages)
		cache->evicted = must_alloc(opt->nr_blocks * sizeof(*cache->evicted));
	if (cache->hints)
		future_init(&cache->future, opt, run->trace);
}

enum exit_code cache_init(struct cache *cache, const struct run *run, const char *time_unit)
{
	int err;

	memset(cache, 0, sizeof(*cache));
	cache->run = run;
	cache->keys_of = U32_NONE;
	cache->hints = !strcmp(run->opt->policy, "min");
	ages_begin(run->ages, run->opt->nr_blocks, time_unit);
	err = make_pool(cache);
	if (err)
		return complain_of(err, "a pool of %u blocks, policy '%s', device '%s'",
				   run->opt->nr_blocks, run->opt->policy,
				   run->opt->device ? run->opt->device : "none");
	make_room(cache);
	pattern_init(&cache->pattern, run->opt, cache->pool);
	if (tell_begin(cache))
		return EXIT_INPUT;
	return tiers_begin(cache, cache->nr_keys);
}

void cache_exit(struct cache *cache)
{
	live_remove(cache->run, cache->pool);
	tell_end(cache);
	kvmm_pool_destroy(cache->pool);
	tiers_end(cache);
	pattern_exit(&cache->pattern);
	free(cache->future.next);
	free(cache->future.first);
	ages_end(cache->run->ages);
	free(cache->filled_by);
	free(cache->in_pageblock);
	free(cache->sent);
	free(cache->keys);
	free(cache->done);
	free(cache->next);
	free(cache->evicted);
	free(cache->when);
}

void cache_time(struct cache *cache, u64 now)
{
	if (cache->run->ages)
		cache->run->ages->now = now;
}

/* A request that waits is tried again and again: its keys are made only once. */
static void make_keys(struct cache *cache, u32 q, u32 nr_keys)
{
	if (cache->keys_of == q && !cache->done)
		return;
	for (u32 i = 0; i < nr_keys; i++)
		cache->keys[i] = cache_key(cache, q, i);
	cache->keys_of = q;
}

const kvmm_key_t *cache_keys(struct cache *cache, u32 q, u32 *nr_keys)
{
	*nr_keys = shape_of(cache->run->opt, &cache->run->trace->req[q]).nr_keys;
	make_keys(cache, q, *nr_keys);
	return cache->keys;
}

static struct held *held_alloc(u32 q, const struct shape *shape, u32 nr_blocks)
{
	size_t nr_refs = (size_t)shape->nr_keys, nr_muts = nr_blocks;
	struct held *held = must_alloc(sizeof(*held) + nr_refs * sizeof(kvmm_ref_t) +
				       nr_muts * sizeof(kvmm_mut_t));

	held->q = q;
	held->refs = (kvmm_ref_t *)(held + 1);
	held->muts = (kvmm_mut_t *)(held->refs + nr_refs);
	return held;
}

/* ---- content ---- */

/* Block @i of the request: those with a key come first. */
static int block_at(const struct cache *cache, const struct held *held, u32 i)
{
	return i < held->nr_refs ? kvmm_block_of_ref(cache->pool, held->refs[i]) :
				   kvmm_block_of_mut(cache->pool, held->muts[i - held->nr_refs]);
}

/* What will get a key has its content, other blocks have their own. */
static u64 name_at(const struct cache *cache, u32 q, u32 i)
{
	const struct run *run = cache->run;
	const struct trace_request *req = &run->trace->req[q];

	return i < shape_of(run->opt, req).nr_keys ?
	       pattern_of_key(key_name(run->opt, run->trace, req, i)) : pattern_of_request(q, i);
}

/* The request's blocks from @from to before @end are checked; with no @when they are filled. */
static enum exit_code look_at(struct cache *cache, const struct held *held, u32 from, u32 end,
			      const char *when)
{
	enum exit_code code = EXIT_GOOD;

	if (!cache->pattern.want && (when || !cache->filled_by))
		return EXIT_GOOD;
	for (u32 i = from; !code && i < end; i++) {
		int block = block_at(cache, held, i);
		u64 name = name_at(cache, held->q, i);

		if (block < 0)
			return complain_of(block, "find a block of request %u", held->q);
		if (!when && cache->filled_by)
			cache->filled_by[block] = held->q;
		code = when ? pattern_check(&cache->pattern, (u32)block, name, held->q, when) :
			      pattern_write(&cache->pattern, (u32)block, name);
	}
	return code;
}

/* ---- admission ---- */

/* "min": the farthest next request goes first; of one request's blocks the last one. */
static int hint(struct cache *cache, const struct held *held)
{
	const u32 *next;

	if (!cache->hints)
		return 0;
	next = cache->future.next + cache->future.first[held->q];
	for (u32 i = 0; i < held->nr_refs; i++)
		cache->when[i] = (u64)next[i] << 32 | i;
	return kvmm_advise_many(cache->pool, held->refs, KVMM_ADVISE_NEXT_USE, cache->when,
				held->nr_refs);
}

static void count(struct cache *cache, const struct held *held, const struct shape *shape,
		  u32 nr_evicted)
{
	const struct trace_request *req = &cache->run->trace->req[held->q];
	u64 tokens = (u64)held->nr_hits * cache->run->opt->block_tokens;

	cache->admitted += !cache->resumed;
	cache->resumed_hits += cache->resumed ? held->nr_hits : 0;
	cache->resumed_blocks += cache->resumed ? shape->prompt : 0;
	cache->hits += held->nr_hits;
	cache->accesses += shape->prompt;
	cache->lookups += shape->nr_keys;
	cache->evictions += nr_evicted;
	cache->full_hits += held->nr_hits == shape->prompt;
	cache->hit_tokens += min_u64(tokens, req->input);
	cache->input_tokens += req->input;
	cache->resident += shape->nr_keys - held->nr_hits - nr_evicted;
	tiers_recount(cache, shape->nr_keys - held->nr_hits);
	cache->peak_resident = (u32)max_u64(cache->peak_resident, cache->resident);
	cache->peak_held = (u32)max_u64(cache->peak_held, shape->prompt);
}

/*
 * In how many copies could the new blocks be filled? And, where blocks were evicted for them, how many
 * aligned groups did the request get as a whole?
 */
static void count_runs(struct cache *cache, const struct held *held, u32 nr_fresh, bool evicted)
{
	u32 size = cache->run->opt->pageblock, *nr_in = evicted ? cache->in_pageblock : NULL;
	int last = -2;

	for (u32 i = 0; i < nr_fresh; i++) {
		int block = kvmm_block_of_mut(cache->pool, held->muts[i]);

		cache->fresh_runs += block != last + 1;
		cache->fresh_pageblocks += nr_in && ++nr_in[(u32)block / size] == size;
		last = block;
	}
	for (u32 i = 0; nr_in && i < nr_fresh; i++)
		nr_in[kvmm_block_of_mut(cache->pool, held->muts[i]) / size] = 0;
	cache->fresh_blocks += nr_fresh;
	cache->fresh_allocs += nr_fresh != 0;
}

static u32 nr_runs(const u32 *blocks, u32 nr)
{
	u32 runs = nr != 0;

	for (u32 i = 1; i < nr; i++)
		runs += blocks[i] != blocks[i - 1] + 1;
	return runs;
}

/* What sending the first @nr blocks of the request would take. */
static enum exit_code count_descriptors(struct cache *cache, const struct held *held, u32 nr)
{
	u32 *blocks = cache->sent, nr_refs = (u32)min_u64(nr, held->nr_refs), runs;
	int err;

	if (!blocks)
		return EXIT_GOOD;
	err = kvmm_blocks_of_refs(cache->pool, held->refs, nr_refs, blocks);
	if (!err)
		err = kvmm_blocks_of_muts(cache->pool, held->muts, nr - nr_refs, blocks + nr_refs);
	if (err)
		return complain_of(err, "find the blocks of request %u", held->q);
	runs = nr_runs(blocks, nr);
	cache->sent_blocks += nr;
	cache->descriptors += runs;
	cache->descriptors_most = (u32)max_u64(cache->descriptors_most, runs);
	qsort(blocks, nr, sizeof(*blocks), compare_u32);
	cache->descriptors_sorted += nr_runs(blocks, nr);
	return EXIT_GOOD;
}

/* Hits first: what is evicted for a request was not among them. */
static void note_ages(struct cache *cache, const struct held *held, u32 nr_evicted,
		     const struct shape *shape)
{
	bool whole = held->nr_hits == min_u64(shape->nr_keys, shape->max_hits);
	struct ages *ages = cache->run->ages;

	if (!ages)
		return;
	for (u32 i = 0; i < held->nr_hits; i++)
		ages_hit(ages, &cache->keys[i]);
	ages_miss(ages, whole ? NULL : &cache->keys[held->nr_hits]);
	for (u32 i = 0; i < nr_evicted; i++)
		ages_evict(ages, &cache->evicted[i]);
	for (u32 i = held->nr_hits; i < shape->nr_keys; i++)
		ages_fill(ages, &cache->keys[i]);
}

static enum exit_code settle(struct cache *cache, struct held *held, const struct shape *shape,
			     const struct kvmm_acquire_args *got)
{
	enum exit_code code;
	u32 nr_fresh;
	int err;

	code = tiers_load(cache, held, got->nr_hits, min_u64(shape->nr_keys, shape->max_hits));
	if (code)
		return code;
	held->nr_hits = held->nr_device + held->nr_lower;
	nr_fresh = got->nr_fresh - held->nr_lower;
	held->nr_refs = held->nr_hits;
	held->nr_muts = nr_fresh;
	count(cache, held, shape, got->nr_evicted);
	count_runs(cache, held, nr_fresh, got->nr_evicted);
	code = look_at(cache, held, 0, held->nr_device, "at a hit");
	if (!code)
		code = look_at(cache, held, held->nr_hits, held->nr_hits + nr_fresh, NULL);
	if (code)
		return code;
	err = publish(cache, held, shape->nr_keys - held->nr_hits);
	if (!err)
		err = hint(cache, held);
	if (!err)
		note_ages(cache, held, got->nr_evicted, shape);
	return err ? complain_of(err, "register blocks of request %u", held->q) : EXIT_GOOD;
}

enum exit_code cache_admit(struct cache *cache, u32 q, u32 nr_blocks, struct held **held)
{
	const struct run *run = cache->run;
	struct shape shape = cache_shape(cache, q), last = cache_last_shape(cache, q);
	struct kvmm_acquire_args acquire = { 0 };
	struct held *new = held_alloc(q, &last, (u32)max_u64(nr_blocks, last.prompt));
	enum exit_code code;
	u64 since;
	int err;

	*held = NULL;
	make_keys(cache, q, shape.nr_keys);
	acquire.keys = cache->keys;
	acquire.nr_keys = shape.nr_keys;
	acquire.max_hits = shape.max_hits;
	acquire.nr_blocks = nr_blocks;
	acquire.hits = new->refs;
	acquire.fresh = new->muts;
	acquire.evicted = cache->evicted;
	since = record_call_begin(run->record);
	err = kvmm_acquire(cache->pool, &acquire);
	record_call_end(run->record, since);
	if (err) {
		free(new);
		return err == -ENOSPC ? EXIT_GOOD : complain_of(err, "acquire request %u", q);
	}
	code = settle(cache, new, &shape, &acquire);
	if (!code)
		code = count_descriptors(cache, new, shape.prompt);
	*held = new;
	return code;
}

u64 cache_prefill_us(const struct cache *cache, const struct held *held)
{
	const struct options *opt = cache->run->opt;
	u64 missed = cache_shape(cache, held->q).prompt - held->nr_hits;
	u64 us = missed * opt->block_tokens * US_PER_INPUT_TOKEN;

	/* Split by a plan, the rest is computed while the load is under way. */
	if (opt->knobs.recompute_ns)
		us -= min_u64(us, held->waited_us);
	return us;
}

u64 cache_service_us(const struct cache *cache, const struct held *held)
{
	return cache_prefill_us(cache, held) +
	       (u64)cache->run->trace->req[held->q].output * US_PER_OUTPUT_TOKEN;
}

enum exit_code cache_release(struct cache *cache, struct held *held)
{
	enum exit_code code = look_at(cache, held, 0, held->nr_refs + held->nr_muts, "at free");
	int err = 0;

	if (!code)
		err = kvmm_free(cache->pool, held->muts, held->nr_muts);
	if (!code && !err)
		err = kvmm_put_many(cache->pool, held->refs, held->nr_refs);
	if (err)
		code = complain_of(err, "free request %u", held->q);
	if (!code)
		code = tell_over(cache, held->q, held->nr_hits);
	for (u32 i = 0; cache->run->ages && i < held->nr_refs; i++) {
		kvmm_key_t key = cache_key(cache, held->q, i);

		ages_release(cache->run->ages, &key);
	}
	free(held);
	return code;
}

/* ---- results ---- */

u32 cache_available(struct cache *cache)
{
	struct kvmm_pool_stat stat;

	return kvmm_pool_get_stat(cache->pool, &stat) ? 0 : stat.nr_available;
}

enum exit_code cache_finish(struct cache *cache)
{
	enum exit_code code = tell_end(cache);
	struct kvmm_pool_stat stat;
	int err = code ? 0 : kvmm_validate(cache->pool);

	if (code)
		return code;
	if (!err)
		err = kvmm_pool_get_stat(cache->pool, &stat);
	if (err)
		return complain_of(err, "validate the pool");
	if (cache->tiers)
		return tiers_check(cache, &stat);
	if (stat.evictions != cache->evictions || stat.hit_blocks != cache->hits ||
	    stat.hit_blocks + stat.miss_blocks != cache->lookups ||
	    stat.nr_state[KVMM_BLOCK_INACTIVE] != cache->resident)
		return complain(EXIT_WRONG, "the pool counts %llu hits, %llu evictions, %u cached "
				"blocks, but %llu, %llu, %u were seen",
				(unsigned long long)stat.hit_blocks,
				(unsigned long long)stat.evictions,
				stat.nr_state[KVMM_BLOCK_INACTIVE],
				(unsigned long long)cache->hits,
				(unsigned long long)cache->evictions, cache->resident);
	return EXIT_GOOD;
}

static void say_digest(const struct cache *cache, struct results *results)
{
	struct kvmm_digest_info info = { .size = sizeof(info) };
	const kvmm_sum_t *history = &info.part[KVMM_DIGEST_HISTORY];

	if (kvmm_pool_digest(cache->pool, &info))
		return;
	results_say(results, "history", "%016llx%016llx",
		    (unsigned long long)history->word[1], (unsigned long long)history->word[0]);
	results_say(results, "digest", "%016llx%016llx",
		    (unsigned long long)info.all.word[1], (unsigned long long)info.all.word[0]);
}

static void report_descriptors(const struct cache *cache)
{
	struct results *results = cache->run->results;
	double mean = share(cache->descriptors, cache->admitted);

	results_num(results, "transfer_blocks", cache->sent_blocks);
	results_num(results, "descriptors", cache->descriptors);
	results_num(results, "descriptors_sorted", cache->descriptors_sorted);
	results_num(results, "descriptors_most", cache->descriptors_most);
	results_say(results, "descriptors",
		    "%.1f a request, %s at most; %.1f if blocks may go in any order", mean,
		    grouped(cache->descriptors_most),
		    share(cache->descriptors_sorted, cache->admitted));
	results_tile(results, "descriptors a request", "%.1f", mean);
}

void cache_report(const struct cache *cache, const char *kind)
{
	const struct options *opt = cache->run->opt;
	struct results *results = cache->run->results;

	describe_hits(cache->run, kind, opt->nr_blocks, cache->hits, cache->accesses);
	results_num(results, "evictions", cache->evictions);
	results_num(results, "fresh_blocks", cache->fresh_blocks);
	results_num(results, "fresh_runs", cache->fresh_runs);
	results_num(results, "run_window", opt->run_window);
	if (opt->pageblock)
		results_num(results, "fresh_pageblocks", cache->fresh_pageblocks);
	results_num(results, "rejected", cache->rejected);
	results_num(results, "checked_blocks", cache->pattern.nr_checked);
	if (cache->run->tally)
		*cache->run->tally = (struct tally){ .hits = cache->hits, .accesses = cache->accesses,
						     .rejected = cache->rejected };
	results_tile(results, "of prompt blocks hit", "%.2f %%",
		     100 * share(cache->hits, cache->accesses));
	results_tile(results, "blocks evicted", "%s", grouped(cache->evictions));
	results_say(results, "trace", "%s, %s requests%s", cache->run->trace->name,
		    grouped(cache->run->trace->nr),
		    cache->run->trace->ids ? "" : " (no block numbers in it: every prompt is new)");
	results_say(results, "pool", "%s blocks of %u tokens, policy %s",
		    grouped(opt->nr_blocks), opt->block_tokens, opt->policy);
	results_say(results, "prompt blocks", "%s, of which %s hit: %.2f %%",
		    grouped(cache->accesses), grouped(cache->hits),
		    100 * share(cache->hits, cache->accesses));
	results_say(results, "prompt tokens", "%s, of which %s need no computing: %.2f %%",
		    grouped(cache->input_tokens), grouped(cache->hit_tokens),
		    100 * share(cache->hit_tokens, cache->input_tokens));
	results_say(results, "evictions", "%s blocks", grouped(cache->evictions));
	results_say(results, "new blocks",
		    "%s in %s runs: %.2f blocks a run, %.1f runs an allocation",
		    grouped(cache->fresh_blocks), grouped(cache->fresh_runs),
		    share(cache->fresh_blocks, cache->fresh_runs),
		    share(cache->fresh_runs, cache->fresh_allocs));
	if (opt->pageblock)
		results_say(results, "whole pageblocks",
			    "%s of %u blocks: %.2f for 1,000 evicted blocks",
			    grouped(cache->fresh_pageblocks), opt->pageblock,
			    1000 * share(cache->fresh_pageblocks, cache->evictions));
	if (cache->rejected)
		results_say(results, "rejected", "%u requests larger than the pool",
			    cache->rejected);
	ages_report(cache->run->ages, results);
	if (cache->sent)
		report_descriptors(cache);
	tiers_report(cache);
	if (opt->digest)
		say_digest(cache, results);
	if (opt->verify)
		results_say(results, "verified", "%s blocks read back, all as written",
			    grouped(cache->pattern.nr_checked));
}

/* ---- the recording ---- */

enum exit_code cache_record_begin(struct cache *cache, bool timed)
{
	const struct run *run = cache->run;
	unsigned int columns = IN_CACHE | (timed ? IN_TIME : 0) | (cache->tiers ? IN_TIERS : 0) |
			       (cache->sent ? IN_TRANSFERS : 0);
	int err = record_begin(run->record, timed ? "us" : "requests",
			       timed ? record_span(run->trace) : run->trace->nr, columns);

	return err ? complain_of(err, "record") : EXIT_GOOD;
}

void cache_own(struct cache *cache, u32 q, const kvmm_ref_t *refs, u32 nr)
{
	for (u32 i = 0; cache->filled_by && i < nr; i++) {
		int block = kvmm_block_of_ref(cache->pool, refs[i]);

		if (block >= 0)
			cache->filled_by[block] = q;
	}
}

static void add_tiers(struct cache *cache, struct sample *sample)
{
	struct kvmm_tier_client_stat client;

	sample->hits_device = cache->hits;
	if (!cache->tiers || kvmm_tier_client_get_stat(cache->pool, &client, sizeof(client)))
		return;
	sample->hits_device = cache->tiers->device_hits;
	sample->hits_host = cache->tiers->host_hits;
	sample->hits_disk = cache->tiers->disk_hits;
	sample->offloaded = client.offloads;
	sample->loaded = client.loads;
}

void cache_record(struct cache *cache, u64 x, u32 q, u32 nr_running)
{
	struct record *record = cache->run->record;
	struct kvmm_pool_stat stat;
	struct sample sample;

	if (!record_due(record, x, q) || kvmm_pool_get_stat(cache->pool, &stat))
		return;
	for (u32 i = 0; i < record->rec.nr_cells; i++) {
		u32 block = recorder_block(&record->rec, i);
		struct kvmm_block_info info;

		record->rec.row[i] = (struct cell){ U32_NONE, CELL_FREE };
		if (!kvmm_block_get_info(cache->pool, block, &info) && info.state != KVMM_BLOCK_FREE)
			record->rec.row[i] = (struct cell){ cache->filled_by[block],
				info.state == KVMM_BLOCK_INACTIVE ? CELL_CACHED : CELL_ACTIVE };
	}
	sample = (struct sample){
		.cached		= stat.nr_inactive,
		.held		= stat.nr_blocks - stat.nr_available,
		.largest	= stat.largest,
		.free_runs	= stat.nr_runs,
		.running	= nr_running,
		.requests	= cache->admitted,
		.runs		= cache->fresh_runs,
		.descriptors	= cache->descriptors,
		.accesses	= cache->accesses,
		.evicted	= cache->evictions,
	};
	add_tiers(cache, &sample);
	record_add(record, x, q, &sample);
}
