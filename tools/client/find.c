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

/* The first of them is taken; the names of all say what could be meant. */
static int look_in(struct client *client, const char *dir, DIR *open)
{
	const struct dirent *entry;
	char names[192] = "";
	unsigned int nr = 0;
	size_t len = 0;

	while ((entry = readdir(open))) {
		if (!is_socket(entry->d_name))
			continue;
		if (!nr++ && (size_t)snprintf(client->path, sizeof(client->path), "%s/%s", dir,
					      entry->d_name) >= sizeof(client->path))
			return fail(client, dir, strerror(ENAMETOOLONG));
		if (len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, " %s", entry->d_name);
	}
	if (nr == 1)
		return 0;
	if (!nr)
		return fail(client, dir, "there is no socket; no engine serves one here");
	snprintf(client->why, sizeof(client->why),
		 "%s: there are several sockets:%s%s; name one by --socket", dir, names,
		 len < sizeof(names) ? "" : "...");
	return -1;
}

static int open_folder(struct client *client, const char *dir, DIR **open)
{
	*open = opendir(dir);
	if (*open)
		return 0;
	if (errno == ENOENT)
		return fail(client, dir, "there is no such folder; no engine serves a socket here");
	if (errno == EACCES)
		return fail(client, dir, "not permitted; only the engine's user and root may look");
	return fail(client, dir, strerror(errno));
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
	if (open_folder(client, dir, &open))
		return -1;
	ret = look_in(client, dir, open);
	closedir(open);
	return ret;
}
