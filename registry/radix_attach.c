// SPDX-License-Identifier: Apache-2.0
/*
 * Values that callers attach to nodes of the registry of prefixes.
 *
 * The values of a node are a list, in the order of their arrival, under a lock that the node shares
 * with others (by its slot's number). A node that goes gets another generation first, and loses its
 * values under that lock later: so a thread that holds the lock and sees the generation it asked
 * for has the values of that life.
 *
 * A thread that attaches holds the node meanwhile, so that it does not go between the check and the
 * change. Destructors run without any lock.
 */
#include <stdio.h>

#include <kv/err.h>
#include <kv/log.h>

#include "radix.h"

struct attachment {
	struct attachment *next;	/* lock of attachments, like all of it */
	void *value;
	int type;
};

void radix_attach_init(struct kvmm_registry *reg)
{
	kv_lock_init(&reg->config_lock, KV_RANK_LEAF, 0);
	for (u32 i = 0; i < NR_ATTACH_LOCKS; i++)
		kv_lock_init(&reg->attach_lock[i], KV_RANK_ATTACH, i);
}

static struct kv_lock *lock_of(struct kvmm_registry *reg, u32 index)
{
	kv_assert(index && index <= READ_ONCE(reg->slab[NODE].top));
	return &reg->attach_lock[index % NR_ATTACH_LOCKS];
}

/* ---- types ---- */

static const struct attach_type *type_of(const struct kvmm_registry *reg, int type)
{
	/* Pairs with kvmm_attach_type_create(): the type is written. */
	u32 nr = smp_load_acquire(&reg->nr_types);

	return type >= 0 && (u32)type < nr ? &reg->type[type] : NULL;
}

static const char *mode_name(u32 mode)
{
	return mode & KVMM_ATTACH_MULTIPLE ? "multiple" : "unique";
}

static int refuse_mode(int err, const struct attach_type *type, u32 mode)
{
	return kv_refuse(err, "attachment type \"%s\" is %s, not %s", type->name,
			 mode_name(type->mode), mode_name(mode));
}

static int type_add(struct kvmm_registry *reg, const struct attach_type *type)
{
	kv_assert_held(&reg->config_lock);
	for (u32 id = 0; id < reg->nr_types; id++) {
		const struct attach_type *old = &reg->type[id];

		if (strcmp(old->name, type->name))
			continue;
		if ((old->mode ^ type->mode) & KVMM_ATTACH_MULTIPLE)
			return refuse_mode(-EEXIST, old, type->mode);
		if (old->mode == type->mode && old->dtor == type->dtor)
			return id;
		return kv_refuse(-EEXIST, "attachment type \"%s\" has another %s", type->name,
				 old->dtor == type->dtor ? "KVMM_ATTACH_KEEPS" : "destructor");
	}
	if (reg->nr_types == KVMM_REGISTRY_TYPES)
		return -ENOSPC;
	reg->type[reg->nr_types] = *type;
	/* Pairs with type_of(). */
	smp_store_release(&reg->nr_types, reg->nr_types + 1);
	return reg->nr_types - 1;
}

int kvmm_attach_type_create(struct kvmm_registry *reg, const char *name, uint32_t mode,
			    kvmm_attach_dtor *dtor)
{
	struct attach_type type = { .mode = mode, .dtor = dtor };
	int id;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!reg || !name || !*name || strlen(name) >= TYPE_NAME ||
	    (mode & ~KVMM_ATTACH_KEEPS) > KVMM_ATTACH_MULTIPLE)
		return -EINVAL;
	strcpy(type.name, name);
	kv_why_clear();
	kv_lock(&reg->config_lock);
	id = type_add(reg, &type);
	kv_unlock(&reg->config_lock);
	return id;
}

/* ---- lists ---- */

static void attachment_free(struct kvmm_registry *reg, struct attachment *attachment)
{
	if (!attachment)
		return;
	kv_assert(READ_ONCE(reg->attach_bytes) >= sizeof(*attachment));
	kv_fetch_sub(&reg->attach_bytes, sizeof(*attachment));
	kv_free(attachment);
}

/* All of @list, which no other thread has. Returns how many. */
static u32 destroy_list(struct kvmm_registry *reg, struct attachment *list)
{
	u32 nr = 0;

	while (list) {
		struct attachment *next = list->next;
		kvmm_attach_dtor *dtor = reg->type[list->type].dtor;

		if (dtor)
			dtor(list->value);
		attachment_free(reg, list);
		list = next;
		nr++;
	}
	return nr;
}

void radix_attach_destroy(struct kvmm_registry *reg, u32 index)
{
	struct node *node = node_at(reg, index);
	struct attachment *list;

	kv_lock(lock_of(reg, index));
	list = node->attached;
	node->attached = NULL;
	kv_unlock(lock_of(reg, index));
	destroy_list(reg, list);
}

