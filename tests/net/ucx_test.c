// SPDX-License-Identifier: Apache-2.0
/*
 * Migration as between two machines: by a TLS link and UCX, here over loopback. What both sides have
 * after each end of it; givers that do not know the key, or say nothing; what is missing here.
 */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kv/env.h>
#include <kv/sys.h>

#include "net/transport.h"
#include "tests/net/pair.h"
#include "tests/support/fake_env.h"
#include "tests/support/test.h"

static struct pair pair;

static bool have_pair(void)
{
	const char *way = getenv("KVMM_TEST_TRANSPORT");
	bool have = pair_init_far(&pair, way ? way : "ucx", 8 * NET_BLOCK_BYTES);

	if (!have)
		fprintf(stderr, "SKIPPED: %s\n", kvmm_why());
	return have;
}

/* Until the job ends, or @ms have passed. */
static int run_for(struct kvmm_migrate *job, u32 ms)
{
	u64 begin = kv_clock_ns();
	int err = -EINPROGRESS;

	while (err == -EINPROGRESS && kv_ns_since(begin) < ms * 1000000ull) {
		err = kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
	}
	return err;
}

/* ---- what goes ---- */

Test(ucx, a_range_and_a_prompt_go_in_more_parts_than_the_window_has_room_for)
{
	struct kvmm_migrate_attr attr;
	struct kvmm_migrate *job;
	kvmm_ref_t refs[20];

	if (!have_pair())
		return;
	job = pair_begin_range(&pair, 'a', 40);
	cr_expect_eq(run_for(job, 20000), 0);
	cr_expect_eq(net_status(job).path, KVMM_MIGRATE_PATH_REMOTE);
	cr_expect_eq(net_status(job).nr_copied, 40);
	cr_expect_eq(net_status(job).nr_verified, 40);
	kvmm_migrate_free(job);
	cr_expect(pair_range_is_there(&pair, 'a', 40));

	net_cache(pair.src, 0, 20);
	net_match(pair.src, 0, 20, refs);
	attr = pair_attr(&pair);
	attr.what = KVMM_MIGRATE_REFS;
	attr.refs = refs;
	attr.nr_refs = 20;
	cr_assert_eq(kvmm_migrate_start(&attr, &job), 0);
	cr_assert_eq(kvmm_put_many(pair.src, refs, 20), 0);
	cr_expect_eq(run_for(job, 20000), 0);
	kvmm_migrate_free(job);
	cr_expect_eq(net_cached(pair.dst, 0, 20), 20);
	cr_expect_eq(net_cached(pair.src, 0, 20), 0);
	pair_exit(&pair);
}

static u32 nr_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	u32 nr = 0;

	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

Test(ucx, links_that_have_ended_leave_no_descriptor)
{
	u32 before = 0;

	if (!have_pair())
		return;
	for (u32 i = 0; i < 4; i++) {
		struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 4);

		cr_expect_eq(run_for(job, 20000), 0);
		kvmm_migrate_free(job);
		pair_settle(&pair);
		cr_expect(pair_range_is_there(&pair, 'a', 4));
		cr_expect_eq(pair_stat(&pair).nr_links, 0);
		before = i ? before : nr_descriptors();		/* a library is loaded once */
		cr_expect_eq(nr_descriptors(), before);
	}
	pair_exit(&pair);
}

Test(ucx, a_job_takes_over_the_link_of_the_one_before)
{
	struct kvmm_migrate *job = NULL, *before;

	if (!have_pair())
		return;
	for (u64 seq = 'a'; seq < 'e'; seq++) {
		before = job;
		job = pair_begin_after(&pair, seq, 40, before);
		kvmm_migrate_poll(job);
		cr_expect_eq(net_status(job).phase > KVMM_MIGRATE_PREPARE, before != NULL);
		kvmm_migrate_free(before);
		cr_expect_eq(run_for(job, 20000), 0);
		cr_expect_eq(pair_stat(&pair).nr_links, 1);
		cr_expect(pair_range_is_there(&pair, seq, 40));
	}
	kvmm_migrate_free(job);
	pair_exit(&pair);
}

