// SPDX-License-Identifier: Apache-2.0
/* Cases for the kernels; see arena.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arena.h"

#define GUARD_BYTES	64u

static const char *const act_name[] = { "kv_move16", "kv_move1" };

u64 arena_random(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1dull >> 11;
}

u64 arena_seed(void)
{
	const char *text = getenv("KVMM_SEED");
	struct timespec now;
	u64 seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = text ? strtoull(text, NULL, 0) : (u64)now.tv_sec * 1000000007 + now.tv_nsec;
	fprintf(stderr, "KVMM_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

/* 0 to @n - 1 */
static u32 below(u64 *rng, u32 n)
{
	return arena_random(rng) % n;
}

struct arena_shape arena_random_shape(u64 seed, bool small)
{
	u64 rng = seed * 2 + 1;
	struct arena_shape shape;

	for (u32 i = 0; i < 8; i++)
		arena_random(&rng);
	shape = (struct arena_shape) {
		.seed		= seed,
		.act		= below(&rng, ARENA_NR_ACTS),
		.list		= below(&rng, 2),
		.tables		= below(&rng, 2),
		.two_sides	= below(&rng, 3) == 0,
		.interleaved	= below(&rng, 2),
		.runs		= below(&rng, 2),
		.backwards	= below(&rng, 2),
		.nr_planes	= 1 + below(&rng, small ? 4 : 40),
		.nr_moves	= 1 + below(&rng, small ? 6 : 600),
		.max_bytes	= 16 << below(&rng, small ? 6 : 9),
		.chunk_bytes	= below(&rng, 2) ? 16 * (1 + below(&rng, small ? 20 : 300)) : 0,
		.nr_groups	= below(&rng, 4) ? 1 + below(&rng, small ? 7 : 20) : 0,
		.nr_threads	= below(&rng, 4) ? 1 + below(&rng, small ? 9 : 70) : 0,
		.stamp		= below(&rng, 8) ? below(&rng, 2) : ARENA_OTHER_STAMP,
	};
	return shape;
}

const char *arena_describe(const struct arena_shape *shape)
{
	static char text[200];

	snprintf(text, sizeof(text),
		 "%s seed %llu%s%s%s%s%s%s, %u planes, %u moves, %u bytes, chunk %u, grid %u x %u",
		 act_name[shape->act], (unsigned long long)shape->seed,
		 shape->list ? " list" : "", shape->tables ? " tables" : "",
		 shape->two_sides ? " two-sided" : "", shape->interleaved ? " interleaved" : "",
		 shape->runs ? " runs" : "", shape->backwards ? " backwards" : "",
		 shape->nr_planes, shape->nr_moves, shape->max_bytes, shape->chunk_bytes,
		 shape->nr_groups, shape->nr_threads);
	return text;
}

/* ------------------------------------------------------------------------- */
/* Building one */

/*
 * Sources and destinations as stretches of blocks that do not touch each other: lengths first, then
 * places in random order.
 */
