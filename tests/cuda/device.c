// SPDX-License-Identifier: Apache-2.0
/* The rules of a shared device: contexts, captures, the latch, forks, and opening half-way. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kv/err.h>

#include "tests/support/test.h"
#include "fake_driver.h"
#include "tests/support/fake_env.h"

#define A_STREAM	((kcu_stream)0x4000)
#define OTHER_CTX	((kcu_context)0x5000)

static struct fake_driver drv;
static struct fake_env env;
static struct kcu cu;
static struct kv_gpu *gpu;

static void set_up(void)
{
	fake_env_install(&env);
	fake_driver_install(&drv);
	cr_assert_eq(kcu_load(&cu, NULL), 0);
}

static void tear_down(void)
{
	cr_expect_eq(env.nr_live, 0, "host memory left");
	cr_expect_eq(env.nr_bad_frees, 0);
	fake_driver_remove(&drv);
	fake_env_remove(&env);
}

TestSuite(device, .init = set_up, .fini = tear_down);

static struct kv_gpu *open_gpu(void)
{
	cr_assert_eq(kv_gpu_create(&cu, 0, NULL, &gpu), 0);
	return gpu;
}

/* Puts a context on the thread's stack as an engine would. */
static void make_current(kcu_context ctx)
{
	drv.stack[drv.depth++] = ctx;
}

/* ---- what is found ---- */

Test(device, knows_what_the_driver_tells)
{
	cr_assert_eq(kv_gpu_create(&cu, 1, NULL, &gpu), 0);
	cr_expect_str_eq(gpu->name, "Fake 11");
	cr_expect_eq(gpu->uuid.bytes[0], 11);
	cr_expect_eq(gpu->ctx, FAKE_PRIMARY(1));
	cr_expect_eq(gpu->nr_sms, 132);
	cr_expect_eq(gpu->cc_major, 9);
	cr_expect_eq(gpu->total_bytes, 80ull << 30);
	cr_expect_eq(gpu->granule_bytes, 2 << 20);
	cr_expect_eq(gpu->good_granule_bytes, 4 << 20);
	cr_expect_str_eq(gpu->pci_id, "0000:0b:00.0", "as the kernel writes it");
	cr_expect_str_eq(drv.numa_path, "/sys/bus/pci/devices/0000:0b:00.0/numa_node");
	cr_expect_eq(gpu->numa_node, 1);
	kv_gpu_destroy(gpu);
	cr_expect(fake_driver_is_idle(&drv));
}

Test(device, streams_are_non_blocking_and_of_the_lowest_priority)
{
	open_gpu();
	cr_expect_eq(drv.nr_streams, 2);
	cr_expect_neq(gpu->compact, gpu->transfer);
	cr_expect_eq(drv.stream_flags, KCU_STREAM_NON_BLOCKING);
	cr_expect_eq(drv.priority, KCU_PRIORITY_LOWEST);
	kv_gpu_destroy(gpu);
}

static int node_with(const char *text, int attr)
{
	int node;

	drv.numa_text = text;
	drv.attr[KCU_ATTR_HOST_NUMA_ID] = attr;
	node = open_gpu()->numa_node;
	kv_gpu_destroy(gpu);
	return node;
}

Test(device, asks_the_driver_for_the_node_that_the_kernel_does_not_know)
{
	cr_expect_eq(node_with("0\n", 3), 0);
	cr_expect_eq(node_with("-1\n", 3), 3);
	cr_expect_eq(node_with(NULL, 3), 3);
	cr_expect_eq(node_with("rubbish", 3), 3);
	cr_expect_eq(node_with(NULL, -1), -1, "the driver does not know the attribute");
}

static u32 features_without(int attr)
{
	int saved = drv.attr[attr];
	u32 features;

	drv.attr[attr] = 0;
	features = open_gpu()->features;
	kv_gpu_destroy(gpu);
	drv.attr[attr] = saved;
	return features;
}

