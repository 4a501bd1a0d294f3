// SPDX-License-Identifier: Apache-2.0
/*
 * The transport "nixl": as "ucx", by the library that engines have for this, NIXL, and what its
 * backend UCX finds between the two machines.
 *
 * libnixl_capi.so of NIXL 1.0 or later is opened at run time; it comes with no headers, so what is
 * used of it is declared here. KVMM_NIXL_LIBRARY is its path. Slots are host memory of the device
 * on both sides. Each window has an agent of its own, without a thread, which gets on when the
 * window is polled. A batch has one status: any failure is the end of the window.
 */
#include <stdio.h>
#include <string.h>

#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/sys.h>

#include "conn.h"
#include "transport.h"

#define LIBRARY		"libnixl_capi.so"
#define LIBRARY_VARIABLE	"KVMM_NIXL_LIBRARY"

/* Its objects; lists of memory to be registered and of memory to be sent are two types. */
struct agent;
struct backend;
struct params;
struct reg_list;
struct list;
struct batch;
struct notes;

enum { OPERATION_WRITE = 1 };
enum { MEMORY_DRAM = 0 };
enum { STATUS_GOOD = 0, STATUS_BUSY = 1 };	/* failures are below 0 */

/* With room for what later ones may have. */
struct config {
	bool has_thread;
	bool listens;
	int port;
	int sync;
	unsigned int nr_workers;
	u64 thread_delay_us;
	u64 listen_delay_us;
	bool has_telemetry;
	u64 reserved[8];
};

/* Names without "nixl_capi_"; all of them say a status. Options may be NULL. */
#define CALLS(call)									\
	call(create_configured_agent, const char *name, const struct config *config,	\
	     struct agent **agent)							\
	call(destroy_agent, struct agent *agent)					\
	call(create_params, struct params **params)					\
	call(params_add, struct params *params, const char *name, const char *value)	\
	call(destroy_params, struct params *params)					\
	call(create_backend, struct agent *agent, const char *name,			\
	     struct params *params, struct backend **backend)				\
	call(destroy_backend, struct backend *backend)	/* the handle alone */		\
	call(create_reg_dlist, int memory, struct reg_list **list)			\
	call(reg_dlist_add_desc, struct reg_list *list, uintptr_t at, size_t bytes,	\
	     u64 device, const void *more, size_t more_bytes)				\
	call(destroy_reg_dlist, struct reg_list *list)					\
	call(register_mem, struct agent *agent, struct reg_list *list, void *options)	\
	call(get_local_md, struct agent *agent, void **blob, size_t *bytes)		\
	call(load_remote_md, struct agent *agent, const void *blob, size_t bytes,	\
	     char **name)								\
	call(create_xfer_dlist, int memory, struct list **list)				\
	call(xfer_dlist_add_desc, struct list *list, uintptr_t at, size_t bytes,	\
	     u64 device)								\
	call(destroy_xfer_dlist, struct list *list)					\
	call(create_xfer_req, struct agent *agent, int operation, struct list *from,	\
	     struct list *to, const char *name, struct batch **batch, void *options)	\
	call(post_xfer_req, struct agent *agent, struct batch *batch, void *options)	\
	call(get_xfer_status, struct agent *agent, struct batch *batch)			\
	call(release_xfer_req, struct agent *agent, struct batch *batch)		\
	call(destroy_xfer_req, struct batch *batch)					\
	call(create_notif_map, struct notes **notes)					\
	call(destroy_notif_map, struct notes *notes)					\
	call(notif_map_clear, struct notes *notes)					\
	call(get_notifs, struct agent *agent, struct notes *notes, void *options)

#define MEMBER(name, ...)	int (*name)(__VA_ARGS__);
#define NAME(name, ...)		"nixl_capi_" #name,

struct calls {
	CALLS(MEMBER)
};

struct nixl {
	struct calls call;		/* fixed at creation */
	void (*free)(void *ptr);	/* the program's, which may not be libc's; likewise */
	struct agent *agent;		/* ours */
	struct notes *notes;		/* ours */
	/* The giver's: */
	char *peer;			/* ours, of libc's memory; the taker's agent */
	u64 remote[WINDOW_SLOTS];	/* where the taker has its slots */
	struct batch *batch[WINDOW_SLOTS];	/* ours; on its way, or NULL */
};

