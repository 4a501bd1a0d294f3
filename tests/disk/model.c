// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls to a disk store against a model of it: submissions of both kinds with several tags under
 * way at a time, polls, calls that wait, forgetting, resetting, closing and opening again; with a
 * queue that finishes requests in any order, and without one.
 *
 * The model knows which completions are due, each of which has to come once, and for each record since
 * when it has to be a hit: from its completion until it is forgotten or a segment is used again. What was
 * wiped or reset is none until it is put again, whatever is opened or finished meanwhile.
 * What is read is right. Buffers are filled with something else as soon as they are given back.
 *
 * KVMM_MODEL_OPS says how many calls (100000), KVMM_MODEL_SEED where to begin.
 */
#include <kv/mem.h>

#include "util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"
#include "tests/support/sim_disk.h"

#define SEGMENT		(64u << 10)
#define MAX_BYTES	(5 * SEGMENT + KV_DISK_FRONT_BYTES)
#define NR_NAMES	64u
#define NR_SLOTS	6u
#define BATCH		8u

/* A submission under way, or none. Its tag is its number + 1. */
struct slot {
	bool	busy, is_put;
	u32	nr, nr_left;
	u32	n[BATCH];
	bool	seen[BATCH];
	char	*data;
};

static struct model {
	struct sim_disk sim;
	struct kvmm_disk *disk;
	struct slot slot[NR_SLOTS];
	bool	sure[NR_NAMES];		/* it has to be a hit */
	bool	gone[NR_NAMES];		/* it was wiped, and not put since */
	u64	nr_reclaimed;		/* when that was last true of all */
	u64	state, op, nr_hits, nr_done;
} m;

#define any(below)	lcg_of(&m.state, below)

#define require(holds)								\
	do {									\
		if (!(holds)) {							\
			printf("call %llu, line %d: %s\n",			\
			       (unsigned long long)m.op, __LINE__, #holds);	\
			printf("0 passed, 1 failed\n");				\
			exit(1);						\
		}								\
	} while (0)

static void forget_sure(u32 n)
{
	m.sure[n] = false;
}

/* A segment that is used again takes records with it. */
static void look_for_reclaim(void)
{
	u64 nr = disk_test_stat(m.disk).nr_reclaimed;

	if (nr != m.nr_reclaimed)
		memset(m.sure, 0, sizeof(m.sure));
	m.nr_reclaimed = nr;
}

static void open_store(void)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = "/store", .max_bytes = MAX_BYTES,
				       .segment_bytes = SEGMENT };

	attr.depth = 1 + any(8);
	attr.io = any(2) ? KVMM_DISK_IO_AUTO : KVMM_DISK_IO_POLL;
	require(!kvmm_disk_open(&attr, &m.disk));
	m.nr_reclaimed = 0;
}

/* ---- submissions ---- */

static struct slot *free_slot(void)
{
	struct slot *slot = &m.slot[any(NR_SLOTS)];

	return slot->busy ? NULL : slot;
}

static void begin_slot(struct slot *slot, bool is_put)
{
	u32 first = any(NR_NAMES), step = 1 + any(3);

	*slot = (struct slot){ .busy = true, .is_put = is_put, .nr = 1 + any(BATCH) };
	slot->nr_left = slot->nr;
	slot->data = disk_test_buffers(slot->nr);
	for (u32 i = 0; i < slot->nr; i++)
		slot->n[i] = (first + i * step) % NR_NAMES;
}

static char *data_of(const struct slot *slot, u32 i)
{
	/* Some of them are not where a disk wants them. */
	return slot->data + i * DISK_TEST_MAX_BYTES + slot->n[i] % 3 / 2 * 64;
}

static void submit_put(void)
{
	struct slot *slot = free_slot();
	struct kvmm_disk_put_args put[BATCH];
	u32 flags = any(4) ? 0 : KVMM_DISK_REPLACE;

	if (!slot)
		return;
	begin_slot(slot, true);
	for (u32 i = 0; i < slot->nr; i++) {
		disk_test_fill(slot->n[i], data_of(slot, i));
		put[i] = disk_test_put(slot->n[i], data_of(slot, i));
		m.gone[slot->n[i]] = false;
		if (flags)
			forget_sure(slot->n[i]);
	}
	require(!kv_disk_submit_put(m.disk, put, slot->nr, flags, slot - m.slot + 1));
}

static void submit_get(void)
{
	struct slot *slot = free_slot();
	struct kvmm_disk_get_args get[BATCH];

	if (!slot)
		return;
	begin_slot(slot, false);
	for (u32 i = 0; i < slot->nr; i++)
		get[i] = (struct kvmm_disk_get_args){ disk_test_name(slot->n[i]), data_of(slot, i),
						      DISK_TEST_MAX_BYTES - 64 };
	require(!kv_disk_submit_get(m.disk, get, slot->nr, slot - m.slot + 1));
}

static void put_is_done(s32 status)
{
	require(!status || status == -EEXIST || status == -EAGAIN || status == -ECANCELED);
}

