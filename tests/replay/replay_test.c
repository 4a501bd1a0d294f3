// SPDX-License-Identifier: Apache-2.0
/* The parts of kvmm-replay on which its figures rest, against plain models of them. */
#include <kv/zone.h>

#include "tests/replay/units.h"
#include "tests/support/test.h"

static u64 random_state = 1;

static u32 random_below(u32 n)
{
	random_state += 0x9e3779b97f4a7c15u;
	return (u32)(mix64(random_state) % n);
}

/* ---- content ---- */

static struct kvmm_pool *pool_with_content(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .block_bytes = 100 };
	struct kvmm_pool *pool;

	cr_assert_eq(kvmm_pool_create(&attr, &pool), 0);
	return pool;
}

Test(pattern, finds_one_flipped_bit_and_names_block_and_request)
{
	const struct options opt = { .verify = true, .block_bytes = 100, .seed = 5 };
	struct kvmm_pool *pool = pool_with_content();
	char complaint[COMPLAINT_BYTES];
	struct pattern pattern;
	u8 byte;

	complain_into(complaint);
	pattern_init(&pattern, &opt, pool);
	cr_expect_eq(pattern_write(&pattern, 3, 77), EXIT_GOOD);
	cr_expect_eq(pattern_check(&pattern, 3, 77, 9, "at free"), EXIT_GOOD);
	cr_expect_eq(pattern.nr_checked, 1);
	cr_expect_eq(pattern_check(&pattern, 3, 78, 9, "at free"), EXIT_WRONG);

	cr_assert_eq(kvmm_block_read(pool, 3, 99, &byte, 1), 0);
	byte ^= 1;
	cr_assert_eq(kvmm_block_write(pool, 3, 99, &byte, 1), 0);
	complain_into(complaint);
	cr_expect_eq(pattern_check(&pattern, 3, 77, 9, "at free"), EXIT_WRONG);
	cr_expect(strstr(complaint, "block 3") && strstr(complaint, "request 9"));
	pattern_exit(&pattern);
	kvmm_pool_destroy(pool);
}

/* ---- what making room costs ---- */

#define SIZE	48u

/* Runs of a random zone: run[i] is the run that block i belongs to, 0 if it is free. */
static struct kv_zone *random_zone(u32 *run, struct layout *layout)
{
	struct kv_zone_attr attr = { .nr_blocks = SIZE, .engine = "first" };
	struct kv_zone *zone;
	u32 nr_runs = 0;

	cr_assert_eq(kv_zone_create(&attr, &zone), 0);
	memset(run, 0, SIZE * sizeof(*run));
	layout_clear_runs(layout);
	for (u32 at = 0; at < SIZE; ) {
		u32 nr = 1 + random_below(6), held = random_below(2);

		nr = (u32)min_u64(nr, SIZE - at);
		if (held) {
			cr_assert_eq(kv_zone_alloc_at(zone, at, nr), 0);
			layout_add_run(layout, at);
			nr_runs++;
		}
		for (u32 i = 0; held && i < nr; i++)
			run[at + i] = nr_runs;
		at += nr;
	}
	return zone;
}

/* Fewest held blocks in any stretch [a, b) that holds @nr free ones and ends in a free one. */
static u64 model_slide(const u32 *run, u32 nr)
{
	u64 best = UINT64_MAX;

	for (u32 a = 0; a < SIZE; a++) {
		u32 nr_free = 0, held = 0;

		if (run[a])
			continue;
		for (u32 b = a; b < SIZE && nr_free < nr; b++) {
			nr_free += !run[b];
			held += run[b] != 0;
		}
		if (nr_free == nr)
			best = min_u64(best, held);
	}
	return best;
}

/* Fewest blocks in the runs that touch a stretch of @nr blocks. */
static u64 model_bound(const u32 *run, u32 nr)
{
	u64 best = UINT64_MAX;

	for (u32 a = 0; a + nr <= SIZE; a++) {
		u64 blocks = 0;

		for (u32 i = 0; i < SIZE; i++)
			for (u32 j = a; run[i] && j < a + nr; j++)
				if (run[j] == run[i]) {
					blocks++;
					break;
				}
		best = min_u64(best, blocks);
	}
	return best;
}

