// SPDX-License-Identifier: Apache-2.0
/* Looking for devices. */
#include <errno.h>
#include <string.h>

#include "../plain.h"
#include "stat.h"

#define NR_NUMBERS	10u		/* of each driver that can be named */

const char *const feature_names[] = {
	"vmm", "batch", "peer", "dmabuf", "memops", "posix_fd", "fabric", NULL,
};

const char *const dir_names[KVMM_NR_COPY_DIRS] = {
	[KVMM_COPY_LOCAL]	= "local",
	[KVMM_COPY_TO_DEVICE]	= "to_device",
	[KVMM_COPY_TO_HOST]	= "to_host",
};

const char *const path_names[KVMM_NR_PATHS] = {
	[KVMM_PATH_NONE]	= "none",
	[KVMM_PATH_KERNEL]	= "kernel",
	[KVMM_PATH_BATCH]	= "batch",
	[KVMM_PATH_SINGLE]	= "single",
};

static struct seen *look_at(struct devices *devices, const char *name)
{
	struct seen *seen = &devices->seen[devices->nr++];

	*seen = (struct seen){ .info.size = sizeof(seen->info) };
	snprintf(seen->name, sizeof(seen->name), "%s", name);
	make_plain_word(seen->name);
	seen->err = kvmm_device_get_info(name, &seen->info);
	return seen;
}

/*
 * All numbers, since the first card may be somebody's alone. Shown are those that the driver says
 * it has, there or not, and the first one, which tells about the driver.
 */
static void look_at_driver(struct devices *devices, const char *driver)
{
	unsigned int first = devices->nr, nr = 1;

	for (unsigned int i = 0; i < NR_NUMBERS; i++) {
		const struct seen *seen;
		char name[32];

		snprintf(name, sizeof(name), "%s:%u", driver, i);
		seen = look_at(devices, name);
		if (!seen->err && seen->info.nr_devices > nr)
			nr = seen->info.nr_devices;
	}
	devices->nr = first + (nr < NR_NUMBERS ? nr : NR_NUMBERS);
}

unsigned int devices_find(struct devices *devices, const char *const *names, unsigned int nr)
{
	unsigned int nr_missing = 0;

	devices->nr = 0;
	for (unsigned int i = 0; i < nr; i++)
		nr_missing += !!look_at(devices, names[i])->err;
	if (nr)
		return nr_missing;
	look_at(devices, "host");
	look_at_driver(devices, "soft");
	look_at_driver(devices, "cuda");
	return 0;
}
