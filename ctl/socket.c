// SPDX-License-Identifier: Apache-2.0
/*
 * Where a control socket is. The folder decides which users get in, so it has to be the user's
 * alone; the name is a file name and nothing else.
 */
#include <stdio.h>
#include <string.h>

#include <kv/buf.h>
#include <kv/log.h>
#include <kv/sys.h>

#include "control.h"

#define ALLOWED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static int take_name(struct kvmm_control *control)
{
	const char *name = control->attr.name;
	char text[64];
	size_t len;
	int pid = 0;

	if (!name) {
		if (!kv_sys()->read_file(kv_sys()->ctx, "/proc/self/stat", text, sizeof(text)))
			sscanf(text, "%d", &pid);
		if (pid > 0)
			snprintf(control->name, sizeof(control->name), "kvmm-%d", pid);
		else
			snprintf(control->name, sizeof(control->name), "kvmm");
		return 0;
	}
	len = strlen(name);
	if (!len || len >= sizeof(control->name) || name[0] == '.' || name[strspn(name, ALLOWED)])
		return kv_refuse(-EINVAL, "kvmm: control: the name is not 1 to %u of letters, "
				 "digits, ._-", KVMM_CONTROL_NAME - 1);
	memcpy(control->name, name, len);
	return 0;
}

/* Into @dir. One that is too long is cut, and leaves no room for the name of the socket. */
static void find_folder(const struct kvmm_control *control, char *dir, size_t bytes)
{
	const struct kv_sys_ops *sys = kv_sys();
	const char *given = control->attr.dir;
	const char *mine = sys->getenv(sys->ctx, "XDG_RUNTIME_DIR");

	if (!given)
		given = sys->getenv(sys->ctx, "KVMM_SOCKET_DIR");
	if (given && *given)
		snprintf(dir, bytes, "%s", given);
	else if (mine && *mine)
		snprintf(dir, bytes, "%s/kvmm", mine);
	else
		snprintf(dir, bytes, "/run/kvmm");
}

int control_listen(struct kvmm_control *control)
{
	const struct kv_sock_ops *ops = kv_sock();
	char dir[sizeof(control->path)];
	int err = take_name(control), len;

	if (err)
		return err;
	find_folder(control, dir, sizeof(dir));
	len = snprintf(control->path, sizeof(control->path), "%s/%s.sock", dir, control->name);
	if (len < 0 || (size_t)len >= sizeof(control->path))
		return -ENAMETOOLONG;
	if (!kv_name_is_good("socket", control->path, sizeof(control->path)))
		return -EINVAL;
	err = ops->folder(ops->ctx, dir);
	if (err)
		return kv_refuse(err, "kvmm: control: the folder %s: %s", dir, kvmm_strerror(err));
	control->fd = ops->listen(ops->ctx, control->path);
	if (control->fd < 0)
		return kv_refuse(control->fd, "kvmm: control: %s: %s", control->path,
				 kvmm_strerror(control->fd));
	return 0;
}
