// SPDX-License-Identifier: Apache-2.0
/*
 * A driver whose calls fail with a chance of 1 to 50 %, at once or late, with any code: own main().
 *
 * Each round draws one call or all, a code and a rate, and then copies, moves, fills, sums, loads and
 * compacts. What a call or a fence answered is noted; content that should be there is compared, also
 * with a driver that works again. Rounds go on for KVMM_ATTACK_SECONDS (2); KVMM_SEED repeats a run
 * with one thread up to the moment at which the time is over.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kv/atomic.h>
#include <kv/mem.h>

#include "rates.h"

#define LIBRARY		"./libkvmm-swcuda.so"

struct kcu cu;
const struct kvmm_swcuda_control *ctl;
u64 nr_compared;

static struct {
	const char *name;
	kcu_result code;
	u32 per_mille;
	bool is_async;
	u32 round;
} plan;

static u64 nr_wrong;		/* atomic */

static const char *const all_calls[] = {
#define NAME(field, name, type, version)	#name,
	KCU_ALL(NAME)
};

/* Work can fail late where one of these has queued it. */
static const char *const work_calls[] = {
	"cuLaunchKernel", "cuMemcpyBatchAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpyHtoDAsync_v2",
	"cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuEventRecord", "cuStreamWaitEvent",
};

static const kcu_result all_codes[] = {
#define CODE(name, value, class, err)	value,
	KCU_ERRORS(CODE)
};

u32 below(struct dice *dice, u32 n)
{
	dice->state = dice->state * 6364136223846793005ull + 1442695040888963407ull;
	return (dice->state >> 33) % n;
}

void wrong(const char *fmt, ...)
{
	va_list args;

	kv_fetch_add(&nr_wrong, 1);
	fprintf(stderr, "rates: round %u, %s %s %d, %u in 1000: ", plan.round, plan.name,
		plan.is_async ? "late" : "at once", plan.code, plan.per_mille);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n");
}

void fill_bytes(u8 *buf, u32 bytes, u32 content)
{
	for (u32 i = 0; i < bytes; i++)
		buf[i] = content * 37 + i % 251;
}

bool has_bytes(const u8 *buf, u32 bytes, u32 content)
{
	kv_fetch_add(&nr_compared, 1);
	for (u32 i = 0; i < bytes; i++)
		if (buf[i] != (u8)(content * 37 + i % 251))
			return false;
	return true;
}

/* ---- plans ---- */

/* Every second one of all calls, and of codes that are not fatal: those say least. */
static void draw(struct dice *dice)
{
	static const u32 rates[] = { 10, 30, 70, 150, 280, 500 };

	plan.round++;
	plan.is_async = below(dice, 2);
	plan.per_mille = rates[below(dice, ARRAY_SIZE(rates))];
	if (below(dice, 2))
		plan.name = "*";
	else if (plan.is_async)
		plan.name = work_calls[below(dice, ARRAY_SIZE(work_calls))];
	else
		plan.name = all_calls[below(dice, ARRAY_SIZE(all_calls))];
	do
		plan.code = all_codes[below(dice, ARRAY_SIZE(all_codes))];
	while (!plan.code || (plan.is_async && plan.code == KCU_E_NOT_READY) ||
	       (kcu_class_of(plan.code) == KCU_FATAL && below(dice, 4)));
}

void attack(void)
{
	if (ctl->fail_rate(plan.name, plan.per_mille, plan.code, plan.is_async))
		wrong("it cannot be planned");
}

void relent(void)
{
	ctl->fail_none();
}

/* ---- rounds ---- */

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "rates: %s: %d\n", what, err);
	exit(1);
}

static void round_of(struct dice *dice)
{
	static const char *const options[] = { "mem=32M,va=1G", "mem=32M,va=1G,eager=1",
					       "mem=32M,va=1G,threads=1" };

	must(ctl->reset(options[below(dice, ARRAY_SIZE(options))]), "reset");
	must(cu.init(0), "cuInit");
	draw(dice);
	ctl->set_seed(below(dice, UINT32_MAX));
	if (below(dice, 2))
		copy_scene(dice);
	else
		pool_scene(dice);
	relent();
	if (kv_mem_bytes())
		wrong("%llu bytes of the host are left", (unsigned long long)kv_mem_bytes());
}

static u64 number_from_env(const char *name, u64 value)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : value;
}

int main(void)
{
	u64 seconds = number_from_env("KVMM_ATTACK_SECONDS", 2);
	u64 seed = number_from_env("KVMM_SEED", (u64)time(NULL) * 1000003);
	struct dice dice = { seed };
	struct timespec start, now;
	void *library;

	printf("rates: KVMM_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
	setenv("KVMM_SOFT_DRIVER", LIBRARY, 1);
	library = dlopen(LIBRARY, RTLD_NOW);
	ctl = library ? dlsym(library, "kvmm_swcuda_control") : NULL;
	must(!ctl, LIBRARY);
	must(ctl->reset(""), "reset");
	must(kcu_load(&cu, LIBRARY), "kcu_load");
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		round_of(&dice);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((u64)(now.tv_sec - start.tv_sec) < seconds);
	printf("rates: %u rounds, %llu contents compared, %llu wrong\n", plan.round,
	       (unsigned long long)nr_compared, (unsigned long long)nr_wrong);
	return nr_wrong || !nr_compared;
}