static void get_is_done(struct slot *slot, u32 i, const struct kv_disk_done *done)
{
	if (!done->status) {
		require(disk_test_is_right(slot->n[i], data_of(slot, i), done->bytes));
		m.nr_hits++;
		return;
	}
	require(done->status == -ENOENT || done->status == -EAGAIN || done->status == -ECANCELED);
}

static void one_done(const struct kv_disk_done *done)
{
	struct slot *slot = &m.slot[done->tag - 1];

	require(done->tag >= 1 && done->tag <= NR_SLOTS && slot->busy);
	require(done->index < slot->nr && !slot->seen[done->index]);
	require(done->is_put == slot->is_put);
	slot->seen[done->index] = true;
	m.nr_done++;
	if (slot->is_put)
		put_is_done(done->status);
	else
		get_is_done(slot, done->index, done);
	memset(data_of(slot, done->index), 0xdb, 100);
	if (--slot->nr_left)
		return;
	free(slot->data);
	slot->busy = false;
}

static void poll_some(u32 max)
{
	struct kv_disk_done done[BATCH];
	int nr = kv_disk_poll(m.disk, done, min(max, BATCH));

	for (int i = 0; i < nr; i++)
		one_done(&done[i]);
}

/* ---- calls that wait ---- */

static void write_one(void)
{
	u32 n = any(NR_NAMES);
	int err;

	m.gone[n] = false;
	err = disk_test_write(m.disk, n, 0);

	require(!err || err == -EEXIST);
	look_for_reclaim();
	if (!err)
		m.sure[n] = true;
}

static void read_one(void)
{
	u32 n = any(NR_NAMES);
	int err = disk_test_read(m.disk, n);

	require(!err || err == -ENOENT || err == -EAGAIN);
	look_for_reclaim();
	require(!err || !m.sure[n]);
	m.nr_hits += !err;
}

static void forget_one(void)
{
	u32 n = any(NR_NAMES), flags = any(2) ? KV_DISK_WIPE : 0;

	require(disk_test_forget(m.disk, n, flags) >= 0);
	forget_sure(n);
	m.gone[n] |= flags;
	require(!disk_test_has(m.disk, n));
}

static void reset(void)
{
	require(kv_disk_reset(m.disk) >= 0);
	memset(m.sure, 0, sizeof(m.sure));
	memset(m.gone, true, sizeof(m.gone));
}

static void finish_all(void)
{
	for (u32 i = 0; i < NR_SLOTS; i++)
		for (u32 k = 0; m.slot[i].busy; k++) {
			require(k < 100000);
			poll_some(BATCH);
		}
}

/* Of what was sure it stays so, unless closing used a segment again. */
static void reopen(void)
{
	u64 nr;

	if (any(2))
		finish_all();
	look_for_reclaim();
	nr = disk_test_stat(m.disk).nr_reinserted;
	kvmm_disk_close(m.disk);
	for (u32 i = 0; i < NR_SLOTS; i++) {
		if (m.slot[i].busy)
			free(m.slot[i].data);
		if (m.slot[i].busy || nr)
			memset(m.sure, 0, sizeof(m.sure));
		m.slot[i].busy = false;
	}
	open_store();
}

static void check_all(void)
{
	struct kvmm_disk_stat stat;

	require(!kv_disk_check(m.disk));
	look_for_reclaim();
	for (u32 n = 0; n < NR_NAMES; n++) {
		require(!m.sure[n] || disk_test_has(m.disk, n));
		require(!m.gone[n] || !disk_test_has(m.disk, n));
	}
	stat = disk_test_stat(m.disk);
	require(m.sim.most_bytes <= MAX_BYTES && stat.file_bytes == m.sim.bytes);
	require(!stat.nr_damaged && !stat.nr_read_errors && !stat.nr_write_errors);
}

static void one_call(void)
{
	u32 what = any(64);

	if (what < 12)
		submit_put();
	else if (what < 22)
		submit_get();
	else if (what < 44)
		poll_some(1 + any(BATCH));
	else if (what < 52)
		write_one();
	else if (what < 58)
		read_one();
	else if (what < 61)
		forget_one();
	else if (what < 62)
		kvmm_disk_sync(m.disk);
	else if (!any(64))
		reset();
	else if (!any(32))
		reopen();
}

int main(void)
{
	u64 nr_ops = test_length("KVMM_MODEL_OPS", 100000), seed = test_number("KVMM_MODEL_SEED", 1);

	printf("seed %llu\n", (unsigned long long)seed);
	m.state = seed;
	sim_disk_init(&m.sim, 2 * MAX_BYTES);
	sim_disk_install(&m.sim);
	open_store();
	for (m.op = 0; m.op < nr_ops; m.op++) {
		one_call();
		if (m.op % 8 == 0)
			check_all();
	}
	finish_all();
	check_all();
	kvmm_disk_close(m.disk);
	require(!kv_mem_bytes());
	sim_disk_remove();
	sim_disk_exit(&m.sim);
	printf("%llu calls, %llu completions, %llu records right\n", (unsigned long long)nr_ops,
	       (unsigned long long)m.nr_done, (unsigned long long)m.nr_hits);
	printf("1 passed, 0 failed\n");
	return 0;
}
