// SPDX-License-Identifier: Apache-2.0
/*
 * E9: does it matter to a reader where the blocks lie? Pieces of 32 KiB side by side, or each in 2
 * MiB of its own as where a block holds all layers; in the order of their ids, or in none.
 */
#include "gpu.h"

#define PIECE		(32 * KIB)
#define MAX_NR		(8 * KIB)

struct gather {
	u64 stride;
	u32 nr;
	bool is_shuffled;
	kcu_deviceptr plane, list, sums;
};

static void put_tables(struct gather *gather)
{
	struct kvmm_plane plane = { gpu.pool, gather->stride, PIECE };
	u32 *block = malloc(gather->nr * sizeof(*block));

	must_be(block, "memory for a list");
	for (u32 i = 0; i < gather->nr; i++)
		block[i] = i;
	for (u32 i = gather->nr; gather->is_shuffled && i > 1; i--) {
		u32 other = (now_ns() * 0x9e3779b97f4a7c15ull >> 33) % i, swap = block[i - 1];

		block[i - 1] = block[other];
		block[other] = swap;
	}
	gather->plane = gpu.tables;
	gather->list = gpu.tables + 4096;
	gather->sums = gather->list + kv_align_up(gather->nr * sizeof(*block), 4096);
	CU(memcpy_htod_async, gather->plane, &plane, sizeof(plane), gpu.stream);
	CU(memcpy_htod_async, gather->list, block, gather->nr * sizeof(*block), gpu.stream);
	CU(stream_synchronize, gpu.stream);
	free(block);
}

static void submit(void *arg)
{
	const struct gather *gather = arg;

	sum_blocks(gather->plane, 1, gather->list, 1, gather->nr, gather->sums);
}

/* The same pieces in any order have the same sums, so their sum tells. */
static u64 total_of(const struct gather *gather)
{
	u64 *sums = malloc(gather->nr * sizeof(*sums)), total = 0;

	must_be(sums, "memory for sums");
	CU(memcpy_dtoh_async, sums, gather->sums, gather->nr * sizeof(*sums), gpu.stream);
	CU(stream_synchronize, gpu.stream);
	for (u32 i = 0; i < gather->nr; i++)
		total += sums[i];
	free(sums);
	return total;
}

static double measure(struct gather *gather, double ref_gbs, u64 *total)
{
	struct samples us, gbs = { .nr = 0 };

	put_tables(gather);
	time_device(&us, submit, gather);
	*total = total_of(gather);
	for (u32 i = 0; i < us.nr; i++)
		add_sample(&gbs, rate(gather->nr * PIECE, us.value[i]));
	report("gather_rate", "GB/s", &gbs, ref_gbs ? "in order" : NULL, ref_gbs,
	       "stride=%llu order=%s nr=%u", (unsigned long long)gather->stride,
	       gather->is_shuffled ? "shuffled" : "ids", gather->nr);
	return median(&gbs);
}

static void run(void)
{
	static const u64 strides[] = { 32 * KIB, 2 * MIB };
	double dense_gbs = 0;

	gpu_randomise();
	for (u32 i = 0; i < ARRAY_SIZE(strides) && !out_of_time(); i++) {
		struct gather gather = {
			.stride = strides[i], .nr = min(MAX_NR, gpu.pool_bytes / (2 * MIB)),
		};
		u64 in_order, shuffled;
		double gbs = measure(&gather, dense_gbs, &in_order);

		gather.is_shuffled = true;
		dense_gbs = dense_gbs ?: gbs;
		measure(&gather, dense_gbs, &shuffled);
		if (in_order != shuffled)
			give_up("stride %llu: another order has another sum",
				(unsigned long long)strides[i]);
	}
}

const struct experiment experiment_layout = {
	"E9", "reading pieces that lie side by side, apart, in order, in none", run, 1,
};
