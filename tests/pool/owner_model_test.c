// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls against a model of owners that shares no code with the pool.
 *
 * The model has a list of ranges, blocks and holds with what was said of each. After each call the walk
 * over everything must show exactly that, and now and then list_leaks() what the model thinks is
 * suspicious. KVMM_SEED and KVMM_MODEL_OPS choose the run.
 */
#include <kv/bits.h>
#include <kv/rcu.h>

#include "tests/pool/lease_util.h"
#include "tests/support/fake_env.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	48u
#define MAX_THINGS	96u
#define NR_OWNERS	4u		/* 1 to 4; 0 is nobody */

struct thing {
	u32 kind;			/* enum kvmm_lease_kind */
	u32 index, gen;
	u64 owner;
	u64 deadline_ns;
	bool reclaim;
	u32 raw_refs;			/* ranges: without those of holds */
	u32 raw_pins;
	struct thing *of;		/* holds: the range */
	bool live;
};

static struct fake_env fake;
static struct kvmm_pool *pool;
static struct thing things[MAX_THINGS];
static u32 next_key;

static struct thing *free_thing(void)
{
	for (u32 i = 0; i < MAX_THINGS; i++)
		if (!things[i].live)
			return &things[i];
	return NULL;
}

/* One of those kinds, a mask; or NULL. */
static struct thing *some(u32 kinds)
{
	u32 first = any(MAX_THINGS);

	for (u32 i = 0; i < MAX_THINGS; i++) {
		struct thing *thing = &things[(first + i) % MAX_THINGS];

		if (thing->live && kinds & BIT(thing->kind))
			return thing;
	}
	return NULL;
}

#define RANGES	BIT(KVMM_LEASED_RANGE)
#define MUTS	BIT(KVMM_LEASED_PRIVATE)
#define STAGED	BIT(KVMM_LEASED_STAGED)
#define HOLDS	(BIT(KVMM_LEASED_REFS) | BIT(KVMM_LEASED_PINS))

static bool is_hold_on(const struct thing *hold, const struct thing *range)
{
	return hold->live && hold->of == range && BIT(hold->kind) & HOLDS;
}

static u32 nr_holds_on(const struct thing *range, u64 owner, bool pins_only)
{
	u32 nr = 0;

	for (u32 i = 0; i < MAX_THINGS; i++)
		nr += is_hold_on(&things[i], range) && (!owner || things[i].owner == owner) &&
		      (!pins_only || things[i].kind == KVMM_LEASED_PINS);
	return nr;
}

static u32 nr_refs(const struct thing *range)
{
	return range->raw_refs + nr_holds_on(range, 0, false);
}

static u32 nr_pins(const struct thing *range)
{
	return range->raw_pins + nr_holds_on(range, 0, true);
}

static void disown(struct thing *thing)
{
	thing->owner = thing->deadline_ns = 0;
	thing->reclaim = false;
}

/* It may have been the last reference. */
static void settle(struct thing *range)
{
	if (!range->raw_refs)
		disown(range);
	if (!nr_refs(range))
		range->live = false;
}

/* ---- what is said of things ---- */

static struct kvmm_lease_attr any_own(void)
{
	struct kvmm_lease_attr own = KVMM_LEASE_ATTR_INIT;

	own.owner = any(NR_OWNERS + 1);
	if (own.owner && any(2))
		own.lease_ns = 1 + any(100);
	if (own.owner && any(2))
		own.flags = RECLAIM;
	return own;
}

static void say(struct thing *thing, const struct kvmm_lease_attr *own)
{
	thing->owner = own->owner;
	thing->deadline_ns = own->lease_ns ? fake.now_ns + own->lease_ns : 0;
	thing->reclaim = own->flags & RECLAIM;
}

static void new_range(void)
{
	struct kvmm_lease_attr own = any_own();
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any(3), .owner = own.owner,
					.lease_ns = own.lease_ns, .own_flags = own.flags };
	struct thing *thing = free_thing();
	kvmm_range_t range;

	if (!thing || kvmm_range_alloc_attr(pool, &attr, &range))
		return;
	*thing = (struct thing){ .kind = KVMM_LEASED_RANGE, .index = range.index, .gen = range.gen,
				 .raw_refs = 1, .live = true };
	say(thing, &own);
}

