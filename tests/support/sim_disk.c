// SPDX-License-Identifier: Apache-2.0
/* A disk in memory, below the file seam: see sim_disk.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/atomic.h>
#include <kv/disk.h>

#include "sim_disk.h"

#define SECTOR		512u
#define QUEUE_DEPTH	64u

/* Handles are numbers that say what they are. */
enum { DIR_HANDLE = 1000, FILE_HANDLE, DIRECT_HANDLE, READ_HANDLE };

static u64 next_random(u64 *seed)
{
	u64 x = *seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	return x ^ (x >> 32);
}

static u32 below(u64 *seed, u32 limit)
{
	return (next_random(seed) >> 32) * limit >> 32;
}

/* ---- failures ---- */

static bool must_fail(struct sim_disk *sim)
{
	u64 nth = kv_fetch_add(&sim->nr_calls, 1) + 1, at = READ_ONCE(sim->fail_at);

	if (!at || (READ_ONCE(sim->fail_on) ? nth < at : nth != at))
		return false;
	kv_fetch_add(&sim->nr_failed, 1);
	return true;
}

static int error_of(u32 fault)
{
	return fault == SIM_ENOSPC ? -ENOSPC : fault == SIM_EINTR ? -EINTR : -EIO;
}

/* A call that is no transfer knows no half ways, and no lies. */
static int check_call(struct sim_disk *sim)
{
	u32 fault = READ_ONCE(sim->fault);

	return must_fail(sim) && fault != SIM_SHORT && fault != SIM_LIE ? error_of(fault) : 0;
}

/* ---- steps ---- */

static struct sim_step *add_step(struct sim_disk *sim, u32 kind, u64 offset, u32 bytes)
{
	struct sim_step *step;

	if (!sim->keeps_log)
		return NULL;
	if (sim->nr_steps == sim->room) {
		sim->room = sim->room ? 2 * sim->room : 256;
		sim->step = realloc(sim->step, sim->room * sizeof(*sim->step));
	}
	step = &sim->step[sim->nr_steps++];
	*step = (struct sim_step){ .kind = kind, .bytes = bytes, .offset = offset };
	if (bytes)
		step->data = malloc(bytes);
	return step;
}

static void set_length(struct sim_disk *sim, u64 bytes)
{
	u64 had = READ_ONCE(sim->bytes);

	if (bytes < had)
		memset(sim->content + bytes, 0, had - bytes);
	WRITE_ONCE(sim->bytes, bytes);
	sim->most_bytes = max(sim->most_bytes, bytes);
}

/* ---- calls ---- */

static int sim_open_dir(void *ctx, const char *path, bool create)
{
	int err = check_call(ctx);

	return err ? err : DIR_HANDLE;
}

static int sim_open_at(void *ctx, int dir, const char *name, u32 flags)
{
	struct sim_disk *sim = ctx;
	int err = check_call(sim);

	if (err)
		return err;
	if (strcmp(name, KV_DISK_FILE) || (!READ_ONCE(sim->exists) && !(flags & KV_FILE_CREATE)))
		return -ENOENT;
	if (flags & KV_FILE_DIRECT && sim->no_direct)
		return -EINVAL;
	WRITE_ONCE(sim->exists, true);
	kv_fetch_add(&sim->nr_open, 1);
	if (!(flags & KV_FILE_WRITE))
		return READ_HANDLE;
	return flags & KV_FILE_DIRECT ? DIRECT_HANDLE : FILE_HANDLE;
}

static void sim_close(void *ctx, int file)
{
	struct sim_disk *sim = ctx;

	if (file == DIR_HANDLE)
		return;
	kv_fetch_add(&sim->nr_open, -1);
}

static int sim_stat(void *ctx, int file, struct kv_file_stat *stat)
{
	struct sim_disk *sim = ctx;
	int err = check_call(sim);

	*stat = (struct kv_file_stat){
		.bytes = READ_ONCE(sim->bytes), .mode = file == DIR_HANDLE ? 0700 : sim->mode, .nr_links = 1,
		.is_file = file != DIR_HANDLE, .is_folder = file == DIR_HANDLE, .is_own = true,
	};
	return err;
}

