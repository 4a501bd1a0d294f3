// SPDX-License-Identifier: Apache-2.0
/*
 * What goes between two machines, here over loopback by UCX, or by NIXL if
 * KVMM_NIXL_LIBRARY says where that is, beside bare programs of the same run:
 *
 *	put	a program that puts block after block into memory of the other side
 *	window	the same blocks into a taker's window, as a job pours them; and how many puts, or
 *		copies, that were
 *	job	a whole job from where its link is ready to its end: each byte is copied once more there,
 *		and summed up at both ends
 *	again	a job that takes over the link of the one before, from its start
 *	tcp	a request and its answer, of 64 bytes
 *	control	a job of one block that takes over a link, by its round trips: OFFER, FILL, COMMIT
 *
 * One thread is both sides, by turns, and the time is that for which it had a core. UCX chooses the
 * way; UCX_TLS narrows it.
 */
#include "pools.h"

#include <fcntl.h>
#include <kvmm/ext/migrate.h>
#include <unistd.h>

#include <research/far_window.h>

#include "bare.h"

#define WINDOW_BYTES	(8ull << 20)
#define NR_TRIPS	3u		/* of a job */
#define NR_SHORT	50u		/* jobs */

struct way {
	const char *name;
	const struct bare_ops *bare;
};

struct far {
	const struct way *way;
	u64 block_bytes;
	u32 nr;				/* blocks */
	bool scattered;			/* every second one */
	unsigned char *memory[2];
	struct kvmm_pool *pool[2];
	char key_file[32];
	struct kvmm_migrate_server *server;
	char target[40];
	u32 *block;
};

/* As bytes a nanosecond. */
static double gbps(const struct far *far, double ns)
{
	return (double)far->nr * far->block_bytes / ns;
}

/* ---- windows ---- */

/* By turns, as the rates of a busy machine change; the first ones connect. */
static int put_both(struct far *far, struct bare *bare, struct series *series)
{
	struct far_window *window;
	double begin, ns = 0, bare_ns = 0;
	int err = far_window_open(far->way->name, far->pool[0], far->pool[1],
				  WINDOW_BYTES, &window);
	int nr_copies = 0;

	for (u32 i = 0; i < 5 && !err; i++) {
		begin = bench_thread_ns();
		err = far->way->bare->put(bare, (uintptr_t)far->memory[0], far->block, far->nr,
			       far->block_bytes);
		bare_ns += i ? bench_thread_ns() - begin : 0;
		begin = bench_thread_ns();
		if (!err)
			nr_copies = far_window_send(window, far->block, far->nr);
		err = min(nr_copies, err);
		ns += i ? bench_thread_ns() - begin : 0;
	}
	if (err)
		return err;
	series_add(&series[0], gbps(far, bare_ns / 4));
	series_add(&series[1], gbps(far, ns / 4));
	series_add(&series[2], nr_copies);
	far_window_close(window);
	return 0;
}

static int turn_windows(struct far *far, struct series *series)
{
	struct bare *bare;
	int err = far->way->bare->open(WINDOW_BYTES, &bare);

	if (!err)
		err = put_both(far, bare, series);
	if (!err)
		far->way->bare->close(bare);
	return err;
}

/* ---- jobs ---- */

static int serve(struct far *far)
{
	struct kvmm_migrate_serve_attr attr = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_serve_stat stat;
	int err;

	attr.pool = far->pool[1];
	snprintf(far->target, sizeof(far->target), "%s://127.0.0.1:0", far->way->name);
	attr.path = far->target;
	attr.key_file = far->key_file;
	attr.window_bytes = WINDOW_BYTES;
	err = kvmm_migrate_serve(&attr, &far->server);
	if (err)
		return err;
	kvmm_migrate_serve_get_stat(far->server, &stat);
	snprintf(far->target, sizeof(far->target), "%s://127.0.0.1:%u", far->way->name, stat.port);
	return 0;
}

/* @ns: from where its link is ready. */
static int run_job(struct far *far, kvmm_range_t range, struct kvmm_migrate **last, double *ns)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_migrate_status status = { 0 };
	struct kvmm_migrate_arrival arrival;
	struct kvmm_migrate *job;
	double begin = *last ? bench_thread_ns() : 0;
	int err;

	attr.src = far->pool[0];
	attr.target = far->target;
	attr.key_file = far->key_file;
	attr.range = range;
	attr.flags = KVMM_MIGRATE_COPY;
	attr.after = *last;
	err = kvmm_migrate_start(&attr, &job);
	if (err)
		return err;
	while ((err = kvmm_migrate_poll(job)) == -EINPROGRESS) {
		kvmm_migrate_serve_tick(far->server);
		if (begin)
			continue;
		kvmm_migrate_get_status(job, &status);
		if (status.phase != KVMM_MIGRATE_PREPARE)
			begin = bench_thread_ns();
	}
	*ns = bench_thread_ns() - begin;
	kvmm_migrate_free(*last);
	*last = job;
	if (!err && !kvmm_migrate_arrived(far->server, &arrival))
		err = kvmm_range_free(far->pool[1], arrival.range);
	return err;
}

static int turn_jobs(struct far *far, struct series *series)
{
	struct kvmm_migrate *job = NULL;
	kvmm_range_t range;
	double ns;
	int err = turn_windows(far, series);

	if (!err)
		err = kvmm_range_alloc(far->pool[0], far->nr, KVMM_RUNS(1), &range);
	for (u32 i = 0; i < 2 && !err; i++) {
		err = run_job(far, range, &job, &ns);
		if (!err)
			series_add(&series[3 + i], gbps(far, ns));
	}
	kvmm_migrate_free(job);
	return err;
}

