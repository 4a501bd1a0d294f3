// SPDX-License-Identifier: Apache-2.0
/*
 * Mode compare: a board of traces, rows (policies, then what no policy can know) and columns
 * (sizes). Each field is one run of seq or conc, exactly as it would be alone.
 *
 * Threads take jobs from a list; a job writes to itself alone and output is made in the order of
 * the list when all is done, so it does not matter how many threads there are.
 */
#include <pthread.h>
#include <stdio.h>

#include "ages.h"
#include "live.h"
#include "policies.h"
#include "shape.h"

/* The rows at the end, in this order. */
enum reference { REF_MIN, REF_BOUND, REF_INFINITE, NR_REFS };

/* One run; everything in it is its own but what @run borrows from the board. */
struct job {
	struct options opt;
	struct run run;
	struct results results;
	struct tally tally;
	struct ages ages;
	struct meter meter;
	enum exit_code code;
	char complaint[COMPLAINT_BYTES];
};

/**
 * struct board - all runs
 * @nr_blocks: by trace: prompt blocks of all requests, what rates are rates of
 * @policy: names
 * @row: what the rows are called: a policy, or one and a policy of writing
 * @policy_of, @write_of: by row: which of @policy, and enum kvmm_tier_write
 * @lru: the row that others are compared with
 * @job: by trace, row and column; the row "infinite" has only the first column
 */
struct board {
	const struct options *opt;
	struct trace trace[MAX_SOURCES];
	u64 nr_blocks[MAX_SOURCES];
	struct policies policy;
	struct policies row;
	u8 policy_of[MAX_POLICIES];
	u8 write_of[MAX_POLICIES];
	u32 size[MAX_SIZES];
	u32 nr_traces;
	u32 nr_sizes;
	u32 lru;
	struct job *job;
	u32 nr_jobs;
};

static inline u32 first_reference(const struct board *board)
{
	return board->row.nr - NR_REFS;
}

/* Always there, whatever the size. */
static inline bool is_infinite(const struct board *board, u32 row)
{
	return row == first_reference(board) + REF_INFINITE;
}

static inline struct job *job_at(const struct board *board, u32 trace, u32 row, u32 column)
{
	if (is_infinite(board, row))
		column = 0;
	return &board->job[(trace * board->row.nr + row) * board->nr_sizes + column];
}

static inline u64 hits_at(const struct board *board, u32 trace, u32 row, u32 column)
{
	return job_at(board, trace, row, column)->tally.hits;
}

/* Share of all prompt blocks; those of a request that is too large for the pool did not hit. */
static inline double rate_at(const struct board *board, u32 trace, u32 row, u32 column)
{
	return 100 * share(hits_at(board, trace, row, column), board->nr_blocks[trace]);
}

/* ---- what follows from the runs ---- */

/*
 * How far a row has come from lru to min, in millionths, rounded toward zero
 *
 * Return: false if min hits no more than lru.
 */
static bool gap_closed(const struct board *board, u32 trace, u32 row, u32 column, s64 *ppm)
{
	s64 lru = (s64)hits_at(board, trace, board->lru, column);
	s64 min = (s64)hits_at(board, trace, first_reference(board) + REF_MIN, column);

	if (min <= lru)
		return false;
	*ppm = ((s64)hits_at(board, trace, row, column) - lru) * 1000000 / (min - lru);
	return true;
}

/* Does no policy of the board hit more here? */
static bool is_best(const struct board *board, u32 trace, u32 row, u32 column)
{
	u64 hits = hits_at(board, trace, row, column);

	for (u32 other = 0; other < first_reference(board); other++)
		if (hits_at(board, trace, other, column) > hits)
			return false;
	return row < first_reference(board);
}

/* The ages of a run, NULL if nobody counted them. */
static const struct ages *ages_at(const struct board *board, u32 trace, u32 row, u32 column)
{
	return job_at(board, trace, row, column)->run.ages;
}

/* ---- tables for people, lines of JSON, a page ---- */

/**
 * struct table - one table of a trace
 * @title: what the numbers are; %s: the unit of times
 * @cell: text of a field
 * @offset: of a number in struct tally, or in struct ages, if @cell is about one
 * @scale: what it is divided by
 * @digits: behind the point
 */
