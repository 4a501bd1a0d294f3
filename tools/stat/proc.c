// SPDX-License-Identifier: Apache-2.0
/*
 * What an engine says in layouts of the kernel, as files below a folder, for what reads /proc:
 * node-exporter has an option for where that is.
 *
 * A reader sees a whole file, the old one or the new: each is written beside, and renamed. All are asked
 * for before any is written. Where the engine has gone between two rounds they are taken away, since old
 * numbers look like those of an engine that rests.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../client/client.h"
#include "../tool.h"
#include "live.h"

#define MAX_PATH	4096

/* node-exporter reads all three pressures or none, and no pool waits for a processor or a disk. */
#define NO_SOME		"some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
#define NO_FULL		"full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"

static const struct {
	const char *name;
	const char *command;	/* NULL: ->text */
	const char *text;
	bool of_pool;		/* the command takes one */
} files[] = {
	{ "buddyinfo", "buddyinfo", NULL, true },
	{ "pagetypeinfo", "pagetypeinfo", NULL, true },
	{ "vmstat", "vmstat", NULL, true },
	{ "slabinfo", "slabinfo", NULL, false },
	{ "pressure/memory", "pressure-text", NULL, true },
	{ "pressure/cpu", NULL, NO_SOME NO_FULL, false },
	{ "pressure/io", NULL, NO_SOME NO_FULL, false },
};
#define NR_FILES (sizeof(files) / sizeof(files[0]))

struct proc {
	const struct client_options *opt;
	const char *dir;
	struct client client;
	struct answer answer[NR_FILES];
};

static int fail(const char *path)
{
	return complain(EXIT_WRONG, "%s: %s", path, strerror(errno));
}

static void path_of(const struct proc *proc, unsigned int i, char path[MAX_PATH])
{
	snprintf(path, MAX_PATH, "%s/%s", proc->dir, files[i].name);
}

/* ---- asking ---- */

static void forget(struct proc *proc)
{
	for (unsigned int i = 0; i < NR_FILES; i++) {
		answer_free(&proc->answer[i]);
		proc->answer[i] = (struct answer){ 0 };
	}
}

static int ask(struct proc *proc)
{
	const char *pool = proc->opt->pool;

	for (unsigned int i = 0; i < NR_FILES; i++) {
		const char *of = files[i].of_pool && pool ? pool : "";

		if (files[i].command && client_call(&proc->client, &proc->answer[i], "%s%s%s",
						    files[i].command, *of ? " " : "", of))
			return complain(EXIT_WRONG, "%s", proc->client.why);
	}
	return EXIT_GOOD;
}

/* ---- writing ---- */

static int write_whole(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t nr = write(fd, text, bytes);

		if (nr < 0 && errno != EINTR)
			return -1;
		text += nr > 0 ? nr : 0;
		bytes -= nr > 0 ? (size_t)nr : 0;
	}
	return 0;
}

/* Nobody's link is followed. What a run that died has left is in the way once. */
static int open_new(const char *path)
{
	unlink(path);
	return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
}

static int put_file(const char *path, const char *text, size_t bytes)
{
	char new[MAX_PATH + 8];
	int fd, bad;

	snprintf(new, sizeof(new), "%s.new", path);
	fd = open_new(new);
	if (fd < 0)
		return fail(new);
	bad = write_whole(fd, text, bytes);
	bad |= close(fd);
	if (!bad && !rename(new, path))
		return EXIT_GOOD;
	fail(path);
	unlink(new);
	return EXIT_WRONG;
}

static int put_all(struct proc *proc)
{
	char path[MAX_PATH];
	int code = EXIT_GOOD;

	for (unsigned int i = 0; i < NR_FILES && !code; i++) {
		const char *text = files[i].command ? proc->answer[i].text : files[i].text;

		path_of(proc, i, path);
		code = put_file(path, text, files[i].command ? proc->answer[i].bytes : strlen(text));
	}
	return code;
}

static void remove_all(const struct proc *proc)
{
	char path[MAX_PATH];

	for (unsigned int i = 0; i < NR_FILES; i++) {
		path_of(proc, i, path);
		unlink(path);
	}
}

static int make_folders(const char *dir)
{
	char below[MAX_PATH];

	if ((size_t)snprintf(below, sizeof(below), "%s/pressure", dir) + 16 > sizeof(below)) {
		errno = ENAMETOOLONG;
		return fail(dir);
	}
	if (mkdir(dir, 0755) && errno != EEXIST)
		return fail(dir);
	if (mkdir(below, 0755) && errno != EEXIST)
		return fail(below);
	return EXIT_GOOD;
}

static int round_of(struct proc *proc)
{
	int code = ask(proc);

	if (!code)
		code = put_all(proc);
	forget(proc);
	return code;
}

int live_proc(const struct client_options *opt, const char *dir)
{
	struct proc proc = { .opt = opt, .dir = dir };
	int code;

	if (client_open(&proc.client, opt->socket))
		return complain(EXIT_WRONG, "%s", proc.client.why);
	code = make_folders(dir);
	if (!code)
		code = round_of(&proc);
	for (unsigned long i = 1; !code && opt->interval > 0 && (!opt->count || i < opt->count); i++) {
		sleep_for(opt->interval);
		code = round_of(&proc);
		if (code)
			remove_all(&proc);
	}
	client_close(&proc.client);
	return code;
}