/* ---- ends of all kinds ---- */

/* @cut: which call of the socket's breaks it. Whether it came to that. */
static bool run_cut(u32 cut)
{
	const struct spoil how = { .cut_at = cut };
	struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 20);
	bool came, in_doubt;
	int err;

	spoil_begin(&how);
	err = run_for(job, 20000);
	came = spoil.nr_calls >= cut;
	spoil_end();
	in_doubt = net_status(job).in_doubt;
	cr_expect(err == 0 || err == -ECONNRESET, "cut %u: %d", cut, err);
	cr_expect_eq(kvmm_validate(pair.src), 0);
	cr_expect_eq(kvmm_validate(pair.dst), 0);
	cr_expect(!err || kvmm_range_find_seq(pair.src, 'a', NULL, 0) == 1, "cut %u: lost", cut);
	cr_expect(in_doubt || !err || !kvmm_range_find_seq(pair.dst, 'a', NULL, 0), "cut %u", cut);
	pair_settle(&pair);
	if (err) {
		cr_assert_eq(kvmm_migrate_resume(job), 0);
		cr_assert_eq(run_for(job, 20000), 0);
	}
	kvmm_migrate_free(job);
	pair_settle(&pair);
	cr_expect(pair_range_is_there(&pair, 'a', 20));
	cr_expect_eq(net_nr_free(pair.src), 64, "cut %u", cut);
	cr_expect_eq(net_nr_free(pair.dst), 64, "cut %u", cut);
	return came;
}

/* How often a socket is found empty depends on time: not each call is a message. */
Test(ucx, a_link_may_break_anywhere_and_goes_on_where_it_was)
{
	u32 cut = 1, nr = 0;

	if (!have_pair())
		return;
	while (run_cut(cut) && nr < 40) {
		cut += 1 + cut / 8;
		nr++;
	}
	cr_expect_gt(nr, 8);
	cr_expect_eq(pair_stat(&pair).commits, nr + 1, "each one once");
	pair_exit(&pair);
}

Test(ucx, a_taker_that_ends_in_the_middle_leaves_the_source_whole)
{
	const struct kvmm_migrate_serve_attr again = { .window_bytes = 8 * NET_BLOCK_BYTES,
						       .size = sizeof(again) };
	struct kvmm_migrate *job;

	if (!have_pair())
		return;
	job = pair_begin_range(&pair, 'a', 40);
	for (u32 i = 0; i < 1000000 && net_status(job).nr_copied < 8; i++) {
		kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
	}
	kvmm_migrate_serve_end(pair.server);
	cr_expect_eq(net_nr_free(pair.dst), 64);
	cr_expect_eq(kvmm_migrate_wait(job, 20000000000), -ECONNRESET);
	cr_expect_eq(kvmm_range_find_seq(pair.src, 'a', NULL, 0), 1);
	pair_serve(&pair, &again);
	cr_assert_eq(kvmm_migrate_resume(job), 0);
	cr_expect_eq(run_for(job, 20000), 0);
	kvmm_migrate_free(job);
	cr_expect(pair_range_is_there(&pair, 'a', 40));
	pair_exit(&pair);
}

