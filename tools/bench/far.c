// SPDX-License-Identifier: Apache-2.0
/*
 * Migration as between two machines, by UCX on loopback, against a program that does nothing but put
 * blocks of the same length into memory of another worker, and flush, in the same run:
 *
 *	put	that program
 *	job	a whole job from where its link is ready to its end, which takes the link down: each byte
 *		is copied twice, and summed up at both ends, in addition
 *
 * One thread is both sides, by turns. UCX chooses the way; UCX_TLS narrows it.
 */
#include "pools.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <kvmm/ext/migrate.h>
#include <unistd.h>

/* Checkers that do not know attributes of new compilers need not read UCX's. */
#if defined(__has_include) && !defined(__CHECKER__)
#if __has_include(<ucp/api/ucp.h>)
#define HAVE_UCX
#endif
#endif

#ifdef HAVE_UCX
#include <ucp/api/ucp.h>

#define NR_POOL_BLOCKS	320u
#define WINDOW_BYTES	(8ull << 20)
#define SEQ		1u

enum { PUT, JOB };

static const struct metric metrics[] = {
	[PUT] = { "put", "GB/s", ALONE }, [JOB] = { "job", "GB/s", "put", PUT },
};

struct far {
	u64 block_bytes;
	u32 nr;				/* blocks */
	unsigned char *memory[2];
	struct kvmm_pool *pool[2];
	char key_file[32];
};

static double gbps(const struct far *far, u64 ns)
{
	return (double)far->nr * far->block_bytes / ns;
}

/* ---- the bare program ---- */

#define CALL(name)	__typeof__(&(name)) name = dlsym(RTLD_DEFAULT, #name)

struct side {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_mem_h mem;
	void *ptr;
};

static int open_side(struct side *side, u64 bytes)
{
	CALL(ucp_init_version);
	CALL(ucp_worker_create);
	CALL(ucp_mem_map);
	CALL(ucp_mem_query);
	const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				      .features = UCP_FEATURE_RMA };
	const ucp_worker_params_t worker = { 0 };
	const ucp_mem_map_params_t mem = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.length = bytes, .flags = UCP_MEM_MAP_ALLOCATE,
	};
	ucp_mem_attr_t attr = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };

	if (ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, NULL, &side->context) ||
	    ucp_worker_create(side->context, &worker, &side->worker) ||
	    ucp_mem_map(side->context, &mem, &side->mem) || ucp_mem_query(side->mem, &attr))
		return -EIO;
	side->ptr = attr.address;
	memset(side->ptr, 1, bytes);
	return 0;
}

static void close_side(struct side *side)
{
	CALL(ucp_mem_unmap);
	CALL(ucp_worker_destroy);
	CALL(ucp_cleanup);

	ucp_worker_destroy(side->worker);
	ucp_mem_unmap(side->context, side->mem);
	ucp_cleanup(side->context);
}

static int introduce(struct side *from, struct side *to, ucp_ep_h *ep, ucp_rkey_h *rkey)
{
	CALL(ucp_worker_get_address);
	CALL(ucp_worker_release_address);
	CALL(ucp_ep_create);
	CALL(ucp_rkey_pack);
	CALL(ucp_rkey_buffer_release);
	CALL(ucp_ep_rkey_unpack);
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
	ucp_address_t *address;
	size_t bytes;
	void *packed;
	int bad;

	if (ucp_worker_get_address(to->worker, &address, &bytes) ||
	    ucp_rkey_pack(to->context, to->mem, &packed, &bytes))
		return -EIO;
	params.address = address;
	bad = ucp_ep_create(from->worker, &params, ep) || ucp_ep_rkey_unpack(*ep, packed, rkey);
	ucp_rkey_buffer_release(packed);
	ucp_worker_release_address(to->worker, address);
	return bad ? -EIO : 0;
}

static int put_all(const struct far *far, struct side *side, ucp_ep_h ep, ucp_rkey_h rkey)
{
	CALL(ucp_put_nbx);
	CALL(ucp_ep_flush_nbx);
	CALL(ucp_worker_progress);
	CALL(ucp_request_check_status);
	CALL(ucp_request_free);
	const ucp_request_param_t how = { 0 }, from = { .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
							.memh = side[0].mem };
	void *request;

	for (u64 at = 0; at < far->nr * far->block_bytes; at += far->block_bytes) {
		request = ucp_put_nbx(ep, (char *)side[0].ptr + at, far->block_bytes,
				      (uintptr_t)side[1].ptr + at, rkey, &from);
		if (UCS_PTR_IS_ERR(request))
			return -EIO;
		if (request)
			ucp_request_free(request);
	}
	request = ucp_ep_flush_nbx(ep, &how);
	if (!request || UCS_PTR_IS_ERR(request))
		return request ? -EIO : 0;
	while (ucp_request_check_status(request) == UCS_INPROGRESS) {
		ucp_worker_progress(side[0].worker);
		ucp_worker_progress(side[1].worker);
	}
	ucp_request_free(request);
	return 0;
}

