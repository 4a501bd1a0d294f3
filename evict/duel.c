// SPDX-License-Identifier: Apache-2.0
/* Would LRU have hit? See duel.h. */
#include <string.h>

#include <kv/bits.h>
#include <kv/err.h>
#include <kv/types.h>

#include "duel.h"

/* Hits, in sizes of the pool, after which older ones count half. */
#define MAX_SIZES	64u

/* And one of so many hits that were promised while it was lost: to try again, ever more seldom. */
#define HOPE_PARTS	64u

void duel_init(struct duel *duel, u32 nr_blocks)
{
	duel->max_hits = max((u64)nr_blocks * MAX_SIZES, (u64)1 << 16);
}

/* ---- keys ---- */

void duel_widen(struct duel *duel)
{
	u32 *to = duel->count[!duel->now];

	memset(to, 0, sizeof(duel->count[0]));
	for (u64 bucket = duel->floor; bucket < duel->floor + DUEL_BUCKETS; bucket++)
		to[bucket / 2 % DUEL_BUCKETS] += *duel_count_at(duel, bucket);
	duel->now = !duel->now;
	duel->floor /= 2;
	duel->shift++;
}

void duel_raise(struct duel *duel)
{
	while (duel->nr_above > duel->fit) {
		u32 *lowest = duel_count_at(duel, duel->floor++);

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

bool duel_judge(struct duel *duel, u64 promise)
{
	s64 may_lose = DUEL_MAY_LOSE + (s64)(duel->lru_hits >> DUEL_MAY_LOSE_SHIFT);
	bool was_lost = duel->lost;

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
