// SPDX-License-Identifier: Apache-2.0
/*
 * plan and run: play the trace up to a point, compact, and say what that did. The pool is the
 * replay's, so a plan is what happens to it: nobody's blocks are moved by finding out.
 */
#include <stdlib.h>
#include <string.h>

#include "../map.h"
#include "defrag.h"

int look_at(struct frag *frag, struct look *look)
{
	struct frag_free stat = frag_free_now(frag);

	*look = (struct look){
		.held = stat.nr_blocks - stat.nr_free, .free = stat.nr_free,
		.largest = stat.largest, .nr_holes = stat.nr_runs,
		.rate_ppm = frag_ext_ppm(&stat), .unusable_ppm = frag_unusable_ppm(frag, frag->median),
	};
	return pool_map(frag->pool, look->map, FRAG_MAP_WIDTH);
}

u64 predicted_ns(const struct frag *frag, const struct ask *ask, u64 nr_blocks)
{
	u128 bytes = (u128)nr_blocks * frag->run->opt->block_bytes;

	return (u64)(bytes * 1000000000 / ((u128)ask->mib_per_s << 20));
}

/* Where everybody is, before. */
static struct moved *take_picture(const struct frag *frag)
{
	u64 nr = 0;
	struct moved *picture;

	for (u32 i = 0; i < frag->nr_running; i++)
		nr += frag->live[frag->running[i]]->nr_ext;
	picture = calloc(nr + 1, sizeof(*picture));
	nr = 0;
	for (u32 i = 0; picture && i < frag->nr_running; i++) {
		const struct live *live = frag->live[frag->running[i]];

		for (u32 e = 0; e < live->nr_ext; e++)
			picture[nr++] = (struct moved){ live->ext[e].start, 0, live->ext[e].nr,
							frag->running[i] };
	}
	return picture;
}

/* Block @ordinal of the request lies here now. */
static u32 place_of(const struct live *live, u32 ordinal)
{
	u32 e = 0;

	while (e + 1 < live->nr_ext && ordinal >= live->ext[e].nr)
		ordinal -= live->ext[e++].nr;
	return live->ext[e].start + ordinal;
}

/* Keeps those that are elsewhere now; an extent moves as one piece. */
static void compare(const struct frag *frag, struct deed *deed)
{
	struct moved *moved = deed->moved;
	u32 ordinal = 0, last = U32_NONE;

	for (u32 i = 0; moved[i].nr; i++) {
		struct moved move = moved[i];

		ordinal = move.request == last ? ordinal : 0;
		last = move.request;
		move.to = place_of(frag->live[move.request], ordinal);
		ordinal += move.nr;
		if (move.to != move.from)
			moved[deed->nr_moved++] = move;
	}
}

enum exit_code deed_do(struct frag *frag, const struct ask *ask, struct deed *deed)
{
	enum exit_code code;

	*deed = (struct deed){ .compact = { .size = sizeof(deed->compact),
					    .want_run = ask->want,
					    .max_blocks = ask->max_blocks } };
	deed->moved = take_picture(frag);
	if (!deed->moved || look_at(frag, &deed->before))
		return complain_of(-ENOMEM, "look at the pool");
	deed->err = kvmm_pool_compact(frag->pool, &deed->compact);
	if (deed->err && deed->err != -ENOSPC && deed->err != -EAGAIN)
		return complain_of(deed->err, "compact");
	code = frag_follow_moves(frag);
	if (code)
		return code;
	compare(frag, deed);
	return look_at(frag, &deed->after) ? complain_of(-ENOMEM, "look at the pool") : EXIT_GOOD;
}

static void deed_exit(struct deed *deed)
{
	free(deed->moved);
}

enum exit_code act(struct frag *frag, const struct ask *ask)
{
	struct deed deed = { .err = 0 };
	enum exit_code code;
	bool more;

	code = frag_play(frag, UINT64_MAX, &more);
	if (!code && !frag_has_stopped(frag) && (ask->after || ask->percent))
		return complain(EXIT_WRONG, "the trace never comes to that point");
	if (!code && ask->goal != KVMM_NR_GOALS)
		return act_for(frag, ask);
	if (!code)
		code = deed_do(frag, ask, &deed);
	if (!code)
		print_deed(frag, ask, &deed);
	if (!code && deed.err)
		code = EXIT_WRONG;
	deed_exit(&deed);
	return code;
}
