// SPDX-License-Identifier: Apache-2.0
/*
 * E10: the protocol under load, judged by content. One stream writes sequences, two read all that
 * is sealed, again and again, in steps that last; meanwhile sequences come and go and kvmm moves
 * blocks beside the steps. Each block holds one byte over and over, so a reader's checksums are
 * known.
 *
 * Whoever gives a sequence back has either seen its readers end, or lets the writer wait for them
 * before it writes there; the latter leaves the former life of a place to the library.
 *
 * Nothing may be wrong. Then the library is kept from keeping one rule at a time, by what its calls
 * of the driver do, and that must be noticed:
 *
 *	R2 the copy does not wait for readers of what was where it goes to
 *	R3 the copy does not wait for the writer of what it reads
 *	R4 new places are published while the copy runs
 *	R5 old places are free while steps read them
 */
#include <kv/sys.h>
#include <kvmm/kvmm.h>

#include "gpu.h"

#define NR_STREAMS	3u		/* 0 writes, the others read */
#define MAX_BLOCKS	512u
#define MAX_SEQS	96u
#define MAX_LEN		8u
#define REPEATS		8u		/* of each reader in a step */
#define NR_HOOKED	8192u
#define ROUNDS		20000u
#define LIST_BYTES	(4 * KIB)
#define SUM_BYTES	(REPEATS * MAX_BLOCKS * sizeof(u64))

static_assert(MAX_BLOCKS * sizeof(u32) <= LIST_BYTES, "a list of all blocks");

enum rule { ALL_RULES, NO_R2, NO_R3, NO_R4, NO_R5, NR_RULES };

/* ---- the library's driver ---- */

static struct {
	KCU_FN(cuStreamWaitEvent, 3020) wait;
	KCU_FN(cuEventQuery, 2000) query;
	KCU_FN(cuEventRecord, 2000) record;
} real;

/* Where an event was recorded last; all calls are made by one thread. */
static struct {
	kcu_event event;
	kcu_stream stream;
} recorded[NR_HOOKED];

static enum rule broken;
static kcu_stream own_stream[NR_STREAMS];	/* of this experiment */

static u32 slot_of(kcu_event event)
{
	u32 nr = ((uintptr_t)event * 0x9e3779b97f4a7c15ull >> 32) % NR_HOOKED;

	while (recorded[nr].event && recorded[nr].event != event)
		nr = (nr + 1) % NR_HOOKED;
	return nr;
}

/* 0: the writer's; 1, 2: a reader's; NR_STREAMS: the library's own. */
static u32 lane_of(kcu_event event)
{
	u32 nr = 0;

	while (nr < NR_STREAMS && recorded[slot_of(event)].stream != own_stream[nr])
		nr++;
	return nr;
}

static kcu_result hooked_record(kcu_event event, kcu_stream stream)
{
	u32 nr = slot_of(event);

	recorded[nr].event = event;
	recorded[nr].stream = stream;
	return real.record(event, stream);
}

static kcu_result hooked_wait(kcu_stream stream, kcu_event event, unsigned int flags)
{
	u32 lane = lane_of(event);

	if ((broken == NO_R3 && lane == 0) || (broken == NO_R2 && lane && lane < NR_STREAMS))
		return KCU_E_SUCCESS;
	return real.wait(stream, event, flags);
}

static kcu_result hooked_query(kcu_event event)
{
	u32 lane = lane_of(event);

	if ((broken == NO_R4 && lane == NR_STREAMS) || (broken == NO_R5 && lane < NR_STREAMS))
		return KCU_E_SUCCESS;
	return real.query(event);
}

static void *hook(void *to, size_t bytes, void *found, void *instead)
{
	memcpy(to, &found, bytes);
	return found ? instead : NULL;
}

static void *find_hooked(void *ctx, void *library, const char *name)
{
	void *found = kv_sys_system.find_symbol(ctx, library, name);

	if (!strcmp(name, "cuStreamWaitEvent"))
		return hook(&real.wait, sizeof(real.wait), found, (void *)hooked_wait);
	if (!strcmp(name, "cuEventQuery"))
		return hook(&real.query, sizeof(real.query), found, (void *)hooked_query);
	if (!strcmp(name, "cuEventRecord"))
		return hook(&real.record, sizeof(real.record), found, (void *)hooked_record);
	return found;
}

/* After this program has its own table of the driver, before the library has opened a device. */
void stress_hook_library(void)
{
	static struct kv_sys_ops sys;

	sys = kv_sys_system;
	sys.find_symbol = find_hooked;
	kv_sys_set(&sys);
}

