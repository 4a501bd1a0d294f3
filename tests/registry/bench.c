// SPDX-License-Identifier: Apache-2.0
/*
 * How long the maps take: nanoseconds a block, the flat one against liburcu's in the same runs.
 *
 * usage: registry_bench [--json] [--runs N] [match length mt register churn]...
 *
 * Entries are given to keys in random order, and each prompt has keys of its own, so a prompt's
 * blocks lie all over the table. Prompts are asked for in random order, each once: where the table
 * is larger than the caches, both lines of every block come from memory.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <kv/env.h>
#include <kv/hash.h>
#include <kv/mem.h>
#include <kv/rcu.h>
#include <kv/registry_map.h>

#include "research/research.h"

#define MAX_RUNS	9u
#define MAX_PROMPT	1024u
#define NR_MAPS		ARRAY_SIZE(maps)

static const struct kv_map_ops *const maps[] = { &kv_map_flat, &kv_map_lfht };
static const kvmm_domain_t domain = { .tenant = 1 };

/* ---- output ---- */

static u32 nr_runs = 5;
static bool json;

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *value)
{
	qsort(value, nr_runs, sizeof(*value), compare);
	return value[nr_runs / 2];
}

struct row {
	const char *bench;
	const char *params;
	const char *metric;
	const char *unit;
	double *value;
	double *ref;		/* NULL = none */
	const char *ref_name;
};

static void print_params(const char *params)
{
	char copy[128], *pair, *rest = copy;

	snprintf(copy, sizeof(copy), "%s", params);
	printf("{");
	while ((pair = strsep(&rest, " "))) {
		char *value = strchr(pair, '=');

		*value++ = 0;
		printf("\"%s\": \"%s\"%s", pair, value, rest ? ", " : "");
	}
	printf("}");
}

static void print_row(const struct row *row)
{
	double value = median(row->value), ref = row->ref ? median(row->ref) : 0;
	double spread = (row->value[nr_runs - 1] - row->value[0]) / value;

	if (!json) {
		printf("%-18s %-34s %-12s %9.2f %-6s", row->bench, row->params, row->metric, value,
		       row->unit);
		if (row->ref)
			printf(" %s %9.2f ratio %.3f", row->ref_name, ref, value / ref);
		printf(" spread %.2f\n", spread);
		return;
	}
	printf("{\"bench\": \"%s\", \"params\": ", row->bench);
	print_params(row->params);
	printf(", \"metric\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", ", row->metric, value,
	       row->unit);
	if (row->ref)
		printf("\"ref\": \"%s\", \"ref_value\": %.6g, \"ratio\": %.4g, ", row->ref_name, ref,
		       value / ref);
	else
		printf("\"ref\": null, \"ref_value\": null, \"ratio\": null, ");
	printf("\"runs\": %u, \"spread\": %.3g}\n", nr_runs, spread);
}

/* ---- a full map ---- */

static u64 seed = 88172645463325252ull;

static u64 random_next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void shuffle(u32 *order, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		order[i] = i;
	for (u32 i = nr; i > 1; i--) {
		u32 j = random_next() % i, swap = order[i - 1];

		order[i - 1] = order[j];
		order[j] = swap;
	}
}

static void *must(void *ptr)
{
	if (!ptr)
		exit(EXIT_FAILURE);
	return ptr;
}

struct world {
	struct kv_entries entries;
	struct kv_map *map;
	kvmm_key_t *key;
	struct kv_handle *handle;	/* by number of the key */
	u32 nr;
};

static kvmm_key_t key_of(u64 number)
{
	u64 word[2] = { kv_mul_fold(number + 1, 0x9e3779b97f4a7c15ull), number };
	kvmm_key_t key;

	memcpy(&key, word, sizeof(key));
	return key;
}

/* Private blocks for the keys, in random order. */
static void world_take(struct world *world)
{
	struct kv_handle *all = must(malloc(world->nr * sizeof(*all)));
	u32 *order = must(malloc(world->nr * sizeof(*order)));

	shuffle(order, world->nr);
	if (kv_entries_take(&world->entries, world->nr, all))
		exit(EXIT_FAILURE);
	for (u32 i = 0; i < world->nr; i++) {
		world->handle[i] = all[order[i]];
		world->key[i] = key_of(i);
	}
	free(order);
	free(all);
}

static void world_make(struct world *world, const struct kv_map_ops *ops, u32 nr)
{
	struct kv_entries_attr attr = { .nr = nr };
	struct kv_map_attr map_attr = { &world->entries, nr, 0x1234567, true };

	*world = (struct world){
		.key	= must(calloc(nr, sizeof(*world->key))),
		.handle	= must(calloc(nr, sizeof(*world->handle))),
		.nr	= nr,
	};
	if (kv_entries_init(&world->entries, &attr) || ops->create(&map_attr, &world->map))
		exit(EXIT_FAILURE);
	world_take(world);
}

