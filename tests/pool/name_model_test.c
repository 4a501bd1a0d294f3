// SPDX-License-Identifier: Apache-2.0
/*
 * Random changes of names against a dictionary that shares no code with the pool: registered,
 * renamed, added, moved, removed, private again, evicted by need and by id. After each call all
 * events are applied to a set, which must be what the dictionary has. KVMM_SEED and KVMM_MODEL_OPS
 * choose the run.
 */
#include <kvmm/ext/name.h>

#include "tests/pool/util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

#define NR_BLOCKS	24u
#define NR_NAMES	20u
#define MAX_NAMES	8u
#define MAX_BATCH	4u

enum state { FREE, PRIVATE, NAMED };

/* By block id: no block moves. */
struct block {
	enum state state;
	u32 index, gen;
	u32 refs;
	bool hidden;
	u32 nr;				/* names; the first one first, unless it is hidden */
	u32 name[MAX_NAMES];
	u64 age[MAX_NAMES];
};

static struct model {
	struct kvmm_pool *pool;
	struct kvmm_events *events;
	struct block block[NR_BLOCKS];
	bool told[NR_NAMES];
	u64 clock;
	u64 nr_done[8], nr_refused;
} m;

/* Keys of both tenants are the same. */
static kvmm_key_t key_at(u32 name)
{
	return key_of(name / 2);
}

static kvmm_domain_t domain_at(u32 name)
{
	return (kvmm_domain_t){ .tenant = name % 2 };
}

static struct kvmm_name public_name(u32 name)
{
	return (struct kvmm_name){ key_at(name), domain_at(name), name };
}

/* ---- the dictionary ---- */

static u32 place_of(const struct block *block, u32 name)
{
	u32 i = 0;

	while (i < block->nr && block->name[i] != name)
		i++;
	return i;
}

/* The one that has had it longest. */
static int holder_of(u32 name)
{
	int best = -1;
	u64 best_age = 0;

	for (u32 id = 0; id < NR_BLOCKS; id++) {
		const struct block *block = &m.block[id];
		u32 place = place_of(block, name);

		if (block->state != NAMED || place == block->nr)
			continue;
		if (best >= 0 && block->age[place] > best_age)
			continue;
		best = id;
		best_age = block->age[place];
	}
	return best;
}

static void name_del(struct block *block, u32 place)
{
	block->nr--;
	for (u32 i = place; i < block->nr; i++) {
		block->name[i] = block->name[i + 1];
		block->age[i] = block->age[i + 1];
	}
}

static void name_set(struct block *block, u32 place, u32 name)
{
	block->name[place] = name;
	block->age[place] = ++m.clock;
}

static void lose_names(struct block *block)
{
	block->nr = 0;
	block->hidden = true;
}

static void drop_ref(struct block *block)
{
	block->refs--;
	if (!block->refs && block->hidden)
		*block = (struct block){ .state = FREE };
}

/* ---- what must hold ---- */

static void apply_events(void)
{
	struct kvmm_event event[32];
	u64 nr_lost;
	int nr;

	while ((nr = kvmm_events_read(m.events, event, 32, &nr_lost)) > 0)
		for (int i = 0; i < nr; i++)
			m.told[number_of(&event[i].key) * 2 + event[i].domain.tenant] =
				event[i].kind == KVMM_EVENT_STORED;
	cr_assert_eq(nr, 0);
	cr_assert_eq(nr_lost, 0);
}

static void look_up(u32 name)
{
	kvmm_key_t key = key_at(name);
	struct kvmm_prefix prefix = { &key, 1, 0, NULL, domain_at(name) };
	int want = holder_of(name);
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_prefix_len(m.pool, &prefix), want >= 0, "name %u: %d", name, want);
	if (want < 0)
		return;
	cr_assert_eq(kvmm_prefix_match(m.pool, &prefix, &ref), 1);
	cr_assert_eq(kvmm_block_of_ref(m.pool, ref), want, "name %u", name);
	cr_assert_eq(ref.gen, m.block[want].gen);
	if (any(2)) {
		m.block[want].refs++;
		return;
	}
	cr_assert_eq(kvmm_put(m.pool, ref), 0);
}

