// SPDX-License-Identifier: Apache-2.0
/* What is told of the growth of ranges. */
#include <kvmm/pool.h>
#include <pool/local.h>

static_assert(KVMM_GROWTH_HIST == GROW_HIST, "one histogram");

int growth_stat_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_growth_stat *stat = out;
	const struct pool_grow *grow;
	u32 nr_slots, nr_ext;
	u64 nr_by_arenas;
	int err = pool_enter(pool);

	if (err)
		return err;
	grow = &pool->grow;
	*stat = (struct kvmm_growth_stat){
		.size = sizeof(*stat), .nr_reserved = grow->nr_reserved,
		.nr_reservations = grow->nr_lists, .finished_ext = grow->finished_ext,
		.finished_max = grow->finished_max, .in_place = grow->in_place,
		.elsewhere = grow->elsewhere, .steals = grow->steals,
		.stolen_blocks = grow->stolen_blocks,
	};
	memcpy(stat->finished, grow->finished, sizeof(stat->finished));
	arenas_lock(pool);
	/* Ranges that an arena frees have one extent. */
	nr_by_arenas = pool_counts(pool).frees - pool->count.frees;
	stat->finished[0] += nr_by_arenas;
	stat->finished_ext += nr_by_arenas;
	stat->finished_max = max(stat->finished_max, (u32)!!nr_by_arenas);
	nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0;
	for (u32 i = 0; i < nr_slots; i++) {
		nr_ext = slot_at(pool, i)->nr_ext;
		if (!nr_ext)
			continue;
		stat->live[grow_bucket(nr_ext)]++;
		stat->live_ext += nr_ext;
		stat->live_max = max(stat->live_max, nr_ext);
	}
	arenas_unlock(pool);
	pool_leave(pool);
	return 0;
}
