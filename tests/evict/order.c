// SPDX-License-Identifier: Apache-2.0
/* Eviction orders as text. */
#include "tests/evict/order.h"

void order_init(struct order *order, const struct kv_evict_ops *ops, u32 nr_blocks)
{
	order->ops = ops;
	order->nr_blocks = nr_blocks;
	order->policy = kv_alloc(ops->bytes(nr_blocks));
	cr_assert(order->policy);
	ops->init(order->policy, nr_blocks);
	if (ops->setup)
		cr_assert_eq(ops->setup(order->policy, NULL), 0);
	cr_expect_eq(ops->check(order->policy), 0);
}

void order_exit(struct order *order)
{
	cr_expect_eq(order->ops->check(order->policy), 0);
	if (order->ops->exit)
		order->ops->exit(order->policy);
	kv_free(order->policy);
}

kvmm_key_t order_key(u32 nth)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte, &nth, sizeof(nth));
	return key;
}

static u32 block_of(char letter)
{
	return letter >= 'a' ? letter - 'a' : letter - 'A';
}

void order_enter(struct order *order, const char *letters)
{
	for (; *letters; letters++) {
		u32 block = block_of(*letters);
		kvmm_key_t key = order_key(block);

		order->ops->enter(order->policy, block, *letters >= 'a' ? &key : NULL);
	}
	cr_expect_eq(order->ops->check(order->policy), 0);
}

void order_fill(struct order *order, const char *letters)
{
	for (; *letters && order->ops->fill; letters++) {
		kvmm_key_t key = order_key(block_of(*letters));

		order->ops->fill(order->policy, block_of(*letters), &key);
	}
}

void order_hit(struct order *order, const char *letters)
{
	for (; *letters && order->ops->hit; letters++)
		order->ops->hit(order->policy, block_of(*letters));
}

void order_leave(struct order *order, const char *letters)
{
	for (; *letters; letters++)
		order->ops->leave(order->policy, block_of(*letters));
	cr_expect_eq(order->ops->check(order->policy), 0);
}

void order_seen(struct order *order, const char *letters)
{
	kvmm_key_t keys[64];
	u32 nr = 0;

	for (; *letters; letters++)
		keys[nr++] = order_key(block_of(*letters));
	order->ops->seen(order->policy, keys, nr);
}

u32 order_read(struct order *order, u32 *victims)
{
	const struct kv_evict_ops *ops = order->ops;
	u32 nr = 0;

	while (nr <= order->nr_blocks) {
		u32 victim = ops->pick(order->policy);

		if (victim == KV_NONE)
			break;
		victims[nr++] = victim;
		cr_assert_leq(nr, order->nr_blocks);
	}
	cr_expect_eq(ops->nr(order->policy), 0);
	for (u32 i = nr; i--; )
		ops->unpick(order->policy, victims[i]);
	cr_expect_eq(ops->nr(order->policy), nr);
	cr_expect_eq(ops->check(order->policy), 0);
	return nr;
}

void order_expect(struct order *order, const char *letters)
{
	u32 victims[64];
	char text[64];

	for (int again = 0; again < 2; again++) {
		u32 nr = order_read(order, victims);

		for (u32 i = 0; i < nr; i++)
			text[i] = 'a' + victims[i];
		text[nr] = '\0';
		cr_expect_str_eq(text, letters, "%s: got %s, expected %s%s", order->ops->name,
				 text, letters, again ? " (after unpick)" : "");
	}
}
