/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry of prefixes: which blocks of prompts exist, in which tiers, in which order.
 *
 * Several pools, its *tiers* (device, host, disk, ...; the caller numbers them), share one
 * registry. It holds no blocks, only names. A *name* is a key, a domain and a position; for each
 * there is one *node*, with
 *
 * - how many blocks of that name each tier has; the tier has the name as long as it is not 0;
 * - its parent, the name of the block before, and its children;
 * - values that the caller attaches to it.
 *
 * A node exists while a tier has its name, or a caller holds it (kvmm_registry_hold()). Look-ups of
 * missing names leave nothing behind. A node without a registered parent is an *orphan*; it finds
 * its parent when that appears.
 *
 * Lookups and walks take no lock, write nothing that is shared and allocate nothing. They go on
 * while other threads register and forget. What they say of several names is true of each at some
 * moment of the call.
 *
 * Guarantees are numbered in Documentation/registry.rst.
 *
 * Unless a call says otherwise: any thread, but not from a callback that runs under a lock.
 */
#ifndef KVMM_EXT_REGISTRY_H
#define KVMM_EXT_REGISTRY_H

#include <kvmm/cache.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most tiers of a registry. Sets of tiers are masks: bit t is tier t. */
#define KVMM_MAX_TIERS		16u

/** Most names of one callback; longer batches come in parts. */
#define KVMM_REGISTRY_BATCH	64u

/** Most callbacks of both kinds that are registered at a time. */
#define KVMM_REGISTRY_HOOKS	8u

/** Most types of attachments. */
#define KVMM_REGISTRY_TYPES	64u

struct kvmm_registry;

/** A node, by value. Without a hold it may go any time: then all calls refuse it. */
typedef struct {
	uint32_t index;
	uint32_t gen;		/* 0: no node */
} kvmm_node_t;

/**
 * struct kvmm_name - the name of a block
 * @key: of the block
 * @domain: tenant, layout and group of the block
 * @position: in blocks from the start of the prompt
 *
 * Fixed: what a name is; two names are equal if all of it is.
 */
struct kvmm_name {
	kvmm_key_t key;
	kvmm_domain_t domain;
	uint32_t position;
};

/* ---- making one ---- */

/** The engine registers a name after the one before it in the same tier, and forgets it first:
 * lengths are found by bisection. Calls about several tiers rely on that order in their union. */
#define KVMM_REGISTRY_PREFIX_CLOSED	(1u << 0)

/**
 * struct kvmm_registry_attr - how to make a registry
 * @size: sizeof(struct kvmm_registry_attr); set by KVMM_REGISTRY_ATTR_INIT
 * @capacity: nodes to allocate memory for; the registry grows beyond, by doubling
 * @nr_tiers: 1 to KVMM_MAX_TIERS
 * @flags: KVMM_REGISTRY_*
 */
struct kvmm_registry_attr {
	size_t size;
	uint32_t capacity;
	uint32_t nr_tiers;
	uint32_t flags;
};

#define KVMM_REGISTRY_ATTR_INIT { sizeof(struct kvmm_registry_attr), 1024, 4, 0 }

/** kvmm_registry_create() - make an empty one. Return: 0; -EINVAL; -ENOMEM. */
KVMM_API int kvmm_registry_create(const struct kvmm_registry_attr *attr,
				  struct kvmm_registry **reg);

/**
 * kvmm_registry_destroy() - free a registry, or NULL
 *
 * No other call on it may run or start; no pool uses it any more. Destructors of attachments are
 * called. Waits for a grace period.
 */
KVMM_API void kvmm_registry_destroy(struct kvmm_registry *reg);

/* ---- what tiers have ---- */

/** No tier: see kvmm_registry_transfer(). */
#define KVMM_NO_TIER	UINT32_MAX

/**
 * kvmm_registry_transfer() - a block of each of these names has gone from one tier to another
 * @from: KVMM_NO_TIER: @to has got a block of each, as kvmm_registry_present()
 * @to: KVMM_NO_TIER: @from has lost one, as kvmm_registry_absent()
 *
 * Moves each name in one step: one of the tiers has it at any moment. It is no access: touch
 * callbacks are not called. Passes over names that @from does not have.
 *
 * Context: as kvmm_registry_absent(), or as _present() without @from.
 * Return: how many; without @from 0 or -ENOMEM; -EINVAL, also where both are the same.
 */
KVMM_API int kvmm_registry_transfer(struct kvmm_registry *reg, uint32_t from, uint32_t to,
				    const struct kvmm_prefix *prefix);

/**
 * kvmm_registry_present() - @tier has got a block of each of these names
 *
 * Counts blocks: a second block of a name is one more, and a key given twice counts twice. The key
 * before each is its parent: a node without a parent gets it, others keep theirs.
 *
 * Context: may allocate, and wait for a grace period; hooks are called.
 * Return: 0; -EINVAL; -ENOMEM: nothing was registered.
 */
