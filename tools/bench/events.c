// SPDX-License-Identifier: Apache-2.0
/*
 * What events cost the thread that makes them, and those that read them; and what a publisher gets
 * through, to a subscriber in a process of its own that decodes all of it.
 *
 * A pool that is full takes a batch of new names: for each of them one is evicted and one stored,
 * two events. The same pool does it without a consumer and with one that does not read, in turns;
 * the difference is what the events cost. Then one thread reads and encodes them.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../events/wire.h"
#include "pools.h"

#define NR_BLOCKS	4096u
#define BATCH		64u

struct world {
	struct kvmm_pool *pool;
	u64 nr_names;
	struct histogram alloc;		/* of kvmm_alloc() */
	struct seen *seen;		/* publisher: shared memory */
	char dir[32];
	char endpoint[64];
};

/* New names, a prompt of a batch. */
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

static int take_batches(struct world *w, u32 rounds)
{
	int err = 0;

	for (u32 i = 0; i < rounds && !err; i++)
		err = take_batch(w);
	return err;
}

/* ---- events ---- */

#define SLICE_ROUNDS	80u

enum { BLOCK_OFF, BLOCK_ON, EVENT, READ, ENCODE };

/* Nanoseconds a block. */
static int slice_ns(struct world *w, double *ns)
{
	u64 begin = now_ns();
	int err = take_batches(w, SLICE_ROUNDS);

	*ns = (double)(now_ns() - begin) / (SLICE_ROUNDS * BATCH);
	return err;
}

/* Slices without and with a consumer follow one another. */
static int measure_emit(struct world *w, struct series *s)
{
	double ns[2][BENCH_SLICES], off, on;
	struct kvmm_events *events;
	int err = take_batches(w, 500);

	for (u32 i = 0; i < BENCH_SLICES && !err; i++) {
		err = slice_ns(w, &ns[0][i]);
		if (!err)
			err = kvmm_events_open(w->pool, NULL, &events);
		if (!err)
			err = slice_ns(w, &ns[1][i]);
		if (!err)
			kvmm_events_close(events);
	}
	if (err)
		return err;
	off = median_of(ns[0], BENCH_SLICES);
	on = median_of(ns[1], BENCH_SLICES);
	series_add_all(s, (double[]){ [BLOCK_OFF] = off, [BLOCK_ON] = on,
				      [EVENT] = (on - off) / 2 }, 3);
	return 0;
}

/* Nanoseconds an event, to read it, and to encode it. */
static int measure_read(struct world *w, struct series *s)
{
	static struct kvmm_event buf[512];
	static unsigned char bytes[KVMM_WIRE_BYTES_FOR(512)];
	struct kvmm_events *events;
	u64 begin, took[2] = { 0 }, nr_lost, nr_events = 0;
	int err = kvmm_events_open(w->pool, NULL, &events), nr;

	if (err)
		return err;
	err = take_batches(w, 250);
	for (;;) {
		begin = now_ns();
		nr = kvmm_events_read(events, buf, ARRAY_SIZE(buf), &nr_lost);
		took[0] += now_ns() - begin;
		if (nr <= 0 || err)
			break;
		begin = now_ns();
		if (kvmm_wire_encode(NULL, 1, buf, nr, bytes, sizeof(bytes)) < 0)
			err = -EIO;
		took[1] += now_ns() - begin;
		nr_events += nr;
	}
	kvmm_events_close(events);
	if (err || !nr_events)
		return err ? err : -EIO;
	series_add(&s[READ], (double)took[0] / nr_events);
	series_add(&s[ENCODE], (double)took[1] / nr_events);
	return 0;
}

static int events_turn(struct bench *bench, void *arg)
{
	struct world *w = arg;
	int err = open_pool(&w->pool, NR_BLOCKS, "lru", 0);

	err = err ? err : measure_emit(w, bench->series);
	err = err ? err : measure_read(w, bench->series);
	kvmm_pool_destroy(w->pool);
	return err;
}

