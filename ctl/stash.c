// SPDX-License-Identifier: Apache-2.0
/*
 * Places in a ring by age, found by a chained hash over their keys; see stash.h.
 *
 * In a place are tokens, and a note: adapter, session, and extra keys, which are packed as vLLM
 * publishes them, without the tags that it hashes: the adapter's name, an [identifier, offset] for
 * each multimodal item, the salt, the hash of embeddings.
 */
#include <errno.h>
#include <string.h>

#include <kv/bits.h>
#include <kv/buf.h>
#include <kv/env.h>
#include <kv/hash.h>
#include <kv/mem.h>
#include <kv/key.h>

#include "msgpack.h"
#include "stash.h"

#define MAX_PLACES	(1u << 26)
#define NO_PLACE	UINT32_MAX

struct stash_place {
	kvmm_key_t	key;
	u32		next;		/* in the chain of its bucket */
	u32		older;		/* in the ring; of the oldest: the newest */
	u32		newer;
	u16		note_bytes;
	bool		is_used;
	bool		has_tokens;
};

int stash_init(struct stash *stash, u32 nr_places, u32 block_tokens, u32 note_bytes)
{
	*stash = (struct stash){ .nr_places = nr_places, .block_tokens = block_tokens,
				 .note_bytes = note_bytes };
	if (!nr_places)
		return 0;
	if (nr_places > MAX_PLACES || !block_tokens || note_bytes > UINT16_MAX)
		return -EINVAL;
	kv_lock_init(&stash->lock, KV_RANK_LEAF, 0);
	stash->secret = kv_random();
	for (stash->nr_buckets = 1; stash->nr_buckets < nr_places;)
		stash->nr_buckets *= 2;
	stash->place = kv_alloc_array(nr_places, sizeof(*stash->place));
	stash->token = kv_alloc_array(nr_places, (size_t)block_tokens * sizeof(*stash->token));
	stash->note = kv_alloc_array(nr_places, max(note_bytes, 1u));
	stash->bucket = kv_alloc_array(stash->nr_buckets, sizeof(*stash->bucket));
	if (!stash->place || !stash->token || !stash->note || !stash->bucket) {
		stash_exit(stash);
		return -ENOMEM;
	}
	memset(stash->bucket, 0xff, stash->nr_buckets * sizeof(*stash->bucket));
	for (u32 i = 0; i < nr_places; i++) {
		stash->place[i].older = i ? i - 1 : nr_places - 1;
		stash->place[i].newer = i + 1 < nr_places ? i + 1 : 0;
	}
	return 0;
}

void stash_exit(struct stash *stash)
{
	kv_free(stash->place);
	kv_free(stash->token);
	kv_free(stash->note);
	kv_free(stash->bucket);
	*stash = (struct stash){ 0 };
}

static u32 *bucket_of(struct stash *stash, const kvmm_key_t *key)
{
	return &stash->bucket[kv_hash_key(key, stash->secret) & (stash->nr_buckets - 1)];
}

static u32 *token_at(struct stash *stash, u32 place)
{
	return &stash->token[(size_t)place * stash->block_tokens];
}

static u8 *note_at(struct stash *stash, u32 place)
{
	return &stash->note[(size_t)place * stash->note_bytes];
}

/* Where the link to the place of @key is, or to nothing. */
static u32 *find(struct stash *stash, const kvmm_key_t *key)
{
	u32 *at = bucket_of(stash, key);

	kv_assert_held(&stash->lock);
	while (*at != NO_PLACE && memcmp(&stash->place[*at].key, key, sizeof(*key)))
		at = &stash->place[*at].next;
	return at;
}

/* Behind the newest. */
static void make_newest(struct stash *stash, u32 index)
{
	struct stash_place *place = &stash->place[index], *oldest;
	u32 newest;

	if (index == stash->oldest) {
		stash->oldest = place->newer;
		return;
	}
	stash->place[place->older].newer = place->newer;
	stash->place[place->newer].older = place->older;
	oldest = &stash->place[stash->oldest];
	newest = oldest->older;
	stash->place[newest].newer = index;
	place->older = newest;
	place->newer = stash->oldest;
	oldest->older = index;
}

static u32 place_for(struct stash *stash, const kvmm_key_t *key)
{
	u32 index = *find(stash, key), *at;
	struct stash_place *place;

	if (index != NO_PLACE)
		return index;
	index = stash->oldest;
	place = &stash->place[index];
	if (place->is_used)
		*find(stash, &stash->place[index].key) = stash->place[index].next;
	at = bucket_of(stash, key);
	place->key = *key;
	place->next = *at;
	place->is_used = true;
	*at = index;
	return index;
}

void stash_put(struct stash *stash, const kvmm_key_t *key, const struct stash_copy *from)
{
	struct stash_place *place;
	u32 index;

	kv_assert(from->note_bytes <= stash->note_bytes);
	if (!stash->nr_places)
		return;
	kv_lock(&stash->lock);
	index = place_for(stash, key);
	make_newest(stash, index);	/* a block that is told again, too */
	place = &stash->place[index];
	place->has_tokens = from->token;
	if (from->token)
		memcpy(token_at(stash, index), from->token,
		       stash->block_tokens * sizeof(*from->token));
	place->note_bytes = from->note_bytes;
	if (from->note_bytes)
		memcpy(note_at(stash, index), from->note, from->note_bytes);
	kv_unlock(&stash->lock);
}

