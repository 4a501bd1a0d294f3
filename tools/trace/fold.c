// SPDX-License-Identifier: Apache-2.0
/*
 * Chains of keys become the numbers that traces have, of 512 tokens each.
 *
 * A *group* is the keys of 512 tokens; its number is that of the group that begins with the same key,
 * which stands for all that is before it, and goes on in the same way as far as both go: the end of a
 * prompt may fill only part of a group.
 *
 *	keys of blocks of 128 tokens	a b c d | e f g h | i j		a b c d | e f x y
 *	numbers				   0    |    1    |  2		   0    |    3		one split
 */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

/* A group that has a number. */
struct group {
	size_t key;		/* of folder.key: the first of per keys */
	u32 next;		/* in the chain of its first key */
	u32 nr_known;		/* keys */
};

struct folder {
	u32 per;		/* keys of a whole group */
	struct group *group;	/* ours; by number */
	u32 nr;
	u32 cap;
	kvmm_key_t *key;	/* ours; per a group */
	u32 *bucket;		/* ours */
	u32 nr_buckets;		/* a power of two */
	u64 nr_split;
};

static void folder_exit(struct folder *folder)
{
	free(folder->group);
	free(folder->key);
	free(folder->bucket);
}

static u32 *bucket_of(const struct folder *folder, const kvmm_key_t *key)
{
	u64 word[2];

	memcpy(word, key, sizeof(word));
	return &folder->bucket[((word[0] ^ word[1]) * 0x9e3779b97f4a7c15ull >> 32) &
			       (folder->nr_buckets - 1)];
}

static void link_group(struct folder *folder, u32 number)
{
	u32 *at = bucket_of(folder, &folder->key[folder->group[number].key]);

	folder->group[number].next = *at;
	*at = number;
}

static int rehash(struct folder *folder, u32 nr_buckets)
{
	u32 *bucket = malloc(nr_buckets * sizeof(*bucket));

	if (!bucket)
		return -ENOMEM;
	free(folder->bucket);
	folder->bucket = bucket;
	folder->nr_buckets = nr_buckets;
	memset(bucket, 0xff, nr_buckets * sizeof(*bucket));
	for (u32 i = 0; i < folder->nr; i++)
		if (folder->group[i].nr_known)
			link_group(folder, i);
	return 0;
}

static int make_room(struct folder *folder)
{
	u32 cap = folder->cap ? folder->cap * 2 : 1024;
	struct group *group;
	kvmm_key_t *key;

	if (folder->nr < folder->cap)
		return 0;
	if (cap > TRACE_MAX_IDS)
		return -E2BIG;
	group = realloc(folder->group, cap * sizeof(*group));
	if (!group)
		return -ENOMEM;
	folder->group = group;
	key = realloc(folder->key, (size_t)cap * folder->per * sizeof(*key));
	if (!key)
		return -ENOMEM;
	folder->key = key;
	folder->cap = cap;
	return rehash(folder, cap * 2);
}

/* One that nobody has: a number; or -ENOMEM, -E2BIG. @nr 0: its content is not known. */
static int add_group(struct folder *folder, const kvmm_key_t *keys, u32 nr)
{
	int err = make_room(folder);
	struct group *group;

	if (err)
		return err;
	group = &folder->group[folder->nr];
	*group = (struct group){ .key = (size_t)folder->nr * folder->per, .nr_known = nr };
	if (nr) {
		memcpy(&folder->key[group->key], keys, nr * sizeof(*keys));
		link_group(folder, folder->nr);
	}
	return (int)folder->nr++;
}

/* Longer than it was known: the rest is the same from now on. */
static void learn(struct folder *folder, struct group *group, const kvmm_key_t *keys, u32 nr)
{
	if (nr <= group->nr_known)
		return;
	memcpy(&folder->key[group->key], keys, nr * sizeof(*keys));
	group->nr_known = nr;
}

/* The number of a group of @nr keys. */
static int number_of(struct folder *folder, const kvmm_key_t *keys, u32 nr)
{
	bool begins_alike = false;
	int number;

	if (nr && folder->nr_buckets) {
		for (u32 i = *bucket_of(folder, keys); i != U32_NONE; i = folder->group[i].next) {
			struct group *group = &folder->group[i];
			const kvmm_key_t *known = &folder->key[group->key];

			if (memcmp(known, keys, sizeof(*keys)))
				continue;
			begins_alike = true;
			if (memcmp(known, keys, min_u64(nr, group->nr_known) * sizeof(*keys)))
				continue;
			learn(folder, group, keys, nr);
			return (int)i;
		}
	}
	number = add_group(folder, keys, nr);
	folder->nr_split += begins_alike;
	return number;
}

/* ---- requests ---- */

static bool is_odd(const struct folder *folder, const struct seen *seen)
{
	u64 nr_ids = DIV_ROUND_UP(seen->input, TRACE_ID_TOKENS);

	return !seen->input || seen->input > TRACE_MAX_TOKENS || seen->output > TRACE_MAX_TOKENS ||
	       seen->nr_keys > nr_ids * folder->per;
}

static int add_request(struct folder *folder, const struct seen *seen, u64 first_us,
		       struct trace *trace)
{
	struct trace_request req = {
		.arrival_us = seen->time_us - first_us, .first_id = trace->nr_ids,
		.input = seen->input, .output = seen->output,
		.nr_ids = DIV_ROUND_UP(seen->input, TRACE_ID_TOKENS),
	};

	for (u32 i = 0; i < req.nr_ids; i++) {
		u32 from = (u32)min_u64((u64)i * folder->per, seen->nr_keys);
		u32 nr = (u32)min_u64(folder->per, seen->nr_keys - from);
		const kvmm_key_t *keys = nr ? seen->key + from : NULL;
		int number = number_of(folder, keys, nr), err;

		err = number < 0 ? number : trace_add_id(trace, (u64)number);
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
		} else if (is_odd(folder, seen) || past_us / 1000 > TRACE_MAX_MS) {
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
	struct folder folder = { .per = 0 };
	u32 tokens = collect->block_tokens;
	int err;

	memset(folded, 0, sizeof(*folded));
	memset(trace, 0, sizeof(*trace));
	if (!tokens || TRACE_ID_TOKENS % tokens)
		return -EINVAL;
	folder.per = TRACE_ID_TOKENS / tokens;
	for (u32 i = 0; collect->from_lookups && i < collect->nr; i++)
		settle_lookup(&collect->seen[i], tokens);
	err = fold_all(&folder, collect, trace, folded);
	folded->nr_split = folder.nr_split;
	trace->has_arrivals = true;
	folder_exit(&folder);
	if (err)
		trace_close(trace);
	return err;
}
