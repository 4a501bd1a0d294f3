// SPDX-License-Identifier: Apache-2.0
/* Loading a driver: which one, with which symbols, and every way in which there is none. */
#include <sys/wait.h>
#include <unistd.h>

#include <kv/err.h>

#include "tests/support/test.h"
#include "fake_driver.h"
#include "tests/support/fake_env.h"

static struct fake_driver drv;
static struct fake_env env;
static struct kcu cu;

static void set_up(void)
{
	fake_env_install(&env);
	fake_driver_install(&drv);
	memset(&cu, 0xff, sizeof(cu));
}

static void tear_down(void)
{
	cr_expect_eq(env.nr_live, 0);
	fake_driver_remove(&drv);
	fake_env_remove(&env);
}

TestSuite(shim, .init = set_up, .fini = tear_down);

static bool is_zero(const struct kcu *table)
{
	static const struct kcu zero;

	return !memcmp(table, &zero, sizeof(zero));
}

#define BITS_BY_SYMBOL	(KCU_F_VMM | KCU_F_BATCH12 | KCU_F_BATCH13 | KCU_F_PEER | KCU_F_DMABUF | \
			 KCU_F_MEMOPS)

/* ---- what is loaded ---- */

Test(shim, a_whole_driver_fills_the_whole_table)
{
	cr_assert_eq(kcu_load(&cu, NULL), 0);
#define EXPECT_CALL(field, name, type, version)	cr_expect_not_null(cu.field, #name);
	KCU_ALL(EXPECT_CALL)
	cr_expect_eq(cu.features, BITS_BY_SYMBOL);
	cr_expect_eq(cu.driver_version, 13000);
	cr_expect_eq(cu.nr_devices, 2);
	cr_expect_eq(drv.calls[KCU_CALL_init], 1);
}

