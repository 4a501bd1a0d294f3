/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of lists of blocks, a bounded part at a time. The device is waited for. */
#ifndef NET_VERIFY_H
#define NET_VERIFY_H

#include "mover.h"

/* Bytes that are summed up in one go. */
#define SUM_BYTES	(16ull << 20)

/* So many blocks have at most SUM_BYTES, or are one. */
u32 sum_portion(u64 block_bytes);

/*
 * @sums[i] := checksum of block @first + i of @end, for @nr of them. Pools of ids only have none:
 * 0. 0; -EIO; -ENOMEM. @end is a pool's.
 */
int sum_list(const struct end *end, u32 first, u32 nr, u64 *sums);

#endif /* NET_VERIFY_H */
