// SPDX-License-Identifier: Apache-2.0
/* Output of kvmm-defrag, for people and as JSON. */
#include <stdlib.h>

#include "defrag.h"

static double percent(u64 ppm)
{
	return (double)ppm / 1e4;
}

static void describe_look(struct results *results, const struct look *look, bool before)
{
	results_num(results, before ? "held_before" : "held_after", look->held);
	results_num(results, before ? "largest_before" : "largest_after", look->largest);
	results_num(results, before ? "holes_before" : "holes_after", look->nr_holes);
	results_num(results, before ? "rate_ppm_before" : "rate_ppm_after", look->rate_ppm);
	results_num(results, before ? "unusable_ppm_before" : "unusable_ppm_after",
		    look->unusable_ppm);
	results_str(results, before ? "map_before" : "map_after", look->map);
}

static void describe_moves(struct results *results, const struct ask *ask,
			   const struct deed *deed)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return;
	fputc('[', out);
	for (u32 i = 0; i < deed->nr_moved && i < ask->nr_moves; i++) {
		const struct moved *move = &deed->moved[i];

		fprintf(out, "%s[%u, %u, %u, %u]", i ? ", " : "", move->request, move->from,
			move->to, move->nr);
	}
	fputc(']', out);
	fclose(out);
	if (text)
		results_raw(results, "move_list", text);
	free(text);
}

static void describe(const struct frag *frag, const struct ask *ask, const struct deed *deed)
{
	struct results *results = frag->run->results;
	u64 bytes = (u64)deed->compact.moved * frag->run->opt->block_bytes;

	results_str(results, "command", ask->command == DEFRAG_PLAN ? "plan" : "run");
	results_str(results, "trace", frag->run->trace->name);
	results_num(results, "size", frag->run->opt->nr_blocks);
	results_num(results, "block_bytes", frag->run->opt->block_bytes);
	results_num(results, "admitted", frag->count.admitted);
	results_num(results, "time_us", frag->now);
	results_num(results, "running", frag->nr_running);
	results_num(results, "want", ask->want);
	results_bool(results, "reached", !deed->err);
	results_num(results, "moved_blocks", deed->compact.moved);
	results_num(results, "moves", deed->compact.nr_moves);
	results_num(results, "moved_bytes", bytes);
	results_num(results, "predicted_ns", predicted_ns(frag, ask, deed->compact.moved));
	if (ask->command == DEFRAG_RUN) {
		results_num(results, "plan_ns", deed->compact.plan_ns);
		results_num(results, "copy_ns", deed->compact.copy_ns);
	}
	describe_look(results, &deed->before, true);
	describe_look(results, &deed->after, false);
	describe_moves(results, ask, deed);
}

static void say_look(struct results *results, const char *label, const struct look *look)
{
	results_say(results, label, "|%s|", look->map);
	results_say(results, "", "%s free blocks in %u run%s, the longest %s; rate %.1f %%",
		    grouped(look->free), look->nr_holes, look->nr_holes == 1 ? "" : "s",
		    grouped(look->largest), percent(look->rate_ppm));
}

static void say_deed(const struct frag *frag, const struct ask *ask, const struct deed *deed)
{
	struct results *results = frag->run->results;
	double bytes = (double)deed->compact.moved * frag->run->opt->block_bytes;
	u64 ns = deed->compact.plan_ns + deed->compact.copy_ns;
	char b[BYTES_TEXT];

	text_of_bytes(bytes, b);
	if (ask->command == DEFRAG_PLAN)
		results_say(results, "plan", "%s blocks in %u moves, %s, about %.3f ms",
			    grouped(deed->compact.moved), deed->compact.nr_moves, b,
			    (double)predicted_ns(frag, ask, deed->compact.moved) / 1e6);
	else
		results_say(results, "moved", "%s blocks in %u moves, %s, %.3f ms (plan %.3f ms)",
			    grouped(deed->compact.moved), deed->compact.nr_moves, b,
			    (double)ns / 1e6, (double)deed->compact.plan_ns / 1e6);
	if (deed->err)
		results_say(results, "not reached", "%s", kvmm_strerror(deed->err));
}

static void say_moves(const struct frag *frag, const struct ask *ask, const struct deed *deed)
{
	for (u32 i = 0; i < deed->nr_moved && i < ask->nr_moves; i++) {
		const struct moved *move = &deed->moved[i];

		results_say(frag->run->results, i ? "" : "moves",
			    "request %u: %u blocks from %u to %u", move->request, move->nr,
			    move->from, move->to);
	}
}

void print_results(const struct frag *frag, const struct ask *ask)
{
	if (ask->replay.json)
		results_print_json(frag->run->results, stdout);
	else
		results_print_text(frag->run->results, stdout);
}

void print_deed(const struct frag *frag, const struct ask *ask, const struct deed *deed)
{
	struct results *results = frag->run->results;

	describe(frag, ask, deed);
	results_say(results, "trace", "%s, %s requests admitted, %.1f s", frag->run->trace->name,
		    grouped(frag->count.admitted), (double)frag->now / 1e6);
	results_say(results, "pool", "%s of %s blocks held by %u requests",
		    grouped(deed->before.held),
		    grouped(frag->run->opt->nr_blocks), frag->nr_running);
	say_look(results, "before", &deed->before);
	say_deed(frag, ask, deed);
	say_moves(frag, ask, deed);
	say_look(results, ask->command == DEFRAG_PLAN ? "would be" : "after", &deed->after);
	results_say(results, "rate", "%.1f %% -> %.1f %%; unusable for %u blocks %.1f %% -> %.1f %%",
		    percent(deed->before.rate_ppm), percent(deed->after.rate_ppm), frag->median,
		    percent(deed->before.unusable_ppm), percent(deed->after.unusable_ppm));
	print_results(frag, ask);
}

void print_head(const struct ask *ask)
{
	if (!ask->replay.json)
		printf("%10s %9s %8s %8s %8s %6s %7s %9s %8s\n", "seconds", "admitted", "held",
		       "free", "longest", "runs", "rate %", "unusable", "moved");
}

void print_moment(const struct frag *frag, const struct ask *ask, const struct look *look,
		  u64 moved)
{
	const char *format = ask->replay.json ?
		"{\"time_us\": %llu, \"admitted\": %llu, \"held\": %u, \"free\": %u, "
		"\"largest\": %u, \"holes\": %u, \"rate_ppm\": %llu, \"unusable_ppm\": %llu, "
		"\"moved\": %llu}\n" : NULL;

	if (format)
		printf(format, (unsigned long long)frag->now,
		       (unsigned long long)frag->count.admitted, look->held, look->free,
		       look->largest, look->nr_holes, (unsigned long long)look->rate_ppm,
		       (unsigned long long)look->unusable_ppm, (unsigned long long)moved);
	else
		printf("%10.1f %9llu %8u %8u %8u %6u %7.1f %9.1f %8llu\n",
		       (double)frag->now / 1e6, (unsigned long long)frag->count.admitted,
		       look->held, look->free, look->largest, look->nr_holes,
		       percent(look->rate_ppm), percent(look->unusable_ppm),
		       (unsigned long long)moved);
}
