// SPDX-License-Identifier: Apache-2.0
/* Primary contexts, and the stack of current ones that each thread has. */
#include <pthread.h>

#include "check.h"

static void release(u64 dev)
{
	cu->primary_ctx_release(dev);
}

static void pop(u64 unused)
{
	kcu_context ctx;

	cu->ctx_pop_current(&ctx);
}

static kcu_context current(void)
{
	kcu_context ctx = (kcu_context)8;

	must(cu->ctx_get_current(&ctx));
	return ctx;
}

static void retain_gives_the_one_there_is(void)
{
	kcu_context again = NULL;

	must(cu->primary_ctx_retain(&again, device));
	at_end(release, device);
	that(again == context);
}

static void retain_of_no_device(void)
{
	kcu_context ctx;

	answers(cu->primary_ctx_retain(&ctx, cu->nr_devices), INVALID_DEVICE);
}

static void state_is_active_while_retained(void)
{
	unsigned int flags;
	int active = 0;

	must(cu->primary_ctx_get_state(device, &flags, &active));
	that(active == 1);
}

/* Released as often as retained, and it is still there: the suite has a reference. */
static void release_counts(void)
{
	unsigned int flags;
	kcu_context ctx;
	int active = 0;

	for (int i = 0; i < 3; i++)
		must(cu->primary_ctx_retain(&ctx, device));
	for (int i = 0; i < 3; i++)
		must(cu->primary_ctx_release(device));
	must(cu->primary_ctx_get_state(device, &flags, &active));
	that(active == 1 && ctx == context);
}

/* Ends the process's context, so not in this process. */
static void last_release_makes_it_inactive(void)
{
	unsigned int flags;
	int active = 1;

	must(cu->primary_ctx_release(device));
	must(cu->primary_ctx_get_state(device, &flags, &active));
	that(!active);
}

static void release_without_retain(void)
{
	must(cu->primary_ctx_release(device));
	answers(cu->primary_ctx_release(device), INVALID_CONTEXT);
}

static void push_makes_it_current(void)
{
	kcu_context ctx = NULL;
	kcu_device dev = -1;

	must(cu->ctx_push_current(context));
	at_end(pop, 0);
	that(current() == context);
	must(cu->ctx_get_device(&dev));
	that(dev == device);
	must(cu->ctx_pop_current(&ctx));
	that(ctx == context && current() == context);
	must(cu->ctx_push_current(context));
}

static void pop_uncovers_the_one_below(void)
{
	kcu_context other, popped = NULL;
	kcu_device dev = -1;

	if (cu->nr_devices < 2)
		check_skip("one device");
	must(cu->primary_ctx_retain(&other, 1));
	at_end(release, 1);
	must(cu->ctx_push_current(other));
	must(cu->ctx_get_device(&dev));
	that(dev == 1 && other != context);
	must(cu->ctx_pop_current(&popped));
	that(popped == other && current() == context);
}

/* ---- threads that bring nothing along ---- */

struct answer {
	kcu_result result;
	kcu_context ctx;
	kcu_deviceptr addr;
	kcu_device dev;
};

static void *ask_current(void *arg)
{
	struct answer *answer = arg;

	answer->result = cu->ctx_get_current(&answer->ctx);
	return NULL;
}

static void *ask_pop(void *arg)
{
	struct answer *answer = arg;

	answer->result = cu->ctx_pop_current(&answer->ctx);
	return NULL;
}

static void *ask_device(void *arg)
{
	struct answer *answer = arg;

	answer->result = cu->ctx_get_device(&answer->dev);
	return NULL;
}

static void *ask_memory(void *arg)
{
	struct answer *answer = arg;

	answer->result = cu->mem_alloc(&answer->addr, 4096);
	return NULL;
}

static void *ask_memory_with_context(void *arg)
{
	struct answer *answer = arg;

	answer->result = cu->ctx_push_current(context);
	if (answer->result)
		return NULL;
	answer->result = cu->mem_alloc(&answer->addr, 4096);
	if (!answer->result)
		answer->result = cu->mem_free(answer->addr);
	cu->ctx_pop_current(&answer->ctx);
	return NULL;
}

static struct answer in_thread(void *(*fn)(void *arg))
{
	struct answer answer = { .ctx = (kcu_context)8 };
	pthread_t thread;

	that(!pthread_create(&thread, NULL, fn, &answer));
	pthread_join(thread, NULL);
	return answer;
}

static void new_thread_has_none(void)
{
	struct answer answer = in_thread(ask_current);

	must(answer.result);
	that(!answer.ctx);
}

static void pop_of_nothing(void)
{
	answers(in_thread(ask_pop).result, INVALID_CONTEXT);
}

static void device_without_context(void)
{
	answers(in_thread(ask_device).result, INVALID_CONTEXT);
}

static void memory_without_context(void)
{
	answers(in_thread(ask_memory).result, INVALID_CONTEXT);
}

static void other_thread_may_enter_it(void)
{
	struct answer answer = in_thread(ask_memory_with_context);

	must(answer.result);
	that(answer.ctx == context);
}

#define CHECK(name)	{ "context." #name, name, 0, 0 }
const struct check checks_context[] = {
	CHECK(retain_gives_the_one_there_is),
	CHECK(retain_of_no_device),
	CHECK(state_is_active_while_retained),
	CHECK(release_counts),
	{ "context.last_release_makes_it_inactive", last_release_makes_it_inactive,
	  CHECK_ISOLATED, 0 },
	{ "context.release_without_retain", release_without_retain, CHECK_ISOLATED, 0 },
	CHECK(push_makes_it_current),
	CHECK(pop_uncovers_the_one_below),
	CHECK(new_thread_has_none),
	CHECK(pop_of_nothing),
	CHECK(device_without_context),
	CHECK(memory_without_context),
	CHECK(other_thread_may_enter_it),
	{ NULL, NULL, 0, 0 },
};
