// SPDX-License-Identifier: Apache-2.0
/*
 * Batched copies in both of their ABIs. The one that takes an index of failure and the one that
 * does not differ by one pointer before the stream: taken for each other, they would copy on a
 * stream that is none.
 */
#include "check.h"

#define NR	32u
#define BYTES	4096u

struct batch {
	kcu_deviceptr dst[NR], src[NR];
	size_t bytes[NR];
	u32 nr;
	size_t from;			/* where the only attribute begins to hold */
	u32 nr_attrs;
};

/* Stream order and no flags: all else lets the source be read too early. */
static kcu_result submit(u32 feature, struct batch *batch, kcu_stream stream)
{
	kcu_memcpy_attr attr = { .src_access_order = KCU_SRC_ORDER_STREAM };
	size_t fail_idx = 0;

	if (feature == KCU_F_BATCH12)
		return cu->memcpy_batch_async_v12(batch->dst, batch->src, batch->bytes, batch->nr,
						  &attr, &batch->from, batch->nr_attrs, &fail_idx,
						  stream);
	return cu->memcpy_batch_async_v13(batch->dst, batch->src, batch->bytes, batch->nr, &attr,
					  &batch->from, batch->nr_attrs, stream);
}

/* Block i goes to place i * 5 mod NR, and is i bytes shorter than it could be. */
static void fill_batch(struct batch *batch, u64 dst, u64 src)
{
	*batch = (struct batch){ .nr = NR, .nr_attrs = 1 };
	for (u32 i = 0; i < NR; i++) {
		batch->dst[i] = dst + i * 5 % NR * BYTES;
		batch->src[i] = src + i * BYTES;
		batch->bytes[i] = BYTES - i;
	}
}

static bool is_copied(const u8 *seen, const u8 *source)
{
	for (u32 i = 0; i < NR; i++) {
		const u8 *at = seen + i * 5 % NR * BYTES;

		if (memcmp(at, source + i * BYTES, BYTES - i) || !is_byte(at + BYTES - i, i, 0xaa))
			return false;
	}
	return true;
}

static void copies_on_the_device(u32 feature)
{
	kcu_deviceptr src = device_memory(NR * BYTES), dst = device_memory(NR * BYTES);
	u8 *source = pageable_memory(NR * BYTES), *seen = pageable_memory(NR * BYTES);
	kcu_stream stream = new_stream();
	struct batch batch;

	fill_pattern(source, NR * BYTES, 1);
	put(src, source, NR * BYTES);
	put_byte(dst, NR * BYTES, 0xaa);
	fill_batch(&batch, dst, src);
	must(submit(feature, &batch, stream));
	must(cu->stream_synchronize(stream));
	get(seen, dst, NR * BYTES);
	that(is_copied(seen, source));
}

static void copies_to_and_fro(u32 feature)
{
	u8 *source = pinned_memory(NR * BYTES), *seen = pinned_memory(NR * BYTES);
	kcu_deviceptr addr = device_memory(NR * BYTES);
	kcu_stream stream = new_stream();
	struct batch in, out;

	fill_pattern(source, NR * BYTES, 2);
	memset(seen, 0xaa, NR * BYTES);
	put_byte(addr, NR * BYTES, 0xaa);
	fill_batch(&in, addr, (u64)source);
	must(submit(feature, &in, stream));
	out = (struct batch){ .nr = NR, .nr_attrs = 1 };
	for (u32 i = 0; i < NR; i++) {
		out.dst[i] = (u64)seen + i * BYTES;
		out.src[i] = addr + i * BYTES;
		out.bytes[i] = BYTES;
	}
	must(submit(feature, &out, stream));
	must(cu->stream_synchronize(stream));
	that(is_copied(seen, source));
}

/* With order ANY a source may be read before what the stream waits for. */
static void sources_are_read_in_stream_order(u32 feature)
{
	kcu_deviceptr src = device_memory(NR * BYTES), dst = device_memory(NR * BYTES);
	kcu_stream stream = new_stream();
	struct batch batch;
	struct gate gate;

	put_byte(src, NR * BYTES, 1);
	put_byte(dst, NR * BYTES, 0);
	fill_batch(&batch, dst, src);
	for (u32 i = 0; i < NR; i++)
		batch.bytes[i] = BYTES;
	gate = closed_gate(stream);
	must(cu->memset_d8_async(src, 2, NR * BYTES, stream));
	must(submit(feature, &batch, stream));
	open_gate(gate);
	must(cu->stream_synchronize(stream));
	that(has_byte(dst, NR * BYTES, 2));
}

static kcu_result mistake(u32 feature, u32 nr, size_t from, u32 nr_attrs)
{
	kcu_deviceptr addr = device_memory(2 * NR * BYTES);
	struct batch batch;

	fill_batch(&batch, addr, addr + NR * BYTES);
	batch.nr = nr;
	batch.from = from;
	batch.nr_attrs = nr_attrs;
	return submit(feature, &batch, new_stream());
}

#define BOTH(name, code)						\
	static void name##_v12(void)					\
	{								\
		const u32 feature = KCU_F_BATCH12;			\
									\
		code;							\
	}								\
	static void name##_v13(void)					\
	{								\
		const u32 feature = KCU_F_BATCH13;			\
									\
		code;							\
	}

BOTH(device_to_device, copies_on_the_device(feature))
BOTH(to_and_fro, copies_to_and_fro(feature))
BOTH(stream_order, sources_are_read_in_stream_order(feature))
BOTH(of_nothing, answers(mistake(feature, 0, 0, 1), INVALID_VALUE))
BOTH(without_attributes, answers(mistake(feature, NR, 0, 0), INVALID_VALUE))
BOTH(attributes_from_the_middle, answers(mistake(feature, NR, 3, 1), INVALID_VALUE))

#define CHECKS(name)								\
	{ "batch." #name "_v12", name##_v12, 0, KCU_F_BATCH12 },		\
	{ "batch." #name "_v13", name##_v13, 0, KCU_F_BATCH13 }
const struct check checks_batch[] = {
	CHECKS(device_to_device),
	CHECKS(to_and_fro),
	CHECKS(stream_order),
	CHECKS(of_nothing),
	CHECKS(without_attributes),
	CHECKS(attributes_from_the_middle),
	{ NULL, NULL, 0, 0 },
};
