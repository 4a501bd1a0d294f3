// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/test.h"
#include "control_util.h"

#define HEARD_BYTES	(8u << 20)

char folder[64];

void folder_make(void)
{
	strcpy(folder, "/tmp/kvmm-control-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

void folder_remove(void)
{
	cr_expect_eq(rmdir(folder), 0, "%s: %s", folder, strerror(errno));
}

struct kvmm_control *control_in_folder(const struct kvmm_control_attr *from)
{
	const struct kvmm_control_attr preset = KVMM_CONTROL_ATTR_INIT;
	struct kvmm_control_attr attr = from ? *from : preset;
	struct kvmm_control *control = NULL;

	attr.dir = folder;
	attr.name = attr.name ? attr.name : "test";
	cr_assert_eq(kvmm_control_open(&attr, &control), 0);
	return control;
}

void control_settle(struct kvmm_control *control)
{
	for (int i = 0, quiet = 0; i < 1000 && quiet < 3; i++) {
		int ret = kvmm_control_poll(control);

		cr_assert_geq(ret, 0);
		quiet = ret ? quiet + 1 : 0;
	}
}

int connect_to(const struct kvmm_control *control)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(addr.sun_path, kvmm_control_path(control));
	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0, "%s",
		     strerror(errno));
	return fd;
}

int visitor(struct kvmm_control *control)
{
	int fd = connect_to(control);

	control_settle(control);
	cr_assert_str_eq(hear(fd), "kvmm-control 1 test\n");
	return fd;
}

void say(int fd, const char *text)
{
	size_t len = strlen(text);

	cr_assert_eq(send(fd, text, len, MSG_NOSIGNAL), (ssize_t)len);
}

const char *hear(int fd)
{
	static char heard[HEARD_BYTES + 1];
	size_t nr = 0;
	ssize_t got;

	while (nr < HEARD_BYTES && (got = recv(fd, heard + nr, HEARD_BYTES - nr, 0)) > 0)
		nr += got;
	heard[nr] = '\0';
	return heard;
}

int is_closed(int fd)
{
	char byte;
	ssize_t nr = recv(fd, &byte, 1, 0);

	return !nr || (nr < 0 && errno == ECONNRESET);
}

const char *ask(struct kvmm_control *control, int fd, const char *line)
{
	say(fd, line);
	say(fd, "\n");
	control_settle(control);
	return hear(fd);
}

bool has(const char *answer, const char *part)
{
	bool found = strstr(answer, part);

	cr_expect(found, "no '%s' in '%s'", part, answer);
	return found;
}

const char *cell(const char *answer, const char *column)
{
	static char text[64];
	const char *head = strchr(answer, '#'), *row = head ? strchr(head, '\n') : NULL;
	size_t len = strlen(column);

	cr_assert(row, "%s", answer);
	for (head++, row++; strncmp(head, column, len) || !strchr(":\t\n", head[len]); head++, row++) {
		head += strcspn(head, "\t\n");
		row += strcspn(row, "\t\n");
		cr_assert(*head == '\t' && *row == '\t', "no column '%s' in '%s'", column, answer);
	}
	snprintf(text, sizeof(text), "%.*s", (int)strcspn(row, "\t\n"), row);
	return text;
}
