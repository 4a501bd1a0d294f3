// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that think before they answer: finished thoughts go first, what the answer needs goes last, and
 * the owner of an answer is told when some of it had to go. A second part says what each block is worth.
 */
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_BLOCKS	16
#define NR_THOUGHTS	6
#define OWNER		7

static struct kvmm_pool *pool;

/* @nr blocks of one request, full and named from @first on. */
static int fill(unsigned char first, uint32_t nr, kvmm_ref_t *refs)
{
	kvmm_key_t keys[NR_BLOCKS] = { { { 0 } } };
	kvmm_mut_t muts[NR_BLOCKS];
	int err = kvmm_alloc(pool, nr, muts);

	for (uint32_t i = 0; i < nr; i++)
		keys[i].byte[0] = first + i;	/* engines hash tokens: kvmm_key_hash() */
	return err ? err : kvmm_register(pool, muts, keys, nr, refs);
}

static void show(const char *what)
{
	struct kvmm_class_stat stat;

	printf("%-22s", what);
	for (uint32_t cls = 0; cls < KVMM_NR_PHASES; cls++)
		if (!kvmm_class_get_stat(pool, cls, &stat))
			printf("  %s %u", stat.name, stat.nr);
	printf("\n");
}

static int think(void)
{
	kvmm_ref_t thought[NR_THOUGHTS], answer[4];
	int err = fill(1, NR_THOUGHTS, thought);

	if (!err)
		err = fill(50, 4, answer);
	if (!err)
		err = kvmm_class_set(pool, thought, NR_THOUGHTS, KVMM_PHASE_ACTIVE_THOUGHT);
	if (!err)
		err = kvmm_set_owner(pool, thought, NR_THOUGHTS, OWNER);
	if (!err)
		err = kvmm_set_owner(pool, answer, 4, OWNER);
	show("it thinks");
	kvmm_put_many(pool, thought, NR_THOUGHTS);
	kvmm_put_many(pool, answer, 4);
	/* The first two thoughts led nowhere; then all of them are over. */
	if (!err)
		err = kvmm_demote(pool, thought, 2, KVMM_PHASE_FINISHED_THOUGHT) == 2 ? 0 : -1;
	show("two dead ends");
	return err;
}

/* The start of the answer will be asked for again: it counts as used, without a reference. */
static int use_answer(void)
{
	kvmm_key_t keys[2] = { { { 50 } }, { { 51 } } };
	struct kvmm_prefix prefix = { .keys = keys, .nr = 2 };
	struct kvmm_victim next;
	kvmm_weak_t weak[2];
	uint32_t blocks[2];
	int nr = kvmm_prefix_peek(pool, &prefix, weak, blocks, 0);

	if (nr == 2)
		nr = kvmm_touch_weak(pool, weak, 2);
	if (nr != 2)
		return -1;
	printf("the answer begins in blocks %u and %u\n", blocks[0], blocks[1]);
	if (kvmm_evict_next(pool, &next, 1) != 1)
		return -1;
	printf("block %u of class %u goes next\n", next.block, next.cls);
	return 0;
}

/* Room for two requests more: the thoughts go first, and then some of the answer. */
static int make_room(void)
{
	struct kvmm_victim went[NR_BLOCKS];
	struct kvmm_evict_for_args room = { .size = sizeof(room), .nr_blocks = 13,
					    .victims = went, .max_victims = NR_BLOCKS };
	struct kvmm_class_event event;
	uint64_t nr_lost;
	int err = kvmm_evict_for(pool, &room);

	if (err)
		return err;
	printf("evicted: %u thoughts, %u of the answer\n", room.evicted_of[KVMM_PHASE_FINISHED_THOUGHT] +
	       room.evicted_of[KVMM_PHASE_ACTIVE_THOUGHT], room.evicted_of[KVMM_PHASE_OUTPUT_CRITICAL]);
	for (uint32_t i = 0; i < room.nr_victims; i++)
		printf("%s%u", i ? " " : "blocks ", went[i].block);
	printf(" have gone\n");
	while (kvmm_class_events(pool, &event, 1, &nr_lost) == 1)
		printf("request %llu is told: %u blocks of its answer have gone\n",
		       (unsigned long long)event.owner, event.nr);
	printf("%d blocks left to demote\n",
	       kvmm_demote_owner(pool, OWNER, KVMM_PHASE_FINISHED_THOUGHT));
	return 0;
}

/* One block is worth more than its neighbours, another must not outlive its last reference. */
static int advise(void)
{
	const uint64_t priority[2] = { 90, 10 };
	kvmm_ref_t refs[2];
	int err = fill(100, 2, refs);

	if (!err)
		err = kvmm_advise_many(pool, refs, KVMM_ADVISE_PRIORITY, priority, 2);
	if (!err)
		err = kvmm_set_reset(pool, &refs[1], 1, 1);
	return err ? err : kvmm_put_many(pool, refs, 2);
}

int main(void)
{
	static const struct kvmm_class phases[] = KVMM_PHASES(KVMM_THOUGHT_PERMILLE);
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = phases,
					 .nr_classes = KVMM_NR_PHASES,
					 .default_class = KVMM_PHASE_OUTPUT_CRITICAL };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "priority";
	attr.evict = &evict;
	err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = think();
	if (!err)
		err = use_answer();
	if (!err)
		err = make_room();
	if (!err)
		err = advise();
	/* New weights: nothing that was cached means anything any more. */
	if (!err)
		err = kvmm_reset_cache(pool) < 0;
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	return err != 0;
}
