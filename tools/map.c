// SPDX-License-Identifier: Apache-2.0
/* A pool as a line of characters, of the map that the library tells. */
#include <errno.h>
#include <stdlib.h>

#include <kvmm/ext/inspect.h>
#include <kvmm/pool.h>

#include "map.h"

enum look { FREE, HELD, CACHED, PINNED, AWAY, NR_LOOKS };

static enum look look_of(const struct kvmm_map_run *run)
{
	switch (run->state) {
	case KVMM_MAP_FREE: case KVMM_MAP_RESERVED: case KVMM_MAP_ASIDE:
		return FREE;
	case KVMM_MAP_RANGE:
		return run->flags & KVMM_MAP_PINNED ? PINNED : HELD;
	case KVMM_MAP_CACHED:
		return CACHED;
	case KVMM_MAP_AWAY:
		return AWAY;
	default:
		return HELD;
	}
}

/* "Half" is between a third and two thirds. */
static char letter_of(const uint32_t nr[NR_LOOKS])
{
	uint64_t held = (uint64_t)nr[HELD] + nr[CACHED], all = held + nr[FREE] + nr[AWAY];

	if (nr[PINNED])
		return 'P';
	if (nr[AWAY] == all)
		return '-';
	if (!held)
		return ' ';
	if (held == nr[CACHED])
		return 'c';
	if (held == all)
		return '@';
	if (3 * held < all)
		return '.';
	return 3 * held <= 2 * all ? ':' : '#';
}

/* A look for each block: 0 or -errno. */
static int read_looks(struct kvmm_pool *pool, uint8_t *look, uint64_t nr_blocks)
{
	struct kvmm_map_run runs[64];
	uint32_t at = 0;
	int nr;

	while ((nr = kvmm_map_read(pool, &at, 0, runs, 64)) > 0)
		for (int i = 0; i < nr; i++)
			for (uint32_t b = 0; b < runs[i].nr && runs[i].first + b < nr_blocks; b++)
				look[runs[i].first + b] = look_of(&runs[i]);
	return nr;
}

/* With more parts than blocks a block is seen in several of them. */
int pool_map(struct kvmm_pool *pool, char *buf, unsigned int width)
{
	struct kvmm_pool_stat stat;
	uint64_t nr_blocks;
	uint8_t *look;
	int err = kvmm_pool_peek(pool, &stat);

	if (err)
		return err;
	nr_blocks = (uint64_t)stat.nr_blocks + stat.nr_state[KVMM_BLOCK_NULL];
	look = calloc(nr_blocks, 1);
	err = look ? read_looks(pool, look, nr_blocks) : -ENOMEM;
	for (unsigned int i = 0; !err && i < width; i++) {
		uint64_t from = i * nr_blocks / width, to = (i + 1) * nr_blocks / width;
		uint32_t nr[NR_LOOKS] = { 0 };

		for (uint64_t block = from; block == from || block < to; block++)
			nr[look[block]]++;
		buf[i] = letter_of(nr);
	}
	buf[width] = '\0';
	free(look);
	return err;
}
