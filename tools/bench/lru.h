/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a cache of named blocks is, as a program would write it: a hash table of names and
 * a list in the order of last use, behind one mutex. Blocks have one holder; none is shared.
 */
#ifndef BENCH_LRU_H
#define BENCH_LRU_H

#include <kvmm/kvmm.h>

struct lru;

/* @nr blocks, all in the list, without names. */
struct lru *lru_open(uint32_t nr);
/* Takes NULL. */
void lru_close(struct lru *lru);

/* The @nr that were used longest ago leave the list, and lose their names. -ENOSPC: it is short. */
int lru_take(struct lru *lru, uint32_t nr, uint32_t *ids);
/* -EEXIST: one of the names is there. */
int lru_name(struct lru *lru, const uint32_t *ids, const kvmm_key_t *keys, uint32_t nr);
/* Into the list again, as used last. */
void lru_put(struct lru *lru, const uint32_t *ids, uint32_t nr);

#endif /* BENCH_LRU_H */