/* Each field leads to the call of its name: otherwise a slip in the lists would go unseen. */
Test(shim, every_field_is_the_call_of_that_name)
{
	cr_assert_eq(kcu_load(&cu, NULL), 0);
	fake_driver_fail(&drv, 1, KCU_E_NOT_PERMITTED, true);
#define EXPECT_TARGET(field, name, type, version)					\
	do {										\
		u64 before = drv.calls[KCU_CALL_##field];				\
		u64 words[8] = { 0 };							\
		kcu_result (*fn)(void *, void *, void *, void *);			\
		memcpy(&fn, &cu.field, sizeof(fn));					\
		fn(words, words, words, words);						\
		cr_expect_eq(drv.calls[KCU_CALL_##field], before + 1, #name);		\
		cr_expect_str_eq(kcu_call_name(KCU_CALL_##field), #name);		\
	} while (0);
	KCU_ALL(EXPECT_TARGET)
}

Test(shim, an_option_beats_the_environment_beats_the_default)
{
	cr_assert_eq(kcu_load(&cu, NULL), 0);
	cr_expect_str_eq(drv.opened, "libcuda.so.1");
	drv.env = "";
	cr_assert_eq(kcu_load(&cu, NULL), 0);
	cr_expect_str_eq(drv.opened, "libcuda.so.1");
	drv.env = "/there/libkvmm-swcuda.so";
	cr_assert_eq(kcu_load(&cu, NULL), 0);
	cr_expect_str_eq(drv.opened, "/there/libkvmm-swcuda.so");
	cr_assert_eq(kcu_load(&cu, "/here/libcuda.so"), 0);
	cr_expect_str_eq(drv.opened, "/here/libcuda.so");
}

/* ---- symbols ---- */

static const char *const required_names[] = {
#define NAME(field, name, type, version)	#name,
	KCU_REQUIRED(NAME)
};

Test(shim, without_a_required_call_there_is_no_device)
{
	drv.absent_for_get_proc = true;
	for (u32 i = 0; i < ARRAY_SIZE(required_names); i++) {
		drv.absent = required_names[i];
		cr_expect_eq(kcu_load(&cu, NULL), -ENODEV, "%s", drv.absent);
		cr_expect(is_zero(&cu));
		cr_expect_not_null(strstr(env.line, drv.absent), "log: %s", env.line);
	}
	cr_expect_eq(drv.nr_calls, 0, "such a driver is not even started");
}

struct optional {
	const char *name;
	size_t offset;
	u32 feature;
};

static const struct optional optional_calls[] = {
#define ENTRY(field, name, bit)	{ #name, offsetof(struct kcu, field), bit },
#define IN_VMM(field, name, type, version)	ENTRY(field, name, KCU_F_VMM)
#define IN_BATCH12(field, name, type, version)	ENTRY(field, name, KCU_F_BATCH12)
#define IN_BATCH13(field, name, type, version)	ENTRY(field, name, KCU_F_BATCH13)
#define IN_PEER(field, name, type, version)	ENTRY(field, name, KCU_F_PEER)
#define IN_DMABUF(field, name, type, version)	ENTRY(field, name, KCU_F_DMABUF)
#define IN_MEMOPS(field, name, type, version)	ENTRY(field, name, KCU_F_MEMOPS)
	KCU_VMM(IN_VMM) KCU_BATCH12(IN_BATCH12) KCU_BATCH13(IN_BATCH13) KCU_PEER(IN_PEER)
	KCU_DMABUF(IN_DMABUF) KCU_MEMOPS(IN_MEMOPS)
};

static void *field_at(const struct kcu *table, size_t offset)
{
	void *fn;

	memcpy(&fn, (const char *)table + offset, sizeof(fn));
	return fn;
}

Test(shim, without_an_optional_call_its_whole_group_is_absent_and_no_other)
{
	drv.absent_for_get_proc = true;
	for (u32 i = 0; i < ARRAY_SIZE(optional_calls); i++) {
		u32 bit = optional_calls[i].feature;

		drv.absent = optional_calls[i].name;
		cr_assert_eq(kcu_load(&cu, NULL), 0);
		cr_expect_eq(cu.features, BITS_BY_SYMBOL & ~bit, "%s", drv.absent);
		for (u32 k = 0; k < ARRAY_SIZE(optional_calls); k++)
			cr_expect_eq(!field_at(&cu, optional_calls[k].offset),
				     optional_calls[k].feature == bit);
	}
}

/* With the version of the table, never the driver's: that one could mean another signature. */
Test(shim, a_call_that_is_not_exported_is_asked_for_by_its_version)
{
	drv.absent = "cuMemAlloc_v2";
	cr_assert_eq(kcu_load(&cu, NULL), 0);
	cr_expect_not_null(cu.mem_alloc);
	cr_expect_str_eq(drv.asked, "cuMemAlloc");
	cr_expect_eq(drv.asked_version, 3020);

	drv.absent = "cuCtxGetDevice";
	cr_assert_eq(kcu_load(&cu, NULL), 0);
	cr_expect_str_eq(drv.asked, "cuCtxGetDevice");
	cr_expect_eq(drv.asked_version, 2000);

	drv.absent = "cuMemcpyBatchAsync_v2";
	drv.version = 12080;
	cr_assert_eq(kcu_load(&cu, NULL), 0);
	cr_expect_eq(drv.asked_version, 13000);
	cr_expect_eq(cu.features, BITS_BY_SYMBOL & ~KCU_F_BATCH13, "too new for this driver");
}

Test(shim, every_call_that_is_not_exported_is_found_and_is_that_one)
{
	struct kcu whole;

	cr_assert_eq(kcu_load(&whole, NULL), 0);
#define EXPECT_FOUND(field, name, type, version)			\
	drv.absent = #name;						\
	cr_assert_eq(kcu_load(&cu, NULL), 0, #name);			\
	cr_expect_eq(cu.field, whole.field, #name);			\
	cr_expect_eq(cu.features, whole.features, #name);
	KCU_ALL(EXPECT_FOUND)
}

/* Asked for a version, a driver hands out the newest call up to that one, whatever its signature. */
Test(shim, a_call_of_an_older_version_is_none)
{
	drv.older_for_get_proc = true;
	for (u32 i = 0; i < ARRAY_SIZE(required_names); i++) {
		drv.absent = required_names[i];
		cr_expect_eq(kcu_load(&cu, NULL), -ENODEV, "%s", drv.absent);
		cr_expect(is_zero(&cu));
		cr_expect_not_null(strstr(env.line, drv.absent), "log: %s", env.line);
	}
	cr_expect_eq(drv.nr_calls, 0);
	for (u32 i = 0; i < ARRAY_SIZE(optional_calls); i++) {
		const struct optional *call = &optional_calls[i];

		drv.absent = call->name;
		cr_assert_eq(kcu_load(&cu, NULL), 0);
		cr_expect_eq(cu.features, BITS_BY_SYMBOL & ~call->feature, "%s", call->name);
		cr_expect_null(field_at(&cu, call->offset), "%s", call->name);
	}
}

Test(shim, an_old_driver_that_cannot_be_asked_is_taken_by_its_exports)
{
	drv.no_get_proc = true;
	cr_expect_eq(kcu_load(&cu, NULL), 0);
	drv.absent = "cuMemAlloc_v2";
	cr_expect_eq(kcu_load(&cu, NULL), -ENODEV);
}

/* ---- no driver ---- */

Test(shim, without_a_library_there_is_no_device)
{
	drv.no_library = true;
	cr_expect_eq(kcu_load(&cu, NULL), -ENODEV);
	cr_expect(is_zero(&cu));
	cr_expect_not_null(strstr(env.line, "no such file, says the test"));
}

Test(shim, each_refusal_at_the_start_means_no_device)
{
	static const kcu_result refusals[] = {
		KCU_E_STUB_LIBRARY, KCU_E_NO_DEVICE, KCU_E_DEVICE_UNAVAILABLE,
		KCU_E_SYSTEM_NOT_READY, KCU_E_SYSTEM_DRIVER_MISMATCH,
		KCU_E_COMPAT_NOT_SUPPORTED_ON_DEVICE, KCU_E_CALL_REQUIRES_NEWER_DRIVER,
		KCU_E_OPERATING_SYSTEM,
	};

	for (u32 i = 0; i < ARRAY_SIZE(refusals); i++)
		for (u32 nth = 1; nth <= 3; nth++) {
			fake_driver_fail(&drv, nth, refusals[i], true);
			cr_expect_eq(kcu_load(&cu, NULL), -ENODEV, "%d", refusals[i]);
			cr_expect(is_zero(&cu));
			cr_expect_not_null(strstr(env.line, kcu_error_name(refusals[i])));
		}
}

Test(shim, other_failures_at_the_start_keep_their_meaning)
{
	fake_driver_fail(&drv, 1, KCU_E_OUT_OF_MEMORY, false);
	cr_expect_eq(kcu_load(&cu, NULL), -ENOMEM);
	fake_driver_fail(&drv, 1, KCU_E_MPS_SERVER_NOT_READY, false);
	cr_expect_eq(kcu_load(&cu, NULL), -EAGAIN);
	fake_driver_fail(&drv, 1, KCU_E_UNKNOWN, false);
	cr_expect_eq(kcu_load(&cu, NULL), -EIO);
	cr_expect_eq(kcu_load(&cu, NULL), 0, "and the next attempt may succeed");
}

Test(shim, a_driver_without_devices_is_no_device)
{
	drv.nr_devices = 0;
	cr_expect_eq(kcu_load(&cu, NULL), -ENODEV);
	cr_expect_not_null(strstr(env.line, "CUDA_ERROR_NO_DEVICE (100)"), "%s", env.line);
}

/* ---- real libraries ---- */

/* The toolkit's stub has every export and refuses every call. */
Test(shim, the_stub_of_a_toolkit_has_all_names_and_is_no_device)
{
	static const char *const paths[] = {
		"/usr/local/cuda/lib64/stubs/libcuda.so",
		"/usr/local/cuda/targets/x86_64-linux/lib/stubs/libcuda.so",
		"/usr/lib/x86_64-linux-gnu/stubs/libcuda.so",
	};
	const char *path = NULL, *why;
	void *library;

	kv_sys_set(NULL);
	for (u32 i = 0; i < ARRAY_SIZE(paths) && !path; i++)
		path = access(paths[i], R_OK) ? NULL : paths[i];
	if (!path)
		cr_skip_test("no toolkit");
	cr_expect_eq(kcu_load(&cu, path), -ENODEV);
	cr_expect_not_null(strstr(env.line, "CUDA_ERROR_STUB_LIBRARY (34)"), "%s", env.line);

	library = kv_sys()->open_library(NULL, path, &why);
	cr_assert_not_null(library);
#define EXPECT_EXPORT(field, name, type, version) \
	cr_expect_not_null(kv_sys()->find_symbol(NULL, library, #name), #name);
	KCU_ALL(EXPECT_EXPORT)
}

Test(shim, a_library_that_is_no_driver_is_no_device)
{
	kv_sys_set(NULL);
	cr_expect_eq(kcu_load(&cu, "libm.so.6"), -ENODEV);
	cr_expect_not_null(strstr(env.line, "no symbol cuInit"), "%s", env.line);
	cr_expect_eq(kcu_load(&cu, "/nowhere/libcuda.so.1"), -ENODEV);
	cr_expect_not_null(strstr(env.line, "/nowhere/libcuda.so.1"), "%s", env.line);
}

/* ---- forks ---- */

static int exit_code_of(int (*child)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(child());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int child_may_not_load(void)
{
	u64 before = drv.nr_calls;

	return kcu_load(&cu, NULL) == -ECHILD && drv.nr_calls == before ? 0 : 1;
}

static int child_may_load(void)
{
	return kcu_load(&cu, NULL);
}

static int grandchild_may_not_load(void)
{
	return exit_code_of(child_may_not_load);
}

Test(shim, a_child_of_a_process_with_a_driver_has_none)
{
	cr_assert_eq(kcu_load(&cu, NULL), 0);
	cr_expect_eq(exit_code_of(child_may_not_load), 0);
	cr_expect_eq(exit_code_of(grandchild_may_not_load), 0);
	cr_expect_eq(kcu_load(&cu, NULL), 0, "the parent goes on");
}

Test(shim, a_child_of_a_process_without_a_driver_may_load_one)
{
	cr_expect_eq(exit_code_of(child_may_load), 0);
	fake_driver_fail(&drv, 1, KCU_E_NO_DEVICE, false);
	cr_assert_eq(kcu_load(&cu, NULL), -ENODEV);
	cr_expect_eq(exit_code_of(child_may_load), 0, "a driver that did not start is none");
}

/* ---- results ---- */

Test(shim, every_result_has_a_name_a_class_and_an_errno)
{
	kcu_result last = -1;

#define EXPECT_ROW(name, value, class, err)						\
	cr_expect_gt(value, last, #name);						\
	last = value;									\
	cr_expect_eq(kcu_errno(value) == 0, value == 0, #name);				\
	cr_expect_eq(kcu_class_of(value) == KCU_OK, value == 0, #name);			\
	cr_expect(kcu_class_of(value) != KCU_FATAL || kcu_errno(value) == -EIO, #name);	\
	if (value)									\
		cr_expect_str_eq(kcu_error_name(value), "CUDA_ERROR_" #name);
	KCU_ERRORS(EXPECT_ROW)
	cr_expect_str_eq(kcu_error_name(0), "CUDA_SUCCESS");
}

static void expect_class(enum kcu_class class, const kcu_result *results, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		cr_expect_eq(kcu_class_of(results[i]), class, "%s", kcu_error_name(results[i]));
}

/* By number, from the driver's documentation, so that a slip in the table shows. */
Test(shim, results_are_classed_by_what_is_left_of_the_device)
{
	static const kcu_result fatal[] = { 4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716,
					    717, 718, 719, 721, 810, 911, 999 };
	static const kcu_result retry[] = { 2, 46, 600, 701, 807, 900, 901, 902, 903, 904, 905, 906,
					    907, 908 };
	static const kcu_result unsupported[] = { 36, 209, 217, 218, 221, 222, 223, 304, 500, 800,
						  801 };
	static const kcu_result soft[] = { 1, 201, 205, 206, 208, 211, 400, 704, 712 };

	expect_class(KCU_FATAL, fatal, ARRAY_SIZE(fatal));
	expect_class(KCU_RETRY, retry, ARRAY_SIZE(retry));
	expect_class(KCU_UNSUPPORTED, unsupported, ARRAY_SIZE(unsupported));
	expect_class(KCU_SOFT, soft, ARRAY_SIZE(soft));
	cr_expect_eq(kcu_errno(704), -EALREADY);
	cr_expect_eq(kcu_errno(712), -EALREADY);
}

Test(shim, a_result_of_a_newer_driver_counts_as_the_worst)
{
	cr_expect_eq(kcu_class_of(12345), KCU_FATAL);
	cr_expect_eq(kcu_errno(12345), -EIO);
	cr_expect_str_eq(kcu_error_name(12345), "unknown CUDA error");
	cr_expect_eq(kcu_class_of(-1), KCU_FATAL);
}
