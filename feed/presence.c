// SPDX-License-Identifier: Apache-2.0
/*
 * News of this pool for a registry of prefixes, of which it is one of the tiers.
 *
 * The registry calls hooks of the engine's, so it is told when no lock is held. Blocks are present
 * from kvmm_publish() on: its caller has a reference until it returns, so a block cannot be gone
 * before it was present. It may be renamed by then: PRESENCE_UNTOLD. Names that are forgotten under
 * the pool's lock wait in ->gone until that has been given back. Each caller that names blocks
 * tells of those that wait first. So there is room for each name once, and an eighth for those that
 * other threads name meanwhile. Room for added names comes with them.
 */
#include <kv/mem.h>
#include <pool/internal.h>

#define BATCH	32u

/* Bits of ->mark. The publisher has not told the first name yet; or that has gone before. */
#define PRESENCE_UNTOLD	2u
#define PRESENCE_LATE	4u

/* A name that is gone. */
struct gone {
	kvmm_key_t key;
	kvmm_domain_t domain;
	u32 position;
};

static_assert(sizeof(struct gone) == 28, "no padding to pay for twice a block");

extern const struct pool_part presence_part;

/* So many names there may be: 0, or -ENOMEM. It only grows. */
static int presence_room(struct kvmm_pool *pool, u32 nr_names)
{
	struct pool_presence *presence = &pool->presence;
	u64 room = nr_names + (u64)nr_names / 8 + BATCH;
	struct gone *gone, *old = presence->gone;

	if (room <= presence->room)
		return 0;
	gone = kv_alloc_array(room, sizeof(*gone));
	if (!gone)
		return -ENOMEM;
	kv_lock(&pool->lock);
	kv_assert(presence->nr_gone <= presence->room);
	if (presence->nr_gone)
		memcpy(gone, old, presence->nr_gone * sizeof(*gone));
	presence->gone = gone;
	pool->metadata_bytes += (room - presence->room) * sizeof(*gone);
	presence->room = room;
	pool_leave(pool);
	kv_free(old);
	return 0;
}

static int presence_init(struct kvmm_pool *pool, const struct kvmm_pool_attr *attr)
{
	struct pool_presence *presence = &pool->presence;

	if (!attr->registry)
		return attr->tier ? -EINVAL : 0;
	if (!pool->caches || !kv_radix_has_tier(attr->registry, attr->tier))
		return -EINVAL;
	presence->parent = kv_alloc_array(pool->nr_blocks, sizeof(*presence->parent));
	presence->mark = kv_alloc_array(pool->nr_blocks, sizeof(*presence->mark));
	if (!presence->parent || !presence->mark || presence_room(pool, pool->nr_blocks))
		return -ENOMEM;
	presence->reg = attr->registry;
	presence->tier = attr->tier;
	pool->metadata_bytes += (u64)pool->nr_blocks * (sizeof(*presence->parent) +
							sizeof(*presence->mark));
	pool_observe(pool, &presence_part);
	return 0;
}

/* ---- names ---- */

static struct kv_radix_name name_of(const struct kvmm_pool *pool, u32 index)
{
	const struct pool_presence *presence = &pool->presence;
	const struct kv_entry *entry = entry_at(pool, index);
	struct kv_radix_name name = {
		.key		= kv_entry_key(entry),
		.domain		= kv_entry_domain(entry),
		.position	= READ_ONCE(entry->position),
		.has_parent	= !kv_name_is_added(&pool->entries, index) &&
				  READ_ONCE(presence->mark[index]) & PRESENCE_PARENT,
	};

	if (name.has_parent)
		name.parent = presence->parent[index];
	return name;
}

/* ---- present ---- */

static void presence_staged(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
			    const struct kv_handle *handles)
{
	struct pool_presence *presence = &pool->presence;

	for (u32 i = 0; i < prefix->nr; i++) {
		const kvmm_key_t *parent = i ? &prefix->keys[i - 1] : prefix->parent;

		kv_assert(handles[i].index < pool->entries.nr);
		if (parent)
			presence->parent[handles[i].index] = *parent;
		WRITE_ONCE(presence->mark[handles[i].index],
			   PRESENCE_UNTOLD | (parent ? PRESENCE_PARENT : 0));
	}
}

/* A mark that is @from is @to instead; false: it was not. Acquire and release. */
static bool mark_swap(struct kvmm_pool *pool, u32 index, u8 from, u8 to)
{
	u8 *mark = &pool->presence.mark[index], old = READ_ONCE(*mark);

	kv_assert(index < pool->entries.nr);
	do
		if (!(old & from))
			return false;
	while (!kv_cas(mark, &old, (u8)((old & ~from) | to)));
	return true;
}

/* Those that were renamed since their names were read are told to be gone as well. */
static void tell_present(struct kvmm_pool *pool, const struct kv_radix_name *names,
			 const u32 *indexes, u32 nr)
{
	const struct pool_presence *presence = &pool->presence;

	kv_assert(nr <= BATCH);
	kv_radix_present(presence->reg, presence->tier, names, nr);
	for (u32 i = 0; i < nr; i++)
		if (unlikely(!mark_swap(pool, indexes[i], PRESENCE_UNTOLD, 0)) &&
		    mark_swap(pool, indexes[i], PRESENCE_LATE, 0))
			kv_radix_absent(presence->reg, presence->tier, &names[i], 1);
}

