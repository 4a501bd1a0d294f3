// SPDX-License-Identifier: Apache-2.0
/* The beginning and the end of everything, and the table for tests. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#define OPTIONS_VARIABLE	"KVMM_SWCUDA"
#define EXIT_FOUND		86	/* exit code of check_exit=1 */
#define VA_HINT			0x200000000000ull	/* nothing else is near there */

struct sw_state sw = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
};

/* ---- Beginning and end ---- */

static int reserve_addresses(void)
{
	void *at = mmap((void *)VA_HINT, sw.opt.va_bytes, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	sw.va_base = kv_align_up((u64)at, SW_GRANULE);
	return sw_space_init(&sw.va, sw.va_base, sw.opt.va_bytes - (sw.va_base - (u64)at));
}

static int begin(const char *options)
{
	int err = sw_options_parse(&sw.opt, options, sw.opt_error, sizeof(sw.opt_error));

	sw.rng = sw.opt.seed;
	/* Time 0 is "never" in the clocks of streams that have not run. */
	sw.host.t[SW_HOST_SLOT] = 1;
	for (int i = 0; i < SW_MAX_DEVICES; i++)
		sw.dev[i] = (struct sw_dev){ .ordinal = i, .memfd = -1 };
	if (reserve_addresses()) {
		snprintf(sw.opt_error, sizeof(sw.opt_error),
			 "KVMM_SWCUDA: no room for va=%llu", (unsigned long long)sw.opt.va_bytes);
		err = -ENOMEM;
	}
	return err;
}

/* Drops and retakes the lock while threads of streams end. */
static void end(void)
{
	u64 va_base = sw.va_base;

	sw_streams_exit();
	sw_events_exit();
	sw_modules_exit();
	sw_vmm_exit();
	sw_memory_exit();
	sw_race_exit();
	for (int i = 0; i < SW_MAX_DEVICES; i++)
		sw_dev_close(&sw.dev[i]);
	sw_objects_exit();
	sw_kernels_exit();
	sw_program_exit();
	sw_reports_clear();
	sw_sched_reset();
	sw_contexts_forget();
	if (va_base)
		munmap((void *)va_base, sw.opt.va_bytes);
}

static void forget_state(void)
{
	size_t from = offsetof(struct sw_state, opt), to = offsetof(struct sw_state, log);

	memset((char *)&sw + from, 0, to - from);
}

static int reset(const char *options)
{
	int err;

	sw_lock();
	end();
	forget_state();
	err = begin(options ?: getenv(OPTIONS_VARIABLE));
	sw_unlock();
	return err;
}

__attribute__((constructor)) static void on_load(void)
{
	begin(getenv(OPTIONS_VARIABLE));
	sw_hide_missing();
}

static u32 count_leaks(void)
{
	const struct sw_live *live = &sw.live;

	return live->nr_contexts + live->nr_streams + live->nr_events + live->nr_modules +
	       live->nr_allocs + live->nr_host + live->nr_reservations + live->nr_handles +
	       live->nr_mappings;
}

static void tell_leaks(void)
{
	const struct sw_live *live = &sw.live;

	sw_log("left at exit: %u contexts, %u streams, %u events, %u modules, %u allocations, "
	       "%u pieces of host memory, %u reservations, %u handles, %u mappings",
	       live->nr_contexts, live->nr_streams, live->nr_events, live->nr_modules,
	       live->nr_allocs, live->nr_host, live->nr_reservations, live->nr_handles,
	       live->nr_mappings);
}

/* Only in the process that started the driver; whoever was forked off has nothing. */
__attribute__((destructor)) static void on_exit_check(void)
{
	u32 nr_leaks = count_leaks(), nr_reports = 0;
	const char *text;

	if (!sw.opt.check_exit || sw.pid != getpid())
		return;
	for (u32 kind = 0; kind < SW_NR_REPORT_KINDS; kind++)
		nr_reports += sw_nr_reports(kind);
	for (u32 i = 0; (text = sw_report_text(i)); i++)
		sw_log("%s", text);
	if (nr_leaks)
		tell_leaks();
	if (nr_leaks || nr_reports)
		_exit(EXIT_FOUND);
}

/* ---- For tests ---- */

static void set_log(void (*log)(void *arg, const char *line), void *arg)
{
	sw_lock();
	sw.log = log;
	sw.log_arg = arg;
	sw_unlock();
}

static void set_seed(u64 seed)
{
	sw_lock();
	sw.rng = seed;
	sw_unlock();
}

static int add_fault(const char *name, struct sw_fault fault)
{
	int err = 0;

	fault.call = strcmp(name, "*") ? sw_call_find(name, strlen(name)) : -1;
	if (fault.call < -1)
		return fault.call;
	if (!sw_fault_is_good(&fault))
		return -EINVAL;
	sw_lock();
	fault.nth += fault.call < 0 ? sw.nr_calls : sw.calls[fault.call];
	if (sw.opt.nr_faults < SW_MAX_FAULTS)
		sw.opt.fault[sw.opt.nr_faults++] = fault;
	else
		err = -ENOSPC;
	sw_unlock();
	return err;
}

static int fail(const char *name, u32 nth, kcu_result code, bool persistent, bool async)
{
	return add_fault(name, (struct sw_fault){ .nth = nth, .code = code,
						  .persistent = persistent, .async = async });
}

static int fail_rate(const char *name, u32 per_mille, kcu_result code, bool async)
{
	return add_fault(name, (struct sw_fault){ .per_mille = per_mille, .code = code,
						  .async = async });
}

static void fail_none(void)
{
	sw_lock();
	sw.opt.nr_faults = 0;
	sw_unlock();
}

static u64 calls(const char *name)
{
	int call = sw_call_find(name, strlen(name));
	u64 nr;

	sw_lock();
	nr = call < 0 ? 0 : sw.calls[call];
	sw_unlock();
	return nr;
}

static int set_capture(kcu_stream handle, kcu_capture_status status)
{
	struct sw_stream *stream;

	sw_lock();
	stream = sw_object(SW_T_STREAM, (u64)handle);
	if (stream)
		stream->capture = status;
	sw_unlock();
	return stream ? 0 : -EINVAL;
}

static bool step(void)
{
	bool did;

	sw_lock();
	did = sw_step();
	sw_unlock();
	return did;
}

static u64 run(void)
{
	u64 nr = 0;

	while (step())
		nr++;
	return nr;
}

static void host_access(const void *ptr, u64 bytes, bool write)
{
	sw_lock();
	sw_race_host((u64)ptr, bytes, write, "access");
	sw_unlock();
}

static void counters(struct sw_counters *to)
{
	sw_lock();
	*to = sw.count;
	sw_unlock();
}

static void live(struct sw_live *to)
{
	sw_lock();
	*to = sw.live;
	sw_unlock();
}

static int add_kernel(const struct sw_kernel *kernel)
{
	int err;

	sw_lock();
	err = sw_kernel_add(kernel);
	sw_unlock();
	return err;
}

SW_EXPORT const struct kvmm_swcuda_control kvmm_swcuda_control = {
	.bytes		= sizeof(kvmm_swcuda_control),
	.reset		= reset,
	.set_log	= set_log,
	.set_seed	= set_seed,
	.fail		= fail,
	.fail_none	= fail_none,
	.calls		= calls,
	.set_capture	= set_capture,
	.step		= step,
	.run		= run,
	.host_access	= host_access,
	.counters	= counters,
	.live		= live,
	.nr_reports	= sw_nr_reports,
	.report		= sw_report_text,
	.clear_reports	= sw_reports_clear,
	.add_kernel	= add_kernel,
	.fail_rate	= fail_rate,
};
