// SPDX-License-Identifier: Apache-2.0
/*
 * Would the tests notice if the text were wrong? Each instruction is spoiled in turn, and a few
 * small cases must then fail.
 *
 * Left out, it is noticed without exception. Not so branches and moves between registers, of which
 * the compiler writes some that make no difference; nor all that is swapped, as "less" for "less or
 * equal" where equal never happens. Of swaps, 8 % may survive.
 */
#include "tests/support/test.h"
#include "arena_ptx.h"
#include "tests/support/length.h"

#define NR_SHAPES	40

/* A part of a line, and what to put in its place. */
static const struct swap {
	const char *from;
	const char *to;
} swaps[] = {
	{ "\tadd.s", "\tsub.s" }, { "\tsub.s", "\tadd.s" }, { "mul.lo.s32", "add.s32" },
	{ "mul.lo.s64", "add.s64" }, { "div.u32", "rem.u32" }, { "min.u32", "max.u32" },
	{ "max.u32", "min.u32" }, { "setp.ge.", "setp.gt." }, { "setp.ge.", "setp.lt." },
	{ "setp.gt.", "setp.ge." }, { "setp.gt.", "setp.le." }, { "setp.lt.", "setp.le." },
	{ "setp.lt.", "setp.ge." }, { "setp.le.", "setp.lt." }, { "setp.le.", "setp.gt." },
	{ "setp.eq.", "setp.ne." }, { "setp.ne.", "setp.eq." }, { "xor.b64", "or.b64" },
	{ "\tor.b64", "\tand.b64" }, { "and.b", "or.b" }, { "shl.b32", "add.s32" },
	{ "shr.u32", "add.s32" }, { "u64 \t{%rd", "u64 \t{%rd1" }, { "+8]", "+16]" },
	{ "+40]", "+44]" }, { "\t@%p", "\t@!%p" }, { ", 2;", ", 3;" }, { ", 1;", ", 2;" },
	{ ", 0;", ", 1;" }, { ", 16;", ", 8;" }, { ", 64;", ", 60;" }, { "%ctaid", "%tid" },
	{ "%tid", "%ctaid" }, { "%ntid", "%nctaid" }, { "%nctaid", "%ntid" },
};

struct cases {
	struct arena *arena[NR_SHAPES];
	const char *kernel;
};

static bool case_passes(struct arena *arena, const char *kernel)
{
	char error[ARENA_ERROR];

	arena_reset(arena);
	if (!strcmp(kernel, "kv_sum"))
		return arena_run_sums(arena, arena_launch_ptx, error);
	if (!strcmp(kernel, "kv_move_sum"))
		return arena_run_move_sums(arena, arena_launch_ptx, error);
	return arena_run(arena, arena_launch_ptx, error);
}

static bool all_pass(const struct cases *cases)
{
	for (u32 i = 0; i < NR_SHAPES; i++)
		if (!case_passes(cases->arena[i], cases->kernel))
			return false;
	return true;
}

static enum arena_act act_of(const char *kernel)
{
	return strcmp(kernel, "kv_move1") ? ARENA_MOVE16 : ARENA_MOVE1;
}

/* Every second case has so few threads that they go around often, and loops that are unrolled. */
static struct arena_shape shape_of(const char *kernel, u32 i)
{
	struct arena_shape shape = arena_random_shape(1000 + i, true);

	if (strcmp(kernel, "kv_sum")) {
		shape.act = act_of(kernel);
		shape.list = strstr(kernel, "_list") || strstr(kernel, "_sum");
	}
	if (i % 2) {
		shape.nr_groups = 1 + i / 2 % 2;
		shape.nr_threads = 1 + i / 4 % 3;
		shape.max_bytes = 512;
	}
	return shape;
}

static void make_cases(struct cases *cases, const char *kernel)
{
	cases->kernel = kernel;
	for (u32 i = 0; i < NR_SHAPES; i++) {
		struct arena_shape shape = shape_of(kernel, i);

		cases->arena[i] = arena_create(&shape);
	}
}

static void free_cases(struct cases *cases)
{
	for (u32 i = 0; i < NR_SHAPES; i++)
		arena_destroy(cases->arena[i]);
}