static void check_names(u32 id)
{
	const struct block *block = &m.block[id];
	struct kvmm_name name[MAX_NAMES];
	int nr = kvmm_names_get(m.pool, (kvmm_ref_t){ block->index, block->gen }, name, MAX_NAMES);

	cr_assert_eq(nr, (int)block->nr);
	for (u32 i = 0; i < block->nr; i++) {
		cr_assert_eq(number_of(&name[i].key) * 2 + name[i].domain.tenant, block->name[i]);
		cr_assert_eq(name[i].position, block->name[i]);
	}
}

static void check_snapshot(void)
{
	bool has[NR_NAMES] = { false };
	struct kvmm_snapshot snap;
	struct kvmm_event event[5];
	int nr;

	cr_assert_eq(kvmm_snapshot_begin(m.events, &snap), 0);
	while ((nr = kvmm_snapshot_read(m.events, &snap, event, 5)) > 0)
		for (int i = 0; i < nr; i++)
			has[number_of(&event[i].key) * 2 + event[i].domain.tenant] = true;
	for (u32 i = 0; i < NR_NAMES; i++)
		cr_assert_eq(has[i], holder_of(i) >= 0, "name %u in the snapshot", i);
}

static void check(void)
{
	apply_events();
	for (u32 i = 0; i < NR_NAMES; i++)
		cr_assert_eq(m.told[i], holder_of(i) >= 0, "name %u is told wrongly", i);
	look_up(any(NR_NAMES));
	if (any(16))
		return;
	cr_assert_eq(kvmm_validate(m.pool), 0);
	check_snapshot();
	for (u32 i = 0; i < NR_NAMES; i++)
		look_up(i);
	for (u32 id = 0; id < NR_BLOCKS; id++)
		if (m.block[id].state == NAMED && m.block[id].refs)
			check_names(id);
}

/* ---- calls ---- */

/* A block in @state, held if it is NAMED, and then mostly one that has a name; or -1. */
static int any_block(enum state state)
{
	u32 start = any(NR_BLOCKS);

	for (u32 i = 0; i < NR_BLOCKS; i++) {
		const struct block *block = &m.block[(start + i) % NR_BLOCKS];

		if (block->hidden && any(4))
			continue;
		if (block->state == state && (state != NAMED || block->refs))
			return (start + i) % NR_BLOCKS;
	}
	return -1;
}

static kvmm_ref_t ref_of(u32 id)
{
	return (kvmm_ref_t){ m.block[id].index, m.block[id].gen };
}

static void alloc_some(void)
{
	u32 nr = 1 + any(MAX_BATCH), nr_left = 0;
	kvmm_mut_t mut[MAX_BATCH];

	for (u32 id = 0; id < NR_BLOCKS; id++)
		nr_left += m.block[id].state != PRIVATE && !m.block[id].refs;
	if (nr > nr_left) {
		cr_assert_eq(kvmm_alloc(m.pool, nr, mut), -ENOSPC);
		return;
	}
	cr_assert_eq(kvmm_alloc(m.pool, nr, mut), 0);
	for (u32 i = 0; i < nr; i++) {
		struct block *block = &m.block[kvmm_block_of_mut(m.pool, mut[i])];

		cr_assert(!block->refs && block->state != PRIVATE);
		*block = (struct block){ .state = PRIVATE, .index = mut[i].index,
					  .gen = mut[i].gen };
	}
}

static void register_one(void)
{
	u32 name = any(NR_NAMES);
	kvmm_key_t key = key_at(name);
	struct kvmm_prefix prefix = { &key, 1, name, NULL, domain_at(name) };
	int id = any_block(PRIVATE);
	struct block *block = id < 0 ? NULL : &m.block[id];
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	if (id < 0)
		return;
	mut = (kvmm_mut_t){ block->index, block->gen };
	cr_assert_eq(kvmm_prefix_register(m.pool, &prefix, &mut, &ref), 0);
	block->state = NAMED;
	block->refs = 1;
	block->nr = 1;
	name_set(block, 0, name);
}

static void put_one(void)
{
	int id = any_block(NAMED);

	if (id < 0)
		return;
	cr_assert_eq(kvmm_put(m.pool, ref_of(id)), 0);
	drop_ref(&m.block[id]);
}

