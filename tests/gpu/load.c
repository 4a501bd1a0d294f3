// SPDX-License-Identifier: Apache-2.0
/* E0: the driver, its features, the JIT on the committed text. */
#include "gpu.h"

#define FEATURE(group)	report_fact("calls " #group, "%s", \
				    gpu.cu->features & KCU_F_##group ? "yes" : "no");

static void attribute(const char *what, kcu_device_attr attr)
{
	int value = -1;

	gpu.cu->device_get_attribute(&value, attr, gpu.dev);
	report_fact(what, "%d", value);
}

static double load_ms(kcu_result *code)
{
	u64 before = now_ns();
	kcu_module module;

	*code = gpu.cu->module_load_data_ex(&module, kv_kernel_ptx, 0, NULL, NULL);
	if (!*code)
		CU(module_unload, module);
	return (now_ns() - before) / 1e6;
}

/* The first load was in gpu_open(); a driver caches what it made of it. */
static void time_loads(void)
{
	struct samples samples = { .nr = 0 };
	kcu_result code;

	for (u32 i = 0; i < wanted_runs(); i++) {
		add_sample(&samples, load_ms(&code));
		must_cu(code, "module_load_data_ex");
	}
	report("module_load_again", "ms", &samples, NULL, 0, "text=kernel.ptx");
}

static void refuse_future_version(void)
{
	static const char text[] = ".version 9.9\n.target sm_70\n.address_size 64\n"
				   ".visible .entry f()\n{\n\tret;\n}\n";
	kcu_module module;
	kcu_result code = gpu.cu->module_load_data_ex(&module, text, 0, NULL, NULL);

	report_fact("text of version 9.9", "%s (%d)", kcu_error_name(code), code);
	if (!code)
		CU(module_unload, module);
}

static void run(void)
{
	report_fact("driver version", "%d.%d", gpu.cu->driver_version / 1000,
		    gpu.cu->driver_version % 1000 / 10);
	attribute("compute capability, major", KCU_ATTR_CC_MAJOR);
	attribute("compute capability, minor", KCU_ATTR_CC_MINOR);
	attribute("multiprocessors", KCU_ATTR_SM_COUNT);
	attribute("L2 bytes", KCU_ATTR_L2_BYTES);
	attribute("copy engines", KCU_ATTR_ASYNC_ENGINES);
	attribute("virtual memory", KCU_ATTR_VMM);
	attribute("DMA-BUF", KCU_ATTR_DMA_BUF);
	KCU_OPTIONAL_GROUPS(FEATURE)
	time_loads();
	refuse_future_version();
}

const struct experiment experiment_load = {
	"E0", "driver, features, loading the kernels", run, 1,
};
