/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes that keys are made of: SHA-256 and SipHash-128, fed piece by piece.
 *
 * A message collects in the buffer, so that the usual one (a block of 16 tokens) is hashed by one
 * call into the algorithm, which pads it in place. Longer ones drain 64 bytes at a time.
 */
#ifndef KEY_DIGEST_H
#define KEY_DIGEST_H

#include <string.h>

#include <kv/types.h>

/* Lengths, tokens and words of SipHash are copied as they lie in memory. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "keys are defined in little endian");

#define DIGEST_CHUNK	64u
#define DIGEST_BUF	(4 * DIGEST_CHUNK)
#define DIGEST_BYTES	32u		/* of the longest result */

union digest_state {
	u32 sha[8];
	u64 sip[4];
};

struct digest;

/**
 * struct digest_chain - messages of one shape: start, chunks, head, key of the message before
 * @start: state behind what all begin with
 * @chunks: DIGEST_CHUNK bytes each, at least one; those of the messages lie one after the other
 * @head: 4 bytes in front of the key
 * @bytes: of a message, with those of @start
 */
struct digest_chain {
	const union digest_state *start;
	u32 chunks;
	u32 head;
	u64 bytes;
};

/**
 * struct digest_ops - one algorithm, one way to compute it
 * @bytes: length of the result, at most DIGEST_BYTES
 * @absorb: take in @nr chunks
 * @absorb_two: take in a chunk each of two messages; of SHA-256 only
 * @chain: results of @nr messages, in less time than one by one; NULL: not by this way. @key takes
 *	the first and the last 8 bytes of each, @digest all; either may be NULL. Results of 16 bytes
 *	go to @key alone
 * @finish: take in the rest in @digest->buf, write the result; @digest is spent
 */
struct digest_ops {
	u32 bytes;
	void (*absorb)(union digest_state *state, const u8 *chunk, size_t nr);
	void (*absorb_two)(union digest_state state[2], const u8 *const chunk[2]);
	void (*chain)(const struct digest_chain *chain, const u8 *chunk, u32 nr, const u8 *parent,
		      u8 *key, u8 *digest);
	void (*finish)(struct digest *digest, u8 *result);
};

/* Owner: the thread that computes. */
struct digest {
	const struct digest_ops *ops;
	union digest_state state;
	u64 absorbed;			/* bytes */
	u32 fill;			/* bytes in buf, which are yet to be absorbed */
	u8 buf[DIGEST_BUF];
};

extern const struct digest_ops kv_sha256_portable, kv_siphash24, kv_siphash13;
extern const union digest_state kv_sha256_start;

/* The fastest that this processor can run. */
const struct digest_ops *kv_sha256(void);

/* With the processor's own instructions, or NULL. */
const struct digest_ops *kv_sha256_native(void);

void kv_siphash_key(union digest_state *state, const u8 key[16]);

void __kv_digest_drain(struct digest *digest);
void kv_digest_put(struct digest *digest, const void *data, size_t bytes);

/* @absorbed: bytes that led to @state, a multiple of DIGEST_CHUNK */
static inline void kv_digest_begin(struct digest *digest, const struct digest_ops *ops,
				 const union digest_state *state, u64 absorbed)
{
	digest->ops = ops;
	digest->state = *state;
	digest->absorbed = absorbed;
	digest->fill = 0;
}

/* Room for @bytes more, at most DIGEST_CHUNK; the caller adds the bytes written to ->fill. */
static inline u8 *kv_digest_room(struct digest *digest, u32 bytes)
{
	if (unlikely(digest->fill + bytes > DIGEST_BUF))
		__kv_digest_drain(digest);
	return digest->buf + digest->fill;
}

static inline void kv_digest_finish(struct digest *digest, u8 *result)
{
	digest->ops->finish(digest, result);
}

#endif /* KEY_DIGEST_H */
