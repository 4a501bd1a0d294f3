// SPDX-License-Identifier: Apache-2.0
/* Batches of events are written; see wire.h and Documentation/events.rst. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <kv/buf.h>
#include <kv/mem.h>
#include <kv/pool.h>

#include "wire.h"

#define ALL_FLAGS	(KVMM_WIRE_BYTES | KVMM_WIRE_LORA)
#define MAX_TEXT	64u

static const char *const vllm_media[KVMM_NR_MEDIA] = { "GPU", "CPU", "STORAGE", "EXTERNAL" };
static const char *const sglang_media[KVMM_NR_MEDIA] = { "GPU", "CPU_PINNED", "DISK", "EXTERNAL" };

static const char *const localities[KVMM_NR_LOCALITIES] = { NULL, "LOCAL", "REMOTE" };

/* KVMM_WIRE_BYTES_FOR() counts with MAX_TEXT. */
static bool is_long(const char *text)
{
	return text && strlen(text) > MAX_TEXT;
}

int wire_copy(struct kvmm_wire *to, const struct kvmm_wire *from)
{
	const struct kvmm_wire preset = KVMM_WIRE_INIT;
	int err = kv_copy_attr(to, sizeof(*to), from ? from : &preset);

	if (err)
		return err;
	if (to->format >= KVMM_NR_WIRE_FORMATS || to->flags & ~ALL_FLAGS || to->rank < -1 ||
	    to->reserved || (to->format == KVMM_WIRE_SGLANG && to->flags & KVMM_WIRE_BYTES) ||
	    is_long(to->spec_kind) || to->nr_groups > KVMM_WIRE_MAX_GROUPS ||
	    (to->nr_groups && !to->groups))
		return -EINVAL;
	for (u32 i = 0; i < to->nr_groups; i++)
		if (is_long(to->groups[i].kind) || to->groups[i].reserved)
			return -EINVAL;
	for (u32 i = 0; i < KVMM_NR_MEDIA; i++)
		if (to->locality[i] >= KVMM_NR_LOCALITIES ||
		    (to->ownership[i] &&
		     !kv_name_is_good("secondary tier", to->ownership[i], MAX_TEXT + 1)))
			return -EINVAL;
	return 0;
}

/* @text borrows of @room from now on. */
static void own(const char **text, char room[WIRE_TEXT])
{
	static_assert(MAX_TEXT < WIRE_TEXT, "room for a NUL");
	if (*text)
		*text = strncpy(room, *text, WIRE_TEXT - 1);
}

void wire_own(struct kvmm_wire *wire, struct wire_text *text)
{
	for (u32 i = 0; i < wire->nr_groups; i++) {
		text->group[i] = wire->groups[i];
		own(&text->group[i].kind, text->kind[1 + i]);
	}
	wire->groups = text->group;
	own(&wire->spec_kind, text->kind[0]);
	for (u32 i = 0; i < KVMM_NR_MEDIA; i++)
		own(&wire->ownership[i], text->ownership[i]);
}

/* ---- fields ---- */

u64 wire_big_endian(const u8 byte[8])
{
	u64 value = 0;

	for (u32 i = 0; i < 8; i++)
		value = value << 8 | byte[i];
	return value;
}

/* vLLM takes the end of a hash, SGLang its beginning, and that as a signed number. */
static void write_hash(const struct kvmm_wire *wire, const kvmm_key_t *key, struct pack *pack)
{
	if (wire->format == KVMM_WIRE_SGLANG)
		pack_int(pack, (s64)wire_big_endian(key->byte));
	else if (wire->flags & KVMM_WIRE_BYTES)
		pack_bin(pack, key->byte, KVMM_KEY_BYTES);
	else
		pack_uint(pack, wire_big_endian(key->byte + KVMM_KEY_BYTES - 8));
}

/* A field's name, where fields have names. */
static void name_field(const struct kvmm_wire *wire, const char *name, struct pack *pack)
{
	if (wire->format == KVMM_WIRE_MAP)
		pack_str(pack, name);
}

static void write_hashes(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
			 struct pack *pack)
{
	name_field(wire, "block_hashes", pack);
	pack_array(pack, nr);
	for (u32 i = 0; i < nr; i++)
		write_hash(wire, &events[i].key, pack);
}

static void write_medium(const struct kvmm_wire *wire, u32 medium, struct pack *pack)
{
	name_field(wire, "medium", pack);
	pack_str(pack, wire->format == KVMM_WIRE_SGLANG ? sglang_media[medium] :
							  vllm_media[medium]);
}

