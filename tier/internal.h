/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of tier/: a host tier, its portions of memory, its slots and its clients.
 * See <kv/tier.h> for the states of a slot and the numbered invariants.
 *
 * Locks: grow_lock (to add a portion), then lock (all else), then those of the zones.
 */
#ifndef TIER_INTERNAL_H
#define TIER_INTERNAL_H

#include <string.h>

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/entry.h>
#include <kv/err.h>
#include <kv/hash.h>
#include <kv/latency.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/registry_feed.h>
#include <kv/tier.h>
#include <kv/types.h>
#include <kv/zone.h>
#include <kvmm/event.h>

enum slot_state { SLOT_FREE, SLOT_WRITING, SLOT_READY, SLOT_DOOMED };

#define SLOT_HAS_SUM	BIT(0)
#define SLOT_HAS_PARENT	BIT(1)
#define SLOT_BELOW	BIT(2)	/* it has a copy in the store below */
#define SLOT_BUSY	BIT(3)	/* the store reads it */
#define SLOT_UNWANTED	BIT(4)	/* WRITING: it was forgotten; DOOMED as soon as it is READY */

/* By its first unit; the records of its other units are not used. Guard: tier->lock. */
struct tslot {
	u64	key[2];
	u64	domain;		/* kv_domain_word() */
	u64	layout;
	u64	parent[2];	/* if SLOT_HAS_PARENT */
	u64	sum;		/* if SLOT_HAS_SUM */
	u64	since_ns;	/* READY since */
	u64	used;		/* tier->uses when it was last used */
	u32	gen;		/* of the slot, or of the next one if FREE */
	u32	readers;
	u32	next;		/* in the chain of its bucket, or KV_NONE */
	u32	position;
	u16	nr_units;
	u8	state;		/* enum slot_state */
	u8	flags;		/* SLOT_* */
	u8	owner;		/* number of its client, or 0 */
};

/* A portion of memory. Fixed once it is there. */
struct chunk {
	struct kv_zone	*zone;	/* its units, from 0 on */
	struct kv_host_mem	mem;	/* .ptr NULL: ids only */
};

/* The owner of slots that clients have left behind. */
#define NOBODY		0u
#define NR_OWNERS	(KVMM_TIER_CLIENTS + 1)

/* A name that is gone, to be told. */
struct gone_name {
	kvmm_key_t key;
	kvmm_domain_t domain;
	u32 position;
};

struct kv_tier_client {
	/* Fixed while it is there. */
	struct kvmm_tier	*tier;
	u32			number;		/* 0: a place that is free */
	u32			nr_planes;
	const struct kvmm_plane	*plane;		/* borrowed */
	struct kvmm_plane	*host;		/* ours: the same pieces behind one another */
	u64			block_bytes;
	u64			layout;
	u32			block_units;
	u32			min_units;
	u32			max_units;

	/* Guard: tier->lock. */
	void			*order;		/* ours: policy over its slots */
	u32			blocks;		/* READY and DOOMED */
	u32			units;		/* of all that are not FREE */
	u32			writing;
	u64			evicted;
	u32			cursor;		/* unit behind the last one it was given */
	u32			nr_gone;
	struct gone_name	*gone;		/* ours; NULL: it does not want to know */
	u32			gone_room;	/* fixed */
	struct kv_feed		*feed;		/* borrowed; NULL: none */
};

/* Copies that are only simulated, one after the other. */
struct link {
	struct kvmm_tier_link	how;		/* fixed at creation */
	u64			free_ns;	/* tier->lock; the last one ends then */
};

/* Time of these bytes, besides the latency, rounded up. */
static inline u64 link_bytes_ns(const struct kvmm_tier_link *link, u64 bytes)
{
	unsigned __int128 ns = (unsigned __int128)bytes * 1000000000u;

	return link->bytes_per_s ? (u64)((ns + link->bytes_per_s - 1) / link->bytes_per_s) : 0;
}

struct kvmm_tier {
	/* Fixed at creation. */
	struct kv_tier_parts	parts;
	struct kv_dev		*dev;		/* ours; NULL: ids only */
	u64			unit_bytes;	/* 0: ids only */
	u32			nr_units;	/* in the end */
	u32			chunk_units;	/* of each chunk but the last one */
	u32			max_chunks;
	u32			nr_buckets;	/* a power of two */
	int			node;
	u64			secret;		/* of the hash */
	bool			is_told;	/* KVMM_TIER_TOLD_CLOCK */
	char			name[32];
	u64			metadata_bytes;	/* ->lock */