static void unpublish_one(void)
{
	int id = any_block(NAMED), err;
	kvmm_ref_t ref;
	kvmm_mut_t mut;

	if (id < 0)
		return;
	ref = ref_of(id);
	err = kvmm_unpublish(m.pool, &ref, 1, &mut);
	cr_assert_eq(err, m.block[id].refs == 1 ? 0 : -EBUSY);
	if (!err)
		m.block[id] = (struct block){ .state = PRIVATE, .index = mut.index, .gen = mut.gen };
}

static void evict_some(void)
{
	u32 id = any(NR_BLOCKS);
	struct block *block = &m.block[id];
	int want = block->state == NAMED && !block->hidden;

	if (any(8)) {
		cr_assert_eq(kvmm_evict_blocks(m.pool, &id, 1), want);
		if (want && block->refs)
			lose_names(block);
		else if (want)
			*block = (struct block){ .state = FREE };
		return;
	}
	cr_assert_geq(kvmm_reset_inactive(m.pool), 0);
	for (id = 0; id < NR_BLOCKS; id++)
		if (m.block[id].state == NAMED && !m.block[id].refs)
			m.block[id] = (struct block){ .state = FREE };
}

/* ---- names change ---- */

/* What a change does for one of its names, in the model: 0, or the error that ends it. */
static int add_one(struct block *block, u32 name)
{
	if (block->hidden)
		return -ESTALE;
	if (place_of(block, name) < block->nr)
		return -EEXIST;
	name_set(block, block->nr++, name);
	return 0;
}

/* @unnamed: the first name of this block has gone; its age says so. */
static int rename_one(struct block *block, u32 name, bool *unnamed)
{
	u32 place = place_of(block, name);

	if (block->hidden)
		return -ESTALE;
	if (*unnamed)
		return -EINVAL;
	if (place < block->nr)
		return -EEXIST;
	*unnamed = true;
	return 0;
}

static int remove_one(struct block *block, u32 name, bool *unnamed)
{
	u32 place = place_of(block, name);

	if (block->hidden)
		return -ESTALE;
	if (place == block->nr || (!place && *unnamed))
		return -ENOENT;
	if (!place)
		*unnamed = true;
	else
		name_del(block, place);
	return 0;
}

static int change_one(u32 op, struct block *block, u32 name, bool *unnamed)
{
	if (op == KVMM_NAME_ADD)
		return add_one(block, name);
	return op == KVMM_NAME_RENAME ? rename_one(block, name, unnamed) :
					remove_one(block, name, unnamed);
}

/* What is refused by itself; then what is refused for what stands before it. */
static int model_change(u32 op, u32 nr, const u32 *id, const u32 *name)
{
	struct block before[NR_BLOCKS];
	bool unnamed[NR_BLOCKS] = { false };
	u64 clock = m.clock;
	int err = 0;
	u32 i;

	memcpy(before, m.block, sizeof(before));
	for (i = 0; i < nr && !err; i++) {
		struct block alone = m.block[id[i]];

		err = change_one(op, &alone, name[i], &(bool){ false });
	}
	m.clock = clock;
	for (i = 0; i < nr && !err; i++)
		err = change_one(op, &m.block[id[i]], name[i], &unnamed[id[i]]);
	if (err) {
		memcpy(m.block, before, sizeof(before));
		m.clock = clock;
		return err;
	}
	for (i = 0; i < nr; i++) {
		struct block *block = &m.block[id[i]];

		if (!unnamed[id[i]])
			continue;
		unnamed[id[i]] = false;
		if (op == KVMM_NAME_RENAME) {
			name_set(block, 0, name[i]);
		} else if (block->nr > 1) {
			name_del(block, 0);
		} else {
			lose_names(block);
		}
	}
	return 0;
}

