// SPDX-License-Identifier: Apache-2.0
/* Which socket is meant, if none is named: the only one in the folder. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "find.h"

static int fail(struct client *client, const char *what, const char *why)
{
	snprintf(client->why, sizeof(client->why), "%s: %s", what, why);
	return -1;
}

static int find_folder(struct client *client, char *dir, size_t bytes)
{
	const char *given = getenv("KVMM_SOCKET_DIR"), *mine = getenv("XDG_RUNTIME_DIR");
	int len;

	if (given && *given)
		len = snprintf(dir, bytes, "%s", given);
	else if (mine && *mine)
		len = snprintf(dir, bytes, "%s/kvmm", mine);
	else
		len = snprintf(dir, bytes, "/run/kvmm");
	return (size_t)len < bytes ? 0 : fail(client, "the folder of sockets", strerror(ENAMETOOLONG));
}

static bool is_socket(const char *name)
{
	size_t len = strlen(name);

	return *name != '.' && len > 5 && !strcmp(name + len - 5, ".sock");
}

static int look_in(struct client *client, const char *dir, DIR *open)
{
	const struct dirent *entry;
	unsigned int nr = 0;

	while ((entry = readdir(open))) {
		if (!is_socket(entry->d_name))
			continue;
		if (nr++)
			return fail(client, dir, "there are several sockets; name one by --socket");
		if ((size_t)snprintf(client->path, sizeof(client->path), "%s/%s", dir,
				     entry->d_name) >= sizeof(client->path))
			return fail(client, dir, strerror(ENAMETOOLONG));
	}
	return nr ? 0 : fail(client, dir, "there is no socket: no engine serves one here");
}

int find_socket(struct client *client, const char *path)
{
	char dir[sizeof(client->path)];
	DIR *open;
	int ret;

	if (!path)
		path = getenv("KVMM_SOCKET");
	if (path && *path) {
		if (strlen(path) >= sizeof(client->path))
			return fail(client, path, strerror(ENAMETOOLONG));
		strcpy(client->path, path);
		return 0;
	}
	if (find_folder(client, dir, sizeof(dir)))
		return -1;
	open = opendir(dir);
	if (!open)
		return fail(client, dir, strerror(errno));
	ret = look_in(client, dir, open);
	closedir(open);
	return ret;
}
