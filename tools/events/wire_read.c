// SPDX-License-Identifier: Apache-2.0
/* Batches of events are read, of any bytes; see wire_read.h. */
#include <errno.h>
#include <string.h>

#include "unpack.h"
#include "wire_read.h"

/* Fields of events, in the order that arrays have. */
enum field { HASHES, PARENT, TOKENS, BLOCK_SIZE, MEDIUM, GROUP, OTHER };

static const u8 stored_order[] = { HASHES, PARENT, TOKENS, BLOCK_SIZE, OTHER, MEDIUM, OTHER, OTHER,
				   GROUP };
static const u8 removed_order[] = { HASHES, MEDIUM, GROUP };

static const char *const field_names[OTHER] = {
	"block_hashes", "parent_block_hash", "token_ids", "block_size", "medium", "group_idx",
};

static const char *const kind_names[KVMM_NR_EVENT_KINDS] = {
	"BlockStored", "BlockRemoved", "AllBlocksCleared",
};

static const struct { const char *name; u8 medium; } media[] = {
	{ "GPU", KVMM_MEDIUM_DEVICE }, { "CPU", KVMM_MEDIUM_HOST },
	{ "CPU_PINNED", KVMM_MEDIUM_HOST }, { "STORAGE", KVMM_MEDIUM_DISK },
	{ "DISK", KVMM_MEDIUM_DISK }, { "EXTERNAL", KVMM_MEDIUM_EXTERNAL },
};

/* ---- values ---- */

/* A hash: a number, or bytes, of which the last 8 count. */
static int hash_of(const struct unpacked *value, u64 *hash)
{
	*hash = value->number;
	if (value->type == UNPACK_UINT || value->type == UNPACK_INT)
		return 0;
	if (value->type != UNPACK_BIN)
		return -EBADMSG;
	*hash = 0;
	for (u32 i = value->nr > 8 ? value->nr - 8 : 0; i < value->nr; i++)
		*hash = *hash << 8 | value->bytes[i];
	return 0;
}

static int read_hashes(struct unpack *unpack, struct wire_batch *batch, struct wire_event *event)
{
	struct unpacked list, value;
	int err = unpack_next(unpack, &list);
	u64 hash;

	if (err || list.type != UNPACK_ARRAY)
		return -EBADMSG;
	event->nr_hashes = list.nr;
	event->first_hash = batch->nr_hashes;
	for (u32 i = 0; i < list.nr && !err; i++) {
		err = unpack_next(unpack, &value);
		if (!err)
			err = hash_of(&value, &hash);
		if (err)
			return err;
		if (batch->nr_hashes < batch->max_hashes)
			batch->hash[batch->nr_hashes] = hash;
		batch->nr_hashes++;
	}
	return err;
}

static int read_parent(struct unpack *unpack, struct wire_event *event)
{
	struct unpacked value;
	int err = unpack_next(unpack, &value);

	if (err || value.type == UNPACK_NIL)
		return err;
	event->has_parent = true;
	return hash_of(&value, &event->parent);
}

static int read_tokens(struct unpack *unpack, struct wire_batch *batch, struct wire_event *event)
{
	struct unpacked list, value;
	int err = unpack_next(unpack, &list);

	if (err || list.type != UNPACK_ARRAY)
		return -EBADMSG;
	event->nr_tokens = list.nr;
	event->first_token = batch->nr_tokens;
	for (u32 i = 0; i < list.nr && !err; i++) {
		err = unpack_next(unpack, &value);
		if (!err && (value.type != UNPACK_UINT || value.number > UINT32_MAX))
			err = -EBADMSG;
		if (err)
			return err;
		if (batch->nr_tokens < batch->max_tokens)
			batch->token[batch->nr_tokens] = value.number;
		batch->nr_tokens++;
	}
	return err;
}

static int read_number(struct unpack *unpack, u64 *number)
{
	struct unpacked value;
	int err = unpack_next(unpack, &value);

	if (err || value.type == UNPACK_NIL)
		return err;
	*number = value.number;
	return value.type == UNPACK_UINT ? 0 : -EBADMSG;
}

static int read_medium(struct unpack *unpack, struct wire_event *event)
{
	struct unpacked value;
	int err = unpack_next(unpack, &value);

	for (u32 i = 0; !err && i < ARRAY_SIZE(media); i++)
		if (unpacked_is(&value, media[i].name))
			event->medium = media[i].medium;
	return err || value.type == UNPACK_STR || value.type == UNPACK_NIL ? err : -EBADMSG;
}

