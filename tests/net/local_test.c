// SPDX-License-Identifier: Apache-2.0
/* Migration between pools of one process: what each phase looks like, and what each failure leaves. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/net/util.h"
#include "tests/pool/util.h"

static struct kvmm_pool *src, *dst;

static void set_up(void)
{
	src = net_pool("host", 16);
	dst = net_pool("host", 16);
}

static void tear_down(void)
{
	end_pool(src);
	end_pool(dst);
}

TestSuite(local, .init = set_up, .fini = tear_down);

static struct kvmm_migrate_attr attr_of_range(kvmm_range_t range)
{
	struct kvmm_migrate_attr attr = { .size = sizeof(attr), .src = src, .dst = dst,
					  .what = KVMM_MIGRATE_RANGE, .range = range };

	return attr;
}

static struct kvmm_migrate_attr attr_of_refs(const kvmm_ref_t *refs, u32 nr)
{
	struct kvmm_migrate_attr attr = attr_of_range((kvmm_range_t){ 0, 0 });

	attr.what = KVMM_MIGRATE_REFS;
	attr.refs = refs;
	attr.nr_refs = nr;
	return attr;
}

static struct kvmm_migrate *begin(const struct kvmm_migrate_attr *attr)
{
	struct kvmm_migrate *job = NULL;

	cr_assert_eq(kvmm_migrate_start(attr, &job), 0);
	return job;
}

static void expect_pictures(const char *of_src, const char *of_dst)
{
	cr_expect_str_eq(picture(src), of_src);
	cr_expect_str_eq(picture(dst), of_dst);
	cr_expect_eq(kvmm_validate(src), 0);
	cr_expect_eq(kvmm_validate(dst), 0);
}

/* As far as it gets. */
static int go_on(struct kvmm_migrate *job)
{
	int err = -EINPROGRESS;

	for (u32 i = 0; i < 10 && err == -EINPROGRESS; i++)
		err = kvmm_migrate_poll(job);
	return err;
}

/* Steps of an engine that are open keep a job where it is. */
struct engine {
	struct kvmm_pool *pool;
	kvmm_stream_t id;
	uint64_t epoch;
};

static struct engine engine_begin(struct kvmm_pool *pool)
{
	struct engine engine = { .pool = pool };

	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &engine.id), 0);
	cr_assert_eq(kvmm_step_begin(pool, engine.id, &engine.epoch), 0);
	return engine;
}

static void engine_end(struct engine *engine)
{
	cr_assert_eq(kvmm_step_end(engine->pool, engine->id, engine->epoch), 0);
	cr_assert_eq(kvmm_stream_del(engine->pool, engine->id), 0);
}

Test(local, a_range_goes_and_is_the_same_there)
{
	kvmm_range_t range = net_range(src, 'a', 5, 1), there;
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job = begin(&attr);
	static const u32 bad[] = { KVMM_MIGRATE_GOT_MOVES + 1, 0x80000000u, UINT32_MAX };
	struct kvmm_relocation move;

	expect_pictures("aaaaa...........", "................");
	cr_expect_eq(kvmm_migrate_ranges(job, &there, 1), -EAGAIN);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(kvmm_migrate_result(job, bad[i], &there, 1), -EINVAL);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(kvmm_migrate_result(job, bad[i], &there, 1), -EINVAL);
	cr_expect_eq(kvmm_migrate_ranges(job, NULL, UINT32_MAX), 1, "how many");
	cr_expect_eq(kvmm_migrate_ranges(job, &there, 0), 1);
	expect_pictures("................", "aaaaa...........");
	cr_expect_eq(kvmm_migrate_ranges(job, &there, 1), 1);
	cr_expect(net_range_is(dst, there, 'a', 5));
	cr_expect_eq(kvmm_migrate_relocations(job, &move, 1), 1);
	cr_expect_eq(move.nr, 5);
	cr_expect_eq(kvmm_migrate_get_status(job, NULL), -EINVAL);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_range_free(src, range), -ESTALE);
	cr_expect_eq(kvmm_range_find_seq(dst, 'a', NULL, 0), 1);
	cr_expect_eq(kvmm_range_free(dst, there), 0);
}

static struct kvmm_migrate *begin_precopy(kvmm_range_t range)
{
	struct kvmm_migrate_attr attr = attr_of_range(range);

	attr.flags = KVMM_MIGRATE_PRECOPY;
	return begin(&attr);
}

