// SPDX-License-Identifier: Apache-2.0
/* The parts of kvmm-replay on which its figures rest, against plain models of them. */
#include <criterion/criterion.h>
#include <string.h>

#include <kvmm/kvmm.h>

#include "tests/replay/units.h"

static u64 random_state = 1;

static u32 random_below(u32 n)
{
	random_state += 0x9e3779b97f4a7c15u;
	return (u32)(mix64(random_state) % n);
}

/* ---- content ---- */

static struct kvmm_pool *pool_with_content(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool;

	attr.nr_blocks = 8;
	attr.block_bytes = 100;
	cr_assert_eq(kvmm_pool_create(&attr, &pool), 0);
	return pool;
}

Test(pattern, finds_one_flipped_bit_and_names_block_and_request)
{
	const struct options opt = { .verify = true, .block_bytes = 100, .seed = 5 };
	struct kvmm_pool *pool = pool_with_content();
	struct pattern pattern;
	u8 byte;

	cr_assert_eq(pattern_init(&pattern, &opt, pool), 0);
	cr_expect_eq(pattern_write(&pattern, 3, 77), EXIT_GOOD);
	cr_expect_eq(pattern_check(&pattern, 3, 77, 9, "at free"), EXIT_GOOD);
	cr_expect_eq(pattern.nr_checked, 1);
	cr_expect_eq(pattern_check(&pattern, 3, 78, 9, "at free"), EXIT_WRONG);

	cr_assert_eq(kvmm_block_read(pool, 3, 99, &byte, 1), 0);
	byte ^= 1;
	cr_assert_eq(kvmm_block_write(pool, 3, 99, &byte, 1), 0);
	complaint[0] = '\0';
	cr_expect_eq(pattern_check(&pattern, 3, 77, 9, "at free"), EXIT_WRONG);
	cr_expect(strstr(complaint, "block 3") && strstr(complaint, "request 9"));
	pattern_exit(&pattern);
	kvmm_pool_destroy(pool);
}

/* ---- what making room costs ---- */

#define SIZE	48u

/* Runs of a random zone: run[i] is the run that block i belongs to, 0 if it is free. */
static struct kvmm_zone *random_zone(u32 *run, struct layout *layout)
{
	struct kvmm_zone_attr attr = KVMM_ZONE_ATTR_INIT;
	struct kvmm_zone *zone;
	u32 nr_runs = 0;

	attr.nr_blocks = SIZE;
	attr.engine = "first";
	cr_assert_eq(kvmm_zone_create(&attr, &zone), 0);
	memset(run, 0, SIZE * sizeof(*run));
	layout_clear_runs(layout);
	for (u32 at = 0; at < SIZE; ) {
		u32 nr = 1 + random_below(6), held = random_below(2);

		nr = (u32)min_u64(nr, SIZE - at);
		if (held) {
			cr_assert_eq(kvmm_zone_alloc_at(zone, at, nr), 0);
			cr_assert_eq(layout_add_run(layout, at), 0);
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
		struct kvmm_zone *zone = random_zone(run, &layout);
		struct kvmm_zone_stat stat;
		u32 nr;

		cr_assert_eq(layout_holes(&layout, zone), 0);
		layout_sort_runs(&layout, SIZE);
		kvmm_zone_stat(zone, &stat);
		cr_assert_eq(layout_longest_hole(&layout), stat.largest);
		nr = 1 + random_below(SIZE);
		if (nr <= stat.nr_free) {
			cr_assert_eq(layout_slide_cost(&layout, nr), model_slide(run, nr));
			cr_assert_eq(layout_bound_cost(&layout, SIZE, nr), model_bound(run, nr));
		}
		kvmm_zone_destroy(zone);
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
			cr_assert_eq(heap_push(&heap, last.time + random_below(50), i), 0);
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
	return trace_parse(trace, text, strlen(text), error);
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
	cr_expect_eq(trace_id(&trace, &trace.req[0], 0), 40);
	cr_expect_eq(trace_id(&trace, &trace.req[0], 1), 7);
	trace_close(&trace);
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
	trace_set_name(&trace, ".csv");
	cr_expect_str_eq(trace.name, ".csv");
}

Test(trace, made_up_prompts_share_prefixes_and_are_the_same_for_one_seed)
{
	struct trace a, b;
	u64 most = 0, shared = 0;

	cr_assert_eq(trace_generate(&a, 2000, 3), 0);
	cr_assert_eq(trace_generate(&b, 2000, 3), 0);
	cr_assert_eq(a.nr, 2000);
	cr_expect_eq(a.nr_ids, b.nr_ids);
	cr_expect_arr_eq(a.ids, b.ids, a.nr_ids * sizeof(*a.ids));
	for (u32 q = 0; q < a.nr; q++) {
		cr_expect_eq(a.req[q].nr_ids, DIV_ROUND_UP(a.req[q].input, TRACE_ID_TOKENS));
		cr_expect(!q || a.req[q].arrival_us >= a.req[q - 1].arrival_us);
		cr_expect_eq(a.req[q].arrival_us, b.req[q].arrival_us);
		cr_expect_eq(a.req[q].input, b.req[q].input);
		cr_expect_eq(a.req[q].output, b.req[q].output);
	}
	/* Numbers are given in order: those up to the largest so far were seen before. */
	for (size_t i = 0; i < a.nr_ids; i++) {
		shared += a.ids[i] < most;
		most = max_u64(most, a.ids[i] + 1);
	}
	cr_expect_gt(shared * 100, a.nr_ids * 25);
	cr_expect_lt(shared * 100, a.nr_ids * 50);
	trace_close(&a);
	trace_close(&b);
}
