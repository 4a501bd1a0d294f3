/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software driver inside.
 *
 * One lock guards everything that is not marked otherwise: an exported call takes it in
 * sw_enter() and lets go in sw_leave(). It is dropped while a host function runs, and in threaded
 * mode while bytes are moved; the stream is `busy` then, and its first operation belongs to whoever
 * made it so.
 */
#ifndef SWCUDA_INTERNAL_H
#define SWCUDA_INTERNAL_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "everyday.h"

#define SW_MAX_DEVICES		8
#define SW_MAX_FAULTS		32
#define SW_NR_SLOTS		128		/* clocks: the host's and one for each stream */
#define SW_HOST_SLOT		0
#define SW_MAX_REPORTS		64
#define SW_REPORT_BYTES		224
#define SW_PAGE			4096ull
#define SW_GRANULE		(2ull << 20)
#define SW_POISON_NEW		0xc5		/* memory that nobody has written */
#define SW_POISON_FREED		0xdb		/* memory that was freed while in use */

#define SW_EXPORT		__attribute__((visibility("default")))

/* ---- The exported calls ---- */

/* A definition whose type is not the one that is listed does not compile. */
#define SW_DECLARE(field, name, type, version)	extern SW_EXPORT __typeof__(*(type)0) name;
SW_ALL(SW_DECLARE)

#define SW_CALL_ID(field, name, type, version)	SW_##name,
enum sw_call { SW_ALL(SW_CALL_ID) SW_NR_CALLS };

enum sw_need {
	SW_ANYTIME	= 0,
	SW_INIT		= BIT(0),	/* after cuInit() */
	SW_CTX		= BIT(1),	/* with a current context that is sound */
	SW_UNSAFE	= BIT(2),	/* not while a stream captures */
};

kcu_result sw_enter(enum sw_call call, u32 need);
kcu_result sw_leave(kcu_result rc);

