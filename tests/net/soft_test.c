// SPDX-License-Identifier: Apache-2.0
/* Migration on the software driver: each way to copy, races looked for, any call of the driver failing. */
#include "tests/cuda/soft.h"
#include "tests/net/pair.h"
#include "tests/support/length.h"
#include "tests/swcuda/calls.h"

static struct kvmm_pool *src, *dst;

/* The options count from the first time on; what is missing, from then only. */
static void restart(const char *options)
{
	if (ctl)
		ctl->reset(options);
	start(options);
}

static void begin(const char *options, const char *of_src, const char *of_dst)
{
	restart(options);
	src = net_pool(of_src, 32);
	dst = net_pool(of_dst, 32);
}

static void expect_quiet(void)
{
	for (u32 i = 0; ctl->report(i); i++)
		cr_expect(false, "%s", ctl->report(i));
}

static void end(void)
{
	cr_expect_eq(kvmm_validate(src), 0);
	cr_expect_eq(kvmm_validate(dst), 0);
	kvmm_pool_destroy(src);
	kvmm_pool_destroy(dst);
}

static struct kvmm_migrate_attr attr_of(kvmm_range_t range)
{
	struct kvmm_migrate_attr attr = { .size = sizeof(attr), .src = src, .dst = dst,
					  .range = range, .chunk_bytes = 4 * NET_BLOCK_BYTES };

	return attr;
}

/* Until it ends; the driver does its work meanwhile. */
static int run_job(struct kvmm_migrate *job)
{
	int err = -EINPROGRESS;

	for (u32 i = 0; i < 1000 && err == -EINPROGRESS; i++) {
		err = kvmm_migrate_poll(job);
		ctl->run();
	}
	return err;
}

static u32 migrate(u32 nr)
{
	struct kvmm_migrate_attr attr = attr_of(net_range(src, 'a', nr, 1));
	struct kvmm_migrate_status status;
	struct kvmm_migrate *job;
	kvmm_range_t there;

	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_expect_eq(run_job(job), 0);
	cr_assert_eq(kvmm_migrate_get_status(job, &status), 0);
	cr_expect_eq(kvmm_migrate_ranges(job, &there, 1), 1);
	cr_expect(net_range_is(dst, there, 'a', nr));
	cr_expect_eq(kvmm_range_find_seq(src, 'a', NULL, 0), 0);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_range_free(dst, there), 0);
	return status.path;
}

static void each_way(const char *options, const char *of_src, const char *of_dst, u32 path)
{
	begin(options, of_src, of_dst);
	for (u32 nr = 1; nr < 30; nr += 7)
		cr_expect_eq(migrate(nr), path, "%s to %s", of_src, of_dst);
	expect_quiet();
	end();
}

TEST_CALL(net_soft, between_pools_of_a_device,
	  each_way("", "soft:0", "soft:0", KVMM_MIGRATE_PATH_LOCAL))

/* Blocks of the source are being looked at, and no thread ticks. */
Test(net_soft, a_migration_gets_on_when_blocks_of_the_source_have_been_looked_at)
{
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 1000 };
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job;
	kvmm_ref_t refs[4];

	begin("", "soft:0", "soft:0");
	attr = attr_of((kvmm_range_t){ 0, 0 });
	cr_assert_eq(kvmm_verify_set(src, &verify), 0);
	net_cache(src, 0, 4);
	cr_assert_eq(kvmm_verify_tick(src), 0);
	net_match(src, 0, 4, refs);
	attr.what = KVMM_MIGRATE_REFS;
	attr.refs = refs;
	attr.nr_refs = 4;
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_expect_eq(run_job(job), 0);
	cr_expect_eq(net_cached(dst, 0, 4), 4);
	kvmm_migrate_free(job);
	end();
}

TEST_CALL(net_soft, between_devices,
	  each_way("devices=2", "soft:0", "soft:1", KVMM_MIGRATE_PATH_PEER))

