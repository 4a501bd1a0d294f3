// SPDX-License-Identifier: Apache-2.0

#include "soft.h"

/* ---- the device ---- */

struct kv_dev *soft_open(const char *options)
{
	struct kv_dev *dev = NULL;

	start(options);
	cr_assert_eq(kv_dev_soft.open(0, &dev), 0);
	ctl->clear_reports();
	return dev;
}

void soft_expect_quiet(void)
{
	for (u32 i = 0; ctl->report(i); i++)
		cr_expect(false, "%s", ctl->report(i));
}

void soft_close(struct kv_dev *dev)
{
	struct sw_live live;

	kv_dev_soft.close(dev);
	ctl->live(&live);
	cr_expect_eq(live.nr_events, 0);
	cr_expect_eq(live.nr_modules, 0);
	cr_expect_eq(live.nr_allocs, 0);
	cr_expect_eq(live.nr_host, 0);
	cr_expect_eq(live.nr_reservations, 0);
	cr_expect_eq(live.nr_handles, 0);
	cr_expect_eq(live.nr_mappings, 0);
	soft_expect_quiet();
	cr_expect_eq(kv_mem_bytes(), 0);
}

/* ---- chance ---- */

static u64 seed = 1;

void random_seed(u64 to)
{
	seed = to;
}

