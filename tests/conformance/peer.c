// SPDX-License-Identifier: Apache-2.0
/* Two devices; with one, what can be said of a device and itself. */
#include "check.h"

#define BYTES	(1u << 20)

static void release(u64 dev)
{
	cu->primary_ctx_release(dev);
}

static kcu_context other_context(void)
{
	kcu_context ctx;

	if (cu->nr_devices < 2)
		check_skip("one device");
	must(cu->primary_ctx_retain(&ctx, 1));
	at_end(release, 1);
	return ctx;
}

static bool can_reach(kcu_device from, kcu_device to)
{
	int can = -1;

	must(cu->device_can_access_peer(&can, from, to));
	that(can == 0 || can == 1);
	return can;
}

static void device_is_not_its_own_peer(void)
{
	that(!can_reach(device, device));
}

static void peer_that_there_is_not(void)
{
	int can;

	answers(cu->device_can_access_peer(&can, device, cu->nr_devices), INVALID_DEVICE);
}

static void attribute_agrees_with_access(void)
{
	int value = -1;

	other_context();
	must(cu->device_get_p2p_attribute(&value, KCU_P2P_ACCESS, device, 1));
	that(value == can_reach(device, 1));
}

static void attribute_of_a_device_and_itself(void)
{
	int value;

	answers(cu->device_get_p2p_attribute(&value, KCU_P2P_ACCESS, device, device),
		INVALID_DEVICE);
}

static void copy_within_one_context(void)
{
	kcu_deviceptr src = device_memory(BYTES), dst = device_memory(BYTES);
	kcu_stream stream = new_stream();

	put_pattern(src, BYTES, 1);
	put_byte(dst, BYTES, 0);
	must(cu->memcpy_peer_async(dst, context, src, context, BYTES, stream));
	must(cu->stream_synchronize(stream));
	that(has_pattern(dst, BYTES, 1));
}

static kcu_deviceptr memory_of(kcu_context ctx)
{
	kcu_deviceptr addr;
	kcu_context popped;
	kcu_result result;

	must(cu->ctx_push_current(ctx));
	result = cu->mem_alloc(&addr, BYTES);
	must(cu->ctx_pop_current(&popped));
	must(result);
	return addr;
}

/* There and back, with or without a link between the two. */
static void copy_to_another_device(void)
{
	kcu_context other = other_context();
	kcu_deviceptr src = device_memory(BYTES), dst = device_memory(BYTES);
	kcu_deviceptr there = memory_of(other);
	kcu_stream stream = new_stream();
	kcu_result result;
	kcu_context popped;

	put_pattern(src, BYTES, 2);
	put_byte(dst, BYTES, 0);
	result = cu->memcpy_peer_async(there, other, src, context, BYTES, stream);
	if (!result)
		result = cu->memcpy_peer_async(dst, context, there, other, BYTES, stream);
	if (!result)
		result = cu->stream_synchronize(stream);
	cu->ctx_push_current(other);
	cu->mem_free(there);
	cu->ctx_pop_current(&popped);
	must(result);
	that(has_pattern(dst, BYTES, 2));
}

static void enable_twice(void)
{
	kcu_context other = other_context();

	if (!can_reach(device, 1))
		check_skip("the devices do not reach each other");
	must(cu->ctx_enable_peer_access(other, 0));
	answers(cu->ctx_enable_peer_access(other, 0), PEER_ACCESS_ALREADY_ENABLED);
}

static void enable_for_itself(void)
{
	answers(cu->ctx_enable_peer_access(context, 0), INVALID_CONTEXT);
}

#define CHECK(name)	{ "peer." #name, name, 0, KCU_F_PEER }
const struct check checks_peer[] = {
	CHECK(device_is_not_its_own_peer),
	CHECK(peer_that_there_is_not),
	CHECK(attribute_agrees_with_access),
	CHECK(attribute_of_a_device_and_itself),
	CHECK(copy_within_one_context),
	CHECK(copy_to_another_device),
	{ "peer.enable_twice", enable_twice, CHECK_ISOLATED, KCU_F_PEER },
	CHECK(enable_for_itself),
	{ NULL, NULL, 0, 0 },
};
