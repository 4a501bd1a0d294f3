// SPDX-License-Identifier: Apache-2.0
/*
 * The kernels: move blocks, sum them up.
 *
 * The work of a move is blocks x planes x chunks, all of one size but for the ends of pieces;
 * groups of threads take the chunks in turn. It is hard to keep enough bytes under way: each
 * thread loads four vectors before it stores the first. A chunk is that for all threads of a group,
 * and a group of fewer threads goes around more often.
 *
 * Where chunk number n lies would take divisions, which cost more than the rest of a round; so each
 * thread divides once at its start, and from then on counts with carry. 64 bits are used for
 * addresses only.
 *
 * This is OpenCL C for clang and C for gcc: see port.h. Bodies are inlined into the entry points:
 * parameters must stay where the driver put them, and an address that is passed on would have clang
 * copy all 4 KiB to each thread's stack.
 */
#include "kernel.h"
#include "port.h"

#define IN_FLIGHT	4u
#define VEC_BYTES	16u

/* A chunk of one plane of one of the blocks; digits of one number, block first. */
struct cursor {
	u32 chunk;
	u32 plane;
	u32 block;
};

struct pair {
	u32 src;
	u32 dst;
};

struct job {
	u64 src;
	u64 dst;
	u32 bytes;
};

/* Number @n of all chunks. */
kv_kernel_inline struct cursor cursor_at(const struct kv_move_head *head, u32 n)
{
	u32 row = n / head->nr_chunks;
	struct cursor at = {
		.chunk	= n % head->nr_chunks,
		.plane	= row % head->nr_planes,
		.block	= row / head->nr_planes,
	};

	return at;
}

kv_kernel_inline struct cursor cursor_add(const struct kv_move_head *head,
					  struct cursor at, struct cursor step)
{
	at.chunk += step.chunk;
	at.plane += step.plane;
	at.block += step.block;
	if (at.chunk >= head->nr_chunks) {
		at.chunk -= head->nr_chunks;
		at.plane++;
	}
	if (at.plane >= head->nr_planes) {
		at.plane -= head->nr_planes;
		at.block++;
	}
	return at;
}

/*
 * Where block number @block of all moves comes from and goes to. The host has summed up the
 * lengths, so this is a search for the last move that does not begin behind it. Defined for each
 * kind of memory, since a pointer to parameters is not one to global memory.
 */
#define DEFINE_FIND_PAIR(name, space)						\
kv_kernel_inline struct pair name(const struct kv_move_head *head,		\
				  const space u32 *move, u32 block)		\
{										\
	struct pair pair;							\
	u32 low = 0, high = head->nr_moves, nth;				\
										\
	if (head->move_words == KV_KERNEL_SINGLE) {				\
		pair.src = move[KV_KERNEL_SINGLE * block];			\
		pair.dst = move[KV_KERNEL_SINGLE * block + 1];			\
		return pair;							\
	}									\
	while (high - low > 1) {						\
		u32 mid = (low + high) / 2;					\
										\
		if (move[KV_KERNEL_RUN * mid + 2] <= block)			\
			low = mid;						\
		else								\
			high = mid;						\
	}									\
	nth = block - move[KV_KERNEL_RUN * low + 2];				\
	pair.src = move[KV_KERNEL_RUN * low] + nth;				\
	pair.dst = move[KV_KERNEL_RUN * low + 1] + nth;				\
	return pair;								\
}

DEFINE_FIND_PAIR(find_pair, )
DEFINE_FIND_PAIR(find_pair_in_list, KV_GLOBAL)

kv_kernel_inline struct kv_kernel_plane plane_in_table(u64 table, u32 plane)
{
	return ((const KV_GLOBAL struct kv_kernel_plane *)table)[plane];
}

/* The word before the planes is written by the upload that has brought them. */
kv_kernel_inline bool is_stale(u64 planes, u32 stamp)
{
	return stamp && ((const KV_GLOBAL u64 *)planes)[-1] != stamp;
}

kv_kernel_inline u64 piece_at(struct kv_kernel_plane plane, u32 block)
{
	return plane.base + block * plane.stride;
}

