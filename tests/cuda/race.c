// SPDX-License-Identifier: Apache-2.0
/*
 * Millions of random operations of an engine whose blocks move for all reasons that there are, under
 * the race checker of the software driver: own main().
 *
 * First with one rule of Documentation/steps.rst broken at a time, by the library (its calls to the driver
 * and what it remembers pass through here) or by the engine: that has to be noticed, or the rule is not
 * needed, or its breach would not be seen. Then with all rules obeyed: no two accesses race, all that is
 * read is what was written, the pool is valid, and nothing is left. Some seeds have a driver whose work
 * begins at once, or goes thread by thread; each has one way to copy, or the cheapest.
 *
 * KVMM_RACE_OPS operations; KVMM_SEED the first seed; KVMM_RACE_RULE looks at that rule only. The
 * library sees a clock that goes with its calls, so that each seed is one run.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kv/env.h>
#include <kv/mem.h>
#include <kv/sys.h>

#include "race.h"
#include "tests/support/length.h"

#define LIBRARY		"./libkvmm-swcuda.so"
#define RUN_OPS		20000u		/* of one seed */
#define CHECK_OPS	256u
#define CATCH_OPS	1000000u	/* a broken rule is noticed in that many, with each seed */
#define NR_SEEDS	(test_is_short() ? 1u : 5u)

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_OPS	100000
#elif !defined(__OPTIMIZE__)
#define DEFAULT_OPS	100000
#else
#define DEFAULT_OPS	1000000
#endif

struct kcu cu;
const struct kvmm_swcuda_control *ctl;
struct world w;

static u64 random_state, now_ns, nr_passed, nr_failed;
static char unexpected[128];

u32 below(u32 n)
{
	u64 x;

	random_state += 0x9e3779b97f4a7c15ull;
	x = (random_state ^ (random_state >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return ((x ^ (x >> 31)) >> 32) * n >> 32;
}

bool one_in(u32 n)
{
	return !below(n);
}

void must(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "race: %s: %d\n", what, rc);
	exit(1);
}

void expect(bool good, const char *what, int ret)
{
	if (good)
		return;
	w.nr_wrong++;
	if (!unexpected[0])
		snprintf(unexpected, sizeof(unexpected), "%s: %d", what, ret);
}

static void tell_result(bool good, const char *what)
{
	nr_passed += good;
	nr_failed += !good;
	if (!good)
		printf("FAILED: %s\n", what);
	fflush(stdout);
}

/* ---- what the library asks of the driver ---- */

static struct {
	KCU_FN(cuStreamWaitEvent, 3020) stream_wait;
	KCU_FN(cuEventQuery, 2000) event_query;
	KCU_FN(cuEventRecord, 2000) event_record;
} real;

/* Events, by where they were recorded last. */
#define NR_EVENTS	4096u

static struct {
	kcu_event event;
	bool of_engine;
} recorded[NR_EVENTS];

static u32 slot_of(kcu_event event)
{
	u32 at = ((uintptr_t)event >> 4) * 0x9e3779b1u % NR_EVENTS;

	while (recorded[at].event && recorded[at].event != event)
		at = (at + 1) % NR_EVENTS;
	return at;
}

static bool is_lane(kcu_stream stream)
{
	for (u32 i = 0; i < NR_LANES; i++)
		if (w.lane[i].stream == stream)
			return true;
	return false;
}

static kcu_result event_record(kcu_event event, kcu_stream stream)
{
	u32 at = slot_of(event);

	recorded[at].event = event;
	recorded[at].of_engine = is_lane(stream);
	return real.event_record(event, stream);
}

static kcu_result stream_wait(kcu_stream stream, kcu_event event, unsigned int flags)
{
	if (w.broken == (is_lane(stream) ? STREAMS_WAIT : COPY_WAITS))
		return KCU_E_SUCCESS;
	return real.stream_wait(stream, event, flags);
}

static kcu_result event_query(kcu_event event)
{
	if (w.broken == (recorded[slot_of(event)].of_engine ? REUSE_WAITS : PUBLISH_WAITS))
		return KCU_E_SUCCESS;
	return real.event_query(event);
}

/* The library's calls only: those of the engine go by the table `cu`. */
static void *find_hooked(void *ctx, void *library, const char *name)
{
	void *found = kv_sys_system.find_symbol(ctx, library, name);

	if (!strcmp(name, "cuStreamWaitEvent")) {
		memcpy(&real.stream_wait, &found, sizeof(found));
		return (void *)stream_wait;
	}
	if (!strcmp(name, "cuEventQuery")) {
		memcpy(&real.event_query, &found, sizeof(found));
		return (void *)event_query;
	}
	if (!strcmp(name, "cuEventRecord")) {
		memcpy(&real.event_record, &found, sizeof(found));
		return (void *)event_record;
	}
	return found;
}

static u64 clock_of_calls(void *ctx)
{
	(void)ctx;
	return now_ns += 20000;
}

static u64 random_of_seed(void *ctx)
{
	(void)ctx;
	return (u64)below(UINT32_MAX) << 32 | below(UINT32_MAX);
}

static void find_driver(void)
{
	static struct kv_env_ops env;
	static struct kv_sys_ops sys;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "race: %s\n", dlerror());
		exit(1);
	}
	setenv("KVMM_SOFT_DRIVER", LIBRARY, 1);
