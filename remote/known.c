// SPDX-License-Identifier: Apache-2.0
/*
 * What the server was found to have, for a while, as a look-up cannot wait for its answer; and
 * names that were deleted, until the server has said that it knows. A hint that is wrong costs a
 * load that misses; one that had to go for others, a question more. It is no index: it does not
 * grow.
 */
#include <string.h>

#include <kv/entry.h>
#include <kv/hash.h>

#include "internal.h"

static struct known_name known_name(const struct kv_tier_name *name)
{
	struct known_name known = { .domain = kv_domain_word(name->domain),
				    .layout = name->layout };

	memcpy(known.key, &name->key, sizeof(known.key));
	return known;
}

static bool is_same(const struct known_name *a, const struct known_name *b)
{
	return a->key[0] == b->key[0] && a->key[1] == b->key[1] && a->domain == b->domain &&
	       a->layout == b->layout;
}

static struct known_name *set_of(const struct remote_known *known, const struct known_name *name)
{
	u64 hash = kv_mix_key(name->key, known->seed);

	hash = kv_hash_mix(hash ^ kv_mul_fold(name->domain ^ known->seed, ~name->layout),
			   known->seed);
	return &known->name[(hash & (KNOWN_SETS - 1)) * KNOWN_SET];
}

static struct known_name *find(const struct remote_known *known, const struct known_name *wanted)
{
	struct known_name *set = set_of(known, wanted);

	for (u32 i = 0; i < KNOWN_SET; i++)
		if (set[i].state != KNOWN_NOT && is_same(&set[i], wanted))
			return &set[i];
	return NULL;
}

enum known_state known_of(const struct remote_known *known, const struct kv_tier_name *name,
			  u64 now_ns)
{
	struct known_name wanted = known_name(name);
	const struct known_name *there = find(known, &wanted);

	return there && (there->state == KNOWN_GONE || there->until_ns > now_ns) ? there->state :
										    KNOWN_NOT;
}

/* A free one, or the one that goes first. */
static struct known_name *make_room(struct known_name *set)
{
	struct known_name *best = NULL;

	for (u32 i = 0; i < KNOWN_SET; i++) {
		if (set[i].state == KNOWN_NOT)
			return &set[i];
		if (set[i].state != KNOWN_GONE && (!best || set[i].until_ns < best->until_ns))
			best = &set[i];
	}
	return best;
}

bool known_note(struct remote_known *known, const struct kv_tier_name *name,
		enum known_state state, u64 until_ns)
{
	struct known_name wanted = known_name(name);
	struct known_name *there = find(known, &wanted);

	if (there && there->state == KNOWN_GONE)
		return state == KNOWN_GONE;
	if (!there)
		there = make_room(set_of(known, &wanted));
	if (!there)
		return false;
	*there = wanted;
	there->state = state;
	there->until_ns = until_ns;
	known->nr_gone += state == KNOWN_GONE;
	return true;
}

void known_deleted(struct remote_known *known, const struct kv_tier_name *name)
{
	struct known_name wanted = known_name(name);
	struct known_name *there = find(known, &wanted);

	if (KV_BUG_ON(!there || there->state != KNOWN_GONE))
		return;
	there->state = KNOWN_NOT;
	known->nr_gone--;
}

void known_clear(struct remote_known *known)
{
	for (u32 i = 0; i < KNOWN_SETS * KNOWN_SET; i++)
		if (known->name[i].state != KNOWN_GONE)
			known->name[i].state = KNOWN_NOT;
}
