// SPDX-License-Identifier: Apache-2.0
/*
 * Forks of a process with two copies of the library, as two extensions of an interpreter bring along,
 * and an engine that brackets forks for liburcu itself, while threads are inside both copies. The process
 * has fork handlers from before it loaded either copy, so these run inside ours, and use both. Exit code
 * 0: no fork and no child hung, each child was refused by what it inherited from its first handler on and
 * could use pools of its own in both copies, and the threads of the parent went on.
 *
 * KVMM_ATTACK_SECONDS: how long (2); KVMM_SEED: what threads do (random). usage: fork_locks [LIBRARY]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kvmm/kvmm.h>

#define NR_COPIES	2u
#define NR_THREADS	4u
#define NR_BLOCKS	1024u
#define NR_KEYS		4u
#define HANG_SECONDS	20u

/* What is asked of each copy. */
#define CALLS(X)								\
	X(kvmm_pool_create) X(kvmm_pool_destroy) X(kvmm_validate)	\
	X(kvmm_alloc_for) X(kvmm_free) X(kvmm_prefix_register) X(kvmm_prefix_find) X(kvmm_put_many)	\
	X(kvmm_range_alloc_attr) X(kvmm_range_free) X(kvmm_forget_cached) X(kvmm_stream_add)		\
	X(kvmm_stream_del) X(kvmm_step_begin) X(kvmm_step_end) X(kvmm_pool_stat_of)			\
	X(kvmm_relocations_next) X(kvmm_compact_poll) X(kvmm_compact_goal_start) X(kvmm_pool_set)		\
	X(kvmm_verify_blocks) X(kvmm_background_tick) X(kvmm_metrics_text)		\
	X(kvmm_slab_cache_create) X(kvmm_slab_cache_destroy) X(kvmm_slab_get_stat_sized)		\
	X(kvmm_slab_alloc)

struct copy {
#define X(call) __typeof__(call) *call;
	CALLS(X)
#undef X
	struct kvmm_pool *pool;
	kvmm_stream_t stream;
};

static struct copy copies[NR_COPIES];
static uint64_t seed;
static uint64_t nr_steps;		/* atomic */
static uint32_t stop;			/* atomic */
static uint32_t nr_bad;			/* atomic */

#define expect(cond)									\
	do {										\
		if (!(cond) && !__atomic_fetch_add(&nr_bad, 1, __ATOMIC_RELAXED))	\
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond);		\
	} while (0)

/* ---- two copies ---- */

/* The loader knows a library by its file: the second copy needs one of its own. */
static void *load_copy(const char *path, uint32_t i)
{
	char name[32];
	struct stat stat;
	int from, to;

	if (!i)
		return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	from = open(path, O_RDONLY | O_CLOEXEC);
	to = memfd_create("kvmm", MFD_CLOEXEC);
	if (from < 0 || to < 0 || fstat(from, &stat) || sendfile(to, from, NULL, stat.st_size) != stat.st_size)
		return NULL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", to);
	close(from);
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static void find_calls(struct copy *copy, void *library)
{
#define X(call) copy->call = (__typeof__(copy->call))dlsym(library, #call); expect(copy->call);
	CALLS(X)
#undef X
}

static struct kvmm_pool *make_pool(struct copy *copy, const char *name)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .name = name, .policy = "lru",
				       .nr_blocks = NR_BLOCKS };
	struct kvmm_pool *pool = NULL;

	return copy->kvmm_pool_create(&attr, &pool) ? NULL : pool;
}

/* An engine that uses liburcu keeps its locks over forks. After us, so its handler goes first. */
static void bracket_forks(void)
{
	void *library = dlopen("liburcu-bp.so.8", RTLD_NOW | RTLD_GLOBAL);

	if (library)
		pthread_atfork((void (*)(void))dlsym(library, "urcu_bp_before_fork"),
			       (void (*)(void))dlsym(library, "urcu_bp_after_fork_parent"),
			       (void (*)(void))dlsym(library, "urcu_bp_after_fork_child"));
	else
		printf("no liburcu-bp.so.8: forks are not bracketed\n");
}

/* ---- what threads do, and children with what is theirs ---- */

static void use_blocks(struct copy *copy, struct kvmm_pool *pool, uint32_t number)
{
	kvmm_key_t keys[NR_KEYS] = { { { 0 } } };
	struct kvmm_prefix prefix = { .keys = keys, .nr = NR_KEYS };
	kvmm_mut_t muts[NR_KEYS];
	kvmm_ref_t refs[NR_KEYS];
	int nr;

	for (uint32_t i = 0; i < NR_KEYS; i++)
		memcpy(keys[i].byte, &(uint32_t){ number % 64 * NR_KEYS + i }, sizeof(uint32_t));
	expect(!copy->kvmm_alloc_for(pool, NR_KEYS, 0, muts));
	if (number % 2)
		expect(!copy->kvmm_free(pool, muts, NR_KEYS));
	else if (!copy->kvmm_prefix_register(pool, &prefix, muts, refs))
		expect(!copy->kvmm_put_many(pool, refs, NR_KEYS));
	nr = copy->kvmm_prefix_find(pool, &prefix, refs, 0);
	expect(nr >= 0);
	expect(nr <= 0 || !copy->kvmm_put_many(pool, refs, nr));
}

