// SPDX-License-Identifier: Apache-2.0
/* A zone as a picture: the owner that the mover's tests work for. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/defrag/picture.h"

void picture_init(struct picture *pic, const char *cells)
{
	memset(pic, 0, sizeof(*pic));
	pic->nr = strlen(cells);
	strcpy(pic->cell, cells);
	strcpy(pic->content, cells);
}

u32 picture_items(const char *cells, struct kv_item *items, u32 max)
{
	u32 b, nr = 0;

	for (b = 0; cells[b]; b++) {
		if (cells[b] == '.')
			continue;
		if (b && cells[b - 1] == cells[b]) {
			if (nr <= max)
				items[nr - 1].nr++;
			continue;
		}
		if (nr < max)
			items[nr] = (struct kv_item){ .start = b, .nr = 1, .movable = isupper(cells[b]) };
		nr++;
	}
	return nr;
}

static void move_letters(char *cells, const struct kv_move *move)
{
	char letters[PICTURE_MAX];

	memcpy(letters, cells + move->src, move->nr);
	memset(cells + move->src, '.', move->nr);
	memcpy(cells + move->dst, letters, move->nr);
}

void picture_apply(char *cells, const struct kv_plan *plan)
{
	u32 i;

	for (i = 0; i < plan->nr_moves; i++)
		move_letters(cells, &plan->moves[i]);
}

static u32 snapshot(void *owner, struct kv_item *items, u32 max)
{
	struct picture *pic = owner;
	struct kv_item all[PICTURE_MAX];
	u32 nr = picture_items(pic->cell, all, PICTURE_MAX);

	if (nr <= max)
		memcpy(items, all, nr * sizeof(*items));
	return nr;
}

static int isolate(void *owner, const struct kv_move *moves, u32 nr)
{
	struct picture *pic = owner;
	u32 i, b;

	if (pic->nr_stale) {
		pic->nr_stale--;
		return -EAGAIN;
	}
	for (i = 0; i < nr; i++)
		for (b = 0; b < moves[i].nr; b++)
			pic->reserved[moves[i].dst + b] = true;
	pic->moving = true;
	return 0;
}

/* A copy that fails has written all of its destinations half. */
static void spoil(struct picture *pic, const struct kv_move *move)
{
	for (u32 b = 0; b < move->nr; b += 2)
		pic->content[move->dst + b] = '?';
}

static int copy(void *owner, const struct kv_move *moves, u32 nr)
{
	struct picture *pic = owner;
	bool fails = ++pic->nr_copies == pic->fail_copy;

	for (u32 i = 0; i < nr; i++) {
		if (fails)
			spoil(pic, &moves[i]);
		else
			memmove(pic->content + moves[i].dst, pic->content + moves[i].src,
				moves[i].nr);
	}
	return fails ? -EIO : 0;
}

static void commit(void *owner, const struct kv_move *moves, u32 nr, u32 nr_done, bool lost)
{
	struct picture *pic = owner;
	u32 i;

	for (i = 0; i < nr_done; i++)
		move_letters(pic->cell, &moves[i]);
	memset(pic->reserved, 0, sizeof(pic->reserved));
	pic->moving = false;
	pic->lost = lost;
}

const struct kv_movable_ops picture_ops = {
	.snapshot	= snapshot,
	.isolate	= isolate,
	.copy		= copy,
	.commit		= commit,
};

/* ---- random ones ---- */

u32 picture_seed(u32 seed)
{
	const char *env = getenv("KVMM_SEED");

	seed = env ? strtoul(env, NULL, 0) : seed;
	printf("seed %u\n", seed);
	return seed;
}

void picture_random(char *cells, u32 nr, u32 longest, u32 lost_in, u32 pinned_in,
		    u32 *rng)
{
	u32 b = 0, letter = 0, lost = 0;

	memset(cells, '.', nr);
	cells[nr] = '\0';
	while (b < nr && letter < (lost_in ? 16u : 26u) && lost < 10) {
		u32 len = 1 + rand_r(rng) % longest;

		b += rand_r(rng) % 4;
		if (b >= nr)
			break;
		if (lost_in && rand_r(rng) % lost_in == 0) {
			cells[b++] = 'Q' + lost++;
			continue;
		}
		for (char c = (pinned_in && rand_r(rng) % pinned_in == 0 ? 'a' : 'A') + letter++;
		     len && b < nr; len--)
			cells[b++] = c;
	}
}

u32 picture_longest(const char *cells)
{
	u32 nr = 0, longest = 0;

	for (; *cells; cells++) {
		nr = *cells == '.' ? nr + 1 : 0;
		longest = max(longest, nr);
	}
	return longest;
}
