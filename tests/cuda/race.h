/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that works on blocks while they move, go and come, and a list of rules of which one may be
 * broken: what the files of the race test share. race.c breaks rules and counts what is noticed,
 * race_engine.c works in steps, race_things.c holds blocks, race_moves.c moves them.
 */
#ifndef TEST_CUDA_RACE_H
#define TEST_CUDA_RACE_H

#include <string.h>

#include <kv/cuda.h>
#include <kv/kcu.h>
#include <kvmm/kvmm.h>

#include "swcuda/control.h"

#define NR_BLOCKS	64u
#define BYTES		256u
#define NR_LANES	3u		/* the last one keeps tables */
#define NR_THINGS	20u
#define MAX_LEN		8u
#define NR_KEYS		32u
#define NR_OUTS		256u

/* Rules of Documentation/steps.rst; which one is broken. */
enum rule {
	ALL_RULES,
	COPY_WAITS,		/* 1: the copy, for an event on each of the engine's streams */
	PUBLISH_WAITS,		/* 2: beside steps, places, until the copy has ended */
	STREAMS_WAIT,		/* 2: between steps, the streams for the copy */
	REUSE_WAITS,		/* 3: old places, until steps of earlier epochs have passed */
	TABLES_ARE_READ,	/* 3: who acknowledges has read */
	WORK_IN_STEPS,		/* 3: nothing is done on blocks after the end of a step */
	SEALED_IS_SEALED,	/* 4: of ranges */
	NAMED_IS_SEALED,	/* 4: of registered blocks */
	COPIED_IS_KEPT,		/* 5: what is given back under a copy, until that has ended */
	PINNED_STAYS,		/* 6: also if its copy has begun */
	TOLD_IS_PINNED,		/* 6: who gives an address away pins it */
	QUIET_FOR_GRAPHS,	/* 10: nothing moves while addresses are captured */
	GONE_IS_UNREAD,		/* 11: memory is given back when no step can read it */
	NR_RULES,
};

struct told {			/* where a thing lies, as a lane believes */
	u32 nr;
	u32 block[MAX_LEN];
};

struct lane {
	kcu_stream stream;
	kvmm_stream_t id;
	bool tables;
	bool open;
	bool ended;		/* too early: WORK_IN_STEPS is broken */
	uint64_t epoch;
	struct told told[NR_THINGS];
};

enum kind { NONE, RANGE, PRIVATE, NAMED };

struct thing {
	enum kind kind;
	u32 owner;		/* the lane that writes it */
	u32 nr, sealed;
	u32 key;		/* of one block */
	kvmm_range_t range;
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	u8 value[MAX_LEN];	/* 0: never written */
	bool pinned;		/* the copier outside knows where it lies */
	u32 pin_type;
	struct told bare;
};

enum op {
	STEP, THING, PIN, GRAPH, MOVE, DIRECT, ELASTIC, PACE, SUMS, TICK, POLL, CANCEL, DEVICE, LOOK,
	NR_OPS,
};

struct world {
	enum rule broken;
	struct kvmm_pool *pool;
	kcu_deviceptr base;
	struct lane lane[NR_LANES];
	kcu_stream copier;	/* reads what is pinned, in no step */
	kcu_stream stranger;	/* writes what was given back */
	struct thing thing[NR_THINGS];
	bool quiet;		/* a graph is being captured */
	u8 *out;
	u8 expected[NR_OUTS];
	u32 nr_out;
	u8 next_value;
	u64 nr_wrong;		/* bytes, and answers */
	u64 nr_ops[NR_OPS];
	u64 nr_started[KVMM_NR_GOALS];
	u64 nr_dropped;
	u64 nr_private_moved;
	bool has_unit[NR_BLOCKS];	/* the stranger: told of, and not handed back */
};

extern struct kcu cu;
extern const struct kvmm_swcuda_control *ctl;
extern struct world w;

u32 below(u32 n);
bool one_in(u32 n);

/* Ends the program: the driver does not refuse what is asked for here. */
void must(int rc, const char *what);
#define MUST(call)	must((int)(call), #call)

/* The library may not answer that. */
void expect(bool good, const char *what, int ret);

/* ---- race_engine.c ---- */

void engine_init(void);
void engine_exit(void);
void order_streams(void);	/* all given so far comes before all that is given from now on */
void check_outs(void);
void tell(struct lane *lane, u32 k);
void read_tables(struct lane *lane);
void do_step(void);
void do_pin(void);
void do_graph(void);
void unpin(struct thing *thing);
void write_all(u32 k);

/* ---- race_things.c ---- */

void do_thing(void);
u8 value_of_key(u32 key);
void give_back(u32 k);

/* ---- race_moves.c ---- */

void do_move(void);
void do_direct(void);
void do_elastic(void);
void do_pace(void);
void do_sums(void);
void do_tick(void);
void do_cancel(void);
void have_all_again(void);

#endif /* TEST_CUDA_RACE_H */
