// SPDX-License-Identifier: Apache-2.0
/* Recordings: what is written, that it is bounded, that it is read back, and what is refused. */
#define _GNU_SOURCE	/* open_memstream(), fmemopen() */
#include "tests/support/test.h"
#include "tools/replay/results.h"
#include "tools/report/recording.h"

#include "tests/report/decode.h"

/* A recording in memory. */
struct tape {
	struct recorder rec;
	FILE *out;
	char *text;
	size_t bytes;
};

static const char *const columns[] = { "held", "moved" };

static void tape_begin(struct tape *tape, struct recorder_attr attr)
{
	tape->out = open_memstream(&tape->text, &tape->bytes);
	attr.out = tape->out;
	attr.source = attr.source ? attr.source : "test";
	attr.x_unit = attr.x_unit ? attr.x_unit : "us";
	attr.columns = columns;
	attr.nr_columns = 2;
	cr_assert_eq(recorder_begin(&tape->rec, &attr), 0);
}

static void tape_end(struct tape *tape)
{
	cr_assert_eq(recorder_end(&tape->rec), 0);
	fclose(tape->out);
}

/* Letters are owners, '.' is free, small letters are cached. */
static void paint(struct recorder *rec, const char *picture)
{
	recorder_clear(rec);
	for (u32 i = 0; picture[i]; i++)
		if (picture[i] != '.')
			recorder_paint(rec, i, 1, (struct cell){
				(u32)(picture[i] & 31), picture[i] >= 'a' ? CELL_CACHED : CELL_ACTIVE });
}

static void add(struct tape *tape, u64 x, u64 held, u64 moved, const char *picture)
{
	paint(&tape->rec, picture);
	recorder_add(&tape->rec, x, (u64[]){ held, moved });
}

static int count_line(void *arg, const struct recording *rec, const char *text, size_t bytes)
{
	(void)rec, (void)text, (void)bytes;
	++*(u32 *)arg;
	return 0;
}

static int read_text(struct recording *rec, const char *text, size_t bytes)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, bytes, "r");
	u32 nr_lines = 0;
	int err = recording_read(rec, in, count_line, &nr_lines);

	fclose(in);
	return err;
}

Test(report, a_recording_is_written_as_documented)
{
	struct tape tape;

	tape_begin(&tape, (struct recorder_attr){
		.trace = "a<\"b\"", .owner = "request", .nr_blocks = 8, .every = 10 });
	add(&tape, 0, 5, 0, "AAB..Bc.");
	add(&tape, 10, 5, 0, "AAB..Bc.");
	recorder_owner(&tape.rec, 4, "four");
	add(&tape, 25, 7, 1, "AABDDDc.");
	tape_end(&tape);
	cr_expect_str_eq(tape.text,
		"{\"kvmm_recording\":1,\"source\":\"test\",\"trace\":\"a\\u003c\\\"b\\\"\",\"x\":\"us\","
		"\"owner\":\"request\",\"blocks\":8,\"cells\":8,\"every\":10,"
		"\"columns\":[\"held\",\"moved\"]}\n"
		"{\"x\":0,\"v\":[5,0],\"map\":\"2a1 1a2 2. 1a2 1c3 1.\"}\n"
		"{\"x\":10,\"v\":[5,0],\"map\":\"8=\"}\n"
		"{\"owner\":4,\"name\":\"four\"}\n"
		"{\"x\":25,\"v\":[7,1],\"map\":\"3= 3a4 2=\"}\n"
		"{\"end\":3,\"every\":10,\"full\":false}\n");
	free(tape.text);
}

