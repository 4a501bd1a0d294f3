/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A toy engine: requests decode in batches by attention over KV that kvmm keeps, in pages that are
 * shared by prefix and in ranges that grow, while kvmm moves the blocks.
 *
 *	engine	the pool, its memory, all requests
 *	lane	a stream and the requests that decode on it, one step at a time
 *	request	tokens, and the blocks with their KV
 *
 * A lane belongs to one thread at a time; lanes share nothing but the pool.
 */
#ifndef TOY_ENGINE_H
#define TOY_ENGINE_H

#include <kvmm/kvmm.h>

#include "device.h"

#define NR_BLOCKS	256u
#define NR_LANES	4u
#define NR_PLANES	(2 * TOY_LAYERS)
#define NR_SYSTEM	24u		/* tokens that all prompts begin with */
#define MAX_REQUESTS	4096u
#define MAX_HOST_TIER	65536u		/* blocks */
#define MAX_TOKENS	128u
#define MAX_BLOCKS	(MAX_TOKENS / TOY_BLOCK_TOKENS)
#define MAX_BATCH	8u		/* requests in a step */
#define MAX_ROWS	(MAX_BATCH * MAX_TOKENS)
#define MAX_WORDS	(MAX_BATCH * 2 * MAX_BLOCKS)

enum mode { STILL, BETWEEN, BESIDE, NR_MODES };
extern const char *const mode_names[NR_MODES];

struct options {
	const char *device;
	int mode;			/* NR_MODES: each in turn */
	uint32_t nr_requests;
	int has_threads;		/* one a lane, and one that moves; else all in turn */
	int is_verified;		/* checksums of cached blocks */
	int is_elastic;			/* memory comes and goes */
	int is_wrong;			/* breaks the rules: believes that blocks stay */
	const char *control;		/* folder of the control socket; NULL: none */
	unsigned long slow_us;		/* behind each turn */
	uint32_t nr_prompts;		/* different ones; requests behind come with them again */
	uint32_t host_tier;		/* blocks of host memory below the pool; 0: none */
	const char *disk_tier;		/* folder of a disk below that; NULL: none */
};

struct request {
	uint32_t tokens[MAX_TOKENS];
	uint32_t nr_prompt, nr_tokens, nr_wanted;
	uint32_t nr_written;		/* tokens whose KV is there */
	int is_paged, is_live;
	struct kvmm_seq *seq;		/* in pages: full blocks, shared, then those of its own */
	/* In runs. */
	int is_noted;			/* whoever makes a trace has heard of it */
	kvmm_range_t range;
	uint32_t nr_range;
	/* Where they lie, of a lane that keeps tables. */
	uint32_t table[MAX_BLOCKS];
	uint32_t nr_table;
};

/* What a lane sends to the device in a step, in one copy; and what comes back. */
struct batch {
	struct toy_row row[MAX_ROWS];
	struct toy_seq seq[MAX_BATCH];
	uint32_t word[MAX_WORDS];
	uint32_t said[MAX_BATCH];
};

struct engine {
	const struct options *opt;
	enum mode mode;
	struct device *device;
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;		/* NULL: none, as below */
	struct kvmm_disk *disk;
	struct kvmm_key_ctx *keys;
	uint64_t planes;		/* of the device; TOY_PIECE_BYTES a block each */
	uint64_t weights;
	struct request *request;
	uint32_t nr_compactions;	/* atomic */
	int is_over;			/* atomic: no request is left, or moving has failed */
};

struct lane {
	struct engine *engine;
	uint32_t number;
	void *stream;
	kvmm_stream_t id;
	int keeps_tables;
	int is_told;			/* of relocations; not if it is wrong on purpose */
	struct batch *batch;		/* pinned */
	uint64_t memory;		/* of the device: a struct batch, then states of rows */
	struct request *active[MAX_BATCH];	/* in the step that is under way */
	uint32_t nr_active, nr_rows, nr_words;
	uint64_t nr_steps;
	int err;
};

static inline uint32_t nr_blocks_of(uint32_t nr_tokens)
{
	return (nr_tokens + TOY_BLOCK_TOKENS - 1) / TOY_BLOCK_TOKENS;
}

static inline int is_done(const struct request *request)
{
	return request->nr_tokens >= request->nr_wanted;
}

static inline uint64_t plane_bytes(void)
{
	return (uint64_t)NR_BLOCKS * TOY_PIECE_BYTES;
}

/* engine.c; closed also if it could not be opened */
int engine_open(struct engine *engine);
void engine_close(struct engine *engine);

/* request.c */
uint64_t toy_mix(uint64_t x);
void request_make(struct request *request, uint32_t number);
int request_open(struct engine *engine, struct request *request);
/* It starts again another time: from its prompt, and without blocks. */
void request_restart(struct engine *engine, struct request *request);
/* It has said all. */
void request_finish(struct engine *engine, struct request *request);
int request_grow(struct engine *engine, struct request *request);
int request_end_step(struct engine *engine, struct request *request);
/* Where its blocks lie, as ids, or as pairs of an extent. Returns how many words, or an error. */
int request_blocks(struct engine *engine, const struct request *request, uint32_t *words);
int request_extents(struct engine *engine, const struct request *request, uint32_t *words);

/* tier.c; nothing happens without --host-tier */
int tier_open(struct engine *engine);
int tier_attach(struct engine *engine);
void tier_close(struct engine *engine);
void tier_turn(struct engine *engine);

/* model.c */
int model_open(struct device *device, uint64_t *weights);
/* The launches of one step; all but layer, key and value of @args are set. */
int model_step(struct device *device, void *stream, struct toy_args *args, uint64_t planes,
	       uint64_t plane_bytes);
uint64_t model_state_bytes(uint32_t nr_rows);
/* What the requests say, one after the other, without kvmm, on the host. */
int model_reference(struct request *requests, uint32_t nr);

/* lane.c */
int lane_open(struct engine *engine, uint32_t number, struct lane *lane);
void lane_close(struct lane *lane);
/* One step of it, unless there is nothing to do. Returns 1 if any request is left, or an error. */
int lane_turn(struct lane *lane);
/* What the last step said, which lane_turn() does itself. */
int lane_collect(struct lane *lane);

/* move.c */
struct mover {
	struct engine *engine;
	void *stream;			/* of whoever is lent memory of the pool */
	struct kvmm_mem_range lent[NR_BLOCKS];
	uint32_t nr_lent;
	uint32_t turns;
	int is_shrinking;
	uint64_t lent_bytes;		/* all in all */
	int err;
};
int mover_open(struct engine *engine, struct mover *mover);
void mover_compact(struct engine *engine);	/* any thread */
void mover_turn(struct mover *mover);
int mover_close(struct mover *mover);

#endif /* TOY_ENGINE_H */
