/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot of a pool: runs of blocks, from an engine or from a file.
 *
 * The file is text, written by kvmm-dump snapshot; Documentation/tools.rst has the format:
 *
 *	# kvmm-snapshot 1
 *	pool <TAB> NAME			what is known of the pool, a line each
 *	blocks <TAB> 4096
 *	below <TAB> host 0 0 0 17 KEY	a name in a tier below: tenant, group, layout, position, key
 *	...
 *	#first <TAB> count <TAB> ...	names of columns
 *	0 <TAB> 16 <TAB> ...		runs, by address, without gaps
 *	end <TAB> ROWS
 */
#ifndef TOOLS_DUMP_SNAP_H
#define TOOLS_DUMP_SNAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kvmm/ext/inspect.h>
#include <kvmm/pool.h>

#define SNAP_NAME	64u
#define SNAP_KEY	KVMM_KEY_BYTES
#define SNAP_WHY	160u

/* Columns of rows; those that a row has are bits of snap_row.has. */
enum snap_column {
	SNAP_FIRST, SNAP_COUNT, SNAP_STATE, SNAP_FLAGS, SNAP_OWNER, SNAP_CLASS, SNAP_PINS, SNAP_REFS,
	SNAP_AGE, SNAP_SEQ, SNAP_TENANT, SNAP_GROUP, SNAP_LAYOUT, SNAP_POSITION, SNAP_PRIO,
	SNAP_DEADLINE, SNAP_KEYS, SNAP_PARENT, SNAP_INDEX, SNAP_GEN, SNAP_TIERS,
	SNAP_NR_COLUMNS,
};

/* A run of blocks; what it does not have is 0. */
struct snap_row {
	uint32_t has;			/* bits by enum snap_column */
	uint32_t first;
	uint32_t nr;
	uint32_t state;			/* enum kvmm_map_state */
	char flags[8];
	uint64_t owner;
	uint64_t seq;
	uint64_t age_ns;
	uint64_t deadline_ns;
	uint32_t cls;
	uint32_t pins;
	uint32_t refs;
	uint32_t tenant;
	uint32_t group;
	uint32_t layout;
	uint32_t position;
	uint32_t prio;
	uint32_t index;
	uint32_t gen;
	uint32_t tiers;			/* that have the name; a bit each */
	uint8_t key[SNAP_KEY];
	uint8_t parent[SNAP_KEY];
};

/* Names in tiers below the device: no more than that are read. */
#define SNAP_MAX_BELOW	(1u << 22)

enum snap_medium { SNAP_HOST, SNAP_DISK, SNAP_NR_MEDIA };

/* Where a name is besides, or only. */
struct snap_name {
	uint32_t medium;		/* enum snap_medium */
	uint32_t tenant;
	uint32_t group;
	uint32_t layout;
	uint32_t position;
	uint8_t key[SNAP_KEY];
};

struct snap {
	char pool[SNAP_NAME];
	char engine[SNAP_NAME];
	uint32_t nr_blocks;
	uint32_t block_tokens;
	uint64_t block_bytes;
	uint64_t time_ns;		/* of day, when it was begun */
	bool is_closed;			/* the engine's pool contradicts itself; not in files */
	struct snap_row *row;		/* ours */
	size_t nr;
	size_t room;
	struct snap_name *below;	/* ours */
	size_t nr_below;
	size_t room_below;
	char why[SNAP_WHY];		/* what was wrong */
};

static inline bool snap_has(const struct snap_row *row, enum snap_column column)
{
	return row->has & 1u << column;
}

/* Bytes of @nr blocks, so that a pool of ids only has something to show. */
static inline uint64_t snap_bytes(const struct snap *snap, uint32_t nr)
{
	return (snap->block_bytes ? snap->block_bytes : 1) * nr;
}

/* @text ends with a NUL behind its @bytes, and is cut up. 0, or -1 and ->why. */
int snap_parse(struct snap *snap, char *text, size_t bytes);
int snap_read(struct snap *snap, const char *path);
void snap_write(const struct snap *snap, FILE *out);
void snap_free(struct snap *snap);

/* For who fills one: a row whose fields are cells; names as in the file, unknown ones do not matter. */
int snap_add_row(struct snap *snap, const char *const *names, const char *const *cells, unsigned int nr);
/* The same for a name below. */
int snap_add_below(struct snap *snap, const struct snap_name *name);
/* All blocks are there. */
int snap_end(struct snap *snap);

extern const char *const snap_media[SNAP_NR_MEDIA];

int snap_pickle(const struct snap *snap, FILE *out);
/* @all: a box for each name; @max_boxes: those that most names hang on. */
int snap_graphviz(const struct snap *snap, bool all, uint32_t max_boxes, FILE *out);
void snap_summary(const struct snap *snap, bool json, FILE *out);

#endif /* TOOLS_DUMP_SNAP_H */