Test(layout, costs_equal_those_of_an_exhaustive_search)
{
	struct layout layout = { 0 };
	u32 run[SIZE];

	for (u32 round = 0; round < 3000; round++) {
		struct kv_zone *zone = random_zone(run, &layout);
		struct kvmm_extent hole = { 0, 0 };
		struct kv_zone_stat stat;
		u32 nr;

		layout_clear_holes(&layout);
		while (!kv_zone_next_free(zone, hole.start + hole.nr, &hole))
			layout_add_hole(&layout, hole);
		layout_sort_runs(&layout, SIZE);
		kv_zone_get_stat(zone, &stat);
		cr_assert_eq(layout_longest_hole(&layout), stat.largest);
		nr = 1 + random_below(SIZE);
		if (nr <= stat.nr_free) {
			cr_assert_eq(layout_slide_cost(&layout, nr), model_slide(run, nr));
			cr_assert_eq(layout_bound_cost(&layout, SIZE, nr), model_bound(run, nr));
		}
		kv_zone_destroy(zone);
	}
	layout_exit(&layout);
}

Test(heap, gives_the_earliest_first_and_the_lowest_index_among_equals)
{
	struct event last = { 0, 0 };
	struct heap heap = { 0 };
	u32 nr = 0;

	for (u32 i = 0; i < 20000; i++) {
		struct event event;

		if (random_below(3)) {
			heap_push(&heap, last.time + random_below(50), i);
			nr++;
		} else if (nr) {
			event = heap_pop(&heap);
			cr_assert_geq(event.time, last.time);
			for (u32 j = 0; j < heap.nr; j++)
				cr_assert(heap.event[j].time > event.time ||
					  heap.event[j].index > event.index);
			last = event;
			nr--;
		}
		cr_assert_eq(heap.nr, nr);
	}
	heap_exit(&heap);
}

/* ---- traces ---- */

static int parse(struct trace *trace, const char *text, struct trace_error *error)
{
	FILE *in = fmemopen((char *)text, strlen(text), "r");
	int err = trace_read(trace, in, error);

	fclose(in);
	return err;
}

Test(trace, mooncake_has_times_lengths_and_numbers)
{
	struct trace_error error;
	struct trace trace;

	cr_assert_eq(parse(&trace, "{\"timestamp\": 3, \"input_length\": 513, \"output_length\": 2,"
				   " \"hash_ids\": [40, 7]}\r\n", &error), 0);
	cr_expect_eq(trace.nr, 1);
	cr_expect_eq(trace.req[0].arrival_us, 3000);
	cr_expect_eq(trace.req[0].input, 513);
	cr_expect_eq(trace.req[0].output, 2);
	cr_expect_eq(trace.req[0].nr_ids, 2);
	cr_expect_eq(trace.id_tokens, 512);
	cr_expect_eq(trace_id(&trace, &trace.req[0], 0), 40);
	cr_expect_eq(trace_id(&trace, &trace.req[0], 1), 7);
	trace_close(&trace);
}

/* Answers, then how many tokens a number stands for; 0: refused. */
static u32 id_tokens_of(const char *const *prompts, u32 nr)
{
	struct trace_error error;
	struct trace trace;
	char text[1024] = "";
	u32 tokens;

	for (u32 i = 0; i < nr; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "{\"timestamp\": 0, \"output_length\": 1, \"input_length\": %s]}\n", prompts[i]);
	tokens = parse(&trace, text, &error) ? 0 : trace.id_tokens;
	trace_close(&trace);
	return tokens;
}

