// SPDX-License-Identifier: Apache-2.0
/*
 * Migration from outside: sequences go from one pool to another one of this socket, or to a process
 * that serves its pool (kvmm_migrate_serve()).
 *
 * A job is carried on whenever the socket is polled, and cancelled where the other process says
 * nothing for half a minute: its blocks are pinned. The engine's idea of the sequence is the
 * engine's matter: it finds the ranges by kvmm_range_find_seq() in the other pool. So only
 * sequences without any other user go at all, and others are refused. One that still decodes goes
 * in turns until migrate-finish, before which the engine has been told to stop.
 */
#include <stdio.h>
#include <string.h>

#include <kv/env.h>
#include <kv/mem.h>
#include <kvmm/ext/migrate.h>

#include "command.h"
#include "control.h"

#define NR_JOBS		16u
#define TICK_MS		1u
#define PATIENCE_NS	30000000000ull	/* with a process that does not answer */
#define KEEP_NS		10000000000ull	/* a link for a job to come */
#define TARGET_BYTES	252u

typedef unsigned long long llu;

struct job {
	u64				id;		/* 0: none */
	u64				seq;
	struct kvmm_migrate		*job;		/* ours; NULL when it has ended */
	struct kvmm_pool		*dst;		/* in this one */
	char				target[TARGET_BYTES];
	struct kvmm_migrate_status	status;
	u64				moved_ns;	/* when it got on last */
	bool				is_copy;
};

/* Of a pool, as the source. control->lock. */
struct jobs {
	u64			last_id;
	struct job		job[NR_JOBS];
	struct kvmm_migrate	*last;		/* ours; it has the link; or NULL */
	u64			last_ns;	/* when that ended */
};

/* Its ranges stay where they have come to. */
static void end_job(struct job *job)
{
	kvmm_migrate_free(job->job);
	job->job = NULL;
	job->dst = NULL;
}

static void forget_last(struct jobs *jobs)
{
	kvmm_migrate_free(jobs->last);
	jobs->last = NULL;
}

static void keep_last(struct jobs *jobs, struct job *job)
{
	forget_last(jobs);
	jobs->last = job->job;
	jobs->last_ns = kv_clock_ns();
	job->job = NULL;
}

static bool poll_job(struct jobs *jobs, struct job *job)
{
	u32 phase = job->status.phase, nr_verified = job->status.nr_verified;
	int err;

	if (!job->job)
		return false;
	err = kvmm_migrate_poll(job->job);
	kvmm_migrate_get_status(job->job, &job->status);
	kvmm_migrate_result(job->job, KVMM_MIGRATE_GOT_TARGET, job->target, TARGET_BYTES);
	/* The other process's turn for too long: no event would ever tell of that. */
	if (job->status.phase != phase || job->status.nr_verified != nr_verified)
		job->moved_ns = kv_clock_ns();
	phase = job->status.phase;
	if (err == -EINPROGRESS &&
	    (phase == KVMM_MIGRATE_PREPARE || phase == KVMM_MIGRATE_VERIFY) &&
	    kv_ns_since(job->moved_ns) > PATIENCE_NS && !kvmm_migrate_cancel(job->job)) {
		err = kvmm_migrate_poll(job->job);
		kvmm_migrate_get_status(job->job, &job->status);
	}
	if (err == -EINPROGRESS)
		return true;
	if (!err && !job->dst)
		keep_last(jobs, job);
	end_job(job);
	return false;
}

static u32 tick(struct kv_control_pool *entry, void **state)
{
	struct jobs *jobs = *state;
	bool busy = false;

	for (u32 i = 0; i < NR_JOBS; i++)
		busy |= poll_job(jobs, &jobs->job[i]);
	if (jobs->last && kv_ns_since(jobs->last_ns) >= KEEP_NS)
		forget_last(jobs);
	return busy ? TICK_MS : jobs->last ? KEEP_NS / 1000000 : UINT32_MAX;
}

/* ---- begin ---- */

static int find_target(struct kv_control_call *call, struct job *job)
{
	const char *name = call->arg[0];
	struct kv_control_pool *entry;

	if (strlen(name) >= sizeof(job->target))
		return kv_call_error(call, -ENAMETOOLONG, "that name is too long");
	strcpy(job->target, name);
	if (*name == '/' || strstr(name, "://"))
		return 0;
	entry = kv_control_find(call->control, name);
	if (!entry || entry == call->entry)
		return kv_call_error(call, -ENOENT, "there is no other pool '%.64s', and a socket "
				     "begins with '/'", name);
	job->dst = entry->pool;
	return 0;
}

