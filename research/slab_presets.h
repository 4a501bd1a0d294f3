/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hybrid models, by the objects of each size that one request needs.
 *
 * Each is set against uniform pages: one size of page for the whole model, as engines without
 * slabs have. The meaning of that differs by model and is said there. Blocks are of 16 tokens,
 * numbers of two bytes but for states, which are kept in four. The arithmetic is in
 * Documentation/slab.rst, and is done once more, from the models' dimensions, by the tests.
 */
#ifndef RESEARCH_SLAB_PRESETS_H
#define RESEARCH_SLAB_PRESETS_H

#include <stdint.h>

/* Most sizes of objects a preset has. */
#define SLAB_PRESET_SIZES	2u

/**
 * struct slab_preset - what one request of a hybrid model needs
 * @name: "window+full", "state+attention", "multimodal", "mla+draft"
 * @what: model and request, in a line
 * @base_block_bytes: of the blocks that all its caches share
 * @max_waste_pm: for struct kvmm_slab_attr
 * @nr_sizes: sizes of objects
 * @size: name, bytes and alignment of each, and how many of them a request has
 * @uniform: what "uniform pages" means for this model, in a line
 * @uniform_page_bytes: the only size of page there
 * @uniform_pages: how many of them a request has
 */
struct slab_preset {
	const char *name;
	const char *what;
	uint64_t base_block_bytes;
	uint32_t max_waste_pm;
	uint32_t nr_sizes;
	struct {
		const char *name;
		uint64_t bytes;
		uint64_t align;
		uint32_t nr;
	} size[SLAB_PRESET_SIZES];
	const char *uniform;
	uint64_t uniform_page_bytes;
	uint32_t uniform_pages;
};

#define KIB	1024ull

static const struct slab_preset slab_presets[] = {
	{
		.name = "window+full",
		.what = "23 layers of full attention, 23 with a window of 4,096 of 8,192 tokens",
		.base_block_bytes = 64 * KIB,
		.nr_sizes = 2,
		.size = {
			{ "full", 23 * 128 * KIB, 256, 512 },
			{ "window", 23 * 128 * KIB, 256, 256 },
		},
		.uniform = "a page is all layers of a block of tokens",
		.uniform_page_bytes = 46 * 128 * KIB,
		.uniform_pages = 512,
	},
	{
		.name = "state+attention",
		.what = "28 state space layers and 4 of attention, 1,155 tokens",
		.base_block_bytes = 64 * KIB,
		.nr_sizes = 2,
		.size = {
			{ "state", 560 * KIB, 256, 28 },
			{ "attention", 4 * 64 * KIB, 256, 73 },
		},
		.uniform = "a page is the state of all layers, or up to 61 blocks of tokens",
		.uniform_page_bytes = 28 * 560 * KIB,
		.uniform_pages = 3,
	},
	{
		.name = "multimodal",
		.what = "32 layers for 43 text tokens, 8 for 6,193 image tokens",
		.base_block_bytes = 64 * KIB,
		.nr_sizes = 2,
		.size = {
			{ "text", 32 * 64 * KIB, 256, 3 },
			{ "image", 8 * 64 * KIB, 256, 388 },
		},
		.uniform = "a page is all layers of a block of tokens, of either kind",
		.uniform_page_bytes = 40 * 64 * KIB,
		.uniform_pages = 390,
	},
	{
		.name = "mla+draft",
		.what = "61 layers of latent vectors, a draft model of 4 layers, 4,096 tokens",
		.base_block_bytes = 64 * KIB,
		.max_waste_pm = 20,
		.nr_sizes = 2,
		.size = {
			{ "latent", 61 * 18 * KIB, 256, 256 },
			{ "draft", 4 * 64 * KIB, 256, 256 },
		},
		.uniform = "a page is a block of the target model, or one of the draft model",
		.uniform_page_bytes = 61 * 18 * KIB,
		.uniform_pages = 512,
	},
};

#endif /* RESEARCH_SLAB_PRESETS_H */
