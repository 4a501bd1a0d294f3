// SPDX-License-Identifier: Apache-2.0
/*
 * Copies of all kinds on one device, by one thread or three, several under way at a time.
 *
 * A call that fails has done nothing; a fence that fails leaves its destination unknown; one that does
 * not fail has brought what its source had, also if it only went behind the copy that made the source.
 */
#include <pthread.h>
#include <string.h>

#include "cuda/kernel/kernel.h"
#include "rates.h"

#define NR		12u
#define BYTES		640u		/* in two planes */
#define PIECE		(BYTES / 2)
#define NR_PENDING	5u
#define NR_ACTORS	3u
#define NR_OPS		40u

static const struct kv_dev_ops *const ops = &kv_dev_soft;

struct place {
	u32 content;
	u32 nr_readers;
	struct pending *writer;
	bool is_known;
};

struct side {
	struct kvmm_plane plane[2];
	struct kv_planes planes;
	struct place place[NR];
};

struct pending {
	bool is_used;
	struct kv_fence fence;
	struct side *from, *to;
	u32 src, dst;
	u32 content;
	bool is_known;			/* if it ends well */
};

struct actor {
	struct kv_dev *dev;
	struct dice dice;
	u64 addr;
	struct kv_host_mem host;
	struct side side[2];		/* of the device, of the host */
	struct pending pending[NR_PENDING];
};

static void set_planes(struct side *side, u64 base)
{
	for (u32 p = 0; p < 2; p++)
		side->plane[p] = (struct kvmm_plane){ base + p * NR * PIECE, PIECE, PIECE };
	side->planes = (struct kv_planes){ side->plane, 2 };
}

static u64 at(const struct side *side, u32 plane, u32 block)
{
	return side->plane[plane].base + block * PIECE;
}

static bool is_idle(const struct place *place)
{
	return !place->nr_readers && !place->writer;
}

static void compare(struct actor *a, const struct side *side, u32 block, const u8 *buf)
{
	if (!has_bytes(buf, BYTES, side->place[block].content))
		wrong("%s block %u", side == &a->side[0] ? "device" : "host", block);
}

/* ---- at once ---- */

static void write_one(struct actor *a, u32 block)
{
	struct place *place = &a->side[0].place[block];
	u8 buf[BYTES];

	if (!is_idle(place))
		return;
	place->content = below(&a->dice, 1000);
	place->is_known = true;
	fill_bytes(buf, BYTES, place->content);
	for (u32 p = 0; p < 2; p++)
		if (ops->write(a->dev, at(&a->side[0], p, block), buf + p * PIECE, PIECE))
			place->is_known = false;
}

static void read_one(struct actor *a, u32 block)
{
	struct place *place = &a->side[0].place[block];
	u8 buf[BYTES];

	if (place->writer || !place->is_known)
		return;
	for (u32 p = 0; p < 2; p++)
		if (ops->read(a->dev, at(&a->side[0], p, block), buf + p * PIECE, PIECE))
			return;
	compare(a, &a->side[0], block, buf);
}

static void look_at_host(struct actor *a, u32 block)
{
	struct place *place = &a->side[1].place[block];
	u8 buf[BYTES];

	if (place->writer || !place->is_known)
		return;
	for (u32 p = 0; p < 2; p++)
		memcpy(buf + p * PIECE, (void *)at(&a->side[1], p, block), PIECE);
	compare(a, &a->side[1], block, buf);
}

static void sum_one(struct actor *a, u32 block)
{
	struct place *place = &a->side[0].place[block];
	struct kv_fence none = { 0 };
	u64 sum, want;
	u8 buf[BYTES];

	if (place->writer || !place->is_known ||
	    ops->sum_blocks(a->dev, &a->side[0].planes, block, 1, none, &sum))
		return;
	fill_bytes(buf, BYTES, place->content);
	want = kv_sum_piece(buf, PIECE, 0) + kv_sum_piece(buf + PIECE, PIECE, kv_sum_words(PIECE));
	if (sum != want)
		wrong("sum of block %u", block);
}

/* ---- under way ---- */

static struct pending *free_pending(struct actor *a)
{
	for (u32 i = 0; i < NR_PENDING; i++)
		if (!a->pending[i].is_used)
			return &a->pending[i];
	return NULL;
}

static int submit(struct actor *a, struct pending *new, struct kv_fence after)
{
	const struct kv_move move = { new->src, new->dst, 1 };
	struct kv_copy copy = {
		.src = new->from->planes, .dst = new->to->planes, .moves = &move, .nr = 1,
		.dir = new->to == &a->side[1] ? KV_COPY_TO_HOST :
		       new->from == &a->side[1] ? KV_COPY_TO_DEVICE : KV_COPY_LOCAL,
		.flags = a->host.is_mapped ? KV_COPY_MAPPED : 0, .after = after,
	};

	ops->tune(a->dev, KV_KNOB_PATH, below(&a->dice, KV_NR_PATHS));
	return ops->copy_blocks(a->dev, &copy, &new->fence);
}

