// SPDX-License-Identifier: Apache-2.0
/*
 * Fences: which work is done, and whether it may be believed.
 *
 * Work has failed if its own calls did, or if any call on the device has failed between the moment
 * before it was queued and the moment when its end was seen: the failure may have been the work's
 * (internal.h, rule 6).
 *
 * A fence is a number; its event and status live in a ring. A slot is reused when its work is
 * done, and then only one bit of news can be lost: that it had failed. So the highest number among
 * those is kept, and every fence up to it that has left the ring counts as failed. That is unfair
 * to some, and never wrong: no caller reads what may be garbage.
 *
 * The driver can fail to record an event, or to tell about it. Then the stream is waited for; if
 * not even that works the device is blind: what it may still write to is unknown. Until a thread
 * that gives memory back manages to wait for all there is, nothing is begun and nothing given back.
 */
#include <kv/env.h>
#include <kv/log.h>

#include "engine.h"

#define MIN_NAP_NS	1000ull
#define MAX_NAP_NS	100000ull
#define SETTLE_TRIES	16u
#define SPIN_QUERIES	64u
#define ENTER_TRIES	3u

/* ---- entering ---- */

int kv_dev_enter_surely(struct kv_dev *dev, struct kv_gpu_scope *scope)
{
	int err = -EIO;

	for (u32 i = 0; i < ENTER_TRIES && err && err != -ECHILD; i++)
		err = kv_gpu_enter_relaxed(dev->gpu, scope);
	return err;
}

int kv_dev_begin(struct kv_dev *dev, struct kv_gpu_scope *scope)
{
	int err = kv_gpu_enter_relaxed(dev->gpu, scope);

	if (err)
		return err;
	kv_lock(&dev->lock);
	if (!kv_dev_is_blind(dev))
		return 0;
	kv_dev_end(dev, scope);
	return -EIO;
}

void kv_dev_end(struct kv_dev *dev, struct kv_gpu_scope *scope)
{
	kv_assert_held(&dev->lock);
	kv_unlock(&dev->lock);
	kv_gpu_leave(dev->gpu, scope);
}

/* ---- the end of work ---- */

static void go_blind(struct kv_dev *dev)
{
	/* All have been told of a lost device. */
	if (kv_xchg_acquire(&dev->is_blind, 1) || kv_gpu_ready(dev->gpu))
		return;
	kv_log(KV_LOG_ERR, "kvmm: gpu %d: cannot see the end of work, no more is begun",
	       dev->gpu->ordinal);
}

static void nap(u64 ns)
{
	u32 word = 0;

	kv_env()->wait(kv_env()->ctx, &word, 0, ns);
}

/*
 * The end is asked for again and again. A call that slept until it is there may be told of other
 * work while that is looked at, and would not have counted it yet.
 */
static void nap_between(u32 nr_asked)
{
	if (nr_asked > SPIN_QUERIES)
		nap(min((u64)nr_asked * MIN_NAP_NS, MAX_NAP_NS));
}

static int wait_for_stream(struct kv_dev *dev, kcu_stream stream)
{
	int err;

	for (u32 i = 0; (err = kv_gpu_call(dev->gpu, stream_query, stream)) == -EAGAIN; i++)
		nap_between(i);
	return err;
}

/* More than once: other work may fail, and the memory that the device writes to is the caller's. */
int kv_stream_settle(struct kv_dev *dev, kcu_stream stream)
{
	for (u32 i = 0; i < SETTLE_TRIES && !kv_gpu_ready(dev->gpu); i++)
		if (!wait_for_stream(dev, stream))
			return 0;
	go_blind(dev);
	return -EIO;
}

int kv_event_settle(struct kv_dev *dev, kcu_event event, kcu_stream stream)
{
	int err;

	for (u32 i = 0; (err = kv_gpu_call(dev->gpu, event_query, event)) == -EAGAIN; i++)
		nap_between(i);
	return err ? kv_stream_settle(dev, stream) : 0;
}

/*
 * Streams of the engine are not ours to wait for, and may be gone: each event without a seen end
 * is asked. While the device is blind new ones are only given to callers that have reserved them.
 */
static bool events_are_over(struct kv_dev *dev)
{
	for (u32 i = 0; i < KV_NR_FENCES; i++) {
		const struct fence *slot = &dev->fence[i];

		if (!READ_ONCE(slot->id) || (READ_ONCE(slot->is_done) && !READ_ONCE(slot->status)))
			continue;
		if (kv_gpu_call(dev->gpu, event_query, slot->event))
			return false;
	}
	return true;
}

/*
 * Whether all that we submitted has come to its end: only then may memory get another owner. The
 * device is not blind any more if all that we were asked to watch has, too.
 */
