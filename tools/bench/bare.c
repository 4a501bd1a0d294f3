// SPDX-License-Identifier: Apache-2.0
#include "bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "pools.h"

/* ---- TCP ---- */

#define MESSAGE_BYTES	64u

/* Both ends of a connection, by this thread: 0 or -EIO. */
static int connect_both(int end[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t bytes = sizeof(addr);
	const int on = 1;
	int door = socket(AF_INET, SOCK_STREAM, 0);
	bool bad;

	end[0] = socket(AF_INET, SOCK_STREAM, 0);
	end[1] = -1;
	bad = door < 0 || end[0] < 0 || bind(door, (void *)&addr, sizeof(addr)) ||
	      listen(door, 1) || getsockname(door, (void *)&addr, &bytes) ||
	      connect(end[0], (void *)&addr, sizeof(addr)) || (end[1] = accept(door, NULL, NULL)) < 0;
	for (u32 i = 0; i < 2 && !bad; i++)
		bad = setsockopt(end[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	close(door);
	return bad ? -EIO : 0;
}

static bool pass(int from, int to)
{
	char text[MESSAGE_BYTES] = { 0 };

	return send(from, text, sizeof(text), MSG_NOSIGNAL) == sizeof(text) &&
	       recv(to, text, sizeof(text), MSG_WAITALL) == sizeof(text);
}

s64 bare_round_trip(u32 nr)
{
	int end[2];
	bool good = !connect_both(end);
	double begin = bench_thread_ns();

	for (u32 i = 0; i < nr && good; i++)
		good = pass(end[0], end[1]) && pass(end[1], end[0]);
	begin = bench_thread_ns() - begin;
	close(end[0]);
	close(end[1]);
	return good ? (s64)(begin / nr) : -EIO;
}

/* ---- UCX ---- */

/* Checkers that do not know attributes of new compilers need not read UCX's. */
#if defined(__has_include) && !defined(__CHECKER__)
#if __has_include(<ucp/api/ucp.h>)
#define HAVE_UCX
#endif
#endif

#ifdef HAVE_UCX
#include <dlfcn.h>
#include <ucp/api/ucp.h>

#define CALL(name)	__typeof__(&(name)) name = dlsym(RTLD_DEFAULT, #name)

struct side {
	ucp_context_h context;
	ucp_worker_h worker;
};

struct bare {
	struct side side[2];
	ucp_mem_h mem;			/* of the second side */
	u64 at;
	u64 bytes;
	ucp_ep_h ep;
	ucp_rkey_h rkey;
};

static int open_side(struct side *side)
{
	CALL(ucp_init_version);
	CALL(ucp_worker_create);
	const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				      .features = UCP_FEATURE_RMA };
	const ucp_worker_params_t worker = { 0 };

	return ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, NULL, &side->context) ||
	       ucp_worker_create(side->context, &worker, &side->worker) ? -EIO : 0;
}

static int make_memory(struct bare *bare)
{
	CALL(ucp_mem_map);
	CALL(ucp_mem_query);
	const ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.length = bare->bytes, .flags = UCP_MEM_MAP_ALLOCATE,
	};
	ucp_mem_attr_t attr = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };

	if (ucp_mem_map(bare->side[1].context, &params, &bare->mem) ||
	    ucp_mem_query(bare->mem, &attr))
		return -EIO;
	bare->at = (uintptr_t)attr.address;
	memset(attr.address, 1, bare->bytes);
	return 0;
}

static int introduce(struct bare *bare)
{
	CALL(ucp_worker_get_address);
	CALL(ucp_worker_release_address);
	CALL(ucp_ep_create);
	CALL(ucp_rkey_pack);
	CALL(ucp_rkey_buffer_release);
	CALL(ucp_ep_rkey_unpack);
	ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
	struct side *side = bare->side;
	ucp_address_t *address;
	size_t bytes;
	void *packed;
	int bad;

	if (ucp_worker_get_address(side[1].worker, &address, &bytes) ||
	    ucp_rkey_pack(side[1].context, bare->mem, &packed, &bytes))
		return -EIO;
	params.address = address;
	bad = ucp_ep_create(side[0].worker, &params, &bare->ep) ||
	      ucp_ep_rkey_unpack(bare->ep, packed, &bare->rkey);
	ucp_rkey_buffer_release(packed);
	ucp_worker_release_address(side[1].worker, address);
	return bad ? -EIO : 0;
}

static int open_ucx(u64 bytes, struct bare **result)
{
	struct bare *bare = calloc(1, sizeof(*bare));
	int err = bare && dlopen("libucp.so.0", RTLD_NOW | RTLD_GLOBAL) ? 0 : -EIO;

	if (!err)
		bare->bytes = bytes;
	for (u32 i = 0; i < 2 && !err; i++)
		err = open_side(&bare->side[i]);
	if (!err)
		err = make_memory(bare);
	if (!err)
		err = introduce(bare);
	*result = bare;
	return err;
}

static void close_ucx(struct bare *bare)
{
	CALL(ucp_rkey_destroy);
	CALL(ucp_mem_unmap);
	CALL(ucp_worker_destroy);
	CALL(ucp_cleanup);

	ucp_rkey_destroy(bare->rkey);
	for (u32 i = 0; i < 2; i++)
		ucp_worker_destroy(bare->side[i].worker);
	ucp_mem_unmap(bare->side[1].context, bare->mem);
	for (u32 i = 0; i < 2; i++)
		ucp_cleanup(bare->side[i].context);
	free(bare);
}

static int flush(struct bare *bare)
{
	CALL(ucp_ep_flush_nbx);
	CALL(ucp_worker_progress);
	CALL(ucp_request_check_status);
	CALL(ucp_request_free);
	const ucp_request_param_t how = { 0 };
	void *request = ucp_ep_flush_nbx(bare->ep, &how);

	if (!request || UCS_PTR_IS_ERR(request))
		return request ? -EIO : 0;
	while (ucp_request_check_status(request) == UCS_INPROGRESS) {
		ucp_worker_progress(bare->side[0].worker);
		ucp_worker_progress(bare->side[1].worker);
	}
	ucp_request_free(request);
	return 0;
}

static int put_ucx(struct bare *bare, u64 base, const u32 *piece, u32 nr, u64 bytes)
{
	CALL(ucp_put_nbx);
	CALL(ucp_request_free);
	const ucp_request_param_t how = { 0 };

	for (u32 i = 0; i < nr; i++) {
		const void *from = (const void *)(uintptr_t)(base + piece[i] * bytes);
		void *request = ucp_put_nbx(bare->ep, from, bytes,
					    bare->at + i * bytes % bare->bytes, bare->rkey, &how);

		if (UCS_PTR_IS_ERR(request))
			return -EIO;
		if (request)
			ucp_request_free(request);
	}
	return flush(bare);
}

#else

static int open_ucx(u64 bytes, struct bare **result)
{
	return -EIO;
}

static void close_ucx(struct bare *bare)
{
}

static int put_ucx(struct bare *bare, u64 base, const u32 *piece, u32 nr, u64 bytes)
{
	return -EIO;
}

#endif /* HAVE_UCX */

const struct bare_ops bare_ucx = { open_ucx, close_ucx, put_ucx };
