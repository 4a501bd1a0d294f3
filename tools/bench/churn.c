// SPDX-License-Identifier: Apache-2.0
/* Setting churn up, and timing it in slices. */
#include <stdlib.h>
#include <string.h>

#include "churn.h"

#define SLICE_REQUESTS	4096u
#define WARM_TURNOVERS	20u	/* of all that is live, before anything is counted */

bool churn_open(struct churn *churn, const struct contender *contender,
		const struct sizes *sizes, u32 nr_blocks, u32 percent, u64 seed)
{
	memset(churn, 0, sizeof(*churn));
	churn->heap = contender->open(contender->name, nr_blocks);
	if (!churn->heap)
		return false;
	churn->sizes = sizes;
	churn->nr_blocks = nr_blocks;
	churn->limit = (u64)nr_blocks * percent / 100;
	churn->seed = seed ? seed : 1;
	churn->at = seed * 7919;
	churn->live = must_alloc((nr_blocks + 1) * sizeof(*churn->live));
	contender->step(churn, WARM_TURNOVERS * (1 + churn->limit / sizes->mean));
	churn_forget(churn);
	return true;
}

void churn_close(struct churn *churn, const struct contender *contender)
{
	if (!churn->heap)
		return;
	contender->empty(churn);
	contender->close(churn->heap);
	free(churn->live);
	memset(churn, 0, sizeof(*churn));
}

void churn_forget(struct churn *churn)
{
	churn->requests = 0;
	churn->failures = 0;
	churn->held = 0;
}

struct churning {
	const struct contender *contender;
	struct churn *churn;
};

static void churn_step(void *arg, u32 nr)
{
	struct churning *churning = arg;

	churning->contender->step(churning->churn, nr);
}

double churn_pair_ns(struct churn *churn, const struct contender *contender)
{
	struct churning churning = { contender, churn };
	const struct task task = { churn_step, &churning, SLICE_REQUESTS };

	return task_ns(&task);
}