static void new_block(void)
{
	struct thing *thing = free_thing();
	kvmm_mut_t mut;

	if (!thing || kvmm_alloc(pool, 1, &mut))
		return;
	*thing = (struct thing){ .kind = KVMM_LEASED_PRIVATE, .index = mut.index, .gen = mut.gen,
				 .live = true };
}

static void new_hold(void)
{
	struct thing *range = some(RANGES), *thing = free_thing();
	struct kvmm_lease_attr own = any_own();
	struct kvmm_lease_attr attr;
	kvmm_lease_t hold;

	if (!range || !thing)
		return;
	attr = hold_attr_of(own.owner, own.lease_ns, (any(2) ? KVMM_LEASE_PIN : 0) | own.flags);
	cr_assert_eq(lease_range(pool, &attr, (kvmm_range_t){ range->index, range->gen },
				     &hold), 0);
	*thing = (struct thing){ .kind = attr.flags & KVMM_LEASE_PIN ? KVMM_LEASED_PINS :
								      KVMM_LEASED_REFS,
				 .index = hold.index, .gen = hold.gen, .of = range, .live = true };
	say(thing, &own);
}

static void name_thing(void)
{
	struct thing *thing = some(RANGES | MUTS | STAGED);
	struct kvmm_lease_attr own = any_own();
	kvmm_mut_t handle;		/* those of all kinds have one layout */
	int want = 0, err;

	if (!thing)
		return;
	handle = (kvmm_mut_t){ thing->index, thing->gen };
	err = kvmm_lease_own(pool, &own, thing->kind, &handle, 1);
	if (thing->kind == KVMM_LEASED_RANGE)
		want = thing->raw_refs ? 0 : -EINVAL;
	cr_assert_eq(err, want);
	if (!err)
		say(thing, &own);
}

/* ---- what becomes of them ---- */

static void put_range(void)
{
	struct thing *thing = some(RANGES);
	kvmm_range_t range;

	if (!thing || !thing->raw_refs)
		return;
	range = (kvmm_range_t){ thing->index, thing->gen };
	switch (any(5)) {
	case 0:
		cr_assert_eq(kvmm_range_get(pool, range), 0);
		thing->raw_refs++;
		break;
	case 1:
		cr_assert_eq(kvmm_range_pin(pool, range), 0);
		thing->raw_pins++;
		break;
	case 2:
		cr_assert_eq(kvmm_range_unpin(pool, range), nr_pins(thing) ? 0 : -EINVAL);
		/* The model does not unpin what holds have pinned. */
		if (thing->raw_pins)
			thing->raw_pins--;
		else if (nr_pins(thing))
			cr_assert_eq(kvmm_range_pin(pool, range), 0);
		break;
	default:
		if (nr_refs(thing) == 1 && nr_pins(thing)) {
			cr_assert_eq(kvmm_range_free(pool, range), -EBUSY);
			break;
		}
		cr_assert_eq(kvmm_range_free(pool, range), 0);
		thing->raw_refs--;
		settle(thing);
	}
}

static void step_block(void)
{
	struct thing *thing = some(MUTS | STAGED);
	kvmm_staged_t staged;
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	if (!thing)
		return;
	mut = (kvmm_mut_t){ thing->index, thing->gen };
	staged = (kvmm_staged_t){ thing->index, thing->gen };
	if (thing->kind == KVMM_LEASED_PRIVATE && any(2)) {
		stage_keys(pool, &mut, 1, next_key++, &staged);
		thing->kind = KVMM_LEASED_STAGED;
	} else if (thing->kind == KVMM_LEASED_PRIVATE) {
		cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
		thing->live = false;
	} else if (any(3) == 0) {
		cr_assert_eq(kvmm_unstage(pool, &staged, 1, &mut), 0);
		thing->kind = KVMM_LEASED_PRIVATE;
	} else if (any(2)) {
		cr_assert_eq(kv_free_staged(pool, &staged, 1), 0);
		thing->live = false;
	} else {
		struct kvmm_publish_args req = { .staged = &staged, .nr = 1, .refs = &ref };

		cr_assert_eq(kvmm_publish(pool, &req), 0);
		cr_assert_eq(kvmm_put_many(pool, &ref, 1), 0);
		thing->live = false;
	}
}