static void change_some(void)
{
	u32 op = any(KVMM_NR_NAME_OPS), nr = 1 + any(MAX_BATCH), id[MAX_BATCH], name[MAX_BATCH];
	struct kvmm_name names[MAX_BATCH];
	kvmm_ref_t ref[MAX_BATCH];
	int want, got;

	for (u32 i = 0; i < nr; i++) {
		int at = any_block(NAMED);

		if (at < 0)
			return;
		id[i] = at;
		name[i] = any(NR_NAMES);
		/* Else most removals would be refused; and room is left for the batch. */
		if (op == KVMM_NAME_REMOVE && m.block[at].nr && any(8))
			name[i] = m.block[at].name[any(m.block[at].nr)];
		if (op == KVMM_NAME_ADD && m.block[at].nr + nr > MAX_NAMES)
			return;
		names[i] = public_name(name[i]);
		ref[i] = ref_of(at);
	}
	got = kvmm_names_change(m.pool, names, ref, nr, op);
	want = model_change(op, nr, id, name);
	cr_assert_eq(got, want, "op %u: %d, not %d", op, got, want);
	m.nr_refused += want != 0;
	m.nr_done[op] += !want;
}

/* From one to another, and never missed. */
static void move_one(void)
{
	int from = any_block(NAMED), to = any_block(NAMED);
	struct kvmm_name name;
	kvmm_ref_t ref;
	u32 number, id;

	if (from < 0 || to < 0 || from == to || !m.block[from].nr || m.block[to].hidden ||
	    m.block[to].nr == MAX_NAMES)
		return;
	number = m.block[from].name[any(m.block[from].nr)];
	name = public_name(number);
	if (place_of(&m.block[to], number) < m.block[to].nr)
		return;
	ref = ref_of(to);
	id = to;
	cr_assert_eq(kvmm_names_add(m.pool, &name, &ref, 1), 0);
	model_change(KVMM_NAME_ADD, 1, &id, &number);
	check();
	ref = ref_of(from);
	id = from;
	cr_assert_eq(kvmm_names_remove(m.pool, &name, &ref, 1), 0);
	model_change(KVMM_NAME_REMOVE, 1, &id, &number);
	m.nr_done[KVMM_NR_NAME_OPS]++;
}

static void step(void)
{
	static void (*const calls[])(void) = {
		alloc_some, register_one, register_one, register_one, put_one, put_one, put_one,
		unpublish_one, evict_some, change_some, change_some, change_some, change_some,
		move_one,
	};

	calls[any(ARRAY_SIZE(calls))]();
	check();
}

static void run(u64 seed, u32 nr_ops)
{
	m = (struct model){ .pool = make_cache(NR_BLOCKS, "lru") };
	cr_assert_eq(kvmm_events_open(m.pool, NULL, &m.events), 0);
	any_state = seed * 0x9e3779b97f4a7c15ull | 1;
	for (u32 i = 0; i < nr_ops; i++)
		step();
	cr_log_info("seed %llu: %llu added, %llu renamed, %llu removed, %llu moved, %llu refused",
		    (unsigned long long)seed, (unsigned long long)m.nr_done[0],
		    (unsigned long long)m.nr_done[1], (unsigned long long)m.nr_done[2],
		    (unsigned long long)m.nr_done[3], (unsigned long long)m.nr_refused);
	for (u32 i = 0; i <= KVMM_NR_NAME_OPS; i++)
		cr_expect(m.nr_done[i]);
	for (u32 id = 0; id < NR_BLOCKS; id++) {
		kvmm_mut_t mut = { m.block[id].index, m.block[id].gen };

		while (m.block[id].state == NAMED && m.block[id].refs) {
			cr_assert_eq(kvmm_put(m.pool, ref_of(id)), 0);
			drop_ref(&m.block[id]);
		}
		if (m.block[id].state == PRIVATE)
			cr_assert_eq(kvmm_free(m.pool, &mut, 1), 0);
	}
	kvmm_events_close(m.events);
	end_pool(m.pool);
}

Test(name_model, random_changes_agree_with_a_dictionary)
{
	u64 seed = test_number("KVMM_SEED", 1);
	u32 nr_ops = test_length("KVMM_MODEL_OPS", 60000);

	cr_log_info("KVMM_SEED=%llu KVMM_MODEL_OPS=%u", (unsigned long long)seed, nr_ops);
	for (u32 i = 0; i < 3; i++)
		run(seed + i, nr_ops / 3);
}