static int start_job(struct kv_control_call *call, struct job *job, struct kvmm_migrate *last)
{
	struct kvmm_migrate_attr attr = KVMM_MIGRATE_ATTR_INIT;
	int err = kv_call_number(call, 1, 1, UINT64_MAX, &attr.seq);

	for (u32 i = 2; !err && i < call->nr_args; i++) {
		if (!strcmp(call->arg[i], "copy"))
			attr.flags |= KVMM_MIGRATE_COPY;
		else if (!strcmp(call->arg[i], "background"))
			attr.flags |= KVMM_MIGRATE_BACKGROUND;
		else if (!strcmp(call->arg[i], "no_evict"))
			attr.flags |= KVMM_MIGRATE_NO_EVICT;
		else if (!strcmp(call->arg[i], "precopy"))
			attr.flags |= KVMM_MIGRATE_PRECOPY;
		else if (!strcmp(call->arg[i], "any"))
			attr.flags |= KVMM_MIGRATE_ANY;
		else if (!strncmp(call->arg[i], "key=", 4))
			attr.key_file = call->arg[i] + 4;
		else
			err = kv_call_error(call, -EINVAL,
					    "unknown word '%.64s'; try help migrate-start",
					    call->arg[i]);
	}
	if (!err)
		err = find_target(call, job);
	if (err)
		return err;
	attr.src = call->pool;
	attr.dst = job->dst;
	attr.target = job->dst ? NULL : job->target;
	attr.after = job->dst || attr.flags & KVMM_MIGRATE_ANY ? NULL : last;
	attr.what = KVMM_MIGRATE_SEQ;
	attr.flags |= job->dst ? 0 : KVMM_MIGRATE_KEEP_LINK;
	job->seq = attr.seq;
	job->is_copy = attr.flags & KVMM_MIGRATE_COPY;
	err = kvmm_migrate_start(&attr, &job->job);
	if (err == -ENOENT && kvmm_range_find_seq(call->pool, attr.seq, NULL, 0) > 0)
		return kv_call_error(call, err, attr.key_file ?
				     "no process serves '%s', or there is no such key file" :
				     "no process serves '%s'", job->target);
	if (err == -ENOENT)
		return kv_call_error(call, err, "there is no sequence %llu", (llu)attr.seq);
	if (err == -EBUSY)
		return kv_call_error(call, err, "others hold, or pin, ranges of sequence %llu",
				     (llu)attr.seq);
	return err;
}

/* ---- tell ---- */

struct job_row {
	struct job job;
	const char *phase;
	const char *path;
	u64 ns;
};

#define JOB(head, kind, field) KV_COLUMN(head, kind, struct job_row, job.field)

static const struct kv_column columns[] = {
	JOB("id", NUMBER, id), JOB("seq", NUMBER, seq), JOB("target:s", CHARS, target),
	JOB("copy", NUMBER, is_copy), KV_COLUMN("phase:s", NAME, struct job_row, phase),
	JOB("error", SIGNED, status.error), KV_COLUMN("path:s", NAME, struct job_row, path),
	JOB("blocks", NUMBER, status.nr_blocks), JOB("present", NUMBER, status.nr_present),
	JOB("copied", NUMBER, status.nr_copied), JOB("verified", NUMBER, status.nr_verified),
	JOB("bytes", NUMBER, status.bytes), JOB("src_runs", NUMBER, status.nr_src_runs),
	JOB("dst_runs", NUMBER, status.nr_dst_runs),
	JOB("descriptors", NUMBER, status.nr_descriptors),
	JOB("attempts", NUMBER, status.attempts), JOB("in_doubt", NUMBER, status.in_doubt),
	KV_COLUMN("ns", NUMBER, struct job_row, ns), JOB("stop_ns", NUMBER, status.stop_ns),
	JOB("stop_blocks", NUMBER, status.nr_stop),
};

static void write_head(struct kv_text *text)
{
	kv_text_head(text, columns, ARRAY_SIZE(columns));
}

static void write_job(struct kv_text *text, const struct job *job)
{
	struct job_row row = { *job, kvmm_migrate_phase_name(job->status.phase),
			       kvmm_migrate_path_name(job->status.path), 0 };

	for (u32 i = 0; i < KVMM_NR_MIGRATE_PHASES; i++)
		row.ns += job->status.phase_ns[i];
	kv_text_row(text, columns, ARRAY_SIZE(columns), &row, 0);
}

