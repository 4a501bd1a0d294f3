// SPDX-License-Identifier: Apache-2.0
/*
 * kvmm_device_get_info(): on the host, and on the software driver, which is told what to be. Each
 * test is a process of its own, so each loads the driver anew.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <kv/log.h>

#include "tests/support/fake_env.h"
#include "tests/support/test.h"

#define NO_LIBRARY	"./no-such-driver.so"
#define SW_LIBRARY	"./libkvmm-swcuda.so"
#define PATH(path)	(1u << KVMM_PATH_##path)

static struct kvmm_device_info info;

/* Tests are started in a way that hides the folder of their program. */
static void name_driver(void)
{
	setenv("KVMM_SOFT_DRIVER", SW_LIBRARY, 1);
}

TestSuite(device_info, .init = name_driver);

/* Nothing that was there before may be there afterwards. */
static int look(const char *device)
{
	memset(&info, 0xee, sizeof(info));
	info.size = sizeof(info);
	return kvmm_device_get_info(device, &info);
}

static void expect_nothing(const char *why)
{
	struct kvmm_device_info nothing = { .size = sizeof(nothing) };

	cr_expect(strstr(info.why, why), "'%s' is not about '%s'", info.why, why);
	memcpy(nothing.why, info.why, sizeof(nothing.why));
	cr_expect(!memcmp(&info, &nothing, sizeof(info)));
	cr_expect_eq(kv_mem_bytes(), 0);
}

static void look_at_soft(const char *options)
{
	setenv("KVMM_SWCUDA", options, 1);
	cr_assert_eq(look("soft:0"), 0, "%s", info.why);
	cr_expect_str_eq(info.why, "");
	cr_expect_eq(kv_mem_bytes(), 0);
}

Test(device_info, host_is_memory_without_a_card)
{
	cr_assert_eq(look("host"), 0);
	cr_expect_eq(info.size, sizeof(info));
	cr_expect_str_eq(info.device, "host");
	cr_expect_str_eq(info.driver, "host");
	cr_expect_str_eq(info.card, "");
	cr_expect_eq(info.nr_devices, 1);
	cr_expect_eq(info.numa_node, -1);
	cr_expect_eq(info.total_bytes,
		     (u64)sysconf(_SC_PHYS_PAGES) * (u64)sysconf(_SC_PAGESIZE));
	cr_expect_gt(info.free_bytes, 0);
	cr_expect_lt(info.free_bytes, info.total_bytes);
	cr_expect_eq(info.features | info.paths | info.nr_sms | info.driver_version, 0);
	cr_expect_eq(info.step[KVMM_COPY_LOCAL][0].path, KVMM_PATH_NONE);
}

Test(device_info, soft_is_what_the_driver_was_told_to_be)
{
	look_at_soft("devices=3,mem=512M,driver=12080,cc=75");
	cr_expect_str_eq(info.device, "soft:0");
	cr_expect_str_eq(info.driver, "soft");
	cr_expect_str_eq(info.card, "kvmm software device 0");
	cr_expect_str_eq(info.pci_id, "0000:01:00.0");
	cr_expect(!memcmp(info.uuid, "kvmm-swcuda-dev0", 16));
	cr_expect_eq(info.driver_version, 12080);
	cr_expect_eq(info.cc_major, 7);
	cr_expect_eq(info.cc_minor, 5);
	cr_expect_gt(info.nr_sms, 0);
	cr_expect_eq(info.nr_devices, 3);
	cr_expect_eq(info.total_bytes, 512ull << 20);
	cr_expect_gt(info.free_bytes, 400ull << 20);
	cr_expect_lt(info.free_bytes, info.total_bytes);
	cr_expect_eq(info.granule_bytes, 2ull << 20);
	cr_expect_geq(info.good_granule_bytes, info.granule_bytes);
	cr_expect(info.features & KVMM_DEVICE_VMM);
	cr_expect(info.features & KVMM_DEVICE_BATCH);
	cr_expect(info.features & KVMM_DEVICE_POSIX_FD);
	cr_expect(!(info.features & KVMM_DEVICE_FABRIC));
	cr_expect_eq(info.paths, PATH(KERNEL) | PATH(BATCH) | PATH(SINGLE));
}

