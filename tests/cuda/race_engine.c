// SPDX-License-Identifier: Apache-2.0
/*
 * Lanes and their steps. Two of them ask where blocks lie, one keeps tables. A copier outside of all
 * steps reads what is pinned, at the addresses that it was told then.
 *
 * The engine orders its own accesses by events, and by nothing else that kvmm does: whatever the
 * checker finds is between the engine and the mover.
 */
#include "pool/internal.h"
#include "race.h"

/* ---- beginning and end ---- */

static kcu_stream new_stream(void)
{
	kcu_stream stream = NULL;

	MUST(cu.stream_create_with_priority(&stream, KCU_STREAM_NON_BLOCKING, 0));
	return stream;
}

static void make_pool(void)
{
	struct kvmm_verify_attr verify = { .size = sizeof(verify), .sample_pm = 700 };
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = 4 * BYTES,
					     .pageblock_blocks = 8 };
	struct kvmm_alloc_attr alloc = { .size = sizeof(alloc), .costs = { 2000, 1500, 0 } };
	struct kvmm_plane plane = { w.base, BYTES, BYTES };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0",
				       .policy = "default", .planes = &plane, .nr_planes = 1,
				       .nr_blocks = NR_BLOCKS, .alloc = &alloc };

	MUST(kvmm_pool_create(&attr, &w.pool));
	MUST(w.pool->parts.dev->tune(w.pool->dev, KV_KNOB_PATH, below(KV_NR_PATHS)));
	MUST(kvmm_pool_elastic_setup(w.pool, &elastic));
	MUST(kvmm_verify_set(w.pool, &verify));
}

void engine_init(void)
{
	MUST(cu.mem_alloc(&w.base, NR_BLOCKS * BYTES));
	MUST(cu.mem_host_alloc((void **)&w.out, NR_OUTS * BYTES, KCU_HOST_ALLOC_PORTABLE));
	make_pool();
	for (u32 i = 0; i < NR_LANES; i++) {
		struct lane *lane = &w.lane[i];

		lane->stream = new_stream();
		lane->tables = i == NR_LANES - 1;
		MUST(kvmm_stream_add(w.pool, lane->stream, lane->tables ? KVMM_STREAM_TABLES : 0,
				     &lane->id));
	}
	w.copier = new_stream();
	w.stranger = new_stream();
}

static void end_step(struct lane *lane)
{
	if (lane->open && !lane->ended)
		expect(!kvmm_step_end(w.pool, lane->id, lane->epoch), "a step ends", 0);
	lane->open = false;
}

static void expect_empty(void)
{
	struct kvmm_pool_stat stat;

	kvmm_reset_inactive(w.pool);
	MUST(kvmm_pool_get_stat(w.pool, &stat));
	expect(stat.nr_free == NR_BLOCKS, "all blocks are free in the end", stat.nr_free);
	expect(!kvmm_validate(w.pool), "the pool is valid in the end", 0);
}

void engine_exit(void)
{
	for (u32 i = 0; i < NR_LANES; i++)
		end_step(&w.lane[i]);
	if (w.quiet)
		kvmm_pool_resume(w.pool);
	check_outs();
	for (u32 k = 0; k < NR_THINGS; k++)
		give_back(k);
	kvmm_pool_shrink_cancel(w.pool);
	kvmm_compact_cancel(w.pool);
	for (u32 i = 0; i < NR_LANES; i++)
		MUST(kvmm_stream_del(w.pool, w.lane[i].id));
	ctl->run();
	kvmm_compact_poll(w.pool);	/* ends what is being summed, too */
	have_all_again();
	if (w.broken == ALL_RULES)
		expect_empty();
	kvmm_pool_destroy(w.pool);
	for (u32 i = 0; i < NR_LANES; i++)
		MUST(cu.stream_destroy(w.lane[i].stream));
	MUST(cu.stream_destroy(w.copier));
	MUST(cu.stream_destroy(w.stranger));
	ctl->run();
	MUST(cu.mem_free(w.base));
	MUST(cu.mem_free_host(w.out));
}

void order_streams(void)
{
	kcu_stream stream[NR_LANES + 1] = { [NR_LANES] = w.copier };
	kcu_event event;

	for (u32 i = 0; i < NR_LANES; i++)
		stream[i] = w.lane[i].stream;
	for (u32 i = 0; i <= NR_LANES; i++) {
		MUST(cu.event_create(&event, KCU_EVENT_DISABLE_TIMING));
		MUST(cu.event_record(event, stream[i]));
		for (u32 k = 0; k <= NR_LANES; k++)
			if (k != i)
				MUST(cu.stream_wait_event(stream[k], event, 0));
		MUST(cu.event_destroy(event));
	}
}

static bool all_bytes(const u8 *at, u8 byte)
{
	for (u32 i = 0; i < BYTES; i++)
		if (at[i] != byte)
			return false;
	return true;
}