static void world_stage(struct world *world, u32 first, u32 nr)
{
	for (u32 i = first; i < first + nr; i++)
		kv_handle_prefetch(&world->entries, world->handle[i]);
	for (u32 i = first; i < first + nr; i++) {
		struct kv_name name = { .key = world->key[i], .domain = domain, .parent = KV_NONE };

		if (kv_entry_stage(&world->entries, world->handle[i], &name, false))
			exit(EXIT_FAILURE);
	}
}

/* Private blocks. */
static void world_register(struct world *world, u32 first, u32 nr)
{
	struct kv_handle found[64];

	for (u32 i = first; i < first + nr; i += 64) {
		struct kv_insert insert = {
			.handles = &world->handle[i], .nr = min(64u, first + nr - i),
			.found = found,
		};

		world_stage(world, i, insert.nr);
		if (world->map->ops->insert(world->map, &insert))
			exit(EXIT_FAILURE);
	}
}

static void world_end(struct world *world)
{
	world->map->ops->destroy(world->map);
	kv_entries_exit(&world->entries);
	free(world->handle);
	free(world->key);
}

/* ---- match, length ---- */

/* What this thread has had of its core: others may use it as well. Slow to read, so in batches. */
static u64 cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void put_all(struct world *world, const struct kv_handle *refs, u32 nr, u32 batch)
{
	static __thread struct kv_handle last[MAX_PROMPT];

	for (u32 i = 0; i < nr; i += batch) {
		struct kv_put put = { .refs = &refs[i], .nr = min(nr - i, batch), .last = last };

		if (kv_entries_put(&world->entries, &put))
			exit(EXIT_FAILURE);
	}
}

/* A batch is about so many blocks. */
#define BATCH_BLOCKS	8192u

struct match_time {
	u64 match_ns;
	u64 put_ns;
	u32 blocks;
};

/*
 * Prompts of @len blocks in random order, @nr_blocks in all: of a small map each of them many times,
 * in the same order.
 */
static struct match_time match_and_put(struct world *world, u32 len, u32 nr_blocks)
{
	u32 nr_prompts = world->nr / len, batch = BATCH_BLOCKS / len, nr_first, hits = 0;
	u32 nr = nr_blocks / len / batch * batch;
	u32 *order = must(malloc(nr_prompts * sizeof(*order)));
	static struct kv_handle refs[BATCH_BLOCKS];
	struct match_time time = { .blocks = nr * len };

	shuffle(order, nr_prompts);
	for (u32 i = 0; i < nr; i += batch) {
		u64 start = cpu_ns(), middle;

		for (u32 j = 0; j < batch; j++) {
			u32 prompt = order[(i + j) % nr_prompts];
			struct kv_query query = { &world->key[prompt * len], len, domain };

			hits += world->map->ops->match(world->map, &query, &refs[j * len],
						       &nr_first);
		}
		middle = cpu_ns();
		put_all(world, refs, batch * len, len);
		time.match_ns += middle - start;
		time.put_ns += cpu_ns() - middle;
	}
	free(order);
	if (hits != time.blocks)
		exit(EXIT_FAILURE);
	return time;
}

/* Nanoseconds a block. */
static double match_ns(struct world *world, u32 len, u32 nr_blocks)
{
	struct match_time time = match_and_put(world, len, nr_blocks);

	return (double)time.match_ns / time.blocks;
}

/* The same of putting what was just matched, a prompt at once. */
static double put_ns(struct world *world, u32 len, u32 nr_blocks)
{
	struct match_time time = match_and_put(world, len, nr_blocks);

	return (double)time.put_ns / time.blocks;
}

/* What no match can be without: one load and one compare-and-swap of each entry, nothing else. */
static double swap_ns(struct world *world, u32 len, u32 nr_blocks)
{
	u64 start = cpu_ns();
	u32 hits = 0;

	for (u32 i = 0; i < nr_blocks; i++) {
		u64 *word = &world->entries.entry[world->handle[i % world->nr].index].word;
		u64 old = READ_ONCE(*word);

		hits += kv_cas(word, &old, old);
	}
	if (hits != nr_blocks)
		exit(EXIT_FAILURE);
	return (double)(cpu_ns() - start) / nr_blocks;
}

/* Microseconds a query. */
static double length_us(struct world *world, u32 len, u32 nr_blocks)
{
	u32 nr_prompts = world->nr / len, nr = min(nr_prompts, nr_blocks / len), sum = 0;
	u32 *order = must(malloc(nr_prompts * sizeof(*order)));
	u64 start, ns;

	shuffle(order, nr_prompts);
	start = cpu_ns();
	for (u32 i = 0; i < nr; i++) {
		struct kv_query query = { &world->key[order[i] * len], len, domain };

		sum += world->map->ops->length(world->map, &query);
	}
	ns = cpu_ns() - start;
	free(order);
	if (sum != nr * len)
		exit(EXIT_FAILURE);
	return (double)ns / nr / 1000;
}

