// SPDX-License-Identifier: Apache-2.0
/* Compaction and migration by the socket: planned, begun, watched, called off. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include <kvmm/ext/migrate.h>

#include "ctl/control.h"
#include "pool/internal.h"
#include "tests/ctl/two_pools.h"

TestSuite(steer, .init = set_up, .fini = tear_down);

/* ---- compaction ---- */

/* Instead of beta. */
static void paint_beta(const char *want)
{
	kvmm_range_t range[26];

	cr_assert_eq(kvmm_control_remove_pool(control, beta), 0);
	end_pool(beta);
	beta = make_pool(strlen(want));
	cr_assert_eq(kvmm_control_add_pool(control, "beta", beta), 0);
	paint(beta, want, range);
}

Test(steer, a_plan_moves_nothing_and_a_run_does)
{
	paint_beta("a.b.c.d.");
	has(ask(control, fd, "compact-status beta"), "\nnone\trun\t");
	has(ask(control, fd, "compact-plan beta want=4 between"), "\nrun\t4\t0\t2\t2\t128\t");
	cr_expect_str_eq(picture(beta), "a.b.c.d.");
	has(ask(control, fd, "compact-plan beta want=4 between"), "\t0\t1\t4\t1000000\t0\t4\t4\n");
	has(ask(control, fd, "compact-run beta want=4 between"), "\tunusable_ppm_after\n");
	control_settle(control);
	has(ask(control, fd, "compact-status beta"), "\ndone\trun\t4\t0\t2\t0\t2\t128\t0\t");
	cr_expect_not_null(strstr(picture(beta), "...."), "%s", picture(beta));
	has(ask(control, fd, "compact-cancel beta"), "#stay\n0\n");
	has(ask(control, fd, "compact-run beta want=7"), "no allowed moves");
	has(ask(control, fd, "compact-run beta wants=7"), "unknown word 'wants=7'; try help compact-plan");
	has(ask(control, fd, "compact-run beta goal=peace"), "there is no goal 'peace'");
	has(ask(control, fd, "compact-plan beta"), "goal run needs want=N");
	has(ask(control, fd, "compact-plan beta goal=pageblocks want=1 pageblock=3"),
	    "goal pageblocks needs want=N");
	has(ask(control, fd, "compact-plan beta goal=gather"), "goal gather needs seq=N");
	cr_expect_null(strstr(ask(control, fd, "compact-plan beta goal=gather seq=97"), "needs seq=N"));
	cr_expect_null(strstr(ask(control, fd, "compact-plan beta want=7 max_blocks=1"), "\nrun\t1\t"));
	has(ask(control, fd, "compact-plan beta want=4294967296"), "is no number from 0 to ");
	/* Cached blocks are in the way unless they may go. */
	cache_keys(alpha, 1, 16);
	has(ask(control, fd, "compact-plan alpha want=16"), "no allowed moves");
	has(ask(control, fd, "compact-plan alpha want=16 calm"), "no allowed moves");
	has(ask(control, fd, "compact-plan alpha want=16 drop"), "\nrun\t16\t0\t0\t0\t0\t16\t");
}

/* NULL: what there is to do. What was asked for is in @goal_asked then. */
static const struct kvmm_compact_plan *plan_says;
static struct kvmm_compact_goal goal_asked;

int __real_kvmm_compact_goal_start(struct kvmm_pool *pool, const struct kvmm_compact_goal *goal,
				   struct kvmm_compact_plan *plan);
int __wrap_kvmm_compact_goal_start(struct kvmm_pool *pool, const struct kvmm_compact_goal *goal,
				   struct kvmm_compact_plan *plan);

int __wrap_kvmm_compact_goal_start(struct kvmm_pool *pool, const struct kvmm_compact_goal *goal,
				   struct kvmm_compact_plan *plan)
{
	if (!plan_says || !(goal->flags & KVMM_GOAL_PLAN))
		return __real_kvmm_compact_goal_start(pool, goal, plan);
	goal_asked = *goal;
	goal_asked.flags &= ~KVMM_GOAL_PLAN;
	*plan = *plan_says;
	return 0;
}

