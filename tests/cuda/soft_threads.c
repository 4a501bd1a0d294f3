// SPDX-License-Identifier: Apache-2.0
/*
 * Several threads on one soft device whose streams are threads, too. Each moves the blocks of a pool
 * of its own around a ring, and checks them; fences and lists are shared.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/cuda.h>
#include <kv/mem.h>

#include "dev_move.h"

#define THREADS	4
#define ROUNDS	60
#define NR	900u
#define HALF	(NR / 2)
#define BYTES	64u

static const struct kv_dev_ops *const ops = &kv_dev_soft;
static const struct kv_fence none;
static struct kv_dev *dev;

#define MUST(cond)								\
	do {									\
		if (!(cond)) {							\
			fprintf(stderr, "line %d: %s\n", __LINE__, #cond);	\
			exit(1);						\
		}								\
	} while (0)

/* Every block of the lower half to the upper one, or back, backwards: a list. */
static struct kv_fence swap_halves(const struct kv_planes *planes, bool up, struct kv_fence after)
{
	struct kv_move moves[HALF];
	struct kv_fence fence;

	for (u32 i = 0; i < HALF; i++) {
		u32 low = i, high = NR - 1 - i;

		moves[i] = up ? (struct kv_move){ low, high, 1 } : (struct kv_move){ high, low, 1 };
	}
	MUST(!dev_move(ops, dev, planes, moves, HALF, after, &fence));
	return fence;
}

static void one_round(const struct kv_planes *planes, u64 addr, u32 round)
{
	u8 in[HALF * BYTES], out[HALF * BYTES];
	struct kv_fence fence;
	int err;

	for (u32 i = 0; i < sizeof(in); i++)
		in[i] = i * 31 + round;
	MUST(!ops->write(dev, addr, in, sizeof(in)));
	fence = swap_halves(planes, true, none);
	fence = swap_halves(planes, false, fence);
	fence = swap_halves(planes, true, fence);
	if (round % 2) {
		MUST(!ops->wait(dev, fence));
	} else {
		while ((err = ops->poll(dev, fence)) == -EAGAIN)
			;
		MUST(!err);
	}
	MUST(!ops->read(dev, addr + HALF * BYTES, out, sizeof(out)));
	for (u32 i = 0; i < HALF; i++)
		MUST(!memcmp(in + i * BYTES, out + (HALF - 1 - i) * BYTES, BYTES));
}

static void *mover(void *arg)
{
	struct kvmm_plane plane = { 0, BYTES, BYTES };
	const struct kv_planes planes = { &plane, 1 };
	u64 sums[2];

	MUST(!ops->alloc(dev, NR * BYTES, &plane.base));
	for (u32 round = 0; round < ROUNDS; round++)
		one_round(&planes, plane.base, round);
	MUST(!ops->sum_blocks(dev, &planes, 0, 1, none, &sums[0]));
	MUST(!ops->sum_blocks(dev, &planes, NR - 1, 1, none, &sums[1]));
	MUST(sums[0] == sums[1]);
	ops->free(dev, plane.base, NR * BYTES);
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];
	struct kv_dev_stat stat;

	setenv("KVMM_SWCUDA", "threads=1", 1);
	MUST(!ops->open(0, &dev));
	for (u32 i = 0; i < THREADS; i++)
		MUST(!pthread_create(&thread[i], NULL, mover, NULL));
	for (u32 i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ops->stat(dev, &stat);
	MUST(stat.nr_copies == THREADS * ROUNDS * 3);
	MUST(!stat.nr_failed);
	ops->close(dev);
	MUST(!kv_mem_bytes());
	return 0;
}
