// SPDX-License-Identifier: Apache-2.0
/*
 * Losing the device. Each of these runs in a process of its own, which has no device afterwards.
 */
#include "vmm.h"

/* A kernel reads where nothing is mapped. */
static kcu_result fault(void)
{
	return kernel_copy(device_memory(4096), 0x7f0000000000ull, 4096);
}

static void illegal_address_is_seen_at_the_wait(void)
{
	kcu_result result = fault();

	that(kcu_class_of(result) == KCU_FATAL);
	answers(result, ILLEGAL_ADDRESS);
}

static void alloc_after_the_loss(void)
{
	kcu_deviceptr addr;

	that(fault() == KCU_E_ILLEGAL_ADDRESS);
	answers(cu->mem_alloc(&addr, 4096), ILLEGAL_ADDRESS);
}

static void free_after_the_loss(void)
{
	kcu_deviceptr addr;

	must(cu->mem_alloc(&addr, 4096));
	that(fault() == KCU_E_ILLEGAL_ADDRESS);
	answers(cu->mem_free(addr), ILLEGAL_ADDRESS);
}

static void query_of_another_stream_after_the_loss(void)
{
	kcu_stream other = new_stream();

	that(fault() == KCU_E_ILLEGAL_ADDRESS);
	answers(cu->stream_query(other), ILLEGAL_ADDRESS);
}

static void event_after_the_loss(void)
{
	kcu_event event = new_event(KCU_EVENT_DISABLE_TIMING);

	that(fault() == KCU_E_ILLEGAL_ADDRESS);
	answers(cu->event_query(event), ILLEGAL_ADDRESS);
}

/* What the library relies on when it gives a thread its own context back. */
static void contexts_can_be_popped_after_the_loss(void)
{
	kcu_context ctx = NULL;

	must(cu->ctx_push_current(context));
	that(fault() == KCU_E_ILLEGAL_ADDRESS);
	must(cu->ctx_get_current(&ctx));
	that(ctx == context);
	must(cu->ctx_pop_current(&ctx));
	that(ctx == context);
}

/* Mapped, but without access: a missing mem_set_access() does not go unnoticed. */
static void memory_without_access_is_out_of_reach(void)
{
	size_t bytes = granule();
	kcu_deviceptr addr = reserved(bytes);

	mapped(addr, handle(bytes, 0), bytes);
	answers(kernel_copy(device_memory(4096), addr, 4096), ILLEGAL_ADDRESS);
}

#define CHECK(name)	{ "fatal." #name, name, CHECK_ISOLATED, 0 }
const struct check checks_fatal[] = {
	CHECK(illegal_address_is_seen_at_the_wait),
	CHECK(alloc_after_the_loss),
	CHECK(free_after_the_loss),
	CHECK(query_of_another_stream_after_the_loss),
	CHECK(event_after_the_loss),
	CHECK(contexts_can_be_popped_after_the_loss),
	{ "fatal.memory_without_access_is_out_of_reach", memory_without_access_is_out_of_reach,
	  CHECK_ISOLATED, KCU_F_VMM },
	{ NULL, NULL, 0, 0 },
};