u32 random_below(u32 n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* Free: no block is written that another move reads or writes. */
static bool is_taken(const u8 *taken, u32 start, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (taken[start + i])
			return true;
	return false;
}

u32 random_moves(struct kv_move *moves, u32 nr, u32 longest, u32 src_blocks, u32 dst_blocks,
		 bool is_free)
{
	u8 *taken = calloc(2, max(src_blocks, dst_blocks)), *read = taken + dst_blocks;
	u32 n = 0;

	for (u32 tries = 0; n < nr && tries < 20 * nr; tries++) {
		u32 len = 1 + random_below(longest);
		struct kv_move move = { random_below(src_blocks - len),
					random_below(dst_blocks - len), len };

		if (is_free) {
			if (is_taken(taken, move.dst, len) || is_taken(taken, move.src, len) ||
			    is_taken(read, move.dst, len) ||
			    max(move.src, move.dst) - min(move.src, move.dst) < len)
				continue;
			memset(taken + move.dst, 1, len);
			memset(read + move.src, 1, len);
		}
		moves[n++] = move;
	}
	free(taken);
	return n;
}

/* ---- layouts ---- */

const struct layout layouts[] = {
	{ "one buffer, a block in a row",	1,  4096, 0, 0, false, 0 },
	{ "one plane with gaps",		1,  512, 64, 0, false, 0 },
	{ "two planes a layer",			64, 128, 0, 0, false, 0 },
	{ "a block of all layers",		16, 256, 0, 0, true, 0 },
	{ "latent attention",			7,  1152, 0, 0, false, 0 },
	{ "not for vectors",			3,  100, 5, 3, false, 0 },
	{ "half of it for vectors",		6,  64, 0, 0, false, 8 },
	{ "pieces of many lengths",		5,  48, 16, 0, true, 160 },
	{ "more planes than parameters hold",	80, 32, 0, 0, false, 0 },
	{ "a piece longer than a chunk",	2,  40000, 0, 0, false, 0 },
};

const u32 nr_layouts = ARRAY_SIZE(layouts);

static u64 set_crossed(struct blocks *blocks, const struct layout *layout)
{
	u64 stride = 0;

	for (u32 p = 0; p < layout->nr_planes; p++) {
		blocks->plane[p].bytes = layout->bytes + p * layout->more;
		blocks->plane[p].base = blocks->base + layout->shift + stride;
		stride += blocks->plane[p].bytes + layout->gap;
	}
	for (u32 p = 0; p < layout->nr_planes; p++)
		blocks->plane[p].stride = stride;
	return layout->shift + stride * blocks->nr;
}

static u64 set_planes(struct blocks *blocks, const struct layout *layout)
{
	u64 at = layout->shift;

	if (layout->is_crossed)
		return set_crossed(blocks, layout);
	for (u32 p = 0; p < layout->nr_planes; p++) {
		u64 bytes = layout->bytes + p * layout->more;

		blocks->plane[p] = (struct kvmm_plane){ blocks->base + at, bytes + layout->gap,
							bytes };
		at += (bytes + layout->gap) * blocks->nr;
	}
	return at;
}

static void prepare(struct blocks *blocks, const struct kv_dev_ops *ops,
		    const struct layout *layout, u32 nr)
{
	*blocks = (struct blocks){ .ops = ops, .nr = nr };
	blocks->planes = (struct kv_planes){ blocks->plane, layout->nr_planes };
	blocks->bytes = set_planes(blocks, layout);
	blocks->expected = malloc(blocks->bytes);
}

void blocks_init(struct blocks *blocks, const struct kv_dev_ops *ops, struct kv_dev *dev,
		 const struct layout *layout, u32 nr)
{
	prepare(blocks, ops, layout, nr);
	blocks->dev = dev;
	cr_assert_eq(ops->alloc(dev, blocks->bytes, &blocks->base), 0);
	set_planes(blocks, layout);
	blocks_scramble(blocks);
}

void blocks_init_host(struct blocks *blocks, const struct kv_dev_ops *ops, struct kv_dev *dev,
		      const struct layout *layout, u32 nr, bool is_pinned)
{
	prepare(blocks, ops, layout, nr);
	if (is_pinned)
		cr_assert_eq(ops->host_alloc(dev, blocks->bytes, -1, &blocks->host), 0);
	else
		blocks->host.ptr = malloc(blocks->bytes);
	blocks->base = (uintptr_t)blocks->host.ptr;
	set_planes(blocks, layout);
	blocks_scramble(blocks);
}

void blocks_exit(struct blocks *blocks, struct kv_dev *dev)
{
	if (blocks->dev)
		blocks->ops->free(dev, blocks->base, blocks->bytes);
	else if (blocks->host.bytes)
		blocks->ops->host_free(dev, &blocks->host);
	else
		free(blocks->host.ptr);
	free(blocks->expected);
}

void blocks_scramble(struct blocks *blocks)
{
	for (u64 i = 0; i < blocks->bytes; i++)
		blocks->expected[i] = random_below(256);
	if (!blocks->dev)
		memcpy(blocks->host.ptr, blocks->expected, blocks->bytes);
	else
		cr_assert_eq(blocks->ops->write(blocks->dev, blocks->base, blocks->expected,
						blocks->bytes), 0);
}

static u8 *piece(const struct blocks *blocks, u32 plane, u32 block)
{
	const struct kvmm_plane *p = &blocks->plane[plane];

	return blocks->expected + (p->base - blocks->base) + block * p->stride;
}

static void expect_block(struct blocks *dst, const struct blocks *src, u32 to, u32 from)
{
	for (u32 p = 0; p < src->planes.nr; p++)
		memmove(piece(dst, p, to), piece(src, p, from), src->plane[p].bytes);
}

void blocks_expect_moves(struct blocks *dst, const struct blocks *src, const struct kv_move *moves,
			 u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		bool up = moves[i].dst > moves[i].src;

		for (u32 b = 0; b < moves[i].nr; b++) {
			u32 nth = up ? moves[i].nr - 1 - b : b;

			expect_block(dst, src, moves[i].dst + nth, moves[i].src + nth);
		}
	}
}

bool blocks_are_right(struct blocks *blocks)
{
	u8 *seen = blocks->host.ptr;
	bool right;

	if (blocks->dev) {
		seen = malloc(blocks->bytes);
		cr_assert_eq(blocks->ops->read(blocks->dev, blocks->base, seen, blocks->bytes),
			     0);
	}
	right = !memcmp(seen, blocks->expected, blocks->bytes);
	if (blocks->dev)
		free(seen);
	return right;
}