Test(trace, how_many_tokens_a_number_stands_for_is_seen_from_all_prompts)
{
#define PROMPT(tokens, ids) #tokens ", \"hash_ids\": [" ids
	static const char *const small[] = { PROMPT(3, "1"), PROMPT(16, "2"), PROMPT(33, "2, 3, 4") };
	static const char *const tiny[] = { PROMPT(1, "1"), PROMPT(3, "1, 2, 3") };
	static const char *const large[] = { PROMPT(600, "1"), PROMPT(1025, "1, 2") };
	static const char *const two[] = { PROMPT(33, "2, 3, 4"), PROMPT(65, "2, 3, 4") };

	cr_expect_eq(id_tokens_of(small, 2), 512);	/* any: then the usual one */
	cr_expect_eq(id_tokens_of(small, 3), 16);
	cr_expect_eq(id_tokens_of(tiny, 2), 1);
	cr_expect_eq(id_tokens_of(large, 1), 1024);
	cr_expect_eq(id_tokens_of(large, 2), 1024);
	cr_expect_eq(id_tokens_of(two, 2), 0);
}

Test(trace, a_trace_may_say_how_many_tokens_a_number_stands_for)
{
#define SAID(said, tokens, ids) #tokens ", \"block_tokens\": " #said ", \"hash_ids\": [" ids
	static const char *const hybrid[] = { SAID(528, 529, "1, 2"), SAID(528, 3, "3") };
	static const char *const most[] = { SAID(65536, 65537, "1, 2") };
	static const char *const other[] = { SAID(528, 3, "1"), SAID(529, 3, "1") };
	static const char *const never[] = { SAID(528, 3, "1"), PROMPT(3, "1") };
	static const char *const wrong[] = { SAID(528, 529, "1"), SAID(0, 1, "1"),
					     SAID(65537, 1, "1") };

	cr_expect_eq(id_tokens_of(hybrid, 2), 528);
	cr_expect_eq(id_tokens_of(most, 1), 65536);
	cr_expect_eq(id_tokens_of(other, 2), 0);
	cr_expect_eq(id_tokens_of(never, 2), 0);
	for (u32 i = 0; i < ARRAY_SIZE(wrong); i++)
		cr_expect_eq(id_tokens_of(&wrong[i], 1), 0);
}

Test(trace, azure_counts_ticks_from_the_first_row_over_midnight_and_cuts_them_off)
{
	struct trace_error error;
	struct trace trace;

	cr_assert_eq(parse(&trace, "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
				   "2024-02-28 23:59:59.9999999,600,4\r\n"
				   "2024-02-29 00:00:00.0000018,1,4\n"
				   "2024-03-01 00:00:00.0000000,1,4", &error), 0);
	cr_expect_eq(trace.nr, 3);
	cr_expect_eq(trace.req[0].arrival_us, 0);
	cr_expect_eq(trace.req[1].arrival_us, 1);	/* 19 ticks */
	cr_expect_eq(trace.req[2].arrival_us, 86400000000u);
	cr_expect_null(trace.ids);
	cr_expect_eq(trace.req[1].first_id, 2);		/* numbers of its own */
	trace_close(&trace);
}

Test(trace, names_are_short)
{
	struct trace trace = { 0 };

	trace_set_name(&trace, "/a/b_trace/conversation_trace.jsonl");
	cr_expect_str_eq(trace.name, "conversation");
	trace_set_name(&trace, "AzureLLMInferenceTrace_conv.csv");
	cr_expect_str_eq(trace.name, "azure-conv");
	trace_set_name(&trace, "/a/\x1b[2Jb\nc.csv");
	cr_expect_str_eq(trace.name, "?[2Jb?c");
	trace_set_name(&trace, ".csv");
	cr_expect_str_eq(trace.name, ".csv");
}

/* ---- workloads ---- */

static char why[160];

static struct trace make_up(const char *spec)
{
	struct workload work;
	struct trace trace;

	workload_init(&work, WORKLOAD_CHAT);
	cr_assert_eq(workload_parse(&work, spec, why), 0, "%s: %s", spec, why);
	cr_assert_eq(workload_generate(&trace, &work), 0);
	return trace;
}

