// SPDX-License-Identifier: Apache-2.0
/*
 * What holds blocks: ranges, private blocks, named ones. A name says what a block has to hold, so it is
 * known of one that is found again, too.
 *
 * Whoever gives a block back has seen to it that all that was done with it comes before all that is
 * done from then on: the next owner may be any lane.
 */
#include "pool/internal.h"
#include "race.h"

u8 value_of_key(u32 key)
{
	return 1 + key;
}

static kvmm_key_t key_of(u32 number)
{
	kvmm_key_t key = { .byte = { 1, number } };

	return key;
}

static bool refused(int err)
{
	return err == -ENOSPC || err == -EBUSY || err == -EAGAIN;
}

static void clear_thing(u32 k)
{
	w.thing[k] = (struct thing){ .owner = below(NR_LANES) };
	for (u32 i = 0; i < NR_LANES; i++)
		w.lane[i].told[k].nr = 0;
}

static void tell_all(u32 k)
{
	for (u32 i = 0; i < NR_LANES; i++)
		tell(&w.lane[i], k);
}

/* ---- they come ---- */

static void make_range(u32 k, u32 nr)
{
	struct thing *thing = &w.thing[k];
	int err = kvmm_range_alloc(w.pool, nr, KVMM_RUNS(4) | (below(4) ? KVMM_ALLOC_NO_COMPACT : 0),
				   &thing->range);

	expect(!err || refused(err), "a range", err);
	if (err)
		return;
	thing->kind = RANGE;
	thing->nr = nr;
}

static void make_private(u32 k)
{
	struct thing *thing = &w.thing[k];
	int err = kvmm_alloc(w.pool, 1, &thing->mut);

	expect(!err || refused(err), "a private block", err);
	if (err)
		return;
	thing->kind = PRIVATE;
	thing->nr = 1;
	thing->key = below(NR_KEYS);
}

static void find_named(u32 k)
{
	struct thing *thing = &w.thing[k];
	u32 number = below(NR_KEYS);
	kvmm_key_t key = key_of(number);

	if (kvmm_match(w.pool, &key, 1, &thing->ref) != 1)
		return;
	thing->kind = NAMED;
	thing->nr = thing->sealed = 1;
	thing->key = number;
	thing->value[0] = value_of_key(number);
}

static void make_thing(u32 k)
{
	clear_thing(k);
	switch (below(4)) {
	case 0:
		make_private(k);
		break;
	case 1:
		find_named(k);
		break;
	default:
		make_range(k, 1 + below(MAX_LEN));
	}
	if (w.thing[k].kind != NONE)
		tell_all(k);
}

/* ---- they go ---- */

/* Rule 5 is the library's: nobody else knows that a copy is under way. */
static void forget_copies(void)
{
	u64 *flying = w.pool->transit.flying;

	if (w.broken == COPIED_IS_KEPT && flying)
		memset(flying, 0, KV_WORDS(NR_BLOCKS) * sizeof(*flying));
}

void give_back(u32 k)
{
	struct thing *thing = &w.thing[k];
	int err = 0;

	if (thing->kind == NONE)
		return;
	unpin(thing);
	order_streams();
	forget_copies();
	if (thing->kind == RANGE)
		err = kvmm_range_free(w.pool, thing->range);
	else if (thing->kind == PRIVATE)
		err = kvmm_free(w.pool, &thing->mut, 1);
	else
		err = kvmm_put(w.pool, thing->ref);
	expect(!err, "a thing is given back", err);
	thing->kind = NONE;
}

/* ---- they change ---- */

static void seal(struct thing *thing)
{
	u32 nr = thing->sealed;

	while (nr < thing->nr && thing->value[nr])
		nr++;
	if (nr == thing->sealed)
		return;
	order_streams();
	thing->sealed = nr;
	expect(!kvmm_range_seal(w.pool, thing->range, nr), "a seal", nr);
}

static void name(u32 k)
{
	struct thing *thing = &w.thing[k];
	kvmm_key_t key = key_of(thing->key);
	int err;

	if (!thing->value[0])
		return;
	order_streams();
	err = kvmm_register(w.pool, &thing->mut, &key, 1, &thing->ref);
	expect(!err, "a block is named", err);
	thing->kind = NAMED;
	thing->sealed = 1;
	tell_all(k);
}

static void grow(u32 k)
{
	struct thing *thing = &w.thing[k];
	int err;

	if (thing->nr == MAX_LEN || thing->pinned)
		return;
	err = kvmm_range_grow(w.pool, thing->range, 1);
	expect(!err || refused(err), "a range grows", err);
	if (err)
		return;
	thing->value[thing->nr++] = 0;
	tell_all(k);
}

/* Its last block, or its first one. */
static void cut(u32 k)
{
	struct thing *thing = &w.thing[k];
	bool front = below(2);
	int err;

	if (thing->nr == 1 || thing->pinned)
		return;
	order_streams();
	forget_copies();
	err = front ? kvmm_range_shrink_front(w.pool, thing->range, 1) :
		      kvmm_range_shrink(w.pool, thing->range, 1);
	expect(!err, "a range is cut", err);
	thing->nr--;
	if (front) {
		memmove(thing->value, thing->value + 1, thing->nr);
		thing->sealed -= thing->sealed > 0;
	}
	thing->sealed = min(thing->sealed, thing->nr);
	tell_all(k);
}

/* A request ends, and the next one begins in the same place, if it can. */
static void replace(u32 k)
{
	u32 nr = w.thing[k].nr;

	give_back(k);
	clear_thing(k);
	make_range(k, nr);
	if (w.thing[k].kind == NONE)
		return;
	tell_all(k);
	write_all(k);
}

static void change_range(u32 k)
{
	switch (below(8)) {
	case 0:
		grow(k);
		break;
	case 1:
		cut(k);
		break;
	case 2:
		give_back(k);
		break;
	case 3:
		replace(k);
		break;
	default:
		seal(&w.thing[k]);
	}
}

void do_thing(void)
{
	u32 k = below(NR_THINGS);

	switch (w.thing[k].kind) {
	case NONE:
		make_thing(k);
		break;
	case RANGE:
		change_range(k);
		break;
	case PRIVATE:
		if (below(4))
			name(k);
		else
			give_back(k);
		break;
	case NAMED:
		if (one_in(3))
			give_back(k);
	}
}