Test(local, a_sequence_goes_while_it_decodes_and_stands_still_for_what_is_not_sealed_alone)
{
	kvmm_range_t range = net_range(src, 'a', 1, 1), there;
	struct kvmm_migrate *job = begin_precopy(range);
	struct kvmm_migrate_status status;
	struct engine step;

	cr_expect_eq(go_on(job), -EINPROGRESS, "nothing is sealed");
	expect_pictures("a...............", "#...............");
	for (u32 nr = 2; nr < 8; nr++) {
		step = engine_begin(src);
		net_decode(src, range, 'a', nr);
		cr_expect_eq(go_on(job), -EINPROGRESS);
		status = net_status(job);
		cr_expect_eq(status.phase, KVMM_MIGRATE_WAIT);
		cr_expect_eq(status.nr_verified, nr - 1, "%u: %u", nr, status.nr_verified);
		cr_expect_eq(status.stop_ns, 0);
		engine_end(&step);
	}
	cr_expect_eq(kvmm_range_shrink(src, range, 1), -EBUSY);
	step = engine_begin(src);
	net_decoded(src, range, 'a', 7);
	cr_expect_eq(kvmm_migrate_finish(job), 0);
	cr_expect_eq(kvmm_migrate_finish(job), 0);
	cr_expect_eq(go_on(job), -EINPROGRESS, "a step may write");
	expect_pictures("aaaaaaa.........", "######..........");
	engine_end(&step);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	expect_pictures("................", "aaaaaaa.........");
	status = net_status(job);
	cr_expect_eq(status.nr_stop, 1);
	cr_expect_eq(status.nr_copied, 7);
	cr_expect_gt(status.stop_ns, 0);
	cr_expect_eq(kvmm_migrate_finish(job), -EALREADY);
	cr_expect_eq(kvmm_migrate_ranges(job, &there, 1), 1);
	kvmm_migrate_free(job);
	cr_expect(net_range_is(dst, there, 'a', 7));
	cr_expect_eq(kvmm_range_free(dst, there), 0);
}

/* In the order of the sequence: each turn has something of both. */
Test(local, ranges_of_a_sequence_go_in_turns_together)
{
	kvmm_range_t range[2] = { net_range(src, 'a', 1, 1), net_range(src, 'a', 1, 1) }, there[2];
	struct kvmm_migrate_attr attr = attr_of_range(range[0]);
	struct kvmm_relocation moves[16];
	struct kvmm_migrate *job;
	u32 nr_blocks = 0;
	int nr;

	attr.what = KVMM_MIGRATE_SEQ;
	attr.seq = 'a';
	attr.flags = KVMM_MIGRATE_PRECOPY;
	job = begin(&attr);
	for (u32 nr = 2; nr < 6; nr++) {
		net_decode(src, range[0], 'a', nr);
		cr_expect_eq(go_on(job), -EINPROGRESS);
		net_decode(src, range[1], 'a', nr);
		cr_expect_eq(go_on(job), -EINPROGRESS);
	}
	net_decoded(src, range[0], 'a', 5);
	net_decoded(src, range[1], 'a', 5);
	cr_expect_eq(kvmm_migrate_finish(job), 0);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	cr_expect_eq(net_status(job).nr_stop, 2);
	nr = kvmm_migrate_relocations(job, moves, 16);
	for (int i = 0; i < nr && i < 16; i++)
		nr_blocks += moves[i].nr;
	cr_expect_eq(nr_blocks, 10);
	cr_expect_eq(kvmm_migrate_ranges(job, there, 2), 2);
	kvmm_migrate_free(job);
	for (u32 i = 0; i < 2; i++) {
		cr_expect(net_range_is(dst, there[i], 'a', 5));
		cr_expect_eq(kvmm_range_free(dst, there[i]), 0);
	}
	cr_expect_eq(kvmm_range_find_seq(src, 'a', NULL, 0), 0);
}

/* The other part of it would be left behind. */
Test(local, a_sequence_that_gets_another_range_meanwhile_does_not_go)
{
	kvmm_range_t range = net_range(src, 'a', 1, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job;

	attr.what = KVMM_MIGRATE_SEQ;
	attr.seq = 'a';
	attr.flags = KVMM_MIGRATE_PRECOPY;
	job = begin(&attr);
	net_decode(src, range, 'a', 2);
	cr_expect_eq(go_on(job), -EINPROGRESS);
	net_range(src, 'a', 2, 1);
	cr_expect_eq(kvmm_migrate_finish(job), 0);
	cr_expect_eq(go_on(job), -ESTALE);
	expect_pictures("aaaa............", "................");
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_range_free_seq(src, 'a'), 2);
}

Test(local, a_sequence_that_is_too_long_is_refused_before_anything_of_it_goes)
{
	struct kvmm_pool *big = net_pool("host", KVMM_MIGRATE_MAX_BLOCKS + 2);
	struct kvmm_range_attr range = { .size = sizeof(range), .max_runs = 1,
					 .nr = KVMM_MIGRATE_MAX_BLOCKS + 1 };
	struct kvmm_migrate_attr attr = attr_of_range((kvmm_range_t){ 0, 0 });
	struct kvmm_migrate *job;

	cr_assert_eq(kvmm_range_alloc_attr(big, &range, &attr.range), 0);
	attr.src = big;
	attr.flags = KVMM_MIGRATE_PRECOPY;
	cr_expect_eq(kvmm_migrate_start(&attr, &job), -E2BIG);
	cr_expect_eq(kvmm_range_free(big, attr.range), 0);
	end_pool(big);
}

