// SPDX-License-Identifier: Apache-2.0
/*
 * Below the host tier: a store, to which the coldest blocks are written before they
 * have to go, and from which blocks come back.
 *
 * A slot that is being written stays where it is in the order of eviction, and readable; only its
 * memory is kept until the store is through (SLOT_BUSY). So a block that is evicted when its turn
 * comes mostly has a copy below already, and no thread waits for a disk. A block that comes back is
 * read into a slot that is WRITING, by a thread that waits for it.
 *
 * The chain of checksums is not broken: before a block is written the host's memory is compared
 * with the checksum that the block had in the device, the store has its own, and a block that was
 * read gets one that the device's memory is compared with after the next copy.
 */
#include <kv/env.h>
#include <kv/mem.h>

#include "below.h"

#define POLL_BATCH	16u
#define LOOK_NS		100000u

/* ---- transfers ---- */

static struct below_io *io_take(struct below *below, enum below_kind kind)
{
	u32 max = kind == BELOW_PUT ? below->max_put : below->max_get;

	if (below->nr_used[kind] == max || !below->free)
		return NULL;
	struct below_io *io = below->free;

	below->free = io->next;
	*io = (struct below_io){ .kind = kind, .is_given = kind != BELOW_PUT };
	if (unlikely(below->alike))
		completion_begin(below->alike->all, &io->completion);
	below->nr_used[kind]++;
	kv_assert(below->nr_used[kind] <= max);
	return io;
}

static void io_push(struct below *below, struct below_io *io)
{
	io->next = below->free;
	below->free = io;
}

/* One that is over before put_one() is through with it is free then. */
static void io_free(struct below *below, struct below_io *io)
{
	kv_assert(below->nr_used[io->kind]);
	below->nr_used[io->kind]--;
	io->kind = BELOW_FREE;
	if (io->is_given)
		io_push(below, io);
}

/* NULL: ids only. */
static void *memory_of(struct kvmm_tier *tier, u32 index)
{
	kv_assert(index < tier->nr_units);
	if (!tier->unit_bytes)
		return NULL;
	return (u8 *)tier->chunk[index / tier->chunk_units].mem.ptr +
	       index % tier->chunk_units * tier->unit_bytes;
}

/* Of a block in so many units; without memory, the size that its client says it would have. */
static u64 bytes_of(const struct kvmm_tier *tier, u32 owner, u32 nr_units)
{
	return tier->unit_bytes ? (u64)nr_units * tier->unit_bytes : tier->owner[owner].block_bytes;
}

/* Of a block in a slot, as kv_dev_ops.sum_blocks has it. */
static u64 sum_of(struct kvmm_tier *tier, const struct kv_tier_client *client, u32 index)
{
	const struct kv_dev_ops *ops = tier->parts.host;
	struct kvmm_plane plane[MAX_SUM_PLANES];
	struct kv_planes planes = { plane, client->nr_planes };
	struct kv_fence none = { 0 };
	struct kv_dev *dev;
	u64 sum = 0;

	for (u32 i = 0; i < client->nr_planes; i++) {
		plane[i] = client->host[i];
		plane[i].base += (uintptr_t)memory_of(tier, index);
	}
	if (!ops->open(0, &dev))
		ops->sum_blocks(dev, &planes, 0, 1, none, &sum);
	return sum;
}

static bool can_sum(const struct kvmm_tier *tier, const struct kv_tier_client *client)
{
	return tier->parts.host && tier->unit_bytes && client->nr_planes <= MAX_SUM_PLANES;
}

/* ---- down ---- */

static bool is_wanted(const struct tslot *slot)
{
	return slot->state == SLOT_READY && !(slot->flags & (SLOT_BELOW | SLOT_BUSY));
}

/*
 * The next ones to go, which stay where they are: those without a copy below are queued.
 *
 * Victims that the last long look went through have copies below, or get them, and are still the
 * first to go, but for slots that came since. So a long look waits until one in LOOK_STEPS of them
 * may be gone; before that a short one goes through the first LOOK_STEPS for each that has come or
 * gone: with some policies a new slot is among the next to go. So either takes a bounded number of
 * steps for each of them, however many have copies.
 */
