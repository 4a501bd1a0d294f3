// SPDX-License-Identifier: Apache-2.0
/*
 * Migrations: the phases, which are the same wherever the destination is.
 *
 *	PREPARE -> WAIT -> COPYING -> VERIFY -> COMMIT -> GRACE -> DONE
 *	   |         |        |          |        |
 *	   +---------+--------+----------+--------+--> CANCELLING -> CANCELLED, FAILED
 *
 * With KVMM_MIGRATE_PRECOPY the source is still written, in places: VERIFY is followed by WAIT, for
 * what was sealed meanwhile, until it is written no more, and all the rest goes.
 *
 * Up to COMMIT the source is as it was and the destination is hidden; from then on the
 * destination is good, and the source is only waited for. A poll does one phase after the other
 * until one of them has to wait.
 */
#include <stdio.h>
#include <string.h>

#include <kv/buf.h>
#include <kv/env.h>
#include <kv/err.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kvmm/ext/moves.h>

#include "job.h"
#include "store.h"

#define DEFAULT_CHUNK_BYTES	(16ull << 20)
#define MIN_SLEEP_NS		20000ull
#define MAX_SLEEP_NS		1000000ull
#define ALL_FLAGS		(KVMM_MIGRATE_COPY | KVMM_MIGRATE_BACKGROUND | \
				 KVMM_MIGRATE_NO_EVICT | KVMM_MIGRATE_IDLE_ONLY | \
				 KVMM_MIGRATE_KEEP_LINK | KVMM_MIGRATE_PRECOPY | \
				 KVMM_MIGRATE_ANY)

/* ---- phases ---- */

static void set_phase(struct kvmm_migrate *job, u32 phase)
{
	u64 now = kv_clock_ns();

	job->phase_ns[job->phase] += now - min(job->since_ns, now);
	job->since_ns = now;
	job->phase = phase;
	job->has_epoch = false;
	job->has_fence = false;
	job->is_listed = false;
}

int quiet_poll(struct kvmm_pool *pool, const struct kv_pool_view *view, struct kv_fence *fence,
	       bool *has_fence)
{
	int err;

	if (!view->dev)
		return 0;
	if (!*has_fence) {
		err = kv_pool_signal(pool, fence);
		if (err == -EBUSY)	/* a graph is being captured: later */
			return -EINPROGRESS;
		if (err)
			return err;
		*has_fence = true;
	}
	err = fence->id ? view->ops->poll(view->dev, *fence) : 0;
	return err == -EAGAIN ? -EINPROGRESS : err;
}

/* Have the steps ended that were open, or on the device, when it was asked first? */
static bool steps_have_ended(struct kvmm_migrate *job)
{
	if (!job->has_epoch)
		job->epoch = kv_pool_epoch_begin(job->goods.pool);
	job->has_epoch = true;
	return kv_pool_steps_passed(job->goods.pool, job->epoch);
}

static int do_prepare(struct kvmm_migrate *job)
{
	int err = goods_hold(&job->goods);

	if (err == -EBUSY && !job->goods.nr_ranges) {	/* a block is on the move, or looked at */
		kvmm_compact_poll(job->goods.pool);
		return -EINPROGRESS;
	}
	return err ? err : job->ops->prepare(job);
}

/* What goes in this turn, before the fence behind all that was written there: 0; -EINPROGRESS there
 * is nothing new, and there may be; or an error. */
static int list_goods(struct kvmm_migrate *job)
{
	u32 nr_before = job->goods.list.nr;
	int err;

	if (job->is_listed)
		return 0;
	job->is_last = job->is_stopped;
	if (job->is_last && !goods_are_sealed(&job->goods) && !steps_have_ended(job))
		return -EINPROGRESS;
	err = job->goods.flags & KVMM_MIGRATE_PRECOPY ? goods_list(&job->goods, job->is_last) : 0;
	if (!err && !job->is_last && job->goods.list.nr == nr_before)
		return -EINPROGRESS;
	job->is_listed = !err;
	return err;
}