Test(report, moments_are_due_at_multiples_of_the_distance)
{
	struct tape tape;

	tape_begin(&tape, (struct recorder_attr){ .nr_blocks = 2, .every = 10 });
	cr_expect(recorder_due(&tape.rec, 0));
	add(&tape, 3, 0, 0, "..");
	cr_expect(!recorder_due(&tape.rec, 9));
	cr_expect(recorder_due(&tape.rec, 10));
	add(&tape, 17, 0, 0, "..");
	cr_expect(!recorder_due(&tape.rec, 19));
	cr_expect(recorder_due(&tape.rec, 20));
	tape_end(&tape);
	free(tape.text);
}

Test(report, a_large_pool_has_as_many_cells_as_there_may_be)
{
	struct tape tape;

	tape_begin(&tape, (struct recorder_attr){ .nr_blocks = 1000000, .every = 1 });
	cr_expect_eq(tape.rec.nr_cells, RECORDER_CELLS);
	recorder_clear(&tape.rec);
	recorder_paint(&tape.rec, 0, 1000000, (struct cell){ 7, CELL_PINNED });
	recorder_add(&tape.rec, 0, (u64[]){ 0, 0 });
	tape_end(&tape);
	cr_expect(strstr(tape.text, "\"map\":\"8192p7\""));
	free(tape.text);
}

/* Each cell shows the block in its middle, whatever the sizes. */
Test(report, a_cell_is_what_the_block_in_its_middle_is)
{
	u64 seed = 3;

	for (int round = 0; round < 300; round++) {
		u32 blocks = 1 + (u32)(next_random(&seed) % 40000);
		u32 start = (u32)(next_random(&seed) % blocks);
		u32 nr = 1 + (u32)(next_random(&seed) % (blocks - start));
		struct tape tape;

		tape_begin(&tape, (struct recorder_attr){ .nr_blocks = blocks, .every = 1 });
		recorder_clear(&tape.rec);
		recorder_paint(&tape.rec, start, nr, (struct cell){ 1, CELL_ACTIVE });
		for (u32 i = 0; i < tape.rec.nr_cells; i++) {
			u32 block = recorder_block(&tape.rec, i);

			cr_assert_eq(tape.rec.row[i].state == CELL_ACTIVE,
				     block >= start && block < start + nr, "%u blocks, %u+%u, cell %u",
				     blocks, start, nr, i);
		}
		tape_end(&tape);
		free(tape.text);
	}
}

static void paint_at_random(struct recorder *rec, u64 *seed)
{
	static const char states[] = ".acpsmx";

	for (u32 i = 0; i < rec->nr_cells; i++)
		if (!(next_random(seed) % 4))
			rec->row[i] = (struct cell){
				next_random(seed) % 5 ? (u32)(next_random(seed) % 3) : U32_NONE,
				(u32)states[next_random(seed) % 7] };
}

/* The decoder is the test's own. */
Test(report, pictures_come_back_as_they_were)
{
	u64 seed = getenv("KVMM_SEED") ? strtoull(getenv("KVMM_SEED"), NULL, 0) : 11;

	printf("seed %llu\n", (unsigned long long)seed);
	for (int round = 0; round < 200; round++) {
		u32 blocks = 1 + (u32)(next_random(&seed) % 60), moments = 1 + (u32)(next_random(&seed) % 20);
		struct cell *painted = calloc((size_t)blocks * moments, sizeof(*painted));
		struct recording rec;
		struct tape tape;

		tape_begin(&tape, (struct recorder_attr){ .nr_blocks = blocks, .every = 1 });
		recorder_clear(&tape.rec);
		for (u32 m = 0; m < moments; m++) {
			paint_at_random(&tape.rec, &seed);
			memcpy(painted + (size_t)m * blocks, tape.rec.row, blocks * sizeof(*painted));
			recorder_add(&tape.rec, m, (u64[]){ m, 0 });
		}
		tape_end(&tape);
		cr_assert_eq(read_text(&rec, tape.text, tape.bytes), 0, "%s", rec.why);
		cr_assert(rec.ended && rec.nr_samples == moments);
		cr_assert(decodes_to(tape.text, painted, blocks, moments));
		free(tape.text);
		free(painted);
	}
}

