// SPDX-License-Identifier: Apache-2.0
/*
 * Partial blocks: the tokens of private blocks, in a table beside the entries.
 *
 * A row says which generation of its entry the tokens are of, so no code has to clear it when a
 * block is freed: to the next owner a row of another generation is empty. A row is its block's from
 * the first token that is appended on: of a block without one the pool knows nothing, and it may be
 * named. Rows come in chunks, made at first use, and are found without a lock; a row is read and
 * written under its chunk's, a leaf. Under that lock the handle is looked at again: a caller that
 * still holds the block then is the row's only owner, and a stale handle cannot empty the row of a
 * later one.
 */
#include <string.h>

#include <kv/mem.h>
#include <kv/key.h>
#include <kvmm/cache.h>
#include <kvmm/ext/seq.h>

#include "cache.h"

/* A chunk has as many rows as fit into so many words, at least one. */
#define CHUNK_WORDS	(256u * 1024)
#define MAX_CHUNK_ROWS	256u

struct token_row {
	u32 gen;	/* of the block; never 0 */
	u32 nr;
	u32 token[];	/* pool->block_tokens */
};

struct token_chunk {
	struct kv_lock lock;
	u32 word[];	/* ->lock: chunk_rows() of them */
};

/* Chunks never go before the pool does. */
struct token_dir {
	u32 nr_chunks;				/* fixed at creation */
	struct token_chunk *chunk[];		/* kv_cas() from NULL, once */
};

/* ---- the table ---- */

static size_t row_words(const struct kvmm_pool *pool)
{
	return sizeof(struct token_row) / sizeof(u32) + pool->block_tokens;
}

static u32 chunk_rows(const struct kvmm_pool *pool)
{
	return min(max(CHUNK_WORDS / (u32)row_words(pool), 1u), MAX_CHUNK_ROWS);
}

/* Put @fresh into *@place unless another thread was faster, and then free it. Takes @fresh. */
#define install(pool, place, fresh, bytes)				\
	({								\
		__typeof__(fresh) __none = NULL;			\
		if (!(fresh))						\
			;						\
		else if (kv_cas(place, &__none, fresh)) {		\
			kv_lock(&(pool)->lock);				\
			(pool)->metadata_bytes += bytes;		\
			pool_leave(pool);				\
		} else {						\
			kv_free(fresh);					\
		}							\
	})

static struct token_dir *make_dir(struct kvmm_pool *pool)
{
	u32 nr = (pool->nr_blocks - 1) / chunk_rows(pool) + 1;
	size_t bytes = sizeof(struct token_dir) + nr * sizeof(struct token_chunk *);
	struct token_dir *dir = kv_alloc(bytes);

	if (dir)
		dir->nr_chunks = nr;
	install(pool, &pool->tokens, dir, bytes);
	/* Pairs with the release half of kv_cas() in install(): the directory is whole. */
	return smp_load_acquire(&pool->tokens);
}

static struct token_chunk *make_chunk(struct kvmm_pool *pool, struct token_chunk **place)
{
	size_t bytes = sizeof(struct token_chunk) +
		       chunk_rows(pool) * row_words(pool) * sizeof(u32);
	struct token_chunk *chunk = kv_alloc(bytes);

	if (chunk)
		kv_lock_init(&chunk->lock, KV_RANK_LEAF, 0);
	install(pool, place, chunk, bytes);
	/* As in make_dir(). */
	return smp_load_acquire(place);
}

/* The chunk of entry @index; NULL: there is none, or, if it was to be made, no memory. */
static struct token_chunk *chunk_of(struct kvmm_pool *pool, u32 index, bool make)
{
	/* Both pair with install(). */
	struct token_dir *dir = smp_load_acquire(&pool->tokens);
	struct token_chunk **place, *chunk;

	if (!dir && make)
		dir = make_dir(pool);
	if (!dir)
		return NULL;
	place = &dir->chunk[index / chunk_rows(pool)];
	chunk = smp_load_acquire(place);
	return chunk || !make ? chunk : make_chunk(pool, place);
}

static void tokens_exit(struct kvmm_pool *pool)
{
	struct token_dir *dir = pool->tokens;

	for (u32 i = 0; dir && i < dir->nr_chunks; i++)
		kv_free(dir->chunk[i]);
	kv_free(dir);
}

