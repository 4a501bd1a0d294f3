// SPDX-License-Identifier: Apache-2.0
/*
 * The cached blocks, name by name, while all goes on beside.
 *
 * The head of the ring is read first; a name that is looked at later is seen at least as it was
 * then, because a thread that changes it makes the record afterwards. Two things could slip
 * through, and do not:
 *
 *  - a block that is claimed for eviction is in the map still, and may come back without a word: so
 *    its place in the map counts, not whether it can be found at this moment;
 *  - a name may go from a block that was not looked at yet to one that was: the remover of the
 *    former writes a record of the kind KEPT, which means STORED to a reader that was making a
 *    snapshot then.
 */
#include <kv/rcu.h>
#include <kv/tier.h>
#include <kvmm/ext/control.h>
#include <tier/pool/tier.h>

#include "events.h"

bool events_entry(const struct kvmm_pool *pool, u32 index, struct kvmm_event *event)
{
	bool is_added = kv_name_is_added(&pool->entries, index);
	const struct kv_feed_parent *parent = &pool->events->feed.parent[is_added ? 0 : index];
	const struct kv_entry *entry = entry_at(pool, index);
	/* Pairs with the swap that registers it: name and place are written before. */
	u64 word = smp_load_acquire(&entry->word);
	u64 before[2] = { READ_ONCE(parent->key[0]), READ_ONCE(parent->key[1]) };
	u32 block = kv_name_block(&pool->entries, index).index;

	kv_assert(index < pool->entries.top_name);
	if (!kv_word_has_name(word) && !kv_word_is(word, KV_ENTRY_EVICTING))
		return false;
	if (word & KV_ENTRY_HIDDEN || kv_name_is_out(&pool->entries, index))
		return false;
	*event = (struct kvmm_event){
		.key = kv_entry_key(entry), .domain = kv_entry_domain(entry),
		.position = READ_ONCE(entry->position), .tokens = pool->block_tokens,
		.block = READ_ONCE(entry_at(pool, block)->place),
		.kind = KVMM_EVENT_STORED, .medium = KVMM_MEDIUM_DEVICE,
		.flags = !is_added && READ_ONCE(parent->known) ? KVMM_EVENT_HAS_PARENT : 0,
	};
	if (event->flags)
		memcpy(&event->parent, before, sizeof(event->parent));
	/* All of it is of one generation, or the block has gone since, with a record of that. */
	return kv_is_still(&entry->word, word, (u64)KV_ENTRY_GEN_MASK << KV_ENTRY_GEN_SHIFT);
}

/* Of the host's tier, or of the disk below it. */
static bool next_below(struct kvmm_events *events, struct kvmm_snapshot *snap,
		       struct kvmm_event *event)
{
	struct kv_tier_name name;
	bool found = false;
	struct lower *lower;

	kv_assert(snap->medium == KVMM_MEDIUM_HOST || snap->medium == KVMM_MEDIUM_DISK);
	/* Pairs with kvmm_tier_detach(), as in events_attached(). */
	kv_rcu_read_lock();
	lower = lower_of(events->pool);
	if (lower)
		found = snap->medium == KVMM_MEDIUM_HOST ?
			kv_tier_next_name(lower->client, &snap->at, &name) :
			kv_tier_next_below(lower->client, &snap->cursor, &name);
	kv_rcu_read_unlock();
	if (!found) {
		snap->medium = snap->medium == KVMM_MEDIUM_HOST ? KVMM_MEDIUM_DISK : KVMM_NR_MEDIA;
		return false;
	}
	*event = (struct kvmm_event){
		.key = name.key, .domain = name.domain, .position = name.position,
		.tokens = events->pool->block_tokens, .block = KVMM_EVENT_NO_BLOCK,
		.kind = KVMM_EVENT_STORED, .medium = snap->medium,
	};
	return true;
}

static bool next_name(struct kvmm_events *events, struct kvmm_snapshot *snap,
		      struct kvmm_event *event)
{
	if (snap->medium == KVMM_MEDIUM_DEVICE) {
		bool found = false;

		/* A first name that is read is not written meanwhile: see cache/rename.c. */
		kv_rcu_read_lock();
		while (snap->at < READ_ONCE(events->pool->entries.top_name) && !found)
			found = events_entry(events->pool, snap->at++, event);
		kv_rcu_read_unlock();
		if (found)
			return true;
		snap->medium = KVMM_MEDIUM_HOST;
		snap->cursor = 0;
		snap->at = 0;
	}
	if (snap->medium == KVMM_MEDIUM_HOST && next_below(events, snap, event))
		return true;
	return snap->medium == KVMM_MEDIUM_DISK && next_below(events, snap, event);
}

int kvmm_snapshot_read(struct kvmm_events *events, struct kvmm_snapshot *snap,
		       struct kvmm_event *buf, uint32_t max)
{
	u32 nr = 0;

	if (!events || !snap || !buf != !max)
		return -EINVAL;
	if (pool_refusal(events->pool) == -ECHILD)
		return -ECHILD;
	if (!buf) {
		events->settle = UINT64_MAX;
		*snap = (struct kvmm_snapshot){ .watermark = kv_ring_head(ring_of(events)) };
		return 0;
	}
	while (nr < max && next_name(events, snap, &buf[nr])) {
		buf[nr].seq = snap->watermark;
		nr += events_wants(events, buf[nr].kind, buf[nr].medium, buf[nr].position);
	}
	if (!nr)
		events->settle = kv_ring_head(ring_of(events));
	return nr;
}