struct shape {
	u32 nr;
	u32 len;
	u32 nr_blocks;
};

static void run_shape(const char *name, const char *unit, struct shape shape,
		      double (*measure)(struct world *, u32, u32), struct world *worlds)
{
	double value[NR_MAPS][MAX_RUNS];
	char params[64];

	/* Once for nothing: memory, caches, clock. */
	for (u32 m = 0; m < NR_MAPS; m++)
		measure(&worlds[m], shape.len, shape.nr_blocks);
	for (u32 run = 0; run < nr_runs; run++)
		for (u32 m = 0; m < NR_MAPS; m++)
			value[m][run] = measure(&worlds[m], shape.len, shape.nr_blocks);
	snprintf(params, sizeof(params), "map=flat entries=%u blocks=%u", shape.nr, shape.len);
	print_row(&(struct row){ name, params, "time", unit, value[0], value[1], "lfht" });
}

/* One pair of full maps of this size after the other: they would share the caches. */
static void run_sized(u32 nr, const u32 *lens, u32 nr_lens, bool lengths)
{
	struct world worlds[NR_MAPS];

	for (u32 m = 0; m < NR_MAPS; m++) {
		world_make(&worlds[m], maps[m], nr);
		world_register(&worlds[m], 0, nr);
		for (u32 i = 0; i < nr; i++)
			kv_entry_put(&worlds[m].entries, worlds[m].handle[i]);
	}
	for (u32 l = 0; l < nr_lens; l++) {
		struct shape shape = { nr, lens[l], lengths ? 2000000 : 1000000 };

		if (!lengths && !l)
			run_shape("registry-swap", "ns", shape, swap_ns, worlds);
		if (lengths)
			run_shape("registry-length", "us", shape, length_us, worlds);
		else
			run_shape("registry-match", "ns", shape, match_ns, worlds);
		if (nr <= 100u << 10)
			run_shape("registry-put", "ns", shape, put_ns, worlds);
	}
	for (u32 m = 0; m < NR_MAPS; m++)
		world_end(&worlds[m]);
}

static void bench_match(void)
{
	static const u32 large[] = { 8, 64, 1024 }, small[] = { 85 };

	run_sized(4u << 20, large, ARRAY_SIZE(large), false);
	run_sized(1u << 20, large, ARRAY_SIZE(large), false);
	run_sized(100u << 10, small, ARRAY_SIZE(small), false);
}

static void bench_length(void)
{
	static const u32 lens[] = { 64, 1024 };

	run_sized(4u << 20, lens, ARRAY_SIZE(lens), true);
}

/* ---- threads ---- */

#define MT_NS		300000000ull
#define MT_PROMPT	64u

struct reader {
	struct world *world;
	u32 cpu;
	u64 state;
	u64 blocks;
	u64 ns;
};

static u32 stop;	/* atomic */

static u32 reader_random(struct reader *reader, u32 limit)
{
	reader->state = reader->state * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(((reader->state >> 32) * limit) >> 32);
}

