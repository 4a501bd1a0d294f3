// SPDX-License-Identifier: Apache-2.0
/* A pool in pieces. */
#include <errno.h>
#include <stdlib.h>

#include "scatter.h"

#define FLAGS	(KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT)

/* Until not even one block is left. */
static int fill(struct scattered *s, u32 max_nr, u64 *seed)
{
	int err;

	do {
		err = kvmm_range_alloc(s->pool, 1 + random_below(seed, max_nr), FLAGS,
				       &s->ranges[s->nr_ranges]);
		if (err == -ENOSPC)
			err = kvmm_range_alloc(s->pool, 1, FLAGS, &s->ranges[s->nr_ranges]);
		s->nr_ranges += !err;
	} while (!err);
	return err == -ENOSPC ? 0 : err;
}

static void shuffle(kvmm_range_t *ranges, u32 nr, u64 *seed)
{
	for (u32 i = nr; i > 1; i--) {
		u32 other = random_below(seed, i);
		kvmm_range_t range = ranges[i - 1];

		ranges[i - 1] = ranges[other];
		ranges[other] = range;
	}
}

int scatter_open(struct scattered *s, const struct kvmm_pool_attr *attr, u32 max_nr, u64 seed)
{
	u32 kept;
	int err = kvmm_pool_create(attr, &s->pool);

	s->nr_ranges = 0;
	s->ranges = NULL;
	if (err)
		return err;
	s->ranges = must_alloc((attr->nr_blocks + 1) * sizeof(*s->ranges));
	err = fill(s, max_nr, &seed);
	shuffle(s->ranges, s->nr_ranges, &seed);
	kept = s->nr_ranges / 2;
	while (!err && s->nr_ranges > kept)
		err = kvmm_range_free(s->pool, s->ranges[--s->nr_ranges]);
	if (err)
		scatter_close(s);
	return err;
}

void scatter_close(struct scattered *s)
{
	kvmm_pool_destroy(s->pool);
	free(s->ranges);
}
