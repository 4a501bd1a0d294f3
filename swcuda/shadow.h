/* SPDX-License-Identifier: Apache-2.0 */
/* What the race checker remembers of each byte. */
#ifndef SWCUDA_SHADOW_H
#define SWCUDA_SHADOW_H

#include "internal.h"

#define SW_CELL_READS	4

struct sw_access {
	const char *what;		/* NULL: none */
	u64 seq;			/* of the operation; 0: the host */
	u32 stream, slot, time;
};

/* Bytes of one page with the same past: the last write and the reads since then. */
struct sw_cell {
	u32 start, end;
	u32 nr_reads;
	struct sw_access write;
	struct sw_access read[SW_CELL_READS];
};

/* A new access, and what it knows to have happened. */
struct sw_look {
	const struct sw_clock *clock;
	bool write;
	struct sw_access access;
};

/* Checks the access against the past of these bytes and adds it to that. */
void sw_shadow_look(u64 place, u64 bytes, const struct sw_look *look);
void sw_shadow_exit(void);

void sw_race_check(const struct sw_cell *cell, const struct sw_look *look, u64 place);
void sw_race_note(struct sw_cell *cell, const struct sw_look *look);

#endif /* SWCUDA_SHADOW_H */
