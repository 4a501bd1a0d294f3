// SPDX-License-Identifier: Apache-2.0
/*
 * A toy engine: requests decode by attention over their KV, some in pages that are shared by prefix,
 * some in ranges that grow, while kvmm moves the blocks that they read.
 *
 * Each worker is what a stream is on a device: it makes steps, and within one it reads and writes
 * blocks where it was told that they lie. A token depends on every byte of KV before it, so a
 * single wrong one changes all that follow. The program runs three times: without moves, with moves
 * between steps, and with moves beside them, as many as there can be; what is said must be the same
 * to the last bit.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIM		16u		/* of a head; there is one, of one layer */
#define BLOCK_TOKENS	4u
#define NR_BLOCKS	160u
#define NR_WORKERS	2u
#define NR_REQUESTS	384u
#define NR_SYSTEM	24u		/* tokens that all prompts begin with */
#define MAX_TOKENS	128u
#define MAX_BLOCKS	(MAX_TOKENS / BLOCK_TOKENS)
#define VOCABULARY	50000u

/* One block, as the kernels of this model see it. */
struct kv_block {
	float key[BLOCK_TOKENS][DIM];
	float value[BLOCK_TOKENS][DIM];
};

enum mode { STILL, BETWEEN, BESIDE, NR_MODES };
static const char *const mode_names[] = { "still", "between", "beside" };

struct request {
	uint32_t tokens[MAX_TOKENS];
	uint32_t nr_prompt, nr_tokens, nr_wanted;
	uint32_t nr_written;			/* tokens whose KV is there */
	int is_paged, is_live;
	/* In pages: full blocks, shared, then at most one of its own. */
	kvmm_ref_t ref[MAX_BLOCKS];
	uint32_t nr_refs;
	kvmm_mut_t mut[MAX_BLOCKS];
	uint32_t nr_muts;
	/* In runs. */
	kvmm_range_t range;
	uint32_t nr_range;
};

struct engine {
	enum mode mode;
	struct kvmm_pool *pool;
	struct kvmm_key_ctx *keys;
	struct kv_block *memory;
	struct request request[NR_REQUESTS];
	uint32_t nr_compactions;		/* atomic */
	int is_over;				/* atomic: no request is left */
};

struct worker {
	struct engine *engine;
	uint32_t number;
	kvmm_stream_t stream;
	uint64_t nr_steps;
	int err;
};

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185ull;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44dull;
	return x ^ x >> 33;
}

/* ---- the model ---- */

static float weight(uint64_t of, uint32_t i)
{
	return (float)(mix(of * 64 + i) % 2001) / 1000.0f - 1.0f;
}

static void write_kv(struct kv_block *block, uint32_t slot, uint32_t token, uint32_t position)
{
	for (uint32_t i = 0; i < DIM; i++) {
		block->key[slot][i] = weight(token, i) + weight(position + VOCABULARY, i) / 8;
		block->value[slot][i] = weight(token + 2ull * VOCABULARY, i);
	}
}

static float score(const float *query, const float *key)
{
	float sum = 0;

	for (uint32_t i = 0; i < DIM; i++)
		sum += query[i] * key[i];
	return sum;
}

/* The next token, from all that came before. @table: the block of each BLOCK_TOKENS tokens. */
static uint32_t attend(const struct kv_block *memory, const uint32_t *table, uint32_t nr,
		       uint32_t token)
{
	float query[DIM], out[DIM] = { 0 }, sum = 0;
	uint64_t hash = 0;
	uint32_t bits;

	for (uint32_t i = 0; i < DIM; i++)
		query[i] = weight(token + 3ull * VOCABULARY, i);
	for (uint32_t n = 0; n < nr; n++) {
		const struct kv_block *block = &memory[table[n / BLOCK_TOKENS]];
		float w = expf(score(query, block->key[n % BLOCK_TOKENS]));

		sum += w;
		for (uint32_t i = 0; i < DIM; i++)
			out[i] += w * block->value[n % BLOCK_TOKENS][i];
	}
	for (uint32_t i = 0; i < DIM; i++) {
		out[i] /= sum;
		memcpy(&bits, &out[i], sizeof(bits));
		hash = mix(hash + bits);
	}
	return hash % VOCABULARY;
}

/* ---- requests ---- */