#define FIND(field, name, type, version)	cu.field = (type)dlsym(library, #name);
	KCU_ALL(FIND)
	ctl = dlsym(library, "kvmm_swcuda_control");
	must(!ctl || ctl->bytes != sizeof(*ctl), "the table of the driver");
	sys = kv_sys_system;
	sys.find_symbol = find_hooked;
	kv_sys_set(&sys);
	env = kv_env_system;
	env.clock_ns = clock_of_calls;
	env.random = random_of_seed;
	kv_env_set(&env);
}

/* ---- operations ---- */

static void do_poll(void)
{
	expect(kvmm_compact_poll(w.pool) >= 0, "moves are polled", 0);
}

static void do_device(void)
{
	for (u32 n = below(40); n; n--)
		ctl->step();
}

static void do_look(void)
{
	if (one_in(8))
		check_outs();
}

static const struct {
	const char *name;
	void (*run)(void);
	u32 share;			/* in 100 */
} ops[NR_OPS] = {
	[STEP]		= { "steps", do_step, 30 },
	[THING]		= { "things", do_thing, 22 },
	[PIN]		= { "pins", do_pin, 2 },
	[GRAPH]		= { "graphs", do_graph, 1 },
	[MOVE]		= { "moves", do_move, 13 },
	[DIRECT]	= { "on the spot", do_direct, 1 },
	[ELASTIC]	= { "elastic", do_elastic, 7 },
	[PACE]		= { "paces", do_pace, 1 },
	[SUMS]		= { "sums", do_sums, 2 },
	[TICK]		= { "ticks", do_tick, 2 },
	[POLL]		= { "polls", do_poll, 6 },
	[CANCEL]	= { "cancels", do_cancel, 1 },
	[DEVICE]	= { "device", do_device, 9 },
	[LOOK]		= { "looks", do_look, 3 },
};

static void one_op(void)
{
	u32 dice = below(100), op = 0;

	while (dice >= ops[op].share)
		dice -= ops[op++].share;
	ops[op].run();
	w.nr_ops[op]++;
}

/* What a person would look at first. */
static const char *first_sign(void)
{
	if (ctl->nr_reports(SW_REPORT_RACE))
		return "a race";
	if (ctl->nr_reports(SW_REPORT_IN_USE))
		return "memory in use that goes";
	return w.nr_wrong ? unexpected[0] ? unexpected : "wrong bytes" : NULL;
}

static void begin(u64 seed, enum rule broken)
{
	const char *how = seed % 8 == 7 ? "eager=1" : seed % 32 == 30 ? "slow=1" : "";
	kcu_context ctx;

	memset(&w, 0, sizeof(w));
	memset(recorded, 0, sizeof(recorded));
	unexpected[0] = 0;
	w.broken = broken;
	now_ns = 1000000000;
	random_state = seed * 0x94d049bb133111ebull;
	MUST(ctl->reset(broken == ALL_RULES ? how : ""));
	MUST(cu.init(0));
	MUST(cu.primary_ctx_retain(&ctx, 0));
	MUST(cu.ctx_push_current(ctx));
	ctl->set_seed(seed);
	engine_init();
	ctl->clear_reports();
}

/* With the driver as it is: what was broken may have done anything to the pool. */
static void end(void)
{
	kcu_context ctx;

	if (w.broken == ALL_RULES)
		engine_exit();
	else
		kvmm_pool_destroy(w.pool);
	MUST(cu.ctx_pop_current(&ctx));
	MUST(cu.primary_ctx_release(0));
}

/* Costs of the device are measured once in a process. */
static void calibrate(void)
{
	begin(0, ALL_RULES);
	end();
}

/* ---- all rules ---- */

