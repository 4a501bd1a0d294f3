// SPDX-License-Identifier: Apache-2.0
/* An engine: a pool in its memory, weights, and requests. */
#include <errno.h>
#include <stdlib.h>

#include "engine.h"

const char *const mode_names[NR_MODES] = { "still", "between", "beside" };

static int make_pool(struct engine *engine)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_plane plane[NR_PLANES];

	for (uint32_t i = 0; i < NR_PLANES; i++)
		plane[i] = (struct kvmm_plane){ engine->planes + i * plane_bytes(),
						TOY_PIECE_BYTES, TOY_PIECE_BYTES };
	attr.name = mode_names[engine->mode];
	attr.device = engine->opt->device;
	attr.planes = plane;
	attr.nr_planes = NR_PLANES;
	attr.nr_blocks = NR_BLOCKS;
	attr.block_tokens = TOY_BLOCK_TOKENS;
	return kvmm_pool_create(&attr, &engine->pool);
}

int engine_open(struct engine *engine)
{
	struct kvmm_key_attr key_attr = KVMM_KEY_ATTR_INIT;
	int err;

	engine->request = calloc(engine->opt->nr_requests, sizeof(*engine->request));
	if (!engine->request)
		return -ENOMEM;
	for (uint32_t i = 0; i < engine->opt->nr_requests; i++)
		request_make(&engine->request[i], i % engine->opt->nr_prompts);
	key_attr.block_tokens = TOY_BLOCK_TOKENS;
	err = kvmm_key_ctx_create(&key_attr, &engine->keys);
	if (!err)
		err = engine->device->alloc(engine->device, NR_PLANES * plane_bytes(),
					    &engine->planes);
	if (!err)
		err = model_open(engine->device, &engine->weights);
	if (!err)
		err = tier_open(engine);
	if (!err)
		err = make_pool(engine);
	if (!err)
		err = tier_attach(engine);
	return err;
}

void engine_close(struct engine *engine)
{
	for (uint32_t i = 0; engine->request && i < engine->opt->nr_requests; i++)
		kvmm_seq_destroy(engine->request[i].seq);
	kvmm_pool_destroy(engine->pool);
	tier_close(engine);
	kvmm_key_ctx_destroy(engine->keys);
	if (engine->weights)
		engine->device->free(engine->device, engine->weights);
	if (engine->planes)
		engine->device->free(engine->device, engine->planes);
	free(engine->request);
}
