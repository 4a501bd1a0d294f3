/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_STAT_TIERS_H
#define TOOLS_STAT_TIERS_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_LAYOUTS	64u

/* Records of one layout. */
struct layout {
	uint8_t id[16];
	uint64_t nr_records;
	uint64_t bytes;
};

/* A disk tier as it is on disk. */
struct tier_seen {
	const char *path;
	int err;			/* 0: it could be read */
	uint64_t max_bytes;
	uint64_t file_bytes;
	uint64_t written;		/* times */
	uint64_t nr_records;
	uint64_t bytes;			/* payload */
	uint64_t first_generation;	/* of names; if there are records */
	uint64_t last_generation;
	uint64_t first_use;		/* of segments */
	uint64_t last_use;
	uint32_t segment_bytes;
	uint32_t nr_sealed;
	uint32_t nr_open;
	uint32_t nr_empty;
	uint32_t nr_reused;		/* while they were looked at */
	uint32_t nr_layouts;		/* in ->layout; others are in ->other */
	struct layout layout[MAX_LAYOUTS];
	struct layout other;
};

/* Look at each of these, and print: an exit code. */
int stat_tiers(const char *const *paths, unsigned int nr, bool json);

#endif /* TOOLS_STAT_TIERS_H */