/* All of the blocks', or none: a reader cannot tell which are missing; see run_of(). */
static void write_tokens(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
			 const struct kvmm_wire_block *blocks, struct pack *pack)
{
	bool has = blocks && blocks->tokens;

	name_field(wire, "token_ids", pack);
	pack_array(pack, has ? nr * events->tokens : 0);
	for (u32 i = 0; has && i < nr; i++)
		for (u32 t = 0; t < events->tokens; t++)
			pack_uint(pack, blocks[i].tokens[t]);
}

static void write_group(const struct kvmm_wire *wire, const struct kvmm_event *event,
			struct pack *pack)
{
	name_field(wire, "group_idx", pack);
	pack_uint(pack, event->domain.group);
}

/* ---- events ---- */

/* The first element of an array stands in a map under "type". */
static void begin_event(const struct kvmm_wire *wire, const char *type, u32 nr_fields,
			struct pack *pack)
{
	if (wire->format == KVMM_WIRE_MAP)
		pack_map(pack, 1 + nr_fields);
	else
		pack_array(pack, 1 + nr_fields);
	name_field(wire, "type", pack);
	pack_str(pack, type);
}

/* A field that is left out where there is no @text. */
static void write_if_said(const struct kvmm_wire *wire, const char *name, const char *text,
			  struct pack *pack)
{
	if (!text)
		return;
	name_field(wire, name, pack);
	pack_str(pack, text);
}

/* A field that is nil where there is no @text. */
static void write_text(const struct kvmm_wire *wire, const char *name, const char *text,
		       struct pack *pack)
{
	name_field(wire, name, pack);
	if (text)
		pack_str(pack, text);
	else
		pack_nil(pack);
}

/* Where a medium is, and the name of its tier: fields that only maps have. */
struct place {
	const char *locality;
	const char *ownership;
};

static struct place place_of(const struct kvmm_wire *wire, u32 medium)
{
	if (wire->format != KVMM_WIRE_MAP)
		return (struct place){ NULL, NULL };
	return (struct place){ localities[wire->locality[medium]], wire->ownership[medium] };
}

static void write_place(const struct kvmm_wire *wire, u32 medium, struct pack *pack)
{
	struct place place = place_of(wire, medium);

	write_if_said(wire, "locality", place.locality, pack);
	write_if_said(wire, "ownership", place.ownership, pack);
}

static struct kvmm_wire_group group_of(const struct kvmm_wire *wire, const struct kvmm_event *event)
{
	u32 group = event->domain.group;

	if (group < wire->nr_groups)
		return wire->groups[group];
	return (struct kvmm_wire_group){ group || wire->nr_groups ? NULL : wire->spec_kind, 0, 0 };
}

/* Fields that vLLM has and SGLang has not. In maps, those that say nothing are left out. */
static void write_stored_rest(const struct kvmm_wire *wire, const struct kvmm_event *event, u32 nr,
			      const struct kvmm_wire_block *blocks, struct pack *pack)
{
	struct kvmm_wire_group group = group_of(wire, event);
	bool is_map = wire->format == KVMM_WIRE_MAP;

	write_text(wire, "lora_name", blocks ? blocks->lora_name : NULL, pack);
	name_field(wire, "extra_keys", pack);
	pack_array(pack, nr);
	for (u32 i = 0; i < nr; i++)
		if (blocks && blocks[i].extra_keys)
			pack_raw(pack, blocks[i].extra_keys, blocks[i].extra_bytes);
		else
			pack_nil(pack);
	write_group(wire, event, pack);
	if (group.kind || !is_map)
		write_text(wire, "kv_cache_spec_kind", group.kind, pack);
	if (group.sliding_window) {
		name_field(wire, "kv_cache_spec_sliding_window", pack);
		pack_uint(pack, group.sliding_window);
	} else if (!is_map) {
		pack_nil(pack);
	}
	if (!is_map)
		return;
	write_place(wire, event->medium, pack);
	write_if_said(wire, "session_id", blocks ? blocks->session_id : NULL, pack);
}

/* A map says first how many fields it has: as many as write_stored() writes. */
static u32 nr_stored_fields(const struct kvmm_wire *wire, const struct kvmm_event *event,
			    const struct kvmm_wire_block *block)
{
	struct kvmm_wire_group group = group_of(wire, event);
	struct place place = place_of(wire, event->medium);

	if (wire->format != KVMM_WIRE_MAP)
		return wire->format == KVMM_WIRE_SGLANG ? 6 : 11;
	return 9 + !!group.kind + !!group.sliding_window + !!place.locality + !!place.ownership +
	       (block && block->session_id);
}

