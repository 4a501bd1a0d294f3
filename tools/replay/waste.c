// SPDX-License-Identifier: Apache-2.0
/* Mode waste: tokens of room that the last block of each request leaves empty. */
#include "replay.h"

enum exit_code run_waste(const struct run *run)
{
	struct results *results = run->results;
	u64 blocks = 0, tokens = 0, waste;
	char a[32], b[32];

	for (u32 q = 0; q < run->trace->nr; q++) {
		u64 n = (u64)run->trace->req[q].input + run->trace->req[q].output;

		blocks += blocks_of(run->opt, n);
		tokens += n;
	}
	waste = blocks * run->opt->block_tokens - tokens;

	results_str(results, "trace", run->trace->name);
	results_str(results, "kind", "waste");
	results_num(results, "bs", run->opt->block_tokens);
	results_num(results, "requests", run->trace->nr);
	results_num(results, "blocks", blocks);
	results_num(results, "tokens", tokens);
	results_num(results, "waste", waste);

	results_tile(results, "of the room is empty", "%.2f %%",
		     100 * share(waste, (u128)blocks * run->opt->block_tokens));
	results_say(results, "trace", "%s, %s requests", run->trace->name,
		    format_grouped(run->trace->nr, a));
	results_say(results, "blocks", "%s of %u tokens", format_grouped(blocks, a),
		    run->opt->block_tokens);
	results_say(results, "empty", "%s of %s tokens: %.2f %%", format_grouped(waste, a),
		    format_grouped(blocks * run->opt->block_tokens, b),
		    100 * share(waste, (u128)blocks * run->opt->block_tokens));
	return EXIT_GOOD;
}
