/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A neighbour of the trace, in the same pool: another tenant, whose requests never come back. What it
 * caches is worth nothing, and pushes out what the trace would have hit, unless somebody has said
 * how much either of them may have.
 */
#ifndef REPLAY_FLOOD_H
#define REPLAY_FLOOD_H

#include "cache.h"

#define TENANT_OF_TRACE	0u
#define TENANT_OF_FLOOD	1u

/* --limits and --flood-limits: "min=N,low=N,high=N,max=N" or some of that. 0 or -EINVAL. */
int limits_parse(struct kvmm_tenant_attr *attr, const char *text);

/** flood_begin() - give both their limits. Return: EXIT_GOOD, or it was said why not. */
enum exit_code flood_begin(struct cache *cache);

/** flood_step() - one request of the neighbour, taken, cached, and given back */
enum exit_code flood_step(struct cache *cache);

/* Nothing is said without a neighbour or limits. */
void flood_describe(const struct cache *cache);

#endif /* REPLAY_FLOOD_H */