Test(ucx, a_job_may_be_cancelled_while_content_is_on_its_way)
{
	if (!have_pair())
		return;
	for (u32 nr = 1; nr < 400; nr += 1 + nr / 4) {
		struct kvmm_migrate *job = pair_begin_range(&pair, 'a', 40);

		/* UCX before 1.14 does not get over the end of a TCP link that it is still making. */
		while (net_status(job).phase == KVMM_MIGRATE_PREPARE) {
			kvmm_migrate_poll(job);
			kvmm_migrate_serve_tick(pair.server);
		}
		for (u32 i = 0; i < nr; i++) {
			kvmm_migrate_poll(job);
			kvmm_migrate_serve_tick(pair.server);
		}
		if (!kvmm_migrate_cancel(job)) {
			cr_expect_eq(run_for(job, 20000), -ECANCELED);
			cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
		} else {
			cr_expect_eq(run_for(job, 20000), 0);
			cr_expect(pair_range_is_there(&pair, 'a', 40));
		}
		kvmm_migrate_free(job);
		pair_settle(&pair);
		cr_expect_eq(net_nr_free(pair.dst), 64);
	}
	pair_exit(&pair);
}

/* ---- a flush that fails behind a put that may be on its way ---- */

static void *(*true_flush)(void *ep, const void *param);
static void (*true_destroy)(void *worker);
static u32 nr_flushes_left, nr_workers_ended;

static void *fail_flush(void *ep, const void *param)
{
	return nr_flushes_left && --nr_flushes_left ? true_flush(ep, param) : (void *)(intptr_t)-3;
}

static void count_destroy(void *worker)
{
	nr_workers_ended++;
	true_destroy(worker);
}

static void *find_poor(void *ctx, void *library, const char *name)
{
	void *fn = kv_sys_system.find_symbol(ctx, library, name), *poor = NULL;

	if (!strcmp(name, "ucp_ep_flush_nbx")) {
		memcpy(&true_flush, &fn, sizeof(fn));
		poor = fail_flush;
	} else if (!strcmp(name, "ucp_worker_destroy")) {
		memcpy(&true_destroy, &fn, sizeof(fn));
		poor = count_destroy;
	}
	return fn && poor ? poor : fn;
}

Test(ucx, a_part_that_cannot_be_put_ends_the_link_before_its_blocks_are_given_back)
{
	struct kv_sys_ops poor = kv_sys_system;
	struct kvmm_migrate *job;

	if (!have_pair())
		return;
	poor.find_symbol = find_poor;
	kv_sys_set(&poor);
	nr_flushes_left = 2;			/* the link's first words, and no content */
	job = pair_begin_range(&pair, 'a', 40);
	while (kvmm_migrate_poll(job) == -EINPROGRESS && nr_flushes_left)
		kvmm_migrate_serve_tick(pair.server);
	cr_expect_eq(kvmm_migrate_wait(job, 20000000000), -ECONNRESET);
	cr_expect_eq(nr_workers_ended, 1, "UCX reads from there no more");
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
	kvmm_migrate_free(job);
	pair_settle(&pair);
	kv_sys_set(NULL);
	pair_exit(&pair);
}

static bool can_be_read(int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	return fd < 0 || poll(&wait, 1, 0) > 0;
}

/* What UCX has to do makes no descriptor readable. */
Test(ucx, a_link_is_made_though_both_sides_look_when_they_are_told_to_alone)
{
	u64 begin = kv_clock_ns();
	struct kvmm_migrate *job;
	int nr_busy = 0;

	setenv("UCX_TLS", "tcp,self", 1);	/* both sides have to get on for that */
	if (!have_pair())
		return;
	job = pair_begin_range(&pair, 'a', 8);
	while (net_status(job).phase == KVMM_MIGRATE_PREPARE &&
	       kv_ns_since(begin) < 5000000000ull) {
		if (can_be_read(net_status(job).fd))
			kvmm_migrate_poll(job);
		if (nr_busy || can_be_read(pair_stat(&pair).fd))
			nr_busy = kvmm_migrate_serve_tick(pair.server);
	}
	cr_expect_neq(net_status(job).phase, KVMM_MIGRATE_PREPARE);
	cr_expect_eq(run_for(job, 20000), 0);
	kvmm_migrate_free(job);
	cr_expect(pair_range_is_there(&pair, 'a', 8));
	pair_exit(&pair);
}