static uint32_t nr_blocks_of(uint32_t nr_tokens)
{
	return (nr_tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
}

static void make_request(struct request *request, uint32_t number)
{
	uint64_t chance = mix(number + 1000);

	memset(request, 0, sizeof(*request));
	request->is_paged = number / NR_WORKERS % 2;
	request->nr_prompt = request->nr_tokens = NR_SYSTEM + 4 + chance % 20;
	request->nr_wanted = request->nr_prompt + 8 + chance / 32 % 60;
	for (uint32_t i = 0; i < request->nr_prompt; i++)
		request->tokens[i] = i < NR_SYSTEM ? i : mix(number * 1000 + i) % VOCABULARY;
}

static int chain(const struct engine *engine, const struct request *request, uint32_t nr_tokens,
		 kvmm_key_t *keys)
{
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;

	seq.tokens = request->tokens;
	seq.nr_tokens = nr_tokens;
	return kvmm_key_chain(engine->keys, &seq, keys, MAX_BLOCKS);
}

/* Reuse what is cached of the prompt; the last token is always computed. */
static int open_pages(struct engine *engine, struct request *request)
{
	kvmm_key_t keys[MAX_BLOCKS];
	int nr_keys = chain(engine, request, request->nr_prompt - 1, keys);
	struct kvmm_acquire acquire = {
		.keys = keys, .nr_keys = nr_keys, .max_hits = nr_keys,
		.nr_blocks = nr_blocks_of(request->nr_prompt), .hits = request->ref,
		.fresh = request->mut,
	};
	int err = nr_keys < 0 ? nr_keys : kvmm_acquire(engine->pool, &acquire);

	if (err)
		return err;
	request->nr_refs = acquire.nr_hits;
	request->nr_muts = acquire.nr_fresh;
	request->nr_written = acquire.nr_hits * BLOCK_TOKENS;
	return 0;
}

static int open_range(struct engine *engine, struct request *request)
{
	request->nr_range = nr_blocks_of(request->nr_prompt);
	return kvmm_range_alloc(engine->pool, request->nr_range,
				KVMM_RUNS(4) | KVMM_ALLOC_NO_COMPACT, &request->range);
}

static void close_request(struct engine *engine, struct request *request)
{
	if (request->is_paged) {
		kvmm_free(engine->pool, request->mut, request->nr_muts);
		kvmm_put_many(engine->pool, request->ref, request->nr_refs);
	} else {
		kvmm_range_free(engine->pool, request->range);
	}
	request->is_live = 0;
}

/* Room for one token more. -ENOSPC: not now. */
static int make_room(struct engine *engine, struct request *request)
{
	uint32_t nr = nr_blocks_of(request->nr_tokens + 1);
	int err = 0;

	if (request->is_paged && nr > request->nr_refs + request->nr_muts) {
		err = kvmm_alloc(engine->pool, 1, &request->mut[request->nr_muts]);
		request->nr_muts += !err;
	} else if (!request->is_paged && nr > request->nr_range) {
		err = kvmm_range_grow(engine->pool, request->range, 1);
		request->nr_range += !err;
	}
	return err;
}

/* Where its blocks lie, in this step. */
static int look_up(struct engine *engine, const struct request *request, uint32_t *table)
{
	struct kvmm_extent ext[MAX_BLOCKS];
	int nr, err;

	if (request->is_paged) {
		err = kvmm_blocks_of_refs(engine->pool, request->ref, request->nr_refs, table);
		return err ? err : kvmm_blocks_of_muts(engine->pool, request->mut,
						       request->nr_muts, table + request->nr_refs);
	}
	nr = kvmm_range_extents(engine->pool, request->range, ext, MAX_BLOCKS);
	for (int i = 0; i < nr; i++)
		for (uint32_t b = 0; b < ext[i].nr; b++)
			*table++ = ext[i].start + b;
	return nr < 0 ? nr : 0;
}

/* Full blocks are not written any more: others may hit them, and all of them may move. */
static int publish(struct engine *engine, struct request *request)
{
	uint32_t nr_full = request->nr_written / BLOCK_TOKENS, nr = nr_full - request->nr_refs;
	kvmm_key_t keys[MAX_BLOCKS];
	int err;

	if (!request->is_paged)
		return kvmm_range_seal(engine->pool, request->range, nr_full);
	if (!nr)
		return 0;
	err = chain(engine, request, nr_full * BLOCK_TOKENS, keys);
	if (err < 0)
		return err;
	err = kvmm_register(engine->pool, request->mut, keys + request->nr_refs, nr,
			    request->ref + request->nr_refs);
	if (err)
		return err;
	request->nr_refs += nr;
	request->nr_muts -= nr;
	memmove(request->mut, request->mut + nr, request->nr_muts * sizeof(request->mut[0]));
	return 0;
}

/* What a device would be given: KV of the new tokens, then attention over all. */
static int compute(struct engine *engine, struct request *request)
{
	uint32_t table[MAX_BLOCKS], n;
	int err = look_up(engine, request, table);

	if (err)
		return err;
	for (n = request->nr_written; n < request->nr_tokens; n++)
		write_kv(&engine->memory[table[n / BLOCK_TOKENS]], n % BLOCK_TOKENS,
			 request->tokens[n], n);
	request->nr_written = n;
	request->tokens[n] = attend(engine->memory, table, n, request->tokens[n - 1]);
	request->nr_tokens++;
	return 0;
}

/* ---- a worker ---- */

static int is_done(const struct request *request)
{
	return request->nr_tokens >= request->nr_wanted;
}

/* Blocks that the live requests will have in the end. */
static uint32_t nr_promised(const struct worker *worker)
{
	uint32_t nr = 0;

	for (uint32_t i = worker->number; i < NR_REQUESTS; i += NR_WORKERS)
		if (worker->engine->request[i].is_live)
			nr += nr_blocks_of(worker->engine->request[i].nr_wanted);
	return nr;
}

/* As many as there will be room for, but for holes that are too short. Returns whether any is live. */
static int admit(struct worker *worker)
{
	struct engine *engine = worker->engine;
	uint32_t nr = nr_promised(worker);

	for (uint32_t i = worker->number; i < NR_REQUESTS; i += NR_WORKERS) {
		struct request *request = &engine->request[i];

		if (request->is_live || is_done(request))
			continue;
		nr += nr_blocks_of(request->nr_wanted);
		if (nr > NR_BLOCKS / NR_WORKERS ||
		    (request->is_paged ? open_pages(engine, request) : open_range(engine, request)))
			break;
		request->is_live = 1;
	}
	nr = nr_promised(worker);
	if (!nr)
		kvmm_reset_inactive(engine->pool);	/* nobody will make room but the cache */
	return nr > 0;
}

static int is_finished(const struct worker *worker)
{
	for (uint32_t i = worker->number; i < NR_REQUESTS; i += NR_WORKERS)
		if (!is_done(&worker->engine->request[i]))
			return 0;
	return 1;
}

/* One token for each live request. */
static int run_batch(struct worker *worker)
{
	struct engine *engine = worker->engine;
	int err = 0;

	for (uint32_t i = worker->number; i < NR_REQUESTS && !err; i += NR_WORKERS) {
		struct request *request = &engine->request[i];

		if (!request->is_live)
			continue;
		err = make_room(engine, request);
		if (err == -ENOSPC) {	/* it lies in too many pieces: another time */
			close_request(engine, request);
			make_request(request, i);
			err = 0;
			continue;
		}
		if (!err)
			err = compute(engine, request);
		if (!err)
			err = publish(engine, request);
		if (!err && is_done(request))
			close_request(engine, request);
	}
	return err;
}

static int run_step(struct worker *worker)
{
	struct kvmm_pool *pool = worker->engine->pool;
	uint64_t epoch;
	int err = kvmm_step_begin(pool, worker->stream, &epoch), err2;

	if (err)
		return err;
	err = run_batch(worker);
	err2 = kvmm_step_end(pool, worker->stream, epoch);
	worker->nr_steps++;
	return err ? err : err2;
}

static void compact(struct engine *engine)
{
	uint32_t mode = engine->mode == BETWEEN ? KVMM_MOVE_BETWEEN : KVMM_MOVE_BESIDE;
	uint32_t nr = __atomic_fetch_add(&engine->nr_compactions, 1, __ATOMIC_RELAXED);
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 4 + nr % (NR_BLOCKS / 2) };

	kvmm_compact_start(engine->pool, &goal, mode);	/* there may be nothing to do */
	kvmm_compact_poll(engine->pool);
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	while (!worker->err && !is_finished(worker)) {
		if (admit(worker))
			worker->err = run_step(worker);
		if (worker->engine->mode != STILL)
			compact(worker->engine);
	}
	return NULL;
}