static int do_wait(struct kvmm_migrate *job)
{
	int err = job->ops->wait(job);

	if (!err)
		err = list_goods(job);
	return err ? err : quiet_poll(job->goods.pool, &job->goods.view, &job->fence,
				      &job->has_fence);
}

static int do_grace(struct kvmm_migrate *job)
{
	if (!(job->goods.flags & KVMM_MIGRATE_COPY) && !steps_have_ended(job))
		return -EINPROGRESS;
	/* Failures here do not make the destination worse. */
	job->err = goods_end(&job->goods);
	return 0;
}

static int do_phase(struct kvmm_migrate *job)
{
	switch (job->phase) {
	case KVMM_MIGRATE_PREPARE:
		return do_prepare(job);
	case KVMM_MIGRATE_WAIT:
		return do_wait(job);
	case KVMM_MIGRATE_COPYING:
		return job->ops->copy(job);
	case KVMM_MIGRATE_VERIFY:
		return job->ops->verify(job);
	case KVMM_MIGRATE_COMMIT:
		return job->ops->commit(job);
	case KVMM_MIGRATE_GRACE:
		return do_grace(job);
	default:
		return job->ops->undo(job);
	}
}

static bool has_ended(const struct kvmm_migrate *job)
{
	return job->phase == KVMM_MIGRATE_DONE || job->phase >= KVMM_MIGRATE_CANCELLED;
}

static void give_up(struct kvmm_migrate *job, int err)
{
	job->err = err;
	set_phase(job, KVMM_MIGRATE_CANCELLING);
}

/* 0: another phase has begun. */
static int step(struct kvmm_migrate *job)
{
	int err = do_phase(job);

	if (err == -EINPROGRESS)
		return err;
	if (job->phase == KVMM_MIGRATE_CANCELLING) {
		if (!job->in_doubt)
			goods_drop(&job->goods);
		set_phase(job, job->err == -ECANCELED ? KVMM_MIGRATE_CANCELLED :
							KVMM_MIGRATE_FAILED);
	} else if (err) {
		give_up(job, err);
	} else if (job->phase == KVMM_MIGRATE_VERIFY && !job->is_last) {
		set_phase(job, KVMM_MIGRATE_WAIT);
	} else {
		if (job->phase == KVMM_MIGRATE_COMMIT)
			job->stop_ns = kv_ns_since(job->stop_ns);
		set_phase(job, job->phase + 1);
	}
	return 0;
}

int kvmm_migrate_wait(struct kvmm_migrate *job, uint64_t timeout_ns)
{
	u64 end = timeout_ns ? kv_ns_after(kv_clock_ns(), timeout_ns) : 0;
	u64 sleep_ns = MIN_SLEEP_NS;
	u32 word = 0;

	if (!job)
		return -EINVAL;
	if (kv_pool_refusal(job->goods.pool) == -ECHILD)
		return -ECHILD;
	while (!has_ended(job)) {
		if (!step(job))
			continue;
		if (!timeout_ns || kv_clock_ns() >= end)
			return -EINPROGRESS;
		kv_env()->wait(kv_env()->ctx, &word, 0, sleep_ns);
		sleep_ns = min(2 * sleep_ns, MAX_SLEEP_NS);
	}
	return job->err;
}

/* ---- the calls ---- */

static int check_attr(const struct kvmm_migrate_attr *attr)
{
	int err;

	if (!attr->src || !attr->dst == !attr->target || attr->what >= KVMM_NR_MIGRATE_WHATS ||
	    attr->flags & ~ALL_FLAGS || attr->max_runs > KVMM_MAX_RUNS ||
	    ((attr->key_file || attr->after || attr->label ||
	      attr->flags & (KVMM_MIGRATE_KEEP_LINK | KVMM_MIGRATE_ANY)) && !attr->target) ||
	    (attr->after && attr->flags & KVMM_MIGRATE_ANY) ||
	    (attr->flags & KVMM_MIGRATE_PRECOPY && attr->what > KVMM_MIGRATE_SEQ) ||
	    (attr->target && !kv_name_is_good("target", attr->target, SIZE_MAX)))
		return -EINVAL;
	err = attr->target ? check_target(attr->target, attr->flags & KVMM_MIGRATE_ANY) : 0;
	return err ? err : kv_pool_refusal(attr->src);
}

