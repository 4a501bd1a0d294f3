/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world of blocks, of streams that use them and of a mover: what the files of the protocol test
 * share. It is in protocol.c how it begins and ends, in protocol_order.c who waits for whom, and in
 * protocol_ops.c what happens in it.
 */
#ifndef TEST_CUDA_PROTOCOL_H
#define TEST_CUDA_PROTOCOL_H

#include <string.h>

#include <kv/cuda.h>
#include <kv/kcu.h>

#include "swcuda/control.h"

#define NR_STREAMS	4
#define NR_PLACES	64
#define NR_BLOCKS	40
#define NR_STAGES	32
#define NR_MARKS	64

#define NR_PLANES	2
#define BLOCK_BYTES	(256 + 96)
#define ARENA_BYTES	(NR_PLACES * (320 + 96))

enum { MOVER = NR_STREAMS, CARRIER, NR_AGENTS };	/* the device's own: moves, transfers */

enum rule { R2 = 2, R3, R4, R5 };

/* Plane p of a block: its bytes from @start on; on the device from @base on, @stride apart. */
struct shape {
	u32 start, bytes, stride, base;
};

extern const struct shape shape[NR_PLANES];
extern const struct kv_dev_ops *const ops;	/* of the soft device */
extern struct kcu cu;
extern const struct kvmm_swcuda_control *ctl;

/*
 * Whatever puts work on a stream. What it was given is counted, so that "the work of agent 2 up to
 * number 17" can be remembered without any event; one is recorded when somebody asks.
 */
struct mark {
	u64 seq;
	struct kv_fence fence;
};

struct agent {
	kcu_stream stream;		/* NULL: the device's own; submissions give fences */
	u64 seq;			/* given so far */
	u64 seen;			/* the host knows that it is complete up to here */
	u64 waited[NR_AGENTS];		/* what it was told to wait for, of each */
	struct mark last;
	struct mark mark[NR_MARKS];	/* by seq % NR_MARKS, of some */
};

struct place {
	u64 content;
	u64 write_seq;			/* 0: nobody needs to be waited for */
	u32 writer;
	bool is_used;			/* a block's, present or future */
	bool is_moved;			/* its writer was the mover */
	u64 read_seq[NR_AGENTS];	/* since the last write */
};

struct block {
	u32 place;			/* KV_NONE: there is no such block */
	u32 next;			/* it is being moved to there, and read here; or KV_NONE */
	u64 version;
	bool is_complete;		/* not written any more */
};

/* A block's worth of pinned memory. */
struct stage {
	u32 agent;
	u64 seq;			/* of who used it last; 0: nobody */
	u64 content;			/* to be found there if is_read */
	bool is_read;
};

enum kind {
	STEP, COPY, TO_HOST, FROM_HOST, BY_HOST, FILL, RELEASE, MOVE, PUBLISH, REAP, LOOK, TUNE,
	NR_KINDS,
};

struct world {
	struct kv_dev *dev;
	kcu_module module;
	kcu_function step;
	u64 arena;
	struct kv_host_mem mem;
	struct kvmm_plane planes[NR_PLANES], stage_planes[NR_PLANES];
	struct agent agent[NR_AGENTS];
	struct place place[NR_PLACES];
	struct block block[NR_BLOCKS];
	struct stage stage[NR_STAGES];
	u32 dropped;			/* enum rule; 0: none */
	u64 nr_dropped;			/* times that it was not obeyed */
	u64 nr_wrong;			/* contents */
	u64 nr_stalls, nr_moved;
	u64 nr_tries;
	bool is_deep;			/* the host neither waits nor asks for a while */
	u64 nr[NR_KINDS];
};

extern struct world world;

u64 mix(u64 x);
u32 below(u32 n);

/* Ends the program: nothing that is asked for here may be refused. */
void must(int rc, const char *what);
#define MUST(call)	must((int)(call), #call)

/* ---- protocol_order.c ---- */

struct needs {
	u64 seq[NR_AGENTS];
};

void need_users(struct needs *needs, const struct place *place);	/* to write it */
void need_content(struct needs *needs, const struct place *place);	/* to read it */
void need_move(struct needs *needs, const struct place *from, const struct place *to);

void stall(struct agent *me, const struct needs *needs);
struct kv_fence join(struct agent *me, const struct needs *needs);
void host_waits(const struct needs *needs);
bool host_sees(u32 id, u64 seq, bool patient);	/* false: not complete, and not patient */

/* Work was put on a stream, or submitted to the device: its number. */
u64 given(struct agent *me);
u64 submitted(struct agent *me, struct kv_fence fence);

bool obeys(enum rule rule);
void note_write(struct place *place, u32 agent, u64 seq, u64 content);
void vacate(struct place *place);

/* ---- protocol_ops.c ---- */

extern const struct sw_kernel step_kernel;
const char *step_text(void);
const char *kind_name(u32 kind);

void one_op(void);			/* tries until one could be done */
void set_path(void);			/* another one, or the same */
void check_piece(const void *from, u64 content, u32 plane);
u8 *stage_at(u32 stage, u32 plane);
bool is_live(const struct block *block);
bool reap(u32 nr, bool patient);	/* looks at what was read into a stage; then it is free */

#endif /* TEST_CUDA_PROTOCOL_H */
