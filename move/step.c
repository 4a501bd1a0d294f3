// SPDX-License-Identifier: Apache-2.0
/*
 * Streams of the engine, their steps, and the relocations they were told.
 *
 * A step is given the epoch in which it begins. When it ends, an event is recorded behind its work;
 * events of one stream pass in order, so a stream keeps a short list of {epoch, event}, and when
 * that is full the two youngest become one, which is waited for longer than need be.
 *
 * An engine that keeps block tables is always in the epoch of its oldest unread relocation, step or
 * no step: the next one begins with the tables as they are.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <kvmm/ext/moves.h>

#include "step.h"
#include "verify.h"

#define NOTHING_IN_USE	(~0ull)

struct steps *steps_of(struct kvmm_pool *pool)
{
	/* Pairs with steps_get(): the struct behind the pointer is complete. */
	return smp_load_acquire(&pool->steps);
}

static void free_tables(struct transit *transit)
{
	kv_free(transit->flying);
	kv_free(transit->lost);
	transit->flying = NULL;
	transit->lost = NULL;
}

static struct steps *steps_make(struct kvmm_pool *pool)
{
	struct transit *transit = &pool->transit;
	struct steps *steps = kv_alloc_lines(1, sizeof(*steps));

	if (!steps)
		return NULL;
	transit->flying = kv_alloc_array(KV_WORDS(pool->nr_blocks), sizeof(*transit->flying));
	if (pool->caches)
		transit->lost = kv_alloc_array(pool->nr_blocks, sizeof(*transit->lost));
	steps->max_relocations = NR_RELOCATIONS;
	steps->relocation = kv_alloc_array(NR_RELOCATIONS, sizeof(*steps->relocation));
	if (!steps->relocation || !transit->flying || (pool->caches && !transit->lost)) {
		free_tables(transit);
		kv_free(steps->relocation);
		kv_free(steps);
		return NULL;
	}
	steps->epoch = 1;
	kv_lock_init(&steps->lock, KV_RANK_STEP, pool->lock.id);
	return steps;
}

/* Two may come first at once: compact_lock lets one of them make it. */
struct steps *steps_get(struct kvmm_pool *pool)
{
	struct steps *steps = steps_of(pool);

	kv_assert_held(&pool->compact_lock);
	if (steps)
		return steps;
	steps = steps_make(pool);
	if (!steps)
		return NULL;
	smp_store_release(&pool->steps, steps);
	/* Pairs with transit_ops(): its calls find the steps and the tables. */
	smp_store_release(&pool->transit.ops, &flight_ops);
	return steps;
}

static u64 steps_bytes(struct kvmm_pool *pool)
{
	if (!READ_ONCE(pool->steps))
		return 0;
	return sizeof(*pool->steps) + KV_WORDS(pool->nr_blocks) * sizeof(u64) +
	       READ_ONCE(pool->steps->max_relocations) * sizeof(struct relocation) +
	       (pool->caches ? pool->nr_blocks * sizeof(u32) : 0);
}

/* ---- places in use ---- */

static bool has_unread(const struct steps *steps, const struct stream *stream)
{
	kv_assert_held(&steps->lock);
	return stream->tables && stream->acked != steps->nr_relocations;
}

static struct relocation *relocation_at(const struct steps *steps, u64 number)
{
	kv_assert_held(&steps->lock);
	return &steps->relocation[number % steps->max_relocations];
}

/* Where a step of this stream would be. */
static u64 epoch_of(const struct steps *steps, const struct stream *stream)
{
	kv_assert_held(&steps->lock);
	if (has_unread(steps, stream))
		return relocation_at(steps, stream->acked)->epoch - 1;
	return steps->epoch;
}

/* Steps that may still read keep their places because the device is blind then: 0 or -EAGAIN. */
static int poll_ended(struct kvmm_pool *pool, const struct ended *ended)
{
	int err = pool->dev ? pool->parts.dev->poll(pool->dev, ended->fence) : 0;

	kv_assert_held(&pool->steps->lock);
	if (err && err != -EAGAIN)
		device_failed(pool);
	return err == -EAGAIN ? err : 0;
}

static bool has_ended(struct kvmm_pool *pool, const struct ended *ended)
{
	return !completion_result(&pool->completions, &ended->completion,
				  poll_ended(pool, ended));
}

