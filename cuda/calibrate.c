// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of each path on this device, measured once.
 *
 * Two figures a path and direction, the time that a call or a piece takes and the rate of large
 * pieces, are enough to choose by: where they cross depends on the card, its link and the driver,
 * and published crossovers differ by factors. Measuring ends after BUDGET_NS; paths not measured by
 * then keep a cautious default. Results are kept for the life of the process, for each uuid and
 * version of the driver.
 */
#include <string.h>

#include <kv/bits.h>
#include <kv/env.h>
#include <kv/mem.h>

#include "engine.h"

#define BUDGET_NS	50000000ull
#define NR_KEPT		16u
#define SMALL_BYTES	4096u
#define NR_SMALL	64u
#define LARGE_BYTES	(1u << 20)
#define NR_LARGE	4u
#define NR_TRIES	3u
#define SPAN_BYTES	((u64)LARGE_BYTES * NR_LARGE)	/* of either side */
#define GAIN_PER_CENT	5u			/* that more groups must bring */

/* Of a card with HBM on a fast link; a driver call takes 2 to 4 us on all. */
static const struct costs defaults = {
	.cost = {
		[KV_COPY_LOCAL] = {
			[KV_PATH_KERNEL] = { 4000, 1200000 },
			[KV_PATH_BATCH]	 = { 1500, 1000000 },
			[KV_PATH_SINGLE] = { 2300, 1200000 },
		},
		[KV_COPY_TO_DEVICE] = {
			[KV_PATH_KERNEL] = { 4000, 30000 },
			[KV_PATH_BATCH]	 = { 800, 45000 },
			[KV_PATH_SINGLE] = { 2300, 45000 },
		},
		[KV_COPY_TO_HOST] = {
			[KV_PATH_KERNEL] = { 4000, 40000 },
			[KV_PATH_BATCH]	 = { 800, 45000 },
			[KV_PATH_SINGLE] = { 2300, 45000 },
		},
		[KV_COPY_TO_PEER] = {
			[KV_PATH_KERNEL] = { 4000, 20000 },
			[KV_PATH_BATCH]	 = { 800, 20000 },
			[KV_PATH_SINGLE] = { 2300, 20000 },
		},
	},
};

/* ---- results of the process ---- */

struct kept {
	kcu_uuid uuid;
	int driver_version;
	struct costs costs;
};

static struct kv_lock kept_lock = { .rank = KV_RANK_LEAF, .id = 1 };
static struct kept kept[NR_KEPT];		/* kept_lock */
static u32 nr_kept;				/* kept_lock */

static bool recall(struct kv_dev *dev)
{
	bool found = false;

	kv_lock(&kept_lock);
	for (u32 i = 0; i < min(nr_kept, NR_KEPT) && !found; i++) {
		found = !memcmp(&kept[i].uuid, &dev->gpu->uuid, sizeof(kept[i].uuid)) &&
			kept[i].driver_version == dev->gpu->cu->driver_version;
		if (found)
			dev->costs = kept[i].costs;
	}
	kv_unlock(&kept_lock);
	return found;
}

static void keep(const struct kv_dev *dev)
{
	kv_lock(&kept_lock);
	kept[nr_kept++ % NR_KEPT] = (struct kept){
		.uuid = dev->gpu->uuid, .driver_version = dev->gpu->cu->driver_version,
		.costs = dev->costs,
	};
	kv_unlock(&kept_lock);
}

/* ---- measuring ---- */

struct bench {
	struct kv_dev *dev;
	u64 start_ns;
	kcu_deviceptr addr;		/* two spans */
	struct kv_host_mem host;	/* one span */
	struct kv_move moves[NR_SMALL];
};

static struct kvmm_plane side(const struct bench *bench, bool is_host, u64 offset, u64 bytes)
{
	u64 base = is_host ? (uintptr_t)bench->host.ptr : bench->addr + offset;

	return (struct kvmm_plane){ base, bytes, bytes };
}

/* The shortest of NR_TRIES runs after the first one, or 0: interrupted runs take longer. */
static u64 run_ns(struct bench *bench, u32 dir, u64 piece_bytes, u32 nr)
{
	struct kvmm_plane from = side(bench, dir == KV_COPY_TO_DEVICE, 0, piece_bytes);
	struct kvmm_plane to = side(bench, dir == KV_COPY_TO_HOST, SPAN_BYTES, piece_bytes);
	struct kv_copy copy = {
		.src = { &from, 1 }, .dst = { &to, 1 }, .moves = bench->moves, .nr = nr,
		.dir = dir, .flags = bench->host.is_mapped ? KV_COPY_MAPPED : 0,
	};
	struct kv_fence fence;
	u64 ns = UINT64_MAX;

	for (u32 i = 0; i <= NR_TRIES; i++) {
		u64 start = kv_clock_ns();

		if (kv_clock_ns() - bench->start_ns > BUDGET_NS ||
		    kv_copy_submit(bench->dev, &copy, &fence) ||
		    kv_fence_wait(bench->dev, fence))
			return 0;
		ns = i ? min(ns, kv_ns_since(start)) : ns;
	}
	return ns;
}

