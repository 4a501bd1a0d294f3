/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From moves and planes to parameters and grids: a launch of the copy engine.
 *
 * Nothing here talks to a driver. A launch takes its planes by value, or as the address of a table
 * that the device can read, which costs no room; then its moves by value, as many as fit, or all of
 * them as a list in memory (the _list kernels), for which the planes must be tables, too.
 */
#ifndef KV_KERNEL_LAUNCH_H
#define KV_KERNEL_LAUNCH_H

#include <kv/dev.h>

#include "kernel.h"

/* The PTX text of all kernels, with a NUL at its end; needs a driver of CUDA 9.0, sm_70. */
extern const char kv_kernel_ptx[];

/**
 * struct kv_launch_planes - one side of a launch
 * @plane: the planes; borrowed
 * @nr: how many, at least 1
 * @table: the same at an address of the device, or 0: by value
 */
struct kv_launch_planes {
	const struct kvmm_plane *plane;
	u32 nr;
	u64 table;
};

/**
 * kv_launch_alike() - how many planes one kernel can serve
 * @src: planes
 * @dst: as many; may be @src
 * @nr: how many, at least 1
 * @vectors: they are for kv_move16; otherwise for kv_move1
 *
 * Return: number of planes, from the first on, that are alike in this; at least 1.
 */
u32 kv_launch_alike(const struct kvmm_plane *src, const struct kvmm_plane *dst, u32 nr,
		    bool *vectors);

/**
 * kv_launch_head() - everything but the moves
 * @head: overwritten
 * @src: planes to read
 * @dst: planes to write; the same object as @src for moves inside a pool
 * @vectors: for kv_move16; otherwise for kv_move1
 *
 * Return: threads of a group, a power of two from 64 to 256; -EINVAL planes that no kernel can
 * serve: not as many on both sides, a piece of 0 or of 2 GiB or more, unequal pieces, a piece
 * longer than its stride.
 */
int kv_launch_head(struct kv_move_head *head, const struct kv_launch_planes *src,
		   const struct kv_launch_planes *dst, bool vectors);

/**
 * kv_launch_moves() - put planes and moves into a launch by value
 * @args: its head from kv_launch_head() with the same planes
 * @src: as there
 * @dst: as there
 * @moves: moves; those of length 0 count as done
 * @nr: how many
 *
 * Return: how many moves, from the first on, are in the launch or of length 0; the next launch
 * takes the rest. If they are all of length 0 then there is nothing to launch: head.nr_blocks is 0.
 * Returns 0 if not even one fits beside the planes: use a table.
 */
u32 kv_launch_moves(struct kv_move_args *args, const struct kv_launch_planes *src,
		    const struct kv_launch_planes *dst, const struct kv_move *moves, u32 nr);

/* Words that kv_launch_list() writes, at most. */
#define KV_LAUNCH_LIST_WORDS(nr_moves)	((u64)(nr_moves) * KV_KERNEL_RUN)

/**
 * kv_launch_list() - put moves into a list for a _list kernel
 * @head: from kv_launch_head() with tables; gets all but the address of the list
 * @words: room for KV_LAUNCH_LIST_WORDS(@nr)
 * @moves: moves; those of length 0 are left out
 * @nr: how many
 *
 * Return: how many moves, from the first on, are in the list; fewer than @nr if all of them would
 * be 2^31 blocks or more.
 */
u32 kv_launch_list(struct kv_move_head *head, u32 *words, const struct kv_move *moves, u32 nr);

/* Groups for a launch: one for each chunk, but at most @cap. Not 0, unless there is nothing. */
u32 kv_launch_groups(const struct kv_move_head *head, u32 cap);

/* Fewer and longer chunks for kv_move_sum: its threads add to a sum at the end of each. */
void kv_launch_longer_chunks(struct kv_move_head *head);

/*
 * nr_parts for kv_sum so that about @cap groups have work, and its number of groups; at least 1.
 * The kernel goes around more often if either is smaller.
 */
u32 kv_launch_sum_parts(u32 nr_blocks, u32 nr_planes, u32 cap);
u32 kv_launch_sum_groups(const struct kv_sum_args *args, u32 cap);

#endif /* KV_KERNEL_LAUNCH_H */
