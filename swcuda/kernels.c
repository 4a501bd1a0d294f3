// SPDX-License-Identifier: Apache-2.0
/*
 * The library's own kernels, compiled for the host from the source that the PTX was made of, and
 * what they touch. Tests may add more.
 */
#include "../cuda/kernel/move.c"

#include "internal.h"

#define MAX_ADDED	32

static const struct sw_kernel *added[MAX_ADDED];
static u32 nr_added;

static void run_own(const struct sw_kernel *kernel, const struct sw_grid *grid, u64 thread,
		    void **params)
{
	const struct kv_kernel *own = kernel->data;
	struct kv_thread self = {
		.nr = thread % grid->block[0], .nr_threads = grid->block[0],
		.group = thread / grid->block[0], .nr_groups = grid->grid[0],
	};

	own->run(&self, params[0]);
}

/* ---- What they touch ---- */

struct walk {
	struct sw_access_list *list;
	sw_touch_fn touch;
	const struct kv_move_head *head;
	const struct kv_kernel_plane *src, *dst;
};

static void touch_pair(const struct walk *walk, u32 from, u32 to, u32 nr_blocks)
{
	for (u32 p = 0; p < walk->head->nr_planes; p++) {
		const struct kv_kernel_plane *src = &walk->src[p], *dst = &walk->dst[p];

		for (u32 i = 0; i < nr_blocks; i++) {
			u64 read = piece_at(*src, from + i), written = piece_at(*dst, to + i);

			walk->touch(walk->list, read, src->bytes, false);
			walk->touch(walk->list, written, src->bytes, true);
		}
	}
}

static void touch_moves(const struct walk *walk, const u32 *words)
{
	const struct kv_move_head *head = walk->head;

	for (u32 i = 0; i < head->nr_moves; i++) {
		const u32 *move = words + (size_t)i * head->move_words;
		u32 end = head->nr_blocks;

		if (head->move_words == KV_KERNEL_SINGLE) {
			touch_pair(walk, move[0], move[1], 1);
			continue;
		}
		if (i + 1 < head->nr_moves)
			end = move[KV_KERNEL_RUN + 2];
		touch_pair(walk, move[0], move[1], end - move[2]);
	}
}

/* Planes in memory: NULL as long as nobody can read them. */
static const struct kv_kernel_plane *table(struct walk *walk, u64 addr)
{
	u64 bytes = walk->head->nr_planes * sizeof(struct kv_kernel_plane);

	return walk->touch(walk->list, addr, bytes, false) ?
	       (const struct kv_kernel_plane *)addr : NULL;
}

/* Another list there than its own is left alone by the kernel. */
static bool is_own(struct sw_access_list *list, sw_touch_fn touch, u64 planes, u32 stamp)
{
	return !stamp || (touch(list, planes - sizeof(u64), sizeof(u64), false) &&
			  !is_stale(planes, stamp));
}

static void touch_by_value(struct walk *walk, const struct kv_move_args *args)
{
	const struct kv_move_head *head = walk->head = &args->head;

	walk->src = head->src_planes ? table(walk, head->src_planes) : args->plane;
	walk->dst = head->dst_planes ? table(walk, head->dst_planes) :
		    args->plane + head->dst_plane;
	if (walk->src && walk->dst)
		touch_moves(walk, args->word + head->first_word);
}

static void touch_list(struct walk *walk, const struct kv_move_head *head)
{
	u64 bytes = (u64)head->nr_moves * head->move_words * sizeof(u32);

	walk->head = head;
	if (!is_own(walk->list, walk->touch, head->src_planes, head->stamp))
		return;
	walk->src = table(walk, head->src_planes);
	walk->dst = table(walk, head->dst_planes);
	if (walk->touch(walk->list, head->moves, bytes, false) && walk->src && walk->dst)
		touch_moves(walk, (const u32 *)head->moves);
}

static void access_move(const struct sw_kernel *kernel, void **params,
			struct sw_access_list *list, sw_touch_fn touch)
{
	const struct kv_kernel *own = kernel->data;
	struct walk walk = { .list = list, .touch = touch };

	if (own->args_bytes == sizeof(struct kv_move_args))
		touch_by_value(&walk, params[0]);
	else
		touch_list(&walk, params[0]);
}

static void access_sum(const struct sw_kernel *kernel, void **params,
		       struct sw_access_list *list, sw_touch_fn touch)
{
	const struct kv_sum_args *args = params[0];
	const struct kv_kernel_plane *plane = (const struct kv_kernel_plane *)args->planes;
	const u32 *block = (const u32 *)args->blocks;
	u64 list_bytes = ((u64)(args->nr_blocks - 1) * args->block_words + 1) * sizeof(u32);
	bool known = is_own(list, touch, args->planes, args->stamp) &&
		     touch(list, args->planes, args->nr_planes * sizeof(*plane), false);

	touch(list, args->sums, (u64)args->nr_blocks * sizeof(u64), true);
	if (block)
		known &= touch(list, args->blocks, list_bytes, false);
	for (u32 i = 0; known && i < args->nr_blocks; i++) {
		u32 nr = block ? block[(u64)i * args->block_words] : args->first + i;

		for (u32 p = 0; p < args->nr_planes; p++)
			touch(list, piece_at(plane[p], nr), plane[p].bytes, false);
	}
}

static void access_move_sum(const struct sw_kernel *kernel, void **params,
			    struct sw_access_list *list, sw_touch_fn touch)
{
	const struct kv_move_sum_args *args = params[0];
	struct walk walk = { .list = list, .touch = touch };

	touch(list, args->first, args->head.nr_planes * sizeof(u64), false);
	touch(list, args->sums, args->head.nr_blocks * sizeof(u64), true);
	touch_list(&walk, &args->head);
}

static void (*access_of(const char *name))(const struct sw_kernel *kernel, void **params,
					   struct sw_access_list *list, sw_touch_fn touch)
{
	if (!strcmp(name, "kv_sum"))
		return access_sum;
	return strcmp(name, "kv_move_sum") ? access_move : access_move_sum;
}

/* ---- Finding them ---- */

#define MAX_OWN		16

static const struct sw_kernel *find_own(const char *name)
{
	static struct sw_kernel own[MAX_OWN];	/* filled when first asked for; sw.lock */
	u32 i = 0;

	for (; kv_kernels[i].name && strcmp(kv_kernels[i].name, name); i++)
		;
	if (!kv_kernels[i].name || i >= MAX_OWN)
		return NULL;
	own[i] = (struct sw_kernel){
		.name = kv_kernels[i].name, .nr_params = 1, .run = run_own, .any_grid = true,
		.access = access_of(name),
		.data = &kv_kernels[i],
	};
	return &own[i];
}

const struct sw_kernel *sw_kernel_find(const char *name)
{
	for (u32 i = 0; i < nr_added; i++)
		if (!strcmp(added[i]->name, name))
			return added[i];
	return find_own(name);
}

int sw_kernel_add(const struct sw_kernel *kernel)
{
	if (nr_added == MAX_ADDED)
		return -ENOSPC;
	if (sw_kernel_find(kernel->name))
		return -EEXIST;
	added[nr_added++] = kernel;
	return 0;
}

void sw_kernels_exit(void)
{
	nr_added = 0;
}