void steps_walk(struct kvmm_pool *pool, struct steps *steps, struct completion_walk *walk)
{
	kv_assert_held(&steps->lock);
	for (u32 i = 0; i < KVMM_MAX_STREAMS; i++) {
		struct stream *stream = &steps->stream[i];

		for (u32 k = 0; stream->used && k < stream->nr_ended; k++)
			completion_meet(walk, &stream->ended[k].completion,
					poll_ended(pool, &stream->ended[k]));
	}
}

/* Forget the events that the device has passed. */
static void catch_up(struct kvmm_pool *pool, struct stream *stream)
{
	u32 nr = 0;

	kv_assert_held(&pool->steps->lock);
	while (nr < stream->nr_ended && has_ended(pool, &stream->ended[nr]))
		nr++;
	stream->nr_ended -= nr;
	memmove(stream->ended, stream->ended + nr, stream->nr_ended * sizeof(*stream->ended));
}

static u64 oldest_of(const struct steps *steps, const struct stream *stream)
{
	u64 oldest = NOTHING_IN_USE;

	kv_assert_held(&steps->lock);
	if (stream->nr_ended)
		oldest = stream->ended[0].epoch;
	if (stream->open)
		oldest = min(oldest, stream->epoch);
	if (has_unread(steps, stream))
		oldest = min(oldest, epoch_of(steps, stream));
	return oldest;
}

/* The epoch in which its oldest step began. */
static u64 since_of(const struct steps *steps, const struct stream *stream)
{
	kv_assert_held(&steps->lock);
	if (stream->nr_ended)
		return stream->ended[0].since;
	return stream->open ? stream->since : NOTHING_IN_USE;
}

u64 steps_oldest(struct kvmm_pool *pool, struct steps *steps, bool began)
{
	u64 oldest = NOTHING_IN_USE;

	kv_assert_held(&steps->lock);
	for (u32 i = 0; i < KVMM_MAX_STREAMS; i++) {
		struct stream *stream = &steps->stream[i];

		if (!stream->used)
			continue;
		catch_up(pool, stream);
		oldest = min(oldest, began ? since_of(steps, stream) : oldest_of(steps, stream));
	}
	return oldest;
}

bool steps_are_open(const struct steps *steps)
{
	kv_assert_held(&steps->lock);
	for (u32 i = 0; i < KVMM_MAX_STREAMS; i++)
		if (steps->stream[i].used && steps->stream[i].open)
			return true;
	return false;
}

/* ---- the device ---- */

int steps_signal(struct kvmm_pool *pool, struct steps *steps, struct kv_fence *fence)
{
	struct kv_fence fences[KVMM_MAX_STREAMS];
	u32 nr = 0;

	kv_assert_held(&steps->lock);
	*fence = (struct kv_fence){ 0 };
	for (u32 i = 0; i < KVMM_MAX_STREAMS && pool->dev; i++) {
		int err;

		if (!steps->stream[i].used)
			continue;
		err = pool->parts.dev->signal(pool->dev, steps->stream[i].stream, &fences[nr]);
		if (err)
			return err;
		nr++;
	}
	if (nr) {
		int err = pool->parts.dev->join(pool->dev, fences, nr, fence);

		if (err)
			return err;
	}
	return flights_signal(pool, steps, fence);
}

int steps_stall(struct kvmm_pool *pool, struct steps *steps, struct kv_fence fence)
{
	int err = 0;

	kv_assert_held(&steps->lock);
	for (u32 i = 0; i < KVMM_MAX_STREAMS && pool->dev && !err; i++)
		if (steps->stream[i].used)
			err = pool->parts.dev->stall(pool->dev, steps->stream[i].stream, fence);
	return err;
}

/* ---- relocations ---- */

static u64 nr_unread(const struct steps *steps)
{
	u64 nr = 0;

	kv_assert_held(&steps->lock);
	for (u32 i = 0; i < KVMM_MAX_STREAMS; i++)
		if (steps->stream[i].used && steps->stream[i].tables)
			nr = max(nr, steps->nr_relocations - steps->stream[i].acked);
	return nr;
}