bool stash_get(struct stash *stash, const kvmm_key_t *key, struct stash_copy *to)
{
	const struct stash_place *place;
	u32 index = NO_PLACE;

	if (!stash->nr_places)
		return false;
	kv_lock(&stash->lock);
	index = *find(stash, key);
	if (index != NO_PLACE) {
		place = &stash->place[index];
		if (place->has_tokens)
			memcpy(to->token, token_at(stash, index),
			       stash->block_tokens * sizeof(*to->token));
		else
			to->token = NULL;
		to->note_bytes = place->note_bytes;
		if (to->note_bytes)
			memcpy(to->note, note_at(stash, index), to->note_bytes);
	}
	kv_unlock(&stash->lock);
	return index != NO_PLACE;
}

/* ---- notes ---- */

/* Then come both texts, each with its NUL, and the extra keys. */
struct note_head {
	u32 lora_id;
	u16 name_bytes;			/* 0: none */
	u16 session_bytes;		/* likewise */
	u16 extra_bytes;		/* likewise */
	u16 reserved;
};

/* A text that is none would make a subscriber refuse the whole batch. */
static int check_text(const void *text, size_t bytes)
{
	char copy[KVMM_NOTE_MAX_BYTES + 1];
	const char *at = copy;
	u32 nr;

	if (bytes > KVMM_NOTE_MAX_BYTES)
		return -ENOSPC;
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	while ((nr = kv_char(at)))
		at += nr;
	return at == copy + bytes ? 0 : -EINVAL;
}

static bool is_bytes(const struct kvmm_key_extra *extra)
{
	return extra->kind == KVMM_KEY_EMBEDS || extra->kind == KVMM_KEY_OTHER;
}

int stash_note_check(const struct kvmm_publisher_note *note)
{
	const char *const texts[] = { note->lora_name, note->session_id, note->salt };
	int err = kv_key_check_extras(note->extras, note->nr_extras);

	for (u32 i = 0; i < ARRAY_SIZE(texts) && !err; i++)
		err = texts[i] ? check_text(texts[i], strlen(texts[i])) : 0;
	for (size_t i = 0; i < note->nr_extras && !err; i++)
		err = is_bytes(&note->extras[i]) ? 0 :
		      check_text(note->extras[i].data, note->extras[i].bytes);
	return err;
}

/* Of what the block that begins with token @first depends on. */
static bool touches(const struct kvmm_key_extra *extra, s64 first, u32 block_tokens)
{
	return extra->start < first + block_tokens && extra->start + extra->nr > first;
}

static void put_extra(const struct kvmm_key_extra *extra, s64 first, struct pack *pack)
{
	if (extra->kind == KVMM_KEY_MM)
		pack_array(pack, 2);
	if (is_bytes(extra))
		pack_bin(pack, extra->data, extra->bytes);
	else
		pack_text(pack, extra->data, extra->bytes);
	if (extra->kind == KVMM_KEY_MM)
		pack_int(pack, extra->start - first);
}

static void put_extras(const struct kvmm_publisher_note *note, u32 i, u32 block_tokens,
		       struct pack *pack)
{
	const char *salt = i || !note->salt || !*note->salt ? NULL : note->salt;
	s64 first = (s64)i * block_tokens;
	u32 nr = !!note->lora_name + !!salt;

	for (size_t e = 0; e < note->nr_extras; e++)
		nr += touches(&note->extras[e], first, block_tokens);
	if (!nr)
		return;
	pack_array(pack, nr);
	if (note->lora_name)
		pack_str(pack, note->lora_name);
	for (size_t e = 0; e < note->nr_extras; e++) {
		if (!touches(&note->extras[e], first, block_tokens))
			continue;
		if (salt && note->extras[e].kind > KVMM_KEY_SALT) {
			pack_str(pack, salt);
			salt = NULL;
		}
		put_extra(&note->extras[e], first, pack);
	}
	if (salt)
		pack_str(pack, salt);
}

int stash_note_pack(const struct kvmm_publisher_note *note, u32 i, u32 block_tokens, u8 *buf,
		    u32 room)
{
	struct note_head head = { .lora_id = note->lora_id };
	struct pack pack = { .buf = buf, .room = room };
	size_t texts;

	if (!note->lora_id && !note->lora_name && !note->session_id && !note->salt &&
	    !note->nr_extras)
		return 0;
	head.name_bytes = note->lora_name ? strlen(note->lora_name) + 1 : 0;
	head.session_bytes = note->session_id ? strlen(note->session_id) + 1 : 0;
	pack_raw(&pack, &head, sizeof(head));
	pack_raw(&pack, note->lora_name, head.name_bytes);
	pack_raw(&pack, note->session_id, head.session_bytes);
	texts = pack.len;
	put_extras(note, i, block_tokens, &pack);
	head.extra_bytes = pack.len - texts;
	if (pack.full)
		return -ENOSPC;
	memcpy(buf, &head, sizeof(head));
	return pack.len;
}

void stash_note_read(const u8 *buf, u32 bytes, struct kvmm_wire_block *block)
{
	struct note_head head;

	if (!bytes)
		return;
	memcpy(&head, buf, sizeof(head));
	buf += sizeof(head);
	block->lora_id = head.lora_id;
	block->lora_name = head.name_bytes ? (const char *)buf : NULL;
	buf += head.name_bytes;
	block->session_id = head.session_bytes ? (const char *)buf : NULL;
	buf += head.session_bytes;
	block->extra_keys = head.extra_bytes ? buf : NULL;
	block->extra_bytes = head.extra_bytes;
}
