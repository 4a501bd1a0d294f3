// SPDX-License-Identifier: Apache-2.0
/* The model: its weights, the launches of a step, and what must come out. */
#include <errno.h>
#include <stdlib.h>

#include "engine.h"

static int32_t weight(uint32_t i)
{
	return (int32_t)(toy_mix(i + 77) % 63) - 31;
}

int model_open(struct device *device, uint64_t *weights)
{
	size_t bytes = TOY_WEIGHTS * sizeof(int32_t);
	void *stream = NULL, *staging = NULL;
	int err = device->pin(device, bytes, &staging);

	for (uint32_t i = 0; i < TOY_WEIGHTS && !err; i++)
		((int32_t *)staging)[i] = weight(i);
	if (!err)
		err = device->alloc(device, bytes, weights);
	if (!err)
		err = device->stream(device, &stream);
	if (!err)
		err = device->upload(device, stream, *weights, staging, bytes);
	if (!err)
		err = device->wait(device, stream);
	if (stream)
		device->end_stream(device, stream);
	if (staging)
		device->unpin(device, staging);
	return err;
}

/* Hidden states and queries. */
uint64_t model_state_bytes(uint32_t nr_rows)
{
	return 2ull * nr_rows * TOY_TOKEN_BYTES;
}

int model_step(struct device *device, void *stream, struct toy_args *args, uint64_t planes,
	       uint64_t bytes)
{
	int err = device->launch(device, stream, TOY_EMBED, args);

	for (args->layer = 0; args->layer < TOY_LAYERS && !err; args->layer++) {
		args->key = planes + 2 * args->layer * bytes;
		args->value = args->key + bytes;
		err = device->launch(device, stream, TOY_PROJECT, args);
		if (!err)
			err = device->launch(device, stream, TOY_ATTEND, args);
	}
	return err ? err : device->launch(device, stream, TOY_SAY, args);
}

/* ---- what must come out ---- */

/* Memory of one request that lies in one run and never moves. */
struct plain {
	uint64_t planes;
	uint64_t weights;
	struct toy_row row[MAX_TOKENS];
	struct toy_seq seq;
	uint32_t extent[2];
	uint32_t said;
	int32_t hidden[MAX_TOKENS][TOY_DIM];
	int32_t query[MAX_TOKENS][TOY_DIM];
};

static int say_next(struct device *host, struct plain *plain, struct request *request)
{
	struct toy_args args = {
		.rows = (uintptr_t)plain->row, .seqs = (uintptr_t)&plain->seq,
		.table = (uintptr_t)plain->extent, .weights = plain->weights,
		.hidden = (uintptr_t)plain->hidden, .query = (uintptr_t)plain->query,
		.said = (uintptr_t)&plain->said, .nr_seqs = 1,
	};
	int err;

	for (; request->nr_written < request->nr_tokens; request->nr_written++)
		plain->row[args.nr_rows++] = (struct toy_row){
			request->tokens[request->nr_written], request->nr_written, 0, 0,
		};
	plain->seq = (struct toy_seq){ 0, 0, request->nr_tokens, args.nr_rows - 1 };
	err = model_step(host, NULL, &args, plain->planes, MAX_BLOCKS * TOY_PIECE_BYTES);
	request->tokens[request->nr_tokens++] = plain->said;
	return err;
}

int model_reference(struct request *requests, uint32_t nr)
{
	struct plain *plain = calloc(1, sizeof(*plain));
	struct device *host;
	int err = host_device_open(&host);

	if (!plain)
		return -ENOMEM;
	plain->extent[1] = MAX_BLOCKS;
	if (!err)
		err = host->alloc(host, NR_PLANES * MAX_BLOCKS * TOY_PIECE_BYTES, &plain->planes);
	if (!err)
		err = model_open(host, &plain->weights);
	for (uint32_t i = 0; i < nr && !err; i++)
		while (!is_done(&requests[i]) && !err)
			err = say_next(host, plain, &requests[i]);
	host->free(host, plain->weights);
	host->free(host, plain->planes);
	free(plain);
	return err;
}