/* ---- bounds ---- */

static u32 record_noise(struct tape *tape, u32 nr, u64 seed)
{
	u32 added = 0;

	recorder_clear(&tape->rec);
	for (u32 x = 0; x < nr; x++) {
		if (!recorder_due(&tape->rec, x))
			continue;
		for (u32 i = 0; i < tape->rec.nr_cells; i++)
			tape->rec.row[i] = (struct cell){ (u32)next_random(&seed) % 100000, CELL_ACTIVE };
		recorder_add(&tape->rec, x, (u64[]){ x, x });
		added++;
	}
	return added;
}

Test(report, a_file_stays_within_its_bound_by_taking_moments_less_often)
{
	struct recording rec;
	struct tape tape;
	u32 added;

	tape_begin(&tape, (struct recorder_attr){
		.nr_blocks = 1000, .every = 1, .max_bytes = 1 << 20 });
	added = record_noise(&tape, 200000, 5);
	cr_expect(tape.rec.every > 1);
	tape_end(&tape);
	cr_expect_leq(tape.bytes, 1u << 20);
	cr_expect(added > 50, "only %u moments", added);
	cr_expect_eq(read_text(&rec, tape.text, tape.bytes), 0, "%s", rec.why);
	cr_expect_eq(rec.nr_samples, added);
	free(tape.text);
}

Test(report, there_are_no_more_moments_than_there_may_be)
{
	struct tape tape;

	tape_begin(&tape, (struct recorder_attr){ .nr_blocks = 1, .every = 1, .max_samples = 256 });
	cr_expect_leq(record_noise(&tape, 5000000, 5), 256u);
	cr_expect(tape.rec.nr_samples > 128 && tape.rec.every >= 4096);
	tape_end(&tape);
	cr_expect(strstr(tape.text, "\"full\":false"), "the end of the run is not in it");
	free(tape.text);
}

Test(report, a_disk_that_is_full_is_said)
{
	static const char *const none[1];
	struct recorder_attr attr = { .out = fopen("/dev/full", "w"), .source = "test", .x_unit = "us",
				      .columns = none, .nr_blocks = 4, .every = 1 };
	struct recorder rec;

	cr_assert_eq(recorder_begin(&rec, &attr), 0);
	recorder_clear(&rec);
	recorder_add(&rec, 0, NULL);
	cr_expect_eq(recorder_end(&rec), -EIO);
	fclose(attr.out);
}

/* ---- what is refused ---- */

#define DEEP	"[[[[[[[[[[[[[[[[["
#define HEAD	"{\"kvmm_recording\":1,\"source\":\"s\",\"x\":\"us\",\"blocks\":4,\"cells\":4," \
		"\"columns\":[\"held\"]}\n"
#define FIRST	"{\"x\":5,\"v\":[1],\"map\":\"1a7 3.\"}\n"

