/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk in memory, below the file seam.
 *
 *	struct sim_disk sim;
 *
 *	sim_disk_init(&sim, 1 << 20);
 *	sim_disk_install(&sim);			// kv_file() is the disk from here on
 *	...					// what is written is remembered, step by step
 *	sim_disk_crash(&other, &sim, 17, &how);	// what may be there after a loss of power
 *
 * There is one folder with one file in it. Each write, change of length and flush is a step. At a loss
 * of power after step n, all steps before the last flush among those are on disk; of those behind it,
 * any part may be, in any order, down to single sectors of a write.
 *
 * Calls can be made to fail: the n-th one from now, or all from then on.
 *
 * The queue does requests when they are asked for, in an order that the seed decides. Transfers past
 * the page cache have to be aligned, or they fail as on a real disk.
 *
 * Any number of threads may use the files of a disk that keeps no log, and make calls fail.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <kv/file.h>
#include <kv/types.h>

enum sim_step_kind {
	SIM_WRITE,
	SIM_LENGTH,		/* of the file from now on; offset says it */
	SIM_FLUSH,
};

struct sim_step {
	u32	kind;
	u32	bytes;
	u64	offset;
	u8	*data;		/* of the write; ours */
};

enum sim_fault {
	SIM_EIO,
	SIM_ENOSPC,
	SIM_SHORT,		/* a transfer stops half way */
	SIM_EINTR,
	SIM_LIE,		/* a read succeeds, and one byte of it is wrong */
	SIM_NR_FAULTS,
};

struct sim_disk {
	struct kv_file_ops ops;
	u8	*content;
	u64	bytes;		/* length of the file */
	u64	max_bytes;	/* -ENOSPC beyond */
	u64	most_bytes;	/* that the file ever had */
	bool	exists;
	u32	mode;		/* of the file */
	u32	nr_locks;
	u32	nr_open;
	bool	no_direct;	/* O_DIRECT is refused */
	bool	no_queue;

	struct sim_step *step;	/* if keeps_log */
	u32	nr_steps;
	u32	room;
	bool	keeps_log;
	u8	*base;		/* what was there before the first step; NULL: nothing */
	u64	base_bytes;

	u64	nr_calls;	/* that can fail */
	u64	fail_at;	/* value of nr_calls; 0: never */
	bool	fail_on;	/* and later ones */
	u32	fault;
	u64	nr_failed;
	u64	nr_read_bytes;
	u64	bad_from, bad_to;	/* bytes of the file that cannot be read */
	u64	seed;
};

void sim_disk_init(struct sim_disk *sim, u64 max_bytes);
void sim_disk_exit(struct sim_disk *sim);
void sim_disk_install(struct sim_disk *sim);
void sim_disk_remove(void);

/* The @nth call from now on fails as @fault says, and if @on those behind it; 0: none. */
void sim_disk_fail(struct sim_disk *sim, u64 nth, u32 fault, bool on);

/* How a loss of power treats what is behind the last flush. */
struct sim_crash {
	u32	nr_steps;	/* it comes after so many */
	u32	sector;		/* 512 or 4096; 0: all of it is there */
	u64	seed;
};

/* Fill @to, initialised with the same size, with what may be left of @from. */
void sim_disk_crash(struct sim_disk *to, const struct sim_disk *from, const struct sim_crash *crash);

/* What is there now is on disk for good, and the log begins anew. */
void sim_disk_rebase(struct sim_disk *sim);

/* The step that is the last flush among the first @nr_steps, plus 1; 0: none. */
u32 sim_disk_last_flush(const struct sim_disk *sim, u32 nr_steps);

#endif /* SIM_DISK_H */