struct table {
	const char *title;
	void (*cell)(const struct board *board, const struct table *table, u32 trace, u32 row,
		     u32 column, char text[16]);
	size_t offset;
	double scale;
	int digits;
};

#define CELL(name)									\
	static void name##_cell(const struct board *board, const struct table *table,	\
				u32 trace, u32 row, u32 column, char text[16])

CELL(rate)
{
	snprintf(text, 16, "%.2f%c", rate_at(board, trace, row, column),
		 is_best(board, trace, row, column) ? '*' : ' ');
}

CELL(gap)
{
	s64 ppm;

	/* Where lru leaves next to nothing to be gained, to fall back is to fall far. */
	if (gap_closed(board, trace, row, column, &ppm))
		snprintf(text, 16, "%s%.1f ", ppm < -9990000 ? "< " : "",
			 (double)(ppm < -9990000 ? -9990000 : ppm) / 10000);
	else
		strcpy(text, "- ");
}

/* Half of a histogram of struct ages. */
CELL(age)
{
	const char *ages = (const char *)ages_at(board, trace, row, column);

	snprintf(text, 16, "%llu ", (unsigned long long)histogram_within(
			 (const struct histogram *)(ages + table->offset), 50));
}

CELL(near)
{
	const struct ages *ages = ages_at(board, trace, row, column);

	snprintf(text, 16, "%.2f ", 100 * share(ages->nr_near, board->nr_blocks[trace]));
}

CELL(unused)
{
	const struct ages *ages = ages_at(board, trace, row, column);

	snprintf(text, 16, "%.1f ", 100 * share(ages->nr_unused, ages->nr_evictions));
}

/* A number of struct tally; without a scale, a share of the prompt blocks. */
CELL(tally)
{
	const char *tally = (const char *)&job_at(board, trace, row, column)->tally;
	u64 value;

	memcpy(&value, tally + table->offset, sizeof(value));
	snprintf(text, 16, "%.*f ", table->digits, table->scale ? (double)value / table->scale :
		 100 * share(value, board->nr_blocks[trace]));
}

#define AGES(field)			age_cell, offsetof(struct ages, field), 0, 0
#define TALLY(field, scale, digits)	tally_cell, offsetof(struct tally, field), scale, digits

static const struct table rates = {
	"hits, %% of the prompt blocks (* best policy)", rate_cell, 0, 0, 0,
}, gaps = {
	"closed of the gap from lru to min, %%", gap_cell, 0, 0, 0,
}, of_ages[] = {
	{ "half of the hits: idle for at most, %s", AGES(idle_at_hit) },
	{ "half of the evictions: idle for at most, %s", AGES(idle_at_eviction) },
	{ "refilled within one pool's worth of evictions, %% of the prompt blocks",
	  near_cell, 0, 0, 0 },
	{ "evicted without a hit, %% of the evictions", unused_cell, 0, 0, 0 },
}, of_tiers[] = {
	{ "hits in the device, %% of the prompt blocks", TALLY(device_hits, 0, 2) },
	{ "hits on the host, %%", TALLY(host_hits, 0, 2) },
	{ "device to host, GB", TALLY(down_bytes, 1e9, 1) },
	{ "host to device, GB", TALLY(up_bytes, 1e9, 1) },
	{ "stalls, s", TALLY(stall_us, 1e6, 3) },
}, of_disk[] = {
	{ "hits on disk, %% of the prompt blocks", TALLY(disk_hits, 0, 2) },
	{ "host to disk, GB", TALLY(write_bytes, 1e9, 1) },
	{ "disk to host, GB", TALLY(read_bytes, 1e9, 1) },
};

static int name_width(const struct board *board)
{
	size_t width = 8;

	for (u32 row = 0; row < board->row.nr; row++)
		width = max_u64(width, strlen(board->row.name[row]));
	return (int)width;
}