Test(local, blocks_left_at_the_end_are_counted_after_a_resume_that_failed)
{
	kvmm_range_t range = net_range(src, 'a', 1, 1), full = net_range(dst, 'b', 14, 1);
	struct kvmm_migrate *job = begin_precopy(range);

	net_decode(src, range, 'a', 2);
	cr_expect_eq(go_on(job), -EINPROGRESS);
	net_decode(src, range, 'a', 3);
	cr_expect_eq(kvmm_migrate_finish(job), 0);
	cr_expect_eq(go_on(job), -ENOSPC);
	cr_expect_eq(net_status(job).nr_stop, 2);
	cr_expect_eq(kvmm_range_pin(src, range), 0);
	cr_expect_eq(kvmm_migrate_resume(job), -EBUSY);
	cr_expect_eq(net_status(job).nr_stop, 0);
	cr_expect_eq(kvmm_range_unpin(src, range), 0);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_range_free(src, range), 0);
	cr_expect_eq(kvmm_range_free(dst, full), 0);
}

Test(local, a_sequence_that_finds_no_room_or_is_wanted_back_decodes_on_where_it_was)
{
	kvmm_range_t other = net_range(dst, 'b', 12, 1), range = net_range(src, 'a', 1, 1);
	struct kvmm_migrate *job = begin_precopy(range);
	u32 nr = 2;
	int err;

	do
		net_decode(src, range, 'a', nr++);
	while ((err = go_on(job)) == -EINPROGRESS);
	cr_expect_eq(err, -ENOSPC);
	expect_pictures("aaaaaa..........", "bbbbbbbbbbbb....");
	cr_expect_eq(kvmm_migrate_finish(job), -EALREADY);
	cr_expect_eq(net_status(job).stop_ns, 0);
	cr_expect_eq(kvmm_range_free(dst, other), 0);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	net_decode(src, range, 'a', nr);
	cr_expect_eq(go_on(job), -EINPROGRESS, "it has to be finished again");
	cr_expect_eq(kvmm_migrate_cancel(job), 0);
	cr_expect_eq(go_on(job), -ECANCELED);
	kvmm_migrate_free(job);
	net_decoded(src, range, 'a', nr);
	expect_pictures("aaaaaaa.........", "................");
	cr_expect(net_range_is(src, range, 'a', nr));
	cr_expect_eq(kvmm_range_free(src, range), 0);
}

Test(local, only_ranges_are_written_meanwhile)
{
	kvmm_ref_t ref = { 0, 0 };
	struct kvmm_migrate_attr attr = attr_of_refs(&ref, 1);
	struct kvmm_migrate *job = NULL;

	net_cache(src, 0, 1);
	net_match(src, 0, 1, &ref);
	attr.flags = KVMM_MIGRATE_PRECOPY;
	cr_expect_eq(kvmm_migrate_start(&attr, &job), -EINVAL);
	attr.flags = 0;
	job = begin(&attr);
	cr_expect_eq(kvmm_migrate_finish(job), -EINVAL);
	cr_expect_eq(kvmm_migrate_steer(job, KVMM_MIGRATE_ORDER_FINISH + 1), -EINVAL);
	cr_expect_eq(kvmm_migrate_finish(NULL), -EINVAL);
	kvmm_migrate_free(job);
	kvmm_put(src, ref);
}

Test(local, nothing_is_found_before_the_commit_and_the_source_stays_through_the_grace)
{
	kvmm_range_t range = net_range(src, 'a', 3, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct engine before = engine_begin(src), after;
	struct kvmm_migrate *job = begin(&attr);

	/* It may write to the range: reserved, and waited for. */
	cr_expect_eq(go_on(job), -EINPROGRESS);
	cr_expect_eq(net_status(job).phase, KVMM_MIGRATE_WAIT);
	expect_pictures("aaa.............", "###.............");
	cr_expect_eq(kvmm_range_find_seq(dst, 'a', NULL, 0), 0);

	/* One that began later only reads; when it was told, the source was the place. */
	after = engine_begin(src);
	cr_assert_eq(kvmm_step_end(src, before.id, before.epoch), 0);
	cr_expect_eq(go_on(job), -EINPROGRESS);
	cr_expect_eq(net_status(job).phase, KVMM_MIGRATE_GRACE);
	expect_pictures("aaa.............", "aaa.............");

	cr_expect_eq(kvmm_migrate_cancel(job), -EALREADY);
	engine_end(&after);
	cr_expect_eq(go_on(job), 0);
	expect_pictures("................", "aaa.............");
	kvmm_migrate_free(job);
	cr_assert_eq(kvmm_stream_del(src, before.id), 0);
}

/* A stream whose engine has not read yet where 'm' went; and a hole before it. */
static kvmm_stream_t unread_tables(void)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 5 };
	kvmm_range_t hole = net_range(src, 'h', 3, 1), moves = net_range(src, 'm', 2, 1);
	struct kvmm_relocation move;
	kvmm_stream_t id;

	net_range(src, 'x', 7, 1);
	cr_assert_eq(kvmm_stream_add(src, NULL, KVMM_STREAM_TABLES, &id), 0);
	cr_assert_eq(kvmm_range_seal(src, moves, 2), 0);
	cr_assert_eq(kvmm_range_free(src, hole), 0);
	cr_assert_eq(kvmm_compact_start(src, &goal, KVMM_MOVE_BESIDE), 0);
	cr_expect_geq(kvmm_compact_poll(src), 0);
	cr_assert_eq(kvmm_relocations(src, id, &move, 1), 1);
	return id;
}

