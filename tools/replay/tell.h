/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests are noted for whoever makes traces of a pool's events; and with --events FILE all events of
 * the run are written down, none is lost.
 */
#ifndef REPLAY_TELL_H
#define REPLAY_TELL_H

#include "cache.h"

/** tell_begin() - the pool is there. Return: EXIT_GOOD, or it was said why not. */
enum exit_code tell_begin(struct cache *cache);

/** tell_request() - request @q has come. */
enum exit_code tell_request(struct cache *cache, u32 q);

/** tell_over() - it is over, after @nr_hits hits; the same returns. */
enum exit_code tell_over(struct cache *cache, u32 q, u32 nr_hits);

/** tell_end() - no more comes; the same returns. The pool is still there. */
enum exit_code tell_end(struct cache *cache);

#endif /* REPLAY_TELL_H */
