// SPDX-License-Identifier: Apache-2.0
/*
 * Several threads that submit to one disk store, and several that poll, look up, list, forget
 * and wait: with a queue that finishes requests in any order, then without one, so that pollers do the
 * transfers. Each completion comes once, to somebody; what is read is right; in the end nothing is
 * pending and no memory is left. Under ThreadSanitizer there is no race.
 *
 * Then the same while calls of the system fail beside it, once or from then on: EIO, ENOSPC, a piece only,
 * an interruption. Puts and reads may say so; all the rest holds, and when the failures are over the store
 * opens, and takes and gives records.
 */
#include <pthread.h>

#include <kv/atomic.h>
#include <kv/mem.h>

#include "tests/support/sim_disk.h"
#include "tests/disk/util.h"

#define SEGMENT		(256u << 10)
#define MAX_BYTES	(4 * SEGMENT + KV_DISK_FRONT_BYTES)
#define NR_NAMES	96u
#define NR_SUBMITTERS	2u
#define NR_POLLERS	2u
#define NR_ROUNDS	1500u
#define NR_STORES	6u		/* that fail: each is read-only in the end */
#define BATCH		4u

static struct kvmm_disk *disk;
static u64 nr_due, nr_done, nr_right;	/* atomic */
static u32 failed, stop;		/* atomic */
static struct sim_disk sim;
static bool fails;			/* calls of the system do; fixed while threads run */

/* The buffers of a submission; whoever gets its last completion frees them. Its tag is its address. */
struct job {
	bool	is_put;
	u32	n[BATCH];
	u32	nr_left;		/* atomic */
	u32	room;
	char	*data;
};

static u32 any(u64 *seed, u32 limit)
{
	u64 x = *seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	return ((x ^ (x >> 32)) >> 32) * limit >> 32;
}

static void expect(bool holds, const char *what)
{
	if (!holds && !kv_fetch_add(&failed, 1))
		printf("%s\n", what);
}

static struct job *make_job(u64 *seed, bool is_put)
{
	struct job *job = calloc(1, sizeof(*job));
	u32 first = any(seed, NR_NAMES);

	job->is_put = is_put;
	job->nr_left = BATCH;
	job->data = disk_test_buffers(BATCH);
	for (u32 i = 0; i < BATCH; i++) {
		job->n[i] = (first + i) % NR_NAMES;
		disk_test_fill(job->n[i], job->data + i * DISK_TEST_MAX_BYTES);
	}
	return job;
}

static void submit(u64 *seed)
{
	struct job *job = make_job(seed, any(seed, 2));
	struct kvmm_disk_put_args put[BATCH];
	struct kvmm_disk_get_args get[BATCH];
	int err;

	for (u32 i = 0; i < BATCH; i++) {
		char *data = job->data + i * DISK_TEST_MAX_BYTES;

		put[i] = disk_test_put(job->n[i], data);
		get[i] = (struct kvmm_disk_get_args){ disk_test_name(job->n[i]), data,
						      DISK_TEST_MAX_BYTES };
	}
	kv_fetch_add(&nr_due, BATCH);
	err = job->is_put ? kv_disk_submit_put(disk, put, BATCH, 0, (uintptr_t)job) :
			    kv_disk_submit_get(disk, get, BATCH, (uintptr_t)job);
	expect(!err, "a submission was refused");
}

static void one_done(const struct kv_disk_done *done)
{
	struct job *job = (struct job *)(uintptr_t)done->tag;
	char *data = job->data + done->index * DISK_TEST_MAX_BYTES;

	expect(done->index < BATCH && done->is_put == job->is_put, "whose completion is this?");
	if (!job->is_put && !done->status) {
		expect(disk_test_is_right(job->n[done->index], data, done->bytes), "wrong bytes");
		kv_fetch_add(&nr_right, 1);
	}
	expect(fails || (done->status != -EBADMSG && done->status != -EIO), "damaged");
	kv_fetch_add(&nr_done, 1);
	if (__atomic_sub_fetch(&job->nr_left, 1, __ATOMIC_ACQ_REL))
		return;
	free(job->data);
	free(job);
}

static void look_at_segment(u32 number)
{
	struct kvmm_disk_view_info info = { .size = sizeof(info) };
	struct kvmm_disk_segment segment;
	struct kvmm_disk_entry entry;
	struct kvmm_disk_view *view;

	if (kvmm_disk_view_open("/store", &info, &view))
		return;
	if (!kvmm_disk_view_segment(view, number, &segment))
		while (kvmm_disk_view_next(view, 0, &entry) == 1)
			;
	kvmm_disk_view_close(view);
}