/* ---- a run ---- */

static void *move(void *arg)
{
	struct engine *engine = arg;

	while (!__atomic_load_n(&engine->is_over, __ATOMIC_ACQUIRE))
		compact(engine);
	return NULL;
}

static int make_pool(struct engine *engine)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_plane plane = { (uintptr_t)engine->memory, sizeof(struct kv_block),
				    sizeof(struct kv_block) };

	attr.planes = &plane;
	attr.nr_planes = 1;
	attr.nr_blocks = NR_BLOCKS;
	attr.block_tokens = BLOCK_TOKENS;
	attr.policy = "default";
	return kvmm_pool_create(&attr, &engine->pool);
}

static int run_workers(struct engine *engine, struct worker *worker)
{
	pthread_t thread[NR_WORKERS], mover;
	int err = 0;

	for (uint32_t i = 0; i < NR_WORKERS && !err; i++) {
		worker[i] = (struct worker){ .engine = engine, .number = i };
		err = kvmm_stream_add(engine->pool, NULL, 0, &worker[i].stream);
	}
	if (err)
		return err;
	for (uint32_t i = 0; i < NR_WORKERS; i++)
		pthread_create(&thread[i], NULL, work, &worker[i]);
	if (engine->mode == BESIDE)
		pthread_create(&mover, NULL, move, engine);
	for (uint32_t i = 0; i < NR_WORKERS; i++) {
		pthread_join(thread[i], NULL);
		err = err ? err : worker[i].err;
	}
	__atomic_store_n(&engine->is_over, 1, __ATOMIC_RELEASE);
	if (engine->mode == BESIDE)
		pthread_join(mover, NULL);
	return err;
}