/* Each number is another. */
static const struct kvmm_compact_plan plan_of_numbers = {
	.size = sizeof(plan_of_numbers), .is_partial = 31, .nr_moves = 32, .moved_blocks = 33,
	.moved_bytes = 34, .nr_drops = 35, .nr_empty = 36, .saved_extents = 37, .run = { 38, 39 },
	.copy_ns = 40, .plan_ns = 41, .before = { .largest = 42, .unusable_ppm = 44, .extents = 46 },
	.after = { .largest = 43, .unusable_ppm = 45, .extents = 47 },
};

Test(steer, each_number_of_a_plan_has_its_column)
{
	plan_says = &plan_of_numbers;
	has(ask(control, fd, "compact-plan alpha want=30"),
	    "\n#goal:s\twant\tpartial\tmoves\tblocks\tbytes\tdrops\tempty\tsaved_extents\trun_start\trun_blocks\t"
	    "copy_ns\tplan_ns\tlargest_before\tlargest_after\tunusable_ppm_before\tunusable_ppm_after\t"
	    "extents_before\textents_after\n"
	    "run\t30\t31\t32\t33\t34\t35\t36\t37\t38\t39\t40\t41\t42\t43\t44\t45\t46\t47\n");
	plan_says = NULL;
}

Test(steer, each_word_is_a_part_of_the_goal)
{
	const struct kvmm_compact_goal *goal = &goal_asked;

	plan_says = &plan_of_numbers;
	has(ask(control, fd, "compact-plan alpha"), "ok ");
	cr_expect(goal->goal == KVMM_GOAL_RUN && goal->mode == KVMM_MOVE_BESIDE && !goal->flags);
	cr_expect(!goal->want && goal->pageblock_blocks == 64 && !goal->max_blocks && !goal->max_us &&
		  !goal->max_bytes && !goal->seq);
	has(ask(control, fd, "compact-plan alpha goal=gather want=11 pageblock=12 max_blocks=13 max_us=14 "
		"max_bytes=8589934593 seq=8589934594 between"), "ok ");
	cr_expect(goal->goal == KVMM_GOAL_GATHER && goal->mode == KVMM_MOVE_BETWEEN && !goal->flags);
	cr_expect(goal->want == 11 && goal->pageblock_blocks == 12 && goal->max_blocks == 13 &&
		  goal->max_us == 14 && goal->max_bytes == 8589934593ull && goal->seq == 8589934594ull);
	has(ask(control, fd, "compact-plan alpha drop"), "ok ");
	cr_expect_eq(goal->flags, KVMM_GOAL_DROP);
	has(ask(control, fd, "compact-plan alpha calm"), "ok ");
	cr_expect_eq(goal->flags, KVMM_GOAL_CALM);
	has(ask(control, fd, "compact-plan alpha drop best"), "ok ");
	cr_expect_eq(goal->flags, KVMM_GOAL_DROP | KVMM_GOAL_BEST);
	plan_says = NULL;
}

Test(steer, the_best_that_is_in_reach_is_taken_if_that_will_do)
{
	paint_beta("aa..bbb..ccc..dd..");
	has(ask(control, fd, "compact-plan beta want=8 max_blocks=2 between"), "no allowed moves");
	expect_cell(ask(control, fd, "compact-plan beta want=8 max_blocks=2 between best"), "partial", "1");
	expect_cell(ask(control, fd, "compact-plan beta want=8 max_blocks=2 between best"), "run_blocks", "6");
}

/* Six blocks are free; four of them are in a pageblock that is empty, then. */
Test(steer, what_is_unusable_is_about_the_length_that_was_asked_for)
{
	paint_beta("a...bb..ccc.dddd");
	has(ask(control, fd, "compact-status beta"), "unusable_ppm_after\n");
	has(ask(control, fd, "compact-run beta goal=pageblocks pageblock=4 want=1 between"), "ok ");
	control_settle(control);
	cr_expect_str_eq(picture(beta), "....bb..cccadddd");
	expect_cell(ask(control, fd, "compact-status beta"), "state", "done");
	expect_cell(ask(control, fd, "compact-status beta"), "unusable_ppm_after", "333333");
}