static void pin_to(u32 cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *read_prompts(void *arg)
{
	struct reader *reader = arg;
	struct world *world = reader->world;
	struct kv_handle refs[MT_PROMPT];
	u64 start;
	u32 nr_first;

	pin_to(reader->cpu);
	start = cpu_ns();
	while (!READ_ONCE(stop)) {
		u32 prompt = reader_random(reader, world->nr / MT_PROMPT / 2);
		struct kv_query query = { &world->key[prompt * MT_PROMPT], MT_PROMPT, domain };
		u32 hits = world->map->ops->match(world->map, &query, refs, &nr_first);

		put_all(world, refs, hits, MT_PROMPT);
		reader->blocks += hits;
	}
	reader->ns = cpu_ns() - start;
	return NULL;
}

/* Takes blocks of the upper half out and puts them in again, as fast as it can. */
static void *churn(void *arg)
{
	struct reader *reader = arg;
	struct world *world = reader->world;

	pin_to(reader->cpu);
	while (!READ_ONCE(stop)) {
		u32 i = world->nr / 2 + reader_random(reader, world->nr / 2), nr = 1;
		struct kv_handle *handle = &world->handle[i];

		if (kv_entry_claim(&world->entries, *handle) ||
		    world->map->ops->remove(world->map, handle, &nr) ||
		    kv_entry_recycle(&world->entries, *handle, handle))
			exit(EXIT_FAILURE);
		world_register(world, i, 1);
		kv_entry_put(&world->entries, *handle);
		reader->blocks++;
	}
	return NULL;
}

/* Blocks a second of all readers together, in millions. */
static double run_threads(struct world *world, u32 nr_readers, bool with_churn)
{
	struct reader reader[3] = { 0 };
	pthread_t thread[3];
	double sum = 0;
	u32 nr = nr_readers + with_churn;

	WRITE_ONCE(stop, 0);
	for (u32 i = 0; i < nr; i++) {
		reader[i] = (struct reader){ .world = world, .cpu = i, .state = i + 1 };
		if (pthread_create(&thread[i], NULL, i < nr_readers ? read_prompts : churn,
				   &reader[i]))
			exit(EXIT_FAILURE);
	}
	for (u64 end = kv_clock_ns() + MT_NS; kv_clock_ns() < end;)
		sched_yield();
	WRITE_ONCE(stop, 1);
	for (u32 i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
	for (u32 i = 0; i < nr_readers; i++)
		sum += reader[i].blocks * 1e3 / reader[i].ns;
	return sum;
}

static void bench_mt(void)
{
	double one[MAX_RUNS], two[MAX_RUNS], churned[MAX_RUNS];
	struct world world;

	world_make(&world, &kv_map_flat, 1u << 20);
	world_register(&world, 0, world.nr);
	for (u32 i = 0; i < world.nr; i++)
		kv_entry_put(&world.entries, world.handle[i]);
	for (u32 run = 0; run < nr_runs; run++) {
		one[run] = run_threads(&world, 1, false);
		two[run] = run_threads(&world, 2, false);
		churned[run] = run_threads(&world, 1, true);
	}
	print_row(&(struct row){ "registry-mt", "map=flat entries=1048576 readers=2", "throughput",
				 "M/s", two, one, "one reader" });
	print_row(&(struct row){ "registry-mt", "map=flat entries=1048576 writer=1", "throughput",
				 "M/s", churned, one, "no writer" });
	world_end(&world);
}

/* ---- register, put ---- */

struct register_time {
	double insert_ns;
	double put_ns[2];	/* in batches of 64, of 1024 */
};

static double put_cold_ns(struct world *world, u32 first, u32 nr, u32 batch)
{
	u64 start = cpu_ns();

	put_all(world, world->handle + first, nr, batch);
	return (double)(cpu_ns() - start) / nr;
}

static struct register_time register_ns(const struct kv_map_ops *ops, u32 nr)
{
	struct register_time time;
	struct world world;
	u64 start, ns;

	world_make(&world, ops, nr);
	world_register(&world, 0, nr / 4);
	start = cpu_ns();
	world_register(&world, nr / 4, nr - nr / 4);
	ns = cpu_ns() - start;
	time.insert_ns = (double)ns / (nr - nr / 4);
	time.put_ns[0] = put_cold_ns(&world, 0, nr / 2, 64);
	time.put_ns[1] = put_cold_ns(&world, nr / 2, nr / 2, MAX_PROMPT);
	world_end(&world);
	return time;
}

static void bench_register(void)
{
	double value[NR_MAPS][MAX_RUNS], put[2][MAX_RUNS];

	for (u32 run = 0; run < nr_runs; run++) {
		for (u32 m = 0; m < NR_MAPS; m++) {
			struct register_time time = register_ns(maps[m], 1u << 20);

			value[m][run] = time.insert_ns;
			for (u32 i = 0; i < 2; i++)
				put[i][run] = time.put_ns[i];
		}
	}
	print_row(&(struct row){ "registry-register", "map=flat entries=1048576 batch=64", "time",
				 "ns", value[0], value[1], "lfht" });
	print_row(&(struct row){ "registry-put", "entries=1048576 batch=64", "time", "ns",
				 put[0], NULL, NULL });
	print_row(&(struct row){ "registry-put", "entries=1048576 batch=1024", "time", "ns",
				 put[1], NULL, NULL });
}

static const struct {
	const char *name;
	void (*run)(void);
} benches[] = {
	{ "match", bench_match }, { "length", bench_length }, { "mt", bench_mt },
	{ "register", bench_register },
};

static bool wanted(int argc, char **argv, const char *name)
{
	bool named = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], name))
			return true;
		named |= argv[i][0] >= 'a';
	}
	return !named;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		json |= !strcmp(argv[i], "--json");
		if (!strcmp(argv[i], "--runs") && i + 1 < argc)
			nr_runs = min((u32)max(atoi(argv[i + 1]), 1), MAX_RUNS);
	}
	pin_to(0);
	for (u32 b = 0; b < ARRAY_SIZE(benches); b++)
		if (wanted(argc, argv, benches[b].name))
			benches[b].run();
	return 0;
}