/* ---- the engine ---- */

struct seq {
	bool is_live, is_sealed;
	u32 nr;
	kvmm_range_t range;
	u8 value[MAX_LEN];
};

struct lane {
	kvmm_stream_t id;
	kcu_event event;		/* behind its last work */
	kcu_deviceptr plane, list, sums;
	u32 *blocks;			/* pinned */
	u64 *seen;			/* pinned: REPEATS times nr_blocks sums */
	u8 value[MAX_BLOCKS];
	u32 nr_blocks;			/* in the step under way; 0: none is */
};

struct stress {
	struct kvmm_pool *pool;
	u64 block_bytes;
	u32 nr_blocks, nr_seqs;
	bool frees_late;		/* while readers are under way */
	bool writer_waits;		/* for them, before it writes again */
	struct lane lane[NR_STREAMS];
	struct seq seq[MAX_SEQS];
	u64 right[256];			/* the checksum of a block of that byte */
	u64 random;
	u64 nr_checked, nr_wrong, nr_steps;
	u32 last_value;
};

static u32 below(struct stress *s, u32 n)
{
	s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
	return (s->random >> 33) % n;
}

static void must_err(int err, const char *what)
{
	if (err)
		give_up("%s: %s", what, kvmm_strerror(err));
}

static void open_lane(struct stress *s, u32 nr)
{
	struct kvmm_plane plane = { gpu.pool, s->block_bytes, s->block_bytes };
	struct lane *lane = &s->lane[nr];
	u64 pinned = LIST_BYTES + SUM_BYTES;

	lane->plane = gpu.tables + nr * (LIST_BYTES + SUM_BYTES + 4096);
	lane->list = lane->plane + 4096;
	lane->sums = lane->list + LIST_BYTES;
	lane->blocks = (u32 *)(gpu.pinned + nr * pinned);
	lane->seen = (u64 *)(gpu.pinned + nr * pinned + LIST_BYTES);
	CU(stream_create_with_priority, &own_stream[nr], KCU_STREAM_NON_BLOCKING, 0);
	CU(event_create, &lane->event, KCU_EVENT_DISABLE_TIMING);
	CU(memcpy_htod_async, lane->plane, &plane, sizeof(plane), own_stream[nr]);
	CU(stream_synchronize, own_stream[nr]);
	must_err(kvmm_stream_add(s->pool, own_stream[nr], 0, &lane->id), "kvmm_stream_add");
}

static void open_pool(struct stress *s)
{
	struct kvmm_plane plane = { gpu.pool, s->block_bytes, s->block_bytes };
	struct kvmm_pool_attr attr = { .size = sizeof(attr),
				       .device = gpu.is_soft ? "soft:0" : "cuda:0",
				       .planes = &plane, .nr_planes = 1,
				       .nr_blocks = s->nr_blocks };

	must_err(kvmm_pool_create(&attr, &s->pool), "kvmm_pool_create");
}

static void make_right(struct stress *s)
{
	u8 *block = malloc(s->block_bytes);

	must_be(block, "memory for a block");
	for (u32 value = 0; value < 256; value++) {
		memset(block, value, s->block_bytes);
		s->right[value] = kv_sum_piece(block, s->block_bytes, 0);
	}
	free(block);
}

static void stress_open(struct stress *s, u64 seed, bool frees_late)
{
	*s = (struct stress){
		.block_bytes = gpu.is_quick ? 4 * KIB : 256 * KIB,
		.nr_blocks = gpu.is_quick ? 96 : MAX_BLOCKS, .random = seed,
		.frees_late = frees_late,
	};
	s->nr_seqs = s->nr_blocks / 6;
	make_right(s);
	open_pool(s);
	for (u32 i = 0; i < NR_STREAMS; i++)
		open_lane(s, i);
}

/* ---- readers ---- */

static void check(struct stress *s, u32 nr)
{
	struct lane *lane = &s->lane[nr];

	CU(stream_synchronize, own_stream[nr]);
	for (u32 i = 0; i < REPEATS * lane->nr_blocks; i++)
		s->nr_wrong += lane->seen[i] != s->right[lane->value[i % lane->nr_blocks]];
	s->nr_checked += REPEATS * lane->nr_blocks;
	lane->nr_blocks = 0;
}