static int sim_lock(void *ctx, int file)
{
	struct sim_disk *sim = ctx;
	int err = check_call(sim);

	if (err)
		return err;
	if (sim->nr_locks)
		return -EWOULDBLOCK;
	sim->nr_locks++;
	return 0;
}

static void sim_unlock(void *ctx, int file)
{
	struct sim_disk *sim = ctx;

	sim->nr_locks = 0;
}

static bool is_aligned(int file, const struct kv_iov *iov, u32 nr, u64 offset)
{
	bool aligned = offset % SECTOR == 0;

	for (u32 i = 0; i < nr; i++)
		aligned &= (uintptr_t)iov[i].base % SECTOR == 0 && iov[i].bytes % SECTOR == 0;
	return aligned || file != DIRECT_HANDLE;
}

static u64 all_bytes(const struct kv_iov *iov, u32 nr)
{
	u64 bytes = 0;

	for (u32 i = 0; i < nr; i++)
		bytes += iov[i].bytes;
	return bytes;
}

/*
 * Whoever reads while another one writes gets some of both, as from a disk; that is no race of the
 * threads', so the disk's side of a copy is atomic, word by word.
 */
static void copy_out(void *to, const u8 *from, u64 bytes)
{
	for (u64 i = 0; i < bytes; i += sizeof(u64)) {
		u64 word = READ_ONCE(*(const u64 *)(const void *)(from + i));

		memcpy((u8 *)to + i, &word, min((u64)sizeof(word), bytes - i));
	}
}

static void copy_in(u8 *to, const void *from, u64 bytes)
{
	for (u64 i = 0; i < bytes; i += sizeof(u64)) {
		u64 word;

		memcpy(&word, (const u8 *)from + i, sizeof(word));
		WRITE_ONCE(*(u64 *)(void *)(to + i), word);
	}
}

/* How much of a transfer happens; a negative errno: nothing. @lies: with a byte that is wrong. */
static s64 allowed(struct sim_disk *sim, u64 wanted, bool *lies)
{
	*lies = false;
	if (!must_fail(sim))
		return wanted;
	if (READ_ONCE(sim->fault) == SIM_SHORT)
		return max(wanted / 2 / SECTOR * SECTOR, (u64)SECTOR);
	if (READ_ONCE(sim->fault) != SIM_LIE)
		return error_of(READ_ONCE(sim->fault));
	*lies = true;
	return wanted;
}

static s64 sim_preadv(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset)
{
	struct sim_disk *sim = ctx;
	u64 wanted = all_bytes(iov, nr), end = READ_ONCE(sim->bytes);
	bool lies;
	s64 left, done;

	if (!is_aligned(file, iov, nr, offset))
		return -EINVAL;
	if (offset < sim->bad_to && offset + wanted > sim->bad_from)
		return -EIO;
	left = done = allowed(sim, offset < end ? min(wanted, end - offset) : 0, &lies);
	if (done <= 0)
		return done;
	kv_fetch_add(&sim->nr_read_bytes, done);
	for (; left > 0; iov++) {
		u64 bytes = min(iov->bytes, (u64)left);

		copy_out(iov->base, sim->content + offset, bytes);
		if (lies)
			((u8 *)iov->base)[next_random(&sim->seed) % bytes] ^= 1 + below(&sim->seed, 255);
		lies = false;
		offset += bytes;
		left -= bytes;
	}
	return done;
}

static s64 sim_pwritev(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset)
{
	struct sim_disk *sim = ctx;
	u64 wanted = all_bytes(iov, nr), at = 0;
	struct sim_step *step;
	bool lies;
	s64 done;

	if (!is_aligned(file, iov, nr, offset) || file == READ_HANDLE)
		return -EINVAL;
	if (offset + wanted > sim->max_bytes)
		return -ENOSPC;
	done = allowed(sim, wanted, &lies);
	if (done <= 0)
		return done;
	step = add_step(sim, SIM_WRITE, offset, done);
	if (offset + done > READ_ONCE(sim->bytes))
		set_length(sim, offset + done);
	for (; at < done; iov++) {
		u64 bytes = min(iov->bytes, done - at);

		copy_in(sim->content + offset + at, iov->base, bytes);
		at += bytes;
	}
	if (step)
		memcpy(step->data, sim->content + offset, done);
	return done;
}

