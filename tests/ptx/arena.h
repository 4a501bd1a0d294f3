/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory with planes in it, moves over them, and what it must look like afterwards.
 *
 * Everything lies in one buffer of random bytes, with stretches between the planes, between the
 * blocks and at both ends that belong to nobody. The buffer as a whole is compared with an image
 * that memcpy() made, so a byte too many is noticed like a byte too few. Shapes are drawn from a
 * seed; whoever runs the kernels is a function, so PTX and host code face the same cases.
 */
#ifndef ARENA_H
#define ARENA_H

#include <kv/dev.h>

#include "cuda/kernel/launch.h"

#define ARENA_ERROR	200

enum arena_act { ARENA_MOVE16, ARENA_MOVE1, ARENA_NR_ACTS };

/* With another one than its own before the planes a list moves and sums nothing. */
enum arena_stamp { ARENA_NO_STAMP, ARENA_OWN_STAMP, ARENA_OTHER_STAMP };

struct arena_shape {
	u64 seed;		/* of contents, places and lengths */
	enum arena_act act;
	bool list;		/* moves in memory */
	bool tables;		/* planes in memory; always so with a list */
	bool two_sides;		/* from planes to other planes */
	bool interleaved;	/* all pieces of a block lie together */
	bool runs;		/* moves of several blocks, and of none */
	bool backwards;
	u32 nr_planes;
	u32 nr_moves;
	u32 max_bytes;		/* of a piece */
	u32 chunk_bytes;	/* 0: what the launch helper says */
	u32 nr_groups;		/* 0: likewise */
	u32 nr_threads;		/* 0: likewise */
	enum arena_stamp stamp;	/* of a list */
};

struct arena {
	struct arena_shape shape;
	u64 rng;
	u8 *mem;
	u8 *before;		/* the bytes of @mem at the start */
	u8 *expected;
	u64 bytes;
	struct kvmm_plane *src;	/* behind ARENA_OWN_STAMP */
	struct kvmm_plane *dst;	/* may be @src */
	struct kv_move *moves;
	u32 *list;
	u32 nr_blocks;
	u64 *sums;		/* room for nr_blocks */
	u64 *first;		/* numbers of the first words of planes */
	u32 nr_launches;
};

struct arena_grid {
	const char *kernel;
	u32 nr_groups;
	u32 nr_threads;
	bool backwards;
};

/* Runs a kernel over the arena; false with an error that says why it could not. */
typedef bool (*arena_launch_fn)(const struct arena *arena, const struct arena_grid *grid,
				const void *args, char error[ARENA_ERROR]);

/* Any shape that suits the seed; small ones, for who needs a microsecond for an instruction. */
struct arena_shape arena_random_shape(u64 seed, bool small);
const char *arena_describe(const struct arena_shape *shape);

struct arena *arena_create(const struct arena_shape *shape);
void arena_destroy(struct arena *arena);
void arena_reset(struct arena *arena);

/* All moves of the shape, and whether memory is then as it must be. */
bool arena_run(struct arena *arena, arena_launch_fn launch, char error[ARENA_ERROR]);

/* The checksums of some blocks, and whether they are those of the definition. */
bool arena_run_sums(struct arena *arena, arena_launch_fn launch, char error[ARENA_ERROR]);

/* The moves of a shape of ARENA_MOVE16 with a list, and the checksums of what they read. */
bool arena_run_move_sums(struct arena *arena, arena_launch_fn launch, char error[ARENA_ERROR]);

/* A kernel of kv_kernels[], compiled by the host's compiler. */
bool arena_launch_host(const struct arena *arena, const struct arena_grid *grid,
		       const void *args, char error[ARENA_ERROR]);

u64 arena_random(u64 *state);
u64 arena_seed(void);		/* from KVMM_SEED or the clock; printed */

#endif /* ARENA_H */