struct sums {
	struct kvmm_step_stat steps;
	struct kvmm_elastic_stat elastic;
	struct kvmm_pace_stat pace;
	struct kvmm_verify_stat verify;
	u64 nr_ops[NR_OPS];
	u64 nr_started[KVMM_NR_GOALS];
	u64 nr_dropped;
	u64 nr_private_moved;
	u64 nr_runs;
};

static void add_up(struct sums *sums)
{
	struct kvmm_step_stat steps;
	struct kvmm_elastic_stat elastic;
	struct kvmm_pace_stat pace;
	struct kvmm_verify_stat verify;

	MUST(kvmm_step_get_stat(w.pool, &steps));
	MUST(kvmm_elastic_get_stat(w.pool, &elastic));
	MUST(kvmm_pace_get_stat(w.pool, &pace));
	MUST(kvmm_verify_get_stat(w.pool, &verify));
	sums->steps.steps += steps.steps;
	sums->steps.published_blocks += steps.published_blocks;
	sums->steps.void_moves += steps.void_moves;
	sums->steps.cancelled_moves += steps.cancelled_moves;
	sums->elastic.shrunk_bytes += elastic.shrunk_bytes;
	sums->elastic.grown_bytes += elastic.grown_bytes;
	sums->pace.portions += pace.portions;
	sums->pace.denied += pace.denied;
	sums->verify.sums += verify.sums;
	sums->verify.checks += verify.checks;
	for (u32 i = 0; i < NR_OPS; i++)
		sums->nr_ops[i] += w.nr_ops[i];
	for (u32 i = 0; i < KVMM_NR_GOALS; i++)
		sums->nr_started[i] += w.nr_started[i];
	sums->nr_dropped += w.nr_dropped;
	sums->nr_private_moved += w.nr_private_moved;
	sums->nr_runs++;
}

static bool run_one(u64 seed, u64 nr_ops, struct sums *sums)
{
	const char *sign;

	begin(seed, ALL_RULES);
	for (u64 i = 1; i <= nr_ops; i++) {
		one_op();
		if (i % CHECK_OPS)
			continue;
		expect(!kvmm_validate(w.pool), "the pool is valid", i);
		if (first_sign())
			break;
	}
	check_outs();
	add_up(sums);
	sign = first_sign();
	if (!sign)
		end();
	sign = first_sign();
	if (sign)
		printf("seed %llu: %s\n", (unsigned long long)seed, sign);
	for (u32 i = 0; i < 4 && sign && ctl->report(i); i++)
		printf("  %s\n", ctl->report(i));
	return !sign;
}

#define N(x)	((unsigned long long)(x))

static void tell_sums(const struct sums *sums, double cpu_s)
{
	printf("%llu seeds in %.1f s of one core\n", N(sums->nr_runs), cpu_s);
	for (u32 i = 0; i < NR_OPS; i++)
		printf("%s%s %llu", i ? ", " : "  ", ops[i].name, N(sums->nr_ops[i]));
	printf("\n  steps %llu, blocks moved %llu (and %llu private ones seen to), moves void %llu, cancelled %llu\n",
	       N(sums->steps.steps), N(sums->steps.published_blocks),
	       N(sums->nr_private_moved), N(sums->steps.void_moves), N(sums->steps.cancelled_moves));
	printf("  plans with moves:");
	for (u32 i = 0; i < KVMM_NR_GOALS; i++)
		printf(" %s %llu", kvmm_goal_name(i), N(sums->nr_started[i]));
	printf(", blocks dropped for them %llu\n", N(sums->nr_dropped));
	printf("  bytes given back %llu, had again %llu; portions %llu, denied %llu; sums %llu, "
	       "compared %llu\n", N(sums->elastic.shrunk_bytes), N(sums->elastic.grown_bytes),
	       N(sums->pace.portions), N(sums->pace.denied), N(sums->verify.sums),
	       N(sums->verify.checks));
}

static bool has_all(const struct sums *sums)
{
	bool all = sums->steps.void_moves && sums->nr_private_moved && sums->steps.cancelled_moves && sums->nr_dropped &&
		   sums->elastic.shrunk_bytes && sums->elastic.grown_bytes && sums->pace.denied &&
		   sums->verify.checks;

	for (u32 i = 0; i < NR_OPS; i++)
		all &= sums->nr_ops[i] > 0;
	for (u32 i = 0; i < KVMM_NR_GOALS; i++)
		all &= sums->nr_started[i] > 0;
	return all;
}

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void run_all_rules(u64 seed, u64 nr_ops)
{
	double start = cpu_seconds();
	struct sums sums = { 0 };
	bool good = true;

	for (u64 done = 0; done < nr_ops && good; done += RUN_OPS)
		good = run_one(seed++, min(nr_ops - done, (u64)RUN_OPS), &sums);
	tell_sums(&sums, cpu_seconds() - start);
	tell_result(good, "readers never notice");
	tell_result(!good || nr_ops < 10 * RUN_OPS || has_all(&sums), "everything was done");
}