void check_outs(void)
{
	for (u32 i = 0; i < NR_LANES; i++)
		MUST(cu.stream_synchronize(w.lane[i].stream));
	MUST(cu.stream_synchronize(w.copier));
	for (u32 i = 0; i < w.nr_out; i++)
		w.nr_wrong += !all_bytes(w.out + i * BYTES, w.expected[i]);
	w.nr_out = 0;
}

/* ---- where things lie ---- */

static void add_extent(struct told *told, const struct kvmm_extent *ext)
{
	for (u32 b = 0; b < ext->nr && told->nr < MAX_LEN; b++)
		told->block[told->nr++] = ext->start + b;
}

static void ask(const struct thing *thing, struct told *told)
{
	struct kvmm_extent ext[MAX_LEN];
	int nr = 0;

	told->nr = 0;
	switch (thing->kind) {
	case RANGE:
		nr = kvmm_range_extents(w.pool, thing->range, ext, MAX_LEN);
		break;
	case PRIVATE:
		nr = kvmm_blocks_of_muts(w.pool, &thing->mut, 1, &ext[0].start) ? -1 : 1;
		ext[0].nr = 1;
		break;
	case NAMED:
		nr = kvmm_blocks_of_refs(w.pool, &thing->ref, 1, &ext[0].start) ? -1 : 1;
		ext[0].nr = 1;
		break;
	case NONE:
		return;
	}
	expect(nr > 0, "it is asked where a thing lies", nr);
	for (int i = 0; i < nr; i++)
		add_extent(told, &ext[i]);
}

/* New places go into tables when what was there before is up to date. */
void tell(struct lane *lane, u32 k)
{
	struct told *told = &lane->told[k];
	u32 was;

	if (lane->tables && !lane->open)
		read_tables(lane);
	was = told->nr ? told->block[0] : KV_NONE;
	ask(&w.thing[k], told);
	if (w.thing[k].kind == PRIVATE && was != KV_NONE)
		w.nr_private_moved += was != told->block[0];
}

static void relocate(struct lane *lane, const struct kvmm_relocation *move)
{
	if (w.broken == TABLES_ARE_READ)
		return;
	for (u32 k = 0; k < NR_THINGS; k++)
		for (u32 i = 0; i < lane->told[k].nr; i++)
			if (lane->told[k].block[i] - move->from < move->nr)
				lane->told[k].block[i] += move->to - move->from;
}

void read_tables(struct lane *lane)
{
	struct kvmm_relocation moves[64];
	int nr;

	while ((nr = kvmm_relocations(w.pool, lane->id, moves, 64)) > 0) {
		for (int i = 0; i < nr; i++)
			relocate(lane, &moves[i]);
		expect(!kvmm_relocations_ack(w.pool, lane->id, nr), "tables are up to date", nr);
	}
}

/* ---- steps ---- */

static void read_block(kcu_stream stream, u32 block, u8 value)
{
	if (w.nr_out == NR_OUTS || !value)
		return;
	w.expected[w.nr_out] = value;
	MUST(cu.memcpy_dtoh_async(w.out + w.nr_out++ * BYTES, w.base + block * BYTES, BYTES, stream));
}

static bool begin_step(struct lane *lane)
{
	int err;

	if (lane->open)
		return true;
	if (lane->tables && below(2))
		read_tables(lane);
	err = kvmm_step_begin(w.pool, lane->id, &lane->epoch);
	if (err == -EAGAIN && lane->tables)
		return false;
	expect(!err, "a step begins", err);
	lane->open = true;
	for (u32 k = 0; k < NR_THINGS && !lane->tables && !w.quiet; k++)
		tell(lane, k);
	lane->ended = w.broken == WORK_IN_STEPS;
	if (lane->ended)
		expect(!kvmm_step_end(w.pool, lane->id, lane->epoch), "a step ends", 0);
	return true;
}

static void write_block(struct lane *lane, struct thing *thing, u32 block, u32 i)
{
	w.next_value = w.next_value % (255 - NR_KEYS) + 1;
	thing->value[i] = thing->kind == RANGE ? NR_KEYS + w.next_value : value_of_key(thing->key);
	MUST(cu.memset_d8_async(w.base + block * BYTES, thing->value[i], BYTES, lane->stream));
}

static bool may_write(const struct thing *thing, u32 i)
{
	if (thing->kind == NAMED)
		return w.broken == NAMED_IS_SEALED;
	return i >= thing->sealed || w.broken == SEALED_IS_SEALED;
}

/* Who breaks a seal does so where no other lane looks: that would be a race of the engine's own. */
static bool may_read(const struct thing *thing, u32 i, bool own)
{
	bool shared = w.broken != SEALED_IS_SEALED && w.broken != NAMED_IS_SEALED;

	return own || (shared && i < thing->sealed);
}

