// SPDX-License-Identifier: Apache-2.0
/*
 * A pool from a picture, by public calls only.
 *
 * Nobody can say where the blocks of an allocation are to lie. So a filler holds everything at first
 * and gives up its front, run by run: that is then the only hole there is, and whatever is taken next
 * lies there. What the picture leaves free is held too, until the end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct painter {
	struct kvmm_testing *t;
	struct kvmm_pool *pool;
	struct kvmm_testing_painted *paint;
	kvmm_range_t *hole;		/* ours; room for one a block */
	uint32_t nr_holes;
	kvmm_range_t filler;
	uint32_t at, end;		/* first block not painted, one behind the last */
	uint32_t started;		/* bit by letter */
};

static int take_range(struct painter *p, uint32_t nr, uint64_t seq, kvmm_range_t *range)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .max_runs = 1, .seq = seq };

	return kvmm_range_alloc_attr(p->pool, &attr, range);
}

static int paint_range(struct painter *p, char letter, uint32_t nr)
{
	kvmm_range_t *range = &p->paint->range[letter - 'a'];
	uint32_t bit = 1u << (letter - 'a');

	if (p->started & bit)
		return kvmm_range_grow(p->pool, *range, nr);
	p->started |= bit;
	return take_range(p, nr, letter, range);
}

/* One private block, which lies where the next one is to be; then what the letter says. */
static int paint_block(struct painter *p, char letter, uint32_t block)
{
	kvmm_key_t key = kvmm_testing_key(block);
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	int err = kvmm_alloc(p->pool, 1, &mut);

	if (err)
		return err;
	if (letter == 'P') {
		p->paint->mut[block] = mut;
		return 0;
	}
	err = kvmm_register(p->pool, &mut, &key, 1, &ref);
	if (err)
		return err;
	if (letter == 'I')
		return kvmm_put_many(p->pool, &ref, 1);
	p->paint->ref[block] = ref;
	return 0;
}

/* The filler's first @nr blocks are free from here on. */
static int make_hole(struct painter *p, uint32_t nr)
{
	if (p->at + nr < p->end)
		return kvmm_range_shrink_front(p->pool, p->filler, nr);
	return kvmm_range_free(p->pool, p->filler);
}

static int paint_letter(struct painter *p, char letter, uint32_t nr)
{
	int err;

	if (letter >= 'a' && letter <= 'z') {
		err = make_hole(p, nr);
		return err ? err : paint_range(p, letter, nr);
	}
	if (letter == '.') {
		err = make_hole(p, nr);
		return err ? err : take_range(p, nr, 0, &p->hole[p->nr_holes++]);
	}
	return make_hole(p, 1) ? : paint_block(p, letter, p->at);
}

/* As many letters as can be painted in one go. */
static uint32_t run_length(const char *picture)
{
	char letter[] = { *picture, '\0' };

	return strchr("API", *picture) ? 1 : strspn(picture, letter);
}

static int paint_all(struct painter *p, const char *picture)
{
	int err = take_range(p, p->end - p->at, 0, &p->filler);

	while (!err && p->at < p->end) {
		uint32_t nr = run_length(picture + p->at);

		err = paint_letter(p, picture[p->at], nr);
		p->at += nr;
	}
	while (!err && p->nr_holes)
		err = kvmm_range_free(p->pool, p->hole[--p->nr_holes]);
	return err;
}

/* Empty, and of the picture's length; 'N' just where the null block is. */
static int check_picture(struct kvmm_pool *pool, const char *picture)
{
	struct kvmm_pool_stat stat;
	int err = kvmm_pool_get_stat(pool, &stat);
	uint32_t has_null;

	if (err)
		return err;
	has_null = stat.nr_state[KVMM_BLOCK_NULL];
	if (stat.nr_free != stat.nr_blocks || !*picture ||
	    strlen(picture) != stat.nr_blocks + has_null || (picture[0] == 'N') != has_null)
		return -EINVAL;
	return picture[has_null + strspn(picture + has_null, ".APIabcdefghijklmnopqrstuvwxyz")] ?
	       -EINVAL : 0;
}

static int alloc_painter(struct painter *p, size_t nr)
{
	p->hole = calloc(nr, sizeof(*p->hole));
	p->paint->ref = bench_alloc(p->t, nr, sizeof(*p->paint->ref));
	p->paint->mut = bench_alloc(p->t, nr, sizeof(*p->paint->mut));
	return p->hole && p->paint->ref && p->paint->mut ? 0 : -ENOMEM;
}

int kvmm_testing_paint(struct kvmm_testing *t, struct kvmm_pool *pool, const char *picture,
		       struct kvmm_testing_painted *paint)
{
	struct kvmm_testing_painted nobodys;
	struct painter p = { .t = t, .pool = pool, .paint = paint ? paint : &nobodys,
			     .at = picture[0] == 'N', .end = strlen(picture) };
	int err = check_picture(pool, picture);

	memset(p.paint, 0, sizeof(*p.paint));
	if (!err)
		err = alloc_painter(&p, p.end);
	if (!err && p.at < p.end)
		err = paint_all(&p, picture);
	free(p.hole);
	if (err)
		return bench_fail(t, err, "block %u of \"%s\"", p.at, picture);
	if (!paint)
		kvmm_testing_forget_held(t, pool);
	return 0;
}
