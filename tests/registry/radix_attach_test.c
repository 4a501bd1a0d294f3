// SPDX-License-Identifier: Apache-2.0
/* Values attached to nodes, and hooks: who is called when, how often, and under which locks. */
#include <pthread.h>

#include <kv/rcu.h>
#include <kv/registry_radix.h>

#include "radix_util.h"

static struct kvmm_registry *reg;
static struct chain chain;
static u32 nr_destroyed;

/* Waiting for a grace period is a bug in a read section, and out of order under any lock. */
static void expect_free_hands(void)
{
	kv_rcu_barrier();
}

static void destroy(void *value)
{
	expect_free_hands();
	*(int *)value = -*(int *)value;
	nr_destroyed++;
}

static void set_up(void)
{
	reg = make_registry(64, 2, 0);
	chain_fill(&chain, 1, 8);
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	nr_destroyed = 0;
}

static void tear_down(void)
{
	end_registry(reg);
}

TestSuite(radix_attach, .init = set_up, .fini = tear_down);
TestSuite(radix_hook, .init = set_up, .fini = tear_down);

static int sum_up(void *ctx, int type, void **value)
{
	int *sum = ctx;

	*sum = *sum * 10 + **(int *const *)value;
	return 0;
}

/* The values in the order in which they are visited, as digits. */
static int digits(kvmm_node_t node, int type)
{
	int sum = 0;

	cr_assert_geq(kvmm_node_with(reg, node, type, sum_up, &sum), 0);
	return sum;
}

Test(radix_attach, a_unique_value_is_replaced_and_the_former_destroyed)
{
	int type = kvmm_attach_type_create(reg, "score", KVMM_ATTACH_UNIQUE, destroy);
	kvmm_node_t node = node_at_name(reg, &chain, 3);
	int value[3] = { 1, 2, 3 };

	for (u32 i = 0; i < 3; i++) {
		cr_assert_eq(kvmm_node_attach(reg, node, type, KVMM_ATTACH_UNIQUE, &value[i]), 0);
		cr_expect_eq(digits(node, type), i + 1);
		cr_expect_eq(nr_destroyed, i);
	}
	cr_expect_eq(value[0], -1);
	cr_expect_eq(value[2], 3);
	cr_assert_eq(kvmm_registry_absent(reg, 0, &chain.prefix), 8);
	cr_expect_eq(value[2], -3);
	cr_expect_eq(nr_destroyed, 3);
	cr_expect_eq(kvmm_node_with(reg, node, type, sum_up, value), -ESTALE);
}

Test(radix_attach, multiple_values_keep_their_order)
{
	int type = kvmm_attach_type_create(reg, "reader", KVMM_ATTACH_MULTIPLE, destroy);
	int other = kvmm_attach_type_create(reg, "writer", KVMM_ATTACH_MULTIPLE, NULL);
	kvmm_node_t node = node_at_name(reg, &chain, 3);
	int value[4] = { 1, 2, 3, 4 };

	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_node_attach(reg, node, i == 1 ? other : type,
					      KVMM_ATTACH_MULTIPLE, &value[i]), 0);
	cr_expect_eq(digits(node, type), 134);
	cr_expect_eq(digits(node, other), 2);
	cr_expect_eq(digits(node, -1), 1234);
	cr_expect_eq(kvmm_node_detach(reg, node, type), 3);
	cr_expect_eq(digits(node, -1), 2);
	cr_expect_eq(nr_destroyed, 3);
	cr_expect_eq(kvmm_node_detach(reg, node, type), 0);
}

Test(radix_attach, mixing_is_an_error_that_names_the_type)
{
	int unique = kvmm_attach_type_create(reg, "score", KVMM_ATTACH_UNIQUE, NULL);
	int multiple = kvmm_attach_type_create(reg, "reader", KVMM_ATTACH_MULTIPLE, NULL);
	kvmm_node_t node = node_at_name(reg, &chain, 0);
	int value;

	cr_expect_eq(kvmm_node_attach(reg, node, unique, KVMM_ATTACH_MULTIPLE, &value), -EINVAL);
	cr_expect_str_eq(kvmm_why(), "attachment type \"score\" is unique, not multiple");
	cr_expect_eq(kvmm_node_attach(reg, node, multiple, KVMM_ATTACH_UNIQUE, &value), -EINVAL);
	cr_expect_str_eq(kvmm_why(), "attachment type \"reader\" is multiple, not unique");
	cr_expect_eq(kvmm_node_attach(reg, node, 99, KVMM_ATTACH_UNIQUE, &value), -EINVAL);
	cr_expect_str_eq(kvmm_why(), "there is no attachment type 99");
	cr_expect_eq(kvmm_attach_type_create(reg, "score", KVMM_ATTACH_MULTIPLE, NULL), -EEXIST);
	cr_expect_str_eq(kvmm_why(), "attachment type \"score\" is unique, not multiple");
	cr_expect_eq(kvmm_attach_type_create(reg, "score", KVMM_ATTACH_UNIQUE | KVMM_ATTACH_KEEPS, NULL),
		     -EEXIST);
	cr_expect_str_eq(kvmm_why(), "attachment type \"score\" has another KVMM_ATTACH_KEEPS");
	cr_expect_eq(kvmm_attach_type_create(reg, "score", KVMM_ATTACH_UNIQUE, NULL), unique);
	cr_expect_eq(digits(node, -1), 0);
}

