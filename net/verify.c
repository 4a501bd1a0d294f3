// SPDX-License-Identifier: Apache-2.0
/*
 * Checksums of blocks wherever they lie: each device sums up its own, by the same formula.
 *
 * The destination's are taken from there, after the copy has ended: a device's word for what it has
 * written is not believed.
 */
#include <string.h>

#include "verify.h"

u32 sum_portion(u64 block_bytes)
{
	return block_bytes ? max(SUM_BYTES / block_bytes, (u64)1) : UINT32_MAX;
}

int sum_list(const struct end *end, u32 first, u32 nr, u64 *sums)
{
	const struct kv_fence at_once = { 0 };
	int err = 0;

	if (!end->planes.nr) {
		memset(sums, 0, nr * sizeof(*sums));
		return 0;
	}
	for (u32 i = 0, run; i < nr && !err; i += run) {
		const u32 *block = end->block + first + i;

		for (run = 1; i + run < nr && block[run] == block[0] + run;)
			run++;
		err = end->ops->sum_blocks(end->dev, &end->planes, block[0], run, at_once,
					   sums + i);
	}
	return err;
}
