// SPDX-License-Identifier: Apache-2.0
/*
 * Ghosts, refaults, and the settings that adapt to them: see thrash.h.
 *
 * A name that has been used, evicted and filled again is worth a copy as much as one that was hit:
 * counting uses of blocks only sees no second one wherever the device is small, and that is where a
 * tier below helps most.
 */
#include <kv/env.h>
#include <kv/hash.h>
#include <kv/mem.h>

#include "thrash.h"
#include "tier.h"

#define GHOSTS_MIN	(1u << 16)
#define GHOSTS_MAX	(1u << 22)
#define SET_NR		8u	/* ghosts of a set: a cache line */

#define TAG_SHIFT	38u
#define LOADED		BIT64(37)
#define DROPPED		BIT64(36)
#define USES_SHIFT	32u
#define USES_MAX	15u

/* ---- ghosts ---- */

static u32 ghost_uses(u64 word)
{
	return word >> USES_SHIFT & USES_MAX;
}

static u64 make_ghost(u64 hash, u32 uses, u32 fills)
{
	kv_assert(uses && uses <= USES_MAX);
	return hash >> TAG_SHIFT << TAG_SHIFT | (u64)uses << USES_SHIFT | fills;
}

static u64 hash_of(const struct thrash *thrash, const kvmm_key_t *key, kvmm_domain_t domain)
{
	return kv_hash_key(key, thrash->secret ^ kv_domain_word(domain) * 0x9e3779b97f4a7c15ull);
}

/* That of the name, else the one that has been there longest. */
static u64 *find_ghost(const struct thrash *thrash, u64 hash, bool *found)
{
	u64 *set = &thrash->ghost[(hash & (thrash->nr_sets - 1)) * SET_NR], *oldest = set;
	u32 now = READ_ONCE(thrash->fills), age = 0;

	kv_assert(thrash->nr_sets);
	for (u32 i = 0; i < SET_NR; i++) {
		u64 word = READ_ONCE(set[i]);	/* relaxed: statistics */
		u32 since = ghost_uses(word) ? now - (u32)word : UINT32_MAX;

		*found = ghost_uses(word) && word >> TAG_SHIFT == hash >> TAG_SHIFT;
		if (*found)
			return &set[i];
		if (since >= age) {
			age = since;
			oldest = &set[i];
		}
	}
	return oldest;
}

static void count_refault(struct lower *lower, u64 ghost, u32 fills)
{
	struct thrash *thrash = &lower->thrash;
	u64 *refaults = lower->stat.refaults;
	u32 level = KVMM_TIER_DEVICE, distance = fills - (u32)ghost;
	/* Dropped blocks would have gone anyway, when the blocks kept free had been filled. */
	u32 nr_kept_free = (u64)thrash->capacity[KVMM_TIER_DEVICE] *
			   (1000 - READ_ONCE(lower->config.low_pm)) / 1000;

	kv_assert_reading();
	while (level < KVMM_TIER_DISK && distance >= thrash->capacity[level])
		level++;
	if (ghost & DROPPED && distance < nr_kept_free)
		WRITE_ONCE(thrash->nr_back, READ_ONCE(thrash->nr_back) + 1);
	WRITE_ONCE(refaults[level], READ_ONCE(refaults[level]) + 1);
}

/* ---- admission ---- */

#define ADMIT_WINDOW	2048u	/* names that reach the threshold; half were in the last one */
#define RAISE_BELOW	4u	/* eighths of these, halved: a quarter */
#define LOWER_ABOVE	6u	/* the same: three eighths */

static bool is_fixed(const struct lower *lower)
{
	return READ_ONCE(lower->config.flags) & KVMM_TIER_FIXED;
}

/*
 * A name has now so many uses: each number is reached once, but for forgotten ones. A window ends
 * when enough of them have reached the threshold.
 */
static void note_uses(struct lower *lower, u32 uses)
{
	struct thrash *thrash = &lower->thrash;
	u32 touches = READ_ONCE(lower->config.touches);
	u32 reached = READ_ONCE(thrash->nr_reached), beyond = READ_ONCE(thrash->nr_beyond);

	kv_assert_reading();
	if (uses == touches + 1)
		WRITE_ONCE(thrash->nr_beyond, beyond + 1);
	if (uses != touches)
		return;
	WRITE_ONCE(thrash->nr_reached, ++reached);
	if (reached < ADMIT_WINDOW)
		return;
	WRITE_ONCE(thrash->nr_reached, reached / 2);
	WRITE_ONCE(thrash->nr_beyond, beyond / 2);
	if (!READ_ONCE(thrash->more) && (u64)beyond * 16 < (u64)reached * RAISE_BELOW) {
		WRITE_ONCE(thrash->more, 1);
		WRITE_ONCE(lower->stat.raised, READ_ONCE(lower->stat.raised) + 1);
	} else if (READ_ONCE(thrash->more) && (u64)beyond * 16 > (u64)reached * LOWER_ABOVE) {
		WRITE_ONCE(thrash->more, 0);
	}
}