static int read_field(struct unpack *unpack, enum field field, struct wire_batch *batch,
		      struct wire_event *event)
{
	switch (field) {
	case HASHES:
		return read_hashes(unpack, batch, event);
	case PARENT:
		return read_parent(unpack, event);
	case TOKENS:
		return read_tokens(unpack, batch, event);
	case BLOCK_SIZE:
		return read_number(unpack, &event->block_size);
	case MEDIUM:
		return read_medium(unpack, event);
	case GROUP:
		return read_number(unpack, &event->group);
	default:
		return unpack_skip(unpack);
	}
}

/* ---- events ---- */

/* Which kind the next value names: KVMM_NR_EVENT_KINDS, one that we do not know. */
static int read_kind(struct unpack *unpack, struct wire_event *event)
{
	struct unpacked value;
	int err = unpack_next(unpack, &value);

	if (err || value.type != UNPACK_STR)
		return -EBADMSG;
	for (event->kind = 0; event->kind < KVMM_NR_EVENT_KINDS; event->kind++)
		if (unpacked_is(&value, kind_names[event->kind]))
			break;
	return 0;
}

static enum field field_at(const struct wire_event *event, u32 i)
{
	if (event->kind == KVMM_EVENT_STORED)
		return i < ARRAY_SIZE(stored_order) ? stored_order[i] : OTHER;
	if (event->kind == KVMM_EVENT_REMOVED)
		return i < ARRAY_SIZE(removed_order) ? removed_order[i] : OTHER;
	return OTHER;
}

static int read_map_event(struct unpack *unpack, u32 nr, struct wire_batch *batch,
			  struct wire_event *event)
{
	struct unpacked name;
	bool has_type = false;
	int err = 0;

	for (u32 i = 0; i < nr && !err; i++) {
		enum field field = HASHES;

		err = unpack_next(unpack, &name);
		if (err || name.type != UNPACK_STR)
			return -EBADMSG;
		if (unpacked_is(&name, "type")) {
			has_type = true;
			err = read_kind(unpack, event);
			continue;
		}
		while (field < OTHER && !unpacked_is(&name, field_names[field]))
			field++;
		err = read_field(unpack, field, batch, event);
	}
	return err || has_type ? err : -EBADMSG;
}

static int read_event(struct unpack *unpack, struct wire_batch *batch)
{
	struct wire_event event = { .medium = KVMM_NR_MEDIA };
	struct unpacked head;
	int err = unpack_next(unpack, &head);

	if (!err && head.type == UNPACK_ARRAY) {
		err = head.nr ? read_kind(unpack, &event) : -EBADMSG;
		for (u32 i = 1; i < head.nr && !err; i++)
			err = read_field(unpack, field_at(&event, i - 1), batch, &event);
	} else if (!err && head.type == UNPACK_MAP) {
		err = read_map_event(unpack, head.nr, batch, &event);
	} else {
		return -EBADMSG;
	}
	if (err || event.kind == KVMM_NR_EVENT_KINDS)
		return err;
	if (batch->nr_events < batch->max_events)
		batch->event[batch->nr_events] = event;
	batch->nr_events++;
	return 0;
}

/* ---- batches ---- */

s64 wire_read(const void *bytes, size_t nr, struct wire_batch *batch)
{
	struct unpack unpack = { .buf = bytes, .nr = nr };
	struct unpacked head, stamp, list;
	int err = unpack_next(&unpack, &head);

	batch->nr_events = batch->nr_hashes = batch->nr_tokens = 0;
	batch->rank = WIRE_NONE;
	if (err || head.type != UNPACK_ARRAY || head.nr < 2)
		return -EBADMSG;
	if (unpack_next(&unpack, &stamp) || stamp.type != UNPACK_F64)
		return -EBADMSG;
	batch->seconds = stamp.real;
	if (unpack_next(&unpack, &list) || list.type != UNPACK_ARRAY)
		return -EBADMSG;
	for (u32 i = 0; i < list.nr && !err; i++)
		err = read_event(&unpack, batch);
	if (!err && head.nr > 2)
		err = read_number(&unpack, &batch->rank);
	for (u32 i = 3; i < head.nr && !err; i++)
		err = unpack_skip(&unpack);
	if (err)
		return err;
	if (batch->nr_events > batch->max_events || batch->nr_hashes > batch->max_hashes ||
	    batch->nr_tokens > batch->max_tokens)
		return -ENOSPC;
	return unpack.at;
}