/* What every reader of traces may rely on. */
static void check_trace(const struct trace *trace)
{
	u64 last_us = 0, next_id = 0;

	for (u32 q = 0; q < trace->nr; q++) {
		const struct trace_request *req = &trace->req[q];

		cr_assert(req->input > 0 && req->input <= TRACE_MAX_TOKENS);
		cr_assert_eq(req->nr_ids, DIV_ROUND_UP(req->input, TRACE_ID_TOKENS));
		cr_assert_eq(req->first_id, next_id);
		cr_assert(req->arrival_us >= last_us && req->arrival_us % 1000 == 0);
		next_id += req->nr_ids;
		last_us = req->arrival_us;
	}
	cr_assert_eq(next_id, trace->nr_ids);
}

/*
 * A number names a whole prefix: it always stands at the same place behind the same number. Numbers
 * are dense enough here to be an index. Returns the share of blocks that were seen before.
 */
static double check_prefixes(const struct trace *trace)
{
	struct idmap before = { 0 };
	u64 seen = 0;
	bool found;

	for (u32 q = 0; q < trace->nr; q++)
		for (u32 i = 0; i < trace->req[q].nr_ids; i++) {
			u64 id = trace_id(trace, &trace->req[q], i);
			u64 last = i ? trace_id(trace, &trace->req[q], i - 1) : ~0ull;
			u32 mark = (u32)mix64(last ^ mix64(i)), *at = idmap_get(&before, id, &found);

			cr_assert(!found || *at == mark, "request %u, block %u", q, i);
			*at = mark;
			seen += found;
		}
	idmap_exit(&before);
	return share(seen, trace->nr_ids);
}

static const char *const kinds_of_workload[] = { "chat", "agent", "zipf", "scan", "phase", "mix" };

Test(workload, every_kind_makes_traces_of_shared_prefixes)
{
	char spec[60];

	for (size_t i = 0; i < ARRAY_SIZE(kinds_of_workload); i++) {
		struct trace trace;
		double again;

		snprintf(spec, sizeof(spec), "%s:requests=1500,seed=3", kinds_of_workload[i]);
		trace = make_up(spec);
		cr_expect_eq(trace.nr, 1500);
		check_trace(&trace);
		again = check_prefixes(&trace);
		cr_expect(again > .2 && again < .98, "%s: %g", spec, again);
		trace_close(&trace);
	}
}

static bool are_same(const struct trace *a, const struct trace *b)
{
	bool same = a->nr == b->nr && a->nr_ids == b->nr_ids &&
		    !memcmp(a->ids, b->ids, a->nr_ids * sizeof(*a->ids));

	for (u32 q = 0; same && q < a->nr; q++)
		same = a->req[q].arrival_us == b->req[q].arrival_us &&
		       a->req[q].input == b->req[q].input &&
		       a->req[q].output == b->req[q].output;
	return same;
}

Test(workload, a_seed_makes_the_same_trace_each_time_and_another_one_another)
{
	char spec[3][60];

	for (size_t i = 0; i < ARRAY_SIZE(kinds_of_workload); i++) {
		struct trace trace[3];

		for (u32 n = 0; n < 3; n++) {
			snprintf(spec[n], sizeof(spec[n]), "%s:requests=400,seed=%u",
				 kinds_of_workload[i], 5 + n / 2);
			trace[n] = make_up(spec[n]);
		}
		cr_expect(are_same(&trace[0], &trace[1]), "%s", spec[0]);
		cr_expect_not(are_same(&trace[0], &trace[2]), "%s", spec[0]);
		for (u32 n = 0; n < 3; n++)
			trace_close(&trace[n]);
	}
}

/* Documents of a workload by their first block: how often each was asked about. */
static void count_documents(const struct trace *trace, u32 from, u32 to, u32 *count, u32 max)
{
	memset(count, 0, max * sizeof(*count));
	for (u32 q = from; q < to; q++) {
		u64 id = trace_id(trace, &trace->req[q], 0);

		cr_assert_lt(id, max);
		count[id]++;
	}
}

