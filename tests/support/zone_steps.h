/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call on a zone, and what the model says of it: wrong answers end the test. What each returns
 * is what the call did; the model has taken or given the same blocks then.
 */
#ifndef ZONE_STEPS_H
#define ZONE_STEPS_H

#include "tests/support/test.h"
#include "tests/support/zone_model.h"

struct zone_pair {
	struct kv_zone *zone;
	struct zone_model model;
	u64 at;			/* for messages: the call, or the free map */
};

#define zone_expect(pair, cond, fmt, ...)						\
	do {										\
		if (unlikely(!(cond)))							\
			cr_assert_fail("%s, %u blocks, at 0x%llx: " fmt,		\
				       (pair)->zone->ops->name, (pair)->model.nr,	\
				       (unsigned long long)(pair)->at, ##__VA_ARGS__);	\
	} while (0)

/* A place that the engine chose; KV_NONE if it failed. */
void zone_step_placed(struct zone_pair *pair, const struct kv_zone_req *req, u32 got);
int zone_step_req(struct zone_pair *pair, const struct kv_zone_req *req);
int zone_step_at(struct zone_pair *pair, u32 start, u32 nr);
int zone_step_runs(struct zone_pair *pair, u32 nr, unsigned int max_runs);
int zone_step_many(struct zone_pair *pair, u32 nr);
int zone_step_free(struct zone_pair *pair, u32 start, u32 nr);
int zone_step_free_many(struct zone_pair *pair, const u32 *ids, u32 nr);
/* The unusable free index of @nr, and the free run from @from on. */
void zone_step_read(struct zone_pair *pair, u32 nr, u32 from);

#endif /* ZONE_STEPS_H */
