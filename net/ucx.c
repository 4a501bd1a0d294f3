// SPDX-License-Identifier: Apache-2.0
/*
 * The transport "ucx": a giver puts content into the taker's slots, by the way that UCX finds
 * between the two machines (RDMA, TCP; shared memory if they are one).
 *
 * The taker's slots are memory of UCX, which the other side may reach best; the giver's are host
 * memory of its device. libucp.so.0 is opened at run time. Each window has a worker of its own,
 * which gets on when the window is polled; UCX's wait for events is not used. A put is through when
 * the flush behind it is: then, and not before, the taker is told. Any failure is the end of the
 * window, and of what is on its way: UCX does not say which part of a batch came.
 */
#include <string.h>

#include <kv/log.h>
#include <kv/mem.h>
#include <kv/sys.h>

#include "conn.h"
#include "transport.h"

/* Checkers that do not know attributes of new compilers need not read UCX's. */
#if defined(__has_include) && !defined(__CHECKER__)
#if __has_include(<ucp/api/ucp.h>)
#define HAVE_UCX
#endif
#endif

#ifdef HAVE_UCX
#include <ucp/api/ucp.h>

#define NR_STEPS	32u		/* of a worker, a poll */

#define CALLS(call)									\
	call(ucp_cleanup) call(ucp_config_read) call(ucp_config_release)		\
	call(ucp_ep_create) call(ucp_ep_flush_nbx)		\
	call(ucp_ep_rkey_unpack) call(ucp_init_version) call(ucp_mem_map)		\
	call(ucp_mem_query) call(ucp_mem_unmap) call(ucp_put_nbx)			\
	call(ucp_request_check_status) call(ucp_request_free)				\
	call(ucp_rkey_buffer_release) call(ucp_rkey_destroy) call(ucp_rkey_pack)	\
	call(ucp_worker_create) call(ucp_worker_destroy)				\
	call(ucp_worker_get_address) call(ucp_worker_progress)				\
	call(ucp_worker_release_address)

#define MEMBER(name)	__typeof__(&(name)) name;
#define NAME(name)	#name,

struct calls {
	CALLS(MEMBER)
};

struct ucx {
	struct calls call;		/* fixed at creation */
	ucp_context_h context;		/* ours */
	ucp_worker_h worker;		/* ours */
	ucp_mem_h mem[WINDOW_SLOTS];	/* ours */
	/* The giver's: */
	ucp_ep_h ep;			/* ours */
	ucp_rkey_h rkey[WINDOW_SLOTS];	/* ours */
	u64 remote[WINDOW_SLOTS];	/* where the taker has its slots */
	void *batch[WINDOW_SLOTS];	/* ours; on its way, or NULL */
};

/* What the taker says, followed by the address of its worker and the keys of its slots. */
struct blob {
	u64 at[WINDOW_SLOTS];
	u32 address_bytes;
	u32 key_bytes[WINDOW_SLOTS];
	u32 reserved;
};

static_assert(sizeof(struct blob) == 32 && WINDOW_SLOTS == 2, "no padding is sent");

static int error_of(ucs_status_t status)
{
	return status == UCS_OK ? 0 : status == UCS_INPROGRESS ? -EINPROGRESS :
	       status == UCS_ERR_NO_MEMORY ? -ENOMEM : -EIO;
}

/* UCX says the same if the other side has died since, and if no way leads there. */
static int lost(ucs_status_t status)
{
	if (status == UCS_OK || status == UCS_ERR_NO_MEMORY)
		return error_of(status);
	return kv_refuse(-ECONNRESET, "ucx: the other side is not reached; see UCX_TLS");
}

static int find_calls(struct calls *calls)
{
	static const char *const name[] = { CALLS(NAME) };

	static_assert(sizeof(*calls) == sizeof(name), "a name for each");
	return kv_find_calls("ucx", "libucp.so.0", name, ARRAY_SIZE(name), (void **)calls);
}

static int probe(void)
{
	struct calls calls;

	return find_calls(&calls);
}

/* ---- content ---- */

static void progress(struct window *window)
{
	struct ucx *ucx = window->ucx;

	for (u32 i = 0; i < NR_STEPS && ucx->call.ucp_worker_progress(ucx->worker); i++)
		;
}