/* In alpha: ".A.A.A.A........" */
static void hold_every_other(kvmm_ref_t refs[8])
{
	kvmm_key_t keys[8];
	kvmm_mut_t muts[8];
	u32 block;

	for (u32 i = 0; i < 8; i++)
		keys[i] = key_of(1 + i);
	cr_assert_eq(kvmm_alloc(alpha, 8, muts), 0);
	cr_assert_eq(kvmm_register(alpha, muts, keys, 8, refs), 0);
	for (u32 i = 0; i < 8; i += 2) {
		block = kvmm_block_of_ref(alpha, refs[i]);
		cr_assert_eq(kvmm_put(alpha, refs[i]), 0);
		cr_assert_eq(kvmm_evict_blocks(alpha, &block, 1), 1);
	}
	cr_expect_str_eq(picture(alpha), ".A.A.A.A........");
}

static void put_every_other(const kvmm_ref_t refs[8])
{
	for (u32 i = 1; i < 8; i += 2)
		cr_assert_eq(kvmm_put(alpha, refs[i]), 0);
}

/* A step reads the old places: until it has ended, so has not the run. */
Test(steer, a_run_goes_on_until_nobody_reads_what_has_moved)
{
	kvmm_ref_t refs[8];
	kvmm_stream_t id;
	u64 epoch;

	hold_every_other(refs);
	cr_assert_eq(kvmm_stream_add(alpha, NULL, 0, &id), 0);
	cr_assert_eq(kvmm_step_begin(alpha, id, &epoch), 0);
	has(ask(control, fd, "compact-run alpha want=11 between"), "a step is open");
	has(ask(control, fd, "compact-run alpha want=11"), "\nmoves\trun\t11\t0\t2\t2\t2\t128\t0\t0\t");
	cr_expect_eq(kvmm_control_poll(control), 2, "it is looked at soon");
	has(ask(control, fd, "compact-run alpha want=11"), "err 114 46\nthe last one has not ended");
	fake_env_advance(&fake, 7000000);
	has(ask(control, fd, "compact-status alpha"), "\t2\t2\t2\t128\t0\t7000000\t");
	has(ask(control, fd, "compact-status alpha"), "\t8\t12\t1000000\t-\n");
	cr_assert_eq(kvmm_step_end(alpha, id, epoch), 0);
	cr_assert_eq(kvmm_stream_del(alpha, id), 0);
	control_settle(control);
	fake_env_advance(&fake, 5000000);
	has(ask(control, fd, "compact-status alpha"), "\ndone\trun\t11\t0\t2\t0\t2\t128\t0\t7000000\t");
	has(ask(control, fd, "compact-status alpha"), "\t8\t12\t1000000\t0\n");
	put_every_other(refs);
}

/* What waits for its turn to be copied is given up at once; nobody has moved. */
Test(steer, a_run_that_is_called_off_is_cancelled)
{
	kvmm_ref_t refs[8];

	hold_every_other(refs);
	has(ask(control, fd, "set alpha pace_bytes_per_ms 1"), "ok ");
	expect_cell(ask(control, fd, "compact-run alpha want=11"), "state", "moves");
	expect_cell(ask(control, fd, "compact-status alpha"), "left", "2");
	has(ask(control, fd, "compact-cancel alpha"), "#stay\n2\n");
	expect_cell(ask(control, fd, "compact-status alpha"), "state", "cancelled");
	expect_cell(ask(control, fd, "compact-status alpha"), "left", "0");
	expect_cell(ask(control, fd, "compact-status alpha"), "unusable_ppm_after", "1000000");
	cr_expect_str_eq(picture(alpha), ".A.A.A.A........");
	control_settle(control);
	expect_cell(ask(control, fd, "compact-status alpha"), "state", "cancelled");
	has(ask(control, fd, "set alpha pace_bytes_per_ms 0"), "ok ");
	put_every_other(refs);
}

/* ---- migration ---- */