bool steps_have_room(const struct steps *steps, u32 nr)
{
	kv_assert_held(&steps->lock);
	return nr_unread(steps) + nr <= steps->max_relocations;
}

int steps_make_room(struct steps *steps, u32 nr)
{
	u32 max = steps->max_relocations;
	struct relocation *old, *new;

	kv_assert_held(&steps->lock);
	if (nr <= max)
		return 0;
	while (max < nr)
		max *= 2;
	new = kv_alloc_array(max, sizeof(*new));
	if (!new)
		return -ENOMEM;
	for (u64 i = steps->nr_relocations - nr_unread(steps); i != steps->nr_relocations; i++)
		new[i % max] = *relocation_at(steps, i);
	old = steps->relocation;
	steps->relocation = new;
	WRITE_ONCE(steps->max_relocations, max);
	kv_free(old);
	return 0;
}

static bool anybody_reads(const struct steps *steps)
{
	kv_assert_held(&steps->lock);
	for (u32 i = 0; i < KVMM_MAX_STREAMS; i++)
		if (steps->stream[i].used && steps->stream[i].tables)
			return true;
	return false;
}

int steps_will_tell(struct steps *steps, u32 nr)
{
	kv_assert_held(&steps->lock);
	return anybody_reads(steps) ? steps_make_room(steps, nr_unread(steps) + nr) : 0;
}

void steps_relocated(struct steps *steps, const struct kv_move *move, bool between)
{
	kv_assert(move->nr);
	kv_assert_held(&steps->lock);
	if (!anybody_reads(steps))
		return;
	*relocation_at(steps, steps->nr_relocations) = (struct relocation){
		.move = { move->src, move->dst, move->nr, 0 },
		.epoch = steps->epoch + 1, .between = between,
	};
	steps->nr_relocations++;
}

/* ---- one stream ---- */

static int find_stream(struct steps *steps, kvmm_stream_t id, struct stream **stream)
{
	if (!steps || id.index >= KVMM_MAX_STREAMS || !id.gen ||
	    id.gen > steps->stream[id.index].gen)
		return -EINVAL;
	*stream = &steps->stream[id.index];
	return (*stream)->used && (*stream)->gen == id.gen ? 0 : -ESTALE;
}

/* The lock is held on success only. */
static int enter_stream(struct kvmm_pool *pool, kvmm_stream_t id, struct steps **steps,
			struct stream **stream)
{
	int err;

	if (!pool)
		return -EINVAL;
	*steps = steps_of(pool);
	if (!*steps)
		return -EINVAL;
	kv_lock(&(*steps)->lock);
	err = find_stream(*steps, id, stream);
	if (err)
		kv_unlock(&(*steps)->lock);
	return err;
}

static int take_stream(struct steps *steps, void *stream, u32 flags, kvmm_stream_t *id)
{
	struct stream *spare = NULL;

	kv_assert_held(&steps->lock);
	for (u32 i = KVMM_MAX_STREAMS; i-- > 0;) {
		if (!steps->stream[i].used)
			spare = &steps->stream[i];
		else if (stream && steps->stream[i].stream == stream)
			return -EEXIST;
	}
	if (!spare || spare->gen == UINT32_MAX)
		return -EUSERS;
	*spare = (struct stream){ .gen = spare->gen + 1, .used = true, .stream = stream,
				  .tables = flags & KVMM_STREAM_TABLES,
				  .acked = steps->nr_relocations };
	steps->nr_streams++;
	*id = (kvmm_stream_t){ spare - steps->stream, spare->gen };
	return 0;
}

int kvmm_stream_add(struct kvmm_pool *pool, void *stream, uint32_t flags, kvmm_stream_t *id)
{
	struct kv_fence fence;
	struct steps *steps;
	int err = 0;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !id || flags & ~KVMM_STREAM_TABLES)
		return -EINVAL;
	/* A default stream, or one of another device, is found out by recording an event there. */
	if (pool->dev)
		err = pool->parts.dev->signal(pool->dev, stream, &fence);
	if (err)
		return err == -EIO ? -EIO : -EINVAL;
	kv_lock(&pool->compact_lock);
	steps = steps_get(pool);
	kv_unlock(&pool->compact_lock);
	if (!steps)
		return -ENOMEM;
	kv_lock(&steps->lock);
	err = take_stream(steps, stream, flags, id);
	kv_unlock(&steps->lock);
	return err;
}

