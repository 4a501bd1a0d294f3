// SPDX-License-Identifier: Apache-2.0
/*
 * Low memory: blocks that are not used leave for another pool before requests need them.
 *
 * One portion at a time, and it is the only one that knows the source: cached blocks by references
 * of its own, sequences by the word of the engine that they are idle. An engine that wants one back
 * is told where it is, and until it has been told, neither this nor it touches the sequence. Of a
 * process that has not answered a commit nothing is known: it is asked again until it has.
 *
 * Lock: ->lock guards everything; it is held over copies and checksums, so a thread that only looks
 * waits for a portion at most. It is outside those of pools.
 */
#include <string.h>

#include <kv/env.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <kv/pool_migrate.h>
#include <kvmm/ext/migrate.h>

#include "job.h"

#define MAX_IDLE	4096u
#define MAX_COLD	1024u	/* of a portion: the order of eviction is locked meanwhile */
#define NS_PER_MS	1000000ull
#define DEFER_NS	(1000 * NS_PER_MS)	/* after a failure */
#define PATIENCE_NS	(30000 * NS_PER_MS)	/* with a process that does not answer */

/* All fields: ->lock. */
struct idle {
	u64 seq;
	bool gone;			/* it is in the other pool; waits for the engine to ask */
};

struct kvmm_migrate_auto {
	struct kvmm_migrate_auto_attr attr;	/* fixed at creation; strings are ours */

	struct kv_lock lock;
	u64 next_ns;			/* ->lock */
	bool is_active;			/* ->lock */
	struct kvmm_migrate *job;	/* ->lock */
	u64 job_seq;			/* ->lock; 0: cached blocks */
	u64 progress;			/* ->lock; of ->job, */
	u64 moved_ns;			/* ->lock; which is since then what it is */
	struct kvmm_migrate *last;	/* ->lock; that went to @target before: it has the link */
	struct kvmm_migrate_auto_stat stat;	/* ->lock */
	u32 nr_idle;			/* ->lock; entries, gone ones included */
	struct idle idle[MAX_IDLE];	/* ->lock; the oldest first */
	kvmm_weak_t weak[MAX_COLD];	/* ->lock */
	kvmm_ref_t ref[MAX_COLD];	/* ->lock */
};

/* ---- blocks that go ---- */

static struct kvmm_migrate_attr attr_of(const struct kvmm_migrate_auto *watch)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;

	attr.src = watch->attr.src;
	attr.dst = watch->attr.dst;
	attr.flags = watch->attr.flags;
	attr.target = watch->attr.target;
	attr.key_file = watch->attr.key_file;
	if (attr.dst || attr.flags & KVMM_MIGRATE_ANY)
		return attr;
	attr.after = watch->last;
	attr.flags |= KVMM_MIGRATE_KEEP_LINK;
	return attr;
}

/* 0 they are on their way; -ENOENT there are none. */
static int start_cold(struct kvmm_migrate_auto *watch, u32 nr)
{
	struct kvmm_migrate_attr attr = attr_of(watch);
	kvmm_ref_t *refs = watch->ref;
	u32 nr_refs = 0;
	int found, err;

	kv_assert_held(&watch->lock);
	found = kv_pool_coldest(watch->attr.src, min(nr, MAX_COLD), watch->weak);
	if (found <= 0)
		return found ? found : -ENOENT;
	/* The coldest last: so it is put first. */
	if (kvmm_upgrade_many(watch->attr.src, watch->weak, found, refs) < 0)
		return -ENOENT;
	for (int i = 0; i < found; i++)
		if (refs[i].gen)
			refs[nr_refs++] = refs[i];
	attr.what = KVMM_MIGRATE_REFS;
	attr.flags |= KVMM_MIGRATE_IDLE_ONLY;
	attr.refs = refs;
	attr.nr_refs = nr_refs;
	err = nr_refs ? kvmm_migrate_start(&attr, &watch->job) : -ENOENT;
	kvmm_put_many(watch->attr.src, refs, nr_refs);
	watch->job_seq = 0;
	return err;
}

static int start_idle(struct kvmm_migrate_auto *watch)
{
	struct kvmm_migrate_attr attr = attr_of(watch);
	int err = -ENOENT;

	kv_assert_held(&watch->lock);
	attr.what = KVMM_MIGRATE_SEQ;
	for (u32 i = 0; i < watch->nr_idle && err; i++) {
		attr.seq = watch->idle[i].seq;
		if (watch->idle[i].gone || kvmm_range_find_seq(attr.src, attr.seq, NULL, 0) <= 0)
			continue;
		watch->job_seq = attr.seq;
		err = kvmm_migrate_start(&attr, &watch->job);
		/* Else no process serves there, and others would not come there either. */
		if (attr.target && err != -EBUSY && err != -E2BIG && err != -EIO && err != -ESTALE)
			break;
	}
	return err;
}

/* ---- one portion ---- */