/* Nothing to do, that is 0 bytes, in chunks behind the end of a piece shorter than others. */
kv_kernel_inline struct job job_of(const struct kv_move_head *head, struct pair pair,
				   struct kv_kernel_plane src, struct kv_kernel_plane dst,
				   u32 chunk)
{
	u32 offset = chunk * head->chunk_bytes;
	u32 bytes = (u32)src.bytes;
	u32 left = offset < bytes ? bytes - offset : 0;
	struct job job = {
		.src	= piece_at(src, pair.src) + offset,
		.dst	= piece_at(dst, pair.dst) + offset,
		.bytes	= left < head->chunk_bytes ? left : head->chunk_bytes,
	};

	return job;
}

/* At most three vectors are left for a thread; again all loads first. */
kv_kernel_inline void copy16_rest(struct job job, u32 at, u32 step)
{
	u32 second = at + step, third = second + step;
	struct vec a, b, c;

	if (at < job.bytes)
		a = load16(job.src + at);
	if (second < job.bytes)
		b = load16(job.src + second);
	if (third < job.bytes)
		c = load16(job.src + third);
	if (at < job.bytes)
		store16(job.dst + at, a);
	if (second < job.bytes)
		store16(job.dst + second, b);
	if (third < job.bytes)
		store16(job.dst + third, c);
}

kv_kernel_inline void copy16(const struct kv_thread *self, const struct kv_move_head *head,
			     struct job job)
{
	u32 step = self->nr_threads * VEC_BYTES;
	u32 at = self->nr * VEC_BYTES;

	if (is_alone(self)) {
		copy_alone(job.dst, job.src, job.bytes);
		return;
	}
	for (; at + 3 * step < job.bytes; at += IN_FLIGHT * step) {
		struct vec a = load16(job.src + at);
		struct vec b = load16(job.src + at + step);
		struct vec c = load16(job.src + at + 2 * step);
		struct vec d = load16(job.src + at + 3 * step);

		store16(job.dst + at, a);
		store16(job.dst + at + step, b);
		store16(job.dst + at + 2 * step, c);
		store16(job.dst + at + 3 * step, d);
	}
	copy16_rest(job, at, step);
}

kv_kernel_inline void copy1(const struct kv_thread *self, const struct kv_move_head *head,
			    struct job job)
{
	u32 step = self->nr_threads;
	u32 at = self->nr;

	for (; at + 3 * step < job.bytes; at += IN_FLIGHT * step) {
		u32 a = load1(job.src + at);
		u32 b = load1(job.src + at + step);
		u32 c = load1(job.src + at + 2 * step);
		u32 d = load1(job.src + at + 3 * step);

		store1(job.dst + at, a);
		store1(job.dst + at + step, b);
		store1(job.dst + at + 2 * step, c);
		store1(job.dst + at + 3 * step, d);
	}
	for (; at < job.bytes; at += step)
		store1(job.dst + at, load1(job.src + at));
}

/* A kernel, and its twin that finds the moves in memory. */
#define DEFINE_MOVE_KERNELS(name, act)						\
kv_kernel_inline void name##_body(const struct kv_thread *self,			\
				  const struct kv_move_args *args)		\
{										\
	const struct kv_move_head *head = &args->head;				\
	struct cursor step = cursor_at(head, self->nr_groups);			\
	struct cursor at = cursor_at(head, self->group);			\
										\
	for (; at.block < head->nr_blocks; at = cursor_add(head, at, step)) {	\
		struct pair pair = find_pair(head, args->word + head->first_word, \
					     at.block);				\
		struct kv_kernel_plane src, dst;				\
										\
		if (head->src_planes)						\
			src = plane_in_table(head->src_planes, at.plane);	\
		else								\
			src = args->plane[at.plane];				\
		if (head->dst_planes)						\
			dst = plane_in_table(head->dst_planes, at.plane);	\
		else								\
			dst = args->plane[head->dst_plane + at.plane];		\
		act(self, head, job_of(head, pair, src, dst, at.chunk));	\
	}									\
}										\
										\
