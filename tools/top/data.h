/* SPDX-License-Identifier: Apache-2.0 */
/* What kvmm-top knows of a pool: one look at it, and the one before. */
#ifndef TOOLS_TOP_DATA_H
#define TOOLS_TOP_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../client/client.h"
#include "history.h"

#define TOP_NAME	64u
#define TOP_WORD	24u
#define TOP_ROWS	64u	/* owners, sequences, holds that are asked for */

/* What is drawn alike. */
enum top_class {
	TOP_FREE, TOP_RANGE, TOP_PINNED, TOP_PRIVATE, TOP_ACTIVE, TOP_CACHED, TOP_MOVING, TOP_AWAY,
	TOP_NR_CLASSES,
};

/* A stretch of blocks. */
struct top_run {
	uint32_t first;
	uint32_t nr;
	uint64_t owner;		/* or, of a range without one, its sequence; 0: neither */
	uint8_t cls;		/* enum top_class */
};

/* An owner, or a sequence. */
struct top_row {
	char id[TOP_WORD];
	char other[TOP_WORD];	/* of a sequence its owner, of an owner how many holds */
	uint64_t blocks;
	uint64_t runs;
	uint64_t pinned;
	uint64_t age_ns;
};

struct top_data {
	char pool[TOP_NAME];
	bool is_named;			/* by the user: another one would not do */
	unsigned int nr_pools;
	unsigned int nr_closed;		/* of them, since they contradict themselves; */
	char closed[TOP_NAME];		/* the first one */
	struct table stat;		/* ours; its numbers as the engine names them */
	struct table before;		/* ours; without a row at first */
	pid_t pid;			/* of the engine that ->stat is of */
	uint64_t now_ns;		/* when ->stat came, */
	uint64_t before_ns;		/* and ->before; 0: there is none */
	struct top_run *run;		/* ours */
	size_t nr_runs;
	size_t room;
	struct top_row owner[TOP_ROWS];
	unsigned int nr_owners;
	struct top_row seq[TOP_ROWS];
	unsigned int nr_seqs;
	struct table tiers;		/* ours; without a row: there is nothing */
	struct table pressure;
	struct table holds;
	struct history history;
};

/*
 * Ask for all of it; @fine: runs with owners, too. 0, or -1 and client->why. @pool NULL, or closed and not
 * ->is_named: the first one, or the next, that is open; ->pool says which.
 */
int top_fetch(struct top_data *data, struct client *client, const char *pool, bool fine);
/* The name of the open pool behind @data->pool goes to @name. */
int top_next_pool(const struct top_data *data, struct client *client, char name[TOP_NAME]);
/* What the engine says of the pool, as one JSON object: 0, or -1 and client->why. */
int top_print_json(struct client *client, const char *pool, FILE *out);
/* Of ->stat, by the name of the column; 0: there is none. */
uint64_t top_number(const struct top_data *data, const char *column);
/* Of a counter of ->stat: a second, since the look before. */
double top_rate(const struct top_data *data, const char *column);
/* Of another engine there is no look before; of another pool there is no history either. */
void top_forget(struct top_data *data);
void top_free(struct top_data *data);

#endif /* TOOLS_TOP_DATA_H */