/* Whether the @nth allocation came, and failed. */
static bool run_short_of_memory(struct fake_env *fake, u32 nth)
{
	struct kvmm_migrate_attr attr = pair_attr(&pair);
	struct kvmm_migrate *job = NULL;
	bool failed;
	int err;

	attr.range = net_range(pair.src, 'a', 12, 1);
	fake_env_fail(fake, nth, false);
	err = kvmm_migrate_start(&attr, &job);
	for (u32 i = 0; i < 1000000 && job && (!i || err == -EINPROGRESS); i++) {
		err = kvmm_migrate_poll(job);
		kvmm_migrate_serve_tick(pair.server);
	}
	failed = fake_env_failed(fake);
	fake_env_fail(fake, 0, false);
	cr_expect(err == 0 || err == -ENOMEM || err == -ECONNRESET || err == -EIO, "%u: %d", nth, err);
	kvmm_migrate_free(job);
	pair_settle(&pair);
	if (err)
		cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1, "%u: lost", nth);
	else
		cr_expect(pair_range_is_there(&pair, 'a', 12));
	cr_expect_eq(net_nr_free(pair.dst), 64, "%u", nth);
	cr_expect_eq(pair_stat(&pair).nr_links, 0, "%u", nth);
	return failed;
}

Test(ucx, memory_that_is_short_once_makes_a_job_fail_and_no_more)
{
	struct fake_env fake;
	u64 nr_live;
	u32 nth = 0;

	fake_env_install(&fake);
	if (have_pair()) {
		run_short_of_memory(&fake, 0);		/* pools have their tables from then on */
		nr_live = fake.nr_live;
		while (run_short_of_memory(&fake, ++nth) && nth < 200)
			cr_expect_eq(fake.nr_live, nr_live, "%u", nth);
		cr_expect_gt(nth, 10);
		pair_exit(&pair);
	}
	fake_env_remove(&fake);
}

/* ---- those that do not get in ---- */

static void expect_nothing_came(void)
{
	pair_settle(&pair);
	cr_expect_eq(pair_stat(&pair).nr_links, 0);
	cr_expect_eq(pair_stat(&pair).offers, 0);
	cr_expect_eq(net_nr_free(pair.dst), 64);
}

Test(ucx, a_giver_with_another_key_does_not_get_in)
{
	struct kvmm_migrate *job;
	FILE *file;

	if (!have_pair())
		return;
	file = fopen(pair.key_file, "w");
	fprintf(file, "%064x", 4711);
	fclose(file);
	job = pair_begin_range(&pair, 'a', 4);
	cr_expect_eq(run_for(job, 20000), -EACCES);
	expect_nothing_came();
	cr_expect_eq(pair_stat(&pair).refused, 1);
	kvmm_migrate_free(job);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
	pair_exit(&pair);
}

static int stranger(void)
{
	int fd = kv_sock_system.tcp_connect(NULL, strrchr(pair.path, '/') + 1);

	cr_assert_geq(fd, 0);
	for (u32 i = 0; i < 1000000 && !pair_stat(&pair).nr_links; i++)
		kvmm_migrate_serve_tick(pair.server);
	return fd;
}

Test(ucx, garbage_is_cut_at_once)
{
	char buf[600];
	int fd;

	if (!have_pair())
		return;
	memset(buf, 0x5a, sizeof(buf));
	fd = stranger();
	cr_expect_eq(kv_sock_system.send(NULL, fd, buf, sizeof(buf), NULL, 0), sizeof(buf));
	for (u32 i = 0; i < 1000000 && pair_stat(&pair).nr_links; i++)
		kvmm_migrate_serve_tick(pair.server);
	expect_nothing_came();
	cr_expect_eq(pair_stat(&pair).refused, 1);
	kv_sock_system.close(NULL, fd);
	pair_exit(&pair);
}