bool kv_dev_sees_end(struct kv_dev *dev)
{
	if (!kv_dev_is_blind(dev))
		return true;
	if (wait_for_stream(dev, dev->gpu->compact) || wait_for_stream(dev, dev->gpu->transfer))
		return false;
	if (events_are_over(dev))
		WRITE_ONCE(dev->is_blind, 0);
	return true;
}

int kv_fence_sees_end(struct kv_dev *dev)
{
	struct kv_gpu_scope scope;
	int err = kv_gpu_ready(dev->gpu);

	if (err || !kv_dev_is_blind(dev))
		return err;
	if (kv_gpu_enter_relaxed(dev->gpu, &scope))
		return kv_gpu_ready(dev->gpu) ? -EIO : -EAGAIN;
	if (kv_gpu_call(dev->gpu, stream_query, dev->gpu->compact) ||
	    kv_gpu_call(dev->gpu, stream_query, dev->gpu->transfer) || !events_are_over(dev))
		err = kv_gpu_ready(dev->gpu) ? -EIO : -EAGAIN;
	else
		WRITE_ONCE(dev->is_blind, 0);
	kv_gpu_leave(dev->gpu, &scope);
	return err;
}

/* ---- the ring ---- */

static struct fence *slot_of(struct kv_dev *dev, u64 id)
{
	return &dev->fence[id % KV_NR_FENCES];
}

static bool is_in_doubt(const struct kv_dev *dev, const struct fence *slot)
{
	return slot->doubts != kv_gpu_doubts(dev->gpu);
}

/* The work behind @slot has come to its end, one way or another. */
static void finish(struct kv_dev *dev, struct fence *slot, int err)
{
	kv_assert_held(&dev->lock);
	if (slot->is_done)
		return;
	if (!err)
		kv_gpu_settle_calls(dev->gpu);
	/* Looked at without the lock by events_are_over(), which is wrong on the safe side only. */
	if (err || is_in_doubt(dev, slot))
		WRITE_ONCE(slot->status, -EIO);
	WRITE_ONCE(slot->is_done, true);
	dev->count.nr_failed += slot->status != 0;
}

struct fence *kv_fence_reserve(struct kv_dev *dev)
{
	struct fence *slot = slot_of(dev, dev->last_id + 1);

	kv_assert_held(&dev->lock);
	if (slot->id && !slot->is_done) {
		dev->count.nr_stalls++;
		finish(dev, slot, kv_event_settle(dev, slot->event, slot->stream));
	}
	dev->doubts = kv_gpu_doubts(dev->gpu);
	dev->is_tied = false;
	return kv_dev_is_blind(dev) ? NULL : slot;
}

void kv_fence_again(struct kv_dev *dev)
{
	kv_assert_held(&dev->lock);
	if (!dev->is_tied)
		dev->doubts = kv_gpu_doubts(dev->gpu);
}

/* A slot of its own for work that was recorded, or is about to be. */
static struct kv_fence give_out(struct kv_dev *dev, struct fence *slot, kcu_stream stream)
{
	kv_assert_held(&dev->lock);
	if (slot->status)
		dev->lost_id = slot->id;
	WRITE_ONCE(slot->is_done, false);
	WRITE_ONCE(slot->id, ++dev->last_id);
	slot->stream = stream;
	slot->doubts = dev->doubts;
	WRITE_ONCE(slot->status, 0);
	return (struct kv_fence){ .id = slot->id };
}

struct kv_fence kv_fence_commit(struct kv_dev *dev, struct fence *slot, kcu_stream stream,
				int status)
{
	struct kv_fence fence = give_out(dev, slot, stream);

	WRITE_ONCE(slot->status, status);
	if (kv_gpu_call(dev->gpu, event_record, slot->event, stream))
		finish(dev, slot, kv_stream_settle(dev, stream));
	return fence;
}

/* 0: complete; -EAGAIN: as far as we know it is not, and *@slot is there; -EIO, -EINVAL. */
static int look(struct kv_dev *dev, u64 id, struct fence **slot)
{
	kv_assert_held(&dev->lock);
	if (!id)
		return 0;
	if (id > dev->last_id)
		return -EINVAL;
	*slot = slot_of(dev, id);
	if ((*slot)->id != id)
		return id <= dev->lost_id ? -EIO : 0;
	return (*slot)->is_done ? (*slot)->status : -EAGAIN;
}

int kv_fence_order(struct kv_dev *dev, kcu_stream stream, struct kv_fence after)
{
	struct fence *slot;
	int err = look(dev, after.id, &slot);

	if (err != -EAGAIN)
		return err;
	/* A fence that is known to fail need not be complete to be refused. */
	if (slot->status || is_in_doubt(dev, slot))
		return -EIO;
	dev->is_tied = true;
	/* A stream does one thing after the other anyway. */
	if (slot->stream == stream)
		return 0;
	err = kv_gpu_call(dev->gpu, stream_wait_event, stream, slot->event, 0);
	/* As if the stream had refused: the caller has done nothing yet. */
	return err == -EAGAIN ? -EIO : err;
}

