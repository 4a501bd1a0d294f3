/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the host and the kernels of move.c: parameters, limits, the checksum.
 *
 * Read by two compilers: clang, which takes move.c for OpenCL C and makes PTX of it, and gcc, for
 * which a kernel is a function that is called once for each thread. Nothing here depends on more
 * than that.
 *
 * Kernels have no barriers and share no memory, and work out their part from the numbers of
 * threads and groups alone: any grid gives the same bytes, and so does one thread that does it all.
 *
 * A launch is parameters by value, a struct as below, and a grid of one dimension.
 */
#ifndef KV_KERNEL_H
#define KV_KERNEL_H

#ifdef __OPENCL_C_VERSION__

typedef uint			u32;
typedef ulong			u64;

#define KV_GLOBAL		__global
#define kv_kernel_inline	static inline __attribute__((always_inline))

#else

#include <kv/types.h>

#define KV_GLOBAL
#define kv_kernel_inline	static inline

#endif

/* Which of the threads this is, in one dimension. */
struct kv_thread {
	u32 nr;			/* in its group */
	u32 nr_threads;		/* of a group */
	u32 group;
	u32 nr_groups;
};

/* Where piece p of every block lies; the layout of struct kvmm_plane. */
struct kv_kernel_plane {
	u64 base;
	u64 stride;
	u64 bytes;		/* below KV_KERNEL_PIECE_MAX */
};

/*
 * A kernel's parameters have room in 4 KiB on every driver, so a launch with its moves by value
 * takes that much: the planes and the moves share @word.
 *
 * Moves are words: {src, dst} each if all of them are single blocks, else {src, dst, first}, where
 * first is the sum of the lengths of the moves before. Sources and destinations of a launch are
 * disjoint, and so are the destinations.
 */
#define KV_KERNEL_ARGS_BYTES	4096u
#define KV_KERNEL_WORDS		1008u	/* 504 single blocks, or 336 runs */
#define KV_KERNEL_PLANES	168u	/* that would leave no room for moves */
#define KV_KERNEL_PIECE_MAX	0x80000000u
#define KV_KERNEL_SINGLE	2u	/* words of a move of one block */
#define KV_KERNEL_RUN		3u	/* words of a move of several blocks */

/**
 * struct kv_move_head - the parameters of the _list kernels, and the first of the others
 * @src_planes: address of the source's planes, or 0: they are @plane of this launch
 * @dst_planes: address of the destination's planes, or 0: @plane from @dst_plane on
 * @moves: address of the moves; unused if they are words of this launch
 * @nr_planes: of either; at least 1
 * @nr_moves: at least 1
 * @nr_blocks: sum of the lengths, at least 1; below 2^31
 * @move_words: KV_KERNEL_SINGLE or KV_KERNEL_RUN
 * @nr_chunks: of the longest piece, at least 1
 * @chunk_bytes: that a group copies at a time; a multiple of 16
 * @dst_plane: see @dst_planes
 * @first_word: where in @word of this launch the moves begin
 * @stamp: 0, or the u64 before the table of the source's planes. Another one there is that of an
 *	older list, since this one did not arrive: nothing is moved
 *
 * The length of a piece is taken from the source's plane.
 */
struct kv_move_head {
	u64 src_planes;
	u64 dst_planes;
	u64 moves;
	u32 nr_planes;
	u32 nr_moves;
	u32 nr_blocks;
	u32 move_words;
	u32 nr_chunks;
	u32 chunk_bytes;
	u32 dst_plane;
	u32 first_word;
	u32 stamp;
	u32 reserved;
};

struct kv_move_args {
	struct kv_move_head head;
	union {
		struct kv_kernel_plane plane[KV_KERNEL_PLANES];
		u32 word[KV_KERNEL_WORDS];
	};
};

/**
 * struct kv_sum_args - the parameters of kv_sum
 * @planes: address of the planes
 * @blocks: address of the first block number, or 0: the blocks from @first on
 * @sums: address of one u64 for each block, to which its checksum is added: zero them before
 * @nr_planes: at least 1
 * @nr_blocks: how many; @nr_blocks * @nr_parts is below 2^31
 * @block_words: u32 from one number at @blocks to the next
 * @first: see @blocks
 * @nr_parts: how many groups share a block, at least 1; any number gives the same sums
 * @stamp: as in struct kv_move_head, before @planes
 */
struct kv_sum_args {
	u64 planes;
	u64 blocks;
	u64 sums;
	u32 nr_planes;
	u32 nr_blocks;
	u32 block_words;
	u32 first;
	u32 nr_parts;
	u32 stamp;
};

/**
 * struct kv_move_sum_args - parameters of kv_move_sum, which moves vectors and sums what it reads
 * @head: as for kv_move16_list
 * @sums: address of one u64 for each block, in the order of the moves; as in struct kv_sum_args
 * @first: address of one u64 for each plane: the number of its first word
 */