static void wait_for(struct kvmm_pool *pool, const struct stream *stream)
{
	kv_assert_held(&pool->steps->lock);
	for (u32 i = 0; i < stream->nr_ended && pool->dev; i++)
		if (pool->parts.dev->wait(pool->dev, stream->ended[i].fence))
			device_failed(pool);
}

int kvmm_stream_del(struct kvmm_pool *pool, kvmm_stream_t id)
{
	struct stream *stream;
	struct steps *steps;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	err = enter_stream(pool, id, &steps, &stream);
	if (err)
		return err;
	if (stream->open) {
		err = -EBUSY;
	} else {
		wait_for(pool, stream);
		stream->used = false;
		steps->nr_streams--;
	}
	kv_unlock(&steps->lock);
	return err;
}

/* ---- steps ---- */

/* A thread that moves blocks at the moment publishes the finished flights. */
void __steps_settle(struct kvmm_pool *pool)
{
	if (likely(!(READ_ONCE(pool->transit.nr_flights) | READ_ONCE(pool->blind)) &&
		   !verify_is_cheap(pool)))
		return;
	if (kv_inherited(pool) || !kv_trylock(&pool->compact_lock))
		return;
	flights_poll(pool);
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
}

/* Is there one among the unread that it must know of? */
static bool must_read_first(const struct steps *steps, const struct stream *stream)
{
	kv_assert_held(&steps->lock);
	if (!has_unread(steps, stream))
		return false;
	for (u64 i = stream->acked; i != steps->nr_relocations; i++)
		if (relocation_at(steps, i)->between)
			return true;
	return false;
}

int kvmm_step_begin(struct kvmm_pool *pool, kvmm_stream_t id, uint64_t *epoch)
{
	struct stream *stream;
	struct steps *steps;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !epoch || !steps_of(pool))
		return -EINVAL;
	steps_settle(pool);
	elastic_tick(pool);
	err = enter_stream(pool, id, &steps, &stream);
	if (err)
		return err;
	if (stream->open) {
		err = -EBUSY;
	} else if (must_read_first(steps, stream)) {
		err = -EAGAIN;
	} else {
		stream->open = true;
		stream->epoch = *epoch = epoch_of(steps, stream);
		stream->since = steps->epoch;
		steps->nr_steps++;
		pace_step(steps);
	}
	kv_unlock(&steps->lock);
	return err;
}

/*
 * -EBUSY, -ENOMEM, -EAGAIN: nothing can be recorded there now. Otherwise the step is over: only a
 * recorded event keeps old places from being used again while the step's work reads them, and on a
 * lost device none is.
 */
static int end_step(struct kvmm_pool *pool, struct stream *stream)
{
	struct ended ended = { .epoch = stream->epoch, .since = stream->since };
	int err = 0;

	kv_assert_held(&pool->steps->lock);
	if (pool->dev)
		err = pool->parts.dev->signal(pool->dev, stream->stream, &ended.fence);
	if (err == -EBUSY || err == -ENOMEM)
		return err;
	if (err && !device_is_lost(pool))
		return -EAGAIN;
	if (err)
		device_failed(pool);
	catch_up(pool, stream);
	if (!err && pool->dev) {
		completion_begin(&pool->completions, &ended.completion);
		if (stream->nr_ended == NR_ENDED) {
			ended.epoch = stream->ended[--stream->nr_ended].epoch;
			ended.since = stream->ended[stream->nr_ended].since;
		}
		stream->ended[stream->nr_ended++] = ended;
	}
	stream->open = false;
	return err ? -EIO : 0;
}

int kvmm_step_end(struct kvmm_pool *pool, kvmm_stream_t id, uint64_t epoch)
{
	struct stream *stream;
	struct steps *steps;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	err = enter_stream(pool, id, &steps, &stream);
	if (err)
		return err;
	if (!stream->open || stream->epoch != epoch)
		err = -EINVAL;
	else
		err = end_step(pool, stream);
	kv_unlock(&steps->lock);
	if (!err)
		steps_settle(pool);
	return err;
}

/* ---- tables ---- */