static struct idle *find_idle(struct kvmm_migrate_auto *watch, u64 seq)
{
	kv_assert_held(&watch->lock);
	for (u32 i = 0; i < watch->nr_idle; i++)
		if (watch->idle[i].seq == seq)
			return &watch->idle[i];
	return NULL;
}

/* The destination is full, or broken: that will not change at once. */
static void end_job(struct kvmm_migrate_auto *watch, int err)
{
	struct idle *idle = watch->job_seq ? find_idle(watch, watch->job_seq) : NULL;
	struct kvmm_migrate_status status;
	bool keeps_link = false;

	kv_assert_held(&watch->lock);
	if (!err) {
		kvmm_migrate_get_status(watch->job, &status);
		/* Of one in its grace the source is given back now: it is not polled any more. */
		keeps_link = watch->attr.target && status.phase == KVMM_MIGRATE_DONE;
		watch->stat.blocks += status.nr_blocks;
		watch->stat.seqs += idle != NULL;
		if (idle)
			idle->gone = true;
	} else if (err != -ECANCELED && err != -ESTALE) {
		watch->next_ns = kv_clock_ns() + DEFER_NS;
	}
	watch->stat.failed += err && err != -ECANCELED;
	kvmm_migrate_free(keeps_link ? watch->last : watch->job);
	if (keeps_link)
		watch->last = watch->job;
	watch->job = NULL;
}

static bool is_in_doubt(const struct kvmm_migrate *job)
{
	struct kvmm_migrate_status status;

	return !kvmm_migrate_get_status(job, &status) && status.in_doubt;
}

/* The other process's turn for too long: it is given up, or if it is in doubt, asked anew. */
static void watch_progress(struct kvmm_migrate_auto *watch)
{
	struct kvmm_migrate_status status;
	u64 progress;

	kv_assert_held(&watch->lock);
	kvmm_migrate_get_status(watch->job, &status);
	progress = ((u64)status.attempts << 32 | status.phase << 24) + status.nr_copied +
		   status.nr_verified;
	if (watch->attr.target)
		progress += remote_progress(watch->job);
	if (progress != watch->progress || status.phase == KVMM_MIGRATE_WAIT)
		watch->moved_ns = kv_clock_ns();
	watch->progress = progress;
	/* It verifies all before it says so: 100 MB/s at least. */
	if (!watch->attr.target || kv_ns_since(watch->moved_ns) < PATIENCE_NS + 10 * status.bytes)
		return;
	if (kvmm_migrate_cancel(watch->job) == -EINPROGRESS)
		remote_break(watch->job);
	watch->next_ns = kv_clock_ns() + DEFER_NS;
}

/* As kvmm_migrate_poll(); one in doubt has not ended. */
static int poll_job(struct kvmm_migrate_auto *watch)
{
	int err = kvmm_migrate_poll(watch->job);

	kv_assert_held(&watch->lock);
	if (err == -EINPROGRESS)
		watch_progress(watch);
	if (err == -EINPROGRESS || !is_in_doubt(watch->job))
		return err;
	if (kv_clock_ns() >= watch->next_ns) {
		watch->next_ns = kv_clock_ns() + DEFER_NS;
		kvmm_migrate_resume(watch->job);
	}
	return -EINPROGRESS;
}

static void look(struct kvmm_migrate_auto *watch)
{
	struct kvmm_pool_stat stat;
	int err = kvmm_pool_get_stat(watch->attr.src, &stat);
	u32 nr_free = err ? 0 : stat.nr_free;

	kv_assert_held(&watch->lock);
	if (nr_free < watch->attr.low)
		watch->is_active = true;
	if (nr_free >= watch->attr.high)
		watch->is_active = false;
	watch->next_ns = kv_clock_ns();
	if (!watch->is_active) {
		watch->next_ns += watch->attr.interval_ms * NS_PER_MS;
		return;
	}
	/* Blocks that are missing, or as many as a portion has. */
	err = start_cold(watch, min(watch->attr.high - nr_free, watch->attr.max_blocks));
	if (err)
		err = start_idle(watch);
	if (err)
		watch->next_ns += watch->attr.interval_ms * NS_PER_MS;
	else
		watch->stat.starts++;
	watch->moved_ns = kv_clock_ns();
}

static void tell(const struct kvmm_migrate_auto *watch, struct kvmm_migrate_auto_stat *stat,
		 size_t size)
{
	struct kvmm_migrate_auto_stat now = watch->stat;

	kv_assert_held(&watch->lock);
	now.is_active = watch->is_active;
	for (u32 i = 0; i < watch->nr_idle; i++)
		now.nr_idle += !watch->idle[i].gone;
	kv_give(stat, size, &now, sizeof(now));
}

int kvmm_migrate_auto_tick_sized(struct kvmm_migrate_auto *watch,
				 struct kvmm_migrate_auto_stat *stat, size_t size)
{
	int err = -EINPROGRESS;
	bool busy;

