// SPDX-License-Identifier: Apache-2.0
/*
 * Hybrid models on one zone: the numbers of the presets from the models' dimensions, and what is
 * wasted once requests live there, against uniform pages. Prints a line a preset.
 */
#include "alloc/slab.h"
#include "tests/alloc/slab_util.h"
#include "research/slab_presets.h"

#define NR_REQUESTS	13u	/* no multiple of what a slab holds */
#define BLOCK_TOKENS	16u

static const struct slab_preset *preset(const char *name)
{
	for (u32 i = 0; i < ARRAY_SIZE(slab_presets); i++)
		if (!strcmp(slab_presets[i].name, name))
			return &slab_presets[i];
	cr_assert_fail("no preset %s", name);
	return NULL;
}

static u32 blocks_of(u32 tokens)
{
	return (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
}

/* Keys and values of a block, for one layer. */
static u64 layer_bytes(u32 heads, u32 head_dim)
{
	return 2ull * heads * head_dim * 2 * BLOCK_TOKENS;
}

Test(slab_preset, window_and_full_attention)
{
	const struct slab_preset *p = preset("window+full");

	cr_expect_eq(p->size[0].bytes, 23 * layer_bytes(16, 128));
	cr_expect_eq(p->size[1].bytes, p->size[0].bytes);
	cr_expect_eq(p->size[0].nr, blocks_of(8192));
	cr_expect_eq(p->size[1].nr, blocks_of(4096));
	cr_expect_eq(p->uniform_page_bytes, 46 * layer_bytes(16, 128));
	cr_expect_eq(p->uniform_pages, blocks_of(8192));
}

Test(slab_preset, state_and_attention)
{
	const struct slab_preset *p = preset("state+attention");
	u64 state = 8192 * 16 * 4 + 8192 * 3 * 2;	/* state, and the last inputs */
	u32 per_page = 28 * state / (4 * layer_bytes(8, 128));

	cr_expect_eq(p->size[0].bytes, state);
	cr_expect_eq(p->size[0].nr, 28);
	cr_expect_eq(p->size[1].bytes, 4 * layer_bytes(8, 128));
	cr_expect_eq(p->size[1].nr, blocks_of(1155));
	cr_expect_eq(p->uniform_page_bytes, 28 * state);
	cr_expect_eq(p->uniform_pages, 1 + (blocks_of(1155) + per_page - 1) / per_page);
}

Test(slab_preset, multimodal)
{
	const struct slab_preset *p = preset("multimodal");

	cr_expect_eq(p->size[0].bytes, 32 * layer_bytes(8, 128));
	cr_expect_eq(p->size[0].nr, blocks_of(43));
	cr_expect_eq(p->size[1].bytes, 8 * layer_bytes(8, 128));
	cr_expect_eq(p->size[1].nr, blocks_of(6193));
	cr_expect_eq(p->uniform_page_bytes, 40 * layer_bytes(8, 128));
	cr_expect_eq(p->uniform_pages, blocks_of(43 + 6193));
}

Test(slab_preset, latent_vectors_and_a_draft_model)
{
	const struct slab_preset *p = preset("mla+draft");

	cr_expect_eq(p->size[0].bytes, 61 * (512 + 64) * 2 * BLOCK_TOKENS);
	cr_expect_eq(p->size[1].bytes, 4 * layer_bytes(8, 128));
	cr_expect_eq(p->size[0].nr, blocks_of(4096));
	cr_expect_eq(p->size[1].nr, blocks_of(4096));
	cr_expect_eq(p->uniform_page_bytes, p->size[0].bytes);
	cr_expect_eq(p->uniform_pages, p->size[0].nr + p->size[1].nr);
}

static u64 needed(const struct slab_preset *p)
{
	u64 bytes = 0;

	for (u32 i = 0; i < p->nr_sizes; i++)
		bytes += p->size[i].nr * p->size[i].bytes;
	return bytes;
}

static void fill(struct kvmm_slab_cache *cache, u32 nr)
{
	kvmm_slab_obj_t *objs = calloc(nr, sizeof(*objs));

	for (u32 i = 0; i < NR_REQUESTS; i++)
		cr_assert_eq(kvmm_slab_alloc(cache, nr, objs), 0);
	cr_assert_eq(kv_slab_cache_check(cache), 0);
	free(objs);
}

/* Waste in hundredths of a per cent. */
static u32 live_with(const struct slab_preset *p)
{
	/* Room for all with 2 % on top, and not a block more. */
	u64 blocks = NR_REQUESTS * needed(p) / p->base_block_bytes;
	struct kv_zone *zone = slab_zone(blocks + blocks / 50);
	struct kvmm_slab_cache *cache[SLAB_PRESET_SIZES];
	struct kvmm_slab_stat stat;
	u64 live = 0, held = 0;

	for (u32 i = 0; i < p->nr_sizes; i++) {
		struct kvmm_slab_attr attr = slab_attr(p->size[i].name, p->size[i].bytes);

		attr.align = p->size[i].align;
		attr.base_block_bytes = p->base_block_bytes;
		attr.max_waste_pm = p->max_waste_pm;
		cache[i] = slab_cache_of(zone, &attr);
		fill(cache[i], p->size[i].nr);
		cr_assert_eq(kvmm_slab_get_stat(cache[i], &stat), 0);
		live += stat.live_bytes;
		held += stat.held_bytes;
	}
	cr_expect_eq(live, NR_REQUESTS * needed(p));
	for (u32 i = 0; i < p->nr_sizes; i++)
		kvmm_slab_cache_destroy(cache[i]);
	return (held - live) * 10000 / held;
}

Test(slab_preset, slabs_waste_two_per_cent_where_uniform_pages_waste_a_quarter)
{
	for (u32 i = 0; i < ARRAY_SIZE(slab_presets); i++) {
		const struct slab_preset *preset = &slab_presets[i];
		u64 uniform = preset->uniform_pages * preset->uniform_page_bytes;
		double slabs = live_with(preset) / 100.0;
		double pages = 100 - 100.0 * needed(preset) / uniform;

		cr_expect_leq(slabs, 2, "%s: %f", preset->name, slabs);
		cr_expect(pages >= 25 && pages < 80, "%s: %f", preset->name, pages);
		printf("%-16s slabs waste %5.2f %%, uniform pages %5.2f %%\n", preset->name,
		       slabs, pages);
	}
}