Test(net_soft, to_the_host_and_back)
{
	each_way("", "soft:0", "host", KVMM_MIGRATE_PATH_HOST);
	each_way("", "host", "soft:0", KVMM_MIGRATE_PATH_HOST);
}

/* As a device that has no such call: by memory of the host, in two lanes. */
TEST_CALL(net_soft, between_devices_that_have_no_way_to_each_other,
	  each_way("devices=2,missing=cuMemcpyPeerAsync", "soft:0", "soft:1",
		   KVMM_MIGRATE_PATH_STAGED))

/* Two devices; a stream, and a plane for 32 blocks, of the first. */
static kcu_stream begin_with_plane(u32 seed, struct kvmm_plane *plane)
{
	char options[64];
	kcu_stream stream;

	snprintf(options, sizeof(options), "devices=2,seed=%u", seed);
	restart(options);
	stream = stream_new();
	*plane = (struct kvmm_plane){ dev_alloc(32 * NET_BLOCK_BYTES), NET_BLOCK_BYTES,
				      NET_BLOCK_BYTES };
	return stream;
}

/* The last writer of the engine's stream is not through when the job begins. */
Test(net_soft, what_the_streams_write_is_waited_for)
{
	for (u32 seed = 1; seed < 20; seed++) {
		struct kvmm_migrate_attr attr;
		struct kvmm_migrate *job;
		struct kvmm_extent ext;
		kvmm_range_t range, there;
		kvmm_stream_t id;
		uint64_t epoch;
		kcu_stream stream;
		u8 buf[NET_BLOCK_BYTES];
		struct kvmm_plane plane;

		stream = begin_with_plane(seed, &plane);
		src = net_pool_on("soft:0", &plane, 32);
		dst = net_pool("soft:1", 32);
		range = net_range(src, 'a', 4, 1);
		cr_assert_eq(kvmm_range_extents(src, range, &ext, 1), 1);
		cr_assert_eq(kvmm_stream_add(src, stream, 0, &id), 0);
		cr_assert_eq(kvmm_step_begin(src, id, &epoch), 0);
		fill(plane.base + ext.start * NET_BLOCK_BYTES, 0x5a, 4 * NET_BLOCK_BYTES, stream);
		cr_assert_eq(kvmm_step_end(src, id, epoch), 0);
		attr = attr_of(range);
		cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
		cr_expect_eq(run_job(job), 0);
		cr_expect_eq(kvmm_migrate_ranges(job, &there, 1), 1);
		cr_assert_eq(kvmm_range_extents(dst, there, &ext, 1), 1);
		for (u32 b = 0; b < 4; b++) {
			cr_assert_eq(kvmm_block_read(dst, ext.start + b, 0, buf, sizeof(buf)), 0);
			cr_expect(all_bytes(buf, 0x5a, sizeof(buf)), "seed %u", seed);
		}
		kvmm_migrate_free(job);
		expect_quiet();
		cr_assert_eq(kvmm_stream_del(src, id), 0);
		end();
	}
}

/* Blocks that the destination grows by had another owner, of which a stream has work left. */
Test(net_soft, what_streams_write_to_blocks_that_come_later_is_waited_for)
{
	for (u32 seed = 1; seed < 20; seed++) {
		struct kvmm_plane plane;
		struct kvmm_migrate_attr attr;
		struct kvmm_migrate *job;
		kvmm_range_t other, there;
		kvmm_stream_t id;
		uint64_t epoch;
		kcu_stream stream;

		stream = begin_with_plane(seed, &plane);
		src = net_pool("soft:1", 32);
		dst = net_pool_on("soft:0", &plane, 32);
		other = net_range(dst, 'b', 31, 1);
		attr = attr_of(net_range(src, 'a', 1, 1));
		attr.flags = KVMM_MIGRATE_PRECOPY;
		cr_assert_eq(kvmm_stream_add(dst, stream, 0, &id), 0);
		cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
		net_decode(src, attr.range, 'a', 2);
		cr_expect_eq(run_job(job), -EINPROGRESS);
		for (u32 nr = 3; nr < 10; nr++)
			net_decode(src, attr.range, 'a', nr);
		cr_assert_eq(kvmm_step_begin(dst, id, &epoch), 0);
		fill(plane.base, 0x5a, 31 * NET_BLOCK_BYTES, stream);
		cr_assert_eq(kvmm_step_end(dst, id, epoch), 0);
		cr_assert_eq(kvmm_range_free(dst, other), 0);
		cr_expect_eq(run_job(job), -EINPROGRESS);
		net_decoded(src, attr.range, 'a', 9);
		cr_expect_eq(kvmm_migrate_finish(job), 0);
		cr_expect_eq(run_job(job), 0, "seed %u", seed);
		cr_expect_eq(kvmm_migrate_ranges(job, &there, 1), 1);
		cr_expect(net_range_is(dst, there, 'a', 9), "seed %u", seed);
		kvmm_migrate_free(job);
		expect_quiet();
		cr_assert_eq(kvmm_stream_del(dst, id), 0);
		end();
	}
}