/* The first @nr_rows of the board. */
static void print_tables(const struct board *board, u32 trace, const struct table *tables,
			 size_t nr, u32 nr_rows, FILE *out)
{
	int width = name_width(board);
	char text[32];

	for (const struct table *table = tables; table < tables + nr; table++) {
		putc('\n', out);
		fprintf(out, table->title, board->opt->conc ? "us" : "requests");
		fprintf(out, "\n%-*s", width, "blocks");
		for (u32 column = 0; column < board->nr_sizes; column++)
			fprintf(out, " %8s ", grouped(board->size[column]));
		putc('\n', out);
		for (u32 row = 0; row < nr_rows; row++) {
			fprintf(out, "%-*s", width, board->row.name[row]);
			for (u32 column = 0; column < board->nr_sizes; column++) {
				table->cell(board, table, trace, row, column, text);
				fprintf(out, " %9s", text);
			}
			putc('\n', out);
		}
	}
}

static void print_rejected(const struct board *board, u32 trace, FILE *out)
{
	for (u32 column = 0; column < board->nr_sizes; column++) {
		u64 nr = job_at(board, trace, board->lru, column)->tally.rejected;

		if (nr)
			fprintf(out, "%s requests are larger than %s blocks\n",
				grouped(nr), grouped(board->size[column]));
	}
}

static void print_trace(const struct board *board, u32 trace, FILE *out)
{
	const struct options *opt = board->opt;
	u32 nr = first_reference(board);

	fprintf(out, "%s: %s requests, %s prompt blocks of %u tokens, %s\n",
		board->trace[trace].name, grouped(board->trace[trace].nr),
		grouped(board->nr_blocks[trace]), opt->block_tokens,
		opt->conc ? "side by side in time" : "one after the other");
	if (!board->trace[trace].ids)
		fputs("no block numbers in it: every prompt is new\n", out);
	print_rejected(board, trace, out);
	print_tables(board, trace, &rates, 1, board->row.nr, out);
	print_tables(board, trace, &gaps, 1, nr, out);
	if (opt->host.capacity_blocks) {
		fprintf(out,
			"\nhost of %s blocks, disk of %s; min, bound, infinite: one tier of as many\n",
			grouped(opt->host.capacity_blocks), grouped(opt->disk_blocks));
		print_tables(board, trace, of_tiers, ARRAY_SIZE(of_tiers), nr, out);
	}
	if (opt->disk_blocks)
		print_tables(board, trace, of_disk, ARRAY_SIZE(of_disk), nr, out);
	if (opt->ages)
		print_tables(board, trace, of_ages, ARRAY_SIZE(of_ages), nr + REF_MIN + 1, out);
}

/* Where the run stands among the others. */
static void describe_run(const struct board *board, u32 i)
{
	u32 column = i % board->nr_sizes, row = i / board->nr_sizes % board->row.nr;
	u32 trace = i / board->nr_sizes / board->row.nr;
	struct results *results = &board->job[i].results;
	char text[32] = "null";
	s64 ppm;

	results_num(results, "prompt_blocks", board->nr_blocks[trace]);
	if (board->opt->host.capacity_blocks)
		results_num(results, "device_blocks", board->size[column]);
	results_bool(results, "reference", row >= first_reference(board));
	if (!is_infinite(board, row) && gap_closed(board, trace, row, column, &ppm))
		snprintf(text, sizeof(text), "%lld", (long long)ppm);
	results_raw(results, "gap_closed_ppm", text);
	results_bool(results, "best", is_best(board, trace, row, column));
}

static void compare_print_json(const struct board *board, FILE *out)
{
	for (u32 i = 0; i < board->nr_jobs; i++)
		if (board->job[i].run.trace)
			results_print_json(&board->job[i].results, out);
}

/* ---- running ---- */

/**
 * struct crew - the threads; all of it atomic
 * @next: first job that no thread has taken
 * @done: requests of all runs, for the bar
 * @failed: take no more jobs
 */
struct crew {
	const struct board *board;
	u64 done;
	u32 next;
	bool failed;
};

static void run_job(struct job *job)
{
	complain_into(job->complaint);
	if (limit_is(job->opt.policy))
		job->code = run_limit(&job->run);
	else
		job->code = job->opt.conc ? run_conc(&job->run) : run_seq(&job->run);
	complain_into(NULL);
	progress_step(&job->run, job->run.trace->nr);
}

