// SPDX-License-Identifier: Apache-2.0
/* Writing a word from a stream, and holding a stream up until a word has a value. */
#include "internal.h"

enum { WAIT_GEQ = 0, WAIT_EQ = 1, WAIT_AND = 2, WAIT_NOR = 3, WAIT_FLUSH = BIT(30) };

struct word_op {
	struct sw_op op;
	u64 *at;
	u64 value;
	u32 how;
};

static void write_touch(struct sw_op *op, struct sw_access_list *list)
{
	sw_touch(list, (u64)container_of(op, struct word_op, op)->at, sizeof(u64), true);
}

static bool write_step(struct sw_op *op)
{
	struct word_op *word = container_of(op, struct word_op, op);

	__atomic_store_n(word->at, word->value, __ATOMIC_RELEASE);
	return true;
}

static const struct sw_op_ops write_ops = {
	.name	= "value write",
	.touch	= write_touch,
	.step	= write_step,
};

/* A word that somebody waits for is no race: it is not declared. A lost one ends the wait. */
static bool wait_ready(struct sw_op *op)
{
	struct word_op *word = container_of(op, struct word_op, op);
	u64 now;

	if (!sw_may_touch(op->stream->dev, (u64)word->at, sizeof(u64), false)) {
		op->fault = KCU_E_ILLEGAL_ADDRESS;
		return true;
	}
	now = __atomic_load_n(word->at, __ATOMIC_ACQUIRE);
	switch (word->how) {
	case WAIT_GEQ:
		return (s64)(now - word->value) >= 0;
	case WAIT_EQ:
		return now == word->value;
	case WAIT_AND:
		return now & word->value;
	default:
		return ~(now | word->value);
	}
}

static bool wait_step(struct sw_op *op)
{
	return true;
}

static const struct sw_op_ops wait_ops = {
	.name	= "value wait",
	.ready	= wait_ready,
	.step	= wait_step,
};

static kcu_result queue(const struct sw_op_ops *ops, kcu_stream handle, u64 addr, u64 value,
			u32 how, enum sw_call call)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_here(handle, &stream);
	struct word_op *word;

	if (rc)
		return rc;
	if (addr % sizeof(u64) || how > WAIT_NOR ||
	    !sw_may_touch(stream->dev, addr, sizeof(u64), ops == &write_ops))
		return KCU_E_INVALID_VALUE;
	word = sw_op_new(ops, sizeof(*word));
	if (!word)
		return KCU_E_OUT_OF_MEMORY;
	word->at = (u64 *)addr;
	word->value = value;
	word->how = how;
	return sw_queue(stream, &word->op, call);
}

kcu_result cuStreamWriteValue64_v2(kcu_stream stream, kcu_deviceptr addr, u64 value,
				   unsigned int flags)
{
	return SW_RUN(cuStreamWriteValue64_v2, SW_INIT | SW_CTX,
		      queue(&write_ops, stream, addr, value, flags, SW_cuStreamWriteValue64_v2));
}

kcu_result cuStreamWaitValue64_v2(kcu_stream stream, kcu_deviceptr addr, u64 value,
				  unsigned int flags)
{
	return SW_RUN(cuStreamWaitValue64_v2, SW_INIT | SW_CTX,
		      queue(&wait_ops, stream, addr, value, flags & ~WAIT_FLUSH,
			    SW_cuStreamWaitValue64_v2));
}
