// SPDX-License-Identifier: Apache-2.0
/* Names of blocks stand for all that is before them: so the last full one of a prompt names its end. */
#include <stdlib.h>
#include <string.h>

#include "follow.h"
#include "idmap.h"
#include "shape.h"

struct follow {
	const struct options *opt;
	const struct trace *trace;
	u32 *next;
	struct idmap ends;	/* by name: the latest request that ends there, and 1; 0: none */
	u32 step;		/* keys of as many tokens as a name, or a block, has */
};

/* Keys of blocks that are full, and would be in any prompt that goes on. */
static u32 nr_full(const struct follow *follow, u32 q)
{
	u32 tokens = (u32)max_u64(follow->trace->id_tokens, follow->opt->block_tokens);

	return follow->trace->req[q].input / tokens * follow->step;
}

static u64 name_before(const struct follow *follow, u32 q, u32 nr_keys)
{
	return key_name(follow->opt, follow->trace, &follow->trace->req[q], nr_keys - 1);
}

static bool goes_on(const struct follow *follow, u32 q, u32 from)
{
	const struct trace_request *before = &follow->trace->req[from];

	return follow->next[from] == U32_NONE &&
	       (u64)before->input + before->output <= follow->trace->req[q].input;
}

static int add_request(struct follow *follow, u32 q)
{
	u32 nr = nr_full(follow, q), *at;
	bool found;

	for (u32 i = nr; i; i -= follow->step) {
		u32 from = idmap_find(&follow->ends, name_before(follow, q, i));

		if (!from || !goes_on(follow, q, from - 1))
			continue;
		follow->next[from - 1] = q;
		break;
	}
	if (!nr)
		return 0;
	at = idmap_get(&follow->ends, name_before(follow, q, nr), &found);
	if (!at)
		return -ENOMEM;
	*at = q + 1;
	return 0;
}

u32 *follow_find(const struct options *opt, const struct trace *trace)
{
	struct follow follow = {
		.opt = opt, .trace = trace, .next = malloc(trace->nr * sizeof(*follow.next)),
		.step = (u32)max_u64(trace->id_tokens / opt->block_tokens, 1),
	};
	int err = follow.next ? 0 : -ENOMEM;

	if (follow.next)
		memset(follow.next, 0xff, trace->nr * sizeof(*follow.next));
	for (u32 q = 0; !err && q < trace->nr; q++)
		err = add_request(&follow, q);
	idmap_exit(&follow.ends);
	if (!err)
		return follow.next;
	free(follow.next);
	return NULL;
}