static int sim_length(struct sim_disk *sim, u64 bytes)
{
	int err = check_call(sim);

	if (err)
		return err;
	if (bytes > sim->max_bytes)
		return -ENOSPC;
	add_step(sim, SIM_LENGTH, bytes, 0);
	set_length(sim, bytes);
	return 0;
}

static int sim_allocate(void *ctx, int file, u64 offset, u64 bytes)
{
	struct sim_disk *sim = ctx;

	return sim_length(sim, max(READ_ONCE(sim->bytes), offset + bytes));
}

static int sim_truncate(void *ctx, int file, u64 bytes)
{
	return sim_length(ctx, bytes);
}

static int sim_datasync(void *ctx, int file)
{
	int err = check_call(ctx);

	if (!err)
		add_step(ctx, SIM_FLUSH, 0, 0);
	return err;
}

static int sim_no_name(void *ctx, int dir, const char *name)
{
	return -ENOENT;
}

static int sim_no_names(void *ctx, int dir, const char *from, const char *to)
{
	return -ENOENT;
}

/* ---- queue ---- */

struct sim_queue {
	struct kv_file_io *io[QUEUE_DEPTH];
	u32 nr;
};

static int sim_queue_open(void *ctx, u32 depth, void **queue)
{
	struct sim_disk *sim = ctx;

	if (sim->no_queue || check_call(sim))
		return -ENOSYS;
	*queue = calloc(1, sizeof(struct sim_queue));
	return 0;
}

static int sim_queue_submit(void *ctx, void *queue, struct kv_file_io *const *ios, u32 nr)
{
	struct sim_queue *q = queue;
	u32 i = 0;

	while (i < nr && q->nr < QUEUE_DEPTH)
		q->io[q->nr++] = ios[i++];
	return i ? (int)i : -EAGAIN;
}

static void do_io(void *ctx, struct kv_file_io *io)
{
	if (io->op == KV_FILE_READV)
		io->result = sim_preadv(ctx, io->file, io->iov, io->nr_iov, io->offset);
	else if (io->op == KV_FILE_WRITEV)
		io->result = sim_pwritev(ctx, io->file, io->iov, io->nr_iov, io->offset);
	else
		io->result = sim_datasync(ctx, io->file);
}

static int sim_queue_reap(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait)
{
	struct sim_disk *sim = ctx;
	struct sim_queue *q = queue;
	u32 nr = 0, wanted = min(max, 1 + below(&sim->seed, 3));

	if (!wait && !below(&sim->seed, 4))
		return 0;
	while (nr < wanted && q->nr) {
		u32 i = below(&sim->seed, q->nr);

		done[nr] = q->io[i];
		q->io[i] = q->io[--q->nr];
		do_io(ctx, done[nr++]);
	}
	return nr;
}

static void sim_queue_close(void *ctx, void *queue)
{
	free(queue);
}

void sim_disk_init(struct sim_disk *sim, u64 max_bytes)
{
	*sim = (struct sim_disk){
		.ops = {
			.open_dir	= sim_open_dir,
			.open_at	= sim_open_at,
			.close		= sim_close,
			.stat		= sim_stat,
			.lock		= sim_lock,
			.unlock		= sim_unlock,
			.preadv		= sim_preadv,
			.pwritev	= sim_pwritev,
			.allocate	= sim_allocate,
			.truncate	= sim_truncate,
			.datasync	= sim_datasync,
			.rename_at	= sim_no_names,
			.unlink_at	= sim_no_name,
			.queue_open	= sim_queue_open,
			.queue_submit	= sim_queue_submit,
			.queue_reap	= sim_queue_reap,
			.queue_close	= sim_queue_close,
			.ctx		= sim,
		},
		.content = calloc(1, max_bytes),
		.max_bytes = max_bytes,
		.mode = 0600,
		.seed = 1,
	};
}

