// SPDX-License-Identifier: Apache-2.0
/* Kernels of programs, <kvmm/ext/device.h>: they run, they are checked, and only good ones are taken. */
#include <dlfcn.h>
#include <kvmm/ext/device.h>

#include "driver.h"

#define NR_THREADS	24u
#define TEXT		".version 6.0\n.target sm_70\n.address_size 64\n" \
			".entry count(.param .u64 count_param_0) {}\n"

static kvmm_soft_kernel_add_fn find_add(void)
{
	void *library = dlopen("./libkvmm-swcuda.so", RTLD_NOW | RTLD_NOLOAD);
	void *found = library ? dlsym(library, KVMM_SOFT_KERNEL_ADD) : NULL;
	kvmm_soft_kernel_add_fn add;

	cr_assert(found);
	memcpy(&add, &found, sizeof(add));
	return add;
}

static void count_run(const struct kvmm_soft_kernel *kernel,
		      const struct kvmm_soft_thread *thread, void **params)
{
	(*(u32 **)params[0])[thread->nr] += thread->grid[0] * 100 + thread->block[0];
}

static void count_access(const struct kvmm_soft_kernel *kernel, void **params,
			 kvmm_soft_touch_fn touch, void *list)
{
	touch(list, *(u64 *)params[0], NR_THREADS * sizeof(u32), 1);
}

static const struct kvmm_soft_kernel count = {
	.size = sizeof(count), .name = "count", .nr_params = 1, .run = count_run,
	.access = count_access,
};

static void launch_count(kcu_deviceptr addr, kcu_stream stream)
{
	void *params[] = { &addr };
	kcu_module module;
	kcu_function fn;

	ok(cu.module_load_data_ex(&module, TEXT, 0, NULL, NULL));
	ok(cu.module_get_function(&fn, module, "count"));
	ok(cu.launch_kernel(fn, 3, 1, 1, 8, 1, 1, 0, stream, params, NULL));
}

Test(program, each_thread_of_its_kernel_runs_once)
{
	kcu_deviceptr addr;
	kcu_stream stream;

	start("");
	cr_assert_eq(find_add()(&count), 0);
	addr = dev_alloc(NR_THREADS * sizeof(u32));
	stream = stream_new();
	fill(addr, 0, NR_THREADS * sizeof(u32), stream);
	launch_count(addr, stream);
	finish(stream);
	for (u32 i = 0; i < NR_THREADS; i++)
		cr_expect_eq(((u32 *)addr)[i], 308);
	cr_expect_eq(races(), 0);
}

Test(program, its_kernel_is_seen_by_the_race_checker)
{
	kcu_stream one, two;
	kcu_deviceptr addr;

	start("");
	cr_assert_eq(find_add()(&count), 0);
	addr = dev_alloc(NR_THREADS * sizeof(u32));
	one = stream_new();
	two = stream_new();
	launch_count(addr, one);
	fill(addr, 0, 4, two);
	finish(one);
	finish(two);
	cr_expect_eq(races(), 1);
	ctl->clear_reports();
}

Test(program, only_good_kernels_are_taken)
{
	struct kvmm_soft_kernel bad = count, own = count, many[40];
	char name[40][8];
	int err = 0;
	u32 nr = 0;

	start("");
	cr_expect_eq(find_add()(NULL), -EINVAL);
	bad.size--;
	cr_expect_eq(find_add()(&bad), -EINVAL);
	bad = count;
	bad.name = NULL;
	cr_expect_eq(find_add()(&bad), -EINVAL);
	bad = count;
	bad.run = NULL;
	cr_expect_eq(find_add()(&bad), -EINVAL);
	bad = count;
	bad.flags = 2;
	cr_expect_eq(find_add()(&bad), -EINVAL);

	cr_expect_eq(find_add()(&count), 0);
	cr_expect_eq(find_add()(&count), 0, "a second time");
	cr_expect_eq(find_add()(&own), -EEXIST);
	own.name = "kv_sum";
	cr_expect_eq(find_add()(&own), -EEXIST, "the library has that one");
	for (; nr < 40 && !err; nr += !err) {
		snprintf(name[nr], sizeof(name[nr]), "k%u", nr);
		many[nr] = count;
		many[nr].name = name[nr];
		err = find_add()(&many[nr]);
	}
	cr_expect_eq(err, -ENOSPC);
	cr_expect_eq(nr, 31);
}
