/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eviction orders as text: 'a' is block 0 with a key, 'A' is block 0 without one.
 *
 *	struct order order;
 *
 *	order_init(&order, &kv_evict_lru, 4);
 *	order_enter(&order, "abC");		// one batch
 *	order_expect(&order, "cab");		// next victim first
 *	order_exit(&order);
 *
 * The key of block n is order_key(n).
 */
#ifndef TESTS_EVICT_ORDER_H
#define TESTS_EVICT_ORDER_H

#include <kv/evict.h>

#include "tests/support/test.h"

struct order {
	const struct kv_evict_ops *ops;
	void *policy;		/* ours */
	u32 nr_blocks;
};

void order_init(struct order *order, const struct kv_evict_ops *ops, u32 nr_blocks);
void order_exit(struct order *order);

#define ORDER_TEST(suite, name, ops, nr)				\
	TEST_ON(struct order, order, order_init(order, ops, nr),	\
		order_exit(order), suite, name)

kvmm_key_t order_key(u32 nth);

/* Each call is one batch; blocks are entered one by one, as the letters stand. */
void order_enter(struct order *order, const char *letters);
void order_fill(struct order *order, const char *letters);
void order_hit(struct order *order, const char *letters);
void order_leave(struct order *order, const char *letters);

/* One request that names the keys of these blocks. */
void order_seen(struct order *order, const char *letters);

/* Picks all blocks and puts all of them back, newest first; fills @victims, returns how many. */
u32 order_read(struct order *order, u32 *victims);

void order_expect(struct order *order, const char *letters);

#endif /* TESTS_EVICT_ORDER_H */
