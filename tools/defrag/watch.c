// SPDX-License-Identifier: Apache-2.0
/* watch: a line for each interval of the trace's time, and a compaction when there is need. */
#include "defrag.h"

#define US_PER_S	1000000ull

/* Above the threshold; what it could not move is no failure. */
static enum exit_code compact_if_due(struct frag *frag, const struct ask *ask, u64 *moved)
{
	struct kvmm_compact compact = { .size = sizeof(compact), .want_run = ask->want,
					.max_blocks = ask->max_blocks };
	struct look look;
	int err;

	*moved = 0;
	if (!ask->threshold_pm || look_at(frag, &look) ||
	    look.unusable_ppm < ask->threshold_pm * 1000ull)
		return EXIT_GOOD;
	err = kvmm_pool_compact(frag->pool, &compact);
	if (err && err != -ENOSPC && err != -EAGAIN)
		return complain_of(err, "compact");
	*moved = compact.moved;
	if (compact.moved)
		frag->stuck = false;
	return frag_follow_moves(frag);
}

enum exit_code watch(struct frag *frag, const struct ask *ask)
{
	enum exit_code code = EXIT_GOOD;
	bool more = true;

	print_head(ask);
	for (u64 at = ask->interval_s; !code && more && !frag_has_stopped(frag);
	     at += ask->interval_s) {
		struct look look;
		u64 moved;

		code = frag_play(frag, at * US_PER_S, &more);
		if (!code)
			code = compact_if_due(frag, ask, &moved);
		if (!code && look_at(frag, &look))
			code = complain_of(-EINVAL, "look at the pool");
		if (!code)
			print_moment(frag, ask, &look, moved);
	}
	return code;
}
