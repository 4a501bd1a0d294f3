// SPDX-License-Identifier: Apache-2.0
/* Copies of every kind, and what they may be asked. */
#include "tests/swcuda/driver.h"

#define BYTES	10000

static kcu_memcpy_attr in_stream = { .src_access_order = KCU_SRC_ORDER_STREAM };
static size_t from_first;

static u8 pageable[BYTES];

Test(copy, sides_are_checked)
{
	kcu_deviceptr a, b;
	kcu_stream stream;
	u8 host[16];

	start("");
	stream = stream_new();
	a = dev_alloc(16);
	b = dev_alloc(16);
	is(KCU_E_INVALID_VALUE, cu.memcpy_dtod_async(a, (u64)host, 16, stream));
	is(KCU_E_INVALID_VALUE, cu.memcpy_htod_async(a, (void *)b, 16, stream));
	is(KCU_E_INVALID_VALUE, cu.memcpy_dtoh_async((void *)a, b, 16, stream));
	is(KCU_E_INVALID_VALUE, cu.memcpy_async(a, b, 17, stream));
	is(KCU_E_INVALID_VALUE, cu.memcpy_async(a + 4096, b, 16, stream));
	is(KCU_E_INVALID_VALUE, cu.memcpy_async(0, b, 16, stream));
	is(KCU_E_INVALID_VALUE, cu.memset_d8_async((u64)host, 0, 16, stream));
	ok(cu.memcpy_async(a, b, 0, stream));
}

/* The caller may change pageable memory as soon as the call is back. */
Test(copy, pageable_sources_are_read_at_the_call)
{
	u8 *host = malloc(BYTES);
	struct sw_counters count;
	kcu_deviceptr a;
	kcu_stream stream;

	start("");
	stream = stream_new();
	a = dev_alloc(BYTES);
	memset(host, 1, BYTES);
	ok(cu.memcpy_htod_async(a, host, BYTES, stream));
	memset(host, 2, BYTES);
	free(host);
	finish(stream);
	cr_expect(dev_bytes(a, 1, BYTES));
	ctl->counters(&count);
	cr_expect_eq(count.nr_staged, 1);
}

Test(copy, to_pageable_memory_is_waited_for)
{
	u8 *host = pageable, *pinned;
	kcu_deviceptr a;
	kcu_stream stream;

	start("");
	stream = stream_new();
	a = dev_alloc(BYTES);
	pinned = host_alloc(BYTES);
	fill(a, 5, BYTES, stream);
	ok(cu.memcpy_dtoh_async(pinned, a, BYTES, stream));
	cr_expect_not(all_bytes(pinned, 5, BYTES));
	ok(cu.memcpy_dtoh_async(host, a, BYTES, stream));
	cr_expect(all_bytes(host, 5, BYTES));
	cr_expect(all_bytes(pinned, 5, BYTES));
}

Test(copy, read_only_memory_is_not_written)
{
	kcu_deviceptr a;
	kcu_stream stream;

	start("");
	stream = stream_new();
	a = dev_alloc(BYTES);
	ok(cu.mem_host_register(pageable, BYTES, KCU_HOST_REGISTER_READ_ONLY));
	ok(cu.memcpy_htod_async(a, pageable, BYTES, stream));
	finish(stream);
	ok(cu.memcpy_dtoh_async(pageable, a, BYTES, stream));
	is(KCU_E_ILLEGAL_ADDRESS, cu.stream_synchronize(stream));
}

/* One piece at a time, one of them before all that lie in front of it. */
Test(copy, pieces_come_in_no_order)
{
	kcu_deviceptr a, b;
	kcu_stream stream;
	u32 nr_backwards = 0;

	start("");
	stream = stream_new();
	a = dev_alloc(BYTES);
	b = dev_alloc(BYTES);
	fill(a, 1, BYTES, stream);
	for (int round = 0; round < 20; round++) {
		const u8 *seen = (const u8 *)b;

		fill(b, 0, BYTES, stream);
		finish(stream);
		copy(b, a, BYTES, stream);
		cr_assert(ctl->step());
		cr_assert_not(all_bytes(seen, 1, BYTES));
		nr_backwards += !seen[0];
		finish(stream);
		cr_assert(all_bytes(seen, 1, BYTES));
	}
	cr_expect_gt(nr_backwards, 5);
}

Test(copy, a_copy_onto_itself_is_a_race)
{
	kcu_deviceptr a;
	kcu_stream stream;

	start("");
	stream = stream_new();
	a = dev_alloc(BYTES);
	copy(a + 100, a, 200, stream);
	finish(stream);
	cr_expect_eq(races(), 1);
}

/* ---- Batches ---- */

struct batch {
	kcu_deviceptr dst[8], src[8];
	size_t bytes[8];
};

static void fill_batch(struct batch *batch, kcu_deviceptr a, kcu_deviceptr b)
{
	for (u32 i = 0; i < 8; i++) {
		batch->dst[i] = b + (7 - i) * 1000;
		batch->src[i] = a + i * 1000;
		batch->bytes[i] = 1000;
	}
}

