// SPDX-License-Identifier: Apache-2.0
/* See fake_nixl.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/net/fake_nixl.h"

#define NAME_BYTES	32u

enum { GOOD = 0, BUSY = 1, BAD_PARAM = -1, BAD_BACKEND = -2, BAD_STATE = -3 };

struct part {
	uintptr_t at;
	size_t bytes;
};

struct list {
	u32 nr;
	struct part part[8];
};

/* What it says is its name. */
struct agent {
	char name[NAME_BYTES];
	char peer[NAME_BYTES];
	struct list memory;		/* registered */
};

struct batch {
	struct list from;
	struct list to;
	u32 nr_polls;
	bool posted;
	bool released;
};

struct fake_nixl fake_nixl;

static struct agent agents[4];

static struct agent *find_agent(const char *name)
{
	for (u32 i = 0; i < ARRAY_SIZE(agents); i++)
		if (!strcmp(agents[i].name, name))
			return &agents[i];
	return NULL;
}

static bool fails(void)
{
	return ++fake_nixl.nr_calls == fake_nixl.fail_at;
}

static int make(void **where, size_t bytes)
{
	if (fails())
		return BAD_BACKEND;
	*where = calloc(1, bytes);
	fake_nixl.nr_open++;
	return GOOD;
}

static int drop(void *what)
{
	free(what);
	fake_nixl.nr_open--;
	return GOOD;
}

/* Of what this program has malloc() from, which need not be the libc that libraries depend on. */
static void drop_by_free(void *what)
{
	drop(what);
}

static int create_agent(const char *name, const void *config, struct agent **agent)
{
	struct agent *free = find_agent("");

	if (fails() || !free)
		return BAD_BACKEND;
	strncpy(free->name, name, NAME_BYTES - 1);
	*agent = free;
	fake_nixl.nr_open++;
	return GOOD;
}

static int destroy_agent(struct agent *agent)
{
	memset(agent, 0, sizeof(*agent));
	fake_nixl.nr_open--;
	return GOOD;
}

static int create_small(void **what)
{
	return make(what, 1);
}

/* The way that would write to what a taker has given back must not be taken. */
static int add_param(void *params, const char *name, const char *value)
{
	return fails() || strcmp(name, "engine_config") || strcmp(value, "TLS=^cma") ?
	       BAD_PARAM : GOOD;
}

static int create_backend(struct agent *agent, const char *name, void *params, void **backend)
{
	return strcmp(name, "UCX") || !params ? BAD_PARAM : make(backend, 1);
}

static int create_list(int memory, struct list **list)
{
	return memory ? BAD_PARAM : make((void **)list, sizeof(**list));
}

static int add_part(struct list *list, uintptr_t at, size_t bytes, u64 device)
{
	if (fails() || list->nr == ARRAY_SIZE(list->part) || device)
		return BAD_PARAM;
	list->part[list->nr++] = (struct part){ at, bytes };
	return GOOD;
}

static int register_mem(struct agent *agent, struct list *list, void *options)
{
	if (fails())
		return BAD_BACKEND;
	for (u32 i = 0; i < list->nr; i++)
		if (fake_nixl.most_bytes && list->part[i].bytes > fake_nixl.most_bytes)
			return BAD_BACKEND;
	agent->memory = *list;
	return GOOD;
}

static int get_local_md(struct agent *agent, void **blob, size_t *bytes)
{
	if (fails())
		return BAD_BACKEND;
	*bytes = NAME_BYTES + fake_nixl.blob_bytes;
	*blob = calloc(1, *bytes);
	fake_nixl.nr_open++;
	memcpy(*blob, agent->name, NAME_BYTES);
	return GOOD;
}

static int load_remote_md(struct agent *agent, const void *blob, size_t bytes, char **name)
{
	fake_nixl.nr_loaded++;
	if (fails() || bytes != NAME_BYTES + fake_nixl.blob_bytes)
		return BAD_PARAM;
	memcpy(agent->peer, blob, NAME_BYTES);
	*name = strdup(agent->peer);
	fake_nixl.nr_open++;
	return GOOD;
}

static bool is_part_of(const struct part *part, const struct list *memory)
{
	for (u32 i = 0; i < memory->nr; i++)
		if (part->at >= memory->part[i].at &&
		    part->at + part->bytes <= memory->part[i].at + memory->part[i].bytes)
			return true;
	return false;
}

static bool is_in(const struct list *list, const struct list *memory)
{
	for (u32 i = 0; i < list->nr; i++)
		if (!is_part_of(&list->part[i], memory))
			return false;
	return true;
}