Test(steer, a_sequence_goes_to_another_pool)
{
	kvmm_range_t range;

	take_seq(alpha, 3, 0, 7);
	has(ask(control, fd, "migrate-status alpha"), "\tns\tstop_ns\tstop_blocks\n");
	has(ask(control, fd, "migrate-start alpha beta 7"), "\n1\t7\tbeta\t0\t");
	control_settle(control);
	has(ask(control, fd, "migrate-status alpha"), "\n1\t7\tbeta\t0\tdone\t0\t");
	cr_expect_eq(kvmm_range_find_seq(alpha, 7, &range, 1), 0);
	cr_expect_eq(kvmm_range_find_seq(beta, 7, &range, 1), 1);
	has(ask(control, fd, "migrate-cancel alpha 1"), "err 114 ");
	has(ask(control, fd, "migrate-cancel alpha 2"), "there is no migration 2");
	has(ask(control, fd, "migrate-start alpha beta 7"), "there is no sequence 7");
	has(ask(control, fd, "migrate-start alpha alpha 7"), "there is no other pool 'alpha'");
	has(ask(control, fd, "migrate-start alpha beta 7 fast"), "unknown word 'fast'; try help migrate-start");
}

Test(steer, a_sequence_that_decodes_goes_until_it_is_told_to_have_stopped)
{
	kvmm_range_t range;

	take_seq(alpha, 3, 0, 7);
	cr_assert_eq(kvmm_range_find_seq(alpha, 7, &range, 1), 1);
	cr_assert_eq(kvmm_range_seal(alpha, range, 1), 0);
	has(ask(control, fd, "migrate-start alpha beta 7 precopy"), "\n1\t7\tbeta\t0\t");
	for (u32 i = 0; i < 50; i++)
		cr_assert_geq(kvmm_control_poll(control), 0);
	has(ask(control, fd, "migrate-status alpha"), "\twait\t0\tlocal\t1\t0\t1\t1\t");
	has(ask(control, fd, "migrate-finish alpha 1"), "\n1\t7\tbeta\t0\t");
	control_settle(control);
	has(ask(control, fd, "migrate-status alpha"), "\tdone\t0\tlocal\t3\t0\t3\t3\t");
	has(ask(control, fd, "migrate-status alpha"), "\t2\n");
	cr_expect_eq(kvmm_range_find_seq(beta, 7, &range, 1), 1);
	has(ask(control, fd, "migrate-finish alpha 1"), "err 114 ");
}

Test(steer, a_copy_leaves_the_source)
{
	kvmm_range_t range;

	take_seq(alpha, 3, 0, 7);
	has(ask(control, fd, "migrate-start alpha beta 7 copy"), "\n1\t7\tbeta\t1\t");
	control_settle(control);
	cr_expect_eq(kvmm_range_find_seq(alpha, 7, &range, 1), 1);
	cr_expect_eq(kvmm_range_find_seq(beta, 7, &range, 1), 1);
}

/* Sixteen are remembered, and told in the order of their numbers. */
Test(steer, migrations_that_ended_first_are_forgotten_first)
{
	const char *answer;
	char want[32];

	take_seq(alpha, 1, 0, 7);
	for (u32 i = 1; i <= 18; i++) {
		has(ask(control, fd, "migrate-start alpha beta 7 copy"), "ok ");
		control_settle(control);
	}
	answer = strchr(ask(control, fd, "migrate-status alpha"), '#');
	for (u32 i = 3; i <= 18; i++) {
		snprintf(want, sizeof(want), "\n%u\t7\tbeta\t1\t", i);
		answer = strchr(answer, '\n');
		cr_assert(!strncmp(answer++, want, strlen(want)), "%s", answer);
	}
}

Test(steer, names_of_targets_are_cells_and_not_too_long)
{
	char line[300] = "migrate-start alpha ", *end = line + strlen(line);

	cr_assert_eq(kvmm_control_remove_pool(control, beta), 0);
	cr_assert_eq(kvmm_control_add_pool(control, "b\\x", beta), 0);
	take_seq(alpha, 1, 0, 7);
	has(ask(control, fd, "migrate-start alpha b\\x 7"), "\n1\t7\tb\\x5cx\t");
	memset(end, 'n', 252);
	strcpy(end + 252, " 7");
	has(ask(control, fd, line), "that name is too long");
}