static int turn_control(struct far *far, struct series *series)
{
	s64 tcp_ns = bare_round_trip(NR_SHORT * NR_TRIPS);
	struct kvmm_migrate *job = NULL;
	kvmm_range_t range;
	double ns, sum_ns = 0;
	int err = tcp_ns < 0 ? (int)tcp_ns :
			      kvmm_range_alloc(far->pool[0], 1, KVMM_RUNS(1), &range);

	for (u32 i = 0; i <= NR_SHORT && !err; i++) {
		err = run_job(far, range, &job, &ns);
		sum_ns += i ? ns : 0;
	}
	kvmm_migrate_free(job);
	if (err)
		return err;
	series_add(&series[0], tcp_ns / 1e3);
	series_add(&series[1], sum_ns / (NR_SHORT * NR_TRIPS) / 1e3);
	return 0;
}

/* ---- turns ---- */

static int make_key(struct far *far)
{
	static const char key[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
	int fd;
	bool good;

	strcpy(far->key_file, "/tmp/kvmm-bench-XXXXXX");
	fd = mkstemp(far->key_file);
	good = fd >= 0 && write(fd, key, sizeof(key) - 1) == sizeof(key) - 1;
	close(fd);
	return good ? 0 : -EIO;
}

static int open_far(struct far *far)
{
	u32 nr = 2 * far->nr + 64;
	int err = make_key(far);

	far->block = must_alloc(far->nr * sizeof(*far->block));
	for (u32 i = 0; i < far->nr; i++)
		far->block[i] = 1 + i * (1 + far->scattered);
	for (u32 i = 0; i < 2 && !err; i++) {
		struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
		struct kvmm_plane plane = { 0, far->block_bytes, far->block_bytes };

		far->memory[i] = must_alloc(nr * far->block_bytes);
		memset(far->memory[i], 1 + i, nr * far->block_bytes);
		plane.base = (uintptr_t)far->memory[i];
		attr.policy = NULL;
		attr.planes = &plane;
		attr.nr_planes = 1;
		attr.nr_blocks = nr;
		err = kvmm_pool_create(&attr, &far->pool[i]);
	}
	return err ? err : serve(far);
}

static void close_far(struct far *far)
{
	kvmm_migrate_serve_end(far->server);
	far->server = NULL;
	for (u32 i = 0; i < 2; i++) {
		kvmm_pool_destroy(far->pool[i]);
		free(far->memory[i]);
		far->pool[i] = NULL;
		far->memory[i] = NULL;
	}
	free(far->block);
	unlink(far->key_file);
}

typedef int measure_fn(struct far *far, struct series *series);

struct figure {
	struct far far;
	measure_fn *measure;
};

static int turn(struct bench *bench, void *arg)
{
	struct figure *figure = arg;
	int err = open_far(&figure->far);

	if (!err)
		err = figure->measure(&figure->far, bench->series);
	close_far(&figure->far);
	return err;
}

static const struct metric rates[] = {
	{ "put", "GB/s", ALONE }, { "window", "GB/s", "put", 0 }, { "descriptors", "copies", ALONE },
	{ "job", "GB/s", "put", 0 }, { "again", "GB/s", "put", 0 },
};
static const struct metric trips[] = {
	{ "tcp", "us", ALONE }, { "control", "us", "tcp", 0 },
};

static int measure_pieces(struct bench *bench, const struct way *way, u64 block_bytes, u32 nr,
			  bool scattered)
{
	bool has_jobs = !scattered && block_bytes > 4096;
	struct figure figure = { { .way = way, .block_bytes = block_bytes, .nr = nr,
				   .scattered = scattered },
				 has_jobs ? turn_jobs : turn_windows };

	bench_set(bench, rates, has_jobs ? 5 : 3, "how=%s block=%lluKiB nr=%u blocks=%s", way->name,
		  (unsigned long long)block_bytes >> 10, nr, scattered ? "scattered" : "row");
	return bench_turns(bench, turn, &figure);
}

static int measure_way(struct bench *bench, const struct way *way)
{
	struct figure control = { { .way = way, .block_bytes = 4096, .nr = 4 }, turn_control };
	int err = 0;

	for (u32 scattered = 0; scattered < 2 && !err; scattered++) {
		err = measure_pieces(bench, way, 4 << 10, 4096, scattered);
		if (!err)
			err = measure_pieces(bench, way, 64 << 10, 256, scattered);
		if (!err)
			err = measure_pieces(bench, way, 1 << 20, 64, scattered);
	}
	if (err)
		return err;
	bench_set(bench, SET(trips), "how=%s", way->name);
	return bench_turns(bench, turn, &control);
}

/* One of them: NIXL has a UCX of its own, and the two do not get on with each other. */
int bench_net(struct bench *bench)
{
	static const struct way ucx = { "ucx", &bare_ucx }, nixl = { "nixl", &bare_nixl };
	const struct way *way = getenv("KVMM_NIXL_LIBRARY") ? &nixl : &ucx;

	if (!far_window_probe(way->name))
		return measure_way(bench, way);
	bench_skip(bench, way->name, kvmm_why());
	return 0;
}