static int create_batch(struct agent *agent, int operation, struct list *from, struct list *to,
			const char *name, struct batch **batch, void *options)
{
	struct agent *peer = find_agent(name);

	if (operation != 1 || strcmp(name, agent->peer) || from->nr != to->nr || !peer ||
	    !is_in(from, &agent->memory) || !is_in(to, &peer->memory) ||
	    make((void **)batch, sizeof(**batch)))
		return BAD_PARAM;
	**batch = (struct batch){ *from, *to, fake_nixl.nr_polls, false, false };
	return GOOD;
}

static int post_batch(struct agent *agent, struct batch *batch, void *options)
{
	if (fails())
		return BAD_BACKEND;
	batch->posted = true;
	return BUSY;
}

static int poll_batch(struct agent *agent, struct batch *batch)
{
	if (!batch->posted || fails() || !find_agent(agent->peer))
		return BAD_BACKEND;
	if (batch->nr_polls) {
		batch->nr_polls--;
		return BUSY;
	}
	for (u32 i = 0; i < batch->from.nr; i++)
		memcpy((void *)batch->to.part[i].at, (void *)batch->from.part[i].at,
		       batch->from.part[i].bytes);
	return GOOD;
}

static int release_batch(struct agent *agent, struct batch *batch)
{
	batch->released = true;
	return GOOD;
}

static int destroy_batch(struct batch *batch)
{
	return batch->released ? drop(batch) : BAD_STATE;
}

static int do_nothing(void *notes)
{
	return GOOD;
}

#define SYMBOL(name, fn)	{ "nixl_capi_" #name, fn }

static const struct {
	const char *name;
	void *fn;
} symbols[] = {
	SYMBOL(create_configured_agent, create_agent), SYMBOL(destroy_agent, destroy_agent),
	SYMBOL(create_params, create_small), SYMBOL(params_add, add_param),
	SYMBOL(destroy_params, drop), SYMBOL(create_backend, create_backend),
	SYMBOL(destroy_backend, drop), SYMBOL(create_reg_dlist, create_list),
	SYMBOL(reg_dlist_add_desc, add_part), SYMBOL(destroy_reg_dlist, drop),
	SYMBOL(register_mem, register_mem), SYMBOL(get_local_md, get_local_md),
	SYMBOL(load_remote_md, load_remote_md), SYMBOL(create_xfer_dlist, create_list),
	SYMBOL(xfer_dlist_add_desc, add_part), SYMBOL(destroy_xfer_dlist, drop),
	SYMBOL(create_xfer_req, create_batch), SYMBOL(post_xfer_req, post_batch),
	SYMBOL(get_xfer_status, poll_batch), SYMBOL(release_xfer_req, release_batch),
	SYMBOL(destroy_xfer_req, destroy_batch), SYMBOL(create_notif_map, create_small),
	SYMBOL(destroy_notif_map, drop), SYMBOL(get_notifs, do_nothing),
	SYMBOL(notif_map_clear, do_nothing),
};

const char *fake_nixl_symbol(u32 nth)
{
	return nth < ARRAY_SIZE(symbols) ? symbols[nth].name : NULL;
}

static const char *fake_getenv(void *ctx, const char *name)
{
	return strcmp(name, "KVMM_NIXL_LIBRARY") ? NULL : fake_nixl.variable;
}

static void *fake_open(void *ctx, const char *path, const char **why)
{
	if (!strstr(path, "nixl"))
		return kv_sys_system.open_library(ctx, path, why);
	fake_nixl.path = path;
	*why = "not there";
	return fake_nixl.no_library ? NULL : &fake_nixl;
}

static void *fake_find(void *ctx, void *library, const char *name)
{
	if (!library && !strcmp(name, "free"))
		return drop_by_free;
	if (library != &fake_nixl)
		return kv_sys_system.find_symbol(ctx, library, name);
	for (u32 i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!strcmp(name, symbols[i].name) &&
		    (!fake_nixl.no_symbol || strcmp(name, fake_nixl.no_symbol)))
			return symbols[i].fn;
	return NULL;
}

void fake_nixl_install(void)
{
	fake_nixl = (struct fake_nixl){ .nr_polls = 1, .sys = kv_sys_system };
	fake_nixl.sys.getenv = fake_getenv;
	fake_nixl.sys.open_library = fake_open;
	fake_nixl.sys.find_symbol = fake_find;
	kv_sys_set(&fake_nixl.sys);
}

void fake_nixl_remove(void)
{
	kv_sys_set(NULL);
}