static bool hold_is_barred(const struct thing *hold)
{
	u32 pins = nr_pins(hold->of) - (hold->kind == KVMM_LEASED_PINS);

	return nr_refs(hold->of) == 1 && pins;
}

static void drop_hold(struct thing *hold)
{
	hold->live = false;
	settle(hold->of);
}

static void release_hold(void)
{
	struct thing *hold = some(HOLDS);
	int want;

	if (!hold)
		return;
	want = hold_is_barred(hold) ? -EBUSY : 0;
	cr_assert_eq(drop_lease(pool, (kvmm_lease_t){ hold->index, hold->gen }), want);
	if (!want)
		drop_hold(hold);
}

/* ---- what becomes of all of an owner ---- */

static bool release_is_barred(u64 owner)
{
	for (u32 i = 0; i < MAX_THINGS; i++) {
		const struct thing *range = &things[i];
		u32 refs, pins;

		if (!range->live || range->kind != KVMM_LEASED_RANGE)
			continue;
		refs = nr_holds_on(range, owner, false) + (range->owner == owner);
		pins = nr_holds_on(range, owner, true);
		if (refs && refs == nr_refs(range) && nr_pins(range) > pins)
			return true;
	}
	return false;
}

static void release_owner(void)
{
	u64 owner = 1 + any(NR_OWNERS);
	int ret = kvmm_lease_release(pool, owner, NULL), nr = 0;

	if (release_is_barred(owner)) {
		cr_assert_eq(ret, -EBUSY);
		return;
	}
	for (u32 i = 0; i < MAX_THINGS; i++)
		if (things[i].live && things[i].owner == owner && BIT(things[i].kind) & HOLDS) {
			things[i].live = false;
			nr++;
		}
	for (u32 i = 0; i < MAX_THINGS; i++) {
		struct thing *thing = &things[i];

		if (!thing->live)
			continue;
		if (thing->owner == owner) {
			nr++;
			if (thing->kind == KVMM_LEASED_RANGE)
				thing->raw_refs--;
			else
				thing->live = false;
			disown(thing);
		}
		if (thing->kind == KVMM_LEASED_RANGE)
			settle(thing);
	}
	cr_assert_eq(ret, nr);
}

static void renew_owner(void)
{
	u64 owner = 1 + any(NR_OWNERS), lease_ns = any(80);
	int nr = 0;

	for (u32 i = 0; i < MAX_THINGS; i++) {
		if (!things[i].live || things[i].owner != owner)
			continue;
		things[i].deadline_ns = lease_ns ? fake.now_ns + lease_ns : 0;
		nr++;
	}
	cr_assert_eq(kvmm_lease_renew(pool, owner, NULL, lease_ns), nr);
}

static bool is_expired(const struct thing *thing)
{
	return thing->live && thing->deadline_ns && thing->deadline_ns <= fake.now_ns;
}

/* Ranges first, as the walk does; what a hold keeps has one reference more then. */
static void expire_kind(u32 kinds, struct kvmm_lease_expired *want)
{
	for (u32 i = 0; i < MAX_THINGS; i++) {
		struct thing *thing = &things[i];
		bool is_hold = BIT(thing->kind) & HOLDS, is_range = BIT(thing->kind) & RANGES;

		if (!is_expired(thing) || !(BIT(thing->kind) & kinds))
			continue;
		if (!thing->reclaim) {
			want->nr_left++;
		} else if (is_hold ? hold_is_barred(thing) :
				     is_range && nr_refs(thing) == 1 && nr_pins(thing)) {
			want->nr_busy++;
		} else {
			want->nr_reclaimed++;
			if (is_hold) {
				drop_hold(thing);
				continue;
			}
			disown(thing);
			if (is_range) {
				thing->raw_refs--;
				settle(thing);
			} else {
				thing->live = false;
			}
		}
	}
}

