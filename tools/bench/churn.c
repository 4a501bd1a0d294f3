// SPDX-License-Identifier: Apache-2.0
/* Setting churn up, and timing it in slices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "churn.h"

#define SLICE_REQUESTS	4096u
#define WARM_TURNOVERS	20u	/* of all that is live, before anything is counted */

void churn_need_live(const struct churn *churn)
{
	if (churn->nr_live)
		return;
	fprintf(stderr, "kvmm-bench: an empty allocator of %u blocks refuses a request\n",
		churn->nr_blocks);
	exit(1);
}

/* On large pages where there are any: the user's table must not cost the zone its TLB entries. */
static struct live *make_live(u32 nr_blocks)
{
	const size_t page = 2u << 20;
	size_t bytes = ((nr_blocks + 1) * sizeof(struct live) + page - 1) & ~(page - 1);
	struct live *live;

	if (bytes == page)
		return must_alloc(bytes);
	live = aligned_alloc(page, bytes);
	if (!live)
		return must_alloc(bytes);
	madvise(live, bytes, MADV_HUGEPAGE);
	memset(live, 0, bytes);
	return live;
}

void churn_start(struct churn *churn, const struct contender *contender, const struct load *load)
{
	u32 held = (u64)load->nr_blocks * load->percent / 100;
	u32 nr_live = held / load->sizes->mean;

	*churn = (struct churn){
		.heap = churn->heap,
		.sizes = load->sizes,
		.nr_blocks = load->nr_blocks,
		.target = load->brimful ? load->nr_blocks : nr_live,
		.limit = load->brimful ? held : load->nr_blocks,
		.at = load->seed * 7919,
		.seed = load->seed ? load->seed : 1,
		.live = make_live(load->nr_blocks),
	};
	contender->step(churn, WARM_TURNOVERS * (nr_live + 1));
	churn_forget(churn);
}

void churn_end(struct churn *churn, const struct contender *contender)
{
	contender->empty(churn);
	free(churn->live);
	churn->live = NULL;
}

bool churn_open(struct churn *churn, const struct contender *contender, const struct load *load)
{
	churn->heap = contender->open(contender->name, load->nr_blocks);
	if (churn->heap)
		churn_start(churn, contender, load);
	return churn->heap;
}

void churn_close(struct churn *churn, const struct contender *contender)
{
	if (!churn->heap)
		return;
	churn_end(churn, contender);
	contender->close(churn->heap);
}

void churn_forget(struct churn *churn)
{
	churn->requests = 0;
	churn->failures = 0;
	churn->held = 0;
}

static void churn_step(void *arg, u32 nr)
{
	struct churning *churning = arg;

	churning->contender->step(churning->churn, nr);
}

struct task churn_task(struct churning *churning)
{
	return (struct task){ churn_step, churning, SLICE_REQUESTS };
}

double churn_pair_ns(struct churn *churn, const struct contender *contender)
{
	struct churning churning = { contender, churn };
	const struct task task = churn_task(&churning);

	return task_ns(&task);
}