static void use_range(struct copy *copy, struct kvmm_pool *pool)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 5 };
	kvmm_range_t range;

	if (!copy->kvmm_range_alloc_attr(pool, &attr, &range))
		expect(!copy->kvmm_range_free(pool, range));
}

static void use_step(struct copy *copy, struct kvmm_pool *pool, kvmm_stream_t stream)
{
	struct kvmm_step_stat stat;
	uint64_t epoch;

	if (!copy->kvmm_step_begin(pool, stream, &epoch))
		copy->kvmm_step_end(pool, stream, epoch);
	copy->kvmm_pool_stat_of(pool, KVMM_STAT_STEP, &stat, sizeof(stat));
	copy->kvmm_compact_poll(pool);
}

static void use_slab(struct copy *copy)
{
	struct kvmm_slab_attr attr = { .size = sizeof(attr), .name = "a", .nr_blocks = 64,
				       .object_bytes = 64, .base_block_bytes = 4096 };
	struct kvmm_slab_cache *cache;
	struct kvmm_slab_stat stat;

	if (copy->kvmm_slab_cache_create(&attr, &cache))
		return;
	expect(!copy->kvmm_slab_get_stat_sized(cache, &stat, sizeof(stat)));
	copy->kvmm_slab_cache_destroy(cache);
}

static void look(struct copy *copy)
{
	struct kvmm_metrics_attr attr = { .size = sizeof(attr), .max_tenants = 64,
					  .pools = &copy->pool, .nr_pools = 1 };
	char text[65536];

	copy->kvmm_metrics_text(&attr, text, sizeof(text));
	attr.what = "slabinfo";
	copy->kvmm_metrics_text(&attr, text, sizeof(text));
}

static void make_another(struct copy *copy)
{
	copy->kvmm_pool_destroy(make_pool(copy, NULL));
}