/* A record of 100 bytes is announced, and comes byte by byte. */
static void expect_cut_in_time(bool silent)
{
	struct fake_env fake;
	int fd;

	fake_env_install(&fake);
	if (!have_pair()) {
		fake_env_remove(&fake);
		return;
	}
	fd = stranger();
	for (u32 s = 0; s < 9; s++) {
		if (!silent)
			kv_sock_system.send(NULL, fd, &"\x16\x03\x01\x00\x64zzzzz"[s], 1, NULL, 0);
		fake_env_advance(&fake, 1000000000);
		pair_settle(&pair);
		cr_expect_eq(pair_stat(&pair).nr_links, 1, "after %u s", s + 1);
	}
	fake_env_advance(&fake, 1000000000);
	expect_nothing_came();
	cr_expect_eq(pair_stat(&pair).refused, 1);
	kv_sock_system.close(NULL, fd);
	pair_exit(&pair);
	fake_env_remove(&fake);
}

Test(ucx, a_client_that_says_nothing_is_cut_after_10_s)
{
	expect_cut_in_time(true);
}

Test(ucx, a_client_that_is_slow_is_cut_after_10_s)
{
	expect_cut_in_time(false);
}

Test(ucx, addresses_and_keys_are_looked_at_before_anything_is_opened)
{
	static const char *const bad[] = {
		"ucx://", "ucx://127.0.0.1", "ucx://localhost:9500", "ucx:///tmp/s", "ucz://127.0.0.1:1",
		"UCX://127.0.0.1:1", "://127.0.0.1:1", "shared://127.0.0.1:1",
	};
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_attr go;
	struct kvmm_migrate_server *server;
	struct kvmm_migrate *job;

	if (!have_pair())
		return;
	go = pair_attr(&pair);
	go.range = net_range(pair.src, 'a', 4, 1);
	attr.pool = pair.dst;
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		attr.path = go.target = bad[i];
		attr.key_file = go.key_file = pair.key_file;
		cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EINVAL, "%s", bad[i]);
		cr_expect_eq(kvmm_migrate_start(&go, &job), -EINVAL, "%s", bad[i]);
	}
	/* A key is needed where there is no user to look at, and nowhere else. */
	attr.path = "ucx://127.0.0.1:0";
	go.target = pair.path;
	attr.key_file = go.key_file = NULL;
	cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EINVAL);
	cr_expect_eq(kvmm_migrate_start(&go, &job), -EINVAL);
	attr.path = go.target = "/tmp/kvmm-nowhere/s";
	attr.key_file = go.key_file = pair.key_file;
	cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EINVAL);
	cr_expect_eq(kvmm_migrate_start(&go, &job), -EINVAL);
	attr.path = go.target = pair.path;
	cr_assert_eq(chmod(pair.key_file, 0644), 0);
	cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EPERM);
	cr_expect_eq(kvmm_migrate_start(&go, &job), -EPERM);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
	pair_exit(&pair);
}

/* ---- what is missing ---- */

static const char *missing;

static void *poor_library(void *ctx, const char *path, const char **why)
{
	if (strncmp(path, missing, strlen(missing)))
		return kv_sys_system.open_library(ctx, path, why);
	*why = missing;
	return NULL;
}

Test(ucx, without_a_library_nothing_listens_and_nothing_goes)
{
	static const char *const names[] = { "libucp", "libssl" };
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kv_sys_ops poor = kv_sys_system;
	struct kvmm_migrate_server *server;
	struct kvmm_migrate_attr go;
	struct kvmm_migrate *job;

	if (!have_pair())
		return;
	go = pair_attr(&pair);
	go.range = net_range(pair.src, 'a', 4, 1);
	attr.pool = pair.dst;
	attr.path = "ucx://127.0.0.1:0";
	attr.key_file = pair.key_file;
	poor.open_library = poor_library;
	kv_sys_set(&poor);
	for (u32 i = 0; i < ARRAY_SIZE(names); i++) {
		missing = names[i];
		cr_expect_eq(kvmm_migrate_serve(&attr, &server), -EOPNOTSUPP);
		cr_expect_eq(kvmm_migrate_start(&go, &job), -EOPNOTSUPP);
		cr_expect_not_null(strstr(kvmm_why(), missing), "%s", kvmm_why());
	}
	kv_sys_set(NULL);
	cr_expect_eq(kvmm_range_free_seq(pair.src, 'a'), 1);
	pair_exit(&pair);
}