static int init_job(struct kvmm_migrate *job, const struct kvmm_migrate_attr *attr)
{
	int err;

	job->chunk_bytes = attr->chunk_bytes ? attr->chunk_bytes : DEFAULT_CHUNK_BYTES;
	job->copy_flags = attr->flags & KVMM_MIGRATE_BACKGROUND ? KV_COPY_BACKGROUND : 0;
	job->since_ns = job->stop_ns = kv_clock_ns();
	job->is_stopped = !(attr->flags & KVMM_MIGRATE_PRECOPY);
	job->attempts = 1;
	err = goods_init(&job->goods, attr);
	if (err)
		return err;
	/* Last: it may take the link of another job, which is that one's again after no failure. */
	err = attr->dst ? local_init(job, attr) : remote_init(job, attr);
	if (err)
		goods_exit(&job->goods);
	return err;
}

int kvmm_migrate_start(const struct kvmm_migrate_attr *attr, struct kvmm_migrate **result)
{
	struct kvmm_migrate_attr known;
	struct kvmm_migrate *job;
	int err;

	kv_why_clear();
	if (!attr || !result)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (!err)
		err = check_attr(&known);
	if (err)
		return err;
	job = kv_alloc(sizeof(*job));
	if (!job)
		return -ENOMEM;
	err = init_job(job, &known);
	if (err)
		kv_free(job);
	else
		*result = job;
	return err;
}

static int cancel(struct kvmm_migrate *job)
{
	if (job->in_doubt && !has_ended(job))
		return -EINPROGRESS;
	if (job->phase >= KVMM_MIGRATE_GRACE)
		return -EALREADY;
	give_up(job, -ECANCELED);
	return 0;
}

static int resume(struct kvmm_migrate *job)
{
	int err;

	if (job->phase != KVMM_MIGRATE_FAILED)
		return -EINVAL;
	if (job->goods.flags & KVMM_MIGRATE_PRECOPY)	/* from the begin */
		goods_unlist(&job->goods);
	err = goods_hold(&job->goods);
	if (err && (err != -EBUSY || job->goods.nr_ranges))
		return err;
	err = job->ops->resume ? job->ops->resume(job) : 0;
	if (err) {
		if (!job->in_doubt)
			goods_drop(&job->goods);
		return err;
	}
	if (!job->in_doubt) {
		job->is_stopped = !(job->goods.flags & KVMM_MIGRATE_PRECOPY);
		job->stop_ns = kv_clock_ns();
	}
	job->err = 0;
	job->attempts++;
	set_phase(job, KVMM_MIGRATE_PREPARE);
	return 0;
}

static int finish(struct kvmm_migrate *job)
{
	if (!(job->goods.flags & KVMM_MIGRATE_PRECOPY))
		return -EINVAL;
	if (has_ended(job))
		return -EALREADY;
	if (job->is_stopped)
		return 0;
	job->is_stopped = true;
	job->stop_ns = kv_clock_ns();
	job->nr_stop = job->goods.list.nr;
	return 0;
}

int kvmm_migrate_steer(struct kvmm_migrate *job, enum kvmm_migrate_order order)
{
	if (kv_inherited(job))
		return -ECHILD;
	if (!job)
		return -EINVAL;
	switch (order) {
	case KVMM_MIGRATE_ORDER_CANCEL:
		return cancel(job);
	case KVMM_MIGRATE_ORDER_RESUME:
		return resume(job);
	case KVMM_MIGRATE_ORDER_FINISH:
		return finish(job);
	}
	return -EINVAL;
}

void kvmm_migrate_free(struct kvmm_migrate *job)
{
	if (!job || kv_inherited(job))
		return;
	if (job->phase == KVMM_MIGRATE_GRACE)
		goods_end(&job->goods);
	job->ops->free(job);
	goods_exit(&job->goods);
	kv_free(job);
}

/* ---- looking ---- */