int bench_events(struct bench *bench)
{
	static const struct metric metrics[] = {
		[BLOCK_OFF] = { "block_off", "ns", ALONE },
		[BLOCK_ON] = { "block_on", "ns", "off", BLOCK_OFF },
		[EVENT] = { "event", "ns", ALONE }, [READ] = { "read", "ns", ALONE },
		[ENCODE] = { "encode", "ns", ALONE },
	};
	static struct world w;

	bench_set(bench, SET(metrics), "blocks=%u batch=%u", NR_BLOCKS, BATCH);
	return bench_turns(bench, events_turn, &w);
}

/*
 * ---- publisher ----
 *
 * First a million blocks a second, then as many as there can be; in turns without events, with
 * events that no consumer reads, and with the publisher. The thread that is timed has its core
 * alone: the publisher, libzmq's threads and the subscriber share another one.
 */

#define NR_ROUNDS	16384u		/* a million blocks, and some */
#define WARM_ROUNDS	2048u
#define PACE_NS		(BATCH * 1000u)	/* a round: a million blocks a second */
#define MAX_HASHES	65536u

enum when { OFF, EVENTS, PUBLISHED, NR_WHEN };

static const char *const when_names[NR_WHEN] = { "off", "events", "published" };

/* What the subscriber has seen; shared with the process that measures, which only reads. */
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

static void rest(void)
{
	nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
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

/* Figures of one pace; @rate: millions of blocks a second that it became. */
struct pace {
	u32 ns;
	struct series *when[NR_WHEN];	/* registered, p50, p99 */
	struct series *flow;		/* published, missed, arrived, lost batches */
	double rate;
};

static int churn(struct world *w, struct pace *pace)
{
	u64 begin = now_ns();
	int err = 0;

	w->alloc = (struct histogram){ .total = 0 };
	for (u32 i = 0; i < NR_ROUNDS && !err; i++) {
		while (pace->ns && now_ns() < begin + (u64)i * pace->ns)
			;
		err = take_batch(w);
	}
	pace->rate = (double)NR_ROUNDS * BATCH * 1000 / (double)(now_ns() - begin);
	return err;
}

/* What happened between two looks. */
struct flow {
	struct kvmm_publisher_stat stat;
	struct seen seen;
};

static void look(const struct world *w, const struct kvmm_publisher *publisher, struct flow *flow)
{
	flow->stat.size = sizeof(flow->stat);
	kvmm_publisher_get_stat(publisher, &flow->stat);
	flow->seen = (struct seen){ get(&w->seen->batches), get(&w->seen->missing),
				    get(&w->seen->events), get(&w->seen->spoilt) };
}

/* Before, when the last event was made, and when all had arrived. */
static void add_flow(const struct pace *pace, const struct flow flow[3])
{
	const struct flow *a = &flow[0], *b = &flow[2];
	double events = 2.0 * NR_ROUNDS * BATCH, published =
		(double)(b->stat.events - a->stat.events);
	double seconds = NR_ROUNDS * BATCH / (pace->rate * 1e6);

	series_add_all(pace->flow, (double[]){
		(double)(flow[1].stat.events - a->stat.events) / seconds / 1e6,
		(double)(b->stat.lost - a->stat.lost) * 100 / events,
		(double)(b->seen.events - a->seen.events) * 100 / published,
		/* Numbers that the publisher left out itself are missed events. */
		(double)(b->seen.missing - a->seen.missing) -
			(double)(b->stat.resyncs - a->stat.resyncs) }, 4);
}

static int churn_seen(struct world *w, struct kvmm_publisher *publisher, struct pace *pace)
{
	struct flow flow[3];
	int err = wait_for_subscriber(w);

	/* Pages shared with a subscriber that was forked are written for the first time here. */
	if (!err)
		err = take_batches(w, WARM_ROUNDS);
	if (err)
		return err;
	drain(w);
	look(w, publisher, &flow[0]);
	err = churn(w, pace);
	look(w, publisher, &flow[1]);
	drain(w);
	look(w, publisher, &flow[2]);
	if (!err && flow[2].seen.spoilt)
		err = -EBADMSG;
	if (!err)
		add_flow(pace, flow);
	return err;
}

/* The publisher's threads are where this one is not. */
static int churn_published(struct world *w, struct pace *pace)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	struct kvmm_publisher *publisher;
	pid_t pid;
	int err;

	attr.endpoint = w->endpoint;
	bench_pin(bench_other_cpu());
	err = kvmm_publisher_start(w->pool, &attr, &publisher);
	bench_pin(bench_cpu());
	if (err)
		return err;
	pid = begin_watch(w->endpoint, w->seen);
	err = pid < 0 ? -EAGAIN : churn_seen(w, publisher, pace);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	kvmm_publisher_stop(publisher);
	unlink(w->endpoint + strlen("ipc://"));
	return err;
}