kv_kernel_inline void name##_list_body(const struct kv_thread *self,		\
				       const struct kv_move_head *head)		\
{										\
	const KV_GLOBAL u32 *moves = (const KV_GLOBAL u32 *)head->moves;	\
	struct cursor step = cursor_at(head, self->nr_groups);			\
	struct cursor at = cursor_at(head, self->group);			\
										\
	if (is_stale(head->src_planes, head->stamp))				\
		return;								\
	for (; at.block < head->nr_blocks; at = cursor_add(head, at, step)) {	\
		struct pair pair = find_pair_in_list(head, moves, at.block);	\
										\
		act(self, head, job_of(head, pair,				\
				       plane_in_table(head->src_planes, at.plane), \
				       plane_in_table(head->dst_planes, at.plane), \
				       at.chunk));				\
	}									\
}										\
										\
KERNEL(name, kv_move_args, name##_body)						\
KERNEL(name##_list, kv_move_head, name##_list_body)

DEFINE_MOVE_KERNELS(kv_move16, copy16)
DEFINE_MOVE_KERNELS(kv_move1, copy1)

/* Both words of a vector. */
kv_kernel_inline u64 sum_vec(struct vec v, u64 pos)
{
	return kv_sum_word(v.lo, pos) + kv_sum_word(v.hi, pos + 1);
}

/* The first @whole bytes of a piece, which are vectors. */
kv_kernel_inline u64 sum_vecs(const struct kv_thread *self, u64 piece, u32 whole, u64 pos)
{
	u32 step = self->nr_threads * VEC_BYTES;
	u32 at = self->nr * VEC_BYTES;
	u64 sum = 0;

	for (; at + 3 * step < whole; at += IN_FLIGHT * step) {
		struct vec a = load16(piece + at);
		struct vec b = load16(piece + at + step);
		struct vec c = load16(piece + at + 2 * step);
		struct vec d = load16(piece + at + 3 * step);

		sum += sum_vec(a, pos + at / 8);
		sum += sum_vec(b, pos + (at + step) / 8);
		sum += sum_vec(c, pos + (at + 2 * step) / 8);
		sum += sum_vec(d, pos + (at + 3 * step) / 8);
	}
	for (; at < whole; at += step)
		sum += sum_vec(load16(piece + at), pos + at / 8);
	return sum;
}

/* Bytes [at, at + 8) of a piece, as far as there are any. */
kv_kernel_inline u64 word_of_bytes(u64 piece, u32 at, u32 bytes)
{
	u32 end = bytes - at < 8 ? bytes - at : 8;
	u64 word = 0;

	for (u32 i = 0; i < end; i++)
		word |= (u64)load1(piece + at + i) << 8 * i;
	return word;
}

/* This thread's share of a piece with number @pos as its first word. */
kv_kernel_inline u64 sum_piece(const struct kv_thread *self, u64 piece, u32 bytes, u64 pos)
{
	u32 whole = piece % VEC_BYTES ? 0 : bytes / VEC_BYTES * VEC_BYTES;
	u64 sum;
	u32 at;

	if (is_alone(self))
		return sum_alone(piece, bytes, pos);
	sum = sum_vecs(self, piece, whole, pos);
	for (at = whole + self->nr * 8; at < bytes; at += self->nr_threads * 8)
		sum += kv_sum_word(word_of_bytes(piece, at, bytes), pos + at / 8);
	return sum;
}

/* This thread's share of each nr_parts'th plane, from plane @part on. */
kv_kernel_inline u64 sum_block(const struct kv_thread *self, const struct kv_sum_args *args,
			       u32 block, u32 part)
{
	u64 sum = 0, pos = 0;
	u32 turn = part;

	for (u32 p = 0; p < args->nr_planes; p++) {
		struct kv_kernel_plane plane = plane_in_table(args->planes, p);
		u32 bytes = (u32)plane.bytes;

		if (turn-- == 0) {
			sum += sum_piece(self, piece_at(plane, block), bytes, pos);
			turn = args->nr_parts - 1;
		}
		pos += (bytes + 7) / 8;
	}
	return sum;
}

kv_kernel_inline void sum_body(const struct kv_thread *self, const struct kv_sum_args *args)
{
	const KV_GLOBAL u32 *blocks = (const KV_GLOBAL u32 *)args->blocks;

	if (is_stale(args->planes, args->stamp))
		return;
	for (u32 n = self->group; n < args->nr_blocks * args->nr_parts; n += self->nr_groups) {
		u32 nth = n / args->nr_parts;
		u32 block = blocks ? blocks[nth * args->block_words] : args->first + nth;

		add8(args->sums + nth * sizeof(u64),
		     sum_block(self, args, block, n % args->nr_parts));
	}
}

KERNEL(kv_sum, kv_sum_args, sum_body)

/* This thread's share of a chunk, vectors all of it, with number @pos as its first word. */
kv_kernel_inline u64 copy_sum16(const struct kv_thread *self, struct job job, u64 pos)
{
	u32 step = self->nr_threads * VEC_BYTES;
	u32 at = self->nr * VEC_BYTES;
	u64 sum = 0;

	if (is_alone(self))
		return copy_sum_alone(job.dst, job.src, job.bytes, pos);
	for (; at + 3 * step < job.bytes; at += IN_FLIGHT * step) {
		struct vec a = load16(job.src + at);
		struct vec b = load16(job.src + at + step);
		struct vec c = load16(job.src + at + 2 * step);
		struct vec d = load16(job.src + at + 3 * step);

		store16(job.dst + at, a);
		store16(job.dst + at + step, b);
		store16(job.dst + at + 2 * step, c);
		store16(job.dst + at + 3 * step, d);
		sum += sum_vec(a, pos + at / 8);
		sum += sum_vec(b, pos + (at + step) / 8);
		sum += sum_vec(c, pos + (at + 2 * step) / 8);
		sum += sum_vec(d, pos + (at + 3 * step) / 8);
	}
	for (; at < job.bytes; at += step) {
		struct vec a = load16(job.src + at);

		store16(job.dst + at, a);
		sum += sum_vec(a, pos + at / 8);
	}
	return sum;
}

kv_kernel_inline void move_sum_body(const struct kv_thread *self,
				    const struct kv_move_sum_args *args)
{
	const struct kv_move_head *head = &args->head;
	const KV_GLOBAL u32 *moves = (const KV_GLOBAL u32 *)head->moves;
	const KV_GLOBAL u64 *first = (const KV_GLOBAL u64 *)args->first;
	struct cursor step = cursor_at(head, self->nr_groups);
	struct cursor at = cursor_at(head, self->group);

	if (is_stale(head->src_planes, head->stamp))
		return;
	for (; at.block < head->nr_blocks; at = cursor_add(head, at, step)) {
		struct pair pair = find_pair_in_list(head, moves, at.block);
		struct job job = job_of(head, pair, plane_in_table(head->src_planes, at.plane),
					plane_in_table(head->dst_planes, at.plane), at.chunk);
		u64 pos = first[at.plane] + at.chunk * (head->chunk_bytes / 8);

		add8(args->sums + at.block * sizeof(u64), copy_sum16(self, job, pos));
	}
}

KERNEL(kv_move_sum, kv_move_sum_args, move_sum_body)

#ifndef __OPENCL_C_VERSION__
const struct kv_kernel kv_kernels[] = {
	{ "kv_move16",		kv_move16,	sizeof(struct kv_move_args) },
	{ "kv_move16_list",	kv_move16_list,	sizeof(struct kv_move_head) },
	{ "kv_move1",		kv_move1,	sizeof(struct kv_move_args) },
	{ "kv_move1_list",	kv_move1_list,	sizeof(struct kv_move_head) },
	{ "kv_sum",		kv_sum,		sizeof(struct kv_sum_args) },
	{ "kv_move_sum",	kv_move_sum,	sizeof(struct kv_move_sum_args) },
	{ NULL, NULL, 0 },
};
#endif