	u64			told_ns;	/* atomic */
	struct kv_lock		grow_lock;	/* to add a portion */

	struct kv_lock		lock __cacheline_aligned;
	u32			nr_chunks;	/* ->lock; only grows */
	u32			nr_users;	/* atomic; clients, and the creator */
	struct chunk		*chunk;		/* those below nr_chunks: fixed */
	struct tslot		*slot;		/* ->lock */
	u32			*bucket;	/* ->lock */
	u64			uses;		/* ->lock; that have been counted */
	u64			news;		/* ->lock; comings into the orders, and goings */
	u32			units_used;	/* ->lock */
	u32			blocks;		/* ->lock; READY */
	u32			writing;	/* ->lock */
	u32			pinned;		/* ->lock; READY with readers, and DOOMED */
	struct kvmm_tier_stat	stat;		/* ->lock; events only: see tier_fill_stat() */
	struct below		*below;		/* fixed before there are clients; NULL: none */
	struct link		link[2];	/* down, up */
	struct kv_tier_client	owner[NR_OWNERS];	/* ->lock; the first one is no client */
};

/* The inverse of kv_domain_word(). */
static inline kvmm_domain_t tslot_domain(const struct tslot *slot)
{
	return (kvmm_domain_t){ (u32)slot->domain, slot->domain >> 32 & 0xffff,
				slot->domain >> 48 };
}

static inline struct tslot *slot_at(struct kvmm_tier *tier, u32 index)
{
	return &tier->slot[index];
}

/* Units of portion @i. */
static inline u32 chunk_nr(const struct kvmm_tier *tier, u32 i)
{
	return min(tier->nr_units - i * tier->chunk_units, tier->chunk_units);
}

/* ---- host.c ---- */

/* A user is done with it: the last one frees it. */
void tier_unuse(struct kvmm_tier *tier);

/* ---- glance.c ---- */

/* All but ->sim_blocks and ->sim_dropped: each of its own moment, unless tier->lock is held. */
void tier_fill_stat(const struct kvmm_tier *tier, struct kvmm_tier_stat *stat);

/* ---- age.c: the next to go; tier->lock held ---- */

size_t age_bytes(const struct kvmm_tier *tier);
/* A policy, or NULL; free it by age_free(). */
void *age_make(const struct kvmm_tier *tier);
void age_free(const struct kvmm_tier *tier, void *order);
/* It is READY without readers; before, it was filled. */
void age_add(struct kvmm_tier *tier, u32 index);
void age_del(struct kvmm_tier *tier, u32 index);
void age_filled(struct kvmm_tier *tier, u32 index);
void age_hit(struct kvmm_tier *tier, u32 index);
/* The slot that @client may take the place of; out of the order. KV_NONE: none. */
u32 age_pick(struct kvmm_tier *tier, const struct kv_tier_client *client, bool own_only);
/* Back to where it was; newest first. */
void age_unpick(struct kvmm_tier *tier, u32 index);
/* All slots of @client lose their owner. */
void age_disown(struct kvmm_tier *tier, struct kv_tier_client *client);

/* ---- below.c ---- */

/* The attributes asked for, or usual ones (NULL): 0 or -EINVAL. */
int tier_disk_attr(const struct kvmm_tier_disk_attr *from, struct kvmm_tier_disk_attr *attr);

/* ---- slot.c ---- */

/* DOOMED, and no client reads it, nor does the store: it is free. */
void tslot_bury(struct kvmm_tier *tier, u32 index);
/* READY: no look-up finds it any more; free without readers. */
void tslot_doom(struct kvmm_tier *tier, u32 index);
struct tslot *tslot_of(struct kvmm_tier *tier, struct kv_tier_slot slot);
u32 tslot_bucket(const struct kvmm_tier *tier, const u64 key[2]);

/* ---- client.c ---- */

/* Its client's feed is told. */
void client_tell(struct kvmm_tier *tier, const struct tslot *slot, u32 kind);
/* A name of its is READY no more. */
void client_lost(struct kvmm_tier *tier, const struct tslot *slot);

#endif /* TIER_INTERNAL_H */