static int put_bare(struct far *far, struct series *series)
{
	CALL(ucp_rkey_destroy);
	struct side side[2] = { { 0 } };
	u64 bytes = far->nr * far->block_bytes, begin = 0;
	ucp_rkey_h rkey;
	ucp_ep_h ep;
	int err = open_side(&side[0], bytes);

	if (!err)
		err = open_side(&side[1], bytes);
	if (!err)
		err = introduce(&side[0], &side[1], &ep, &rkey);
	for (u32 i = 0; i < 2 && !err; i++) {		/* the first one connects */
		begin = now_ns();
		err = put_all(far, side, ep, rkey);
	}
	if (err)
		return err;
	series_add(&series[PUT], gbps(far, now_ns() - begin));
	ucp_rkey_destroy(rkey);
	close_side(&side[0]);
	close_side(&side[1]);
	return 0;
}

/* ---- a job ---- */

static int run_job(struct far *far, struct kvmm_migrate_server *server,
		   struct kvmm_migrate_attr *attr, struct series *series)
{
	struct kvmm_migrate_status status = { 0 };
	struct kvmm_migrate *job;
	u64 begin = 0;
	int err = kvmm_migrate_start(attr, &job);

	if (err)
		return err;
	while ((err = kvmm_migrate_poll(job)) == -EINPROGRESS) {
		kvmm_migrate_serve_tick(server);
		if (begin)
			continue;
		kvmm_migrate_get_status(job, &status);
		if (status.phase != KVMM_MIGRATE_PREPARE)
			begin = now_ns();
	}
	if (!err)
		series_add(&series[JOB], gbps(far, now_ns() - begin));
	kvmm_migrate_free(job);
	return err;
}

static int migrate_far(struct far *far, struct series *series)
{
	struct kvmm_migrate_serve_attr serve = KVMM_MIGRATE_SERVE_INIT;
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	struct kvmm_migrate_serve_stat stat;
	struct kvmm_migrate_server *server;
	char target[40];
	int err;

	serve.pool = far->pool[1];
	serve.path = "ucx://127.0.0.1:0";
	serve.key_file = attr.key_file = far->key_file;
	serve.window_bytes = WINDOW_BYTES;
	err = kvmm_migrate_serve(&serve, &server);
	if (err)
		return err;
	kvmm_migrate_serve_get_stat(server, &stat);
	snprintf(target, sizeof(target), "ucx://127.0.0.1:%u", stat.port);
	attr.src = far->pool[0];
	attr.target = target;
	err = kvmm_range_alloc(far->pool[0], far->nr, KVMM_RUNS(1), &attr.range);
	if (!err)
		err = run_job(far, server, &attr, series);
	kvmm_migrate_serve_end(server);
	return err;
}

/* ---- turns ---- */

static int open_far(struct far *far)
{
	static const char key[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
	int fd, err = 0;

	strcpy(far->key_file, "/tmp/kvmm-bench-XXXXXX");
	fd = mkstemp(far->key_file);
	if (fd < 0 || write(fd, key, sizeof(key) - 1) != sizeof(key) - 1)
		err = -EIO;
	close(fd);
	for (u32 i = 0; i < 2 && !err; i++) {
		struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
		struct kvmm_plane plane = { 0, far->block_bytes, far->block_bytes };

		far->memory[i] = must_alloc(NR_POOL_BLOCKS * far->block_bytes);
		memset(far->memory[i], 1 + i, NR_POOL_BLOCKS * far->block_bytes);
		plane.base = (uintptr_t)far->memory[i];
		attr.policy = NULL;
		attr.planes = &plane;
		attr.nr_planes = 1;
		attr.nr_blocks = NR_POOL_BLOCKS;
		err = kvmm_pool_create(&attr, &far->pool[i]);
	}
	return err;
}

static int turn(struct bench *bench, void *arg)
{
	struct far *far = arg;
	int err = open_far(far);

	if (!err)
		err = put_bare(far, bench->series);
	if (!err)
		err = migrate_far(far, bench->series);
	for (u32 i = 0; i < 2; i++) {
		kvmm_pool_destroy(far->pool[i]);
		free(far->memory[i]);
		far->pool[i] = NULL;
		far->memory[i] = NULL;
	}
	unlink(far->key_file);
	return err;
}

int bench_far(struct bench *bench)
{
	struct far all[] = { { .block_bytes = 64 << 10, .nr = 256 },
			     { .block_bytes = 1 << 20, .nr = 64 } };
	int err = 0;

	if (!dlopen("libucp.so.0", RTLD_NOW | RTLD_GLOBAL)) {
		bench_skip(bench, "how=ucx", "libucp.so.0 is not there");
		return 0;
	}
	for (size_t i = 0; !err && i < ARRAY_SIZE(all); i++) {
		bench_set(bench, SET(metrics), "how=ucx block=%lluKiB nr=%u",
			  (unsigned long long)all[i].block_bytes >> 10, all[i].nr);
		err = bench_turns(bench, turn, &all[i]);
	}
	return err;
}

#else

int bench_far(struct bench *bench)
{
	bench_skip(bench, "how=ucx", "built without the headers of UCX");
	return 0;
}

#endif