static int replace(void *ctx, int type, void **value)
{
	*value = ctx;
	return 1;
}

Test(radix_attach, values_can_be_changed_in_place)
{
	int type = kvmm_attach_type_create(reg, "score", KVMM_ATTACH_MULTIPLE, destroy);
	kvmm_node_t node = node_at_name(reg, &chain, 0);
	int value[3] = { 1, 2, 3 };

	cr_assert_eq(kvmm_node_attach(reg, node, type, KVMM_ATTACH_MULTIPLE, &value[0]), 0);
	cr_assert_eq(kvmm_node_attach(reg, node, type, KVMM_ATTACH_MULTIPLE, &value[1]), 0);
	cr_expect_eq(kvmm_node_with(reg, node, type, replace, &value[2]), 1);
	cr_expect_eq(digits(node, type), 32);
	cr_expect_eq(nr_destroyed, 0);
	cr_expect_eq(kvmm_node_detach(reg, node, type), 2);
	cr_expect_eq(value[0], 1);
	cr_expect_eq(value[2], -3);
}

Test(radix_attach, a_value_that_keeps_its_node_keeps_it)
{
	int type = kvmm_attach_type_create(reg, "lease", KVMM_ATTACH_UNIQUE | KVMM_ATTACH_KEEPS,
					   destroy);
	kvmm_node_t node = node_at_name(reg, &chain, 2);
	struct kvmm_node_info info;
	int value[2] = { 1, 2 };

	for (u32 i = 0; i < 2; i++)
		cr_assert_eq(kvmm_node_attach(reg, node, type, KVMM_ATTACH_UNIQUE, &value[i]), 0);
	cr_assert_eq(kvmm_registry_absent(reg, 0, &chain.prefix), 8);
	expect_sound(reg, 1);
	cr_expect_eq(digits(node, type), 2);
	cr_expect_eq(kvmm_node_detach(reg, node, type), 1);
	cr_expect_eq(kvmm_node_get_info(reg, node, &info), -ESTALE);
	expect_sound(reg, 0);
	cr_expect_eq(nr_destroyed, 2);
}

Test(radix_attach, what_is_left_is_destroyed_with_the_registry)
{
	struct kvmm_registry *other = make_registry(16, 1, 0);
	int type = kvmm_attach_type_create(other, "x", KVMM_ATTACH_UNIQUE, destroy), value = 5;
	kvmm_node_t nodes[8];

	cr_assert_eq(kvmm_registry_hold(other, &chain.prefix, nodes), 0);
	cr_assert_eq(kvmm_node_attach(other, nodes[7], type, KVMM_ATTACH_UNIQUE, &value), 0);
	kvmm_registry_destroy(other);
	cr_expect_eq(value, -5);
}

/* ---- hooks ---- */

#define MAX_HEARD	512u

struct heard {
	pthread_t thread;
	u32 nr_calls;
	u32 nr;
	u32 tier[MAX_HEARD];
	bool present[MAX_HEARD];
	struct kvmm_name name[MAX_HEARD];
};

static struct heard heard;

static void hear(const struct kvmm_name *names, u32 nr, u32 tier, bool present)
{
	expect_free_hands();
	cr_assert_leq(nr, KVMM_REGISTRY_BATCH);
	heard.thread = pthread_self();
	heard.nr_calls++;
	for (u32 i = 0; i < nr; i++) {
		heard.tier[heard.nr] = tier;
		heard.present[heard.nr] = present;
		heard.name[heard.nr++] = names[i];
	}
}

static void hear_present(void *ctx, u32 tier, const struct kvmm_name *names, u32 nr)
{
	hear(names, nr, tier, true);
}

static void hear_absent(void *ctx, u32 tier, const struct kvmm_name *names, u32 nr)
{
	hear(names, nr, tier, false);
}

static void hear_touch(void *ctx, const struct kvmm_name *names, u32 nr)
{
	hear(names, nr, KVMM_MAX_TIERS, true);
}

static const struct kvmm_delegate delegate = { hear_present, hear_absent, NULL, NULL };

Test(radix_hook, delegates_are_told_of_first_and_last_blocks_only)
{
	cr_assert_eq(kvmm_registry_delegate(reg, &delegate), 0);
	cr_assert_eq(kvmm_registry_present(reg, 0, &chain.prefix), 0);
	cr_expect_eq(heard.nr_calls, 0);
	cr_assert_eq(kvmm_registry_present(reg, 1, &chain.prefix), 0);
	cr_expect_eq(heard.nr_calls, 1);
	cr_expect_eq(heard.nr, 8);
	cr_expect(heard.present[0] && heard.tier[0] == 1);
	cr_expect_arr_eq(&heard.name[5].key, &chain.key[5], sizeof(chain.key[5]));
	cr_expect_eq(heard.name[5].position, 5);
	cr_assert_eq(kvmm_registry_absent(reg, 0, &chain.prefix), 8);
	cr_expect_eq(heard.nr_calls, 1);
	cr_assert_eq(kvmm_registry_absent(reg, 0, &chain.prefix), 8);
	cr_expect_eq(heard.nr_calls, 2);
	/* Last name first: as blocks are forgotten. */
	cr_expect(!heard.present[8] && heard.name[8].position == 7);
	cr_expect_eq(heard.name[15].position, 0);
	cr_expect(pthread_equal(heard.thread, pthread_self()));
}

