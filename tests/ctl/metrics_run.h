/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of metrics_run: each has pools of its own, works on them, and says what it counted. */
#ifndef KVMM_TESTS_METRICS_RUN_H
#define KVMM_TESTS_METRICS_RUN_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <kv/disk.h>
#include <kv/pool.h>
#include <kvmm/kvmm.h>

#include "tests/support/random.h"

typedef unsigned long long llu;

#define PROMPT_BLOCKS	12u
#define LABELS		"pool=\"%s\",device=\"host\""

void must(int ret, const char *what);
extern u64 run_seed, run_random;
#define any(below)	lcg_of(&run_random, below)

/* The library's time, and what is random for it: in metrics_env.c. */
void env_install(void);
u64 now(void);
void pass(u64 ns);
void random_from(u64 nr);

/* Keys of a prompt, from block @from on. */
void name_keys(u32 prompt, u32 from, u32 nr, kvmm_key_t *keys);

/* Tenant @tenant uses @nr blocks of prompt @number. */
struct prompt {
	u32 number;
	u32 nr;				/* at most PROMPT_BLOCKS */
	u32 tenant;
	kvmm_ref_t ref[PROMPT_BLOCKS];
	u32 nr_fresh;			/* the last ones of @ref */
	u32 nr_evicted;
};

/*
 * References on all of it, those that were not there registered, @acquired (or NULL) in between: as
 * kvmm_acquire(). They are put back with put_prompt().
 */
int use_prompt(struct kvmm_pool *pool, struct prompt *prompt,
	       void (*acquired)(const struct prompt *prompt));
void put_prompt(struct kvmm_pool *pool, const struct prompt *prompt);

/* Names that have gone since the last time, by event; no event may have been lost. */
u32 read_removed(struct kvmm_events *events, struct kvmm_event *removed, u32 max);

/* A pool, and a host tier, of which nothing else is asked. */
struct kvmm_pool *make_pool(const char *name, u32 nr_blocks, u64 block_bytes, const char *policy);
struct kvmm_tier *make_tier(const char *name, u32 nr_units, u64 block_bytes, u32 flags);

/* A sample of a pool, and one of a tier alone; @more: ",label=\"value\"", or "". */
void expect(const char *name, const char *pool, const char *more, u64 number);
void expect_tier(const char *name, const char *tier, u64 number);

/* One for each type of pin. */
void expect_pins(const char *name, const char *pool, const u64 *pins);

/* One of other labels: "name=\"value\",...". */
void expect_labels(const char *name, const char *labels, u64 number);

/* One that is no whole number, or cannot be known to the last digit. */
void expect_between(const char *name, const char *pool, const char *more, double least, double most);

/* A part works on pools of its own, or on none. */
struct part {
	struct kvmm_pool *(*make)(const char *dir);	/* a folder that is there; of its own */
	void (*use)(void);				/* something random */
	void (*expect)(void);
	void (*end)(void);
};

extern const struct part metrics_chain;	/* device, host, disk */
extern const struct part metrics_busy;	/* ranges that grow, pins, steps, moves, promises, who waits */
extern const struct part metrics_slab;	/* slab caches */
extern const struct part metrics_publish;	/* a publisher */
extern const struct part metrics_classes;	/* classes with quotas, pins on cached blocks */
extern const struct part metrics_miss;	/* why lookups end */
extern const struct part metrics_flights;	/* moves beside and between steps, on a device that fails */
extern const struct part metrics_sums;	/* checksums of content that is spoilt */
extern const struct part metrics_lend;	/* memory that is given back */
extern const struct part metrics_tidy;	/* background compaction */
extern const struct part metrics_disk;	/* a disk that fails */
extern const struct part metrics_remote;	/* a server below a tier that fails */
extern const struct part metrics_ebb;	/* copies down and up that fail or take their time */
extern const struct part metrics_flood;	/* more copies than there is room for */
extern const struct part metrics_loop;	/* what is dropped comes back at once */
extern const struct part metrics_room;	/* how room is made, where moving is cheap */
extern const struct part metrics_drop;	/* and where dropping is */
extern const struct part metrics_lodgers;	/* tenants with limits */

#endif