Test(workload, zipf_prefers_the_popular_by_the_power_that_was_asked_for)
{
	struct trace trace = make_up("zipf:requests=100000,docs=100,alpha=1,length=1,fresh=.01");
	u32 count[2000], sorted[100] = { 0 }, nr = 0;

	/* First blocks come in order of popularity. */
	count_documents(&trace, 0, trace.nr, count, ARRAY_SIZE(count));
	for (u32 i = 0; i < ARRAY_SIZE(count); i++)
		if (count[i] && nr < 100)
			sorted[nr++] = count[i];
	cr_expect_eq(nr, 100);
	/* Weights 1, 1/2, 1/4, 1/10 of 100000 / (1 + 1/2 + ... + 1/100). */
	cr_expect_float_eq((double)sorted[0], 19277., 600.);
	cr_expect_float_eq((double)sorted[1], 9639., 450.);
	cr_expect_float_eq((double)sorted[3], 4819., 350.);
	cr_expect_float_eq((double)sorted[9], 1928., 250.);
	trace_close(&trace);
}

Test(workload, a_scan_goes_round_its_loop_in_order)
{
	struct trace trace = make_up("scan:requests=600,docs=1,share=.5,loop=50,length=1");
	u64 first[50];
	u32 nr = 0;

	/* The only popular document begins with block 0. */
	for (u32 q = 0; q < trace.nr; q++) {
		u64 id = trace_id(&trace, &trace.req[q], 0);

		if (!id)
			continue;
		if (nr < 50)
			first[nr] = id;
		cr_assert(nr < 50 ? !nr || id > first[nr - 1] : id == first[nr % 50]);
		nr++;
	}
	cr_expect(nr > 240 && nr < 360, "%u", nr);
	trace_close(&trace);
}

static u32 most_asked(const u32 *count, u32 nr)
{
	u32 best = 0;

	for (u32 i = 0; i < nr; i++)
		if (count[i] > count[best])
			best = i;
	return best;
}

Test(workload, with_each_phase_others_become_popular)
{
	struct trace trace = make_up("phase:requests=4000,every=1000,docs=300,alpha=1.5");
	u32 count[8000], favourite[4];

	for (u32 phase = 0; phase < 4; phase++) {
		count_documents(&trace, phase * 1000, phase * 1000 + 1000, count, 8000);
		favourite[phase] = most_asked(count, 8000);
		cr_expect_gt(count[favourite[phase]], 250);
		cr_expect(!phase || favourite[phase] != favourite[phase - 1]);
	}
	trace_close(&trace);
}

/* Blocks that different ones have followed, once behind the system prompts. */
static u32 count_forks(const struct trace *trace)
{
	struct idmap child = { 0 };
	u32 nr = 0;
	bool found;

	for (u32 q = 0; q < trace->nr; q++) {
		const struct trace_request *req = &trace->req[q];

		for (u32 i = 25; i + 1 < req->input / TRACE_ID_TOKENS; i++) {
			u32 next = (u32)trace_id(trace, req, i + 1);
			u32 *known = idmap_get(&child, trace_id(trace, req, i), &found);

			nr += found && *known != next;
			*known = next;
		}
	}
	idmap_exit(&child);
	return nr;
}

Test(workload, agents_repeat_nearly_all_they_said_and_fork_if_asked_to)
{
	struct trace loop = make_up("agent:requests=3000,steps=20,fork=0");
	struct trace fork = make_up("agent:requests=3000,steps=20,fork=.4");

	cr_expect_gt(check_prefixes(&loop), .9);
	cr_expect_gt(check_prefixes(&fork), .9);
	cr_expect_eq(count_forks(&loop), 0);
	cr_expect_gt(count_forks(&fork), 50);
	trace_close(&loop);
	trace_close(&fork);
}