/* From where content is, or will be if the copy goes behind the one that brings it. */
static void begin_copy(struct actor *a)
{
	struct pending *new = free_pending(a);
	struct kv_fence after = { 0 };
	struct place *src, *dst;
	u32 sides = below(&a->dice, 3);		/* not from the host to the host */

	if (!new)
		return;
	*new = (struct pending){ .from = &a->side[sides == 1], .to = &a->side[sides == 2],
				 .src = below(&a->dice, NR), .dst = below(&a->dice, NR) };
	src = &new->from->place[new->src];
	dst = &new->to->place[new->dst];
	if (src == dst || !is_idle(dst))
		return;
	new->content = src->writer ? src->writer->content : src->content;
	new->is_known = src->writer ? src->writer->is_known : src->is_known;
	if (src->writer)
		after = src->writer->fence;
	if (submit(a, new, after))
		return;
	new->is_used = true;
	src->nr_readers++;
	dst->writer = new;
	dst->is_known = false;
}

static int ask(struct actor *a, struct kv_fence fence)
{
	int err = -EAGAIN;

	switch (below(&a->dice, 2)) {
	case 0:
		for (u32 i = 0; i < 200 && err == -EAGAIN; i++)
			err = ops->poll(a->dev, fence);
		return err == -EAGAIN ? ops->wait(a->dev, fence) : err;
	default:
		return ops->wait(a->dev, fence);
	}
}

static void end_copy(struct pending *p, int status)
{
	struct place *dst = &p->to->place[p->dst];

	dst->writer = NULL;
	dst->content = p->content;
	dst->is_known = !status && p->is_known;
	p->from->place[p->src].nr_readers--;
	p->is_used = false;
}

/* One alone, or all of them by one fence: if that is good, they are. */
static void end_copies(struct actor *a, bool joined)
{
	struct kv_fence fence[NR_PENDING], all;
	u32 first = below(&a->dice, NR_PENDING), nr = 0;
	int good = -EIO;

	for (u32 i = 0; i < NR_PENDING; i++)
		if (a->pending[i].is_used)
			fence[nr++] = a->pending[i].fence;
	if (joined && !ops->join(a->dev, fence, nr, &all))
		good = ask(a, all);
	for (u32 i = 0; i < NR_PENDING; i++) {
		struct pending *p = &a->pending[(first + i) % NR_PENDING];

		if (!p->is_used)
			continue;
		end_copy(p, good ? ask(a, p->fence) : 0);
		if (!joined)
			return;
	}
}

static void act(struct actor *a)
{
	u32 block = below(&a->dice, NR);

	switch (below(&a->dice, 12)) {
	case 0: case 1:
		write_one(a, block);
		break;
	case 2:
		read_one(a, block);
		break;
	case 3:
		look_at_host(a, block);
		break;
	case 4:
		sum_one(a, block);
		break;
	case 6: case 7:
		end_copies(a, false);
		break;
	case 8:
		end_copies(a, true);
		break;
	default:
		begin_copy(a);
	}
	if (ops->sees_end(a->dev) == -EAGAIN)
		ops->sees_end(a->dev);
}

static void *act_all(void *arg)
{
	for (u32 i = 0; i < NR_OPS; i++)
		act(arg);
	return NULL;
}

/* ---- the scene ---- */

static int make_actor(struct actor *a, struct kv_dev *dev, u64 seed)
{
	*a = (struct actor){ .dev = dev, .dice = { seed } };
	if (ops->alloc(dev, NR * BYTES, &a->addr) ||
	    ops->host_alloc(dev, NR * BYTES, -1, &a->host))
		return -ENOMEM;
	set_planes(&a->side[0], a->addr);
	set_planes(&a->side[1], (uintptr_t)a->host.ptr);
	for (u32 b = 0; b < NR; b++)
		write_one(a, b);
	return 0;
}

/* With a driver that works again. */
static void end_actor(struct actor *a)
{
	end_copies(a, true);
	for (u32 b = 0; b < NR; b++) {
		read_one(a, b);
		look_at_host(a, b);
	}
	ops->host_free(a->dev, &a->host);
	if (a->addr)
		ops->free(a->dev, a->addr, NR * BYTES);
}

void copy_scene(struct dice *dice)
{
	u32 nr = below(dice, 2) ? 1 : NR_ACTORS;
	pthread_t thread[NR_ACTORS];
	struct actor actor[NR_ACTORS];
	struct kv_dev *dev;

	if (ops->open(0, &dev)) {
		wrong("the device does not open");
		return;
	}
	for (u32 i = 0; i < nr; i++)
		if (make_actor(&actor[i], dev, below(dice, UINT32_MAX)))
			wrong("there is no memory");
	attack();
	for (u32 i = 1; i < nr; i++)
		pthread_create(&thread[i], NULL, act_all, &actor[i]);
	act_all(&actor[0]);
	for (u32 i = 1; i < nr; i++)
		pthread_join(thread[i], NULL);
	relent();
	for (u32 i = 0; i < 4 && ops->sees_end(dev) == -EAGAIN; i++)
		;
	for (u32 i = 0; i < nr; i++)
		end_actor(&actor[i]);
	ops->close(dev);
}
