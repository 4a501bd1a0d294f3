// SPDX-License-Identifier: Apache-2.0
/*
 * Batched copies, in the two ABIs that one name has had.
 *
 * The parts of a batch run in no order. With SRC_ORDER_ANY a source may be read at any moment, even
 * before the work that is queued ahead of it: here it often is.
 */
#include "copy.h"

struct batch {
	kcu_deviceptr *dsts, *srcs;
	size_t *bytes;
	size_t nr;
	kcu_memcpy_attr *attrs;
	size_t *attr_from;
	size_t nr_attrs;
};

static bool attrs_are_good(const struct batch *batch)
{
	if (!batch->attrs || !batch->attr_from || !batch->nr_attrs ||
	    batch->nr_attrs > batch->nr || batch->attr_from[0])
		return false;
	for (size_t i = 0; i < batch->nr_attrs; i++) {
		u32 order = batch->attrs[i].src_access_order;

		if (order < KCU_SRC_ORDER_STREAM || order > KCU_SRC_ORDER_ANY ||
		    batch->attrs[i].flags & ~KCU_MEMCPY_PREFER_OVERLAP)
			return false;
		if (i && (batch->attr_from[i] <= batch->attr_from[i - 1] ||
			  batch->attr_from[i] >= batch->nr))
			return false;
	}
	return true;
}

static bool reads_early(u32 order)
{
	return order == KCU_SRC_ORDER_DURING_CALL ||
	       (order == KCU_SRC_ORDER_ANY && sw_below(2));
}

/* A source that is read at the call must be readable for the host as well. */
static bool early_is_possible(const struct sw_part *part, const struct sw_dev *dev)
{
	return !sw_region_at(part->src) || sw_may_touch(dev, part->src, part->bytes, false);
}

static kcu_result fill_part(struct sw_part *part, const struct batch *batch, size_t i,
			    size_t attr, const struct sw_stream *stream)
{
	kcu_result rc;

	*part = (struct sw_part){
		.dst = batch->dsts[i], .src = batch->srcs[i], .bytes = batch->bytes[i],
	};
	if (!part->bytes)
		return KCU_E_INVALID_VALUE;
	rc = sw_part_check(part);
	if (!rc && reads_early(batch->attrs[attr].src_access_order))
		part->read_early |= early_is_possible(part, stream->dev);
	return rc;
}

static kcu_result queue(const struct batch *batch, size_t *fail_idx, struct sw_stream *stream,
			enum sw_call call)
{
	struct sw_part *parts = malloc(batch->nr * sizeof(*parts));
	kcu_result rc = KCU_E_SUCCESS;

	if (!parts)
		return KCU_E_OUT_OF_MEMORY;
	for (size_t i = 0, attr = 0; i < batch->nr && !rc; i++) {
		if (attr + 1 < batch->nr_attrs && batch->attr_from[attr + 1] == i)
			attr++;
		rc = fill_part(&parts[i], batch, i, attr, stream);
		if (rc && fail_idx)
			*fail_idx = i;
	}
	if (!rc)
		rc = sw_copy_queue(stream, parts, batch->nr, call, true);
	free(parts);
	return rc;
}

static kcu_result run(const struct batch *batch, size_t *fail_idx, kcu_stream handle,
		      enum sw_call call)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_here(handle, &stream);

	if (fail_idx)
		*fail_idx = SIZE_MAX;
	if (rc)
		return rc;
	if (!batch->dsts || !batch->srcs || !batch->bytes || !batch->nr ||
	    batch->nr > UINT32_MAX / 2 || !attrs_are_good(batch))
		return KCU_E_INVALID_VALUE;
	if (stream->capture)
		return KCU_E_STREAM_CAPTURE_UNSUPPORTED;
	return queue(batch, fail_idx, stream, call);
}

kcu_result cuMemcpyBatchAsync(kcu_deviceptr *dsts, kcu_deviceptr *srcs, size_t *bytes, size_t nr,
			      kcu_memcpy_attr *attrs, size_t *attr_from, size_t nr_attrs,
			      size_t *fail_idx, kcu_stream stream)
{
	struct batch batch = { dsts, srcs, bytes, nr, attrs, attr_from, nr_attrs };

	return SW_RUN(cuMemcpyBatchAsync, SW_INIT | SW_CTX,
		      run(&batch, fail_idx, stream, SW_cuMemcpyBatchAsync));
}

kcu_result cuMemcpyBatchAsync_v2(kcu_deviceptr *dsts, kcu_deviceptr *srcs, size_t *bytes,
				 size_t nr, kcu_memcpy_attr *attrs, size_t *attr_from,
				 size_t nr_attrs, kcu_stream stream)
{
	struct batch batch = { dsts, srcs, bytes, nr, attrs, attr_from, nr_attrs };

	return SW_RUN(cuMemcpyBatchAsync_v2, SW_INIT | SW_CTX,
		      run(&batch, NULL, stream, SW_cuMemcpyBatchAsync_v2));
}