/* Where all sealed sequences lie now. */
static void list_blocks(struct stress *s, struct lane *lane)
{
	for (u32 k = 0; k < s->nr_seqs; k++) {
		const struct seq *seq = &s->seq[k];
		struct kvmm_extent ext[MAX_LEN];
		int nr = 0, n = 0;

		if (seq->is_live && seq->is_sealed)
			nr = kvmm_range_extents(s->pool, seq->range, ext, MAX_LEN);
		must_err(min(nr, 0), "kvmm_range_extents");
		for (int i = 0; i < nr; i++)
			for (u32 b = 0; b < ext[i].nr; b++, n++) {
				lane->value[lane->nr_blocks] = seq->value[n];
				lane->blocks[lane->nr_blocks++] = ext[i].start + b;
			}
	}
}

static void read_blocks(struct lane *lane, kcu_stream stream)
{
	u64 bytes = lane->nr_blocks * sizeof(u64);

	CU(memcpy_htod_async, lane->list, lane->blocks, lane->nr_blocks * sizeof(u32), stream);
	CU(memset_d8_async, lane->sums, 0, REPEATS * bytes, stream);
	for (u32 i = 0; i < REPEATS; i++) {
		struct kv_sum_args args = {
			.planes = lane->plane, .nr_planes = 1, .blocks = lane->list,
			.block_words = 1, .nr_blocks = lane->nr_blocks, .nr_parts = 1,
			.sums = lane->sums + i * bytes,
		};
		void *params[] = { &args };

		CU(launch_kernel, gpu.sum, kv_launch_sum_groups(&args, gpu.nr_sms), 1, 1, 256, 1, 1,
		   0, stream, params, NULL);
	}
	CU(memcpy_dtoh_async, lane->seen, lane->sums, REPEATS * bytes, stream);
}

/* The step before was looked at. */
static void reader_step(struct stress *s, u32 nr)
{
	struct lane *lane = &s->lane[nr];
	uint64_t epoch;

	CU(stream_wait_event, own_stream[nr], s->lane[0].event, 0);
	must_err(kvmm_step_begin(s->pool, lane->id, &epoch), "kvmm_step_begin");
	list_blocks(s, lane);
	if (lane->nr_blocks)
		read_blocks(lane, own_stream[nr]);
	must_err(kvmm_step_end(s->pool, lane->id, epoch), "kvmm_step_end");
	CU(event_record, lane->event, own_stream[nr]);
	s->nr_steps++;
}

/* ---- the writer ---- */

static void fill_seq(struct stress *s, struct seq *seq)
{
	struct kvmm_extent ext[MAX_LEN];
	int nr = kvmm_range_extents(s->pool, seq->range, ext, MAX_LEN), n = 0;

	must_err(min(nr, 0), "kvmm_range_extents");
	for (int i = 0; i < nr; i++)
		for (u32 b = 0; b < ext[i].nr; b++) {
			seq->value[n] = s->last_value = s->last_value % 255 + 1;
			CU(memset_d8_async, gpu.pool + (ext[i].start + b) * s->block_bytes,
			   seq->value[n++], s->block_bytes, own_stream[0]);
		}
}

/* Something that lasts, so that what is queued behind it is not over at once. */
static void delay_writer(struct stress *s)
{
	struct kv_sum_args args = {
		.planes = s->lane[0].plane, .nr_planes = 1, .nr_blocks = s->nr_blocks,
		.nr_parts = 1, .sums = s->lane[0].sums,
	};
	void *params[] = { &args };

	for (u32 i = 0; i < 4; i++)
		CU(launch_kernel, gpu.sum, 8, 1, 1, 64, 1, 1, 0, own_stream[0], params, NULL);
}

/*
 * Written and sealed at once: the write is under way, and whoever reads or moves it waits for
 * it.
 */
static void make_seq(struct stress *s, struct seq *seq)
{
	uint64_t epoch;

	seq->nr = 1 + below(s, MAX_LEN);
	if (kvmm_range_alloc(s->pool, seq->nr, KVMM_RUNS(4) | KVMM_ALLOC_NO_COMPACT,
			     &seq->range))
		return;
	must_err(kvmm_step_begin(s->pool, s->lane[0].id, &epoch), "kvmm_step_begin");
	if (!below(s, 4))
		delay_writer(s);
	fill_seq(s, seq);
	must_err(kvmm_step_end(s->pool, s->lane[0].id, epoch), "kvmm_step_end");
	CU(event_record, s->lane[0].event, own_stream[0]);
	must_err(kvmm_range_seal(s->pool, seq->range, seq->nr), "kvmm_range_seal");
	seq->is_live = seq->is_sealed = true;
}