Test(workload, what_cannot_be_made_up_is_explained)
{
	static const char *const bad[] = {
		"", "zip", "zipf:", "zipf:docs", "zipf:docs=", "zipf:docs=0", "zipf:docs=1.5",
		"zipf:docs=1e3", "zipf:docs=-1", "zipf:docs=nan", "zipf:docs=5,", "zipf:,docs=5",
		"zipf:think=5", "chat:docs=5", "chat:follow=1", "chat:seed=", "chat:seed=-1",
		"chat:seed=18446744073709551616", "chat:seed=1x", "chat:requests=1048577",
		"zipf:docs=5 ", "mix:loop=3", "zipf=5", "zipf:alpha=0x1", "zipf:alpha=1..2",
	};
	struct workload work;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		workload_init(&work, WORKLOAD_CHAT);
		why[0] = '\0';
		cr_expect_eq(workload_parse(&work, bad[i], why), -EINVAL, "'%s'", bad[i]);
		cr_expect(why[0], "'%s'", bad[i]);
	}
	workload_init(&work, WORKLOAD_CHAT);
	cr_assert_eq(workload_parse(&work, "scan:docs=7,alpha=1.25,seed=18446744073709551615,"
					   "share=1", why), 0, "%s", why);
	cr_expect_eq(work.kind, WORKLOAD_SCAN);
	cr_expect(work.docs == 7 && work.alpha == 1.25 && work.share == 1);
	cr_expect_eq(work.seed, UINT64_MAX);
	cr_expect_eq(work.loop, 1500);
}

Test(workload, chats_share_a_third_of_their_blocks_and_number_them_in_order)
{
	struct trace trace = make_up("chat:requests=2000,seed=3");
	u64 most = 0, shared = 0;

	/* Numbers are given in order: those up to the largest so far were seen before. */
	for (size_t i = 0; i < trace.nr_ids; i++) {
		shared += trace.ids[i] < most;
		most = max_u64(most, trace.ids[i] + 1);
	}
	cr_expect_gt(shared * 100, trace.nr_ids * 25);
	cr_expect_lt(shared * 100, trace.nr_ids * 50);
	trace_close(&trace);
}

/* ---- names of policies ---- */

Test(policies, a_digit_behind_a_comma_goes_on_with_the_name)
{
	struct policies list = { .nr = 0 };

	cr_assert_eq(policies_parse(&list, "lru,multilru:3,8,15,slru,multilru:2,4,8,lru"), 0);
	cr_assert_eq(list.nr, 4);
	cr_expect_str_eq(list.name[0], "lru");
	cr_expect_str_eq(list.name[1], "multilru:3,8,15");
	cr_expect_str_eq(list.name[2], "slru");
	cr_expect_str_eq(list.name[3], "multilru:2,4,8");
}

Test(policies, lists_with_nothing_in_them_are_refused)
{
	static const char *const bad[] = { "", ",", "lru,", ",lru", "lru,,slru" };
	struct policies list;
	char text[80];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		list.nr = 0;
		cr_expect_eq(policies_parse(&list, bad[i]), -EINVAL, "'%s'", bad[i]);
	}
	memset(text, 'x', sizeof(text));
	text[POLICY_BYTES] = '\0';
	list.nr = 0;
	cr_expect_eq(policies_parse(&list, text), -EINVAL);
	text[POLICY_BYTES - 1] = '\0';
	cr_expect_eq(policies_parse(&list, text), 0);
}

Test(policies, no_more_than_there_is_room_for)
{
	struct policies list = { .nr = 0 };
	char name[8];

	for (u32 i = 0; i < MAX_POLICIES; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		cr_assert_eq(policies_add(&list, name, strlen(name)), 0);
	}
	cr_expect_eq(policies_add(&list, "p0", 2), 0);
	cr_expect_eq(policies_add(&list, "another", 7), -E2BIG);
}

Test(policies, the_library_says_which_there_are)
{
	struct policies list = { .nr = 0 };
	char text[1024];

	cr_assert_eq(policies_add_all(&list), 0);
	cr_assert_gt(list.nr, 1);
	policy_list(text, sizeof(text));
	for (u32 i = 0; i < list.nr; i++) {
		cr_expect_eq(policy_check(list.name[i]), 0, "%s", list.name[i]);
		cr_expect(strstr(text, list.name[i]), "%s", list.name[i]);
	}
	cr_expect_eq(policy_check("no-such-policy"), -ENOENT);
}