static void check_batch(kcu_deviceptr b)
{
	for (u32 i = 0; i < 8; i++)
		cr_expect(dev_bytes(b + (7 - i) * 1000, i, 1000), "part %u", i);
	cr_expect_eq(races(), 0);
}

Test(batch, both_abis_copy_all_parts)
{
	size_t fail = 77;
	struct batch batch;
	kcu_deviceptr a, b;
	kcu_stream stream;

	start("");
	stream = stream_new();
	a = dev_alloc(8000);
	b = dev_alloc(8000);
	fill_batch(&batch, a, b);
	for (u32 i = 0; i < 8; i++)
		fill(a + i * 1000, i, 1000, stream);
	ok(cu.memcpy_batch_async_v12(batch.dst, batch.src, batch.bytes, 8, &in_stream, &from_first,
				     1, &fail, stream));
	finish(stream);
	check_batch(b);
	fill(b, 0x55, 8000, stream);
	ok(cu.memcpy_batch_async_v13(batch.dst, batch.src, batch.bytes, 8, &in_stream, &from_first,
				     1, stream));
	finish(stream);
	check_batch(b);
}

/* What overlaps inside a batch has no order. */
Test(batch, parts_are_not_ordered)
{
	struct batch batch;
	kcu_deviceptr a, b;
	kcu_stream stream;

	start("");
	stream = stream_new();
	a = dev_alloc(8000);
	b = dev_alloc(8000);
	fill_batch(&batch, a, b);
	batch.dst[3] = batch.dst[2] + 999;
	ok(cu.memcpy_batch_async_v13(batch.dst, batch.src, batch.bytes, 8, &in_stream, &from_first,
				     1, stream));
	finish(stream);
	cr_expect_gt(races(), 0);
}

static kcu_result try(struct batch *batch, size_t nr, kcu_memcpy_attr *attrs, size_t *from,
		      size_t nr_attrs, size_t *fail, kcu_stream stream)
{
	return cu.memcpy_batch_async_v12(batch->dst, batch->src, batch->bytes, nr, attrs, from,
					 nr_attrs, fail, stream);
}

Test(batch, what_is_wrong_is_refused)
{
	kcu_memcpy_attr attrs[2] = { in_stream, in_stream };
	size_t from[2] = { 0, 4 }, fail = 77;
	struct batch batch;
	kcu_stream stream;
	kcu_deviceptr a, b;

	start("");
	stream = stream_new();
	a = dev_alloc(8000);
	b = dev_alloc(8000);
	fill_batch(&batch, a, b);
	ok(try(&batch, 8, attrs, from, 2, &fail, stream));
	is(KCU_E_INVALID_HANDLE, try(&batch, 8, attrs, from, 2, &fail, NULL));
	is(KCU_E_INVALID_VALUE, try(&batch, 0, attrs, from, 1, &fail, stream));
	is(KCU_E_INVALID_VALUE, try(&batch, 8, attrs, from, 0, &fail, stream));
	is(KCU_E_INVALID_VALUE, try(&batch, 4, attrs, from, 2, &fail, stream));
	from[0] = 1;
	is(KCU_E_INVALID_VALUE, try(&batch, 8, attrs, from, 2, &fail, stream));
	from[0] = 0;
	attrs[1].src_access_order = 0;
	is(KCU_E_INVALID_VALUE, try(&batch, 8, attrs, from, 2, &fail, stream));
	cr_expect_eq(fail, SIZE_MAX);
	attrs[1] = in_stream;
	batch.bytes[5] = 0;
	is(KCU_E_INVALID_VALUE, try(&batch, 8, attrs, from, 2, &fail, stream));
	cr_expect_eq(fail, 5);
	ctl->set_capture(stream, KCU_CAPTURE_ACTIVE);
	is(KCU_E_STREAM_CAPTURE_UNSUPPORTED, try(&batch, 8, attrs, from, 2, &fail, stream));
}

/* How often the bytes from before the write that is queued ahead arrive. */
static u32 count_stale(u32 order)
{
	kcu_memcpy_attr attr = { .src_access_order = order };
	struct batch batch;
	kcu_deviceptr a = dev_alloc(8000), b = dev_alloc(8000);
	kcu_stream stream = stream_new();
	u32 nr = 0;

	fill_batch(&batch, a, b);
	for (int round = 0; round < 20; round++) {
		fill(a, 1, 8000, stream);
		finish(stream);
		fill(a, 2, 8000, stream);
		ok(cu.memcpy_batch_async_v13(batch.dst, batch.src, batch.bytes, 8, &attr,
					     &from_first, 1, stream));
		finish(stream);
		for (u32 i = 0; i < 8; i++)
			nr += all_bytes((void *)batch.dst[i], 1, 1000);
	}
	return nr;
}

Test(batch, order_any_reads_early_now_and_then)
{
	u32 stale;

	start("");
	cr_expect_eq(count_stale(KCU_SRC_ORDER_STREAM), 0);
	stale = count_stale(KCU_SRC_ORDER_ANY);
	cr_expect(stale > 20 && stale < 140, "%u of 160", stale);
	cr_expect_eq(count_stale(KCU_SRC_ORDER_DURING_CALL), 160);
}
