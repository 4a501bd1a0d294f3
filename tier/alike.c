// SPDX-License-Identifier: Apache-2.0
/*
 * What is below, as ranks that decide alike see it.
 *
 * Each rank has a store of its own, which is through with a transfer at a moment of its own, loses
 * what it likes, and fails where others do not. So none is asked: what was written is remembered
 * here when all ranks are told of it, by the same calls on each, and that is what look-ups find. A
 * store that has lost such a name fails the load, on all ranks; the name is gone then.
 *
 * Names stand in sets of a few, by fingerprint; the oldest of a set makes room. One that is older
 * than the store has room for is none: it is not there any more, most likely.
 */
#include <kv/mem.h>

#include "below.h"

#define MAX_NAMES	(1u << 26)
#define SOME_NAMES	(1u << 16)	/* of a store that does not say how long it is */

/* ---- as many as the store has room for ---- */

static u64 room_of(const struct kvmm_tier *tier, u64 record_bytes)
{
	const struct below *below = tier->below;
	struct kvmm_disk_stat stat = { .size = sizeof(stat) };
	u64 pages = 1 + (record_bytes + KVMM_DISK_PAGE - 1) / KVMM_DISK_PAGE, nr;

	if (!below->ops->glance)
		return SOME_NAMES;
	below->ops->glance(below->store, &stat);
	/* One segment is being filled, and one is about to be. */
	nr = max(stat.nr_segments, 3ull) - 2;
	nr *= stat.segment_bytes / (pages * KVMM_DISK_PAGE);
	return min(max(nr, 1ull), (u64)MAX_NAMES);
}

struct alike *alike_make(const struct kvmm_tier *tier, u64 seed, u64 record_bytes)
{
	struct alike *alike = kv_alloc(sizeof(*alike));

	if (!alike)
		return NULL;
	alike->seed = seed;
	alike->max_names = room_of(tier, record_bytes);
	/* Twice the room, so that a set is full of newer ones rarely. */
	alike->nr_sets = 1u << kv_order(max(2 * alike->max_names / ALIKE_SET, 1ull));
	alike->name = kv_alloc_array(alike->nr_sets, ALIKE_SET * sizeof(*alike->name));
	if (alike->name)
		return alike;
	kv_free(alike);
	return NULL;
}

void alike_free(struct alike *alike)
{
	if (!alike)
		return;
	kv_free(alike->name);
	kv_free(alike);
}

u64 alike_bytes(const struct alike *alike)
{
	return sizeof(*alike) + (u64)alike->nr_sets * ALIKE_SET * sizeof(*alike->name);
}

/* ---- names ---- */

static struct alike_name name_of(const struct alike *alike, const struct kv_tier_name *name)
{
	u64 rest = kv_mul_fold(kv_domain_word(name->domain) ^ 0x9e3779b97f4a7c15ull,
			       name->layout ^ 0xd6e8feb86659fd93ull);

	return (struct alike_name){ { kv_hash_key(&name->key, alike->seed ^ rest),
				      kv_hash_key(&name->key, ~(alike->seed + rest)) }, 0 };
}

static bool is_there(const struct alike *alike, const struct alike_name *name)
{
	return name->stamp && alike->nr_added - name->stamp < alike->max_names;
}

static struct alike_name *set_of(const struct alike *alike, const struct alike_name *name)
{
	return &alike->name[(name->fp[0] & (alike->nr_sets - 1)) * ALIKE_SET];
}

static struct alike_name *find(const struct alike *alike, const struct kv_tier_name *wanted)
{
	struct alike_name name = name_of(alike, wanted), *set = set_of(alike, &name);

	for (u32 i = 0; i < ALIKE_SET; i++)
		if (is_there(alike, &set[i]) && set[i].fp[0] == name.fp[0] &&
		    set[i].fp[1] == name.fp[1])
			return &set[i];
	return NULL;
}

static void add(struct alike *alike, const struct kv_tier_name *wanted)
{
	struct alike_name name = name_of(alike, wanted), *set = set_of(alike, &name);
	struct alike_name *found = find(alike, wanted), *oldest = set;

	for (u32 i = 1; i < ALIKE_SET; i++)
		if (set[i].stamp < oldest->stamp)
			oldest = &set[i];
	name.stamp = ++alike->nr_added;
	*(found ? found : oldest) = name;
}

int kv_tier_recall(struct kv_tier_client *client, const struct kvmm_prefix *prefix)
{
	struct kvmm_tier *tier = client->tier;

	if (!alike_of(tier))
		return -EOPNOTSUPP;
	kv_assert_not_held(&tier->lock);
	/* The first is the last to be forgotten. */
	for (u32 i = prefix->nr; i-- > 0;) {
		kv_lock(&tier->lock);
		add(alike_of(tier), &(struct kv_tier_name){ .key = prefix->keys[i],
							    .domain = prefix->domain,
							    .layout = client->layout });
		kv_unlock(&tier->lock);
	}
	return 0;
}

bool alike_has(struct kvmm_tier *tier, const struct kv_tier_name *name)
{
	bool has;

	kv_lock(&tier->lock);
	has = find(alike_of(tier), name);
	kv_unlock(&tier->lock);
	return has;
}

bool alike_drop(struct kvmm_tier *tier, const struct kv_tier_name *name)
{
	struct alike_name *found;

	kv_lock(&tier->lock);
	found = find(alike_of(tier), name);
	if (found)
		found->stamp = 0;
	kv_unlock(&tier->lock);
	return found;
}

void alike_clear(struct kvmm_tier *tier)
{
	struct alike *alike = alike_of(tier);

	kv_lock(&tier->lock);
	memset(alike->name, 0, (u64)alike->nr_sets * ALIKE_SET * sizeof(*alike->name));
	kv_unlock(&tier->lock);
}

/* A name that was forgotten meanwhile has no slot that is READY, or is not here any more. */
void alike_settle(struct kvmm_tier *tier, const struct below_io *io, int error)
{
	struct alike *alike = alike_of(tier);
	struct alike_name *found;

	kv_assert_held(&tier->lock);
	if (likely(!alike))
		return;
	found = find(alike, &io->io.name);
	if (io->kind == BELOW_GET && error && found)
		found->stamp = 0;
	else if (!error && (found || (io->kind == BELOW_PUT &&
				      slot_at(tier, io->slot.index)->state == SLOT_READY)))
		add(alike, &io->io.name);
}

int alike_check(const struct kvmm_tier *tier)
{
	const struct alike *alike = alike_of(tier);
	const struct below *below = tier->below;

	kv_assert_held(&tier->lock);
	if (!alike)
		return 0;
	for (u32 i = 0; i < alike->nr_sets * ALIKE_SET; i++)
		if (alike->name[i].stamp > alike->nr_added ||
		    (alike->name[i].stamp &&
		     set_of(alike, &alike->name[i]) != &alike->name[i - i % ALIKE_SET]))
			return -EUCLEAN;
	for (u32 i = 0; i < below->max_put + below->max_get && alike->all; i++)
		if (below->io[i].kind != BELOW_FREE && !below->io[i].is_done &&
		    !completion_is_sound(alike->all, &below->io[i].completion))
			return -EUCLEAN;
	return 0;
}