/* Of two holds that both could be the last, either may be. So only one at a time expires here. */
static bool is_ambiguous(void)
{
	for (u32 i = 0; i < MAX_THINGS; i++) {
		u32 nr = 0;

		for (u32 k = 0; k < MAX_THINGS; k++)
			nr += is_hold_on(&things[k], &things[i]) && is_expired(&things[k]) &&
			      things[k].reclaim;
		if (things[i].live && nr > 1 && things[i].raw_pins)
			return true;
	}
	return false;
}

static void expire(void)
{
	struct kvmm_lease_expired want = { 0 }, got;

	fake_env_advance(&fake, any(40));
	if (is_ambiguous())
		return;
	expire_kind(RANGES | MUTS | STAGED, &want);
	expire_kind(HOLDS, &want);
	cr_assert_eq(kvmm_lease_expire(pool, 0, &got), want.nr_reclaimed);
	cr_assert(!memcmp(&got, &want, sizeof(got)), "%u %u %u, not %u %u %u", got.nr_reclaimed,
		  got.nr_busy, got.nr_left, want.nr_reclaimed, want.nr_busy, want.nr_left);
}

/* ---- comparing ---- */

static const struct thing *find_thing(const struct kvmm_lease_info *row)
{
	for (u32 i = 0; i < MAX_THINGS; i++)
		if (things[i].live && things[i].kind == row->kind &&
		    things[i].index == row->index && things[i].gen == row->gen)
			return &things[i];
	return NULL;
}

static u32 nr_things(void)
{
	u32 nr = 0;

	for (u32 i = 0; i < MAX_THINGS; i++)
		nr += things[i].live;
	return nr;
}

static void compare(void)
{
	struct kvmm_lease_info row;
	u64 cursor = 0;
	u32 nr;

	for (nr = 0; !next_leased(pool, NULL, &cursor, &row); nr++) {
		const struct thing *thing = find_thing(&row);

		cr_assert(thing, "a %s %u of %llu", kvmm_lease_kind_name(row.kind), row.index,
			  (unsigned long long)row.owner);
		cr_assert_eq(row.owner, thing->owner);
		cr_assert_eq(row.deadline_ns, thing->deadline_ns);
		if (row.kind != KVMM_LEASED_RANGE)
			continue;
		cr_assert_eq(row.refs, nr_refs(thing));
		cr_assert_eq(row.pins, nr_pins(thing));
	}
	cr_assert_eq(nr, nr_things());
}

static void compare_leaks(void)
{
	u32 want = 0;

	for (u32 i = 0; i < MAX_THINGS; i++)
		want += is_expired(&things[i]);
	cr_assert_eq(list_leaks(pool, NULL, NULL, 0), want);
}

static void (*const calls[])(void) = {
	new_range, new_range, new_block, new_block, new_hold, name_thing, put_range, put_range,
	step_block, step_block, release_hold, release_owner, renew_owner, expire,
};

Test(owner_model, agrees)
{
	u64 nr_ops = test_length("KVMM_MODEL_OPS", 30000);

	any_state = test_number("KVMM_SEED", kv_random() | 1);
	fprintf(stderr, "owner_model: KVMM_SEED=0x%llx\n", (unsigned long long)any_state);
	fake_env_install(&fake);
	fake_env_advance(&fake, 1000);
	pool = make_cache(NR_BLOCKS, "lru");
	for (u64 i = 0; i < nr_ops; i++) {
		calls[any(ARRAY_SIZE(calls))]();
		compare();
		if (i % 16 == 0)
			compare_leaks();
		if (i % 64 == 0)
			cr_assert_eq(kvmm_validate(pool), 0);
	}
	end_pool(pool);
	kv_rcu_barrier();
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}