/* A put that fails later makes the flush fail. */
static int put_ucx(struct window *window, u32 slot, const struct extent *extent, u32 nr)
{
	struct ucx *ucx = window->ucx;
	const ucp_request_param_t plain = { 0 }, ours = { .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
							  .memh = ucx->mem[slot] };

	for (u32 i = 0; i < nr; i++) {
		bool is_ours = extent[i].from == window->at[slot] + extent[i].offset;
		void *request = ucx->call.ucp_put_nbx(ucx->ep, (void *)(uintptr_t)extent[i].from,
						      extent[i].bytes,
						      ucx->remote[slot] + extent[i].offset,
						      ucx->rkey[slot], is_ours ? &ours : &plain);

		if (UCS_PTR_IS_ERR(request))
			return -ECONNRESET;
		if (request)
			ucx->call.ucp_request_free(request);
	}
	ucx->batch[slot] = ucx->call.ucp_ep_flush_nbx(ucx->ep, &plain);
	if (!UCS_PTR_IS_ERR(ucx->batch[slot]))
		return 0;
	ucx->batch[slot] = NULL;
	return -ECONNRESET;
}

static int poll_ucx(struct window *window, u32 slot)
{
	struct ucx *ucx = window->ucx;
	ucs_status_t status;

	if (!ucx || !ucx->batch[slot])
		return 0;
	progress(window);
	status = ucx->call.ucp_request_check_status(ucx->batch[slot]);
	if (status == UCS_INPROGRESS)
		return -EINPROGRESS;
	ucx->call.ucp_request_free(ucx->batch[slot]);
	ucx->batch[slot] = NULL;
	return status == UCS_OK ? 0 : -ECONNRESET;
}

/* ---- birth and death ---- */

static int init_context(struct ucx *ucx)
{
	const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				      .features = UCP_FEATURE_RMA };
	ucp_config_t *config;
	ucs_status_t status = ucx->call.ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return error_of(status);
	status = ucx->call.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config,
					    &ucx->context);
	ucx->call.ucp_config_release(config);
	return error_of(status);
}

static int init_ucx(struct window *window)
{
	const ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
	};
	struct ucx *ucx = window->ucx = kv_alloc(sizeof(*ucx));
	int err = ucx ? find_calls(&ucx->call) : -ENOMEM;

	if (!err)
		err = init_context(ucx);
	return err ? err :
	       error_of(ucx->call.ucp_worker_create(ucx->context, &params, &ucx->worker));
}

static void close_ucx(struct window *window)
{
	struct ucx *ucx = window->ucx;

	if (!ucx)
		return;
	for (u32 i = 0; i < WINDOW_SLOTS; i++) {
		if (ucx->batch[i])		/* the worker takes it along */
			ucx->call.ucp_request_free(ucx->batch[i]);
		if (ucx->rkey[i])
			ucx->call.ucp_rkey_destroy(ucx->rkey[i]);
	}
	if (ucx->worker)
		ucx->call.ucp_worker_destroy(ucx->worker);
	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		if (ucx->mem[i])
			ucx->call.ucp_mem_unmap(ucx->context, ucx->mem[i]);
	if (ucx->context)
		ucx->call.ucp_cleanup(ucx->context);
	kv_free(ucx);
}

/* ---- the taker ---- */

static int make_slot(struct window *window, u32 slot)
{
	struct ucx *ucx = window->ucx;
	const ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.length = window->shape.slot_bytes, .flags = UCP_MEM_MAP_ALLOCATE,
	};
	ucp_mem_attr_t attr = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };
	ucs_status_t status = ucx->call.ucp_mem_map(ucx->context, &params, &ucx->mem[slot]);

	if (status == UCS_OK)
		status = ucx->call.ucp_mem_query(ucx->mem[slot], &attr);
	window->at[slot] = (uintptr_t)attr.address;
	return error_of(status);
}

/* The blob, of parts that may be missing. */
static int put_together(struct window *window, const void *address, void *const *key,
			const struct blob *head)
{
	u32 bytes = sizeof(*head) + head->address_bytes;
	u8 *to;

	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		bytes += head->key_bytes[i];
	if (bytes > WINDOW_BLOB_BYTES)
		return -EOPNOTSUPP;
	to = window->blob = kv_alloc_array(bytes, 1);
	if (!to)
		return -ENOMEM;
	window->blob_bytes = bytes;
	memcpy(to, head, sizeof(*head));
	to += sizeof(*head);
	memcpy(to, address, head->address_bytes);
	to += head->address_bytes;
	for (u32 i = 0; i < WINDOW_SLOTS; i++) {
		memcpy(to, key[i], head->key_bytes[i]);
		to += head->key_bytes[i];
	}
	return 0;
}

