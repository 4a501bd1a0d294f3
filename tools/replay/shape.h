/* SPDX-License-Identifier: Apache-2.0 */
/* What a request of the trace means in blocks and keys, by the rule chosen with --keys. */
#ifndef REPLAY_SHAPE_H
#define REPLAY_SHAPE_H

#include <kvmm/types.h>

#include "replay.h"

/**
 * struct shape - a request in blocks
 * @nr_keys: blocks that get a key
 * @max_hits: at most so many of them may hit
 * @prompt: blocks of the prompt
 */
struct shape {
	u32 nr_keys;
	u32 max_hits;
	u32 prompt;
};

/* Can the numbers of the trace be the keys, where --keys says so? */
enum exit_code shape_check(const struct options *opt, const struct trace *trace);

struct shape shape_of(const struct options *opt, const struct trace_request *req);

/* Name of the @i-th key of the request; equal names are equal content. */
u64 key_name(const struct options *opt, const struct trace *trace,
	     const struct trace_request *req, u32 i);

/* The name as the library's key. */
kvmm_key_t key_of(u64 name);

#endif /* REPLAY_SHAPE_H */