static uint64_t digest(const struct engine *engine, uint64_t *nr_tokens)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < NR_REQUESTS; i++) {
		const struct request *request = &engine->request[i];

		*nr_tokens += request->nr_tokens - request->nr_prompt;
		for (uint32_t n = 0; n < request->nr_tokens; n++)
			hash = mix(hash + request->tokens[n]);
	}
	return hash;
}

static void report(const struct engine *engine, const struct worker *worker, uint64_t hash,
		   uint64_t nr_tokens)
{
	struct kvmm_pool_stat stat;
	struct kvmm_step_stat steps;

	kvmm_pool_stat(engine->pool, &stat);
	kvmm_step_stat(engine->pool, &steps);
	printf("%-8s %6llu tokens %6llu steps %6llu hits %7llu blocks moved  %016llx\n",
	       mode_names[engine->mode], (unsigned long long)nr_tokens,
	       (unsigned long long)(worker[0].nr_steps + worker[1].nr_steps),
	       (unsigned long long)stat.hit_blocks, (unsigned long long)steps.published_blocks,
	       (unsigned long long)hash);
}

static int run(enum mode mode, uint64_t *hash)
{
	struct kvmm_key_attr key_attr = KVMM_KEY_ATTR_INIT;
	struct engine *engine = calloc(1, sizeof(*engine));
	struct worker worker[NR_WORKERS];
	uint64_t nr_tokens = 0;
	int err = -ENOMEM;

	if (!engine)
		return err;
	engine->mode = mode;
	engine->memory = calloc(NR_BLOCKS, sizeof(*engine->memory));
	for (uint32_t i = 0; i < NR_REQUESTS; i++)
		make_request(&engine->request[i], i);
	key_attr.block_tokens = BLOCK_TOKENS;
	if (engine->memory)
		err = kvmm_key_ctx_create(&key_attr, &engine->keys);
	if (!err)
		err = make_pool(engine);
	if (!err)
		err = run_workers(engine, worker);
	if (!err)
		err = kvmm_validate(engine->pool);
	*hash = digest(engine, &nr_tokens);
	if (!err)
		report(engine, worker, *hash, nr_tokens);
	kvmm_pool_destroy(engine->pool);
	kvmm_key_ctx_destroy(engine->keys);
	free(engine->memory);
	free(engine);
	return err;
}

int main(void)
{
	uint64_t hash[NR_MODES];

	for (int mode = 0; mode < NR_MODES; mode++) {
		int err = run(mode, &hash[mode]);

		if (err) {
			fprintf(stderr, "%s: %s\n", mode_names[mode], kvmm_strerror(err));
			return 1;
		}
		if (hash[mode] != hash[STILL]) {
			fprintf(stderr, "%s: says something else\n", mode_names[mode]);
			return 1;
		}
	}
	printf("all three say the same\n");
	return 0;
}
