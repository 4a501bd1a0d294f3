// SPDX-License-Identifier: Apache-2.0
/* Start, devices, contexts: each call does what it says, and refuses what it must. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/swcuda/driver.h"

Test(basic, every_name_is_exported)
{
	load("");
#define EXPORTED(field, name, type, version)	cr_expect_not_null(cu.field, "%s", #name);
	KCU_ALL(EXPORTED)
}

Test(basic, nothing_works_before_init)
{
	int count;
	size_t bytes;

	load("");
	is(KCU_E_NOT_INITIALIZED, cu.device_get_count(&count));
	is(KCU_E_NOT_INITIALIZED, cu.mem_get_info(&bytes, &bytes));
	ok(cu.init(0));
	ok(cu.device_get_count(&count));
}

Test(basic, version_and_names_need_no_init)
{
	const char *text = NULL;
	int version = 0;

	load("driver=12040");
	ok(cu.driver_get_version(&version));
	cr_expect_eq(version, 12040);
	ok(cu.get_error_name(KCU_E_ILLEGAL_ADDRESS, &text));
	cr_expect_str_eq(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
	ok(cu.get_error_name(KCU_E_SUCCESS, &text));
	cr_expect_str_eq(text, "CUDA_SUCCESS");
	text = NULL;
	ok(cu.get_error_string(KCU_E_NOT_READY, &text));
	cr_expect_not_null(text);
	is(KCU_E_INVALID_VALUE, cu.get_error_name(4711, &text));
	cr_expect_null(text);
}

Test(basic, no_device)
{
	load("devices=0");
	is(KCU_E_NO_DEVICE, cu.init(0));
}

Test(basic, devices_differ)
{
	kcu_uuid uuid[2] = { 0 };
	char name[64] = "", pci[2][16];
	kcu_device dev = -1;
	int count = 0;

	start("devices=3");
	ok(cu.device_get_count(&count));
	cr_expect_eq(count, 3);
	ok(cu.device_get(&dev, 2));
	cr_expect_eq(dev, 2);
	is(KCU_E_INVALID_DEVICE, cu.device_get(&dev, 3));
	is(KCU_E_INVALID_DEVICE, cu.device_get(&dev, -1));
	ok(cu.device_get_name(name, sizeof(name), 1));
	cr_expect(*name);
	for (int i = 0; i < 2; i++) {
		ok(cu.device_get_uuid(&uuid[i], i));
		ok(cu.device_get_pci_bus_id(pci[i], sizeof(pci[i]), i));
	}
	cr_expect(memcmp(&uuid[0], &uuid[1], sizeof(uuid[0])));
	cr_expect_str_eq(pci[0], "0000:01:00.0");
	cr_expect_str_neq(pci[0], pci[1]);
	is(KCU_E_INVALID_VALUE, cu.device_get_pci_bus_id(pci[0], 5, 0));
}

Test(basic, attributes_follow_the_options)
{
	size_t bytes = 0;
	int value = -1;

	start("cc=86,mem=64M,vmm=0");
	ok(cu.device_total_mem(&bytes, 0));
	cr_expect_eq(bytes, 64 * MIB);
	ok(cu.device_get_attribute(&value, KCU_ATTR_CC_MAJOR, 0));
	cr_expect_eq(value, 8);
	ok(cu.device_get_attribute(&value, KCU_ATTR_CC_MINOR, 0));
	cr_expect_eq(value, 6);
	ok(cu.device_get_attribute(&value, KCU_ATTR_VMM, 0));
	cr_expect_eq(value, 0);
	ok(cu.device_get_attribute(&value, KCU_ATTR_UVA, 0));
	cr_expect_eq(value, 1);
	ok(cu.device_get_attribute(&value, KCU_ATTR_HANDLE_FABRIC, 0));
	cr_expect_eq(value, 0);
	is(KCU_E_INVALID_DEVICE, cu.device_get_attribute(&value, KCU_ATTR_UVA, 1));
	is(KCU_E_INVALID_VALUE, cu.device_get_attribute(&value, 0, 0));
}

Test(basic, context_is_counted)
{
	kcu_context ctx = NULL, again = NULL;
	unsigned int flags = 7;
	int active = -1;

	load("");
	ok(cu.init(0));
	ok(cu.primary_ctx_get_state(0, &flags, &active));
	cr_expect_eq(active, 0);
	cr_expect_eq(flags, 0);
	ok(cu.primary_ctx_retain(&ctx, 0));
	ok(cu.primary_ctx_retain(&again, 0));
	cr_expect_eq(ctx, again);
	ok(cu.primary_ctx_release(0));
	ok(cu.primary_ctx_get_state(0, &flags, &active));
	cr_expect_eq(active, 1);
	ok(cu.primary_ctx_release(0));
	ok(cu.primary_ctx_get_state(0, &flags, &active));
	cr_expect_eq(active, 0);
	is(KCU_E_INVALID_CONTEXT, cu.primary_ctx_release(0));
	is(KCU_E_INVALID_CONTEXT, cu.ctx_push_current(ctx));
}

Test(basic, calls_need_a_context)
{
	kcu_deviceptr addr;
	kcu_stream stream;

	load("");
	ok(cu.init(0));
	is(KCU_E_INVALID_CONTEXT, cu.mem_alloc(&addr, 1));
	is(KCU_E_INVALID_CONTEXT, cu.stream_create_with_priority(&stream, 1, 0));
}

Test(basic, a_forked_child_has_no_driver)
{
	int count, status;
	pid_t pid;

	start("");
	pid = fork();
	if (!pid)
		_exit(cu.device_get_count(&count));
	waitpid(pid, &status, 0);
	cr_expect(WIFEXITED(status));
	cr_expect_eq(WEXITSTATUS(status), KCU_E_NOT_INITIALIZED);
	ok(cu.device_get_count(&count));
}

static char said[256];

static void keep(void *arg, const char *line)
{
	snprintf(said, sizeof(said), "%s", line);
}

/* What is wrong is named, and nothing is started. */
static void refuses(const char *options, const char *word)
{
	cr_expect_eq(ctl->reset(options), -EINVAL, "%s", options);
	said[0] = 0;
	is(KCU_E_INVALID_VALUE, cu.init(0));
	cr_expect_not_null(strstr(said, word), "%s: %s", options, said);
}