Test(local, tables_that_are_not_read_hold_nothing_up)
{
	kvmm_stream_t id = unread_tables();
	kvmm_range_t range = net_range(src, 'a', 2, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job = begin(&attr);

	cr_expect_eq(go_on(job), 0);
	kvmm_migrate_free(job);
	cr_assert_eq(kvmm_stream_del(src, id), 0);
}

Test(local, steps_with_old_tables_are_waited_for_if_they_began_before)
{
	kvmm_stream_t id = unread_tables();
	kvmm_range_t range = net_range(src, 'a', 2, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job;
	uint64_t epoch;

	cr_assert_eq(kvmm_step_begin(src, id, &epoch), 0);
	job = begin(&attr);
	cr_expect_eq(go_on(job), -EINPROGRESS);
	cr_expect_eq(net_status(job).phase, KVMM_MIGRATE_WAIT);
	cr_assert_eq(kvmm_step_end(src, id, epoch), 0);
	cr_expect_eq(go_on(job), 0);
	kvmm_migrate_free(job);
	cr_assert_eq(kvmm_stream_del(src, id), 0);
}

Test(local, steps_with_old_tables_that_begin_later_are_not_waited_for)
{
	kvmm_stream_t id = unread_tables();
	kvmm_range_t range = net_range(src, 'a', 2, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct engine before = engine_begin(src);
	struct kvmm_migrate *job = begin(&attr);
	uint64_t epoch;

	cr_expect_eq(go_on(job), -EINPROGRESS);
	cr_assert_eq(kvmm_step_begin(src, id, &epoch), 0);
	engine_end(&before);
	cr_expect_eq(go_on(job), -EINPROGRESS);
	cr_expect_eq(net_status(job).phase, KVMM_MIGRATE_GRACE, "it may read what goes");
	cr_assert_eq(kvmm_step_end(src, id, epoch), 0);
	cr_expect_eq(go_on(job), 0);
	kvmm_migrate_free(job);
	cr_assert_eq(kvmm_stream_del(src, id), 0);
}

Test(local, what_is_sealed_goes_beside_an_open_step)
{
	kvmm_range_t range = net_range(src, 'a', 3, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct engine engine = engine_begin(src);
	struct kvmm_migrate *job;

	cr_assert_eq(kvmm_range_seal(src, range, 3), 0);
	job = begin(&attr);
	cr_expect_eq(go_on(job), -EINPROGRESS);
	cr_expect_eq(net_status(job).phase, KVMM_MIGRATE_GRACE);
	expect_pictures("aaa.............", "aaa.............");
	engine_end(&engine);
	cr_expect_eq(go_on(job), 0);
	kvmm_migrate_free(job);
	expect_pictures("................", "aaa.............");
}

Test(local, cached_blocks_keep_their_names_and_lose_them_at_the_source)
{
	kvmm_ref_t refs[4], there[4];
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job;

	net_cache(src, 10, 4);
	net_match(src, 10, 4, refs);
	attr = attr_of_refs(refs, 4);
	job = begin(&attr);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	cr_expect_eq(net_cached(src, 10, 4), 0);
	cr_expect_eq(net_cached(dst, 10, 4), 4);
	expect_pictures("AAAA............", "AAAA............");	/* ours; the job's */
	cr_expect_eq(kvmm_put_many(src, refs, 4), 0);
	cr_expect_eq(kvmm_migrate_refs(job, there, 3), -EINVAL, "all or none");
	cr_expect_eq(kvmm_migrate_refs(job, NULL, 0), 4);
	cr_expect_eq(kvmm_migrate_refs(job, there, 4), 4);
	cr_expect_eq(kvmm_migrate_refs(job, there, 4), -EALREADY);
	kvmm_migrate_free(job);
	expect_pictures("................", "AAAA............");
	cr_expect_eq(kvmm_put_many(dst, there, 4), 0);
	expect_pictures("................", "IIII............");
}

Test(local, a_copy_leaves_the_source)
{
	kvmm_range_t range = net_range(src, 'a', 3, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job;

	attr.flags = KVMM_MIGRATE_COPY;
	job = begin(&attr);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	kvmm_migrate_free(job);
	expect_pictures("aaa.............", "aaa.............");
	cr_expect_eq(kvmm_range_free(src, range), 0);
}

Test(local, keys_go_as_far_as_they_are_cached_and_those_that_are_there_are_not_copied)
{
	struct kvmm_migrate_attr attr = attr_of_refs(NULL, 0);
	struct kvmm_migrate_status status;
	struct kvmm_migrate *job;
	kvmm_key_t keys[6];
	struct kvmm_prefix prefix = { keys, 6, 0, NULL, { 0, 0, 0 } };

	for (u32 i = 0; i < 6; i++)
		keys[i] = key_of(i);
	net_cache(src, 0, 2);
	net_cache(src, 3, 2);
	net_cache(dst, 3, 1);
	attr.what = KVMM_MIGRATE_KEYS;
	attr.prefix = &prefix;
	job = begin(&attr);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	status = net_status(job);
	cr_expect_eq(status.nr_blocks, 4);
	cr_expect_eq(status.nr_present, 1);
	cr_expect_eq(status.nr_copied, 3);
	cr_expect_eq(status.nr_verified, 3);
	kvmm_migrate_free(job);
	expect_pictures("................", "IIII............");
	cr_expect_eq(net_cached(dst, 0, 6), 4);
}

Test(local, neighbours_are_one_descriptor)
{
	struct kvmm_migrate_status status;
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job;
	kvmm_range_t range[26];
	struct kvmm_pool *holes = net_pool("host", 16);

	end_pool(src);
	src = holes;
	paint(src, "aa.b.aaa.c.a....", range);
	attr = attr_of_range(range[0]);
	job = begin(&attr);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	status = net_status(job);
	cr_expect_eq(status.nr_src_runs, 3);
	cr_expect_eq(status.nr_dst_runs, 1);
	cr_expect_eq(status.nr_descriptors, 3);
	cr_expect_eq(status.path, KVMM_MIGRATE_PATH_LOCAL);
	kvmm_migrate_free(job);
	expect_pictures("...b.....c......", "aaaaaa..........");
}

Test(local, without_room_nothing_happens_and_it_can_be_resumed)
{
	kvmm_range_t range = net_range(src, 'a', 6, 1), other = net_range(dst, 'b', 12, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job = begin(&attr);

	cr_expect_eq(go_on(job), -ENOSPC);
	cr_expect_eq(net_status(job).phase, KVMM_MIGRATE_FAILED);
	expect_pictures("aaaaaa..........", "bbbbbbbbbbbb....");
	cr_expect_eq(go_on(job), -ENOSPC);
	cr_expect_eq(kvmm_range_pin(src, range), 0);	/* nobody holds it */
	cr_expect_eq(kvmm_migrate_resume(job), -EBUSY);
	cr_expect_eq(kvmm_range_unpin(src, range), 0);
	cr_expect_eq(kvmm_range_free(dst, other), 0);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	cr_expect_eq(net_status(job).attempts, 2);
	kvmm_migrate_free(job);
	expect_pictures("................", "aaaaaa..........");
}

static struct kvmm_migrate_attr attr_of_seq(u64 seq)
{
	struct kvmm_migrate_attr attr = attr_of_range((kvmm_range_t){ 0, 0 });

	attr.what = KVMM_MIGRATE_SEQ;
	attr.seq = seq;
	return attr;
}

Test(local, a_refused_sequence_of_several_ranges_evicts_nothing)
{
	struct kvmm_migrate_attr attr = attr_of_seq('a');
	struct kvmm_migrate *job;
	u64 evictions;

	net_range(src, 'a', 5, 1);
	net_range(src, 'a', 5, 1);
	net_cache(dst, 0, 6);
	net_range(dst, 'b', 10, 1);
	evictions = stat_of(dst).evictions;
	job = begin(&attr);
	cr_expect_eq(go_on(job), -ENOSPC);
	kvmm_migrate_free(job);
	cr_expect_eq(stat_of(dst).evictions, evictions);
	cr_expect_eq(net_cached(dst, 0, 6), 6);
	cr_expect_eq(kvmm_validate(dst), 0);
}

Test(local, a_sequence_of_several_ranges_evicts_what_is_missing)
{
	struct kvmm_range_attr grows = { .size = sizeof(grows), .nr = 3, .seq = 'a',
					 .flags = KVMM_ALLOC_GROWS };
	struct kvmm_migrate_attr attr = attr_of_seq('a');
	struct kvmm_range_info info;
	struct kvmm_migrate *job;
	kvmm_range_t range[2];

	net_range(src, 'a', 5, 1);
	cr_assert_eq(kvmm_range_alloc_attr(src, &grows, &range[0]), 0);
	net_cache(dst, 0, 10);
	job = begin(&attr);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	cr_expect_eq(kvmm_migrate_ranges(job, range, 2), 2);
	kvmm_migrate_free(job);
	cr_expect_eq(stat_of(dst).evictions, 2);
	for (u32 i = 0; i < 2; i++) {
		cr_assert_eq(kvmm_range_get_info(dst, range[i], &info), 0);
		cr_expect_eq(info.flags & KVMM_ALLOC_GROWS, info.nr == 3 ? KVMM_ALLOC_GROWS : 0);
	}
	cr_expect_eq(kvmm_validate(dst), 0);
}

/* Held, of @tenant. */
static void register_as(struct kvmm_pool *pool, u32 tenant, u32 first, u32 nr, kvmm_ref_t *refs)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	struct kvmm_prefix prefix = { .nr = nr, .domain.tenant = tenant };
	kvmm_key_t keys[16];
	kvmm_mut_t muts[16];

	ctl.nr = nr;
	ctl.tenant = tenant;
	cr_assert_eq(kvmm_alloc_as(pool, &ctl, muts), 0);
	for (u32 i = 0; i < nr; i++) {
		keys[i] = net_key(first + i);
		cr_assert_eq(net_write(pool, kvmm_block_of_mut(pool, muts[i]), first + i, 0), 0);
	}
	prefix.keys = keys;
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, muts, refs), 0);
}

/* Of three tenants in turn, where six blocks can be evicted, and two are free. */
static int migrate_of_tenants(u32 nr_each)
{
	struct kvmm_migrate_attr attr = attr_of_refs(NULL, 3 * nr_each);
	struct kvmm_migrate *job;
	kvmm_ref_t refs[16];
	int err;

	for (u32 i = 0; i < 3; i++)
		register_as(src, i, 100 + i * nr_each, nr_each, refs + i * nr_each);
	net_cache(dst, 0, 6);
	net_range(dst, 'b', 8, 1);
	attr.refs = refs;
	job = begin(&attr);
	err = go_on(job);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_put_many(src, refs, attr.nr_refs), 0);
	cr_expect_eq(kvmm_validate(dst), 0);
	return err;
}

Test(local, refused_blocks_of_several_tenants_evict_nothing)
{
	cr_expect_eq(migrate_of_tenants(3), -ENOSPC);
	cr_expect_eq(stat_of(dst).evictions, 0);
	cr_expect_eq(stat_of(dst).nr_free, 2);
	cr_expect_eq(net_cached(dst, 0, 6), 6);
}

Test(local, blocks_of_several_tenants_evict_what_is_missing)
{
	cr_expect_eq(migrate_of_tenants(2), 0);
	cr_expect_eq(stat_of(dst).evictions, 4);
	cr_expect_eq(net_cached(dst, 0, 6), 2);
}

/* Each to its own limit: one is refused for its tenant, whatever there is of others. */
Test(local, blocks_of_a_tenant_at_its_limit_evict_its_own)
{
	struct kvmm_migrate_attr attr = attr_of_refs(NULL, 3);
	struct kvmm_tenant_attr limit = KVMM_TENANT_ATTR_INIT;
	kvmm_ref_t refs[3], there[4];
	struct kvmm_migrate *job;

	limit.max = 4;
	cr_assert_eq(kvmm_tenant_set(dst, 1, &limit), 0);
	register_as(dst, 1, 0, 4, there);
	register_as(src, 1, 100, 2, refs);
	register_as(src, 2, 200, 1, &refs[2]);
	attr.refs = refs;
	job = begin(&attr);
	cr_expect_eq(go_on(job), -EDQUOT);
	kvmm_migrate_free(job);
	cr_expect_eq(stat_of(dst).nr_free, 12);
	cr_assert_eq(kvmm_put_many(dst, there, 4), 0);
	job = begin(&attr);
	cr_expect_eq(go_on(job), 0);
	kvmm_migrate_free(job);
	cr_expect_eq(stat_of(dst).evictions, 2);
	cr_expect_eq(kvmm_put_many(src, refs, 3), 0);
	cr_expect_eq(kvmm_validate(dst), 0);
}

/* 'p' is pinned: no run of six can be made, but what is free can lie together between the pins. */
Test(local, a_sequence_of_several_ranges_has_blocks_packed_for_it)
{
	static const char picture[] = ".b.b.p.b.b.p.b.b";
	struct kvmm_migrate_attr attr = attr_of_seq('a');
	struct kvmm_migrate *job;
	kvmm_range_t at[16];

	for (u32 i = 0; i < 16; i++)
		at[i] = net_range(dst, picture[i], 1, 1);
	for (u32 i = 0; i < 16; i++) {
		if (picture[i] == '.')
			cr_assert_eq(kvmm_range_free(dst, at[i]), 0);
		if (picture[i] == 'p')
			cr_assert_eq(kvmm_range_pin(dst, at[i]), 0);
	}
	expect_pictures("................", picture);
	net_range(src, 'a', 6, 1);
	net_range(src, 'a', 2, 1);
	attr.max_runs = 2;
	job = begin(&attr);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	kvmm_migrate_free(job);
	cr_expect_eq(stat_of(dst).nr_free, 0);
	cr_expect_eq(kvmm_validate(dst), 0);
}

static void to_a_smaller_pool(u32 flags)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "host", .nr_blocks = 8,
				       .block_bytes = NET_BLOCK_BYTES, .policy = "lru",
				       .flags = flags };

	end_pool(dst);
	dst = make_pool_of(&attr);
}

