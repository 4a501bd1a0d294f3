// SPDX-License-Identifier: Apache-2.0
/*
 * Which memory a launch reads and writes, worked out from its parameters: for the software driver,
 * whose race checker wants to know before it runs a kernel, and for tests. Not part of the library.
 *
 * Addresses of tables and lists are followed, so they must be the host's, too.
 */
#include <string.h>

#include "kernel.h"

struct toucher {
	kv_kernel_touch_fn fn;
	void *arg;
};

static void touch(const struct toucher *to, u64 addr, u64 bytes, bool write)
{
	if (bytes)
		to->fn(to->arg, addr, bytes, write);
}

static const struct kv_kernel_plane *planes_of(const struct toucher *to, u64 table,
					       const struct kv_kernel_plane *by_value, u32 nr)
{
	if (!table)
		return by_value;
	touch(to, table, nr * sizeof(*by_value), false);
	return (const struct kv_kernel_plane *)(uintptr_t)table;
}

/* Planes of one side of a launch. */
struct side {
	const struct kv_kernel_plane *plane;
	const struct kv_kernel_plane *src;	/* says how long the pieces are */
	u32 nr;
	bool write;
};

static void touch_block(const struct toucher *to, const struct side *side, u64 block)
{
	for (u32 p = 0; p < side->nr; p++)
		touch(to, side->plane[p].base + block * side->plane[p].stride,
		      side->src[p].bytes, side->write);
}

/* How long a move is: up to where the next one begins, or up to the end of all. */
static u32 length_of(const struct kv_move_head *head, const u32 *word, u32 n)
{
	if (head->move_words == KV_KERNEL_SINGLE)
		return 1;
	return (n + 1 < head->nr_moves ? word[KV_KERNEL_RUN + 2] : head->nr_blocks) - word[2];
}

/* @args: the launch, or NULL for a _list kernel, whose parameters are the head alone. */
static void touch_moves(const struct toucher *to, const struct kv_move_head *head,
			const struct kv_move_args *args, bool reads)
{
	const struct kv_kernel_plane *plane = planes_of(to, head->src_planes,
							args ? args->plane : NULL,
							head->nr_planes);
	struct side src = { plane, plane, head->nr_planes, false };
	struct side dst = { plane, plane, head->nr_planes, true };
	const u32 *word;

	dst.plane = planes_of(to, head->dst_planes, args ? args->plane + head->dst_plane : NULL,
			      head->nr_planes);
	word = args ? args->word + head->first_word : (const u32 *)(uintptr_t)head->moves;
	if (!args)
		touch(to, head->moves, (u64)head->nr_moves * head->move_words * sizeof(u32), false);
	for (u32 n = 0; n < head->nr_moves; n++, word += head->move_words)
		for (u32 i = 0; i < length_of(head, word, n); i++) {
			if (reads)
				touch_block(to, &src, word[0] + i);
			touch_block(to, &dst, word[1] + i);
		}
}

static void touch_sums(const struct toucher *to, const struct kv_sum_args *args)
{
	const struct kv_kernel_plane *plane = planes_of(to, args->planes, NULL, args->nr_planes);
	const struct side side = { plane, plane, args->nr_planes, false };
	const u32 *id = (const u32 *)(uintptr_t)args->blocks;

	for (u32 i = 0; i < args->nr_blocks; i++) {
		const u32 *at = id ? id + (u64)i * args->block_words : NULL;

		if (at)
			touch(to, (uintptr_t)at, sizeof(*at), false);
		touch_block(to, &side, at ? *at : args->first + i);
	}
	touch(to, args->sums, args->nr_blocks * sizeof(u64), true);
}

void kv_kernel_touch(const char *name, const void *args, kv_kernel_touch_fn fn, void *arg)
{
	const struct toucher to = { fn, arg };

	if (!strcmp(name, "kv_sum"))
		touch_sums(&to, args);
	else
		touch_moves(&to, args, strstr(name, "_list") ? NULL : args,
			    strncmp(name, "kv_fill", 7));
}
