// SPDX-License-Identifier: Apache-2.0
/* Errors end the bench: what is open by then stays open. */
#include "bare.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>

#include "pools.h"

struct agent;
struct list;
struct batch;
struct notes;
struct object;

/* What is used of libnixl_capi.so; see net/nixl.c. */
struct calls {
	int (*create_configured_agent)(const char *name, const void *config, struct agent **agent);
	int (*destroy_agent)(struct agent *agent);
	int (*create_params)(struct object **params);
	int (*params_add)(struct object *params, const char *name, const char *value);
	int (*create_backend)(struct agent *agent, const char *name, struct object *params,
			      struct object **backend);
	int (*create_reg_dlist)(int memory, struct list **list);
	int (*reg_dlist_add_desc)(struct list *list, uintptr_t at, size_t bytes, u64 device,
				  const void *more, size_t more_bytes);
	int (*destroy_reg_dlist)(struct list *list);
	int (*register_mem)(struct agent *agent, struct list *list, void *options);
	int (*get_local_md)(struct agent *agent, void **blob, size_t *bytes);
	int (*load_remote_md)(struct agent *agent, const void *blob, size_t bytes, char **name);
	int (*create_xfer_dlist)(int memory, struct list **list);
	int (*xfer_dlist_add_desc)(struct list *list, uintptr_t at, size_t bytes, u64 device);
	int (*destroy_xfer_dlist)(struct list *list);
	int (*create_xfer_req)(struct agent *agent, int operation, struct list *from,
			       struct list *to, const char *name, struct batch **batch, void *options);
	int (*post_xfer_req)(struct agent *agent, struct batch *batch, void *options);
	int (*get_xfer_status)(struct agent *agent, struct batch *batch);
	int (*release_xfer_req)(struct agent *agent, struct batch *batch);
	int (*destroy_xfer_req)(struct batch *batch);
	int (*create_notif_map)(struct notes **notes);
	int (*destroy_notif_map)(struct notes *notes);
	int (*get_notifs)(struct agent *agent, struct notes *notes, void *options);
};

static const char *const names[] = {
	"create_configured_agent", "destroy_agent", "create_params", "params_add", "create_backend",
	"create_reg_dlist", "reg_dlist_add_desc", "destroy_reg_dlist", "register_mem", "get_local_md",
	"load_remote_md", "create_xfer_dlist", "xfer_dlist_add_desc", "destroy_xfer_dlist",
	"create_xfer_req", "post_xfer_req", "get_xfer_status", "release_xfer_req",
	"destroy_xfer_req", "create_notif_map", "destroy_notif_map", "get_notifs",
};

struct bare {
	struct calls call;
	struct agent *agent[2];
	char *peer;			/* the second one */
	struct notes *notes;
	u64 base;			/* of the first one's memory; 0: not registered */
	u8 *memory;			/* of the second one */
	u64 bytes;
};

static int find_calls(struct calls *calls)
{
	const char *path = getenv("KVMM_NIXL_LIBRARY");
	void *library = dlopen(path ? path : "libnixl_capi.so", RTLD_NOW);
	char name[64];

	static_assert(sizeof(*calls) == sizeof(names), "a name for each");
	for (u32 i = 0; i < ARRAY_SIZE(names) && library; i++) {
		snprintf(name, sizeof(name), "nixl_capi_%s", names[i]);
		((void **)calls)[i] = dlsym(library, name);
	}
	return library ? 0 : -EIO;
}

/* As a window's agent is made. */
static int open_agent(struct bare *bare, u32 i)
{
	const u64 config[16] = { 0 };
	struct object *params, *backend;

	return bare->call.create_configured_agent(i ? "to" : "from", config, &bare->agent[i]) ||
	       bare->call.create_params(&params) ||
	       bare->call.params_add(params, "engine_config", "TLS=^cma") ||
	       bare->call.create_backend(bare->agent[i], "UCX", params, &backend) ? -EIO : 0;
}

static int make_known(struct bare *bare, u32 i, u64 at, u64 bytes)
{
	struct list *list;
	int bad = bare->call.create_reg_dlist(0, &list) ||
		  bare->call.reg_dlist_add_desc(list, at, bytes, 0, NULL, 0) ||
		  bare->call.register_mem(bare->agent[i], list, NULL) ||
		  bare->call.destroy_reg_dlist(list);

	return bad ? -EIO : 0;
}

static int introduce(struct bare *bare)
{
	size_t bytes;
	void *blob;
	int bad = bare->call.get_local_md(bare->agent[1], &blob, &bytes) ||
		  bare->call.load_remote_md(bare->agent[0], blob, bytes, &bare->peer);

	return bad ? -EIO : 0;
}

static int open_nixl(u64 bytes, struct bare **result)
{
	struct bare *bare = *result = calloc(1, sizeof(*bare));
	int err = bare ? find_calls(&bare->call) : -EIO;

	if (err)
		return err;
	bare->bytes = bytes;
	bare->memory = must_alloc(bytes);
	memset(bare->memory, 1, bytes);
	for (u32 i = 0; i < 2 && !err; i++)
		err = open_agent(bare, i);
	if (!err)
		err = make_known(bare, 1, (uintptr_t)bare->memory, bytes);
	if (!err)
		err = introduce(bare);
	return err || bare->call.create_notif_map(&bare->notes) ? -EIO : 0;
}

static void close_nixl(struct bare *bare)
{
	bare->call.destroy_notif_map(bare->notes);
	for (u32 i = 0; i < 2; i++)
		bare->call.destroy_agent(bare->agent[i]);
	free(bare->peer);
	free(bare->memory);
	free(bare);
}

static int finish(struct bare *bare, struct batch *batch)
{
	int status = bare->call.post_xfer_req(bare->agent[0], batch, NULL);

	while (status == 1) {
		bare->call.get_notifs(bare->agent[1], bare->notes, NULL);
		status = bare->call.get_xfer_status(bare->agent[0], batch);
	}
	bare->call.release_xfer_req(bare->agent[0], batch);
	bare->call.destroy_xfer_req(batch);
	return status ? -EIO : 0;
}

static int put_nixl(struct bare *bare, u64 base, const u32 *piece, u32 nr, u64 bytes)
{
	const struct calls *call = &bare->call;
	struct list *from, *to;
	struct batch *batch;
	int err = bare->base == base ? 0 :
		  make_known(bare, 0, base, (piece[nr - 1] + 1) * bytes);

	bare->base = base;
	if (err || call->create_xfer_dlist(0, &from) || call->create_xfer_dlist(0, &to))
		return -EIO;
	for (u32 i = 0; i < nr; i++) {
		call->xfer_dlist_add_desc(from, base + piece[i] * bytes, bytes, 0);
		call->xfer_dlist_add_desc(to, (uintptr_t)bare->memory + i * bytes % bare->bytes, bytes, 0);
	}
	err = call->create_xfer_req(bare->agent[0], 1, from, to, bare->peer, &batch, NULL) ?
	      -EIO : finish(bare, batch);
	call->destroy_xfer_dlist(from);
	call->destroy_xfer_dlist(to);
	return err;
}

const struct bare_ops bare_nixl = { open_nixl, close_nixl, put_nixl };