Test(radix_hook, a_transfer_is_told_as_one_more_before_one_less)
{
	cr_assert_eq(kvmm_registry_delegate(reg, &delegate), 0);
	cr_assert_eq(kvmm_registry_transfer(reg, 0, 1, &chain.prefix), 8);
	cr_expect_eq(heard.nr_calls, 2);
	cr_expect(heard.present[0] && heard.tier[0] == 1);
	cr_expect(!heard.present[8] && heard.tier[8] == 0);
}

Test(radix_hook, a_long_batch_comes_in_parts)
{
	struct chain other;

	cr_assert_eq(kvmm_registry_delegate(reg, &delegate), 0);
	for (u32 i = 2; i < 5; i++) {
		chain_fill(&other, i, MAX_CHAIN);
		cr_assert_eq(kvmm_registry_present(reg, 0, &other.prefix), 0);
	}
	cr_expect_eq(heard.nr, 3 * MAX_CHAIN);
	cr_expect_eq(heard.nr_calls, 3);
}

Test(radix_hook, several_delegates_are_told)
{
	struct kvmm_delegate second = delegate, none = { 0 };

	second.ctx = &second;
	cr_assert_eq(kvmm_registry_delegate(reg, &delegate), 0);
	cr_assert_eq(kvmm_registry_delegate(reg, &second), 0);
	cr_expect_eq(kvmm_registry_delegate(reg, &second), -EEXIST);
	cr_assert_eq(kvmm_registry_present(reg, 1, &chain.prefix), 0);
	cr_expect_eq(heard.nr, 16);
	cr_assert_eq(kvmm_registry_delegate(reg, &none), 0);
	cr_assert_eq(kvmm_registry_delegate(reg, &none), 0);
	cr_assert_eq(kvmm_registry_absent(reg, 1, &chain.prefix), 8);
	cr_expect_eq(heard.nr, 24);
}

Test(radix_hook, there_is_room_for_eight)
{
	struct kvmm_delegate one = delegate, none = { 0 };

	for (u32 i = 0; i <= KVMM_REGISTRY_HOOKS; i++) {
		one.ctx = &heard.tier[i];
		cr_expect_eq(kvmm_registry_delegate(reg, &one),
			     i < KVMM_REGISTRY_HOOKS ? 0 : -ENOSPC);
	}
	none.ctx = &heard.tier[3];
	cr_expect_eq(kvmm_registry_delegate(reg, &none), 0);
	cr_expect_eq(kvmm_registry_delegate(reg, &one), 0);
}

static const struct kv_radix_name touched = { .key = { { 99 } }, .position = 9 };

Test(radix_hook, touches_come_as_a_batch)
{
	struct kvmm_delegate one = { .on_touch = hear_touch };
	struct kv_radix_name names[MAX_CHAIN + 1];

	for (u32 i = 0; i < ARRAY_SIZE(names); i++) {
		names[i] = touched;
		names[i].position = i;
	}
	cr_expect_not(kv_radix_wants_touches(reg));
	cr_assert_eq(kvmm_registry_delegate(reg, &one), 0);
	cr_expect(kv_radix_wants_touches(reg));
	kv_radix_touch(reg, names, 8);
	cr_expect_eq(heard.nr_calls, 1);
	cr_expect_eq(heard.nr, 8);
	cr_expect_eq(heard.name[7].position, 7);
	kv_radix_touch(reg, names, ARRAY_SIZE(names));
	cr_expect_eq(heard.nr_calls, 3);
	/* Changes are no touches. */
	cr_assert_eq(kvmm_registry_transfer(reg, 0, 1, &chain.prefix), 8);
	cr_expect_eq(heard.nr_calls, 3);
}

static void take_myself_away(void *ctx, const struct kvmm_name *names, u32 nr)
{
	struct kvmm_delegate none = { .ctx = ctx };

	cr_expect_eq(kvmm_registry_delegate(reg, &none), -EBUSY);
	heard.nr_calls++;
}

Test(radix_hook, a_hook_may_take_itself_away)
{
	struct kvmm_delegate own = { .on_touch = take_myself_away, .ctx = &heard }, none = own;

	none.on_touch = NULL;
	cr_assert_eq(kvmm_registry_delegate(reg, &own), 0);
	kv_radix_touch(reg, &touched, 1);
	kv_radix_touch(reg, &touched, 1);
	cr_expect_eq(heard.nr_calls, 1);
	cr_expect_eq(kvmm_registry_delegate(reg, &none), 0);
}