/* A ring comes round twice before anything counts: its pages are new. */
static int churn_events(struct world *w, struct pace *pace)
{
	struct kvmm_events *events;
	int err = kvmm_events_open(w->pool, NULL, &events);

	if (err)
		return err;
	err = take_batches(w, WARM_ROUNDS);
	if (!err)
		err = churn(w, pace);
	kvmm_events_close(events);
	return err;
}

struct publishing {
	struct world world;
	struct pace pace[2];
};

static int publisher_turn(struct bench *bench, void *arg)
{
	static int (*const ways[NR_WHEN])(struct world *, struct pace *) = {
		churn, churn_events, churn_published,
	};
	struct publishing *p = arg;

	for (u32 i = 0; i < 2 * NR_WHEN; i++) {
		struct pace *pace = &p->pace[i / NR_WHEN];
		enum when when = i % NR_WHEN;
		int err = ways[when](&p->world, pace);

		if (err)
			return err;
		series_add_all(pace->when[when], (double[]){ pace->rate,
			       histogram_ns(&p->world.alloc, 0.5), histogram_ns(&p->world.alloc,
				       0.99) }, 3);
	}
	return 0;
}

static void pace_series(struct bench *bench, struct pace *pace, const char *name)
{
	static const struct metric when_metrics[] = {
		{ "registered", "M/s", ALONE }, { "alloc_64_p50", "ns", ALONE },
		{ "alloc_64_p99", "ns", ALONE },
	}, flow_metrics[] = {
		{ "published", "M/s", ALONE }, { "missed_by_publisher", "%", ALONE },
		{ "arrived_of_published", "%", ALONE },
		{ "lost_batches", "n", ALONE },
	};

	for (enum when when = 0; when < NR_WHEN; when++) {
		pace->when[when] = bench_set(bench, SET(when_metrics), "pace=%s when=%s", name,
					     when_names[when]);
		for (u32 i = 1; when && i < 3; i++)
			series_against(&pace->when[when][i], when_names[when - 1],
				       &pace->when[when - 1][i]);
	}
	pace->flow = bench_set(bench, SET(flow_metrics), "pace=%s", name);
}

static int open_world(struct world *w)
{
	int err;

	w->seen = mmap(NULL, sizeof(*w->seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (w->seen == MAP_FAILED)
		return -ENOMEM;
	err = make_folder(w->dir, sizeof(w->dir), "/tmp");
	if (err)
		return err;
	snprintf(w->endpoint, sizeof(w->endpoint), "ipc://%s/events", w->dir);
	err = open_pool(&w->pool, NR_BLOCKS, "lru", 0);
	return err ? err : take_batches(w, WARM_ROUNDS);
}

int bench_publisher(struct bench *bench)
{
	static struct publishing p = { .pace = { { .ns = PACE_NS }, { .ns = 0 } } };
	int err;

	if (!bench_has_two_cores(bench, "a publisher"))
		return 0;
	pace_series(bench, &p.pace[0], "1M");
	pace_series(bench, &p.pace[1], "none");
	err = open_world(&p.world);
	err = err ? err : bench_turns(bench, publisher_turn, &p);
	kvmm_pool_destroy(p.world.pool);
	rmdir(p.world.dir);
	if (err != -ENOENT)
		return err;
	bench_skip(bench, "a publisher", "no libzmq here");
	return 0;
}