/* ---- attach, detach ---- */

/*
 * In place of the only value, or behind the others. The one that is left over comes back: the
 * former value, or nothing.
 */
static struct attachment *put_in(struct node *node, struct attachment *fresh, bool is_unique)
{
	struct attachment **link = &node->attached;

	for (; *link; link = &(*link)->next) {
		struct attachment *old = *link;

		if (is_unique && old->type == fresh->type) {
			fresh->next = old->next;
			*link = fresh;
			old->next = NULL;
			return old;
		}
	}
	*link = fresh;
	return NULL;
}

int kvmm_node_attach(struct kvmm_registry *reg, kvmm_node_t handle, int type, uint32_t mode,
		     void *value)
{
	const struct attach_type *found = type_of(reg, type);
	struct attachment *fresh, *old;
	int err;

	if (kv_inherited(reg))
		return -ECHILD;
	kv_why_clear();
	if (!found)
		return kv_refuse(-EINVAL, "there is no attachment type %d", type);
	if (mode != (found->mode & ~KVMM_ATTACH_KEEPS))
		return refuse_mode(-EINVAL, found, mode);
	fresh = kv_alloc(sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	*fresh = (struct attachment){ NULL, value, type };
	kv_fetch_add(&reg->attach_bytes, sizeof(*fresh));
	err = kvmm_node_get(reg, &handle, 1);
	if (err) {
		attachment_free(reg, fresh);
		return err;
	}
	kv_lock(lock_of(reg, handle.index));
	old = put_in(node_at(reg, handle.index), fresh, mode == KVMM_ATTACH_UNIQUE);
	kv_unlock(lock_of(reg, handle.index));
	destroy_list(reg, old);
	/* A value that keeps its node keeps our hold. The one it replaced had one already. */
	if (old || !(found->mode & KVMM_ATTACH_KEEPS))
		kvmm_node_put(reg, &handle, 1);
	return 0;
}

static struct attachment *take_out(struct node *node, int type)
{
	struct attachment **link = &node->attached, *list = NULL, **end = &list;

	while (*link) {
		struct attachment *found = *link;

		if (found->type != type) {
			link = &found->next;
			continue;
		}
		*link = found->next;
		found->next = NULL;
		*end = found;
		end = &found->next;
	}
	return list;
}

int kvmm_node_detach(struct kvmm_registry *reg, kvmm_node_t handle, int type)
{
	const struct attach_type *found = type_of(reg, type);
	struct attachment *list;
	u32 nr;
	int err;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!found)
		return -EINVAL;
	err = kvmm_node_get(reg, &handle, 1);
	if (err)
		return err;
	kv_lock(lock_of(reg, handle.index));
	list = take_out(node_at(reg, handle.index), type);
	kv_unlock(lock_of(reg, handle.index));
	nr = destroy_list(reg, list);
	for (u32 i = 0; found->mode & KVMM_ATTACH_KEEPS && i < nr; i++)
		kvmm_node_put(reg, &handle, 1);
	kvmm_node_put(reg, &handle, 1);
	return nr;
}

/* ---- access ---- */

/* The node's values, under its lock: those of @handle's life, or none are. */
static struct attachment *lock_values(struct kvmm_registry *reg, kvmm_node_t handle, bool *lives)
{
	struct node *node = node_of(reg, handle);

	*lives = false;
	if (!node)
		return NULL;
	kv_lock(lock_of(reg, handle.index));
	*lives = node_lives(node, handle.gen);
	if (*lives)
		return node->attached;
	kv_unlock(lock_of(reg, handle.index));
	return NULL;
}

int kvmm_node_with(struct kvmm_registry *reg, kvmm_node_t handle, int type, kvmm_attach_fn *fn,
		   void *ctx)
{
	struct attachment *list;
	bool lives, stop = false;
	int nr = 0;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!fn || (type != -1 && !type_of(reg, type)))
		return -EINVAL;
	list = lock_values(reg, handle, &lives);
	if (!lives)
		return radix_refuse(reg, handle);
	for (; list && !stop; list = list->next) {
		if (type != -1 && list->type != type)
			continue;
		stop = fn(ctx, list->type, &list->value);
		nr++;
	}
	kv_unlock(lock_of(reg, handle.index));
	return nr;
}

/* ---- check ---- */

bool radix_attach_is_sound(const struct kvmm_registry *reg, const struct node *node, u32 *nr_keeps)
{
	u64 seen = 0;

	*nr_keeps = 0;
	for (const struct attachment *at = node->attached; at; at = at->next) {
		const struct attach_type *type = type_of(reg, at->type);

		if (!type || (!(type->mode & KVMM_ATTACH_MULTIPLE) && seen & BIT64(at->type)))
			return false;
		seen |= BIT64(at->type);
		*nr_keeps += !!(type->mode & KVMM_ATTACH_KEEPS);
	}
	return true;
}