/* ---- ages ---- */

Test(ages, buckets_are_powers_of_two)
{
	struct histogram histogram = { .nr = 0 };

	cr_expect_eq(histogram_within(&histogram, 50), 0);
	for (u64 v = 0; v < 8; v++)
		histogram_add(&histogram, v);
	histogram_add(&histogram, UINT64_MAX);
	cr_expect_eq(histogram.nr, 9);
	cr_expect_eq(histogram.bucket[0], 1);
	cr_expect_eq(histogram.bucket[1], 1);
	cr_expect_eq(histogram.bucket[2], 2);
	cr_expect_eq(histogram.bucket[3], 4);
	cr_expect_eq(histogram.bucket[64], 1);
	cr_expect_eq(histogram_within(&histogram, 11), 0);
	cr_expect_eq(histogram_within(&histogram, 40), 3);
	cr_expect_eq(histogram_within(&histogram, 50), 7);
	cr_expect_eq(histogram_within(&histogram, 100), UINT64_MAX);
}

Test(ages, a_life_is_told_from_what_happened_to_its_name)
{
	const kvmm_key_t a = { { 1 } }, b = { { 2 } };
	struct ages ages;

	ages_begin(&ages, 2, "requests");
	ages_fill(&ages, &a);		/* at 0 */
	ages.now = 5;
	ages_hit(&ages, &a);				/* idle for 5 */
	ages.now = 6;
	ages_release(&ages, &a);
	ages_fill(&ages, &b);
	ages.now = 16;
	ages_evict(&ages, &a);				/* idle for 10, aged 16 */
	ages_evict(&ages, &b);				/* idle and aged 10, never hit */
	ages.now = 20;
	ages_fill(&ages, &a);		/* one eviction later */
	cr_expect_eq(ages.idle_at_hit.nr, 1);
	cr_expect_eq((u64)ages.idle_at_hit.sum, 5);
	cr_expect_eq((u64)ages.idle_at_eviction.sum, 20);
	cr_expect_eq((u64)ages.age_at_eviction.sum, 26);
	cr_expect_eq(ages.nr_unused, 1);
	cr_expect_eq(ages.refault.nr, 1);
	cr_expect_eq((u64)ages.refault.sum, 1);
	cr_expect_eq(ages.nr_near, 1);

	/* A second block of that name is no refault, and the first one to go is not the end. */
	ages_fill(&ages, &a);
	ages_evict(&ages, &a);
	ages_fill(&ages, &a);
	cr_expect_eq(ages.refault.nr, 1);
	ages_end(&ages);
	cr_expect_eq(ages.refault.nr, 1);
}

/* The pool is full: one goes, another one comes. */
static void swap(struct ages *ages, const kvmm_key_t *gone, const kvmm_key_t *filled)
{
	ages_evict(ages, gone);
	ages_fill(ages, filled);
}

Test(ages, a_refault_is_near_if_twice_the_pool_would_have_kept_the_block)
{
	const kvmm_key_t a = { { 1 } }, b = { { 2 } }, c = { { 3 } }, d = { { 4 } };
	struct ages ages;

	ages_begin(&ages, 2, "requests");
	ages_fill(&ages, &a);
	ages_fill(&ages, &b);
	swap(&ages, &a, &c);
	swap(&ages, &b, &d);
	swap(&ages, &c, &a);			/* two evictions after its own: four were needed */
	cr_expect_eq(ages.refault.nr, 1);
	cr_expect_eq((u64)ages.refault.sum, 2);
	cr_expect_eq(ages.nr_near, 0);
	swap(&ages, &d, &c);			/* one: c, a and d would fit into four */
	cr_expect_eq((u64)ages.refault.sum, 3);
	cr_expect_eq(ages.nr_near, 1);
	ages_end(&ages);
}
