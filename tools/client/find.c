// SPDX-License-Identifier: Apache-2.0
/* Which socket is meant, if none is named: the only one in the folder. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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

/* What is left of an engine that has died: nobody listens there. */
static bool is_dead(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool dead;

	strcpy(addr.sun_path, path);
	dead = fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) && errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return dead;
}

/* Sockets of a folder. */
struct found {
	unsigned int nr;
	size_t len;
	char names[192];	/* as many as there is room for */
};

/* How many; the first of them is ->path. -1: one has too long a name. */
static int look_in(struct client *client, const char *dir, DIR *open, bool live, struct found *found)
{
	const struct dirent *entry;
	char path[sizeof(client->path)];

	*found = (struct found){ 0 };
	rewinddir(open);
	while ((entry = readdir(open))) {
		if (!is_socket(entry->d_name))
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= sizeof(path))
			return fail(client, dir, strerror(ENAMETOOLONG));
		if (live && is_dead(path))
			continue;
		if (!found->nr++)
			strcpy(client->path, path);
		if (found->len < sizeof(found->names))
			found->len += (size_t)snprintf(found->names + found->len,
						       sizeof(found->names) - found->len, " %s",
						       entry->d_name);
	}
	return found->nr;
}

/* Where there are several, those of dead engines do not count. */
static int choose(struct client *client, const char *dir, DIR *open)
{
	struct found found;
	int nr = look_in(client, dir, open, false, &found);

	if (nr > 1)
		nr = look_in(client, dir, open, true, &found);
	else if (!nr)
		return fail(client, dir, "there is no socket; no engine serves one here");
	if (nr < 0 || nr == 1)
		return nr < 0 ? nr : 0;
	if (!nr)
		return fail(client, dir, "nobody listens at any socket here; the engines have ended");
	snprintf(client->why, sizeof(client->why),
		 "%s: there are several sockets:%s%s; name one by --socket", dir, found.names,
		 found.len < sizeof(found.names) ? "" : "...");
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
	ret = choose(client, dir, open);
	closedir(open);
	return ret;
}
