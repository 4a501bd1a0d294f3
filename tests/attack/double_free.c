// SPDX-License-Identifier: Apache-2.0
/*
 * Pairs of threads that do the same thing to one handle at one moment. Exit code 0: of each pair at
 * most one was told 0, the pool still holds together, and the pool beside it noticed nothing.
 *
 * KVMM_ATTACK_SECONDS: how long (2); KVMM_SEED: which pairs, in which order (random).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <kv/pool.h>
#include <kvmm/kvmm.h>

#define NR_BLOCKS	1024u
#define MAX_BATCH	8u
#define GRACE_SECONDS	60u

enum deed { FREE_ONE, FREE_BATCH, REGISTER, STAGE, FREE_STAGED, PUBLISH, FREE_RANGE, NR_DEEDS };

/* What both threads do in this round; written by the first one between two barriers. */
static struct {
	enum deed deed[2];
	uint32_t nr;
	uint32_t number;		/* of the keys */
	uint32_t late[2];		/* turns of a loop: the last to arrive would always be first */
	kvmm_mut_t mut[MAX_BATCH];
	kvmm_staged_t staged;
	kvmm_range_t range;
	bool over;
} round_of;

static struct kvmm_pool *pool, *beside;
static uint32_t nr_arrived;		/* atomic */
static unsigned long nr_rounds, nr_bad;

#define expect(cond)									\
	do {										\
		if (!(cond) && !nr_bad++)						\
			fprintf(stderr, "line %d: %s (round %lu)\n", __LINE__, #cond, nr_rounds); \
	} while (0)

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static kvmm_key_t key_of(uint32_t number)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte, &number, sizeof(number));
	return key;
}

static struct kvmm_pool *make_pool(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };
	struct kvmm_pool *made = NULL;

	return kvmm_pool_create(&attr, &made) ? NULL : made;
}

static void destroy_pool(struct kvmm_pool *of)
{
	expect(!kvmm_validate(of));
	alarm(GRACE_SECONDS);		/* a list without an end */
	kvmm_pool_destroy(of);
	alarm(0);
}

/* The two leave within nanoseconds of each other, if both have a core. */
static void meet(void)
{
	uint32_t end = (__atomic_fetch_add(&nr_arrived, 1, __ATOMIC_ACQ_REL) | 1) + 1;

	for (uint32_t i = 1; __atomic_load_n(&nr_arrived, __ATOMIC_ACQUIRE) - end > UINT32_MAX / 2; i++)
		if (i % 1024 == 0)
			sched_yield();
}

static void be_late(uint32_t turns)
{
	while (turns--)
		__asm__ volatile("");
}

/* By one of the two threads. A block that got a name is given back at once: it stays cached. */
static int do_deed(enum deed deed, uint32_t who)
{
	kvmm_key_t key = key_of(round_of.number + who);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_staged_t staged = round_of.staged;
	kvmm_ref_t ref;
	struct kvmm_publish_args publish = { .staged = &staged, .nr = 1, .refs = &ref };
	int err = -EINVAL;

	switch (deed) {
	case FREE_ONE:
		return kvmm_free(pool, round_of.mut, 1);
	case FREE_BATCH:
		return kvmm_free(pool, round_of.mut, round_of.nr);
	case STAGE:
		err = kvmm_stage(pool, &prefix, round_of.mut, &staged);
		return err ? err : kv_free_staged(pool, &staged, 1);
	case FREE_STAGED:
		return kv_free_staged(pool, &staged, 1);
	case FREE_RANGE:
		return kvmm_range_free(pool, round_of.range);
	case REGISTER:
		err = kvmm_register(pool, round_of.mut, &key, 1, &ref);
		break;
	case PUBLISH:
		err = kvmm_publish(pool, &publish);
		break;
	case NR_DEEDS:
		break;
	}
	return err ? err : kvmm_put_many(pool, &ref, 1);
}

static void *be_other(void *arg)
{
	int *err = arg;

	for (;;) {
		meet();
		if (round_of.over)
			return NULL;
		be_late(round_of.late[1]);
		*err = do_deed(round_of.deed[1], 1);
		meet();
	}
}

/* Deeds of one group can be done to one handle. */
static void choose_deeds(uint64_t *random)
{
	static const enum deed of_private[] = { FREE_ONE, FREE_ONE, FREE_BATCH, REGISTER, STAGE };
	static const enum deed of_staged[] = { FREE_STAGED, PUBLISH };
	uint64_t what = next_random(random) % 8;

	round_of.late[0] = next_random(random) % 256;
	round_of.late[1] = next_random(random) % 256;
	for (int i = 0; i < 2; i++)
		round_of.deed[i] = what == 0 ? FREE_RANGE :
				   what == 1 ? of_staged[next_random(random) % 2] :
					       of_private[next_random(random) % 5];
	round_of.nr = 1 + next_random(random) % MAX_BATCH;
	if (round_of.deed[0] != FREE_BATCH || round_of.deed[1] != FREE_BATCH)
		round_of.nr = 1;
	round_of.number += 2;
}

static int make_victim(void)
{
	kvmm_key_t key = key_of(round_of.number);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	kvmm_mut_t mut;
	int err;

	if (round_of.deed[0] == FREE_RANGE)
		return kvmm_range_alloc(pool, 3, 0, &round_of.range);
	if (round_of.deed[0] != FREE_STAGED && round_of.deed[0] != PUBLISH)
		return kvmm_alloc(pool, round_of.nr, round_of.mut);
	err = kvmm_alloc(pool, 1, &mut);
	return err ? err : kvmm_stage(pool, &prefix, &mut, &round_of.staged);
}

static void attack_once(uint64_t *random, const int *theirs)
{
	int mine, refused;

	choose_deeds(random);
	expect(!make_victim());
	meet();
	be_late(round_of.late[0]);
	mine = do_deed(round_of.deed[0], 0);
	meet();
	/* -EINVAL: the handle is marked, as one that stands twice in a batch. */
	refused = mine + *theirs;
	if ((!mine != !*theirs && (refused == -ESTALE || refused == -EINVAL)) || nr_bad++)
		return;
	fprintf(stderr, "round %lu: deed %u said %d, deed %u said %d\n", nr_rounds,
		round_of.deed[0], mine, round_of.deed[1], *theirs);
}

static void look(void)
{
	struct kvmm_pool_stat stat;
	kvmm_mut_t mut;

	expect(!kvmm_validate(pool));
	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(stat.nr_available == NR_BLOCKS);
	expect(!kvmm_alloc(beside, 1, &mut) && !kvmm_free(beside, &mut, 1));
}

int main(void)
{
	const char *seconds = getenv("KVMM_ATTACK_SECONDS"), *seed = getenv("KVMM_SEED");
	time_t until = time(NULL) + (seconds ? atoi(seconds) : 2);
	uint64_t random = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) << 20 | getpid();
	pthread_t other;
	int theirs = 0;

	printf("seed %llu\n", (unsigned long long)random);
	random = random * 2 + 1;
	pool = make_pool();
	beside = make_pool();
	if (!pool || !beside || pthread_create(&other, NULL, be_other, &theirs))
		return 1;
	while (!nr_bad && time(NULL) < until) {
		attack_once(&random, &theirs);
		if (++nr_rounds % 4096 == 0)
			look();
	}
	look();
	round_of.over = true;
	meet();
	pthread_join(other, NULL);
	destroy_pool(pool);
	destroy_pool(beside);
	printf("%lu rounds, %lu bad\n", nr_rounds, nr_bad);
	return !!nr_bad;
}
