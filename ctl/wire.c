// SPDX-License-Identifier: Apache-2.0
/* Batches of events are written; see wire.h and Documentation/events.rst. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <kv/pool.h>

#include "wire.h"

#define ALL_FLAGS	(KVMM_WIRE_BYTES | KVMM_WIRE_LORA)
#define MAX_SPEC_KIND	64u

static const char *const vllm_media[KVMM_NR_MEDIA] = { "GPU", "CPU", "STORAGE", "EXTERNAL" };
static const char *const sglang_media[KVMM_NR_MEDIA] = { "GPU", "CPU_PINNED", "DISK", "EXTERNAL" };

int wire_copy(struct kvmm_wire *to, const struct kvmm_wire *from)
{
	const struct kvmm_wire preset = KVMM_WIRE_INIT;
	int err = kv_copy_attr(to, sizeof(*to), from ? from : &preset);

	if (err)
		return err;
	if (to->format >= KVMM_NR_WIRE_FORMATS || to->flags & ~ALL_FLAGS || to->rank < -1 ||
	    to->reserved || (to->format == KVMM_WIRE_SGLANG && to->flags & KVMM_WIRE_BYTES) ||
	    (to->spec_kind && strlen(to->spec_kind) > MAX_SPEC_KIND))
		return -EINVAL;
	return 0;
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

static bool has_tokens(const u32 *const *tokens, u32 i)
{
	return tokens && tokens[i];
}

/* All of the blocks', or none: a reader cannot tell which are missing; see run_of(). */
static void write_tokens(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
			 const u32 *const *tokens, struct pack *pack)
{
	bool has = has_tokens(tokens, 0);

	name_field(wire, "token_ids", pack);
	pack_array(pack, has ? nr * events->tokens : 0);
	for (u32 i = 0; has && i < nr; i++)
		for (u32 t = 0; t < events->tokens; t++)
			pack_uint(pack, tokens[i][t]);
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

static bool says_kind(const struct kvmm_wire *wire, const struct kvmm_event *event)
{
	return wire->spec_kind && !event->domain.group;
}

/* Fields that vLLM has and SGLang has not. In maps, an empty field is left out. */
static void write_stored_rest(const struct kvmm_wire *wire, const struct kvmm_event *event, u32 nr,
			      struct pack *pack)
{
	bool is_map = wire->format == KVMM_WIRE_MAP;

	name_field(wire, "lora_name", pack);
	pack_nil(pack);
	name_field(wire, "extra_keys", pack);
	pack_array(pack, nr);
	for (u32 i = 0; i < nr; i++)
		pack_nil(pack);
	write_group(wire, event, pack);
	if (says_kind(wire, event)) {
		name_field(wire, "kv_cache_spec_kind", pack);
		pack_str(pack, wire->spec_kind);
	} else if (!is_map) {
		pack_nil(pack);
	}
	if (!is_map)
		pack_nil(pack);		/* kv_cache_spec_sliding_window */
}

static void write_stored(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
			 const u32 *const *tokens, struct pack *pack)
{
	u32 nr_fields = wire->format == KVMM_WIRE_SGLANG ? 6 :
			wire->format == KVMM_WIRE_ARRAY ? 11 : 9 + says_kind(wire, events);

	begin_event(wire, "BlockStored", nr_fields, pack);
	write_hashes(wire, events, nr, pack);
	name_field(wire, "parent_block_hash", pack);
	if (events->flags & KVMM_EVENT_HAS_PARENT)
		write_hash(wire, &events->parent, pack);
	else
		pack_nil(pack);
	write_tokens(wire, events, nr, tokens, pack);
	name_field(wire, "block_size", pack);
	pack_uint(pack, events->tokens);
	name_field(wire, "lora_id", pack);
	if (wire->flags & KVMM_WIRE_LORA && events->domain.tenant)
		pack_uint(pack, events->domain.tenant);
	else
		pack_nil(pack);
	write_medium(wire, events->medium, pack);
	if (wire->format != KVMM_WIRE_SGLANG)
		write_stored_rest(wire, events, nr, pack);
}

static void write_removed(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
			  struct pack *pack)
{
	bool says_group = wire->format != KVMM_WIRE_SGLANG;

	begin_event(wire, "BlockRemoved", 2 + says_group, pack);
	write_hashes(wire, events, nr, pack);
	write_medium(wire, events->medium, pack);
	if (says_group)
		write_group(wire, events, pack);
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

/* How many, from the first on, are one event. Blocks with tokens and without are never one. */
static u32 run_of(const struct kvmm_wire *wire, const struct kvmm_event *events, u32 nr,
		  const u32 *const *tokens)
{
	u32 i = 1;

	while (i < nr && follows(wire, &events[i - 1], &events[i]) &&
	       has_tokens(tokens, i) == has_tokens(tokens, 0))
		i++;
	return i;
}

void wire_write(const struct kvmm_wire *wire, double seconds, const struct kvmm_event *events,
		u32 nr, const u32 *const *of, struct pack *pack)
{
	u32 nr_runs = 0, run;

	for (u32 i = 0; i < nr; i += run_of(wire, &events[i], nr - i, of ? &of[i] : NULL))
		nr_runs++;
	pack_array(pack, 3);
	pack_f64(pack, seconds);
	pack_array(pack, nr_runs);
	for (u32 i = 0; i < nr; i += run) {
		const u32 *const *tokens = of ? &of[i] : NULL;

		run = run_of(wire, &events[i], nr - i, tokens);
		if (events[i].kind == KVMM_EVENT_STORED)
			write_stored(wire, &events[i], run, tokens, pack);
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

int64_t kvmm_wire_encode_tokens(const struct kvmm_wire *wire, double seconds,
				const struct kvmm_event *events, uint32_t nr,
				const uint32_t *const *tokens, void *buf, size_t bytes)
{
	struct pack pack = { .buf = buf, .room = bytes };
	struct kvmm_wire known;

	if (!buf || (nr && !events) || wire_copy(&known, wire) || is_bad(events, nr))
		return -EINVAL;
	wire_write(&known, seconds, events, nr, tokens, &pack);
	return pack.full ? -ENOSPC : (int64_t)pack.len;
}