static void look(struct kvmm_tier *tier)
{
	struct below_look *look = &tier->below->look;
	u32 seen[LOOK_MAX], max = LOOK_MAX, nr;

	kv_assert_held(&tier->lock);
	if (LOOK_STEPS * (tier->news - look->long_news) < look->nr)
		max = min(LOOK_STEPS * (tier->news - look->news), (u64)LOOK_MAX);
	look->at = look->nr_queued = 0;
	for (nr = 0; nr < max; nr++) {
		seen[nr] = age_pick(tier, NULL, false);
		if (seen[nr] == KV_NONE)
			break;
		if (is_wanted(slot_at(tier, seen[nr])))
			look->queue[look->nr_queued++] =
				(struct kv_tier_slot){ seen[nr], slot_at(tier, seen[nr])->gen };
	}
	for (u32 i = nr; i-- > 0;)
		age_unpick(tier, seen[i]);
	look->news = tier->news;
	if (max < LOOK_MAX)
		return;
	look->long_news = tier->news;
	look->nr = nr;
}

/* The first in the queue that is still to be written; it stays there until it is SLOT_BUSY. */
static u32 first_queued(struct kvmm_tier *tier)
{
	struct below_look *look = &tier->below->look;

	kv_assert_held(&tier->lock);
	for (; look->at < look->nr_queued; look->at++) {
		const struct tslot *slot = tslot_of(tier, look->queue[look->at]);

		if (slot && is_wanted(slot) && !slot->readers)
			return look->queue[look->at].index;
	}
	return KV_NONE;
}

static struct below_io *begin_put(struct kvmm_tier *tier)
{
	struct below *below = tier->below;
	struct below_io *io;
	struct tslot *slot;
	u64 ready;
	u32 index;

	kv_assert_held(&tier->lock);
	ready = min(tier->nr_units, tier->nr_chunks * tier->chunk_units);
	if ((u64)tier->units_used * 1000 <= ready * below->high_pm)
		return NULL;
	index = first_queued(tier);
	if (index == KV_NONE) {
		look(tier);
		index = first_queued(tier);
	}
	io = index == KV_NONE ? NULL : io_take(below, BELOW_PUT);
	if (!io)
		return NULL;
	slot = slot_at(tier, index);
	slot->flags |= SLOT_BUSY;
	io->slot = (struct kv_tier_slot){ index, slot->gen };
	io->io = (struct kv_tier_io){
		.name = { .domain = tslot_domain(slot), .layout = slot->layout,
			  .position = slot->position,
			  .has_parent = slot->flags & SLOT_HAS_PARENT },
		.buf = memory_of(tier, index), .sum = slot->sum,
		.bytes = bytes_of(tier, slot->owner, slot->nr_units),
		.has_sum = slot->flags & SLOT_HAS_SUM,
	};
	memcpy(&io->io.name.key, slot->key, sizeof(slot->key));
	memcpy(&io->io.name.parent, slot->parent, sizeof(slot->parent));
	io->owner = slot->owner;
	io->begin_ns = kv_tier_now(tier);
	return io;
}

static u64 took_ns(const struct below_io *io)
{
	return io->end_ns - min(io->begin_ns, io->end_ns);
}

/* The store is through with it. */
static void end_put(struct kvmm_tier *tier, struct below_io *io, int error)
{
	struct below *below = tier->below;
	struct tslot *slot;

	kv_lock(&tier->lock);
	slot = slot_at(tier, io->slot.index);
	kv_assert(slot->gen == io->slot.gen && slot->flags & SLOT_BUSY);
	slot->flags &= ~SLOT_BUSY;
	alike_settle(tier, io, error);
	if (!error)
		slot->flags |= SLOT_BELOW;
	tier->stat.below_failed += error != 0;
	if (!error && !io->io.was_there) {
		tier->stat.demoted++;
		tier->stat.demoted_bytes += io->io.bytes;
		tier->stat.demote_ns += took_ns(io);
	}
	if (error)
		below->look.nr = 0;	/* it is still to be written: the next look is a long one */
	if (slot->state == SLOT_DOOMED && !slot->readers)
		tslot_bury(tier, io->slot.index);
	else if (error == -EBADMSG && slot->state == SLOT_READY)
		tslot_doom(tier, io->slot.index);
	io_free(below, io);
	kv_unlock(&tier->lock);
}

/* The store did not begin: ranks are told of it as of one that failed later. True: they will be. */
static bool is_failed_here(const struct below *below, struct below_io *io, int err)
{
	if (likely(!below->alike) || !err)
		return false;
	io->io.error = err;
	smp_store_release(&io->is_here, 1);	/* pairs with kv_tier_walk_below() */
	return true;
}

/*
 * Content changed in memory since it came from the device. Or there is no telling: its pool, with the
 * planes that say what there is to sum up, has gone.
 */