static inline int kvmm_registry_present(struct kvmm_registry *reg, uint32_t tier,
					const struct kvmm_prefix *prefix)
{
	return kvmm_registry_transfer(reg, KVMM_NO_TIER, tier, prefix);
}

/**
 * kvmm_registry_absent() - @tier has lost a block of each of these names, last name first
 *
 * Passes over names that the tier does not have.
 *
 * Context: never allocates or waits; hooks are called.
 * Return: how many blocks were counted down; -EINVAL.
 */
static inline int kvmm_registry_absent(struct kvmm_registry *reg, uint32_t tier,
				       const struct kvmm_prefix *prefix)
{
	return kvmm_registry_transfer(reg, tier, KVMM_NO_TIER, prefix);
}

/* ---- looking up ---- */

/**
 * kvmm_registry_len() - how many leading names are in any of @tiers
 * @tiers: a mask; UINT32_MAX: any. A tier that the registry does not have has nothing
 *
 * By bisection if the registry is KVMM_REGISTRY_PREFIX_CLOSED.
 *
 * Return: the length; -EINVAL.
 */
KVMM_API int kvmm_registry_len(struct kvmm_registry *reg, const struct kvmm_prefix *prefix,
			       uint32_t tiers);

/**
 * kvmm_registry_find() - the nodes of these names, not held, and the tiers that have each
 * @nodes: room for @prefix->nr; .gen is 0 where the name is not registered. NULL: not wanted
 * @tiers: room for as many masks; 0 where the name is not registered. NULL: not wanted
 *
 * Return: how many names are registered, without @nodes: are in any tier; -EINVAL.
 */
KVMM_API int kvmm_registry_find(struct kvmm_registry *reg, const struct kvmm_prefix *prefix,
				kvmm_node_t *nodes, uint16_t *tiers);

/** kvmm_registry_presence() - the tiers alone. */
static inline int kvmm_registry_presence(struct kvmm_registry *reg,
					 const struct kvmm_prefix *prefix, uint16_t *tiers)
{
	return kvmm_registry_find(reg, prefix, NULL, tiers);
}

/**
 * struct kvmm_registry_stat - numbers, for tools
 * @nodes: registered names
 * @names: of them, those that tier t has
 * @capacity: nodes there is memory for
 * @positions: positions that have a node
 * @bytes: host memory held, attachments' own included
 */
struct kvmm_registry_stat {
	uint32_t nodes;
	uint32_t names[KVMM_MAX_TIERS];
	uint32_t capacity;
	uint32_t positions;
	uint64_t bytes;
};

KVMM_API int kvmm_registry_get_stat_sized(struct kvmm_registry *reg,
					  struct kvmm_registry_stat *stat,
					  size_t size);

/**
 * kvmm_registry_get_stat() - sums over parts that may be of different moments. Return: 0; -EINVAL.
 */
static inline int kvmm_registry_get_stat(struct kvmm_registry *reg, struct kvmm_registry_stat *stat)
{
	return kvmm_registry_get_stat_sized(reg, stat, sizeof(*stat));
}

/* ---- nodes ---- */

/**
 * kvmm_registry_hold() - register these names, whether a tier has them or not, and hold the nodes
 * @nodes: room for @prefix->nr; give each back by kvmm_node_put()
 *
 * Context: as kvmm_registry_present(), but that no hook is called.
 * Return: 0; -EINVAL; -ENOMEM, -EOVERFLOW: nothing was registered.
 */
KVMM_API int kvmm_registry_hold(struct kvmm_registry *reg, const struct kvmm_prefix *prefix,
				kvmm_node_t *nodes);

/**
 * kvmm_node_put() - undo one kvmm_registry_hold() each
 *
 * Destructors of attachments may be called.
 *
 * Return: 0; -ESTALE, -EINVAL: one of them is not held (none was put).
 */
KVMM_API int kvmm_node_put(struct kvmm_registry *reg, const kvmm_node_t *nodes, uint32_t nr);

/**
 * struct kvmm_node_info - what is known of a node
 * @name: its name
 * @tiers: those that have it
 * @children: registered ones
 * @parent: the node before; .gen is 0 where that is unknown or not registered
 */
struct kvmm_node_info {
	struct kvmm_name name;
	uint32_t tiers;
	uint32_t children;
	kvmm_node_t parent;
};

KVMM_API int kvmm_node_get_info_sized(struct kvmm_registry *reg, kvmm_node_t node,
				      struct kvmm_node_info *info, size_t size);

/** kvmm_node_get_info() - Return: 0; -ESTALE, -EINVAL. */
static inline int kvmm_node_get_info(struct kvmm_registry *reg, kvmm_node_t node,
				     struct kvmm_node_info *info)
{
	return kvmm_node_get_info_sized(reg, node, info, sizeof(*info));
}

/** What a walk calls for each node; not 0 ends it. It must not wait for other threads, nor call
 * what may wait for a grace period. */
typedef int kvmm_walk_fn(void *ctx, kvmm_node_t node, uint32_t depth);

