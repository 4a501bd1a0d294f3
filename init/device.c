// SPDX-License-Identifier: Apache-2.0
/* Devices by name, and their properties. */
#include <stdio.h>
#include <string.h>

#include <kv/cuda.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kvmm/ext/device.h>

#include "internal.h"

#define NO_SUCH_NAME	"no device of that name: host, cuda:0 to cuda:9, soft:0 to soft:9"

static const struct kv_dev_ops *const devices[] = {
	&kv_dev_host,
	&kv_dev_cuda,
	&kv_dev_soft,
};

int kv_find_device(const char *name, const struct kv_dev_ops **ops, u32 *number)
{
	size_t len = strcspn(name, ":");

	*number = 0;
	if (name[len]) {
		const char *digit = name + len + 1;

		if (*digit < '0' || *digit > '9' || digit[1])
			return -ENOENT;
		*number = *digit - '0';
	}
	for (u32 i = 0; i < ARRAY_SIZE(devices); i++) {
		if (strlen(devices[i]->name) != len || strncmp(devices[i]->name, name, len))
			continue;
		*ops = devices[i];
		return 0;
	}
	return -ENOENT;
}

static int look_at(const struct kv_dev_ops *ops, u32 number, struct kvmm_device_info *info)
{
	struct kv_dev *dev;
	int err = ops->open(number, &dev);

	if (err)
		return err;
	snprintf(info->driver, sizeof(info->driver), "%s", ops->name);
	snprintf(info->device, sizeof(info->device), number || ops != &kv_dev_host ? "%s:%u" : "%s",
		 ops->name, number);
	err = ops->info(dev, info);
	ops->close(dev);
	return err;
}

/* Other errors have other causes than the last line that was logged. */
static void say_why(struct kvmm_device_info *info, int err)
{
	const char *line = kvmm_why();
	bool is_told = *line && (err == -ENODEV || err == -EIO);
	const char *else_why = err == -ENOENT ? NO_SUCH_NAME : kvmm_strerror(err);

	*info = (struct kvmm_device_info){ 0 };
	snprintf(info->why, sizeof(info->why), "%s", is_told ? line : else_why);
}

int kvmm_device_get_info(const char *device, struct kvmm_device_info *info)
{
	struct kvmm_device_info full = { 0 };
	const struct kv_dev_ops *ops;
	u32 number;
	int err;

	kv_why_clear();
	/* As kv_copy_attr() has it, but that memory behind the size is not ours to read. */
	if (!device || kv_sized_is_bad(info))
		return -EINVAL;
	err = kv_find_device(device, &ops, &number);
	if (!err)
		err = look_at(ops, number, &full);
	if (err)
		say_why(&full, err);
	kv_give_sized(info, &full, sizeof(full));
	return err;
}