static int cmd_start(struct kv_control_call *call)
{
	struct job *place = NULL, new = { 0 };
	struct jobs *jobs;
	int err;

	if (!*call->state)
		*call->state = kv_alloc(sizeof(struct jobs));
	jobs = *call->state;
	if (!jobs)
		return -ENOMEM;
	/* A free place, else that of the job that has ended first. */
	for (struct job *job = jobs->job; job < jobs->job + NR_JOBS; job++)
		if (!job->job && (!place || job->id < place->id))
			place = job;
	if (!place)
		return kv_call_error(call, -EAGAIN, "%u migrations of this pool run already",
				     NR_JOBS);
	err = start_job(call, &new, jobs->last);
	if (err) {
		end_job(&new);
		return err;
	}
	new.id = ++jobs->last_id;
	new.moved_ns = kv_clock_ns();
	*place = new;
	kvmm_migrate_get_status(place->job, &place->status);
	write_head(call->text);
	write_job(call->text, place);
	return 0;
}

/* In the order of their numbers. */
static const struct job *next_job(const struct jobs *jobs, u64 after)
{
	const struct job *found = NULL;

	for (u32 i = 0; i < NR_JOBS; i++)
		if (jobs->job[i].id > after && (!found || jobs->job[i].id < found->id))
			found = &jobs->job[i];
	return found;
}

static int cmd_status(struct kv_control_call *call)
{
	const struct jobs *jobs = *call->state;
	const struct job *job = jobs ? next_job(jobs, 0) : NULL;

	write_head(call->text);
	for (; job; job = next_job(jobs, job->id))
		write_job(call->text, job);
	return 0;
}

static int steer(struct kv_control_call *call, enum kvmm_migrate_order order)
{
	struct jobs *jobs = *call->state;
	u64 id;
	int err = kv_call_number(call, 0, 1, UINT64_MAX, &id);

	if (err)
		return err;
	for (u32 i = 0; jobs && i < NR_JOBS; i++) {
		struct job *job = &jobs->job[i];

		if (job->id != id)
			continue;
		err = job->job ? kvmm_migrate_steer(job->job, order) : -EALREADY;
		if (err == -EINVAL)
			return kv_call_error(call, err, "it was not begun with precopy");
		if (err)
			return kv_call_error(call, err, "too late: it is committed, or has ended");
		poll_job(jobs, job);
		write_head(call->text);
		write_job(call->text, job);
		return 0;
	}
	return kv_call_error(call, -ENOENT, "there is no migration %llu", (llu)id);
}

static int cmd_cancel(struct kv_control_call *call)
{
	return steer(call, KVMM_MIGRATE_ORDER_CANCEL);
}

static int cmd_finish(struct kv_control_call *call)
{
	return steer(call, KVMM_MIGRATE_ORDER_FINISH);
}

/* ---- the end ---- */

static void pool_exit(struct kv_control_pool *entry, void **state)
{
	struct jobs *jobs = *state;

	for (u32 i = 0; i < NR_JOBS; i++)
		end_job(&jobs->job[i]);
	forget_last(jobs);
	kv_free(jobs);
	*state = NULL;
}

/* Where some of this pool's are on the way to. */
static void other_exit(const struct kv_control_pool *gone, void **state)
{
	struct jobs *jobs = *state;

	for (u32 i = 0; i < NR_JOBS; i++) {
		struct job *job = &jobs->job[i];

		if (!job->job || job->dst != gone->pool)
			continue;
		job->status.phase = KVMM_MIGRATE_CANCELLED;
		end_job(job);
	}
}

static const struct kv_command commands[] = {
	{ "migrate-start", "POOL TARGET SEQ [copy] [background] [no_evict] [precopy] [any] [key=FILE]",
	  "a sequence goes to another pool, or to socket or address of a process that takes it",
	  KV_COMMAND_POOL | KV_COMMAND_STEERS, 2, 8, cmd_start },
	{ "migrate-status", "POOL", "the last migrations from there",
	  KV_COMMAND_POOL, 0, 0, cmd_status },
	{ "migrate-finish", "POOL ID", "with precopy: the sequence is not written any more",
	  KV_COMMAND_POOL | KV_COMMAND_STEERS, 1, 1, cmd_finish },
	{ "migrate-cancel", "POOL ID", "unless it is committed",
	  KV_COMMAND_POOL | KV_COMMAND_STEERS, 1, 1, cmd_cancel },
	{ 0 },
};

const struct kv_command_set kv_commands_migrate = {
	.commands = commands, .pool_exit = pool_exit, .other_exit = other_exit, .tick = tick,
};
