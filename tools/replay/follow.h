/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which request goes on where another one ended: the next turn of the same talk. Its prompt has the
 * answer in it, and so the numbers of its blocks, which the trace does not say of answers.
 */
#ifndef REPLAY_FOLLOW_H
#define REPLAY_FOLLOW_H

#include "replay.h"

/**
 * follow_find() - for each request the one that goes on with it, or U32_NONE; the caller frees it
 *
 * That begins with all of its full blocks, and is at least as long as it and its answer. Of several such
 * ends a prompt goes on with the longest, of equal ones with the latest: each request is
 * followed once, and is no such end any more. Prompts without a full block are not known again.
 *
 * Return: NULL if there is no memory.
 */
u32 *follow_find(const struct options *opt, const struct trace *trace);

#endif /* REPLAY_FOLLOW_H */