Test(device_info, number_chooses_the_device)
{
	setenv("KVMM_SWCUDA", "devices=3", 1);
	cr_assert_eq(look("soft:2"), 0);
	cr_expect_str_eq(info.device, "soft:2");
	cr_expect_str_eq(info.card, "kvmm software device 2");
	cr_expect(!memcmp(info.uuid, "kvmm-swcuda-dev2", 16));
	cr_assert_eq(look("soft"), 0);
	cr_expect_str_eq(info.device, "soft:0", "without a number it is the first");
}

Test(device_info, what_is_missing_is_no_feature)
{
	look_at_soft("vmm=0,driver=11040,missing=cuStreamWaitValue64_v2");
	cr_expect_eq(info.features & (KVMM_DEVICE_VMM | KVMM_DEVICE_POSIX_FD), 0);
	cr_expect_eq(info.features & (KVMM_DEVICE_BATCH | KVMM_DEVICE_MEMOPS), 0);
	cr_expect_eq(info.granule_bytes | info.good_granule_bytes, 0);
	cr_expect_eq(info.paths, PATH(KERNEL) | PATH(SINGLE), "no batches before CUDA 12.8");
	for (u32 dir = 0; dir < KVMM_NR_COPY_DIRS; dir++)
		cr_expect_eq(info.cost[dir][KVMM_PATH_BATCH].mib_per_s, 0);
}

Test(device_info, refused_kernels_are_no_path)
{
	look_at_soft("jit=INVALID_PTX");
	cr_expect_eq(info.paths, PATH(BATCH) | PATH(SINGLE));
	cr_expect_eq(info.cost[KVMM_COPY_LOCAL][KVMM_PATH_KERNEL].mib_per_s, 0);
	cr_expect_neq(info.step[KVMM_COPY_LOCAL][0].path, KVMM_PATH_KERNEL);
}

/* A microsecond goes by whenever somebody looks. */
static u64 ticking_clock_ns(void *ctx)
{
	static u64 ns;			/* one thread */

	return ns += 1000;
}

static void expect_rising(const struct kvmm_path_step *step)
{
	cr_expect_eq(step[0].from_bytes, 0);
	cr_expect_neq(step[0].path, KVMM_PATH_NONE);
	cr_expect_eq(step[KVMM_NR_PATHS - 1].path, KVMM_PATH_NONE);
	for (u32 i = 1; step[i].path; i++) {
		cr_expect_gt(step[i].from_bytes, step[i - 1].from_bytes);
		cr_expect_neq(step[i].path, step[i - 1].path);
	}
}

Test(device_info, costs_are_measured_and_steps_rise)
{
	struct fake_env fake;

	fake_env_install(&fake);
	fake.ops.clock_ns = ticking_clock_ns;
	look_at_soft("");
	for (u32 dir = 0; dir < KVMM_NR_COPY_DIRS; dir++) {
		expect_rising(info.step[dir]);
		cr_expect_eq(info.cost[dir][KVMM_PATH_NONE].mib_per_s, 0);
		for (u32 path = KVMM_PATH_KERNEL; path < KVMM_NR_PATHS; path++) {
			cr_expect_gt(info.cost[dir][path].mib_per_s, 0);
			cr_expect_gt(info.cost[dir][path].call_ns, 0);
		}
	}
	fake_env_remove(&fake);
}

static void expect_steps(u32 dir, u32 first, u64 from_bytes, u32 second)
{
	const struct kvmm_path_step *step = info.step[dir];

	cr_expect_eq(step[0].path, first);
	cr_expect_eq(step[1].from_bytes, from_bytes);
	cr_expect_eq(step[1].path, second);
	cr_expect_eq(step[2].path, KVMM_PATH_NONE);
}