static void work(struct lane *lane)
{
	u32 k = below(NR_THINGS), i;
	struct thing *thing = &w.thing[k];
	struct told *told = &lane->told[k];
	bool own = thing->owner == lane - w.lane;

	if (thing->kind == NONE || !min(told->nr, thing->nr))
		return;
	i = below(min(told->nr, thing->nr));
	if (own && may_write(thing, i) && below(3))
		write_block(lane, thing, told->block[i], i);
	else if (may_read(thing, i, own))
		read_block(lane->stream, told->block[i], thing->value[i]);
}

static void copy_outside(void)
{
	struct thing *thing = &w.thing[below(NR_THINGS)];
	u32 i;

	if (thing->kind == NONE || !thing->pinned || !thing->bare.nr)
		return;
	i = below(thing->bare.nr);
	read_block(w.copier, thing->bare.block[i], thing->value[i]);
}

/* All of it, as a request does that begins. */
void write_all(u32 k)
{
	struct thing *thing = &w.thing[k];
	struct lane *lane = &w.lane[thing->owner];

	if (!begin_step(lane))
		return;
	for (u32 i = 0; i < min(lane->told[k].nr, thing->nr); i++)
		write_block(lane, thing, lane->told[k].block[i], i);
}

void do_step(void)
{
	struct lane *lane = &w.lane[below(NR_LANES)];

	if (!begin_step(lane))
		return;
	for (u32 n = 1 + below(6); n; n--)
		work(lane);
	copy_outside();
	if (!one_in(3))
		end_step(lane);
}

/* ---- pins ---- */

static int pin_it(struct thing *thing)
{
	thing->pin_type = below(KVMM_NR_PIN_TYPES);
	if (w.broken == TOLD_IS_PINNED)
		return 0;
	return thing->kind == RANGE ? kvmm_range_pin_as(w.pool, thing->range, thing->pin_type) :
				      kvmm_pin_many_as(w.pool, &thing->ref, 1, thing->pin_type);
}

/* The copier reads all of it once more, and is through. */
void unpin(struct thing *thing)
{
	int err = 0;

	if (!thing->pinned)
		return;
	for (u32 i = 0; i < thing->bare.nr; i++)
		read_block(w.copier, thing->bare.block[i], thing->value[i]);
	MUST(cu.stream_synchronize(w.copier));
	thing->pinned = false;
	if (w.broken == TOLD_IS_PINNED)
		return;
	err = thing->kind == RANGE ? kvmm_range_unpin_as(w.pool, thing->range, thing->pin_type) :
				     kvmm_unpin_many_as(w.pool, &thing->ref, 1, thing->pin_type);
	expect(!err, "a pin is undone", err);
}

/* The rule is the library's: a poll that does not see pins publishes what has been pinned meanwhile. */
static void poll_blindly(struct thing *thing)
{
	struct slot *slot;

	if (w.broken != PINNED_STAYS || thing->kind != RANGE)
		return;
	ctl->run();
	slot = dir_slot(w.pool->slots, thing->range.index);
	slot->pins--;
	kvmm_compact_poll(w.pool);
	slot->pins++;
}

static void pin(struct thing *thing)
{
	int err = pin_it(thing);

	expect(!err || (err == -EBUSY && thing->kind == NAMED), "a pin is taken", err);
	if (err)
		return;
	order_streams();
	ask(thing, &thing->bare);
	thing->pinned = true;
	poll_blindly(thing);
}

static void pin_or_unpin(struct thing *thing)
{
	if (thing->pinned)
		unpin(thing);
	else if ((thing->kind == RANGE && thing->sealed == thing->nr) || thing->kind == NAMED)
		pin(thing);
}

/* Of a rule that is broken by who pins while a copy runs, all do: one alone seldom meets a copy. */
void do_pin(void)
{
	u32 first = below(NR_THINGS), nr = w.broken == PINNED_STAYS ? NR_THINGS : 1;

	for (u32 i = 0; i < nr; i++)
		pin_or_unpin(&w.thing[(first + i) % NR_THINGS]);
}

/* ---- graphs ---- */

/* Addresses are captured, and used again and again without asking. */
void do_graph(void)
{
	int err;

	if (w.quiet) {
		err = w.broken == QUIET_FOR_GRAPHS ? 0 : kvmm_pool_resume(w.pool);
		expect(!err, "resume", err);
		w.quiet = false;
		return;
	}
	if (below(4))
		return;
	err = w.broken == QUIET_FOR_GRAPHS ? 0 : kvmm_pool_quiesce(w.pool);
	expect(!err, "quiesce", err);
	for (u32 i = 0; i < NR_LANES; i++)
		for (u32 k = 0; k < NR_THINGS; k++)
			tell(&w.lane[i], k);
	w.quiet = true;
}
