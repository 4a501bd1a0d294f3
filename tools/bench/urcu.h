/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liburcu's hash table by itself, as a program would use it that knows blocks by name: a node a
 * block, with the name and a count of references. Nothing hears of hits, and nothing is evicted: it
 * is the least that any index in that table costs.
 */
#ifndef BENCH_URCU_H
#define BENCH_URCU_H

#include <kvmm/kvmm.h>

struct urcu_table;

/* All keys, without references, in nodes @scattered or in this order. NULL: no memory. */
struct urcu_table *urcu_open(const kvmm_key_t *keys, uint32_t nr, uint64_t seed, bool scattered);
/* Takes NULL. */
void urcu_close(struct urcu_table *table);

/* The blocks of a prefix in one read section; with @refs a reference each. How many. */
int urcu_match(struct urcu_table *table, const kvmm_key_t *keys, uint32_t nr, kvmm_ref_t *refs);
/* They go; -EUCLEAN: one was none. */
int urcu_put(struct urcu_table *table, const kvmm_ref_t *refs, uint32_t nr);

/*
 * Writers, each of nodes of its own: @nr from @first on lose their names, and are free of readers
 * when that returns; get these. -EUCLEAN: one was there.
 */
void urcu_remove(struct urcu_table *table, uint32_t first, uint32_t nr);
int urcu_register(struct urcu_table *table, uint32_t first, const kvmm_key_t *keys, uint32_t nr);

#endif /* BENCH_URCU_H */
