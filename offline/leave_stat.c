// SPDX-License-Identifier: Apache-2.0
/* Memory that is away, and units that the caller was not told of. */
#include "leave.h"

void elastic_stat_peek(struct kvmm_pool *pool, struct kvmm_elastic_stat *stat)
{
	const struct elastic *now = elastic_of(pool);
	struct elastic el;

	if (!now)
		return;
	kv_peek_copy(&el, now, sizeof(el));
	*stat = (struct kvmm_elastic_stat){
		.unit_bytes = el.unit_bytes, .given_bytes = el.nr_units[UNIT_GONE] * el.unit_bytes,
		.untold_bytes = el.nr_units[UNIT_UNTOLD] * el.unit_bytes,
		.stuck_bytes = el.nr_units[UNIT_STUCK] * el.unit_bytes, .target_bytes = el.target,
		.pageblock_blocks = pool->pb.size,
		.away_blocks = kv_peek(&pool->pb.nr_away),
		.is_active = el.job.active, .nr_relents = el.nr_relents,
		.shrunk_bytes = el.shrunk_bytes, .grown_bytes = el.grown_bytes,
		.moved_blocks = el.moved, .evicted_blocks = el.evicted, .nr_failed = el.nr_failed,
	};
	for (u32 i = 0; i < el.nr_spans; i++)
		stat->total_bytes += el.span[i].nr_units * el.unit_bytes;
}

int elastic_stat_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_elastic_stat *stat = out;

	kv_lock(&pool->compact_lock);
	if (pool->elastic) {
		kv_lock(&pool->lock);
		elastic_stat_peek(pool, stat);
		stat->leaving_blocks = leave_nr_held(pool);
		kv_unlock(&pool->lock);
	}
	kv_unlock(&pool->compact_lock);
	return 0;
}

int kvmm_pool_freed(struct kvmm_pool *pool, struct kvmm_mem_range *ranges, uint32_t max)
{
	struct elastic *el;
	int ret;

	if (!pool || (!ranges && max))
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	ret = pool_refusal(pool);
	if (!ret)
		ret = elastic_get(pool, &el);
	if (!ret && (pool->area || !el->unit_bytes))
		ret = -EOPNOTSUPP;
	if (!ret)
		ret = units_tell(el, ranges, max);
	kv_unlock(&pool->compact_lock);
	return ret;
}