/* Text that the parser refuses is noticed, too. */
static bool mutant_survives(const struct cases *cases, const char *text)
{
	struct ptx_module *mod = ptx_parse(text);
	bool survives = false;

	if (!mod->error[0]) {
		arena_use_ptx(mod);
		survives = all_pass(cases);
	}
	ptx_free(mod);
	return survives;
}

/* The header and one kernel, with room for longer words. */
static char *text_of_kernel(const char *kernel)
{
	char start[80], *text = calloc(1, strlen(kv_kernel_ptx) + 100);
	const char *from, *to;

	snprintf(start, sizeof(start), ".visible .entry %s(", kernel);
	from = strstr(kv_kernel_ptx, start);
	cr_assert(from);
	to = strstr(from, "\n}") + 3;
	sprintf(text, ".version 6.0\n.target sm_70\n.address_size 64\n%.*s", (int)(to - from),
		from);
	return text;
}

/* @text with the line at @line changed, or NULL if the swap does not apply to it. */
static char *swapped(const char *text, const char *line, const struct swap *swap)
{
	const char *end = strchr(line, '\n'), *hit = strstr(line, swap->from);
	char *mutant;

	if (!hit || hit >= end)
		return NULL;
	mutant = malloc(strlen(text) + strlen(swap->to) + 1);
	sprintf(mutant, "%.*s%s%s", (int)(hit - text), text, swap->to,
		hit + strlen(swap->from));
	return mutant;
}

static char *left_out(const char *text, const char *line)
{
	char *mutant = strdup(text);

	mutant[line - text] = '/';
	mutant[line - text + 1] = '/';
	return mutant;
}

static bool is_instruction(const char *line)
{
	return line[0] == '\t' && line[1] != '.' && line[1] != '/' &&
	       memchr(line, ';', strcspn(line, "\n"));
}

static bool may_be_idle(const char *line)
{
	return line[1] == '@' || !strncmp(line + 1, "bra", 3) || !strncmp(line + 1, "mov", 3);
}

static void tell(const char *what, const char *line)
{
	fprintf(stderr, "survives, %s: %.*s\n", what, (int)strcspn(line, "\n"), line);
}

static void leave_out_each_instruction(const char *kernel)
{
	char *text = text_of_kernel(kernel);
	struct cases cases;
	u32 nr = 0;

	make_cases(&cases, kernel);
	cr_assert(mutant_survives(&cases, text), "%s fails as it is", kernel);
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		char *mutant;

		if (!is_instruction(line) || may_be_idle(line))
			continue;
		if (nr++ % test_stride())
			continue;
		mutant = left_out(text, line);
		cr_expect_not(mutant_survives(&cases, mutant), "%s without%.*s", kernel,
			      (int)strcspn(line, "\n"), line);
		free(mutant);
	}
	cr_expect_gt(nr, 80);
	free_cases(&cases);
	free(text);
}

/* How many survive of the @nr that were made. */
static u32 swap_in_each_instruction(const char *kernel, u32 *nr)
{
	char *text = text_of_kernel(kernel);
	struct cases cases;
	u32 survivors = 0;

	make_cases(&cases, kernel);
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		for (u32 i = 0; is_instruction(line) && i < ARRAY_SIZE(swaps); i++) {
			char *mutant = swapped(text, line, &swaps[i]);

			if (!mutant)
				continue;
			(*nr)++;
			if (mutant_survives(&cases, mutant)) {
				survivors++;
				tell(swaps[i].to, line);
			}
			free(mutant);
		}
	free_cases(&cases);
	free(text);
	return survivors;
}

static void spoil(const char *kernel)
{
	u32 nr = 0, survivors;

	leave_out_each_instruction(kernel);
	if (test_is_short())
		return;
	survivors = swap_in_each_instruction(kernel, &nr);
	fprintf(stderr, "%s: %u of %u swaps survive\n", kernel, survivors, nr);
	cr_expect_gt(nr, 100);
	cr_expect_leq(survivors * 100, nr * 8);
}

TEST_CALL(mutant, kv_move16_is_noticed, spoil("kv_move16"))
TEST_CALL(mutant, kv_move16_list_is_noticed, spoil("kv_move16_list"))
TEST_CALL(mutant, kv_move1_is_noticed, spoil("kv_move1"))
TEST_CALL(mutant, kv_sum_is_noticed, spoil("kv_sum"))
TEST_CALL(mutant, kv_move_sum_is_noticed, spoil("kv_move_sum"))
