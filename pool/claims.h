/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that are claimed for longer than a call takes: a gang is reserved, and may be aborted.
 *
 * Such an entry is EVICTING, is in no order, has its name still, and no look-up finds it. Its block
 * is its own, or is *lent* (KV_ENTRY_LENT): one that the gang has got, or, with KV_ENTRY_RESET,
 * left aside, free for others, a later part of the gang among them.
 *
 * While room is made for a request, its victims have given their blocks to the zone. Those with
 * KV_ENTRY_LENT and KV_ENTRY_RESET do not get them back: something was moved to there meanwhile.
 *
 * A caller that forgets names cannot reach those; it counts up ->forgets; the gang lets them go.
 *
 * Guarded by pool->lock.
 */
#ifndef POOL_CLAIMS_H
#define POOL_CLAIMS_H
#include <kv/entry.h>

struct claims {
	u32 nr;
	u32 nr_named;		/* of them: not PARKED before */
	u32 nr_lent;		/* of them */
	u32 nr_due;		/* of them: to be private blocks of their gang */
	u32 forgets;
};

#endif /* POOL_CLAIMS_H */