static int find_calls(struct calls *calls)
{
	static const char *const name[] = { CALLS(NAME) };
	const struct kv_sys_ops *sys = kv_sys();
	const char *path = sys->getenv(sys->ctx, LIBRARY_VARIABLE);

	static_assert(sizeof(*calls) == sizeof(name), "a name for each");
	return kv_find_calls("nixl (" LIBRARY_VARIABLE ")", path ?: LIBRARY, name,
			     ARRAY_SIZE(name), (void **)calls);
}

static int probe(void)
{
	struct calls calls;

	return find_calls(&calls);
}

/* It says what is wrong in its log alone. */
static int error_of(int status)
{
	return status < 0 ? kv_refuse(-EIO, "nixl: status %d; see NIXL_LOG_LEVEL", status) : 0;
}

/* ---- content ---- */

/* The agent gets on when it looks for notifications, of which there are none. */
static void progress(struct window *window)
{
	struct nixl *nixl = window->nixl;

	nixl->call.get_notifs(nixl->agent, nixl->notes, NULL);
	nixl->call.notif_map_clear(nixl->notes);
}

static int list_of(struct nixl *nixl, u64 at, const struct extent *extent, u32 nr,
		   struct list **list)
{
	int status = nixl->call.create_xfer_dlist(MEMORY_DRAM, list);

	for (u32 i = 0; i < nr && !status; i++)
		status = nixl->call.xfer_dlist_add_desc(*list, at + extent[i].offset,
							extent[i].bytes, 0);
	return status;
}

static int put_nixl(struct window *window, u32 slot, const struct extent *extent, u32 nr)
{
	struct nixl *nixl = window->nixl;
	const struct calls *call = &nixl->call;
	struct list *from = NULL, *to = NULL;
	int status = list_of(nixl, window->at[slot], extent, nr, &from);

	if (!status)
		status = list_of(nixl, nixl->remote[slot], extent, nr, &to);
	if (!status)
		status = call->create_xfer_req(nixl->agent, OPERATION_WRITE, from, to, nixl->peer,
					       &nixl->batch[slot], NULL);
	if (!status)
		status = call->post_xfer_req(nixl->agent, nixl->batch[slot], NULL);
	if (from)
		call->destroy_xfer_dlist(from);
	if (to)
		call->destroy_xfer_dlist(to);
	return status == STATUS_BUSY || !error_of(status) ? 0 : -ECONNRESET;
}

static void end_batch(struct nixl *nixl, u32 slot)
{
	nixl->call.release_xfer_req(nixl->agent, nixl->batch[slot]);
	nixl->call.destroy_xfer_req(nixl->batch[slot]);
	nixl->batch[slot] = NULL;
}

static int poll_nixl(struct window *window, u32 slot)
{
	struct nixl *nixl = window->nixl;
	int status;

	if (!nixl || !nixl->batch[slot])
		return 0;
	status = nixl->call.get_xfer_status(nixl->agent, nixl->batch[slot]);
	if (status == STATUS_BUSY)
		return -EINPROGRESS;
	end_batch(nixl, slot);
	return error_of(status) ? -ECONNRESET : 0;
}

/* ---- birth and death ---- */

/*
 * Puts by cma go to an address of the other process, whatever is there by then: not to slots that
 * are given back before the giver knows. UCX_TLS comes before what is said here.
 */
static int init_backend(struct nixl *nixl)
{
	struct backend *backend = NULL;
	struct params *params = NULL;
	int status = nixl->call.create_params(&params);

	if (!status)
		status = nixl->call.params_add(params, "engine_config", "TLS=^cma");
	if (!status)
		status = nixl->call.create_backend(nixl->agent, "UCX", params, &backend);
	if (backend)
		nixl->call.destroy_backend(backend);
	if (params)
		nixl->call.destroy_params(params);
	return status;
}