static void expect_no_room(const struct kvmm_migrate_attr *attr)
{
	struct kvmm_migrate *job = begin(attr);
	u32 nr_free = stat_of(dst).nr_free;
	char before[64];

	strcpy(before, picture(src));
	cr_expect_eq(go_on(job), -ENOSPC);
	cr_expect_eq(net_status(job).error, -ENOSPC);
	kvmm_migrate_free(job);
	cr_expect_str_eq(picture(src), before);
	cr_expect_eq(stat_of(dst).nr_free, nr_free);
	cr_expect_eq(kvmm_validate(dst), 0);
}

Test(local, a_range_longer_than_the_other_pool_finds_no_room_there)
{
	kvmm_range_t a = net_range(src, 'a', 9, 1);
	struct kvmm_migrate_attr longer = attr_of_range(a);
	struct kvmm_migrate_attr as_long = attr_of_range(net_range(src, 'b', 7, 1));
	struct kvmm_migrate *job;

	to_a_smaller_pool(0);
	longer.dst = dst;
	expect_no_room(&longer);
	to_a_smaller_pool(KVMM_POOL_NULL_BLOCK);
	cr_assert_eq(kvmm_range_shrink(src, a, 1), 0);
	longer.dst = as_long.dst = dst;
	expect_no_room(&longer);
	job = begin(&as_long);
	cr_expect_eq(go_on(job), 0);
	kvmm_migrate_free(job);
	cr_expect_str_eq(picture(dst), "Nbbbbbbb");
}