/* ---- below: slots ---- */

#define NR_PLANES	3u
#define NR_SLOT_BLOCKS	16u

struct slots {
	struct kvmm_plane plane[NR_PLANES];
	struct kvmm_pool *pool;
	struct kv_pool_view view;
	struct window taker, giver;
};

static void settle(struct slots *slots, u32 slot)
{
	int err;

	while ((err = window_poll(&slots->giver, slot)) == -EINPROGRESS)
		window_progress(&slots->taker);
	cr_assert_eq(err, 0);
}

/* Planes of these lengths, and as much between their blocks. */
static void open_slots(struct slots *slots, const u64 *bytes, u64 gap)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct window_offer offer;

	for (u32 i = 0; i < NR_PLANES; i++)
		slots->plane[i] = (struct kvmm_plane){
			(uintptr_t)calloc(NR_SLOT_BLOCKS, bytes[i] + gap), bytes[i] + gap, bytes[i] };
	attr.planes = slots->plane;
	attr.nr_planes = NR_PLANES;
	attr.nr_blocks = NR_SLOT_BLOCKS;
	cr_assert_eq(kvmm_pool_create(&attr, &slots->pool), 0);
	kv_pool_view(slots->pool, &slots->view);
	cr_assert_eq(window_make(&slots->taker, &slots->view, WINDOW_UCX,
				 NR_SLOT_BLOCKS * slots->view.block_bytes), 0);
	offer = (struct window_offer){ slots->taker.shape, -1, slots->taker.blob,
				       slots->taker.blob_bytes, NULL };
	cr_assert_eq(window_open(&slots->giver, &slots->view, &offer), 0);
	settle(slots, 0);
}

static void close_slots(struct slots *slots)
{
	window_close(&slots->giver);
	window_close(&slots->taker);
	kvmm_pool_destroy(slots->pool);
	for (u32 i = 0; i < NR_PLANES; i++)
		free((void *)(uintptr_t)slots->plane[i].base);
}

/* Of the taker's slot: @nr blocks. */
static const u8 *taken(const struct slots *slots, u32 slot, u32 plane, u32 nr)
{
	return (const u8 *)(uintptr_t)slots->taker.plane[slot][plane].base +
	       nr * slots->plane[plane].bytes;
}

/* Planes of odd lengths, and fewer blocks than a slot has room for. */
Test(ucx, each_plane_of_a_slot_comes_to_its_place_and_nothing_beside_it)
{
	static const u64 bytes[NR_PLANES] = { 72, 256, 1000 };
	struct window_offer offer;
	struct slots slots;

	if (!have_pair())
		return;
	open_slots(&slots, bytes, 0);
	for (u32 nr = 1; nr <= slots.taker.shape.slot_blocks; nr++) {
		u32 slot = nr % 2;

		memset((void *)(uintptr_t)slots.giver.at[slot], nr, slots.giver.shape.slot_bytes);
		memset((void *)(uintptr_t)slots.taker.at[slot], 0xee, slots.giver.shape.slot_bytes);
		cr_assert_eq(window_put(&slots.giver, slot, nr), 0);
		settle(&slots, slot);
		for (u32 i = 0; i < NR_PLANES; i++) {
			for (const u8 *at = taken(&slots, slot, i, 0); at < taken(&slots, slot, i, nr); at++)
				cr_assert_eq(*at, nr);
			if (nr < slots.taker.shape.slot_blocks)
				cr_expect_eq(*taken(&slots, slot, i, nr), 0xee);
		}
	}
	window_close(&slots.giver);
	/* What does not add up is not even given to UCX. */
	offer = (struct window_offer){ slots.taker.shape, -1, slots.taker.blob, 0, NULL };
	for (u32 i = 0; i < slots.taker.blob_bytes; i++) {
		offer.blob_bytes = i;
		cr_expect_eq(window_open(&slots.giver, &slots.view, &offer), -EPROTO);
	}
	close_slots(&slots);
	pair_exit(&pair);
}