static int register_slots(const struct window *window)
{
	const struct nixl *nixl = window->nixl;
	struct reg_list *list = NULL;
	int status = nixl->call.create_reg_dlist(MEMORY_DRAM, &list);

	/* One by one: some devices take less than both at once. */
	for (u32 i = 0; i < WINDOW_SLOTS && !status; i++)
		status = nixl->call.reg_dlist_add_desc(list, window->at[i],
						       window->shape.slot_bytes, 0, NULL, 0);
	if (!status)
		status = nixl->call.register_mem(nixl->agent, list, NULL);
	if (list)
		nixl->call.destroy_reg_dlist(list);
	return status;
}

/* What both sides do. */
static int init_nixl(struct window *window)
{
	const struct config config = { 0 };
	char name[24];
	struct nixl *nixl = window->nixl = kv_alloc(sizeof(*nixl));
	int err = nixl ? find_calls(&nixl->call) : -ENOMEM, status;
	void *fn = kv_sys()->find_symbol(kv_sys()->ctx, NULL, "free");

	if (!err)
		err = window_stage(window);
	if (err)
		return err;
	memcpy(&nixl->free, &fn, sizeof(fn));
	/* It knows its peers by name. */
	snprintf(name, sizeof(name), "kvmm-%016llx", (unsigned long long)kv_random());
	status = nixl->call.create_configured_agent(name, &config, &nixl->agent);
	if (!status)
		status = init_backend(nixl);
	if (!status)
		status = nixl->call.create_notif_map(&nixl->notes);
	return error_of(status ? status : register_slots(window));
}

static void close_nixl(struct window *window)
{
	struct nixl *nixl = window->nixl;

	if (!nixl)
		return;
	for (u32 i = 0; i < WINDOW_SLOTS; i++)
		if (nixl->batch[i])
			end_batch(nixl, i);
	if (nixl->notes)
		nixl->call.destroy_notif_map(nixl->notes);
	if (nixl->agent)
		nixl->call.destroy_agent(nixl->agent);
	if (nixl->peer)
		nixl->free(nixl->peer);
	kv_free(nixl);
}

/* What the taker says: where its slots are, followed by what its agent has to say. */
static int make_nixl(struct window *window)
{
	const u32 head = sizeof(window->at);
	struct nixl *nixl;
	void *said = NULL;
	size_t bytes = 0;
	int err = init_nixl(window);

	nixl = window->nixl;
	if (!err)
		err = error_of(nixl->call.get_local_md(nixl->agent, &said, &bytes));
	if (!err && bytes > WINDOW_BLOB_BYTES - head)
		err = -EOPNOTSUPP;
	if (!err) {
		window->blob = kv_alloc_array(head + bytes, 1);
		err = window->blob ? 0 : -ENOMEM;
	}
	if (!err) {
		memcpy(window->blob, window->at, head);
		memcpy(window->blob + head, said, bytes);
		window->blob_bytes = head + bytes;
	}
	if (said)
		nixl->free(said);
	return err;
}

static int open_nixl(struct window *window)
{
	const u32 head = sizeof(window->at);
	struct nixl *nixl;
	int err = window->blob_bytes > head ? init_nixl(window) : -EPROTO;

	if (err)
		return err;
	nixl = window->nixl;
	memcpy(nixl->remote, window->blob, head);
	/* UCX below does not get over words of a process that is gone (openucx/ucx 10380). */
	err = window->conn ? conn_look(window->conn) : 0;
	if (err)
		return err;
	if (nixl->call.load_remote_md(nixl->agent, window->blob + head, window->blob_bytes - head,
				      &nixl->peer))
		return kv_refuse(-ECONNRESET, "nixl: the other side is not reached; see UCX_TLS");
	/* The agents get to know each other by the first put: before the taker relies on it. */
	return put_nixl(window, 0, &(struct extent){ .bytes = sizeof(u64) }, 1);
}

const struct transport_ops transport_nixl = {
	.name		= "nixl",
	.path		= KVMM_MIGRATE_PATH_REMOTE,
	.is_far		= true,
	.slots_only	= true,
	.probe		= probe,
	.make		= make_nixl,
	.open		= open_nixl,
	.close		= close_nixl,
	.put		= put_nixl,
	.poll		= poll_nixl,
	.progress	= progress,
};
