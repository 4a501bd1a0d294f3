// SPDX-License-Identifier: Apache-2.0
/*
 * Loss of power after each step of a run, with what was not flushed on disk in many ways: as it was, in
 * other orders, without some of it, and torn at sectors of 512 and 4096 bytes. In each state the store
 * has to open, within a bounded number of bytes read; each record that was ever put is right or a miss;
 * what was flushed, and not dropped since, is there; what was wiped, and flushed, is not; and the file is
 * no longer than it may be. Now and then the store is used on, and opened once more.
 *
 * KVMM_CRASH_STATES says how many states (100,000, with sanitizers 10,000), KVMM_CRASH_SEED where to
 * begin. "make crash" takes 1,000,000. Prints "N passed, N failed", and of the first failures what is
 * needed to have them again.
 */
#include "util.h"
#include "tests/support/disk_index.h"
#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/support/sim_disk.h"

#define SEGMENT		(64u << 10)
#define MAX_BYTES	(4 * SEGMENT + KV_DISK_FRONT_BYTES)
#define NR_NAMES	48u
#define NR_OPS		90u
#define NR_SUBSETS	24u

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NR_STATES	10000u
#else
#define NR_STATES	100000u
#endif

/* After each operation of the run: what is where, and what was wiped. */
struct mark {
	u32	nr_steps;
	u64	place[NR_NAMES];	/* 0: not there */
	bool	wiped[NR_NAMES];	/* and not put since */
};

struct run {
	struct sim_disk sim;
	struct mark mark[NR_OPS + 1];
	u32 nr_marks;
	u64 seed;
	u64 state;			/* of random numbers */
};

static u64 nr_states, nr_failed, nr_hits, nr_musts;
static struct run run;

#define any(below)	lcg_of(&run.state, below)

static void fail(const struct sim_crash *crash, const char *what, u32 n)
{
	if (nr_failed++ < 5)
		printf("seed %llu, after step %u, sector %u, subset seed %llu: %s (%u)\n",
		       (unsigned long long)run.seed, crash->nr_steps, crash->sector,
		       (unsigned long long)crash->seed, what, n);
}

static int open_store(struct kvmm_disk **disk)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = "/store", .max_bytes = MAX_BYTES,
				       .segment_bytes = SEGMENT };

	return kvmm_disk_open(&attr, disk);
}

/* ---- the run ---- */

static void take_mark(struct kvmm_disk *disk, const bool *wiped)
{
	struct mark *mark = &run.mark[run.nr_marks++];
	struct kvmm_disk_entry place;

	*mark = (struct mark){ .nr_steps = run.sim.nr_steps };
	memcpy(mark->wiped, wiped, sizeof(mark->wiped));
	for (u32 n = 0; n < NR_NAMES; n++) {
		struct kvmm_disk_name name = disk_test_name(n);

		if (disk_index_place(disk, &name, &place))
			mark->place[n] = place.seq << 20 | place.offset;
	}
}

static void put_some(struct kvmm_disk *disk, bool *wiped)
{
	struct kvmm_disk_put_args put[6];
	u32 nr = 1 + any(6), first = any(NR_NAMES);
	char *data = disk_test_buffers(nr);
	s32 status[6];

	for (u32 i = 0; i < nr; i++) {
		u32 n = (first + i) % NR_NAMES;

		disk_test_fill(n, data + i * DISK_TEST_MAX_BYTES);
		put[i] = disk_test_put(n, data + i * DISK_TEST_MAX_BYTES);
	}
	kvmm_disk_put(disk, put, nr, any(4) ? 0 : KVMM_DISK_REPLACE, status);
	for (u32 i = 0; i < nr; i++)
		if (!status[i])
			wiped[(first + i) % NR_NAMES] = false;
	free(data);
}

static void one_op(struct kvmm_disk **disk, bool *wiped)
{
	u32 what = any(16), n = any(NR_NAMES);

	if (what < 9) {
		put_some(*disk, wiped);
	} else if (what < 12) {
		for (u32 i = 0; i < 4; i++)
			disk_test_read(*disk, (n + i) % NR_NAMES);
	} else if (what < 13) {
		/* Whether it was there or not: there may be one that the index does not know of. */
		if (any(8)) {
			disk_test_forget(*disk, n, KV_DISK_WIPE);
			wiped[n] = true;
		} else {
			kv_disk_reset(*disk);
			memset(wiped, true, NR_NAMES * sizeof(*wiped));
		}
	} else if (what < 15) {
		kvmm_disk_sync(*disk);
	} else {
		kvmm_disk_close(*disk);
		if (open_store(disk))
			abort();
	}
}

static void make_run(u64 seed)
{
	bool wiped[NR_NAMES] = { false };
	struct kvmm_disk *disk;

	run.seed = run.state = seed;
	run.nr_marks = 0;
	sim_disk_init(&run.sim, MAX_BYTES + SEGMENT);
	run.sim.keeps_log = true;
	run.sim.seed = seed;
	run.sim.no_queue = seed % 2;
	sim_disk_install(&run.sim);
	if (open_store(&disk))
		abort();
	for (u32 i = 0; i < NR_OPS; i++) {
		one_op(&disk, wiped);
		take_mark(disk, wiped);
	}
	kvmm_disk_close(disk);
}

