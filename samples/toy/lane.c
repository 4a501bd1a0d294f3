// SPDX-License-Identifier: Apache-2.0
/*
 * A lane: a stream, and the requests that decode on it, in batches.
 *
 *	collect		wait for the last step, append what was said, publish full blocks
 *	admit, grow	requests and blocks for the next one
 *	submit		kvmm_step_begin(); where do the blocks lie? work for the device; _end()
 *
 * The device works on the step while the host goes on to another lane, and while kvmm moves blocks:
 * what the step was told stays true until the device has passed it.
 *
 * Lanes with an even number ask where blocks lie in each step. The others keep tables, which they
 * bring up to date by kvmm_relocations(), as engines do whose tables live elsewhere.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "engine.h"

#define MAX_RELOCATIONS		64

/* ---- the beginning and the end ---- */

int lane_open(struct engine *engine, uint32_t number, struct lane *lane)
{
	struct device *device = engine->device;
	uint32_t flags;
	int err;

	*lane = (struct lane){ .engine = engine, .number = number };
	lane->keeps_tables = engine->opt->is_wrong || number % 2;
	lane->is_told = !engine->opt->is_wrong && number % 2;
	flags = lane->is_told ? KVMM_STREAM_TABLES : 0;
	err = device->pin(device, sizeof(*lane->batch), (void **)&lane->batch);
	if (!err)
		err = device->alloc(device, sizeof(*lane->batch) + model_state_bytes(MAX_ROWS),
				    &lane->memory);
	if (!err)
		err = device->stream(device, &lane->stream);
	return err ? err : kvmm_stream_add(engine->pool, lane->stream, flags, &lane->id);
}

/* It reads no more of moves, and old places need not wait until it does. */
static void end_steps(struct lane *lane)
{
	if (lane->id.gen)
		kvmm_stream_del(lane->engine->pool, lane->id);
	lane->id.gen = 0;
}

void lane_close(struct lane *lane)
{
	struct device *device = lane->engine->device;

	end_steps(lane);
	if (lane->stream) {
		device->wait(device, lane->stream);
		device->end_stream(device, lane->stream);
	}
	if (lane->memory)
		device->free(device, lane->memory);
	if (lane->batch)
		device->unpin(device, lane->batch);
}

/* ---- what the last step said ---- */

static int collect_one(struct engine *engine, struct request *request, uint32_t said)
{
	int err;

	request->nr_written = request->nr_tokens;
	request->tokens[request->nr_tokens++] = said;
	err = request_end_step(engine, request);
	if (is_done(request))
		request_finish(engine, request);
	return err;
}

int lane_collect(struct lane *lane)
{
	struct device *device = lane->engine->device;
	int err = 0;

	if (lane->nr_active)
		err = device->wait(device, lane->stream);
	for (uint32_t i = 0; i < lane->nr_active && !err; i++)
		err = collect_one(lane->engine, lane->active[i], lane->batch->said[i]);
	lane->nr_active = 0;
	return err;
}

/* ---- who is in the next one ---- */

/* Blocks that the live requests will have in the end. */
static uint32_t nr_promised(const struct lane *lane, uint32_t *nr_live)
{
	struct engine *engine = lane->engine;
	uint32_t nr = 0;

	*nr_live = 0;
	for (uint32_t i = lane->number; i < engine->opt->nr_requests; i += NR_LANES) {
		if (!engine->request[i].is_live)
			continue;
		nr += nr_blocks_of(engine->request[i].nr_wanted);
		++*nr_live;
	}
	return nr;
}

/* As many as there will be room for, if the holes are long enough. */
static void admit(struct lane *lane)
{
	struct engine *engine = lane->engine;
	uint32_t nr_live, nr = nr_promised(lane, &nr_live);
	int err = 0;

	for (uint32_t i = lane->number; i < engine->opt->nr_requests; i += NR_LANES) {
		struct request *request = &engine->request[i];

		if (request->is_live || is_done(request))
			continue;
		nr += nr_blocks_of(request->nr_wanted);
		if (nr > NR_BLOCKS / NR_LANES || nr_live == MAX_BATCH)
			break;
		err = request_open(engine, request);
		if (err)
			break;
		nr_live++;
	}
	if (!nr_live && err != -EINPROGRESS)
		kvmm_reset_inactive(engine->pool);	/* nobody will make room but the cache */
}

static int take(struct lane *lane, struct request *request)
{
	int err = request_grow(lane->engine, request);

	if (err == -ENOSPC) {	/* it makes room for the others, and starts again another time */
		request_restart(lane->engine, request);
		return 0;
	}
	lane->active[lane->nr_active] = request;
	lane->nr_active += !err;
	return err;
}

static int choose(struct lane *lane)
{
	struct engine *engine = lane->engine;
	int err = 0;

	admit(lane);
	for (uint32_t i = lane->number; i < engine->opt->nr_requests && !err; i += NR_LANES)
		if (engine->request[i].is_live)
			err = take(lane, &engine->request[i]);
	return err;
}

static int is_finished(const struct lane *lane)
{
	struct engine *engine = lane->engine;

	for (uint32_t i = lane->number; i < engine->opt->nr_requests; i += NR_LANES)
		if (!is_done(&engine->request[i]))
			return 0;
	return 1;
}

/* ---- tables ---- */