int kvmm_relocations_next(struct kvmm_pool *pool, kvmm_stream_t id, uint32_t nr_done,
			  struct kvmm_relocation *moves, uint32_t max)
{
	struct stream *stream;
	struct steps *steps;
	int ret;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!moves && max)
		return -EINVAL;
	ret = enter_stream(pool, id, &steps, &stream);
	if (ret)
		return ret;
	if (!stream->tables || nr_done > steps->nr_relocations - stream->acked) {
		ret = -EINVAL;
	} else if (nr_done && stream->open) {
		ret = -EBUSY;
	} else {
		stream->acked += nr_done;
		ret = min(steps->nr_relocations - stream->acked, (u64)max);
	}
	for (int i = 0; i < ret; i++)
		moves[i] = relocation_at(steps, stream->acked + i)->move;
	kv_unlock(&steps->lock);
	if (nr_done && ret >= 0)
		steps_settle(pool);
	return ret;
}

/* ---- standing still ---- */

int steps_stand_still(struct kvmm_pool *pool)
{
	struct steps *steps = steps_of(pool);
	int err;

	kv_assert_held(&pool->compact_lock);
	if (likely(!steps))
		return 0;
	if (steps->nr_quiet)
		return -EBUSY;
	/* Work under way is not cancelled for a caller that is refused anyway. */
	kv_lock(&steps->lock);
	err = steps_are_open(steps) ? -EBUSY : 0;
	kv_unlock(&steps->lock);
	if (err)
		return err;
	flights_cancel(pool);
	kv_lock(&steps->lock);
	err = steps_are_open(steps) ? -EBUSY : 0;
	for (u32 i = 0; i < KVMM_MAX_STREAMS && !err; i++)
		if (steps->stream[i].used)
			wait_for(pool, &steps->stream[i]);
	if (!err && nr_unread(steps) >= NR_RELOCATIONS)
		err = -EBUSY;
	if (err)
		kv_unlock(&steps->lock);
	return err;
}

void steps_let_go(struct kvmm_pool *pool)
{
	if (unlikely(steps_of(pool)))
		kv_unlock(&steps_of(pool)->lock);
}

static void steps_exit(struct kvmm_pool *pool)
{
	struct steps *steps = pool->steps;

	if (!steps)
		return;
	flights_exit(pool, steps);
	free_tables(&pool->transit);
	kv_free(steps->relocation);
	kv_free(steps);
}

/* ---- sealing, statistics ---- */

int kvmm_range_seal(struct kvmm_pool *pool, kvmm_range_t range, uint32_t nr)
{
	struct slot *slot;
	int err = range_enter(pool, range, &slot);

	if (err)
		return err;
	if (nr > slot->nr)
		err = -EINVAL;
	else if (nr)
		err = slot_reserve_side(pool, slot);
	if (!err && nr)
		slot_seal(slot, max(slot_sealed(slot), nr));
	pool_leave(pool);
	return err;
}

void step_stat_peek(struct kvmm_pool *pool, struct kvmm_step_stat *stat)
{
	const struct steps *steps = steps_of(pool);

	if (steps) {
		kv_peek_copy(stat, &steps->stat, sizeof(*stat));
		stat->nr_streams = kv_peek(&steps->nr_streams);
		stat->steps = kv_peek(&steps->nr_steps);
	}
	for (u32 i = 0; steps && i < KVMM_MAX_STREAMS; i++)
		stat->nr_open += kv_peek(&steps->stream[i].used) && kv_peek(&steps->stream[i].open);
	stat->unseen_blocks = kv_peek(&pool->nr_unseen);
	stat->is_blind = READ_ONCE(pool->blind) != 0;
}

int step_stat_read(struct kvmm_pool *pool, void *stat)
{
	struct steps *steps = steps_of(pool);

	if (!steps) {
		step_stat_peek(pool, stat);
		return 0;
	}
	kv_lock(&steps->lock);
	kv_lock(&pool->lock);
	step_stat_peek(pool, stat);
	kv_unlock(&pool->lock);
	kv_unlock(&steps->lock);
	return 0;
}

POOL_PART(steps) = {
	.name	= "steps",
	.exit	= steps_exit,
	.bytes	= steps_bytes,
};