int kv_fence_create(struct kv_dev *dev)
{
	for (u32 i = 0; i < KV_NR_FENCES; i++) {
		int err = kv_gpu_call(dev->gpu, event_create, &dev->fence[i].event,
				      KCU_EVENT_DISABLE_TIMING);

		if (err)
			return err;
	}
	return 0;
}

void kv_fence_destroy(struct kv_dev *dev)
{
	for (u32 i = 0; i < KV_NR_FENCES; i++) {
		struct fence *slot = &dev->fence[i];

		if (slot->id && !slot->is_done)
			finish(dev, slot, kv_event_settle(dev, slot->event, slot->stream));
		if (slot->event)
			kv_gpu_call(dev->gpu, event_destroy, slot->event);
	}
}

/* ---- the caller's streams ---- */

int kv_fence_signal(struct kv_dev *dev, void *stream, struct kv_fence *fence)
{
	struct kv_gpu_scope scope;
	struct fence *slot;
	int err = kv_dev_begin(dev, &scope);

	if (err)
		return err;
	slot = kv_fence_reserve(dev);
	err = slot ? kv_gpu_check_stream(dev->gpu, stream) : -EIO;
	if (!err)
		err = kv_gpu_call(dev->gpu, event_record, slot->event, stream);
	if (!err)
		*fence = give_out(dev, slot, stream);
	kv_dev_end(dev, &scope);
	return err;
}

int kv_fence_stall(struct kv_dev *dev, void *stream, struct kv_fence fence)
{
	struct kv_gpu_scope scope;
	int err = kv_dev_begin(dev, &scope);

	if (err)
		return err;
	err = kv_gpu_check_stream(dev->gpu, stream);
	if (!err)
		err = kv_fence_order(dev, stream, fence);
	kv_dev_end(dev, &scope);
	return err;
}

int kv_fence_join(struct kv_dev *dev, const struct kv_fence *fences, u32 nr,
		  struct kv_fence *fence)
{
	struct kv_gpu_scope scope;
	struct fence *slot;
	int err = kv_dev_begin(dev, &scope);

	if (err)
		return err;
	slot = kv_fence_reserve(dev);
	err = slot ? 0 : -EIO;
	for (u32 i = 0; i < nr && !err; i++)
		err = kv_fence_order(dev, dev->gpu->compact, fences[i]);
	if (!err)
		*fence = kv_fence_commit(dev, slot, dev->gpu->compact, 0);
	kv_dev_end(dev, &scope);
	return err;
}

/* ---- waiting ---- */

/*
 * The event is looked at without the lock. If the slot is reused meanwhile then its former work was
 * done, and a wait for its successor in the slot is only late.
 */
struct watched {
	kcu_event event;
	kcu_stream stream;
};

static int watch(struct kv_dev *dev, u64 id, struct watched *watched)
{
	struct fence *slot;
	int status;

	kv_lock(&dev->lock);
	status = look(dev, id, &slot);
	if (status == -EAGAIN)
		*watched = (struct watched){ slot->event, slot->stream };
	kv_unlock(&dev->lock);
	return status;
}

/* The work that was watched has ended with @err. */
static int conclude(struct kv_dev *dev, u64 id, int err)
{
	struct fence *slot;
	int status;

	kv_lock(&dev->lock);
	status = look(dev, id, &slot);
	if (status == -EAGAIN) {
		finish(dev, slot, err);
		status = slot->status;
	}
	kv_unlock(&dev->lock);
	return status;
}

/* -EAGAIN: still running. Other failures may pass, or may be the work's own: the end will tell. */
static int query(struct kv_dev *dev, const struct watched *watched)
{
	int err = kv_gpu_call(dev->gpu, event_query, watched->event);

	if (!err || err == -EAGAIN)
		return err;
	return kv_event_settle(dev, watched->event, watched->stream);
}

static int ask(struct kv_dev *dev, u64 id,
	       int (*how)(struct kv_dev *dev, const struct watched *watched))
{
	struct watched watched;
	struct kv_gpu_scope scope;
	int err = watch(dev, id, &watched);

	if (err != -EAGAIN)
		return err;
	err = kv_dev_enter_surely(dev, &scope);
	if (err == -ECHILD)
		return err;
	if (err) {
		go_blind(dev);
	} else {
		err = how(dev, &watched);
		kv_gpu_leave(dev->gpu, &scope);
	}
	return err == -EAGAIN ? err : conclude(dev, id, err);
}

int kv_fence_poll(struct kv_dev *dev, struct kv_fence fence)
{
	return ask(dev, fence.id, query);
}

static int settle(struct kv_dev *dev, const struct watched *watched)
{
	return kv_event_settle(dev, watched->event, watched->stream);
}

int kv_fence_wait(struct kv_dev *dev, struct kv_fence fence)
{
	return ask(dev, fence.id, settle);
}
