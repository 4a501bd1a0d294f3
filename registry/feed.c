// SPDX-License-Identifier: Apache-2.0
/* Records of names that come and go; see kv/registry_feed.h. */
#include <kv/registry_feed.h>
#include <kv/registry_name.h>
#include <kvmm/event.h>

void kv_feed_entry(struct kv_feed *feed, u32 kind, const struct kv_entries *entries, u32 index)
{
	const struct kv_entry *entry = &entries->entry[index];
	const struct kv_feed_parent *parent = &feed->parent[index];
	u32 position = READ_ONCE(entry->position);
	u64 word[KV_RING_WORDS] = {
		READ_ONCE(entry->key[0]), READ_ONCE(entry->key[1]), 0, 0, READ_ONCE(entry->domain),
		kv_feed_info(position, kind, KVMM_MEDIUM_DEVICE, 0),
		READ_ONCE(entries->entry[kv_name_block(entries, index).index].place),
	};

	if (kind != KVMM_EVENT_REMOVED && !kv_name_is_added(entries, index) &&
	    READ_ONCE(parent->known)) {
		word[2] = READ_ONCE(parent->key[0]);
		word[3] = READ_ONCE(parent->key[1]);
		word[5] = kv_feed_info(position, kind, KVMM_MEDIUM_DEVICE,
				       KVMM_EVENT_HAS_PARENT);
	}
	kv_ring_put(&feed->ring, word);
}

void kv_feed_name(struct kv_feed *feed, u32 kind, u32 medium, const struct kv_feed_name *name)
{
	u64 word[KV_RING_WORDS] = {
		name->key[0], name->key[1], 0, 0, name->domain,
		kv_feed_info(name->position, kind, medium, 0), KVMM_EVENT_NO_BLOCK,
	};

	kv_ring_put(&feed->ring, word);
}

void kv_feed_set_parent(struct kv_feed *feed, u32 index, const kvmm_key_t *parent)
{
	struct kv_feed_parent *to = &feed->parent[index];
	u64 key[2] = { 0 };

	if (parent)
		kv_key_words(parent, key);
	WRITE_ONCE(to->key[0], key[0]);
	WRITE_ONCE(to->key[1], key[1]);
	WRITE_ONCE(to->known, parent != NULL);
}