struct kv_move_sum_args {
	struct kv_move_head head;
	u64 sums;
	u64 first;
};

#define KV_SUM_STEP		0x9e3779b97f4a7c15ul	/* 2^64 by the golden ratio */
#define KV_SUM_MUL_1		0xbf58476d1ce4e5b9ul
#define KV_SUM_MUL_2		0x94d049bb133111ebul

/*
 * The share of the word at @pos in the checksum. One to one in @word, for each @pos; a zero counts,
 * too, so a block that lost its end has another sum.
 */
kv_kernel_inline u64 kv_sum_word(u64 word, u64 pos)
{
	u64 x = word + (pos + 1) * KV_SUM_STEP;

	x = (x ^ x >> 30) * KV_SUM_MUL_1;
	x = (x ^ x >> 27) * KV_SUM_MUL_2;
	return x ^ x >> 31;
}

#ifndef __OPENCL_C_VERSION__

#include "words.h"

/*
 * The checksum of a block, 64 bits: cut each of its pieces into words of 8 bytes, little endian,
 * the last one filled up with zeros; number the words of all pieces from 0 on in the order of the
 * planes; add up kv_sum_word(word, number), modulo 2^64.
 *
 * So the order in which words are read makes no difference, and if pieces are whole words then
 * neither does how the block is divided into them: a copy of it in one stretch of memory has the
 * same sum. kv_sum_piece() is the share of one piece with number @pos as its first word.
 */
static inline u64 kv_sum_piece(const void *piece, u64 bytes, u64 pos)
{
	const u8 *byte = piece;
	u64 sum = 0, word, nr;

	nr = kv_sum_rounds(byte, bytes / sizeof(word), pos, &sum);
	pos += nr;
	byte += nr * sizeof(word);
	bytes -= nr * sizeof(word);
	for (; bytes >= sizeof(word); bytes -= sizeof(word), byte += sizeof(word)) {
		__builtin_memcpy(&word, byte, sizeof(word));
		sum += kv_sum_word(word, pos++);
	}
	if (!bytes)
		return sum;
	word = 0;
	__builtin_memcpy(&word, byte, bytes);
	return sum + kv_sum_word(word, pos);
}

/* Copies a piece, past the caches if it is long. @dst and @piece are disjoint. */
static inline void kv_copy_piece(void *dst, const void *piece, u64 bytes)
{
	const u8 *from = piece;
	u8 *to = dst;
	u64 done = 0;

	if (bytes >= KV_STREAM_BYTES) {
		u64 head = -(uintptr_t)to % 64;

		__builtin_memcpy(to, from, head);
		done = head + kv_stream_rounds(to + head, from + head, (bytes - head) / 8) * 8;
	}
	__builtin_memcpy(to + done, from + done, bytes - done);
}

/*
 * Copies a piece, and is its kv_sum_piece(): of the bytes read, so a copy of a source that changes
 * at the same time has the sum of what it became. @dst and @piece are disjoint.
 */
static inline u64 kv_copy_sum_piece(void *dst, const void *piece, u64 bytes, u64 pos)
{
	const u8 *from = piece;
	u64 sum = 0, done = 0;
	u8 *to = dst;

	if (bytes >= KV_STREAM_BYTES)
		done = kv_copy_rounds(to, from, bytes / 8, pos, &sum) * 8;
	/* The rest in parts that stay in the cache from being copied to being read again. */
	while (done < bytes) {
		u64 part = bytes - done < KV_STREAM_BYTES ? bytes - done : KV_STREAM_BYTES;

		__builtin_memcpy(to + done, from + done, part);
		sum += kv_sum_piece(to + done, part, pos + done / 8);
		done += part;
	}
	return sum;
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words of the checksum, as on a device");

/* Words of a piece, as the checksum counts them. */
static inline u64 kv_sum_words(u64 bytes)
{
	return (bytes + 7) / 8;
}

static_assert(sizeof(struct kv_move_head) == 64, "as in the PTX");
static_assert(sizeof(struct kv_move_args) == KV_KERNEL_ARGS_BYTES, "as in the PTX");
static_assert(sizeof(struct kv_sum_args) == 48, "as in the PTX");
static_assert(sizeof(struct kv_move_sum_args) == 80, "as in the PTX");

/* A kernel compiled for the host: the work of one thread. @args: its struct, as launched. */
typedef void (*kv_kernel_fn)(const struct kv_thread *self, const void *args);

struct kv_kernel {
	const char *name;
	kv_kernel_fn run;
	u32 args_bytes;
};

/* Defined by move.c, compiled for the host; ends with a name of NULL. */
extern const struct kv_kernel kv_kernels[];

#endif /* __OPENCL_C_VERSION__ */

#endif /* KV_KERNEL_H */