/*
 * Time stands still, nothing is measured, and the defaults decide. A launch takes 4 us and goes on
 * at 30000 MiB/s; 256 entries of a batch take 205 us and go at 45000: as long at 72 KiB a piece.
 * Single calls take 589 us: 210 KiB.
 */
Test(device_info, steps_are_where_the_expected_times_meet)
{
	struct fake_env fake;

	fake_env_install(&fake);
	look_at_soft("");
	for (u32 path = 0; path < KVMM_NR_PATHS; path++)
		cr_expect_eq(info.cost[KVMM_COPY_TO_DEVICE][path].mib_per_s, 0, "not measured");
	expect_steps(KVMM_COPY_LOCAL, KVMM_PATH_KERNEL, 0, KVMM_PATH_NONE);
	expect_steps(KVMM_COPY_TO_DEVICE, KVMM_PATH_KERNEL, 128 << 10, KVMM_PATH_BATCH);
	fake_env_remove(&fake);
}

Test(device_info, without_batches_the_steps_are_others)
{
	struct fake_env fake;

	fake_env_install(&fake);
	look_at_soft("driver=12000");
	expect_steps(KVMM_COPY_TO_DEVICE, KVMM_PATH_KERNEL, 256 << 10, KVMM_PATH_SINGLE);
	fake_env_remove(&fake);
}

Test(device_info, cuda_is_the_library_that_is_named)
{
	setenv("KVMM_CUDA_DRIVER", SW_LIBRARY, 1);
	setenv("KVMM_SWCUDA", "", 1);
	cr_assert_eq(look("cuda:0"), 0, "%s", info.why);
	cr_expect_str_eq(info.device, "cuda:0");
	cr_expect_str_eq(info.driver, "cuda");
	cr_expect_str_eq(info.card, "kvmm software device 0");
}

Test(device_info, missing_driver_is_named)
{
	setenv("KVMM_CUDA_DRIVER", NO_LIBRARY, 1);
	setenv("KVMM_SOFT_DRIVER", NO_LIBRARY, 1);
	cr_expect_eq(look("cuda:0"), -ENODEV);
	expect_nothing(NO_LIBRARY);
	cr_expect_eq(look("soft:3"), -ENODEV);
	expect_nothing(NO_LIBRARY);
}

Test(device_info, drivers_refusal_is_named)
{
	setenv("KVMM_SWCUDA", "devices=0", 1);
	cr_expect_eq(look("soft:0"), -ENODEV);
	expect_nothing("CUDA_ERROR_NO_DEVICE");
}

Test(device_info, number_that_is_not_there_is_named)
{
	setenv("KVMM_SWCUDA", "devices=2", 1);
	cr_expect_eq(look("soft:2"), -ENODEV);
	expect_nothing("the driver has 2");
	cr_expect_eq(look("host:1"), -ENODEV);
	expect_nothing("no such device");
}