	if (kv_inherited(watch))
		return -ECHILD;
	if (!watch || (stat && kv_size_is_bad(stat, size)))
		return -EINVAL;
	if (!kv_trylock(&watch->lock))	/* another thread is at it */
		return 1;
	if (!watch->job && kv_clock_ns() >= watch->next_ns)
		look(watch);
	if (watch->job)
		err = poll_job(watch);
	if (err != -EINPROGRESS)
		end_job(watch, err);
	busy = watch->job != NULL;
	if (stat)
		tell(watch, stat, size);
	kv_unlock(&watch->lock);
	return busy;
}

/* ---- calls of the engine ---- */

static int set_idle(struct kvmm_migrate_auto *watch, u64 seq)
{
	kv_assert_held(&watch->lock);
	if (find_idle(watch, seq))
		return -EEXIST;
	if (watch->nr_idle == MAX_IDLE)
		return -EUSERS;
	watch->idle[watch->nr_idle++] = (struct idle){ seq, false };
	return 0;
}

static int set_busy(struct kvmm_migrate_auto *watch, u64 seq)
{
	struct kvmm_migrate_status status;
	struct idle *idle;
	bool gone;

	kv_assert_held(&watch->lock);
	/* A job not committed comes to nothing; one committed has only its grace to wait for. */
	if (watch->job && watch->job_seq == seq) {
		if (kvmm_migrate_cancel(watch->job))
			poll_job(watch);
		if (is_in_doubt(watch->job))
			return -EINPROGRESS;
		kvmm_migrate_get_status(watch->job, &status);
		gone = status.phase == KVMM_MIGRATE_GRACE || status.phase == KVMM_MIGRATE_DONE;
		end_job(watch, gone ? 0 : -ECANCELED);
	}
	idle = find_idle(watch, seq);
	if (!idle)
		return -ENOENT;
	gone = idle->gone;
	watch->nr_idle--;
	memmove(idle, idle + 1, (watch->idle + watch->nr_idle - idle) * sizeof(*idle));
	return gone;
}

int kvmm_migrate_auto_set_idle(struct kvmm_migrate_auto *watch, uint64_t seq, int is_idle)
{
	int ret;

	if (kv_inherited(watch))
		return -ECHILD;
	if (!watch || !seq)
		return -EINVAL;
	kv_lock(&watch->lock);
	ret = is_idle ? set_idle(watch, seq) : set_busy(watch, seq);
	kv_unlock(&watch->lock);
	return ret;
}

/* ---- birth and death ---- */

static int check_attr(const struct kvmm_migrate_auto_attr *attr)
{
	const u32 flags = KVMM_MIGRATE_BACKGROUND | KVMM_MIGRATE_NO_EVICT |
			  (attr->target ? KVMM_MIGRATE_ANY : 0);
	struct kv_pool_view src, dst;
	int err;

	if (!attr->src || !attr->dst == !attr->target || attr->src == attr->dst ||
	    (attr->key_file && !attr->target) || attr->low >= attr->high ||
	    !attr->max_blocks || attr->max_blocks > KVMM_MIGRATE_MAX_BLOCKS || !attr->interval_ms ||
	    attr->flags & ~flags || attr->reserved)
		return -EINVAL;
	if (kv_inherited(attr->src) || kv_inherited(attr->dst))
		return -ECHILD;
	kv_pool_view(attr->src, &src);
	if (attr->target) {
		err = check_target(attr->target, attr->flags & KVMM_MIGRATE_ANY);
		return err ? err : src.caches && src.dev ? 0 : -EOPNOTSUPP;
	}
	kv_pool_view(attr->dst, &dst);
	if (!src.caches || !dst.caches)
		return -EOPNOTSUPP;
	return views_match(&src, &dst);
}

int kvmm_migrate_auto_start(const struct kvmm_migrate_auto_attr *attr,
			    struct kvmm_migrate_auto **result)
{
	struct kvmm_migrate_auto_attr known;
	struct kvmm_migrate_auto *watch;
	int err;

	if (!attr || !result)
		return -EINVAL;
	err = kv_copy_attr(&known, sizeof(known), attr);
	if (!err)
		err = check_attr(&known);
	if (err)
		return err;
	watch = kv_alloc(sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->attr = known;
	watch->attr.target = copy_of(known.target);
	watch->attr.key_file = copy_of(known.key_file);
	kv_lock_init(&watch->lock, KV_RANK_TICK, 0);
	if (!watch->attr.target == !known.target && !watch->attr.key_file == !known.key_file) {
		*result = watch;
		return 0;
	}
	kvmm_migrate_auto_stop(watch);
	return -ENOMEM;
}

void kvmm_migrate_auto_stop(struct kvmm_migrate_auto *watch)
{
	if (!watch || kv_inherited(watch))
		return;
	kvmm_migrate_free(watch->job);
	kvmm_migrate_free(watch->last);
	kv_free((char *)watch->attr.target);
	kv_free((char *)watch->attr.key_file);
	kv_free(watch);
}
