// SPDX-License-Identifier: Apache-2.0
/*
 * One rank as a process of its own: calls a pool at random, and prints what it was answered and the
 * digests on the way. With "other", its clock, its random numbers, and what its memory holds before are
 * others; the output must not be.
 *
 * usage: digest_run POLICY SEED NR_CALLS [other]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/env.h>

#include "drive.h"

static struct kv_env_ops other;
static u64 now_ns = 1ull << 50, random_number = 7;
static u64 nr_allocs;

static u64 other_clock(void *ctx)
{
	return now_ns += 77777777;
}

static u64 other_random(void *ctx)
{
	return random_number = random_number * 6364136223846793005ull + 1442695040888963407ull;
}

/* Elsewhere, and with gaps. */
static void *other_alloc(void *ctx, size_t bytes, size_t align)
{
	size_t room = (bytes + align - 1) / align * align + align * (++nr_allocs % 3 + 1);
	void *ptr = aligned_alloc(align < 16 ? 16 : align, room < 16 ? 16 : (room + 15) / 16 * 16);

	return ptr ? memset(ptr, 0, bytes) : NULL;
}

static void other_free(void *ctx, void *ptr, size_t bytes)
{
	free(ptr);
}

static void use_other_env(void)
{
	other = *kv_env();
	other.alloc = other_alloc;
	other.free = other_free;
	other.clock_ns = other_clock;
	other.random = other_random;
	kv_env_set(&other);
}

static void print(struct drive *d)
{
	struct kvmm_digest_info info = { .size = sizeof(info) };

	if (kvmm_pool_digest(d->pool, &info))
		exit(1);
	printf("%llu: answers %016llx history %016llx all %016llx%016llx\n",
	       (unsigned long long)d->nr_calls, (unsigned long long)d->sum,
	       (unsigned long long)info.part[KVMM_DIGEST_HISTORY].word[0],
	       (unsigned long long)info.all.word[1], (unsigned long long)info.all.word[0]);
}

int main(int argc, char **argv)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool;
	static struct drive d;

	if (argc < 4)
		return 2;
	if (argc > 4)
		use_other_env();
	attr.nr_blocks = 256;
	attr.policy = argv[1];
	attr.flags = KVMM_POOL_DETERMINISTIC;
	if (kvmm_pool_create(&attr, &pool))
		return 1;
	drive_init(&d, pool, strtoull(argv[2], NULL, 0));
	for (unsigned long i = strtoul(argv[3], NULL, 0); i; i--) {
		drive_step(&d);
		if (i % 1000 == 1)
			print(&d);
	}
	drive_end(&d);
	print(&d);
	kvmm_pool_destroy(pool);
	return 0;
}