/* Relaxed: a job is one thread's, and the main thread looks at it once it has joined that one. */
static void take_jobs(struct crew *crew, bool shows)
{
	const struct board *board = crew->board;
	u32 i;

	while (!__atomic_load_n(&crew->failed, __ATOMIC_RELAXED) &&
	       (i = __atomic_fetch_add(&crew->next, 1, __ATOMIC_RELAXED)) < board->nr_jobs) {
		struct job *job = &board->job[i];

		job->meter = (struct meter){ .sum = &crew->done, .shows = shows };
		if (job->run.trace)	/* else the field stands for another one (infinite) */
			run_job(job);
		if (job->code)
			__atomic_store_n(&crew->failed, true, __ATOMIC_RELAXED);
	}
}

static void *work(void *crew)
{
	take_jobs(crew, false);
	return NULL;
}

/* This thread works, too, and draws; where no other one can be had it does all. */
static enum exit_code run_jobs(struct board *board)
{
	struct crew crew = { .board = board };
	pthread_t thread[MAX_JOBS];
	u64 total = 0;
	u32 nr = 0;

	for (u32 i = 0; i < board->nr_jobs; i++)
		total += board->job[i].run.trace ? board->job[i].run.trace->nr : 0;
	bar_start(board->opt, "compare", total);
	while (nr + 1 < board->opt->jobs && !pthread_create(&thread[nr], NULL, work, &crew))
		nr++;
	take_jobs(&crew, true);
	while (nr--)
		pthread_join(thread[nr], NULL);
	bar_stop();
	/* Of all complaints the one of the first job: the same one for any number of threads. */
	for (u32 i = 0; i < board->nr_jobs; i++) {
		const struct job *job = &board->job[i];

		if (job->code)
			return complain(job->code, "%s, %s, %u blocks: %s", job->run.trace->name,
					job->opt.policy, job->opt.nr_blocks, job->complaint);
	}
	return EXIT_GOOD;
}

/* ---- the board ---- */

static int add_policies(struct board *board)
{
	const char *list = board->opt->policies;
	struct policies wanted = { .nr = 0 };
	int err = policies_parse(&wanted, list ? list : "all");

	if (!err)
		err = policies_add(&board->policy, "lru", 3);
	for (u32 i = 0; !err && i < wanted.nr; i++) {
		const char *name = wanted.name[i];

		if (!strcmp(name, "all"))
			err = policies_add_all(&board->policy);
		else if (strcmp(name, "min") && !limit_is(name))
			err = policies_add(&board->policy, name, strlen(name));
	}
	return err;
}

/* A row for each policy and each policy of writing. */
static int add_row(struct board *board, u32 policy, u32 write, bool both)
{
	char label[POLICY_BYTES + 16];
	u32 row = board->row.nr;
	int len = snprintf(label, sizeof(label), both ? "%s %s" : "%s", board->policy.name[policy],
			   write_policies[write]);
	int err = policies_add(&board->row, label, (size_t)len);

	if (!err && board->row.nr > row) {
		board->policy_of[row] = (u8)policy;
		board->write_of[row] = (u8)write;
	}
	return err;
}

static int add_rows(struct board *board)
{
	static const char *const references[NR_REFS] = { "min", "bound", "infinite" };
	const struct options *opt = board->opt;
	u32 nr_writes = opt->nr_writes ? opt->nr_writes : 1;
	int err = add_policies(board);

	for (u32 i = 0; !err && i < board->policy.nr; i++)
		for (u32 w = 0; !err && w < nr_writes; w++)
			err = add_row(board, i, opt->nr_writes ? opt->write[w] : opt->knobs.write,
				      opt->nr_writes);
	for (u32 i = 0; !err && i < NR_REFS; i++) {
		err = policies_add(&board->policy, references[i], strlen(references[i]));
		if (!err)
			err = add_row(board, board->policy.nr - 1, opt->knobs.write, false);
	}
	return err;
}

