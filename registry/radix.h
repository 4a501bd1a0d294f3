/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of prefixes: its structure, and the rules that hold.
 *
 * A *node* is a registered name. A *family* is the children of one name, whether that name is
 * registered or not: children hang on the family, not on the parent, so that parents may come and
 * go without their children being touched. A *position* is the nodes at one position. Families and
 * positions are both *records*. Nodes and records lie in slots of two slabs and are linked by the
 * numbers of those, 0 being none.
 *
 *	family of P             node N                   family of N
 *	.last  = P (or was) <-- .up
 *	.first = N          --> .next[SIBLINGS] = N's sibling
 *	                        .down                --> .last = N, .first = N's children
 *	position of N
 *	.first = ...        --> .next[PEERS] = ...
 *
 * All are found through one hash table, by chains. Name and hash are fixed while a slot is in use;
 * so is membership in lists: a node enters a list once, and leaves it once, for good, with its own
 * link left as it was. A slot is used again after a grace period. Hence readers, in a read section,
 * may follow any link from anything they stand on, and it leads to members that the list had while
 * they were under way.
 *
 * Locks: hashes fall into NR_STRIPES stripes, and stripes do not depend on the size of the table.
 * The lock of a stripe guards the chains of its hashes, and of each name in it:
 *  - of a node: tiers, counts, holds; its coming and going (with the two below);
 *  - of a family: its list, and .last; so also .down of the node of that name;
 *  - of a position: its list.
 * A node comes and goes under three stripes, its own, its family's and its position's, taken in the
 * order of their numbers. Nothing is allocated under a lock: slots come from a reserve.
 *
 * Invariants, recomputed by kv_radix_check():
 *  1. A node has a tier, or a hold. Bit t of .tiers is set if and only if .count[t] is not 0.
 *  2. A record has at least one node in its list, and .nr of them.
 *  3. .up of a node is the family of the name before; if it is 0 that name was never given.
 *  4. .down of a node is the family of its own name, if there is one, and that one's .last is the
 *     node. .last of a family without a registered name is 0 or marked DEAD.
 *  5. .gen is odd while a slot is in use, and changes at both ends.
 *  6. Slots in use, in graves and free ones add up.
 */
#ifndef REGISTRY_RADIX_H
#define REGISTRY_RADIX_H

#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/rcu.h>
#include <kv/registry_radix.h>

#include "internal.h"

/* ---- slots ---- */

enum slot_kind { NODE, RECORD, NR_SLOT_KINDS };

/* In record.last: that node has gone, and only walkers on their way up care; see radix_walk.c. */
#define DEAD		BIT(31)

/* The part that look-ups read, the same in both kinds. */
struct named {
	u64 key[2];		/* fixed while in use; of a position: 0 */
	u64 domain;		/* likewise */
	u32 position;		/* likewise */
	u32 hash_next[2];	/* stripe; chains of tables of even and of odd number */
	u32 mask;		/* node: tiers, stripe; record: enum record_kind, fixed */
};

enum record_kind { FREE_RECORD, FAMILY, POSITION };

struct attachment;

/* On the first of the nodes that went together, in place of its counts. */
struct grave {
	struct kv_rcu_head rcu;
	struct kvmm_registry *reg;
	u32 node;		/* chains through ->grave_next */
	u32 record;
};

/* Lives of a slot: its count goes up by two in each, and must not come round. */
#define LAST_GEN	0xfffffffeu

/* The lists that a node is in: children of one parent, and nodes at one position. */
enum list { SIBLINGS, PEERS, NR_LISTS };

struct node {
	struct named name;
	u32 gen;		/* stripe; odd: in use */
	u32 up;			/* stripes of node and family; set once */
	u32 down;		/* stripe */
	u32 next[NR_LISTS];	/* stripe of the list's record, like ->prev[] */
	u32 prev[NR_LISTS];	/* the last word of it is on the next line */
	u32 holds;		/* stripe. In a grave: how many are in it, on one of them */
	u32 marks;		/* stripe; holds about to be put. In a grave: the next in it */
	u32 last_life;		/* fixed; the node before of this name, if ->birth */
	u64 birth;		/* fixed; 0, or number among nodes that came to a family */
	struct attachment *attached;	/* lock of attachments */
	union {
		u32 count[KVMM_MAX_TIERS];	/* stripe; not all are there */
		struct grave grave;
	};
} __cacheline_aligned;

#define MIN_COUNTS	8u

static_assert(offsetof(struct node, prev[PEERS]) == KV_CACHELINE, "look-ups touch one line");
static_assert(offsetof(struct node, count[MIN_COUNTS]) == 2 * KV_CACHELINE, "two lines");
static_assert(sizeof(struct grave) <= MIN_COUNTS * sizeof(u32), "a grave fits the counts");

