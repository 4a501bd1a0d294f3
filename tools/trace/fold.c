// SPDX-License-Identifier: Apache-2.0
/* Keys of blocks become the numbers that traces have: one for each, in the order in which they first come. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

#define MAX_REQUEST_IDS	(TRACE_MAX_LINE / 16)	/* so many fit into a line */

/* A block that has a number. */
struct known {
	kvmm_key_t key;
	u32 next;		/* in the chain of its bucket */
	bool has_key;		/* else it is like no other, as a last one that is not full */
};

struct folder {
	struct known *known;	/* ours; by number */
	u32 nr;
	u32 cap;
	u32 *bucket;		/* ours */
	u32 nr_buckets;		/* a power of two */
};

static u32 *bucket_of(const struct folder *folder, const kvmm_key_t *key)
{
	u64 word[2];

	memcpy(word, key, sizeof(word));
	return &folder->bucket[((word[0] ^ word[1]) * 0x9e3779b97f4a7c15ull >> 32) &
			       (folder->nr_buckets - 1)];
}

static void link_number(struct folder *folder, u32 number)
{
	u32 *at = bucket_of(folder, &folder->known[number].key);

	folder->known[number].next = *at;
	*at = number;
}

static int make_room(struct folder *folder)
{
	u32 cap = folder->cap ? folder->cap * 2 : 1024;
	struct known *known;
	u32 *bucket;

	if (folder->nr < folder->cap)
		return 0;
	if (cap > TRACE_MAX_IDS)
		return -E2BIG;
	known = realloc(folder->known, cap * sizeof(*known));
	if (!known)
		return -ENOMEM;
	folder->known = known;
	bucket = realloc(folder->bucket, cap * 2 * sizeof(*bucket));
	if (!bucket)
		return -ENOMEM;
	folder->bucket = bucket;
	folder->nr_buckets = cap * 2;
	folder->cap = cap;
	memset(bucket, 0xff, folder->nr_buckets * sizeof(*bucket));
	for (u32 i = 0; i < folder->nr; i++)
		if (folder->known[i].has_key)
			link_number(folder, i);
	return 0;
}

/* Number of the block; or -ENOMEM, -E2BIG. @key may be NULL. */
static int number_of(struct folder *folder, const kvmm_key_t *key)
{
	int err = make_room(folder);
	u32 i;

	if (err)
		return err;
	for (i = key ? *bucket_of(folder, key) : U32_NONE; i != U32_NONE; i = folder->known[i].next)
		if (!memcmp(&folder->known[i].key, key, sizeof(*key)))
			return (int)i;
	folder->known[folder->nr] = (struct known){ .has_key = key };
	if (key) {
		folder->known[folder->nr].key = *key;
		link_number(folder, folder->nr);
	}
	return (int)folder->nr++;
}

/* ---- requests ---- */

static bool is_odd(const struct trace *trace, const struct seen *seen)
{
	u64 nr_ids = DIV_ROUND_UP((u64)seen->input, trace->id_tokens);

	return !seen->input || seen->input > TRACE_MAX_TOKENS || seen->output > TRACE_MAX_TOKENS ||
	       seen->nr_keys > nr_ids || nr_ids > MAX_REQUEST_IDS;
}

static int add_request(struct folder *folder, const struct seen *seen, u64 first_us,
		       struct trace *trace)
{
	struct trace_request req = {
		.arrival_us = seen->time_us - first_us, .first_id = trace->nr_ids,
		.input = seen->input, .output = seen->output,
		.nr_ids = DIV_ROUND_UP(seen->input, trace->id_tokens),
	};

	for (u32 i = 0; i < req.nr_ids; i++) {
		int number = number_of(folder, i < seen->nr_keys ? &seen->key[i] : NULL);
		int err = number < 0 ? number : trace_add_id(trace, (u64)number);
		if (err)
			return err;
	}
	return trace_add(trace, &req);
}

static int by_time(const void *a, const void *b)
{
	const struct seen *x = *(const struct seen *const *)a, *y = *(const struct seen *const *)b;

	if (x->time_us != y->time_us)
		return x->time_us > y->time_us ? 1 : -1;
	return (x > y) - (x < y);
}

/* In the order of arrival; who came at the same time stays in the order of events. */
static int fold_all(struct folder *folder, const struct collect *collect, struct trace *trace,
		    struct folded *folded)
{
	const struct seen **order = malloc((collect->nr + 1) * sizeof(*order));
	int err = order ? 0 : -ENOMEM;

	for (u32 i = 0; !err && i < collect->nr; i++)
		order[i] = &collect->seen[i];
	if (!err)
		qsort(order, collect->nr, sizeof(*order), by_time);
	for (u32 i = 0; !err && i < collect->nr; i++) {
		const struct seen *seen = order[i];
		u64 past_us = seen->time_us - order[0]->time_us;

		if (seen->is_broken || seen->nr_known < seen->nr_keys) {
			folded->nr_broken++;
		} else if (is_odd(trace, seen) || past_us / 1000 > TRACE_MAX_MS) {
			folded->nr_odd++;
		} else {
			folded->nr_rounded += past_us % 1000 != 0;
			err = add_request(folder, seen, order[0]->time_us, trace);
		}
	}
	free(order);
	return err;
}

/* All that a lookup tells of lengths, in blocks. */
static void settle_lookup(struct seen *seen, u32 block_tokens)
{
	u64 rest = seen->output > seen->nr_keys ? seen->output - seen->nr_keys : 0;

	seen->input = (u32)min_u64((u64)seen->nr_keys * block_tokens + (rest > 0), UINT32_MAX);
	seen->output = (u32)min_u64(rest * block_tokens, UINT32_MAX);
}

int fold_requests(struct collect *collect, struct trace *trace, struct folded *folded)
{
	struct folder folder = { .nr = 0 };
	u32 tokens = collect->block_tokens;
	int err;

	memset(folded, 0, sizeof(*folded));
	memset(trace, 0, sizeof(*trace));
	if (!tokens || tokens > TRACE_MAX_ID_TOKENS)
		return -EINVAL;
	trace->id_tokens = tokens;
	for (u32 i = 0; collect->from_lookups && i < collect->nr; i++)
		settle_lookup(&collect->seen[i], tokens);
	err = fold_all(&folder, collect, trace, folded);
	trace->has_arrivals = true;
	free(folder.known);
	free(folder.bucket);
	if (err)
		trace_close(trace);
	return err;
}
