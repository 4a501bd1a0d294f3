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

static int refuse_mode(int err, const struct attach_type *type, u32 mode)
{
	static const char *const name[] = { "unique", "multiple" };

	return kv_refuse(err, "attachment type \"%s\" is %s, not %s", type->name,
			 name[!!(type->mode & KVMM_ATTACH_MULTIPLE)],
			 name[!!(mode & KVMM_ATTACH_MULTIPLE)]);
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
	kv_why_clear();
	if (!reg || !name || !*name || strlen(name) >= TYPE_NAME ||
	    (mode & ~KVMM_ATTACH_KEEPS) > KVMM_ATTACH_MULTIPLE)
		return -EINVAL;
	strcpy(type.name, name);
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

static int attach(struct kvmm_registry *reg, kvmm_node_t handle, const struct attachment *what)
{
	const struct attach_type *type = &reg->type[what->type];
	struct attachment *fresh = kv_alloc(sizeof(*fresh)), *old = NULL, **link;
	bool is_unique = !(type->mode & KVMM_ATTACH_MULTIPLE);
	int err;

	if (!fresh)
		return -ENOMEM;
	*fresh = *what;
	kv_fetch_add(&reg->attach_bytes, sizeof(*fresh));
	err = radix_node_get(reg, handle);
	if (err) {
		attachment_free(reg, fresh);
		return err;
	}
	kv_lock(lock_of(reg, handle.index));
	/* In place of the only value, or behind the others. */
	for (link = &node_at(reg, handle.index)->attached; *link; link = &(*link)->next)
		if (is_unique && (*link)->type == what->type)
			break;
	old = *link;
	if (old) {
		fresh->next = old->next;
		old->next = NULL;
	}
	*link = fresh;
	kv_unlock(lock_of(reg, handle.index));
	destroy_list(reg, old);
	/* A value that keeps its node keeps our hold. The one it replaced had one already. */
	if (old || !(type->mode & KVMM_ATTACH_KEEPS))
		kvmm_node_put(reg, &handle, 1);
	return 0;
}

static int detach(struct kvmm_registry *reg, kvmm_node_t handle, int type)
{
	struct attachment *list = NULL, **end = &list, **link;
	int err = radix_node_get(reg, handle);
	u32 nr;

	if (err)
		return err;
	kv_lock(lock_of(reg, handle.index));
	link = &node_at(reg, handle.index)->attached;
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
	kv_unlock(lock_of(reg, handle.index));
	nr = destroy_list(reg, list);
	for (u32 i = 0; reg->type[type].mode & KVMM_ATTACH_KEEPS && i < nr; i++)
		kvmm_node_put(reg, &handle, 1);
	kvmm_node_put(reg, &handle, 1);
	return nr;
}

int kvmm_node_attach(struct kvmm_registry *reg, kvmm_node_t handle, int type, uint32_t mode,
		     void *value)
{
	const struct attach_type *found;

	if (kv_inherited(reg))
		return -ECHILD;
	kv_why_clear();
	found = type_of(reg, type);
	if (!found)
		return kv_refuse(-EINVAL, "there is no attachment type %d", type);
	if (!value)
		return detach(reg, handle, type);
	if (mode != (found->mode & ~KVMM_ATTACH_KEEPS))
		return refuse_mode(-EINVAL, found, mode);
	return attach(reg, handle, &(struct attachment){ NULL, value, type });
}

/* ---- access ---- */

int kvmm_node_with(struct kvmm_registry *reg, kvmm_node_t handle, int type, kvmm_attach_fn *fn,
		   void *ctx)
{
	struct node *node;
	bool stop = false;
	int nr = 0;

	if (kv_inherited(reg))
		return -ECHILD;
	if (!fn || (type != -1 && !type_of(reg, type)))
		return -EINVAL;
	node = node_of(reg, handle);
	if (!node)
		return radix_refuse(reg, handle);
	kv_lock(lock_of(reg, handle.index));
	if (!node_lives(node, handle.gen)) {
		kv_unlock(lock_of(reg, handle.index));
		return radix_refuse(reg, handle);
	}
	for (struct attachment *list = node->attached; list && !stop; list = list->next) {
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