u32 thrash_touches(const struct lower *lower)
{
	u32 touches = READ_ONCE(lower->config.touches);

	return touches + (is_fixed(lower) || touches == USES_MAX ? 0 :
			  READ_ONCE(lower->thrash.more));
}

/* ---- loops ---- */

#define LOOP_WINDOW	256u	/* loads */
#define LOOP_REACH	2u	/* times the device */

/* Loaded before, not used, gone, and loaded again: a device not much larger would have kept it. */
static void count_load(struct thrash *thrash, u64 ghost, u32 fills)
{
	u32 distance = fills - (u32)ghost, nr = READ_ONCE(thrash->nr_loads) + 1;
	u32 idle = READ_ONCE(thrash->nr_idle);

	kv_assert_reading();
	idle += ghost & LOADED && distance < LOOP_REACH * thrash->capacity[KVMM_TIER_DEVICE];
	if (nr == LOOP_WINDOW) {
		bool was = READ_ONCE(thrash->is_looping);

		WRITE_ONCE(thrash->is_looping, was ? idle * 4 >= nr : idle * 2 > nr);
		nr = idle = 0;
	}
	WRITE_ONCE(thrash->nr_loads, nr);
	WRITE_ONCE(thrash->nr_idle, idle);
}

void thrash_loaded(struct lower *lower, struct kv_handle handle)
{
	struct thrash *thrash = &lower->thrash;

	kv_assert_held(&lower->lock);
	if (READ_ONCE(thrash->is_looping) && !is_fixed(lower) && ++thrash->nr_looped % 2 == 0)
		thrash_stay(lower, handle);
}

u32 thrash_leave(struct lower *lower, struct kv_handle *handles, u32 max)
{
	struct thrash *thrash = &lower->thrash;
	u32 nr;

	kv_assert_not_held(&lower->lock);
	kv_lock(&lower->lock);
	nr = min(thrash->nr_leaving, max);
	memcpy(handles, thrash->leaving, nr * sizeof(*handles));
	WRITE_ONCE(thrash->nr_leaving, thrash->nr_leaving - nr);
	memmove(thrash->leaving, thrash->leaving + nr, thrash->nr_leaving * sizeof(*handles));
	kv_unlock(&lower->lock);
	return nr;
}

void thrash_stay(struct lower *lower, struct kv_handle handle)
{
	struct thrash *thrash = &lower->thrash;

	kv_assert_held(&lower->lock);
	if (thrash->nr_leaving == LEAVING_MAX)
		return;
	thrash->leaving[thrash->nr_leaving] = handle;
	WRITE_ONCE(thrash->nr_leaving, thrash->nr_leaving + 1);
}

u32 thrash_filled(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain, bool is_load)
{
	struct thrash *thrash = &lower->thrash;
	u64 hash = hash_of(thrash, key, domain);
	u32 fills = READ_ONCE(thrash->fills) + 1, uses = 1;
	bool found;
	u64 *ghost = find_ghost(thrash, hash, &found);

	kv_assert_reading();
	if (found) {
		count_refault(lower, READ_ONCE(*ghost), fills);
		uses = min(ghost_uses(READ_ONCE(*ghost)) + 1, USES_MAX);
	}
	if (is_load)
		count_load(thrash, found ? READ_ONCE(*ghost) : 0, fills);
	WRITE_ONCE(thrash->fills, fills);
	WRITE_ONCE(*ghost, make_ghost(hash, uses, fills) | (is_load ? LOADED : 0));
	note_uses(lower, uses);
	return uses;
}

void thrash_used(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain, u32 uses)
{
	struct thrash *thrash = &lower->thrash;
	u64 hash = hash_of(thrash, key, domain);
	bool found;
	u64 *ghost = find_ghost(thrash, hash, &found);

	kv_assert_reading();
	WRITE_ONCE(*ghost, make_ghost(hash, min(uses, USES_MAX), READ_ONCE(thrash->fills)));
	note_uses(lower, uses);
}