struct record {
	struct named name;
	u64 hash;		/* fixed while in use */
	u32 first;		/* stripe */
	u32 nr;			/* stripe */
	u32 last;		/* family: the node of its name, or the last one, DEAD; stripe */
	u32 grave_next;
} __cacheline_aligned;

static_assert(sizeof(struct record) == KV_CACHELINE, "a record is one line");

/* The list that hangs on it. */
static inline enum list list_of(const struct record *record)
{
	return record->name.mask == POSITION ? PEERS : SIBLINGS;
}

/*
 * ---- slabs ----
 *
 * Slots in segments, four of 2^shift slots, then four of as many, then four of twice as many each
 * time: so a fifth lies unused at most.
 */

#define NR_SEGMENTS	104u
#define MAX_SLOTS	BIT(31)

struct slab {
	/* Read by all; a segment is there before any thread has an index into it. */
	uintptr_t bias[128];	/* by bias_of(): address of slot 0, were it in that segment */
	u32 nr_first;		/* fixed at creation: 4 << ->shift */
	u32 stride;		/* fixed at creation */
	u32 shift;		/* fixed at creation */

	struct kv_lock lock __cacheline_aligned;
	u32 nr_segments;	/* ->lock; like all below */
	u32 *free[NR_SEGMENTS];	/* stack of free slots, behind the slots of each segment */
	u32 capacity;		/* READ_ONCE() as a hint */
	u32 top;		/* slots above have never been used; READ_ONCE() as a bound */
	u32 nr_free;
	u32 reserved;
};

int radix_slab_init(struct slab *slab, u32 nr, u32 stride, u32 id);
void radix_slab_exit(struct slab *slab);
/* 0, and *@nr_segments there were before; or -ENOMEM. */
int radix_slab_reserve(struct slab *slab, u32 nr, u32 *nr_segments);
/* Also gives back all that was never used of segments beyond that number. */
void radix_slab_unreserve(struct slab *slab, u32 nr, u32 nr_segments);
/* @nr reserved slots; their content is that of their last lives, or zero. */
void radix_slab_take(struct slab *slab, u32 nr, u32 *slots);
void radix_slab_free(struct slab *slab, u32 nr, const u32 *slots);
u64 radix_slab_bytes(struct slab *slab);
/* Slots in use, or about to be. */
u32 radix_slab_claimed(struct slab *slab);
/* The @nr-th of the free ones. */
u32 radix_slab_free_at(const struct slab *slab, u32 nr);

/* Slots count from 1; @nr from 0. */
static __always_inline u32 bias_of(const struct slab *slab, u32 nr)
{
	u32 highest = kv_highest64(nr | slab->nr_first);

	return 4 * highest + (4ull * nr >> highest);
}

static inline u32 segment_of(const struct slab *slab, u32 nr)
{
	return bias_of(slab, nr) - bias_of(slab, 0);
}

static __always_inline void *slab_at(const struct slab *slab, u32 slot)
{
	/* The segment was there before the slot was published: any read will do. */
	return (void *)(READ_ONCE(slab->bias[bias_of(slab, slot - 1)]) +
			(uintptr_t)slot * slab->stride);
}

/* ---- the table ---- */

#define NR_STRIPES	256u

struct chains {
	u32 first[NR_SLOT_KINDS];	/* stripe; RCU */
};

struct table {
	/* Fixed at creation. */
	struct chains *chains;
	u32 nr_chains;		/* a power of two, at least NR_STRIPES */
	u32 parity;		/* which of named.hash_next is its own */
	struct kv_rcu_head rcu;
};

struct stripe {
	struct kv_lock lock;
	struct table *table;	/* ->lock; like all below. Writers look things up in it */
	struct table *next;	/* NULL, or the one that takes its place: kept up to date, too */
	u32 nr_nodes;
	u32 nr_positions;
	u32 nr_names[KVMM_MAX_TIERS];
} __cacheline_aligned;

/* ---- attachments, hooks ---- */

#define NR_ATTACH_LOCKS		64u
#define TYPE_NAME		32u

struct attach_type {
	char name[TYPE_NAME];
	u32 mode;
	kvmm_attach_dtor *dtor;
};

enum hook_kind { TOUCH_HOOK, PRESENCE_HOOK, NR_HOOK_KINDS };

/* In use as long as its word is not 0: HOOK_ON, and how many threads are inside. */
struct hook {
	u64 word;		/* atomic */
	struct kvmm_delegate delegate;	/* fixed while in use */
};

/* ---- the registry ---- */

struct kvmm_registry {
	/* Fixed at creation. */
	u64 seed;
	u32 nr_tiers;
	u32 gen_base;			/* even; where slots begin: foreign handles fail */
	bool prefix_closed;