Test(basic, bad_options_are_named)
{
	load("");
	ctl->set_log(keep, NULL);
	refuses("nonsense=1", "nonsense=1");
	refuses("seed", "seed");
	refuses("devices=9", "devices=9");
	refuses("mem=12X", "mem=12X");
	refuses("mem=1", "mem=1");
	refuses("fail=cuNothing:1:2", "cuNothing");
	refuses("fail=cuMemAlloc_v2:0:2", "cuMemAlloc_v2:0:2");
	refuses("fail=cuMemAlloc_v2:1", "cuMemAlloc_v2:1");
	refuses("missing=cuNo", "cuNo");
	refuses("seed=99999999999999999999", "seed=9");
	refuses("=", "=");
	cr_expect_eq(ctl->reset(",seed=3,,devices=2"), 0);
	ok(cu.init(0));
}

Test(basic, missing_names_are_not_found)
{
	load("missing=cuMemMap,missing=cuLaunchKernel");
	cr_expect_null(cu.mem_map);
	cr_expect_null(cu.launch_kernel);
	cr_expect_not_null(cu.mem_unmap);
	ok(cu.init(0));
}

Test(basic, an_old_driver_lacks_newer_calls)
{
	load("driver=12080");
	cr_expect_not_null(cu.memcpy_batch_async_v12);
	cr_expect_null(cu.memcpy_batch_async_v13);
}

static void *ask(const char *name, int version)
{
	kcu_proc_status status = 77;
	void *fn = NULL;
	kcu_result rc = get_proc(name, &fn, version, 0, &status);

	cr_expect_eq(rc, fn ? KCU_E_SUCCESS : KCU_E_NOT_FOUND);
	cr_expect_eq(status, fn ? KCU_PROC_OK : KCU_PROC_NOT_FOUND);
	return fn;
}

Test(basic, calls_are_also_found_by_the_version_they_came_with)
{
	void *fn = NULL;

	load("");
	cr_expect_eq(ask("cuMemAlloc", 3020), (void *)cu.mem_alloc);
	cr_expect_eq(ask("cuMemcpyBatchAsync", 12080), (void *)cu.memcpy_batch_async_v12);
	cr_expect_eq(ask("cuMemcpyBatchAsync", 12090), (void *)cu.memcpy_batch_async_v12);
	cr_expect_eq(ask("cuMemcpyBatchAsync", 13000), (void *)cu.memcpy_batch_async_v13);
	cr_expect_null(ask("cuMemcpyBatchAsync", 12070));
	cr_expect_null(ask("cuMemAlloc_v2", 3020));
	cr_expect_null(ask("cuMem", 13000));
	is(KCU_E_INVALID_VALUE, get_proc("cuInit", &fn, 13010, 0, NULL));
}

Test(basic, hidden_calls_are_found_that_way_only)
{
	load("hidden=cuMemMap,missing=cuMemUnmap");
	cr_expect_null(cu.mem_map);
	cr_expect_not_null(ask("cuMemMap", 10020));
	cr_expect_null(cu.mem_unmap);
	cr_expect_null(ask("cuMemUnmap", 10020));
}

Test(basic, where_a_call_is_missing_the_older_one_is_found)
{
	load("missing=cuMemcpyBatchAsync_v2");
	cr_expect_null(cu.memcpy_batch_async_v13);
	cr_expect_eq(ask("cuMemcpyBatchAsync", 13000), (void *)cu.memcpy_batch_async_v12);
}