Test(local, more_blocks_than_the_other_pool_has_find_no_room_there)
{
	kvmm_ref_t refs[9];
	struct kvmm_migrate_attr attr;

	register_keys(src, 0, 9, refs);
	to_a_smaller_pool(KVMM_POOL_NULL_BLOCK);
	attr = attr_of_refs(refs, 9);
	expect_no_room(&attr);
	attr = attr_of_refs(refs, 8);
	expect_no_room(&attr);
	cr_expect_eq(kvmm_put_many(src, refs, 9), 0);
}

Test(local, a_source_that_is_gone_cannot_be_resumed)
{
	kvmm_range_t range = net_range(src, 'a', 6, 1), other = net_range(dst, 'b', 12, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job = begin(&attr);

	cr_expect_eq(go_on(job), -ENOSPC);
	cr_expect_eq(kvmm_range_free(src, range), 0);
	cr_expect_eq(kvmm_migrate_resume(job), -ESTALE);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_range_free(dst, other), 0);
}

Test(local, cancelled_while_it_waits_it_leaves_no_trace)
{
	kvmm_range_t range = net_range(src, 'a', 3, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct engine engine = engine_begin(src);
	struct kvmm_migrate *job = begin(&attr);

	cr_expect_eq(go_on(job), -EINPROGRESS);
	cr_expect_eq(kvmm_migrate_cancel(job), 0);
	cr_expect_eq(go_on(job), -ECANCELED);
	cr_expect_eq(kvmm_migrate_cancel(job), -EALREADY);
	cr_expect_eq(kvmm_migrate_resume(job), -EINVAL);
	expect_pictures("aaa.............", "................");
	kvmm_migrate_free(job);
	engine_end(&engine);
	cr_expect_eq(kvmm_range_free(src, range), 0);
}

Test(local, freed_in_the_middle_it_leaves_no_trace)
{
	kvmm_range_t range = net_range(src, 'a', 3, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct engine engine = engine_begin(src);
	struct kvmm_migrate *job = begin(&attr);

	cr_expect_eq(go_on(job), -EINPROGRESS);
	kvmm_migrate_free(job);
	expect_pictures("aaa.............", "................");
	engine_end(&engine);
}

Test(local, bounded_chunks_take_as_many_polls)
{
	kvmm_range_t range = net_range(src, 'a', 12, 1), there;
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job;
	u32 polls = 1;

	attr.chunk_bytes = 2 * NET_BLOCK_BYTES;
	job = begin(&attr);
	while (kvmm_migrate_poll(job) == -EINPROGRESS) {
		if (net_status(job).phase == KVMM_MIGRATE_COPYING)
			cr_expect_leq(net_status(job).nr_copied, 4 * polls);
		polls++;
	}
	cr_expect_gt(polls, 3);
	cr_expect_eq(kvmm_migrate_ranges(job, &there, 1), 1);
	cr_expect(net_range_is(dst, there, 'a', 12));
	kvmm_migrate_free(job);
}

/* Somebody writes to what has been copied, against the rules: it shows. */
Test(local, what_is_not_the_same_on_both_sides_is_never_found)
{
	kvmm_range_t range = net_range(src, 'a', 12, 1), there;
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job;

	attr.chunk_bytes = NET_BLOCK_BYTES;
	job = begin(&attr);
	while (net_status(job).nr_copied < 2)
		cr_assert_eq(kvmm_migrate_poll(job), -EINPROGRESS);
	cr_assert_eq(net_write(src, 0, 'x', 0), 0);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), -EBADMSG);
	expect_pictures("aaaaaaaaaaaa....", "................");
	cr_assert_eq(net_write(src, 0, 'a', 0), 0);
	cr_expect_eq(kvmm_migrate_resume(job), 0);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	cr_expect_eq(kvmm_migrate_ranges(job, &there, 1), 1);
	cr_expect(net_range_is(dst, there, 'a', 12));
	kvmm_migrate_free(job);
}