static void free_some(struct stress *s)
{
	for (u32 n = s->nr_seqs / 4; n; n--) {
		struct seq *seq = &s->seq[below(s, s->nr_seqs)];

		if (!seq->is_live)
			continue;
		must_err(kvmm_range_free(s->pool, seq->range), "kvmm_range_free");
		seq->is_live = false;
		s->writer_waits |= s->frees_late;
	}
}

static void make_some(struct stress *s)
{
	for (u32 i = 1; i < NR_STREAMS && s->writer_waits; i++)
		CU(stream_wait_event, own_stream[0], s->lane[i].event, 0);
	s->writer_waits = false;
	for (u32 n = s->nr_seqs / 2; n; n--) {
		struct seq *seq = &s->seq[below(s, s->nr_seqs)];

		if (!seq->is_live)
			make_seq(s, seq);
	}
}

/* ---- a run ---- */

static void compact(struct stress *s)
{
	struct kvmm_compact goal = {
		.size = sizeof(goal), .want_run = 2 + below(s, s->nr_blocks / 4),
	};

	kvmm_compact_start(s->pool, &goal, KVMM_MOVE_BESIDE);	/* there may be nothing to do */
	kvmm_compact_poll(s->pool);
}

/* Readers under way, then moves, then writers of what is free by then. */
static void round_of(struct stress *s)
{
	check(s, 1);
	check(s, 2);
	if (!s->frees_late)
		free_some(s);
	reader_step(s, 1);
	reader_step(s, 2);
	if (s->frees_late)
		free_some(s);
	compact(s);
	for (u32 n = below(s, 32); n; n--)
		kvmm_compact_poll(s->pool);
	make_some(s);
	compact(s);
}

/* Until something is wrong, or the time is over. Returns how many sums were. */
static u64 stress_run(enum rule rule, double seconds, struct samples *checked,
		      struct samples *moved)
{
	u64 end_ns = now_ns() + seconds * 1e9, begin_ns = now_ns();
	struct kvmm_step_stat stat;
	static struct stress s;
	u32 nr = 0;

	stress_open(&s, 1 + rule + checked->nr, rule == NO_R2 || (!rule && checked->nr % 2));
	broken = rule;
	for (; nr < ROUNDS && !s.nr_wrong && now_ns() < end_ns; nr++)
		round_of(&s);
	must_err(kvmm_step_get_stat(s.pool, &stat), "kvmm_step_get_stat");
	if (rule == ALL_RULES)
		must_err(kvmm_validate(s.pool), "kvmm_validate");
	for (u32 i = 0; i < NR_STREAMS; i++)
		check(&s, i);
	broken = ALL_RULES;
	kvmm_compact_cancel(s.pool);
	kvmm_pool_destroy(s.pool);
	for (u32 i = 0; i < NR_STREAMS; i++) {
		CU(event_destroy, s.lane[i].event);
		CU(stream_destroy, own_stream[i]);
	}
	add_sample(checked, s.nr_checked);
	add_sample(moved, stat.published_blocks);
	if (rule && s.nr_wrong)
		report_fact("noticed", "R%u left out: %llu wrong sums after %u rounds, %llu ms",
			    rule + 1, (unsigned long long)s.nr_wrong, nr,
			    (unsigned long long)(now_ns() - begin_ns) / 1000000);
	return s.nr_wrong;
}

static void run(void)
{
	struct samples checked = { .nr = 0 }, moved = { .nr = 0 }, none;
	double seconds = gpu.is_quick ? 0.5 : 8;
	u64 nr_wrong = 0;

	for (u32 i = 0; i < 2; i++)
		nr_wrong += stress_run(ALL_RULES, seconds, &checked, &moved);
	report("checked_blocks", "n", &checked, NULL, 0, "seconds=%g", seconds);
	report("moved_blocks", "n", &moved, NULL, 0, "seconds=%g", seconds);
	if (nr_wrong)
		give_up("%llu wrong sums with all rules kept", (unsigned long long)nr_wrong);
	for (enum rule rule = NO_R2; rule < NR_RULES && !out_of_time(); rule++) {
		none.nr = 0;
		if (!stress_run(rule, 10, &none, &moved))
			give_up("R%u can be left out without anybody noticing", rule + 1);
	}
}

const struct experiment experiment_stress = {
	"E10", "blocks move beside steps that read them; then with each rule left out", run, 4,
};
