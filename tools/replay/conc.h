/* SPDX-License-Identifier: Apache-2.0 */
/* The simulation of mode conc, and what is different in it with --grow. */
#ifndef REPLAY_CONC_H
#define REPLAY_CONC_H

#include "cache.h"
#include "heap.h"

struct grow;

/**
 * struct conc - the simulation
 * @running: what each running request has, by request
 * @finish: when they will be done
 * @loading, @nr_loading: running requests that wait for their hits, in order of admission
 * @head: the first request that waits
 * @arrived: requests that have arrived so far
 * @stuck: the head did not fit and nothing was freed since
 * @used: blocks that somebody refers to, now
 * @grow: for --grow: see there; else NULL
 */
struct conc {
	struct cache cache;
	struct held **running;
	struct heap finish;
	u32 *loading;
	u32 nr_loading;
	u64 now;
	u32 head;
	u32 arrived;
	bool stuck;

	u32 used;
	u32 peak_used;
	u32 delayed;
	u128 used_area;
	u128 wait_us;
	u64 makespan_us;

	struct grow *grow;
};

/*
 * --grow: a request is admitted with blocks for its prompt alone, and takes another one whenever its answer
 * has filled those it has. Where there is none, the request that was admitted last gives up all that it has,
 * and goes to the front of the queue; what it has said is part of its prompt from then on. Full blocks of
 * answers get keys of their own, so a request finds again what is left of it.
 */

/** grow_begin() - Return: 0; -ENOMEM. */
int grow_begin(struct conc *conc);
void grow_end(struct conc *conc);

/* Who is to be admitted now, if anybody waits; *@nr_blocks: what it needs at first. */
bool grow_next(const struct conc *conc, u32 *q, u32 *nr_blocks);
/* It has been. */
void grow_admitted(struct conc *conc, const struct held *held);
/* Its hits are there, and so its prompt will be. */
enum exit_code grow_run(struct conc *conc, struct held *held);
/* Events of who has been preempted are nobody's. */
void grow_skip(struct conc *conc);
/* All events of this moment. */
enum exit_code grow_events(struct conc *conc);
/* Has everybody come to an end? */
enum exit_code grow_check(const struct conc *conc);
u32 grow_running(const struct conc *conc);

void grow_describe(const struct conc *conc);
void grow_say(const struct conc *conc);

#endif /* REPLAY_CONC_H */