Test(device, features_are_what_driver_and_device_both_can)
{
	u32 all = open_gpu()->features;

	kv_gpu_destroy(gpu);
	cr_expect_eq(all, cu.features | KCU_F_IPC_FD, "no fabric on this one");
	cr_expect_eq(features_without(KCU_ATTR_VMM), all & ~(KCU_F_VMM | KCU_F_IPC_FD));
	cr_expect_eq(features_without(KCU_ATTR_HANDLE_POSIX_FD), all & ~KCU_F_IPC_FD);
	cr_expect_eq(features_without(KCU_ATTR_DMA_BUF), all & ~KCU_F_DMABUF);
	drv.attr[KCU_ATTR_HANDLE_FABRIC] = 1;
	cr_expect_eq(features_without(KCU_ATTR_MPS), all | KCU_F_FABRIC);

	cu.features &= ~KCU_F_VMM;
	cr_expect_eq(features_without(KCU_ATTR_MPS), all & ~(KCU_F_VMM | KCU_F_IPC_FD));
}

Test(device, a_granule_that_is_no_power_of_two_is_no_granule)
{
	drv.granule = 3 << 20;
	open_gpu();
	cr_expect_eq(gpu->features & (KCU_F_VMM | KCU_F_IPC_FD), 0);
	cr_expect_eq(gpu->granule_bytes, 0);
	kv_gpu_destroy(gpu);
}

Test(device, refuses_numbers_that_no_device_has)
{
	cr_expect_eq(kv_gpu_create(&cu, -1, NULL, &gpu), -ENODEV);
	cr_expect_eq(kv_gpu_create(&cu, 2, NULL, &gpu), -ENODEV);
	kv_gpu_destroy(NULL);
}

/* ---- opening half-way ---- */

/* Attributes may fail: then the device has not got the thing. All other calls must succeed. */
static void create_failing_at(u64 nth, kcu_result result, bool on)
{
	int err;

	fake_driver_fail(&drv, nth, result, on);
	err = kv_gpu_create(&cu, 0, NULL, &gpu);
	if (!on)
		drv.fail_at = 0;
	if (!err)
		kv_gpu_destroy(gpu);
	drv.fail_at = 0;
	cr_expect_eq(env.nr_live, 0, "call %llu", (unsigned long long)nth);
}

/* A driver may refuse to let a context go: nothing can be done about that. */
static bool refused_to_restore(void)
{
	return drv.nr_failed && (drv.last_failed == KCU_CALL_ctx_pop_current ||
				 drv.last_failed == KCU_CALL_thread_exchange_capture_mode);
}

Test(device, leaves_nothing_behind_when_any_call_fails_once)
{
	static const kcu_result results[] = { KCU_E_OUT_OF_MEMORY, KCU_E_NOT_PERMITTED,
					      KCU_E_DEVICE_UNAVAILABLE };

	for (u32 i = 0; i < ARRAY_SIZE(results); i++)
		for (u64 nth = 1; nth < 60; nth++) {
			struct fake_driver before = drv;

			create_failing_at(nth, results[i], false);
			cr_expect_eq(drv.nr_streams, before.nr_streams);
			cr_expect_eq(drv.nr_primary, before.nr_primary);
			cr_expect((!drv.depth && !drv.mode) || refused_to_restore(),
				  "call %llu", (unsigned long long)nth);
			drv.depth = drv.mode = 0;
		}
}

/* What the driver will not take back is lost with the device; the thread's state is not. */
Test(device, restores_the_thread_when_the_device_is_lost)
{
	for (u64 nth = 1; nth < 60; nth++) {
		create_failing_at(nth, KCU_E_ECC_UNCORRECTABLE, nth % 2);
		cr_expect_eq(drv.depth, 0, "call %llu", (unsigned long long)nth);
		cr_expect_eq(drv.mode, KCU_CAPTURE_MODE_GLOBAL, "call %llu",
			     (unsigned long long)nth);
	}
}

Test(device, opening_ends_with_the_errno_of_what_failed)
{
	u32 nr_errors = 0;

	for (u64 nth = 1; nth < 100; nth++) {
		int err;

		fake_driver_fail(&drv, nth, KCU_E_DEVICE_UNAVAILABLE, false);
		err = kv_gpu_create(&cu, 0, NULL, &gpu);
		cr_expect(!err || err == -ENODEV, "%d", err);
		nr_errors += !!err;
		if (!err)
			kv_gpu_destroy(gpu);
	}
	cr_expect_geq(nr_errors, 10, "identify, context, streams: %u", nr_errors);
	fake_driver_fail(&drv, 0, 0, false);
}

