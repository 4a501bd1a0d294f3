// SPDX-License-Identifier: Apache-2.0
/*
 * Host memory that runs out under a registry of prefixes: at the first allocation, the second, and
 * so on until the call succeeds. Each time nothing may have changed, nor be left behind.
 */
#include <kv/sys.h>
#include <kv/rcu.h>
#include <kv/registry_radix.h>

#include "radix_util.h"
#include "tests/support/fault.h"

static struct kvmm_registry *reg;

TestSuite(radix_fault, .init = fault_begin, .fini = fault_end);

struct picture {
	struct kvmm_registry_stat stat;
	u64 bytes;
	u64 nr_live;
};

static void take_picture(struct picture *pic)
{
	memset(pic, 0, sizeof(*pic));
	kv_rcu_barrier();
	cr_assert_eq(kv_radix_check(reg), 0);
	kvmm_registry_get_stat(reg, &pic->stat);
	pic->bytes = kv_mem_bytes();
	pic->nr_live = fake.nr_live;
}

/* @call until no allocation fails in it. Returns how many could. */
static u32 expect_all_or_nothing(int (*call)(void *), void *arg)
{
	struct picture before, after;

	for (u32 n = 1;; n++) {
		int err;

		take_picture(&before);
		fake_env_fail(&fake, n, false);
		err = call(arg);
		if (!fake_env_failed(&fake)) {
			fake_env_fail(&fake, 0, false);
			cr_assert_eq(err, 0, "%d", err);
			return n - 1;
		}
		fake_env_fail(&fake, 0, false);
		if (!err)	/* it could do without */
			return n;
		cr_assert_eq(err, -ENOMEM, "allocation %u: %d", n, err);
		take_picture(&after);
		cr_assert_arr_eq(&after, &before, sizeof(after), "allocation %u left a trace", n);
	}
}

Test(radix_fault, a_registry_is_made_as_a_whole_or_not_at_all)
{
	struct kvmm_registry_attr attr = KVMM_REGISTRY_ATTR_INIT;
	u32 n = 1;

	for (;; n++) {
		int err;

		fake_env_fail(&fake, n, false);
		err = kvmm_registry_create(&attr, &reg);
		if (!fake_env_failed(&fake))
			break;
		cr_assert_eq(err, -ENOMEM);
		cr_assert_eq(fake.nr_live, 0, "allocation %u", n);
	}
	fake_env_fail(&fake, 0, false);
	cr_expect_geq(n, 5);
	end_registry(reg);
}

static int present(void *arg)
{
	const struct chain *chain = arg;

	return kvmm_registry_present(reg, 1, &chain->prefix);
}

/* Nodes, records and the table all have to grow for the later ones. */
Test(radix_fault, a_batch_is_registered_as_a_whole_or_not_at_all)
{
	struct chain chain;
	u32 nr = 0;

	reg = make_registry(16, 2, 0);
	for (u32 i = 0; i < 10; i++) {
		chain_fill(&chain, i, MAX_CHAIN);
		nr += expect_all_or_nothing(present, &chain);
		cr_assert_eq(kvmm_registry_len(reg, &chain.prefix, 2), MAX_CHAIN);
	}
	cr_expect_geq(nr, 10);
	expect_sound(reg, 10 * MAX_CHAIN);
	end_registry(reg);
}

struct hold_call {
	struct chain chain;
	kvmm_node_t nodes[MAX_CHAIN];
};

static int hold(void *arg)
{
	struct hold_call *call = arg;

	return kvmm_registry_hold(reg, &call->chain.prefix, call->nodes);
}

Test(radix_fault, a_batch_is_held_as_a_whole_or_not_at_all)
{
	struct hold_call call;

	reg = make_registry(16, 2, 0);
	chain_fill(&call.chain, 1, MAX_CHAIN);
	cr_expect_geq(expect_all_or_nothing(hold, &call), 2);
	cr_assert_eq(kvmm_node_put(reg, call.nodes, MAX_CHAIN), 0);
	expect_sound(reg, 0);
	end_registry(reg);
}

struct attach_call {
	kvmm_node_t node;
	int type;
};

static int attach(void *arg)
{
	struct attach_call *call = arg;

	return kvmm_node_attach(reg, call->node, call->type, KVMM_ATTACH_MULTIPLE, call);
}

Test(radix_fault, a_value_is_attached_or_stays_the_callers)
{
	struct attach_call call;
	struct chain chain;

	reg = make_registry(16, 2, 0);
	chain_fill(&chain, 1, 1);
	call.type = kvmm_attach_type_create(reg, "x", KVMM_ATTACH_MULTIPLE | KVMM_ATTACH_KEEPS,
					    NULL);
	cr_assert_eq(kvmm_registry_hold(reg, &chain.prefix, &call.node), 0);
	cr_expect_eq(expect_all_or_nothing(attach, &call), 1);
	cr_assert_eq(kvmm_node_put(reg, &call.node, 1), 0);
	cr_expect_eq(kvmm_node_detach(reg, call.node, call.type), 1);
	end_registry(reg);
}

/* Tables and slabs of a million nodes are mapped: there may be no memory for that either. */
static u32 nr_left;

static void *map_or_fail(void *ctx, u64 bytes, int node)
{
	return nr_left-- ? kv_sys_system.map_pages(ctx, bytes, node) : NULL;
}

Test(radix_fault, a_large_registry_is_made_as_a_whole_or_not_at_all)
{
	struct kvmm_registry_attr attr = KVMM_REGISTRY_ATTR_INIT;
	struct kv_sys_ops ops = kv_sys_system;
	u32 n = 0;
	int err;

	attr.capacity = 1u << 20;
	ops.map_pages = map_or_fail;
	kv_sys_set(&ops);
	do {
		nr_left = n++;
		err = kvmm_registry_create(&attr, &reg);
		if (err)
			cr_assert(err == -ENOMEM && fake.nr_live == 0, "mapping %u", n);
	} while (err);
	cr_expect_eq(n, 10);
	end_registry(reg);
	kv_sys_set(NULL);
}

/* After the reserve there may be no memory at all. */
Test(radix_fault, what_is_reserved_needs_no_memory)
{
	struct kv_radix_name names[MAX_CHAIN];
	struct kvmm_registry_stat stat;

	reg = make_registry(16, 2, 0);
	/* Nothing in common: each name needs the records of a family and of a position. */
	for (u32 i = 0; i < MAX_CHAIN; i++)
		names[i] = (struct kv_radix_name){
			.key = number_key(i), .parent = number_key(1000 + i), .position = 7 * i + 1,
			.has_parent = true,
		};
	cr_assert_eq(kv_radix_reserve(reg, MAX_CHAIN), 0);
	fake_env_fail(&fake, 1, true);
	kv_radix_present(reg, 0, names, MAX_CHAIN);
	cr_expect_eq(kv_radix_absent(reg, 0, names, MAX_CHAIN / 2), MAX_CHAIN / 2);
	cr_expect_not(fake_env_failed(&fake));
	cr_expect_eq(kv_radix_reserve(reg, 100000), -ENOMEM);
	fake_env_fail(&fake, 0, false);
	kvmm_registry_get_stat(reg, &stat);
	cr_expect_eq(stat.positions, MAX_CHAIN / 2);
	expect_sound(reg, MAX_CHAIN / 2);
	end_registry(reg);
}
