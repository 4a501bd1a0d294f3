// SPDX-License-Identifier: Apache-2.0
/*
 * The protocol between an engine and the mover, a million random operations of it: own main().
 *
 * Four streams read and write blocks with kernels, copies and fills; the host does so through
 * staging memory; blocks come and go, and the copy engine moves them while others read them. All
 * that happens at some time on some stream, and the model knows what each block holds: whoever
 * reads one, a kernel included, compares every byte. Nothing is ordered but by what is asked for
 * here, so the race checker of the software driver judges whether it was enough:
 *
 *	R1 a block that moves is complete: nobody writes it any more
 *	R2 the destination has no reader or writer of its former life left
 *	R3 the mover starts after the last writer of the source
 *	R4 whoever uses the new place starts after the move
 *	R5 the old place is written again after its last reader, which may be the mover
 *
 * Then the same with one rule left out at a time: it must be reported, or it would not be needed,
 * or the checker would not see it. KVMM_PROTOCOL_OPS and KVMM_SEED choose the run.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <kv/mem.h>

#include "protocol.h"
#include "tests/support/length.h"

#define LIBRARY		"./libkvmm-swcuda.so"
#define UNTOUCHED	0x5a		/* between the pieces */

#define NR_SEEDS	8		/* of the runs without a rule ... */
#define CATCH_OPS	3000		/* ... in each of which it is reported by then */
#define ENOUGH_OPS	2000		/* to have had all kinds of them */
#define MAX_CPU_S	60		/* for DEFAULT_OPS, on one core */

#if defined(__SANITIZE_ADDRESS__)
#define DEFAULT_OPS	200000
#elif !defined(__OPTIMIZE__)
#define DEFAULT_OPS	100000
#else
#define DEFAULT_OPS	1000000
#define IS_TIMED
#endif

const struct kv_dev_ops *const ops = &kv_dev_soft;
struct kcu cu;
const struct kvmm_swcuda_control *ctl;
struct world world;

const struct shape shape[NR_PLANES] = {
	{ 0, 256, 320, 0 },
	{ 256, 96, 96, NR_PLACES * 320 },
};

static u64 random_state, nr_passed, nr_failed;

u64 mix(u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

u32 below(u32 n)
{
	random_state += 0x9e3779b97f4a7c15ull;
	return (mix(random_state) >> 32) * n >> 32;
}

void must(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "protocol: %s: %d\n", what, rc);
	exit(1);
}

static void expect(bool good, const char *what)
{
	nr_passed += good;
	nr_failed += !good;
	if (!good)
		printf("FAILED: %s\n", what);
}

/* ---- beginning and end ---- */

static void find_driver(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "protocol: %s\n", dlerror());
		exit(1);
	}
	setenv("KVMM_SOFT_DRIVER", LIBRARY, 1);
#define FIND(field, name, type, version)	cu.field = (type)dlsym(library, #name);
	KCU_ALL(FIND)
	ctl = dlsym(library, "kvmm_swcuda_control");
	must(!ctl || ctl->bytes != sizeof(*ctl), "the table of the driver");
}

/* Costs are measured once in a process, and what that does to the dice depends on the clock. */
static void calibrate(void)
{
	struct kv_dev *dev;

	MUST(ctl->reset(""));
	MUST(ops->open(0, &dev));
	ops->close(dev);
}

static void make_memory(void)
{
	MUST(ops->alloc(world.dev, ARENA_BYTES, &world.arena));
	MUST(ops->fill(world.dev, world.arena, UNTOUCHED, ARENA_BYTES));
	MUST(ops->host_alloc(world.dev, NR_STAGES * BLOCK_BYTES, -1, &world.mem));
	must(!world.mem.is_pinned, "pinned memory");
	for (u32 p = 0; p < NR_PLANES; p++) {
		world.planes[p] = (struct kvmm_plane){ world.arena + shape[p].base, shape[p].stride,
						   shape[p].bytes };
		world.stage_planes[p] = (struct kvmm_plane){ (uintptr_t)stage_at(0, p), BLOCK_BYTES,
							 shape[p].bytes };
	}
}

static void begin(const char *options, u64 seed, u32 dropped)
{
	kcu_context ctx;

	memset(&world, 0, sizeof(world));
	world.dropped = dropped;
	for (u32 i = 0; i < NR_BLOCKS; i++)
		world.block[i] = (struct block){ .place = KV_NONE, .next = KV_NONE };
	MUST(ctl->reset(options));
	MUST(ops->open(0, &world.dev));
	MUST(cu.primary_ctx_retain(&ctx, 0));
	MUST(cu.ctx_push_current(ctx));
	for (u32 i = 0; i < NR_STREAMS; i++)
		MUST(cu.stream_create_with_priority(&world.agent[i].stream,
						    KCU_STREAM_NON_BLOCKING, 0));
	MUST(ctl->add_kernel(&step_kernel));
	MUST(cu.module_load_data_ex(&world.module, step_text(), 0, NULL, NULL));
	MUST(cu.module_get_function(&world.step, world.module, "step"));
	make_memory();
	ctl->clear_reports();
	ctl->set_seed(seed);
	random_state = mix(seed);
	set_path();
}

static void settle(void)
{
	struct needs all;

	for (u32 i = 0; i < NR_AGENTS; i++)
		all.seq[i] = world.agent[i].seq;
	host_waits(&all);
	for (u32 i = 0; i < NR_STAGES; i++)
		reap(i, true);
}

