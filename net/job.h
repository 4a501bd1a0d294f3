/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A migration: its source, its phases, and the carrier that knows where the destination is.
 *
 * Everything here belongs to the thread that has the job.
 */
#ifndef NET_JOB_H
#define NET_JOB_H

#include <kv/dev.h>
#include <kv/types.h>
#include <kvmm/ext/migrate.h>

#include "goods.h"

/**
 * struct carrier_ops - one for destinations in this process, one for those in another
 * @prepare: the source is held: 0; -EINPROGRESS; or an error
 * @wait: may the destination be written, and is it still there? The same; asked first, and often
 * @copy: the same; of what the goods' list has more than the last time
 * @verify: the same
 * @commit: the same; an error leaves the destination unpublished, unless job->in_doubt
 * @undo: as if it had never been; 0 or -EINPROGRESS; called until 0, in any phase before the end
 * @resume: 0 it can be begun anew, or why not; may be NULL
 * @free: waits for copies on their way, undoes all but a commit, frees all
 * @status: fill in all it knows
 */
struct carrier_ops {
	int (*prepare)(struct kvmm_migrate *job);
	int (*wait)(struct kvmm_migrate *job);
	int (*copy)(struct kvmm_migrate *job);
	int (*verify)(struct kvmm_migrate *job);
	int (*commit)(struct kvmm_migrate *job);
	int (*undo)(struct kvmm_migrate *job);
	int (*resume)(struct kvmm_migrate *job);
	void (*free)(struct kvmm_migrate *job);
	void (*status)(const struct kvmm_migrate *job, struct kvmm_migrate_status *status);
};

struct local;
struct remote;

struct kvmm_migrate {
	const struct carrier_ops *ops;
	struct local *local;		/* ours; of the carrier; or */
	struct remote *remote;		/* ours; the same */
	struct goods goods;
	u64 chunk_bytes;
	u32 copy_flags;			/* KV_COPY_* */

	u32 phase;			/* enum kvmm_migrate_phase */
	int err;			/* why it ends otherwise */
	u32 attempts;
	bool in_doubt;			/* the destination may be published */
	bool is_stopped;		/* the source is not written: kvmm_migrate_finish() */
	bool is_listed;			/* what is to be copied in this turn, */
	bool is_last;			/* which is all */
	u64 stop_ns;			/* since when it is stopped; committed: how long it was */
	u32 nr_stop;			/* blocks that were listed before it was */
	u64 epoch;			/* of the source: WAIT or GRACE is until it has passed */
	bool has_epoch;
	bool has_fence;
	struct kv_fence fence;		/* of the source's streams */
	u64 since_ns;			/* begin of the phase */
	u64 phase_ns[KVMM_NR_MIGRATE_PHASES];
};

/* A fence behind the work that streams of @pool were given, which is asked for until it is there: 0
 * it has passed; -EINPROGRESS; -EIO. */
int quiet_poll(struct kvmm_pool *pool, const struct kv_pool_view *view, struct kv_fence *fence,
	       bool *has_fence);

/* 0; -EMEDIUMTYPE. */
int views_match(const struct kv_pool_view *a, const struct kv_pool_view *b);

/* local.c: 0 or -ENOMEM; -EMEDIUMTYPE, -EINVAL, -EOPNOTSUPP. */
int local_init(struct kvmm_migrate *job, const struct kvmm_migrate_attr *attr);
struct store *local_store(struct kvmm_migrate *job);

/* NULL: no memory, or there is none. */
char *copy_of(const char *text);

/* remote.c: 0; -E2BIG more than a list may have; -ENOMEM; of each as transport_find(). */
int check_target(const char *target, bool is_list);
/* As link_open(). */
int remote_init(struct kvmm_migrate *job, const struct kvmm_migrate_attr *attr);
/* NULL: it is not chosen yet. */
const char *remote_target(const struct kvmm_migrate *job);
/* Its link: the job fails, and asks by another one when it is resumed. */
void remote_break(struct kvmm_migrate *job);
/* Of what is done before the other side has anything to say. */
u64 remote_progress(const struct kvmm_migrate *job);

#endif /* NET_JOB_H */
