/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mode frag with an engine that makes steps: its streams read the blocks of running requests
 * all the time, each from kvmm_step_begin() to kvmm_step_end(), and blocks move beside that.
 *
 * Each request belongs to one stream, the one with the fewest blocks when it was admitted. A
 * step of a stream reads all blocks of its requests, where they lay when it began. It takes
 *
 *	T = (S / 2 + S / 2 * blocks * streams / pool + runs * 1 us) * U(0.9, 1.1)
 *
 * with S of --step-us: half of it whatever is read, half for the bytes if the pool is full,
 * and one microsecond for each contiguous run. A request is over with the first step of its
 * stream that ends at or after the time of the contract; requests are admitted, and blocks are
 * moved, when any stream's step ends. A stream without requests makes no steps.
 *
 * The engine knows which request it will admit next. With --ahead it asks for a run for it
 * before the mark lets it in, at a bounded cost; what is not there then is made when it is
 * asked for.
 *
 * What a step writes, the last block of each request, is not part of the model: the engine it
 * stands for keeps that block outside the run until it is full. So whole ranges are sealed.
 *
 * Time is the simulation's, for the library too. Copies take none on pools of ids only.
 */
#ifndef REPLAY_READERS_H
#define REPLAY_READERS_H

#include "frag.h"

/** readers_clock() - from here on the library is told @frag's time; before the pool is made */
int readers_clock(struct frag *frag);

/** readers_init() - add the streams. Return: EXIT_GOOD, or it was said why not. */
enum exit_code readers_init(struct frag *frag);

void readers_exit(struct frag *frag);

/** readers_join() - request @q has been admitted: a stream works on it from now on */
enum exit_code readers_join(struct frag *frag, u32 q);

/** readers_run() - all requests, from the first to the last */
enum exit_code readers_run(struct frag *frag);

void readers_report(const struct frag *frag);

#endif /* REPLAY_READERS_H */