static const struct {
	const char *text;
	u64 line;
	const char *why;
} bad[] = {
	{ "", 1, "there is nothing" },
	{ "\n", 1, "not an object" },
	{ "[]\n", 1, "not an object" },
	{ "{\"kvmm_recording\":2}\n", 1, "version" },
	{ "{\"kvmm_recording\":\"1\"}\n", 1, "whole number" },
	{ "{\"kvmm_recording\":1,\"x\":\"s\"}\n", 1, "in us or in requests" },
	{ "{\"kvmm_recording\":1,\"blocks\":-4}\n", 1, "whole number" },
	{ "{\"kvmm_recording\":1,\"blocks\":4294967295}\n", 1, "too large" },
	{ "{\"kvmm_recording\":1,\"blocks\":4,\"cells\":5}\n", 1, "more cells" },
	{ "{\"kvmm_recording\":1,\"blocks\":70000,\"cells\":70000}\n", 1, "too large" },
	{ "{\"kvmm_recording\":1,\"columns\":[1]}\n", 1, "not a string" },
	{ "{\"kvmm_recording\":1,\"columns\":[],\"x\":\"us\"}x\n", 1, "more than one value" },
	{ "{\"kvmm_recording\":1,\"columns\":[\"a\"],\"columns\":[\"b\"]}\n", 1, "second time" },
	{ HEAD "{\"x\":1,\"v\":[1]}\n", 2, "map if there are cells" },
	{ HEAD "{\"x\":1,\"map\":\"4.\"}\n", 2, "needs v" },
	{ HEAD "{\"x\":1,\"v\":[1,2],\"map\":\"4.\"}\n", 2, "not as many values" },
	{ HEAD "{\"x\":1,\"v\":[],\"map\":\"4.\"}\n", 2, "not as many values" },
	{ HEAD "{\"x\":1,\"v\":[1.5],\"map\":\"4.\"}\n", 2, "whole number" },
	{ HEAD "{\"x\":1,\"v\":[01],\"map\":\"4.\"}\n", 2, "begins with 0" },
	{ HEAD "{\"x\":1,\"v\":[18446744073709551616],\"map\":\"4.\"}\n", 2, "too large" },
	{ HEAD "{\"x\":1,\"v\":[1],\"map\":\"3.\"}\n", 2, "too short" },
	{ HEAD "{\"x\":1,\"v\":[1],\"map\":\"5.\"}\n", 2, "longer than what is left" },
	{ HEAD "{\"x\":1,\"v\":[1],\"map\":\"0. 4.\"}\n", 2, "no cells" },
	{ HEAD "{\"x\":1,\"v\":[1],\"map\":\"4\"}\n", 2, "none of" },
	{ HEAD "{\"x\":1,\"v\":[1],\"map\":\"4q\"}\n", 2, "none of" },
	{ HEAD "{\"x\":1,\"v\":[1],\"map\":\"4=\"}\n", 2, "first picture" },
	{ HEAD "{\"x\":1,\"v\":[1],\"map\":\"2.2.\"}\n", 2, "one space" },
	{ HEAD "{\"x\":1,\"v\":[1],\"map\":\"4a268435455\"}\n", 2, "too large" },
	{ HEAD "{\"x\":1,\"v\":[1],\"map\":\"4ax\"}\n", 2, "no number" },
	{ HEAD FIRST "{\"x\":4,\"v\":[1],\"map\":\"4=\"}\n", 3, "x goes back" },
	{ HEAD FIRST "{\"x\":6,\"v\":[1],\"v\":[1],\"map\":\"4=\"}\n", 3, "each once" },
	{ HEAD FIRST "{\"y\":6}\n", 3, "none of the known kinds" },
	{ HEAD FIRST "{\"owner\":1,\"title\":\"x\"}\n", 3, "has a name" },
	{ HEAD FIRST "{\"owner\":1,\"name\":\"\xc3\xa4\"}\n", 3, "must escape" },
	{ HEAD FIRST "{\"owner\":1,\"name\":\"\\x\"}\n", 3, "escape" },
	{ HEAD FIRST "{\"latency\":\"a\",\"n\":1}\n", 3, "without buckets" },
	{ HEAD FIRST "{\"latency\":\"a\",\"buckets\":[[2,1],[2,1]]}\n", 3, "do not rise" },
	{ HEAD FIRST "{\"results\":[]}\n", 3, "are an object" },
	{ HEAD FIRST "{\"results\":{\"a\":" DEEP DEEP "1}}\n", 3, "within each other" },
	{ HEAD FIRST "{\"results\":{\"a\":tru}}\n", 3, "not a value" },
	{ HEAD FIRST "{\"results\":{\"a\":1,}}\n", 3, "not a string" },
	{ HEAD FIRST "{\"end\":2}\n", 3, "not as many moments" },
	{ HEAD FIRST "{\"end\":1}\n{\"end\":1}\n", 4, "behind the end" },
	{ "{\"trace\":\"t\",\"policy\":\"lru\",\"n\":1,\"hits\":1}\n", 1, "neither a recording" },
	{ "{\"trace\":\"t\",\"policy\":\"lru\",\"n\":1,\"hits\":1,\"prompt_blocks\":2}\n" HEAD, 2, "neither" },
};