/* @straight: as so many puts, from where they are; 0: by way of the giver's slot. */
static void expect_filled(struct slots *slots, const u32 *block, u32 straight)
{
	u32 nr = slots->taker.shape.slot_blocks, before = slots->giver.nr_descriptors;
	int ret = window_fill(&slots->giver, 1, block, 0, nr);

	cr_assert_eq(ret, straight != 0);
	if (!straight) {
		copy_wait(&slots->giver.copy[1]);
		cr_assert_eq(window_put(&slots->giver, 1, nr), 0);
	} else {
		cr_expect_eq(slots->giver.nr_descriptors - before, straight);
	}
	settle(slots, 1);
	for (u32 b = 0; b < nr; b++)
		for (u32 i = 0; i < NR_PLANES; i++) {
			const struct kvmm_plane *plane = &slots->plane[i];

			cr_expect(!memcmp(taken(slots, 1, i, b), (const void *)(uintptr_t)
					  (plane->base + block[b] * plane->stride), plane->bytes),
				  "block %u, plane %u", block[b], i);
		}
}

Test(ucx, blocks_go_from_where_they_are_unless_they_are_short_and_scattered)
{
	static const u64 few[NR_PLANES] = { 72, 256, 1000 }, many[NR_PLANES] = { 30000, 72, 50000 };
	static const u32 row[] = { 3, 4, 5, 6, 7, 8, 9, 10 }, loose[] = { 9, 2, 14, 4, 11, 6, 1, 12 };
	static const struct {
		const u64 *bytes;
		u64 gap;
		const u32 *block;
		u32 straight;
	} all[] = {
		{ few, 0, row, 3 }, { few, 0, loose, 0 }, { few, 8, row, 0 },
		{ many, 0, row, 3 }, { many, 0, loose, 24 }, { many, 8, row, 24 },
	};
	struct slots slots;

	if (!have_pair())
		return;
	for (u32 i = 0; i < ARRAY_SIZE(all); i++) {
		open_slots(&slots, all[i].bytes, all[i].gap);
		for (u32 k = 0; k < NR_PLANES; k++)
			for (u64 at = 0; at < NR_SLOT_BLOCKS * slots.plane[k].stride; at++)
				((u8 *)(uintptr_t)slots.plane[k].base)[at] = at / slots.plane[k].stride + k;
		expect_filled(&slots, all[i].block, all[i].straight);
		close_slots(&slots);
	}
	pair_exit(&pair);
}

/* Slots are all that is registered: no device has to take 4 GiB at once. */
Test(ucx, a_slot_is_below_4_gib_whatever_was_asked_for)
{
	static const struct kvmm_plane plane = { 1 << 20, 1 << 20, 1 << 20 };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kv_pool_view view;
	struct kvmm_pool *pool;
	struct window window;

	attr.planes = &plane;
	attr.nr_planes = 1;
	attr.nr_blocks = 16;
	cr_assert_eq(kvmm_pool_create(&attr, &pool), 0);
	kv_pool_view(pool, &view);
	cr_assert_eq(window_make(&window, &view, WINDOW_SHARED, 1ull << 40), 0);
	cr_expect_eq(window.shape.slot_blocks, 2048);
	window_close(&window);
	kvmm_pool_destroy(pool);
}