Test(device, needs_host_memory)
{
	u64 nth;

	for (nth = 1; nth < 10; nth++) {
		fake_env_fail(&env, nth, false);
		if (!kv_gpu_create(&cu, 0, NULL, &gpu))
			break;
		cr_expect(fake_env_failed(&env));
		cr_expect(fake_driver_is_idle(&drv));
	}
	cr_expect_eq(nth, 2, "one allocation");
	kv_gpu_destroy(gpu);
}

/* ---- contexts ---- */

Test(device, borrows_the_context_of_a_caller)
{
	cr_assert_eq(kv_gpu_create(&cu, 0, FAKE_ENGINE_CTX, &gpu), 0);
	cr_expect_eq(gpu->ctx, FAKE_ENGINE_CTX);
	cr_expect_eq(drv.calls[KCU_CALL_primary_ctx_retain], 0);
	kv_gpu_destroy(gpu);
	cr_expect_eq(drv.calls[KCU_CALL_primary_ctx_release], 0);
	cr_expect(fake_driver_is_idle(&drv));
}

Test(device, refuses_a_context_of_another_device)
{
	cr_expect_eq(kv_gpu_create(&cu, 1, FAKE_ENGINE_CTX, &gpu), -EINVAL);
	cr_expect(fake_driver_is_idle(&drv));
}

Test(device, pushes_its_context_only_where_another_one_is_current)
{
	struct kv_gpu_scope outer, inner;
	u64 pushes;

	open_gpu();
	pushes = drv.calls[KCU_CALL_ctx_push_current];
	make_current(OTHER_CTX);
	cr_assert_eq(kv_gpu_enter(gpu, &outer), 0);
	cr_expect_eq(drv.stack[drv.depth - 1], gpu->ctx);
	cr_assert_eq(kv_gpu_enter(gpu, &inner), 0);
	cr_expect_eq(drv.calls[KCU_CALL_ctx_push_current], pushes + 1, "current already");
	kv_gpu_leave(gpu, &inner);
	cr_expect_eq(drv.stack[drv.depth - 1], gpu->ctx);
	kv_gpu_leave(gpu, &outer);
	cr_expect_eq(drv.depth, 1);
	cr_expect_eq(drv.stack[0], OTHER_CTX);
	kv_gpu_leave(gpu, &outer);
	cr_expect_eq(drv.depth, 1, "a scope is left once");

	kv_gpu_destroy(gpu);
	cr_expect_eq(drv.stack[--drv.depth], OTHER_CTX);
	cr_expect(fake_driver_is_idle(&drv));
}

Test(device, relaxes_captures_inside_and_restores_them_after)
{
	struct kv_gpu_scope outer, inner;

	open_gpu();
	drv.mode = KCU_CAPTURE_MODE_THREAD;
	cr_assert_eq(kv_gpu_enter_relaxed(gpu, &outer), 0);
	cr_expect_eq(drv.mode, KCU_CAPTURE_MODE_RELAXED);
	cr_assert_eq(kv_gpu_enter_relaxed(gpu, &inner), 0);
	kv_gpu_leave(gpu, &inner);
	cr_expect_eq(drv.mode, KCU_CAPTURE_MODE_RELAXED);
	kv_gpu_leave(gpu, &outer);
	cr_expect_eq(drv.mode, KCU_CAPTURE_MODE_THREAD);
	kv_gpu_destroy(gpu);
	drv.mode = KCU_CAPTURE_MODE_GLOBAL;
}

Test(device, opens_and_closes_without_disturbing_captures)
{
	kv_gpu_destroy(open_gpu());
	cr_expect_gt(drv.nr_calls, 0);
	cr_expect_eq(drv.nr_unrelaxed, 0);
	cr_expect(fake_driver_is_idle(&drv));
}

Test(device, a_scope_that_cannot_be_entered_needs_no_leaving)
{
	open_gpu();
	for (u64 nth = 1; nth <= 3; nth++) {
		struct kv_gpu_scope scope;

		fake_driver_fail(&drv, nth, KCU_E_INVALID_CONTEXT, false);
		cr_expect_eq(kv_gpu_enter_relaxed(gpu, &scope), -EIO);
		cr_expect_eq(drv.depth, 0);
		cr_expect_eq(drv.mode, KCU_CAPTURE_MODE_GLOBAL);
	}
	fake_driver_fail(&drv, 0, 0, false);
	kv_gpu_destroy(gpu);
}