/* There is room below, and all that may move goes there: what is being written does not. */
Test(local, the_destination_stays_where_it_is_until_it_is_published)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 10 };
	kvmm_range_t hole = net_range(dst, 'h', 4, 1);
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job;
	kvmm_ref_t refs[6];

	net_cache(src, 0, 6);
	net_match(src, 0, 6, refs);
	attr = attr_of_refs(refs, 6);
	attr.chunk_bytes = NET_BLOCK_BYTES;
	job = begin(&attr);
	while (net_status(job).nr_copied < 2)
		cr_assert_eq(kvmm_migrate_poll(job), -EINPROGRESS);
	cr_assert_eq(kvmm_range_free(dst, hole), 0);
	cr_expect_eq(kvmm_compact_start(dst, &goal, KVMM_MOVE_BETWEEN), -ENOSPC);
	expect_pictures("AAAAAA..........", "....PPPPPP......");
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	kvmm_migrate_free(job);
	cr_expect_eq(net_cached(dst, 0, 6), 6);
	expect_pictures("AAAAAA..........", "....IIIIII......");
	cr_assert_eq(kvmm_put_many(src, refs, 6), 0);
}

Test(local, a_forked_child_has_no_jobs)
{
	kvmm_range_t range = net_range(src, 'a', 3, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct kvmm_migrate *job = begin(&attr), *other;
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(kvmm_migrate_poll(job) != -ECHILD ||
		      kvmm_migrate_result(job, KVMM_MIGRATE_GOT_RANGES, NULL, 0) != -ECHILD ||
		      kvmm_migrate_result(job, UINT32_MAX, NULL, 0) != -ECHILD ||
		      kvmm_migrate_start(&attr, &other) != -ECHILD);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	kvmm_migrate_free(job);
}

Test(local, all_ranges_of_a_sequence_go_or_none)
{
	kvmm_range_t first = net_range(src, 'a', 3, 1), second = net_range(src, 'a', 4, 1), there[2];
	struct kvmm_migrate_attr attr = attr_of_range(first);
	struct kvmm_migrate *job;

	attr.what = KVMM_MIGRATE_SEQ;
	attr.seq = 'b';
	cr_expect_eq(kvmm_migrate_start(&attr, &job), -ENOENT);
	attr.seq = 'a';
	cr_assert_eq(kvmm_range_get(src, second), 0);
	cr_expect_eq(kvmm_migrate_start(&attr, &job), -EBUSY);
	cr_assert_eq(kvmm_range_free(src, second), 0);
	expect_pictures("aaaaaaa.........", "................");
	job = begin(&attr);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	cr_expect_eq(kvmm_migrate_ranges(job, there, 2), 2);
	kvmm_migrate_free(job);
	expect_pictures("................", "aaaaaaa.........");
	cr_expect_eq(kvmm_range_find_seq(dst, 'a', NULL, 0), 2);
}

Test(local, who_comes_to_hold_the_range_meanwhile_keeps_it)
{
	kvmm_range_t range = net_range(src, 'a', 3, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range);
	struct engine engine = engine_begin(src);
	struct kvmm_migrate *job = begin(&attr);

	cr_expect_eq(go_on(job), -EINPROGRESS);
	cr_assert_eq(kvmm_range_get(src, range), 0);
	engine_end(&engine);
	cr_expect_eq(go_on(job), -EBUSY);
	cr_expect_eq(net_status(job).phase, KVMM_MIGRATE_DONE);
	kvmm_migrate_free(job);
	expect_pictures("aaa.............", "aaa.............");
	cr_expect_eq(kvmm_range_free(src, range), 0);
	cr_expect_eq(kvmm_range_free(src, range), 0);
}

Test(local, idle_blocks_that_are_hit_on_the_way_stay_as_well)
{
	kvmm_ref_t refs[3];
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job;

	net_cache(src, 0, 3);
	net_match(src, 0, 3, refs);
	attr = attr_of_refs(refs, 3);
	attr.flags = KVMM_MIGRATE_IDLE_ONLY;
	job = begin(&attr);
	cr_assert_eq(kvmm_put_many(src, refs + 1, 2), 0);
	cr_expect_eq(kvmm_migrate_wait(job, 60000000000ull), 0);
	kvmm_migrate_free(job);
	cr_expect_eq(net_cached(src, 0, 3), 1);
	cr_expect_eq(net_cached(dst, 0, 3), 3);
	cr_assert_eq(kvmm_put(src, refs[0]), 0);
}

Test(local, arguments_that_make_no_sense_are_refused)
{
	kvmm_range_t range = net_range(src, 'a', 3, 1);
	struct kvmm_migrate_attr attr = attr_of_range(range), bad;
	struct kvmm_pool *other = make_cache(16, "lru");
	struct kvmm_migrate *job;

	cr_expect_eq(kvmm_migrate_start(NULL, &job), -EINVAL);
	cr_expect_eq(kvmm_migrate_start(&attr, NULL), -EINVAL);
#define REFUSED(field, value, err)						\
	({									\
		bad = attr;							\
		bad.field = value;						\
		cr_expect_eq(kvmm_migrate_start(&bad, &job), err, #field);	\
	})
	REFUSED(src, NULL, -EINVAL);
	REFUSED(dst, NULL, -EINVAL);
	REFUSED(dst, src, -EINVAL);
	REFUSED(dst, other, -EMEDIUMTYPE);
	REFUSED(what, 99, -EINVAL);
	REFUSED(what, KVMM_MIGRATE_REFS, -EINVAL);
	REFUSED(what, KVMM_MIGRATE_KEYS, -EINVAL);
	REFUSED(what, KVMM_MIGRATE_SEQ, -EINVAL);
	REFUSED(flags, 1u << 31, -EINVAL);
	REFUSED(max_runs, KVMM_MAX_RUNS + 1, -EINVAL);
	REFUSED(range.gen, 0, -EINVAL);
	REFUSED(size, 3, -EINVAL);
	cr_expect_eq(kvmm_migrate_poll(NULL), -EINVAL);
	cr_expect_eq(kvmm_migrate_cancel(NULL), -EINVAL);
	cr_expect_eq(kvmm_migrate_resume(NULL), -EINVAL);
	cr_expect_eq(kvmm_migrate_ranges(NULL, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_migrate_refs(NULL, NULL, 0), -EINVAL);
	kvmm_migrate_free(NULL);
	expect_pictures("aaa.............", "................");
	end_pool(other);
}
