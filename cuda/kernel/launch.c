// SPDX-License-Identifier: Apache-2.0
/*
 * Parameters and grids of the kernels.
 *
 * The one decision here is how large a chunk is: the bytes that all threads of a group have under
 * way at a time. Small pieces get small groups, since threads behind the end of a piece do nothing.
 * The rest is counting, in a way that 32 bits are enough for the kernels.
 *
 * No locks, no state.
 */
#include <string.h>

#include <kv/bits.h>

#include "launch.h"

#define MIN_THREADS	64u
#define MAX_THREADS	256u
#define THREAD_BYTES	64u		/* four vectors under way */
#define BYTE_CHUNK	4096u		/* kv_move1 goes around four times for it */
#define MAX_BLOCKS	0x7fffffffu
#define PLANE_WORDS	((u32)(sizeof(struct kv_kernel_plane) / sizeof(u32)))

static_assert(sizeof(struct kv_kernel_plane) == sizeof(struct kvmm_plane) &&
	      offsetof(struct kv_kernel_plane, base) == offsetof(struct kvmm_plane, base) &&
	      offsetof(struct kv_kernel_plane, stride) == offsetof(struct kvmm_plane, stride) &&
	      offsetof(struct kv_kernel_plane, bytes) == offsetof(struct kvmm_plane, bytes),
	      "tables of planes are copied as they are");

static bool plane_is_vectors(const struct kvmm_plane *plane)
{
	return !((plane->base | plane->stride | plane->bytes) % 16);
}

u32 kv_launch_alike(const struct kvmm_plane *src, const struct kvmm_plane *dst, u32 nr,
		    bool *vectors)
{
	u32 n = 1;

	*vectors = plane_is_vectors(src) && plane_is_vectors(dst);
	while (n < nr && (plane_is_vectors(src + n) && plane_is_vectors(dst + n)) == *vectors)
		n++;
	return n;
}

/* The longest piece, or 0 if one of them is beyond the kernels. */
static u64 longest_piece(const struct kv_launch_planes *src, const struct kv_launch_planes *dst)
{
	u64 longest = 0;

	if (src->nr != dst->nr)
		return 0;
	for (u32 i = 0; i < src->nr; i++) {
		const struct kvmm_plane *from = &src->plane[i], *to = &dst->plane[i];

		if (!from->bytes || from->bytes >= KV_KERNEL_PIECE_MAX ||
		    from->bytes != to->bytes || from->bytes > from->stride ||
		    to->bytes > to->stride)
			return 0;
		longest = max(longest, from->bytes);
	}
	return longest;
}

int kv_launch_head(struct kv_move_head *head, const struct kv_launch_planes *src,
		   const struct kv_launch_planes *dst, bool vectors)
{
	u64 longest = longest_piece(src, dst);
	u32 nr_threads = MIN_THREADS;
	/* Planes by value come first; one copy of them if they are the same. */
	u64 nr = (src->table ? 0 : src->nr) + (dst == src || dst->table ? 0 : (u64)dst->nr);

	if (!longest)
		return -EINVAL;
	while (nr_threads < MAX_THREADS && nr_threads * THREAD_BYTES < longest)
		nr_threads *= 2;
	*head = (struct kv_move_head) {
		.src_planes	= src->table,
		.dst_planes	= dst->table,
		.nr_planes	= src->nr,
		.chunk_bytes	= vectors ? nr_threads * THREAD_BYTES : BYTE_CHUNK,
		.dst_plane	= src == dst || src->table ? 0 : src->nr,
		.first_word	= min(nr * PLANE_WORDS, (u64)KV_KERNEL_WORDS),
	};
	head->nr_chunks = (longest + head->chunk_bytes - 1) / head->chunk_bytes;
	return nr_threads;
}

/* Number of moves, from the first on, that are not longer than one block. */
static u32 nr_singles(const struct kv_move *moves, u32 nr)
{
	u32 n = 0;

	while (n < nr && moves[n].nr <= 1)
		n++;
	return n;
}

/* As many as go into @room words, each of head->move_words. */
static u32 put_moves(struct kv_move_head *head, u32 *words, u64 room,
		     const struct kv_move *moves, u32 nr)
{
	u32 n, *word = words;

	head->nr_moves = 0;
	head->nr_blocks = 0;
	for (n = 0; n < nr; n++) {
		if (!moves[n].nr)
			continue;
		if ((head->nr_moves + 1ull) * head->move_words > room ||
		    moves[n].nr > MAX_BLOCKS - head->nr_blocks)
			break;
		word[0] = moves[n].src;
		word[1] = moves[n].dst;
		if (head->move_words == KV_KERNEL_RUN)
			word[2] = head->nr_blocks;
		word += head->move_words;
		head->nr_moves++;
		head->nr_blocks += moves[n].nr;
	}
	return n;
}

/*
 * Single blocks take two words instead of three, and need no search. So a launch ends before the
 * first run if the single blocks ahead of it are as many as runs would have been.
 */
u32 kv_launch_moves(struct kv_move_args *args, const struct kv_launch_planes *src,
		    const struct kv_launch_planes *dst, const struct kv_move *moves, u32 nr)
{
	struct kv_move_head *head = &args->head;
	u32 room = KV_KERNEL_WORDS - head->first_word;
	u32 singles = nr_singles(moves, nr);

	if (room < KV_KERNEL_RUN)
		return 0;
	if (!src->table)
		memcpy(args->plane, src->plane, src->nr * sizeof(*src->plane));
	if (dst != src && !dst->table)
		memcpy(args->plane + head->dst_plane, dst->plane, dst->nr * sizeof(*dst->plane));
	head->move_words = KV_KERNEL_RUN;
	if (singles == nr || singles >= room / KV_KERNEL_RUN) {
		head->move_words = KV_KERNEL_SINGLE;
		nr = singles;
	}
	return put_moves(head, args->word + head->first_word, room, moves, nr);
}

u32 kv_launch_list(struct kv_move_head *head, u32 *words, const struct kv_move *moves, u32 nr)
{
	bool single = nr_singles(moves, nr) == nr;

	head->move_words = single ? KV_KERNEL_SINGLE : KV_KERNEL_RUN;
	return put_moves(head, words, KV_LAUNCH_LIST_WORDS(nr), moves, nr);
}

u32 kv_launch_groups(const struct kv_move_head *head, u32 cap)
{
	u64 rows = (u64)head->nr_blocks * head->nr_planes;
	u64 nr;

	if (kv_mul_overflows(rows, head->nr_chunks, &nr))
		return cap;
	return min(nr, (u64)cap);
}

#define SUMMED_ROUNDS	8u	/* of a thread in a chunk */

void kv_launch_longer_chunks(struct kv_move_head *head)
{
	head->chunk_bytes *= SUMMED_ROUNDS;
	head->nr_chunks = (head->nr_chunks + SUMMED_ROUNDS - 1) / SUMMED_ROUNDS;
}

u32 kv_launch_sum_parts(u32 nr_blocks, u32 nr_planes, u32 cap)
{
	u32 wanted = nr_blocks ? cap / nr_blocks : 1;

	wanted = min(wanted, nr_planes);
	return max(wanted, 1u);
}

u32 kv_launch_sum_groups(const struct kv_sum_args *args, u32 cap)
{
	u32 nr = min(args->nr_blocks * args->nr_parts, cap);

	return max(nr, 1u);
}