/* ---- a state ---- */

/* The marks around a crash: all between the last flush and it. */
static void marks_of(const struct sim_crash *crash, u32 *first, u32 *last)
{
	u32 flush = sim_disk_last_flush(&run.sim, crash->nr_steps);

	*first = KV_NONE;
	for (*last = 0; *last < run.nr_marks; ++*last) {
		if (run.mark[*last].nr_steps <= flush)
			*first = *last;
		if (run.mark[*last].nr_steps >= crash->nr_steps)
			break;
	}
	*last = min(*last, run.nr_marks - 1);
}

/* Was on disk for good, and stayed in its place until after the crash. */
static bool must_be_there(u32 n, u32 first, u32 last)
{
	for (u32 i = first; i <= last; i++)
		if (!run.mark[i].place[n] || run.mark[i].place[n] != run.mark[first].place[n])
			return false;
	return true;
}

static bool must_be_gone(u32 n, u32 first, u32 last)
{
	for (u32 i = first; i <= last; i++)
		if (!run.mark[i].wiped[n])
			return false;
	return true;
}

static void check_records(struct kvmm_disk *disk, const struct sim_crash *crash)
{
	u32 first, last;

	marks_of(crash, &first, &last);
	for (u32 n = 0; n < NR_NAMES; n++) {
		bool must = first != KV_NONE && must_be_there(n, first, last);
		int status = disk_test_read(disk, n);

		nr_hits += !status;
		nr_musts += must;
		if (status && status != -ENOENT && status != -EBADMSG)
			fail(crash, status == 1 ? "wrong bytes" : "a read failed", n);
		if (status && must)
			fail(crash, "a flushed record is gone", n);
		if (!status && first != KV_NONE && must_be_gone(n, first, last))
			fail(crash, "a wiped record is back", n);
	}
	if (kv_disk_check(disk))
		fail(crash, "the store is inconsistent", 0);
}

static void use_on(struct kvmm_disk **disk, const struct sim_crash *crash)
{
	bool wiped[NR_NAMES] = { false };

	for (u32 i = 0; i < 12; i++)
		one_op(disk, wiped);
	for (u32 n = 0; n < NR_NAMES; n++)
		if (disk_test_read(*disk, n) == 1)
			fail(crash, "wrong bytes after using it on", n);
	if (kv_disk_check(*disk))
		fail(crash, "inconsistent after using it on", 0);
}

static void check_state(struct sim_disk *after, const struct sim_crash *crash)
{
	struct kvmm_disk *disk;

	nr_states++;
	sim_disk_crash(after, &run.sim, crash);
	after->nr_locks = 0;
	after->nr_read_bytes = 0;
	if (open_store(&disk)) {
		fail(crash, "it does not open", 0);
		return;
	}
	if (after->nr_read_bytes > 3 * MAX_BYTES)
		fail(crash, "opening reads too much", after->nr_read_bytes);
	check_records(disk, crash);
	if (nr_states % 16 == 0)
		use_on(&disk, crash);
	kvmm_disk_close(disk);
	if (after->most_bytes > MAX_BYTES)
		fail(crash, "the file is too long", after->most_bytes);
}

static void check_run(u64 limit)
{
	struct sim_disk after;

	sim_disk_init(&after, MAX_BYTES + SEGMENT);
	sim_disk_install(&after);
	/* What goes along while the store closes has no mark behind it. */
	for (u32 i = 0; i <= run.mark[run.nr_marks - 1].nr_steps && nr_states < limit; i++) {
		struct sim_crash crash = { .nr_steps = i };

		check_state(&after, &crash);
		for (u32 k = 0; k < 2 * NR_SUBSETS; k++) {
			crash.sector = k % 2 ? 512 : 4096;
			crash.seed = run.seed * 1000003 + i * 64 + k;
			check_state(&after, &crash);
		}
	}
	sim_disk_exit(&after);
}

int main(void)
{
	u64 limit = test_length("KVMM_CRASH_STATES", NR_STATES), seed = test_number("KVMM_CRASH_SEED", 1);
	u64 nr_runs = 0, nr_steps = 0;

	while (nr_states < limit) {
		make_run(seed++);
		check_run(limit);
		nr_runs++;
		nr_steps += run.sim.nr_steps;
		sim_disk_exit(&run.sim);
	}
	sim_disk_remove();
	printf("%llu states after %llu steps of %llu runs: %llu records right, %llu of them had to be\n",
	       (unsigned long long)nr_states, (unsigned long long)nr_steps,
	       (unsigned long long)nr_runs, (unsigned long long)nr_hits,
	       (unsigned long long)nr_musts);
	printf("%llu passed, %llu failed\n", (unsigned long long)(nr_failed ? 0 : 1),
	       (unsigned long long)!!nr_failed);
	return nr_failed != 0;
}