/* ---- rows ---- */

/* Of a handle that was good just now; without waiting. */
static bool is_private_still(const struct kvmm_pool *pool, kvmm_mut_t block)
{
	/* Pairs with the swaps of kv_edge_*(): rows of earlier owners are done with. */
	u64 word = smp_load_acquire(&entry_at(pool, block.index)->word);

	return kv_word_gen(word) == block.gen && kv_word_is(word, KV_ENTRY_PRIVATE);
}

static struct token_row *row_at(struct kvmm_pool *pool, struct token_chunk *chunk, u32 index)
{
	kv_assert_held(&chunk->lock);
	return (struct token_row *)&chunk->word[index % chunk_rows(pool) * row_words(pool)];
}

/* Tokens of @block. The chunk is locked. */
static u32 row_nr(const struct token_row *row, u32 gen)
{
	return row->gen == gen ? row->nr : 0;
}

/*
 * 0 and the row of @block, its chunk locked; or *@chunk is NULL: it was never written to. -ESTALE,
 * -EINVAL; -ENOMEM if it was to be made.
 */
static int row_enter(struct kvmm_pool *pool, kvmm_mut_t block, bool make,
		     struct token_chunk **chunk, struct token_row **row)
{
	u32 id;
	int err;

	err = kvmm_blocks_of_muts(pool, &block, 1, &id);	/* waits while the gate is closed */
	if (err)
		return err;
	*chunk = chunk_of(pool, block.index, make);
	if (!*chunk)
		return make ? -ENOMEM : 0;
	kv_lock(&(*chunk)->lock);
	if (!is_private_still(pool, block)) {
		kv_unlock(&(*chunk)->lock);
		return -ESTALE;
	}
	*row = row_at(pool, *chunk, block.index);
	return 0;
}

int kvmm_block_set_tokens(struct kvmm_pool *pool, kvmm_mut_t block, uint32_t at,
			  const uint32_t *tokens, uint32_t nr)
{
	struct token_chunk *chunk;
	struct token_row *row;
	int ret;

	if (!tokens && nr)
		return -EINVAL;
	ret = row_enter(pool, block, nr != 0, &chunk, &row);
	if (ret)
		return ret;
	if (!chunk)
		return at && at != KVMM_TOKENS_END ? -ERANGE : 0;
	ret = row_nr(row, block.gen);
	if (at == KVMM_TOKENS_END)
		at = (u32)ret;
	if (kv_word_refs(READ_ONCE(entry_at(pool, block.index)->word)) > 1) {
		ret = -EBUSY;
	} else if (at > (u32)ret) {
		ret = -ERANGE;
	} else if (nr > pool->block_tokens - at) {
		ret = -ENOSPC;
	} else if (nr || at < (u32)ret) {	/* a row without tokens is no row */
		if (nr)
			memcpy(row->token + at, tokens, nr * sizeof(*tokens));
		row->gen = block.gen;
		row->nr = ret = at + nr;
	}
	kv_unlock(&chunk->lock);
	return ret;
}

int kvmm_block_tokens(struct kvmm_pool *pool, kvmm_mut_t block, uint32_t *tokens, uint32_t max)
{
	struct token_chunk *chunk;
	struct token_row *row;
	int ret;

	if (!tokens && max)
		return -EINVAL;
	ret = row_enter(pool, block, false, &chunk, &row);
	if (ret || !chunk)
		return ret;
	ret = row_nr(row, block.gen);
	if (max)
		memcpy(tokens, row->token, min(max, (u32)ret) * sizeof(*tokens));
	kv_unlock(&chunk->lock);
	return ret;
}

u32 tokens_nr(struct kvmm_pool *pool, struct kv_handle handle)
{
	struct token_chunk *chunk = chunk_of(pool, handle.index, false);
	u32 nr;

	if (likely(!chunk))
		return 0;
	kv_lock(&chunk->lock);
	nr = row_nr(row_at(pool, chunk, handle.index), handle.gen);
	kv_unlock(&chunk->lock);
	return nr;
}

/* ---- naming ---- */

