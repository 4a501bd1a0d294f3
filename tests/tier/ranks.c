// SPDX-License-Identifier: Apache-2.0
#include "ranks.h"
#include "tests/support/random.h"

/* ---- disks ---- */

#define SEGMENT_BYTES	(64u << 10)

static int reap_slowly(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait)
{
	struct rank *rank = container_of((struct sim_disk *)ctx, struct rank, sim);

	if (!wait && rank->slowness && any_of(&rank->dice, rank->slowness))
		return 0;
	return rank->reap(ctx, queue, done, max, wait);
}

void ranks_make_disks(struct ranks *ranks, u32 nr_segments)
{
	ranks->nr_segments = nr_segments;
	for each_rank(rank) {
		sim_disk_init(&rank->sim, 4ull * (nr_segments + 1) * SEGMENT_BYTES);
		rank->reap = rank->sim.ops.queue_reap;
		rank->sim.ops.queue_reap = reap_slowly;
		rank->dice = 1 + (rank - ranks->of);
		rank->sim.seed = rank->dice;
	}
}

void ranks_remove_disks(struct ranks *ranks)
{
	for each_rank(rank)
		sim_disk_exit(&rank->sim);
}

static void open_disk(struct rank *rank, u32 nr_segments)
{
	struct kvmm_tier_disk_attr below = { .size = sizeof(below), .high_pm = 300 };
	struct kvmm_disk_attr attr = KVMM_DISK_ATTR_INIT;

	attr.path = "/store";
	attr.segment_bytes = SEGMENT_BYTES;
	attr.max_bytes = (u64)nr_segments * SEGMENT_BYTES + KV_DISK_FRONT_BYTES;
	sim_disk_install(&rank->sim);
	cr_assert_eq(kvmm_disk_open(&attr, &rank->disk), 0);
	sim_disk_remove();
	cr_assert_eq(kv_tier_set_disk(rank->tier, rank->disk, &below), 0);
}

static void close_disk(struct rank *rank)
{
	if (rank->disk)
		cr_expect_eq(kv_disk_check(rank->disk), 0);
	kvmm_disk_close(rank->disk);
	rank->disk = NULL;
}

/* ---- ranks ---- */

void rank_attach(struct rank *rank, u32 write)
{
	struct kvmm_tier_client_attr client = KVMM_TIER_CLIENT_ATTR_INIT;
	struct kvmm_tier_config config = KVMM_TIER_CONFIG_INIT;

	config.write = write;
	config.recompute_ns = 20000;	/* of a token: some loads are worth it, some are not */
	client.config = &config;
	client.batch_blocks = 4;
	attach_as(rank->pool, rank->tier, &client);
}

static void make_rank(struct rank *rank, u32 write, u32 nr_segments)
{
	struct kvmm_tier_attr host = { .size = sizeof(host), .numa_node = -1, .device = "soft:0",
				       .block_bytes = RANK_BYTES, .capacity_blocks = RANK_BLOCKS,
				       .flags = KVMM_TIER_TOLD_CLOCK };
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = 8 * RANK_BYTES,
					     .pageblock_blocks = 8 };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	rank->plane = (struct kvmm_plane){ .base = dev_alloc(RANK_BLOCKS * RANK_BYTES),
					   .stride = RANK_BYTES, .bytes = RANK_BYTES };
	attr.device = "soft:0";
	attr.policy = "lru";
	attr.nr_blocks = RANK_BLOCKS;
	attr.planes = &rank->plane;
	attr.nr_planes = 1;
	attr.flags = KVMM_POOL_DETERMINISTIC;
	attr.seed = 7;
	rank->pool = make_pool_of(&attr);
	cr_assert_eq(kvmm_pool_elastic_setup(rank->pool, &elastic), 0);
	if (nr_segments)
		host.capacity_blocks = RANK_UNITS;
	rank->tier = make_tier_of(&host);
	if (nr_segments)
		open_disk(rank, nr_segments);
	rank_attach(rank, write);
	rank->stream = stream_new();
	fill(rank->plane.base, 1, RANK_BLOCKS * RANK_BYTES, rank->stream);
	finish(rank->stream);
	cr_assert_eq(kvmm_stream_add(rank->pool, rank->stream, 0, &rank->id), 0);
}

void ranks_begin(struct ranks *ranks, const char *options, u32 write)
{
	start(options);
	for each_rank(rank)
		make_rank(rank, write, ranks->nr_segments);
}

void ranks_end(struct ranks *ranks)
{
	ctl->run();
	for each_rank(rank) {
		cr_expect_eq(kvmm_stream_del(rank->pool, rank->id), 0);
		end_both(rank->pool, rank->tier);
		close_disk(rank);
	}
	for (u32 i = 0; i < SW_NR_REPORT_KINDS; i++)
		cr_expect_eq(ctl->nr_reports(i), 0, "%s", ctl->report(0));
}

void rank_flip(struct rank *rank, u32 block)
{
	((u8 *)(uintptr_t)rank->plane.base)[block * RANK_BYTES + 5] ^= 4;
}

struct kvmm_completions rank_found(struct rank *rank)
{
	struct kvmm_completions found = KVMM_COMPLETIONS_INIT;

	cr_assert_eq(kvmm_completions_get(rank->pool, &found), 0);
	return found;
}

struct kvmm_completions ranks_found(struct ranks *ranks)
{
	struct kvmm_completions all = rank_found(&ranks->of[0]), other = rank_found(&ranks->of[1]);

	kvmm_completions_join(&all, &other);
	return all;
}

struct kvmm_completions ranks_agree(struct ranks *ranks)
{
	struct kvmm_completions all = ranks_found(ranks);

	all.now_ns = 0;
	for each_rank(rank)
		cr_assert_eq(kvmm_completions_set(rank->pool, &all), 0);
	return all;
}

void ranks_expect_alike(struct ranks *ranks)
{
	struct kvmm_digest_info info[NR_RANKS];
	struct kvmm_digest_diff diff;

	for (u32 i = 0; i < NR_RANKS; i++) {
		info[i].size = sizeof(info[i]);
		cr_assert_eq(kvmm_pool_digest(ranks->of[i].pool, &info[i]), 0);
	}
	cr_assert_eq(kvmm_digest_compare(&info[0], &info[1], 1, &diff), 0, "%s", diff.text);
}
