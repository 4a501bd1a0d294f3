/* SPDX-License-Identifier: Apache-2.0 */
/* When each key of a trace is wanted again: known here, never in the library. */
#ifndef REPLAY_FUTURE_H
#define REPLAY_FUTURE_H

#include "replay.h"

/**
 * struct future - for each key of each request, the next request with that key
 * @next: all keys, request after request; "never" is the number of requests
 * @first: index of each request's first key
 */
struct future {
	u32 *next;
	u64 *first;
};

void future_init(struct future *future, const struct options *opt, const struct trace *trace);

void future_exit(struct future *future);

static inline const u32 *future_of(const struct future *future, u32 q)
{
	return future->next + future->first[q];
}

#endif /* REPLAY_FUTURE_H */