static void drop_steps(struct sim_disk *sim)
{
	for (u32 i = 0; i < sim->nr_steps; i++)
		free(sim->step[i].data);
	sim->nr_steps = 0;
}

void sim_disk_exit(struct sim_disk *sim)
{
	drop_steps(sim);
	free(sim->step);
	free(sim->base);
	free(sim->content);
}

void sim_disk_rebase(struct sim_disk *sim)
{
	drop_steps(sim);
	if (!sim->base)
		sim->base = malloc(sim->max_bytes);
	memcpy(sim->base, sim->content, sim->max_bytes);
	sim->base_bytes = sim->bytes;
}

void sim_disk_install(struct sim_disk *sim)
{
	kv_file_set(&sim->ops);
}

void sim_disk_remove(void)
{
	kv_file_set(NULL);
}

void sim_disk_fail(struct sim_disk *sim, u64 nth, u32 fault, bool on)
{
	WRITE_ONCE(sim->fail_on, on);
	WRITE_ONCE(sim->fault, fault);
	WRITE_ONCE(sim->nr_failed, 0);
	WRITE_ONCE(sim->fail_at, nth ? READ_ONCE(sim->nr_calls) + nth : 0);
}

/* ---- loss of power ---- */

u32 sim_disk_last_flush(const struct sim_disk *sim, u32 nr_steps)
{
	while (nr_steps && sim->step[nr_steps - 1].kind != SIM_FLUSH)
		nr_steps--;
	return nr_steps;
}

static void apply(struct sim_disk *to, const struct sim_step *step)
{
	if (step->kind == SIM_LENGTH)
		set_length(to, step->offset);
	if (step->kind != SIM_WRITE)
		return;
	if (step->offset + step->bytes > to->bytes)
		set_length(to, step->offset + step->bytes);
	memcpy(to->content + step->offset, step->data, step->bytes);
}

/* Each sector by itself, the front only, or all but a few. */
static void apply_torn(struct sim_disk *to, const struct sim_step *step, u32 sector, u64 *seed)
{
	u32 nr = (step->bytes + sector - 1) / sector, how = below(seed, 3), cut = below(seed, nr + 1);

	for (u32 i = 0; i < nr; i++) {
		struct sim_step part = *step;

		if (how == 0 ? i >= cut : how == 1 ? below(seed, 2) : !below(seed, nr))
			continue;
		part.offset += (u64)i * sector;
		part.data += (u64)i * sector;
		part.bytes = min(sector, step->bytes - i * sector);
		apply(to, &part);
	}
}

/* Writes behind the last flush, in another order; some not at all, some in part. */
static void apply_some(struct sim_disk *to, const struct sim_disk *from, const struct sim_crash *crash,
		       u32 first)
{
	u32 nr = crash->nr_steps - first, order[512];
	u64 seed = crash->seed;

	nr = min(nr, (u32)ARRAY_SIZE(order));
	for (u32 i = 0; i < nr; i++) {
		u32 at = below(&seed, i + 1);

		order[i] = order[at];
		order[at] = first + i;
	}
	for (u32 i = 0; i < nr; i++) {
		const struct sim_step *step = &from->step[order[i]];
		u32 fate = below(&seed, 4);

		if (fate == 0)
			continue;
		if (fate == 1 && step->kind == SIM_WRITE)
			apply_torn(to, step, crash->sector, &seed);
		else
			apply(to, step);
	}
}

void sim_disk_crash(struct sim_disk *to, const struct sim_disk *from, const struct sim_crash *crash)
{
	u32 flush = crash->sector ? sim_disk_last_flush(from, crash->nr_steps) : crash->nr_steps;

	if (from->base)
		memcpy(to->content, from->base, to->max_bytes);
	else
		memset(to->content, 0, to->max_bytes);
	to->bytes = from->base_bytes;
	to->exists = true;
	for (u32 i = 0; i < flush; i++)
		apply(to, &from->step[i]);
	if (crash->sector)
		apply_some(to, from, crash, flush);
	to->most_bytes = to->bytes;
}