static u32 mib_per_s(u64 bytes, u64 ns)
{
	u64 rate = ns ? (bytes >> 10) * 1000000000ull / 1024 / ns : 0;

	return min(rate, (u64)UINT32_MAX);
}

/* A path that cannot be had has another one measured in its place, and is never chosen. */
static void measure_path(struct bench *bench, u32 dir, u32 path)
{
	struct cost *cost = &bench->dev->costs.cost[dir][path];
	u64 before = bench->dev->count.path[path].nr;
	u32 nr_small = path == KV_PATH_KERNEL ? 1 : NR_SMALL;
	u64 small, large, rest;

	bench->dev->knob[KV_KNOB_PATH] = path;
	small = run_ns(bench, dir, SMALL_BYTES, nr_small);
	large = run_ns(bench, dir, LARGE_BYTES, NR_LARGE / 2);
	bench->dev->knob[KV_KNOB_PATH] = KV_PATH_AUTO;
	if (!small || !large)
		return;
	if (bench->dev->count.path[path].nr > before)
		bench->dev->costs.measured[dir] |= BIT(path);
	small /= nr_small;
	rest = large > small ? large - small : large;
	cost->call_ns = min(small, (u64)UINT32_MAX);
	cost->mib_per_s = max(mib_per_s((u64)LARGE_BYTES * (NR_LARGE / 2), rest), 1u);
}

/* More groups are worse neighbours, so only as many as bring something. */
static void measure_groups(struct bench *bench)
{
	struct kv_dev *dev = bench->dev;
	u32 sms = max(dev->gpu->nr_sms, 1);
	u64 best = 0;

	dev->knob[KV_KNOB_PATH] = KV_PATH_KERNEL;
	for (u32 groups = sms; groups <= 4 * sms; groups *= 2) {
		u64 ns;

		dev->knob[KV_KNOB_GROUPS] = groups;
		ns = run_ns(bench, KV_COPY_LOCAL, LARGE_BYTES, NR_LARGE / 2);
		if (!ns || (best && ns * 100 > best * (100 - GAIN_PER_CENT)))
			break;
		best = ns;
		dev->costs.groups = groups;
	}
	dev->knob[KV_KNOB_GROUPS] = 0;
	dev->knob[KV_KNOB_PATH] = KV_PATH_AUTO;
}

static void measure(struct bench *bench)
{
	u32 last = bench->host.is_pinned ? KV_COPY_TO_HOST : KV_COPY_LOCAL;

	/* Every other block, so that no two pieces are neighbours. */
	for (u32 i = 0; i < NR_SMALL; i++)
		bench->moves[i] = (struct kv_move){ 2 * i, 2 * i, 1 };
	measure_groups(bench);
	for (u32 dir = KV_COPY_LOCAL; dir <= last; dir++)
		for (u32 path = KV_PATH_KERNEL; path < KV_NR_PATHS; path++)
			measure_path(bench, dir, path);
}

static int take_memory(struct bench *bench)
{
	struct kv_gpu *gpu = bench->dev->gpu;
	struct kv_gpu_scope scope;
	int err = kv_gpu_enter_relaxed(gpu, &scope);

	if (err)
		return err;
	err = kv_gpu_call(gpu, mem_alloc, &bench->addr, 2 * SPAN_BYTES);
	kv_gpu_leave(gpu, &scope);
	if (!err && kv_hostmem_alloc(bench->dev, SPAN_BYTES, -1, &bench->host))
		bench->host = (struct kv_host_mem){ 0 };
	return err;
}

static void give_memory(struct bench *bench)
{
	struct kv_gpu *gpu = bench->dev->gpu;
	struct kv_gpu_scope scope;

	kv_hostmem_free(bench->dev, &bench->host);
	if (kv_dev_enter_surely(bench->dev, &scope))
		return;
	kv_gpu_call(gpu, mem_free, bench->addr);
	kv_gpu_leave(gpu, &scope);
}

void kv_calibrate(struct kv_dev *dev)
{
	struct bench bench = { .dev = dev, .start_ns = kv_clock_ns() };
	struct kv_dev_stat before = dev->count;

	dev->costs = defaults;
	dev->costs.groups = 2 * max(dev->gpu->nr_sms, 1);
	if (recall(dev) || take_memory(&bench))
		return;
	measure(&bench);
	/* Memory that the device may still write to is not for others to have. */
	if (!kv_dev_is_blind(dev))
		give_memory(&bench);
	dev->count = before;
	keep(dev);
}
