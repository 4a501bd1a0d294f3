// SPDX-License-Identifier: Apache-2.0
/* A pool that runs low: idle sequences go to another one by themselves, and are found when they are wanted. */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_SEQS	4

static int make(const char *name, struct kvmm_pool **pool)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.name = name;
	attr.nr_blocks = 64;
	attr.block_bytes = 4096;
	return kvmm_pool_create(&attr, pool);
}

static int run(struct kvmm_pool *pool, struct kvmm_pool *spare, struct kvmm_migrate_auto *watch)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 12 };
	struct kvmm_migrate_auto_stat stat;
	kvmm_range_t range;
	uint64_t seq;
	int err = 0;

	for (seq = 1; seq <= NR_SEQS && !err; seq++) {
		attr.seq = seq;
		err = kvmm_range_alloc_attr(pool, &attr, &range);
	}
	/* Their users are thinking; 16 blocks are free, and 32 are wished. */
	for (seq = 1; seq <= NR_SEQS && !err; seq++)
		err = kvmm_migrate_auto_idle(watch, seq);
	do {			/* an engine runs its steps in between */
		int busy = kvmm_migrate_auto_tick(watch, &stat);

		err = err ? err : busy < 0 ? busy : 0;
	} while (!err && (stat.is_active || !stat.starts));
	for (seq = 1; seq <= NR_SEQS && !err; seq++) {
		int gone = kvmm_migrate_auto_busy(watch, seq);

		printf("sequence %d is %s\n", (int)seq, gone == 1 ? "in the other pool" : "still here");
		err = gone < 0 ? gone : 0;
	}
	printf("%d blocks have gone\n", (int)stat.blocks);
	return err ? err : stat.seqs == 2 && kvmm_range_find_seq(spare, 1, NULL, 0) == 1 ? 0 : -EPROTO;
}

int main(void)
{
	struct kvmm_migrate_auto_attr attr = KVMM_MIGRATE_AUTO_INIT;
	struct kvmm_migrate_auto *watch = NULL;
	struct kvmm_pool *pool = NULL, *spare = NULL;
	int err = make("decode", &pool);

	if (!err)
		err = make("spare", &spare);
	attr.src = pool;
	attr.dst = spare;
	attr.low = 24;
	attr.high = 32;
	attr.interval_ms = 1;
	if (!err)
		err = kvmm_migrate_auto_start(&attr, &watch);
	if (!err)
		err = run(pool, spare, watch);
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_migrate_auto_stop(watch);
	kvmm_pool_destroy(pool);
	kvmm_pool_destroy(spare);
	return err != 0;
}
