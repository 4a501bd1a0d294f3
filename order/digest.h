/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history of a deterministic pool: a sum over its decisions, in two parts, each under the lock
 * that the decision is made under.
 *
 *	->history		lock: which blocks went to which owner, and came back
 *	->order.history		order.lock: notes to the order of eviction, and its victims
 *
 * Any choice ends in one of the two: all takes and frees of blocks go through owner_fill() and
 * blocks_free(), all evictions through entry_forget(). Notes to the order are in it as well, since
 * they decide on later victims.
 */
#ifndef ORDER_DIGEST_H
#define ORDER_DIGEST_H

#include <string.h>

#include <kv/hash.h>
#include <kv/types.h>

/*
 * A sum over words in their order, of 128 bits in two lanes. The same everywhere: no secret in it.
 *
 * Each lane is a multiplication that depends on the last one; the two overlap. The second is one to
 * one in both the word and the sum before, so a single word that differs is always seen.
 */
struct sum {
	u64 lane[2];
};

static inline void sum_add(struct sum *sum, u64 word)
{
	u64 turned = sum->lane[1] << 23 | sum->lane[1] >> 41;

	sum->lane[0] = kv_mul_fold(sum->lane[0] ^ word, 0xa0761d6478bd642full) + word;
	sum->lane[1] = (turned ^ word) * 0x9e3779b97f4a7c15ull + 1;
}

static inline void sum_add_two(struct sum *sum, u32 high, u32 low)
{
	sum_add(sum, (u64)high << 32 | low);
}

static inline void sum_add_sum(struct sum *sum, const struct sum *other)
{
	sum_add(sum, other->lane[0]);
	sum_add(sum, other->lane[1]);
}

/* @bytes of @data; bytes missing of the last word are 0. */
static inline void sum_add_bytes(struct sum *sum, const void *data, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += sizeof(u64)) {
		u64 word = 0;

		memcpy(&word, (const u8 *)data + at, bytes - at < sizeof(word) ? bytes - at :
									      sizeof(word));
		sum_add(sum, word);
	}
}

/* Where words of one kind begin. */
enum history_mark {
	HISTORY_TOLD = 0x0f,	/* and struct kvmm_completions */
	HISTORY_TAKEN,
	HISTORY_FREED,
	HISTORY_EVICTED,
	HISTORY_RECLASSED,
	HISTORY_SEEN,
	HISTORY_ADVISED,	/* and the advice */
};

static inline u64 history_word(u32 mark, u32 high, u32 low)
{
	return (u64)mark << 56 | (u64)high << 28 | low;
}

#endif /* ORDER_DIGEST_H */