static u64 stood_still(const struct kvmm_migrate *job)
{
	if (job->phase == KVMM_MIGRATE_GRACE || job->phase == KVMM_MIGRATE_DONE)
		return job->stop_ns;
	return job->is_stopped && !has_ended(job) ? kv_ns_since(job->stop_ns) : 0;
}

int kvmm_migrate_get_status_sized(const struct kvmm_migrate *job,
				  struct kvmm_migrate_status *status,
				  size_t size)
{
	struct kvmm_migrate_status now;
	u32 nr;

	if (kv_inherited(job))
		return -ECHILD;
	if (!job || kv_size_is_bad(status, size))
		return -EINVAL;
	nr = job->goods.list.nr;	/* 0 after a resume that has failed */
	now = (struct kvmm_migrate_status){
		.phase = job->phase, .error = job->err, .attempts = job->attempts,
		.nr_blocks = nr, .in_doubt = job->in_doubt, .fd = -1,
		.nr_stop = job->is_stopped ? nr - min(job->nr_stop, nr) : 0,
		.stop_ns = stood_still(job),
	};
	job->ops->status(job, &now);
	now.bytes = now.nr_copied * job->goods.view.block_bytes;
	memcpy(now.phase_ns, job->phase_ns, sizeof(job->phase_ns));
	if (!has_ended(job))
		now.phase_ns[job->phase] += kv_ns_since(job->since_ns);
	kv_give(status, size, &now, sizeof(now));
	return 0;
}

/* 0 and its store, if there is something to be had. */
static int committed_store(const struct kvmm_migrate *job, struct store **store)
{
	if (!job)
		return -EINVAL;
	if (!job->local)
		return -EREMOTE;
	*store = local_store((struct kvmm_migrate *)job);
	return (*store)->state == STORE_PUBLISHED ? 0 : -EAGAIN;
}

static int give_refs(struct store *store, kvmm_ref_t *refs, u32 max)
{
	if (!refs || !store->nr_refs)
		return store->nr_refs;
	if (max < store->nr_refs)
		return -EINVAL;
	if (store->taken)
		return -EALREADY;
	memcpy(refs, store->ref, store->nr_refs * sizeof(*refs));
	store->taken = true;
	return store->nr_refs;
}

static int give_moves(const struct kvmm_migrate *job, struct store *store,
		      struct kvmm_relocation *moves, u32 max)
{
	const u32 *src = job->goods.list.block, *dst = store->list.block;
	u32 nr = 0;

	for (u32 at = 0, run; at < job->goods.list.nr; at += run, nr++) {
		for (run = 1; at + run < job->goods.list.nr && src[at + run] == src[at] + run &&
			      dst[at + run] == dst[at] + run;)
			run++;
		if (nr < max && moves)
			moves[nr] = (struct kvmm_relocation){ src[at], dst[at], run, 0 };
	}
	return nr;
}

static int give_target(const struct kvmm_migrate *job, char *out, u32 max)
{
	const char *target = job && job->remote ? remote_target(job) : NULL;

	if (!target)
		return job && job->remote ? -EAGAIN : -EINVAL;
	if (out && max)
		snprintf(out, max, "%s", target);
	return strlen(target);
}

int kvmm_migrate_result(struct kvmm_migrate *job, enum kvmm_migrate_got what, void *out,
			uint32_t max)
{
	struct store *store;
	int err;

	if (kv_inherited(job))
		return -ECHILD;
	if ((u32)what > KVMM_MIGRATE_GOT_TARGET)
		return -EINVAL;
	if (what == KVMM_MIGRATE_GOT_TARGET)
		return give_target(job, out, max);
	err = committed_store(job, &store);
	if (err)
		return err;
	switch (what) {
	case KVMM_MIGRATE_GOT_RANGES:
		if (out)
			memcpy(out, store->range,
			       min(store->nr_ranges, max) * sizeof(*store->range));
		return store->nr_ranges;
	case KVMM_MIGRATE_GOT_REFS:
		return give_refs(store, out, max);
	case KVMM_MIGRATE_GOT_MOVES:
		return give_moves(job, store, out, max);
	case KVMM_MIGRATE_GOT_TARGET:
		break;
	}
	return -EINVAL;
}
