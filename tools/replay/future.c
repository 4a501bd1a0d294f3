// SPDX-License-Identifier: Apache-2.0
/* One walk through the trace, from its end to its beginning. */
#include <stdlib.h>

#include "future.h"
#include "idmap.h"
#include "shape.h"

/*
 * A key that a request names twice must not become its own successor: the request's answers are
 * all read before it enters itself.
 */
static void walk_request(struct future *future, const struct run *run, struct idmap *seen, u32 q)
{
	const struct trace_request *req = &run->trace->req[q];
	u32 nr = shape_of(run->opt, req).nr_keys;
	u32 *next = future->next + future->first[q];
	bool found;

	for (u32 i = 0; i < nr; i++) {
		u32 *at = idmap_get(seen, key_name(run->opt, run->trace, req, i), &found);

		if (!found)
			*at = run->trace->nr;
		next[i] = *at;
	}
	for (u32 i = 0; i < nr; i++)
		*idmap_get(seen, key_name(run->opt, run->trace, req, i), &found) = q;
}

void future_init(struct future *future, const struct options *opt, const struct trace *trace)
{
	const struct run run = { .opt = opt, .trace = trace };
	struct idmap seen = { 0 };
	u64 nr = 0;

	future->first = must_alloc(trace->nr * sizeof(*future->first));
	for (u32 q = 0; q < trace->nr; q++) {
		future->first[q] = nr;
		nr += shape_of(opt, &trace->req[q]).nr_keys;
	}
	future->next = must_alloc(nr * sizeof(*future->next));
	for (u32 q = trace->nr; q--; )
		walk_request(future, &run, &seen, q);
	idmap_exit(&seen);
}

void future_exit(struct future *future)
{
	free(future->next);
	free(future->first);
}