static void write_stored(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
			 const struct kvmm_wire_block *blocks, struct pack *pack)
{
	u32 lora = blocks ? blocks->lora_id : 0;

	if (!lora && wire->flags & KVMM_WIRE_LORA)
		lora = events->domain.tenant;
	begin_event(wire, "BlockStored", nr_stored_fields(wire, events, blocks), pack);
	write_hashes(wire, events, nr, pack);
	name_field(wire, "parent_block_hash", pack);
	if (events->flags & KVMM_EVENT_HAS_PARENT)
		write_hash(wire, &events->parent, pack);
	else
		pack_nil(pack);
	write_tokens(wire, events, nr, blocks, pack);
	name_field(wire, "block_size", pack);
	pack_uint(pack, events->tokens);
	name_field(wire, "lora_id", pack);
	if (lora)
		pack_uint(pack, lora);
	else
		pack_nil(pack);
	write_medium(wire, events->medium, pack);
	if (wire->format != KVMM_WIRE_SGLANG)
		write_stored_rest(wire, events, nr, blocks, pack);
}

static void write_removed(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
			  struct pack *pack)
{
	struct place place = place_of(wire, events->medium);
	bool says_group = wire->format != KVMM_WIRE_SGLANG;

	begin_event(wire, "BlockRemoved",
		    2 + says_group + !!place.locality + !!place.ownership, pack);
	write_hashes(wire, events, nr, pack);
	write_medium(wire, events->medium, pack);
	if (says_group)
		write_group(wire, events, pack);
	write_place(wire, events->medium, pack);
}

/* ---- batches ---- */

static bool follows(const struct kvmm_wire *wire, const struct kvmm_event *a,
		    const struct kvmm_event *b)
{
	if (a->kind != b->kind || a->medium != b->medium || a->domain.tenant != b->domain.tenant ||
	    a->domain.layout != b->domain.layout || a->domain.group != b->domain.group)
		return false;
	if (a->kind == KVMM_EVENT_REMOVED)
		return true;
	return a->kind == KVMM_EVENT_STORED && wire->format != KVMM_WIRE_SGLANG &&
	       b->flags & KVMM_EVENT_HAS_PARENT && !memcmp(&b->parent, &a->key, sizeof(a->key));
}

/* Both may be NULL. */
static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

/* In what an event has once. */
static bool agree(const struct kvmm_wire_block *a, const struct kvmm_wire_block *b)
{
	return !a->tokens == !b->tokens && a->lora_id == b->lora_id &&
	       same_text(a->lora_name, b->lora_name) && same_text(a->session_id, b->session_id);
}

/* How many, from the first on, are one event. */
static u32 run_of(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
		  const struct kvmm_wire_block *blocks)
{
	u32 i = 1;

	while (i < nr && follows(wire, &events[i - 1], &events[i]) &&
	       (!blocks || events->kind != KVMM_EVENT_STORED || agree(&blocks[0], &blocks[i])))
		i++;
	return i;
}

void wire_write(const struct kvmm_wire *wire, double seconds, const struct kvmm_event *events,
		u32 nr, const struct kvmm_wire_block *of, struct pack *pack)
{
	u32 nr_runs = 0, run;

	for (u32 i = 0; i < nr; i += run_of(wire, &events[i], nr - i, of ? &of[i] : NULL))
		nr_runs++;
	pack_array(pack, 3);
	pack_f64(pack, seconds);
	pack_array(pack, nr_runs);
	for (u32 i = 0; i < nr; i += run) {
		const struct kvmm_wire_block *blocks = of ? &of[i] : NULL;

		run = run_of(wire, &events[i], nr - i, blocks);
		if (events[i].kind == KVMM_EVENT_STORED)
			write_stored(wire, &events[i], run, blocks, pack);
		else if (events[i].kind == KVMM_EVENT_REMOVED)
			write_removed(wire, &events[i], run, pack);
		else
			begin_event(wire, "AllBlocksCleared", 0, pack);
	}
	if (wire->rank < 0)
		pack_nil(pack);
	else
		pack_uint(pack, wire->rank);
}

static bool is_bad(const struct kvmm_event *events, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (events[i].kind >= KVMM_NR_EVENT_KINDS || events[i].medium >= KVMM_NR_MEDIA)
			return true;
	return false;
}

int64_t kvmm_wire_encode_blocks(const struct kvmm_wire *wire, const struct kvmm_wire_args *args,
				void *buf, size_t bytes)
{
	struct pack pack = { .buf = buf, .room = bytes };
	struct kvmm_wire_args batch;
	struct kvmm_wire known;

	if (!buf || !args || kv_copy_attr(&batch, sizeof(batch), args) || batch.reserved ||
	    (batch.nr && !batch.events) || wire_copy(&known, wire) ||
	    is_bad(batch.events, batch.nr))
		return -EINVAL;
	wire_write(&known, batch.seconds, batch.events, batch.nr, batch.blocks, &pack);
	return pack.full ? -ENOSPC : (int64_t)pack.len;
}