static u64 nr_registered(void)
{
	return ctl->calls("cuMemHostRegister_v2");
}

/* That maps, and registers, memory of the host. */
Test(net_soft, a_resumed_job_that_waits_lets_the_device_look_once)
{
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job;
	kvmm_range_t other;
	kvmm_stream_t id;
	uint64_t epoch;
	u64 before;

	begin("devices=2", "soft:0", "soft:1");
	other = net_range(dst, 'b', 31, 1);
	attr = attr_of(net_range(src, 'a', 4, 1));
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_expect_eq(run_job(job), -ENOSPC);
	cr_assert_eq(kvmm_range_free(dst, other), 0);
	cr_assert_eq(kvmm_stream_add(src, stream_new(), 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(src, id, &epoch), 0);
	cr_assert_eq(kvmm_migrate_resume(job), 0);
	before = nr_registered();
	cr_expect_eq(run_job(job), -EINPROGRESS, "a step may write");
	before = nr_registered() - before;
	cr_expect_eq(before, 2, "each device: %llu", (unsigned long long)before);
	cr_assert_eq(kvmm_step_end(src, id, epoch), 0);
	cr_assert_eq(kvmm_stream_del(src, id), 0);
	cr_expect_eq(run_job(job), 0);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_range_free_seq(dst, 'a'), 1);
	expect_quiet();
	end();
}

/* ---- failures ---- */

/* Good on one side, and on that only. */
static void expect_one(struct kvmm_migrate *job, int err, kvmm_range_t range, u32 nth, bool may_be_lost)
{
	kvmm_range_t there;
	bool here = net_range_is(src, range, 'a', 9), gone;

	if (kvmm_migrate_ranges(job, &there, 1) == 1) {
		cr_expect(may_be_lost || net_range_is(dst, there, 'a', 9), "call %u: %d", nth, err);
		gone = kvmm_range_free(dst, there) == 0;
		cr_expect(gone);
	} else {
		cr_expect(err < 0, "call %u", nth);
		cr_expect(here || may_be_lost, "call %u: %d", nth, err);
		cr_expect_eq(kvmm_range_free(src, range), 0, "call %u", nth);
	}
}

/* Of a lost device nothing is free that was given back since. */
static u32 nr_free(struct kvmm_pool *pool, bool may_be_lost)
{
	struct kvmm_step_stat steps;
	struct kvmm_pool_stat stat;

	kvmm_compact_poll(pool);
	cr_assert_eq(kvmm_validate(pool), 0);
	if (kvmm_pool_get_stat(pool, &stat) || kvmm_step_get_stat(pool, &steps))
		return 0;
	return stat.nr_free + (may_be_lost ? steps.unseen_blocks : 0);
}