/* ---- all but one ---- */

static const struct {
	u32 number;
	const char *what;
} rules[NR_RULES] = {
	[COPY_WAITS] = { 1, "copies do not wait for the engine's streams" },
	[PUBLISH_WAITS] = { 2, "places are published before the copy has ended" },
	[STREAMS_WAIT] = { 2, "streams do not wait for a copy between steps" },
	[REUSE_WAITS] = { 3, "old places are given away while steps read them" },
	[TABLES_ARE_READ] = { 3, "relocations are acknowledged unread" },
	[WORK_IN_STEPS] = { 3, "work on blocks after the end of its step" },
	[SEALED_IS_SEALED] = { 4, "sealed blocks are written" },
	[NAMED_IS_SEALED] = { 4, "registered blocks are written" },
	[COPIED_IS_KEPT] = { 5, "what is given back under a copy is used at once" },
	[PINNED_STAYS] = { 6, "a move is not void because of a pin" },
	[TOLD_IS_PINNED] = { 6, "an address is given away without a pin" },
	[QUIET_FOR_GRAPHS] = { 10, "blocks move while addresses are captured" },
	[GONE_IS_UNREAD] = { 11, "memory is given back while steps read it" },
};

/* What a child tells its parent. */
static struct {
	u64 nr_ops;
	char sign[128];			/* "": none so far */
} *seen;

static void run_broken(enum rule rule, u64 seed)
{
	const char *sign = NULL;

	while (!sign && seen->nr_ops < CATCH_OPS) {
		begin(seed++ + 1000000, rule);
		for (u32 i = 0; i < RUN_OPS && !sign; i++, seen->nr_ops++) {
			one_op();
			sign = first_sign();
		}
		if (!sign)
			check_outs();
		if (!sign)
			sign = first_sign();
		end();
	}
	snprintf(seen->sign, sizeof(seen->sign), "%s", sign ? sign : "");
}

/*
 * How many operations it took, or 0. In a process of its own: a library that checks itself stops at what
 * cannot be, which is noticed, too.
 */
static u64 run_without(enum rule rule, u64 seed)
{
	pid_t child;
	int status = 0;

	memset(seen, 0, sizeof(*seen));
	fflush(stdout);
	child = fork();
	if (!child) {
		find_driver();
		calibrate();
		run_broken(rule, seed);
		_exit(0);
	}
	must(child < 0 || waitpid(child, &status, 0) != child, "a child");
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGILL)
		strcpy(seen->sign, "an assertion of the library");
	else if (status)
		return 0;
	return seen->sign[0] ? seen->nr_ops : 0;
}

static void expect_needed(enum rule rule, u64 seed)
{
	u64 most = 0, least = UINT64_MAX;
	char first[sizeof(seen->sign)];

	for (u32 i = 0; i < NR_SEEDS; i++) {
		u64 nr = run_without(rule, seed + 1000 * i);

		least = min(least, nr);
		most = max(most, nr);
		if (!i)
			memcpy(first, seen->sign, sizeof(first));
	}
	printf("rule %u broken, %s: ", rules[rule].number, rules[rule].what);
	if (least)
		printf("noticed after %llu to %llu operations of %u seeds (%s)\n", N(least),
		       N(most), NR_SEEDS, first);
	else
		printf("not noticed\n");
	tell_result(least > 0, rules[rule].what);
}

int main(int argc, char **argv)
{
	u64 seed = test_number("KVMM_SEED", 1), only = test_number("KVMM_RACE_RULE", 0);
	u64 nr_ops = test_length("KVMM_RACE_OPS", DEFAULT_OPS);

	(void)argc;
	(void)argv;
	printf("KVMM_SEED=%llu KVMM_RACE_OPS=%llu\n", N(seed), N(nr_ops));
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(seen == MAP_FAILED, "memory for children");
	for (u32 rule = ALL_RULES + 1; rule < NR_RULES; rule++)
		if (!only || only == rule)
			expect_needed(rule, seed);
	find_driver();
	calibrate();
	run_all_rules(seed, nr_ops);
	MUST(ctl->reset(""));
	printf("%llu passed, %llu failed\n", N(nr_passed), N(nr_failed));
	return nr_failed > 0;
}
