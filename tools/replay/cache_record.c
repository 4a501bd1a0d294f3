// SPDX-License-Identifier: Apache-2.0
/* What seq and conc put into the recording. */
#include "cache.h"
#include "record.h"
#include "tiers.h"
#include "transfer.h"

int cache_record_begin(struct cache *cache, bool timed)
{
	const struct run *run = cache->run;
	unsigned int columns = IN_CACHE | (timed ? IN_TIME : 0) | (cache->tiers ? IN_TIERS : 0) |
			       (cache->transfer ? IN_TRANSFERS : 0);

	return record_begin(run->record, timed ? "us" : "requests",
			    timed ? record_span(run->trace) : run->trace->nr, columns);
}

void cache_own(struct cache *cache, u32 q, const kvmm_ref_t *refs, u32 nr)
{
	for (u32 i = 0; cache->filled_by && i < nr; i++) {
		int block = kvmm_block_of_ref(cache->pool, refs[i]);

		if (block >= 0)
			cache->filled_by[block] = q;
	}
}

static struct cell cell_of(struct cache *cache, u32 block)
{
	struct kvmm_block_info info;

	if (kvmm_block_info(cache->pool, block, &info) || info.state == KVMM_BLOCK_FREE)
		return (struct cell){ U32_NONE, CELL_FREE };
	return (struct cell){ cache->filled_by[block],
			      info.state == KVMM_BLOCK_INACTIVE ? CELL_CACHED : CELL_ACTIVE };
}

static void paint(struct cache *cache, struct recorder *rec)
{
	for (u32 i = 0; i < rec->nr_cells; i++)
		rec->row[i] = cell_of(cache, recorder_block(rec, i));
}

static void add_tiers(struct cache *cache, struct sample *sample)
{
	struct kvmm_tier_client_stat client;

	sample->hits_device = cache->hits;
	if (!cache->tiers || kvmm_tier_client_stat(cache->pool, &client, sizeof(client)))
		return;
	sample->hits_device = cache->tiers->device_hits;
	sample->hits_host = cache->tiers->host_hits;
	sample->hits_disk = cache->tiers->disk_hits;
	sample->offloaded = client.offloads;
	sample->loaded = client.loads;
}

void cache_record(struct cache *cache, u64 x, u32 q, u32 nr_running)
{
	struct record *record = cache->run->record;
	struct kvmm_pool_stat stat;
	struct sample sample;

	if (!record_due(record, x, q) || kvmm_pool_stat(cache->pool, &stat))
		return;
	paint(cache, &record->rec);
	sample = (struct sample){
		.cached		= stat.nr_inactive,
		.held		= stat.nr_blocks - stat.nr_available,
		.largest	= stat.largest,
		.free_runs	= stat.nr_runs,
		.running	= nr_running,
		.requests	= cache->admitted,
		.runs		= cache->fresh_runs,
		.descriptors	= cache->transfer ? cache->transfer->ours.in_order : 0,
		.accesses	= cache->accesses,
		.evicted	= cache->evictions,
	};
	add_tiers(cache, &sample);
	record_add(record, x, q, &sample);
}