/* A process that listens, and never says anything. */
static int listen_silently(char path[160])
{
	int silent;

	snprintf(path, 160, "%s/silent.sock", folder);
	silent = kv_sock()->listen(NULL, path);
	cr_assert_geq(silent, 0);
	return silent;
}

static void end_silence(int silent, const char *path)
{
	kv_sock()->close(NULL, silent);
	kv_sock()->unlink(NULL, path);
}

Test(steer, a_sequence_that_does_not_decode_is_not_told_to_have_stopped)
{
	char path[160], line[256];
	int silent = listen_silently(path);

	take_seq(alpha, 3, 0, 7);
	snprintf(line, sizeof(line), "migrate-start alpha %s 7", path);
	has(ask(control, fd, line), "\n1\t7\t");
	has(ask(control, fd, "migrate-finish alpha 1"), "it was not begun with precopy");
	end_silence(silent, path);
}

Test(steer, who_does_not_answer_is_not_waited_for_for_ever)
{
	char path[160], line[256];
	int silent = listen_silently(path);

	take_seq(alpha, 3, 0, 7);
	snprintf(line, sizeof(line), "migrate-start alpha %s 7", path);
	has(ask(control, fd, line), "\tprepare\t0\t");
	fake_env_advance(&fake, 29 * 1000000000ull);
	has(ask(control, fd, "migrate-status alpha"), "\tprepare\t0\t");
	fake_env_advance(&fake, 2 * 1000000000ull);
	control_settle(control);
	has(ask(control, fd, "migrate-status alpha"), "\tcancelled\t-125\t");
	has(ask(control, fd, "migrate-start alpha beta 7"), "\n2\t7\tbeta\t0\t");	/* not pinned */
	end_silence(silent, path);
}

static u32 nr_links(struct kvmm_migrate_server *server)
{
	struct kvmm_migrate_serve_stat stat;

	for (u32 i = 0; i < 200; i++) {
		control_settle(control);
		kvmm_migrate_serve_tick(server);
	}
	cr_assert_eq(kvmm_migrate_serve_get_stat(server, &stat), 0);
	return stat.nr_links;
}

Test(steer, the_next_migration_to_a_process_goes_by_the_link_of_the_last)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_server *server;
	char path[160], line[256];

	snprintf(path, sizeof(path), "%s/taker.sock", folder);
	attr.pool = beta;
	attr.path = path;
	cr_assert_eq(kvmm_migrate_serve(&attr, &server), 0);
	take_seq(alpha, 1, 0, 7);
	snprintf(line, sizeof(line), "migrate-start alpha %s 7 copy", path);
	for (u32 i = 1; i < 4; i++) {
		has(ask(control, fd, line), "\tprepare\t0\t");
		cr_expect_eq(nr_links(server), 1);
		cr_expect_eq(kvmm_range_find_seq(beta, 7, NULL, 0), i);
		fake_env_advance(&fake, 6 * 1000000000ull);
	}
	cr_expect_eq(nr_links(server), 1);
	fake_env_advance(&fake, 5 * 1000000000ull);
	cr_expect_eq(nr_links(server), 0);
	has(ask(control, fd, line), "\tprepare\t0\t");
	cr_expect_eq(nr_links(server), 1);
	kvmm_migrate_serve_end(server);
}

/* It is called, with a key; whether UCX is there to do that is the machine's matter. */
Test(steer, a_sequence_may_be_sent_to_another_machine)
{
	char key[160], line[400];
	u16 port;
	int door = kv_sock()->tcp_listen(NULL, "127.0.0.1:0", &port);
	FILE *file;

	take_seq(alpha, 3, 0, 7);
	snprintf(key, sizeof(key), "%s/key", folder);
	file = fopen(key, "w");
	cr_assert(file && fprintf(file, "%064x", 7) == 64 && !fclose(file) && !chmod(key, 0600));
	snprintf(line, sizeof(line), "migrate-start alpha ucx://127.0.0.1:%u 7 key=%s", port, key);
	if (strstr(ask(control, fd, line), "err 95 "))
		fprintf(stderr, "SKIPPED: %s\n", kvmm_why());
	else
		has(ask(control, fd, "migrate-status alpha"), "\tprepare\t0\t");
	snprintf(line, sizeof(line), "migrate-start alpha beta 7 key=%s", key);
	has(ask(control, fd, line), "err 22 ");
	has(ask(control, fd, "migrate-start alpha carrier://127.0.0.1:1 7"), "err 22 ");
	kv_sock()->close(NULL, door);
	unlink(key);
}

