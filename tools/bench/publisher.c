// SPDX-License-Identifier: Apache-2.0
/*
 * What a publisher gets through, to a subscriber in a process of its own that decodes all of it, and what
 * that does to who makes the events.
 *
 * A pool that is full takes batches of new names: for each of them one is evicted and one stored, two
 * events. First a million of them a second, then as many as there can be; in turns without events, with
 * events that nobody reads, and with the publisher. The thread that is timed has its core alone: the
 * publisher, libzmq's threads and the subscriber share another one.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kvmm/kvmm.h>

#include "../events/wire.h"
#include "harness.h"

#define NR_BLOCKS	4096u
#define BATCH		64u
#define NR_ROUNDS	16384u		/* a million blocks, and some */
#define WARM_ROUNDS	2048u
#define PACE_NS		(BATCH * 1000u)	/* a round: a million blocks a second */
#define MAX_HASHES	65536u

enum when { OFF, EVENTS, PUBLISHED, NR_WHEN };

static const char *const when_names[NR_WHEN] = { "off", "events", "published" };

/* ---- the subscriber: a process ---- */

/* What it has seen; shared with who measures, who only reads. */
struct seen {
	u64 batches;		/* atomic, as the others */
	u64 missing;		/* numbers that did not come */
	u64 events;
	u64 spoilt;		/* batches that are none */
};

static void add(u64 *to, u64 nr)
{
	__atomic_fetch_add(to, nr, __ATOMIC_RELAXED);
}

static u64 get(const u64 *from)
{
	return __atomic_load_n(from, __ATOMIC_RELAXED);
}

static void look_into(const struct subscriber *sub, struct seen *seen)
{
	static struct kvmm_wire_event event[MAX_HASHES];
	static u64 hash[MAX_HASHES];
	static u32 token[1];
	struct kvmm_wire_batch batch = {
		.size = sizeof(batch), .event = event, .max_events = MAX_HASHES, .hash = hash,
		.max_hashes = MAX_HASHES, .token = token, .max_tokens = 1,
	};

	if (kvmm_wire_decode(sub->buf, sub->nr, &batch) < 0)
		add(&seen->spoilt, 1);
	else
		add(&seen->events, batch.nr_hashes);
}

static void watch(const char *endpoint, struct seen *seen)
{
	struct subscriber sub;
	u64 next = 0;

	if (subscribe(&sub, endpoint, ""))
		_exit(1);
	for (;;) {
		int got = subscriber_next(&sub);

		if (got < 0)
			_exit(1);
		if (!got)
			continue;
		if (next && sub.seq > next)
			add(&seen->missing, sub.seq - next);
		next = sub.seq + 1;
		look_into(&sub, seen);
		add(&seen->batches, 1);
	}
}

static pid_t begin_watch(const char *endpoint, struct seen *seen)
{
	pid_t pid;

	memset(seen, 0, sizeof(*seen));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		bench_pin(bench_other_cpu());
		watch(endpoint, seen);
	}
	return pid;
}

static void end_watch(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- who makes events ---- */

struct world {
	struct kvmm_pool *pool;
	struct seen *seen;		/* shared memory */
	char dir[32];
	char endpoint[64];
	u64 nr_names;
	struct histogram alloc;		/* of the last churn() */
};

/* Names that nobody has seen, a prompt of a batch. */
static int take_batch(struct world *w)
{
	kvmm_key_t keys[BATCH] = { 0 };
	kvmm_mut_t muts[BATCH];
	kvmm_ref_t refs[BATCH];
	u64 begin;
	int err;

	for (u32 k = 0; k < BATCH; k++) {
		u64 name = ++w->nr_names * 0x9e3779b97f4a7c15ull;

		memcpy(keys[k].byte, &name, sizeof(name));
		memcpy(keys[k].byte + 8, &name, sizeof(name));
	}
	begin = ticks_begin();
	err = kvmm_alloc(w->pool, BATCH, muts);
	histogram_add(&w->alloc, ticks_end() - begin);
	if (!err)
		err = kvmm_register(w->pool, muts, keys, BATCH, refs);
	return err ? err : kvmm_put_many(w->pool, refs, BATCH);
}

/* @rate: millions of blocks a second that it became. */
static int churn(struct world *w, u32 pace_ns, double *rate)
{
	u64 begin = now_ns();
	int err = 0;

	histogram_clear(&w->alloc);
	for (u32 i = 0; i < NR_ROUNDS && !err; i++) {
		while (pace_ns && now_ns() < begin + (u64)i * pace_ns)
			;
		err = take_batch(w);
	}
	*rate = (double)NR_ROUNDS * BATCH * 1000 / (double)(now_ns() - begin);
	return err;
}

/*
 * Pages that are new, or shared with a subscriber that was forked, are written for the first time here: a
 * ring comes round twice.
 */
static int warm_up(struct world *w)
{
	int err = 0;

	for (u32 i = 0; i < WARM_ROUNDS && !err; i++)
		err = take_batch(w);
	return err;
}

/* ---- with a publisher ---- */

static void rest(void)
{
	nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
}

/* Its threads are where this one is not. */
static int start(struct world *w, struct kvmm_publisher **publisher)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	int err;

	attr.endpoint = w->endpoint;
	bench_pin(bench_other_cpu());
	err = kvmm_publisher_start(w->pool, &attr, publisher);
	bench_pin(bench_cpu());
	return err;
}