static void *work(void *arg)
{
	uint64_t number = (uintptr_t)arg, random = seed + number;
	struct copy *copy = &copies[number % NR_COPIES];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		switch (random >> 60) {
		case 0:
			make_another(copy);
			break;
		case 1:
			look(copy);
			break;
		case 2:
			use_slab(copy);
			break;
		case 3:
			copy->kvmm_forget_cached(copy->pool, 0, NULL);
			break;
		case 4 ... 7:
			use_step(copy, copy->pool, copy->stream);
			break;
		case 8 ... 10:
			use_range(copy, copy->pool);
			break;
		default:
			use_blocks(copy, copy->pool, random >> 32);
		}
		__atomic_fetch_add(&nr_steps, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Ends and starts with a full magazine, so that threads are met in their handlers, too. */
static void *live_briefly(void *arg)
{
	struct copy *copy = arg;

	use_blocks(copy, copy->pool, 1);
	return NULL;
}

/* ---- children ---- */

#define refused(call)	expect((call) == -ECHILD)

static void try_parents(struct copy *copy)
{
	struct kvmm_pool *pool = copy->pool;
	struct kvmm_step_stat steps;
	struct kvmm_pace_stat pace;
	struct kvmm_relocation moves[4];
	kvmm_stream_t stream;
	kvmm_mut_t mut = { 0, 1 };
	uint64_t epoch;

	refused(copy->kvmm_alloc_for(pool, 1, 0, &mut));
	refused(copy->kvmm_free(pool, &mut, 1));
	refused(copy->kvmm_stream_add(pool, NULL, 0, &stream));
	refused(copy->kvmm_stream_del(pool, copy->stream));
	refused(copy->kvmm_step_begin(pool, copy->stream, &epoch));
	refused(copy->kvmm_pool_stat_of(pool, KVMM_STAT_STEP, &steps, sizeof(steps)));
	refused(copy->kvmm_pool_stat_of(pool, KVMM_STAT_PACE, &pace, sizeof(pace)));
	refused(copy->kvmm_relocations_next(pool, copy->stream, 0, moves, 4));
	refused(copy->kvmm_compact_poll(pool));
	refused(copy->kvmm_compact_goal_start(pool, NULL, NULL));
	refused(copy->kvmm_pool_set(pool, KVMM_SET_QUIESCENT, &(uint32_t){ 1 }));
	refused(copy->kvmm_verify_blocks(pool, NULL, 0));
	refused(copy->kvmm_validate(pool));
	look(copy);
	copy->kvmm_pool_destroy(pool);
}

static void *be_thread_of_child(void *arg)
{
	struct copy *copy = arg;

	for (uint32_t i = 0; i < 100; i++)
		use_blocks(copy, copy->pool, i);
	return NULL;
}

static void use_own(struct copy *copy)
{
	pthread_t thread;

	copy->pool = make_pool(copy, "inherited");
	expect(copy->pool);
	if (!copy->pool)
		return;
	expect(!pthread_create(&thread, NULL, be_thread_of_child, copy));
	be_thread_of_child(copy);
	use_range(copy, copy->pool);
	use_slab(copy);
	make_another(copy);
	look(copy);
	pthread_join(thread, NULL);
	expect(!copy->kvmm_validate(copy->pool));
	copy->kvmm_pool_destroy(copy->pool);
}

/* ---- handlers that are older than the library ---- */

static struct kvmm_pool *early[NR_COPIES];	/* made in a child before the library's own handler ran */
static bool is_loaded;

static void use_pool_in_handler(struct copy *copy, struct kvmm_pool *pool)
{
	expect(pool);
	for (uint32_t i = 0; pool && i < 8; i++)
		use_blocks(copy, pool, i);
}

static void use_copies(void)
{
	for (uint32_t i = 0; is_loaded && i < NR_COPIES; i++) {
		struct kvmm_pool *pool = make_pool(&copies[i], NULL);

		use_pool_in_handler(&copies[i], pool);
		copies[i].kvmm_pool_destroy(pool);
		use_blocks(&copies[i], copies[i].pool, i);
	}
}

static void handle_in_child(void)
{
	alarm(HANG_SECONDS);
	for (uint32_t i = 0; is_loaded && i < NR_COPIES; i++) {
		try_parents(&copies[i]);
		early[i] = make_pool(&copies[i], "early");
		use_pool_in_handler(&copies[i], early[i]);
	}
}

static void be_child(void)
{
	for (uint32_t i = 0; i < NR_COPIES; i++) {
		try_parents(&copies[i]);
		use_own(&copies[i]);
		use_pool_in_handler(&copies[i], early[i]);
		copies[i].kvmm_pool_destroy(early[i]);
	}
	_exit(!!nr_bad);
}

/* ---- the parent ---- */

/* A fork that hangs does so with all signals blocked: another process ends it. */
static pid_t watch(uint32_t seconds)
{
	pid_t watched = getpid(), dog = fork();

	if (dog)
		return dog;
	sleep(seconds + 2 * HANG_SECONDS);
	fprintf(stderr, "a fork hangs\n");
	kill(watched, SIGKILL);
	_exit(0);
}

static void fork_once(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		be_child();
	expect(pid > 0);
	for (uint32_t i = 0; pid > 0 && !waitpid(pid, &status, WNOHANG); i++) {
		usleep(1000);
		if (i == HANG_SECONDS * 1000) {
			fprintf(stderr, "a child hangs\n");
			kill(pid, SIGKILL);
		}
	}
	expect(!status);
}

static void attack(uint32_t seconds)
{
	time_t until = time(NULL) + seconds;
	pthread_t threads[NR_THREADS], brief;
	uint32_t nr_forks = 0;
	uint64_t before;

	for (uintptr_t i = 0; i < NR_THREADS; i++)
		expect(!pthread_create(&threads[i], NULL, work, (void *)i));
	while (!nr_bad && time(NULL) < until) {
		bool is_there = !pthread_create(&brief, NULL, live_briefly, &copies[nr_forks % NR_COPIES]);

		fork_once();
		nr_forks++;
		if (is_there)
			pthread_join(brief, NULL);
	}
	before = __atomic_load_n(&nr_steps, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < 10000 && __atomic_load_n(&nr_steps, __ATOMIC_RELAXED) == before; i++)
		usleep(1000);
	expect(nr_steps != before);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%u forks, %llu steps, %u bad\n", nr_forks, (unsigned long long)nr_steps, nr_bad);
}

int main(int argc, char **argv)
{
	const char *seconds = getenv("KVMM_ATTACK_SECONDS"), *given = getenv("KVMM_SEED");
	const char *path = argc > 1 ? argv[1] : "./libkvmm.so";
	uint32_t nr_seconds = seconds ? atoi(seconds) : 2;
	pid_t dog;

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) << 20 | getpid();
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	dog = watch(nr_seconds);
	expect(!pthread_atfork(use_copies, use_copies, handle_in_child));
	for (uint32_t i = 0; i < NR_COPIES; i++) {
		void *library = load_copy(path, i);

		if (!library) {
			fprintf(stderr, "%s\n", dlerror());
			nr_bad++;
			break;
		}
		find_calls(&copies[i], library);
		copies[i].pool = make_pool(&copies[i], "inherited");
		expect(copies[i].pool && !copies[i].kvmm_stream_add(copies[i].pool, NULL, 0, &copies[i].stream));
	}
	bracket_forks();
	is_loaded = !nr_bad;
	if (!nr_bad)
		attack(nr_seconds);
	for (uint32_t i = 0; !nr_bad && i < NR_COPIES; i++) {
		expect(!copies[i].kvmm_validate(copies[i].pool));
		copies[i].kvmm_pool_destroy(copies[i].pool);
	}
	kill(dog, SIGKILL);
	return !!nr_bad;
}