/* NULL: how it is. */
static const struct kvmm_migrate_status *status_says;

int __real_kvmm_migrate_get_status_sized(const struct kvmm_migrate *job,
					 struct kvmm_migrate_status *status, size_t size);
int __wrap_kvmm_migrate_get_status_sized(const struct kvmm_migrate *job,
					 struct kvmm_migrate_status *status, size_t size);

int __wrap_kvmm_migrate_get_status_sized(const struct kvmm_migrate *job,
					 struct kvmm_migrate_status *status, size_t size)
{
	if (!status_says)
		return __real_kvmm_migrate_get_status_sized(job, status, size);
	*status = *status_says;
	return 0;
}

/* Each number is another. */
Test(steer, each_number_of_a_migration_has_its_column)
{
	static const struct kvmm_migrate_status says = {
		.phase = KVMM_MIGRATE_DONE, .error = -31, .path = KVMM_MIGRATE_PATH_PEER, .nr_blocks = 32,
		.nr_present = 33, .nr_copied = 34, .nr_verified = 35, .bytes = 36, .nr_src_runs = 37,
		.nr_dst_runs = 38, .nr_descriptors = 39, .attempts = 40, .in_doubt = 41,
		.phase_ns = { 1000, 200, 30 }, .stop_ns = 42, .nr_stop = 43,
	};
	const char *answer;

	take_seq(alpha, 3, 0, 7);
	status_says = &says;
	answer = ask(control, fd, "migrate-start alpha beta 7");
	has(answer, "\n#id\tseq\ttarget:s\tcopy\tphase:s\terror\tpath:s\tblocks\tpresent\tcopied\tverified\t"
	    "bytes\tsrc_runs\tdst_runs\tdescriptors\tattempts\tin_doubt\tns\t"
	    "stop_ns\tstop_blocks\n");
	has(answer, "\n1\t7\tbeta\t0\tdone\t-31\tpeer\t32\t33\t34\t35\t36\t37\t38\t39\t40\t41\t1230\t42\t43\n");
	control_settle(control);
	status_says = NULL;
}

static u32 migrate_flags;

int __real_kvmm_migrate_start(const struct kvmm_migrate_attr *attr, struct kvmm_migrate **job);
int __wrap_kvmm_migrate_start(const struct kvmm_migrate_attr *attr, struct kvmm_migrate **job);

int __wrap_kvmm_migrate_start(const struct kvmm_migrate_attr *attr, struct kvmm_migrate **job)
{
	migrate_flags = attr->flags;
	return __real_kvmm_migrate_start(attr, job);
}

Test(steer, words_behind_a_migration_are_its_flags)
{
	take_seq(alpha, 1, 0, 7);
	has(ask(control, fd, "migrate-start alpha beta 9"), "there is no sequence 9");
	cr_expect_eq(migrate_flags, 0);
	has(ask(control, fd, "migrate-start alpha beta 9 background"), "there is no sequence 9");
	cr_expect_eq(migrate_flags, KVMM_MIGRATE_BACKGROUND);
	has(ask(control, fd, "migrate-start alpha beta 9 no_evict"), "there is no sequence 9");
	cr_expect_eq(migrate_flags, KVMM_MIGRATE_NO_EVICT);
	has(ask(control, fd, "migrate-start alpha beta 9 copy no_evict background precopy any"), "err ");
	cr_expect_eq(migrate_flags, KVMM_MIGRATE_COPY | KVMM_MIGRATE_BACKGROUND |
				    KVMM_MIGRATE_NO_EVICT | KVMM_MIGRATE_PRECOPY |
				    KVMM_MIGRATE_ANY);
}

