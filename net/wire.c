// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes from another process, taken apart.
 *
 * All that can be wrong with a message by itself is found here, before anything is allocated for
 * it: its handler has to ask only whether it is the time for it.
 */
#include <string.h>

#include <kv/hash.h>
#include <kv/bits.h>

#include "wire.h"

/* It tells accidents from messages, not enemies: those would be us. */
u64 wire_sum(const void *payload, u32 bytes)
{
	u64 sum = bytes;

	for (u32 at = 0; at < bytes; at += sizeof(u64)) {
		u64 word = 0;

		memcpy(&word, (const u8 *)payload + at, min(bytes - at, (u32)sizeof(word)));
		sum = kv_mul_fold(sum ^ word, 0xa0761d6478bd642full) + word;
	}
	return sum;
}

u64 wire_layout(const struct kv_planes *planes)
{
	u64 sum = planes->nr;

	for (u32 i = 0; i < planes->nr; i++)
		sum = kv_mul_fold(sum ^ planes->plane[i].bytes, 0x9e3779b97f4a7c15ull) + 1;
	return sum;
}

u64 wire_label(const char *label)
{
	return label ? wire_sum(label, strlen(label)) | 1 : 0;
}

struct wire_hello wire_hello_of(const struct kv_pool_view *view)
{
	return (struct wire_hello){
		.block_bytes = view->block_bytes, .layout = wire_layout(&view->planes),
		.nr_planes = view->planes.nr, .block_tokens = view->block_tokens,
		.caches = view->caches,
	};
}

int wire_parse(const u8 *buf, u32 bytes, struct wire_msg *msg)
{
	const struct wire_head *head = &msg->head;

	if (bytes < sizeof(*head))
		return 0;
	memcpy(&msg->head, buf, sizeof(*head));
	if (head->magic != WIRE_MAGIC || head->version != WIRE_VERSION || !head->type ||
	    head->type >= WIRE_NR_TYPES || head->bytes > WIRE_MAX_BYTES)
		return -EPROTO;
	if (bytes - sizeof(*head) < head->bytes)
		return 0;
	msg->payload = buf + sizeof(*head);
	if (wire_sum(msg->payload, head->bytes) != head->sum)
		return -EPROTO;
	return sizeof(*head) + head->bytes;
}

/* The fixed part; there are @more bytes behind it. */
static int get(const struct wire_msg *msg, void *fixed, u32 bytes, u64 *more)
{
	if (msg->head.bytes < bytes)
		return -EPROTO;
	memcpy(fixed, msg->payload, bytes);
	*more = msg->head.bytes - bytes;
	return 0;
}

static int get_all(const struct wire_msg *msg, void *fixed, u32 bytes)
{
	u64 more;
	int err = get(msg, fixed, bytes, &more);

	return err || more ? -EPROTO : 0;
}

int wire_get_hello(const struct wire_msg *msg, const struct kv_pool_view *view,
		   struct wire_hello *hello)
{
	struct wire_hello theirs, ours = wire_hello_of(view);

	if (get_all(msg, &theirs, sizeof(theirs)) || theirs.nr_planes > KVMM_MAX_PLANES ||
	    theirs.caches > 1)
		return -EPROTO;
	*hello = theirs;
	theirs.caches = ours.caches;
	theirs.nr_free = 0;
	theirs.label = 0;
	return memcmp(&theirs, &ours, sizeof(ours)) ? -EMEDIUMTYPE : 0;
}

int wire_get_window(const struct wire_msg *msg, struct wire_window *window, const u8 **blob,
		    u32 *blob_bytes)
{
	u64 more;

	if (get(msg, window, sizeof(*window), &more) || more > WINDOW_BLOB_BYTES ||
	    window->kind >= WINDOW_NR_KINDS)
		return -EPROTO;
	*blob = msg->payload + sizeof(*window);
	*blob_bytes = more;
	if (window->kind == WINDOW_NONE)
		return 0;
	if (!window->slot_blocks || window->slot_blocks > KVMM_MIGRATE_MAX_BLOCKS ||
	    !window->slot_bytes || window->bytes / WINDOW_SLOTS < window->slot_bytes)
		return -EPROTO;
	return 0;
}

/* Counts that a taker can afford, and that agree with each other. */
static bool offer_is_good(const struct wire_offer *offer, struct kv_range_kind *kinds)
{
	bool precopy = offer->flags & KVMM_MIGRATE_PRECOPY;
	u64 nr = offer->nr_refs, most = nr;

	if (offer->flags & ~(KVMM_MIGRATE_NO_EVICT | KVMM_MIGRATE_PRECOPY) || (precopy && nr) ||
	    offer->max_runs > KVMM_MAX_RUNS)
		return false;
	for (u32 i = 0; i < offer->nr_ranges; i++) {
		if (!precopy)
			kinds[i].listed = kinds[i].nr;
		if (!kinds[i].nr || kinds[i].sealed > kinds[i].nr || kinds[i].listed > kinds[i].nr)
			return false;
		nr += kinds[i].listed;
		most += kinds[i].nr;
	}
	return nr && nr == offer->nr && most <= KVMM_MIGRATE_MAX_BLOCKS;
}

int wire_get_offer(const struct wire_msg *msg, struct wire_offer *offer,
		   struct kv_range_kind *kinds)
{
	u64 more;

	if (get(msg, offer, sizeof(*offer), &more) || offer->nr_ranges > KVMM_MIGRATE_MAX_RANGES ||
	    more != offer->nr_ranges * sizeof(*kinds))
		return -EPROTO;
	memcpy(kinds, msg->payload + sizeof(*offer), more);
	return offer_is_good(offer, kinds) ? 0 : -EPROTO;
}

int wire_get_part(const struct wire_msg *msg, u32 size, struct wire_part *part, const u8 **items)
{
	u64 more;

	if (get(msg, part, sizeof(*part), &more) || !part->nr || more != (u64)part->nr * size)
		return -EPROTO;
	*items = msg->payload + sizeof(*part);
	return 0;
}

int wire_get_accept(const struct wire_msg *msg, struct wire_accept *accept, const u8 **bits)
{
	u64 more;

	if (get(msg, accept, sizeof(*accept), &more) || accept->answer > WIRE_COMMITTED ||
	    accept->status > 0 || accept->nr_refs > KVMM_MIGRATE_MAX_BLOCKS ||
	    more != (accept->nr_refs + 7) / 8)
		return -EPROTO;
	*bits = msg->payload + sizeof(*accept);
	return 0;
}

int wire_get_fill(const struct wire_msg *msg, struct wire_fill *fill)
{
	if (get_all(msg, fill, sizeof(*fill)) || fill->slot >= WINDOW_SLOTS || !fill->nr ||
	    fill->nr > KVMM_MIGRATE_MAX_BLOCKS || fill->first > KVMM_MIGRATE_MAX_BLOCKS ||
	    fill->status > 0)
		return -EPROTO;
	return 0;
}

/* A number that is no errno of ours must not become one. */
int wire_get_status(const struct wire_msg *msg, s32 *status)
{
	struct wire_status what;

	if (get_all(msg, &what, sizeof(what)) || what.status > 0 || what.status < -4095)
		return -EPROTO;
	*status = what.status;
	return 0;
}
