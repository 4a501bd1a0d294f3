// SPDX-License-Identifier: Apache-2.0
/*
 * The software driver with a thread for each stream, for ThreadSanitizer: own main().
 *
 * Several host threads each run a pipeline over two streams, fill -> copy -> copy to the host,
 * ordered by events, and look at the bytes. All order comes from the driver: if it forgot some,
 * bytes would be wrong, or ThreadSanitizer would see two workers meet.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/kcu.h>

#include "swcuda/control.h"

#define NR_HOSTS	3
#define NR_ROUNDS	400
#define BYTES		50000

static struct kcu cu;
static const struct kvmm_swcuda_control *ctl;
static kcu_context ctx;

/* Ends the program: this is a test, and which call it was is all that matters. */
static void must(kcu_result rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "threads: %s: %d\n", what, rc);
	exit(1);
}

#define MUST(call)	must(cu.call, #call)

struct host {
	pthread_t thread;
	int nr;
	u32 nr_bad;
	kcu_stream one, two;
	kcu_event done, free;
	kcu_deviceptr a, b;
	u8 *pinned;
};

static void one_round(struct host *host, u8 byte)
{
	MUST(stream_wait_event(host->one, host->free, 0));
	MUST(memset_d8_async(host->a, byte, BYTES, host->one));
	MUST(event_record(host->done, host->one));
	MUST(stream_wait_event(host->two, host->done, 0));
	MUST(memcpy_dtod_async(host->b, host->a, BYTES, host->two));
	MUST(event_record(host->free, host->two));
	MUST(memcpy_dtoh_async(host->pinned, host->b, BYTES, host->two));
	MUST(stream_synchronize(host->two));
	for (int i = 0; i < BYTES; i++)
		host->nr_bad += host->pinned[i] != byte;
}

static void *live(void *arg)
{
	struct host *host = arg;

	for (int life = 0; life < 3; life++) {
		MUST(ctx_push_current(ctx));
		MUST(stream_create_with_priority(&host->one, KCU_STREAM_NON_BLOCKING, 0));
		MUST(stream_create_with_priority(&host->two, KCU_STREAM_NON_BLOCKING, 0));
		MUST(event_create(&host->done, KCU_EVENT_DISABLE_TIMING));
		MUST(event_create(&host->free, KCU_EVENT_DISABLE_TIMING));
		MUST(mem_alloc(&host->a, BYTES));
		MUST(mem_alloc(&host->b, BYTES));
		MUST(mem_host_alloc((void **)&host->pinned, BYTES, 0));
		for (int i = 0; i < NR_ROUNDS; i++)
			one_round(host, host->nr + i);
		MUST(stream_synchronize(host->one));
		MUST(mem_free(host->a));
		MUST(mem_free(host->b));
		MUST(mem_free_host(host->pinned));
		MUST(event_destroy(host->done));
		MUST(event_destroy(host->free));
		MUST(stream_destroy(host->one));
		MUST(stream_destroy(host->two));
	}
	return NULL;
}

static int open_driver(void)
{
	void *library;

	setenv("KVMM_SWCUDA", "threads=1", 1);
	library = dlopen("./libkvmm-swcuda.so", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "threads: %s\n", dlerror());
		return 1;
	}
#define FIND(field, name, type, version)	cu.field = (type)dlsym(library, #name);
	KCU_ALL(FIND)
	ctl = dlsym(library, "kvmm_swcuda_control");
	MUST(init(0));
	MUST(primary_ctx_retain(&ctx, 0));
	return 0;
}

static u32 nr_reports(void)
{
	u32 nr = 0;

	for (u32 kind = 0; kind < SW_NR_REPORT_KINDS; kind++)
		nr += ctl->nr_reports(kind);
	for (u32 i = 0; ctl->report(i); i++)
		fprintf(stderr, "threads: %s\n", ctl->report(i));
	return nr;
}

int main(void)
{
	struct host hosts[NR_HOSTS] = { 0 };
	struct sw_counters count;
	u32 nr_bad = 0;

	if (open_driver())
		return 1;
	for (int i = 0; i < NR_HOSTS; i++) {
		hosts[i].nr = i;
		if (pthread_create(&hosts[i].thread, NULL, live, &hosts[i]))
			return 1;
	}
	for (int i = 0; i < NR_HOSTS; i++) {
		pthread_join(hosts[i].thread, NULL);
		nr_bad += hosts[i].nr_bad;
	}
	ctl->counters(&count);
	printf("threads: %llu operations, %u wrong bytes, %u reports\n",
	       (unsigned long long)count.nr_done, nr_bad, nr_reports());
	nr_bad += nr_reports();
	ctl->reset("");
	return nr_bad || !count.nr_done;
}