Test(device_info, lost_device_is_an_error)
{
	setenv("KVMM_SWCUDA", "fail=cuMemGetInfo_v2:1:ILLEGAL_ADDRESS", 1);
	cr_expect_eq(look("soft:0"), -EIO);
	cr_expect(strstr(info.why, "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", info.why);
	cr_expect_str_eq(info.card, "");
}

Test(device_info, unknown_free_memory_is_no_error)
{
	look_at_soft("fail=cuMemGetInfo_v2:1:NOT_SUPPORTED");
	cr_expect_eq(info.free_bytes, 0);
	cr_expect_gt(info.total_bytes, 0);
}

Test(device_info, names_that_no_device_has)
{
	static const char *const names[] = {
		"", ":", "gpu:0", "soft:", "soft:x", "soft:10", "soft:-1", "soft:0 ", "Soft:0", "softy",
	};

	for (u32 i = 0; i < ARRAY_SIZE(names); i++) {
		cr_expect_eq(look(names[i]), -ENOENT, "'%s'", names[i]);
		expect_nothing("of that name");
	}
}

Test(device_info, null_is_refused)
{
	info.size = sizeof(info);
	cr_expect_eq(kvmm_device_get_info(NULL, &info), -EINVAL);
	cr_expect_eq(kvmm_device_get_info("host", NULL), -EINVAL);
}

Test(device_info, sizes_that_are_none_are_refused)
{
	static const size_t sizes[] = { 0, 7, 9, sizeof(info) + 1, 1 << 20, SIZE_MAX };

	for (u32 i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct kvmm_device_info before;

		memset(&info, 0xee, sizeof(info));
		info.size = sizes[i];
		before = info;
		cr_expect_eq(kvmm_device_get_info("host", &info), -EINVAL);
		cr_expect(!memcmp(&before, &info, sizeof(info)), "nothing is written");
	}
}

Test(device_info, older_caller_gets_what_it_has_room_for)
{
	size_t size = offsetof(struct kvmm_device_info, card);

	memset(&info, 0xee, sizeof(info));
	info.size = size;
	cr_assert_eq(kvmm_device_get_info("host", &info), 0);
	cr_expect_eq(info.size, size);
	cr_expect_str_eq(info.driver, "host");
	for (size_t i = size; i < sizeof(info); i++)
		cr_assert_eq(((u8 *)&info)[i], 0xee);
}

Test(device_info, newer_caller_gets_zeros_behind)
{
	struct {
		struct kvmm_device_info info;
		u64 more[4];
	} newer;

	memset(&newer, 0xee, sizeof(newer));
	newer.info.size = sizeof(newer);
	cr_assert_eq(kvmm_device_get_info("host", &newer.info), 0);
	cr_expect_eq(newer.info.size, sizeof(newer));
	cr_expect_gt(newer.info.total_bytes, 0);
	for (u32 i = 0; i < ARRAY_SIZE(newer.more); i++)
		cr_expect_eq(newer.more[i], 0);
}

/* Everybody else's log goes on as before, and nothing is kept once the call is over. */
Test(device_info, log_is_heard_by_its_listener_too)
{
	struct fake_env fake;

	fake_env_install(&fake);
	setenv("KVMM_CUDA_DRIVER", NO_LIBRARY, 1);
	cr_expect_eq(look("cuda:0"), -ENODEV);
	cr_expect(strstr(fake.line, NO_LIBRARY));
	cr_expect(strstr(fake.line, info.why), "the same but for the prefix");
	kv_log(KV_LOG_INFO, "another line");
	cr_expect(strstr(info.why, NO_LIBRARY));
	fake_env_remove(&fake);
}

Test(device_info, nothing_is_left_when_memory_runs_out)
{
	struct fake_env fake;
	u32 nr_refused = 0;
	u64 nth = 0;

	setenv("KVMM_SWCUDA", "", 1);
	fake_env_install(&fake);
	do {
		int err;

		fake_env_fail(&fake, ++nth, false);
		err = look("soft:0");
		cr_assert(!err || err == -ENOMEM, "%d", err);
		cr_expect_str_eq(info.why, err ? kvmm_strerror(err) : "");
		cr_expect_eq(fake.nr_live, 0);
		nr_refused += !!err;
	} while (fake_env_failed(&fake));
	cr_expect_gt(nr_refused, 2);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

Test(device_info, forked_child_has_no_device)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .device = "soft:0", .nr_blocks = 4,
				       .block_bytes = 4096 };
	struct kvmm_pool *pool;
	int status;
	pid_t pid;

	setenv("KVMM_SWCUDA", "", 1);
	cr_assert_eq(kvmm_pool_create(&attr, &pool), 0);
	pid = fork();
	if (!pid)
		_exit(look("soft:0") == -ECHILD && look("host") == 0 ? 0 : 1);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	kvmm_pool_destroy(pool);
}
