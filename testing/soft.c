// SPDX-License-Identifier: Apache-2.0
/*
 * The software device: where its library is, what it shall do, what it has seen.
 *
 * kvmm opens the library by the path in KVMM_SOFT_DRIVER when the first pool of such a device is
 * made; it is opened here before, by the same path, and so it is the same one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <swcuda/control.h>

#include "internal.h"

#define LIBRARY		"libkvmm-swcuda.so"
#define PATH_VARIABLE	"KVMM_SOFT_DRIVER"
#define PATH_BYTES	4096

/* Beside the object that kvmm is in; false: that is a program, and there is none beside it. */
static bool path_beside(char *path)
{
	Dl_info info;
	const char *slash;
	void *library;

	if (!dladdr(dlsym(RTLD_DEFAULT, "kvmm_version"), &info) || !info.dli_fname)
		return false;
	slash = strrchr(info.dli_fname, '/');
	if (!slash || slash - info.dli_fname > PATH_BYTES - (int)sizeof("/" LIBRARY))
		return false;
	snprintf(path, PATH_BYTES, "%.*s/" LIBRARY, (int)(slash - info.dli_fname), info.dli_fname);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return library;
}

static void find_path(char *path)
{
	const char *named = getenv(PATH_VARIABLE);

	if (named && *named)
		snprintf(path, PATH_BYTES, "%s", named);
	else if (!path_beside(path))
		snprintf(path, PATH_BYTES, LIBRARY);
}

static int load(struct kvmm_testing *t)
{
	char path[PATH_BYTES];
	void *library;

	if (t->soft)
		return 0;
	find_path(path);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return bench_fail(t, -ENOENT, "%s", dlerror());
	t->soft = dlsym(library, "kvmm_swcuda_control");
	if (!t->soft || t->soft->bytes != sizeof(*t->soft)) {
		t->soft = NULL;
		return bench_fail(t, -ENOENT, "%s is of another version", path);
	}
	setenv(PATH_VARIABLE, path, 1);
	return 0;
}

static void keep_message(void *arg, const char *line)
{
	struct kvmm_testing *t = arg;

	snprintf(t->soft_line, sizeof(t->soft_line), "%s", line);
}

/* What is wrong in the options is said by cuInit() only, so a device is asked for. */
static int tell_options(struct kvmm_testing *t)
{
	struct kvmm_device_info info = { .size = sizeof(info) };

	t->soft->set_log(keep_message, t);
	kvmm_device_get_info("soft:0", &info);
	return bench_fail(t, -EINVAL, "%s", t->soft_line);
}

int kvmm_testing_soft(struct kvmm_testing *t, const char *options)
{
	struct sw_live live;
	int err = load(t);

	if (err)
		return err;
	t->soft->live(&live);
	if (live.nr_contexts)
		return bench_fail(t, -EBUSY, "a pool is on the software device");
	return t->soft->reset(options) ? tell_options(t) : 0;
}

int kvmm_testing_soft_fail(struct kvmm_testing *t, const char *call, uint32_t nth, int result,
			   int and_all_later)
{
	int err;

	if (!t->soft)
		return -EINVAL;
	err = t->soft->fail(call, nth, result, and_all_later, false);
	return err ? bench_fail(t, err, "failing %s", call) : 0;
}

void kvmm_testing_soft_fail_none(struct kvmm_testing *t)
{
	if (t->soft)
		t->soft->fail_none();
}

const char *kvmm_testing_soft_report(struct kvmm_testing *t, uint32_t i)
{
	return t->soft ? t->soft->report(i) : NULL;
}

void kvmm_testing_soft_forget(struct kvmm_testing *t)
{
	if (t->soft)
		t->soft->clear_reports();
}

void bench_end_soft(struct kvmm_testing *t)
{
	const char *text;

	for (uint32_t i = 0; (text = kvmm_testing_soft_report(t, i)); i++)
		bench_fail(t, 0, "software driver: %s", text);
	kvmm_testing_soft_forget(t);
	if (t->soft)
		t->soft->set_log(NULL, NULL);
}