Test(report, what_is_no_recording_is_refused_with_its_line)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct recording rec = { 0 };
		const char *text = bad[i].text;
		int err = *text ? read_text(&rec, text, strlen(text)) : recording_finish(&rec);

		cr_expect_eq(err, -EINVAL, "accepted: %s", text);
		cr_expect_eq(rec.line, bad[i].line, "line %llu: %s", (unsigned long long)rec.line, text);
		cr_expect(strstr(rec.why, bad[i].why), "'%s' for: %s", rec.why, text);
	}
}

Test(report, a_line_that_is_too_long_is_refused)
{
	size_t bytes = RECORDING_MAX_LINE + 2;
	char *text = malloc(bytes);
	struct recording rec;

	memset(text, ' ', bytes);
	cr_expect_eq(read_text(&rec, text, bytes), -EINVAL);
	cr_expect(strstr(rec.why, "megabyte"), "%s", rec.why);
	free(text);
}

Test(report, a_recording_that_was_cut_off_is_good_as_far_as_it_goes)
{
	static const char text[] = HEAD FIRST "{\"x\":6,\"v\":[1],\"map\":\"4=\"}\n{\"x\":7,\"v\":[";
	struct recording rec;

	cr_expect_eq(read_text(&rec, text, strlen(text)), 0, "%s", rec.why);
	cr_expect(!rec.ended && rec.nr_samples == 2);
}

Test(report, what_this_version_does_not_know_in_the_head_is_let_through)
{
	static const char text[] = "{\"kvmm_recording\":1,\"new\":{\"a\":[1,-2.5e3,null,true,\"\\u00e4\"]},"
				   "\"x\":\"requests\"}\n{\"x\":1,\"v\":[]}\n{\"end\":1}\n";
	struct recording rec;

	cr_expect_eq(read_text(&rec, text, strlen(text)), 0, "%s", rec.why);
	cr_expect(rec.ended && rec.kind == RECORDING_STATES);
}

/* ---- latencies ---- */

Test(report, each_value_falls_into_the_bucket_whose_limit_is_next)
{
	for (u32 i = 0; i + 1 < LATENCY_BUCKETS; i++) {
		cr_assert_eq(latency_bucket(latency_limit(i)), i);
		cr_assert_eq(latency_bucket(latency_limit(i) + 1), i + 1);
	}
	cr_expect_eq(latency_bucket(UINT64_MAX), LATENCY_BUCKETS - 1u);
	cr_expect_eq(latency_limit(LATENCY_BUCKETS - 1), UINT64_MAX);
}

static int compare_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

Test(report, a_quantile_is_right_to_an_eighth)
{
	static u64 values[999];
	struct latency latency = { .nr = 0 };
	u64 seed = 17;

	cr_expect_eq(latency_quantile(&latency, 500), 0u);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		values[i] = next_random(&seed) >> (next_random(&seed) % 60);
		latency_count(&latency, values[i]);
	}
	qsort(values, ARRAY_SIZE(values), sizeof(*values), compare_u64);
	for (u32 pm = 1; pm <= 1000; pm += 37) {
		u64 exact = values[(ARRAY_SIZE(values) * pm + 999) / 1000 - 1];
		u64 got = latency_quantile(&latency, pm);

		cr_expect(got >= exact && got - exact <= exact / 8, "%u: %llu for %llu", pm,
			  (unsigned long long)got, (unsigned long long)exact);
	}
	cr_expect_eq(latency_quantile(&latency, 1000), values[ARRAY_SIZE(values) - 1]);
}
