// SPDX-License-Identifier: Apache-2.0
/*
 * Who runs next.
 *
 * By default nothing runs by itself: whoever waits or asks executes pieces of work, and dice with a
 * fixed seed choose the stream for each piece among those whose first operation can run. Now and
 * then one stream is held up for a while, since even odds alone keep streams close together. The
 * same calls with the same seed give the same run, on any machine.
 *
 * In threaded mode each stream has a thread, and bytes move without the lock.
 */
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define STALL_ODDS	16		/* one piece in so many begins a hold-up */
#define STALL_PIECES	48
#define PATIENCE_MS	200		/* for a host thread to write what a stream waits for */
#define NS_PER_SEC	1000000000ull

static u32 stalled_slot, stall_left;

static u64 mix(u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

u64 sw_random(void)
{
	sw.rng += 0x9e3779b97f4a7c15ull;
	return mix(sw.rng);
}

u32 sw_below(u32 n)
{
	return (sw_random() >> 32) * n >> 32;
}

void sw_sched_reset(void)
{
	stalled_slot = 0;
	stall_left = 0;
}

/* ---- One piece of work ---- */

static void charge(struct sw_op *op)
{
	struct sw_stream *stream = op->stream;
	u64 start = max(stream->ns, op->queued_ns);

	if (op->engine >= 0)
		start = max(start, stream->dev->engine_ns[op->engine]);
	stream->ns = start + op->cost_ns;
	if (op->engine >= 0)
		stream->dev->engine_ns[op->engine] = stream->ns;
}

/* Declares what it touches: races are found now, whatever the pieces do later. */
static void begin(struct sw_op *op)
{
	struct sw_access_list list = { .op = op };
	struct sw_stream *stream = op->stream;

	op->begun = true;
	sw_clock_join(&stream->clock, &op->host);
	stream->clock.t[stream->slot]++;
	if (op->ops->touch && !op->fault && !stream->dev->sticky)
		op->ops->touch(op, &list);
	if (op->cost_by_bytes)
		op->cost_ns += sw_copy_ns(list.nr_written, sw.opt.gbps_local);
	charge(op);
	if (list.rc)
		op->fault = list.rc;
}

static void nap(u64 ns)
{
	struct timespec time = { ns / NS_PER_SEC, ns % NS_PER_SEC };

	sw_unlock();
	nanosleep(&time, NULL);
	sw_lock();
}

static void finish(struct sw_op *op)
{
	struct sw_stream *stream = op->stream;

	if (op->fault)
		sw_dev_fail(stream->dev, op->fault);
	stream->first = op->next;
	if (!stream->first)
		stream->last = &stream->first;
	sw.count.nr_done++;
	sw_op_free(op);
}

/* Drops and retakes the lock where the operation or sleep=1 says so. */
static void execute(struct sw_stream *stream)
{
	struct sw_op *op = stream->first;
	bool done;

	stream->busy = true;
	sw.count.nr_steps++;
	sw.count.trace = mix(sw.count.trace ^ sw.rng ^ op->seq << 8 ^ stream->slot);
	if (!op->begun)
		begin(op);
	done = op->fault || stream->dev->sticky || op->ops->step(op);
	if (done && sw.opt.sleep && op->cost_ns)
		nap(op->cost_ns);
	stream->busy = false;
	if (done)
		finish(op);
	sw_changed();
	sw_stream_reap(stream);
}

static bool can_run(const struct sw_stream *stream)
{
	struct sw_op *op = stream ? stream->first : NULL;

	if (!op || stream->busy)
		return false;
	return !op->ops->ready || stream->dev->sticky || op->fault || op->ops->ready(op);
}

/* ---- By dice ---- */


static struct sw_stream *pick(void)
{
	struct sw_stream *can[SW_NR_SLOTS];
	u32 nr = 0, stalled = SW_NR_SLOTS, i;

	for (i = 1; i < SW_NR_SLOTS; i++) {
		if (!can_run(sw.stream[i]))
			continue;
		if (stall_left && i == stalled_slot)
			stalled = nr;
		can[nr++] = sw.stream[i];
	}
	if (!nr)
		return NULL;
	i = sw_below(nr);
	if (i == stalled && nr > 1)
		i = (i + 1) % nr;
	if (!stall_left && !sw_below(STALL_ODDS)) {
		stalled_slot = can[sw_below(nr)]->slot;
		stall_left = sw_below(STALL_PIECES);
	}
	return can[i];
}

bool sw_step(void)
{
	struct sw_stream *stream = sw.opt.threads ? NULL : pick();

	if (!stream)
		return false;
	stall_left -= stall_left > 0;
	execute(stream);
	return true;
}

void sw_steps(u32 nr)
{
	while (nr-- && sw_step())
		;
}

static bool somebody_works(void)
{
	if (sw.opt.threads)
		return true;
	for (u32 i = 1; i < SW_NR_SLOTS; i++)
		if (sw.stream[i] && sw.stream[i]->busy)
			return true;
	return false;
}

kcu_result sw_wait(bool (*done)(void *arg), void *arg)
{
	u32 idle_ms = 0;

	while (!done(arg)) {
		if (somebody_works()) {
			pthread_cond_wait(&sw.changed, &sw.lock);
		} else if (sw_step()) {
			idle_ms = 0;
		} else if (idle_ms++ < PATIENCE_MS) {
			nap(1000000);
		} else {
			sw_report(SW_REPORT_DEADLOCK, "the host waits and no stream can run");
			return KCU_E_LAUNCH_TIMEOUT;
		}
	}
	return KCU_E_SUCCESS;
}

/* ---- By threads ---- */

void sw_changed(void)
{
	pthread_cond_broadcast(&sw.changed);
}

/* Memory that a stream waits for is written without a word to us: look again after a while. */
static void wait_for_work(const struct sw_stream *stream)
{
	struct timespec until;

	if (!stream->first) {
		pthread_cond_wait(&sw.changed, &sw.lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += 1000000;
	until.tv_sec += until.tv_nsec / NS_PER_SEC;
	until.tv_nsec %= NS_PER_SEC;
	pthread_cond_clockwait(&sw.changed, &sw.lock, CLOCK_MONOTONIC, &until);
}

static void *worker(void *arg)
{
	struct sw_stream *stream = arg;

	sw_lock();
	while (stream->first || !stream->dying || stream->nr_waiters) {
		if (can_run(stream))
			execute(stream);
		else
			wait_for_work(stream);
	}
	if (!stream->joined)
		pthread_detach(pthread_self());
	stream->has_thread = false;
	sw_stream_reap(stream);
	sw_unlock();
	return NULL;
}

int sw_worker_start(struct sw_stream *stream)
{
	int err;

	if (!sw.opt.threads)
		return 0;
	err = pthread_create(&stream->thread, NULL, worker, stream);
	stream->has_thread = !err;
	return -err;
}

/* ---- The end of all streams ---- */

static void drop_queue(struct sw_stream *stream)
{
	struct sw_op *op = stream->first;

	/* Somebody is at the first one, and will find it to be the last. */
	if (stream->busy) {
		struct sw_op *rest = op->next;

		op->next = NULL;
		stream->last = &op->next;
		op = rest;
	} else {
		stream->first = NULL;
		stream->last = &stream->first;
	}
	while (op) {
		struct sw_op *next = op->next;

		sw_op_free(op);
		op = next;
	}
}

/* Drops and retakes the lock. */
static void end(struct sw_stream *stream)
{
	pthread_t thread = stream->thread;
	bool join = stream->has_thread;

	drop_queue(stream);
	stream->dying = true;
	stream->joined = join;
	sw_changed();
	if (!join) {
		sw_stream_reap(stream);
		return;
	}
	sw_unlock();
	pthread_join(thread, NULL);
	sw_lock();
}

void sw_streams_exit(void)
{
	for (u32 i = 1; i < SW_NR_SLOTS; i++)
		if (sw.stream[i])
			end(sw.stream[i]);
}
