// SPDX-License-Identifier: Apache-2.0
/* Memory that goes, is written by the caller, and comes again: nobody may notice. */
#include <string.h>

#include "tests/pool/mix_model.h"

#define MOST	64u	/* ranges that the caller is told of */

static void hand_back(void)
{
	struct kvmm_mem_range told[MOST];
	struct kvmm_regain back = { .size = sizeof(back), .ranges = told };
	int nr = kvmm_pool_freed(m.pool, told, MOST);

	must(nr >= 0, "%d", nr);
	for (int i = 0; i < nr; i++)
		memset((void *)(uintptr_t)told[i].addr, 0xee, told[i].bytes);
	must(!kvmm_validate(m.pool));
	back.nr_ranges = nr;
	must(!kvmm_pool_grow(m.pool, &back));
}

void do_elastic(void)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 1 + any(m.nr_usable),
				   .flags = any(3) ? 0 : KVMM_SHRINK_NO_EVICT,
				   .max_moved = any(3) ? 0 : any(40) };
	int err;

	m.what = "elastic";
	req.min_blocks = any(3) ? 1 : 0;
	err = kvmm_pool_shrink(m.pool, &req);
	must(!err || err == -ENOSPC || err == -EBUSY || err == -EAGAIN, "%d", err);
	must(err || !m.is_open, "moved under a step");
	must(!err || !stat_of(m.pool).nr_away);
	must(err || stat_of(m.pool).nr_away == req.given_blocks);
	if (!err)
		hand_back();
	must(!stat_of(m.pool).nr_away);
}

void make_elastic(void)
{
	struct kvmm_elastic_attr attr = { .size = sizeof(attr), .unit_bytes = 64ull << any(3),
					  .pageblock_blocks = any(2) ? 0 : 1u << any(5) };

	must(!kvmm_pool_elastic_setup(m.pool, &attr));
}
