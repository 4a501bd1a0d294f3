/* SPDX-License-Identifier: Apache-2.0 */
/* What all steps of the tutorial have beside kvmm: errors that end the program, and a stream. */
#ifndef TUTORIAL_H
#define TUTORIAL_H

#include <dlfcn.h>
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In an engine a request waits or ends; here the first error ends all. */
static inline int must(int err, const char *call)
{
	if (err < 0) {
		fprintf(stderr, "%s: %s %s\n", call, kvmm_strerror(err), kvmm_why());
		exit(1);
	}
	return err;
}

#define MUST(call)	({ int result = call; must(result, #call); })

/* A stream of the driver that kvmm has opened for the device; engines have one. "host" has none. */
static inline void *new_stream(const char *device)
{
	int (*retain)(void **context, int ordinal), (*push)(void *context);
	int (*create)(void **stream, unsigned int flags, int priority);
	const char *ordinal = strchr(device, ':');
	void *context, *stream, *driver;

	driver = dlopen(strncmp(device, "soft", 4) ? "libcuda.so.1" : "libkvmm-swcuda.so",
			RTLD_NOW | RTLD_NOLOAD);
	if (!strcmp(device, "host") || !driver)
		return NULL;
	*(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
	*(void **)&create = dlsym(driver, "cuStreamCreateWithPriority");
	return retain(&context, ordinal ? atoi(ordinal + 1) : 0) || push(context) ||
	       create(&stream, 1, 0) ? NULL : stream;
}

#endif