static bool is_doubtful(struct kvmm_tier *tier, const struct below_io *io)
{
	const struct kv_tier_client *client = &tier->owner[io->owner];

	if (!io->io.has_sum || !tier->parts.host)
		return false;
	return io->owner == NOBODY || (can_sum(tier, client) &&
				       sum_of(tier, client, io->slot.index) != io->io.sum);
}

static bool put_one(struct kvmm_tier *tier)
{
	struct below *below = tier->below;
	struct below_io *io;
	int err;

	kv_lock(&tier->lock);
	io = begin_put(tier);
	kv_unlock(&tier->lock);
	if (!io)
		return false;
	/* It is not written, nor found. */
	err = is_doubtful(tier, io) ? -EBADMSG : below->ops->put(below->store, &io->io);
	kv_lock(&tier->lock);
	io->is_given = true;
	if (io->kind == BELOW_FREE)
		io_push(below, io);
	kv_unlock(&tier->lock);
	if (is_failed_here(below, io, err))
		return true;
	if (err)
		end_put(tier, io, err);
	return !err;
}

static bool any_is_not_given(struct kvmm_tier *tier, u32 owner)
{
	const struct below *below = tier->below;

	kv_assert_held(&tier->lock);
	for (u32 i = 0; i < below->max_put + below->max_get; i++) {
		const struct below_io *io = &below->io[i];

		if (io->kind == BELOW_PUT && !io->is_given &&
		    (owner == NOBODY ? slot_at(tier, io->slot.index)->state == SLOT_DOOMED :
				       io->owner == owner))
			return true;
	}
	return false;
}

void below_wait_given(struct kvmm_tier *tier, u32 owner)
{
	u32 word = 0;

	kv_assert_held(&tier->lock);
	while (tier->below && any_is_not_given(tier, owner)) {
		kv_unlock(&tier->lock);
		kv_env()->wait(kv_env()->ctx, &word, 0, LOOK_NS);
		kv_lock(&tier->lock);
	}
}

/* ---- up ---- */

enum kvmm_tier_answer kv_tier_find_below(struct kv_tier_client *client, const kvmm_key_t *key,
					 kvmm_domain_t domain)
{
	struct below *below = client->tier->below;
	struct kv_tier_name name = { .key = *key, .domain = domain, .layout = client->layout };

	if (below && below->alike)
		return alike_has(client->tier, &name) ? KVMM_TIER_HIT : KVMM_TIER_MISS;
	return below ? below->ops->lookup(below->store, &name) : KVMM_TIER_MISS;
}

int kv_tier_fetch(struct kv_tier_client *client, const struct kv_tier_name *name,
		  struct kv_tier_fetch *fetch)
{
	struct kvmm_tier *tier = client->tier;
	struct below *below = tier->below;
	struct below_io *io;
	int err = kv_tier_reserve(client, name, &fetch->slot);

	if (err)
		return err;
	kv_lock(&tier->lock);
	io = io_take(below, BELOW_GET);
	kv_unlock(&tier->lock);
	if (!io) {
		kv_tier_cancel(client, fetch->slot);
		return -EAGAIN;
	}
	io->io = (struct kv_tier_io){
		.name = *name, .buf = memory_of(tier, fetch->slot.index),
		.bytes = bytes_of(tier, client->number, client->block_units),
	};
	io->begin_ns = kv_tier_now(tier);
	io->slot = fetch->slot;
	io->owner = client->number;
	fetch->io = io;
	err = below->ops->get(below->store, &io->io);
	if (!err || is_failed_here(below, io, err))
		return 0;
	kv_lock(&tier->lock);
	io_free(below, io);
	kv_unlock(&tier->lock);
	kv_tier_cancel(client, fetch->slot);
	return err;
}

int kv_tier_fetch_poll(struct kv_tier_client *client, struct kv_tier_fetch *fetch)
{
	struct kvmm_tier *tier = client->tier;
	struct below_io *io = fetch->io;
	int err;

	/* Pairs with end(): the bytes read are there. */
	if (!smp_load_acquire(&io->is_done))
		return -EAGAIN;
	err = io->io.error;
	fetch->took_ns = took_ns(io);
	fetch->sum = io->io.sum;
	fetch->has_sum = io->io.has_sum;
	kv_lock(&tier->lock);
	if (err) {
		tier->stat.below_failed++;
	} else {
		tier->stat.promoted++;
		tier->stat.promoted_bytes += io->io.bytes;
		tier->stat.promote_ns += fetch->took_ns;
	}
	io_free(tier->below, io);
	kv_unlock(&tier->lock);
	if (err)
		kv_tier_cancel(client, fetch->slot);
	return err;
}

