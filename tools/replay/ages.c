// SPDX-License-Identifier: Apache-2.0
/* The lives of blocks, by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ages.h"

/**
 * struct life - of one name
 * @filled: when it was cached last
 * @last: when it was used or released last
 * @evicted_at: evictions so far, its own included, when it went
 * @copies: blocks of that name that are cached
 */
struct life {
	u64 filled;
	u64 last;
	u64 evicted_at;
	u32 copies;
	bool used;
	bool was_evicted;
};

void histogram_add(struct histogram *histogram, u64 value)
{
	unsigned int k = value ? 64 - (unsigned int)__builtin_clzll(value) : 0;

	histogram->bucket[k]++;
	histogram->nr++;
	histogram->sum += value;
}

u64 histogram_within(const struct histogram *histogram, unsigned int percent)
{
	u64 below = 0;
	unsigned int k = 0;

	for (; k < HISTOGRAM_BUCKETS - 1; k++) {
		below += histogram->bucket[k];
		if ((u128)below * 100 >= (u128)histogram->nr * percent)
			break;
	}
	return k < 64 ? (1ull << k) - 1 : UINT64_MAX;
}

void ages_begin(struct ages *ages, u32 nr_blocks, const char *unit)
{
	if (!ages)
		return;
	memset(ages, 0, sizeof(*ages));
	ages->nr_blocks = nr_blocks;
	ages->unit = unit;
}

void ages_end(struct ages *ages)
{
	if (!ages)
		return;
	idmap_exit(&ages->index);
	free(ages->life);
	ages->life = NULL;
	ages->nr = ages->cap = 0;
}

static struct life *life_of(struct ages *ages, const kvmm_key_t *key)
{
	bool found;
	u64 name;
	u32 *at;

	memcpy(&name, key, sizeof(name));
	at = idmap_get(&ages->index, name, &found);
	if (found)
		return &ages->life[*at];
	if (ages->nr == ages->cap) {
		ages->cap = ages->cap ? ages->cap * 2 : 1024;
		ages->life = must_resize(ages->life, ages->cap * sizeof(*ages->life));
	}
	*at = ages->nr++;
	return memset(&ages->life[*at], 0, sizeof(*ages->life));
}

void ages_hit(struct ages *ages, const kvmm_key_t *key)
{
	struct life *life = life_of(ages, key);

	histogram_add(&ages->idle_at_hit, ages->now - life->last);
	life->last = ages->now;
	life->used = true;
}

void ages_miss(struct ages *ages, const kvmm_key_t *key)
{
	const struct life *life = key ? life_of(ages, key) : NULL;

	ages->nr_ended[!key ? END_WHOLE : life->was_evicted ? END_EVICTED : END_NEVER]++;
}

void ages_release(struct ages *ages, const kvmm_key_t *key)
{
	life_of(ages, key)->last = ages->now;
}

void ages_evict(struct ages *ages, const kvmm_key_t *key)
{
	struct life *life = life_of(ages, key);

	ages->nr_evictions++;
	histogram_add(&ages->idle_at_eviction, ages->now - life->last);
	histogram_add(&ages->age_at_eviction, ages->now - life->filled);
	ages->nr_unused += !life->used;
	life->copies -= life->copies > 0;
	life->was_evicted = true;
	life->evicted_at = ages->nr_evictions;
}

void ages_fill(struct ages *ages, const kvmm_key_t *key)
{
	struct life *life = life_of(ages, key);
	u64 distance = ages->nr_evictions - life->evicted_at;

	if (!life->copies && life->was_evicted) {
		histogram_add(&ages->refault, distance);
		ages->nr_near += distance < ages->nr_blocks;
	}
	if (!life->copies) {
		life->filled = ages->now;
		life->used = false;
	}
	life->copies++;
	life->last = ages->now;
}

/* ---- results ---- */

static void report(struct results *results, const char *key, const char *label, const char *unit,
		   const struct histogram *histogram)
{
	unsigned int nr = HISTOGRAM_BUCKETS;
	char *text = NULL, sum[40];
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return;
	while (nr && !histogram->bucket[nr - 1])
		nr--;
	fprintf(out, "{\"unit\": \"%s\", \"n\": %llu, \"sum\": %s, \"log2\": [", unit,
		(unsigned long long)histogram->nr, format_u128(histogram->sum, sum));
	for (unsigned int k = 0; k < nr; k++)
		fprintf(out, "%s%llu", k ? ", " : "", (unsigned long long)histogram->bucket[k]);
	fputs("]}", out);
	if (!fclose(out))
		results_raw(results, key, text);
	free(text);
	results_say(results, label, "half within %s %s, nine in ten within %s",
		    grouped(histogram_within(histogram, 50)), unit,
		    grouped(histogram_within(histogram, 90)));
}

void ages_report(const struct ages *ages, struct results *results)
{
	if (!ages)
		return;
	report(results, "idle_at_hit", "idle before a hit", ages->unit, &ages->idle_at_hit);
	report(results, "idle_at_eviction", "idle when evicted", ages->unit, &ages->idle_at_eviction);
	report(results, "age_at_eviction", "age when evicted", ages->unit, &ages->age_at_eviction);
	report(results, "refault_distance", "evicted too early", "evictions", &ages->refault);
	results_num(results, "refaults_near", ages->nr_near);
	results_num(results, "evicted_unused", ages->nr_unused);
	results_num(results, "ended_never", ages->nr_ended[END_NEVER]);
	results_num(results, "ended_evicted", ages->nr_ended[END_EVICTED]);
	results_num(results, "ended_whole", ages->nr_ended[END_WHOLE]);
	results_say(results, "refaults", "%s blocks, of which twice the pool would have kept %s",
		    grouped(ages->refault.nr), grouped(ages->nr_near));
	results_say(results, "hits ended", "%s at a new block, %s at an evicted one",
		    grouped(ages->nr_ended[END_NEVER]), grouped(ages->nr_ended[END_EVICTED]));
	results_say(results, "never hit", "%s of the blocks evicted: %.1f %%",
		    grouped(ages->nr_unused), 100 * share(ages->nr_unused, ages->nr_evictions));
}
