// SPDX-License-Identifier: Apache-2.0
/*
 * The toy engine's kernels: the committed PTX text, executed by the interpreter, writes the same
 * bytes as what gcc makes of their source, in tables of blocks and in extents, with any grid.
 */
#include "samples/toy/kernels.c"
#include "samples/toy/ptx.c"
#include "tests/ptx/ptx.h"
#include "tests/support/test.h"

#define NR_BLOCKS	24u
#define NR_ROWS		9u
#define NR_SEQS		2u

/* All that the kernels touch, in one piece. */
struct world {
	struct toy_row row[NR_ROWS];
	struct toy_seq seq[NR_SEQS];
	u32 word[16];
	int32_t weight[TOY_WEIGHTS];
	int32_t hidden[NR_ROWS][TOY_DIM];
	int32_t query[NR_ROWS][TOY_DIM];
	u32 said[NR_SEQS];
	int32_t plane[2 * TOY_LAYERS][NR_BLOCKS][TOY_PIECE_BYTES / 4];
};

static void scramble(int32_t *to, u32 nr, u32 below)
{
	for (u32 i = 0; i < nr; i++)
		to[i] = (int32_t)(mix(i + nr) % below) - (int32_t)(below / 2);
}

/* Seven tokens of a prompt, paged; two rows of one that goes on, in three extents. */
static void prepare(struct world *world)
{
	static const u32 words[] = { 17, 3, 5, 1, 9, 2, 20, 2 };

	memset(world, 0, sizeof(*world));
	memcpy(world->word, words, sizeof(words));
	world->seq[0] = (struct toy_seq){ 0, 1, 7, 6 };
	world->seq[1] = (struct toy_seq){ 2, 0, 18, 8 };
	for (u32 i = 0; i < NR_ROWS; i++)
		world->row[i] = (struct toy_row){ 1000 + i * 7, i < 7 ? i : 9 + i, i >= 7, 0 };
	scramble(world->weight, TOY_WEIGHTS, 63);
	scramble(world->plane[0][0], sizeof(world->plane) / 4, 4096);
}

static struct toy_args args_of(struct world *world, u32 layer)
{
	return (struct toy_args){
		.rows = (uintptr_t)world->row, .seqs = (uintptr_t)world->seq,
		.table = (uintptr_t)world->word, .weights = (uintptr_t)world->weight,
		.hidden = (uintptr_t)world->hidden, .query = (uintptr_t)world->query,
		.said = (uintptr_t)world->said, .key = (uintptr_t)world->plane[2 * layer],
		.value = (uintptr_t)world->plane[2 * layer + 1], .nr_rows = NR_ROWS,
		.nr_seqs = NR_SEQS, .layer = layer,
	};
}

static void run_text(const struct ptx_module *mod, struct world *world, u32 kernel, u32 layer,
		     u32 groups, u32 threads)
{
	const struct ptx_entry *entry = ptx_find(mod, toy_kernels[kernel].name);
	const struct ptx_region region = { (uintptr_t)world, sizeof(*world), true };
	struct toy_args args = args_of(world, layer);
	const struct ptx_launch launch = {
		.nr_groups = groups, .nr_threads = threads, .args = &args, .region = &region,
		.nr_regions = 1, .max_steps = 1000000,
	};
	char error[PTX_ERROR];

	cr_assert(entry, "%s", toy_kernels[kernel].name);
	cr_assert_eq(entry->param_bytes, sizeof(args));
	cr_assert(ptx_run(entry, &launch, error), "%s: %s", toy_kernels[kernel].name, error);
}

static void run_host(struct world *world, u32 kernel, u32 layer, u32 nr_threads)
{
	struct toy_args args = args_of(world, layer);

	for (u32 i = nr_threads; i-- > 0;) {
		struct toy_thread self = { i, nr_threads };

		toy_kernels[kernel].run(&self, &args);
	}
}

static const u32 launches[][2] = {
	{ TOY_EMBED, 0 }, { TOY_PROJECT, 0 }, { TOY_ATTEND, 0 }, { TOY_PROJECT, 1 },
	{ TOY_ATTEND, 1 }, { TOY_SAY, 0 },
};

static void compare(u32 groups, u32 threads, u32 host_threads)
{
	static struct world text, host;
	struct ptx_module *mod = ptx_parse(toy_ptx);

	cr_assert_str_eq(mod->error, "");
	prepare(&text);
	prepare(&host);
	for (u32 i = 0; i < ARRAY_SIZE(launches); i++) {
		run_text(mod, &text, launches[i][0], launches[i][1], groups, threads);
		run_host(&host, launches[i][0], launches[i][1], host_threads);
		cr_assert_eq(memcmp(&text, &host, sizeof(text)), 0, "after launch %u", i);
	}
	cr_expect_neq(text.said[0], 0);
	cr_expect_neq(text.said[0], text.said[1]);
	ptx_free(mod);
}

Test(toy_kernels, text_and_source_write_the_same_bytes)
{
	compare(1, 1, 1);
	compare(2, 32, 5);
	compare(7, 3, 64);
}

/* Each word of KV before the row counts. */
Test(toy_kernels, what_is_said_depends_on_all_kv)
{
	static struct world world;
	u32 right;

	for (u32 n = 0; n < 16 * TOY_DIM; n++) {
		u32 place = n / TOY_DIM, blocks[] = { 5, 9, 10, 20 };

		for (u32 broken = 0; broken < 2; broken++) {
			prepare(&world);
			run_host(&world, TOY_EMBED, 0, 1);
			run_host(&world, TOY_PROJECT, 0, 1);
			if (broken)
				world.plane[1][blocks[place / 4]][place % 4 * TOY_DIM + n % TOY_DIM]
					^= 1024;
			run_host(&world, TOY_ATTEND, 0, 1);
			run_host(&world, TOY_SAY, 0, 1);
			if (!broken)
				right = world.said[1];
		}
		cr_expect_neq(world.said[1], right, "word %u does not matter", n);
	}
}