bool kv_tier_fetch_leave(struct kv_tier_client *client, struct kv_tier_fetch *fetch)
{
	struct kvmm_tier *tier = client->tier;

	if (tier->unit_bytes)
		return false;
	kv_lock(&tier->lock);
	if (fetch->io->is_done)
		io_free(tier->below, fetch->io);
	else
		fetch->io->is_left = true;
	kv_unlock(&tier->lock);
	kv_tier_cancel(client, fetch->slot);
	return true;
}

/* ---- both ---- */

/* In effect. */
static void settle(struct kvmm_tier *tier, struct below_io *io, int error)
{
	kv_assert_not_held(&tier->lock);
	if (io->kind == BELOW_PUT) {
		end_put(tier, io, error);
		return;
	}
	io->io.error = error;
	kv_lock(&tier->lock);
	alike_settle(tier, io, error);
	if (io->is_left)
		io_free(tier->below, io);
	else
		smp_store_release(&io->is_done, 1);	/* pairs with kv_tier_fetch_poll() */
	kv_unlock(&tier->lock);
}

static void end(struct kvmm_tier *tier, struct kv_tier_io *done)
{
	struct below_io *io = container_of(done, struct below_io, io);
	const struct kv_tier_client *client = &tier->owner[io->owner];

	kv_assert_not_held(&tier->lock);
	kv_assert(io->kind != BELOW_FREE && !io->is_done);
	io->end_ns = done->has_ended ? done->ended_ns : kv_tier_now(tier);
	/*
	 * At once: the store has just seen that it is right, and from here on the block's own
	 * checksum says so. A checksum made when a request comes for the block would take a bit
	 * that has flipped meanwhile for the block's. Its client waits for it.
	 */
	if (io->kind == BELOW_GET && !done->error) {
		done->has_sum = can_sum(tier, client);
		if (done->has_sum)
			done->sum = sum_of(tier, client, io->slot.index);
	}
	if (unlikely(tier->below->alike))
		smp_store_release(&io->is_here, 1);	/* pairs with kv_tier_walk_below() */
	else
		settle(tier, io, done->error);
}

u32 below_poll(struct kvmm_tier *tier)
{
	struct kv_tier_io *done[POLL_BATCH];
	struct below *below = tier->below;
	u32 nr = below->ops->poll(below->store, done, POLL_BATCH);

	kv_assert_not_held(&tier->lock);
	for (u32 i = 0; i < nr; i++)
		end(tier, done[i]);
	return nr;
}

/* ---- where ranks are told ---- */

void kv_tier_walk_below(struct kvmm_tier *tier, struct completion_walk *walk)
{
	struct below *below = tier->below;

	if (!alike_of(tier))
		return;
	while (below_poll(tier) == POLL_BATCH)
		;
	for (u32 i = 0; i < below->max_put + below->max_get; i++) {
		struct below_io *io = &below->io[i];
		int err = -EAGAIN;

		if (io->kind == BELOW_FREE || io->is_done)
			continue;
		/* Pairs with end(): how it went, and what was read, is there. */
		if (smp_load_acquire(&io->is_here))
			err = io->io.error ? -EIO : 0;
		completion_meet(walk, &io->completion, err);
	}
}

/*
 * The first, by number, of those that were told, or that no rank will be told of any more and that
 * are over here. Not by place: the order in which places become free is a rank's own.
 */
static struct below_io *next_told(struct below *below)
{
	bool is_given_up = !below->alike->all;
	struct below_io *next = NULL;

	for (u32 i = 0; i < below->max_put + below->max_get; i++) {
		struct below_io *io = &below->io[i];

		if (io->kind == BELOW_FREE || io->is_done ||
		    !(is_given_up ? smp_load_acquire(&io->is_here) : io->completion.is_over))
			continue;
		if (!next || io->completion.number < next->completion.number)
			next = io;
	}
	return next;
}

static void end_told(struct kvmm_tier *tier)
{
	struct below *below = tier->below;
	struct below_io *io;

	while ((io = next_told(below))) {
		io->end_ns = kv_tier_now(tier);
		if (below->alike->all && !io->completion.has_failed)
			settle(tier, io, 0);
		else
			settle(tier, io, io->kind == BELOW_PUT ? -EIO : -EBADMSG);
	}
}