int __tokens_check(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	bool is_partial = false;

	for (u32 i = 0; i < nr && !is_partial; i++) {
		kvmm_mut_t block = { handles[i].index, handles[i].gen };
		struct token_chunk *chunk = NULL;
		struct token_row *row;

		if (block.index < pool->nr_blocks)
			chunk = chunk_of(pool, block.index, false);
		if (!chunk)
			continue;
		kv_lock(&chunk->lock);
		row = row_at(pool, chunk, block.index);
		is_partial = row->gen == block.gen && row->nr < pool->block_tokens &&
			     is_private_still(pool, block);
		kv_unlock(&chunk->lock);
	}
	return is_partial ? -ENODATA : 0;
}

/* Keys, computed before anything is named. */
struct names {
	u32 *tokens;		/* of all blocks; the one allocation begins here */
	kvmm_key_t *keys;
	kvmm_digest_t *digests;	/* NULL: not wanted */
};

static int init_names(struct names *names, const struct kvmm_stage_tokens_args *req,
		      u32 block_tokens)
{
	size_t bytes = block_tokens * sizeof(*names->tokens) + sizeof(*names->keys) +
		       (req->digests ? sizeof(*names->digests) : 0);

	names->tokens = kv_alloc_array(req->nr, bytes);
	if (!names->tokens)
		return -ENOMEM;
	names->keys = (kvmm_key_t *)(names->tokens + (size_t)req->nr * block_tokens);
	names->digests = req->digests ? (kvmm_digest_t *)(names->keys + req->nr) : NULL;
	return 0;
}

/* The tokens of all blocks, one after the other; each must be full. */
static int gather_tokens(struct kvmm_pool *pool, const struct kvmm_stage_tokens_args *req,
			 u32 *tokens)
{
	u32 full = pool->block_tokens;

	for (u32 i = 0; i < req->nr; i++) {
		int got = kvmm_block_tokens(pool, req->blocks[i], tokens + (size_t)i * full, full);

		if (got < 0)
			return got;
		if (got < (int)full)
			return -ENODATA;
	}
	return 0;
}

static int stage_names(struct kvmm_pool *pool, const struct kvmm_stage_tokens_args *req,
		       const struct names *names)
{
	struct kvmm_prefix prefix = { .keys = names->keys, .nr = req->nr,
				      .position = req->position, .parent = req->parent,
				      .domain = req->domain };
	kvmm_key_t parent;
	int err;

	if (req->parent_digest) {
		parent = kvmm_key_of_digest(req->parent_digest);
		prefix.parent = &parent;
	}
	err = kvmm_stage(pool, &prefix, req->blocks, req->staged);
	if (err)
		return err;
	memcpy(req->keys, names->keys, req->nr * sizeof(*req->keys));
	if (names->digests)
		memcpy(req->digests, names->digests, req->nr * sizeof(*req->digests));
	return 0;
}

int kvmm_stage_tokens_sized(struct kvmm_pool *pool, const struct kvmm_stage_tokens_args *req,
			    size_t size)
{
	struct kvmm_key_seq what = KVMM_KEY_SEQ_INIT;
	struct names names;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!kv_args_are_known(req, size, sizeof(*req)) || !pool || !req->blocks || !req->nr ||
	    req->nr > pool->nr_blocks || !req->ctx || !req->staged || !req->keys ||
	    kv_key_block_tokens(req->ctx) != pool->block_tokens)
		return -EINVAL;
	err = init_names(&names, req, pool->block_tokens);
	if (err)
		return err;
	what.tokens = names.tokens;
	what.nr_tokens = (size_t)req->nr * pool->block_tokens;
	what.extras = req->extras;
	what.nr_extras = req->nr_extras;
	what.parent = req->parent;
	what.parent_digest = req->parent_digest;
	err = gather_tokens(pool, req, names.tokens);
	if (!err)
		err = min(kvmm_key_hash(req->ctx, &what, names.keys, names.digests, req->nr), 0);
	if (!err)
		err = stage_names(pool, req, &names);
	kv_free(names.tokens);
	return err;
}

POOL_PART(tokens) = {
	.name	= "tokens in blocks",
	.exit	= tokens_exit,
};
