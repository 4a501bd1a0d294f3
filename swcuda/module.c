// SPDX-License-Identifier: Apache-2.0
/*
 * Modules: PTX text in, functions out. The text is not executed: its entry points are found among
 * the kernels that were compiled for the host, and must have as many parameters.
 */
#include "internal.h"

struct module {
	u64 handle;
	struct sw_function *first;
};

/* The caller's buffer for messages, if there is one among the options. */
static void tell_jit(unsigned int nr, const kcu_jit_option *options, void **values,
		     const char *text)
{
	char *log = NULL;
	size_t bytes = 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (options[i] == KCU_JIT_ERROR_LOG)
			log = values[i];
		if (options[i] == KCU_JIT_ERROR_LOG_BYTES)
			bytes = (size_t)(uintptr_t)values[i];
	}
	if (log && bytes)
		snprintf(log, bytes, "%s", text);
}

/* ".version 9.0": 7.0 came with CUDA 11.0, and so on; before that the numbers ran otherwise. */
static bool is_too_new(const char *text)
{
	unsigned int major, minor;
	const char *at = strstr(text, ".version");
	int driver = sw.opt.driver;

	if (!at || sscanf(at + strlen(".version"), "%u.%u", &major, &minor) != 2)
		return false;
	return major >= 7 && (int)((major + 4) * 1000 + minor * 10) > driver;
}

static kcu_result bind(struct module *module, char *why, size_t bytes)
{
	for (struct sw_function *fn = module->first; fn; fn = fn->next) {
		fn->kernel = sw_kernel_find(fn->name);
		if (fn->kernel && fn->kernel->nr_params != fn->nr_params) {
			snprintf(why, bytes, "%s: %u parameters in the text, %u in the kernel",
				 fn->name, fn->nr_params, fn->kernel->nr_params);
			return KCU_E_INVALID_PTX;
		}
		fn->handle = sw_object_add(SW_T_FUNCTION, fn);
		if (!fn->handle)
			return KCU_E_OUT_OF_MEMORY;
	}
	return KCU_E_SUCCESS;
}

static void module_free(struct module *module)
{
	for (struct sw_function *fn = module->first; fn; fn = fn->next)
		if (fn->handle)
			sw_object_del(fn->handle);
	sw_functions_free(module->first);
	if (module->handle) {
		sw_object_del(module->handle);
		sw.live.nr_modules--;
	}
	free(module);
}

static kcu_result read_image(struct module *module, const char *image, char *why, size_t bytes)
{
	int err;

	if (sw.opt.jit) {
		snprintf(why, bytes, "refused by option jit=%d", sw.opt.jit);
		return sw.opt.jit;
	}
	if (is_too_new(image)) {
		snprintf(why, bytes, "PTX newer than driver %d", sw.opt.driver);
		return KCU_E_UNSUPPORTED_PTX_VERSION;
	}
	err = sw_ptx_parse(image, &module->first);
	if (err == -ENOMEM)
		return KCU_E_OUT_OF_MEMORY;
	if (err) {
		snprintf(why, bytes, "not PTX, or without an entry");
		return KCU_E_INVALID_PTX;
	}
	return bind(module, why, bytes);
}

static kcu_result load(kcu_module *handle, const char *image, unsigned int nr,
		       const kcu_jit_option *options, void **values)
{
	struct module *module;
	char why[160] = "out of memory";
	kcu_result rc;

	if (!handle || !image || (nr && (!options || !values)))
		return KCU_E_INVALID_VALUE;
	module = calloc(1, sizeof(*module));
	if (!module)
		return KCU_E_OUT_OF_MEMORY;
	rc = read_image(module, image, why, sizeof(why));
	if (rc) {
		tell_jit(nr, options, values, why);
		module_free(module);
		return rc;
	}
	module->handle = sw_object_add(SW_T_MODULE, module);
	if (!module->handle) {
		module_free(module);
		return KCU_E_OUT_OF_MEMORY;
	}
	sw.live.nr_modules++;
	*handle = (kcu_module)module->handle;
	return KCU_E_SUCCESS;
}

kcu_result cuModuleLoadDataEx(kcu_module *module, const void *image, unsigned int nr,
			      kcu_jit_option *options, void **values)
{
	return SW_RUN(cuModuleLoadDataEx, SW_INIT | SW_CTX | SW_UNSAFE,
		      load(module, image, nr, options, values));
}

kcu_result cuModuleLoadData(kcu_module *module, const void *image)
{
	return SW_RUN(cuModuleLoadData, SW_INIT | SW_CTX | SW_UNSAFE, load(module, image, 0, NULL, NULL));
}

/* Launches that are queued do not mind: they have the kernel and a copy of their parameters. */
static kcu_result unload(kcu_module handle)
{
	struct module *module = sw_object(SW_T_MODULE, (u64)handle);

	if (!module)
		return KCU_E_INVALID_HANDLE;
	module_free(module);
	return KCU_E_SUCCESS;
}

kcu_result cuModuleUnload(kcu_module module)
{
	return SW_RUN(cuModuleUnload, SW_INIT | SW_CTX | SW_UNSAFE, unload(module));
}

static kcu_result get_function(kcu_function *handle, kcu_module module_handle, const char *name)
{
	struct module *module = sw_object(SW_T_MODULE, (u64)module_handle);

	if (!module)
		return KCU_E_INVALID_HANDLE;
	if (!handle || !name)
		return KCU_E_INVALID_VALUE;
	for (struct sw_function *fn = module->first; fn; fn = fn->next) {
		if (strcmp(fn->name, name))
			continue;
		if (!fn->kernel)
			sw_log("no kernel %s was compiled for the host", name);
		*handle = (kcu_function)fn->handle;
		return fn->kernel ? KCU_E_SUCCESS : KCU_E_NOT_FOUND;
	}
	return KCU_E_NOT_FOUND;
}

kcu_result cuModuleGetFunction(kcu_function *fn, kcu_module module, const char *name)
{
	return SW_RUN(cuModuleGetFunction, SW_INIT | SW_CTX, get_function(fn, module, name));
}

static void forget_module(enum sw_type type, void *object)
{
	if (type == SW_T_MODULE)
		module_free(object);
}

void sw_modules_exit(void)
{
	sw_for_each_object(forget_module);
}