static bool any_put_is_away(const struct below *below)
{
	bool any = false;

	for (u32 i = 0; i < below->max_put + below->max_get && !any; i++)
		any = below->io[i].kind == BELOW_PUT && !smp_load_acquire(&below->io[i].is_here);
	return any;
}

/* All of them end at once, as which one is through first is up to each rank. */
void kv_tier_untell(struct kvmm_tier *tier)
{
	struct alike *alike = alike_of(tier);
	u32 word = 0;

	if (!alike)
		return;
	alike->all = NULL;
	for (below_poll(tier); any_put_is_away(tier->below); below_poll(tier))
		kv_env()->wait(kv_env()->ctx, &word, 0, LOOK_NS);
	end_told(tier);
}

bool kv_tier_has_below(const struct kvmm_tier *tier)
{
	return tier->below;
}

bool kv_tier_has_server(const struct kvmm_tier *tier)
{
	return tier->below && tier->below->ops->remote_glance;
}

int kv_tier_due_below(struct kvmm_tier *tier, u64 *due_ns)
{
	const struct below *below = tier->below;

	return below && below->ops->due ? below->ops->due(below->store, due_ns) : -ENOENT;
}

bool kv_tier_end_below(struct kvmm_tier *tier)
{
	bool worked = false;

	while (tier->below && below_poll(tier) == POLL_BATCH)
		worked = true;
	if (unlikely(alike_of(tier)))
		end_told(tier);
	return worked;
}

bool kv_tier_begin_below(struct kvmm_tier *tier)
{
	const struct alike *alike = alike_of(tier);
	bool worked = false;

	while (tier->below && (!alike || alike->all) && put_one(tier))
		worked = true;
	return worked;
}

bool kv_tier_work(struct kvmm_tier *tier)
{
	bool ended = kv_tier_end_below(tier);

	return kv_tier_begin_below(tier) || ended;
}

/* ---- coming and going ---- */

static void free_below(struct below *below)
{
	alike_free(below->alike);
	kv_free(below->busy);
	kv_free(below->io);
	kv_free(below);
}

#define DEFAULT_MAX	64u
#define MAX_IOS		4096u

int tier_disk_attr(const struct kvmm_tier_disk_attr *from, struct kvmm_tier_disk_attr *attr)
{
	const struct kvmm_tier_disk_attr preset = KVMM_TIER_DISK_ATTR_INIT;

	*attr = from ? *from : preset;
	if (attr->size != sizeof(*attr) || attr->high_pm > 1000 || attr->max_put > MAX_IOS ||
	    attr->max_get > MAX_IOS || attr->reserved)
		return -EINVAL;
	attr->max_put = attr->max_put ? attr->max_put : DEFAULT_MAX;
	attr->max_get = attr->max_get ? attr->max_get : DEFAULT_MAX;
	return 0;
}

int kv_tier_set_below(struct kvmm_tier *tier, const struct kv_tier_ops *ops, void *store,
		      const struct kvmm_tier_disk_attr *attr)
{
	u32 nr = attr->max_put + attr->max_get;
	struct below *below = kv_alloc(sizeof(*below));

	if (!below)
		return -ENOMEM;
	below->io = kv_alloc_array(nr, sizeof(*below->io));
	below->busy = kv_alloc_array(attr->max_put, sizeof(*below->busy));
	if (!below->io || !below->busy) {
		free_below(below);
		return -ENOMEM;
	}
	below->ops = ops;
	below->store = store;
	below->high_pm = attr->high_pm;
	below->max_put = attr->max_put;
	below->max_get = attr->max_get;
	for (u32 i = nr; i-- > 0;)
		io_push(below, &below->io[i]);
	kv_lock(&tier->lock);
	/* Pairs with kv_tier_glance(): it is made. */
	smp_store_release(&tier->below, below);
	tier->metadata_bytes += sizeof(*below) + nr * sizeof(*below->io) +
				attr->max_put * sizeof(*below->busy);
	kv_unlock(&tier->lock);
	return 0;
}

/* Memory that a store may still read is not freed. */
void below_exit(struct kvmm_tier *tier)
{
	struct below *below = tier->below;
	u32 word = 0;

	if (!below)
		return;
	/* Without memory no thread reads any, and a simulated disk may have no time to end in. */
	while (tier->unit_bytes && below->nr_used[BELOW_PUT])
		if (!below_poll(tier))
			kv_env()->wait(kv_env()->ctx, &word, 0, LOOK_NS);
	if (below->ops->close)
		below->ops->close(below->store);
	free_below(below);
}