Test(device, a_lost_device_gives_the_thread_its_context_back)
{
	struct kv_gpu_scope scope;

	open_gpu();
	make_current(OTHER_CTX);
	cr_assert_eq(kv_gpu_enter_relaxed(gpu, &scope), 0);
	fake_driver_fail(&drv, 1, KCU_E_ILLEGAL_ADDRESS, false);
	cr_expect_eq(kv_gpu_call(gpu, stream_query, gpu->compact), -EIO);
	kv_gpu_leave(gpu, &scope);
	cr_expect_eq(drv.depth, 1);
	cr_expect_eq(drv.stack[0], OTHER_CTX);
	cr_expect_eq(drv.mode, KCU_CAPTURE_MODE_GLOBAL);
	cr_expect_eq(kv_gpu_enter(gpu, &scope), -EIO);
	kv_gpu_destroy(gpu);
}

/* ---- captures and default streams ---- */

Test(device, refuses_streams_that_are_capturing)
{
	open_gpu();
	cr_expect_eq(kv_gpu_check_stream(gpu, A_STREAM), 0);
	drv.capture = KCU_CAPTURE_ACTIVE;
	cr_expect_eq(kv_gpu_check_stream(gpu, A_STREAM), -EBUSY);
	drv.capture = KCU_CAPTURE_INVALIDATED;
	cr_expect_eq(kv_gpu_check_stream(gpu, A_STREAM), -EBUSY);
	drv.capture = KCU_CAPTURE_NONE;
	cr_expect_eq(kv_gpu_check_stream(gpu, A_STREAM), 0);
	fake_driver_fail(&drv, 1, KCU_E_STREAM_CAPTURE_IMPLICIT, false);
	cr_expect_eq(kv_gpu_check_stream(gpu, A_STREAM), -EBUSY);
	kv_gpu_destroy(gpu);
}

Test(device, refuses_the_default_streams)
{
	u64 before = drv.calls[KCU_CALL_stream_is_capturing];

	open_gpu();
	cr_expect_eq(kv_gpu_check_stream(gpu, NULL), -EINVAL);
	cr_expect_eq(kv_gpu_check_stream(gpu, KCU_STREAM_LEGACY), -EINVAL);
	cr_expect_eq(kv_gpu_check_stream(gpu, KCU_STREAM_PER_THREAD), -EINVAL);
	cr_expect_eq(drv.calls[KCU_CALL_stream_is_capturing], before, "even asking disturbs");
	kv_gpu_destroy(gpu);
}

/* ---- failing calls ---- */

Test(device, after_the_first_fatal_result_nothing_is_called_any_more)
{
	static const kcu_result fatal[] = { KCU_E_ILLEGAL_ADDRESS, KCU_E_ECC_UNCORRECTABLE,
					    KCU_E_CONTEXT_IS_DESTROYED, KCU_E_UNKNOWN, 12345 };

	for (u32 i = 0; i < ARRAY_SIZE(fatal); i++) {
		u64 calls;

		open_gpu();
		fake_driver_fail(&drv, 1, fatal[i], false);
		cr_expect_eq(kv_gpu_call(gpu, event_query, NULL), -EIO);
		cr_expect_eq(kv_gpu_fatal(gpu), fatal[i]);
		cr_expect_not_null(strstr(env.line, "observed at cuEventQuery"), "%s", env.line);
		cr_expect_not_null(strstr(env.line, kcu_error_name(fatal[i])));

		calls = drv.nr_calls;
		cr_expect_eq(kv_gpu_call(gpu, stream_query, gpu->compact), -EIO);
		cr_expect_eq(kv_gpu_call(gpu, mem_free, 4096), -EIO);
		cr_expect_eq(kv_gpu_check_stream(gpu, A_STREAM), -EIO);
		kv_gpu_destroy(gpu);
		cr_expect_eq(drv.nr_calls, calls, "not even frees");
	}
}

