/* SPDX-License-Identifier: Apache-2.0 */
/* What batched copies, peer copies and single ones share. */
#ifndef SWCUDA_COPY_H
#define SWCUDA_COPY_H

#include "internal.h"

struct sw_part {
	u64 dst, src, bytes;
	struct sw_dev *dst_dev, *src_dev;	/* who reaches it; NULL: the stream's device */
	bool read_early;			/* at the call instead of when it runs */
	bool plain_dst;				/* pageable: the call waits */
	u8 *staged;				/* owned by the operation */
};

/* Sees whether addresses make sense; fills in read_early and plain_dst. */
kcu_result sw_part_check(struct sw_part *part);
kcu_result sw_copy_queue(struct sw_stream *stream, const struct sw_part *parts, u32 nr,
			 enum sw_call call, bool batch);

#endif /* SWCUDA_COPY_H */