	struct table *table;		/* RCU; written by the writer that grows it */
	struct slab slab[NR_SLOT_KINDS];
	struct stripe stripe[NR_STRIPES];

	u64 births __cacheline_aligned;	/* atomic; nodes with ->birth so far */
	u32 growing;			/* atomic; 1: a thread grows the table */
	u32 in_graves;			/* atomic; nodes that wait for a grace period */

	struct kv_lock config_lock;
	u32 nr_types;			/* ->config_lock; acquire by readers */
	struct attach_type type[KVMM_REGISTRY_TYPES];	/* fixed below ->nr_types */
	struct hook hook[KVMM_REGISTRY_HOOKS];
	u32 nr_hooks[NR_HOOK_KINDS];	/* ->config_lock; READ_ONCE() as a hint */
	u64 attach_bytes;		/* atomic */
	struct kv_lock attach_lock[NR_ATTACH_LOCKS];
};

static __always_inline struct named *named_at(const struct kvmm_registry *reg, enum slot_kind kind,
					      u32 index)
{
	return slab_at(&reg->slab[kind], index);
}

static __always_inline struct node *node_at(const struct kvmm_registry *reg, u32 index)
{
	return slab_at(&reg->slab[NODE], index);
}

static __always_inline struct record *record_at(const struct kvmm_registry *reg, u32 index)
{
	return slab_at(&reg->slab[RECORD], index);
}

/* ---- names ---- */

/* One name of a batch, and all that follows from it. */
struct item {
	u64 key[2];
	u64 domain;
	u32 position;
	bool has_parent;
	u64 parent[2];
	u64 hash;
	u64 parent_hash;	/* ->hash, if there is none */
	u64 position_hash;
};

/* The items of a batch: a prefix, or the names of a pool. */
struct batch {
	const struct kvmm_prefix *prefix;	/* or NULL */
	const struct kv_radix_name *names;
	u32 nr;
};

/* Both halves of the key meet secrets before the position comes in, which cannot undo that. */
static __always_inline u64 hash_words(const u64 key[2], u32 position, u64 seed_of_domain)
{
	u64 second = seed_of_domain * 0x9e3779b97f4a7c15ull ^ 0xd6e8feb86659fd93ull;
	u64 half = kv_mul_fold(key[0] ^ seed_of_domain, key[1] ^ second);
	u64 hash = kv_mul_fold(half ^ second, 0xa0761d6478bd642full + 2 * (u64)position);

	return weaken(hash);
}

static inline u64 position_hash(const struct kvmm_registry *reg, u32 position)
{
	u64 hash = kv_mul_fold(reg->seed ^ position, ~reg->seed ^ 0x8ebc6af09c88c6e3ull);

	return weaken(hash);
}

static inline u64 named_hash(const struct kvmm_registry *reg, const struct named *name)
{
	return hash_words(name->key, name->position, domain_seed(reg->seed, name->domain));
}

void radix_items(const struct kvmm_registry *reg, const struct batch *batch, u32 first, u32 nr,
		 struct item *items);
int radix_batch_of(const struct kvmm_prefix *prefix, struct batch *batch);
struct kvmm_name radix_name_of(const struct named *name);

/* ---- radix_table.c ---- */

int radix_table_init(struct kvmm_registry *reg, u32 nr);
void radix_table_exit(struct kvmm_registry *reg);
u64 radix_table_bytes(const struct kvmm_registry *reg);
/* Fit for as many nodes as there are by now, if there is memory. May wait: no lock, no section. */
void radix_table_grow(struct kvmm_registry *reg);

static inline struct stripe *stripe_of(struct kvmm_registry *reg, u64 hash)
{
	return &reg->stripe[hash % NR_STRIPES];
}

static __always_inline struct chains *chains_of(const struct table *table, u64 hash)
{
	return &table->chains[hash & (table->nr_chains - 1)];
}

static __always_inline bool has_name(const struct named *name, const u64 key[2], u64 domain,
				     u32 position)
{
	return name->key[0] == key[0] && name->key[1] == key[1] && name->domain == domain &&
	       name->position == position;
}

/* The node of this name from @index on in its chain; 0: none. In a section. */
static __always_inline u32 chain_find(const struct kvmm_registry *reg, u32 parity, u32 index,
				      const u64 key[2], u64 domain, u32 position)
{
	while (index) {
		const struct named *name = named_at(reg, NODE, index);

		if (likely(has_name(name, key, domain, position)))
			break;
		/* Pairs with chain_add(): the node the link leads to has its name. */
		index = smp_load_acquire(&name->hash_next[parity]);
	}
	return index;
}

/* The stripe's lock is held, or, without @stripe, a read section. */
u32 radix_find_node(const struct kvmm_registry *reg, const struct stripe *stripe, u64 hash,
		    const u64 key[2], u64 domain, u32 position);