static void other_calls(u64 *seed)
{
	u32 n = any(seed, NR_NAMES);

	switch (any(seed, 24)) {
	case 0:
		disk_test_forget(disk, n, any(seed, 2) ? KV_DISK_WIPE : 0);
		break;
	case 1:
		look_at_segment(any(seed, 4));
		break;
	case 2:
		expect(disk_test_write(disk, n, 0) != -EIO || fails, "a write failed");
		break;
	case 3:
		expect(disk_test_read(disk, n) != 1, "wrong bytes");
		break;
	case 4:
		expect(!kv_disk_check(disk), "inconsistent");
		break;
	default:
		disk_test_has(disk, n);
	}
}

static void *submitter(void *arg)
{
	u64 seed = (uintptr_t)arg;

	for (u32 i = 0; i < (fails ? NR_ROUNDS / NR_STORES : NR_ROUNDS); i++) {
		/* Every now and then, for as long. */
		if (fails && !any(&seed, 8))
			sim_disk_fail(&sim, any(&seed, 3) ? 1 + any(&seed, 16) : 0,
				      any(&seed, SIM_LIE), !any(&seed, 4));
		submit(&seed);
		other_calls(&seed);
	}
	return NULL;
}

static void *poller(void *arg)
{
	struct kv_disk_done done[8];
	int nr = 1;

	while (nr || !READ_ONCE(stop)) {
		nr = kv_disk_poll(disk, done, 8);
		for (int i = 0; i < nr; i++)
			one_done(&done[i]);
	}
	return NULL;
}

static void torture(u32 io)
{
	struct kvmm_disk_attr attr = { .size = sizeof(attr), .flags = KVMM_DISK_CREATE,
				       .path = "/store", .max_bytes = MAX_BYTES,
				       .segment_bytes = SEGMENT, .io = io };
	pthread_t thread[NR_SUBMITTERS + NR_POLLERS];

	attr.flags |= fails ? 0 : KVMM_DISK_RESET;
	expect(!kvmm_disk_open(&attr, &disk), "it does not open");
	stop = 0;
	for (uintptr_t i = 0; i < NR_SUBMITTERS + NR_POLLERS; i++)
		pthread_create(&thread[i], NULL, i < NR_SUBMITTERS ? submitter : poller,
			       (void *)(i + 1));
	for (u32 i = 0; i < NR_SUBMITTERS; i++)
		pthread_join(thread[i], NULL);
	while (READ_ONCE(nr_done) < READ_ONCE(nr_due) && !READ_ONCE(failed))
		;
	WRITE_ONCE(stop, 1);
	for (u32 i = NR_SUBMITTERS; i < NR_SUBMITTERS + NR_POLLERS; i++)
		pthread_join(thread[i], NULL);
	expect(nr_done == nr_due, "completions that came twice");
	sim_disk_fail(&sim, 0, 0, false);
	expect(!disk_test_stat(disk).nr_pending, "something is pending");
	expect(!kv_disk_check(disk), "inconsistent");
	kvmm_disk_close(disk);
	expect(!kvmm_disk_open(&attr, &disk), "it does not open again");
	expect(!disk_test_write(disk, NR_NAMES, KVMM_DISK_REPLACE), "it takes nothing any more");
	expect(!disk_test_read(disk, NR_NAMES), "it gives nothing any more");
	for (u32 n = 0; n < NR_NAMES; n++)
		expect(disk_test_read(disk, n) <= 0, "wrong bytes");
	kvmm_disk_close(disk);
}

int main(void)
{
	sim_disk_init(&sim, 2 * MAX_BYTES);
	sim_disk_install(&sim);
	torture(KVMM_DISK_IO_AUTO);
	torture(KVMM_DISK_IO_POLL);
	fails = true;
	for (u32 i = 0; i < NR_STORES; i++)
		torture(i % 2 ? KVMM_DISK_IO_POLL : KVMM_DISK_IO_AUTO);
	expect(sim.most_bytes <= MAX_BYTES, "too long");
	expect(!kv_mem_bytes(), "memory is left");
	sim_disk_remove();
	sim_disk_exit(&sim);
	printf("%llu completions, %llu records right\n", (unsigned long long)nr_done,
	       (unsigned long long)nr_right);
	printf("%u passed, %u failed\n", !failed, !!failed);
	return failed != 0;
}