/* In order, each once. */
static void add_sizes(struct board *board)
{
	static const u32 usual[] = { 1000, 2000, 5000, 10000, 20000, 30000, 60000 };
	const struct options *opt = board->opt;
	u32 size[MAX_SIZES], nr = opt->nr_sizes;

	memcpy(size, opt->size, sizeof(size));
	for (; !opt->nr_sizes && nr < ARRAY_SIZE(usual); nr++)
		size[nr] = usual[nr] * (u32)max_u64(1, TRACE_ID_TOKENS / opt->block_tokens);
	qsort(size, nr, sizeof(*size), compare_u32);
	for (u32 i = 0; i < nr; i++)
		if (!i || size[i] != size[i - 1])
			board->size[board->nr_sizes++] = size[i];
}

static enum exit_code add_traces(struct board *board)
{
	const struct options *opt = board->opt;
	enum exit_code code = EXIT_GOOD;

	for (u32 t = 0; !code && t < opt->nr_sources; t++) {
		struct trace *trace = &board->trace[t];

		code = load(&opt->source[t], trace);
		if (!code)
			code = shape_check(opt, trace);
		for (u32 q = 0; q < trace->nr; q++)
			board->nr_blocks[t] += shape_of(opt, &trace->req[q]).prompt;
		board->nr_traces++;
	}
	return code;
}

static void set_up_job(struct board *board, u32 i)
{
	u32 column = i % board->nr_sizes, row = i / board->nr_sizes % board->row.nr;
	struct job *job = &board->job[i];

	if (is_infinite(board, row) && column)
		return;
	job->opt = *board->opt;
	job->opt.policy = board->policy.name[board->policy_of[row]];
	job->opt.knobs.write = board->write_of[row];
	job->opt.nr_blocks = board->size[column];
	if (row >= first_reference(board)) {	/* it knows of one tier, which has as many blocks */
		job->opt.nr_blocks = (u32)min_u64((u64)job->opt.nr_blocks + job->opt.disk_blocks +
						  job->opt.host.capacity_blocks, KVMM_MAX_BLOCKS);
		job->opt.host.capacity_blocks = job->opt.disk_blocks = 0;
	}
	job->run.opt = &job->opt;
	job->run.trace = &board->trace[i / board->nr_sizes / board->row.nr];
	job->run.results = &job->results;
	job->run.tally = &job->tally;
	job->run.meter = &job->meter;
	if (board->opt->ages && !limit_is(job->opt.policy))
		job->run.ages = &job->ages;
}

static enum exit_code set_up(struct board *board)
{
	int err = add_rows(board);
	enum exit_code code;

	if (err)
		return complain(EXIT_INPUT, "--policies: more than %u names",
				MAX_POLICIES - NR_REFS - 1);
	add_sizes(board);
	code = add_traces(board);
	if (code)
		return code;
	board->nr_jobs = board->nr_traces * board->row.nr * board->nr_sizes;
	board->job = must_alloc(board->nr_jobs * sizeof(*board->job));
	for (u32 i = 0; i < board->nr_jobs; i++)
		set_up_job(board, i);
	return EXIT_GOOD;
}

static enum exit_code print(const struct board *board)
{
	const char *path = board->opt->report_path;
	FILE *lines = path ? tmpfile() : NULL;
	int err = path && !lines ? -errno : 0;

	for (u32 i = 0; i < board->nr_jobs; i++)
		if (board->job[i].run.trace)
			describe_run(board, i);
	if (lines) {
		compare_print_json(board, lines);
		err = ferror(lines) ? -EIO : report_write(lines, "compare", path);
		fclose(lines);
	}
	if (err)
		return complain(EXIT_INPUT, "%s: %s", path, strerror(-err));
	if (board->opt->json)
		compare_print_json(board, stdout);
	for (u32 t = 0; !board->opt->json && t < board->nr_traces; t++) {
		fputs(t ? "\n" : "", stdout);
		print_trace(board, t, stdout);
	}
	return finish_output(EXIT_GOOD);
}

enum exit_code run_compare(const struct options *opt)
{
	struct board *board = must_alloc(sizeof(*board));
	enum exit_code code;

	board->opt = opt;
	code = set_up(board);
	if (!code)
		code = run_jobs(board);
	if (!code)
		code = print(board);
	for (u32 i = 0; i < board->nr_jobs; i++)
		results_exit(&board->job[i].results);
	for (u32 t = 0; t < board->nr_traces; t++)
		trace_close(&board->trace[t]);
	free(board->job);
	free(board);
	return code;
}