static void presence_published(struct kvmm_pool *pool, const struct kv_handle *handles,
			       const struct kv_handle *found, u32 nr)
{
	struct kv_radix_name names[BATCH];
	u32 indexes[BATCH], nr_names = 0, nr_new = 0;

	kv_assert_not_held(&pool->lock);
	for (u32 i = 0; i < nr; i++) {
		u32 index = handles[i].index;

		if (index != found[i].index)
			continue;
		names[nr_names] = name_of(pool, index);
		/* Pairs with presence_removed(): then it is not half of the next name. */
		if (unlikely(!mark_swap(pool, index, PRESENCE_UNTOLD, PRESENCE_UNTOLD))) {
			mark_swap(pool, index, PRESENCE_LATE, 0);
			continue;
		}
		indexes[nr_names++] = index;
		nr_new++;
		if (nr_names < BATCH)
			continue;
		tell_present(pool, names, indexes, nr_names);
		nr_names = 0;
	}
	tell_present(pool, names, indexes, nr_names);
	kv_radix_unreserve(pool->presence.reg, nr - nr_new);
}

/* ---- absent ---- */

static void gone(struct kvmm_pool *pool, const struct kv_radix_name *name)
{
	struct pool_presence *presence = &pool->presence;

	kv_assert_held(&pool->lock);
	if (unlikely(presence->nr_gone == presence->room)) {
		/* Other threads named and forgot as many: better under a lock than not at all. */
		kv_radix_absent(presence->reg, presence->tier, name, 1);
		return;
	}
	presence->gone[presence->nr_gone] = (struct gone){
		name->key, name->domain, name->position,
	};
	WRITE_ONCE(presence->nr_gone, presence->nr_gone + 1);
}

static void presence_removed(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr; i++) {
		struct kv_radix_name name = name_of(pool, handles[i].index);

		if (!mark_swap(pool, handles[i].index, PRESENCE_UNTOLD, PRESENCE_LATE))
			gone(pool, &name);
	}
}

/* ---- names of registered blocks, without parents ---- */

static void presence_naming(struct kvmm_pool *pool, const struct kv_handle *handles,
			    const struct kvmm_name *names, u32 nr)
{
	kv_assert_not_held(&pool->lock);
	for (u32 i = 0; i < nr; i++) {
		struct kv_radix_name name = { .key = names[i].key, .domain = names[i].domain,
					      .position = names[i].position };

		kv_radix_present(pool->presence.reg, pool->presence.tier, &name, 1);
	}
}

static void presence_unnamed(struct kvmm_pool *pool, u32 index)
{
	struct kv_radix_name name = name_of(pool, index);

	kv_assert_held(&pool->lock);
	gone(pool, &name);
}

static void presence_renamed(struct kvmm_pool *pool, struct kv_handle handle)
{
	kv_assert_held(&pool->compact_lock);
	mark_swap(pool, handle.index, PRESENCE_PARENT, 0);
}

/* At most BATCH of those that wait. */
static u32 take_gone(struct kvmm_pool *pool, struct kv_radix_name *names)
{
	struct pool_presence *presence = &pool->presence;
	u32 nr;

	kv_assert_not_held(&pool->lock);
	kv_lock(&pool->lock);
	for (nr = 0; nr < BATCH && presence->nr_gone; nr++) {
		const struct gone *gone = &presence->gone[presence->nr_gone - 1];

		names[nr] = (struct kv_radix_name){ .key = gone->key, .domain = gone->domain,
						    .position = gone->position };
		WRITE_ONCE(presence->nr_gone, presence->nr_gone - 1);
	}
	pool_leave(pool);
	return nr;
}

static void presence_settle(struct kvmm_pool *pool)
{
	struct kv_radix_name names[BATCH];
	u32 nr;

	kv_assert_not_held(&pool->lock);
	while (READ_ONCE(pool->presence.nr_gone) && (nr = take_gone(pool, names)))
		kv_radix_absent(pool->presence.reg, pool->presence.tier, names, nr);
}

/* ---- touched ---- */

static void presence_touched(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr)
{
	struct kv_radix_name names[BATCH];
	u32 nr_names = 0;

	kv_assert_not_held(&pool->lock);
	if (!kv_radix_wants_touches(pool->presence.reg))
		return;
	for (u32 i = 0; i < nr; i++) {
		if (refs[i].gen)
			names[nr_names++] = name_of(pool, refs[i].index);
		if (nr_names < BATCH && i + 1 < nr)
			continue;
		kv_radix_touch(pool->presence.reg, names, nr_names);
		nr_names = 0;
	}
}

/* ---- the end ---- */

static void presence_exit(struct kvmm_pool *pool)
{
	struct pool_presence *presence = &pool->presence;

	if (presence->reg)
		presence_settle(pool);
	for (u32 i = 0; presence->reg && i < pool->entries.top_name; i++) {
		struct kv_radix_name name = name_of(pool, i);
		u64 word = entry_at(pool, i)->word;

		if (!kv_word_is(word, KV_ENTRY_FREE) && !kv_name_is_out(&pool->entries, i))
			kv_radix_absent(presence->reg, presence->tier, &name, 1);
	}
	kv_free(presence->mark);
	kv_free(presence->parent);
	kv_free(presence->gone);
}

static const struct pool_observer observer = {
	.staged		= presence_staged,
	.published	= presence_published,
	.touched	= presence_touched,
	.removed	= presence_removed,
	.naming		= presence_naming,
	.unnamed	= presence_unnamed,
	.renamed	= presence_renamed,
	.room		= presence_room,
	.settle		= presence_settle,
};

POOL_PART(presence) = {
	.name	= "presence",
	.init	= presence_init,
	.exit	= presence_exit,
	.observer = &observer,
};
