/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that does nothing but keep books, behind a loader that finds what the test wants.
 *
 *	struct fake_driver drv;
 *
 *	fake_driver_install(&drv);			// kv_sys() finds this driver from here on
 *	drv.absent = "cuMemMap";			// ... without this symbol
 *	fake_driver_fail(&drv, 3, KCU_E_NOT_SUPPORTED, false);	// the third call from now fails
 *	...
 *	cr_expect(fake_driver_is_idle(&drv));		// all given back, contexts and modes as before
 *	fake_driver_remove(&drv);
 *
 * One at a time. Counters are atomic; the settings are changed by one thread. Contexts and
 * capture modes are those of one thread.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <pthread.h>

#include "cuda/internal.h"

#define FAKE_NR_ATTRS	160
#define FAKE_DEPTH	8

/* Primary contexts of devices 0, 1, ..., and an engine's context on device 0. */
#define FAKE_PRIMARY(dev)	((kcu_context)(uintptr_t)(0x1000 + (dev)))
#define FAKE_ENGINE_CTX		((kcu_context)0x2000)

struct fake_driver {
	struct kv_sys_ops sys;

	/* Settings of the loader. */
	const char *env;		/* value of KVMM_CUDA_DRIVER, or NULL */
	bool no_library;
	const char *absent;		/* a name that is not exported ... */
	bool absent_for_get_proc;	/* ... nor known to cuGetProcAddress(), which there is */
	bool older_for_get_proc;	/* ... which has an older call, of another ABI, for each */
	bool no_get_proc;
	const char *numa_text;		/* content of the numa_node file; NULL: there is none */

	/* Settings of the driver. */
	int version;
	int nr_devices;
	int attr[FAKE_NR_ATTRS];
	size_t granule;
	kcu_capture_status capture;

	/* Failures: see fake_driver_fail(). */
	u64 fail_at;
	bool fail_on;
	kcu_result fail_with;
	pthread_barrier_t *together;	/* failing calls return when so many are in one */

	/* Books. */
	u64 nr_calls;			/* atomic; not those that only look around */
	u64 nr_failed;			/* atomic */
	enum kcu_call last_failed;	/* meaningless with threads */
	u64 calls[KCU_NR_ALL];		/* atomic */
	u64 nr_streams;			/* live */
	u64 nr_primary;			/* references on primary contexts */
	u64 nr_unrelaxed;		/* calls that would have ended a capture of others */
	kcu_context stack[FAKE_DEPTH];
	u32 depth;
	kcu_capture_mode mode;
	int priority;			/* of the last stream made */
	u32 stream_flags;
	char opened[128];		/* last library asked for */
	char numa_path[128];
	char asked[64];			/* last name given to cuGetProcAddress() ... */
	int asked_version;		/* ... and version */
};

void fake_driver_install(struct fake_driver *drv);
void fake_driver_remove(struct fake_driver *drv);

/* The @nth driver call from now (1 = the next, 0 = none) fails, and if @on all later ones. */
void fake_driver_fail(struct fake_driver *drv, u64 nth, kcu_result result, bool on);

/* Nothing of ours is left: no stream, no reference, no context, no mode. */
bool fake_driver_is_idle(const struct fake_driver *drv);

#endif /* FAKE_DRIVER_H */