#define SW_RUN(name, need, expr)						\
	({									\
		kcu_result __rc = sw_enter(SW_##name, need);			\
		__rc ? __rc : sw_leave(expr);					\
	})

int sw_call_version(u32 call);
int sw_call_find(const char *name, u32 len);		/* -ENOENT */
void sw_callback_begin(void);
void sw_callback_end(void);
void sw_hide_missing(void);

/* ---- Options, faults ---- */

struct sw_fault {
	int call;			/* -1: any, and nth counts all calls */
	u64 nth;			/* from the start of the library */
	u32 per_mille;			/* instead of nth */
	kcu_result code;
	bool persistent, async;
};

struct sw_options {
	u64 seed;
	u32 nr_devices;
	u64 mem_bytes, va_bytes, oom_bytes;
	int driver, cc;
	u32 latency_us, gbps, gbps_local;
	u32 illegal;			/* launch that is the last one */
	kcu_result jit;
	bool threads, sleep, slow, eager, poison, peers, vmm, check_exit, default_stream;
	bool missing[SW_NR_CALLS];	/* neither exported nor found by cuGetProcAddress() */
	bool hidden[SW_NR_CALLS];	/* found by cuGetProcAddress() alone */
	struct sw_fault fault[SW_MAX_FAULTS];
	u32 nr_faults;
};

/* Returns 0, or -EINVAL with the reason in @msg. */
int sw_options_parse(struct sw_options *opt, const char *text, char *msg, size_t bytes);
bool sw_fault_is_good(const struct sw_fault *fault);
kcu_result sw_fault_now(enum sw_call call);		/* counts the call */
kcu_result sw_fault_async(enum sw_call call);		/* of the call that was counted last */

/* ---- Sets of addresses ---- */

struct sw_span {
	u64 addr, bytes;
};

/* Sorted by address, without overlaps. Does not own what it points at. */
struct sw_spans {
	struct sw_span **at;
	u32 nr, room;
};

u32 sw_span_after(const struct sw_spans *set, u64 addr);	/* first that ends behind addr */
struct sw_span *sw_span_at(const struct sw_spans *set, u64 addr);
struct sw_span *sw_span_overlap(const struct sw_spans *set, u64 addr, u64 bytes);
int sw_span_add(struct sw_spans *set, struct sw_span *span);
void sw_span_del(struct sw_spans *set, struct sw_span *span);

/* Free space of an address space; first fit. */
struct sw_space {
	struct sw_spans free;
	u64 nr_free;
};

int sw_space_init(struct sw_space *space, u64 addr, u64 bytes);
void sw_space_exit(struct sw_space *space);
int sw_space_take(struct sw_space *space, u64 bytes, u64 align, u64 *addr);	/* -ENOSPC */
void sw_space_give(struct sw_space *space, u64 addr, u64 bytes);

/* ---- Opaque handles: numbers that point nowhere and go stale ---- */

enum sw_type { SW_T_CONTEXT = 1, SW_T_STREAM, SW_T_EVENT, SW_T_MODULE, SW_T_FUNCTION, SW_T_MEM };

u64 sw_object_add(enum sw_type type, void *object);	/* 0: no memory */
void *sw_object(enum sw_type type, u64 handle);		/* NULL: not one, or not any more */
void sw_object_del(u64 handle);
void sw_for_each_object(void (*fn)(enum sw_type type, void *object));	/* fn may delete it */
void sw_objects_exit(void);

/* ---- Devices ---- */

struct sw_dev {
	int ordinal;
	int memfd;			/* -1: no context yet */
	struct sw_space phys;		/* offsets in memfd */
	u64 used_bytes;
	u32 nr_retained;
	u64 context;			/* handle, 0: none */
	kcu_result sticky;		/* every call returns it */
	kcu_result pending;		/* the next call returns it */
	u64 engine_ns[3];		/* when the engine is free: local, in, out */
	u32 peers;			/* bit: its context may touch that device */
	struct sw_stream *legacy;	/* the NULL stream; NULL: nothing was put there yet */
};

kcu_result sw_dev_open(struct sw_dev *dev);
void sw_dev_close(struct sw_dev *dev);
struct sw_dev *sw_current(void);	/* device of the current context, or NULL */
void sw_dev_fail(struct sw_dev *dev, kcu_result code);	/* an operation came to grief */
kcu_result sw_dev_error(struct sw_dev *dev);
kcu_result sw_lose(struct sw_dev *dev, kcu_result code);
void sw_contexts_forget(void);

/* ---- Memory ---- */

/* Physical memory. Lives as long as a handle, a mapping or an allocation refers to it. */
struct sw_backing {
	struct sw_dev *dev;
	int fd;				/* the device's memfd, or one of its own */
	u64 fd_offset;
	u64 phys, bytes;		/* part of dev->phys; foreign: shadow address only */
	u32 refs, nr_maps;
	u64 inode;			/* of its own memfd, 0: none */
	bool foreign;			/* another process's memory */
	struct sw_mem *handle;		/* NULL: released */
};

struct sw_mem {				/* what a kcu_mem_handle stands for */
	struct sw_backing *backing;
	u64 handle;
	u32 refs;
	u32 handle_types;
};

enum sw_region_kind { SW_ALLOC, SW_RESERVED, SW_HOST_ALLOC, SW_HOST_REGISTERED };

struct sw_region {			/* what an address was handed out for */
	struct sw_span span;		/* first */
	u64 room;			/* of the address space, with the guard behind it */
	enum sw_region_kind kind;
	struct sw_dev *dev;
	struct sw_backing *backing;	/* SW_ALLOC */
	u64 id;
	u32 flags;
};

struct sw_mapping {
	struct sw_span span;		/* first */
	struct sw_backing *backing;
	u8 access[SW_MAX_DEVICES];	/* enum kcu_access */
};

int sw_backing_create(struct sw_dev *dev, u64 bytes, u64 align, bool own_fd,
		      struct sw_backing **backing);
void sw_backing_put(struct sw_backing *backing);
int sw_map_fixed(u64 addr, u64 bytes, const struct sw_backing *backing, int prot);
void sw_map_nothing(u64 addr, u64 bytes);
struct sw_region *sw_region_at(u64 addr);
struct sw_mapping *sw_mapping_at(u64 addr);
bool sw_is_device(u64 addr);
/* May work of @dev touch this? Memory that nobody has told the driver of does not count. */
bool sw_may_touch(const struct sw_dev *dev, u64 addr, u64 bytes, bool write);
/* Calls @fn for each stretch with its place in the shadow: one for aliases of one memory. */
typedef void (*sw_place_fn)(void *arg, u64 place, u64 bytes);
void sw_for_each_place(u64 addr, u64 bytes, sw_place_fn fn, void *arg);
struct sw_mem *sw_mem_new(struct sw_backing *backing, u32 handle_types);
void sw_memory_exit(void);
void sw_vmm_exit(void);

/* ---- Ordering ---- */

struct sw_clock {
	u32 t[SW_NR_SLOTS];
};

static inline void sw_clock_join(struct sw_clock *clock, const struct sw_clock *other)
{
	for (u32 i = 0; i < SW_NR_SLOTS; i++)
		clock->t[i] = max(clock->t[i], other->t[i]);
}

/* One recording of an event. Waiters keep theirs when the event is recorded again. */
struct sw_record {
	u32 refs;
	bool done;
	u64 ns;
	struct sw_clock clock;		/* valid when done */
};

struct sw_op;
struct sw_stream {
	u64 handle;
	struct sw_dev *dev;
	u32 slot;			/* in clocks; 0: gone */
	u32 id;
	struct sw_op *first, **last;	/* queue */
	bool busy;			/* somebody executes the first one without the lock */
	bool dying;			/* destroyed, with work left */
	bool ordered;			/* the NULL stream waits for all that is queued */
	u32 nr_waiters;			/* it stays for them */
	u32 flags;
	int priority;
	kcu_capture_status capture;
	struct sw_clock clock;
	u64 ns;				/* virtual time of what was executed last */
	pthread_t thread;		/* threaded mode */
	bool has_thread;		/* that has not ended */
	bool joined;			/* somebody waits for its end */
};

struct sw_event {
	u64 handle;
	struct sw_dev *dev;
	u32 flags;
	bool captured;
	struct sw_record *record;	/* the latest; NULL: never recorded */
};

/* What a kind of operation does; all but step() with the lock held. */
struct sw_op_ops {
	const char *name;
	bool (*ready)(struct sw_op *op);	/* NULL: always */
	/* Names all memory that it reads and writes, by sw_touch(); NULL: none. */
	void (*touch)(struct sw_op *op, struct sw_access_list *list);
	bool (*step)(struct sw_op *op);		/* one piece; true: that was the last */
	void (*drop)(struct sw_op *op);		/* frees what it owns; NULL: nothing */
};

struct sw_op {
	const struct sw_op_ops *ops;
	struct sw_op *next;
	struct sw_stream *stream;
	const char *what;		/* for reports */
	u64 seq;
	u64 queued_ns, cost_ns;
	bool cost_by_bytes;		/* more for what it writes, known when it begins */
	int engine;			/* of dev->engine_ns, -1: none */
	kcu_result fault;		/* it ends with this when it runs */
	bool begun;
	struct sw_clock host;		/* what the host had seen when it was queued */
};

kcu_result sw_stream_get(kcu_stream handle, struct sw_stream **stream);
/* The same, but it must be of the current context. */
kcu_result sw_stream_here(kcu_stream handle, struct sw_stream **stream);
kcu_result sw_stream_finish(kcu_stream handle);		/* waits; drops and retakes the lock */
/* The NULL stream of the current context, made on first use; NULL: no memory. */
struct sw_stream *sw_stream_legacy(void);
void sw_stream_reap(struct sw_stream *stream);		/* frees it if it is dying and done */
/* Takes the operation; frees it on failure and while the stream captures. */
kcu_result sw_queue(struct sw_stream *stream, struct sw_op *op, enum sw_call call);
/* The same without what the NULL stream and blocking streams have to wait for. */
void sw_append(struct sw_stream *stream, struct sw_op *op);
/* What is queued on @later from here on comes after what is on @earlier now; -ENOMEM. */
int sw_order(struct sw_stream *later, struct sw_stream *earlier);
void *sw_op_new(const struct sw_op_ops *ops, size_t bytes);
void sw_op_free(struct sw_op *op);
u64 sw_copy_ns(u64 bytes, u32 gbps);
struct sw_stream *sw_capturing(void);
void sw_events_exit(void);
void sw_streams_exit(void);

bool sw_step(void);			/* one piece of some stream; false: nothing can run */
void sw_steps(u32 nr);
/* Lets work run until @done; 702 if that cannot come. Drops and retakes the lock. */
kcu_result sw_wait(bool (*done)(void *arg), void *arg);
int sw_worker_start(struct sw_stream *stream);
void sw_changed(void);			/* wakes workers and waiters */
void sw_sched_reset(void);
u64 sw_random(void);
u32 sw_below(u32 n);

/* ---- The checker ---- */

/* Passed through ops->touch(): either checks each access, or looks for one that overlaps. */
struct sw_access_list {
	struct sw_op *op;
	kcu_result rc;			/* of the check */
	u64 find_addr, find_bytes;	/* 0 bytes: check */
	bool found;
	u64 nr_written;			/* bytes */
	bool recheck;			/* checks bounds, declares nothing */
};

/* As seen from the stream's device, from another one. True: it is in reach now. */
bool sw_touch(struct sw_access_list *list, kcu_deviceptr addr, u64 bytes, bool write);
bool sw_touch_as(struct sw_access_list *list, const struct sw_dev *dev, u64 addr, u64 bytes,
		 bool write);
void sw_race_host(u64 addr, u64 bytes, bool write, const char *what);
void sw_race_forget(u64 addr, u64 bytes);
void sw_host_saw(const struct sw_clock *clock, u64 ns);
/* Finds queued operations that touch the range; names one in @text. */
bool sw_in_use(u64 addr, u64 bytes, char *text, size_t text_bytes);
void sw_race_exit(void);

enum sw_text { SW_TEXT_BYTES = 96 };
void sw_log(const char *fmt, ...) __printf(1, 2);
void sw_report(enum sw_report_kind kind, const char *fmt, ...) __printf(2, 3);
u32 sw_nr_reports(enum sw_report_kind kind);
const char *sw_report_text(u32 nr);	/* NULL: not that many are kept */
void sw_reports_clear(void);

/* ---- Modules ---- */

struct sw_function {
	u64 handle;
	char *name;
	u32 *param_bytes;
	u32 nr_params;
	const struct sw_kernel *kernel;
	struct sw_function *next;	/* of the same module */
};

/* Entry points of a PTX text; -EINVAL not PTX, -ENOMEM. */
int sw_ptx_parse(const char *text, struct sw_function **functions);
void sw_functions_free(struct sw_function *fn);
const struct sw_kernel *sw_kernel_find(const char *name);
int sw_kernel_add(const struct sw_kernel *kernel);	/* -ENOSPC; -EEXIST */
void sw_kernels_exit(void);
void sw_program_exit(void);		/* after it: kernels of programs are in its table */
void sw_modules_exit(void);

/* ---- All there is ---- */

struct sw_state {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct sw_options opt;		/* fixed at reset */
	char opt_error[160];		/* fixed at reset; "": none */
	int pid;			/* that called cuInit(), 0: nobody yet */
	u64 rng;
	u64 va_base;
	struct sw_dev dev[SW_MAX_DEVICES];
	struct sw_space va;
	struct sw_spans regions, mappings;
	struct sw_stream *stream[SW_NR_SLOTS];	/* by slot; slot 0 is the host's */
	u32 nr_streams_made;
	u32 last_slot;			/* that was given to a stream */
	struct sw_clock host;
	struct sw_counters count;
	struct sw_live live;
	u64 calls[SW_NR_CALLS], nr_calls;
	u64 next_id, next_foreign;
	void (*log)(void *arg, const char *line);
	void *log_arg;
};

extern struct sw_state sw;

static inline void sw_lock(void)
{
	pthread_mutex_lock(&sw.lock);
}

static inline void sw_unlock(void)
{
	pthread_mutex_unlock(&sw.lock);
}

#endif /* SWCUDA_INTERNAL_H */