Test(device, one_lost_device_does_not_take_others_along)
{
	struct kv_gpu *other;

	open_gpu();
	cr_assert_eq(kv_gpu_create(&cu, 1, NULL, &other), 0);
	fake_driver_fail(&drv, 1, KCU_E_NVLINK_UNCORRECTABLE, false);
	cr_expect_eq(kv_gpu_call(gpu, event_query, NULL), -EIO);
	cr_expect_eq(kv_gpu_call(other, event_query, NULL), 0);
	kv_gpu_destroy(other);
	kv_gpu_destroy(gpu);
}

Test(device, other_failures_leave_the_device_usable)
{
	static const struct {
		kcu_result result;
		int err;
	} soft[] = {
		{ KCU_E_INVALID_VALUE, -EIO }, { KCU_E_OUT_OF_MEMORY, -ENOMEM },
		{ KCU_E_NOT_READY, -EAGAIN }, { KCU_E_NOT_SUPPORTED, -EOPNOTSUPP },
		{ KCU_E_STREAM_CAPTURE_UNSUPPORTED, -EBUSY },
		{ KCU_E_HOST_MEMORY_ALREADY_REGISTERED, -EALREADY },
		{ KCU_E_LAUNCH_OUT_OF_RESOURCES, -ENOBUFS },
	};

	open_gpu();
	for (u32 i = 0; i < ARRAY_SIZE(soft); i++) {
		fake_driver_fail(&drv, 1, soft[i].result, false);
		cr_expect_eq(kv_gpu_call(gpu, event_query, NULL), soft[i].err);
		cr_expect_eq(kv_gpu_fatal(gpu), KCU_E_SUCCESS);
		cr_expect_eq(kv_gpu_call(gpu, event_query, NULL), 0);
	}
	kv_gpu_destroy(gpu);
}

/* A poll that is not ready is no failure; a failure that repeats is told once. */
Test(device, says_each_thing_once)
{
	u64 lines;

	open_gpu();
	lines = env.nr_lines;
	fake_driver_fail(&drv, 1, KCU_E_NOT_READY, true);
	for (int i = 0; i < 10; i++)
		cr_expect_eq(kv_gpu_call(gpu, event_query, NULL), -EAGAIN);
	cr_expect_eq(env.nr_lines, lines);

	fake_driver_fail(&drv, 1, KCU_E_OUT_OF_MEMORY, true);
	for (int i = 0; i < 10; i++)
		cr_expect_eq(kv_gpu_call(gpu, mem_alloc, NULL, 1), -ENOMEM);
	cr_expect_eq(env.nr_lines, lines + 1);
	cr_expect_str_eq(env.line, "kvmm: gpu 0: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)");
	cr_expect_eq(kv_gpu_call(gpu, mem_host_alloc, NULL, 1, 0), -ENOMEM);
	cr_expect_eq(env.nr_lines, lines + 2, "another call is another thing");
	fake_driver_fail(&drv, 0, 0, false);
	kv_gpu_destroy(gpu);
}

Test(device, a_call_that_the_driver_lacks_is_unsupported)
{
	bool evaluated = false;

	cu.mem_map = NULL;
	open_gpu();
	cr_expect_eq(kv_gpu_call(gpu, mem_map, 0, 0, 0, (evaluated = true), 0), -EOPNOTSUPP);
	cr_expect_not(evaluated);
	kv_gpu_destroy(gpu);
}

/* ---- threads and forks ---- */

#define NR_THREADS	4

static void *hit_the_wall(void *result)
{
	u64 *answered = result;

	for (int i = 0; i < 1000; i++)
		*answered += kv_gpu_call(gpu, event_query, NULL) == -EIO;
	return NULL;
}

Test(device, of_many_threads_that_see_the_loss_one_speaks)
{
	pthread_barrier_t together;
	pthread_t thread[NR_THREADS];
	u64 answered[NR_THREADS] = { 0 };
	u64 lines;

	open_gpu();
	lines = env.nr_lines;
	pthread_barrier_init(&together, NULL, NR_THREADS);
	drv.together = &together;
	fake_driver_fail(&drv, 1, KCU_E_LAUNCH_FAILED, true);
	for (u32 i = 0; i < NR_THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, hit_the_wall, &answered[i]), 0);
	for (u32 i = 0; i < NR_THREADS; i++) {
		pthread_join(thread[i], NULL);
		cr_expect_eq(answered[i], 1000);
	}
	cr_expect_eq(env.nr_lines, lines + 1);
	cr_expect_eq(drv.nr_failed, NR_THREADS, "each thread has found out once");
	pthread_barrier_destroy(&together);
	kv_gpu_destroy(gpu);
}