Test(steer, a_migration_that_does_not_start_leaves_no_connection)
{
	char path[160], line[256];
	int silent = listen_silently(path), nr_free;

	take_seq(alpha, 1, 0, 7);
	has(ask(control, fd, "migrate-status alpha"), "ok ");
	has(ask(control, fd, "migrate-start alpha beta 9"), "there is no sequence 9");
	nr_free = dup(fd);
	close(nr_free);
	snprintf(line, sizeof(line), "migrate-start alpha %s 9", path);
	for (u32 i = 0; i < 3; i++) {
		has(ask(control, fd, line), "there is no sequence 9");
		cr_expect_eq(dup(fd), nr_free, "a descriptor is lost");
		close(nr_free);
	}
	end_silence(silent, path);
}

Test(steer, a_migration_that_runs_is_not_forgotten_for_another_one)
{
	char path[160], line[256];
	int silent = listen_silently(path);

	for (u32 i = 1; i <= 16; i++) {
		take_seq(alpha, 1, 0, i);
		snprintf(line, sizeof(line), "migrate-start alpha %s %u", path, i);
		has(ask(control, fd, line), "\tprepare\t0\t");
	}
	has(ask(control, fd, "migrate-start alpha beta 16"), "err 11 38\n16 migrations of this pool run already");
	has(ask(control, fd, "migrate-cancel alpha 5"), "\n5\t5\t");
	control_settle(control);
	has(ask(control, fd, "migrate-start alpha beta 5"), "\n17\t5\tbeta\t");
	control_settle(control);
	has(ask(control, fd, "migrate-status alpha"), "\n4\t4\t");
	has(ask(control, fd, "migrate-status alpha"), "\n6\t6\t");
	has(ask(control, fd, "migrate-status alpha"), "\n17\t5\tbeta\t0\tdone\t");
	cr_expect_null(strstr(ask(control, fd, "migrate-status alpha"), "\n5\t5\t"));
	end_silence(silent, path);
}

/* The place where it goes to is taken away while it is on its way. */
Test(steer, a_pool_that_is_removed_is_not_looked_at_any_more)
{
	kvmm_range_t range;
	u32 again_ms = 0;

	take_seq(alpha, 3, 0, 7);
	say(fd, "migrate-start alpha beta 7\n");
	kv_lock(&control->poll_lock);
	while (!control->stat.requests)
		again_ms = control_round(control, 0);
	kv_unlock(&control->poll_lock);
	cr_expect_eq(again_ms, 1, "there is something to go on with");
	cr_assert_eq(kvmm_control_remove_pool(control, beta), 0);
	end_pool(beta);
	beta = make_cache(16, "lru");
	control_settle(control);
	hear(fd);
	has(ask(control, fd, "migrate-status alpha"), "\n1\t7\tbeta\t0\tcancelled\t");
	cr_expect_leq(kvmm_range_find_seq(alpha, 7, &range, 1), 1);
}

/* Turns of a precopy together take as long as they do; only one that stands still is given up. */
Test(steer, a_migration_that_gets_on_has_all_the_time_it_needs)
{
	struct kvmm_migrate_status says = { .phase = KVMM_MIGRATE_VERIFY };
	char path[160], line[256];
	int silent = listen_silently(path);

	take_seq(alpha, 3, 0, 7);
	status_says = &says;
	snprintf(line, sizeof(line), "migrate-start alpha %s 7", path);
	has(ask(control, fd, line), "\tverify\t0\t");
	for (u32 i = 0; i < 4; i++) {
		says.nr_verified++;
		says.phase_ns[KVMM_MIGRATE_VERIFY] += 20 * 1000000000ull;
		fake_env_advance(&fake, 20 * 1000000000ull);
		has(ask(control, fd, "migrate-status alpha"), "\tverify\t0\t");
		control_settle(control);
	}
	has(ask(control, fd, "migrate-cancel alpha 1"), "ok ");
	status_says = NULL;
	control_settle(control);
	end_silence(silent, path);
}