static int make_blob(struct window *window)
{
	struct ucx *ucx = window->ucx;
	struct blob head = { .at = { window->at[0], window->at[1] } };
	void *key[WINDOW_SLOTS] = { NULL };
	ucp_address_t *address = NULL;
	size_t bytes = 0;
	int err = error_of(ucx->call.ucp_worker_get_address(ucx->worker, &address, &bytes));

	head.address_bytes = min(bytes, (size_t)WINDOW_BLOB_BYTES);
	for (u32 i = 0; i < WINDOW_SLOTS && !err; i++) {
		err = error_of(ucx->call.ucp_rkey_pack(ucx->context, ucx->mem[i], &key[i], &bytes));
		head.key_bytes[i] = min(bytes, (size_t)WINDOW_BLOB_BYTES);
	}
	if (!err)
		err = put_together(window, address, key, &head);
	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		if (key[i])
			ucx->call.ucp_rkey_buffer_release(key[i]);
	if (address)
		ucx->call.ucp_worker_release_address(ucx->worker, address);
	return err;
}

static int make_ucx(struct window *window)
{
	int err = init_ucx(window);

	for (u32 i = 0; i < WINDOW_SLOTS && !err; i++)
		err = make_slot(window, i);
	return err ? err : make_blob(window);
}

/* ---- the giver ---- */

static int map_slot(struct window *window, u32 slot)
{
	struct ucx *ucx = window->ucx;
	const ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_ADDRESS,
		.length = window->shape.slot_bytes, .address = (void *)(uintptr_t)window->at[slot],
	};

	return error_of(ucx->call.ucp_mem_map(ucx->context, &params, &ucx->mem[slot]));
}

static int blob_of(const struct window *window, struct blob *head)
{
	u64 bytes = sizeof(*head);

	if (window->blob_bytes < bytes)
		return -EPROTO;
	memcpy(head, window->blob, bytes);
	bytes += head->address_bytes;
	for (u32 i = 0; i < WINDOW_SLOTS; i++) {
		if (!head->key_bytes[i])
			return -EPROTO;
		bytes += head->key_bytes[i];
	}
	return head->address_bytes && bytes == window->blob_bytes ? 0 : -EPROTO;
}

/* Without one UCX ends the process where a device says that the other side is gone. */
static void is_gone(void *arg, ucp_ep_h ep, ucs_status_t status)
{
}

static int connect_ep(struct window *window, const struct blob *head)
{
	struct ucx *ucx = window->ucx;
	const u8 *at = window->blob + sizeof(*head);
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
			      UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.err_handler = { .cb = is_gone },
		.address = (const ucp_address_t *)at,
	};
	int err = lost(ucx->call.ucp_ep_create(ucx->worker, &params, &ucx->ep));

	at += head->address_bytes;
	for (u32 i = 0; i < WINDOW_SLOTS && !err; i++) {
		ucx->remote[i] = head->at[i];
		err = lost(ucx->call.ucp_ep_rkey_unpack(ucx->ep, at, &ucx->rkey[i]));
		at += head->key_bytes[i];
	}
	return err;
}

static int open_ucx(struct window *window)
{
	struct blob head;
	int err = blob_of(window, &head);

	if (!err)
		err = window_stage(window);
	if (!err)
		err = init_ucx(window);
	for (u32 i = 0; i < WINDOW_SLOTS && !err; i++)
		err = map_slot(window, i);
	/* UCX does not get over keys of a process that is gone by now (openucx/ucx 10380). */
	if (!err && window->conn)
		err = conn_look(window->conn);
	if (!err)
		err = connect_ep(window, &head);
	/* The workers get to know each other by the first put: before the taker relies on it. */
	return err ? err : put_ucx(window, 0, &(struct extent){ window->at[0], 0, sizeof(u64) }, 1);
}

#else /* !HAVE_UCX */

static int probe(void)
{
	return kv_refuse(-EOPNOTSUPP, "ucx: this library was built without the headers of UCX");
}

static int make_ucx(struct window *window)
{
	return -EOPNOTSUPP;
}

static int open_ucx(struct window *window)
{
	return -EOPNOTSUPP;
}

static void close_ucx(struct window *window)
{
}

static int put_ucx(struct window *window, u32 slot, const struct extent *extent, u32 nr)
{
	return -EOPNOTSUPP;
}

static int poll_ucx(struct window *window, u32 slot)
{
	return -EOPNOTSUPP;
}

static void progress(struct window *window)
{
}

#endif /* HAVE_UCX */

const struct transport_ops transport_ucx = {
	.name		= "ucx",
	.path		= KVMM_MIGRATE_PATH_REMOTE,
	.is_far		= true,
	.probe		= probe,
	.make		= make_ucx,
	.open		= open_ucx,
	.close		= close_ucx,
	.put		= put_ucx,
	.poll		= poll_ucx,
	.progress	= progress,
};