static void place_moves(struct arena *arena)
{
	u32 nr = arena->shape.nr_moves, at = below(&arena->rng, 3);
	u32 *order = calloc(2 * nr, sizeof(*order));

	for (u32 i = 0; i < nr; i++)
		arena->moves[i].nr = arena->shape.runs ? below(&arena->rng, 6) : 1;
	for (u32 i = 0; i < 2 * nr; i++) {
		u32 j = below(&arena->rng, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (u32 i = 0; i < 2 * nr; i++) {
		struct kv_move *move = &arena->moves[order[i] / 2];

		if (order[i] % 2)
			move->dst = at;
		else
			move->src = at;
		at += move->nr + below(&arena->rng, 2);
	}
	arena->nr_blocks = at + 1;
	free(order);
}

/* Planes at offsets for now; checksums face aligned and other ones mixed. */
static u32 draw_gap(struct arena *arena)
{
	u32 unit = arena->shape.act == ARENA_MOVE16 || below(&arena->rng, 2) ? 16 : 1;

	return unit * below(&arena->rng, 4);
}

static void draw_pieces(struct arena *arena)
{
	for (u32 p = 0; p < arena->shape.nr_planes; p++) {
		u32 bytes = 1 + below(&arena->rng, arena->shape.max_bytes);

		if (arena->shape.act == ARENA_MOVE16 || below(&arena->rng, 2))
			bytes = (bytes + 15) / 16 * 16;
		arena->src[p].bytes = bytes;
		arena->dst[p].bytes = bytes;
	}
}

/* Planes one behind the other, or interleaved; returns the end. */
static u64 place_planes(struct arena *arena, struct kvmm_plane *plane, u64 at)
{
	u32 nr = arena->shape.nr_planes;
	u64 block = 0;

	for (u32 p = 0; p < nr; p++) {
		u32 gap = draw_gap(arena);

		plane[p].base = at + (arena->shape.interleaved ? block : draw_gap(arena));
		plane[p].stride = plane[p].bytes + gap;
		block += plane[p].stride;
		if (!arena->shape.interleaved)
			at = plane[p].base + arena->nr_blocks * plane[p].stride;
	}
	for (u32 p = 0; arena->shape.interleaved && p < nr; p++)
		plane[p].stride = block;
	return arena->shape.interleaved ? at + arena->nr_blocks * block : at;
}

static void rebase(struct arena *arena, struct kvmm_plane *plane)
{
	for (u32 p = 0; p < arena->shape.nr_planes; p++)
		plane[p].base += (uintptr_t)arena->mem;
}

static u8 *piece(const struct kvmm_plane *plane, u32 block)
{
	return (u8 *)(uintptr_t)(plane->base + block * plane->stride);
}

/* What the definition of a move says, with sources as they were. */
static void expect_block(struct arena *arena, u32 src, u32 dst)
{
	for (u32 p = 0; p < arena->shape.nr_planes; p++) {
		u64 from = piece(&arena->src[p], src) - arena->mem;
		u64 to = piece(&arena->dst[p], dst) - arena->mem;

		memcpy(arena->expected + to, arena->before + from, arena->src[p].bytes);
	}
}

static bool is_stale_list(const struct arena_shape *shape)
{
	return shape->list && shape->stamp == ARENA_OTHER_STAMP;
}

struct arena *arena_create(const struct arena_shape *shape)
{
	struct arena *arena = calloc(1, sizeof(*arena));
	u64 *stamp = calloc(1, sizeof(*stamp) + shape->nr_planes * sizeof(*arena->src));

	*stamp = ARENA_OWN_STAMP;
	arena->src = (struct kvmm_plane *)(stamp + 1);
	arena->shape = *shape;
	arena->rng = shape->seed * 2 + 1;
	arena->moves = calloc(shape->nr_moves, sizeof(*arena->moves));
	arena->list = calloc(KV_LAUNCH_LIST_WORDS(shape->nr_moves), sizeof(u32));
	arena->dst = shape->two_sides ? calloc(shape->nr_planes, sizeof(*arena->dst)) :
		arena->src;
	place_moves(arena);
	draw_pieces(arena);
	arena->bytes = place_planes(arena, arena->src, GUARD_BYTES);
	if (shape->two_sides)
		arena->bytes = place_planes(arena, arena->dst, (arena->bytes + 79) / 16 * 16);
	arena->bytes = (arena->bytes + GUARD_BYTES + 63) / 64 * 64;
	arena->mem = aligned_alloc(64, arena->bytes);
	arena->before = malloc(arena->bytes);
	arena->expected = malloc(arena->bytes);
	arena->sums = calloc(arena->nr_blocks, sizeof(*arena->sums));
	arena->first = calloc(shape->nr_planes, sizeof(*arena->first));
	rebase(arena, arena->src);
	if (shape->two_sides)
		rebase(arena, arena->dst);
	for (u64 i = 0; i < arena->bytes; i++)
		arena->before[i] = arena_random(&arena->rng);
	memcpy(arena->expected, arena->before, arena->bytes);
	for (u32 i = 0; i < shape->nr_moves && !is_stale_list(shape); i++)
		for (u32 n = 0; n < arena->moves[i].nr; n++)
			expect_block(arena, arena->moves[i].src + n, arena->moves[i].dst + n);
	arena_reset(arena);
	return arena;
}

void arena_destroy(struct arena *arena)
{
	if (arena->dst != arena->src)
		free(arena->dst);
	free((u64 *)arena->src - 1);
	free(arena->moves);
	free(arena->list);
	free(arena->mem);
	free(arena->before);
	free(arena->expected);
	free(arena->sums);
	free(arena->first);
	free(arena);
}

void arena_reset(struct arena *arena)
{
	memcpy(arena->mem, arena->before, arena->bytes);
	arena->nr_launches = 0;
}

/* ------------------------------------------------------------------------- */
/* Running one */

struct run {
	struct arena *arena;
	arena_launch_fn launch;
	char *error;
	struct kv_launch_planes src;
	struct kv_launch_planes dst;
	u32 nr_threads;
	struct kv_move_args args;
};

/* The destination's planes, as the launch helper wants to be told. */
static const struct kv_launch_planes *dst_of(const struct run *run)
{
	return run->arena->shape.two_sides ? &run->dst : &run->src;
}

static bool run_init(struct run *run)
{
	const struct arena *arena = run->arena;
	const struct arena_shape *shape = &arena->shape;
	struct kv_move_head *head = &run->args.head;
	bool tables = shape->tables || shape->list;
	int ret;

	run->src = (struct kv_launch_planes) { arena->src, shape->nr_planes,
					       tables ? (uintptr_t)arena->src : 0 };
	run->dst = (struct kv_launch_planes) { arena->dst, shape->nr_planes,
					       tables ? (uintptr_t)arena->dst : 0 };
	ret = kv_launch_head(head, &run->src, dst_of(run), shape->act != ARENA_MOVE1);
	if (ret < 0) {
		snprintf(run->error, ARENA_ERROR, "head: %d", ret);
		return false;
	}
	head->stamp = shape->list ? shape->stamp : ARENA_NO_STAMP;
	run->nr_threads = shape->nr_threads ? shape->nr_threads : ret;
	if (shape->chunk_bytes) {
		head->chunk_bytes = shape->chunk_bytes;
		head->nr_chunks = (shape->max_bytes + 15) / shape->chunk_bytes + 1;
	}
	return true;
}

static bool launch_once(struct run *run)
{
	const struct arena_shape *shape = &run->arena->shape;
	const struct kv_move_head *head = &run->args.head;
	char kernel[32];
	struct arena_grid grid = {
		.kernel		= kernel,
		.nr_groups	= shape->nr_groups ? shape->nr_groups :
				  kv_launch_groups(head, 1000),
		.nr_threads	= run->nr_threads,
		.backwards	= shape->backwards,
	};

	snprintf(kernel, sizeof(kernel), "%s%s", act_name[shape->act],
		 shape->list ? "_list" : "");
	run->arena->nr_launches++;
	return !head->nr_blocks || run->launch(run->arena, &grid, &run->args, run->error);
}

static bool run_moves(struct run *run)
{
	const struct arena_shape *shape = &run->arena->shape;
	const struct kv_move *moves = run->arena->moves;
	u32 done = 0;

	while (done < shape->nr_moves) {
		u32 left = shape->nr_moves - done;
		u32 n = shape->list ?
			kv_launch_list(&run->args.head, run->arena->list, moves + done, left) :
			kv_launch_moves(&run->args, &run->src, dst_of(run), moves + done, left);

		run->args.head.moves = shape->list ? (uintptr_t)run->arena->list : 0;
		if (!n) {
			snprintf(run->error, ARENA_ERROR, "no move fits");
			return false;
		}
		if (!launch_once(run))
			return false;
		done += n;
	}
	return true;
}

static bool memory_is_right(const struct arena *arena, char error[ARENA_ERROR])
{
	for (u64 i = 0; i < arena->bytes; i++)
		if (arena->mem[i] != arena->expected[i]) {
			snprintf(error, ARENA_ERROR, "byte %llu of %llu is %02x, not %02x",
				 (unsigned long long)i, (unsigned long long)arena->bytes,
				 arena->mem[i], arena->expected[i]);
			return false;
		}
	return true;
}

bool arena_run(struct arena *arena, arena_launch_fn launch, char error[ARENA_ERROR])
{
	struct run run = { .arena = arena, .launch = launch, .error = error };

	error[0] = 0;
	return run_init(&run) && run_moves(&run) && memory_is_right(arena, error);
}

/* ------------------------------------------------------------------------- */
/* Checksums, written down once more: words, numbers, and what is done with them. */

static u64 mixed(u64 x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9;
	x ^= x >> 27;
	x *= 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

static u64 sum_of(const struct arena *arena, u32 block)
{
	u64 sum = 0, number = 0;

	for (u32 p = 0; p < arena->shape.nr_planes; p++) {
		const u8 *data = piece(&arena->src[p], block);
		u64 left = arena->src[p].bytes;

		while (left) {
			u64 word = 0, n = left < 8 ? left : 8;

			memcpy(&word, data, n);
			sum += mixed(word + ++number * 0x9e3779b97f4a7c15);
			data += n;
			left -= n;
		}
	}
	return sum;
}

/* Every block, or some of them with numbers that lie apart. */
static u32 draw_blocks(struct arena *arena, struct kv_sum_args *args)
{
	u64 room = KV_LAUNCH_LIST_WORDS(arena->shape.nr_moves);
	u32 nr = arena->nr_blocks;

	args->first = 0;
	args->blocks = 0;
	args->block_words = 1 + below(&arena->rng, 3);
	if (arena->shape.list) {
		nr = min(nr, (u32)(room / args->block_words));
		for (u64 i = 0; i < room; i++)
			arena->list[i] = below(&arena->rng, arena->nr_blocks);
		args->blocks = (uintptr_t)arena->list;
	} else {
		args->first = below(&arena->rng, nr);
		nr -= args->first;
	}
	args->nr_blocks = nr;
	return nr;
}

static bool sums_are_right(const struct arena *arena, const struct kv_sum_args *args,
			   char error[ARENA_ERROR])
{
	for (u32 i = 0; i < args->nr_blocks; i++) {
		u32 block = args->blocks ? arena->list[i * args->block_words] :
			args->first + i;

		if (arena->sums[i] != (args->stamp == ARENA_OTHER_STAMP ? 0 : sum_of(arena, block))) {
			snprintf(error, ARENA_ERROR, "sum %u, of block %u, is wrong", i, block);
			return false;
		}
	}
	return true;
}

bool arena_run_sums(struct arena *arena, arena_launch_fn launch, char error[ARENA_ERROR])
{
	const struct arena_shape *shape = &arena->shape;
	struct kv_sum_args args = {
		.planes		= (uintptr_t)arena->src,
		.sums		= (uintptr_t)arena->sums,
		.nr_planes	= shape->nr_planes,
		.stamp		= shape->stamp,
	};
	struct arena_grid grid = { "kv_sum", 0, shape->nr_threads, shape->backwards };
	u32 cap = shape->nr_groups ? shape->nr_groups : 20, nr = draw_blocks(arena, &args);

	error[0] = 0;
	args.nr_parts = shape->chunk_bytes ? 1 + shape->chunk_bytes % 5 :
		kv_launch_sum_parts(nr, shape->nr_planes, cap);
	grid.nr_groups = shape->nr_groups ? shape->nr_groups :
		kv_launch_sum_groups(&args, cap);
	grid.nr_threads = shape->nr_threads ? shape->nr_threads : 32;
	arena_reset(arena);
	memset(arena->sums, 0, arena->nr_blocks * sizeof(u64));
	memcpy(arena->expected, arena->before, arena->bytes);
	return launch(arena, &grid, &args, error) && memory_is_right(arena, error) &&
	       sums_are_right(arena, &args, error);
}

static bool move_sums_are_right(const struct arena *arena, char error[ARENA_ERROR])
{
	u32 n = 0;

	for (u32 i = 0; i < arena->shape.nr_moves; i++)
		for (u32 k = 0; k < arena->moves[i].nr; k++, n++) {
			if (arena->sums[n] == (is_stale_list(&arena->shape) ? 0 :
					       sum_of(arena, arena->moves[i].src + k)))
				continue;
			snprintf(error, ARENA_ERROR, "sum %u, of block %u of move %u, is wrong", n, k,
				 i);
			return false;
		}
	return true;
}

bool arena_run_move_sums(struct arena *arena, arena_launch_fn launch, char error[ARENA_ERROR])
{
	const struct arena_shape *shape = &arena->shape;
	struct run run = { .arena = arena, .error = error };
	struct kv_move_sum_args args = { .sums = (uintptr_t)arena->sums,
					 .first = (uintptr_t)arena->first };
	struct arena_grid grid = { "kv_move_sum", 0, shape->nr_threads, shape->backwards };
	u64 pos = 0;

	error[0] = 0;
	if (!run_init(&run))
		return false;
	for (u32 p = 0; p < shape->nr_planes; pos += (arena->src[p++].bytes + 7) / 8)
		arena->first[p] = pos;
	memset(arena->sums, 0, arena->nr_blocks * sizeof(u64));
	kv_launch_list(&run.args.head, arena->list, arena->moves, shape->nr_moves);
	args.head = run.args.head;
	args.head.moves = (uintptr_t)arena->list;
	if (!shape->chunk_bytes)
		kv_launch_longer_chunks(&args.head);
	grid.nr_groups = shape->nr_groups ? shape->nr_groups : kv_launch_groups(&args.head, 1000);
	grid.nr_threads = run.nr_threads;
	if (args.head.nr_blocks && !launch(arena, &grid, &args, error))
		return false;
	return memory_is_right(arena, error) && move_sums_are_right(arena, error);
}

/* ------------------------------------------------------------------------- */

bool arena_launch_host(const struct arena *arena, const struct arena_grid *grid,
		       const void *args, char error[ARENA_ERROR])
{
	const struct kv_kernel *kernel = kv_kernels;
	u64 nr = (u64)grid->nr_groups * grid->nr_threads;

	while (kernel->name && strcmp(kernel->name, grid->kernel))
		kernel++;
	if (!kernel->name) {
		snprintf(error, ARENA_ERROR, "no kernel %s", grid->kernel);
		return false;
	}
	for (u64 i = 0; i < nr; i++) {
		u64 n = grid->backwards ? nr - 1 - i : i;
		struct kv_thread self = { n % grid->nr_threads, grid->nr_threads,
					  n / grid->nr_threads, grid->nr_groups };

		kernel->run(&self, args);
	}
	return true;
}