static void relocate(struct lane *lane, const struct kvmm_relocation *move)
{
	struct engine *engine = lane->engine;

	for (uint32_t i = lane->number; i < engine->opt->nr_requests; i += NR_LANES) {
		struct request *request = &engine->request[i];

		for (uint32_t n = 0; request->is_live && n < request->nr_table; n++)
			if (request->table[n] - move->from < move->nr)
				request->table[n] += move->to - move->from;
	}
}

/* No step of this lane is open. */
static int follow_moves(struct lane *lane)
{
	struct kvmm_relocation move[MAX_RELOCATIONS];
	struct kvmm_pool *pool = lane->engine->pool;
	int nr, err = 0;

	do {
		nr = kvmm_relocations(pool, lane->id, move, MAX_RELOCATIONS);
		for (int i = 0; i < nr; i++)
			relocate(lane, &move[i]);
		if (nr > 0)
			err = kvmm_relocations_ack(pool, lane->id, nr);
	} while (nr == MAX_RELOCATIONS && !err);
	return nr < 0 ? nr : err;
}

/* Blocks that are new go into the tables; of the others it knows. */
static int note_new(struct lane *lane, struct request *request)
{
	uint32_t blocks[MAX_BLOCKS];
	int nr = request_blocks(lane->engine, request, blocks);

	for (; nr > (int)request->nr_table; request->nr_table++)
		request->table[request->nr_table] = blocks[request->nr_table];
	return nr < 0 ? nr : 0;
}

static int note_all_new(struct lane *lane)
{
	int err = 0;

	for (uint32_t i = 0; i < lane->nr_active && !err; i++)
		err = note_new(lane, lane->active[i]);
	return err;
}

/* -EAGAIN: what the step would write has moved since the tables were brought up to date. */
static int begin(struct lane *lane, uint64_t *epoch)
{
	int err;

	if (lane->keeps_tables) {
		err = note_all_new(lane);
		if (err)
			return err;
	}
	do {
		err = lane->is_told ? follow_moves(lane) : 0;
		if (!err)
			err = kvmm_step_begin(lane->engine->pool, lane->id, epoch);
	} while (err == -EAGAIN);
	return err;
}

/* ---- work for the device ---- */

/* How its blocks lie in this step: from a table, or by asking. Returns words, or an error. */
static int put_places(struct lane *lane, const struct request *request, struct toy_seq *seq)
{
	uint32_t *words = lane->batch->word + lane->nr_words;

	seq->is_paged = request->is_paged || lane->keeps_tables;
	if (lane->keeps_tables) {
		memcpy(words, request->table, request->nr_table * sizeof(*words));
		return request->nr_table;
	}
	return request->is_paged ? request_blocks(lane->engine, request, words) :
	       request_extents(lane->engine, request, words);
}

/* All tokens whose KV is not there yet: the prompt at first, then the last one that was said. */
static int put_request(struct lane *lane, uint32_t nr, const struct request *request)
{
	struct toy_seq *seq = &lane->batch->seq[nr];
	int words;

	seq->first = lane->nr_words;
	seq->nr_tokens = request->nr_tokens;
	words = put_places(lane, request, seq);
	if (words < 0)
		return words;
	lane->nr_words += words;
	for (uint32_t n = request->nr_written; n < request->nr_tokens; n++)
		lane->batch->row[lane->nr_rows++] = (struct toy_row){
			request->tokens[n], n, nr, 0,
		};
	seq->last_row = lane->nr_rows - 1;
	return 0;
}

#define OF_BATCH(lane, field)	((lane)->memory + offsetof(struct batch, field))

static int launch(struct lane *lane)
{
	struct engine *engine = lane->engine;
	struct device *device = engine->device;
	struct toy_args args = {
		.rows = OF_BATCH(lane, row), .seqs = OF_BATCH(lane, seq),
		.table = OF_BATCH(lane, word), .said = OF_BATCH(lane, said),
		.weights = engine->weights, .hidden = lane->memory + sizeof(struct batch),
		.nr_rows = lane->nr_rows, .nr_seqs = lane->nr_active,
	};
	int err = device->upload(device, lane->stream, lane->memory, lane->batch,
				 offsetof(struct batch, said));

	args.query = args.hidden + model_state_bytes(MAX_ROWS) / 2;
	if (!err)
		err = model_step(device, lane->stream, &args, engine->planes, plane_bytes());
	return err ? err : device->download(device, lane->stream, lane->batch->said, args.said,
					    lane->nr_active * sizeof(uint32_t));
}

static int submit(struct lane *lane)
{
	uint64_t epoch;
	int err = begin(lane, &epoch), err2;

	if (err)
		return err;
	lane->nr_rows = lane->nr_words = 0;
	for (uint32_t i = 0; i < lane->nr_active && !err; i++)
		err = put_request(lane, i, lane->active[i]);
	if (!err)
		err = launch(lane);
	err2 = kvmm_step_end(lane->engine->pool, lane->id, epoch);
	lane->nr_steps++;
	return err ? err : err2;
}

int lane_turn(struct lane *lane)
{
	int err = lane_collect(lane);

	tier_turn(lane->engine);
	if (!err && is_finished(lane)) {
		end_steps(lane);
		return 0;
	}
	/* Also without a step to begin: what it has not read is room that it waits for. */
	if (!err && lane->is_told)
		err = follow_moves(lane);
	if (!err)
		err = choose(lane);
	if (!err && lane->nr_active)
		err = submit(lane);
	return err ? err : 1;
}