/* All blocks, and what lies between the pieces. */
static void check_arena(void)
{
	u8 *seen = malloc(ARENA_BYTES), *gap;

	MUST(ops->read(world.dev, world.arena, seen, ARENA_BYTES));
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		const struct block *block = &world.block[i];

		for (u32 p = 0; is_live(block) && p < NR_PLANES; p++)
			check_piece(seen + shape[p].base + block->place * shape[p].stride,
				    world.place[block->place].content, p);
	}
	for (u32 i = 0; i < NR_PLACES; i++) {
		gap = seen + i * shape[0].stride + shape[0].bytes;
		for (u32 b = 0; b < shape[0].stride - shape[0].bytes; b++)
			world.nr_wrong += gap[b] != UNTOUCHED;
	}
	free(seen);
}

static void end(void)
{
	kcu_context ctx;

	for (u32 i = 0; i < NR_STREAMS; i++) {
		MUST(cu.stream_synchronize(world.agent[i].stream));
		MUST(cu.stream_destroy(world.agent[i].stream));
	}
	ops->free(world.dev, world.arena, ARENA_BYTES);
	ops->host_free(world.dev, &world.mem);
	MUST(cu.module_unload(world.module));
	MUST(cu.ctx_pop_current(&ctx));
	ops->close(world.dev);
	MUST(cu.primary_ctx_release(0));
}

static u32 nr_reports(void)
{
	u32 nr = 0;

	for (u32 kind = 0; kind < SW_NR_REPORT_KINDS; kind++)
		nr += ctl->nr_reports(kind);
	return nr;
}

static bool nothing_is_left(void)
{
	static const struct sw_live none;
	struct sw_live live;

	ctl->live(&live);
	return !memcmp(&live, &none, sizeof(live)) && !kv_mem_bytes();
}

/* ---- all rules ---- */

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static double run_all_rules(const char *options, u64 seed, u64 nr_ops)
{
	double start = cpu_seconds();
	bool has_all = true;
	struct sw_counters count;

	begin(options, seed, 0);
	for (u64 i = 0; i < nr_ops; i++)
		one_op();
	settle();
	check_arena();
	start = cpu_seconds() - start;
	ctl->counters(&count);
	printf("options \"%s\": %llu operations in %.1f s of one core, %llu queued, %llu waits, "
	       "%llu blocks moved\n", options, (unsigned long long)nr_ops, start,
	       (unsigned long long)count.nr_ops, (unsigned long long)world.nr_stalls,
	       (unsigned long long)world.nr_moved);
	for (u32 i = 0; i < NR_KINDS; i++)
		printf("%s%s %llu", i ? ", " : "  ", kind_name(i), (unsigned long long)world.nr[i]);
	printf("\n");
	for (u32 i = 0; i < 8 && ctl->report(i); i++)
		printf("  %s\n", ctl->report(i));
	for (u32 i = 0; i < NR_KINDS; i++)
		has_all &= world.nr[i] > 0;
	expect(has_all || nr_ops < ENOUGH_OPS, "each kind of operation was done");
	expect(!world.nr_wrong, "all contents are right");
	end();
	expect(!nr_reports(), "the checker has nothing to report");
	expect(nothing_is_left(), "nothing is left behind");
	return start;
}

/* ---- all but one ---- */

/* How many operations it took. */
static u64 run_without(u32 rule, u64 seed)
{
	u64 nr = 0;

	begin("", seed, rule);
	while (nr < CATCH_OPS && !ctl->nr_reports(SW_REPORT_RACE)) {
		one_op();
		nr++;
	}
	if (!ctl->nr_reports(SW_REPORT_RACE))
		nr = UINT64_MAX;
	settle();
	end();
	return nr;
}

static void expect_needed(u32 rule, u64 seed)
{
	u64 most = 0, least = UINT64_MAX;
	char what[64];

	for (u32 i = 0; i < NR_SEEDS; i++) {
		u64 nr = run_without(rule, seed + i);

		most = max(most, nr);
		least = min(least, nr);
	}
	snprintf(what, sizeof(what), "without R%u there is a report", rule);
	expect(most <= CATCH_OPS && world.nr_dropped, what);
	if (most <= CATCH_OPS)
		printf("without R%u: reported after %llu to %llu operations (%u seeds)\n", rule,
		       (unsigned long long)least, (unsigned long long)most, NR_SEEDS);
}

int main(int argc, char **argv)
{
	u64 seed = test_number("KVMM_SEED", 1);
	u64 nr_ops = test_length("KVMM_PROTOCOL_OPS", DEFAULT_OPS);
	double cpu_s;

	printf("KVMM_SEED=%llu KVMM_PROTOCOL_OPS=%llu\n", (unsigned long long)seed,
	       (unsigned long long)nr_ops);
	fflush(stdout);
	find_driver();
	calibrate();
	cpu_s = run_all_rules("", seed, nr_ops - nr_ops / 4);
	cpu_s += run_all_rules("eager=1", seed, nr_ops / 4 - nr_ops / 50);
	cpu_s += run_all_rules("slow=1", seed, nr_ops / 50);
#ifdef IS_TIMED
	expect(nr_ops > DEFAULT_OPS || cpu_s < MAX_CPU_S, "it is quick");
#endif
	for (u32 rule = R2; rule <= R5; rule++)
		expect_needed(rule, seed);
	MUST(ctl->reset(""));
	printf("%.1f s of one core for %llu operations\n", cpu_s, (unsigned long long)nr_ops);
	printf("%llu passed, %llu failed\n", (unsigned long long)nr_passed,
	       (unsigned long long)nr_failed);
	return nr_failed > 0;
}
