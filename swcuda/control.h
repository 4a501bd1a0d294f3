/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How tests steer the software driver: the table behind its symbol `kvmm_swcuda_control`.
 *
 * No call of this table may be made from a host function or while another thread is inside one of
 * them, except for the ones marked "any time".
 */
#ifndef SWCUDA_CONTROL_H
#define SWCUDA_CONTROL_H

#include <kv/kcu.h>

enum sw_report_kind {
	SW_REPORT_RACE,		/* two accesses that nothing orders */
	SW_REPORT_IN_USE,	/* freed or unmapped while queued work still needs it */
	SW_REPORT_ILLEGAL,	/* work touched what it may not */
	SW_REPORT_DEADLOCK,	/* somebody waits and nothing can run */
	SW_REPORT_MISUSE,	/* legal perhaps, never by this library: the NULL stream, ... */
	SW_NR_REPORT_KINDS
};

struct sw_counters {
	u64 nr_steps;		/* pieces of work that were executed */
	u64 nr_ops;		/* operations that were queued */
	u64 nr_done;		/* operations that came to their end, dropped ones included */
	u64 nr_captured;	/* operations that went into a capture and were not executed */
	u64 nr_launches;
	u64 nr_staged;		/* sources that were read when the call was made */
	u64 bytes_copied;
	u64 host_ns;		/* virtual clock of the host */
	u64 trace;		/* hash of all steps: equal seeds and calls, equal traces */
};

struct sw_live {		/* what exists now */
	u32 nr_contexts, nr_streams, nr_events, nr_modules;
	u32 nr_allocs, nr_host, nr_reservations, nr_handles, nr_mappings;
	u64 device_bytes;
};

/* One launch, as a kernel on the host sees it. */
struct sw_grid {
	u32 grid[3];
	u32 block[3];
};

/*
 * Says which memory a launch reads and writes. True: it may be read now, to find out what else.
 * Called again at any time until the launch has run.
 */
struct sw_access_list;
typedef bool (*sw_touch_fn)(struct sw_access_list *list, kcu_deviceptr addr, u64 bytes,
			    bool write);

struct sw_kernel {
	const char *name;		/* of the .entry */
	u32 nr_params;
	/* Runs thread number @thread, counted from 0, x fastest; params[i]: parameter i. */
	void (*run)(const struct sw_kernel *kernel, const struct sw_grid *grid, u64 thread,
		    void **params);
	/* May be NULL: then neither bounds nor races are checked. */
	void (*access)(const struct sw_kernel *kernel, void **params,
		       struct sw_access_list *list, sw_touch_fn touch);
	/* Any one-dimensional grid does the same: a few threads run instead, unless slow=1. */
	bool any_grid;
	const void *data;
};

struct kvmm_swcuda_control {
	u32 bytes;			/* of this table */

	/*
	 * Destroys everything and reads options anew, as if the library were loaded again; NULL:
	 * the environment. Returns 0, or -EINVAL: then cuInit() fails and says what is wrong.
	 */
	int (*reset)(const char *options);
	/* Where messages go; NULL: standard error. Any time. */
	void (*set_log)(void (*log)(void *arg, const char *line), void *arg);
	void (*set_seed)(u64 seed);

	/*
	 * From now on the @nth call (1: the next) of @name, or of any if that is "*", returns
	 * @code, and so do all later ones if @persistent. @async: the call succeeds, what it queued fails when it runs.
	 * -ENOENT: there is no such call; -ENOSPC: too many.
	 */
	int (*fail)(const char *name, u32 nth, kcu_result code, bool persistent, bool async);
	void (*fail_none)(void);
	u64 (*calls)(const char *name);		/* how many were made, failed ones included */

	int (*set_capture)(kcu_stream stream, kcu_capture_status status);
	/* Device work: one piece; all that can run. They say whether, how often they did. */
	bool (*step)(void);
	u64 (*run)(void);
	/* As far as the checker is concerned the host touches this memory now. */
	void (*host_access)(const void *ptr, u64 bytes, bool write);

	void (*counters)(struct sw_counters *counters);
	void (*live)(struct sw_live *live);
	u32 (*nr_reports)(enum sw_report_kind kind);
	const char *(*report)(u32 nr);		/* in order of occurrence; NULL: not that many */
	void (*clear_reports)(void);

	int (*add_kernel)(const struct sw_kernel *kernel);	/* borrows until reset() */

	/*
	 * From now on each call of @name, or each of any if that is "*", fails as by fail() with a
	 * chance of @per_mille in 1000, by the dice of the seed. -EINVAL: work does not fail with
	 * NOT_READY.
	 */
	int (*fail_rate)(const char *name, u32 per_mille, kcu_result code, bool async);
};

extern const struct kvmm_swcuda_control kvmm_swcuda_control;

#endif /* SWCUDA_CONTROL_H */