u32 radix_find_record(const struct kvmm_registry *reg, const struct stripe *stripe,
		      enum record_kind kind, u64 hash, const u64 key[2], u64 domain, u32 position);
u32 radix_find_position(const struct kvmm_registry *reg, const struct stripe *stripe, u64 hash,
			u32 position);
void radix_chain_add(struct kvmm_registry *reg, enum slot_kind kind, u64 hash, u32 index);
void radix_chain_del(struct kvmm_registry *reg, enum slot_kind kind, u64 hash, u32 index);

/* ---- locks of up to three stripes ---- */

struct held {
	struct stripe *stripe[3];	/* ascending; NULL: the same as another */
};

struct held radix_hold(struct kvmm_registry *reg, u64 a, u64 b, u64 c);
void radix_release(struct held held);

static inline struct held hold_one(struct kvmm_registry *reg, u64 hash)
{
	struct held held = { { stripe_of(reg, hash), NULL, NULL } };

	kv_lock(&held.stripe[0]->lock);
	return held;
}

static inline struct held hold_item(struct kvmm_registry *reg, const struct item *item)
{
	return radix_hold(reg, item->hash, item->parent_hash, item->position_hash);
}

/* ---- radix_tree.c: nodes come and go; all three stripes are held ---- */

/* Slots for some nodes, and for the records that they might need. */
#define CHUNK		16u

struct supply {
	u32 nr[NR_SLOT_KINDS];		/* left; taken from the end */
	u32 slot[NR_SLOT_KINDS][2 * CHUNK];
};

/* The nodes that went in one call. */
struct dead {
	u32 node, record;	/* chains */
	u32 nr;
};

/* The number of the new one. */
u32 radix_node_add(struct kvmm_registry *reg, const struct item *item, struct supply *supply);
/* The parent of a node that had none. */
void radix_node_link(struct kvmm_registry *reg, const struct item *item, u32 index,
		     struct supply *supply);
void radix_node_del(struct kvmm_registry *reg, u32 index, u64 hash, struct dead *dead);
/* After the locks: values destroyed, slots free after a grace period. */
void radix_bury(struct kvmm_registry *reg, struct dead *dead);

/* ---- handles ---- */

static inline bool node_lives(const struct node *node, u32 gen)
{
	/* Pairs with radix_node_add(): the node's fields are of this life or a later one. */
	return smp_load_acquire(&node->gen) == gen;
}

/* The error of a handle that is not of this life. */
int radix_refuse(const struct kvmm_registry *reg, kvmm_node_t handle);

/* One hold more of a node that lives: 0; -ESTALE, -EINVAL, -EOVERFLOW. */
int radix_node_get(struct kvmm_registry *reg, kvmm_node_t node);

static inline struct node *node_of(const struct kvmm_registry *reg, kvmm_node_t handle)
{
	struct node *node;

	if (unlikely(!handle.index || !(handle.gen & 1) ||
		     handle.index > READ_ONCE(reg->slab[NODE].top)) || kv_inherited(reg))
		return NULL;
	node = node_at(reg, handle.index);
	return node_lives(node, handle.gen) ? node : NULL;
}

/* .gen is 0 if it has gone meanwhile. */
static inline kvmm_node_t handle_of(const struct kvmm_registry *reg, u32 index)
{
	kvmm_node_t handle = { index, smp_load_acquire(&node_at(reg, index)->gen) };

	return handle.gen & 1 ? handle : (kvmm_node_t){ 0, 0 };
}

/* ---- radix_attach.c ---- */

void radix_attach_init(struct kvmm_registry *reg);
/* All values of a node that no thread has any more. */
void radix_attach_destroy(struct kvmm_registry *reg, u32 index);
bool radix_attach_is_sound(const struct kvmm_registry *reg, const struct node *node, u32 *nr_keeps);

/* ---- radix_hook.c ---- */

/* Names that changed for one tier, on their way to delegates. */
struct news {
	u32 nr;
	struct kvmm_name name[KVMM_REGISTRY_BATCH];
};

static inline void news_add(struct news *news, const struct node *node)
{
	kv_assert(news->nr < KVMM_REGISTRY_BATCH);
	news->name[news->nr++] = radix_name_of(&node->name);
}

static inline bool has_hooks(const struct kvmm_registry *reg, enum hook_kind kind)
{
	return READ_ONCE(reg->nr_hooks[kind]);
}

enum news_kind { NEWS_PRESENT, NEWS_ABSENT, NEWS_TOUCH };

/* To the hooks for it. No news are left. */
void radix_tell(struct kvmm_registry *reg, enum news_kind kind, u32 tier, struct news *news);

#endif /* REGISTRY_RADIX_H */
