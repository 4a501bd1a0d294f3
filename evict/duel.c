// SPDX-License-Identifier: Apache-2.0
/* Would LRU have hit? See duel.h. */
#include <string.h>

#include <kv/bits.h>
#include <kv/err.h>
#include <kv/types.h>

#include "duel.h"

/* Hits, in sizes of the pool, after which older ones count half. */
#define MAX_SIZES	64u

/* Hits that may be lost against LRU: a few, and one of 4,096. */
#define MAY_LOSE	8
#define MAY_LOSE_SHIFT	12u
/* Hits that were won are no licence to lose them all: an eighth of LRU's at most. */
#define MAY_WIN_SHIFT	3u

/* And one of so many hits that were promised while it was lost: to try again, ever more seldom. */
#define HOPE_PARTS	64u

/* Blocks are evicted before others are named: no fewer fit for that. */
#define FIT_TURNS	32u

void duel_init(struct duel *duel, u32 nr_blocks)
{
	duel->max_hits = max((u64)nr_blocks * MAX_SIZES, (u64)1 << 16);
}

/* ---- keys ---- */

static u32 *count_at(struct duel *duel, u64 bucket)
{
	return &duel->count[duel->now][bucket % DUEL_BUCKETS];
}

u64 duel_add(struct duel *duel)
{
	u64 turn = ++duel->turn;

	if (unlikely(turn >> duel->shift >= duel->floor + DUEL_BUCKETS)) {
		u32 *to = duel->count[!duel->now];

		memset(to, 0, sizeof(duel->count[0]));
		for (u64 bucket = duel->floor; bucket < duel->floor + DUEL_BUCKETS; bucket++)
			to[bucket / 2 % DUEL_BUCKETS] += *count_at(duel, bucket);
		duel->now = !duel->now;
		duel->floor /= 2;
		duel->shift++;
	}
	++*count_at(duel, turn >> duel->shift);
	duel->nr_above++;
	return turn;
}

u64 duel_move(struct duel *duel, u64 turn)
{
	u64 bucket = turn >> duel->shift;
	u32 *count = count_at(duel, bucket);

	/* Hits that ghosts take for another key's may have been counted otherwise. */
	if (bucket >= duel->floor && *count) {
		--*count;
		duel->nr_above--;
	}
	return duel_add(duel);
}

bool duel_lru_has(const struct duel *duel, u64 turn)
{
	return turn >> duel->shift >= duel->floor;
}

void duel_fit(struct duel *duel, u32 nr)
{
	if (nr < duel->fit && duel->turn % FIT_TURNS == 0)
		duel->fit--;
	duel->fit = max(duel->fit, nr);
	while (duel->nr_above > duel->fit) {
		u32 *lowest = count_at(duel, duel->floor++);

		duel->nr_above -= *lowest;
		*lowest = 0;
	}
}

/* ---- the score ---- */

void duel_hope(struct duel *duel, u64 nr_hits)
{
	if (duel->lost)
		duel->hope += nr_hits;
}

bool duel_score(struct duel *duel, bool hit, bool lru_hit, u64 promise)
{
	bool was_lost = duel->lost;
	s64 may_lose;

	duel->lru_hits += lru_hit;
	duel->lead += (s64)hit - (s64)lru_hit;
	may_lose = MAY_LOSE + (s64)(duel->lru_hits >> MAY_LOSE_SHIFT);
	duel->lead = min(duel->lead, (s64)(duel->lru_hits >> MAY_WIN_SHIFT) + MAY_LOSE);
	if (unlikely(duel->lru_hits > duel->max_hits)) {
		duel->lru_hits /= 2;
		duel->lead /= 2;
		duel->hope /= 2;
	}
	may_lose += promise + duel->hope / HOPE_PARTS;
	if (duel->lead < -may_lose)
		duel->lost = true;
	else if (duel->lead > -may_lose / 2)
		duel->lost = false;
	return duel->lost != was_lost;
}

int duel_check(const struct duel *duel)
{
	u32 nr = 0;

	for (u32 i = 0; i < DUEL_BUCKETS; i++)
		nr += duel->count[duel->now][i];
	return nr == duel->nr_above ? 0 : -EUCLEAN;
}
