/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library is compared with: engines of zones, policies and a map that it does not ship.
 *
 * They fill the library's own tables of operations and may use its internal headers. register.o adds
 * them to the library's tables before main(): a program that is linked with it has them by name.
 */
#ifndef RESEARCH_RESEARCH_H
#define RESEARCH_RESEARCH_H

#include <kv/evict.h>
#include <kv/registry_map.h>
#include <kv/zone.h>

extern const struct kv_zone_ops kv_zone_best;		/* "best" */
extern const struct kv_zone_ops kv_zone_lists;		/* "lists" */
extern const struct kv_zone_ops kv_zone_first;		/* "first" */

extern const struct kv_evict_ops kv_evict_lfu;		/* "lfu" */
extern const struct kv_evict_ops kv_evict_glfu;		/* "glfu": counts keys, resident or not */
extern const struct kv_evict_ops kv_evict_hint;		/* "hint": farthest hinted use first */
extern const struct kv_evict_ops kv_evict_cost;		/* "cost": as GDSF */
extern const struct kv_evict_ops kv_evict_tlru;		/* "t-lru": ends of chains first */
extern const struct kv_evict_ops kv_evict_slru;		/* "slru": used once, then used again */
extern const struct kv_evict_ops kv_evict_arc;		/* "arc" */
extern const struct kv_evict_ops kv_evict_s3fifo;	/* "s3fifo" */

extern const struct kv_map_ops kv_map_lfht;	/* "lfht": liburcu's: unbounded, 3 to 6 times slower */

#endif /* RESEARCH_RESEARCH_H */