/**
 * kvmm_node_walk() - @node and all below it, parents before children
 *
 * Each node that is there from beginning to end is visited once; one that comes or goes meanwhile
 * at most once. Needs no memory, however deep the tree.
 *
 * Return: 0; what @fn returned, if not 0; -ESTALE, -EINVAL.
 */
KVMM_API int kvmm_node_walk(struct kvmm_registry *reg, kvmm_node_t node, kvmm_walk_fn *fn,
			    void *ctx);

/* ---- attachments ---- */

/**
 * enum kvmm_attach_mode - how many values of one type a node may have
 * @KVMM_ATTACH_UNIQUE: one; another replaces it
 * @KVMM_ATTACH_MULTIPLE: any number, kept in the order of their arrival
 * @KVMM_ATTACH_KEEPS: flag: a node exists as long as it has a value of this type
 *
 * Without KVMM_ATTACH_KEEPS values go with their node.
 */
enum kvmm_attach_mode {
	KVMM_ATTACH_UNIQUE,
	KVMM_ATTACH_MULTIPLE,
	KVMM_ATTACH_KEEPS = 1 << 8,
};

/** Destroys a value: its node is gone, or another value replaced it. No lock is held. */
typedef void kvmm_attach_dtor(void *value);

/**
 * kvmm_attach_type_create() - register a type of attachments
 * @name: copied, at most 31 bytes
 * @mode: enum kvmm_attach_mode
 * @dtor: may be NULL
 *
 * Return: its id, that of an earlier call if all is the same; -EEXIST there is one of that name and
 * another mode or destructor (kvmm_why() says which); -ENOSPC; -EINVAL.
 */
KVMM_API int kvmm_attach_type_create(struct kvmm_registry *reg, const char *name, uint32_t mode,
				     kvmm_attach_dtor *dtor);

/**
 * kvmm_node_attach() - attach a value to a node, or destroy those that it has
 * @mode: KVMM_ATTACH_UNIQUE or KVMM_ATTACH_MULTIPLE, the type's; without @value it does not matter
 * @value: NULL: destroys all values of @type
 *
 * Return: 0: the value is the registry's; without @value how many there were; -EINVAL no such type,
 * or of the other mode, see kvmm_why(); -ESTALE; -ENOMEM; -EOVERFLOW.
 */
KVMM_API int kvmm_node_attach(struct kvmm_registry *reg, kvmm_node_t node, int type,
			      uint32_t mode, void *value);

/** kvmm_node_detach() - destroy all values of @type. Return: how many; -ESTALE, -EINVAL. */
static inline int kvmm_node_detach(struct kvmm_registry *reg, kvmm_node_t node, int type)
{
	return kvmm_node_attach(reg, node, type, KVMM_ATTACH_UNIQUE, NULL);
}

/** Sees a value under the lock of the node, and may put another one in its place: the former is the
 * callback's then. Not 0 ends the visit. It calls nothing of the registry's and does not wait. */
typedef int kvmm_attach_fn(void *ctx, int type, void **value);

/**
 * kvmm_node_with() - visit the values of @type, in the order of their arrival
 * @type: -1 = of all types
 *
 * Return: how many were visited; -ESTALE, -EINVAL.
 */
KVMM_API int kvmm_node_with(struct kvmm_registry *reg, kvmm_node_t node, int type,
			    kvmm_attach_fn *fn, void *ctx);

/* ---- hooks ---- */

/** Told a batch of names that a pool just used, by the thread that used them, without a lock. */
typedef void kvmm_touch_fn(void *ctx, const struct kvmm_name *names, uint32_t nr);

/**
 * struct kvmm_delegate - callbacks that learn what tiers have, and what is used
 * @on_present: @tier had none of these names and has them now; may be NULL
 * @on_absent: @tier has lost the last block of each; may be NULL
 * @ctx: passed on; no two have the same
 * @on_touch: a pool with this registry has used these names; may be NULL
 *
 * Called with batches, by the thread that makes the change, after it, without a lock: calls of two
 * threads about one name may come in any order.
 */
struct kvmm_delegate {
	void (*on_present)(void *ctx, uint32_t tier, const struct kvmm_name *names, uint32_t nr);
	void (*on_absent)(void *ctx, uint32_t tier, const struct kvmm_name *names, uint32_t nr);
	void *ctx;
	kvmm_touch_fn *on_touch;
};

KVMM_API int kvmm_registry_delegate_sized(struct kvmm_registry *reg,
					  const struct kvmm_delegate *delegate, size_t size);

/**
 * kvmm_registry_delegate() - register callbacks; without any: remove those of @delegate->ctx
 *
 * Return: 0; -EEXIST there are callbacks with that @ctx; -ENOSPC; -EINVAL. To remove: 0: no call
 * runs or will run; -EBUSY: no new calls are made, but one is running: call again.
 */
static inline int kvmm_registry_delegate(struct kvmm_registry *reg,
					 const struct kvmm_delegate *delegate)
{
	return kvmm_registry_delegate_sized(reg, delegate, sizeof(*delegate));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_REGISTRY_H */