/* Until the first batch has arrived; what was published before is lost to a new subscriber. */
static int wait_for_subscriber(struct world *w)
{
	for (u32 i = 0; i < 2500; i++) {
		int err = take_batch(w);

		if (err)
			return err;
		if (get(&w->seen->batches))
			return 0;
		rest();
	}
	return -ETIMEDOUT;
}

static u64 arrived(const struct seen *seen)
{
	return get(&seen->events) + get(&seen->missing);
}

/* All was published, and has arrived: nothing came for 100 ms. */
static void drain(struct world *w)
{
	u64 last = arrived(w->seen);

	for (u32 quiet = 0; quiet < 50; quiet++) {
		rest();
		if (arrived(w->seen) != last)
			quiet = 0;
		last = arrived(w->seen);
	}
}

/* What happened between two looks. */
struct flow {
	struct kvmm_publisher_stat stat;
	struct seen seen;
};

static void look(const struct world *w, const struct kvmm_publisher *publisher, struct flow *flow)
{
	flow->stat.size = sizeof(flow->stat);
	kvmm_publisher_stat(publisher, &flow->stat);
	flow->seen = (struct seen){ get(&w->seen->batches), get(&w->seen->missing),
				    get(&w->seen->events), get(&w->seen->spoilt) };
}

/* Figures of one pace; see series_of(). */
struct figures {
	struct series *p50[NR_WHEN], *p99[NR_WHEN], *rate[NR_WHEN];
	struct series *published, *missed, *arrived, *gaps;
};

/* Before, when the last event was made, and when all had arrived. */
static void add_flow(const struct figures *to, const struct flow flow[3], double seconds)
{
	const struct flow *a = &flow[0], *b = &flow[2];
	double events = 2.0 * NR_ROUNDS * BATCH, published = (double)(b->stat.events - a->stat.events);

	series_add(to->published, (double)(flow[1].stat.events - a->stat.events) / seconds / 1e6);
	series_add(to->missed, (double)(b->stat.lost - a->stat.lost) * 100 / events);
	series_add(to->arrived, (double)(b->seen.events - a->seen.events) * 100 / published);
	/* Numbers that the publisher left out itself are missed events. */
	series_add(to->gaps, (double)(b->seen.missing - a->seen.missing) -
			     (double)(b->stat.resyncs - a->stat.resyncs));
}

static int churn_seen(struct world *w, struct kvmm_publisher *publisher, u32 pace_ns, double *rate,
		      const struct figures *to)
{
	struct flow flow[3];
	int err = wait_for_subscriber(w);

	if (!err)
		err = warm_up(w);
	if (err)
		return err;
	drain(w);
	look(w, publisher, &flow[0]);
	err = churn(w, pace_ns, rate);
	look(w, publisher, &flow[1]);
	drain(w);
	look(w, publisher, &flow[2]);
	if (!err && flow[2].seen.spoilt)
		err = -EBADMSG;
	if (!err)
		add_flow(to, flow, NR_ROUNDS * BATCH / (*rate * 1e6));
	return err;
}