/* ---- drops ---- */

#define DROP_WINDOW	64u
#define PAUSE_MAX	64u	/* times the first one */

void thrash_dropped(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain)
{
	struct thrash *thrash = &lower->thrash;
	u64 hash = hash_of(thrash, key, domain);
	bool found;
	u64 *ghost = find_ghost(thrash, hash, &found);
	u32 uses = found ? ghost_uses(READ_ONCE(*ghost)) : 1;

	kv_assert_held(&lower->lock);
	WRITE_ONCE(*ghost, make_ghost(hash, uses, READ_ONCE(thrash->fills)) | DROPPED);
	if (++thrash->nr_dropped < DROP_WINDOW)
		return;
	if (!thrash->is_thrashing && READ_ONCE(thrash->nr_back) * 4 > thrash->nr_dropped) {
		u64 first = max(lower->config.reload_ns, 1ull) * 4, now = kv_tier_now(lower->tier);
		bool again = thrash->pause_ns && now - thrash->calm_ns < thrash->pause_ns;

		/* Soon after the last one: that pause was of no avail. */
		thrash->pause_ns = again ? min(thrash->pause_ns * 2, first * PAUSE_MAX) : first;
		thrash->calm_ns = now + thrash->pause_ns;
		lower->stat.episodes++;
		WRITE_ONCE(thrash->is_thrashing, true);
	}
	thrash->nr_dropped = 0;
	WRITE_ONCE(thrash->nr_back, 0);
}

bool thrash_spares(struct lower *lower)
{
	struct thrash *thrash = &lower->thrash;

	kv_assert_held(&lower->lock);
	/* While nothing is dropped nothing comes back: only a trial tells whether it would. */
	if (thrash->is_thrashing && kv_tier_now(lower->tier) >= thrash->calm_ns) {
		thrash->nr_dropped = 0;
		WRITE_ONCE(thrash->nr_back, 0);
		WRITE_ONCE(thrash->is_thrashing, false);
	}
	if (!thrash->is_thrashing || is_fixed(lower))
		return false;
	lower->stat.spared++;
	return true;
}

u32 thrash_max_up(const struct lower *lower)
{
	kv_assert_held(&lower->lock);
	return lower->thrash.is_thrashing && !is_fixed(lower) ? max(lower->max_up / 2, 1u) :
								lower->max_up;
}

/* ---- the whole ---- */

int thrash_init(struct kvmm_pool *pool, struct lower *lower)
{
	struct thrash *thrash = &lower->thrash;
	struct kvmm_tier_stat stat;
	int err = kvmm_tier_get_stat(lower->tier, &stat, sizeof(stat));
	u64 nr;

	if (err)
		return err;
	nr = min(2 * ((u64)pool->nr_blocks + stat.units), (u64)GHOSTS_MAX);
	thrash->capacity[KVMM_TIER_DEVICE] = pool->nr_blocks;
	thrash->capacity[KVMM_TIER_HOST] = stat.units;
	thrash->nr_sets = (1u << kv_order(max(nr, (u64)GHOSTS_MIN))) / SET_NR;
	/* Where all else is the same in each run, so are names that share a set. */
	thrash->secret = kv_tier_is_told(lower->tier) || pool->deterministic ? 0 : lower->secret;
	thrash->ghost = kv_alloc_lines(thrash->nr_sets * SET_NR, sizeof(*thrash->ghost));
	return thrash->ghost ? 0 : -ENOMEM;
}

void thrash_exit(struct lower *lower)
{
	kv_free(lower->thrash.ghost);
}

u64 thrash_bytes(const struct thrash *thrash)
{
	return (u64)thrash->nr_sets * SET_NR * sizeof(*thrash->ghost);
}

bool thrash_is_sound(const struct lower *lower)
{
	const struct thrash *thrash = &lower->thrash;
	u64 nr_found = 0;

	kv_assert_held(&lower->lock);
	for (u32 i = 0; i < thrash->nr_sets * SET_NR; i++)
		nr_found += !ghost_uses(READ_ONCE(thrash->ghost[i])) && READ_ONCE(thrash->ghost[i]);
	return !nr_found && READ_ONCE(thrash->more) <= 1 &&
	       thrash->nr_leaving <= LEAVING_MAX && thrash->nr_dropped < DROP_WINDOW &&
	       (!thrash->is_thrashing || lower->stat.episodes) &&
	       !lower->stat.episodes == !thrash->pause_ns;
}