/* Everything says so, and giving up the device costs no call. */
static int child(void)
{
	struct kv_gpu_scope scope;
	struct kv_gpu *another;
	u64 before = drv.nr_calls;

	if (kv_gpu_call(gpu, event_query, NULL) != -ECHILD)
		return 1;
	if (kv_gpu_enter(gpu, &scope) != -ECHILD || kv_gpu_enter_relaxed(gpu, &scope) != -ECHILD)
		return 2;
	if (kv_gpu_check_stream(gpu, A_STREAM) != -ECHILD)
		return 3;
	if (kv_gpu_create(&cu, 0, NULL, &another) != -ECHILD)
		return 4;
	kv_gpu_destroy(gpu);
	if (env.nr_live)
		return 5;
	return drv.nr_calls == before ? 0 : 6;
}

Test(device, is_dead_in_a_forked_child_and_alive_in_the_parent)
{
	int status = 0;
	pid_t pid;

	open_gpu();
	pid = fork();
	if (!pid)
		_exit(child());
	waitpid(pid, &status, 0);
	cr_expect(WIFEXITED(status));
	cr_expect_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
	cr_expect_eq(kv_gpu_call(gpu, event_query, NULL), 0);
	kv_gpu_destroy(gpu);
	cr_expect(fake_driver_is_idle(&drv));
}

/* A scope that was open when the process forked is left in the child without a call. */
static int child_leaves(struct kv_gpu_scope *scope)
{
	u64 before = drv.nr_calls;

	kv_gpu_leave(gpu, scope);
	return drv.nr_calls == before ? 0 : 1;
}

Test(device, leaving_in_a_forked_child_calls_nothing)
{
	struct kv_gpu_scope scope;
	int status = 0;
	pid_t pid;

	open_gpu();
	cr_assert_eq(kv_gpu_enter_relaxed(gpu, &scope), 0);
	pid = fork();
	if (!pid)
		_exit(child_leaves(&scope));
	waitpid(pid, &status, 0);
	cr_expect(WIFEXITED(status) && !WEXITSTATUS(status));
	kv_gpu_leave(gpu, &scope);
	cr_expect_eq(drv.depth, 0);
	kv_gpu_destroy(gpu);
}

/* ---- a failure that another call was told ---- */

static u32 is_in, may_go;	/* atomic */
static u64 seen;		/* by the thread that looks */

static kcu_result tell_late(kcu_event event)
{
	smp_store_release(&is_in, 1);
	while (!smp_load_acquire(&may_go))
		usleep(100);
	return KCU_E_LAUNCH_OUT_OF_RESOURCES;
}

static void *ask(void *arg)
{
	kv_gpu_call(gpu, event_query, NULL);
	return NULL;
}

static void *look(void *arg)
{
	kv_gpu_settle_calls(gpu);
	seen = kv_gpu_doubts(gpu);
	return NULL;
}

/* The driver has told the one thread, which has not counted it, and tells the other one nothing. */
Test(device, a_failure_that_another_thread_is_told_is_waited_for, .timeout = 60)
{
	pthread_t asker, looker;
	u64 before;

	cu.event_query = tell_late;
	open_gpu();
	before = kv_gpu_doubts(gpu);
	kv_env_set(NULL);
	cr_assert_eq(pthread_create(&asker, NULL, ask, NULL), 0);
	while (!smp_load_acquire(&is_in))
		usleep(100);
	cr_assert_eq(pthread_create(&looker, NULL, look, NULL), 0);
	usleep(20000);
	smp_store_release(&may_go, 1);
	pthread_join(asker, NULL);
	pthread_join(looker, NULL);
	cr_expect_eq(seen, before + 1);
	kv_env_set(&env.ops);
	kv_gpu_destroy(gpu);
}