static int churn_published(struct world *w, u32 pace_ns, double *rate, const struct figures *to)
{
	struct kvmm_publisher *publisher;
	int err = start(w, &publisher);
	pid_t pid;

	if (err)
		return err;
	pid = begin_watch(w->endpoint, w->seen);
	err = pid < 0 ? -EAGAIN : churn_seen(w, publisher, pace_ns, rate, to);
	end_watch(pid);
	kvmm_publisher_stop(publisher);
	unlink(w->endpoint + strlen("ipc://"));
	return err;
}

/* ---- the benchmark ---- */

static int churn_events(struct world *w, u32 pace_ns, double *rate)
{
	struct kvmm_events *events;
	int err = kvmm_events_open(w->pool, NULL, &events);

	if (err)
		return err;
	err = warm_up(w);
	if (!err)
		err = churn(w, pace_ns, rate);
	kvmm_events_close(events);
	return err;
}

static int measure(struct world *w, u32 pace_ns, const struct figures *to)
{
	for (enum when when = 0; when < NR_WHEN; when++) {
		double rate = 0;
		int err = when == OFF ? churn(w, pace_ns, &rate) :
			  when == EVENTS ? churn_events(w, pace_ns, &rate) :
					   churn_published(w, pace_ns, &rate, to);

		if (err)
			return err;
		series_add(to->p50[when], histogram_ns(&w->alloc, 0.5));
		series_add(to->p99[when], histogram_ns(&w->alloc, 0.99));
		series_add(to->rate[when], rate);
	}
	return 0;
}

static void make_series(struct bench *bench, const char *pace, struct figures *to)
{
	for (enum when when = 0; when < NR_WHEN; when++) {
		to->rate[when] = bench_series(bench, "registered", "M/s", "pace=%s when=%s", pace,
					      when_names[when]);
		to->p50[when] = bench_series(bench, "alloc_64_p50", "ns", "pace=%s when=%s", pace,
					     when_names[when]);
		to->p99[when] = bench_series(bench, "alloc_64_p99", "ns", "pace=%s when=%s", pace,
					     when_names[when]);
	}
	for (enum when when = EVENTS; when < NR_WHEN; when++) {
		series_against(to->p50[when], when_names[when - 1], to->p50[when - 1]);
		series_against(to->p99[when], when_names[when - 1], to->p99[when - 1]);
	}
	to->published = bench_series(bench, "published", "M/s", "pace=%s", pace);
	to->missed = bench_series(bench, "missed_by_publisher", "%", "pace=%s", pace);
	to->arrived = bench_series(bench, "arrived_of_published", "%", "pace=%s", pace);
	to->gaps = bench_series(bench, "lost_batches", "n", "pace=%s", pace);
}

static int open_world(struct world *w)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	w->seen = mmap(NULL, sizeof(*w->seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w->seen == MAP_FAILED)
		return -ENOMEM;
	strcpy(w->dir, "/tmp/kvmm-bench-XXXXXX");
	if (!mkdtemp(w->dir))
		return -errno;
	snprintf(w->endpoint, sizeof(w->endpoint), "ipc://%s/events", w->dir);
	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	err = kvmm_pool_create(&attr, &w->pool);
	return err ? err : warm_up(w);
}

static int run(struct bench *bench)
{
	static struct world w;
	struct figures paced, free_run;
	int err;

	if (bench_other_cpu() < 0) {
		bench_skip(bench, "a publisher", "there is one core only");
		return 0;
	}
	make_series(bench, "1M", &paced);
	make_series(bench, "none", &free_run);
	err = open_world(&w);
	for (unsigned int i = 0; !err && i < bench->nr_runs; i++) {
		err = measure(&w, PACE_NS, &paced);
		if (!err)
			err = measure(&w, 0, &free_run);
	}
	kvmm_pool_destroy(w.pool);
	rmdir(w.dir);
	if (err == -ENOENT) {
		bench_skip(bench, "a publisher", "no libzmq here");
		return 0;
	}
	if (!err)
		bench_report(bench);
	return err;
}

const struct bench_kind bench_publisher = {
	.name = "publisher",
	.what = "events by a socket to a subscriber beside who makes them, a million blocks a second and more",
	.run = run,
};