/* Whether the failure came about. */
static bool run(const char *options, const char *to, u32 nth, kcu_result code, bool persistent, bool async)
{
	bool lost = kcu_class_of(code) == KCU_FATAL;
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job;
	kvmm_range_t range;
	u64 before;
	bool struck;
	int err;

	begin(options, "soft:0", to);
	range = net_range(src, 'a', 9, 1);
	attr = attr_of(range);
	before = nr_calls();
	cr_assert_eq(ctl->fail("*", nth, code, persistent, async), 0);
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	err = run_job(job);
	struck = nr_calls() >= before + nth;
	ctl->fail_none();
	ctl->run();
	if (persistent && err == -EINPROGRESS)	/* it waits for a device that cannot see what it does */
		err = run_job(job);
	cr_expect_neq(err, -EINPROGRESS, "call %u, code %d", nth, code);
	if (err && err != -EINPROGRESS && !lost && !kvmm_migrate_resume(job))
		err = run_job(job);
	expect_one(job, err, range, nth, struck && (lost || persistent));
	kvmm_migrate_free(job);
	cr_expect_eq(nr_free(src, lost), 32, "call %u, code %d", nth, code);
	cr_expect_eq(nr_free(dst, lost), 32, "call %u, code %d", nth, code);
	if (!lost)	/* what is lost does nothing any more */
		expect_no_races(nth, code);
	end();
	return struck;
}

struct way {
	const char *options, *to;
};

static const struct way local = { "devices=2", "soft:0" }, peer = { "devices=2", "soft:1" },
			staged = { "devices=2,missing=cuMemcpyPeerAsync", "soft:1" };

static void fail_each(const struct way *way, kcu_result code, bool persistent, bool async)
{
	u32 nth = 1;

	while (run(way->options, way->to, nth, code, persistent, async))
		nth += test_stride();
	cr_expect_gt(nth, 10, "%u", nth);
}

#define FAIL_EACH(way)									\
Test(net_soft, way##_any_call_may_be_out_of_memory_once)				\
{											\
	fail_each(&way, KCU_E_OUT_OF_MEMORY, false, false);				\
}											\
Test(net_soft, way##_any_call_may_be_refused_from_then_on)				\
{											\
	fail_each(&way, KCU_E_INVALID_VALUE, true, false);				\
}											\
Test(net_soft, way##_the_device_may_be_lost_at_any_call)				\
{											\
	fail_each(&way, KCU_E_LAUNCH_FAILED, true, false);				\
}											\
Test(net_soft, way##_what_was_submitted_may_fail_when_it_runs)				\
{											\
	fail_each(&way, KCU_E_ILLEGAL_ADDRESS, false, true);				\
}

FAIL_EACH(local)
FAIL_EACH(peer)
FAIL_EACH(staged)

/* ---- windows ---- */

static void over_a_link(const char *of_src, const char *of_dst, u32 flags, u32 path)
{
	struct kvmm_migrate_arrival arrival;
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job;
	struct pair pair;

	restart("devices=2");
	pair_init(&pair, of_src, of_dst, flags, 8 * NET_BLOCK_BYTES);
	attr = pair_attr(&pair);
	attr.range = net_range(pair.src, 'a', 30, 1);
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_expect_eq(pair_run(&pair, job), 0);
	cr_expect_eq(net_status(job).path, path, "%s to %s", of_src, of_dst);
	cr_assert_eq(kvmm_migrate_arrived(pair.server, &arrival), 0);
	cr_expect(net_range_is(pair.dst, arrival.range, 'a', 30));
	pair_exit(&pair);
	kvmm_migrate_free(job);		/* it has nothing of a device any more */
	expect_quiet();
}

Test(net_soft, windows_are_in_device_memory_where_that_can_be_passed_on)
{
	over_a_link("soft:0", "soft:0", 0, KVMM_MIGRATE_PATH_DEVICE);
	over_a_link("soft:0", "soft:1", 0, KVMM_MIGRATE_PATH_DEVICE);
	over_a_link("soft:0", "soft:0", KVMM_MIGRATE_SERVE_SHARED, KVMM_MIGRATE_PATH_SHARED);
	over_a_link("host", "soft:0", 0, KVMM_MIGRATE_PATH_SHARED);
	over_a_link("soft:0", "host", 0, KVMM_MIGRATE_PATH_SHARED);
}
